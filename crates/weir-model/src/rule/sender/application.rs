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
//! Acquits: it never sends but when it was asked, and owes nothing (of (2) only: a rest is somebody's pause);
//! another limit that has a rule of its own explains the rest (turns, timers, credits, a relay's other flow);
//! data wait unsent; all was sent and the connection's end is all that followed, so that it was the peer's
//! time; or the sender is one of weir's own and its threads were at work: [`stage`] knows at what.
//!
//! Can be wrong: an application that keeps to a limit of its own (so many bytes a second for each connection)
//! looks just so; if it sleeps for it, that is said.

use super::flow::{Flow, by_flow};
use super::{answers, latency, nagle, path_mtu, protocol_window, request_response, timeouts};
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
    let why = whose_turn(flow).or_else(|| flow.thread.as_ref().ok().and_then(thread)).unwrap_or_default();
    if rests >= 0.3 {
        return Judgement::convict(0.6 + 0.35 * rests, format!("{numbers}{why}"));
    }
    let spares = flow.seen.in_flight.saturating_mul(2) <= flow.seen.cwnd;
    let starves = paced || (flow.share(flow.seen.nothing_unsent) >= 0.7 && (limited >= 0.5 || spares));
    if starves && answers_only(flow) {
        return Judgement::acquit(format!("{numbers}: it sent what the peer asked for, and only then"));
    }
    if starves && !flow.cwnd_pinned() && !flow.window_pinned() {
        let evidence = format!(
            "{numbers}, application-limited in {} of them, {}{why}",
            percent(limited),
            flow.in_words()
        );
        return Judgement::convict(0.85, evidence);
    }
    Judgement::acquit(format!("{numbers}, application-limited in {} of them", percent(limited)))
}

/// Over a second and a half each way the peer asked, and nothing was sent anew without: each interval in
/// which something went out has a question, or follows one that has, or goes on with what was unsent.
/// Questions are what comes at the pace of turns, a fifth of the time in round trips, and not in the sizes of
/// credits.
fn answers_only(flow: &Flow<'_>) -> bool {
    let mut order: Vec<&SenderInterval> = flow.past(1.5).map(|(seen, _)| seen).collect();
    order.reverse();
    order.extend(flow.after(1.5).map(|(seen, _)| seen));
    let asked: u64 = order.iter().map(|seen| seen.asked).fold(0, u64::saturating_add);
    let by_itself = order.windows(2).any(|pair| {
        let [before, now] = pair else { return false };
        let goes_on = before.nothing_unsent < before.looks;
        now.sent >= flow.segment() && now.asked == 0 && before.asked == 0 && !goes_on
    });
    let turns = flow.min_rtt().and_then(|rtt| Turns::of(flow.lane, flow.interval, flow.context, rtt));
    let in_turn = turns.is_some_and(|turns| turns.share() >= 0.2 && !turns.are_credits());
    asked > 0 && in_turn && !by_itself && flow.share(flow.seen.owing) < 0.3
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
