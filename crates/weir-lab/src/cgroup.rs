//! One control group: made, limited, joined by a child process, removed when dropped.
//!
//! Version 1 keeps a tree for each controller, version 2 one for all. A group carries the name of the
//! [`Folder`](crate::folder::Folder) it was made for, so that the next run finds what a killed one left.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::slow_error::{SlowError, set};

/// Where control groups are mounted: version 2 itself when it is the only one, version 1's trees below it.
const ROOT: &str = "/sys/fs/cgroup";

/// Which tree a controller has on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A tree of its own.
    V1,
    /// The unified tree.
    V2,
}

/// A group; its processes are moved to its parent when it is dropped, and it is removed.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

/// The tree of `controller` (its name in version 1: `blkio`, `cpu`), and its version.
pub fn tree(controller: &str) -> (PathBuf, Version) {
    tree_below(Path::new(ROOT), controller)
}

fn tree_below(root: &Path, controller: &str) -> (PathBuf, Version) {
    let own = root.join(controller);
    // In version 2 there could be a group of that name, but it would not have version 1's list of tasks.
    if own.join("tasks").exists() { (own, Version::V1) } else { (root.to_owned(), Version::V2) }
}

impl Cgroup {
    /// Makes the group `name` below `tree`. For version 2, `needs` are the controllers that it must offer.
    pub fn make(tree: &Path, name: &str, needs: &[&str]) -> Result<Cgroup, SlowError> {
        let path = tree.join(name);
        fs::create_dir(&path).map_err(|cause| {
            SlowError::caused(format!("cannot make the cgroup {}", path.display()), cause)
        })?;
        let group = Cgroup { path };
        let offered = fs::read_to_string(group.path.join("cgroup.controllers")).unwrap_or_default();
        for needed in needs {
            if !offered.split_ascii_whitespace().any(|name| name == *needed) {
                return Err(SlowError::refused(format!(
                    "the cgroup controller {needed} is not enabled for child groups; write +{needed} into {}",
                    tree.join("cgroup.subtree_control").display()
                )));
            }
        }
        Ok(group)
    }

    /// Writes one of the group's settings.
    pub fn set(&self, name: &str, value: &str) -> Result<(), SlowError> {
        set(&self.path.join(name), value)
    }

    /// Reads one of the group's files.
    pub fn read(&self, name: &str) -> io::Result<String> {
        fs::read_to_string(self.path.join(name))
    }

    /// Lets `command` begin inside the group.
    pub fn join(&self, command: &mut Command) -> Result<(), SlowError> {
        let members = self.path.join("cgroup.procs");
        let file = File::options()
            .write(true)
            .open(&members)
            .map_err(|cause| SlowError::caused(format!("cannot open {}", members.display()), cause))?;
        // SAFETY: the closure makes one system call, write, which is allowed between fork and exec; 0 is the
        // writer itself.
        unsafe {
            command.pre_exec(move || rustix::io::write(&file, b"0").map(drop).map_err(io::Error::from))
        };
        Ok(())
    }

    /// Removes the group `name` below `tree` if a killed run left it. Returns whether it is gone.
    pub(crate) fn remove_leftover(tree: &Path, name: &str) -> bool {
        let path = tree.join(name);
        if path.exists() {
            drop(Cgroup { path: path.clone() });
        }
        !path.exists()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let members = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        if let Some(parent) = self.path.parent() {
            for member in members.lines() {
                // One that ended meanwhile needs no other group.
                let _ = fs::write(parent.join("cgroup.procs"), member);
            }
        }
        if let Err(error) = fs::remove_dir(&self.path) {
            tracing::warn!("the cgroup {} remains: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_known_by_its_files() {
        let root = tempfile::tempdir().unwrap();
        let in_root = |name: &str| root.path().join(name);
        fs::write(in_root("cgroup.controllers"), "cpu io memory").unwrap();
        fs::create_dir(in_root("blkio")).unwrap();
        fs::write(in_root("blkio/cgroup.procs"), "").unwrap();
        let unified = (root.path().to_owned(), Version::V2);
        assert_eq!(tree_below(root.path(), "blkio"), unified, "a group that happens to have that name");
        assert_eq!(tree_below(root.path(), "cpu"), unified);
        fs::write(in_root("blkio/tasks"), "").unwrap();
        assert_eq!(tree_below(root.path(), "blkio"), (in_root("blkio"), Version::V1));
    }

    #[test]
    fn a_controller_that_is_not_offered_is_said_and_no_group_stays() {
        let root = tempfile::tempdir().unwrap();
        let error = Cgroup::make(root.path(), "weir-lab-1-0", &["io"]).unwrap_err().to_string();
        assert!(
            error.contains("the cgroup controller io is not enabled") && error.contains("+io"),
            "{error}"
        );
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
