//! SIGKILL at any moment, at either end: the same command completes the copy, and what was journalled is not
//! sent again.
//!
//! 20 kills by default; `WEIR_SOAK=200` for more, `WEIR_SEED=N` for a run again.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::{Dice, MIB, Sandbox, Sshd, pattern, wait_for};

/// The size of the file, and how fast the first attempt moves: it would take two seconds.
const SIZE: usize = 24 * MIB;
const RATE: &str = "12Mi";

#[test]
fn killed_at_either_end_and_resumed() {
    let Some(sshd) = Sshd::start() else { return };
    let (mut dice, runs) = Dice::for_runs();
    let bytes = pattern(SIZE, 1);
    let mut kept = 0;
    for run in 0..runs {
        kept += kill_and_resume(&sshd, &bytes, run, &mut dice);
    }
    println!("{} of {} MiB were not sent again", kept >> 20, (SIZE as u64 * runs) >> 20);
    assert!(kept * 10 >= SIZE as u64 * runs, "the journals covered too little to prove anything: {kept}");
}

/// Returns the bytes that the second run did not ask for.
fn kill_and_resume(sshd: &Sshd, bytes: &[u8], run: u64, dice: &mut Dice) -> u64 {
    let sandbox = Sandbox::new();
    sandbox.write("a", bytes);
    let (near, far) = ("b".to_owned(), format!("far:{}", sandbox.path("b").display()));
    let there = run.is_multiple_of(2);
    let paths =
        if there { ["a".to_owned(), far] } else { [format!("far:{}", sandbox.path("a").display()), near] };
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let kills_far = dice.roll(0..2) == 0;
    let context = format!("run {run}: there {there}, kills the far end {kills_far}");
    let running = sshd.cp(&sandbox, &["-q", "--limit-rate", RATE]).args(&paths).spawn();
    let part = sandbox.path(".b.weir-part");
    wait_for(&format!("a part: {context}"), || part.exists());
    // Not a wait for something: a random moment is the point.
    std::thread::sleep(Duration::from_millis(dice.roll(0..1600)));
    if kills_far {
        for peer in peers(sshd) {
            let _ = kill_process(peer, Signal::KILL);
        }
    } else {
        running.signal(Signal::KILL);
    }
    let first = running.wait();
    assert!(!first.stderr.contains("panicked"), "{context}: {}", first.stderr);
    if kills_far && !first.status.success() {
        let why = "lost the connection to far: ssh's connection broke, or weir was killed there";
        assert!(first.stderr.contains(why), "{context}: {}", first.stderr);
    }
    let whole = sandbox.path("b").exists();
    let second = sshd.cp(&sandbox, &["--json"]).args(&paths).run();
    second.succeeds();
    assert!(sandbox.read("b") == bytes, "{context}: the bytes differ");
    assert_eq!(sandbox.names(), ["a", "b"], "{context}");
    wait_for(&format!("no far end: {context}"), || peers(sshd).is_empty());
    if whole { 0 } else { second.json()["resumed"].as_u64().unwrap_or(0) }
}

/// The far ends that this sshd has started.
fn peers(sshd: &Sshd) -> Vec<Pid> {
    let mark = sshd.path("cache").display().to_string();
    let is_peer = |pid: &i32| {
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let (line, environment) = (read("cmdline"), read("environ"));
        line.ends_with(b"\0peer\0") && String::from_utf8_lossy(&environment).contains(&mark)
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_peer).filter_map(Pid::from_raw).collect()
}
