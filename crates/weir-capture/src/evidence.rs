//! Slices of a connection's time as the model takes evidence: what a live watch would have read of the
//! sockets.
//!
//! At or near the sender, or between the ends, a connection is shown as its sender sees it: in flight, the
//! peer's window, round trips, repetitions. At the receiver it is shown as that sees it. Samples are
//! milliseconds here. What no packet tells stays missing: threads, processors, disks, buffers, the congestion
//! window and its algorithm.

use std::time::Duration;

use weir_model::evidence::{Clocks, Evidence, Facts, Interval, LaneInterval, Reading, TcpInterval};
use weir_model::sender::SenderInterval;
use weir_model::waits::{Ended, Stall, Waits};

use crate::flow::{Flow, Vantage};
use crate::slice::{Half, Slice};
use crate::stall::Cause;
use crate::table::SLICES_EACH;

/// Why a reading is missing that no capture has.
pub const NOT_VISIBLE: &str = "not visible in a capture";

/// Intervals of an evidence, at most: two and a half minutes of 100 ms; longer captures have longer ones. The
/// judge looks back from each at all those before it.
const INTERVALS: u64 = 1500;

/// Lanes of all intervals together, 1.3 KB each: sixteen of each of the most intervals.
const LANES: u64 = 24_000;

/// Lanes of one interval, those that carried most: the judge weighs sixteen.
const LANES_EACH: u64 = 64;

/// One way carries less than this part of the other: requests beside a download, or answers beside an upload.
const SMALL_PART: u64 = 10;

/// How slices become intervals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    /// Nanoseconds of a slice.
    pub(crate) span: u64,
    /// Slices of an interval.
    pub(crate) each: u64,
    /// Nanoseconds that the capture lasted.
    pub(crate) length: u64,
}

impl Grid {
    pub(crate) fn new(span: u64, length: u64) -> Grid {
        let wanted = (SLICES_EACH * crate::table::SPAN).div_ceil(span).max(1);
        let slices = length.div_ceil(span).max(1);
        Grid { span, each: wanted.max(slices.div_ceil(INTERVALS)), length }
    }

    fn intervals(&self) -> u64 {
        self.length.div_ceil(self.span * self.each).max(1)
    }

    fn interval_of(&self, slice: u32) -> u64 {
        u64::from(slice) / self.each
    }

    /// Where an interval begins and how long it is; the last ends with the capture.
    fn place(&self, interval: u64) -> (u64, u64) {
        let width = self.span * self.each;
        let from = interval * width;
        (from, width.min(self.length.saturating_sub(from)))
    }
}

/// The evidence of some connections together. `moved`: new bytes of all connections by slice, where these are
/// all.
pub(crate) fn of(flows: &[&Flow], grid: Grid, moved: Option<&[u64]>, facts: Facts) -> Evidence {
    let intervals = grid.intervals();
    let lanes_each = (LANES / intervals).clamp(1, LANES_EACH) as usize;
    let mut lanes: Vec<Vec<LaneInterval>> = vec![Vec::new(); intervals as usize];
    for flow in flows {
        for (interval, lane) in lanes_of(flow, grid) {
            let Some(room) = lanes.get_mut(interval as usize) else { continue };
            room.push(lane);
            if room.len() > 2 * lanes_each {
                keep_largest(room, lanes_each);
            }
        }
    }
    let intervals = lanes.into_iter().enumerate().map(|(interval, mut lanes)| {
        keep_largest(&mut lanes, lanes_each);
        lanes.sort_by_key(|lane| lane.lane);
        let (from, width) = grid.place(interval as u64);
        let of_lanes = lanes.iter().fold(0, |sum: u64, lane| sum.saturating_add(lane.received));
        let all = moved.map(|moved| {
            let first = (interval as u64 * grid.each) as usize;
            let part = moved.iter().skip(first).take(grid.each as usize);
            part.fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))
        });
        Interval {
            at: from as f64 / 1e9,
            span: Duration::from_nanos(width),
            // Requests are among the bytes of all; acknowledged bytes may be of an interval before.
            received: all.filter(|all| *all > 2 * of_lanes).unwrap_or(of_lanes),
            objects: lanes.iter().fold(0, |sum: u32, lane| sum.saturating_add(lane.objects)),
            lanes,
            cpu: Reading::Missing(NOT_VISIBLE.to_owned()),
            dirty: Reading::Missing(NOT_VISIBLE.to_owned()),
            disk: Reading::Missing(NOT_VISIBLE.to_owned()),
            ..Interval::default()
        }
    });
    Evidence {
        intervals: intervals.collect(),
        trials: Vec::new(),
        facts: Facts { clocks: Clocks::Sampled, ..facts },
    }
}

fn keep_largest(lanes: &mut Vec<LaneInterval>, most: usize) {
    if lanes.len() > most {
        lanes.sort_by_key(|lane| std::cmp::Reverse(lane.received));
        lanes.truncate(most);
    }
}

/// A connection's intervals.
fn lanes_of(flow: &Flow, grid: Grid) -> Vec<(u64, LaneInterval)> {
    let mut joined: Vec<(u64, Slice)> = Vec::new();
    for slice in &flow.slices {
        let interval = grid.interval_of(slice.index);
        match joined.last_mut().filter(|(last, _)| *last == interval) {
            Some((_, sum)) => sum.join(slice),
            None => joined.push((interval, slice.clone())),
        }
    }
    let mut teller = Teller::new(flow);
    let last = joined.len().saturating_sub(1);
    joined
        .iter()
        .enumerate()
        .map(|(place, (interval, slice))| {
            (*interval, teller.tell(slice, grid.place(*interval), place == last))
        })
        .collect()
}

/// Tells a connection's intervals one after another.
struct Teller<'a> {
    flow: &'a Flow,
    /// Bytes of each end so far.
    so_far: [u64; 2],
    /// Bytes of each end that were acknowledged, and segments sent for the first time, so far.
    acked: [u64; 2],
    segments: [u64; 2],
    requests: u64,
    best_window: u32,
    connected: bool,
}

impl<'a> Teller<'a> {
    fn new(flow: &'a Flow) -> Teller<'a> {
        Teller {
            flow,
            so_far: [0; 2],
            acked: [0; 2],
            segments: [0; 2],
            requests: 0,
            best_window: 0,
            connected: false,
        }
    }

    /// An interval that begins at a time and is so wide, nanoseconds.
    fn tell(&mut self, slice: &Slice, (from, width): (u64, u64), last: bool) -> LaneInterval {
        let sender = self.sender(slice);
        let vantage = self.flow.vantage(sender);
        let (half, other) = (&slice.halves[sender], &slice.halves[1 - sender]);
        let lived = Duration::from_micros(slice.lived.into());
        let mut lane = LaneInterval {
            lane: self.flow.number,
            received: half.fresh,
            idle: Duration::from_nanos(width).saturating_sub(lived),
            connecting: Duration::from_micros(slice.connecting.into()),
            thread: Reading::Missing(NOT_VISIBLE.to_owned()),
            tcp: Reading::Missing("the receiving end is the peer's".to_owned()),
            sender: Reading::Missing("the sending end is the peer's".to_owned()),
            ..LaneInterval::default()
        };
        if self.flow.client.is_some() && !self.connected {
            lane.connects = 1;
            self.connected = true;
        }
        for (end, half) in slice.halves.iter().enumerate() {
            self.acked[end] = self.acked[end].saturating_add(half.acked);
            self.segments[end] += u64::from(half.segments.saturating_sub(half.again_segments));
        }
        let own = if vantage == Vantage::Receiver { 1 - sender } else { sender };
        lane.waits = match vantage {
            Vantage::Unknown => Reading::Missing(NOT_VISIBLE.to_owned()),
            _ => Reading::Value(self.waits(slice, own, (from, width))),
        };
        match vantage {
            Vantage::Sender | Vantage::Middle => {
                lane.received = half.acked;
                lane.sender = Reading::Value(self.sending(half, other, slice, sender));
            }
            Vantage::Receiver => {
                self.count_requests(other, &mut lane, last);
                lane.tcp = Reading::Value(self.receiving(half, other, sender));
                let shut = shut(half, self.best_window);
                lane.first_byte = Duration::from_micros(half.asked.into()).min(lived);
                let rest = lived.saturating_sub(lane.first_byte).saturating_sub(lane.connecting);
                lane.socket_wait = rest.mul_f64(1.0 - shut);
            }
            Vantage::Unknown => {
                let why = "the capture has neither this connection's handshake nor its timestamps, which \
                           tell at which end it was made";
                lane.tcp = Reading::Missing(why.to_owned());
                lane.sender = Reading::Missing(why.to_owned());
            }
        }
        lane
    }

    /// The end whose data the interval shows: the one that sends in it if that is enough to tell, else the
    /// one that has sent more so far.
    fn sender(&mut self, slice: &Slice) -> usize {
        let now = [slice.halves[0].fresh, slice.halves[1].fresh];
        for (sum, more) in self.so_far.iter_mut().zip(now) {
            *sum = sum.saturating_add(more);
        }
        // As of a live connection: 64 KiB are more than requests and answers to them.
        let told = if now[0] + now[1] >= 64 << 10 { now } else { self.so_far };
        match (told[0], told[1]) {
            (a, b) if a / SMALL_PART > b => 0,
            (a, b) if b / SMALL_PART > a => 1,
            _ => self.flow.sender(),
        }
    }

    fn sending(&self, half: &Half, other: &Half, slice: &Slice, sender: usize) -> SenderInterval {
        let lived = slice.lived;
        let share = |part: u32| if lived > 0 { f64::from(part) / f64::from(lived) } else { 0.0 };
        // Milliseconds for samples, at least one of what lived at all.
        let looks = lived.div_ceil(1000);
        let looks_of = |part: u32| (share(part) * f64::from(looks)).round() as u32;
        let time = |micros: u32| Duration::from_micros(micros.into());
        let mean = |sum: f64, time: u32| if time > 0 { (sum / f64::from(time)) as u64 } else { 0 };
        SenderInterval {
            acked: half.acked,
            busy: time(lived.saturating_sub(half.resting)),
            receive_window_limited: time(half.filled),
            timeout: time(half.timeout),
            looks,
            app_limited: looks_of(half.starved),
            nothing_unsent: looks_of(half.starved),
            nothing_in_flight: looks_of(half.resting),
            window_filled: looks_of(half.filled),
            recovering: looks_of(half.recovering),
            owing: looks_of(half.owing),
            awaiting: looks_of(half.awaiting),
            asked: other.turns.into(),
            in_flight: mean(half.in_flight, lived),
            peer_window: half
                .windows
                .filter(|_| half.windowed > 0)
                .map(|(least, most, _)| (least.into(), mean(half.window, half.windowed), most.into())),
            segment: self.flow.mss(sender).into(),
            rtt: half.rtt.mean().map(Duration::from_micros),
            min_rtt: self.flow.least_round_trip().map(Duration::from_nanos),
            sent: half.sent,
            retransmitted: half.again,
            duplicates: half.duplicates.into(),
            reordered: half.reordered.into(),
            marked: half.marked.into(),
            ..SenderInterval::default()
        }
    }

    fn receiving(&mut self, half: &Half, _other: &Half, sender: usize) -> TcpInterval {
        if let Some((_, most, _)) = half.windows {
            self.best_window = self.best_window.max(most);
        }
        let down = self.flow.distance_to(1 - sender).unwrap_or(0);
        let known = half.windowed > 0;
        TcpInterval {
            receiver_rtt: half.up.mean().map(|up| Duration::from_micros(up) + Duration::from_nanos(down)),
            min_rtt: self.flow.least_round_trip().map(Duration::from_nanos),
            receive_window: half.windows.filter(|_| known).map(|(.., last)| last.into()),
            window_clamp: None,
            // Unread bytes take window away: what it lacks of its largest lies in the queue, and the kernel
            // gives about half of a buffer to payload.
            receive_queue: known.then(|| (half.unread / f64::from(half.windowed)) as u64),
            receive_buffer: known.then(|| 2 * u64::from(self.best_window)),
            out_of_order: half.disordered.into(),
            segments: half.segments.into(),
            resent: None,
            congestion_control: None,
        }
    }

    /// What the socket of one end waited for. What lies unsent in it is not visible.
    fn waits(&self, slice: &Slice, own: usize, (from, width): (u64, u64)) -> Waits {
        let (half, other) = (&slice.halves[own], &slice.halves[1 - own]);
        let (from, to) = (from as f64 / 1e9, (from + width) as f64 / 1e9);
        let mss = u64::from(self.flow.mss(own));
        let mut stalled = 0.0;
        let mut stalls = Vec::new();
        // Of a connection's first question: what was sent before this slice.
        let asks = self.flow.client == Some(own);
        let asked = if asks { self.so_far[own].saturating_sub(half.sent) } else { 0 };
        for stall in self.flow.stalls.kept() {
            let Some(ended) = ended(stall, own) else { continue };
            stalled += (stall.to.min(to) - stall.from.max(from)).max(0.0);
            if stall.to >= from && stall.to < to {
                let lasted = Duration::try_from_secs_f64(stall.to - stall.from).unwrap_or_default();
                stalls.push(Stall { lasted, ended, asked });
            }
        }
        let out = self.so_far[own].saturating_sub(self.acked[own]).div_ceil(mss.max(1));
        let looks = slice.lived.div_ceil(1000);
        Waits {
            looks,
            sent: half.sent,
            sent_segments: half.segments.into(),
            came: other.fresh,
            came_segments: other.segments.into(),
            retransmitted: half.again,
            retransmitted_segments: half.again_segments.into(),
            timeouts: half.timeouts.into(),
            timeout: Duration::from_micros(half.timeout.into()),
            segment: (mss, mss),
            acked_ever: self.acked[own],
            delivered_ever: self.segments[own].saturating_sub(out),
            stalled: ((stalled * 1000.0) as u32).min(looks),
            stalls,
            scaled: self.flow.scales(),
            in_flight_most: half.in_flight_most.into(),
            ..Waits::default()
        }
    }

    /// An object is over when the next is asked for, or the connection ends.
    fn count_requests(&mut self, other: &Half, lane: &mut LaneInterval, last: bool) {
        let over = |requests: u64, ended: bool| requests.saturating_sub(u64::from(!ended));
        let before = over(self.requests, false);
        self.requests += u64::from(other.turns);
        lane.requests = other.turns;
        lane.objects = u32::try_from(over(self.requests, last) - before).unwrap_or(u32::MAX);
    }
}

/// What ended a stall as one end sees it. That an end went on by itself, without anything from the other,
/// tells a program that waits for a timer from one that paces itself only with its thread, so it is left out.
fn ended(stall: &crate::stall::Stall, own: usize) -> Option<Ended> {
    let peer = stall.by != own;
    match stall.cause {
        Cause::Retransmission if peer => Some(Ended::Peer),
        Cause::Retransmission if stall.timer => Some(Ended::Timeout),
        Cause::Retransmission => Some(Ended::Retransmission),
        Cause::Acknowledgment | Cause::Window if peer => Some(Ended::Acknowledged),
        Cause::Answer | Cause::Request | Cause::Sender if peer => Some(Ended::Peer),
        _ => None,
    }
}

/// The share of an interval in which the receiver's window had lost half of its size or more: its data were
/// there.
fn shut(half: &Half, best: u32) -> f64 {
    if half.windowed == 0 || best == 0 {
        return 0.0;
    }
    let lost = half.unread / f64::from(half.windowed) / f64::from(best);
    if lost >= 0.5 { 1.0 } else { 0.0 }
}
