//! How many connections are open, may one more be, and how are all of them ended?

use std::collections::HashMap;
use std::net::{Shutdown as Half, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The open connections, at most `limit` of them.
#[derive(Debug)]
pub(crate) struct Connections {
    limit: usize,
    open: Mutex<Open>,
    /// Signalled when a connection ends.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Open {
    count: usize,
    closing: bool,
    next_id: u64,
    /// Sockets of the blocking threads. Tasks are told through [`Shutdown`](crate::Shutdown) instead.
    sockets: HashMap<u64, Arc<TcpStream>>,
}

/// The right to serve one connection; dropping it lets the next one in.
#[derive(Debug)]
pub(crate) struct Permit {
    connections: Arc<Connections>,
    id: u64,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Connections {
        Connections { limit, open: Mutex::default(), ended: Condvar::new() }
    }

    pub(crate) fn count(&self) -> usize {
        self.open().count
    }

    /// Takes a place if one is free.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Permit> {
        let mut open = self.open();
        if open.count >= self.limit || open.closing {
            return None;
        }
        open.count += 1;
        open.next_id += 1;
        Some(Permit { connections: self.clone(), id: open.next_id })
    }

    /// Waits until a place is free, at most for `span`.
    pub(crate) fn wait_for_place(&self, span: Duration) {
        let full = |open: &mut Open| open.count >= self.limit;
        drop(self.ended.wait_timeout_while(self.open(), span, full));
    }

    /// Hangs up on everyone and waits, at most for `span`, until the threads and tasks have noticed.
    pub(crate) fn close_all(&self, span: Duration) {
        let mut open = self.open();
        open.closing = true;
        for socket in open.sockets.values() {
            // An error says that the client was faster.
            let _ = socket.shutdown(Half::Both);
        }
        drop(self.ended.wait_timeout_while(open, span, |open| open.count > 0));
    }

    /// No code panics while it holds this lock, so a poisoned one is still consistent.
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Has [`Connections::close_all`] close this socket too; a socket that comes too late is closed now.
    pub(crate) fn register(&self, socket: &Arc<TcpStream>) {
        let mut open = self.connections.open();
        if open.closing {
            let _ = socket.shutdown(Half::Both);
        }
        open.sockets.insert(self.id, socket.clone());
    }

    /// The connection goes on as a task, which must own the socket alone.
    pub(crate) fn unregister(&self) {
        self.connections.open().sockets.remove(&self.id);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.sockets.remove(&self.id);
        open.count -= 1;
        drop(open);
        self.connections.ended.notify_all();
    }
}
