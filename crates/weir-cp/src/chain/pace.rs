//! How a hop gets on, second by second: whether it stands still, or is so slow that those behind it had
//! better go on without it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::hop::HopNow;

/// The short window: fourteen blocks at 100 Mbit/s, so that one block more or less matters little.
const WINDOW: Duration = Duration::from_millis(1200);

/// The same where a host is somewhat slow, or can only be compared with itself: a busy machine, or a path
/// that lost some segments, catches up within that.
const LONG_WINDOW: Duration = Duration::from_secs(4);

/// Nothing for so long, while there is something: four retransmissions in a row take as long where a round
/// trip is 100 ms.
const STALL: Duration = Duration::from_millis(2500);

/// A host to which something came within this time has something for those behind it: at 100 Mbit/s six
/// blocks.
const MOVING: Duration = Duration::from_millis(500);

/// Bytes that a host may be behind the one before it without keeping it waiting, and a quarter of a second.
const ON_ITS_WAY: f64 = 4e6;

/// Below this part of what comes to the one before it, in a window, a hop is slow; or of the best that it
/// took itself, in a long one. Those behind it lose more by waiting for a second than by a session that
/// begins anew.
const VERY_SLOW: f64 = 0.15;

/// Below this part of what comes to the one before it in a long window, too.
const SLOW: f64 = 0.35;

/// A hop that has just begun is not judged by its rate: connections find theirs, and processes share a busy
/// machine.
const SETTLES: Duration = Duration::from_secs(2);

/// A first connection may be tried three ways, each for 2.5 s.
const BEGINS: Duration = Duration::from_secs(15);

/// Of one hop.
#[derive(Debug)]
pub(super) struct Pace {
    began: Instant,
    seen: VecDeque<(Instant, u64)>,
    /// When it last took something, or had nothing to take.
    moved: (Instant, u64),
    /// When it last took something.
    gained: Instant,
    /// The best rate of a whole long window, in bytes per second.
    best: f64,
    /// Bytes of what it has that it had read to compare them.
    compared: u64,
    watched: Duration,
    behind: Duration,
}

/// The fault of a hop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Trouble {
    /// Nothing came for so long.
    Stalls(Duration),
    /// Bytes per second, and those that it could have.
    Slow(f64, f64),
}

impl Pace {
    pub(super) fn new(now: Instant) -> Pace {
        Pace {
            began: now,
            seen: VecDeque::new(),
            moved: (now, 0),
            gained: now,
            best: 0.0,
            compared: 0,
            watched: Duration::ZERO,
            behind: Duration::ZERO,
        }
    }

    /// Nobody looked until `now`, so what it took meanwhile is not known.
    pub(super) fn forgive(&mut self, now: Instant) {
        self.seen.clear();
        (self.moved.0, self.gained) = (now, now);
    }

    /// Bytes per second in the last window, and in the last long one; `None` before there was one.
    pub(super) fn rates(&self) -> [Option<f64>; 2] {
        [WINDOW, LONG_WINDOW].map(|window| self.rate(window))
    }

    fn rate(&self, window: Duration) -> Option<f64> {
        let (last, after) = self.seen.back()?;
        // The last look that is so long ago, or longer.
        let since = self.seen.iter().rev().find(|(at, _)| last.duration_since(*at) >= window)?;
        let span = last.duration_since(since.0).as_secs_f64();
        Some(after.saturating_sub(since.1) as f64 / span)
    }

    /// Something came just now.
    pub(super) fn is_moving(&self, at: Instant) -> bool {
        at.duration_since(self.gained) < MOVING
    }

    /// The part of its time that it was behind.
    pub(super) fn behind(&self) -> f64 {
        self.behind.as_secs_f64() / self.watched.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Looks at it. `fed`: whether there may be something for it; `before`: bytes that the one before has,
    /// where it is not this machine.
    pub(super) fn look(&mut self, at: Instant, now: &HopNow, (fed, before): (bool, Option<u64>)) {
        let passed = self.seen.back().map_or(Duration::ZERO, |(last, _)| at.duration_since(*last));
        if now.lanes > 0 {
            self.watched += passed;
            let ahead = before.map_or(u64::MAX, |before| before.saturating_sub(now.there()));
            // Some blocks are on their way anyway.
            let usual = (self.best / 4.0).max(ON_ITS_WAY) as u64;
            if now.lag().min(ahead) > usual {
                self.behind += passed;
            }
        }
        let there = now.there();
        if there != self.moved.1 {
            self.gained = at;
        }
        let begins = now.lanes == 0 && at.duration_since(self.began) < BEGINS;
        // It reads what it has before it says what it wants.
        let compares = now.totals.compared != self.compared;
        self.compared = now.totals.compared;
        let fed = fed && !compares;
        if !fed || begins {
            // Bytes that it did not take then were not there yet, or had no way.
            self.seen.clear();
        }
        self.seen.push_back((at, there));
        while self.seen.len() > 2 && at.duration_since(self.seen[1].0) >= LONG_WINDOW {
            self.seen.pop_front();
        }
        if there != self.moved.1 || !fed || begins || now.lag() == 0 {
            self.moved = (at, there);
        }
        self.best = self.best.max(self.rate(LONG_WINDOW).unwrap_or(0.0));
    }

    /// What is wrong with it, where this came to the one before it in a window and in a long one, and that
    /// has `before` bytes; `None` for one that has all. Between hosts that are `apart` it is compared with
    /// itself alone: what their way carries is no fault of the host behind it, and the next one there would
    /// have no more by it.
    pub(super) fn trouble(
        &self,
        at: Instant,
        now: &HopNow,
        comes: Option<([Option<f64>; 2], u64)>,
        apart: bool,
    ) -> Option<Trouble> {
        let still = at.duration_since(self.moved.0);
        if still >= STALL {
            return Some(Trouble::Stalls(still));
        }
        let [rate, long_rate] = self.rates();
        let ahead = comes.map_or(u64::MAX, |(_, before)| before.saturating_sub(now.there()));
        let lag = now.lag().min(ahead) as f64;
        // It would take about a second to catch up.
        let is_slow = |rate: Option<f64>, due: Option<f64>, part: f64| {
            let (rate, due) = rate.zip(due)?;
            (rate < due * part && lag > due * 0.7).then_some(Trouble::Slow(rate, due))
        };
        if self.watched < SETTLES {
            return None;
        }
        match comes {
            Some(([comes, long_comes], _)) if !apart => {
                is_slow(rate, comes, VERY_SLOW).or_else(|| is_slow(long_rate, long_comes, SLOW))
            }
            _ => is_slow(long_rate, Some(self.best), VERY_SLOW),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::{Found, Totals};

    fn now(bytes: u64, found: u64) -> HopNow {
        let totals = Totals { bytes, ..Totals::default() };
        HopNow { totals, found: Found { bytes: found, ..Found::default() }, lanes: 1, ..HopNow::default() }
    }

    /// Looks ten times a second, at what `bytes` says for each tenth of a second; where `comes` is said so
    /// much comes to the one before it in a second. What is wrong, and at which tenth that is seen.
    fn watched(bytes: impl Fn(u64) -> u64, comes: Option<u64>) -> Option<(u64, Trouble)> {
        let before = comes.map(|comes| move |tenth| comes * tenth / 10);
        looked_at(bytes, before, false)
    }

    /// The same, where `before` says what the one before it has.
    fn looked_at(
        bytes: impl Fn(u64) -> u64,
        before: Option<impl Fn(u64) -> u64>,
        apart: bool,
    ) -> Option<(u64, Trouble)> {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        (0..100).find_map(|tenth| {
            let (at, now) = (start + Duration::from_millis(100 * tenth), now(bytes(tenth), 1 << 40));
            let before = before.as_ref().map(|before| {
                let comes = before(tenth).saturating_sub(before(tenth.saturating_sub(10))) as f64;
                ([Some(comes); 2], before(tenth))
            });
            pace.look(at, &now, (true, before.map(|(_, before)| before)));
            pace.trouble(at, &now, before, apart).map(|trouble| (tenth, trouble))
        })
    }

    #[test]
    fn one_that_goes_on_as_it_did_is_left_alone() {
        for comes in [None, Some(10_000_000)] {
            assert_eq!(watched(|tenth| tenth * 1_000_000, comes), None);
            assert_eq!(watched(|tenth| tenth * 600_000, comes), None, "somewhat slower");
            let hiccup = |tenth: u64| if (30..38).contains(&tenth) { 30_000_000 } else { tenth * 1_000_000 };
            assert_eq!(watched(hiccup, comes), None, "it stood still for a moment");
        }
    }

    #[test]
    fn one_that_compares_what_it_has_is_left_alone() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let comes = Some(([Some(1e7); 2], 1 << 40));
        // It tells that twice a second, and stands still in the end.
        let found = (0..200).find_map(|tenth: u64| {
            let at = start + Duration::from_millis(100 * tenth);
            let compared = tenth.min(100) / 5 * (8 << 20);
            let totals = Totals { compared, ..Totals::default() };
            let now = HopNow { totals, ..now(0, 1 << 40) };
            pace.look(at, &now, (true, Some(1 << 40)));
            pace.trouble(at, &now, comes, false).map(|_| tenth)
        });
        assert!(found.is_some_and(|tenth| (110..130).contains(&tenth)), "{found:?}");
    }

    #[test]
    fn one_that_stands_still_or_is_slowed_is_found_within_seconds() {
        let stands = |tenth: u64| tenth.min(20) * 1_000_000;
        let slowed = |tenth: u64| tenth.min(20) * 1_000_000 + tenth.saturating_sub(20) * 100_000;
        let halved = |tenth: u64| tenth * 300_000;
        for (what, comes, most) in [
            (&stands as &dyn Fn(u64) -> u64, Some(10_000_000), 35),
            (&stands, None, 46),
            (&slowed, Some(10_000_000), 36),
            (&halved, Some(10_000_000), 45),
        ] {
            let (tenth, trouble) = watched(what, comes).expect("it is found");
            assert!(tenth <= most, "{trouble:?} after {tenth} tenths");
        }
        // Of the first one only its own past tells.
        let later = |tenth: u64| tenth.min(45) * 1_000_000 + tenth.saturating_sub(45) * 50_000;
        assert!(matches!(watched(later, None), Some((_, Trouble::Slow(..)))));
    }

    /// 100 ms apart: its way carries a tenth of what comes to the one before it.
    #[test]
    fn what_a_long_way_carries_is_no_hosts_fault() {
        let steady = |tenth: u64| tenth * 100_000;
        let far = |tenth: u64| tenth * 1_000_000;
        assert_eq!(looked_at(steady, Some(far), true), None);
        assert!(looked_at(steady, Some(far), false).is_some(), "it would be, were they near each other");
        let slowed = |tenth: u64| tenth.min(45) * 1_000_000 + tenth.saturating_sub(45) * 50_000;
        assert_eq!(looked_at(slowed, Some(slowed), true), None, "no more comes");
        assert!(matches!(looked_at(slowed, Some(far), true), Some((_, Trouble::Slow(..)))));
        let stands = |tenth: u64| tenth.min(20) * 1_000_000;
        assert!(matches!(looked_at(stands, Some(far), true), Some((_, Trouble::Stalls(_)))));
    }

    #[test]
    fn one_that_waits_for_others_is_not_to_blame() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for tenth in 0..80 {
            let (at, now) = (start + Duration::from_millis(100 * tenth), now(5_000_000, 1 << 30));
            pace.look(at, &now, (false, None));
            assert_eq!(pace.trouble(at, &now, None, false), None);
        }
    }
}
