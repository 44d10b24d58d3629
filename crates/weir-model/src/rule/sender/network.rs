//! Is it the network, rather than an end, that holds a sender back? The premise that
//! [`super::path_bandwidth`] and [`super::path_loss`] share, and what they weigh against each other.

use weir_units::stats::{high, sorted};

use super::flow::{Flow, burst, delivered, slack};
use super::{latency, path_mtu, protocol_window, reader, request_response};
use crate::rule::spent::active;
use crate::rule::steadiness::{LEAST, spread};
use crate::sender::SenderInterval;
use crate::words::percent;

/// Whether the network holds this connection; if not, why.
///
/// 1. Data wait to be sent or the congestion window is filled; or all was sent and its holes are being filled
///    while an upload of our own waits for the answer; or a queue stands on the path, which a filled
///    send buffer then merely feeds. A pipe that was found empty is not fed: who writes bursts and rests in
///    between fills its buffer and queues behind itself for a moment, and leaves the link idle for the rest;
/// 2. the peer's reader does not take its window away, and in flight does not fill it. With a round trip that
///    has grown the window must have room all the time: else a receiver that holds back its acknowledgements
///    looks like a queue, unless that end was watched and had read all;
/// 3. it is past slow start, no black hole swallows its full segments, and what it waits for is not the next
///    question or a credit of a protocol above.
pub(crate) fn holds(flow: &Flow<'_>) -> Result<(), String> {
    let grown = flow.queue_stands() == Some(true);
    // A fifth: the kernel's clock of the busy time counts in ticks of up to 10 ms of an interval's 100.
    let fed = grown && flow.rests() < 0.2 && (flow.window_pinned() || flow.buffer_holds());
    if !flow.data_wait() && !flow.cwnd_pinned() && !fed && !repairs_the_rest(flow) {
        return Err(format!(
            "{} and the congestion window filled in {}",
            flow.unsent_in_words(),
            percent(flow.share(flow.seen.cwnd_filled))
        ));
    }
    if reader::holds_back(flow) {
        return Err("the peer's reader took window away".to_owned());
    }
    if flow.window_pinned() && !grown {
        return Err(format!(
            "in flight fills the peer's window in {} of samples",
            percent(flow.share(flow.seen.window_filled))
        ));
    }
    if grown && !all_was_read(flow) && without_room(flow) {
        return Err(format!(
            "{}, but the peer's window had no room: a queue, or a reader that delays acknowledgements",
            flow.round_trip_in_words()
        ));
    }
    if flow.ignores_loss() && flow.app_limited() {
        return Err(format!(
            "rate samples application-limited in {} of samples",
            percent(flow.share(flow.seen.app_limited))
        ));
    }
    if let Some(growth) = latency::slow_start(flow) {
        return Err(growth);
    }
    match waits_above(flow) {
        Some(why) => Err(why),
        None => Ok(()),
    }
}

/// An upload's program has handed over all, and waits for an answer that cannot come before what was lost is
/// there: the lane's clock stands at the answer and the kernel is in recovery, half of the time each.
fn repairs_the_rest(flow: &Flow<'_>) -> bool {
    let active = active(flow.lane, flow.interval);
    let waits = flow.context.facts.uploads && flow.lane.first_byte.as_secs_f64() >= 0.5 * active;
    waits && flow.share(flow.seen.recovering) >= 0.5 && flow.seen.lost() > 0
}

/// What holds a connection whatever its buffers and its path would take, in words.
pub(crate) fn waits_above(flow: &Flow<'_>) -> Option<String> {
    let ways = [path_mtu::holds, request_response::explains, protocol_window::holds];
    ways.into_iter().find_map(|way| way(flow).ok())
}

/// The receiving end was watched too, and hardly anything lay unread in it.
fn all_was_read(flow: &Flow<'_>) -> bool {
    let queue = flow.lane.tcp.value().and_then(|tcp| Some((tcp.receive_queue?, tcp.receive_buffer?)));
    queue.is_some_and(|(queue, buffer)| queue.saturating_mul(16) <= buffer)
}

/// Whether the peer's window is too small for the queue to be told from a reader: filled; or crowded while it
/// moves; or, by the kernel's clock, the limit in 5 % of the last second. A full path showed none of that; a
/// reader showed 5 % even under BBR, whose probes touch the window only now and then. While the window was
/// another (it grows at first) does not count.
fn without_room(flow: &Flow<'_>) -> bool {
    let Some((least, mean, most)) = flow.seen.peer_window else { return false };
    // Holes take window away too, and are none of the reader's doing.
    if reader::holes(flow) {
        return false;
    }
    let moves = most - least.min(most) > 2 * flow.segment();
    let same = |seen: &SenderInterval| {
        let other = seen.peer_window.map_or(0.0, |(_, mean, _)| mean as f64);
        (0.8..=1.25).contains(&(other / (mean as f64).max(1.0)))
    };
    let near = flow.past(reader::reach(flow)).filter(|(seen, _)| same(seen));
    let (limited, all) = near.fold((0.0, 0.0), |(limited, all), (seen, seconds)| {
        (limited + seen.receive_window_limited.as_secs_f64(), all + seconds)
    });
    flow.window_pinned() || (moves && reader::crowds(flow)) || (all > 0.0 && limited >= 0.05 * all)
}

/// What a connection lost over the last round trips, those to come included where they are known.
pub(crate) struct Loss {
    /// Retransmitted bytes as a share of those sent, without what the peer reported as not needed.
    pub(crate) share: f64,
    /// It lost something, or was in recovery.
    pub(crate) seen: bool,
    /// Share of the time in retransmission timeouts.
    pub(crate) timeouts: f64,
}

pub(crate) fn loss(flow: &Flow<'_>) -> Loss {
    let mut sum = SenderInterval::default();
    let mut seconds = 0.0;
    for (seen, span) in flow.around(flow.horizon()) {
        sum.join(seen);
        seconds += span;
    }
    let lost = sum.lost();
    let share = if sum.sent > 0 { (lost as f64 / sum.sent as f64).min(1.0) } else { 0.0 };
    let timeouts = if seconds > 0.0 { (sum.timeout.as_secs_f64() / seconds).min(1.0) } else { 0.0 };
    Loss { share, seen: lost > 0 || !sum.timeout.is_zero(), timeouts }
}

/// How evenly a connection runs against its ceiling.
pub(crate) struct Use {
    /// Mean of the acknowledged bytes per second while data waited.
    pub(crate) mean: f64,
    /// The rate that a tenth of the round trips reach: one above the rest is an accident of acknowledgements.
    /// No less than the mean, which counts what closing holes acknowledge as well.
    pub(crate) ceiling: f64,
    /// Of how many rates.
    rates: usize,
    /// Loaded intervals with a loss within the time of the ceiling, and all of them.
    struck: (usize, usize),
}

impl Use {
    /// The mean as a share of the ceiling.
    pub(crate) fn share(&self) -> f64 {
        if self.ceiling > 0.0 { self.mean / self.ceiling } else { 0.0 }
    }

    /// The mean is four fifths of the ceiling or more, of rates enough to tell: so it is on a full link too,
    /// whether or not a queue shows there. Where most of them hold losses, these average out: that is none.
    pub(crate) fn is_near_ceiling(&self) -> bool {
        self.rates >= LEAST && self.share() >= 0.8 && 2 * self.struck.0 <= self.struck.1
    }
}

/// A link is a ceiling that is reached again and again, so the mean stays near the best; random loss strikes
/// at any window size, so the best is far above the mean. The ceiling is looked for over 10 s each way, slow
/// start included: it goes up to the link's rate where there is nothing to stop it.
pub(crate) fn usage(flow: &Flow<'_>) -> Use {
    let (mut acked, mut seconds) = (0.0, 0.0);
    for (seen, span) in flow.around(flow.horizon()).filter(|(seen, _)| loaded(seen)) {
        acked += seen.acked as f64;
        seconds += span;
    }
    let rates = sorted(rates(flow, 10.0, delivered));
    let struck = flow
        .around(10.0)
        .filter(|(seen, _)| loaded(seen))
        .fold((0, 0), |(struck, all), (seen, _)| (struck + usize::from(seen.retransmitted > 0), all + 1));
    let mean = if seconds > 0.0 { acked / seconds } else { 0.0 };
    let ceiling = high(&rates, 1, 10).unwrap_or(0.0).max(mean);
    Use { mean, ceiling, rates: rates.len(), struck }
}

/// Bytes per second while data waited, over `seconds` each way, one figure an interval, or several intervals
/// where a round trip is longer.
fn rates(flow: &Flow<'_>, seconds: f64, of: fn(&SenderInterval, f64) -> f64) -> Vec<f64> {
    let least = flow.rtt().unwrap_or(0.0);
    let mut rates = Vec::new();
    let (mut bytes, mut time) = (0.0, 0.0);
    for (seen, span) in flow.around(seconds).filter(|(seen, _)| loaded(seen)) {
        bytes += of(seen, span) * span;
        time += span;
        if time > 0.0 && time >= least {
            rates.push(bytes / time);
            (bytes, time) = (0.0, 0.0);
        }
    }
    rates
}

/// How much the rate moves over a second and a half each way, where losses strike again and again and do not
/// slow it. By its quartiles, so that one interval in which the machine was busy elsewhere does not count.
/// `None` where losses are rarer or cost something: a rate is even between two losses whatever holds it.
pub(crate) fn moves_though_struck(flow: &Flow<'_>) -> Option<f64> {
    if !losses_cost_nothing(flow) {
        return None;
    }
    spread(&rates(flow, 1.5, acked))
}

/// Whether three intervals or more lost something and the rate was no lower there than elsewhere: CUBIC gives
/// up three tenths of its window (RFC 9438) and Reno half, and where that tells in the rate, loss is what
/// holds it.
fn losses_cost_nothing(flow: &Flow<'_>) -> bool {
    let mut order: Vec<_> = flow.past(flow.horizon()).collect();
    order.reverse();
    order.extend(flow.after(flow.horizon()));
    let (mut all, mut struck) = ((0.0, 0.0), (0.0, 0.0));
    let (mut strikes, mut before) = (0, false);
    for (seen, span) in order.into_iter().filter(|(seen, _)| loaded(seen)) {
        let lost = seen.retransmitted > 0;
        all = (all.0 + seen.acked as f64, all.1 + span);
        // The interval that a loss cuts shows it in part, the next in full.
        if lost || before {
            struck = (struck.0 + seen.acked as f64, struck.1 + span);
        }
        strikes += u32::from(lost);
        before = lost;
    }
    // A tenth is left to the machine's own unevenness: a third of what CUBIC would give up.
    strikes >= 3 && struck.0 * all.1 >= 0.9 * all.0 * struck.1
}

/// The link's rate as this connection has shown it: the best of the intervals around in which a queue stood,
/// within 10 s. While one stands, what is delivered is what the link carries, so nothing goes beyond that: a
/// round trip that has grown below the `ceiling` is jitter, and one interval above it an accident of
/// acknowledgements. Where most intervals with a queue are above it, it is the ceiling that is too low: an
/// overflow has cut the connection to half of a link that it has left idle ever since.
pub(crate) fn shown_link(flow: &Flow<'_>, ceiling: f64) -> Option<f64> {
    let min = flow.min_rtt()?;
    let queued = flow.around(10.0).filter(|(seen, _)| loaded(seen)).filter_map(|(seen, span)| {
        // Rate samples taken in recovery are low, acknowledgements after it high.
        let rate = acked(seen, span).min(1.25 * seen.delivery_rate.unwrap_or(f64::INFINITY));
        let rtt = seen.rtt?.as_secs_f64();
        // As in `Flow::inflated`, but a shorter queue will do: the rate has to be the best as well.
        let stands = rtt > 1.15 * min + slack(min) && (rtt - min) * rate.min(ceiling) > burst(flow.segment());
        stands.then_some(rate)
    });
    let queued = sorted(queued);
    let best = queued.last()?.min(ceiling);
    let median = if queued.len() < 3 { best } else { high(&queued, 1, 2)? };
    Some(best.max(median)).filter(|link| *link >= 0.9 * ceiling)
}

fn acked(seen: &SenderInterval, span: f64) -> f64 {
    if span > 0.0 { seen.acked as f64 / span } else { 0.0 }
}

/// Whether an interval had data to send: a pause says nothing of the path.
fn loaded(seen: &SenderInterval) -> bool {
    let half = seen.looks.div_ceil(2);
    seen.looks > 0 && (seen.nothing_unsent <= half || seen.cwnd_filled >= half || seen.window_filled >= half)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::evidence::{Evidence, Interval, LaneInterval, Reading};
    use crate::rule::Context;

    #[test]
    fn no_mean_is_above_its_best() {
        let span = Duration::from_millis(100);
        // Of 890 KB in 100 ms the kernel's samples show 7.8 MB/s: the rest had come before.
        let sent = |delivery_rate| SenderInterval {
            acked: 890_000,
            looks: 5,
            rtt: Some(Duration::from_millis(20)),
            delivery_rate,
            ..SenderInterval::default()
        };
        for delivery_rate in [None, Some(7.8e6), Some(9.5e6)] {
            let sender = Reading::Value(sent(delivery_rate));
            let lanes = vec![LaneInterval { lane: 1, received: 890_000, sender, ..LaneInterval::default() }];
            let interval = Interval { span, received: 890_000, lanes, ..Interval::default() };
            let evidence = Evidence { intervals: vec![interval; 30], ..Evidence::default() };
            let (judged, context) = (&evidence.intervals[15], Context::at(&evidence, 15));
            let flow = Flow::of(&judged.lanes[0], judged, &context).unwrap();
            let used = usage(&flow);
            assert!((used.mean / 8.9e6 - 1.0).abs() < 1e-6, "{}", used.mean);
            assert!(used.mean <= used.ceiling && used.share() <= 1.0, "{} of {}", used.mean, used.ceiling);
        }
    }
}
