//! Who does what next: jobs that wait, bulk objects at work, and the lanes that share them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use weir_observe::names::Lookup;
use weir_units::{nofile, threads};

use crate::download::{Download, LEAST_PART};
use crate::job::Job;
use crate::ledger::{LaneId, SplitRule};
use crate::ramp::Ramp;
use crate::sink::Sink;
use crate::source::WINDOW;
use crate::transfer::Transfer;

/// Parts of this size are always worth a connection: at 100 MB/s and 10 ms it is one round trip's bytes.
const MIN_PART: u64 = 1 << 20;

/// How often lanes without work look whether the name that a job waits for is there: little beside what a
/// late name took anyway.
const NAMES: Duration = Duration::from_millis(20);

/// Lanes at most that stand in for others: as many as there may be for small files, and fewer where a process
/// may have few descriptors.
fn most_stuck() -> usize {
    nofile::share(32, 32)
}

/// From this many jobs on, round trips are worth overlapping from the start.
pub const MANY: usize = 8;

/// A job in the queue.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// Its number.
    pub job: usize,
    /// What to fetch.
    pub task: Arc<Job>,
    /// See [`Job::host`].
    host: u32,
    /// What has become of it so far.
    pub download: Download,
    not_before: Option<Instant>,
    /// The name that it waits for, since when.
    name: Option<(Lookup, Instant)>,
    aside: Duration,
}

impl Waiting {
    /// A job that begins, or begins anew.
    pub fn new(job: usize, task: Arc<Job>, download: Download) -> Waiting {
        let host = task.host();
        Waiting { job, task, host, download, not_before: None, name: None, aside: Duration::ZERO }
    }

    /// How long it has been put aside for names.
    pub fn aside(&self) -> Duration {
        self.aside
    }

    fn is_ready(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|time| time <= now)
            && self.name.as_ref().is_none_or(|(name, _)| name.is_over())
    }
}

/// A host that a lane leaves alone for a while.
#[derive(Debug, Clone, Copy)]
pub struct Avoid {
    /// See [`Job::host`].
    pub host: u32,
    /// For how long.
    pub until: Instant,
}

/// What a lane is to do.
pub enum Work {
    /// Ask for a job's object.
    Open(Waiting),
    /// Fetch a part of an object at work.
    Part(Arc<Transfer>, Range<u64>),
    /// Stop: there are more lanes than wanted, or no more work.
    Quit,
}

/// How the wait for a place among the bulk lanes ended. But for `NotYet` the lane counts as one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkPlace {
    /// The lane may begin.
    Taken,
    /// Others have them all.
    NotYet,
    /// The run ends.
    Stopped,
}

/// The pool.
pub struct Pool {
    state: Mutex<PoolState>,
    /// For whoever brings jobs: there is room for more.
    room: Condvar,
    /// For lanes that have nothing to do.
    work: Condvar,
    /// For the watch: the end of the run, or a wish for more lanes.
    watch: Condvar,
}

struct PoolState {
    queue: VecDeque<Waiting>,
    active: Vec<Arc<Transfer>>,
    /// Transfers that no lane takes a part of before a time.
    resting: Vec<(usize, Instant)>,
    /// The hosts that lanes wait for in vain, one entry a lane, while there is work of other hosts.
    stuck: Vec<u32>,
    /// How many of these lanes hold a place among those that carry.
    stuck_bulk: u32,
    /// Jobs that are open, and wait for a place among the lanes that carry: neither queued nor active.
    held: Vec<(usize, u32)>,
    /// There are threads for others to do it.
    may_stand_in: bool,
    /// Jobs that have not ended.
    unended: BTreeMap<usize, Arc<Job>>,
    /// Jobs that were given.
    given: usize,
    /// Jobs in all, where that is known.
    count: Option<usize>,
    /// No more will be given.
    is_all: bool,
    finished: usize,
    lanes: u32,
    bulk_lanes: u32,
    small_wanted: u32,
    bulk_wanted: u32,
    /// Neither part of a split is smaller.
    min_part: u64,
    ramp: Ramp,
    stopped: bool,
    /// Why the run ended for want of a lane.
    refusal: Option<String>,
    known_bytes: u64,
    /// Lanes asleep for want of work: only then is it worth a system call to wake them.
    sleepers: u32,
}

/// A look at the pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct Census {
    /// Lanes that live.
    pub lanes: u32,
    /// Lanes on bulk objects.
    pub bulk_lanes: u32,
    /// Lanes wanted.
    pub wanted: u32,
    /// Jobs finished.
    pub finished: usize,
    /// Of how many, as far as is known.
    pub jobs: usize,
    /// All of them are known.
    pub is_all: bool,
    /// Bytes of finished jobs.
    pub finished_bytes: u64,
    /// Bytes done of those at work.
    pub active_bytes: u64,
    /// Sizes of those at work, if all are known.
    pub active_total: Option<u64>,
    /// Jobs not opened yet.
    pub waiting: usize,
    /// One of those at work has bytes left to be received.
    pub is_unfinished: bool,
}

impl Pool {
    /// A pool without jobs; `small` lanes at most for small objects (fixed from the start if `fixed`), `bulk`
    /// to begin with.
    pub fn new(small: u32, fixed: bool, bulk: u32) -> Pool {
        let ramp = Ramp::new(if fixed { 1 } else { small });
        Pool {
            state: Mutex::new(PoolState {
                queue: VecDeque::new(),
                active: Vec::new(),
                resting: Vec::new(),
                stuck: Vec::new(),
                stuck_bulk: 0,
                held: Vec::new(),
                may_stand_in: true,
                unended: BTreeMap::new(),
                given: 0,
                count: None,
                is_all: false,
                finished: 0,
                lanes: 0,
                bulk_lanes: 0,
                small_wanted: if fixed { small } else { ramp.lanes() },
                bulk_wanted: bulk,
                min_part: MIN_PART,
                ramp,
                stopped: false,
                refusal: None,
                known_bytes: 0,
                sleepers: 0,
            }),
            room: Condvar::new(),
            work: Condvar::new(),
            watch: Condvar::new(),
        }
    }

    /// One more job. Returns its number.
    pub fn add(&self, task: Job) -> usize {
        let mut state = self.lock();
        let (job, task) = (state.given, Arc::new(task));
        state.given += 1;
        state.unended.insert(job, Arc::clone(&task));
        state.queue.push_back(Waiting::new(job, task, Download::default()));
        self.announce(&state);
        job
    }

    /// One more job that has ended already, with so many bytes. Returns its number.
    pub(crate) fn add_ended(&self, bytes: u64) -> usize {
        let mut state = self.lock();
        state.given += 1;
        state.finished += 1;
        state.known_bytes += bytes;
        state.given - 1
    }

    /// There are so many jobs in all.
    pub(crate) fn set_count(&self, count: Option<usize>) {
        self.lock().count = count;
    }

    /// All jobs that there are have been given.
    pub(crate) fn set_whole(&self) {
        let mut state = self.lock();
        state.count = Some(state.given);
    }

    /// No more jobs will come.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_all = true;
        if state.is_done() {
            self.work.notify_all();
        }
        self.announce(&state);
    }

    /// Waits until there is room for more jobs, or `span` at most. False: no more are wanted.
    pub(crate) fn wait_for_room(&self, span: Duration) -> bool {
        let mut state = self.lock();
        if !state.stopped && state.unended.len() >= WINDOW {
            self.room.wait_for(&mut state, span);
        }
        !state.stopped
    }

    /// There is room for more jobs.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().unended.len() < WINDOW
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock()
    }

    fn announce(&self, state: &PoolState) {
        if state.sleepers > 0 {
            self.work.notify_all();
        }
        if state.is_done() || state.is_over() || state.is_short_of_lanes() {
            self.watch.notify_all();
        }
    }

    /// Sleeps until something changed, or for `span`.
    fn sleep<'a>(&self, mut state: MutexGuard<'a, PoolState>, span: Duration) -> MutexGuard<'a, PoolState> {
        state.sleepers += 1;
        self.work.wait_for(&mut state, span);
        state.sleepers -= 1;
        state
    }

    /// A lane may be started; it then counts.
    pub fn admit(&self) -> bool {
        let mut state = self.lock();
        let admitted = state.is_short_of_lanes();
        state.lanes += u32::from(admitted);
        admitted
    }

    /// An admitted lane could not be started.
    pub(crate) fn dismissed(&self, why: &io::Error) {
        let mut state = self.lock();
        state.lanes -= 1;
        // Fewer lanes is slower; none at all would wait for ever.
        if state.lanes == 0 {
            state.refusal = Some(threads::words(why));
            state.stopped = true;
        }
        let most = state.lanes;
        (state.may_stand_in, state.stuck, state.stuck_bulk) = (false, Vec::new(), 0);
        state.small_wanted = state.small_wanted.min(most);
        state.bulk_wanted = state.bulk_wanted.min(most);
        self.announce(&state);
    }

    /// Why the run ended for want of a lane.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.lock().refusal.clone()
    }

    /// A lane's thread ended by a fault: the run cannot be trusted further.
    pub fn fault(&self) {
        let mut state = self.lock();
        state.lanes -= 1;
        state.stopped = true;
        self.work.notify_all();
        self.watch.notify_all();
    }

    /// What `lane` is to do next; waits until there is something. `rests` hears of each time that it sleeps
    /// for want of work: another lane may have taken what this one waited for.
    pub fn next(&self, lane: LaneId, avoids: Option<Avoid>, rests: &dyn Fn()) -> Work {
        let mut state = self.lock();
        loop {
            if state.stopped || state.is_done() || state.lanes > state.wanted() + state.stuck.len() as u32 {
                state.lanes -= 1;
                self.announce(&state);
                return Work::Quit;
            }
            let now = Instant::now();
            let avoids = avoids.filter(|avoids| now < avoids.until);
            // Lanes beyond the number wanted are here for the hosts that nobody waits for.
            let (stuck, is_beyond) = (state.stuck.clone(), state.lanes > state.wanted());
            let may = |host: u32, beyond: bool| {
                let is_left_alone = (beyond || is_beyond) && stuck.contains(&host);
                avoids.is_none_or(|avoids| avoids.host != host) && !is_left_alone
            };
            state.resting.retain(|(_, until)| now < *until);
            if let Some(work) = (state.part(lane, false, &may))
                .or_else(|| state.open(now, &may))
                .or_else(|| state.part(lane, true, &may))
            {
                return work;
            }
            let timeout = state.next_ready(now).unwrap_or(Duration::from_millis(100));
            let timeout = avoids.map_or(timeout, |avoids| timeout.min(avoids.until - now));
            rests();
            state = self.sleep(state, timeout);
        }
    }

    /// The opened `job` of `host` is a bulk object: waits for a place among the bulk lanes, for ever or for
    /// `timeout`.
    pub(crate) fn begin_bulk(&self, job: usize, host: u32, timeout: Option<Duration>) -> BulkPlace {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        let mut state = self.lock();
        state.held.push((job, host));
        let is_in_time = loop {
            if state.bulk_lanes < state.bulk_wanted + state.stuck_bulk || state.stopped {
                break true;
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                break false;
            }
            state = self.sleep(state, Duration::from_millis(100));
        };
        state.held.retain(|(held, _)| *held != job);
        if !is_in_time {
            return BulkPlace::NotYet;
        }
        state.bulk_lanes += 1;
        if state.stopped { BulkPlace::Stopped } else { BulkPlace::Taken }
    }

    /// Other lanes may join `transfer`.
    pub(crate) fn activate(&self, transfer: &Arc<Transfer>) {
        let mut state = self.lock();
        state.active.push(Arc::clone(transfer));
        self.announce(&state);
    }

    /// A lane leaves the bulk object it worked on.
    pub(crate) fn end_bulk(&self) {
        let mut state = self.lock();
        state.bulk_lanes -= 1;
        self.announce(&state);
    }

    /// Puts a job back for a later attempt.
    pub(crate) fn requeue(&self, waiting: Waiting, after: Duration) {
        let mut state = self.lock();
        state.queue.push_back(Waiting { not_before: Some(Instant::now() + after), ..waiting });
        self.announce(&state);
    }

    /// Puts a job back until its `name` has an address, or has none.
    pub fn put_aside(&self, waiting: Waiting, name: Lookup) {
        let mut state = self.lock();
        state.queue.push_back(Waiting { name: Some((name, Instant::now())), not_before: None, ..waiting });
        self.announce(&state);
    }

    /// Lanes that wait for these hosts in vain, and whether they hold a place among those that carry. While
    /// other hosts have work others do it in their stead: a host that is down holds up no other.
    pub(crate) fn set_stuck(&self, lanes: Vec<(u32, bool)>) {
        let mut state = self.lock();
        if lanes.is_empty() && state.stuck.is_empty() {
            return;
        }
        let is_stuck = |own: u32| lanes.iter().any(|(host, _)| *host == own);
        let now = Instant::now();
        let waits = state.queue.iter().any(|job| !is_stuck(job.host) && job.is_ready(now));
        let held = state.held.iter().map(|(_, host)| *host);
        let mut is_open = held.chain(state.active.iter().map(|transfer| transfer.task.host()));
        let has_other = waits || is_open.any(|host| !is_stuck(host));
        let lanes = if has_other && state.may_stand_in { lanes } else { Vec::new() };
        let stuck_bulk = lanes.iter().filter(|(_, bulk)| *bulk).count() as u32;
        let stuck: Vec<u32> = lanes.into_iter().take(most_stuck()).map(|(host, _)| host).collect();
        if (&stuck, stuck_bulk) != (&state.stuck, state.stuck_bulk) {
            (state.stuck, state.stuck_bulk) = (stuck, stuck_bulk);
            self.announce(&state);
        }
    }

    /// No lane takes a part of `job` before `until`.
    pub fn rest(&self, job: usize, until: Instant) {
        self.lock().resting.push((job, until));
    }

    /// `job` has ended, with so many bytes. What it was; `None` if that was said before.
    #[must_use]
    pub(crate) fn ended(&self, job: usize, bytes: u64) -> Option<Arc<Job>> {
        let mut state = self.lock();
        state.active.retain(|transfer| transfer.job != job);
        let task = state.unended.remove(&job)?;
        state.finished += 1;
        state.known_bytes += bytes;
        // A full window is refilled from three quarters on: waking whoever does that costs a system call.
        if state.unended.len() == WINDOW * 3 / 4 {
            self.room.notify_all();
        }
        // Other lanes only need to hear of the end of all jobs.
        if state.is_done() {
            self.announce(&state);
        }
        Some(task)
    }

    /// The jobs that have not ended, in their order.
    pub(crate) fn unended(&self) -> Vec<(usize, Arc<Job>)> {
        self.lock().unended.iter().map(|(job, task)| (*job, Arc::clone(task))).collect()
    }

    /// The first job that was given and has not ended.
    pub(crate) fn first(&self) -> Option<Arc<Job>> {
        self.lock().unended.first_key_value().map(|(_, task)| Arc::clone(task))
    }

    /// Jobs that were given, and how many there are in all, where that is known.
    pub(crate) fn given(&self) -> (usize, Option<usize>) {
        let state = self.lock();
        (state.given, state.count)
    }

    /// A transfer begins again from its URL.
    pub(crate) fn deactivate(&self, job: usize) {
        self.lock().active.retain(|transfer| transfer.job != job);
    }

    /// A lane that had finished `brought` small objects has finished another one. The ramp may now want more
    /// lanes, or fewer.
    pub(crate) fn on_small_object(&self, now: Instant, brought: u32) {
        let mut state = self.lock();
        let waiting = state.queue.len();
        if let Some(lanes) = state.ramp.on_object(now, brought, waiting) {
            state.small_wanted = lanes;
            self.announce(&state);
        }
    }

    /// How many small objects at once bring the most was tried to the end.
    pub(crate) fn at_once_tried(&self) -> bool {
        self.lock().ramp.has_tried()
    }

    /// The lanes wanted now.
    pub fn wanted(&self) -> u32 {
        self.lock().wanted()
    }

    /// The lanes wanted for bulk objects.
    pub(crate) fn wanted_bulk(&self) -> u32 {
        self.lock().bulk_wanted
    }

    /// Sets the lanes for bulk objects.
    pub(crate) fn want_bulk(&self, lanes: u32) {
        let mut state = self.lock();
        state.bulk_wanted = lanes;
        self.announce(&state);
    }

    /// A lane brings `bytes` in the time that makes a request of its own worthwhile; parts are split no
    /// further.
    pub(crate) fn split_down_to(&self, bytes: u64) {
        self.lock().min_part = bytes.clamp(LEAST_PART, MIN_PART);
    }

    /// Ends all work.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        self.room.notify_all();
        self.announce(&state);
    }

    /// All jobs have ended; lanes may still be waiting for answers that nobody needs any more.
    pub fn is_done(&self) -> bool {
        self.lock().is_done()
    }

    /// Waits up to `span` for the end of the run, or until more lanes are wanted. True when it is over.
    pub(crate) fn wait_over(&self, span: Duration) -> bool {
        let deadline = Instant::now() + span;
        let mut state = self.lock();
        let was_done = state.is_done();
        loop {
            if state.is_over() {
                return true;
            }
            let now = Instant::now();
            if now >= deadline || state.is_short_of_lanes() || (state.is_done() && !was_done) {
                return false;
            }
            self.watch.wait_for(&mut state, deadline - now);
        }
    }

    /// The objects at work.
    pub fn active(&self) -> Vec<Arc<Transfer>> {
        self.lock().active.clone()
    }

    /// A look at the whole.
    pub(crate) fn census(&self) -> Census {
        let state = self.lock();
        let mut census = Census {
            lanes: state.lanes,
            bulk_lanes: state.bulk_lanes,
            wanted: state.wanted(),
            finished: state.finished,
            jobs: state.count.unwrap_or(state.given).max(state.given),
            is_all: state.is_all || state.count.is_some(),
            finished_bytes: state.known_bytes,
            active_total: Some(0),
            waiting: state.queue.len() + state.count.map_or(0, |count| count.saturating_sub(state.given)),
            active_bytes: 0,
            is_unfinished: false,
        };
        for transfer in &state.active {
            let ledger = transfer.ledger();
            census.active_bytes += ledger.done().len();
            census.is_unfinished |= !ledger.is_complete();
            drop(ledger);
            census.active_total = census.active_total.zip(transfer.size).map(|(sum, size)| sum + size);
        }
        census
    }
}

impl PoolState {
    fn is_done(&self) -> bool {
        self.is_all && self.unended.is_empty()
    }

    fn is_over(&self) -> bool {
        (self.stopped || self.is_done()) && self.lanes == 0
    }

    fn is_short_of_lanes(&self) -> bool {
        !self.stopped && !self.is_done() && self.lanes < self.wanted() + self.stuck.len() as u32
    }

    fn wanted(&self) -> u32 {
        self.small_wanted.max(self.bulk_wanted)
    }

    /// The next job whose time has come.
    fn open(&mut self, now: Instant, may: &dyn Fn(u32, bool) -> bool) -> Option<Work> {
        let ready = self.queue.iter().position(|job| may(job.host, false) && job.is_ready(now))?;
        let mut job = self.queue.remove(ready)?;
        job.aside +=
            job.name.take().map_or(Duration::ZERO, |(_, since)| now.saturating_duration_since(since));
        Some(Work::Open(job))
    }

    fn part(&mut self, lane: LaneId, split: bool, may: &dyn Fn(u32, bool) -> bool) -> Option<Work> {
        if self.bulk_lanes >= self.bulk_wanted + self.stuck_bulk {
            return None;
        }
        let is_beyond = self.bulk_lanes >= self.bulk_wanted;
        let joining = u64::from(self.bulk_wanted.saturating_sub(self.bulk_lanes).max(1));
        for transfer in &self.active {
            if !may(transfer.task.host(), is_beyond)
                || self.resting.iter().any(|(job, _)| *job == transfer.job)
            {
                continue;
            }
            let mut ledger = transfer.ledger();
            if !transfer.download().takes_lane(ledger.lanes(), split) {
                continue;
            }
            let claim = match (&transfer.sink, split) {
                (_, false) => transfer.claim_gap(&mut ledger, lane, self.bulk_wanted),
                (Sink::Part(_), true) => {
                    ledger.claim_split(lane, SplitRule { min_part: self.min_part, joining })
                }
                (Sink::Stream(_), true) => None,
            };
            drop(ledger);
            if let Some(range) = claim {
                self.bulk_lanes += 1;
                return Some(Work::Part(Arc::clone(transfer), range));
            }
        }
        None
    }

    fn next_ready(&self, now: Instant) -> Option<Duration> {
        let is_aside = self.queue.iter().any(|job| job.name.is_some());
        let times = self.queue.iter().filter_map(|job| job.not_before);
        let times = times.chain(self.resting.iter().map(|(_, until)| *until));
        let next = times.min().map(|time| time.saturating_duration_since(now).max(Duration::from_millis(1)));
        // Names do not call, they are looked at.
        if is_aside { Some(next.map_or(NAMES, |next| next.min(NAMES))) } else { next }
    }
}

#[cfg(test)]
mod tests;
