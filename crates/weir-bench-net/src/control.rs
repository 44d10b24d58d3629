//! The control connection: one-byte words, JSON frames, and a bound on every wait.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use crate::error::NetError;
use crate::frame;
use crate::ordered::Json;
use crate::state::TestState;

/// Between two looks at whether the user said stop.
const GLANCE: Duration = Duration::from_millis(50);

/// A peer takes in at least so many bytes a second: only a server's report that a client asked for is larger
/// than what sockets hold, and its largest takes 8 s more.
const LEAST_RATE: f64 = 1_048_576.0;

/// One end of a control connection.
#[derive(Debug)]
pub(crate) struct Control<'a> {
    stream: TcpStream,
    timeout: Duration,
    peer: SocketAddr,
    stop: &'a AtomicBool,
}

impl<'a> Control<'a> {
    /// Over this connection, on which a peer reads what it is told within `timeout`; waits end early when
    /// `stop` is set.
    pub(crate) fn new(stream: TcpStream, timeout: Duration, stop: &'a AtomicBool) -> io::Result<Control<'a>> {
        let peer = stream.peer_addr()?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(GLANCE))?;
        stream.set_write_timeout(Some(GLANCE))?;
        Ok(Control { stream, timeout, peer, stop })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Says one word.
    pub(crate) fn say(&mut self, state: TestState) -> Result<(), NetError> {
        tracing::debug!("to {}: {state:?}", self.peer);
        self.write(&[state.byte()])
    }

    /// Sends bytes as they are: a cookie. The time is bounded for all of them, so that a peer which takes
    /// them one by one holds nobody.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), NetError> {
        let timeout = self.timeout + Duration::from_secs_f64(bytes.len() as f64 / LEAST_RATE);
        let deadline = Instant::now() + timeout;
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(cause) if is_pause(&cause) => {}
                Err(source) => return Err(NetError::Control { peer: self.peer, source }),
            }
            // The last word of an interrupted end still goes where there is room for it.
            if sent < bytes.len() && self.stop.load(Relaxed) {
                return Err(NetError::Interrupted);
            }
            if sent < bytes.len() && Instant::now() >= deadline {
                return Err(NetError::Unread { peer: self.peer, bytes: bytes.len(), timeout });
            }
        }
        Ok(())
    }

    /// Sends a frame.
    pub(crate) fn tell(&mut self, value: &Value) -> Result<(), NetError> {
        self.tell_text(&value.to_string())
    }

    /// The same of JSON that is text already.
    pub(crate) fn tell_text(&mut self, text: &str) -> Result<(), NetError> {
        let too_long = || io::Error::other("a frame of 4 GiB");
        let frame = frame::encode_text(text)
            .ok_or_else(|| NetError::Control { peer: self.peer, source: too_long() })?;
        tracing::debug!("to {}: {} bytes of JSON", self.peer, text.len());
        self.write(&frame)
    }

    /// The next frame, of at most `most` bytes.
    pub(crate) fn hear(
        &mut self,
        most: usize,
        expected: &'static str,
        timeout: Duration,
    ) -> Result<Value, NetError> {
        let text = self.hear_text(most, expected, timeout)?;
        frame::parse_text(&text).map_err(|cause| NetError::Malformed { peer: self.peer, cause })
    }

    /// The same with its members in the order in which they came.
    pub(crate) fn hear_in_order(
        &mut self,
        most: usize,
        expected: &'static str,
        timeout: Duration,
    ) -> Result<Json, NetError> {
        let text = self.hear_text(most, expected, timeout)?;
        frame::parse_in_order(&text).map_err(|cause| NetError::Malformed { peer: self.peer, cause })
    }

    fn hear_text(
        &mut self,
        most: usize,
        expected: &'static str,
        timeout: Duration,
    ) -> Result<Vec<u8>, NetError> {
        let deadline = Instant::now() + timeout;
        let mut head = [0; 4];
        self.read(&mut head, expected, timeout, deadline)?;
        let malformed = |cause| NetError::Malformed { peer: self.peer, cause };
        let length = frame::parse_length(head, most).map_err(malformed)?;
        // Grows with what comes: a peer that announces much and sends little costs little.
        let mut text = Vec::new();
        while text.len() < length {
            let have = text.len();
            text.resize(length.min(have + (64 << 10)), 0);
            self.read(&mut text[have..], expected, timeout, deadline)?;
        }
        tracing::debug!("from {}: {length} bytes of JSON", self.peer);
        Ok(text)
    }

    /// The next word, which has to be this one.
    pub(crate) fn expect(
        &mut self,
        state: TestState,
        expected: &'static str,
        timeout: Duration,
    ) -> Result<(), NetError> {
        match self.next(expected, timeout)? {
            found if found == state => Ok(()),
            found => Err(self.unexpected(found, expected)),
        }
    }

    /// The next word. What ends a test is an error.
    pub(crate) fn next(&mut self, expected: &'static str, timeout: Duration) -> Result<TestState, NetError> {
        let mut byte = [0];
        self.read(&mut byte, expected, timeout, Instant::now() + timeout)?;
        self.word(byte[0], expected)
    }

    /// The next word if it comes within `timeout`.
    pub(crate) fn poll(&mut self, timeout: Duration) -> Result<Option<TestState>, NetError> {
        let expected = "data, or the end of the test";
        let timeout = Timespec::try_from(timeout).ok();
        let fd = self.stream.as_fd();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(cause) => return Err(NetError::Control { peer: self.peer, source: cause.into() }),
        }
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => Err(NetError::Closed { peer: self.peer, expected }),
            Ok(_) => self.word(byte[0], expected).map(Some),
            Err(cause) if is_pause(&cause) => Ok(None),
            Err(source) => Err(NetError::Control { peer: self.peer, source }),
        }
    }

    /// The farewell: no more words from here, and whatever the peer still says is read and dropped.
    pub(crate) fn close(mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        self.hear_out();
    }

    /// Reads and drops what the peer still says until it closes, for a second at most.
    pub(crate) fn hear_out(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(1);
        let mut room = [0; 512];
        while Instant::now() < deadline {
            match self.stream.read(&mut room) {
                Ok(0) => return,
                Ok(_) => {}
                Err(cause) if is_pause(&cause) => {}
                Err(_) => return,
            }
        }
    }

    pub(crate) fn unexpected(&self, found: TestState, expected: &'static str) -> NetError {
        NetError::Unexpected { peer: self.peer, found: format!("{found:?}"), expected }
    }

    fn word(&mut self, byte: u8, expected: &'static str) -> Result<TestState, NetError> {
        let state = TestState::parse(byte).map_err(|number| NetError::Unexpected {
            peer: self.peer,
            found: format!("the unknown state {number}"),
            expected,
        })?;
        tracing::debug!("from {}: {state:?}", self.peer);
        match state {
            TestState::AccessDenied => Err(NetError::Denied(self.peer)),
            TestState::ServerTerminate | TestState::ClientTerminate => Err(NetError::Terminated(self.peer)),
            TestState::ServerError => {
                let mut number = [0; 4];
                let timeout = Duration::from_secs(2);
                let deadline = Instant::now() + timeout;
                let expected = "the number of its error";
                self.read(&mut number, expected, timeout, deadline)?;
                let code = i32::from_be_bytes(number);
                // Who refuses a login (3.12) closes without the system's number.
                let errno = match self.read(&mut number, expected, timeout, deadline) {
                    Ok(()) => i32::from_be_bytes(number),
                    Err(NetError::Interrupted) => return Err(NetError::Interrupted),
                    Err(_) => 0,
                };
                Err(NetError::Server { at: self.peer, code, errno })
            }
            state => Ok(state),
        }
    }

    fn read(
        &mut self,
        room: &mut [u8],
        expected: &'static str,
        timeout: Duration,
        deadline: Instant,
    ) -> Result<(), NetError> {
        let mut have = 0;
        while have < room.len() {
            if self.stop.load(Relaxed) {
                return Err(NetError::Interrupted);
            }
            match self.stream.read(&mut room[have..]) {
                Ok(0) => return Err(NetError::Closed { peer: self.peer, expected }),
                Ok(count) => have += count,
                Err(cause) if is_pause(&cause) => {}
                Err(source) => return Err(NetError::Control { peer: self.peer, source }),
            }
            if have < room.len() && Instant::now() >= deadline {
                return Err(NetError::Silent { peer: self.peer, expected, timeout });
            }
        }
        Ok(())
    }
}

/// Nothing came in the time that one look waits.
pub(crate) fn is_pause(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
