//! Which batches are stored: one that comes again, since its lane broke before the sender heard of it, is not
//! stored twice. A folder's list of what is to stay would else be taken for all that there is, and every file
//! be counted once more.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::wire::record::Malformed;

/// How far batches may be ahead of one that is missing: more than a sender has entries under way (16384),
/// each perhaps a batch.
const AHEAD: usize = 1 << 15;

/// By their numbers, which count from 0.
#[derive(Debug, Default)]
pub(super) struct Batches {
    state: Mutex<BatchState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BatchState {
    /// All below are stored.
    next: u64,
    /// And these.
    ahead: BTreeSet<u64>,
    /// These are being stored.
    at_work: BTreeSet<u64>,
}

/// The right to store a batch. It is stored when this is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    batches: &'a Batches,
    number: u64,
}

impl Batches {
    /// Whoever is to store this batch; `None` where that was done. Waits for another thread that is at it.
    pub(super) fn turn(&self, number: u64) -> Result<Option<Turn<'_>>, Malformed> {
        let mut state = self.lock();
        loop {
            if number < state.next || state.ahead.contains(&number) {
                return Ok(None);
            }
            if !state.at_work.contains(&number) {
                break;
            }
            self.changed.wait_for(&mut state, Duration::from_secs(1));
        }
        if number - state.next > AHEAD as u64 {
            return Err(Malformed::Footer);
        }
        state.at_work.insert(number);
        Ok(Some(Turn { batches: self, number }))
    }

    fn lock(&self) -> MutexGuard<'_, BatchState> {
        self.state.lock()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.batches.lock();
        state.at_work.remove(&self.number);
        state.ahead.insert(self.number);
        while state.ahead.first() == Some(&state.next) {
            state.ahead.pop_first();
            state.next += 1;
        }
        self.batches.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_stored_once_in_whatever_order() {
        let batches = Batches::default();
        for number in [1, 0, 3, 2] {
            assert!(batches.turn(number).unwrap().is_some());
        }
        for number in [0, 1, 2, 3] {
            assert!(batches.turn(number).unwrap().is_none());
        }
        assert!(batches.lock().ahead.is_empty(), "what is in order takes no room");
    }

    #[test]
    fn one_that_is_being_stored_is_waited_for() {
        let batches = Batches::default();
        let first = batches.turn(0).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| batches.turn(0).unwrap().is_none());
            drop(first);
            assert!(second.join().unwrap());
        });
    }

    #[test]
    fn numbers_that_nobody_can_have_reached_are_refused() {
        let batches = Batches::default();
        assert!(batches.turn(u64::MAX).is_err());
        assert!(batches.turn(AHEAD as u64).unwrap().is_some());
    }
}
