//! What a worker holds: batches that its clerk has claimed, and the objects of them that its mover moves.
//!
//! A mover takes [`FleetTask`]s in the order of the batch and tells how each ended. It gets no more of them
//! than it is about to begin, since what is not begun can still be given to another worker. The clerk is told
//! when a batch is complete, and when what is left is so little that the next one should be claimed.

//!
//! [`held`] is one batch, [`state`] all that lies on the desk; what is here is what the two sides may ask.

mod held;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use self::held::HeldBatch;
use self::state::DeskState;
use crate::class::FailureClass;
use crate::ledger::{BatchClaim, BatchLease, BatchResults};
use crate::object::{FleetObject, ObjectRange};

/// What the ledger says to whoever wants to share something ([`Desk::share`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shared {
    /// This is what all have in common; empty: the object was given up, or is done.
    As(String),
    /// It was not asked.
    Never,
    /// It was asked, and its answer is not known.
    Unknown,
}

/// How soon whoever waits for an answer of the ledger looks whether it is there.
const POLL: Duration = Duration::from_millis(100);

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

impl FleetTask {
    /// That of its batch.
    pub(super) fn lease(&self) -> BatchLease {
        self.lease
    }
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
    /// It was given up, and this upload of it is to be taken away.
    Abort(String),
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
    /// Objects that failed and are given up.
    pub failed: u64,
    /// Attempts that failed, with another one to come.
    pub retried: u64,
    /// Bytes of objects that have not ended.
    pub under_way: u64,
    /// Of these, bytes that were at the target already and are compared.
    pub compared: u64,
}

/// The desk.
pub struct Desk {
    state: Mutex<DeskState>,
    /// For movers: there is something to begin.
    room: Condvar,
    /// For the clerk: a batch is complete, or little is left.
    news: Condvar,
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
    /// An empty one, of which `at_once` objects at most are begun and not ended, by so many hands.
    pub(super) fn new(at_once: usize, hands: usize) -> Desk {
        let state = DeskState::new(at_once, hands);
        Desk { state: Mutex::new(state), room: Condvar::new(), news: Condvar::new() }
    }
}

/// What a mover has to do.
impl Desk {
    /// The next object, waited for as long as `wait`.
    pub(super) fn next(&self, wait: Duration) -> NextTask {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        state.all_hang = false;
        loop {
            // A run that is ending would give it back.
            let is_ending = state.stop.load(Relaxed);
            if !is_ending && let Some(task) = state.take() {
                return NextTask::Task(task);
            }
            if state.has_news {
                self.news.notify_all();
            }
            if state.is_last && state.batches.is_empty() {
                return NextTask::End;
            }
            if is_ending {
                return NextTask::NotYet;
            }
            state.waiting += 1;
            let is_late = self.room.wait_until(&mut state, until).timed_out();
            state.waiting -= 1;
            if is_late {
                return NextTask::NotYet;
            }
        }
    }

    /// Asks the ledger what this worker and others on a large object have in common: `token`, or what another
    /// said before.
    pub(super) fn share(&self, large: i64, token: &str) -> Shared {
        let mut state = self.lock();
        if state.is_last {
            return Shared::Never;
        }
        let own = (large, token.to_owned());
        state.asked.push((own.clone(), false));
        state.has_news = true;
        self.news.notify_all();
        loop {
            if let Some(at) = state.answered.iter().position(|(asked, _)| *asked == own) {
                return state.answered.swap_remove(at).1;
            }
            // The clerk has a deadline, hears signals, and leaves nobody without an answer.
            self.room.wait_for(&mut state, POLL);
        }
    }

    /// `task` has ended. `note` is what joining a range needs.
    pub(super) fn end(&self, task: &FleetTask, end: TaskEnd, note: Option<String>) {
        let mut state = self.lock();
        let Some(at) = state.lands(task) else { return };
        state.count(at, &end);
        let batch = &mut state.batches[at];
        batch.note = note.or(batch.note.take());
        batch.ended(task.position as usize, end);
        let is_news = batch.is_complete() || state.is_low();
        self.stirs(&mut state, is_news);
    }

    /// `task` was begun and not ended: it is to be given out again, unless its batch is another worker's.
    pub(super) fn give_back(&self, task: &FleetTask) {
        let mut state = self.lock();
        if let Some(at) = state.lands(task) {
            let batch = &mut state.batches[at];
            if (task.position as usize) < batch.count {
                batch.again.insert(task.position as usize);
            }
            self.room.notify_all();
        }
    }

    /// Bytes of objects in flight that are at their targets, as a part; so many of them were there before.
    pub(super) fn set_under_way(&self, bytes: u64, compared: u64) {
        let mut state = self.lock();
        state.totals.compared = compared;
        if bytes != state.totals.under_way {
            state.totals.under_way = bytes;
            state.stirred = Instant::now();
        }
    }

    /// Something moves.
    pub(super) fn stir(&self) {
        self.lock().stirred = Instant::now();
    }

    /// Something was read, which counts as moving. False: the run is to end.
    pub(super) fn goes_on(&self, stop: &AtomicBool) -> bool {
        self.stir();
        !stop.load(Relaxed)
    }

    /// A run begins: what ends it before the desk does.
    pub(super) fn begin_run(&self) -> Arc<AtomicBool> {
        let mut state = self.lock();
        state.stop = Arc::default();
        (state.totals.under_way, state.totals.compared) = (0, 0);
        Arc::clone(&state.stop)
    }

    /// Nothing more is to be done.
    pub(super) fn is_over(&self) -> bool {
        let state = self.lock();
        state.is_last && state.batches.is_empty()
    }

    /// Of what is held nothing is left to move.
    pub(super) fn is_through(&self) -> bool {
        self.lock().batches.iter().all(HeldBatch::is_complete)
    }

    /// There is nothing to move for now.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().batches.is_empty()
    }

    /// What was done so far.
    pub(super) fn totals(&self) -> DeskTotals {
        self.lock().totals
    }

    /// Some of what was given up, in words.
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

    /// What the ledger is to be asked to share ([`Desk::share`]).
    pub(super) fn to_share(&self) -> Option<(i64, String)> {
        let mut state = self.lock();
        let (asked, is_tried) = state.asked.last_mut()?;
        *is_tried = true;
        Some(asked.clone())
    }

    /// The answer.
    pub(super) fn shares(&self, asked: (i64, String), token: String) {
        let mut state = self.lock();
        state.asked.retain(|(own, _)| *own != asked);
        state.answered.push((asked, Shared::As(token)));
        self.room.notify_all();
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
            held.cut(count);
            self.room.notify_all();
        }
    }

    /// Another worker has the batch. Whether objects of it are still in flight.
    pub(super) fn lose(&self, lease: BatchLease) -> bool {
        self.lock().lost.insert(lease);
        self.hand_back(lease)
    }

    /// The batch is for others, who tell what became of it. Whether objects of it are still in flight.
    pub(super) fn hand_back(&self, lease: BatchLease) -> bool {
        let mut state = self.lock();
        state.uncount(lease);
        self.drops(&mut state, lease)
    }

    /// The batch of this lease went to another worker.
    pub(super) fn is_lost(&self, lease: BatchLease) -> bool {
        self.lock().lost.contains(&lease)
    }

    /// The ledger has what became of a batch, or others have it. Whether objects of it are still in flight.
    pub(super) fn forget(&self, lease: BatchLease) -> bool {
        self.drops(&mut self.lock(), lease)
    }

    fn drops(&self, state: &mut DeskState, lease: BatchLease) -> bool {
        let is_moving = state.batches.iter().any(|held| held.lease == lease && !held.is_complete());
        // What is left of it in flight comes to its end by itself.
        state.remove(|held| held.lease == lease);
        self.room.notify_all();
        is_moving
    }

    /// Nothing moves of all that is held, for `why`. Of last attempts that is told as how they failed; the
    /// leases of the others.
    pub(super) fn give_up(&self, why: &str) -> Vec<BatchLease> {
        let mut state = self.lock();
        for at in 0..state.batches.len() {
            state.fail_last(at, why);
        }
        state.stirred = Instant::now();
        state.all_hang = true;
        state.batches.iter().filter(|held| !held.is_last).map(|held| held.lease).collect()
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
        let (at_once, least) = (state.at_once, state.least());
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
            held.limit = held.next.saturating_add(soon.max(held.at_once(at_once, least))).min(held.count);
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

    /// Another batch is to be claimed.
    pub(super) fn wants_more(&self) -> bool {
        let state = self.lock();
        !state.is_last && !state.all_hang && state.is_low()
    }

    /// What is held will be done before another batch can be here, whether or not a hand is free.
    pub(super) fn is_short(&self) -> bool {
        self.lock().is_short()
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
        let mut state = self.lock();
        state.is_last = true;
        for (asked, is_tried) in std::mem::take(&mut state.asked) {
            let shared = if is_tried { Shared::Unknown } else { Shared::Never };
            state.answered.push((asked, shared));
        }
        drop(state);
        self.room.notify_all();
    }

    /// This host can move nothing, and why.
    pub(super) fn trouble(&self) -> Option<String> {
        self.lock().trouble.as_ref().map(|(_, why)| why.clone())
    }

    /// Of a host that can move nothing: the batches whose objects may be to blame. That its disk is full is
    /// nobody's fault but its own.
    pub(super) fn failed(&self) -> Vec<BatchLease> {
        let state = self.lock();
        let are_failed = state.trouble.as_ref().is_some_and(|(class, _)| class.is_of_the_host());
        let failed = state.batches.iter().filter(|held| are_failed && held.has_failed());
        failed.map(|held| held.lease).collect()
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
