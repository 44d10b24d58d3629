//! What stands in the way of an entry, being of another kind: a file where a directory is to be, or the other
//! way round. `--delete` takes it away, for the source does not have it. A device, pipe or socket that
//! someone put there is no data, and stays.

use rustix::fs::FileType;
use rustix::io::Errno;

use super::Target;
use crate::entry::{self, Entry, Name};
use crate::error::TreeError;
use crate::filter::{Filter, Side};
use crate::source;

/// What is no data and stays, in words.
pub const SPECIAL: &str = "a device, pipe or socket";

/// A directory that is not there, and that something is to be put into: with all that is to be in it, it is
/// left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Barrier {
    /// Its name: that of an entry, or of a directory on the way to it.
    pub name: Name,
    /// What is in its place, in words; nothing where it could not be made.
    pub there: Option<&'static str>,
}

impl Target {
    /// What has to go before `entry` can be put: what is at its name or, where a directory is wanted, on the
    /// way there. What the filter leaves out is protected, also inside a directory, and so is what this run
    /// put there itself.
    pub fn obstacle(&self, entry: &Entry, filter: &Filter) -> Result<Option<Name>, TreeError> {
        for (name, directory_wanted) in way_to(entry) {
            let name = Name::new(name)?;
            let Some(kind) = self.kind_of(&name)? else { return Ok(None) };
            let fits = match kind {
                FileType::Directory => directory_wanted,
                FileType::RegularFile | FileType::Symlink => !directory_wanted,
                _ => return Ok(None),
            };
            if !fits {
                let goes = self.may_go(&name, kind.is_dir(), filter)?;
                return Ok(goes.then_some(name));
            }
        }
        Ok(None)
    }

    /// The first directory on the way to `entry`, or the entry itself where it is one, that is not there.
    pub fn barrier(&self, entry: &Entry) -> Result<Option<Barrier>, TreeError> {
        for (name, _) in way_to(entry).filter(|(_, directory_wanted)| *directory_wanted) {
            let name = Name::new(name)?;
            let there = match self.kind_of(&name)? {
                Some(FileType::Directory) => continue,
                Some(FileType::RegularFile) => Some("a file"),
                Some(FileType::Symlink) => Some("a symbolic link"),
                Some(_) => Some(SPECIAL),
                None => None,
            };
            return Ok(Some(Barrier { name, there }));
        }
        Ok(None)
    }

    fn kind_of(&self, name: &Name) -> Result<Option<FileType>, TreeError> {
        let Some(directory) = self.directory_of(name)? else { return Ok(None) };
        match source::stat(&directory, name.last()).map(|stat| entry::file_type(&stat)) {
            // One that is followed is what it leads to.
            Ok(FileType::Symlink) if self.lock().leads_to_directory(name) => Ok(Some(FileType::Directory)),
            Ok(kind) => Ok(Some(kind)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(TreeError::of("look at", name, errno)),
        }
    }

    fn may_go(&self, name: &Name, is_directory: bool, filter: &Filter) -> Result<bool, TreeError> {
        let Some((around, last)) = name.split() else { return Ok(false) };
        let Some(directory) = self.directory_of(name)? else { return Ok(false) };
        let scope = self.scope(filter, &around)?;
        Ok(filter.decides(&scope, name, is_directory, Side::Receiver { doomed: false })
            && !self.shared.case_folding.placed(&directory, &around, last)
            && (!is_directory || self.staying(name, filter)?.is_empty()))
    }
}

/// The names from the root of the tree to an entry, and whether each has to be a directory.
fn way_to(entry: &Entry) -> impl Iterator<Item = (&[u8], bool)> {
    let bytes = entry.name.as_bytes();
    let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'/').chain([bytes.len()]);
    ends.map(|end| (&bytes[..end], end < bytes.len() || entry.is_directory()))
}
