//! What the tuner makes of servers and paths, by simulation.

use std::time::Duration;

use crate::decision::{Decision, LaneChange, LaneReason};
use crate::limit::Limit;
use crate::rule::rate_limit::scaled;

use super::simulator::{Even, Path, SimulatedRun, World, alone, run};
use super::{Observation, Tuner};

/// Whether it decided that the server serves so few.
fn finds_served(outcome: &SimulatedRun, is: impl Fn(u32) -> bool) -> bool {
    outcome.decided.iter().any(|event| match event.decision {
        Decision::Lanes(LaneChange { why: LaneReason::Served(count), .. }) => is(count),
        _ => false,
    })
}

#[test]
fn a_cap_per_connection_is_multiplied_by_all_lanes() {
    let outcome = run(&mut Even::new(|lanes| 8e6 * f64::from(lanes), Limit::SenderOrPath), 10);
    assert_eq!((outcome.lanes, outcome.most), (64, 64));
}

#[test]
fn a_full_path_stays_with_one_lane_and_is_rarely_tried() {
    let outcome = run(&mut Even::new(|_| 1e8, Limit::SenderOrPath), 30);
    assert_eq!((outcome.lanes, outcome.most), (1, 2));
    assert!(outcome.trials <= 3, "{} trials", outcome.trials);
}

#[test]
fn the_disk_is_never_given_a_second_lane() {
    let outcome = run(&mut Even::new(|lanes| 3e7 / f64::from(lanes), Limit::DirtyThrottle), 30);
    assert_eq!((outcome.lanes, outcome.most), (1, 1));
}

#[test]
fn lanes_end_where_the_gain_ends() {
    let outcome = run(&mut Even::new(|lanes| 1e7 * f64::from(lanes.min(4)), Limit::ReceiveWindow), 20);
    assert_eq!(outcome.lanes, 4);
}

#[test]
fn a_server_that_serves_one_at_a_time_keeps_one() {
    let mut one = Even { served: 1, ..Even::new(|_| 1e8, Limit::SenderOrPath) };
    let outcome = run(&mut one, 30);
    assert_eq!(outcome.lanes, 1);
    assert!(finds_served(&outcome, |count| count == 1), "{:?}", outcome.decided);
}

/// Lanes that had nothing to ask for are no word on the server, and no trial.
#[test]
fn lanes_without_a_part_to_ask_for_prove_nothing() {
    let mut short = Even { parts: 1, ..Even::new(|_| 1e7, Limit::SenderOrPath) };
    let outcome = run(&mut short, 30);
    assert_eq!((outcome.lanes, outcome.judged), (1, 0));
    assert!(!finds_served(&outcome, |_| true), "{:?}", outcome.decided);
}

#[test]
fn a_full_core_without_a_free_one_is_left_alone() {
    let mut busy = Even { free_cpus: 0.0, ..Even::new(|_| 2e9, Limit::CpuCore) };
    assert_eq!(run(&mut busy, 10).most, 1);
    let mut free =
        Even { free_cpus: 3.0, ..Even::new(|lanes| 2e9 * f64::from(lanes.min(4)), Limit::CpuCore) };
    assert_eq!(run(&mut free, 20).lanes, 4);
}

/// A lane carries the most right after its slow start and a fifth of that later: what a trial found must not
/// be taken to hold for ever. Of a run of 20 s the search may cost one.
#[test]
fn a_path_that_loses_segments_is_filled_within_a_second() {
    let mut shares = Vec::new();
    for seed in 0..32 {
        let mut path = Path { loss: 0.001, ..Path::new(24e6, 0.04, seed) };
        let outcome = run(&mut path, 20);
        let (share, later) = (outcome.rate() / path.link, outcome.rate_after(5.0) / path.link);
        assert!(share >= 0.92 && later >= 0.98, "{share:.3} of the link, {later:.3} later, seed {seed}");
        assert!(outcome.lanes <= 64, "{} lanes, seed {seed}", outcome.lanes);
        shares.push(share);
    }
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean >= 0.95, "{mean:.3} of the link");
}

/// 64 KiB a round trip are 1.6 MB/s on each lane, and the path takes 15 of them; of 27 KB it takes 36.
#[test]
fn a_small_receive_window_is_multiplied_until_the_path_is_full() {
    for (window, lanes) in [(65536.0, 15..=20), (27e3, 36..=42)] {
        let mut path = Path { receive_window: window, ..Path::new(24e6, 0.04, 1) };
        let outcome = run(&mut path, 20);
        let (share, later) = (outcome.rate() / path.link, outcome.rate_after(5.0) / path.link);
        assert!(lanes.contains(&outcome.lanes), "{} lanes for windows of {window}", outcome.lanes);
        assert!(share >= 0.95 && later >= 0.99, "{share:.3} of the link, {later:.3} later");
    }
}

/// A link that one lane fills is not tried again and again, whatever its queue does.
#[test]
fn a_path_without_loss_is_left_to_few_lanes() {
    for (seed, queue) in [0.25, 0.5, 1.0, 2.0].into_iter().cycle().enumerate().take(16) {
        let mut path = Path::new(24e6, 0.04, seed as u64);
        path.queue *= queue;
        let outcome = run(&mut path, 60);
        let most = if queue < 0.5 { 4 } else { 2 };
        assert!(outcome.lanes <= most, "{} lanes, queue {queue}, seed {seed}", outcome.lanes);
        assert!(outcome.trials <= 4, "{} trials, queue {queue}, seed {seed}", outcome.trials);
    }
}

/// However little the tuner can win, it may not lose: on any path its trials cost at most a twentieth of what
/// one lane brings in 20 s. In a minute one more trial falls due, and a window of thousands of segments,
/// which grows by one a round trip of 100 ms, feels it to the end.
#[test]
fn no_path_is_slower_than_with_one_lane() {
    for link in [2e6, 24e6, 1e8] {
        for round_trip in [0.01, 0.04, 0.1] {
            for loss in [0.0, 1e-4, 1e-3, 1e-2] {
                for queue in [0.1, 0.25, 0.5, 1.0, 3.0] {
                    for cap in [f64::INFINITY, link / 10.0] {
                        let path = |seed| {
                            let path = Path { loss, cap, ..Path::new(link, round_trip, seed) };
                            Path { queue: path.queue * queue, ..path }
                        };
                        is_no_slower(path, 20, 0.95);
                        is_no_slower(path, 60, if round_trip > 0.04 && link > 2e6 { 0.9 } else { 0.97 });
                    }
                }
            }
        }
    }
}

fn is_no_slower(path: impl Fn(u64) -> Path, seconds: u64, least: f64) {
    for seed in 0..2 {
        let alone = alone(&mut path(seed), seconds);
        let tuned = run(&mut path(seed), seconds).rate();
        let Path { link, round_trip, loss, cap, queue, .. } = path(seed);
        assert!(
            tuned >= least * alone,
            "{tuned:.0} after {alone:.0} of one lane in {seconds} s: link {link}, round trip {round_trip}, loss {loss}, cap {cap}, queue {queue}"
        );
    }
}

/// What a server gives to each connection adds up, however long the path is.
#[test]
fn a_cap_per_connection_on_a_path_is_multiplied_until_it_is_full() {
    for round_trip in [0.01, 0.04, 0.1] {
        let mut path = Path { cap: 1e6, ..Path::new(24e6, round_trip, 1) };
        let outcome = run(&mut path, 20);
        let share = outcome.rate_after(4.0) / path.link;
        assert!(share >= 0.97, "{share:.3} of the link at {round_trip} s, {} lanes", outcome.lanes);
    }
}

/// On a path that loses segments more lanes are taken whenever one of their many losses shows; in a while
/// those that it does not take are given back. 24 MB/s are 16 lanes of 1.5 MB/s each; a trial of twice as
/// many falls due now and then.
#[test]
fn lanes_that_a_lossy_path_does_not_need_are_given_back() {
    for seed in 0..16 {
        let mut path = Path { loss: 0.001, ..Path::new(24e6, 0.04, seed) };
        let outcome = run(&mut path, 120);
        let later = outcome.rate_after(5.0) / path.link;
        assert!(outcome.lanes <= 32, "{} lanes, seed {seed}", outcome.lanes);
        assert!(later >= 0.98, "{later:.3} of the link later, seed {seed}");
    }
}

/// What is decided over typical servers and paths, as `-v` tells it.
#[test]
fn decisions_of_typical_runs() {
    let capped = || Even::new(|lanes| 8e6 * f64::from(lanes), Limit::SenderOrPath);
    let worlds: [(&str, Box<dyn World>); 10] = [
        ("a server that gives 8 MB/s to each connection", Box::new(capped())),
        ("the same with only 6 parts left", Box::new(Even { parts: 6, ..capped() })),
        ("a server that serves 3 at once", Box::new(Even { served: 3, ..capped() })),
        ("a full link", Box::new(Even::new(|_| 1e8, Limit::SenderOrPath))),
        (
            "receive windows that 4 connections fill the link with",
            Box::new(Even::new(|lanes| 1e7 * f64::from(lanes.min(4)), Limit::ReceiveWindow)),
        ),
        ("a slow disk", Box::new(Even::new(|lanes| 3e7 / f64::from(lanes), Limit::DirtyThrottle))),
        ("a path of 40 ms", Box::new(Path::new(24e6, 0.04, 1))),
        (
            "a path of 40 ms that loses one segment in a thousand",
            Box::new(Path { loss: 0.001, ..Path::new(24e6, 0.04, 1) }),
        ),
        (
            "receive windows of 64 KiB over 40 ms",
            Box::new(Path { receive_window: 65536.0, ..Path::new(24e6, 0.04, 1) }),
        ),
        ("1 MB/s for each connection over 100 ms", Box::new(Path { cap: 1e6, ..Path::new(24e6, 0.1, 1) })),
    ];
    let mut text = String::new();
    for (name, mut world) in worlds {
        let outcome = run(&mut *world, 30);
        text += &format!("{name}: {:.1} MB/s\n", outcome.rate() / 1e6);
        outcome.decided.iter().for_each(|event| text += &format!("    {event}\n"));
    }
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(text) });
}

/// A server that refuses a connection beyond the first.
#[test]
fn a_refusal_is_decided_on_at_once() {
    let mut tuner = Tuner::new(4, 64);
    let seen = Observation {
        now: Duration::from_secs(1),
        span: Duration::from_millis(100),
        bytes: 1_000_000,
        lanes: 4,
        started: 4,
        limit: Limit::SenderOrPath,
        free_cpus: 1.0,
        own_cpu: 0.1,
        left: Some(u64::MAX),
        refused: true,
        round_trip: None,
        queue: false,
        disorder: false,
    };
    let change = LaneChange { from: 4, to: 2, why: LaneReason::Refused };
    assert_eq!(tuner.observe(&seen), [change]);
    assert_eq!(tuner.lanes(), 2);
    assert_eq!(change.to_string(), "2 connections instead of 4: the server refused more");
}

/// A store that does not read in time may take as much of more connections; a consumer of ours never.
#[test]
fn a_far_reader_is_tried_with_more_and_an_own_one_with_fewer() {
    let lanes_after = |uploads: bool| {
        let own = Tuner::new(4, 64);
        let mut tuner = if uploads { own.of_uploads() } else { own };
        for tick in 1..=20 {
            let seen = Observation {
                now: Duration::from_millis(tick * 100),
                span: Duration::from_millis(100),
                bytes: 1_000_000,
                lanes: 4,
                started: 4,
                limit: Limit::Reader,
                free_cpus: 1.0,
                own_cpu: 0.1,
                left: Some(u64::MAX),
                refused: false,
                round_trip: None,
                queue: false,
                disorder: false,
            };
            if let Some(change) = tuner.observe(&seen).first() {
                return change.to;
            }
        }
        4
    };
    assert!(lanes_after(true) > 4);
    assert!(lanes_after(false) < 4);
}

/// Lanes that lost a segment or whose files end carry little for a moment, and new ones then bring many times
/// that, though all of them share a link that fewer have filled before.
#[test]
fn what_grows_out_of_a_dip_is_no_growth_with_the_lanes() {
    // Three lanes that carry `before` for three seconds, then a third of a full link's 2.4 MB/s after a loss.
    let trials = |before: u64, queue: bool| {
        let mut tuner = Tuner::new(3, 64);
        let mut most = 0;
        for tick in 1..=40 {
            let lanes = tuner.lanes();
            most = most.max(lanes);
            let (bytes, queue, disorder) = match tick {
                ..=30 => (before, queue, queue),
                _ if lanes > 3 => (300_000, false, false),
                _ => (80_000, false, true),
            };
            let seen = Observation {
                now: Duration::from_millis(tick * 100),
                span: Duration::from_millis(100),
                bytes,
                lanes,
                started: lanes,
                // Until the dip nothing is tried.
                limit: if tick <= 30 { Limit::PathBandwidth } else { Limit::SenderOrPath },
                free_cpus: 1.0,
                own_cpu: 0.1,
                left: Some(u64::MAX),
                refused: false,
                round_trip: Some(Duration::from_millis(40)),
                queue,
                disorder,
            };
            tuner.observe(&seen);
        }
        assert!(most >= 12, "{most} lanes at most: nothing was tried");
        tuner.trials().to_vec()
    };
    let (shared, each) = (trials(240_000, true), trials(80_000, false));
    assert!(scaled(&shared).is_none(), "{shared:?}");
    assert!(scaled(&each).is_some(), "{each:?}");
}

#[test]
fn a_burst_of_long_ago_does_not_say_what_lanes_share() {
    let mut tuner = Tuner::new(6, 64);
    tuner.carried.insert(3, (2.4e6, Duration::from_secs(3)));
    let is_less = |seconds| tuner.is_less_than_fewer_carried(2.4e6, Duration::from_secs(seconds));
    assert!(is_less(10));
    assert!(!is_less(120), "the server's first bytes pass at a higher rate");
}

#[test]
fn what_lanes_have_carried_up_to_now_is_not_of_long_ago() {
    let mut tuner = Tuner::new(3, 64);
    for tick in 1..=800 {
        let seen = Observation {
            now: Duration::from_millis(tick * 100),
            span: Duration::from_millis(100),
            bytes: if tick <= 10 { 250_000 } else { 240_000 },
            lanes: 3,
            started: 3,
            limit: Limit::PathBandwidth,
            free_cpus: 1.0,
            own_cpu: 0.1,
            left: Some(u64::MAX),
            refused: false,
            round_trip: None,
            queue: false,
            disorder: false,
        };
        assert!(tuner.observe(&seen).is_empty(), "nothing is tried");
    }
    tuner.settle_on(6);
    assert!(tuner.is_less_than_fewer_carried(2.4e6, Duration::from_secs(95)));
}
