//! How do bytes of a file reach a socket or a buffer, and are all of them of the version that was opened?
//!
//! `sendfile` hands the kernel the file's own pages, and they stay the file's until the client has them: a
//! write in place in that last moment goes unnoticed.

use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, IoSliceMut};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Stat, fstat};
use rustix::io::{Errno, ReadWriteFlags};
use weir_units::plain;

/// How many bytes at the end of a range are held back until the file is found unchanged: a TLS record, little
/// enough to keep in memory for a client that does not read.
pub(crate) const LAST: u64 = 16 * 1024;
/// How many bytes are compared in each place to tell that a file was only appended to: some lines of a log.
const PROBE: u64 = 4 * 1024;
/// The file is looked at in one more place for so many bytes of an answer, up to [`PLACES`]: where memory has
/// the page, that takes a few per cent of the time in which they are sent. A write between two places goes
/// unnoticed.
const STRIDE: u64 = 1 << 20;
const PLACES: u64 = 32;

/// Why a file ends early.
const SHORTER: &str = "the file became shorter while it was sent";

/// Bytes that can be read at any offset: an open file, or a pattern that repeats for ever.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    file: Arc<OwnedFd>,
    /// For a pattern: how many bytes `file` holds before it starts again.
    period: Option<u64>,
    /// For a file, which others may write.
    opened: Option<Arc<Opened>>,
    /// In how many places the file was looked at, if it was, and a hash of what was there.
    samples: Option<(u64, u64)>,
}

/// A file as it was when it was opened.
#[derive(Debug)]
struct Opened {
    /// Its path below the root, for the log.
    name: Vec<u8>,
    stat: Stat,
}

impl Source {
    /// An open file, whose path below the root is `name`.
    pub(crate) fn file(file: OwnedFd, name: &[u8], stat: Stat) -> Source {
        let opened = Opened { name: name.to_vec(), stat };
        Source { file: Arc::new(file), period: None, opened: Some(Arc::new(opened)), samples: None }
    }

    /// The first `period` bytes of `file`, again and again.
    pub(crate) fn repeated(file: Arc<OwnedFd>, period: u64) -> Source {
        Source { file, period: Some(period), opened: None, samples: None }
    }

    /// The same for an answer of `len` bytes that takes a while: some of the file's pages are remembered,
    /// which tells later whether it was only appended to. May wait for the disk.
    pub(crate) fn remembering_samples(mut self, len: u64) -> Source {
        let places = (len / STRIDE).clamp(1, PLACES);
        let hash = self.opened.as_ref().and_then(|opened| self.hash_samples(opened.len(), places).ok());
        let samples = hash.map(|hash| (places, hash));
        // If somebody wrote meanwhile, the samples may not be of what was opened.
        self.samples = samples.filter(|_| self.is_untouched());
        self
    }

    /// Sends up to `want` bytes from the page cache to a blocking socket without a copy in user space, and
    /// returns how many were sent, at least one.
    pub(crate) fn send_to(&self, socket: &TcpStream, offset: u64, want: usize) -> io::Result<usize> {
        let (mut offset, want) = self.place(offset, want);
        loop {
            match rustix::fs::sendfile(socket, &self.file, Some(&mut offset), want) {
                Err(Errno::INTR) => continue,
                // Some file systems (FUSE with direct I/O, parts of /proc) cannot splice.
                Err(Errno::INVAL | Errno::NOSYS) => return self.copy_to(socket, offset, want),
                Err(err) => return Err(self.blame(err, offset)),
                Ok(0) => return Err(self.fails(SHORTER)),
                Ok(sent) => return Ok(sent),
            }
        }
    }

    /// [`send_to`](Source::send_to) through a buffer, for file systems that leave no other way.
    fn copy_to(&self, socket: &TcpStream, offset: u64, want: usize) -> io::Result<usize> {
        let mut buffer = vec![0; want.min(64 * 1024)];
        let filled = self.read_at(&mut buffer, offset)?;
        let mut sent = 0;
        while sent < filled {
            sent += send(socket, &buffer[sent..filled], rustix::net::SendFlags::empty())?;
        }
        Ok(sent)
    }

    /// Reads up to a buffer of bytes, at least one, waiting for the disk where it must.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read(buffer, offset).map_err(|err| self.fails(plain(&err)))
    }

    /// Reads only what is in the page cache; `None` when that is nothing, or cannot be known on this file
    /// system.
    pub(crate) fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> Option<usize> {
        let (offset, want) = self.place(offset, buffer.len());
        let slices = &mut [IoSliceMut::new(&mut buffer[..want])];
        let read = match rustix::io::preadv2(&self.file, slices, offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP) if self.is_in_memory() => {
                rustix::io::pread(&self.file, &mut buffer[..want], offset)
            }
            read => read,
        };
        // An end of file is left to `read_at` as well, so that there is one place that knows what it means.
        read.ok().filter(|&count| count > 0)
    }

    /// The last bytes of a stretch of the file, once [`check`](Source::check) has passed all of it.
    pub(crate) fn read_last(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.fill(&mut bytes, range.start).map_err(|err| self.fails(plain(&err)))?;
        self.check()?;
        Ok(bytes)
    }

    /// Whether nobody has written to the file since it was opened. Waits for nothing on a file system that
    /// knows what it has in memory, which is one of this host's own.
    pub(crate) fn is_untouched(&self) -> bool {
        self.opened.as_ref().is_none_or(|opened| fstat(&self.file).is_ok_and(|now| opened.is_still(&now)))
    }

    /// Fails unless the file is still what was opened, and so is what was read of it until now. May wait for
    /// the disk.
    ///
    /// A file that was only appended to passes if samples of it are remembered, or a log in use could never
    /// be fetched.
    pub(crate) fn check(&self) -> io::Result<()> {
        let Some(opened) = &self.opened else { return Ok(()) };
        let now = fstat(&self.file).map_err(|err| self.fails(plain(&err.into())))?;
        let has_its_samples = || {
            self.samples
                .is_some_and(|(places, hash)| self.hash_samples(opened.len(), places).ok() == Some(hash))
        };
        let is_longer = now.st_size > opened.stat.st_size;
        if opened.is_still(&now) || is_longer && has_its_samples() {
            return Ok(());
        }
        Err(self.fails("the file changed while it was sent"))
    }

    /// A hash of the last of the file's first `len` bytes, and of those in about so many places before.
    fn hash_samples(&self, len: u64, places: u64) -> io::Result<u64> {
        let mut hasher = DefaultHasher::new();
        let mut probe = [0; PROBE as usize];
        let probe = &mut probe[..len.min(PROBE) as usize];
        let last = len.saturating_sub(PROBE);
        let stride = (last / places).max(PROBE);
        for offset in (0..last).step_by(stride as usize).chain([last]) {
            self.fill(probe, offset)?;
            hasher.write(probe);
        }
        Ok(hasher.finish())
    }

    /// Reads until the buffer is full.
    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            filled += self.read(&mut buffer[filled..], offset + filled as u64)?;
        }
        Ok(())
    }

    /// Reads at least one byte; fails where the file has none at `offset` any more.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (offset, want) = self.place(offset, buffer.len());
        match rustix::io::retry_on_intr(|| rustix::io::pread(&self.file, &mut buffer[..want], offset))? {
            0 => Err(io::Error::other(SHORTER)),
            count => Ok(count),
        }
    }

    /// `sendfile` does not say whether the file failed or the socket. If a byte can be read now, it was the
    /// socket, and a client that goes away is no news.
    fn blame(&self, err: Errno, offset: u64) -> io::Error {
        match self.read(&mut [0], offset) {
            Ok(_) => err.into(),
            Err(cause) => self.fails(plain(&cause)),
        }
    }

    /// The length is promised already: an early end is the only honest way to say that the rest is not there.
    /// The client cannot tell why, so the log does.
    fn fails(&self, cause: impl fmt::Display) -> io::Error {
        if let Some(opened) = &self.opened {
            let name = opened.name.escape_ascii();
            tracing::warn!("cannot send all of {name}: {cause}; the answer ends early");
        }
        io::Error::other(cause.to_string())
    }

    /// tmpfs and memfd have no `RWF_NOWAIT` (Linux 6.18), and no need of it: all they hold is in memory.
    fn is_in_memory(&self) -> bool {
        const TMPFS_MAGIC: u64 = 0x0102_1994; // linux/magic.h
        rustix::fs::fstatfs(&self.file).is_ok_and(|fs| fs.f_type as u64 == TMPFS_MAGIC)
    }

    /// Where in `file` the byte at `offset` lies, and how many of the `want` bytes follow it there.
    fn place(&self, offset: u64, want: usize) -> (u64, usize) {
        match self.period {
            None => (offset, want),
            Some(period) => {
                let within = offset % period;
                (within, want.min((period - within) as usize))
            }
        }
    }
}

impl Opened {
    fn len(&self) -> u64 {
        self.stat.st_size as u64
    }

    /// Whether nobody has written to the file. After a write, the date may have been put back (`cp -p` over
    /// it), but that moves the time of the last status change. A new mode, owner or number of links moves it
    /// as well, such as when another file is renamed over this one; those can be told by the change itself.
    fn is_still(&self, now: &Stat) -> bool {
        let written = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        let touched = |stat: &Stat| (stat.st_ctime, stat.st_ctime_nsec);
        let held = |stat: &Stat| (stat.st_mode, stat.st_uid, stat.st_gid, stat.st_nlink);
        let before = &self.stat;
        written(before) == written(now) && (touched(before) == touched(now) || held(before) != held(now))
    }
}

/// `send(2)` that never raises `SIGPIPE`.
pub(crate) fn send(socket: &TcpStream, bytes: &[u8], flags: rustix::net::SendFlags) -> io::Result<usize> {
    let flags = flags | rustix::net::SendFlags::NOSIGNAL;
    Ok(rustix::io::retry_on_intr(|| rustix::net::send(socket, bytes, flags))?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    use super::*;

    fn open(path: &Path) -> Source {
        let file = OwnedFd::from(fs::File::open(path).unwrap());
        let stat = fstat(&file).unwrap();
        Source::file(file, b"log", stat)
    }

    #[test]
    fn only_samples_of_what_was_opened_prove_that_it_grew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let append = || fs::File::options().append(true).open(&path).unwrap().write_all(b"more").unwrap();
        fs::write(&path, "first").unwrap();
        let (without, source) = (open(&path), open(&path).remembering_samples(0));
        append();
        assert!(source.check().is_ok() && without.check().is_err());
        // Rewritten before its samples were taken.
        let source = open(&path);
        fs::write(&path, "another, and longer").unwrap();
        assert!(source.remembering_samples(0).check().is_err());
    }
}
