//! How much may listings take? A directory of a million entries is a page of a hundred megabytes, and a small
//! request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::activity::{Activity, Doing, During};

/// Directories that are read at the same time: each may keep a disk and a processor busy.
const AT_ONCE: usize = 2;
/// How long a request waits for its turn: a few directories of a million entries are read in that time, and
/// clients wait longer for a first byte.
pub(crate) const LISTING_TURN: Duration = Duration::from_secs(10);
/// How often one that waits looks whether the server stops. Nobody notices so little.
const STOP_INTERVAL: Duration = Duration::from_millis(50);
/// Below this a listing is not counted: it is no larger than what a connection has for itself.
const SMALL: usize = 32 * 1024;
/// Bytes of listings that wait for their clients, in all. A larger one is sent when it is the only one.
const MOST: usize = 16 << 20;

/// The listings of a server.
#[derive(Debug)]
pub(crate) struct Listings {
    turns: Arc<Turns>,
    waiting: Arc<AtomicUsize>,
}

/// The turns that there are. Tasks wait for one without a thread, threads with one.
#[derive(Debug)]
struct Turns {
    free: Arc<Semaphore>,
    /// For threads: signalled under the lock, so that none looks before and waits after it.
    lock: Mutex<()>,
    freed: Condvar,
}

/// A listing of this size was made of as much in small pieces, which the allocator keeps if it is not told
/// otherwise.
const LARGE: u64 = 1 << 20;

/// The right to read a directory until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    /// Gone once it is given back.
    permit: Option<OwnedSemaphorePermit>,
    /// Bytes of the listing that was made.
    made: u64,
}

impl Turn {
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
    /// By which the register of connections knows who holds memory that others wait for.
    _holds: Option<During>,
}

impl Listings {
    pub(crate) fn new() -> Listings {
        let turns =
            Turns { free: Arc::new(Semaphore::new(AT_ONCE)), lock: Mutex::new(()), freed: Condvar::new() };
        Listings { turns: Arc::new(turns), waiting: Arc::default() }
    }

    /// Waits for a turn, at most for `span`, in a task.
    pub(crate) async fn queue(&self, span: Duration) -> Option<Turn> {
        // It is never closed.
        let permit = tokio::time::timeout(span, self.turns.free.clone().acquire_owned()).await.ok()?.ok()?;
        Some(self.turn_by(permit))
    }

    /// Waits for a turn, at most for `span` and until `is_stopped`, in a thread.
    pub(crate) fn turn(&self, span: Duration, is_stopped: impl Fn() -> bool) -> Option<Turn> {
        let started = Instant::now();
        let mut lock = self.turns.lock.lock();
        loop {
            if let Ok(permit) = self.turns.free.clone().try_acquire_owned() {
                return Some(self.turn_by(permit));
            }
            let left = span.saturating_sub(started.elapsed());
            if left.is_zero() || is_stopped() {
                return None;
            }
            self.turns.freed.wait_for(&mut lock, left.min(STOP_INTERVAL));
        }
    }

    fn turn_by(&self, permit: OwnedSemaphorePermit) -> Turn {
        Turn { turns: self.turns.clone(), permit: Some(permit), made: 0 }
    }

    /// The right of this connection to hold so many bytes, if there is room.
    pub(crate) fn lease(&self, bytes: usize, activity: &Arc<Activity>) -> Option<Lease> {
        let bytes = if bytes <= SMALL { 0 } else { bytes };
        let before = self.waiting.fetch_add(bytes, Relaxed);
        let holds = (bytes > 0).then(|| activity.during(Doing::HoldsListing));
        let lease = Lease { waiting: self.waiting.clone(), bytes, _holds: holds };
        // Dropped where it does not fit, the lease gives its bytes back.
        (bytes == 0 || before == 0 || before + bytes <= MOST).then_some(lease)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.made >= LARGE {
            give_back();
        }
        drop(self.permit.take());
        let _lock = self.turns.lock.lock();
        self.turns.freed.notify_one();
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
        let (listings, activity) = (Listings::new(), Arc::new(Activity::new()));
        let lease = |bytes| listings.lease(bytes, &activity);
        let small = lease(SMALL);
        assert!(small.is_some() && !activity.does(Doing::HoldsListing));
        let large = lease(MOST * 2).unwrap();
        assert!(activity.does(Doing::HoldsListing));
        assert!(lease(MOST / 2).is_none() && lease(SMALL).is_some());
        drop(large);
        assert!(!activity.does(Doing::HoldsListing));
        let half = lease(MOST / 2);
        assert!(half.is_some() && lease(MOST / 2).is_some() && lease(MOST).is_none());
    }

    #[test]
    fn a_turn_is_not_waited_for_without_end() {
        let listings = Listings::new();
        let mut turns: Vec<Turn> =
            (0..AT_ONCE).map(|_| listings.turn(Duration::ZERO, || false).unwrap()).collect();
        assert!(listings.turn(Duration::ZERO, || false).is_none());
        assert!(listings.turn(Duration::MAX, || true).is_none(), "the server stops");
        // One that is given back is somebody else's at once.
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| listings.turn(Duration::from_secs(20), || false).is_some());
            drop(turns.pop());
            assert!(waits.join().unwrap());
        });
    }

    #[tokio::test]
    async fn tasks_and_threads_share_the_turns() {
        let listings = Listings::new();
        let thread = listings.turn(Duration::ZERO, || false);
        let task = listings.queue(Duration::from_secs(20)).await;
        assert!(thread.is_some() && task.is_some());
        assert!(listings.queue(Duration::ZERO).await.is_none());
        drop(thread);
        assert!(listings.queue(Duration::from_secs(20)).await.is_some());
    }
}
