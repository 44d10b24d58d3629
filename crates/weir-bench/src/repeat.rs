//! When has a measurement been repeated often enough, and what do its passes say together?
//!
//! The median of passes, because other programs only ever make a pass slower, and its spread (half of what
//! lies between the quartiles), because a figure without one cannot be compared with another.

use std::time::Duration;

use weir_units::Rate;
use weir_units::stats::{high, low};

/// Passes without which there is neither a middle nor a spread.
const FEWEST: usize = 3;

/// Passes before a spread of nothing is believed: three in a row may agree by accident.
const ENOUGH: usize = 10;

/// Passes after which another one cannot move the median by what matters.
const MOST: usize = 200;

/// A spread that ends the repeating: differences below 1 % change no choice of a codec.
const STEADY: f64 = 0.01;

/// How long to go on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// No pass begins after so much time, once there are enough for a spread.
    pub time: Duration,
    /// What one pass should last: long against the clock and a time slice, short against `time`.
    pub pass: Duration,
}

impl Limits {
    /// At most about this long for each figure, in about twenty passes.
    pub fn within(time: Duration) -> Limits {
        Limits { time, pass: time / 20 }
    }

    /// Whether another pass would tell more.
    pub(crate) fn want_more(&self, passes: &[Duration]) -> bool {
        if passes.len() < FEWEST {
            return true;
        }
        let spent: Duration = passes.iter().sum();
        let spread = Timing::of(passes).map_or(f64::INFINITY, |timing| timing.spread);
        passes.len() < MOST && spent < self.time && (spread > STEADY || passes.len() < ENOUGH)
    }
}

/// What the passes say together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// The pass in the middle.
    pub median: Duration,
    /// Half of what lies between the quartiles, over the median: 0.01 is 1 %.
    pub spread: f64,
    /// Passes.
    pub passes: usize,
}

impl Timing {
    /// `None` without passes.
    pub fn of(passes: &[Duration]) -> Option<Timing> {
        let mut sorted = passes.to_vec();
        sorted.sort_unstable();
        // The median of an even number is between its two middle ones.
        let median = (low(&sorted, 1, 2)? + high(&sorted, 1, 2)?) / 2;
        let between = high(&sorted, 1, 4)? - low(&sorted, 1, 4)?;
        let spread = between.as_secs_f64() / 2.0 / median.as_secs_f64().max(f64::MIN_POSITIVE);
        Some(Timing { median, spread, passes: sorted.len() })
    }
}

/// A rate, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// By the pass in the middle.
    pub rate: Rate,
    /// See [`Timing::spread`].
    pub spread: f64,
    /// Passes.
    pub passes: usize,
}

impl Speed {
    /// Of passes of so many bytes each.
    pub fn of(bytes: u64, timing: Timing) -> Speed {
        Speed { rate: Rate::of(bytes, timing.median), spread: timing.spread, passes: timing.passes }
    }

    /// As quick, times `factor`.
    pub fn times(self, factor: f64) -> Speed {
        Speed { rate: Rate(self.rate.0 * factor), ..self }
    }
}

/// Asked whether to go on, by any thread and at any time.
pub type GoOn<'a> = dyn Fn() -> bool + Sync + 'a;

/// Repeats a pass, whose own time is what it returns, after one whose time is thrown away: it touches memory
/// for the first time, and wakes the processor. `None` when `go_on` says no: the pass may have been cut short
/// by that.
pub fn repeat<E>(
    limits: &Limits,
    go_on: &GoOn<'_>,
    mut pass: impl FnMut() -> Result<Duration, E>,
) -> Result<Option<Timing>, E> {
    pass()?;
    let mut passes = Vec::new();
    while go_on() && limits.want_more(&passes) {
        passes.push(pass()?);
    }
    Ok(Timing::of(&passes).filter(|_| go_on()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use proptest::prelude::*;

    fn passes(of: &[u64]) -> Vec<Duration> {
        of.iter().map(|ms| Duration::from_millis(*ms)).collect()
    }

    #[test]
    fn median_and_spread() {
        let timing = Timing::of(&passes(&[100, 104, 96, 1000, 98])).unwrap();
        assert_eq!(timing.median, Duration::from_millis(100));
        assert!((timing.spread - 0.03).abs() < 1e-9, "{}", timing.spread);
        assert_eq!(Timing::of(&passes(&[100, 200])).unwrap().median, Duration::from_millis(150));
        assert_eq!(Timing::of(&[]), None);
    }

    #[test]
    fn steady_passes_end_it_early() {
        let limits = Limits::within(Duration::from_secs(10));
        assert!(limits.want_more(&passes(&[100; 9])));
        assert!(!limits.want_more(&passes(&[100; 10])));
        assert!(limits.want_more(&passes(&[100, 120, 90, 100, 130, 85, 100, 115, 95, 100, 120])));
    }

    #[test]
    fn time_ends_it_but_not_before_there_is_a_spread() {
        let limits = Limits::within(Duration::from_secs(1));
        assert!(limits.want_more(&passes(&[9000; 2])));
        assert!(!limits.want_more(&passes(&[9000, 7000, 5000])));
    }

    #[test]
    fn the_first_pass_is_thrown_away() {
        let mut times = [500, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100].into_iter();
        let limits = Limits::within(Duration::from_secs(1));
        let mut pass = || times.next().map(Duration::from_millis).ok_or("too many passes");
        let timing = repeat(&limits, &|| true, &mut pass).unwrap().unwrap();
        assert_eq!((timing.median, timing.spread), (Duration::from_millis(100), 0.0));
    }

    #[test]
    fn a_no_ends_it_without_a_figure() {
        let asked = AtomicUsize::new(0);
        let go_on = || asked.fetch_add(1, Relaxed) < 5;
        let mut made = 0;
        let pass = || {
            made += 1;
            Ok::<_, ()>(Duration::from_secs(made))
        };
        assert_eq!(repeat(&Limits::within(Duration::from_secs(600)), &go_on, pass), Ok(None));
        assert_eq!(made, 6);
    }

    proptest! {
        #[test]
        fn the_median_is_among_the_passes(of in proptest::collection::vec(1_u64..1_000_000, 1..100)) {
            let timing = Timing::of(&passes(&of)).unwrap();
            let median = timing.median;
            let [least, most] = [of.iter().min(), of.iter().max()].map(|of| Duration::from_millis(*of.unwrap()));
            prop_assert!((least..=most).contains(&median));
            prop_assert!(timing.spread >= 0.0);
        }
    }
}
