//! What stands in the way of an entry, being of another kind: a file where a directory is to be, or the other way round. `--delete`
//! takes it away, for the source does not have it. A device, pipe or socket that someone put there is no data, and stays.

use rustix::fs::FileType;
use rustix::io::Errno;

use super::Target;
use crate::entry::{self, Entry, Name};
use crate::error::Error;
use crate::filter::Filter;
use crate::source;

impl Target {
    /// What has to go before `entry` can be put: what is at its name or, where a directory is wanted, on the way there. What the filter
    /// leaves out is protected, also inside a directory, and so is what this run put there itself.
    pub fn obstacle(&self, entry: &Entry, filter: &Filter) -> Result<Option<Name>, Error> {
        let bytes = entry.name.as_bytes();
        let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'/').chain([bytes.len()]);
        for end in ends {
            let name = Name::new(&bytes[..end])?;
            let directory_wanted = end < bytes.len() || entry.is_directory();
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

    fn kind_of(&self, name: &Name) -> Result<Option<FileType>, Error> {
        let Some(directory) = self.directory_of(name)? else { return Ok(None) };
        match source::stat(&directory, name.last()) {
            Ok(stat) => Ok(Some(entry::file_type(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::of("look at", name, errno)),
        }
    }

    fn may_go(&self, name: &Name, is_directory: bool, filter: &Filter) -> Result<bool, Error> {
        let Some((around, last)) = name.split() else { return Ok(false) };
        let Some(directory) = self.directory_of(name)? else { return Ok(false) };
        Ok(filter.takes(name, is_directory)
            && !self.shared.folds.placed(&directory, &around, last)
            && (!is_directory || self.staying(name, filter)?.is_empty()))
    }
}
