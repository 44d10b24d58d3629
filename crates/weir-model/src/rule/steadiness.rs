//! How much does a rate move from one interval to the next? What tells a link or policer from loss that
//! strikes at random.

use weir_units::stats::{low, sorted};

/// The most that a rate deviates where a link or a policer hands out just one: 1 to 3 % were measured where
/// its own loss was many times a second, and 7 % and more where loss strikes at random, since each loss takes
/// a third or half of the congestion window.
pub(crate) const STEADY: f64 = 0.05;

/// Fewer rates than this say little.
pub(crate) const LEAST: usize = 8;

/// The spread of these rates as a share of their median; `None` for fewer than eight, or for a median of
/// zero. Three quarters of the distance between the quartiles, which is the standard deviation where the
/// spread is Gaussian: one interval that held a stall, or the first of a transfer, does not count.
pub(crate) fn spread(rates: &[f64]) -> Option<f64> {
    let rates = sorted(rates.iter().copied().filter(|rate| rate.is_finite()));
    if rates.len() < LEAST {
        return None;
    }
    let quartile = |part| low(&rates, part, 4);
    let median = quartile(2).filter(|median| *median > 0.0)?;
    Some(0.75 * (quartile(3)? - quartile(1)?) / median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_rate_does_not_move_and_a_sawtooth_does() {
        assert_eq!(spread(&[5.0; 8]), Some(0.0));
        let sawtooth: Vec<f64> = (0..16).map(|step| 5.0 + f64::from(step % 8)).collect();
        assert!(spread(&sawtooth).unwrap() > 2.0 * STEADY);
    }

    #[test]
    fn few_rates_or_none_at_all_say_nothing() {
        assert_eq!(spread(&[5.0; 7]), None);
        assert_eq!(spread(&[0.0; 8]), None);
    }

    #[test]
    fn one_stall_is_no_spread() {
        let mut rates = [5.0; 12];
        rates[3] = 0.0;
        assert_eq!(spread(&rates), Some(0.0));
    }
}
