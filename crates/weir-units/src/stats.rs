//! What many figures say together: one definition each of the middle, of quantiles and of the deviation.
//!
//! A quantile here is always a figure that was measured; none is made up between two neighbours. Where the
//! rank falls between two, [`low`] takes the lower and [`high`] the upper one, so that `low(of, 1, 4)` and
//! `high(of, 1, 4)` lie equally far from their ends. Only [`median`] takes the mean of the two in the middle.
//!
//! Two programs whose lines weir prints count otherwise, and are followed there: ab's median
//! (`weir-report/load/ab.rs`) and wrk's percentiles (`weir-bench-http/script/spectrum.rs`).

/// The figures in ascending order. Those that are no number come last (`f64::total_cmp`).
pub fn sorted(of: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = of.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The figure that `part` of `whole` are below, counted from the least: rank ⌊(n - 1) x part / whole⌋ from 0.
/// `None` of none.
///
/// ```
/// use weir_units::stats::{high, low};
/// assert_eq!(low(&[1, 2, 3, 4], 1, 2), Some(2));
/// assert_eq!(high(&[1, 2, 3, 4], 1, 2), Some(3));
/// assert_eq!(high(&[1, 2, 3, 4, 5], 1, 100), Some(5));
/// ```
pub fn low<T: Copy>(ascending: &[T], part: usize, whole: usize) -> Option<T> {
    let last = ascending.len().checked_sub(1)?;
    Some(ascending[(last * part / whole).min(last)])
}

/// The figure that `part` of `whole` are above, counted from the greatest. `None` of none.
pub fn high<T: Copy>(ascending: &[T], part: usize, whole: usize) -> Option<T> {
    let last = ascending.len().checked_sub(1)?;
    Some(ascending[last - (last * part / whole).min(last)])
}

/// The figure in the middle, of an even number the mean of the two in the middle. `None` of none.
pub fn median(of: impl IntoIterator<Item = f64>) -> Option<f64> {
    let sorted = sorted(of);
    Some(f64::midpoint(low(&sorted, 1, 2)?, high(&sorted, 1, 2)?))
}

/// The root of the mean square of what lies between the figures and `mean`. `freedom` is what the squares'
/// sum is divided by: as many as there are for all of them, one less for a sample whose mean was taken from
/// it. 0 where that is none.
pub fn deviation(of: impl IntoIterator<Item = f64>, mean: f64, freedom: usize) -> f64 {
    let squares: f64 = of.into_iter().map(|figure| (figure - mean).powi(2)).sum();
    if freedom == 0 { 0.0 } else { (squares / freedom as f64).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_middle_of_odd_even_and_none() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([1.0, 2.0]), Some(1.5));
        assert_eq!(median([]), None);
        assert_eq!(low(&[1, 2, 3, 4, 5, 6], 1, 4), Some(2));
        assert_eq!(high(&[1, 2, 3, 4, 5, 6], 1, 4), Some(5));
        assert_eq!((low::<u8>(&[], 1, 2), high::<u8>(&[], 1, 2)), (None, None));
        assert_eq!((low(&[1, 2], 9, 2), high(&[1, 2], 9, 2)), (Some(2), Some(1)));
    }

    #[test]
    fn the_deviation_of_a_sample_and_of_all() {
        let of = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(deviation(of, 5.0, 8), 2.0);
        assert!((deviation(of, 5.0, 7) - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(deviation([1.0], 1.0, 0), 0.0);
    }

    proptest! {
        #[test]
        fn no_more_than_the_part_is_beyond(of in proptest::collection::vec(0_u32..50, 1..200), part in 0_usize..=100) {
            let mut of = of;
            of.sort_unstable();
            let (low, high) = (low(&of, part, 100).unwrap(), high(&of, part, 100).unwrap());
            prop_assert!(of.iter().filter(|one| **one < low).count() * 100 <= of.len() * part);
            prop_assert!(of.iter().filter(|one| **one > high).count() * 100 <= of.len() * part);
        }
    }
}
