//! Who watches a run from outside: a line of progress, a log of answers.

use std::fmt::Debug;
use std::time::Duration;

use crate::answer::Kept;

/// Hears of a run. Called from the run's own threads: what takes long here takes the loop's time.
pub trait Observer: Debug + Send + Sync {
    /// The first request may go out.
    fn begun(&self) {}

    /// How far it is, fifty times a second.
    fn seen(&self, _: &RunProgress) {}

    /// A whole answer, where [`crate::settings::Settings::shows_answers`] asks for it.
    fn answered(&self, _status: u16, _answer: &Kept) {}
}

/// Nobody.
impl Observer for () {}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunProgress {
    /// Since its start, warming up included.
    pub elapsed: Duration,
    /// Of which this much is warming up.
    pub warm_up: Duration,
    /// Whole answers so far.
    pub requests: u64,
    /// Requests that came to none, and answers with a status of 400 or above.
    pub errors: u64,
}
