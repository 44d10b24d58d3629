//! What a copy will reach, told from its own first moments, so that at its end both stand side by side.
//!
//! Slow start and the first codec are over after about a second. Where the path then is the limit, the codec
//! that the law wants may still be on its way, and its sender knows what the law expects: that is the
//! forecast. Where something else holds, what was seen goes on.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::Rate;

use crate::evidence::{Evidence, Interval};
use crate::limit::Limit;
use crate::merge::merged;
use crate::rule::Context;
use crate::verdict::judge_interval;

/// From the first byte on: slow start of 60 MB in flight takes twelve round trips, and the chooser three
/// windows of a full link.
const START: Duration = Duration::from_millis(1500);

/// The part of that which counts.
const SEEN: Duration = Duration::from_millis(700);

/// Arrivals in it at least: blocks come whole, on a slow link one in several intervals. Counted from behind
/// one arrival to the end of another they are off by an interval's length at most, over four of them by a
/// tenth.
const ARRIVALS: usize = 4;

/// How far the sender's word may lie from what is seen, before it is taken for a mistake: the strongest codec
/// against the first one brings no more.
const LIKELY: std::ops::RangeInclusive<f64> = 0.8..=2.5;

/// What is foretold, and from what.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Bytes of payload per second.
    pub rate: Rate,
    /// How much of the run it was made from, counted from its first byte.
    pub from: Duration,
    /// What held the copy then.
    pub limit: Limit,
}

/// The forecast, once enough of the run was seen. `outlook` is what the sender's law expects of the link as
/// it is.
pub fn from_start(evidence: &Evidence, outlook: Option<Rate>) -> Option<Forecast> {
    let intervals = &evidence.intervals;
    let first = intervals.iter().position(|interval| interval.received > 0)?;
    // Saturating: whatever a far end tells must not overflow.
    let all = intervals[first..].iter().map(|interval| interval.span);
    let mut from = all.fold(Duration::ZERO, Duration::saturating_add);
    if from < START {
        return None;
    }
    let came = |interval: &Interval| interval.received > 0;
    let last = intervals.iter().rposition(came)?;
    let (mut counted, mut span, mut arrivals) = (last + 1, Duration::ZERO, 0);
    while span < SEEN || arrivals < ARRIVALS || !came(&intervals[counted - 1]) {
        counted -= 1;
        if counted <= first {
            return None;
        }
        span = span.saturating_add(intervals[counted].span);
        arrivals += usize::from(came(&intervals[counted]));
    }
    let seen = merged(&intervals[counted..=last]);
    let rate = Rate::of(seen.received, seen.span);
    let limit = judge_interval(&seen, &Context::alone(evidence)).limit;
    let by_path = matches!(
        limit,
        Limit::PathBandwidth
            | Limit::PathLoss
            | Limit::ReceiveWindow
            | Limit::SendBuffer
            | Limit::SenderOrPath
    );
    let outlook = outlook.filter(|outlook| by_path && LIKELY.contains(&(outlook.0 / rate.0)));
    from = from.max(span);
    let most = most_allowed(&seen, evidence.facts.rate_cap);
    let rate = Rate(outlook.unwrap_or(rate).0.min(most));
    (rate.0 > 0.0).then_some(Forecast { rate, from, limit })
}

/// Payload per second that the user's own limit lets through: what was seen may hold its first burst. It is a
/// limit on what the network carries, and payload is as many times that as the codecs save.
fn most_allowed(seen: &Interval, rate_cap: Option<f64>) -> f64 {
    let Some(cap) = rate_cap.filter(|cap| *cap > 0.0) else { return f64::INFINITY };
    let codecs = seen.sending.value().into_iter().flat_map(|stages| stages.codecs.values());
    let (raw, packed) = codecs
        .fold((0.0, 0.0), |(raw, packed), shrunk| (raw + shrunk.raw as f64, packed + shrunk.packed as f64));
    if raw > 0.0 && packed > 0.0 { cap * (raw / packed).max(1.0) } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Reading;
    use crate::stages::{Shrunk, Stages};

    fn run(millis: u64) -> Evidence {
        let interval = |at: u64| Interval {
            at: at as f64 / 1e3,
            span: Duration::from_millis(100),
            // Half a second of nothing, then half a second of slow start.
            received: if at < 500 {
                0
            } else if at < 1000 {
                100_000
            } else {
                1_000_000
            },
            ..Interval::default()
        };
        Evidence { intervals: (0..millis / 100).map(|n| interval(n * 100)).collect(), ..Evidence::default() }
    }

    #[test]
    fn nothing_is_foretold_before_enough_was_seen() {
        assert_eq!(from_start(&run(1900), None), None);
        assert_eq!(from_start(&Evidence::default(), Some(Rate(1.0))), None);
        let forecast = from_start(&run(2000), None).unwrap();
        assert!((forecast.rate.0 - 1e7).abs() < 1.0, "{forecast:?}");
        assert_eq!(forecast.from, Duration::from_millis(1500));
    }

    #[test]
    fn the_law_counts_where_the_path_holds_and_its_word_is_likely() {
        // Nothing is known of these intervals but their bytes: the path is as likely as the sender.
        let rate = |outlook: f64| from_start(&run(2000), Some(Rate(outlook))).unwrap().rate.0.round();
        assert_eq!(rate(1.3e7), 1.3e7);
        assert_eq!(rate(9e7), 1e7);
        assert_eq!(rate(f64::INFINITY), 1e7);
    }

    #[test]
    fn no_more_is_foretold_than_the_user_allows_the_network() {
        let foretold = |packed| {
            let mut run = run(2000);
            run.facts.rate_cap = Some(8e6);
            for interval in &mut run.intervals {
                let codecs = [("zstd:3".to_owned(), Shrunk { raw: 1_000_000, packed })].into();
                interval.sending = Reading::Value(Stages { codecs, ..Stages::default() });
            }
            from_start(&run, None).map(|forecast| forecast.rate.0.round())
        };
        assert_eq!(foretold(1_000_000), Some(8e6));
        assert_eq!(foretold(500_000), Some(1e7), "what shrinks arrives faster");
    }

    #[test]
    fn a_slow_link_brings_blocks_one_by_one() {
        // A block of 1 MiB every 600 ms.
        let mut slow = run(0);
        let mut foretold = Vec::new();
        for at in (0..8000).step_by(100) {
            let received = if at % 600 == 0 { 1 << 20 } else { 0 };
            let span = Duration::from_millis(100);
            slow.intervals.push(Interval { at: f64::from(at) / 1e3, span, received, ..Interval::default() });
            foretold
                .extend(from_start(&slow, None).map(|forecast| forecast.rate.0 / ((1 << 20) as f64 / 0.6)));
        }
        assert!(
            foretold.len() > 40 && foretold.iter().all(|share| (share - 1.0).abs() < 1e-9),
            "{foretold:?}"
        );
    }
}
