//! How long `weir get` waits: for a server that asks for it, and for one that sends what is not the file.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::{MIB, Object, Relay, Running, Sandbox, Server, Wire, pattern, wait_for};

const BODY: &[u8] = b"the bytes";

/// Within so long a signal is heard, on a machine that has other work to do as well: what it cuts short would
/// last for half a minute.
const HEARD: Duration = Duration::from_secs(5);

/// Within so long a run ends, on a machine that has other work to do as well, whose peer would go on, or keep
/// it waiting, for minutes at least.
const ENDS: Duration = Duration::from_secs(10);

/// Ends it by SIGINT, which must be heard at once.
#[track_caller]
fn is_heard(running: Running) -> support::Run {
    let start = Instant::now();
    running.signal(Signal::INT);
    let run = running.wait();
    run.exits(130);
    assert!(start.elapsed() < HEARD, "heard after {:?}", start.elapsed());
    run
}

/// A server that answers with `fields`, and the file from request `good` on.
fn asks_for_a_wait(
    status: &'static str,
    fields: &'static [(&'static str, &'static str)],
    good: usize,
) -> Server {
    Server::start(move |request, wire| match request.number {
        number if number >= good => wire.answer("200 OK", &[], BODY),
        _ => wire.answer(status, fields, b"later"),
    })
}

#[test]
fn who_asks_for_too_long_a_wait_is_left_until_then() {
    for (status, fields) in [
        ("429 Too Many Requests", &[("Retry-After", "86400")][..]),
        ("503 Service Unavailable", &[("Retry-After", "86400")]),
        (
            "503 Service Unavailable",
            &[("Retry-After", "Wed, 26 Nov 2025 17:00:00 GMT"), ("Date", "Tue, 25 Nov 2025 17:00:00 GMT")],
        ),
        ("429 Too Many Requests", &[("Retry-After", "3"), ("Retry-After", "86400")]),
        ("302 Found", &[("Retry-After", "86400"), ("Location", "/y")]),
        ("429 Too Many Requests", &[("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "86400")]),
    ] {
        let server = asks_for_a_wait(status, fields, usize::MAX);
        let sandbox = Sandbox::new();
        let start = Instant::now();
        let run = sandbox.get([&server.url("x"), "-o", "out", "-q"]).env("TZ", "UTC").run();
        run.fails(
            4,
            &[
                "asks for a wait of 24 h 00 min",
                "--max-wait allows 10 min 00 s",
                "same command again after 20",
                " UTC",
            ],
        );
        assert!(start.elapsed() < ENDS, "{fields:?}");
        assert_eq!(server.requests().len(), 1, "{fields:?}");
        assert_eq!(sandbox.names(), [""; 0]);
    }
}

#[test]
fn what_is_kept_is_still_there_when_the_server_wants_to_be_left_alone() {
    let object = Object::new(3 * MIB);
    let bytes = object.bytes.clone();
    let busy = Arc::new(AtomicBool::new(true));
    let is_busy = Arc::clone(&busy);
    let server = Server::start(move |request, wire| match request.number {
        0 => {
            object.serve_up_to(request, wire, 2 * MIB)?;
            wire.close()
        }
        _ if is_busy.load(Relaxed) => wire.answer("503 Service Unavailable", &[("Retry-After", "7200")], b""),
        _ => object.serve(request, wire),
    });
    let sandbox = Sandbox::new();
    let command = || sandbox.get([&server.url("x"), "-o", "out", "-c", "1"]);
    command()
        .run()
        .fails(4, &["asks for a wait of 2 h 00 min", "kept, run the same command again to resume"]);
    // Before the time too.
    command()
        .run()
        .fails(4, &["asks for a wait of 2 h 00 min", "kept, run the same command again to resume"]);
    busy.store(false, Relaxed);
    command().run().succeeds();
    assert!(sandbox.read("out") == *bytes);
}

#[test]
fn a_wait_within_the_limit_is_kept_and_said_even_by_the_quiet() {
    let server = asks_for_a_wait("503 Service Unavailable", &[("Retry-After", "6")], 1);
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "-o", "out", "-q"]).run();
    run.succeeds().says(&["127.0.0.1 answered 503", "asks for a wait of 6.0 s", "trying again in 6.0 s"]);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    let requests = server.requests_from(0);
    assert!(requests[1].at - requests[0].at >= Duration::from_secs(6));
    assert_eq!(sandbox.read("out"), BODY);
    // What the user allows decides: for all waits in a row.
    let server = asks_for_a_wait("503 Service Unavailable", &[("Retry-After", "2")], usize::MAX);
    let run = sandbox.get([&server.url("x"), "-o", "more", "--max-wait", "5", "--retries", "100"]).run();
    run.fails(4, &["asks for a wait of 2.0 s, --max-wait allows 5.0 s, of which 4.0 s are used up"]);
    assert_eq!(server.requests().len(), 3);
    let server = asks_for_a_wait("503 Service Unavailable", &[("Retry-After", "6")], 1);
    let run = sandbox.get([&server.url("x"), "-o", "more", "--max-wait", "5"]).run();
    run.fails(4, &["asks for a wait of 6.0 s, --max-wait allows 5.0 s"]);
}

#[test]
fn a_wait_of_many_files_is_said_once_and_hears_signals() {
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let server = asks_for_a_wait(status, &[("Retry-After", "300")], usize::MAX);
        let urls: Vec<String> = (0..20).map(|number| server.url(&number.to_string())).collect();
        let sandbox = Sandbox::new();
        let mut get = sandbox.get(&urls).args(&["-o", "in/", "-q"]);
        get.command.stderr(std::fs::File::create(sandbox.path("said")).unwrap());
        let running = get.spawn();
        let said = || {
            let text = String::from_utf8_lossy(&sandbox.read("said")).into_owned();
            text.matches("trying again in 5 min 00 s").count()
        };
        wait_for("a word", || said() > 0);
        server.wait("every file to be asked for once", |_, requests| requests.len() >= 6);
        is_heard(running);
        assert_eq!(said(), 1);
    }
    let server =
        asks_for_a_wait("307 Temporary Redirect", &[("Retry-After", "300"), ("Location", "/y")], usize::MAX);
    let sandbox = Sandbox::new();
    let mut get = sandbox.get([&server.url("x"), "-o", "out"]);
    get.command.stderr(std::fs::File::create(sandbox.path("said")).unwrap());
    let running = get.spawn();
    wait_for("a word", || {
        String::from_utf8_lossy(&sandbox.read("said")).contains("asks for a wait of 5 min 00 s")
    });
    is_heard(running);
}

#[test]
fn waits_that_are_none() {
    for fields in [
        &[("Retry-After", "-5")][..],
        &[("Retry-After", "soon")],
        &[("Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT")],
        &[("Retry-After", "")],
        &[("Retry-After", "0")],
        &[("Retry-After", "1e9")],
        &[("Retry-After", "0x7fffffff")],
    ] {
        let server = asks_for_a_wait("503 Service Unavailable", fields, 1);
        let sandbox = Sandbox::new();
        let start = Instant::now();
        sandbox.get([&server.url("x"), "-o", "out"]).run().succeeds();
        assert!(start.elapsed() < ENDS, "{fields:?}");
    }
    // A wait for something that will not come: the status says so.
    let gone = asks_for_a_wait("404 Not Found", &[("Retry-After", "86400")], usize::MAX);
    Sandbox::new().get([&gone.url("x")]).run().fails(1, &["answered 404"]);
}

#[test]
fn a_redirect_s_wait_is_kept() {
    let server = asks_for_a_wait("302 Found", &[("Retry-After", "1"), ("Location", "/y")], 1);
    let sandbox = Sandbox::new();
    sandbox.get([&server.url("x"), "-o", "out"]).run().succeeds();
    let requests = server.requests_from(0);
    assert!(requests[1].at - requests[0].at >= Duration::from_secs(1));
}

#[test]
fn a_proxy_asks_for_a_wait_too() {
    let proxy = asks_for_a_wait("503 Service Unavailable", &[("Retry-After", "86400")], usize::MAX);
    let at = format!("http://{}", proxy.address());
    for url in ["https://far.invalid/x", "http://far.invalid/x"] {
        let run = Sandbox::new().get([url, "--proxy", &at]).run();
        run.fails(4, &["asks for a wait of 24 h 00 min"]);
    }
}

#[test]
fn a_list_of_checksums_may_be_for_later() {
    let server = Server::start(|request, wire| match request.path() {
        "/SUMS" => wire.answer("503 Service Unavailable", &[("Retry-After", "86400")], b""),
        _ => wire.answer("200 OK", &[], BODY),
    });
    let sandbox = Sandbox::new();
    let run = sandbox.get([&server.url("x"), "--checksum-from", &server.url("SUMS")]).run();
    run.fails(4, &["cannot fetch the checksums", "asks for a wait of 24 h 00 min"]);
}

#[test]
fn one_busy_host_holds_up_no_other() {
    let busy = asks_for_a_wait("503 Service Unavailable", &[("Retry-After", "300")], usize::MAX);
    // Mid-way too: its place among those that carry is for another file.
    let object = Object::new(2 * MIB);
    let midway = Server::start(move |request, wire| match request.number {
        0 => {
            object.serve_up_to(request, wire, MIB)?;
            wire.close()
        }
        _ => wire.answer("503 Service Unavailable", &[("Retry-After", "300")], b""),
    });
    let large = Object::new(2 * MIB);
    let bytes = large.bytes.clone();
    let good = Server::start(move |request, wire| large.serve(request, wire));
    for first in [busy.url("x"), midway.url("x")] {
        let sandbox = Sandbox::new();
        let urls = [first, good.url("a"), good.url("b"), good.url("c")];
        let running = sandbox.get(&urls).args(&["-o", "in/", "-j", "1"]).spawn();
        let came = || ["in/a", "in/b", "in/c"].iter().filter(|name| sandbox.path(name).exists()).count();
        wait_for("the other files", || came() == 3);
        is_heard(running);
        assert!(sandbox.read("in/b") == *bytes);
    }
}

/// A peer that sends its bytes one by one, `gap` apart, until the other end has gone.
fn trickle(wire: &mut Wire, gap: Duration, mut next: impl FnMut() -> Vec<u8>) -> io::Result<()> {
    loop {
        wire.raw(&next())?;
        std::thread::sleep(gap);
    }
}

/// `weir get` of a server that sends something all the time ends in time, with `says`; a signal is heard
/// meanwhile.
#[track_caller]
fn ends(url: &str, args: &[&str], code: i32, says: &str) {
    let sandbox = Sandbox::new();
    sandbox.write("ca.pem", "");
    let start = Instant::now();
    let run = sandbox.get([url, "-o", "out", "-k", "--retries", "0", "--timeout", "1"]).args(args).run();
    run.fails(code, &[says]);
    assert!(start.elapsed() < ENDS, "{says}: {:?}", start.elapsed());
    let running = sandbox.get([url, "-o", "two", "-k", "--timeout", "30"]).args(args).spawn();
    wait_for("its handler", || running.catches(Signal::INT));
    is_heard(running);
}

const SOON: Duration = Duration::from_millis(20);

#[test]
fn what_is_not_the_file_keeps_no_connection_alive() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    type Kind = (&'static str, &'static [u8], fn(usize) -> Vec<u8>);
    let kinds: [Kind; 5] = [
        // One byte after the other of a head, of interim answers, of an extension, of a trailer.
        ("no complete answer", b"HTTP/1.1 200 OK\r\nX: ", |_| b"x".to_vec()),
        ("no complete answer", b"HTTP/1.1 100 Continue\r\n\r\n", |at| {
            b"HTTP/1.1 102 Processing\r\n\r\n"[at % 27..][..1].to_vec()
        }),
        ("no byte of the file", &[chunked, &b"5;x"[..]].concat().leak()[..], |_| b"x".to_vec()),
        ("under 10 B/s", &[chunked, &b"5\r\nhello\r\n5;x"[..]].concat().leak()[..], |_| b"x".to_vec()),
        ("under 10 B/s", &[chunked, &b"5\r\nhello\r\n0\r\nX: "[..]].concat().leak()[..], |_| b"x".to_vec()),
    ];
    for (says, begin, next) in kinds {
        let answer = move |_: &support::Request, wire: &mut Wire| {
            wire.raw(begin)?;
            let mut at = 0;
            trickle(wire, SOON, || {
                at += 1;
                next(at - 1)
            })
        };
        let plain = Server::start(answer);
        ends(&plain.url("x"), &[], 1, says);
        let secure = Server::start_tls(answer);
        ends(&secure.url("x"), &[], 1, says);
    }
}

#[test]
fn a_handshake_byte_by_byte_is_no_handshake() {
    // A record of TLS 1.2 that announces a long handshake message, and then a byte of it now and then.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            std::thread::spawn(move || -> io::Result<()> {
                let _ = socket.read(&mut [0; 4096])?;
                socket.write_all(&[22, 3, 3, 0x3f, 0xff, 2, 0, 0x3f, 0xfb])?;
                loop {
                    socket.write_all(&[0])?;
                    std::thread::sleep(SOON);
                }
            });
        }
    });
    let url = format!("https://127.0.0.1:{port}/x");
    ends(&url, &[], 1, "no complete tls handshake for 1 s");
    ends(&url, &["--http2"], 1, "no complete handshake for 1 s");
    let many: Vec<String> = (0..20).map(|number| format!("https://127.0.0.1:{port}/{number}")).collect();
    let start = Instant::now();
    let sandbox = Sandbox::new();
    sandbox.get(&many).args(&["-k", "-o", "in/", "--retries", "0", "--connect-timeout", "1"]).run().exits(1);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn a_proxy_s_answer_byte_by_byte_is_none() {
    let proxy = Server::start(|_, wire| {
        let mut text = b"HTTP/1.1 200 Connection established\r\nX: ".iter();
        trickle(wire, SOON, || vec![*text.next().unwrap_or(&b'x')])
    });
    let at = format!("http://{}", proxy.address());
    ends("https://far.invalid/x", &["--proxy", &at], 1, "no complete answer for 1 s");
    ends("http://far.invalid/x", &["--proxy", &at], 1, "no complete answer for 1 s");
}

#[test]
fn a_redirect_s_body_holds_nobody_up() {
    let server = Server::start(|request, wire| match request.path() {
        "/y" => wire.answer("200 OK", &[], BODY),
        _ => {
            wire.head("302 Found", &[("Location", "/y"), ("Content-Length", "60000")])?;
            trickle(wire, SOON, || b"x".to_vec())
        }
    });
    let sandbox = Sandbox::new();
    let start = Instant::now();
    sandbox.get([&server.url("x"), "-o", "out"]).run().succeeds();
    assert!(start.elapsed() < ENDS, "{:?}", start.elapsed());
    assert_eq!(sandbox.read("out"), BODY);
}

#[test]
fn the_least_rate_is_the_user_s_to_set() {
    let object = Object::new(2 * MIB).rate(20_000);
    let slow = Server::start(move |request, wire| object.serve(request, wire));
    let sandbox = Sandbox::new();
    let floor = ["-Y", "100k", "-y", "1", "-c", "1"];
    let start = Instant::now();
    let run = sandbox.get([&slow.url("x"), "-o", "out", "--retries", "1"]).args(&floor).run();
    // What came is kept, and the next attempt brought too little to count as progress.
    run.fails(
        4,
        &["127.0.0.1 sent under 100 KB/s for 1 s", "lower --speed-limit or raise --speed-time", "are kept"],
    );
    assert!(start.elapsed() < ENDS, "{:?}", start.elapsed());
    let both = Object::new(300_000).rate(200_000);
    let bytes = both.bytes.clone();
    let paced = Server::start(move |request, wire| both.serve(request, wire));
    let brings = |args: &[&str]| {
        sandbox.get([&paced.url("x"), "-o", "out2", "--force"]).args(args).run().succeeds();
        assert!(sandbox.read("out2") == *bytes, "{args:?}");
    };
    brings(&["-Y", "100k", "-y", "1"]);
    brings(&["--speed-limit", "0", "--speed-time", "1"]);
    // A limit of one's own is no fault of the server's.
    brings(&["-Y", "1M", "-y", "1", "--limit-rate", "150k"]);
    for bad in [&["-Y", "fast"][..], &["-y", "0"], &["--max-wait", "-1"], &["--connect-timeout", "soon"]] {
        sandbox.get([&paced.url("x"), "-o", "none"]).args(bad).run().exits(2);
    }
    sandbox.get([&paced.url("x"), "--lowest-speed-limit", "5"]).run().fails(2, &["--speed-limit BYTES"]);
}

#[test]
fn a_reader_that_rests_is_no_slow_server() {
    // The pipe is not read for longer than either span; the server would send at once.
    let bytes = pattern(3 * MIB, 7);
    let sent = bytes.clone();
    let server = Server::start(move |_, wire| wire.answer("200 OK", &[], &sent));
    let sandbox = Sandbox::new();
    let script =
        format!("$WEIR get {} -o - --timeout 2 -Y 1M -y 1 -q | (sleep 4; cat > out)", server.url("x"));
    let run = sandbox.weir("sh", ["-c", &script]).env("WEIR", support::WEIR).run();
    run.succeeds();
    assert!(sandbox.read("out") == bytes, "{}", run.stderr);
}

#[test]
fn a_drip_is_no_progress() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let object = Object::new(2 * MIB).rate(5);
    let server = Server::start(move |request, wire| {
        counted.fetch_add(1, Relaxed);
        object.serve(request, wire)
    });
    let sandbox = Sandbox::new();
    let limits = ["--timeout", "3", "--retries", "2", "-c", "1"];
    let run = sandbox.get([&server.url("x"), "-o", "out"]).args(&limits).run();
    run.fails(4, &["under 10 B/s"]);
    assert_eq!(attempts.load(Relaxed), 3, "retries are counted though each brought a few bytes");
}

#[test]
fn records_and_frames_byte_by_byte_are_no_file() {
    // 50 B/s on the wire, five times the least rate, but no record of TLS is ever complete.
    let object = Object::new(3 * MIB);
    let secure = Server::start_tls(move |request, wire| object.serve(request, wire));
    let relay = Relay::drip_after(100_000, SOON, secure.address());
    let sandbox = Sandbox::new();
    let start = Instant::now();
    let limits = ["-k", "--timeout", "2", "--retries", "0", "-o", "out"];
    let run = sandbox.get([&format!("https://{}/x", relay.address)]).args(&limits).run();
    run.fails(4, &["127.0.0.1 sent no", " for 2 s", "are kept"]);
    assert!(start.elapsed() < ENDS, "{:?}", start.elapsed());

    std::fs::create_dir(sandbox.path("files")).unwrap();
    sandbox.write("files/large.bin", pattern(3 * MIB, 1));
    sandbox.write("files/small.bin", pattern(60_000, 1));
    let serving = sandbox.serve("files", &["--tls"]);
    let server = serving.url("").replace("https://", "").trim_end_matches('/').parse().unwrap();
    for (file, first) in [("large.bin", 100_000), ("small.bin", 20_000)] {
        let relay = Relay::drip_after(first, SOON, server);
        let start = Instant::now();
        let limits = ["--http2", "-k", "--timeout", "1", "--retries", "0", "-c", "1", "-o", "two"];
        let run = sandbox.get([&format!("https://{}/{file}", relay.address)]).args(&limits).run();
        assert!(run.stderr.contains("127.0.0.1 sent "), "{}", run.stderr);
        assert!(matches!(run.status.code(), Some(1 | 4)), "{}", run.stderr);
        assert!(start.elapsed() < ENDS, "{file}: {:?}", start.elapsed());
    }
}

/// A frame of HTTP/2 (RFC 9113 section 4.1) on stream 1, or 0.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Reads up to a client's first HEADERS frame, which follows its preface of 24 bytes and its settings.
fn wait_for_headers(socket: &mut impl Read) -> io::Result<()> {
    socket.read_exact(&mut [0; 24])?;
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        socket.read_exact(&mut vec![0; length as usize])?;
        if head[3] == 1 {
            return Ok(());
        }
    }
}

#[test]
fn frames_that_are_not_the_file_keep_no_connection_alive() {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;
    let settings = frame(4, 0, 0, b"");
    // `:status: 200` of the static table; `:status: 102`, spelled out; `content-length: 100000`, of the
    // static table's name 28.
    let ok = frame(HEADERS, 4, 1, &[&[0x88, 0x0f, 0x0d, 6][..], b"100000"].concat());
    let interim = frame(HEADERS, 4, 1, b"\x08\x03102");
    let ping = frame(PING, 0, 0, b"12345678");
    let window = frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]);
    let one = frame(DATA, 0, 1, b"x");
    let none = frame(DATA, 0, 1, b"");
    let begun = |then: &[&[u8]]| [&[&settings[..]], then].concat().concat();
    for (kind, begin, next, gap) in [
        ("pings before a head", begun(&[]), &ping, SOON),
        ("interim answers", begun(&[]), &interim, SOON),
        ("a byte of settings at a time", Vec::new(), &settings[..1].to_vec(), SOON),
        ("pings in a body", begun(&[&ok, &one]), &ping, SOON),
        ("windows in a body", begun(&[&ok]), &window, SOON),
        ("frames without data", begun(&[&ok]), &none, SOON),
        ("a byte now and then", begun(&[&ok]), &one, Duration::from_millis(200)),
    ] {
        let next = next.clone();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut socket in listener.incoming().flatten() {
                let (begin, next) = (begin.clone(), next.clone());
                std::thread::spawn(move || -> io::Result<()> {
                    wait_for_headers(&mut socket)?;
                    socket.write_all(&begin)?;
                    loop {
                        socket.write_all(&next)?;
                        std::thread::sleep(gap);
                    }
                });
            }
        });
        let sandbox = Sandbox::new();
        let start = Instant::now();
        let limits = ["--http2", "--timeout", "1", "--retries", "0", "-o", "out"];
        let run = sandbox.get([&format!("http://127.0.0.1:{port}/x")]).args(&limits).run();
        run.exits(1);
        assert!(start.elapsed() < ENDS, "{kind}: {:?}", start.elapsed());
        println!("{kind}: {:?}: {}", start.elapsed(), run.stderr);
        let running =
            sandbox.get([&format!("http://127.0.0.1:{port}/x")]).args(&["--http2", "--retries", "0"]).spawn();
        wait_for("its handler", || running.catches(Signal::INT));
        let start = Instant::now();
        running.signal(Signal::INT);
        let run = running.wait();
        assert!(start.elapsed() < HEARD, "{kind}: heard after {:?}: {}", start.elapsed(), run.stderr);
    }
}

#[test]
fn the_same_over_http2() {
    // A server that answers, behind a relay that lets bytes through one by one after the first.
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("files")).unwrap();
    sandbox.write("files/large.bin", pattern(3 * MIB, 1));
    let serving = sandbox.serve("files", &["--tls", "--save-cert", "ca.pem", "--limit-rate", "20k"]);
    let start = Instant::now();
    let args =
        ["--http2", "--cacert", "ca.pem", "-Y", "200k", "-y", "1", "--retries", "0", "-c", "1", "-o", "out"];
    let run = sandbox.get([&serving.url("large.bin")]).args(&args).run();
    assert!(run.stderr.contains("sent under 200 KB/s for 1 s"), "{}", run.stderr);
    assert!(start.elapsed() < ENDS, "{:?}", start.elapsed());
}

#[test]
fn a_host_that_takes_connections_and_is_silent_holds_up_no_other() {
    let silent = Server::start(|_, wire| wire.wait_for_close());
    // One that falls silent in the middle, and takes a new connection without a word.
    let object = Object::new(3 * MIB);
    let midway = Server::start(move |request, wire| match request.number {
        0 => {
            object.serve_up_to(request, wire, MIB)?;
            wire.close()
        }
        _ => wire.wait_for_close(),
    });
    let large = Object::new(2 * MIB);
    let bytes = large.bytes.clone();
    let good = Server::start(move |request, wire| large.serve(request, wire));
    // One whose redirects ask for a wait, which the lane keeps.
    let patient = asks_for_a_wait("302 Found", &[("Retry-After", "300"), ("Location", "/y")], usize::MAX);
    for (first, lanes) in [
        (patient.url("x"), &[][..]),
        (silent.url("x"), &[]),
        (silent.url("x"), &["-j", "1"]),
        (midway.url("x"), &[]),
        (midway.url("x"), &["-c", "1"]),
    ] {
        let sandbox = Sandbox::new();
        let urls = [first, good.url("a"), good.url("b"), good.url("c")];
        let start = Instant::now();
        let running = sandbox.get(&urls).args(&["-o", "in/"]).args(lanes).spawn();
        let came = || ["in/a", "in/b", "in/c"].iter().filter(|name| sandbox.path(name).exists()).count();
        wait_for("the other files", || came() == 3);
        assert!(start.elapsed() < Duration::from_secs(10), "{lanes:?}: {:?}", start.elapsed());
        is_heard(running);
        assert!(sandbox.read("in/b") == *bytes);
    }
}
