//! Is the server slow to answer?
//!
//! Convicts when all of these hold:
//! 1. the lanes spend half of their time or more between a request and the first byte of its answer;
//! 2. one such wait is longer than three round trips and 5 ms. One round trip is the path's; a second may be a lost
//!    segment's fast retransmit or a cold window; 5 ms cover a server's ordinary work and a scheduler's tick.
//!    Without a round trip, longer than 1 s: no path on earth, satellites included, has that.
//!
//! Cannot tell where no byte of the answer ever came, or where one answer of several is late by a retransmission timer.
//!
//! Acquits: first bytes come at once or after about a round trip (then the limit is `latency`).
//!
//! Can be wrong: a request queued behind our own other lanes' data in a full router buffer waits as long.
//! A server that answers at once and then sends slowly is not seen here: from the receiver it is `sender-or-path`.

use super::spent::{min_rtt, spent};
use super::{Context, Judgement, unanswered};
use crate::evidence::Window;
use crate::waits::{self, Ended, Stall};
use crate::words::{count, percent, seconds};

/// The judgement of one window.
pub fn judge(window: &Window, context: &Context<'_>) -> Judgement {
    let spent = spent(window);
    if spent.first_byte < 0.5 {
        return Judgement::acquit(format!(
            "first bytes were waited for {} of the time",
            percent(spent.first_byte)
        ));
    }
    let wait = request_wait(window, context);
    let requests: u32 = window.lanes.iter().map(|lane| lane.requests).fold(0, u32::saturating_add);
    if let Some(lane) = window.lanes.iter().find(|lane| !lane.first_byte.is_zero())
        && let Some(Stall { lasted, ended: Ended::Itself }) = waits::ending(lane, window, context)
    {
        let lasted = seconds(lasted.as_secs_f64());
        return Judgement::acquit(format!("the program went on by itself after {lasted}, without an answer"));
    }
    if let Some(why) = unanswered::doubt(window, context, wait) {
        return Judgement::unknown(why);
    }
    match (slow_answer(window, context), min_rtt(window, context)) {
        (Some(limit), rtt) if wait > limit => Judgement::convict(
            spent.first_byte,
            format!(
                "{} waited {}{} for the first byte{}, {} of the time",
                count(u64::from(requests.max(1)), "request"),
                seconds(wait),
                if requests <= 1 { "" } else { " each" },
                rtt.map(|rtt| format!(", against a round trip of {}", seconds(rtt))).unwrap_or_default(),
                percent(spent.first_byte),
            ),
        ),
        (Some(_), Some(rtt)) => Judgement::acquit(format!(
            "the server answered {} after the request, about the round trip of {}",
            seconds(wait),
            seconds(rtt)
        )),
        _ => Judgement::unknown("the round trip: a wait for first bytes may be the server's or the path's"),
    }
}

/// The wait above which an answer is the server's doing, seconds; `None` when the round trip is not known and the wait
/// could be the path's.
pub(crate) fn slow_answer(window: &Window, context: &Context<'_>) -> Option<f64> {
    let rtt = min_rtt(window, context).or(context.facts.peer_is_local.then_some(0.0));
    match rtt {
        Some(rtt) => Some(3.0 * rtt + 0.005),
        None => (request_wait(window, context) > 1.0).then_some(1.0),
    }
}

/// Seconds that one request waits for its first byte. A wait may reach over several windows, so those beside this one
/// in which a lane waits too are taken together, up to 1 s each way: enough to tell a server from any path.
pub(crate) fn request_wait(window: &Window, context: &Context<'_>) -> f64 {
    let wait_of =
        |window: &Window| -> f64 { window.lanes.iter().map(|lane| lane.first_byte.as_secs_f64()).sum() };
    let requests_of =
        |window: &Window| -> u64 { window.lanes.iter().map(|lane| u64::from(lane.requests)).sum() };
    let waiting = window.lanes.iter().filter(|lane| !lane.first_byte.is_zero()).count() as u64;
    let beside = (context.recent(1.0).take_while(|window| wait_of(window) > 0.0))
        .chain(context.following(1.0).take_while(|window| wait_of(window) > 0.0));
    let (wait, requests) = beside.fold((wait_of(window), requests_of(window)), |(wait, requests), window| {
        (wait + wait_of(window), requests + requests_of(window))
    });
    wait / requests.max(waiting).max(1) as f64
}
