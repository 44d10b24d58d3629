//! `weir bench host`: figures of hosts that answer, refuse, reset, speak TLS, shrink packets or stay silent,
//! and bad input.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use support::net::in_a_network;
use support::{Run, Sandbox, WEIR, Weir, skip};

fn host(sandbox: &Sandbox, target: impl ToString, args: &[&str]) -> Weir {
    sandbox.weir(WEIR, ["bench", "host"]).args(&[&target.to_string()]).args(args)
}

/// A listener that takes connections and lets `then` have each.
fn listen(then: impl Fn(std::net::TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(then));
    address
}

/// One that holds all it takes.
fn patient() -> SocketAddr {
    let held = std::sync::Mutex::new(Vec::new());
    listen(move |stream| held.lock().unwrap().push(stream))
}

fn figure<'a>(record: &'a Value, name: &str) -> &'a Value {
    let figures = record["host"]["figures"].as_array().unwrap();
    let found: Vec<_> = figures.iter().filter(|figure| figure["name"] == name).collect();
    assert_eq!(found.len(), 1, "{name} in {record}");
    found[0]
}

fn value(record: &Value, name: &str) -> f64 {
    let figure = figure(record, name);
    figure["value"].as_f64().unwrap_or_else(|| panic!("{figure}"))
}

fn missing<'a>(record: &'a Value, name: &str) -> &'a str {
    let figure = figure(record, name);
    figure["missing"].as_str().unwrap_or_else(|| panic!("{figure}"))
}

fn stdout(run: &Run) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
fn a_host_that_takes_connections() {
    let sandbox = Sandbox::new();
    let args = [
        "--only",
        "availability,rtt,connections",
        "--tries",
        "4",
        "--echoes",
        "3",
        "--connections",
        "12",
        "--json",
    ];
    let record = host(&sandbox, patient(), &args).run().succeeds().json();
    assert_eq!((&record["command"], &record["outcome"]), (&"bench".into(), &"complete".into()));
    assert_eq!((value(&record, "availability"), value(&record, "connects-refused")), (1.0, 0.0));
    for name in ["rtt-connect-min", "rtt-connect-median", "rtt-connect-p99", "rtt-handshake-median"] {
        assert!(value(&record, name) > 0.0, "{name}");
    }
    assert_eq!((value(&record, "connections"), value(&record, "connections-kept")), (12.0, 12.0));
    assert!(missing(&record, "resolution-time").contains("no name"));
    for figure in record["host"]["figures"].as_array().unwrap() {
        let told = figure["missing"].is_string() || !figure["origin"].as_str().unwrap().is_empty();
        assert!(told, "neither origin nor reason: {figure}");
    }
}

#[test]
fn refused_reset_and_unresolvable_are_told_apart() {
    let sandbox = Sandbox::new();
    let (_socket, closed) = support::net::refusing();
    let args = ["--only", "availability,rtt,tls,connections", "--tries", "3", "--echoes", "2", "--json"];
    let record = host(&sandbox, closed, &args).run().succeeds().json();
    assert_eq!((value(&record, "availability"), value(&record, "connects-refused")), (0.0, 3.0));
    assert!(figure(&record, "rtt-connect-median")["origin"].as_str().unwrap().contains("refusals"));
    assert!(missing(&record, "tls-full").contains("refused"), "{record}");
    assert_eq!(value(&record, "connections"), 0.0);
    let resetting = listen(|stream| {
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    // A connection is looked at for 50 ms: on a busy machine the program comes too late to some of them.
    let args = ["--only", "availability", "--tries", "20", "--json"];
    let record = host(&sandbox, resetting, &args).run().succeeds().json();
    let reset = value(&record, "connects-reset");
    assert!(reset > 0.0 && (20.0 * value(&record, "availability") + reset - 20.0).abs() < 1e-9, "{record}");
    host(&sandbox, "no-such-host.invalid", &[])
        .run()
        .fails(1, &["cannot resolve no-such-host.invalid: ", "; check the"]);
}

#[test]
fn tls_handshakes_full_and_resumed() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("files")).unwrap();
    let serving = sandbox.serve("files", &["--tls", "--save-cert", "ca.pem"]);
    let address = serving.url("").trim_start_matches("https://").trim_end_matches('/').to_owned();
    let record = host(&sandbox, &address, &["--only", "tls", "--json"]).run().succeeds().json();
    for name in ["tls-full", "tls-full-cpu", "tls-resumed", "tls-resumed-cpu"] {
        assert!(value(&record, name) > 0.0, "{name}: {record}");
    }
    assert!(figure(&record, "tls-agreed")["text"].as_str().unwrap().starts_with("TLSv1_3"));
    let certificate = |record: &Value| figure(record, "tls-certificate")["text"].as_str().unwrap().to_owned();
    assert!(certificate(&record).starts_with("not trusted"), "{record}");
    let trusting = ["--only", "tls", "--cacert", "ca.pem", "--json"];
    let record = host(&sandbox, &address, &trusting).run().succeeds().json();
    assert_eq!(certificate(&record), "trusted");
    // -k accepts it, which does not make it trusted; with its authority it is, -k or not.
    for (flags, expected) in [(&["-k"][..], "not trusted"), (&["-k", "--cacert", "ca.pem"], "trusted")] {
        let run = host(&sandbox, &address, &["--only", "tls", "--json"]).args(flags).run();
        assert_eq!(certificate(&run.succeeds().json()), expected, "{flags:?}");
    }
}

#[test]
fn ports_that_speak_something_else_or_nothing_have_no_tls() {
    let sandbox = Sandbox::new();
    let greeting = listen(|mut stream| {
        let _ = stream.write_all(b"220 some.host ESMTP\r\n");
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let record = host(&sandbox, greeting, &["--only", "tls", "--json"]).run().succeeds().json();
    assert!(missing(&record, "tls-full").contains("does not speak TLS"), "{record}");
    let silent = host(&sandbox, patient(), &["--only", "tls", "--timeout", "1", "--json"]).run();
    assert!(missing(&silent.succeeds().json(), "tls-full").contains("no answer to the ClientHello in 1 s"));
}

#[test]
fn what_nobody_measures_says_why() {
    let sandbox = Sandbox::new();
    let args = ["--only", "load,throughput,pps", "--timeout", "1", "--json"];
    let record = host(&sandbox, patient(), &args).run().succeeds().json();
    assert!(missing(&record, "rtt-loaded").contains("--load URL"));
    assert!(missing(&record, "tcp-up").contains("5201"), "{record}");
    assert!(figure(&record, "packets-per-second")["unit"] == "packets/s");
    let run = host(&sandbox, patient(), &["--only", "load"]).run();
    assert!(stdout(run.succeeds()).contains("not measured: no load to put on it"), "{}", stdout(&run));
}

#[test]
fn a_load_that_moves_nothing_is_none() {
    let sandbox = Sandbox::new();
    let url = format!("http://{}/", patient());
    let args = ["--only", "load", "--load", &url, "--json"];
    let record = host(&sandbox, patient(), &args).run().succeeds().json();
    let why = missing(&record, "rtt-loaded");
    assert!(why.starts_with("download of ") && why.contains(" moved nothing within "), "{record}");
}

/// What the documentation lists.
const FIGURES: [&str; 48] = [
    "resolution-time",
    "availability",
    "connects-refused",
    "connects-reset",
    "connects-timed-out",
    "connects-failed",
    "rtt-connect-min",
    "rtt-connect-median",
    "rtt-connect-p99",
    "rtt-connect-jitter",
    "rtt-handshake-min",
    "rtt-handshake-median",
    "rtt-handshake-p99",
    "rtt-handshake-jitter",
    "rtt-echo-min",
    "rtt-echo-median",
    "rtt-echo-p99",
    "rtt-echo-jitter",
    "loss",
    "echo-duplicates",
    "path-mtu",
    "first-hop-mtu",
    "path-mtu-udp",
    "tcp-path-mtu",
    "mss",
    "congestion-control",
    "tls-full",
    "tls-full-cpu",
    "tls-resumed",
    "tls-resumed-cpu",
    "tls-agreed",
    "tls-certificate",
    "connections",
    "connections-kept",
    "rtt-idle",
    "rtt-loaded",
    "rtt-loaded-p99",
    "bufferbloat",
    "load-rate",
    "tcp-up",
    "tcp-up-retransmitted",
    "tcp-down",
    "tcp-down-retransmitted",
    "udp-up",
    "udp-up-lost",
    "udp-down",
    "udp-down-lost",
    "packets-per-second",
];

/// Each figure once, with a unit and an origin or with a reason.
fn all_are_told(record: &Value) {
    for name in FIGURES {
        let figure = figure(record, name);
        let taken = figure["value"].is_number() && figure["unit"] != "" || figure["text"].is_string();
        let because = figure["missing"].as_str().is_some_and(|why| !why.is_empty() && why != "not taken");
        assert!(because || taken && figure["origin"] != "", "neither origin nor reason: {figure}");
    }
}

#[test]
fn every_figure_is_taken_or_says_why() {
    let sandbox = Sandbox::new();
    let few = ["--tries", "3", "--echoes", "3", "--connections", "5", "--timeout", "1", "--json"];
    all_are_told(&host(&sandbox, patient(), &few).run().succeeds().json());
    let (_socket, closed) = support::net::refusing();
    all_are_told(&host(&sandbox, closed, &few).run().succeeds().json());
}

#[test]
fn a_port_that_closes_meanwhile_is_told_from_one_that_was_closed() {
    let sandbox = Sandbox::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let held = std::thread::spawn(move || [listener.accept().unwrap(), listener.accept().unwrap()]);
    // Over a second, in which the program closes its port on a busy machine too.
    let args = ["--only", "availability,rtt,connections,tls", "--tries", "20", "--echoes", "1", "--json"];
    let record = host(&sandbox, address, &args).run().succeeds().json();
    drop(held.join().unwrap());
    let taken = 20.0 * value(&record, "availability");
    // Refused, or taken by the closing kernel and reset.
    let not_taken = value(&record, "connects-refused") + value(&record, "connects-reset");
    assert!(taken > 1.9 && not_taken > 0.0 && (taken + not_taken - 20.0).abs() < 1e-9, "{record}");
    assert_eq!(value(&record, "connections"), 0.0);
    assert!(missing(&record, "tls-agreed").contains("refused"), "{record}");
}

#[test]
fn an_interrupt_gives_what_there_is() {
    let sandbox = Sandbox::new();
    let (came, comes) = std::sync::mpsc::channel();
    let address = listen(move |stream| drop(came.send(stream)));
    let weir = host(&sandbox, address, &["--only", "availability,connections", "--tries", "1000", "--json"]);
    let running = weir.spawn();
    // The first part has begun once it connects, and its thousand tries outlast a signal.
    let _held = comes.recv_timeout(support::TIMEOUT).expect("no try within the patience");
    running.signal(Signal::INT);
    let run = running.wait();
    let record = run.exits(130).json();
    assert_eq!(record["outcome"], "partial");
    assert_eq!(record["host"]["left_out"], serde_json::json!(["connections"]));
}

#[test]
fn bad_words() {
    let sandbox = Sandbox::new();
    let cases: &[(&[&str], &[&str])] = &[
        (&["http://h/"], &["invalid host", "expected HOST or HOST:PORT"]),
        (&["h:0"], &["invalid host"]),
        (&["h", "--only", "speed"], &["'speed'", "availability"]),
        (&["h", "--tries", "0"], &["--tries"]),
        (&["h", "--connections", "99999"], &["--connections"]),
        (&["h", "--load", "ftp://h/x"], &["--load", "http"]),
        (&["h", "-4", "-6"], &["--ipv6"]),
        (&[], &["HOST"]),
    ];
    for (args, says) in cases {
        sandbox.weir(WEIR, ["bench", "host"]).args(args).run().fails(2, says);
    }
    let run = sandbox.weir(WEIR, ["bench", "host", "127.0.0.1", "-6"]).run();
    run.fails(1, &["127.0.0.1 has no IPv6 address"]);
}

/// `weir lab shell FLAGS -- sh -c SCRIPT`, where WEIR is this binary; `None` where no lab can be made.
fn in_lab(sandbox: &Sandbox, flags: &[&str], script: &str) -> Option<Value> {
    let probe = sandbox.weir(WEIR, ["lab", "shell", "--", "true"]).run();
    let ip = std::process::Command::new("ip").arg("-V").stdout(Stdio::null()).status();
    if !probe.status.success() || ip.is_err() {
        skip(if ip.is_err() { "ip is not installed" } else { &probe.stderr });
        return None;
    }
    let lab = sandbox.weir(WEIR, ["lab", "shell"]).args(flags).args(&["--", "sh", "-c", script]);
    Some(lab.env("WEIR", WEIR).run().succeeds().json())
}

#[test]
fn a_paths_mtu_is_found_with_the_segment_size() {
    let sandbox = Sandbox::new();
    let script =
        "ip link set weir0 mtu 1400 && $WEIR bench host ${WEIR_LAB_URL#http://} --only mtu,loss --json";
    let Some(record) = in_lab(&sandbox, &["--delay", "5ms"], script) else { return };
    assert_eq!((value(&record, "path-mtu"), value(&record, "first-hop-mtu")), (1400.0, 1400.0));
    assert!(value(&record, "mss") <= 1360.0);
    assert_eq!(value(&record, "loss"), 0.0);
}

/// Runs `script` beside a host 10.78.1.2 two hops away, behind a router 10.78.0.2 whose far link carries 1300
/// bytes. `there` and `between` run a command at the host and at the router. `None` where no such namespaces
/// can be made.
fn behind_a_router(sandbox: &Sandbox, script: &str) -> Option<Run> {
    const MAKE: &str = r#"set -e
        unshare -n sleep 1000 & far=$!
        unshare -n sleep 1000 & router=$!
        trap 'kill $far $router 2>/dev/null' EXIT
        for pid in $far $router; do
            until [ "$(readlink /proc/$pid/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
        done
        there() { nsenter -t $far -n "$@"; }
        between() { nsenter -t $router -n "$@"; }
        ip link add near type veth peer name inner netns $router
        between ip link add outer type veth peer name far netns $far
        ip addr add 10.78.0.1/24 dev near; ip link set near up; ip link set lo up; ip route add 10.78.1.0/24 via 10.78.0.2
        between ip addr add 10.78.0.2/24 dev inner; between ip addr add 10.78.1.1/24 dev outer
        between ip link set inner up; between ip link set outer mtu 1300 up
        between sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
        there ip addr add 10.78.1.2/24 dev far; there ip link set far mtu 1300 up; there ip route add default via 10.78.1.1
    "#;
    in_a_network(sandbox, &format!("{MAKE}\n{script}"))
}

#[test]
fn datagrams_find_a_paths_mtu_where_echoes_cannot() {
    let sandbox = Sandbox::new();
    let script = r#"there sh -c 'echo 1 > /proc/sys/net/ipv4/icmp_echo_ignore_all'
        "$WEIR" bench host 10.78.1.2:80 --only mtu --timeout 1 --json"#;
    let Some(run) = behind_a_router(&sandbox, script) else { return };
    let record = run.succeeds().json();
    assert_eq!((value(&record, "path-mtu-udp"), value(&record, "first-hop-mtu")), (1300.0, 1500.0));
    let origin = figure(&record, "path-mtu-udp")["origin"].as_str().unwrap();
    assert!(origin.contains("10.78.0.2 said of larger ones"), "{origin}");
    assert_eq!(value(&record, "path-mtu"), 1300.0);
    let origin = figure(&record, "path-mtu")["origin"].as_str().unwrap();
    assert!(origin.contains("not by echo: the host answers no ICMP echo"), "{origin}");
}

#[test]
fn a_black_hole_is_cornered_and_a_silent_port_said() {
    let sandbox = Sandbox::new();
    // The router drops what is too large for it and, as too many do, its own word about it.
    let script = r#"between nft 'table ip weir { chain out { type filter hook output priority 0; icmp type destination-unreachable drop; }; }' || exit 77
        there ip link set far mtu 1500; between ip link set outer mtu 1500
        between nft 'add chain ip weir on { type filter hook forward priority 0; }'
        between nft 'add rule ip weir on ip length > 1450 drop'
        "$WEIR" bench host 10.78.1.2:80 --only mtu --timeout 1 --json
        there nft 'table ip weir { chain out { type filter hook output priority 0; icmp type destination-unreachable drop; }; }'
        "$WEIR" bench host 10.78.1.2:80 --only mtu --timeout 1 --json"#;
    let Some(run) = behind_a_router(&sandbox, script) else { return };
    if run.status.code() == Some(77) {
        return skip("no nft");
    }
    let text = stdout(run.succeeds());
    let records: Vec<Value> =
        serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect();
    for name in ["path-mtu", "path-mtu-udp"] {
        assert_eq!(value(&records[0], name), 1450.0, "{name}");
        let origin = figure(&records[0], name)["origin"].as_str().unwrap();
        assert!(origin.contains("a black hole"), "{origin}");
    }
    assert!(missing(&records[1], "path-mtu-udp").contains("it may drop such datagrams"), "{}", records[1]);
}

#[test]
fn a_host_that_says_nothing_is_given_up_and_said() {
    let sandbox = Sandbox::new();
    // Nobody has this address beyond the lab's far end. The script succeeds when the exit code is 1.
    let script = "ip route add 10.9.9.9/32 dev weir0 && { $WEIR bench host 10.9.9.9:80 \
                  --only availability,rtt,loss,mtu --echoes 3 --timeout 0.2 --json; test $? = 1; }";
    let Some(record) = in_lab(&sandbox, &[], script) else { return };
    assert_eq!(record["outcome"], "failed");
    assert_eq!(value(&record, "availability"), 0.0);
    assert!(missing(&record, "rtt-connect-median").contains("no connect was answered"));
    for name in ["rtt-echo-median", "loss", "path-mtu"] {
        assert!(missing(&record, name).contains("echo"), "{record}");
    }
}

#[test]
fn a_queue_that_is_too_long_is_seen_under_load() {
    let sandbox = Sandbox::new();
    // 250 KB in front of 20 Mbit/s: a tenth of a second, which cubic fills and bbr would not.
    let flags = ["--rate", "20Mbit", "--delay", "5ms", "--queue", "250k", "--cc", "cubic"];
    let script = "$WEIR bench host ${WEIR_LAB_URL#http://} --only rtt,load --tries 3 --echoes 3 --load $WEIR_LAB_URL/100M --json";
    let Some(record) = in_lab(&sandbox, &flags, script) else { return };
    // Never less than the path's delay, and under load the queue on top of it.
    assert!(value(&record, "rtt-idle") >= 0.010, "{record}");
    assert!(value(&record, "rtt-loaded") > value(&record, "rtt-idle") + 0.020, "{record}");
    // 2.5 MB/s, and what an emulator that was kept from running catches up with.
    assert!(value(&record, "load-rate") <= 3e6, "{record}");
}

#[test]
fn what_the_path_carries_is_measured_where_somebody_serves() {
    let sandbox = Sandbox::new();
    // 5201 = 0x1451 listens (state 0A).
    let script = "$WEIR bench net -s >&2 & server=$!
        until grep -q ':1451 [0-9A-F:]* 0A' /proc/net/tcp; do :; done
        $WEIR bench host 127.0.0.1:5201 --only load,throughput --json; code=$?
        kill $server; exit $code";
    let Some(record) = in_lab(&sandbox, &["--delay", "1ms"], script) else { return };
    for name in ["tcp-up", "tcp-down", "udp-up", "udp-down"] {
        assert!(value(&record, name) > 1e6, "{name}: {record}");
    }
    // Without a URL the same server is the load.
    for name in ["rtt-idle", "rtt-loaded", "load-rate"] {
        assert!(value(&record, name) > 0.0, "{name}: {record}");
    }
    for name in ["tcp-up-retransmitted", "tcp-down-retransmitted", "udp-up-lost", "udp-down-lost"] {
        assert!((0.0..=1.0).contains(&value(&record, name)), "{name}: {record}");
    }
}
