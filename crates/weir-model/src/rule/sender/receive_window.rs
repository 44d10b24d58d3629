//! Is the peer's receive buffer below the bandwidth-delay product, as its sender sees it?
//!
//! Convicts when all of these hold:
//! 1. in flight is pinned at the peer's window in half of the looks or more. The kernel's own clock
//!    (`tcpi_rwnd_limited`) would not do: the same cap showed 100 % under CUBIC and 42 % under BBR, whose
//!    pacing hides it;
//! 2. the window is steady, and as large as it ever was on this connection: see [`super::reader`] for one
//!    that is not;
//! 3. no queue stands on the path (1.25 times the minimum round trip): else the window only fills a queue. A
//!    window of four segments or less is exempt, since there delayed acknowledgements (40 ms) make up the
//!    round trip;
//! 4. the round trip is at least 0.2 ms: below it the window turns over so fast that the reader's wake-ups
//!    decide.
//!
//! Acquits: room in the window, a window that moves, a standing queue.
//!
//! Can be wrong: a window that still grows by autotuning is a cap only until the next round trip.

use super::flow::{Flow, by_flow};
use super::reader;
use crate::evidence::Interval;
use crate::rule::{Context, Judgement};
use crate::words::{bytes, percent, seconds};

/// See (4) above.
const SHORTEST: f64 = 2e-4;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    by_flow(interval, context, judge_flow)
}

fn judge_flow(flow: &Flow<'_>) -> Judgement {
    let Some((_, mean, _)) = flow.seen.peer_window else {
        return Judgement::unknown("the peer's window: this kernel does not report it (Linux 5.4 does)");
    };
    let filled = percent(flow.share(flow.seen.window_filled));
    let numbers =
        format!("in flight filled the peer's window of {} in {filled} of samples", bytes(mean as f64));
    if !flow.window_pinned() {
        return Judgement::acquit(numbers);
    }
    if let Some(rtt) = flow.min_rtt().filter(|rtt| *rtt < SHORTEST) {
        return Judgement::acquit(format!(
            "{numbers}, but a round trip of {} needs no larger one",
            seconds(rtt)
        ));
    }
    if reader::taken(flow) {
        return Judgement::acquit(format!("{numbers}, but unread bytes took some of it"));
    }
    let tiny = mean <= 4 * flow.window_unit();
    match flow.queue_stands() {
        Some(true) if !tiny => {
            Judgement::acquit(format!("{numbers}, but only fills a queue: {}", flow.round_trip_in_words()))
        }
        None if !tiny => {
            Judgement::unknown("the round trip: whether the window only fills a queue depends on it")
        }
        _ if grows(flow) => Judgement::acquit(format!("{numbers}, but the window still grows")),
        _ => Judgement::convict(
            0.95,
            format!("{numbers}, steadily; {}, {}", flow.in_words(), flow.round_trip_in_words()),
        ),
    }
}

/// Autotuning doubles the window about once a round trip, so growth shows over four of them; half a second is
/// a few intervals.
pub(crate) fn grows(flow: &Flow<'_>) -> bool {
    let reach = (4.0 * flow.rtt().unwrap_or(0.0)).max(0.5);
    let mean =
        |(seen, _): (&crate::sender::SenderInterval, f64)| seen.peer_window.map(|(_, mean, _)| mean as f64);
    let past: Vec<f64> = flow.past(reach).filter_map(mean).collect();
    let (Some(now), Some(oldest)) = (past.first(), past.last()) else { return false };
    *now > 1.1 * oldest
}
