//! Do request and answer follow each other in turn on connections that are kept, as the asking end sees it?
//!
//! Convicts when all of these hold for connections that carry half of the bytes or more:
//! 1. another program's connection is asked at least twice (six times where it was made just now: handshakes look like questions);
//! 2. the round trips between question and answer fill half of its time or more, or two fifths of it where slow start explains
//!    the rest (see [`super::turns::Turns`]), and no more of them come than fit into the time;
//! 3. an answer is awaited, with nothing unread, in a tenth of the time or more, where a round trip is long enough for looks.
//!
//! Acquits: one long answer, questions that overlap, or answers that take far longer than round trips.
//!
//! Can be wrong: a program that thinks for about a round trip between an answer and the next question.

use super::spent::{active, min_rtt, spent};
use super::turns::{End, Turns, at_end};
use super::{Context, Judgement};
use crate::evidence::{Clocks, LaneWindow, Window};
use crate::words::percent;

/// A round trip below this is over between two looks of 20 ms more often than it is seen.
const SEEN_BY_LOOKS: f64 = 0.01;

/// The judgement of one window.
pub fn judge(window: &Window, context: &Context<'_>) -> Judgement {
    if context.facts.clocks == Clocks::Own {
        return Judgement::acquit("our own lanes know their turns: see latency");
    }
    let Some(rtt) = min_rtt(window, context) else {
        return Judgement::unknown("the round trip: whether turns take the time depends on it");
    };
    let (mut all, mut held) = (0.0, 0.0);
    let mut evidence: Option<(f64, String)> = None;
    let mut innocent = None;
    for (lane, _, weight) in at_end(window, End::Receives) {
        all += weight;
        match in_turn(lane, window, context, rtt) {
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

fn in_turn(lane: &LaneWindow, window: &Window, context: &Context<'_>, rtt: f64) -> Result<String, String> {
    let few = || "too few questions on one connection to be turns".to_owned();
    let turns = Turns::of(lane, window, context, rtt).ok_or_else(few)?;
    let ramp = turns.ramp() && turns.share() >= 0.4;
    if !(turns.alternate() || turns.alternate_in_two() || ramp) {
        return Err(turns.in_words());
    }
    let awaited = awaited(lane, window, context);
    if rtt >= SEEN_BY_LOOKS && awaited < 0.1 {
        let share = percent(awaited);
        return Err(format!("{}, but an answer was awaited {share} of the time", turns.in_words()));
    }
    Ok(turns.in_words())
}

/// Share of a lane's time in waits for an answer, over a second and a half each way.
fn awaited(lane: &LaneWindow, window: &Window, context: &Context<'_>) -> f64 {
    let around = std::iter::once(window).chain(context.recent(1.5)).chain(context.following(1.5));
    let (waited, time) = around.fold((0.0, 0.0), |(waited, time), window| {
        let same = window.lanes.iter().filter(|other| other.lane == lane.lane);
        same.fold((waited, time), |(waited, time), lane| {
            (waited + lane.first_byte.as_secs_f64(), time + active(lane, window))
        })
    });
    if time > 0.0 { waited / time } else { 0.0 }
}

/// Questions overlap, or are none: more segments went against the data than round trips fit in. What counts objects by
/// questions is then wrong.
pub(crate) fn overlaps(window: &Window, context: &Context<'_>) -> bool {
    let Some(rtt) = min_rtt(window, context) else { return false };
    spent(window).lanes > 0
        && at_end(window, End::Receives).next().is_some()
        && at_end(window, End::Receives).all(|(lane, _, _)| {
            Turns::of(lane, window, context, rtt)
                .is_some_and(|turns| turns.share() > 2.2 || (turns.share() > 1.1 && !turns.are_questions()))
        })
}
