//! The run: starts lanes, watches them, asks the judge, lets the tuner act on its word, keeps the journals.
//!
//! The thread that calls [`run`] is the watch: it looks at every lane each 20 ms and closes a window each 100 ms. Journals
//! are kept by a thread of their own, because on a slow disk even a small write can block.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use weir_model::evidence::{Evidence, Facts, LaneWindow, Reading, ThreadWindow, Window};
use weir_model::limit::Limit;
use weir_model::rule::Context;
use weir_model::verdict::judge_window;
use weir_observe::thread::Tid;
use weir_observe::{LaneProbe, Sampler};
use weir_units::Rate;

use crate::error::Error;
use crate::http::exchange::Http;
use crate::job::{Job, MAX_LANES, MAX_SMALL_LANES, Observer, Options, Output, Progress, RunReport};
use crate::lane::{self, LaneState, failed_before_opening};
use crate::limiter::Limiter;
use crate::object;
use crate::pool::{self, Census, Pool};
use crate::stage_clock::{Stage, StageTimes};
use crate::transfer::Transfer;
use crate::tuner::{Advice, Observation, Tuner};

/// Between two looks at the lanes' queues and wait channels.
const LOOK: Duration = Duration::from_millis(20);

/// A window of evidence: a few round trips, ten ticks of the kernel's CPU accounting.
const WINDOW: Duration = Duration::from_millis(100);

/// Between two journals: what a kill can cost is this much of the transfer.
const JOURNAL: Duration = Duration::from_millis(250);

/// Between two journals that wait for the disk: what a power cut can cost.
const DURABLE: Duration = Duration::from_secs(10);

/// Windows kept: ten minutes at full grain.
const MOST_WINDOWS: usize = 6000;

/// A lane without a byte for this long, while others move, is replaced.
const STALLED: Duration = Duration::from_secs(3);

/// What all threads of a run share.
pub struct Run<'a> {
    /// What to fetch.
    pub jobs: &'a [Job],
    /// How.
    pub options: &'a Options,
    /// The way to the network.
    pub http: &'a Http,
    /// Set from outside to end the run.
    pub stop: &'a AtomicBool,
    /// Who does what.
    pub pool: Pool,
    /// `--limit-rate`.
    pub limiter: Option<Limiter>,
    /// Many objects: HTTP/2 pays.
    pub many: bool,
    lanes: Mutex<Vec<Arc<LaneState>>>,
    restarts: Mutex<HashMap<usize, u32>>,
    names: Mutex<HashMap<PathBuf, usize>>,
    next_lane: AtomicU32,
    fresh_folder: Option<PathBuf>,
}

impl Run<'_> {
    /// The run shall end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// The folder of `target` held nothing when the run began, so there is no need to look at each name in it: jobs
    /// have names of their own.
    pub fn is_fresh_folder(&self, target: &Path) -> bool {
        self.fresh_folder.is_some() && target.parent() == self.fresh_folder.as_deref()
    }

    /// Two jobs of a run must not become one file, even when only the server's names show it.
    pub fn take_name(&self, target: &Path, job: usize) -> Result<(), Error> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        match *names.entry(target.to_owned()).or_insert(job) {
            owner if owner == job => Ok(()),
            owner => Err(Error::Refused(format!(
                "{} is already taken by {}; name it in a list, URL<TAB>NAME a line",
                target.display(),
                object::shown(&self.jobs[owner].url)
            ))),
        }
    }

    /// Counts that `job` begins again; returns how often it has.
    pub fn restarts(&self, job: usize) -> u32 {
        let mut restarts = self.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = restarts.entry(job).or_default();
        *count += 1;
        *count
    }

    /// Wakes the other lanes at work on `transfer`, which has ended.
    pub fn cut_lanes_of(&self, transfer: &Transfer, but: u32) {
        let ledger = transfer.ledger();
        for lane in self.lanes().iter().filter(|lane| lane.id != but && ledger.claim(lane.id).is_some()) {
            lane.kick.store(true, Relaxed);
            lane.cut();
        }
    }

    fn lanes(&self) -> Vec<Arc<LaneState>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Fetches `jobs`. Returns when all have ended or `stop` was set.
pub fn run(
    jobs: &[Job],
    options: &Options,
    http: &Http,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> RunReport {
    let start = Instant::now();
    let files_at_once = options.files_at_once.unwrap_or(1);
    let lanes = options.lanes.unwrap_or(1);
    let bulk = (files_at_once * lanes).min(64);
    let small = options.files_at_once.or(options.lanes).unwrap_or(MAX_SMALL_LANES);
    let fixed = options.files_at_once.is_some() || options.lanes.is_some();
    let run = Run {
        jobs,
        options,
        http,
        stop,
        pool: Pool::new(jobs.len(), small.min(jobs.len() as u32).max(1), fixed, bulk),
        limiter: options.rate_cap.map(Limiter::new),
        many: jobs.len() >= pool::MANY,
        lanes: Mutex::default(),
        restarts: Mutex::default(),
        names: Mutex::default(),
        next_lane: AtomicU32::new(0),
        fresh_folder: fresh_folder(jobs),
    };
    let over = AtomicBool::new(false);
    let mut watch = Watch::new(&run, start);
    std::thread::scope(|scope| {
        let run = &run;
        let journals = std::thread::Builder::new()
            .name("journal".to_owned())
            .stack_size(256 << 10)
            .spawn_scoped(scope, || keep_journals(run, &over));
        while run.pool.admit() {
            hire(run, scope);
        }
        watch.until_over(observer, &|| {
            while run.pool.admit() {
                hire(run, scope);
            }
        });
        over.store(true, Relaxed);
        if let Ok(journals) = journals {
            journals.thread().unpark();
        }
    });
    watch.finish()
}

fn hire<'scope>(run: &'scope Run<'_>, scope: &'scope Scope<'scope, '_>) {
    let state = Arc::new(LaneState::new(run.next_lane.fetch_add(1, Relaxed)));
    run.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&state));
    let name = format!("lane {}", state.id);
    let body = {
        let state = Arc::clone(&state);
        // A lane that fails by a fault of ours must not leave the others waiting for it.
        move || {
            if catch_unwind(AssertUnwindSafe(|| lane::run(run, &state))).is_err() {
                state.ended.store(true, Relaxed);
                run.pool.fault();
            }
        }
    };
    if std::thread::Builder::new().name(name).stack_size(512 << 10).spawn_scoped(scope, body).is_err() {
        state.ended.store(true, Relaxed);
        run.pool.dismissed();
    }
}

fn keep_journals(run: &Run<'_>, over: &AtomicBool) {
    let mut last_durable = Instant::now();
    while !over.load(Relaxed) {
        std::thread::park_timeout(JOURNAL);
        let durable = last_durable.elapsed() >= DURABLE;
        for transfer in run.pool.active() {
            if let Err(error) = transfer.journal(durable) {
                tracing::debug!("{error:#}");
            }
        }
        if durable {
            last_durable = Instant::now();
        }
    }
}

/// The watch's memory of one lane.
struct Seen {
    state: Arc<LaneState>,
    probe: Option<LaneProbe>,
    socket: u32,
    times: StageTimes,
    received: u64,
    written: u64,
    objects: u32,
    requests: u32,
    connects: u32,
    moved: Instant,
    /// Processor time of all windows so far.
    cpu: Duration,
    /// Of the last window: time the server asked for, bytes written.
    backoff: Duration,
    wrote: u64,
    /// The lane had ended when its last window was taken.
    last: bool,
}

struct Watch<'a> {
    run: &'a Run<'a>,
    start: Instant,
    sampler: Sampler,
    seen: Vec<Seen>,
    evidence: Evidence,
    tuner: Option<Tuner>,
    window_start: Instant,
    received: u64,
    recent: Vec<(Duration, u64)>,
    limit: Option<Limit>,
    verify_busy: Duration,
    stopping: bool,
    has_peer: bool,
}

impl<'a> Watch<'a> {
    fn new(run: &'a Run<'a>, start: Instant) -> Watch<'a> {
        let output = output_path(run.jobs);
        let sampler = Sampler::new(output.as_deref());
        let options = run.options;
        let facts = Facts {
            rate_cap: options.rate_cap.map(|rate| rate.0),
            lanes_fixed: options.lanes.or(options.files_at_once),
            receive_buffer: options.receive_buffer.map(|bytes| bytes as u64),
            tcp_rmem_max: weir_observe::sysctl::tcp_rmem().ok().map(|rmem| rmem.max),
            cpus: weir_observe::cpu::available_cpus(),
            peer_is_local: false,
            to_stdout: run.jobs.iter().any(|job| job.output.is_stream()),
            tls: run.jobs.iter().any(|job| job.url.scheme() == "https"),
            objects: run.jobs.len() as u64,
            disk: sampler.disk_name().value().map(|name| (*name).to_owned()),
            ..Facts::default()
        };
        let tuned = options.lanes.is_none() && options.files_at_once.is_none() && options.rate_cap.is_none();
        Watch {
            run,
            start,
            sampler,
            seen: Vec::new(),
            evidence: Evidence { facts, ..Evidence::default() },
            tuner: tuned.then(|| Tuner::new(MAX_LANES)),
            window_start: start,
            received: 0,
            recent: Vec::new(),
            limit: None,
            verify_busy: Duration::ZERO,
            stopping: false,
            has_peer: false,
        }
    }

    fn until_over(&mut self, observer: &mut dyn Observer, staff: &dyn Fn()) {
        loop {
            let over = self.run.pool.wait_over(LOOK.min(self.patience()));
            staff();
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
            let now = Instant::now();
            if over || now - self.window_start >= WINDOW {
                self.close_window(now);
                observer.progress(&self.progress(now));
            }
            if over {
                return;
            }
        }
    }

    /// Small objects need lanes at once, not at the next look.
    fn patience(&self) -> Duration {
        if self.run.many && self.start.elapsed() < Duration::from_secs(1) {
            Duration::from_millis(2)
        } else {
            LOOK
        }
    }

    fn look(&mut self) {
        for lane in self.run.lanes().iter().skip(self.seen.len()) {
            self.seen.push(Seen::new(Arc::clone(lane)));
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

    fn close_window(&mut self, now: Instant) {
        let span = now - self.window_start;
        let host = self.sampler.host_window();
        let lanes: Vec<LaneWindow> =
            self.seen.iter_mut().map(|seen| seen.window(now, self.window_start)).collect();
        let backoff = self.seen.iter().map(|seen| seen.backoff).max().unwrap_or_default();
        let (verify_busy, verify_backlog) = self.verify();
        let window = Window {
            at: (self.window_start - self.start).as_secs_f64(),
            span,
            received: lanes.iter().map(|lane| lane.received).sum(),
            written: self.seen.iter().map(|seen| seen.wrote).sum(),
            objects: lanes.iter().map(|lane| lane.objects).sum(),
            server_backoff: backoff.min(span),
            verify_busy,
            verify_backlog,
            cpu: host.cpu,
            dirty: host.dirty,
            disk: host.disk,
            lanes,
        };
        self.window_start = now;
        let over: Vec<u32> =
            self.seen.iter().filter(|seen| seen.is_over()).map(|seen| seen.state.id).collect();
        self.seen.retain(|seen| !seen.is_over());
        let mut alive = self.run.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        alive.retain(|lane| !over.contains(&lane.id));
        drop(alive);
        self.received += window.received;
        self.recent.push((span, window.received));
        if self.recent.len() > 10 {
            self.recent.remove(0);
        }
        let limit = judge_window(&window, &Context::live(&self.evidence)).limit;
        self.limit = Some(limit);
        self.tune(&window, limit, now);
        self.replace_stragglers(now);
        self.evidence.push(window, MOST_WINDOWS);
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
        let window = busy - before;
        self.verify_busy = busy;
        (window, backlog)
    }

    fn tune(&mut self, window: &Window, limit: Limit, now: Instant) {
        let Some(tuner) = &mut self.tuner else { return };
        let census = self.run.pool.census();
        let started = self.seen.iter().filter(|seen| seen.state.started.load(Relaxed)).count() as u32;
        let refused = self.seen.iter().any(|seen| seen.state.refused.swap(false, Relaxed));
        if census.bulk_lanes == 0 && census.active_bytes == 0 {
            return;
        }
        let free_cpus = match &window.cpu {
            Reading::Value(cpu) => cpu.busy.iter().map(|busy| 1.0 - busy).sum(),
            Reading::Missing(_) => 0.0,
        };
        let own_cpu: Duration = window.lanes.iter().filter_map(|lane| Some(lane.thread.value()?.cpu)).sum();
        let seen = Observation {
            now: now - self.start,
            own_cpu: own_cpu.as_secs_f64() / window.span.as_secs_f64().max(1e-3),
            span: window.span,
            bytes: window.received,
            lanes: census.bulk_lanes,
            started,
            limit,
            free_cpus,
            left: left(&census, &self.run.pool.active()),
            refused,
            round_trip: window.lanes.iter().filter_map(|lane| lane.tcp.value()?.min_rtt).max(),
        };
        if let Advice::Lanes(lanes, why) = tuner.observe(&seen) {
            tracing::info!("lanes: {why}");
            self.run.pool.want_bulk(lanes);
            self.evidence.trials = tuner.trials().to_vec();
            self.dismiss(lanes);
        }
    }

    /// Breaks off the lanes that have not started, then the youngest, until only `wanted` work on bulk objects.
    fn dismiss(&self, wanted: u32) {
        let mut working: Vec<_> = self.seen.iter().filter(|seen| seen.state.is_replaceable()).collect();
        working.sort_by_key(|seen| (!seen.state.started.load(Relaxed), seen.state.id));
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
            let waits =
                matches!(stage, Stage::FirstByte | Stage::Receive | Stage::Connecting) && since >= STALLED;
            if at_work && waits && now - seen.moved >= STALLED {
                tracing::info!(
                    "lane {} has stood still for {} s, replacing it",
                    seen.state.id,
                    STALLED.as_secs()
                );
                seen.state.kick.store(true, Relaxed);
                seen.state.cut();
            }
        }
    }

    fn progress(&self, now: Instant) -> Progress {
        let census = self.run.pool.census();
        let span: Duration = self.recent.iter().map(|window| window.0).sum();
        let bytes: u64 = self.recent.iter().map(|window| window.1).sum();
        Progress {
            elapsed: now - self.start,
            bytes: census.finished_bytes + census.active_bytes,
            total: (census.waiting == 0)
                .then_some(census.active_total)
                .flatten()
                .map(|total| total + census.finished_bytes),
            rate: Rate::of(bytes, span),
            lanes: census.lanes,
            limit: self.limit,
            files: (census.finished, self.run.jobs.len()),
        }
    }

    fn finish(self) -> RunReport {
        let interrupted = self.run.is_stopped();
        // Whoever was at work when the run was stopped keeps what it has.
        for transfer in self.run.pool.active() {
            if !transfer.over.swap(true, Relaxed) {
                let _ = transfer.journal_at_end();
                let outcome = transfer.give_up(unfinished(interrupted));
                self.run.pool.report(transfer.job, transfer.report(outcome, &[]));
            }
        }
        let reports = self.run.pool.take_reports();
        let files = reports
            .into_iter()
            .zip(self.run.jobs)
            .map(|(report, job)| {
                report.unwrap_or_else(|| failed_before_opening(job, unfinished(interrupted)))
            })
            .collect();
        RunReport {
            files,
            received: self.received,
            elapsed: self.start.elapsed(),
            evidence: self.evidence,
            interrupted,
        }
    }
}

impl Seen {
    fn new(state: Arc<LaneState>) -> Seen {
        Seen {
            state,
            probe: None,
            socket: 0,
            times: StageTimes::default(),
            received: 0,
            written: 0,
            objects: 0,
            requests: 0,
            connects: 0,
            moved: Instant::now(),
            cpu: Duration::ZERO,
            backoff: Duration::ZERO,
            wrote: 0,
            last: false,
        }
    }

    fn look(&mut self) {
        let tid = self.state.tid.load(Relaxed);
        if self.probe.is_none() && tid != 0 {
            self.probe = Some(LaneProbe::new(Tid(tid)));
        }
        let Some(probe) = &mut self.probe else { return };
        let (socket, version) = {
            let shared = self.state.socket.lock().unwrap_or_else(PoisonError::into_inner);
            if shared.1 == self.socket { (None, self.socket) } else { (shared.0.clone(), shared.1) }
        };
        if version != self.socket {
            self.socket = version;
            probe.set_socket(socket.and_then(|socket| socket.try_clone().ok()).map(OwnedFd::from));
        }
        probe.look();
    }

    /// Whether the peer's address is one of ours, once there is a connection.
    fn peer_is_local(&self) -> Option<bool> {
        let shared = self.state.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = shared.0.as_ref()?;
        let (peer, own) = (socket.peer_addr().ok()?.ip(), socket.local_addr().ok()?.ip());
        Some(peer.is_loopback() || peer == own)
    }

    fn window(&mut self, now: Instant, start: Instant) -> LaneWindow {
        let state = &self.state;
        self.last = state.ended.load(Acquire);
        let times = state.clock.read();
        let spent = times.since(&self.times);
        self.times = times;
        let count = |now: u32, before: &mut u32| now - std::mem::replace(before, now);
        let objects = count(state.objects.load(Relaxed), &mut self.objects);
        let requests = count(state.requests.load(Relaxed), &mut self.requests);
        let connects = count(state.connects.load(Relaxed), &mut self.connects);
        let received = state.received.load(Relaxed);
        let written = state.written.load(Relaxed);
        self.wrote = written - std::mem::replace(&mut self.written, written);
        let got = received - std::mem::replace(&mut self.received, received);
        if got > 0 || !state.bulk.load(Relaxed) {
            self.moved = now;
        }
        self.backoff = spent.wall(Stage::Backoff);
        let (mut thread, tcp) = match &mut self.probe {
            Some(probe) => probe.window(),
            None => (Reading::default(), Reading::default()),
        };
        if self.last {
            // The kernel has forgotten an ended thread; it left its own account.
            let total = Duration::from_nanos(state.cpu_at_end.load(Relaxed));
            let cpu = total.saturating_sub(self.cpu);
            thread = Reading::Value(ThreadWindow { cpu, ..ThreadWindow::default() });
        }
        self.cpu += thread.value().map_or(Duration::ZERO, |thread| thread.cpu);
        // The CPU time of a fill holds its decryption, which has a stage of its own.
        let decrypt = spent.wall(Stage::Decrypt);
        let receive_cpu = spent.receive_cpu.saturating_sub(decrypt).min(spent.wall(Stage::Receive));
        LaneWindow {
            lane: state.id,
            received: got,
            connecting: spent.wall(Stage::Connecting),
            first_byte: spent.wall(Stage::FirstByte),
            socket_wait: spent.wall(Stage::Receive).saturating_sub(receive_cpu),
            receive_cpu,
            decrypt,
            write: spent.wall(Stage::Write),
            write_cpu: spent.write_cpu.min(spent.wall(Stage::Write)),
            limited: spent.wall(Stage::Limited),
            output_wait: spent.wall(Stage::Output),
            // A lane that did not live for all of the window was idle for the rest.
            idle: spent.wall(Stage::Idle) + (now - start).saturating_sub(spent.total()),
            requests,
            objects,
            connects,
            thread,
            tcp,
            sender: Reading::Missing("the sending end is the server's".to_owned()),
        }
    }

    /// Its last window has been taken.
    fn is_over(&self) -> bool {
        self.last
    }
}

/// Why a job has no report of its own.
fn unfinished(interrupted: bool) -> Error {
    match interrupted {
        true => Error::Interrupted,
        false => Error::Refused("not finished, because the run ended early".to_owned()),
    }
}

/// Bytes still to come, as far as known: of the objects at work, and some for each job that waits.
fn left(census: &Census, active: &[Arc<Transfer>]) -> Option<u64> {
    let at_work = census.active_total.map(|total| total.saturating_sub(census.active_bytes))?;
    let mean = active.iter().filter_map(|transfer| transfer.size).max().unwrap_or(0);
    Some(at_work + mean * census.waiting as u64)
}

/// The folder that all of `jobs` go to, if it is empty.
fn fresh_folder(jobs: &[Job]) -> Option<PathBuf> {
    let Output::Folder(folder) = &jobs.first()?.output else { return None };
    let shared = jobs.len() > 1 && jobs.iter().all(|job| job.output == Output::Folder(folder.clone()));
    let is_empty = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    (shared && is_empty).then(|| folder.join("x").parent().map(Path::to_owned)).flatten()
}

/// A path on the device that the output goes to.
fn output_path(jobs: &[Job]) -> Option<PathBuf> {
    jobs.iter().find_map(|job| match &job.output {
        Output::File(_) if job.output.is_stream() => None,
        Output::File(path) => Some(match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => Path::new(".").to_owned(),
        }),
        Output::Folder(folder) => Some(folder.clone()),
        Output::Stdout | Output::Memory(_) => None,
    })
}
