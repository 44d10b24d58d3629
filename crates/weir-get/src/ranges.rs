//! Sets of byte ranges: sorted, disjoint, never touching.

use std::ops::Range;

/// Which bytes of an object are meant: sorted half-open ranges that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    ranges: Vec<Range<u64>>,
}

impl RangeSet {
    /// Adds `new`, joining it with what it overlaps or touches.
    pub fn insert(&mut self, new: Range<u64>) {
        if new.is_empty() {
            return;
        }
        let from = self.ranges.partition_point(|range| range.end < new.start);
        let to = self.ranges.partition_point(|range| range.start <= new.end);
        let start = self.ranges.get(from).map_or(new.start, |range| range.start.min(new.start));
        let end = if to > from { self.ranges[to - 1].end.max(new.end) } else { new.end };
        if from == to {
            self.ranges.insert(from, new);
        } else {
            self.ranges[from] = start.min(new.start)..end;
            self.ranges.drain(from + 1..to);
        }
    }

    /// Without the ranges of less than `least` bytes that have gaps on both sides, within `size`: to fetch
    /// such an island again costs less than to ask for what lies before it and for what lies behind.
    pub(crate) fn without_islands(&self, least: u64, size: u64) -> RangeSet {
        let is_island =
            |range: &Range<u64>| range.start > 0 && range.end < size && range.end - range.start < least;
        RangeSet { ranges: self.ranges.iter().filter(|range| !is_island(range)).cloned().collect() }
    }

    /// Bytes in the set.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// No byte is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The end of the run of bytes that starts at 0; 0 when byte 0 is not in the set.
    pub fn prefix(&self) -> u64 {
        self.ranges.first().filter(|range| range.start == 0).map_or(0, |range| range.end)
    }

    /// The ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().cloned()
    }

    /// Byte `at` is in the set.
    pub fn contains(&self, at: u64) -> bool {
        let next = self.ranges.partition_point(|range| range.end <= at);
        self.ranges.get(next).is_some_and(|range| range.start <= at)
    }

    /// The first range of bytes at or after `from` that is not in the set, bounded by `size`.
    pub fn gap_after(&self, from: u64, size: u64) -> Option<Range<u64>> {
        let mut start = from;
        for range in &self.ranges {
            if range.end <= start {
                continue;
            }
            if range.start > start {
                return (start < size).then(|| start..range.start.min(size));
            }
            start = range.end;
        }
        (start < size).then_some(start..size)
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> RangeSet {
        let mut set = RangeSet::default();
        ranges.into_iter().for_each(|range| set.insert(range));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gaps_grow_together_over_islands() {
        let set: RangeSet = [0..1, 5..6, 10..30, 40..41, 99..100].into_iter().collect();
        let kept: Vec<_> = set.without_islands(10, 100).iter().collect();
        assert_eq!(kept, [0..1, 10..30, 99..100]);
        assert_eq!(set.without_islands(1, 100), set);
    }

    proptest! {
        #[test]
        fn behaves_like_a_set_of_bytes(inserts in prop::collection::vec((0u64..60, 0u64..20), 0..20), from in 0u64..80) {
            let mut bytes = [false; 100];
            let mut set = RangeSet::default();
            for (start, len) in inserts {
                set.insert(start..start + len);
                bytes[start as usize..(start + len) as usize].fill(true);
            }
            prop_assert_eq!(set.len() as usize, bytes.iter().filter(|b| **b).count());
            for (at, is_in) in bytes.iter().enumerate() {
                prop_assert_eq!(set.contains(at as u64), *is_in);
            }
            prop_assert_eq!(set.prefix() as usize, bytes.iter().position(|b| !b).unwrap_or(100));
            let pairs: Vec<_> = set.iter().collect();
            prop_assert!(pairs.windows(2).all(|pair| pair[0].end < pair[1].start));
            let gap = set.gap_after(from, 100);
            let first = (from as usize..100).find(|at| !bytes[*at]);
            prop_assert_eq!(gap.as_ref().map(|gap| gap.start as usize), first);
            if let Some(gap) = gap {
                prop_assert!((gap.start..gap.end).all(|at| !bytes[at as usize]));
                prop_assert!(gap.end == 100 || bytes[gap.end as usize]);
            }
        }
    }
}
