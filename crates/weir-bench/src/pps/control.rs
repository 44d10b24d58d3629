//! The words of the connection beside the packets.
//!
//! Both ends begin with `weir-pps` and a byte for the version. Then messages: a byte for the kind, two for
//! the length of the body, the body; all numbers big-endian. The client opens a session, then for each trial
//! says start, sends its packets, says done, and is told the counts; between two trials it may open another
//! one. A body is never longer than [`LONGEST`]; whoever says nothing for longer than was agreed is gone.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::ledger::Counts;
use super::{Busy, MOST_THREADS, PpsError};
use crate::wait::ready;

/// What each end says first.
const MAGIC: &[u8; 8] = b"weir-pps";

/// The version of what follows.
pub const VERSION: u8 = 1;

/// Bytes of a body at most: a session's ports are the longest, [`MOST_THREADS`] of two bytes and 14 more.
pub const LONGEST: usize = 512;

/// What an end says before all else.
pub fn greeting() -> Vec<u8> {
    [&MAGIC[..], &[VERSION]].concat()
}

/// Characters of a refusal at most.
const WORDS: usize = 300;

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Client: so many sending threads; the receiver may join packets (GRO); it shall have this receive
    /// buffer (0: the system's).
    Open {
        /// 1 to [`MOST_THREADS`].
        threads: u8,
        /// UDP_GRO at the receiver.
        gro: bool,
        /// SO_RCVBUF, bytes.
        buffer: u32,
    },
    /// Server: the session's token, whether it joins packets, its receive buffer as the kernel counts it, a
    /// port for each thread.
    Ready {
        /// In each packet.
        token: u32,
        /// UDP_GRO is on.
        gro: bool,
        /// Bytes.
        buffer: u64,
        /// One a thread.
        ports: Vec<u16>,
    },
    /// Server: no, and why.
    Refused(String),
    /// Client: a trial of at most so many milliseconds begins.
    Start {
        /// Its number.
        trial: u16,
        /// How long.
        millis: u32,
    },
    /// Server: its counts begin at nothing.
    Started,
    /// Client: so many packets were sent.
    Done {
        /// Which trial.
        trial: u16,
        /// Packets.
        sent: u64,
    },
    /// Server: what came.
    Counted(Counted),
}

/// A trial as the receiver saw it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    /// By number.
    pub counts: Counts,
    /// Packets that were not of this session.
    pub foreign: u64,
    /// From the first packet to the last.
    pub span: Duration,
    /// Packets that found the receive buffers full; where they come joined an estimate, since the kernel
    /// counts messages.
    pub buffer_drops: u64,
    /// Packets that found a processor's backlog full, any program's.
    pub backlog_drops: u64,
    /// The busiest receiving thread.
    pub busy: Busy,
}

impl Message {
    fn kind(&self) -> u8 {
        match self {
            Message::Open { .. } => 1,
            Message::Ready { .. } => 2,
            Message::Refused(_) => 3,
            Message::Start { .. } => 4,
            Message::Started => 5,
            Message::Done { .. } => 6,
            Message::Counted(_) => 7,
        }
    }

    /// As it goes over the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Message::Open { threads, gro, buffer } => {
                body.extend([*threads, u8::from(*gro)]);
                body.extend(buffer.to_be_bytes());
            }
            Message::Ready { token, gro, buffer, ports } => {
                body.extend(token.to_be_bytes());
                body.push(u8::from(*gro));
                body.extend(buffer.to_be_bytes());
                ports.iter().take(MOST_THREADS).for_each(|port| body.extend(port.to_be_bytes()));
            }
            Message::Refused(why) => {
                let words: String = why.chars().take(WORDS / 4).collect();
                body.extend(words.as_bytes());
            }
            Message::Start { trial, millis } => {
                body.extend(trial.to_be_bytes());
                body.extend(millis.to_be_bytes());
            }
            Message::Started => {}
            Message::Done { trial, sent } => {
                body.extend(trial.to_be_bytes());
                body.extend(sent.to_be_bytes());
            }
            Message::Counted(counted) => {
                counted.numbers().iter().for_each(|number| body.extend(number.to_be_bytes()));
            }
        }
        let mut bytes = vec![self.kind()];
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    /// A body of that kind; `None` where it cannot be one.
    pub fn parse(kind: u8, body: &[u8]) -> Option<Message> {
        let mut take = Taking(body);
        let message = match kind {
            1 => Message::Open { threads: take.byte()?, gro: take.flag()?, buffer: take.word()? },
            2 => Message::Ready {
                token: take.word()?,
                gro: take.flag()?,
                buffer: take.long()?,
                ports: take.ports()?,
            },
            3 if body.len() <= WORDS => {
                take.0 = &[];
                Message::Refused(String::from_utf8_lossy(body).into_owned())
            }
            4 => Message::Start { trial: take.half()?, millis: take.word()? },
            5 => Message::Started,
            6 => Message::Done { trial: take.half()?, sent: take.long()? },
            7 => Message::Counted(Counted::of(&mut take)?),
            _ => return None,
        };
        take.0.is_empty().then_some(message)
    }
}

/// Shares as they travel: millionths.
const MILLION: f64 = 1e6;

impl Counted {
    fn numbers(&self) -> [u64; 10] {
        // Rounded, or a share that was read off the wire would go back as a millionth less.
        let share = |share: f64| (share.clamp(0.0, 1.0) * MILLION).round() as u64;
        let counts = self.counts;
        [
            counts.received,
            counts.duplicates,
            counts.reordered,
            counts.late,
            self.foreign,
            self.span.as_nanos().min(u64::MAX.into()) as u64,
            self.buffer_drops,
            self.backlog_drops,
            share(self.busy.run),
            share(self.busy.wait),
        ]
    }

    fn of(take: &mut Taking<'_>) -> Option<Counted> {
        let counts = Counts {
            received: take.long()?,
            duplicates: take.long()?,
            reordered: take.long()?,
            late: take.long()?,
        };
        let foreign = take.long()?;
        let span = Duration::from_nanos(take.long()?);
        let (buffer_drops, backlog_drops) = (take.long()?, take.long()?);
        let mut share =
            || take.long().filter(|share| *share <= MILLION as u64).map(|share| share as f64 / MILLION);
        let busy = Busy { run: share()?, wait: share()? };
        Some(Counted { counts, foreign, span, buffer_drops, backlog_drops, busy })
    }
}

/// What is left of a body.
struct Taking<'a>(&'a [u8]);

impl Taking<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        self.byte().filter(|byte| *byte <= 1).map(|byte| byte == 1)
    }

    fn half(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_be_bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_be_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_be_bytes)
    }

    fn ports(&mut self) -> Option<Vec<u16>> {
        let mut ports = Vec::new();
        while !self.0.is_empty() {
            ports.push(self.half()?);
        }
        (ports.len() <= MOST_THREADS).then_some(ports)
    }
}

/// The connection.
#[derive(Debug)]
pub struct Channel {
    stream: TcpStream,
    /// Whom one talks to, for errors.
    peer: String,
}

impl Channel {
    /// Exchanges greetings; each end's must be there within `timeout`.
    pub fn greet(stream: TcpStream, timeout: Duration, stop: &AtomicBool) -> Result<Channel, PpsError> {
        let peer = stream.peer_addr().map_or_else(|_| "the far end".to_owned(), |peer| peer.to_string());
        let mut channel = Channel { stream, peer };
        let ready = channel.stream.set_nodelay(true).and_then(|()| channel.stream.set_nonblocking(true));
        ready.map_err(|error| channel.broken(&error))?;
        let until = Instant::now() + timeout;
        channel.write(&greeting(), until, stop)?;
        let mut theirs = [0; MAGIC.len() + 1];
        channel.read(&mut theirs, until, stop)?;
        match theirs.strip_prefix(MAGIC) {
            Some([VERSION]) => Ok(channel),
            Some([version]) => Err(PpsError::Protocol(format!(
                "{} speaks version {version} of weir bench pps, this weir speaks {VERSION}; upgrade one of them",
                channel.peer
            ))),
            _ => Err(PpsError::Protocol(format!("{} is not weir bench pps -s", channel.peer))),
        }
    }

    /// Whom one talks to.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The addresses of this end.
    pub fn local(&self) -> io::Result<std::net::SocketAddr> {
        self.stream.local_addr()
    }

    /// Sends one.
    pub fn send(&mut self, message: &Message, timeout: Duration, stop: &AtomicBool) -> Result<(), PpsError> {
        self.write(&message.encode(), Instant::now() + timeout, stop)
    }

    /// The next one, if it comes within `timeout`.
    pub fn receive(&mut self, timeout: Duration, stop: &AtomicBool) -> Result<Message, PpsError> {
        let until = Instant::now() + timeout;
        let mut head = [0; 3];
        self.read(&mut head, until, stop)?;
        let length = usize::from(u16::from_be_bytes([head[1], head[2]]));
        let wrong =
            || PpsError::Protocol(format!("{} said something that is not in the protocol", self.peer));
        if length > LONGEST {
            return Err(wrong());
        }
        let mut body = vec![0; length];
        self.read(&mut body, until, stop)?;
        let wrong =
            || PpsError::Protocol(format!("{} said something that is not in the protocol", self.peer));
        Message::parse(head[0], &body).ok_or_else(wrong)
    }

    fn write(&mut self, mut bytes: &[u8], until: Instant, stop: &AtomicBool) -> Result<(), PpsError> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_passing(&error) => self.wait(PollFlags::OUT, until, stop)?,
                Err(error) => return Err(self.broken(&error)),
            }
        }
        Ok(())
    }

    fn read(&mut self, mut into: &mut [u8], until: Instant, stop: &AtomicBool) -> Result<(), PpsError> {
        while !into.is_empty() {
            match self.stream.read(into) {
                Ok(0) => return Err(self.broken(&io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => into = &mut std::mem::take(&mut into)[count..],
                Err(error) if is_passing(&error) => self.wait(PollFlags::IN, until, stop)?,
                Err(error) => return Err(self.broken(&error)),
            }
        }
        Ok(())
    }

    fn wait(&self, flags: PollFlags, until: Instant, stop: &AtomicBool) -> Result<(), PpsError> {
        match ready(&self.stream, flags, until, stop) {
            Ok(true) => Ok(()),
            Ok(false) if stop.load(Relaxed) => Err(PpsError::Interrupted),
            Ok(false) => {
                let what = format!("lost {}", self.peer);
                Err(PpsError::Control { what, cause: "it says nothing any more".to_owned() })
            }
            Err(error) => Err(self.broken(&error)),
        }
    }

    fn broken(&self, error: &io::Error) -> PpsError {
        let cause = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
            _ => weir_units::plain(error),
        };
        PpsError::Control { what: format!("lost {}", self.peer), cause }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn messages() -> Vec<Message> {
        let counts = Counts { received: 1, duplicates: 2, reordered: 3, late: 4 };
        let counted = Counted {
            counts,
            foreign: 5,
            span: Duration::from_nanos(6),
            buffer_drops: 7,
            backlog_drops: 8,
            busy: Busy { run: 0.5, wait: 0.25 },
        };
        vec![
            Message::Open { threads: 3, gro: true, buffer: 9 },
            Message::Ready { token: 1, gro: false, buffer: 2, ports: (0..64).collect() },
            Message::Refused("ä".repeat(75)),
            Message::Start { trial: 1, millis: 2 },
            Message::Started,
            Message::Done { trial: 1, sent: u64::MAX },
            Message::Counted(counted),
        ]
    }

    #[test]
    fn shares_come_back_to_the_millionth() {
        // Found by fuzzing: many a millionth is a little less than itself as a binary fraction.
        for share in (0..=1_000_000).step_by(7) {
            let busy = Busy { run: f64::from(share) / MILLION, wait: 1.0 };
            let message = Message::Counted(Counted { busy, ..Counted::default() });
            let bytes = message.encode();
            assert_eq!(Message::parse(bytes[0], &bytes[3..]), Some(message));
        }
    }

    #[test]
    fn messages_come_back_and_no_part_of_one_does() {
        for message in messages() {
            let bytes = message.encode();
            let body = &bytes[3..];
            assert!(body.len() <= LONGEST && bytes[1..3] == (body.len() as u16).to_be_bytes());
            assert_eq!(Message::parse(bytes[0], body), Some(message.clone()));
            if !matches!(message, Message::Refused(_) | Message::Ready { .. } | Message::Started) {
                assert_eq!(Message::parse(bytes[0], &body[..body.len() - 1]), None, "{message:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(kind: u8, body in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Some(message) = Message::parse(kind, &body) {
                let again = message.encode();
                prop_assert_eq!(again[0], kind);
            }
        }
    }
}
