//! Both ends of one transfer, judged apart: do they agree, and if not, whose word counts?
//!
//! Conditions, in order: 1. they name the same; 2. one names nothing, so the other's counts; 3. one sees
//! directly what it names and the other infers ([`vantage`]); 4. one names only that it waits for the other
//! (`reader`, `receive-window`, `application`), and the other says what for; else both stand, and the
//! difference is told. Can be wrong where the two records are of different times of the same connection: each
//! may then be right about its own.

use crate::limit::Limit;
use crate::sight::{Vantage, vantage};

/// What both ends together say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Neither names a limit.
    Unknown,
    /// Both name it.
    Agreed(Limit),
    /// This end's word counts.
    By {
        /// The end.
        end: Vantage,
        /// What it names.
        limit: Limit,
        /// Why.
        because: Because,
    },
    /// Both see what they name, and it is not the same.
    Apart {
        /// What the sender names.
        sender: Limit,
        /// What the receiver names.
        receiver: Limit,
    },
}

/// Why one end's word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// The other end names nothing.
    OtherSilent,
    /// The other end can only infer what it names.
    OtherInfers,
    /// The other end only says that it waits for this one.
    OtherWaits,
}

/// Settles what the sender and the receiver of one transfer name; `None` and `sender-or-path` name nothing.
pub fn settle(sender: Option<Limit>, receiver: Option<Limit>) -> Settled {
    let named = |limit: Option<Limit>| limit.filter(|limit| *limit != Limit::SenderOrPath);
    let by = |end: Vantage, limit, because| Settled::By { end, limit, because };
    let (sender, receiver) = match (named(sender), named(receiver)) {
        (None, None) => return Settled::Unknown,
        (Some(limit), None) => return by(Vantage::Sender, limit, Because::OtherSilent),
        (None, Some(limit)) => return by(Vantage::Receiver, limit, Because::OtherSilent),
        (Some(sender), Some(receiver)) if sender == receiver => return Settled::Agreed(sender),
        (Some(sender), Some(receiver)) => (sender, receiver),
    };
    let sees = |limit: Limit, end: Vantage| vantage(limit) == end || vantage(limit) == Vantage::Either;
    match (sees(sender, Vantage::Sender), sees(receiver, Vantage::Receiver)) {
        (true, false) => return by(Vantage::Sender, sender, Because::OtherInfers),
        (false, true) => return by(Vantage::Receiver, receiver, Because::OtherInfers),
        _ => {}
    }
    match (waits(sender), waits(receiver)) {
        (true, false) => by(Vantage::Receiver, receiver, Because::OtherWaits),
        (false, true) => by(Vantage::Sender, sender, Because::OtherWaits),
        _ => Settled::Apart { sender, receiver },
    }
}

/// Whether a limit only says that the other end is waited for, or has nothing to give.
fn waits(limit: Limit) -> bool {
    matches!(limit, Limit::Reader | Limit::ReceiveWindow | Limit::Application)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sees_it_is_believed() {
        let settled = settle(Some(Limit::PathLoss), Some(Limit::Application));
        assert_eq!(
            settled,
            Settled::By { end: Vantage::Sender, limit: Limit::PathLoss, because: Because::OtherInfers }
        );
        let settled = settle(Some(Limit::Reader), Some(Limit::DirtyThrottle));
        assert!(matches!(settled, Settled::By { end: Vantage::Receiver, limit: Limit::DirtyThrottle, .. }));
    }

    #[test]
    fn who_names_nothing_is_not_asked() {
        assert_eq!(settle(None, Some(Limit::SenderOrPath)), Settled::Unknown);
        let settled = settle(Some(Limit::SendBuffer), Some(Limit::SenderOrPath));
        assert!(matches!(
            settled,
            Settled::By { limit: Limit::SendBuffer, because: Because::OtherSilent, .. }
        ));
    }

    #[test]
    fn who_waits_for_the_other_hears_what_for() {
        let settled = settle(Some(Limit::Application), Some(Limit::ThinkTime));
        assert!(matches!(settled, Settled::By { end: Vantage::Receiver, because: Because::OtherWaits, .. }));
    }

    #[test]
    fn two_that_both_see_stay_apart_and_the_same_is_agreed() {
        assert_eq!(
            settle(Some(Limit::PathLoss), Some(Limit::Disk)),
            Settled::Apart { sender: Limit::PathLoss, receiver: Limit::Disk }
        );
        for limit in Limit::ALL.into_iter().filter(|limit| *limit != Limit::SenderOrPath) {
            assert_eq!(settle(Some(limit), Some(limit)), Settled::Agreed(limit));
        }
    }
}
