//! Which records of a lane are written: threads finish them in any order, the sender is told how far all are.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Of all lanes.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    state: Mutex<AcksState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct AcksState {
    lanes: Vec<LaneState>,
    dirty: bool,
    over: bool,
}

#[derive(Debug)]
struct LaneState {
    id: u32,
    /// All records below this are written.
    next: u64,
    ahead: BTreeSet<u64>,
    /// What was told last.
    told: u64,
}

impl Acks {
    /// Record `sequence` of `lane` is written. The first one that counts is 1: 0 is the hello, or over ssh
    /// the first.
    pub(crate) fn done(&self, lane: u32, sequence: u64, first: u64) {
        let mut state = self.lock();
        if !state.lanes.iter().any(|one| one.id == lane) {
            state.lanes.push(LaneState { id: lane, next: first, ahead: BTreeSet::new(), told: first });
        }
        let Some(one) = state.lanes.iter_mut().find(|one| one.id == lane) else { return };
        one.ahead.insert(sequence);
        while one.ahead.remove(&one.next) {
            one.next += 1;
        }
        if one.next > one.told && !state.dirty {
            state.dirty = true;
            self.changed.notify_one();
        }
    }

    /// Waits for news: each lane with the last record up to which all are written. `None` when it is over.
    pub(crate) fn wait(&self) -> Option<Vec<(u32, u64)>> {
        let mut state = self.lock();
        while !state.dirty && !state.over {
            self.changed.wait_for(&mut state, Duration::from_secs(1));
        }
        if state.over {
            return None;
        }
        state.dirty = false;
        let mut news = Vec::new();
        for one in state.lanes.iter_mut().filter(|one| one.next > one.told) {
            one.told = one.next;
            news.push((one.id, one.next - 1));
        }
        Some(news)
    }

    /// Nobody wants to know any more.
    pub(crate) fn stop(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, AcksState> {
        self.state.lock()
    }
}
