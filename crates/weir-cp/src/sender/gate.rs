//! How many records may be at work or wait for lanes: on a slow link, what a fast processor compressed long
//! before it can go was compressed for the link as it was.

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Lets in the first so many workers: always the same ones, since each that was ever in keeps its buffers and
/// its codec's tables.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    /// No bound where there is none.
    most: Option<u32>,
    over: bool,
}

impl Gate {
    /// Waits until this worker (0, 1, 2, ...) may take a record; false when it is over.
    pub(crate) fn admits(&self, worker: u32) -> bool {
        let mut state = self.lock();
        while !state.over && state.most.is_some_and(|most| worker >= most) {
            self.changed.wait(&mut state);
        }
        !state.over
    }

    /// So many may be inside from now on.
    pub(crate) fn allow(&self, most: Option<u32>) {
        let mut state = self.lock();
        if state.most != most {
            state.most = most;
            self.changed.notify_all();
        }
    }

    /// Nobody waits any more.
    pub(crate) fn stop(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_let_in_and_the_next_when_more_may() {
        let gate = Gate::default();
        gate.allow(Some(1));
        assert!(gate.admits(0) && gate.admits(0));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| gate.admits(1));
            gate.allow(Some(2));
            assert!(waits.join().unwrap());
        });
        gate.allow(None);
        assert!(gate.admits(100));
    }

    #[test]
    fn whoever_waits_is_told_when_it_is_over() {
        let gate = Gate::default();
        gate.allow(Some(1));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| gate.admits(1));
            gate.stop();
            assert!(!waits.join().unwrap());
        });
    }
}
