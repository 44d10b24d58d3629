//! The watch: looks at every lane each 20 ms, as the sender of its data, closes an interval of evidence each
//! 100 ms, asks the judge, and lets the tuner act on its word.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_get::GetError;
use weir_get::job::{ClosedInterval, Observer, Progress, UnderWay};
use weir_model::around::{Around, Attempt};
use weir_model::decision::{Decision, Event};
use weir_model::evidence::{Evidence, Facts, Interval, LaneInterval, Reading, ThreadInterval};
use weir_model::limit::Limit;
use weir_model::path::queue_stands;
use weir_model::rule::Context;
use weir_model::rule::rate_limit::at_own_limit;
use weir_model::stages::Stages;
use weir_model::tuner::{Observation, Tuner};
use weir_model::verdict::judge_interval;
use weir_observe::cgroup::Quota;
use weir_observe::flow::{FlowInterval, FlowProbe};
use weir_observe::own_attempts::OwnAttempts;
use weir_observe::process::Pid;
use weir_observe::sock_diag::{SockDiag, SocketId};
use weir_observe::stage_clock::{Stage, StageTimes};
use weir_observe::thread::Tid;
use weir_observe::watch::{Cadence, EndedInterval, INTERVAL, SAMPLE_INTERVAL};
use weir_observe::{LaneProbe, Sampler, sysctl};
use weir_units::Rate;

use super::Bounds;
use super::engine::Run;
use super::job::{Job, RunReport, Source};
use super::lane::LaneState;
use super::plan::Plan;
use super::queue::MOST_LANES;
use crate::error::StoreError;

/// Intervals kept: ten minutes at full grain.
const MOST_INTERVALS: usize = 6000;

/// The watch over one run.
pub(super) struct Watch<'a> {
    run: &'a Run<'a>,
    start: Instant,
    cadence: Cadence,
    sampler: Sampler,
    diag: Option<SockDiag>,
    quota: Option<Quota>,
    seen: BTreeMap<u32, SeenLane>,
    evidence: Evidence,
    tuner: Option<Tuner>,
    recent: Vec<(Duration, u64)>,
    limit: Option<Limit>,
    has_peer: bool,
    is_stopping: bool,
}

/// A lane and what was seen of it last.
struct SeenLane {
    state: Arc<LaneState>,
    thread: Option<LaneProbe>,
    socket: u32,
    flow: Option<(SocketId, FlowProbe)>,
    times: StageTimes,
    attempts: OwnAttempts,
    requests: u32,
    objects: u32,
    connects: u32,
    cpu: Duration,
    /// Bytes of it have arrived.
    has_carried: bool,
    last: bool,
}

/// What a lane did in an interval.
struct LaneShare {
    lane: LaneInterval,
    spent: StageTimes,
    idle: Duration,
    flow: FlowInterval,
    cpu: Duration,
    objects: u32,
}

impl<'a> Watch<'a> {
    pub(super) fn new(run: &'a Run<'a>, start: Instant) -> Watch<'a> {
        let options = run.options;
        let source = run.jobs.iter().find_map(|job| match &job.source {
            Source::File(path) => path.parent().filter(|folder| !folder.as_os_str().is_empty()),
            Source::Stdin | Source::Elsewhere(_) => None,
        });
        let sampler = Sampler::new(Some(source.unwrap_or(Path::new("."))));
        let facts = Facts {
            rate_cap: run.rate_cap(),
            lanes_fixed: options.lanes.or(options.files_at_once),
            memory: weir_observe::memory::available(),
            tcp_wmem_max: sysctl::tcp_wmem_max().ok(),
            cpus: weir_observe::cpu::available_cpus(),
            tls: (run.name)("").starts_with("https"),
            objects: run.jobs.len() as u64,
            most_at_once: most_at_once(run.jobs, &run.uploads.bounds(), run.options.part_size),
            uploads: true,
            ..Facts::default()
        };
        let first = options.lanes.unwrap_or(super::engine::FIRST_LANES);
        Watch {
            run,
            start,
            cadence: Cadence::new(start, INTERVAL),
            sampler,
            diag: SockDiag::open().ok(),
            quota: Quota::open(Pid(std::process::id())).ok(),
            seen: BTreeMap::new(),
            evidence: Evidence { facts, ..Evidence::default() },
            tuner: options.lanes.is_none().then(|| Tuner::new(first, MOST_LANES).of_uploads()),
            recent: Vec::new(),
            limit: None,
            has_peer: false,
            is_stopping: false,
        }
    }

    pub(super) fn until_over(&mut self, observer: &mut dyn Observer, spawn: &dyn Fn()) {
        loop {
            spawn();
            let over = self.run.queue.wait_over(SAMPLE_INTERVAL);
            if self.run.is_stopped() && !self.is_stopping {
                self.is_stopping = true;
                self.run.queue.stop();
            }
            self.look();
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

    fn look(&mut self) {
        for state in self.run.lanes() {
            let (has_peer, facts) = (&mut self.has_peer, &mut self.evidence.facts);
            let seen = self.seen.entry(state.id).or_insert_with(|| SeenLane::new(state));
            if let (Some(local), false) = (seen.look(self.diag.as_mut()), *has_peer) {
                *has_peer = true;
                facts.peer_is_local = local;
            }
        }
    }

    fn close_interval(&mut self, now: Instant, observer: &mut dyn Observer) {
        let (opened, span) = (self.cadence.opened(), self.cadence.passed(now));
        let shares: Vec<LaneShare> =
            self.seen.values_mut().map(|seen| seen.interval(now, opened, span)).collect();
        let throttled = self.quota.as_mut().map(Quota::interval).unwrap_or_default();
        let ended = self.cadence.close_at_work(now, shares.iter().map(|share| &share.lane), throttled);
        let interval = self.interval(&ended, &shares, throttled);
        let over: Vec<u32> = self.seen.iter().filter(|(_, seen)| seen.last).map(|(id, _)| *id).collect();
        over.iter().for_each(|id| drop(self.seen.remove(id)));
        self.run.forget_lanes(&over);
        self.recent.push((span, interval.received));
        if self.recent.len() > 10 {
            self.recent.remove(0);
        }
        let (facts, said) = (&mut self.evidence.facts, self.run.http.waits());
        facts.rate_cap = self.run.rate_cap();
        (facts.server_said, facts.server_failed, facts.broke) =
            (said.words(), said.failure(), said.breakage());
        let limit = judge_interval(&interval, &Context::live(&self.evidence)).limit;
        self.limit = Some(limit);
        let under_way = || self.under_way();
        let evidence = &self.evidence;
        observer.interval(&ClosedInterval { interval: &interval, limit, evidence, under_way: &under_way });
        let own_cpu: Duration = shares.iter().map(|share| share.cpu).sum();
        // Of a store that takes little at once, an interval may have brought nothing.
        let started = self.seen.values().filter(|seen| seen.has_carried && seen.state.bulk.load(Relaxed));
        let started = started.count() as u32;
        if !ended.stood_still {
            self.tune(&interval, limit, (own_cpu, started), now);
        }
        self.evidence.push(interval, MOST_INTERVALS);
    }

    /// The evidence of an interval in which the lanes did so, and a quota held this process back for so long.
    fn interval(&mut self, ended: &EndedInterval, shares: &[LaneShare], throttled: Duration) -> Interval {
        let span = ended.span;
        let mut host = self.sampler.host_interval();
        // This machine's disk is the source's; nothing is written to it.
        let unseen = || "the store's disk is not seen from here".to_owned();
        (host.dirty, host.disk) = (Reading::Missing(unseen()), Reading::Missing(unseen()));
        let mut lanes: Vec<LaneInterval> = shares.iter().map(|share| share.lane.clone()).collect();
        for lane in &mut lanes {
            if let Reading::Value(thread) = &mut lane.thread {
                thread.throttled = throttled;
            }
        }
        let attempts: Vec<Attempt> =
            self.seen.values_mut().filter_map(|seen| seen.attempts.interval()).collect();
        let busy = host.cpu.value().map(|cpu| cpu.busy.iter().sum::<f64>());
        let own = host.cpu.value().map(|cpu| cpu.process.as_secs_f64() / span.as_secs_f64().max(1e-3));
        let interval = Interval {
            received: shares.iter().map(|share| share.flow.acked).sum(),
            objects: shares.iter().map(|share| share.objects).sum(),
            ..ended.evidence(host, lanes)
        };
        if ended.stood_still {
            return interval;
        }
        let interval = Interval {
            sending: Reading::Value(stages(shares, busy, own)),
            around: Around { attempts, ..Around::default() },
            ..interval
        };
        ended.with_pauses(interval, shares.iter().map(|share| &share.spent))
    }

    fn under_way(&self) -> Vec<UnderWay> {
        let name = |job: usize| {
            let key = self.run.jobs[job].key.as_str();
            key.rsplit('/').next().unwrap_or(key).to_owned()
        };
        let active = self.run.queue.active();
        active
            .iter()
            .map(|one| UnderWay { name: name(one.job), done: one.bytes(), size: one.size(), grows_at: None })
            .collect()
    }

    fn tune(&mut self, interval: &Interval, limit: Limit, (own_cpu, started): (Duration, u32), now: Instant) {
        let Some(tuner) = &mut self.tuner else { return };
        if self.run.rate_cap().is_some_and(|cap| at_own_limit(interval, cap)) {
            return tuner.pass();
        }
        let census = self.run.queue.census();
        let active = self.run.queue.active();
        if census.bulk == 0 && active.is_empty() {
            return;
        }
        let refused = self.seen.values().any(|seen| seen.state.refused.swap(false, Relaxed));
        let senders = || interval.lanes.iter().filter_map(|lane| lane.sender.value());
        let round_trips = senders().filter_map(|seen| Some((seen.rtt?, seen.min_rtt?)));
        let left = active.iter().map(|one| Some(one.size()?.saturating_sub(one.bytes()))).sum();
        let seen = Observation {
            now: now - self.start,
            own_cpu: own_cpu.as_secs_f64() / interval.span.as_secs_f64().max(1e-3),
            span: interval.span,
            bytes: interval.received,
            lanes: census.bulk,
            started,
            limit,
            free_cpus: interval.cpu.value().map_or(0.0, |cpu| cpu.busy.iter().map(|busy| 1.0 - busy).sum()),
            left,
            refused,
            queue: queue_stands(round_trips),
            disorder: senders().any(|seen| seen.retransmitted > 0),
            round_trip: senders().filter_map(|seen| seen.min_rtt).max(),
        };
        let decided = tuner.observe(&seen);
        let Some(lanes) = decided.last().map(|change| change.to) else { return };
        self.run.queue.want_bulk(lanes);
        self.evidence.trials = tuner.trials().to_vec();
        for change in decided {
            tracing::info!("{}", Event { at: now - self.start, decision: Decision::Lanes(change) });
        }
    }

    fn progress(&self, now: Instant) -> Progress {
        let census = self.run.queue.census();
        let active = self.run.queue.active();
        let span: Duration = self.recent.iter().map(|interval| interval.0).sum();
        let bytes: u64 = self.recent.iter().map(|interval| interval.1).sum();
        Progress {
            elapsed: now - self.start,
            bytes: census.finished.1 + active.iter().map(|one| one.bytes()).sum::<u64>(),
            total: self.run.jobs.iter().map(|job| job.size).sum(),
            rate: Rate::of(bytes, span),
            lanes: census.lanes,
            limit: self.limit,
            files: (census.finished.0, self.run.jobs.len()),
            at_least: false,
        }
    }

    pub(super) fn finish(self) -> RunReport {
        let interrupted = self.run.is_stopped();
        let unfinished = || match self.run.queue.refusal() {
            _ if interrupted => StoreError::Http(GetError::Interrupted),
            Some(why) => StoreError::Local(why),
            None => StoreError::Usage("not finished, because the run ended early".to_owned()),
        };
        let mut jobs = self.run.queue.take_reports(unfinished);
        if let (Some(note), Some(first)) = (self.run.throttle_note(), jobs.first_mut()) {
            first.notes.push(note);
        }
        RunReport {
            jobs,
            sent: u64::try_from(self.run.moved.load(Relaxed)).unwrap_or_default(),
            elapsed: self.start.elapsed(),
            evidence: self.evidence,
            interrupted,
        }
    }
}

impl SeenLane {
    fn new(state: Arc<LaneState>) -> SeenLane {
        SeenLane {
            state,
            thread: None,
            socket: 0,
            flow: None,
            times: StageTimes::default(),
            attempts: OwnAttempts::default(),
            requests: 0,
            objects: 0,
            connects: 0,
            cpu: Duration::ZERO,
            has_carried: false,
            last: false,
        }
    }

    /// Looks at its thread and its socket. Whether the store is this machine, once that is known.
    fn look(&mut self, diag: Option<&mut SockDiag>) -> Option<bool> {
        self.attempts.look(self.state.id, &self.state.clock);
        let tid = self.state.tid.load(Relaxed);
        if self.thread.is_none() && tid != 0 {
            self.thread = Some(LaneProbe::new(Tid(tid)));
        }
        if let Some(thread) = &mut self.thread {
            thread.look();
        }
        let changed = {
            let shared = self.state.socket.lock();
            (shared.1 != self.socket).then(|| (shared.0.clone(), shared.1))
        };
        if let Some((socket, version)) = changed {
            self.socket = version;
            self.connects += u32::from(socket.is_some());
            let id = socket.as_deref().and_then(SocketId::of);
            self.flow = id.map(|id| (id, FlowProbe::from_its_start()));
        }
        let (id, probe) = self.flow.as_mut()?;
        if let Some(diag) = diag
            && let Ok(Some(socket)) = diag.one(id)
        {
            probe.look_at_sender(&socket, self.state.clock.current().0 == Stage::FirstByte);
        }
        let (local, remote) = (id.local.ip(), id.remote.ip());
        Some(remote.is_loopback() || remote == local)
    }

    fn interval(&mut self, now: Instant, opened: Instant, span: Duration) -> LaneShare {
        let state = &self.state;
        self.last = state.ended.load(Acquire);
        let times = state.clock.read();
        let spent = times.since(&self.times);
        self.times = times;
        let count = |now: u32, before: &mut u32| now - std::mem::replace(before, now);
        let objects = count(state.objects.load(Relaxed), &mut self.objects);
        let requests = count(state.requests.load(Relaxed), &mut self.requests);
        let connects = std::mem::take(&mut self.connects);
        let mut thread = self.thread.as_mut().map_or_else(Reading::default, |probe| probe.interval().0);
        if self.last {
            // The kernel has forgotten an ended thread; it left its own account.
            let total = Duration::from_nanos(state.cpu_at_end.load(Relaxed));
            let cpu = total.saturating_sub(self.cpu);
            thread = Reading::Value(ThreadInterval { cpu, ..ThreadInterval::default() });
        }
        let cpu = thread.value().map_or(Duration::ZERO, |thread| thread.cpu);
        self.cpu += cpu;
        let flow = self.flow.as_mut().map(|(_, probe)| probe.interval()).unwrap_or_default();
        // A lane that did not live for all of the interval was idle for the rest.
        let idle = spent.wall(Stage::Idle) + (now - opened).saturating_sub(spent.total());
        self.has_carried |= flow.acked > 0;
        // Before there is a socket the lane's own clock and thread are all there is to see.
        let sender = flow.sender.value().cloned().unwrap_or_default();
        let lane = LaneInterval {
            lane: state.id,
            received: flow.acked,
            connecting: spent.connecting(),
            resolving: Some(spent.wall(Stage::Resolving)),
            first_byte: spent.wall(Stage::FirstByte),
            limited: spent.wall(Stage::Limited),
            idle: idle.min(span),
            requests,
            objects,
            connects,
            thread,
            tcp: Reading::Missing("the receiving end is the store's".to_owned()),
            sender: Reading::Value(sender),
            ..LaneInterval::default()
        };
        LaneShare { lane, spent, idle, flow, cpu, objects }
    }
}

/// How many requests can send these objects side by side: one for each part, where the store takes parts.
/// `None` where nobody knows: of a stream, and of what others cut.
fn most_at_once(jobs: &[Job], bounds: &Bounds, part_size: Option<u64>) -> Option<u32> {
    let parts = |job: &Job| match (&job.source, job.size) {
        _ if bounds.parts < 2 => Some(1),
        (Source::File(_), Some(size)) if job.share.is_none() => {
            Plan::of_size(size, bounds, part_size).ok().map(|plan| plan.parts(size))
        }
        _ => None,
    };
    jobs.iter().map(parts).try_fold(0_u32, |sum, parts| Some(sum.saturating_add(parts?)))
}

fn stages(shares: &[LaneShare], busy: Option<f64>, own: Option<f64>) -> Stages {
    let sum = |stage: Stage| shares.iter().map(|share| share.spent.wall(stage)).sum::<Duration>();
    Stages {
        threads: shares.len() as u32,
        idle: shares.iter().map(|share| share.idle).sum(),
        read: sum(Stage::Read),
        input: sum(Stage::Input),
        verify: sum(Stage::Verify),
        turn: sum(Stage::Turn),
        send: sum(Stage::Send),
        // Nothing is sent while the answer to what was is out.
        receive: sum(Stage::FirstByte) + sum(Stage::Receive),
        limited: sum(Stage::Limited),
        busy,
        own,
        cpus: weir_observe::cpu::available_cpus(),
        ..Stages::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Attributes;
    use super::*;

    #[test]
    fn no_more_is_sent_at_once_than_there_are_parts() {
        let (mib, most) = (1 << 20, u64::MAX);
        let s3 =
            Bounds { parts: 10_000, least_part: 5 * mib, most_part: 5 << 30, most_single: 5 << 30, most };
        let plain = Bounds { parts: 1, least_part: 0, most_part: most, most_single: most, most };
        let job = |source, size| Job {
            source,
            key: String::new(),
            size,
            attributes: Attributes::default(),
            share: None,
        };
        let file = |size| job(Source::File("f".into()), Some(size));
        assert_eq!(most_at_once(&[file(100 * mib)], &plain, None), Some(1));
        assert_eq!(most_at_once(&[file(mib), file(100 * mib)], &plain, None), Some(2));
        assert_eq!(most_at_once(&[file(mib)], &s3, None), Some(1));
        assert_eq!(most_at_once(&[file(100 * mib)], &s3, None), Some(13));
        assert_eq!(most_at_once(&[file(100 * mib)], &s3, Some(50 * mib)), Some(2));
        assert_eq!(most_at_once(&[job(Source::Stdin, None)], &s3, None), None);
    }
}
