//! What the threads of a test's streams are told, and what they tell while they work.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use weir_observe::thread::Tid;

use crate::arrivals::Arrivals;
use crate::copies::Copies;

/// What all threads of a test share.
#[derive(Debug)]
pub(crate) struct Orders {
    /// When data may flow; times of the streams count from here.
    pub(crate) start: Instant,
    /// Bytes of one write or datagram.
    pub(crate) block: u32,
    /// Bits per second and stream; 0 for no limit.
    pub(crate) rate: u64,
    /// Blocks that may go at once in spite of it.
    pub(crate) burst: u32,
    /// Bytes left to send by all streams together; `None` without end.
    pub(crate) budget: Option<AtomicU64>,
    /// Datagrams are counted in 64 bits.
    pub(crate) wide: bool,
    pub(crate) copies: Copies,
    /// What TCP streams send, again and again. A block long.
    pub(crate) payload: Vec<u8>,
    /// Datagrams hold digits instead of random bytes.
    pub(crate) repeating: bool,
    /// The processor that the threads are bound to.
    pub(crate) affinity: Option<u32>,
    /// Datagrams may be bundled (GSO, GRO).
    pub(crate) bundles: bool,
    /// The peer closes its data connections when it has sent all.
    pub(crate) peer_closes: bool,
    pub(crate) phase: AtomicU8,
    /// What is sent does not count yet, so that the budget stays whole.
    pub(crate) omitting: AtomicBool,
}

/// Where a test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Data flow.
    Running,
    /// Nothing more is sent; what is on its way is taken in.
    Draining,
    /// Over.
    Over,
}

impl Orders {
    pub(crate) fn new(start: Instant, copies: Copies) -> Orders {
        Orders {
            start,
            block: 0,
            rate: 0,
            burst: 0,
            budget: None,
            wide: false,
            copies,
            payload: Vec::new(),
            repeating: false,
            affinity: None,
            bundles: true,
            peer_closes: false,
            phase: AtomicU8::new(Phase::Running as u8),
            omitting: AtomicBool::new(false),
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.phase.load(Relaxed) == Phase::Running as u8
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase.load(Relaxed) == Phase::Over as u8
    }

    /// Takes up to `most` bytes out of what is left to send.
    pub(crate) fn take(&self, most: u64) -> u64 {
        let Some(budget) = self.budget.as_ref().filter(|_| !self.omitting.load(Relaxed)) else { return most };
        let left = budget.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(most)));
        left.unwrap_or_else(|left| left).min(most)
    }

    /// Puts back what was taken and not sent.
    pub(crate) fn give_back(&self, bytes: u64) {
        if let Some(budget) = self.budget.as_ref().filter(|_| !self.omitting.load(Relaxed)) {
            budget.fetch_add(bytes, Relaxed);
        }
    }
}

/// What a stream's thread tells while it works.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Payload sent or received.
    pub(crate) bytes: AtomicU64,
    /// Datagrams sent.
    pub(crate) packets: AtomicU64,
    /// Asleep for our own limit, nanoseconds.
    asleep: AtomicU64,
    /// When the last byte moved, nanoseconds from the start.
    last: AtomicU64,
    pub(crate) tid: AtomicU32,
    pub(crate) ended: AtomicBool,
    arrivals: Mutex<Arrivals>,
    pub(crate) failure: Mutex<Option<io::Error>>,
}

impl Counts {
    pub(crate) fn moved(&self, bytes: u64, start: Instant) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.last.store(start.elapsed().as_nanos() as u64, Relaxed);
    }

    pub(crate) fn slept(&self, span: Duration) {
        self.asleep.fetch_add(span.as_nanos() as u64, Relaxed);
    }

    pub(crate) fn asleep(&self) -> Duration {
        Duration::from_nanos(self.asleep.load(Relaxed))
    }

    pub(crate) fn last(&self) -> Duration {
        Duration::from_nanos(self.last.load(Relaxed))
    }

    pub(crate) fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock()
    }

    pub(crate) fn tid(&self) -> Option<Tid> {
        Some(self.tid.load(Relaxed)).filter(|tid| *tid > 0).map(Tid)
    }

    /// Its thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Why it ended early, once.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.failure.lock().take()
    }
}

/// Random bytes, since a path may compress others; or iperf2's digits, for those who want to see that.
pub(crate) fn fill(bytes: &mut [u8], repeating: bool) {
    if repeating {
        bytes.iter_mut().zip((b'0'..=b'9').cycle()).for_each(|(byte, digit)| *byte = digit);
    } else {
        fastrand::Rng::new().fill(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_once() {
        let orders =
            Orders { budget: Some(AtomicU64::new(1000)), ..Orders::new(Instant::now(), Copies::default()) };
        assert_eq!((orders.take(600), orders.take(600), orders.take(600)), (600, 400, 0));
        orders.give_back(10);
        assert_eq!((orders.take(600), orders.take(1)), (10, 0));
        orders.omitting.store(true, Relaxed);
        assert_eq!(orders.take(600), 600);
        let endless = Orders::new(Instant::now(), Copies::default());
        assert_eq!(endless.take(7), 7);
    }
}
