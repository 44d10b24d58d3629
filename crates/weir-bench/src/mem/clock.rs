//! How many cycles a second does this processor make just now?
//!
//! Counted by instructions that wait for one another and take a known number of cycles, since the time stamp
//! counter runs at another rate and the frequency that the kernel names is absent in most virtual machines.
//! Two kinds of them must agree, or the clock is not known: a processor may have learned to make one of them
//! faster.

use std::time::Instant;

use super::kernel;

/// Of a chain: some 15 us, long against reading the clock, short against a time slice.
const STEPS: usize = 50_000;

/// Chains of each kind; the fastest counts, the others were interrupted.
const TRIES: usize = 12;

/// The two kinds may differ by this share.
const AGREE: f64 = 0.05;

/// Cycles a second; `None` where it cannot be known.
pub fn measure() -> Option<f64> {
    let ones = fastest(kernel::count_cycles)?;
    let threes = fastest(kernel::count_threes)? * 3.0;
    agreed(ones, threes)
}

fn agreed(ones: f64, threes: f64) -> Option<f64> {
    let most = ones.max(threes);
    (ones.min(threes) >= most * (1.0 - AGREE)).then_some(most)
}

/// Steps a second.
fn fastest(chain: fn(usize) -> bool) -> Option<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..TRIES {
        let start = Instant::now();
        if !chain(STEPS) {
            return None;
        }
        least = least.min(start.elapsed().as_secs_f64());
    }
    Some(STEPS as f64 / least).filter(|rate| rate.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_two_chains_agree_on() {
        assert_eq!(agreed(3.70e9, 3.68e9), Some(3.70e9));
        assert_eq!(agreed(7.4e9, 3.7e9), None);
        if let Some(clock) = measure() {
            assert!((2e8..2e10).contains(&clock), "{clock}");
        }
    }
}
