//! A tree with one of everything, copied by a walk and a target, looked at afterwards.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use support::{copy, picture};
use weir_tree::destination::Options;
use weir_tree::entry::Time;
use weir_tree::{Entry, Kind, Target};

#[test]
fn one_of_everything() {
    let (source, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| source.path().join(name);
    fs::create_dir_all(at("a/b/c")).unwrap();
    fs::write(at("a/file"), "hello").unwrap();
    fs::write(at("a/b/empty"), "").unwrap();
    fs::hard_link(at("a/file"), at("a/b/again")).unwrap();
    symlink("/etc/passwd", at("a/link")).unwrap();
    symlink("../..", at("a/b/up")).unwrap();
    fs::set_permissions(at("a/file"), PermissionsExt::from_mode(0o4751)).unwrap();
    fs::set_permissions(at("a/b/c"), PermissionsExt::from_mode(0o555)).unwrap();
    assert_eq!(copy(source.path(), copied.path()), Vec::<String>::new());
    assert_eq!(picture(copied.path()), picture(source.path()));
    let inode = |name: &str| fs::metadata(copied.path().join(name)).unwrap().ino();
    assert_eq!(inode("a/file"), inode("a/b/again"));
    // A second time over what is there.
    assert_eq!(copy(source.path(), copied.path()), Vec::<String>::new());
    assert_eq!(picture(copied.path()), picture(source.path()));
}

#[test]
fn a_small_file_keeps_its_holes() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::open(folder.path(), Options::default()).unwrap();
    let mut content = vec![0; 200_000];
    content[100_000] = 1;
    let place = |name: &str, sparse| {
        let kind = Kind::File { size: content.len() as u64, sparse };
        let mtime = Time::new(1_000_000_000, 0).unwrap();
        let name = name.parse().unwrap();
        let entry = Entry { name, kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() };
        target.small(&entry, &content).unwrap();
    };
    place("sparse", true);
    place("full", false);
    let path = |name: &str| folder.path().join(name);
    assert_eq!(fs::read(path("sparse")).unwrap(), content, "with a hole at its end");
    assert_eq!(fs::read(path("full")).unwrap(), content);
    let blocks = |name: &str| fs::metadata(path(name)).unwrap().blocks();
    assert!(blocks("sparse") * 512 <= 64 << 10, "{} blocks", blocks("sparse"));
    // Zeros that take up room in the source take it up in the copy.
    fs::File::open(path("full")).unwrap().sync_all().unwrap();
    assert!(blocks("full") * 512 >= 196_608, "{} blocks", blocks("full"));
}
