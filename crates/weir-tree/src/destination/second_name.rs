//! A second name of a file, and what is put in its place where the file can have none: a copy of it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::{LostAttribute, Target, place};
use crate::compare;
use crate::entry::{Entry, Kind};
use crate::error::TreeError;
use crate::source;

impl Target {
    /// A second name of a finished file of this tree; where the file can have none a copy of it, with the
    /// attributes of `entry`, which is a word. With `leaves_same` a file that is there stays, if it has the
    /// first one's size and time, as the copy of an earlier run does.
    pub fn link_or_copy(&self, entry: &Entry, leaves_same: bool) -> Result<(), TreeError> {
        let Kind::HardLink { to } = &entry.kind else { return Ok(()) };
        let Err(error) = self.hard_link(entry) else { return Ok(()) };
        let Some(errno) = place::why_no_link(&error) else { return Err(error) };
        let Some(first) = self.existing(to)? else { return Err(error) };
        let copy = Entry { kind: first.kind.clone(), ..entry.clone() };
        match copy.kind {
            Kind::File { .. } => self.copy_first(&first, &copy, leaves_same)?,
            Kind::Symlink { .. } => self.symlink(&copy)?,
            _ => return Err(error),
        }
        self.shared.words.note(LostAttribute::HardLinks, &entry.name, Err(errno));
        Ok(())
    }

    fn copy_first(&self, first: &Entry, copy: &Entry, leaves_same: bool) -> Result<(), TreeError> {
        let there = if leaves_same && !self.shared.anew { self.existing(&copy.name)? } else { None };
        if let Some(there) = there.filter(|there| compare::unchanged(first, there, 0)) {
            return self.mend(copy, &there);
        }
        let file = self.open_existing(&first.name)?;
        let pending = self.create(copy)?;
        copy_data(&file, pending.file(), copy)?;
        pending.finish(copy)
    }
}

/// Copies what is between the holes, into a file that has nothing else, within the kernel where it can: file
/// systems that share blocks between files do so then.
pub(super) fn copy_data(mut from: &File, mut to: &File, copy: &Entry) -> Result<(), TreeError> {
    let failed = |source| TreeError::Entry { action: "copy", name: copy.name.clone(), source };
    for range in source::data(from, copy) {
        let range = range?;
        let length = range.end - range.start;
        from.seek(SeekFrom::Start(range.start)).map_err(failed)?;
        to.seek(SeekFrom::Start(range.start)).map_err(failed)?;
        let copied = io::copy(&mut from.take(length), &mut to).map_err(failed)?;
        if copied < length {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
    }
    Ok(())
}
