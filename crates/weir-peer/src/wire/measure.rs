//! The messages of a session that only measures: what `weir plan` asks of a far end. `docs/protocol.md` says who sends which
//! when.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_model::survey::{Received, Sent, Source, Target};

use super::message::{Failure, MAX_ROOTS, Root, Start};

/// Bytes that one burst or one trial write may move, whatever the driver asks for: what a metered link forgives.
pub const MOST_BYTES: u64 = 1 << 30;

/// Time that one question may take, whatever the driver asks for.
pub const MOST_TIME: Duration = Duration::from_secs(5);

/// What is said in such a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Measure {
    /// In place of [`Start`](super::message::Message::Start): the same, to measure and not to copy.
    Begin(Box<Start>),
    /// One thing is to be measured.
    Ask(Ask),
    /// What was found.
    Found(Box<Found>),
}

/// One thing to measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// The sources: how much there is, what codecs do to it. For a sender.
    Source(Bounds),
    /// The target: what memory and disk take. For a receiver.
    Target(Bounds),
    /// Send over the lanes that stand. For a sender.
    Send(Bounds),
    /// What came of the burst that was so many bytes. For a receiver.
    Received(u64),
    /// What the sources are, as for a copy. For a sender.
    Roots,
    /// Whether these sources have a place at the target, as a copy would decide it, whose ends may be on one
    /// machine. For a receiver.
    Place(Vec<Root>, bool),
}

/// How far a measurement may go; the caps hold beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Bytes.
    pub bytes: u64,
    /// Milliseconds.
    pub millis: u32,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Found {
    /// The answer to [`Ask::Source`].
    Source(Source),
    /// The answer to [`Ask::Target`].
    Target(Target),
    /// The answer to [`Ask::Send`].
    Sent(Sent),
    /// The answer to [`Ask::Received`].
    Received(Received),
    /// It cannot be measured, and why.
    Refused(Failure),
    /// The answer to [`Ask::Roots`].
    Roots(Vec<Root>),
    /// The answer to [`Ask::Place`]: they have.
    Placed,
}

impl Bounds {
    /// No more bytes than that.
    pub fn most_bytes(self) -> u64 {
        self.bytes.min(MOST_BYTES)
    }

    /// No more time than that.
    pub fn most_time(self) -> Duration {
        Duration::from_millis(self.millis.into()).min(MOST_TIME)
    }
}

impl Measure {
    /// The caps and bounds that a parser does not know.
    pub(super) fn is_sound(&self) -> bool {
        match self {
            Measure::Begin(start) => start.is_sound(),
            Measure::Ask(Ask::Place(roots, _)) => roots.len() <= MAX_ROOTS,
            Measure::Ask(_) => true,
            Measure::Found(found) => match &**found {
                Found::Source(source) => source.is_sound(),
                Found::Target(target) => target.is_sound(),
                Found::Sent(sent) => sent.is_sound(),
                Found::Received(received) => received.is_sound(),
                Found::Roots(roots) => roots.len() <= MAX_ROOTS,
                Found::Refused(_) | Found::Placed => true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::{HEAD, parse_message, to_frame};
    use crate::wire::message::Message;

    fn passes(found: Found) -> bool {
        let frame = to_frame(&Message::Measure(Measure::Found(Box::new(found))));
        parse_message(&frame[HEAD..]).is_ok()
    }

    #[test]
    fn what_cannot_be_measured_does_not_parse() {
        let target = Target { cpus: 2, write: 1e-9, ..Target::default() };
        assert!(passes(Found::Target(target.clone())));
        assert!(!passes(Found::Target(Target { write: f64::NAN, ..target.clone() })));
        assert!(!passes(Found::Target(Target { disk: Some(f64::INFINITY), ..target })));
        assert!(!passes(Found::Received(Received { rate: -1.0, ..Received::default() })));
        assert!(!passes(Found::Sent(Sent { again: 2.0, ..Sent::default() })));
    }

    #[test]
    fn a_driver_that_asks_for_too_much_gets_the_caps() {
        let bounds = Bounds { bytes: u64::MAX, millis: u32::MAX };
        assert_eq!((bounds.most_bytes(), bounds.most_time()), (MOST_BYTES, MOST_TIME));
    }
}
