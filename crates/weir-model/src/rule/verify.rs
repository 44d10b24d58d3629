//! Does checking the bytes take longer than getting them?
//!
//! Convicts when the digest thread is busy 90 % of the time or more (one thread, so that is full) and one of
//! these holds:
//! 1. its backlog grows: over the last second by a tenth of what was received or more, and to more than a
//!    tenth of a second of its work, so that it will outlast the transfer; or
//! 2. no lane is at work and no list is awaited (the tail of the run, or of a file that others wait behind):
//!    here half busy is enough, since it reads the file back.
//!
//! Acquits: a digest thread with time to spare.
//!
//! Can be wrong: a backlog that grows in a burst is worked off later if the rate falls; then only the tail
//! counts.

use super::spent::spent;
use super::{Context, Judgement};
use crate::evidence::Interval;
use crate::words::{bytes, percent};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    // A copy digests on the threads that move the data, and these have clocks of their own.
    if let Some(judged) = super::stage::verify(interval, context) {
        return judged;
    }
    let span = interval.span.as_secs_f64();
    let busy = if span > 0.0 { (interval.verify_busy.as_secs_f64() / span).min(1.0) } else { 0.0 };
    let backlog = interval.verify_backlog as f64;
    let rests = spent(interval).lanes == 0 && interval.received == 0 && interval.unlisted.is_zero();
    if rests && busy >= 0.5 {
        let what = match interval.left {
            Some(true) => "no connection at work",
            _ => "nothing left to receive",
        };
        let evidence = format!(
            "{what}, the digest thread busy {} of the time with {} to go",
            percent(busy),
            bytes(backlog)
        );
        return Judgement::convict(1.0, evidence);
    }
    let idle_enough =
        format!("the digest thread was busy {} of the time, {} behind", percent(busy), bytes(backlog));
    if busy < 0.9 {
        return Judgement::acquit(idle_enough);
    }
    let Some((start, end, received, time)) = trend(interval, context) else {
        return Judgement::unknown("whether the digest falls behind: one interval does not show it");
    };
    // `start` is the backlog at the end of the oldest interval, so its own bytes are slightly over-counted:
    // that only asks for more growth.
    let growth = end - start;
    let speed = (received - growth).max(0.0) / time;
    if growth > 0.0 && growth >= 0.1 * received && end >= 0.1 * speed {
        let evidence = format!(
            "the digest thread was busy {} of the time and fell {} behind",
            percent(busy),
            bytes(backlog)
        );
        Judgement::convict(0.95 * busy, evidence)
    } else {
        Judgement::acquit(idle_enough)
    }
}

/// Backlog at the start and at the end of about a second, and what was received in what time: of the second
/// before the interval's end, or, for a run's first interval, of the interval after it.
fn trend(interval: &Interval, context: &Context<'_>) -> Option<(f64, f64, f64, f64)> {
    let backlog = |interval: &Interval| interval.verify_backlog as f64;
    let oldest = context.recent(1.0).last();
    if let Some(oldest) = oldest {
        let past = || std::iter::once(interval).chain(context.recent(1.0));
        let received = past().map(|interval| interval.received as f64).sum();
        let time = past().map(|interval| interval.span.as_secs_f64()).sum();
        return Some((backlog(oldest), backlog(interval), received, time));
    }
    let next = context.after.first()?;
    Some((backlog(interval), backlog(next), next.received as f64, next.span.as_secs_f64()))
}
