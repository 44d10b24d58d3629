//! Attributes that `-a` asks for: kept, or counted as lost with exit code 1. Nothing of them goes in silence.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, getxattr, makedev, mknodat, setxattr};
use support::{Run, Sandbox, skip};

/// Whom permissions hold for.
const NOBODY: u32 = 65534;

fn cp(sandbox: &Sandbox, args: &[&str]) -> Run {
    sandbox.weir(support::WEIR, ["cp"]).args(args).run()
}

fn value(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    let length = getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

/// An access list as the kernel has it (linux/posix_acl_xattr.h): version 2, then tag, permissions and id of
/// each entry.
fn access_list(user: u32) -> Vec<u8> {
    const NO_ID: u32 = u32::MAX;
    let entries = [(1u16, 6u16, NO_ID), (2, 7, user), (4, 4, NO_ID), (0x10, 7, NO_ID), (0x20, 4, NO_ID)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, allowed, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(allowed.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

#[test]
fn access_lists_are_kept() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tree")).unwrap();
    sandbox.write("tree/file", "text");
    let (list, default) = (access_list(1234), access_list(4321));
    let set = |name: &str, attribute: &str, list: &[u8]| {
        setxattr(sandbox.path(name), attribute, list, XattrFlags::empty())
    };
    if set("tree/file", "system.posix_acl_access", &list).is_err() {
        return skip("the file system has no access lists");
    }
    set("tree", "system.posix_acl_default", &default).unwrap();
    cp(&sandbox, &["-a", "tree", "copy"]).succeeds();
    assert_eq!(value(&sandbox.path("copy/file"), "system.posix_acl_access"), Some(list));
    assert_eq!(value(&sandbox.path("copy"), "system.posix_acl_default"), Some(default));
    let mode = |name: &str| sandbox.path(name).metadata().unwrap().permissions().mode();
    assert_eq!(mode("copy/file"), mode("tree/file"));
}

/// What is made in a folder with a default access list gets it, unless it is to be as its source is.
#[test]
fn a_default_access_list_of_the_target_gives_nothing_to_a_copy() {
    let sandbox = Sandbox::new();
    for folder in ["tree/sub", "to"] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    for name in ["tree/plain", "tree/dressed", "tree/sub/inside"] {
        let path = sandbox.write(name, "text");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    }
    // One of several blocks, which has a name while it comes.
    sandbox.write("tree/large", vec![7; 3 << 20]);
    let set = |name: &str, attribute: &str, value: &[u8]| {
        setxattr(sandbox.path(name), attribute, value, XattrFlags::empty())
    };
    if set("to", "system.posix_acl_default", &access_list(1234)).is_err()
        || set("tree/dressed", "user.weir", b"kept").is_err()
    {
        return skip("the file system has no access lists, or no attributes");
    }
    cp(&sandbox, &["-a", "tree", "to/"]).succeeds();
    for name in ["tree", "tree/sub", "tree/plain", "tree/dressed", "tree/sub/inside", "tree/large"] {
        let copy = sandbox.path("to").join(name);
        for list in ["system.posix_acl_access", "system.posix_acl_default"] {
            assert_eq!(value(&copy, list), None, "{list} of {name}");
        }
        let mode = |path: &Path| path.metadata().unwrap().mode();
        assert_eq!(mode(&copy), mode(&sandbox.path(name)), "{name}");
    }
    assert_eq!(value(&sandbox.path("to/tree/dressed"), "user.weir"), Some(b"kept".to_vec()));
    assert!(value(&sandbox.path("to"), "system.posix_acl_default").is_some(), "the target's own");
}

/// Root's program that runs as root is not one that runs as whoever copied it; whose own stays as it is.
#[test]
fn what_runs_as_its_owner_does_not_run_as_who_copied_it() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tree")).unwrap();
    sandbox.write("tree/large", vec![7; 3 << 20]);
    for name in ["roots", "own", "half"] {
        sandbox.write(&format!("tree/{name}"), name);
    }
    if !rustix::process::geteuid().is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        return skip("only root, with setpriv, has files of others to copy");
    }
    for (name, user) in [(".", NOBODY), ("tree/own", NOBODY), ("tree/half", 0)] {
        chown(sandbox.path(name), Some(user), Some(NOBODY)).unwrap();
    }
    let names = ["roots", "large", "own", "half"];
    for name in names {
        let path = sandbox.path("tree").join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(0o6755)).unwrap();
    }
    let modes = || names.map(|name| sandbox.path("copy").join(name).metadata().unwrap().mode() & 0o7777);
    let ids = ["--reuid=65534", "--regid=65534", "--clear-groups", support::WEIR, "cp", "--json"];
    for (flags, copied) in [(&["-a"][..], 4), (&["-a", "-u"], 0)] {
        // What -a cannot give to anybody is no failure, and no reason to copy it again.
        let run = sandbox.weir("setpriv", ids).args(flags).args(&["tree/", "copy"]).run();
        let record = run.succeeds().json();
        assert_eq!(record.get("lost_attributes"), None, "{record}");
        assert_eq!(record["cp"]["unchanged"].as_u64().unwrap_or(0), 4 - copied, "{record}");
        assert_eq!(modes(), [0o755, 0o755, 0o6755, 0o2755], "{flags:?}");
    }
    // A copy that has the bits loses them.
    let path = sandbox.path("copy/roots");
    fs::set_permissions(path, fs::Permissions::from_mode(0o6755)).unwrap();
    sandbox.weir("setpriv", ids).args(&["-a", "-u", "tree/", "copy"]).run().succeeds();
    assert_eq!(modes(), [0o755, 0o755, 0o6755, 0o2755]);
}

/// rsync lends itself the permission to write; so does weir.
#[test]
fn attributes_of_a_file_that_its_owner_may_not_write() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tree")).unwrap();
    for name in ["tree/a", "tree/b"] {
        let path = sandbox.write(name, "text");
        if setxattr(&path, "user.weir", b"kept", XattrFlags::empty()).is_err() {
            return skip("the file system has no extended attributes");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    }
    let is_root = rustix::process::geteuid().is_root();
    if is_root && Command::new("setpriv").arg("--version").output().is_err() {
        return skip("no setpriv here");
    }
    let copy = |args: &[&str]| {
        let mut run = sandbox.weir(support::WEIR, ["cp"]);
        if is_root {
            for name in [".", "tree", "tree/a", "tree/b", "copy", "copy/a", "copy/b"] {
                let _ = chown(sandbox.path(name), Some(NOBODY), Some(NOBODY));
            }
            let ids = ["--reuid=65534", "--regid=65534", "--clear-groups", support::WEIR, "cp"];
            run = sandbox.weir("setpriv", ids);
        }
        run.args(args).run()
    };
    copy(&["-a", "tree", "copy"]).succeeds();
    assert_eq!(value(&sandbox.path("copy/a"), "user.weir"), Some(b"kept".to_vec()));
    // The content is the same: only attributes are to be set, on a file of 0444.
    setxattr(sandbox.path("tree/b"), "user.weir", b"newer", XattrFlags::empty()).unwrap();
    copy(&["-a", "-u", "tree/", "copy"]).succeeds();
    assert_eq!(value(&sandbox.path("copy/b"), "user.weir"), Some(b"newer".to_vec()));
    assert_eq!(sandbox.path("copy/b").metadata().unwrap().permissions().mode() & 0o777, 0o444);
}

/// More attributes than a file has room for beside an inode of 128 bytes: a block of 1 KiB. Here it is one of
/// 4 KiB at least.
#[test]
fn what_the_target_has_no_room_for_is_counted() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root mounts");
    }
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tree")).unwrap();
    let path = sandbox.write("tree/file", "text");
    let big = vec![b'x'; 200];
    for index in 0..12 {
        if setxattr(&path, format!("user.weir{index}"), &big, XattrFlags::empty()).is_err() {
            return skip("the file system here has no room for them itself");
        }
    }
    sandbox.write("tree/plain", "text");
    let image = sandbox.path("image");
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    fs::create_dir(sandbox.path("small")).unwrap();
    // In a mount namespace of its own, so that nothing is left mounted.
    let script = format!(
        "mkfs.ext4 -q -b 1024 -I 128 image && mount -o loop image small && {} cp -a --json tree small/; \
         code=$?; ls small/tree; exit $code",
        support::WEIR
    );
    let run = sandbox.weir("unshare", ["-m", "sh", "-c", &script]).run();
    run.fails(1, &["extended attributes or ACL not kept for tree/file"]);
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(said.contains("\"lost_attributes\""), "{said}");
    assert!(said.ends_with("file\nplain\n"), "the content is there: {said}");
}

#[test]
fn what_was_not_asked_for_is_a_note() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "text");
    let path = sandbox.path("a");
    if setxattr(&path, "user.weir", b"1", XattrFlags::empty()).is_err() {
        return skip("the file system has no extended attributes");
    }
    let run = cp(&sandbox, &["--json", "a", "b"]);
    assert_eq!(run.succeeds().json().get("lost_attributes"), None);
    assert_eq!(value(&sandbox.path("b"), "user.weir"), None);
}

/// Inodes of 128 bytes keep whole seconds, up to 2038: what was cut is the same in the next run.
#[test]
fn coarse_times_are_no_difference() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root mounts");
    }
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tree")).unwrap();
    let at = |secs, nanos| std::time::UNIX_EPOCH + std::time::Duration::new(secs, nanos);
    // Now, at the end of a second, and later than such a file system knows.
    for (name, time) in [
        ("a", at(1_700_000_000, 123_456_789)),
        ("b", at(1_700_000_001, 999_999_999)),
        ("c", at(2_600_000_000, 5)),
    ] {
        let path = sandbox.write(&format!("tree/{name}"), "text");
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    let image = sandbox.path("image");
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    fs::create_dir(sandbox.path("small")).unwrap();
    let script = format!(
        "mkfs.ext4 -q -I 128 image >/dev/null && mount -o loop image small && {0} cp -u -q tree/ small/to && \
         {0} cp -u -n tree/ small/to && {0} cp -u --json tree/ small/to && \
         touch -d @1700000002 tree/a && {0} cp -u -n tree/ small/to",
        support::WEIR
    );
    let run = sandbox.weir("unshare", ["-m", "sh", "-c", &script]).run();
    let said = String::from_utf8_lossy(&run.succeeds().stdout).into_owned();
    assert!(said.starts_with('{'), "a dry run has nothing to do: {said}");
    assert!(said.contains("\"unchanged\":3"), "{said}");
    assert!(said.ends_with("}\ncopy a\n"), "a real difference is one: {said}");
}

#[test]
fn times_may_differ_by_a_window() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("tree")).unwrap();
    sandbox.write("tree/a", "text");
    cp(&sandbox, &["-q", "tree/", "to"]).succeeds();
    let past =
        fs::metadata(sandbox.path("to/a")).unwrap().modified().unwrap() - std::time::Duration::from_secs(2);
    fs::File::options().write(true).open(sandbox.path("to/a")).unwrap().set_modified(past).unwrap();
    let copied = |window: &str| {
        let run = cp(&sandbox, &["-u", "-n", "--modify-window", window, "tree/", "to"]);
        String::from_utf8(run.succeeds().stdout.clone()).unwrap()
    };
    assert_eq!(copied("2"), "");
    assert_eq!(copied("1"), "copy a\n");
}

/// What a node is: kind and device, mode, owner, time.
fn node(path: &Path) -> (u32, u64, (u32, u32), i64) {
    let there = path.symlink_metadata().unwrap();
    (there.mode(), there.rdev(), (there.uid(), there.gid()), there.mtime())
}

/// A tree with a pipe, two devices and a socket; `None` where this host lets nobody make devices.
fn nodes() -> Option<Sandbox> {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tree")).unwrap();
    sandbox.pipe("tree/pipe");
    let make = |name: &str, kind, major, minor| {
        mknodat(CWD, sandbox.path(name), kind, Mode::from_raw_mode(0o640), makedev(major, minor))
    };
    if make("tree/null", FileType::CharacterDevice, 1, 3).is_err() {
        skip("making a device needs root, and a file system that allows devices");
        return None;
    }
    make("tree/block", FileType::BlockDevice, 7, 300).unwrap();
    drop(std::os::unix::net::UnixListener::bind(sandbox.path("tree/socket")).unwrap());
    for (name, mode) in [("pipe", 0o604), ("null", 0o666), ("block", 0o660)] {
        let path = sandbox.path("tree").join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        chown(&path, Some(1234), Some(4321)).unwrap();
    }
    Some(sandbox)
}

#[test]
fn devices_and_pipes_are_made_for_root_as_rsync_makes_them() {
    let Some(sandbox) = nodes() else { return };
    let run = cp(&sandbox, &["-a", "tree", "copy"]);
    run.succeeds().says(&["copy/socket is a socket and is not copied"]);
    let has_rsync = Command::new("rsync").arg("--version").output().is_ok();
    if has_rsync {
        sandbox.weir("rsync", ["-a", "tree/", "rsync/"]).run().succeeds();
    } else {
        skip("no rsync here to compare with");
    }
    for name in ["pipe", "null", "block"] {
        let [from, to] = ["tree", "copy"].map(|folder| node(&sandbox.path(folder).join(name)));
        assert_eq!(from, to, "{name}");
        assert!(!has_rsync || to == node(&sandbox.path("rsync").join(name)), "{name}: as rsync has it");
    }
    // Once more: what is there gets its attributes, and nothing is in the way.
    fs::set_permissions(sandbox.path("copy/null"), fs::Permissions::from_mode(0o600)).unwrap();
    cp(&sandbox, &["-a", "tree/", "copy"]).succeeds();
    assert_eq!(node(&sandbox.path("copy/null")), node(&sandbox.path("tree/null")));
    // In place of a file; but another device is nobody's to replace unasked.
    for name in ["null", "pipe"] {
        fs::remove_file(sandbox.path("copy").join(name)).unwrap();
    }
    sandbox.write("copy/pipe", "text");
    let other = makedev(1, 5);
    mknodat(CWD, sandbox.path("copy/null"), FileType::CharacterDevice, Mode::RUSR, other).unwrap();
    let run = cp(&sandbox, &["-a", "tree/", "copy"]);
    run.fails(1, &["cannot put a character device at null", "a device, pipe or socket"]);
    assert_eq!(node(&sandbox.path("copy/pipe")), node(&sandbox.path("tree/pipe")));
    assert_eq!(sandbox.path("copy/null").symlink_metadata().unwrap().rdev(), other);
}

#[test]
fn devices_and_pipes_are_made_where_they_are_asked_for() {
    let Some(sandbox) = nodes() else { return };
    let made = |flags: &[&str], to: &str| {
        cp(&sandbox, &[flags, &["tree/", to]].concat()).succeeds();
        ["pipe", "null", "block", "socket"]
            .map(|name| u8::from(sandbox.path(to).join(name).symlink_metadata().is_ok()))
    };
    assert_eq!(made(&[], "none"), [0, 0, 0, 0]);
    assert_eq!(made(&["-D"], "both"), [1, 1, 1, 0]);
    assert_eq!(made(&["--devices"], "devices"), [0, 1, 1, 0]);
    assert_eq!(made(&["--specials"], "specials"), [1, 0, 0, 0]);
    // Named itself, too.
    cp(&sandbox, &["-a", "tree/pipe", "alone"]).succeeds();
    assert_eq!(node(&sandbox.path("alone")), node(&sandbox.path("tree/pipe")));
}

/// Nobody but root makes devices: each is named in a note, and the rest is copied.
#[test]
fn an_ordinary_user_is_told_what_was_passed_over() {
    let Some(sandbox) = nodes() else { return };
    if Command::new("setpriv").arg("--version").output().is_err() {
        return skip("no setpriv here");
    }
    sandbox.write("tree/file", "text");
    for name in [".", "tree", "tree/file", "tree/pipe"] {
        chown(sandbox.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let copy = |args: &[&str]| {
        let ids = ["--reuid=65534", "--regid=65534", "--clear-groups", support::WEIR, "cp"];
        sandbox.weir("setpriv", ids).args(args).run()
    };
    copy(&["-a", "tree", "copy"]).succeeds().says(&[
        "note: copy/null is a character device and is not copied: only root makes it",
        "note: copy/block is a block device and is not copied",
        "note: copy/pipe is a named pipe and is not copied: -a makes it where root receives, --specials",
    ]);
    assert_eq!(sandbox.read("copy/file"), b"text");
    assert!(sandbox.path("copy/null").symlink_metadata().is_err());
    copy(&["-a", "--specials", "tree", "other"]).succeeds();
    assert!(sandbox.path("other/pipe").symlink_metadata().unwrap().file_type().is_fifo());
    // One that is named has failed.
    copy(&["-a", "tree/null", "there"]).fails(1, &["is a character device and is not copied"]);
}

#[test]
fn an_owner_that_a_namespace_has_not_is_named_as_the_cause() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("a", "text");
    if chown(&file, Some(NOBODY), None).is_err() {
        return skip("only root gives files away");
    }
    let inside = ["--user", "--map-root-user", support::WEIR, "cp", "-a", "a", "b"];
    let run = sandbox.weir("unshare", inside).run();
    run.fails(1, &["owner or group not kept for b: its number is none in this user namespace", "-rlpt"]);
    assert_eq!(sandbox.read("b"), b"text");
}
