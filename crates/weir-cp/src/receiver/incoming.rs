//! A file that arrives in blocks.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard, RwLock};
use weir_tree::{Entry, Kind, Pending, Target};

use super::disk_failure::DiskFailure;
use super::journal::{self, Journal, Written};
use super::offer_queue::Permit;
use crate::feed::{Feed, Growing, PackedBlock};
use crate::holes;
use crate::idle_timeout::IDLE_TIMEOUT;
use crate::subtrees::{
    BLOCK, Digest, Subtrees, blocks, digest_of, digest_of_run, extent, extent_of_run, values_of, zeros_at,
};
use crate::wire::change::Change;
use crate::wire::message::{Failure, FailureKind};
use crate::wire::patch::{self, Step};
use crate::wire::record::Footer;

/// Below this a file is sent again rather than journalled: 4 MiB are a third of a second at 100 Mbit/s, and a
/// journal costs two writes and a cut for each file of a tree.
const WORTH_A_JOURNAL: u64 = 4 << 20;

/// A file that arrives.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// What it is to be.
    pub(crate) entry: Entry,
    /// What is in its place until it is finished: where patches copy from.
    pub(crate) old: Option<File>,
    /// What it changes, where that is to be told.
    pub(super) change: Option<Change>,
    /// For the signature of that, which the sender has.
    pub(super) permit: Option<Permit>,
    /// Bytes that an earlier run left, as they were counted when it began.
    pub(super) left: u64,
    /// Where blocks are told that are there, for those who pass them on.
    pub(super) passed: OnceLock<(Arc<Feed>, Arc<Growing>)>,
    pending: RwLock<Option<Pending>>,
    journal: Option<Journal>,
    state: Mutex<IncomingState>,
    disk: DiskFailure,
    /// The disk failed to take what was written. The kernel says so once, to whoever syncs next (fsync(2)).
    spoiled: AtomicBool,
}

#[derive(Debug)]
struct IncomingState {
    there: Subtrees,
    /// The sender's digest, once it has sent all.
    expected: Option<Digest>,
    /// What an earlier run left is not read again yet.
    unread: bool,
    /// Blocks that were not what their records say when they were read again, and what they have to be.
    wanted: BTreeMap<u64, Digest>,
}

/// What a block changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More is to come.
    More,
    /// All is there, and the digest is the sender's.
    Complete(Digest),
}

impl Incoming {
    /// Makes a place for the file; takes up what an earlier run left, where its journal is of the same file.
    /// What is of another kind in its place is an error, unless it `will_have_gone` by the end.
    pub(super) fn begin(
        target: &Target,
        entry: Entry,
        will_have_gone: bool,
        disk: &DiskFailure,
    ) -> Result<Incoming, Failure> {
        let journalled = match entry.size() >= WORTH_A_JOURNAL {
            true => part_with_journal(target, &entry, will_have_gone, disk)?,
            false => None,
        };
        let (pending, journal, mut there) = match journalled {
            Some((pending, journal, there)) => (pending, Some(journal), there),
            None => {
                let pending = target.create(&entry).map_err(|error| disk.failure(error))?;
                (pending, None, Subtrees::new(entry.size()))
            }
        };
        let unread = there.nodes().next().is_some();
        if entry.size() == 0 {
            // Nothing comes of its only block, which is empty.
            there.insert(0, digest_of(&[], 0, 0));
        }
        let state = Mutex::new(IncomingState { there, expected: None, unread, wanted: BTreeMap::new() });
        let pending = RwLock::new(Some(pending));
        Ok(Incoming {
            entry,
            old: None,
            change: None,
            permit: None,
            left: 0,
            passed: OnceLock::new(),
            pending,
            journal,
            state,
            disk: disk.clone(),
            spoiled: AtomicBool::new(false),
        })
    }

    /// The subtrees that are there.
    pub(crate) fn there(&self) -> Vec<(u8, u64, Digest)> {
        self.state().there.nodes().collect()
    }

    /// Counts nothing that an earlier run left: all of it comes again.
    pub(crate) fn begin_anew(&self) {
        let mut state = self.state();
        state.there = Subtrees::new(self.entry.size());
        state.unread = false;
    }

    /// What an earlier run left is still to be read again.
    pub(crate) fn is_unread(&self) -> bool {
        self.state().unread
    }

    /// Reads what an earlier run left: whatever else can write this user's files may have, since then. Calls
    /// `tell` with blocks that are not what their records say, which have to be sent after all; until they
    /// are the file is not complete. Ends early where `over` says so, or the file is given up.
    pub(crate) fn read_again(
        &self,
        over: &AtomicBool,
        mut tell: impl FnMut(Vec<u64>),
    ) -> Result<Progress, Failure> {
        let Some(journal) = &self.journal else { return self.progress() };
        let failed = |error: std::io::Error| {
            let why = weir_units::plain(&error);
            Failure::local(format_args!("cannot read the part of {}: {why}", self.entry.name))
        };
        let mut block = Vec::with_capacity(BLOCK as usize);
        let mut from = 0;
        loop {
            let piece = self.with_file(|file| journal.earlier(file, from));
            let Some(piece) = piece else { return Ok(Progress::More) };
            let Some((records, next)) = piece.map_err(failed)? else { break };
            from = next;
            let mut others = Vec::new();
            for record in records {
                let run = record.run();
                let Some(changed) = self.with_file(|file| self.changed(file, record, &mut block, over))
                else {
                    return Ok(Progress::More);
                };
                if over.load(Relaxed) {
                    return Ok(Progress::More);
                }
                self.tell_kept(run, &changed);
                let mut state = self.state();
                others.extend(changed.into_iter().filter_map(|(index, digest)| {
                    state.wanted.insert(index, digest).is_none().then_some(index)
                }));
            }
            if !others.is_empty() {
                tell(others);
            }
        }
        self.state().unread = false;
        self.progress()
    }

    /// Tells those who pass it on of what an earlier run left and is as it was.
    fn tell_kept(&self, run: Range<u64>, changed: &[(u64, Digest)]) {
        if self.passed.get().is_none() {
            return;
        }
        let mut from = run.start;
        for (index, _) in changed {
            self.tell_arrived(from..*index);
            from = index + 1;
        }
        self.tell_arrived(from..run.end.min(blocks(self.entry.size())));
    }

    /// Keeps a verified block as it came for those who pass it on.
    pub(super) fn pass_packed(&self, footer: &Footer, packed: &[u8]) {
        if let Some((feed, _)) = self.passed.get() {
            let (digest, codec) = (footer.digest, footer.codec);
            feed.keep_packed(PackedBlock { digest, codec, bytes: packed.to_vec() });
        }
    }

    /// Tells those who pass it on that blocks are there.
    fn tell_arrived(&self, run: Range<u64>) {
        if let Some((feed, growing)) = self.passed.get().filter(|_| !run.is_empty()) {
            feed.arrived(growing, run);
        }
    }

    /// The blocks of a record that are not what it says any more, and what they have to be. What is a hole
    /// still is not read.
    fn changed(
        &self,
        file: &File,
        record: Written,
        block: &mut Vec<u8>,
        over: &AtomicBool,
    ) -> Vec<(u64, Digest)> {
        let size = self.entry.size();
        let blocks: Vec<(u64, Digest)> = match record {
            Written::Block(index, digest) => vec![(index, digest)],
            Written::Zeros(run) => {
                let run = run.start..run.end.min(blocks(size));
                let data = holes::survey(file, size, &[run]).data.into_iter().flatten();
                data.map(|index| (index, zeros_at(index, size))).collect()
            }
        };
        let is_other = |(index, digest): &(u64, Digest)| !self.is_still(file, *index, digest, block);
        blocks.into_iter().take_while(|_| !over.load(Relaxed)).filter(is_other).collect()
    }

    /// Whether a block on the disk has this value. One that cannot be read has none.
    fn is_still(&self, file: &File, index: u64, digest: &Digest, block: &mut Vec<u8>) -> bool {
        let extent = extent(index, self.entry.size());
        block.resize((extent.end - extent.start) as usize, 0);
        file.read_exact_at(block, extent.start).is_ok()
            && digest_of(block, index, self.entry.size()) == *digest
    }

    /// Does something with the file, unless that is finished or given up.
    pub(super) fn with_file<T>(&self, work: impl FnOnce(&File) -> T) -> Option<T> {
        let pending = self.pending.read();
        pending.as_ref().map(|pending| work(pending.file()))
    }

    /// Bytes of the file that are there.
    pub(crate) fn kept(&self) -> u64 {
        let size = self.entry.size();
        let missing = self.state().there.missing();
        let extents = missing.iter().map(|run| extent_of_run(run, size));
        size - extents.map(|extent| extent.end - extent.start).sum::<u64>()
    }

    /// The values of these blocks, from `offset` on; `None` where they are not those of that digest.
    pub(crate) fn verify(&self, offset: u64, blocks: &[u8], digest: &Digest) -> Option<Vec<Digest>> {
        let (first, size) = (offset / BLOCK, self.entry.size());
        // Beyond its end every file has an empty block.
        if blocks.is_empty() || !offset.is_multiple_of(BLOCK) {
            return None;
        }
        let there = extent_of_run(&(first..first.checked_add((blocks.len() as u64).div_ceil(BLOCK))?), size);
        if there.start != offset || there.end - there.start != blocks.len() as u64 {
            return None;
        }
        let values = values_of(blocks, first, size);
        (digest_of_run(&values) == *digest).then_some(values)
    }

    /// Builds a block out of the old version and literals.
    pub(crate) fn build(&self, raw: &[u8], block: &mut Vec<u8>) -> Result<(), String> {
        let (steps, mut literals) = patch::parse(raw).map_err(|error| error.to_string())?;
        let old = self.old.as_ref().ok_or("there is no old version")?;
        block.clear();
        for step in steps {
            match step {
                Step::Copy { from, len } => {
                    let start = block.len();
                    block.resize(start + len as usize, 0);
                    old.read_exact_at(&mut block[start..], from).map_err(|error| error.to_string())?;
                }
                Step::Literal { len } => {
                    let (these, rest) = literals.split_at(len as usize);
                    block.extend_from_slice(these);
                    literals = rest;
                }
            }
        }
        Ok(())
    }

    /// Writes a verified block in its place; also whether it was not there before.
    pub(crate) fn write(
        &self,
        offset: u64,
        block: &[u8],
        digest: &Digest,
    ) -> Result<(Progress, bool), Failure> {
        let index = offset / BLOCK;
        let due = {
            let state = self.state();
            let due = state.wanted.get(&index).copied();
            if due.is_none() && state.there.contains(index) {
                drop(state);
                return Ok((self.progress()?, false));
            }
            due
        };
        if due.is_some_and(|due| due != *digest) {
            return Err(self.another());
        }
        let pending = self.pending.read();
        // Finished or given up meanwhile: the block was there before.
        let Some(pending) = &*pending else { return Ok((Progress::More, false)) };
        match self.entry.kind {
            Kind::File { sparse: true, .. } => pending.write_around_holes(offset, block),
            _ => pending.write_at(offset, block),
        }
        .map_err(|error| self.disk.failure(error))?;
        // One that had to come again has its record.
        if let Some(journal) = self.journal.as_ref().filter(|_| due.is_none()) {
            journal.add(pending.file(), index, digest).map_err(|error| self.unjournalled(&error))?;
        }
        let is_new = {
            let mut state = self.state();
            state.wanted.remove(&index).is_some() | state.there.insert(index, *digest)
        };
        self.tell_arrived(index..index + 1);
        Ok((self.progress()?, is_new))
    }

    /// The blocks that a record says lie in a hole, `count` from `offset` on; `None` where they are none of
    /// this file, or it has no holes.
    pub(crate) fn hole(&self, offset: u64, count: u32) -> Option<Range<u64>> {
        let run = offset / BLOCK..(offset / BLOCK).checked_add(count.into())?;
        let has_holes = matches!(self.entry.kind, Kind::File { sparse: true, .. });
        let fits = run.end <= blocks(self.entry.size()) && !extent(run.start, self.entry.size()).is_empty();
        (has_holes && fits && offset.is_multiple_of(BLOCK)).then_some(run)
    }

    /// Takes in that blocks lie in a hole; also how many bytes of them were not there before.
    pub(crate) fn write_hole(&self, run: &Range<u64>) -> Result<(Progress, u64), Failure> {
        let size = self.entry.size();
        let (gaps, wanted) = {
            let state = self.state();
            let wanted = state.wanted.range(run.clone()).map(|(index, due)| (*index, *due));
            (state.there.missing_in(run.clone()), wanted.collect::<Vec<_>>())
        };
        if wanted.iter().any(|(index, due)| *due != zeros_at(*index, size)) {
            return Err(self.another());
        }
        let again = wanted.iter().map(|(index, _)| *index..*index + 1);
        let new: Vec<Range<u64>> = gaps.iter().cloned().chain(again).collect();
        let pending = self.pending.read();
        let Some(pending) = &*pending else { return Ok((Progress::More, 0)) };
        for run in &new {
            pending.clear(extent_of_run(run, size)).map_err(|error| self.disk.failure(error))?;
        }
        if let Some(journal) = &self.journal {
            for gap in &gaps {
                journal.add_zeros(pending.file(), gap.clone()).map_err(|error| self.unjournalled(&error))?;
            }
        }
        {
            let mut state = self.state();
            state.wanted.retain(|index, _| !run.contains(index));
            state.there.insert_zeros(run.clone());
        }
        self.tell_arrived(run.clone());
        let bytes = new.iter().map(|run| extent_of_run(run, size)).map(|extent| extent.end - extent.start);
        Ok((self.progress()?, bytes.sum()))
    }

    /// What was there of an earlier run is not what the source has now: all of it has to come.
    fn another(&self) -> Failure {
        let words = format!("{} changed at the source; copy it again", self.entry.name);
        Failure::new(FailureKind::Changed, words)
    }

    fn unjournalled(&self, error: &std::io::Error) -> Failure {
        unjournalled(&self.entry, error, &self.disk)
    }

    /// The sender has sent all; its digest.
    pub(crate) fn expect(&self, digest: Digest) -> Result<Progress, Failure> {
        self.state().expected = Some(digest);
        self.progress()
    }

    /// Gives the complete file its name. False where that was done or given up before.
    pub(crate) fn finish(&self) -> Result<bool, Failure> {
        let mut held = self.pending.write();
        // Not before the wait: it is for a sync, which may have failed.
        if self.is_spoiled() {
            let words = format_args!("cannot write {}: the disk failed to take all of it", self.entry.name);
            return Err(Failure::local(words));
        }
        let Some(pending) = held.take() else { return Ok(false) };
        drop(held);
        pending.finish(&self.entry).map_err(|error| self.disk.failure(error))?;
        Ok(true)
    }

    /// Nothing more comes; a part stays for the next run unless it is `worthless`.
    pub(crate) fn give_up(&self, target: &Target, worthless: bool) {
        let pending = self.pending.write().take();
        // While it is locked: whoever waits for it would take it up.
        if pending.is_some()
            && self.journal.is_some()
            && worthless
            && let Err(error) = target.discard_part(&self.entry.name)
        {
            tracing::debug!("{error}");
        }
    }

    /// What was written so far survives a power cut.
    pub(crate) fn sync(&self) {
        let pending = self.pending.read();
        if let (Some(pending), Some(journal)) = (&*pending, &self.journal)
            && !self.is_spoiled()
            && let Err(error) = journal.sync(pending.file())
        {
            self.spoiled.store(true, Relaxed);
            self.disk.note(error.raw_os_error());
            tracing::warn!("cannot sync {}: {}", self.entry.name, weir_units::plain(&error));
        }
    }

    /// What is there cannot be trusted.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.spoiled.load(Relaxed)
    }

    fn progress(&self) -> Result<Progress, Failure> {
        let state = self.state();
        if state.unread || !state.wanted.is_empty() {
            return Ok(Progress::More);
        }
        match (state.there.root(), state.expected) {
            (Some(root), Some(expected)) if root == expected => Ok(Progress::Complete(root)),
            (Some(_), Some(_)) => {
                let words = format!("{} differs from what was sent (digest); copy it again", self.entry.name);
                Err(Failure::new(FailureKind::Verification, words))
            }
            _ => Ok(Progress::More),
        }
    }

    fn state(&self) -> MutexGuard<'_, IncomingState> {
        self.state.lock()
    }
}

/// The part of a file with its journal, and what an earlier run left in it; `None` where no file may be as
/// long as both: then it has neither.
fn part_with_journal(
    target: &Target,
    entry: &Entry,
    will_have_gone: bool,
    disk: &DiskFailure,
) -> Result<Option<(Pending, Journal, Subtrees)>, Failure> {
    let pending = part(target, entry, will_have_gone).map_err(|error| disk.failure(error))?;
    let failed = |error: &std::io::Error| unjournalled(entry, error, disk);
    // What an earlier run left stays where its log cannot be read or renewed: another run may.
    if pending.adopted()
        && let Some((journal, there)) =
            Journal::resume(pending.file(), entry).map_err(|error| failed(&error))?
    {
        return Ok(Some((pending, journal, there)));
    }
    let error = match Journal::begin(pending.file(), entry) {
        Ok(journal) => return Ok(Some((pending, journal, Subtrees::new(entry.size())))),
        Err(error) => error,
    };
    let is_beyond = journal::is_beyond_longest(&error);
    // While it is locked. One that this run has made holds nothing; the other is of another file.
    if (is_beyond || !pending.adopted())
        && let Err(error) = target.discard_part(&entry.name)
    {
        tracing::debug!("{error}");
    }
    match is_beyond {
        true => {
            let why = weir_units::plain(&error);
            let name = &entry.name;
            tracing::warn!("no room for the journal of {name}: {why}; an interrupted copy starts over");
            Ok(None)
        }
        false => Err(failed(&error)),
    }
}

fn unjournalled(entry: &Entry, error: &std::io::Error, disk: &DiskFailure) -> Failure {
    disk.note(error.raw_os_error());
    Failure::local(format_args!("cannot journal {}: {}", entry.name, weir_units::plain(error)))
}

/// The part of a file. One that another weir holds is waited for: the end of a run that was killed a moment
/// ago takes as long as ssh needs to notice, and where the network was cut as long as that end waits for a
/// sign of life.
fn part(target: &Target, entry: &Entry, will_have_gone: bool) -> Result<Pending, weir_tree::TreeError> {
    let start = Instant::now();
    let mut told = false;
    loop {
        match target.part(entry, will_have_gone, journal::is_weirs) {
            Err(weir_tree::TreeError::Locked { .. }) if start.elapsed() < RELEASE => {
                if start.elapsed() > WORD && !std::mem::replace(&mut told, true) {
                    tracing::warn!(
                        "another weir is still writing the part of {}: waiting for it to end",
                        entry.name
                    );
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

/// How long a part that is held is waited for: until an end that lost its driver has ended, and a little.
const RELEASE: Duration = IDLE_TIMEOUT.saturating_add(Duration::from_secs(5));

/// When the wait is worth a word.
const WORD: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use weir_tree::entry::Time;

    use super::*;

    fn entry(size: u64) -> Entry {
        let (name, mtime) = ("x".parse().unwrap(), Time::new(0, 0).unwrap());
        let kind = Kind::File { size, sparse: false };
        Entry { name, kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() }
    }

    fn begin(size: u64) -> (tempfile::TempDir, Target, Incoming) {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::open(folder.path(), weir_tree::destination::Options::default()).unwrap();
        let file = Incoming::begin(&target, entry(size), false, &DiskFailure::default()).unwrap();
        (folder, target, file)
    }

    #[test]
    fn a_block_beyond_the_end_is_none() {
        let (_folder, _target, file) = begin(2 * BLOCK);
        for offset in [0, BLOCK, 2 * BLOCK, 3 * BLOCK, u64::MAX - 1] {
            assert_eq!(file.verify(offset, &[], &[0; 32]), None, "{offset}");
        }
    }

    #[test]
    fn several_blocks_are_of_the_file_as_they_lie_or_none_is() {
        let size = 2 * BLOCK + 5;
        let (_folder, _target, file) = begin(size);
        let bytes: Vec<u8> = (0..size).map(|at| (at / 1000) as u8).collect();
        let values: Vec<Digest> = bytes
            .chunks(BLOCK as usize)
            .zip(0..)
            .map(|(block, index)| digest_of(block, index, size))
            .collect();
        let all = digest_of_run(&values);
        assert_eq!(file.verify(0, &bytes, &all), Some(values.clone()));
        assert_eq!(
            file.verify(BLOCK, &bytes[BLOCK as usize..], &digest_of_run(&values[1..])),
            Some(values[1..].to_vec())
        );
        // Too few, too many, elsewhere, and one that is another.
        assert_eq!(file.verify(0, &bytes[..bytes.len() - 1], &all), None);
        assert_eq!(file.verify(0, &[&bytes[..], &[0]].concat(), &all), None);
        assert_eq!(file.verify(BLOCK, &bytes, &all), None);
        assert_eq!(file.verify(1, &bytes, &all), None);
        let mut other = bytes.clone();
        other[size as usize - 1] ^= 1;
        assert_eq!(file.verify(0, &other, &all), None);
    }

    /// As a kill leaves it that comes between the reservation and the log.
    #[test]
    fn a_part_that_was_only_reserved_is_begun_anew() {
        let size = 8 << 20;
        let (folder, target, file) = begin(size);
        drop(file);
        let names = || -> Vec<std::path::PathBuf> {
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
        };
        let before = names();
        let reserved = File::options().write(true).open(&before[0]).unwrap();
        reserved.set_len(0).unwrap();
        rustix::fs::fallocate(&reserved, rustix::fs::FallocateFlags::empty(), 0, size).unwrap();
        Incoming::begin(&target, entry(size), false, &DiskFailure::default()).unwrap();
        assert_eq!((names(), before.len()), (before.clone(), 1), "nothing is put aside");
    }

    #[test]
    fn a_part_is_complete_once_it_is_read_again() {
        let size = WORTH_A_JOURNAL;
        let (folder, target, file) = begin(size);
        let block = vec![7; BLOCK as usize];
        let values: Vec<Digest> = (0..4).map(|index| digest_of(&block, index, size)).collect();
        for (index, value) in (0..4).zip(&values) {
            assert!(file.write(index * BLOCK, &block, value).is_ok());
        }
        let root = file.state().there.root().unwrap();
        // It was killed, and changed after that.
        drop(file);
        let part = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let stranger = File::options().write(true).open(&part).unwrap();
        stranger.write_all_at(b"x", 2 * BLOCK + 17).unwrap();
        let file = Incoming::begin(&target, entry(size), false, &DiskFailure::default()).unwrap();
        assert!(file.is_unread());
        assert_eq!(file.expect(root), Ok(Progress::More), "not before it is read");
        let mut told = Vec::new();
        let progress = file.read_again(&AtomicBool::new(false), |blocks| told.extend(blocks));
        assert_eq!((progress, told), (Ok(Progress::More), vec![2]));
        let other = digest_of(b"other", 2, size);
        assert!(file.write(2 * BLOCK, b"other", &other).is_err_and(|it| it.words.contains("at the source")));
        assert_eq!(file.write(2 * BLOCK, &block, &values[2]), Ok((Progress::Complete(root), true)));
        assert_eq!(file.finish(), Ok(true));
        assert!(std::fs::read(folder.path().join("x")).unwrap().iter().all(|byte| *byte == 7));
    }

    #[test]
    fn what_the_disk_did_not_take_is_not_kept() {
        let (folder, target, file) = begin(WORTH_A_JOURNAL);
        let block = vec![7; BLOCK as usize];
        let digest = digest_of(&block, 0, WORTH_A_JOURNAL);
        assert!(matches!(file.write(0, &block, &digest), Ok((Progress::More, true))));
        assert!(matches!(file.write(0, &block, &digest), Ok((Progress::More, false))), "it was there");
        file.spoiled.store(true, Relaxed);
        assert!(file.finish().is_err_and(|failure| failure.words.contains("the disk failed")));
        file.give_up(&target, file.is_spoiled());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_sync_finds_spoiled_meanwhile_gets_no_name() {
        let (folder, target, file) = begin(WORTH_A_JOURNAL);
        std::thread::scope(|scope| {
            let syncing = file.pending.read();
            let finished = scope.spawn(|| file.finish());
            // Nobody else reads it any more once a writer waits.
            while file.pending.try_read().is_some() {
                std::thread::yield_now();
            }
            file.spoiled.store(true, Relaxed);
            drop(syncing);
            let failure = finished.join().unwrap().unwrap_err();
            assert!(failure.words.contains("the disk failed"), "{failure:?}");
        });
        file.give_up(&target, file.is_spoiled());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
