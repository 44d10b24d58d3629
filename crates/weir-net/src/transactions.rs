//! Requests and responses between two weirs: how many a second, how long each takes, what each costs both processors.
//!
//! iperf3's protocol has no such test, so it is agreed on beside it: the client's parameters carry a member `weir_transactions`,
//! which iperf3's server does not look at, and only a server that understood it answers with a word that iperf3 does not know
//! ([`State::Transactions`](crate::state::State)) and a frame. Any other answer means that this server makes none. A client
//! that does not ask never sees the word.
//!
//! * [`client`]: makes them, run after run, until the mean is as sure as was asked for. [`confidence`]: how sure it is.
//! * The answering end is part of [`crate::server`].

pub mod client;
pub mod confidence;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::control::is_pause;
use crate::frame::count;
use crate::parameters::Refused;

/// The largest request and response.
pub const MOST_SIZE: u32 = 1 << 20;

/// A thread that waits for a socket looks up after this long.
const GLANCE: Duration = Duration::from_millis(50);

/// Bytes of one call.
const ROOM: usize = 64 << 10;

/// What a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request and its response, again and again over one connection (netperf's TCP_RR).
    Exchange,
    /// A connection, a request, its response, and the connection's end (netperf's TCP_CRR).
    Connect,
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// What a transaction is.
    pub kind: Kind,
    /// Bytes of a request.
    pub request: u32,
    /// Bytes of a response.
    pub response: u32,
}

impl Kind {
    /// `rr` or `crr`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Exchange => "rr",
            Kind::Connect => "crr",
        }
    }
}

impl Asked {
    /// Reads the member of a client's parameters. One of an unknown kind is as if it were not there, so that the client learns it.
    pub fn parse(value: &Value) -> Result<Option<Asked>, Refused> {
        let kind = match value.get("kind").and_then(Value::as_str) {
            Some("rr") => Kind::Exchange,
            Some("crr") => Kind::Connect,
            _ => return Ok(None),
        };
        let size = |name: &'static str| {
            let value = value.get(name).and_then(count).unwrap_or(1);
            let bounded = u32::try_from(value).ok().filter(|size| (1..=MOST_SIZE).contains(size));
            bounded.ok_or(Refused::Bound { name, value, least: 1, most: MOST_SIZE.into() })
        };
        Ok(Some(Asked { kind, request: size("request")?, response: size("response")? }))
    }

    /// As the client sends it.
    pub fn to_json(&self) -> Value {
        json!({ "kind": self.kind.name(), "request": self.request, "response": self.response })
    }

    /// Bytes of one transaction.
    pub fn bytes(&self) -> u64 {
        u64::from(self.request) + u64::from(self.response)
    }
}

/// What an end tells of its part, at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Part {
    /// Whole transactions.
    pub transactions: u64,
    /// Processor time of the threads that made or answered them.
    pub cpu: Duration,
}

impl Part {
    /// Reads a peer's; `None` for what cannot be one.
    pub fn parse(value: &Value) -> Option<Part> {
        let cpu = value.get("cpu_seconds").and_then(Value::as_f64)?;
        // A liar's infinity or negative time is none.
        let cpu = Duration::try_from_secs_f64(cpu).ok()?;
        Some(Part { transactions: value.get("transactions").and_then(count)?, cpu })
    }

    /// As it is told.
    pub fn to_json(&self) -> Value {
        json!({ "transactions": self.transactions, "cpu_seconds": self.cpu.as_secs_f64() })
    }
}

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
        // No larger than needed: of one connection a transaction, making it is part of its time. A byte more than a message shows
        // whether more came than that.
        let room = vec![0; ROOM.min(asked.request.max(asked.response) as usize + 1)];
        Ok(Line { stream, room })
    }

    /// Writes `size` bytes.
    pub(crate) fn write(
        &mut self,
        size: u32,
        patience: Duration,
        stopped: impl Fn() -> bool,
    ) -> Result<(), Broken> {
        let mut left = size as usize;
        let mut clock = Clock::new(patience);
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
        patience: Duration,
        stopped: impl Fn() -> bool,
    ) -> Result<(), Broken> {
        let mut left = size as usize;
        let mut clock = Clock::new(patience);
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
    pub(crate) fn read_end(&mut self, patience: Duration, stopped: impl Fn() -> bool) -> Result<(), Broken> {
        match self.read(1, patience, stopped) {
            Err(Broken::Closed) => Ok(()),
            Ok(()) => Err(Broken::Failed(io::Error::other(TOO_MUCH))),
            Err(broken) => Err(broken),
        }
    }
}

/// Bounds a wait; only looked at when nothing came for a glance, so that it costs a fast exchange nothing.
struct Clock {
    patience: Duration,
    since: Option<Instant>,
}

impl Clock {
    fn new(patience: Duration) -> Clock {
        Clock { patience, since: None }
    }

    fn pause(&mut self, stopped: impl Fn() -> bool) -> Result<(), Broken> {
        if stopped() {
            return Err(Broken::Stopped);
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.patience {
            return Err(Broken::Failed(io::ErrorKind::TimedOut.into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_came_before_it_was_asked_for_is_no_answer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let asked = Asked { kind: Kind::Exchange, request: 1, response: 1 };
        let mut line = Line::new(listener.accept().unwrap().0, &asked).unwrap();
        let patience = Duration::from_secs(60);
        far.write_all(b"a").unwrap();
        assert!(line.read(1, patience, || false).is_ok());
        far.write_all(b"ab").unwrap();
        let Err(Broken::Failed(cause)) = line.read(1, patience, || false) else {
            panic!("one answer was asked for")
        };
        assert_eq!(cause.to_string(), TOO_MUCH);
    }

    #[test]
    fn what_is_asked_has_bounds() {
        let asked = Asked { kind: Kind::Connect, request: 200, response: 30_000 };
        assert_eq!(Asked::parse(&asked.to_json()), Ok(Some(asked)));
        assert_eq!(Asked::parse(&json!({ "kind": "udp_rr" })), Ok(None));
        assert_eq!(Asked::parse(&json!("rr")), Ok(None));
        for (name, size) in
            [("request", json!(0)), ("response", json!(MOST_SIZE + 1)), ("request", json!(1e18))]
        {
            let refused = Asked::parse(&json!({ "kind": "rr", name: size })).unwrap_err();
            assert!(refused.to_string().contains(name), "{refused}");
        }
    }

    #[test]
    fn times_that_cannot_be_are_none() {
        for cpu in [json!(-1), json!(1e300), json!("1"), json!(null)] {
            assert_eq!(Part::parse(&json!({ "transactions": 1, "cpu_seconds": cpu })), None, "{cpu}");
        }
        assert_eq!(Part::parse(&json!({ "transactions": -1, "cpu_seconds": 1 })), None);
    }

    proptest! {
        #[test]
        fn a_part_survives_the_wire(transactions in 0..1_u64 << 53, micros in 0..1_u64 << 40) {
            let part = Part { transactions, cpu: Duration::from_micros(micros) };
            let back = Part::parse(&part.to_json()).unwrap();
            prop_assert_eq!(back.transactions, transactions);
            prop_assert!(back.cpu.abs_diff(part.cpu) < Duration::from_micros(1));
        }
    }
}
