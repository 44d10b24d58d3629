//! Do request and answer follow each other in turn on connections that are kept, as the answering end sees
//! it?
//!
//! Convicts when all of these hold:
//! 1. another program's connection was asked at least twice (six times where it was made just now), and
//!    hardly owed an answer while it rested (below 30 % of samples: else it is [`super::application`]);
//! 2. the round trips between the last byte of an answer and the next question fill two fifths of the time or
//!    more, and no more questions come than round trips fit in, and by their size they are no credits of a
//!    protocol above ([`super::protocol_window`]). A quarter will do where each answer takes several flights
//!    and goes out whole, with nothing unsent in 70 % of samples and room in the congestion window: the rest
//!    is then its own way over the link, which cannot be more than three quarters used; or where slow start
//!    explains the rest: no queue stands on the path and nothing was lost;
//! 3. nothing lay unsent for at least half of what (2) takes: between two turns there is nothing to send.
//!
//! Acquits: a long answer, overlapping questions, data that wait unsent all the time.
//!
//! Can be wrong: a client that thinks for about a round trip before it asks again. What the congestion
//! window, the send buffer or the link do in the rest of a turn may be the next limit.

use super::flow::{Flow, by_flow};
use super::network::loss;
use crate::evidence::{Clocks, Interval};
use crate::path::INITIAL_WINDOW;
use crate::rule::end::End;
use crate::rule::turns::Turns;
use crate::rule::{Context, Judgement};
use crate::words::percent;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    by_flow(interval, context, |flow| match explains(flow) {
        Ok(text) => Judgement::convict(0.9, text),
        Err(why) => Judgement::acquit(why),
    })
}

/// The numbers of turns that hold this connection; or those of one that they do not hold.
pub(crate) fn explains(flow: &Flow<'_>) -> Result<String, String> {
    if flow.context.facts.clocks == Clocks::Own || End::of(flow.lane) != End::Sends {
        return Err("no turns are known of this end".to_owned());
    }
    let few = || "too few questions on one connection to be turns".to_owned();
    let rtt = flow.min_rtt().ok_or_else(few)?;
    let turns = Turns::of(flow.lane, flow.interval, flow.context, rtt).ok_or_else(few)?;
    let words = turns.in_words();
    let lost = loss(flow);
    let ramp = turns.ramp() && flow.queue_stands() != Some(true) && !lost.seen;
    let around = Around::of(flow);
    let whole = around.nothing_unsent >= 0.7 && around.cwnd_filled < 0.3;
    // What goes out in one flight is under way for no longer than a round trip: the rest of its turn is
    // another's.
    let least = if whole && turns.size() > INITIAL_WINDOW { 0.25 } else { 0.4 };
    if !(turns.alternate(least) || turns.alternate_in_two() || ramp) {
        return Err(words);
    }
    if turns.are_credits() {
        return Err(format!("{words}, but so small segments are credits of a protocol above"));
    }
    if lost.share >= STRUCK && turns.share() < 0.75 {
        return Err(format!(
            "{words}, but {} was sent again, which takes the rest of the time",
            percent(lost.share)
        ));
    }
    if around.owing >= 0.3 {
        return Err(format!("{words}, but it owed an answer in {} of samples", percent(around.owing)));
    }
    if around.nothing_unsent < 0.5 * turns.share().min(1.0) {
        return Err(format!(
            "{words}, but data lay unsent in {} of samples",
            percent(1.0 - around.nothing_unsent)
        ));
    }
    Ok(words)
}

/// Bytes that had to be sent again, as a share, from which on loss is a limit of its own: with one answer in
/// twenty lost, each by a timer of ten round trips, half of the time goes there.
const STRUCK: f64 = 0.05;

/// Shares of the looks over a second and a half each way.
struct Around {
    nothing_unsent: f64,
    cwnd_filled: f64,
    owing: f64,
}

impl Around {
    fn of(flow: &Flow<'_>) -> Around {
        let (mut looks, mut nothing_unsent, mut cwnd_filled, mut owing) = (0.0, 0.0, 0.0, 0.0);
        for (seen, _) in flow.around(1.5) {
            looks += f64::from(seen.looks);
            nothing_unsent += f64::from(seen.nothing_unsent);
            cwnd_filled += f64::from(seen.cwnd_filled);
            owing += f64::from(seen.owing);
        }
        let share = |count: f64| if looks > 0.0 { count / looks } else { 0.0 };
        Around { nothing_unsent: share(nothing_unsent), cwnd_filled: share(cwnd_filled), owing: share(owing) }
    }
}
