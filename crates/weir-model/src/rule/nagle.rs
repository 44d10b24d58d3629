//! Does less than a segment wait unsent for an acknowledgement: Nagle's algorithm, and a receiver that delays
//! it?
//!
//! Convicts when all of these hold for connections of this end that move half of the bytes or more:
//! 1. in 25 % of the looks over a second each way less than a segment lay unsent behind something in flight,
//!    for 8 ms or more, with room in the congestion window and the peer's window, and not in recovery;
//! 2. what lies unsent for longest has lain for less than 200 ms: that is where TCP_CORK ends;
//! 3. somebody waits for it: the peer speaks twice at least over a second each way, and later for it. What is
//!    held and the round trips of the turns (a turn takes one) fit into the time one after another, with a
//!    quarter to spare for what looks miss. Where they do not, the rest was held while the peer's next word
//!    was on its way in any case, as it is where a credit of a protocol above is awaited.
//!
//! Acquits: no such looks, or nobody who waits for it.
//!
//! Can be wrong: a program that corks its socket on purpose and uncorks it late.

use super::end::End;
use super::spent::min_rtt;
use super::turns::at_end;
use super::{Context, Judgement};
use crate::evidence::{Interval, LaneInterval};
use crate::rule::waits;
use crate::waits::Waits;
use crate::words::{percent, seconds};

/// The judgement of one interval, of connections that this side receives by: their requests.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    judge_end(interval, context, End::Receives)
}

/// Of the connections at one end.
pub(crate) fn judge_end(interval: &Interval, context: &Context<'_>, end: End) -> Judgement {
    let (mut all, mut held, mut strength) = (0.0, 0.0, 0.0);
    let mut evidence = None;
    let mut most: f64 = 0.0;
    for (lane, _, weight) in at_end(interval, end) {
        let Some((waits, time)) = waits::around(lane, interval, context, 1.0) else { continue };
        all += weight;
        let share = waits.share(waits.small_held);
        most = most.max(share);
        let longest = waits.small_held_longest.as_secs_f64();
        let rtt = round_trip(lane).or_else(|| min_rtt(interval, context)).unwrap_or(0.0);
        if share >= 0.25 && longest < 0.2 && delays(&waits, time, rtt) {
            held += weight;
            strength += weight * (0.7 + 0.3 * share);
            evidence.get_or_insert_with(|| {
                format!(
                    "less than a segment lay unsent in {} of samples, for up to {} behind what was not acknowledged, with room in \
                     both windows",
                    percent(share),
                    seconds(longest)
                )
            });
        }
    }
    match evidence {
        Some(text) if held >= 0.5 * all => Judgement::convict(strength / held, text),
        _ => Judgement::acquit(format!("less than a segment was held back in {} of samples", percent(most))),
    }
}

/// Whether what is held makes the peer's words later: see (3) above.
fn delays(waits: &Waits, time: f64, rtt: f64) -> bool {
    // A turn that is held has two segments of this end or more.
    let turns = waits.came_segments.min(waits.sent_segments / 2);
    turns >= 2 && time > 0.0 && turns as f64 * rtt / time + waits.share(waits.small_held) <= 1.25
}

fn round_trip(lane: &LaneInterval) -> Option<f64> {
    lane.sender.value()?.min_rtt.map(|rtt| rtt.as_secs_f64())
}

/// The numbers of connections that are held so, at whichever end.
pub(crate) fn holds(interval: &Interval, context: &Context<'_>) -> Option<String> {
    [End::Receives, End::Sends].into_iter().find_map(|end| match judge_end(interval, context, end) {
        Judgement::Convict { evidence, .. } => Some(evidence),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_while_the_next_word_is_on_its_way_delays_nothing() {
        let waits = |came_segments, sent_segments| Waits {
            looks: 10,
            small_held: 8,
            came_segments,
            sent_segments,
            ..Waits::default()
        };
        // Two turns in 100 ms over 2 ms, held for 40 ms each; and two over 50 ms, the next word at each end
        // of one.
        assert!(delays(&waits(2, 4), 0.1, 0.002));
        assert!(!delays(&waits(2, 46), 0.1, 0.05));
        assert!(!delays(&waits(0, 40), 0.1, 0.002), "nobody waits for it");
    }
}
