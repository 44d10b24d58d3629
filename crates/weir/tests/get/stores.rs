//! `weir get s3://`: from moto, which plays Amazon S3, and from a store that does what stores do on bad days.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use support::http_servers::moto;
use support::{MIB, Object, Request, Run, Sandbox, Server, Weir, Wire, pattern, skip, wait_for};

/// What signs, and must be seen nowhere.
const SECRET: &str = "geheimgeheimgeheim";

/// `weir get` with credentials for the store at `endpoint`.
fn get(sandbox: &Sandbox, endpoint: &str, args: &[&str]) -> Weir {
    let get = sandbox.get(args).env("AWS_ACCESS_KEY_ID", "AKIATEST").env("AWS_SECRET_ACCESS_KEY", SECRET);
    get.env("AWS_ENDPOINT_URL", endpoint)
}

/// A store with one object in the bucket `b`, that answers by `first` where that has an answer.
fn store(
    object: Object,
    first: impl Fn(&Request, &mut Wire) -> Option<io::Result<()>> + Send + Sync + 'static,
) -> Server {
    Server::start(move |request, wire| match first(request, wire) {
        Some(done) => done,
        None if request.path().starts_with("/b/") => object.serve(request, wire),
        None => error(wire, "404 Not Found", "NoSuchKey", "The specified key does not exist.", &[]),
    })
}

fn error(
    wire: &mut Wire,
    status: &str,
    code: &str,
    message: &str,
    fields: &[(&str, &str)],
) -> io::Result<()> {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    );
    let fields = [&[("Content-Type", "application/xml")], fields].concat();
    wire.answer(status, &fields, body.as_bytes())
}

/// The region that a request is signed for.
fn region(request: &Request) -> String {
    let authorization = request.field("authorization").unwrap_or_default();
    authorization.split('/').nth(2).unwrap_or_default().to_owned()
}

#[track_caller]
fn brings(sandbox: &Sandbox, server: &Server, args: &[&str], bytes: &[u8]) -> Run {
    let run = get(sandbox, &server.url(""), args).args(&["-o", "out", "-vv"]).run();
    run.succeeds().hides(SECRET);
    assert!(sandbox.read("out") == bytes, "{args:?}");
    std::fs::remove_file(sandbox.path("out")).unwrap();
    run
}

#[test]
fn objects_of_moto() {
    let Some(moto) = moto() else { return skip("no moto: scripts/need test") };
    let sandbox = Sandbox::new();
    let endpoint = format!("http://127.0.0.1:{}", moto.port);
    let curl = |method: &str, target: &str, body: &[u8]| {
        let path = sandbox.write("body", body);
        let mut curl = std::process::Command::new("curl");
        curl.args(["-sS", "-m", "60", "-o", "/dev/null", "-f", "-X", method, "-H", "Expect:"]);
        curl.args(["-H", "Content-Type: application/octet-stream", "--data-binary"]);
        curl.arg(format!("@{}", path.display()));
        let signed = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=600&X-Amz-Signature=x";
        assert!(curl.arg(format!("{endpoint}/bucket-of-tests{target}?{signed}")).status().unwrap().success());
    };
    curl("PUT", "", b"");
    for (key, encoded, length) in [
        ("none", "none", 0),
        ("one", "one", 1),
        ("in/a//folder/k ?#+%20ü", "in/a//folder/k%20%3F%23%2B%2520%C3%BC", 5 * MIB - 1),
        ("large", "large", 5 * MIB + 1),
    ] {
        let bytes = pattern(length, 1);
        curl("PUT", &format!("/{encoded}"), &bytes);
        let url = format!("s3://bucket-of-tests/{key}");
        let run = get(&sandbox, &endpoint, &[&url, "-o", "out", "--json", "-c", "3"]).run();
        let record = run.succeeds().hides(SECRET).json();
        assert_eq!(record["files"][0]["url"], url.as_str());
        assert!(sandbox.read("out") == bytes, "{key}");
        std::fs::remove_file(sandbox.path("out")).unwrap();
    }
    let run = get(&sandbox, &endpoint, &["s3://bucket-of-tests/none-such", "-o", "out"]).run();
    run.fails(1, &["failed: s3://bucket-of-tests/none-such: 127.0.0.1 answered 404 NOT FOUND (NoSuchKey"]);
    let run = get(&sandbox, &endpoint, &["s3://no-such-bucket/x", "-o", "out"]).run();
    run.fails(1, &["(NoSuchBucket", "there is no bucket 'no-such-bucket' there"]);
    let run = get(&sandbox, &endpoint, &["s3://bucket-of-tests/one", "-o", "out", "--no-sign"]).run();
    run.fails(1, &["asked without a signature; the bucket is not public: leave --no-sign out"]);
}

#[test]
fn names_that_no_store_has() {
    let sandbox = Sandbox::new();
    let long = format!("s3://b/{}", "k".repeat(1025));
    for (url, says) in [
        ("s3://", "expected a bucket behind '//'"),
        ("s3://me:geheim@b/k", "is no name of a bucket"),
        ("s3://b/a/../k", "no URL can hold a segment '.' or '..'"),
        (long.as_str(), "it is longer than 1024 bytes"),
    ] {
        get(&sandbox, "http://127.0.0.1:1", &[url]).run().fails(2, &[says]);
    }
    get(&sandbox, "ftp://x", &["s3://b/k"]).run().fails(2, &["cannot use the endpoint 'ftp://x'"]);
}

#[test]
fn the_region_that_the_store_names_is_taken() {
    for (status, code, fields) in [
        ("400 Bad Request", "AuthorizationHeaderMalformed", &[][..]),
        ("301 Moved Permanently", "PermanentRedirect", &[("x-amz-bucket-region", "eu-north-1")]),
        ("400 Bad Request", "IllegalLocationConstraintException", &[("x-amz-bucket-region", "eu-north-1")]),
    ] {
        let object = Object::new(3 * MIB);
        let bytes = Arc::clone(&object.bytes);
        let server = store(object, move |request, wire| {
            let message = "the region 'us-east-1' is wrong; expecting 'eu-north-1'";
            (region(request) != "eu-north-1").then(|| error(wire, status, code, message, fields))
        });
        let sandbox = Sandbox::new();
        brings(&sandbox, &server, &["s3://b/k", "-c", "2"], &bytes).says(&["the bucket b is in eu-north-1"]);
    }
}

#[test]
fn a_store_that_names_no_region_is_not_asked_for_ever() {
    let server = store(Object::new(1), |_, wire| {
        Some(error(wire, "301 Moved Permanently", "PermanentRedirect", "elsewhere", &[]))
    });
    let sandbox = Sandbox::new();
    let run = get(&sandbox, &server.url(""), &["s3://b/k"]).run();
    run.fails(1, &["PermanentRedirect: elsewhere", "give its --region or --endpoint"]).hides(SECRET);
    // One that names another each time.
    let turn = AtomicUsize::new(0);
    let server = store(Object::new(1), move |_, wire| {
        let region = format!("r-{}", turn.fetch_add(1, Relaxed));
        let fields = [("x-amz-bucket-region", region.as_str())];
        Some(error(wire, "400 Bad Request", "AuthorizationHeaderMalformed", "no", &fields))
    });
    get(&sandbox, &server.url(""), &["s3://b/k", "--retries", "0"]).run().fails(1, &["400 Bad Request"]);
    assert!(server.requests().len() < 20, "{}", server.requests().len());
}

#[test]
fn each_refusal_says_what_helps() {
    let sandbox = Sandbox::new();
    for (status, code, fields, says) in [
        (
            "403 Forbidden",
            "RequestTimeTooSkewed",
            &[("Date", "Sun, 06 Nov 1994 08:49:37 GMT")][..],
            "ahead of the store's; set it",
        ),
        ("403 Forbidden", "InvalidObjectState", &[], "it is archived; restore it first"),
        ("403 Forbidden", "AccessDenied", &[], "asked as AKIATEST of the environment"),
        ("403 Forbidden", "SignatureDoesNotMatch", &[], "the secret does not belong to this key"),
        ("400 Bad Request", "ExpiredToken", &[], "renew them and run the same command again"),
    ] {
        let server = store(Object::new(1), move |_, wire| Some(error(wire, status, code, "no", fields)));
        let run = get(&sandbox, &server.url(""), &["s3://b/k", "--retries", "0"]).run();
        run.fails(1, &[&format!("{code}: no"), says]).hides(SECRET).hides("the link may have expired");
    }
}

/// A part of another version is not even sent: the store is asked for the one that was begun.
#[test]
fn an_object_that_changes_comes_as_the_new_one() {
    let (old, new) = (Object::new(4 * MIB), Object::new(4 * MIB).changed());
    let bytes = Arc::clone(&new.bytes);
    let tag = old.etag.clone().unwrap();
    let parts = AtomicUsize::new(0);
    let server = Server::start(move |request, wire| {
        let pinned = request.field("if-match").map(str::to_owned);
        if parts.fetch_add(1, Relaxed) == 0 {
            old.serve_up_to(request, wire, MIB)?;
            return wire.cut();
        }
        match pinned {
            Some(pin) if pin == tag => {
                error(wire, "412 Precondition Failed", "PreconditionFailed", "no", &[])
            }
            _ => new.serve(request, wire),
        }
    });
    let sandbox = Sandbox::new();
    let run = get(&sandbox, &server.url(""), &["s3://b/k", "-o", "out", "-v"]).run();
    run.succeeds().says(&["it has not this ETag any more"]);
    assert!(sandbox.read("out") == *bytes);
}

#[test]
fn a_store_that_is_busy_is_asked_later() {
    let object = Object::new(2 * MIB);
    let bytes = Arc::clone(&object.bytes);
    let turn = AtomicUsize::new(0);
    let server = store(object, move |_, wire| {
        let is_early = turn.fetch_add(1, Relaxed) < 3;
        is_early.then(|| error(wire, "503 Slow Down", "SlowDown", "Please reduce your request rate.", &[]))
    });
    let sandbox = Sandbox::new();
    brings(&sandbox, &server, &["s3://b/k"], &bytes).says(&["SlowDown"]);
}

#[test]
fn an_interrupted_object_goes_on() {
    let object = Object::new(8 * MIB);
    let bytes = Arc::clone(&object.bytes);
    let slow = object.clone().rate(4_000_000);
    let is_killed = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_killed);
    let server = store(object, move |request, wire| {
        if flag.load(Relaxed) {
            return None;
        }
        // No answer comes to its end before the kill.
        let most = slow.answer(request).part.len() * 5 / 8;
        Some(slow.serve_up_to(request, wire, most).and_then(|()| wire.wait_for_close()))
    });
    let sandbox = Sandbox::new();
    let running = get(&sandbox, &server.url(""), &["s3://b/k", "-o", "out"]).spawn();
    wait_for("a journal", || sandbox.journalled("out") > 0);
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    is_killed.store(true, Relaxed);
    let run = get(&sandbox, &server.url(""), &["s3://b/k", "-o", "out", "--json"]).run();
    assert!(run.succeeds().json()["files"][0]["resumed_from"].as_u64().unwrap() > 0);
    assert!(sandbox.read("out") == *bytes);
}

/// The user's own word on who asks is the only one.
#[test]
fn a_request_with_a_login_of_the_users_is_not_signed() {
    let object = Object::new(1000);
    let bytes = Arc::clone(&object.bytes);
    let server = store(object, |_, _| None);
    let sandbox = Sandbox::new();
    let args = ["s3://b/k", "-H", "Authorization: Bearer own", "--request-payer", "-o", "out"];
    let run = get(&sandbox, &server.url(""), &args).env("AWS_SESSION_TOKEN", SECRET).run();
    run.succeeds().hides(SECRET);
    assert!(sandbox.read("out") == *bytes);
    for seen in server.requests() {
        for of_signature in ["x-amz-date", "x-amz-security-token", "x-amz-content-sha256"] {
            assert_eq!(seen.request.field(of_signature), None, "{of_signature}");
        }
        assert_eq!(seen.request.field("x-amz-request-payer"), Some("requester"));
        let is_login = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("authorization");
        let logins: Vec<&(String, String)> = seen.request.fields.iter().filter(is_login).collect();
        assert!(logins.len() == 1 && logins[0].1 == "Bearer own", "{logins:?}");
    }
}

/// Fields that only some buckets want, and a key that comes with each request.
#[test]
fn what_a_bucket_wants_is_sent() {
    let object = Object::new(1000);
    let bytes = Arc::clone(&object.bytes);
    let server = store(object, |_, _| None);
    let sandbox = Sandbox::new();
    sandbox.write("key", [7; 32]);
    brings(&sandbox, &server, &["s3://b/k?versionId=3/L4", "--request-payer", "--sse-c-key", "key"], &bytes);
    let request = &server.requests()[0].request;
    assert_eq!(request.target, "/b/k?versionId=3%2FL4");
    assert_eq!(request.field("x-amz-request-payer"), Some("requester"));
    assert_eq!(request.field("x-amz-server-side-encryption-customer-algorithm"), Some("AES256"));
    let signed = request.field("authorization").unwrap();
    assert!(signed.contains("x-amz-server-side-encryption-customer-key;"), "{signed}");
    sandbox.write("key", [7; 31]);
    let run = get(&sandbox, &server.url(""), &["s3://b/k", "--sse-c-key", "key"]).run();
    run.fails(2, &["31 bytes, expected 32"]);
}
