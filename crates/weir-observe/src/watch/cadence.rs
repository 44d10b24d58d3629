//! How often is a transfer sampled, and when does an interval of evidence end? One answer for every watch:
//! that of weir's own lanes, of an end of a copy, of a measurement's streams, and of foreign sockets.

use std::time::{Duration, Instant};

use weir_model::evidence::{Interval, LaneInterval};

use crate::HostInterval;

/// Between two samples: a round trip of a path within a continent, and few enough that fifty a second cost
/// next to nothing.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// An interval of evidence: five samples, a few round trips, and ten ticks of the kernel's accounting of
/// processors.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// Cuts a run into intervals without gaps.
#[derive(Debug, Clone, Copy)]
pub struct Cadence {
    start: Instant,
    opened: Instant,
    least: Duration,
}

/// One interval that has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EndedInterval {
    /// Seconds from the start of the run to its own.
    pub at: f64,
    /// Its length.
    pub span: Duration,
    /// When it began.
    pub opened: Instant,
}

impl Cadence {
    /// The run and its first interval begin at `now`; an interval lasts `least` at least.
    pub fn new(now: Instant, least: Duration) -> Cadence {
        Cadence { start: now, opened: now, least }
    }

    /// When the interval under way began.
    pub fn opened(&self) -> Instant {
        self.opened
    }

    /// How long the run has lasted.
    pub fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start)
    }

    /// How long the interval under way has.
    pub fn passed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.opened)
    }

    /// Whether it has lasted long enough.
    pub fn is_due(&self, now: Instant) -> bool {
        self.passed(now) >= self.least
    }

    /// Whether the rest of a run is long enough to be an interval by itself: a sliver has too few samples to
    /// be judged.
    pub fn is_half_due(&self, now: Instant) -> bool {
        self.passed(now) >= self.least / 2
    }

    /// Ends it, and begins the next.
    pub fn close(&mut self, now: Instant) -> EndedInterval {
        let (opened, span) = (self.opened, self.passed(now));
        self.opened = opened + span;
        EndedInterval { at: opened.saturating_duration_since(self.start).as_secs_f64(), span, opened }
    }

    /// What was before does not count: the run begins with the interval under way.
    pub fn begin_anew(&mut self) {
        self.start = self.opened;
    }
}

impl EndedInterval {
    /// The evidence of the interval: what all lanes moved is the sum of what each did.
    pub fn evidence(&self, host: HostInterval, lanes: Vec<LaneInterval>) -> Interval {
        Interval {
            at: self.at,
            span: self.span,
            received: lanes.iter().fold(0, |sum: u64, lane| sum.saturating_add(lane.received)),
            objects: lanes.iter().fold(0, |sum: u32, lane| sum.saturating_add(lane.objects)),
            lanes,
            cpu: host.cpu,
            dirty: host.dirty,
            disk: host.disk,
            ..Interval::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_one_another_without_gaps() {
        let start = Instant::now();
        let after = |millis: u64| start + Duration::from_millis(millis);
        let mut cadence = Cadence::new(start, INTERVAL);
        assert!(!cadence.is_due(after(99)) && cadence.is_due(after(100)));
        let first = cadence.close(after(130));
        let second = cadence.close(after(240));
        assert_eq!((first.at, first.span, first.opened), (0.0, Duration::from_millis(130), start));
        assert_eq!((second.at, second.span, second.opened), (0.13, Duration::from_millis(110), after(130)));
        assert_eq!((cadence.opened(), cadence.elapsed(after(300))), (after(240), Duration::from_millis(300)));
        cadence.begin_anew();
        assert_eq!(cadence.close(after(340)).at, 0.0);
    }

    #[test]
    fn a_clock_that_goes_back_makes_an_empty_interval() {
        let start = Instant::now() + Duration::from_secs(1);
        let mut cadence = Cadence::new(start, INTERVAL);
        assert_eq!(cadence.close(start - Duration::from_millis(5)).span, Duration::ZERO);
        assert_eq!(cadence.opened(), start);
    }
}
