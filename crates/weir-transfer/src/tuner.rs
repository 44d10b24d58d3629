//! How many lanes? The verdict proposes, the goodput decides.
//!
//! Pure: time and readings come in as arguments. The tuner starts with one lane. Where the verdict names a limit that more
//! connections can lift, or one that cannot be told from here without trying, it doubles the lanes as a trial: it waits
//! until each new lane has had its first byte and its slow start, measures, and keeps the new count only if it brought at
//! least a quarter of what that many lanes could bring. Otherwise it goes back and waits longer before it tries again. Where
//! the verdict names the disk or this machine, it steps down.

use std::time::Duration;

use weir_model::evidence::Trial;
use weir_model::limit::Limit;

/// What a window showed.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// Time since the start of the run, at the window's end.
    pub now: Duration,
    /// The window's length.
    pub span: Duration,
    /// Payload bytes in the window.
    pub bytes: u64,
    /// Lanes at work on bulk objects at the window's end.
    pub lanes: u32,
    /// Of these, lanes that have had a byte of their answer.
    pub started: u32,
    /// The judge's word on the window.
    pub limit: Limit,
    /// Share of all processors' time that was free, in processors: 0.4 of 2.
    pub free_cpus: f64,
    /// Processors that the lanes themselves kept busy.
    pub own_cpu: f64,
    /// Bytes still to come; `None` when the size is not known.
    pub left: Option<u64>,
    /// The server refused or cut a lane beyond the first in this window.
    pub refused: bool,
}

/// What to do with the lane count.
#[derive(Debug, Clone, PartialEq)]
pub enum Advice {
    /// Nothing.
    Hold,
    /// Use this many lanes, because.
    Lanes(u32, String),
}

/// The policy's state.
#[derive(Debug)]
pub struct Tuner {
    max: u32,
    lanes: u32,
    state: State,
    /// Goodput of the last windows, newest last: (span, bytes, limit).
    recent: Vec<(Duration, u64, Limit)>,
    not_before: Duration,
    failures: u32,
    ceiling: u32,
    scaled: bool,
    trials: Vec<Trial>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Steady,
    /// New lanes are connecting; the rate before, and since when.
    Joining {
        before: f64,
        from: u32,
        since: Duration,
        bytes: u64,
    },
    /// All have started; measuring begins at `from_time`.
    Measuring {
        before: f64,
        from: u32,
        start: Duration,
        bytes: u64,
        until: Duration,
    },
}

/// Slow start of the first lane: ten round trips at 40 ms reach 15 MB in flight, enough for any lane.
const FIRST_LOOK: Duration = Duration::from_millis(400);

/// A new lane's slow start after its first byte.
const SETTLE: Duration = Duration::from_millis(250);

/// Long enough for four windows, short against any transfer that is worth a trial.
const MEASURE: Duration = Duration::from_millis(400);

/// A lane that has no first byte after this long counts as not served.
const JOIN: Duration = Duration::from_millis(1500);

/// Doubling must bring a quarter of the doubling: above the noise of two 400 ms readings, below what a shared
/// bottleneck gives to a second flow by chance.
const WORTH: f64 = 0.25;

/// With less than this left a trial cannot pay for itself.
const WORTHWHILE: Duration = Duration::from_secs(1);

impl Tuner {
    /// A tuner that uses at most `max` lanes.
    pub fn new(max: u32) -> Tuner {
        Tuner {
            max,
            lanes: 1,
            state: State::Steady,
            recent: Vec::new(),
            not_before: FIRST_LOOK,
            failures: 0,
            ceiling: max,
            scaled: false,
            trials: Vec::new(),
        }
    }

    /// The trials so far.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The count it wants.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Takes a window in and says what to change.
    pub fn observe(&mut self, seen: &Observation) -> Advice {
        self.recent.push((seen.span, seen.bytes, seen.limit));
        if self.recent.len() > 8 {
            self.recent.remove(0);
        }
        if seen.refused && self.lanes > 1 {
            return self.refused(seen);
        }
        match self.state {
            State::Steady => self.steady(seen),
            State::Joining { before, from, since, bytes } => {
                let bytes = bytes + seen.bytes;
                self.state = State::Joining { before, from, since, bytes };
                self.joining(seen, before, from, since, bytes)
            }
            State::Measuring { before, from, start, bytes, until } => {
                let bytes = bytes + seen.bytes;
                if seen.now < until {
                    self.state = State::Measuring { before, from, start, bytes, until };
                    return Advice::Hold;
                }
                let after = bytes as f64 / (seen.now - start).as_secs_f64().max(1e-3);
                self.conclude(seen, before, from, after)
            }
        }
    }

    fn steady(&mut self, seen: &Observation) -> Advice {
        let last = &self.recent[self.recent.len().saturating_sub(4)..];
        if self.lanes > 1 && last.len() == 4 && last.iter().all(|window| is_local(window.2)) {
            self.lanes = (self.lanes / 2).max(1);
            self.wait(seen.now, 2);
            return Advice::Lanes(
                self.lanes,
                format!("{} is the limit, more lanes only disturb it", seen.limit),
            );
        }
        if seen.now < self.not_before || self.lanes >= self.max.min(self.ceiling) || last.len() < 3 {
            return Advice::Hold;
        }
        let rate = rate(last);
        let worthwhile = seen.left.is_some_and(|left| left as f64 > rate * WORTHWHILE.as_secs_f64());
        let hopeful = last.iter().filter(|window| may_help(window.2, seen)).count() * 2 > last.len();
        if !worthwhile || !hopeful || rate <= 0.0 || still_growing(last) {
            return Advice::Hold;
        }
        let from = self.lanes;
        // Each lane brought its full share last time: the next step may be larger.
        let step = if self.scaled { 4 } else { 2 };
        self.lanes = (from * step).min(self.max).min(self.ceiling);
        self.state = State::Joining { before: rate, from, since: seen.now, bytes: 0 };
        Advice::Lanes(self.lanes, format!("{} at {}; trying {} lanes", seen.limit, show(rate), self.lanes))
    }

    fn joining(&mut self, seen: &Observation, before: f64, from: u32, since: Duration, bytes: u64) -> Advice {
        if seen.started >= self.lanes {
            let start = seen.now + SETTLE;
            self.state = State::Measuring { before, from, start: seen.now, bytes: 0, until: start + MEASURE };
            return Advice::Hold;
        }
        if seen.now - since < JOIN {
            return Advice::Hold;
        }
        if seen.started > from {
            // Some were served: judge those.
            self.lanes = seen.started;
            self.ceiling = seen.started;
            let until = seen.now + MEASURE;
            self.state = State::Measuring { before, from, start: seen.now, bytes: 0, until };
            return Advice::Lanes(
                self.lanes,
                format!("the server serves {} connections at once", seen.started),
            );
        }
        let after = bytes as f64 / (seen.now - since).as_secs_f64().max(1e-3);
        let refused = self.conclude(seen, before, from, after.min(before));
        match refused {
            Advice::Lanes(lanes, _) => {
                Advice::Lanes(lanes, format!("the server serves only {from} at once; back to {lanes}"))
            }
            Advice::Hold => Advice::Hold,
        }
    }

    fn conclude(&mut self, seen: &Observation, before: f64, from: u32, after: f64) -> Advice {
        let wanted = f64::from(self.lanes) / f64::from(from) - 1.0;
        let gained = after / before.max(1.0) - 1.0;
        let kept = gained >= WORTH * wanted;
        self.scaled = gained >= 0.85 * wanted;
        if self.recent.iter().filter(|window| is_local(window.2)).count() * 2 > self.recent.len() {
            // This side became the limit meanwhile: the two rates are of different limits and compare nothing.
            self.lanes = from;
            self.state = State::Steady;
            self.wait(seen.now, 4);
            return Advice::Lanes(from, format!("{} came in between; back to {from}", seen.limit));
        }
        self.trials.push(Trial {
            at: seen.now.as_secs_f64(),
            lanes_before: from,
            lanes_after: self.lanes,
            rate_before: before,
            rate_after: after,
            kept,
        });
        self.state = State::Steady;
        self.recent.clear();
        let text = format!("{} lanes brought {} after {}", self.lanes, show(after), show(before));
        if kept {
            self.failures = 0;
            self.not_before = seen.now;
            if !self.scaled {
                // Keep as many as the gain pays for.
                let paid = (f64::from(from) * (1.0 + gained)).round() as u32;
                self.lanes = paid.clamp(from + 1, self.lanes);
            }
            return Advice::Lanes(self.lanes, format!("{text}; keeping {}", self.lanes));
        }
        self.lanes = from;
        self.failures += 1;
        self.wait(seen.now, 4 << self.failures.min(6));
        Advice::Lanes(from, format!("{text}; back to {from}"))
    }

    fn refused(&mut self, seen: &Observation) -> Advice {
        self.ceiling = (self.lanes / 2).max(1);
        self.lanes = self.ceiling;
        self.state = State::Steady;
        self.wait(seen.now, 10);
        Advice::Lanes(self.lanes, "the server refused more connections".to_owned())
    }

    fn wait(&mut self, now: Duration, seconds: u64) {
        self.not_before = now + Duration::from_secs(seconds);
    }
}

/// This side holds the transfer after the bytes have come.
fn is_local(limit: Limit) -> bool {
    matches!(limit, Limit::DirtyThrottle | Limit::Disk | Limit::Reader | Limit::Verify)
}

/// More connections can lift this limit, or trying them is the only way to know.
fn may_help(limit: Limit, seen: &Observation) -> bool {
    match limit {
        // A lane that mostly waits gets the little it needs even on a busy machine.
        Limit::ReceiveWindow | Limit::PathLoss | Limit::RateLimit | Limit::SenderOrPath => {
            seen.free_cpus >= 0.2 || seen.own_cpu < 0.3 * f64::from(seen.lanes.max(1))
        }
        // A second thread needs most of a processor to itself.
        Limit::CpuCore => seen.free_cpus >= 0.6,
        _ => false,
    }
}

fn rate(windows: &[(Duration, u64, Limit)]) -> f64 {
    let span: Duration = windows.iter().map(|window| window.0).sum();
    windows.iter().map(|window| window.1).sum::<u64>() as f64 / span.as_secs_f64().max(1e-3)
}

/// The newest window is a quarter above the mean of those before it: slow start is not over.
fn still_growing(windows: &[(Duration, u64, Limit)]) -> bool {
    let (before, newest) = windows.split_at(windows.len() - 1);
    rate(newest) > rate(before) * 1.25
}

fn show(rate: f64) -> weir_units::Rate {
    weir_units::Rate(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server and path: goodput of `lanes`, and which limit the judge would name.
    struct World {
        rate: fn(u32) -> f64,
        limit: Limit,
        served: u32,
        free_cpus: f64,
    }

    /// Runs the tuner against `world` for `seconds`; returns the lanes it ends with and the most it ever used.
    fn run(world: &World, seconds: u64) -> (u32, u32) {
        let mut tuner = Tuner::new(16);
        let (mut lanes, mut most) = (1, 1);
        for tick in 1..seconds * 10 {
            let started = lanes.min(world.served);
            let seen = Observation {
                now: Duration::from_millis(tick * 100),
                span: Duration::from_millis(100),
                bytes: ((world.rate)(started) / 10.0) as u64,
                lanes,
                started,
                limit: world.limit,
                free_cpus: world.free_cpus,
                own_cpu: 1.0,
                left: Some(u64::MAX),
                refused: false,
            };
            if let Advice::Lanes(wanted, _) = tuner.observe(&seen) {
                lanes = wanted;
                most = most.max(wanted);
            }
        }
        (lanes, most)
    }

    fn world(rate: fn(u32) -> f64, limit: Limit) -> World {
        World { rate, limit, served: 16, free_cpus: 1.0 }
    }

    #[test]
    fn a_cap_per_connection_is_multiplied_by_all_lanes() {
        assert_eq!(run(&world(|lanes| 8e6 * f64::from(lanes), Limit::SenderOrPath), 10), (16, 16));
    }

    #[test]
    fn a_full_path_stays_with_one_lane_and_is_rarely_tried() {
        assert_eq!(run(&world(|_| 1e8, Limit::SenderOrPath), 30), (1, 2));
    }

    #[test]
    fn the_disk_is_never_given_a_second_lane() {
        assert_eq!(run(&world(|lanes| 3e7 / f64::from(lanes), Limit::DirtyThrottle), 30), (1, 1));
    }

    #[test]
    fn lanes_end_where_the_gain_ends() {
        let (lanes, _) = run(&world(|lanes| 1e7 * f64::from(lanes.min(4)), Limit::ReceiveWindow), 20);
        assert_eq!(lanes, 4);
    }

    #[test]
    fn a_server_that_serves_one_at_a_time_keeps_one() {
        let one = World { served: 1, ..world(|_| 1e8, Limit::SenderOrPath) };
        assert_eq!(run(&one, 30).0, 1);
    }

    #[test]
    fn a_full_core_without_a_free_one_is_left_alone() {
        let busy = World { free_cpus: 0.0, ..world(|_| 2e9, Limit::CpuCore) };
        assert_eq!(run(&busy, 10), (1, 1));
        let free = World { free_cpus: 3.0, ..world(|lanes| 2e9 * f64::from(lanes.min(4)), Limit::CpuCore) };
        assert_eq!(run(&free, 20).0, 4);
    }
}
