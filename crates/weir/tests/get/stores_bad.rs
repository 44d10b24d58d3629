//! What stores refuse, and what they hold that nobody expects, met by each command that asks them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::bucket::{Bucket, Fault};
use support::listed::{ListedBucket, Manner, weir_of};
use support::{MIB, Object, Request, Run, Sandbox, Server, Wire, pattern, wait_for};

/// What signs, and must be seen nowhere.
const SECRET: &str = "a-secret-of-tests";

/// Each way to ask a store for the object `k` of `b`, or for all that it holds, or to give it something.
const COMMANDS: [&[&str]; 8] = [
    &["get", "s3://b/k", "-o", "out"],
    &["get", "s3://b/", "-o", "all/"],
    &["put", "here", "s3://b/new"],
    &["put", "here", "s3://b/new", "--if-absent"],
    &["cp", "here", "s3://b/copied"],
    &["cp", "s3://b/k", "back"],
    &["cp", "s3://b/", "tree"],
    &["ls", "s3://b/"],
];

fn error(
    wire: &mut Wire,
    request: &Request,
    status: &str,
    code: &str,
    fields: &[(&str, &str)],
) -> io::Result<()> {
    let message =
        if code == "AuthorizationHeaderMalformed" { "expecting 'eu-north-1'" } else { "said by a test" };
    let body =
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>");
    match request.method.as_str() {
        // No body, as HTTP has it.
        "HEAD" => wire.head(status, &[fields, &[("Content-Length", "0")]].concat()),
        _ => wire.answer(status, &[fields, &[("Content-Type", "application/xml")]].concat(), body.as_bytes()),
    }
}

fn taken(request: &Request, wire: &mut Wire) -> io::Result<()> {
    let length = request.field("content-length").map_or(0, |text| text.parse().unwrap());
    wire.receive(length).map(drop)
}

/// A store that says no to everything.
fn refusing(status: &'static str, code: &'static str, fields: &'static [(&str, &str)]) -> Server {
    Server::start(move |request, wire| {
        taken(request, wire)?;
        error(wire, request, status, code, fields)
    })
}

#[test]
fn each_command_says_what_a_refusal_means() {
    let sandbox = Sandbox::new();
    sandbox.write("here", "content");
    for (status, code, fields, says) in [
        (
            "403 Forbidden",
            "RequestTimeTooSkewed",
            &[("Date", "Sun, 06 Nov 1994 08:49:37 GMT")][..],
            &["this host's clock is ", "ahead of the store's; set it"][..],
        ),
        ("403 Forbidden", "AccessDenied", &[], &["asked as AKIDEXAMPLE of the environment"]),
        ("403 Forbidden", "InvalidAccessKeyId", &[], &["asked as AKIDEXAMPLE of the environment"]),
        ("403 Forbidden", "SignatureDoesNotMatch", &[], &["the secret does not belong to this key"]),
        ("400 Bad Request", "ExpiredToken", &[], &["renew them and run the same command again"]),
        ("404 Not Found", "NoSuchBucket", &[], &["there is no bucket 'b' there"]),
        ("301 Moved Permanently", "PermanentRedirect", &[], &["give its --region or --endpoint"]),
    ] {
        let server = refusing(status, code, fields);
        for command in COMMANDS {
            // A HEAD with 404 says that there is no such object, whose words are asked for by no one.
            let run = weir_of(&sandbox, server.url("").as_str(), command).run();
            assert!(matches!(run.status.code(), Some(1)), "{command:?} {code}: {run:?}");
            run.says(&[code]).says(says).hides(SECRET).hides("panicked");
        }
        assert!(server.requests().len() < 20 * COMMANDS.len(), "{}", server.requests().len());
    }
}

/// A list that the store wants to be asked for later.
#[test]
fn a_prefix_that_is_to_be_listed_later_ends_with_4_and_the_time() {
    let server = refusing("503 Service Unavailable", "SlowDown", &[("Retry-After", "7200")]);
    let sandbox = Sandbox::new();
    let run = weir_of(&sandbox, server.url("").as_str(), &["get", "s3://b/p/", "-o", "all/"]).run();
    run.fails(4, &["asks for a wait of 2 h 00 min", "--max-wait allows 10 min 00 s", "again after 20"]);
    sandbox.write("here", "content");
    for (command, what) in [
        (&["ls", "s3://b/p/"][..], "cannot list s3://b"),
        (&["put", "here", "s3://b/new"], "cannot put s3://b/new: "),
        (&["cp", "s3://b/k", "back"], "cannot look at s3://b/k"),
        (&["cp", "s3://b/p/", "tree"], ""),
        (&["cp", "here", "s3://b/d/"], "cannot list s3://b"),
    ] {
        let run = weir_of(&sandbox, server.url("").as_str(), command).args(&["--max-wait", "5"]).run();
        run.fails(4, &[what, "asks for a wait of 2 h 00 min, --max-wait allows 5.0 s"]);
    }
}

/// An object that the store tells of, and wants to be fetched later.
#[test]
fn a_copy_of_an_object_that_is_to_be_fetched_later_waits_as_long_as_is_allowed() {
    let server = Server::start(|request, wire| match request.method.as_str() {
        "HEAD" => wire.head("200 OK", &[("Content-Length", "7"), ("ETag", "\"e\"")]),
        _ => error(wire, request, "503 Service Unavailable", "SlowDown", &[("Retry-After", "7200")]),
    });
    let sandbox = Sandbox::new();
    let copy = ["cp", "s3://b/k", "back", "--max-wait", "5"];
    let run = weir_of(&sandbox, server.url("").as_str(), &copy).run();
    run.fails(4, &["s3://b/k", "asks for a wait of 2 h 00 min, --max-wait allows 5.0 s"]);
}

/// A store whose bucket `b` has the object `k`, and takes whatever it is given.
fn holding_k(request: &Request, wire: &mut Wire) -> io::Result<()> {
    let tag = [("ETag", "\"one\"")];
    match (request.method.as_str(), request.path()) {
        ("GET", "/b/" | "/b") if request.target.contains("prefix=copied") => wire.answer(
            "200 OK",
            &[],
            b"<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>",
        ),
        ("GET", "/b/" | "/b") => wire.answer(
            "200 OK",
            &[],
            b"<ListBucketResult><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated><Contents><Key>k</Key>\
              <Size>3</Size><LastModified>2026-11-26T10:00:00.000Z</LastModified></Contents></ListBucketResult>",
        ),
        ("HEAD", "/b/k") => wire.head("200 OK", &[("Content-Length", "3"), tag[0]]),
        ("HEAD", _) => wire.head("404 Not Found", &[("Content-Length", "0")]),
        ("GET", "/b/k") => wire.answer("200 OK", &tag, b"abc"),
        _ => wire.answer("200 OK", &tag, b""),
    }
}

/// The region that a store names is taken by each command, however it names it.
#[test]
fn each_command_goes_where_the_bucket_is() {
    for (status, code, fields) in [
        ("400 Bad Request", "AuthorizationHeaderMalformed", &[][..]),
        ("301 Moved Permanently", "PermanentRedirect", &[("x-amz-bucket-region", "eu-north-1")]),
        ("400 Bad Request", "IllegalLocationConstraintException", &[("x-amz-bucket-region", "eu-north-1")]),
        // An address that answers nobody: the region counts.
        (
            "307 Temporary Redirect",
            "TemporaryRedirect",
            &[("x-amz-bucket-region", "eu-north-1"), ("Location", "http://127.0.0.1:1/b/k")],
        ),
    ] {
        let server = Server::start(move |request, wire| {
            taken(request, wire)?;
            let signed = request.field("authorization").unwrap_or_default();
            if signed.split('/').nth(2) != Some("eu-north-1") {
                return error(wire, request, status, code, fields);
            }
            holding_k(request, wire)
        });
        for command in COMMANDS {
            let sandbox = Sandbox::new();
            sandbox.write("here", "content");
            weir_of(&sandbox, server.url("").as_str(), command).run().succeeds().hides(SECRET);
        }
    }
}

/// Whoever does not offer to pay is told no more than that access is denied.
#[test]
fn a_bucket_whose_readers_pay() {
    let server = Server::start(|request, wire| {
        taken(request, wire)?;
        match request.field("x-amz-request-payer") {
            Some("requester") => holding_k(request, wire),
            _ => error(wire, request, "403 Forbidden", "AccessDenied", &[]),
        }
    });
    let sandbox = Sandbox::new();
    sandbox.write("here", "content");
    for command in COMMANDS {
        let weir = || weir_of(&sandbox, server.url("").as_str(), command);
        weir().run().fails(1, &["AccessDenied"]).hides(SECRET);
        let before = server.requests().len();
        weir().args(&["--request-payer"]).run().succeeds().hides(SECRET);
        for request in server.requests_from(before) {
            let signed = request.field("authorization").unwrap_or_default();
            assert!(signed.contains("x-amz-request-payer"), "{command:?}: {} {signed}", request.target);
        }
    }
}

/// One archived object says how it is restored, and the others come.
#[test]
fn an_archived_object_says_how_to_restore_it() {
    let server = Server::start(|request, wire| match (request.method.as_str(), request.path()) {
        ("HEAD", "/b/new") => wire.head("404 Not Found", &[("Content-Length", "0")]),
        ("GET", "/b/" | "/b") if request.target.contains("prefix=new") => wire.answer(
            "200 OK",
            &[],
            b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>",
        ),
        ("GET", "/b/" | "/b") => {
            let entry = |key: &str, class: &str| {
                format!(
                    "<Contents><Key>{key}</Key><Size>3</Size><LastModified>2026-11-26T10:00:00.000Z</LastModified>\
                     <StorageClass>{class}</StorageClass></Contents>"
                )
            };
            let entries = [entry("cold", "GLACIER"), entry("warm", "STANDARD")].concat();
            let body = format!(
                "<ListBucketResult><KeyCount>2</KeyCount><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
            );
            wire.answer("200 OK", &[], body.as_bytes())
        }
        ("HEAD", _) => wire.head("200 OK", &[("Content-Length", "3"), ("ETag", "\"one\"")]),
        (_, "/b/warm") => wire.answer("200 OK", &[("ETag", "\"one\"")], b"abc"),
        _ => error(wire, request, "403 Forbidden", "InvalidObjectState", &[]),
    });
    let says = ["InvalidObjectState", "it is archived; restore it first, as aws s3api restore-object does"];
    for (command, warm) in [
        (&["get", "s3://b/cold", "-o", "out"][..], None),
        (&["get", "s3://b/", "-o", "all/"], Some("all/warm")),
        (&["cp", "s3://b/cold", "back"], None),
        (&["cp", "s3://b/cold", "s3://b/new"], None),
        (&["cp", "s3://b/", "tree"], Some("tree/warm")),
    ] {
        let sandbox = Sandbox::new();
        let run = weir_of(&sandbox, server.url("").as_str(), command).run();
        run.fails(1, &says).says(&["s3://b/cold"]).hides(SECRET);
        if let Some(warm) = warm {
            assert_eq!(sandbox.read(warm), b"abc", "{command:?}");
        }
    }
}

/// Between two parts the object goes: nothing is published, the run says so, and an object that takes its
/// place comes whole.
#[test]
fn an_object_that_is_deleted_while_it_comes() {
    for command in [&["get", "-o", "out", "s3://b/k", "-c"][..], &["cp", "s3://b/k", "out", "-c"]] {
        for lanes in ["1", "4"] {
            let (old, new) = (Object::new(12 * MIB), Object::new(12 * MIB).changed());
            let expected = Arc::clone(&new.bytes);
            // 0: it is there; 1: it is gone; 2: another one is there.
            let state = Arc::new(AtomicUsize::new(0));
            let now = Arc::clone(&state);
            let server =
                Server::start(move |request, wire| match (request.method.as_str(), now.load(Relaxed)) {
                    ("HEAD", 0) => old.serve(request, wire),
                    (_, 0) => {
                        now.store(1, Relaxed);
                        old.serve_up_to(request, wire, 2 * MIB)?;
                        wire.cut()
                    }
                    (_, 1) => error(wire, request, "404 Not Found", "NoSuchKey", &[]),
                    _ => match request.field("if-match") {
                        Some(pin) if Some(pin) != new.etag.as_deref() => {
                            error(wire, request, "412 Precondition Failed", "PreconditionFailed", &[])
                        }
                        _ => new.serve(request, wire),
                    },
                });
            let sandbox = Sandbox::new();
            let (url, command) = (server.url(""), [command, &[lanes]].concat());
            let run = weir_of(&sandbox, &url, &command).run();
            // Whether anything came of it before is chance.
            run.says(&["s3://b/k: ", "404", "NoSuchKey"]).hides(SECRET);
            assert!(matches!(run.status.code(), Some(1 | 4)), "{run:?}");
            assert!(!sandbox.path("out").exists(), "{:?}", sandbox.names());
            state.store(2, Relaxed);
            weir_of(&sandbox, &url, &command).run().succeeds();
            assert!(sandbox.read("out") == *expected, "{command:?}");
        }
    }
}

/// 200, and an error in the body, for good: no object, and no upload is left.
#[test]
fn a_success_that_says_no_is_none() {
    let bucket = Bucket::start();
    let sandbox = Sandbox::new();
    sandbox.write("x", pattern(9 * MIB, 1));
    for (body, says) in [
        ("<Error><Code>AccessDenied</Code><Message>no</Message></Error>", "AccessDenied"),
        ("", "has no CompleteMultipartUploadResult"),
        ("<CompleteMultipartUploadResult><ETag>", "is cut"),
    ] {
        bucket.hook(move |request| {
            let is_end = request.method == "POST" && request.target.contains("uploadId=");
            is_end.then(|| Fault::Answer("200 OK", body.to_owned()))
        });
        let run = bucket.put(&sandbox, &["x", "s3://b/k", "--retries", "1"]).run();
        assert!(matches!(run.status.code(), Some(1 | 4)), "{body}: {run:?}");
        run.says(&[says]).hides(SECRET);
        assert!(bucket.holds().objects.is_empty(), "{body}");
        bucket.heals();
        bucket.put(&sandbox, &["x", "s3://b/k"]).run().succeeds();
        assert!(bucket.bytes("k") == pattern(9 * MIB, 1));
        assert!(bucket.holds().uploads.is_empty());
        bucket.holds().objects.clear();
    }
}

/// The same of a copy that the store makes itself.
#[test]
fn a_copy_within_the_store_that_says_no_is_none() {
    for (body, says) in [
        ("<Error><Code>AccessDenied</Code><Message>no</Message></Error>", "AccessDenied"),
        ("<Error><Code>InternalError</Code><Message>again</Message></Error>", "InternalError"),
        ("", "ends in the middle"),
        ("<CopyObjectResult/>", "has no ETag"),
        ("<CopyObjectResult><ETag>\"x\"", "ends in the middle"),
    ] {
        let turns = Arc::new(AtomicUsize::new(0));
        let turn = Arc::clone(&turns);
        let server = Server::start(move |request, wire| {
            taken(request, wire)?;
            match (request.method.as_str(), request.path()) {
                ("PUT", _) => {
                    turn.fetch_add(1, Relaxed);
                    wire.answer("200 OK", &[], body.as_bytes())
                }
                ("HEAD", "/b/k") => wire.head("200 OK", &[("Content-Length", "3"), ("ETag", "\"one\"")]),
                ("HEAD", _) => wire.head("404 Not Found", &[("Content-Length", "0")]),
                _ => wire.answer(
                    "200 OK",
                    &[],
                    b"<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>",
                ),
            }
        });
        let sandbox = Sandbox::new();
        let run = weir_of(&sandbox, server.url("").as_str(), &["cp", "s3://b/k", "s3://b/new"]).run();
        run.fails(1, &["s3://b/new", says]).hides(SECRET);
        let expected = if body.contains("InternalError") { 2 } else { 1 };
        assert!(turns.load(Relaxed) >= expected, "{body}: {} requests", turns.load(Relaxed));
    }
}

/// What does not answer a list of deletions does not say that all are gone.
#[test]
fn a_deletion_that_is_answered_with_something_else_is_none() {
    for (body, says) in [
        ("<html><body>Welcome</body></html>", "is not the result of a deletion"),
        ("<ListBucketResult/>", "is not the result of a deletion"),
        ("", "ends in the middle"),
    ] {
        let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
        for key in ["p/x", "q/old"] {
            bucket.hold(key, b"x".to_vec());
        }
        bucket.hook(move |request| {
            let is_deletion = request.method == "POST" && request.target.contains("delete");
            is_deletion.then(|| Fault::Answer("200 OK", body.to_owned()))
        });
        let args = ["cp", "--delete", "s3://b/p/", "s3://b/q/"];
        let run = weir_of(&sandbox, &bucket.server.url(""), &args).run();
        run.fails(1, &["cannot delete 1 objects of", says]).hides(SECRET);
        assert!(bucket.holds().objects.contains_key("q/old"), "{body}");
        bucket.heals();
        weir_of(&sandbox, &bucket.server.url(""), &args).run().succeeds();
        assert!(!bucket.holds().objects.contains_key("q/old"), "{body}");
    }
}

/// A copy above 5 GiB goes part by part: one that is interrupted leaves no upload.
#[test]
fn an_interrupted_copy_within_the_store_takes_its_upload_away() {
    let (bucket, sandbox) = (Bucket::start(), Sandbox::new());
    bucket.hold("p/k", b"said to be larger".to_vec());
    bucket.hook(|request| {
        let is_source = request.target.contains("list-type") && request.target.contains("prefix=p");
        let list = "<ListBucketResult><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated><Contents><Key>p/k</Key>\
                    <Size>6442450944</Size><LastModified>2026-11-26T10:00:00.000Z</LastModified></Contents>\
                    </ListBucketResult>";
        match () {
            () if is_source => Some(Fault::Answer("200 OK", list.to_owned())),
            () if request.target.contains("partNumber=") => Some(Fault::Hang),
            () => None,
        }
    });
    let args = ["cp", "s3://b/p/", "s3://b/q/"];
    let running = weir_of(&sandbox, &bucket.server.url(""), &args).spawn();
    let asks_part = |seen: &Arc<support::LoggedRequest>| seen.request.target.contains("partNumber=");
    wait_for("a part", || bucket.server.requests().iter().any(asks_part));
    running.signal(Signal::INT);
    running.wait().exits(130);
    assert!(bucket.holds().uploads.is_empty());
    let aborts = |seen: &Arc<support::LoggedRequest>| seen.request.method == "DELETE";
    assert!(bucket.server.requests().iter().any(aborts));
}

/// Its completion was done and answered with a fault, and the next attempt finds no upload.
#[test]
fn a_large_copy_within_the_store_whose_end_was_not_answered_is_done() {
    const PARTS: usize = 12;
    const SIZE: u64 = 6 << 30;
    let part = "0f".repeat(16);
    let tags = weir_codec::hex::encode(&weir_codec::Algorithm::MD5.of(&[0x0f; 16 * PARTS]));
    let is_done = AtomicBool::new(false);
    let list = |objects: &str| {
        format!(
            "<ListBucketResult><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated>{objects}</ListBucketResult>"
        )
    };
    let there = list(&format!(
        "<Contents><Key>p/k</Key><Size>{SIZE}</Size><LastModified>2026-11-26T10:00:00.000Z</LastModified></Contents>"
    ));
    let none = list("");
    let server = Server::start(move |request, wire| {
        taken(request, wire)?;
        let target = request.target.as_str();
        let head = |tag: &str| [("Content-Length", SIZE.to_string()), ("ETag", format!("\"{tag}\""))];
        match request.method.as_str() {
            "GET" if target.contains("prefix=p") => wire.answer("200 OK", &[], there.as_bytes()),
            "GET" if target.contains("list-type") => wire.answer("200 OK", &[], none.as_bytes()),
            "GET" => wire.answer("200 OK", &[], b"<ListMultipartUploadsResult></ListMultipartUploadsResult>"),
            "HEAD" if target.contains("p/k") => wire.head("200 OK", &head("one")),
            "HEAD" if is_done.load(Relaxed) => wire.head("200 OK", &head(&format!("{tags}-{PARTS}"))),
            "HEAD" => wire.head("404 Not Found", &[("Content-Length", "0")]),
            "PUT" => {
                let text = format!("<CopyPartResult><ETag>\"{part}\"</ETag></CopyPartResult>");
                wire.answer("200 OK", &[], text.as_bytes())
            }
            "POST" if target.contains("uploads") => {
                wire.answer("200 OK", &[], b"<Result><UploadId>u</UploadId></Result>")
            }
            "POST" if !is_done.swap(true, Relaxed) => {
                error(wire, request, "500 Internal Server Error", "InternalError", &[])
            }
            _ => error(wire, request, "404 Not Found", "NoSuchUpload", &[]),
        }
    });
    let sandbox = Sandbox::new();
    weir_of(&sandbox, &server.url(""), &["cp", "s3://b/p/", "s3://b/q/"]).run().succeeds().hides("is left");
    assert!(server.requests().iter().all(|seen| seen.request.method != "DELETE"));
}

/// A copy waits for a store as long as its user has said.
#[test]
fn a_silent_store_is_given_up_as_soon_as_the_user_wants() {
    let sandbox = Sandbox::new();
    sandbox.write("here", "content");
    for ends in [["here", "s3://b/k"], ["s3://b/k", "back"]] {
        let server = Server::start(|_, wire| {
            wire.wait_for_close()?;
            support::over()
        });
        let args = ["cp", "--timeout", "1", ends[0], ends[1]];
        let began = Instant::now();
        let running = weir_of(&sandbox, &server.url(""), &args).spawn();
        wait_for("another attempt", || server.connections() > 1);
        // Without a word from the user it is a minute.
        assert!(began.elapsed() < Duration::from_secs(50), "{ends:?}");
        running.signal(Signal::INT);
        running.wait().exits(130);
    }
}

/// Keys that a shell, an encoding, a path or a terminal makes something else of.
fn odd_keys() -> Vec<String> {
    let odd = [
        "a//b",
        "/lead",
        "//",
        "x%2Fy%25%",
        "new\nline",
        "plus+ sp",
        "\u{e9}\u{1f40b}",
        "q?a=b&c#d",
        "*[x]?",
        "~-._",
    ];
    let mut keys: Vec<String> = odd.iter().map(|key| (*key).to_owned()).collect();
    keys.push("k".repeat(1024));
    // 1024 bytes, and fewer letters.
    keys.push("\u{e9}".repeat(512));
    keys
}

#[test]
fn odd_keys_there_and_back() {
    let bucket = ListedBucket::start(&[], Manner::InOrder, 1000);
    let sandbox = Sandbox::new();
    for (number, key) in odd_keys().iter().enumerate() {
        let content = format!("content of {number}");
        sandbox.write("here", &content);
        let url = format!("s3://b/{key}");
        let is_prefix = key.ends_with('/');
        // A key with a slash at its end is a folder to put and cp: the file goes into it.
        let stored = if is_prefix { format!("{key}here") } else { key.clone() };
        bucket.weir(&sandbox, &["put", "here", &url]).run().succeeds().hides(SECRET);
        assert_eq!(bucket.bytes(&stored).as_deref(), Some(content.as_bytes()), "put {key:?}");
        bucket.holds(&[]);
        bucket.weir(&sandbox, &["cp", "here", &url]).run().succeeds();
        assert_eq!(bucket.bytes(&stored).as_deref(), Some(content.as_bytes()), "cp {key:?}");
        if is_prefix || key.contains(['*', '?', '[']) {
            continue;
        }
        bucket.weir(&sandbox, &["get", &url, "-o", "out", "--force"]).run().succeeds();
        assert_eq!(sandbox.read("out"), content.as_bytes(), "get {key:?}");
        bucket.weir(&sandbox, &["cp", &url, "back"]).run().succeeds();
        assert_eq!(sandbox.read("back"), content.as_bytes(), "cp {key:?} back");
        std::fs::remove_file(sandbox.path("back")).unwrap();
        bucket.weir(&sandbox, &["cp", &url, "s3://b/copy-of-it"]).run().succeeds();
        assert_eq!(bucket.bytes("copy-of-it").as_deref(), Some(content.as_bytes()), "cp {key:?} within");
        let run = bucket.weir(&sandbox, &["ls", "-r", "--json", "s3://b"]).run();
        let listed = String::from_utf8(run.succeeds().stdout.clone()).unwrap();
        let has =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["key"] == key.as_str();
        assert!(listed.lines().any(has), "ls {key:?}: {listed}");
    }
    assert!(!sandbox.names().iter().any(|name| name.contains("lead")), "{:?}", sandbox.names());
}

/// Letters of a pattern are themselves where they name an object.
#[test]
fn keys_like_patterns_and_folders() {
    let objects: [(&str, &[u8]); 4] =
        [("*[x]?", b"star"), ("trail/", b"slash"), ("trail/in", b"in"), ("none/", b"")];
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 1000);
    let sandbox = Sandbox::new();
    bucket.weir(&sandbox, &["get", "s3://b/*[x]?", "-o", "out"]).run().succeeds();
    assert_eq!(sandbox.read("out"), b"star");
    for (args, folder) in
        [(&["get", "s3://b/trail/", "-o", "got/"][..], "got"), (&["cp", "s3://b/trail/", "copied"], "copied")]
    {
        let run = bucket.weir(&sandbox, args).run();
        run.fails(1, &["s3://b/trail/", "its key ends with a slash, and it has content"]);
        assert_eq!(sandbox.read(&format!("{folder}/in")), b"in");
    }
    bucket.weir(&sandbox, &["cp", "s3://b/none/", "empty"]).run().succeeds();
    // A source that is not there leaves no folder behind, and a link to a pipe is not replaced.
    bucket.weir(&sandbox, &["cp", "s3://b/nothing/", "new"]).run().fails(1, &["nothing of that name"]);
    sandbox.has_nothing_of("new");
    sandbox.pipe("pipe");
    std::os::unix::fs::symlink("pipe", sandbox.path("link")).unwrap();
    let run = bucket.weir(&sandbox, &["cp", "s3://b/trail/in", "link"]).run();
    run.fails(1, &["a link to a device, pipe or socket", "'weir get s3://b/trail/in -o -' prints it"]);
    assert!(sandbox.path("link").is_symlink());
}

/// A key, and another one below it as if it were a folder: the first to arrive is written, and the other one
/// fails with the reason.
#[test]
fn a_key_that_is_a_folder_of_others_says_so() {
    const SAYS: &str = "cannot both be files";
    let objects: [(&str, &[u8]); 2] = [("p/a", b"one"), ("p/a/b", b"two")];
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 1000);
    for is_new in [true, false] {
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path("out")).unwrap();
        if !is_new {
            sandbox.write("out/other", "other");
        }
        let run = bucket.weir(&sandbox, &["cp", "s3://b/p/", "out"]).run();
        run.fails(1, &["s3://b/p/a", SAYS]).hides("add a '/'");
        let comes = if sandbox.path("out/a").is_dir() { ("out/a/b", b"two") } else { ("out/a", b"one") };
        assert_eq!(sandbox.read(comes.0), comes.1);
    }
    // What is here already stays.
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("folder/a")).unwrap();
    std::fs::create_dir(sandbox.path("file")).unwrap();
    sandbox.write("file/a", "one");
    for (place, says) in [
        ("folder", "s3://b/p/a: cannot be a file: a folder has its name here"),
        ("file", "s3://b/p/a/b: cannot be a file: a file has the name of its folder here"),
    ] {
        bucket.weir(&sandbox, &["cp", "s3://b/p/", place]).run().fails(1, &[says, SAYS]);
    }
    assert_eq!(sandbox.read("folder/a/b"), b"two");
    assert_eq!(sandbox.read("file/a"), b"one");
}

/// A segment that no URL can hold is refused before anything is asked, by name, and the others of a tree
/// come.
#[test]
fn keys_that_no_url_can_hold() {
    let objects: [(&str, &[u8]); 3] = [("a/../b", b"x"), ("./c", b"x"), ("good", b"good")];
    let bucket = ListedBucket::start(&objects, Manner::InOrder, 1000);
    let sandbox = Sandbox::new();
    sandbox.write("here", "content");
    let says = ["no URL can hold a segment '.' or '..'", "a/../b"];
    for args in [
        &["get", "s3://b/a/../b", "-o", "out"][..],
        &["put", "here", "s3://b/a/../b"],
        &["cp", "here", "s3://b/a/../b"],
        &["cp", "s3://b/a/../b", "back"],
        &["cp", "s3://b/good", "s3://b/a/../b"],
    ] {
        let run = bucket.weir(&sandbox, args).run();
        assert!(matches!(run.status.code(), Some(1 | 2)), "{args:?}: {run:?}");
        run.says(&says);
    }
    let long = format!("s3://b/{}", "k".repeat(1025));
    for args in [&["get", &long][..], &["put", "here", &long], &["cp", "here", &long]] {
        let run = bucket.weir(&sandbox, args).run();
        assert!(matches!(run.status.code(), Some(1 | 2)), "{args:?}: {run:?}");
        run.says(&["longer than 1024 bytes"]);
    }
    for (args, folder) in
        [(&["get", "s3://b/", "-o", "got/"][..], "got"), (&["cp", "s3://b/", "copied"], "copied")]
    {
        let run = bucket.weir(&sandbox, args).run();
        run.fails(1, &["s3://b/a/../b", "s3://b/./c"]);
        assert_eq!(sandbox.read(&format!("{folder}/good")), b"good");
    }
    assert_eq!(bucket.bytes("a/../b").as_deref(), Some(&b"x"[..]), "nobody has written over it");
}

/// A list that is cut or has no end fails each command that follows it, and one out of order none.
#[test]
fn lists_that_are_not_as_they_should_be() {
    let names: Vec<String> = (0..10).map(|number| format!("p/{number}")).collect();
    let objects: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), name.as_bytes())).collect();
    for (manner, says) in [
        (Manner::Cut, Some("ends in the middle")),
        (Manner::Repeated, Some("goes round")),
        (Manner::NoToken, Some("no token")),
        (Manner::SecondDenied, Some("AccessDenied")),
        (Manner::Disordered, None),
        (Manner::SlowDown, None),
        (Manner::V1, None),
    ] {
        let bucket = ListedBucket::start(&objects, manner, 3);
        let sandbox = Sandbox::new();
        let run = bucket.weir(&sandbox, &["get", "s3://b/p/", "-o", "out/"]).run();
        match says {
            Some(says) => run.fails(1, &[says]).hides(SECRET),
            None => run.succeeds(),
        };
        let came = names.iter().filter(|name| sandbox.path(name.replace("p/", "out/")).exists()).count();
        assert!(came == 10 || says.is_some(), "{manner:?}: {came}");
    }
}

/// A store that has `list` behind `p/`, and one object, `q/mine`, elsewhere.
fn listing(list: String) -> Server {
    Server::start(move |request, wire| {
        taken(request, wire)?;
        let mine = "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>q/mine</Key><Size>4</Size>\
                    <LastModified>2026-11-26T10:00:00.000Z</LastModified></Contents></ListBucketResult>";
        match (request.method.as_str(), request.path()) {
            ("GET", "/b/" | "/b") if request.target.contains("prefix=p") => {
                wire.answer("200 OK", &[], list.as_bytes())
            }
            ("GET", "/b/" | "/b") => wire.answer("200 OK", &[], mine.as_bytes()),
            ("POST", _) => wire.answer("200 OK", &[], b"<DeleteResult/>"),
            _ => wire.head("404 Not Found", &[("Content-Length", "0")]),
        }
    })
}

/// Copies nothing of what it has behind `p/`, and deletes what that lacks: here, and behind `q/`. Whether
/// this was done there is returned.
fn delete_by_list(server: &Server, sandbox: &Sandbox) -> ([Run; 2], bool) {
    std::fs::create_dir_all(sandbox.path("out")).unwrap();
    sandbox.write("out/mine", "mine");
    let run = |to: &str| {
        let args = ["cp", "--delete", "--existing", "s3://b/p/", to];
        weir_of(sandbox, &server.url(""), &args).run()
    };
    let runs = [run("out"), run("s3://b/q/")];
    (runs, server.requests().iter().any(|seen| seen.request.method == "POST"))
}

/// As many objects as were asked for may be all that there are, or not.
#[test]
fn a_list_that_does_not_say_whether_it_is_whole_deletes_nothing() {
    for (count, end, is_whole) in
        [(999, "", true), (1000, "", false), (1000, "<IsTruncated>false</IsTruncated>", true)]
    {
        let object = |number| {
            format!(
                "<Contents><Key>p/{number}</Key><Size>1</Size><LastModified>2026-11-26T10:00:00.000Z</LastModified>\
                 </Contents>"
            )
        };
        let objects: String = (0..count).map(object).collect();
        let server = listing(format!("<ListBucketResult>{objects}{end}</ListBucketResult>"));
        let sandbox = Sandbox::new();
        let (runs, is_deleted) = delete_by_list(&server, &sandbox);
        for run in runs {
            match is_whole {
                true => run.succeeds(),
                false => run
                    .fails(1, &["nothing was deleted, since the store does not say that its list is whole"]),
            };
        }
        assert_eq!((sandbox.path("out/mine").exists(), is_deleted), (!is_whole, is_whole), "{count} {end}");
    }
}

/// What it does not say is not nought.
#[test]
fn a_list_without_sizes_is_none() {
    for size in ["", "<Size/>", "<Size>some</Size>"] {
        let object = format!("<Contents><Key>p/mine</Key>{size}</Contents>");
        let server =
            listing(format!("<ListBucketResult><IsTruncated>false</IsTruncated>{object}</ListBucketResult>"));
        let sandbox = Sandbox::new();
        let (runs, is_deleted) = delete_by_list(&server, &sandbox);
        for run in runs {
            run.fails(1, &["does not say how large 'p/mine' is", "nothing was deleted"]);
        }
        assert!(!is_deleted && sandbox.read("out/mine") == b"mine", "{size}");
    }
}

/// A length that is missing in the answer to a HEAD is not zero.
#[test]
fn a_head_without_a_length_is_of_no_empty_object() {
    let server = Server::start(|request, wire| match request.method.as_str() {
        "HEAD" => wire.head("200 OK", &[("ETag", "\"one\"")]),
        _ => wire.answer("200 OK", &[("ETag", "\"one\"")], b"abc"),
    });
    let sandbox = Sandbox::new();
    let run = weir_of(&sandbox, &server.url(""), &["cp", "s3://b/k", "out"]).run();
    run.fails(1, &["does not say how large 'k' is; weir get fetches it"]).hides(SECRET);
    assert!(!sandbox.path("out").exists());
    // Google says it in another field where it would decode the object for others.
    let server = Server::start(|request, wire| match request.method.as_str() {
        "HEAD" => wire.head("200 OK", &[("ETag", "\"one\""), ("x-goog-stored-content-length", "3")]),
        _ => wire.answer("200 OK", &[("ETag", "\"one\"")], b"abc"),
    });
    weir_of(&sandbox, &server.url(""), &["cp", "s3://b/k", "out"]).run().succeeds();
    assert_eq!(sandbox.read("out"), b"abc");
}

/// The same for the lists of Google and Azure, and for an answer with 200 that is not a list, on the first
/// page or the second.
#[test]
fn no_list_of_other_stores_deletes_anything() {
    const BUSY: &str = "{\"status\":\"maintenance\"}";
    let first = "{\"kind\":\"storage#objects\",\"nextPageToken\":\"t\"}";
    let item = "{\"kind\":\"storage#objects\",\"items\":[{\"name\":\"p/mine\"}]}";
    let blob = "<EnumerationResults><Blobs><Blob><Name>p/mine</Name><Properties><Etag>0x1</Etag></Properties>\
                </Blob></Blobs><NextMarker/></EnumerationResults>";
    for (url, page, next, says) in [
        ("gs://b/p/", BUSY, BUSY, "is no list of objects"),
        ("gs://b/p/", first, BUSY, "is no list of objects"),
        ("gs://b/p/", item, item, "does not say how large 'p/mine' is"),
        ("az://b/p/", blob, blob, "does not say how large 'p/mine' is"),
    ] {
        let server = Server::start(move |request, wire| {
            let body = if request.target.contains("pageToken=") { next } else { page };
            wire.answer("200 OK", &[], body.as_bytes())
        });
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path("out")).unwrap();
        sandbox.write("out/mine", "mine");
        let weir = sandbox.weir(support::WEIR, ["cp", "--delete", "--existing", url, "out"]);
        let weir = weir.env("STORAGE_EMULATOR_HOST", server.url(""));
        let weir = weir.env("AZURE_STORAGE_ACCOUNT", "acc").env("AZURE_STORAGE_ENDPOINT", server.url("acc"));
        let weir = weir.env("AZURE_STORAGE_KEY", support::base64(SECRET.as_bytes()));
        weir.run().fails(1, &[says, "nothing was deleted"]).hides(SECRET);
        assert_eq!(sandbox.read("out/mine"), b"mine");
    }
}

/// Keys that run out while bytes are on their way are asked for anew, and the request is sent again.
#[test]
fn credentials_that_run_out_on_the_way_are_renewed() {
    let object = Object::new(12 * MIB);
    let bytes = Arc::clone(&object.bytes);
    let answered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&answered);
    let server = Server::start(move |request, wire| {
        let length = request.field("content-length").map_or(0, |text| text.parse().unwrap());
        wire.receive(length)?;
        let number = number_of_key(request);
        // Of each key one request is taken.
        if count.fetch_max(number, Relaxed) >= number {
            return error(wire, request, "400 Bad Request", "ExpiredToken", &[]);
        }
        match request.method.as_str() {
            "GET" if request.path() == "/b/k" => {
                object.serve_up_to(request, wire, 4 * MIB)?;
                wire.cut()
            }
            "HEAD" => wire.head("404 Not Found", &[("Content-Length", "0")]),
            _ => wire.answer("200 OK", &[("ETag", "\"one\"")], b""),
        }
    });
    let sandbox = Sandbox::new();
    let script = sandbox.write(
        "give",
        "#!/bin/sh\necho x >> turns\nn=$(wc -l < turns)\n\
         echo '{\"Version\":1,\"AccessKeyId\":\"KEY'$n'\",\"SecretAccessKey\":\"a-secret-of-tests\",\"SessionToken\":\"t\"}'\n",
    );
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::create_dir(sandbox.path(".aws")).unwrap();
    let config = format!("[default]\nregion = us-east-1\ncredential_process = {}\n", script.display());
    sandbox.write(".aws/config", config);
    sandbox.write("here", "content");
    let run = |server: &Server, args: &[&str]| {
        let weir = sandbox.weir(support::WEIR, args).env("AWS_ENDPOINT_URL", server.url(""));
        weir.run().succeeds().hides(SECRET);
    };
    run(&server, &["get", "s3://b/k", "-o", "out", "-c", "1"]);
    assert!(sandbox.read("out") == *bytes);
    assert!(answered.load(Relaxed) >= 3, "{}", answered.load(Relaxed));
    run(&server, &["put", "here", "s3://b/new"]);
    // Of each key one part of an upload is taken.
    let bucket = Bucket::start();
    let refused = Arc::new(AtomicUsize::new(0));
    let (mut last, count) = (0, Arc::clone(&refused));
    bucket.hook(move |request| {
        let is_part = request.target.contains("partNumber=");
        let number = number_of_key(request);
        if !is_part || std::mem::replace(&mut last, number) < number {
            return None;
        }
        count.fetch_add(1, Relaxed);
        let body = "<Error><Code>ExpiredToken</Code><Message>of tests</Message></Error>";
        Some(Fault::Answer("400 Bad Request", body.to_owned()))
    });
    sandbox.write("large", pattern(11 * MIB, 1));
    run(&bucket.server, &["put", "large", "s3://b/put", "--part-size", "5MiB", "-c", "1"]);
    run(&bucket.server, &["cp", "large", "s3://b/copied", "-c", "1"]);
    assert!(refused.load(Relaxed) >= 2, "{refused:?}");
    for key in ["put", "copied"] {
        assert!(bucket.bytes(key) == pattern(11 * MIB, 1), "{key}");
    }
    assert!(bucket.holds().uploads.is_empty());
}

/// Of `KEY3` it is 3.
fn number_of_key(request: &Request) -> usize {
    let signed = request.field("authorization").unwrap_or_default();
    let key = signed.split("Credential=KEY").nth(1).unwrap_or_default();
    key.split('/').next().unwrap().parse().unwrap()
}
