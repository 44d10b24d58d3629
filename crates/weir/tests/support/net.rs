//! Servers of the iperf3 protocol: weir's own, iperf3's, and their clients.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{BETWEEN_LOOKS, Run, Sandbox, TIMEOUT, WEIR, skip};

/// A server at work; killed when the test forgets it.
pub(crate) struct NetServer {
    child: Child,
    /// Where it listens, on this machine.
    pub(crate) port: u16,
    stdout: Receiver<String>,
}

impl NetServer {
    /// `weir bench net -s` on a free port.
    pub(crate) fn weir(args: &[&str]) -> NetServer {
        let mut command = Command::new(WEIR);
        command.args(["bench", "net", "-s", "-p", &free_port().to_string()]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("weir to start");
        let stdout = child.stdout.take().expect("its output");
        let mut stderr = BufReader::new(child.stderr.take().expect("its errors"));
        // With JSON on stdout it says on stderr where it listens.
        let mut line = String::new();
        let json = args.iter().any(|arg| matches!(*arg, "--json" | "-J" | "--json-stream"));
        let stdout = if json {
            stderr.read_line(&mut line).expect("a line");
            collect(BufReader::new(stdout))
        } else {
            let mut stdout = BufReader::new(stdout);
            stdout.read_line(&mut line).expect("a line");
            collect(stdout)
        };
        drop(collect(stderr));
        let port = port_of(&line);
        NetServer { child, port, stdout }
    }

    /// `iperf3 -s`, for one test, on a port that was free a moment ago.
    pub(crate) fn iperf3(args: &[&str]) -> NetServer {
        let port = free_port();
        let mut command = Command::new("iperf3");
        command.args(["-s", "-1", "--forceflush", "-p", &port.to_string()]).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("iperf3 to start");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
        if args.contains(&"-J") {
            // It says nothing before its test is over: its socket is waited for.
            wait_for_listener(port);
        } else {
            let mut line = String::new();
            while !line.contains("Server listening") {
                line.clear();
                assert!(stdout.read_line(&mut line).expect("a line") > 0, "iperf3 ended");
            }
        }
        NetServer { child, port, stdout: collect(stdout) }
    }

    /// All it printed, once it has ended by itself.
    pub(crate) fn wait(mut self) -> String {
        let text = self.stdout.recv_timeout(TIMEOUT).expect("the server to end");
        self.child.wait().expect("a child to wait for");
        text
    }

    /// The JSON of its one test.
    pub(crate) fn json(self) -> Value {
        let text = self.wait();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a process to signal");
    }

    /// How it ended, once it did.
    pub(crate) fn code(mut self) -> Option<i32> {
        let _ = self.stdout.recv_timeout(TIMEOUT).expect("the server to end");
        self.child.wait().expect("a child to wait for").code()
    }
}

impl Drop for NetServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `weir bench net -c 127.0.0.1 -p PORT ARGS`, to its end.
pub(crate) fn weir_client(port: u16, args: &[&str]) -> Run {
    let port = port.to_string();
    let sandbox = Sandbox::new();
    sandbox.weir(WEIR, ["bench", "net", "-c", "127.0.0.1", "-p", &port]).args(args).run()
}

/// `iperf3 -c 127.0.0.1 -p PORT -J ARGS`, to its end: its JSON, which must hold no error.
pub(crate) fn iperf3_client(port: u16, args: &[&str]) -> Value {
    let sandbox = Sandbox::new();
    let port = port.to_string();
    let run = sandbox.weir("iperf3", ["-c", "127.0.0.1", "-p", &port, "-J"]).args(args).run();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let json: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"));
    assert!(json["error"].is_null(), "{args:?}: {}", json["error"]);
    json
}

/// iperf3 is there.
pub(crate) fn has_iperf3() -> bool {
    let found = Command::new("iperf3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// An address that refuses, as long as its socket is kept: that is bound and does not listen, so nobody else
/// gets the port.
pub(crate) fn refusing() -> (OwnedFd, SocketAddr) {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).expect("a socket");
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address = getsockname(&socket).expect("its address").try_into().expect("one of IP");
    (socket, address)
}

/// A port that nobody listens on, below those that the kernel gives away by itself
/// (net.ipv4.ip_local_port_range): of two hundred UDP streams beside this test one may have got any of those.
/// Each is handed out once.
pub(crate) fn free_port() -> u16 {
    const PORTS: std::ops::Range<u32> = 15_000..32_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Asked of the kernel's tables. A socket bound to try it may live on for a moment in the child that
    // another test starts just then, and whoever is handed the port cannot listen.
    let is_free = |port: &u16| {
        let local = format!(":{port:04X}");
        let has_it = |line: &str| line.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&local));
        ["tcp", "tcp6", "udp", "udp6"].iter().all(|name| {
            let table = std::fs::read_to_string(format!("/proc/net/{name}")).expect("a list of sockets");
            !table.lines().any(has_it)
        })
    };
    let next = || {
        let index = std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Relaxed));
        (PORTS.start + index % (PORTS.end - PORTS.start)) as u16
    };
    std::iter::repeat_with(next).take(PORTS.len()).find(is_free).expect("a free port")
}

fn wait_for_listener(port: u16) {
    // Port and state (0A, listening) as /proc prints them; iperf3 listens on `::`.
    let line = format!(":{port:04X} 00000000000000000000000000000000:0000 0A");
    let begun = std::time::Instant::now();
    while !std::fs::read_to_string("/proc/net/tcp6").expect("a list of sockets").contains(&line) {
        assert!(begun.elapsed() < TIMEOUT, "iperf3 never listened on {port}");
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

fn port_of(line: &str) -> u16 {
    let first =
        line.split_whitespace().find_map(|word| word.trim_end_matches(',').parse::<SocketAddr>().ok());
    first.unwrap_or_else(|| panic!("no address in {line:?}")).port()
}

fn collect(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// Runs a shell's `script` in a network namespace of its own, with `$WEIR`. `None` where no namespaces and
/// cables can be made.
pub(crate) fn in_a_network(sandbox: &Sandbox, script: &str) -> Option<Run> {
    let who = if rustix::process::geteuid().is_root() { "-n" } else { "-rn" };
    let tried = sandbox.weir("unshare", [who, "sh", "-c", "ip link add near type veth peer name far"]).run();
    if !tried.status.success() {
        skip(&tried.stderr);
        return None;
    }
    Some(sandbox.weir("unshare", [who, "sh", "-c", script]).env("WEIR", WEIR).run())
}
