//! Waits for an answer that never came, or that a lost segment may have delayed: no sign against a server.

use super::Context;
use crate::evidence::{Clocks, Interval};
use crate::rule::waits;
use crate::waits::Ended;

/// Why a foreign client's wait for an answer may be another's doing than the server's; `None` where nothing
/// says so.
pub(crate) fn doubt(interval: &Interval, context: &Context<'_>, wait: f64) -> Option<String> {
    if context.facts.clocks == Clocks::Own {
        return None;
    }
    let waiting = || interval.lanes.iter().filter(|lane| !lane.first_byte.is_zero());
    // With hindsight: nothing more came on any of these connections. A second is beyond any path.
    let never = |number: u32| {
        let after = context.after.iter().filter_map(|interval| waits::of(number, interval));
        let before = context.before.iter().filter_map(|interval| waits::of(number, interval));
        before.chain(after).all(|lane| lane.received == 0)
    };
    let told = waiting().all(|lane| lane.waits.value().is_some());
    if told && wait >= 1.0 && waiting().all(|lane| lane.received == 0 && never(lane.lane)) {
        return Some(
            "whether the server is silent or its answer is lost on the way: no byte of it came (the server's end would \
             show retransmissions)"
                .to_owned(),
        );
    }
    late_among_prompt(interval, context)
}

/// One answer in several is late by a retransmission timer and more, and all others came at once: a lost
/// segment of the answer, which its sender repeats after 0.2 s or more, looks just so.
fn late_among_prompt(interval: &Interval, context: &Context<'_>) -> Option<String> {
    const TIMER: f64 = 0.2;
    let lane =
        interval.lanes.iter().filter(|lane| !lane.first_byte.is_zero()).max_by_key(|lane| lane.first_byte)?;
    let stall = waits::ending(lane, interval, context).filter(|stall| stall.ended == Ended::Peer)?;
    let (around, _) = waits::around(lane, interval, context, 5.0)?;
    let late = around.stalls.iter().filter(|stall| stall.lasted.as_secs_f64() >= 0.9 * TIMER).count() as u64;
    (stall.lasted.as_secs_f64() >= 0.9 * TIMER && late > 0 && around.sent_segments >= 5 * late).then(|| {
        format!(
            "whether the server or a lost segment delayed an answer: {late} of {} came late, the others at once",
            around.sent_segments
        )
    })
}
