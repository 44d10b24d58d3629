//! Is the bottleneck link full, as far as the receiver can tell? Only where a queue shows in its own round
//! trip.
//!
//! Convicts when all of these hold for lanes that carry half of the bytes or more:
//! 1. the lane waits for data, with its receive queue nearly empty;
//! 2. the round trip that the data show (`tcpi_rcv_rtt`) is 1.3 times its minimum or more, and 2 ms above it,
//!    with data in full segments and not in small answers;
//! 3. data come steadily: over half a second (five round trips) each interval's rate is within half of their
//!    mean, and a round trip carries ten segments or more. A sender that pauses makes the kernel measure its
//!    period instead (10 ms of sleep on a path of 0.03 ms gave 10 ms);
//! 4. something shows that the queue has an end, which an application's period has not: segments out of order
//!    (its overflow) within ten seconds, or a receive window that it fills and that cannot grow. The kernel
//!    sizes a window after the bursts of a sender that pauses, which then fill it as well. A trial in which
//!    more lanes brought nothing shows none: under a server's cap on all of them together it is the same, and
//!    the pauses of each grow with their number, as a queue's round trip does;
//! 5. where it is the overflow that shows the end: data come at three quarters or more of the rate at which
//!    it overflowed. A queue stands only while its link delivers all that it can; the burst with which a
//!    server's limiter begins may well overflow a queue that is empty ever after;
//! 6. the peer is another machine: on the way to this one itself there is no link.
//!
//! Acquits: more lanes brought more, or stages of this side took the time. With no visible queue (BBR keeps
//! it at 1.05 of the round trip) it cannot tell, and `sender-or-path` remains.
//!
//! Cannot tell: a queue that never overflows, filled by a program that fixed its buffer itself (SO_RCVBUF):
//! that its window cannot grow is not read.
//!
//! Can be wrong: other traffic may own the queue; then the link is full all the same, but not by us.

use super::rate_limit::{flat, scaled};
use super::receive_window::{Cap, at_cap};
use super::spent::{active, had_data, lane_rate, min_rtt, working};
use super::{Context, Judgement};
use crate::evidence::{Interval, LaneInterval, TcpInterval};
use crate::path::INITIAL_WINDOW;
use crate::words::{bytes, rate, seconds};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    if let Some(judged) = had_data(interval, context) {
        return judged;
    }
    if scaled(context.trials).is_some() && !context.trials.iter().any(flat) {
        return Judgement::acquit("more connections brought more");
    }
    let (mut all, mut held) = (0.0, 0.0);
    let mut evidence = None;
    for lane in working(interval) {
        let weight = lane.received as f64 + 1.0;
        all += weight;
        if let Some(text) = judge_lane(lane, interval, context) {
            held += weight;
            evidence.get_or_insert(text);
        }
    }
    match evidence {
        Some(evidence) if held >= 0.5 * all && !context.facts.peer_is_local => {
            let sure = if context.trials.iter().any(flat) { 0.9 } else { 0.75 };
            Judgement::convict(sure, evidence)
        }
        _ => Judgement::unknown(
            "whether the link is full: no queue shows at the receiver, only the sender could tell",
        ),
    }
}

fn judge_lane(lane: &LaneInterval, interval: &Interval, context: &Context<'_>) -> Option<String> {
    let tcp = lane.tcp.value()?;
    if !samples(tcp, lane) {
        return None;
    }
    let min =
        tcp.min_rtt.map(|rtt| rtt.as_secs_f64()).filter(|rtt| *rtt > 0.0).or(min_rtt(interval, context))?;
    let now = tcp.receiver_rtt?.as_secs_f64();
    if now <= 1.3 * min || now - min <= 2e-3 {
        return None;
    }
    let advertised = tcp.receive_window.or(tcp.window_clamp).unwrap_or(u64::MAX) as f64;
    if tcp.receive_queue.is_some_and(|queue| queue as f64 >= 0.25 * advertised) {
        return None;
    }
    let mean = lane_rate(lane.lane, interval, context, (5.0 * now).max(0.5));
    if !steady(lane.lane, interval, context, now) || mean * now < INITIAL_WINDOW as f64 {
        return None;
    }
    let overflow = out_of_order(lane.lane, interval, context);
    let why = if overflow > 0 && at_overflow(lane, interval, context) {
        format!("it overflows: {overflow} segments out of order")
    } else if mean * now >= 0.8 * advertised && matches!(at_cap(lane, tcp, now, context), Cap::Fixed(_)) {
        format!("it holds the receive window of {}", bytes(advertised))
    } else {
        return None;
    };
    Some(format!(
        "a queue on the path: {} of round trip over a minimum of {} at a steady {}; {why}",
        seconds(now),
        seconds(min),
        rate(mean)
    ))
}

/// Whether the kernel has a sample of the round trip at all: it takes one from each full segment that answers
/// an acknowledgement (`tcp_rcv_rtt_measure_ts`). From small answers it has only the time in which a whole
/// window of bytes came, which is the rate put differently, and between two answers it has none.
fn samples(tcp: &TcpInterval, lane: &LaneInterval) -> bool {
    let payload = lane.received / tcp.segments.max(1);
    payload >= 500 && lane.first_byte < lane.socket_wait
}

/// Whether each of the intervals around, and two at least, had within half of their mean rate. An interval
/// must hold a round trip for that, so they are taken in groups as long as one.
fn steady(lane: u32, interval: &Interval, context: &Context<'_>, rtt: f64) -> bool {
    let mut groups: Vec<(f64, f64)> = vec![(0.0, 0.0)];
    let reach = (5.0 * rtt).max(0.5);
    let mut around: Vec<&Interval> = context.recent(reach).collect();
    // With little before it, what follows tells.
    if around.len() < 4 {
        around.extend(context.following(reach));
    }
    for interval in std::iter::once(interval).chain(around) {
        let Some(same) = interval.lanes.iter().find(|other| other.lane == lane) else { break };
        let Some(last) = groups.last_mut() else { break };
        last.0 += same.received as f64;
        last.1 += active(same, interval);
        if last.1 >= rtt {
            groups.push((0.0, 0.0));
        }
    }
    groups.retain(|(_, span)| *span >= rtt);
    let rates: Vec<f64> = groups.iter().map(|(bytes, span)| bytes / span).collect();
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    // One interval that stands for a whole run has no others beside it, and was judged steady interval by
    // interval.
    let alone = context.before.is_empty() && context.after.is_empty();
    (rates.len() >= 2 || alone) && rates.iter().all(|rate| (rate - mean).abs() <= 0.5 * mean)
}

/// Whether segments come at three quarters or more of the rate at which the queue overflowed, see (5) above;
/// counted in segments, since a lane of our own counts bytes in blocks of up to some megabytes.
fn at_overflow(lane: &LaneInterval, interval: &Interval, context: &Context<'_>) -> bool {
    let around = |seconds: f64| context.around(interval, seconds);
    let now = segment_rate(lane.lane, around(0.5), |_| true);
    now >= 0.75 * segment_rate(lane.lane, around(10.0), |tcp| tcp.out_of_order > 0)
}

/// One lane's segments per second of its work in those of these intervals that count.
fn segment_rate<'a>(
    lane: u32,
    intervals: impl Iterator<Item = &'a Interval>,
    counts: impl Fn(&TcpInterval) -> bool,
) -> f64 {
    let (mut segments, mut seconds) = (0.0, 0.0);
    for interval in intervals {
        let Some(same) = interval.lanes.iter().find(|other| other.lane == lane) else { continue };
        if let Some(tcp) = same.tcp.value().filter(|tcp| counts(tcp)) {
            segments += tcp.segments as f64;
            seconds += active(same, interval);
        }
    }
    if seconds > 0.0 { segments / seconds } else { 0.0 }
}

/// Segments out of order within ten seconds around the window: a deep queue overflows no more often.
fn out_of_order(lane: u32, interval: &Interval, context: &Context<'_>) -> u64 {
    let around = context.around(interval, 10.0);
    let same = around.flat_map(|interval| &interval.lanes).filter(|other| other.lane == lane);
    same.filter_map(|lane| lane.tcp.value())
        .map(|TcpInterval { out_of_order, .. }| *out_of_order)
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Evidence, Facts, Reading, Trial};
    use std::time::Duration;

    #[test]
    fn a_window_that_follows_the_bursts_of_a_sender_that_pauses_shows_no_queue() {
        let ms = Duration::from_millis;
        let tcp = TcpInterval {
            receiver_rtt: Some(ms(20)),
            min_rtt: Some(Duration::from_micros(50)),
            receive_window: Some(110_000),
            receive_queue: Some(0),
            receive_buffer: Some(1 << 20),
            segments: 16,
            ..TcpInterval::default()
        };
        let lane = LaneInterval {
            received: 500_000,
            socket_wait: ms(95),
            tcp: Reading::Value(tcp),
            ..LaneInterval::default()
        };
        let interval =
            Interval { span: ms(100), received: 500_000, lanes: vec![lane], ..Interval::default() };
        let judged_of = |facts: Facts, trials: Vec<Trial>| {
            judge(&interval, &Context::alone(&Evidence { facts, trials, ..Evidence::default() }))
        };
        let judged = |receive_buffer, tcp_rmem_max| {
            judged_of(Facts { receive_buffer, tcp_rmem_max, ..Facts::default() }, Vec::new())
        };
        let grows = judged(None, Some(2 << 20));
        assert!(matches!(grows, Judgement::Unknown { .. }), "{grows:?}");
        assert!(judged(Some(220_000), None).convicts(), "what fills a window that is fixed is a queue");
        assert!(judged(None, Some(1 << 20)).convicts(), "its buffer is as large as it gets");
        let flat = Trial {
            at: 1.0,
            lanes_before: 1,
            lanes_after: 2,
            rate_before: 5e6,
            rate_after: 5e6,
            kept: false,
        };
        let shared = judged_of(Facts { tcp_rmem_max: Some(2 << 20), ..Facts::default() }, vec![flat]);
        assert!(matches!(shared, Judgement::Unknown { .. }), "a server may meter all together: {shared:?}");
        let fixed = Facts { receive_buffer: Some(220_000), ..Facts::default() };
        let local = judged_of(Facts { peer_is_local: true, ..fixed }, Vec::new());
        assert!(matches!(local, Judgement::Unknown { .. }), "no link leads to this machine: {local:?}");
    }
}
