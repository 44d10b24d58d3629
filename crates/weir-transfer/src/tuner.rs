//! How many lanes? The verdict proposes, the goodput decides.
//!
//! Pure: time and readings come in as arguments. The tuner starts with one lane. Where the verdict names a limit that more
//! connections can lift, or one that cannot be told from here without trying, it takes more lanes as a trial: it waits
//! until the new lanes have had their first byte and their slow start, measures, and keeps them only if they brought at
//! least a quarter of what could be hoped for. Otherwise it goes back and waits longer before it tries again. Where
//! the verdict names the disk or this machine, it steps down.
//!
//! A lane that shares a lossy path is fastest right after its slow start and falls back in the seconds after; so what a
//! trial found does not hold for ever. The best rate seen is what the path can carry, and when lanes that once brought it
//! fall below it, more are tried at once.

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
    /// The longest of the lanes' shortest round trips, where it was read.
    pub round_trip: Option<Duration>,
    /// The lanes' round trips are well above their shortest: a queue stands before a full link.
    pub queue: bool,
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
    /// The last windows since the lane count changed, newest last.
    recent: Vec<Window>,
    /// The best goodput over [`STRETCH`] windows since a trial failed: what server and path can carry.
    best: f64,
    not_before: Duration,
    failures: u32,
    ceiling: u32,
    /// The last trial brought all that was hoped for, or there was none yet: the next step may be larger.
    bold: bool,
    trials: Vec<Trial>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    span: Duration,
    bytes: u64,
    limit: Limit,
}

/// More lanes on trial.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    /// Lanes and goodput before.
    from: u32,
    before: f64,
    /// The gain to hope for, as a share of `before`.
    hope: f64,
    /// Lanes that fell below the best rate are to get it back: the gain cannot tell how many of them it takes.
    restores: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Steady,
    /// New lanes are connecting since `since`.
    Joining {
        attempt: Attempt,
        since: Duration,
        bytes: u64,
    },
    /// They have started; what comes after `start` counts.
    Measuring {
        attempt: Attempt,
        start: Duration,
        span: Duration,
        bytes: u64,
    },
}

/// Slow start of the first lane: ten round trips at 40 ms reach 15 MB in flight, enough for any lane.
const FIRST_LOOK: Duration = Duration::from_millis(400);

/// A new lane's slow start after its first byte, at least: ten segments double to a window of 200 (280 KiB) in five round
/// trips (RFC 6928), which are 200 ms at 40 ms.
const SETTLE: Duration = Duration::from_millis(200);
const SETTLE_ROUND_TRIPS: u32 = 5;

/// Long enough for four windows, short against any transfer that is worth a trial.
const MEASURE: Duration = Duration::from_millis(400);

/// A lane that has no first byte after this long counts as not served.
const JOIN: Duration = Duration::from_millis(1500);

/// After this long a few that are missing are not waited for: a lost SYN comes again after one second (RFC 6298).
const MOST_JOIN: Duration = Duration::from_millis(500);

/// A trial must bring a quarter of what can be hoped for: above the noise of two 400 ms readings, below what a shared
/// bottleneck gives to a second flow by chance.
const WORTH: f64 = 0.25;

/// Lanes that are to bring back what was lost must bring half of it: the gap is small, and the noise is the same.
const WORTH_AGAIN: f64 = 0.5;

/// With less than this left a trial cannot pay for itself.
const WORTHWHILE: Duration = Duration::from_secs(1);

/// A lane of this rate and more fills most paths; only slower ones are multiplied by four at once.
const FAST_LANE: f64 = 32e6;

/// What browsers and CDNs bear from one client without complaint. Beyond it lanes are only doubled.
const CIVIL: u32 = 16;

/// Windows that make a rate which can be compared with others later: bursts behind a lost segment even out.
const STRETCH: usize = 8;

/// Lanes that bring less than this share of the best rate do not hold it any more. One lane's rate swings by itself: a
/// loss takes 30 % of its window (RFC 9438, section 4.6).
const FALLEN: f64 = 0.94;
const FALLEN_ALONE: f64 = 0.6;

/// Below this share a few windows are enough to tell.
const COLLAPSED: f64 = 0.6;

/// After so many trials in a row that brought nothing, a fall is no reason to try at once.
const PATIENT: u32 = 3;

impl Tuner {
    /// A tuner that uses at most `max` lanes.
    pub fn new(max: u32) -> Tuner {
        Tuner {
            max,
            lanes: 1,
            state: State::Steady,
            recent: Vec::new(),
            best: 0.0,
            not_before: FIRST_LOOK,
            failures: 0,
            ceiling: max,
            bold: true,
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
        self.remember(seen);
        if seen.refused && self.lanes > 1 {
            return self.refused(seen);
        }
        match self.state {
            State::Steady => self.steady(seen),
            State::Joining { attempt, since, bytes } => {
                self.joining(seen, attempt, since, bytes + seen.bytes)
            }
            State::Measuring { attempt, start, span, bytes } => {
                self.measuring(seen, attempt, start, span, bytes)
            }
        }
    }

    fn remember(&mut self, seen: &Observation) {
        if self.recent.len() == STRETCH {
            self.recent.remove(0);
        }
        self.recent.push(Window { span: seen.span, bytes: seen.bytes, limit: seen.limit });
        if self.recent.len() == STRETCH {
            self.best = self.best.max(rate(&self.recent));
        }
    }

    fn steady(&mut self, seen: &Observation) -> Advice {
        let Some(last) = self.recent.last_chunk::<4>() else { return Advice::Hold };
        if self.lanes > 1 && last.iter().all(|window| is_local(window.limit)) {
            let why = format!("{} is the limit, more lanes only disturb it", seen.limit);
            self.wait(seen.now, 2);
            return self.set(self.lanes / 2, why);
        }
        let rate = rate(last);
        let worthwhile = seen.left.is_some_and(|left| left as f64 > rate * WORTHWHILE.as_secs_f64());
        let hopeful = last.iter().filter(|window| may_help(window.limit, seen)).count() * 2 > last.len();
        if !worthwhile || !hopeful || rate <= 0.0 || still_growing(last) {
            return Advice::Hold;
        }
        let fallen = self.has_fallen(seen);
        if seen.now < self.not_before && !fallen {
            return Advice::Hold;
        }
        let (to, attempt) = self.next(rate, fallen);
        if to <= self.lanes {
            return Advice::Hold;
        }
        self.state = State::Joining { attempt, since: seen.now, bytes: 0 };
        self.lanes = to;
        Advice::Lanes(to, format!("{} at {}; trying {to} lanes", seen.limit, show(rate)))
    }

    /// The present lanes have lost what they, or as many, once brought.
    fn has_fallen(&self, seen: &Observation) -> bool {
        let below = |windows: &[Window], share: f64| rate(windows) < share * self.best;
        let share = if self.lanes > 1 { FALLEN } else { FALLEN_ALONE };
        // Before a full link more lanes would only take from others.
        let slowly = !seen.queue && self.recent.len() == STRETCH && below(&self.recent, share);
        let suddenly = self.recent.last_chunk::<4>().is_some_and(|last| below(last, COLLAPSED));
        self.failures < PATIENT && (slowly || suddenly)
    }

    /// How many lanes to try from `rate`, and what to hope for.
    fn next(&self, rate: f64, fallen: bool) -> (u32, Attempt) {
        let from = self.lanes;
        let is_slow = rate < FAST_LANE * f64::from(from);
        let step = if fallen {
            // As many as bring the best rate at what each brings now, and some for what it will lose yet.
            (self.best / rate * 1.25).min(4.0)
        } else if self.bold && is_slow {
            4.0
        } else {
            2.0
        };
        let to = (f64::from(from) * step).ceil() as u32;
        // Beyond what anybody bears only by doubling.
        let to = to.min(CIVIL.max(from * 2)).min(self.max).min(self.ceiling);
        let gain = f64::from(to) / f64::from(from) - 1.0;
        let hope = if fallen { gain.min(self.best / rate - 1.0) } else { gain };
        (to, Attempt { from, before: rate, hope, restores: fallen })
    }

    fn joining(&mut self, seen: &Observation, attempt: Attempt, since: Duration, bytes: u64) -> Advice {
        self.state = State::Joining { attempt, since, bytes };
        let waited = seen.now - since;
        let new = self.lanes - attempt.from;
        let joined = seen.started.saturating_sub(attempt.from);
        if joined >= new || waited >= MOST_JOIN && joined * 4 >= new * 3 {
            let settle = SETTLE.max(seen.round_trip.unwrap_or_default() * SETTLE_ROUND_TRIPS);
            let start = seen.now + settle.min(JOIN);
            self.state = State::Measuring { attempt, start, span: Duration::ZERO, bytes: 0 };
            return Advice::Hold;
        }
        if waited < JOIN {
            return Advice::Hold;
        }
        if joined > 0 {
            // Some were served: judge those.
            self.ceiling = seen.started;
            let hope = f64::from(seen.started) / f64::from(attempt.from) - 1.0;
            let attempt = Attempt { hope: attempt.hope.min(hope), ..attempt };
            self.state = State::Measuring { attempt, start: seen.now, span: Duration::ZERO, bytes: 0 };
            self.lanes = seen.started;
            return Advice::Lanes(
                self.lanes,
                format!("the server serves {} connections at once", seen.started),
            );
        }
        let after = bytes as f64 / waited.as_secs_f64().max(1e-3);
        match self.conclude(seen, attempt, after.min(attempt.before)) {
            Advice::Lanes(lanes, _) => {
                let why = format!("the server serves only {} at once; back to {lanes}", attempt.from);
                Advice::Lanes(lanes, why)
            }
            Advice::Hold => Advice::Hold,
        }
    }

    fn measuring(
        &mut self,
        seen: &Observation,
        attempt: Attempt,
        start: Duration,
        mut span: Duration,
        mut bytes: u64,
    ) -> Advice {
        if seen.now > start {
            span += seen.span;
            bytes += seen.bytes;
        }
        if span < MEASURE {
            self.state = State::Measuring { attempt, start, span, bytes };
            return Advice::Hold;
        }
        self.conclude(seen, attempt, bytes as f64 / span.as_secs_f64())
    }

    fn conclude(&mut self, seen: &Observation, attempt: Attempt, after: f64) -> Advice {
        let Attempt { from, before, hope, restores } = attempt;
        let gained = after / before.max(1.0) - 1.0;
        // Of many lanes at once as many as pay are kept, so the first doubling is what they have to pay for.
        let worth = if restores { WORTH_AGAIN } else { WORTH };
        let kept = gained >= worth * hope.min(1.0);
        self.bold = gained >= 0.85 * hope;
        if self.recent.iter().filter(|window| is_local(window.limit)).count() * 2 > self.recent.len() {
            // This side became the limit meanwhile: the two rates are of different limits and compare nothing.
            self.wait(seen.now, 4);
            return self.set(from, format!("{} came in between; back to {from}", seen.limit));
        }
        self.trials.push(Trial {
            at: seen.now.as_secs_f64(),
            lanes_before: from,
            lanes_after: self.lanes,
            rate_before: before,
            rate_after: after,
            kept,
        });
        let text = format!("{} lanes brought {} after {}", self.lanes, show(after), show(before));
        if !kept {
            self.failures += 1;
            self.wait(seen.now, 4 << self.failures.min(6));
            self.best = before.max(after);
            return self.set(from, format!("{text}; back to {from}"));
        }
        self.failures = 0;
        if restores {
            // What the path can carry is known already.
            self.wait(seen.now, 4);
        } else {
            self.not_before = seen.now;
        }
        let lanes = if self.bold || restores { self.lanes } else { self.paid(from, gained, seen.limit) };
        self.set(lanes, format!("{text}; keeping {lanes}"))
    }

    /// As many lanes as a gain pays for. Twice as many where it may be loss that limits: new lanes have not met it yet.
    fn paid(&self, from: u32, gained: f64, limit: Limit) -> u32 {
        let reserve = if matches!(limit, Limit::ReceiveWindow | Limit::RateLimit) { 1.0 } else { 2.0 };
        let paid = f64::from(from) * (1.0 + gained) * reserve;
        (paid.round() as u32).clamp(from + 1, self.lanes)
    }

    fn refused(&mut self, seen: &Observation) -> Advice {
        self.ceiling = (self.lanes / 2).max(1);
        self.wait(seen.now, 10);
        self.set(self.ceiling, "the server refused more connections".to_owned())
    }

    /// Goes on steadily with `lanes`.
    fn set(&mut self, lanes: u32, why: String) -> Advice {
        self.lanes = lanes.max(1);
        self.state = State::Steady;
        self.recent.clear();
        Advice::Lanes(self.lanes, why)
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

fn rate(windows: &[Window]) -> f64 {
    let span: Duration = windows.iter().map(|window| window.span).sum();
    windows.iter().map(|window| window.bytes).sum::<u64>() as f64 / span.as_secs_f64().max(1e-3)
}

/// The newest window is a quarter above the mean of those before it: slow start is not over.
fn still_growing(windows: &[Window]) -> bool {
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

    /// The `tick`th window of 100 ms.
    fn seen(tick: u64, bytes: u64, lanes: u32, started: u32, limit: Limit, free_cpus: f64) -> Observation {
        Observation {
            now: Duration::from_millis(tick * 100),
            span: Duration::from_millis(100),
            bytes,
            lanes,
            started,
            limit,
            free_cpus,
            own_cpu: 1.0,
            left: Some(u64::MAX),
            refused: false,
            round_trip: None,
            queue: false,
        }
    }

    /// Runs the tuner against `world` for `seconds`; returns the lanes it ends with and the most it ever used.
    fn run(world: &World, seconds: u64) -> (u32, u32) {
        let mut tuner = Tuner::new(64);
        let (mut lanes, mut most) = (1, 1);
        for tick in 1..seconds * 10 {
            let started = lanes.min(world.served);
            let bytes = ((world.rate)(started) / 10.0) as u64;
            let seen = seen(tick, bytes, lanes, started, world.limit, world.free_cpus);
            if let Advice::Lanes(wanted, _) = tuner.observe(&seen) {
                lanes = wanted;
                most = most.max(wanted);
            }
        }
        (lanes, most)
    }

    fn world(rate: fn(u32) -> f64, limit: Limit) -> World {
        World { rate, limit, served: 64, free_cpus: 1.0 }
    }

    #[test]
    fn a_cap_per_connection_is_multiplied_by_all_lanes() {
        assert_eq!(run(&world(|lanes| 8e6 * f64::from(lanes), Limit::SenderOrPath), 10), (64, 64));
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

    /// A path that loses segments at random, by turns of 10 ms: each lane's window grows as Reno's does and halves at a
    /// loss (RFC 5681); what does not fit the link waits in its queue or, beyond that, is lost.
    struct LossyPath {
        /// Bytes per second, and of the queue.
        link: f64,
        queue: f64,
        loss: f64,
        /// Of each lane: window in segments, slow start is over.
        windows: Vec<(f64, bool)>,
        queued: f64,
        random: fastrand::Rng,
        /// Segments that a receiver takes.
        receive_window: f64,
        limit: Limit,
    }

    impl LossyPath {
        const SEGMENT: f64 = 1448.0;
        const ROUND_TRIP: f64 = 0.04;
        const TURN: f64 = 0.01;

        fn new(link: f64, loss: f64, seed: u64) -> LossyPath {
            let random = fastrand::Rng::with_seed(seed);
            let (windows, receive_window, limit) = (Vec::new(), f64::INFINITY, Limit::SenderOrPath);
            LossyPath { link, queue: link * 0.04, loss, windows, queued: 0.0, random, receive_window, limit }
        }

        /// Bytes that arrive at `lanes` lanes in one turn.
        fn turn(&mut self, lanes: u32) -> f64 {
            self.windows.resize(lanes as usize, (10.0, false));
            let round_trip = Self::ROUND_TRIP + self.queued / self.link;
            let sent: f64 =
                self.windows.iter().map(|lane| lane.0).sum::<f64>() * Self::SEGMENT * Self::TURN / round_trip;
            let passed = (self.queued + sent).min(self.link * Self::TURN);
            let left = self.queued + sent - passed;
            let dropped = (left - self.queue).max(0.0) / sent;
            self.queued = left.min(self.queue);
            for (window, steady) in &mut self.windows {
                let segments = *window * Self::TURN / round_trip;
                if self.random.f64() < 1.0 - (1.0 - self.loss - dropped).max(0.0).powf(segments) {
                    *window = (*window * 0.7).max(4.0);
                    *steady = true;
                } else if *steady {
                    *window += Self::TURN / round_trip;
                } else {
                    *window *= 2f64.powf(Self::TURN / round_trip);
                }
                *window = window.min(self.receive_window);
            }
            passed
        }

        /// The tuner's lanes after `seconds`, and the share of the link that was used from `from` on.
        fn run(&mut self, from: u64, seconds: u64) -> (u32, f64) {
            let mut tuner = Tuner::new(64);
            let mut used = 0.0;
            for tick in 1..=seconds * 10 {
                let lanes = tuner.lanes();
                let bytes: f64 = (0..10).map(|_| self.turn(lanes)).sum();
                used += if tick > from * 10 { bytes } else { 0.0 };
                let seen = Observation {
                    queue: self.queued > 0.3 * self.link * Self::ROUND_TRIP,
                    ..seen(tick, bytes as u64, lanes, lanes, self.limit, 1.0)
                };
                if let Advice::Lanes(_, why) = tuner.observe(&seen) {
                    println!("{:.1} s: {why}", tick as f64 / 10.0);
                }
            }
            (tuner.lanes(), used / (self.link * (seconds - from) as f64))
        }
    }

    /// A lane carries the most right after its slow start and a fifth of that later: what a trial found must not be
    /// taken to hold for ever.
    #[test]
    fn a_path_that_loses_segments_is_filled() {
        for seed in 0..8 {
            let (lanes, share) = LossyPath::new(24e6, 0.001, seed).run(0, 40);
            assert!(share >= 0.95 && lanes <= 64, "{lanes} lanes used {share:.3} of the link, seed {seed}");
            let (lanes, share) = LossyPath::new(24e6, 0.001, seed).run(5, 40);
            assert!(
                share >= 0.98,
                "{lanes} lanes used {share:.3} of the link after their start, seed {seed}"
            );
        }
    }

    /// 64 KiB a round trip are 1.6 MB/s on each lane: the path takes 15 of them.
    #[test]
    fn a_small_receive_window_is_multiplied_until_the_path_is_full() {
        let mut path =
            LossyPath { receive_window: 45.0, limit: Limit::ReceiveWindow, ..LossyPath::new(24e6, 0.0, 1) };
        let (lanes, share) = path.run(5, 40);
        assert!(share >= 0.95 && (15..=24).contains(&lanes), "{lanes} lanes used {share:.3} of the link");
    }

    #[test]
    fn a_path_without_loss_is_left_to_few_lanes() {
        for seed in 0..8 {
            let (lanes, _) = LossyPath::new(24e6, 0.0, seed).run(0, 60);
            assert!(lanes <= 2, "{lanes} lanes, seed {seed}");
        }
    }
}
