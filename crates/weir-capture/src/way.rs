//! The data of one end of a connection, segment by segment, and the acknowledgments that they get.
//!
//! Sequence numbers are unwrapped to 64 bits around the highest one seen. What is kept is bounded whatever is
//! sent: so many holes, so many segments whose acknowledgment is timed, so many acknowledgments on their way
//! to the sender.

use std::collections::VecDeque;

use crate::link::Segment;
use crate::slice::Half;

/// Where unwrapped numbers begin: far enough from 0 that nothing seen goes below it.
const BASE: u64 = 1 << 32;

/// A jump of more than this is no data in flight (the largest window is 1 GiB) but another connection, or a
/// lie.
const JUMP: u64 = 1 << 30;

/// The largest window without a scale.
const UNSCALED: u32 = 65_535;

/// Holes that are remembered: SACK senders fill them in order, and a receiver reports three at a time.
const HOLES: usize = 32;

/// Segments whose acknowledgment is timed: one in each few of a flight is enough for a mean.
const TIMED: usize = 64;

/// Timestamps whose echo is timed.
const ECHOES: usize = 32;

/// Acknowledgments on their way from the capture to the sender.
const UNDERWAY: usize = 256;

/// Fingerprints of the last segments, by which the same packet on a second interface is recognised where a
/// capture does not say on which interface each came.
const PRINTS: usize = 8;

/// A segment below the highest that comes within this of the hole's opening was overtaken, not sent again:
/// Wireshark's limit, for where no round trip is known.
const OVERTAKEN: u64 = 3_000_000;

/// Linux's smallest retransmission timeout is 200 ms (TCP_RTO_MIN), less what its timer wheel rounds.
const TIMEOUT: u64 = 190_000_000;

/// What a kernel needs to answer an acknowledgment with new data, its writer's wake-up included. What comes
/// later was not released by it.
const CLOCKED: u64 = 1_000_000;

/// What a segment was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// New data.
    Fresh,
    /// Sent again, after a timeout where it says so.
    Again {
        /// Nothing had come back for the time of a timeout.
        timeout: bool,
    },
    /// Nothing: no data, a probe, the same packet once more.
    Nothing,
}

/// One end's data.
#[derive(Debug, Default)]
pub(crate) struct Way {
    /// The sequence number that stands at [`BASE`].
    origin: Option<u32>,
    /// The end of the highest segment seen.
    pub(crate) max: u64,
    /// What is acknowledged, as far as the sender knows.
    pub(crate) acked: u64,
    /// The same as seen in the capture.
    heard: u64,
    /// Ranges below `max` that were not seen, with when that showed.
    holes: Vec<(u64, u64, u64)>,
    timed: VecDeque<(u64, u64)>,
    /// Timestamps of acknowledgments and when each was first seen: its echo comes with this end's data.
    echoes: VecDeque<(u32, u64)>,
    last_echo: Option<u32>,
    underway: VecDeque<Ack>,
    prints: [u64; PRINTS],
    next_print: usize,
    /// On which interface the highest segment was seen first.
    interface: u32,
    /// When something of this end was seen there last.
    last_met: u64,
    /// The peer's window scale; `None` where no SYN told it.
    pub(crate) scale: Option<u8>,
    /// The peer's window as the sender knows it.
    pub(crate) window: Option<u32>,
    /// The largest it ever was.
    best_window: u32,
    /// Bytes above the acknowledgment that the peer has.
    sacked: u32,
    /// Largest segment, payload bytes.
    pub(crate) mss: u32,
    mss_told: bool,
    /// The last new segment was shorter than the largest, so it took all there was to send.
    short: bool,
    /// The last new segment went up to the window's edge: acknowledgments make room that the next one fills.
    hit: bool,
    /// All that was out at the last retransmission; nothing above it means that this is repaired.
    recover: u64,
    last_sent: u64,
    last_advance: u64,
    /// How many of the last bursts an acknowledgment released, of 256.
    clocked: u16,
    /// Smoothed round trip, nanoseconds.
    pub(crate) srtt: Option<u64>,
    /// Bytes acknowledged that the capture does not hold.
    pub(crate) uncaptured: u64,
    now: Now,
}

/// An acknowledgment on its way.
#[derive(Debug, Clone, Copy)]
struct Ack {
    due: u64,
    to: u64,
    window: Option<u32>,
    sacked: u32,
}

/// What holds until the next packet.
#[derive(Debug, Clone, Copy, Default)]
struct Now {
    in_flight: f64,
    resting: bool,
    filled: bool,
    starved: bool,
    recovering: bool,
    unread: f64,
}

impl Way {
    /// The SYN of this end.
    pub(crate) fn open(&mut self, segment: &Segment) {
        let first = segment.seq.wrapping_add(1);
        if self.origin != Some(first) {
            let mss = self.mss;
            *self = Way { mss, mss_told: self.mss_told, scale: self.scale, ..Way::default() };
            self.interface = segment.interface;
            self.start(first);
        }
    }

    /// The answer to this end's SYN says where its data begin, also where the SYN itself was not seen.
    pub(crate) fn tell_first_acknowledged(&mut self, segment: &Segment) {
        if self.origin.is_none() {
            self.start(segment.ack);
        }
    }

    /// Gives back what only further packets would need.
    pub(crate) fn forget(&mut self) {
        self.holes = Vec::new();
        self.timed = VecDeque::new();
        self.echoes = VecDeque::new();
        self.underway = VecDeque::new();
    }

    fn start(&mut self, first: u32) {
        self.origin = Some(first);
        (self.max, self.acked, self.heard, self.recover) = (BASE, BASE, BASE, BASE);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.origin.is_some()
    }

    /// The largest segment as both SYNs allow it, options taken off.
    pub(crate) fn tell_mss(&mut self, mss: u32) {
        (self.mss, self.mss_told) = (mss, true);
    }

    /// Bytes that went out and are not acknowledged, as the sender knows it.
    pub(crate) fn outstanding(&self) -> u64 {
        self.max.saturating_sub(self.acked)
    }

    /// Whether all that was seen is acknowledged, as far as the capture tells.
    pub(crate) fn is_settled(&self) -> bool {
        self.heard >= self.max
    }

    /// Some of what was seen has no acknowledgment, though others were captured.
    pub(crate) fn lacks_acknowledgment(&self) -> bool {
        self.heard > BASE && !self.is_settled()
    }

    /// Whether the window is shut for another segment.
    pub(crate) fn is_shut(&self) -> bool {
        self.window.is_some_and(|window| u64::from(window) < self.outstanding() + u64::from(self.mss.max(1)))
    }

    /// Whether it was captured where this end's packets come first: a host that passes them on shows each
    /// once more, on the interface by which it leaves.
    pub(crate) fn is_first_met(&self, segment: &Segment) -> bool {
        segment.interface == self.interface
    }

    /// What comes later than its place by less than this was overtaken on the way.
    pub(crate) fn overtaking(&self) -> u64 {
        self.srtt.map_or(OVERTAKEN, |rtt| rtt / 2)
    }

    /// The least silence before something is sent again for want of an answer.
    fn timeout(&self) -> u64 {
        TIMEOUT.max(self.srtt.unwrap_or(0))
    }

    /// Whether it has data of this end above all that was seen.
    pub(crate) fn is_new(&self, segment: &Segment) -> bool {
        let start = self.unwrap(segment.seq).filter(|_| segment.payload > 0);
        start.is_some_and(|start| {
            start <= self.max + JUMP && start.saturating_add(segment.payload.into()) > self.max
        })
    }

    /// Whether the peer may take this end's reset: its number lies where data could (RFC 5961, section 3.2).
    pub(crate) fn may_reset(&self, segment: &Segment) -> bool {
        let ahead = self.scale.map_or(JUMP, |_| u64::from(self.best_window.max(UNSCALED)));
        let number = self.unwrap(segment.seq);
        number.is_none_or(|number| number <= self.max + ahead && number + JUMP >= self.max)
    }

    fn unwrap(&self, number: u32) -> Option<u64> {
        let origin = self.origin?;
        let here = origin.wrapping_add((self.max.wrapping_sub(BASE)) as u32);
        let distance = i64::from(number.wrapping_sub(here) as i32);
        self.max.checked_add_signed(distance)
    }

    /// Takes in a segment with data (or FIN) of this end.
    pub(crate) fn send(&mut self, segment: &Segment, now: u64, half: &mut Half) -> Kind {
        if self.origin.is_none() {
            self.start(segment.seq);
        }
        let length = u64::from(segment.payload);
        let Some(mut start) = self.unwrap(segment.seq) else { return Kind::Nothing };
        // A probe repeats the last byte, or has one that does not fit (RFC 9293, section 3.8.6.1).
        if length <= 1 && start + 1 == self.max {
            return Kind::Nothing;
        }
        if start > self.max + JUMP || start + JUMP < self.max {
            self.begin_anew(segment.seq);
            start = BASE;
        }
        let end = start + length + u64::from(segment.fin);
        // A bond moves to another link when one fails: what comes there is then no copy.
        let is_alive = now.saturating_sub(self.last_met) < self.timeout();
        if end <= self.max && !self.is_first_met(segment) && is_alive {
            return Kind::Nothing;
        }
        self.interface = segment.interface;
        self.last_met = now;
        let print = fingerprint(segment);
        if end <= self.max
            && self.prints.contains(&print)
            && now.saturating_sub(self.last_sent) < 10 * CLOCKED
        {
            return Kind::Nothing;
        }
        self.prints[self.next_print] = print;
        self.next_print = (self.next_print + 1) % PRINTS;
        if length > 0 {
            self.learn_mss(segment.payload);
        }
        let segments = segment.payload.div_ceil(self.mss.max(1)).max(1);
        half.sent += length;
        half.segments = half.segments.saturating_add(segments);
        half.marked = half.marked.saturating_add(u32::from(segment.marked));
        if self.holes.first().is_some_and(|hole| hole.0 < start) || start > self.max {
            half.disordered = half.disordered.saturating_add(segments);
        }
        let kind = match end > self.max {
            true => self.advance(start, end, now, half),
            false => self.fill(start, end, now, half),
        };
        // FIN takes a number and is no byte.
        if segment.fin && kind == Kind::Fresh && half.fresh > 0 {
            half.fresh -= 1;
        }
        if let Kind::Again { timeout } = kind {
            half.again_segments = half.again_segments.saturating_add(segments);
            half.timeouts += u32::from(timeout);
        }
        if kind != Kind::Nothing {
            self.last_sent = now;
        }
        self.settle();
        kind
    }

    /// Starts over, where the numbers of the same end jump.
    fn begin_anew(&mut self, number: u32) {
        *self = Way {
            mss: self.mss,
            mss_told: self.mss_told,
            scale: self.scale,
            window: self.window,
            ..Way::default()
        };
        self.start(number);
    }

    /// Data above all that was seen.
    fn advance(&mut self, start: u64, end: u64, now: u64, half: &mut Half) -> Kind {
        if start > self.max {
            if self.holes.len() >= HOLES {
                self.holes.remove(0);
            }
            self.holes.push((self.max, start, now));
        }
        half.fresh += end - start.max(self.max);
        half.again += self.max.saturating_sub(start);
        self.judge_burst(now);
        self.max = end;
        // A segment that ends at the window's edge is as long as the window let it be.
        let at_edge = self.window.is_some_and(|window| self.acked + u64::from(window) <= end);
        self.short = !(end - start).is_multiple_of(u64::from(self.mss.max(1))) && !at_edge;
        self.hit = self.fills();
        if self.timed.len() < TIMED {
            self.timed.push_back((end, now));
        }
        Kind::Fresh
    }

    /// Whether in flight fills the peer's window: nine tenths of it, or so much that two more segments do not
    /// fit, as a live watch has it.
    fn fills(&self) -> bool {
        let (outstanding, mss) = (self.outstanding(), u64::from(self.mss.max(1)));
        self.window.map(u64::from).is_some_and(|window| {
            let no_room = window.saturating_sub(outstanding) < 2 * mss && 2 * outstanding >= window;
            outstanding > 0 && (10 * outstanding >= 9 * window || no_room)
        })
    }

    /// Whether an acknowledgment released this segment: sent at once after one.
    fn judge_burst(&mut self, now: u64) {
        // Segments of one burst follow each other; only the first says what released it.
        if self.last_sent > self.last_advance && now.saturating_sub(self.last_sent) < CLOCKED {
            return;
        }
        // With nothing in flight nothing was held back: then it was the peer's question that released it, or
        // the program.
        let waited = self.outstanding() > 0 && self.last_advance > 0;
        let clocked = waited && now.saturating_sub(self.last_advance) <= CLOCKED;
        // A mean over about sixteen bursts.
        self.clocked = self.clocked - self.clocked / 16 + if clocked { 16 } else { 0 };
    }

    /// Data below the highest: what was lost before the capture, or is sent again.
    fn fill(&mut self, start: u64, end: u64, now: u64, half: &mut Half) -> Kind {
        let length = end - start;
        let mut filled = 0;
        let mut since = now;
        let mut index = 0;
        while index < self.holes.len() {
            let (from, to, at) = self.holes[index];
            let (low, high) = (from.max(start), to.min(end));
            if low >= high {
                index += 1;
                continue;
            }
            filled += high - low;
            since = since.min(at);
            self.holes.remove(index);
            for rest in [(from, low), (high, to)] {
                if rest.0 < rest.1 && self.holes.len() < HOLES {
                    self.holes.insert(index, (rest.0, rest.1, at));
                    index += 1;
                }
            }
        }
        half.fresh += filled;
        if filled == length && now.saturating_sub(since) < self.overtaking() {
            half.reordered = half.reordered.saturating_add(1);
            return Kind::Nothing;
        }
        half.again += length;
        self.recover = self.max;
        // Karn: an acknowledgment may now be of either.
        self.timed.clear();
        let silent = now.saturating_sub(self.last_sent.max(self.last_advance));
        Kind::Again { timeout: silent >= self.timeout() }
    }

    /// Without a SYN the largest segment is learnt: the largest that a path of 1500 bytes has; offload joins
    /// several to more than that, and which is a guess.
    fn learn_mss(&mut self, payload: u32) {
        if self.mss_told || payload <= self.mss {
            return;
        }
        const ETHERNET: u32 = 1460;
        if payload <= ETHERNET {
            self.mss = payload;
        } else if self.mss < 1200 {
            // With timestamps, as nearly all have them.
            self.mss =
                [1448, 1460, 1428, 1440].into_iter().find(|mss| payload.is_multiple_of(*mss)).unwrap_or(1448);
        }
    }

    /// Takes in an acknowledgment of this end's data. `distance`: from the capture to the sender and back, by
    /// which the sender learns of it later. Returns a sample of the time from the capture to the receiver and
    /// back.
    pub(crate) fn acknowledge(
        &mut self,
        segment: &Segment,
        now: u64,
        distance: u64,
        half: &mut Half,
    ) -> Option<u64> {
        let to = self.unwrap(segment.ack)?;
        if to > self.max {
            // An acknowledgment of what was never seen: the capture lost it.
            if to - self.max > JUMP {
                return None;
            }
            self.uncaptured += to - self.max;
            half.fresh += to - self.max;
            self.max = to;
            self.timed.clear();
        }
        let window = self.scale.map(|scale| u32::from(segment.window) << scale.min(14));
        if let Some(window) = window {
            half.see_window(window);
        }
        half.duplicates = half.duplicates.saturating_add(u32::from(segment.options.duplicate));
        self.holes.retain(|(_, end, _)| *end > to);
        let mut sample = None;
        while let Some((_, at)) = self.timed.front().copied().filter(|(end, _)| *end <= to) {
            sample = Some(now.saturating_sub(at));
            self.timed.pop_front();
        }
        self.heard = self.heard.max(to);
        let ack = Ack {
            due: now + distance,
            to,
            window,
            sacked: segment.options.sack.map_or(0, |(_, bytes)| bytes),
        };
        if let Some((stamp, _)) = segment.options.stamps
            && self.echoes.len() < ECHOES
            && self.echoes.back().is_none_or(|(last, _)| *last != stamp)
        {
            self.echoes.push_back((stamp, now));
        }
        if distance == 0 {
            self.hear(ack, now, half);
        } else {
            if self.underway.len() >= UNDERWAY
                && let Some(oldest) = self.underway.pop_front()
            {
                self.hear(oldest, now, half);
            }
            self.underway.push_back(ack);
        }
        sample
    }

    /// The time since an acknowledgment passed whose timestamp this segment is the first to echo.
    pub(crate) fn echo(&mut self, segment: &Segment, now: u64) -> Option<u64> {
        let (_, echo) = segment.options.stamps?;
        if self.last_echo == Some(echo) {
            return None;
        }
        self.last_echo = Some(echo);
        let mut sample = None;
        while let Some((stamp, at)) = self.echoes.front().copied() {
            if (stamp.wrapping_sub(echo) as i32) > 0 {
                break;
            }
            if stamp == echo {
                sample = Some(now.saturating_sub(at));
            }
            self.echoes.pop_front();
        }
        sample
    }

    /// When the next acknowledgment reaches the sender.
    pub(crate) fn due(&self) -> Option<u64> {
        self.underway.front().map(|ack| ack.due)
    }

    /// Acknowledgments that have reached the sender by now.
    pub(crate) fn deliver(&mut self, now: u64, half: &mut Half) {
        while let Some(ack) = self.underway.front().copied().filter(|ack| ack.due <= now) {
            self.underway.pop_front();
            self.hear(ack, now, half);
        }
    }

    /// The sender learns of an acknowledgment.
    fn hear(&mut self, ack: Ack, now: u64, half: &mut Half) {
        if ack.to > self.acked {
            half.acked += ack.to - self.acked;
            self.acked = ack.to;
            self.last_advance = now;
        }
        if let Some(window) = ack.window {
            self.window = Some(window);
            self.best_window = self.best_window.max(window);
        }
        self.sacked = ack.sacked;
        self.settle();
    }

    /// Works out what holds until the next packet.
    fn settle(&mut self) {
        let outstanding = self.outstanding();
        let mss = u64::from(self.mss.max(1));
        let window = self.window.map(u64::from);
        let shut = outstanding == 0
            && window.is_some_and(|window| window < mss && window < u64::from(self.best_window));
        // Between an acknowledgment and the segments that it releases there is room for a moment.
        let near = self.hit && window.is_some_and(|window| 4 * outstanding >= 3 * window);
        let filled = shut || near || self.fills();
        let resting = outstanding == 0 && !shut;
        self.now = Now {
            in_flight: outstanding.saturating_sub(u64::from(self.sacked).min(outstanding)) as f64,
            resting,
            filled,
            // What acknowledgments release again and again may be held by a buffer above or below: then it is
            // not known whether more waits.
            starved: resting || (self.short && !filled && self.clocked < 128),
            recovering: self.recover > self.acked,
            unread: if self.holes.is_empty() {
                f64::from(self.best_window.saturating_sub(self.window.unwrap_or(self.best_window)))
            } else {
                0.0
            },
        };
    }

    /// Time in which nothing happened. `last`: whether this end spoke last; `None` where nobody did.
    pub(crate) fn pass(&self, micros: u32, last: Option<bool>, half: &mut Half) {
        let now = &self.now;
        let time = f64::from(micros);
        half.in_flight += now.in_flight * time;
        half.in_flight_most = half.in_flight_most.max(now.in_flight as u32);
        let closed = !self.is_open();
        let counted = [
            (&mut half.asked, last == Some(false)),
            (&mut half.resting, now.resting || closed),
            (&mut half.awaiting, (now.resting || closed) && last == Some(true)),
            (&mut half.owing, (now.resting || closed) && last == Some(false)),
            (&mut half.starved, now.starved || closed),
            (&mut half.filled, now.filled),
            (&mut half.recovering, now.recovering),
            (&mut half.windowed, self.window.is_some()),
        ];
        for (sum, counts) in counted {
            *sum = sum.saturating_add(if counts { micros } else { 0 });
        }
        if let Some(window) = self.window {
            half.window += f64::from(window) * time;
            half.unread += now.unread * time;
            half.see_window(window);
        }
    }
}

fn fingerprint(segment: &Segment) -> u64 {
    let stamps = segment.options.stamps.map_or(0, |(own, _)| own);
    let mut print = u64::from(segment.seq) << 32 | u64::from(stamps);
    print ^= u64::from(segment.payload).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    print ^= u64::from(segment.id).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    print ^ u64::from(segment.ack).rotate_left(17)
}
