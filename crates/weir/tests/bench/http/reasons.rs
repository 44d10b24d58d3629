//! Errors by their reasons, answers by their statuses, and what follows for the exit code.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;

use super::{bench, errors, hello, record, stdout};
use crate::support::{Sandbox, Server, Wire, wait_for};

/// Each reason with its count.
fn reasons(record: &Value) -> Vec<(String, u64)> {
    let list = record["http"]["reasons"].as_array().unwrap().iter();
    list.map(|of| (of["reason"].as_str().unwrap().to_owned(), of["count"].as_u64().unwrap())).collect()
}

type Misbehaviour = fn(&mut Wire) -> io::Result<()>;

#[test]
fn each_way_to_answer_wrongly_has_its_reason() {
    let cases: [(&str, Misbehaviour); 13] = [
        ("not-http", |wire| wire.raw(b"SSH-2.0-OpenSSH_9.2\r\n")),
        ("closed-unread", |wire| wire.reset()),
        ("closed-unanswered", |wire| wire.cut()),
        ("cut-head", |wire| {
            wire.raw(b"HTTP/1.1 200 OK\r\nContent-")?;
            wire.cut()
        }),
        ("short-body", |wire| {
            wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nabc")?;
            wire.cut()
        }),
        ("short-body", |wire| {
            wire.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")?;
            wire.cut()
        }),
        ("bad-chunk", |wire| wire.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot hex\r\n")),
        ("bad-length", |wire| {
            wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
        }),
        ("head-too-large", |wire| {
            wire.raw(b"HTTP/1.1 200 OK\r\n")?;
            loop {
                wire.raw(&[b'a'; 1000])?;
            }
        }),
        ("head-too-large", |wire| {
            let fields = "a: b\r\n".repeat(200);
            wire.raw(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n").as_bytes())
        }),
        ("unasked", |wire| wire.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabcdef")),
        // The SETTINGS of a server of HTTP/2.
        ("http2", |wire| wire.raw(b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64")),
        // A fatal alert of a server of TLS.
        ("tls-spoken", |wire| wire.raw(b"\x15\x03\x01\0\x02\x02\x46")),
    ];
    for (name, misbehave) in cases {
        let server = Server::start(move |_, wire| misbehave(wire));
        let record = record(&server, &["-n", "4"]);
        assert_eq!((reasons(&record), errors(&record)[1]), (vec![(name.to_owned(), 4)], 4), "{record}");
    }
}

#[test]
fn a_reset_does_not_tell_whether_the_request_was_read() {
    // It was: the server answers to what it has read.
    let server = Server::start(|_, wire| wire.reset());
    let record = record(&server, &["-n", "2"]);
    assert_eq!(record["http"]["reasons"][0]["words"], "reset before the answer", "{record}");
}

#[test]
fn what_takes_too_long_has_its_reason() {
    for (front, name) in [
        (&b""[..], "no-answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "slow-answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", "slow-answer"),
    ] {
        let server = Server::start(move |_, wire| {
            wire.raw(front)?;
            wire.wait_for_close()
        });
        let record = record(&server, &["-c", "2", "-n", "2", "--timeout", "3s"]);
        assert_eq!(reasons(&record), [(name.to_owned(), 2)], "{record}");
    }
    // Nobody vouches for it, and nobody speaks TLS there.
    let server = Server::start_tls(|_, wire| hello(wire));
    assert_eq!(reasons(&record(&server, &["-n", "2"])), [("tls".to_owned(), 2)]);
    let silent = Server::start(|_, wire| wire.wait_for_close());
    let url = silent.url("x").replace("http:", "https:");
    let args = ["-k", "-c", "2", "-n", "2", "--timeout", "3s", "--json", &url];
    let record = bench(&Sandbox::new(), &args).run().json();
    assert!(reasons(&record).iter().all(|(name, _)| name == "connect-timeout" || name == "tls"), "{record}");
}

#[test]
fn reasons_of_http_2() {
    let server = Server::start(|_, wire| hello(wire));
    // Its answer in HTTP/1.1 ends the run: there is no other to come.
    bench(&Sandbox::new(), &["--http2", "-n", "2", &server.url("x")]).run().fails(1, &["HTTP/2"]);
}

/// One answer of 503 after three of 200, and one that is no HTTP.
fn wavering() -> Server {
    Server::start(|request, wire| match request.number % 5 {
        3 => wire.answer("503 Busy", &[], b"no"),
        4 => wire.raw(b"garbage\x1b[2J and more\r\n\r\n"),
        _ => hello(wire),
    })
}

#[test]
fn answers_are_counted_by_status_in_every_form() {
    let server = wavering();
    let sandbox = Sandbox::new();
    let url = server.url("x");
    let of = |more: &[&str]| bench(&sandbox, &["-c", "1", "-n", "20"]).args(more).args(&[&url]).run();
    let record = of(&["--json"]).succeeds().json();
    let statuses = &record["http"]["statuses"];
    assert_eq!((&statuses["200"], &statuses["503"]), (&12.into(), &4.into()), "{record}");
    assert_eq!(reasons(&record), [("not-http".to_owned(), 4)]);
    assert!(record["http"]["strange"].as_str().unwrap().starts_with("garbage"), "{record}");
    let text = stdout(of(&[]).succeeds());
    for part in [
        "answers by status: 12 of 200, 4 of 503\n",
        "errors: 4 not HTTP, 4 status 400 or above\n",
        "began with: garbage",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains('\u{1b}'), "a server does not steer the terminal: {text:?}");
    of(&["-q", "--report", "page.html"]).succeeds();
    let page = String::from_utf8(sandbox.read("page.html")).unwrap();
    for part in ["answers with status 503", "not HTTP", "garbage"] {
        assert!(page.contains(part), "{part}");
    }
    // wrk's count of socket errors is of all reasons together.
    let wrk = stdout(of(&["--format", "wrk"]).succeeds());
    assert!(wrk.contains("Socket errors: connect 0, read 4, write 0, timeout 0"), "{wrk}");
    assert!(wrk.contains("Non-2xx or 3xx responses: 4"), "{wrk}");
}

#[test]
fn planned_requests_that_were_never_sent_are_named_beside_the_errors_that_are_allowed() {
    // The second is never answered: those behind it are not asked.
    let server = Server::start(|request, wire| match request.number {
        0 => hello(wire),
        _ => wire.wait_for_close(),
    });
    let sandbox = Sandbox::new();
    let url = server.url("x");
    let args = ["-c", "1", "-d", "1s", "--rate", "20", "--timeout", "1h", "--max-errors", "1%", &url];
    let run = bench(&sandbox, &args).run();
    run.succeeds().says(&["planned requests were never sent; --max-errors leaves them out"]);
    let few = ["-c", "1", "-d", "1s", "--rate", "20", "--timeout", "1h", "--max-errors", "100%", &url];
    assert!(!bench(&sandbox, &few).run().stderr.contains("--max-errors"));
}

/// A server that answers so many requests, all over the connection that asks first; from its first answer on
/// it is gone for all others.
fn answers(most: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (first, mut held) = (Arc::new(OnceLock::new()), Vec::new());
        for (number, mut socket) in listener.incoming().flatten().enumerate() {
            held.push(socket.try_clone().unwrap());
            if first.get().is_some() {
                break;
            }
            let first = Arc::clone(&first);
            std::thread::spawn(move || {
                for turn in 0..most {
                    // One that says nothing only looks whether somebody is there.
                    let is_asked = socket.read(&mut [0; 1000]).is_ok_and(|count| count > 0);
                    if !is_asked || *first.get_or_init(|| number) != number {
                        break;
                    }
                    let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    if turn == 0 {
                        // So that the other thread looks.
                        drop(TcpStream::connect(address));
                    }
                }
                drop(socket.shutdown(Shutdown::Both));
            });
        }
        let others = held.iter().enumerate().filter(|(number, _)| Some(number) != first.get());
        others.for_each(|(_, socket)| drop(socket.shutdown(Shutdown::Both)));
    });
    address
}

#[test]
fn no_more_requests_fail_than_are_planned() {
    let sandbox = Sandbox::new();
    let failing = |args: &[&str]| {
        let url = format!("http://{}/", answers(1));
        let run = bench(&sandbox, &["--max-errors", "0", "--json", &url]).args(args).run();
        run.exits(1).json()
    };
    let record = failing(&["-c", "20", "-t", "1", "-d", "2s", "--rate", "20"]);
    assert!(reasons(&record).iter().any(|(name, _)| name == "refused"), "{record}");
    let words: Vec<&str> = record["error"].as_str().unwrap().split_whitespace().collect();
    let [failed, "of", asked, "requests", ..] = words[..] else { panic!("{record}") };
    let (failed, asked): (f64, f64) = (failed.parse().unwrap(), asked.parse().unwrap());
    assert!(failed > 0.0 && asked <= 20.0 * record["seconds"].as_f64().unwrap() + 2.0, "{record}");
    // Of requests that are counted each one has come to something.
    let record = failing(&["-c", "1", "-n", "10", "--rate", "100"]);
    assert!(record["error"].as_str().unwrap().starts_with("9 of 10 requests "), "{record}");
}

/// One connection carries the rate, and the others are refused again and again; a busy machine does not reach
/// the rate each time.
#[test]
fn connections_that_fail_are_no_requests_that_do() {
    wait_for("a rate that was reached", || {
        let url = format!("http://{}/", answers(usize::MAX));
        let args = ["-c", "20", "-t", "1", "-d", "1s", "--rate", "100", "--json", &url];
        let record = bench(&Sandbox::new(), &args).run().json();
        record["verdict"]["limit"] == "rate-limit" && errors(&record)[0] > 10
    });
}

#[test]
fn too_many_errors_are_an_exit_code() {
    let server = wavering();
    let sandbox = Sandbox::new();
    let url = server.url("x");
    let of = |most: &str, more: &[&str]| {
        bench(&sandbox, &["-c", "1", "-n", "20", "--max-errors", most, &url]).args(more).run()
    };
    // 4 of 20 are no HTTP, and 4 say 503.
    for enough in ["40%", "0.4", "1"] {
        of(enough, &[]).succeeds();
    }
    for too_few in ["39%", "0.1", "0"] {
        of(too_few, &[]).fails(1, &["8 of 20 requests to http://", "40.00 %", "4 not HTTP", "4 status 503"]);
    }
    let run = of("0", &["--json"]);
    assert_eq!(run.exits(1).json()["outcome"], "failed");
    of("2", &[]).fails(2, &["expected a share"]);
    let good = Server::start(|_, wire| hello(wire));
    bench(&sandbox, &["-n", "5", "--max-errors", "0", &good.url("x")]).run().succeeds();
}

#[test]
fn many_targets_have_a_report_each() {
    let (good, busy) =
        (Server::start(|_, wire| hello(wire)), Server::start(|_, wire| wire.answer("503 No", &[], b"")));
    let sandbox = Sandbox::new();
    let (first, second) = (good.url("one#part"), busy.url("two"));
    sandbox.write("urls", format!("\u{feff}# ours\r\n{first}  # the first\r\n\r\n{second}\n"));
    let of = |more: &[&str]| bench(&sandbox, &["-c", "1", "-n", "3", "-i", "urls"]).args(more).run();
    let records: Vec<Value> =
        stdout(of(&["--json"]).succeeds()).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> = records.iter().map(|record| record["http"]["statuses"].to_string()).collect();
    assert_eq!(seen, [r#"{"200":3}"#, r#"{"503":3}"#]);
    let csv = stdout(of(&["--format", "csv"]).succeeds());
    assert_eq!(csv.lines().filter(|line| line.starts_with("url,")).count(), 1, "{csv}");
    assert_eq!(csv.lines().count(), 3);
    // One that fails costs itself.
    let free = super::support::net::free_port();
    let gone = format!("http://127.0.0.1:{free}/");
    let run = bench(&sandbox, &["-c", "1", "-n", "3", &gone, &good.url("three")]).run();
    run.fails(1, &["connection refused"]);
    assert!(stdout(&run).contains("/three: 3 requests"), "{}", stdout(&run));
    of(&["--max-errors", "50%"]).fails(1, &["3 of 3 requests", "/two"]);
    // What cannot be asked is said before anything is.
    let before = good.requests().len();
    sandbox.write("wrong", format!("{first}\nnonsense\n"));
    bench(&sandbox, &["-i", "wrong"]).run().fails(2, &["wrong, line 2", "expected http://"]);
    sandbox.write("empty", "# none\n");
    bench(&sandbox, &["-i", "empty"]).run().fails(2, &["names no URL"]);
    of(&["--report", "page.html"]).fails(2, &["--report makes the page of one target"]);
    assert_eq!(good.requests().len(), before);
}

#[test]
fn a_terminal_sees_how_far_it_is() {
    let server = Server::start(|_, wire| {
        std::thread::sleep(Duration::from_millis(5));
        hello(wire)
    });
    let (near, far) = super::support::terminal();
    let url = server.url("x");
    let args = ["bench", "http", "-c", "1", "-d", "1s", &url];
    let mut child = std::process::Command::new(super::WEIR);
    let child = child.args(args).stderr(far).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    let mut seen = vec![0; 1 << 20];
    let count = rustix::io::read(&near, &mut seen).unwrap();
    let seen = String::from_utf8_lossy(&seen[..count]).into_owned();
    assert!(seen.contains(" of 1.0 s: ") && seen.contains(" requests, "), "{seen:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("requests in"), "the report is apart");
    // Without a terminal there is none, nor with -q.
    let run = bench(&Sandbox::new(), &["-c", "1", "-n", "30", &url]).run();
    assert_eq!(run.succeeds().stderr, "");
}
