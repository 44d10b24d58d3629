//! Is our receive buffer below the bandwidth-delay product?
//!
//! A lane is held by its window when all of these hold:
//! 1. it waits for data, and its receive queue is nearly empty (below a quarter of the window), so that the
//!    reader is not the cause;
//! 2. rate x round trip fills 70 % of the advertised window or more. Autotuning keeps the window at twice
//!    what is in flight, so an unbound flow stays near 50 %; 30 % are left to segment rounding, to window
//!    updates on their way, and to wake-ups that the round trip of the handshake does not have (a window held
//!    at 39 KB over 20 ms measured 86 to 97 %, one of 23 KB over 1 ms 73 to 84 %, one of three segments 74 to
//!    98 %);
//! 3. the round trip is near its minimum (1.3 times and 0.2 ms): else the window only fills a queue, and the
//!    queue's owner is the limit;
//! 4. the round trip is at least 0.2 ms: below it the window turns over so fast that scheduling decides, not
//!    the window;
//! 5. the window is at its cap: the user fixed the buffer, or both ends did not agree on window scaling (RFC
//!    7323), so that no more than 65,535 bytes can be offered, or it, or its buffer, stands at the kernel's
//!    limit (`tcp_rmem`), or it has not grown by a tenth over the last round trips and does not grow after.
//!
//! Convicts when such lanes carry half of the bytes or more.
//!
//! Acquits: any of 1 to 5 refuted by a reading; 1 by what stages of this side took, and not by waits for
//! anything else. Where the user fixed a window so small that it fills within the 0.2 ms of 4, neither 4 nor
//! this side's work acquits: a wake-up takes no more than the window holds, so that work is its doing too.
//!
//! Can be wrong: a sender whose own send buffer happens to equal our window is told apart only on its side.

use super::spent::{had_data, lane_rate, min_rtt, working};
use super::{Context, Judgement};
use crate::evidence::{Interval, LaneInterval, Reading, TcpInterval};
use crate::words::{bytes, percent, rate, seconds};

/// The judgement of one interval.
pub fn judge(interval: &Interval, context: &Context<'_>) -> Judgement {
    if let Some(judged) = had_data(interval, context) {
        let tiny = working(interval).find_map(|lane| tiny(lane, interval, context));
        return tiny.filter(|_| judged.acquits()).unwrap_or(judged);
    }
    let (mut all, mut held, mut strength) = (0.0, 0.0, 0.0);
    let mut evidence: Option<String> = None;
    let mut acquittal: Option<String> = None;
    let mut unknown: Option<String> = None;
    for lane in working(interval) {
        // An empty lane has no vote, but when all are empty each has the same.
        let weight = lane.received as f64 + 1.0;
        all += weight;
        match judge_lane(lane, interval, context) {
            Judgement::Convict { strength: sure, evidence: text } => {
                held += weight;
                strength += weight * sure;
                evidence.get_or_insert(text);
            }
            Judgement::Acquit { evidence } => {
                acquittal.get_or_insert(evidence);
            }
            Judgement::Unknown { missing } => {
                unknown.get_or_insert(missing);
            }
        }
    }
    match (evidence, acquittal, unknown) {
        (Some(evidence), ..) if held >= 0.5 * all => Judgement::convict(strength / all, evidence),
        (_, Some(evidence), None) => Judgement::acquit(evidence),
        (_, _, Some(missing)) => Judgement::unknown(missing),
        _ => Judgement::acquit("few connections fill their window"),
    }
}

fn judge_lane(lane: &LaneInterval, interval: &Interval, context: &Context<'_>) -> Judgement {
    let tcp = match &lane.tcp {
        Reading::Value(tcp) => tcp,
        Reading::Missing(why) => return Judgement::unknown(format!("the receive window: {why}")),
    };
    let min = tcp
        .shortest_rtt()
        .map(|rtt| rtt.as_secs_f64())
        .filter(|rtt| *rtt > 0.0)
        .or_else(|| min_rtt(interval, context));
    let now = tcp.receiver_rtt.map(|rtt| rtt.as_secs_f64()).filter(|rtt| *rtt > 0.0);
    // The kernel keeps the shortest of its samples, from whichever burst, so it may be below the handshake's.
    let Some(rtt) = now.into_iter().chain(min).max_by(f64::total_cmp) else {
        return Judgement::unknown("the round trip of the receive window");
    };
    let shortest = min.unwrap_or(rtt);
    if shortest < SHORT {
        let needs_none = || format!("a round trip of {} needs no larger window", seconds(shortest));
        return tiny(lane, interval, context).unwrap_or_else(|| Judgement::acquit(needs_none()));
    }
    let Some(advertised) = tcp.receive_window.or(tcp.window_clamp) else {
        return Judgement::unknown("the receive window: this kernel does not report it");
    };
    let advertised = advertised as f64;
    if tcp.receive_queue.is_some_and(|queue| queue as f64 >= 0.25 * advertised.max(1.0)) {
        let queue = bytes(tcp.receive_queue.unwrap_or(0) as f64);
        return Judgement::acquit(format!("{queue} lay unread in the receive queue"));
    }
    // Over four round trips, so that one burst a round trip reads as its mean.
    let lane_rate = lane_rate(lane.lane, interval, context, (4.0 * rtt).max(0.1));
    let fill = lane_rate * rtt / advertised;
    let numbers = format!(
        "{} x {} round trip fill {} of the {} receive window",
        rate(lane_rate),
        seconds(rtt),
        percent(fill),
        bytes(advertised)
    );
    if fill < FILLED {
        return Judgement::acquit(numbers);
    }
    if rtt > 1.3 * shortest + SHORT {
        return Judgement::acquit(format!(
            "{numbers}, but the minimum is {}: it fills a queue",
            seconds(shortest)
        ));
    }
    match at_cap(lane, tcp, rtt, context) {
        Cap::Fixed(why) => Judgement::convict(0.95, format!("{numbers}; {why}")),
        Cap::Still => Judgement::convict(0.85, format!("{numbers}; the window no longer grows")),
        Cap::Growing => Judgement::acquit(format!("{numbers}, but the window still grows")),
        Cap::Unseen => {
            Judgement::unknown("whether the receive window still grows: one interval does not show it")
        }
    }
}

/// That a window which the user fixed fills too fast to tell whether it held.
fn tiny(lane: &LaneInterval, interval: &Interval, context: &Context<'_>) -> Option<Judgement> {
    let fixed = fixed(context)?;
    let tcp = lane.tcp.value()?;
    let window = tcp.receive_window.or(tcp.window_clamp).or(context.facts.receive_buffer)?;
    let fills = lane_rate(lane.lane, interval, context, 0.1) * SHORT >= FILLED * window as f64;
    fills.then(|| {
        Judgement::unknown(format!(
            "whether the receive window held: {fixed}, which fills in less than {}",
            seconds(SHORT)
        ))
    })
}

/// See (2) above.
const FILLED: f64 = 0.7;

/// See (3) and (4) above, seconds.
const SHORT: f64 = 2e-4;

/// The most that a window's field of 16 bits holds.
const UNSCALED: u64 = 65_535;

/// How far a window may grow.
pub(super) enum Cap {
    /// No further, and why.
    Fixed(String),
    /// It stood still of late.
    Still,
    /// It grew of late.
    Growing,
    /// Not known.
    Unseen,
}

/// That the user fixed the buffer.
fn fixed(context: &Context<'_>) -> Option<String> {
    let buffer = context.facts.receive_buffer?;
    // Who takes in what was agreed on has agreed on the buffers too.
    let option = if context.facts.takes_in { "-w" } else { "--recv-buffer" };
    Some(format!("{option} fixes the buffer at {}", bytes(buffer as f64)))
}

/// Whether the window stands at its cap, see (5) above.
pub(super) fn at_cap(lane: &LaneInterval, tcp: &TcpInterval, rtt: f64, context: &Context<'_>) -> Cap {
    if let Some(why) = fixed(context) {
        return Cap::Fixed(why);
    }
    if lane.waits.value().is_some_and(|waits| waits.scaled == Some(false))
        && tcp.receive_window.is_some_and(|it| it >= UNSCALED / 2)
    {
        return Cap::Fixed("without window scaling no more than 65,535 bytes can be offered".to_owned());
    }
    let size = |tcp: &TcpInterval| tcp.receive_window.or(tcp.window_clamp).map(|window| window as f64);
    let now = size(tcp).unwrap_or(0.0);
    // The kernel advertises about half of the buffer (the rest is overhead of its segments), a bit less when
    // rounded; much less where a driver gives small segments a page each.
    let is_end = |most: u64| {
        most > 0 && (now >= 0.4 * most as f64 || tcp.receive_buffer.is_some_and(|buffer| buffer >= most))
    };
    if let Some(most) = context.facts.tcp_rmem_max.filter(|most| is_end(*most)) {
        return Cap::Fixed(format!("tcp_rmem ends at {}", bytes(most as f64)));
    }
    let of_lane = |interval: &Interval| {
        let same = interval.lanes.iter().find(|other| other.lane == lane.lane);
        same.and_then(|lane| lane.tcp.value()).and_then(size)
    };
    // Autotuning grows the window once a round trip, so four without growth are an end. 0.1 s spans a few
    // intervals.
    let reach = (4.0 * rtt).max(0.1);
    let Some(earlier) = context.recent(reach * 2.0).filter_map(of_lane).last() else { return Cap::Unseen };
    let later = context.following(reach * 2.0).filter_map(of_lane).fold(now, f64::max);
    if now > 1.1 * earlier || later > 1.1 * now { Cap::Growing } else { Cap::Still }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::evidence::{Evidence, Facts};

    /// On loopback, by the share of the time in which its lane waited for data.
    #[test]
    fn a_tiny_window_that_the_user_fixed_is_not_ruled_out() {
        let ms = Duration::from_millis;
        let judged = |receive_buffer: Option<u64>, window: u64, waited: u64| {
            let tcp = TcpInterval {
                min_rtt: Some(Duration::from_micros(11)),
                receive_window: Some(window),
                receive_queue: Some(0),
                ..TcpInterval::default()
            };
            let lane = LaneInterval {
                received: 2_200_000,
                socket_wait: ms(waited),
                receive_cpu: ms(100 - waited),
                tcp: Reading::Value(tcp),
                ..LaneInterval::default()
            };
            let interval =
                Interval { span: ms(100), received: 2_200_000, lanes: vec![lane], ..Interval::default() };
            let facts = Facts { receive_buffer, ..Facts::default() };
            judge(&interval, &Context::alone(&Evidence { facts, ..Evidence::default() }))
        };
        for waited in [21, 90] {
            let tiny = judged(Some(1), 576, waited);
            let words = "--recv-buffer fixes the buffer at 1 B, which fills";
            assert!(
                matches!(&tiny, Judgement::Unknown { missing } if missing.contains(words)),
                "{waited}: {tiny:?}"
            );
            assert!(judged(None, 576, waited).acquits(), "{waited}: the kernel would have let it grow");
            assert!(judged(Some(65_536), 40_000, waited).acquits(), "{waited}: 4.4 KB come in that time");
        }
    }
}
