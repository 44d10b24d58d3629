//! `weir ls`: buckets, folders, objects; pages of every kind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::BTreeSet;
use std::io;

use support::listed::{ListedBucket, Manner, weir_of};
use support::{Request, Run, Sandbox, Server, Wire};

/// Keys that a shell, an encoding or a terminal makes something else of.
const ODD: [&str; 9] =
    ["a//b", "%2F%", "new\nline", "dir/", "plus+ sp", "\u{1b}[2J", "\u{e9}", "*?[", "a/../b"];

fn lines(run: &Run) -> Vec<String> {
    String::from_utf8(run.stdout.clone()).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn keys_come_out_right_whatever_the_pages_are_like() {
    let long = "k".repeat(1024);
    let many: Vec<String> = (0..2500).map(|number| format!("many/{}/{number}", number % 7)).collect();
    let mut objects: Vec<(&str, &[u8])> = many.iter().map(|key| (key.as_str(), &b"xyz"[..])).collect();
    objects.extend(ODD.iter().map(|key| (*key, &b"odd"[..])));
    objects.push((&long, b""));
    let expected: BTreeSet<String> = objects.iter().map(|(key, _)| (*key).to_owned()).collect();
    for manner in [Manner::InOrder, Manner::Disordered, Manner::SlowDown, Manner::V1, Manner::RefusesV2] {
        let bucket = ListedBucket::start(&objects, manner, 997);
        let sandbox = Sandbox::new();
        let run = bucket.weir(&sandbox, &["ls", "-r", "--json", "s3://b"]).run();
        run.succeeds();
        let mut seen = BTreeSet::new();
        for line in lines(&run) {
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            let key = line["key"].as_str().unwrap().to_owned();
            assert_eq!(line["size"], if key == long { 0 } else { 3 }, "{key}");
            assert_eq!(line["modified"], "2026-11-26T10:00:00Z");
            assert!(seen.insert(key.clone()), "{manner:?}: {key} twice");
        }
        assert!(seen == expected, "{manner:?}: {} of {}", seen.len(), expected.len());
        let run = bucket.weir(&sandbox, &["ls", "-r", "--summarize", "s3://b/many/"]).run();
        run.succeeds();
        assert_eq!(lines(&run).pop().unwrap(), "total: 2500 objects, 7500 bytes", "{manner:?}");
    }
}

#[test]
fn a_link_to_an_object_is_answered_with_its_address() {
    let sandbox = Sandbox::new();
    let link = "https://b.s3.eu-north-1.amazonaws.com/a/k";
    let run = sandbox.weir(support::WEIR, ["ls", link]).run();
    run.fails(2, &["cannot list", "weir ls takes it as s3://b/a/k"]);
}

#[test]
fn folders_patterns_and_names() {
    let objects: [(&str, &[u8]); 6] = [
        ("logs/a.gz", b"1"),
        ("logs/b.gz", b"22"),
        ("logs/c.txt", b""),
        ("logs/old/d.gz", b""),
        ("x", b""),
        ("\u{1b}[2J\n", b""),
    ];
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 2);
    let sandbox = Sandbox::new();
    for (args, expected) in [
        (&["s3://b"][..], &["s3://b/\\u{1b}[2J\\n", "s3://b/logs/", "s3://b/x"][..]),
        (
            &["s3://b/logs"],
            &["s3://b/logs/a.gz", "s3://b/logs/b.gz", "s3://b/logs/c.txt", "s3://b/logs/old/"],
        ),
        (&["s3://b/logs/*.gz"], &["s3://b/logs/a.gz", "s3://b/logs/b.gz"]),
        (&["s3://b/logs/**.gz"], &["s3://b/logs/a.gz", "s3://b/logs/b.gz", "s3://b/logs/old/d.gz"]),
        (&["s3://b/logs/?[!b].gz"], &[]),
        (&["s3://b/x"], &["s3://b/x"]),
        (&["-lh", "s3://b/logs/b"], &["           2 B  2026-11-26 10:00:00  STANDARD      s3://b/logs/b.gz"]),
    ] {
        let run = bucket.weir(&sandbox, &[&["ls"], args].concat()).run();
        assert_eq!(lines(&run), expected, "{args:?}: {}", run.stderr);
        run.exits(i32::from(expected.is_empty()));
    }
    let missing = bucket.weir(&sandbox, &["ls", "s3://b/none"]).run();
    missing.fails(1, &["cannot list s3://b/none", "nothing that begins so"]);
    for (wrong, says) in [
        ("/tmp", "ls lists folders of this machine"),
        ("https://h/x", "s3://BUCKET"),
        ("s3://a b", "no name of a bucket"),
    ] {
        bucket.weir(&sandbox, &["ls", wrong]).run().fails(2, &[says]);
    }
}

/// A pattern that is a key is that key, and what is printed names the object that it is of.
#[test]
fn a_key_is_named_by_its_letters() {
    let objects: [(&str, &[u8]); 3] = [("b[1].txt", b"1"), ("b1.txt", b"2"), ("k?versionId=zz", b"3")];
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 100);
    let sandbox = Sandbox::new();
    let listed = |url: &str| lines(bucket.weir(&sandbox, &["ls", url]).run().succeeds());
    assert_eq!(listed("s3://b/b[1].txt"), ["s3://b/b[1].txt"]);
    assert_eq!(listed("s3://b/b[12].txt"), ["s3://b/b1.txt"]);
    let named = listed("s3://b/k");
    assert_eq!(named, ["s3://b/k\\?versionId=zz"]);
    let named = named[0].as_str();
    for args in [["get", named, "-o", "got"].as_slice(), &["cp", named, "copied"]] {
        bucket.weir(&sandbox, args).run().succeeds();
    }
    assert_eq!((sandbox.read("got"), sandbox.read("copied")), (b"3".to_vec(), b"3".to_vec()));
}

#[test]
fn a_broken_list_is_an_error_and_says_how() {
    let keys: Vec<String> = (0..10).map(|number| format!("k{number}")).collect();
    let objects: Vec<(&str, &[u8])> = keys.iter().map(|key| (key.as_str(), &b"x"[..])).collect();
    for (manner, says) in [
        (Manner::Cut, "ends in the middle"),
        (Manner::Repeated, "the list goes round"),
        (Manner::NoToken, "gives no token to go on with"),
        (Manner::SecondDenied, "AccessDenied"),
    ] {
        let bucket = ListedBucket::start(&objects, manner, 3);
        let sandbox = Sandbox::new();
        let run = bucket.weir(&sandbox, &["ls", "s3://b"]).run();
        run.fails(1, &["cannot list s3://b/", says]).hides("a-secret-of-tests");
        // What came before is told.
        assert_eq!(run.stdout.is_empty(), matches!(manner, Manner::Cut | Manner::NoToken), "{manner:?}");
    }
}

#[test]
fn no_size_is_beyond_what_a_file_may_have_and_no_sum_overflows() {
    let list = |size: u64| {
        let objects: String = (0..3)
            .map(|number| format!("<Contents><Key>p/{number}</Key><Size>{size}</Size></Contents>"))
            .collect();
        format!("<ListBucketResult><IsTruncated>false</IsTruncated>{objects}</ListBucketResult>")
    };
    let largest = i64::MAX.unsigned_abs();
    for (size, says) in [
        (largest, Ok(format!("total: 3 objects, {} bytes", u64::MAX))),
        (largest + 1, Err("does not say how large 'p/0' is")),
        (u64::MAX, Err("does not say how large 'p/0' is")),
    ] {
        let (server, sandbox) = (Server::start(answers(list(size))), Sandbox::new());
        let asked = |args: &[&str]| weir_of(&sandbox, &server.url(""), args).run();
        let (ls, plan) = (asked(&["ls", "--summarize", "s3://b/p/"]), asked(&["plan", "s3://b/p/", "out"]));
        match says {
            Ok(total) => {
                assert_eq!(lines(ls.succeeds()).pop().unwrap(), total);
                plan.succeeds();
            }
            Err(says) => {
                ls.fails(1, &[says]);
                plan.fails(1, &[says]);
            }
        }
    }
}

/// The same answer to everything.
fn answers(body: String) -> impl Fn(&Request, &mut Wire) -> io::Result<()> + Send + Sync + 'static {
    move |_, wire| wire.answer("200 OK", &[], body.as_bytes())
}

#[test]
fn buckets_of_a_store_and_one_that_is_not_there() {
    let Some(moto) = support::http_servers::moto() else {
        return support::skip("no moto: scripts/need test");
    };
    let sandbox = Sandbox::new();
    let endpoint = format!("http://127.0.0.1:{}", moto.port);
    super::store_tree::make_bucket(&endpoint, "bucket-of-tests");
    let run = weir_of(&sandbox, &endpoint, &["ls", "s3://"]).run();
    run.succeeds();
    assert_eq!(lines(&run), ["s3://bucket-of-tests"]);
    weir_of(&sandbox, &endpoint, &["ls", "s3://bucket-of-tests"]).run().succeeds();
    let run = weir_of(&sandbox, &endpoint, &["ls", "s3://no-such-bucket-here"]).run();
    run.fails(1, &["NoSuchBucket", "no-such-bucket-here"]);
}
