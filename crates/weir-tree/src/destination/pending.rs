//! A file being written: without a name, under a passing one, or as a part that outlives this process.

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{
    AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, fallocate, flock, ftruncate,
    openat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use weir_units::atomic_file;

use super::attributes::{self, Was};
use super::directories::Directory;
use super::{Shared, in_place, place};
use crate::entry::{self, Entry, Kind, MAX_COMPONENT, Name};
use crate::error::TreeError;
use crate::pages::Pages;
use crate::room::with_room;
use crate::source::{self, Identity};

/// Below this a reservation costs more than the early word about a full disk is worth.
const RESERVED: u64 = 1 << 20;

/// Until a file that has a name has its own mode, only its owner reads it.
const WRITING: Mode = Mode::from_raw_mode(0o600);

/// The smallest hole of the usual file systems.
const PAGE: usize = 4096;

/// Bytes copied at a time, so that a kill is heard.
const COPIED: usize = 1 << 20;

pub(super) const PART: &[u8] = b".weir-part";

/// A file being written. Dropped without [`Pending::finish`] it is gone, unless it is a part.
#[derive(Debug)]
pub struct Pending {
    shared: Arc<Shared>,
    directory: Arc<Directory>,
    file: File,
    name: Name,
    standing: Standing,
    /// Of a reserved file, where memory can be had ahead of the writer.
    pages: Pages,
}

/// Under what name a file is until it is finished.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Unnamed,
    /// Where there are no unnamed files.
    Passing(Vec<u8>),
    Part {
        part: Vec<u8>,
        adopted: bool,
    },
    Finished,
}

/// The names that the part of a file may have: `.NAME.weir-part`, and with what stands for NAME where that is
/// too long, which a file system may find of shorter names too.
pub(super) fn part_names(last: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let plain = (last.len() + 1 + PART.len() <= MAX_COMPONENT).then(|| last.to_vec());
    plain.into_iter().chain([entry::stand_in(last)]).map(|middle| [b".", &middle[..], PART].concat())
}

/// Is it the name of a part or of a file in passing?
pub(super) fn is_part_name(last: &[u8]) -> bool {
    last.starts_with(b".") && last.ends_with(PART)
}

/// Removes the part of `name`.
pub(super) fn discard_part(directory: &OwnedFd, name: &Name) -> Result<(), TreeError> {
    for part in part_names(name.last()) {
        match unlinkat(directory, part, AtFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(Errno::NOENT | Errno::NAMETOOLONG) => {}
            Err(errno) => return Err(TreeError::of("remove the part of", name, errno)),
        }
    }
    Ok(())
}

impl Pending {
    /// A file without a name, where the file system has such: nothing is left of it after a kill, and on ext4
    /// it is the quicker way too. 20,000 files of 1 to 16 KB took 50 us of system time each by O_TMPFILE and
    /// linkat, 77 us by a passing name and rename, 58 us created under their own names, which would show them
    /// half written; tar x took 62 us (medians of three rounds in turn, a fresh ext4 in memory touched
    /// before, Linux 6.18). Who measures again: on an ext4 without a journal creating files slows down
    /// tenfold for a minute after many others were deleted, where it comes into a group of theirs, because
    /// inodes freed lately are stepped over one by one there (`find_inode_bit` in fs/ext4/ialloc.c).
    pub(super) fn temporary(
        shared: &Arc<Shared>,
        directory: Arc<Directory>,
        entry: &Entry,
    ) -> Result<Pending, TreeError> {
        let name = &entry.name;
        let failed = |errno| TreeError::of("create", name, errno);
        let (file, standing) = match unnamed(shared, &directory, entry).map_err(failed)? {
            Some(file) => (file, Standing::Unnamed),
            None => {
                let passing = place::passing_name();
                (create(&directory, &passing).map_err(failed)?, Standing::Passing(passing))
            }
        };
        Ok(Pending {
            shared: Arc::clone(shared),
            directory,
            file: File::from(file),
            name: name.clone(),
            standing,
            pages: Pages::default(),
        })
    }

    /// The part of a file, perhaps of an earlier run; locked against other weirs.
    pub(super) fn part(
        shared: &Arc<Shared>,
        directory: Arc<Directory>,
        name: &Name,
    ) -> Result<Pending, TreeError> {
        let failed = |errno| TreeError::of("open the part of", name, errno);
        let mut tried = part_names(name.last()).map(|part| (create(&directory, &part), part));
        let first = tried.find(|(made, _)| !matches!(made, Err(Errno::NAMETOOLONG)));
        let (made, part) = first.ok_or_else(|| failed(Errno::NAMETOOLONG))?;
        let (file, adopted) = match made {
            Ok(file) => (file, false),
            Err(Errno::EXIST) => match adopt(&directory, &part).map_err(failed)? {
                Adopted::Ours(file) => (file, true),
                Adopted::NotOurs(why) => {
                    shared.aside.put(&directory, &part, name, why)?;
                    (create(&directory, &part).map_err(failed)?, false)
                }
            },
            Err(errno) => return Err(failed(errno)),
        };
        // The part of another name of this run, where the two are one.
        shared.case_folding.claim(&directory, &file, name)?;
        // Where a file system has no locks (some network ones) it goes on without.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(TreeError::Locked { name: name.clone() });
        }
        let standing = Standing::Part { part, adopted };
        let pending = Pending {
            shared: Arc::clone(shared),
            directory,
            file: File::from(file),
            name: name.clone(),
            standing,
            pages: Pages::default(),
        };
        // The one who held the lock may have finished the file meanwhile: then this is no longer its part.
        pending.still_there()?;
        Ok(pending)
    }

    /// Takes what was adopted for a new part where it holds no byte, as that of a run that was killed before
    /// its first word.
    pub(super) fn begin_anew(&mut self) -> Result<bool, TreeError> {
        // At the end of a file, or in its last hole (lseek.2).
        if rustix::fs::seek(&self.file, SeekFrom::Data(0)) != Err(Errno::NXIO) {
            return Ok(false);
        }
        self.still_there()?;
        ftruncate(&self.file, 0).map_err(|errno| TreeError::of("begin the part of", &self.name, errno))?;
        if let Standing::Part { adopted, .. } = &mut self.standing {
            *adopted = false;
        }
        Ok(true)
    }

    /// Gives what was adopted as a part, and turns out to be none, another name.
    pub fn put_aside(self, why: &str) -> Result<(), TreeError> {
        let Standing::Part { part, .. } = &self.standing else { return Ok(()) };
        self.still_there()?;
        self.shared.aside.put(&self.directory, part, &self.name, why)
    }

    /// Reserves the space of a large file, so that a full disk is noticed before the first byte is fetched.
    pub(super) fn reserve(&mut self, entry: &Entry) -> Result<(), TreeError> {
        let Kind::File { size, sparse: false } = entry.kind else { return Ok(()) };
        if size < RESERVED {
            return Ok(());
        }
        // With its size, so that pages of it can be had ahead of the writer.
        match fallocate(&self.file, FallocateFlags::empty(), 0, size) {
            Ok(()) => {
                self.pages = Pages::of(&self.file, size);
                Ok(())
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(errno) => {
                // A failed reservation may leave some: give it back.
                if !self.adopted() {
                    let _ = ftruncate(&self.file, 0);
                }
                let source = with_room(&self.file, errno.into(), size);
                Err(TreeError::Entry { action: "reserve space for", name: self.name.clone(), source })
            }
        }
    }

    /// Writes all of `bytes` at `offset`.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), TreeError> {
        let written = self.pages.write_at(&self.file, offset, bytes);
        written.map_err(|source| TreeError::Entry { action: "write", name: self.name.clone(), source })
    }

    /// Writes all of `bytes` at `offset`, with pages of zeros as holes: of the file as it is, which may have
    /// other bytes there from an earlier run.
    pub fn write_around_holes(&self, offset: u64, bytes: &[u8]) -> Result<(), TreeError> {
        let is_zero = source::is_zero;
        let mut at = 0;
        for run in bytes.chunks(PAGE).collect::<Vec<_>>().chunk_by(|a, b| is_zero(a) == is_zero(b)) {
            let len: usize = run.iter().map(|page| page.len()).sum();
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let hole =
                is_zero(run[0]) && fallocate(&self.file, flags, offset + at as u64, len as u64).is_ok();
            if !hole {
                self.write_at(offset + at as u64, &bytes[at..at + len])?;
            }
            at += len;
        }
        Ok(())
    }

    /// Leaves nothing but zeros in a range. What was never written is a hole already; what an earlier run may
    /// have left there goes.
    pub fn clear(&self, range: Range<u64>) -> Result<(), TreeError> {
        if !self.adopted() || range.is_empty() {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(&self.file, flags, range.start, range.end - range.start).is_ok() {
            return Ok(());
        }
        let zeros = vec![0; COPIED];
        for at in range.clone().step_by(COPIED) {
            self.write_at(at, &zeros[..zeros.len().min((range.end - at) as usize)])?;
        }
        Ok(())
    }

    /// The file, for reading back, syncing, or copying ranges into it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A part that was there before, with bytes of an earlier run in it.
    pub fn adopted(&self) -> bool {
        matches!(self.standing, Standing::Part { adopted: true, .. })
    }

    /// Cuts or fills the file to the entry's size (what was not written is a hole), sets its attributes and
    /// puts it in its place, over what was there. A part that may not have its place stays for the next run;
    /// one that the disk did not take is gone.
    pub fn finish(mut self, entry: &Entry) -> Result<(), TreeError> {
        let is_part = matches!(self.standing, Standing::Part { .. });
        if is_part {
            self.check()?;
            if let Some(backups) = self.shared.backups.get() {
                backups.name_for(&self.directory, self.name.last(), &self.name)?;
            }
            // While what an unfinished part is known by is still behind its end: this may take minutes, and a
            // kill.
            let settled = self.shared.settle(&self.file, &self.name);
            if settled.is_ok() {
                self.shared.before_replacing(&self.directory, self.name.last(), &self.name)?;
            }
            if let Standing::Part { part, .. } = &mut self.standing {
                self.standing = Standing::Passing(std::mem::take(part));
            }
            settled?;
        }
        ftruncate(&self.file, entry.size()).map_err(|errno| TreeError::of("resize", &self.name, errno))?;
        self.put(entry, is_part)
    }

    /// The same for a file that has its size.
    pub(super) fn publish(self, entry: &Entry) -> Result<(), TreeError> {
        self.put(entry, false)
    }

    fn put(mut self, entry: &Entry, is_backed_up: bool) -> Result<(), TreeError> {
        let was = match self.shared.keep.modes {
            true => Was::Made,
            false => self.check()?.map_or(Was::Made, Was::Borrowed),
        };
        attributes::of_file(&self.shared, self.file.as_fd(), entry, was)?;
        self.shared.settle(&self.file, &self.name)?;
        let place = || match self.place(is_backed_up) {
            // What was kept of it is a copy: over a mount point nothing gets a second name (link(2)).
            Err(error) if place::is_mount_point(&error, &self.directory, self.name.last()) => {
                in_place::write(&self.shared, &self.file, &self.directory, entry)
            }
            placed => placed,
        };
        self.shared.case_folding.place(&self.directory, &self.name, place)?;
        self.standing = Standing::Finished;
        Ok(())
    }

    /// Gives the file its name.
    fn place(&self, is_backed_up: bool) -> Result<(), TreeError> {
        let last = self.name.last();
        match &self.standing {
            Standing::Unnamed => {
                self.shared.before_replacing(&self.directory, last, &self.name)?;
                place::link(self.file.as_fd(), &self.directory, last, &self.name)
            }
            Standing::Passing(passing) | Standing::Part { part: passing, .. } => {
                self.check()?;
                if !is_backed_up {
                    self.shared.before_replacing(&self.directory, last, &self.name)?;
                }
                place::rename(&self.directory, passing, last, &self.name)
            }
            Standing::Finished => Ok(()),
        }
    }

    /// Whether the file may have its name, as far as can be told before. Returns the mode of a file that is
    /// there.
    fn check(&self) -> Result<Option<u32>, TreeError> {
        let last = self.name.last();
        let mode = place::check(&self.directory, last, "a file", &self.name)?;
        self.still_there()?;
        Ok(mode)
    }

    /// Is what has the passing name still this file?
    fn still_there(&self) -> Result<(), TreeError> {
        let (Standing::Passing(passing) | Standing::Part { part: passing, .. }) = &self.standing else {
            return Ok(());
        };
        let lost = |fate| Err(TreeError::Unplaced { name: self.name.clone(), fate });
        let there = source::stat(&self.directory, passing).map(|stat| Identity::from_statx(&stat));
        match (there, Identity::of(&self.file)) {
            (Ok(there), Ok(ours)) if there == ours => Ok(()),
            (Ok(_), Ok(_)) => lost("replaced by another file"),
            (Err(Errno::NOENT), _) => lost("removed"),
            (Err(errno), _) | (_, Err(errno)) => Err(TreeError::of("look at", &self.name, errno)),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Standing::Passing(passing) = &self.standing
            && self.still_there().is_ok()
        {
            let _ = unlinkat(&self.directory, passing, AtFlags::empty());
        }
    }
}

impl Shared {
    /// Waits until a file is on the disk, where that was asked for; hears in any case what the disk did not
    /// take.
    pub(super) fn settle(&self, file: &File, name: &Name) -> Result<(), TreeError> {
        let action = if self.sync { "sync" } else { "write" };
        atomic_file::settled(file, self.sync).map_err(|source| TreeError::Entry {
            action,
            name: name.clone(),
            source,
        })
    }
}

pub(super) fn create(directory: &OwnedFd, last: &[u8]) -> Result<OwnedFd, Errno> {
    atomic_file::create_new(directory, last, WRITING)
}

/// A file without a name; `None` where the file system has none (overlay on old kernels, NFS, FUSE). Nobody
/// else can open it, so it has its mode from the start, unless attributes are to be set, which takes the
/// permission to write.
fn unnamed(shared: &Shared, directory: &OwnedFd, entry: &Entry) -> Result<Option<OwnedFd>, Errno> {
    if shared.no_unnamed.load(Relaxed) {
        return Ok(None);
    }
    let mode = if entry.xattrs.is_empty() { Mode::from_raw_mode(entry.mode & 0o777) } else { WRITING };
    match openat(directory, ".", OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            shared.no_unnamed.store(true, Relaxed);
            Ok(None)
        }
        Err(errno) => Err(errno),
    }
}

/// What has the name of a part.
enum Adopted {
    Ours(OwnedFd),
    /// And why.
    NotOurs(&'static str),
}

/// Opens a part that is there, if it can only be ours: a file of this user under this name alone. Anything
/// else could be bait, what is written into a link's file is written into all its names; and it may be
/// somebody's file.
fn adopt(directory: &OwnedFd, part: &[u8]) -> Result<Adopted, Errno> {
    use Adopted::NotOurs;
    // Looked at before it is opened: to open a device may set it to work.
    let before = source::stat(directory, part)?;
    match entry::file_type(&before) {
        FileType::RegularFile => {}
        FileType::Symlink => return Ok(NotOurs("is a symbolic link")),
        FileType::Directory => return Ok(NotOurs("is a folder")),
        _ => return Ok(NotOurs("is a device, pipe or socket")),
    }
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(directory, part, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::LOOP | Errno::NXIO) => return Ok(NotOurs("was changed by another program just now")),
        Err(Errno::ACCESS | Errno::PERM) => return Ok(NotOurs("cannot be opened")),
        Err(errno) => return Err(errno),
    };
    let stat = source::stat(&file, b"")?;
    Ok(match &stat {
        _ if !entry::file_type(&stat).is_file() => NotOurs("was changed by another program just now"),
        _ if stat.stx_uid != geteuid().as_raw() => NotOurs("belongs to another user"),
        _ if stat.stx_nlink > 1 => NotOurs("has other names too (hard links)"),
        // It can have their bytes, whoever owns it.
        _ if stat.stx_mode & 0o022 != 0 => NotOurs("can be written by others"),
        _ => Adopted::Ours(file),
    })
}
