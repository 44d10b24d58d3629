//! A worker against a ledger that says what a ledger can say, whenever it hurts most.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::desk::{FleetTask, NextTask, TaskEnd};
use super::*;
use crate::class::FailureClass;
use crate::ledger::{
    BatchClaim, BatchLease, BatchResults, BatchWork, Claimed, Finished, FleetSettings, Helped, Helper,
    PlanEnds, Renewed, VerdictSpan, WaitReason, WorkerId,
};
use crate::object::FleetObject;

/// What a test's ledger says in place of what it should, by the number of the question from 0.
type Says = BTreeMap<usize, Odd>;

#[derive(Clone, Copy)]
enum Odd {
    Away,
    Lost,
    Cut(u64),
}

/// A ledger with batches of ten objects.
#[derive(Default)]
struct TestLedger {
    waiting: Vec<i64>,
    held: Vec<BatchLease>,
    fence: i64,
    done: Vec<(i64, BatchResults)>,
    released: Vec<i64>,
    failed: Vec<i64>,
    /// No attempt comes after the one that it gives out.
    is_last: bool,
    told: usize,
    left: bool,
    claims: (usize, Says),
    renewals: (usize, Says),
    finishes: (usize, Says),
    rate: Option<u64>,
    /// What it is from the next renewal on.
    next_rate: Option<u64>,
}

impl TestLedger {
    fn with(batches: i64) -> TestLedger {
        TestLedger { waiting: (1..=batches).rev().collect(), ..TestLedger::default() }
    }

    fn odd(of: &mut (usize, Says)) -> Result<Option<Odd>, FleetError> {
        of.0 += 1;
        match of.1.get(&(of.0 - 1)) {
            Some(Odd::Away) => {
                let (place, why) = ("x".to_owned(), "refused".to_owned());
                Err(FleetError::Away { place, waited: Duration::ZERO, why })
            }
            other => Ok(other.copied()),
        }
    }

    /// Somebody else has it, and will be done with it in no time.
    fn lose(&mut self, lease: BatchLease) {
        self.held.retain(|held| *held != lease);
        self.waiting.push(lease.batch);
    }

    fn settings(&self) -> FleetSettings {
        FleetSettings { rate: self.rate, ..FleetSettings::default() }
    }

    fn moved(&self) -> u64 {
        self.done.iter().map(|(_, results)| results.moved.objects).sum()
    }
}

impl FleetLedger for TestLedger {
    fn ends(&mut self) -> Result<PlanEnds, FleetError> {
        Ok(PlanEnds { source: "a".to_owned(), target: "b".to_owned() })
    }

    fn join(&mut self, _: &WorkerIdentity) -> Result<WorkerId, FleetError> {
        Ok(WorkerId(1))
    }

    fn leave(&mut self, _: WorkerId) -> Result<(), FleetError> {
        self.left = true;
        Ok(())
    }

    fn claim(&mut self, _: WorkerId, length: Duration) -> Result<Claimed, FleetError> {
        TestLedger::odd(&mut self.claims)?;
        let Some(batch) = self.waiting.pop() else {
            let is_done = self.held.is_empty();
            let wait = Claimed::Wait(WaitReason::Held, Duration::from_millis(50));
            return Ok(if is_done { Claimed::Complete } else { wait });
        };
        self.fence += 1;
        let lease = BatchLease { batch, fence: self.fence };
        self.held.push(lease);
        let object = |number: i64| FleetObject {
            source: format!("{batch}/{number}").into_bytes(),
            size: Some(1000),
            ..FleetObject::default()
        };
        let work = BatchWork::Objects((0..10).map(object).collect());
        let (settings, is_last) = (self.settings(), self.is_last);
        let claim = BatchClaim { lease, work, given_before: 0, is_final: is_last, is_last, length, settings };
        Ok(Claimed::Batch(Box::new(claim)))
    }

    fn renew(&mut self, lease: BatchLease, _: Duration, _: u64, _: u64) -> Result<Renewed, FleetError> {
        self.rate = self.next_rate.take().or(self.rate);
        match TestLedger::odd(&mut self.renewals)? {
            Some(Odd::Lost) => {
                self.lose(lease);
                Ok(Renewed::Lost)
            }
            Some(Odd::Cut(objects)) => Ok(Renewed::Held { objects, settings: self.settings() }),
            _ => Ok(Renewed::Held { objects: 10, settings: self.settings() }),
        }
    }

    fn finish(&mut self, lease: BatchLease, results: &BatchResults) -> Result<Finished, FleetError> {
        match TestLedger::odd(&mut self.finishes)? {
            Some(Odd::Lost) => {
                self.lose(lease);
                return Ok(Finished::Lost);
            }
            Some(Odd::Cut(objects)) => return Ok(Finished::Cut(objects)),
            _ => {}
        }
        assert!(self.held.contains(&lease), "{lease:?} is not held");
        self.held.retain(|held| *held != lease);
        self.done.push((lease.batch, results.clone()));
        Ok(Finished::Done)
    }

    fn release(&mut self, lease: BatchLease) -> Result<bool, FleetError> {
        self.held.retain(|held| *held != lease);
        self.released.push(lease.batch);
        Ok(true)
    }

    fn fail(&mut self, lease: BatchLease) -> Result<bool, FleetError> {
        self.held.retain(|held| *held != lease);
        self.failed.push(lease.batch);
        // Behind all others.
        self.waiting.insert(0, lease.batch);
        Ok(true)
    }

    fn help(&mut self, _: WorkerId, _: Duration, _: &Helper) -> Result<Helped, FleetError> {
        Ok(Helped::Watch(Vec::new()))
    }

    fn share_token(&mut self, _: i64, token: &str) -> Result<String, FleetError> {
        Ok(token.to_owned())
    }

    fn tell(&mut self, _: WorkerId, spans: &[VerdictSpan]) -> Result<(), FleetError> {
        self.told += spans.len();
        Ok(())
    }
}

/// Moves by a function.
struct ByHand<F>(F);

impl<F: Fn(&FleetTask, &AtomicBool) -> Option<TaskEnd> + Sync> Mover for ByHand<F> {
    fn at_once(&self) -> usize {
        8
    }

    fn run(&self, run: &MoverRun<'_>, observer: &mut dyn Observer) {
        let make = |_| -> Box<crew::OneTask<'_>> { Box::new(move |task| (self.0)(task, run.stop)) };
        let (hands, moved) = (hand::Hand::crew(4), AtomicU64::new(0));
        crew::work(run, &crew::Crew { hands: &hands, make: &make, moved: &moved, target: None }, observer);
    }
}

fn moves(task: &FleetTask, _: &AtomicBool) -> Option<TaskEnd> {
    Some(TaskEnd::Moved(task.object.size.unwrap_or_default()))
}

/// Waits until the run is ended.
fn waits(_: &FleetTask, ended: &AtomicBool) -> Option<TaskEnd> {
    while !ended.load(Relaxed) {
        std::thread::yield_now();
    }
    None
}

/// A mover during whose work a signal sets `told`.
fn signalled(told: &AtomicBool, then: fn(&FleetTask, &AtomicBool) -> Option<TaskEnd>) -> impl Mover {
    ByHand(move |task: &FleetTask, ended: &AtomicBool| {
        told.store(true, Relaxed);
        then(task, ended)
    })
}

fn manner(lease: Duration) -> WorkerManner {
    let who = WorkerIdentity { host: "h".to_owned(), pid: 1, version: "1".to_owned() };
    WorkerManner { who, lease, once: false, rate: None, stuck: STUCK, drain: DRAIN }
}

const LONG: Duration = Duration::from_secs(30);

fn work(ledger: &mut TestLedger, mover: &dyn Mover, lease: Duration) -> WorkerReport {
    run(ledger, mover, &manner(lease), &WorkerSignals::default(), &mut ()).unwrap()
}

#[test]
fn all_batches_are_done_and_the_ledger_hears_of_each_once() {
    let mut ledger = TestLedger::with(20);
    let report = work(&mut ledger, &ByHand(moves), LONG);
    assert_eq!((report.end, report.totals.moved), (WorkerEnd::Complete, (200, 200_000)));
    assert_eq!((ledger.done.len(), ledger.moved(), ledger.left), (20, 200, true));
}

#[test]
fn a_ledger_that_is_away_is_waited_for() {
    let mut ledger = TestLedger::with(3);
    ledger.claims.1 = [(0, Odd::Away), (2, Odd::Away)].into();
    ledger.finishes.1 = [(0, Odd::Away), (1, Odd::Away)].into();
    let report = work(&mut ledger, &ByHand(moves), LONG);
    assert_eq!((report.end, ledger.moved()), (WorkerEnd::Complete, 30));
}

#[test]
fn a_lost_batch_is_not_finished_and_its_results_count_for_nothing() {
    let mut ledger = TestLedger::with(3);
    ledger.finishes.1 = [(0, Odd::Lost)].into();
    let report = work(&mut ledger, &ByHand(moves), LONG);
    assert_eq!((report.end, ledger.moved(), ledger.done.len()), (WorkerEnd::Complete, 30, 3));
}

#[test]
fn a_batch_that_is_lost_while_it_moves_is_dropped() {
    let mut ledger = TestLedger::with(2);
    ledger.renewals.1 = [(0, Odd::Lost)].into();
    // The first attempt at it waits until the run is ended.
    let is_first = AtomicBool::new(true);
    let mover = ByHand(|task: &FleetTask, stop: &AtomicBool| {
        if task.object.source == b"1/0" && is_first.swap(false, Relaxed) {
            return waits(task, stop);
        }
        moves(task, stop)
    });
    let report = work(&mut ledger, &mover, Duration::from_millis(30));
    assert_eq!((report.end, ledger.moved(), ledger.done.len()), (WorkerEnd::Complete, 20, 2));
    assert!(!is_first.load(Relaxed));
}

/// One that hangs until the run is ended, where that is the first attempt, or each.
fn hangs(is_first_alone: bool) -> impl Mover {
    let was_tried = AtomicBool::new(false);
    ByHand(move |task: &FleetTask, stop: &AtomicBool| {
        let hangs = task.object.source == b"1/0" && !(was_tried.swap(true, Relaxed) && is_first_alone);
        if hangs { waits(task, stop) } else { moves(task, stop) }
    })
}

const SOON: Duration = Duration::from_millis(300);

#[test]
fn a_batch_that_hangs_is_given_back_and_the_others_are_done() {
    let mut ledger = TestLedger::with(3);
    let manner = WorkerManner { stuck: SOON, ..manner(LONG) };
    let report = run(&mut ledger, &hangs(true), &manner, &WorkerSignals::default(), &mut ()).unwrap();
    assert_eq!((report.end, ledger.moved(), ledger.done.len()), (WorkerEnd::Complete, 30, 3));
    assert!(ledger.failed.contains(&1), "{:?}", ledger.failed);
}

#[test]
fn what_hangs_at_its_last_attempt_has_failed() {
    let mut ledger = TestLedger { is_last: true, ..TestLedger::with(1) };
    let manner = WorkerManner { stuck: SOON, ..manner(LONG) };
    let report = run(&mut ledger, &hangs(false), &manner, &WorkerSignals::default(), &mut ()).unwrap();
    assert_eq!((report.end, ledger.done.len(), ledger.failed.len()), (WorkerEnd::Complete, 1, 0));
    let failures = &ledger.done[0].1.failures;
    assert!(failures.iter().any(|failure| failure.position == 0), "{failures:?}");
}

#[test]
fn objects_that_others_took_are_left_to_them() {
    let mut ledger = TestLedger::with(1);
    ledger.finishes.1 = [(0, Odd::Cut(4))].into();
    work(&mut ledger, &ByHand(moves), LONG);
    assert_eq!((ledger.done[0].1.covered, ledger.moved()), (4, 4));
}

#[test]
fn a_new_rate_is_heard_while_a_batch_moves() {
    const HEARD: Duration = Duration::from_secs(10);
    let mut ledger = TestLedger { rate: Some(500), next_rate: Some(250), ..TestLedger::with(1) };
    let runs = AtomicU64::new(0);
    struct Counting<'a>(&'a AtomicU64);
    impl Mover for Counting<'_> {
        fn at_once(&self) -> usize {
            8
        }

        fn run(&self, run: &MoverRun<'_>, observer: &mut dyn Observer) {
            self.0.fetch_add(1, Relaxed);
            let (limiter, began) = (Arc::clone(run.limiter), Instant::now());
            let held = ByHand(move |task: &FleetTask, stop: &AtomicBool| {
                let failed = |why: &str| Some(TaskEnd::Failed(FailureClass::Other, why.to_owned()));
                while limiter.rate() != Some(Rate(250.0)) {
                    // Nothing is begun before the first rate is known.
                    if limiter.rate().is_none() {
                        return failed("it is held to no rate");
                    }
                    if began.elapsed() >= HEARD {
                        return failed("the new rate is not heard of");
                    }
                    std::thread::yield_now();
                }
                moves(task, stop)
            });
            held.run(run, observer);
        }
    }
    work(&mut ledger, &Counting(&runs), LONG);
    assert_eq!((ledger.moved(), runs.load(Relaxed)), (10, 1));
}

#[test]
fn a_signal_gives_back_what_is_held_and_another_lets_it_end() {
    let mut ledger = TestLedger::with(2);
    let signals = WorkerSignals::default();
    let mover = signalled(&signals.stop, waits);
    let report = run(&mut ledger, &mover, &manner(LONG), &signals, &mut ()).unwrap();
    assert_eq!((report.end, ledger.released.len(), ledger.left), (WorkerEnd::Stopped, 1, true));
    assert!(ledger.held.is_empty());

    let mut ledger = TestLedger::with(2);
    let signals = WorkerSignals::default();
    let mover = signalled(&signals.drain, moves);
    let report = run(&mut ledger, &mover, &manner(LONG), &signals, &mut ()).unwrap();
    assert_eq!((report.end, ledger.moved(), ledger.waiting.len()), (WorkerEnd::Stopped, 10, 1));
    assert!(ledger.held.is_empty() && ledger.released.is_empty());
}

/// The last object ended just before the worker was told to.
#[test]
fn what_is_complete_is_handed_in_by_a_worker_that_is_to_leave() {
    let mut ledger = TestLedger::with(1);
    let Claimed::Batch(claim) = ledger.claim(WorkerId(1), LONG).unwrap() else { panic!("no batch") };
    let (desk, shares) = (Desk::new(10, 1), LimitShares::new(Instant::now()));
    desk.add(*claim, Instant::now());
    desk.lift_limits();
    while let NextTask::Task(task) = desk.next(Duration::ZERO) {
        desk.end(&task, TaskEnd::Moved(1000), None);
    }
    let (limiter, signals) = (Limiter::open(None), WorkerSignals::default());
    signals.stop.store(true, Relaxed);
    let clerk = Clerk::new(ClerkSetup {
        ledger: &mut ledger,
        worker: WorkerId(1),
        desk: &desk,
        shares: &shares,
        limiter: &limiter,
        own_rate: None,
        signals: &signals,
        manner: ClerkManner { length: LONG, once: false, stuck: STUCK },
    });
    assert_eq!(clerk.run().0.unwrap(), WorkerEnd::Stopped);
    assert_eq!((ledger.moved(), ledger.released.len(), ledger.left), (10, 0, true));
}

/// The ledger is away for good: what moves ends, and its batch is another's when the lease is over.
#[test]
fn who_is_to_leave_does_not_wait_for_a_ledger_that_is_away() {
    let mut ledger = TestLedger::with(1);
    ledger.finishes.1 = (0..10_000).map(|question| (question, Odd::Away)).collect();
    let signals = WorkerSignals::default();
    let mover = signalled(&signals.drain, moves);
    let report = run(&mut ledger, &mover, &manner(LONG), &signals, &mut ()).unwrap();
    assert_eq!((report.end, report.totals.moved.0), (WorkerEnd::Stopped, 10));
    assert!(ledger.done.is_empty() && !ledger.left);
}

#[test]
fn what_does_not_end_in_time_is_given_back() {
    let mut ledger = TestLedger::with(1);
    let signals = WorkerSignals::default();
    let mover = signalled(&signals.drain, waits);
    let manner = WorkerManner { drain: SOON, ..manner(LONG) };
    let report = run(&mut ledger, &mover, &manner, &signals, &mut ()).unwrap();
    assert_eq!((report.end, ledger.released.len(), ledger.left), (WorkerEnd::Stopped, 1, true));
}

#[test]
fn a_host_that_may_not_leaves_its_batch_to_others() {
    let mut ledger = TestLedger::with(2);
    let mover = ByHand(|_: &FleetTask, _: &AtomicBool| {
        Some(TaskEnd::Failed(FailureClass::Denied, "403: no credentials".to_owned()))
    });
    let report = work(&mut ledger, &mover, LONG);
    assert!(matches!(&report.end, WorkerEnd::Trouble(why) if why.contains("403")), "{:?}", report.end);
    assert_eq!((ledger.done.len(), ledger.held.len()), (0, 0));
    // The objects may be the cause: others are to have other work first, and not for ever.
    assert!(!ledger.failed.is_empty());
}

#[test]
fn what_has_no_other_attempt_is_told_of_and_a_full_disk_is_no_attempt() {
    let ends = |class: FailureClass, is_last| {
        let mut ledger = TestLedger { is_last, ..TestLedger::with(2) };
        let mover = ByHand(move |_: &FleetTask, _: &AtomicBool| {
            Some(TaskEnd::Failed(class, "403: another policy".to_owned()))
        });
        (work(&mut ledger, &mover, LONG).end, ledger)
    };
    let (end, ledger) = ends(FailureClass::Denied, true);
    assert_eq!(end, WorkerEnd::Complete);
    let failures: Vec<usize> = ledger.done.iter().map(|(_, results)| results.failures.len()).collect();
    assert_eq!((failures, ledger.failed.len()), (vec![10, 10], 0));
    for is_last in [false, true] {
        let (end, ledger) = ends(FailureClass::Space, is_last);
        assert!(matches!(end, WorkerEnd::Trouble(_)), "{end:?}");
        assert_eq!((ledger.done.len(), ledger.failed.len(), ledger.released.is_empty()), (0, 0, false));
    }
}

/// A store that copies by itself says nothing for minutes, and is not stuck.
#[test]
fn what_waits_for_a_store_holds_its_batch() {
    const HEARD: Duration = Duration::from_secs(10);
    struct Waiting;
    impl Mover for Waiting {
        fn at_once(&self) -> usize {
            8
        }

        fn run(&self, run: &MoverRun<'_>, observer: &mut dyn Observer) {
            let (hands, moved) = (hand::Hand::crew(2), AtomicU64::new(0));
            let make = |number: usize| -> Box<crew::OneTask<'_>> {
                let hand = &hands[number];
                Box::new(move |task: &FleetTask| {
                    let began = Instant::now();
                    hand.waits();
                    // Nothing else has stirred since it began.
                    while run.desk.still_for() >= began.elapsed() {
                        if began.elapsed() >= HEARD {
                            let why = "nobody hears that it waits".to_owned();
                            return Some(TaskEnd::Failed(FailureClass::Other, why));
                        }
                        std::thread::yield_now();
                    }
                    moves(task, run.stop)
                })
            };
            let crew = crew::Crew { hands: &hands, make: &make, moved: &moved, target: None };
            crew::work(run, &crew, observer);
        }
    }
    let mut ledger = TestLedger::with(1);
    let report = work(&mut ledger, &Waiting, LONG);
    assert_eq!((report.end, ledger.moved()), (WorkerEnd::Complete, 10));
}

#[test]
fn once_leaves_when_others_hold_the_rest() {
    let mut ledger = TestLedger::with(1);
    ledger.held.push(BatchLease { batch: 9, fence: 0 });
    let manner = WorkerManner { once: true, ..manner(LONG) };
    let report = run(&mut ledger, &ByHand(moves), &manner, &WorkerSignals::default(), &mut ()).unwrap();
    assert_eq!((report.end, ledger.moved()), (WorkerEnd::Nothing, 10));
}
