//! When each request is due in an open loop (`--rate`): pure, times are nanoseconds since the run's start.
//!
//! A request keeps the time it was planned for, also when no connection is free then: a server that stands
//! still for a second is charged with everything that should have been asked in that second, not with one
//! request a connection (coordinated omission).

/// How many owed requests are reported one by one at the end: so many take 20 ms. Of an hour's plan against a
/// server that is gone, each would take longer than a loop has to finish.
const TOLD: u64 = 1 << 20;

/// How requests follow one another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly.
    #[default]
    Even,
    /// As users who know nothing of one another come: a Poisson process, whose gaps are exponential.
    Independent,
}

/// Numbers by chance, the same in every run: Steele, Lea and Flood's SplitMix64.
#[derive(Debug, Clone)]
struct Chance(u64);

impl Chance {
    /// From 0 up to 1.
    fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A plan.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// When the first request is due.
    start: u64,
    /// Nanoseconds between two.
    interval: f64,
    /// Requests handed out.
    handed: u64,
    /// When the next request would be due if the rate were steady, nanoseconds from `start`.
    place: f64,
    /// Where gaps differ.
    chance: Option<Chance>,
    /// Nanoseconds from `start` in which the rate grows evenly from nothing.
    ramp: f64,
}

impl Schedule {
    /// `rate` requests a second (above zero) from `start` on.
    pub fn new(start: u64, rate: f64) -> Schedule {
        Schedule { start, interval: 1e9 / rate, handed: 0, place: 0.0, chance: None, ramp: 0.0 }
    }

    /// The part of one loop of `loops` that share `rate` in turns, so that the whole is even. It begins with
    /// the loop: while a loop still waits for its processor no request could be asked, and a server is not
    /// charged with one.
    pub(crate) fn of_loop(begun: u64, rate: f64, index: usize, loops: usize) -> Schedule {
        Schedule::new(begun.saturating_add((1e9 * index as f64 / rate) as u64), rate / loops as f64)
    }

    /// The same, with a rate that grows evenly from nothing over the first `ramp` nanoseconds.
    pub fn ramped(self, ramp: u64) -> Schedule {
        Schedule { ramp: ramp as f64, ..self }
    }

    /// The same, with requests that follow one another so. `index`: of the loop, each of which has its own
    /// chance.
    pub fn arriving(self, arrivals: Arrivals, index: usize) -> Schedule {
        let chance = (arrivals == Arrivals::Independent).then(|| Chance(index as u64 + 1));
        Schedule { chance, ..self }
    }

    /// When the next request is due.
    pub(crate) fn next_at(&self) -> u64 {
        let steady = self.place;
        // A rate of t / (ramp x interval) has made t^2 / (2 x ramp x interval) requests by t; at the ramp's
        // end, half of what the steady rate would have.
        let after = match steady < self.ramp / 2.0 {
            true => (2.0 * self.ramp * steady).sqrt(),
            false => self.ramp / 2.0 + steady,
        };
        self.start.saturating_add(after as u64)
    }

    /// Hands out the next request if its time has come: the time it was planned for.
    pub fn take(&mut self, now: u64) -> Option<u64> {
        let due = self.next_at();
        (due <= now).then(|| {
            self.pass(1);
            due
        })
    }

    /// So many requests are handed out, whether their time has come or not.
    fn pass(&mut self, count: u64) {
        self.handed += count;
        let interval = self.interval;
        self.place = match &mut self.chance {
            // Multiplied, not added up, so that no error does.
            None => self.handed as f64 * interval,
            Some(chance) => {
                (0..count).fold(self.place, |place, _| place - interval * (1.0 - chance.draw()).ln())
            }
        };
    }

    /// Requests whose time had come at `now` and that were not handed out.
    pub fn behind(&self, now: u64) -> u64 {
        let passed = now.saturating_sub(self.start) as f64;
        let steady = match passed < self.ramp {
            true => passed * passed / (2.0 * self.ramp),
            false => passed - self.ramp / 2.0,
        };
        if self.chance.is_none() {
            return ((steady / self.interval) as u64).saturating_sub(self.handed);
        }
        let mut rest = self.clone();
        std::iter::from_fn(|| rest.take(now)).count() as u64
    }

    /// The first `count` of them: when each was planned for, and for how many it stands, which is one but of
    /// more than [`TOLD`].
    pub(crate) fn owed(&self, now: u64, count: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (mut rest, mut left) = (self.clone(), count);
        let each = count.div_ceil(TOLD).max(1);
        std::iter::from_fn(move || {
            let due = if left > 0 { rest.take(now)? } else { return None };
            let stands_for = each.min(left);
            left -= stands_for;
            rest.pass(stands_for - 1);
            Some((due, stands_for))
        })
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

    #[test]
    fn a_rate_grows_over_its_ramp() {
        // 1000 a second after two seconds: 250 in the first, 750 in the second, then 1000 each.
        const SECOND: u64 = 1_000_000_000;
        let mut plan = Schedule::new(7, 1000.0).ramped(2 * SECOND);
        let mut counted = [0; 4];
        let mut last = 0;
        while plan.next_at() < 7 + 4 * SECOND {
            let at = plan.take(plan.next_at()).unwrap();
            assert!(at >= last, "times do not go back");
            last = at;
            counted[((at - 7) / SECOND) as usize] += 1;
        }
        for (count, known) in counted.iter().zip([250, 750, 1000, 1000]) {
            assert!(i32::abs(count - known) <= 1, "{counted:?}");
        }
        let unasked = Schedule::new(7, 1000.0).ramped(2 * SECOND);
        assert_eq!([0, 1, 2, 3].map(|second| unasked.behind(7 + second * SECOND)), [0, 250, 1000, 2000]);
        assert_eq!(Schedule::new(0, 1000.0).ramped(0).behind(SECOND), 1000);
    }

    #[test]
    fn independent_requests_come_at_the_rate_with_gaps_of_every_length() {
        const SECOND: u64 = 1_000_000_000;
        let mut plan = Schedule::new(5, 1000.0).arriving(Arrivals::Independent, 0);
        assert!((9_500..10_500).contains(&plan.behind(5 + 10 * SECOND)));
        let times: Vec<u64> = std::iter::from_fn(|| plan.take(5 + 10 * SECOND)).collect();
        // Of exponential gaps a share of 1 - 1/e is below their mean, and their deviation is their mean.
        let gaps: Vec<f64> = times.windows(2).map(|two| (two[1] - two[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = weir_units::stats::deviation(gaps.iter().copied(), mean, gaps.len());
        let below = gaps.iter().filter(|gap| **gap < mean).count() as f64 / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.05 && (deviation / mean - 1.0).abs() < 0.05, "{mean} {deviation}");
        assert!((below - 0.632).abs() < 0.02, "{below}");
        assert_eq!(plan.behind(5 + 10 * SECOND), 0);
    }

    #[test]
    fn what_is_owed_are_the_times_that_had_come() {
        let mut plan = Schedule::new(1_000, 1e6);
        assert_eq!(plan.take(1_000), Some(1_000));
        let owed: Vec<_> = plan.owed(4_500, 9).collect();
        assert_eq!(owed, [(2_000, 1), (3_000, 1), (4_000, 1)]);
        // No more than are to be asked, and nothing is taken away.
        assert_eq!(plan.owed(4_500, 2).count(), 2);
        assert_eq!(plan.owed(1_500, 2).count(), 0);
        assert_eq!(plan.take(4_500), Some(2_000));
        // Of very many each stands for several.
        let many = 3 * TOLD + 1;
        let owed: Vec<_> = plan.owed(u64::MAX, many).collect();
        assert!(owed.len() as u64 <= TOLD);
        assert_eq!(owed.iter().map(|(_, stands_for)| stands_for).sum::<u64>(), many);
        assert_eq!((owed[0], owed[1].0), ((3_000, 4), 7_000));
        let chance = Schedule::new(0, 1e6).arriving(Arrivals::Independent, 0);
        let all: Vec<u64> = chance.owed(1_000_000, chance.behind(1_000_000)).map(|(due, _)| due).collect();
        let mut taken = chance.clone();
        assert_eq!(all, std::iter::from_fn(|| taken.take(1_000_000)).collect::<Vec<_>>());
    }

    /// The known answer: a server that answers within 1 ms but stands still in the last second of every ten.
    /// Of the requests planned evenly, a tenth falls into that second and waits, evenly, from 0 to 1 s: the
    /// median is a moment, and the latency at quantile q above 0.9 is (q - 0.9) / 0.1 of a second.
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
