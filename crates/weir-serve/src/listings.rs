//! How much may listings take? A directory of a million entries is a page of a hundred megabytes, and a small
//! request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;

/// Directories that are read at the same time: each may keep a disk and a processor busy.
const AT_ONCE: usize = 2;
/// Below this a listing is not counted: it is no larger than what a connection has for itself.
const SMALL: usize = 32 * 1024;
/// Bytes of listings that wait for their clients, in all. A larger one is sent when it is the only one.
const MOST: usize = 16 << 20;

/// The listings of a server.
#[derive(Debug)]
pub(crate) struct Listings {
    reading: Mutex<usize>,
    read: Condvar,
    /// In front of `reading`, for tasks: they wait without a thread.
    turns: Semaphore,
    waiting: Arc<AtomicUsize>,
}

/// A listing of this size was made of as much in small pieces, which the allocator keeps if it is not told
/// otherwise.
const LARGE: u64 = 1 << 20;

/// The right to read a directory until this is dropped.
pub(crate) struct Turn<'a> {
    listings: &'a Listings,
    /// Bytes of the listing that was made.
    made: u64,
}

impl Turn<'_> {
    /// A listing of so many bytes was made.
    pub(crate) fn made(&mut self, bytes: u64) {
        self.made = bytes;
    }
}

/// The right to hold a listing until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    waiting: Arc<AtomicUsize>,
    bytes: usize,
}

impl Listings {
    pub(crate) fn new() -> Listings {
        Listings {
            reading: Mutex::new(0),
            read: Condvar::new(),
            turns: Semaphore::new(AT_ONCE),
            waiting: Arc::default(),
        }
    }

    /// For tasks, before they give the work to a thread.
    pub(crate) async fn queue(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        // It is never closed.
        self.turns.acquire().await.ok()
    }

    /// Waits for a turn.
    pub(crate) fn turn(&self) -> Turn<'_> {
        let mut reading = self.reading.lock();
        self.read.wait_while(&mut reading, |reading| *reading >= AT_ONCE);
        *reading += 1;
        Turn { listings: self, made: 0 }
    }

    /// The right to hold so many bytes, if there is room.
    pub(crate) fn lease(&self, bytes: usize) -> Option<Lease> {
        let bytes = if bytes <= SMALL { 0 } else { bytes };
        let before = self.waiting.fetch_add(bytes, Relaxed);
        let lease = Lease { waiting: self.waiting.clone(), bytes };
        // Dropped where it does not fit, the lease gives its bytes back.
        (bytes == 0 || before == 0 || before + bytes <= MOST).then_some(lease)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.made >= LARGE {
            give_back();
        }
        *self.listings.reading.lock() -= 1;
        self.listings.read.notify_one();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.bytes, Relaxed);
    }
}

/// Hands free memory back to the system. Each thread of a connection has an arena of its own, and what it
/// keeps for the next listing is megabytes.
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the allocator's own locks, and touches only what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_large_listing_or_many_small_ones() {
        let listings = Listings::new();
        let large = listings.lease(MOST * 2).unwrap();
        assert!(listings.lease(MOST / 2).is_none() && listings.lease(SMALL).is_some());
        drop(large);
        let half = listings.lease(MOST / 2);
        assert!(half.is_some() && listings.lease(MOST / 2).is_some() && listings.lease(MOST).is_none());
    }
}
