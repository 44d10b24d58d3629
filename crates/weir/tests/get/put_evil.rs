//! `weir put` to a store that loses answers, breaks connections, damages what it is sent, forgets uploads and
//! refuses.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustix::process::Signal;
use support::bucket::{Bucket, Fault, Upload};
use support::{MIB, Sandbox, pattern};

fn is_part(target: &str, number: u32) -> bool {
    target.contains(&format!("partNumber={number}&"))
}

/// A fault for the first requests that `which` names, so many times.
fn times(
    count: usize,
    which: impl Fn(&support::Request) -> bool + Send + 'static,
    fault: impl Fn() -> Fault + Send + 'static,
) -> (Arc<AtomicUsize>, impl FnMut(&support::Request) -> Option<Fault> + Send + 'static) {
    let met = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&met);
    let hook = move |request: &support::Request| {
        (which(request) && counted.fetch_add(1, Relaxed) < count).then(&fault)
    };
    (met, hook)
}

fn xml(code: &str, message: &str) -> String {
    format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>")
}

/// What a store does once or twice costs an attempt, and the object is right.
#[test]
fn what_passes_is_tried_again() {
    let sandbox = Sandbox::new();
    let bytes = pattern(9 * MIB, 1);
    sandbox.write("x", &bytes);
    type Which = fn(&support::Request) -> bool;
    let part: Which = |request| is_part(&request.target, 2);
    let complete: Which = |request| request.method == "POST" && request.target.contains("uploadId=");
    let begin: Which = |request| request.method == "POST" && request.target.contains("uploads=");
    type Case = (&'static str, Which, fn() -> Fault);
    let cases: [Case; 11] = [
        ("a connection cut in a part", part, || Fault::CutAfter(300_000)),
        ("a part whose answer is lost", part, || Fault::LoseAnswer),
        ("a part that is damaged", part, || Fault::Damage),
        ("SlowDown to a part", part, || Fault::Answer("503 Slow Down", xml("SlowDown", "less"))),
        ("a fault of the store's", part, || {
            Fault::Answer("500 Internal Server Error", xml("InternalError", "no"))
        }),
        ("a part refused for its time", part, || {
            Fault::Answer("400 Bad Request", xml("RequestTimeout", "idle"))
        }),
        ("200 with an error at the end", complete, || {
            Fault::Answer("200 OK", xml("InternalError", "try again"))
        }),
        ("a completion whose answer is lost", complete, || Fault::LoseAnswer),
        ("a beginning that fails", begin, || Fault::Answer("503 Service Unavailable", String::new())),
        ("a beginning whose answer is lost", begin, || Fault::LoseAnswer),
        ("too many requests", part, || Fault::Answer("429 Too Many Requests", String::new())),
    ];
    for (what, which, fault) in cases {
        let bucket = Bucket::start();
        let (met, hook) = times(2, which, fault);
        bucket.hook(hook);
        bucket.put(&sandbox, &["x", "s3://b/k"]).run().succeeds();
        assert!(bucket.bytes("k") == bytes, "{what}");
        assert!(bucket.holds().uploads.is_empty(), "{what}");
        assert!(met.load(Relaxed) >= 1, "{what}: never met");
    }
}

/// What another program begins meanwhile has no part yet either.
#[test]
fn an_upload_of_another_program_stays() {
    let sandbox = Sandbox::new();
    sandbox.write("x", pattern(9 * MIB, 1));
    let refuses = || Fault::Answer("503 Slow Down", xml("SlowDown", "less"));
    let cases: [(fn() -> Fault, usize); 2] = [(|| Fault::LoseAnswer, 2), (refuses, 1)];
    for (fault, begun) in cases {
        let bucket = Bucket::start();
        let is_there = Arc::new(AtomicBool::new(false));
        let mut faults = vec![Fault::Held(Arc::clone(&is_there)), fault()];
        bucket.hook(move |request| {
            let is_beginning = request.method == "POST" && request.target.contains("uploads=");
            is_beginning.then(|| faults.pop()).flatten()
        });
        let put = bucket.put(&sandbox, &["x", "s3://b/k"]).spawn();
        support::wait_for("a second beginning", || bucket.holds().uploads.len() == begun);
        let foreign = Upload { key: "k".to_owned(), ..Upload::default() };
        bucket.holds().uploads.insert("foreign".to_owned(), foreign);
        is_there.store(true, Relaxed);
        put.wait().succeeds();
        assert!(bucket.holds().uploads.contains_key("foreign"));
    }
}

#[test]
fn a_condition_whose_answer_was_lost_is_no_failure() {
    let sandbox = Sandbox::new();
    for size in [1000, 9 * MIB] {
        let bucket = Bucket::start();
        sandbox.write("x", pattern(size, 1));
        let is_last = |request: &support::Request| {
            request.method == "PUT" && !request.target.contains('?')
                || request.method == "POST" && request.target.contains("uploadId=")
        };
        let (met, hook) = times(1, is_last, || Fault::LoseAnswer);
        bucket.hook(hook);
        bucket.put(&sandbox, &["x", "s3://b/k", "--if-absent"]).run().succeeds();
        assert!(bucket.bytes("k") == pattern(size, 1) && met.load(Relaxed) >= 1);
    }
}

#[test]
fn what_is_damaged_each_time_is_an_error() {
    let sandbox = Sandbox::new();
    for size in [1000, 9 * MIB] {
        let bucket = Bucket::start();
        sandbox.write("x", pattern(size, 1));
        bucket.hook(|request| (request.method == "PUT").then_some(Fault::Damage));
        let run = bucket.put(&sandbox, &["x", "s3://b/k", "-c", "1"]).run();
        run.says(&["BadDigest"]);
        assert!(matches!(run.status.code(), Some(1 | 4)), "{run:?}");
        assert!(bucket.holds().objects.is_empty());
    }
}

#[test]
fn an_upload_that_is_gone_is_begun_again() {
    let sandbox = Sandbox::new();
    let bytes = pattern(20 * MIB, 1);
    sandbox.write("x", &bytes);
    // In mid-flight, by the store's word.
    let bucket = Bucket::start();
    let (met, hook) = times(
        1,
        |request| is_part(&request.target, 3),
        || Fault::Answer("404 Not Found", xml("NoSuchUpload", "gone")),
    );
    bucket.hook(hook);
    bucket.put(&sandbox, &["x", "s3://b/k"]).run().succeeds();
    assert!(bucket.bytes("k") == bytes && met.load(Relaxed) >= 1);
    // Between two runs.
    let bucket = Bucket::start();
    bucket.hook(|request| {
        is_part(&request.target, 3).then(|| Fault::Answer("403 Forbidden", xml("AccessDenied", "no")))
    });
    let run = bucket.put(&sandbox, &["x", "s3://b/k", "-c", "1"]).run();
    run.fails(4, &["AccessDenied", "are at the store"]).hides("a-secret-of-tests");
    assert_eq!(bucket.holds().uploads.len(), 1);
    bucket.heals();
    bucket.holds().uploads.clear();
    bucket.put(&sandbox, &["x", "s3://b/k"]).run().succeeds();
    assert!(bucket.bytes("k") == bytes && bucket.holds().uploads.is_empty());
}

#[test]
fn a_journal_alone_is_not_believed() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let bytes = pattern(21 * MIB, 1);
    sandbox.write("x", &bytes);
    bucket.hook(|request| {
        is_part(&request.target, 4).then(|| Fault::Answer("403 Forbidden", xml("AccessDenied", "no")))
    });
    bucket.put(&sandbox, &["x", "s3://b/k", "-c", "1", "--part-size", "5MiB"]).run().exits(4);
    bucket.heals();
    // One part is lost at the store, another is not what was sent.
    for upload in bucket.holds().uploads.values_mut() {
        upload.parts.remove(&1);
        upload.parts.insert(2, (vec![0; 5 << 20], "\"other\"".to_owned()));
    }
    let record = bucket.put(&sandbox, &["x", "s3://b/k", "--json"]).run().succeeds().json();
    assert_eq!(record["resumed"], 5 << 20);
    assert!(bucket.bytes("k") == bytes);
}

#[test]
fn a_file_that_changes_is_refused_and_nothing_is_left() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let path = sandbox.write("x", pattern(9 * MIB, 1));
    let changed = path.clone();
    bucket.hook(move |request| {
        if is_part(&request.target, 2) {
            std::fs::write(&changed, pattern(9 * MIB, 2)).unwrap();
        }
        None
    });
    let run = bucket.put(&sandbox, &["x", "s3://b/k", "-c", "1"]).run();
    run.fails(1, &["changed while it was sent; run the same command again"]);
    assert!(bucket.holds().objects.is_empty() && bucket.holds().uploads.is_empty());
    // What an interrupted run has sent of another state of the file is of no use.
    bucket.hook(|request| {
        is_part(&request.target, 2).then(|| Fault::Answer("403 Forbidden", xml("AccessDenied", "no")))
    });
    bucket.put(&sandbox, &["x", "s3://b/k", "-c", "1"]).run().exits(4);
    let bytes = pattern(10 * MIB, 3);
    std::fs::write(&path, &bytes).unwrap();
    bucket.heals();
    bucket.put(&sandbox, &["x", "s3://b/k"]).run().succeeds().says(&["it begins again"]);
    assert!(bucket.bytes("k") == bytes && bucket.holds().uploads.is_empty());
}

/// What became of it is told: a log that only grows is stored as it was, and what is stored of another file
/// is named.
#[test]
fn a_small_file_that_changes_while_it_is_sent() {
    let sandbox = Sandbox::new();
    let bytes = pattern(MIB, 1);
    let path = sandbox.write("x", &bytes);
    for (at, trusts) in [(MIB as u64, false), (0, true), (0, false)] {
        std::fs::write(&path, &bytes).unwrap();
        let bucket = Bucket::start();
        bucket.holds().trusts = trusts;
        let file = File::options().write(true).open(&path).unwrap();
        bucket.hook(move |request| {
            if request.method == "PUT" {
                file.write_all_at(b"other", at).unwrap();
            }
            None
        });
        let run = bucket.put(&sandbox, &["x", "s3://b/k"]).run();
        if at > 0 {
            run.succeeds().says(&["it changed while it was sent; its first"]);
            assert!(bucket.bytes("k") == bytes);
            continue;
        }
        run.fails(1, &["x changed while it was sent; run the same command again"]);
        if trusts || !bucket.holds().objects.is_empty() {
            run.says(&["s3://b/k is stored all the same"]);
        }
    }
}

/// No moment is without a change, and what was digested is what is stored.
#[test]
fn a_log_that_keeps_growing_is_stored_as_it_was() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let path = sandbox.write("x", pattern(MIB, 1));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut log = File::options().append(true).open(&path).unwrap();
            while !over.load(Relaxed) {
                log.write_all(b"line\n").unwrap();
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let run = bucket.put(&sandbox, &["x", "s3://b/k"]).run();
        over.store(true, Relaxed);
        run.succeeds();
    });
    let stored = bucket.bytes("k");
    assert!(stored.len() >= MIB && sandbox.read("x").starts_with(&stored));
}

#[test]
fn a_stop_says_nothing_of_a_file_that_changes() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let path = sandbox.write("x", "content");
    bucket.hook(|request| (request.method == "PUT").then_some(Fault::Hang));
    let running = bucket.put(&sandbox, &["x", "s3://b/k"]).spawn();
    bucket.server.wait("the object", |_, requests| requests.iter().any(|seen| seen.request.method == "PUT"));
    std::fs::write(&path, "another content").unwrap();
    running.signal(Signal::INT);
    running.wait().fails(130, &[]).hides("changed");
}

#[test]
fn a_file_that_is_cut_off_while_it_is_sent_is_told_by_its_name() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let path = sandbox.write("x", pattern(20 * MIB, 1));
    bucket.hook(move |request| {
        if is_part(&request.target, 2) {
            File::options().write(true).open(&path).unwrap().set_len(9 << 20).unwrap();
        }
        None
    });
    let run = bucket.put(&sandbox, &["x", "s3://b/k", "-c", "1"]).run();
    run.fails(1, &["x changed while it was sent; run the same command again"]).hides("uploadId");
    assert!(bucket.holds().objects.is_empty() && bucket.holds().uploads.is_empty());
}

/// Lanes that wait for work find a failed upload until it is put away: none goes on with it.
#[test]
fn a_part_that_is_refused_for_good_makes_no_object() {
    let sandbox = Sandbox::new();
    sandbox.write("x", pattern(25 * MIB, 1));
    for lanes in ["3", "4", "3", "4"] {
        let bucket = Bucket::start();
        bucket.holds().trusts = true;
        bucket.hook(|request| {
            is_part(&request.target, 3).then(|| Fault::Answer("403 Forbidden", xml("AccessDenied", "no")))
        });
        let run = bucket.put(&sandbox, &["x", "s3://b/k", "-c", lanes, "--part-size", "5MiB"]).run();
        run.fails(4, &["cannot put part 3 of s3://b/k: AccessDenied", "are at the store"]);
        assert!(bucket.holds().objects.is_empty());
    }
}

/// Of an upload that was begun and has no part nothing was sent before.
#[test]
fn an_upload_without_a_part_is_not_said_to_have_any() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    sandbox.write("x", pattern(9 * MIB, 1));
    bucket.hook(|request| {
        (request.method == "PUT").then(|| Fault::Answer("403 Forbidden", xml("AccessDenied", "no")))
    });
    let run = bucket.put(&sandbox, &["x", "s3://b/k", "-c", "1"]).run();
    run.fails(4, &["AccessDenied", "; run the same command again"]).hides("was sent before");
}

/// A store that lists neither parts nor uploads, or not for this user: what was sent before is sent again,
/// and that is said; --abort goes by the upload that the journal names.
#[test]
fn a_store_that_lists_no_uploads_costs_the_resume_and_no_more() {
    for (status, code) in [("501 Not Implemented", "NotImplemented"), ("403 Forbidden", "AccessDenied")] {
        let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
        let bytes = pattern(10 * MIB, 5);
        sandbox.write("x", &bytes);
        let lists = |request: &support::Request| {
            let of_uploads = ["uploads", "uploadId"].iter().any(|name| request.target.contains(name));
            request.method == "GET" && of_uploads
        };
        let poor = move |breaks: bool| {
            move |request: &support::Request| match () {
                () if lists(request) => Some(Fault::Answer(status, xml(code, code))),
                () if breaks && is_part(&request.target, 2) => {
                    Some(Fault::Answer("403 Forbidden", xml("AccessDenied", "AccessDenied")))
                }
                () => None,
            }
        };
        let put = |args: &[&str]| bucket.put(&sandbox, &[&["x", "s3://b/k", "-c", "1"], args].concat()).run();
        bucket.hook(poor(true));
        put(&[]).exits(4).says(&[": AccessDenied"]).hides("AccessDenied: AccessDenied");
        bucket.hook(poor(false));
        put(&[]).succeeds().says(&["does not list the parts of an upload"]);
        assert!(bucket.bytes("k") == bytes && bucket.holds().uploads.is_empty(), "{code}");
        bucket.hook(poor(true));
        put(&[]).exits(4);
        assert_eq!(bucket.holds().uploads.len(), 1, "{code}");
        put(&["--abort"]).succeeds().says(&["removed 1 unfinished upload"]);
        assert!(bucket.holds().uploads.is_empty(), "{code}");
        put(&["--abort"]).fails(1, &[code]);
    }
}

#[test]
fn a_store_that_knows_no_checksums_gets_what_it_knows() {
    let sandbox = Sandbox::new();
    for size in [1000, 9 * MIB] {
        let bytes = pattern(size, 1);
        sandbox.write("x", &bytes);
        let bucket = Bucket::start();
        let refuses = |request: &support::Request| {
            let has =
                request.fields.iter().any(|(name, _)| name.to_lowercase().starts_with("x-amz-checksum-"));
            let words = "Unsupported header 'x-amz-checksum-algorithm' received for this API call.";
            has.then(|| Fault::Answer("400 Bad Request", xml("InvalidArgument", words)))
        };
        bucket.hook(refuses);
        bucket.put(&sandbox, &["x", "s3://b/k"]).run().succeeds();
        assert!(bucket.bytes("k") == bytes && bucket.holds().uploads.is_empty());
        let seen = bucket.server.requests();
        let with_md5 = |seen: &Arc<support::LoggedRequest>| seen.request.field("content-md5").is_some();
        assert!(seen.iter().any(with_md5));
        let run = bucket.put(&sandbox, &["x", "s3://b/k", "--checksum", "crc64nvme"]).run();
        run.fails(1, &["InvalidArgument"]);
    }
}

#[test]
fn other_uploads_of_the_object_are_named() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    sandbox.write("x", pattern(9 * MIB, 1));
    let upload = support::bucket::Upload { key: "k".to_owned(), ..Default::default() };
    bucket.holds().uploads.insert("another".to_owned(), upload);
    let run = bucket.put(&sandbox, &["x", "s3://b/k"]).run();
    run.succeeds().says(&[
        "unfinished uploads of this object are at the store (1, the first from 2026-01-01",
        "--abort",
    ]);
    assert_eq!(bucket.holds().uploads.len(), 1, "it is another's");
    // As a kill leaves it that comes between the store's answer and the journal.
    let run = bucket.put(&sandbox, &["x", "s3://b/k", "--abort"]).run();
    run.succeeds().says(&["removed 1 unfinished upload;"]);
}

#[test]
fn two_runs_do_not_share_an_upload() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    sandbox.write("x", pattern(20 * MIB, 1));
    bucket.hook(|request| (request.method == "PUT").then_some(Fault::Slow(2 << 20)));
    let first = bucket.put(&sandbox, &["x", "s3://b/k"]).spawn();
    support::wait_for("an upload", || !bucket.holds().uploads.is_empty());
    bucket.put(&sandbox, &["x", "s3://b/k"]).run().fails(1, &["another weir sends this file there now"]);
    drop(first);
}

#[test]
fn a_state_folder_that_takes_nothing_costs_the_resume_only() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    let bytes = pattern(20 * MIB, 1);
    sandbox.write("x", &bytes);
    sandbox.write("no-folder", "");
    let put = || {
        bucket.put(&sandbox, &["x", "s3://b/k", "-c", "1"]).env("XDG_STATE_HOME", sandbox.path("no-folder"))
    };
    put().run().succeeds().says(&["cannot keep the state of the upload"]);
    assert!(bucket.bytes("k") == bytes);
    bucket.hook(|request| {
        is_part(&request.target, 2).then(|| Fault::Answer("403 Forbidden", xml("AccessDenied", "no")))
    });
    put().run().fails(1, &["AccessDenied"]);
    assert!(bucket.holds().uploads.is_empty());
}
