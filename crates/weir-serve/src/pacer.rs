//! When may the next bytes leave under a rate limit? They are granted in slices on the schedule of
//! [`weir_units::pacer`], ahead of the write.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_units::Rate;
use weir_units::pacer::Pacer as Schedule;

/// One slice: short enough that the flow looks even to a receiver which samples it every 100 ms, long enough
/// that the timer (about 60 µs late) and the system call cost little.
const SLICE: Duration = Duration::from_millis(10);

/// The schedule that the streams of one connection share.
pub(crate) type SharedPacer = Option<Arc<Mutex<Pacer>>>;

/// The schedule of one connection.
#[derive(Debug)]
pub(crate) struct Pacer {
    schedule: Schedule,
    slice: u64,
}

impl Pacer {
    pub(crate) fn new(rate: Rate) -> Pacer {
        Pacer { schedule: Schedule::new(rate), slice: ((rate.0 * SLICE.as_secs_f64()) as u64).max(1) }
    }

    /// How many of `want` bytes may leave now, or how long to wait before asking again. What is granted must
    /// be sent.
    pub(crate) fn grant(&mut self, want: u64, now: Instant) -> Result<u64, Duration> {
        let early = self.schedule.wait(now);
        if !early.is_zero() {
            return Err(early);
        }
        let granted = want.min(self.slice);
        self.schedule.book(granted, now);
        Ok(granted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes granted over `span` by a driver that oversleeps each wait by `late`.
    fn granted_over(span: Duration, rate: f64, late: Duration) -> u64 {
        let start = Instant::now();
        let mut pacer = Pacer::new(Rate(rate));
        let (mut now, mut granted) = (start, 0);
        while now < start + span {
            match pacer.grant(u64::MAX, now) {
                Ok(bytes) => granted += bytes,
                Err(wait) => now += wait + late,
            }
        }
        granted
    }

    #[test]
    fn the_long_run_rate_is_within_one_percent_even_when_every_wake_up_is_late() {
        for rate in [1.0, 999.0, 100e3, 12.5e6, 3e9] {
            for late in [Duration::ZERO, Duration::from_micros(60), Duration::from_millis(30)] {
                let span = Duration::from_secs(if rate < 1e3 { 1000 } else { 30 });
                let measured = granted_over(span, rate, late) as f64 / span.as_secs_f64();
                assert!((measured / rate - 1.0).abs() < 0.01, "rate {rate} late {late:?}: {measured}");
            }
        }
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let start = Instant::now();
        let mut pacer = Pacer::new(Rate(1e6));
        assert_eq!(pacer.grant(1, start), Ok(1));
        let now = start + Duration::from_secs(60);
        let burst: u64 = std::iter::from_fn(|| pacer.grant(u64::MAX, now).ok()).sum();
        assert!(burst <= 110_001, "{burst} bytes at once");
    }
}
