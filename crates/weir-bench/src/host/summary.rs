//! What do many round trips say together?

use std::time::Duration;

use weir_units::stats::low;

/// Round trips in five numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// How many.
    pub count: usize,
    /// The smallest.
    pub min: Duration,
    /// The middle one, the lower of two.
    pub median: Duration,
    /// 99 of 100 are at most this, by nearest rank: of fewer than 100 it is the largest.
    pub p99: Duration,
    /// The mean difference between one and the next, in the order in which they were taken (RFC 3550 section
    /// 6.4.1 without its smoothing). Not ping's `mdev`, which is a standard deviation.
    pub jitter: Duration,
}

impl Summary {
    /// Of round trips in the order in which they were taken; `None` without any.
    pub fn of(taken: &[Duration]) -> Option<Summary> {
        let mut sorted = taken.to_vec();
        sorted.sort_unstable();
        let min = *sorted.first()?;
        let steps: Duration = taken.windows(2).map(|pair| pair[0].abs_diff(pair[1])).sum();
        Some(Summary {
            count: sorted.len(),
            min,
            median: low(&sorted, 1, 2)?,
            p99: nearest_rank(&sorted, 99),
            jitter: steps / (sorted.len() as u32 - 1).max(1),
        })
    }
}

/// The smallest value that `percent` of 100 do not exceed, as histograms of latencies count (`bench http`):
/// the figures stand beside one another.
fn nearest_rank(sorted: &[Duration], percent: usize) -> Duration {
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(place).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn millis(of: &[u64]) -> Vec<Duration> {
        of.iter().map(|ms| Duration::from_millis(*ms)).collect()
    }

    #[test]
    fn five_numbers() {
        let summary = Summary::of(&millis(&[10, 14, 11, 40])).unwrap();
        assert_eq!((summary.count, summary.min, summary.median), (4, millis(&[10])[0], millis(&[11])[0]));
        assert_eq!(summary.p99, millis(&[40])[0]);
        assert_eq!(summary.jitter, Duration::from_millis(4 + 3 + 29) / 3);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&millis(&[7])).unwrap().jitter, Duration::ZERO);
    }

    proptest! {
        #[test]
        fn in_order_and_among_what_was_taken(of in proptest::collection::vec(0_u64..100_000, 1..500)) {
            let taken = millis(&of);
            let summary = Summary::of(&taken).unwrap();
            prop_assert!(summary.min <= summary.median && summary.median <= summary.p99);
            for value in [summary.min, summary.median, summary.p99] {
                prop_assert!(taken.contains(&value));
            }
            let above = taken.iter().filter(|one| **one > summary.p99).count();
            prop_assert!(above * 100 <= taken.len());
        }
    }
}
