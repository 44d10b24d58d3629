//! Names that trouble others, and trees laid over what is there: `weir cp` through a real sshd, both ways.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{MIB, Sandbox, Sshd, pattern};

/// Each file below `root`, by its path's bytes, with its content.
fn files(root: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push((name, std::fs::read(path).unwrap())),
            }
        }
    }
    found.sort();
    found
}

fn there_and_back(sshd: &Sshd, sandbox: &Sandbox) {
    let far = |name: &str| format!("far:{}", sandbox.path(name).display());
    sshd.copies(sandbox, &["tree", &far("copy")]).succeeds();
    assert!(files(&sandbox.path("tree")) == files(&sandbox.path("copy")));
    sshd.copies(sandbox, &[&far("copy"), "back"]).succeeds();
    assert!(files(&sandbox.path("tree")) == files(&sandbox.path("back")));
}

#[test]
fn names_of_any_bytes() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    let tree = sandbox.path("tree");
    std::fs::create_dir(&tree).unwrap();
    let all: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
    let names: [&[u8]; 14] = [
        b"-rf",
        b"--delete",
        b"-oProxyCommand=x",
        b"new\nline",
        b"tab\there",
        b"\x1b[31mred",
        b"not \xff\xfe utf-8",
        b" ",
        b"...",
        b"~",
        b"host:path",
        b"'quote\" $(touch x)`",
        b"back\\slash",
        &all,
    ];
    let long = [vec![b'n'; 255], vec![0xff; 255]];
    for (index, name) in names.iter().copied().chain(long.iter().map(Vec::as_slice)).enumerate() {
        let path = tree.join(OsStr::from_bytes(name));
        // Large ones go by a part, whose name is longer still.
        let size = if index % 6 == 0 || name.len() > 200 { 5 * MIB } else { 100 };
        std::fs::write(path, pattern(size, index as u64)).unwrap();
    }
    there_and_back(&sshd, &sandbox);
}

/// As an argument such a name is a file too, here and there.
#[test]
fn odd_names_as_arguments() {
    let Some(sshd) = Sshd::start() else { return };
    for name in ["-rf", "new\nline", "a b'c\"d$(touch x)", "*", "\u{1b}[31m"] {
        let sandbox = Sandbox::new();
        sandbox.write(name, pattern(100, 1));
        let far = format!("far:{}", sandbox.path("to").join(name).display());
        std::fs::create_dir(sandbox.path("to")).unwrap();
        sshd.cp(&sandbox, &["--", name, &far]).run().succeeds();
        sshd.cp(&sandbox, &["--", &far, "back"]).run().succeeds();
        assert_eq!(sandbox.read(name), sandbox.read("back"));
        assert_eq!(sandbox.names().len(), 4, "{:?}", sandbox.names());
    }
}

/// 4095 bytes are the longest path that a system call takes; a tree may have longer ones, which are said and
/// left out.
#[test]
fn paths_up_to_the_longest() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    let folder = "d".repeat(99);
    // 38 folders and a name: below the longest even with where the copy lies.
    let deep: PathBuf = std::iter::once("tree").chain(std::iter::repeat_n(folder.as_str(), 38)).collect();
    std::fs::create_dir_all(sandbox.path(&deep)).unwrap();
    std::fs::write(sandbox.path(&deep).join("small"), pattern(100, 1)).unwrap();
    std::fs::write(sandbox.path(&deep).join("large"), pattern(5 * MIB, 1)).unwrap();
    there_and_back(&sshd, &sandbox);
    // Deeper still, from where a shell has gone.
    let script = format!(
        "cd '{}' && for i in 1 2 3 4; do mkdir {folder} && cd {folder} && echo x >file; done",
        sandbox.path(&deep).display()
    );
    assert!(Command::new("bash").args(["-c", &script]).status().unwrap().success());
    let to = format!("far:{}", sandbox.path("further").display());
    let run = sshd.copies(&sandbox, &["tree", &to]);
    run.fails(1, &["is too long"]);
    let found = Command::new("find")
        .arg(sandbox.path("further"))
        .args(["-name", "small", "-printf", "found"])
        .output();
    assert_eq!(found.unwrap().stdout, b"found", "the rest is there: {}", run.stderr);
}

#[test]
fn trees_over_what_is_there() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    let far = |name: &str| format!("far:{}", sandbox.path(name).display());
    for folder in ["tree/folder", "copy/file", "copy/link"] {
        std::fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    sandbox.write("tree/file", "text");
    sandbox.write("tree/good", "text");
    std::os::unix::fs::symlink("/nowhere", sandbox.path("tree/link")).unwrap();
    sandbox.write("tree/folder/inside", "text");
    sandbox.write("copy/folder", "a file where a folder comes");
    // The summary names three in the order of the walk, which is the file system's; `-q` all.
    let run = sshd.copies(&sandbox, &["-q", "tree/", &far("copy")]);
    run.fails(1, &["file", "link", "folder"]);
    assert_eq!(sandbox.read("copy/good"), b"text", "the rest comes");
    assert_eq!(sandbox.read("copy/folder"), b"a file where a folder comes", "nothing is lost");
    // The same thing by two names, and onto itself.
    sshd.copies(&sandbox, &["tree/good", "tree/../tree/good", &far("copy/")]).succeeds();
    std::fs::create_dir(sandbox.path("elsewhere")).unwrap();
    sandbox.write("elsewhere/file", "another");
    sshd.copies(&sandbox, &["tree/file", "elsewhere/file", &far("copy/")]).fails(1, &["both become file"]);
    std::fs::hard_link(sandbox.path("tree/good"), sandbox.path("other")).unwrap();
    sshd.copies(&sandbox, &["tree/good", &far("other")]).fails(1, &["source and target are the same"]);
    assert_eq!(sandbox.read("tree/good"), b"text");
}

/// A folder into itself would have no end.
#[test]
fn a_folder_into_itself_ends() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("tree/sub")).unwrap();
    sandbox.write("tree/file", pattern(300_000, 1));
    let to = format!("far:{}", sandbox.path("tree/sub").display());
    let run = sshd.copies(&sandbox, &["tree", &to]);
    assert!(matches!(run.status.code(), Some(0 | 1)), "{run:?}");
    let deepest = sandbox.names().into_iter().map(|name| name.matches('/').count()).max().unwrap();
    assert!(deepest < 12, "it copied its own copy: {deepest} levels");
}
