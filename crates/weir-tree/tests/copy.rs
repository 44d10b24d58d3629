//! A tree with one of everything, copied by a walk and a target, looked at afterwards.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use support::{copy, picture};

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
