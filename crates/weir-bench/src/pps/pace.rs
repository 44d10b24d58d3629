//! Packets at a rate: how many next, and when. Pure: time is an argument.
//!
//! Not the schedule of [`weir_units::pacer`]: that adds up spans of whole nanoseconds, of which a packet at
//! ten million a second has a hundred; here they are multiplied. And who is late starts anew from now on,
//! since a burst is another load.

use std::time::Duration;

/// A batch is what falls due in so much time: a thousand wake-ups a second are no load, and bursts stay below
/// a millisecond's worth.
const BEAT: f64 = 0.001;

/// A sender that is further behind than this does not catch up: a burst at full speed is not the rate that
/// was asked for.
const SLACK: Duration = Duration::from_millis(10);

/// One thread's schedule.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Packets a second; `None`: as fast as it goes.
    rate: Option<f64>,
    /// Due at zero of the schedule's own clock.
    sent: u64,
    /// How far the schedule was moved back because the sender could not keep it.
    moved: Duration,
}

impl Pace {
    /// `rate` in packets a second; `None` for as fast as it goes.
    pub fn new(rate: Option<f64>) -> Pace {
        Pace { rate: rate.map(|rate| rate.max(1e-3)), sent: 0, moved: Duration::ZERO }
    }

    /// Packets of the next batch, `most` at most.
    pub fn batch(&self, most: usize) -> usize {
        match self.rate {
            None => most,
            Some(rate) => ((rate * BEAT) as usize).clamp(1, most.max(1)),
        }
    }

    /// How long to sleep before the next batch, `now` being the time since the start.
    pub fn wait(&mut self, now: Duration) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let due = Duration::try_from_secs_f64(self.sent as f64 / rate).unwrap_or(Duration::MAX);
        let due = due.saturating_add(self.moved);
        if now > due.saturating_add(SLACK) {
            self.moved = self.moved.saturating_add(now - due);
        }
        due.saturating_sub(now)
    }

    /// So many were sent.
    pub fn book(&mut self, packets: usize) {
        self.sent += packets as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packets sent within a second by a sender that needs `each` a packet.
    fn run(rate: f64, each: Duration, most: usize) -> u64 {
        let mut pace = Pace::new(Some(rate));
        let (mut now, mut sent) = (Duration::ZERO, 0);
        while now < Duration::from_secs(1) {
            now += pace.wait(now);
            if now >= Duration::from_secs(1) {
                break;
            }
            let batch = pace.batch(most);
            pace.book(batch);
            sent += batch as u64;
            now += each * batch as u32;
        }
        sent
    }

    #[test]
    fn no_rate_no_wait() {
        let mut pace = Pace::new(None);
        assert_eq!((pace.batch(64), pace.wait(Duration::from_secs(9))), (64, Duration::ZERO));
    }

    #[test]
    fn a_pause_is_not_caught_up_with() {
        let mut pace = Pace::new(Some(1000.0));
        assert_eq!(pace.wait(Duration::from_secs(1)), Duration::ZERO);
        pace.book(1);
        // The next one is due a thousandth after the late one, not at once.
        assert_eq!(pace.wait(Duration::from_secs(1)), Duration::from_millis(1));
    }

    proptest! {
        #[test]
        fn the_rate_is_kept_by_a_sender_that_can(rate in 10.0_f64..1e6, most in 1_usize..4096) {
            let sent = run(rate, Duration::from_nanos(100), most) as f64;
            let batch = (rate * BEAT).max(1.0);
            prop_assert!((sent - rate).abs() <= batch + 2.0, "{} of {}", sent, rate);
        }

        #[test]
        fn never_more_than_the_rate(rate in 10.0_f64..1e6, each in 1_u64..100_000) {
            let sent = run(rate, Duration::from_nanos(each), 64) as f64;
            prop_assert!(sent <= rate + (rate * BEAT).max(1.0) + 2.0, "{} of {}", sent, rate);
        }
    }
}
