//! How is a connection closed so that its client gets all of the last answer?
//!
//! Closing with bytes of the client unread sends a reset, which discards what the client has not read yet
//! (RFC 9112, 9.6). So the server says that it ends, and reads until the client ends too, or has all of it
//! and is silent.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::acknowledged;
use crate::activity::Open;

/// How long a client may be silent that has all of its answer.
pub(crate) const LINGER: Duration = Duration::from_secs(2);
/// How often it is asked whether the client has all of it: seldom enough to cost nothing.
pub(crate) const GLANCE: Duration = Duration::from_millis(100);

/// The end of a connection. While anything waits for its client it is busy, with the time that a busy one
/// has; afterwards it is idle, and gives way to others. In both the register of connections has the last
/// word.
#[derive(Debug)]
pub(crate) struct Lingering<'a> {
    socket: &'a TcpStream,
    /// The request whose answer the client does not have yet.
    open: Option<Open>,
    /// Since when the client has all of it and says nothing.
    silent: Instant,
}

impl Lingering<'_> {
    pub(crate) fn new(socket: &TcpStream, open: Open) -> Lingering<'_> {
        Lingering { socket, open: Some(open), silent: Instant::now() }
    }

    /// Whether to read on, after so many bytes came within a [`GLANCE`].
    pub(crate) fn goes_on(&mut self, came: usize) -> bool {
        let waits = acknowledged::queued(self.socket) > 0;
        if !waits {
            drop(self.open.take());
        }
        if waits || came > 0 {
            self.silent = Instant::now();
        }
        self.silent.elapsed() < LINGER
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;

    use super::*;
    use crate::activity::Activity;

    #[test]
    fn a_connection_is_busy_until_its_client_has_all() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = listener.accept().unwrap().0;
        socket.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(count) = socket.write(&[0; 64 * 1024]) {
            sent += count;
        }
        let activity = Arc::new(Activity::new());
        let mut lingering = Lingering::new(&socket, activity.open());
        assert!(lingering.goes_on(0) && activity.open_count() == 1);
        client.read_exact(&mut vec![0; sent]).unwrap();
        let waiting = Instant::now();
        while acknowledged::queued(&socket) > 0 {
            assert!(waiting.elapsed() < Duration::from_secs(10));
        }
        assert!(lingering.goes_on(1) && activity.open_count() == 0);
    }
}
