//! `weir bench http --http2`: what nginx saw of it, and what it says of servers that are slow, endless,
//! silent or of another protocol.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use support::net::free_port;
use support::{BETWEEN_LOOKS, Run, Sandbox, Server, TIMEOUT, WEIR, Weir, Wire, skip, undisturbed, wait_for};

fn bench(sandbox: &Sandbox, args: &[&str]) -> Weir {
    sandbox.weir(WEIR, ["bench", "http", "--http2", "--json"]).args(args)
}

fn errors(record: &Value) -> [u64; 5] {
    ["connect", "read", "write", "timeout", "status"]
        .map(|name| record["http"]["errors"][name].as_u64().unwrap())
}

fn requests(record: &Value) -> u64 {
    record["http"]["requests"].as_u64().unwrap()
}

/// nginx, which writes down each request with the protocol and the connection that it came over, and ends a
/// connection after fifty.
struct Nginx {
    child: Child,
    plain: u16,
    tls: u16,
    sandbox: Sandbox,
}

impl Nginx {
    fn start() -> Option<Nginx> {
        let Some(binary) =
            ["/usr/sbin/nginx", "/usr/bin/nginx"].into_iter().find(|path| Path::new(path).exists())
        else {
            skip("nginx is not installed");
            return None;
        };
        let sandbox = Sandbox::new();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        sandbox.write("cert.pem", made.cert.pem());
        sandbox.write("key.pem", made.signing_key.serialize_pem());
        sandbox.write("page", "hello");
        let (plain, tls) = (free_port(), free_port());
        let here = sandbox.path("");
        let here = here.display();
        // A master process would change its user to nobody, who may not read a private folder.
        let config = format!(
            "daemon off; master_process off; pid {here}/pid; error_log {here}/error.log;
             events {{ worker_connections 256; }}
             http {{ client_body_temp_path {here}/t1; proxy_temp_path {here}/t2; fastcgi_temp_path {here}/t3;
               uwsgi_temp_path {here}/t4; scgi_temp_path {here}/t5; keepalive_requests 50;
               log_format all '$connection $server_protocol $request_method $request_uri $host $content_length $http_x_a';
               access_log {here}/access.log all; root {here};
               server {{ listen 127.0.0.1:{plain} http2; listen unix:{here}/socket http2; }}
               server {{ listen 127.0.0.1:{tls} ssl http2;
                 ssl_certificate {here}/cert.pem; ssl_certificate_key {here}/key.pem; }} }}"
        );
        let config = sandbox.write("nginx.conf", config);
        let child = Command::new(binary).arg("-c").arg(config).stderr(Stdio::null()).spawn().unwrap();
        let nginx = Nginx { child, plain, tls, sandbox };
        let start = Instant::now();
        while UnixStream::connect(nginx.sandbox.path("socket")).is_err() {
            assert!(start.elapsed() < TIMEOUT, "nginx does not answer");
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Some(nginx)
    }

    /// What it wrote down once so many requests were there: connection and words.
    fn asked(&self, count: usize) -> Vec<(String, String)> {
        let start = Instant::now();
        loop {
            let text = String::from_utf8(self.sandbox.read("access.log")).unwrap();
            if text.lines().count() >= count {
                let words = |line: &str| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned()));
                return text.lines().map(|line| words(line).unwrap()).collect();
            }
            assert!(start.elapsed() < TIMEOUT, "{count} requests were waited for: {text}");
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn nginx_sees_each_request_once_over_connections_that_it_ends() {
    let Some(nginx) = Nginx::start() else { return };
    let socket = nginx.sandbox.path("socket");
    let plain = format!("http://127.0.0.1:{}/page?q", nginx.plain);
    let tls = format!("https://127.0.0.1:{}/page?q", nginx.tls);
    let mut before = 0;
    for (args, host) in [
        (vec![plain.as_str()], "127.0.0.1"),
        (vec!["-k", tls.as_str()], "127.0.0.1"),
        (vec!["--unix-socket", socket.to_str().unwrap(), "http://any.host/page?q"], "any.host"),
    ] {
        let common = ["-c", "3", "-t", "2", "--streams", "4", "-n", "500", "-H", "X-A: b"];
        let record = bench(&nginx.sandbox, &common).args(&args).run().succeeds().json();
        assert_eq!((requests(&record), errors(&record)), (500, [0; 5]), "{record}");
        assert_eq!((&record["http"]["connections"], &record["http"]["streams"]), (&3.into(), &4.into()));
        let asked = nginx.asked(before + 500).split_off(before);
        before += asked.len();
        assert_eq!(asked.len(), 500, "none twice");
        let mut connections: HashMap<&str, usize> = HashMap::new();
        for (connection, words) in &asked {
            assert_eq!(words, &format!("HTTP/2.0 GET /page?q {host} - b"));
            *connections.entry(connection).or_default() += 1;
        }
        // Each ended after fifty and a few that were under way.
        assert!((8..=12).contains(&connections.len()), "{connections:?}");
    }
}

#[test]
fn methods_and_bodies_arrive_and_statuses_are_counted() {
    let Some(nginx) = Nginx::start() else { return };
    let url = format!("http://127.0.0.1:{}/page", nginx.plain);
    let args = ["-c", "1", "-n", "3", "-b", "12345", "-H", "Connection: close", "-H", "Host: other", &url];
    let record = bench(&nginx.sandbox, &args).run().succeeds().json();
    // A file takes no POST.
    assert_eq!((requests(&record), errors(&record)), (3, [0, 0, 0, 0, 3]), "{record}");
    for (_, words) in nginx.asked(3) {
        assert_eq!(words, "HTTP/2.0 POST /page other 5 -");
    }
    let record = bench(&nginx.sandbox, &["-c", "1", "-n", "3", "-m", "HEAD", &url]).run().succeeds().json();
    assert_eq!((requests(&record), errors(&record)), (3, [0; 5]), "{record}");
}

#[test]
fn every_form_has_its_figures() {
    let Some(nginx) = Nginx::start() else { return };
    let url = format!("http://127.0.0.1:{}/page", nginx.plain);
    let of = |form: &str| -> String {
        let args =
            ["bench", "http", "--http2", "-c", "2", "--streams", "2", "-n", "20", "--format", form, &url];
        String::from_utf8(nginx.sandbox.weir(WEIR, args).run().succeeds().stdout.clone()).unwrap()
    };
    // A long line is folded.
    let own = of("weir").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(own.contains("over 2 connections of 2 streams (HTTP/2)"), "{own}");
    assert!(of("wrk").contains("  20 requests in "), "{}", of("wrk"));
    let ab = of("ab");
    for line in [
        "Server Software:        nginx/",
        "Document Length:        5 bytes",
        "Complete requests:      20",
        " 100% ",
    ] {
        assert!(ab.contains(line), "{line}: {ab}");
    }
    assert!(of("csv").contains(",20,") && of("hdr").contains("#[Max"));
}

#[test]
fn streams_are_under_way_at_the_same_time() {
    let sandbox = Sandbox::new();
    sandbox.write("page", "hello");
    let serving = sandbox.serve(".", &["--delay", "100ms"]);
    let of = |streams: &str| {
        let args = ["-c", "1", "-d", "1s", "--streams", streams, &serving.url("page")];
        let record = bench(&sandbox, &args).run().succeeds().json();
        // Little's law: how many were under way.
        let http = &record["http"];
        (http["requests_rate"].as_f64().unwrap() * http["latency"]["mean"].as_f64().unwrap(), record)
    };
    for (streams, few, many) in [("1", 0.5, 1.1), ("8", 4.0, 8.8)] {
        let (seen, record) = of(streams);
        assert!((few..many).contains(&seen), "{streams} streams: {seen}: {record}");
    }
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let Some(nginx) = Nginx::start() else { return };
    let url = format!("http://127.0.0.1:{}/page", nginx.plain);
    // Of 200. What has no answer yet when a busy machine comes to the end was planned all the same; ten may
    // be as young as an answer.
    let args = ["-c", "2", "-t", "2", "--streams", "3", "-d", "5s", "--rate", "40", &url];
    let record = undisturbed(|| bench(&nginx.sandbox, &args).run()).succeeds().json();
    assert_eq!(record["http"]["held_by"], "rate", "{record}");
    let planned = requests(&record) + record["http"]["unanswered"].as_u64().unwrap();
    assert!((190..=201).contains(&planned), "{record}");
    assert!(record["http"]["service"]["p50"].as_f64().unwrap() > 0.0);
}

#[test]
fn an_answer_without_end_ends_with_the_time_or_an_interrupt() {
    let sandbox = Sandbox::new();
    let file = std::fs::File::create(sandbox.path("huge")).unwrap();
    // Of zeroes that no disk holds.
    file.set_len(1 << 42).unwrap();
    let serving = sandbox.serve(".", &[]);
    let url = serving.url("huge");
    let run = bench(&sandbox, &["-c", "2", "--streams", "2", "-d", "500ms", "--timeout", "1h", &url]).run();
    run.fails(1, &["no request to"]);
    assert!(run.json()["bytes"].as_u64().unwrap() > 100_000, "{}", run.json());
    let timeout = bench(&sandbox, &["-c", "1", "-n", "1", "--timeout", "1s", &url]).run();
    assert_eq!(errors(&timeout.exits(1).json()), [0, 0, 0, 1, 0]);
    let running = bench(&sandbox, &["-c", "2", "-d", "1h", "--timeout", "1h", &url]).spawn();
    // It has a connection once the kernel has one to its server.
    let port = url.rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    let process = format!("/proc/{}/net/tcp", running.id());
    let seen = format!(":{:04X} 01 ", port.parse::<u16>().unwrap());
    wait_for("a connection", || std::fs::read_to_string(&process).is_ok_and(|text| text.contains(&seen)));
    running.signal(Signal::INT);
    running.wait().exits(130);
}

#[test]
fn who_speaks_no_http_2_is_named() {
    let hello = |wire: &mut Wire| wire.answer("200 OK", &[], b"hello");
    let sandbox = Sandbox::new();
    for server in [Server::start(move |_, wire| hello(wire)), Server::start_tls(move |_, wire| hello(wire))] {
        let said = format!("{} does not speak HTTP/2", server.address());
        bench(&sandbox, &["-k", "-n", "5", &server.url("x")]).run().fails(1, &[&said, "--http2"]);
    }
}

#[test]
fn servers_that_misbehave_are_counted_and_end_nothing() {
    type Misbehaviour = fn(&mut Wire) -> std::io::Result<()>;
    /// An empty SETTINGS frame.
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    let cases: [(&str, Misbehaviour); 5] = [
        ("garbage", |wire| {
            wire.raw(b"garbage garbage garbage garbage")?;
            wire.wait_for_close()
        }),
        ("a reset", |wire| wire.reset()),
        ("an early end", |wire| wire.cut()),
        ("a frame too long", |wire| {
            wire.raw(SETTINGS)?;
            wire.raw(&[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1, 0])?;
            wire.wait_for_close()
        }),
        ("an end after the settings", |wire| {
            wire.raw(SETTINGS)?;
            wire.cut()
        }),
    ];
    for (name, misbehave) in cases {
        let server = Server::start(move |_, wire| misbehave(wire));
        let sandbox = Sandbox::new();
        let run: Run = bench(&sandbox, &["-c", "1", "--streams", "2", "-n", "4", &server.url("x")]).run();
        run.fails(1, &["no request to"]);
        assert_eq!(errors(&run.json())[..2].iter().sum::<u64>(), 4, "{name}: {}", run.json());
    }
}

#[test]
fn silence_times_out_and_is_left_for_another_connection() {
    let server = Server::start(|_, wire| wire.wait_for_close());
    let sandbox = Sandbox::new();
    // Long enough that each can connect on a busy machine.
    let args = ["-c", "2", "-n", "6", "--timeout", "2s", &server.url("x")];
    let run = bench(&sandbox, &args).run();
    run.fails(1, &["no request to"]);
    assert_eq!(errors(&run.json()), [0, 0, 0, 6, 0]);
    // The first connection only asks whether somebody is there; each time-out costs one.
    let deadline = Instant::now() + Duration::from_secs(5);
    while server.connections() < 7 && Instant::now() < deadline {
        std::thread::sleep(BETWEEN_LOOKS);
    }
    assert_eq!(server.connections(), 7);
}

#[test]
fn flags_that_do_not_go_together_are_refused() {
    let sandbox = Sandbox::new();
    let weir = |args: &[&str]| sandbox.weir(WEIR, ["bench", "http", "http://127.0.0.1:9/"]).args(args).run();
    for (args, why) in [
        (&["--streams", "2"][..], "--http2"),
        (&["--http2", "--streams", "0"], "1M"),
        (&["--http2", "-s", "x.lua"], "--script"),
        (&["--http2", "--no-keep-alive"], "--no-keep-alive"),
        (&["--http2", "-c", "1M", "--streams", "1M"], "--streams"),
    ] {
        weir(args).fails(2, &[why]);
    }
}
