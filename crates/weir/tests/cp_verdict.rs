//! `weir cp` names what holds it: each cause is made, and the report has to say so.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "cp_verdict/congestion.rs"]
mod congestion;
mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{MIB, Sandbox, Sshd, WEIR, pattern, skip, wait_for};
use weir_bench::corpus::{Corpus, Kind};
use weir_lab::leftovers::Folder;
use weir_lab::netns::Namespace;
use weir_lab::slow_disk::{SlowDisk, SlowDiskConfig};
use weir_units::{Bytes, Rate};

/// The share of the run's time that was held by any of these limits, and the record for words.
fn held(record: &Value, limits: &[&str]) -> f64 {
    limits.iter().filter_map(|limit| record["verdict"]["shares"][*limit].as_f64()).sum()
}

/// The verdict is one of these, or they hold most of the time together.
#[track_caller]
fn names(record: &Value, limits: &[&str]) {
    let verdict = &record["verdict"];
    let main = verdict["limit"].as_str().unwrap_or("none");
    let share = held(record, limits);
    assert!(limits.contains(&main) || share > 0.6, "{main} (share {share:.2} of {limits:?}): {verdict:#}");
}

/// One test at a time: each makes something the limit, and must not be another's.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

fn root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("slow links and disks can only be made by root");
    }
    root
}

fn text(size: usize) -> Vec<u8> {
    let block: Vec<u8> = Corpus::generate(Kind::Text, 8 << 20).blocks().flatten().copied().collect();
    block.into_iter().cycle().take(size).collect()
}

#[test]
fn a_full_link() {
    let _alone = alone();
    if !root() {
        return;
    }
    let namespace = Namespace::new().unwrap();
    for words in
        ["ip link set lo mtu 1500", "tc qdisc add dev lo root tbf rate 80mbit burst 40000 latency 50ms"]
    {
        let mut words = words.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        namespace.enter(&mut command).unwrap();
        assert!(command.status().unwrap().success());
    }
    let Some(sshd) = Sshd::start_in(&namespace, "127.0.0.1") else { return };
    let sandbox = Sandbox::new();
    for (name, data) in [("noise", pattern(24 * MIB, 1)), ("text", text(60 * MIB))] {
        sandbox.write(name, data);
        let to = format!("far:{}", sandbox.path("b").display());
        let mut weir = sshd.cp(&sandbox, &["--json", name, &to]);
        namespace.enter(&mut weir.command).unwrap();
        let record = weir.run().succeeds().json();
        // Of what shrinks the chooser takes as strong a codec as fills the link and the processors alike.
        names(&record, if name == "text" { &["path-bandwidth", "compress"] } else { &["path-bandwidth"] });
    }
}

#[test]
fn a_rate_that_the_user_set() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    // One codec, so that whatever else the processors do at this time does not make another one the limit.
    for (name, codec, data) in [("noise", "none", pattern(10 * MIB, 1)), ("text", "lz4", text(20 * MIB))] {
        sandbox.write(name, data);
        let args = ["cp", "--json", "--limit-rate", "5M", "--codec", codec, name, "b"];
        let record = sandbox.weir(WEIR, args).run().succeeds().json();
        names(&record, &["rate-limit"]);
        let foretold = record["prediction"]["rate"].as_f64().filter(|_| codec == "none");
        assert!(foretold.is_none_or(|rate| rate <= 5.01e6), "beyond the limit: {}", record["prediction"]);
    }
}

/// A disk for one test, and what holds its folder.
fn disk(write: f64, dirty: Option<u64>) -> Option<(Folder, SlowDisk)> {
    let folder = Folder::new().ok()?;
    let config = SlowDiskConfig { rate: Rate(write), dirty: dirty.map(Bytes), size: Bytes(1 << 30) };
    match SlowDisk::make(&folder, "disk", &config) {
        Ok(disk) => Some((folder, disk)),
        Err(error) => {
            skip(&error.to_string());
            None
        }
    }
}

#[test]
fn a_slow_disk_at_the_target() {
    let _alone = alone();
    let Some((_folder, disk)) = root().then(|| disk(20e6, Some(8 << 20))).flatten() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(60 * MIB, 1));
    let target = disk.path().join("b").display().to_string();
    let mut weir = sandbox.weir(WEIR, ["cp", "--json", "a", &target]);
    disk.join(&mut weir.command).unwrap();
    let record = weir.run().succeeds().json();
    names(&record, &["dirty-throttle", "disk"]);
}

#[test]
fn a_slow_disk_at_the_source() {
    let _alone = alone();
    let Some((_folder, disk)) = root().then(|| disk(1e9, None)).flatten() else { return };
    let sandbox = Sandbox::new();
    let source = disk.path().join("a");
    std::fs::write(&source, pattern(40 * MIB, 1)).unwrap();
    let file = std::fs::File::open(&source).unwrap();
    file.sync_all().unwrap();
    // Out of memory, so that it is read from the disk.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    disk.limit_reads(Rate(20e6)).unwrap();
    let source = source.display().to_string();
    let mut weir = sandbox.weir(WEIR, ["cp", "--json", &source, "b"]);
    disk.join(&mut weir.command).unwrap();
    let record = weir.run().succeeds().json();
    names(&record, &["source-disk"]);
}

#[test]
fn a_codec_that_is_too_strong() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    sandbox.write("a", text(12 * MIB));
    let record = sandbox.weir(WEIR, ["cp", "--json", "--codec", "zstd:19", "a", "b"]).run().succeeds().json();
    names(&record, &["compress"]);
}

/// The far end of a copy, by what it was started as and what is in its environment.
fn far_end(mark: &str) -> Pid {
    let is_ours = |process: &Path| {
        let ours = || std::fs::read(process.join("environ")).unwrap_or_default();
        std::fs::read(process.join("cmdline")).is_ok_and(|line| line.ends_with(b"\0peer\0"))
            && ours().windows(mark.len()).any(|bytes| bytes == mark.as_bytes())
    };
    let mut found = None;
    wait_for("a far end", || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let mut ours = processes.filter(|process| is_ours(process));
        found = ours.find_map(|process| Pid::from_raw(process.file_name()?.to_str()?.parse().ok()?));
        found.is_some()
    });
    found.unwrap()
}

/// Of an end that stands still nothing is known meanwhile: not that it went on as it did before, and not that
/// it was in nobody's way.
#[test]
fn an_end_that_stands_still_is_not_seen() {
    let _alone = alone();
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(40 * MIB, 1));
    let (far, cache) = (format!("far:{}", sandbox.path("b").display()), sshd.path("cache"));
    let from = format!("far:{}", sandbox.path("a").display());
    for (who, paths) in [("the receiver", ["a", far.as_str()]), ("the sender", [from.as_str(), "b"])] {
        let args = ["--json", "--limit-rate", "20M", "--codec", "none"];
        let running = sshd.cp(&sandbox, &args).args(&paths).spawn();
        wait_for("a part", || sandbox.path(".b.weir-part").exists());
        let stands = far_end(&cache.display().to_string());
        kill_process(stands, Signal::STOP).unwrap();
        // Three times as long as the copy takes by itself.
        std::thread::sleep(Duration::from_secs(6));
        kill_process(stands, Signal::CONT).unwrap();
        let record = running.wait().succeeds().json();
        let verdict = &record["verdict"];
        let lines = |member: &str| -> Vec<String> {
            let lines = verdict[member].as_array().unwrap().iter();
            lines.map(|line| line.as_str().unwrap().to_owned()).collect()
        };
        let told =
            lines("missing").into_iter().find(|line| line.starts_with(&format!("{who} was not seen for ")));
        let told = told.unwrap_or_else(|| panic!("nothing of {who}: {verdict:#}"));
        let seconds: f64 = told.split(' ').nth(6).unwrap().parse().unwrap();
        assert!((4.5..8.0).contains(&seconds), "{told}");
        // What stood still did not write, read or keep to a rate.
        let of_both = ["disk", "dirty-throttle", "rate-limit", "sender-or-path", "source-disk"];
        let known = held(&record, &[&of_both[..], &["reader", "receive-window"]].concat());
        assert!(known < 0.5, "{verdict:#}");
        let innocent = lines("innocent");
        // A receiver that was seen all the time is known; one that was not is not ruled out.
        let ruled_out = innocent.iter().any(|line| line.starts_with("reader"));
        assert!(who == "the sender" || !ruled_out, "{verdict:#}");
        assert!(sandbox.read("a") == sandbox.read("b"));
        std::fs::remove_file(sandbox.path("b")).unwrap();
    }
}
