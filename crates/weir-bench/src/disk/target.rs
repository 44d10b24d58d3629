//! The file that is measured on: nobody sees it, and it is gone however this process ends.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::path::Path;

use rustix::fs::{
    Advice, CWD, Mode, OFlags, fadvise, fcntl_getfl, fcntl_setfl, fstatfs, fstatvfs, openat, unlinkat,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Bytes without which nothing can be told: less is in a disk's own cache.
pub const LEAST: u64 = 16 << 20;

/// Places that are looked at for what is still in memory.
const PLACES: u64 = 16;

/// File systems that are memory: tmpfs and ramfs (linux/magic.h).
const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// What is left to others: an eighth of what is free, a gibibyte at most. A full disk hurts them more than a
/// smaller file hurts a measurement.
pub fn kept(free: u64) -> u64 {
    (free / 8).min(1 << 30)
}

/// Whole MiB, as files are written here.
pub(crate) fn whole(bytes: u64) -> u64 {
    bytes >> 20 << 20
}

/// How much of `wanted` bytes may be written where `free` are free; the error is what must stay free.
pub fn room(wanted: u64, free: u64) -> Result<u64, u64> {
    let room = whole(wanted.min(free - kept(free)));
    if room >= LEAST { Ok(room) } else { Err(kept(free)) }
}

/// The file.
#[derive(Debug)]
pub struct Target {
    /// Open for reading and writing.
    pub file: File,
    /// It never had a name.
    pub nameless: bool,
    /// Why it had one for a moment.
    pub why_named: Option<String>,
}

impl Target {
    /// Makes it in `folder`.
    pub fn make(folder: &Path) -> io::Result<Target> {
        let mode = Mode::RUSR | Mode::WUSR;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        match openat(CWD, folder, flags | OFlags::TMPFILE, mode) {
            Ok(file) => return Ok(Target { file: file.into(), nameless: true, why_named: None }),
            // What kernels and file systems say that cannot (open(2), O_TMPFILE).
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        let name = format!(".weir-bench-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let path = folder.join(&name);
        let file = openat(CWD, &path, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode)?;
        unlinkat(CWD, &path, rustix::fs::AtFlags::empty())?;
        let why = format!("the file system has no O_TMPFILE: {name} had a name for a moment");
        Ok(Target { file: file.into(), nameless: false, why_named: Some(why) })
    }

    /// Bytes that this user may still write on its file system.
    pub fn free(&self) -> io::Result<u64> {
        let stat = fstatvfs(&self.file)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// An error where there is no disk below the file: its memory is all that could be measured.
    pub(crate) fn has_disk(&self) -> io::Result<()> {
        // The magic numbers have 32 bits, whatever the type.
        let magic = fstatfs(&self.file)?.f_type as u64 & 0xffff_ffff;
        if MEMORY.contains(&magic) {
            return Err(io::Error::other("the file system is memory, with no disk below it"));
        }
        Ok(())
    }

    /// Past the page cache from now on, or no longer.
    pub(crate) fn set_direct(&self, direct: bool) -> io::Result<()> {
        self.has_disk()?;
        let flags = fcntl_getfl(&self.file)?;
        fcntl_setfl(&self.file, if direct { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT })?;
        Ok(())
    }

    /// Nothing of it in memory any more, or an error; what waits is written first. Returns whether that was
    /// seen: some file systems do not tell. It is read at random from then on, until it is advised otherwise.
    pub fn forget(&self) -> io::Result<bool> {
        self.has_disk()?;
        rustix::fs::fdatasync(&self.file)?;
        // A look then brings in no more than its own page.
        self.advise(Advice::Random);
        fadvise(&self.file, 0, None::<NonZeroU64>, Advice::DontNeed)?;
        let (size, mut byte) = (self.file.metadata()?.len(), [0]);
        let mut held = 0;
        for look in 0..PLACES {
            let place = (2 * look + 1) * (size / (2 * PLACES));
            // A read that must not wait says so where it would (preadv2(2), RWF_NOWAIT). A device that is
            // memory (brd, zram) never lets it wait.
            let slices = &mut [IoSliceMut::new(&mut byte)];
            match preadv2(&self.file, slices, place, ReadWriteFlags::NOWAIT) {
                Ok(count) => held += u64::from(count > 0),
                Err(Errno::AGAIN) => {}
                Err(_) => return Ok(false),
            }
        }
        // Single pages may be in use just now.
        if held > PLACES / 2 {
            return Err(io::Error::other("most of it is in memory, or comes from the device at once"));
        }
        Ok(true)
    }

    /// How it will be read.
    pub fn advise(&self, advice: Advice) {
        // Advice that is not taken changes a figure, and that figure is then this system's.
        let _ = fadvise(&self.file, 0, None::<NonZeroU64>, advice);
    }

    /// Empty again; what waited to be written is dropped.
    pub fn empty(&self) -> io::Result<()> {
        self.file.set_len(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn some_room_stays_free() {
        assert_eq!(room(1 << 30, 100 << 30), Ok(1 << 30));
        assert_eq!(room(64_000_000, 100 << 30), Ok(whole(64_000_000)));
        assert_eq!(room(200 << 30, 100 << 30), Ok(99 << 30));
        assert_eq!(room(1 << 30, 80 << 20), Ok(70 << 20));
        assert_eq!(room(1 << 30, 10 << 20), Err((10 << 20) / 8));
        assert_eq!(room(1 << 30, 0), Err(0));
        assert_eq!(room(1 << 20, 1 << 30), Err((1 << 30) / 8));
    }

    #[test]
    fn nobody_sees_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::make(folder.path()).unwrap();
        target.file.write_all_at(&vec![1; 1 << 20], 0).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(target.file.metadata().unwrap().nlink(), 0);
        assert!(target.free().unwrap() > 0);
        // One that is memory forgets nothing; of others the file system decides.
        if target.has_disk().is_err() {
            assert!(target.forget().is_err());
        } else {
            let _ = target.forget();
        }
        target.empty().unwrap();
        assert_eq!(target.file.metadata().unwrap().len(), 0);
    }

    #[test]
    fn places_that_are_no_folders() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), b"").unwrap();
        assert!(Target::make(&folder.path().join("file")).is_err());
        assert!(Target::make(&folder.path().join("none")).is_err());
        assert!(Target::make(Path::new("/proc")).is_err());
    }
}
