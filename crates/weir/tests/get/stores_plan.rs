//! `weir plan` with a store on either side: parts and requests as a copy has them, what they cost, how long
//! it takes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use support::bucket::Bucket;
use support::listed::{ListedBucket, Manner, weir_of};
use support::{MIB, Run, Sandbox, WEIR, pattern};

fn plan(sandbox: &Sandbox, endpoint: &str, args: &[&str]) -> Run {
    weir_of(sandbox, endpoint, &[&["plan"], args].concat()).run()
}

/// A tree whose forecast is what `weir put` asks for then.
#[test]
fn an_upload_is_as_planned() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    std::fs::create_dir(sandbox.path("tree")).unwrap();
    for (name, size) in [("tree/none", 0), ("tree/small", 1000), ("tree/large", 20 * MIB)] {
        sandbox.write(name, pattern(size, 1));
    }
    let nowhere = "http://127.0.0.1:1";
    let link = ["--link", "100MB/s", "--rtt", "30ms", "--price-write", "0.005"];
    let run = plan(&sandbox, nowhere, &[&["--json", "tree/", "s3://b/p/"], &link[..]].concat());
    let planned = run.succeeds().hides("a-secret-of-tests").json()["store_plan"].clone();
    assert_eq!((planned["objects"].as_u64(), planned["parts"].as_u64()), (Some(3), Some(3)));
    assert_eq!(planned["least_part"].as_u64(), Some(8 << 20));
    assert_eq!(planned["forecast"][0]["limit"], "path-bandwidth");
    bucket.put(&sandbox, &["tree/", "s3://b/p/"]).run().succeeds();
    let sent = bucket.server.requests().len() as u64;
    // A copy lists what is there as well, which put does not.
    assert_eq!(planned["writes"].as_u64().unwrap() - 1, sent, "{planned}");
    let cost = planned["cost"]["usd"].as_f64().unwrap();
    assert!((cost - planned["writes"].as_f64().unwrap() * 0.000_005).abs() < 1e-9, "{planned}");
    let text = plan(&sandbox, nowhere, &["tree/", "s3://b/p/", "--price-write", "1", "--price-read", "0"]);
    let text = said(&text);
    for says in [
        "3 objects, 21.0 MB, to s3://b/p/",
        "parts: 3 of 8.39 MB",
        "they cost $0.0090: $1 a thousand that write or list (--price-write);",
        "--link RATE",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
}

fn said(run: &Run) -> String {
    String::from_utf8(run.succeeds().stdout.clone()).unwrap()
}

/// A plan counts what a copy would move, by the copy's flags, and refuses those that it refuses.
#[test]
fn a_plan_chooses_as_the_copy_does() {
    let (small, large) = (&b"abc"[..], &[7; 5000][..]);
    let files = [("keep.txt", small), ("drop.tmp", small), ("sub/keep.txt", small), ("sub/large.txt", large)];
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("tree/sub")).unwrap();
    let keys: Vec<(String, &[u8])> =
        files.iter().map(|(name, bytes)| (format!("p/{name}"), *bytes)).collect();
    for (name, bytes) in files {
        sandbox.write(&format!("tree/{name}"), bytes);
    }
    symlink("keep.txt", sandbox.path("tree/link.txt")).unwrap();
    let objects: Vec<(&str, &[u8])> = keys.iter().map(|(key, bytes)| (key.as_str(), *bytes)).collect();
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 1000);
    let url = bucket.server.url("");
    // The link is none of the files; each row has those of four that are left.
    let rows: [(&[&str], u64); 6] = [
        (&[], 4),
        (&["--exclude", "*.tmp"], 3),
        (&["--max-size", "1k"], 3),
        (&["--min-size", "1k"], 1),
        (&["--exclude", "/sub/", "--exclude", "*.tmp"], 1),
        (&["--exclude", "link.txt", "-L", "--exclude", "sub/"], 2),
    ];
    for (flags, left) in rows {
        for ends in [["tree/", "s3://b/new/"], ["s3://b/p/", "here"], ["s3://b/p/", "s3://b/q/"]] {
            let args = [&["--json"], &ends[..], flags].concat();
            let planned = plan(&sandbox, &url, &args).succeeds().json()["store_plan"].clone();
            let copied = bucket.weir(&sandbox, &[&["cp", "-n"], &args[..]].concat()).run().json();
            let counts = (planned["objects"].as_u64(), copied["cp"]["files"].as_u64());
            assert_eq!(counts, (Some(left), Some(left)), "{args:?}: {planned} {copied}");
        }
    }
    let text = said(&plan(&sandbox, &url, &["tree/", "s3://b/new/"]));
    assert!(text.contains("1 symbolic link not counted") && text.contains("-L copies"), "{text}");
    for flags in [&["--plain"][..], &["--backup"], &["--files-from", "list"], &["--transport", "ssh"]] {
        let ends = ["tree/", "s3://b/new/"];
        let refused = plan(&sandbox, &url, &[&ends[..], flags].concat());
        refused.fails(2, &[&format!("{} does not go with a store", flags[0])]);
        bucket.weir(&sandbox, &[&["cp"], &ends[..], flags].concat()).run().fails(2, &[flags[0]]);
    }
    plan(&sandbox, &url, &["--delete", "s3://b/p/*", "here"]).fails(2, &["--delete would remove all"]);
    plan(&sandbox, &url, &["s3://b/p/", "s3://b/p/q/"]).fails(2, &["one lies in the other"]);
}

/// A path is whatever bytes the system has.
#[test]
fn a_folder_whose_name_is_no_text_is_looked_at() {
    let sandbox = Sandbox::new();
    let folder = OsStr::from_bytes(b"caf\xe9/");
    std::fs::create_dir(sandbox.path(folder)).unwrap();
    std::fs::write(sandbox.path(folder).join("a"), "abc").unwrap();
    let mut weir = weir_of(&sandbox, "http://127.0.0.1:1", &["plan", "--json"]);
    weir.command.arg(folder).arg("s3://b/p/");
    assert_eq!(weir.run().succeeds().json()["store_plan"]["objects"].as_u64(), Some(1));
}

#[test]
fn what_a_store_holds_is_listed_for_a_download() {
    let names: Vec<String> = (0..2500).map(|number| format!("p/{number}")).collect();
    let objects: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"abc"[..])).collect();
    let bucket = ListedBucket::start(&objects, Manner::Disordered, 1000);
    let sandbox = Sandbox::new();
    let url = bucket.server.url("");
    let run = plan(&sandbox, &url, &["--json", "s3://b/p/", "here", "--link", "1Gbit", "--rtt", "100ms"]);
    let planned = run.succeeds().json()["store_plan"].clone();
    assert_eq!((planned["reads"].as_u64(), planned["writes"].as_u64()), (Some(2500), Some(3)));
    assert_eq!(planned["forecast"][0]["limit"], "request-response");
    assert_eq!(bucket.fetched(), 0);
    // Within a store, and from one to another.
    let of = |args: &[&str]| plan(&sandbox, &url, args).succeeds().json()["store_plan"].clone();
    let within = of(&["--json", "s3://b/p/", "s3://b/q/"]);
    assert_eq!((within["reads"].as_u64(), within["writes"].as_u64()), (Some(0), Some(2500 + 3 + 1)));
    let one = of(&["--json", "s3://b/p/7", "s3://b/q/"]);
    assert_eq!(one["objects"].as_u64(), Some(1));
    plan(&sandbox, &url, &["s3://b/none/", "here"]).fails(1, &["the bucket holds nothing of that name"]);
    plan(&sandbox, &url, &["s3://b/p/"]).fails(2, &["expected SRC and DST"]);
    plan(&sandbox, &url, &["none-such", "s3://b/"]).fails(1, &["cannot read none-such"]);
}

/// A list price is the vendor's, at the vendor's service; a price that the user gives is of one class.
#[test]
fn no_price_is_made_up() {
    let bucket = ListedBucket::start(&[("p/a", b"abc")], Manner::InOrder, 1000);
    let sandbox = Sandbox::new();
    let at_own = |args: &[&str]| plan(&sandbox, &bucket.server.url(""), args);
    let from = ["s3://b/p/", "here"];
    let of = |args: &[&str]| {
        let run = at_own(&[&["--json"], &from[..], args].concat());
        run.succeeds().json()["store_plan"].clone()
    };
    let unknown = of(&[]);
    assert!(unknown["cost"].is_null(), "{unknown}");
    assert!(unknown["notes"].to_string().contains("--price-write and --price-read"), "{unknown}");
    let half = of(&["--price-write", "2"]);
    assert!(half["cost"]["usd"].is_null() && half["cost"]["read_per_1000"].is_null(), "{half}");
    let notes = half["notes"].to_string();
    assert!(notes.contains("set it by --price-read") && !notes.contains("--price-write"), "{half}");
    assert!(!said(&at_own(&[&from[..], &["--price-write", "2"]].concat())).contains("they cost"));
    let whole = of(&["--price-write", "2", "--price-read", "1"]);
    // A page of the list, and the object.
    assert_eq!(whole["cost"]["usd"].as_f64(), Some(0.003), "{whole}");

    let args = ["plan", "--json", "--size", "1G", "x", "s3://b/k", "--no-sign", "--price-read", "1"];
    let listed = sandbox.weir(WEIR, args).env("AWS_REGION", "us-east-1").run().succeeds().json();
    let cost = &listed["store_plan"]["cost"];
    let origins = (cost["write_origin"].as_str().unwrap(), cost["read_origin"].as_str().unwrap());
    assert!(origins.0.contains("Amazon's list price") && origins.1 == "--price-read", "{cost}");
}

#[test]
fn a_store_whose_price_is_not_known() {
    let sandbox = Sandbox::new();
    let args = ["--json", "--size", "1T", "x", "az://c@acc/k", "--no-sign"];
    let planned = plan(&sandbox, "http://127.0.0.1:1", &args).succeeds().json()["store_plan"].clone();
    assert!(planned["cost"].is_null() && planned["notes"].to_string().contains("--price-write"), "{planned}");
    assert!(planned["parts"].as_u64().unwrap() > 1000);
    plan(&sandbox, "http://127.0.0.1:1", &["--size", "6T", "x", "s3://b/k"])
        .fails(2, &["more than the store takes"]);
}
