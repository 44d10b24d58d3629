//! The reading end of one file: opening what the walk saw and nothing else, and its ranges of data.

use std::fs::File;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::entry::Entry;
use crate::error::Error;

/// The way to the content of an entry that a walk found. Holds its directory open, so that names need not be looked up
/// again: many of them kept for long keep as many directories open as they come from.
#[derive(Debug, Clone)]
pub struct Source {
    pub(crate) directory: Arc<OwnedFd>,
    pub(crate) base: Box<[u8]>,
    /// Device and inode.
    pub(crate) identity: (u64, u64),
}

impl Source {
    /// Opens the file for reading. An error if it is no longer the file that the walk saw: a symbolic link that was
    /// swapped in is never followed, a pipe never waited for.
    pub fn open(&self, entry: &Entry) -> Result<File, Error> {
        let _ = entry;
        unimplemented!()
    }
}

/// Is the open file still what the walk saw, by size and time? To be asked after reading it.
pub fn unchanged(file: &File, entry: &Entry) -> Result<bool, Error> {
    let _ = (file, entry);
    unimplemented!()
}

/// The ranges of `file` that hold data, in order, between its holes (SEEK_DATA and SEEK_HOLE); one range where the file
/// system cannot tell.
pub fn data(file: &File, size: u64) -> impl Iterator<Item = Result<Range<u64>, Error>> {
    let _ = (file, size);
    std::iter::empty()
}
