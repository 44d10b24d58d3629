//! `weir lab shell`: the command sees the path that was asked for and a server at its far end, its exit code
//! is passed on, and nothing stays behind, however it ends.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{Run, Sandbox, TIMEOUT, WEIR, Weir, pattern, skip, wait_for};

/// `weir lab shell FLAGS -- sh -c SCRIPT`.
fn shell(sandbox: &Sandbox, flags: &[&str], script: &str) -> Weir {
    sandbox.weir(WEIR, ["lab", "shell"]).args(flags).args(&["--", "sh", "-c", script])
}

fn stdout(run: &Run) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

/// Whether this machine lets this user make paths.
pub(crate) fn possible(sandbox: &Sandbox) -> bool {
    let run = shell(sandbox, &[], "exit 0").run();
    if !run.status.success() {
        skip(&run.stderr);
    }
    run.status.success()
}

pub(crate) fn has(program: &str) -> bool {
    let found = std::process::Command::new(program).arg("--version").stdout(Stdio::null()).status();
    if found.is_err() {
        skip(&format!("{program} is not installed"));
    }
    found.is_ok()
}

#[test]
fn the_exit_code_is_the_commands() {
    let sandbox = Sandbox::new();
    if !possible(&sandbox) {
        return;
    }
    shell(&sandbox, &[], "exit 42").run().exits(42);
    shell(&sandbox, &[], "kill -TERM $$").run().exits(128 + 15);
    let lab = sandbox.weir(WEIR, ["lab", "shell", "--", "./no-such-program"]);
    lab.run().fails(127, &["cannot run ./no-such-program: command not found"]);
    let lab = sandbox.weir(WEIR, ["lab", "shell", "--", "/etc/passwd"]);
    lab.run().fails(126, &["cannot run /etc/passwd: permission denied"]);
}

#[test]
fn the_far_end_serves_and_only_it_is_there() {
    let sandbox = Sandbox::new();
    if !possible(&sandbox) || !has("curl") {
        return;
    }
    fs::create_dir(sandbox.path("files")).unwrap();
    let content = pattern(300_000, 1);
    sandbox.write("files/a", &content);
    // A proxy of the outside cannot be reached from inside, and must not be tried.
    let run = shell(&sandbox, &["--serve", "files"], "curl -sS -o a $WEIR_LAB_URL/a && echo $WEIR_LAB_PEER")
        .env("http_proxy", "http://127.0.0.1:9")
        .run();
    run.succeeds();
    assert!(sandbox.read("a") == content, "other bytes than those served");
    assert_eq!(stdout(&run).trim(), "10.200.0.2");
    let run = shell(&sandbox, &[], "curl -sS $WEIR_LAB_URL/1M | wc -c; cat /proc/net/dev").run();
    run.succeeds();
    assert_eq!(stdout(&run).lines().next().unwrap().trim(), "1000000");
    let devices = stdout(&run).lines().filter(|line| line.contains(':')).count();
    assert_eq!(devices, 2, "more than lo and weir0: {}", stdout(&run));
}

#[test]
fn delay_and_rate_are_those_asked_for() {
    let sandbox = Sandbox::new();
    if !possible(&sandbox) || !has("curl") {
        return;
    }
    let times = "curl -sS -o /dev/null -w '%{time_connect} %{time_total}' $WEIR_LAB_URL/1M";
    let run = shell(&sandbox, &["--delay", "30ms", "--rate", "20Mbit"], times).run();
    run.succeeds();
    let seconds: Vec<f64> = stdout(&run).split(' ').map(|text| text.parse().unwrap()).collect();
    // Never too fast, whatever else the machine does: a round trip, then as long as the bytes need.
    assert!(seconds[0] >= 0.060 && seconds[1] - seconds[0] >= 1e6 / 2.5e6, "{seconds:?}");
    // Without a path asked for there is none to wait for. One of five may have had to wait for a processor.
    let five = "for i in 1 2 3 4 5; do curl -sS -o /dev/null -w '%{time_connect}\\n' $WEIR_LAB_URL/1M; done";
    let run = shell(&sandbox, &[], five).run();
    let free: Vec<f64> = stdout(&run).lines().map(|text| text.parse().unwrap()).collect();
    assert!(free.len() == 5 && free.iter().any(|seconds| *seconds < 0.060), "connecting took {free:?} s");
}

#[test]
fn bad_flags_are_refused_before_anything_is_set_up() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--rate", "fast"], &["--rate", "'fast'"]),
        (&["--rate", "0Mbit"], &["--rate", "'0Mbit'"]),
        (&["--delay", "20px"], &["--delay", "'20px'"]),
        (&["--delay=-1ms"], &["--delay", "'-1ms'"]),
        (&["--loss", "150%"], &["--loss", "'150%'"]),
        (&["--queue", "0p"], &["--queue", "'0p'"]),
        (&["--fidelity", "perfect"], &["--fidelity", "packet", "gso"]),
        (&["--loss", "1%", "--burst-loss", "1%,5"], &["--loss", "--burst-loss"]),
        (&["--trace", "./none", "--rate", "1Mbit"], &["--trace", "--rate"]),
        (&["--no-such-flag"], &["--no-such-flag"]),
    ];
    for (flags, says) in cases {
        let sandbox = Sandbox::new();
        shell(&sandbox, flags, "touch it-ran").run().fails(2, says);
        sandbox.has_nothing_of("it-ran");
    }
}

#[test]
fn what_cannot_be_is_said() {
    let sandbox = Sandbox::new();
    if !possible(&sandbox) {
        return;
    }
    let run = shell(&sandbox, &["--cc", "nonesuch"], "touch it-ran").run();
    run.fails(1, &["cannot set net.ipv4.tcp_congestion_control to 'nonesuch'", "these work"]);
    let run = shell(&sandbox, &["--delay", "1ms", "--jitter", "2ms"], "touch it-ran").run();
    run.fails(1, &["jitter cannot exceed the delay"]);
    let run = shell(&sandbox, &["--trace", "none"], "touch it-ran").run();
    run.fails(1, &["none", "no such file"]);
    sandbox.has_nothing_of("it-ran");
}

/// Ends a shell by `signal` while its command, the command's child and one that has lost its parent run. All
/// of them hold the pipe, so that [`Running::wait`](support::Running::wait) returns only when they have
/// ended.
fn end_by(sandbox: &Sandbox, signal: Signal) -> Run {
    let script = "sh -c 'sleep 600 & echo $! >orphan'; sleep 600 & echo $! >child; echo $$ >command; wait";
    let running = shell(sandbox, &[], script).spawn();
    let names = ["orphan", "child", "command"];
    wait("the command", || names.iter().all(|name| pid_in(sandbox, name).is_some()));
    let namespace = names.map(|name| namespace_of(pid_in(sandbox, name).unwrap()).unwrap());
    assert!(namespace[0] == namespace[1] && namespace[1] == namespace[2], "{namespace:?}");
    running.signal(signal);
    let run = running.wait();
    wait("the namespace's end", || !in_use(&namespace[0]));
    for name in names {
        fs::remove_file(sandbox.path(name)).unwrap();
    }
    run
}

/// Waits for a condition of the machine that nobody signals.
fn wait(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pid_in(sandbox: &Sandbox, name: &str) -> Option<u32> {
    fs::read_to_string(sandbox.path(name)).ok()?.trim().parse().ok()
}

fn namespace_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// Whether any process is in that namespace.
fn in_use(namespace: &Path) -> bool {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.any(|pid| namespace_of(pid).is_some_and(|other| other == namespace))
}

#[test]
fn whatever_ends_it_ends_all_that_the_command_started() {
    let sandbox = Sandbox::new();
    if !possible(&sandbox) {
        return;
    }
    end_by(&sandbox, Signal::TERM).exits(128 + 15);
    end_by(&sandbox, Signal::HUP).exits(128 + 1);
    end_by(&sandbox, Signal::INT).exits(128 + 2);
    assert_eq!(end_by(&sandbox, Signal::KILL).status.code(), None, "killed");
}

#[test]
fn the_guard_ends_with_all_when_it_is_killed_itself() {
    let sandbox = Sandbox::new();
    if !possible(&sandbox) {
        return;
    }
    let mut lab = shell(&sandbox, &[], "echo $PPID; exec sleep 600");
    let mut child = lab.command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let guard = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    kill_process(guard, Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 9));
}

#[test]
fn what_runs_on_in_the_background_ends_with_the_command() {
    let sandbox = Sandbox::new();
    if !possible(&sandbox) {
        return;
    }
    // Returns only when the sleeper's end of the pipe is closed.
    shell(&sandbox, &[], "sleep 600 & exit 7").run().exits(7);
}

/// As some supervisors start what they run.
#[test]
fn an_exit_code_is_kept_where_the_ends_of_children_are_ignored() {
    let sandbox = Sandbox::new();
    if !possible(&sandbox) {
        return;
    }
    let ignoring = "trap '' CHLD; exec \"$@\"";
    let args = ["-c", ignoring, "sh", WEIR, "lab", "shell", "--", "sh", "-c", "exit 7"];
    sandbox.weir("sh", args).run().exits(7);
}

#[test]
fn a_closed_stdout_does_not_end_the_command() {
    let sandbox = Sandbox::new();
    if !possible(&sandbox) {
        return;
    }
    let script = format!("exec {WEIR} lab shell -- sh -c 'echo hi; exit 7' >&-");
    sandbox.weir("sh", ["-c", &script]).run().exits(7);
}

/// What namespaces may choose where no lab has added to it: other tests' labs keep the old list in a record.
fn allowed_without_labs() -> String {
    let record = || fs::read_to_string("/run/weir/tcp_allowed_congestion_control").unwrap_or_default();
    let mut found = None;
    wait_for("two equal readings of the record", || {
        let before = record();
        let now = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap();
        found = (record() == before).then(|| before.lines().next().map_or(now, str::to_owned));
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_congestion_control_can_be_asked_for() {
    let sandbox = Sandbox::new();
    let available =
        fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    if !possible(&sandbox) {
        return;
    }
    let before = allowed_without_labs();
    for name in ["reno", "cubic", "bbr"].into_iter().filter(|name| available.contains(name)) {
        let show = "cat /proc/sys/net/ipv4/tcp_congestion_control";
        let run = shell(&sandbox, &["--cc", name], show).run();
        if run.stderr.contains("allow it as root") {
            return skip(&run.stderr);
        }
        run.succeeds();
        assert_eq!(stdout(&run).trim(), name);
    }
    let after = allowed_without_labs();
    assert!(before.split_whitespace().all(|name| after.contains(name)), "{before} became {after}");
}

#[test]
fn with_ssh_the_far_end_lets_weir_cp_in_and_nothing_of_it_stays() {
    let sandbox = Sandbox::new();
    if !possible(&sandbox) || !has_sshd() {
        return;
    }
    let content = pattern(3_000_000, 2);
    sandbox.write("a", &content);
    fs::create_dir(sandbox.path("tmp")).unwrap();
    // A session that is left behind holds the far end's namespace unless it is ended.
    let script = "ssh -f -F $WEIR_LAB_SSH far sleep 600; $WEIR cp -q -F $WEIR_LAB_SSH a far:$PWD/b && cp $WEIR_LAB_SSH config";
    let tmp = sandbox.path("tmp");
    let lab = shell(&sandbox, &["--ssh"], script).env("WEIR", WEIR).env("TMPDIR", &tmp);
    lab.run().succeeds();
    assert!(sandbox.read("b") == content, "another file than the source");
    let config = sandbox.read("config");
    assert!(String::from_utf8_lossy(&config).contains("HostName 10.200.0.2"), "far is the far end");
    assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0, "keys and configuration are removed");
    let line = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let folder = tmp.to_string_lossy().into_owned();
    // What was killed may be there for a moment yet.
    wait("the last sshd's end", || {
        let mut lines = fs::read_dir("/proc").unwrap().flatten().map(line);
        !lines.any(|line| String::from_utf8_lossy(&line).contains(&folder))
    });
}

/// sshd separates privileges, which only root can.
fn has_sshd() -> bool {
    let there =
        ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"].iter().any(|path| Path::new(path).exists());
    if !there || !rustix::process::geteuid().is_root() {
        skip("an sshd in the lab needs root and openssh-server");
        return false;
    }
    true
}
