//! One connection as its sender sees it, over the last round trips: the quantities that the sender's rules
//! share.
//!
//! An interval may be shorter than a round trip, and data go out in one burst a round trip, so a connection
//! is judged over [`Flow::reach`], and its loss and its ceiling over several times that.

use std::time::Duration;

use crate::evidence::{Interval, LaneInterval, ThreadInterval};
use crate::path::{INITIAL_WINDOW, SEGMENT};
use crate::rule::spent::{active, working};
use crate::rule::turns::Turns;
use crate::rule::{Context, Judgement, is_peers};
use crate::sender::{SenderInterval, is_bbr};
use crate::thread::join_thread;
use crate::words::{bytes, percent, rate, seconds};

/// One connection over the judged interval and those just before it.
pub(crate) struct Flow<'a> {
    pub(crate) lane: &'a LaneInterval,
    pub(crate) interval: &'a Interval,
    pub(crate) context: &'a Context<'a>,
    /// The intervals taken together.
    pub(crate) seen: SenderInterval,
    /// The sender's thread over the same time, or why it is not known.
    pub(crate) thread: Result<ThreadInterval, &'a str>,
    /// Seconds that `seen` covers.
    pub(crate) seconds: f64,
    /// It is the peer's socket, on this machine: the watched program receives.
    pub(crate) is_peers: bool,
}

impl<'a> Flow<'a> {
    pub(crate) fn of(
        lane: &'a LaneInterval,
        interval: &'a Interval,
        context: &'a Context<'a>,
    ) -> Option<Flow<'a>> {
        let now = lane.sender.value()?;
        let reach = reach(now.rtt);
        let mut together = vec![lane];
        let mut seconds = active(lane, interval);
        for past in context.recent(reach) {
            let same = past.lanes.iter().find(|other| other.lane == lane.lane);
            match same.filter(|same| seconds < reach && same.sender.value().is_some()) {
                Some(same) => {
                    seconds += active(same, past);
                    together.push(same);
                }
                None => break,
            }
        }
        let (mut seen, mut thread): (SenderInterval, Option<ThreadInterval>) = Default::default();
        for lane in together.into_iter().rev() {
            lane.sender.value().into_iter().for_each(|next| seen.join(next));
            if let Some(next) = lane.thread.value() {
                join_thread(thread.get_or_insert_default(), next);
            }
        }
        let is_peers = is_peers(lane, interval, context);
        let thread = match thread {
            _ if is_peers => Err("its program is not the watched one"),
            Some(thread) => Ok(thread),
            None => Err(lane.thread.missing().unwrap_or("not read")),
        };
        Some(Flow { lane, interval, context, seen, thread, seconds, is_peers })
    }

    /// `looks` as a share of all looks, 0 to 1.
    pub(crate) fn share(&self, looks: u32) -> f64 {
        if self.seen.looks == 0 { 0.0 } else { (f64::from(looks) / f64::from(self.seen.looks)).min(1.0) }
    }

    /// A time as a share of what is covered, 0 to 1.
    pub(crate) fn part(&self, time: Duration) -> f64 {
        if self.seconds > 0.0 { (time.as_secs_f64() / self.seconds).min(1.0) } else { 0.0 }
    }

    /// A segment's payload, bytes; no more than an IP packet holds, and one at least, so that it multiplies
    /// and divides.
    pub(crate) fn segment(&self) -> u64 {
        self.seen.segment.clamp(1, 65_535)
    }

    /// A segment as windows are measured by: loopback has segments of tens of kilobytes, and windows of one
    /// or two of them.
    pub(crate) fn window_unit(&self) -> u64 {
        self.segment().min(SEGMENT)
    }

    /// Acknowledged bytes per second.
    pub(crate) fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.seen.acked as f64 / self.seconds } else { 0.0 }
    }

    /// Smoothed round trip, seconds.
    pub(crate) fn rtt(&self) -> Option<f64> {
        self.seen.rtt.map(|rtt| rtt.as_secs_f64()).filter(|rtt| *rtt > 0.0)
    }

    /// The path's own round trip, seconds: the smallest of this connection, with hindsight of ten seconds,
    /// since before the first bytes it may hold a slow handshake.
    pub(crate) fn min_rtt(&self) -> Option<f64> {
        let known = self.around(10.0).filter_map(|(seen, _)| seen.min_rtt);
        known.chain(self.seen.min_rtt).min().map(|rtt| rtt.as_secs_f64()).filter(|rtt| *rtt > 0.0)
    }

    /// The peer gives credits (HTTP/2, SSH) over a path of this round trip, however short.
    pub(crate) fn takes_credits(&self, rtt: f64) -> bool {
        let turns = Turns::near(self.lane, self.interval, self.context, rtt);
        turns.is_some_and(|turns| turns.are_credits())
    }

    /// Whether the round trip has grown as a standing queue makes it: by a quarter (the measured limits of
    /// buffers showed 1.03, full links 1.7). A receiver that does not read holds back its acknowledgements,
    /// which looks the same: see [`super::reader`]. `None` without round trips.
    pub(crate) fn queue_stands(&self) -> Option<bool> {
        self.inflated(1.25)
    }

    /// Whether the round trip is above `times` its minimum, and by more than what is no queue.
    pub(crate) fn inflated(&self, times: f64) -> Option<bool> {
        let (rtt, min) = (self.rtt()?, self.min_rtt()?);
        Some(rtt > times * min + slack(min) && (rtt - min) * self.rate() > burst(self.segment()))
    }

    /// Whether the round trip is twice its minimum and five times of what scheduling costs above that, and
    /// fresh: in recovery and in timeouts the smoothed value is that of before.
    pub(crate) fn more_than_doubled(&self) -> Option<bool> {
        let (rtt, min) = (self.rtt()?, self.min_rtt()?);
        let fresh = self.seen.timeout.is_zero() && self.share(self.seen.recovering) < 0.5;
        Some(fresh && rtt > 2.0 * min + 5.0 * slack(min))
    }

    /// Share of the time without anything queued or in flight. From the kernel's clock; where that stood
    /// still though bytes went (before Linux 4.10), from the looks.
    pub(crate) fn rests(&self) -> f64 {
        let resting = self.share(self.seen.nothing_in_flight);
        if self.seen.busy.is_zero() && self.seen.acked > 0 {
            return resting;
        }
        // The clock ticks in steps of up to 10 ms, and a look sees one instant: the larger of two
        // under-counts.
        (1.0 - self.part(self.seen.busy)).clamp(0.0, 1.0).max(resting)
    }

    /// Data wait to be sent for the first time in half of the looks or more.
    pub(crate) fn data_wait(&self) -> bool {
        self.seen.looks > 0 && self.share(self.seen.nothing_unsent) < 0.5
    }

    /// In flight is pinned at the peer's window in half of the looks or more; or, of a sender that paces
    /// (BBR), it takes 85 % of the window on average and the kernel's clock says that it touches it now and
    /// then.
    pub(crate) fn window_pinned(&self) -> bool {
        let fills = |(_, mean, _): (u64, u64, u64)| self.seen.in_flight as f64 >= 0.85 * mean as f64;
        let touches = self.part(self.seen.receive_window_limited) >= 0.05;
        self.share(self.seen.window_filled) >= 0.5 || (touches && self.seen.peer_window.is_some_and(fills))
    }

    /// In flight is pinned at the congestion window in half of the looks or more, or takes nine tenths of it
    /// on average: segmentation offload waits for room for a burst of many segments, so at high rates a look
    /// finds more than two free.
    pub(crate) fn cwnd_pinned(&self) -> bool {
        let most = self.seen.cwnd > 0 && self.seen.in_flight as f64 >= 0.9 * self.seen.cwnd as f64;
        self.share(self.seen.cwnd_filled) >= 0.5 || most
    }

    /// The thread was found asleep by its own will, running, or reading a file in half of the looks or more:
    /// it does not wait for room in the send buffer.
    pub(crate) fn writer_is_elsewhere(&self) -> bool {
        let elsewhere = |thread: &ThreadInterval| {
            let found = thread.found;
            found.sleeping.saturating_add(found.running).saturating_add(found.reading_disk)
        };
        let half = |thread: &ThreadInterval| elsewhere(thread) >= thread.looks.div_ceil(2);
        self.thread.as_ref().is_ok_and(|thread| thread.looks > 0 && half(thread))
    }

    /// Data wait to be sent, or a full buffer holds the writer: the program is not what is slow.
    pub(crate) fn is_fed(&self) -> bool {
        self.data_wait() || (self.buffer_holds() && !self.writer_is_elsewhere())
    }

    /// The send buffer is what stops the application: its kernel's clock, or the looks, say so 30 % and 50 %
    /// of the time. The clock under-counts, and only runs with nothing unsent; looks see one instant. Of a
    /// full buffer a sender that paces (BBR) keeps a part for its next ticks; the kernel then marks its rate
    /// samples as application-limited, which it does only with congestion window to spare.
    pub(crate) fn buffer_holds(&self) -> bool {
        let clock = self.part(self.seen.send_buffer_limited);
        let filled = self.share(self.seen.buffer_filled) >= 0.5;
        let paced = clock >= 0.1 && self.app_limited();
        clock >= 0.3
            || (filled && !self.buffer_grew() && (self.share(self.seen.nothing_unsent) >= 0.5 || paced))
    }

    /// The send buffer grew on this connection and is below where that ends (`tcp_wmem`): one that SO_SNDBUF
    /// fixed stands still, and one that the kernel tunes follows the congestion window (`tcp_sndbuf_expand`),
    /// so it is no cap.
    fn buffer_grew(&self) -> bool {
        let Some(now) = self.seen.send_buffer else { return false };
        let ends = self.context.facts.tcp_wmem_max.is_some_and(|most| now as f64 >= 0.9 * most as f64);
        let smaller = |(seen, _): (&SenderInterval, f64)| {
            seen.send_buffer.is_some_and(|then| (then as f64) < 0.95 * now as f64)
        };
        !ends && self.before().any(smaller)
    }

    /// Half of the rate samples or more were application-limited: what was sent was less than congestion
    /// window and pacing allowed, so they say nothing of the path, and BBR's model leaves them out.
    pub(crate) fn app_limited(&self) -> bool {
        self.seen.looks > 0 && self.share(self.seen.app_limited) >= 0.5
    }

    /// Whether the congestion control is driven by a model of the path rather than by loss: BBR of any
    /// version.
    pub(crate) fn ignores_loss(&self) -> bool {
        self.seen.congestion_control.as_deref().is_some_and(is_bbr)
    }

    /// This connection's intervals, newest first from the judged one, until `seconds` are covered, with their
    /// seconds.
    pub(crate) fn past(&self, seconds: f64) -> impl Iterator<Item = (&'a SenderInterval, f64)> {
        let now = self.lane.sender.value().map(|seen| (seen, active(self.lane, self.interval)));
        now.into_iter().chain(history(self.lane.lane, self.context.recent(seconds)))
    }

    /// The same with as much of what follows, where that is known.
    pub(crate) fn around(&self, seconds: f64) -> impl Iterator<Item = (&'a SenderInterval, f64)> {
        self.past(seconds).chain(self.after(seconds))
    }

    /// This connection's intervals before the judged one, newest first.
    pub(crate) fn before(&self) -> impl Iterator<Item = (&'a SenderInterval, f64)> {
        history(self.lane.lane, self.context.before.iter().rev())
    }

    /// This connection's intervals after the judged one, oldest first, until `seconds` are covered.
    pub(crate) fn after(&self, seconds: f64) -> impl Iterator<Item = (&'a SenderInterval, f64)> {
        history(self.lane.lane, self.context.following(seconds))
    }

    /// Seconds over which loss and ceilings are told: a sawtooth of a few dozen round trips, 2 s at least.
    pub(crate) fn horizon(&self) -> f64 {
        (30.0 * self.rtt().unwrap_or(0.0)).clamp(2.0, 10.0)
    }

    /// `acked 1.4 MB/s with 39.1 KB in flight`, the beginning of most evidence.
    pub(crate) fn in_words(&self) -> String {
        format!("{} with {} in flight", rate(self.rate()), bytes(self.seen.in_flight as f64))
    }

    /// `, round trip 41.0 ms over a minimum of 40.0 ms`; empty when not known.
    pub(crate) fn round_trip_in_words(&self) -> String {
        match (self.rtt(), self.min_rtt()) {
            (Some(rtt), Some(min)) => {
                format!("round trip {} over a minimum of {}", seconds(rtt), seconds(min))
            }
            _ => "round trip not known".to_owned(),
        }
    }

    /// `nothing unsent in 95 % of samples`.
    pub(crate) fn unsent_in_words(&self) -> String {
        if self.data_wait() {
            format!("{} wait unsent", bytes(self.seen.unsent as f64))
        } else {
            format!("nothing unsent in {} of samples", percent(self.share(self.seen.nothing_unsent)))
        }
    }
}

/// What scheduling adds to a round trip without any queue, seconds: two wake-ups and a tick, a millisecond;
/// on a loopback of microseconds twenty times its minimum.
pub(crate) fn slack(min: f64) -> f64 {
    (20.0 * min).min(1e-3)
}

/// Bytes that lie at a link without standing there: a delayed acknowledgement releases two segments at once,
/// and growth adds one. On a slow link they take long: 2.4 ms a segment at 5 Mbit/s, and the minimum is that
/// of a bare SYN.
pub(crate) fn burst(segment: u64) -> f64 {
    3.0 * segment as f64
}

/// Bytes per second that an interval delivered: what was acknowledged, but no more than the kernel's rate
/// samples show, since a hole that closes acknowledges at once what came long before. The samples alone
/// (`tcpi_delivery_rate`) would not do: behind a policer they show the link before it.
pub(crate) fn delivered(seen: &SenderInterval, seconds: f64) -> f64 {
    let acked = if seconds > 0.0 { seen.acked as f64 / seconds } else { 0.0 };
    match seen.delivery_rate.filter(|rate| rate.is_finite() && *rate > 0.0) {
        Some(sampled) => acked.min(sampled),
        None => acked,
    }
}

/// Seconds over which a connection is judged: two round trips, and 0.2 s (ten looks) at least.
pub(crate) fn reach(rtt: Option<Duration>) -> f64 {
    let rtt = rtt.map_or(0.0, |rtt| rtt.as_secs_f64());
    (2.0 * rtt).clamp(0.2, 2.0)
}

/// A lane's views in these intervals, with the seconds that the lane lived in each.
fn history<'a>(
    lane: u32,
    intervals: impl IntoIterator<Item = &'a Interval>,
) -> impl Iterator<Item = (&'a SenderInterval, f64)> {
    intervals.into_iter().filter_map(move |interval| {
        let same = interval.lanes.iter().find(|other| other.lane == lane)?;
        Some((same.sender.value()?, active(same, interval)))
    })
}

/// Judges each connection that is seen from its sender and convicts when those convicted carry half of the
/// bytes or more.
///
/// A connection weighs what it delivered, has in flight and has yet to send, over the last round trips: idle
/// ones beside it have no say, one that is stalled with work to do has.
pub(crate) fn by_flow(
    interval: &Interval,
    context: &Context<'_>,
    judge: impl Fn(&Flow<'_>) -> Judgement,
) -> Judgement {
    let (mut all, mut held, mut strength) = (0.0, 0.0, 0.0);
    let (mut flows, mut convicted) = (0, 0);
    let mut heaviest: [Option<(f64, String)>; 3] = [None, None, None];
    for flow in heaviest_flows(interval, context) {
        let weight = weight(&flow.seen);
        all += weight;
        flows += 1;
        let (kind, text) = match judge(&flow) {
            Judgement::Convict { strength: sure, evidence } => {
                held += weight;
                strength += weight * sure;
                convicted += 1;
                (0, evidence)
            }
            Judgement::Acquit { evidence } => (1, evidence),
            Judgement::Unknown { missing } => (2, missing),
        };
        let heavier = heaviest[kind].as_ref().is_none_or(|(most, _)| weight > *most);
        if heavier {
            heaviest[kind] = Some((weight, text));
        }
    }
    let [guilty, innocent, unknown] = heaviest.map(|text| text.map(|(_, text)| text));
    match (guilty, innocent, unknown) {
        (Some(text), ..) if held >= 0.5 * all => {
            let of = if flows > 1 {
                format!("{convicted} of {flows} connections, the largest: ")
            } else {
                String::new()
            };
            Judgement::convict(strength / held, of + &text)
        }
        (_, Some(text), None) => Judgement::acquit(text),
        (_, _, Some(missing)) => Judgement::unknown(missing),
        _ => Judgement::acquit("few connections show it"),
    }
}

fn weight(seen: &SenderInterval) -> f64 {
    seen.acked as f64 + seen.in_flight as f64 + seen.unsent as f64 + 1.0
}

/// The connections with the most to say. Sixteen carry most of what a process moves, and bound the cost of
/// thousands.
fn heaviest_flows<'a>(interval: &'a Interval, context: &'a Context<'a>) -> Vec<Flow<'a>> {
    const MOST: usize = 16;
    // Of a lane without a socket there is nothing to be said of a connection.
    let seen = |lane: &'a LaneInterval| lane.sender.value().filter(|seen| seen.looks > 0);
    let mut lanes: Vec<(&LaneInterval, f64)> =
        working(interval).filter_map(|lane| Some((lane, weight(seen(lane)?)))).collect();
    lanes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.lane.cmp(&b.0.lane)));
    lanes.truncate(MOST);
    lanes.into_iter().filter_map(|(lane, _)| Flow::of(lane, interval, context)).collect()
}

/// Bytes below which an exchange is a small one: slow start reaches them in two round trips.
pub(crate) const SMALL: f64 = 4.0 * INITIAL_WINDOW as f64;
