//! Packets that wait for the bottleneck.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::{Moment, nanos};
use crate::path::{Direction, Discipline, MTU, QueueLimit};

use super::Packet;

#[derive(Debug)]
pub(super) struct WaitingQueue<P> {
    packets: VecDeque<(Moment, P)>,
    bytes: u64,
    limit: QueueLimit,
    codel: Option<CoDel>,
}

impl<P: Packet> WaitingQueue<P> {
    pub(super) fn new(direction: &Direction) -> WaitingQueue<P> {
        WaitingQueue {
            packets: VecDeque::new(),
            bytes: 0,
            limit: limit_of(direction),
            codel: CoDel::new(direction.queue.discipline),
        }
    }

    /// What waits stays, also what exceeds a new limit.
    pub(super) fn configure(&mut self, direction: &Direction) {
        self.limit = limit_of(direction);
        match (&mut self.codel, CoDel::new(direction.queue.discipline)) {
            (Some(old), Some(new)) => (old.target, old.interval) = (new.target, new.interval),
            (old, new) => *old = new,
        }
    }

    /// Gives the packet back if the queue is full.
    pub(super) fn push(&mut self, packet: P, now: Moment) -> Result<(), P> {
        let bytes = u64::from(packet.wire_bytes());
        let full = match self.limit {
            QueueLimit::Bytes(limit) => self.bytes + bytes > limit.0,
            QueueLimit::Packets(limit) => self.packets.len() >= limit as usize,
            QueueLimit::Auto => false,
        };
        if full {
            return Err(packet);
        }
        self.bytes += bytes;
        self.packets.push_back((now, packet));
        Ok(())
    }

    /// The next packet to send at `now`; what CoDel drops on the way goes into `dropped`.
    pub(super) fn pop(&mut self, now: Moment, dropped: &mut Vec<P>) -> Option<P> {
        match self.codel.take() {
            None => self.take().map(|(_, packet)| packet),
            Some(mut codel) => {
                let packet = codel.pop(self, now, dropped);
                self.codel = Some(codel);
                packet
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    fn take(&mut self) -> Option<(Moment, P)> {
        let (arrived, packet) = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.wire_bytes());
        Some((arrived, packet))
    }
}

fn limit_of(direction: &Direction) -> QueueLimit {
    direction.queue.limit.resolve(direction.rate, direction.delay)
}

/// RFC 8289, with the names of its section 5.
#[derive(Debug)]
struct CoDel {
    target: Duration,
    interval: Duration,
    first_above: Option<Moment>,
    drop_next: Moment,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl CoDel {
    fn new(discipline: Discipline) -> Option<CoDel> {
        let Discipline::CoDel { target, interval } = discipline else { return None };
        Some(CoDel {
            target,
            interval,
            first_above: None,
            drop_next: Moment(0),
            count: 0,
            last_count: 0,
            dropping: false,
        })
    }

    /// Section 5.5: `deque`.
    fn pop<P: Packet>(
        &mut self,
        queue: &mut WaitingQueue<P>,
        now: Moment,
        dropped: &mut Vec<P>,
    ) -> Option<P> {
        let (mut packet, mut ok_to_drop) = self.look(queue, now);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                dropped.extend(packet.take());
                self.count += 1;
                (packet, ok_to_drop) = self.look(queue, now);
                if ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            dropped.extend(packet.take());
            (packet, _) = self.look(queue, now);
            self.begin_dropping(now);
        }
        packet
    }

    fn begin_dropping(&mut self, now: Moment) {
        self.dropping = true;
        // Soon after the last spell the rate that controlled the queue then is a better start than one drop.
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.since(self.drop_next) < 16 * self.interval;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.control_law(now);
        self.last_count = self.count;
    }

    /// Section 5.4: `dodeque`. The packet, and whether its wait has been above the target for an interval.
    fn look<P: Packet>(&mut self, queue: &mut WaitingQueue<P>, now: Moment) -> (Option<P>, bool) {
        let Some((arrived, packet)) = queue.take() else {
            self.first_above = None;
            return (None, false);
        };
        if now.since(arrived) < self.target || queue.bytes <= MTU as u64 {
            self.first_above = None;
            return (Some(packet), false);
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.interval);
                (Some(packet), false)
            }
            Some(first_above) => (Some(packet), now >= first_above),
        }
    }

    /// Section 5.3: the next drop comes sooner with the square root of the number of drops.
    fn control_law(&self, from: Moment) -> Moment {
        let step = nanos(self.interval) as f64 / f64::from(self.count.max(1)).sqrt();
        Moment(from.0 + step as u64)
    }
}
