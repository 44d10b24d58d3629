//! Is the server slow to answer?
//!
//! As the server itself sees it: convicts when a watched program owed an answer in half of the samples or
//! more (of this interval and those beside it), while it waited for no other peer, no sync of a file and
//! filled no core ([`owes`]); with three fifths at most where it may have waited for another process to which
//! a local socket leads.
//!
//! As its client sees it: convicts when the server fails ([`failing`]); or when all of these hold:
//! 1. the lanes spend half of their time or more between a request and the first byte of its answer;
//! 2. one such wait is longer than three round trips and 5 ms. One round trip is the path's; a second may be
//!    a lost segment's fast retransmit or a cold window; 5 ms cover a server's ordinary work and a
//!    scheduler's tick. Without a round trip, longer than 1 s: no path on earth, satellites included, has
//!    that.
//!
//! Cannot tell where no byte of the answer ever came, where one answer of several is late by a retransmission
//! timer, or where our own question went out more than once ([`unanswered`]). Nor why nothing came for a
//! second or more in the middle of an answer ([`sender_or_path::pauses`]); nor whether a server that waits in
//! a poll owes an answer when more came than a question: it may read on.
//!
//! Acquits: first bytes come at once or after about a round trip (then the limit is `latency`), or a rest
//! below a segment is held back in each turn ([`super::nagle`]).
//!
//! Can be wrong: a request queued behind our own other lanes' data in a full router buffer waits as long. A
//! server that answers at once and then sends slowly is not seen here: from the receiver it is
//! `sender-or-path`.

use super::around::share_near;
use super::spent::{min_rtt, spent};
use super::{Context, Judgement, cpu_core, failing, found, nagle, relay, sender_or_path, unanswered};
use crate::around::Around;
use crate::evidence::{Clocks, Interval, ThreadInterval};
use crate::rule::waits;
use crate::waits::{Ended, Stall};
use crate::words::{percent, seconds};
use weir_units::counted;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    if let Some((share, evidence)) = owes(interval, context) {
        let most = if relay::may_wait_locally(interval, context) { 0.6 } else { 1.0 };
        return Judgement::convict((0.6 + 0.37 * share).min(most), evidence);
    }
    if let Some(judged) = failing::judge(interval, context) {
        return judged;
    }
    let spent = spent(interval);
    if spent.first_byte < 0.5 {
        // Of another program that is the sending end's to rule out in any case.
        if context.facts.clocks == Clocks::Own && sender_or_path::pauses(interval, context) {
            return Judgement::unknown(
                "why nothing came for a second or more in the middle of an answer: the server may have paused, or a loss on \
                 the path",
            );
        }
        if owed(interval, context).is_some() && may_read_on(interval, context) {
            return Judgement::unknown("whether it owes an answer, or reads on what its client sends");
        }
        return Judgement::acquit(format!(
            "first bytes were waited for {} of the time",
            percent(spent.first_byte)
        ));
    }
    // A rest held back at either end makes each answer late, and is none of the server's doing.
    if let Some(why) = nagle::holds(interval, context) {
        return Judgement::acquit(why);
    }
    let wait = request_wait(interval, context);
    let requests: u32 = interval.lanes.iter().map(|lane| lane.requests).fold(0, u32::saturating_add);
    if let Some(lane) = interval.lanes.iter().find(|lane| !lane.first_byte.is_zero())
        && let Some(Stall { lasted, ended: Ended::Itself, .. }) = waits::ending(lane, interval, context)
    {
        let lasted = seconds(lasted.as_secs_f64());
        return Judgement::acquit(format!("the program went on by itself after {lasted}, without an answer"));
    }
    if let Some(why) = unanswered::doubt(interval, context, wait) {
        return Judgement::unknown(why);
    }
    match (slow_answer(interval, context), min_rtt(interval, context)) {
        (Some(limit), rtt) if wait > limit => Judgement::convict(
            spent.first_byte,
            format!(
                "{} waited {}{} for the first byte{}, {} of the time",
                counted(u64::from(requests.max(1)), "request"),
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

/// The share of the time in which the last word was a client's, and the program waited for no other peer and
/// no disk.
fn owed(interval: &Interval, context: &Context<'_>) -> Option<f64> {
    let around = &interval.around;
    // What waits for another peer or for a disk is `upstream` or `downstream`.
    let synced = around.syncs.as_ref().map_or(0, |sync| sync.samples);
    let by_itself =
        |around: &Around| around.owing.saturating_sub(around.syncs.as_ref().map_or(0, |sync| sync.samples));
    let here = around.share(by_itself(around));
    let share = here.max(share_near(interval, context, by_itself));
    let others = around.share(around.chained.max(synced)) >= 0.5;
    (here >= 0.3 && share >= 0.5 && !others).then_some(share)
}

/// The watched program is a server that owes an answer: the share of the time, and in words.
pub(crate) fn owes(interval: &Interval, context: &Context<'_>) -> Option<(f64, String)> {
    let share = owed(interval, context)?;
    if may_read_on(interval, context) || cpu_core::judge(interval, context).convicts() {
        return None;
    }
    let thread =
        interval.lanes.iter().filter_map(|lane| lane.thread.value()).max_by_key(|thread| thread.looks);
    let doing = thread.and_then(|thread| {
        let name = thread.name.as_deref().unwrap_or(context.who());
        Some(format!("; {name} was {}", found::doing(thread)?))
    });
    let others = match relay::may_wait_locally(interval, context) {
        true => format!("; not seen is what comes by {}", relay::LOCAL),
        false => ", and waited for no other peer".to_owned(),
    };
    let evidence = format!(
        "{} owed an answer in {} of samples{others}{}",
        context.who(),
        percent(share),
        doing.unwrap_or_default()
    );
    Some((share, evidence))
}

/// The program may be in the middle of what its client sends: its threads wait for any of several
/// descriptors, and what came is more than heads of questions. Between two flights of an upload over a long
/// path nothing moves, and nothing is owed either.
fn may_read_on(interval: &Interval, context: &Context<'_>) -> bool {
    const HEAD: u64 = 4 << 10;
    interval.lanes.iter().any(|lane| {
        let waits = |thread: &ThreadInterval| {
            let waits = thread.found.polling.saturating_add(thread.found.receiving);
            waits >= thread.looks.div_ceil(2)
        };
        let near = waits::around(lane, interval, context, 1.0);
        let large = near
            .is_none_or(|(waits, _)| waits.came > HEAD.saturating_mul(waits.sent_segments.saturating_add(1)));
        large && lane.thread.value().is_none_or(waits)
    })
}

/// The wait above which an answer is the server's doing, seconds; `None` when the round trip is not known and
/// the wait could be the path's.
pub(crate) fn slow_answer(interval: &Interval, context: &Context<'_>) -> Option<f64> {
    let rtt = min_rtt(interval, context).or(context.facts.peer_is_local.then_some(0.0));
    match rtt {
        Some(rtt) => Some(3.0 * rtt + 0.005),
        None => (request_wait(interval, context) > 1.0).then_some(1.0),
    }
}

/// Seconds that one request waits for its first byte. A wait may reach over several intervals, so those
/// beside this one in which a lane waits too are taken together, up to 1 s each way: enough to tell a server
/// from any path.
pub(crate) fn request_wait(interval: &Interval, context: &Context<'_>) -> f64 {
    let wait_of = |interval: &Interval| -> f64 {
        interval.lanes.iter().map(|lane| lane.first_byte.as_secs_f64()).sum()
    };
    let requests_of =
        |interval: &Interval| -> u64 { interval.lanes.iter().map(|lane| u64::from(lane.requests)).sum() };
    let waiting = interval.lanes.iter().filter(|lane| !lane.first_byte.is_zero()).count() as u64;
    let beside = (context.recent(1.0).take_while(|interval| wait_of(interval) > 0.0))
        .chain(context.following(1.0).take_while(|interval| wait_of(interval) > 0.0));
    let (wait, requests) = beside
        .fold((wait_of(interval), requests_of(interval)), |(wait, requests), interval| {
            (wait + wait_of(interval), requests + requests_of(interval))
        });
    wait / requests.max(waiting).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Evidence, Facts, Found, LaneInterval, Reading};
    use crate::waits::Waits;
    use std::time::Duration;

    /// A server with a request of a client, of whose samples so many found it owing.
    fn server(owing: u32) -> Interval {
        found(owing, Found { sleeping: 5, ..Found::default() }, 200)
    }

    /// The same, whose thread was found so, with so much to be answered.
    fn found(owing: u32, found: Found, came: u64) -> Interval {
        let thread = Reading::Value(ThreadInterval { looks: 5, found, ..ThreadInterval::default() });
        let waits = Reading::Value(Waits { looks: 5, came, ..Waits::default() });
        let lane = LaneInterval { thread, waits, ..LaneInterval::default() };
        let around = Around { samples: 5, owing, busy: 5 - owing, ..Around::default() };
        Interval { span: Duration::from_millis(100), around, lanes: vec![lane], ..Interval::default() }
    }

    fn judged(intervals: Vec<Interval>, at: usize) -> Judgement {
        let facts = Facts { scope: Some("python3 (pid 7)".to_owned()), ..Facts::default() };
        let evidence = Evidence { intervals, facts, ..Evidence::default() };
        judge(&evidence.intervals[at], &Context::at(&evidence, at))
    }

    #[test]
    fn a_server_that_sleeps_before_it_answers_is_named_by_its_own_view() {
        let Judgement::Convict { strength, evidence } = judged(vec![server(5)], 0) else { panic!("it owes") };
        assert!(strength > 0.9 && evidence.contains("asleep by its own will"), "{strength} {evidence}");
        // Turns of about an interval's length.
        assert!(judged(vec![server(4), server(2), server(4)], 1).convicts());
    }

    #[test]
    fn between_two_flights_of_an_upload_nothing_need_be_owed() {
        let polling = Found { polling: 5, ..Found::default() };
        let uploaded = judged(vec![found(5, polling, 50_000)], 0);
        assert!(matches!(uploaded, Judgement::Unknown { .. }), "{uploaded:?}");
        assert!(judged(vec![found(1, polling, 50_000)], 0).acquits(), "it moves");
        assert!(judged(vec![found(5, polling, 200)], 0).convicts(), "a question");
    }

    #[test]
    fn one_that_answers_soon_or_waits_for_another_is_not() {
        assert!(judged(vec![server(1)], 0).acquits());
        let mut relay = server(5);
        relay.around.chained = 5;
        assert!(judged(vec![relay], 0).acquits());
        let mut syncs = server(5);
        syncs.around.syncs = Some(crate::around::Sync { samples: 5, ..Default::default() });
        assert!(judged(vec![syncs], 0).acquits());
        let mut local = found(5, Found { polling: 5, ..Found::default() }, 200);
        local.around.local = 5;
        let Judgement::Convict { strength, evidence } = judged(vec![local], 0) else { panic!("it owes") };
        assert!(strength < 0.61 && !evidence.contains("no other peer"), "{strength} {evidence}");
    }
}
