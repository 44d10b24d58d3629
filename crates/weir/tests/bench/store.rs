//! `weir bench store`: figures of a store, and nothing that is left there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::process::Command;

use support::http_servers::moto;
use support::{Request, Run, Sandbox, Server, WEIR, Wire, skip};

/// `weir bench store` with credentials for the store at `endpoint`.
fn bench(sandbox: &Sandbox, endpoint: &str, args: &[&str]) -> Run {
    let bench = sandbox.weir(WEIR, ["bench", "store", "--quick", "--json"]).args(args);
    let bench = bench.env("AWS_ACCESS_KEY_ID", "AKIATEST").env("AWS_SECRET_ACCESS_KEY", "geheimgeheim");
    bench.env("AWS_ENDPOINT_URL", endpoint).run()
}

#[test]
fn a_store_is_measured_and_left_as_it_was() {
    let Some(moto) = moto() else { return skip("no moto: scripts/need test") };
    let sandbox = Sandbox::new();
    let endpoint = format!("http://127.0.0.1:{}", moto.port);
    let signed = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=600&X-Amz-Signature=x";
    let mut curl = Command::new("curl");
    curl.args(["-sSf", "-m", "60", "-X", "PUT", "-H", "Content-Type: application/xml", "--data-binary", ""])
        .arg(format!("{endpoint}/bucket-of-tests?{signed}"));
    assert!(curl.status().unwrap().success());
    let run = bench(&sandbox, &endpoint, &["s3://bucket-of-tests/tmp", "--connections", "1,2"]);
    let record = run.succeeds().hides("geheim").json();
    let store = &record["store"];
    let kinds: Vec<&str> =
        store["latency"].as_array().unwrap().iter().map(|row| row["operation"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["PUT", "GET", "PUT", "GET", "PUT", "GET", "LIST"]);
    for loads in ["throughput", "requests"] {
        let loads = store[loads].as_array().unwrap();
        assert_eq!(loads.len(), 2, "{store}");
        assert!(loads.iter().all(|load| load["requests"].as_f64().unwrap() > 0.0), "{store}");
    }
    assert_eq!(store["held"].as_array().unwrap().len(), 2);
    assert_eq!(store["missing"].as_array().unwrap().len(), 0, "{store}");
    let listed = Command::new("curl")
        .args(["-sSf", "-m", "60"])
        .arg(format!("{endpoint}/bucket-of-tests?list-type=2&{signed}"))
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(!listed.contains("<Key>"), "{listed}");
}

/// A store that takes two objects at once and puts more off is convicted by its own words.
#[test]
fn a_store_that_puts_requests_off_is_asked_no_more() {
    let at_once = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let server = Server::start(move |request: &Request, wire: &mut Wire| {
        let guard = Guard::new(&at_once);
        let size: usize = request.path().rsplit('/').next().unwrap().parse().unwrap_or(0);
        match request.method.as_str() {
            "GET" if request.path() == "/b/" => {
                let page = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
                wire.answer("200 OK", &[("Content-Type", "application/xml")], page.as_bytes())
            }
            "GET" if guard.others > 2 => {
                let why =
                    "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
                wire.answer("503 Slow Down", &[("Content-Type", "application/xml")], why.as_bytes())
            }
            "GET" => wire.answer("200 OK", &[("ETag", "\"e\"")], &vec![1; size]),
            "PUT" => {
                wire.read_body(request)?;
                wire.answer("200 OK", &[("ETag", "\"e\"")], b"")
            }
            _ => {
                wire.read_body(request)?;
                wire.answer("200 OK", &[], b"<DeleteResult/>")
            }
        }
    });
    let sandbox = Sandbox::new();
    let run = bench(&sandbox, &server.url(""), &["s3://b/", "--connections", "1,16"]);
    let record = run.succeeds().json();
    let held = &record["store"]["held"][1];
    assert_eq!((held["figure"].as_str(), held["limit"].as_str()), (Some("requests"), Some("rate-limit")));
    assert!(held["why"].as_str().unwrap().contains("SlowDown"), "{held}");
}

/// Counts who is in.
struct Guard {
    at_once: std::sync::Arc<std::sync::atomic::AtomicUsize>,
    others: usize,
}

impl Guard {
    fn new(at_once: &std::sync::Arc<std::sync::atomic::AtomicUsize>) -> Guard {
        let others = at_once.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Guard { at_once: at_once.clone(), others }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.at_once.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
    }
}
