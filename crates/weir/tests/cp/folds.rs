//! `weir cp` onto file systems that hold two names for one, or take fewer names than the source's: said, and
//! never merged.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{MIB, Sandbox, WEIR, pattern, skip};

/// A small file system in a file, mounted while it is held.
struct Mounted {
    _folder: tempfile::TempDir,
    at: PathBuf,
}

const LOOP: &[&str] = &["mount", "-o", "loop"];

fn runs(program: &str, args: &[&str]) -> Result<(), String> {
    // A file: some leave a process behind that would hold a pipe open.
    let mut said = tempfile::tempfile().unwrap();
    let mut command = Command::new(program);
    command
        .args(args)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let status =
        command.stderr(said.try_clone().unwrap()).status().map_err(|error| format!("{program}: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let mut words = String::new();
    said.rewind().and_then(|()| said.read_to_string(&mut words)).unwrap();
    Err(format!("{program}: {}", words.trim()))
}

impl Mounted {
    fn new(make: &[&str], mount: &[&str]) -> Result<Mounted, String> {
        let folder = tempfile::tempdir().unwrap();
        let (image, at) = (folder.path().join("image"), folder.path().join("at"));
        std::fs::File::create(&image).unwrap().set_len(48 * MIB as u64).unwrap();
        std::fs::create_dir(&at).unwrap();
        let (image, path) = (image.display().to_string(), at.display().to_string());
        runs(make[0], &[&make[1..], &[&image]].concat())?;
        runs(mount[0], &[&mount[1..], &[&image, &path]].concat())?;
        Ok(Mounted { _folder: folder, at })
    }

    fn path(&self, name: &str) -> String {
        self.at.join(name).display().to_string()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = runs("umount", &[&self.at.display().to_string()]);
    }
}

/// Two names each that a file system may hold for one: of small files, of a large one, of folders, of links.
fn tree(sandbox: &Sandbox) -> usize {
    let folders = ["tree/Dir", "tree/dir", "tree/dir/sub", "tree/Dir/sub", "tree/plain"];
    folders.iter().for_each(|folder| std::fs::create_dir_all(sandbox.path(folder)).unwrap());
    for name in
        ["Small", "small", "Dir/x", "dir/y", "Dir/sub/v", "dir/sub/w", "plain/Same", "\u{e9}", "e\u{301}"]
    {
        sandbox.write(&format!("tree/{name}"), name);
    }
    sandbox.write("tree/Large", pattern(5 * MIB, 1));
    sandbox.write("tree/LARGE", pattern(5 * MIB, 2));
    std::os::unix::fs::symlink("first", sandbox.path("tree/Link")).unwrap();
    std::os::unix::fs::symlink("second", sandbox.path("tree/link")).unwrap();
    5
}

/// Of two names one is there with all of its content, and the other is told.
fn nothing_is_merged(sandbox: &Sandbox, mounted: &Mounted, pairs: usize) {
    let run = sandbox.weir(WEIR, ["cp", "--json", "tree/", &mounted.path("copy")]).run();
    run.exits(1);
    let record = run.json();
    let failures = record["files"].as_array().unwrap();
    let told =
        |text: &str| failures.iter().filter(|file| file["error"].as_str().unwrap().contains(text)).count();
    assert!(told("its name is that of") >= pairs, "{failures:?}");
    let there = |name: &str| std::fs::read(mounted.at.join("copy").join(name)).unwrap();
    assert!(["Small", "small"].iter().any(|name| there("small") == name.as_bytes()));
    let large = there("large");
    assert!([1, 2].iter().any(|seed| large == pattern(5 * MIB, *seed)), "all of one of them");
    let mut inside: Vec<_> = std::fs::read_dir(mounted.at.join("copy/dir"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    inside.sort();
    let one = [["sub", "x"], ["sub", "y"]].iter().any(|names| inside == *names);
    assert!(one, "the content of one of them: {inside:?}");
    let deep = std::fs::read_dir(mounted.at.join("copy/dir/sub")).unwrap().count();
    assert_eq!(deep, 1);
    assert_eq!(there("plain/Same"), b"plain/Same", "the rest goes on");
    // Again, with what is there. Which of two names comes first is settled anew, since lanes race; told it is
    // each time, and what lies there is one file or the other.
    let again = sandbox.weir(WEIR, ["cp", "-q", "-u", "tree/", &mounted.path("copy")]).run();
    again.fails(1, &["its name is that of"]);
    let large = there("large");
    assert!([1, 2].iter().any(|seed| large == pattern(5 * MIB, *seed)), "all of one of them");
    for name in ["x", "y", "sub/v", "sub/w"] {
        let path = mounted.at.join("copy/dir").join(name);
        let whole = |text: Vec<u8>| {
            [format!("Dir/{name}"), format!("dir/{name}")].contains(&String::from_utf8(text).unwrap())
        };
        assert!(std::fs::read(path).map_or(true, whole), "{name}");
    }
}

fn mounted(what: &str, make: &[&str], mount: &[&str]) -> Option<Mounted> {
    if !rustix::process::geteuid().is_root() {
        skip("only root mounts");
        return None;
    }
    // No failure in CI: kernels without this file system are in use, and nothing of weir decides that.
    Mounted::new(make, mount).map_err(|why| println!("skipped: no {what} here: {why}")).ok()
}

#[test]
fn a_folder_without_case() {
    let make = ["mkfs.ext4", "-q", "-O", "casefold", "-E", "encoding=utf8"];
    let Some(mounted) = mounted("ext4 with folded case", &make, LOOP) else { return };
    let copy = mounted.path("copy");
    std::fs::create_dir(&copy).unwrap();
    if let Err(why) = runs("chattr", &["+F", &copy]) {
        return println!("skipped: {why}");
    }
    let sandbox = Sandbox::new();
    let pairs = tree(&sandbox);
    // ext4 normalises too: both spellings of the accent are one.
    nothing_is_merged(&sandbox, &mounted, pairs + 1);
}

#[test]
fn a_file_system_without_case() {
    for (what, make, mount) in [
        ("vfat", &["mkfs.vfat"][..], &["mount", "-o", "loop,utf8"][..]),
        ("ntfs", &["mkntfs", "-F", "-Q", "-q"], &["lowntfs-3g", "-o", "ignore_case"]),
    ] {
        let Some(mounted) = mounted(what, make, mount) else { continue };
        let sandbox = Sandbox::new();
        let pairs = tree(&sandbox);
        // vfat has no links, and says so of each.
        nothing_is_merged(&sandbox, &mounted, pairs - 1);
    }
}

#[test]
fn where_case_counts_all_are_copied() {
    let sandbox = Sandbox::new();
    tree(&sandbox);
    sandbox.weir(WEIR, ["cp", "-q", "tree/", "copy"]).run().succeeds();
    let names = |folder: &str| {
        let names = sandbox.names().into_iter();
        let mut names: Vec<String> =
            names.filter_map(|name| name.strip_prefix(folder).map(str::to_owned)).collect();
        names.sort();
        names
    };
    assert_eq!(names("tree/"), names("copy/"));
}

#[test]
fn a_name_that_is_too_long_there_is_said() {
    // Version 3 of minix takes 60 bytes, gocryptfs without a detour 175.
    let minix = mounted("minix", &["mkfs.minix", "-3"], LOOP);
    for (mounted, most) in
        minix.map(|minix| (minix, 60)).into_iter().chain(encrypted().map(|other| (other, 175)))
    {
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path("tree")).unwrap();
        let (long, fits) = ("l".repeat(most + 1), "f".repeat(most));
        sandbox.write(&format!("tree/{long}"), "text");
        sandbox.write("tree/short", "text");
        // Its part's name would be too long, it is not.
        sandbox.write(&format!("tree/{fits}"), pattern(5 * MIB, 1));
        let run = sandbox.weir(WEIR, ["cp", "-q", "tree/", &mounted.path("copy")]).run();
        run.fails(1, &[&long, "does not take a name that long; shorten it"]);
        assert!(Path::new(&mounted.path("copy/short")).exists());
        assert!(std::fs::read(mounted.path(&format!("copy/{fits}"))).unwrap() == pattern(5 * MIB, 1));
        assert_eq!(std::fs::read_dir(mounted.path("copy")).unwrap().count(), 2, "and no part is left");
    }
}

/// A file system whose names take more room than their letters.
fn encrypted() -> Option<Mounted> {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("at");
    let store = folder.path().join("store").display().to_string();
    std::fs::create_dir(&at).unwrap();
    std::fs::create_dir(&store).unwrap();
    let flags = ["-q", "-nosyslog", "-longnames=false", "-extpass", "echo x"];
    let path = at.display().to_string();
    let made = runs("gocryptfs", &[&flags[..], &["-init", "-scryptn", "10", &store]].concat())
        .and_then(|()| runs("gocryptfs", &[&flags[..], &[&store, &path]].concat()));
    match made {
        Ok(()) => Some(Mounted { _folder: folder, at }),
        Err(why) => {
            println!("skipped: no gocryptfs here: {why}");
            None
        }
    }
}
