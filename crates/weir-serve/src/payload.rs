//! How does a body reach TLS and HTTP/2, in pieces no larger than what can leave, and without stalling other
//! connections?
//!
//! Bytes in the page cache are read on the spot with `preadv2(RWF_NOWAIT)`; only a read that would wait for
//! the disk goes to a blocking thread. A piece is read when there is room for it, and holds its lease
//! (`allowance`) until it is gone.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::time::Instant;

use bytes::Bytes;

use crate::activity::Doing;
use crate::allowance::Lease;
use crate::answer::Part;
use crate::client::Client;
use crate::source::Source;

/// One read: a multiple of the 16 KiB of a TLS record, so that records are full. Larger ones are no faster.
pub(crate) const PIECE: usize = 64 * 1024;

/// The parts of an answer, to be taken piece by piece.
pub(crate) struct Payload {
    parts: VecDeque<Part>,
    source: Option<Source>,
    /// Bytes of all `parts`.
    left: u64,
    client: Client,
}

impl Payload {
    pub(crate) fn new(parts: Vec<Part>, source: Option<Source>, client: Client) -> Payload {
        let left = parts.iter().map(Part::len).sum();
        Payload { parts: parts.into(), source, left, client }
    }

    /// Bytes not taken yet.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// The next bytes, at least one and at most `most`, which is not zero; the body is not at its end.
    ///
    /// An error says that the bytes are not there: their length is promised already, so the connection or
    /// stream ends.
    pub(crate) async fn next(&mut self, most: usize) -> io::Result<Bytes> {
        let most = most.min(PIECE);
        while self.parts.front().is_some_and(|part| part.len() == 0) {
            self.parts.pop_front();
        }
        let piece = match self.parts.front_mut() {
            Some(Part::Text(text)) => text.split_to(most.min(text.len())),
            Some(Part::File(range)) => {
                let range = range.clone();
                let want = self.grant((range.end - range.start).min(most as u64)).await;
                let lease = {
                    // Its share is taken up by pieces that its client has not taken.
                    let _awaits = self.client.activity.during(Doing::AwaitsClient);
                    self.client.allowance.lease(want).await
                };
                let piece = self.read(range, lease).await?;
                if let Some(Part::File(range)) = self.parts.front_mut() {
                    range.start += piece.len() as u64;
                }
                piece
            }
            None => return Err(io::Error::other("the body is at its end")),
        };
        self.left -= piece.len() as u64;
        self.client.count(piece.len() as u64);
        Ok(piece)
    }

    /// How many bytes may leave now, after a wait where they are paced.
    async fn grant(&self, want: u64) -> usize {
        let Some(pacer) = &self.client.pacer else { return want as usize };
        loop {
            let now = Instant::now();
            let granted = pacer.lock().grant(want, now);
            match granted {
                Ok(granted) => return granted as usize,
                Err(wait) => tokio::time::sleep_until((now + wait).into()).await,
            }
        }
    }

    /// Reads what comes first of a stretch of the file. Its last piece is handed on once it is certain that
    /// all of it is of one version.
    async fn read(&self, Range { start, end }: Range<u64>, lease: Lease) -> io::Result<Bytes> {
        let Some(source) = self.source.clone() else {
            return Err(io::Error::other("only answers about a file have ranges of one"));
        };
        let mut leased = Leased::new(lease);
        leased.filled = match source.read_cached_at(leased.room(), start) {
            Some(count) if start + (count as u64) < end || source.is_untouched() => count,
            _ => {
                let _awaits = self.client.activity.during(Doing::AwaitsDisk);
                let read = tokio::task::spawn_blocking(move || {
                    let count = source.read_at(leased.room(), start)?;
                    if start + count as u64 >= end {
                        source.check()?;
                    }
                    io::Result::Ok((leased, count))
                });
                let count;
                (leased, count) = read.await.map_err(io::Error::other)??;
                count
            }
        };
        Ok(Bytes::from_owner(leased))
    }
}

/// Bytes read, with the right to hold them.
struct Leased {
    buffer: Vec<u8>,
    filled: usize,
    lease: Lease,
}

thread_local! {
    /// Buffers of a whole piece that were written, for the next one: to clear a new one takes half as long as
    /// to fill it.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Spare buffers of a thread, of which there are as many as processors.
const MOST_SPARE: usize = 8;

impl Leased {
    fn new(lease: Lease) -> Leased {
        // A larger buffer than the lease would be memory that nobody counts.
        let spare = if lease.len() == PIECE { SPARE.with_borrow_mut(Vec::pop) } else { None };
        Leased { buffer: spare.unwrap_or_else(|| vec![0; lease.len()]), filled: 0, lease }
    }

    fn room(&mut self) -> &mut [u8] {
        let most = self.lease.len();
        &mut self.buffer[..most]
    }
}

impl AsRef<[u8]> for Leased {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if self.buffer.len() == PIECE {
            // At the end of a thread there is no store any more, and no next piece.
            let _ = SPARE.try_with(|spare| {
                let mut spare = spare.borrow_mut();
                if spare.len() < MOST_SPARE {
                    spare.push(std::mem::take(&mut self.buffer));
                }
            });
        }
    }
}
