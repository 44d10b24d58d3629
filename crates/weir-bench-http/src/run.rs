//! A run from its settings to its outcome: descriptors, addresses, loops, readings before and after.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_model::evidence::{CpuInterval, Reading};
use weir_model::load::{Connects, LoadEvidence, LoopUse, PathUse, ServerUse, Use};
use weir_observe::cpu::{self, CpuReader, CpuTicks};
use weir_units::stats::high;
use weir_units::{nofile, plain};

use crate::clock::Clock;
use crate::error::LoadError;
use crate::event_loop::{EventLoop, LoopReport, PathSeen, Shared, Source};
use crate::http2::{self, question::Question};
use crate::observer::Observer;
use crate::request;
use crate::script::{Script, ScriptThread, Spectrum, Summary};
use crate::server::{self, Halts, Server};
use crate::settings::{Ask, Settings};
use crate::tally::Tally;
use crate::target::{self, Address};
use crate::way;

/// How long a loop may take to notice that it should end: ten of its ticks, and far below what a person waits
/// for.
const GRACE: Duration = Duration::from_secs(2);

/// How often the stop flag is looked at.
const GLANCE: Duration = Duration::from_millis(20);

/// Descriptors besides the connections': standard streams, files of a script.
const OTHER_DESCRIPTORS: u64 = 64;

/// Descriptors of a loop: epoll, timer and clock; over HTTP/2 a waker and copies of four sockets too.
const LOOP_DESCRIPTORS: u64 = 8;

/// What a run came to.
#[derive(Debug)]
pub struct LoadOutcome {
    /// What all loops counted.
    pub tally: Tally,
    /// The measured time.
    pub span: Duration,
    /// When the run started, seconds since 1970, for lists of requests.
    pub started: Duration,
    /// Where the connections went.
    pub address: Address,
    /// Processor time of the loops over the measured time.
    pub cpu: Duration,
    /// Latencies as wrk counts them, microseconds.
    pub latency: Spectrum,
    /// Answers a second of each loop in each tenth of a second.
    pub rates: Spectrum,
    /// Someone said stop before the end.
    pub interrupted: bool,
    /// What the judge is shown.
    pub evidence: LoadEvidence,
    /// Why the run ended early although something was counted: a script's error, or one that does not return.
    pub failed: Option<LoadError>,
    finish: Option<Script>,
}

impl LoadOutcome {
    /// Calls the script's `done()`, if it has one; to be called after the report, as wrk does. It may take
    /// its time, until `stop` says otherwise.
    pub fn finish(&mut self, stop: &AtomicBool) -> Result<(), LoadError> {
        let Some(script) = self.finish.take().filter(Script::has_done) else { return Ok(()) };
        let path = script.path().to_owned();
        let summary = Summary {
            duration: self.span,
            requests: self.tally.requests,
            bytes: self.tally.received,
            errors: self.tally.errors,
            latency: self.latency.clone(),
            rates: self.rates.clone(),
        };
        let hangs = || LoadError::ScriptHangs { path: path.clone(), function: "done()".to_owned() };
        let (sender, receiver) = channel();
        spawn("script's done", move || drop(sender.send(script.done(summary))))?;
        wait_for(&receiver, stop, GRACE, hangs)?
    }
}

/// Runs it. `stop` ends it early, with what was counted by then; `observer` hears of it.
///
/// All work is done on threads of its own, so that a script that never returns, wherever it is, cannot hold
/// the caller: such threads are left behind, for the end of the process to end them.
pub fn run(
    settings: Settings,
    stop: &Arc<AtomicBool>,
    observer: Arc<dyn Observer>,
) -> Result<LoadOutcome, LoadError> {
    let (sender, receiver) = channel();
    let own_stop = Arc::clone(stop);
    let script = script_path(&settings);
    let direct = move || {
        let _ = sender.send(direct(settings, &own_stop, observer));
    };
    spawn("bench http", direct)?;
    let hangs = || match script.clone() {
        Some(path) => {
            LoadError::ScriptHangs { path, function: "its first lines, setup() or init()".to_owned() }
        }
        None => LoadError::Interrupted,
    };
    wait_for(&receiver, stop, 2 * GRACE, hangs)?
}

/// What another thread has to say. One that has said nothing so long after `stop` is left behind, and
/// `hangs`.
fn wait_for<T>(
    receiver: &Receiver<T>,
    stop: &AtomicBool,
    timeout: Duration,
    hangs: impl Fn() -> LoadError,
) -> Result<T, LoadError> {
    let mut stopped_at: Option<Instant> = None;
    loop {
        match receiver.recv_timeout(GLANCE) {
            Ok(said) => return Ok(said),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(LoadError::system(
                    "run the load",
                    io::Error::other("its thread ended without a result"),
                ));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.load(Relaxed) && stopped_at.get_or_insert_with(Instant::now).elapsed() > timeout {
            return Err(hangs());
        }
    }
}

fn script_path(settings: &Settings) -> Option<PathBuf> {
    match &settings.ask {
        Ask::Script(script) => Some(script.path.clone()),
        Ask::Same(_) | Ask::Http2(_) => None,
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), LoadError> {
    let made = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    made.map(drop).map_err(|cause| LoadError::system("start a thread", cause))
}

/// What each loop needs to start.
struct Seat {
    connections: usize,
    address: Address,
    work: Work,
}

/// What a loop is made of.
enum Work {
    Http1(Source),
    Http2(Question),
}

fn direct(
    settings: Settings,
    stop: &AtomicBool,
    observer: Arc<dyn Observer>,
) -> Result<LoadOutcome, LoadError> {
    raise_descriptors(&settings)?;
    let (seats, script) = seats(&settings)?;
    let address = seats[0].address.clone();
    let server = match settings.way.as_ref().and_then(|way| way.hides_server()) {
        Some(why) => Reading::Missing(why),
        None => Server::find(&address),
    };
    if stop.load(Relaxed) {
        return Err(LoadError::Interrupted);
    }
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let from = nanos(settings.warm_up);
    script.iter().for_each(Script::flush);
    observer.begun();
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let shared = Arc::new(Shared {
        to: settings.span.map_or(u64::MAX, |span| from.saturating_add(nanos(span))),
        from,
        clock: Clock::new(),
        stop: AtomicBool::new(false),
        granted: AtomicU64::new(0),
        beats: seats.iter().map(|_| AtomicU64::new(0)).collect(),
        published: seats.iter().map(|_| Mutex::new(None)).collect(),
        counts: seats.iter().map(|_| Default::default()).collect(),
        observer,
        settings,
    });
    let (sender, receiver) = channel();
    let count = seats.len();
    for (index, seat) in seats.into_iter().enumerate() {
        let (shared, sender) = (Arc::clone(&shared), sender.clone());
        spawn(&format!("load {index}"), move || work(&shared, index, seat, &sender))?;
    }
    drop(sender);
    let gathered = gather(&shared, &receiver, count, stop, server);
    Ok(outcome(&shared, gathered, address, started, script))
}

fn work(shared: &Arc<Shared>, index: usize, seat: Seat, sender: &Sender<(usize, LoopReport)>) {
    let Seat { connections, address, work } = seat;
    let report = match work {
        Work::Http1(source) => EventLoop::new(shared, index, connections, address, source)
            .map_or_else(LoopReport::failed, EventLoop::run),
        Work::Http2(question) => http2::run(shared, index, connections, address, question),
    };
    if report.failed.is_some() {
        // One loop alone would give a figure that nobody asked for.
        shared.stop.store(true, Relaxed);
    }
    let _ = sender.send((index, report));
}

/// Connections and requests for each loop, spread evenly.
fn seats(settings: &Settings) -> Result<(Vec<Seat>, Option<Script>), LoadError> {
    let threads = settings.threads.clamp(1, settings.connections.max(1)) as usize;
    let connections = settings.connections as usize;
    let share = |index: usize| connections / threads + usize::from(index < connections % threads);
    let same = |work: &dyn Fn() -> Work| {
        let address = reachable(settings)?;
        let seat = |index| Seat { connections: share(index), address: address.clone(), work: work() };
        Ok(((0..threads).map(seat).collect(), None))
    };
    match &settings.ask {
        Ask::Same(bytes) => same(&|| Work::Http1(Source::Same(bytes.clone(), 1))),
        Ask::Http2(http2) => {
            let question = Question::new(&http2.request, &settings.target, http2.streams)?;
            same(&|| Work::Http2(question.clone()))
        }
        Ask::Script(wanted) => {
            // A way knows where its sockets lead; a script is told, and has no say in it.
            let known = match &settings.way {
                Some(_) => vec![reachable(settings)?],
                None => settings.addresses.clone(),
            };
            let script = Script::load(wanted, &settings.target, &known)?;
            let mut made: Vec<ScriptThread> = Vec::with_capacity(threads);
            let mut first = Vec::new();
            let mut depth = 1;
            for index in 0..threads {
                let thread = script.thread()?;
                if index == 0 {
                    // As wrk does, from the first thread's state alone: its counters start one ahead.
                    // Without a text it has said stop, and no loop asks anything.
                    if thread.request(&mut first)? {
                        depth = request::count(&first).map_err(|wrong| LoadError::ScriptRequest {
                            what: wrong.what,
                            line: wrong.line,
                            column: wrong.column,
                        })?;
                    }
                }
                made.push(thread);
            }
            let mut seats = Vec::with_capacity(threads);
            for (index, thread) in made.into_iter().enumerate() {
                let address = thread.address();
                // Always the same text needs no Lua to say it; what answers and delays need Lua for, they
                // keep.
                let plain = !thread.dynamic && !thread.wants_answers() && !thread.has_delay();
                let source = if plain {
                    let mut text = Vec::new();
                    thread.request(&mut text)?;
                    Source::Kept(text, depth, thread)
                } else {
                    Source::Scripted(thread, depth)
                };
                seats.push(Seat { connections: share(index), address, work: Work::Http1(source) });
            }
            Ok((seats, Some(script)))
        }
    }
}

/// The first of the target's addresses where somebody is.
fn reachable(settings: &Settings) -> Result<Address, LoadError> {
    if let Some(way) = &settings.way {
        let reached = way::try_way(way, settings.timeout);
        // What is not the system's has words of its own.
        return reached.map(Address::Tcp).map_err(|cause| match cause.raw_os_error() {
            Some(_) => LoadError::Connect { target: way.place(), cause },
            None => LoadError::Way(plain(&cause)),
        });
    }
    let addresses = match settings.addresses.as_slice() {
        [] => settings.target.resolve()?,
        given => given.to_vec(),
    };
    target::first_reachable(&settings.target, &addresses, settings.timeout)
}

/// What the loops reported, and what was read beside them.
struct Gathered {
    reports: Vec<Option<LoopReport>>,
    server: Reading<ServerUse>,
    cores: Reading<CpuInterval>,
    /// How long this process stood still.
    away: Duration,
    interrupted: bool,
}

/// What was read at the load's end: what the server used, and the cores.
type Ended = (Reading<ServerUse>, Option<Vec<CpuTicks>>);

fn read(cpu: &mut Option<CpuReader>) -> Option<Vec<CpuTicks>> {
    cpu.as_mut().and_then(|cpu| cpu.read().ok())
}

/// The measured time begins; the cores then.
fn begin(server: &mut Reading<Server>, cpu: &mut Option<CpuReader>) -> Option<Vec<CpuTicks>> {
    if let Reading::Value(server) = server {
        server.begin();
    }
    read(cpu)
}

fn look(server: &mut Reading<Server>) {
    if let Reading::Value(server) = server {
        server.look();
    }
}

/// The load has ended.
fn end(server: &mut Reading<Server>, cpu: &mut Option<CpuReader>, halts: &Halts<'_>) -> Ended {
    // First, since the server's connections are looked for once more.
    let cores = read(cpu);
    let used = match server {
        Reading::Value(server) => server.used(halts),
        Reading::Missing(why) => Reading::Missing(why.clone()),
    };
    (used, cores)
}

/// Waits for the loops. One whose script does not return is waited for a little while longer, then left.
fn gather(
    shared: &Shared,
    receiver: &Receiver<(usize, LoopReport)>,
    count: usize,
    stop: &AtomicBool,
    mut server: Reading<Server>,
) -> Gathered {
    let mut cpu = CpuReader::open().ok();
    let (mut before, mut halts) = (begin(&mut server, &mut cpu), Halts::new(&shared.clock));
    let mut after: Option<Ended> = None;
    let mut reports: Vec<Option<LoopReport>> = (0..count).map(|_| None).collect();
    let (mut missing, mut interrupted, mut warm) = (count, false, shared.from > 0);
    let mut ending: Option<u64> = None;
    while missing > 0 {
        let received = receiver.recv_timeout(GLANCE);
        let now = shared.now();
        if warm && now >= shared.from {
            (before, halts, warm) = (begin(&mut server, &mut cpu), Halts::new(&shared.clock), false);
        }
        halts.look(&server);
        match received {
            Ok((index, report)) => {
                // The first loop's end is the load's: what follows is idling.
                after.get_or_insert_with(|| end(&mut server, &mut cpu, &halts));
                reports[index] = Some(report);
                missing -= 1;
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                shared.observer.seen(&shared.seen());
                if after.is_none() {
                    look(&mut server);
                }
            }
        }
        if stop.load(Relaxed) && !shared.stop.swap(true, Relaxed) {
            interrupted = true;
        }
        if (0..count).any(|index| reports[index].is_none() && stands_still(shared, index, now)) {
            shared.stop.store(true, Relaxed);
        }
        let is_ending = now >= shared.to || shared.stop.load(Relaxed);
        if is_ending && shared.since(*ending.get_or_insert(now)) > GRACE {
            break;
        }
    }
    let (used, cores) = after.unwrap_or_else(|| end(&mut server, &mut cpu, &halts));
    // Not before the server was read.
    reports.iter_mut().flatten().for_each(|report| report.open.clear());
    Gathered {
        reports,
        server: used,
        cores: cores_used(before.as_deref(), cores.as_deref(), halts.own()),
        away: halts.own(),
        interrupted,
    }
}

/// The cores from one reading to the next. Their clocks go on while this process stands still, and its own
/// does not: then their shares are not those of the measured time.
fn cores_used(
    before: Option<&[CpuTicks]>,
    after: Option<&[CpuTicks]>,
    away: Duration,
) -> Reading<CpuInterval> {
    let why = match before.zip(after) {
        _ if !away.is_zero() => "weir itself stood still meanwhile",
        Some((before, after)) => match cpu::interval(before, after, Duration::ZERO) {
            Some(window) => return Reading::Value(window),
            None => "the run was shorter than a clock tick",
        },
        None => "/proc/stat cannot be read",
    };
    Reading::Missing(why.to_owned())
}

/// Whether a function of the script has kept this loop for so long that a run without an end (`-n`) would
/// have none. Whatever takes five time-outs at a stretch has let all of its loop's requests time out.
fn stands_still(shared: &Shared, index: usize, now: u64) -> bool {
    let timeout = (GRACE + 5 * shared.settings.timeout).as_nanos();
    let still = now.saturating_sub(shared.beats[index].load(Relaxed));
    matches!(shared.settings.ask, Ask::Script(_)) && u128::from(still) > timeout
}

/// What all loops did together.
struct Added {
    tally: Tally,
    span: Duration,
    cpu: Duration,
    loops: Vec<LoopUse>,
    paths: Vec<PathSeen>,
    threads: Vec<Option<ScriptThread>>,
    failed: Option<LoadError>,
}

fn add_up(shared: &Shared, reports: Vec<Option<LoopReport>>) -> Added {
    let settings = &shared.settings;
    let (mut span, mut cpu) = (Duration::ZERO, Duration::ZERO);
    let mut tally = Tally::new(settings.rate.is_some());
    let (mut loops, mut paths, mut threads, mut failed) = (Vec::new(), Vec::new(), Vec::new(), None);
    for (index, report) in reports.into_iter().enumerate() {
        let Some(report) = report else {
            let published = shared.published[index].lock().take();
            tally.add(&published.unwrap_or_else(|| Tally::new(settings.rate.is_some())));
            failed = Some(match script_path(settings) {
                Some(path) => {
                    LoadError::ScriptHangs { path, function: format!("a function in thread {}", index + 1) }
                }
                None => LoadError::LoopHangs { number: index + 1 },
            });
            continue;
        };
        let measured = report.measured;
        tally.add(&measured.tally);
        span = span.max(measured.wall);
        cpu += measured.cpu;
        let waited = measured.runqueue.unwrap_or_default();
        let thread = Use { cpu: measured.cpu, waited, over: measured.wall };
        loops.push(LoopUse { thread, script: measured.tally.spent.script });
        paths.extend(report.paths);
        failed = failed.or(report.failed);
        threads.push(report.script);
    }
    if span.is_zero() {
        span = shared.since(shared.from);
    }
    Added { tally, span, cpu, loops, paths, threads, failed }
}

fn outcome(
    shared: &Shared,
    gathered: Gathered,
    address: Address,
    started: Duration,
    script: Option<Script>,
) -> LoadOutcome {
    script.iter().for_each(Script::flush);
    let Gathered { reports, server, cores, away, interrupted } = gathered;
    let Added { tally, span, cpu, loops, paths, threads, failed } = add_up(shared, reports);
    let evidence = evidence(&shared.settings, &tally, span, (loops, &paths), (server, cores, away));
    LoadOutcome {
        latency: Spectrum::micros(&tally.latency),
        rates: Spectrum::of(tally.rates.iter().copied()),
        tally,
        span,
        started,
        address,
        cpu,
        interrupted,
        evidence,
        // A state whose thread still runs is not to be touched.
        finish: script.filter(|_| failed.is_none()).map(|script| script.with_threads(threads)),
        failed,
    }
}

/// What the judge is shown: of the client its loops and their paths, of the machines the server, the cores
/// and how long this process stood still.
fn evidence(
    settings: &Settings,
    tally: &Tally,
    span: Duration,
    (loops, paths): (Vec<LoopUse>, &[PathSeen]),
    (server, cores, away): (Reading<ServerUse>, Reading<CpuInterval>, Duration),
) -> LoadEvidence {
    // The latency from the send is what client, path and server take; what a plan adds is waiting for a
    // connection.
    let (first, inside, timed) = (tally.first_byte, tally.inside, tally.timed_answers());
    let per = |sum: Duration, count: u64| Duration::from_secs_f64(sum.as_secs_f64() / count.max(1) as f64);
    let (cores, stolen) = match cores {
        Reading::Value(window) => (Reading::Value(window.busy), window.steal),
        Reading::Missing(why) => (Reading::Missing(why), 0.0),
    };
    LoadEvidence {
        span,
        requests: tally.requests,
        received: tally.received,
        connections: settings.connections,
        streams: settings.streams(),
        rate: settings.rate,
        unsent: tally.unsent,
        under_way: tally.under_way,
        failed: tally.broken(),
        loops,
        server: server::believed(server, tally.requests),
        cores,
        stolen,
        latency: per(first + inside, timed),
        inside: per(inside, timed),
        time: tally.spent.time,
        acks: tally.spent.acks,
        connects: Connects { made: tally.connect.len(), ..tally.spent.connects },
        path: path_use(paths),
        samples: tally.byte_samples.clone(),
        link_rate: None,
        away,
    }
}

fn path_use(paths: &[PathSeen]) -> Reading<PathUse> {
    let Some(min_rtt) = paths.iter().map(|path| path.min_rtt).min() else {
        return Reading::Missing("no TCP connection was open at the end".to_owned());
    };
    let mut rtts: Vec<Duration> = paths.iter().map(|path| path.rtt).collect();
    rtts.sort();
    let retransmits = paths.iter().map(|path| path.retransmits).sum();
    let sockets = u32::try_from(paths.len()).unwrap_or(u32::MAX);
    let received: u64 = paths.iter().map(|path| path.data_segments).sum();
    let out_of_order: u64 = paths.iter().map(|path| path.out_of_order).sum();
    let disordered = out_of_order as f64 / received.max(1) as f64;
    Reading::Value(PathUse {
        min_rtt,
        rtt: high(&rtts, 1, 2).unwrap_or(min_rtt),
        retransmits,
        disordered,
        sockets,
    })
}

/// Lets this process have as many descriptors as the connections take, where the hard limit allows it.
fn raise_descriptors(settings: &Settings) -> Result<(), LoadError> {
    let needed =
        u64::from(settings.connections) + LOOP_DESCRIPTORS * u64::from(settings.threads) + OTHER_DESCRIPTORS;
    let limit = nofile::most();
    if limit < needed {
        return Err(LoadError::Descriptors { connections: settings.connections, needed, limit });
    }
    nofile::raise(needed).map_err(|cause| LoadError::system("raise the limit of descriptors", cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_of_a_run_that_stood_still_are_not_told() {
        let missing = |away| {
            let used = cores_used(Some(&[]), Some(&[]), away);
            used.missing().unwrap_or_default().to_owned()
        };
        assert_eq!(missing(Duration::from_secs(1)), "weir itself stood still meanwhile");
        assert_ne!(missing(Duration::ZERO), "weir itself stood still meanwhile");
    }
}
