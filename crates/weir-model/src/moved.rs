//! Did a watched program move anything at all? A verdict says what held a transfer; where none took place it
//! must not name whatever the program did meanwhile.

use std::time::Duration;

use crate::evidence::{Evidence, Interval};
use crate::limit::{Limit, QUARTER};
use crate::verdict::{MainLimit, Verdict};
use crate::words::{bytes, seconds};

/// Fewer payload bytes than this in a whole run are no transfer: the least answers that anybody waits for
/// have a hundred bytes of head, while a connection that is only kept alive has a byte or a few each way.
const LEAST: u64 = 100;

/// What a program that had no connection can be held by all the same: what comes before one, and its own
/// time.
const WITHOUT_CONNECTION: [Limit; 3] = [Limit::Connect, Limit::Dns, Limit::ThinkTime];

/// What keeps bytes from moving at all.
const WITHOUT_BYTES: [Limit; 4] = [Limit::Connect, Limit::Dns, Limit::PathMtu, Limit::Timeouts];

/// Takes the limit from a verdict on a run without a connection, and what was said of it, unless it needs
/// none. Nobody was seen who could be innocent.
pub fn without_connection(verdict: &mut Verdict) {
    if !is_of(verdict, &WITHOUT_CONNECTION) {
        withdraw(verdict);
    }
    verdict.innocent.clear();
}

/// Takes back what names a limit and what follows from it; the shares of the time stay as they were seen.
fn withdraw(verdict: &mut Verdict) {
    verdict.limit = None;
    verdict.confidence = 0.0;
    verdict.grounds = None;
    verdict.evidence.clear();
    verdict.innocent.clear();
    verdict.not_visible.clear();
    verdict.advice.clear();
}

fn is_of(verdict: &Verdict, limits: &[Limit]) -> bool {
    match verdict.limit {
        Some(MainLimit::One(limit)) => limits.contains(&limit),
        Some(MainLimit::Mixed) => {
            let main = verdict.shares.iter().filter(|(_, share)| **share > QUARTER);
            main.map(|(limit, _)| limit).all(|limit| limits.contains(limit))
        }
        None => false,
    }
}

/// Takes the limit from a verdict on a run that had connections and moved nothing, and says so; `true` where
/// it did.
///
/// What keeps bytes from moving at all stays: an attempt to connect, a resolver, packets that never pass,
/// timeouts. It can be wrong for a run that ends before its first answer, whose wait may have had a cause
/// that shows only in the rates of bytes.
pub fn say_if_nothing(evidence: &Evidence, verdict: &mut Verdict) -> bool {
    let carried = |interval: &Interval| {
        let sent =
            |lane: &crate::evidence::LaneInterval| lane.sender.value().map_or(0, |sender| sender.acked);
        let lanes = interval.lanes.iter().map(|lane| lane.received.max(sent(lane)));
        lanes.fold(0_u64, u64::saturating_add).max(interval.received)
    };
    let moved = evidence.intervals.iter().map(carried).fold(0_u64, u64::saturating_add);
    if moved >= LEAST || is_of(verdict, &WITHOUT_BYTES) || verdict.limit.is_none() {
        return false;
    }
    let spans = evidence.intervals.iter().map(|interval| interval.span);
    let span = spans.fold(Duration::ZERO, Duration::saturating_add);
    let moved = if moved == 0 { "no byte".to_owned() } else { bytes(moved as f64) };
    withdraw(verdict);
    verdict.missing.insert(0, format!("nothing moved: {moved} in {}", seconds(span.as_secs_f64())));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{LaneInterval, Reading, ThreadInterval};
    use crate::verdict::explain;

    fn busy_thread(received: u64) -> Evidence {
        let span = Duration::from_millis(100);
        let thread = ThreadInterval { cpu: span, looks: 5, ..ThreadInterval::default() };
        let lane = LaneInterval { received, thread: Reading::Value(thread), ..LaneInterval::default() };
        let interval = |at: u32| Interval {
            at: f64::from(at) * 0.1,
            span,
            received,
            lanes: vec![lane.clone()],
            ..Interval::default()
        };
        Evidence { intervals: (0..30).map(interval).collect(), ..Evidence::default() }
    }

    #[test]
    fn a_busy_program_with_idle_connections_is_no_full_core() {
        let mut idle = busy_thread(0);
        idle.intervals[7].lanes[0].received = 2;
        idle.intervals[7].received = 2;
        let mut verdict = explain(&idle);
        assert!(say_if_nothing(&idle, &mut verdict), "{verdict:?}");
        assert_eq!((verdict.limit, verdict.missing[0].as_str()), (None, "nothing moved: 2 B in 3.0 s"));
    }

    #[test]
    fn nothing_is_said_for_a_limit_that_was_taken_back() {
        let mut verdict = explain(&busy_thread(1_000_000));
        assert!(verdict.confidence > 0.0 && !verdict.evidence.is_empty() && !verdict.advice.is_empty());
        without_connection(&mut verdict);
        assert_eq!((verdict.limit, verdict.confidence), (None, 0.0));
        assert!(verdict.evidence.is_empty() && verdict.advice.is_empty(), "{verdict:?}");
    }

    #[test]
    fn what_moves_little_is_judged() {
        let slow = busy_thread(100);
        let mut verdict = explain(&slow);
        let before = verdict.clone();
        assert!(!say_if_nothing(&slow, &mut verdict));
        assert_eq!(verdict, before);
    }
}
