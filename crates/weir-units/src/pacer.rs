//! When may the next bytes go under a rate? An absolute schedule: what is booked is due `bytes / rate` after
//! what was booked before it, whatever the clock says, so that a late wake-up is made good and the long-run
//! rate is exact. What lies further back than the slack is forgiven, so that a stall is not followed by a
//! burst.
//!
//! Pure: the caller brings the time. `get` and `cp` book what came (`--limit-rate`), `serve` grants slices
//! ahead. Three schedules are other ones for a reason, which each tells in its head: a rate on average since
//! the start, as iperf3 keeps it (`weir-bench-net/pace.rs`); packets, which no rounding may add up for
//! (`weir-bench/pps/pace.rs`); requests, each of which keeps the time it was planned for
//! (`weir-bench-http/schedule.rs`).

use std::time::{Duration, Instant};

use crate::Rate;

/// How far a schedule may lie behind: long against a late wake-up, short to whoever looks at a rate ten times
/// a second.
const SLACK: Duration = Duration::from_millis(100);

/// The schedule of one rate.
#[derive(Debug, Clone)]
pub struct Pacer {
    rate: Rate,
    /// When all that was booked will have been due; none before the first.
    due: Option<Instant>,
}

impl Pacer {
    /// Of this rate, of one byte a second at least. It begins with what is booked first.
    pub fn new(rate: Rate) -> Pacer {
        Pacer { rate: Rate(rate.0.max(1.0)), due: None }
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Passes another one from `now` on. What is owed then stays owed, and is due as the new one says.
    pub fn set_rate(&mut self, rate: Rate, now: Instant) {
        let Pacer { rate: old, due } = std::mem::replace(self, Pacer::new(rate));
        self.due = due.map(|due| now + due.saturating_duration_since(now).mul_f64(old.0 / self.rate.0));
    }

    /// How long after `now` all that was booked is due; zero where it is.
    pub fn wait(&self, now: Instant) -> Duration {
        self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now))
    }

    /// Books `bytes` at `now`.
    pub fn book(&mut self, bytes: u64, now: Instant) {
        let start = self.due.unwrap_or(now).max(now.checked_sub(SLACK).unwrap_or(now));
        let span = Duration::from_secs_f64(bytes as f64 / self.rate.0);
        self.due = Some(start + span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_run_rate_is_the_one_asked_for() {
        let mut pacer = Pacer::new(Rate(1e6));
        let start = Instant::now();
        let mut now = start;
        for late in (0..100).map(|turn| Duration::from_millis(turn % 40)) {
            pacer.book(50_000, now);
            now += pacer.wait(now) + late;
        }
        pacer.book(0, now);
        assert!(((now + pacer.wait(now)) - start).as_millis().abs_diff(5000) < 40);
    }

    #[test]
    fn another_rate_holds_for_what_is_owed_too() {
        let mut pacer = Pacer::new(Rate(1e6));
        let start = Instant::now();
        let mut now = start;
        for turn in 0..100 {
            if turn == 50 {
                pacer.set_rate(Rate(2e6), now);
            }
            pacer.book(50_000, now);
            now += pacer.wait(now);
        }
        assert!((now - start).as_millis().abs_diff(2500 + 1250) < 10);
        pacer.book(1_000_000, now);
        let half = now + Duration::from_millis(250);
        pacer.set_rate(Rate(1e6), half);
        assert_eq!(pacer.wait(half).as_millis().div_ceil(10), 50, "the other half of it");
        pacer.set_rate(Rate(4e6), half);
        assert_eq!(pacer.wait(half).as_millis().div_ceil(5), 25);
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let mut pacer = Pacer::new(Rate(1e6));
        let start = Instant::now();
        pacer.book(1000, start);
        let later = start + Duration::from_secs(10);
        assert_eq!(pacer.wait(later), Duration::ZERO);
        pacer.book(1_000_000, later);
        assert_eq!(pacer.wait(later).as_millis(), 900);
    }
}
