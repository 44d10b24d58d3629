//! Do request and answer follow each other in turn on connections that are kept, as the asking end sees it?
//!
//! Convicts when all of these hold for connections that carry half of the bytes or more:
//! 1. another program's connection is asked at least twice (six times where it was made just now: handshakes
//!    look like questions);
//! 2. the round trips between question and answer fill two fifths of its time or more (see
//!    [`super::turns::Turns`]), and no more of them come than fit into the time;
//! 3. where a round trip is long enough for looks (30 ms) the connection is found silent as long as a third
//!    of (2) says;
//! 4. what is asked are no credits of a protocol above, by their size: see [`super::protocol_window`];
//! 5. the interval does not lie in a stall that no turn explains: of two and a half round trips and of 150
//!    ms, less than which no retransmission timer takes (TCP_RTO_MIN is 0.2 s, less what looks miss).
//!
//! Acquits: one long answer, questions that overlap, credits, or answers that take far longer than round
//! trips.
//!
//! Can be wrong: a program that thinks for about a round trip between an answer and the next question.

use super::end::End;
use super::spent::{min_rtt, spent};
use super::turns::{Turns, at_end};
use super::{Context, Judgement, application};
use crate::evidence::{Clocks, Interval, LaneInterval};
use crate::rule::waits;
use crate::words::{percent, seconds};

/// A silence of a round trip below this is over between two looks of 20 ms more often than it is seen.
const SEEN_BY_LOOKS: f64 = 0.03;

/// See (5): round trips, and seconds.
const FAR_LONGER: (f64, f64) = (2.5, 0.15);

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    if context.facts.clocks == Clocks::Own {
        return Judgement::acquit("turns of weir's own connections count as latency");
    }
    if let Some((_, evidence)) = application::owes(interval, context) {
        return Judgement::acquit(evidence);
    }
    let Some(rtt) = min_rtt(interval, context) else {
        return Judgement::unknown("the round trip: whether turns take the time depends on it");
    };
    let (mut all, mut held) = (0.0, 0.0);
    let mut evidence: Option<(f64, String)> = None;
    let mut innocent = None;
    for (lane, _, weight) in at_end(interval, End::Receives) {
        all += weight;
        match in_turn(lane, interval, context, rtt) {
            Ok(text) => {
                held += weight;
                if evidence.as_ref().is_none_or(|(most, _)| weight > *most) {
                    evidence = Some((weight, text));
                }
            }
            Err(why) => innocent = innocent.or(Some(why)),
        }
    }
    match evidence {
        Some((_, text)) if held >= 0.5 * all => Judgement::convict(0.9, text),
        _ => Judgement::acquit(innocent.unwrap_or_else(|| "no connection was asked in turn".to_owned())),
    }
}

fn in_turn(
    lane: &LaneInterval,
    interval: &Interval,
    context: &Context<'_>,
    rtt: f64,
) -> Result<String, String> {
    let few = || "too few questions on one connection to be turns".to_owned();
    let turns = Turns::of(lane, interval, context, rtt).ok_or_else(few)?;
    // So that nothing else of a turn takes much more than its round trip.
    if !(turns.alternate(0.4) || turns.alternate_in_two()) {
        return Err(turns.in_words());
    }
    let stalled = waits::ending(lane, interval, context).map(|stall| stall.lasted.as_secs_f64());
    if let Some(stalled) = stalled.filter(|lasted| *lasted >= FAR_LONGER.1.max(FAR_LONGER.0 * rtt)) {
        return Err(format!(
            "nothing moved for {}, over a round trip of {}: no turn takes that",
            seconds(stalled),
            seconds(rtt)
        ));
    }
    if turns.are_credits() {
        return Err(format!("{}, but so small segments are credits of a protocol above", turns.in_words()));
    }
    let silent = turns.waits.share(turns.waits.silent);
    if rtt >= SEEN_BY_LOOKS && silent < turns.share().min(1.0) / 3.0 {
        let share = percent(silent);
        return Err(format!(
            "{}, but the connection was silent in {share} of samples only",
            turns.in_words()
        ));
    }
    Ok(turns.in_words())
}

/// What goes out on all connections that were looked at are credits of a protocol above, which wait for no
/// answer.
pub(crate) fn gives_credits(interval: &Interval, context: &Context<'_>) -> bool {
    let Some(rtt) = min_rtt(interval, context) else { return false };
    let mut receiving = at_end(interval, End::Receives).peekable();
    context.facts.clocks == Clocks::Sampled
        && receiving.peek().is_some()
        && receiving.all(|(lane, _, _)| {
            Turns::of(lane, interval, context, rtt).is_some_and(|turns| turns.are_credits())
        })
}

/// Questions overlap, or are none: their sizes are those of credits, or more segments went against the data
/// than round trips fit in. What counts objects by questions is then wrong.
pub(crate) fn overlaps(interval: &Interval, context: &Context<'_>) -> bool {
    let Some(rtt) = min_rtt(interval, context) else { return false };
    spent(interval).lanes > 0
        && at_end(interval, End::Receives).next().is_some()
        && at_end(interval, End::Receives).all(|(lane, _, _)| {
            Turns::of(lane, interval, context, rtt).is_some_and(|turns| {
                let small = turns.share() > 1.1 && !turns.are_questions();
                turns.are_credits() || turns.share() > 2.2 || small
            })
        })
}
