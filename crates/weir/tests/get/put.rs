//! `weir put` to a bucket that does as it should: what is stored is what was sent, in one request or in
//! parts, from files, folders and stdin.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::sync::Arc;

use rustix::process::Signal;
use support::bucket::{Bucket, Fault};
use support::{MIB, Sandbox, Server, pattern, wait_for};

/// What no test may find anywhere.
const SECRET: &str = "a-secret-of-tests";

#[test]
fn sizes_around_what_one_request_and_a_part_hold() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    for size in [0, 1, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 8 * MIB, 8 * MIB + 1, 40 * MIB] {
        let bytes = pattern(size, 1);
        sandbox.write("x", &bytes);
        for args in [&[][..], &["--part-size", "5MiB", "--checksum", "md5"]] {
            let run = bucket.put(&sandbox, &[&["x", "s3://b/a b/", "--json"][..], args].concat()).run();
            let record = run.succeeds().hides(SECRET).json();
            assert!(bucket.bytes("a%20b/x") == bytes, "{size} {args:?}");
            assert_eq!(record["files"][0]["bytes"], size as u64);
            assert_eq!(record["files"][0]["path"], "s3://b/a b/x");
            assert!(bucket.holds().uploads.is_empty(), "{size} {args:?}");
        }
    }
    let states = sandbox.names();
    assert!(!states.iter().any(|name| name.ends_with(".upload")), "{states:?}");
}

#[test]
fn a_digest_of_the_whole_is_told_and_printed() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let bytes = pattern(20 * MIB, 3);
    sandbox.write("x", &bytes);
    let record = bucket.put(&sandbox, &["x", "s3://b/k", "--json"]).run().succeeds().json();
    let expected = weir_codec::hex::encode(&weir_codec::Algorithm::CRC64NVME.of(&bytes));
    assert_eq!(record["files"][0]["digest"]["hex"], expected.as_str());
    let done = bucket.server.requests();
    let completion = done.iter().rev().find(|seen| seen.request.method == "POST").unwrap();
    assert!(completion.request.field("x-amz-checksum-crc64nvme").is_some());
    assert!(completion.request.field("authorization").unwrap().contains("x-amz-checksum-crc64nvme"));
}

#[test]
fn attributes_are_kept_and_secrets_are_not() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let args = [
        "--metadata",
        "Owner=me",
        "--metadata",
        "empty=",
        "--storage-class",
        "STANDARD_IA",
        "--cache-control",
        "no-store",
        "--sse-kms-key-id",
        "key-1",
        "--tag",
        "a b=c&d",
        "--content-disposition",
        "inline",
    ];
    for (name, size, kind) in [("page.html", 10, "text/html"), ("big.tar", 9 * MIB, "application/x-tar")] {
        sandbox.write(name, pattern(size, 1));
        bucket.put(&sandbox, &[&[name, "s3://b/"][..], &args].concat()).run().succeeds().hides(SECRET);
        let stored = bucket.holds().objects[name].clone();
        let has = |field: &str, value: &str| {
            let there =
                stored.fields.iter().any(|(name, own)| name.eq_ignore_ascii_case(field) && own == value);
            assert!(there, "{field}: {value} not among {:?}", stored.fields);
        };
        has("content-type", kind);
        has("x-amz-meta-owner", "me");
        has("x-amz-storage-class", "STANDARD_IA");
        has("cache-control", "no-store");
        has("content-disposition", "inline");
        has("x-amz-server-side-encryption", "aws:kms");
        has("x-amz-server-side-encryption-aws-kms-key-id", "key-1");
        has("x-amz-tagging", "a%20b=c%26d");
    }
    for bad in [
        &["--metadata", "a"][..],
        &["--metadata", "a b=c"],
        &["--content-type", "a\nb"],
        &["--metadata", "a=\u{e4}"],
    ] {
        bucket.put(&sandbox, &[&["page.html", "s3://b/"][..], bad].concat()).run().exits(2);
    }
}

#[test]
fn stdin_of_unknown_length() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    for size in [0, 8 * MIB, 8 * MIB + 1, 41 * MIB] {
        let bytes = pattern(size, 2);
        bucket.put(&sandbox, &["-", "s3://b/stream.log", "-q"]).input(bytes.clone()).run().succeeds();
        assert!(bucket.bytes("stream.log") == bytes, "{size}");
        assert!(bucket.holds().uploads.is_empty());
    }
    bucket.put(&sandbox, &["-", "s3://b/p/"]).run().fails(2, &["stdin has no name", "s3://b/p/NAME"]);
}

#[test]
fn a_folder_becomes_a_prefix() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    std::fs::create_dir_all(sandbox.path("tree/a/b")).unwrap();
    for name in ["tree/one", "tree/a/two", "tree/a/b/three +%"] {
        sandbox.write(name, name);
    }
    sandbox.write("tree/large", pattern(9 * MIB, 1));
    std::os::unix::fs::symlink("one", sandbox.path("tree/link")).unwrap();
    sandbox.pipe("tree/pipe");
    let run = bucket.put(&sandbox, &["tree/", "s3://b/p"]).run();
    run.succeeds().says(&["left out 1 symbolic link", "-L sends their targets", "1 pipes", "sent 4 files"]);
    let keys: Vec<String> = bucket.holds().objects.keys().cloned().collect();
    assert_eq!(keys, ["p/a/b/three%20%2B%25", "p/a/two", "p/large", "p/one"]);
    bucket.put(&sandbox, &["-L", "tree", "s3://b/q/", "-j", "2"]).run().succeeds();
    assert_eq!(bucket.bytes("q/tree/link"), b"tree/one");
    let run = bucket.put(&sandbox, &["tree/", "tree/one", "s3://b/r/"]).run();
    run.fails(2, &["tree/one would be the same object, r/one"]);
    let run = bucket.put(&sandbox, &["-n", "tree/a/", "s3://b/s/"]).run();
    assert!(String::from_utf8_lossy(&run.stdout).contains("tree/a/two -> s3://b/s/two"), "{run:?}");
    run.succeeds().says(&["nothing was sent (-n): 2 files,"]);
    assert!(!bucket.holds().objects.keys().any(|key| key.starts_with("s/")));
}

#[test]
fn names_that_no_key_holds_are_told_and_the_others_are_sent() {
    use std::os::unix::ffi::OsStrExt;
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    std::fs::create_dir(sandbox.path("tree")).unwrap();
    sandbox.write("tree/good", "good");
    sandbox.write("tree/new\nline", "line");
    std::fs::write(sandbox.path("tree").join(std::ffi::OsStr::from_bytes(b"\xff")), "x").unwrap();
    let run = bucket.put(&sandbox, &["tree/", "s3://b/"]).run();
    run.fails(1, &["its name is not UTF-8; rename it", "sent 2 of 3 files"]);
    assert_eq!(bucket.bytes("new%0Aline"), b"line");
    let long = "k".repeat(1025);
    for (target, says) in [
        ("s3://b/a/../b", "no URL can hold a segment '.' or '..'"),
        (&format!("s3://b/{long}") as &str, "longer than 1024 bytes"),
    ] {
        bucket.put(&sandbox, &["tree/good", target]).run().fails(1, &[says]);
    }
}

/// To open a pipe without a writer would wait for ever.
#[test]
fn a_pipe_without_a_writer_is_refused_at_once() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    sandbox.pipe("pipe");
    bucket.put(&sandbox, &["pipe", "s3://b/k"]).run().fails(1, &["cannot send pipe: it is no file"]);
    assert!(bucket.holds().objects.is_empty());
}

#[test]
fn conditions_hold() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    for size in [10, 9 * MIB] {
        let (first, second) = (pattern(size, 1), pattern(size, 2));
        sandbox.write("x", &first);
        bucket.holds().objects.clear();
        bucket.put(&sandbox, &["x", "s3://b/k", "--if-match", "none"]).run().fails(1, &["has not the tag"]);
        bucket.put(&sandbox, &["x", "s3://b/k", "--if-absent"]).run().succeeds();
        sandbox.write("x", &second);
        let run = bucket.put(&sandbox, &["x", "s3://b/k", "--if-absent"]).run();
        run.fails(1, &["cannot put", "/b/k: it exists already (--if-absent)"]);
        assert!(bucket.bytes("k") == first && bucket.holds().uploads.is_empty());
        let tag = bucket.holds().objects["k"].tag.clone();
        bucket.put(&sandbox, &["x", "s3://b/k", "--if-match", tag.trim_matches('"')]).run().succeeds();
        assert!(bucket.bytes("k") == second);
    }
}

/// What could not be looked at may be there: it is not replaced.
#[test]
fn a_look_that_fails_is_no_absence() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    for size in [10, 9 * MIB] {
        let put = || bucket.put(&sandbox, &["x", "s3://b/k", "--if-absent", "--retries", "0"]).run();
        sandbox.write("x", pattern(size, 1));
        bucket.hook(|request| {
            let answer = || Fault::Answer("503 Service Unavailable", String::new());
            (request.method == "HEAD").then(answer)
        });
        let run = put();
        run.says(&["cannot tell whether s3://b/k is there already", "run the same command again", "503"]);
        assert!(!run.status.success() && bucket.holds().objects.is_empty());
        // Who may not look leaves it to the store.
        bucket.hook(|request| {
            let is_look = request.method == "HEAD" || request.method == "GET" && request.target == "/b/k";
            let xml = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>".to_owned();
            is_look.then_some(Fault::Answer("403 Forbidden", xml))
        });
        put().succeeds().says(&["not known whether something was there", "AccessDenied"]);
        sandbox.write("x", pattern(size, 2));
        put().fails(1, &["it exists already (--if-absent)"]);
        assert!(bucket.bytes("k") == pattern(size, 1) && bucket.holds().uploads.is_empty());
        bucket.holds().objects.clear();
    }
}

#[test]
fn interrupted_it_says_what_is_kept_and_abort_removes_it() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    sandbox.write("x", pattern(40 * MIB, 1));
    let interrupt = |args: &[&str], input: Vec<u8>| {
        bucket.hook(|request| (request.target.contains("partNumber=3")).then_some(Fault::Slow(1 << 20)));
        let running = bucket.put(&sandbox, args).input(input).spawn();
        wait_for("parts", || bucket.holds().uploads.values().any(|upload| upload.parts.len() >= 2));
        running.signal(Signal::INT);
        running.wait()
    };
    let run = interrupt(&["x", "s3://b/k", "-c", "2"], Vec::new());
    run.fails(
        130,
        &["are at the store: run the same command again to resume, or with --abort to remove them"],
    );
    assert_eq!(bucket.holds().uploads.len(), 1);
    bucket.heals();
    let run = bucket.put(&sandbox, &["x", "s3://b/k", "--abort"]).run();
    run.succeeds().says(&["removed 1 unfinished upload; nothing was sent"]);
    assert!(bucket.holds().uploads.is_empty());
    bucket.put(&sandbox, &["x", "s3://b/k"]).run().succeeds();
    // A stream cannot be had again.
    let run = interrupt(&["-", "s3://b/stream", "-c", "2"], pattern(40 * MIB, 1));
    run.exits(130);
    assert!(bucket.holds().uploads.is_empty(), "{}", run.stderr);
}

#[test]
fn a_plain_put_is_one_request_as_the_user() {
    let sandbox = Sandbox::new();
    let stored = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&stored);
    let server = Server::start(move |request, wire| {
        if request.field("expect").is_some() {
            wire.raw(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let length = request.field("content-length").unwrap().parse().unwrap();
        let body = wire.receive(length)?;
        if request.path() == "/moved" {
            return wire.redirect("307 Temporary Redirect", "/d/there");
        }
        if request.field("authorization") != Some("Basic bWU6Z2VoZWlt") {
            return wire.answer("401 Unauthorized", &[("WWW-Authenticate", "Basic realm=\"x\"")], b"no");
        }
        kept.lock().unwrap().push((request.path().to_owned(), body));
        wire.answer("201 Created", &[], b"")
    });
    let bytes = pattern(3 * MIB, 1);
    sandbox.write("x.json", &bytes);
    let put = |args: &[&str]| sandbox.weir(support::WEIR, ["put"]).args(args);
    for target in ["d/", "d/x.json", "moved"] {
        put(&["x.json", &server.url(target), "-u", "me:geheim"]).run().succeeds().hides("geheim");
    }
    put(&["-", &server.url("d/stdin"), "-u", "me:geheim"]).input(bytes.clone()).run().succeeds();
    let got = std::mem::take(&mut *stored.lock().unwrap());
    let paths: Vec<&str> = got.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["/d/x.json", "/d/x.json", "/d/there", "/d/stdin"]);
    assert!(got.iter().all(|(_, body)| *body == bytes));
    put(&["x.json", &server.url("d/")]).run().fails(1, &["401"]);
    put(&["x.json", &server.url("d/"), "--storage-class", "X"])
        .run()
        .fails(2, &["--storage-class is for object stores"]);
    put(&["x.json", "gs://b/k"]).run().fails(1, &["no credentials", "--no-sign"]);
    put(&["x.json", "s3://b/k", "-u", "me:geheim"])
        .run()
        .fails(2, &["-u is for a plain PUT"])
        .hides("geheim");
}

/// What a server has may be elsewhere: a look is led there, as a download is.
#[test]
fn a_look_follows_redirects() {
    let sandbox = Sandbox::new();
    let server = Server::start(|request, wire| match (request.method.as_str(), request.path()) {
        ("HEAD", "/there/old") => wire.answer("200 OK", &[], b""),
        ("HEAD", "/there/new") => wire.answer("404 Not Found", &[], b""),
        ("HEAD", path) => wire.redirect("302 Found", &format!("/there{path}")),
        _ => {
            wire.read_body(request)?;
            wire.answer("201 Created", &[], b"")
        }
    });
    sandbox.write("x", b"bytes");
    let put = |to: &str| sandbox.weir(support::WEIR, ["put", "x", &server.url(to), "--if-absent"]).run();
    put("new").succeeds();
    put("old").fails(1, &["it exists already (--if-absent)"]);
}

/// One body goes over one connection, however many are asked for.
#[test]
fn nobody_is_told_to_send_one_body_over_more_connections() {
    let sandbox = Sandbox::new();
    let server = Server::start(|request, wire| {
        wire.read_body(request)?;
        std::thread::sleep(std::time::Duration::from_millis(600));
        wire.answer("201 Created", &[], b"")
    });
    sandbox.write("x", pattern(64 << 10, 1));
    for more in [&[] as &[&str], &["-c", "2"]] {
        let put = sandbox.weir(support::WEIR, ["put", "x", &server.url("x"), "--json"]).args(more);
        let record = put.run().succeeds().json();
        let advice = record["verdict"]["advice"].to_string();
        assert!(advice.contains("ask who runs the store") && !advice.contains("-c "), "{advice}");
    }
}

#[test]
fn a_slow_store_and_a_store_that_asks_for_less_are_named() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    std::fs::create_dir(sandbox.path("tree")).unwrap();
    for name in 0..40 {
        sandbox.write(&format!("tree/{name}"), pattern(16 << 10, name));
    }
    // Most of the time is this limit's: on a busy machine the rest of a run takes a part of it.
    let is_mostly = |record: &serde_json::Value, limit: &str| {
        let share = record["verdict"]["shares"][limit].as_f64();
        assert!(share.is_some_and(|share| share > 0.5), "{record:#}");
    };
    bucket.hook(|_| Some(Fault::Late(std::time::Duration::from_millis(250))));
    let record = bucket.put(&sandbox, &["tree/", "s3://b/", "-j", "2", "--json"]).run().succeeds().json();
    is_mostly(&record, "application");
    let said = record["verdict"]["evidence"].to_string();
    assert!(said.contains("the store took") && said.contains("to answer each of"), "{said}");
    let mut asked = 0;
    bucket.hook(move |_| {
        asked += 1;
        let body = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
        (asked % 3 != 0).then(|| Fault::Answer("503 Slow Down", body.to_owned()))
    });
    let run = bucket.put(&sandbox, &["tree/", "s3://b/", "-j", "2", "--json"]).run();
    let record = run.succeeds().json();
    is_mostly(&record, "rate-limit");
    let notes = record["files"][0]["notes"].to_string();
    assert!(
        notes.contains("times for fewer requests") && notes.contains("SlowDown: Please reduce"),
        "{notes}"
    );
}
