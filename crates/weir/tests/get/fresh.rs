//! `weir get -N` and `-R`: a complete file is fetched again only where it is another on the server, and
//! silence proves nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use support::http_servers::{Apache, Nginx, sandbox_with_www};
use support::{MIB, Object, Run, Sandbox, Server, pattern, skip};

const EARLY: &str = "Fri, 25 Dec 2020 10:00:00 GMT";
/// The same in seconds since 1970.
const EARLY_SECONDS: u64 = 1_608_890_400;
const LATER: &str = "Sat, 26 Dec 2020 10:00:00 GMT";

/// What a server does with the conditions of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Does {
    /// As RFC 9110 section 13 has it.
    Heeds,
    /// As many programs do that make their answers by themselves.
    Ignores,
}

fn dated(length: usize, etag: Option<&str>, modified: Option<&str>) -> Object {
    Object { last_modified: modified.map(str::to_owned), ..Object::new(length).etag(etag) }
}

fn serve(object: Object, does: Does) -> Server {
    Server::start(move |request, wire| {
        let same = match (request.field("if-none-match"), request.field("if-modified-since")) {
            (Some(tag), _) => object.etag.as_deref() == Some(tag),
            (None, Some(since)) => {
                object.last_modified.as_deref().is_some_and(|modified| seconds(modified) <= seconds(since))
            }
            _ => false,
        };
        match same && does == Does::Heeds {
            true => wire.head("304 Not Modified", &[("Date", LATER)]),
            false => object.serve(request, wire),
        }
    })
}

/// A server whose object comes coded.
fn coded(seed: u64, etag: &str, does: Does) -> Server {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&pattern(1000, seed)).unwrap();
    let bytes = Arc::new(encoder.finish().unwrap());
    let object = dated(0, Some(etag), Some(EARLY)).field("Content-Encoding", "gzip");
    serve(Object { bytes, ..object }, does)
}

fn seconds(date: &str) -> u64 {
    httpdate::parse_http_date(date).unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn modified(sandbox: &Sandbox, name: &str) -> Duration {
    std::fs::metadata(sandbox.path(name)).unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap()
}

fn set_modified(sandbox: &Sandbox, name: &str, time: SystemTime) {
    std::fs::File::options().write(true).open(sandbox.path(name)).unwrap().set_modified(time).unwrap();
}

fn again(sandbox: &Sandbox, server: &Server) -> Run {
    sandbox.get(["-N", &server.url("x"), "-o", "x"]).run()
}

#[track_caller]
fn is_left_alone(run: &Run) {
    run.succeeds().says(&["left alone: x is the same on the server"]);
}

#[test]
fn the_time_of_the_object() {
    for length in [1000, 3 * MIB] {
        let server = serve(dated(length, Some("\"a\""), Some(EARLY)), Does::Heeds);
        let sandbox = Sandbox::new();
        sandbox.get([&server.url("x"), "-R"]).run().succeeds();
        assert_eq!(modified(&sandbox, "x"), Duration::from_secs(EARLY_SECONDS), "{length}");
        sandbox.get([&server.url("x"), "-o", "now"]).run().succeeds();
        assert!(modified(&sandbox, "now").as_secs() > EARLY_SECONDS + 86_400);
        // In place of an older one, and of an object that has no time.
        sandbox.get([&server.url("x"), "-o", "now", "--remote-time"]).run().succeeds();
        assert_eq!(modified(&sandbox, "now").as_secs(), EARLY_SECONDS);
        let silent = serve(dated(length, Some("\"a\""), None), Does::Heeds);
        sandbox.get([&silent.url("x"), "-o", "now", "-R"]).run().succeeds();
        assert!(modified(&sandbox, "now").as_secs() > EARLY_SECONDS + 86_400);
    }
}

#[test]
fn a_time_before_1970_is_kept() {
    let server = serve(dated(1000, Some("\"a\""), Some("Wed, 31 Dec 1969 23:59:59 GMT")), Does::Ignores);
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-R"]).run().succeeds();
    let time = std::fs::metadata(sandbox.path("x")).unwrap().modified().unwrap();
    assert_eq!(UNIX_EPOCH.duration_since(time).unwrap(), Duration::from_secs(1));
}

#[test]
fn what_is_the_same_stays_over_runs() {
    for length in [1000, 3 * MIB] {
        for does in [Does::Heeds, Does::Ignores] {
            for (etag, date) in [(None, Some(EARLY)), (Some("\"a\""), Some(EARLY)), (Some("\"a\""), None)] {
                let server = serve(dated(length, etag, date), does);
                let sandbox = Sandbox::new();
                again(&sandbox, &server).succeeds();
                let before = modified(&sandbox, "x");
                let (asked, sent) = (server.requests().len(), server.sent());
                for _ in 0..2 {
                    is_left_alone(&again(&sandbox, &server));
                }
                let requests = server.requests_from(asked);
                assert_eq!(requests.len(), 2, "{does:?} {etag:?} {date:?}: {requests:#?}");
                for request in &requests {
                    assert_eq!(request.field("if-none-match"), etag);
                    assert!(date.is_none() || request.field("if-modified-since") == date);
                }
                if does == Does::Heeds {
                    assert_eq!(server.sent(), sent);
                }
                assert!(sandbox.read("x") == pattern(length, 1));
                assert_eq!(modified(&sandbox, "x"), before);
                assert_eq!(sandbox.names(), ["x"]);
            }
        }
    }
}

#[test]
fn what_is_another_is_fetched() {
    for length in [1000, 3 * MIB] {
        for does in [Does::Heeds, Does::Ignores] {
            let old = dated(length, Some("\"a\""), Some(EARLY));
            for new in [
                Object { last_modified: Some(LATER.to_owned()), ..old.changed() },
                // Changed within a second: only the tag tells.
                old.changed(),
                Object { bytes: Arc::new(pattern(length + 1, 2)), ..dated(length, None, Some(LATER)) },
            ] {
                let sandbox = Sandbox::new();
                again(&sandbox, &serve(old.clone(), does)).succeeds();
                let bytes = Arc::clone(&new.bytes);
                let run = again(&sandbox, &serve(new, does));
                run.succeeds();
                assert!(sandbox.read("x") == *bytes, "{does:?}: {}", run.stderr);
            }
        }
    }
}

#[test]
fn silence_is_not_the_same() {
    for length in [1000, 3 * MIB] {
        let server = serve(dated(length, None, None), Does::Heeds);
        let sandbox = Sandbox::new();
        again(&sandbox, &server).succeeds();
        let run = again(&sandbox, &server);
        run.succeeds().says(&["cannot tell whether it changed", "neither Last-Modified nor ETag"]);
        assert!(!run.stderr.contains("left alone"));
    }
}

/// Another program's file has the server's time, or a later one, and is whole or not.
#[test]
fn a_file_of_another_program() {
    let length = 3 * MIB;
    let day = Duration::from_secs(86_400);
    let early = UNIX_EPOCH + Duration::from_secs(EARLY_SECONDS);
    for does in [Does::Heeds, Does::Ignores] {
        let server = serve(dated(length, Some("\"a\""), Some(EARLY)), does);
        for time in [early, early + day] {
            let sandbox = Sandbox::new();
            sandbox.write("x", pattern(length, 1));
            set_modified(&sandbox, "x", time);
            is_left_alone(&again(&sandbox, &server));
            // Cut short, a server's "not modified" is no word of it.
            sandbox.write("x", &pattern(length, 1)[..MIB]);
            set_modified(&sandbox, "x", time);
            again(&sandbox, &server).succeeds();
            assert!(sandbox.read("x") == pattern(length, 1), "{does:?}");
        }
        // Older than the object: fetched.
        let sandbox = Sandbox::new();
        sandbox.write("x", pattern(length, 9));
        set_modified(&sandbox, "x", early - day);
        again(&sandbox, &server).succeeds();
        assert!(sandbox.read("x") == pattern(length, 1), "{does:?}");
    }
}

#[test]
fn what_is_expected_of_it_is_checked() {
    let server = serve(dated(1000, Some("\"a\""), Some(EARLY)), Does::Heeds);
    let sandbox = Sandbox::new();
    again(&sandbox, &server).succeeds();
    let time = UNIX_EPOCH + Duration::from_secs(EARLY_SECONDS);
    sandbox.write("x", pattern(1000, 7));
    set_modified(&sandbox, "x", time);
    let hex = weir_codec::hex::encode(&weir_codec::Algorithm::SHA256.of(&pattern(1000, 1)));
    let checksum = format!("sha256:{hex}");
    let run = sandbox.get(["-N", &server.url("x"), "-o", "x", "--checksum", &checksum]).run();
    run.succeeds().says(&["it is not what is expected of it"]);
    assert!(sandbox.read("x") == pattern(1000, 1));
    is_left_alone(&sandbox.get(["-N", &server.url("x"), "-o", "x", "--checksum", &checksum]).run());
    let record = sandbox.get(["-N", &server.url("x"), "-o", "x", "--json"]).run();
    let file = record.succeeds().json()["files"][0].clone();
    assert_eq!((&file["unchanged"], &file["bytes"]), (&true.into(), &1000.into()), "{file}");
}

/// What is decoded on the way is told by its version: the file has another size than the body that comes.
#[test]
fn a_decoded_file_that_is_the_same_stays() {
    for does in [Does::Heeds, Does::Ignores] {
        let (server, sandbox) = (coded(1, "\"a\"", does), Sandbox::new());
        let get = |server: &Server| sandbox.get(["-N", "--compressed", &server.url("x"), "-o", "x"]).run();
        get(&server).succeeds();
        assert!(sandbox.read("x") == pattern(1000, 1));
        assert_eq!(modified(&sandbox, "x").as_secs(), EARLY_SECONDS);
        let sent = server.sent();
        is_left_alone(&get(&server));
        if does == Does::Heeds {
            assert_eq!(server.sent(), sent);
        }
        get(&coded(2, "\"b\"", does)).succeeds();
        assert!(sandbox.read("x") == pattern(1000, 2));
    }
}

/// What an earlier run saved as it came holds the coded bytes, and is not what is asked for now.
#[test]
fn a_coded_file_is_not_the_decoded_one() {
    for does in [Does::Heeds, Does::Ignores] {
        let server = coded(1, "\"a\"", does);
        for flags in [&["-N"][..], &["-R"], &[]] {
            let sandbox = Sandbox::new();
            let get = |flags: &[&str]| sandbox.get([&server.url("x"), "-o", "x"]).args(flags).run();
            get(flags).succeeds().says(&["saved as it came, coded with gzip"]);
            if flags == ["-N"] {
                is_left_alone(&get(flags));
            }
            get(&["-N", "--compressed"]).succeeds();
            assert!(sandbox.read("x") == pattern(1000, 1), "{does:?} {flags:?}");
            is_left_alone(&get(&["-N", "--compressed"]));
        }
    }
}

#[test]
fn many_files_of_which_some_are_the_same() {
    let server = Server::start(|request, wire| {
        let object = dated(1000, Some("\"a\""), Some(EARLY));
        match (request.field("if-none-match").is_some(), request.path() == "/changed") {
            (true, true) => object.changed().serve(request, wire),
            (true, false) => wire.head("304 Not Modified", &[("ETag", "\"a\"")]),
            (false, _) => object.serve(request, wire),
        }
    });
    let sandbox = Sandbox::new();
    let urls: Vec<String> =
        (0..20).map(|number| server.url(&format!("f{number}"))).chain([server.url("changed")]).collect();
    sandbox.write("list", urls.join("\n"));
    sandbox.get(["-N", "-i", "list", "-o", "into/"]).run().succeeds();
    let run = sandbox.get(["-N", "-i", "list", "-o", "into/"]).run();
    run.succeeds().says(&["20 left alone because they are the same on the server"]);
    sandbox.get(["-N", "--no-clobber", &urls[0]]).run().exits(2);
}

#[test]
fn a_name_that_the_server_chooses() {
    let object =
        dated(1000, Some("\"a\""), Some(EARLY)).field("Content-Disposition", "attachment; filename=own.bin");
    let server = serve(object, Does::Heeds);
    let sandbox = Sandbox::new();
    sandbox.get(["-N", &server.url("x")]).run().succeeds();
    let run = sandbox.get(["-N", &server.url("x")]).run();
    run.succeeds().says(&["left alone: ./own.bin is the same"]);
    assert_eq!(sandbox.names(), ["own.bin"]);
}

fn publish(sandbox: &Sandbox, seed: u64, age_in_days: u64) -> Vec<u8> {
    let bytes = pattern(3 * MIB, seed);
    sandbox.write("www/x", &bytes);
    set_modified(sandbox, "www/x", SystemTime::now() - Duration::from_secs(age_in_days * 86_400));
    bytes
}

fn with_a_real_server(name: &str, sandbox: &Sandbox, port: u16) {
    let get = || sandbox.get(["-N", &format!("http://127.0.0.1:{port}/x"), "-o", "x"]).run();
    let first = publish(sandbox, 1, 2);
    get().succeeds();
    let run = get();
    assert!(run.stderr.contains("left alone"), "{name}: {}", run.stderr);
    let second = publish(sandbox, 2, 1);
    get().succeeds();
    assert!(sandbox.read("x") == second && first != second, "{name}");
    assert!(get().stderr.contains("left alone"), "{name}");
}

#[test]
fn nginx_is_asked_whether_it_is_the_same() {
    for directives in ["", "etag off;", "if_modified_since before;", "if_modified_since off; etag off;"] {
        let sandbox = sandbox_with_www();
        let Some(nginx) = Nginx::start(&sandbox, directives) else { return skip("no nginx here") };
        with_a_real_server(directives, &sandbox, nginx.http);
    }
}

#[test]
fn apache_is_asked_whether_it_is_the_same() {
    for directives in ["", "FileETag None", "FileETag INode MTime Size"] {
        let sandbox = sandbox_with_www();
        let Some(apache) = Apache::start(&sandbox, directives) else { return skip("no Apache here") };
        with_a_real_server(directives, &sandbox, apache.http);
    }
}

/// A file whose name the server chose gives way where an earlier run brought it from the same URL, and nobody
/// has changed it since.
#[test]
fn a_file_that_the_server_named_is_kept_up_to_date() {
    let object = dated(1000, None, None).field("Content-Disposition", "attachment; filename=named");
    let server = Server::start(move |request, wire| {
        let object = if request.number < 2 { object.clone() } else { object.changed() };
        let tag = match (request.target.ends_with("?2"), request.number) {
            (true, _) => "\"other\"",
            (false, 0 | 1) => "\"one\"",
            (false, _) => "\"two\"",
        };
        object.etag(Some(tag)).serve(request, wire)
    });
    let sandbox = Sandbox::new();
    let get = |path: &str| sandbox.get(["-N", &server.url(path)]).run();
    get("get?1").succeeds();
    get("get?1").succeeds().says(&["left alone: ", "named is the same on the server"]);
    get("get?1").succeeds();
    assert!(sandbox.read("named") == pattern(1000, 2));
    let says = "names get 'named', which already exists; pass -o 'named' or --force";
    get("get?2").fails(1, &[says]);
    sandbox.write("named", "mine");
    get("get?1").fails(1, &[says]);
    assert_eq!(sandbox.read("named"), b"mine");
}
