//! What is to be sent, what is on its way, and what waits until all before it has arrived.
//!
//! Every entry of the walk has a number. It is *settled* when the other end has said that it is written.
//! Blocks and batches travel in any order; what has to come last (a folder's times, a second name of a file)
//! waits until all entries before it are settled, without holding up what comes after.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::job::{Batch, Form, Item, Job};
use super::source::SourceFile;
use super::walk::REST;
use crate::holes::Survey;
use crate::subtrees::BLOCK;

/// Files and batches that are ready ahead of the workers.
const READY: usize = 32;

/// Entries that are known but not settled: a bound on memory, about 300 bytes each, with what 1 Gbit/s and
/// 100 ms hold in flight of small files (12 MB of 1 KiB).
const UNSETTLED: usize = 16384;

/// Where it was full there is room from here on: a walk that is woken for each entry costs more than the
/// walking.
const ROOMY: usize = UNSETTLED / 4 * 3;

/// Blocks in the record of a hole: what its number holds.
const LARGEST_HOLE: u64 = u32::MAX as u64;

/// Entries in a batch.
const BATCH: usize = 1024;

/// Entries from which on a batch is worth sending while others are under way (after Nagle, RFC 896): a record
/// costs about as much as three small files, so that this leaves a twentieth for records.
const WORTHWHILE: usize = 64;

/// The same in bytes: what is read, digested and sealed in ten times the time that a record costs by itself.
const WORTHWHILE_BYTES: usize = 256 << 10;

/// All of it.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// For workers: something may be claimed.
    work: Condvar,
    /// For the producer: there is room, or all is settled.
    room: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    /// Workers that share what a file has left.
    workers: u64,
    again: Vec<Job>,
    ready: VecDeque<Ready>,
    filling: Batch,
    deferred: VecDeque<(u64, Item)>,
    /// A batch of deferred ones is on its way: the next waits for it.
    finishing: bool,
    in_flight: HashMap<u32, VecDeque<(u64, Job)>>,
    /// Batches that are claimed and have not landed.
    under_way: usize,
    unsettled: BTreeSet<u64>,
    next_number: u64,
    next_batch: u64,
    exhausted: bool,
    over: bool,
}

#[derive(Debug)]
enum Ready {
    File(Arc<SourceFile>, VecDeque<Range<u64>>),
    /// Runs in holes.
    Holes(Arc<SourceFile>, VecDeque<Range<u64>>),
    /// Where its holes are is not known yet.
    Unsurveyed(Arc<SourceFile>, Vec<Range<u64>>),
    Batch(Arc<Batch>),
}

impl Queue {
    /// An empty one.
    pub(crate) fn new() -> Queue {
        Queue { state: Mutex::default(), work: Condvar::new(), room: Condvar::new() }
    }

    /// A number for the next entry of the walk; waits while too much is under way, after `before_waiting`.
    /// `None` when it is over.
    pub(crate) fn number_or(&self, mut before_waiting: impl FnMut()) -> Option<u64> {
        let mut state = self.lock();
        while !state.over && (state.ready.len() >= READY || state.unsettled.len() >= UNSETTLED) {
            drop(state);
            before_waiting();
            state = self.lock();
            if state.over || (state.ready.len() < READY && state.unsettled.len() < UNSETTLED) {
                break;
            }
            self.room.wait(&mut state);
        }
        if state.over {
            return None;
        }
        let number = state.next_number;
        state.next_number += 1;
        state.unsettled.insert(number);
        Some(number)
    }

    /// Waits until something was claimed or settled, or for a while; false when it is over, or nothing but
    /// `number` is unsettled.
    pub(crate) fn rest_beside(&self, number: u64) -> bool {
        let more = |state: &QueueState| !state.over && state.unsettled.iter().any(|other| *other != number);
        let mut state = self.lock();
        if !more(&state) {
            return false;
        }
        self.room.wait_for(&mut state, REST);
        more(&state)
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
        if state.has_batch() {
            self.work.notify_one();
        }
    }

    /// An entry that has to come after all that came before it.
    pub(crate) fn defer(&self, item: Item) {
        let mut state = self.lock();
        let number = item.number;
        // It waits for those before it, and is none of them.
        state.deferred.push_back((number, item));
        self.wake(state);
    }

    /// A file's blocks that are to be sent.
    pub(crate) fn push_file(&self, file: Arc<SourceFile>, runs: Vec<Range<u64>>) {
        let ready = match file.has_holes() {
            true => Ready::Unsurveyed(file, runs),
            false => Ready::File(file, runs.into()),
        };
        self.lock().ready.push_back(ready);
        self.work.notify_all();
    }

    /// More blocks of a file, which have come to this host.
    pub(crate) fn push_more(&self, file: &Arc<SourceFile>, run: Range<u64>) {
        let mut state = self.lock();
        let waiting = state.ready.iter_mut().rev().find_map(|ready| match ready {
            Ready::File(of, runs) if Arc::ptr_eq(of, file) => Some(runs),
            _ => None,
        });
        match waiting {
            Some(runs) => match runs.back_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => runs.push_back(run),
            },
            None => state.ready.push_back(Ready::File(Arc::clone(file), VecDeque::from([run]))),
        }
        self.wake(state);
    }

    /// Whether the next entry would not have to wait for a number.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.lock();
        state.ready.len() < READY && state.unsettled.len() < UNSETTLED
    }

    /// Where the blocks of a file lie, which a worker was to find out.
    pub(crate) fn surveyed(&self, file: &Arc<SourceFile>, Survey { holes, data }: Survey) {
        let mut state = self.lock();
        if !data.is_empty() {
            state.ready.push_front(Ready::File(Arc::clone(file), data.into()));
        }
        if !holes.is_empty() {
            state.ready.push_front(Ready::Holes(Arc::clone(file), holes.into()));
        }
        self.wake(state);
    }

    /// Blocks that were not to be sent are, after all: also of a file whose last block was read.
    pub(crate) fn push_blocks(&self, file: &Arc<SourceFile>, blocks: &[u64]) {
        let mut state = self.lock();
        let job = |block: &u64| {
            let (file, blocks) = (Arc::clone(file), *block..*block + 1);
            Job::Run { file, blocks, form: Form::Packed }
        };
        state.again.extend(blocks.iter().map(job));
        self.wake(state);
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

    /// The next job; waits for one. `None` when all is settled or it is over. Of a file's blocks it takes up
    /// to `longest` says, which is asked when there are some.
    pub(crate) fn claim(&self, mut longest: impl FnMut() -> u32) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.over || state.is_settled() {
                self.work.notify_all();
                self.room.notify_all();
                return None;
            }
            if let Some(job) = state.claim(&mut longest) {
                self.room.notify_all();
                return Some(job);
            }
            self.work.wait(&mut state);
        }
    }

    /// So many workers share what there is.
    pub(crate) fn set_workers(&self, workers: u32) {
        self.lock().workers = workers.into();
    }

    /// A job is about to be sent as this record.
    pub(crate) fn sent(&self, lane: u32, sequence: u64, job: Job) {
        self.lock().in_flight.entry(lane).or_default().push_back((sequence, job));
    }

    /// All records of the lane up to this one are written. Returns what they were, which is to be settled.
    pub(crate) fn acked(&self, lane: u32, through: u64) -> Vec<Job> {
        let mut state = self.lock();
        let mut done = Vec::new();
        if let Some(flight) = state.in_flight.get_mut(&lane) {
            while flight.front().is_some_and(|(sequence, _)| *sequence <= through) {
                done.extend(flight.pop_front().map(|(_, job)| job));
            }
        }
        done
    }

    /// What these jobs brought is done with.
    pub(crate) fn settle_jobs(&self, done: &[Job]) {
        let mut state = self.lock();
        for job in done {
            if let Job::Batch(batch) = job {
                state.under_way -= 1;
                batch.items.iter().for_each(|item| state.settle(item.number));
                state.finishing &= !batch.items.iter().any(|item| item.is_deferred());
            }
        }
        self.wake(state);
    }

    /// A record has to be sent again, without compression.
    pub(crate) fn again(&self, lane: u32, sequence: u64) {
        let mut state = self.lock();
        let flight = state.in_flight.get_mut(&lane);
        let at = flight.as_ref().and_then(|flight| flight.iter().position(|(at, _)| *at == sequence));
        let job = flight.zip(at).and_then(|(flight, at)| flight.remove(at)).map(|(_, job)| job);
        state.extend_again(job.map(|job| match job {
            Job::Run { file, blocks, form: Form::Packed } => Job::Run { file, blocks, form: Form::Plain },
            job @ (Job::Run { .. } | Job::Survey { .. }) => job,
            Job::Batch(batch) => {
                batch.plain.store(true, Relaxed);
                Job::Batch(batch)
            }
        }));
        self.wake(state);
    }

    /// A lane is over: what it did not land goes over others.
    pub(crate) fn lane_lost(&self, lane: u32) {
        let mut state = self.lock();
        let lost = state.in_flight.remove(&lane).unwrap_or_default();
        state.extend_again(lost.into_iter().rev().map(|(_, job)| job));
        self.wake(state);
    }

    /// Entries are done with.
    pub(crate) fn settle(&self, numbers: &[u64]) {
        let mut state = self.lock();
        numbers.iter().for_each(|number| state.settle(*number));
        self.wake(state);
    }

    /// Nothing more is to be done.
    pub(crate) fn stop(&self) {
        self.lock().over = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Waits until all is settled; false when it was stopped before.
    pub(crate) fn wait_settled(&self) -> bool {
        let mut state = self.lock();
        while !state.over && !state.is_settled() {
            self.room.wait(&mut state);
        }
        !state.over
    }

    /// Wakes those who wait for what is there. Not for less: a hundred thousand answers would each wake all
    /// workers.
    fn wake(&self, mut state: MutexGuard<'_, QueueState>) {
        state.release_deferred();
        let is_settled = state.is_settled();
        let has_work = !state.again.is_empty() || !state.ready.is_empty() || state.has_batch();
        let has_room = state.ready.len() < READY && state.unsettled.len() <= ROOMY;
        drop(state);
        if has_work || is_settled {
            self.work.notify_all();
        }
        if has_room || is_settled {
            self.room.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }
}

impl QueueState {
    fn claim(&mut self, longest: &mut dyn FnMut() -> u32) -> Option<Job> {
        let job = self.next_job(longest)?;
        self.under_way += usize::from(matches!(job, Job::Batch(_)));
        Some(job)
    }

    /// Jobs that were claimed are to be claimed once more.
    fn extend_again(&mut self, jobs: impl IntoIterator<Item = Job>) {
        for job in jobs {
            self.under_way -= usize::from(matches!(job, Job::Batch(_)));
            self.again.push(job);
        }
    }

    /// Is there a batch to claim, or one worth closing? Alone on its way a small one is better than an idle
    /// worker.
    fn has_batch(&self) -> bool {
        let Batch { items, size, .. } = &self.filling;
        let is_alone = self.under_way == 0 || self.exhausted;
        items.len() >= WORTHWHILE || *size >= WORTHWHILE_BYTES || is_alone && !items.is_empty()
    }

    fn next_job(&mut self, longest: &mut dyn FnMut() -> u32) -> Option<Job> {
        if let Some(job) = self.again.pop() {
            return Some(job);
        }
        let workers = self.workers;
        while let Some(front) = self.ready.front_mut() {
            let job = match front {
                Ready::File(file, _) | Ready::Holes(file, _) | Ready::Unsurveyed(file, _)
                    if file.has_ended() =>
                {
                    None
                }
                Ready::File(file, runs) => {
                    let blocks = take_first(runs, file.run(longest().into()), workers);
                    blocks.map(|blocks| Job::Run { file: Arc::clone(file), blocks, form: Form::Packed })
                }
                Ready::Holes(file, runs) => {
                    let blocks = take_first(runs, LARGEST_HOLE, 1);
                    blocks.map(|blocks| Job::Run { file: Arc::clone(file), blocks, form: Form::Hole })
                }
                Ready::Unsurveyed(file, runs) => {
                    Some(Job::Survey { file: Arc::clone(file), runs: std::mem::take(runs) })
                }
                Ready::Batch(batch) => Some(Job::Batch(Arc::clone(batch))),
            };
            let spent = match front {
                Ready::File(_, runs) | Ready::Holes(_, runs) => runs.is_empty() || job.is_none(),
                Ready::Unsurveyed(..) | Ready::Batch(_) => true,
            };
            if spent {
                self.ready.pop_front();
            }
            if job.is_some() {
                return job;
            }
        }
        self.release_deferred();
        if self.ready.is_empty() && self.has_batch() {
            self.close_batch();
        }
        match self.ready.pop_front()? {
            Ready::Batch(batch) => Some(Job::Batch(batch)),
            Ready::File(..) | Ready::Holes(..) | Ready::Unsurveyed(..) => None,
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
                let before = *sum;
                *sum += size;
                Some((before, *sum))
            })
            // The first whatever is thought of its size: there is no smaller batch.
            .take_while(|(before, sum)| *before == 0 || *sum < BLOCK as usize)
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

/// The first blocks, `most` of them at the most, and no more of the last than leaves each worker as many.
fn take_first(runs: &mut VecDeque<Range<u64>>, most: u64, workers: u64) -> Option<Range<u64>> {
    loop {
        let run = runs.front_mut()?;
        let left = run.end.saturating_sub(run.start);
        if left > 0 {
            let taken = (left / workers.max(1)).clamp(1, most.max(1));
            let blocks = run.start..run.start + taken;
            run.start = blocks.end;
            if run.is_empty() {
                runs.pop_front();
            }
            return Some(blocks);
        }
        runs.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::batch::Keep;
    use proptest::prelude::*;
    use weir_tree::entry::Time;
    use weir_tree::{Entry, Kind};

    fn item(number: u64, last: bool) -> Item {
        let kind = if last { Kind::Directory } else { Kind::File { size: 0, sparse: false } };
        let (name, mtime) = (number.to_string().parse().unwrap(), Time::new(0, 0).unwrap());
        let entry = Entry { name, kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() };
        Item { number, entry, source: None, last, keep: None, due: None }
    }

    fn land(queue: &Queue, lane: u32, through: u64) -> Vec<Job> {
        let acked = queue.acked(lane, through);
        queue.settle_jobs(&acked);
        acked
    }

    fn push(queue: &Queue, last: bool) {
        let number = queue.number_or(|| {}).unwrap();
        if last { queue.defer(item(number, true)) } else { queue.push_item(item(number, false)) }
    }

    fn numbers(job: Option<Job>) -> Option<Vec<u64>> {
        let Job::Batch(batch) = job? else { return None };
        Some(batch.items.iter().map(|item| item.number).collect())
    }

    #[test]
    fn a_small_batch_goes_alone_or_not_yet() {
        let queue = Queue::new();
        push(&queue, false);
        let first = queue.lock().claim(&mut || 1);
        queue.sent(1, 1, first.clone().unwrap());
        assert_eq!(numbers(first), Some(vec![0]));
        push(&queue, false);
        push(&queue, false);
        assert!(queue.lock().claim(&mut || 1).is_none(), "the first is still under way");
        land(&queue, 1, 1);
        assert_eq!(numbers(queue.lock().claim(&mut || 1)), Some(vec![1, 2]));
        (0..WORTHWHILE).for_each(|_| push(&queue, false));
        assert_eq!(numbers(queue.lock().claim(&mut || 1)).map(|numbers| numbers.len()), Some(WORTHWHILE));
    }

    #[test]
    fn blocks_of_a_row_are_taken_together_but_shared_at_its_end() {
        let taken = |runs: &[(u64, u64)], most, workers| {
            let mut runs: VecDeque<Range<u64>> = runs.iter().map(|(start, end)| *start..*end).collect();
            std::iter::from_fn(|| take_first(&mut runs, most, workers)).collect::<Vec<_>>()
        };
        assert_eq!(taken(&[(0, 2), (5, 5), (7, 8)], 0, 0), [0..1, 1..2, 7..8]);
        assert_eq!(taken(&[(0, 9), (20, 22)], 4, 1), [0..4, 4..8, 8..9, 20..22]);
        assert_eq!(taken(&[(0, 12)], 4, 2), [0..4, 4..8, 8..10, 10..11, 11..12]);
        assert_eq!(taken(&[(0, 3)], 4, 3), [0..1, 1..2, 2..3]);
    }

    #[test]
    fn one_that_is_larger_than_a_batch_goes_alone() {
        let queue = Queue::new();
        let number = queue.number_or(|| {}).unwrap();
        let keep = Some(Keep { names: vec![vec![b'x'; 255]; 5000], more: false });
        queue.defer(Item { keep, ..item(number, true) });
        push(&queue, true);
        queue.exhausted();
        let first = queue.lock().claim(&mut || 1);
        queue.sent(1, 1, first.clone().unwrap());
        assert_eq!(numbers(first), Some(vec![0]));
        land(&queue, 1, 1);
        assert_eq!(numbers(queue.lock().claim(&mut || 1)), Some(vec![1]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        /// However lanes land or break: each entry settles once, a deferred one after all before it, and what
        /// is held stays within its bound.
        #[test]
        fn all_settle_in_turn_within_bounds(
            dice in prop::collection::vec(any::<u8>(), 1..200), count in 1..3 * UNSETTLED,
        ) {
            let queue = Arc::new(Queue::new());
            let walk = Arc::clone(&queue);
            let is_deferred = |number: usize| number % 7 == 6;
            let walker = std::thread::spawn(move || {
                (0..count).for_each(|number| push(&walk, is_deferred(number)));
                walk.exhausted();
            });
            let mut dice = dice.into_iter().cycle().map(u64::from);
            let mut settled = vec![false; count];
            // Dice of few faces may break the one lane that is used each time, for ever.
            let (mut below, mut sent, mut breaks) = (0, [0; 3], 0);
            while !queue.lock().is_settled() {
                let job = queue.lock().claim(&mut || 1);
                let is_idle = job.is_none();
                let lane = dice.next().unwrap() as usize % 3;
                if let Some(job) = job {
                    sent[lane] += 1;
                    queue.sent(lane as u32, sent[lane], job);
                }
                if dice.next().unwrap().is_multiple_of(16) && breaks < 1000 {
                    breaks += 1;
                    queue.lane_lost(lane as u32);
                }
                for (lane, sent) in sent.iter().enumerate() {
                    let behind = if is_idle { 0 } else { dice.next().unwrap() % 4 };
                    let acked = land(&queue, lane as u32, sent.saturating_sub(behind));
                    for number in acked.into_iter().filter_map(|job| numbers(Some(job))).flatten() {
                        let number = number as usize;
                        below += settled[below..].iter().take_while(|settled| **settled).count();
                        prop_assert!(!settled[number] && (!is_deferred(number) || below >= number));
                        settled[number] = true;
                    }
                }
                prop_assert!(queue.lock().unsettled.len() <= UNSETTLED);
            }
            walker.join().unwrap();
            prop_assert!(settled.iter().all(|settled| *settled));
        }
    }
}
