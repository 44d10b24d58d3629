//! One connection as its packets pass the capture: handshake, both ends' data, and what that was in each
//! slice of time.

use crate::link::{Key, Segment};
use crate::slice::Slice;
use crate::stall::{Cause, Stall, Stalls};
use crate::way::{Kind, Way};

/// A connection that is silent for longer is told by its absence, unless something is waited for.
const ABSENT: u64 = 30_000_000_000;

/// But no longer than this is anything waited for: a kernel gives up on what is not acknowledged after a
/// quarter of an hour (tcp_retries2, ip-sysctl.txt), and programs sooner.
const LONGEST_WAIT: u64 = 900_000_000_000;

/// Below this a distance is that of a host to itself: no acknowledgment is delayed for it.
const NEAR: u64 = 1_000_000;

/// What an end's SYN says.
#[derive(Debug, Clone, Copy, Default)]
struct Offer {
    mss: Option<u16>,
    scale: Option<u8>,
    stamps: bool,
}

/// Where on its path a connection was captured, seen from its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vantage {
    /// At the end that sends, or with both ends so near that it makes no difference.
    Sender,
    /// At the end that receives.
    Receiver,
    /// Between them.
    Middle,
    /// Neither a handshake nor timestamps tell.
    Unknown,
}

impl Vantage {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Vantage::Sender => "sender",
            Vantage::Receiver => "receiver",
            Vantage::Middle => "middle",
            Vantage::Unknown => "unknown",
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) key: Key,
    pub(crate) number: u32,
    pub(crate) born: u64,
    /// When its last packet came.
    pub(crate) last: u64,
    /// How far its slices are filled.
    at: u64,
    ways: [Way; 2],
    slice: Slice,
    pub(crate) slices: Vec<Slice>,
    offers: [Option<Offer>; 2],
    /// The options of a SYN were cut by the capture's snaplen.
    pub(crate) offer_cut: bool,
    pub(crate) client: Option<usize>,
    syn_at: u64,
    synack_at: Option<u64>,
    /// The handshake was seen whole.
    pub(crate) handshake: bool,
    /// SYNs beyond the first.
    pub(crate) syn_again: u32,
    /// From the capture to each end and back, the least seen, nanoseconds.
    distance: [Option<u64>; 2],
    speaker: Option<usize>,
    fins: [bool; 2],
    pub(crate) over: bool,
    /// Which end reset it, and when.
    reset_by: Option<(usize, u64)>,
    /// New payload bytes of each end.
    pub(crate) carried: [u64; 2],
    /// Payload bytes of each end that were sent again.
    pub(crate) again: [u64; 2],
    pub(crate) stalls: Stalls,
    /// Its slices were given up, since it is small among many.
    pub(crate) shed: bool,
}

impl Flow {
    pub(crate) fn new(key: Key, number: u32, now: u64, span: u64) -> Flow {
        Flow {
            key,
            number,
            born: now,
            last: now,
            at: now,
            ways: Default::default(),
            slice: Slice { index: index(now, span), ..Slice::default() },
            slices: Vec::new(),
            offers: [None; 2],
            offer_cut: false,
            client: None,
            syn_at: now,
            synack_at: None,
            handshake: false,
            syn_again: 0,
            distance: [None; 2],
            speaker: None,
            fins: [false; 2],
            over: false,
            reset_by: None,
            carried: [0; 2],
            again: [0; 2],
            stalls: Stalls::default(),
            shed: false,
        }
    }

    /// Payload bytes both ways.
    pub(crate) fn bytes(&self) -> u64 {
        self.carried[0].saturating_add(self.carried[1])
    }

    /// Whether this SYN begins another connection between the same ends.
    pub(crate) fn is_another(&self, segment: &Segment) -> bool {
        segment.syn
            && !segment.acks
            && (self.over || (self.ways[segment.from].is_open() && !self.opened_by(segment)))
    }

    fn opened_by(&self, segment: &Segment) -> bool {
        self.client == Some(segment.from) && !self.handshake
    }

    /// Takes in a segment; returns new payload bytes.
    pub(crate) fn take(&mut self, segment: &Segment, now: u64, span: u64) -> u64 {
        let (from, to) = (segment.from, 1 - segment.from);
        if segment.rst && !self.ways[from].may_reset(segment) {
            return 0;
        }
        let reset = self.reset_by.filter(|(end, _)| *end == from && self.ways[from].is_new(segment));
        // An end that sends on did not reset it: somebody else did, and the peer did not take that. But a
        // reset may overtake the last data of its own end.
        let overtaken = reset.is_some_and(|(_, at)| now - at < self.ways[from].overtaking());
        self.over &= reset.is_none();
        if self.over {
            return 0;
        }
        self.advance(now, span);
        let silent_since = self.last;
        self.last = now;
        if segment.syn {
            self.shake(segment, now);
            return 0;
        }
        if self.synack_at.is_some() && !self.handshake && self.client == Some(from) && segment.acks {
            self.handshake = true;
            let taken = now - self.synack_at.unwrap_or(now);
            self.near(from, taken);
        }
        let waited = now - silent_since;
        let stalled = waited > self.patience();
        let before = (self.ways[to].is_shut(), self.ways[from].is_shut(), self.ways[to].outstanding());
        // Before the answer to a SYN an acknowledgment can only be of an older connection.
        let unanswered = self.is_shaking() && self.synack_at.is_none();
        if segment.acks && !unanswered {
            self.hear(segment, now);
        }
        let mut kind = Kind::Nothing;
        let mut fresh = 0;
        if segment.payload > 0 || segment.fin {
            (kind, fresh) = self.speak(segment, now);
        }
        if stalled {
            self.note(segment, kind, before, (silent_since, now));
        }
        if kind != Kind::Nothing && segment.payload > 0 && self.speaker != Some(from) {
            self.slice.halves[from].turns += 1;
            self.speaker = Some(from);
        }
        self.fins[from] |= segment.fin;
        let closed = self.fins == [true; 2] && segment.acks && self.ways.iter().all(Way::is_settled);
        if segment.rst {
            self.reset_by = Some((from, now));
        }
        if segment.rst || closed {
            self.close();
        }
        self.over = segment.rst || closed || overtaken;
        fresh
    }

    /// A gap above this is a stall.
    fn patience(&self) -> u64 {
        let rtt = self.ways.iter().filter_map(|way| way.srtt).max().unwrap_or(100_000_000);
        (2 * rtt).min(rtt + 200_000_000).max(10_000_000)
    }

    fn shake(&mut self, segment: &Segment, now: u64) {
        let from = segment.from;
        let options = &segment.options;
        if segment.options_cut {
            self.offer_cut = true;
        } else {
            self.offers[from] =
                Some(Offer { mss: options.mss, scale: options.scale, stamps: options.stamps.is_some() });
        }
        self.ways[from].open(segment);
        if !segment.acks {
            self.syn_again += u32::from(self.client == Some(from) && self.ways[from].is_first_met(segment));
            self.client = Some(from);
            self.syn_at = now;
            return;
        }
        let client = 1 - from;
        if self.client == Some(client) && self.synack_at.is_none() {
            self.near(from, now - self.syn_at);
        }
        self.client = Some(client);
        // Which of two answers is acknowledged is not known: the time from the first is an upper bound.
        self.synack_at.get_or_insert(now);
        self.ways[client].tell_first_acknowledged(segment);
        self.agree(client);
    }

    /// What both SYNs settle: window scales, and the largest segment.
    fn agree(&mut self, client: usize) {
        let server = 1 - client;
        let Some(answer) = self.offers[server] else { return };
        let asked = self.offers[client];
        // A server answers with a scale only if it was offered one (RFC 7323, section 2.2).
        self.ways[client].scale = Some(answer.scale.unwrap_or(0));
        self.ways[server].scale = match (answer.scale, asked) {
            (None, _) => Some(0),
            (Some(_), Some(asked)) => asked.scale,
            (Some(_), None) => None,
        };
        // 536 is what an end takes that says nothing (RFC 9293, section 3.7.1).
        let told = |offer: Option<Offer>| offer.map_or(u32::MAX, |offer| u32::from(offer.mss.unwrap_or(536)));
        let smaller = told(asked).min(told(Some(answer)));
        let mss = if answer.stamps { smaller.saturating_sub(12) } else { smaller };
        for way in &mut self.ways {
            way.tell_mss(mss.max(1));
        }
    }

    /// A time from the capture to an end and back.
    fn near(&mut self, end: usize, taken: u64) {
        let least = self.distance[end].map_or(taken, |least| least.min(taken));
        self.distance[end] = Some(least);
    }

    /// How much later than the capture the sender of these data learns of an acknowledgment.
    fn delay(&self, way: usize) -> u64 {
        let up = self.distance[way].unwrap_or(0);
        let down = self.distance[1 - way].unwrap_or(0);
        // A tenth of the way is at the sender, see `vantage`.
        if up > NEAR && 10 * up > up + down { up } else { 0 }
    }

    /// The acknowledgment in a segment.
    fn hear(&mut self, segment: &Segment, now: u64) {
        let (from, to) = (segment.from, 1 - segment.from);
        let delay = self.delay(to);
        let half = &mut self.slice.halves[to];
        if let Some(sample) = self.ways[to].acknowledge(segment, now, delay, half) {
            self.near(from, sample);
            let whole = sample + self.distance[to].unwrap_or(0);
            let way = &mut self.ways[to];
            // RFC 6298: an eighth.
            way.srtt = Some(way.srtt.map_or(whole, |smooth| smooth - smooth / 8 + whole / 8));
            self.slice.halves[to].rtt.add(whole / 1000);
        }
    }

    /// The data in a segment.
    fn speak(&mut self, segment: &Segment, now: u64) -> (Kind, u64) {
        let from = segment.from;
        if let Some(sample) = self.ways[from].echo(segment, now) {
            self.near(from, sample);
            self.slice.halves[from].up.add(sample / 1000);
        }
        let half = &mut self.slice.halves[from];
        let (fresh, again) = (half.fresh, half.again);
        let kind = self.ways[from].send(segment, now, half);
        let (fresh, again) = (half.fresh.saturating_sub(fresh), half.again.saturating_sub(again));
        self.carried[from] = self.carried[from].saturating_add(fresh);
        self.again[from] = self.again[from].saturating_add(again);
        (kind, fresh)
    }

    /// What ended a stall.
    fn note(&mut self, segment: &Segment, kind: Kind, before: (bool, bool, u64), (since, now): (u64, u64)) {
        let (peer_was_shut, was_shut, peer_outstanding) = before;
        let has_data = segment.payload > 0;
        let cause = match kind {
            Kind::Again { timeout } => {
                if timeout {
                    let waited = u32::try_from((now - since) / 1000).unwrap_or(u32::MAX);
                    let half = &mut self.slice.halves[segment.from];
                    half.timeout = half.timeout.saturating_add(waited);
                }
                Cause::Retransmission
            }
            Kind::Fresh if has_data && was_shut => Cause::Window,
            Kind::Fresh if has_data && self.speaker == Some(1 - segment.from) => {
                // The client asks, the server answers.
                if self.client == Some(segment.from) { Cause::Request } else { Cause::Answer }
            }
            Kind::Fresh if has_data => Cause::Sender,
            _ if peer_was_shut && !self.ways[1 - segment.from].is_shut() => Cause::Window,
            _ if peer_outstanding > 0 => Cause::Acknowledgment,
            _ => return,
        };
        let timer = kind == Kind::Again { timeout: true };
        let (from, to) = (since as f64 / 1e9, now as f64 / 1e9);
        self.stalls.add(Stall { from, to, cause, by: segment.from, timer });
    }

    /// Time passes up to `now`.
    pub(crate) fn advance(&mut self, now: u64, span: u64) {
        if self.over || now <= self.at {
            return;
        }
        let told = match now - self.at > ABSENT {
            true if self.is_waited_for() => LONGEST_WAIT,
            true => ABSENT / 30,
            false => ABSENT,
        };
        self.walk(now.min(self.at.saturating_add(told)), span);
        if self.at < now {
            self.close();
            self.at = now;
            self.slice = Slice { index: index(now, span), ..Slice::default() };
        }
    }

    /// One end waits for the other: for its answer, an acknowledgment, or the handshake's.
    fn is_waited_for(&self) -> bool {
        let client = self.client.unwrap_or(1 - self.sender());
        let asked = self.speaker == Some(client) || self.is_shaking();
        !self.shed && (asked || self.ways.iter().any(Way::lacks_acknowledgment))
    }

    fn is_shaking(&self) -> bool {
        self.client.is_some() && !self.handshake && self.carried == [0; 2]
    }

    /// Time passes in slices.
    fn walk(&mut self, now: u64, span: u64) {
        while self.at < now {
            let boundary = (u64::from(self.slice.index) + 1).saturating_mul(span);
            let due = self.ways.iter().filter_map(Way::due).min().unwrap_or(u64::MAX);
            let to = now.min(boundary).min(due.max(self.at));
            self.pass(to);
            if to >= due {
                for (way, half) in self.ways.iter_mut().zip(&mut self.slice.halves) {
                    way.deliver(to, half);
                }
            }
            if to >= boundary {
                self.close();
                self.slice = Slice { index: index(to, span), ..Slice::default() };
            }
        }
    }

    fn pass(&mut self, to: u64) {
        let micros = u32::try_from(to / 1000 - self.at / 1000).unwrap_or(u32::MAX);
        self.at = to;
        if micros == 0 {
            return;
        }
        self.slice.lived = self.slice.lived.saturating_add(micros);
        let shaking = if self.is_shaking() { micros } else { 0 };
        self.slice.connecting = self.slice.connecting.saturating_add(shaking);
        for (end, (way, half)) in self.ways.iter().zip(&mut self.slice.halves).enumerate() {
            way.pass(micros, self.speaker.map(|speaker| speaker == end), half);
        }
    }

    /// The current slice is over.
    pub(crate) fn close(&mut self) {
        let slice = std::mem::take(&mut self.slice);
        let next = Slice { index: slice.index, ..Slice::default() };
        if !slice.is_empty() && !self.shed {
            self.slices.push(slice);
        }
        self.slice = next;
    }

    /// Slices become twice as long.
    pub(crate) fn coarsen(&mut self) {
        let mut joined: Vec<Slice> = Vec::with_capacity(self.slices.len() / 2 + 1);
        for mut slice in self.slices.drain(..) {
            slice.index /= 2;
            match joined.last_mut().filter(|last| last.index == slice.index) {
                Some(last) => last.join(&slice),
                None => joined.push(slice),
            }
        }
        self.slices = joined;
        self.slice.index /= 2;
    }

    /// Which end sends the data: the one that sent more.
    pub(crate) fn sender(&self) -> usize {
        usize::from(self.carried[1] > self.carried[0])
    }

    /// Where the data of this end were captured.
    pub(crate) fn vantage(&self, sender: usize) -> Vantage {
        let (up, down) = (self.distance[sender], self.distance[1 - sender]);
        match (up, down) {
            (Some(up), Some(down)) if up + down < NEAR / 2 => Vantage::Sender,
            // A quarter is left to what an end takes to answer.
            (Some(up), Some(down)) if 4 * up <= up + down => Vantage::Sender,
            (Some(up), Some(down)) if 4 * down <= up + down => Vantage::Receiver,
            (Some(_), Some(_)) => Vantage::Middle,
            // A kernel answers each second segment at once: where the fastest acknowledgment took longer, the
            // path was in between.
            (None, Some(down)) if down > 2 * NEAR => Vantage::Middle,
            _ => Vantage::Unknown,
        }
    }

    /// The round trip of the path, the least seen, nanoseconds.
    pub(crate) fn least_round_trip(&self) -> Option<u64> {
        match self.distance {
            [Some(a), Some(b)] => Some(a + b),
            [a, b] => a.or(b).filter(|least| *least > 2 * NEAR),
        }
    }

    /// The least time from the capture to an end and back.
    pub(crate) fn distance_to(&self, end: usize) -> Option<u64> {
        self.distance[end]
    }

    /// The largest segment of this end's data, payload bytes.
    pub(crate) fn mss(&self, way: usize) -> u32 {
        self.ways[way].mss
    }

    /// Whether the window in which this end's data went is known.
    pub(crate) fn knows_window(&self, way: usize) -> bool {
        self.ways[way].scale.is_some()
    }

    /// Whether both ends scale their windows, where the SYNs tell.
    pub(crate) fn scales(&self) -> Option<bool> {
        let server = 1 - self.client?;
        self.offers[server].map(|offer| offer.scale.is_some())
    }

    /// Bytes that were acknowledged and are not in the capture.
    pub(crate) fn uncaptured(&self) -> u64 {
        self.ways.iter().map(|way| way.uncaptured).sum()
    }

    /// Gives back what only further packets would need.
    pub(crate) fn retire(&mut self) {
        self.close();
        self.over = true;
        for way in &mut self.ways {
            way.forget();
        }
        self.slices.shrink_to_fit();
    }
}

/// Where a time lies.
pub(crate) fn index(at: u64, span: u64) -> u32 {
    u32::try_from(at / span.max(1)).unwrap_or(u32::MAX - 1)
}
