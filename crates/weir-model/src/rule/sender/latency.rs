//! Do round trips, rather than bytes, take a sender's time?
//!
//! Convicts when one of these holds:
//! 1. small exchanges: the peer asks, gets a few initial windows of bytes or less, and asks again; the round
//!    trips of an exchange (question and answer, and those of slow start) take half of its time or more, the
//!    application was not found owing the answer, and no more of them come than round trips fit in: credits
//!    of a protocol above are no questions ([`super::protocol_window`]);
//! 2. an upload of our own: handshakes and waits for answers of about a round trip take half of its lanes'
//!    time ([`answers::round_trips`]);
//! 3. slow start: data wait, nothing was lost yet (which a sender that goes by a model of the path takes no
//!    notice of), and the rate still doubles in the first round trips of the connection.
//!
//! Acquits: the connection is kept busy by large bodies, or rests for longer than round trips explain; or a
//! rest below a segment is held back in each turn ([`super::nagle`]); or, of our own lanes, names or attempts
//! to connect that no round trip explains take the time ([`connect::holds`]).
//!
//! Can be wrong: a client that thinks for a round trip between questions looks the same.

use std::time::Duration;

use super::answers;
use super::flow::{Flow, SMALL, by_flow, delivered};
use super::{reader, receive_window};
use crate::evidence::Interval;
use crate::path;
use crate::rule::spent::active;
use crate::rule::turns::{CREDIT, are_credits};
use crate::rule::{Context, Judgement, connect, nagle};
use crate::sender::SenderInterval;
use crate::words::{bytes, rate, seconds};
use weir_units::{Bytes, Rate, counted};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    let own = connect::tells_steps(interval).then(|| connect::holds(interval, context)).flatten();
    if let Some(why) = own.or_else(|| nagle::holds(interval, context)) {
        return Judgement::acquit(why);
    }
    if answers::long_handshakes(interval, context) {
        return Judgement::unknown(connect::LONG);
    }
    if let Some((_, why)) = answers::slow_store(interval, context) {
        return Judgement::acquit(why);
    }
    match answers::round_trips(interval, context).or_else(|| exchanges(interval, context)) {
        Some((strength, evidence)) => Judgement::convict(strength, evidence),
        None => by_flow(interval, context, |flow| match slow_start(flow) {
            Some(evidence) => Judgement::convict(0.9, evidence),
            None => Judgement::acquit("no small exchanges, and past slow start"),
        }),
    }
}

/// Small exchanges, over all connections of the last second: short-lived ones are hardly in an interval of
/// their own.
pub(crate) fn exchanges(interval: &Interval, context: &Context<'_>) -> Option<(f64, String)> {
    let mut sum = SenderInterval::default();
    let mut lived = 0.0;
    let (mut asked_bytes, mut told, mut credits) = (0.0, 0.0, 0.0);
    for interval in std::iter::once(interval).chain(context.recent(1.0)) {
        for lane in &interval.lanes {
            if let Some(seen) = lane.sender.value() {
                sum.join(seen);
                lived += active(lane, interval);
                if let Some(waits) = lane.waits.value() {
                    asked_bytes += waits.came as f64;
                    told += waits.came_segments as f64;
                    if are_credits(waits.came, waits.came_segments) {
                        credits += waits.came_segments as f64;
                    }
                }
            }
        }
    }
    let rtt = sum.min_rtt?.as_secs_f64();
    let (asked, looks) = (sum.asked as f64, f64::from(sum.looks.max(1)));
    // A client that asks at once acknowledges the end of an answer with its next question (of 250 looks none
    // found one awaited on paths of 1 to 100 ms): where one is awaited after that, it thinks. Of an upload it
    // is the answer that is awaited, as the exchange will have it.
    let awaiting = if context.facts.uploads { 0 } else { sum.awaiting };
    let pauses = f64::from(sum.owing.max(awaiting)) >= 0.3 * looks;
    if asked < 1.0 || f64::from(sum.nothing_unsent) < 0.5 * looks || pauses {
        return None;
    }
    let (size, each) = (sum.acked as f64 / asked, lived / asked);
    // Of credits one comes a round trip, or more; a question may have two segments.
    let small = each < 0.8 * rtt && asked_bytes < CREDIT as f64 * told;
    let parts = credits >= 0.8 * told && size >= 3.0 * path::SEGMENT as f64;
    let rounds = 1.0 + f64::from(path::slow_start_rounds(Bytes(size as u64)));
    (rtt > 0.0 && !(told > 0.0 && (small || parts)) && size <= SMALL && each <= 2.0 * rounds * rtt).then(
        || {
            let evidence = format!(
                "{} of {}, {} each over a round trip of {}",
                counted(sum.asked, "exchange"),
                bytes(size),
                seconds(each),
                seconds(rtt)
            );
            (0.9, evidence)
        },
    )
}

/// The numbers of a slow start, while it lasts. The best rate of the two seconds (ten round trips) that
/// follow says how many doublings it needed; live, there are ten, and growth must show.
pub(crate) fn slow_start(flow: &Flow<'_>) -> Option<String> {
    let rtt = flow.min_rtt()?;
    // Below 1 ms slow start is over before a window is.
    if rtt < 1e-3 || (!flow.data_wait() && !flow.cwnd_pinned()) {
        return None;
    }
    // A window that opens again after a stall looks like growth; one that autotuning opens for the first time
    // is a part of the start.
    let pinned = flow.window_pinned() || flow.part(flow.seen.receive_window_limited) >= 0.5;
    if pinned && (reader::taken(flow) || !receive_window::grows(flow)) {
        return None;
    }
    let now = (flow.lane.sender.value()?, active(flow.lane, flow.interval));
    let here = rate_of(now);
    if here <= 0.0 {
        return None;
    }
    // Growth towards what follows, or from what came before.
    let grew =
        flow.before().next().map(rate_of).is_some_and(|earlier| earlier > 0.0 && here >= 1.3 * earlier);
    let rounds = if flow.context.after.is_empty() {
        grew.then_some(10.0)?
    } else {
        let best = flow.after((10.0 * rtt).max(2.0)).map(rate_of).fold(here, f64::max);
        let round_trip = Duration::try_from_secs_f64(rtt).ok()?;
        // One more for the first round trip, one since intervals do not start with one, two for a sender that
        // paces.
        let rounds = f64::from(path::slow_start_rounds(path::bdp(Rate(best), round_trip))) + 4.0;
        (grew || best > 1.5 * here).then_some(rounds)?
    };
    let most = rounds * flow.rtt().unwrap_or(rtt).max(rtt);
    let mut age = 0.0;
    for (seen, span) in std::iter::once(now).chain(flow.before()) {
        age += if seen.acked > 0 { span } else { 0.0 };
        // BBR goes on doubling through a few per cent of loss: it starts up until the rate has stood still
        // for three round trips (bbr_check_full_bw_reached in net/ipv4/tcp_bbr.c).
        let cut = seen.retransmitted > 0 && !flow.ignores_loss();
        if cut || age > most {
            return None;
        }
    }
    Some(format!("slow start: {} and growing, {} after the first byte", rate(here), seconds(age)))
}

fn rate_of((seen, span): (&SenderInterval, f64)) -> f64 {
    delivered(seen, span)
}
