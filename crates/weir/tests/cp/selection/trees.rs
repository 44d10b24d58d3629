//! The same command by weir and by rsync, each on trees of its own, and what becomes of them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Run, Sandbox, WEIR, skip};

/// A source `tree` and a target `to`, once for weir and once for rsync.
pub(crate) struct Pair {
    pub(crate) sandbox: Sandbox,
}

/// Makes files with their names as text, a few of them links (`name -> target`) and folders (`name/`).
pub(crate) fn make(root: &Path, names: &[&str]) {
    for name in names {
        let (name, target) = name.split_once(" -> ").map_or((*name, None), |(name, to)| (name, Some(to)));
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match target {
            Some(target) => symlink(target, &path).unwrap(),
            None if name.ends_with('/') => fs::create_dir_all(&path).unwrap(),
            None => fs::write(&path, name).unwrap(),
        }
    }
}

/// All that is below `root`: folders with a slash, links with where they lead, files with what is in them.
pub(crate) fn list(root: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(path);
                found.push(name + "/");
            } else if kind.is_symlink() {
                found.push(format!("{name} -> {}", fs::read_link(&path).unwrap().display()));
            } else if kind.is_file() {
                found.push(format!("{name}: {}", String::from_utf8_lossy(&fs::read(&path).unwrap())));
            } else {
                found.push(format!("{name} is a node"));
            }
        }
    }
    found.sort();
    found
}

/// Whether rsync is here; a word where it is not.
pub(crate) fn has_rsync() -> bool {
    let is_here = Command::new("rsync").arg("--version").output().is_ok();
    if !is_here {
        skip("no rsync here");
    }
    is_here
}

impl Pair {
    /// Trees that `plant` makes, given the source and the target.
    pub(crate) fn new(plant: impl Fn(&Path, &Path)) -> Pair {
        let sandbox = Sandbox::new();
        for program in ["weir", "rsync"] {
            let (tree, to) = (sandbox.path(program).join("tree"), sandbox.path(program).join("to"));
            fs::create_dir_all(&tree).unwrap();
            fs::create_dir(&to).unwrap();
            plant(&tree, &to);
        }
        Pair { sandbox }
    }

    /// `weir cp` in its source, to its target.
    pub(crate) fn weir(&self, flags: &[&str], sources: &[&str]) -> Run {
        let mut weir = self.sandbox.weir(WEIR, ["cp"]);
        weir.command.current_dir(self.sandbox.path("weir/tree")).args(flags).args(sources).arg("../to/");
        weir.run()
    }

    /// `rsync` in its source, to its target.
    pub(crate) fn rsync(&self, flags: &[&str], sources: &[&str]) -> Output {
        let mut rsync = Command::new("rsync");
        rsync.current_dir(self.sandbox.path("rsync/tree")).args(flags).args(sources).arg("../to/");
        rsync.output().unwrap()
    }

    /// What is below a folder of one of the programs.
    pub(crate) fn list(&self, folder: &str) -> Vec<String> {
        list(&self.sandbox.path(folder))
    }

    /// Both with the same flags end well, and leave the same trees.
    pub(crate) fn agree(&self, flags: &[&str], sources: &[&str]) {
        self.agree_with(&[], &["-rlI"], flags, sources);
    }

    /// The same where each program needs flags of its own.
    pub(crate) fn agree_with(&self, own: &[&str], rsyncs: &[&str], flags: &[&str], sources: &[&str]) {
        let theirs = self.rsync(&[rsyncs, flags].concat(), sources);
        assert!(theirs.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&theirs.stderr));
        self.weir(&[own, flags].concat(), sources).succeeds();
        self.are_same(flags, sources);
    }

    /// The trees are the same.
    pub(crate) fn are_same(&self, flags: &[&str], sources: &[&str]) {
        for folder in ["to", "tree"] {
            let [ours, theirs] = ["weir", "rsync"].map(|program| self.list(&format!("{program}/{folder}")));
            assert_eq!(ours, theirs, "{folder} of {flags:?} {sources:?}: weir's, then rsync's");
        }
    }
}
