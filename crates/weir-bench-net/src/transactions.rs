//! Requests and responses between two weirs: how many a second, how long each takes, what each costs both
//! processors.
//!
//! iperf3's protocol has no such test, so it is agreed on beside it: the client's parameters carry a member
//! `weir_transactions`, which iperf3's server does not look at, and only a server that understood it answers
//! with a word that iperf3 does not know ([`State::Transactions`](crate::state::TestState)) and a frame. Any
//! other answer means that this server makes none. A client that does not ask never sees the word.
//!
//! * [`client`]: makes them, run after run, until the mean is as sure as was asked for. [`confidence`]: how
//!   sure it is.
//! * The answering end is part of [`crate::server`].

pub mod client;
pub mod confidence;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::asked::{Asked, Part};
use crate::control::is_pause;

/// A thread that waits for a socket looks up after this long.
const GLANCE: Duration = Duration::from_millis(50);

/// Bytes of one call.
const ROOM: usize = 64 << 10;

/// A test as the end that answered saw it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answered {
    /// The client.
    pub peer: SocketAddr,
    /// What it asked for.
    pub asked: Asked,
    /// Connections at once.
    pub streams: u32,
    /// What was answered.
    pub part: Part,
    /// How long it took.
    pub seconds: f64,
}

/// Why a wait for the other end's bytes is over.
pub(crate) enum Broken {
    /// It closed before the first byte.
    Closed,
    /// This end was told to stop.
    Stopped,
    /// Something failed.
    Failed(io::Error),
}

/// Of a peer that sends what it was not asked for.
const TOO_MUCH: &str = "more came than the response";

/// Small messages back and forth over one connection, within bounds.
pub(crate) struct Line {
    stream: TcpStream,
    room: Vec<u8>,
}

impl Line {
    pub(crate) fn new(stream: TcpStream, asked: &Asked) -> io::Result<Line> {
        stream.set_nonblocking(false)?;
        // A message of several segments must not wait for the acknowledgement of the first.
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(GLANCE))?;
        stream.set_write_timeout(Some(GLANCE))?;
        // No larger than needed: of one connection a transaction, making it is part of its time. A byte more
        // than a message shows whether more came than that.
        let room = vec![0; ROOM.min(asked.request.max(asked.response) as usize + 1)];
        Ok(Line { stream, room })
    }

    /// Writes `size` bytes.
    pub(crate) fn write(
        &mut self,
        size: u32,
        timeout: Duration,
        stopped: impl Fn() -> bool,
    ) -> Result<(), Broken> {
        let mut left = size as usize;
        let mut clock = Clock::new(timeout);
        while left > 0 {
            match self.stream.write(&self.room[..left.min(self.room.len())]) {
                Ok(count) => left -= count,
                Err(cause) if is_pause(&cause) => clock.pause(&stopped)?,
                Err(cause) => return Err(Broken::Failed(cause)),
            }
            // A peer that takes a little at a time never makes it pause.
            if left > 0 && stopped() {
                return Err(Broken::Stopped);
            }
        }
        Ok(())
    }

    /// Reads `size` bytes.
    pub(crate) fn read(
        &mut self,
        size: u32,
        timeout: Duration,
        stopped: impl Fn() -> bool,
    ) -> Result<(), Broken> {
        let mut left = size as usize;
        let mut clock = Clock::new(timeout);
        while left > 0 {
            let part = (left + 1).min(self.room.len());
            match self.stream.read(&mut self.room[..part]) {
                Ok(0) if left == size as usize => return Err(Broken::Closed),
                Ok(0) => return Err(Broken::Failed(io::ErrorKind::UnexpectedEof.into())),
                // Nobody asked for it: what came before its question answers none.
                Ok(count) if count > left => return Err(Broken::Failed(io::Error::other(TOO_MUCH))),
                Ok(count) => left -= count,
                Err(cause) if is_pause(&cause) => clock.pause(&stopped)?,
                Err(cause) => return Err(Broken::Failed(cause)),
            }
            // Nor one that gives a little at a time.
            if left > 0 && stopped() {
                return Err(Broken::Stopped);
            }
        }
        Ok(())
    }

    /// Waits for the other end's close.
    pub(crate) fn read_end(&mut self, timeout: Duration, stopped: impl Fn() -> bool) -> Result<(), Broken> {
        match self.read(1, timeout, stopped) {
            Err(Broken::Closed) => Ok(()),
            Ok(()) => Err(Broken::Failed(io::Error::other(TOO_MUCH))),
            Err(broken) => Err(broken),
        }
    }
}

/// Bounds a wait; only looked at when nothing came for a glance, so that it costs a fast exchange nothing.
struct Clock {
    timeout: Duration,
    since: Option<Instant>,
}

impl Clock {
    fn new(timeout: Duration) -> Clock {
        Clock { timeout, since: None }
    }

    fn pause(&mut self, stopped: impl Fn() -> bool) -> Result<(), Broken> {
        if stopped() {
            return Err(Broken::Stopped);
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.timeout {
            return Err(Broken::Failed(io::ErrorKind::TimedOut.into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asked::Kind;

    #[test]
    fn what_came_before_it_was_asked_for_is_no_answer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let asked = Asked { kind: Kind::Exchange, request: 1, response: 1 };
        let mut line = Line::new(listener.accept().unwrap().0, &asked).unwrap();
        let timeout = Duration::from_secs(60);
        far.write_all(b"a").unwrap();
        assert!(line.read(1, timeout, || false).is_ok());
        far.write_all(b"ab").unwrap();
        let Err(Broken::Failed(cause)) = line.read(1, timeout, || false) else {
            panic!("one answer was asked for")
        };
        assert_eq!(cause.to_string(), TOO_MUCH);
    }
}
