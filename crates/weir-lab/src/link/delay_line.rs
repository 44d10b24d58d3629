//! Packets under way: each comes out after its delay, in order unless it was picked to overtake.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use fastrand::Rng;

use crate::clock::{Moment, nanos};
use crate::path::{Direction, Reorder};

#[derive(Debug)]
pub(super) struct DelayLine<P> {
    delay: Duration,
    jitter: Duration,
    reorder: Option<Reorder>,
    rng: Rng,
    in_order: VecDeque<(Moment, P)>,
    last_due: Moment,
    /// Those that overtake. The number keeps equal times apart.
    early: BinaryHeap<Reverse<(Moment, u64, Early<P>)>>,
    reordered: u64,
}

impl<P> DelayLine<P> {
    pub(super) fn new(direction: &Direction, rng: Rng) -> DelayLine<P> {
        DelayLine {
            delay: direction.delay,
            jitter: direction.jitter,
            reorder: direction.reorder,
            rng,
            in_order: VecDeque::new(),
            last_due: Moment::default(),
            early: BinaryHeap::new(),
            reordered: 0,
        }
    }

    /// What is under way keeps its time; a shorter delay lets no packet overtake it.
    pub(super) fn configure(&mut self, direction: &Direction) {
        (self.delay, self.jitter, self.reorder) = (direction.delay, direction.jitter, direction.reorder);
    }

    pub(super) fn push(&mut self, packet: P, now: Moment) {
        let due = self.draw(now);
        if let Some(reorder) = self.reorder
            && self.rng.f64() < reorder.share.0
        {
            self.reordered += 1;
            let due = (due - reorder.early).max(now);
            return self.early.push(Reverse((due, self.reordered, Early(packet))));
        }
        self.last_due = self.last_due.max(due);
        self.in_order.push_back((self.last_due, packet));
    }

    pub(super) fn pop(&mut self, now: Moment) -> Option<(Moment, P)> {
        let due = self.next_due().filter(|due| *due <= now)?;
        if self.in_order.front().is_some_and(|(first, _)| *first == due) {
            return self.in_order.pop_front();
        }
        self.early.pop().map(|Reverse((due, _, Early(packet)))| (due, packet))
    }

    pub(super) fn next_due(&self) -> Option<Moment> {
        let in_order = self.in_order.front().map(|(due, _)| *due);
        let early = self.early.peek().map(|Reverse((due, ..))| *due);
        [in_order, early].into_iter().flatten().min()
    }

    /// No packet takes less.
    pub(super) fn least_delay(&self) -> Duration {
        let early = self.reorder.map_or(Duration::ZERO, |reorder| reorder.early);
        self.delay.saturating_sub(self.jitter).saturating_sub(early)
    }

    pub(super) fn packets(&self) -> usize {
        self.in_order.len() + self.early.len()
    }

    pub(super) fn reordered(&self) -> u64 {
        self.reordered
    }

    fn draw(&mut self, now: Moment) -> Moment {
        if self.jitter.is_zero() {
            return now + self.delay;
        }
        let spread = Duration::from_nanos(self.rng.u64(0..=2 * nanos(self.jitter)));
        now + (self.delay - self.jitter) + spread
    }
}

/// Keeps a packet out of comparisons: time and number decide.
#[derive(Debug)]
struct Early<P>(P);

impl<P> PartialEq for Early<P> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<P> Eq for Early<P> {}

impl<P> PartialOrd for Early<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Early<P> {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}
