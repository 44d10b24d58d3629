//! All that lies on a desk: the batches, what is begun of them, and what became of it so far.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::held::{BYTES_AT_ONCE, HeldBatch, LEAST_AT_ONCE};
use super::{DeskTotals, FleetTask, Shared, TaskEnd};
use crate::class::FailureClass;
use crate::ledger::BatchLease;

/// So long before the last byte of what is held the next batch is claimed: a claim takes some milliseconds,
/// and a hundred where the database is far or busy. Whoever claims earlier takes what others could do.
const AHEAD: Duration = Duration::from_millis(400);

/// So many objects in a row that fail by a fault of this host, with not one that succeeds: it is the host,
/// and not the objects. Where it is the objects all the same, others meet them after their other work, and
/// the last attempt at them is made to its end.
pub(super) const TROUBLE: u32 = 8;

/// What lies on a desk.
pub(super) struct DeskState {
    /// Objects begun at once.
    pub(super) at_once: usize,
    /// Who each move one of them at a time.
    hands: usize,
    pub(super) batches: Vec<HeldBatch>,
    /// No more comes.
    pub(super) is_last: bool,
    pub(super) in_flight: usize,
    pub(super) in_flight_bytes: u64,
    pub(super) totals: DeskTotals,
    /// Ends the run that goes on.
    pub(super) stop: Arc<AtomicBool>,
    /// Bytes and objects a second, of late.
    pub(super) pace: (f64, f64),
    pub(super) waiting: u32,
    pub(super) has_news: bool,
    /// All that was held was given up, and no hand has asked for work since: each of them hangs.
    pub(super) all_hang: bool,
    pub(super) troubles: u32,
    pub(super) trouble: Option<(FailureClass, String)>,
    pub(super) samples: Vec<String>,
    /// Leases of batches that went to other workers.
    pub(super) lost: HashSet<BatchLease>,
    /// When a byte or an object was last heard of.
    pub(super) stirred: Instant,
    /// What workers on a large object are to have in common, and whether the ledger was asked.
    pub(super) asked: Vec<((i64, String), bool)>,
    /// What they have in common.
    pub(super) answered: Vec<((i64, String), Shared)>,
}

/// Objects that were given up, and are kept in words.
const SAMPLES: usize = 20;

impl DeskState {
    pub(super) fn new(at_once: usize, hands: usize) -> DeskState {
        DeskState {
            at_once,
            hands,
            batches: Vec::new(),
            is_last: false,
            in_flight: 0,
            in_flight_bytes: 0,
            totals: DeskTotals::default(),
            stop: Arc::default(),
            pace: (0.0, 0.0),
            waiting: 0,
            has_news: false,
            all_hang: false,
            troubles: 0,
            trouble: None,
            samples: Vec::new(),
            lost: HashSet::new(),
            stirred: Instant::now(),
            asked: Vec::new(),
            answered: Vec::new(),
        }
    }

    pub(super) fn remove(&mut self, is_it: impl Fn(&HeldBatch) -> bool) {
        for held in self.batches.iter().filter(|held| is_it(held)) {
            self.in_flight = self.in_flight.saturating_sub(held.in_flight);
            self.in_flight_bytes = self.in_flight_bytes.saturating_sub(held.in_flight_bytes);
        }
        self.batches.retain(|held| !is_it(held));
    }

    /// Begun at once, however large they are.
    pub(super) fn least(&self) -> usize {
        LEAST_AT_ONCE.max(self.hands)
    }

    pub(super) fn take(&mut self) -> Option<FleetTask> {
        let bytes = BYTES_AT_ONCE.max(self.pace.0 as u64);
        let is_full = self.in_flight >= self.at_once || self.in_flight_bytes >= bytes;
        if is_full && self.in_flight >= self.least() {
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
    pub(super) fn lands(&mut self, task: &FleetTask) -> Option<usize> {
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

    /// An object of the batch at `at` has ended.
    pub(super) fn count(&mut self, at: usize, end: &TaskEnd) {
        let (batch, is_last) = (&self.batches[at], self.batches[at].is_last);
        let totals = &mut self.totals;
        let tally = match end {
            TaskEnd::Moved(bytes) => Some((&mut totals.moved, bytes)),
            TaskEnd::Same(bytes) => Some((&mut totals.same, bytes)),
            TaskEnd::Failed(class, reason) => {
                let is_given_up = batch.gives_up(*class);
                if is_given_up {
                    totals.failed += 1;
                } else {
                    totals.retried += 1;
                }
                // Of the last attempt all is told, whatever is to blame; a full disk is no attempt.
                let is_of_host = *class == FailureClass::Space
                    || !is_last && matches!(class, FailureClass::Denied | FailureClass::Local);
                self.troubles += u32::from(is_of_host);
                if self.troubles >= TROUBLE && is_of_host {
                    self.trouble.get_or_insert_with(|| (*class, reason.clone()));
                }
                if is_given_up && self.samples.len() < SAMPLES {
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

    /// What failed of a batch was one attempt of several: others have the batch.
    pub(super) fn uncount(&mut self, lease: BatchLease) {
        let Some(held) = self.batches.iter().find(|held| held.lease == lease) else { return };
        let given_up: Vec<&String> = held.given_up().collect();
        let count = given_up.len() as u64;
        self.totals.failed = self.totals.failed.saturating_sub(count);
        self.totals.retried += count;
        self.samples.retain(|sample| !given_up.contains(&sample));
    }

    /// What is open of the batch at `at` has failed, if that is its last attempt.
    pub(super) fn fail_last(&mut self, at: usize, why: &str) {
        if !self.batches[at].is_last {
            return;
        }
        for (position, object) in self.batches[at].abandon() {
            let end = TaskEnd::Failed(FailureClass::Network, format!("{}: {why}", object.source_text()));
            self.count(at, &end);
            self.batches[at].ended(position, end);
        }
    }

    /// Another batch is due: a hand has nothing to do, or what is held will soon be done.
    pub(super) fn is_low(&self) -> bool {
        let open: usize = self.batches.iter().map(|held| held.left().0).sum();
        open < self.hands || self.is_short()
    }

    /// What is held will be done within [`AHEAD`].
    pub(super) fn is_short(&self) -> bool {
        let left = self.batches.iter().map(HeldBatch::left);
        let (open, size) = left.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        // Who has more than that to begin is not through with it within the time.
        let unbegun: usize = self.batches.iter().map(|held| held.count - held.next.min(held.count)).sum();
        let (bytes, objects) = self.pace;
        let ahead = AHEAD.as_secs_f64();
        if unbegun as f64 > objects * ahead {
            return false;
        }
        let size = size.saturating_sub(self.totals.under_way) as f64;
        open as f64 <= objects * ahead && size <= bytes * ahead
    }
}
