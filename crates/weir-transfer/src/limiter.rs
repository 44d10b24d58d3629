//! `--limit-rate`: one token bucket for all lanes of a run.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_units::Rate;

/// Bytes are paid for after they came; a lane that is ahead of the schedule sleeps until it is due.
#[derive(Debug)]
pub struct Limiter {
    rate: f64,
    due: Mutex<Option<Instant>>,
}

/// How far the schedule may lie behind: what was not used in that time is lost, so that a stall is not followed by a burst.
const SLACK: Duration = Duration::from_millis(100);

impl Limiter {
    /// A bucket that passes `rate`.
    pub fn new(rate: Rate) -> Limiter {
        Limiter { rate: rate.0.max(1.0), due: Mutex::new(None) }
    }

    /// A piece that takes about 50 ms, so that the pace is even: bytes, from 1 KiB to 1 MiB.
    pub fn piece(&self) -> usize {
        (self.rate / 20.0).clamp(1024.0, 1048576.0) as usize
    }

    /// Books `bytes` that came at `now`; returns how long the caller shall sleep.
    pub fn book(&self, bytes: u64, now: Instant) -> Duration {
        let mut due = self.due.lock();
        let start = due.unwrap_or(now).max(now.checked_sub(SLACK).unwrap_or(now));
        let next = start + Duration::from_secs_f64(bytes as f64 / self.rate);
        *due = Some(next);
        next.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_run_rate_is_the_one_asked_for() {
        let limiter = Limiter::new(Rate(1e6));
        let start = Instant::now();
        let mut now = start;
        for _ in 0..100 {
            now += limiter.book(50_000, now);
        }
        assert_eq!((now - start).as_millis(), 5000);
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let limiter = Limiter::new(Rate(1e6));
        let start = Instant::now();
        limiter.book(1000, start);
        let later = start + Duration::from_secs(10);
        assert_eq!(limiter.book(1_000_000, later).as_millis(), 900);
    }
}
