//! One loop's measured time: when it begins and ends, what was counted in it, and the processor time that it
//! took.

use std::time::Duration;

use weir_model::load::PlaceTime;
use weir_observe::thread::{ThreadClock, current_tid, thread_cpu_now};

use crate::spent::Silence;
use crate::tally::Tally;

/// How often rates are sampled, as wrk does it.
pub(crate) const SAMPLE: u64 = 100_000_000;

/// The meter of one loop; to be made, begun and ended on the loop's thread. Times are nanoseconds since the
/// run's start.
pub(crate) struct Meter {
    /// What has been counted.
    pub(crate) tally: Tally,
    /// When the measured time is over.
    pub(crate) to: u64,
    /// When to look around next.
    next_tick: u64,
    tick: u64,
    /// When the measured time should begin, and how long it should be.
    from: u64,
    span: u64,
    planned: bool,
    measuring: bool,
    measured_from: u64,
    cpu_at: Duration,
    runqueue_at: Option<Duration>,
    clock: Option<ThreadClock>,
    sampled_at: u64,
    sampled_requests: u64,
    sampled_bytes: u64,
    silence: Silence,
}

/// What a loop measured.
pub(crate) struct Measured {
    pub(crate) tally: Tally,
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    pub(crate) runqueue: Option<Duration>,
}

/// What has no answer at a loop's end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Left {
    /// Requests that are under way.
    pub(crate) under_way: u64,
    /// Planned requests that were due and never sent.
    pub(crate) unsent: u64,
}

impl Meter {
    /// Of a loop that measures between `from` and `to`, and whose requests may take `timeout`. `planned`:
    /// they have a time they are planned for.
    pub(crate) fn new(from: u64, to: u64, timeout: Duration, planned: bool) -> Meter {
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Meter {
            tally: Tally::new(planned),
            to,
            next_tick: 0,
            // A quarter of the time-out, so that one is noticed at most a quarter late.
            tick: (timeout / 4).clamp(1_000_000, SAMPLE),
            from,
            span: to - from,
            planned,
            measuring: false,
            measured_from: 0,
            cpu_at: Duration::ZERO,
            runqueue_at: None,
            clock: ThreadClock::open(current_tid()).ok(),
            sampled_at: 0,
            sampled_requests: 0,
            sampled_bytes: 0,
            silence: Silence::default(),
        }
    }

    /// When to look around next: see [`Meter::tick`].
    pub(crate) fn next_tick(&self) -> u64 {
        self.next_tick
    }

    /// Begins to measure once the warming up is over; says when to look around next.
    pub(crate) fn tick(&mut self, now: u64) {
        self.next_tick = now + self.tick;
        // Samples keep their own beat, however often time-outs are looked for.
        let due = self.sampled_at + SAMPLE;
        if due > now {
            self.next_tick = self.next_tick.min(due);
        }
        if !self.measuring && now >= self.from {
            self.begin(now);
        }
    }

    /// Begins to measure: what was counted before is forgotten, but for what the first answer looked like.
    pub(crate) fn begin(&mut self, now: u64) {
        self.measuring = true;
        self.measured_from = now;
        // As long as was asked for, also where this thread began late.
        self.to = now.saturating_add(self.span);
        let first = (self.tally.lengths.first, std::mem::take(&mut self.tally.first_head));
        self.tally = Tally::new(self.planned);
        (self.tally.lengths.first, self.tally.first_head) = first;
        (self.sampled_at, self.sampled_requests, self.sampled_bytes) = (now, 0, 0);
        self.cpu_at = thread_cpu_now();
        self.runqueue_at = self.runqueue();
    }

    /// Keeps the rates of a tenth of a second, when one is over.
    pub(crate) fn sample(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.sampled_at);
        if elapsed < SAMPLE {
            return;
        }
        let requests = self.tally.requests - self.sampled_requests;
        if requests > 0 {
            self.tally.rates.push((requests as f64 * 1e9 / elapsed as f64) as u64);
        }
        self.tally.byte_samples.push(self.tally.received - self.sampled_bytes);
        (self.sampled_requests, self.sampled_bytes) = (self.tally.requests, self.tally.received);
        self.sampled_at = now;
    }

    /// Some connection spent the time from `since` until `now` on this, as far as it was measured.
    pub(crate) fn spend(&mut self, on: fn(&mut PlaceTime) -> &mut Duration, since: u64, now: u64) {
        let measured = now.min(self.to).saturating_sub(since.max(self.measured_from));
        *on(&mut self.tally.spent.time) += Duration::from_nanos(measured);
    }

    /// Looks whether anything has come for the so many connections that wait; to be done at each tick.
    pub(crate) fn listen(&mut self, now: u64, waiting: usize) {
        let Meter { silence, tally, .. } = self;
        let still = silence.look(now, tally.received, waiting, 2 * SAMPLE, || tally.usual());
        tally.spent.time.still += still;
    }

    /// Charges a plan with the requests that have no answer at the `end`: when each was planned for, and for
    /// how many it stands. What they have waited is the least that they take; without it a server that stands
    /// still at the end would be charged with nothing. One that has waited for less than the median answer
    /// takes is like the others, and tells nothing of them.
    pub(crate) fn unanswered(&mut self, end: u64, planned: impl Iterator<Item = (u64, u64)>) {
        let usual = self.tally.usual().unwrap_or_default();
        for (planned, requests) in planned {
            let waited = end.saturating_sub(planned);
            if waited > usual {
                self.tally.waited(waited, requests);
            }
        }
    }

    /// The end, with what has no answer.
    pub(crate) fn end(mut self, now: u64, left: Left) -> Measured {
        if !self.measuring {
            self.begin(now);
        }
        let still = self.silence.end(|| self.tally.usual());
        self.tally.spent.time.still += still;
        let runqueue = self.runqueue().zip(self.runqueue_at).map(|(now, then)| now.saturating_sub(then));
        (self.tally.under_way, self.tally.unsent) = (left.under_way, left.unsent);
        Measured {
            wall: Duration::from_nanos(now.min(self.to).saturating_sub(self.measured_from)),
            cpu: thread_cpu_now().saturating_sub(self.cpu_at),
            runqueue,
            tally: self.tally,
        }
    }

    fn runqueue(&self) -> Option<Duration> {
        self.clock.as_ref()?.read().ok().map(|times| times.wait)
    }
}
