//! `weir why` against real programs over loopback: who is blamed, what is passed on, and what is said where
//! it cannot look.
#![allow(clippy::unwrap_used, reason = "clippy takes a test's helper functions for library code")]

use crate::support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::{Run, Sandbox, TIMEOUT, WEIR, Weir, skip, wait_for};
use weir_lab::netns::Namespace;

fn why(args: &[&str]) -> Weir {
    let mut weir = Sandbox::new().weir(WEIR, ["why"]).args(args);
    weir.command.current_dir("/");
    weir
}

/// A program is there, or the test is skipped.
fn has(program: &str) -> bool {
    let found =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        skip(&format!("no {program}"));
    }
    found
}

/// Serves each connection on a thread of its own; returns the port.
fn serve(each: fn(TcpStream)) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || each(socket));
        }
    });
    port
}

/// Reads until the end as fast as it can.
fn sink(mut socket: TcpStream) {
    let mut room = vec![0; 1 << 20];
    while socket.read(&mut room).is_ok_and(|count| count > 0) {}
}

/// Sends a little to such a server again and again, from this process.
fn dribble(port: u16) {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        while socket.write_all(&[1; 20_000]).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

/// Reads the head of a request and answers with `size` bytes.
fn answer(mut socket: TcpStream, size: usize) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && socket.read(&mut byte).is_ok_and(|count| count > 0) {
        head.push(byte[0]);
    }
    let _ = write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n");
    let _ = socket.write_all(&vec![b'x'; size]);
}

fn limit(run: &Run) -> (String, f64) {
    let record = run.json();
    let verdict = &record["verdict"];
    let name = verdict["limit"].as_str().unwrap_or("none").to_owned();
    let share = verdict["shares"][&name].as_f64().unwrap_or_default();
    (name, share)
}

const DRIBBLE: &str = "import socket,sys,time
c = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
end = time.time() + 1.5
while time.time() < end:
    c.sendall(b'x' * 20000)
    time.sleep(0.02)";

const LISTENER: &str = "import select,socket
s = socket.create_server(('127.0.0.1', 0))
print('ready', flush=True)
while True:
    select.select([s], [], [])";

const SLEEPY_READER: &str = "import socket,sys,time
c = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
c.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')
end = time.time() + 1.5
while time.time() < end:
    c.recv(20000)
    time.sleep(0.02)";

#[test]
fn a_sender_that_dribbles_is_an_application() {
    if !has("python3") {
        return;
    }
    let port = serve(sink);
    let run = why(&["--json", "--", "python3", "-c", DRIBBLE, &port.to_string()]).run();
    run.succeeds();
    let (name, share) = limit(&run);
    assert!(name == "application" && share > 0.5, "{name} {share}: {}", String::from_utf8_lossy(&run.stdout));
}

#[test]
fn a_receiver_that_sleeps_is_a_reader() {
    if !has("python3") {
        return;
    }
    let port = serve(|socket| answer(socket, 64 << 20));
    let run = why(&["--json", "--", "python3", "-c", SLEEPY_READER, &port.to_string()]).run();
    run.succeeds();
    let (name, share) = limit(&run);
    assert!(name == "reader" && share > 0.5, "{name} {share}: {}", String::from_utf8_lossy(&run.stdout));
}

#[test]
fn the_record_has_flows_and_threads() {
    if !has("python3") {
        return;
    }
    let port = serve(sink);
    let run = why(&["--json", "--", "python3", "-c", DRIBBLE, &port.to_string()]).run();
    let record = run.json();
    assert_eq!((&record["schema"], &record["command"]), (&"weir.run/1".into(), &"why".into()));
    let why = &record["why"];
    assert_eq!(why["exit_code"], 0);
    assert_eq!(why["flows"][0]["peer"], format!("127.0.0.1:{port}"));
    assert!(why["flows"][0]["acked"].as_u64().unwrap() > 100_000, "{why}");
    assert!(why["threads"].as_array().is_some_and(|threads| !threads.is_empty()), "{why}");
    assert!(record["samples"].as_array().is_some_and(|samples| samples.len() > 5), "{record}");
    assert!(record["bytes"].as_u64().unwrap() > 100_000);
}

#[test]
fn a_closed_stdout_does_not_end_the_command() {
    let sandbox = Sandbox::new();
    let script = format!("exec {WEIR} why -q -- sh -c 'echo hi; touch done' >&-");
    sandbox.weir("sh", ["-c", &script]).run().succeeds();
    assert_eq!(sandbox.names(), ["done"]);
}

#[test]
fn what_a_command_prints_and_its_exit_code_are_its_own() {
    let run = why(&["--", "sh", "-c", "echo out; echo err >&2; exit 7"]).run();
    run.fails(7, &["err", "had no TCP connection"]);
    assert_eq!(run.stdout, b"out\n");
    let run = why(&["--json", "--", "sh", "-c", "echo out; exit 9"]).run();
    run.fails(9, &["out"]);
    assert_eq!(run.json()["why"]["exit_code"], 9);
    let run = why(&["-q", "--", "sh", "-c", "kill -TERM $$"]).run();
    run.exits(128 + 15);
    assert_eq!(run.stderr, "");
}

/// As some supervisors start what they run.
#[test]
fn an_exit_code_is_kept_where_the_ends_of_children_are_ignored() {
    let ignoring = "trap '' CHLD; exec \"$@\"";
    let args = ["-c", ignoring, "sh", WEIR, "why", "-q", "--", "sh", "-c", "exit 7"];
    Sandbox::new().weir("sh", args).run().exits(7);
}

/// What is printed on stderr looks as stderr is, whatever stdout is.
#[test]
fn a_file_of_the_report_has_no_colours_while_the_command_has_a_terminal() {
    let (_near, terminal) = support::terminal();
    let run = why(&["--", "true"]).env("TERM", "xterm").stdout(terminal).run();
    run.succeeds().says(&["limit: "]);
    assert!(!run.stderr.contains('\x1b'), "{:?}", run.stderr);
}

#[test]
fn a_signal_is_passed_on_and_the_report_still_printed() {
    let sandbox = Sandbox::new();
    let mark = sandbox.path("ready");
    let script = format!("trap 'exit 5' INT; : > {}; while :; do sleep 0.02; done", mark.display());
    let running = why(&["--", "sh", "-c", &script]).spawn();
    let start = Instant::now();
    while !mark.exists() {
        assert!(start.elapsed() < TIMEOUT, "the command never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    running.signal(Signal::INT);
    running.wait().fails(5, &["had no TCP connection"]);
}

#[test]
fn a_running_process_is_judged_until_it_ends() {
    if !has("python3") {
        return;
    }
    let port = serve(sink);
    let mut child = Command::new("python3").args(["-c", DRIBBLE, &port.to_string()]).spawn().unwrap();
    let run = why(&["--json", "--for", "60s", "--pid", &child.id().to_string()]).run();
    child.wait().unwrap();
    run.succeeds();
    assert_eq!(limit(&run).0, "application", "{}", String::from_utf8_lossy(&run.stdout));
}

/// What its poll waits for are clients, not its own time.
#[test]
fn who_only_listens_is_held_by_nothing() {
    if !has("python3") {
        return;
    }
    let mut child = Command::new("python3").args(["-c", LISTENER]).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
    let run = why(&["--json", "--for", "1s", "--pid", &child.id().to_string()]).run();
    child.kill().unwrap();
    child.wait().unwrap();
    run.exits(1);
    assert_eq!(limit(&run).0, "none", "{}", String::from_utf8_lossy(&run.stdout));
}

#[test]
fn a_port_is_judged_from_both_ends() {
    let port = serve(sink);
    dribble(port);
    let run = why(&["--json", "--for", "1s", "--port", &port.to_string()]).run();
    run.succeeds();
    let record = run.json();
    assert_eq!(record["why"]["connections"], 1, "two ends are one connection: {}", record["why"]);
    assert_eq!(record["why"]["flows"][0]["side"], "both", "{}", record["why"]);
    assert_eq!(record["verdict"]["limit"], "application", "{}", record["verdict"]);
}

/// A network of the test's own: where other programs' connections end by the hundred, the kernel drops what
/// it cannot tell in time.
fn secluded() -> Option<Namespace> {
    Namespace::new().map_err(|error| skip(&error.to_string())).ok()
}

/// The kernel tells of a connection's end some time after it: returns when `--watch`, which writes into the
/// file `said`, has drawn two lines more, one each second.
fn is_told_of_ends(sandbox: &Sandbox) {
    let lines = || sandbox.read("said").iter().filter(|byte| **byte == b'\n').count();
    let before = lines();
    wait_for("two lines more", || lines() >= before + 2);
}

/// Runs so many downloads by curl one after another from such a server, and returns the record.
fn one_after_another(count: u32, each: fn(TcpStream)) -> Option<serde_json::Value> {
    let network = secluded()?;
    let port = network.run(|| serve(each)).unwrap();
    let sandbox = Sandbox::new();
    let (done, over) = (sandbox.path("done"), sandbox.path("over"));
    let script = format!(
        "for i in $(seq {count}); do curl -s -o /dev/null http://127.0.0.1:{port}/; done
        : > {}; until [ -e {} ]; do sleep 0.1; done",
        done.display(),
        over.display()
    );
    let mut weir = why(&["--json", "--watch", "--", "sh", "-c", &script]);
    weir.command.stderr(std::fs::File::create(sandbox.path("said")).unwrap());
    network.enter(&mut weir.command).unwrap();
    let weir = weir.spawn();
    wait_for("the downloads", || done.exists());
    is_told_of_ends(&sandbox);
    std::fs::write(over, "").unwrap();
    Some(weir.wait().succeeds().json())
}

/// Whether a connection of a millisecond is seen while it lives is luck; whether it is told is not.
#[test]
fn connections_too_short_to_be_seen_are_told() {
    if !has("curl") {
        return;
    }
    let Some(record) = one_after_another(40, |socket| answer(socket, 1000)) else { return };
    let why = &record["why"];
    let told = why["connections"].as_u64().unwrap() + why["unproven"].as_u64().unwrap();
    assert_eq!(told, 40, "{why}");
}

/// A path of 30 ms, nearly: what a short command does over it is proven its own.
#[test]
fn short_commands_have_their_bytes() {
    if !has("curl") {
        return;
    }
    // Many looks long, so that a busy machine misses a few connections and not half of them.
    let record = one_after_another(20, |socket| {
        std::thread::sleep(Duration::from_millis(300));
        answer(socket, 10_000);
    });
    let Some(record) = record else { return };
    let (why, bytes) = (&record["why"], record["bytes"].as_u64().unwrap());
    assert!(bytes >= 150_000, "{bytes} {why}");
    let told = why["connections"].as_u64().unwrap() + why["unproven"].as_u64().unwrap();
    assert_eq!(told, 20, "{why}");
}

/// Downloads from a server beside the subject: these bytes are nobody's that is watched.
fn download(port: u16) -> usize {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut all = Vec::new();
    socket.read_to_end(&mut all).unwrap();
    all.len()
}

/// The first connection's answer ends when eight others to the same server have begun and ended.
#[test]
fn others_of_the_same_server_do_not_count() {
    if !has("curl") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (first, _) = listener.accept().unwrap();
        let size = 10_000_000;
        let mut socket = first.try_clone().unwrap();
        // What lies unread when a socket is closed resets its connection.
        let request =
            BufReader::new(&first).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
        assert!(request.count() > 0);
        write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").unwrap();
        socket.write_all(&vec![b'x'; size / 2]).unwrap();
        let others: Vec<_> = (0..8).map(|_| std::thread::spawn(move || download(port))).collect();
        for _ in 0..8 {
            answer(listener.accept().unwrap().0, size);
        }
        others.into_iter().for_each(|other| assert!(other.join().unwrap() > size));
        socket.write_all(&vec![b'x'; size / 2]).unwrap();
    });
    let url = format!("http://127.0.0.1:{port}/");
    let run = why(&["--json", "--", "curl", "-s", "-o", "/dev/null", &url]).run();
    run.succeeds();
    let record = run.json();
    let bytes = record["bytes"].as_u64().unwrap();
    assert!((10_000_000..10_001_000).contains(&bytes), "{bytes}: {}", record["why"]);
    assert_eq!(record["why"]["connections"], 1, "{}", record["why"]);
}

/// Whoever is seen while it lives is known for a stranger; of one that came and went between two samples
/// nobody knows, and on a busy machine not each does so.
#[test]
fn a_command_that_is_refused_has_no_strangers_bytes() {
    if !has("curl") {
        return;
    }
    let port = serve(|socket| answer(socket, 3_000_000));
    // Bound and not listening: nobody else gets it meanwhile.
    let closed = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let closed = closed.unwrap();
    rustix::net::bind(&closed, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let refuses: std::net::SocketAddr = rustix::net::getsockname(&closed).unwrap().try_into().unwrap();
    wait_for("a stranger that is not seen", || {
        let run = beside_a_stranger(refuses, port);
        run.says(&["carried 0 B", "had no TCP connection"]);
        let unseen = "not counted: 1 connection with 3.00 MB ended unseen; they may be others'";
        let is_unseen = run.stderr.contains(unseen);
        if is_unseen {
            run.says(&["had no TCP connection that is proven its own"]);
        }
        is_unseen
    });
}

/// What `weir why` says of a command that is refused while another program downloads.
fn beside_a_stranger(refuses: std::net::SocketAddr, port: u16) -> Run {
    let sandbox = Sandbox::new();
    let (begun, over) = (sandbox.path("begun"), sandbox.path("over"));
    let script = format!(
        "curl -s http://{refuses}/; : > {}; until [ -e {} ]; do sleep 0.02; done",
        begun.display(),
        over.display()
    );
    let stranger = std::thread::spawn(move || {
        let start = Instant::now();
        while !begun.exists() {
            assert!(start.elapsed() < TIMEOUT, "the command never began");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(download(port) > 3_000_000);
        std::fs::write(over, "").unwrap();
    });
    let run = why(&["--", "sh", "-c", &script]).run();
    stranger.join().unwrap();
    run.succeeds();
    run
}

const BUSY: &str = "import socket,sys,time
c = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
end = time.time() + 1.5
c.sendall(b'x')
while time.time() < end:
    pass
c.sendall(b'x')";

#[test]
fn a_busy_program_with_an_idle_connection_moves_nothing() {
    if !has("python3") {
        return;
    }
    let port = serve(sink);
    let run = why(&["--json", "--", "python3", "-c", BUSY, &port.to_string()]).run();
    run.succeeds();
    let verdict = &run.json()["verdict"];
    assert!(verdict["limit"].is_null(), "{verdict}");
    let missing = verdict["missing"][0].as_str().unwrap();
    assert!(missing.starts_with("nothing moved: "), "{verdict}");
}

const SERVER: &str = "import socket
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
while True:
    c = listener.accept()[0]
    c.sendall(b'x' * 10000)
    c.close()";

/// Who connects where the subject alone listens talks to it, however short.
#[test]
fn a_servers_short_connections_are_its_own() {
    if !has("python3") {
        return;
    }
    // Where processes are hidden a listener may be shared with one of them.
    let pids = std::fs::read_link("/proc/self/ns/pid").unwrap();
    if pids.to_str() != Some("pid:[4026531836]") {
        return skip("this is a PID namespace of a container");
    }
    let Some(network) = secluded() else { return };
    let mut server = Command::new("python3");
    server.args(["-c", SERVER]).stdout(Stdio::piped());
    network.enter(&mut server).unwrap();
    let mut child = server.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port: u16 = line.trim().parse().unwrap();
    let pid = child.id().to_string();
    let sandbox = Sandbox::new();
    let mut weir = why(&["--json", "--watch", "--for", "60s", "--pid", &pid]);
    weir.command.stderr(std::fs::File::create(sandbox.path("said")).unwrap());
    network.enter(&mut weir.command).unwrap();
    let weir = weir.spawn();
    wait_for("its handler", || weir.catches(Signal::INT));
    let connect = || {
        for _ in 0..50 {
            let mut all = Vec::new();
            TcpStream::connect(("127.0.0.1", port)).unwrap().read_to_end(&mut all).unwrap();
            assert_eq!(all.len(), 10_000);
        }
    };
    network.run(connect).unwrap();
    is_told_of_ends(&sandbox);
    weir.signal(Signal::INT);
    let run = weir.wait();
    child.kill().unwrap();
    child.wait().unwrap();
    run.succeeds();
    let why = &run.json()["why"];
    assert_eq!((why["connections"].as_u64(), why["unproven"].as_u64()), (Some(50), Some(0)), "{why}");
    // SYN and FIN count as a byte each. What was there at the first scan counts from then on: a few at most.
    let acked = why["acked"].as_u64().unwrap();
    assert!((450_000..=500_100).contains(&acked), "{why}");
}

#[test]
fn who_is_not_there_cannot_be_looked_at() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id().to_string();
    child.wait().unwrap();
    why(&["--pid", &pid])
        .run()
        .fails(1, &[&format!("cannot watch process {pid}: no process has this number")]);
    why(&["--", "no-such-command-4711"])
        .run()
        .fails(127, &["cannot run no-such-command-4711: command not found"]);
    why(&["--", "/etc/passwd"]).run().fails(126, &["cannot run /etc/passwd: permission denied"]);
    let run = why(&["--for", "200ms", "--port", "1"]).run();
    run.exits(1);
    assert!(String::from_utf8_lossy(&run.stdout).contains("port 1 had no TCP connection"), "{run:?}");
    assert!(!String::from_utf8_lossy(&run.stdout).contains("ruled out"), "{run:?}");
    let run = why(&["--json", "--for", "200ms", "--port", "1"]).run();
    run.fails(1, &["port 1 had no TCP connection"]);
    let record = run.json();
    assert_eq!(record["outcome"], "failed", "{record}");
    assert_eq!(record["error"], "port 1 had no TCP connection", "{record}");
    assert_eq!(record["verdict"]["shares"], serde_json::json!({}), "{record}");
    let samples = record["samples"].as_array().unwrap();
    assert!(samples.iter().all(|sample| sample["limit"].is_null()), "{record}");
    let run = why(&["--for", "200ms", "--port", "1", "--peer", "localhost"]).run();
    run.exits(1);
    assert!(String::from_utf8_lossy(&run.stdout).contains("port 1 with localhost (127.0.0.1"), "{run:?}");
}

#[test]
fn a_thread_of_the_kernel_is_refused() {
    use weir_observe::process;
    let is_kernels = |pid: &process::Pid| process::stat(*pid).is_ok_and(|stat| stat.kernel);
    let Some(pid) = process::all().into_iter().find(is_kernels) else {
        return skip("no thread of the kernel is shown here");
    };
    why(&["--pid", &pid.to_string()])
        .run()
        .fails(1, &[&format!("cannot watch process {pid}: a thread of the kernel has no connections")]);
}

/// What a network namespace hides is not said to be absent.
#[test]
fn who_finds_no_connection_is_told_of_other_networks() {
    let Some(network) = secluded() else { return };
    let mut sleeper = Command::new("sleep");
    network.enter(sleeper.arg("60")).unwrap();
    let mut child = sleeper.spawn().unwrap();
    let run = why(&["--json", "--for", "200ms", "--port", "1"]).run();
    child.kill().unwrap();
    child.wait().unwrap();
    run.exits(1);
    let missing = run.json()["verdict"]["missing"].to_string();
    assert!(missing.contains("only this network namespace was looked at"), "{missing}");
}

/// Who is shown a part of the processes cannot know to be alone in a network.
#[test]
fn strangers_do_not_count_where_processes_are_hidden() {
    if !rustix::process::geteuid().is_root() || !has("unshare") || !has("curl") {
        return skip("needs root, unshare and curl");
    }
    let apart = ["--pid", "--fork", "--mount-proc"];
    if !Command::new("unshare").args(apart).arg("true").status().unwrap().success() {
        return skip("no PID namespace can be made");
    }
    let port = serve(sink);
    dribble(port);
    // Long enough to be seen.
    let port = serve(|socket| {
        std::thread::sleep(Duration::from_millis(500));
        answer(socket, 100_000);
    });
    let url = format!("http://127.0.0.1:{port}/");
    let inside = [WEIR, "why", "--json", "--", "curl", "-s", "-o", "/dev/null", url.as_str()];
    let mut weir = Sandbox::new().weir("unshare", apart).args(&inside);
    weir.command.current_dir("/");
    let run = weir.run();
    run.succeeds();
    let why = &run.json()["why"];
    assert_eq!(why["connections"], 1, "{why}");
}

#[test]
fn bad_arguments_are_usage() {
    why(&[]).run().fails(2, &["nothing to watch"]);
    for args in [
        &["--pid", "0"][..],
        &["--pid", "x"],
        &["--port", "70000"],
        &["--port", "0"],
        &["--for", "soon", "--port", "1"],
        &["--for", "-1", "--port", "1"],
        &["--pid", "1", "--", "true"],
        &["wget"],
    ] {
        why(args).run().exits(2);
    }
    why(&["--peer", "no such host", "--for", "1s"]).run().fails(1, &["cannot resolve --peer no such host"]);
}

/// A user who may look at little.
struct Nobody {
    folder: tempfile::TempDir,
}

/// For setpriv, which becomes that user.
const NOBODY: [&str; 5] = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];

impl Nobody {
    /// The binary lies where only root may go, so it is copied to where the other user may.
    fn new() -> Nobody {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        support::copy_program(WEIR, folder.path().join("weir"));
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        Nobody { folder }
    }

    /// Exit code, stdout and stderr of `weir why`.
    fn why(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new("setpriv");
        command.args(NOBODY).arg(self.folder.path().join("weir")).arg("why").args(args).current_dir("/");
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }
}

#[test]
fn another_users_process_says_how_to_see_it() {
    if !rustix::process::geteuid().is_root() || !has("setpriv") {
        return skip("needs root and setpriv");
    }
    let nobody = Nobody::new();
    let port = serve(sink);
    dribble(port);
    let own = std::process::id().to_string();
    let as_nobody = |args: &[&str]| nobody.why(args);
    // Root has other processes, whose connections are not this one's.
    let (code, _, said) = as_nobody(&["--pid", &own, "--for", "500ms"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("its connections cannot be told from others'"), "{said}");
    assert!(said.contains(&format!("process {own} belongs to another user")), "{said}");
    assert!(said.contains("(--port)"), "{said}");
    let (code, said, _) = as_nobody(&["--port", &port.to_string(), "--for", "500ms"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("its sockets are judged all the same"), "{said}");
    assert!(said.contains("application"), "{said}");
}

/// Each program of the script ends long before the next look at it.
#[test]
fn what_short_children_wrote_counts() {
    if !has("dd") {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let port = serve(sink);
    let script = format!(
        "for i in 1 2 3 4; do dd if=/dev/zero of={}/$i bs=1000000 count=3 2>&-; done; exec 3<>/dev/tcp/127.0.0.1/{port}; echo x >&3",
        folder.path().display()
    );
    if weir_observe::disk::block_device(folder.path()).is_err() {
        return skip("the file system of the target folder does not count what is written");
    }
    let evidence = folder.path().join("evidence");
    let run = why(&["--json", "--evidence", evidence.to_str().unwrap(), "--", "bash", "-c", &script]).run();
    run.succeeds();
    let seen: serde_json::Value = serde_json::from_slice(&std::fs::read(evidence).unwrap()).unwrap();
    let windows = seen["windows"].as_array().unwrap();
    let written: u64 = windows.iter().map(|window| window["written"].as_u64().unwrap()).sum();
    assert!((12_000_000..12_500_000).contains(&written), "{written}");
}

/// The disk of an output is that of its own mount namespace, whatever lies at its path in weir's.
#[test]
fn an_output_in_another_mount_namespace_lies_where_it_is_seen_there() {
    if !rustix::process::geteuid().is_root() || !has("unshare") || !has("curl") {
        return skip("needs root, unshare and curl");
    }
    let sandbox = Sandbox::new_in(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")));
    let [folder, done, over] = ["data", "done", "over"].map(|name| sandbox.path(name));
    std::fs::create_dir(&folder).unwrap();
    if weir_observe::disk::block_device(&folder).is_err() {
        return skip("the target folder is on no disk of its own");
    }
    let port = serve(|socket| answer(socket, 2_000_000));
    // The shell keeps the file open until it was seen.
    let script = format!(
        "mount -t tmpfs none {0} && exec 4> {0}/out && curl -s http://127.0.0.1:{port}/ >&4; : > {1}
        until [ -e {2} ]; do sleep 0.1; done",
        folder.display(),
        done.display(),
        over.display()
    );
    let evidence = sandbox.path("evidence");
    let args = ["--json", "--watch", "--evidence", evidence.to_str().unwrap(), "--"];
    let mut weir = why(&args).args(&["unshare", "--mount", "sh", "-c", &script]);
    weir.command.stderr(std::fs::File::create(sandbox.path("said")).unwrap());
    let weir = weir.spawn();
    wait_for("the download", || done.exists());
    is_told_of_ends(&sandbox);
    is_told_of_ends(&sandbox);
    std::fs::write(over, "").unwrap();
    weir.wait().succeeds();
    let seen: serde_json::Value = serde_json::from_slice(&std::fs::read(evidence).unwrap()).unwrap();
    assert!(seen["facts"]["disk"].is_null(), "{}", seen["facts"]);
    let told = seen["windows"].to_string().contains("/data/out: it is on tmpfs, which is memory");
    assert!(told, "{}", seen["windows"]);
}

/// Has the root of a file system open whose server never answers.
const AWAY: &str = "import ctypes,os,sys,time
libc = ctypes.CDLL(None, use_errno=True)
server = os.open('/dev/fuse', os.O_RDWR)
options = f'fd={server},rootmode=40000,user_id=0,group_id=0'
private = ctypes.c_ulong(0x44000)
if libc.unshare(0x20000) or libc.mount(None, b'/', None, private, None) or libc.mount(
        b'away', sys.argv[1].encode(), b'fuse', 0, options.encode()):
    sys.exit(os.strerror(ctypes.get_errno()))
os.open(sys.argv[1], os.O_PATH)
print('ready', flush=True)
time.sleep(60)";

#[test]
fn a_file_system_whose_server_is_away_is_not_waited_for() {
    if !rustix::process::geteuid().is_root() || !has("python3") {
        return skip("needs root and python3");
    }
    let sandbox = Sandbox::new();
    let folder = sandbox.path("away");
    std::fs::create_dir(&folder).unwrap();
    let mut command = Command::new("python3");
    let mut child = command.args(["-c", AWAY]).arg(&folder).stdout(Stdio::piped()).spawn().unwrap();
    let is_ready = child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).is_ok();
    let run = is_ready.then(|| why(&["--for", "500ms", "--pid", &child.id().to_string()]).run());
    // When the server ends, so do all waits for it.
    let is_there = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    let Some(run) = run else { return skip("no FUSE here") };
    run.exits(1);
    assert!(is_there, "weir waited for it");
}

/// A sender and its sink that live together in a network namespace of their own.
const SECLUDED: &str = "import socket,threading,time
listener = socket.create_server(('127.0.0.1', 0))
near = socket.create_connection(listener.getsockname())
far = listener.accept()[0]
print('ready', flush=True)
threading.Thread(target=lambda: [None for _ in iter(lambda: far.recv(65536), b'')], daemon=True).start()
end = time.time() + 20
while time.time() < end:
    near.sendall(b'x' * 20000)
    time.sleep(0.02)";

/// Whoever may not go there is told so, and gets no verdict on what others do here.
#[test]
fn a_network_namespace_that_may_not_be_entered_is_refused() {
    if !rustix::process::geteuid().is_root() || !has("unshare") || !has("setpriv") {
        return skip("needs root, unshare and setpriv");
    }
    let nobody = Nobody::new();
    let script = format!("exec setpriv {} sh -c 'echo ready; exec sleep 60'", NOBODY.join(" "));
    let mut command = Command::new("unshare");
    let mut child = command.args(["--net", "sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    let (code, said, error) = nobody.why(&["--for", "500ms", "--pid", &child.id().to_string()]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((code, said.as_str()), (Some(1), ""), "{error}");
    assert!(error.contains("lives in another network namespace"), "{error}");
}

#[test]
fn a_process_in_another_network_namespace_is_looked_at_there() {
    if !rustix::process::geteuid().is_root() || !has("unshare") || !has("ip") || !has("python3") {
        return skip("needs root, unshare, ip and python3");
    }
    let script = "ip link set lo up && exec python3 -c \"$0\"";
    let mut child = Command::new("unshare")
        .args(["--net", "sh", "-c", script, SECLUDED])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    let run = why(&["--json", "--for", "1s", "--pid", &child.id().to_string()]).run();
    child.kill().unwrap();
    child.wait().unwrap();
    run.succeeds();
    let record = run.json();
    assert_eq!(record["why"]["connections"], 1, "{}", record["why"]);
    assert_eq!(record["verdict"]["limit"], "application", "{}", record["verdict"]);
}
