//! What a store gives: the time of single requests by size, throughput and requests a second over
//! connections. All of it in objects of its own below a prefix of its own, which are gone at the end.

pub mod judgement;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_codec::digest::Algorithm;
use weir_get::GetError;
use weir_get::http::call::{AtHand, Call};
use weir_get::http::exchange::Http;
use weir_observe::stage_clock::StageClock;
use weir_observe::thread::process_cpu_now;
use weir_units::backoff::doubled;
use weir_units::{Bytes, counted, human_duration, plain};

use crate::caller::{Caller, CallerSetup};
use crate::condition::Condition;
use crate::error::StoreError;
use crate::listing::{ListAsk, PAGE};
use crate::store::Store;
use crate::upload::{Attributes, Object};

/// What is measured, and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Sizes of objects whose requests are timed, bytes. The smallest is also the one that request rates are
    /// measured with, the largest the one for throughput.
    pub sizes: Vec<u64>,
    /// Requests of each kind and size.
    pub count: usize,
    /// Connections, in the order in which they are tried.
    pub connections: Vec<u32>,
    /// For each number of connections.
    pub span: Duration,
}

impl Plan {
    /// Half a minute: 4 KiB is a manifest, 8 MiB a part of an upload. 64 connections are as many as weir
    /// opens.
    pub fn usual() -> Plan {
        Plan {
            sizes: vec![4 << 10, 256 << 10, 8 << 20],
            count: 10,
            connections: vec![1, 2, 4, 8, 16, 32, 64],
            span: Duration::from_secs(2),
        }
    }

    /// Some seconds.
    pub fn quick() -> Plan {
        Plan { count: 3, connections: vec![1, 4, 16], span: Duration::from_millis(500), ..Plan::usual() }
    }
}

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The whole object.
    Get,
    /// In one request.
    Put,
    /// A page with all objects of the prefix.
    List,
}

impl Operation {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Get => "GET",
            Operation::Put => "PUT",
            Operation::List => "LIST",
        }
    }
}

/// Requests of one kind and size, one after another over one connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// Which.
    pub operation: Operation,
    /// Of the object, bytes; 0 for a list.
    pub bytes: u64,
    /// Seconds of each, the shortest first.
    pub seconds: Vec<f64>,
}

/// Requests over so many connections at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Connections.
    pub connections: u32,
    /// Requests that were answered with the object.
    pub answered: u64,
    /// Requests that were put off: 429, 503.
    pub throttled: u64,
    /// Requests that failed for another reason.
    pub failed: u64,
    /// Bytes of objects, those included that had come of requests under way at the end.
    pub bytes: u64,
    /// For so long, seconds.
    pub seconds: f64,
    /// Processor time of this process meanwhile, seconds.
    pub cpu: f64,
}

/// What was measured.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Single requests.
    pub timed: Vec<Timed>,
    /// The largest size, by connections.
    pub throughput: Vec<Load>,
    /// The smallest size, by connections.
    pub requests: Vec<Load>,
    /// The words with which the store put requests off.
    pub throttle_words: Option<String>,
    /// What was not measured, and why; what is left at the store.
    pub missing: Vec<String>,
    /// It was stopped from outside.
    pub interrupted: bool,
}

/// Where and how.
pub struct Setup<'a> {
    /// The bucket.
    pub store: &'a dyn Store,
    /// What the keys begin with, below which the measurement has a prefix of its own.
    pub prefix: &'a str,
    /// The way to the network.
    pub http: &'a Http,
    /// Set: end, and take away what was stored.
    pub stop: &'a AtomicBool,
    /// How long in a row it waits when the store asks for it.
    pub max_wait: Duration,
    /// What is measured.
    pub plan: &'a Plan,
}

/// Nothing could be measured.
#[derive(Debug)]
pub struct Unmeasured {
    /// Why.
    pub cause: StoreError,
    /// What could not be deleted at the store, in words.
    pub left: Vec<String>,
}

/// Hears what comes next; false: end.
pub type OnStep<'a> = &'a mut dyn FnMut(&str, usize, usize) -> bool;

/// For each stretch without a byte: a store that is slower than this gives nothing that helps a decision.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Pauses of a connection after failures in a row: a store that refuses all at once is not flooded, and the
/// first few cost nothing that would be seen.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// Pages of versions that are looked through: far more than one measurement stores.
const PAGES: usize = 10;

/// Measures. An error is one that left nothing to measure, of the first kind of requests; others cost their
/// own figures, and are among what is missing. What is stored is taken away in any case, or told.
pub fn run(setup: &Setup<'_>, on_step: OnStep<'_>) -> Result<Measured, Box<Unmeasured>> {
    let own = format!("{}weir-bench-{:016x}/", setup.prefix, fastrand::u64(..));
    let mut run = Run { setup, own, stored: Vec::new(), has_put: false, measured: Measured::default() };
    let outcome = run.all(on_step);
    run.clean();
    let Run { mut measured, has_put, .. } = run;
    match outcome {
        Err(error) if is_stop(&error) => measured.interrupted = true,
        Err(cause) => {
            // It failed before anything was missing, so this is what could not be deleted. A store that
            // refused the first object has nothing of it.
            let is_refused = cause.is_answer() && !has_put;
            let left = if is_refused { Vec::new() } else { measured.missing };
            return Err(Box::new(Unmeasured { cause, left }));
        }
        Ok(()) => {}
    }
    Ok(measured)
}

struct Run<'a> {
    setup: &'a Setup<'a>,
    own: String,
    /// Keys of what was stored, or may have been.
    stored: Vec<String>,
    /// The store has taken an object.
    has_put: bool,
    measured: Measured,
}

impl Run<'_> {
    fn all(&mut self, on_step: OnStep<'_>) -> Result<(), StoreError> {
        let plan = self.setup.plan;
        let steps = 2 * plan.sizes.len() + 1 + 2 * plan.connections.len();
        let mut index = 0;
        let mut next = |what: &str| {
            index += 1;
            match on_step(what, index - 1, steps) && !self.setup.stop.load(Relaxed) {
                true => Ok(()),
                false => Err(StoreError::Http(GetError::Interrupted)),
            }
        };
        let clock = StageClock::new(Instant::now());
        let mut caller = Caller::new(caller_of(self.setup, &clock, self.setup.stop, 5));
        for size in &plan.sizes {
            for operation in [Operation::Put, Operation::Get] {
                next(operation.name())?;
                self.time(&mut caller, operation, *size)?;
            }
        }
        next("LIST")?;
        self.time(&mut caller, Operation::List, 0)?;
        for (is_small, what) in [(false, "throughput"), (true, "requests a second")] {
            let size = if is_small { plan.sizes.first() } else { plan.sizes.last() };
            // What could not be got once has its reason already.
            let Some(size) = size.copied().filter(|size| self.is_timed(Operation::Get, *size)) else {
                continue;
            };
            for connections in &plan.connections {
                next(what)?;
                let Some(load) = self.load(what, size, *connections)? else { break };
                let loads =
                    if is_small { &mut self.measured.requests } else { &mut self.measured.throughput };
                loads.push(load);
                if load.throttled > 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    fn is_timed(&self, operation: Operation, size: u64) -> bool {
        self.measured.timed.iter().any(|timed| (timed.operation, timed.bytes) == (operation, size))
    }

    /// Times requests of a kind. Where they fail that is missing, unless nothing was measured before.
    fn time(&mut self, caller: &mut Caller<'_>, operation: Operation, size: u64) -> Result<(), StoreError> {
        if operation == Operation::Get && !self.is_timed(Operation::Put, size) {
            return Ok(());
        }
        match self.times(caller, operation, size) {
            Ok(timed) => self.measured.timed.push(timed),
            Err(error) if is_stop(&error) || self.measured.timed.is_empty() => return Err(error),
            Err(error) => {
                let of = if size > 0 { format!(" of {}", Bytes(size)) } else { String::new() };
                self.measured.missing.push(format!("{}{of}: {error}", operation.name()));
            }
        }
        Ok(())
    }

    fn key_of(&self, size: u64) -> String {
        format!("{}{size}", self.own)
    }

    /// So many requests, one after another; the connection is made before the first counts.
    fn times(
        &mut self,
        caller: &mut Caller<'_>,
        operation: Operation,
        size: u64,
    ) -> Result<Timed, StoreError> {
        let key = self.key_of(size);
        let content = bytes_of(size);
        let mut seconds = Vec::new();
        for turn in 0..=self.setup.plan.count {
            let began = Instant::now();
            match operation {
                Operation::Put => self.put(caller, &key, &content)?,
                Operation::Get => get(self.setup, caller, &key, size)?,
                Operation::List => {
                    let ask = ListAsk { prefix: &self.own, delimiter: None, versions: false, most: 1000 };
                    self.setup.store.lists().page(caller, &ask, None)?;
                }
            }
            if turn > 0 {
                seconds.push(began.elapsed().as_secs_f64());
            }
        }
        Ok(Timed { operation, bytes: size, seconds: weir_units::stats::sorted(seconds) })
    }

    fn put(&mut self, caller: &mut Caller<'_>, key: &str, content: &[u8]) -> Result<(), StoreError> {
        if !self.stored.iter().any(|stored| stored == key) {
            // Before it is sent: an answer that is lost leaves it there all the same.
            self.stored.push(key.to_owned());
        }
        let (attributes, condition) = (Attributes::default(), Condition::None);
        let object = Object { key, attributes: &attributes, condition: &condition };
        let uploads = self.setup.store.uploads();
        let sum = uploads.algorithms().first().copied().map(|algorithm| sum_of(algorithm, content));
        uploads.put(caller, &object, sum.as_ref(), &mut AtHand::new(content))?;
        self.has_put = true;
        Ok(())
    }

    /// As many requests as `connections` get answered in a while; `None` where none was, and the reason is
    /// among what is missing.
    fn load(&mut self, what: &str, size: u64, connections: u32) -> Result<Option<Load>, StoreError> {
        let (key, over, counts) = (self.key_of(size), AtomicBool::new(false), LoadCounts::default());
        let setup = self.setup;
        let (began, cpu) = (Instant::now(), process_cpu_now());
        let (load, started) = std::thread::scope(|scope| {
            let mut started = Ok(());
            for _ in 0..connections {
                let work = || counts.ask(setup, &key, size, &over);
                let thread = std::thread::Builder::new().name("load".to_owned());
                started = thread.spawn_scoped(scope, work).map(drop);
                if started.is_err() {
                    break;
                }
            }
            let deadline = began + setup.plan.span;
            while started.is_ok()
                && Instant::now() < deadline
                && counts.throttled.load(Relaxed) == 0
                && !setup.stop.load(Relaxed)
            {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            // Before the others hear of it: until then all of them were asking.
            let load = counts.read(connections, began, cpu);
            over.store(true, Relaxed);
            (load, started)
        });
        if setup.stop.load(Relaxed) {
            return Err(StoreError::Http(GetError::Interrupted));
        }
        let cannot = |error: io::Error| format!("cannot start a thread: {}", plain(&error));
        let (words, failed) = (counts.words.into_inner(), counts.first.into_inner());
        self.measured.throttle_words = words.or(self.measured.throttle_words.take());
        let of = format!("{what} over {}", counted(connections.into(), "connection"));
        let is_measured = started.is_ok() && (load.answered > 0 || load.bytes > 0 || load.throttled > 0);
        let why = match (started.map_err(cannot), failed) {
            (Err(why), _) => Some(why),
            (Ok(()), Some(error)) => {
                Some(format!("{} failed: {error}", counted(load.failed.max(1), "request")))
            }
            (Ok(()), None) if is_measured => None,
            (Ok(()), None) => {
                Some(format!("nothing came in {}; --for gives it longer", human_duration(setup.plan.span)))
            }
        };
        self.measured.missing.extend(why.map(|why| format!("{of}: {why}")));
        Ok(is_measured.then_some(load))
    }

    /// Takes away what was stored, after an interrupt too.
    fn clean(&mut self) {
        if self.stored.is_empty() {
            return;
        }
        let clock = StageClock::new(Instant::now());
        let never = AtomicBool::new(false);
        let mut caller = Caller::new(caller_of(self.setup, &clock, &never, 3));
        let left = match self.setup.store.deletes().delete(&mut caller, &self.stored) {
            Ok(left) => left.into_iter().next().map(|one| one.why),
            Err(error) => Some(error.to_string()),
        };
        let own = &self.own;
        let objects = left.map(|why| format!("objects of this measurement are left below {own}: {why}"));
        let versions = self.clean_versions(&mut caller).err();
        self.measured.missing.extend(objects.into_iter().chain(versions));
    }

    /// A bucket that keeps versions has them still, and the word that each was deleted: those go one by one.
    /// The error is what is left, in words.
    fn clean_versions(&self, caller: &mut Caller<'_>) -> Result<(), String> {
        let mut versions = Vec::new();
        match self.versions(caller, &mut versions) {
            Ok(()) => {}
            // A store that has no versions.
            Err(error) if error.is_unknown_request() || error.is_of_its_form() => {}
            Err(error) => return Err(format!("versions may be left below {}: {error}", self.own)),
        }
        let mut left = versions.iter().filter_map(|(key, id)| delete(self.setup, caller, key, id).err());
        let Some(first) = left.next() else { return Ok(()) };
        let count = counted(1 + left.count() as u64, "version");
        Err(format!("{count} of this measurement's objects are left below {}: {first}", self.own))
    }

    /// Keys and versions of what lies below the measurement's own prefix.
    fn versions(&self, caller: &mut Caller<'_>, into: &mut Vec<(String, String)>) -> Result<(), StoreError> {
        let ask = ListAsk { prefix: &self.own, delimiter: None, versions: true, most: PAGE };
        let mut token: Option<String> = None;
        for _ in 0..PAGES {
            let page = self.setup.store.lists().page(caller, &ask, token.as_deref())?;
            into.extend(page.objects.into_iter().filter_map(|one| Some((one.key, one.version?.id))));
            token = page.next;
            if token.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// What all connections of a load count.
#[derive(Default)]
struct LoadCounts {
    answered: AtomicU64,
    throttled: AtomicU64,
    failed: AtomicU64,
    received: AtomicU64,
    /// The first failure.
    first: Mutex<Option<StoreError>>,
    /// The words with which a request was put off.
    words: Mutex<Option<String>>,
}

impl LoadCounts {
    /// One connection's requests, until it is over or the store asks for fewer.
    fn ask(&self, setup: &Setup<'_>, key: &str, size: u64, over: &AtomicBool) {
        let clock = StageClock::new(Instant::now());
        let mut caller = Caller::new(caller_of(setup, &clock, over, 0)).counts(&self.received);
        let mut failures = 0;
        while !over.load(Relaxed) {
            match get(setup, &mut caller, key, size) {
                Ok(()) => {
                    self.answered.fetch_add(1, Relaxed);
                    failures = 0;
                }
                Err(_) if over.load(Relaxed) => return,
                Err(_) if caller.throttled() > 0 => {
                    *self.words.lock() = caller.throttle_words().map(str::to_owned);
                    self.throttled.fetch_add(1, Relaxed);
                    return;
                }
                Err(error) => {
                    self.failed.fetch_add(1, Relaxed);
                    self.first.lock().get_or_insert(error);
                    let pause = doubled(PAUSES[0], failures, PAUSES[1]);
                    failures += 1;
                    if caller.wait(pause).is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// What so many connections have come to since then.
    fn read(&self, connections: u32, began: Instant, cpu: Duration) -> Load {
        Load {
            connections,
            answered: self.answered.load(Relaxed),
            throttled: self.throttled.load(Relaxed),
            failed: self.failed.load(Relaxed),
            bytes: self.received.load(Relaxed),
            seconds: began.elapsed().as_secs_f64(),
            cpu: (process_cpu_now() - cpu).as_secs_f64(),
        }
    }
}

fn is_stop(error: &StoreError) -> bool {
    matches!(error, StoreError::Http(GetError::Interrupted))
}

/// Deletes a version of an object; one that is not there counts as deleted.
fn delete(setup: &Setup<'_>, caller: &mut Caller<'_>, key: &str, version: &str) -> Result<(), StoreError> {
    let url = setup.store.object(key, Some(version))?;
    caller.delete(&format!("delete a version of {}", crate::error::shown(key)), url)
}

fn get(setup: &Setup<'_>, caller: &mut Caller<'_>, key: &str, size: u64) -> Result<(), StoreError> {
    let most = usize::try_from(size).unwrap_or(usize::MAX);
    let url = setup.store.object(key, None)?;
    let call = Call { method: "GET", url, fields: Vec::new(), most, asks_first: false };
    let what = format!("get {}", crate::error::shown(key));
    let reply = caller.done(&what, &call, &mut AtHand::default())?;
    match reply.body.len() as u64 == size {
        true => Ok(()),
        false => Err(StoreError::Answer { what, why: format!("has {} bytes of {size}", reply.body.len()) }),
    }
}

fn caller_of<'a>(
    setup: &Setup<'a>,
    clock: &'a StageClock,
    stop: &'a AtomicBool,
    retries: u32,
) -> CallerSetup<'a> {
    CallerSetup {
        http: setup.http,
        clock,
        on_socket: &|_| (),
        stop,
        timeout: TIMEOUT,
        connect_timeout: TIMEOUT,
        max_wait: setup.max_wait,
        retries,
    }
}

/// Bytes that nothing on the way makes smaller, the same in each run.
fn bytes_of(size: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    random.fill(&mut bytes);
    bytes
}

fn sum_of(algorithm: Algorithm, content: &[u8]) -> crate::upload::Sum {
    crate::upload::Sum { algorithm, value: algorithm.of(content).to_vec() }
}
