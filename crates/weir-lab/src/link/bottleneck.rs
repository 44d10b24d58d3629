//! The place where packets wait for their turn: at a rate, at a trace's opportunities, or nowhere.

use crate::clock::Moment;
use crate::path::Direction;
use crate::trace::{OPPORTUNITY, Schedule};

use super::Packet;
use super::queue::WaitingQueue;
use super::span::{ByteTime, Fine};

/// A queue and what serves it.
#[derive(Debug)]
pub(super) struct Bottleneck<P> {
    pace: Pace,
    queue: WaitingQueue<P>,
    /// The packet on its way out.
    sending: Option<Sending<P>>,
}

#[derive(Debug)]
enum Pace {
    /// Nothing waits.
    Free,
    Rate(ByteTime),
    Trace {
        schedule: Schedule,
        /// The opportunity that comes next.
        next: u64,
        /// Bytes of the one before it that are left, while it is being used up.
        budget: u32,
    },
}

#[derive(Debug)]
struct Sending<P> {
    packet: P,
    /// At a rate: when its last byte is out.
    finish: Fine,
    /// In a trace: bytes still to go.
    left: u32,
}

/// What became of a packet that arrived.
pub(super) enum Entry<P> {
    /// It waits or is being sent.
    Kept,
    /// There is nothing to wait for.
    Passed(P),
    /// The queue is full.
    Full(P),
}

impl<P: Packet> Bottleneck<P> {
    pub(super) fn new(direction: &Direction, now: Moment) -> Bottleneck<P> {
        Bottleneck { pace: Pace::new(direction, now), queue: WaitingQueue::new(direction), sending: None }
    }

    /// What waits or is being sent goes on at the new pace.
    pub(super) fn configure(&mut self, direction: &Direction, now: Moment) {
        self.queue.configure(direction);
        let old = std::mem::replace(&mut self.pace, Pace::new(direction, now));
        if let Some(sending) = &mut self.sending {
            let now = Fine::at(now);
            sending.left = sending.packet.wire_bytes();
            sending.finish = match (&old, &self.pace) {
                (Pace::Rate(old), Pace::Rate(new)) => now.after(old.convert(sending.finish.minus(now), *new)),
                (_, Pace::Rate(new)) => now.after(new.times(u64::from(sending.left))),
                _ => now,
            };
        }
    }

    /// A packet arrives at `now`; [`emerge`](Bottleneck::emerge) must have been asked up to `now` before.
    pub(super) fn enter(&mut self, packet: P, now: Moment) -> Entry<P> {
        if matches!(self.pace, Pace::Free) && self.sending.is_none() {
            return Entry::Passed(packet);
        }
        if self.sending.is_some() {
            return match self.queue.push(packet, now) {
                Ok(()) => Entry::Kept,
                Err(packet) => Entry::Full(packet),
            };
        }
        if let Pace::Trace { schedule, next, budget } = &mut self.pace {
            // What nobody used is gone.
            (*next, *budget) = (schedule.first_after(now), 0);
        }
        self.send(packet, Fine::at(now));
        Entry::Kept
    }

    /// The next packet that is out by `now`, and since when.
    pub(super) fn emerge(&mut self, now: Moment, dropped: &mut Vec<P>) -> Option<(Moment, P)> {
        let exit = match &self.pace {
            Pace::Free | Pace::Rate(_) => {
                let finish = self.sending.as_ref()?.finish;
                (finish <= Fine::at(now)).then_some(finish)?
            }
            Pace::Trace { .. } => self.use_opportunities(now)?,
        };
        let packet = self.sending.take()?.packet;
        if let Some(next) = self.queue.pop(exit.moment(), dropped) {
            self.send(next, exit);
        }
        Some((exit.moment(), packet))
    }

    /// Nothing comes out before this instant.
    pub(super) fn next_exit(&self) -> Option<Moment> {
        let sending = self.sending.as_ref()?;
        Some(match &self.pace {
            Pace::Free | Pace::Rate(_) => sending.finish.moment(),
            Pace::Trace { schedule, next, budget } => {
                let more = u64::from(sending.left.saturating_sub(*budget)).div_ceil(u64::from(OPPORTUNITY));
                schedule.time((*next + more).saturating_sub(1))
            }
        })
    }

    pub(super) fn waiting_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// Waiting and being sent.
    pub(super) fn packets(&self) -> usize {
        self.queue.len() + usize::from(self.sending.is_some())
    }

    fn send(&mut self, packet: P, start: Fine) {
        let bytes = packet.wire_bytes();
        let finish = match &self.pace {
            Pace::Rate(byte) => start.after(byte.times(u64::from(bytes))),
            Pace::Free | Pace::Trace { .. } => start,
        };
        self.sending = Some(Sending { packet, finish, left: bytes });
    }

    /// Spends opportunities up to `now` on the packet being sent. Returns when its last byte was out.
    fn use_opportunities(&mut self, now: Moment) -> Option<Fine> {
        let (Pace::Trace { schedule, next, budget }, Some(sending)) = (&mut self.pace, &mut self.sending)
        else {
            return None;
        };
        loop {
            let part = sending.left.min(*budget);
            sending.left -= part;
            *budget -= part;
            if sending.left == 0 {
                // A budget above 0 was given by the opportunity before `next`.
                return Some(Fine::at(schedule.time(next.saturating_sub(1))));
            }
            if schedule.time(*next) > now {
                return None;
            }
            *next += 1;
            *budget = OPPORTUNITY;
        }
    }
}

impl Pace {
    fn new(direction: &Direction, now: Moment) -> Pace {
        match (&direction.trace, direction.rate) {
            (Some(trace), _) => {
                let schedule = trace.schedule(now);
                let next = schedule.first_after(now);
                Pace::Trace { schedule, next, budget: 0 }
            }
            (None, Some(rate)) => Pace::Rate(ByteTime::of(rate)),
            (None, None) => Pace::Free,
        }
    }
}
