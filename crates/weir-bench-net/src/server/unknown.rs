//! Connections that have not said who they are: as many as there are places. When those are full the oldest
//! silent one gives way, so that whoever speaks at once is always heard.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::cookie::Cookie;

/// Places: twice the streams of the largest test.
const MOST: usize = 512;

/// Those that are there, by the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Unknown(Mutex<BTreeMap<u64, Arc<TcpStream>>>);

impl Unknown {
    /// Takes a place, the oldest one's where all are taken.
    pub(super) fn enter(&self, order: u64, stream: TcpStream) -> Arc<TcpStream> {
        let stream = Arc::new(stream);
        let mut places = self.places();
        if places.len() >= MOST
            && let Some((_, oldest)) = places.pop_first()
        {
            let peer =
                oldest.peer_addr().map_or_else(|_| "somebody".to_owned(), |peer| peer.ip().to_string());
            tracing::warn!(
                "full: {MOST} connections are open that say nothing; the oldest one, from {peer}, is let go"
            );
            // Its thread reads an end.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        places.insert(order, Arc::clone(&stream));
        stream
    }

    /// Gives the place back; `None` where it was given away.
    pub(super) fn leave(&self, order: u64, stream: Arc<TcpStream>) -> Option<TcpStream> {
        self.places().remove(&order)?;
        Arc::into_inner(stream)
    }

    /// The same for a connection that nobody reads.
    pub(super) fn forget(&self, order: u64) {
        self.places().remove(&order);
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<TcpStream>>> {
        self.0.lock()
    }
}

/// The first words of a client, all of them within `timeout`.
pub(super) fn read_cookie(mut stream: &TcpStream, timeout: Duration) -> io::Result<Cookie> {
    stream.set_nonblocking(false)?;
    let deadline = Instant::now() + timeout;
    let mut bytes = [0; Cookie::LENGTH];
    let mut have = 0;
    while have < bytes.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes[have..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => have += count,
        }
    }
    Cookie::parse(bytes)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it sent a malformed cookie"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_oldest_silent_one_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let unknown = Unknown::default();
        let mut far = Vec::new();
        let mut near = Vec::new();
        for order in 0..=MOST as u64 {
            far.push(TcpStream::connect(at).unwrap());
            near.push(unknown.enter(order, listener.accept().unwrap().0));
        }
        far[0].set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!((&far[0]).read(&mut [0]).unwrap(), 0, "the oldest was let go");
        let mut near = near.into_iter();
        assert!(unknown.leave(0, near.next().unwrap()).is_none());
        assert!(unknown.leave(1, near.next().unwrap()).is_some());
        assert_eq!(unknown.places().len(), MOST - 1);
    }
}
