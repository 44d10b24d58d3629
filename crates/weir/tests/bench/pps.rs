//! `weir bench pps`: both ends on one machine and two processes, lossy paths, liars, and bad input.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::net::in_a_network;
use support::{Run, Sandbox, WEIR, Weir, skip};
use weir_bench::pps::control::{Counted, Message};
use weir_bench::pps::ledger::Counts;

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
        Counting::spawn(sandbox.weir(WEIR, ["bench", "pps", "-s", "--listen", "127.0.0.1:0"]).args(args))
    }

    fn spawn(mut weir: Weir) -> Counting {
        let mut child = weir.command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
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
        &["is not weir bench pps -s"],
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
    let refusing = scripted(|stream| {
        greet(stream)?;
        stream.write_all(&Message::Refused("\x1b[2Jbusy".to_owned()).encode())?;
        hear(stream).map(drop)
    });
    // In its words, which do not reach the terminal's controls.
    fails(refusing, &["the remote end refused: \\u{1b}[2Jbusy"]);
    let record = pps(&sandbox, &[&refusing.to_string(), "--json"]).run();
    record.fails(1, &["\\u{1b}[2Jbusy"]);
}

#[test]
fn a_server_without_threads_refuses_and_goes_on() {
    let sandbox = Sandbox::new();
    // The threads of a user count, so this one is nobody else.
    let Some(server) = as_user(&sandbox, 54_321, WEIR, &["bench", "pps", "-s", "--listen", "127.0.0.1:0"])
    else {
        return;
    };
    let counting = Counting::spawn(server);
    let limit = |most: u32| {
        let args = ["--pid".to_owned(), counting.child.id().to_string(), format!("--nproc={most}:")];
        as_user(&sandbox, 54_321, "prlimit", &args.each_ref().map(String::as_str)).unwrap().run().succeeds();
    };
    let args = [&counting.address, "--for", "20ms", "--rate", "1000", "--method", "plain"];
    limit(1);
    pps(&sandbox, &args).run().fails(1, &["the remote end refused: cannot start a thread: "]);
    limit(2);
    pps(&sandbox, &args).run().fails(1, &["the remote end refused: cannot start 1 receiving threads: "]);
    limit(1000);
    pps(&sandbox, &args).run().succeeds();
}

#[test]
fn a_client_without_threads_says_so() {
    let sandbox = Sandbox::new();
    let counting = Counting::start(&sandbox, &[]);
    let args = ["--nproc=3", WEIR, "bench", "pps", &counting.address, "-t", "8", "--method", "plain"];
    let Some(client) = as_user(&sandbox, 54_322, "prlimit", &args) else { return };
    client.run().fails(1, &["cannot start the sending threads: "]);
}

#[test]
fn a_client_too_many_is_told_so() {
    let sandbox = Sandbox::new();
    let counting = Counting::start(&sandbox, &[]);
    let connect = |_| TcpStream::connect(&counting.address).unwrap();
    let _places: Vec<_> = (0..4).map(connect).collect();
    let run = pps(&sandbox, &[&counting.address, "--for", "20ms"]).run();
    run.fails(1, &["the remote end refused: enough clients are there already"]);
}

/// A command by a user of this number; `None` where this test cannot be somebody else.
fn as_user(sandbox: &Sandbox, user: u32, program: &str, args: &[&str]) -> Option<Weir> {
    if !rustix::process::geteuid().is_root() {
        skip("it takes root to be a user who may have few threads");
        return None;
    }
    let mut version = sandbox.weir(WEIR, ["--version"]).command;
    if !version.uid(user).gid(user).status().is_ok_and(|status| status.success()) {
        skip("root cannot run the binary as another user here");
        return None;
    }
    let mut weir = sandbox.weir(program, args);
    weir.command.uid(user).gid(user);
    Some(weir)
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
    let (_socket, closed) = support::net::refusing();
    pps(&sandbox, &[&closed.to_string()])
        .run()
        .fails(1, &["cannot connect to", "connection refused", "weir bench pps -s"]);
    pps(&sandbox, &["no-such-host.invalid"])
        .run()
        .fails(1, &["cannot resolve no-such-host.invalid: ", "; check the"]);
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

/// Runs `script` in a namespace with an Ethernet interface `near` (10.77.0.1, fd77::1) whose other end, `far`
/// (10.77.0.2, fd77::2), is in a namespace of its own, where `weir bench pps -s` listens. Only where such
/// namespaces can be made.
fn beside_a_far_end(sandbox: &Sandbox, script: &str) -> Option<Run> {
    const MAKE: &str = r#"set -e
        unshare -n sleep 1000 & far=$!
        trap 'kill $far $server 2>/dev/null' EXIT
        until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
        there() { nsenter -t $far -n "$@"; }
        ip link add near type veth peer name far netns $far
        there ip addr add 10.77.0.2/24 dev far; there ip addr add fd77::2/64 dev far nodad; there ip link set far up
        ip addr add 10.77.0.1/24 dev near; ip addr add fd77::1/64 dev near nodad; ip link set near up; ip link set lo up
        nsenter -t $far -n "$WEIR" bench pps -s --listen [::]:5209 >&2 & server=$!
        until there grep -q ':1459 [0-9A-F:]* 0A' /proc/net/tcp6; do :; done
    "#;
    in_a_network(sandbox, &format!("{MAKE}\n{script}"))
}

#[test]
fn whole_frames_through_a_packet_socket() {
    let sandbox = Sandbox::new();
    let script = r#""$WEIR" bench pps 10.77.0.2 --via packet --size 64,512,1518 --for 50ms -t 2 --json"#;
    let Some(run) = beside_a_far_end(&sandbox, script) else { return };
    let record = run.succeeds().json();
    let frames: Vec<_> = rows(&record).iter().map(|row| (row["frame"].as_u64(), &row["method"])).collect();
    assert_eq!(frames, [64, 512, 1518].map(|frame| (Some(frame), &rows(&record)[0]["method"])));
    assert_eq!(rows(&record)[0]["method"], "packet");
    rows(&record).iter().for_each(adds_up);
    // Over IPv6, at a rate that any host keeps, all come: the headers and checksums are right.
    let script = r#""$WEIR" bench pps fd77::2 --via packet --size 100 --rate 2k --for 200ms --json"#;
    let record = beside_a_far_end(&sandbox, script).unwrap().succeeds().json();
    adds_up(&rows(&record)[0]);
    assert_eq!((rows(&record)[0]["loss"].as_f64(), &rows(&record)[0]["duplicates"]), (Some(0.0), &0.into()));
}

#[test]
fn what_frames_lose_is_counted_and_the_search_finds_a_rate_without() {
    let sandbox = Sandbox::new();
    // The far host's firewall lets 200 packets a second through, and twenty at once: what a busy machine
    // sends is more, too.
    let police = "there nft 'table inet weir { chain in { type filter hook input priority 0; udp dport != 0 limit rate over 200/second burst 20 packets drop; }; }'";
    let script = format!(
        r#"({police}) 2>&1 || exit 77
        "$WEIR" bench pps 10.77.0.2 --via packet --size 250 --rate 20k --for 300ms --json \
            --zero-loss --trial 300ms --resolution 20%"#
    );
    let Some(run) = beside_a_far_end(&sandbox, &script) else { return };
    if run.status.code() == Some(77) {
        return skip(&stdout(&run));
    }
    let record = run.succeeds().json();
    let row = &rows(&record)[0];
    adds_up(row);
    let number = |name: &str| row[name].as_f64().unwrap();
    // Over the time of sending or, where they came for longer, of coming; the burst once more for what came
    // between the two ends' clocks.
    let most = 200.0 * number("received") / number("received_rate") + 2.0 * 20.0;
    assert!(number("received") <= most && number("loss") > 0.0, "{most}: {row}");
    let search = &row["zero_loss"];
    assert_eq!(
        (&search["trials"][0]["passed"], search["rate"].as_f64().unwrap() < 10_000.0),
        (&false.into(), true)
    );
}

#[test]
fn where_no_frames_can_be_sent_it_says_so() {
    let sandbox = Sandbox::new();
    let counting = Counting::start(&sandbox, &[]);
    let run = pps(&sandbox, &[&counting.address, "--via", "packet"]).run();
    run.fails(1, &["cannot send frames of our own: lo leads back to this machine", "--via udp"]);
    pps(&sandbox, &[&counting.address, "--via", "packet", "--method", "gso"])
        .run()
        .fails(2, &["--method gso"]);
    let script =
        r#"setpriv --bounding-set -net_raw --inh-caps -net_raw "$WEIR" bench pps 10.77.0.2 --via packet"#;
    let Some(run) = beside_a_far_end(&sandbox, script) else { return };
    run.fails(1, &["cannot open a packet socket: not permitted", "CAP_NET_RAW"]);
}
