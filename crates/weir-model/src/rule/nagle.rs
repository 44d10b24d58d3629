//! Does less than a segment wait unsent for an acknowledgement: Nagle's algorithm, and a receiver that delays it?
//!
//! Convicts when all of these hold for connections of this end that move half of the bytes or more:
//! 1. in 25 % of the looks over a second each way less than a segment lay unsent behind something in flight, for 8 ms or more,
//!    with room in the congestion window and the peer's window, and not in recovery;
//! 2. what lies unsent for longest has lain for less than 200 ms: that is where TCP_CORK ends.
//!
//! Acquits: no such looks.
//!
//! Can be wrong: a program that corks its socket on purpose and uncorks it late.

use super::turns::{End, at_end};
use super::{Context, Judgement};
use crate::evidence::Window;
use crate::waits;
use crate::words::{percent, seconds};

/// The judgement of one window, of connections that this side receives by: their requests.
pub fn judge(window: &Window, context: &Context<'_>) -> Judgement {
    judge_end(window, context, End::Receives)
}

/// Of the connections at one end.
pub(crate) fn judge_end(window: &Window, context: &Context<'_>, end: End) -> Judgement {
    let (mut all, mut held, mut strength) = (0.0, 0.0, 0.0);
    let mut evidence = None;
    let mut most: f64 = 0.0;
    for (lane, _, weight) in at_end(window, end) {
        let Some((waits, _)) = waits::around(lane, window, context, 1.0) else { continue };
        all += weight;
        let share = waits.share(waits.small_held);
        most = most.max(share);
        let longest = waits.small_held_longest.as_secs_f64();
        if share >= 0.25 && longest < 0.2 {
            held += weight;
            strength += weight * (0.7 + 0.3 * share);
            evidence.get_or_insert_with(|| {
                format!(
                    "less than a segment lay unsent in {} of looks, for up to {} behind what was not acknowledged, with room in \
                     both windows",
                    percent(share),
                    seconds(longest)
                )
            });
        }
    }
    match evidence {
        Some(text) if held >= 0.5 * all => Judgement::convict(strength / held, text),
        _ => Judgement::acquit(format!("less than a segment was held back in {} of looks", percent(most))),
    }
}
