//! One HTTP/1.1 connection: a request out, an answer's head in, then its body in large pieces.
//!
//! The body lands in one buffer of the connection (64 KiB, 2 MiB once an answer is large) and is handed on
//! from there: on plain HTTP nothing between the kernel's copy and the sink touches it.

mod early;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_http::body::Framing;
use weir_http::chunked::ChunkedDecoder;
use weir_http::head::{MAX_RESPONSE_HEAD, ResponseHead, parse_response_to};
use weir_observe::thread::thread_cpu_now;
use weir_units::Bytes;

use crate::error::GetError;
use crate::http::speed::{SpeedLimit, SpeedWatch};
use crate::http::tls::{Session, Under};
use crate::http::tls_words;
use weir_observe::stage_clock::{Stage, StageClock};

/// Enough for any usual head (servers stop at 64 KiB) and for a small object with it.
const SMALL_BUFFER: usize = 68 << 10;

/// What a lane receives before it writes, up to a multiple of it: few turns between socket and file, and the
/// next write begins where a piece of the file does. How much one write call takes is another matter
/// ([`weir_tree::pages`]).
pub const BLOCK: usize = 2 << 20;

/// How long a blocked receive sleeps before it looks whether it is still wanted.
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A buffer that is not full is handed on after this long, so that a slow path's bytes are stored and
/// counted; half of a interval of evidence, so that every interval has its share.
const FLUSH_AFTER: Duration = Duration::from_millis(50);

/// The longest wait that a server may ask for where the user says nothing. Who asks for more wants the user
/// to come back later.
pub const MAX_WAIT: Duration = Duration::from_secs(600);

/// How connections are made and when they are given up.
#[derive(Clone, Copy)]
pub struct Dial<'a> {
    /// For each stretch without a byte, and for the whole of an answer's head.
    pub timeout: Duration,
    /// For all that comes before a request: the name, the connect, the proxy's answer and the TLS handshake
    /// together.
    pub connect_timeout: Duration,
    /// The least rate of a body.
    pub speed: SpeedLimit,
    /// The longest wait that a server may ask for.
    pub max_wait: Duration,
    /// SO_RCVBUF, bytes; `None` leaves autotuning on.
    pub receive_buffer: Option<usize>,
    /// A body that ends with the connection is whole although its TLS session was not ended in order.
    pub accept_unclean: bool,
    /// Any of these set: give up at once.
    pub stops: [&'a AtomicBool; 2],
}

impl<'a> Dial<'a> {
    /// The usual limits that follow from one `timeout`.
    pub fn new(timeout: Duration, stops: [&'a AtomicBool; 2]) -> Dial<'a> {
        let speed = SpeedLimit::usual(timeout);
        Dial {
            timeout,
            connect_timeout: timeout,
            speed,
            max_wait: MAX_WAIT,
            receive_buffer: None,
            accept_unclean: false,
            stops,
        }
    }

    /// The run, or this lane, is to stop.
    pub fn is_stopped(&self) -> bool {
        self.stops.iter().any(|stop| stop.load(Relaxed))
    }

    /// Sleeps in short steps, so that a stop is heard.
    pub fn sleep(&self, span: Duration) {
        let end = Instant::now() + span;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_stopped() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}

/// A way to a host: a socket, and the session of an https:// proxy that all goes through.
pub struct Line {
    /// The socket.
    pub socket: TcpStream,
    /// The proxy's session.
    pub outer: Option<Session>,
}

/// A connection that carries one answer after the other.
pub struct Connection {
    host: String,
    socket: Arc<TcpStream>,
    outer: Option<Session>,
    session: Option<Session>,
    buffer: Vec<u8>,
    /// `buffer[..decoded]` has been through the framing, `buffer[decoded..filled]` has not.
    decoded: usize,
    filled: usize,
    pieces: Vec<Range<usize>>,
    body: Body,
    watch: SpeedWatch,
    reusable: bool,
    fresh: bool,
    handed_over: bool,
    left: bool,
    unclean: Option<&'static str>,
}

/// What is said of an answer that was taken for whole although its end mark is missing.
const NO_CLOSE_NOTIFY: &str =
    "its TLS session ended without the end mark; --accept-unclean-close took it for whole";
const NO_EMPTY_LINE: &str = "its head ended without an empty line; --accept-unclean-close took it for whole";

enum Body {
    None,
    Length { left: u64, total: u64 },
    Chunked { decoder: Box<ChunkedDecoder>, got: u64 },
    UntilClose { got: u64 },
    LengthAtClose { got: u64, total: u64 },
}

/// How long a body that has all of its length is waited for to end with the connection too
/// ([`Framing::LengthAtClose`]). A server that closes does so at once; the path's round trip and a
/// retransmission fit in twice.
const CLOSING: Duration = Duration::from_secs(3);

impl Connection {
    /// Wraps a connected line; `session` is the finished handshake of an https connection.
    pub fn new(host: &str, line: Line, session: Option<Session>) -> io::Result<Connection> {
        let Line { socket, outer } = line;
        socket.set_read_timeout(Some(POLL_INTERVAL))?;
        socket.set_write_timeout(Some(POLL_INTERVAL))?;
        Ok(Connection {
            host: host.to_owned(),
            socket: Arc::new(socket),
            outer,
            session,
            buffer: vec![0; SMALL_BUFFER],
            decoded: 0,
            filled: 0,
            pieces: Vec::new(),
            body: Body::None,
            watch: SpeedWatch::new(SpeedLimit::usual(Duration::MAX)),
            reusable: true,
            fresh: true,
            handed_over: false,
            left: false,
            unclean: None,
        })
    }

    /// The socket, for readings of it and to end a blocked receive from another thread.
    pub fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// No answer has been read from it yet.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// The last answer was read to its end, and the server keeps the connection open. Nobody asked for bytes
    /// behind it: with some, the connection cannot be trusted further.
    pub(crate) fn is_reusable(&self) -> bool {
        self.reusable && self.is_end() && self.decoded == self.filled
    }

    /// Nothing has come behind the last answer, neither bytes nor an end: what comes next answers what is
    /// sent next. Records of TLS without bytes, such as a ticket, count as nothing.
    pub(crate) fn is_quiet(&mut self, clock: &StageClock) -> bool {
        (self.decoded, self.filled) = (0, 0);
        if self.is_plain() {
            return !self.is_readable();
        }
        // What is received here is lost, and the connection with it.
        let found = self.socket.set_nonblocking(true).and_then(|()| self.receive(1, clock));
        matches!(found, Err(error) if is_timeout(&error)) && self.socket.set_nonblocking(false).is_ok()
    }

    /// What is to be said of an end that was taken all the same, without its mark.
    pub(crate) fn unclean(&self) -> Option<&'static str> {
        self.unclean
    }

    /// Sends a request's head.
    pub fn send(&mut self, head: &[u8], clock: &StageClock, dial: &Dial<'_>) -> Result<(), GetError> {
        (self.decoded, self.filled) = (0, 0);
        self.send_on(head, clock, dial)
    }

    /// Sends a piece of a request's body, which the server takes within the timeout.
    pub(crate) fn send_on(
        &mut self,
        bytes: &[u8],
        clock: &StageClock,
        dial: &Dial<'_>,
    ) -> Result<(), GetError> {
        let deadline = Instant::now() + dial.timeout;
        let go_on = || !dial.is_stopped() && Instant::now() < deadline;
        let socket = &*self.socket;
        let sent = match (&mut self.session, &mut self.outer) {
            (Some(session), None) => session.send(&mut Under::Socket(socket), bytes, &go_on),
            (Some(session), Some(outer)) => {
                session.send(&mut Under::Session(outer, socket, clock), bytes, &go_on)
            }
            (None, Some(outer)) => outer.send(&mut Under::Socket(socket), bytes, &go_on),
            (None, None) => send_all(socket, bytes, &go_on),
        };
        sent.map_err(|error| match is_timeout(&error) {
            true if dial.is_stopped() => GetError::Interrupted,
            true => self.stalled("nothing", dial.timeout),
            false => self.broken(error),
        })
    }

    /// Reads the answer's head; interim answers (1xx) are passed over. The deadline is of all of it, whatever
    /// comes meanwhile.
    pub fn read_head(
        &mut self,
        method: &str,
        clock: &StageClock,
        dial: &Dial<'_>,
    ) -> Result<ResponseHead, GetError> {
        let deadline = Instant::now() + dial.timeout;
        loop {
            if dial.is_stopped() {
                return Err(GetError::Interrupted);
            }
            let parsed = parse_response_to(method, &self.buffer[self.decoded..self.filled]);
            match parsed.map_err(|error| self.malformed(error.to_string()))? {
                Some((head, length)) => {
                    self.decoded += length;
                    if head.is_interim() {
                        continue;
                    }
                    self.begin_body(method, &head, dial)?;
                    return Ok(head);
                }
                None if Instant::now() >= deadline => {
                    let what = if self.filled == 0 { "nothing" } else { "no complete answer" };
                    return Err(self.stalled(what, dial.timeout));
                }
                None => self.receive_head(clock, dial)?,
            }
        }
    }

    /// Reads until `enough` bytes of the body are there, the body ends, or some are and a moment has passed.
    /// Returns how many there are; 0 only at the end. [`Connection::pieces`] are valid until the next call.
    pub fn fill(&mut self, enough: usize, clock: &StageClock, dial: &Dial<'_>) -> Result<usize, GetError> {
        self.pieces.clear();
        if self.decoded == self.filled {
            (self.decoded, self.filled) = (0, 0);
        }
        // A small body often came with its head: no system call, no clock.
        let got = self.decode()?;
        if self.is_end() || got >= enough {
            return Ok(got);
        }
        self.grow(enough);
        let cpu = thread_cpu_now();
        clock.enter(Stage::Receive);
        let filled = self.fill_pieces(got, enough, clock, dial);
        clock.add_receive_cpu(thread_cpu_now().saturating_sub(cpu));
        clock.enter(Stage::Other);
        filled
    }

    /// The body bytes of the last [`Connection::fill`], in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|range| &self.buffer[range.clone()])
    }

    /// The body has been read to its end.
    pub fn is_end(&self) -> bool {
        match &self.body {
            Body::None => true,
            Body::Length { left, .. } => *left == 0,
            Body::Chunked { decoder, .. } => decoder.is_done(),
            Body::UntilClose { .. } | Body::LengthAtClose { .. } => false,
        }
    }

    /// Bytes of the body still to come, if announced.
    pub fn left(&self) -> Option<u64> {
        match &self.body {
            Body::None => Some(0),
            Body::Length { left, .. } => Some(*left),
            _ => None,
        }
    }

    /// Another owner of the socket goes on with it: it is not shut down with this connection. Returns the
    /// session of the proxy that it goes through.
    pub fn hand_over(mut self) -> Option<Session> {
        self.handed_over = true;
        self.outer.take()
    }

    fn begin_body(&mut self, method: &str, head: &ResponseHead, dial: &Dial<'_>) -> Result<(), GetError> {
        let framing = head.framing(method).map_err(|error| self.malformed(error.to_string()))?;
        self.fresh = false;
        self.reusable = head.keeps_connection() && self.unclean.is_none() && !self.left;
        self.watch = SpeedWatch::new(dial.speed);
        self.body = match framing {
            Framing::None => Body::None,
            Framing::Length(length) => Body::Length { left: length, total: length },
            Framing::Chunked => Body::Chunked { decoder: Box::default(), got: 0 },
            Framing::UntilClose => Body::UntilClose { got: 0 },
            Framing::LengthAtClose(total) => Body::LengthAtClose { got: 0, total },
        };
        Ok(())
    }

    fn receive_head(&mut self, clock: &StageClock, dial: &Dial<'_>) -> Result<(), GetError> {
        if self.filled == self.buffer.len() {
            // The parser refuses what is larger than it allows.
            let larger = (2 * self.buffer.len()).min(MAX_RESPONSE_HEAD + SMALL_BUFFER);
            self.buffer.resize(larger, 0);
        }
        match self.receive(self.buffer.len(), clock) {
            Ok(0) if self.filled == 0 => Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(0) => self.head_at_close(dial),
            Ok(_) => Ok(()),
            Err(error) if is_timeout(&error) => Ok(()),
            // A TLS session without its end mark.
            Err(error)
                if dial.accept_unclean && self.filled > 0 && error.kind() == io::ErrorKind::UnexpectedEof =>
            {
                self.head_at_close(dial)
            }
            Err(error) => Err(self.broken(error)),
        }
    }

    /// The connection ended within a head. Of one that ends behind a line only the empty line is missing,
    /// unless it was cut: who takes that risk gets what a close there means, which is no more than that the
    /// body is empty.
    fn head_at_close(&mut self, dial: &Dial<'_>) -> Result<(), GetError> {
        let is_behind_a_line = self.unclean.is_none() && self.buffer[..self.filled].ends_with(b"\n");
        match is_behind_a_line {
            true if dial.accept_unclean => {
                // There is room: nothing was received into what is left of the buffer.
                self.buffer[self.filled] = b'\n';
                self.filled += 1;
                self.unclean = Some(NO_EMPTY_LINE);
                Ok(())
            }
            true => Err(self.malformed(
                "it ended within its head; --accept-unclean-close takes it for an empty file".to_owned(),
            )),
            false => Err(self.malformed("it ended within its head".to_owned())),
        }
    }

    fn fill_pieces(
        &mut self,
        mut got: usize,
        enough: usize,
        clock: &StageClock,
        dial: &Dial<'_>,
    ) -> Result<usize, GetError> {
        let start = Instant::now();
        let mut heard = Duration::ZERO;
        loop {
            got += self.decode()?;
            let waited = start.elapsed();
            let is_full = self.filled == self.buffer.len() && got > 0;
            if got >= enough || is_full || self.is_end() || (got > 0 && waited >= FLUSH_AFTER) {
                self.watch.book(got as u64, waited);
                return Ok(got);
            }
            // Asked at each turn: what a peer sends instead of a body must not keep these from being asked.
            if got == 0 && dial.is_stopped() {
                return Err(GetError::Interrupted);
            }
            if got == 0
                && waited >= CLOSING
                && matches!(self.body, Body::LengthAtClose { got, total } if got == total)
            {
                return Err(self.two_ends());
            }
            if got == 0 && waited - heard >= dial.timeout {
                return Err(self.stalled("nothing", dial.timeout));
            }
            if self.watch.is_slow(got as u64, waited) {
                return Err(self.watch.error(&self.host, got as u64));
            }
            if self.filled == self.buffer.len() {
                // All of it was framing.
                (self.decoded, self.filled) = (0, 0);
            }
            match self.receive(self.room(enough - got), clock) {
                // Whoever stops a lane shuts its socket down, which looks like the server's end of it.
                Ok(0) if dial.is_stopped() => return Err(GetError::Interrupted),
                Ok(0) => return self.at_close(got),
                Ok(_) => heard = start.elapsed(),
                Err(error) if is_timeout(&error) => {}
                // TLS without its close_notify: anybody on the path may have cut it (RFC 8446 section 6.1).
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return self.at_cut(got, dial);
                }
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    /// How far the buffer may be filled: never past this body, so that nothing needs to be given back.
    fn room(&self, wanted: usize) -> usize {
        let wanted = match &self.body {
            Body::Length { left, .. } => usize::try_from(*left).unwrap_or(usize::MAX).min(wanted),
            _ => wanted,
        };
        self.buffer.len().min(self.filled.saturating_add(wanted))
    }

    fn receive(&mut self, up_to: usize, clock: &StageClock) -> io::Result<usize> {
        let into = &mut self.buffer[self.filled..up_to];
        let length = loop {
            let socket = &*self.socket;
            let result = match (&mut self.session, &mut self.outer) {
                (Some(session), None) => session.read(&mut Under::Socket(socket), into, clock),
                (Some(session), Some(outer)) => {
                    session.read(&mut Under::Session(outer, socket, clock), into, clock)
                }
                (None, Some(outer)) => outer.read(&mut Under::Socket(socket), into, clock),
                (None, None) => (&mut &*socket).read(into),
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.filled += length;
        Ok(length)
    }

    /// Puts `buffer[decoded..filled]` through the framing; returns the payload bytes found.
    fn decode(&mut self) -> Result<usize, GetError> {
        let mut found = 0;
        while self.decoded < self.filled && !self.is_end() {
            let raw = self.decoded..self.filled;
            let piece = match &mut self.body {
                Body::None => break,
                Body::Length { left, .. } => {
                    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(raw.len());
                    *left -= length as u64;
                    self.decoded += length;
                    raw.start..raw.start + length
                }
                Body::UntilClose { got } => {
                    *got += raw.len() as u64;
                    self.decoded = self.filled;
                    raw
                }
                Body::LengthAtClose { got, total } => {
                    *got += raw.len() as u64;
                    if got > total {
                        return Err(self.two_ends());
                    }
                    self.decoded = self.filled;
                    raw
                }
                Body::Chunked { decoder, got } => match decoder.decode(&self.buffer[raw.clone()]) {
                    Ok(step) => {
                        self.decoded += step.consumed;
                        *got += step.data.len() as u64;
                        raw.start + step.data.start..raw.start + step.data.end
                    }
                    Err(error) => return Err(self.malformed(error.to_string())),
                },
            };
            found += piece.len();
            match self.pieces.last_mut() {
                Some(last) if last.end == piece.start => last.end = piece.end,
                _ if piece.is_empty() => {}
                _ => self.pieces.push(piece),
            }
        }
        Ok(found)
    }

    fn at_close(&mut self, got: usize) -> Result<usize, GetError> {
        self.reusable = false;
        if got > 0 && !matches!(self.body, Body::None) {
            return Ok(got);
        }
        let (got, expected) = match &self.body {
            Body::None => return Ok(0),
            Body::UntilClose { .. } => {
                self.body = Body::None;
                return Ok(0);
            }
            Body::LengthAtClose { got, total } if got == total => {
                self.body = Body::None;
                return Ok(0);
            }
            Body::LengthAtClose { got, total } => (*got, Bytes(*total).to_string()),
            Body::Length { left, total } => (total - left, Bytes(*total).to_string()),
            Body::Chunked { got, .. } => (*got, "a chunked body without its last chunk".to_owned()),
        };
        Err(GetError::Truncated { host: self.host.clone(), got: Bytes(got), expected })
    }

    fn at_cut(&mut self, got: usize, dial: &Dial<'_>) -> Result<usize, GetError> {
        match self.body {
            Body::UntilClose { .. } if dial.accept_unclean => {
                self.unclean = Some(NO_CLOSE_NOTIFY);
                self.at_close(got)
            }
            // What came before is handed on first: it is kept.
            Body::UntilClose { .. } if got > 0 => Ok(got),
            Body::UntilClose { got } => Err(GetError::Unclean { host: self.host.clone(), got: Bytes(got) }),
            _ => self.at_close(got),
        }
    }

    /// A large answer gets a large buffer, once; what a head leaves in front of its body does not shorten it.
    fn grow(&mut self, enough: usize) {
        let large = self.left().is_none_or(|left| left > SMALL_BUFFER as u64);
        let wanted = enough.next_power_of_two() + SMALL_BUFFER;
        if large && enough > SMALL_BUFFER && self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
    }

    fn malformed(&self, mut detail: String) -> GetError {
        // An alert of TLS (RFC 8446 section 5.1), to whom nobody spoke TLS.
        if self.session.is_none() && self.outer.is_none() && self.buffer.starts_with(&[21, 3]) {
            detail = "it speaks TLS on this port; say https://".to_owned();
        }
        // A SETTINGS frame (RFC 9113 section 3.4), of a server that speaks HTTP/2 without being asked.
        if self.fresh && matches!(self.buffer[..], [0, 0, _, 4, 0, 0, 0, 0, 0, ..]) {
            let way = match self.session {
                None => "say --http2 to speak it",
                Some(_) => "its TLS has to agree on that (ALPN), and did not",
            };
            detail = format!("it speaks HTTP/2 alone; {way}");
        }
        GetError::Malformed { host: self.host.clone(), detail }
    }

    /// The body does not end where its length and its connection both do.
    fn two_ends(&self) -> GetError {
        let detail = "both Content-Length and Transfer-Encoding are given, and the connection does not end where the \
                      length does; readers disagree about where the body ends";
        self.malformed(detail.to_owned())
    }

    fn stalled(&self, what: &str, after: Duration) -> GetError {
        GetError::stalled(&self.host, what, after)
    }

    fn broken(&self, source: io::Error) -> GetError {
        explain(&self.host, source)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Others may hold the socket for their readings; the peer shall see the end now.
        if !self.handed_over {
            let _ = self.socket.shutdown(Shutdown::Both);
        }
    }
}

/// Sends all of `bytes`. Each time the socket's send timeout passes, `go_on` says whether to wait on.
pub(crate) fn send_all(mut socket: &TcpStream, bytes: &[u8], go_on: &dyn Fn() -> bool) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.write(&bytes[sent..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => sent += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
        if sent < bytes.len() && !go_on() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

/// A socket's or session's error in the words of a user.
pub fn explain(host: &str, source: io::Error) -> GetError {
    match tls_words::explain(host, &source) {
        Some(error) => error,
        None if source.kind() == io::ErrorKind::UnexpectedEof => {
            let source = io::Error::other("closed before its answer");
            GetError::Broken { host: host.to_owned(), source }
        }
        None => GetError::Broken { host: host.to_owned(), source },
    }
}

/// The receive timeout, which only exists so that a lane can look up.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
