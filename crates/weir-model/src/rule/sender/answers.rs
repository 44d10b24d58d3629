//! Does weir's own sender wait for the answers to what it has sent?
//!
//! It sends an object, or a part of one, and the store answers when it has it. While the answer is out the
//! lane's clock stands at the first byte; but the kernel may still send what was handed to it, so only
//! samples count in which all was acknowledged and nothing was in flight. Over the last second, on lanes that
//! ask: the wait is the store's where such samples take two fifths of the time, the clocks say as much, and a
//! wait is longer than what two round trips explain ([`slow_store`]).
//!
//! Can be wrong: a store behind a proxy that acknowledges for it; the path behind that proxy is in the wait.

use crate::evidence::{Clocks, Interval};
use crate::rule::Context;
use crate::rule::spent::active;
use crate::words::{count, percent, seconds};

/// A share of the time from which waits for answers are what holds the sender: as of a stage of a copy.
const LARGE: f64 = 0.4;

/// What a store's ordinary work on a small object may take beside the round trips, seconds.
const WORK: f64 = 0.005;

/// The numbers of a store that takes long to answer; `None` where round trips, bytes or nothing explain the
/// waits.
pub(crate) fn slow_store(interval: &Interval, context: &Context<'_>) -> Option<(f64, String)> {
    if context.facts.clocks != Clocks::Own {
        return None;
    }
    let (mut lived, mut out, mut requests) = (0.0, 0.0, 0_u64);
    let (mut looks, mut awaiting) = (0_u64, 0_u64);
    let mut round_trip = f64::INFINITY;
    for interval in std::iter::once(interval).chain(context.recent(1.0)) {
        for lane in &interval.lanes {
            let Some(seen) = lane.sender.value() else { continue };
            lived += active(lane, interval);
            out += lane.first_byte.as_secs_f64();
            requests += u64::from(lane.requests);
            looks += u64::from(seen.looks);
            awaiting += u64::from(seen.nothing_in_flight.min(seen.awaiting));
            if let Some(least) = seen.min_rtt {
                round_trip = round_trip.min(least.as_secs_f64());
            }
        }
    }
    if lived <= 0.0 || looks == 0 || !round_trip.is_finite() {
        return None;
    }
    let (waits, rests) = (out / lived, awaiting as f64 / looks as f64);
    // A wait that is not over yet is one.
    let each = out / requests.max(1) as f64;
    let share = waits.min(rests);
    (share >= LARGE && each > 2.0 * round_trip + WORK).then(|| {
        let words = format!(
            "the store took {} to answer each of {}, {} of the connections' time; the round trip is {}",
            seconds(each * share / waits),
            count(requests.max(1), "request"),
            percent(share),
            seconds(round_trip)
        );
        (share, words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Evidence, LaneInterval, Reading};
    use crate::sender::SenderInterval;
    use std::time::Duration;

    /// A lane whose clock says that so many of its 100 ms were waits, and that rested in so many of ten
    /// samples.
    fn waits(millis: u64, rested: u32, requests: u32, round_trip: u64) -> Interval {
        let seen = SenderInterval {
            looks: 10,
            nothing_in_flight: rested,
            awaiting: rested,
            min_rtt: Some(Duration::from_millis(round_trip)),
            ..SenderInterval::default()
        };
        let lane = LaneInterval {
            first_byte: Duration::from_millis(millis),
            requests,
            sender: Reading::Value(seen),
            ..LaneInterval::default()
        };
        Interval { span: Duration::from_millis(100), lanes: vec![lane], ..Interval::default() }
    }

    #[test]
    fn only_waits_that_the_store_makes_are_its_own() {
        let evidence = Evidence::default();
        let judged = |interval: Interval| slow_store(&interval, &Context::alone(&evidence));
        let (share, words) = judged(waits(90, 8, 2, 1)).unwrap();
        assert_eq!(share, 0.8);
        assert!(words.starts_with("the store took 40.0 ms to answer each of 2 requests, 80 %"), "{words}");
        assert_eq!(judged(waits(90, 1, 2, 1)), None, "the kernel still sends");
        assert_eq!(judged(waits(90, 8, 2, 30)), None, "round trips");
        assert_eq!(judged(waits(30, 8, 2, 1)), None, "something else than an answer is waited for");
    }
}
