//! What is wanted of a file that the sender offers.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use weir_tree::delta::Signature;
use weir_tree::{Entry, compare};

use super::incoming::Incoming;
use super::{Place, Receiver};
use crate::end::Event;
use crate::sender::{SMALL, digest_of_file, spawn};
use crate::wire::message::{
    Answer, Deed, Failure, FailureKind, MAX_SUBTREES, MAX_UNDER_WAY, Message, Offered,
};

/// Below this a changed file is sent again rather than compared: a signature costs a round trip and reading both files.
const WORTH_A_SIGNATURE: u64 = 1 << 20;

/// Bytes of a signature in one message.
const PIECE: usize = 512 << 10;

/// Threads that answer: looking at a file waits for the disk, or for the kernel's locks.
const THREADS: u32 = 4;

/// What is said to an offer.
enum Said {
    /// This.
    Now(Answer),
    /// That depends on what of the old version is still of use.
    Compare(Box<Incoming>, Entry),
}

impl Receiver {
    /// Begins to answer what is handed in at the desk.
    pub(super) fn begin_to_answer(self: &Arc<Self>) {
        let mailbox = Arc::new(Mutex::new(self.desk.open()));
        // A dry run tells what it would do in the order of the walk.
        let threads =
            if self.options.dry_run { 1 } else { weir_observe::cpu::available_cpus().clamp(1, THREADS) };
        for _ in 0..threads {
            let (end, mailbox) = (Arc::clone(self), Arc::clone(&mailbox));
            spawn("answer", move || {
                let next = || mailbox.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
                while let (Some(offers), Some(place)) = (next(), end.place.get()) {
                    end.answer_all(place, offers);
                }
            });
        }
    }

    /// Answers the offers of a message by one message, but for files of which signatures have to be made.
    fn answer_all(&self, place: &Place, offers: Vec<Offered>) {
        let mut answers = Vec::with_capacity(offers.len());
        for offer in offers {
            let id = offer.id;
            match self.answer(place, offer) {
                Said::Now(answer) => answers.push((id, answer)),
                Said::Compare(file, old) => {
                    // That takes long: what is known goes ahead.
                    self.say(&mut answers);
                    self.compare(place, id, *file, &old);
                }
            }
        }
        self.say(&mut answers);
    }

    fn say(&self, answers: &mut Vec<(u64, Answer)>) {
        if !answers.is_empty() {
            self.control.send(&Message::Answer(std::mem::take(answers)));
        }
    }

    fn answer(&self, place: &Place, offer: Offered) -> Said {
        let Offered { id, entry, digest } = offer;
        if let Err(failure) = place.admits(&entry.name) {
            return Said::Now(Answer::Refused(failure));
        }
        let asked = self.options.update || self.options.checksum || self.options.dry_run;
        let there = if asked { place.target.existing(&entry.name).ok().flatten() } else { None };
        if let Some(there) = &there
            && self.is_same(place, &entry, there, digest)
        {
            self.counts.unchanged.fetch_add(1, Relaxed);
            return Said::Now(Answer::Nothing);
        }
        if self.options.dry_run {
            self.events.send(Event::Would(Deed::Copy, entry.name));
            return Said::Now(Answer::Nothing);
        }
        if entry.size() <= SMALL {
            return Said::Now(Answer::All);
        }
        if self.files().len() >= MAX_UNDER_WAY {
            let failure = Failure::new(FailureKind::Session, "too many files were offered at once");
            return Said::Now(Answer::Refused(failure));
        }
        let old = there.filter(|there| there.is_file() && there.size() >= WORTH_A_SIGNATURE);
        match Incoming::begin(&place.target, entry) {
            Ok(file) => self.take(id, file, old),
            Err(failure) => Said::Now(Answer::Refused(failure)),
        }
    }

    fn is_same(&self, place: &Place, entry: &Entry, there: &Entry, digest: Option<[u8; 32]>) -> bool {
        let same = if self.options.checksum {
            let own = || digest_of_file(place.target.open_existing(&entry.name).ok()?);
            there.is_file() && there.size() == entry.size() && digest.is_some() && digest == own()
        } else {
            self.options.update && compare::unchanged(entry, there)
        };
        same && (self.options.dry_run || place.target.mend(entry, there).is_ok())
    }

    /// A file that is to come: all of it, what an earlier run did not have, or what differs from the old version.
    fn take(&self, id: u64, file: Incoming, old: Option<Entry>) -> Said {
        let there = file.there();
        self.counts.kept.fetch_add(file.kept(), Relaxed);
        if there.is_empty()
            && let Some(old) = old
        {
            return Said::Compare(Box::new(file), old);
        }
        self.files().insert(id, Arc::new(file));
        let answer = match there.is_empty() || there.len() > MAX_SUBTREES {
            true => Answer::All,
            false => Answer::Rest(there),
        };
        Said::Now(answer)
    }

    /// Answers with the signature of what is in the file's place; wants all of the file where that cannot be read.
    fn compare(&self, place: &Place, id: u64, mut file: Incoming, old: &Entry) {
        file.permit = self.desk.permit(Signature::expected_len(old.size()));
        let signed = place.target.open_existing(&old.name).and_then(|old| {
            let signature = Signature::of(&old, &file.entry.name)?;
            Ok((signature, old))
        });
        // Serialising into memory fails only for types without a length, of which there is none.
        let signed =
            signed.ok().and_then(|(signature, old)| Some((postcard::to_allocvec(&signature).ok()?, old)));
        let Some((signature, old)) = signed else {
            self.files().insert(id, Arc::new(file));
            return self.say(&mut vec![(id, Answer::All)]);
        };
        file.old = Some(old);
        self.files().insert(id, Arc::new(file));
        let _turn = self.desk.turn();
        for piece in signature.chunks(PIECE) {
            self.control.send(&Message::Signature(id, piece.to_vec()));
        }
        self.say(&mut vec![(id, Answer::Differing)]);
    }
}
