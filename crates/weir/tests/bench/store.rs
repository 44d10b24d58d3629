//! `weir bench store`: figures of a store, and nothing that is left there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::HashMap;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::Value;
use support::http_servers::moto;
use support::{Request, Run, Sandbox, Server, WEIR, Wire, skip};

/// `weir bench store` with credentials for the store at `endpoint`.
fn bench(sandbox: &Sandbox, endpoint: &str, args: &[&str]) -> Run {
    let bench = sandbox.weir(WEIR, ["bench", "store", "--quick", "--json"]).args(args);
    let bench = bench.env("AWS_ACCESS_KEY_ID", "AKIATEST").env("AWS_SECRET_ACCESS_KEY", "geheimgeheim");
    bench.env("AWS_ENDPOINT_URL", endpoint).run()
}

/// What makes of a request one that was signed, to moto.
const SIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=600&X-Amz-Signature=x";

/// Puts this to the bucket of tests of moto, by a query; what it answers to one without words.
fn to_bucket(endpoint: &str, query: &str, words: Option<&str>) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-sSf", "-m", "60"]);
    if let Some(words) = words {
        curl.args(["-X", "PUT", "-H", "Content-Type: application/xml", "--data-binary", words]);
    }
    let asked = curl.arg(format!("{endpoint}/bucket-of-tests?{query}{SIGNED}")).output().unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    String::from_utf8(asked.stdout).unwrap()
}

#[test]
fn a_store_is_measured_and_left_as_it_was() {
    let Some(moto) = moto() else { return skip("no moto: scripts/need test") };
    let sandbox = Sandbox::new();
    let endpoint = format!("http://127.0.0.1:{}", moto.port);
    to_bucket(&endpoint, "", Some(""));
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
    let listed = to_bucket(&endpoint, "list-type=2&", None);
    assert!(!listed.contains("<Key>"), "{listed}");
}

#[test]
fn a_bucket_that_keeps_versions_is_left_as_it_was() {
    let Some(moto) = moto() else { return skip("no moto: scripts/need test") };
    let sandbox = Sandbox::new();
    let endpoint = format!("http://127.0.0.1:{}", moto.port);
    to_bucket(&endpoint, "", Some(""));
    let keeps = "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <Status>Enabled</Status></VersioningConfiguration>";
    to_bucket(&endpoint, "versioning&", Some(keeps));
    let run = bench(&sandbox, &endpoint, &["s3://bucket-of-tests/", "--connections", "1"]);
    let record = run.succeeds().json();
    assert_eq!(record["store"]["missing"].as_array().unwrap().len(), 0, "{record}");
    let listed = to_bucket(&endpoint, "versions&", None);
    assert!(!listed.contains("<Key>"), "{listed}");
}

/// A request for a page of a list, or of the list of versions.
fn list(request: &Request, wire: &mut Wire, versions: &str) -> std::io::Result<()> {
    let (root, content) = match request.target.contains("versions=") {
        true => ("ListVersionsResult", versions),
        false => ("ListBucketResult", ""),
    };
    let page = format!("<{root}>{content}<IsTruncated>false</IsTruncated></{root}>");
    wire.answer("200 OK", &[("Content-Type", "application/xml")], page.as_bytes())
}

/// Takes what is stored, and what is deleted.
fn take(request: &Request, wire: &mut Wire) -> std::io::Result<()> {
    wire.read_body(request)?;
    match request.method.as_str() {
        "PUT" => wire.answer("200 OK", &[("ETag", "\"e\"")], b""),
        _ => wire.answer("200 OK", &[], b"<DeleteResult/>"),
    }
}

/// The size that stands at the end of an object's key.
fn size_of(request: &Request) -> usize {
    request.path().rsplit('/').next().unwrap().parse().unwrap_or(0)
}

/// Objects that are timed one by one: one that does not count, and three.
const TIMED: usize = 4;

/// How often each object has been asked for.
#[derive(Default)]
struct Asked(Mutex<HashMap<usize, usize>>);

impl Asked {
    fn again(&self, size: usize) -> usize {
        let mut asked = self.0.lock().unwrap();
        let count = asked.entry(size).or_default();
        *count += 1;
        *count
    }
}

#[test]
fn bytes_count_of_objects_that_do_not_come_whole_in_time() {
    let asked = Asked::default();
    let server = Server::start(move |request: &Request, wire: &mut Wire| {
        let size = size_of(request);
        match request.method.as_str() {
            "GET" if request.path() == "/b/" => list(request, wire, ""),
            // The half, and no more in the time of a load.
            "GET" if size == 8 << 20 && asked.again(size) > TIMED => {
                wire.head("200 OK", &[("ETag", "\"e\""), ("Content-Length", "8388608")])?;
                wire.body(&vec![1; size / 2])?;
                wire.wait_for_close()
            }
            "GET" => wire.answer("200 OK", &[("ETag", "\"e\"")], &vec![1; size]),
            _ => take(request, wire),
        }
    });
    let sandbox = Sandbox::new();
    let args = ["s3://b/", "--connections", "1,4", "--for", "1"];
    let store = bench(&sandbox, &server.url(""), &args).succeeds().json()["store"].clone();
    let loads = store["throughput"].as_array().unwrap();
    assert_eq!(loads.len(), 2, "{store}");
    for (load, connections) in loads.iter().zip([1.0, 4.0]) {
        // Four MiB of each, in a second and the time that a machine stood still.
        let rate = load["rate"].as_f64().unwrap() / (connections * f64::from(4 << 20));
        assert!(rate > 0.1 && rate < 1.1 && load["requests"].as_f64() == Some(0.0), "{store}");
    }
}

#[test]
fn a_request_that_fails_costs_itself() {
    let asked = Asked::default();
    let server = Server::start(move |request: &Request, wire: &mut Wire| {
        let size = size_of(request);
        match request.method.as_str() {
            "GET" if request.path() == "/b/" => list(request, wire, ""),
            // Large ones there are no more after their times were taken; of small ones each third is refused.
            "GET" if size > 0 => match (asked.again(size), size) {
                (count, 4096) if count > TIMED && count % 3 == 0 => wire.answer("500 Oh", &[], b""),
                (count, 8_388_608) if count > TIMED => wire.answer("404 No", &[], b""),
                _ => wire.answer("200 OK", &[("ETag", "\"e\"")], &vec![1; size]),
            },
            _ => take(request, wire),
        }
    });
    let sandbox = Sandbox::new();
    let run = bench(&sandbox, &server.url(""), &["s3://b/", "--connections", "1,2"]);
    let store = run.succeeds().json()["store"].clone();
    assert_eq!(store["throughput"], serde_json::json!([]), "{store}");
    let loads = store["requests"].as_array().unwrap();
    assert_eq!(loads.len(), 2, "{store}");
    for load in loads {
        assert!(load["requests"].as_f64() > Some(0.0) && load["failed"].as_u64() > Some(0), "{store}");
    }
    let said = |front: &str, part: &str| {
        let missing = store["missing"].as_array().unwrap().iter().map(|why| why.as_str().unwrap());
        missing.filter(|why| why.starts_with(front) && why.contains(part)).count()
    };
    assert_eq!(said("throughput over 1 connection: ", "404"), 1, "{store}");
    assert_eq!(said("requests a second over ", "500"), 2, "{store}");
}

#[test]
fn an_object_that_is_not_taken_costs_its_own_figures() {
    let server = Server::start(move |request: &Request, wire: &mut Wire| {
        let size = size_of(request);
        match request.method.as_str() {
            "GET" if request.path() == "/b/" => list(request, wire, ""),
            "GET" => wire.answer("200 OK", &[("ETag", "\"e\"")], &vec![1; size]),
            "PUT" if size == 8 << 20 => {
                wire.read_body(request)?;
                wire.answer("403 No", &[], b"")
            }
            _ => take(request, wire),
        }
    });
    let sandbox = Sandbox::new();
    let run = bench(&sandbox, &server.url(""), &["s3://b/", "--connections", "1"]);
    let store = run.succeeds().json()["store"].clone();
    assert_eq!((store["latency"].as_array().unwrap().len(), &store["throughput"][0]), (5, &Value::Null));
    assert!(store["requests"][0]["requests"].as_f64() > Some(0.0), "{store}");
    let missing = store["missing"].as_array().unwrap();
    assert!(missing.len() == 1 && missing[0].as_str().unwrap().starts_with("PUT of 8.39 MB: "), "{store}");
    // Where nothing is taken there is nothing to tell.
    let server = Server::start(|request: &Request, wire: &mut Wire| {
        wire.read_body(request)?;
        wire.answer("403 No", &[], b"")
    });
    let run = bench(&sandbox, &server.url(""), &["s3://b/"]);
    assert!(!run.fails(1, &["403"]).stderr.contains("left below"), "{}", run.stderr);
}

#[test]
fn what_may_have_been_stored_is_taken_away() {
    // The answer to the first request is lost, and the second one is refused.
    let is_lost = AtomicBool::new(false);
    let server = Server::start(move |request: &Request, wire: &mut Wire| match request.method.as_str() {
        "PUT" => {
            wire.read_body(request)?;
            if is_lost.swap(true, Relaxed) { wire.answer("403 No", &[], b"") } else { wire.cut() }
        }
        "GET" => list(request, wire, ""),
        _ => take(request, wire),
    });
    bench(&Sandbox::new(), &server.url(""), &["s3://b/"]).fails(1, &["403"]);
    let asked = server.requests_from(0);
    let deletes = |request: &Request| matches!(request.method.as_str(), "POST" | "DELETE");
    assert!(asked.iter().any(deletes), "{asked:?}");
}

#[test]
fn what_is_left_is_told_where_nothing_was_measured() {
    // One is taken, and no more is allowed after it.
    let is_taken = AtomicBool::new(false);
    let server = Server::start(move |request: &Request, wire: &mut Wire| match request.method.as_str() {
        "PUT" if !is_taken.swap(true, Relaxed) => take(request, wire),
        _ => {
            wire.read_body(request)?;
            wire.answer("403 No", &[], b"")
        }
    });
    let run = bench(&Sandbox::new(), &server.url(""), &["s3://b/"]);
    run.fails(1, &["403", "objects of this measurement are left below weir-bench-"]);
}

#[test]
fn versions_that_may_not_be_deleted_are_named() {
    let stored = Mutex::new(String::new());
    let server = Server::start(move |request: &Request, wire: &mut Wire| {
        let size = size_of(request);
        match request.method.as_str() {
            "GET" if request.path() == "/b/" => {
                let key = stored.lock().unwrap().clone();
                let of = |id: &str| {
                    format!("<Version><Key>{key}</Key><VersionId>{id}</VersionId><Size>1</Size></Version>")
                };
                list(request, wire, &format!("{}{}", of("v1"), of("v2")))
            }
            "GET" => wire.answer("200 OK", &[("ETag", "\"e\"")], &vec![1; size]),
            "DELETE" => wire.answer("403 No", &[], b""),
            "PUT" => {
                *stored.lock().unwrap() = request.path().trim_start_matches("/b/").to_owned();
                take(request, wire)
            }
            _ => take(request, wire),
        }
    });
    let sandbox = Sandbox::new();
    let run = bench(&sandbox, &server.url(""), &["s3://b/", "--connections", "1"]);
    let store = run.succeeds().json()["store"].clone();
    let why = store["missing"][0].as_str().unwrap();
    let front = "2 versions of this measurement's objects are left below weir-bench-";
    assert!(why.starts_with(front), "{store}");
}

/// A store that takes two objects at once and puts more off is convicted by its own words.
#[test]
fn a_store_that_puts_requests_off_is_asked_no_more() {
    let at_once = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let server = Server::start(move |request: &Request, wire: &mut Wire| {
        let guard = Guard::new(&at_once);
        if request.method == "GET" {
            // So that sixteen meet here on a busy machine, too.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let size = size_of(request);
        match request.method.as_str() {
            "GET" if request.path() == "/b/" => list(request, wire, ""),
            "GET" if guard.others > 2 => {
                let why =
                    "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
                wire.answer("503 Slow Down", &[("Content-Type", "application/xml")], why.as_bytes())
            }
            "GET" => wire.answer("200 OK", &[("ETag", "\"e\"")], &vec![1; size]),
            _ => take(request, wire),
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
