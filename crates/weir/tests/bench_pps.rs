//! `weir bench pps`: both ends on one machine and two processes, lossy paths, liars, and bad input.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Run, Sandbox, WEIR, Weir};
use weir_probe::pps::control::{Counted, Message};
use weir_probe::pps::ledger::Counts;

fn pps(sandbox: &Sandbox, args: &[&str]) -> Weir {
    sandbox.weir(WEIR, ["bench", "pps"]).args(args)
}

fn stdout(run: &Run) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

/// A running `weir bench pps -s` on a free port.
struct Counting {
    child: Child,
    address: String,
}

impl Counting {
    fn start(sandbox: &Sandbox, args: &[&str]) -> Counting {
        let mut command = sandbox.weir(WEIR, ["bench", "pps", "-s", "--listen", "127.0.0.1:0"]).command;
        let mut child = command.args(args).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_whitespace().next_back().unwrap_or_default().to_owned();
        assert!(line.starts_with("counting packets at 127.0.0.1:"), "{line:?}");
        Counting { child, address }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rows(record: &Value) -> &Vec<Value> {
    record["pps"]["rows"].as_array().unwrap()
}

/// What holds of every run.
fn adds_up(row: &Value) {
    let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row}"));
    assert!(number("received") <= number("sent") && number("received") > 0.0, "{row}");
    let loss = 1.0 - number("received") / number("sent");
    assert!((number("loss") - loss).abs() < 1e-9, "{row}");
    assert!(row["verdict"]["limit"].is_string() && row["verdict"]["evidence"][0].is_string(), "{row}");
}

#[test]
fn both_methods_and_several_sizes_on_this_machine() {
    let sandbox = Sandbox::new();
    let record = pps(&sandbox, &["--size", "64,1518", "--for", "50ms", "--json"]).run().succeeds().json();
    assert_eq!((&record["schema"], &record["command"]), (&"weir.run/1".into(), &"bench".into()));
    let kinds: Vec<_> = rows(&record)
        .iter()
        .map(|row| (row["frame"].as_u64(), row["payload"].as_u64(), row["method"].as_str()))
        .collect();
    let expected = [(64, 18, "plain"), (64, 18, "gso"), (1518, 1472, "plain"), (1518, 1472, "gso")];
    assert_eq!(kinds, expected.map(|(frame, payload, method)| (Some(frame), Some(payload), Some(method))));
    rows(&record).iter().filter(|row| row["missing"].is_null()).for_each(adds_up);
}

#[test]
fn a_rate_that_is_kept_is_the_limit() {
    let sandbox = Sandbox::new();
    let counting = Counting::start(&sandbox, &[]);
    let args =
        [&counting.address, "--rate", "1000", "--for", "300ms", "--method", "plain", "-t", "2", "--json"];
    let record = pps(&sandbox, &args).run().succeeds().json();
    let row = &rows(&record)[0];
    adds_up(row);
    // Never more than asked for: 300 packets, and a first one of each thread at time zero.
    assert!(row["sent"].as_u64().unwrap() <= 302, "{row}");
    assert_eq!(record["pps"]["threads"], 2);
}

#[test]
fn the_search_ends_with_a_rate_or_says_that_none_passed() {
    let sandbox = Sandbox::new();
    let args = [
        "--rate",
        "20k",
        "--for",
        "50ms",
        "--zero-loss",
        "--trial",
        "50ms",
        "--resolution",
        "10%",
        "--tolerance",
        "100%",
    ];
    let record =
        pps(&sandbox, &[&args[..], &["--method", "plain", "--json"]].concat()).run().succeeds().json();
    let search = &rows(&record)[0]["zero_loss"];
    assert!(search["rate"].as_f64().unwrap() <= 20_000.0, "{search}");
    assert_eq!(search["trials"][0]["passed"], true);
}

#[test]
fn one_off_ends_after_one_client_and_an_interrupt_ends_the_other() {
    let sandbox = Sandbox::new();
    let mut counting = Counting::start(&sandbox, &["--one-off"]);
    pps(&sandbox, &[&counting.address, "--for", "20ms"]).run().succeeds();
    assert_eq!(counting.child.wait().unwrap().code(), Some(0));
    let mut counting = Counting::start(&sandbox, &[]);
    kill_process(Pid::from_child(&counting.child), Signal::TERM).unwrap();
    assert_eq!(counting.child.wait().unwrap().code(), Some(0));
}

/// A far end that greets, then plays its part; `play` has each connection.
fn scripted(play: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = play(&mut stream);
        }
    });
    address
}

fn greet(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"weir-pps\x01")?;
    stream.read_exact(&mut [0; 9])
}

fn hear(stream: &mut TcpStream) -> std::io::Result<Message> {
    let mut head = [0; 3];
    stream.read_exact(&mut head)?;
    let mut body = vec![0; u16::from_be_bytes([head[1], head[2]]).into()];
    stream.read_exact(&mut body)?;
    Message::parse(head[0], &body).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

#[test]
fn lying_and_dying_far_ends_are_errors() {
    let sandbox = Sandbox::new();
    let fails = |address: SocketAddr, says: &[&str]| {
        pps(&sandbox, &[&address.to_string(), "--for", "20ms", "--method", "plain"]).run().fails(1, says);
    };
    fails(
        scripted(|stream| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
        &["is no weir bench pps -s"],
    );
    fails(scripted(|stream| stream.write_all(b"weir-pps\x09")), &["speaks version 9", "upgrade one of them"]);
    // Closed or reset, as the packets cross.
    fails(scripted(|_| Ok(())), &["lost 127.0.0.1"]);
    fails(
        scripted(|stream| {
            greet(stream)?;
            stream.write_all(&[2, 0xff, 0xff])
        }),
        &["not in the protocol"],
    );
    fails(
        scripted(|stream| {
            greet(stream)?;
            hear(stream)?;
            stream.write_all(&Message::Ready { token: 1, gro: false, buffer: 1, ports: vec![9; 5] }.encode())
        }),
        &["does not come next"],
    );
    fails(
        scripted(|stream| {
            greet(stream)?;
            stream.write_all(&Message::Refused("\x1b[2Jbusy".to_owned()).encode())?;
            hear(stream).map(drop)
        }),
        &["the far end refused", "busy"],
    );
}

#[test]
fn a_far_end_that_counts_more_than_was_sent_is_not_believed() {
    let sandbox = Sandbox::new();
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = receiver.local_addr().unwrap().port();
    let liar = scripted(move |stream| {
        greet(stream)?;
        hear(stream)?;
        stream.write_all(&Message::Ready { token: 1, gro: false, buffer: 1, ports: vec![port] }.encode())?;
        hear(stream)?;
        stream.write_all(&Message::Started.encode())?;
        hear(stream)?;
        let counts = Counts { received: u64::MAX, ..Counts::default() };
        stream.write_all(&Message::Counted(Counted { counts, ..Counted::default() }).encode())
    });
    let run =
        pps(&sandbox, &[&liar.to_string(), "--for", "20ms", "--rate", "1000", "--method", "plain"]).run();
    run.fails(1, &["counted 18446744073709551615 packets of"]);
}

#[test]
fn clients_that_speak_nonsense_leave_the_server_standing() {
    let sandbox = Sandbox::new();
    let counting = Counting::start(&sandbox, &[]);
    let words: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"weir-pps\x07",
        b"weir-pps\x01\x01\x00\x06\x00\x00\x00\x00\x00\x00",
        b"weir-pps\x01\x01\x00\x06\xff\x01\xff\xff\xff\xff",
        b"weir-pps\x01\x06\x00\x0a0123456789",
        b"weir-pps\x01\x01\x00\x06\x01\x00\x00\x00\x00\x00\x04\x00\x06\x00\x01\xff\xff\xff\xff",
    ];
    for words in words {
        let mut stream = TcpStream::connect(&counting.address).unwrap();
        stream.write_all(words).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // Whatever it says to that, it ends the conversation.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    pps(&sandbox, &[&counting.address, "--for", "20ms", "--rate", "1000"]).run().succeeds();
}

#[test]
fn bad_words() {
    let sandbox = Sandbox::new();
    let cases: &[(&[&str], &[&str])] = &[
        // The smallest over IPv4 that has room for the mark; Ethernet would pad it to 64.
        (&["--size", "61"], &["a frame of 61 bytes", "from 62"]),
        (&["--size", "1519"], &["--size"]),
        (&["--payload", "15"], &["a payload of 15 bytes"]),
        (&["--payload", "64", "--size", "64"], &["--size"]),
        (&["--rate", "fast"], &["--rate", "100k"]),
        (&["--threads", "0"], &["--threads"]),
        (&["--for", "1h"], &["--for"]),
        (&["--trial", "1s"], &["--zero-loss"]),
        (&["--listen", "127.0.0.1:0"], &["--server"]),
        (&["-s", "host"], &["--server"]),
        (&["--method", "magic"], &["plain", "gso"]),
    ];
    for (args, says) in cases {
        pps(&sandbox, args).run().fails(2, says);
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    pps(&sandbox, &[&closed])
        .run()
        .fails(1, &["cannot connect to", "connection refused", "weir bench pps -s"]);
    pps(&sandbox, &["no-such-host.invalid"]).run().fails(1, &["cannot resolve no-such-host.invalid"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    pps(&sandbox, &["-s", "--listen", &address]).run().fails(1, &["cannot listen at", "in use"]);
}

#[test]
fn people_see_a_table() {
    let sandbox = Sandbox::new();
    let run = pps(&sandbox, &["--for", "20ms", "--payload", "64"]).run();
    let text = stdout(run.succeeds());
    for part in ["frame", "payload", "plain", "gso", "held by", "110      64"] {
        assert!(text.contains(part), "no '{part}' in:\n{text}");
    }
    assert!(stdout(pps(&sandbox, &["--for", "20ms", "-q"]).run().succeeds()).is_empty());
}
