//! What was found, as figures with unit and origin.

use std::time::Duration;

use weir_bench::host::concurrent::{self, End, Reached};
use weir_bench::host::connect::{ConnectOutcome, Tries};
use weir_bench::host::echo::Echoes;
use weir_bench::host::summary::Summary;
use weir_bench::host::target::Resolved;
use weir_bench::host::throughput::{Carried, Direction, Transport};
use weir_bench::host::{load, mtu, tls};
use weir_report::host::FigureRecord;

use FigureRecord as Figure;

/// Name resolution.
pub fn resolution(resolved: &Resolved) -> Figure {
    match resolved.span {
        Some(span) => {
            let origin = format!("the system's resolver: {} addresses", resolved.addresses.len());
            Figure::taken("resolution-time", span.as_secs_f64(), "s", origin)
        }
        None => Figure::missing("resolution-time", "s", "an address was given, no name"),
    }
}

/// Connects by how they ended.
pub fn availability(tries: &Tries) -> Vec<Figure> {
    let all = tries.outcomes.len();
    let mut told = [0_usize; 4];
    let mut words = None;
    for outcome in &tries.outcomes {
        match outcome {
            ConnectOutcome::Connected(_) => {}
            ConnectOutcome::Refused(_) => told[0] += 1,
            ConnectOutcome::Reset(_) => told[1] += 1,
            ConnectOutcome::TimedOut => told[2] += 1,
            ConnectOutcome::Failed(why) => {
                told[3] += 1;
                words = Some(why.clone());
            }
        }
    }
    if all == 0 {
        return vec![Figure::missing("availability", "share", tries.cut.unwrap_or("no connect was tried"))];
    }
    let mut origin = format!("{} of {all} connects were taken", tries.connected());
    if let Some(cut) = tries.cut {
        origin = format!("{origin}, then {cut}");
    }
    let mut figures =
        vec![Figure::taken("availability", tries.connected() as f64 / all as f64, "share", origin)];
    let names = ["connects-refused", "connects-reset", "connects-timed-out", "connects-failed"];
    for (name, count) in names.into_iter().zip(told) {
        let origin = match (name, &words) {
            ("connects-failed", Some(why)) => why.clone(),
            ("connects-reset", _) => format!("of {all}, within a moment of being taken"),
            _ => format!("of {all}"),
        };
        figures.push(Figure::taken(name, count as f64, "count", origin));
    }
    figures
}

/// Round trips of connects.
pub fn connect_times(tries: &Tries) -> Vec<Figure> {
    let seen = tries.round_trips();
    let kind = if tries.connected() > 0 { "TCP connects, as this program saw them" } else { "refusals" };
    let mut figures = spread("rtt-connect", &seen, kind, "no connect was answered");
    figures.extend(spread(
        "rtt-handshake",
        &tries.kernel,
        "handshakes, by the kernel's clock (TCP_INFO)",
        "no connection was accepted, or the kernel does not report it",
    ));
    figures
}

/// Round trips of echoes.
pub fn echo_times(echoes: &Result<Echoes, String>) -> Vec<Figure> {
    match echoes {
        Ok(echoes) => {
            let origin = format!("ICMP echoes through {}", echoes.through);
            let why_not = echoes.cut.unwrap_or("no echo was answered");
            spread("rtt-echo", &echoes.round_trips, &origin, why_not)
        }
        Err(why) => vec![Figure::missing("rtt-echo-median", "s", why)],
    }
}

/// `NAME-min`, `NAME-median`, `NAME-p99`, `NAME-jitter`.
fn spread(name: &str, taken: &[Duration], of: &str, why_not: &str) -> Vec<Figure> {
    let Some(summary) = Summary::of(taken) else {
        return vec![Figure::missing(&format!("{name}-median"), "s", why_not)];
    };
    let origin = format!("{} {of}", summary.count);
    let p99 = tail(summary.count, &origin);
    let rows = [
        ("min", summary.min, origin.clone()),
        ("median", summary.median, origin.clone()),
        ("p99", summary.p99, p99),
        ("jitter", summary.jitter, format!("mean difference from one to the next of {origin}")),
    ];
    let row = |(part, span, origin): (&str, Duration, String)| {
        Figure::taken(&format!("{name}-{part}"), span.as_secs_f64(), "s", origin)
    };
    rows.into_iter().map(row).collect()
}

/// The origin of a p99 of so many round trips, which are `origin`.
fn tail(count: usize, origin: &str) -> String {
    if count < 100 { format!("the largest of {origin}") } else { origin.to_owned() }
}

/// Echoes lost.
pub fn loss(echoes: &Result<Echoes, String>) -> Vec<Figure> {
    let echoes = match echoes {
        Ok(echoes) => echoes,
        Err(why) => return vec![Figure::missing("loss", "share", why)],
    };
    match echoes.loss() {
        // A host that drops echoes on purpose looks like a path that loses everything.
        Some(loss) if loss >= 1.0 => {
            let why =
                format!("none of {} echoes was answered: the host may drop them on purpose", echoes.sent);
            vec![Figure::missing("loss", "share", why)]
        }
        Some(loss) => {
            let then = echoes.cut.map(|cut| format!(", then {cut}")).unwrap_or_default();
            let origin = format!("{} of {} ICMP echoes came back{then}", echoes.received, echoes.sent);
            let again = Figure::taken(
                "echo-duplicates",
                echoes.duplicates.into(),
                "count",
                "answers that came again",
            );
            vec![Figure::taken("loss", loss, "share", origin), again]
        }
        None => vec![Figure::missing("loss", "share", echoes.cut.unwrap_or("no echo was sent"))],
    }
}

/// The path's MTU by echoes and by datagrams, and what TCP makes of it.
pub fn mtu(
    echoes: &Result<mtu::Found, String>,
    datagrams: &Result<mtu::Found, String>,
    tries: &Tries,
) -> Vec<Figure> {
    const ECHO: &str = "the largest ICMP echo that came back unfragmented";
    const UDP: &str = "the largest UDP datagram that the host said it had got, by ICMP (port unreachable)";
    let info = tries.info.as_ref();
    let mut figures = match (echoes, datagrams) {
        (Ok(found), _) => path(found, ECHO),
        (Err(why), Ok(found)) => path(found, &format!("{UDP}; not by echo: {why}")),
        (Err(why), Err(_)) => vec![Figure::missing("path-mtu", "bytes", why)],
    };
    figures.push(match datagrams {
        Ok(found) => Figure::taken("path-mtu-udp", found.mtu.into(), "bytes", mtu_origin(found, UDP)),
        Err(why) => Figure::missing("path-mtu-udp", "bytes", why),
    });
    let tcp = [
        ("tcp-path-mtu", info.and_then(|info| info.pmtu), "what TCP believes (TCP_INFO); not probed"),
        ("mss", info.and_then(|info| info.snd_mss), "the connection's (TCP_INFO), options taken off"),
    ];
    for (name, value, origin) in tcp {
        figures.push(match value {
            Some(value) => Figure::taken(name, value.into(), "bytes", origin),
            None => {
                Figure::missing(name, "bytes", "no connection was accepted, or the kernel does not report it")
            }
        });
    }
    figures.push(match &tries.congestion {
        Some(name) => Figure::word("congestion-control", name, "this end's"),
        None => Figure::missing("congestion-control", "", "no connection was taken"),
    });
    figures
}

fn path(found: &mtu::Found, of: &str) -> Vec<Figure> {
    let first = "this machine's interface or route";
    vec![
        Figure::taken("path-mtu", found.mtu.into(), "bytes", mtu_origin(found, of)),
        Figure::taken("first-hop-mtu", found.first_hop.into(), "bytes", first),
    ]
}

fn mtu_origin(found: &mtu::Found, of: &str) -> String {
    let tried = if found.probes == 1 { "1 size".to_owned() } else { format!("{} sizes", found.probes) };
    let mut origin = format!("{of}; {tried} tried");
    if let Some(router) = found.limited_by {
        origin += &format!("; {router} said of larger ones that they do not fit");
    }
    if found.black_hole {
        origin += "; larger ones vanish without a word (a black hole)";
    }
    origin
}

/// TLS handshakes.
pub fn tls(found: &Result<(tls::Found, Option<String>), String>) -> Vec<Figure> {
    let (found, untrusted) = match found {
        Ok(found) => found,
        Err(why) => return vec![Figure::missing("tls-full", "s", why)],
    };
    let mut figures = cost("tls-full", &found.full, "full handshakes, after the connect");
    match &found.resumed {
        Ok(resumed) => figures.extend(cost("tls-resumed", resumed, "resumed handshakes")),
        Err(why) => figures.push(Figure::missing("tls-resumed", "s", why)),
    }
    figures.push(Figure::word("tls-agreed", &found.agreed, "the last full handshake's"));
    figures.push(match untrusted {
        None => Figure::word("tls-certificate", "trusted", "its check is part of the cost"),
        Some(why) => {
            Figure::word("tls-certificate", "not trusted", format!("its check is not in the cost: {why}"))
        }
    });
    figures
}

fn cost(name: &str, cost: &tls::Cost, of: &str) -> Vec<Figure> {
    let origin = format!("median of {} {of}", cost.count);
    let cpu = format!("of it on this end's processor; {origin}");
    vec![
        Figure::taken(name, cost.span.as_secs_f64(), "s", origin),
        Figure::taken(&format!("{name}-cpu"), cost.cpu.as_secs_f64(), "s", cpu),
    ]
}

/// Connections at a time.
pub fn connections(reached: &Reached, plan: &concurrent::Plan) -> Vec<Figure> {
    let end = match &reached.end {
        End::Cap => format!("as many as were asked for (--connections {})", plan.most),
        End::Host(ConnectOutcome::Refused(_)) => "then the host refused one".to_owned(),
        End::Host(ConnectOutcome::Reset(_)) => "then the host reset one".to_owned(),
        End::Host(ConnectOutcome::TimedOut) => "then one was not answered".to_owned(),
        End::Host(ConnectOutcome::Failed(why)) => format!("then one failed: {why}"),
        End::Host(ConnectOutcome::Connected(_)) => String::new(),
        End::Time => format!("{} s were over", plan.time.as_secs()),
        End::Descriptors(limit) => format!("this process may open no more than {limit} files (ulimit -n)"),
        End::Interrupted => "interrupted".to_owned(),
    };
    let kept = "of them, still open when the last one was taken";
    vec![
        Figure::taken("connections", reached.opened as f64, "count", format!("open at a time; {end}")),
        Figure::taken("connections-kept", reached.kept as f64, "count", kept),
    ]
}

/// Round trips under load.
pub fn load(found: &Result<(load::Found, String), String>) -> Vec<Figure> {
    let (found, name) = match found {
        Ok(found) => found,
        Err(why) => return vec![Figure::missing("rtt-loaded", "s", why)],
    };
    let of = |summary: &Summary, when: &str| format!("median of {} by {}, {when}", summary.count, found.by);
    let rate = found.moved as f64 / found.span.as_secs_f64().max(f64::MIN_POSITIVE);
    let grown = found.busy.median.saturating_sub(found.idle.median);
    let all = format!("{} by {}, under the same load", found.busy.count, found.by);
    let slowest = format!("{}; {} never came back", tail(found.busy.count, &all), found.lost);
    vec![
        Figure::taken("rtt-idle", found.idle.median.as_secs_f64(), "s", of(&found.idle, "at rest")),
        Figure::taken("rtt-loaded", found.busy.median.as_secs_f64(), "s", of(&found.busy, "under load")),
        Figure::taken("rtt-loaded-p99", found.busy.p99.as_secs_f64(), "s", slowest),
        Figure::taken("bufferbloat", grown.as_secs_f64(), "s", "the median under load less that at rest"),
        Figure::taken("load-rate", rate, "bytes/s", name),
    ]
}

/// One way of one transport: `tcp-up`, and the share that was sent again or lost.
pub fn throughput(
    transport: Transport,
    direction: Direction,
    carried: &Result<Carried, String>,
) -> Vec<Figure> {
    let (name, again) = match (transport, direction) {
        (Transport::Tcp, Direction::Up) => ("tcp-up", "tcp-up-retransmitted"),
        (Transport::Tcp, Direction::Down) => ("tcp-down", "tcp-down-retransmitted"),
        (Transport::Udp, Direction::Up) => ("udp-up", "udp-up-lost"),
        (Transport::Udp, Direction::Down) => ("udp-down", "udp-down-lost"),
    };
    let carried = match carried {
        Ok(carried) => carried,
        Err(why) => return vec![Figure::missing(name, "bytes/s", why), Figure::missing(again, "share", why)],
    };
    vec![
        Figure::taken(name, carried.rate.0, "bytes/s", &carried.origin),
        match carried.again {
            Some(share) => Figure::taken(again, share, "share", &carried.origin),
            None => Figure::missing(again, "share", "the sender does not report it"),
        },
    ]
}

/// What a client of throughput would have measured, and why there was none.
pub fn no_throughput(why: &str) -> Vec<Figure> {
    vec![Figure::missing("tcp-up", "bytes/s", why)]
}
