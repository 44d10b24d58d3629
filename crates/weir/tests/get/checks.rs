//! `weir get` and what servers say beside the bytes: digests that they declare, words of their errors, links
//! that are renewed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use support::{MIB, Object, Request, Run, Sandbox, Server, Wire, base64, brings, pattern, refuses, wait_for};
use weir_codec::{Algorithm, hex};

/// How a store writes the digest of an object.
type Form = fn(&[u8]) -> String;

/// Fields that declare a digest of the whole object, and whether they do beside a part of it too.
const FIELDS: [(&str, Form, bool); 13] = [
    ("x-amz-checksum-crc32", |bytes| base64(&Algorithm::CRC32.of(bytes)), false),
    ("x-amz-checksum-crc32c", |bytes| base64(&Algorithm::CRC32C.of(bytes)), false),
    ("x-amz-checksum-crc64nvme", |bytes| base64(&Algorithm::CRC64NVME.of(bytes)), false),
    ("x-amz-checksum-sha1", |bytes| base64(&Algorithm::SHA1.of(bytes)), false),
    ("x-amz-checksum-sha256", |bytes| base64(&Algorithm::SHA256.of(bytes)), false),
    ("x-goog-hash", |bytes| format!("crc32c={}", base64(&Algorithm::CRC32C.of(bytes))), true),
    ("x-ms-blob-content-md5", |bytes| base64(&Algorithm::MD5.of(bytes)), true),
    ("X-Checksum-Sha1", |bytes| hex::encode(&Algorithm::SHA1.of(bytes)), true),
    ("X-Checksum-Sha256", |bytes| hex::encode(&Algorithm::SHA256.of(bytes)), true),
    ("X-Checksum-Md5", |bytes| hex::encode(&Algorithm::MD5.of(bytes)), true),
    ("X-Linked-Etag", |bytes| format!("\"{}\"", hex::encode(&Algorithm::SHA256.of(bytes))), true),
    ("Docker-Content-Digest", |bytes| format!("sha256:{}", hex::encode(&Algorithm::SHA256.of(bytes))), true),
    (
        "x-oss-hash-crc64ecma",
        |bytes| u64::from_be_bytes(Algorithm::CRC64XZ.of(bytes).try_into().unwrap_or_default()).to_string(),
        true,
    ),
];

fn serve(object: Object) -> Server {
    Server::start(move |request, wire| object.serve(request, wire))
}

/// A server that sends at most half of what is asked for.
fn beginning_first(object: &Object, request: &Request, wire: &mut Wire) -> std::io::Result<()> {
    let size = object.bytes.len();
    let start = request.start() as usize;
    let end = request.range().and_then(|range| range.1).map_or(size, |end| end as usize);
    let end = if start == 0 { end.min(size / 2) } else { end };
    let range = format!("bytes {start}-{}/{size}", end - 1);
    let own = [("ETag", "\"one\""), ("Content-Range", &range)];
    let declared: Vec<(&str, &str)> =
        object.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    wire.answer("206 Partial Content", &[&own[..], &declared].concat(), &object.bytes[start..end])
}

#[test]
fn declared_digests_are_checked() {
    for length in [1000, 3 * MIB] {
        let (right, wrong) = (pattern(length, 1), pattern(length, 2));
        for (field, form, on_a_part) in FIELDS {
            // A 206 that holds all of it, a 200, and a 206 with the beginning.
            for object in [Object::new(length), Object::new(length).whole_only()] {
                brings(&serve(object.clone().field(field, &form(&right))), &[], &right);
                let server = serve(object.field(field, &form(&wrong)));
                refuses(&server, &[], 3, &["does not match", "the server's", field]);
            }
            let object = Object::new(length).field(field, &form(&wrong));
            let server = Server::start(move |request, wire| beginning_first(&object, request, wire));
            match on_a_part {
                true => refuses(&server, &[], 3, &["does not match", field]),
                false => brings(&server, &[], &right),
            };
        }
    }
}

/// A server of honest parts that names no version, over a path that breaks every answer off: the digest that
/// the user gives proves what nothing else does.
#[test]
fn a_checksum_stands_for_a_validator() {
    const SIZE: usize = 3 * MIB;
    const MOST: usize = MIB;
    let given = |algorithm: Algorithm, bytes: &[u8]| {
        format!("{}:{}", algorithm.name(), hex::encode(&algorithm.of(bytes)))
    };
    let strong = given(Algorithm::SHA256, &pattern(SIZE, 1));
    for etag in [None, Some("W/\"a\"")] {
        let object = Object::new(SIZE).etag(etag);
        let server = Server::start(move |request, wire| {
            object.serve_up_to(request, wire, MOST)?;
            wire.close()
        });
        brings(&server, &["--checksum", &strong, "-c", "1", "--retries", "1"], &pattern(SIZE, 1));
        // Another program could have made bytes that have these.
        for weak in [&[][..], &["--checksum", &given(Algorithm::MD5, &pattern(SIZE, 1))]] {
            refuses(&server, weak, 1, &["127.0.0.1 closed the connection after"]);
        }
    }
    // Two versions of one size: the mix has not the digest, and is begun anew from one answer.
    let [one, two] =
        [1, 2].map(|seed| Object { bytes: pattern(SIZE, seed).into(), ..Object::new(0).etag(None) });
    let server = Server::start(move |request, wire| match request.number {
        0 => one.serve_up_to(request, wire, MOST).and_then(|()| wire.close()),
        1 => two.serve(request, wire),
        _ => one.serve(request, wire),
    });
    let run = brings(&server, &["--checksum", &strong, "-c", "1"], &pattern(SIZE, 1));
    run.says(&["does not match", "starting again"]);
}

/// What Amazon, and moto, say of an object that was put in one piece, and of one in parts.
#[test]
fn checksums_of_whole_objects_and_of_parts() {
    let length = 3 * MIB;
    let right = pattern(length, 1);
    let crc = |seed| base64(&Algorithm::CRC64NVME.of(&pattern(length, seed)));
    let full = |value: &str| {
        Object::new(length)
            .field("x-amz-checksum-crc64nvme", value)
            .field("x-amz-checksum-type", "FULL_OBJECT")
    };
    brings(&serve(full(&crc(1))), &[], &right);
    refuses(&serve(full(&crc(2))), &[], 3, &["crc64nvme of out does not match", "x-amz-checksum-crc64nvme"]);
    for value in [format!("{}-3", crc(2)), format!("{}-1", base64(&Algorithm::CRC32.of(b"parts")))] {
        let object = Object::new(length).whole_only().field("x-amz-checksum-crc32", &value);
        brings(&serve(object.field("x-amz-checksum-type", "COMPOSITE")), &[], &right);
    }
    // A git blob's name, a tag of another kind.
    for value in [&"ab".repeat(20), "W/\"x\"", "\"not-hex\""] {
        brings(&serve(Object::new(length).field("X-Linked-Etag", value)), &[], &right);
    }
}

/// A hub's first answer leads to a store, and says what lies there.
#[test]
fn what_a_redirect_declares() {
    let length = 3 * MIB;
    let right = pattern(length, 1);
    let sha = |seed| hex::encode(&Algorithm::SHA256.of(&pattern(length, seed)));
    let size = length.to_string();
    let hub = |fields: Vec<(&'static str, String)>| {
        let object = Object::new(length);
        Server::start(move |request, wire| match request.path() {
            "/x" => {
                let fields: Vec<(&str, &str)> =
                    fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
                wire.answer("302 Found", &[&fields[..], &[("Location", "/store/x")]].concat(), b"")
            }
            _ => object.serve(request, wire),
        })
    };
    for name in ["X-Linked-Etag", "X-Checksum-Sha256"] {
        brings(&hub(vec![(name, sha(1)), ("X-Linked-Size", size.clone())]), &[], &right);
        refuses(
            &hub(vec![(name, sha(2)), ("X-Linked-Size", size.clone())]),
            &[],
            3,
            &["does not match", name],
        );
    }
    // Of another object, of the redirect's own body.
    brings(&hub(vec![("X-Linked-Etag", sha(2)), ("X-Linked-Size", "5".to_owned())]), &[], &right);
    brings(
        &hub(vec![("Repr-Digest", format!("sha-256=:{}:", base64(&Algorithm::SHA256.of(b""))))]),
        &[],
        &right,
    );
    brings(&hub(vec![("Content-MD5", base64(&Algorithm::MD5.of(b"")))]), &[], &right);
}

fn answers(status: &'static str, fields: &'static [(&str, &str)], body: &'static str) -> Server {
    Server::start(move |_, wire| wire.answer(status, fields, body.as_bytes()))
}

#[test]
fn the_words_of_errors() {
    for (status, fields, body, says) in [
        (
            "403 Forbidden",
            &[("Content-Type", "application/xml")][..],
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied</Code><Message>Request has expired\
             </Message><RequestId>1</RequestId></Error>",
            "answered 403 Forbidden (AccessDenied: Request has expired); the link may have expired",
        ),
        (
            "404 Not Found",
            &[("Content-Type", "application/xml")],
            "<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message><Key>x</Key></Error>",
            "answered 404 Not Found (NoSuchKey: The specified key does not exist)",
        ),
        (
            "416 Requested Range Not Satisfiable",
            &[("Content-Type", "application/xml")],
            "<Error><Code>InvalidRange</Code><Message>The requested range is not satisfiable</Message></Error>",
            "answered 416 Range Not Satisfiable (InvalidRange: The requested range is not satisfiable)",
        ),
        (
            "404 The specified blob does not exist.",
            &[("x-ms-error-code", "BlobNotFound")],
            "\u{feff}<?xml version=\"1.0\"?><Error><Code>BlobNotFound</Code></Error>",
            "(BlobNotFound)",
        ),
        (
            "401 Unauthorized",
            &[("Content-Type", "application/json"), ("X-Error-Message", "Access to model m is restricted")],
            "{\"error\":\"other\"}",
            "(Access to model m is restricted)",
        ),
        (
            "404 Not Found",
            &[("Content-Type", "application/json")],
            "{\"errors\":[{\"code\":\"BLOB_UNKNOWN\",\"message\":\"blob unknown to registry\"}]}",
            "(blob unknown to registry)",
        ),
        (
            "400 Bad Request",
            &[("Content-Type", "application/problem+json")],
            "{\"title\":\"no\",\"detail\":\"part 7 is not there\"}",
            "(part 7 is not there)",
        ),
        (
            "410 Gone",
            &[("Content-Type", "text/plain")],
            "moved to \u{1b}[31mthe attic\n",
            "(moved to [31mthe attic)",
        ),
        (
            "404 Not Found",
            &[("Content-Type", "text/html")],
            "<title>404 Not Found</title>",
            "answered 404 Not Found\n",
        ),
    ] {
        let run = refuses(&answers(status, fields, body), &[], 1, &[says]);
        assert!(!run.stderr.contains('\u{1b}'), "{:?}", run.stderr);
    }
}

#[test]
fn words_are_bounded_and_hold_no_secret() {
    // Without an end, and without an end in time.
    let endless = Server::start(|_, wire| {
        wire.head("404 Not Found", &[("Content-Type", "text/plain")])?;
        wire.body(b"word ".repeat(100_000).as_slice())?;
        wire.wait_for_close()
    });
    let run = refuses(&endless, &[], 1, &["(word word", "…"]);
    assert!(run.stderr.len() < 1000, "{}", run.stderr);
    let silent = Server::start(|_, wire| {
        wire.head("404 Not Found", &[("Content-Type", "text/plain"), ("Content-Length", "100")])?;
        wire.wait_for_close()
    });
    refuses(&silent, &["--timeout", "600"], 1, &["answered 404 Not Found"]);
    let repeats = Server::start(|request, wire| {
        let token = request.field("x-token").unwrap_or_default();
        let text = format!("no right for {} with {token}", request.target);
        wire.answer("403 Forbidden", &[("Content-Type", "text/plain")], text.as_bytes())
    });
    let sandbox = Sandbox::new();
    let url = repeats.url("x?X-Amz-Signature=geheim1&v=2");
    let run = sandbox.get([&url, "-o", "out", "-H", "X-Token: geheim2", "--json"]).run();
    run.fails(1, &["no right for /x?X-Amz-Signature=REDACTED&v=2 with REDACTED"]).hides("geheim");
}

#[test]
fn a_used_up_quota_says_when_it_is_back() {
    let server = Server::start(|_, wire| {
        let reset =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + Duration::from_secs(3000);
        let reset = reset.as_secs().to_string();
        let fields = [
            ("Content-Type", "application/json"),
            ("X-RateLimit-Limit", "60"),
            ("X-RateLimit-Remaining", "0"),
            ("X-RateLimit-Reset", &*reset),
        ];
        wire.answer("403 rate limit exceeded", &fields, b"{\"message\":\"API rate limit exceeded for host\"}")
    });
    let run = Sandbox::new().get([&server.url("x"), "-o", "out", "--max-wait", "60"]).run();
    run.fails(
        4,
        &["(API rate limit exceeded for host)", "it asks for a wait of", "run the same command again after"],
    );
    assert_eq!(server.requests().len(), 1);
    // Soon over: waited for.
    let server = Server::start(|request, wire| match request.number {
        0 => wire.answer("403 Forbidden", &[("Retry-After", "1")], b"secondary rate limit"),
        _ => wire.answer("200 OK", &[], b"the file"),
    });
    brings(&server, &[], b"the file");
}

/// A server whose links with `mark` in them lead to `begun`, of which an answer keeps back the end: what
/// [`begin`] begins is not whole before the signal is heard. All others lead to `then`.
fn serve_begun(mark: &'static str, begun: Object, then: Object) -> Server {
    let begun = begun.rate(8 << 20);
    Server::start(move |request, wire| {
        if !request.target.contains(mark) {
            return then.serve(request, wire);
        }
        let most = begun.answer(request).part.len() * 5 / 8;
        begun.serve_up_to(request, wire, most)?;
        wire.wait_for_close()
    })
}

/// Begins a download of `url` and stops it in the middle.
fn begin(sandbox: &Sandbox, server: &Server, url: &str) {
    let before = server.sent();
    let running = sandbox.get([url, "-o", "out"]).spawn();
    server.wait("bytes of the file", |sent, _| sent >= before + MIB as u64);
    wait_for("its handler", || running.catches(Signal::INT));
    running.signal(Signal::INT);
    running.wait().exits(130);
}

fn resumed(run: &Run) -> u64 {
    run.succeeds().json()["files"][0]["resumed_from"].as_u64().unwrap()
}

#[test]
fn a_renewed_link_goes_on() {
    let length = 4 * MIB;
    for (first, second) in [
        (
            "X-Amz-Date=1&X-Amz-Credential=geheim0&X-Amz-Signature=geheim1",
            "X-Amz-Date=2&X-Amz-Credential=geheim2&X-Amz-Signature=geheim3",
        ),
        ("X-Goog-Date=1&X-Goog-Signature=geheim1", "X-Goog-Date=2&X-Goog-Signature=geheim3"),
        ("sv=1&se=2&sr=b&sp=r&sig=geheim1", "sp=r&se=3&sv=1&sr=b&sig=geheim3"),
        ("Expires=1&Signature=geheim1&Key-Pair-Id=K1", "Expires=2&Signature=geheim3&Key-Pair-Id=K1"),
        (
            "Policy=geheim0&Signature=geheim1&Key-Pair-Id=K1",
            "Policy=geheim2&Signature=geheim3&Key-Pair-Id=K2",
        ),
        ("v=5&token=geheim1&expires=1", "v=5&token=geheim3&expires=2"),
        (
            "AWSAccessKeyId=geheim0&Signature=geheim1&Expires=1",
            "AWSAccessKeyId=geheim0&Signature=geheim3&Expires=2",
        ),
    ] {
        let server = serve_begun(first, Object::new(length), Object::new(length));
        let sandbox = Sandbox::new();
        begin(&sandbox, &server, &server.url(&format!("x?{first}")));
        let journal = String::from_utf8(sandbox.read("out.weir")).unwrap();
        assert!(!journal.contains("geheim"), "{journal}");
        let run = sandbox.get([&server.url(&format!("x?{second}")), "-o", "out", "--json"]).run();
        assert!(resumed(&run) > 0, "{second}: {}", run.stderr);
        run.hides("geheim");
        assert!(sandbox.read("out") == pattern(length, 1));
    }
}

/// A link that runs out in the middle says what goes on from there, and that does.
#[test]
fn a_link_that_runs_out() {
    let length = 4 * MIB;
    let object = Object::new(length);
    let server =
        Server::start(move |request, wire| match (request.target.contains("sig=2"), request.number) {
            (true, _) => object.serve(request, wire),
            (false, 0) => {
                object.serve_up_to(request, wire, 2 * MIB)?;
                wire.close()
            }
            _ => {
                let fields = [("Content-Type", "application/xml")];
                let text = b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>";
                wire.answer("403 Forbidden", &fields, text)
            }
        });
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x?sig=1&se=1"), "-o", "out"]).run();
    run.fails(
        4,
        &["(AccessDenied: Request has expired)", "are kept, a renewed link with the same name (-o)"],
    );
    let run = sandbox.get([&server.url("x?sig=2&se=2"), "-o", "out", "--json"]).run();
    assert!(resumed(&run) >= 2 * MIB as u64);
    assert!(sandbox.read("out") == pattern(length, 1));
}

#[test]
fn another_object_behind_a_renewed_link_is_not_joined() {
    let length = 4 * MIB;
    let server = serve_begun("sig=1", Object::new(length), Object::new(length).changed());
    let sandbox = Sandbox::new();
    begin(&sandbox, &server, &server.url("x?sig=1"));
    let run = sandbox.get([&server.url("x?sig=2"), "-o", "out", "--json"]).run();
    assert_eq!(resumed(&run), 0);
    assert!(sandbox.read("out") == pattern(length, 2));
    // What names the object differs: another, whatever its tag.
    for (first, second) in [("versionId=1&sig=1", "versionId=2&sig=1"), ("key=geheim1", "key=geheim2")] {
        let server = serve_begun(first, Object::new(length), Object::new(length));
        let sandbox = Sandbox::new();
        begin(&sandbox, &server, &server.url(&format!("x?{first}")));
        assert!(!String::from_utf8_lossy(&sandbox.read("out.weir")).contains("geheim"));
        let run = sandbox.get([&server.url(&format!("x?{second}")), "-o", "out", "--json"]).run();
        assert_eq!(resumed(&run), 0, "{second}");
        run.says(&["the partial file here is of another url"]);
    }
}

/// The first of several lists as well as the last.
#[test]
fn every_list_of_digests_is_required() {
    let (server, sandbox) = (serve(Object::new(1000)), Sandbox::new());
    let right = hex::encode(&Algorithm::SHA256.of(&pattern(1000, 1)));
    for (name, line) in [
        ("right", format!("{right}  x\n")),
        ("wrong", format!("{}  x\n", "00".repeat(32))),
        ("other", format!("{right}  y\n")),
    ] {
        sandbox.write(name, line);
    }
    for (one, two, code) in
        [("right", "right", 0), ("wrong", "right", 3), ("right", "wrong", 3), ("other", "right", 1)]
    {
        let lists = ["--checksum-from", one, "--checksum-from", two];
        sandbox.get([&server.url("x"), "-o", "out", "--force"]).args(&lists).run().exits(code);
    }
}
