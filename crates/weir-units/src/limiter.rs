//! `--limit-rate`: one schedule for all lanes of a run, whose rate may change meanwhile.

use std::time::{Duration, Instant};

use crate::Rate;
use crate::pacer::Pacer;
use parking_lot::Mutex;

/// How often whoever waits hears of a changed rate, or of a stop.
pub const HEARD: Duration = Duration::from_millis(50);

/// Bytes are paid for after they came; a lane that is ahead of the schedule sleeps until it is due.
#[derive(Debug)]
pub struct Limiter(Mutex<Option<Pacer>>);

impl Limiter {
    /// One that passes `rate`.
    pub fn new(rate: Rate) -> Limiter {
        Limiter::open(Some(rate))
    }

    /// One that passes `rate`, or everything until a rate is set.
    pub fn open(rate: Option<Rate>) -> Limiter {
        Limiter(Mutex::new(rate.map(Pacer::new)))
    }

    /// Passes `rate` from `now` on, or everything.
    pub fn set(&self, rate: Option<Rate>, now: Instant) {
        let mut held = self.0.lock();
        match (&mut *held, rate) {
            (Some(pacer), Some(rate)) => pacer.set_rate(rate, now),
            (pacer, rate) => *pacer = rate.map(Pacer::new),
        }
    }

    /// What it passes; `None`: everything.
    pub fn rate(&self) -> Option<Rate> {
        self.0.lock().as_ref().map(Pacer::rate)
    }

    /// How long after `now` all that was booked is due.
    pub fn wait(&self, now: Instant) -> Duration {
        self.0.lock().as_ref().map_or(Duration::ZERO, |pacer| pacer.wait(now))
    }

    /// Books `bytes` and has `sleep` wait until they are due, a short time at once, so that a changed rate is
    /// heard. Ends early, with false, where `sleep` answers so.
    pub fn hold(&self, bytes: u64, mut sleep: impl FnMut(Duration) -> bool) -> bool {
        let booked = Instant::now();
        let until = booked + self.book(bytes, booked);
        loop {
            let now = Instant::now();
            // Sooner, where the rate is higher by now.
            let left = until.saturating_duration_since(now).min(self.wait(now));
            if left.is_zero() {
                return true;
            }
            if !sleep(left.min(HEARD)) {
                return false;
            }
        }
    }

    /// A piece that takes about 50 ms, so that the pace is even: bytes, from 1 KiB to 1 MiB, and `most` at
    /// most; without a rate as many.
    pub fn piece(&self, most: usize) -> usize {
        let even = |rate: Rate| (rate.0 / 20.0).clamp(1024.0, 1048576.0) as usize;
        self.rate().map_or(most, |rate| even(rate).min(most))
    }

    /// Books `bytes` that came at `now`; returns how long the caller shall sleep.
    pub fn book(&self, bytes: u64, now: Instant) -> Duration {
        self.0.lock().as_mut().map_or(Duration::ZERO, |pacer| {
            pacer.book(bytes, now);
            pacer.wait(now)
        })
    }
}
