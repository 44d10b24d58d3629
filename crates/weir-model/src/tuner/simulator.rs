//! Servers and paths without a network, in windows of 100 ms: what so many lanes would have brought.

use std::time::Duration;

use crate::decision::{Decision, Event};
use crate::limit::Limit;

use super::{Observation, Tuner};

/// The length of a window, seconds.
const WINDOW: f64 = 0.1;

/// What a world shows of one window.
pub(super) struct Sight {
    pub(super) bytes: f64,
    pub(super) started: u32,
    pub(super) limit: Limit,
    pub(super) queue: bool,
    pub(super) disorder: bool,
    pub(super) round_trip: Option<Duration>,
}

/// A server and the path to it.
pub(super) trait World {
    /// The next window, with as many lanes as the tuner wants.
    fn window(&mut self, lanes: u32) -> Sight;

    /// Processors that are free: 0.4 of 2.
    fn free_cpus(&self) -> f64 {
        1.0
    }

    /// Lanes that find a part to ask for.
    fn parts(&self) -> u32 {
        u32::MAX
    }
}

/// How a run went.
#[derive(Debug)]
pub(super) struct SimulatedRun {
    /// Lanes at the end, and the most there ever were.
    pub(super) lanes: u32,
    pub(super) most: u32,
    /// Trials that were begun.
    pub(super) trials: usize,
    /// Bytes of each window.
    pub(super) windows: Vec<f64>,
    /// What it decided.
    pub(super) decided: Vec<Event>,
    /// Trials that it judged, for the record.
    pub(super) judged: usize,
}

impl SimulatedRun {
    /// Bytes per second from `from` seconds on.
    pub(super) fn rate_after(&self, from: f64) -> f64 {
        let later = &self.windows[(from / WINDOW) as usize..];
        later.iter().sum::<f64>() / (later.len() as f64 * WINDOW)
    }

    /// Bytes per second over all of the run.
    pub(super) fn rate(&self) -> f64 {
        self.rate_after(0.0)
    }
}

/// Lets a tuner choose the lanes of `world` for so many seconds.
pub(super) fn run(world: &mut dyn World, seconds: u64) -> SimulatedRun {
    let mut tuner = Tuner::new(1, 64);
    let mut outcome =
        SimulatedRun { lanes: 1, most: 1, trials: 0, windows: Vec::new(), decided: Vec::new(), judged: 0 };
    for tick in 1..=seconds * 10 {
        let lanes = tuner.lanes();
        let sight = world.window(lanes);
        outcome.windows.push(sight.bytes);
        let seen = Observation {
            now: Duration::from_millis(tick * 100),
            span: Duration::from_millis(100),
            bytes: sight.bytes as u64,
            lanes: lanes.min(world.parts()),
            started: sight.started,
            limit: sight.limit,
            free_cpus: world.free_cpus(),
            own_cpu: 1.0,
            left: Some(u64::MAX),
            refused: false,
            round_trip: sight.round_trip,
            queue: sight.queue,
            disorder: sight.disorder,
        };
        let decided = tuner.observe(&seen).into_iter().map(Decision::Lanes);
        outcome.decided.extend(decided.map(|decision| Event { at: seen.now, decision }));
        outcome.trials += usize::from(tuner.lanes() > lanes);
        outcome.most = outcome.most.max(tuner.lanes());
    }
    outcome.lanes = tuner.lanes();
    outcome.judged = tuner.trials().len();
    outcome
}

/// Bytes per second of `world` with one lane.
pub(super) fn alone(world: &mut dyn World, seconds: u64) -> f64 {
    (0..seconds * 10).map(|_| world.window(1).bytes).sum::<f64>() / seconds as f64
}

/// A server whose goodput depends on the number of lanes alone.
pub(super) struct Even {
    pub(super) rate: fn(u32) -> f64,
    pub(super) limit: Limit,
    /// Lanes that it serves at once.
    pub(super) served: u32,
    /// Lanes that find a part to ask for.
    pub(super) parts: u32,
    pub(super) free_cpus: f64,
}

impl Even {
    pub(super) fn new(rate: fn(u32) -> f64, limit: Limit) -> Even {
        Even { rate, limit, served: 64, parts: u32::MAX, free_cpus: 1.0 }
    }
}

impl World for Even {
    fn window(&mut self, lanes: u32) -> Sight {
        let started = lanes.min(self.served).min(self.parts);
        Sight {
            bytes: (self.rate)(started) * WINDOW,
            started,
            limit: self.limit,
            queue: false,
            disorder: false,
            round_trip: None,
        }
    }

    fn free_cpus(&self) -> f64 {
        self.free_cpus
    }

    fn parts(&self) -> u32 {
        self.parts
    }
}

/// A path by turns of 10 ms. Each lane's window doubles a round trip until its first loss, then grows as
/// Reno's does and falls to 0.7 at a loss (RFC 5681, RFC 9438); what does not fit the link waits in its queue
/// or, beyond that, is lost.
pub(super) struct Path {
    /// Bytes per second.
    pub(super) link: f64,
    /// Seconds at an empty queue.
    pub(super) round_trip: f64,
    /// Bytes.
    pub(super) queue: f64,
    /// Share of the segments that is lost at random.
    pub(super) loss: f64,
    /// Bytes that a receiver takes in one round trip.
    pub(super) receive_window: f64,
    /// Bytes per second that the server gives to a connection.
    pub(super) cap: f64,
    pub(super) lanes: Vec<Lane>,
    /// Bytes that wait.
    pub(super) queued: f64,
    pub(super) random: fastrand::Rng,
}

pub(super) struct Lane {
    /// Seconds until its first byte: a round trip for the connection, one for the request.
    joins_in: f64,
    /// In segments.
    window: f64,
    slow_start: bool,
    /// Seconds since its first byte.
    age: f64,
}

/// What a turn brought.
#[derive(Default)]
struct Turn {
    bytes: f64,
    losses: u32,
}

impl Path {
    const SEGMENT: f64 = 1448.0;
    const TURN: f64 = 0.01;

    /// A path with a queue of one round trip that loses nothing at random.
    pub(super) fn new(link: f64, round_trip: f64, seed: u64) -> Path {
        Path {
            link,
            round_trip,
            queue: link * round_trip,
            loss: 0.0,
            receive_window: f64::INFINITY,
            cap: f64::INFINITY,
            lanes: Vec::new(),
            queued: 0.0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn round_trip_now(&self) -> f64 {
        self.round_trip + self.queued / self.link
    }

    /// A young connection's window is wider: the kernel has yet to learn how much memory a byte of its
    /// segments takes.
    fn receive_window_of(&self, lane: &Lane) -> f64 {
        self.receive_window * (1.7 - lane.age).max(1.0)
    }

    /// Bytes that a lane sends in one turn.
    fn sent(&self, lane: &Lane) -> f64 {
        let window = (lane.window * Self::SEGMENT).min(self.receive_window_of(lane));
        if lane.joins_in > 0.0 { 0.0 } else { (window / self.round_trip_now()).min(self.cap) * Self::TURN }
    }

    fn turn(&mut self, lanes: u32) -> Turn {
        let fresh = || Lane { joins_in: 2.0 * self.round_trip, window: 10.0, slow_start: true, age: 0.0 };
        if self.lanes.len() > lanes as usize {
            // The slowest go.
            self.lanes.sort_by(|one, other| other.window.total_cmp(&one.window));
        }
        self.lanes.resize_with(lanes as usize, fresh);
        let sent: Vec<f64> = self.lanes.iter().map(|lane| self.sent(lane)).collect();
        let all: f64 = sent.iter().sum();
        let passed = (self.queued + all).min(self.link * Self::TURN);
        let left = self.queued + all - passed;
        let dropped = (left - self.queue).max(0.0) / all.max(1.0);
        self.queued = left.min(self.queue);
        let kept = (1.0 - self.loss - dropped).max(0.0);
        let grown = Self::TURN / self.round_trip_now();
        let mut turn = Turn { bytes: passed, losses: 0 };
        for (lane, sent) in self.lanes.iter_mut().zip(sent) {
            if lane.joins_in > 0.0 {
                lane.joins_in -= Self::TURN;
                continue;
            }
            lane.age += Self::TURN;
            if self.random.f64() < 1.0 - kept.powf(sent / Self::SEGMENT) {
                turn.losses += 1;
                lane.window = (lane.window * 0.7).max(4.0);
                lane.slow_start = false;
            } else if lane.slow_start {
                lane.window *= 2f64.powf(grown);
            } else {
                lane.window += grown;
            }
            // A window that is not used does not grow (RFC 7661).
            let used = self.receive_window.min(self.cap * self.round_trip * 2.0) / Self::SEGMENT;
            lane.window = lane.window.min(used.max(10.0));
        }
        turn
    }

    /// What the judge can say from here of lanes that have the sawtooth of this path.
    fn limit(&self) -> Limit {
        let held = self.receive_window / self.round_trip_now();
        let is_held = self.lanes.first().is_some_and(|lane| {
            lane.joins_in <= 0.0 && lane.window * Self::SEGMENT >= 0.7 * self.receive_window
        });
        if is_held && held < self.cap && self.queued < 0.3 * self.link * self.round_trip {
            Limit::ReceiveWindow
        } else {
            Limit::SenderOrPath
        }
    }
}

impl World for Path {
    fn window(&mut self, lanes: u32) -> Sight {
        let turns: Vec<Turn> = (0..10).map(|_| self.turn(lanes)).collect();
        Sight {
            bytes: turns.iter().map(|turn| turn.bytes).sum(),
            started: self.lanes.iter().filter(|lane| lane.joins_in <= 0.0).count() as u32,
            limit: self.limit(),
            queue: self.round_trip_now() > 1.33 * self.round_trip,
            disorder: turns.iter().any(|turn| turn.losses > 0),
            round_trip: Some(Duration::from_secs_f64(self.round_trip)),
        }
    }
}
