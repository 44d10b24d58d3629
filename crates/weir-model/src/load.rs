//! What held a load test's requests per second: the client's own loops, the server, the path, or the number of connections.
//!
//! A load test is no transfer: its figure is requests, and each connection asks again only when it was answered. Four clocks
//! tell who was waited for: the loops' processor time, the server's, the path's round trip, and the time that passed inside
//! answers. The limits are those of the one vocabulary:
//!
//! | held by | limit | told by |
//! | --- | --- | --- |
//! | [`Holder::Rate`] | `rate-limit` | the asked rate was reached |
//! | [`Holder::Client`] | `cpu-core` | a loop of the client fills its core |
//! | [`Holder::ServerCpu`] | `cpu-core` | a thread of the server fills its core |
//! | [`Holder::Path`] | `path-bandwidth`, `sender-or-path` | most of the time passes inside answers, at a flat rate |
//! | [`Holder::Server`] | `application` | answers take longer than path and processors explain |
//! | [`Holder::Connections`] | `latency` | nobody is busy: rate = connections / latency (Little's law) |

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::evidence::Reading;
use crate::limit::Limit;
use crate::verdict::{MainLimit, Phase, Verdict};
use crate::words::{count, percent, rate, seconds};

/// What was seen of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadEvidence {
    /// The measured time.
    pub span: Duration,
    /// Whole answers.
    pub requests: u64,
    /// Bytes received.
    pub received: u64,
    /// Connections held open.
    pub connections: u32,
    /// Requests under way at a time over each (HTTP/2); 0 is one.
    pub streams: u32,
    /// Requests a second that were asked for (`--rate`).
    pub rate: Option<f64>,
    /// Planned requests that found no free connection until the end.
    pub unsent: u64,
    /// The client's loops.
    pub loops: Vec<Use>,
    /// The server's threads, where they run on this machine.
    pub server: Reading<ServerUse>,
    /// Busy share of each processor, 0 to 1.
    pub cores: Reading<Vec<f64>>,
    /// From a request's begin to its whole answer, mean.
    pub latency: Duration,
    /// Of it, from the answer's first bytes to its last, mean.
    pub inside: Duration,
    /// The path, from the kernel.
    pub path: Reading<PathUse>,
    /// Bytes received in each tenth of a second.
    pub samples: Vec<u64>,
    /// The narrowest link's rate, bytes per second, where it is known.
    pub link_rate: Option<f64>,
}

/// A thread's use of its processor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Use {
    /// Running.
    pub cpu: Duration,
    /// Ready, but waiting for a processor.
    pub waited: Duration,
    /// The time over which both were counted.
    pub over: Duration,
}

impl Use {
    /// Share of the time in which it ran.
    pub fn running(&self) -> f64 {
        self.cpu.as_secs_f64() / self.over.as_secs_f64().max(1e-9)
    }

    /// Share of the time in which it ran or wanted to.
    pub fn busy(&self) -> f64 {
        (self.cpu + self.waited).as_secs_f64() / self.over.as_secs_f64().max(1e-9)
    }
}

/// The server's processes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerUse {
    /// `nginx (pid 4711)`: the process of the busiest thread.
    pub name: String,
    /// The busiest thread.
    pub busiest: Use,
    /// Processor time of all threads.
    pub total: Duration,
    /// Threads that ran at all.
    pub threads: u32,
}

/// The path, from the sockets at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PathUse {
    /// Smallest round trip.
    pub min_rtt: Duration,
    /// Smoothed round trip, median of the sockets; a server's delayed acknowledgements are part of it.
    pub rtt: Duration,
    /// Segments sent again by this end.
    pub retransmits: u64,
}

/// Who was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holder {
    /// The asked rate.
    Rate,
    /// The client's own loops: the server could take more.
    Client,
    /// The server's processor.
    ServerCpu,
    /// The server, which does something else than compute: sleeps, or waits for a disk or another server.
    Server,
    /// The link.
    Path,
    /// The number of connections, each of which waits for its answer.
    Connections,
}

/// What held the run.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadVerdict {
    /// Who; `None` when nothing was answered, or when two held it at once.
    pub holder: Option<Holder>,
    /// Requests a second that the server's busiest thread could have taken, where it was seen and had time left.
    pub capacity: Option<f64>,
    /// In the words of all commands.
    pub verdict: Verdict,
}

/// A thread that ran or wanted to run for this share of the time had no room left: the rest is the clock's grain and the
/// moments at both ends of a run.
const FULL: f64 = 0.9;

/// The asked rate counts as reached at this share: the last requests of a run are under way when it ends.
const REACHED: f64 = 0.98;

/// What waking two threads costs at most where nothing else explains a request's time: 50 us each on a virtual machine
/// whose processors have to be woken too.
const WAKES: Duration = Duration::from_micros(100);

/// Answers that take this many times what path and processors explain were held up by the server itself.
const UNEXPLAINED: f64 = 2.0;

/// A rate is flat if its tenths of a second scatter by less than this around their mean.
const FLAT: f64 = 0.25;

/// A conviction.
struct Conviction {
    holder: Holder,
    limit: Limit,
    strength: f64,
    evidence: String,
}

/// What held this run: pure, the same evidence gives the same words.
pub fn explain(seen: &LoadEvidence) -> LoadVerdict {
    let span = seen.span.as_secs_f64();
    let mut missing: Vec<String> = Vec::new();
    missing.extend(seen.server.missing().map(|why| format!("the server's processor use: {why}")));
    missing.extend(seen.path.missing().map(|why| format!("the path's round trip: {why}")));
    if seen.requests == 0 || span <= 0.0 {
        missing.insert(0, "no request was answered".to_owned());
        return LoadVerdict {
            holder: None,
            capacity: None,
            verdict: verdict(&[], Vec::new(), missing, Vec::new(), span),
        };
    }
    let figures = Figures::of(seen);
    let convictions = figures.convictions();
    let holder = match convictions.as_slice() {
        [only] => Some(only.holder),
        _ => None,
    };
    let innocent = figures.innocent(&convictions);
    let advice = convictions.iter().flat_map(|conviction| figures.advice(conviction.holder)).collect();
    LoadVerdict {
        holder,
        capacity: figures.capacity(false),
        verdict: verdict(&convictions, innocent, missing, advice, span),
    }
}

fn verdict(
    convictions: &[Conviction],
    innocent: Vec<String>,
    missing: Vec<String>,
    advice: Vec<Advice>,
    span: f64,
) -> Verdict {
    let sum: f64 = convictions.iter().map(|conviction| conviction.strength).sum();
    let mut shares: BTreeMap<Limit, f64> = BTreeMap::new();
    for conviction in convictions {
        *shares.entry(conviction.limit).or_default() += conviction.strength / sum;
    }
    let limit = match shares.len() {
        0 => None,
        1 => shares.keys().next().copied().map(MainLimit::One),
        _ => Some(MainLimit::Mixed),
    };
    let phases = match limit {
        Some(MainLimit::One(limit)) => vec![Phase { from: 0.0, to: span, limit }],
        _ => Vec::new(),
    };
    Verdict {
        limit,
        confidence: convictions.iter().map(|conviction| conviction.strength).fold(0.0, f64::max).min(1.0),
        shares,
        phases,
        evidence: convictions.iter().map(|conviction| conviction.evidence.clone()).collect(),
        innocent,
        not_visible: Vec::new(),
        missing,
        advice,
        windows: Vec::new(),
        grounds: None,
    }
}

/// What is asked of the evidence again and again.
struct Figures<'a> {
    seen: &'a LoadEvidence,
    /// Requests a second.
    rate: f64,
    /// The fullest loop.
    client: Use,
}

impl<'a> Figures<'a> {
    fn of(seen: &'a LoadEvidence) -> Figures<'a> {
        let fullest = seen.loops.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()));
        Figures {
            seen,
            rate: seen.requests as f64 / seen.span.as_secs_f64(),
            client: fullest.cloned().unwrap_or_default(),
        }
    }

    /// The conditions, in order. The first that holds decides, but for two full processors, which hold together.
    fn convictions(&self) -> Vec<Conviction> {
        // 1. The asked rate was reached: whatever was busy had room enough.
        if let Some(asked) = self.seen.rate.filter(|asked| self.rate >= REACHED * asked) {
            return vec![Conviction {
                holder: Holder::Rate,
                limit: Limit::RateLimit,
                strength: 1.0,
                evidence: format!(
                    "{} requests/s were asked for (--rate) and {} answered",
                    short(asked),
                    short(self.rate)
                ),
            }];
        }
        // 2. A full thread, on either side.
        let full: Vec<Conviction> = [self.client_full(), self.server_full()].into_iter().flatten().collect();
        if !full.is_empty() {
            return full;
        }
        // 3. to 5. The time of a request passes in the path, in the server, or in nothing that more connections would not fill.
        vec![self.path_full().or_else(|| self.server_slow()).unwrap_or_else(|| self.too_few_connections())]
    }

    fn client_full(&self) -> Option<Conviction> {
        (self.client.busy() >= FULL).then(|| Conviction {
            holder: Holder::Client,
            limit: Limit::CpuCore,
            strength: self.client.busy().min(1.0),
            evidence: format!(
                "weir's own loop ran {} of the time{}: the figure is the client's, not the server's",
                percent(self.client.running()),
                waited(&self.client)
            ),
        })
    }

    fn server_full(&self) -> Option<Conviction> {
        let server = self.seen.server.value()?;
        (server.busiest.busy() >= FULL).then(|| Conviction {
            holder: Holder::ServerCpu,
            limit: Limit::CpuCore,
            strength: server.busiest.busy().min(1.0),
            evidence: format!(
                "the server's thread in {} ran {} of the time{}, {} a request",
                server.name,
                percent(server.busiest.running()),
                waited(&server.busiest),
                seconds(self.server_cost().unwrap_or_default())
            ),
        })
    }

    /// Most of a request's time passes inside its answer while nobody's processor is full. Wrong where a server sends an
    /// answer bit by bit at an even pace of its own.
    fn path_full(&self) -> Option<Conviction> {
        let inside = self.seen.inside.as_secs_f64() / self.seen.latency.as_secs_f64().max(1e-9);
        let bytes = self.seen.received as f64 / self.seen.span.as_secs_f64();
        let at_link = self.seen.link_rate.is_some_and(|link| bytes >= 0.85 * link);
        if inside < 0.5 && !at_link {
            return None;
        }
        let scatter = scatter(&self.seen.samples);
        let queue = self.seen.path.value().filter(|path| path.rtt >= path.min_rtt * 3 / 2);
        let flat = scatter.is_some_and(|scatter| scatter < FLAT);
        let sure = at_link || (flat && queue.is_some());
        let mut evidence = format!(
            "{} of a request's time passes inside its answer, at {} in all",
            percent(inside),
            rate(bytes)
        );
        if let Some(scatter) = scatter {
            evidence.push_str(&format!(", give or take {}", percent(scatter)));
        }
        if let Some(path) = queue {
            let (rtt, min) = (seconds(path.rtt.as_secs_f64()), seconds(path.min_rtt.as_secs_f64()));
            evidence.push_str(&format!("; the round trip is {rtt}, at its smallest {min}: a queue stands"));
        }
        Some(Conviction {
            holder: Holder::Path,
            limit: if sure { Limit::PathBandwidth } else { Limit::SenderOrPath },
            strength: if at_link { 0.95 } else { 0.6 + 0.3 * inside.min(1.0) },
            evidence,
        })
    }

    /// What path and processors explain of a request's time. A thread that is busy a share u of the time makes what it
    /// does last 1 / (1 - u) times as long for those who queue (the waiting line of one server, M/M/1).
    fn explained(&self) -> f64 {
        let stretched = |cost: f64, busy: f64| cost / (1.0 - busy.min(FULL));
        let client =
            self.client.cpu.as_secs_f64() / (self.seen.requests as f64 / self.seen.loops.len().max(1) as f64);
        let server = self.seen.server.value();
        let server_time = self
            .server_cost()
            .map_or(0.0, |cost| stretched(cost, server.map_or(0.0, |server| server.busiest.busy())));
        let rtt = self.seen.path.value().map_or(0.0, |path| path.min_rtt.as_secs_f64());
        rtt + stretched(client, self.client.busy()) + server_time + WAKES.as_secs_f64()
    }

    /// Processor time of the server for one request, seconds.
    fn server_cost(&self) -> Option<f64> {
        Some(self.seen.server.value()?.total.as_secs_f64() / self.seen.requests as f64)
    }

    fn server_slow(&self) -> Option<Conviction> {
        let (latency, explained) = (self.seen.latency.as_secs_f64(), self.explained());
        if latency <= UNEXPLAINED * explained {
            return None;
        }
        let busy = match self.seen.server.value() {
            Some(server) => {
                format!("; {} ran only {} of the time", server.name, percent(server.busiest.running()))
            }
            None => String::new(),
        };
        // Unseen, the server may as well be computing all the time.
        let most = if self.seen.server.is_missing() { 0.7 } else { 0.98 };
        Some(Conviction {
            holder: Holder::Server,
            limit: Limit::Application,
            strength: (1.0 - explained / latency).min(most),
            evidence: format!(
                "an answer takes {}, of which path and processors explain {}: the server waits for something{busy}",
                seconds(latency),
                seconds(explained)
            ),
        })
    }

    fn too_few_connections(&self) -> Conviction {
        let latency = self.seen.latency.as_secs_f64();
        let streams = self.seen.streams.max(1);
        let each = if streams > 1 { format!(" of {streams} streams") } else { String::new() };
        let idle = 1.0
            - self.client.busy().max(self.seen.server.value().map_or(0.0, |server| server.busiest.busy()));
        Conviction {
            holder: Holder::Connections,
            limit: Limit::Latency,
            strength: (0.6 + 0.4 * idle).clamp(0.6, 0.95),
            evidence: format!(
                "{}{each}, each waiting {} for its answer, can ask no more than {} times a second; nobody is busy all the time",
                count(self.seen.connections.into(), "connection"),
                seconds(latency),
                short(f64::from(self.seen.connections) * f64::from(streams) / latency.max(1e-9))
            ),
        }
    }

    /// What the server could take at the same cost a request: until its busiest thread runs all the time, or all of its threads
    /// have filled all processors, `beside` the client's loops or without them. Where each connection has a thread, the
    /// second comes first.
    fn capacity(&self, beside: bool) -> Option<f64> {
        let server = self.seen.server.value()?;
        let running = server.busiest.running();
        let own: Duration = self.seen.loops.iter().filter(|_| beside).map(|one| one.cpu).sum();
        let all = (server.total + own).as_secs_f64() / server.busiest.over.as_secs_f64().max(1e-9);
        let processors = self.seen.cores.value().map_or(f64::INFINITY, |cores| cores.len() as f64);
        // Below a few percent the clock's grain would make the figure.
        let more = (1.0 / running).min(processors / all.max(1e-9));
        (0.03..FULL).contains(&running).then(|| self.rate * more.max(1.0))
    }

    fn innocent(&self, convictions: &[Conviction]) -> Vec<String> {
        let held = |holder| convictions.iter().any(|conviction| conviction.holder == holder);
        let mut innocent = Vec::new();
        if !held(Holder::Client) {
            innocent.push(format!(
                "client: its fullest loop was busy {} of the time",
                percent(self.client.busy())
            ));
        }
        if let Some(server) = self.seen.server.value().filter(|_| !held(Holder::ServerCpu)) {
            innocent.push(format!(
                "server's processor: {} was busy {}",
                server.name,
                percent(server.busiest.busy())
            ));
        }
        if !held(Holder::Path) {
            let inside = self.seen.inside.as_secs_f64() / self.seen.latency.as_secs_f64().max(1e-9);
            innocent.push(format!(
                "path-bandwidth: {} of a request's time passes inside its answer",
                percent(inside)
            ));
        }
        innocent
    }

    fn advice(&self, holder: Holder) -> Vec<Advice> {
        let say = |action: String| vec![Advice { action, predicted_rate: None }];
        let per_request = self.seen.received as f64 / self.seen.requests as f64;
        match holder {
            Holder::Rate => Vec::new(),
            Holder::Client => {
                let idle = self
                    .seen
                    .cores
                    .value()
                    .map_or(0, |cores| cores.iter().filter(|busy| **busy < 0.5).count());
                match (idle, self.capacity(false)) {
                    (0, None) => {
                        say("run weir on another machine than the server: no processor is free here"
                            .to_owned())
                    }
                    (0, Some(most)) => vec![Advice {
                        action: format!(
                            "run weir on another machine: the server could take about {} requests/s",
                            short(most)
                        ),
                        predicted_rate: Some(most * per_request),
                    }],
                    (idle, _) => say(format!(
                        "use more loops (-t {}): {} idle",
                        self.seen.loops.len() + idle,
                        count(idle as u64, "processor")
                    )),
                }
            }
            Holder::ServerCpu => match self.seen.server.value() {
                Some(server) if server.threads <= 1 => {
                    say("let the server use more than one thread, or make a request cheaper".to_owned())
                }
                _ => say("make a request cheaper for the server, or give it more processors".to_owned()),
            },
            Holder::Server => {
                say("look at what the server waits for: weir why --pid of its process".to_owned())
            }
            Holder::Path => {
                say("compress answers, make them smaller, or measure over a faster path".to_owned())
            }
            Holder::Connections => match self.capacity(true) {
                Some(most) => {
                    // Little's law, the other way round.
                    let streams = f64::from(self.seen.streams.max(1));
                    let needed = (most * self.seen.latency.as_secs_f64() / streams).ceil();
                    vec![Advice {
                        action: format!(
                            "use more connections (-c {needed}): the server could take about {} requests/s",
                            short(most)
                        ),
                        predicted_rate: Some(most * per_request),
                    }]
                }
                None => say(format!("use more connections (-c {})", self.seen.connections.saturating_mul(4))),
            },
        }
    }
}

fn waited(thread: &Use) -> String {
    let waited = thread.busy() - thread.running();
    if waited < 0.05 {
        String::new()
    } else {
        format!(" and waited {} of it for a processor", percent(waited))
    }
}

/// Standard deviation over mean; the first and last samples are beginnings and ends. `None` of fewer than three between.
fn scatter(samples: &[u64]) -> Option<f64> {
    let inner = samples.get(1..samples.len().saturating_sub(1)).filter(|inner| inner.len() >= 3)?;
    let mean = inner.iter().sum::<u64>() as f64 / inner.len() as f64;
    let squares: f64 = inner.iter().map(|bytes| (*bytes as f64 - mean).powi(2)).sum();
    (mean > 0.0).then(|| (squares / inner.len() as f64).sqrt() / mean)
}

/// A number of requests, to the digits that mean something.
fn short(number: f64) -> String {
    if number < 100.0 { format!("{number:.1}") } else { format!("{number:.0}") }
}

#[cfg(test)]
mod tests;
