//! Who does what: jobs that wait, uploads under way, and how many lanes work on which.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use weir_get::GetError;
use weir_units::threads;

use super::job::JobReport;
use super::transfer::Transfer;
use crate::error::StoreError;

/// What a lane does next.
pub(super) enum Work {
    /// Nothing more is to be done.
    Quit,
    /// Open this job; it is large or not.
    Open(usize, bool),
    /// Send this part (see [`Transfer::claim`]).
    Part(Arc<Transfer>, u32),
}

/// Lanes of a run and jobs at most: each lane has a thread and a connection.
pub(super) const MOST_LANES: u32 = 64;

/// The work of a run.
pub(super) struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

struct QueueState {
    /// Of each job, whether it is sent in parts.
    large: Vec<bool>,
    next: usize,
    /// Jobs that begin again, and how often each did.
    again: Vec<usize>,
    begun_again: Vec<u8>,
    active: Vec<Arc<Transfer>>,
    reports: Vec<Option<JobReport>>,
    finished: (usize, u64),
    left: [u32; 2],
    at_work: [u32; 2],
    most: [u32; 2],
    /// Lanes of all kinds at most.
    most_lanes: u32,
    /// Why there are no more of them.
    refusal: Option<String>,
    alive: u32,
    is_stopping: bool,
}

/// A run at a glance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Census {
    /// Lanes at work on large objects, and all of them.
    pub(super) bulk: u32,
    pub(super) lanes: u32,
    /// Jobs that have ended, and their bytes.
    pub(super) finished: (usize, u64),
}

impl Queue {
    /// For jobs of which these are `large`; `most` small ones at once, and lanes on large ones.
    pub(super) fn new(large: Vec<bool>, most_small: u32, most_bulk: u32) -> Queue {
        let bulk = large.iter().filter(|is_large| **is_large).count() as u32;
        let state = QueueState {
            next: 0,
            again: Vec::new(),
            begun_again: vec![0; large.len()],
            active: Vec::new(),
            reports: large.iter().map(|_| None).collect(),
            finished: (0, 0),
            left: [large.len() as u32 - bulk, bulk],
            at_work: [0, 0],
            most: [most_small, most_bulk],
            most_lanes: MOST_LANES,
            refusal: None,
            alive: 0,
            is_stopping: false,
            large,
        };
        Queue { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// A lane more may begin; the caller starts it.
    pub(super) fn admit(&self) -> bool {
        let mut state = self.state.lock();
        let wanted = state.wanted();
        let admits = !state.is_stopping && state.alive < wanted;
        state.alive += u32::from(admits);
        admits
    }

    /// A lane has ended.
    pub(super) fn dismissed(&self) {
        self.state.lock().alive -= 1;
        self.changed.notify_all();
    }

    /// A lane that was admitted could not begin: those that live have to do.
    pub(super) fn not_started(&self, why: &io::Error) {
        let mut state = self.state.lock();
        state.alive -= 1;
        state.most_lanes = state.alive;
        // Fewer lanes is slower; none at all would wait for ever.
        state.is_stopping |= state.alive == 0;
        state.refusal = Some(threads::words(why));
        drop(state);
        self.changed.notify_all();
    }

    /// Why there are fewer lanes than were wanted.
    pub(super) fn refusal(&self) -> Option<String> {
        self.state.lock().refusal.clone()
    }

    /// The next work of a lane.
    pub(super) fn next(&self) -> Work {
        let mut state = self.state.lock();
        loop {
            if state.is_stopping || state.is_over() {
                return Work::Quit;
            }
            if let Some(work) = state.take() {
                return work;
            }
            self.changed.wait(&mut state);
        }
    }

    /// A lane has done its work on a large object or on a small one.
    pub(super) fn done(&self, is_large: bool) {
        self.state.lock().at_work[usize::from(is_large)] -= 1;
        self.changed.notify_all();
    }

    /// An upload has begun.
    pub(super) fn activate(&self, transfer: &Arc<Transfer>) {
        self.state.lock().active.push(Arc::clone(transfer));
        self.changed.notify_all();
    }

    /// An upload has ended, whichever way.
    pub(super) fn retire(&self, transfer: &Arc<Transfer>) {
        self.state.lock().active.retain(|other| !Arc::ptr_eq(other, transfer));
        self.changed.notify_all();
    }

    /// After a stop: an upload that was begun and that no lane is at work on. It is the caller's to end.
    pub(super) fn left_behind(&self) -> Option<Arc<Transfer>> {
        let mut state = self.state.lock();
        if !state.is_stopping {
            return None;
        }
        let is_left = |one: &Arc<Transfer>| one.breaks_off(GetError::Interrupted.into());
        let at = state.active.iter().position(is_left)?;
        Some(state.active.remove(at))
    }

    /// A job has ended.
    pub(super) fn report(&self, job: usize, report: JobReport) {
        let mut state = self.state.lock();
        state.finished.0 += 1;
        state.finished.1 += report.bytes;
        state.reports[job] = Some(report);
        drop(state);
        self.changed.notify_all();
    }

    /// A job is to begin again; `false` where it did so before.
    pub(super) fn begin_again(&self, job: usize) -> bool {
        let mut state = self.state.lock();
        let is_first = state.begun_again[job] == 0;
        if is_first {
            state.begun_again[job] += 1;
            state.again.push(job);
            let large = usize::from(state.large[job]);
            state.left[large] += 1;
        }
        is_first
    }

    /// So many lanes on large objects from now on.
    pub(super) fn want_bulk(&self, lanes: u32) {
        self.state.lock().most[1] = lanes;
        self.changed.notify_all();
    }

    /// Nothing new is begun.
    pub(super) fn stop(&self) {
        self.state.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// Waits for as long as `limit` for all lanes to have ended with nothing left to do.
    pub(super) fn wait_over(&self, limit: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.is_ended() {
            self.changed.wait_for(&mut state, limit);
        }
        state.is_ended()
    }

    /// Uploads under way.
    pub(super) fn active(&self) -> Vec<Arc<Transfer>> {
        self.state.lock().active.clone()
    }

    /// See [`Census`].
    pub(super) fn census(&self) -> Census {
        let state = self.state.lock();
        Census {
            bulk: state.at_work[1],
            lanes: state.at_work[0] + state.at_work[1],
            finished: state.finished,
        }
    }

    /// The reports of all jobs; of those that have none, this is why.
    pub(super) fn take_reports(&self, unfinished: impl Fn() -> StoreError) -> Vec<JobReport> {
        let reports = std::mem::take(&mut self.state.lock().reports);
        reports.into_iter().map(|report| report.unwrap_or_else(|| JobReport::failed(unfinished()))).collect()
    }
}

impl QueueState {
    /// Lanes that have something to do.
    fn wanted(&self) -> u32 {
        let of = |kind: usize| self.most[kind].min(self.left[kind] + self.at_work[kind]);
        let parts = if self.left[1] > 0 || !self.active.is_empty() { self.most[1] } else { 0 };
        (of(0) + parts).min(self.most_lanes)
    }

    fn is_over(&self) -> bool {
        let has_jobs = self.next < self.large.len() || !self.again.is_empty();
        !has_jobs && self.active.is_empty() && self.at_work == [0, 0]
    }

    /// No lane is left, and none has anything to do.
    fn is_ended(&self) -> bool {
        self.alive == 0 && (self.is_stopping || self.is_over())
    }

    fn take(&mut self) -> Option<Work> {
        if self.at_work[1] < self.most[1] {
            let part = self.active.iter().find_map(|one| Some((Arc::clone(one), one.claim()?)));
            if let Some((transfer, number)) = part {
                self.at_work[1] += 1;
                return Some(Work::Part(transfer, number));
            }
        }
        let job = self.again.last().copied().or((self.next < self.large.len()).then_some(self.next))?;
        let kind = usize::from(self.large[job]);
        if self.at_work[kind] >= self.most[kind] {
            return None;
        }
        if self.again.pop().is_none() {
            self.next += 1;
        }
        self.left[kind] -= 1;
        self.at_work[kind] += 1;
        Some(Work::Open(job, kind == 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_opened_in_order_and_no_more_at_once_than_may_be() {
        let queue = Queue::new(vec![false, false, false, true], 2, 1);
        let open = |work: Work| match work {
            Work::Open(job, is_large) => (job, is_large),
            _ => panic!("no job"),
        };
        assert!(queue.admit() && queue.admit() && queue.admit() && !queue.admit());
        assert_eq!([open(queue.next()), open(queue.next())], [(0, false), (1, false)]);
        assert!(queue.state.lock().take().is_none());
        queue.done(false);
        assert_eq!([open(queue.next()), open(queue.next())], [(2, false), (3, true)]);
        assert!(queue.begin_again(0) && !queue.begin_again(0));
        queue.done(false);
        assert_eq!(open(queue.next()), (0, false));
        (0..2).for_each(|_| queue.done(false));
        queue.done(true);
        assert!(matches!(queue.next(), Work::Quit));
        assert!(!queue.wait_over(Duration::ZERO));
        (0..3).for_each(|_| queue.dismissed());
        assert!(queue.wait_over(Duration::ZERO));
    }

    #[test]
    fn a_lane_that_cannot_begin_is_asked_for_once() {
        let refused = io::Error::from(io::ErrorKind::WouldBlock);
        let queue = Queue::new(vec![false, false, true], 2, 4);
        assert!(queue.admit() && queue.admit());
        queue.not_started(&refused);
        assert!(!queue.admit(), "the one that lives has to do");
        assert!(matches!(queue.next(), Work::Open(0, false)));
        let queue = Queue::new(vec![true], 2, 4);
        assert!(queue.admit());
        queue.not_started(&refused);
        assert!(!queue.admit() && matches!(queue.next(), Work::Quit));
        assert!(queue.wait_over(Duration::ZERO), "nobody is left to wait for");
        assert!(queue.refusal().unwrap().starts_with("cannot start a thread: "));
    }
}
