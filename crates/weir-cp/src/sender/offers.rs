//! Files that the other end knows by number: offered, answered, under way, stored or given up.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::{Condvar, Mutex, MutexGuard};
use weir_tree::delta::Signature;
use weir_tree::{Entry, Name, Source};

use super::job::Item;
use super::removal::Removal;
use super::shared::Shared;
use super::source::SourceFile;
use super::walk::REST;
use crate::counts::{lower, raise};
use crate::error::CopyError;
use crate::feed::{FeedOutcome, Growing};
use crate::subtrees::Digest;
use crate::wire::message::{Failure, FailureKind, MAX_UNDER_WAY, Problem};
use crate::wire::to_receiver::{Offered, ToReceiver};
use crate::wire::to_sender::Answer;

/// Signatures that are being received: of one file at most 16 MiB.
const MAX_SIGNATURES: usize = 16 << 20;

/// With those of files whose recipe is not made yet. The other end keeps to 16 MiB as well, by what it
/// expects of a size; cuts at their shortest (2 KiB of 2.5 KB in the mean) make a quarter more of it.
const MAX_HELD: usize = 2 * MAX_SIGNATURES;

/// What became of each offer.
#[derive(Debug)]
pub(super) struct Offers {
    shared: Arc<Shared>,
    removal: Arc<Removal>,
    files: Mutex<Files>,
    /// A file that travels in blocks is stored, or given up.
    freed: Condvar,
}

/// Files that the other end knows by number.
#[derive(Debug, Default)]
struct Files {
    offered: HashMap<u64, Waiting>,
    /// The one whose answer is being acted on: in neither of both.
    answered: Option<u64>,
    under_way: HashMap<u64, Arc<SourceFile>>,
    /// Pieces so far.
    signatures: HashMap<u64, Vec<u8>>,
    /// Those of them that travel in blocks, if the other end wants them.
    large: usize,
    next_id: u64,
}

/// A file whose answer has not come.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Its place in the order of the walk.
    pub(super) number: u64,
    pub(super) entry: Entry,
    pub(super) source: Source,
    /// How often it was begun.
    pub(super) attempt: u8,
    /// Where its blocks come to this host while they are sent.
    pub(super) growing: Option<Arc<Growing>>,
    /// What its content has to be, where that came from elsewhere in one piece, or was compared there.
    pub(super) due: Option<Digest>,
}

impl Offers {
    pub(super) fn new(shared: &Arc<Shared>, removal: &Arc<Removal>) -> Offers {
        let (shared, removal) = (Arc::clone(shared), Arc::clone(removal));
        Offers { shared, removal, files: Mutex::default(), freed: Condvar::new() }
    }

    /// A file that is about to be offered under a number of its own.
    pub(super) fn expect(&self, waiting: Waiting) -> u64 {
        let mut files = self.files();
        files.next_id += 1;
        let id = files.next_id;
        files.offered.insert(id, waiting);
        id
    }

    /// Waits while too many files that travel in blocks are under way, and counts one more; false when it
    /// is over. What was not offered is never answered: `before_waiting` offers it.
    pub(super) fn take_place(&self, mut before_waiting: impl FnMut()) -> bool {
        let mut files = self.files();
        while files.large >= MAX_UNDER_WAY / 2 && !self.shared.is_over() {
            drop(files);
            before_waiting();
            files = self.files();
            if files.large >= MAX_UNDER_WAY / 2 {
                // A while at most: what ends the session may come just before this waits.
                self.freed.wait_for(&mut files, REST);
            }
        }
        files.large += 1;
        !self.shared.is_over()
    }

    /// Whether a file that travels in blocks is offered or on its way under this name.
    pub(super) fn is_under_way(&self, name: &Name) -> bool {
        let files = self.files();
        let mut offered = files.offered.values().map(|waiting| &waiting.entry);
        offered.any(|entry| entry.name == *name)
            || files.under_way.values().any(|file| file.entry.name == *name)
    }

    /// The receiver's answers.
    pub(super) fn answers(&self, answers: Vec<(u64, Answer)>) -> Result<(), CopyError> {
        let mut settled = Vec::new();
        for (id, answer) in answers {
            settled.extend(self.answered(id, answer)?);
            self.files().answered = None;
        }
        self.shared.queue.settle(&settled);
        Ok(())
    }

    /// All work ends.
    pub(super) fn stop(&self) {
        self.freed.notify_all();
    }

    /// Does what the receiver wants. Returns the entry's number where that is nothing.
    fn answered(&self, id: u64, answer: Answer) -> Result<Option<u64>, CopyError> {
        let Some(waiting) = self.take_offered(id) else {
            return Err(self.shared.events.out_of_turn("an answer to no offer"));
        };
        let is_wanted = !matches!(answer, Answer::Nothing | Answer::LeftOut | Answer::Refused(_));
        if is_wanted && self.is_unproven(&waiting) {
            let name = &waiting.entry.name;
            let words = format_args!("{name} is there by its size and time, and was compared with nothing");
            self.shared.cannot_pass_on(&Failure::local(words));
            return Ok(None);
        }
        match answer {
            Answer::All if !self.shared.options.in_blocks(&waiting.entry) => {
                let Waiting { number, entry, source, due, .. } = waiting;
                self.shared.queue.push_item(Item {
                    number,
                    entry,
                    source: Some(source),
                    last: false,
                    keep: None,
                    due,
                });
            }
            Answer::Rest(_) | Answer::Differing if !self.shared.options.in_blocks(&waiting.entry) => {
                return Err(self.shared.events.out_of_turn("a small file's parts"));
            }
            Answer::All => self.send_file(id, waiting, &[], None),
            Answer::Rest(nodes) => self.send_file(id, waiting, &nodes, None),
            Answer::Differing => {
                let signature = self.files().signatures.remove(&id).unwrap_or_default();
                // One that cannot be read is as good as none.
                let old = postcard::from_bytes::<Signature>(&signature).ok();
                self.send_file(id, waiting, &[], old.map(|old| (old, signature.len())));
            }
            Answer::Nothing => {
                self.shared.counts.unchanged.fetch_add(1, Relaxed);
                lower(&self.shared.found_bytes, waiting.entry.size());
                self.shared.count_file(&waiting.entry);
                self.free(&waiting.entry);
                self.removal.remove_source(&waiting.entry, &waiting.source);
                return Ok(Some(waiting.number));
            }
            Answer::LeftOut => {
                lower(&self.shared.found_bytes, waiting.entry.size());
                self.shared.found_files.fetch_sub(1, Relaxed);
                self.free(&waiting.entry);
                return Ok(Some(waiting.number));
            }
            Answer::Refused(failure) => {
                self.free(&waiting.entry);
                self.shared.lose(&waiting.entry, waiting.number);
                self.shared.problem_there(waiting.entry.name, failure);
                return Ok(Some(waiting.number));
            }
        }
        Ok(None)
    }

    /// An offer whose answer is acted on from here on.
    pub(super) fn take_offered(&self, id: u64) -> Option<Waiting> {
        let mut files = self.files();
        // Whoever follows it must not find it gone before it is under way.
        files.answered = Some(id);
        files.offered.remove(&id)
    }

    /// The next piece of a signature: of a file that was offered, within bounds.
    pub(super) fn take_signature(&self, id: u64, piece: &[u8]) -> Result<(), CopyError> {
        let mut files = self.files();
        let coming: usize = files.signatures.values().map(Vec::len).sum::<usize>() + piece.len();
        let held: usize = files.under_way.values().map(|file| file.signature_held()).sum();
        if !files.offered.contains_key(&id) || coming > MAX_SIGNATURES || coming + held > MAX_HELD {
            return Err(self.shared.events.out_of_turn("a signature of no file"));
        }
        files.signatures.entry(id).or_default().extend_from_slice(piece);
        Ok(())
    }

    /// Bytes of files that grow here and go once they are whole: of a source that grows those that are there,
    /// since nobody counts the others.
    pub(super) fn held_back(&self, of_source: bool) -> u64 {
        let files = self.files();
        let held_back = files.under_way.values().filter(|file| file.goes_whole()).filter_map(|file| {
            let growing = file.growing().filter(|growing| growing.outcome().is_none())?;
            let counted = if of_source { growing.outstanding() } else { 0 };
            Some(file.entry.size().saturating_sub(counted))
        });
        held_back.fold(0, u64::saturating_add)
    }

    /// All blocks of a file but those that the other end has.
    fn send_file(
        &self,
        id: u64,
        offered: Waiting,
        there: &[(u8, u64, Digest)],
        old: Option<(Signature, usize)>,
    ) {
        let file = Arc::new(SourceFile::new(id, offered, old));
        if !file.adopt(there) {
            // The other end's word on its own journal makes no sense: it will not accept the digest either.
            tracing::debug!("{}: subtrees that cannot be", file.entry.name);
        }
        self.files().under_way.insert(id, Arc::clone(&file));
        self.shared.counts.keeps(file.kept());
        if file.growing().is_some() {
            // What has come of it is sent by who follows.
            return self.shared.feed.get().into_iter().for_each(|feed| feed.poke());
        }
        if file.is_unread() {
            self.shared.reread.add(Arc::clone(&file));
        }
        let runs = file.missing();
        match file.root() {
            Some(root) => self.end_well(&file, root),
            None if !runs.is_empty() => self.shared.queue.push_file(file, runs),
            None => {}
        }
    }

    /// A file of which the other end had something is another by now: nothing of that is of use.
    fn begins_anew(&self, file: &SourceFile) {
        self.shared.counts.unkeep(file.kept());
        let name = file.entry.name.clone();
        let words = format!("{name} is not what it was when its copy was begun: all of it is copied again");
        let failure = Failure::new(FailureKind::Changed, words);
        self.shared.events.problem(Problem { name, failure, harmless: true });
    }

    /// Whether one more file that travels in blocks may be under way.
    pub(super) fn has_place(&self) -> bool {
        self.files().large < MAX_UNDER_WAY / 2
    }

    /// The same, taken.
    pub(super) fn count_place(&self) {
        self.files().large += 1;
    }

    /// A file that is under way; `Err` says whether it may still be.
    pub(super) fn under_way(&self, id: u64) -> Result<Arc<SourceFile>, bool> {
        let files = self.files();
        let is_offered = || files.offered.contains_key(&id) || files.answered == Some(id);
        files.under_way.get(&id).cloned().ok_or_else(is_offered)
    }

    /// Whether this host passes on a file that did not come to it: by size and time it is the source's, and
    /// nobody knows what is in it.
    fn is_unproven(&self, waiting: &Waiting) -> bool {
        !self.is_source()
            && self.shared.feed.get().is_some()
            && waiting.growing.is_none()
            && waiting.due.is_none()
    }

    /// Ends a file that comes to this host, once it is known how it ended here and all of it was sent.
    pub(super) fn conclude(&self, file: &Arc<SourceFile>) {
        match (file.growing().and_then(|growing| growing.outcome()), file.root()) {
            (Some(FeedOutcome::Stored(due)), Some(root)) if due == root => self.end_well(file, root),
            // What the other end had of it, or what was read before, is of another: it has to come anew.
            (Some(FeedOutcome::Stored(_)), Some(_)) if self.is_source() => self.withdraw(file),
            (Some(FeedOutcome::Stored(_)), Some(_)) => {
                let words = format!("{} is not what came here any more", file.entry.name);
                self.shared.cannot_pass_on(&Failure::new(FailureKind::Verification, words));
            }
            (Some(FeedOutcome::Gone), _) => self.withdraw(file),
            _ => {}
        }
    }

    fn is_source(&self) -> bool {
        self.shared.feed.get().is_some_and(|feed| feed.is_source())
    }

    /// A file that is none, as was said where that became known.
    fn withdraw(&self, file: &Arc<SourceFile>) {
        file.end();
        if self.files().under_way.remove(&file.id).is_none() {
            return;
        }
        let words = format!("{} did not come to its end", file.entry.name);
        let failure = Failure::new(FailureKind::Changed, words);
        if self.is_source() {
            self.shared.problem(file.entry.name.clone(), failure.clone());
        }
        self.shared.receiver.send(&ToReceiver::End(file.id, Err(failure)));
        self.free(&file.entry);
        self.shared.lose(&file.entry, file.number);
        self.shared.queue.settle(&[file.number]);
    }

    /// Blocks that the other end had when it answered are not what they were.
    pub(super) fn wanted_again(&self, id: u64, blocks: &[u64]) -> Result<(), CopyError> {
        // It may have ended otherwise meanwhile.
        let Some(file) = self.files().under_way.get(&id).cloned() else { return Ok(()) };
        if !file.give_back(blocks) {
            return Err(self.shared.events.out_of_turn("blocks that it did not have, or twice"));
        }
        let extents = blocks.iter().map(|block| file.extent(&(*block..*block + 1)));
        self.shared.counts.unkeep(extents.map(|extent| extent.end - extent.start).sum());
        // Those that have not come to this host are sent when they do.
        let has = |block: &&u64| file.growing().is_none_or(|growing| growing.has(**block));
        let blocks: Vec<u64> = blocks.iter().filter(has).copied().collect();
        self.shared.queue.push_blocks(&file, &blocks);
        Ok(())
    }

    /// All of a file is read.
    pub(super) fn end_well(&self, file: &Arc<SourceFile>, root: Digest) {
        if !file.may_be(&root) {
            let words = format!("{} is not what was compared here", file.entry.name);
            return self.shared.cannot_pass_on(&Failure::new(FailureKind::Verification, words));
        }
        if !file.end() {
            self.shared.vouch(&file.entry.name, root);
            self.shared.receiver.send(&ToReceiver::End(file.id, Ok(root)));
        }
    }

    /// A file cannot be sent to its end.
    pub(super) fn give_up(&self, file: &Arc<SourceFile>, failure: Failure) {
        if self.shared.feed.get().is_some() {
            if file.growing().is_none() && failure.kind == FailureKind::Changed {
                // What the next host has of it is of another version: it is to begin anew.
                self.shared.receiver.send(&ToReceiver::End(file.id, Err(failure.clone())));
            }
            // The next host is fed by another.
            return match file.growing().and_then(|growing| growing.outcome()) {
                Some(FeedOutcome::Gone) => self.withdraw(file),
                _ => self.shared.cannot_pass_on(&failure),
            };
        }
        file.end();
        // Once: also after its digest was told, when a block has to go again and cannot any more.
        if self.files().under_way.remove(&file.id).is_none() {
            return;
        }
        self.shared.receiver.send(&ToReceiver::End(file.id, Err(failure.clone())));
        match file.again().filter(|_| failure.kind == FailureKind::Changed) {
            Some(next) => self.offer_again(file, next),
            None => {
                self.free(&file.entry);
                self.shared.lose(&file.entry, file.number);
                match file.vanished() {
                    Some(vanished) => self.shared.vanished(file.entry.name.clone(), vanished),
                    None => self.shared.unread(file.entry.name.clone(), failure),
                }
                self.shared.queue.settle(&[file.number]);
            }
        }
    }

    /// The same file as it is now.
    fn offer_again(&self, file: &SourceFile, next: Waiting) {
        if file.is_unread() {
            self.begins_anew(file);
        }
        if !self.shared.options.in_blocks(&next.entry) {
            self.free(&file.entry);
        }
        raise(&self.shared.found_bytes, next.entry.size());
        lower(&self.shared.found_bytes, file.entry.size());
        let entry = next.entry.clone();
        let offer = Offered { id: self.expect(next), entry, digest: None };
        self.shared.receiver.send(&ToReceiver::Offer(vec![offer]));
    }

    /// A file that was offered is done with.
    fn free(&self, entry: &Entry) {
        if self.shared.options.in_blocks(entry) {
            self.files().large -= 1;
            self.freed.notify_all();
        }
    }

    pub(super) fn stored(&self, id: u64, outcome: Result<Digest, Failure>) {
        let Some(file) = self.files().under_way.remove(&id) else { return };
        file.end();
        // It is another than when its copy was begun, as a block of it has shown that was to come again.
        if outcome.as_ref().is_err_and(|failure| failure.kind == FailureKind::Changed)
            && let Some(next) = file.again()
        {
            return self.offer_again(&file, next);
        }
        self.free(&file.entry);
        match outcome {
            Ok(stored) if file.root() == Some(stored) => {
                self.shared.count_file(&file.entry);
                self.removal.remove_source(&file.entry, file.source());
            }
            Ok(_) => {
                let name = file.entry.name.clone();
                let words = format!("{name} was stored as another file: the digests differ; copy it again");
                self.shared.lose(&file.entry, file.number);
                self.shared.problem(name, Failure::new(FailureKind::Verification, words));
            }
            Err(failure) => {
                self.shared.lose(&file.entry, file.number);
                self.shared.problem_there(file.entry.name.clone(), failure);
            }
        }
        self.shared.queue.settle(&[file.number]);
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock()
    }
}
