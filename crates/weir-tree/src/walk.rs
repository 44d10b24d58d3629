//! A tree as a stream of entries: depth first, in memory that does not grow with the number of entries.

use std::path::{Path, PathBuf};

use crate::entry::{Entry, Name};
use crate::error::Error;
use crate::filter::Filter;
use crate::source::Source;

/// Where a walk begins, and what that is called in the tree.
#[derive(Debug, Clone)]
pub struct Root {
    /// The path on this machine.
    pub path: PathBuf,
    /// Its name in the tree: the root for a directory whose content is meant.
    pub name: Name,
    /// A symbolic link at `path` is followed.
    pub follow: bool,
}

impl Root {
    /// The directory's content goes straight into the tree's root (`rsync DIR/ ...`).
    pub fn content_of(path: impl Into<PathBuf>) -> Root {
        Root { path: path.into(), name: Name::root(), follow: true }
    }

    /// As people write sources: `DIR/`, `.` and `..` mean the content, anything else is called as its last component.
    pub fn from_argument(path: &Path) -> Result<Root, Error> {
        let _ = path;
        unimplemented!()
    }
}

/// What a walk looks at beyond kinds, sizes, modes and times.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Extended attributes: `user.*`, and as root everything but `system.*`.
    pub xattrs: bool,
    /// Second names of a file become [`crate::Kind::HardLink`]; without it they are files of their own.
    pub hard_links: bool,
    /// Stay on the root's file system.
    pub one_file_system: bool,
    /// A directory to leave out: the target, where it lies in the source.
    pub avoid: Option<Identity>,
}

/// Device and inode: the same for two ways to the same thing on one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// What a walk meets.
#[derive(Debug)]
pub enum Step {
    /// An entry. A directory comes before what is in it. [`crate::Kind::Special`] is for a word to the user only.
    Found(Entry, Source),
    /// All of a directory was met: the same entry as when it was found, for its attributes come last.
    Leave(Entry),
    /// This one could not be read; the walk goes on.
    Failed(Name, Error),
}

/// The walk, to be iterated.
#[derive(Debug)]
pub struct Walk {}

impl Walk {
    /// A walk through `roots` one after another.
    pub fn new(roots: Vec<Root>, filter: Filter, wanted: Wanted) -> Walk {
        let _ = (roots, filter, wanted);
        Walk {}
    }

    /// A walk through the names of a list (`--files-from`), relative to `root`: each with the directories on the way
    /// to it, none with what is beneath it. A list in order meets each directory once.
    pub fn listed<L>(root: PathBuf, list: L, wanted: Wanted) -> Walk
    where
        L: Iterator<Item = Result<Name, Error>> + Send + 'static,
    {
        let _ = (root, list, wanted);
        Walk {}
    }
}

impl Iterator for Walk {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        None
    }
}
