//! A batch that is held: which of its objects are begun, which have ended, and how.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{TaskEnd, TaskShare};
use crate::class::FailureClass;
use crate::ledger::{BatchClaim, BatchLease, BatchResults, BatchWork, ObjectFailure};
use crate::object::FleetObject;

/// Bytes begun at once; more where a second brings more. Two objects are begun in any case: while one ends,
/// the other is carried.
pub(super) const BYTES_AT_ONCE: u64 = 64 << 20;
pub(super) const LEAST_AT_ONCE: usize = 2;

/// So long after a claim others may be given what the ledger does not know to be begun; they are half a
/// second after it.
const UNTOLD: Duration = Duration::from_millis(400);

pub(super) struct HeldBatch {
    pub(super) lease: BatchLease,
    pub(super) objects: Vec<Arc<FleetObject>>,
    pub(super) share: TaskShare,
    /// No attempt comes after this one.
    pub(super) is_final: bool,
    /// Nor was it the first.
    pub(super) is_last: bool,
    /// So many of them, from the first, are this worker's.
    pub(super) count: usize,
    pub(super) next: usize,
    /// Nothing behind this is begun before the ledger knows: others may be given it.
    pub(super) limit: usize,
    /// When the ledger was last told, and whether it ever was.
    pub(super) told: (Instant, bool),
    pub(super) again: BTreeSet<usize>,
    pub(super) ends: Vec<Option<TaskEnd>>,
    /// Of its own those that have not ended, and their bytes: asked for with every object that ends.
    open: (usize, u64),
    pub(super) in_flight: usize,
    pub(super) in_flight_bytes: u64,
    pub(super) note: Option<String>,
}

impl HeldBatch {
    /// What was given to whoever asked at `asked`.
    pub(super) fn new(claim: BatchClaim, asked: Instant) -> HeldBatch {
        let (objects, share) = match claim.work {
            BatchWork::Objects(objects) => (objects, TaskShare::Whole),
            BatchWork::Range(object, range) => (vec![object], TaskShare::Range(range)),
            BatchWork::Join(object, range, notes) => (vec![object], TaskShare::Join(range, notes)),
            BatchWork::Abort(object, token) => (vec![object], TaskShare::Abort(token)),
        };
        let mut held = HeldBatch {
            lease: claim.lease,
            share,
            is_final: claim.is_final,
            is_last: claim.is_last,
            count: objects.len(),
            next: 0,
            // Others may be given the last half of a batch of which the ledger was told nothing.
            limit: (objects.len() / 2).max(1),
            told: (asked, false),
            again: BTreeSet::new(),
            ends: vec![None; objects.len()],
            open: (0, 0),
            in_flight: 0,
            in_flight_bytes: 0,
            note: None,
            objects: objects.into_iter().map(Arc::new).collect(),
        };
        held.open = held.counted();
        held
    }

    /// The next of it that is not begun.
    pub(super) fn take(&mut self) -> Option<usize> {
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
    pub(super) fn size(&self, position: usize) -> u64 {
        match &self.share {
            TaskShare::Whole => self.objects[position].size.unwrap_or(0),
            TaskShare::Range(range) => range.range.end - range.range.start,
            TaskShare::Join(..) | TaskShare::Abort(_) => 0,
        }
    }

    /// Objects that are next, and begun together.
    pub(super) fn at_once(&self, most: usize, least: usize) -> usize {
        let mut bytes = 0;
        let next = (self.next..self.count).take(most).take_while(|position| {
            bytes += self.size(*position);
            bytes <= BYTES_AT_ONCE
        });
        next.count().max(least)
    }

    pub(super) fn is_at_its_limit(&self) -> bool {
        self.next >= self.begun_to() && self.next < self.count
    }

    /// Nothing behind this is begun now.
    pub(super) fn begun_to(&self) -> usize {
        let is_unknown = !self.told.1 && self.limit < usize::MAX && self.told.0.elapsed() >= UNTOLD;
        if is_unknown { self.next } else { self.count.min(self.limit) }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.open.0 == 0
    }

    /// An object of it failed by what another host may not have.
    pub(super) fn has_failed(&self) -> bool {
        let is_of_host = |end: &TaskEnd| matches!(end, TaskEnd::Failed(class, _) if class.is_of_the_host());
        self.ends.iter().flatten().any(is_of_host)
    }

    /// Nobody tries an object of it again that failed by this.
    pub(super) fn gives_up(&self, class: FailureClass) -> bool {
        self.is_final || class.is_permanent()
    }

    /// The reasons of its objects that were given up.
    pub(super) fn given_up(&self) -> impl Iterator<Item = &String> {
        self.ends.iter().flatten().filter_map(move |end| match end {
            TaskEnd::Failed(class, reason) if self.gives_up(*class) => Some(reason),
            _ => None,
        })
    }

    /// An object of it has ended.
    pub(super) fn ended(&mut self, position: usize, end: TaskEnd) {
        if position < self.count && self.ends[position].is_none() {
            self.open.0 -= 1;
            self.open.1 -= self.size(position);
        }
        self.ends[position] = Some(end);
    }

    /// Begins none of it any more. Those that have not ended.
    pub(super) fn abandon(&mut self) -> Vec<(usize, Arc<FleetObject>)> {
        self.next = self.count;
        self.again.clear();
        let open = (0..self.count).filter(|position| self.ends[*position].is_none());
        open.map(|position| (position, Arc::clone(&self.objects[position]))).collect()
    }

    /// Only the first `count` are this worker's.
    pub(super) fn cut(&mut self, count: usize) {
        self.count = count;
        self.again.retain(|position| *position < count);
        self.open = self.counted();
    }

    /// Objects and bytes that have not ended.
    pub(super) fn left(&self) -> (usize, u64) {
        self.open
    }

    fn counted(&self) -> (usize, u64) {
        let open = (0..self.count).filter(|position| self.ends[*position].is_none());
        open.fold((0, 0), |(objects, bytes), position| (objects + 1, bytes + self.size(position)))
    }

    pub(super) fn results(&self) -> BatchResults {
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
