//! What patterns select, of folders' contents and of sources that are named themselves: the same names arrive
//! by `weir cp` and by `rsync` with the same words.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod choices;
mod far;
mod modifiers;
mod rules;
mod trees;

use crate::support;

use std::fs;
use std::process::Command;

use support::{Dice, Sandbox, skip};

/// Files of the tree; folders come with them. Names that people exclude, at several depths, and some that
/// only look like them.
const FILES: [&str; 18] = [
    "a.log",
    "b.txt",
    "keep.log",
    "node_modules/x.js",
    "node_modules/deep/y.js",
    "src/main.c",
    "src/main.o",
    "src/node_modules/z.js",
    "src/build/out.o",
    "build/out.o",
    "build/log",
    "log/today.log",
    "log/old/x",
    ".git/config",
    ".git/log/x",
    "docs/a b.txt",
    "docs/[x].txt",
    "docs/index.log.txt",
];

const PATTERNS: [&str; 24] = [
    "*.log",
    "node_modules",
    "node_modules/",
    "/node_modules",
    "/build/",
    "build",
    "*.o",
    "src/*.o",
    "/src/*.o",
    "**/deep",
    "**.js",
    "log",
    "log/",
    "/log/*",
    ".*",
    ".git/***",
    "/src/***",
    "docs/[[]x].txt",
    "a*",
    "?.txt",
    "[a-k]*",
    "*/",
    "*",
    "main.[!o]",
];

/// As people name sources: contents, folders, everything by the shell's `*`, single files.
const SOURCES: [&[&str]; 6] = [
    &["./"],
    &["src", "log", ".git"],
    &["a.log", "b.txt", "keep.log", "node_modules", "src", "build", "log", "docs"],
    &["node_modules"],
    &["a.log", "b.txt"],
    &["src/", "docs"],
];

fn plant(sandbox: &Sandbox) {
    for file in FILES {
        let path = sandbox.path("tree").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
}

/// The names that arrive, folders with a slash.
fn arrived(sandbox: &Sandbox, to: &str) -> Vec<String> {
    let root = sandbox.path(to);
    let (mut found, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let name = entry.path().strip_prefix(&root).unwrap().display().to_string();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
                found.push(name + "/");
            } else {
                found.push(name);
            }
        }
    }
    found.sort();
    found
}

fn compare(rules: &[String], sources: &[&str]) {
    let sandbox = Sandbox::new();
    plant(&sandbox);
    for to in ["by-weir", "by-rsync"] {
        fs::create_dir(sandbox.path(to)).unwrap();
    }
    let tree = sandbox.path("tree");
    let place = |to: &str| format!("{}/", sandbox.path(to).display());
    let mut ours = sandbox.weir(support::WEIR, ["cp", "-r"]);
    ours.command.current_dir(&tree).args(rules).args(sources).arg(place("by-weir"));
    ours.run().succeeds();
    let theirs = Command::new("rsync")
        .current_dir(&tree)
        .arg("-r")
        .args(rules)
        .args(sources)
        .arg(place("by-rsync"))
        .status()
        .unwrap();
    assert!(theirs.success(), "{rules:?} {sources:?}");
    let (ours, theirs) = (arrived(&sandbox, "by-weir"), arrived(&sandbox, "by-rsync"));
    assert_eq!(ours, theirs, "{rules:?} {sources:?}: weir, then rsync");
}

/// 24 patterns alone with each way to name sources, and 30 lists of several, as includes and excludes.
#[test]
fn the_same_names_arrive_as_by_rsync() {
    if Command::new("rsync").arg("--version").output().is_err() {
        return skip("no rsync here");
    }
    for (at, pattern) in PATTERNS.iter().enumerate() {
        for sources in [SOURCES[at % SOURCES.len()], SOURCES[2], SOURCES[0], SOURCES[5]] {
            compare(&[format!("--exclude={pattern}")], sources);
        }
    }
    let (mut dice, _) = Dice::for_runs();
    for _ in 0..60 {
        let rules: Vec<String> = (0..dice.roll(2..6))
            .map(|_| {
                let take = ["--include", "--exclude"][dice.roll(0..2) as usize];
                format!("{take}={}", PATTERNS[dice.roll(0..PATTERNS.len() as u64) as usize])
            })
            .collect();
        compare(&rules, SOURCES[dice.roll(0..SOURCES.len() as u64) as usize]);
    }
}

#[test]
fn a_source_that_is_left_out_is_not_in_a_dry_run_either() {
    let sandbox = Sandbox::new();
    plant(&sandbox);
    let args = ["cp", "-rn", "--exclude=*.log", "--exclude=node_modules", "tree/a.log", "tree/b.txt"];
    let run = sandbox.weir(support::WEIR, args).args(&["tree/node_modules", "copy/"]).run();
    let said = String::from_utf8(run.succeeds().stdout.clone()).unwrap();
    assert_eq!(said, "copy b.txt\n");
}
