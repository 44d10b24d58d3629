//! What a desk gives out, in which order, and what it counts.

use super::state::TROUBLE;
use super::*;
use crate::ledger::{BatchWork, FleetSettings};

const NOW: Duration = Duration::ZERO;
const AT_ONCE: usize = 128;
const LONG: Duration = Duration::from_secs(60);

fn claim(batch: i64, sizes: &[u64]) -> BatchClaim {
    let object = |(number, size): (usize, &u64)| FleetObject {
        source: format!("{number}").into_bytes(),
        target: format!("{number}").into_bytes(),
        size: Some(*size),
        ..FleetObject::default()
    };
    BatchClaim {
        lease: BatchLease { batch, fence: 1 },
        work: BatchWork::Objects(sizes.iter().enumerate().map(object).collect()),
        given_before: 0,
        is_final: false,
        is_last: false,
        length: Duration::from_secs(30),
        settings: FleetSettings::default(),
    }
}

fn take(desk: &Desk) -> FleetTask {
    match desk.next(NOW) {
        NextTask::Task(task) => task,
        other => panic!("{other:?}"),
    }
}

#[test]
fn few_large_objects_are_begun_and_many_small_ones() {
    let desk = Desk::new(AT_ONCE, 1);
    desk.add(claim(1, &[1 << 30; 5]), Instant::now());
    desk.lift_limits();
    let tasks = [take(&desk), take(&desk)];
    assert!(matches!(desk.next(NOW), NextTask::NotYet));
    assert_eq!(desk.due(NOW, NOW)[0].reached, 4);
    desk.end(&tasks[1], TaskEnd::Moved(1 << 30), None);
    assert_eq!((take(&desk).position, desk.due(NOW, NOW)[0].reached), (2, 5));
    let small = Desk::new(AT_ONCE, 1);
    small.add(claim(1, &[1; 1000]), Instant::now());
    let begun = std::iter::from_fn(|| match small.next(NOW) {
        NextTask::Task(task) => Some(task),
        _ => None,
    });
    assert_eq!(begun.count(), AT_ONCE);
}

#[test]
fn nothing_is_begun_that_the_ledger_may_give_to_others() {
    let desk = Desk::new(4, 1);
    desk.add(claim(1, &[1; 1000]), Instant::now());
    let begin = || {
        std::iter::from_fn(|| match desk.next(NOW) {
            NextTask::Task(task) => Some(task),
            _ => None,
        })
    };
    let first: Vec<FleetTask> = begin().collect();
    assert_eq!((first.len(), desk.due(LONG, LONG).len()), (4, 0));
    assert_eq!(desk.due(NOW, LONG)[0].reached, 8);
    first.iter().for_each(|task| desk.end(task, TaskEnd::Moved(1), None));
    let second: Vec<FleetTask> = begin().collect();
    second.iter().for_each(|task| desk.end(task, TaskEnd::Moved(1), None));
    assert_eq!((second.len(), begin().count()), (4, 0));
    assert_eq!(desk.due(LONG, LONG)[0].reached, 12, "it is told before its time");
    assert_eq!(begin().count(), 4);
    desk.lift_limits();
    assert!(desk.due(LONG, LONG).is_empty());
}

#[test]
fn what_was_given_back_comes_first_and_what_was_cut_off_counts_no_more() {
    let desk = Desk::new(AT_ONCE, 1);
    desk.add(claim(7, &[10, 20, 30, 40]), Instant::now());
    desk.lift_limits();
    let tasks: Vec<FleetTask> = (0..3).map(|_| take(&desk)).collect();
    desk.give_back(&tasks[0]);
    desk.give_back(&tasks[0]);
    desk.end(&tasks[1], TaskEnd::Same(20), None);
    desk.end(&tasks[2], TaskEnd::Moved(30), None);
    desk.end(&tasks[2], TaskEnd::Moved(30), None);
    desk.cut(tasks[0].lease, 2);
    assert!(desk.complete().is_none());
    let again = take(&desk);
    assert_eq!(again.position, 0);
    assert!(matches!(desk.next(NOW), NextTask::NotYet));
    desk.end(&again, TaskEnd::Failed(FailureClass::Missing, "gone".to_owned()), None);
    let (lease, results) = desk.complete().unwrap();
    assert_eq!((results.covered, results.same.objects, results.moved.objects), (2, 1, 0));
    assert_eq!(results.failures.len(), 1);
    desk.close();
    assert!(!desk.forget(lease));
    assert!(matches!(desk.next(NOW), NextTask::End));
}

#[test]
fn the_next_batch_is_wanted_when_little_is_left() {
    let desk = Desk::new(AT_ONCE, 1);
    assert!(desk.wants_more());
    desk.add(claim(1, &[1000, 1000]), Instant::now());
    desk.lift_limits();
    let (one, _two) = (take(&desk), take(&desk));
    assert!(!desk.wants_more(), "nothing is known of how fast it goes");
    desk.set_pace(1000.0, 10.0);
    assert!(!desk.wants_more(), "two seconds are left");
    desk.end(&one, TaskEnd::Moved(1000), None);
    desk.set_under_way(500, 0);
    assert!(!desk.wants_more());
    desk.set_under_way(700, 0);
    assert!(desk.wants_more());
}

#[test]
fn each_hand_gets_an_object_however_large() {
    let desk = Desk::new(8, 4);
    let mut tasks = Vec::new();
    for batch in 1..=4 {
        assert!(desk.wants_more(), "{batch}");
        desk.add(claim(batch, &[1 << 30]), Instant::now());
        desk.lift_limits();
        tasks.push(take(&desk));
    }
    assert!(!desk.wants_more());
    desk.end(&tasks[0], TaskEnd::Moved(1 << 30), None);
    assert!(desk.wants_more(), "a hand has nothing to do");
}

#[test]
fn a_host_that_fails_alone_is_found_out() {
    let denied = || TaskEnd::Failed(FailureClass::Denied, "403".to_owned());
    let desk = Desk::new(AT_ONCE, 1);
    desk.add(claim(1, &[1; 40]), Instant::now());
    desk.lift_limits();
    for round in 0..2 {
        for _ in 0..TROUBLE - 1 {
            desk.end(&take(&desk), denied(), None);
        }
        assert_eq!(desk.trouble(), None, "{round}");
        desk.end(&take(&desk), TaskEnd::Moved(1), None);
    }
    for _ in 0..TROUBLE {
        desk.end(&take(&desk), denied(), None);
    }
    assert_eq!(desk.trouble().as_deref(), Some("403"));
}

#[test]
fn what_is_tried_again_has_not_failed() {
    let ends = |desk: &Desk, class: FailureClass| {
        desk.end(&take(desk), TaskEnd::Failed(class, class.name().to_owned()), None);
        let totals = desk.totals();
        (totals.failed, totals.retried, desk.failures())
    };
    let desk = Desk::new(AT_ONCE, 1);
    desk.add(claim(1, &[1, 1]), Instant::now());
    desk.lift_limits();
    assert_eq!(ends(&desk, FailureClass::Server), (0, 1, Vec::new()));
    assert_eq!(ends(&desk, FailureClass::Missing), (1, 1, vec!["missing".to_owned()]));
    // The one attempt of a plan that has no other.
    desk.add(BatchClaim { is_final: true, ..claim(2, &[1]) }, Instant::now());
    desk.lift_limits();
    assert_eq!(ends(&desk, FailureClass::Server).0, 2);
    // Others have the batch, and tell of it.
    let goes = BatchClaim { is_final: true, ..claim(3, &[1, 1]) };
    let lease = goes.lease;
    desk.add(goes, Instant::now());
    desk.lift_limits();
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(ends(&desk, FailureClass::Busy), (3, 1, named(&["missing", "server", "busy"])));
    desk.hand_back(lease);
    let totals = desk.totals();
    assert_eq!((totals.failed, totals.retried), (2, 2));
    assert_eq!(desk.failures(), named(&["missing", "server"]));
}
