//! The reading end of one file: opening what the walk saw and nothing else, and its ranges of data.

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Weak};

use rustix::buffer::spare_capacity;
use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, SeekFrom, Statx, StatxFlags, openat, openat2, seek, statx, unlinkat,
};
use rustix::io::{Errno, read};
use serde::{Deserialize, Serialize};

use crate::entry::{self, Entry, Kind, Name, Special, Time};
use crate::error::TreeError;

/// Flags for opening a directory, less the access mode.
pub(crate) const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Device and inode: the same for two ways to the same thing on one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

impl Identity {
    /// Of what is open.
    pub(crate) fn of(file: impl AsFd) -> Result<Identity, Errno> {
        Ok(Identity::from_statx(&stat(file, b"")?))
    }

    /// As the standard library tells it.
    pub fn of_metadata(there: &std::fs::Metadata) -> Identity {
        let device =
            u64::from(rustix::fs::major(there.dev())) << 32 | u64::from(rustix::fs::minor(there.dev()));
        Identity { device, inode: there.ino() }
    }

    pub(crate) fn from_statx(stat: &Statx) -> Identity {
        let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
        Identity { device, inode: stat.stx_ino }
    }
}

/// The way to the content of an entry that a walk found. Holds its directory open, so that names need not be
/// looked up again: many of them kept for long keep as many directories open as they come from.
#[derive(Debug, Clone)]
pub struct Source {
    pub(crate) directory: Arc<OwnedFd>,
    pub(crate) base: Box<[u8]>,
    pub(crate) identity: Identity,
    /// It was reached over a symbolic link: under this name it is a file of somewhere else.
    pub(crate) over_link: bool,
    /// The walk had it in a listing: nobody named it, and it may be gone.
    pub(crate) is_listed: bool,
}

/// Bytes that are looked for in a file that says it has none: a page, the least that /proc hands out.
const PEEK: usize = 4096;

impl Source {
    /// Opens the file for reading. An error if it is no longer the file that the walk saw
    /// ([`TreeError::Vanished`] where that had it in a listing and it is gone): a symbolic link that was
    /// swapped in is never followed, a pipe never waited for.
    pub fn open(&self, entry: &Entry) -> Result<File, TreeError> {
        let file = self.open_any(&entry.name)?;
        let stat = stat(&file, b"").map_err(|errno| TreeError::of("open", &entry.name, errno))?;
        self.check(entry, &stat)?;
        Ok(File::from(file))
    }

    /// Appends a small file to `content`, `most` bytes of it at most. Returns it open, and whether it still
    /// is what the walk saw, by size and time, after the last byte was read. What is no longer the same file
    /// is an error, and what was read is not to be used.
    pub fn read_small(
        &self,
        entry: &Entry,
        most: usize,
        content: &mut Vec<u8>,
    ) -> Result<(File, bool), TreeError> {
        let failed = |errno| TreeError::of("read", &entry.name, errno);
        let file = self.open_any(&entry.name)?;
        let limit = content.len() + most;
        let expected = (entry.size() as usize).max(PEEK).min(most);
        while content.len() < limit {
            content.reserve(expected.min(limit - content.len()));
            // Into what the buffer has room for: to fill it with zeros first took a seventh of the time of
            // reading.
            match read(&file, spare_capacity(content)) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        // It may have grown beyond, which its size tells.
        content.truncate(limit);
        let stat = stat(&file, b"").map_err(failed)?;
        self.check(entry, &stat)?;
        Ok((File::from(file), is_unchanged(&stat, entry)))
    }

    /// Removes what is no folder, if it still is what the walk saw, by identity, kind and time, a file by its
    /// size too; not what was reached over a link.
    pub fn remove(&self, entry: &Entry) -> Result<(), TreeError> {
        let failed = |errno| TreeError::of("remove the source", &entry.name, errno);
        if self.over_link {
            return Err(TreeError::OverLink { name: entry.name.clone() });
        }
        // A file server is asked, not its cache: another host may just have put its copy there.
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_FORCE_SYNC;
        let stat = statx(&self.directory, &*self.base, flags, StatxFlags::BASIC_STATS).map_err(failed)?;
        let file_type = entry::file_type(&stat);
        let is_of_its_kind = match entry.kind {
            Kind::Directory => false,
            Kind::File { .. } => file_type.is_file(),
            Kind::Symlink { .. } => file_type.is_symlink(),
            Kind::HardLink { .. } => file_type.is_file() || file_type.is_symlink(),
            Kind::Special(special) => Special::of(&stat) == Some(special),
        };
        if !is_of_its_kind || Identity::from_statx(&stat) != self.identity {
            return Err(TreeError::Replaced { name: entry.name.clone() });
        }
        // What has no size of its own here is what it was by its time: where a link leads never changes, only
        // the link.
        if entry.is_file() && stat.stx_size != entry.size() || time_of(&stat) != Some(entry.mtime) {
            return Err(TreeError::Changed { name: entry.name.clone() });
        }
        unlinkat(&self.directory, &*self.base, AtFlags::empty()).map_err(failed)
    }

    fn open_any(&self, name: &Name) -> Result<OwnedFd, TreeError> {
        // O_NONBLOCK: opening a pipe would wait for a writer (open(2)); regular files do not care.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        openat(&self.directory, &*self.base, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::LOOP => TreeError::Replaced { name: name.clone() },
            Errno::NOENT if self.is_listed => TreeError::Vanished { name: name.clone() },
            errno => TreeError::of("open", name, errno),
        })
    }

    fn check(&self, entry: &Entry, stat: &Statx) -> Result<(), TreeError> {
        if !entry::file_type(stat).is_file() || Identity::from_statx(stat) != self.identity {
            return Err(TreeError::Replaced { name: entry.name.clone() });
        }
        Ok(())
    }

    /// The folder that it holds open, without holding it: for whoever counts them.
    pub fn folder(&self) -> Weak<OwnedFd> {
        Arc::downgrade(&self.directory)
    }

    /// Which file it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }
}

/// Is the open file still what the walk saw, by size and time? To be asked after reading it.
pub fn unchanged(file: &File, entry: &Entry) -> Result<bool, TreeError> {
    let stat = stat(file, b"").map_err(|errno| TreeError::of("read", &entry.name, errno))?;
    Ok(is_unchanged(&stat, entry))
}

fn is_unchanged(stat: &Statx, entry: &Entry) -> bool {
    stat.stx_size == entry.size() && time_of(stat) == Some(entry.mtime)
}

fn time_of(stat: &Statx) -> Option<Time> {
    Time::new(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec)
}

/// The ranges of `file` that hold data, in order, between its holes (SEEK_DATA and SEEK_HOLE), up to the size
/// that `entry` says; one range where the file system cannot tell. Uses the position of `file`.
pub fn data<'a>(
    file: &'a File,
    entry: &'a Entry,
) -> impl Iterator<Item = Result<Range<u64>, TreeError>> + 'a {
    let size = entry.size();
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= size {
            return None;
        }
        let range = next_data(file, at, size)
            .map_err(|errno| TreeError::of("read", &entry.name, errno))
            .transpose()?;
        at = range.as_ref().map_or(size, |range| range.end);
        Some(range)
    })
}

/// The first range of `file` that holds data, from `at` on and below `size`; `None` where all of that is a
/// hole. All of it is data where the file system cannot tell. Uses the position of `file`.
pub fn next_data(file: &File, at: u64, size: u64) -> Result<Option<Range<u64>>, Errno> {
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) if start < size => start,
        // ENXIO: nothing but a hole from here on (lseek(2)).
        Ok(_) | Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(at..size)),
        Err(error) => return Err(error),
    };
    // Another process may cut the file between the two calls; whoever reads it will see.
    let end = match seek(file, SeekFrom::Hole(start)) {
        Err(Errno::NXIO) => size,
        end => end?,
    };
    Ok(Some(start..end.clamp(start + 1, size)))
}

/// Whether all bytes are zero, as those of a hole are: page by page, since data tell in their first.
pub fn is_zero(bytes: &[u8]) -> bool {
    const PAGE: usize = 4096;
    // Without a look at each byte by itself, which a compiler could not make several of.
    bytes.chunks(PAGE).all(|page| page.iter().fold(0, |all, byte| all | byte) == 0)
}

/// Opens a directory for reading, or only to pass through where it may not be read: that is enough for names
/// that are known, and to put something into it.
pub(crate) fn read_or_pass(open: impl Fn(OFlags) -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) => open(OFlags::PATH),
        other => other,
    }
}

/// The directory at `path` below `root`, by no link and by nothing that leads out.
pub(crate) fn open_beneath(root: impl AsFd, path: &[u8], access: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(root.as_fd(), path, DIRECTORY | access, Mode::empty(), resolve) {
            // openat2(2): a rename somewhere on the machine made it unsure; to be tried again.
            Err(Errno::AGAIN) => {}
            other => return other,
        }
    }
}

/// statx(2) of `base` in an open directory, or of what is open itself where `base` is empty; links are not
/// followed.
pub(crate) fn stat(directory: impl AsFd, base: &[u8]) -> Result<Statx, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
    statx(directory, base, flags, StatxFlags::BASIC_STATS)
}
