//! Which datagrams came, which did not, which came late: a receiver's ledger.
//!
//! The arithmetic is iperf3's, so that figures agree: a number above the expected one is a gap, and each
//! number in it is lost until proven otherwise; a number below it came out of order and takes one loss back.
//! Jitter is RFC 1889's (A.8): the mean change of transit times, so that the clocks need not agree.

use std::time::Duration;

/// A receiver's counts of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Arrivals {
    /// Datagrams that came.
    pub received: u64,
    /// The highest number seen: as many were sent, up to then.
    pub highest: u64,
    /// Numbers that never came, so far.
    pub lost: u64,
    /// Datagrams that came after a later one.
    pub out_of_order: u64,
    /// Seconds.
    pub jitter: f64,
    transit: Option<f64>,
}

impl Arrivals {
    /// Takes in a datagram: its number, when it was sent by the sender's clock, and when it came by this
    /// end's.
    pub fn take(&mut self, number: u64, sent: Duration, came: Duration) {
        self.received += 1;
        if number > self.highest {
            self.lost = self.lost.saturating_add(number - self.highest - 1);
            self.highest = number;
        } else {
            self.out_of_order += 1;
            self.lost = self.lost.saturating_sub(1);
        }
        let transit = came.as_secs_f64() - sent.as_secs_f64();
        if let Some(before) = self.transit.replace(transit) {
            self.jitter += ((transit - before).abs() - self.jitter) / 16.0;
        }
    }

    /// What happened since an earlier state: counters are differences, jitter is of now.
    pub fn since(&self, before: &Arrivals) -> Arrivals {
        Arrivals {
            received: self.received.saturating_sub(before.received),
            highest: self.highest.saturating_sub(before.highest),
            lost: self.lost.saturating_sub(before.lost),
            out_of_order: self.out_of_order.saturating_sub(before.out_of_order),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(numbers: impl IntoIterator<Item = u64>) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for number in numbers {
            arrivals.take(number, Duration::ZERO, Duration::ZERO);
        }
        arrivals
    }

    #[test]
    fn gaps_are_lost_until_they_come_late() {
        let arrivals = of([1, 2, 5, 3, 6, 9]);
        assert_eq!((arrivals.received, arrivals.highest), (6, 9));
        assert_eq!((arrivals.lost, arrivals.out_of_order), (3, 1));
    }

    #[test]
    fn jitter_is_a_sixteenth_of_each_change() {
        let mut arrivals = Arrivals::default();
        let at = Duration::from_millis;
        // Transit times 10, 10, 26 ms by clocks an hour apart: no jitter, then a sixteenth of 16 ms.
        for (number, sent, came) in [(1, 0, 3_600_010), (2, 20, 3_600_030), (3, 40, 3_600_066)] {
            arrivals.take(number, at(sent), at(came));
        }
        assert!((arrivals.jitter - 1e-3).abs() < 1e-9, "{}", arrivals.jitter);
    }

    #[test]
    fn a_liar_s_number_overflows_nothing() {
        let arrivals = of([u64::MAX, 1, u64::MAX, 0]);
        assert_eq!(arrivals.highest, u64::MAX);
        assert_eq!(arrivals.out_of_order, 3);
    }

    proptest! {
        /// Whatever is lost and however the rest is shuffled: what came and what did not add up to what was
        /// sent.
        #[test]
        fn received_and_lost_are_all(mut order in proptest::collection::btree_set(1_u64..2000, 1..400)
            .prop_flat_map(|set| Just(set.into_iter().collect::<Vec<_>>()).prop_shuffle()))
        {
            let arrivals = of(order.iter().copied());
            order.sort_unstable();
            prop_assert_eq!(arrivals.highest, *order.last().unwrap());
            prop_assert_eq!(arrivals.received + arrivals.lost, arrivals.highest);
        }
    }
}
