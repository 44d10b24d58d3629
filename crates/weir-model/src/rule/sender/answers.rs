//! What an upload of weir's own waits for: the store's answers, or the way to it and back?
//!
//! It sends an object, or a part of one, and the store answers when it has it. While the answer is out the
//! lane's clock stands at the first byte; but the kernel may still send what was handed to it, so the wait is
//! the store's only in samples in which all was acknowledged and nothing was in flight. Over the last second:
//!
//! 1. the store takes long ([`slow_store`]) where such samples take two fifths of the lanes' time, the clocks
//!    say as much, and a wait is longer than two round trips and a store's ordinary work explain;
//! 2. round trips take the time ([`round_trips`]) where handshakes and waits take half of it, the objects are
//!    small, and a wait is no longer than that.
//!
//! What names take is no handshake, where the lanes' clocks tell it apart, nor is one that lasts longer than
//! round trips explain ([`long_handshakes`]).
//!
//! Can be wrong: a store behind a proxy that acknowledges for it; the path behind that proxy is in the wait
//! (1).

use std::collections::BTreeSet;

use super::flow::SMALL;
use crate::evidence::Interval;
use crate::rule::cpu_core::free_cores;
use crate::rule::spent::active;
use crate::rule::{Context, connect};
use crate::words::{percent, seconds};
use weir_units::counted;

/// A share of the time from which waits for answers are what holds the sender: as of a stage of a copy.
const LARGE: f64 = 0.4;

/// What a store's ordinary work on a small object may take beside the round trips, seconds.
const WORK: f64 = 0.005;

/// What a thread may wait for a processor that a dozen others want, in slices of 3 to 4 ms, seconds.
const TURN: f64 = 0.05;

/// How the lanes of an upload spent the last second.
struct Waited {
    /// Of their time, 0 to 1: in handshakes, and with an answer out.
    connecting: f64,
    out: f64,
    /// By the samples, of their time: an answer was out and nothing was in flight.
    rests: f64,
    /// Seconds of a wait for an answer, and how many were waited for.
    each: f64,
    requests: u64,
    /// Bytes that were acknowledged for one of them.
    size: f64,
    /// The path's shortest, seconds; `None` before a connection is there.
    round_trip: Option<f64>,
}

impl Waited {
    fn of(interval: &Interval, context: &Context<'_>) -> Option<Waited> {
        if !context.facts.uploads {
            return None;
        }
        let (mut lived, mut connecting, mut out, mut acked) = (0.0, 0.0, 0.0, 0.0);
        let (mut requests, mut looked_at, mut rests, mut waiting) = (0_u64, 0.0, 0.0, BTreeSet::new());
        for interval in std::iter::once(interval).chain(context.recent(1.0)) {
            for lane in &interval.lanes {
                let Some(seen) = lane.sender.value() else { continue };
                let active = active(lane, interval);
                lived += active;
                let handshakes = lane.connecting.saturating_sub(lane.resolving.unwrap_or_default());
                connecting += handshakes.as_secs_f64();
                out += lane.first_byte.as_secs_f64();
                acked += seen.acked as f64;
                if !lane.first_byte.is_zero() {
                    waiting.insert(lane.lane);
                }
                requests += u64::from(lane.requests);
                // On a busy machine an interval may pass without a look at a socket.
                if seen.looks > 0 {
                    looked_at += active;
                    // A lane that had nothing to do for most of the time was looked at as often as the
                    // others.
                    let resting =
                        f64::from(seen.nothing_in_flight.min(seen.awaiting)) / f64::from(seen.looks);
                    rests += active.min(resting * interval.span.as_secs_f64());
                }
            }
        }
        // Of each lane a wait that is not over yet is one.
        let requests = requests.max(waiting.len() as u64).max(1);
        (lived > 0.0).then(|| Waited {
            connecting: (connecting / lived).min(1.0),
            out: (out / lived).min(1.0),
            rests: if looked_at > 0.0 { (rests / looked_at).min(1.0) } else { 0.0 },
            each: out / requests as f64,
            requests,
            size: acked / requests as f64,
            round_trip: round_trip(interval, context),
        })
    }

    /// The wait is longer than round trips and ordinary work explain.
    fn is_long(&self, round_trip: f64) -> bool {
        self.each > 2.0 * round_trip + WORK
    }
}

/// The path's shortest round trip, seconds: of the last second, else of the first connection after it.
fn round_trip(interval: &Interval, context: &Context<'_>) -> Option<f64> {
    let of = |interval: &Interval| {
        interval
            .lanes
            .iter()
            .filter_map(|lane| lane.sender.value()?.min_rtt)
            .min()
            .map(|rtt| rtt.as_secs_f64())
    };
    let near = std::iter::once(interval).chain(context.recent(1.0)).filter_map(of).reduce(f64::min);
    near.or_else(|| context.after.iter().find_map(of)).filter(|rtt| *rtt > 0.0)
}

/// The numbers of a store that takes long to answer; `None` where round trips, bytes or nothing explain the
/// waits.
pub(crate) fn slow_store(interval: &Interval, context: &Context<'_>) -> Option<(f64, String)> {
    let waited = Waited::of(interval, context)?;
    let round_trip = waited.round_trip?;
    let share = waited.out.min(waited.rests);
    // Where a store on this machine has no processor to itself, a short wait is for one of them.
    let full = context.facts.peer_is_local && free_cores(interval).is_some_and(|free| free < 0.2);
    if full && waited.each < TURN {
        return None;
    }
    (share >= LARGE && waited.is_long(round_trip)).then(|| {
        let words = format!(
            "the store took {} to answer each of {}, {} of the connections' time; the round trip is {}",
            seconds(waited.each * share / waited.out),
            counted(waited.requests, "request"),
            percent(share),
            seconds(round_trip)
        );
        (share, words)
    })
}

/// Handshakes take an upload's time, and one of them lasts longer than round trips explain.
pub(crate) fn long_handshakes(interval: &Interval, context: &Context<'_>) -> bool {
    let take_time = |waited: Waited| waited.connecting >= 0.5;
    Waited::of(interval, context).is_some_and(take_time) && connect::is_long(interval, context)
}

/// The numbers of round trips that take an upload's time; `None` where it is bytes or the store.
pub(crate) fn round_trips(interval: &Interval, context: &Context<'_>) -> Option<(f64, String)> {
    let waited = Waited::of(interval, context)?;
    let round_trip = waited.round_trip?;
    // Handshakes that are over are no matter any more.
    let (connecting, out) = match interval.lanes.iter().any(|lane| !lane.connecting.is_zero()) {
        true => (waited.connecting, waited.out),
        false => (0.0, waited.out / (1.0 - waited.connecting).max(waited.out).max(1e-9)),
    };
    let share = (connecting + out).min(1.0);
    // What handshakes take is latency in any case; what answers take only of objects that slow start covers.
    let by_answers = waited.size <= SMALL && !waited.is_long(round_trip);
    if share < 0.5 || !(by_answers || connecting >= 0.5) {
        return None;
    }
    let handshakes = match connecting {
        0.005.. => format!("handshakes took {} and ", percent(connecting)),
        _ => String::new(),
    };
    let words = format!(
        "{handshakes}waits for answers took {} of the time: {} waited {} each, the round trip is {}",
        percent(out),
        counted(waited.requests, "request"),
        seconds(waited.each),
        seconds(round_trip)
    );
    Some((share.min(0.95), words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Evidence, Facts, LaneInterval, Reading};
    use crate::sender::SenderInterval;
    use std::time::Duration;

    /// A lane whose clock says that so many of its 100 ms were waits, and that rested in so many of ten
    /// samples.
    fn waits(millis: u64, rested: u32, requests: u32, round_trip: u64) -> Interval {
        let seen = SenderInterval {
            looks: 10,
            nothing_in_flight: rested,
            awaiting: rested,
            acked: 16 << 10,
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

    fn upload() -> Evidence {
        Evidence { facts: Facts { uploads: true, ..Facts::default() }, ..Evidence::default() }
    }

    #[test]
    fn only_waits_that_the_store_makes_are_its_own() {
        let evidence = upload();
        let judged = |interval: Interval| slow_store(&interval, &Context::alone(&evidence));
        let (share, words) = judged(waits(90, 8, 2, 1)).unwrap();
        assert!((share - 0.8).abs() < 1e-9);
        assert!(words.starts_with("the store took 40.0 ms to answer each of 2 requests, 80 %"), "{words}");
        assert_eq!(judged(waits(90, 1, 2, 1)), None, "the kernel still sends");
        assert_eq!(judged(waits(90, 8, 2, 30)), None, "round trips");
        assert_eq!(judged(waits(30, 8, 2, 1)), None, "something else than an answer is waited for");
    }

    #[test]
    fn waits_of_a_round_trip_are_the_paths_of_small_objects_alone() {
        let evidence = upload();
        let judged = |interval: Interval| round_trips(&interval, &Context::alone(&evidence));
        let (share, words) = judged(waits(90, 1, 1, 85)).unwrap();
        assert!((share - 0.9).abs() < 1e-9);
        assert!(
            words.starts_with("waits for answers took 90 % of the time: 1 request waited 90.0 ms"),
            "{words}"
        );
        assert_eq!(judged(waits(90, 8, 1, 1)), None, "the store's");
        assert_eq!(judged(waits(40, 1, 1, 85)), None, "something else than an answer is waited for");
        let mut large = waits(90, 1, 1, 85);
        let seen = large.lanes[0].sender.value().cloned().unwrap();
        large.lanes[0].sender = Reading::Value(SenderInterval { acked: 1 << 20, ..seen });
        assert_eq!(judged(large), None, "bytes");
    }

    #[test]
    fn a_handshake_is_waited_for_before_there_is_a_connection() {
        let mut evidence = upload();
        let lane = LaneInterval {
            connecting: Duration::from_millis(100),
            sender: Reading::Value(SenderInterval::default()),
            ..LaneInterval::default()
        };
        let span = Duration::from_millis(100);
        evidence.intervals =
            vec![Interval { span, lanes: vec![lane], ..Interval::default() }, waits(90, 1, 1, 85)];
        let (share, words) = round_trips(&evidence.intervals[0], &Context::at(&evidence, 0)).unwrap();
        assert!(share > 0.9 && words.starts_with("handshakes took 100 %"), "{words}");
    }
}
