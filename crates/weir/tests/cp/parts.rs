//! What an interrupted `weir cp` leaves, and what becomes of it: taken up, not believed where it is of
//! something else, and removed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use support::{MIB, Sandbox, Sshd, pattern, skip, wait_for};

const SIZE: usize = 16 * MIB;

/// The blocks that a part's journal tells of: behind the file's end a head of 128 bytes, then 48 for each.
fn journalled(part: &Path) -> Vec<u64> {
    let Ok(mut part) = File::open(part) else { return Vec::new() };
    let mut log = Vec::new();
    part.seek(SeekFrom::Start(SIZE as u64 + 128)).unwrap();
    part.read_to_end(&mut log).unwrap();
    log.chunks_exact(48).map(|record| u64::from_le_bytes(record[..8].try_into().unwrap())).collect()
}

/// A copy of `a` that was killed when some of it had come, its first block too.
fn interrupted(sshd: &Sshd, sandbox: &Sandbox, to: &str) {
    // Four seconds, of which one or two are waited for.
    let running = sshd.cp(sandbox, &["-q", "--limit-rate", "4Mi", "a", to]).spawn();
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

#[test]
fn what_the_journal_covers_is_not_sent_again() {
    let Some(sshd) = Sshd::start() else { return };
    let (sandbox, bytes, to) = begun(&sshd);
    assert!(resumed(&sshd, &sandbox, &to) >= 4 * MIB as u64);
    assert!(sandbox.read("b") == bytes);
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
    copied
        .succeeds()
        .says(&["was changed since the interruption: 2 of its blocks of 1 MiB are copied again"]);
    assert!(sandbox.read("b") == bytes, "every byte is compared before the name");
    assert_eq!(sandbox.names(), ["a", "b"], "the part is gone");
    if covered.len() > 2 {
        copied.says(&["of an earlier run"]);
    }
}

/// What is missing then is of another file than what is there: no mixture gets the name, whether the part was
/// changed as well or not, and also where the other end has blocks that nobody asks for again.
#[test]
fn a_source_that_changed_behind_its_time_is_copied_anew() {
    let Some(sshd) = Sshd::start() else { return };
    for is_part_changed in [true, false] {
        let (sandbox, _, to) = begun(&sshd);
        let source = File::options().write(true).open(sandbox.path("a")).unwrap();
        let time = source.metadata().unwrap().modified().unwrap();
        source.write_all_at(b"changed", 1000).unwrap();
        source.set_modified(time).unwrap();
        if is_part_changed {
            overwrite(&sandbox, 5000, b"other");
        }
        let copied = sshd.copies(&sandbox, &["a", &to]);
        copied.succeeds().says(&["b is not what it was when its copy was begun: all of it is copied again"]);
        copied.hides("of an earlier run");
        assert!(sandbox.read("b") == sandbox.read("a"), "part changed: {is_part_changed}");
        assert_eq!(sandbox.names(), ["a", "b"], "the part is gone");
    }
}

/// Most of it is there already, and of another file by now: nothing that is sent could show it.
#[test]
fn a_whole_part_of_an_earlier_version() {
    let Some(sshd) = Sshd::start() else { return };
    let (sandbox, mut bytes, to) = begun(&sshd);
    let part = sandbox.path(".b.weir-part");
    // The rest comes to the part by a second run that is cut off when all of it is there but its name.
    let running = sshd.cp(&sandbox, &["-q", "--limit-rate", "1Mi", "a", &to]).spawn();
    wait_for("nearly all of it", || journalled(&part).len() >= 14);
    running.signal(Signal::KILL);
    running.wait();
    let covered = journalled(&part);
    let changed = *covered.iter().min().unwrap() as usize * MIB + 17;
    bytes[changed] ^= 1;
    let source = File::options().write(true).open(sandbox.path("a")).unwrap();
    let time = source.metadata().unwrap().modified().unwrap();
    source.write_all_at(&bytes[changed..=changed], changed as u64).unwrap();
    source.set_modified(time).unwrap();
    sshd.copies(&sandbox, &["--checksum", "a", &to]).succeeds();
    assert!(sandbox.read("b") == bytes);
}

/// The way that the help names: parts of files that the source does not have any more go with `--delete`,
/// those that may be taken up stay.
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

/// Files of this user that happen to have the name, and what only others can have put there: none is written
/// into, none is removed.
#[test]
fn what_has_the_name_of_a_part_and_is_none_is_put_aside() {
    let sandbox = Sandbox::new();
    let bytes = pattern(SIZE, 1);
    sandbox.write("a", &bytes);
    sandbox.write(".b.weir-part", "a letter");
    std::fs::create_dir(sandbox.path(".c.weir-part")).unwrap();
    sandbox.write(".c.weir-part/kept", "text");
    // One that is as large as a part, whatever is in it.
    sandbox.write(".d.weir-part", pattern(SIZE + MIB + 4000, 2));
    // That of a run that was killed before it wrote a byte is taken again.
    sandbox.write(".e.weir-part", "");
    sandbox.weir(support::WEIR, ["cp", "a", "e"]).run().succeeds();
    assert!(sandbox.read("e") == bytes && !sandbox.path(".e.weir-part.aside-1").exists());
    for (to, why) in [("b", "holds nothing that weir left"), ("c", "is a folder"), ("d", "holds nothing")] {
        let run = sandbox.weir(support::WEIR, ["cp", "a", to]).run();
        let part = format!(".{to}.weir-part");
        run.succeeds().says(&[why, &part, &format!("renamed to {part}.aside-1")]);
        assert!(sandbox.read(to) == bytes);
    }
    assert_eq!(sandbox.read(".b.weir-part.aside-1"), b"a letter");
    assert_eq!(sandbox.read(".c.weir-part.aside-1/kept"), b"text");
    assert!(sandbox.read(".d.weir-part.aside-1") == pattern(SIZE + MIB + 4000, 2));
}

/// A complete file that cannot have its name keeps its log: the next run goes on with it, and puts nothing
/// aside.
#[test]
fn a_complete_part_that_gets_no_name_is_kept() {
    let sandbox = Sandbox::new();
    let bytes = pattern(SIZE, 1);
    sandbox.write("a", &bytes);
    // A backup of it would have a name that is too long.
    let name = "n".repeat(255);
    sandbox.write(&name, "old");
    for _ in 0..2 {
        let run = sandbox.weir(support::WEIR, ["cp", "--backup", "a", &name]).run();
        run.fails(1, &["cannot keep a backup of", "shorten it"]);
        assert_eq!(sandbox.read(&name), b"old");
        let names = sandbox.names();
        assert!(names.len() == 3 && names[0].ends_with(".weir-part"), "{names:?}");
    }
    let record = sandbox.weir(support::WEIR, ["cp", "--json", "a", &name]).run().succeeds().json();
    assert_eq!(record["resumed"], SIZE);
    assert!(sandbox.read(&name) == bytes);
    assert_eq!(sandbox.names(), ["a", name.as_str()]);
}

/// A hole of a tebibyte, which nobody could read, hash or send in the time of a test, with a few bytes where
/// `data` says.
fn plant_holes(sandbox: &Sandbox, name: &str, size: u64, data: &[u64]) {
    let file = File::create(sandbox.path(name)).unwrap();
    file.set_len(size).unwrap();
    data.iter().for_each(|at| file.write_all_at(b"data", *at).unwrap());
}

/// The copy has these bytes at these places, takes no more room than they need, and is as long.
#[track_caller]
fn has_holes(sandbox: &Sandbox, name: &str, size: u64, data: &[u64]) {
    use std::os::unix::fs::MetadataExt;
    let file = File::open(sandbox.path(name)).unwrap();
    let there = file.metadata().unwrap();
    assert_eq!(there.size(), size);
    // Up to 64 KiB for what is written in pieces, and the tree of extents.
    assert!(there.blocks() * 512 <= (data.len() as u64 + 1) * (1 << 17), "{} blocks", there.blocks());
    for at in data {
        let mut bytes = [0; 6];
        let read = file.read_at(&mut bytes, *at).unwrap();
        assert_eq!(&bytes[..read], &b"data\0\0"[..read], "at {at}");
    }
}

const TIB: u64 = 1 << 40;

#[test]
fn holes_are_neither_read_nor_sent_nor_written() {
    let sandbox = Sandbox::new();
    let sshd = Sshd::start();
    let far = |name: &str| format!("far:{}", sandbox.path(name).display());
    // All hole, data in the middle, at both ends, and a hole at the end that is no whole block.
    let files: [(u64, &[u64]); 5] = [
        (TIB, &[]),
        (TIB + 5, &[TIB / 2 + 4097]),
        (TIB, &[0, TIB - 4]),
        (TIB + 4099, &[3 * MIB as u64 - 2]),
        (3 * MIB as u64 + 7, &[]),
    ];
    for (index, (size, data)) in files.into_iter().enumerate() {
        let (name, copy, there) = (format!("a{index}"), format!("b{index}"), format!("c{index}"));
        plant_holes(&sandbox, &name, size, data);
        let record = sandbox.weir(support::WEIR, ["cp", "--json", &name, &copy]).run().succeeds().json();
        has_holes(&sandbox, &copy, size, data);
        assert_eq!(record["bytes"], size);
        // A record of 64 bytes for each hole, and blocks of 1 MiB where there is anything.
        let packed = record["cp"]["packed"].as_u64().unwrap();
        assert!(packed < 2 * (data.len() * MIB) as u64 + 4096, "{packed} bytes were sent");
        if let Some(sshd) = sshd.as_ref().filter(|_| index % 2 == 1) {
            sshd.copies(&sandbox, &["-q", &name, &far(&there)]).succeeds();
            has_holes(&sandbox, &there, size, data);
            sshd.copies(&sandbox, &["-q", &far(&there), "back"]).succeeds();
            has_holes(&sandbox, "back", size, data);
        }
    }
    // By content alone they are the same, which no more takes a look at each byte.
    let record =
        sandbox.weir(support::WEIR, ["cp", "--json", "--checksum", "a1", "b1"]).run().succeeds().json();
    assert_eq!(record["cp"]["unchanged"], 1);
}

/// What an earlier run knew to be a hole is a hole still, or is asked for again.
#[test]
fn holes_of_an_interrupted_copy_are_not_read_again() {
    let sandbox = Sandbox::new();
    let file = File::create(sandbox.path("a")).unwrap();
    file.set_len(TIB).unwrap();
    let bytes = pattern(SIZE, 3);
    file.write_all_at(&bytes, TIB / 2).unwrap();
    let part = sandbox.path(".b.weir-part");
    for changed in [false, true] {
        let running = sandbox
            .weir(support::WEIR, ["cp", "-q", "--limit-rate", "4Mi", "--codec", "none", "a", "b"])
            .spawn();
        // The log stands behind the end: its head, two holes, and blocks.
        wait_for("a part that grows", || {
            part.metadata().is_ok_and(|there| there.len() >= TIB + 128 + 6 * 48)
        });
        running.signal(Signal::KILL);
        running.wait();
        if changed {
            File::options()
                .write(true)
                .open(&part)
                .unwrap()
                .write_all_at(b"strange", 5 * MIB as u64)
                .unwrap();
        }
        let run = sandbox.weir(support::WEIR, ["cp", "a", "b"]).run();
        run.succeeds().says(&["of an earlier run"]);
        if changed {
            run.says(&["was changed since the interruption: 1 of its blocks of 1 MiB are copied again"]);
        }
        let copy = File::open(sandbox.path("b")).unwrap();
        let mut there = vec![0; SIZE];
        copy.read_exact_at(&mut there, TIB / 2).unwrap();
        assert!(there == bytes);
        copy.read_exact_at(&mut there[..MIB], 5 * MIB as u64).unwrap();
        assert!(there[..MIB].iter().all(|byte| *byte == 0));
        assert!(!part.exists());
        std::fs::remove_file(sandbox.path("b")).unwrap();
    }
}

/// ramfs takes what is never written for free, but neither tells where its holes are nor makes any where
/// bytes have been.
#[test]
fn holes_on_a_file_system_that_knows_none() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root mounts");
    }
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("ram")).unwrap();
    plant_holes(&sandbox, "a", 64 * MIB as u64, &[40 * MIB as u64 + 3]);
    // There and back, in a mount namespace of its own, so that nothing is left mounted.
    let script = format!(
        "mount -t ramfs none ram && {0} cp -q a ram/b && {0} cp --json ram/b c && cmp a ram/b && cmp a c && \
         head -c 1000000 a > ram/.d.weir-part && truncate -s 70000000 ram/.d.weir-part && \
         {0} cp -q a ram/d && cmp a ram/d",
        support::WEIR
    );
    let run = sandbox.weir("unshare", ["-m", "sh", "-c", &script]).run();
    let packed = run.succeeds().json()["cp"]["packed"].as_u64().unwrap();
    assert!(packed < 2 * MIB as u64, "zeros were sent: {packed} bytes");
    has_holes(&sandbox, "c", 64 * MIB as u64, &[40 * MIB as u64 + 3]);
}
