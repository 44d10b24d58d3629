//! Stdout: several lanes fetch, one order comes out.
//!
//! The lane that holds the next byte writes straight through. Others keep their bytes in a window that the ledger's
//! horizon bounds, so no lane ever waits for another here and memory stays bounded.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, Write};
use std::sync::{Mutex, PoisonError};

use weir_codec::digest::{Algorithm, Digest, Expected};

use crate::error::Error;

/// How far ahead of the next byte lanes may fetch: 16 lanes' buffers of 1 MiB, this, and the program stay under 64 MiB.
pub const WINDOW: u64 = 16 << 20;

/// What one lane fetches at a time: large enough that a round trip between two blocks does not show on most paths.
pub const BLOCK: u64 = 1 << 20;

/// The order of the bytes that lanes bring.
#[derive(Default)]
pub struct Stdout {
    state: Mutex<State>,
    algorithms: Vec<Algorithm>,
    /// Only the lane that writes holds it.
    digests: Mutex<Vec<Box<dyn Digest>>>,
}

impl std::fmt::Debug for Stdout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stdout").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    waiting: BTreeMap<u64, Vec<u8>>,
    writing: bool,
}

impl Stdout {
    /// A stdout whose bytes are also hashed with `algorithms`.
    pub fn new(algorithms: Vec<Algorithm>) -> Stdout {
        let digests = algorithms.iter().map(|algorithm| algorithm.start()).collect();
        Stdout { state: Mutex::default(), algorithms, digests: Mutex::new(digests) }
    }

    /// The digests of all that was written.
    pub fn finish(&self) -> Vec<Expected> {
        let digests = std::mem::take(&mut *self.digests.lock().unwrap_or_else(PoisonError::into_inner));
        let finished = self.algorithms.iter().zip(digests);
        finished.filter_map(|(algorithm, digest)| Expected::new(*algorithm, digest.finish()).ok()).collect()
    }

    fn emit<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>) -> Result<u64, Error> {
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut length = 0;
        for piece in pieces {
            write_all(piece).map_err(|source| match source.kind() {
                io::ErrorKind::BrokenPipe => Error::OutputClosed,
                _ => Error::Local { action: "write", path: "stdout".into(), source, kept: None },
            })?;
            digests.iter_mut().for_each(|digest| digest.update(piece));
            length += piece.len() as u64;
        }
        Ok(length)
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.lock().next
    }

    /// Writes `pieces` if they are next, keeps them otherwise.
    pub fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<(), Error> {
        let mut state = self.lock();
        if state.next != offset || state.writing {
            let bytes = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
            state.waiting.insert(offset, bytes);
            return Ok(());
        }
        state.writing = true;
        drop(state);
        let mut written = self.emit(pieces.iter().map(|piece| &**piece));
        loop {
            let mut state = self.lock();
            match written {
                Ok(length) => state.next += length,
                Err(error) => {
                    state.writing = false;
                    return Err(error);
                }
            }
            let next = state.next;
            let Some(bytes) = state.waiting.remove(&next) else {
                state.writing = false;
                return Ok(());
            };
            drop(state);
            written = self.emit(std::iter::once(&bytes[..]));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Past std's line buffer, which would look for newlines in every byte.
fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    let stdout = rustix::stdio::stdout();
    while !bytes.is_empty() {
        match rustix::io::write(stdout, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => wait_writable()?,
            Err(error) => return Err(error.into()),
        }
    }
    io::stdout().flush()
}

/// A non-blocking stdout (a terminal shared with a program that set it so).
fn wait_writable() -> io::Result<()> {
    let stdout = rustix::stdio::stdout();
    let mut fds = [rustix::event::PollFd::new(&stdout, rustix::event::PollFlags::OUT)];
    rustix::event::poll(&mut fds, None)?;
    Ok(())
}
