//! One direction of an emulated link, pure: packets and the time go in, packets come out when they are due.
//!
//! A packet meets, in this order: [loss](loss), duplication, the [policer](policer), the
//! [bottleneck](bottleneck) (a queue and a rate or trace), the [delay line](delay_line). Time may be given
//! late: the link works out when things would have happened, so that the laws of rate and delay hold exactly
//! however seldom it is asked.

mod bottleneck;
mod delay_line;
mod loss;
mod policer;
mod queue;
mod span;

use fastrand::Rng;

use crate::clock::Moment;
use crate::path::{Direction, Share};

use bottleneck::Bottleneck;
use delay_line::DelayLine;
use loss::LossProcess;
use policer::Bucket;

/// What a link carries.
pub trait Packet {
    /// Bytes on the emulated wire, IP header included.
    fn wire_bytes(&self) -> u32;
    /// A second copy, for duplication.
    fn twin(&self) -> Self;
}

/// What a link did with its packets so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came in.
    pub packets_in: u64,
    /// Bytes that came in.
    pub bytes_in: u64,
    /// Packets that went out.
    pub packets_out: u64,
    /// Bytes that went out.
    pub bytes_out: u64,
    /// Packets lost by the loss model.
    pub lost: u64,
    /// Packets dropped by the policer.
    pub policed: u64,
    /// Packets that found the queue full.
    pub overflowed: u64,
    /// Packets that CoDel picked.
    pub codel_dropped: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets sent ahead of others.
    pub reordered: u64,
    /// Bytes waiting for the bottleneck now.
    pub queued_bytes: u64,
    /// Packets in the queue, at the bottleneck or under way now.
    pub under_way: u64,
}

impl Counters {
    /// Packets that will never come out.
    pub fn dropped(&self) -> u64 {
        self.lost + self.policed + self.overflowed + self.codel_dropped
    }
}

/// One direction.
#[derive(Debug)]
pub struct Link<P> {
    loss: LossProcess,
    duplicate: Share,
    copies: Rng,
    policer: Option<Bucket>,
    bottleneck: Bottleneck<P>,
    line: DelayLine<P>,
    counters: Counters,
    /// What was dropped, until [`take_spent`](Link::take_spent): its memory can be used again.
    spent: Vec<P>,
}

impl<P: Packet> Link<P> {
    /// A link that begins at `now`, which is when a trace's time 0 is. Everything random comes from `seed`.
    pub fn new(direction: &Direction, seed: u64, now: Moment) -> Link<P> {
        // Streams of their own: switching one impairment on does not change what another draws.
        let mut seeds = Rng::with_seed(seed);
        let mut stream = || seeds.fork();
        Link {
            loss: LossProcess::new(direction.loss, stream()),
            copies: stream(),
            line: DelayLine::new(direction, stream()),
            duplicate: direction.duplicate,
            policer: direction.policer.map(Bucket::new),
            bottleneck: Bottleneck::new(direction, now),
            counters: Counters::default(),
            spent: Vec::new(),
        }
    }

    /// Changes the link's nature. Packets under way keep their times; those in the queue meet the new rate.
    pub fn configure(&mut self, direction: &Direction, now: Moment) {
        self.advance(now);
        self.loss.configure(direction.loss);
        self.duplicate = direction.duplicate;
        self.policer = direction.policer.map(Bucket::new);
        self.bottleneck.configure(direction, now);
        self.line.configure(direction);
        self.advance(now);
    }

    /// A packet arrives.
    pub fn push(&mut self, packet: P, now: Moment) {
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(packet.wire_bytes());
        if self.loss.loses() {
            self.counters.lost += 1;
            return self.spent.push(packet);
        }
        if self.duplicate.0 > 0.0 && self.copies.f64() < self.duplicate.0 {
            self.counters.duplicated += 1;
            self.forward(packet.twin(), now);
        }
        self.forward(packet, now);
    }

    /// The next packet that is due at `now` or before, with the instant at which it was due.
    pub fn pop(&mut self, now: Moment) -> Option<(Moment, P)> {
        self.advance(now);
        let (due, packet) = self.line.pop(now)?;
        self.counters.packets_out += 1;
        self.counters.bytes_out += u64::from(packet.wire_bytes());
        Some((due, packet))
    }

    /// No packet is due before this instant; none at all if there is none.
    pub fn next_due(&self) -> Option<Moment> {
        let emerging = self.bottleneck.next_exit().map(|exit| exit + self.line.least_delay());
        [emerging, self.line.next_due()].into_iter().flatten().min()
    }

    /// A packet that was dropped.
    pub(crate) fn take_spent(&mut self) -> Option<P> {
        self.spent.pop()
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        Counters {
            reordered: self.line.reordered(),
            queued_bytes: self.bottleneck.waiting_bytes(),
            under_way: (self.bottleneck.packets() + self.line.packets()) as u64,
            ..self.counters
        }
    }

    fn forward(&mut self, packet: P, now: Moment) {
        if self.policer.as_mut().is_some_and(|bucket| !bucket.admits(packet.wire_bytes(), now)) {
            self.counters.policed += 1;
            return self.spent.push(packet);
        }
        self.advance(now);
        match self.bottleneck.enter(packet, now) {
            bottleneck::Entry::Kept => {}
            bottleneck::Entry::Passed(packet) => self.line.push(packet, now),
            bottleneck::Entry::Full(packet) => {
                self.counters.overflowed += 1;
                self.spent.push(packet);
            }
        }
    }

    /// Moves what left the bottleneck by `now` into the delay line.
    fn advance(&mut self, now: Moment) {
        let before = self.spent.len();
        while let Some((exit, packet)) = self.bottleneck.emerge(now, &mut self.spent) {
            self.line.push(packet, exit);
        }
        self.counters.codel_dropped += (self.spent.len() - before) as u64;
    }
}
