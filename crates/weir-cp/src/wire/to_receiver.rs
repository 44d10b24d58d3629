//! What a sender says to the receiver of its copy.

use serde::{Deserialize, Serialize};
use weir_tree::Entry;

use super::message::{Failure, MAX_ROOTS, Root, Totals};
use super::messages::messages;
use super::owners::Owners;
use crate::subtrees::Digest;

/// Entries in one offer, and answers in one message.
pub(crate) const MAX_OFFERS: usize = 1024;

messages! {
    /// From the sender to the receiver.
    ToReceiver {
        /// What its numbers of users and groups are called, before its sources, where owners are kept by
        /// name.
        [6] Owners(owners: Owners),
        /// What its sources are, in the order of the command line; none for one that is missing, or that
        /// was named before.
        [7] Roots(roots: Vec<Option<Root>>),
        /// Files that travel in blocks.
        [9] Offer(offers: Vec<Offered>),
        /// All of the file was sent, or why not.
        [13] End(file: u64, outcome: Result<Digest, Failure>),
        /// The lane is over, and why.
        [17] LaneLost(lane: u32, why: String),
        /// Nothing more comes; whether something failed on the way.
        [21] Finish(totals: Totals, failed: bool),
    }
}

/// A file that is offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// Its number: rises by one from offer to offer.
    pub id: u64,
    /// What it is.
    pub entry: Entry,
    /// The digest of its content, for `--checksum`.
    pub digest: Option<Digest>,
}

impl ToReceiver {
    fn keeps_caps(&self) -> bool {
        match self {
            ToReceiver::Owners(owners) => owners.is_sound(),
            ToReceiver::Roots(roots) => roots.len() <= MAX_ROOTS,
            ToReceiver::Offer(offers) => offers.len() <= MAX_OFFERS,
            _ => true,
        }
    }
}
