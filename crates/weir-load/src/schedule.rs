//! When each request is due in an open loop (`--rate`): pure, times are nanoseconds since the run's start.
//!
//! A request keeps the time it was planned for, also when no connection is free then: a server that stands still for a
//! second is charged with everything that should have been asked in that second, not with one request a connection
//! (coordinated omission).

/// A steady plan.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// When the first request is due.
    start: u64,
    /// Nanoseconds between two.
    interval: f64,
    /// Requests handed out.
    handed: u64,
}

impl Schedule {
    /// `rate` requests a second (above zero) from `start` on.
    pub fn new(start: u64, rate: f64) -> Schedule {
        Schedule { start, interval: 1e9 / rate, handed: 0 }
    }

    /// The part of one loop of `loops` that share `rate` in turns, so that the whole is even. It begins with the loop: while a
    /// loop still waits for its processor no request could be asked, and a server is not charged with one.
    pub fn of_loop(begun: u64, rate: f64, index: usize, loops: usize) -> Schedule {
        Schedule::new(begun.saturating_add((1e9 * index as f64 / rate) as u64), rate / loops as f64)
    }

    /// When the next request is due.
    pub fn next_at(&self) -> u64 {
        // Multiplied, not added up, so that no error does.
        self.start.saturating_add((self.handed as f64 * self.interval) as u64)
    }

    /// Hands out the next request if its time has come: the time it was planned for.
    pub fn take(&mut self, now: u64) -> Option<u64> {
        let due = self.next_at();
        (due <= now).then(|| {
            self.handed += 1;
            due
        })
    }

    /// Requests whose time had come at `now` and that were not handed out.
    pub fn behind(&self, now: u64) -> u64 {
        let due = (now.saturating_sub(self.start) as f64 / self.interval) as u64;
        due.saturating_sub(self.handed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::histogram;

    #[test]
    fn loops_that_begin_late_plan_no_more_than_was_asked_for() {
        let span = 1_000_000_000;
        let due = |begun: u64, index: usize| {
            let mut plan = Schedule::of_loop(begun, 200.0, index, 2);
            std::iter::from_fn(|| plan.take(begun + span - 1)).collect::<Vec<_>>()
        };
        for late in [0, 20_000_000, 3 * span] {
            let (first, second) = (due(0, 0), due(late, 1));
            assert_eq!((first.len(), second.len()), (100, 100), "{late}");
            assert_eq!((first[0], second[0]), (0, late + 5_000_000));
        }
    }

    #[test]
    fn requests_come_at_their_times() {
        let mut plan = Schedule::new(1_000, 1e6);
        assert_eq!(plan.take(999), None);
        assert_eq!(plan.take(1_000), Some(1_000));
        assert_eq!(plan.take(1_000), None);
        assert_eq!(plan.behind(5_000), 3);
        assert_eq!(plan.take(9_000), Some(2_000));
        assert_eq!(plan.next_at(), 3_000);
    }

    /// The known answer: a server that answers within 1 ms but stands still in the last second of every ten. Of the
    /// requests planned evenly, a tenth falls into that second and waits, evenly, from 0 to 1 s: the median is a moment,
    /// and the latency at quantile q above 0.9 is (q - 0.9) / 0.1 of a second.
    #[test]
    fn a_server_that_freezes_is_charged_with_the_whole_second() {
        const SECOND: u64 = 1_000_000_000;
        let (mut plan, mut from_plan, mut from_send) = (Schedule::new(0, 1000.0), histogram(), histogram());
        // One connection; time jumps from event to event.
        let mut now = 0;
        while now < 100 * SECOND {
            let Some(planned) = plan.take(now) else {
                now = plan.next_at();
                continue;
            };
            let sent = now;
            let frozen = now % (10 * SECOND) >= 9 * SECOND;
            now = if frozen { (now / (10 * SECOND) + 1) * 10 * SECOND } else { now } + 100_000;
            from_plan.saturating_record(now - planned);
            from_send.saturating_record(now - sent);
        }
        let at = |q: f64| from_plan.value_at_quantile(q) as f64 / 1e9;
        assert!(at(0.5) < 0.001, "{}", at(0.5));
        // Catching up takes a tenth of the backlog's time, hence the hundredth or two on top.
        for (q, known) in [(0.95, 0.5), (0.97, 0.7), (0.99, 0.9)] {
            assert!((at(q) - known).abs() < 0.12, "{q}: {} instead of {known}", at(q));
        }
        // What a closed loop would have said.
        assert!(from_send.value_at_quantile(0.999) < 1_000_000);
    }
}
