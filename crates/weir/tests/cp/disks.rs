//! Targets of `weir cp` without room or permission, sources that cannot be read: said clearly, and the same
//! command goes on after.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::path::PathBuf;

use support::{MIB, Run, Sandbox, Special, Sshd, WEIR, Weir, pattern, skip};

/// Who is not root: permissions hold for them.
pub(crate) const NOBODY: u32 = 65534;

/// An sshd that sees a file system of its own at `disk` of its folder.
fn with_disk(options: &str) -> Option<(Sshd, PathBuf)> {
    let script = format!("mkdir \"$CACHE/../disk\"; mount -t tmpfs -o {options} none \"$CACHE/../disk\"");
    let sshd = Sshd::special(Special { within: Some(("-m", &script)), ..Special::default() })?;
    let disk = sshd.path("disk");
    Some((sshd, disk))
}

fn names(sshd: &Sshd, disk: &std::path::Path) -> Vec<String> {
    let all = std::fs::read_dir(sshd.seen(disk)).unwrap().flatten();
    let mut names: Vec<String> = all.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_disk_without_room_is_noticed_before_the_first_byte() {
    let Some((sshd, disk)) = with_disk("size=8m") else { return };
    let sandbox = Sandbox::new();
    for size in [300_000, 20 * MIB] {
        std::fs::write(sshd.seen(&disk).join("filler"), vec![1; 8 * MIB - 100_000]).unwrap();
        sandbox.write("a", pattern(size, 1));
        let to = format!("far:{}", disk.join("b").display());
        sshd.copies(&sandbox, &["a", &to]).fails(1, &["b: no space left on device"]);
        assert_eq!(names(&sshd, &disk), ["filler"], "nothing is left of {size}");
    }
}

/// Only what was replaced was overwritten: a file that goes among others, and one that goes in blocks.
#[test]
fn a_newer_file_that_found_no_room_was_not_overwritten() {
    let Some((sshd, disk)) = with_disk("size=8m") else { return };
    let sandbox = Sandbox::new();
    let to = format!("far:{}", disk.join("b").display());
    let [there, filler] = ["b", "filler"].map(|name| sshd.seen(&disk).join(name));
    for size in [200_000, 300_000] {
        let own = std::fs::File::options().write(true).open(sandbox.write("a", pattern(size, 1))).unwrap();
        own.set_modified(std::time::UNIX_EPOCH).unwrap();
        std::fs::write(&there, "of today").unwrap();
        std::fs::write(&filler, vec![1; 8 * MIB - 100_000]).unwrap();
        let copy = || sshd.copies(&sandbox, &["-u", "a", &to]);
        let full = copy();
        full.fails(1, &["no space left on device"]);
        assert!(!full.stderr.contains("overwritten"), "{size}: {}", full.stderr);
        assert_eq!(std::fs::read(&there).unwrap(), b"of today");
        std::fs::remove_file(&filler).unwrap();
        copy().succeeds().says(&["note: 1 newer file at the target was overwritten"]);
    }
}

/// A file with a hole at its end reserves nothing, so the disk becomes full under it.
#[test]
fn a_disk_that_becomes_full_is_gone_on_with() {
    let Some((sshd, disk)) = with_disk("size=20m") else { return };
    let sandbox = Sandbox::new();
    let bytes = pattern(14 * MIB, 1);
    let file = std::fs::File::create(sandbox.path("a")).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    file.set_len(15 * MIB as u64).unwrap();
    let filler = sshd.seen(&disk).join("filler");
    std::fs::write(&filler, vec![1; 10 * MIB]).unwrap();
    let to = format!("far:{}", disk.join("b").display());
    let copy = || sshd.cp(&sandbox, &["--codec", "none", "--json", "a", &to]).run();
    copy().fails(1, &["b: no space left on device"]);
    assert_eq!(names(&sshd, &disk), [".b.weir-part", "filler"], "what came is kept");
    std::fs::remove_file(&filler).unwrap();
    let record = copy().succeeds().json();
    let resumed = record["resumed"].as_u64().unwrap_or(0);
    assert!(resumed >= 5 * MIB as u64, "{resumed} bytes were not sent again");
    assert_eq!(names(&sshd, &disk), ["b"]);
    assert!(std::fs::read(sshd.seen(&disk).join("b")).unwrap() == sandbox.read("a"));
}

#[test]
fn of_a_tree_what_has_room_comes_and_the_rest_after() {
    let Some((sshd, disk)) = with_disk("size=9m") else { return };
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("tree")).unwrap();
    for index in 0..40 {
        sandbox.write(&format!("tree/small{index}"), pattern(100_000, index));
        sandbox.write(&format!("tree/large{index}"), pattern(300_000, index));
    }
    let filler = sshd.seen(&disk).join("filler");
    std::fs::write(&filler, vec![1; 4 * MIB]).unwrap();
    let to = format!("far:{}", disk.join("tree").display());
    let first = sshd.copies(&sandbox, &["-u", "tree/", &to]);
    first.fails(1, &["no space left on device"]);
    std::fs::remove_file(&filler).unwrap();
    let grow = format!("mount -o remount,size=40m {}", disk.display());
    let pid = sshd.pid().to_string();
    let grown = sandbox.weir("nsenter", ["-t", &pid, "-m", "sh", "-c", &grow]).run();
    grown.succeeds();
    sshd.copies(&sandbox, &["-u", "tree/", &to]).succeeds();
    for index in 0..40 {
        for kind in ["small", "large"] {
            let name = format!("tree/{kind}{index}");
            assert!(std::fs::read(sshd.seen(&disk).join(&name)).unwrap() == sandbox.read(&name), "{name}");
        }
    }
    assert_eq!(names(&sshd, &disk.join("tree")).len(), 80, "nothing else is there");
}

/// A folder was renamed at the source, and the disk has no room for it twice: what is under its old name at
/// the target stays until the new one is there.
#[test]
fn a_full_disk_loses_nothing_by_delete() {
    let Some((sshd, disk)) = with_disk("size=12m") else { return };
    let sandbox = Sandbox::new();
    let fill = |folder: &str| {
        std::fs::create_dir_all(sandbox.path(folder)).unwrap();
        (0..80).for_each(|index| _ = sandbox.write(&format!("{folder}/{index}"), pattern(100_000, index)));
    };
    fill("tree/2024");
    let to = format!("far:{}", disk.join("tree").display());
    sshd.copies(&sandbox, &["-u", "tree/", &to]).succeeds();
    std::fs::rename(sandbox.path("tree/2024"), sandbox.path("tree/archive")).unwrap();
    let copied = sshd.copies(&sandbox, &["-u", "--delete", "tree/", &to]);
    copied.fails(1, &["no space left on device", "nothing was deleted from", "the disk failed"]);
    assert_eq!(names(&sshd, &disk.join("tree/2024")).len(), 80, "{}", copied.stderr);
}

#[test]
fn a_read_only_target_is_said() {
    let Some((sshd, disk)) = with_disk("ro") else { return };
    let sandbox = Sandbox::new();
    for size in [10, 300_000, 5 * MIB] {
        sandbox.write("a", pattern(size, 1));
        let to = format!("far:{}", disk.join("b").display());
        sshd.copies(&sandbox, &["a", &to]).fails(1, &["b: read-only file system"]);
    }
}

/// `weir cp` on this machine by somebody for whom permissions hold; `None` where this test cannot be somebody
/// else.
pub(crate) fn as_nobody(sandbox: &Sandbox, args: &[&str]) -> Option<Weir> {
    use std::os::unix::process::CommandExt;
    let mut cp = sandbox.weir(support::WEIR, ["cp"]).args(args);
    if rustix::process::geteuid().is_root() {
        cp.command.uid(NOBODY).gid(NOBODY);
        let mut version = sandbox.weir(support::WEIR, ["--version"]).command;
        if !version.uid(NOBODY).gid(NOBODY).status().is_ok_and(|status| status.success()) {
            skip("root cannot run the binary as another user here");
            return None;
        }
        chown(sandbox.path("."), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    Some(cp)
}

#[test]
fn a_target_that_may_not_be_written_is_said() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("locked")).unwrap();
    for size in [10, 300_000, 5 * MIB] {
        sandbox.write("a", pattern(size, 1));
        std::fs::set_permissions(sandbox.path("locked"), std::fs::Permissions::from_mode(0o555)).unwrap();
        let Some(cp) = as_nobody(&sandbox, &["a", "locked/b"]) else { return };
        cp.run().fails(1, &["b: permission denied"]);
    }
    assert_eq!(sandbox.names(), ["a", "locked/"]);
}

/// As a folder for what others hand in: it can be written and not read.
#[test]
fn a_target_that_may_not_be_read_takes_files() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("box")).unwrap();
    std::fs::create_dir(sandbox.path("own")).unwrap();
    for (name, size) in [("small", 10), ("middle", 300_000), ("large", 5 * MIB)] {
        sandbox.write(&format!("own/{name}"), pattern(size, 1));
    }
    std::fs::set_permissions(sandbox.path("box"), std::fs::Permissions::from_mode(0o1733)).unwrap();
    for name in ["small", "middle", "large"] {
        let own = format!("own/{name}");
        let Some(cp) = as_nobody(&sandbox, &[&*own, "box/"]) else { return };
        cp.run().succeeds();
        assert!(sandbox.read(&own) == sandbox.read(&format!("box/{name}")), "{name}");
    }
    // What cannot be set of another's folder is told with its reason.
    let Some(cp) = as_nobody(&sandbox, &["own/", "box/"]) else { return };
    let run = cp.run();
    run.succeeds();
    if rustix::process::geteuid().is_root() {
        run.says(&["times not kept for", "operation not permitted"]);
    }
}

/// The same of one's own: it is as its source afterwards, and as closed as it was.
#[test]
fn a_target_of_its_owner_that_may_not_be_read_is_finished() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("own")).unwrap();
    std::fs::create_dir(sandbox.path("shut")).unwrap();
    sandbox.write("own/file", "text");
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    std::fs::File::open(sandbox.path("own")).unwrap().set_modified(then).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(sandbox.path("shut"), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let set = |mode| std::fs::set_permissions(sandbox.path("shut"), std::fs::Permissions::from_mode(mode));
    set(0o300).unwrap();
    let Some(cp) = as_nobody(&sandbox, &["own/", "shut"]) else { return };
    let run = cp.run();
    let there = sandbox.path("shut").metadata().unwrap();
    // Whoever tidies up has to read it.
    set(0o700).unwrap();
    assert!(!run.succeeds().stderr.contains("not kept"), "{}", run.stderr);
    assert_eq!((there.permissions().mode() & 0o7777, there.modified().unwrap()), (0o300, then));
    assert_eq!(sandbox.read("shut/file"), b"text");
}

#[test]
fn what_may_not_be_read_is_said_and_the_rest_comes() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("tree/shut")).unwrap();
    for (name, size) in [("small", 10), ("locked-small", 10), ("large", MIB), ("locked-large", MIB)] {
        sandbox.write(&format!("tree/{name}"), pattern(size, 1));
    }
    for (name, mode) in [("locked-small", 0), ("locked-large", 0), ("shut", 0)] {
        let shut = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(sandbox.path("tree").join(name), shut).unwrap();
    }
    let Some(cp) = as_nobody(&sandbox, &["tree", "copy"]) else { return };
    cp.run().fails(
        1,
        &["locked-small: permission denied", "locked-large: permission denied", "shut: permission denied"],
    );
    let copied: Vec<String> = sandbox.names().into_iter().filter(|name| name.starts_with("copy/")).collect();
    assert_eq!(copied, ["copy/", "copy/large", "copy/shut/", "copy/small"]);
    std::fs::set_permissions(sandbox.path("tree/small"), std::fs::Permissions::from_mode(0o0)).unwrap();
    let Some(cp) = as_nobody(&sandbox, &["tree/small", "b"]) else { return };
    cp.run().fails(1, &["permission denied; its source is tree/small"]);
    assert!(!sandbox.path("b").exists());
}

/// Runs a script where `disk` is a file system that misbehaves in this way (`fuse.py`); `None` where none can
/// be mounted.
fn on_fuse(sandbox: &Sandbox, how: &str, script: &str) -> Option<Run> {
    if !rustix::process::geteuid().is_root() {
        skip("only root mounts");
        return None;
    }
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        skip("no python3");
        return None;
    }
    std::fs::create_dir(sandbox.path("disk")).unwrap();
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cp/fuse.py");
    let run = sandbox.weir("unshare", ["-m", "python3", server, "disk", how, "sh", "-c", script]).run();
    if run.status.code() == Some(77) {
        skip("no FUSE");
        return None;
    }
    Some(run)
}

/// NFS and FUSE may take all writes, and say only when a file is closed that a quota did not allow them.
#[test]
fn what_a_disk_says_when_a_file_is_closed_is_heard() {
    let sandbox = Sandbox::new();
    for (name, size) in [("small", 9000), ("large", 3 * MIB), ("part", 5 * MIB)] {
        std::fs::create_dir(sandbox.path(name)).unwrap();
        sandbox.write(&format!("{name}/{name}"), pattern(size, 1));
    }
    let script = format!(
        "for name in small large part; do
            mkdir -p disk/$name/old
            ! {WEIR} cp --delete $name/ disk/$name && [ \"$(ls -A disk/$name)\" = old ] || exit 9
         done"
    );
    let Some(run) = on_fuse(&sandbox, "quota", &script) else { return };
    run.succeeds();
    for name in ["small", "large", "part"] {
        run.says(&[&format!("cannot write {name}: disk quota exceeded"), "nothing was deleted from"]);
    }
}

/// What was copied before is told from somebody's file until the disk has all of it, which may take minutes.
#[test]
fn a_copy_that_was_killed_while_it_synced_is_gone_on_with() {
    let sandbox = Sandbox::new();
    let size = 5 * MIB;
    sandbox.write("a", pattern(size, 1));
    let script = format!(
        "{WEIR} cp -q --sync a disk/b && exit 9
         {WEIR} cp --json --sync a disk/b && cmp a disk/b && [ \"$(ls -A disk)\" = b ]"
    );
    let Some(run) = on_fuse(&sandbox, "kills", &script) else { return };
    assert_eq!(run.succeeds().json()["resumed"], size, "{}", run.stderr);
}

/// As a container's `/etc/hosts`: nothing can be renamed over it.
#[test]
fn a_file_that_is_a_mount_point_is_written_in_place() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root mounts");
    }
    for size in [10, 300_000, 5 * MIB] {
        let sandbox = Sandbox::new();
        let bytes = pattern(size, 1);
        sandbox.write("a", &bytes);
        sandbox.write("behind", "longer than the shortest");
        sandbox.write("b", "");
        let script = format!("mount --bind behind b && {WEIR} cp a b && {WEIR} cp -u --json a b");
        let run = sandbox.weir("unshare", ["-m", "sh", "-c", &script]).run();
        assert_eq!(run.succeeds().json()["cp"]["unchanged"], 1, "{size}: times and all");
        assert!(sandbox.read("behind") == bytes, "{size}");
        assert_eq!(sandbox.names(), ["a", "b", "behind"], "nothing else is left of {size}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_of_the_file() {
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(3 * MIB, 1));
    let script = format!("ulimit -f 1000; exec {WEIR} cp a b");
    sandbox.weir("bash", ["-c", &script]).run().fails(1, &["b: ", "file too large", "ulimit -f"]);
    sandbox.weir(WEIR, ["cp", "a", "b"]).run().succeeds();
    assert!(sandbox.read("b") == pattern(3 * MIB, 1));
    assert_eq!(sandbox.names(), ["a", "b"]);
}

/// The journal of a file is behind its end. Where no file may be so long the file comes all the same: without
/// a journal (of 5 MiB less a byte), and with one that ends before its last block (1088 bytes of it).
#[test]
fn a_file_comes_where_no_file_may_be_as_long_as_its_journal_needs() {
    let sandbox = Sandbox::new();
    for (size, room) in [(5 * MIB - 1, 0), (20 * MIB, 1024)] {
        let bytes = pattern(size, 1);
        sandbox.write("a", &bytes);
        let longest = size.next_multiple_of(MIB) + room;
        let script = format!("ulimit -f {}; exec {WEIR} cp a b", longest / 1024);
        let run = sandbox.weir("bash", ["-c", &script]).run();
        let words = "no room for the journal of b: file too large";
        assert_eq!(run.succeeds().stderr.contains(words), room == 0, "{}", run.stderr);
        assert!(sandbox.read("b") == bytes, "{size}");
        assert_eq!(sandbox.names(), ["a", "b"], "nothing else is left of {size}");
        std::fs::remove_file(sandbox.path("b")).unwrap();
    }
}
