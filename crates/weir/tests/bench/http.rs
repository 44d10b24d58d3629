//! `weir bench http`: what it says of servers good and bad, and in which forms.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod forms;
mod reached;
mod reasons;

use crate::support;

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use support::{Run, Sandbox, Server, WEIR, Weir, Wire, over};

fn bench(sandbox: &Sandbox, args: &[&str]) -> Weir {
    sandbox.weir(WEIR, ["bench", "http"]).args(args)
}

fn stdout(run: &Run) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

fn hello(wire: &mut Wire) -> std::io::Result<()> {
    wire.answer("200 OK", &[("Server", "tester")], b"hello")
}

/// `-n` requests over one connection; the record.
fn record(server: &Server, args: &[&str]) -> Value {
    let sandbox = Sandbox::new();
    bench(&sandbox, &["--json", "-c", "1", &server.url("x?y")]).args(args).run().json()
}

fn errors(record: &Value) -> [u64; 5] {
    ["connect", "read", "write", "timeout", "status"]
        .map(|name| record["http"]["errors"][name].as_u64().unwrap())
}

#[test]
fn requests_are_made_as_often_as_asked() {
    // None is answered before each of the four connections has asked: the first thread could make all of them
    // before the second one begins.
    let (asking, changed) = (Mutex::new(HashSet::new()), Condvar::new());
    let server = Server::start(move |request, wire| {
        let mut asking = asking.lock().unwrap();
        asking.insert(request.connection);
        changed.notify_all();
        drop(changed.wait_while(asking, |asking| asking.len() < 4).unwrap());
        hello(wire)
    });
    let args = ["-n", "50", "-c", "4", "-t", "2", "-H", "X-A: b", "--timeout", "20s"];
    let record = record(&server, &args);
    assert_eq!((record["schema"].as_str(), record["command"].as_str()), (Some("weir.run/1"), Some("bench")));
    assert_eq!((&record["outcome"], &record["http"]["requests"]), (&"complete".into(), &50.into()));
    assert_eq!(errors(&record), [0; 5]);
    let asked = server.requests_from(0);
    assert_eq!(asked.len(), 50);
    for request in &asked {
        assert_eq!((request.method.as_str(), request.target.as_str()), ("GET", "/x?y"));
        assert_eq!(request.field("host"), Some(server.address().to_string().as_str()));
        assert_eq!(request.field("x-a"), Some("b"));
    }
    // The first connection only asks whether somebody is there.
    assert_eq!(server.connections(), 5);
}

#[test]
fn a_connection_each_where_asked() {
    let server = Server::start(|_, wire| hello(wire));
    let record = record(&server, &["-n", "7", "--no-keep-alive"]);
    assert_eq!((&record["http"]["requests"], errors(&record)), (&7.into(), [0; 5]));
    assert_eq!(server.connections(), 8);
    assert!(server.requests_from(0).iter().all(|request| request.field("connection") == Some("close")));
}

#[test]
fn statuses_and_methods() {
    let server = Server::start(|request, wire| match request.method.as_str() {
        // A length without a body.
        "HEAD" => wire.head("200 OK", &[("Content-Length", "5")]),
        _ => wire.answer("503 Busy", &[], b"no"),
    });
    assert_eq!(errors(&record(&server, &["-n", "3"])), [0, 0, 0, 0, 3]);
    assert_eq!(errors(&record(&server, &["-n", "3", "-m", "HEAD"])), [0; 5]);
}

#[test]
fn scripts_ask_for_heads_among_others() {
    let server = Server::start(|request, wire| match request.method.as_str() {
        // A length without a body.
        "HEAD" => wire.head("200 OK", &[("Content-Length", "5")]),
        _ => hello(wire),
    });
    let sandbox = Sandbox::new();
    for script in [
        "wrk.method = 'HEAD'\n",
        "local n = 0\n\
         function request() n = n + 1 return wrk.format(n % 2 == 0 and 'HEAD' or 'GET') end\n",
        // Three at once, of which one has no body.
        "function init() text = wrk.format('GET') .. wrk.format('HEAD') .. wrk.format('GET') end\n\
         function request() return text end\n",
    ] {
        sandbox.write("own.lua", script);
        let before = server.requests().len();
        let args = ["--json", "-c", "1", "-n", "6", "-s", "own.lua", &server.url("x")];
        let record = bench(&sandbox, &args).run().succeeds().json();
        assert_eq!((&record["http"]["requests"], errors(&record)), (&6.into(), [0; 5]), "{script}");
        let heads = server.requests_from(before).iter().filter(|asked| asked.method == "HEAD").count();
        assert!(heads >= 2, "{script}: {heads}");
    }
}

#[test]
fn a_pipeline_counts_by_its_requests() {
    // Of each connection two batches of three are answered, the third is not.
    let asked = Mutex::new(HashMap::new());
    let server = Server::start(move |request, wire| {
        let mut asked = asked.lock().unwrap();
        let count = asked.entry(request.connection).or_insert(0);
        *count += 1;
        let is_answered = *count <= 6;
        drop(asked);
        if is_answered { hello(wire) } else { wire.wait_for_close() }
    });
    let sandbox = Sandbox::new();
    let three = "function init() text = string.rep(wrk.format(), 3) end\n\
                 function request() return text end\n";
    sandbox.write("own.lua", three);
    let of = |args: &[&str]| {
        let common = ["--json", "-c", "1", "-s", "own.lua", &server.url("x")];
        let record = bench(&sandbox, &common).args(args).run().succeeds().json();
        (record["http"]["requests"].as_u64().unwrap(), errors(&record)[3])
    };
    assert_eq!(of(&["--timeout", "1h", "-n", "6"]), (6, 0));
    // A batch is not cut.
    assert_eq!(of(&["--timeout", "1h", "-n", "4"]), (6, 0));
    // All three of a batch have failed. The two before it are to come in time on a busy machine.
    assert_eq!(of(&["--timeout", "5s", "-n", "9"]), (6, 3));
    // Six a second are two batches.
    let (requests, late) = of(&["--timeout", "1h", "-d", "1s", "--rate", "6"]);
    assert!((3..=6).contains(&requests) && late == 0, "{requests} {late}");
}

#[test]
fn no_report_and_no_error_tells_a_secret() {
    let server = Server::start(|request, wire| match request.path() {
        "/ok" => hello(wire),
        _ => wire.raw(b"nonsense\r\n\r\n"),
    });
    let sandbox = Sandbox::new();
    let query = "part=1&X-Amz-Signature=geheim";
    let url = server.url(&format!("ok?{query}"));
    for form in ["weir", "wrk", "ab", "json", "csv", "hdr"] {
        let run = bench(&sandbox, &["-n", "2", "-c", "1", "--format", form, &url]).run();
        run.succeeds().hides("geheim");
        // What is no secret stays to be seen.
        assert!(form == "hdr" || stdout(&run).contains("part=1"), "{}", stdout(&run));
    }
    bench(&sandbox, &["--ab", "-n", "2", &url]).run().succeeds().hides("geheim");
    let broken = server.url(&format!("broken?{query}"));
    bench(&sandbox, &["-n", "2", "-c", "1", &broken]).run().fails(1, &["no request to"]).hides("geheim");
    // What was asked is the whole.
    assert!(server.requests_from(0).iter().all(|request| request.target.ends_with(query)));
    for wrong in ["http://us:geheim@h/", "ftp://us:geheim@h/?sig=geheim", "http://h/ ?sig=geheim"] {
        bench(&sandbox, &[wrong]).run().fails(2, &["invalid URL"]).hides("geheim");
    }
}

#[test]
fn bodies_are_sent_whole() {
    // It answers with what it got.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    let heard = std::thread::spawn(move || {
        let mut heard = Vec::new();
        // The first connection only asks whether somebody is there.
        for mut socket in listener.incoming().flatten().skip(1).step_by(2).take(3) {
            let mut bytes = Vec::new();
            let mut piece = [0; 4096];
            while !bytes.ends_with(b"=end") {
                let count = socket.read(&mut piece).unwrap();
                bytes.extend_from_slice(&piece[..count]);
            }
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            heard.push(String::from_utf8(bytes).unwrap());
        }
        heard
    });
    let sandbox = Sandbox::new();
    sandbox.write("body", "from a file=end");
    for flags in [
        &["-b", "a text=end"][..],
        &["--body", "@body", "-m", "PUT", "-H", "Content-Type: text/x"],
        &["-b", "=end", "-H", "Host: other"],
    ] {
        bench(&sandbox, &["-q", "-n", "1", "-c", "1", &url]).args(flags).run().succeeds();
    }
    let heard = heard.join().unwrap();
    let host = url.trim_start_matches("http://").trim_end_matches("/x");
    assert_eq!(
        heard,
        [
            format!("POST /x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 10\r\n\r\na text=end"),
            format!(
                "PUT /x HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/x\r\nContent-Length: 15\r\n\r\nfrom a file=end"
            ),
            "POST /x HTTP/1.1\r\nHost: other\r\nContent-Length: 4\r\n\r\n=end".to_owned(),
        ]
    );
}

#[test]
fn bodies_of_every_framing_are_taken_apart() {
    let server = Server::start(|request, wire| match request.number % 3 {
        0 => wire
            .raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n"),
        1 => {
            wire.raw(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcde")?;
            wire.close()
        }
        // In small pieces.
        _ => b"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde"
            .chunks(3)
            .try_for_each(|piece| wire.raw(piece)),
    });
    let record = record(&server, &["-n", "9"]);
    assert_eq!((&record["http"]["requests"], errors(&record)), (&9.into(), [0; 5]));
}

#[test]
fn servers_that_misbehave_are_counted_and_end_nothing() {
    type Misbehaviour = fn(&mut Wire) -> std::io::Result<()>;
    let cases: [(&str, Misbehaviour); 8] = [
        ("garbage", |wire| wire.raw(b"garbage garbage garbage\r\n\r\n")),
        ("a reset", |wire| wire.reset()),
        ("an early end", |wire| wire.cut()),
        ("half an answer", |wire| {
            wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nabc")?;
            wire.cut()
        }),
        ("wrong chunks", |wire| {
            wire.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot hex\r\n")
        }),
        ("two lengths", |wire| {
            wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
        }),
        ("a head without end", |wire| {
            wire.raw(b"HTTP/1.1 200 OK\r\n")?;
            loop {
                wire.raw(&[b'a'; 1000])?;
            }
        }),
        ("too much", |wire| wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabcdef")),
    ];
    for (name, misbehave) in cases {
        let server = Server::start(move |_, wire| misbehave(wire));
        let record = record(&server, &["-n", "4"]);
        let read = errors(&record)[1];
        assert_eq!(read, 4, "{name}: {record}");
        // Of what was too much the front was an answer.
        assert_eq!(record["http"]["requests"], if name == "too much" { 4 } else { 0 }, "{name}");
    }
}

#[test]
fn silence_times_out() {
    for stall in
        [b"".as_slice(), b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"]
    {
        let server = Server::start(move |_, wire| {
            wire.raw(stall)?;
            wire.wait_for_close()
        });
        let sandbox = Sandbox::new();
        let run =
            bench(&sandbox, &["-c", "2", "-n", "2", "--timeout", "2s", "--json", &server.url("x")]).run();
        run.fails(1, &["no request to"]);
        assert_eq!(errors(&run.json()), [0, 0, 0, 2, 0]);
    }
}

#[test]
fn an_answer_before_the_whole_question_counts() {
    // It never reads the body, of which more is sent than any buffer holds.
    let server = Server::start(|_, wire| {
        wire.raw(b"HTTP/1.1 413 Too much\r\nContent-Length: 2\r\n\r\nno")?;
        wire.wait_for_close()
    });
    let sandbox = Sandbox::new();
    sandbox.write("body", vec![b'x'; 16 << 20]);
    let args = ["--json", "-c", "1", "-n", "1", "-b", "@body", &server.url("x")];
    let record = bench(&sandbox, &args).run().json();
    assert_eq!((&record["http"]["requests"], errors(&record)), (&1.into(), [0, 0, 0, 0, 1]));
}

#[test]
fn nobody_there_is_said() {
    let sandbox = Sandbox::new();
    let (_socket, closed) = support::net::refusing();
    bench(&sandbox, &[&format!("http://{closed}/")])
        .run()
        .fails(1, &["cannot connect to", "connection refused; nothing listens there: check the host"]);
    bench(&sandbox, &["http://no.such.host.invalid/"])
        .run()
        .fails(1, &["cannot resolve no.such.host.invalid:80: ", "; check the"]);
    for (args, why) in [
        (&["ftp://h/"][..], "expected http://"),
        (&["http://h/", "-c", "0"], "1M"),
        (&["http://h/", "-c", "1", "-t", "2"], "above -c 1"),
        (&["http://h/", "--rate", "0"], "requests a second"),
        (&["http://h/", "-H", "no field"], "expected a field"),
        (&["http://h/", "--timeout", "0"], "--timeout"),
        (&["http://h/", "--", "word"], "-s"),
        (&["--ab", "-n", "1", "-c", "2", "http://h/"], "above -n"),
        (&["--ab", "-n", "1", "-b", "x", "http://h/"], "-b"),
        (&["--ab", "-n", "1", "-f", "SSL3", "http://h/"], "TLS1.2, TLS1.3 or ALL"),
        (&[], "URL"),
    ] {
        bench(&sandbox, args).run().fails(2, &[why]);
    }
    // A colon that was forgotten must not bring a credential into a log.
    let forgotten = ["http://h/", "-H", "Authorization Bearer hush"];
    bench(&sandbox, &forgotten).run().fails(2, &["expected a field"]).hides("hush");
}

#[test]
fn too_few_descriptors_are_raised_or_said() {
    let server = Server::start(|_, wire| hello(wire));
    let limited = |soft: u32, hard: u32, connections: &str| {
        let sandbox = Sandbox::new();
        let command = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$@\"");
        let weir = sandbox.weir("sh", ["-c", command.as_str(), "sh", WEIR, "bench", "http", "--json"]);
        weir.args(&["-c", connections, "-n", "300", &server.url("x")]).run()
    };
    assert_eq!(limited(32, 1000, "100").json()["http"]["requests"], 300);
    limited(32, 100, "100").fails(1, &["100 connections", "hard limit is 100", "-c"]);
}

#[test]
fn an_interrupt_gives_what_came_until_then() {
    let server = Server::start(|_, wire| hello(wire));
    let sandbox = Sandbox::new();
    let running = bench(&sandbox, &["--json", "-d", "1h", &server.url("x")]).spawn();
    server.wait("requests", |_, requests| requests.len() > 20);
    running.signal(Signal::INT);
    let run = running.wait();
    run.exits(130);
    assert_eq!(run.json()["outcome"], "partial");
    assert!(run.json()["http"]["requests"].as_u64().unwrap() > 10);
}

#[test]
fn a_unix_socket_whose_queue_is_full_is_given_up_in_time() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("full");
    // Nobody takes from it.
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    let mut waiting = Vec::new();
    loop {
        let flags = rustix::net::SocketFlags::NONBLOCK;
        let (family, kind) = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM);
        let socket = rustix::net::socket_with(family, kind, flags, None).unwrap();
        match rustix::net::connect(&socket, &rustix::net::SocketAddrUnix::new(&path).unwrap()) {
            Ok(()) => waiting.push(socket),
            Err(error) => {
                assert_eq!(error, rustix::io::Errno::AGAIN);
                break;
            }
        }
    }
    for http2 in [&[][..], &["--http2"]] {
        let args = ["-n", "1", "-c", "1", "--timeout", "300ms", "--unix-socket", path.to_str().unwrap()];
        let run = bench(&sandbox, &args).args(http2).args(&["http://any.host/x"]).run();
        run.fails(1, &["cannot connect to any.host", "its queue of connections stayed full"]);
    }
}

#[test]
fn unix_sockets_and_tls() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("socket");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
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
    let args = ["--json", "-n", "20", "--unix-socket", path.to_str().unwrap(), "http://any.host/x"];
    assert_eq!(bench(&sandbox, &args).run().succeeds().json()["http"]["requests"], 20);

    let server = Server::start_tls(|_, wire| hello(wire));
    sandbox.write("ca.pem", server.certificate());
    for trust in [&["-k"][..], &["--cacert", "ca.pem"]] {
        let run = bench(&sandbox, &["--json", "-n", "20", "-c", "2", &server.url("x")]).args(trust).run();
        assert_eq!(run.succeeds().json()["http"]["requests"], 20);
    }
    // Nobody vouches for it: every attempt fails, and none is a request.
    let run = bench(&sandbox, &["--json", "-n", "3", "-c", "1", &server.url("x")]).run();
    run.exits(1);
    assert_eq!(errors(&run.json())[0], 3);
}

#[test]
fn an_open_loop_counts_from_the_planned_time() {
    // Each answer takes 20 ms; 100 a second over one connection can only be half of it.
    let server = Server::start(|_, wire| {
        std::thread::sleep(Duration::from_millis(20));
        hello(wire)
    });
    let record = record(&server, &["-d", "1s", "--rate", "100"]);
    let (latency, service) = (&record["http"]["latency"], &record["http"]["service"]);
    assert!(record["http"]["unsent"].as_u64().unwrap() >= 20, "{record}");
    assert!(latency["max"].as_f64().unwrap() > 5.0 * service["p50"].as_f64().unwrap(), "{record}");
}

#[test]
fn what_was_never_to_be_asked_is_not_owed() {
    // All that were to be asked were, if late: the plan of 1000 a second went on without them.
    let server = Server::start(|_, wire| {
        std::thread::sleep(Duration::from_millis(20));
        hello(wire)
    });
    let record = record(&server, &["-n", "10", "--rate", "1000"]);
    assert_eq!((&record["http"]["requests"], &record["http"]["unsent"]), (&10.into(), &0.into()), "{record}");
}

#[test]
fn a_server_that_closes_at_once_is_not_flooded() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    std::thread::spawn({
        let taken = std::sync::Arc::clone(&taken);
        move || {
            for _ in listener.incoming() {
                taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    });
    // One request in a hundred seconds: nothing is asked, and the connection is closed again and again.
    bench(&Sandbox::new(), &["-c", "1", "-d", "1s", "--rate", "0.01", &url]).run();
    // One that asks whether somebody is there, then pauses that double: 0, 2, 4, ... 256 ms.
    let taken = taken.load(std::sync::atomic::Ordering::Relaxed);
    assert!((3..30).contains(&taken), "{taken} connections");
}

#[test]
fn a_connection_that_never_stands_does_not_hold_the_run() {
    // The socket listens, but nobody accepts TLS on it.
    let server = Server::start(|_, _| over());
    let url = server.url("x").replace("http:", "https:");
    let sandbox = Sandbox::new();
    let run = bench(&sandbox, &["-k", "-c", "2", "-n", "4", "--timeout", "1s", "--json", &url]).run();
    run.exits(1);
    assert!(errors(&run.json())[0] + errors(&run.json())[3] == 4, "{}", run.json());
}
