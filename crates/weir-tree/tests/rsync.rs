//! Random trees, copied by weir and by `rsync -aHX`: the same result in every attribute.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::fs::{AtFlags, CWD, Gid, Timespec, Timestamps, Uid, XattrFlags, chownat, lsetxattr, utimensat};
use rustix::process::geteuid;

/// Something to put into a tree.
#[derive(Debug, Clone)]
struct Planned {
    kind: Kind,
    /// Which directory made before, and what it is called there.
    place: prop::sample::Index,
    name: Vec<u8>,
    mode: u32,
    mtime: (i64, i64),
    owner: (u32, u32),
    attribute: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
enum Kind {
    File(usize),
    /// Length, and a place for a few bytes.
    Sparse(u64, u64),
    Directory,
    Symlink(Vec<u8>),
    HardLink(prop::sample::Index),
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => (0..40_000usize).prop_map(Kind::File),
        1 => (1..4_000_000u64, 0..4_000_000u64).prop_map(|(length, at)| Kind::Sparse(length, at)),
        3 => Just(Kind::Directory),
        2 => "[a-z./]{1,30}".prop_map(|target| Kind::Symlink(target.into_bytes())),
        2 => any::<prop::sample::Index>().prop_map(Kind::HardLink),
    ]
}

fn planned() -> impl Strategy<Value = Planned> {
    let name = vec(any::<u8>().prop_filter("a byte of a name", |byte| *byte != 0 && *byte != b'/'), 1..12);
    let name = name.prop_filter("a name", |name| name != b"." && name != b"..");
    let times = (-1_000_000_000..4_000_000_000i64, 0..1_000_000_000i64);
    let attribute = prop::option::weighted(0.3, vec(any::<u8>(), 0..300));
    (
        kind(),
        any::<prop::sample::Index>(),
        name,
        0..0o10000u32,
        times,
        (0..70_000u32, 0..70_000u32),
        attribute,
    )
        .prop_map(|(kind, place, name, mode, mtime, owner, attribute)| Planned {
            kind,
            place,
            name,
            mode,
            mtime,
            owner,
            attribute,
        })
}

/// Makes the tree; attributes from the innermost out, so that times stay.
fn plant(root: &Path, plan: &[Planned], is_root: bool) {
    let (mut directories, mut files, mut made) = (vec![root.to_owned()], Vec::<PathBuf>::new(), Vec::new());
    for planned in plan {
        let path = directories[planned.place.index(directories.len())].join(OsStr::from_bytes(&planned.name));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match &planned.kind {
            Kind::File(length) => fs::write(&path, vec![planned.mode as u8; *length]).unwrap(),
            Kind::Sparse(length, at) => {
                let file = File::create(&path).unwrap();
                file.set_len(*length).unwrap();
                file.write_all_at(b"data", *at).unwrap();
            }
            Kind::Directory => {
                fs::create_dir(&path).unwrap();
                directories.push(path.clone());
            }
            Kind::Symlink(target) => symlink(OsStr::from_bytes(target), &path).unwrap(),
            Kind::HardLink(_) if files.is_empty() => continue,
            Kind::HardLink(first) => {
                fs::hard_link(&files[first.index(files.len())], &path).unwrap();
                continue;
            }
        }
        if path.symlink_metadata().unwrap().is_file() {
            files.push(path.clone());
        }
        made.push((path, planned));
    }
    for (path, planned) in made.iter().rev() {
        dress(path, planned, is_root);
    }
    // rsync leaves a directory's time alone where only the fraction of the second differs.
    let long_ago = Timespec { tv_sec: 1_000_000_000, tv_nsec: plan.len() as i64 };
    let times = Timestamps { last_access: long_ago, last_modification: long_ago };
    utimensat(CWD, root, &times, AtFlags::empty()).unwrap();
}

fn dress(path: &Path, planned: &Planned, is_root: bool) {
    let link = matches!(planned.kind, Kind::Symlink(_));
    if is_root {
        let (uid, gid) = (Uid::from_raw(planned.owner.0), Gid::from_raw(planned.owner.1));
        chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
    if let Some(value) = &planned.attribute {
        let name = if link { "trusted.weir" } else { "user.weir" };
        if !link || is_root {
            let outcome = lsetxattr(path, name, value, XattrFlags::empty());
            assert!(matches!(outcome, Ok(()) | Err(rustix::io::Errno::OPNOTSUPP)), "{outcome:?}");
        }
    }
    if !link {
        // An ordinary user has to be able to read what is copied.
        let mode = if is_root { planned.mode } else { planned.mode | 0o700 };
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let modified = Timespec { tv_sec: planned.mtime.0, tv_nsec: planned.mtime.1 };
    let times = Timestamps { last_access: modified, last_modification: modified };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn rsync(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut from = from.as_os_str().to_owned();
    from.push("/");
    let outcome = Command::new("rsync").args(["-aHX", "--sparse", "--no-D"]).arg(from).arg(to).output()?;
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    Ok(())
}

/// No file takes more room than where it came from.
fn holes(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        let (old, new) = (fs::symlink_metadata(&from).unwrap(), fs::symlink_metadata(&to).unwrap());
        if old.is_dir() {
            holes(&from, &to);
        } else if old.is_file() {
            assert!(
                new.blocks() <= old.blocks(),
                "{}: {} blocks of {}",
                to.display(),
                new.blocks(),
                old.blocks()
            );
        }
    }
}

#[test]
fn a_random_tree_comes_out_as_rsync_has_it() {
    if Command::new("rsync").arg("--version").output().is_err() {
        return support::skip("no rsync here; apt-get install rsync");
    }
    let is_root = geteuid().is_root();
    if !is_root {
        println!("not root: owners are not part of this");
    }
    let config = ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(plan in vec(planned(), 0..40), second in vec(planned(), 0..10))| {
        let dir = tempfile::tempdir().unwrap();
        let [source, ours, theirs] = ["source", "ours", "theirs"].map(|name| dir.path().join(name));
        for place in [&source, &ours, &theirs] {
            fs::create_dir(place).unwrap();
        }
        plant(&source, &plan, is_root);
        prop_assert_eq!(support::copy(&source, &ours), Vec::<String>::new());
        rsync(&source, &theirs).unwrap();
        prop_assert_eq!(support::picture(&ours), support::picture(&theirs));
        prop_assert_eq!(support::picture(&ours), support::picture(&source));
        holes(&source, &ours);
        // Over what is there, with more beside it.
        plant(&source, &second, is_root);
        prop_assert_eq!(support::copy(&source, &ours), Vec::<String>::new());
        prop_assert_eq!(support::picture(&ours), support::picture(&source));
    });
}
