//! From one prefix to another of one store, which copies by itself: what a list names is held to its digest,
//! and what is there is known for what it is.

use super::bed::status_at;
use crate::support::bucket::Bucket;
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
