//! What a worker holds: batches that its clerk has claimed, and the objects of them that its mover moves.
//!
//! A mover takes [`FleetTask`]s in the order of the batch and tells how each ended. It gets no more of them
//! than it is about to begin, since what is not begun can still be given to another worker. The clerk is told
//! when a batch is complete, and when what is left is so little that the next one should be claimed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::class::FailureClass;
use crate::ledger::{BatchClaim, BatchLease, BatchResults, BatchWork, ObjectFailure};
use crate::object::{FleetObject, ObjectRange};

/// Bytes begun at once; more where a second brings more. Two objects are begun in any case: while one ends,
/// the other is carried.
const BYTES_AT_ONCE: u64 = 64 << 20;
const LEAST_AT_ONCE: usize = 2;

/// So long after a claim others may be given what the ledger does not know to be begun; they are half a
/// second after it.
const UNTOLD: Duration = Duration::from_millis(400);

/// So long before the last byte of what is held the next batch is claimed: a claim takes some milliseconds,
/// and a hundred where the database is far or busy. Whoever claims earlier takes what others could do.
const AHEAD: Duration = Duration::from_millis(400);

/// So many objects in a row that fail by a fault of this host, with not one that succeeds: it is the host,
/// and not the objects.
const TROUBLE: u32 = 8;

/// An object to be moved.
#[derive(Debug, Clone)]
pub struct FleetTask {
    lease: BatchLease,
    position: u64,
    /// What.
    pub object: Arc<FleetObject>,
    /// All of it, or a part.
    pub share: TaskShare,
}

/// What of an object is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskShare {
    /// All.
    Whole,
    /// These bytes, into its part.
    Range(ObjectRange),
    /// All bytes are there: it gets its name. What was noted of each range.
    Join(ObjectRange, Vec<String>),
}

/// How an object ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEnd {
    /// So many bytes are at the target now.
    Moved(u64),
    /// They were there.
    Same(u64),
    /// They are not.
    Failed(FailureClass, String),
}

/// What a mover gets.
#[derive(Debug)]
pub enum NextTask {
    /// This.
    Task(FleetTask),
    /// Nothing now.
    NotYet,
    /// Nothing any more.
    End,
}

/// Totals of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeskTotals {
    /// Objects brought to their targets, and their bytes.
    pub moved: (u64, u64),
    /// The same of those that were there.
    pub same: (u64, u64),
    /// Objects that failed.
    pub failed: u64,
    /// Bytes of objects that have not ended.
    pub under_way: u64,
}

/// The desk.
pub struct Desk {
    state: Mutex<DeskState>,
    /// For movers: there is something to begin.
    room: Condvar,
    /// For the clerk: a batch is complete, or little is left.
    news: Condvar,
}

struct DeskState {
    /// Objects begun at once.
    at_once: usize,
    batches: Vec<HeldBatch>,
    /// No more comes.
    is_last: bool,
    in_flight: usize,
    in_flight_bytes: u64,
    totals: DeskTotals,
    /// Ends the run that goes on.
    stop: Arc<AtomicBool>,
    /// Bytes and objects a second, of late.
    pace: (f64, f64),
    waiting: u32,
    has_news: bool,
    troubles: u32,
    trouble: Option<String>,
    samples: Vec<String>,
    /// When a byte or an object was last heard of.
    stirred: Instant,
}

struct HeldBatch {
    lease: BatchLease,
    objects: Vec<Arc<FleetObject>>,
    share: TaskShare,
    /// So many of them, from the first, are this worker's.
    count: usize,
    next: usize,
    /// Nothing behind this is begun before the ledger knows: others may be given it.
    limit: usize,
    /// When the ledger was last told, and whether it ever was.
    told: (Instant, bool),
    again: BTreeSet<usize>,
    ends: Vec<Option<TaskEnd>>,
    ended: usize,
    in_flight: usize,
    in_flight_bytes: u64,
    note: Option<String>,
}

impl HeldBatch {
    /// What was given to whoever asked at `asked`.
    fn new(claim: BatchClaim, asked: Instant) -> HeldBatch {
        let (objects, share) = match claim.work {
            BatchWork::Objects(objects) => (objects, TaskShare::Whole),
            BatchWork::Range(object, range) => (vec![object], TaskShare::Range(range)),
            BatchWork::Join(object, range, notes) => (vec![object], TaskShare::Join(range, notes)),
        };
        HeldBatch {
            lease: claim.lease,
            share,
            count: objects.len(),
            next: 0,
            // Others may be given the last half of a batch of which the ledger was told nothing.
            limit: (objects.len() / 2).max(1),
            told: (asked, false),
            again: BTreeSet::new(),
            ends: vec![None; objects.len()],
            ended: 0,
            in_flight: 0,
            in_flight_bytes: 0,
            note: None,
            objects: objects.into_iter().map(Arc::new).collect(),
        }
    }

    /// The next of it that is not begun.
    fn take(&mut self) -> Option<usize> {
        let own = self.count;
        let position = match self.again.iter().next().copied().filter(|position| *position < own) {
            Some(position) => {
                self.again.remove(&position);
                position
            }
            None if self.next < own.min(self.begun_to()) => {
                self.next += 1;
                self.next - 1
            }
            None => return None,
        };
        self.in_flight += 1;
        self.in_flight_bytes += self.size(position);
        Some(position)
    }

    /// Bytes that are to be moved for an object.
    fn size(&self, position: usize) -> u64 {
        match &self.share {
            TaskShare::Whole => self.objects[position].size.unwrap_or(0),
            TaskShare::Range(range) => range.range.end - range.range.start,
            TaskShare::Join(..) => 0,
        }
    }

    /// Objects that are next, and begun together.
    fn at_once(&self, most: usize) -> usize {
        let mut bytes = 0;
        let next = (self.next..self.count).take(most).take_while(|position| {
            bytes += self.size(*position);
            bytes <= BYTES_AT_ONCE
        });
        next.count().max(LEAST_AT_ONCE)
    }

    fn is_at_its_limit(&self) -> bool {
        self.next >= self.begun_to() && self.next < self.count
    }

    /// Nothing behind this is begun now.
    fn begun_to(&self) -> usize {
        let is_unknown = !self.told.1 && self.limit < usize::MAX && self.told.0.elapsed() >= UNTOLD;
        if is_unknown { self.next } else { self.count.min(self.limit) }
    }

    fn is_complete(&self) -> bool {
        self.ended >= self.count && self.ends[..self.count].iter().all(Option::is_some)
    }

    /// Objects and bytes that have not ended.
    fn left(&self) -> (usize, u64) {
        let open = (0..self.count).filter(|position| self.ends[*position].is_none());
        open.fold((0, 0), |(objects, bytes), position| (objects + 1, bytes + self.size(position)))
    }

    fn results(&self) -> BatchResults {
        let mut results =
            BatchResults { covered: self.count as u64, note: self.note.clone(), ..BatchResults::default() };
        for (position, end) in self.ends[..self.count].iter().enumerate() {
            let tally = match end {
                Some(TaskEnd::Moved(bytes)) => Some((&mut results.moved, bytes)),
                Some(TaskEnd::Same(bytes)) => Some((&mut results.same, bytes)),
                Some(TaskEnd::Failed(class, reason)) => {
                    let (class, reason) = (*class, reason.clone());
                    results.failures.push(ObjectFailure { position: position as u64, class, reason });
                    None
                }
                None => None,
            };
            if let Some((tally, bytes)) = tally {
                tally.objects += 1;
                tally.bytes += bytes;
            }
        }
        results
    }
}

/// What the clerk tells the ledger of a batch that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldNow {
    /// Which.
    pub lease: BatchLease,
    /// Objects begun, or begun before the ledger is told again, from the first.
    pub reached: u64,
    /// Bytes moved of it.
    pub bytes: u64,
}

impl Desk {
    /// An empty one, of which `at_once` objects at most are begun and not ended.
    pub(super) fn new(at_once: usize) -> Desk {
        let state = DeskState {
            at_once,
            batches: Vec::new(),
            is_last: false,
            in_flight: 0,
            in_flight_bytes: 0,
            totals: DeskTotals::default(),
            stop: Arc::default(),
            pace: (0.0, 0.0),
            waiting: 0,
            has_news: false,
            troubles: 0,
            trouble: None,
            samples: Vec::new(),
            stirred: Instant::now(),
        };
        Desk { state: Mutex::new(state), room: Condvar::new(), news: Condvar::new() }
    }
}

/// What a mover has to do.
impl Desk {
    /// The next object, waited for as long as `wait`.
    pub(super) fn next(&self, wait: Duration) -> NextTask {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            if let Some(task) = state.take() {
                return NextTask::Task(task);
            }
            if state.has_news {
                self.news.notify_all();
            }
            if state.is_last && state.batches.is_empty() {
                return NextTask::End;
            }
            state.waiting += 1;
            let is_late = self.room.wait_until(&mut state, until).timed_out();
            state.waiting -= 1;
            if is_late {
                return NextTask::NotYet;
            }
        }
    }

    /// `task` has ended. `note` is what joining a range needs.
    pub(super) fn end(&self, task: &FleetTask, end: TaskEnd, note: Option<String>) {
        let mut state = self.lock();
        let Some(at) = state.lands(task) else { return };
        state.count(&end);
        let batch = &mut state.batches[at];
        batch.note = note.or(batch.note.take());
        batch.ended += 1;
        batch.ends[task.position as usize] = Some(end);
        let is_news = batch.is_complete() || state.is_low();
        self.stirs(&mut state, is_news);
    }

    /// `task` was begun and not ended: it is to be given out again.
    ///
    /// False: its batch is another worker's.
    pub(super) fn give_back(&self, task: &FleetTask) -> bool {
        let mut state = self.lock();
        let at = state.lands(task);
        if let Some(at) = at {
            let batch = &mut state.batches[at];
            if (task.position as usize) < batch.count {
                batch.again.insert(task.position as usize);
            }
            self.room.notify_all();
        }
        at.is_some()
    }

    /// Bytes of objects in flight that are at their targets, as a part.
    pub(super) fn set_under_way(&self, bytes: u64) {
        let mut state = self.lock();
        if bytes != state.totals.under_way {
            state.totals.under_way = bytes;
            state.stirred = Instant::now();
        }
    }

    /// Something moves.
    pub(super) fn stir(&self) {
        self.lock().stirred = Instant::now();
    }

    /// A run begins: what ends it before the desk does.
    pub(super) fn begin_run(&self) -> Arc<AtomicBool> {
        let mut state = self.lock();
        state.stop = Arc::default();
        state.totals.under_way = 0;
        Arc::clone(&state.stop)
    }

    /// Nothing more is to be done.
    pub(super) fn is_over(&self) -> bool {
        let state = self.lock();
        state.is_last && state.batches.is_empty()
    }

    /// There is nothing to move for now.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().batches.is_empty()
    }

    /// What was done so far.
    pub(super) fn totals(&self) -> DeskTotals {
        self.lock().totals
    }

    /// Some of what failed, in words.
    pub(super) fn failures(&self) -> Vec<String> {
        self.lock().samples.clone()
    }
}

/// What a clerk has to do.
impl Desk {
    /// A batch is this worker's, which was asked for at `asked`.
    pub(super) fn add(&self, claim: BatchClaim, asked: Instant) {
        let mut state = self.lock();
        let lease = claim.lease;
        state.remove(|held| held.lease.batch == lease.batch);
        state.batches.push(HeldBatch::new(claim, asked));
        state.stirred = Instant::now();
        self.room.notify_all();
    }

    /// Waits for news, for as long as `wait`.
    pub(super) fn await_news(&self, wait: Duration) {
        let mut state = self.lock();
        if !state.has_news {
            self.news.wait_for(&mut state, wait);
        }
        state.has_news = false;
    }

    /// A complete batch, and what became of it.
    pub(super) fn complete(&self) -> Option<(BatchLease, BatchResults)> {
        let state = self.lock();
        // A host that can move nothing gives back what it has, with nothing told of it.
        let mut complete = state.batches.iter().filter(|held| held.is_complete() && state.trouble.is_none());
        let held = complete.next()?;
        Some((held.lease, held.results()))
    }

    /// Only the first `objects` of a batch are this worker's.
    pub(super) fn cut(&self, lease: BatchLease, objects: u64) {
        let mut state = self.lock();
        let is_it = |held: &&mut HeldBatch| held.lease == lease && held.share == TaskShare::Whole;
        if let Some(held) = state.batches.iter_mut().find(is_it) {
            let count = held.count.min(usize::try_from(objects).unwrap_or(usize::MAX));
            held.count = count;
            held.again.retain(|position| *position < count);
            self.room.notify_all();
        }
    }

    /// The ledger has what became of a batch, or another worker has the batch. Whether objects of it are
    /// still in flight.
    pub(super) fn forget(&self, lease: BatchLease) -> bool {
        let mut state = self.lock();
        let is_moving = state.batches.iter().any(|held| held.lease == lease && !held.is_complete());
        // What is left of it in flight comes to its end by itself.
        state.remove(|held| held.lease == lease);
        self.room.notify_all();
        is_moving
    }

    /// Leases that are held.
    pub(super) fn leases(&self) -> Vec<BatchLease> {
        self.lock().batches.iter().map(|held| held.lease).collect()
    }

    /// What the ledger is to be told of: batches that it was last told of so long ago, or a shorter time ago
    /// if it never was, and those of which all is begun that it knows of.
    pub(super) fn due(&self, first: Duration, later: Duration) -> Vec<HeldNow> {
        let mut state = self.lock();
        // Twice what is done until it is told again.
        let soon = (state.pace.1 * 2.0 * later.as_secs_f64()) as usize;
        let at_once = state.at_once;
        let under_way = state.totals.under_way;
        let in_flight: u64 = state.batches.iter().map(|held| held.in_flight_bytes).sum();
        let now = |held: &mut HeldBatch| {
            let ended: u64 = (held.ends.iter().flatten())
                .map(|end| match end {
                    TaskEnd::Moved(bytes) | TaskEnd::Same(bytes) => *bytes,
                    TaskEnd::Failed(..) => 0,
                })
                .sum();
            // The objects in flight have their share of what is under way.
            let share = held.in_flight_bytes as f64 / in_flight.max(1) as f64;
            let bytes = ended + (under_way as f64 * share) as u64;
            held.limit = held.next.saturating_add(soon.max(held.at_once(at_once))).min(held.count);
            held.told = (Instant::now(), true);
            HeldNow { lease: held.lease, reached: held.limit as u64, bytes }
        };
        let is_due = |held: &&mut HeldBatch| {
            let between = if held.told.1 { later } else { first };
            held.told.0.elapsed() >= between || held.is_at_its_limit()
        };
        state.batches.iter_mut().filter(is_due).map(now).collect()
    }

    /// The ledger cannot be told: what is held is done all the same.
    pub(super) fn lift_limits(&self) {
        self.lock().batches.iter_mut().for_each(|held| held.limit = usize::MAX);
        self.room.notify_all();
    }

    /// What is held will be done before another batch can be here.
    pub(super) fn wants_more(&self) -> bool {
        let state = self.lock();
        !state.is_last && state.is_low()
    }

    /// Bytes and objects a second, of late.
    pub(super) fn set_pace(&self, bytes: f64, objects: f64) {
        self.lock().pace = (bytes, objects);
    }

    /// No byte and no object was heard of for so long.
    pub(super) fn still_for(&self) -> Duration {
        self.lock().stirred.elapsed()
    }

    /// Ends the run that goes on: it gives back what it has begun.
    pub(super) fn end_run(&self) {
        self.lock().stop.store(true, Relaxed);
    }

    /// No more comes.
    pub(super) fn close(&self) {
        self.lock().is_last = true;
        self.room.notify_all();
    }

    /// This host can move nothing, and why.
    pub(super) fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    fn lock(&self) -> MutexGuard<'_, DeskState> {
        self.state.lock()
    }

    fn stirs(&self, state: &mut DeskState, is_news: bool) {
        state.stirred = Instant::now();
        if is_news || state.trouble.is_some() {
            state.has_news = true;
            self.news.notify_all();
        }
        // A wake costs as much as a small object: some at once.
        if state.waiting > 0 && (state.in_flight <= state.at_once / 2 || state.in_flight_bytes == 0) {
            self.room.notify_all();
        }
    }
}

/// Failures that are kept in words.
const SAMPLES: usize = 20;

impl DeskState {
    fn remove(&mut self, is_it: impl Fn(&HeldBatch) -> bool) {
        for held in self.batches.iter().filter(|held| is_it(held)) {
            self.in_flight = self.in_flight.saturating_sub(held.in_flight);
            self.in_flight_bytes = self.in_flight_bytes.saturating_sub(held.in_flight_bytes);
        }
        self.batches.retain(|held| !is_it(held));
    }

    fn take(&mut self) -> Option<FleetTask> {
        let bytes = BYTES_AT_ONCE.max(self.pace.0 as u64);
        let is_full = self.in_flight >= self.at_once || self.in_flight_bytes >= bytes;
        if is_full && self.in_flight >= LEAST_AT_ONCE {
            return None;
        }
        self.has_news |= self.batches.iter().any(HeldBatch::is_at_its_limit);
        let may_begin = |held: &&mut HeldBatch| held.next < held.begun_to() || !held.again.is_empty();
        let batch = self.batches.iter_mut().find(may_begin)?;
        let position = batch.take()?;
        self.in_flight += 1;
        self.in_flight_bytes += batch.size(position);
        Some(FleetTask {
            lease: batch.lease,
            position: position as u64,
            object: Arc::clone(&batch.objects[position]),
            share: batch.share.clone(),
        })
    }

    /// `task` is in flight no more. The place of its batch, if that is still held and the task has not ended.
    fn lands(&mut self, task: &FleetTask) -> Option<usize> {
        let at = self.batches.iter().position(|held| held.lease == task.lease)?;
        let position = usize::try_from(task.position).ok()?;
        let batch = &mut self.batches[at];
        if batch.ends.get(position)?.is_some() || batch.again.contains(&position) {
            return None;
        }
        let size = batch.size(position);
        batch.in_flight = batch.in_flight.saturating_sub(1);
        batch.in_flight_bytes = batch.in_flight_bytes.saturating_sub(size);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(size);
        Some(at)
    }

    fn count(&mut self, end: &TaskEnd) {
        let totals = &mut self.totals;
        let tally = match end {
            TaskEnd::Moved(bytes) => Some((&mut totals.moved, bytes)),
            TaskEnd::Same(bytes) => Some((&mut totals.same, bytes)),
            TaskEnd::Failed(class, reason) => {
                totals.failed += 1;
                let is_of_host =
                    matches!(class, FailureClass::Denied | FailureClass::Local | FailureClass::Space);
                self.troubles += u32::from(is_of_host);
                if self.troubles >= TROUBLE && is_of_host {
                    self.trouble.get_or_insert_with(|| reason.clone());
                }
                if self.samples.len() < SAMPLES {
                    self.samples.push(reason.clone());
                }
                None
            }
        };
        if let Some((tally, bytes)) = tally {
            tally.0 += 1;
            tally.1 += bytes;
            self.troubles = 0;
        }
    }

    /// Little is left of all that is held.
    fn is_low(&self) -> bool {
        // Who has more than that to begin is not through with it within the time.
        let unbegun: usize = self.batches.iter().map(|held| held.count - held.next.min(held.count)).sum();
        let (bytes, objects) = self.pace;
        let ahead = AHEAD.as_secs_f64();
        if unbegun as f64 > objects * ahead {
            return false;
        }
        let left = self.batches.iter().map(HeldBatch::left);
        let (open, size) = left.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        let size = size.saturating_sub(self.totals.under_way) as f64;
        open == 0 || open as f64 <= objects * ahead && size <= bytes * ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::FleetSettings;

    const NOW: Duration = Duration::ZERO;
    const AT_ONCE: usize = 128;
    const LONG: Duration = Duration::from_secs(60);

    fn claim(batch: i64, sizes: &[u64]) -> BatchClaim {
        let object = |(number, size): (usize, &u64)| FleetObject {
            source: format!("{number}").into_bytes(),
            target: format!("{number}").into_bytes(),
            size: Some(*size),
            ..FleetObject::default()
        };
        BatchClaim {
            lease: BatchLease { batch, fence: 1 },
            work: BatchWork::Objects(sizes.iter().enumerate().map(object).collect()),
            given_before: 0,
            length: Duration::from_secs(30),
            settings: FleetSettings::default(),
        }
    }

    fn take(desk: &Desk) -> FleetTask {
        match desk.next(NOW) {
            NextTask::Task(task) => task,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn few_large_objects_are_begun_and_many_small_ones() {
        let desk = Desk::new(AT_ONCE);
        desk.add(claim(1, &[1 << 30; 5]), Instant::now());
        desk.lift_limits();
        let tasks = [take(&desk), take(&desk)];
        assert!(matches!(desk.next(NOW), NextTask::NotYet));
        assert_eq!(desk.due(NOW, NOW)[0].reached, 4);
        desk.end(&tasks[1], TaskEnd::Moved(1 << 30), None);
        assert_eq!((take(&desk).position, desk.due(NOW, NOW)[0].reached), (2, 5));
        let small = Desk::new(AT_ONCE);
        small.add(claim(1, &[1; 1000]), Instant::now());
        let begun = std::iter::from_fn(|| match small.next(NOW) {
            NextTask::Task(task) => Some(task),
            _ => None,
        });
        assert_eq!(begun.count(), AT_ONCE);
    }

    #[test]
    fn nothing_is_begun_that_the_ledger_may_give_to_others() {
        let desk = Desk::new(4);
        desk.add(claim(1, &[1; 1000]), Instant::now());
        let begin = || {
            std::iter::from_fn(|| match desk.next(NOW) {
                NextTask::Task(task) => Some(task),
                _ => None,
            })
        };
        let first: Vec<FleetTask> = begin().collect();
        assert_eq!((first.len(), desk.due(LONG, LONG).len()), (4, 0));
        assert_eq!(desk.due(NOW, LONG)[0].reached, 8);
        first.iter().for_each(|task| desk.end(task, TaskEnd::Moved(1), None));
        let second: Vec<FleetTask> = begin().collect();
        second.iter().for_each(|task| desk.end(task, TaskEnd::Moved(1), None));
        assert_eq!((second.len(), begin().count()), (4, 0));
        assert_eq!(desk.due(LONG, LONG)[0].reached, 12, "it is told before its time");
        assert_eq!(begin().count(), 4);
        desk.lift_limits();
        assert!(desk.due(LONG, LONG).is_empty());
    }

    #[test]
    fn what_was_given_back_comes_first_and_what_was_cut_off_counts_no_more() {
        let desk = Desk::new(AT_ONCE);
        desk.add(claim(7, &[10, 20, 30, 40]), Instant::now());
        desk.lift_limits();
        let tasks: Vec<FleetTask> = (0..3).map(|_| take(&desk)).collect();
        desk.give_back(&tasks[0]);
        desk.give_back(&tasks[0]);
        desk.end(&tasks[1], TaskEnd::Same(20), None);
        desk.end(&tasks[2], TaskEnd::Moved(30), None);
        desk.end(&tasks[2], TaskEnd::Moved(30), None);
        desk.cut(tasks[0].lease, 2);
        assert!(desk.complete().is_none());
        let again = take(&desk);
        assert_eq!(again.position, 0);
        assert!(matches!(desk.next(NOW), NextTask::NotYet));
        desk.end(&again, TaskEnd::Failed(FailureClass::Missing, "gone".to_owned()), None);
        let (lease, results) = desk.complete().unwrap();
        assert_eq!((results.covered, results.same.objects, results.moved.objects), (2, 1, 0));
        assert_eq!(results.failures.len(), 1);
        desk.close();
        assert!(!desk.forget(lease));
        assert!(matches!(desk.next(NOW), NextTask::End));
    }

    #[test]
    fn the_next_batch_is_wanted_when_little_is_left() {
        let desk = Desk::new(AT_ONCE);
        assert!(desk.wants_more());
        desk.add(claim(1, &[1000, 1000]), Instant::now());
        desk.lift_limits();
        let (one, _two) = (take(&desk), take(&desk));
        assert!(!desk.wants_more(), "nothing is known of how fast it goes");
        desk.set_pace(1000.0, 10.0);
        assert!(!desk.wants_more(), "two seconds are left");
        desk.end(&one, TaskEnd::Moved(1000), None);
        desk.set_under_way(500);
        assert!(!desk.wants_more());
        desk.set_under_way(700);
        assert!(desk.wants_more());
    }

    #[test]
    fn a_host_that_fails_alone_is_found_out() {
        let denied = || TaskEnd::Failed(FailureClass::Denied, "403".to_owned());
        let desk = Desk::new(AT_ONCE);
        desk.add(claim(1, &[1; 40]), Instant::now());
        desk.lift_limits();
        for round in 0..2 {
            for _ in 0..TROUBLE - 1 {
                desk.end(&take(&desk), denied(), None);
            }
            assert_eq!(desk.trouble(), None, "{round}");
            desk.end(&take(&desk), TaskEnd::Moved(1), None);
        }
        for _ in 0..TROUBLE {
            desk.end(&take(&desk), denied(), None);
        }
        assert_eq!(desk.trouble().as_deref(), Some("403"));
    }
}
