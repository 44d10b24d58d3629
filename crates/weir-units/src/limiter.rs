//! `--limit-rate`: one schedule for all lanes of a run.

use std::time::{Duration, Instant};

use crate::Rate;
use crate::pacer::Pacer;
use parking_lot::Mutex;

/// Bytes are paid for after they came; a lane that is ahead of the schedule sleeps until it is due.
#[derive(Debug)]
pub struct Limiter(Mutex<Pacer>);

impl Limiter {
    /// One that passes `rate`.
    pub fn new(rate: Rate) -> Limiter {
        Limiter(Mutex::new(Pacer::new(rate)))
    }

    /// A piece that takes about 50 ms, so that the pace is even: bytes, from 1 KiB to 1 MiB.
    pub fn piece(&self) -> usize {
        (self.0.lock().rate().0 / 20.0).clamp(1024.0, 1048576.0) as usize
    }

    /// Books `bytes` that came at `now`; returns how long the caller shall sleep.
    pub fn book(&self, bytes: u64, now: Instant) -> Duration {
        let mut pacer = self.0.lock();
        pacer.book(bytes, now);
        pacer.wait(now)
    }
}
