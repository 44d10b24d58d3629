//! The figures of a run, out of what was done and what was seen.

use std::collections::BTreeMap;

use weir_model::evidence::{Evidence, Interval};
use weir_model::limit::Limit;
use weir_model::verdict::explain;
use weir_units::stats::{high, sorted};

use crate::scenario::Quantity;
use crate::workload::Done;

/// Each by the name of its quantity; what does not apply to this run is left out.
pub(super) fn measure(done: &Done, near: &Evidence, far: &Evidence) -> BTreeMap<&'static str, f64> {
    let mut values = BTreeMap::new();
    let mut set = |quantity: Quantity, value: f64| {
        if value.is_finite() {
            values.insert(quantity.name(), value);
        }
    };
    let seconds = done.wall.as_secs_f64();
    set(Quantity::Seconds, seconds);
    set(Quantity::Rate, done.bytes as f64 / seconds);
    set(Quantity::ErrorPages, done.error_pages as f64);
    if let Some(code) = done.exit_code {
        set(Quantity::ExitCode, f64::from(code));
    }
    if let Some(busy) = busiest(near) {
        set(Quantity::Busy, busy);
    }
    if let Some(round_trip) = round_trip(far) {
        set(Quantity::RoundTrip, round_trip);
    }
    if let Some(on_disk) = on_disk(near, seconds) {
        set(Quantity::OnDisk, on_disk);
        set(Quantity::Written, done.bytes as f64 / seconds);
    }
    if let Some(knee) = done.evidence.as_ref().and_then(knee) {
        set(Quantity::KneeBytes, knee.bytes);
        set(Quantity::RateBeforeKnee, knee.before);
        set(Quantity::RateAfterKnee, knee.after);
    }
    values
}

/// The watched process's busiest thread: its share of one core while it moved bytes.
fn busiest(near: &Evidence) -> Option<f64> {
    let (mut cpu, mut span) = (0.0, 0.0);
    for interval in near.intervals.iter().filter(|interval| interval.received > 0) {
        let thread = interval.lanes.iter().find_map(|lane| lane.thread.value());
        if let Some(thread) = thread {
            cpu += thread.cpu.as_secs_f64();
            span += interval.span.as_secs_f64();
        }
    }
    (span > 0.0).then(|| cpu / span)
}

/// The median over all intervals of the sender's connections.
fn round_trip(far: &Evidence) -> Option<f64> {
    let lanes = far.intervals.iter().flat_map(|interval| &interval.lanes);
    let times = lanes.filter_map(|lane| lane.sender.value()?.rtt);
    high(&sorted(times.map(|time| time.as_secs_f64())), 1, 2)
}

/// Bytes per second that the output's device took during the work.
fn on_disk(near: &Evidence, seconds: f64) -> Option<f64> {
    let written: Vec<u64> =
        near.intervals.iter().filter_map(|interval| interval.disk.value()).map(|disk| disk.written).collect();
    (!written.is_empty()).then(|| written.iter().sum::<u64>() as f64 / seconds)
}

struct Knee {
    bytes: f64,
    before: f64,
    after: f64,
}

/// Where writing began to be paced to the disk: the first interval so judged. Rates are of writing, which the
/// knee slows.
fn knee(evidence: &Evidence) -> Option<Knee> {
    let verdict = explain(evidence);
    let at = verdict.intervals.iter().position(|limit| *limit == Some(Limit::DirtyThrottle))?;
    let sum = |intervals: &[Interval]| {
        intervals.iter().fold((0.0, 0.0), |(bytes, seconds), interval| {
            (bytes + interval.written as f64, seconds + interval.span.as_secs_f64())
        })
    };
    let (bytes, seconds) = sum(&evidence.intervals[..at]);
    let (later, rest) = sum(&evidence.intervals[at..]);
    Some(Knee { bytes, before: bytes / seconds, after: later / rest })
}
