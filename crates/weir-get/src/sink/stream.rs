//! Stdout, a pipe, a terminal, `/dev/null`: several lanes fetch, one order comes out.
//!
//! The lane that holds the next byte writes straight through. Others keep their bytes in a window that the
//! ledger's horizon bounds, so no lane ever waits for another here and memory stays bounded.

use std::fs::{File, metadata};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;
use weir_codec::digest::Digest;

use crate::error::GetError;
use crate::sink::links;
use crate::sink::read_ahead::ReadAhead;
use crate::verify::{self, Found, Method};

/// How far ahead of the next byte lanes may fetch: this, 16 lanes' buffers of 300 KiB, and the program stay
/// under 64 MiB.
pub const WINDOW: u64 = 32 << 20;

/// What a lane receives before it hands it on: a pipe holds 1 MiB at most, and every byte in a lane's buffer
/// is memory.
pub const PIECE: usize = 256 << 10;

/// The pipe we write to gets this much room, the most that anybody may ask for (`fs.pipe-max-size`): with the
/// usual 64 KiB the two ends wake each other for every 16 pages.
const PIPE: usize = 1 << 20;

/// Blocks of each lane that the window holds. The lane with the next byte may be slower than the others by
/// this much before they have to wait for it, and lanes that join find room.
const BLOCKS: u64 = 4;

/// What each of `lanes` lanes asks for at a time: the larger, the less the round trip between two of them
/// shows.
pub fn block(lanes: u32) -> u64 {
    (WINDOW / (BLOCKS * u64::from(lanes.max(1)))).max(PIECE as u64)
}

/// Between two looks at whether the user wants to stop.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Whether `path` takes bytes in order and only so: a pipe, a terminal, a character device. A file in its
/// place would be no use to whoever named it. What another user's link leads to is not meant.
pub(crate) fn is_stream(path: &Path) -> bool {
    !links::end_of(path).1
        && metadata(path)
            .map(|there| there.file_type())
            .is_ok_and(|kind| kind.is_fifo() || kind.is_char_device())
}

/// The order of the bytes that lanes bring.
pub struct Stream {
    to: OwnedFd,
    /// `None`: stdout.
    path: Option<PathBuf>,
    state: Mutex<StreamState>,
    methods: Vec<Method>,
    /// The user's wish to end.
    stop: Arc<AtomicBool>,
    /// Only the lane that writes holds it.
    digests: Mutex<Vec<Box<dyn Digest>>>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("path", &self.path).field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct StreamState {
    next: u64,
    ahead: ReadAhead,
    writing: bool,
}

impl Stream {
    /// Stdout; what passes is also hashed by `methods`. Once `stop` is set nothing is waited for.
    pub fn stdout(methods: Vec<Method>, stop: Arc<AtomicBool>) -> Result<Stream, GetError> {
        let stdout = io::stdout();
        let to = own_end(stdout.as_fd()).map_or_else(|| stdout.as_fd().try_clone_to_owned(), Ok);
        let to = to.map_err(|source| failed("open", None, source))?;
        Ok(Stream::new(to, None, methods, stop))
    }

    /// The pipe or device at `path`. A pipe may have no reader yet: `wait` is called until one has come, and
    /// says whether to go on waiting.
    pub fn open(
        path: &Path,
        methods: Vec<Method>,
        stop: Arc<AtomicBool>,
        wait: &dyn Fn() -> bool,
    ) -> Result<Stream, GetError> {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let is_pipe = metadata(path).is_ok_and(|there| there.file_type().is_fifo());
        loop {
            match File::options().write(true).custom_flags(flags.bits().cast_signed()).open(path) {
                Ok(file) => {
                    // What is there was looked at by name. Nothing is lost by having opened something else.
                    let kind = file.metadata().map(|there| there.file_type());
                    if !kind.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device()) {
                        let source = io::Error::other("it was replaced by another file");
                        return Err(failed("write", Some(path), source));
                    }
                    return Ok(Stream::new(file.into(), Some(path.to_owned()), methods, stop));
                }
                // fifo(7): nobody has it open for reading.
                Err(error) if is_pipe && error.raw_os_error() == Some(libc::ENXIO) => {
                    if !wait() {
                        return Err(GetError::Interrupted);
                    }
                }
                Err(source) => return Err(failed("open", Some(path), source)),
            }
        }
    }

    fn new(to: OwnedFd, path: Option<PathBuf>, methods: Vec<Method>, stop: Arc<AtomicBool>) -> Stream {
        // Not a pipe, or its owner has many already: then as it is.
        let _ = rustix::pipe::fcntl_setpipe_size(&to, PIPE);
        let digests = methods.iter().map(Method::start).collect();
        Stream { to, path, state: Mutex::default(), methods, stop, digests: Mutex::new(digests) }
    }

    /// Where it leads, unless to stdout.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The digests of all that was written.
    pub fn finish(&self) -> Vec<Found> {
        let digests = std::mem::take(&mut *self.digests.lock());
        verify::finished(&self.methods, digests)
    }

    fn emit<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>) -> Result<u64, GetError> {
        let mut digests = self.digests.lock();
        let mut length = 0;
        for piece in pieces {
            self.write_all(piece)?;
            digests.iter_mut().for_each(|digest| digest.update(piece));
            length += piece.len() as u64;
        }
        Ok(length)
    }

    /// Past std's line buffer, which would look for newlines in every byte.
    fn write_all(&self, mut bytes: &[u8]) -> Result<(), GetError> {
        let failed = |source| failed("write", self.path(), source);
        while !bytes.is_empty() {
            match rustix::io::write(&self.to, bytes) {
                Ok(0) => return Err(failed(io::ErrorKind::WriteZero.into())),
                Ok(length) => bytes = &bytes[length..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.stop.load(Relaxed) => return Err(GetError::Interrupted),
                Err(Errno::AGAIN) => wait_writable(self.to.as_fd()).map_err(failed)?,
                Err(error) => return Err(failed(error.into())),
            }
        }
        Ok(())
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.lock().next
    }

    /// Writes `pieces` if they are next, keeps them otherwise.
    pub fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<(), GetError> {
        let mut state = self.lock();
        if state.next != offset || state.writing {
            state.ahead.keep(offset, pieces);
            return Ok(());
        }
        state.writing = true;
        drop(state);
        let mut written = self.emit(pieces.iter().map(|piece| &**piece));
        let mut used = None;
        loop {
            let mut state = self.lock();
            match written {
                Ok(length) => state.next += length,
                Err(error) => {
                    state.writing = false;
                    return Err(error);
                }
            }
            if let Some(buffer) = used.take() {
                state.ahead.give_back(buffer);
            }
            let next = state.next;
            let Some(bytes) = state.ahead.take(next) else {
                state.writing = false;
                return Ok(());
            };
            drop(state);
            written = self.emit(std::iter::once(&bytes[..]));
            used = Some(bytes);
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, StreamState> {
        self.state.lock()
    }
}

fn failed(action: &'static str, path: Option<&Path>, source: io::Error) -> GetError {
    let path = path.unwrap_or(Path::new("stdout")).to_owned();
    match source.kind() {
        io::ErrorKind::BrokenPipe => GetError::OutputClosed { path },
        _ => GetError::Local { action, path, source, kept: None },
    }
}

/// A pipe on stdout, opened anew: the flag not to block is then this program's alone, and a reader that
/// sleeps does not keep it from ending. `None` of what is no pipe, or another user's.
fn own_end(stdout: BorrowedFd<'_>) -> Option<OwnedFd> {
    let is_pipe = FileType::from_raw_mode(fstat(stdout).ok()?.st_mode) == FileType::Fifo;
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", stdout.as_raw_fd());
    is_pipe.then(|| rustix::fs::open(path, flags, Mode::empty()).ok()).flatten()
}

/// Waits a little for one that does not block: opened so by us, or set so by another program that shares the
/// terminal.
fn wait_writable(to: BorrowedFd<'_>) -> io::Result<()> {
    let mut fds = [PollFd::new(&to, PollFlags::OUT)];
    match poll(&mut fds, Some(&POLL_INTERVAL)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_join_find_room_beside_the_blocks_of_those_before() {
        for (before, after) in [(1, 4), (4, 16), (8, 32)] {
            let taken = u64::from(before) * block(before) + u64::from(after - before) * block(after);
            assert!(taken <= WINDOW, "{before} lanes, then {after}");
        }
        assert_eq!(block(1000), PIECE as u64, "no request for less than a lane hands on");
    }
}
