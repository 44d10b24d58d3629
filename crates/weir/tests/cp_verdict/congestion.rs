//! `weir cp` goes over to BBR where a path loses segments without being full, says so, and only there.
//!
//! The lab carries each packet in user space: where other tests hold it up, packets come in bursts that
//! overflow its queue.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::alone;
use crate::support::{MIB, Run, Sandbox, WEIR, pattern, skip};

/// An sshd in a namespace of its own needs root, and BBR a kernel that has it.
fn possible() -> bool {
    let sshd = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].iter().any(|path| Path::new(path).exists());
    if !sshd || !rustix::process::geteuid().is_root() {
        skip("an sshd in the lab needs root and openssh-server");
        return false;
    }
    let there = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let all = ["bbr", "cubic"].iter().all(|name| there.split_whitespace().any(|one| one == *name));
    if !all {
        skip(&format!("the kernel has no bbr or no cubic: {}", there.trim()));
    }
    all
}

/// A copy to the far end of a path, whose senders begin with CUBIC.
fn copy(sandbox: &Sandbox, path: &[&str], size: usize, flags: &str) -> Run {
    let content = pattern(size, 5);
    sandbox.write("a", &content);
    let script = format!("$WEIR cp {flags} -F $WEIR_LAB_SSH a far:$PWD/b");
    let lab = [&["lab", "shell", "--cc", "cubic", "--ssh"], path, &["--", "sh", "-c", &script]].concat();
    let run = sandbox.weir(WEIR, lab).env("WEIR", WEIR).spawn().wait_for(Duration::from_secs(200));
    run.succeeds();
    assert!(sandbox.read("b") == content, "another file than the source");
    run
}

/// What the lanes went by, one after another.
fn controls(record: &Value) -> Vec<&str> {
    let changes = record["cp"]["congestion"].as_array().unwrap();
    changes.iter().map(|change| change["control"].as_str().unwrap()).collect()
}

#[test]
fn a_path_that_loses_segments_is_left_to_bbr() {
    let _alone = alone();
    if !possible() {
        return;
    }
    let sandbox = Sandbox::new();
    // A long path: what a busy machine adds to its round trips is little beside them, and looks like no
    // queue.
    let run = copy(&sandbox, &["--rate", "100Mbit", "--delay", "50ms", "--loss", "0.5%"], 40 * MIB, "-v");
    run.says(&["congestion control: bbr from ", "for cubic slowed with each segment that the path lost"]);
    // The decision itself, when it was made.
    run.says(&[" s: trying BBR: the path loses segments at "]);
}

#[test]
fn a_full_link_stays_with_what_the_system_has() {
    let _alone = alone();
    if !possible() {
        return;
    }
    let sandbox = Sandbox::new();
    let run = copy(&sandbox, &["--rate", "100Mbit", "--delay", "20ms"], 30 * MIB, "--json");
    assert_eq!(controls(&run.json()), ["cubic"], "{}", run.stderr);
}
