//! Does an upload wait for the program that writes what it sends?
//!
//! Convicts as a stage of a copy is convicted ([`crate::rule::stage`]): the threads waited for standard
//! input, each by itself or for the one that reads it, two fifths of their time or more, longer than for any
//! other stage, and their connections did not have enough to send meanwhile.
//!
//! Acquits: input that comes faster than it is sent.
//!
//! Can be wrong: nothing here tells what holds that program; its own verdict does (`weir why --pid`).

use crate::evidence::Interval;
use crate::rule::{Context, Judgement, stage};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    stage::upstream(interval, context)
}
