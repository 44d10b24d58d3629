//! A tree being written: every step beneath its root, whatever names and links say.
//!
//! `&self` everywhere: a target may be used by several threads at once.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

use crate::entry::{Entry, Name};
use crate::error::Error;
use crate::filter::Filter;
use crate::walk::Identity;

/// Which attributes of the source an entry gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Mode, with set-user-id and the like; without it: the source's permissions less the umask, an existing file's own.
    pub modes: bool,
    /// Modification times.
    pub times: bool,
    /// Owner and group by number. Needs root; otherwise only groups that this user is in.
    pub owners: bool,
    /// Extended attributes.
    pub xattrs: bool,
}

/// How a target is opened.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What entries get.
    pub keep: Keep,
    /// Make the root where it is missing (its parent has to be there).
    pub create: bool,
}

/// A tree being written.
#[derive(Debug)]
pub struct Target {}

/// A file being written, under no name or a temporary one. Dropped without [`Pending::finish`]: gone, unless it is a part.
#[derive(Debug)]
pub struct Pending {}

/// What could not be kept, said once a kind: how often, and the first entry it happened to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// What.
    pub lack: Lack,
    /// How often.
    pub count: u64,
    /// The first one.
    pub first: Name,
    /// The system's reason.
    pub why: String,
}

/// An attribute that the target did not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// The file system has no extended attributes, or not such.
    Xattrs,
    /// Not allowed to set this owner or group.
    Owner,
    /// Not allowed to set this mode.
    Mode,
}

impl Target {
    /// Opens the directory `root`, itself reached as the user wrote it, links and all.
    pub fn open(root: &Path, options: Options) -> Result<Target, Error> {
        let _ = (root, options);
        unimplemented!()
    }

    /// Which directory it is.
    pub fn identity(&self) -> Identity {
        unimplemented!()
    }

    /// What could not be kept so far.
    pub fn words(&self) -> Vec<Word> {
        unimplemented!()
    }

    /// Makes the directory and those on the way to it, where they are missing: mode 0700 until
    /// [`Target::finish_directory`]. One that is there is made writable for its owner until then.
    pub fn directory(&self, name: &Name) -> Result<(), Error> {
        let _ = name;
        unimplemented!()
    }

    /// Gives a directory its attributes: after everything in it is finished, for its times come last.
    pub fn finish_directory(&self, entry: &Entry) -> Result<(), Error> {
        let _ = entry;
        unimplemented!()
    }

    /// Begins a file that appears under its name only when it is finished; directories on the way are made.
    /// Space is reserved unless it is sparse.
    pub fn create(&self, entry: &Entry) -> Result<Pending, Error> {
        let _ = entry;
        unimplemented!()
    }

    /// Begins or goes on with a file that is kept beside its name (`.NAME.weir-part`) when this run ends early.
    pub fn part(&self, entry: &Entry) -> Result<Pending, Error> {
        let _ = entry;
        unimplemented!()
    }

    /// Removes the part of `name`, if there is one.
    pub fn discard_part(&self, name: &Name) -> Result<(), Error> {
        let _ = name;
        unimplemented!()
    }

    /// A whole small file at once, attributes and all.
    pub fn small(&self, entry: &Entry, content: &[u8]) -> Result<(), Error> {
        let _ = (entry, content);
        unimplemented!()
    }

    /// A symbolic link, in place of another or of a file.
    pub fn symlink(&self, entry: &Entry) -> Result<(), Error> {
        let _ = entry;
        unimplemented!()
    }

    /// A second name of a finished file of this tree.
    pub fn hard_link(&self, entry: &Entry) -> Result<(), Error> {
        let _ = entry;
        unimplemented!()
    }

    /// What is there, without its extended attributes; never a [`crate::Kind::HardLink`]. A link on the way is an error.
    pub fn existing(&self, name: &Name) -> Result<Option<Entry>, Error> {
        let _ = name;
        unimplemented!()
    }

    /// Opens the file that is there for reading: the old version for [`crate::delta`], or for `--checksum`.
    pub fn open_existing(&self, name: &Name) -> Result<File, Error> {
        let _ = name;
        unimplemented!()
    }

    /// Gives an unchanged file the attributes of `entry` where they differ from `there`.
    pub fn mend(&self, entry: &Entry, there: &Entry) -> Result<(), Error> {
        let _ = (entry, there);
        unimplemented!()
    }

    /// Removes what is there; a directory with all that is in it. Returns how many entries went. No link is followed.
    pub fn remove(&self, name: &Name) -> Result<u64, Error> {
        let _ = name;
        unimplemented!()
    }

    /// What is in `directory` here and not among `keep` (last components): what `--delete` would remove. What the
    /// filter leaves out is protected, and so are the parts of kept files.
    pub fn extras(
        &self,
        directory: &Name,
        keep: &HashSet<Vec<u8>>,
        filter: &Filter,
    ) -> Result<Vec<Name>, Error> {
        let _ = (directory, keep, filter);
        unimplemented!()
    }
}

impl Pending {
    /// Writes all of `bytes` at `offset`.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let _ = (offset, bytes);
        unimplemented!()
    }

    /// The file, for reading back, syncing, or copying ranges into it.
    pub fn file(&self) -> &File {
        unimplemented!()
    }

    /// A part that was there before, with bytes of an earlier run in it.
    pub fn adopted(&self) -> bool {
        unimplemented!()
    }

    /// Cuts or fills the file to the entry's size (what was not written is a hole), sets its attributes and puts it in
    /// its place, over what was there.
    pub fn finish(self, entry: &Entry) -> Result<(), Error> {
        let _ = entry;
        unimplemented!()
    }
}

impl Keep {
    /// Everything, as `-a` asks for.
    pub const ALL: Keep = Keep { modes: true, times: true, owners: true, xattrs: true };
}

impl Default for Options {
    /// Modes and times; the root is made.
    fn default() -> Options {
        Options { keep: Keep { owners: false, xattrs: false, ..Keep::ALL }, create: true }
    }
}
