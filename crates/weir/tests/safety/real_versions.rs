//! Resuming from the servers that people run, whose files change or stay: nginx and Apache with the
//! validators that they can be told to send.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::time::{Duration, SystemTime};

use support::http_servers::{Apache, Nginx, sandbox_with_www};
use support::{MIB, Sandbox, pattern, skip};

/// What the server says of a file's version.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Says {
    Enough,
    Nothing,
}

const SIZE: usize = 4 * MIB;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A file of the server, last changed so long ago.
fn publish(sandbox: &Sandbox, seed: u64, age: Duration) -> Vec<u8> {
    let bytes = pattern(SIZE, seed);
    let path = sandbox.write("www/new", &bytes);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
    std::fs::rename(path, sandbox.path("www/x")).unwrap();
    bytes
}

fn resume(sandbox: &Sandbox, url: &str, bytes: &[u8]) -> u64 {
    let run = sandbox.get([url, "-o", "out", "--json"]).run();
    run.succeeds();
    assert!(sandbox.read("out") == bytes, "a wrong file: {}", run.stderr);
    let resumed = run.json()["files"][0]["resumed_from"].as_u64().unwrap();
    std::fs::remove_file(sandbox.path("out")).unwrap();
    resumed
}

fn check(name: &str, sandbox: &Sandbox, url: &str, says: Says) {
    for lanes in ["1", "3"] {
        let bytes = publish(sandbox, 1, 2 * DAY);
        sandbox.begin_and_interrupt(url, &["-c", lanes]);
        let resumed = resume(sandbox, url, &bytes);
        assert_eq!(resumed > 0, says == Says::Enough, "{name}: resumed from {resumed}");
        publish(sandbox, 1, 2 * DAY);
        sandbox.begin_and_interrupt(url, &["-c", lanes]);
        let other = publish(sandbox, 2, DAY);
        assert_eq!(resume(sandbox, url, &other), 0, "{name}: another version was gone on with");
    }
}

#[test]
fn nginx_with_and_without_its_validators() {
    for (directives, says) in [
        ("", Says::Enough),
        ("etag off;", Says::Enough),
        ("etag off; add_header Last-Modified '';", Says::Nothing),
        ("add_header Last-Modified '';", Says::Enough),
        ("max_ranges 0;", Says::Nothing),
        ("gzip on; gzip_types *; gzip_proxied any;", Says::Enough),
    ] {
        let sandbox = sandbox_with_www();
        let Some(nginx) = Nginx::start(&sandbox, directives) else { return skip("no nginx here") };
        check(directives, &sandbox, &format!("http://127.0.0.1:{}/x", nginx.http), says);
    }
}

#[test]
fn apache_with_and_without_its_validators() {
    for (directives, says) in [
        ("", Says::Enough),
        ("FileETag None", Says::Enough),
        ("FileETag INode MTime Size", Says::Enough),
        ("FileETag None\nHeader unset Last-Modified", Says::Nothing),
        // A tag that never changes is caught by the date beside it; one without quotes is no tag.
        ("Header set ETag \"\\\"same-for-all\\\"\"", Says::Enough),
        ("Header set ETag same-for-all", Says::Enough),
        ("MaxRanges none", Says::Nothing),
    ] {
        let sandbox = sandbox_with_www();
        let Some(apache) = Apache::start(&sandbox, directives) else { return skip("no Apache here") };
        check(directives, &sandbox, &format!("http://127.0.0.1:{}/x", apache.http), says);
    }
}
