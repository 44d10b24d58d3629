//! Runs of every kind, and who held each.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn part(cpu_ms: u64) -> Use {
    Use { cpu: Duration::from_millis(cpu_ms), waited: Duration::ZERO, over: SECOND }
}

fn server(cpu_ms: u64) -> Reading<ServerUse> {
    let busiest = part(cpu_ms);
    Reading::Value(ServerUse { name: "nginx (pid 7)".to_owned(), total: busiest.cpu, busiest, threads: 1 })
}

/// 10,000 requests in a second over ten connections, on one machine, half of which is idle.
fn run(client_ms: u64, server_ms: u64) -> LoadEvidence {
    LoadEvidence {
        span: SECOND,
        requests: 10_000,
        received: 5_000_000,
        connections: 10,
        loops: vec![part(client_ms)],
        server: server(server_ms),
        latency: Duration::from_millis(1),
        path: Reading::Value(PathUse { min_rtt: Duration::from_micros(30), ..PathUse::default() }),
        samples: vec![500_000; 10],
        ..LoadEvidence::default()
    }
}

#[test]
fn a_full_loop_is_the_clients_own_limit() {
    let said = explain(&run(960, 600));
    assert_eq!(said.holder, Some(Holder::Client));
    assert_eq!(said.verdict.limit, Some(MainLimit::One(Limit::CpuCore)));
    assert!((said.capacity.unwrap() - 16_667.0).abs() < 1.0);
    assert!(said.verdict.evidence[0].contains("the client's"), "{:?}", said.verdict.evidence);
}

#[test]
fn a_full_server_thread_is_named() {
    let said = explain(&run(500, 970));
    assert_eq!(said.holder, Some(Holder::ServerCpu));
    assert_eq!(said.verdict.limit, Some(MainLimit::One(Limit::CpuCore)));
    assert!(said.verdict.evidence[0].contains("nginx (pid 7)"));
    assert_eq!(said.capacity, None);
}

#[test]
fn threads_for_each_connection_are_held_by_the_processors() {
    // Ten threads of 40 ms each: ten times as many would fill one thread's time, but not two processors five times over.
    let mut seen = run(300, 40);
    if let Reading::Value(server) = &mut seen.server {
        (server.total, server.threads) = (Duration::from_millis(400), 10);
    }
    seen.cores = Reading::Value(vec![0.4, 0.4]);
    seen.path = Reading::Value(PathUse { min_rtt: Duration::from_micros(900), ..PathUse::default() });
    let said = explain(&seen);
    assert_eq!(said.holder, Some(Holder::Connections));
    assert!((said.capacity.unwrap() - 50_000.0).abs() < 1.0, "{said:?}");
    // The client takes its share of the same processors: 2 of 0.7.
    let advice = &said.verdict.advice[0].action;
    assert!(advice.contains("-c 29") && advice.contains("28571 requests/s"), "{advice}");
}

#[test]
fn two_that_share_a_core_hold_together() {
    let mut seen = run(500, 480);
    seen.loops[0].waited = Duration::from_millis(470);
    if let Reading::Value(server) = &mut seen.server {
        server.busiest.waited = Duration::from_millis(500);
    }
    let said = explain(&seen);
    assert_eq!(said.holder, None);
    assert_eq!(said.verdict.evidence.len(), 2);
    assert_eq!(said.verdict.limit, Some(MainLimit::One(Limit::CpuCore)));
}

#[test]
fn a_server_that_sleeps_is_slow_to_answer() {
    let mut seen = run(20, 10);
    (seen.requests, seen.latency) = (200, Duration::from_millis(50));
    let said = explain(&seen);
    assert_eq!(said.holder, Some(Holder::Server));
    assert_eq!(said.verdict.limit, Some(MainLimit::One(Limit::Application)));
    // The same from afar is less sure, and says what was not seen.
    seen.server = Reading::Missing("it is not on this machine".to_owned());
    let afar = explain(&seen);
    assert_eq!(afar.holder, Some(Holder::Server));
    assert!(afar.verdict.confidence < said.verdict.confidence);
    assert!(afar.verdict.missing[0].contains("not on this machine"));
}

#[test]
fn round_trips_that_nobody_fills_want_more_connections() {
    let mut seen = run(40, 40);
    (seen.requests, seen.connections, seen.latency) = (490, 10, Duration::from_micros(20_400));
    seen.path = Reading::Value(PathUse { min_rtt: Duration::from_millis(20), ..PathUse::default() });
    let said = explain(&seen);
    assert_eq!(said.holder, Some(Holder::Connections));
    assert_eq!(said.verdict.limit, Some(MainLimit::One(Limit::Latency)));
    assert!(said.verdict.advice[0].action.contains("-c"));
    // One connection over the loopback: client, server and wake-ups take turns.
    let mut turns = run(350, 300);
    (turns.connections, turns.latency) = (1, Duration::from_micros(98));
    assert_eq!(explain(&turns).holder, Some(Holder::Connections));
}

#[test]
fn streams_are_asked_over_as_well_as_connections() {
    let mut seen = run(40, 40);
    (seen.requests, seen.connections, seen.latency) = (3900, 10, Duration::from_micros(20_400));
    seen.path = Reading::Value(PathUse { min_rtt: Duration::from_millis(20), ..PathUse::default() });
    let most = |seen: &LoadEvidence| {
        let said = explain(seen);
        assert_eq!(said.holder, Some(Holder::Connections));
        (said.verdict.evidence[0].clone(), said.verdict.advice[0].action.clone())
    };
    seen.streams = 8;
    let (evidence, advice) = most(&seen);
    assert!(evidence.starts_with("10 connections of 8 streams, "), "{evidence}");
    // Little's law with what the server's thread could take, eight at a time over a connection.
    let needed = (3900.0 / 0.04 * 0.0204 / 8.0_f64).ceil();
    assert!(advice.contains(&format!("-c {needed})")), "{advice}");
}

#[test]
fn answers_that_trickle_at_an_even_rate_are_the_paths() {
    let mut seen = run(20, 10);
    (seen.requests, seen.received) = (12, 1_250_000);
    (seen.latency, seen.inside) = (Duration::from_millis(330), Duration::from_millis(260));
    seen.samples = vec![125_000; 10];
    let path = PathUse { min_rtt: Duration::from_millis(40), rtt: Duration::from_millis(90), retransmits: 0 };
    seen.path = Reading::Value(path);
    let said = explain(&seen);
    assert_eq!(
        (said.holder, said.verdict.limit),
        (Some(Holder::Path), Some(MainLimit::One(Limit::PathBandwidth)))
    );
    // Without a queue it may as well be the server that sends slowly.
    seen.path = Reading::Value(PathUse { rtt: path.min_rtt, ..path });
    assert_eq!(explain(&seen).verdict.limit, Some(MainLimit::One(Limit::SenderOrPath)));
    // At a known link's rate there is no doubt.
    seen.link_rate = Some(1_300_000.0);
    assert_eq!(explain(&seen).verdict.limit, Some(MainLimit::One(Limit::PathBandwidth)));
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
fn a_run_without_answers_is_not_judged() {
    let said = explain(&LoadEvidence::default());
    assert_eq!((said.holder, said.verdict.limit), (None, None));
    assert_eq!(said.verdict.missing[0], "no request was answered");
}
