//! A firewall between the hosts: the data find another way, and the report says which and what it costs. And
//! strangers at the port for the data, who keep nobody out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use support::net::free_port;
use support::{MIB, Sandbox, Special, Sshd, pattern, skip};

/// In a network of its own, where connections to these ports are swallowed. The far end takes the first port
/// of a range, the near one the next.
fn behind(ports: &str) -> Option<Sshd> {
    if std::process::Command::new("nft").arg("--version").output().is_err() {
        skip("no nft on this machine; apt-get install nftables");
        return None;
    }
    let script = format!(
        "ip link set lo up; nft add table ip t; nft 'add chain ip t in {{ type filter hook input priority 0; }}'; \
         nft add rule ip t in tcp dport {ports} drop"
    );
    Sshd::special(Special { within: Some(("-n", &script)), ..Special::default() })
}

fn ways(sshd: &Sshd, flags: &[&str]) -> (serde_json::Value, String) {
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(5 * MIB, 1));
    let far = format!("far:{}", sandbox.path("b").display());
    let copy = |more: &[&str]| sshd.cp(&sandbox, &["--port-range", "5000-5001"]).args(flags).args(more).run();
    let record = copy(&["--json", "a", &far]).succeeds().json();
    assert!(sandbox.read("a") == sandbox.read("b"));
    let far = format!("far:{}", sandbox.path("a").display());
    let back = copy(&[&far, "c"]);
    back.succeeds();
    assert!(sandbox.read("a") == sandbox.read("c"));
    (record, back.stderr)
}

#[test]
fn no_connection_to_it_and_one_from_it() {
    let Some(sshd) = behind("5000") else { return };
    let (record, _) = ways(&sshd, &["-c", "2"]);
    assert_eq!(record["cp"]["transport"], "tcp-back");
    assert!(record["cp"]["tried"][0].as_str().unwrap().starts_with("to it: "), "{record}");
    assert_eq!(record["cp"]["lanes"], 2, "as many as were asked for, as the other way");
}

#[test]
fn no_connection_either_way() {
    let Some(sshd) = behind("5000-5001") else { return };
    let (record, said) = ways(&sshd, &[]);
    assert_eq!(record["cp"]["transport"], "ssh");
    // Whose connection that is, and so what held it, is not weir's to know.
    assert!(record["verdict"]["limit"].is_null(), "{record}");
    for (at, text) in ["to it: ", "from it: "].into_iter().enumerate() {
        assert!(record["cp"]["tried"][at].as_str().unwrap().starts_with(text), "{record}");
    }
    for text in ["the data went inside ssh", "to it: ", "from it: ", "one processor encrypts at each end"] {
        assert!(said.contains(text), "did not say '{text}': {said}");
    }
    let sandbox = Sandbox::new();
    sandbox.write("a", "text");
    let run = sshd.cp(&sandbox, &["--port-range", "5000-5001", "--transport", "tcp", "a", "far:b"]).run();
    run.fails(1, &["no data connection to far", "to it: ", "from it: ", "--port-range", "--transport ssh"]);
}

/// Breaks what carries data until the copy, the process `$COPY`, is over: connections of which one has
/// brought a block to the other end, so that each break meets a lane, and something arrives between two. A
/// process that has ended has no `exe`.
const BREAKER: &str = r#"
PATH=$PATH:/usr/sbin:/sbin
carries() {
    ss -Htin state established 'dport = :5000' |
        awk -F bytes_acked: 'NF > 1 && $2 + 0 > 1200000 { found = 1 } END { exit !found }'
}
for i in $(seq 24); do
    until carries; do [ -e /proc/$COPY/exe ] || exit 0; sleep 0.02; done
    nft add rule ip t in tcp dport 5000 reject with tcp reset || exit 1
    while carries && [ -e /proc/$COPY/exe ]; do sleep 0.02; done
    nft flush chain ip t in || exit 1
done
"#;

/// Connections that are reset more often than a hopeless network would be given up after: as long as
/// something arrives between two breaks, it goes on.
#[test]
fn a_network_that_breaks_again_and_again() {
    let Some(sshd) = behind("5999") else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(48 * MIB, 1));
    let to = format!("far:{}", sandbox.path("b").display());
    let args = ["--port-range", "5000-5001", "--limit-rate", "5Mi", "--codec", "none", "a", &to];
    let running = sshd.cp(&sandbox, &args).spawn();
    let breaker = sandbox.weir("nsenter", ["-t", &sshd.pid().to_string(), "-n", "bash", "-c", BREAKER]);
    let breaker = breaker.env("COPY", running.id().to_string()).run();
    let run = running.wait();
    breaker.succeeds();
    run.succeeds();
    assert!(sandbox.read("a") == sandbox.read("b"));
    // What repeats itself is counted: "… 17 more like this: lane 10 broke: ...".
    let of_line =
        |line: &str| match line.split_once("… ").and_then(|(_, rest)| rest.split_once(" more like this")) {
            Some((count, _)) => count.replace(',', "").parse().unwrap(),
            None => 1,
        };
    let broke: usize = run.stderr.lines().filter(|line| line.contains("broke: ")).map(of_line).sum();
    assert!(broke > 8, "only {broke} lanes broke: {}", run.stderr);
}

/// Silent connections, more than there are places for and always new ones, from before the port is open until
/// the copy is over.
#[test]
fn strangers_who_keep_connecting_push_no_copy_into_ssh() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(8 * MIB, 1));
    for far_listens in [true, false] {
        let port = free_port();
        let over = AtomicBool::new(false);
        let (ports, far) = (format!("{port}-{port}"), format!("far:{}", sandbox.path("b").display()));
        let from = format!("far:{}", sandbox.path("a").display());
        let paths = if far_listens { ["a", &far] } else { [&from, "b"] };
        let (run, came) = std::thread::scope(|scope| {
            let strangers: Vec<_> = (0..3).map(|_| scope.spawn(|| crowd(port, &over))).collect();
            let args = ["--port-range", &ports, "-c", "4", "--limit-rate", "8Mi", "--codec", "none"];
            let run = sshd.cp(&sandbox, &args).args(&paths).run();
            let json = sshd.cp(&sandbox, &args).args(&["--json"]).args(&paths).run();
            over.store(true, Relaxed);
            run.succeeds().says(&["note: foreign connections to the data port"]);
            let came: u64 = strangers.into_iter().map(|thread| thread.join().unwrap()).sum();
            (json, came)
        });
        assert!(came > 200, "only {came} strangers got in");
        let record = run.succeeds().json();
        assert_eq!(record["cp"]["transport"], "tcp", "{}", record["cp"]);
        assert!(record["cp"]["strangers"].as_u64().unwrap() > 0, "{}", record["cp"]);
        assert!(sandbox.read("a") == sandbox.read("b"));
        std::fs::remove_file(sandbox.path("b")).unwrap();
    }
}

/// Connects again and again and says nothing; returns how often it got in.
fn crowd(port: u16, over: &AtomicBool) -> u64 {
    let mut held = VecDeque::new();
    let mut came = 0;
    while !over.load(Relaxed) {
        // An error: the port is not open yet, or not any more.
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            came += 1;
            held.push_back(stream);
        }
        if held.len() > 100 {
            held.pop_front();
        }
        // It is to take places at the port, not the processors from the copy.
        std::thread::sleep(Duration::from_millis(1));
    }
    came
}

#[test]
fn within_this_machine_nothing_is_said_of_ssh() {
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(MIB, 1));
    let run = sandbox.weir("unshare", ["-n", support::WEIR, "cp", "a", "b"]).run();
    if run.stderr.starts_with("unshare:") {
        return skip("no network namespace for this user");
    }
    run.succeeds().says(&["through one pipe between two processes here", "ip link set lo up"]);
    assert!(!run.stderr.contains("ssh"), "{}", run.stderr);
}
