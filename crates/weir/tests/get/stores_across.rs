//! `weir cp` between stores of different kinds, and within one that does not copy: the objects come through
//! here, part by part, and nothing of them stays.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use support::bucket::{Bucket, Fault};
use support::google::Google;
use support::{MIB, Object, Run, Sandbox, Server, base64, pattern};
use weir_codec::Algorithm;

/// `weir cp --json` with both stores.
fn copy(sandbox: &Sandbox, google: &str, amazon: &str, args: &[&str]) -> Run {
    let weir = sandbox.weir(support::WEIR, ["cp"]).args(args);
    let weir = weir.env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").env("AWS_SECRET_ACCESS_KEY", "a-secret-of-tests");
    let weir = weir.env("AWS_ENDPOINT_URL", amazon).env("AWS_REGION", "us-east-1");
    weir.env("STORAGE_EMULATOR_HOST", google).run()
}

const SIZES: [(&str, usize); 6] = [
    ("p/none", 0),
    ("p/one", 1),
    ("p/a b", 1000),
    ("p/single", 8 * MIB),
    ("p/two", 8 * MIB + 1),
    ("p/in/large", 18 * MIB),
];

#[test]
fn objects_of_every_size_come_through_here() {
    let google = Google::with(&SIZES).start();
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let run =
        copy(&sandbox, &google.url(""), &bucket.server.url(""), &["--json", "gs://src/p/", "s3://dst/q/"]);
    let record = run.succeeds().json();
    for (key, length) in SIZES {
        let there = key.replace("p/", "q/").replace(' ', "%20");
        assert!(bucket.bytes(&there) == pattern(length, length as u64), "{key}");
        let fields = bucket.holds().objects[&there].fields.clone();
        let has = |name: &str, value: &str| {
            let there = fields.iter().any(|(own, text)| own.eq_ignore_ascii_case(name) && text == value);
            assert!(there, "{key}: {name}: {value} not in {fields:?}");
        };
        has("content-type", "text/x-of-tests");
        has("x-amz-meta-owner", "me");
        has("x-amz-meta-mtime", "1700000000.5");
    }
    assert!(bucket.holds().uploads.is_empty());
    assert_eq!(
        (record["cp"]["files"].as_u64(), record["cp"]["server_side"].as_bool()),
        (Some(6), Some(false))
    );
    assert!(record["cp"]["held_by"]["side"].is_string(), "{record}");
    assert!(!run.stderr.contains("not verified"), "{}", run.stderr);
    // Nothing of it was on this machine's disk.
    let left: Vec<String> = sandbox.names().into_iter().filter(|name| !name.ends_with('/')).collect();
    assert!(left.is_empty(), "{left:?}");
    // What is there is known again.
    let run = copy(
        &sandbox,
        &google.url(""),
        &bucket.server.url(""),
        &["--json", "gs://src/p/in/", "s3://dst/q/in/"],
    );
    assert_eq!(run.succeeds().json()["cp"]["unchanged"], 1);
    // One object, by its name and into a folder; a pattern.
    let one = |args: &[&str], key: &str| {
        copy(&sandbox, &google.url(""), &bucket.server.url(""), args).succeeds();
        assert!(bucket.bytes(key) == pattern(1, 1), "{key}");
    };
    one(&["gs://src/p/one", "s3://dst/renamed"], "renamed");
    one(&["gs://src/p/one", "s3://dst/into/"], "into/one");
    one(&["gs://src/*/o*", "s3://dst/globbed/"], "globbed/p/one");
}

/// What is kept in gzip is copied as it is kept, with the word for it, and not as Google serves it to whoever
/// does not take gzip.
#[test]
fn compressed_objects_stay_as_they_are_kept() {
    let sizes = [("p/small", 1000), ("p/large", 18 * MIB)];
    let google = Google { is_gzip: true, ..Google::with(&sizes) }.start();
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let run = copy(&sandbox, &google.url(""), &bucket.server.url(""), &["gs://src/p/", "s3://dst/q/"]);
    run.succeeds();
    for (key, length) in sizes {
        let there = key.replace("p/", "q/");
        assert!(bucket.bytes(&there) == pattern(length, length as u64), "{key}");
        let fields = bucket.holds().objects[&there].fields.clone();
        let coding = fields.iter().find(|(own, _)| own.eq_ignore_ascii_case("content-encoding"));
        assert_eq!(coding.map(|(_, coding)| coding.as_str()), Some("gzip"), "{key}: {fields:?}");
    }
}

/// The other way, to a store that puts parts together by another digest.
#[test]
fn from_amazon_to_google() {
    let object = Object::new(20 * MIB);
    let bytes = Arc::clone(&object.bytes);
    let amazon = Server::start(move |request, wire| match request.method.as_str() {
        "HEAD" if request.path() == "/src/k" => {
            let fields = [("Content-Length", object.bytes.len().to_string()), ("ETag", "\"one\"".to_owned())];
            let sum = base64(&Algorithm::CRC64NVME.of(&object.bytes));
            let sums = [("x-amz-checksum-crc64nvme", sum), ("x-amz-checksum-type", "FULL_OBJECT".to_owned())];
            wire.head("200 OK", &[fields, sums].concat())
        }
        _ if request.path() == "/src/k" => object.serve(request, wire),
        _ => wire.answer("404 Not Found", &[], b"<Error><Code>NoSuchKey</Code></Error>"),
    });
    let (google, sandbox) = (Bucket::start(), Sandbox::new());
    google.hook(|request| {
        let is_list = request.path() == "/storage/v1/b/dst/o";
        let answer = |status, text: &str| Some(Fault::Answer(status, text.to_owned()));
        match request.path().starts_with("/storage/v1/") {
            true if is_list => answer("200 OK", r#"{"kind":"storage#objects"}"#),
            true => answer("404 Not Found", "{}"),
            false => None,
        }
    });
    let run = copy(&sandbox, &google.server.url(""), &amazon.url(""), &["s3://src/k", "gs://dst/k"]);
    run.succeeds().says(&["held the copy"]);
    assert!(google.bytes("k") == *bytes && google.holds().uploads.is_empty());
    assert!(!run.stderr.contains("not verified"), "{}", run.stderr);
    let parts = google.server.requests();
    let with_sum = parts
        .iter()
        .filter(|seen| seen.request.field("x-goog-hash").is_some_and(|sum| sum.starts_with("crc32c=")));
    assert!(with_sum.count() >= 3);
}

#[test]
fn what_is_not_what_its_store_keeps_becomes_no_object() {
    for size in [1000, 20 * MIB] {
        let google = Google { crc32c: Some("AAAAAA==".to_owned()), ..Google::with(&[("k", size)]) }.start();
        let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
        let run = copy(&sandbox, &google.url(""), &bucket.server.url(""), &["gs://src/k", "s3://dst/k"]);
        run.fails(3, &["gs://src/k", "does not match"]).hides("a-secret-of-tests");
        assert!(bucket.holds().objects.is_empty() && bucket.holds().uploads.is_empty());
    }
}

/// The error names the way past a digest that is wrong at its store.
#[test]
fn a_digest_can_be_ignored() {
    for size in [1000, 20 * MIB] {
        let google = Google { crc32c: Some("AAAAAA==".to_owned()), ..Google::with(&[("k", size)]) }.start();
        let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
        let copies = |args: &[&str]| copy(&sandbox, &google.url(""), &bucket.server.url(""), args);
        copies(&["gs://src/k", "s3://dst/k"]).fails(3, &["does not match", "; --ignore-digest keeps it"]);
        let run = copies(&["--ignore-digest", "gs://src/k", "s3://dst/k"]);
        run.succeeds().says(&["held against no digest", "not verified against gs://src/k"]);
        assert!(bucket.bytes("k") == pattern(size, size as u64));
    }
}

/// What looks like an MD5 is the tag of an object that is another.
#[test]
fn the_tag_of_a_directory_bucket_is_no_digest() {
    const PATH: &str = "/src--use1-az4--x-s3/k";
    let tag = format!("\"{}\"", "0f".repeat(16));
    let object = Object::new(1000).etag(Some(&tag));
    let bytes = Arc::clone(&object.bytes);
    let source = Server::start(move |request, wire| match request.method.as_str() {
        _ if request.path() != PATH => wire.answer("404 Not Found", &[], b""),
        "HEAD" => {
            let length = object.bytes.len().to_string();
            wire.head("200 OK", &[("Content-Length", length), ("ETag", tag.clone())])
        }
        _ => object.serve(request, wire),
    });
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let args = ["--source-endpoint", &source.url(""), "s3://src--use1-az4--x-s3/k", "s3://dst/k"];
    let run = copy(&sandbox, "http://127.0.0.1:1", &bucket.server.url(""), &args);
    run.succeeds().says(&["not verified against s3://src--use1-az4--x-s3/k"]);
    assert!(bucket.bytes("k") == *bytes);
}

#[test]
fn an_object_that_changes_between_two_parts() {
    let google = Google { changes_after: Some(2), ..Google::with(&[("k", 40 * MIB)]) }.start();
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let run =
        copy(&sandbox, &google.url(""), &bucket.server.url(""), &["-c", "1", "gs://src/k", "s3://dst/k"]);
    run.fails(1, &["gs://src/k changed while it was sent"]);
    assert!(bucket.holds().objects.is_empty() && bucket.holds().uploads.is_empty());
}

/// Either side misbehaves once: the copy is right.
#[test]
fn faults_of_either_side() {
    let bytes = pattern(20 * MIB, 20 * MIB as u64);
    let cut = Arc::new(Mutex::new(2));
    let google = Google::with(&[("k", 20 * MIB)]);
    let fetched = AtomicUsize::new(0);
    let google = Server::start(move |request, wire| {
        let is_cut = request.path() == "/src/k" && {
            let mut left = cut.lock().unwrap();
            let is_cut = *left > 0;
            *left -= i32::from(is_cut);
            is_cut
        };
        match is_cut {
            true => wire.reset(),
            false => google.serve(&fetched, request, wire),
        }
    });
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let turns = AtomicUsize::new(0);
    bucket.hook(move |request| {
        let is_part = request.target.contains("partNumber=2&");
        (is_part && turns.fetch_add(1, Relaxed) < 2).then_some(Fault::Damage)
    });
    copy(&sandbox, &google.url(""), &bucket.server.url(""), &["gs://src/k", "s3://dst/k"]).succeeds();
    assert!(bucket.bytes("k") == bytes && bucket.holds().uploads.is_empty());
}

/// A part that its source refuses is in no object.
#[test]
fn a_part_that_cannot_be_fetched_makes_no_object() {
    let google = Google::with(&[("k", 34 * MIB)]);
    let fetched = AtomicUsize::new(0);
    let google =
        Server::start(move |request, wire| match request.path() == "/src/k" && request.start() == 16 << 20 {
            true => wire.answer("403 Forbidden", &[], b"<Error><Code>AccessDenied</Code></Error>"),
            false => google.serve(&fetched, request, wire),
        });
    for _ in 0..3 {
        let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
        bucket.holds().trusts = true;
        let run = copy(&sandbox, &google.url(""), &bucket.server.url(""), &["gs://src/k", "s3://dst/k"]);
        run.fails(4, &["cannot fetch gs://src/k", "AccessDenied"]);
        assert!(bucket.holds().objects.is_empty());
    }
}

/// Which side held it is told, and the judge does not blame this host's disk.
#[test]
fn the_slow_side_is_named() {
    let google = Google { rate: Some(256 << 10), ..Google::with(&[("k", MIB)]) }.start();
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let run = copy(&sandbox, &google.url(""), &bucket.server.url(""), &["gs://src/k", "s3://dst/k"]);
    run.succeeds().says(&["the source held the copy"]);
    assert!(!run.stderr.contains("limit: source-disk"), "{}", run.stderr);
    let google = Google::with(&[("k", MIB)]).start();
    bucket.hook(|request| (request.method == "PUT").then_some(Fault::Slow(256 << 10)));
    bucket.holds().objects.clear();
    let run =
        copy(&sandbox, &google.url(""), &bucket.server.url(""), &["--json", "gs://src/k", "s3://dst/k"]);
    assert_eq!(run.succeeds().json()["cp"]["held_by"]["side"], "target");
}

/// A store that has no word for a copy within it.
#[test]
fn a_store_that_does_not_copy() {
    let bytes = pattern(9 * MIB, 1);
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    sandbox.write("x", &bytes);
    bucket.put(&sandbox, &["x", "s3://b/k"]).run().succeeds();
    bucket.hook(|request| {
        let xml = "<Error><Code>NotImplemented</Code><Message>no</Message></Error>".to_owned();
        request.field("x-amz-copy-source").map(|_| Fault::Answer("501 Not Implemented", xml))
    });
    let args = ["--json", "s3://b/k", "s3://b/copy"];
    let record = copy(&sandbox, "http://127.0.0.1:1", &bucket.server.url(""), &args).succeeds().json();
    assert!(bucket.bytes("copy") == bytes && bucket.holds().uploads.is_empty());
    assert_eq!(record["cp"]["server_side"], false);
}

#[test]
fn what_does_not_go_together() {
    let sandbox = Sandbox::new();
    let run = copy(
        &sandbox,
        "http://127.0.0.1:1",
        "http://127.0.0.1:1",
        &["--endpoint", "http://h", "gs://a/", "s3://b/"],
    );
    run.fails(2, &["--endpoint names one service", "AWS_ENDPOINT_URL"]);
}
