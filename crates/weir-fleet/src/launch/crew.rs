//! Workers on hosts: who keeps each of them going, and until when.
//!
//! A worker that was killed, or whose host is away, is started again after 1, 2, 4 ... 60 s, for as long as
//! others work. One that leaves in order is not: somebody there wanted it gone. A host on which nothing can
//! be moved (no credentials, a full disk) is tried once a minute. It is over when no worker works and none is
//! promising.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_units::backoff::doubled;

use super::hosts::FleetHost;
use super::hub::HubLedger;
use super::post::{self, Fate, Line};
use super::wire::{Farewell, WorkOrder};
use crate::ledger::postgres::DatabaseUrl;
use crate::worker::{WorkerEnd, WorkerSignals};

/// Pauses before a worker is started again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// So many failures one after another, and nobody waits for this worker any more.
const HOPELESS: u32 = 4;

/// A worker that was there for so long has begun well: what ends it then is a new failure.
const BEGUN_WELL: Duration = Duration::from_secs(10);

/// Hosts to which a connection is made at once: each takes a process of ssh and some 10 ms of a processor.
const AT_ONCE: usize = 32;

/// Between two looks at signals.
const TICK: Duration = Duration::from_millis(50);

/// How workers are reached, and what they are told.
#[derive(Debug, Clone)]
pub struct CrewManner {
    /// The ssh program and its flags.
    pub ssh: Vec<String>,
    /// The weir to start there, as words for the far shell; none for a copy of this one.
    pub program: Option<String>,
    /// Builds of this version for hosts of other machines, before those that lie beside this one.
    pub builds: Vec<std::path::PathBuf>,
    /// How long a host may say nothing.
    pub silence: Duration,
    /// Of this weir.
    pub version: String,
    /// Workers of a host that does not say.
    pub workers: u32,
    /// Words of `weir fleet work`.
    pub words: Vec<String>,
    /// The database that workers connect to by themselves.
    pub ledger: Option<DatabaseUrl>,
}

/// Something that people want to know.
#[derive(Debug, Clone)]
pub enum CrewEvent {
    /// A worker began.
    Began,
    /// A line of a host.
    Said(String),
    /// A worker could not be started, or is gone; when it is started again.
    Failed(String, Option<Duration>),
    /// A worker has ended in order.
    Ended(Farewell),
}

/// What became of a worker.
#[derive(Debug, Clone, Default)]
pub struct CrewMember {
    /// Its host, as it was written.
    pub host: String,
    /// How often it was started.
    pub starts: u32,
    /// What it did in the end.
    pub farewell: Option<Farewell>,
    /// Why it failed the last time, if it did not do better after that.
    pub failure: Option<String>,
}

/// Where a worker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is started, or tried again, and may well come.
    Promising,
    Working,
    /// It is tried again, but nobody waits for it.
    Hopeless,
    Over,
}

/// One worker.
struct Slot<'a> {
    host: &'a FleetHost,
    /// Held while one of its host's workers is started: a server refuses many at once (sshd_config(5),
    /// MaxStartups), and the first of them brings weir along.
    turn: &'a Mutex<()>,
    standing: Mutex<Standing>,
    member: Mutex<CrewMember>,
    /// Ends its connection, or the attempt to make one.
    cut: Arc<AtomicBool>,
}

/// All of them.
struct Crew<'a> {
    ledger: &'a HubLedger,
    manner: &'a CrewManner,
    signals: &'a WorkerSignals,
    starting: AtomicUsize,
    over: AtomicBool,
    events: Mutex<Sender<(usize, CrewEvent)>>,
}

/// Starts workers on `hosts` and looks after them until none is left. `tell` hears what happens, with the
/// host; `tick` is called some times a second with the number of those that work.
pub fn run(
    hosts: &[FleetHost],
    ledger: &HubLedger,
    manner: &CrewManner,
    signals: &WorkerSignals,
    tell: &mut dyn FnMut(&str, CrewEvent),
    tick: &mut dyn FnMut(usize),
) -> Vec<CrewMember> {
    let (events, heard) = channel();
    let turns: Vec<Mutex<()>> = hosts.iter().map(|_| Mutex::new(())).collect();
    let slots: Vec<Slot<'_>> = hosts
        .iter()
        .zip(&turns)
        .flat_map(|(host, turn)| {
            (0..host.workers.unwrap_or(manner.workers)).map(move |_| Slot {
                host,
                turn,
                standing: Mutex::new(Standing::Promising),
                member: Mutex::new(CrewMember { host: host.name.clone(), ..CrewMember::default() }),
                cut: Arc::default(),
            })
        })
        .collect();
    let crew = Crew {
        ledger,
        manner,
        signals,
        starting: AtomicUsize::new(0),
        over: AtomicBool::new(false),
        events: Mutex::new(events),
    };
    std::thread::scope(|scope| {
        let crew = &crew;
        for (number, slot) in slots.iter().enumerate() {
            let thread = std::thread::Builder::new().name("keeper".to_owned()).stack_size(512 << 10);
            if let Err(error) = thread.spawn_scoped(scope, move || crew.keep(number, slot)) {
                let why = format!("cannot start a thread: {}; raise ulimit -u", weir_units::plain(&error));
                crew.fails(number, slot, why, None);
                *slot.standing.lock() = Standing::Over;
            }
        }
        crew.watch(&slots, &heard, tell, tick);
    });
    while let Ok((number, event)) = heard.try_recv() {
        tell(&slots[number].host.name, event);
    }
    slots.into_iter().map(|slot| slot.member.into_inner()).collect()
}

impl Crew<'_> {
    /// Until nobody works and nobody is waited for.
    fn watch(
        &self,
        slots: &[Slot<'_>],
        heard: &Receiver<(usize, CrewEvent)>,
        tell: &mut dyn FnMut(&str, CrewEvent),
        tick: &mut dyn FnMut(usize),
    ) {
        loop {
            match heard.recv_timeout(TICK) {
                Ok((number, event)) => tell(&slots[number].host.name, event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            let standings: Vec<Standing> = slots.iter().map(|slot| *slot.standing.lock()).collect();
            tick(standings.iter().filter(|standing| **standing == Standing::Working).count());
            let is_done = |standing: &Standing| matches!(standing, Standing::Over | Standing::Hopeless);
            if standings.iter().all(is_done) {
                self.over.store(true, Relaxed);
            }
            if self.is_leaving() {
                let idle = slots.iter().zip(&standings);
                idle.filter(|(_, standing)| **standing != Standing::Working)
                    .for_each(|(slot, _)| slot.cut.store(true, Relaxed));
            }
            if standings.iter().all(|standing| *standing == Standing::Over) {
                return;
            }
        }
    }

    /// Nothing is begun any more.
    fn is_leaving(&self) -> bool {
        let signals = [&*self.signals.drain, &*self.signals.stop, &self.over];
        signals.into_iter().any(|signal| signal.load(Relaxed))
    }

    /// Keeps one worker going.
    fn keep(&self, number: usize, slot: &Slot<'_>) {
        let mut failures = 0;
        while !self.is_leaving() {
            *slot.standing.lock() =
                if failures < HOPELESS { Standing::Promising } else { Standing::Hopeless };
            let (fate, worked) = self.one(number, slot);
            match fate {
                Fate::Left(farewell) => {
                    // All that could still be started would be told the same.
                    self.over.fetch_or(farewell.end == Ok(WorkerEnd::Complete), Relaxed);
                    let is_able = !matches!(farewell.end, Ok(WorkerEnd::Trouble(_)) | Err(_));
                    let failure = match &farewell.end {
                        Ok(WorkerEnd::Trouble(why)) => Some(format!("it can move nothing: {why}")),
                        Err(why) => Some(format!("it cannot work: {why}")),
                        Ok(_) => None,
                    };
                    slot.member.lock().farewell = Some(farewell.clone());
                    self.tell(number, CrewEvent::Ended(farewell));
                    if is_able {
                        slot.member.lock().failure = None;
                        break;
                    }
                    // Its reason stays until somebody there does something about it.
                    failures = HOPELESS;
                    *slot.standing.lock() = Standing::Hopeless;
                    let again = (!self.is_leaving()).then_some(LONGEST_PAUSE);
                    self.fails(number, slot, failure.unwrap_or_default(), again);
                    self.pause(LONGEST_PAUSE);
                }
                Fate::NeverWorks(why) => {
                    self.fails(number, slot, why, None);
                    break;
                }
                Fate::Lost(_) if self.is_leaving() => break,
                Fate::Lost(why) => {
                    failures = if worked >= BEGUN_WELL { 1 } else { failures + 1 };
                    let pause = doubled(FIRST_PAUSE, failures - 1, LONGEST_PAUSE);
                    self.fails(number, slot, why, Some(pause));
                    *slot.standing.lock() =
                        if failures < HOPELESS { Standing::Promising } else { Standing::Hopeless };
                    self.pause(pause);
                }
            }
        }
        *slot.standing.lock() = Standing::Over;
    }

    /// One life of a worker, and how long it was there.
    fn one(&self, number: usize, slot: &Slot<'_>) -> (Fate, Duration) {
        let far = match self.start(number, slot) {
            Ok(far) => far,
            Err(fate) => return (fate, Duration::ZERO),
        };
        let began = Instant::now();
        *slot.standing.lock() = Standing::Working;
        self.tell(number, CrewEvent::Began);
        let line = Line { ledger: self.ledger, signals: self.signals, over: &self.over, cut: &slot.cut };
        (post::serve(far, &line), began.elapsed())
    }

    fn start(&self, number: usize, slot: &Slot<'_>) -> Result<weir_cp::ssh::Far, Fate> {
        let CrewManner { ssh, program, builds, silence, version, words, ledger, .. } = self.manner;
        let mut host = weir_cp::ssh::Host {
            name: slot.host.login.clone(),
            words: Some(slot.host.name.clone()),
            ssh: ssh.clone(),
            program: program.clone(),
            builds: builds.clone(),
            silence: *silence,
        };
        if let Some(port) = slot.host.port {
            host = host.at_port(port, &slot.host.name);
        }
        let tell = self.events.lock().clone();
        let hears = Arc::new(move |line: &str| {
            // Nobody listens any more only when all is over.
            let _ = tell.send((number, CrewEvent::Said(line.to_owned())));
        });
        let _turn = slot.turn.lock();
        let Some(_door) = self.enter() else { return Err(Fate::Lost("it was not started".to_owned())) };
        slot.member.lock().starts += 1;
        let order = WorkOrder { words: words.clone(), host: slot.host.name.clone(), ledger: ledger.clone() };
        post::start(&host, version, order, &slot.cut, hears)
    }

    /// Waits for a place among those that are started now; `None`: nobody is started any more.
    fn enter(&self) -> Option<Door<'_>> {
        loop {
            let more = |now| (now < AT_ONCE).then_some(now + 1);
            if self.is_leaving() {
                return None;
            }
            if self.starting.fetch_update(Relaxed, Relaxed, more).is_ok() {
                return Some(Door(&self.starting));
            }
            std::thread::sleep(TICK);
        }
    }

    fn fails(&self, number: usize, slot: &Slot<'_>, why: String, again: Option<Duration>) {
        slot.member.lock().failure = Some(why.clone());
        self.tell(number, CrewEvent::Failed(why, again));
    }

    fn tell(&self, number: usize, event: CrewEvent) {
        // The one who listens is there until all of these have ended.
        let _ = self.events.lock().send((number, event));
    }

    fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.is_leaving() {
            std::thread::sleep(TICK);
        }
    }
}

/// A place among those that are started now.
struct Door<'a>(&'a AtomicUsize);

impl Drop for Door<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
