//! How much does a rate move from one window to the next? What tells a link or policer from loss that strikes at random.

/// The most that a rate moves where a link or a policer hands out just one: 1 to 6 % were measured, and 9 % and more where
/// loss strikes at random, since each loss takes a third or half of the congestion window.
pub(crate) const STEADY: f64 = 0.07;

/// Fewer rates than this say little.
const LEAST: usize = 8;

/// The standard deviation of these rates as a share of their mean; `None` for fewer than eight, or for all zero.
pub(crate) fn unsteadiness(rates: &[f64]) -> Option<f64> {
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    if rates.len() < LEAST || !mean.is_finite() || mean <= 0.0 {
        return None;
    }
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
    Some(variance.sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_rate_does_not_move_and_a_sawtooth_does() {
        assert_eq!(unsteadiness(&[5.0; 8]), Some(0.0));
        let sawtooth: Vec<f64> = (0..16).map(|step| 5.0 + f64::from(step % 8)).collect();
        assert!(unsteadiness(&sawtooth).unwrap() > 2.0 * STEADY);
        assert_eq!(unsteadiness(&[5.0; 7]), None);
        assert_eq!(unsteadiness(&[0.0; 8]), None);
    }
}
