//! rsync's rules: `--filter` with its signs, names and modifiers, files of rules, what they protect at the
//! target, and how many entries may go.

use std::fs;
use std::path::Path;

use super::trees::{Pair, has_rsync, list, make};
use crate::support::{Dice, WEIR};

const SOURCE: [&str; 14] = [
    "a.log",
    "b.txt",
    "keep.log",
    "src/main.c",
    "src/main.o",
    "src/build/out.o",
    "build/out.o",
    "build/log",
    "log/today.log",
    "log/old/x",
    ".git/config",
    "docs/a b.txt",
    "docs/-x",
    "docs/index.log.txt",
];

/// What is at the target that the source does not have, and some that it has.
const EXTRA: [&str; 14] = [
    "gone.log",
    "gone.txt",
    "keep.log",
    "src/extra.o",
    "src/extra.c",
    "src/build/extra.o",
    "old/deep/x.log",
    "old/deep/y",
    "old/z.o",
    "logs/today.log",
    "docs/extra.txt",
    "docs/deep/-x",
    "build/extra",
    "empty/",
];

fn plant(tree: &Path, to: &Path) {
    make(tree, &SOURCE);
    make(to, &EXTRA);
}

/// Sets of rules, each parted by `|`.
const RULES: [&str; 40] = [
    "- *.log",
    "+ keep.log|- *.log",
    "- /build/|- *.o",
    "exclude *.o|include *.c|exclude main.*",
    "-_*.o",
    "-,s *.o",
    "-r *.o",
    "P *.o",
    "protect *.log",
    "P /old/deep",
    "R *.o|P *",
    "risk gone.*|protect /gone*",
    "H *.log",
    "hide /src/build",
    "S *.log|H *",
    "show */|show *.c|hide *",
    "-! *.log|+ */",
    "-! */",
    "+! *.o|- *",
    "- *.log|!|- *.txt",
    "clear|- *.c",
    "-p *.o",
    "-p *.log|- *.txt",
    "- /src/*|P /src/extra.c",
    "- src/***",
    "- **/build/**",
    "+ /src/|+ /src/*.c|- *",
    "+ */|+ *.txt|- *",
    "-s *.log|P *.txt",
    "-r /src/|R *",
    "- -x",
    "- docs/a*",
    "exclude,! *.o|include */",
    "P,p *.o",
    "- log",
    "- log/",
    "-s log/|-r old/",
    "+r gone.log|-r *.log",
    "+s keep.log|-s *.log",
    "- [!a-k]*",
];

fn flags(rules: &str) -> Vec<String> {
    rules.split('|').map(|rule| format!("--filter={rule}")).collect()
}

#[test]
fn rules_that_leave_out_and_protect() {
    if !has_rsync() {
        return;
    }
    for (at, rules) in RULES.iter().enumerate() {
        let rules = flags(rules);
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        for more in [&["--delete"][..], &["--delete", "--delete-excluded"]] {
            let sources = [&["./"][..], &["src", "docs", "log", "b.txt"]][(at + more.len()) % 2];
            Pair::new(plant).agree(&[&rules[..], more].concat(), sources);
        }
    }
}

#[test]
fn rules_by_chance() {
    if !has_rsync() {
        return;
    }
    let (mut dice, runs) = Dice::for_runs();
    for _ in 0..runs {
        let count = dice.roll(1..5);
        let rules = (0..count).map(|_| RULES[dice.roll(0..RULES.len() as u64) as usize]);
        let rules = flags(&rules.collect::<Vec<_>>().join("|"));
        let mut flags: Vec<&str> = rules.iter().map(String::as_str).collect();
        flags.extend([&["--delete"][..], &["--delete-excluded"], &[]][dice.roll(0..3) as usize]);
        Pair::new(plant).agree(&flags, &["./"]);
    }
}

/// Files of rules in folders: how the rule is written, files of the source, files of the target.
type InFolders =
    (&'static str, &'static [(&'static str, &'static str)], &'static [(&'static str, &'static str)]);

const IN_FOLDERS: [InFolders; 17] = [
    (": .rules", &[(".rules", "- *.log\n")], &[]),
    ("dir-merge .rules", &[("src/.rules", "# a remark\n\n; another\n- *.o\n")], &[]),
    (": .rules", &[(".rules", "- *.log\n"), ("log/.rules", "+ today.log\n")], &[]),
    (": .rules", &[(".rules", "- *.o\n"), ("src/.rules", "!\n- *.c\n")], &[]),
    (":n .rules", &[(".rules", "- *.o\n- *.log\n")], &[]),
    (":e .rules", &[(".rules", "- *.log\n"), ("src/.rules", "- *.o\n")], &[]),
    (":- .rules", &[(".rules", "*.log\n*.o\n")], &[]),
    (":+ .rules|- *", &[(".rules", "b.txt\nsrc\nmain.c\n")], &[]),
    (":w- .rules", &[(".rules", "*.log *.o\n  b.txt")], &[]),
    (":C", &[(".cvsignore", "*.log b.txt\n"), ("src/.cvsignore", "build\n")], &[]),
    ("-C", &[], &[]),
    (": .rules", &[(".rules", "- /build\n"), ("src/.rules", "- /build\n- /main.c\n")], &[]),
    (": .rules", &[(".rules", ": .more\n"), ("src/.more", "- *.o\n"), (".more", "- *.log\n")], &[]),
    (": .rules", &[(".rules", "P *.o\nH *.log\n")], &[]),
    // Those of the target say what is protected there, before they are replaced.
    (": .rules", &[(".rules", "- *.log\n")], &[(".rules", "- *.txt\n"), ("src/.rules", "P extra.*\n")]),
    (":e .rules", &[], &[("old/.rules", "- y\n"), (".rules", "P gone.log\n")]),
    (":s .rules|:r .keep", &[(".rules", "- *.o\n")], &[("src/.keep", "- *.o\n"), (".rules", "- *.log\n")]),
];

#[test]
fn rules_in_the_files_of_folders() {
    if !has_rsync() {
        return;
    }
    for (rules, of_source, of_target) in IN_FOLDERS {
        let rules = flags(rules);
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let plant = |tree: &Path, to: &Path| {
            plant(tree, to);
            for (root, files) in [(tree, of_source), (to, of_target)] {
                for (name, text) in files {
                    fs::write(root.join(name), text).unwrap();
                }
            }
        };
        for more in [&[][..], &["--delete"], &["--delete", "--delete-excluded"]] {
            for sources in [&["./"][..], &["src", "log"]] {
                Pair::new(plant).agree(&[&rules[..], more].concat(), sources);
            }
        }
    }
}

#[test]
fn rules_from_the_folders_around() {
    if !has_rsync() {
        return;
    }
    let pair = Pair::new(|tree, to| {
        plant(tree, to);
        fs::write(tree.parent().unwrap().join(".rules"), "- /tree/b.txt\n- *.o\n").unwrap();
    });
    let root = |program: &str| format!("--filter=: {}/.rules", pair.sandbox.path(program).display());
    let theirs = pair.rsync(&["-rlI", &root("rsync")], &["./"]);
    assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
    pair.weir(&[&root("weir")], &["./"]).succeeds();
    pair.are_same(&[": /.../.rules"], &["./"]);
}

#[test]
fn lists_of_patterns() {
    if !has_rsync() {
        return;
    }
    let lists: [(&str, &str); 6] = [
        ("--exclude-from", "# remark\n; another\n*.log\n\n/build/\r\n"),
        ("--exclude-from", "+ keep.log\n*.log\n- *.o\n"),
        ("--exclude-from", "*.log\n!\n*.txt"),
        ("--include-from", "*/\n*.c\n- *\n"),
        ("--exclude-from", " b.txt\n"),
        ("--exclude-from", "docs/a b.txt\n"),
    ];
    for (flag, text) in lists {
        for nul in [false, true] {
            let text = if nul { text.replace('\n', "\0") } else { text.to_owned() };
            let pair = Pair::new(|tree, to| {
                plant(tree, to);
                fs::write(tree.join("list"), &text).unwrap();
            });
            let flags = [flag, "list", "--exclude=list", "--exclude=*.git", "--delete"];
            // To rsync it counts from there on.
            pair.agree(&[if nul { &["--from0"][..] } else { &[] }, &flags[..]].concat(), &["./"]);
        }
    }
    // A prefix says it otherwise in one pattern, too.
    Pair::new(plant).agree(&["--exclude=+ keep.log", "--exclude=*.log", "--include=- b.txt"], &["./"]);
}

#[test]
fn files_that_a_rule_merges() {
    if !has_rsync() {
        return;
    }
    let plant = |tree: &Path, to: &Path| {
        plant(tree, to);
        let around = tree.parent().unwrap();
        fs::write(around.join("rules"), "- *.o\n. ../more\nP gone.*\n").unwrap();
        fs::write(around.join("more"), "+ keep.log\n- *.log\n").unwrap();
        fs::write(around.join("patterns"), "*.log\n*.c\n").unwrap();
    };
    for rules in [". ../rules", "merge ../rules", ".- ../patterns", ".+ ../patterns|- /src/*", ".s ../more"] {
        let rules = flags(rules);
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        Pair::new(plant).agree(&[&rules[..], &["--delete"]].concat(), &["./"]);
    }
}

#[test]
fn rules_that_are_none() {
    let pair = Pair::new(plant);
    fs::write(pair.sandbox.path("weir/itself"), ". ../itself\n").unwrap();
    for (rule, words) in [
        ("*.o", "a rule begins with + - P R"),
        ("-", "it ends before its pattern"),
        ("! x", "'!' stands alone"),
        ("-q x", "the modifier 'q' does not fit"),
        ("P,s x", "the modifier 's' does not fit"),
        (". ../none", "cannot read the rules in ../none: no such file"),
        (". ../itself", "name each other without end"),
        (": sub/.rules", "named without folders"),
        ("- [[:word:]]", "unknown class"),
    ] {
        pair.weir(&["--delete", &format!("--filter={rule}")], &["./"]).fails(2, &[words]);
    }
    pair.weir(&["--exclude-from=../none"], &["./"]).fails(2, &["../none", "no such file"]);
    assert_eq!(pair.list("weir/to"), pair.list("rsync/to"), "nothing was touched");
    // In a folder: nothing of it is copied, and nothing is deleted.
    fs::write(pair.sandbox.path("weir/tree/src/.rules"), "what is this\n").unwrap();
    pair.weir(&["-q", "--delete", "--filter=: .rules"], &["./"])
        .fails(1, &["the rules of src", "what is this"]);
    let there = pair.list("weir/to");
    assert!(there.contains(&"gone.txt: gone.txt".to_owned()), "{there:?}");
    assert!(!there.iter().any(|name| name.starts_with("src/main")), "{there:?}");
    // The target's own cannot be told: nothing there goes.
    fs::remove_file(pair.sandbox.path("weir/tree/src/.rules")).unwrap();
    fs::write(pair.sandbox.path("weir/to/src/.rules"), "what is this\n").unwrap();
    pair.weir(&["-q", "--delete", "--filter=: .rules"], &["./"]).fails(1, &["the rules of src"]);
    let there = pair.list("weir/to");
    assert!(there.contains(&"src/extra.o: src/extra.o".to_owned()), "{there:?}");
    assert!(!there.contains(&"gone.txt: gone.txt".to_owned()), "{there:?}");
}

/// Which of them go is not said, but how many.
#[test]
fn no_more_than_so_many_go() {
    if !has_rsync() {
        return;
    }
    for most in [0, 1, 3, 6, 100] {
        let limit = format!("--max-delete={most}");
        let pair = Pair::new(plant);
        let theirs = pair.rsync(&["-rlI", "--delete", &limit], &["./"]);
        let dry = pair.weir(&["-n", "--delete", &limit], &["./"]);
        let run = pair.weir(&["--json", "--delete", &limit], &["./"]);
        let (ours, rsyncs) = (pair.list("weir/to"), pair.list("rsync/to"));
        assert_eq!(ours.len(), rsyncs.len(), "{most}: {ours:?} {rsyncs:?}");
        let said = String::from_utf8(dry.stdout.clone()).unwrap();
        let told = said.lines().filter(|line| line.starts_with("delete ")).count();
        let deleted = run.json()["cp"]["deleted"].as_u64().unwrap();
        assert_eq!(told as u64, deleted, "{most}: {said}");
        match most {
            100 => {
                assert!(theirs.status.success());
                run.succeeds();
                dry.succeeds();
            }
            most => {
                assert_eq!((theirs.status.code(), deleted), (Some(25), most));
                dry.fails(1, &["--max-delete"]);
                run.fails(1, &["the most that --max-delete lets go"]);
            }
        }
    }
}

/// rsync knows no new names: its tree is one folder deeper.
#[test]
fn a_source_under_a_new_name_is_judged_by_its_own() {
    if !has_rsync() {
        return;
    }
    for rules in ["- /src/main.o|- /new", "- src/build", "+ /src/main.c|- main.*", "- /src/build/***"] {
        let rules = flags(rules);
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let pair = Pair::new(|tree, _| make(tree, &SOURCE));
        let theirs = pair.rsync(&[&["-rlI", "--delete"], &rules[..]].concat(), &["src"]);
        assert!(theirs.status.success());
        let around = pair.sandbox.path("weir");
        let mut weir = pair.sandbox.weir(WEIR, ["cp", "-q", "--delete"]);
        weir.command.current_dir(&around).args(&rules).args(["tree/src", "new"]);
        weir.run().succeeds();
        let theirs = list(&pair.sandbox.path("rsync/to/src"));
        assert_eq!(list(&around.join("new")), theirs, "{rules:?}");
    }
}
