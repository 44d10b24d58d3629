//! Timed passes, and what they say together.

use weir_units::stats::{low, sorted};

/// What many passes of one thing took.
///
/// Other programs, other machines and interrupts only ever make a pass slower, and here there are many short
/// passes: so the faster quartile stands for them, and what lies between it and the middle says how calm it
/// was.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Passes(Vec<f64>);

impl Passes {
    /// One more, in any unit; less is better.
    pub fn push(&mut self, pass: f64) {
        if pass.is_finite() && pass > 0.0 {
            self.0.push(pass);
        }
    }

    /// Those of another round.
    pub fn join(&mut self, more: Passes) {
        self.0.extend(more.0);
    }

    /// `None` without passes.
    pub fn timing(&self) -> Option<Timing> {
        let sorted = sorted(self.0.iter().copied());
        let value = low(&sorted, 1, 4)?;
        let spread = low(&sorted, 1, 2)? / value - 1.0;
        Some(Timing { value, best: sorted[0], spread, passes: sorted.len() })
    }
}

/// What passes say together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// The faster quartile.
    pub value: f64,
    /// The fastest one.
    pub best: f64,
    /// By how much the pass in the middle was slower: 0.01 is 1 %.
    pub spread: f64,
    /// Passes.
    pub passes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_quartile() {
        let mut passes = Passes::default();
        assert_eq!(passes.timing(), None);
        for pass in [10.0, 50.0, 12.0, 11.0, 900.0, f64::NAN, 0.0, f64::INFINITY] {
            passes.push(pass);
        }
        let timing = passes.timing().unwrap();
        assert_eq!((timing.value, timing.best, timing.passes), (11.0, 10.0, 5));
        assert!((timing.spread - 1.0 / 11.0).abs() < 1e-9);
        let mut more = Passes::default();
        more.push(1.0);
        passes.join(more);
        assert_eq!(passes.timing().unwrap().passes, 6);
    }
}
