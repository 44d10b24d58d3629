//! How many blocks may be at work or wait for lanes: on a slow link, what a fast processor compressed long before it can go was
//! compressed for the link as it was.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Counts those inside.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    inside: u32,
    /// No bound where there is none.
    most: Option<u32>,
    over: bool,
}

/// A block inside, until this is dropped.
#[derive(Debug)]
pub(crate) struct Inside<'a>(&'a Gate);

impl Gate {
    /// Waits until one more may be inside; `None` when it is over.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        let mut state = self.lock();
        while !state.over && state.most.is_some_and(|most| state.inside >= most) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.over {
            return None;
        }
        state.inside += 1;
        Some(Inside(self))
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.lock().inside -= 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_enters_when_one_leaves_or_more_may() {
        let gate = Gate::default();
        gate.allow(Some(1));
        let first = gate.enter();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| gate.enter().is_some());
            drop(first);
            assert!(waits.join().unwrap());
            let _inside = gate.enter();
            let waits = scope.spawn(|| gate.enter().is_some());
            gate.allow(Some(2));
            assert!(waits.join().unwrap());
        });
    }

    #[test]
    fn whoever_waits_is_told_when_it_is_over() {
        let gate = Gate::default();
        gate.allow(Some(1));
        let _inside = gate.enter();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| gate.enter().is_none());
            gate.stop();
            assert!(waits.join().unwrap());
        });
    }
}
