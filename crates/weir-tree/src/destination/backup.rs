//! What is replaced or removed is kept under another name (`--backup`): beside it with a suffix, or in a
//! folder of its own.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, linkat, renameat, unlinkat};
use rustix::io::Errno;

use super::directories::Directory;
use super::{Target, place};
use crate::entry::{self, MAX_COMPONENT, Name};
use crate::error::TreeError;
use crate::source;

/// Where backups go.
#[derive(Debug)]
pub(super) struct Backups {
    /// The folder; none for beside what they are of.
    folder: Option<Target>,
    suffix: Box<[u8]>,
}

impl Target {
    /// What is replaced or removed from now on is kept: with a suffix, beside it or in `folder`. The suffix
    /// may be empty only there.
    pub fn keep_backups(&self, folder: Option<Target>, suffix: &[u8]) {
        let _ = self.shared.backups.set(Backups { folder, suffix: suffix.into() });
    }
}

impl Backups {
    /// A second name for what is about to be replaced. Directories, and what is no data, are not replaced.
    pub(super) fn keep(&self, directory: &OwnedFd, last: &[u8], name: &Name) -> Result<(), TreeError> {
        let failed = |errno| TreeError::of("keep a backup of", name, errno);
        match source::stat(directory, last).map(|stat| entry::file_type(&stat)) {
            Ok(FileType::RegularFile | FileType::Symlink) => {}
            Ok(_) | Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(failed(errno)),
        }
        let backup = self.name_of(last).ok_or_else(|| failed(Errno::NAMETOOLONG))?;
        let beside = self.folder_for(name)?;
        let into: &OwnedFd = beside.as_deref().map_or(directory, |open| open);
        let passing = place::passing_name();
        match linkat(directory, last, into, &passing[..], AtFlags::empty()) {
            Ok(()) => {}
            // File systems without second names: it moves, and its name is free for a moment.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK) => {
                return renameat(directory, last, into, &backup[..]).map_err(failed);
            }
            Err(errno) => return Err(failed(errno)),
        }
        renameat(into, &passing[..], into, &backup[..]).map_err(failed)?;
        // rename(2) does nothing where both are names of one file already.
        match unlinkat(into, &passing[..], AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Whether it is called as a backup is: such are not removed.
    pub(super) fn has(&self, last: &[u8]) -> bool {
        self.folder.is_none() && last.ends_with(&self.suffix)
    }

    /// Moves what is to be removed.
    pub(super) fn take_away(&self, directory: &OwnedFd, last: &[u8], name: &Name) -> Result<(), TreeError> {
        let failed = |errno| TreeError::of("keep a backup of", name, errno);
        let backup = self.name_of(last).ok_or_else(|| failed(Errno::NAMETOOLONG))?;
        let beside = self.folder_for(name)?;
        let into: &OwnedFd = beside.as_deref().map_or(directory, |open| open);
        renameat(directory, last, into, &backup[..]).map_err(failed)
    }

    /// Backups stay in the folder that they are of, which is not empty then.
    pub(super) fn are_beside(&self) -> bool {
        self.folder.is_none()
    }

    fn name_of(&self, last: &[u8]) -> Option<Vec<u8>> {
        let name = [last, &self.suffix].concat();
        (name.len() <= MAX_COMPONENT).then_some(name)
    }

    fn folder_for(&self, name: &Name) -> Result<Option<Arc<Directory>>, TreeError> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let around = name.split_bytes().map_or(&b""[..], |(around, _)| around);
        folder.lock().make(around, name, &folder.shared).map(Some)
    }
}
