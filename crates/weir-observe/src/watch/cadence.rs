//! How often is a transfer sampled, and when does an interval of evidence end? One answer for every watch:
//! that of weir's own lanes, of an end of a copy, of a measurement's streams, and of foreign sockets.

use std::time::{Duration, Instant};

use weir_model::evidence::{Interval, LaneInterval};

use crate::HostInterval;
use crate::stage_clock::{Stage, StageTimes};

/// Between two samples: a round trip of a path within a continent, and few enough that fifty a second cost
/// next to nothing.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// An interval of evidence: five samples, a few round trips, and ten ticks of the kernel's accounting of
/// processors.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// Nothing but a stop makes a watch that closes an interval every 100 ms so late: Ctrl-Z, a control group or
/// a machine that was frozen. A lane of the same program stood still with it.
const STOPPED: Duration = Duration::from_secs(1);

/// Where looks themselves take longer than that, a stop is a gap of this many usual intervals.
const TIMES: u32 = 4;

/// Cuts a run into intervals without gaps.
#[derive(Debug, Clone, Copy)]
pub struct Cadence {
    start: Instant,
    opened: Instant,
    least: Duration,
    /// What an interval has taken of late, where looks are what ends it.
    usual: Duration,
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
    /// The watch itself did not run for most of it, so that what its looks and clocks say of it is of no use.
    pub stood_still: bool,
}

impl Cadence {
    /// The run and its first interval begin at `now`; an interval lasts `least` at least.
    pub fn new(now: Instant, least: Duration) -> Cadence {
        Cadence { start: now, opened: now, least, usual: least }
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
        self.close_at_work(now, std::iter::empty(), Duration::ZERO)
    }

    /// The same of a process whose lanes' threads are seen: one that a quota (`throttled`) or others hold
    /// back comes late as well, and does not stand still.
    pub fn close_at_work<'a>(
        &mut self,
        now: Instant,
        lanes: impl Iterator<Item = &'a LaneInterval>,
        throttled: Duration,
    ) -> EndedInterval {
        let threads = lanes.filter_map(|lane| lane.thread.value());
        let ran = threads.map(|thread| thread.cpu.saturating_add(thread.runqueue)).max().unwrap_or_default();
        let at_work = ran.saturating_add(throttled);
        let (opened, span) = (self.opened, self.passed(now));
        self.opened = opened + span;
        let stood_still = span.saturating_sub(at_work) > STOPPED.max(self.usual.saturating_mul(TIMES));
        // A stop counts here too: an interval as long right after it is not taken for another.
        if self.least.is_zero() {
            self.usual = span;
        }
        let at = opened.saturating_duration_since(self.start).as_secs_f64();
        EndedInterval { at, span, opened, stood_still }
    }

    /// What was before does not count: the run begins with the interval under way.
    pub fn begin_anew(&mut self) {
        self.start = self.opened;
    }
}

impl EndedInterval {
    /// The evidence of the interval: what all lanes moved is the sum of what each did. Of one in which the
    /// watch stood still little more is left than that.
    pub fn evidence(&self, host: HostInterval, lanes: Vec<LaneInterval>) -> Interval {
        let interval = Interval {
            at: self.at,
            span: self.span,
            received: lanes.iter().fold(0, |sum: u64, lane| sum.saturating_add(lane.received)),
            objects: lanes.iter().fold(0, |sum: u32, lane| sum.saturating_add(lane.objects)),
            lanes,
            cpu: host.cpu,
            dirty: host.dirty,
            disk: host.disk,
            ..Interval::default()
        };
        if self.stood_still { interval.unseen() } else { interval }
    }

    /// `interval` with the pauses before another attempt of those at work in it: of each kind the longest.
    pub fn with_pauses<'a>(
        &self,
        interval: Interval,
        spent: impl Iterator<Item = &'a StageTimes> + Clone,
    ) -> Interval {
        let longest = |stage| {
            let times = spent.clone().map(|spent| spent.wall(stage));
            times.max().unwrap_or_default().min(self.span)
        };
        Interval {
            server_backoff: longest(Stage::Backoff),
            server_failing: longest(Stage::Failed),
            unreached: longest(Stage::Unreached),
            broken: longest(Stage::Broken),
            ..interval
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_model::evidence::{DiskInterval, Reading, ThreadInterval};

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
    fn a_time_in_which_the_watch_stood_still_tells_nothing() {
        let start = Instant::now();
        let after = |millis: u64| start + Duration::from_millis(millis);
        let mut cadence = Cadence::new(start, INTERVAL);
        assert!(!cadence.close(after(900)).stood_still, "a busy machine");
        let held = Duration::from_millis(1500);
        assert!(!cadence.close_at_work(after(3100), std::iter::empty(), held).stood_still, "a quota");
        let stop = cadence.close(after(18_100));
        let at_work = LaneInterval {
            received: 7,
            first_byte: stop.span,
            thread: Reading::Value(ThreadInterval::default()),
            ..LaneInterval::default()
        };
        let host = || HostInterval {
            cpu: Reading::default(),
            dirty: Reading::default(),
            disk: Reading::Value(DiskInterval::default()),
        };
        let evidence = stop.evidence(host(), vec![at_work.clone()]);
        assert_eq!((evidence.silent.watch, evidence.received), (Duration::from_secs(15), 7));
        assert!(evidence.disk.is_missing() && evidence.lanes[0].thread.is_missing());
        assert_eq!((evidence.lanes[0].first_byte, evidence.lanes[0].idle), (Duration::ZERO, stop.span));
        let seen = cadence.close(after(18_200)).evidence(host(), vec![at_work]);
        assert!(seen.silent.is_none() && !seen.disk.is_missing());
        // Where looks are what ends an interval, slow ones are no stop.
        let mut cadence = Cadence::new(start, Duration::ZERO);
        for (end, stood) in [(400, false), (1600, false), (4000, false), (16_000, true)] {
            assert_eq!(cadence.close(after(end)).stood_still, stood, "{end}");
        }
        let mut cadence = Cadence::new(start, Duration::ZERO);
        for (end, stood) in [(1500, true), (3000, false), (4500, false), (4600, false), (6600, true)] {
            assert_eq!(cadence.close(after(end)).stood_still, stood, "slow from the first on: {end}");
        }
    }

    #[test]
    fn a_clock_that_goes_back_makes_an_empty_interval() {
        let start = Instant::now() + Duration::from_secs(1);
        let mut cadence = Cadence::new(start, INTERVAL);
        assert_eq!(cadence.close(start - Duration::from_millis(5)).span, Duration::ZERO);
        assert_eq!(cadence.opened(), start);
    }
}
