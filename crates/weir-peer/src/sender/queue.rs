//! What is to be sent, what is on its way, and what waits until all before it has arrived.
//!
//! Every entry of the walk has a number. It is *settled* when the other end has said that it is written. Blocks and
//! batches travel in any order; what has to come last (a folder's times, a second name of a file) waits until all
//! entries before it are settled, without holding up what comes after.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use weir_tree::{Entry, Kind, Source};

use super::producer::REST;
use super::source::SourceFile;
use crate::subtrees::BLOCK;
use crate::wire::batch::Keep;

/// Files and batches that are ready ahead of the workers.
const READY: usize = 32;

/// Entries that are known but not settled: a bound on memory, about 300 bytes each, with what 1 Gbit/s and 100 ms hold
/// in flight of small files (12 MB of 1 KiB).
const UNSETTLED: usize = 16384;

/// Entries in a batch.
const BATCH: usize = 1024;

/// Something to be made into one record.
#[derive(Debug, Clone)]
pub(crate) enum Job {
    /// A block of a file.
    Block {
        /// Which file.
        file: Arc<SourceFile>,
        /// Which block.
        index: u64,
        /// Not compressed: the other end could not use it otherwise.
        plain: bool,
    },
    /// Many entries.
    Batch(Arc<Batch>),
}

impl Job {
    /// Not to be compressed.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Job::Block { plain: true, .. })
    }
}

/// Entries that travel together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Their number as a batch.
    pub(crate) id: u64,
    /// What they are.
    pub(crate) items: Vec<Item>,
    /// Bytes of content, and about as many as the entries take.
    pub(super) size: usize,
    /// The numbers of those that could not be read.
    failed: Mutex<Vec<u64>>,
}

impl Batch {
    /// The numbers of those that could not be read.
    pub(super) fn failed(&self) -> MutexGuard<'_, Vec<u64>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An entry of a batch.
#[derive(Debug)]
pub(crate) struct Item {
    /// Its number in the walk.
    pub(crate) number: u64,
    /// What it is.
    pub(crate) entry: Entry,
    /// Where its content is.
    pub(crate) source: Option<Source>,
    /// A folder whose attributes are to be set.
    pub(crate) last: bool,
    /// What is in it, with `--delete`.
    pub(crate) keep: Option<Keep>,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// For workers: something may be claimed.
    work: Condvar,
    /// For the producer: there is room, or all is settled.
    room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    again: Vec<Job>,
    ready: VecDeque<Ready>,
    filling: Batch,
    deferred: VecDeque<(u64, Item)>,
    /// A batch of deferred ones is on its way: the next waits for it.
    finishing: bool,
    in_flight: HashMap<u32, VecDeque<(u64, Job)>>,
    unsettled: BTreeSet<u64>,
    next_number: u64,
    next_batch: u64,
    exhausted: bool,
    over: bool,
}

#[derive(Debug)]
enum Ready {
    File(Arc<SourceFile>, VecDeque<Range<u64>>),
    Batch(Arc<Batch>),
}

impl Queue {
    /// An empty one.
    pub(crate) fn new() -> Queue {
        Queue { state: Mutex::default(), work: Condvar::new(), room: Condvar::new() }
    }

    /// A number for the next entry of the walk; waits while too much is under way, after `before_waiting`. `None` when it
    /// is over.
    pub(crate) fn number_or(&self, mut before_waiting: impl FnMut()) -> Option<u64> {
        let mut state = self.lock();
        while !state.over && (state.ready.len() >= READY || state.unsettled.len() >= UNSETTLED) {
            drop(state);
            before_waiting();
            state = self.lock();
            if state.over || (state.ready.len() < READY && state.unsettled.len() < UNSETTLED) {
                break;
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.over {
            return None;
        }
        let number = state.next_number;
        state.next_number += 1;
        state.unsettled.insert(number);
        Some(number)
    }

    /// Waits until something was claimed or settled, or for a while; false when it is over.
    pub(crate) fn rest(&self) -> bool {
        let waited = self.room.wait_timeout(self.lock(), REST);
        !waited.unwrap_or_else(PoisonError::into_inner).0.over
    }

    /// An entry for a batch.
    pub(crate) fn push_item(&self, item: Item) {
        let mut state = self.lock();
        let size = item.size();
        if state.filling.items.len() >= BATCH || state.filling.size + size > BLOCK as usize {
            state.close_batch();
        }
        state.filling.size += size;
        state.filling.items.push(item);
        self.work.notify_one();
    }

    /// An entry that has to come after all that came before it.
    pub(crate) fn defer(&self, item: Item) {
        let mut state = self.lock();
        let number = item.number;
        // It waits for those before it, and is none of them.
        state.deferred.push_back((number, item));
        self.work.notify_one();
    }

    /// A file's blocks that are to be sent.
    pub(crate) fn push_file(&self, file: Arc<SourceFile>, runs: Vec<Range<u64>>) {
        self.lock().ready.push_back(Ready::File(file, runs.into()));
        self.work.notify_all();
    }

    /// Whether the walk has ended.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.lock().exhausted
    }

    /// The walk has ended.
    pub(crate) fn exhausted(&self) {
        self.lock().exhausted = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    /// The next job; waits for one. `None` when all is settled or it is over.
    pub(crate) fn claim(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.over || state.is_settled() {
                self.work.notify_all();
                self.room.notify_all();
                return None;
            }
            if let Some(job) = state.claim() {
                self.room.notify_all();
                return Some(job);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A job is about to be sent as this record.
    pub(crate) fn sent(&self, lane: u32, sequence: u64, job: Job) {
        self.lock().in_flight.entry(lane).or_default().push_back((sequence, job));
    }

    /// All records of the lane up to this one are written. Returns what they were.
    pub(crate) fn landed(&self, lane: u32, through: u64) -> Vec<Job> {
        let mut state = self.lock();
        let mut done = Vec::new();
        if let Some(flight) = state.in_flight.get_mut(&lane) {
            while flight.front().is_some_and(|(sequence, _)| *sequence <= through) {
                done.extend(flight.pop_front().map(|(_, job)| job));
            }
        }
        for job in &done {
            if let Job::Batch(batch) = job {
                batch.items.iter().for_each(|item| state.settle(item.number));
                state.finishing &= !batch.items.iter().any(|item| item.is_deferred());
            }
        }
        self.wake(state);
        done
    }

    /// A record has to be sent again, without compression.
    pub(crate) fn again(&self, lane: u32, sequence: u64) {
        let mut state = self.lock();
        let flight = state.in_flight.get_mut(&lane);
        let at = flight.as_ref().and_then(|flight| flight.iter().position(|(at, _)| *at == sequence));
        let job = flight.zip(at).and_then(|(flight, at)| flight.remove(at)).map(|(_, job)| job);
        state.again.extend(job.map(|job| match job {
            Job::Block { file, index, .. } => Job::Block { file, index, plain: true },
            batch => batch,
        }));
        self.wake(state);
    }

    /// A lane is over: what it did not land goes over others.
    pub(crate) fn lane_lost(&self, lane: u32) {
        let mut state = self.lock();
        let lost = state.in_flight.remove(&lane).unwrap_or_default();
        state.again.extend(lost.into_iter().rev().map(|(_, job)| job));
        self.wake(state);
    }

    /// An entry is done with.
    pub(crate) fn settle(&self, number: u64) {
        let mut state = self.lock();
        state.settle(number);
        self.wake(state);
    }

    /// Nothing more is to be done.
    pub(crate) fn stop(&self) {
        self.lock().over = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Whether all is settled.
    pub(crate) fn is_settled(&self) -> bool {
        self.lock().is_settled()
    }

    /// Waits until all is settled; false when it was stopped before.
    pub(crate) fn wait_settled(&self) -> bool {
        let mut state = self.lock();
        while !state.over && !state.is_settled() {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.over
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        state.release_deferred();
        drop(state);
        self.work.notify_all();
        self.room.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn claim(&mut self) -> Option<Job> {
        if let Some(job) = self.again.pop() {
            return Some(job);
        }
        while let Some(front) = self.ready.front_mut() {
            let job = match front {
                Ready::File(file, runs) => {
                    let index = if file.has_ended() { None } else { take_first(runs) };
                    index.map(|index| Job::Block { file: Arc::clone(file), index, plain: false })
                }
                Ready::Batch(batch) => Some(Job::Batch(Arc::clone(batch))),
            };
            let spent = match front {
                Ready::File(_, runs) => runs.is_empty() || job.is_none(),
                Ready::Batch(_) => true,
            };
            if spent {
                self.ready.pop_front();
            }
            if job.is_some() {
                return job;
            }
        }
        self.release_deferred();
        // Better a small batch than an idle worker.
        self.close_batch();
        match self.ready.pop_front()? {
            Ready::Batch(batch) => Some(Job::Batch(batch)),
            Ready::File(..) => None,
        }
    }

    /// Makes a batch of the deferred entries before which all is settled.
    fn release_deferred(&mut self) {
        if self.finishing {
            return;
        }
        // Those that are unsettled, in order, have to be the deferred ones themselves.
        let due = self.unsettled.iter().zip(&self.deferred).take_while(|(number, (own, _))| *number == own);
        let sizes = due.map(|(_, (_, item))| item.size()).take(BATCH);
        let due = sizes
            .scan(0, |sum, size| {
                *sum += size;
                Some(*sum)
            })
            .take_while(|sum| *sum < BLOCK as usize)
            .count();
        let mut batch = Batch::default();
        for (_, item) in self.deferred.drain(..due) {
            batch.items.push(item);
        }
        if !batch.items.is_empty() {
            self.finishing = true;
            batch.id = self.next_batch;
            self.next_batch += 1;
            self.ready.push_back(Ready::Batch(Arc::new(batch)));
        }
    }

    fn close_batch(&mut self) {
        if !self.filling.items.is_empty() {
            let mut batch = std::mem::take(&mut self.filling);
            batch.id = self.next_batch;
            self.next_batch += 1;
            self.ready.push_back(Ready::Batch(Arc::new(batch)));
        }
    }

    fn settle(&mut self, number: u64) {
        self.unsettled.remove(&number);
    }

    fn is_settled(&self) -> bool {
        let nothing_moves = self.again.is_empty() && self.in_flight.values().all(VecDeque::is_empty);
        self.exhausted && self.unsettled.is_empty() && nothing_moves
    }
}

impl Item {
    fn size(&self) -> usize {
        let content = if self.source.is_some() { self.entry.size() } else { 0 };
        let attributes: usize = self.entry.xattrs.iter().map(|xattr| xattr.value().len() + 300).sum();
        let names: usize = self.keep.iter().flat_map(|keep| &keep.names).map(|name| name.len() + 4).sum();
        content as usize + names + 128 + self.entry.name.as_bytes().len() + attributes
    }

    fn is_deferred(&self) -> bool {
        self.last || matches!(self.entry.kind, Kind::HardLink { .. })
    }
}

fn take_first(runs: &mut VecDeque<Range<u64>>) -> Option<u64> {
    loop {
        let run = runs.front_mut()?;
        if let Some(index) = run.next() {
            if run.is_empty() {
                runs.pop_front();
            }
            return Some(index);
        }
        runs.pop_front();
    }
}
