//! The waits of one lane in the judged interval, and what the intervals around it add to them.

use super::Context;
use super::spent::active;
use crate::evidence::{Interval, LaneInterval};
use crate::waits::{Stall, Waits};

/// One lane's waits over the judged interval and up to `seconds` on each side of it, with the seconds that
/// the lane lived.
pub(crate) fn around(
    lane: &LaneInterval,
    interval: &Interval,
    context: &Context<'_>,
    seconds: f64,
) -> Option<(Waits, f64)> {
    let mut waits = lane.waits.value()?.clone();
    let mut time = active(lane, interval);
    let mut order: Vec<&Interval> = context.recent(seconds).collect();
    order.extend(context.following(seconds));
    for (other, same) in order.into_iter().filter_map(|interval| Some((interval, of(lane.lane, interval)?))) {
        if let Some(next) = same.waits.value() {
            waits.join(next);
            time += active(same, other);
        }
    }
    Some((waits, time))
}

/// The stall in which a lane is found in this interval, with hindsight: the first that ends from here on, if
/// nothing came before that. Up to 20 s: RTOs double from 0.2 s, and after six the connection is as good as
/// gone.
pub(crate) fn ending(lane: &LaneInterval, interval: &Interval, context: &Context<'_>) -> Option<Stall> {
    const REACH: f64 = 20.0;
    let here = lane.waits.value()?;
    let longest = |waits: &Waits| waits.stalls.iter().max_by_key(|stall| stall.lasted).copied();
    if let Some(stall) = longest(here) {
        return Some(stall);
    }
    // Seconds from this interval's start to the end of the one looked at: a stall that is shorter began
    // later.
    let mut since = interval.span.as_secs_f64();
    for next in context.following(REACH) {
        since += next.span.as_secs_f64();
        let waits = of(lane.lane, next)?.waits.value()?;
        if let Some(stall) = longest(waits) {
            let covers = stall.lasted.as_secs_f64() + 0.5 * interval.span.as_secs_f64()
                >= since - next.span.as_secs_f64();
            return covers.then_some(stall);
        }
        if waits.stalled == 0 && waits.came > 0 {
            return None;
        }
    }
    None
}

/// One stretch of a lane in which it did what `does` says of each interval, the given one among them, in
/// order of time. An interval of which `ends` is true is the last of its stretch.
pub(crate) fn stretch<'a: 'w, 'w>(
    lane: &'w LaneInterval,
    context: &Context<'a>,
    does: impl Fn(&LaneInterval) -> bool,
    ends: impl Fn(&LaneInterval) -> bool,
) -> Vec<&'w LaneInterval> {
    let (before, after): (&'w [Interval], &'w [Interval]) = (context.before, context.after);
    let same = |other: &'w Interval| of(lane.lane, other).filter(|other| does(other));
    let earlier = before.iter().rev().map_while(&same).take_while(|other| !ends(other));
    let mut order: Vec<&'w LaneInterval> = earlier.collect();
    order.reverse();
    order.push(lane);
    if ends(lane) {
        return order;
    }
    for other in after.iter().map_while(&same) {
        order.push(other);
        if ends(other) {
            break;
        }
    }
    order
}

/// The lane of that number in an interval.
pub(crate) fn of(lane: u32, interval: &Interval) -> Option<&LaneInterval> {
    interval.lanes.iter().find(|other| other.lane == lane)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::evidence::{Evidence, Reading};
    use crate::waits::Ended;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_stall_covers_the_windows_before_its_end_and_no_others() {
        let lane =
            |waits: Waits| LaneInterval { lane: 1, waits: Reading::Value(waits), ..LaneInterval::default() };
        let quiet = || lane(Waits { looks: 5, stalled: 5, ..Waits::default() });
        let ended = || {
            let stalls = vec![Stall { lasted: ms(200), ended: Ended::Timeout, asked: 0 }];
            lane(Waits { looks: 5, stalls, ..Waits::default() })
        };
        let interval = |lane| Interval { span: ms(100), lanes: vec![lane], ..Interval::default() };
        let intervals = vec![
            interval(quiet()),
            interval(quiet()),
            interval(quiet()),
            interval(quiet()),
            interval(ended()),
        ];
        let evidence = Evidence { intervals, ..Evidence::default() };
        let found: Vec<bool> = (0..5)
            .map(|at| {
                let interval = &evidence.intervals[at];
                ending(&interval.lanes[0], interval, &Context::at(&evidence, at)).is_some()
            })
            .collect();
        assert_eq!(found, [false, false, true, true, true]);
    }
}
