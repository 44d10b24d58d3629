//! What holds movers that have no engine: each hand's clock, thread and socket, looked at as the engines look
//! at their lanes, and judged by the same rules.
//!
//! A hand that copies by one call which reads and writes does not know how long it did which. A part of the
//! bytes is read and written apart for that ([`Hand::times_apart`]), and the time of all is shared so.

use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_model::evidence::{Evidence, Facts, LaneInterval};
use weir_model::fleet::NOT_JUDGED;
use weir_model::limit::Limit;
use weir_model::rule::Context;
use weir_model::stages::Stages;
use weir_model::verdict::judge_interval;
use weir_observe::stage_clock::{Stage, StageClock, StageTimes};
use weir_observe::thread::{Tid, current_tid};
use weir_observe::watch::{Cadence, INTERVAL};
use weir_observe::{LaneProbe, Sampler};
use weir_units::limiter::Limiter;

/// In one call that reads and writes.
pub(super) const COPY: Stage = Stage::Receive;

/// Intervals kept for rules that look back: a minute.
const MOST_INTERVALS: usize = 600;

/// What was timed apart counts half as much after so many intervals: five seconds.
const HALF: f64 = 50.0;

/// A hand of a mover.
pub(super) struct Hand {
    /// Where its time goes.
    pub(super) clock: StageClock,
    tid: AtomicU32,
    requests: AtomicU32,
    apart: (AtomicU64, AtomicU64),
    carried: AtomicU64,
    compared: AtomicU64,
    waits: AtomicBool,
    socket: Mutex<(Option<OwnedFd>, u32)>,
}

impl Hand {
    /// So many, which do nothing yet.
    pub(super) fn crew(count: usize) -> Vec<Hand> {
        let now = Instant::now();
        let hand = || Hand {
            clock: StageClock::new(now),
            tid: AtomicU32::new(0),
            requests: AtomicU32::new(0),
            apart: (AtomicU64::new(0), AtomicU64::new(0)),
            carried: AtomicU64::new(0),
            compared: AtomicU64::new(0),
            waits: AtomicBool::new(false),
            socket: Mutex::new((None, 0)),
        };
        std::iter::repeat_with(hand).take(count).collect()
    }

    /// The calling thread is this hand.
    pub(super) fn begin(&self) {
        self.tid.store(current_tid().0, Relaxed);
    }

    /// Its next object.
    pub(super) fn takes(&self) {
        self.requests.fetch_add(1, Relaxed);
        self.clock.enter(Stage::Other);
    }

    /// Bytes more of its object are at the target, or read where nothing is kept.
    pub(super) fn carries(&self, bytes: u64) {
        self.carried.fetch_add(bytes, Relaxed);
    }

    /// Bytes of its object so far.
    pub(super) fn carried(&self) -> u64 {
        self.carried.load(Relaxed)
    }

    /// Bytes more of its object are at the target already: they were compared, not brought.
    pub(super) fn compares(&self, bytes: u64) {
        self.compared.fetch_add(bytes, Relaxed);
        self.carries(bytes);
    }

    /// How many of [`Hand::carried`] were compared.
    pub(super) fn compared(&self) -> u64 {
        self.compared.load(Relaxed)
    }

    /// Its object is moved by somebody else now, who says nothing meanwhile and has a deadline for each step.
    pub(super) fn waits(&self) {
        self.waits.store(true, Relaxed);
    }

    /// Whether that is so.
    pub(super) fn is_waiting(&self) -> bool {
        self.waits.load(Relaxed)
    }

    /// Its object has come to its end, or was given back.
    pub(super) fn lets_go(&self) {
        self.carried.store(0, Relaxed);
        self.compared.store(0, Relaxed);
        self.waits.store(false, Relaxed);
    }

    /// The connection that is its own now.
    pub(super) fn set_socket(&self, socket: Option<&Arc<TcpStream>>) {
        let mut shared = self.socket.lock();
        *shared =
            (socket.and_then(|socket| socket.as_fd().try_clone_to_owned().ok()), shared.1.wrapping_add(1));
    }

    /// Some of the bytes of [`COPY`] took so long to be read, and to be written.
    pub(super) fn times_apart(&self, read: Duration, write: Duration) {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.apart.0.fetch_add(nanos(read), Relaxed);
        self.apart.1.fetch_add(nanos(write), Relaxed);
    }
}

/// What was seen of a hand last.
#[derive(Default)]
struct SeenHand {
    probe: Option<LaneProbe>,
    socket: u32,
    times: StageTimes,
    requests: u32,
}

/// A hand's interval.
struct HandInterval {
    lane: LaneInterval,
    spent: StageTimes,
}

/// Looks at hands.
pub(super) struct HandsWatch<'a> {
    hands: &'a [Hand],
    limiter: &'a Limiter,
    seen: Vec<SeenHand>,
    sampler: Sampler,
    evidence: Evidence,
    cadence: Cadence,
    /// Between two folders: no sender and no path is there that could be what nothing else explains.
    is_local: bool,
    /// Of what was timed apart, reading and writing.
    apart: (f64, f64),
}

impl<'a> HandsWatch<'a> {
    /// `target`: the folder that they write to, if they do.
    pub(super) fn new(hands: &'a [Hand], target: Option<&Path>, limiter: &'a Limiter) -> HandsWatch<'a> {
        let facts = Facts {
            memory: weir_observe::memory::available(),
            cpus: weir_observe::cpu::available_cpus(),
            ..Facts::default()
        };
        HandsWatch {
            hands,
            limiter,
            seen: hands.iter().map(|_| SeenHand::default()).collect(),
            sampler: Sampler::new(Some(target.unwrap_or(Path::new(".")))),
            evidence: Evidence { facts, ..Evidence::default() },
            cadence: Cadence::new(Instant::now(), INTERVAL),
            is_local: target.is_some(),
            apart: (0.0, 0.0),
        }
    }

    /// A look.
    pub(super) fn look(&mut self) {
        for (hand, seen) in self.hands.iter().zip(&mut self.seen) {
            seen.look(hand);
        }
    }

    /// An interval is over at `now`.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.cadence.is_due(now)
    }

    /// Ends it, in which so many bytes were moved: how long it was, and what held.
    pub(super) fn close(&mut self, now: Instant, moved: u64) -> (Duration, &'static str) {
        let ended = self.cadence.close(now);
        let host = self.sampler.host_interval();
        let both = self.hands.iter().zip(&mut self.seen);
        let mut all: Vec<HandInterval> =
            (0..).zip(both).map(|(number, (hand, seen))| seen.interval(number, hand, ended.span)).collect();
        let reading = self.reading();
        let busy = host.cpu.value().map(|cpu| cpu.busy.iter().sum::<f64>());
        let own = host.cpu.value().map(|cpu| cpu.process.as_secs_f64() / ended.span.as_secs_f64().max(1e-3));
        let mut stages = Stages {
            threads: all.len() as u32,
            busy,
            own,
            cpus: self.evidence.facts.cpus,
            ..Stages::default()
        };
        let mut is_apart = true;
        for one in all.iter_mut().filter(|_| self.is_local) {
            let copying = one.spent.wall(COPY);
            is_apart &= reading.is_some() || copying < ended.span / 2;
            let read = copying.mul_f64(reading.unwrap_or(0.0));
            let write = one.spent.wall(Stage::Write) + copying.saturating_sub(read);
            one.writes(write, ended.span);
            stages.read += one.spent.wall(Stage::Read) + read;
            stages.turn += write;
            stages.verify += one.spent.wall(Stage::Verify);
            stages.limited += one.spent.wall(Stage::Limited);
            stages.idle += one.lane.idle;
        }
        let (lanes, spent): (Vec<_>, Vec<_>) = all.into_iter().map(|one| (one.lane, one.spent)).unzip();
        let mut interval = ended.with_pauses(ended.evidence(host, lanes), spent.iter());
        interval.received = moved;
        if self.is_local {
            interval.sending = weir_model::evidence::Reading::Value(stages);
        }
        self.evidence.facts.rate_cap = self.limiter.rate().map(|rate| rate.0);
        let verdict = judge_interval(&interval, &Context::live(&self.evidence));
        self.evidence.push(interval, MOST_INTERVALS);
        // Between two folders it is a word for nothing.
        let is_told = is_apart && !(self.is_local && verdict.limit == Limit::SenderOrPath);
        (ended.span, if is_told && !verdict.is_unseen() { verdict.limit.name() } else { NOT_JUDGED })
    }

    /// Of a copying call, the share that is reading; `None`: nothing was timed apart yet.
    fn reading(&mut self) -> Option<f64> {
        let kept = 0.5_f64.powf(1.0 / HALF);
        let sum = |part: fn(&Hand) -> &AtomicU64| {
            self.hands.iter().map(|hand| part(hand).swap(0, Relaxed) as f64).sum::<f64>()
        };
        let (read, write) = (sum(|hand| &hand.apart.0), sum(|hand| &hand.apart.1));
        self.apart = (self.apart.0 * kept + read, self.apart.1 * kept + write);
        let all = self.apart.0 + self.apart.1;
        (all > 0.0).then(|| self.apart.0 / all)
    }
}

impl SeenHand {
    fn look(&mut self, hand: &Hand) {
        let tid = hand.tid.load(Relaxed);
        if self.probe.is_none() && tid != 0 {
            self.probe = Some(LaneProbe::new(Tid(tid)));
        }
        let Some(probe) = &mut self.probe else { return };
        let shared = hand.socket.lock();
        if shared.1 != self.socket {
            self.socket = shared.1;
            probe.set_socket(shared.0.as_ref().and_then(|socket| socket.try_clone().ok()));
        }
        drop(shared);
        probe.look();
    }

    fn interval(&mut self, number: u32, hand: &Hand, span: Duration) -> HandInterval {
        let times = hand.clock.read();
        let spent = times.since(&self.times);
        self.times = times;
        let requests = hand.requests.load(Relaxed);
        let objects = requests.wrapping_sub(std::mem::replace(&mut self.requests, requests));
        let (thread, tcp) = self.probe.as_mut().map_or_else(Default::default, LaneProbe::interval);
        let lane = LaneInterval {
            lane: number,
            connecting: spent.connecting(),
            resolving: Some(spent.wall(Stage::Resolving)),
            first_byte: spent.wall(Stage::FirstByte),
            limited: spent.wall(Stage::Limited),
            idle: spent.wall(Stage::Idle).min(span),
            requests: objects,
            objects,
            thread,
            tcp,
            ..LaneInterval::default()
        };
        HandInterval { lane, spent }
    }
}

impl HandInterval {
    /// So much of the time it wrote; of what its thread ran, a part in proportion.
    fn writes(&mut self, write: Duration, span: Duration) {
        let working = span.saturating_sub(self.lane.idle).as_secs_f64();
        let ran = self.lane.thread.value().map_or(Duration::ZERO, |thread| thread.cpu);
        let share = if working > 0.0 { (write.as_secs_f64() / working).clamp(0.0, 1.0) } else { 0.0 };
        (self.lane.write, self.lane.write_cpu) = (write, ran.mul_f64(share).min(write));
    }
}
