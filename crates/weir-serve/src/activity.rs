//! What is one connection doing? Written by its thread or task, read by the register of connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
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
}

/// A request that is being answered, until this is dropped.
#[derive(Debug)]
pub(crate) struct Open(Arc<Activity>);

impl Activity {
    pub(crate) fn new() -> Activity {
        Activity {
            began: Instant::now(),
            turned: AtomicU64::new(0),
            open: AtomicU32::new(0),
            offered: AtomicU64::new(0),
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

    /// How many requests are being answered.
    pub(crate) fn open_count(&self) -> u32 {
        self.open.load(Relaxed)
    }

    pub(crate) fn offered(&self) -> u64 {
        self.offered.load(Relaxed)
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
}
