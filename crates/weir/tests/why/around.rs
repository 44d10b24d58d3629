//! `weir why` where the limit lies around the connections: before them, between them, or at a neighbour of
//! the program. Each cause has a twin of the same programs with another cause, which must not be taken for
//! it.
#![allow(clippy::unwrap_used, reason = "clippy takes a test's helper functions for library code")]

use crate::support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{Run, Sandbox, WEIR, Weir, skip};
use weir_lab::netns::Namespace;

fn why(args: &[&str]) -> Weir {
    let mut weir = Sandbox::new().weir(WEIR, ["why", "--json"]).args(args);
    weir.command.current_dir("/");
    weir
}

/// These programs are there, or the test is skipped.
fn has(programs: &[&str]) -> bool {
    let missing = |program: &&&str| {
        let command =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        command.is_err()
    };
    let lacking = programs.iter().find(missing);
    if let Some(program) = lacking {
        skip(&format!("no {program}"));
    }
    lacking.is_none()
}

fn is_root_with(programs: &[&str]) -> bool {
    if !rustix::process::geteuid().is_root() {
        skip("needs root");
        return false;
    }
    has(programs)
}

/// What was said of a run.
struct Said {
    limit: String,
    shares: serde_json::Value,
    text: String,
    /// All of it, for the message of a failure.
    whole: String,
}

impl Said {
    fn of(run: &Run) -> Said {
        let record = run.json();
        let verdict = &record["verdict"];
        let lines = |name: &str| -> Vec<String> {
            let lines = verdict[name].as_array().into_iter().flatten();
            lines
                .map(|line| line.as_str().map_or_else(|| line["action"].to_string(), str::to_owned))
                .collect()
        };
        let text = [lines("evidence"), lines("advice")].concat().join("\n");
        Said {
            limit: verdict["limit"].as_str().unwrap_or("none").to_owned(),
            shares: verdict["shares"].clone(),
            text,
            whole: format!("{verdict:#}\n{}", record["why"]),
        }
    }

    fn share(&self, limit: &str) -> f64 {
        self.shares[limit].as_f64().unwrap_or_default()
    }

    /// It is this limit for most of the time, and these words are among those that say so. On a busy machine
    /// a start may take a quarter, and be named beside it.
    fn is(&self, limit: &str, words: &[&str]) {
        let is_named = self.limit == limit || self.limit == "mixed";
        assert!(is_named && self.share(limit) > 0.5, "not {limit}: {}", self.whole);
        self.says(words);
    }

    fn says(&self, words: &[&str]) {
        for words in words {
            assert!(self.text.contains(words), "no '{words}': {}", self.whole);
        }
    }

    /// This limit is not blamed for more than what a start or an end may take.
    fn is_not(&self, limit: &str) {
        // From a quarter on it would be named.
        assert!(self.share(limit) < 0.25, "{limit}: {}", self.whole);
    }
}

/// A program at work until the test forgets it.
struct Helper {
    child: Child,
    line: String,
}

impl Helper {
    /// Starts it and waits for its first line.
    fn start(command: &mut Command) -> Helper {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Helper { child, line: line.trim().to_owned() }
    }

    fn python(script: &str, args: &[&str]) -> Helper {
        Helper::start(Command::new("python3").args(["-c", script]).args(args))
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves each connection on a thread of its own; returns the port.
fn serve(each: fn(TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || each(socket));
        }
    });
    port.to_string()
}

/// Answers each head of a request with 100 KB on a kept connection, after `pause`.
fn answer_after(mut socket: TcpStream, pause: Duration) {
    let mut head = Vec::new();
    let mut byte = [0];
    while socket.read(&mut byte).is_ok_and(|count| count > 0) {
        head.push(byte[0]);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            // The server's work is the cause that is tested here.
            std::thread::sleep(pause);
            let answer =
                [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n".to_vec(), vec![b'x'; 100_000]].concat();
            if socket.write_all(&answer).is_err() {
                return;
            }
        }
    }
}

/// Sends text that packs well, without end, as fast as it is taken.
fn flood(mut socket: TcpStream) {
    let _ = socket.read(&mut [0; 4096]);
    let text: Vec<u8> = (0..60_000)
        .flat_map(|line: u32| format!("{line} {}\n", line.wrapping_mul(2_654_435_761)).into_bytes())
        .collect();
    let _ = socket.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
    while socket.write_all(&text).is_ok() {}
}

/// The same, 64 KB each 20 ms.
fn drip(mut socket: TcpStream) {
    let _ = socket.read(&mut [0; 4096]);
    let _ = socket.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
    while socket.write_all(&[b'x'; 65_536]).is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `CLIENT PORT COUNT PAUSE`: so many requests on one connection, with a pause of its own after each.
const CLIENT: &str = "import socket,sys,time
c = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
for i in range(int(sys.argv[2])):
    c.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')
    left = 100000 + 43
    while left > 0:
        got = len(c.recv(65536))
        if got == 0: sys.exit(1)
        left -= got
    time.sleep(float(sys.argv[3]))";

#[test]
fn a_client_that_sleeps_between_its_requests_thinks() {
    if !has(&["python3"]) {
        return;
    }
    let port = serve(|socket| answer_after(socket, Duration::ZERO));
    let run = why(&["--", "python3", "-c", CLIENT, &port, "8", "0.25"]).run();
    run.succeeds();
    let said = Said::of(&run);
    said.is("think-time", &["asleep by its own will", "python3 (pid"]);
    assert!(said.text.contains("between its transfers"), "{}", said.whole);
}

#[test]
fn a_client_that_waits_for_slow_answers_does_not() {
    if !has(&["python3"]) {
        return;
    }
    let port = serve(|socket| answer_after(socket, Duration::from_millis(250)));
    let run = why(&["--", "python3", "-c", CLIENT, &port, "8", "0"]).run();
    run.succeeds();
    let said = Said::of(&run);
    said.is_not("think-time");
    said.is_not("connect");
    said.is_not("dns");
    assert!(
        ["application", "sender-or-path", "request-response"].contains(&said.limit.as_str()),
        "{}",
        said.whole
    );
}

#[test]
fn the_time_before_and_after_the_connections_counts() {
    if !has(&["curl", "sh"]) {
        return;
    }
    // Attempts that fail in this machine's own network may be those of the other tests.
    let network = match Namespace::new() {
        Ok(network) => network,
        Err(error) => return skip(&error.to_string()),
    };
    let port = network.run(|| serve(|socket| answer_after(socket, Duration::ZERO))).unwrap();
    // Long beside what the three programs take to start on a busy machine.
    let script = format!("sleep 3; curl -s -o /dev/null http://127.0.0.1:{port}/; sleep 3");
    let mut weir = why(&["--", "sh", "-c", &script]);
    network.enter(&mut weir.command).unwrap();
    let run = weir.run();
    run.succeeds();
    let said = Said::of(&run);
    said.is("think-time", &["sleep (pid"]);
    // One of the two alone is half of it at most.
    assert!(said.share("think-time") > 0.6, "{}", said.whole);
}

/// Listens with a backlog of none, fills its queue itself, and accepts so many seconds after a client has
/// asked, whose socket is in the state SYN-SENT (02). Each client gets 100 KB.
const FULL: &str = "import socket,sys,time
l = socket.socket()
l.bind(('127.0.0.1', 0))
l.listen(0)
first = socket.create_connection(l.getsockname()) if sys.argv[1] == 'full' else None
print(l.getsockname()[1], flush=True)
if first:
    port = ':%04X' % l.getsockname()[1]
    asks = lambda row: row[2].endswith(port) and row[3] == '02'
    while not any(asks(row.split()) for row in open('/proc/net/tcp')): time.sleep(0.01)
    time.sleep(float(sys.argv[2]))
    l.accept()
while True:
    c = l.accept()[0]
    if not first: time.sleep(float(sys.argv[2]))
    c.recv(65536)
    c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 100000\\r\\n\\r\\n' + b'x' * 100000)";

#[test]
fn a_full_listen_queue_is_connects() {
    if !has(&["python3"]) {
        return;
    }
    let server = Helper::python(FULL, &["full", "2.5"]);
    let run = why(&["--", "python3", "-c", CLIENT, &server.line, "1", "0"]).run();
    run.succeeds();
    let said = Said::of(&run);
    let peer = format!("a SYN to 127.0.0.1:{} went unanswered", server.line);
    said.is("connect", &[&peer, "its listener on this machine was full: 1 connection waited", "somaxconn"]);
    said.is_not("latency");
}

#[test]
fn a_server_that_takes_connections_and_then_its_time_is_not() {
    if !has(&["python3"]) {
        return;
    }
    let server = Helper::python(FULL, &["open", "1.5"]);
    let run = why(&["--", "python3", "-c", CLIENT, &server.line, "1", "0"]).run();
    run.succeeds();
    let said = Said::of(&run);
    said.is_not("connect");
    said.is_not("think-time");
}

/// Runs `weir why --json -- COMMAND...` in a network namespace after `setup`.
fn why_within(setup: &str, command: &[&str]) -> Run {
    let script = format!("ip link set lo up; {setup}\nexec \"$0\" why --json -- \"$@\"");
    let args = ["--net", "--mount", "sh", "-c", &script, WEIR];
    Sandbox::new().weir("unshare", args).args(command).run()
}

const TRY: &str = "import socket,sys
try: socket.create_connection((sys.argv[1], 80), timeout=2.5)
except OSError as error: print(error)";

#[test]
fn a_host_that_never_answers_is_connects() {
    if !is_root_with(&["unshare", "ip", "python3"]) {
        return;
    }
    // An interface that nobody reads from.
    let setup = "ip tuntap add dev hole mode tun; ip addr add 10.9.0.1/24 dev hole; ip link set hole up";
    let run = why_within(setup, &["python3", "-c", TRY, "10.9.0.2"]);
    run.succeeds();
    let said = Said::of(&run);
    said.is(
        "connect",
        &["a SYN to 10.9.0.2:80 went unanswered for 2.", "sent again", "a firewall that drops"],
    );
}

#[test]
fn refused_attempts_are_connects_until_they_end() {
    if !is_root_with(&["unshare", "ip", "curl"]) {
        return;
    }
    let retry =
        ["curl", "-s", "--retry", "2", "--retry-delay", "1", "--retry-connrefused", "http://127.0.0.1:9/"];
    let run = why_within("", &retry);
    run.exits(7);
    let said = Said::of(&run);
    said.is("connect", &["3 attempts failed at once", "start the server"]);
}

/// Asks 127.0.0.1:53 and waits as long as is said, then takes 100 KB from a server.
const ASKS: &str = "import socket,sys,threading,time
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.connect(('127.0.0.1', 53))
u.settimeout(float(sys.argv[1]))
u.send(b'question')
try: u.recv(512)
except OSError: pass
u.close()
c = socket.create_connection(('127.0.0.1', 8080))
while c.recv(65536): pass";

/// A resolver that is silent or answers at once, and a server that takes its time for the body or not.
const SERVES: &str = "import socket,sys,threading,time
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(('127.0.0.1', 53))
l = socket.create_server(('127.0.0.1', 8080))
print('ready', flush=True)
def names():
    while True:
        data, who = u.recvfrom(512)
        if sys.argv[1] == 'answers': u.sendto(b'answer', who)
threading.Thread(target=names, daemon=True).start()
while True:
    c = l.accept()[0]
    for i in range(10):
        c.sendall(b'x' * 10000)
        time.sleep(float(sys.argv[2]) / 10)
    c.close()";

fn asks(resolver: &str, pause: &str) -> Said {
    let setup = "python3 -c \"$SERVES\" $RESOLVER $PAUSE >ready & until [ -s ready ]; do :; done";
    let script = format!(
        "cd $(mktemp -d); ip link set lo up; {setup}\n\"$0\" why --json -- \"$@\"; code=$?; kill $!; exit $code"
    );
    let run = Sandbox::new()
        .weir("unshare", ["--net", "sh", "-c", &script, WEIR])
        .args(&["python3", "-c", ASKS, "2"])
        .env("SERVES", SERVES)
        .env("RESOLVER", resolver)
        .env("PAUSE", pause)
        .run();
    run.succeeds();
    Said::of(&run)
}

#[test]
fn a_silent_resolver_is_named() {
    if !is_root_with(&["unshare", "ip", "python3"]) {
        return;
    }
    let said = asks("silent", "0");
    said.is("dns", &["the resolver 127.0.0.1:53 (UDP)", "/etc/resolv.conf"]);
}

#[test]
fn a_resolver_that_answers_is_not() {
    if !is_root_with(&["unshare", "ip", "python3"]) {
        return;
    }
    let said = asks("answers", "2");
    said.is_not("dns");
    said.is_not("think-time");
}

#[test]
fn curl_waits_for_a_silent_resolver() {
    if !is_root_with(&["unshare", "ip", "curl", "mount", "nft"]) {
        return;
    }
    let setup = "nft add table inet t; nft add chain inet t i '{ type filter hook input priority 0; }'
        nft add rule inet t i udp dport 53 drop
        file=$(mktemp); printf 'nameserver 127.0.0.1\\noptions timeout:1 attempts:2\\n' >$file
        mount --bind $file /etc/resolv.conf; rm $file";
    let run = why_within(setup, &["curl", "-s", "http://host.example/"]);
    let said = Said::of(&run);
    if run.status.code() != Some(6) {
        return skip("this curl does not ask the resolver of /etc/resolv.conf");
    }
    said.is("dns", &["the resolver 127.0.0.1:53 (UDP)"]);
}

#[test]
fn the_reader_of_a_pipe_is_downstream_and_named() {
    if !has(&["curl", "gzip", "timeout"]) {
        return;
    }
    let port = serve(flood);
    let script = format!("curl -s --max-time 2 http://127.0.0.1:{port}/ | gzip -9 >/dev/null");
    let run = why(&["--", "sh", "-c", &script]).run();
    Said::of(&run).is("downstream", &["gzip (pid", "of one core"]);
}

#[test]
fn a_pipe_whose_reader_waits_is_not() {
    if !has(&["curl", "gzip"]) {
        return;
    }
    let port = serve(drip);
    let script = format!("curl -s --max-time 2 http://127.0.0.1:{port}/ | gzip -1 >/dev/null");
    let run = why(&["--", "sh", "-c", &script]).run();
    let said = Said::of(&run);
    said.is_not("downstream");
    said.is_not("think-time");
}

/// Its output goes to a named pipe whose reader sleeps, and a process at another pipe of it computes.
#[test]
fn a_process_at_another_pipe_is_not_taken_for_the_reader_of_a_named_one() {
    if !has(&["curl", "mkfifo", "timeout"]) {
        return;
    }
    let port = serve(flood);
    let script = format!(
        "d=$(mktemp -d); mkfifo $d/f; sleep 3 <$d/f &
        curl -s --max-time 2 http://127.0.0.1:{port}/ 3>&1 >$d/f | timeout 2 sh -c 'while :; do :; done'
        rm -r $d"
    );
    let run = why(&["--", "sh", "-c", &script]).run();
    Said::of(&run).is_not("downstream");
}

/// Works for 20 ms on each 64 KB that it sends.
fn compute(mut socket: TcpStream) {
    let _ = socket.read(&mut [0; 4096]);
    let _ = socket.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
    while socket.write_all(&[b'x'; 65_536]).is_ok() {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
    }
}

#[test]
fn what_holds_a_server_of_this_machine_is_not_ruled_out_at_its_client() {
    if !has(&["curl"]) {
        return;
    }
    let address = format!("http://127.0.0.1:{}/", serve(compute));
    let run = why(&["--", "curl", "-s", "-o", "/dev/null", "--max-time", "2", &address]).run();
    let innocent = run.json()["verdict"]["innocent"].clone();
    let lines = || innocent.as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
    for limit in ["cpu-core: ", "source-disk: "] {
        assert!(!lines().any(|line| line.starts_with(limit)), "{limit}{}", Said::of(&run).whole);
    }
}

/// `RELAY FROM TO`: copies from one port to another.
const RELAY: &str = "import socket,sys
a = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
b = socket.create_connection(('127.0.0.1', int(sys.argv[2])))
a.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
print('ready', flush=True)
while True:
    data = a.recv(65536)
    if not data: break
    b.sendall(data)";

/// Reads 64 KB each 20 ms.
fn sip(mut socket: TcpStream) {
    let mut room = vec![0; 65_536];
    while socket.read(&mut room).is_ok_and(|count| count > 0) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads as fast as it can.
fn sink(mut socket: TcpStream) {
    let mut room = vec![0; 1 << 20];
    while socket.read(&mut room).is_ok_and(|count| count > 0) {}
}

fn relayed(from: fn(TcpStream), to: fn(TcpStream)) -> (Said, String, String) {
    let (from, to) = (serve(from), serve(to));
    let relay = Helper::python(RELAY, &[&from, &to]);
    let run = why(&["--for", "2s", "--pid", &relay.pid()]).run();
    run.succeeds();
    (Said::of(&run), from, to)
}

#[test]
fn a_relay_whose_reader_is_slow_waits_downstream() {
    if !has(&["python3"]) {
        return;
    }
    let (said, _, to) = relayed(flood, sip);
    said.is("downstream", &[&format!("hands on to 127.0.0.1:{to}"), "that flow is held by"]);
}

#[test]
fn a_relay_whose_source_is_slow_waits_upstream() {
    if !has(&["python3"]) {
        return;
    }
    let (said, from, _) = relayed(drip, sink);
    said.is("upstream", &[&format!("hands on what comes from 127.0.0.1:{from}")]);
}

/// The same as an ordinary user, of his own programs.
#[test]
fn an_ordinary_user_sees_what_is_his() {
    if !is_root_with(&["python3", "setpriv"]) {
        return;
    }
    // The binary lies where only root may go, so it is copied to where the other user may.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let binary = folder.path().join("weir");
    support::copy_program(WEIR, &binary);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let as_nobody = |args: &[&str]| {
        let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        let mut weir =
            Sandbox::new().weir("setpriv", nobody).args(&[binary.to_str().unwrap(), "why", "--json", "--"]);
        weir.command.current_dir("/");
        let run = weir.args(args).run();
        run.succeeds();
        Said::of(&run)
    };
    // A python that such a user may run: the first may be a script in root's own folder.
    let python = "/usr/bin/python3";
    if !std::path::Path::new(python).exists() {
        return skip("no /usr/bin/python3");
    }
    let port = serve(|socket| answer_after(socket, Duration::ZERO));
    as_nobody(&[python, "-c", CLIENT, &port, "6", "0.25"]).is("think-time", &["asleep by its own will"]);
    let server = Helper::python(FULL, &["full", "2.5"]);
    let said = as_nobody(&[python, "-c", CLIENT, &server.line, "1", "0"]);
    said.is("connect", &["its listener on this machine was full"]);
}

/// `APP BACKEND PAUSE`: for each request asks a backend, takes so long itself, and answers with ten times
/// what it got.
const APP: &str = "import socket,sys,time
l = socket.create_server(('127.0.0.1', 0))
b = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
print(l.getsockname()[1], flush=True)
c = l.accept()[0]
while True:
    if not c.recv(65536): break
    b.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')
    left = 100000 + 43
    while left > 0: left -= len(b.recv(65536))
    time.sleep(float(sys.argv[2]))
    c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 100000\\r\\n\\r\\n' + b'x' * 100000)";

fn app(backend: fn(TcpStream), own: &str) -> (Said, String) {
    let backend = serve(backend);
    let app = Helper::python(APP, &[&backend, own]);
    ask_on(app.line.parse().unwrap());
    // The flows of a program that runs already are told apart once each has asked or answered while it is
    // watched.
    let run = why(&["--for", "8s", "--pid", &app.pid()]).run();
    run.succeeds();
    (Said::of(&run), backend)
}

/// Asks on one connection for as long as there are answers; returns with the first.
fn ask_on(port: u16) {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut answer = vec![0; 100_000 + 43];
    let mut is_answered = move || {
        let asked = socket.write_all(b"GET / HTTP/1.1\r\n\r\n");
        asked.and_then(|()| socket.read_exact(&mut answer)).is_ok()
    };
    assert!(is_answered(), "the first answer");
    std::thread::spawn(move || while is_answered() {});
}

#[test]
fn an_answer_that_waits_for_a_backend_is_upstreams() {
    if !has(&["python3"]) {
        return;
    }
    let (said, backend) = app(|socket| answer_after(socket, Duration::from_millis(250)), "0");
    said.is("upstream", &["owed an answer while it waited for one from", &format!("127.0.0.1:{backend}")]);
}

#[test]
fn an_answer_that_the_program_itself_delays_is_not() {
    if !has(&["python3"]) {
        return;
    }
    let (said, _) = app(|socket| answer_after(socket, Duration::ZERO), "0.25");
    said.is_not("upstream");
    said.is_not("connect");
}

/// `PATH`: for each request asks a backend behind a local socket.
const LOCAL_APP: &str = "import select,socket,sys
l = socket.create_server(('127.0.0.1', 0))
b = socket.socket(socket.AF_UNIX)
b.connect(sys.argv[1])
print(l.getsockname()[1], flush=True)
c = l.accept()[0]
while True:
    if not c.recv(65536): break
    b.sendall(b'?')
    select.select([b], [], [])
    if not b.recv(1): break
    c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 100000\\r\\n\\r\\n' + b'x' * 100000)";

#[test]
fn a_backend_behind_a_local_socket_is_not_ruled_out() {
    if !has(&["python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let path = sandbox.path("backend");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut question = [0];
        while socket.read_exact(&mut question).is_ok() {
            // The backend's work is the cause that is tested here.
            std::thread::sleep(Duration::from_millis(250));
            if socket.write_all(&question).is_err() {
                return;
            }
        }
    });
    let app = Helper::python(LOCAL_APP, &[path.to_str().unwrap()]);
    ask_on(app.line.parse().unwrap());
    let run = why(&["--for", "2s", "--pid", &app.pid()]).run();
    run.succeeds();
    let verdict = run.json()["verdict"].clone();
    assert!(!verdict["innocent"].to_string().contains("upstream:"), "{verdict:#}");
    assert!(!verdict["evidence"].to_string().contains("no other peer"), "{verdict:#}");
}

/// `PAUSE`: waits for a question in a select, takes so long, and answers with 5000 bytes.
const ANSWERS: &str = "import select,socket,sys,time
l = socket.create_server(('127.0.0.1', 0))
print(l.getsockname()[1], flush=True)
c = l.accept()[0]
pause = float(sys.argv[1])
while True:
    select.select([c], [], [])
    if not c.recv(65536): break
    if pause: time.sleep(pause)
    c.sendall(b'x' * 5000)";

/// A server that takes so long for an answer, and a client that rests for so long before it asks again.
fn answers(takes: &str, rests: Duration) -> Said {
    let server = Helper::python(ANSWERS, &[takes]);
    let mut socket = TcpStream::connect(("127.0.0.1", server.line.parse().unwrap())).unwrap();
    let client = std::thread::spawn(move || {
        let mut answer = vec![0; 5000];
        while socket.write_all(&[b'?'; 100]).is_ok() && socket.read_exact(&mut answer).is_ok() {
            // The client's own time is the cause that is tested here.
            std::thread::sleep(rests);
        }
    });
    let run = why(&["--for", "3s", "--pid", &server.pid()]).run();
    drop(server);
    client.join().unwrap();
    run.succeeds();
    Said::of(&run)
}

#[test]
fn a_server_that_answers_at_once_owes_nothing_while_its_client_rests() {
    if !has(&["python3"]) {
        return;
    }
    let said = answers("0", Duration::from_millis(300));
    assert!(!said.text.contains("owed an answer"), "{}", said.whole);
}

#[test]
fn a_server_that_takes_its_time_owes_an_answer_to_a_client_that_asks_at_once() {
    if !has(&["python3"]) {
        return;
    }
    answers("0.25", Duration::ZERO).says(&["owed an answer"]);
}

/// `PORT HOW`: reads as fast as data come, in a read or after a select, while another thread computes.
const COMPUTES_BESIDE: &str = "import hashlib,select,socket,sys,threading,time
def burn():
    while True: hashlib.pbkdf2_hmac('sha256', b'a', b'b', 2000000)
threading.Thread(target=burn, daemon=True).start()
c = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
c.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
end = time.time() + 2
while time.time() < end:
    if sys.argv[2] == 'polls': select.select([c], [], [])
    c.recv(1 << 20)";

#[test]
fn a_thread_that_computes_beside_the_reader_is_not_the_connections() {
    if !has(&["python3"]) {
        return;
    }
    let port = serve(drip);
    for how in ["reads", "polls"] {
        let run = why(&["--", "python3", "-c", COMPUTES_BESIDE, &port, how]).run();
        run.succeeds();
        Said::of(&run).is_not("cpu-core");
    }
}

/// `PORT`: has a child that inherits its connection and sleeps, and works on what it reads.
const INHERITED: &str = "import hashlib,socket,subprocess,sys,time
c = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
c.set_inheritable(True)
child = subprocess.Popen(['sleep', '60'], close_fds=False)
c.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
end = time.time() + 2
while time.time() < end:
    c.recv(1 << 16)
    hashlib.pbkdf2_hmac('sha256', b'a', b'b', 20000)
child.kill()";

#[test]
fn a_connection_that_a_child_inherits_and_does_not_use_stays_its_parents() {
    if !has(&["python3", "sleep"]) {
        return;
    }
    let port = serve(flood);
    let run = why(&["--", "python3", "-c", INHERITED, &port]).run();
    run.succeeds();
    let process = run.json()["why"]["flows"][0]["process"].clone();
    assert!(process.as_str().is_some_and(|name| name.starts_with("python3")), "{}", Said::of(&run).whole);
}

/// `PORT`: keeps a socket to a resolver that it does not ask, and waits for a timer between its requests.
const KEEPS_A_RESOLVER: &str = "import select,socket,sys
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.connect(('127.0.0.1', 53))
c = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
p = select.poll()
p.register(c, select.POLLIN)
p.register(u, select.POLLIN)
print('ready', flush=True)
while True:
    c.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')
    left = 100000 + 43
    while left > 0: left -= len(c.recv(65536))
    p.poll(300)";

#[test]
fn a_socket_that_is_kept_to_a_resolver_waits_for_no_name() {
    if !has(&["python3"]) {
        return;
    }
    let port = serve(|socket| answer_after(socket, Duration::ZERO));
    let client = Helper::python(KEEPS_A_RESOLVER, &[&port]);
    let run = why(&["--for", "2s", "--pid", &client.pid()]).run();
    run.succeeds();
    Said::of(&run).is_not("dns");
}

#[test]
fn an_https_address_among_the_arguments_makes_no_plain_request_a_handshake() {
    if !has(&["python3"]) {
        return;
    }
    let server = Helper::python(FULL, &["open", "1.5"]);
    let address = "https://host.example/";
    let run = why(&["--", "python3", "-c", CLIENT, &server.line, "1", "0", address]).run();
    run.succeeds();
    Said::of(&run).is_not("connect");
}

/// A server that answers after half a second, so that the connection is seen.
const ANSWERS_LATE: &str = "import socket,time
l = socket.create_server(('127.0.0.1', 8080))
while True:
    c = l.accept()[0]
    c.recv(4096)
    time.sleep(0.5)
    c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 3\\r\\nConnection: close\\r\\n\\r\\nabc')
    c.close()";

#[test]
fn attempts_of_others_that_are_refused_are_not_the_programs() {
    if !is_root_with(&["unshare", "ip", "curl", "python3"]) {
        return;
    }
    let script = format!(
        "ip link set lo up
        python3 -c \"{ANSWERS_LATE}\" & server=$!
        until curl -s -o /dev/null http://127.0.0.1:8080/; do sleep 0.1; done
        (while :; do curl -s http://127.0.0.1:9/; sleep 0.05; done) & others=$!
        \"$0\" why --json -- \"$@\"; code=$?; kill $server $others; exit $code"
    );
    let asks = "curl -s -o /dev/null http://127.0.0.1:8080/; sleep 3";
    let run =
        Sandbox::new().weir("unshare", ["--net", "sh", "-c", &script, WEIR]).args(&["sh", "-c", asks]).run();
    run.succeeds();
    Said::of(&run).is_not("connect");
}
