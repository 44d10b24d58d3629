//! Servers that cannot be reached, break off, stall or speak no proper HTTP: a clear word, the right code, no
//! wrong file.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;
use support::net::refusing;

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use support::{MIB, Object, Request, Sandbox, Server, Weir, Wire, pattern};

/// `weir get URL -o out` that gives up after one more attempt.
fn get(sandbox: &Sandbox, url: &str) -> Weir {
    sandbox.get([url, "-o", "out", "--retries", "1"])
}

#[test]
fn malformed_urls() {
    let sandbox = Sandbox::new();
    for url in ["http://", "http://[::1", "http://h:99999/x", "http://a b/x", "", "http://?"] {
        get(&sandbox, url).run().fails(2, &["weir: ", "url"]);
    }
    for (url, scheme) in [("ftp://h/x", "ftp"), ("file:///etc/passwd", "file")] {
        get(&sandbox, url).run().fails(2, &[url, "weir speaks http and https", scheme]);
    }
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn an_unknown_host() {
    let sandbox = Sandbox::new();
    get(&sandbox, "http://no-such-host.invalid/x")
        .run()
        .fails(1, &["cannot resolve no-such-host.invalid: ", "; check the"]);
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn a_refused_connection() {
    let (_held, at) = refusing();
    let sandbox = Sandbox::new();
    let cause = format!("cannot connect to {at}: connection refused; nothing listens there: check the host");
    get(&sandbox, &format!("http://{at}/x")).run().fails(1, &[&cause]);
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn a_reset_before_the_answer() {
    let server = Server::start(|_, wire| wire.reset());
    let sandbox = Sandbox::new();
    get(&sandbox, &server.url("x")).run().fails(1, &["connection to 127.0.0.1 broke: connection reset"]);
    let ranged: Vec<bool> = server.requests_from(0).iter().map(|request| request.range().is_some()).collect();
    assert_eq!(ranged, [true, true, false], "one more attempt was asked for, and once without a range");
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn a_reset_at_byte_n_is_gone_on_from() {
    let object = Object::new(3 * MIB + 77);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| {
        if request.number < 3 {
            object.serve_up_to(request, wire, MIB + 12_345)?;
            return wire.reset();
        }
        object.serve(request, wire)
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out"]).run().succeeds();
    assert!(sandbox.read("out") == *bytes);
    assert_eq!(sandbox.names(), ["out"]);
    let pinned = server.requests_from(1);
    assert!(pinned.iter().all(|request| request.field("if-range") == Some("\"one\"")), "{pinned:#?}");
}

#[test]
fn connections_that_all_break_at_once_are_one_failure() {
    const LANES: usize = 12;
    let object = Object::new(24 * MIB);
    let bytes = object.bytes.clone();
    let begun = std::sync::Arc::new((Mutex::new(0), Condvar::new()));
    let all = begun.clone();
    let broke = OnceLock::new();
    let server = Server::start(move |request, wire| {
        if request.number >= LANES {
            // It starts again, which takes a second.
            let starts = broke.get().is_none_or(|broke: &Instant| broke.elapsed() < Duration::from_secs(1));
            return if starts { wire.reset() } else { object.serve(request, wire) };
        }
        object.serve_up_to(request, wire, 64 << 10)?;
        let (count, news) = &*begun;
        let mut count = count.lock().unwrap();
        *count += 1;
        news.notify_all();
        drop(news.wait_timeout_while(count, Duration::from_secs(20), |count| *count < LANES).unwrap());
        broke.get_or_init(Instant::now);
        wire.reset()
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out", "-c", &LANES.to_string()]).run().succeeds();
    assert_eq!(*all.0.lock().unwrap(), LANES, "all stood at one time");
    assert!(sandbox.read("out") == *bytes);
}

#[test]
fn a_truncated_body_is_resumed_by_the_same_command() {
    let object = Object::new(3 * MIB);
    let bytes = object.bytes.clone();
    let (server, good) = breaking_off_at(object, 2 * MIB);
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--retries", "0"]).run();
    run.fails(4, &["127.0.0.1 closed the connection after", "kept, run the same command again to resume"]);
    assert_eq!(sandbox.names(), ["out.part", "out.weir"]);
    good.store(true, Relaxed);
    let before = server.requests().len();
    sandbox.get([&server.url("x"), "-o", "out"]).run().succeeds();
    assert!(sandbox.read("out") == *bytes);
    assert_eq!(sandbox.names(), ["out"]);
    let resumed = server.requests_from(before);
    assert_eq!(resumed[0].start(), 2 * MIB as u64, "what came in order is not asked for again");
    assert_eq!(resumed[0].field("if-range"), Some("\"one\""));
}

#[test]
fn a_truncated_small_body_leaves_nothing() {
    let (server, _) = breaking_off_at(Object::new(10_000), 9_999);
    let sandbox = Sandbox::new();
    get(&sandbox, &server.url("x")).run().fails(1, &["127.0.0.1 closed the connection after"]);
    assert_eq!(sandbox.names(), [""; 0]);
}

/// A server that breaks off after `length` bytes of each answer until the flag is set.
fn breaking_off_at(object: Object, length: usize) -> (Server, std::sync::Arc<AtomicBool>) {
    let good = std::sync::Arc::new(AtomicBool::new(false));
    let flag = good.clone();
    let server = Server::start(move |request, wire| {
        if flag.load(Relaxed) {
            return object.serve(request, wire);
        }
        object.serve_up_to(request, wire, length)?;
        wire.close()
    });
    (server, good)
}

const CHUNKED: &[(&str, &str)] = &[("Transfer-Encoding", "chunked")];

#[test]
fn a_chunked_body_that_is_cut() {
    for (name, cut) in [
        ("between chunks", &b"5\r\nhello\r\n"[..]),
        ("within a chunk", b"5\r\nhe"),
        ("within a size", b"5\r\nhello\r\n1"),
        ("before the trailer's end", b"5\r\nhello\r\n0\r\n"),
    ] {
        let server = Server::start(move |_, wire| {
            wire.head("200 OK", CHUNKED)?;
            wire.raw(cut)?;
            wire.close()
        });
        let sandbox = Sandbox::new();
        let run = get(&sandbox, &server.url("x")).run();
        run.fails(1, &["127.0.0.1 closed the connection", "chunk"]);
        assert_eq!(sandbox.names(), [""; 0], "{name}");
    }
}

#[test]
fn a_chunked_body_that_is_malformed() {
    for malformed in [
        &b"zz\r\nhello\r\n"[..],
        b"5\r\nhelloXX0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"ffffffffffffffffff\r\nhello",
        b"\r\n\r\n",
    ] {
        let server = Server::start(move |_, wire| {
            wire.head("200 OK", CHUNKED)?;
            wire.raw(malformed)?;
            wire.wait_for_close()?;
            wire.close()
        });
        let sandbox = Sandbox::new();
        get(&sandbox, &server.url("x")).run().fails(1, &["127.0.0.1 sent a malformed answer: ", "chunk"]);
        assert_eq!(sandbox.names(), [""; 0]);
    }
}

#[test]
fn a_tls_connection_that_is_cut_is_no_end_of_a_body() {
    let bytes = pattern(100_000, 1);
    let answer = bytes.clone();
    let server = Server::start_tls(move |request, wire| {
        wire.head("200 OK", &[("Connection", "close")])?;
        wire.body(&answer)?;
        // RFC 9112 section 9.8: without the closing alert anybody on the path may have ended it.
        if request.path() == "/cut" { wire.cut() } else { wire.close() }
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("whole"), "-o", "whole", "-k"]).run().succeeds();
    assert!(sandbox.read("whole") == bytes);
    let run = sandbox.get([&server.url("cut"), "-o", "out", "-k", "--retries", "0"]).run();
    run.fails(4, &["without the TLS end mark", "--accept-unclean-close takes it", "are kept"]);
    assert_eq!(sandbox.names(), ["out.part", "whole"]);
}

#[test]
fn an_answer_that_is_not_http() {
    for nonsense in [&b"SSH-2.0-OpenSSH_9.9\r\n\r\n"[..], b"\0\0\0\0\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"] {
        let server = Server::start(move |_, wire| {
            wire.raw(nonsense)?;
            wire.close()
        });
        let sandbox = Sandbox::new();
        get(&sandbox, &server.url("x")).run().fails(1, &["127.0.0.1 sent a malformed answer: "]);
        assert_eq!(sandbox.names(), [""; 0]);
    }
}

#[test]
fn two_lengths_that_differ() {
    let server = Server::start(|_, wire| {
        wire.head("200 OK", &[("Content-Length", "5"), ("Content-Length", "6")])?;
        wire.raw(b"hello!")?;
        wire.close()
    });
    let sandbox = Sandbox::new();
    get(&sandbox, &server.url("x")).run().fails(1, &["127.0.0.1 sent a malformed answer: "]);
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn a_head_over_its_cap() {
    let server =
        Server::start(|_, wire| wire.answer("200 OK", &[("X-Long", &"x".repeat(400_000))], b"hello"));
    let sandbox = Sandbox::new();
    get(&sandbox, &server.url("x"))
        .run()
        .fails(1, &["127.0.0.1 sent a malformed answer: ", "head is larger than"]);
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn a_head_without_end() {
    let server = Server::start(|_, wire| {
        wire.raw(b"HTTP/1.1 200 OK\r\n")?;
        loop {
            wire.raw(b"X-More: and more\r\n")?;
        }
    });
    let sandbox = Sandbox::new();
    get(&sandbox, &server.url("x")).run().fails(1, &["127.0.0.1 sent a malformed answer: "]);
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn interim_answers_without_end() {
    let server = Server::start(|_, wire| {
        loop {
            wire.raw(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
    });
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--retries", "0", "--timeout", "1"]).run();
    run.fails(1, &["127.0.0.1"]);
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn an_endless_redirect() {
    let server = Server::start(|_, wire| wire.redirect("302 Found", "/again"));
    let sandbox = Sandbox::new();
    get(&sandbox, &server.url("x"))
        .run()
        .fails(1, &["cannot follow the redirect from 127.0.0.1: more than 50 in a row"]);
    assert_eq!(server.requests().len(), 51, "the url itself and fifty redirects, and no second attempt");
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn a_redirect_to_another_scheme() {
    for (target, scheme) in [
        ("file:///etc/passwd", "'file'"),
        ("ftp://127.0.0.1/x", "'ftp'"),
        ("gopher://127.0.0.1/x", "'gopher'"),
        ("data:text/plain,x", "'data'"),
    ] {
        let server = Server::start(move |_, wire| wire.redirect("301 Moved Permanently", target));
        let sandbox = Sandbox::new();
        let cause = ["cannot follow the redirect from 127.0.0.1: ", scheme, "weir speaks http and https"];
        get(&sandbox, &server.url("x")).run().fails(1, &cause);
        assert_eq!(server.requests().len(), 1, "{target}");
        assert_eq!(sandbox.names(), [""; 0]);
    }
}

#[test]
fn a_redirect_from_https_to_http() {
    let plain = Server::start(|_, wire| wire.answer("200 OK", &[], b"anybody's bytes"));
    let target = plain.url("x");
    let secure = Server::start_tls(move |_, wire| wire.redirect("302 Found", &target));
    let sandbox = Sandbox::new();
    sandbox.write("ca.pem", secure.certificate());
    let run = sandbox.get([&secure.url("x"), "-o", "out", "--cacert", "ca.pem"]).run();
    run.fails(1, &["cannot follow the redirect from 127.0.0.1: ", "from https to http"]);
    assert_eq!(plain.requests().len(), 0);
    sandbox.has_nothing_of("out");
}

#[test]
fn a_redirect_without_a_target() {
    let server = Server::start(|_, wire| wire.answer("302 Found", &[], b""));
    let sandbox = Sandbox::new();
    get(&sandbox, &server.url("x"))
        .run()
        .fails(1, &["cannot follow the redirect from 127.0.0.1: it names no target"]);
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn a_certificate_of_nobody() {
    let server = Server::start_tls(|_, wire| wire.answer("200 OK", &[], b"hello"));
    let sandbox = Sandbox::new();
    let run = get(&sandbox, &server.url("x")).run();
    run.fails(
        1,
        &["tls with 127.0.0.1 failed: its certificate is not signed by a trusted authority", "--cacert"],
    );
    assert_eq!(server.requests().len(), 0);
    assert_eq!(server.connections(), 1, "trying again cannot help");
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn a_certificate_for_another_name() {
    let params = rcgen::CertificateParams::new(vec!["another.example".to_owned()]).unwrap();
    with_certificate(params, "its certificate is for another name");
}

#[test]
fn a_certificate_that_has_expired() {
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    with_certificate(params, "its certificate has expired");
}

fn with_certificate(params: rcgen::CertificateParams, cause: &str) {
    let server = Server::start_with(params, |_, wire| wire.answer("200 OK", &[], b"hello"));
    let sandbox = Sandbox::new();
    sandbox.write("ca.pem", server.certificate());
    let run = sandbox.get([&server.url("x"), "-o", "out", "--cacert", "ca.pem"]).run();
    run.fails(1, &["tls with 127.0.0.1 failed: ", cause]);
    assert_eq!(server.requests().len(), 0);
    sandbox.has_nothing_of("out");
}

#[test]
fn https_to_a_port_that_speaks_http() {
    // A server that reads a line first would wait for ever for one: this one answers at once.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::Write;
        for mut socket in listener.incoming().flatten() {
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            let _ = std::io::copy(&mut socket, &mut std::io::sink());
        }
    });
    let sandbox = Sandbox::new();
    let run = get(&sandbox, &format!("https://127.0.0.1:{port}/x")).run();
    run.fails(1, &["tls with 127.0.0.1 failed: it does not speak tls on this port"]);
    assert_eq!(sandbox.names(), [""; 0]);
}

#[test]
fn a_server_that_drips() {
    let bytes = pattern(2 * MIB, 3);
    let server = Server::start(move |_, wire| {
        wire.head("200 OK", &[("Content-Length", bytes.len())])?;
        wire.pace = Some(5);
        wire.body(&bytes)
    });
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--timeout", "3", "--retries", "0"]).run();
    run.fails(1, &["127.0.0.1 sent under 10 B/s for 3 s", "--timeout"]);
    sandbox.has_nothing_of("out");
}

#[test]
fn a_server_that_drips_a_small_body() {
    let server = Server::start(|_, wire| {
        wire.head("200 OK", &[("Content-Length", 1000)])?;
        wire.pace = Some(5);
        wire.body(&[b'x'; 1000])
    });
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--timeout", "3", "--retries", "0"]).run();
    run.fails(1, &["127.0.0.1 sent under 10 B/s for 3 s"]);
    sandbox.has_nothing_of("out");
}

#[test]
fn a_server_that_drips_its_head() {
    let server = Server::start(|_, wire| {
        wire.pace = Some(5);
        wire.body(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    });
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--timeout", "3", "--retries", "0"]).run();
    run.fails(1, &["127.0.0.1 sent no complete answer for 3 s"]);
    sandbox.has_nothing_of("out");
}

#[test]
fn a_server_that_says_nothing() {
    let server = Server::start(|_, wire| wire.wait_for_close());
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "--timeout", "1", "--retries", "0"]).run();
    run.fails(1, &["127.0.0.1 sent nothing for 1 s"]);
    sandbox.has_nothing_of("out");
}

#[test]
fn a_server_that_falls_silent_midway_is_resumed() {
    let object = Object::new(3 * MIB);
    let bytes = object.bytes.clone();
    let server = Server::start(move |request, wire| {
        if request.number == 0 {
            object.serve_up_to(request, wire, 2 * MIB)?;
            return wire.wait_for_close();
        }
        object.serve(request, wire)
    });
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out", "--timeout", "1"]).run().succeeds();
    assert!(sandbox.read("out") == *bytes);
    assert_eq!(server.requests()[1].request.start(), 2 * MIB as u64);
}

#[test]
fn bodies_of_errors_are_never_saved() {
    for status in
        ["404 Not Found", "403 Forbidden", "401 Unauthorized", "410 Gone", "500 Internal Server Error"]
    {
        let server = Server::start(move |_, wire| wire.answer(status, &[], b"<h1>no</h1>"));
        let sandbox = Sandbox::new();
        let cause = format!("127.0.0.1 answered {status}");
        get(&sandbox, &server.url("x.iso")).run().fails(1, &[&cause]);
        // Once without a range too, but where the status speaks of a login; of a passing failure once more.
        let attempts = match &status[..3] {
            "401" => 1,
            "500" => 3,
            _ => 2,
        };
        assert_eq!(server.requests().len(), attempts, "{status}");
        assert_eq!(sandbox.names(), [""; 0], "{status}");
    }
}

#[test]
fn an_answer_without_content_is_no_file() {
    for status in ["204 No Content", "304 Not Modified", "202 Accepted"] {
        let server = Server::start(move |_, wire| wire.head(status, &[("Content-Length", "0")]));
        let sandbox = Sandbox::new();
        get(&sandbox, &server.url("x.iso")).run().fails(1, &[&format!("127.0.0.1 answered {status}")]);
        assert_eq!(sandbox.names(), [""; 0], "{status}");
    }
}

#[test]
fn a_web_page_in_place_of_an_archive() {
    const PAGE: &[u8] = b"<html>please log in</html>";
    let server =
        Server::start(|_, wire| wire.answer("200 OK", &[("Content-Type", "text/html; charset=utf-8")], PAGE));
    let sandbox = Sandbox::new();
    let refused = sandbox.get([&server.url("data.tar.gz")]).run();
    refused.fails(1, &["127.0.0.1 sent a web page (text/html)", "'data.tar.gz'", "--any-type"]);
    assert_eq!(sandbox.names(), [""; 0]);
    sandbox.get([&server.url("data.tar.gz"), "--any-type"]).run().succeeds();
    assert_eq!(sandbox.read("data.tar.gz"), PAGE);
    sandbox.get([&server.url("page.html")]).run().succeeds();
    assert_eq!(sandbox.read("page.html"), PAGE);
}

/// A request that was sent behind them would be answered by them.
#[test]
fn bytes_behind_an_answer_answer_nothing() {
    let serve = |request: &Request, wire: &mut Wire| match request.path() {
        // More than what is received with its head, and in one piece with what stands behind it.
        "/a" => {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n";
            let behind = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nEVIL!";
            wire.raw(&[&head[..], &pattern(900_000, 1), behind].concat())
        }
        _ => wire.answer("200 OK", &[], b"good"),
    };
    for (server, args) in
        [(Server::start(serve), &["-j", "1", "-c", "1"][..]), (Server::start_tls(serve), &["-j", "1", "-k"])]
    {
        let sandbox = Sandbox::new();
        sandbox.get([server.url("a"), server.url("b")]).args(args).run().succeeds();
        assert!(sandbox.read("a") == pattern(900_000, 1));
        assert_eq!(sandbox.read("b"), b"good");
        let requests = server.requests_from(0);
        let paths: Vec<&str> = requests.iter().map(Request::path).collect();
        assert_eq!(paths, ["/a", "/b"]);
        assert_ne!(requests[0].connection, requests[1].connection, "b is asked for on a new connection");
    }
}
