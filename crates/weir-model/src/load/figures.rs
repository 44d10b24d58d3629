//! What is asked of the evidence again and again: where a request's time goes.

use std::time::Duration;

use weir_units::stats::deviation;

use super::{LoadEvidence, LoopUse, PathUse, ServerUse, Use};

/// A thread that ran or wanted to run for this share of the time had no room left: the rest is the clock's
/// grain and the moments at both ends of a run.
pub(super) const FULL: f64 = 0.9;

/// Answers without which nobody is named for what requests take: of fewer, one that is not like the others
/// makes a fifth and more of every mean.
pub(super) const FEWEST: u64 = 5;

/// What waking two threads costs at most where nothing else explains a request's time: 50 us each on a
/// virtual machine whose processors have to be woken too.
const WAKES: Duration = Duration::from_micros(100);

/// A shorter queue is none: a thread that wakes late acknowledges late by as much.
const QUEUE: Duration = Duration::from_millis(1);

/// Bytes that a queue on the path holds at least: three segments of an Ethernet. A round trip that is longer
/// by what less than that takes at the rate seen was waited for elsewhere.
const QUEUED: f64 = 3.0 * 1448.0;

/// So many of the segments out of order are more than a path that reorders now and then brings.
const OVERFLOW: f64 = 0.01;

/// What takes less of the time is not mentioned: another cause may well be as large.
pub(super) const QUARTER: f64 = 0.25;

/// One processor's time, and the clock's grain.
const ONE: f64 = 1.05;

/// A rate is flat if its tenths of a second scatter by less than this around their mean.
const FLAT: f64 = 0.25;

/// A request's time, seconds, by who takes it.
pub(super) struct Parts {
    /// The whole.
    pub latency: f64,
    /// Waiting for a processor, at both ends.
    pub waiting: f64,
    /// What path, processors and waking explain, queues before them included: the likely figure.
    pub explained: f64,
    /// The most that they can explain: all requests wait while the client or the server is busy.
    pub covered: f64,
}

impl Parts {
    /// The likely share that nothing explains.
    pub(crate) fn unexplained(&self) -> f64 {
        (1.0 - self.explained / self.latency).clamp(0.0, 1.0)
    }

    /// The least share that nothing explains.
    pub(crate) fn uncovered(&self) -> f64 {
        (1.0 - self.covered / self.latency).clamp(0.0, 1.0)
    }
}

pub(super) struct Figures<'a> {
    pub seen: &'a LoadEvidence,
    /// Requests a second.
    pub rate: f64,
    /// The fullest loop.
    pub client: Use,
    /// The loop that the script held longest.
    pub scripted: LoopUse,
}

impl<'a> Figures<'a> {
    pub fn of(seen: &'a LoadEvidence) -> Figures<'a> {
        let most = |by: fn(&LoopUse) -> f64| {
            seen.loops.iter().max_by(|a, b| by(a).total_cmp(&by(b))).cloned().unwrap_or_default()
        };
        Figures {
            seen,
            rate: seen.requests as f64 / seen.span.as_secs_f64().max(1e-9),
            client: most(|one| one.thread.busy()).thread,
            scripted: most(LoopUse::in_script),
        }
    }

    pub fn server(&self) -> Option<&ServerUse> {
        self.seen.server.value()
    }

    pub fn path(&self) -> Option<&PathUse> {
        self.seen.path.value()
    }

    /// Requests under way at a time, at most.
    pub fn places(&self) -> f64 {
        f64::from(self.seen.connections.max(1)) * f64::from(self.seen.streams.max(1))
    }

    /// Processor time of the server for one request, seconds.
    pub(crate) fn server_cost(&self) -> Option<f64> {
        Some(self.server()?.total.as_secs_f64() / self.seen.requests.max(1) as f64)
    }

    /// How busy all of the server's threads were one after another, as under one lock; `None` where together
    /// they ran more than one processor's time.
    fn in_turn(&self) -> Option<f64> {
        let server = self.server()?;
        let ran = server.total.as_secs_f64() / server.busiest.over.as_secs_f64().max(1e-9);
        (ran <= ONE).then(|| server.all_busy())
    }

    /// How busy the server can have been at most: its busiest thread, or all of them in turn.
    pub(crate) fn server_busy(&self) -> f64 {
        let busiest = self.server().map_or(0.0, |server| server.busiest.busy());
        busiest.max(self.in_turn().map_or(0.0, |all| all.min(1.0)))
    }

    /// Nothing came for so much of the time that an end which was half idle over the whole may have been full
    /// in the rest: nobody is said to have had room.
    pub(crate) fn stood_still(&self) -> bool {
        self.seen.time.share(self.seen.time.still) >= QUARTER
    }

    /// Share of the time in which the client's fullest loop could take no answer: it ran, wanted to, or was
    /// in the script's hands.
    fn occupied(&self) -> f64 {
        self.client.busy().max(self.scripted.in_script())
    }

    /// The busier of both ends.
    pub fn busiest(&self) -> f64 {
        self.client.busy().max(self.server().map_or(0.0, |server| server.busiest.busy()))
    }

    /// Share of all connections' time that passed in requests which were answered: by Little's law (L = rate
    /// x latency) this is how near the number of connections over the latency comes to the figure.
    pub fn answering(&self) -> f64 {
        self.seen.time.share(self.seen.time.answered)
    }

    /// Where a request's time goes.
    ///
    /// A thread that is busy a share u of the time keeps each of n requests in turn for D / (1 - u (n - 1) /
    /// n), where D is what one costs it: Schweitzer's approximation of mean value analysis (of a closed
    /// network, so that it is D alone where n is 1, and n D where u is 1). That is the likely figure where
    /// requests come one by one. Where they come in batches all n wait for the whole batch: no more than u of
    /// each one's time.
    pub fn parts(&self) -> Parts {
        let requests = self.seen.requests.max(1) as f64;
        let latency = self.seen.latency.as_secs_f64().max(1e-9);
        let stay = |cost: f64, busy: f64, n: f64| {
            let n = n.max(1.0);
            cost / (1.0 - busy.min(FULL) * (n - 1.0) / n)
        };
        let loops = self.seen.loops.len().max(1) as f64;
        let occupied = self.occupied();
        let client_cost = occupied * self.seen.span.as_secs_f64() * loops / requests;
        let client = stay(client_cost, occupied, self.places() / loops);
        let (server, server_waits) = self.server().map_or((0.0, 0.0), |server| {
            let used = (server.total + server.waited).as_secs_f64();
            let threads = f64::from(server.threads.max(1));
            let part = stay(used / requests, server.busiest.busy(), self.places() / threads);
            (part, part * server.waited.as_secs_f64() / used.max(1e-9))
        });
        let client_waits = client * self.client.waiting() / occupied.max(1e-9);
        let path = self.path().map_or(0.0, |path| path.min_rtt.as_secs_f64());
        let beside = path + WAKES.as_secs_f64();
        Parts {
            latency,
            waiting: client_waits + server_waits,
            explained: beside + client + server,
            covered: beside + latency * (occupied + self.server_busy()),
        }
    }

    /// Share of the run in which an end waited for a processor, as far as both ends' waits follow each other.
    pub fn waiting(&self) -> f64 {
        self.client.waiting() + self.server().map_or(0.0, |server| server.busiest.waiting())
    }

    /// The queue that stands on the path: what a round trip takes longer than its smallest, where that holds
    /// segments.
    pub fn queue(&self) -> Option<Duration> {
        let path = self.path()?;
        let queue = path.rtt.saturating_sub(path.min_rtt);
        let holds = self.bytes() * queue.as_secs_f64();
        (queue >= QUEUE && path.rtt >= path.min_rtt * 3 / 2 && holds >= QUEUED).then_some(queue)
    }

    /// The path drops segments of the answers, as a full queue does.
    pub(crate) fn overflows(&self) -> bool {
        self.path().is_some_and(|path| path.disordered >= OVERFLOW)
    }

    /// Bytes received in a second.
    pub fn bytes(&self) -> f64 {
        self.seen.received as f64 / self.seen.span.as_secs_f64().max(1e-9)
    }

    /// Share of a request's time that passes inside its answer.
    pub fn inside(&self) -> f64 {
        self.seen.inside.as_secs_f64() / self.seen.latency.as_secs_f64().max(1e-9)
    }

    /// How far tenths of a second scatter around the mean rate, and whether that is little.
    pub(crate) fn scatter(&self) -> Option<(f64, bool)> {
        // What a loop takes late for want of a processor falls into the next tenth of a second.
        let flat = FLAT + self.client.waiting().min(FLAT);
        scatter(&self.seen.samples).map(|scatter| (scatter, scatter < flat))
    }

    /// Share of all processors' time that went to others than weir's loops and the server, what the host took
    /// included; `None` where they were not read.
    pub fn others(&self) -> Option<f64> {
        let cores = self.seen.cores.value().filter(|cores| !cores.is_empty())?;
        let all = cores.len() as f64;
        let span = self.seen.span.as_secs_f64().max(1e-9);
        let own: Duration = self.seen.loops.iter().map(|one| one.thread.cpu).sum();
        let used = (own + self.server().map_or(Duration::ZERO, |server| server.total)).as_secs_f64() / span;
        Some(((cores.iter().sum::<f64>() - used) / all).max(0.0) + self.seen.stolen)
    }

    /// All of the machine's processors were busy nearly all the time.
    pub(crate) fn machine_full(&self) -> bool {
        let cores = self.seen.cores.value().filter(|cores| !cores.is_empty());
        cores.is_some_and(|cores| cores.iter().sum::<f64>() / cores.len() as f64 + self.seen.stolen >= FULL)
    }

    /// What the server could take at the same cost a request: until its busiest thread runs all the time, or
    /// all of its threads have filled all processors, `beside` the client's loops or without them. Where each
    /// connection has a thread, the second comes first. `None` of a few requests, of a server that stood
    /// still, and of threads that may have taken turns under one lock: more of those fill no more processors.
    pub fn capacity(&self, beside: bool) -> Option<f64> {
        let server = self.server().filter(|_| self.seen.requests >= FEWEST && !self.stood_still())?;
        if server.threads > 1 && self.in_turn().is_some_and(|all| all >= FULL) {
            return None;
        }
        let running = server.busiest.running();
        let own: Duration = self.seen.loops.iter().filter(|_| beside).map(|one| one.thread.cpu).sum();
        let all = (server.total + own).as_secs_f64() / server.busiest.over.as_secs_f64().max(1e-9);
        let processors = self.seen.cores.value().map_or(f64::INFINITY, |cores| cores.len() as f64);
        // Below a few percent the clock's grain would make the figure.
        let more = (1.0 / running).min(processors / all.max(1e-9));
        (0.03..FULL).contains(&running).then(|| self.rate * more.max(1.0))
    }
}

/// Standard deviation over mean; the first and last samples are beginnings and ends. `None` of fewer than
/// three between.
fn scatter(samples: &[u64]) -> Option<f64> {
    let inner = samples.get(1..samples.len().saturating_sub(1)).filter(|inner| inner.len() >= 3)?;
    let mean = inner.iter().sum::<u64>() as f64 / inner.len() as f64;
    (mean > 0.0).then(|| deviation(inner.iter().map(|bytes| *bytes as f64), mean, inner.len()) / mean)
}
