//! The watch: looks at every lane each 20 ms, closes an interval of evidence each 100 ms, asks the judge, and
//! lets the tuner act on its word.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use weir_model::around::{Around, Attempt};
use weir_model::decision::{Decision, Event, Restart};
use weir_model::evidence::{Evidence, Facts, Interval, LaneInterval, Reading};
use weir_model::limit::Limit;
use weir_model::path::queue_stands;
use weir_model::rule::Context;
use weir_model::rule::rate_limit::at_own_limit;
use weir_model::verdict::judge_interval;
use weir_observe::cgroup::Quota;
use weir_observe::process::Pid;
use weir_observe::watch::{Cadence, EndedInterval, INTERVAL, SAMPLE_INTERVAL};
use weir_observe::{HostInterval, Sampler};
use weir_units::Rate;

use super::Run;
use super::lane_memory::LaneMemory;
use crate::error::GetError;
use crate::job::{ClosedInterval as Closed, Observer, Progress, RunReport, UnderWay};
use crate::lane::never_opened;
use crate::pool::Census;
use crate::source::WINDOW;
use crate::transfer::Transfer;
use weir_model::tuner::{Observation, Tuner};
use weir_observe::stage_clock::Stage;

/// Intervals kept where there are few lanes: ten minutes at full grain.
const MOST_INTERVALS: usize = 6000;

/// Intervals of one lane kept, about 1 KiB each: of sixteen lanes those of two and a half minutes at full
/// grain. Of a list that has no end in sight half as many, since memory is to be had for its names as well.
const MOST_LANE_INTERVALS: usize = 24_000;

/// A lane without a byte for this long, while others move, is replaced.
const STALLED: Duration = Duration::from_secs(3);

/// A part is worth a request of its own where it takes a lane this long: twice the two round trips that a
/// fresh connection waits for its first byte, and some milliseconds of this machine's work.
const WORTHWHILE_ROUND_TRIPS: u32 = 4;
const WORTHWHILE: Duration = Duration::from_millis(10);

/// The watch over one run.
pub(super) struct Watch<'a> {
    run: &'a Run<'a>,
    start: Instant,
    cadence: Cadence,
    sampler: Sampler,
    seen: Vec<LaneMemory>,
    evidence: Evidence,
    tuner: Option<Tuner>,
    received: u64,
    recent: Vec<(Duration, u64)>,
    limit: Option<Limit>,
    verify_busy: Duration,
    stopping: bool,
    has_peer: bool,
    /// Of this process's control groups, which hold back all lanes alike.
    quota: Option<Quota>,
}

impl<'a> Watch<'a> {
    /// Over a run of `most` lanes at a time, whose files go to the device of `output`.
    pub(super) fn new(run: &'a Run<'a>, start: Instant, most: u32, output: Option<PathBuf>) -> Watch<'a> {
        let sampler = Sampler::new(output.as_deref());
        let options = run.options;
        let facts = Facts {
            rate_cap: run.rate_cap(),
            lanes_fixed: options.lanes.or(options.files_at_once),
            memory: weir_observe::memory::available(),
            receive_buffer: options.receive_buffer.map(|bytes| bytes as u64),
            tcp_rmem_max: weir_observe::sysctl::tcp_rmem().ok().map(|rmem| rmem.max),
            cpus: weir_observe::cpu::available_cpus(),
            peer_is_local: false,
            disk: sampler.disk_name().value().map(|name| (*name).to_owned()),
            ..Facts::default()
        };
        let tuned = options.lanes.is_none() && options.files_at_once.is_none();
        Watch {
            run,
            start,
            cadence: Cadence::new(start, INTERVAL),
            sampler,
            seen: Vec::new(),
            evidence: Evidence { facts, ..Evidence::default() },
            tuner: tuned.then(|| Tuner::new(run.pool.wanted_bulk(), most)),
            received: 0,
            recent: Vec::new(),
            limit: None,
            verify_busy: Duration::ZERO,
            stopping: false,
            has_peer: false,
            quota: Quota::open(Pid(std::process::id())).ok(),
        }
    }

    pub(super) fn until_over(&mut self, observer: &mut dyn Observer, spawn: &dyn Fn()) {
        loop {
            let over = self.run.pool.wait_over(SAMPLE_INTERVAL.min(self.timeout()));
            spawn();
            if self.run.is_stopped() && !self.stopping {
                self.stopping = true;
                self.run.pool.stop();
            }
            if self.stopping || self.run.pool.is_done() {
                for lane in self.run.lanes() {
                    lane.kick.store(true, Relaxed);
                    lane.cut();
                }
            }
            self.look();
            let stuck = |seen: &LaneMemory| Some((seen.state.stuck_at()?, seen.state.bulk.load(Relaxed)));
            self.run.pool.set_stuck(self.seen.iter().filter_map(stuck).collect());
            let now = Instant::now();
            if over || self.cadence.is_due(now) {
                self.close_interval(now, observer);
                observer.progress(&self.progress(now));
            }
            if over {
                return;
            }
        }
    }

    /// Small objects need lanes at once, not at the next look.
    fn timeout(&self) -> Duration {
        if self.run.many && self.start.elapsed() < Duration::from_secs(1) {
            Duration::from_millis(2)
        } else {
            SAMPLE_INTERVAL
        }
    }

    fn look(&mut self) {
        for lane in self.run.lanes().iter().skip(self.seen.len()) {
            self.seen.push(LaneMemory::new(Arc::clone(lane)));
        }
        for seen in &mut self.seen {
            seen.look();
            if !self.has_peer
                && let Some(local) = seen.peer_is_local()
            {
                self.has_peer = true;
                self.evidence.facts.peer_is_local = local;
            }
        }
    }

    fn close_interval(&mut self, now: Instant, observer: &mut dyn Observer) {
        let opened = self.cadence.opened();
        let host = self.sampler.host_interval();
        let mut lanes: Vec<LaneInterval> =
            self.seen.iter_mut().map(|seen| seen.interval(now, opened)).collect();
        let throttled = self.quota.as_mut().map(Quota::interval).unwrap_or_default();
        for lane in &mut lanes {
            if let Reading::Value(thread) = &mut lane.thread {
                thread.throttled = throttled;
            }
        }
        let ended = self.cadence.close_at_work(now, lanes.iter(), throttled);
        let span = ended.span;
        let interval = self.interval(&ended, host, lanes);
        let over: Vec<u32> =
            self.seen.iter().filter(|seen| seen.is_over()).map(|seen| seen.state.id).collect();
        self.seen.retain(|seen| !seen.is_over());
        let mut alive = self.run.lanes.lock();
        alive.retain(|lane| !over.contains(&lane.id));
        drop(alive);
        self.received += interval.received;
        self.recent.push((span, interval.received));
        if self.recent.len() > 10 {
            self.recent.remove(0);
        }
        self.learn_jobs();
        let limit = judge_interval(&interval, &Context::live(&self.evidence)).limit;
        self.limit = Some(limit);
        let under_way = || -> Vec<UnderWay> {
            self.run.pool.active().iter().map(|transfer| transfer.under_way()).collect()
        };
        let evidence = &self.evidence;
        observer.interval(&Closed { interval: &interval, limit, evidence, under_way: &under_way });
        match ended.stood_still {
            // No lane is slow for what it did not do then.
            true => self.seen.iter_mut().for_each(|seen| seen.moved = now),
            false => {
                self.tune(&interval, limit, now);
                self.size_parts(&interval);
                self.replace_stragglers(now);
            }
        }
        let is_long = self.evidence.facts.objects > WINDOW as u64;
        let most = if is_long { MOST_LANE_INTERVALS / 2 } else { MOST_LANE_INTERVALS };
        let most = MOST_INTERVALS.min(most / interval.lanes.len().max(1));
        self.evidence.push(interval, most);
    }

    /// The evidence of an interval, with what the pool and the clocks of the lanes say of it.
    fn interval(&mut self, ended: &EndedInterval, host: HostInterval, lanes: Vec<LaneInterval>) -> Interval {
        let (verify_busy, verify_backlog) = self.verify();
        let attempts: Vec<Attempt> = self.seen.iter_mut().filter_map(LaneMemory::attempt).collect();
        let written = self.seen.iter().map(|seen| seen.wrote).sum();
        // Most of it, since an interval may begin or end with some work.
        let rests = lanes.iter().all(|lane| lane.idle.mul_f64(2.0) >= ended.span);
        let census = self.run.pool.census();
        // What is not listed yet may be something.
        let left = !census.is_all || census.waiting > 0 || census.is_unfinished;
        let interval = Interval { written, left: Some(left), ..ended.evidence(host, lanes) };
        if ended.stood_still {
            return interval;
        }
        let is_unlisted = rests && !census.is_all && census.waiting == 0;
        let interval = Interval {
            unlisted: if is_unlisted { ended.span } else { Duration::ZERO },
            verify_busy,
            verify_backlog,
            around: Around { attempts, ..Around::default() },
            ..interval
        };
        ended.with_pauses(interval, self.seen.iter().map(|seen| &seen.spent))
    }

    /// What the jobs that were given so far say of the run.
    fn learn_jobs(&mut self) {
        let facts = &mut self.evidence.facts;
        facts.rate_cap = self.run.rate_cap();
        facts.to_stdout = self.run.streams.load(Relaxed);
        facts.tls = self.run.tls.load(Relaxed);
        let waits = self.run.http.waits();
        (facts.server_said, facts.server_failed) = (waits.words(), waits.failure());
        facts.broke = waits.breakage();
        let (given, count) = self.run.pool.given();
        facts.objects = count.unwrap_or(given) as u64;
        facts.at_once_tried = self.run.pool.at_once_tried();
    }

    fn verify(&mut self) -> (Duration, u64) {
        let mut busy = Duration::ZERO;
        let mut backlog = 0;
        for transfer in self.run.pool.active() {
            if let Some(follower) = &transfer.follower {
                let (nanos, left) = follower.progress();
                busy += Duration::from_nanos(nanos);
                backlog += left;
            }
        }
        // Less than before: a digest has ended with its file, and what is there now is new.
        let before = if busy < self.verify_busy { Duration::ZERO } else { self.verify_busy };
        let interval = busy - before;
        self.verify_busy = busy;
        (interval, backlog)
    }

    fn tune(&mut self, interval: &Interval, limit: Limit, now: Instant) {
        let Some(tuner) = &mut self.tuner else { return };
        if self.run.rate_cap().is_some_and(|cap| at_own_limit(interval, cap)) {
            return tuner.pass();
        }
        let census = self.run.pool.census();
        let started = self.seen.iter().filter(|seen| seen.state.started.load(Relaxed)).count() as u32;
        let refused = self.seen.iter().any(|seen| seen.state.refused.swap(false, Relaxed));
        if census.bulk_lanes == 0 && census.active_bytes == 0 {
            return;
        }
        let free_cpus = match &interval.cpu {
            Reading::Value(cpu) => cpu.busy.iter().map(|busy| 1.0 - busy).sum(),
            Reading::Missing(_) => 0.0,
        };
        let own_cpu: Duration = interval.lanes.iter().filter_map(|lane| Some(lane.thread.value()?.cpu)).sum();
        let seen = Observation {
            now: now - self.start,
            own_cpu: own_cpu.as_secs_f64() / interval.span.as_secs_f64().max(1e-3),
            span: interval.span,
            bytes: interval.received,
            lanes: census.bulk_lanes,
            started,
            limit,
            free_cpus,
            left: left(&census, &self.run.pool.active()),
            refused,
            queue: has_queue(interval),
            disorder: interval
                .lanes
                .iter()
                .filter_map(|lane| lane.tcp.value())
                .any(|tcp| tcp.out_of_order > 0),
            round_trip: shortest_round_trip(interval),
        };
        let decided = tuner.observe(&seen);
        let Some(lanes) = decided.last().map(|change| change.to) else { return };
        self.run.pool.want_bulk(lanes);
        self.evidence.trials = tuner.trials().to_vec();
        decided.into_iter().for_each(|change| self.tell(now, Decision::Lanes(change)));
        self.dismiss(lanes);
    }

    /// Slow lanes share what is left in smaller parts, or the last of them would hold the end up for seconds.
    fn size_parts(&self, interval: &Interval) {
        let lanes = interval.lanes.iter().filter(|lane| lane.received > 0).count();
        let Some(round_trip) = shortest_round_trip(interval).filter(|_| lanes > 0) else { return };
        let worthwhile = (round_trip * WORTHWHILE_ROUND_TRIPS).max(WORTHWHILE);
        let share = worthwhile.as_secs_f64() / interval.span.as_secs_f64().max(1e-3) / lanes as f64;
        self.run.pool.split_down_to((interval.received as f64 * share) as u64);
    }

    /// Breaks off the lanes that have not started, then the slowest, until only `wanted` work on bulk
    /// objects: those that stay have the windows which took longest to grow.
    fn dismiss(&self, wanted: u32) {
        let mut working: Vec<_> = self.seen.iter().filter(|seen| seen.state.is_replaceable()).collect();
        working.sort_by_key(|seen| (!seen.state.started.load(Relaxed), Reverse(seen.pace), seen.state.id));
        for seen in working.iter().skip(wanted as usize) {
            seen.state.kick.store(true, Relaxed);
            seen.state.cut();
        }
    }

    /// Breaks off a lane that has stood still while others moved; its bytes go to whoever asks next.
    fn replace_stragglers(&mut self, now: Instant) {
        let moving =
            self.seen.iter().any(|seen| seen.state.bulk.load(Relaxed) && now - seen.moved < STALLED / 2);
        if !moving {
            return;
        }
        for seen in &self.seen {
            let at_work = seen.state.is_replaceable();
            let (stage, since) = seen.state.clock.current();
            let waits = stage.connects() || matches!(stage, Stage::FirstByte | Stage::Receive);
            let waits = waits && since >= STALLED;
            if at_work && waits && now - seen.moved >= STALLED {
                let restart = Restart::StillLane { lane: seen.state.id, still: now - seen.moved };
                self.tell(now, Decision::Restart(restart));
                seen.state.kick.store(true, Relaxed);
                seen.state.cut();
            }
        }
    }

    fn tell(&self, now: Instant, decision: Decision) {
        tracing::info!("{}", Event { at: now - self.start, decision });
    }

    fn progress(&self, now: Instant) -> Progress {
        let census = self.run.pool.census();
        let span: Duration = self.recent.iter().map(|interval| interval.0).sum();
        let bytes: u64 = self.recent.iter().map(|interval| interval.1).sum();
        Progress {
            elapsed: now - self.start,
            bytes: census.finished_bytes + census.active_bytes,
            total: (census.waiting == 0 && census.is_all)
                .then_some(census.active_total)
                .flatten()
                .map(|total| total + census.finished_bytes),
            rate: Rate::of(bytes, span),
            lanes: census.lanes,
            limit: self.limit,
            files: (census.finished, census.jobs),
            at_least: !census.is_all,
        }
    }

    pub(super) fn finish(mut self) -> RunReport {
        let interrupted = self.run.is_stopped();
        let refusal = self.run.pool.refusal();
        let unfinished = || unfinished(interrupted, refusal.as_deref());
        // Whoever was at work when the run was stopped keeps what it has.
        for transfer in self.run.pool.active() {
            if transfer.download().on_stop() {
                let _ = transfer.journal_at_end();
                let outcome = transfer.give_up(unfinished());
                self.run.report(transfer.job, transfer.report(outcome, &[]));
            }
        }
        for (number, job) in self.run.pool.unended() {
            self.run.report(number, never_opened(self.run, &job, unfinished()));
        }
        self.learn_jobs();
        let (given, count) = self.run.pool.given();
        RunReport {
            given,
            not_given: count.map(|count| count.saturating_sub(given)),
            broken: self.run.broken.lock().take(),
            received: self.received,
            elapsed: self.start.elapsed(),
            evidence: self.evidence,
            interrupted,
        }
    }
}

/// The longest of the lanes' shortest round trips.
fn shortest_round_trip(interval: &Interval) -> Option<Duration> {
    interval.lanes.iter().filter_map(|lane| lane.tcp.value()?.min_rtt).max()
}

/// A queue stands on the path, as the receiver sees it.
fn has_queue(interval: &Interval) -> bool {
    let round_trips = |lane: &LaneInterval| {
        let tcp = lane.tcp.value()?;
        Some((tcp.receiver_rtt?, tcp.min_rtt?))
    };
    queue_stands(interval.lanes.iter().filter_map(round_trips))
}

/// Why a job has no report of its own.
fn unfinished(interrupted: bool, refusal: Option<&str>) -> GetError {
    match refusal {
        _ if interrupted => GetError::Interrupted,
        Some(why) => GetError::Refused(why.to_owned()),
        None => GetError::Refused("not finished, because the run ended early".to_owned()),
    }
}

/// Bytes still to come, as far as known: of the objects at work, and some for each job that waits.
fn left(census: &Census, active: &[Arc<Transfer>]) -> Option<u64> {
    let at_work = census.active_total.map(|total| total.saturating_sub(census.active_bytes))?;
    let mean = active.iter().filter_map(|transfer| transfer.size).max().unwrap_or(0);
    Some(at_work + mean * census.waiting as u64)
}
