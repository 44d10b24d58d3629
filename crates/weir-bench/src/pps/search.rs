//! The highest rate without loss, as RFC 2544 section 26.1 looks for it: trials, each at a rate, halving what
//! lies between the highest that passed and the lowest that did not. Pure.

/// The search.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// Passed.
    low: f64,
    /// Did not pass; or the start, before it was tried.
    high: f64,
    resolution: f64,
    tried: bool,
}

impl Search {
    /// From `high` packets a second downwards, until what is not known is less than `resolution` of the
    /// answer.
    pub fn new(high: f64, resolution: f64) -> Search {
        Search { low: 0.0, high: high.max(1.0), resolution: resolution.clamp(1e-4, 0.5), tried: false }
    }

    /// The rate of the next trial, packets a second; `None` when the answer is known well enough.
    pub fn next(&self) -> Option<f64> {
        if !self.tried {
            return Some(self.high);
        }
        // Below one packet a second there is nothing to tell apart.
        let open = self.high - self.low;
        (open > self.resolution * self.high && open > 1.0).then(|| self.low + open / 2.0)
    }

    /// What came of a trial. `reached` is the rate that was really sent, which may be below the one asked
    /// for: a trial that passed at it says nothing about higher ones, and they need not be tried, since they
    /// cannot be sent.
    pub fn book(&mut self, asked: f64, reached: f64, passed: bool) {
        self.tried = true;
        if passed {
            self.low = self.low.max(reached.min(asked));
            if reached < asked * (1.0 - self.resolution) || asked >= self.high {
                self.high = self.low;
            }
        } else {
            self.high = self.high.min(asked);
        }
    }

    /// The highest rate that passed; `None` when none did.
    pub fn found(&self) -> Option<f64> {
        (self.low > 0.0).then_some(self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A path that carries `most`, and a sender that reaches `sends`.
    fn walk(start: f64, most: f64, sends: f64, resolution: f64) -> (Option<f64>, u32) {
        let mut search = Search::new(start, resolution);
        let mut trials = 0;
        while let Some(rate) = search.next() {
            let reached = rate.min(sends);
            search.book(rate, reached, reached <= most);
            trials += 1;
            assert!(trials < 60, "{search:?}");
        }
        (search.found(), trials)
    }

    #[test]
    fn a_path_that_carries_all_takes_one_trial() {
        assert_eq!(walk(1e6, 2e6, 1e7, 0.01), (Some(1e6), 1));
        assert_eq!(walk(1e6, 2e6, 4e5, 0.01), (Some(4e5), 1));
    }

    #[test]
    fn a_path_that_carries_nothing_ends_too() {
        assert_eq!(walk(1e6, 0.0, 1e7, 0.01).0, None);
    }

    proptest! {
        #[test]
        fn the_answer_is_within_the_resolution(most in 100.0_f64..5e6, start in 100.0_f64..1e7, resolution in 0.001_f64..0.2) {
            let (found, trials) = walk(start, most, 1e9, resolution);
            let (found, truth) = (found.unwrap_or(0.0), most.min(start));
            prop_assert!(found <= truth);
            prop_assert!(truth - found <= resolution * start.min(truth / (1.0 - resolution)) + 1.0, "{} of {}", found, truth);
            prop_assert!(trials <= 40);
        }

        #[test]
        fn noise_ends_too(answers in proptest::collection::vec(any::<bool>(), 0..60)) {
            let mut search = Search::new(1e6, 0.01);
            let mut answers = answers.into_iter();
            let mut trials = 0;
            while let Some(rate) = search.next() {
                search.book(rate, rate, answers.next().unwrap_or(false));
                trials += 1;
                prop_assert!(trials < 60);
            }
        }
    }
}
