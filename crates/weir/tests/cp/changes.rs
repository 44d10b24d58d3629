//! Sources that do not rest while `weir cp` reads them: what arrives is what the file was at one moment, or
//! nothing and a word.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use support::{MIB, Run, Running, Sandbox, Sshd, pattern, wait_for};

/// Takes two seconds at this rate: the change comes before the end on a busy machine too.
const SIZE: usize = 12 * MIB;
const RATE: &str = "6Mi";

/// A copy of `a` that has begun, both ways; `change` happens while it goes on.
fn while_copied(change: impl Fn(&Path, &Running), check: impl Fn(&Sandbox, &Run)) {
    while_copied_with(&[], change, check);
}

fn while_copied_with(flags: &[&str], change: impl Fn(&Path, &Running), check: impl Fn(&Sandbox, &Run)) {
    let Some(sshd) = Sshd::start() else { return };
    for there in [true, false] {
        let sandbox = Sandbox::new();
        let from = sandbox.write("a", pattern(SIZE, 1));
        let far = |name: &str| format!("far:{}", sandbox.path(name).display());
        let paths = if there { ["a".to_owned(), far("b")] } else { [far("a"), "b".to_owned()] };
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let running = sshd.cp(&sandbox, &["--limit-rate", RATE]).args(flags).args(&paths).spawn();
        wait_for("a part", || sandbox.path(".b.weir-part").exists());
        change(&from, &running);
        let run = running.wait();
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        check(&sandbox, &run);
    }
}

/// Either it failed and says that the file changed, and nothing has its name; or it succeeded with what the
/// file now is.
fn whole_or_said(sandbox: &Sandbox, run: &Run) {
    if run.status.success() {
        assert!(sandbox.read("a") == sandbox.read("b"), "a success with other bytes");
    } else {
        run.fails(1, &["copy it when it rests"]);
        assert_eq!(sandbox.names(), ["a"], "nothing is left of what was no file at any moment");
    }
}

fn append(path: &Path) {
    let mut file = std::fs::File::options().append(true).open(path).unwrap();
    file.write_all(b"more").unwrap();
}

/// A log: what it was at the start arrives, as by scp and tar, and that is said.
#[test]
fn a_file_that_grows() {
    while_copied(
        |path, _| append(path),
        |sandbox, run| {
            run.succeeds().says(&["grew during the copy: its first 12582912 bytes"]);
            assert!(sandbox.read("b") == pattern(SIZE, 1), "all that it had at the start");
        },
    );
    // It rests after that: what was begun is given up, and all of it copied.
    while_copied_with(
        &["--whole-or-nothing"],
        |path, _| append(path),
        |sandbox, run| {
            run.succeeds();
            assert!(sandbox.read("a") == sandbox.read("b"));
        },
    );
}

/// One that grows and is changed before its old end too was at no moment what was read.
#[test]
fn a_file_that_grows_and_changes() {
    while_copied(
        |path, _| {
            append(path);
            let file = std::fs::File::options().write(true).open(path).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, b"changed", 7).unwrap();
        },
        // As it was before all of it was read, or as it is now.
        |sandbox, run| {
            run.succeeds();
            let there = sandbox.read("b");
            assert!(there.len() >= SIZE && sandbox.read("a").starts_with(&there));
        },
    );
}

/// One that never rests arrives as it was at the start; where it is to be whole it is given up after three
/// attempts.
#[test]
fn a_file_that_grows_all_the_time() {
    grows_all_the_time(&[], |sandbox, run| {
        run.succeeds().says(&["grew during the copy"]);
        let there = sandbox.read("b");
        assert!(there.len() >= 5 * MIB && sandbox.read("a").starts_with(&there));
    });
    grows_all_the_time(&["--whole-or-nothing"], |sandbox, run| {
        run.fails(1, &["grew while it was read; copy it when it rests; its source is a"]);
        assert_eq!(sandbox.names(), ["a"]);
    });
}

fn grows_all_the_time(flags: &[&str], check: impl Fn(&Sandbox, &Run)) {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    let from = sandbox.write("a", pattern(5 * MIB, 1));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = std::fs::File::options().append(true).open(&from).unwrap();
            while !over.load(Relaxed) {
                file.write_all(b"more").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let to = format!("far:{}", sandbox.path("b").display());
        // Each try takes a second: long enough that the writer gets a processor meanwhile, however busy they
        // are.
        let run = sshd.cp(&sandbox, &["--limit-rate", "5Mi"]).args(flags).args(&["a", &to]).run();
        over.store(true, Relaxed);
        check(&sandbox, &run);
    });
}

#[test]
fn a_file_that_shrinks() {
    while_copied(
        |path, _| std::fs::File::options().write(true).open(path).unwrap().set_len(MIB as u64 + 5).unwrap(),
        whole_or_said,
    );
}

#[test]
fn a_file_that_is_only_touched() {
    let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    while_copied(
        |path, _| std::fs::File::open(path).unwrap().set_modified(now).unwrap(),
        |sandbox, run| {
            run.succeeds();
            whole_or_said(sandbox, run);
            assert_eq!(sandbox.path("b").metadata().unwrap().modified().unwrap(), now);
        },
    );
}

#[test]
fn a_file_that_vanishes_or_is_replaced() {
    let bytes = pattern(SIZE, 1);
    let old_or_nothing = |sandbox: &Sandbox, run: &Run| {
        if run.status.success() {
            assert!(sandbox.read("b") == bytes, "the file that was begun, which an open file still is");
        } else {
            run.exits(1);
            assert!(!sandbox.path("b").exists());
        }
    };
    while_copied(|path, _| std::fs::remove_file(path).unwrap(), old_or_nothing);
    while_copied(
        |path, _| {
            let other = path.with_file_name("other");
            std::fs::write(&other, pattern(SIZE, 2)).unwrap();
            std::fs::rename(other, path).unwrap();
        },
        old_or_nothing,
    );
}

/// A tree of 48 files of `size`, of which much is still to be read while `change` happens to it.
fn tree_while_copied(size: usize, change: impl Fn(&Path), check: impl Fn(&Sandbox, &Run)) {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    for folder in 0..6 {
        std::fs::create_dir_all(sandbox.path(format!("tree/{folder}"))).unwrap();
        for file in 0..8 {
            sandbox.write(&format!("tree/{folder}/{file}"), pattern(size, folder * 8 + file));
        }
    }
    let to = format!("far:{}", sandbox.path("copy").display());
    let running = sshd.cp(&sandbox, &["--limit-rate", "10Mi", "tree", &to]).spawn();
    let begun = || std::fs::read_dir(sandbox.path("copy")).is_ok_and(|folders| folders.count() > 0);
    wait_for("a folder", begun);
    change(&sandbox.path("tree"));
    let run = running.wait();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    // What came is a file of the tree as it was, whole.
    for name in sandbox.names().iter().filter(|name| name.starts_with("copy/") && !name.ends_with('/')) {
        if sandbox.path(name).is_symlink() {
            continue;
        }
        let parts: Vec<u64> = name.split('/').filter_map(|part| part.parse().ok()).collect();
        let [folder, file] = parts[..] else { panic!("{name} is left") };
        assert!(sandbox.read(name) == pattern(size, folder * 8 + file), "{name} is none of the tree");
    }
    check(&sandbox, &run);
}

#[test]
fn folders_that_vanish() {
    // Files that go many to a record, and such that go in blocks.
    for size in [300_000, 1_500_000] {
        tree_while_copied(
            size,
            |tree| {
                for folder in 0..6 {
                    std::fs::remove_dir_all(tree.join(folder.to_string())).unwrap();
                }
            },
            |_, run| {
                run.succeeds();
                assert!(run.stderr.contains(" vanished while the tree was read"), "{}", run.stderr);
            },
        );
    }
}

#[test]
fn files_replaced_by_links_and_pipes_are_not_followed_or_waited_for() {
    tree_while_copied(
        300_000,
        |tree| {
            for folder in 0..6 {
                for (file, kind) in [(6, "link"), (7, "pipe")] {
                    let path = tree.join(format!("{folder}/{file}"));
                    std::fs::remove_file(&path).unwrap();
                    match kind {
                        "link" => std::os::unix::fs::symlink("/etc/passwd", &path).unwrap(),
                        _ => assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()),
                    }
                }
            }
        },
        |sandbox, run| {
            assert!(matches!(run.status.code(), Some(0 | 1)), "{run:?}");
            let special = |name: &String| sandbox.path(name).symlink_metadata().unwrap().is_symlink();
            let mut links = sandbox.names();
            links.retain(|name| name.starts_with("copy/") && special(name));
            assert!(links.iter().all(|link| link.ends_with("/6")), "{links:?}");
        },
    );
}

/// What the kernel makes up when it is read has another size than it says: 0 in /proc, a page in /sys.
#[test]
fn files_that_the_kernel_makes_up_come_whole() {
    let Some(sshd) = Sshd::start() else { return };
    for path in ["/proc/version", "/proc/cpuinfo", "/sys/kernel/mm/transparent_hugepage/enabled"] {
        let Ok(bytes) = std::fs::read(path) else { continue };
        let sandbox = Sandbox::new();
        let to = format!("far:{}", sandbox.path("b").display());
        for flags in [&[][..], &["-u"]] {
            sshd.cp(&sandbox, flags).args(&[path, &to]).run().succeeds();
            assert_eq!(sandbox.read("b").len(), bytes.len(), "{path}");
        }
    }
    // More than fits beside others is said, not cut.
    if std::fs::read("/proc/kallsyms").is_ok_and(|bytes| bytes.len() > 2 * MIB) {
        let sandbox = Sandbox::new();
        let to = format!("far:{}", sandbox.path("b").display());
        sshd.copies(&sandbox, &["/proc/kallsyms", &to])
            .fails(1, &["reports a size of 0 and is too large", "its source is /proc/kallsyms"]);
        assert!(!sandbox.path("b").exists());
    }
}
