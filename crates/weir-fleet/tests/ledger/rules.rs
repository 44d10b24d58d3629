//! What a ledger says to a worker, case by case.

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use weir_fleet::class::FailureClass;
use weir_fleet::ledger::{
    BatchClaim, BatchResults, BatchWork, Claimed, Finished, FleetLedger, Helped, Helper, ObjectFailure,
    PlanStep, PlannedLarge, Renewed, SqlLedger, Tally, VerdictSpan, WaitReason, WatchedBatch, WorkerId,
};
use weir_fleet::object::{FleetObject, pack};

use crate::{LEASE, START, batch, clock, ends, folder, object, plan, sqlite, who};

/// What an idle worker gets that has watched others; what it watches is kept.
fn helped(
    ledger: &mut SqlLedger,
    worker: WorkerId,
    pace: Option<u64>,
    watched: &mut Vec<WatchedBatch>,
) -> Option<BatchClaim> {
    let helper = Helper { pace, watched: std::mem::take(watched) };
    match ledger.help(worker, LEASE, &helper).unwrap() {
        Helped::Batch(claim) => Some(*claim),
        Helped::Watch(seen) => {
            *watched = seen;
            None
        }
    }
}

/// A batch that must be there.
fn claimed(ledger: &mut SqlLedger, worker: WorkerId) -> BatchClaim {
    match ledger.claim(worker, LEASE).unwrap() {
        Claimed::Batch(claim) => *claim,
        other => panic!("no batch: {other:?}"),
    }
}

fn count(claim: &BatchClaim) -> u64 {
    match &claim.work {
        BatchWork::Objects(objects) => objects.len() as u64,
        BatchWork::Range(..) | BatchWork::Join(..) | BatchWork::Abort(..) => 1,
    }
}

fn all_moved(objects: u64) -> BatchResults {
    BatchResults {
        covered: objects,
        moved: Tally { objects, bytes: objects * 10 },
        ..BatchResults::default()
    }
}

fn failed(position: u64, class: FailureClass) -> ObjectFailure {
    ObjectFailure { position, class, reason: format!("cannot move it: {class}") }
}

#[test]
fn the_largest_batch_is_given_out_first_and_a_plan_of_nothing_is_complete() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let mut lease = ledger.begin(&ends(), "a test", 5).unwrap();
    let sizes = [7, 900, 30].map(|size| batch(&[object(size as usize, size)]));
    ledger.append(&mut lease, &sizes, &[]).unwrap();
    let worker = ledger.join(&who(1)).unwrap();
    let waits = |claimed| matches!(claimed, Claimed::Wait(WaitReason::Planning, _));
    assert!(waits(ledger.claim(worker, LEASE).unwrap()), "targets may still turn out to be doubled");
    ledger.begin_early(&lease).unwrap();
    let first = claimed(&mut ledger, worker);
    assert_eq!(first.work, BatchWork::Objects(vec![object(900, 900)]));
    for _ in 0..2 {
        let claim = claimed(&mut ledger, worker);
        assert_eq!(ledger.finish(claim.lease, &all_moved(1)).unwrap(), Finished::Done);
    }
    assert_eq!(ledger.finish(first.lease, &all_moved(1)).unwrap(), Finished::Done);
    assert!(waits(ledger.claim(worker, LEASE).unwrap()), "an unsealed plan is never complete");
    assert!(!ledger.status().unwrap().complete);
    ledger.seal(&lease).unwrap();
    assert_eq!(ledger.claim(worker, LEASE).unwrap(), Claimed::Complete);

    let mut empty = sqlite(&folder.path().join("e"), &clock);
    assert_eq!(plan(&mut empty, 0, 1), []);
    let worker = empty.join(&who(1)).unwrap();
    assert_eq!(empty.claim(worker, LEASE).unwrap(), Claimed::Complete);
    assert!(empty.status().unwrap().complete);
}

#[test]
fn who_sleeps_past_its_lease_changes_nothing() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    plan(&mut ledger, 3, 3);
    let [sleeper, other] = [1, 2].map(|pid| ledger.join(&who(pid)).unwrap());
    let old = claimed(&mut ledger, sleeper);
    assert_eq!(old.given_before, 0);
    assert!(matches!(ledger.claim(other, LEASE).unwrap(), Claimed::Wait(WaitReason::Held, _)));
    clock.fetch_add(31_000, Relaxed);
    // Nobody took it yet, so it is still its own.
    assert!(matches!(ledger.renew(old.lease, LEASE, 1, 10).unwrap(), Renewed::Held { objects: 3, .. }));
    clock.fetch_add(31_000, Relaxed);
    let new = claimed(&mut ledger, other);
    assert_eq!((new.lease.batch, new.given_before), (old.lease.batch, 1));
    assert_eq!(ledger.renew(old.lease, LEASE, 2, 20).unwrap(), Renewed::Lost);
    assert_eq!(ledger.finish(old.lease, &all_moved(3)).unwrap(), Finished::Lost);
    ledger.release(old.lease).unwrap();
    assert_eq!(ledger.status().unwrap().moved, Tally::default());
    assert_eq!(ledger.finish(new.lease, &all_moved(3)).unwrap(), Finished::Done);
    // An answer that got lost is given again, and counts once.
    assert_eq!(ledger.finish(new.lease, &all_moved(3)).unwrap(), Finished::Done);
    assert_eq!(ledger.status().unwrap().moved, Tally { objects: 3, bytes: 30 });
    assert_eq!(ledger.finish(old.lease, &all_moved(3)).unwrap(), Finished::Lost);
}

/// What is due, and since when somebody is watched, are times that may then be an hour ahead.
#[test]
fn a_clock_that_is_set_back_holds_nothing_up() {
    const HOUR: i64 = 3_600_000;
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    plan(&mut ledger, 20, 10);
    clock.fetch_sub(HOUR, Relaxed);
    let (one, other) = (ledger.join(&who(1)).unwrap(), ledger.join(&who(2)).unwrap());
    let first = claimed(&mut ledger, one);
    let failures = (0..10).map(|position| failed(position, FailureClass::Network)).collect();
    let results = BatchResults { covered: 10, failures, ..BatchResults::default() };
    ledger.finish(first.lease, &results).unwrap();
    let second = claimed(&mut ledger, one);
    let waits = ledger.claim(other, LEASE).unwrap();
    assert!(matches!(waits, Claimed::Wait(WaitReason::Held, _)), "a pause is kept: {waits:?}");
    let mut watched = Vec::new();
    assert!(helped(&mut ledger, other, Some(1000), &mut watched).is_none());
    clock.fetch_sub(HOUR, Relaxed);
    assert_eq!(count(&claimed(&mut ledger, other)), 10, "what failed");
    assert!(helped(&mut ledger, other, Some(1000), &mut watched).is_none());
    clock.fetch_add(6000, Relaxed);
    let taken = helped(&mut ledger, other, Some(1000), &mut watched).unwrap();
    assert_eq!(taken.lease.batch, second.lease.batch, "its holder was watched anew");
}

#[test]
fn failures_are_tried_again_by_class_and_then_given_up() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    plan(&mut ledger, 4, 4);
    let worker = ledger.join(&who(1)).unwrap();
    let claim = claimed(&mut ledger, worker);
    let results = BatchResults {
        covered: 4,
        moved: Tally { objects: 2, bytes: 20 },
        failures: vec![failed(1, FailureClass::Missing), failed(3, FailureClass::Busy)],
        ..BatchResults::default()
    };
    assert_eq!(ledger.finish(claim.lease, &results).unwrap(), Finished::Done);
    let status = ledger.status().unwrap();
    assert_eq!((status.failed, status.waiting), (1, 1));
    // The other one four times more, after pauses of 1, 2, 4 and 8 s.
    for pause in [1, 2, 4, 8] {
        clock.fetch_add(pause * 1000 - 1, Relaxed);
        assert!(matches!(ledger.claim(worker, LEASE).unwrap(), Claimed::Wait(WaitReason::Held, _)));
        clock.fetch_add(1, Relaxed);
        let claim = claimed(&mut ledger, worker);
        assert_eq!(claim.work, BatchWork::Objects(vec![object(3, 10)]));
        let failures = vec![failed(0, FailureClass::Busy)];
        let results = BatchResults { covered: 1, failures, ..BatchResults::default() };
        assert_eq!(ledger.finish(claim.lease, &results).unwrap(), Finished::Done);
    }
    assert_eq!(ledger.claim(worker, LEASE).unwrap(), Claimed::Complete);
    let status = ledger.status().unwrap();
    let classes: Vec<_> = status.failures.iter().map(|row| (&*row.class, row.objects)).collect();
    assert_eq!((classes, status.failed), (vec![("busy", 1), ("missing", 1)], 2));
    assert_eq!(status.moved.objects, 2);
}

#[test]
fn what_a_host_may_not_goes_to_another_host_first() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    plan(&mut ledger, 1, 1);
    let [without, with] = [1, 2].map(|pid| ledger.join(&who(pid)).unwrap());
    let claim = claimed(&mut ledger, without);
    let failures = vec![failed(0, FailureClass::Denied)];
    let results = BatchResults { covered: 1, failures, ..BatchResults::default() };
    ledger.finish(claim.lease, &results).unwrap();
    clock.fetch_add(1000, Relaxed);
    assert!(matches!(ledger.claim(without, LEASE).unwrap(), Claimed::Wait(WaitReason::Held, _)));
    let claim = claimed(&mut ledger, with);
    ledger.release(claim.lease).unwrap();
    // Where no other host takes it the first one has it again.
    clock.fetch_add(60_000, Relaxed);
    claimed(&mut ledger, without);
}

#[test]
fn a_host_that_is_alone_does_not_wait_for_another() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    plan(&mut ledger, 1, 1);
    let [gone, left, alone] = [1, 2, 3].map(|pid| ledger.join(&who(pid)).unwrap());
    ledger.leave(left).unwrap();
    // One of the others left, and the other one was not heard of for a minute.
    clock.fetch_add(60_000, Relaxed);
    for pause in [1, 2, 4] {
        let claim = claimed(&mut ledger, alone);
        let failures = vec![failed(0, FailureClass::Denied)];
        let results = BatchResults { covered: 1, failures, ..BatchResults::default() };
        assert_eq!(ledger.finish(claim.lease, &results).unwrap(), Finished::Done);
        assert!(matches!(ledger.claim(alone, LEASE).unwrap(), Claimed::Wait(WaitReason::Held, _)));
        clock.fetch_add(pause * 1000, Relaxed);
    }
    let claim = claimed(&mut ledger, alone);
    assert!(ledger.release(claim.lease).unwrap());
    // Its host is heard of again, and comes first.
    assert!(ledger.join(&who(1)).is_ok());
    assert!(matches!(ledger.claim(alone, LEASE).unwrap(), Claimed::Wait(WaitReason::Held, _)));
    assert_eq!(claimed(&mut ledger, gone).lease.batch, claim.lease.batch);
}

#[test]
fn a_plan_that_nobody_writes_any_more_is_told_from_one_that_is_written() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let mut lease = ledger.begin(&ends(), "a test", 5).unwrap();
    ledger.append(&mut lease, &[batch(&[object(0, 1)])], &[]).unwrap();
    let worker = ledger.join(&who(1)).unwrap();
    let reason = |ledger: &mut SqlLedger| match ledger.claim(worker, LEASE).unwrap() {
        Claimed::Wait(reason, _) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(&mut ledger), WaitReason::Planning);
    clock.fetch_add(300_001, Relaxed);
    assert_eq!(reason(&mut ledger), WaitReason::Abandoned, "it was killed");
    let left = lease;
    let lease = ledger.begin(&ends(), "another", 5).unwrap();
    assert_eq!(reason(&mut ledger), WaitReason::Planning);
    // It lists what the ledger has already, and adds nothing.
    for _ in 0..3 {
        clock.fetch_add(200_000, Relaxed);
        assert_eq!(ledger.hold(&lease).unwrap(), PlanStep::Done);
        assert_eq!(reason(&mut ledger), WaitReason::Planning);
    }
    assert_eq!(ledger.hold(&left).unwrap(), PlanStep::Lost);
    ledger.abandon(&lease).unwrap();
    assert_eq!(reason(&mut ledger), WaitReason::Abandoned);
}

#[test]
fn what_stops_one_worker_after_another_comes_behind_all_and_is_tried_to_its_end() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    plan(&mut ledger, 2, 1);
    let [one, other] = [1, 2].map(|pid| ledger.join(&who(pid)).unwrap());
    let bad = claimed(&mut ledger, one);
    for _ in 0..2 {
        assert!(ledger.fail(bad.lease).unwrap(), "asked twice it counts once");
    }
    clock.fetch_add(50_000, Relaxed);
    let good = claimed(&mut ledger, other);
    assert_ne!(good.lease.batch, bad.lease.batch, "other work comes first");
    assert!(matches!(ledger.claim(one, LEASE).unwrap(), Claimed::Wait(WaitReason::Held, _)));
    assert_eq!(ledger.finish(good.lease, &all_moved(1)).unwrap(), Finished::Done);
    for attempt in 2..5 {
        let again = claimed(&mut ledger, other);
        assert!(!again.is_last, "{attempt}");
        assert!(ledger.fail(again.lease).unwrap());
        clock.fetch_add(100_000, Relaxed);
    }
    let last = claimed(&mut ledger, other);
    assert!(last.is_last && !ledger.fail(bad.lease).unwrap(), "it is another's");
    let failures = vec![failed(0, FailureClass::Denied)];
    let results = BatchResults { covered: 1, failures, ..BatchResults::default() };
    assert_eq!(ledger.finish(last.lease, &results).unwrap(), Finished::Done);
    assert_eq!(ledger.claim(one, LEASE).unwrap(), Claimed::Complete);
    let status = ledger.status().unwrap();
    assert_eq!((&*status.failures[0].class, status.failed, status.moved.objects), ("denied", 1, 1));
}

#[test]
fn what_ends_its_workers_is_alone_soon_and_put_aside() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let objects = plan(&mut ledger, 100, 100);
    let poison = &objects[37];
    let mut killed = 0;
    for pid in 0.. {
        let worker = ledger.join(&who(pid)).unwrap();
        clock.fetch_add(31_000, Relaxed);
        let claim = match ledger.claim(worker, LEASE).unwrap() {
            Claimed::Batch(claim) => *claim,
            Claimed::Complete => break,
            other => panic!("{other:?}"),
        };
        let BatchWork::Objects(had) = &claim.work else { panic!() };
        if had.contains(poison) {
            killed += 1;
        } else {
            ledger.finish(claim.lease, &all_moved(had.len() as u64)).unwrap();
        }
    }
    assert!(killed <= 3 + 7 + 4, "{killed} workers were killed");
    let status = ledger.status().unwrap();
    assert_eq!((status.moved.objects, status.failed), (99, 1));
    assert_eq!(status.failures[0].class, "poisoned");
}

#[test]
fn the_idle_take_the_tail_of_who_is_slow() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    plan(&mut ledger, 100, 100);
    let [slow, fast] = [1, 2].map(|pid| ledger.join(&who(pid)).unwrap());
    let old = claimed(&mut ledger, slow);
    assert_eq!(helped(&mut ledger, fast, Some(1000), &mut Vec::new()), None, "it has just begun");
    clock.fetch_add(20_000, Relaxed);
    ledger.renew(old.lease, LEASE, 20, 200).unwrap();
    let tail = helped(&mut ledger, fast, Some(1000), &mut Vec::new()).expect("half of what is not begun");
    assert_eq!(count(&tail), 40);
    assert_eq!(
        ledger.renew(old.lease, LEASE, 21, 210).unwrap(),
        Renewed::Held { objects: 60, settings: ledger.status().unwrap().settings }
    );
    // Results of all that it had count for nothing, until they are of what it has.
    assert_eq!(ledger.finish(old.lease, &all_moved(100)).unwrap(), Finished::Cut(60));
    assert_eq!(ledger.status().unwrap().moved.objects, 0);
    assert!(ledger.finish(old.lease, &all_moved(59)).is_err(), "one is told of nowhere");
    assert_eq!(ledger.finish(old.lease, &all_moved(60)).unwrap(), Finished::Done);
    assert_eq!(ledger.finish(tail.lease, &all_moved(40)).unwrap(), Finished::Done);
    assert_eq!(ledger.claim(slow, LEASE).unwrap(), Claimed::Complete);
}

/// A worker that moves an object of a megabyte, all there is, and another one that has nothing to do.
fn slow_one(ledger: &mut SqlLedger) -> (BatchClaim, WorkerId) {
    let mut lease = ledger.begin(&ends(), "a test", 5).unwrap();
    ledger.append(&mut lease, &[batch(&[object(0, 1_000_000)])], &[]).unwrap();
    ledger.seal(&lease).unwrap();
    let [slow, fast] = [1, 2].map(|pid| ledger.join(&who(pid)).unwrap());
    (claimed(ledger, slow), fast)
}

/// It goes on for so many seconds at so many bytes a second.
fn goes_on(ledger: &mut SqlLedger, clock: &AtomicI64, old: &BatchClaim, moved: &mut u64, rates: &[u64]) {
    for rate in rates {
        *moved += rate;
        clock.fetch_add(1000, Relaxed);
        ledger.renew(old.lease, LEASE, 1, *moved).unwrap();
    }
}

#[test]
fn a_slow_host_does_not_keep_the_last_object() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let (old, fast) = slow_one(&mut ledger);
    let (mut moved, mut watched) = (0, Vec::new());
    goes_on(&mut ledger, &clock, &old, &mut moved, &[1000; 10]);
    assert_eq!(helped(&mut ledger, fast, Some(100_000), &mut watched), None, "it is watched first");
    goes_on(&mut ledger, &clock, &old, &mut moved, &[1000; 4]);
    assert_eq!(helped(&mut ledger, fast, Some(100_000), &mut watched), None, "and for some seconds");
    goes_on(&mut ledger, &clock, &old, &mut moved, &[1000]);
    // 985 s are left to it: at 2 kB/s the helper would need half of that, and no less.
    assert_eq!(helped(&mut ledger, fast, Some(1900), &mut watched.clone()), None);
    let taken = helped(&mut ledger, fast, Some(100_000), &mut watched).expect("all of it");
    assert_eq!(taken.lease.batch, old.lease.batch);
    assert_eq!(ledger.renew(old.lease, LEASE, 1, 16_000).unwrap(), Renewed::Lost);
    assert!(!ledger.release(old.lease).unwrap(), "it is another's");
    assert_eq!(ledger.finish(taken.lease, &all_moved(1)).unwrap(), Finished::Done);
}

/// A worker that came when all was given out has moved nothing: what others moved says what it might.
#[test]
fn who_has_moved_nothing_is_as_good_as_the_others_were() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let mut lease = ledger.begin(&ends(), "a test", 1).unwrap();
    ledger.append(&mut lease, &[batch(&[object(0, 1_000_000)])], &[]).unwrap();
    ledger.append(&mut lease, &[batch(&[object(1, 1_000_000)])], &[]).unwrap();
    ledger.seal(&lease).unwrap();
    let [first, second] = [1, 2].map(|pid| ledger.join(&who(pid)).unwrap());
    let done = claimed(&mut ledger, first);
    let old = claimed(&mut ledger, first);
    let (mut moved, mut watched) = (0, Vec::new());
    goes_on(&mut ledger, &clock, &old, &mut moved, &[1000; 5]);
    for _ in 0..2 {
        assert_eq!(helped(&mut ledger, second, None, &mut watched), None, "nobody has brought anything");
        goes_on(&mut ledger, &clock, &old, &mut moved, &[1000; 5]);
    }
    let brought = Tally { objects: 1, bytes: 1_000_000 };
    ledger.finish(done.lease, &BatchResults { moved: brought, ..all_moved(1) }).unwrap();
    goes_on(&mut ledger, &clock, &old, &mut moved, &[1000; 5]);
    // It brought 1 MB in 20 s beside this, and 980 s are left to it.
    let taken = helped(&mut ledger, second, None, &mut watched).expect("all of it");
    assert_eq!(taken.lease.batch, old.lease.batch);
}

#[test]
fn what_is_nearly_done_is_not_begun_anew_by_another() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let (old, fast) = slow_one(&mut ledger);
    let (mut moved, mut watched) = (0, Vec::new());
    goes_on(&mut ledger, &clock, &old, &mut moved, &[10_000; 80]);
    assert_eq!(helped(&mut ledger, fast, Some(100_000), &mut watched), None);
    goes_on(&mut ledger, &clock, &old, &mut moved, &[10_000; 10]);
    // 10 s are left to it, in which the helper would have the rest ten times over, and all of it once.
    assert_eq!(helped(&mut ledger, fast, Some(100_000), &mut watched.clone()), None);
    assert!(helped(&mut ledger, fast, Some(1_000_000), &mut watched).is_some());
}

#[test]
fn who_tells_of_no_byte_is_not_taken_for_slow_at_once() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let (old, fast) = slow_one(&mut ledger);
    let (mut moved, mut watched) = (0, Vec::new());
    // All of it takes the helper 10 s.
    for _ in 0..8 {
        assert_eq!(helped(&mut ledger, fast, Some(100_000), &mut watched), None);
        goes_on(&mut ledger, &clock, &old, &mut moved, &[0; 5]);
    }
    assert!(helped(&mut ledger, fast, Some(100_000), &mut watched).is_some());
}

#[test]
fn workers_that_take_a_batch_from_each_other_come_to_an_end() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let (mut old, fast) = slow_one(&mut ledger);
    let (mut holder, mut idle) = (WorkerId(1), fast);
    let mut kept = Vec::new();
    for _ in 0..4 {
        let (mut moved, mut watched, mut seconds) = (0, Vec::new(), 0);
        // Whoever has it is slow, and whoever has not would be quick.
        let taken = loop {
            if let Some(taken) = helped(&mut ledger, idle, Some(1_000_000), &mut watched) {
                break taken;
            }
            goes_on(&mut ledger, &clock, &old, &mut moved, &[1000]);
            seconds += 1;
        };
        kept.push(seconds);
        old = taken;
        (holder, idle) = (idle, holder);
    }
    assert_eq!(kept, [5, 10, 20, 40]);
}

#[test]
fn who_is_slow_only_beside_others_keeps_what_it_has() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let (old, fast) = slow_one(&mut ledger);
    let (mut moved, mut watched) = (0, Vec::new());
    // The other one moved a hundred times as much a second, on the same link.
    goes_on(&mut ledger, &clock, &old, &mut moved, &[1000; 20]);
    for _ in 0..3 {
        assert_eq!(helped(&mut ledger, fast, Some(100_000), &mut watched), None);
        goes_on(&mut ledger, &clock, &old, &mut moved, &[60_000; 5]);
    }
    // It slows down again: that counts from when it does.
    goes_on(&mut ledger, &clock, &old, &mut moved, &[1; 5]);
    assert_eq!(helped(&mut ledger, fast, Some(100_000), &mut watched), None);
    goes_on(&mut ledger, &clock, &old, &mut moved, &[1; 6]);
    assert!(helped(&mut ledger, fast, Some(100_000), &mut watched).is_some());
}

#[test]
fn what_was_shared_of_an_object_that_is_given_up_is_taken_away() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let mut lease = ledger.begin(&ends(), "a test", 2).unwrap();
    let large = PlannedLarge { line: pack([&object(0, 3 << 30)]), size: 3 << 30, range: 1 << 30 };
    ledger.append(&mut lease, &[], &[large]).unwrap();
    ledger.seal(&lease).unwrap();
    let worker = ledger.join(&who(1)).unwrap();
    for round in 0..2 {
        let claim = claimed(&mut ledger, worker);
        let BatchWork::Range(_, range) = &claim.work else { panic!("{claim:?}") };
        assert_eq!(range.token, None, "in round {round} it begins from its first byte");
        let token = format!("upload {round}");
        assert_eq!(ledger.share_token(range.large, &token).unwrap(), token);
        let (class, reason) = (FailureClass::Name, "kept".to_owned());
        let failures = vec![ObjectFailure { position: 0, class, reason }];
        let results = BatchResults { covered: 1, failures, ..BatchResults::default() };
        assert_eq!(ledger.finish(claim.lease, &results).unwrap(), Finished::Done);
        assert_eq!(ledger.share_token(range.large, "too late").unwrap(), "");
        assert!(!ledger.status().unwrap().complete, "its upload is there still");
        let claim = claimed(&mut ledger, worker);
        assert_eq!(claim.work, BatchWork::Abort(object(0, 3 << 30), token));
        let failed = |class| {
            let failures = vec![ObjectFailure { position: 0, class, reason: "away".to_owned() }];
            BatchResults { covered: 1, failures, ..BatchResults::default() }
        };
        // Where nobody can take it away the fleet comes to its end all the same.
        let results = match round {
            0 => BatchResults { covered: 1, same: Tally { objects: 1, bytes: 0 }, ..BatchResults::default() },
            _ => failed(FailureClass::Invalid),
        };
        assert_eq!(ledger.finish(claim.lease, &results).unwrap(), Finished::Done);
        let status = ledger.status().unwrap();
        assert!(status.complete && (status.failed, status.same.objects) == (1, 0), "{status:?}");
        assert_eq!(ledger.retry(&[]).unwrap(), 1);
    }
}

#[test]
fn a_large_object_is_joined_when_its_ranges_are_there() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let mut lease = ledger.begin(&ends(), "a test", 5).unwrap();
    let whole = object(0, 5 << 40);
    let large = PlannedLarge { line: pack([&whole]), size: 5 << 40, range: 1 << 30 };
    ledger.append(&mut lease, &[], &[large]).unwrap();
    ledger.seal(&lease).unwrap();
    let worker = ledger.join(&who(1)).unwrap();
    let mut next = 0;
    loop {
        let claim = claimed(&mut ledger, worker);
        match claim.work {
            BatchWork::Range(object, range) => {
                assert_eq!((&object, range.range.start), (&whole, next));
                let token = ledger.share_token(range.large, &format!("upload {}", range.part)).unwrap();
                assert_eq!(token, "upload 0", "who came first said it for all");
                next = range.range.end;
                let moved = Tally { objects: 1, bytes: range.range.end - range.range.start };
                let note = Some(format!("part {}", range.part));
                let results = BatchResults { covered: 1, moved, note, ..BatchResults::default() };
                assert_eq!(ledger.finish(claim.lease, &results).unwrap(), Finished::Done);
            }
            BatchWork::Join(object, range, notes) => {
                assert_eq!((object, next), (whole, 5 << 40));
                assert_eq!((range.token.as_deref(), notes.len()), (Some("upload 0"), 5120));
                assert_eq!(notes[77], "part 77");
                let moved = Tally { objects: 1, bytes: 0 };
                let results = BatchResults { covered: 1, moved, ..BatchResults::default() };
                assert_eq!(ledger.finish(claim.lease, &results).unwrap(), Finished::Done);
                break;
            }
            BatchWork::Objects(_) | BatchWork::Abort(..) => panic!("it is large, and not given up"),
        }
    }
    let status = ledger.status().unwrap();
    assert_eq!((status.moved, status.planned), (Tally { objects: 1, bytes: 5 << 40 }, status.planned));
    assert!(status.complete);
}

#[test]
fn a_large_object_that_fails_for_good_is_left_by_all() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let mut lease = ledger.begin(&ends(), "a test", 5).unwrap();
    let large = PlannedLarge { line: pack([&object(0, 4 << 30)]), size: 4 << 30, range: 1 << 30 };
    ledger.append(&mut lease, &[], &[large]).unwrap();
    ledger.seal(&lease).unwrap();
    let worker = ledger.join(&who(1)).unwrap();
    let [first, second] = [claimed(&mut ledger, worker), claimed(&mut ledger, worker)];
    let failures = vec![failed(0, FailureClass::Changed)];
    let results = BatchResults { covered: 1, failures, ..BatchResults::default() };
    assert_eq!(ledger.finish(first.lease, &results).unwrap(), Finished::Done);
    assert_eq!(ledger.finish(second.lease, &BatchResults::default()).unwrap(), Finished::Lost);
    assert_eq!(ledger.claim(worker, LEASE).unwrap(), Claimed::Complete);
    assert_eq!(ledger.status().unwrap().failed, 1);
    // Its ranges are of what it was: it is taken whole, as it is now, and counts once.
    assert_eq!(ledger.retry(&[]).unwrap(), 1);
    assert_eq!(ledger.retry(&[]).unwrap(), 0);
    let claim = claimed(&mut ledger, worker);
    let whole = FleetObject { size: None, ..object(0, 0) };
    assert_eq!(claim.work, BatchWork::Objects(vec![whole]));
    assert_eq!(ledger.finish(second.lease, &BatchResults::default()).unwrap(), Finished::Lost);
    assert_eq!(ledger.finish(claim.lease, &all_moved(1)).unwrap(), Finished::Done);
    let status = ledger.status().unwrap();
    assert!(status.complete && (status.moved.objects, status.failed) == (1, 0), "{status:?}");
    let (mut states, mut counted) = (Vec::new(), 0);
    ledger
        .each_row(&mut |_, row| {
            states.push(row.state);
            Ok::<(), weir_fleet::FleetError>(())
        })
        .unwrap();
    ledger.each_object(&mut |_| counted += 1).unwrap();
    assert_eq!((states, counted), (vec!["done"], 1));
}

#[test]
fn a_part_of_a_large_object_has_one_result_which_is_of_it() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    let mut lease = ledger.begin(&ends(), "a test", 5).unwrap();
    let large = PlannedLarge { line: pack([&object(0, 4 << 30)]), size: 4 << 30, range: 1 << 30 };
    ledger.append(&mut lease, &[], &[large]).unwrap();
    ledger.seal(&lease).unwrap();
    let worker = ledger.join(&who(1)).unwrap();
    let claim = claimed(&mut ledger, worker);
    let moved = Tally { objects: 1, bytes: 1 << 30 };
    let note = Some("a part".to_owned());
    let right = BatchResults { covered: 1, moved, note, ..BatchResults::default() };
    let failures = |position| vec![failed(position, FailureClass::Busy)];
    for wrong in [
        BatchResults::default(),
        BatchResults { covered: 0, ..right.clone() },
        BatchResults { covered: 2, ..right.clone() },
        BatchResults { moved: Tally::default(), ..right.clone() },
        BatchResults { moved: Tally { objects: 2, bytes: 2 }, ..right.clone() },
        BatchResults { moved: Tally { objects: 1, bytes: (1 << 30) + 1 }, ..right.clone() },
        BatchResults { same: Tally { objects: 1, bytes: 0 }, ..right.clone() },
        BatchResults { same: Tally { objects: 0, bytes: u64::MAX }, ..right.clone() },
        BatchResults { failures: failures(0), ..right.clone() },
        BatchResults { moved: Tally::default(), failures: failures(1), ..right.clone() },
        BatchResults { note: None, ..right.clone() },
        BatchResults { note: Some(String::new()), ..right.clone() },
    ] {
        let refused = ledger.finish(claim.lease, &wrong).map_err(|error| error.to_string());
        assert!(refused.as_ref().is_err_and(|why| why.contains("do not add up")), "{wrong:?}: {refused:?}");
    }
    // None of it was taken: the batch is still held, and its right results count.
    let status = ledger.status().unwrap();
    assert_eq!((status.leased, status.done, status.moved), (1, 0, Tally::default()));
    assert_eq!(ledger.finish(claim.lease, &right).unwrap(), Finished::Done);
    assert_eq!(ledger.status().unwrap().moved.bytes, 1 << 30);
}

#[test]
fn what_is_set_holds_from_the_next_question_on() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    plan(&mut ledger, 10, 1);
    let [first, second] = [1, 2].map(|pid| ledger.join(&who(pid)).unwrap());
    let claim = claimed(&mut ledger, first);
    ledger.set(&|settings| settings.rate = Some(1_000_000)).unwrap();
    let Renewed::Held { settings, .. } = ledger.renew(claim.lease, LEASE, 0, 0).unwrap() else { panic!() };
    assert_eq!(settings.rate, Some(1_000_000));
    // Another worker of its host has half of it, as long as it has something to do.
    let rate = |ledger: &mut SqlLedger| match ledger.renew(claim.lease, LEASE, 0, 0).unwrap() {
        Renewed::Held { settings, .. } => settings.rate,
        Renewed::Lost => panic!("it is held"),
    };
    let beside = ledger.join(&who(51)).unwrap();
    assert_eq!(rate(&mut ledger), Some(1_000_000), "it waits");
    assert_eq!(claimed(&mut ledger, beside).settings.rate, Some(500_000));
    assert_eq!(rate(&mut ledger), Some(500_000));
    ledger.leave(beside).unwrap();
    assert_eq!(rate(&mut ledger), Some(1_000_000));
    assert_eq!(ledger.status().unwrap().settings.rate, Some(1_000_000), "of the host");
    let reason = |ledger: &mut SqlLedger, worker| match ledger.claim(worker, LEASE).unwrap() {
        Claimed::Wait(reason, _) => Some(reason),
        Claimed::Batch(claim) => {
            ledger.release(claim.lease).unwrap();
            None
        }
        other => panic!("{other:?}"),
    };
    ledger.set(&|settings| settings.workers = Some(1)).unwrap();
    assert_eq!(reason(&mut ledger, second), Some(WaitReason::Workers));
    assert_eq!(reason(&mut ledger, first), None, "it is the one");
    ledger.set(&|settings| settings.workers = None).unwrap();
    ledger.set(&|settings| settings.paused = true).unwrap();
    assert_eq!(reason(&mut ledger, second), Some(WaitReason::Paused));
    ledger.set(&|settings| settings.paused = false).unwrap();
    // START is 20:26 in UTC.
    assert_eq!(START / 60_000 % 1440, 20 * 60 + 26);
    ledger.set(&|settings| settings.window = Some("21:00-06:00".to_owned())).unwrap();
    assert_eq!(reason(&mut ledger, second), Some(WaitReason::Window));
    clock.fetch_add(34 * 60_000, Relaxed);
    assert_eq!(reason(&mut ledger, second), None);
    ledger.set(&|settings| settings.draining = true).unwrap();
    assert_eq!(ledger.claim(second, LEASE).unwrap(), Claimed::Leave);
    assert_eq!(helped(&mut ledger, second, Some(1), &mut Vec::new()), None);
}

#[test]
fn who_leaves_has_nothing_and_what_is_told_twice_counts_once() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    plan(&mut ledger, 2, 1);
    let [first, second] = [1, 2].map(|pid| ledger.join(&who(pid)).unwrap());
    let claim = claimed(&mut ledger, first);
    let span =
        VerdictSpan { start: 0, length: 1000, limit: "network".to_owned(), share: 0.75, bytes: 1 << 20 };
    for _ in 0..2 {
        ledger.tell(first, std::slice::from_ref(&span)).unwrap();
    }
    ledger.leave(first).unwrap();
    assert_eq!(ledger.renew(claim.lease, LEASE, 0, 0).unwrap(), Renewed::Lost);
    let workers = ledger.status().unwrap().workers;
    assert!(workers[0].departed && !workers[1].departed);
    claimed(&mut ledger, second);
    claimed(&mut ledger, second);
    let unknown = ledger.claim(WorkerId(99), Duration::from_secs(1)).unwrap_err().to_string();
    assert!(unknown.contains("it knows no worker 99"), "{unknown}");
}

#[test]
fn what_was_given_up_is_tried_again_by_its_class() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    plan(&mut ledger, 6, 3);
    let worker = ledger.join(&who(1)).unwrap();
    for class in [FailureClass::Missing, FailureClass::Changed] {
        let claim = claimed(&mut ledger, worker);
        let moved = Tally { objects: 2, bytes: 20 };
        let failures = vec![failed(1, class)];
        let results = BatchResults { covered: 3, moved, failures, ..BatchResults::default() };
        assert_eq!(ledger.finish(claim.lease, &results).unwrap(), Finished::Done);
    }
    assert_eq!(ledger.status().unwrap().failed, 2);
    assert_eq!(ledger.retry(&[FailureClass::Busy]).unwrap(), 0);
    assert_eq!(ledger.retry(&[FailureClass::Changed]).unwrap(), 1);
    let claim = claimed(&mut ledger, worker);
    // It is taken as it is now.
    let BatchWork::Objects(objects) = &claim.work else { panic!() };
    assert_eq!((objects.len(), objects[0].size), (1, None));
    assert_eq!(ledger.finish(claim.lease, &all_moved(1)).unwrap(), Finished::Done);
    assert_eq!(ledger.retry(&[]).unwrap(), 1);
    let claim = claimed(&mut ledger, worker);
    assert_eq!(ledger.finish(claim.lease, &all_moved(1)).unwrap(), Finished::Done);
    let status = ledger.status().unwrap();
    assert!(status.complete && status.failures.is_empty());
    assert_eq!((status.moved.objects, status.failed, status.planned.objects), (6, 0, 6));
    let mut states = Vec::new();
    ledger
        .each_row(&mut |_, row| {
            states.push(row.state);
            Ok::<(), weir_fleet::FleetError>(())
        })
        .unwrap();
    assert_eq!(states, ["done"; 6]);
}
