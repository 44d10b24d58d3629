//! Which intervals of a run count: those of the transfer, and not the watch's wait before it and after.

use std::ops::Range;
use std::time::Duration;

use crate::evidence::{Clocks, Evidence, Interval};
use crate::rule::{Context, View};

/// The intervals that count. Of a foreign transfer the watch may begin before its first byte and last beyond
/// its last: nobody then holds anything, least of all an application that has finished. A run of our own
/// counts whole, an upload from what it reads first to the last answer.
pub(super) fn counted(evidence: &Evidence) -> Range<usize> {
    let intervals = &evidence.intervals;
    let moves = |(index, interval): (usize, &Interval)| {
        let foreign = evidence.facts.clocks == Clocks::Sampled
            || !evidence.facts.uploads && View::of(interval, &Context::at(evidence, index)).sender_only();
        !foreign || at_work(interval)
    };
    let head = start_up(intervals);
    let first = intervals.iter().enumerate().position(|of| of.0 >= head && moves(of));
    let last = intervals.iter().enumerate().rposition(moves);
    let counted = match (first, last) {
        (Some(first), Some(last)) => first..last + 1,
        _ => 0..intervals.len(),
    };
    // A run that never moved was idle all the time, and that is then what there is to say.
    let takes_time = intervals[counted.clone()].iter().any(|interval| !interval.span.is_zero());
    if takes_time { counted } else { 0..intervals.len() }
}

/// What comes before the first attempt for longer than this is more than a program's start.
const START_UP: Duration = Duration::from_secs(2);

/// How many intervals are the start-up of a program that never gets a connection: those before its first
/// attempt at one. They stand between no transfers; what takes longer is the program's own time.
fn start_up(intervals: &[Interval]) -> usize {
    let head = intervals.iter().take_while(|interval| !interval.around.tries());
    let span = head.clone().map(|interval| interval.span).fold(Duration::ZERO, Duration::saturating_add);
    if span <= START_UP && never_connects(intervals) { head.count() } else { 0 }
}

/// The program had no connection at any sample, and attempts of it failed.
fn never_connects(intervals: &[Interval]) -> bool {
    let connected = |interval: &Interval| {
        let around = &interval.around;
        around.busy > 0 || around.owing > 0 || around.rest.open > 0 || interval.received > 0
    };
    let failed = intervals.iter().any(|interval| interval.around.own_failed_attempts > 0);
    failed && !intervals.iter().any(connected)
}

/// Bytes move, lie in a socket, or are owed or waited for.
fn at_work(interval: &Interval) -> bool {
    interval.received > 0
        || interval.written > 0
        || !interval.silent.sender.is_zero()
        || !interval.silent.receiver.is_zero()
        || interval.around.counts()
        || interval.lanes.iter().any(|lane| {
            let waits = [lane.connecting, lane.first_byte, lane.output_wait, lane.write];
            let unread = lane.tcp.value().is_some_and(|tcp| tcp.receive_queue.unwrap_or(0) > 0);
            let sends = lane.sender.value().is_some_and(|seen| {
                seen.acked > 0 || seen.in_flight > 0 || seen.unsent > 0 || seen.owing > 0
            });
            let beyond_a_hole = lane.waits.value().is_some_and(|waits| waits.hole > 0);
            waits.iter().any(|wait| !wait.is_zero()) || unread || beyond_a_hole || sends || lane.received > 0
        })
}
