//! All connections of a capture, within bounds: so many open, so many that are over, so many slices of time
//! in all.
//!
//! A capture is read once, so which connections carry most is known at its end only. Until then each is
//! followed; when a bound is reached the smallest give way, and slices become longer. Bytes of those that
//! gave way still count.
#![allow(
    clippy::vec_box,
    reason = "connections are sorted and moved between lists, and have more than a kilobyte each"
)]

use std::collections::HashMap;

use crate::flow::{Flow, index};
use crate::link::{Key, Segment};

/// Nanoseconds of a slice to begin with; eight of them are the 100 ms by which a live watch judges.
pub(crate) const SPAN: u64 = 12_500_000;

/// Slices of an interval of the evidence, before they become longer.
pub(crate) const SLICES_EACH: u64 = 8;

/// Connections that are followed at a time: about 1.5 KB each, 3 KB with all that may be remembered of them.
const OPEN: usize = 16_384;

/// Connections that are over and kept, those that carried most.
const FINISHED: usize = 4096;

/// Slices of all connections: 400 bytes each.
const SLICES: usize = 150_000;

/// Connections whose slices are kept when there are too many of them for that.
const SLICED: usize = 256;

/// Slices of the capture's time: 13 minutes of the shortest.
const TIMES: u32 = 1 << 16;

/// A capture without any packet for longer says nothing of that time, or its clock was set: so much of it is
/// taken for time.
const LONGEST_GAP: u64 = 60_000_000_000;

/// A clock that goes back by more was set; less is the order in which interfaces deliver.
const BACKWARDS: u64 = 1_000_000_000;

/// What a capture's packets add up to.
#[derive(Debug)]
pub(crate) struct Table {
    /// Nanoseconds of a slice.
    pub(crate) span: u64,
    open: HashMap<Key, usize>,
    flows: Vec<Option<Box<Flow>>>,
    free: Vec<usize>,
    /// The connection of the packet before, which the next one most likely belongs to.
    recent: Option<(Key, usize)>,
    finished: Vec<Box<Flow>>,
    /// New payload bytes of all connections, by slice.
    pub(crate) moved: Vec<u64>,
    slices: usize,
    /// Connections in all.
    pub(crate) connections: u64,
    /// Of these, how many gave way to larger ones, and what they carried.
    pub(crate) given_up: (u64, u64),
    clock: Clock,
}

/// The capture's time: from its first packet on, never back, and without silences that nobody can have waited
/// for.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last: Option<u64>,
    pub(crate) now: u64,
    /// Silences that were cut short, and times that the clock was set back.
    pub(crate) cut: u64,
}

impl Clock {
    fn tick(&mut self, at: u64) -> u64 {
        let last = *self.last.get_or_insert(at);
        if at >= last {
            let passed = at - last;
            self.cut += u64::from(passed > LONGEST_GAP);
            self.now = self.now.saturating_add(passed.min(LONGEST_GAP));
            self.last = Some(at);
        } else if last - at > BACKWARDS {
            self.cut += 1;
            self.last = Some(at);
        }
        self.now
    }
}

impl Table {
    pub(crate) fn new() -> Table {
        Table {
            span: SPAN,
            open: HashMap::new(),
            flows: Vec::new(),
            free: Vec::new(),
            recent: None,
            finished: Vec::new(),
            moved: Vec::new(),
            slices: 0,
            connections: 0,
            given_up: (0, 0),
            clock: Clock::default(),
        }
    }

    /// The time by the capture's clock, nanoseconds.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Time goes on, whatever the packet is.
    pub(crate) fn tick(&mut self, at: u64) -> u64 {
        let now = self.clock.tick(at);
        while index(now, self.span) >= TIMES {
            self.coarsen();
        }
        now
    }

    /// Takes in a segment.
    pub(crate) fn take(&mut self, segment: &Segment, now: u64) {
        let place = self.place(segment, now);
        let Some(flow) = self.flows.get_mut(place).and_then(Option::as_mut) else { return };
        let before = flow.slices.len();
        let fresh = flow.take(segment, now, self.span);
        self.slices += flow.slices.len() - before;
        if fresh > 0 {
            let index = index(now, self.span) as usize;
            if self.moved.len() <= index {
                self.moved.resize(index + 1, 0);
            }
            self.moved[index] = self.moved[index].saturating_add(fresh);
        }
        if self.slices > SLICES {
            self.shrink();
        }
    }

    /// Where the segment's connection lies.
    fn place(&mut self, segment: &Segment, now: u64) -> usize {
        let known = match self.recent {
            Some((key, place)) if key == segment.key => Some(place),
            _ => self.open.get(&segment.key).copied(),
        };
        if let Some(place) = known {
            let another = self.flows[place].as_ref().is_some_and(|flow| flow.is_another(segment));
            if !another {
                self.recent = Some((segment.key, place));
                return place;
            }
            self.retire(place);
        }
        if self.open.len() >= OPEN {
            self.retire_oldest();
        }
        let number = u32::try_from(self.connections).unwrap_or(u32::MAX);
        self.connections += 1;
        let flow = Box::new(Flow::new(segment.key, number, now, self.span));
        let place = self.free.pop().unwrap_or(self.flows.len());
        match self.flows.get_mut(place) {
            Some(slot) => *slot = Some(flow),
            None => self.flows.push(Some(flow)),
        }
        self.open.insert(segment.key, place);
        self.recent = Some((segment.key, place));
        place
    }

    /// A connection is over.
    fn retire(&mut self, place: usize) {
        let Some(mut flow) = self.flows.get_mut(place).and_then(Option::take) else { return };
        self.open.remove(&flow.key);
        self.free.push(place);
        self.recent = None;
        let before = flow.slices.len();
        flow.retire();
        self.slices += flow.slices.len() - before;
        self.finished.push(flow);
        if self.finished.len() >= 2 * FINISHED {
            self.finished.sort_by_key(|flow| std::cmp::Reverse(flow.bytes()));
            for flow in self.finished.drain(FINISHED..) {
                self.slices -= flow.slices.len();
                self.given_up.0 += 1;
                self.given_up.1 = self.given_up.1.saturating_add(flow.bytes());
            }
        }
    }

    /// The quarter that has been silent longest, so that this is not done for each new one.
    fn retire_oldest(&mut self) {
        let mut silent: Vec<(u64, usize)> = (self.flows.iter().enumerate())
            .filter_map(|(place, flow)| flow.as_ref().map(|flow| (flow.last, place)))
            .collect();
        silent.sort_unstable();
        silent.truncate(OPEN / 4);
        for (_, place) in silent {
            self.retire(place);
        }
    }

    /// Too many slices: longer ones, up to the interval of the evidence; then those of the smallest
    /// connections are given up; then longer ones again.
    fn shrink(&mut self) {
        let all = self.flows.iter().flatten().chain(&self.finished);
        let sliced = all.filter(|flow| !flow.slices.is_empty()).count();
        if self.span >= SPAN * SLICES_EACH && sliced > SLICED {
            self.shed();
        }
        while self.slices > SLICES / 2 {
            self.coarsen();
        }
    }

    fn shed(&mut self) {
        let mut flows: Vec<&mut Box<Flow>> =
            self.flows.iter_mut().flatten().chain(&mut self.finished).collect();
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes()));
        for flow in flows.into_iter().skip(SLICED) {
            self.slices -= flow.slices.len();
            flow.slices = Vec::new();
            flow.shed = true;
        }
    }

    fn coarsen(&mut self) {
        self.span = self.span.saturating_mul(2);
        for flow in self.flows.iter_mut().flatten().chain(&mut self.finished) {
            flow.coarsen();
        }
        let all = self.flows.iter().flatten().chain(&self.finished);
        self.slices = all.map(|flow| flow.slices.len()).sum();
        self.moved =
            self.moved.chunks(2).map(|pair| pair.iter().fold(0, |a: u64, b| a.saturating_add(*b))).collect();
    }

    /// All connections that are known at the end, those that carried most first.
    pub(crate) fn finish(&mut self) -> Vec<Box<Flow>> {
        for place in 0..self.flows.len() {
            let Some(flow) = self.flows.get_mut(place).and_then(Option::as_mut) else { continue };
            let before = flow.slices.len();
            flow.advance(self.clock.now, self.span);
            self.slices += flow.slices.len() - before;
            if self.slices > SLICES {
                self.shrink();
            }
        }
        let mut all: Vec<Box<Flow>> = self.flows.drain(..).flatten().collect();
        all.iter_mut().for_each(|flow| flow.retire());
        self.open.clear();
        all.append(&mut self.finished);
        all.sort_by(|a, b| b.bytes().cmp(&a.bytes()).then(a.number.cmp(&b.number)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_on_whatever_the_stamps_do() {
        let mut clock = Clock::default();
        let second = 1_000_000_000;
        assert_eq!(clock.tick(100 * second), 0);
        assert_eq!(clock.tick(101 * second), second);
        assert_eq!(clock.tick(101 * second - 5), second, "interfaces deliver out of order");
        assert_eq!(clock.tick(102 * second), 2 * second);
        assert_eq!(clock.tick(u64::MAX), 62 * second, "a clock that was set");
        assert_eq!(clock.tick(102 * second), 62 * second);
        assert_eq!(clock.tick(103 * second), 63 * second);
        assert_eq!(clock.cut, 2);
    }
}
