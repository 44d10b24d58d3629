//! One upload in parts, as its lanes share it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::Relaxed};

use parking_lot::Mutex;
use weir_codec::digest::Algorithm;
use weir_observe::stage_clock::Stage;

use super::elsewhere::Elsewhere;
use super::journal::{Journal, KeptPart};
use super::plan::{PART, Plan};
use super::shared::SharedUpload;
use super::source::{FileSource, HELD, Stream};
use super::{Part, Sum};
use crate::error::StoreError;
use weir_codec::hex;

/// Memory that the parts of a stream may take together: five of the first ones. With what else a run has it
/// stays below 64 MiB.
const HELD_TOGETHER: u64 = 5 * PART;

/// An upload that was begun.
pub(super) struct Transfer {
    pub(super) job: usize,
    pub(super) id: String,
    pub(super) plan: Plan,
    pub(super) algorithm: Option<Algorithm>,
    pub(super) content: Whole,
    /// Bytes of a share, which somebody else ends; `None`: it is all of the object.
    pub(super) share: Option<u64>,
    /// Bytes that an earlier run had sent.
    pub(super) resumed: u64,
    /// Bytes sent, those under way included.
    pub(super) moved: AtomicI64,
    /// The most lanes at one time.
    pub(super) most_lanes: AtomicU32,
    journal: Mutex<Option<Journal>>,
    state: Mutex<TransferState>,
    notes: Mutex<Vec<String>>,
}

/// What it is made of.
pub(super) enum Whole {
    File(FileSource),
    /// With the number of the part that it brings next, and what a lane does while it waits for that.
    Stream(Mutex<(Stream, u32)>, Stage),
    Elsewhere(Arc<Elsewhere>),
}

#[derive(Default)]
struct TransferState {
    /// Parts that no lane has taken, the next at the end.
    todo: Vec<u32>,
    /// A stream that has not ended.
    flows: bool,
    at_work: u32,
    parts: BTreeMap<u32, (Part, u64)>,
    error: Option<StoreError>,
    /// A lane ends it: nothing more of it is sent.
    is_over: bool,
}

/// Where a transfer stands after one of its lanes has ended a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    /// There is more to do, or others do it.
    Open,
    /// All has been sent, or it has failed, and no other lane is at work: this one ends it.
    Over,
}

impl Transfer {
    /// Of `size` bytes that can be read anywhere, with the parts that the store has already; with the first
    /// in a lane's hands, if that `has_first`.
    pub(super) fn of_parts(
        (job, id): (usize, String),
        (plan, algorithm): (Plan, Option<Algorithm>),
        (content, size): (Whole, u64),
        journal: Option<Journal>,
        there: Vec<Part>,
        has_first: bool,
    ) -> Transfer {
        let parts: BTreeMap<u32, (Part, u64)> = there
            .into_iter()
            .map(|part| (part.number, (part.clone(), plan.range(part.number, size).1)))
            .collect();
        let resumed = parts.values().map(|(_, length)| length).sum::<u64>();
        let first = if has_first { 2 } else { 1 };
        let todo = (first..=plan.parts(size)).rev().filter(|number| !parts.contains_key(number)).collect();
        let state = TransferState { todo, parts, ..TransferState::default() };
        Transfer {
            job,
            id,
            plan,
            algorithm,
            content,
            share: None,
            resumed,
            moved: AtomicI64::new(i64::try_from(resumed).unwrap_or(i64::MAX)),
            most_lanes: AtomicU32::new(0),
            journal: Mutex::new(journal),
            state: Mutex::new(state),
            notes: Mutex::default(),
        }
    }

    /// Of a stream whose first parts have been read; the next has the number `next`.
    pub(super) fn of_stream(
        (job, id): (usize, String),
        (plan, algorithm): (Plan, Option<Algorithm>),
        (stream, next): (Stream, u32),
        journal: Option<Journal>,
    ) -> Transfer {
        let state = TransferState { flows: true, ..TransferState::default() };
        let stage = stream.stage();
        Transfer {
            job,
            id,
            plan,
            algorithm,
            content: Whole::Stream(Mutex::new((stream, next)), stage),
            share: None,
            resumed: 0,
            moved: AtomicI64::new(0),
            most_lanes: AtomicU32::new(0),
            journal: Mutex::new(journal),
            state: Mutex::new(state),
            notes: Mutex::default(),
        }
    }

    /// Of a share of an object: the parts `numbers`, which hold so many bytes.
    pub(super) fn of_share(
        job: usize,
        upload: &SharedUpload,
        content: Whole,
        (numbers, bytes): (Range<u32>, u64),
    ) -> Transfer {
        let state = TransferState { todo: numbers.rev().collect(), ..TransferState::default() };
        Transfer {
            job,
            id: upload.id.clone(),
            plan: upload.plan(),
            algorithm: upload.algorithm(),
            content,
            share: Some(bytes),
            resumed: 0,
            moved: AtomicI64::new(0),
            most_lanes: AtomicU32::new(0),
            journal: Mutex::default(),
            state: Mutex::new(state),
            notes: Mutex::default(),
        }
    }

    /// The whole size, where it is known.
    pub(super) fn size(&self) -> Option<u64> {
        if self.share.is_some() {
            return self.share;
        }
        match &self.content {
            Whole::File(source) => Some(source.identity().size),
            Whole::Stream(..) => None,
            Whole::Elsewhere(source) => Some(source.size),
        }
    }

    /// Bytes sent so far.
    pub(super) fn bytes(&self) -> u64 {
        u64::try_from(self.moved.load(Relaxed)).unwrap_or_default()
    }

    /// A part for a lane; of a stream `Some(0)`: the lane reads which it is.
    pub(super) fn claim(&self) -> Option<u32> {
        let mut state = self.state.lock();
        if state.error.is_some() || state.is_over {
            return None;
        }
        let number = match &self.content {
            Whole::File(_) => state.todo.pop(),
            Whole::Elsewhere(_) => {
                let is_free = self.is_free(state.at_work, 1);
                if is_free { state.todo.pop() } else { None }
            }
            Whole::Stream(..) => {
                // What the parts that follow have; those before are no larger.
                let next = state.parts.len() as u32 + state.at_work + 1;
                (state.flows && self.is_free(state.at_work, next)).then_some(0)
            }
        }?;
        state.at_work += 1;
        self.most_lanes.fetch_max(state.at_work, Relaxed);
        Some(number)
    }

    /// Beside the parts that are held now there is room for one as long as part `number`.
    fn is_free(&self, at_work: u32, number: u32) -> bool {
        u64::from(at_work + 1) * self.plan.length(number).min(HELD) <= HELD_TOGETHER
    }

    /// A lane goes to work on a part that it has already.
    pub(super) fn join(&self) {
        let mut state = self.state.lock();
        state.at_work += 1;
        self.most_lanes.fetch_max(state.at_work, Relaxed);
    }

    /// The stream has ended.
    pub(super) fn end_stream(&self) {
        self.state.lock().flows = false;
    }

    /// It has failed, or was stopped.
    pub(super) fn has_failed(&self) -> bool {
        self.state.lock().error.is_some()
    }

    /// A lane has ended its part: it is at the store, there was none left, or it failed. Over it is once: the
    /// others may still find it among those under way when its error has been taken.
    pub(super) fn leave(&self, outcome: Result<Option<(Part, u64)>, StoreError>) -> Stand {
        if let Ok(Some((part, _))) = &outcome {
            let sum = part.sum.as_ref().map(|sum| hex::encode(&sum.value));
            let of_source = match &self.content {
                Whole::Elsewhere(source) => source.sum_of(part.number),
                Whole::File(_) | Whole::Stream(..) => None,
            };
            let kept = KeptPart { number: part.number, tag: part.tag.clone(), sum, kept: of_source };
            if let Some(journal) = &mut *self.journal.lock()
                && let Err(error) = journal.part(kept)
            {
                tracing::debug!("the journal of an upload: {error}");
            }
        }
        let mut state = self.state.lock();
        state.at_work -= 1;
        match outcome {
            Ok(Some((part, length))) => drop(state.parts.insert(part.number, (part, length))),
            Ok(None) => {}
            // What a stop cuts off beside the first failure is no other one.
            Err(error) => drop(state.error.get_or_insert(error)),
        }
        let is_done = state.error.is_some() || state.todo.is_empty() && !state.flows;
        if !is_done || state.at_work > 0 || state.is_over {
            return Stand::Open;
        }
        state.is_over = true;
        Stand::Over
    }

    /// It ends for `error` where no lane is at work on it and none will be: whether it does.
    pub(super) fn breaks_off(&self, error: StoreError) -> bool {
        let mut state = self.state.lock();
        let is_open = !state.is_over && state.error.is_none() && (!state.todo.is_empty() || state.flows);
        let is_left = is_open && state.at_work == 0;
        if is_left {
            (state.error, state.is_over) = (Some(error), true);
        }
        is_left
    }

    /// Why it failed, where it did; for the lane that ends it.
    pub(super) fn take_error(&self) -> Option<StoreError> {
        self.state.lock().error.take()
    }

    /// The parts at the store, in their order, and their bytes.
    pub(super) fn parts(&self) -> (Vec<Part>, u64) {
        let state = self.state.lock();
        let size = state.parts.values().map(|(_, length)| length).sum();
        (state.parts.values().map(|(part, _)| part.clone()).collect(), size)
    }

    /// The digest of all of it, from those of its parts.
    pub(super) fn whole(&self) -> Option<Sum> {
        let algorithm = self.algorithm?;
        let state = self.state.lock();
        let mut parts = state.parts.values();
        let first = parts.next()?.0.sum.as_ref()?.value.clone();
        let value = parts.try_fold(first, |sum, (part, length)| {
            algorithm.combined(&sum, &part.sum.as_ref()?.value, *length)
        })?;
        Some(Sum { algorithm, value })
    }

    /// Takes the journal: nothing more is written to it.
    pub(super) fn take_journal(&self) -> Option<Journal> {
        self.journal.lock().take()
    }

    /// What is known of it outlives this run.
    pub(super) fn is_journaled(&self) -> bool {
        self.journal.lock().is_some()
    }

    /// Something to say of it.
    pub(super) fn note(&self, note: String) {
        let mut notes = self.notes.lock();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// All that was noted.
    pub(super) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lanes that its end wakes find it among those under way still.
    #[test]
    fn what_is_over_is_ended_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, "abc").unwrap();
        let of_three = || {
            let content = (Whole::File(FileSource::open(&path).unwrap()), 3);
            let plan = (Plan::of_part(1), None);
            Transfer::of_parts((0, "u".to_owned()), plan, content, None, Vec::new(), false)
        };
        let error = || StoreError::Source("no".to_owned());
        let transfer = of_three();
        assert_eq!([transfer.claim(), transfer.claim()], [Some(1), Some(2)]);
        assert_eq!(transfer.leave(Err(error())), Stand::Open);
        let part = Part { number: 1, tag: String::new(), sum: None };
        assert_eq!(transfer.leave(Ok(Some((part, 1)))), Stand::Over);
        assert!(transfer.take_error().is_some());
        assert_eq!(transfer.claim(), None);
        assert!(!transfer.breaks_off(error()));
        // The same of one that a stop has ended.
        let transfer = of_three();
        assert!(transfer.breaks_off(error()) && transfer.take_error().is_some());
        assert!(transfer.claim().is_none() && !transfer.breaks_off(error()));
    }
}
