//! How does a body reach hyper, for TLS and HTTP/2, with few copies and without stalling other connections?
//!
//! Bytes in the page cache are read on the spot with `preadv2(RWF_NOWAIT)`; only a read that would wait for the disk goes
//! to a blocking thread. The buffers are reused as soon as hyper is done with them.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use crate::answer::Part;
use crate::pacer::Pacer;
use crate::site::Site;
use crate::source::Source;

/// One read: a multiple of the 16 KiB of a TLS record, so that records are full, and small enough for two buffers to
/// stay in a 1 MiB second-level cache between the read and the encryption.
const CHUNK: usize = 256 * 1024;

/// The schedule that the streams of one connection share.
pub(crate) type SharedPacer = Option<Arc<Mutex<Pacer>>>;

/// The parts of an answer as a body.
pub(crate) struct Payload {
    parts: VecDeque<Part>,
    source: Option<Source>,
    /// Bytes of all `parts`.
    left: u64,
    buffers: Buffers,
    step: Step,
    pacer: SharedPacer,
    site: Arc<Site>,
}

/// What the body is doing between two polls.
enum Step {
    Idle,
    /// Waiting until the next bytes are due.
    Pacing(Pin<Box<Sleep>>),
    /// A blocking thread reads.
    Reading(JoinHandle<io::Result<(Buffer, usize)>>),
}

impl Payload {
    pub(crate) fn new(
        parts: Vec<Part>,
        source: Option<Source>,
        pacer: SharedPacer,
        site: Arc<Site>,
    ) -> Payload {
        let left = parts.iter().map(Part::len).sum();
        Payload {
            parts: parts.into(),
            source,
            left,
            buffers: Buffers::default(),
            step: Step::Idle,
            pacer,
            site,
        }
    }

    /// The next bytes of the body, which is not at its end.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            match &mut self.step {
                Step::Pacing(sleep) => {
                    ready!(sleep.as_mut().poll(cx));
                    self.step = Step::Idle;
                }
                Step::Reading(read) => {
                    let read = ready!(Pin::new(read).poll(cx));
                    self.step = Step::Idle;
                    let (buffer, count) = read.map_err(io::Error::other)??;
                    return Poll::Ready(self.take_read(buffer, count));
                }
                Step::Idle => {
                    if let Some(bytes) = self.begin_next() {
                        return Poll::Ready(bytes);
                    }
                }
            }
        }
    }

    /// Yields bytes at once where they are at hand; otherwise `self.step` says what is waited for.
    fn begin_next(&mut self) -> Option<io::Result<Bytes>> {
        let (start, end) = match self.parts.front_mut()? {
            Part::Text(text) => {
                let text = Bytes::from(std::mem::take(text));
                self.parts.pop_front();
                return Some(Ok(text));
            }
            Part::File(range) => (range.start, range.end),
        };
        let want = self.grant((end - start).min(CHUNK as u64))?;
        let source = self.source.clone()?;
        let mut buffer = self.buffers.take();
        let room = Arc::get_mut(&mut buffer).map_or(&mut [][..], |bytes| &mut bytes[..want]);
        if let Some(count) = source.read_cached_at(room, start) {
            return Some(self.take_read(buffer, count));
        }
        self.step = Step::Reading(tokio::task::spawn_blocking(move || {
            let room = Arc::get_mut(&mut buffer).map_or(&mut [][..], |bytes| &mut bytes[..want]);
            let count = source.read_at(room, start)?;
            Ok((buffer, count))
        }));
        None
    }

    /// How many bytes may leave now; `None` after a wait was begun.
    fn grant(&mut self, want: u64) -> Option<usize> {
        let Some(pacer) = &self.pacer else { return Some(want as usize) };
        let now = Instant::now();
        match pacer.lock().unwrap_or_else(PoisonError::into_inner).grant(want, now) {
            Ok(granted) => Some(granted as usize),
            Err(wait) => {
                self.step = Step::Pacing(Box::pin(tokio::time::sleep_until((now + wait).into())));
                None
            }
        }
    }

    /// Accounts for a read at the front of the parts.
    fn take_read(&mut self, buffer: Buffer, count: usize) -> io::Result<Bytes> {
        if count == 0 {
            // hyper then closes the connection, or resets the stream: the length is promised already.
            return Err(io::Error::other("the file became shorter while it was sent"));
        }
        if let Some(Part::File(range)) = self.parts.front_mut() {
            range.start += count as u64;
            if range.is_empty() {
                self.parts.pop_front();
            }
        }
        Ok(self.buffers.lend(buffer, count))
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if this.is_end_stream() {
            return Poll::Ready(None);
        }
        let bytes = ready!(this.poll_bytes(cx))?;
        this.left -= bytes.len() as u64;
        this.site.count_sent(bytes.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Memory of [`CHUNK`] bytes; writable while nobody else holds it.
type Buffer = Arc<Vec<u8>>;

/// The buffers of one body, the longest lent first. hyper holds one or two at a time, HTTP/2 some more.
#[derive(Default)]
struct Buffers(VecDeque<Buffer>);

/// A filled buffer in the hands of hyper.
struct Lent(Buffer, usize);

impl Buffers {
    /// A buffer that nobody reads any more.
    fn take(&mut self) -> Buffer {
        // The one lent first is free first.
        let first_is_free = self.0.front_mut().is_some_and(|buffer| Arc::get_mut(buffer).is_some());
        let free = if first_is_free { self.0.pop_front() } else { None };
        free.unwrap_or_else(|| Arc::new(vec![0; CHUNK]))
    }

    fn lend(&mut self, buffer: Buffer, count: usize) -> Bytes {
        self.0.push_back(buffer.clone());
        Bytes::from_owner(Lent(buffer, count))
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused_once_they_are_free() {
        let mut buffers = Buffers::default();
        let first = buffers.take();
        let address = first.as_ptr();
        let lent = buffers.lend(first, 10);
        assert_eq!(lent.len(), 10);
        let second = buffers.take();
        assert_ne!(second.as_ptr(), address, "the first is still read");
        drop(lent);
        drop(buffers.lend(second, 10));
        assert_eq!(buffers.take().as_ptr(), address);
    }
}
