//! What did not hold a load test, and what to do about what did.

use super::Holder;
use super::convict::Conviction;
use super::figures::Figures;
use super::words::short;
use crate::advice::Advice;
use crate::words::percent;
use weir_units::counted;

/// Whom the run was not held by, with the number that says so.
pub(super) fn innocent(figures: &Figures<'_>, convictions: &[Conviction]) -> Vec<String> {
    let held = |holder| convictions.iter().any(|conviction| conviction.holder == holder);
    let waits = held(Holder::Processor);
    let mut innocent = Vec::new();
    if !held(Holder::Client) && !held(Holder::Script) && !waits {
        innocent.push(format!(
            "client: its fullest loop was busy {} of the time",
            percent(figures.client.busy())
        ));
    }
    if let Some(server) = figures.server().filter(|_| !held(Holder::ServerCpu) && !waits) {
        innocent.push(format!(
            "server's processor: {} was busy {}",
            server.name,
            percent(server.busiest.busy())
        ));
    }
    if ![Holder::Path, Holder::ServerOrPath, Holder::Nagle].into_iter().any(held) {
        innocent.push(format!(
            "path-bandwidth: {} of a request's time passes inside its answer",
            percent(figures.inside())
        ));
    }
    let time = &figures.seen.time;
    for (holder, what, part) in [
        (Holder::Connecting, "connecting", time.connecting),
        (Holder::Delay, "the script's delay()", time.delayed),
        (Holder::Stall, "standstills and failures", time.still.max(time.failed + time.resting)),
    ] {
        // Where none of it was, nobody asks.
        let share = time.share(part);
        if share > 0.0 && !held(holder) && !held(Holder::Ports) {
            innocent.push(format!("{what}: {} of the connections' time", percent(share)));
        }
    }
    innocent
}

/// What to do where `holder` held it.
pub(super) fn advice(figures: &Figures<'_>, holder: Holder) -> Option<Advice> {
    let say = |action: &str| Some(Advice { action: action.to_owned(), predicted_rate: None });
    match holder {
        Holder::Rate => None,
        Holder::Client => use_more_loops(figures),
        Holder::Script => say("do less in the script's functions, and wait in delay() rather than in them"),
        Holder::Processor => Some(run_apart(figures)),
        Holder::ServerCpu => match figures.server() {
            Some(server) if server.threads <= 1 => {
                say("let the server use more than one thread, or make a request cheaper")
            }
            _ => say("make a request cheaper for the server, or give it more processors"),
        },
        Holder::Server => say("look at what the server waits for: weir why --pid of its process"),
        Holder::ServerOrPath => say(
            "look from the server's machine (weir why --port there): only that end can separate its pauses from the path's",
        ),
        Holder::Path => say("compress answers, make them smaller, or measure over a faster path"),
        Holder::Nagle => say(
            "let the server write an answer's head and body at once (writev, a buffer), or set TCP_NODELAY",
        ),
        Holder::Stall => say("look at what the server did meanwhile: its log, weir why --pid of its process"),
        Holder::Delay => say("let delay() return less, or use more connections (-c)"),
        Holder::Connecting => say(
            "keep connections open (no --no-keep-alive, no Connection: close of the server's), or resume \
             TLS sessions",
        ),
        Holder::Ports => say(
            "keep connections open, widen net.ipv4.ip_local_port_range, or ask more than one address of the \
             server's",
        ),
        Holder::Queue | Holder::Connections => use_more_connections(figures, holder),
    }
}

/// Processors are what is short.
fn run_apart(figures: &Figures<'_>) -> Advice {
    let most = figures.capacity(false);
    let could = most
        .map_or_else(String::new, |most| format!(": the server could take about {} requests/s", short(most)));
    Advice {
        action: format!("run less beside it, or weir on another machine than the server{could}"),
        predicted_rate: most.map(|most| most * per_request(figures)),
    }
}

fn use_more_loops(figures: &Figures<'_>) -> Option<Advice> {
    let seen = figures.seen;
    let idle = seen.cores.value().map_or(0, |cores| cores.iter().filter(|busy| **busy < 0.5).count());
    let (action, predicted) = match (idle, figures.capacity(false)) {
        (0, None) => {
            ("run weir on another machine than the server: no processor is free here".to_owned(), None)
        }
        (0, Some(most)) => (
            format!("run weir on another machine: the server could take about {} requests/s", short(most)),
            Some(most),
        ),
        (idle, _) => (
            format!(
                "use more loops (-t {}): {} idle",
                seen.loops.len() + idle,
                counted(idle as u64, "processor")
            ),
            None,
        ),
    };
    Some(Advice { action, predicted_rate: predicted.map(|most| most * per_request(figures)) })
}

/// Little's law, the other way round: as many connections as what is wanted takes, if that is more than there
/// are.
fn use_more_connections(figures: &Figures<'_>, holder: Holder) -> Option<Advice> {
    let seen = figures.seen;
    let streams = f64::from(seen.streams.max(1));
    let needed = |rate: f64| (rate * seen.latency.as_secs_f64() / streams).ceil();
    let have = f64::from(seen.connections);
    if let Some(asked) = seen.rate.filter(|asked| holder == Holder::Queue && needed(*asked) > have) {
        let action = format!(
            "use more connections (-c {}): {} requests/s at this latency need that many",
            needed(asked),
            short(asked)
        );
        return Some(Advice { action, predicted_rate: Some(asked * per_request(figures)) });
    }
    match figures.capacity(true).filter(|most| needed(*most) > have) {
        Some(most) => Some(Advice {
            action: format!(
                "use more connections (-c {}): the server could take about {} requests/s",
                needed(most),
                short(most)
            ),
            predicted_rate: Some(most * per_request(figures)),
        }),
        None => {
            let action = format!("use more connections (-c {})", seen.connections.saturating_mul(4));
            Some(Advice { action, predicted_rate: None })
        }
    }
}

/// Bytes of an answer.
fn per_request(figures: &Figures<'_>) -> f64 {
    figures.seen.received as f64 / figures.seen.requests.max(1) as f64
}
