//! What a worker and the one who started it say to each other over ssh: frames of a length (four bytes,
//! little endian) and a message (postcard). Both ends are the same version of weir.
//!
//! A worker asks the ledger by [`ToHub::Ask`] and goes on when the answer of that number comes; every
//! question of [`FleetLedger`](crate::ledger::FleetLedger) may be asked again, so an answer that nobody waits
//! for any more is left. Each end says every 6 s that it is there, and is gone when it was silent for a
//! minute.

use std::io::{self, Read, Write};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::FleetError;
use crate::ledger::postgres::DatabaseUrl;
use crate::ledger::{
    BatchLease, BatchResults, Claimed, Finished, Helped, Helper, PlanEnds, Renewed, Tally, VerdictSpan,
    WorkerId, WorkerIdentity,
};
use crate::worker::{WorkerEnd, WorkerReport};

/// What the ledger at the other end is called in errors.
pub(super) const PLACE: &str = "of weir fleet run";

/// Bytes of a message to a worker: a batch, as large as a row of the ledger can be.
pub const MAX_TO_WORKER: usize = 200 << 20;

/// Bytes of a message of a worker: the failures of 1000 objects, each with two paths of 4096 bytes and words.
pub const MAX_TO_HUB: usize = 16 << 20;

/// Bytes of one failure's words.
const MAX_REASON: usize = 10 << 10;

/// Failures that a worker names when it ends, and words of its command line.
const MAX_NAMED: usize = 64;
const MAX_WORDS: usize = 256;

/// Bytes of which room is made before they have come.
const PIECE: usize = 256 << 10;

/// What a worker is started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkOrder {
    /// How it works, as words of `weir fleet work`.
    pub words: Vec<String>,
    /// What its host is called in the ledger.
    pub host: String,
    /// The database that it asks by itself; `None`: it asks this connection.
    pub ledger: Option<DatabaseUrl>,
}

/// An operation of [`FleetLedger`](crate::ledger::FleetLedger).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Question {
    /// `ends`.
    Ends,
    /// `join`.
    Join(WorkerIdentity),
    /// `leave`.
    Leave(WorkerId),
    /// `claim`.
    Claim(WorkerId, Duration),
    /// `renew`.
    Renew(BatchLease, Duration, u64, u64),
    /// `finish`.
    Finish(BatchLease, BatchResults),
    /// `release`.
    Release(BatchLease),
    /// `fail`.
    Fail(BatchLease),
    /// `help`.
    Help(WorkerId, Duration, Helper),
    /// `share_token`.
    ShareToken(i64, String),
    /// `tell`.
    Tell(WorkerId, Vec<VerdictSpan>),
}

/// What the ledger says to it.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// To `ends`.
    Ends(PlanEnds),
    /// To `join`.
    Joined(WorkerId),
    /// To whatever answers nothing.
    Done,
    /// To `claim`.
    Claimed(Claimed),
    /// To `renew`.
    Renewed(Renewed),
    /// To `release` and `fail`.
    Released(bool),
    /// To `finish`.
    Finished(Finished),
    /// To `help`.
    Helped(Helped),
    /// To `share_token`.
    Token(String),
    /// To any.
    Failed(FleetError),
}

/// What a worker did, as it says at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Farewell {
    /// Why it ended; in words where it could not work at all.
    pub end: Result<WorkerEnd, String>,
    /// Brought to their targets.
    pub moved: Tally,
    /// Found there already.
    pub same: Tally,
    /// Objects that failed.
    pub failed: u64,
    /// Some of them, in words.
    pub failures: Vec<String>,
}

/// To a worker.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// The first one.
    Begin(WorkOrder),
    /// What the question of this number is answered.
    Answer(u64, Answer),
    /// End what is held, and leave.
    Drain,
    /// Give back what is held, and leave.
    Stop,
    /// Somebody is there.
    Alive,
}

/// To the one who started it.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToHub {
    /// A question with a number.
    Ask(u64, Question),
    /// The last one.
    Ended(Farewell),
    /// Somebody is there.
    Alive,
}

/// A message of one direction.
pub trait FleetMessage: Serialize + DeserializeOwned {
    /// Bytes that it has at most.
    const MAX: usize;

    /// Whether it keeps to the bounds that its length does not say.
    fn is_sound(&self) -> bool;
}

impl FleetMessage for ToWorker {
    const MAX: usize = MAX_TO_WORKER;

    fn is_sound(&self) -> bool {
        !matches!(self, ToWorker::Begin(order) if order.words.len() > MAX_WORDS)
    }
}

impl FleetMessage for ToHub {
    const MAX: usize = MAX_TO_HUB;

    fn is_sound(&self) -> bool {
        match self {
            ToHub::Ended(farewell) => farewell.failures.len() <= MAX_NAMED,
            ToHub::Ask(..) | ToHub::Alive => true,
        }
    }
}

impl Farewell {
    /// Of a worker that could not work.
    pub fn unable(why: String) -> Farewell {
        let none = Tally::default();
        Farewell { end: Err(clipped(why)), moved: none, same: none, failed: 0, failures: Vec::new() }
    }

    /// Of a worker that did this.
    pub fn of(report: &WorkerReport) -> Farewell {
        let tally = |(objects, bytes): (u64, u64)| Tally { objects, bytes };
        Farewell {
            end: Ok(report.end.clone()),
            moved: tally(report.totals.moved),
            same: tally(report.totals.same),
            failed: report.totals.failed,
            failures: report.failures.iter().take(MAX_NAMED).cloned().map(clipped).collect(),
        }
    }
}

impl Question {
    /// The same with no words longer than there is room for.
    pub fn clipped(mut self) -> Question {
        if let Question::Finish(_, results) = &mut self {
            for failure in &mut results.failures {
                failure.reason = clipped(std::mem::take(&mut failure.reason));
            }
        }
        self
    }
}

/// Words that end where there is no more room for them.
fn clipped(mut words: String) -> String {
    if words.len() > MAX_REASON {
        let mut end = MAX_REASON;
        while !words.is_char_boundary(end) {
            end -= 1;
        }
        words.truncate(end);
        words.push('…');
    }
    words
}

/// A message that cannot be.
fn malformed(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A message as a frame.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] for one that is larger than the other end takes.
pub fn to_frame(message: &impl FleetMessage) -> io::Result<Vec<u8>> {
    frame_of(message)
}

fn frame_of<M: FleetMessage>(message: &M) -> io::Result<Vec<u8>> {
    let mut frame = postcard::to_extend(message, vec![0; 4]).map_err(|error| malformed(error.to_string()))?;
    let length = frame.len() - 4;
    if length > M::MAX {
        return Err(malformed(format!("a message of {length} bytes, more than there is room for")));
    }
    frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(frame)
}

/// A message from a frame's body, to its last byte.
pub fn parse<M: FleetMessage>(body: &[u8]) -> Option<M> {
    let (message, rest) = postcard::take_from_bytes::<M>(body).ok()?;
    (rest.is_empty() && message.is_sound()).then_some(message)
}

/// Writes a message.
pub fn write(to: &mut impl Write, message: &impl FleetMessage) -> io::Result<()> {
    to.write_all(&to_frame(message)?)?;
    to.flush()
}

/// Reads the next message; `None` at the end of the stream. Of one that announces much no more room is made
/// than has come.
pub fn read<M: FleetMessage>(from: &mut impl Read) -> io::Result<Option<M>> {
    let mut head = [0; 4];
    if from.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..])?;
    let length = u32::from_le_bytes(head) as usize;
    if length > M::MAX {
        return Err(malformed(format!("a frame of {length} bytes")));
    }
    let mut body = Vec::new();
    while body.len() < length {
        let had = body.len();
        body.resize(length.min(had + PIECE.max(had)), 0);
        from.read_exact(&mut body[had..])?;
    }
    parse(&body).map(Some).ok_or_else(|| malformed("a message of unknown form".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::FailureClass;
    use crate::ledger::ObjectFailure;

    #[test]
    fn messages_come_out_as_they_went_in() {
        let mut bytes = Vec::new();
        let lease = BatchLease { batch: 3, fence: 9 };
        for _ in 0..2 {
            write(&mut bytes, &ToHub::Ask(7, Question::Renew(lease, Duration::from_secs(30), 4, 5))).unwrap();
        }
        let mut from = &bytes[..];
        for _ in 0..2 {
            let Some(ToHub::Ask(7, Question::Renew(read_lease, length, 4, 5))) = read(&mut from).unwrap()
            else {
                panic!("another message");
            };
            assert_eq!((read_lease, length), (lease, Duration::from_secs(30)));
        }
        assert!(read::<ToHub>(&mut from).unwrap().is_none());
        assert!(read::<ToHub>(&mut &bytes[..9]).is_err(), "cut off");
    }

    #[test]
    fn what_announces_too_much_is_refused_and_what_says_too_much_is_cut() {
        let head = (MAX_TO_HUB as u32 + 1).to_le_bytes();
        assert_eq!(read::<ToHub>(&mut &head[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        // A gigabyte that never comes takes no room.
        assert!(read::<ToWorker>(&mut &(MAX_TO_WORKER as u32).to_le_bytes()[..]).is_err());
        let failure =
            |position| ObjectFailure {
                position, class: FailureClass::Other, reason: "ä".repeat(MAX_REASON)
            };
        let results = BatchResults { failures: (0..1000).map(failure).collect(), ..BatchResults::default() };
        let lease = BatchLease { batch: 1, fence: 1 };
        let long = Question::Finish(lease, results);
        assert!(to_frame(&ToHub::Ask(1, long.clone())).is_err());
        to_frame(&ToHub::Ask(1, long.clipped())).unwrap();
        let many =
            Farewell { failures: vec![String::new(); MAX_NAMED + 1], ..Farewell::unable(String::new()) };
        let frame = to_frame(&ToHub::Ended(many)).unwrap();
        assert!(parse::<ToHub>(&frame[4..]).is_none());
    }
}
