//! The memory of both ends of `weir cp`: bounded at any size and count.
//!
//! Small here; `WEIR_SOAK` for 20 GB with holes, 4 GB without, and 200,000 files (`make soak-cp`).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use support::{MIB, Sandbox, Sshd, pattern};

/// What is promised, less what pages of the program itself come and go.
const MOST: u64 = 128 << 20;

/// An sshd whose weir leaves its peak memory behind when it has ended.
fn watched() -> Option<Sshd> {
    let sshd = Sshd::start()?;
    std::fs::remove_file(sshd.path("bin/weir")).unwrap();
    symlink(support::WEIR, sshd.path("real")).unwrap();
    // GNU time is not everywhere; the kernel's own figure of children is.
    let script = format!(
        "#!/usr/bin/env python3\nimport os, resource, sys\npid = os.fork()\nif pid == 0: os.execv({real:?}, ['weir'] + sys.argv[1:])\n\
         status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n\
         open({peak:?}, 'a').write('%d\\n' % resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\nsys.exit(abs(status))\n",
        real = sshd.path("real"),
        peak = sshd.path("peak"),
    );
    std::fs::write(sshd.path("bin/weir"), script).unwrap();
    std::fs::set_permissions(sshd.path("bin/weir"), std::fs::Permissions::from_mode(0o755)).unwrap();
    Some(sshd)
}

/// Copies there and back; prints and checks the peaks.
fn check(sshd: &Sshd, sandbox: &Sandbox, what: &str, flags: &[&str], same: impl Fn(&Path, &Path)) {
    let far = |name: &str| format!("far:{}", sandbox.path(name).display());
    for (paths, way) in [(["a".to_owned(), far("b")], "there"), ([far("a"), "c".to_owned()], "back")] {
        let _ = std::fs::remove_file(sshd.path("peak"));
        let args: Vec<&str> = flags.iter().copied().chain(paths.iter().map(String::as_str)).collect();
        let run = sshd.cp(sandbox, &["--json"]).args(&args).spawn().wait_for(Duration::from_secs(550));
        let near = run.succeeds().json()["peak_memory"].as_u64().unwrap();
        let peaks = std::fs::read_to_string(sshd.path("peak")).unwrap();
        let far = peaks.lines().map(|line| line.parse::<u64>().unwrap() << 10).max().unwrap();
        println!(
            "{what}, {way}: near {} MiB, far {} MiB, {} s",
            near >> 20,
            far >> 20,
            run.json()["seconds"]
        );
        assert!(near < MOST && far < MOST, "{what}, {way}: near {near}, far {far} bytes");
        let copy = sandbox.path(if way == "there" { "b" } else { "c" });
        same(&sandbox.path("a"), &copy);
        let _ = if copy.is_dir() { std::fs::remove_dir_all(copy) } else { std::fs::remove_file(copy) };
    }
}

fn soak() -> bool {
    std::env::var_os("WEIR_SOAK").is_some()
}

fn same_size(one: &Path, other: &Path) {
    assert_eq!(one.metadata().unwrap().len(), other.metadata().unwrap().len());
}

#[test]
fn a_file_with_holes() {
    let Some(sshd) = watched() else { return };
    let sandbox = Sandbox::new();
    let file = std::fs::File::create(sandbox.path("a")).unwrap();
    let size: u64 = if soak() { 20 << 30 } else { 1 << 30 };
    file.set_len(size).unwrap();
    (0..8).for_each(|at| file.write_all_at(&pattern(MIB, at), size / 8 * at + 5).unwrap());
    check(&sshd, &sandbox, &format!("{} GiB with holes", size >> 30), &[], same_size);
}

#[test]
fn a_file_over_few_lanes_and_many() {
    let Some(sshd) = watched() else { return };
    let sandbox = Sandbox::new();
    let size: usize = if soak() { 4 << 30 } else { 96 * MIB };
    let file = std::fs::File::create(sandbox.path("a")).unwrap();
    let piece = pattern(32 * MIB, 1);
    (0..size / piece.len()).for_each(|at| file.write_all_at(&piece, (at * piece.len()) as u64).unwrap());
    let codecs: &[&str] = if soak() { &["none", "zstd:9", "zstd:19", "brotli"] } else { &["none", "zstd:9"] };
    // With few lanes records carry several blocks.
    let lanes: &[&str] = if soak() { &["1", "2", "4", "16"] } else { &["2", "16"] };
    for lanes in lanes {
        for codec in codecs {
            // The slow ones on a small part of it: they hold the same memory for each block. zstd:9 is quick
            // on noise, and its records carry several only once it is known what the lanes carry.
            let is_slow = !["none", "zstd:9"].contains(codec);
            file.set_len(if is_slow { 32 * MIB } else { size } as u64).unwrap();
            let flags = ["-c", *lanes, "--codec", *codec];
            check(&sshd, &sandbox, &format!("{lanes} lanes, {codec}"), &flags, same_size);
        }
    }
}

#[test]
fn many_files() {
    let Some(sshd) = watched() else { return };
    let sandbox = Sandbox::new();
    // Few in a folder: each holds it open until it is read.
    let (folders, files) = if soak() { (20_000, 10) } else { (1_500, 1) };
    for folder in 0..folders {
        let path = sandbox.path(format!("a/{}/{folder}", folder % 100));
        std::fs::create_dir_all(&path).unwrap();
        for file in 0..files {
            std::fs::write(path.join(file.to_string()), format!("{folder} {file}")).unwrap();
        }
    }
    let what = format!("{} files in {folders} folders", folders * files);
    let count = |root: &Path| support::count(root);
    let expected = count(&sandbox.path("a"));
    for flags in [&[][..], &["-u", "--delete", "-a"]] {
        check(&sshd, &sandbox, &format!("{what} {flags:?}"), flags, |_, copy| {
            assert_eq!(count(copy), expected)
        });
    }
}

/// More files than descriptors, each in blocks of its own.
#[test]
fn many_files_of_middle_size() {
    let Some(sshd) = watched() else { return };
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("a")).unwrap();
    let files = if soak() { 8_000 } else { 1_500 };
    for file in 0..files {
        let path = sandbox.path(format!("a/{file}"));
        std::fs::File::create(path).unwrap().set_len(256 * 1024 + 1 + file).unwrap();
    }
    let all: [&[&str]; 2] = [&["-u"], &[]];
    for flags in all.into_iter().take(if soak() { 2 } else { 1 }) {
        check(&sshd, &sandbox, &format!("{files} files of 256 KiB {flags:?}"), flags, |_, copy| {
            assert_eq!(support::count(copy), files);
        });
    }
}
