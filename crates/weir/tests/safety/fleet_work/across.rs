//! From one prefix to another of one store, which copies by itself: what a list names is held to its digest,
//! and what is there is known for what it is.

use super::bed::status_at;
use crate::support::bucket::{Bucket, Fault};
use crate::support::listed::weir_of;
use crate::support::{Request, Run, Sandbox};
use weir_codec::{Algorithm, hex};

/// Plans what `list` names from `s3://b/p/` to `s3://b/q/`, and works on it.
fn moved(bucket: &Bucket, sandbox: &Sandbox, list: &str, ledger: &str) -> Run {
    sandbox.write("list", list);
    let run = |args: &[&str]| weir_of(sandbox, &bucket.server.url(""), args).run();
    run(&["fleet", "plan", "--list", "list", "s3://b/p/", "s3://b/q/", "--ledger", ledger]).succeeds();
    run(&["fleet", "work", "--ledger", ledger])
}

/// How often something of the source was fetched.
fn fetched_of(bucket: &Bucket) -> usize {
    let is_one = |request: &Request| request.method == "GET" && request.path().contains("/p/");
    bucket.server.requests().iter().filter(|seen| is_one(&seen.request)).count()
}

#[test]
fn what_has_another_digest_than_the_list_says_is_not_copied() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let sha256 = |bytes: &[u8]| format!("sha256:{}", hex::encode(&Algorithm::SHA256.of(bytes)));
    bucket.hold("p/right", b"1234567".to_vec());
    bucket.hold("p/wrong", b"7654321".to_vec());
    bucket.hold("p/there", b"7654321".to_vec());
    bucket.hold("q/there", b"7654321".to_vec());
    let meant = sha256(b"1234567");
    let list = format!("right\t\t7\t{meant}\nwrong\t\t7\t{meant}\nthere\t\t7\t{meant}\n");
    let run = moved(&bucket, &sandbox, &list, "a.db");
    run.fails(1, &["sha256 of s3://b/p/wrong is not", "nothing is copied", "moved 1 object", "2 failed"]);
    assert_eq!(bucket.bytes("q/right"), b"1234567");
    assert!(!bucket.holds().objects.contains_key("q/wrong"));
    let status = status_at(&sandbox.path("a.db"));
    assert_eq!((status.failures.len(), &*status.failures[0].class), (1, "digest"), "{status:?}");
    // The store keeps one of this kind: it is asked for no byte.
    bucket.holds().keeps_no_sums = true;
    let md5 = format!("md5:{}", hex::encode(&Algorithm::MD5.of(b"1234567")));
    let fetched = fetched_of(&bucket);
    let list = format!("right\tmd5\t7\t{md5}\nwrong\tmd5-wrong\t7\t{md5}\n");
    let run = moved(&bucket, &sandbox, &list, "b.db");
    run.fails(1, &["md5 of s3://b/p/wrong is not", "moved 1 object", "1 failed"]);
    assert_eq!((fetched_of(&bucket), bucket.bytes("q/md5")), (fetched, b"1234567".to_vec()));
}

/// By the digest that the store keeps, or by the bytes where it keeps none of the kind.
#[test]
fn the_content_of_what_is_in_a_store_is_checked() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let run = |args: &[&str]| weir_of(&sandbox, &bucket.server.url(""), args).run();
    let check = ["fleet", "check", "--digests", "--ledger", "a.db"];
    bucket.holds().keeps_no_sums = true;
    ["p/read", "p/kept", "p/bare"].iter().for_each(|key| bucket.hold(key, b"1234567".to_vec()));
    let of = |kind: Algorithm| format!("{}:{}", kind.name(), hex::encode(&kind.of(b"1234567")));
    let (sha256, md5) = (of(Algorithm::SHA256), of(Algorithm::MD5));
    let list = format!("read\t\t7\t{sha256}\nkept\t\t7\t{md5}\nbare\t\t7\n");
    moved(&bucket, &sandbox, &list, "a.db").succeeds();
    let said = |run: &Run| String::from_utf8_lossy(&run.exits(1).stdout).into_owned();
    let text = said(&run(&check));
    assert!(text.contains("content: 2 objects compared, 0 differ"), "{text}");
    assert!(text.contains("1 were not compared"), "{text}");
    // One byte each; the tag of what is read stays.
    for key in ["q/read", "q/kept"] {
        let stored = bucket.holds().objects.remove(key).unwrap();
        bucket.hold(key, b"1234568".to_vec());
        if key == "q/read" {
            bucket.holds().objects.get_mut(key).unwrap().tag = stored.tag;
        }
    }
    let text = said(&run(&check));
    assert!(text.contains("content: 2 objects compared, 2 differ"), "{text}");
    assert!(text.contains("s3://b/q/read has not the sha256"), "{text}");
    assert!(text.contains("s3://b/q/kept has not the md5"), "{text}");
    // What came from a folder is held against its file.
    std::fs::create_dir(sandbox.path("from")).unwrap();
    sandbox.write("from/f", b"1234567");
    run(&["fleet", "plan", "from/", "s3://b/f/", "--ledger", "f.db"]).succeeds();
    run(&["fleet", "work", "--ledger", "f.db"]).succeeds();
    let check_files = ["fleet", "check", "--digests", "--ledger", "f.db"];
    run(&check_files).succeeds();
    bucket.hold("f/f", b"1234568".to_vec());
    let text = said(&run(&check_files));
    assert!(text.contains("s3://b/f/f differs from"), "{text}");
}

/// A worker that was killed has copied it: its tag is another than that of the source, which came in parts.
#[test]
fn a_copy_of_an_object_of_parts_is_known_by_its_bytes() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    for (key, bytes) in [("whole", [1; 1000]), ("parts", [2; 1000]), ("other", [3; 1000])] {
        bucket.hold(&format!("p/{key}"), bytes.to_vec());
        bucket.hold(&format!("q/{key}"), if key == "other" { vec![4; 1000] } else { bytes.to_vec() });
    }
    bucket.holds().keeps_no_sums = true;
    for (key, parts) in [("p/whole", 2), ("p/parts", 2), ("q/parts", 3), ("p/other", 2), ("q/other", 3)] {
        let tag = format!("\"{}-{parts}\"", "0".repeat(32));
        bucket.holds().objects.get_mut(key).unwrap().tag = tag;
    }
    let run = moved(&bucket, &sandbox, "whole\t\t1000\nparts\t\t1000\nother\t\t1000\n", "a.db");
    run.fails(1, &["s3://b/q/other exists and is not what the source has; it is kept", "2 already there"]);
    assert!(bucket.bytes("q/other") == vec![4; 1000], "a foreign object stays");
}

/// Between the look and the copy somebody takes the key: what the store is told to copy is told to be new.
#[test]
fn what_takes_a_key_after_the_look_is_kept() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    for key in ["p/new", "p/taken", "p/ours", "q/ours"] {
        bucket.hold(key, b"1234567".to_vec());
    }
    bucket.hold("q/taken", b"7654321".to_vec());
    let mut looked = std::collections::HashSet::new();
    bucket.hook(move |request| {
        let is_first = request.method == "HEAD" && looked.insert(request.target.clone());
        let is_late = is_first && request.path().contains("/q/");
        is_late.then(|| Fault::Answer("404 Not Found", String::new()))
    });
    let run = moved(&bucket, &sandbox, "new\t\t7\ntaken\t\t7\nours\t\t7\n", "a.db");
    let kept = "s3://b/q/taken exists and is not what the source has; it is kept";
    run.fails(1, &[kept, "moved 1 object", "1 already there", "1 failed"]);
    assert_eq!(bucket.bytes("q/taken"), b"7654321");
    assert_eq!(bucket.bytes("q/new"), b"1234567");
    let status = status_at(&sandbox.path("a.db"));
    assert_eq!((status.failures.len(), &*status.failures[0].class), (1, "name"), "{status:?}");
    // A store that does not know the condition copies by the look alone.
    let refusals = [("501 Not Implemented", "NotImplemented"), ("400 Bad Request", "InvalidRequest")];
    for (status, key) in refusals {
        let xml = format!("<Error><Code>{key}</Code><Message>no</Message></Error>");
        bucket.hook(move |request| {
            let is_conditional = request.field("if-none-match").is_some();
            (request.method == "PUT" && is_conditional).then(|| Fault::Answer(status, xml.clone()))
        });
        bucket.hold(&format!("p/{key}"), b"1234567".to_vec());
        moved(&bucket, &sandbox, &format!("{key}\t\t7\n"), &format!("{key}.db")).succeeds();
        assert_eq!(bucket.bytes(&format!("q/{key}")), b"1234567");
    }
}

/// What stands for a folder is an object that another prefix can hold, as for `weir cp`.
#[test]
fn what_stands_for_a_folder_is_copied_and_a_prefix_with_nothing_in_it_is_an_error() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let run = |args: &[&str]| weir_of(&sandbox, &bucket.server.url(""), args).run();
    let empty = run(&["fleet", "plan", "s3://b/", "out", "--ledger", "empty.db"]);
    assert!(String::from_utf8_lossy(&empty.succeeds().stdout).contains("planned 0 objects"));
    bucket.hold("p/in/", Vec::new());
    bucket.hold("p/k", b"7".to_vec());
    run(&["fleet", "plan", "s3://b/tpyo/", "s3://b/q/", "--ledger", "typo.db"])
        .fails(1, &["cannot plan s3://b/tpyo/: the bucket holds nothing of that name"]);
    run(&["fleet", "plan", "s3://b/p/", "s3://b/q/", "--ledger", "a.db"]).succeeds();
    run(&["fleet", "work", "--ledger", "a.db"]).succeeds().says(&["moved 2 objects"]);
    assert_eq!((bucket.bytes("q/in/"), bucket.bytes("q/k")), (Vec::new(), b"7".to_vec()));
    run(&["fleet", "check", "--source", "--ledger", "a.db"]).succeeds();
    // A folder has no such files.
    run(&["fleet", "plan", "s3://b/p/", "out", "--ledger", "folder.db"]).succeeds();
    run(&["fleet", "work", "--ledger", "folder.db"]).succeeds().says(&["moved 1 object,"]);
}
