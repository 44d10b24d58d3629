//! By which congestion control should a sender's lanes go? By the system's, until the path is seen to lose
//! segments without being full: then by BBR, unless that brings less.
//!
//! CUBIC takes each loss for a full link (RFC 9438, section 4.6): where one segment in ten thousand is lost
//! over 100 ms it holds some 190 segments, 2.7 MB/s, whatever the link. BBR goes by the rate and the round
//! trip that it measures (draft-ietf-ccwg-bbr). More lanes would do as well, but each has to be opened, tried
//! and judged.
//!
//! Pure: time and readings come in as arguments.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::decision::ControlChange;
use crate::evidence::Interval;
use crate::limit::Limit;
use crate::rule::sender::flow::slack;
use crate::sender::SenderInterval;
pub use crate::sender::is_bbr;

/// Intervals that are looked at: a second of 100 ms each.
const RECENT: usize = 10;

/// Of these, so many held by loss convince. The end of slow start, where the queue before a full link
/// overflows, takes two round trips and fewer intervals.
const STRIKES: usize = 3;

/// A round trip of so many times the shortest has a queue in it. Where one stood in the last second, what was
/// lost may be what that could not hold: then the link is full, and there is nothing to win.
const QUEUED: f64 = 1.25;

/// BBR's first round trips are spent on finding the path's rate, draining what that left in a queue and
/// filling the windows again: a dozen, and half as many for safety.
const SETTLE_ROUND_TRIPS: u32 = 18;

/// And a second at least, since what was acknowledged in it was sent before.
const SETTLE: Duration = Duration::from_secs(1);

/// Two rates over a second, one after another on the same path, differ by this much without a cause.
const NOISE: f64 = 0.1;

/// What a sender saw in an interval of 100 ms.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    /// The interval's length.
    pub span: Duration,
    /// The judge's word on it.
    pub limit: Limit,
    /// Bytes per second that the other end acknowledged.
    pub acked: f64,
    /// The longest of the lanes' shortest round trips, where it was read.
    pub round_trip: Option<Duration>,
    /// Most lanes' round trips are well above their shortest: a queue stands.
    pub queue: bool,
}

impl Sight {
    /// What this interval of a sender shows, which was held by `limit`.
    pub fn of(interval: &Interval, limit: Limit, acked: f64) -> Sight {
        let seen = || interval.lanes.iter().filter_map(|lane| lane.sender.value());
        let queued = |seen: &&SenderInterval| {
            let times =
                seen.rtt.zip(seen.min_rtt).map(|(rtt, least)| (rtt.as_secs_f64(), least.as_secs_f64()));
            times.is_some_and(|(rtt, least)| rtt > QUEUED * least + slack(least))
        };
        Sight {
            span: interval.span,
            limit,
            acked,
            round_trip: seen().filter_map(|seen| seen.min_rtt).max(),
            queue: seen().filter(queued).count() * 2 > seen().count(),
        }
    }
}

/// The policy's state.
#[derive(Debug, Default)]
pub struct Policy {
    /// The last intervals, oldest first.
    recent: VecDeque<Sight>,
    state: PolicyState,
    now: Duration,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum PolicyState {
    #[default]
    Usual,
    /// By BBR, whose rate is its own from `settled` on.
    Trying { settled: Duration, before: f64 },
    /// It is decided.
    Done,
}

impl Policy {
    /// Takes in an interval. [`ControlChange::Try`] is for all lanes and those that come later,
    /// [`ControlChange::Back`] for all that were changed.
    pub fn observe(&mut self, seen: Sight) -> Option<ControlChange> {
        self.now += seen.span;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(seen);
        match self.state {
            PolicyState::Usual => self.usual(seen),
            PolicyState::Trying { settled, before } => self.trying(settled, before),
            PolicyState::Done => None,
        }
    }

    /// The time of the intervals so far.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// It is not to be had here.
    pub fn refused(&mut self) {
        self.state = PolicyState::Done;
    }

    fn usual(&mut self, seen: Sight) -> Option<ControlChange> {
        let strikes = self.recent.iter().filter(|seen| seen.limit == Limit::PathLoss).count();
        let queued = self.recent.iter().any(|seen| seen.queue);
        if seen.limit != Limit::PathLoss || strikes < STRIKES || queued {
            return None;
        }
        // What slow start carried before its first loss is not what loss leaves.
        let before = rate(self.recent.iter().filter(|seen| seen.limit == Limit::PathLoss));
        let settle = SETTLE.max(seen.round_trip.unwrap_or_default() * SETTLE_ROUND_TRIPS);
        self.state = PolicyState::Trying { settled: self.now + settle, before };
        self.recent.clear();
        Some(ControlChange::Try(before))
    }

    fn trying(&mut self, settled: Duration, before: f64) -> Option<ControlChange> {
        if self.now <= settled {
            self.recent.clear();
        }
        if self.recent.len() < RECENT {
            return None;
        }
        // Where something else than the network held any of them, the two rates compare nothing.
        if !self.recent.iter().all(|seen| is_of_network(seen.limit)) {
            return None;
        }
        self.state = PolicyState::Done;
        let after = rate(&self.recent);
        let is_less = after < before * (1.0 - NOISE);
        Some(if is_less { ControlChange::Back(before, after) } else { ControlChange::Keep(before, after) })
    }
}

/// Bytes per second of these intervals.
fn rate<'a>(intervals: impl IntoIterator<Item = &'a Sight>) -> f64 {
    let sum = |(bytes, span): (f64, f64), seen: &Sight| {
        let time = seen.span.as_secs_f64();
        (bytes + seen.acked * time, span + time)
    };
    let (bytes, span) = intervals.into_iter().fold((0.0, 0.0), sum);
    bytes / span.max(1e-3)
}

/// What the oldest lane of an interval goes by, where its sender was seen.
pub fn of(interval: &Interval) -> Option<&str> {
    let known = |lane: &'_ &crate::evidence::LaneInterval| lane.sender.value().is_some();
    let oldest = interval.lanes.iter().filter(known).min_by_key(|lane| lane.lane)?;
    oldest.sender.value()?.congestion_control.as_deref()
}

/// What the lanes of a run went by: each congestion control, with the second from which on.
#[derive(Debug, Clone, Default)]
pub struct Controls {
    /// What each lane was last seen to go by.
    known: BTreeMap<u32, String>,
    changes: Vec<(f64, String)>,
}

/// Changes that are kept: the policy makes two.
const MOST_CHANGES: usize = 8;

impl Controls {
    /// Takes in an interval. A lane that is new is no change, whatever it begins with.
    pub fn observe(&mut self, interval: &Interval) {
        for lane in &interval.lanes {
            let Some(name) = lane.sender.value().and_then(|seen| seen.congestion_control.as_ref()) else {
                continue;
            };
            let before = self.known.insert(lane.lane, name.clone());
            let other = self.changes.last().is_none_or(|(_, last)| last != name);
            let changed = before.is_some_and(|before| before != *name);
            if other && (changed || self.changes.is_empty()) && self.changes.len() < MOST_CHANGES {
                self.changes.push((interval.at, name.clone()));
            }
        }
        self.known.retain(|id, _| interval.lanes.iter().any(|lane| lane.lane == *id));
    }

    /// Each, oldest first.
    pub fn changes(&self) -> &[(f64, String)] {
        &self.changes
    }
}

fn is_of_network(limit: Limit) -> bool {
    matches!(
        limit,
        Limit::PathLoss
            | Limit::PathBandwidth
            | Limit::ReceiveWindow
            | Limit::SendBuffer
            | Limit::SenderOrPath
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Decision, Event};
    use crate::evidence::{LaneInterval, Reading};
    use proptest::prelude::*;

    const WINDOW: Duration = Duration::from_millis(100);

    fn sight(limit: Limit, acked: f64) -> Sight {
        Sight { span: WINDOW, limit, acked, round_trip: Some(Duration::from_millis(100)), queue: false }
    }

    /// In whole bytes a second: sums of tenths of a second are a little off.
    fn rounded(change: ControlChange) -> ControlChange {
        match change {
            ControlChange::Try(before) => ControlChange::Try(before.round()),
            ControlChange::Keep(before, after) => ControlChange::Keep(before.round(), after.round()),
            ControlChange::Back(before, after) => ControlChange::Back(before.round(), after.round()),
            other => other,
        }
    }

    /// What was said over `intervals`, with the number of the interval.
    fn said(intervals: impl IntoIterator<Item = Sight>) -> Vec<(usize, ControlChange)> {
        let mut policy = Policy::default();
        let intervals = intervals.into_iter().enumerate();
        intervals.filter_map(|(at, seen)| Some((at, rounded(policy.observe(seen)?)))).collect()
    }

    fn lossy(count: usize, acked: f64) -> impl Iterator<Item = Sight> {
        std::iter::repeat_n(sight(Limit::PathLoss, acked), count)
    }

    #[test]
    fn a_path_that_loses_is_left_to_bbr_and_stays_with_it() {
        let full = std::iter::repeat_n(sight(Limit::PathBandwidth, 2e7), 100);
        let kept = (2 + 18 + 10, ControlChange::Keep(3e6, 2e7));
        assert_eq!(said(lossy(5, 3e6).chain(full)), [(2, ControlChange::Try(3e6)), kept]);
    }

    #[test]
    fn the_end_of_slow_start_is_no_lossy_path() {
        let start = lossy(2, 1e7).chain(std::iter::repeat_n(sight(Limit::PathBandwidth, 1e7), 12));
        assert_eq!(said(start.chain(lossy(2, 1e7))), []);
        let after = std::iter::repeat_n(sight(Limit::Disk, 1e7), 1);
        assert_eq!(said(lossy(2, 1e7).chain(after)), []);
    }

    #[test]
    fn what_a_queue_lost_is_not_the_paths() {
        let overflow = Sight { queue: true, ..sight(Limit::PathBandwidth, 1e7) };
        assert_eq!(said([overflow].into_iter().chain(lossy(9, 8e6))), []);
        // A second later it stands no more.
        assert_eq!(said([overflow].into_iter().chain(lossy(12, 8e6))), [(10, ControlChange::Try(8e6))]);
    }

    #[test]
    fn a_sight_is_of_most_lanes() {
        let lane = |rtt: u64, shortest: u64| {
            let [rtt, shortest] = [rtt, shortest].map(|time| Some(Duration::from_millis(time)));
            let sender = SenderInterval { rtt, min_rtt: shortest, ..SenderInterval::default() };
            LaneInterval { sender: Reading::Value(sender), ..LaneInterval::default() }
        };
        let queue = |lanes: Vec<LaneInterval>| {
            let interval = Interval { lanes, ..Interval::default() };
            let seen = Sight::of(&interval, Limit::PathLoss, 1.0);
            (seen.queue, seen.round_trip.map(|time| time.as_millis()))
        };
        assert_eq!(queue(vec![lane(130, 100), lane(130, 90), lane(50, 50)]), (true, Some(100)));
        assert_eq!(queue(vec![lane(120, 100), lane(60, 50)]), (false, Some(100)));
        assert_eq!(queue(vec![]), (false, None));
        // On a path of microseconds two wake-ups are no queue, and what was not read says nothing.
        let quick = SenderInterval {
            rtt: Some(Duration::from_micros(400)),
            min_rtt: Some(Duration::from_micros(100)),
            ..SenderInterval::default()
        };
        let unread = SenderInterval { min_rtt: None, ..quick.clone() };
        for sender in [quick, unread] {
            assert!(
                !queue(vec![LaneInterval { sender: Reading::Value(sender), ..LaneInterval::default() }]).0
            );
        }
    }

    #[test]
    fn what_brings_less_is_taken_back_once() {
        let slower = std::iter::repeat_n(sight(Limit::PathBandwidth, 8e6), 40);
        let then = lossy(100, 1e7);
        // Eighteen round trips of 100 ms to settle, and a second to measure.
        assert_eq!(
            said(lossy(3, 1e7).chain(slower).chain(then)),
            [(2, ControlChange::Try(1e7)), (2 + 18 + 10, ControlChange::Back(1e7, 8e6))]
        );
    }

    #[test]
    fn what_the_network_does_not_hold_proves_nothing() {
        let held = std::iter::repeat_n(sight(Limit::Disk, 1e6), 60);
        let free = std::iter::repeat_n(sight(Limit::PathBandwidth, 1e7), 60);
        // A second of intervals that the network holds begins behind the others.
        let judged = (3 + 60 + 9, ControlChange::Keep(1e7, 1e7));
        assert_eq!(said(lossy(3, 1e7).chain(held).chain(free)), [(2, ControlChange::Try(1e7)), judged]);
    }

    #[test]
    fn where_it_is_refused_it_is_not_asked_for_again() {
        let mut policy = Policy::default();
        let last = lossy(3, 1e6).map(|seen| policy.observe(seen).map(rounded)).last();
        assert_eq!(last, Some(Some(ControlChange::Try(1e6))));
        policy.refused();
        assert!(lossy(100, 1e5).all(|seen| policy.observe(seen).is_none()));
    }

    #[test]
    fn a_change_is_of_a_lane_that_was_there() {
        let interval = |at: u32, lanes: &[(u32, &str)]| {
            let lane = |(lane, name): &(u32, &str)| {
                let sender = SenderInterval {
                    congestion_control: Some((*name).to_owned()),
                    ..SenderInterval::default()
                };
                LaneInterval { lane: *lane, sender: Reading::Value(sender), ..LaneInterval::default() }
            };
            Interval { at: f64::from(at), lanes: lanes.iter().map(lane).collect(), ..Interval::default() }
        };
        let mut controls = Controls::default();
        controls.observe(&Interval::default());
        controls.observe(&interval(1, &[(1, "cubic")]));
        controls.observe(&interval(2, &[(1, "bbr"), (2, "cubic")]));
        controls.observe(&interval(3, &[(1, "bbr"), (2, "bbr")]));
        // The old lanes broke, and what took their place has not followed yet.
        controls.observe(&interval(4, &[(3, "cubic")]));
        controls.observe(&interval(5, &[(3, "bbr")]));
        assert_eq!(controls.changes(), [(1.0, "cubic".to_owned()), (2.0, "bbr".to_owned())]);
        // One that says something else each time fills nothing.
        for at in 6..100 {
            controls.observe(&interval(at, &[(3, if at % 2 == 0 { "cubic" } else { "bbr" })]));
        }
        assert_eq!(controls.changes().len(), MOST_CHANGES);
    }

    #[test]
    fn what_slow_start_carried_is_not_compared() {
        let fast = std::iter::repeat_n(sight(Limit::Latency, 9e7), 7);
        assert_eq!(said(fast.chain(lossy(3, 1e7))), [(9, ControlChange::Try(1e7))]);
    }

    /// What is decided over typical paths, as `-v` tells it.
    #[test]
    fn decisions_of_typical_paths() {
        let many = |limit, acked| std::iter::repeat_n(sight(limit, acked), 40);
        let paths: [(&str, Vec<Sight>); 4] = [
            (
                "losses at 3 MB/s, BBR brings 20",
                lossy(3, 3e6).chain(many(Limit::PathBandwidth, 2e7)).collect(),
            ),
            (
                "losses at 10 MB/s, BBR brings 8",
                lossy(3, 1e7).chain(many(Limit::PathBandwidth, 8e6)).collect(),
            ),
            ("losses at 10 MB/s, then a slow disk", lossy(3, 1e7).chain(many(Limit::Disk, 1e6)).collect()),
            ("a full link", many(Limit::PathBandwidth, 1e7).collect()),
        ];
        let mut text = String::new();
        for (name, intervals) in paths {
            text += &format!("{name}\n");
            for (at, change) in said(intervals) {
                let event = Event { at: WINDOW * at as u32, decision: Decision::Congestion(change) };
                text += &format!("    {event}\n");
            }
        }
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(text) });
    }

    proptest! {
        /// Whatever is seen, it changes its mind once at most.
        #[test]
        fn there_and_back_is_all(intervals in proptest::collection::vec((0..Limit::ALL.len(), 0.0..1e9), 0..300)) {
            let intervals = intervals.into_iter().map(|(limit, acked)| sight(Limit::ALL[limit], acked));
            let said = said(intervals);
            prop_assert!(said.len() <= 2);
            let is_try = |(_, change): &(usize, ControlChange)| matches!(change, ControlChange::Try(_));
            let kinds: Vec<bool> = said.iter().map(is_try).collect();
            prop_assert!(matches!(kinds[..], [] | [true] | [true, false]));
        }
    }
}
