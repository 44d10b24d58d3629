//! What is one connection doing? Written by its thread or task, read by the register of connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Activity {
    began: Instant,
    /// When the connection last turned from idle to busy or back, in milliseconds since it began.
    turned: AtomicU64,
    /// Requests that are being answered.
    open: AtomicU32,
    /// Body bytes handed to the kernel, to TLS or to HTTP/2 so far.
    offered: AtomicU64,
    /// How many of its requests are at each kind of [`Doing`].
    doing: [AtomicU32; Doing::COUNT],
    /// Its task notices by itself that the server stops.
    hears_stop: AtomicBool,
}

/// A request that is being answered, until this is dropped.
#[derive(Debug)]
pub(crate) struct Open(Arc<Activity>);

/// What a request that is being answered waits for, or which shared resource it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Waits for its client: to open a window of HTTP/2, to take what was read for it, or to send what it
    /// began to send.
    AwaitsClient,
    /// Waits for bytes of a file that are not in memory.
    AwaitsDisk,
    /// Holds memory for a large listing.
    HoldsListing,
    /// Holds one of the streams that all connections together may have.
    HoldsStream,
}

/// A request is at it until this is dropped.
#[derive(Debug)]
pub(crate) struct During {
    activity: Arc<Activity>,
    doing: Doing,
}

impl Doing {
    /// How many kinds there are.
    const COUNT: usize = 4;
}

impl Activity {
    pub(crate) fn new() -> Activity {
        Activity {
            began: Instant::now(),
            turned: AtomicU64::new(0),
            open: AtomicU32::new(0),
            offered: AtomicU64::new(0),
            doing: [const { AtomicU32::new(0) }; Doing::COUNT],
            hears_stop: AtomicBool::new(false),
        }
    }

    /// A request has come. What comes before it, a handshake or half a head, does not make a connection busy.
    pub(crate) fn open(self: &Arc<Self>) -> Open {
        if self.open.fetch_add(1, Relaxed) == 0 {
            self.turn();
        }
        Open(self.clone())
    }

    /// Body bytes are about to leave.
    pub(crate) fn offer(&self, bytes: u64) {
        self.offered.fetch_add(bytes, Relaxed);
    }

    /// A request of this connection is at it from now on.
    pub(crate) fn during(self: &Arc<Self>, doing: Doing) -> During {
        self.doing[doing as usize].fetch_add(1, Relaxed);
        During { activity: self.clone(), doing }
    }

    /// How many requests are being answered.
    pub(crate) fn open_count(&self) -> u32 {
        self.open.load(Relaxed)
    }

    pub(crate) fn offered(&self) -> u64 {
        self.offered.load(Relaxed)
    }

    /// Whether any of its requests is at it.
    pub(crate) fn does(&self, doing: Doing) -> bool {
        self.doing[doing as usize].load(Relaxed) > 0
    }

    /// Whether it is the client that holds a request up. Streams of HTTP/2 share a window: one that waits for
    /// the disk may hold all of it, and then it is not the client that the others wait for.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.does(Doing::AwaitsClient) && !self.does(Doing::AwaitsDisk)
    }

    /// From now on its task notices by itself that the server stops.
    pub(crate) fn hear_stop(&self) {
        self.hears_stop.store(true, Relaxed);
    }

    pub(crate) fn hears_stop(&self) -> bool {
        self.hears_stop.load(Relaxed)
    }

    /// When the connection was accepted, or last turned from idle to busy or back.
    pub(crate) fn turned(&self) -> Instant {
        self.began + Duration::from_millis(self.turned.load(Relaxed))
    }

    fn turn(&self) {
        self.turned.store(self.began.elapsed().as_millis() as u64, Relaxed);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Relaxed) == 1 {
            self.0.turn();
        }
    }
}

impl Drop for During {
    fn drop(&mut self) {
        self.activity.doing[self.doing as usize].fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_busy_while_any_request_is_answered() {
        let activity = Arc::new(Activity::new());
        let first = activity.open();
        let second = activity.open();
        drop(first);
        assert_eq!(activity.open_count(), 1);
        drop(second);
        assert_eq!(activity.open_count(), 0);
    }

    #[test]
    fn a_client_is_waited_for_unless_the_disk_is() {
        let activity = Arc::new(Activity::new());
        let awaited = activity.during(Doing::AwaitsClient);
        assert!(activity.waits_for_client() && !activity.does(Doing::HoldsStream));
        let disk = activity.during(Doing::AwaitsDisk);
        assert!(!activity.waits_for_client());
        drop(disk);
        assert!(activity.waits_for_client());
        drop(awaited);
        assert!(!activity.waits_for_client());
    }
}
