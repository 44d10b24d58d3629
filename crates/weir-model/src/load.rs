//! What held a load test's requests per second: the client's own loops or script, the server, the path,
//! connecting, a standstill, a busy machine, or the number of connections.
//!
//! A load test is no transfer: its figure is requests, and each connection asks again only when it was
//! answered. The connections' time is divided: into requests, connecting, a script's `delay()`, pauses after
//! failures. Clocks tell who was waited for in requests: the loops' processor time and their waits for a
//! processor, the script's, the server's, the path's round trip, and the time that passed inside answers. The
//! limits are those of the one vocabulary:
//!
//! | held by | limit | told by |
//! | --- | --- | --- |
//! | [`Holder::Rate`] | `rate-limit` | the asked rate was reached |
//! | [`Holder::Ports`] | `connect` | no local port was free to connect from |
//! | [`Holder::Stall`] | `application`, `sender-or-path` | nothing came for long, or requests failed |
//! | [`Holder::Script`] | `think-time`, `cpu-core` | its functions held the loop, sleeping or computing |
//! | [`Holder::Delay`] | `think-time` | the connections' time passed in the script's `delay()` |
//! | [`Holder::Connecting`] | `connect` | making connections took the time |
//! | [`Holder::Client`] | `cpu-core` | a loop of the client fills its core |
//! | [`Holder::ServerCpu`] | `cpu-core` | a thread of the server fills its core, or all of them one |
//! | [`Holder::Processor`] | `cpu-core` | client or server waited for a processor for longer than they ran |
//! | [`Holder::Nagle`] | `nagle` | an acknowledgement at once hurries an answer's rest |
//! | [`Holder::Path`] | `path-bandwidth`, `path-loss` | time passes inside answers, flat, with a queue |
//! | [`Holder::Queue`] | `latency` | planned requests waited for a free connection |
//! | [`Holder::Server`] | `application` | answers are late, and the server was seen idle |
//! | [`Holder::ServerOrPath`] | `sender-or-path` | the same of a server that was not seen |
//! | [`Holder::Connections`] | `latency` | nobody is busy: rate = connections / latency (Little's law) |
//!
//! * [`evidence`]: what was seen; `figures`: what is made of it; `convict`: the conditions in order; `tell`:
//!   who is ruled out, and advice.

mod convict;
pub mod evidence;
mod figures;
mod tell;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::counted;

use crate::advice::Advice;
use crate::limit::Limit;
use crate::verdict::{MainLimit, Phase, Verdict};
use crate::words::{percent, seconds};
use convict::Conviction;
pub use evidence::{Acks, Connects, LoadEvidence, LoopUse, PathUse, Pieces, PlaceTime, ServerUse, Use};
use figures::{FEWEST, Figures};

/// Who was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holder {
    /// The asked rate.
    Rate,
    /// The client's own loops: the server could take more.
    Client,
    /// The script's functions, in which the client's loop computed or slept.
    Script,
    /// The script's `delay()`.
    Delay,
    /// A processor: client and server wanted to run, and others did.
    Processor,
    /// The server's processor.
    ServerCpu,
    /// The server, which does something else than compute: sleeps, or waits for a disk or another server.
    Server,
    /// The server or the path, which cannot be told apart from here.
    ServerOrPath,
    /// The link.
    Path,
    /// Nagle's algorithm at the server, and an acknowledgement that TCP delays here.
    Nagle,
    /// Nobody answered for a while, or requests failed.
    Stall,
    /// Making connections.
    Connecting,
    /// Local ports, of which none was free.
    Ports,
    /// The queue of planned requests for a free connection (`--rate`).
    Queue,
    /// The number of connections, each of which waits for its answer.
    Connections,
}

impl Holder {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Holder::Rate => "rate",
            Holder::Client => "client",
            Holder::Script => "script",
            Holder::Delay => "delay",
            Holder::Processor => "processor",
            Holder::ServerCpu => "server-cpu",
            Holder::Server => "server",
            Holder::ServerOrPath => "server-or-path",
            Holder::Path => "path",
            Holder::Nagle => "nagle",
            Holder::Stall => "stall",
            Holder::Connecting => "connecting",
            Holder::Ports => "ports",
            Holder::Queue => "queue",
            Holder::Connections => "connections",
        }
    }
}

/// What held the run.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadVerdict {
    /// Who; `None` when nothing was answered, when several held it, or when it cannot be told.
    pub holder: Option<Holder>,
    /// Requests a second that the server's busiest thread could have taken, where it was seen and had time
    /// left.
    pub capacity: Option<f64>,
    /// In the words of all commands.
    pub verdict: Verdict,
}

/// What held this run: pure, the same evidence gives the same words.
pub fn explain(seen: &LoadEvidence) -> LoadVerdict {
    let span = seen.span.as_secs_f64();
    let mut missing: Vec<String> = Vec::new();
    missing.extend(seen.server.missing().map(|why| format!("the server's processor use: {why}")));
    missing.extend(seen.path.missing().map(|why| format!("the path's round trip: {why}")));
    missing.extend((!seen.away.is_zero()).then(|| {
        let away = seconds(seen.away.as_secs_f64());
        format!("weir itself stood still for {away}, which is in none of the figures")
    }));
    if let Some(why) = unjudged(seen) {
        missing.insert(0, why);
        return LoadVerdict {
            holder: None,
            capacity: None,
            verdict: verdict(&[], Vec::new(), missing, Vec::new(), span),
        };
    }
    let figures = Figures::of(seen);
    let convictions = convict::convictions(&figures);
    if convictions.is_empty() {
        missing.insert(0, untold(&figures));
    }
    let holder = match convictions.as_slice() {
        [only] => Some(only.holder),
        _ => None,
    };
    let innocent = tell::innocent(&figures, &convictions);
    let advice =
        convictions.iter().filter_map(|conviction| tell::advice(&figures, conviction.holder)).collect();
    LoadVerdict {
        holder,
        capacity: figures.capacity(false),
        verdict: verdict(&convictions, innocent, missing, advice, span),
    }
}

/// A shorter run is its beginning and its end: connections are made, and clocks of 10 ms are a twentieth of
/// it and more.
const SHORTEST: Duration = Duration::from_millis(200);

/// Why there is nothing to judge by.
fn unjudged(seen: &LoadEvidence) -> Option<String> {
    if seen.requests == 0 {
        return Some("no request was answered".to_owned());
    }
    let span = seconds(seen.span.as_secs_f64());
    (seen.span < SHORTEST).then(|| {
        format!("too short a run to tell what held it ({span}); ask for longer (-d) or more often (-n)")
    })
}

/// Why nobody is named.
fn untold(figures: &Figures<'_>) -> String {
    if figures.seen.requests < FEWEST {
        let answers = counted(figures.seen.requests, "answer");
        return format!(
            "too few answers to tell what held them ({answers}); ask for longer (-d) or more often (-n)"
        );
    }
    format!(
        "no one cause: requests that were answered took {} of the connections' time, weir's loop was busy \
         {} of it and the server {}",
        percent(figures.answering()),
        percent(figures.client.busy()),
        figures.server().map_or_else(|| "unseen".to_owned(), |_| percent(figures.server_busy()))
    )
}

fn verdict(
    convictions: &[Conviction],
    innocent: Vec<String>,
    missing: Vec<String>,
    advice: Vec<Advice>,
    span: f64,
) -> Verdict {
    let weight = |conviction: &Conviction| conviction.strength * conviction.share;
    let sum: f64 = convictions.iter().map(weight).sum();
    let mut shares: BTreeMap<Limit, f64> = BTreeMap::new();
    for conviction in convictions {
        *shares.entry(conviction.limit).or_default() += weight(conviction) / sum;
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
        intervals: Vec::new(),
        grounds: None,
    }
}

#[cfg(test)]
mod tests;
