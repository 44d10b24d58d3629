//! Rules with rsync's modifiers: whole paths, extended attributes, files of rules in folders, what CVS leaves
//! out, and `-F`.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr};

use super::trees::{Pair, has_rsync, make};
use crate::support::{WEIR, skip};

/// Names that rules are about, at several depths.
const SOURCE: [&str; 20] = [
    "a.log",
    "b.txt",
    "keep.log",
    "core",
    "notes~",
    "tags",
    "src/main.c",
    "src/main.o",
    "src/core/x",
    "src/build/out.o",
    "src/.svn/entries",
    "build/out.o",
    "build/log",
    "log/today.log",
    "log/old/x",
    ".git/config",
    "docs/a b.txt",
    "docs/draft.bak",
    "docs/index.log.txt",
    "CVS/Root",
];

/// What is at the target and not in the source.
const EXTRA: [&str; 12] = [
    "gone.log",
    "gone.txt",
    "gone.o",
    "src/extra.o",
    "src/extra.c",
    "old/deep/x.log",
    "old/deep/y",
    "old/z.o",
    "docs/extra.txt",
    "docs/extra.bak",
    "build/extra",
    ".svn/entries",
];

fn plant(tree: &Path, to: &Path) {
    make(tree, &SOURCE);
    make(to, &EXTRA);
}

/// Flags, parted by `|`, and files beside the trees' own with their text; of `@/` the program's folder, in
/// which `tree` and `to` are.
type Case = (&'static str, &'static [(&'static str, &'static str)]);

const CASES: [Case; 56] = [
    // Patterns of whole paths.
    ("-f|-/ @/tree/src/*.o", &[]),
    ("-f|-/ @/tree/src", &[]),
    ("-f|-/ tree/src", &[]),
    ("-f|-/ /src", &[]),
    ("-f|-/ /tree/src", &[]),
    ("-f|-/ @/tree/src/***", &[]),
    ("-f|-/ **/tree/build/**", &[]),
    ("-f|-/ @/tree/**.o", &[]),
    ("-f|-/ *.log", &[]),
    ("-f|-/ @/tree/log/", &[]),
    ("-f|exclude,/ @/tree/docs/*.txt", &[]),
    ("-f|+/ @/tree/keep.log|-f|- *.log", &[]),
    ("-f|+/ tree/src|-f|+ /src/*.c|-f|- *", &[]),
    ("-f|-/! @/tree/src|-f|+ x", &[]),
    ("-f|P/ @/to/old", &[]),
    ("-f|P/ @/to/old/***|-f|P,/ to/gone.*", &[]),
    ("-f|R/ @/to/gone.txt|-f|P *", &[]),
    ("-f|H/ @/tree/log|-f|S/ @/tree/src/main.o|-f|H *.o", &[]),
    ("-f|-/s @/tree/src/main.o", &[]),
    ("-f|-/r @/to/src/extra.o|-f|-r/ @/tree/gone.o", &[]),
    ("-f|-/p @/to/old/z.o", &[]),
    ("-f|./ ../rules", &[("rules", "- @/tree/b.txt\n- /docs\n+ tree/keep.log\n- *.log\n")]),
    ("-f|merge,/- ../rules", &[("rules", "@/tree/b.txt\n/src/main.c\n")]),
    (
        "-f|:e/ .rules",
        &[("tree/.rules", "- @/tree/src/main.c\n"), ("tree/src/.rules", "- /main.o\n- src/core\n")],
    ),
    // Files of rules, with all that may be said of them.
    ("-f|:e- .rules", &[("tree/.rules", "*.log\n/docs\n"), ("tree/src/.rules", "*.o\n")]),
    ("-f|:n- .rules", &[("tree/.rules", "*.o\n*.log\n"), ("tree/log/.rules", "x\n")]),
    ("-f|:en .rules", &[("tree/.rules", "- *.o\n- *.log\n")]),
    ("-f|:ew- .rules", &[("tree/.rules", "*.log *.o\n  b.txt\t/docs")]),
    ("-f|:ew+ .rules|-f|- *", &[("tree/.rules", "b.txt src main.c .rules")]),
    ("-f|:nw- .rules", &[("tree/.rules", "*.log main.*"), ("tree/src/.rules", "main.o")]),
    ("-f|dir-merge,n-e .rules", &[("tree/.rules", "*.log\n"), ("tree/log/.rules", "today.*\n")]),
    ("-f|dir-merge,w .rules", &[("tree/.rules", "-_*.log -_*.o +_b.txt")]),
    ("-f|:ep .rules", &[("tree/.rules", "- *.o\n"), ("to/old/.rules", "- z.o\n"), ("to/.rules", "- *.o\n")]),
    ("-f|:s- .rules", &[("tree/.rules", "*.log\n"), ("to/.rules", "*.txt\n")]),
    ("-f|:r- .rules", &[("tree/.rules", "*.log\n"), ("to/.rules", "*.txt\n")]),
    ("-f|:+r .keep|-f|:-s .leave", &[("to/.keep", "gone.txt\n"), ("tree/.leave", "*.o\n.leave\n")]),
    ("-f|:eC", &[("tree/.cvsignore", "*.log b.txt\n"), ("tree/src/.cvsignore", "build\n")]),
    ("-f|:C .rules", &[("tree/.rules", "*.log !  b.txt\n"), ("tree/src/.rules", "core main.c\n")]),
    ("-f|.w- ../rules", &[("rules", "*.log *.o\nb.txt")]),
    ("-f|.e ../rules", &[("rules", "- *.o\n"), ("tree/docs/rules", "text")]),
    ("-f|.C ../rules", &[("rules", "*.log ! *.txt")]),
    ("-f|.n- ../rules", &[("rules", "*.o\n/build\n")]),
    ("-f|: .rules|-f|- *.o", &[("tree/.rules", "+ main.o\n"), ("tree/build/.rules", "+ out.o\n")]),
    ("-f|: .rules", &[("tree/.rules", "!\n- *.log\n"), ("tree/src/.rules", "clear\n- *.c\n")]),
    // What CVS leaves out.
    ("--cvs-exclude", &[]),
    ("--cvs-exclude", &[("tree/.cvsignore", "*.txt /src\n"), ("tree/src/.cvsignore", "! main.c\n")]),
    ("--include=*.o|--cvs-exclude", &[]),
    ("--exclude=*.log|--cvs-exclude|--include=core", &[]),
    ("-f|-C", &[]),
    ("-f|-C|-f|+ *.o", &[]),
    ("-f|+ core|-f|-C|-f|:C", &[("tree/.cvsignore", "*.log\n")]),
    ("--cvs-exclude|--delete-excluded", &[]),
    // A file of rules in each folder, and in those around.
    ("-F", &[("tree/.rsync-filter", "- *.o\n- /docs\n"), ("tree/src/.rsync-filter", "+ main.o\n- /core\n")]),
    ("-FF", &[("tree/.rsync-filter", "- *.log\n"), ("to/.rsync-filter", "- gone.*\n")]),
    ("-F|-F", &[(".rsync-filter", "- /tree/src\n- *.txt\n"), ("tree/log/.rsync-filter", "P x\n- old\n")]),
    ("-F|--exclude=main.c", &[(".rsync-filter", "- to/old\n+ main.c\n- *.o\n")]),
];

/// A case's text for one of the programs.
fn of(pair: &Pair, program: &str, text: &str) -> String {
    text.replace("@", &pair.sandbox.path(program).display().to_string())
}

#[test]
fn rules_with_modifiers() {
    if !has_rsync() {
        return;
    }
    for (flags, files) in CASES {
        for (more, sources) in [
            (&[][..], &["./"][..]),
            (&["--delete"], &["./"]),
            (&["--delete"], &["src", "docs", "log", "b.txt"]),
        ] {
            // rsync forgets the rules of the folders around once it leaves the first of several sources.
            if flags.starts_with("-F") && sources.len() > 1 {
                continue;
            }
            let pair = Pair::new(plant);
            for program in ["weir", "rsync"] {
                for (name, text) in files {
                    fs::write(pair.sandbox.path(program).join(name), of(&pair, program, text)).unwrap();
                }
            }
            let words = |program: &str| {
                let words = flags.split('|').map(|word| of(&pair, program, word));
                words.chain(more.iter().map(|word| (*word).to_owned())).collect::<Vec<String>>()
            };
            let (ours, theirs) = (words("weir"), words("rsync"));
            let theirs: Vec<&str> = ["-rlI"].into_iter().chain(theirs.iter().map(String::as_str)).collect();
            let ended = pair.rsync(&theirs, sources);
            assert!(ended.status.success(), "{flags}: {}", String::from_utf8_lossy(&ended.stderr));
            pair.weir(&ours.iter().map(String::as_str).collect::<Vec<_>>(), sources).succeeds();
            let names = |program: &str| {
                let all = pair.list(&format!("{program}/to")).into_iter();
                // What is in a file of rules is each program's own.
                all.map(|line| line.split(": ").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(names("weir"), names("rsync"), "{flags} {more:?} {sources:?}: weir's, then rsync's");
        }
    }
}

/// What the user leaves out of CVS everywhere, by a file and by a variable.
#[test]
fn what_the_user_leaves_out_of_cvs() {
    if !has_rsync() {
        return;
    }
    for (file, variable) in
        [("*.log\nb.txt\n", ""), ("", "*.txt main.c"), ("!\nmain.*\n", "core"), ("*.c", "! docs")]
    {
        let pair = Pair::new(plant);
        fs::write(pair.sandbox.path(".cvsignore"), file).unwrap();
        let run = |mut command: Command, program: &str, flags: &[&str]| {
            command.current_dir(pair.sandbox.path(program).join("tree"));
            command.env("HOME", pair.sandbox.path("")).env("CVSIGNORE", variable);
            command.args(flags).args(["--cvs-exclude", "--delete", "./", "../to/"]);
            let ended = command.output().unwrap();
            assert!(ended.status.success(), "{program}: {}", String::from_utf8_lossy(&ended.stderr));
        };
        run(Command::new("rsync"), "rsync", &["-rlI"]);
        run(Command::new(WEIR), "weir", &["--no-config", "cp", "-q"]);
        pair.are_same(&[file, variable], &["./"]);
    }
}

/// The extended attributes of a file that people have made.
fn attributes(path: &Path) -> Vec<String> {
    let mut names = vec![0; 1 << 16];
    let length = llistxattr(path, &mut names[..]).unwrap();
    let mut found = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
        let mut value = [0; 100];
        let length = lgetxattr(path, name, &mut value[..]).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        found.push(format!("{}={}", text(name), text(&value[..length])));
    }
    found.sort();
    found
}

#[test]
fn rules_of_extended_attributes() {
    if !has_rsync() {
        return;
    }
    let version = Command::new("rsync").arg("--version").output().unwrap().stdout;
    if String::from_utf8_lossy(&version).contains("no xattrs") {
        return skip("this rsync has no extended attributes");
    }
    let give = |path: &Path, names: &[&str]| {
        let set = |name: &&str| lsetxattr(path, *name, b"x", XattrFlags::empty()).is_ok();
        names.iter().all(set)
    };
    for flags in [
        &["-f", "-x user.secret"][..],
        &["-f", "-x user.s*"],
        &["-f", "+x user.keep", "-f", "-x user.*"],
        &["-f", "-x *"],
        &["-f", "exclude,x user.secret", "-f", "- *.log"],
        &["-f", "-!x user.keep"],
        &["-f", "-xs user.keep"],
        &["-f", "-x /user.keep", "-f", "- user.secret"],
        &["-f", ": .rules"],
        &[],
    ] {
        let mut are_kept = true;
        let pair = Pair::new(|tree, to| {
            make(tree, &["file", "dir/file.log", "same"]);
            make(to, &["same"]);
            fs::write(tree.join("dir/.rules"), "-x user.keep\n").unwrap();
        });
        for program in ["weir", "rsync"] {
            let at = |name: &str| pair.sandbox.path(program).join(name);
            for name in ["tree/file", "tree/dir/file.log", "tree/same", "tree/dir"] {
                are_kept &= give(&at(name), &["user.keep", "user.secret", "user.other"]);
            }
            are_kept &= give(&at("to/same"), &["user.secret", "user.there"]);
            for name in ["tree/same", "to/same"] {
                let file = fs::File::options().write(true).open(at(name)).unwrap();
                file.set_modified(std::time::UNIX_EPOCH).unwrap();
            }
        }
        if !are_kept {
            return skip("this file system has no user's attributes");
        }
        pair.agree_with(&["-a", "-u"], &["-aX"], flags, &["./"]);
        for name in ["to/file", "to/dir/file.log", "to/same", "to/dir"] {
            let [ours, theirs] = ["weir", "rsync"].map(|program| {
                let path = pair.sandbox.path(program).join(name);
                path.exists().then(|| attributes(&path))
            });
            assert_eq!(ours, theirs, "{name} by {flags:?}: weir's, then rsync's");
        }
    }
}
