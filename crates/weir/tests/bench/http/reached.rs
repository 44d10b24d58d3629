//! How a load reaches its server: other addresses, other places, proxies, client certificates; and how it
//! begins.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rcgen::generate_simple_self_signed;
use serde_json::Value;

use super::{bench, errors, hello, stdout};
use crate::support::http_servers::{Nginx, microsocks, s_server, sandbox_with_www, tinyproxy};
use crate::support::net::free_port;
use crate::support::socks::Socks;
use crate::support::{Sandbox, Server, base64, skip, wait_for};

#[test]
fn a_host_is_reached_as_the_user_says() {
    let server = Server::start(|_, wire| hello(wire));
    let port = server.address().port();
    let sandbox = Sandbox::new();
    sandbox.write("own.lua", "wrk.headers['X-Script'] = 'yes'\n");
    let at = format!("far.invalid:{port}:127.0.0.1");
    let (host, place) = (format!("http://far.invalid:{port}/x"), format!("far.invalid:81:127.0.0.1:{port}"));
    for (args, field) in [
        (vec!["--resolve", &at, &host], format!("far.invalid:{port}")),
        (vec!["--resolve", &at, "-s", "own.lua", "-t", "1", &host], format!("far.invalid:{port}")),
        (vec!["--connect-to", &place, "http://far.invalid:81/x"], "far.invalid:81".to_owned()),
        (vec!["--resolve", &at, "--interface", "127.0.0.1", &host], format!("far.invalid:{port}")),
        (vec!["--resolve", &at, "-4", &host], format!("far.invalid:{port}")),
        (vec!["--resolve", &at, "--http2", &host], String::new()),
    ] {
        let before = server.requests().len();
        let run = bench(&sandbox, &["-c", "2", "-n", "6", "--json"]).args(&args).run();
        if field.is_empty() {
            // It is found, and speaks HTTP/1.1.
            run.fails(1, &["does not speak HTTP/2"]);
            continue;
        }
        assert_eq!(run.succeeds().json()["http"]["requests"], 6, "{args:?}");
        let asked = server.requests_from(before);
        assert!(asked.iter().all(|request| request.field("host") == Some(&field)), "{args:?}");
        assert!(asked.iter().all(|request| request.target == "/x"), "{args:?}");
    }
    bench(&sandbox, &["--resolve", &at, "-6", &host]).run().fails(1, &["only IPv4", "-6"]);
    bench(&sandbox, &["--interface", "weir-none", &host]).run().fails(2, &["no such interface"]);
    bench(&sandbox, &["--resolve", "nonsense", &host]).run().fails(2, &["HOST:PORT:ADDRESS"]);
}

#[test]
fn every_target_has_a_record_with_its_error() {
    let (good, silent) = (Server::start(|_, wire| hello(wire)), Server::start(|_, wire| wire.cut()));
    let gone = format!("http://127.0.0.1:{}/", free_port());
    let (good, silent) = (good.url("x"), silent.url("y"));
    let sandbox = Sandbox::new();
    // A record is asked for by name: -q keeps back what is for people.
    for form in [&["--json"][..], &["--json", "-q"]] {
        let run = bench(&sandbox, &["-c", "1", "-n", "2", &gone, &good, &silent]).args(form).run();
        run.fails(1, &["connection refused", "no request to "]);
        let text = stdout(&run);
        let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |record: &Value| [&record["http"]["url"], &record["outcome"]].map(Value::to_string);
        let seen: Vec<[String; 2]> = records.iter().map(of).collect();
        let quoted = |url: &str, outcome: &str| [url, outcome].map(|text| format!("\"{text}\""));
        assert_eq!(seen, [quoted(&gone, "failed"), quoted(&good, "complete"), quoted(&silent, "failed")]);
        assert!(records[0]["error"].to_string().contains("connection refused"), "{text}");
        assert!(records[1]["error"].is_null(), "{text}");
        assert!(records[2]["error"].to_string().contains("no request to "), "{text}");
    }
    // One alone has its record too; bad arguments have none.
    let run = bench(&sandbox, &["-c", "1", "-n", "2", "--json", &gone]).run();
    let record = run.fails(1, &["connection refused"]).json();
    let seen = (&record["http"]["url"], &record["outcome"]);
    assert_eq!(seen, (&gone.as_str().into(), &"failed".into()), "{record}");
    let run = bench(&sandbox, &["-c", "1", "-t", "2", "--json", &good]).run();
    assert_eq!(stdout(run.fails(2, &["-t 2 is above -c 1"])), "");
    // Of a table the header comes with the first row.
    let table = ["-c", "1", "-n", "2", "--format", "csv", "-q", &gone, &good];
    let table = stdout(bench(&sandbox, &table).run().fails(1, &["connection refused"]));
    assert!(table.starts_with("url,") && table.lines().count() == 2, "{table}");
}

#[test]
fn socks_carries_a_load() {
    let (plain, tls) = (Server::start(|_, wire| hello(wire)), Server::start_tls(|_, wire| hello(wire)));
    let sandbox = Sandbox::new();
    sandbox.write("own.lua", "wrk.path = '/x'\n");
    for (server, scheme, more) in [
        (&plain, "http", &[][..]),
        (&plain, "http", &["--no-keep-alive"]),
        (&plain, "http", &["-s", "own.lua", "-t", "1"]),
        (&tls, "https", &["-k"]),
    ] {
        let proxy = Socks::start(server.address(), Some("me:geheim"), 0);
        let at = format!("socks5h://me:geheim@{}", proxy.address);
        let url = format!("{scheme}://far.invalid:{}/x", server.address().port());
        let args = ["-c", "2", "-n", "8", "--json", "-x", &at, &url];
        let run = bench(&sandbox, &args).args(more).run();
        let record = run.succeeds().hides("geheim").json();
        assert_eq!((&record["http"]["requests"], errors(&record)), (&8.into(), [0; 5]), "{record}");
        // One that asks whether somebody is there, and the load's own; the first of these may do it all.
        assert!(proxy.asked().len() >= 2, "{:?}", proxy.asked());
        assert!(proxy.asked().iter().all(|asked| asked.starts_with("5 far.invalid:")));
        // The process at the other end of the socket is the proxy, not the server.
        assert!(record["http"]["server"].is_null(), "{record}");
    }
    let refusing = Socks::start(plain.address(), None, 2);
    let at = format!("socks5h://{}", refusing.address);
    bench(&sandbox, &["-x", &at, "http://far.invalid/"]).run().fails(1, &["its rules do not allow that"]);
    let nobody = format!("http://127.0.0.1:{}", free_port());
    bench(&sandbox, &["-x", &nobody, &plain.url("x")])
        .run()
        .fails(1, &["cannot connect to the proxy 127.0.0.1:", "connection refused"]);
    let Some(real) = microsocks(Some(("me", "pw"))) else { return skip("microsocks is not installed") };
    let at = format!("socks5://me:pw@127.0.0.1:{}", real.port);
    let run = bench(&sandbox, &["-c", "2", "-n", "8", "--json", "-x", &at, &plain.url("x")]).run();
    assert_eq!(run.succeeds().json()["http"]["requests"], 8);
}

#[test]
fn an_http_proxy_takes_whole_requests_and_makes_tunnels() {
    let (plain, tls) = (Server::start(|_, wire| hello(wire)), Server::start_tls(|_, wire| hello(wire)));
    let sandbox = Sandbox::new();
    let Some(proxy) = tinyproxy(&sandbox, "BasicAuth me geheim\n") else {
        return skip("tinyproxy is not installed");
    };
    let at = format!("http://me:geheim@127.0.0.1:{}", proxy.port);
    for (server, more) in [(&plain, &[][..]), (&tls, &["-k"])] {
        let args = ["-c", "1", "-n", "4", "--no-keep-alive", "--json", "-x", &at, &server.url("x?y")];
        let record = bench(&sandbox, &args).args(more).run().succeeds().json();
        assert_eq!((&record["http"]["requests"], errors(&record)), (&4.into(), [0; 5]), "{record}");
        let asked = server.requests_from(0);
        assert!(asked.iter().all(|request| request.target == "/x?y"), "the proxy asks by the path");
        assert!(asked.iter().all(|request| request.field("proxy-authorization").is_none()));
    }
    // Without a login the proxy says no: as an answer of its own, or before there is a tunnel.
    let bare = format!("http://127.0.0.1:{}", proxy.port);
    let refused = ["-c", "1", "-n", "2", "--no-keep-alive", "--json", "-x", &bare];
    let record = bench(&sandbox, &refused).args(&[&plain.url("x")]).run().json();
    assert_eq!(errors(&record)[4], 2, "{record}");
    bench(&sandbox, &refused).args(&["-k", &tls.url("x")]).run().fails(1, &["407"]);
    sandbox.write("own.lua", "");
    let script = ["-s", "own.lua", "-x", &bare, &plain.url("x")];
    bench(&sandbox, &script).run().fails(2, &["whole URLs", "socks5h://"]);
}

#[test]
fn ab_goes_through_a_proxy_too() {
    let server = Server::start(|request, wire| {
        // As a proxy it answers itself.
        assert!(request.target.starts_with("http://far.invalid/"), "{}", request.target);
        hello(wire).and_then(|()| wire.close())
    });
    let at = server.address().to_string();
    let args = ["--ab", "-n", "2", "-X", &at, "-P", "me:geheim", "http://far.invalid/x"];
    bench(&Sandbox::new(), &args).run().succeeds();
    let asked = server.requests_from(0);
    let login = format!("Basic {}", base64(b"me:geheim"));
    assert!(asked.iter().all(|request| request.field("proxy-authorization") == Some(&login)));
    assert!(asked.iter().all(|request| request.field("host") == Some("far.invalid")));
}

#[test]
fn client_certificates_are_shown() {
    let sandbox = sandbox_with_www();
    sandbox.write("www/page", "hello");
    let me = generate_simple_self_signed(["me".to_owned()]).unwrap();
    let ca = sandbox.write("me.pem", me.cert.pem());
    sandbox.write("me.key", me.signing_key.serialize_pem());
    let verify = format!("ssl_client_certificate {}; ssl_verify_client on;", ca.display());
    let Some(nginx) = Nginx::start(&sandbox, &verify) else { return skip("nginx is not installed") };
    let url = format!("https://127.0.0.1:{}/page", nginx.https);
    for more in [&[][..], &["--http2"]] {
        let of = |flags: &[&str]| {
            let args = ["-k", "-c", "2", "-n", "6", "--json", &url];
            bench(&sandbox, &args).args(more).args(flags).run().succeeds().json()["http"]["statuses"]
                .to_string()
        };
        assert_eq!(of(&["--cert", "me.pem", "--key", "me.key"]), r#"{"200":6}"#);
        assert_eq!(of(&[]), r#"{"400":6}"#, "nginx says that it wants one");
    }
    bench(&sandbox, &["--key", "me.key", &url]).run().fails(2, &["--cert FILE"]);
    bench(&sandbox, &["--cert", "none.pem", &url]).run().fails(1, &["none.pem"]);
    // One that ends the session because of it: the reason, and what helps.
    let path = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
    let (cert, key, ca) = (path("cert.pem"), path("key.pem"), path("me.pem"));
    let args = ["-cert", &cert, "-key", &key, "-CAfile", &ca, "-Verify", "1", "-verify_return_error"];
    let Some(strict) = s_server(&args) else { return skip("openssl is not installed") };
    let url = format!("https://127.0.0.1:{}/", strict.port);
    let run = bench(&sandbox, &["-k", "-c", "1", "-n", "2", &url]).run();
    run.exits(1);
    assert!(stdout(&run).contains("--cert FILE"), "{}", stdout(&run));
}

/// A server that keeps when each connection came.
fn watching() -> (SocketAddr, Arc<Mutex<Vec<Instant>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let kept = Arc::clone(&times);
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            kept.lock().unwrap().push(Instant::now());
            std::thread::spawn(move || {
                let mut piece = [0; 1000];
                // A request is one piece here.
                while socket.read(&mut piece).is_ok_and(|count| count > 0)
                    && socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_ok()
                {
                }
            });
        }
    });
    (address, times)
}

#[test]
fn connections_are_opened_over_a_ramp() {
    let (address, times) = watching();
    let url = format!("http://{address}/");
    let args = ["-c", "4", "-t", "2", "-d", "1s", "--ramp", "800ms", "--json", &url];
    let start = Instant::now();
    let record = bench(&Sandbox::new(), &args).run().succeeds().json();
    // The first one only asks whether somebody is there; of the four one comes every 200 ms.
    wait_for("the fifth connection", || times.lock().unwrap().len() >= 5);
    let times = times.lock().unwrap();
    assert_eq!(times.len(), 5);
    // None comes before its time. Without a ramp they come at once.
    for (number, time) in (0_u32..4).zip(&times[1..]) {
        assert!(*time - start >= number * Duration::from_millis(200), "{start:?} {times:?}");
    }
    assert!(record["seconds"].as_f64().unwrap() < 1.7, "measured is what comes after the ramp: {record}");
}

#[test]
fn a_rate_grows_over_a_ramp() {
    let server = Server::start(|_, wire| hello(wire));
    // 100 a second after two seconds of growing: half as many while it grows.
    let start = Instant::now();
    let args = ["-c", "4", "--rate", "100", "--ramp", "2s", "-d", "2s", "--json", &server.url("x")];
    let record = bench(&Sandbox::new(), &args).run().succeeds().json();
    // The run is as much longer as a busy machine is late, and nothing is asked before its time.
    // A first request of each thread comes at time zero.
    let (asked, most) = (server.requests().len(), 100.0 * (start.elapsed().as_secs_f64() - 1.0) + 4.0);
    assert!(asked as f64 <= most, "{asked} asked, {most} planned");
    assert!(record["http"]["requests"].as_u64().unwrap() > 0, "{record}");
    assert!(record["seconds"].as_f64().unwrap() < 2.1, "measured is what comes after the ramp: {record}");
}

/// What a client says first, to a listener that says nothing: from where, and the bytes.
fn first_words(flags: &[&str]) -> (std::net::IpAddr, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    let hears = std::thread::spawn(move || {
        // One that says nothing only looks whether somebody is there.
        let mut words = vec![0; 4096];
        loop {
            let (mut stream, from) = listener.accept().unwrap();
            let length = stream.read(&mut words).unwrap_or(0);
            if length > 0 {
                words.truncate(length);
                return (from.ip(), words);
            }
        }
    });
    let sandbox = Sandbox::new();
    let args = [&["--ab", "-n", "1", "-s", "5"], flags, &[url.as_str()]].concat();
    bench(&sandbox, &args).run();
    hears.join().unwrap()
}

/// ab's `-B`, `-I`, `-f`, `-Z` and `-b` show in what comes over the wire.
#[test]
fn abs_flags_of_sockets_and_of_tls() {
    let has = |words: &[u8], part: &[u8]| words.windows(part.len()).any(|window| window == part);
    // RFC 8446 section 4.2.1: the list of versions, by its length; section 4.1.2: suites, two bytes each.
    let (both, only_12): (&[u8], &[u8]) = (&[0, 43, 0, 5, 4], &[0, 43, 0, 3, 2, 3, 3]);
    let suites = |words: &[u8]| {
        let session = usize::from(words[43]);
        usize::from(words[44 + session]) << 8 | usize::from(words[45 + session])
    };
    let (from, usual) = first_words(&[]);
    assert_eq!(from.to_string(), "127.0.0.1");
    assert!(has(&usual, b"localhost") && has(&usual, both));
    let (from, nameless) = first_words(&["-I", "-B", "127.0.0.2", "-b", "65536"]);
    assert_eq!(from.to_string(), "127.0.0.2");
    assert!(!has(&nameless, b"localhost"));
    let (_, old) = first_words(&["-f", "TLS1.2"]);
    assert!(has(&old, only_12) && !has(&old, both));
    let (_, one) = first_words(&["-Z", "ECDHE-RSA-AES128-GCM-SHA256", "-f", "TLS1.2"]);
    // The last one is no suite but a sign (RFC 5746 section 3.4).
    assert!(has(&one, &[0xc0, 0x2f]) && suites(&one) <= 4 && suites(&usual) > 8, "{one:?}");
    let server = Server::start(|_, wire| hello(wire));
    let sandbox = Sandbox::new();
    let run = bench(&sandbox, &["--ab", "-n", "1", "-w", "-x", "border=1", &server.url("x")]).run();
    run.succeeds().says(&["the report is text", "--report FILE"]);
    assert!(stdout(&run).contains("Complete requests:      1"));
}
