//! `weir plan` with a store on either side: parts and requests as a copy has them, what they cost, how long
//! it takes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use support::bucket::Bucket;
use support::listed::{ListedBucket, Manner, weir_of};
use support::{MIB, Run, Sandbox, pattern};

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
    let run =
        plan(&sandbox, nowhere, &["--json", "tree/", "s3://b/p/", "--link", "100MB/s", "--rtt", "30ms"]);
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
    let text = String::from_utf8(text.succeeds().stdout.clone()).unwrap();
    for says in [
        "3 objects, 21.0 MB, to s3://b/p/",
        "parts: 3 of 8.39 MB",
        "they cost $0.0090",
        "--price-write",
        "--link RATE",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
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
