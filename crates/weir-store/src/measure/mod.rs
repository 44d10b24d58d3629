//! What a store gives: the time of single requests by size, throughput and requests a second over
//! connections. All of it in objects of its own below a prefix of its own, which are gone at the end.

pub mod judgement;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_codec::digest::Algorithm;
use weir_get::GetError;
use weir_get::http::call::{AtHand, Call};
use weir_get::http::exchange::Http;
use weir_observe::stage_clock::StageClock;
use weir_observe::thread::process_cpu_now;

use crate::caller::{Caller, CallerSetup};
use crate::error::StoreError;
use crate::listing::ListAsk;
use crate::store::Store;
use crate::upload::{Attributes, Condition, Object};

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
    /// Bytes of objects.
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
    /// What is measured.
    pub plan: &'a Plan,
}

/// Hears what comes next; false: end.
pub type OnStep<'a> = &'a mut dyn FnMut(&str, usize, usize) -> bool;

/// For each stretch without a byte: a store that is slower than this gives nothing that helps a decision.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Measures. An error is one that left nothing to measure; what is stored is taken away in any case.
pub fn run(setup: &Setup<'_>, on_step: OnStep<'_>) -> Result<Measured, StoreError> {
    let own = format!("{}weir-bench-{:016x}/", setup.prefix, fastrand::u64(..));
    let mut run = Run { setup, own, stored: Vec::new(), measured: Measured::default() };
    let outcome = run.all(on_step);
    run.clean();
    let Run { mut measured, .. } = run;
    match outcome {
        Err(StoreError::Http(GetError::Interrupted)) => measured.interrupted = true,
        other => other?,
    }
    Ok(measured)
}

struct Run<'a> {
    setup: &'a Setup<'a>,
    own: String,
    stored: Vec<String>,
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
                let timed = self.time(&mut caller, operation, *size)?;
                self.measured.timed.push(timed);
            }
        }
        next("LIST")?;
        let timed = self.time(&mut caller, Operation::List, 0)?;
        self.measured.timed.push(timed);
        for (is_small, what) in [(false, "throughput"), (true, "requests a second")] {
            let size = if is_small { plan.sizes.first() } else { plan.sizes.last() };
            let Some(size) = size.copied() else { continue };
            for connections in &plan.connections {
                next(what)?;
                let load = self.load(size, *connections)?;
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

    fn key_of(&self, size: u64) -> String {
        format!("{}{size}", self.own)
    }

    /// So many requests, one after another; the connection is made before the first counts.
    fn time(
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
        uploads.put(caller, &object, sum.as_ref(), &mut AtHand::new(content)).map(|_| ())
    }

    /// As many requests as `connections` get answered in a while.
    fn load(&mut self, size: u64, connections: u32) -> Result<Load, StoreError> {
        let key = self.key_of(size);
        let over = AtomicBool::new(false);
        let (answered, throttled) = (AtomicU64::new(0), AtomicU64::new(0));
        let (failed, words) = (Mutex::new(None), Mutex::new(None));
        let (began, cpu) = (Instant::now(), process_cpu_now());
        std::thread::scope(|scope| {
            for _ in 0..connections {
                let spawned = std::thread::Builder::new().name("load".to_owned()).spawn_scoped(scope, || {
                    let clock = StageClock::new(Instant::now());
                    let mut caller = Caller::new(caller_of(self.setup, &clock, &over, 0));
                    while !over.load(Relaxed) {
                        match get(self.setup, &mut caller, &key, size) {
                            Ok(()) => answered.fetch_add(1, Relaxed),
                            Err(_) if over.load(Relaxed) => break,
                            Err(_) if caller.throttled() > 0 => {
                                *words.lock() = caller.throttle_words().map(str::to_owned);
                                throttled.fetch_add(1, Relaxed);
                                break;
                            }
                            Err(error) => {
                                *failed.lock() = Some(error);
                                break;
                            }
                        };
                    }
                });
                if let Err(error) = spawned {
                    *failed.lock() = Some(StoreError::Usage(format!("cannot start a thread: {error}")));
                }
            }
            let deadline = began + self.setup.plan.span;
            while Instant::now() < deadline
                && throttled.load(Relaxed) == 0
                && failed.lock().is_none()
                && !self.setup.stop.load(Relaxed)
            {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            over.store(true, Relaxed);
        });
        if self.setup.stop.load(Relaxed) {
            return Err(StoreError::Http(GetError::Interrupted));
        }
        if let Some(words) = words.into_inner() {
            self.measured.throttle_words = Some(words);
        }
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        let answered = answered.into_inner();
        Ok(Load {
            connections,
            answered,
            throttled: throttled.into_inner(),
            bytes: answered * size,
            seconds: began.elapsed().as_secs_f64(),
            cpu: (process_cpu_now() - cpu).as_secs_f64(),
        })
    }

    /// Takes away what was stored, after an interrupt too.
    fn clean(&mut self) {
        let clock = StageClock::new(Instant::now());
        let never = AtomicBool::new(false);
        let mut caller = Caller::new(caller_of(self.setup, &clock, &never, 3));
        let why = match self.setup.store.deletes().delete(&mut caller, &self.stored) {
            Ok(left) if left.is_empty() => return,
            Ok(left) => left.iter().map(|one| one.why.clone()).next().unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        self.measured.missing.push(format!("objects of this measurement are left below {}: {why}", self.own));
    }
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
