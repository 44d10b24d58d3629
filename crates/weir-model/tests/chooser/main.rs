//! The chooser against links, processors and data of every kind, in simulated time: it must never be slower
//! than the best codec fixed from the start by more than a twentieth, and must follow a link that changes.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod data;
mod world;

use std::time::Duration;

use data::Data;
use proptest::prelude::*;
use weir_model::chooser::{CANDIDATES, Chooser, LONGEST_RUN, Link, Packed};
use world::{Moment, World};

/// Payload bytes with the chooser, and with the best of all fixed choices.
fn compare(world: &World) -> (f64, f64, &'static str) {
    let chosen = world.run_chooser().payload();
    let fixed =
        CANDIDATES.iter().map(|candidate| (world.run(&mut world.always(*candidate)).payload(), *candidate));
    let (best, candidate) = fixed.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    (chosen, best, data::name(candidate))
}

#[track_caller]
fn not_slower(world: &World) {
    let (chosen, best, name) = compare(world);
    assert!(chosen >= 0.95 * best, "{:.1} % of always {name}: {world:?}", 100.0 * chosen / best);
}

#[test]
fn a_grid_of_links_processors_and_data() {
    a_grid(&World::of(Data::Text, 1.0));
}

#[test]
fn a_calibration_does_a_usual_processor_no_harm() {
    a_grid(&World { calibrated: true, ..World::of(Data::Text, 1.0) });
}

#[test]
fn records_that_carry_several_blocks() {
    a_grid(&World { longest_run: LONGEST_RUN, ..World::of(Data::Text, 1.0) });
}

/// Light codecs at less than half of their usual speed, heavy ones at more than twice: by usual proportions
/// the worst of these links carries 0.88 of the best.
#[test]
fn a_calibration_makes_up_for_a_processor_of_other_proportions() {
    let processor = [1.0, 0.4, 0.4, 0.5, 0.7, 0.9, 1.2, 1.5, 2.5];
    a_grid(&World { calibrated: true, processor, ..World::of(Data::Text, 1.0) });
}

/// `like`, with every kind of data over every link.
fn a_grid(like: &World) {
    let mut worst = (1.0, String::new());
    for data in Data::ALL {
        for cores in [1, 2, 4, 16] {
            for mbit in [5.0, 20.0, 100.0, 1000.0, 2500.0, 10_000.0] {
                let world = World {
                    cores,
                    processor: like.processor,
                    calibrated: like.calibrated,
                    longest_run: like.longest_run,
                    ..World::of(data, mbit)
                };
                let (chosen, best, name) = compare(&world);
                println!(
                    "{data:?} {cores} cores {mbit} Mbit/s: {:.3} of always {name} ({:.1} MB/s)",
                    chosen / best,
                    best / world.span / 1e6
                );
                if chosen / best < worst.0 {
                    worst = (chosen / best, format!("{data:?} {cores} {mbit}"));
                }
            }
        }
    }
    println!("worst: {worst:?}");
    assert!(worst.0 >= 0.95, "{worst:?}");
}

#[test]
fn loopback_on_two_cores_wants_none() {
    // 1 GB/s of payload sent as it is fills both cores: digest, cipher, both ends' sockets.
    let world = World { cores: 2, wire_cost: 1.2e-9, raw_cost: 0.8e-9, ..World::of(Data::Text, 400_000.0) };
    not_slower(&world);
    let run = world.run_chooser();
    let none = run.moments.iter().skip(20).filter(|moment| moment.level_of_most() == "none").count();
    assert!(none * 100 >= 95 * (run.moments.len() - 20), "{none} of {}", run.moments.len());
}

#[test]
fn lanes_within_one_machine_begin_without_a_codec() {
    let mut chooser = Chooser::new(CANDIDATES.to_vec(), 2.0);
    chooser.begin_plain();
    let choice = chooser.choose(Duration::ZERO);
    assert_eq!((choice.codec, choice.probe), (0, false));
    // And looks at few blocks while it stays so.
    let looks = (0..1000).filter(|ms| chooser.plan(Duration::from_millis(*ms)).looks).count();
    assert!((100..=200).contains(&looks), "{looks}");
}

/// A machine whose memory is slow to come carries 400 MB/s with both processors full; a link that was slowed
/// within it leaves them idle.
#[test]
fn within_one_machine_only_idle_processors_pack() {
    for (busy, packs) in [(1.9, false), (0.3, true)] {
        let mut chooser = Chooser::new(CANDIDATES.to_vec(), 2.0);
        chooser.begin_plain();
        let (mut rate, mut packed) = (400e6, false);
        for tick in 1..=30u64 {
            if !packs {
                rate *= if tick % 2 == 0 { 1.6 } else { 0.6 };
            } else {
                rate = 12e6;
            }
            let now = Duration::from_millis(100 * tick);
            for _ in 0..4 {
                let plan = chooser.plan(now);
                let choice = chooser.choose_for(now, &plan, &[0.4]);
                packed |= choice.codec != 0 && !choice.probe;
                let (size, cpu) = if choice.codec == 0 { (1 << 20, 0) } else { (400_000, 2500) };
                chooser.packed(&Packed {
                    codec: choice.codec,
                    level: choice.level,
                    raw: 1 << 20,
                    packed: size,
                    cpu: Duration::from_micros(cpu),
                    now,
                });
            }
            chooser.link(&Link { now, rate, backlog: true, busy: Some(busy), own: Some(busy) });
        }
        assert_eq!(packed, packs, "{busy} of 2 processors busy");
    }
}

#[test]
fn loopback_without_a_word_on_how_busy_the_machine_is() {
    for cores in [2, 4] {
        let world = World {
            cores,
            wire_cost: 1.2e-9,
            raw_cost: 0.8e-9,
            told_busy: false,
            ..World::of(Data::Text, 400_000.0)
        };
        let (chosen, best, name) = compare(&world);
        println!("loopback unseen, {cores} cores: {:.3} of {name}", chosen / best);
        assert!(chosen >= 0.8 * best, "{:.3} of always {name}", chosen / best);
    }
}

#[test]
fn probing_costs_less_than_a_fiftieth() {
    for (mbit, cores) in [(400_000.0, 2), (10_000.0, 1), (1000.0, 2)] {
        let world = World { cores, ..World::of(Data::Noise, mbit) };
        let run = world.run_chooser();
        let share = run.probe_cpu / (world.span * f64::from(cores));
        assert!(share <= 0.02, "{share:.4} of the processors' time at {mbit} Mbit/s");
    }
}

/// Rates over time: (from second, Mbit/s).
const CHANGES: [(f64, f64); 3] = [(0.0, 1000.0), (10.0, 50.0), (20.0, 1000.0)];

#[test]
fn a_link_that_changes_is_followed_within_two_seconds() {
    for (cores, longest_run) in [2, 4, 16].into_iter().flat_map(|cores| [(cores, 1), (cores, LONGEST_RUN)]) {
        let text = World { longest_run, ..World::of(Data::Text, 1000.0) };
        let world = World { cores, changes: CHANGES.to_vec(), span: 30.0, ..text };
        let run = world.run_chooser();
        for (from, mbit) in CHANGES {
            let steady = World { cores, longest_run, ..World::of(Data::Text, mbit) };
            let (_, best, _) = compare(&steady);
            let best = best / steady.span;
            let settled = |moment: &&Moment| (from + 2.0..from + 9.5).contains(&moment.at);
            let after: Vec<f64> = run.moments.iter().filter(settled).map(|moment| moment.payload).collect();
            let mean = after.iter().sum::<f64>() / after.len() as f64 / 0.1;
            println!(
                "{cores} cores, records of {longest_run}, from {from} s, {mbit} Mbit/s: {:.1} MB/s, best fixed {:.1}",
                mean / 1e6,
                best / 1e6
            );
            assert!(
                mean >= 0.95 * best,
                "{cores} cores, records of {longest_run}, {mbit} Mbit/s: {:.1} of {:.1} MB/s",
                mean / 1e6,
                best / 1e6
            );
        }
    }
}

/// What is decided over typical links, as `-v` tells it.
#[test]
fn decisions_of_typical_runs() {
    let fast = || World::of(Data::Text, 1000.0);
    let worlds = [
        ("text over 20 Mbit/s", World::of(Data::Text, 20.0)),
        ("text over 1 Gbit/s", fast()),
        ("noise over 100 Mbit/s", World::of(Data::Noise, 100.0)),
        ("text over 1 Gbit/s, 50 Mbit/s from 10 to 20 s", World { changes: CHANGES.to_vec(), ..fast() }),
        (
            "text, from 15 s on noise",
            World { then: Some((15.0, Data::Noise)), ..World::of(Data::Text, 500.0) },
        ),
        (
            "a receiver of 200 MB/s behind 10 Gbit/s",
            World { receiver: 200e6, cores: 4, ..World::of(Data::Text, 10_000.0) },
        ),
        (
            "2 processors and loopback",
            World { wire_cost: 1.2e-9, raw_cost: 0.8e-9, ..World::of(Data::Text, 400_000.0) },
        ),
    ];
    let mut text = String::new();
    for (name, world) in worlds {
        let (run, decided) = world.decided();
        text += &format!("{name}: {:.1} MB/s\n", run.payload() / world.span / 1e6);
        decided.iter().for_each(|event| text += &format!("    {event}\n"));
    }
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(text) });
}

#[test]
fn a_slow_receiver_is_no_slow_link() {
    let world = World { receiver: 200e6, cores: 4, ..World::of(Data::Text, 10_000.0) };
    not_slower(&world);
    let run = world.run_chooser();
    let cpu = run.cpu / (world.span * 4.0);
    assert!(cpu < 0.5, "{cpu:.2} of the processors' time to send what none would");
}

#[test]
fn other_programs_leave_a_share_of_the_processors_to_compress_with() {
    for (cores, others) in [(2, 1.0), (2, 2.0), (2, 8.0), (16, 16.0)] {
        for mbit in [20.0, 100.0, 300.0, 1000.0] {
            let world = World { cores, others, ..World::of(Data::Text, mbit) };
            let (chosen, best, name) = compare(&world);
            // On the slowest link, blocks that take seconds begin before it is known how many at once there
            // is room for.
            let least = if mbit < 100.0 { 0.85 } else { 0.95 };
            assert!(chosen >= least * best, "{:.3} of always {name}: {world:?}", chosen / best);
        }
    }
}

#[test]
fn data_that_changes_on_the_way() {
    for pair in [(Data::Text, Data::Noise), (Data::Noise, Data::Text)] {
        for cores in [2, 8] {
            let world = World { then: Some((15.0, pair.1)), cores, ..World::of(pair.0, 500.0) };
            let run = world.run_chooser();
            let parts = [(pair.0, 1.0..14.5), (pair.1, 17.0..29.5)];
            for (data, span) in parts {
                let (_, best, _) = compare(&World { cores, ..World::of(data, 500.0) });
                let seen: f64 = run
                    .moments
                    .iter()
                    .filter(|moment| span.contains(&moment.at))
                    .map(|moment| moment.payload)
                    .sum();
                let (rate, best) = (seen / (span.end - span.start), best / 30.0);
                assert!(
                    rate >= 0.95 * best,
                    "{pair:?} {cores} cores: {data:?} {:.1} of {:.1}",
                    rate / 1e6,
                    best / 1e6
                );
            }
        }
    }
}

/// Worlds drawn evenly, the links and the rest.
fn worlds(count: usize, noise: f64, jitter: f64) -> Vec<World> {
    let mut state = 7u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let draw = |_| {
        let data = Data::ALL[(next() * Data::ALL.len() as f64) as usize];
        // 5 Mbit/s to 10 Gbit/s, evenly in the logarithm.
        let mbit = 5.0 * 2000f64.powf(next());
        World {
            cores: 1 + (next() * 16.0) as u32,
            speed: 0.5 + 1.5 * next(),
            queue: 4 + (next() * 8.0) as usize,
            noise: noise * next(),
            jitter: jitter * next(),
            wire_cost: 1.5e-9 * next(),
            raw_cost: 1e-9 * next(),
            seed: (next() * 1e15) as u64,
            ..World::of(data, mbit)
        }
    };
    (0..count).map(draw).collect()
}

/// Every world's share of its best fixed choice, the worst first.
fn shares(worlds: &[World]) -> Vec<(f64, String)> {
    let share = |world: &World| {
        let (chosen, best, name) = compare(world);
        (chosen / best, format!("always {name} in {world:?}"))
    };
    let mut shares: Vec<(f64, String)> = worlds.iter().map(share).collect();
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |part: f64| shares[(part * (shares.len() - 1) as f64) as usize].0;
    println!(
        "worst {:.3}, 1 % {:.3}, 5 % {:.3}, median {:.3}, best {:.3}",
        at(0.0),
        at(0.01),
        at(0.05),
        at(0.5),
        at(1.0)
    );
    for (share, world) in shares.iter().take(5) {
        println!("  {share:.3} of {world}");
    }
    shares
}

fn held(shares: &[(f64, String)]) -> f64 {
    shares.iter().filter(|(share, _)| *share >= 0.95).count() as f64 / shares.len() as f64
}

#[test]
fn worlds_whose_blocks_differ_as_those_of_files_do() {
    let shares = shares(&worlds(200, 0.12, 0.1));
    assert!(shares[0].0 >= 0.95, "{:.3} held, worst {:?}", held(&shares), shares[0]);
}

#[test]
fn worlds_whose_blocks_and_links_are_wild() {
    let shares = shares(&worlds(100, 0.3, 0.2));
    assert!(held(&shares) >= 0.95 && shares[0].0 >= 0.8, "{:.3} held, worst {:?}", held(&shares), shares[0]);
}

#[test]
fn without_a_word_on_how_busy_the_machine_is() {
    let worlds: Vec<World> =
        worlds(50, 0.12, 0.1).into_iter().map(|world| World { told_busy: false, ..world }).collect();
    let shares = shares(&worlds);
    assert!(held(&shares) >= 0.85, "{:.3} held, worst {:?}", held(&shares), shares[0]);
}

#[test]
fn without_looks_at_blocks() {
    let worlds: Vec<World> =
        worlds(50, 0.12, 0.1).into_iter().map(|world| World { looks: false, ..world }).collect();
    let shares = shares(&worlds);
    assert!(held(&shares) >= 0.9, "{:.3} held, worst {:?}", held(&shares), shares[0]);
}

proptest! {
    #[test]
    fn any_reports_give_a_choice_among_the_candidates(
        events in proptest::collection::vec((any::<u8>(), any::<u32>(), any::<u32>(), any::<bool>(), -1e3..1e12f64), 0..200)
    ) {
        let mut chooser = weir_model::chooser::Chooser::new(CANDIDATES.to_vec(), 4.0);
        let mut now = Duration::ZERO;
        for (kind, a, b, flag, rate) in events {
            now += Duration::from_micros(u64::from(a % 200_000));
            let candidate = CANDIDATES[usize::from(kind) % CANDIDATES.len()];
            match kind % 3 {
                0 => chooser.link(&weir_model::chooser::Link { now, rate, backlog: flag, busy: flag.then_some(rate), own: flag.then_some(-rate) }),
                1 => chooser.packed(&weir_model::chooser::Packed {
                    codec: candidate.codec,
                    level: candidate.level,
                    raw: u64::from(a),
                    packed: u64::from(b),
                    cpu: Duration::from_nanos(u64::from(b)),
                    now,
                }),
                _ => {
                    let plan = chooser.plan(now);
                    prop_assert!((1..=LONGEST_RUN).contains(&plan.run) && chooser.ahead(a % 5) >= 3);
                    let choice = chooser.choose_for(now, &plan, &vec![rate; (a % 5) as usize]);
                    prop_assert!(CANDIDATES.iter().any(|known| known.codec == choice.codec && known.level == choice.level));
                }
            }
        }
    }
}
