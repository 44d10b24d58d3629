//! By which congestion control should a sender's lanes go? By the system's, until the path is seen to lose segments without
//! being full: then by BBR, unless that brings less.
//!
//! CUBIC takes each loss for a full link (RFC 9438, section 4.6): where one segment in ten thousand is lost over 100 ms it
//! holds some 190 segments, 2.7 MB/s, whatever the link. BBR goes by the rate and the round trip that it measures
//! (draft-ietf-ccwg-bbr). More lanes would do as well, but each has to be opened, tried and judged.
//!
//! Pure: time and readings come in as arguments.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::evidence::Window;
use crate::limit::Limit;
use crate::rule::sender::flow::slack;
use crate::sender::SenderWindow;
pub use crate::sender::is_bbr;

/// Windows that are looked at: a second of 100 ms each.
const LOOKS: usize = 10;

/// Of these, so many held by loss convince. The end of slow start, where the queue before a full link overflows, takes two
/// round trips and fewer windows.
const STRIKES: usize = 3;

/// A round trip of so many times the shortest has a queue in it. Where one stood in the last second, what was lost may be what
/// that could not hold: then the link is full, and there is nothing to win.
const QUEUED: f64 = 1.25;

/// BBR's first round trips are spent on finding the path's rate, draining what that left in a queue and filling the windows
/// again: a dozen, and half as many for safety.
const SETTLE_ROUND_TRIPS: u32 = 18;

/// And a second at least, since what was acknowledged in it was sent before.
const SETTLE: Duration = Duration::from_secs(1);

/// Two rates over a second, one after another on the same path, differ by this much without a cause.
const NOISE: f64 = 0.1;

/// What a sender saw in a window of 100 ms.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    /// The window's length.
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
    /// What this window of a sender shows, which was held by `limit`.
    pub fn of(window: &Window, limit: Limit, acked: f64) -> Sight {
        let seen = || window.lanes.iter().filter_map(|lane| lane.sender.value());
        let queued = |seen: &&SenderWindow| {
            let times =
                seen.rtt.zip(seen.min_rtt).map(|(rtt, least)| (rtt.as_secs_f64(), least.as_secs_f64()));
            times.is_some_and(|(rtt, least)| rtt > QUEUED * least + slack(least))
        };
        Sight {
            span: window.span,
            limit,
            acked,
            round_trip: seen().filter_map(|seen| seen.min_rtt).max(),
            queue: seen().filter(queued).count() * 2 > seen().count(),
        }
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Advice {
    /// Nothing.
    Hold,
    /// All lanes by BBR, and those that come later. The rate until now, bytes per second.
    Bbr(f64),
    /// As before: BBR brought less. The rates before and by it, bytes per second.
    Back(f64, f64),
}

/// The policy's state.
#[derive(Debug, Default)]
pub struct Policy {
    /// The last windows, oldest first.
    recent: VecDeque<Sight>,
    state: State,
    now: Duration,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum State {
    #[default]
    Usual,
    /// By BBR, whose rate is its own from `settled` on.
    Trying { settled: Duration, before: f64 },
    /// It is decided.
    Done,
}

impl Policy {
    /// Takes in a window.
    pub fn observe(&mut self, seen: Sight) -> Advice {
        self.now += seen.span;
        if self.recent.len() == LOOKS {
            self.recent.pop_front();
        }
        self.recent.push_back(seen);
        match self.state {
            State::Usual => self.usual(seen),
            State::Trying { settled, before } => self.trying(settled, before),
            State::Done => Advice::Hold,
        }
    }

    /// It is not to be had here.
    pub fn refused(&mut self) {
        self.state = State::Done;
    }

    fn usual(&mut self, seen: Sight) -> Advice {
        let strikes = self.recent.iter().filter(|seen| seen.limit == Limit::PathLoss).count();
        let queued = self.recent.iter().any(|seen| seen.queue);
        if seen.limit != Limit::PathLoss || strikes < STRIKES || queued {
            return Advice::Hold;
        }
        // What slow start carried before its first loss is not what loss leaves.
        let before = rate(self.recent.iter().filter(|seen| seen.limit == Limit::PathLoss));
        let settle = SETTLE.max(seen.round_trip.unwrap_or_default() * SETTLE_ROUND_TRIPS);
        self.state = State::Trying { settled: self.now + settle, before };
        self.recent.clear();
        Advice::Bbr(before)
    }

    fn trying(&mut self, settled: Duration, before: f64) -> Advice {
        if self.now <= settled {
            self.recent.clear();
        }
        if self.recent.len() < LOOKS {
            return Advice::Hold;
        }
        // Where something else than the network held any of them, the two rates compare nothing.
        if !self.recent.iter().all(|seen| is_of_network(seen.limit)) {
            return Advice::Hold;
        }
        self.state = State::Done;
        let after = rate(&self.recent);
        if after < before * (1.0 - NOISE) { Advice::Back(before, after) } else { Advice::Hold }
    }
}

/// Bytes per second of these windows.
fn rate<'a>(windows: impl IntoIterator<Item = &'a Sight>) -> f64 {
    let sum = |(bytes, span): (f64, f64), seen: &Sight| {
        let time = seen.span.as_secs_f64();
        (bytes + seen.acked * time, span + time)
    };
    let (bytes, span) = windows.into_iter().fold((0.0, 0.0), sum);
    bytes / span.max(1e-3)
}

/// What the oldest lane of a window goes by, where its sender was seen.
pub fn of(window: &Window) -> Option<&str> {
    let known = |lane: &'_ &crate::evidence::LaneWindow| lane.sender.value().is_some();
    let oldest = window.lanes.iter().filter(known).min_by_key(|lane| lane.lane)?;
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
    /// Takes in a window. A lane that is new is no change, whatever it begins with.
    pub fn observe(&mut self, window: &Window) {
        for lane in &window.lanes {
            let Some(name) = lane.sender.value().and_then(|seen| seen.congestion_control.as_ref()) else {
                continue;
            };
            let before = self.known.insert(lane.lane, name.clone());
            let other = self.changes.last().is_none_or(|(_, last)| last != name);
            let changed = before.is_some_and(|before| before != *name);
            if other && (changed || self.changes.is_empty()) && self.changes.len() < MOST_CHANGES {
                self.changes.push((window.at, name.clone()));
            }
        }
        self.known.retain(|id, _| window.lanes.iter().any(|lane| lane.lane == *id));
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
    use crate::evidence::{LaneWindow, Reading};
    use proptest::prelude::*;

    const WINDOW: Duration = Duration::from_millis(100);

    fn sight(limit: Limit, acked: f64) -> Sight {
        Sight { span: WINDOW, limit, acked, round_trip: Some(Duration::from_millis(100)), queue: false }
    }

    /// In whole bytes a second: sums of tenths of a second are a little off.
    fn rounded(advice: Advice) -> Advice {
        match advice {
            Advice::Hold => Advice::Hold,
            Advice::Bbr(before) => Advice::Bbr(before.round()),
            Advice::Back(before, after) => Advice::Back(before.round(), after.round()),
        }
    }

    /// What was said over `windows`, with the number of the window.
    fn said(windows: impl IntoIterator<Item = Sight>) -> Vec<(usize, Advice)> {
        let mut policy = Policy::default();
        let advice = windows.into_iter().enumerate().map(|(at, seen)| (at, rounded(policy.observe(seen))));
        advice.filter(|(_, advice)| *advice != Advice::Hold).collect()
    }

    fn lossy(count: usize, acked: f64) -> impl Iterator<Item = Sight> {
        std::iter::repeat_n(sight(Limit::PathLoss, acked), count)
    }

    #[test]
    fn a_path_that_loses_is_left_to_bbr_and_stays_with_it() {
        let full = std::iter::repeat_n(sight(Limit::PathBandwidth, 2e7), 100);
        assert_eq!(said(lossy(5, 3e6).chain(full)), [(2, Advice::Bbr(3e6))]);
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
        assert_eq!(said([overflow].into_iter().chain(lossy(12, 8e6))), [(10, Advice::Bbr(8e6))]);
    }

    #[test]
    fn a_sight_is_of_most_lanes() {
        let lane = |rtt: u64, shortest: u64| {
            let [rtt, shortest] = [rtt, shortest].map(|time| Some(Duration::from_millis(time)));
            let sender = SenderWindow { rtt, min_rtt: shortest, ..SenderWindow::default() };
            LaneWindow { sender: Reading::Value(sender), ..LaneWindow::default() }
        };
        let queue = |lanes: Vec<LaneWindow>| {
            let window = Window { lanes, ..Window::default() };
            let seen = Sight::of(&window, Limit::PathLoss, 1.0);
            (seen.queue, seen.round_trip.map(|time| time.as_millis()))
        };
        assert_eq!(queue(vec![lane(130, 100), lane(130, 90), lane(50, 50)]), (true, Some(100)));
        assert_eq!(queue(vec![lane(120, 100), lane(60, 50)]), (false, Some(100)));
        assert_eq!(queue(vec![]), (false, None));
        // On a path of microseconds two wake-ups are no queue, and what was not read says nothing.
        let quick = SenderWindow {
            rtt: Some(Duration::from_micros(400)),
            min_rtt: Some(Duration::from_micros(100)),
            ..SenderWindow::default()
        };
        let unread = SenderWindow { min_rtt: None, ..quick.clone() };
        for sender in [quick, unread] {
            assert!(!queue(vec![LaneWindow { sender: Reading::Value(sender), ..LaneWindow::default() }]).0);
        }
    }

    #[test]
    fn what_brings_less_is_taken_back_once() {
        let slower = std::iter::repeat_n(sight(Limit::PathBandwidth, 8e6), 40);
        let then = lossy(100, 1e7);
        // Eighteen round trips of 100 ms to settle, and a second to measure.
        assert_eq!(
            said(lossy(3, 1e7).chain(slower).chain(then)),
            [(2, Advice::Bbr(1e7)), (2 + 18 + 10, Advice::Back(1e7, 8e6))]
        );
    }

    #[test]
    fn what_the_network_does_not_hold_proves_nothing() {
        let held = std::iter::repeat_n(sight(Limit::Disk, 1e6), 60);
        let free = std::iter::repeat_n(sight(Limit::PathBandwidth, 1e7), 60);
        assert_eq!(said(lossy(3, 1e7).chain(held).chain(free)), [(2, Advice::Bbr(1e7))]);
    }

    #[test]
    fn where_it_is_refused_it_is_not_asked_for_again() {
        let mut policy = Policy::default();
        let advice: Vec<Advice> = lossy(3, 1e6).map(|seen| rounded(policy.observe(seen))).collect();
        assert_eq!(advice.last(), Some(&Advice::Bbr(1e6)));
        policy.refused();
        assert!(lossy(100, 1e5).all(|seen| policy.observe(seen) == Advice::Hold));
    }

    #[test]
    fn a_change_is_of_a_lane_that_was_there() {
        let window = |at: u32, lanes: &[(u32, &str)]| {
            let lane = |(lane, name): &(u32, &str)| {
                let sender =
                    SenderWindow { congestion_control: Some((*name).to_owned()), ..SenderWindow::default() };
                LaneWindow { lane: *lane, sender: Reading::Value(sender), ..LaneWindow::default() }
            };
            Window { at: f64::from(at), lanes: lanes.iter().map(lane).collect(), ..Window::default() }
        };
        let mut controls = Controls::default();
        controls.observe(&Window::default());
        controls.observe(&window(1, &[(1, "cubic")]));
        controls.observe(&window(2, &[(1, "bbr"), (2, "cubic")]));
        controls.observe(&window(3, &[(1, "bbr"), (2, "bbr")]));
        // The old lanes broke, and what took their place has not followed yet.
        controls.observe(&window(4, &[(3, "cubic")]));
        controls.observe(&window(5, &[(3, "bbr")]));
        assert_eq!(controls.changes(), [(1.0, "cubic".to_owned()), (2.0, "bbr".to_owned())]);
        // One that says something else each time fills nothing.
        for at in 6..100 {
            controls.observe(&window(at, &[(3, if at % 2 == 0 { "cubic" } else { "bbr" })]));
        }
        assert_eq!(controls.changes().len(), MOST_CHANGES);
    }

    #[test]
    fn what_slow_start_carried_is_not_compared() {
        let fast = std::iter::repeat_n(sight(Limit::Latency, 9e7), 7);
        assert_eq!(said(fast.chain(lossy(3, 1e7))), [(9, Advice::Bbr(1e7))]);
    }

    proptest! {
        /// Whatever is seen, it changes its mind once at most.
        #[test]
        fn there_and_back_is_all(windows in proptest::collection::vec((0..Limit::ALL.len(), 0.0..1e9), 0..300)) {
            let windows = windows.into_iter().map(|(limit, acked)| sight(Limit::ALL[limit], acked));
            let said = said(windows);
            prop_assert!(said.len() <= 2);
            let kinds: Vec<bool> = said.iter().map(|(_, advice)| matches!(advice, Advice::Bbr(_))).collect();
            prop_assert!(matches!(kinds[..], [] | [true] | [true, false]));
        }
    }
}
