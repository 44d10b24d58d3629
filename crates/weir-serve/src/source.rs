//! How do bytes of a file reach a socket or a buffer?

use std::io::{self, IoSliceMut};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::{Errno, ReadWriteFlags};

/// Bytes that can be read at any offset: an open file, or a pattern that repeats for ever.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    file: Arc<OwnedFd>,
    /// For a pattern: how many bytes `file` holds before it starts again.
    period: Option<u64>,
}

impl Source {
    pub(crate) fn file(file: OwnedFd) -> Source {
        Source { file: Arc::new(file), period: None }
    }

    /// The first `period` bytes of `file`, again and again.
    pub(crate) fn repeated(file: Arc<OwnedFd>, period: u64) -> Source {
        Source { file, period: Some(period) }
    }

    /// Sends up to `want` bytes from the page cache to a blocking socket without a copy in user space.
    ///
    /// Returns how many were sent; 0 says that the file has no bytes at `offset` any more.
    pub(crate) fn send_to(&self, socket: &TcpStream, offset: u64, want: usize) -> io::Result<usize> {
        let (mut offset, want) = self.place(offset, want);
        loop {
            match rustix::fs::sendfile(socket, &self.file, Some(&mut offset), want) {
                Err(Errno::INTR) => continue,
                // Some file systems (FUSE with direct I/O, parts of /proc) cannot splice.
                Err(Errno::INVAL | Errno::NOSYS) => return self.copy_to(socket, offset, want),
                sent => return Ok(sent?),
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

    /// Reads up to a buffer of bytes, waiting for the disk where it must; 0 as for
    /// [`send_to`](Source::send_to).
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (offset, want) = self.place(offset, buffer.len());
        Ok(rustix::io::retry_on_intr(|| rustix::io::pread(&self.file, &mut buffer[..want], offset))?)
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

/// `send(2)` that never raises `SIGPIPE`.
pub(crate) fn send(socket: &TcpStream, bytes: &[u8], flags: rustix::net::SendFlags) -> io::Result<usize> {
    let flags = flags | rustix::net::SendFlags::NOSIGNAL;
    Ok(rustix::io::retry_on_intr(|| rustix::net::send(socket, bytes, flags))?)
}
