//! Several objects written to stdout, as `cat` does it: each begins when the one before it is complete, and
//! none after one that failed.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use weir_get::job::JobOutcome;

/// How long to wait for the job at work. As long as the engine pauses between two questions to a source: it
/// leaves that out then, and the next job begins at once.
const WAIT: Duration = Duration::from_millis(20);

/// How many jobs have ended, and whether one failed.
#[derive(Default)]
pub struct Turns {
    state: Mutex<TurnsState>,
    changed: Condvar,
}

#[derive(Default)]
struct TurnsState {
    ended: usize,
    has_failed: bool,
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The next job's.
    Next,
    /// That of the job that is running.
    Former,
    /// Nobody's: a job failed.
    Nobody,
}

impl Turns {
    /// A job has ended.
    pub fn ended(&self, outcome: &JobOutcome) {
        let mut state = self.state.lock();
        state.has_failed |= matches!(outcome, JobOutcome::Partial(_) | JobOutcome::Failed(_));
        state.ended += 1;
        self.changed.notify_all();
    }

    /// An entry of the list is invalid, so that what belongs in its place is not known.
    pub fn failed(&self) {
        self.state.lock().has_failed = true;
        self.changed.notify_all();
    }

    /// Whose turn it is after `given` jobs have been given out. Waits briefly for the one that is running.
    pub fn turn(&self, given: usize) -> Turn {
        let mut state = self.state.lock();
        if !state.has_failed && state.ended < given {
            self.changed.wait_for(&mut state, WAIT);
        }
        match (state.has_failed, state.ended < given) {
            (true, _) => Turn::Nobody,
            (false, true) => Turn::Former,
            (false, false) => Turn::Next,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use weir_get::error::GetError;

    use super::*;

    #[test]
    fn the_one_at_work_is_waited_for() {
        let turns = Turns::default();
        assert_eq!(turns.turn(0), Turn::Next);
        let asked = Instant::now();
        assert_eq!(turns.turn(1), Turn::Former);
        assert!(asked.elapsed() >= WAIT, "who asks would rest instead, and hear of the end later");
        turns.ended(&JobOutcome::Complete);
        assert_eq!(turns.turn(1), Turn::Next);
        turns.ended(&JobOutcome::Failed(GetError::Interrupted));
        assert_eq!(turns.turn(2), Turn::Nobody);
    }
}
