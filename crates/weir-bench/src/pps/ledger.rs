//! Which numbers came, which are missing, which came twice? Pure, in bounded memory, and next to free for
//! packets in order.

use std::collections::VecDeque;
use std::ops::Range;

/// Gaps that are remembered. More at a time means that the path loses every few packets; the oldest are then
/// given up as lost, and what comes of them yet is counted as late.
const GAPS: usize = 1024;

/// One sending thread's packets, at the receiver.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// One more than the highest number that came.
    next: u64,
    /// Gaps below `next`, in order, none empty.
    gaps: VecDeque<Range<u64>>,
    /// Gaps below this were given up.
    settled: u64,
    counts: Counts,
}

/// What a ledger has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that came, each once.
    pub received: u64,
    /// Packets that had come before.
    pub duplicates: u64,
    /// Of the received ones, those that a later one had overtaken.
    pub reordered: u64,
    /// So late that nobody knows whether they had come before; not among the received ones.
    pub late: u64,
}

impl Counts {
    /// Both together.
    pub fn and(self, other: Counts) -> Counts {
        Counts {
            received: self.received + other.received,
            duplicates: self.duplicates + other.duplicates,
            reordered: self.reordered + other.reordered,
            late: self.late + other.late,
        }
    }
}

impl Ledger {
    /// A packet came.
    #[inline]
    pub fn book(&mut self, number: u64) {
        if number == self.next && number < u64::MAX {
            self.counts.received += 1;
            self.next += 1;
        } else {
            self.book_out_of_order(number);
        }
    }

    /// What came so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn book_out_of_order(&mut self, number: u64) {
        // There is none after it to wait for, and no sender gets so far.
        if number == u64::MAX {
            self.counts.late += 1;
            return;
        }
        if number > self.next {
            self.gaps.push_back(self.next..number);
            self.next = number + 1;
            self.counts.received += 1;
            self.trim();
            return;
        }
        let place = self.gaps.partition_point(|gap| gap.end <= number);
        match self.gaps.get(place).cloned() {
            Some(gap) if gap.contains(&number) => {
                self.counts.received += 1;
                self.counts.reordered += 1;
                self.fill(place, gap, number);
            }
            _ if number < self.settled => self.counts.late += 1,
            _ => self.counts.duplicates += 1,
        }
    }

    fn fill(&mut self, place: usize, gap: Range<u64>, number: u64) {
        let (before, after) = (gap.start..number, number + 1..gap.end);
        match (before.is_empty(), after.is_empty()) {
            (true, true) => drop(self.gaps.remove(place)),
            (true, false) => self.gaps[place] = after,
            (false, true) => self.gaps[place] = before,
            (false, false) => {
                self.gaps[place] = before;
                self.gaps.insert(place + 1, after);
                self.trim();
            }
        }
    }

    /// What the oldest gap lacks will not be waited for any longer where there are too many.
    fn trim(&mut self) {
        if self.gaps.len() > GAPS
            && let Some(oldest) = self.gaps.pop_front()
        {
            self.settled = oldest.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn booked(numbers: impl IntoIterator<Item = u64>) -> Counts {
        let mut ledger = Ledger::default();
        numbers.into_iter().for_each(|number| ledger.book(number));
        ledger.counts()
    }

    #[test]
    fn in_order_reordered_twice() {
        let counts = booked([0, 1, 4, 3, 3, 2, 0, 5]);
        assert_eq!(counts, Counts { received: 6, duplicates: 2, reordered: 2, late: 0 });
    }

    #[test]
    fn a_liar_cannot_make_it_grow_or_overflow() {
        let counts = booked([u64::MAX, u64::MAX, 0, u64::MAX - 1]);
        assert_eq!((counts.received, counts.late), (2, 2));
        let mut ledger = Ledger::default();
        (0..100_000).for_each(|number| ledger.book(number * 2 + 1));
        assert!(ledger.gaps.len() <= GAPS);
        ledger.book(0);
        assert_eq!(ledger.counts(), Counts { received: 100_000, late: 1, ..Counts::default() });
        // From above, each splits what lies before it.
        let mut ledger = Ledger::default();
        ledger.book(1 << 60);
        (1..100_000).for_each(|number| ledger.book((1 << 60) - 2 * number));
        assert!(ledger.gaps.len() <= GAPS);
    }

    proptest! {
        #[test]
        fn it_counts_as_a_set_does(numbers in proptest::collection::vec(0_u64..300, 0..600)) {
            let counts = booked(numbers.iter().copied());
            let distinct: HashSet<_> = numbers.iter().collect();
            prop_assert_eq!(counts.received, distinct.len() as u64);
            prop_assert_eq!(counts.duplicates, (numbers.len() - distinct.len()) as u64);
            prop_assert_eq!(counts.late, 0);
            let mut highest = None;
            let mut seen = HashSet::new();
            let overtaken = numbers.iter().filter(|number| {
                let fresh = seen.insert(**number);
                let behind = highest.is_some_and(|highest| **number < highest);
                highest = highest.max(Some(**number));
                fresh && behind
            });
            prop_assert_eq!(counts.reordered, overtaken.count() as u64);
        }

        #[test]
        fn any_numbers_add_up(numbers in proptest::collection::vec(any::<u64>(), 0..3000)) {
            let counts = booked(numbers.iter().copied());
            prop_assert_eq!(counts.received + counts.duplicates + counts.late, numbers.len() as u64);
        }
    }
}
