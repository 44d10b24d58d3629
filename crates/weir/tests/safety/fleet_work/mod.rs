//! Workers of a fleet: many processes over one ledger, each object at its target exactly once, whatever ends
//! them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod across;
mod bed;
mod chaos;
mod known;
mod parts;
mod through;
mod trouble;
mod ways;

use crate::support;

use bed::{Bed, MOST_MEMORY, sizes};
use rustix::process::Signal;
use support::MIB;

#[test]
fn eight_workers_fetch_thousands_of_files_once() {
    let bed = Bed::new(&sizes(4000, 1, 3000), 100);
    let workers: Vec<_> = (0..8).map(|_| bed.work(&["--json"]).spawn()).collect();
    let runs: Vec<_> = workers.into_iter().map(support::Running::wait).collect();
    let mut ended = 0;
    for run in &runs {
        let record = run.succeeds().json();
        let count = |what: &str| record["fleet"][what]["objects"].as_u64().unwrap();
        // One that was given out again is there already when it is come to.
        ended += count("moved") + count("same");
        assert_eq!(record["fleet"]["end"], "complete");
        let memory = record["peak_memory"].as_u64().unwrap();
        assert!(memory < MOST_MEMORY, "{memory} bytes of memory");
    }
    // Two that bring one file at the same time both do; the ledger counts it once.
    assert!((4000..5000).contains(&ended), "{ended}");
    bed.is_complete(4000);
    // Who has nothing left takes what others have not begun, and asks again for what may be there already.
    let (asked, sent) = (bed.fetched(), bed.server.sent() as f64 / bed.bytes() as f64);
    println!("{asked} requests, {sent:.4} of the bytes");
    assert!(sent < 1.3, "{sent} of the bytes were sent, with {asked} requests");
    // A second plan of the same objects finds them there: no byte is sent again.
    let sent = bed.server.sent();
    let again = bed.planned_again("again.db", 100);
    bed.work_on(&again, &[]).run().succeeds().says(&["4000 already there"]);
    assert_eq!(bed.server.sent(), sent);
    assert_eq!(bed.status_of(&again).same.objects, 4000);
}

#[test]
fn large_files_are_spread_evenly_over_the_workers() {
    let bed = Bed::new(&[MIB; 16], 1).paced(2 * MIB as u64).held_until(8);
    let workers: Vec<_> = (0..8).map(|_| bed.work(&["-c", "1"]).spawn()).collect();
    for worker in workers {
        worker.wait().succeeds();
    }
    bed.is_complete(16);
    let counts: Vec<u64> = bed.status().workers.iter().map(|worker| worker.moved.objects).collect();
    assert!(counts.len() == 8 && counts.iter().all(|count| (1..=3).contains(count)), "{counts:?}");
}

#[test]
fn a_lease_shorter_than_an_object_is_renewed_while_its_bytes_move() {
    let bed = Bed::new(&[12 * MIB], 1).paced(MIB as u64);
    let first = bed.work(&["--lease", "6s", "-c", "1"]).spawn();
    // As long as the lease was and a second more.
    bed.server.wait_sent(7 * MIB as u64);
    let second = bed.work(&["--lease", "6s", "--once"]).run();
    second.succeeds().says(&["moved 0 objects"]);
    first.wait().succeeds();
    bed.is_complete(1);
    assert_eq!(bed.fetched(), 1);
}

#[test]
fn nobody_waits_for_a_straggler() {
    // The first connection that asks for it gets a thousand bytes a second: it would take half an hour.
    let mut all = vec![1000; 200];
    all.push(2 * MIB);
    let bed = Bed::new(&all, 20).slow_once(200);
    let workers: Vec<_> = (0..4).map(|_| bed.work(&["--lease", "3s", "-c", "1"]).spawn()).collect();
    for worker in workers {
        worker.wait().succeeds();
    }
    bed.is_complete(201);
}

#[test]
fn who_comes_last_takes_what_hangs_at_the_first() {
    let mut all = vec![1000; 200];
    all.push(2 * MIB);
    let bed = Bed::new(&all, 20).slow_once(200);
    // The largest is given out first.
    let first = bed.work(&["--lease", "3s", "-c", "1"]).spawn();
    support::wait_for("the one that hangs", || bed.hangs());
    bed.work(&["--once"]).run().succeeds().says(&["nothing is free now"]);
    assert_eq!(bed.status().moved.objects, 200);
    // It has moved nothing itself, and others' pace is what can be said of its own.
    bed.work(&["--lease", "3s"]).run().succeeds();
    first.wait().succeeds();
    bed.is_complete(201);
}

#[test]
fn a_worker_that_finds_a_plan_unfinished_waits_for_the_rest_of_it() {
    let bed = Bed::unsealed(&sizes(50, 1, 2), 10);
    let worker = bed.work(&[]).spawn();
    support::wait_for("what was planned so far", || bed.status().moved.objects == 50);
    assert!(!bed.status().complete, "an interrupted plan is never complete");
    bed.work(&["--once"]).run().succeeds().says(&["nothing is free now"]);
    bed.seal();
    worker.wait().succeeds().says(&["the plan is done"]);
    bed.is_complete(50);
}

#[test]
fn sigterm_ends_what_is_held_and_sigint_gives_it_back() {
    let bed = Bed::new(&vec![100_000; 40], 4).paced(100_000);
    let worker = bed.work(&["-c", "1"]).spawn();
    support::wait_for("its first files", || bed.status().moved.objects > 0);
    worker.signal(Signal::TERM);
    worker.wait().fails(130, &["stopped"]);
    let after = bed.status();
    assert_eq!((after.leased, after.moved.objects % 4), (0, 0), "whole batches: {after:?}");
    let worker = bed.work(&["-c", "1"]).spawn();
    let count = bed.fetched();
    support::wait_for("a file more", || bed.fetched() > count + 1);
    worker.signal(Signal::INT);
    worker.wait().fails(130, &["the rest was given back"]);
    assert_eq!(bed.status().leased, 0);
    bed.rushes();
    bed.work(&[]).run().succeeds();
    bed.is_complete(40);
}

#[test]
fn how_many_may_work_is_set_while_they_do() {
    let bed = Bed::new(&vec![20_000; 200], 2).paced(200_000);
    let workers: Vec<_> = (0..4).map(|_| bed.work(&["-c", "1"]).spawn()).collect();
    let holders = || bed.status().workers.iter().filter(|worker| worker.leased > 0).count();
    let set = |number: &str| {
        let words = ["fleet", "set", "--workers", number, "--ledger", "plan.db"];
        bed.sandbox.weir(support::WEIR, words).run().succeeds();
    };
    support::wait_for("four that work", || holders() == 4);
    set("1");
    support::wait_for("one alone", || holders() <= 1);
    let moved = bed.status().moved.objects;
    support::wait_for("some files more", || {
        assert!(holders() <= 1, "another one was given a batch");
        bed.status().moved.objects >= moved + 4
    });
    set("all");
    support::wait_for("more than one", || holders() > 1);
    bed.rushes();
    for worker in workers {
        worker.wait().succeeds();
    }
    bed.is_complete(200);
}

#[test]
fn what_is_set_is_heard_while_it_works() {
    let bed = Bed::new(&vec![20_000; 60], 2).paced(100_000);
    let worker = bed.work(&["-c", "1"]).spawn();
    support::wait_for("its first batch", || bed.status().moved.objects > 0);
    bed.set(|settings| settings.paused = true);
    support::wait_for("a pause", || bed.status().leased == 0);
    let paused = bed.status().moved.objects;
    assert!(paused < 60);
    bed.set(|settings| (settings.paused, settings.draining) = (false, true));
    worker.wait().succeeds().says(&["the fleet drains"]);
    assert_eq!(bed.status().moved.objects, paused);
    bed.set(|settings| (settings.draining, settings.rate) = (false, Some(400_000)));
    bed.rushes();
    let start = std::time::Instant::now();
    bed.work(&[]).run().succeeds();
    bed.is_complete(60);
    let bytes = (60 - paused) * 20_000;
    // The limiter lets a burst pass: half of the time is enough to see that it was there.
    assert!(start.elapsed().as_secs_f64() > bytes as f64 / 400_000.0 / 2.0, "{:?}", start.elapsed());
}
