//! Does loss keep the sender's congestion window small?
//!
//! Convicts when all of these hold:
//! 1. the lanes wait for data;
//! 2. over the last second, 0.1 % of the segments or more arrived out of order, three at least: a hole makes
//!    all that follow it in flight count, so the loss itself is taken as that share divided by the segments
//!    in flight. It comes back once a second or more: one loss of a second ago is no longer what holds the
//!    interval;
//! 3. the rate is what that loss allows a loss-driven sender (Reno, CUBIC), within a factor of 0.2 to 1.5
//!    (0.6 to 1.3 were measured). A sender that does not slow down for loss (BBR) goes beyond; loss too rare
//!    to matter allows far more;
//! 4. the round trip is near its minimum (1.15 times and 0.5 ms): else the loss is that of a full queue, a
//!    symptom;
//! 5. the receive window has room (less than half filled), when it is known;
//! 6. no trial with more lanes brought nothing: that would be a full link, where each sender loses its share;
//! 7. the rate moves by a tenth or more over the last seconds, unless a trial with more lanes brought more:
//!    CUBIC's sawtooth goes from 0.7 to 1, which is a standard deviation of a tenth of its mean, and Reno's
//!    twice that. A link or a policer hands out just one rate, and what is out of order there is its
//!    overflow.
//!
//! Acquits: any of 1 to 7 refuted; 1 by what stages of this side took, and not by waits for anything else.
//!
//! Can be wrong: at a full link with a very short queue a lone sender's own loss satisfies 2 to 7. That is
//! why strength stays at 0.6 until a trial with more lanes grew with their number.

use super::rate_limit::{flat, scaled};
use super::spent::{had_data, min_rtt, spent, working};
use super::steadiness::{STEADY, spread};
use super::{Context, Judgement};
use crate::evidence::{Interval, TcpInterval};
use crate::path::{SEGMENT, loss_bound};
use crate::words::{percent, rate, seconds};
use std::time::Duration;

/// As many times what such loss allows are no error of the formula's, see (3) above.
pub(super) const BEYOND: f64 = 1.5;

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    if let Some(judged) = had_data(interval, context) {
        return judged;
    }
    let Some(seen) = SegmentCounts::over(interval, context) else {
        let why = interval.lanes.iter().find_map(|lane| lane.tcp.missing()).unwrap_or("no segment counted");
        return Judgement::unknown(format!("segments out of order: {why}"));
    };
    let share = seen.out_of_order / seen.segments;
    let counted = format!("{} of the segments arrived out of order", percent(share));
    if share < 0.001 || seen.out_of_order < 3.0 {
        return Judgement::acquit(counted);
    }
    let (strikes, around) = strikes(interval, context);
    if strikes < 2 || f64::from(strikes) < around {
        return Judgement::acquit(format!("{counted}, but {strikes} intervals of {} only", seconds(around)));
    }
    let Some(rtt) = min_rtt(interval, context) else {
        return Judgement::unknown(format!("the round trip: {counted}, but what that allows depends on it"));
    };
    if seen.receiver_rtt.is_some_and(|now| now > 1.15 * rtt + 5e-4) {
        let now = seconds(seen.receiver_rtt.unwrap_or(0.0));
        return Judgement::acquit(format!(
            "{counted}, but {now} of round trip over {} is a queue",
            seconds(rtt)
        ));
    }
    if context.trials.iter().any(flat) {
        return Judgement::acquit(format!("{counted}, but more connections brought no more"));
    }
    if seen.window.is_some_and(|window| seen.rate * rtt >= 0.5 * window) {
        return Judgement::acquit(format!("{counted}, but the receive window is filled as well"));
    }
    let in_flight = seen.rate * rtt / seen.segment as f64;
    if in_flight < 2.0 {
        return Judgement::unknown(format!(
            "what the loss costs: {counted}, but a round trip carries {in_flight:.1} segments, and no congestion window is smaller than two"
        ));
    }
    let loss = (share / in_flight).min(1.0);
    let round_trip = Duration::try_from_secs_f64(rtt).unwrap_or_default();
    let Some(bound) =
        loss_bound(seen.segment, round_trip, loss).map(|rate| rate.0).filter(|rate| *rate > 0.0)
    else {
        return Judgement::unknown("what the loss allows");
    };
    // Above 2 % loss timeouts set in, and the formula, which knows none, promises too much.
    let least = if loss > 0.02 { 0.03 } else { 0.2 };
    let numbers = format!("{counted}; such loss allows about {} at {}", rate(bound), seconds(rtt));
    let reached = seen.rate / bound;
    if reached > BEYOND {
        Judgement::acquit(format!(
            "{numbers}, and a connection carries {}: its sender ignores loss",
            rate(seen.rate)
        ))
    } else if reached < least {
        Judgement::acquit(format!("{numbers}, far above the {} seen", rate(seen.rate)))
    } else if let Some(moves) = steady(interval, context) {
        Judgement::acquit(format!("{numbers}, but the rate moves by {} only: a link's", percent(moves)))
    } else {
        let strength = if scaled(context.trials).is_some() { 0.85 } else { 0.6 };
        Judgement::convict(strength, format!("{numbers}, and a connection carries {}", rate(seen.rate)))
    }
}

/// In how many intervals segments arrived out of order, over two seconds each way, and the seconds that this
/// covers.
fn strikes(interval: &Interval, context: &Context<'_>) -> (u32, f64) {
    // One interval that stands for a whole run has no others beside it, and was judged interval by interval.
    if context.before.is_empty() && context.after.is_empty() {
        return (u32::MAX, 0.0);
    }
    let around = context.around(interval, 2.0);
    around.fold((0, 0.0), |(strikes, time), interval| {
        let mut sockets = interval.lanes.iter().filter_map(|lane| lane.tcp.value());
        let struck = sockets.any(|tcp| tcp.out_of_order > 0);
        (strikes + u32::from(struck), time + interval.span.as_secs_f64())
    })
}

/// How little the rate of all lanes, in segments, moves over a second and a half each way, where that is less
/// than loss makes it: several lanes even each other out, by the root of their number.
fn steady(interval: &Interval, context: &Context<'_>) -> Option<f64> {
    if scaled(context.trials).is_some() {
        return None;
    }
    let least = min_rtt(interval, context).unwrap_or(0.0);
    let around = (context.following(1.5).chain([interval])).chain(context.recent(1.5));
    let mut rates: Vec<f64> = Vec::new();
    let (mut segments, mut time) = (0.0, 0.0);
    for interval in around {
        // Not bytes, which a lane of our own counts in blocks of up to some megabytes.
        let arrived =
            interval.lanes.iter().filter_map(|lane| lane.tcp.value()).map(|tcp| tcp.segments as f64);
        segments += arrived.sum::<f64>();
        time += interval.span.as_secs_f64();
        if time > 0.0 && time >= least {
            rates.push(segments / time);
            (segments, time) = (0.0, 0.0);
        }
    }
    let lanes = f64::from(spent(interval).lanes.max(1));
    spread(&rates).filter(|moves| *moves < (SAWTOOTH / lanes.sqrt()).max(STEADY))
}

/// The standard deviation of CUBIC's sawtooth as a share of its mean: 0.3 / sqrt(12) / 0.85.
const SAWTOOTH: f64 = 0.1;

/// What the working lanes' sockets counted in the last second.
struct SegmentCounts {
    out_of_order: f64,
    segments: f64,
    /// Payload of a segment, bytes.
    segment: u64,
    /// Mean rate of one lane, bytes per second.
    rate: f64,
    receiver_rtt: Option<f64>,
    /// Smallest advertised window, bytes.
    window: Option<f64>,
}

impl SegmentCounts {
    fn over(interval: &Interval, context: &Context<'_>) -> Option<SegmentCounts> {
        let (mut out_of_order, mut segments, mut received, mut time) = (0.0, 0.0, 0.0, 0.0);
        for interval in std::iter::once(interval).chain(context.recent(1.0)) {
            for lane in working(interval) {
                let Some(tcp) = lane.tcp.value() else { continue };
                out_of_order += tcp.out_of_order as f64;
                segments += tcp.segments as f64;
                received += lane.received as f64;
                time += super::spent::active(lane, interval);
            }
        }
        let sockets = || working(interval).filter_map(|lane| lane.tcp.value());
        let receive_window = |tcp: &TcpInterval| tcp.receive_window.or(tcp.window_clamp);
        let receiver_rtt = sockets().filter_map(|tcp| tcp.receiver_rtt).max().map(|rtt| rtt.as_secs_f64());
        (segments > 0.0 && time > 0.0).then(|| SegmentCounts {
            out_of_order,
            segments,
            // Joined segments (GRO) and headers make the quotient rough; outside of real sizes it is not
            // used.
            segment: match (received / segments) as u64 {
                payload @ 500..=9000 => payload,
                _ => SEGMENT,
            },
            rate: received / time,
            receiver_rtt,
            window: sockets().filter_map(receive_window).min().map(|window| window as f64),
        })
    }
}
