//! Has the sending application nothing to send?
//!
//! Convicts when the send buffer does not stop the application, or is not what it waits for, and one of these
//! holds:
//! 1. the connection rests (nothing queued, nothing in flight) 30 % of the time or more, and round trips do
//!    not explain it (see [`super::latency`]);
//! 2. it starves: nothing unsent in 70 % of samples and the rate samples application-limited in half of them
//!    (of a sender that paces, BBR, application-limited in 70 %), and both windows with room; or at most half
//!    of the congestion window is used, whatever the samples say: the kernel marks them only while none of
//!    the socket's packets wait in the device (`tcp_rate_check_app_limited` asks sk_wmem_alloc), so a slow
//!    driver hides it. A connection over a long path is busy all the time with whatever little it is given:
//!    an application of 10 Mbit/s over 40 ms showed 100 % busy.
//!
//! Or when the far end of an upload takes long to answer what was sent ([`super::answers`]), or fails
//! ([`failing`]).
//!
//! Where its thread slept in a wait whose purpose is not known ([`source_disk::unnamed`]), or in half of the
//! looks for pages, it may have waited for a file, and beside a local socket for another process: it convicts
//! with three fifths at most.
//!
//! Where the watched end opened the connection and waits for the other end's answers ([`awaits_answers`]), it
//! convicts with three quarters at most, since that end is not seen.
//!
//! Cannot tell where the peer gives credits (HTTP/2, SSH) and its thread waits for nothing else, however
//! short the path is: they come at the pace of the peer's reader.
//!
//! Acquits: it never sends but when it was asked, and owes nothing (of (1), where a rest is somebody's pause,
//! only where it is the asking program that is watched, which has a say of its own); another limit that has a
//! rule of its own explains the rest (turns, timers, credits, a relay's other flow); data wait unsent; all
//! was sent and the connection's end is all that followed, so that it was the peer's time; or the sender is
//! one of weir's own and its threads were at work: [`stage`] knows at what.
//!
//! Can be wrong: an application that keeps to a limit of its own (so many bytes a second for each connection)
//! looks just so; if it sleeps for it, that is said.

use super::flow::{Flow, by_flow};
use super::{answers, latency, nagle, path_mtu, protocol_window, request_response, source_disk, timeouts};
use crate::around::Around;
use crate::evidence::{Interval, ThreadInterval};
use crate::rule::found::doing;
use crate::rule::turns::Turns;
use crate::rule::{Context, Judgement, failing, relay, stage};
use crate::sender::SenderInterval;
use crate::words::percent;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    if let Some(judged) = failing::judge(interval, context) {
        return judged;
    }
    if let Some((share, words)) = answers::slow_store(interval, context) {
        return Judgement::convict(0.6 + 0.4 * share, words);
    }
    if let Some((_, why)) = latency::exchanges(interval, context) {
        return Judgement::acquit(why);
    }
    for way in
        [path_mtu::judge, timeouts::judge, nagle::judge, request_response::judge, protocol_window::judge]
    {
        if let Judgement::Convict { evidence, .. } = way(interval, context) {
            return Judgement::acquit(evidence);
        }
    }
    // A relay has nothing to send because of another flow, which has a name.
    for way in [relay::upstream, relay::downstream] {
        if interval.around.samples > 0
            && let Judgement::Convict { evidence, .. } = way(interval, context)
        {
            return Judgement::acquit(evidence);
        }
    }
    if let Some(words) = stage::at_work(interval) {
        return Judgement::acquit(words);
    }
    by_flow(interval, context, judge_flow)
}

fn judge_flow(flow: &Flow<'_>) -> Judgement {
    let rests = flow.rests();
    let limited = flow.share(flow.seen.app_limited);
    let numbers = format!("it rested {} of the time, {}", percent(rests), flow.unsent_in_words());
    // Of what BBR was given a part waits for the next tick of its pacing; the kernel's mark then says that it
    // was all.
    let paced = flow.ignores_loss() && limited >= 0.7;
    if flow.data_wait() && !paced {
        return Judgement::acquit(numbers);
    }
    if flow.buffer_holds() && !flow.writer_is_elsewhere() {
        return Judgement::acquit(format!("{numbers}, but its send buffer was full"));
    }
    if is_last_rest(flow) {
        return Judgement::acquit(format!(
            "{numbers}: all was sent and acknowledged, and nothing more was asked"
        ));
    }
    let other_end = turn_of_other_end(flow);
    let is_other_ends = other_end.is_some();
    let why = other_end.or_else(|| whose_turn(flow)).or_else(|| flow.thread.as_ref().ok().and_then(thread));
    let why = why.unwrap_or_default();
    let spares = flow.seen.in_flight.saturating_mul(2) <= flow.seen.cwnd;
    let starves = paced || (flow.share(flow.seen.nothing_unsent) >= 0.7 && (limited >= 0.5 || spares));
    let idle = rests >= 0.3 || starves;
    let rtt = flow.min_rtt().filter(|_| idle);
    if rtt.is_some_and(|rtt| awaits_credits(flow, rtt)) && !sends_unasked(flow, &nearby(flow, NEAR)) {
        return Judgement::unknown(
            "the peer gives credits (HTTP/2, SSH) at its reader's pace: its end would show what holds that",
        );
    }
    if rests >= 0.3 && asks_for_no_more(flow) {
        return Judgement::acquit(format!("{numbers}: it answered, and the peer asked for no more"));
    }
    // What it waits for may be somebody else's.
    let is_piped = |thread: &ThreadInterval| thread.share(thread.found.pipe_empty) >= 0.5;
    let is_unclear = |thread: &ThreadInterval| {
        source_disk::unnamed(thread).is_some() || source_disk::awaits_pages(thread) || is_piped(thread)
    };
    let is_unclear = flow.thread.as_ref().is_ok_and(is_unclear)
        || (!flow.is_peers && relay::may_wait_locally(flow.interval, flow.context));
    let most = match is_unclear {
        true => 0.6,
        false if is_other_ends => 0.75,
        false => 1.0,
    };
    if rests >= 0.3 {
        return Judgement::convict((0.6 + 0.35 * rests).min(most), format!("{numbers}{why}"));
    }
    if starves && rtt.is_some_and(|rtt| answers_only(flow, rtt)) {
        return Judgement::acquit(format!("{numbers}: it sent what the peer asked for, and only then"));
    }
    if starves && !flow.cwnd_pinned() && !flow.window_pinned() {
        let evidence = format!(
            "{numbers}, application-limited in {} of them, {}{why}",
            percent(limited),
            flow.in_words()
        );
        return Judgement::convict(most.min(0.85), evidence);
    }
    Judgement::acquit(format!("{numbers}, application-limited in {} of them", percent(limited)))
}

/// The peer gives credits, no answer is owed, and the thread waits for nothing else.
fn awaits_credits(flow: &Flow<'_>, rtt: f64) -> bool {
    let elsewhere = flow.thread.as_ref().is_ok_and(protocol_window::is_elsewhere);
    flow.share(flow.seen.owing) < 0.3 && !elsewhere && flow.takes_credits(rtt)
}

/// Seconds each way over which what was asked and what was sent are compared.
const NEAR: f64 = 1.5;

/// The same where the peer may rest for long between two questions.
const FAR: f64 = 10.0;

/// The peer asked nearby, and nothing was sent anew without: each interval in which something went out has a
/// question, or follows one that has, or goes on with what was unsent. Questions are what comes at the pace
/// of turns, a fifth of the time in round trips, and not in the sizes of credits.
fn answers_only(flow: &Flow<'_>, rtt: f64) -> bool {
    let turns = Turns::of(flow.lane, flow.interval, flow.context, rtt);
    let in_turn = turns.is_some_and(|turns| turns.share() >= 0.2 && !turns.are_credits());
    in_turn && answers(flow, NEAR)
}

/// It is the program at the other end that is watched, the last word was this end's in half of the looks or
/// more, and all that it sends is asked for: the rest is that program's, before its next question. Where it
/// is the server that is watched, its rest has no other name than this one.
fn asks_for_no_more(flow: &Flow<'_>) -> bool {
    flow.is_peers && flow.share(flow.seen.awaiting) >= 0.5 && answers(flow, FAR)
}

/// It sends only what it is asked for, in questions that are no credits, and owes nothing.
pub(super) fn is_only_asked(flow: &Flow<'_>) -> bool {
    !flow.min_rtt().is_some_and(|rtt| flow.takes_credits(rtt)) && answers(flow, FAR)
}

/// Within so many seconds each way the peer asked, nothing was sent unasked, and no answer is owed now.
fn answers(flow: &Flow<'_>, seconds: f64) -> bool {
    let near = nearby(flow, seconds);
    let asked = near.iter().any(|seen| seen.asked > 0);
    asked && !sends_unasked(flow, &near) && flow.share(flow.seen.owing) < 0.3
}

/// What so many seconds each way have, in order.
fn nearby<'a>(flow: &Flow<'a>, seconds: f64) -> Vec<&'a SenderInterval> {
    let mut order: Vec<&SenderInterval> = flow.past(seconds).map(|(seen, _)| seen).collect();
    order.reverse();
    order.extend(flow.after(seconds).map(|(seen, _)| seen));
    order
}

/// In these intervals, in order, something was sent anew that nobody had asked for. Of the peer of the
/// watched program any part of an answer will do: loopback has segments of tens of kilobytes.
fn sends_unasked(flow: &Flow<'_>, near: &[&SenderInterval]) -> bool {
    let least = if flow.is_peers { 1 } else { flow.segment() };
    near.windows(2).any(|pair| {
        let [before, now] = pair else { return false };
        let goes_on = before.nothing_unsent < before.looks;
        now.sent >= least && now.asked == 0 && before.asked == 0 && !goes_on
    })
}

/// Nothing moved here nor later, with hindsight, and the last word was this end's: it had sent all that there
/// was.
fn is_last_rest(flow: &Flow<'_>) -> bool {
    let Some(now) = flow.lane.sender.value() else { return false };
    let quiet = |seen: &SenderInterval| {
        // The end of a connection counts as a byte.
        seen.acked <= 1 && seen.sent == 0 && seen.unsent == 0 && seen.in_flight <= 1 && seen.asked == 0
    };
    let sent_before = || flow.before().any(|(seen, _)| seen.acked > 1);
    now.awaiting > now.owing
        && quiet(now)
        && sent_before()
        && flow.after(f64::INFINITY).all(|(seen, _)| quiet(seen))
}

/// What the watched end waits for that sent all it had, on a connection that it opened. A poll may be for a
/// timer as well.
fn turn_of_other_end(flow: &Flow<'_>) -> Option<String> {
    let thread = flow.thread.as_ref().ok().filter(|_| !flow.is_peers)?;
    let share = percent(awaits_answers(&flow.seen, thread, &flow.interval.around)?);
    Some(if thread.share(thread.found.receiving) >= 0.5 {
        format!("; it waited for the other end to answer what was sent in {share} of samples")
    } else {
        format!(
            "; all was sent, and it waited for the other end's answer, or for a timer, in {share} of samples"
        )
    })
}

/// The share of the time in which the last word was the watched end's, which opened the connection, and its
/// thread slept until something comes. `around` tells who opened it only where that was watched; a sample at
/// rest is none at which an answer was awaited.
pub(crate) fn awaits_answers(seen: &SenderInterval, thread: &ThreadInterval, around: &Around) -> Option<f64> {
    let share = f64::from(seen.awaiting) / f64::from(seen.looks.max(1));
    let waits = thread.share(thread.found.polling.saturating_add(thread.found.receiving)) >= 0.5;
    let opened = around.samples > 0 && !around.served && around.share(around.rest.open) < 0.3;
    (opened && waits && seen.asked > 0 && seen.awaiting > seen.owing && share >= 0.3).then_some(share)
}

/// Whether it owes an answer or waits for a question, while it rests.
fn whose_turn(flow: &Flow<'_>) -> Option<String> {
    let (owing, awaiting) = (flow.share(flow.seen.owing), flow.share(flow.seen.awaiting));
    if owing >= 0.3 && owing > awaiting {
        Some(format!("; it owed an answer in {} of samples", percent(owing)))
    } else if awaiting >= 0.3 && flow.seen.asked > 0 {
        Some(format!("; all was sent and the peer asked for no more in {} of samples", percent(awaiting)))
    } else {
        None
    }
}

/// What its thread did instead of sending.
fn thread(thread: &ThreadInterval) -> Option<String> {
    let doing = doing(thread)?;
    let paces = if thread.found.sleeping > thread.looks / 2 { ": it paces itself" } else { "" };
    Some(format!("; {} was {doing}{paces}", thread.name.as_deref().unwrap_or("its thread")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Clocks, Evidence, Facts, Found, LaneInterval, Reading, TcpInterval};
    use crate::waits::Waits;
    use std::time::Duration;

    /// A connection that sends 32 KiB in each interval and then rests, and whose peer answers in one segment
    /// of so many bytes; its thread's five looks.
    fn judged(asked: u64, found: Found) -> Judgement {
        judged_as(asked, found, |_, _| {})
    }

    /// The same of intervals that `change` was made to, by their numbers.
    fn judged_as(asked: u64, found: Found, change: impl Fn(usize, &mut LaneInterval)) -> Judgement {
        judged_in(asked, found, &Around::default(), change)
    }

    /// The same with what stood around it.
    fn judged_in(
        asked: u64,
        found: Found,
        around: &Around,
        change: impl Fn(usize, &mut LaneInterval),
    ) -> Judgement {
        let ms = Duration::from_millis;
        let seen = SenderInterval {
            acked: 32_768,
            busy: ms(30),
            looks: 5,
            nothing_unsent: 5,
            nothing_in_flight: 3,
            awaiting: 3,
            asked: 1,
            cwnd: 144_800,
            segment: 1448,
            sent: 32_768,
            rtt: Some(ms(1)),
            min_rtt: Some(ms(1)),
            ..SenderInterval::default()
        };
        let waits = Waits {
            looks: 5,
            sent: 32_768,
            sent_segments: 23,
            came: asked,
            came_segments: 1,
            ..Waits::default()
        };
        let lane = LaneInterval {
            received: 32_768,
            sender: Reading::Value(seen),
            waits: Reading::Value(waits),
            thread: Reading::Value(ThreadInterval { looks: 5, found, ..ThreadInterval::default() }),
            ..LaneInterval::default()
        };
        let around = around.clone();
        let interval =
            Interval { span: ms(100), received: 32_768, lanes: vec![lane], around, ..Interval::default() };
        let facts = Facts { clocks: Clocks::Sampled, ..Facts::default() };
        let mut evidence = Evidence { intervals: vec![interval; 20], facts, ..Evidence::default() };
        for (at, interval) in evidence.intervals.iter_mut().enumerate() {
            interval.lanes.iter_mut().for_each(|lane| change(at, lane));
        }
        judge(&evidence.intervals[10], &Context::at(&evidence, 10))
    }

    #[test]
    fn who_waits_for_credits_may_wait_for_the_peers_reader() {
        let receiving = Found { receiving: 5, ..Found::default() };
        let Judgement::Unknown { missing } = judged(35, receiving) else { panic!("credits") };
        assert!(missing.contains("credits"), "{missing}");
        assert!(judged(35, Found { sleeping: 5, ..Found::default() }).convicts(), "it rests by its own will");
        assert!(judged(200, receiving).convicts(), "questions");
        let on_one_switch = |_: usize, lane: &mut LaneInterval| {
            if let Reading::Value(seen) = &mut lane.sender {
                let short = Some(Duration::from_micros(50));
                (seen.rtt, seen.min_rtt) = (short, short);
            }
        };
        let judged = judged_as(36, receiving, on_one_switch);
        let Judgement::Unknown { missing } = judged else { panic!("a short path: {judged:?}") };
        assert!(missing.contains("credits"), "{missing}");
        assert!(judged_as(200, receiving, on_one_switch).convicts(), "questions");
    }

    #[test]
    fn a_peer_that_is_seen_to_rest_before_it_asks_again_thinks_itself() {
        let sleeping = Found { sleeping: 5, ..Found::default() };
        // The client's own socket, and the server's of the same machine beside it.
        let client = |lane: &mut LaneInterval| {
            lane.tcp = Reading::Value(TcpInterval::default());
            let waits = Waits { looks: 5, sent: 200, sent_segments: 1, came: 32_768, ..Waits::default() };
            lane.waits = Reading::Value(waits);
        };
        assert!(judged_as(200, sleeping, |_, lane| client(lane)).acquits(), "the client thinks");
        let rare = |at: usize, lane: &mut LaneInterval| {
            client(lane);
            if at == 0 || at == 19 {
                return;
            }
            lane.received = 0;
            lane.waits = Reading::Value(Waits { looks: 5, ..Waits::default() });
            if let Reading::Value(seen) = &mut lane.sender {
                (seen.asked, seen.sent, seen.acked, seen.busy) = (0, 0, 0, Duration::ZERO);
                (seen.awaiting, seen.nothing_in_flight) = (5, 5);
            }
        };
        assert!(judged_as(200, sleeping, rare).acquits(), "it thinks for two seconds");
        let paced = |at: usize, lane: &mut LaneInterval| {
            client(lane);
            if let Reading::Value(seen) = &mut lane.sender {
                seen.asked = u64::from(at == 0);
                (seen.segment, seen.sent) = (65_483, 10_000);
            }
        };
        assert!(judged_as(200, sleeping, paced).convicts(), "one question, and parts of its answer");
        let owes = |_: usize, lane: &mut LaneInterval| {
            client(lane);
            if let Reading::Value(seen) = &mut lane.sender {
                (seen.owing, seen.awaiting) = (3, 0);
            }
        };
        assert!(judged_as(200, sleeping, owes).convicts(), "an answer is owed");
        assert!(judged(200, sleeping).convicts(), "it is the server that is watched");
    }

    #[test]
    fn who_waits_for_the_answer_to_what_it_sent_has_more_to_send() {
        let of = |found, served| {
            let around = Around { samples: 5, busy: 5, served, ..Around::default() };
            match judged_in(200, found, &around, |_, _| {}) {
                Judgement::Convict { strength, evidence } => (strength, evidence),
                other => panic!("{other:?}"),
            }
        };
        let (polling, receiving) =
            (Found { polling: 5, ..Found::default() }, Found { receiving: 5, ..Found::default() });
        let (strength, words) = of(receiving, false);
        assert!(strength < 0.76 && words.contains("for the other end to answer"), "{strength} {words}");
        let (_, words) = of(polling, false);
        assert!(words.contains("or for a timer"), "{words}");
        let (_, words) = of(polling, true);
        assert!(words.contains("the peer asked for no more"), "a server: {words}");
        let (_, words) = of(Found { sleeping: 5, ..Found::default() }, false);
        assert!(!words.contains("the other end"), "its own will: {words}");
    }

    #[test]
    fn a_wait_without_a_known_purpose_is_less_sure_to_be_its_own() {
        let of = |found| match judged(200, found) {
            Judgement::Convict { strength, evidence } => (strength, evidence),
            other => panic!("{other:?}"),
        };
        let (strength, words) = of(Found { elsewhere: 5, ..Found::default() });
        assert!(strength < 0.61, "{strength} {words}");
        let (strength, words) = of(Found { reading_disk: 5, paging_in: 5, ..Found::default() });
        assert!(strength < 0.61, "pages of what it sends: {strength} {words}");
        assert!(of(Found { sleeping: 5, ..Found::default() }).0 > 0.8);
    }
}
