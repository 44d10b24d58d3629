//! What is asked and answered in a session that only measures: what `weir plan` wants of a far end.
//! `docs/protocol.md` says who sends which when.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_model::survey::{Received, Sent, Source, Target};
use weir_tree::source::Identity;
use weir_tree::{Entry, Name};

use super::message::{Failure, MAX_ROOTS, Root};

/// Bytes that one burst or one trial write may move, whatever the driver asks for: what a metered link
/// forgives.
pub(crate) const MOST_BYTES: u64 = 1 << 30;

/// Files that one question is about, and the answer to it.
pub(crate) const MAX_LISTED: usize = 8192;

/// Time that one question may take, whatever the driver asks for.
pub const MOST_TIME: Duration = Duration::from_secs(5);

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
    Place(Vec<Option<Root>>, bool),
    /// What the sources are called there, and the folder that is not to be walked into, as
    /// [`Found::Placed`] has them. For a sender, before its files.
    Called(Vec<Name>, Option<Identity>),
    /// The next of the files that a copy would offer. For a sender.
    Offers(Bounds),
    /// What a copy would want of these. For a receiver that has their place.
    Wanted(Vec<Entry>),
    /// The answer to that. For a sender, about its last offers.
    Take(Vec<Want>),
}

/// What a copy would want of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// It stays as it is at the target, or is not to be there.
    Nothing,
    /// All of it.
    All,
    /// What differs from the version that is there.
    Difference,
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
    /// The answer to [`Ask::Roots`]; none for one that is missing, or that was named before.
    Roots(Vec<Option<Root>>),
    /// The answer to [`Ask::Place`]: they have, under these names; and the target, where it is in a source
    /// ([`super::to_sender::ToSender::Avoid`]).
    Placed(Vec<Name>, Option<Identity>),
    /// The answer to [`Ask::Offers`]; none at their end.
    Offers(Vec<Entry>),
    /// The answer to [`Ask::Wanted`], in the same order.
    Wanted(Vec<Want>),
    /// The answer to what is only to be known: [`Ask::Called`] and [`Ask::Take`].
    Known,
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

impl Ask {
    /// The caps that a parser does not know.
    pub(super) fn is_sound(&self) -> bool {
        match self {
            Ask::Place(roots, _) => roots.len() <= MAX_ROOTS,
            Ask::Called(names, _) => names.len() <= MAX_ROOTS,
            Ask::Wanted(entries) => entries.len() <= MAX_LISTED,
            Ask::Take(wants) => wants.len() <= MAX_LISTED,
            _ => true,
        }
    }
}

impl Found {
    /// The caps and bounds that a parser does not know.
    pub(super) fn is_sound(&self) -> bool {
        match self {
            Found::Source(source) => source.is_sound(),
            Found::Target(target) => target.is_sound(),
            Found::Sent(sent) => sent.is_sound(),
            Found::Received(received) => received.is_sound(),
            Found::Roots(roots) => roots.len() <= MAX_ROOTS,
            Found::Placed(names, _) => names.len() <= MAX_ROOTS,
            Found::Offers(entries) => entries.len() <= MAX_LISTED,
            Found::Wanted(wants) => wants.len() <= MAX_LISTED,
            Found::Refused(_) | Found::Known => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::driver::ToDriver;
    use crate::wire::frame::{HEAD, parse_message, to_frame};

    fn passes(found: Found) -> bool {
        let frame = to_frame(&ToDriver::Found(Box::new(found)));
        parse_message::<ToDriver>(&frame[HEAD..]).is_ok()
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
