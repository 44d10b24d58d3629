//! Many small files: neither end remembers more of them than what is under way.
//!
//! 20,000 by default; `WEIR_SOAK=1000000` for more.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs::{self, File};
use std::path::Path;

use support::{MIB, Sandbox, Sshd, WEIR, pattern};

/// Below this a tree is all under way at one time.
const FEW: u64 = 1000;

/// What entries under way may take: 16384 of them, with a name, attributes, numbers and an open folder.
const UNDER_WAY: u64 = 24 << 20;

#[test]
fn memory_does_not_grow_with_their_number() {
    let Some(sshd) = Sshd::start() else { return };
    let many = std::env::var("WEIR_SOAK").map_or(20_000, |count| count.parse().unwrap());
    let few = peaks(&sshd, FEW);
    let most = peaks(&sshd, many);
    println!("peak memory of {FEW} files {few:?}, of {many} files {most:?}");
    for (few, most) in few.into_iter().zip(most) {
        assert!(most < few + UNDER_WAY && most < 128 << 20, "{few} bytes for {FEW}, {most} for {many}");
    }
}

/// The peak of this end when it sends, receives, and sends what is there.
fn peaks(sshd: &Sshd, count: u64) -> [u64; 3] {
    let sandbox = Sandbox::new();
    make(&sandbox.path("a"), count);
    let far = |name: &str| format!("far:{}/", sandbox.path(name).display());
    let peak = |args: &[&str], unchanged: u64| {
        let record = sshd.cp(&sandbox, &["--json"]).args(args).run().succeeds().json();
        assert_eq!((&record["cp"]["files"], &record["cp"]["unchanged"]), (&count.into(), &unchanged.into()));
        record["peak_memory"].as_u64().unwrap()
    };
    let peaks =
        [peak(&["a/", &far("b")], 0), peak(&[&far("b"), "c/"], 0), peak(&["-u", "a/", &far("b")], count)];
    assert_eq!(found(&sandbox.path("b")), count);
    assert_eq!(found(&sandbox.path("c")), count);
    peaks
}

/// A hundred to a folder.
fn make(root: &Path, count: u64) {
    for number in 0..count {
        let folder = root.join(format!("{}/{}", number / 10_000, number / 100 % 100));
        if number % 100 == 0 {
            fs::create_dir_all(&folder).unwrap();
        }
        File::create(folder.join(format!("a file of no bytes, number {number}"))).unwrap();
    }
}

fn found(root: &Path) -> u64 {
    let entries = fs::read_dir(root).unwrap().map(Result::unwrap);
    let of = |entry: fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => found(&entry.path()),
        false => 1,
    };
    entries.map(of).sum()
}

#[test]
fn folders_beside_and_within_one_another_are_not_waited_for() {
    let sandbox = Sandbox::new();
    let mut deep = sandbox.path("a/deep");
    for index in 0..200 {
        let beside = sandbox.path(format!("a/beside{index}"));
        deep.push("in");
        for folder in [&beside, &deep] {
            fs::create_dir_all(folder).unwrap();
            ["x", "y"].iter().for_each(|name| fs::write(folder.join(name), name).unwrap());
        }
    }
    // Of 300 descriptors 75 are for folders that wait to be read.
    let run = sandbox.weir("sh", ["-c", &format!("ulimit -n 300 && exec {WEIR} cp --json a/ b/")]).run();
    assert_eq!(run.succeeds().json()["cp"]["files"], 800);
    assert_eq!(support::count(&sandbox.path("a")), support::count(&sandbox.path("b")));
}

#[test]
fn a_small_limit_of_descriptors_is_lived_with() {
    let sandbox = Sandbox::new();
    for index in 0..100 {
        let folder = sandbox.path(format!("a/folder{index}"));
        fs::create_dir_all(&folder).unwrap();
        ["x", "y"].iter().for_each(|name| fs::write(folder.join(name), name).unwrap());
    }
    sandbox.weir("sh", ["-c", &format!("ulimit -n 48 && exec {WEIR} cp a/ b/")]).run().succeeds();
    assert_eq!(support::count(&sandbox.path("a")), support::count(&sandbox.path("b")));
}

/// Looking at threads and sockets takes the last descriptors: a file that is complete does without one.
#[test]
fn a_large_file_comes_where_descriptors_run_out() {
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(30 * MIB, 1));
    sandbox.weir("sh", ["-c", &format!("ulimit -n 28 && exec {WEIR} cp -c 2 a b")]).run().succeeds();
    assert!(sandbox.read("b") == pattern(30 * MIB, 1));
}
