//! Files that the other end knows by number: offered, answered, under way, stored or given up.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};

use weir_tree::delta::Signature;
use weir_tree::{Entry, Source};

use super::queue::Item;
use super::source::SourceFile;
use super::{SMALL, Sender};
use crate::error::Error;
use crate::subtrees::Digest;
use crate::wire::message::{Answer, Failure, FailureKind, Message, Offered};

/// Signatures that are being received: of one file at most 16 MiB.
const MAX_SIGNATURES: usize = 16 << 20;

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
            Answer::All if waiting.entry.size() <= SMALL => {
                let Waiting { number, entry, source, .. } = waiting;
                self.queue.push_item(Item { number, entry, source: Some(source), last: false, keep: None });
            }
            Answer::All => self.send_file(id, waiting, &[], None),
            Answer::Rest(nodes) => self.send_file(id, waiting, &nodes, None),
            Answer::Differing => {
                let signature = self.files().signatures.remove(&id).unwrap_or_default();
                // One that cannot be read is as good as none.
                let signature = postcard::from_bytes::<Signature>(&signature).ok();
                self.send_file(id, waiting, &[], signature);
            }
            Answer::Nothing => {
                self.counts.unchanged.fetch_add(1, Relaxed);
                self.found.fetch_sub(waiting.entry.size(), Relaxed);
                self.count_file(&waiting.entry);
                self.free(&waiting.entry);
                return Ok(Some(waiting.number));
            }
            Answer::Refused(failure) => {
                self.free(&waiting.entry);
                self.problem(waiting.entry.name, failure);
                return Ok(Some(waiting.number));
            }
        }
        Ok(None)
    }

    /// The next piece of a signature: of a file that was offered, within bounds.
    pub(super) fn take_signature(&self, id: u64, piece: &[u8]) -> Result<(), Error> {
        let mut files = self.files();
        let others: usize = files.signatures.values().map(Vec::len).sum();
        if !files.offered.contains_key(&id) || others + piece.len() > MAX_SIGNATURES {
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
        old: Option<Signature>,
    ) {
        let file = Arc::new(SourceFile::new(id, offered, old));
        if !file.adopt(there) {
            // The other end's word on its own journal makes no sense: it will not accept the digest either.
            tracing::debug!("{}: subtrees that cannot be", file.entry.name);
        }
        self.files().under_way.insert(id, Arc::clone(&file));
        let runs = file.missing();
        let left: u64 =
            runs.iter().map(|run| file.extent(run.end - 1).end - file.extent(run.start).start).sum();
        self.counts.kept.fetch_add(file.entry.size() - left, Relaxed);
        match file.root() {
            Some(root) => self.end_well(&file, root),
            None => self.queue.push_file(file, runs),
        }
    }

    /// All of a file is read.
    pub(super) fn end_well(&self, file: &Arc<SourceFile>, root: Digest) {
        if !file.end() {
            self.control.send(&Message::End(file.id, Ok(root)));
        }
    }

    /// A file cannot be sent to its end.
    pub(super) fn give_up(&self, file: &Arc<SourceFile>, failure: Failure) {
        if file.end() {
            return;
        }
        self.control.send(&Message::End(file.id, Err(failure.clone())));
        self.files().under_way.remove(&file.id);
        match file.again().filter(|_| failure.kind == FailureKind::Changed) {
            Some(next) => {
                if next.entry.size() <= SMALL {
                    self.free(&file.entry);
                }
                let id = self.next_id();
                let offer = Offered { id, entry: next.entry.clone(), digest: None };
                self.files().offered.insert(id, next);
                self.control.send(&Message::Offer(vec![offer]));
            }
            None => {
                self.free(&file.entry);
                self.unread(file.entry.name.clone(), failure);
                self.queue.settle(&[file.number]);
            }
        }
    }

    /// A file that was offered is done with.
    pub(super) fn free(&self, entry: &Entry) {
        if entry.size() > SMALL {
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
            Ok(()) => self.count_file(&file.entry),
            Err(failure) => self.problem(file.entry.name.clone(), failure),
        }
        self.queue.settle(&[file.number]);
    }

    pub(super) fn next_id(&self) -> u64 {
        let mut files = self.files();
        files.next_id += 1;
        files.next_id
    }

    pub(super) fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
