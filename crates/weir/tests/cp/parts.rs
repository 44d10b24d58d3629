//! What an interrupted `weir cp` leaves, and what becomes of it: taken up, not believed where it is of something else, and removed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use support::{MIB, Sandbox, Sshd, pattern, wait_for};

const SIZE: usize = 16 * MIB;

/// The blocks that a part's journal tells of: behind the file's end a head of 128 bytes, then 48 for each.
fn journalled(part: &Path) -> Vec<u64> {
    let Ok(part) = std::fs::read(part) else { return Vec::new() };
    let log = part.get(SIZE + 128..).unwrap_or_default();
    log.chunks_exact(48).map(|record| u64::from_le_bytes(record[..8].try_into().unwrap())).collect()
}

/// A copy of `a` that was killed when some of it had come, its first block too.
fn interrupted(sshd: &Sshd, sandbox: &Sandbox, to: &str) {
    let running = sshd.cp(sandbox, &["-q", "--limit-rate", "16Mi", "a", to]).spawn();
    let part = sandbox.path(".b.weir-part");
    let enough = |blocks: Vec<u64>| blocks.len() >= 4 && blocks.contains(&0);
    wait_for("a part that grows", || enough(journalled(&part)));
    running.signal(Signal::KILL);
    running.wait();
}

/// A copy of `a` to `b` that was interrupted: where, of which bytes, and its target.
fn begun(sshd: &Sshd) -> (Sandbox, Vec<u8>, String) {
    let sandbox = Sandbox::new();
    let bytes = pattern(SIZE, 1);
    sandbox.write("a", &bytes);
    let to = format!("far:{}", sandbox.path("b").display());
    interrupted(sshd, &sandbox, &to);
    (sandbox, bytes, to)
}

fn resumed(sshd: &Sshd, sandbox: &Sandbox, to: &str) -> u64 {
    let record = sshd.copies(sandbox, &["--resume", "--json", "a", to]).succeeds().json();
    assert_eq!(sandbox.names(), ["a", "b"], "the part is gone");
    record["resumed"].as_u64().unwrap_or(0)
}

/// Size and time say which file it is. One that was changed behind their back shows that the source does not read again what the
/// journal covers.
#[test]
fn what_the_journal_covers_is_not_sent_again() {
    let Some(sshd) = Sshd::start() else { return };
    let (sandbox, bytes, to) = begun(&sshd);
    let source = File::options().write(true).open(sandbox.path("a")).unwrap();
    let time = source.metadata().unwrap().modified().unwrap();
    source.write_all_at(b"changed", 1000).unwrap();
    source.set_modified(time).unwrap();
    assert!(resumed(&sshd, &sandbox, &to) >= 4 * MIB as u64);
    assert!(sandbox.read("b") == bytes, "as it was when it was read");
}

#[test]
fn what_came_of_an_older_version_is_not_believed() {
    let Some(sshd) = Sshd::start() else { return };
    for size in [SIZE, SIZE + 1] {
        let (sandbox, _, to) = begun(&sshd);
        let newer = pattern(size, 2);
        sandbox.write("a", &newer);
        let later = std::time::SystemTime::now() + Duration::from_secs(5);
        File::open(sandbox.path("a")).unwrap().set_modified(later).unwrap();
        assert_eq!(resumed(&sshd, &sandbox, &to), 0);
        assert!(sandbox.read("b") == newer);
    }
}

#[test]
fn a_part_of_another_form_is_not_believed() {
    let Some(sshd) = Sshd::start() else { return };
    let (sandbox, bytes, to) = begun(&sshd);
    let part = File::options().write(true).open(sandbox.path(".b.weir-part")).unwrap();
    part.write_all_at(b"weir-part-log-0\n", SIZE as u64).unwrap();
    part.write_all_at(&[0; 4 * MIB], 0).unwrap();
    assert_eq!(resumed(&sshd, &sandbox, &to), 0);
    assert!(sandbox.read("b") == bytes);
}

/// Bytes of a part that is left are overwritten in a block that the journal covers.
fn overwrite(sandbox: &Sandbox, at: u64, bytes: &[u8]) {
    let part = File::options().write(true).open(sandbox.path(".b.weir-part")).unwrap();
    part.write_all_at(bytes, at).unwrap();
}

#[test]
fn a_part_that_was_changed_between_two_runs_is_mended() {
    let Some(sshd) = Sshd::start() else { return };
    let (sandbox, bytes, to) = begun(&sshd);
    let covered: Vec<u64> = journalled(&sandbox.path(".b.weir-part"));
    let last = *covered.iter().max().unwrap();
    overwrite(&sandbox, 1000, &[7; 4000]);
    overwrite(&sandbox, last * MIB as u64, &[9]);
    let copied = sshd.copies(&sandbox, &["--resume", "a", &to]);
    copied.succeeds().says(&["was changed since it was left: 2 of its blocks of 1 MiB are copied again"]);
    assert!(sandbox.read("b") == bytes, "every byte is compared before the name");
    assert_eq!(sandbox.names(), ["a", "b"], "the part is gone");
    if covered.len() > 2 {
        copied.says(&["of an earlier run"]);
    }
}

/// What is missing then is of another file than what is there: no mixture gets the name.
#[test]
fn a_changed_part_of_a_source_that_changed_behind_its_time_is_refused() {
    let Some(sshd) = Sshd::start() else { return };
    let (sandbox, _, to) = begun(&sshd);
    let source = File::options().write(true).open(sandbox.path("a")).unwrap();
    let time = source.metadata().unwrap().modified().unwrap();
    source.write_all_at(b"changed", 1000).unwrap();
    source.set_modified(time).unwrap();
    overwrite(&sandbox, 5000, b"other");
    let copied = sshd.copies(&sandbox, &["a", &to]);
    copied.fails(3, &["is another at the source than it was"]);
    assert_eq!(sandbox.names(), ["a"], "neither the name nor the part");
    sshd.copies(&sandbox, &["-q", "a", &to]).succeeds();
    assert!(sandbox.read("b") == sandbox.read("a"));
}

/// The way that the help names: parts of files that the source does not have any more go with `--delete`, those that may be
/// taken up stay.
#[test]
fn parts_that_nothing_will_take_up_go_with_delete() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("tree")).unwrap();
    std::fs::create_dir(sandbox.path("copy")).unwrap();
    sandbox.write("tree/a", "text");
    for part in ["copy/.a.weir-part", "copy/.gone.weir-part"] {
        sandbox.write(part, "left");
    }
    let to = format!("far:{}", sandbox.path("copy").display());
    sshd.copies(&sandbox, &["-q", "tree/", &to]).succeeds();
    assert!(sandbox.path("copy/.gone.weir-part").exists(), "not unasked");
    sshd.copies(&sandbox, &["-q", "--delete", "tree/", &to]).succeeds();
    assert_eq!(sandbox.names(), ["copy/", "copy/.a.weir-part", "copy/a", "tree/", "tree/a"]);
}
