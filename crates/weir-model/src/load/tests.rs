//! Runs of every kind, and who held each.

use std::time::Duration;

use super::*;
use crate::evidence::Reading;

const SECOND: Duration = Duration::from_secs(1);

fn part(cpu_ms: u64) -> Use {
    Use { cpu: Duration::from_millis(cpu_ms), waited: Duration::ZERO, over: SECOND }
}

fn server(cpu_ms: u64) -> Reading<ServerUse> {
    let busiest = part(cpu_ms);
    let name = "nginx (pid 7)".to_owned();
    Reading::Value(ServerUse { name, total: busiest.cpu, busiest, threads: 1, ..ServerUse::default() })
}

fn path(min_us: u64, rtt_us: u64) -> Reading<PathUse> {
    let (min_rtt, rtt) = (Duration::from_micros(min_us), Duration::from_micros(rtt_us));
    Reading::Value(PathUse { min_rtt, rtt, disordered: 0.0, retransmits: 0, sockets: 1 })
}

fn unseen() -> Reading<ServerUse> {
    Reading::Missing("it is not on this machine".to_owned())
}

/// 10,000 requests in a second over ten connections, on one machine, half of which is idle.
fn run(client_ms: u64, server_ms: u64) -> LoadEvidence {
    LoadEvidence {
        span: SECOND,
        requests: 10_000,
        received: 5_000_000,
        connections: 10,
        loops: vec![LoopUse { thread: part(client_ms), script: Duration::ZERO }],
        server: server(server_ms),
        latency: Duration::from_millis(1),
        time: PlaceTime { answered: 10 * SECOND, ..PlaceTime::default() },
        path: path(30, 40),
        samples: vec![500_000; 10],
        ..LoadEvidence::default()
    }
}

/// The same with so many requests over so many connections, each of which is always asking.
fn asking(connections: u32, latency: Duration, client_ms: u64, server_ms: u64) -> LoadEvidence {
    let answered = connections * SECOND;
    LoadEvidence {
        requests: (answered.as_secs_f64() / latency.as_secs_f64()) as u64,
        connections,
        latency,
        time: PlaceTime { answered, ..PlaceTime::default() },
        ..run(client_ms, server_ms)
    }
}

/// Both ends waited for a processor for so long.
fn waiting(mut seen: LoadEvidence, client_ms: u64, server_ms: u64) -> LoadEvidence {
    seen.loops[0].thread.waited = Duration::from_millis(client_ms);
    if let Reading::Value(server) = &mut seen.server {
        server.busiest.waited = Duration::from_millis(server_ms);
        server.waited = server.busiest.waited;
    }
    seen
}

fn limit(said: &LoadVerdict) -> Option<Limit> {
    match said.verdict.limit {
        Some(MainLimit::One(limit)) => Some(limit),
        _ => None,
    }
}

const MS: Duration = Duration::from_millis(1);

/// A run, its holder and the limit.
type Row = (&'static str, LoadEvidence, Option<(Holder, Limit)>);

/// Each is held by whom its row says, and says so.
fn are_told(rows: impl IntoIterator<Item = Row>) {
    for (name, seen, held) in rows {
        let said = explain(&seen);
        assert_eq!(said.holder.zip(limit(&said)), held, "{name}: {:?}", said.verdict);
        let verdict = &said.verdict;
        assert!(!verdict.evidence.is_empty() || verdict.missing[0].contains("no one cause"), "{name}");
        assert!((0.0..=1.0).contains(&verdict.confidence), "{name}: {}", verdict.confidence);
    }
}

const SERVER: Option<(Holder, Limit)> = Some((Holder::Server, Limit::Application));

#[test]
fn a_script_holds_what_its_functions_take_and_not_what_the_server_sleeps() {
    let scripted = |script_ms, seen: LoadEvidence| {
        let thread = seen.loops[0].thread.clone();
        LoadEvidence { loops: vec![LoopUse { thread, script: script_ms * MS }], ..seen }
    };
    are_told([
        ("sleeps", scripted(960, asking(4, 80 * MS, 10, 5)), Some((Holder::Script, Limit::ThinkTime))),
        ("computes", scripted(960, asking(1, 50 * MS, 960, 5)), Some((Holder::Script, Limit::CpuCore))),
        ("is short", scripted(30, asking(4, 30 * MS, 60, 5)), SERVER),
    ]);
}

#[test]
fn a_delayed_acknowledgement_is_one_that_hurries_the_answer() {
    let acks = |hastened_ms, mut seen: LoadEvidence| {
        let pieces = |count, each| Pieces { count, time: count * each };
        seen.acks = Acks { plain: pieces(20, 43 * MS), hastened: pieces(8, hastened_ms * MS) };
        seen.inside = 43 * MS;
        seen
    };
    are_told([
        ("two writes", acks(0, asking(2, 44 * MS, 5, 5)), Some((Holder::Nagle, Limit::Nagle))),
        ("a pause of its own", acks(43, asking(2, 44 * MS, 5, 5)), SERVER),
    ]);
}

#[test]
fn waits_for_a_processor_are_the_machines_where_they_are_most_of_the_time() {
    let processor = Some((Holder::Processor, Limit::CpuCore));
    are_told([
        ("one connection", waiting(asking(1, 5 * MS, 30, 20), 400, 500), processor),
        ("ten connections", waiting(run(200, 250), 300, 350), processor),
        ("a server that sleeps", waiting(asking(4, 36 * MS, 10, 5), 250, 80), SERVER),
        ("a full server", waiting(run(300, 640), 50, 330), Some((Holder::ServerCpu, Limit::CpuCore))),
    ]);
}

#[test]
fn streams_that_come_in_batches_are_no_server_that_waits() {
    let streams = |seen| LoadEvidence { streams: 20, connections: 2, ..seen };
    are_told([
        ("batches", streams(asking(40, 4 * MS, 800, 700)), Some((Holder::Client, Limit::CpuCore))),
        ("a server that sleeps", streams(asking(40, 60 * MS, 100, 40)), SERVER),
    ]);
}

#[test]
fn parts_of_the_connections_time_hold_what_they_take_half_of() {
    let time = |of: fn(&mut PlaceTime)| {
        let mut seen = asking(4, 5 * MS, 20, 20);
        of(&mut seen.time);
        seen
    };
    let stall = Some((Holder::Stall, Limit::Application));
    let mut ports = time(|time| time.resting = 20 * SECOND);
    (ports.connects.no_port, ports.connects.made) = (300, 28_000);
    let unseen = LoadEvidence { server: unseen(), ..time(|time| time.still = 3 * SECOND) };
    are_told([
        ("delay()", time(|time| time.delayed = 30 * SECOND), Some((Holder::Delay, Limit::ThinkTime))),
        ("delay() of a moment", time(|time| time.delayed = 100 * MS), SERVER),
        ("a stopped server", time(|time| time.still = 3 * SECOND), stall),
        ("silence from afar", unseen, Some((Holder::Stall, Limit::SenderOrPath))),
        ("a dead server", time(|time| time.resting = 20 * SECOND), stall),
        ("a pause in passing", time(|time| time.still = 400 * MS), SERVER),
        ("no ports", ports, Some((Holder::Ports, Limit::Connect))),
        (
            "two causes",
            time(|time| {
                (time.delayed, time.resting, time.answered) = (2 * SECOND, 2 * SECOND, SECOND);
            }),
            None,
        ),
    ]);
}

#[test]
fn making_connections_holds_where_they_are_made_again_and_again() {
    let connecting = |made, connecting_ms: u32| {
        let mut seen = asking(4, 2 * MS, 100, 100);
        seen.connects.made = made;
        seen.time.connecting = connecting_ms * MS;
        seen
    };
    let held = Some((Holder::Connecting, Limit::Connect));
    are_told([
        ("handshakes", connecting(2000, 6000), held),
        ("a connection each", connecting(2000, 2200), held),
        ("at first", connecting(4, 40), SERVER),
    ]);
}

#[test]
fn a_plan_is_kept_or_waits_for_connections_unless_somebody_is_full() {
    let planned = |rate, seen| LoadEvidence { rate: Some(rate), ..seen };
    // Two of 68 are under way at the end.
    let two_missing = LoadEvidence { under_way: 2, ..planned(68.0, asking(2, 30 * MS, 10, 5)) };
    let mut kept_to_the_last = two_missing.clone();
    kept_to_the_last.time.idle = 2 * SECOND;
    // Connections had time left, and the two are not under way.
    let lost = LoadEvidence { under_way: 0, ..kept_to_the_last.clone() };
    are_told([
        ("kept to the last", kept_to_the_last, Some((Holder::Rate, Limit::RateLimit))),
        ("two too few", two_missing, Some((Holder::Queue, Limit::Latency))),
        ("two that are nowhere", lost, SERVER),
        ("few connections", planned(400.0, asking(2, 30 * MS, 10, 5)), Some((Holder::Queue, Limit::Latency))),
        ("kept", planned(66.0, asking(2, 30 * MS, 10, 5)), Some((Holder::Rate, Limit::RateLimit))),
        ("full", planned(400.0, asking(2, 30 * MS, 10, 960)), Some((Holder::ServerCpu, Limit::CpuCore))),
    ]);
}

#[test]
fn a_server_that_was_not_seen_is_named_by_what_its_machine_acknowledged() {
    let far = |seen, rtt_us| LoadEvidence { server: unseen(), path: path(20_000, rtt_us), ..seen };
    are_told([
        ("early", far(asking(4, 300 * MS, 5, 0), 60_000), SERVER),
        ("late", far(asking(4, 300 * MS, 5, 0), 290_000), Some((Holder::ServerOrPath, Limit::SenderOrPath))),
        ("round trips", far(asking(2, 21 * MS, 5, 0), 20_500), Some((Holder::Connections, Limit::Latency))),
    ]);
}

#[test]
fn a_server_that_was_not_seen_is_not_said_to_be_idle() {
    let seen = LoadEvidence { server: unseen(), ..asking(1, Duration::from_micros(150), 350, 0) };
    let said = explain(&seen);
    assert_eq!(said.holder, Some(Holder::Connections));
    assert!(said.verdict.confidence <= 0.6, "{said:?}");
    let evidence = &said.verdict.evidence[0];
    assert!(evidence.contains("not seen") && !evidence.contains("neither end"), "{evidence}");
    // It may be what fills this machine's processors.
    let full = LoadEvidence { cores: Reading::Value(vec![0.95, 0.9]), ..seen.clone() };
    assert_eq!(explain(&full).holder, None);
    let half = LoadEvidence { cores: Reading::Value(vec![0.95, 0.3]), ..seen.clone() };
    assert_eq!(explain(&half).holder, Some(Holder::Connections));
    // That planned requests waited for a connection holds whatever the server does.
    let planned = explain(&LoadEvidence { rate: Some(20_000.0), ..seen });
    assert_eq!(planned.holder, Some(Holder::Queue));
    assert!(planned.verdict.confidence > 0.8, "{planned:?}");
}

#[test]
fn time_in_which_weir_stood_still_is_told_and_charged_to_nobody() {
    let run = asking(10, 50 * MS, 20, 10);
    let stopped = explain(&LoadEvidence { away: 3 * SECOND, ..run.clone() });
    let usual = explain(&run);
    assert_eq!((stopped.holder, &stopped.verdict.shares), (usual.holder, &usual.verdict.shares));
    let missing = &stopped.verdict.missing;
    assert!(missing.iter().any(|line| line.starts_with("weir itself stood still for 3")), "{missing:?}");
    assert!(!usual.verdict.missing.iter().any(|line| line.contains("stood still")));
}

#[test]
fn threads_that_run_one_at_a_time_are_full_together() {
    let mut locked = asking(4, 80 * MS, 5, 240);
    if let Reading::Value(server) = &mut locked.server {
        (server.total, server.threads) = (970 * MS, 4);
    }
    let server_cpu = Some((Holder::ServerCpu, Limit::CpuCore));
    are_told([("under a lock", locked, server_cpu), ("nearly full", asking(1, MS, 100, 850), server_cpu)]);
}

#[test]
fn threads_that_may_have_taken_turns_are_not_said_to_have_had_room() {
    let mut turns = asking(4, 80 * MS, 5, 240);
    if let Reading::Value(server) = &mut turns.server {
        (server.total, server.waited, server.threads) = (480 * MS, 500 * MS, 4);
    }
    let said = explain(&turns);
    assert_eq!((said.holder, said.capacity), (Some(Holder::Processor), None), "{said:?}");
    // The same cost of a thread alone is its own.
    if let Reading::Value(server) = &mut turns.server {
        (server.waited, server.threads) = (Duration::ZERO, 1);
    }
    assert!(explain(&turns).capacity.is_some());
}

#[test]
fn a_server_that_stood_still_is_not_said_to_have_had_room() {
    // Full for half of the time, and nothing came in most of the rest: more connections bring nothing.
    let mut seen = asking(2, Duration::from_micros(80), 200, 500);
    assert_eq!(explain(&seen).holder, Some(Holder::Connections));
    seen.time.still = 900 * MS;
    for rate in [None, Some(40_000.0)] {
        let said = explain(&LoadEvidence { rate, ..seen.clone() });
        assert_eq!((said.holder, said.capacity), (Some(Holder::Stall), None), "{said:?}");
        let advice = &said.verdict.advice;
        assert!(!advice.iter().any(|one| one.action.contains("more connections")), "{advice:?}");
    }
}

#[test]
fn a_full_loop_is_the_clients_own_limit() {
    let said = explain(&run(960, 600));
    assert_eq!((said.holder, limit(&said)), (Some(Holder::Client), Some(Limit::CpuCore)));
    assert!((said.capacity.unwrap() - 16_667.0).abs() < 1.0);
    assert!(said.verdict.evidence[0].contains("the client's"), "{:?}", said.verdict.evidence);
}

#[test]
fn a_full_server_thread_is_named() {
    let said = explain(&run(500, 970));
    assert_eq!((said.holder, limit(&said)), (Some(Holder::ServerCpu), Some(Limit::CpuCore)));
    assert!(said.verdict.evidence[0].contains("nginx (pid 7)"));
    assert_eq!(said.capacity, None);
}

#[test]
fn threads_for_each_connection_are_held_by_the_processors() {
    // Ten threads of 40 ms each: ten times as many would fill one thread's time, but not two processors five
    // times over.
    let mut seen = run(300, 40);
    if let Reading::Value(server) = &mut seen.server {
        (server.total, server.threads) = (400 * MS, 10);
    }
    seen.cores = Reading::Value(vec![0.4, 0.4]);
    seen.path = path(900, 900);
    let said = explain(&seen);
    assert_eq!(said.holder, Some(Holder::Connections));
    assert!((said.capacity.unwrap() - 50_000.0).abs() < 1.0, "{said:?}");
    // The client takes its share of the same processors: 2 of 0.7.
    let advice = &said.verdict.advice[0].action;
    assert!(advice.contains("-c 29") && advice.contains("28571 requests/s"), "{advice}");
}

#[test]
fn two_that_are_full_hold_together_unless_they_share_a_core() {
    let said = explain(&run(950, 980));
    assert_eq!((said.holder, said.verdict.evidence.len()), (None, 2));
    assert_eq!(limit(&said), Some(Limit::CpuCore));
    let said = explain(&waiting(run(500, 480), 470, 500));
    assert_eq!((said.holder, limit(&said)), (Some(Holder::Processor), Some(Limit::CpuCore)));
    assert!(said.verdict.evidence[0].contains("47 % of the time for a processor"), "{said:?}");
}

#[test]
fn a_server_that_sleeps_is_slow_to_answer() {
    let seen = asking(10, 50 * MS, 20, 10);
    let said = explain(&seen);
    assert_eq!((said.holder, limit(&said)), (Some(Holder::Server), Some(Limit::Application)));
    // The same from afar is less sure, and says what was not seen.
    let afar = explain(&LoadEvidence { server: unseen(), ..seen });
    assert_eq!(afar.holder, Some(Holder::Server));
    assert!(afar.verdict.confidence < said.verdict.confidence);
    assert!(afar.verdict.missing[0].contains("not on this machine"));
}

#[test]
fn round_trips_that_nobody_fills_want_more_connections() {
    let mut seen = asking(10, Duration::from_micros(20_400), 40, 40);
    seen.path = path(20_000, 20_100);
    let said = explain(&seen);
    assert_eq!((said.holder, limit(&said)), (Some(Holder::Connections), Some(Limit::Latency)));
    assert!(said.verdict.advice[0].action.contains("-c"));
    // One connection over the loopback: client, server and wake-ups take turns.
    let turns = asking(1, Duration::from_micros(98), 350, 300);
    assert_eq!(explain(&turns).holder, Some(Holder::Connections));
    // Connections that ask half of the time only are not what bounds the figure.
    seen.time.idle = 10 * SECOND;
    let said = explain(&seen);
    assert_eq!((said.holder, said.verdict.limit), (None, None));
    assert!(said.verdict.missing[0].contains("took 50 % of the connections' time"), "{said:?}");
}

#[test]
fn no_more_connections_are_advised_than_would_help() {
    // Two of two are in use, and the server could take a tenth more at most.
    let mut seen = asking(2, 2 * MS, 100, 700);
    seen.path = path(1500, 1500);
    seen.cores = Reading::Value(vec![0.9, 0.9]);
    let said = explain(&seen);
    assert_eq!(said.holder, Some(Holder::Connections));
    assert!(!said.verdict.advice[0].action.contains("-c 2)"), "{:?}", said.verdict.advice);
}

#[test]
fn streams_are_asked_over_as_well_as_connections() {
    let mut seen = asking(80, Duration::from_micros(20_400), 40, 40);
    (seen.connections, seen.streams, seen.path) = (10, 8, path(20_000, 20_100));
    let said = explain(&seen);
    assert_eq!(said.holder, Some(Holder::Connections));
    let (evidence, advice) = (&said.verdict.evidence[0], &said.verdict.advice[0].action);
    assert!(evidence.starts_with("10 connections of 8 streams, "), "{evidence}");
    // Little's law with what the server's thread could take, eight at a time over a connection.
    let needed = (seen.requests as f64 / 0.04 * 0.0204 / 8.0_f64).ceil();
    assert!(advice.contains(&format!("-c {needed})")), "{advice}");
}

#[test]
fn answers_that_trickle_at_an_even_rate_are_the_paths() {
    let mut seen = asking(4, Duration::from_millis(330), 20, 10);
    (seen.received, seen.inside, seen.server) = (1_250_000, Duration::from_millis(260), unseen());
    seen.samples = vec![125_000; 10];
    seen.path = path(40_000, 90_000);
    let said = explain(&seen);
    assert_eq!((said.holder, limit(&said)), (Some(Holder::Path), Some(Limit::PathBandwidth)));
    // Without a queue it may as well be the server that sends slowly; and a queue of microseconds is none,
    // nor one that holds less than a segment.
    for (min_us, rtt_us, received) in
        [(40_000, 40_000, 1_250_000), (100, 900, 1_250_000), (40_000, 90_000, 2_000)]
    {
        seen.path = path(min_us, rtt_us);
        seen.received = received;
        let said = explain(&seen);
        assert_eq!((said.holder, limit(&said)), (Some(Holder::ServerOrPath), Some(Limit::SenderOrPath)));
        // A server on this machine has no path before it.
        let own = explain(&LoadEvidence { server: server(10), ..seen.clone() });
        assert_eq!((own.holder, limit(&own)), (Some(Holder::Server), Some(Limit::Application)));
    }
    // One that overflows tears holes.
    let Reading::Value(full) = path(40_000, 45_000) else { unreachable!("a value") };
    seen.path = Reading::Value(PathUse { disordered: 0.05, ..full });
    assert_eq!(limit(&explain(&seen)), Some(Limit::PathBandwidth));
    seen.path = path(40_000, 40_000);
    // At a known link's rate there is no doubt.
    (seen.received, seen.link_rate) = (1_250_000, Some(1_300_000.0));
    assert_eq!(limit(&explain(&seen)), Some(Limit::PathBandwidth));
}

#[test]
fn segments_sent_again_are_the_paths() {
    let mut seen = asking(4, 220 * MS, 5, 0);
    seen.server = unseen();
    let path = PathUse { min_rtt: 10 * MS, rtt: 12 * MS, retransmits: 16, disordered: 0.0, sockets: 4 };
    seen.path = Reading::Value(path);
    assert_eq!(limit(&explain(&seen)), Some(Limit::PathLoss));
    seen.path = Reading::Value(PathUse { retransmits: 2, ..path });
    assert_eq!(explain(&seen).holder, Some(Holder::Server));
}

#[test]
fn an_asked_rate_that_was_reached_held_the_run() {
    let mut seen = run(950, 300);
    seen.rate = Some(10_000.0);
    assert_eq!(explain(&seen).holder, Some(Holder::Rate));
    seen.rate = Some(20_000.0);
    assert_eq!(explain(&seen).holder, Some(Holder::Client));
}

#[test]
fn a_rate_is_not_reached_by_requests_that_fail() {
    // A fifth fails at once: of 64 connections nearly all are idle at any time.
    let mut seen = LoadEvidence { rate: Some(1000.0), connections: 64, ..run(100, 100) };
    (seen.requests, seen.failed, seen.under_way) = (800, 200, 1);
    seen.time = PlaceTime { answered: SECOND, failed: SECOND / 4, idle: 62 * SECOND, ..PlaceTime::default() };
    assert_ne!(explain(&seen).holder, Some(Holder::Rate));
    // One in a hundred may.
    (seen.requests, seen.failed) = (990, 10);
    assert_eq!(explain(&seen).holder, Some(Holder::Rate));
}

#[test]
fn little_is_not_judged() {
    // One answer, of a server that sleeps for a second.
    let one = asking(1, SECOND, 5, 50);
    assert_eq!(one.requests, 1);
    let said = explain(&one);
    assert_eq!((said.holder, said.verdict.limit, said.capacity), (None, None, None));
    let why = &said.verdict.missing[0];
    assert!(why.starts_with("too few answers to tell what held them (1 answer)"), "{why}");
    assert_eq!(explain(&asking(1, 200 * MS, 5, 50)).holder, Some(Holder::Server));
    // Where the connections' time went needs no number of answers.
    let mut stopped = one;
    stopped.time.still = SECOND;
    assert_eq!(explain(&stopped).holder, Some(Holder::Stall));
    // Many, in a moment.
    let short = LoadEvidence { span: 20 * MS, ..run(960, 600) };
    let said = explain(&short);
    assert_eq!((said.holder, said.verdict.limit, said.capacity), (None, None, None));
    let why = &said.verdict.missing[0];
    assert!(why.starts_with("too short a run to tell what held it (20.0 ms)"), "{why}");
}

#[test]
fn a_run_without_answers_is_not_judged() {
    let said = explain(&LoadEvidence::default());
    assert_eq!((said.holder, said.verdict.limit), (None, None));
    assert_eq!(said.verdict.missing[0], "no request was answered");
}
