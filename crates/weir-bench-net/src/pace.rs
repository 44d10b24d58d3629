//! When may the next byte go? A rate on average since the start, as iperf3 keeps it: all that was missed is
//! caught up, which [`weir_units::pacer`] forgives. The two ends of a test, one of them iperf3's, have to
//! keep the same one.

use std::time::{Duration, Instant};

/// The most that a sender sleeps at a time, so that the end of a test finds it awake.
const NAP: Duration = Duration::from_millis(20);

/// A limit for one stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    start: Instant,
    /// Bytes per second.
    rate: f64,
}

impl Pace {
    /// Of so many bits per second, from `start` on; `None` for 0, which is no limit.
    pub(crate) fn of_bits(bits: u64, start: Instant) -> Option<Pace> {
        (bits > 0).then_some(Pace { start, rate: bits as f64 / 8.0 })
    }

    /// How long until a stream that has sent `sent` bytes may go on; zero when it may now.
    pub(crate) fn wait(&self, sent: u64, now: Instant) -> Duration {
        let due = Duration::try_from_secs_f64(sent as f64 / self.rate).unwrap_or(Duration::MAX);
        due.saturating_sub(now.saturating_duration_since(self.start))
    }

    /// Bytes that may go now.
    pub(crate) fn allowance(&self, sent: u64, now: Instant) -> u64 {
        let due = self.rate * now.saturating_duration_since(self.start).as_secs_f64();
        (due - sent as f64).max(0.0) as u64
    }
}

/// Sleeps for a part of `wait`; returns how long it took.
pub(crate) fn nap(wait: Duration) -> Duration {
    let before = Instant::now();
    std::thread::sleep(wait.min(NAP));
    before.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_waits_until_its_average_is_due() {
        let start = Instant::now();
        let pace = Pace::of_bits(8_000_000, start).unwrap();
        assert_eq!(pace.wait(0, start), Duration::ZERO);
        assert_eq!(pace.wait(500_000, start), Duration::from_millis(500));
        let later = start + Duration::from_secs(2);
        assert_eq!(pace.wait(500_000, later), Duration::ZERO);
        assert_eq!(pace.allowance(500_000, later), 1_500_000);
        assert_eq!(pace.allowance(3_000_000, later), 0);
        assert!(Pace::of_bits(0, start).is_none());
        assert!(Pace::of_bits(1, start).unwrap().wait(u64::MAX, later) > Duration::from_secs(1 << 40));
    }
}
