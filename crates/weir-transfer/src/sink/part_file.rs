//! `NAME.part`, the file while it grows, and `NAME.weir`, its journal. `NAME` itself appears only by rename.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, fstatvfs};
use weir_http::filename::KEPT;
use weir_units::Bytes;

use crate::error::Error;
use crate::journal::{self, Journal};
use crate::ranges::RangeSet;
use crate::version::Version;

/// Linux's UIO_MAXIOV.
const MAX_PIECES: usize = 1024;

/// A part file that this process has locked.
#[derive(Debug)]
pub struct PartFile {
    file: File,
    target: PathBuf,
    part: PathBuf,
    journal: PathBuf,
    /// The kernel tells of a write-back error once; it is remembered here.
    sync_error: AtomicI32,
}

/// The names beside `target`: of its part and of its journal.
pub fn names(target: &Path) -> (PathBuf, PathBuf) {
    let [part, journal, _] = all_names(target);
    (part, journal)
}

/// All that there may be beside `target` while it grows.
pub fn all_names(target: &Path) -> [PathBuf; 3] {
    KEPT.map(|suffix| {
        let mut name = target.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    })
}

/// The file beside which something called `name` would be kept.
pub fn whole_of(name: &Path) -> Option<&Path> {
    let bytes = name.as_os_str().as_bytes();
    KEPT.iter().find_map(|suffix| Some(Path::new(OsStr::from_bytes(bytes.strip_suffix(suffix.as_bytes())?))))
}

impl PartFile {
    /// Opens or creates the part file of `target` and locks it against other weirs.
    pub fn open(target: &Path) -> Result<PartFile, Error> {
        let (part, journal) = names(target);
        let failed = |source| Error::Local { action: "open", path: part.clone(), source, kept: None };
        loop {
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                // A link at this name is nobody's part: what it leads to is not to be overwritten.
                .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
                .open(&part)
                .map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(Error::Locked { path: target.to_owned() }),
                // No locks on this file system (some network ones): go on without.
                Err(_) => return Ok(PartFile::new(file, target, part, journal)),
            }
            // The one who held the lock may have renamed the file meanwhile: then ours is no longer the part file.
            if is_at(&file, &part).map_err(failed)? {
                return Ok(PartFile::new(file, target, part, journal));
            }
        }
    }

    fn new(file: File, target: &Path, part: PathBuf, journal: PathBuf) -> PartFile {
        PartFile { file, target: target.to_owned(), part, journal, sync_error: AtomicI32::new(0) }
    }

    /// What an earlier run left, if its journal can be trusted and is of `url`; the inner `Err` says why not.
    pub fn saved(&self, url: &str) -> Result<Result<Option<Journal>, String>, Error> {
        let journal = match Journal::read(&self.journal) {
            Ok(Some(journal)) => journal,
            Ok(None) => return Ok(Ok(None)),
            // Another reason than that it is not ours to read may pass; what is kept must not go for it.
            Err(journal::Error::Read(source)) if source.kind() != io::ErrorKind::PermissionDenied => {
                return Err(Error::Local { action: "read", path: self.journal.clone(), source, kept: None });
            }
            Err(error) => return Ok(Err(error.to_string())),
        };
        let why = if journal.url != url {
            "the partial file here is of another url"
        } else if journal.version().if_range().is_none() {
            "the server gave nothing by which to tell whether the object is still the same"
        } else if !self.file.metadata().is_ok_and(|metadata| metadata.len() == journal.size) {
            "the partial file does not have the size that its journal says"
        } else {
            return Ok(Ok(Some(journal)));
        };
        Ok(Err(why.to_owned()))
    }

    /// Forgets what was there.
    pub fn restart(&self) -> Result<(), Error> {
        Journal::remove(&self.journal);
        self.file.set_len(0).map_err(|source| self.failed("truncate", source, None))
    }

    /// Reserves `size` bytes, so that a full disk is noticed before the first byte is fetched.
    pub fn reserve(&self, size: u64) -> Result<(), Error> {
        let full = |source: io::Error| self.failed("reserve space for", source, None);
        match fallocate(&self.file, FallocateFlags::empty(), 0, size) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                self.file.set_len(size).map_err(full)
            }
            Err(error) => {
                // A failed reservation may leave some: give it back.
                let _ = self.file.set_len(0);
                Err(full(self.with_room(error.into(), size)))
            }
        }
    }

    /// A full disk's error, with how much is needed and how much is there.
    fn with_room(&self, error: io::Error, needed: u64) -> io::Error {
        let room = fstatvfs(&self.file).ok().filter(|_| error.kind() == io::ErrorKind::StorageFull);
        let Some(room) = room else { return error };
        // What an ordinary user may take; the rest is root's reserve.
        let free = Bytes(room.f_bavail.saturating_mul(room.f_frsize));
        let text = format!("{}: {} needed, {free} free", weir_units::plain(&error), Bytes(needed));
        io::Error::new(error.kind(), text)
    }

    /// Writes all of `pieces` at `offset`.
    pub fn write_at(&self, mut offset: u64, pieces: &mut [IoSlice<'_>]) -> Result<(), Error> {
        let mut pieces = &mut pieces[..];
        while !pieces.is_empty() {
            let batch = pieces.len().min(MAX_PIECES);
            match rustix::io::pwritev(&self.file, &pieces[..batch], offset) {
                Ok(0) => return Err(self.failed("write", io::ErrorKind::WriteZero.into(), None)),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut pieces, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(self.failed("write", error.into(), None)),
            }
        }
        Ok(())
    }

    /// Stores the journal; with `durable`, everything written before this call is on the disk first.
    pub fn store(&self, journal: &Journal, durable: bool) -> Result<(), Error> {
        journal.store(&self.journal, durable).map_err(|source| Error::Local {
            action: "write",
            path: self.journal.clone(),
            source,
            kept: None,
        })
    }

    /// Waits until the file's bytes are on the disk.
    pub fn sync(&self) -> Result<(), Error> {
        self.sync_error()?;
        self.file.sync_data().map_err(|source| {
            self.sync_error.store(source.raw_os_error().unwrap_or(libc::EIO), Relaxed);
            self.failed("sync", source, None)
        })
    }

    /// The error of an earlier sync, which holds for all that was written before it.
    pub fn sync_error(&self) -> Result<(), Error> {
        match self.sync_error.load(Relaxed) {
            0 => Ok(()),
            code => Err(self.failed("sync", io::Error::from_raw_os_error(code), None)),
        }
    }

    /// Cuts or grows the file to its size, once that is known.
    pub fn set_size(&self, size: u64) -> Result<(), Error> {
        self.file.set_len(size).map_err(|source| self.failed("resize", source, None))
    }

    /// The complete file gets its name; the journal goes.
    pub fn publish(&self) -> Result<(), Error> {
        let rename = || {
            super::may_replace(&self.target)?;
            if !is_at(&self.file, &self.part)? {
                let text = format!("another file was put in the place of {}", self.part.display());
                return Err(io::Error::other(text));
            }
            fs::rename(&self.part, &self.target)
        };
        rename().map_err(|source| self.failed("rename to", source, None))?;
        Journal::remove(&self.journal);
        Ok(())
    }

    /// Nothing of it is worth keeping.
    pub fn discard(&self) {
        let _ = fs::remove_file(&self.part);
        Journal::remove(&self.journal);
    }

    /// For reading back what was written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file's name when it is complete.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Says in a disk's error how much is kept.
    pub fn failed(&self, action: &'static str, source: io::Error, kept: Option<Bytes>) -> Error {
        Error::Local { action, path: self.target.clone(), source, kept }
    }
}

/// Whether `path` still leads to `file`.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    Ok(fs::metadata(path).is_ok_and(|there| there.ino() == ours.ino() && there.dev() == ours.dev()))
}

/// A journal of what the kernel took (`written`) and what is on the disk (`durable`).
pub fn journal_of(
    url: &str,
    version: &Version,
    size: u64,
    written: &RangeSet,
    durable: &RangeSet,
) -> Journal {
    Journal {
        url: url.to_owned(),
        etag: version.validators().etag().map(str::to_owned),
        last_modified: version.validators().last_modified().map(str::to_owned),
        place: version.place().to_owned(),
        size,
        boot: journal::boot_id(),
        written: journal::pairs(written),
        durable: journal::pairs(durable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_sync_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        // A device takes bytes but has no disk to wait for: fdatasync(2) fails with EINVAL.
        let (part, journal) = names(&target);
        let device = File::options().write(true).open("/dev/null").unwrap();
        let part = PartFile::new(device, &target, part, journal);
        part.sync_error().unwrap();
        let error = part.sync().unwrap_err().to_string();
        assert_eq!(error, format!("cannot sync {}: invalid argument", target.display()));
        assert_eq!(part.sync_error().unwrap_err().to_string(), error, "also when nobody syncs again");
    }

    #[test]
    fn a_link_in_the_place_of_a_part_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, precious) = (dir.path().join("x"), dir.path().join("precious"));
        fs::write(&precious, "text").unwrap();
        std::os::unix::fs::symlink(&precious, names(&target).0).unwrap();
        assert!(PartFile::open(&target).is_err());
        assert_eq!(fs::read(&precious).unwrap(), b"text");
    }

    #[test]
    fn a_journal_that_cannot_be_read_now_is_no_reason_to_begin_again() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        // The simplest failure that is not about permission; too many open files is another.
        fs::create_dir(names(&target).1).unwrap();
        let error = PartFile::open(&target).unwrap().saved("http://h/x").unwrap_err();
        assert!(matches!(error, Error::Local { action: "read", .. }), "{error}");
    }

    #[test]
    fn another_file_does_not_get_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let part = PartFile::open(&target).unwrap();
        let beside = names(&target).0;
        fs::remove_file(&beside).unwrap();
        fs::write(&beside, "another's").unwrap();
        let error = part.publish().unwrap_err().to_string();
        let place = target.display();
        let expected = format!("cannot rename to {place}: another file was put in the place of {place}.part");
        assert_eq!(error, expected);
        assert!(!target.exists());
    }

    #[test]
    fn nothing_but_a_file_or_a_link_gives_way() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let _listener = std::os::unix::net::UnixListener::bind(&target).unwrap();
        let part = PartFile::open(&target).unwrap();
        let error = part.publish().unwrap_err().to_string();
        assert_eq!(
            error,
            format!("cannot rename to {}: what is there is no file and stays", target.display())
        );
        fs::remove_file(&target).unwrap();
        std::os::unix::fs::symlink("nowhere", &target).unwrap();
        part.publish().unwrap();
        assert!(target.is_file());
    }
}
