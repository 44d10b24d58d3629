//! What is wanted of a file that the sender offers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_tree::delta::Signature;
use weir_tree::{Entry, compare};

use super::incoming::Incoming;
use super::{Place, Receiver};
use crate::end::Event;
use crate::sender::{SMALL, digest_of_file};
use crate::wire::message::{
    Answer, Deed, Failure, FailureKind, MAX_SUBTREES, MAX_UNDER_WAY, Message, Offered,
};

/// Below this a changed file is sent again rather than compared: a signature costs a round trip and reading both files.
const WORTH_A_SIGNATURE: u64 = 1 << 20;

/// Bytes of a signature in one message.
const PIECE: usize = 512 << 10;

impl Receiver {
    /// Answers one message of offers by one of answers, signatures in pieces before it.
    pub(super) fn answer_all(&self, place: &Place, offers: Vec<Offered>) {
        let answers = offers.into_iter().map(|offer| (offer.id, self.answer(place, offer))).collect();
        self.control.send(&Message::Answer(answers));
    }

    fn answer(&self, place: &Place, offer: Offered) -> Answer {
        let Offered { id, entry, digest } = offer;
        if let Err(failure) = place.admits(&entry.name) {
            return Answer::Refused(failure);
        }
        let asked = self.options.update || self.options.checksum || self.options.dry_run;
        let there = if asked { place.target.existing(&entry.name).ok().flatten() } else { None };
        if let Some(there) = &there
            && self.is_same(place, &entry, there, digest)
        {
            self.counts.unchanged.fetch_add(1, Relaxed);
            return Answer::Nothing;
        }
        if self.options.dry_run {
            self.events.send(Event::Would(Deed::Copy, entry.name));
            return Answer::Nothing;
        }
        if entry.size() <= SMALL {
            return Answer::All;
        }
        if self.files().len() >= MAX_UNDER_WAY {
            return Answer::Refused(Failure::new(
                FailureKind::Session,
                "too many files were offered at once",
            ));
        }
        let old = there.filter(|there| there.is_file() && there.size() >= WORTH_A_SIGNATURE);
        match Incoming::begin(&place.target, entry) {
            Ok(file) => self.take(place, id, file, old),
            Err(failure) => Answer::Refused(failure),
        }
    }

    fn is_same(&self, place: &Place, entry: &Entry, there: &Entry, digest: Option<[u8; 32]>) -> bool {
        let same = if self.options.checksum {
            let own = || digest_of_file(place.target.open_existing(&entry.name).ok()?);
            there.is_file() && there.size() == entry.size() && digest.is_some() && digest == own()
        } else {
            self.options.update && compare::unchanged(entry, there)
        };
        same && (self.options.dry_run || place.target.mend(entry).is_ok())
    }

    /// A file that is to come: all of it, what an earlier run did not have, or what differs from the old version.
    fn take(&self, place: &Place, id: u64, mut file: Incoming, old: Option<Entry>) -> Answer {
        let there = file.there();
        self.counts.kept.fetch_add(file.kept(), Relaxed);
        let differing =
            old.filter(|_| there.is_empty()).is_some_and(|_| self.send_signature(place, id, &mut file));
        self.files().insert(id, Arc::new(file));
        if differing {
            Answer::Differing
        } else if there.is_empty() || there.len() > MAX_SUBTREES {
            Answer::All
        } else {
            Answer::Rest(there)
        }
    }

    /// Sends the signature of what is in the file's place; false where that cannot be read.
    fn send_signature(&self, place: &Place, id: u64, file: &mut Incoming) -> bool {
        let name = &file.entry.name;
        let signed = place.target.open_existing(name).and_then(|old| Ok((Signature::of(&old, name)?, old)));
        let Ok((signature, old)) = signed else { return false };
        // Serialising into memory fails only for types without a length, of which there is none.
        let Ok(bytes) = postcard::to_allocvec(&signature) else { return false };
        for piece in bytes.chunks(PIECE) {
            self.control.send(&Message::Signature(id, piece.to_vec()));
        }
        file.old = Some(old);
        true
    }
}
