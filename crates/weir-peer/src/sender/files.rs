//! Files that the other end knows by number: offered, answered, under way, stored or given up.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::MutexGuard;
use weir_tree::delta::Signature;
use weir_tree::{Entry, Source};

use super::Sender;
use super::job::Item;
use super::source::SourceFile;
use crate::error::Error;
use crate::subtrees::Digest;
use crate::wire::message::{Failure, FailureKind};
use crate::wire::to_receiver::{Offered, ToReceiver};
use crate::wire::to_sender::Answer;

/// Signatures that are being received: of one file at most 16 MiB.
const MAX_SIGNATURES: usize = 16 << 20;

/// With those of files whose recipe is not made yet. The other end keeps to 16 MiB as well, by what it expects of a size; cuts at
/// their shortest (2 KiB of 2.5 KB in the mean) make a quarter more of it.
const MAX_HELD: usize = 2 * MAX_SIGNATURES;

/// Files that the other end knows by number.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) offered: HashMap<u64, Waiting>,
    pub(super) under_way: HashMap<u64, Arc<SourceFile>>,
    /// Pieces so far.
    pub(super) signatures: HashMap<u64, Vec<u8>>,
    /// Those of them that travel in blocks, if the other end wants them.
    pub(super) large: usize,
    pub(super) next_id: u64,
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
}

impl Sender {
    /// Does what the receiver wants. Returns the entry's number where that is nothing.
    pub(super) fn answered(&self, id: u64, answer: Answer) -> Result<Option<u64>, Error> {
        let waiting = self.files().offered.remove(&id);
        let Some(waiting) = waiting else {
            return Err(self.events.out_of_turn("an answer to no offer"));
        };
        match answer {
            Answer::All if !self.options.in_blocks(&waiting.entry) => {
                let Waiting { number, entry, source, .. } = waiting;
                self.queue.push_item(Item { number, entry, source: Some(source), last: false, keep: None });
            }
            Answer::Rest(_) | Answer::Differing if !self.options.in_blocks(&waiting.entry) => {
                return Err(self.events.out_of_turn("a small file's parts"));
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
                self.counts.unchanged.fetch_add(1, Relaxed);
                self.found.fetch_sub(waiting.entry.size(), Relaxed);
                self.count_file(&waiting.entry);
                self.free(&waiting.entry);
                self.remove_source(&waiting.entry, &waiting.source);
                return Ok(Some(waiting.number));
            }
            Answer::LeftOut => {
                self.found.fetch_sub(waiting.entry.size(), Relaxed);
                self.found_files.fetch_sub(1, Relaxed);
                self.free(&waiting.entry);
                return Ok(Some(waiting.number));
            }
            Answer::Refused(failure) => {
                self.free(&waiting.entry);
                self.lose(&waiting.entry, waiting.number);
                self.problem(waiting.entry.name, failure);
                return Ok(Some(waiting.number));
            }
        }
        Ok(None)
    }

    /// The next piece of a signature: of a file that was offered, within bounds.
    pub(super) fn take_signature(&self, id: u64, piece: &[u8]) -> Result<(), Error> {
        let mut files = self.files();
        let coming: usize = files.signatures.values().map(Vec::len).sum::<usize>() + piece.len();
        let held: usize = files.under_way.values().map(|file| file.signature_held()).sum();
        if !files.offered.contains_key(&id) || coming > MAX_SIGNATURES || coming + held > MAX_HELD {
            return Err(self.events.out_of_turn("a signature of no file"));
        }
        files.signatures.entry(id).or_default().extend_from_slice(piece);
        Ok(())
    }

    /// All blocks of a file but those that the other end has.
    pub(super) fn send_file(
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
        let runs = file.missing();
        let left: u64 = runs.iter().map(|run| file.extent(run)).map(|extent| extent.end - extent.start).sum();
        self.counts.kept.fetch_add(file.entry.size() - left, Relaxed);
        match file.root() {
            Some(root) => self.end_well(&file, root),
            None => self.queue.push_file(file, runs),
        }
    }

    /// Blocks that the other end had when it answered are not what they were.
    pub(super) fn wanted_again(&self, id: u64, blocks: &[u64]) -> Result<(), Error> {
        // It may have ended otherwise meanwhile.
        let Some(file) = self.files().under_way.get(&id).cloned() else { return Ok(()) };
        if !file.give_back(blocks) {
            return Err(self.events.out_of_turn("blocks that it did not have, or twice"));
        }
        let extents = blocks.iter().map(|block| file.extent(&(*block..*block + 1)));
        self.counts.kept.fetch_sub(extents.map(|extent| extent.end - extent.start).sum(), Relaxed);
        self.queue.push_blocks(&file, blocks);
        Ok(())
    }

    /// All of a file is read.
    pub(super) fn end_well(&self, file: &Arc<SourceFile>, root: Digest) {
        if !file.end() {
            self.receiver.send(&ToReceiver::End(file.id, Ok(root)));
        }
    }

    /// A file cannot be sent to its end.
    pub(super) fn give_up(&self, file: &Arc<SourceFile>, failure: Failure) {
        file.end();
        // Once: also after its digest was told, when a block has to go again and cannot any more.
        if self.files().under_way.remove(&file.id).is_none() {
            return;
        }
        self.receiver.send(&ToReceiver::End(file.id, Err(failure.clone())));
        match file.again().filter(|_| failure.kind == FailureKind::Changed) {
            Some(next) => {
                if !self.options.in_blocks(&next.entry) {
                    self.free(&file.entry);
                }
                let id = self.next_id();
                let offer = Offered { id, entry: next.entry.clone(), digest: None };
                self.files().offered.insert(id, next);
                self.receiver.send(&ToReceiver::Offer(vec![offer]));
            }
            None => {
                self.free(&file.entry);
                self.lose(&file.entry, file.number);
                self.unread(file.entry.name.clone(), failure);
                self.queue.settle(&[file.number]);
            }
        }
    }

    /// What has this entry's name at the target is not what is here: second names of it are not to be made.
    pub(super) fn lose(&self, entry: &Entry, number: u64) {
        if self.options.archive && entry.is_file() {
            self.lost.note(&entry.name, number);
        }
    }

    /// A file that was offered is done with.
    pub(super) fn free(&self, entry: &Entry) {
        if self.options.in_blocks(entry) {
            self.files().large -= 1;
            self.freed.notify_all();
        }
    }

    pub(super) fn stored(&self, id: u64, outcome: Result<Digest, Failure>) {
        let Some(file) = self.files().under_way.remove(&id) else { return };
        file.end();
        self.free(&file.entry);
        let outcome = outcome.and_then(|stored| {
            let other =
                format!("{} was stored as another file: the digests differ; copy it again", file.entry.name);
            let same = file.root() == Some(stored);
            if same { Ok(()) } else { Err(Failure::new(FailureKind::Verification, other)) }
        });
        match outcome {
            Ok(()) => {
                self.count_file(&file.entry);
                self.remove_source(&file.entry, file.source());
            }
            Err(failure) => {
                self.lose(&file.entry, file.number);
                self.problem(file.entry.name.clone(), failure);
            }
        }
        self.queue.settle(&[file.number]);
    }

    pub(super) fn next_id(&self) -> u64 {
        let mut files = self.files();
        files.next_id += 1;
        files.next_id
    }

    pub(super) fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock()
    }
}
