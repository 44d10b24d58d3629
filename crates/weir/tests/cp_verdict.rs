//! `weir cp` names what holds it: each cause is made, and the report has to say so.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use support::{MIB, Sandbox, Sshd, WEIR, pattern, skip};
use weir_lab::leftovers::Folder;
use weir_lab::netns::Namespace;
use weir_lab::slow_disk::{SlowDisk, SlowDiskConfig};
use weir_measure::corpus::{Corpus, Kind};
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
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
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
