//! The same tree by `weir cp -a` and by `rsync -aHX`, both through the same sshd: equal in every attribute.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, lsetxattr, utimensat};
use support::{Dice, MIB, Sandbox, Sshd, pattern, skip};

/// Blocks of 512 bytes that a file system may give a file beyond its data: ext4 rounds what is written in
/// pieces up to 64 KiB.
const ROUND: u64 = 128;

/// Files in a tree.
const FILES: u64 = 120;

/// Plants a tree of all kinds.
fn plant(root: &Path, dice: &mut Dice) {
    std::fs::create_dir(root).unwrap();
    let mut folders = vec![root.to_owned()];
    let mut files: Vec<PathBuf> = Vec::new();
    for index in 0..FILES {
        let mut name = format!("{index}-").into_bytes();
        name.extend((0..dice.roll(0..8)).map(|_| dice.roll(1..256) as u8).filter(|byte| *byte != b'/'));
        let path = folders[dice.roll(0..folders.len() as u64) as usize].join(OsStr::from_bytes(&name));
        match dice.roll(0..10) {
            0..=3 => std::fs::write(&path, pattern(dice.roll(0..40_000) as usize, index)).unwrap(),
            4 => std::fs::write(&path, pattern(dice.roll(200_000..6_000_000) as usize, index)).unwrap(),
            5 => {
                let file = std::fs::File::create(&path).unwrap();
                // Some that travel with other small files, and some that go block by block.
                let most = [96 << 10, 4 * MIB as u64][dice.roll(0..2) as usize];
                file.set_len(dice.roll(1..2 * most)).unwrap();
                file.write_all_at(b"data", dice.roll(0..most)).unwrap();
            }
            6 | 7 => {
                std::fs::create_dir(&path).unwrap();
                folders.push(path);
                continue;
            }
            8 => symlink(OsStr::from_bytes(&name), &path).unwrap(),
            _ if files.is_empty() => continue,
            _ => std::fs::hard_link(&files[dice.roll(0..files.len() as u64) as usize], &path).unwrap(),
        }
        if !path.is_symlink() {
            files.push(path);
        }
    }
    let mut all = walk(root);
    // Innermost first, since what is done in a folder changes its time.
    all.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    all.push(root.to_owned());
    all.iter().for_each(|path| dress(path, dice));
}

fn dress(path: &Path, dice: &mut Dice) {
    let time = UNIX_EPOCH + Duration::new(dice.roll(1..2_000_000_000), dice.roll(0..1_000_000_000) as u32);
    let since = time.duration_since(UNIX_EPOCH).unwrap();
    let root = rustix::process::geteuid().is_root();
    if root {
        std::os::unix::fs::lchown(path, Some(dice.roll(0..70_000) as u32), Some(dice.roll(0..70_000) as u32))
            .unwrap();
    }
    if !path.is_symlink() {
        if dice.roll(0..3) == 0 {
            let value = pattern(dice.roll(0..300) as usize, 1);
            let set = lsetxattr(path, "user.weir", &value, XattrFlags::empty());
            assert!(matches!(set, Ok(()) | Err(rustix::io::Errno::OPNOTSUPP)));
        }
        let mode = dice.roll(0..0o10000) as u32 | if root { 0 } else { 0o700 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let stamp = Timespec { tv_sec: since.as_secs() as i64, tv_nsec: since.subsec_nanos().into() };
    let times = Timestamps { last_access: stamp, last_modification: stamp };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn walk(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

/// All that is to be equal, by name.
fn picture(root: &Path) -> BTreeMap<Vec<u8>, String> {
    let mut inodes: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut all = walk(root);
    all.sort();
    let look = |path: &PathBuf| {
        let stat = path.symlink_metadata().unwrap();
        let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
        let mut words = format!(
            "{:o} {}:{} {}.{:09}",
            stat.mode(),
            stat.uid(),
            stat.gid(),
            stat.mtime(),
            stat.mtime_nsec()
        );
        if stat.is_file() {
            let first = inodes.entry(stat.ino()).or_insert_with(|| name.clone());
            words += &format!(
                " {} of {:?} {}",
                stat.len(),
                first.escape_ascii().to_string(),
                blake3::hash(&std::fs::read(path).unwrap())
            );
        } else if stat.is_symlink() {
            words += &format!(" -> {:?}", path.read_link().unwrap());
        }
        let mut value = [0; 512];
        if let Ok(length) = rustix::fs::lgetxattr(path, "user.weir", &mut value[..]) {
            words += &format!(" {:?}", &value[..length]);
        }
        (name, words)
    };
    all.iter().map(look).collect()
}

fn blocks(root: &Path) -> BTreeMap<Vec<u8>, u64> {
    let of = |path: PathBuf| {
        let stat = path.symlink_metadata().unwrap();
        let blocks = if stat.is_file() { stat.blocks() } else { 0 };
        (path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec(), blocks)
    };
    walk(root).into_iter().map(of).collect()
}

fn has_rsync() -> bool {
    let has = Command::new("rsync").arg("--version").output().is_ok();
    if !has {
        skip("no rsync here; apt-get install rsync");
    }
    has
}

/// Who may not give files away still copies them whole: what goes to the groups that he is in, and the rest
/// stays his. A group that is named is another thing.
#[test]
fn an_ordinary_user_keeps_the_groups_that_he_is_in_as_with_rsync() {
    const NOBODY: u32 = 65534;
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || Command::new("setpriv").arg("--version").output().is_err() {
        return skip("only root, with setpriv, has files of others to copy");
    }
    if !has_rsync() {
        return;
    }
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("tree")).unwrap();
    let own = |name: &str, user: u32, group: u32| {
        std::os::unix::fs::chown(sandbox.path(name), Some(user), Some(group)).unwrap();
    };
    own(".", NOBODY, NOBODY);
    for (name, user, group) in
        [("tree/roots", 0, 0), ("tree/member", 0, 4242), ("tree/stranger", 1234, 4243), ("tree", 0, 4243)]
    {
        if name != "tree" {
            sandbox.write(name, name);
        }
        own(name, user, group);
    }
    let run = |args: &[&str]| {
        sandbox.weir("setpriv", ["--reuid=65534", "--regid=65534", "--groups=4242"]).args(args).run()
    };
    run(&["rsync", "-a", "tree/", "theirs/"]).succeeds();
    for flags in [&["-q", "-a"][..], &["-q", "-a", "-u"]] {
        run(&[&[support::WEIR, "cp"], flags, &["tree/", "ours"]].concat()).succeeds();
        let owners = |root: &str| {
            ["roots", "member", "stranger", "."].map(|name| {
                let stat = sandbox.path(root).join(name).metadata().unwrap();
                (stat.uid(), stat.gid())
            })
        };
        assert_eq!(owners("ours"), owners("theirs"), "{flags:?}");
        assert_eq!(owners("ours")[..2], [(NOBODY, NOBODY), (NOBODY, 4242)], "{flags:?}");
    }
    run(&[support::WEIR, "cp", "-q", "-a", "--groupmap=*:4243", "tree/", "named"])
        .fails(1, &["owner or group not kept for"]);
}

#[test]
fn a_tree_comes_out_as_rsync_has_it() {
    if !has_rsync() {
        return;
    }
    let Some(sshd) = Sshd::start() else { return };
    let (mut dice, runs) = Dice::for_runs();
    for _ in 0..runs.div_ceil(10) {
        let sandbox = Sandbox::new();
        plant(&sandbox.path("tree"), &mut dice);
        let far = |name: &str| format!("far:{}", sandbox.path(name).display());
        sshd.copies(&sandbox, &["-aHXt", "tree", &far("ours")]).succeeds();
        let ssh = format!("ssh -F {}", sshd.path("ssh_config").display());
        let rsync = sandbox.weir("rsync", ["-aHX", "--sparse", "-e", &ssh, "tree/", &far("theirs")]).run();
        rsync.succeeds();
        let tree = picture(&sandbox.path("tree"));
        assert_eq!(picture(&sandbox.path("ours")), tree);
        assert_eq!(picture(&sandbox.path("ours")), picture(&sandbox.path("theirs")));
        let (ours, source) = (blocks(&sandbox.path("ours")), blocks(&sandbox.path("tree")));
        for (name, blocks) in &ours {
            assert!(
                *blocks <= source[name] + ROUND,
                "{}: {blocks} blocks of {}",
                name.escape_ascii(),
                source[name]
            );
        }
        // Back again, over what is there.
        sshd.copies(&sandbox, &["-a", "-u", &far("ours/"), "tree"]).succeeds();
        assert_eq!(picture(&sandbox.path("tree")), tree);
    }
}
