//! When is the next look due?
//!
//! Looks at equal distances meet a program that works in equal steps always in the same phase: of one that
//! writes for 2 ms every 20 ms they see all writes or none. So each period has one look, at a place within it
//! that moves on by the golden ratio (an additive recurrence, the sequence of one dimension that leaves the
//! smallest gaps): any ten looks are spread over the period nearly evenly, the mean distance is the period,
//! and two looks are never nearer than six tenths of it.

use std::time::{Duration, Instant};

/// Says when to look.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Where the period of the next look starts.
    period: Instant,
    turn: u32,
}

/// 2^32 divided by the golden ratio: adding it again and again visits the whole range evenly.
const GOLDEN: u32 = 2_654_435_769;

impl Pace {
    /// The first look is due at `start`.
    pub fn new(start: Instant) -> Pace {
        Pace { period: start, turn: 0 }
    }

    /// When the look after one that was over at `now` is due, one in each period of `every`. A look that took
    /// too long is not made up for: the periods begin anew.
    pub fn next(&mut self, every: Duration, now: Instant) -> Instant {
        self.turn = self.turn.wrapping_add(1);
        let place = every.mul_f64(f64::from(self.turn.wrapping_mul(GOLDEN)) / f64::from(u32::MAX));
        self.period += every;
        if self.period + place < now {
            self.period = now;
        }
        self.period + place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(20);

    /// The looks of a virtual run in which each look takes no time.
    fn looks(count: u32) -> Vec<Duration> {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let mut now = start;
        (0..count)
            .map(|_| {
                now = pace.next(PERIOD, now);
                now - start
            })
            .collect()
    }

    #[test]
    fn a_program_that_works_in_the_same_step_is_seen_at_its_share() {
        // 2 ms of work every so often, starting at any phase: the share of samples that meet it is its share
        // of the time.
        for step in [5, 10, 20, 40, 60] {
            for phase in 0..step {
                let works = |at: &&Duration| (at.as_micros() as u64 + phase * 1000) % (step * 1000) < 2000;
                let met = looks(600).iter().filter(works).count() as f64 / 600.0;
                let share = 2.0 / step as f64;
                assert!((met - share).abs() < 0.02, "step {step} ms, phase {phase}: {met:.3} of {share:.3}");
            }
        }
    }

    #[test]
    fn the_mean_distance_is_the_period_and_none_is_short() {
        let looks = looks(1000);
        let mean = (looks[999] - looks[0]) / 999;
        assert!(mean.abs_diff(PERIOD) < PERIOD / 500, "{mean:?}");
        for pair in looks.windows(2) {
            let distance = pair[1] - pair[0];
            assert!(distance > PERIOD.mul_f64(0.6) && distance < PERIOD.mul_f64(1.63), "{distance:?}");
        }
    }

    #[test]
    fn a_look_that_took_long_is_not_made_up_for() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let first = pace.next(PERIOD, start);
        let late = first + Duration::from_secs(5);
        let next = pace.next(PERIOD, late);
        assert!(next >= late && next <= late + PERIOD, "{:?}", next - start);
        assert!(pace.next(PERIOD, next) > next);
    }
}
