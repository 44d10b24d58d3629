//! What a receiver tells of what comes, for those on its host who pass it on. Of a receiver from which nobody
//! takes anything nothing is told.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use weir_tree::{Entry, Kind};

use super::incoming::Incoming;
use crate::feed::{Feed, FeedOutcome};
use crate::subtrees::Digest;
use crate::wire::batch::Member;
use crate::wire::message::Failure;
use crate::wire::to_receiver::Offered;

/// The feed, where there is one.
#[derive(Debug, Default)]
pub(super) struct Passing {
    feed: OnceLock<Arc<Feed>>,
    /// Files that were offered and are not answered: as the source has them.
    offered: Mutex<HashMap<u64, (Entry, Option<Digest>)>>,
}

impl Passing {
    /// What comes is told there from now on.
    pub(super) fn begin(&self, feed: &Arc<Feed>) {
        // Only ever set once, before the session begins.
        let _ = self.feed.set(Arc::clone(feed));
    }

    /// The place that hears of it.
    pub(super) fn feed(&self) -> Option<&Arc<Feed>> {
        self.feed.get()
    }

    /// A file is offered.
    pub(super) fn offered(&self, Offered { id, entry, digest }: &Offered) {
        if self.feed().is_some() {
            self.offered.lock().insert(*id, (entry.clone(), *digest));
        }
    }

    /// It is there already: compared with the digest that was offered, or else by size and time.
    pub(super) fn same(&self, id: u64) {
        if let (Some(feed), Some((entry, offered))) = (self.feed(), self.taken(id)) {
            feed.there(entry, offered, offered);
        }
    }

    /// It comes among others.
    pub(super) fn comes_in_batch(&self, id: u64) {
        self.taken(id);
    }

    /// Its blocks come.
    pub(super) fn grows(&self, id: u64, file: &Incoming) {
        let (Some(feed), Some((entry, offered))) = (self.feed(), self.taken(id)) else { return };
        let growing = file.with_file(|open| feed.grows(entry, offered, open)).flatten();
        match growing {
            // Only ever set here, before its first block.
            Some(growing) => drop(file.passed.set((Arc::clone(feed), growing))),
            None => self.lacks(&Failure::local(format_args!("cannot read {} again", file.entry.name))),
        }
    }

    /// It has come to its end.
    pub(super) fn ended(&self, file: &Incoming, outcome: FeedOutcome) {
        if let Some((feed, growing)) = file.passed.get() {
            feed.ended(growing, outcome);
        }
    }

    /// A member of a batch is in its place, whose owners at the source are these.
    pub(super) fn placed(&self, member: &Member, (uid, gid): (u32, u32), content: &[u8]) {
        let Some(feed) = self.feed() else { return };
        let entry = Entry { uid, gid, ..member.entry.clone() };
        if member.last {
            return feed.leave(entry, member.keep.clone());
        }
        let digest = entry.is_file().then(|| *blake3::hash(content).as_bytes());
        feed.there(entry, digest, digest);
    }

    /// A member of a batch is not: what only root makes is on no other host either, where that is not root.
    pub(super) fn not_placed(&self, entry: &Entry) {
        if !matches!(entry.kind, Kind::Special(_)) {
            self.lacks(&Failure::local(format_args!("{} was left out there", entry.name)));
        }
    }

    /// Something could not be taken, that whoever is next should have.
    pub(super) fn lacks(&self, failure: &Failure) {
        if let Some(feed) = self.feed() {
            feed.lacks(failure);
        }
    }

    fn taken(&self, id: u64) -> Option<(Entry, Option<Digest>)> {
        self.offered.lock().remove(&id)
    }
}
