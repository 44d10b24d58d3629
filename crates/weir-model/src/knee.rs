//! Where memory stopped taking a run's writes, and what the disk then took.

use std::fmt;

use crate::evidence::Interval;
use crate::words::{bytes, rate};

/// Where memory stopped taking the writes: after how many bytes, and the rates before and after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Knee {
    /// Bytes written before pacing began.
    pub(crate) bytes: u64,
    /// Bytes per second written before; `None` when pacing began at once.
    pub(crate) before: Option<f64>,
    /// Bytes per second written from then on.
    pub(crate) after: f64,
}

impl Knee {
    /// In these intervals, of which `first` is the first that was paced.
    pub(crate) fn find(intervals: &[Interval], first: usize) -> Option<Knee> {
        let (before, after) = intervals.split_at(first);
        // A tail without writes (a digest, a sync) is no longer the phase whose rate is told.
        let last = after.iter().rposition(|interval| interval.written > 0).map_or(0, |last| last + 1);
        let written = |intervals: &[Interval]| {
            intervals.iter().fold(0u64, |sum, interval| sum.saturating_add(interval.written))
        };
        let rate_of = |intervals: &[Interval]| {
            let time: f64 = intervals.iter().map(|interval| interval.span.as_secs_f64()).sum();
            (time > 0.0).then(|| written(intervals) as f64 / time)
        };
        // Time without a byte (connecting, waiting for the answer) says nothing of how fast memory takes
        // them.
        let start = before.iter().position(|interval| interval.written > 0).unwrap_or(before.len());
        Some(Knee {
            bytes: written(before),
            before: rate_of(&before[start..]).filter(|rate| *rate > 0.0),
            after: rate_of(&after[..last])?,
        })
    }
}

impl fmt::Display for Knee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.before {
            Some(before) => write!(
                f,
                "memory took the first {} at {}; from then on writes were paced to {}",
                bytes(self.bytes as f64),
                rate(before),
                rate(self.after)
            ),
            None => write!(f, "writes were paced from the start, to {}", rate(self.after)),
        }
    }
}
