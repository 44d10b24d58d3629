//! Is a window of the protocol above TCP smaller than the bandwidth-delay product, as the end that gives its
//! credits sees it?
//!
//! Convicts when all of these hold for connections that carry half of the bytes or more:
//! 1. the segments that this end sends have the few sizes of credits (HTTP/2's WINDOW_UPDATE, SSH's window
//!    adjust; see [`super::turns`]), and each brings a part of some segments;
//! 2. they go out once a round trip, no more: the next part waits for the credit that the one before it
//!    released. Where they overlap, several parts are on their way, and only the sender can tell whether it
//!    waits for them;
//! 3. nothing lies unread (below a sixteenth of the receive buffer): a slow reader gives its credits late;
//! 4. the round trip is 2 ms or more: below it, scheduling decides when a credit goes out.
//!
//! Acquits: questions of any other size, none at all, or unread data.
//!
//! Can be wrong: a program whose questions have just the size of a credit.

use super::end::End;
use super::spent::min_rtt;
use super::turns::{Turns, at_end};
use super::{Context, Judgement};
use crate::evidence::{Clocks, Interval, LaneInterval};
use crate::words::{bytes, seconds};
use weir_units::counted;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let none = || Judgement::acquit("this end sends no credits");
    let Some(rtt) = min_rtt(interval, context).filter(|rtt| *rtt >= 2e-3) else { return none() };
    if context.facts.clocks == Clocks::Own {
        return none();
    }
    let (mut all, mut held, mut evidence, mut overlap) = (0.0, 0.0, None, false);
    for (lane, _, weight) in at_end(interval, End::Receives) {
        all += weight;
        let Some(turns) = Turns::of(lane, interval, context, rtt).filter(Turns::are_waited_for) else {
            continue;
        };
        if unread(lane) {
            continue;
        }
        if turns.share() > ONCE {
            overlap = true;
            continue;
        }
        held += weight;
        evidence.get_or_insert_with(|| {
            format!(
                "{} of {} each release {} of data, once a round trip of {}: the sender waits for them",
                counted(turns.count, "small segment"),
                bytes((turns.asked / turns.count.max(1)) as f64),
                bytes(turns.size() as f64),
                seconds(rtt)
            )
        });
    }
    match evidence {
        Some(text) if held >= 0.5 * all => Judgement::convict(0.9, text),
        _ if overlap => Judgement::unknown(
            "whether the sender waits for the credits that this end gives (HTTP/2, SSH): its end would show",
        ),
        _ => none(),
    }
}

/// More credits than this a round trip are for parts that overlap; a fifth is left to stream and connection,
/// whose credits may come apart, and to the round trip's measurement.
const ONCE: f64 = 1.2;

fn unread(lane: &LaneInterval) -> bool {
    lane.tcp.value().is_some_and(|tcp| {
        let queue = tcp.receive_queue.unwrap_or(0);
        tcp.receive_buffer.is_some_and(|buffer| queue.saturating_mul(16) > buffer)
    })
}
