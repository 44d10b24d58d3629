//! Signals of a command that weir runs: Ctrl-C and kill(1) each come to it once.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::lab_shell::{has, possible};
use crate::support;

use std::io::Write;

use rustix::process::Signal;
use support::{Sandbox, WEIR, wait_for};

/// Counts SIGINT until SIGTERM comes, and ends with the count. Of several that wait SIGINT is the first.
const COUNTS: &str = "import signal, sys
both = {signal.SIGINT, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, both)
count = 0
print('ready', file=sys.stderr, flush=True)
while signal.sigwait(both) == signal.SIGINT:
    count += 1
    print('counted', file=sys.stderr, flush=True)
sys.exit(40 + count)
";

/// Who sends SIGINT.
enum Sender {
    /// Ctrl-C.
    Terminal,
    /// kill(1), to weir alone.
    Kill,
}

/// Runs `weir WORDS -- COUNTS` on a terminal of its own, its stdin that or none.
fn counts_one(words: &str, sender: &Sender, stdin: &str) {
    let sandbox = Sandbox::new();
    sandbox.write("counts.py", COUNTS);
    let script = format!("exec {WEIR} {words} -- python3 counts.py 2>said {stdin}");
    let (near, terminal, running) = support::on_terminal(&sandbox, &script);
    let mut near = std::fs::File::from(near);
    let has_said = |word: &str| String::from_utf8_lossy(&sandbox.read("said")).contains(word);
    wait_for("the command", || sandbox.path("said").exists() && has_said("ready"));
    wait_for("its handler", || running.catches(Signal::INT));
    match sender {
        Sender::Terminal => near.write_all(b"\x03").unwrap(),
        Sender::Kill => running.signal(Signal::INT),
    }
    wait_for("a signal", || has_said("counted"));
    running.signal(Signal::TERM);
    running.wait().exits(41);
    drop((near, terminal));
}

#[test]
fn an_interrupt_comes_once() {
    if !has("python3") {
        return;
    }
    for words in ["why -q", "lab shell"] {
        if words == "lab shell" && !possible(&Sandbox::new()) {
            continue;
        }
        counts_one(words, &Sender::Terminal, "");
        counts_one(words, &Sender::Terminal, "</dev/null");
        counts_one(words, &Sender::Kill, "");
        counts_one(words, &Sender::Kill, "</dev/null");
    }
}

/// While the path is made nobody else has what the terminal sends.
#[test]
fn an_interrupt_before_there_is_a_command_is_not_lost() {
    let sandbox = Sandbox::new();
    if !possible(&sandbox) {
        return;
    }
    assert!(std::process::Command::new("mkfifo").arg(sandbox.path("trace")).status().unwrap().success());
    let running = sandbox.weir(WEIR, ["lab", "shell", "--trace", "trace", "--", "touch", "it-ran"]).spawn();
    wait_for("its handler", || running.catches(Signal::INT));
    running.signal(Signal::INT);
    std::fs::write(sandbox.path("trace"), "1\n2\n").unwrap();
    running.wait().exits(130);
    assert!(!sandbox.path("it-ran").exists());
}
