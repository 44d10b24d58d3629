//! What is wanted of a file that the sender offers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use weir_tree::delta::Signature;
use weir_tree::{Entry, Name, compare};
use weir_units::counted;

use super::incoming::Incoming;
use super::offer_queue::Comparison;
use super::{CopyDestination, Receiver};
use crate::holes::digest_of_file;
use crate::subtrees::Digest;
use crate::wire::measure::Want;
use crate::wire::message::{Failure, FailureKind, MAX_UNDER_WAY};
use crate::wire::to_receiver::Offered;
use crate::wire::to_sender::{Answer, MAX_SUBTREES, ToSender};

/// Below this a changed file is sent again rather than compared: a signature costs a round trip and reading
/// both files.
const WORTH_A_SIGNATURE: u64 = 1 << 20;

/// What there is of an offered file.
enum There {
    /// It was not asked for.
    Refused(Failure),
    /// It is not to be copied over what is there, or into what is not.
    LeftOut,
    /// The same.
    Same(Box<Entry>),
    /// An earlier copy had the same, and has given it a second name here.
    Linked,
    /// Nothing, or another.
    Other(Option<Entry>),
}

fn is_worth_a_signature(there: &Entry) -> bool {
    there.is_file() && there.size() >= WORTH_A_SIGNATURE
}

/// Bytes of a signature in one message.
const PIECE: usize = 512 << 10;

/// Bytes of answers from which on a message goes: with one more, of 4096 subtrees at most, it fits.
const ANSWERED: usize = 512 << 10;

/// Threads that look: that waits for the disk, or for the kernel's locks.
const LOOKERS: u32 = 4;

/// Threads that compare: each file is read by several anyway.
const COMPARERS: u32 = 2;

/// Bytes read to compare them, after which the sender hears of it: a second's worth of a slow disk.
const TOLD_EVERY: u64 = 8 << 20;

impl Receiver {
    /// Begins to answer what is handed in.
    pub(super) fn begin_to_answer(self: &Arc<Self>) {
        self.begin_to_recheck();
        let mailbox = Arc::new(Mutex::new(self.offers.open()));
        // A dry run tells what it would do in the order of the walk.
        let lookers =
            if self.options.dry_run { 1 } else { weir_observe::cpu::available_cpus().clamp(1, LOOKERS) };
        self.events.spawn_several("answer", lookers, || {
            let (end, mailbox) = (Arc::clone(self), Arc::clone(&mailbox));
            move || {
                let next = || mailbox.lock().recv().ok();
                while let (Some(offers), Some(place)) = (next(), end.place.get()) {
                    let answer = |offer: Offered| Some((offer.id, end.answer(place, offer)?));
                    end.say(offers.into_iter().filter_map(answer).collect());
                }
            }
        });
        self.events.spawn_several("compare", COMPARERS, || {
            let end = Arc::clone(self);
            move || {
                while let (Some(next), Some(place)) = (end.offers.next_to_compare(), end.place.get()) {
                    let id = next.id;
                    if let Some(answer) = end.compare(place, *next) {
                        end.say(vec![(id, answer)]);
                    }
                }
            }
        });
    }

    /// In as many messages as it takes: what is there of many files is more than one holds.
    fn say(&self, answers: Vec<(u64, Answer)>) {
        let (mut piece, mut size) = (Vec::new(), 0);
        let unread: Vec<_> = {
            let files = self.files();
            let under_way = answers.iter().filter_map(|(id, _)| Some((*id, Arc::clone(files.get(id)?))));
            under_way.filter(|(_, file)| file.is_unread()).collect()
        };
        for (id, answer) in answers {
            size += answer.packed_len();
            piece.push((id, answer));
            if size >= ANSWERED {
                self.sender.send(&ToSender::Answer(std::mem::take(&mut piece)));
                size = 0;
            }
        }
        if !piece.is_empty() {
            self.sender.send(&ToSender::Answer(piece));
        }
        // Not before: the sender takes no word on a file that it has no answer about.
        for (id, file) in unread {
            self.recheck.add((id, file));
        }
    }

    /// What is wanted of an offer; `None` where that is said once the file was compared.
    fn answer(&self, place: &CopyDestination, offer: Offered) -> Option<Answer> {
        let answer = self.answered(place, offer);
        match &answer {
            Some(Answer::Refused(failure)) => self.passing.lacks(failure),
            Some(Answer::LeftOut) => self.passing.lacks(&Failure::local("a file was left out there")),
            _ => {}
        }
        answer
    }

    fn answered(&self, place: &CopyDestination, offer: Offered) -> Option<Answer> {
        self.passing.offered(&offer);
        let Offered { id, mut entry, digest } = offer;
        self.give(&mut entry);
        let there = match self.there_is(place, &entry, digest) {
            There::Refused(failure) => return Some(Answer::Refused(failure)),
            There::LeftOut => return Some(Answer::LeftOut),
            There::Same(there) => return Some(self.nothing(place, id, &entry, Some(&there))),
            There::Linked => return Some(self.nothing(place, id, &entry, None)),
            There::Other(there) => there,
        };
        if self.options.dry_run {
            let goes = self.would_make_way(place, &entry, true);
            if goes != Ok(true) && self.would_be_barred(place, &entry, false) {
                return Some(Answer::LeftOut);
            }
            self.count_newer(self.replaces_newer(place, &entry));
            self.tell_copy(&entry, self.change_of(place, &entry));
            return Some(Answer::Nothing);
        }
        if !self.options.in_blocks(&entry) {
            self.passing.comes_in_batch(id);
            return Some(Answer::All);
        }
        place.begin_folder(&self.options.command);
        // What is in its own place stays until all of it is here.
        let obstacle = self.obstacle(place, &entry).ok().flatten();
        let will_have_gone = obstacle.as_ref() == Some(&entry.name);
        if obstacle.is_some()
            && !will_have_gone
            && let Err(failure) = self.make_way(place, &entry)
        {
            return Some(Answer::Refused(failure));
        }
        if self.files().len() >= MAX_UNDER_WAY {
            let failure = Failure::new(FailureKind::Session, "too many files were offered at once");
            return Some(Answer::Refused(failure));
        }
        let old = there.filter(is_worth_a_signature);
        let entry = match old {
            Some(old) => match self.offers.put_aside(Box::new(Comparison { id, entry, old })) {
                Ok(()) => return None,
                Err(too_many) => too_many.entry,
            },
            None => entry,
        };
        Some(self.begin_file(place, id, entry, will_have_gone))
    }

    /// Whether a file takes the place of a newer one, which rsync's `-u` keeps: to be asked before it does.
    pub(super) fn replaces_newer(&self, place: &CopyDestination, entry: &Entry) -> bool {
        let is_newer = |there: Entry| there.is_file() && there.mtime > entry.mtime;
        let there = || place.target.existing(&entry.name).ok().flatten();
        self.options.update && entry.is_file() && there().is_some_and(is_newer)
    }

    /// Counts a file that has its name, or would have, if it replaced a newer one.
    pub(super) fn count_newer(&self, replaced_newer: bool) {
        self.newer.fetch_add(replaced_newer.into(), Relaxed);
    }

    /// Notes how many newer files were overwritten, which rsync's `-u` keeps.
    pub(super) fn say_newer(&self) {
        let newer = self.newer.load(Relaxed);
        if newer > 0 {
            let files = counted(newer, "newer file");
            let are = match (newer, self.options.dry_run) {
                (_, true) => "would be",
                (1, _) => "was",
                _ => "were",
            };
            let words = format_args!("{files} at the target {are} overwritten (rsync's -u keeps them)");
            self.problem(Name::root(), Failure::local(words), true);
        }
    }

    /// Nothing is wanted of a file: it is `there`, or was linked to.
    fn nothing(&self, place: &CopyDestination, id: u64, entry: &Entry, there: Option<&Entry>) -> Answer {
        if let Err(failure) = self.make_durable(entry) {
            return Answer::Refused(failure);
        }
        self.passing.same(id);
        there.iter().for_each(|there| self.tell_attributes(place, entry, there));
        self.counts.files.fetch_add(1, Relaxed);
        self.counts.unchanged.fetch_add(1, Relaxed);
        Answer::Nothing
    }

    /// What there is of an offered file.
    fn there_is(&self, place: &CopyDestination, entry: &Entry, digest: Option<Digest>) -> There {
        if let Err(failure) = place.admits(&entry.name) {
            return There::Refused(failure);
        }
        if self.leaves(place, entry) || self.barred.holds(entry, false) {
            return There::LeftOut;
        }
        let asked = self.options.asks_first();
        let there = if asked { place.target.existing(&entry.name).ok().flatten() } else { None };
        match there {
            Some(there) if self.is_same(place, entry, &there, digest) => There::Same(Box::new(there)),
            _ if self.is_linked(place, entry) => There::Linked,
            there => There::Other(there),
        }
    }

    /// What a copy would want of a file. Of an end that only foretells ([`Receiver::would_place`]): nothing
    /// is done about it.
    pub(crate) fn would_take(&self, mut entry: Entry) -> Want {
        let Some(place) = self.place.get() else { return Want::All };
        self.give(&mut entry);
        match self.there_is(place, &entry, None) {
            There::Other(Some(old)) if is_worth_a_signature(&old) && self.options.in_blocks(&entry) => {
                Want::Difference
            }
            There::Other(_) => Want::All,
            There::Refused(_) | There::LeftOut | There::Same(_) | There::Linked => Want::Nothing,
        }
    }

    /// So many bytes were read to compare them: told now and then, so that nobody takes that for standing
    /// still.
    fn reads(&self, bytes: u64) {
        let before = self.counts.reads(bytes);
        if before / TOLD_EVERY != (before + bytes) / TOLD_EVERY {
            self.sender.send(&ToSender::Reads(before + bytes));
        }
    }

    /// Makes a place for a file that is to come.
    fn begin_file(&self, place: &CopyDestination, id: u64, entry: Entry, will_have_gone: bool) -> Answer {
        match Incoming::begin(&place.target, entry.clone(), will_have_gone, &self.disk) {
            Ok(mut file) => {
                file.change = self.change_of(place, &entry);
                self.take(id, file)
            }
            Err(failure) if self.is_barred(place, &entry, false, &failure) => Answer::LeftOut,
            Err(failure) => Answer::Refused(failure),
        }
    }

    fn is_same(&self, place: &CopyDestination, entry: &Entry, there: &Entry, digest: Option<Digest>) -> bool {
        // What is there may be the source itself over another way, also on another machine that shares its
        // file system: a copy of its own is made before that is removed.
        if self.options.selection.remove_source_files {
            return false;
        }
        let same = if self.options.checksum {
            let own =
                || digest_of_file(place.target.open_existing(&entry.name).ok()?, |bytes| self.reads(bytes));
            there.is_file() && there.size() == entry.size() && digest.is_some() && digest == own()
        } else {
            self.options.update && self.looks_same(place, entry, there)
                || self.options.selection.size_only && compare::same_size(entry, there)
        };
        same && (self.options.dry_run || place.target.mend(entry, there).is_ok())
    }

    /// By size and time, as far as the target keeps times: where it cuts them they are equal once they are
    /// cut.
    fn looks_same(&self, place: &CopyDestination, entry: &Entry, there: &Entry) -> bool {
        let kept = || place.target.keeps_time(&entry.name, entry.mtime, !self.options.dry_run);
        compare::unchanged(entry, there, self.options.modify_window)
            || compare::same_size(entry, there) && kept() == Some(there.mtime)
    }

    /// A file that is to come: all of it, or what an earlier run did not have.
    fn take(&self, id: u64, mut file: Incoming) -> Answer {
        let there = file.there();
        let answer = if there.is_empty() || there.len() > MAX_SUBTREES {
            file.begin_anew();
            Answer::All
        } else {
            Answer::Rest(there)
        };
        file.left = file.kept();
        self.counts.keeps(file.left);
        self.passing.grows(id, &file);
        self.files().insert(id, Arc::new(file));
        answer
    }

    /// Tells the signature of what is in the file's place. What is wanted otherwise, where that is of no use:
    /// an earlier run has left a part, or it cannot be read.
    fn compare(&self, place: &CopyDestination, Comparison { id, entry, old }: Comparison) -> Option<Answer> {
        let permit = self.offers.permit(Signature::expected_len(old.size()))?;
        let mut file = match Incoming::begin(&place.target, entry, false, &self.disk) {
            Ok(file) => file,
            Err(failure) => {
                self.passing.lacks(&failure);
                return Some(Answer::Refused(failure));
            }
        };
        file.change = self.change_of(place, &file.entry);
        if !file.there().is_empty() {
            return Some(self.take(id, file));
        }
        // Those behind this host in a chain compare theirs meanwhile.
        self.passing.grows(id, &file);
        let signed = place.target.open_existing(&old.name).and_then(|old| {
            let signature = Signature::of(&old, &file.entry.name, &|bytes| self.reads(bytes))?;
            Ok((signature, old))
        });
        // Serialising into memory fails only for types without a length, of which there is none.
        let signed =
            signed.ok().and_then(|(signature, old)| Some((postcard::to_allocvec(&signature).ok()?, old)));
        let Some((signature, old)) = signed else { return Some(self.take(id, file)) };
        (file.old, file.permit) = (Some(old), Some(permit));
        self.files().insert(id, Arc::new(file));
        let _turn = self.offers.turn();
        for piece in signature.chunks(PIECE) {
            self.sender.send(&ToSender::Signature(id, piece.to_vec()));
        }
        self.say(vec![(id, Answer::Differing)]);
        None
    }
}
