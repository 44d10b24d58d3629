//! One directory of a walk: its handle, and the names read from it that were not yet met.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags, RawDir, SeekFrom, seek};
use rustix::io::Errno;

use super::Identity;
use crate::entry::Entry;
use crate::error::TreeError;
use crate::filter::Scope;
use crate::source;

/// A directory being read, or one of which nothing (more) can be read.
#[derive(Debug)]
pub(super) struct Level {
    /// The directory itself, for the time when it is left.
    pub entry: Entry,
    pub identity: Identity,
    /// The rules that hold in it.
    pub scope: Scope,
    /// Closed while the walk is far below.
    directory: Option<Arc<OwnedFd>>,
    batch: Batch,
    /// Where reading goes on.
    cookie: u64,
    exhausted: bool,
    closed: bool,
}

/// A name that was read.
pub(super) struct Listed {
    /// Its last component.
    pub base: Box<[u8]>,
    /// Whether it is a directory, where the file system tells that in a listing.
    pub is_directory: Option<bool>,
}

/// Names from one getdents call.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Sorted so that the next one is at the end.
    names: Vec<Found>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    is_directory: bool,
    inode: u64,
    start: u32,
    length: u16,
    /// The listing tells what it is.
    is_known: bool,
}

impl Level {
    /// `directory` is open and about to be read; without it the level is only left again.
    pub fn new(entry: Entry, identity: Identity, directory: Option<Arc<OwnedFd>>, scope: Scope) -> Level {
        let (batch, exhausted) = (Batch::default(), directory.is_none());
        Level { entry, identity, scope, directory, batch, cookie: 0, exhausted, closed: false }
    }

    /// The open directory.
    pub fn directory(&self) -> Option<&Arc<OwnedFd>> {
        self.directory.as_ref()
    }

    /// Nothing is read from this level: its entries come from elsewhere.
    pub fn exhaust(&mut self) {
        self.batch = Batch::default();
        self.exhausted = true;
    }

    /// It is read from its beginning after all, where it can be: nothing was before.
    pub fn renew(&mut self) {
        self.exhausted = self.directory.is_none();
    }

    /// It was open and is to be opened again before it is read on.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Gives the handle back until [`Level::reopen`]. A second time changes nothing: the walk comes this far
    /// below again for each folder beside the first.
    pub fn close(&mut self) {
        self.closed |= self.directory.take().is_some();
    }

    /// Opens the directory again, `path` below `root`, and goes on where it was.
    pub fn reopen(&mut self, root: &OwnedFd, path: &[u8]) -> Result<(), TreeError> {
        self.closed = false;
        let name = &self.entry.name;
        let open = |access| source::open_beneath(root, path, access);
        let opened = if self.exhausted { source::read_or_pass(open) } else { open(OFlags::RDONLY) };
        let directory = opened.map_err(|errno| TreeError::on_the_way(name, errno))?;
        if Identity::of(&directory).map_err(|errno| TreeError::of("open", name, errno))? != self.identity {
            return Err(TreeError::Replaced { name: name.clone() });
        }
        if !self.exhausted {
            seek(&directory, SeekFrom::Start(self.cookie))
                .map_err(|errno| TreeError::of("read", name, errno))?;
        }
        self.directory = Some(Arc::new(directory));
        Ok(())
    }

    /// The next name in this directory. `scratch` is the memory that getdents writes into.
    pub fn next(&mut self, scratch: &mut Vec<u8>) -> Option<Result<Listed, TreeError>> {
        if self.batch.names.is_empty()
            && !self.exhausted
            && let Err(errno) = self.fill(scratch)
        {
            self.exhausted = true;
            // One that was opened only to pass through may not be read.
            let errno = if errno == Errno::BADF { Errno::ACCESS } else { errno };
            return Some(Err(TreeError::of("read", &self.entry.name, errno)));
        }
        let found = self.batch.names.pop()?;
        let start = found.start as usize;
        let base: Box<[u8]> = self.batch.bytes[start..start + usize::from(found.length)].into();
        Some(Ok(Listed { base, is_directory: found.is_known.then_some(found.is_directory) }))
    }

    /// Reads one batch: files before directories, each in the order of their inodes, which is how they lie in
    /// ext4's inode tables; getdents gives them in the order of a hash of their names.
    fn fill(&mut self, scratch: &mut Vec<u8>) -> Result<(), Errno> {
        self.batch.bytes.clear();
        let Some(directory) = &self.directory else { return Ok(()) };
        while self.batch.names.is_empty() {
            let mut entries = RawDir::new(directory.as_fd(), spare(scratch));
            loop {
                let Some(entry) = entries.next() else {
                    self.exhausted = true;
                    break;
                };
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                self.cookie = entry.next_entry_cookie();
                if name != b"." && name != b".." {
                    self.batch.push(name, entry.ino(), entry.file_type());
                }
                if entries.is_buffer_empty() {
                    break;
                }
            }
            if self.exhausted {
                break;
            }
        }
        self.batch.names.sort_unstable_by(|a, b| b.cmp(a));
        // A level keeps its batch as long as the walk is below it.
        self.batch.bytes.shrink_to_fit();
        self.batch.names.shrink_to_fit();
        Ok(())
    }
}

impl Batch {
    fn push(&mut self, name: &[u8], inode: u64, file_type: FileType) {
        // The length of a whole record of getdents has 16 bits.
        let length = name.len() as u16;
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&name[..usize::from(length)]);
        let (is_directory, is_known) = (file_type == FileType::Directory, file_type != FileType::Unknown);
        self.names.push(Found { is_directory, inode, start, length, is_known });
    }
}

fn spare(scratch: &mut Vec<u8>) -> &mut [MaybeUninit<u8>] {
    scratch.clear();
    scratch.spare_capacity_mut()
}
