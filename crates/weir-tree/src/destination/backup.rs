//! What is replaced or removed is kept under another name (`--backup`): beside it with a suffix, or in a
//! folder of its own.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, ftruncate, linkat, readlinkat, renameat, unlinkat};
use rustix::io::Errno;

use super::attributes::{self, Was};
use super::directories::Directory;
use super::second_name::copy_data;
use super::{LostAttribute, Shared, Target, open_file, pending, place, special};
use crate::entry::{self, Entry, Kind, LinkTarget, MAX_COMPONENT, Name};
use crate::error::TreeError;
use crate::source;
use crate::xattr;

/// What is done here, in errors.
const KEEP: &str = "keep a backup of";

/// Where backups go.
#[derive(Debug)]
pub(super) struct Backups {
    /// The folder; none for beside what they are of.
    folder: Option<Target>,
    suffix: Box<[u8]>,
}

/// A name in an open folder.
type FolderName<'a> = (&'a OwnedFd, &'a [u8]);

impl Target {
    /// What is replaced or removed from now on is kept: with a suffix, beside it or in `folder`. The suffix
    /// may be empty only there.
    pub fn keep_backups(&self, folder: Option<Target>, suffix: &[u8]) {
        let _ = self.shared.backups.set(Backups { folder, suffix: suffix.into() });
    }
}

impl Backups {
    /// A second name for what is about to be replaced. Directories, and what is no data, are not replaced.
    pub(super) fn keep(&self, shared: &Shared, from: FolderName<'_>, name: &Name) -> Result<(), TreeError> {
        let (directory, last) = from;
        let failed = |errno| TreeError::of(KEEP, name, errno);
        let Some(backup) = self.name_for(directory, last, name)? else { return Ok(()) };
        let beside = self.folder_for(name)?;
        let into: &OwnedFd = beside.as_deref().map_or(directory, |open| open);
        let passing = place::passing_name();
        match linkat(directory, last, into, &passing[..], AtFlags::empty()) {
            Ok(()) => {}
            // File systems without second names: it moves, and its name is free for a moment.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK) => {
                return renameat(directory, last, into, &backup[..]).map_err(failed);
            }
            Err(Errno::XDEV) => return copy(shared, from, (into, &backup), name),
            Err(errno) => return Err(failed(errno)),
        }
        renameat(into, &passing[..], into, &backup[..]).map_err(failed)?;
        // rename(2) does nothing where both are names of one file already.
        match unlinkat(into, &passing[..], AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// What the backup of what is about to be replaced is called; none where nothing is.
    pub(super) fn name_for(
        &self,
        directory: &OwnedFd,
        last: &[u8],
        name: &Name,
    ) -> Result<Option<Vec<u8>>, TreeError> {
        let failed = |errno| TreeError::of(KEEP, name, errno);
        match source::stat(directory, last).map(|stat| entry::file_type(&stat)) {
            Ok(FileType::RegularFile | FileType::Symlink) => {
                self.name_of(last).map(Some).ok_or_else(|| failed(Errno::NAMETOOLONG))
            }
            Ok(_) | Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Whether it is called as a backup is: such are not removed.
    pub(super) fn has(&self, last: &[u8]) -> bool {
        self.folder.is_none() && last.ends_with(&self.suffix)
    }

    /// Moves what is to be removed, nodes too.
    pub(super) fn take_away(
        &self,
        shared: &Shared,
        from: FolderName<'_>,
        name: &Name,
    ) -> Result<(), TreeError> {
        let (directory, last) = from;
        let failed = |errno| TreeError::of(KEEP, name, errno);
        let backup = self.name_of(last).ok_or_else(|| failed(Errno::NAMETOOLONG))?;
        let beside = self.folder_for(name)?;
        let into: &OwnedFd = beside.as_deref().map_or(directory, |open| open);
        match renameat(directory, last, into, &backup[..]) {
            Err(Errno::XDEV) => {
                copy(shared, from, (into, &backup), name)?;
                unlinkat(directory, last, AtFlags::empty()).map_err(failed)
            }
            moved => moved.map_err(failed),
        }
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

/// Copies what is there to `backup`, where it can be neither renamed nor linked to: onto another file system,
/// or from a mount point. It keeps what the copies of `shared` keep.
fn copy(
    shared: &Shared,
    from: FolderName<'_>,
    (into, backup): FolderName<'_>,
    name: &Name,
) -> Result<(), TreeError> {
    let passing = place::passing_name();
    let copied = || copy_as(shared, from, (into, &passing), name);
    place::replace(into, &passing, backup, name, copied).map_err(|error| match error {
        TreeError::Entry { source, .. } => TreeError::Entry { action: KEEP, name: name.clone(), source },
        other => other,
    })
}

fn copy_as(
    shared: &Shared,
    (directory, last): FolderName<'_>,
    (into, passing): FolderName<'_>,
    name: &Name,
) -> Result<(), TreeError> {
    let failed = |errno| TreeError::of(KEEP, name, errno);
    let stat = source::stat(directory, last).map_err(failed)?;
    let mut entry = Entry::from_statx(name.clone(), &stat, |_| {
        Ok(LinkTarget::new(readlinkat(directory, last, Vec::new()).map_err(failed)?.into_bytes())?)
    })?;
    match &entry.kind {
        Kind::File { .. } => {}
        Kind::Symlink { target } => place::symlink((into, passing), target, name, false, || Ok(()))?,
        Kind::Special(node) => special::make((into, passing), *node, name, false, || Ok(()))?,
        Kind::Directory | Kind::HardLink { .. } => {
            return Err(TreeError::ReplacedThere { name: name.clone() });
        }
    }
    if !entry.is_file() {
        return attributes::of_node(shared, into, passing, &entry);
    }
    let from = File::from(open_file(directory, last).map_err(failed)?);
    if shared.keep.xattrs {
        match xattr::read(xattr::At::Open(from.as_fd())) {
            Ok(xattrs) => entry.xattrs = xattrs,
            Err(errno) => shared.words.note(LostAttribute::Xattrs, name, Err(errno)),
        }
    }
    let to = File::from(pending::create(into, passing).map_err(failed)?);
    ftruncate(&to, entry.size()).map_err(failed)?;
    copy_data(&from, &to, &entry)?;
    attributes::of_file(shared, to.as_fd(), &entry, Was::Made)?;
    shared.settle(&to, name)
}
