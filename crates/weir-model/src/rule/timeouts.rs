//! Does the connection stand still until a timer fires?
//!
//! A stall is a time in which nothing moves though something is owed, longer than min(2 round trips,
//! retransmission timeout). Convicts when one of these holds for connections of this end that are at work:
//! 1. the interval lies in a stall of 150 ms or more that this end's retransmission timer ended, or the
//!    kernel counts half of the time over a second each way as spent in timers; payload was sent again (a
//!    SYN's timer is [`super::connect`]'s); no more than ten segments were in flight and nothing waited
//!    unsent, so that no congestion window is in the way: else it is [`super::sender::path_loss`];
//! 2. it lies in one of 150 ms or more that the program itself ended: it is the end that asks, it had put no
//!    more than the head of a question, nothing came, and it went on all the same, without having been
//!    asleep, at work or at a pipe meanwhile. So does a client that waits a second for "100 Continue". One
//!    that had sent more, or that answers, sends in bursts of its own.
//!
//! Acquits: stalls that an answer ended, or none, where no timer fired in the whole run.
//!
//! Can be wrong: a program that asks, and then waits for something that no connection shows before it says
//! more, looks like (2).

use super::end::End;
use super::turns::at_end;
use super::{Context, Judgement};
use crate::evidence::{Clocks, Interval, LaneInterval, ThreadInterval};
use crate::path::INITIAL_WINDOW;
use crate::rule::waits;
use crate::waits::{Ended, Stall};
use crate::words::{bytes, percent, seconds};
use weir_units::counted;

/// A stall that is worth a word, seconds: the smallest retransmission timeout is 0.2 s (TCP_RTO_MIN), less
/// what looks miss.
const WORTH: f64 = 0.15;

/// No more than this is the head of a question: servers take heads of 8 KiB at most, and half of that is
/// rare.
const HEAD: u64 = 4 << 10;

/// The judgement of one interval, of connections that this side receives by.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    judge_end(interval, context, End::Receives)
}

/// Of the connections at one end.
pub(crate) fn judge_end(interval: &Interval, context: &Context<'_>, end: End) -> Judgement {
    let (mut lanes, mut held) = (0, 0);
    let mut evidence = None;
    for (lane, _, _) in at_end(interval, end) {
        lanes += 1;
        if let Some(text) = held_by_timer(lane, interval, context) {
            held += 1;
            evidence.get_or_insert(text);
        }
    }
    match evidence {
        Some(text) if 2 * held >= lanes && context.facts.clocks == Clocks::Sampled => {
            Judgement::convict(0.9, text)
        }
        _ if context.before.is_empty() && context.after.is_empty() && timers(interval, end) > 0 => {
            Judgement::unknown(format!(
                "what {} cost: none of them ended a rest by itself",
                counted(timers(interval, end), "retransmission timer")
            ))
        }
        _ => Judgement::acquit("no stall that a timer ended"),
    }
}

/// Timers that fired at this end, those of SYNs left out.
fn timers(interval: &Interval, end: End) -> u64 {
    let fired = at_end(interval, end).filter(|(_, waits, _)| waits.retransmitted > 0);
    fired.map(|(_, waits, _)| waits.timeouts).fold(0, u64::saturating_add)
}

fn held_by_timer(lane: &LaneInterval, interval: &Interval, context: &Context<'_>) -> Option<String> {
    let (around, time) = waits::around(lane, interval, context, 1.0)?;
    let small = lane
        .sender
        .value()
        .is_none_or(|seen| seen.nothing_unsent >= seen.looks.div_ceil(2) && seen.in_flight <= INITIAL_WINDOW);
    let small = small && around.retransmitted > 0;
    let part = if time > 0.0 { around.timeout.as_secs_f64() / time } else { 0.0 };
    let stall = waits::ending(lane, interval, context).filter(|stall| stall.lasted.as_secs_f64() >= WORTH);
    match stall {
        Some(Stall { lasted, ended: Ended::Itself, asked: asked @ 1..=HEAD }) if !is_elsewhere(lane) => {
            Some(format!(
                "nothing moved for {} after this end had asked in {}, and then it went on without an answer{}",
                seconds(lasted.as_secs_f64()),
                bytes(asked as f64),
                if (0.9..1.2).contains(&lasted.as_secs_f64()) {
                    ": a timer of the program, such as the second that curl waits for 100 Continue"
                } else {
                    ": a timer of the program"
                }
            ))
        }
        Some(Stall { lasted, ended: Ended::Timeout, .. }) if small => Some(format!(
            "nothing moved for {} until the retransmission timer fired; {} over {}",
            seconds(lasted.as_secs_f64()),
            counted(around.timeouts.max(1), "timer"),
            seconds(time)
        )),
        _ if small && part >= 0.5 && around.timeouts > 0 => Some(format!(
            "{} of the time in retransmission timers, {} over {}",
            percent(part),
            counted(around.timeouts, "timer"),
            seconds(time)
        )),
        _ => None,
    }
}

/// Its thread was found asleep by its own will, running, reading a file or at a pipe in half of the looks: it
/// waits for no answer.
fn is_elsewhere(lane: &LaneInterval) -> bool {
    let elsewhere = |thread: &ThreadInterval| {
        let found = thread.found;
        let looks = [found.sleeping, found.running, found.reading_disk, found.pipe_empty];
        looks.into_iter().fold(0, u32::saturating_add)
    };
    lane.thread
        .value()
        .is_some_and(|thread| thread.looks > 0 && elsewhere(thread) >= thread.looks.div_ceil(2))
}
