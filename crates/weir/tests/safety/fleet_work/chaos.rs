//! Workers that are killed or put to sleep at any moment: every file comes once, and is never replaced.
//!
//! 20 kills by default, and 4 stops of the database; `WEIR_SOAK=100` for 100 and 20, all of which must come
//! (`make soak-fleet`); `WEIR_SEED=N` for a run again.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weir_fleet::ledger::{
    BatchResults, Claimed, Finished, FleetLedger, LedgerPlace, Patience, Tally, WorkerIdentity,
};

use super::bed::{Bed, sizes};
use crate::cluster::Cluster;
use crate::support::{Dice, MIB, Running, WEIR, wait_for};

/// A lease short enough that what the dead held is soon others'.
const LEASE: [&str; 2] = ["--lease", "1s"];

/// Files that have their names, and which they are.
fn named(bed: &Bed, count: usize) -> HashMap<usize, u64> {
    let inode = |number: usize| Some((number, std::fs::metadata(bed.path(number)).ok()?.ino()));
    (0..count).filter_map(inode).collect()
}

/// Small files and a few large ones: enough that so many kills come before the end.
fn files_for(kills: u64) -> Vec<usize> {
    let mut all = sizes(30 * kills.max(20) as usize, 1, 60_000);
    all.extend([3 * MIB, 5 * MIB, 8 * MIB]);
    all
}

#[test]
fn killed_workers_lose_nothing_and_replace_nothing() {
    let (mut dice, kills) = Dice::for_runs();
    let all = files_for(kills);
    // Slow enough that it takes the kills to its end: bytes a second of each connection.
    let bed = Bed::new(&all, 8).paced(300_000);
    let start = || bed.work(&LEASE).args(&["-c", "2"]).spawn();
    let mut workers: Vec<Running> = (0..4).map(|_| start()).collect();
    let (mut seen, mut killed) = (HashMap::new(), 0);
    for _ in 0..kills {
        let (done, more) = (bed.status(), dice.roll(1..12));
        let until = Instant::now() + Duration::from_millis(dice.roll(20..900));
        // Whichever comes first: some objects more, or a moment between two.
        wait_for("a moment", || {
            let now = bed.status();
            now.moved.objects >= done.moved.objects + more || now.complete || Instant::now() >= until
        });
        if bed.status().complete {
            break;
        }
        kill_one(&mut workers, start, &mut dice);
        killed += 1;
        stays(&bed, all.len(), &mut seen);
    }
    bed.rushes();
    workers.drain(..).for_each(|worker| drop(worker.wait()));
    comes_to_its_end(&bed, "plan.db");
    println!("{killed} of {kills} were killed, {} files were seen before the end", seen.len());
    assert!(Dice::is_enough(killed, kills), "too few were killed before the end: {killed}");
    bed.is_complete(all.len() as u64);
    let at_end = named(&bed, all.len());
    assert!(seen.iter().all(|(number, inode)| at_end[number] == *inode), "a file was replaced");
}

/// One of them is killed, and another takes its place.
fn kill_one(workers: &mut [Running], start: impl Fn() -> Running, dice: &mut Dice) {
    let victim = dice.roll(0..workers.len() as u64) as usize;
    workers[victim].signal(Signal::KILL);
    workers[victim] = start();
}

/// What had its name before is the same file; what has one now is remembered.
fn stays(bed: &Bed, count: usize, seen: &mut HashMap<usize, u64>) {
    for (number, inode) in named(bed, count) {
        assert_eq!(*seen.entry(number).or_insert(inode), inode, "file {number} was replaced");
    }
}

/// A last worker moves what is left.
fn comes_to_its_end(bed: &Bed, ledger: &str) {
    let last = bed.work_on(ledger, &LEASE).run();
    let status = bed.status_of(ledger);
    if status.failed > 0 {
        // Six workers died with the same object: it is put aside until somebody wants it tried again.
        assert!(status.failures.iter().all(|failure| failure.class == "poisoned"), "{status:?}");
        bed.sandbox.weir(WEIR, ["fleet", "retry", "--ledger", ledger]).run().succeeds();
        bed.work_on(ledger, &LEASE).run().succeeds();
    } else {
        last.succeeds();
    }
}

#[test]
fn killed_workers_of_a_database_that_is_stopped_lose_nothing_and_replace_nothing() {
    let Some(cluster) = Cluster::start() else { return };
    let (mut dice, kills) = Dice::for_runs();
    let all = files_for(kills);
    let bed = Bed::new(&all, 8).paced(300_000);
    let ledger = bed.planned_again(&cluster.url("fleet"), 8);
    let start = || bed.work_on(&ledger, &LEASE).args(&["-c", "2"]).spawn();
    let mut workers: Vec<Running> = (0..4).map(|_| start()).collect();
    let (mut seen, mut killed, mut stops) = (HashMap::new(), 0, 0);
    for number in 0..kills {
        let (asked, more) = (bed.fetched() as u64, dice.roll(1..12));
        let until = Instant::now() + Duration::from_millis(dice.roll(20..900));
        wait_for("a moment", || bed.fetched() as u64 >= asked + more || Instant::now() >= until);
        if number % 5 == 4 {
            if dice.roll(0..2) == 0 {
                cluster.stop()
            } else {
                cluster.kill()
            }
            // Workers do what they hold meanwhile, and then wait.
            let until = Instant::now() + Duration::from_millis(dice.roll(0..1500));
            wait_for("a moment without a database", || Instant::now() >= until);
            cluster.begin();
            stops += 1;
        }
        if bed.status_of(&ledger).complete {
            break;
        }
        kill_one(&mut workers, start, &mut dice);
        killed += 1;
        stays(&bed, all.len(), &mut seen);
    }
    bed.rushes();
    workers.drain(..).for_each(|worker| drop(worker.wait()));
    comes_to_its_end(&bed, &ledger);
    println!("{killed} of {kills} were killed, and the database was stopped {stops} times");
    let is_enough = Dice::is_enough(killed, kills) && Dice::is_enough(stops, kills / 5);
    assert!(is_enough, "too few were killed before the end: {killed}, {stops} stops");
    let status = bed.status_of(&ledger);
    assert!(status.complete && status.failed == 0, "{status:?}");
    assert_eq!(status.moved.objects + status.same.objects, all.len() as u64, "{status:?}");
    bed.has_all();
    let at_end = named(&bed, all.len());
    assert!(seen.iter().all(|(number, inode)| at_end[number] == *inode), "a file was replaced");
    what_is_held_goes_on_without(&cluster);
}

/// A file that is under way when the database goes gets its name before it is back.
fn what_is_held_goes_on_without(cluster: &Cluster) {
    let bed = Bed::new(&[2 * MIB], 1).paced(2 * MIB as u64);
    let ledger = bed.planned_again(&cluster.url("held"), 1);
    let worker = bed.work_on(&ledger, &["-c", "1"]).spawn();
    bed.server.wait_sent(MIB as u64 / 4);
    cluster.stop();
    wait_for("its name", || bed.path(0).exists());
    cluster.begin();
    worker.wait().succeeds();
    assert!(bed.status_of(&ledger).complete && bed.fetched() == 1, "{} requests", bed.fetched());
    bed.has_all();
}

/// Stops a worker between its questions: who is stopped while it writes to a file of SQLite keeps all others
/// from it.
fn falls_asleep(bed: &Bed, worker: &Running) {
    wait_for("a moment between its questions", || {
        worker.signal(Signal::STOP);
        let is_free = bed.is_free();
        if !is_free {
            worker.signal(Signal::CONT);
        }
        is_free
    });
}

#[test]
fn a_worker_that_slept_past_its_lease_changes_nothing() {
    let bed = Bed::new(&[6 * MIB, 6 * MIB, 100, 200], 1).paced(2 * MIB as u64);
    let sleeper = bed.work(&LEASE).args(&["-c", "1"]).spawn();
    bed.server.wait_sent(MIB as u64);
    falls_asleep(&bed, &sleeper);
    assert!(bed.status().leased > 0, "it holds something");
    bed.work(&LEASE).run().succeeds();
    assert!(bed.status().complete);
    let before = named(&bed, 4);
    sleeper.signal(Signal::CONT);
    sleeper.wait().succeeds();
    bed.is_complete(4);
    assert_eq!(named(&bed, 4), before, "its late rename replaced nothing");
}

#[test]
fn a_part_of_who_is_gone_goes_with_who_brought_the_file() {
    let mut all = vec![MIB; 12];
    all.push(3 * MIB);
    let bed = Bed::new(&all, 1).paced(MIB as u64);
    let gone = bed.work(&LEASE).args(&["-c", "1"]).spawn();
    bed.server.wait_sent(MIB as u64);
    // It holds the part, and its batch becomes another's meanwhile.
    falls_asleep(&bed, &gone);
    let other = bed.work(&LEASE).args(&["-c", "1"]).spawn();
    wait_for("the file that both began", || bed.path(12).exists());
    gone.signal(Signal::KILL);
    gone.wait();
    other.wait().succeeds();
    bed.is_complete(13);
}

#[test]
fn ranges_of_a_large_file_by_several_workers_one_of_which_is_killed() {
    let bed = Bed::in_ranges(24 * MIB, 2 * MIB as u64).paced(4 * MIB as u64);
    let work = |args: &[&str]| bed.work_on("ranges.db", &LEASE).args(args);
    let victim = work(&["-c", "1"]).spawn();
    let workers: Vec<_> = (0..2).map(|_| work(&["-c", "1"]).spawn()).collect();
    bed.server.wait_sent(4 * MIB as u64);
    victim.signal(Signal::KILL);
    for worker in workers {
        worker.wait().succeeds();
    }
    let status = bed.status_of("ranges.db");
    assert!(status.complete && status.moved.objects == 1 && status.failed == 0, "{status:?}");
    let by: Vec<u64> = status.workers.iter().map(|worker| worker.moved.bytes).collect();
    assert!(by.iter().filter(|bytes| **bytes > 0).count() >= 2, "{by:?}");
    bed.has_all();
    // Whoever gets it once more finds it.
    let sent = bed.server.sent();
    let again = bed.planned_again("again.db", 1);
    bed.work_on(&again, &[]).run().succeeds().says(&["1 already there"]);
    assert_eq!(bed.server.sent(), sent);
}

/// Removes the part of the only file, as soon as it is there.
fn loses_its_part(bed: &Bed) {
    let folder = bed.path(0).parent().unwrap().to_owned();
    let is_part = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().ends_with(".part");
    wait_for("a part", || {
        let mut there = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        there.find(is_part).is_some_and(|part| std::fs::remove_file(part.path()).is_ok())
    });
}

#[test]
fn a_large_file_whose_part_is_removed_fails_or_is_whole() {
    for is_between in [false, true] {
        let bed = Bed::in_ranges(12 * MIB, 2 * MIB as u64).paced(MIB as u64);
        // What fails at one host goes to another one first.
        let work = |name: &str| bed.work_on("ranges.db", &LEASE).args(&["-c", "1", "--name", name]).spawn();
        let workers = ["one", "two"].map(work);
        if is_between {
            wait_for("a range", || bed.status_of("ranges.db").moved.bytes > 0);
        } else {
            bed.server.wait_sent(MIB as u64);
        }
        loses_its_part(&bed);
        workers.into_iter().for_each(|worker| drop(worker.wait()));
        let status = bed.status_of("ranges.db");
        assert!(status.complete, "{status:?}");
        if status.failed == 0 {
            bed.has_all();
            continue;
        }
        let failure = &status.failures[0];
        assert!(failure.class == "changed" && !bed.path(0).exists(), "{status:?}");
        assert!(failure.example.contains("removed while it was filled"), "{}", failure.example);
    }
}

#[test]
fn a_strange_file_of_the_same_size_is_not_taken_for_the_joined_one() {
    let (size, range) = (4 * MIB, 2 * MIB as u64);
    let bed = Bed::in_ranges(size, range);
    let patience = Patience { longest: Duration::from_secs(30), stop: std::sync::Arc::default() };
    let mut ledger = LedgerPlace::File(bed.sandbox.path("ranges.db")).open(patience).unwrap();
    let who = WorkerIdentity { host: "gone".to_owned(), pid: 1, version: "1".to_owned() };
    let gone = ledger.join(&who).unwrap();
    // Its ranges went into a part that is not there any more.
    for _ in 0..2 {
        let Claimed::Batch(claim) = ledger.claim(gone, Duration::from_secs(60)).unwrap() else {
            panic!("there is a range");
        };
        let moved = Tally { objects: 1, bytes: range };
        let note = Some("1".to_owned());
        let results = BatchResults { covered: 1, moved, note, ..BatchResults::default() };
        assert_eq!(ledger.finish(claim.lease, &results).unwrap(), Finished::Done);
    }
    ledger.leave(gone).unwrap();
    std::fs::create_dir_all(bed.path(0).parent().unwrap()).unwrap();
    std::fs::write(bed.path(0), vec![7; size]).unwrap();
    let run = bed.work_on("ranges.db", &LEASE).run();
    run.fails(1, &["exists and is not what the source has; it is kept"]);
    let status = bed.status_of("ranges.db");
    assert_eq!((status.failed, &*status.failures[0].class), (1, "name"), "{status:?}");
    assert!(std::fs::read(bed.path(0)).unwrap() == vec![7; size]);
    let there = crate::support::count(&bed.sandbox.path("out"));
    assert_eq!(there, 1, "no part is made for it");
}
