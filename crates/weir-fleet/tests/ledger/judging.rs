//! What workers told becomes evidence on one axis, and a verdict.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use weir_fleet::ledger::{FleetLedger, SqlLedger, VerdictSpan, WorkerId, WorkerIdentity};
use weir_fleet::verdict;
use weir_model::fleet::FleetHold;
use weir_model::limit::Limit;
use weir_model::verdict::MainLimit;

use crate::{START, clock, folder, plan, sqlite};

fn join(ledger: &mut SqlLedger, host: &str, pid: u32) -> WorkerId {
    let who = WorkerIdentity { host: host.to_owned(), pid, version: "1.0.0".to_owned() };
    ledger.join(&who).unwrap()
}

/// A second of a worker, from the start of it.
fn second(start: u64, limit: &str, bytes: u64) -> VerdictSpan {
    VerdictSpan { start: start * 1000, length: 1000, limit: limit.to_owned(), share: 1.0, bytes }
}

/// Three hosts, on the first of which two workers are, and one joins after five seconds; the last is slow.
pub(crate) fn names_a_slow_host_and_has_one_axis(ledger: &mut SqlLedger, clock: &AtomicI64) {
    plan(ledger, 6, 1);
    let first = [("a", 1), ("b", 2), ("c", 3)].map(|(host, pid)| join(ledger, host, pid));
    clock.fetch_add(5000, Relaxed);
    let late = join(ledger, "a", 4);
    clock.fetch_add(10_000, Relaxed);
    for (worker, bytes) in first.into_iter().zip([10_000_000, 20_000_000, 2_000_000]) {
        let limit = if bytes < 5_000_000 { "disk" } else { "sender-or-path" };
        let spans: Vec<VerdictSpan> = (0..15)
            .map(|start| {
                second(start, limit, if worker == first[0] && start < 5 { 2 * bytes } else { bytes })
            })
            .collect();
        ledger.tell(worker, &spans).unwrap();
    }
    let spans: Vec<VerdictSpan> = (0..10).map(|start| second(start, "sender-or-path", 10_000_000)).collect();
    ledger.tell(late, &spans).unwrap();
    // A word that a newer weir has.
    ledger.tell(late, &[second(10, "a-new-limit", 1)]).unwrap();
    let evidence = ledger.evidence().unwrap();
    let found = &evidence.workers[3];
    assert_eq!((found.joined, found.left), ((START + 5000) as f64 / 1000.0, None));
    assert_eq!(found.spans[0].from, (START + 5000) as f64 / 1000.0);
    let verdict = verdict::of_ledger(ledger).unwrap();
    let named: Vec<&str> = verdict.outliers.iter().map(|odd| odd.host.as_str()).collect();
    assert_eq!(named, ["c"], "{verdict:#?}");
    assert_eq!(verdict.outliers[0].limit, Some(MainLimit::One(Limit::Disk)));
    let hosts: Vec<(&str, u32)> = verdict.hosts.iter().map(|host| (&*host.host, host.workers)).collect();
    assert_eq!(hosts, [("a", 2), ("b", 1), ("c", 1)]);
    assert!((verdict.rate.unwrap() / 42e6 - 1.0).abs() < 0.1, "{verdict:#?}");
    assert_eq!(verdict.hold, FleetHold::Unknown, "a second worker of a host is no host more");
}

#[test]
fn a_slow_host_is_named_of_what_workers_told_on_one_axis() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    names_a_slow_host_and_has_one_axis(&mut ledger, &clock);
}

#[test]
fn a_ledger_in_which_nobody_worked_has_a_verdict_that_abstains() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l"), &clock);
    plan(&mut ledger, 2, 1);
    let verdict = verdict::of_ledger(&mut ledger).unwrap();
    assert_eq!((verdict.limit, verdict.rate, verdict.hosts.len()), (None, None, 0));
    assert!(!verdict.missing.is_empty() && verdict.advice.is_empty(), "{verdict:#?}");
    // Who was not heard of for long is gone, and what held it then is told all the same.
    let worker = join(&mut ledger, "a", 1);
    ledger.tell(worker, &[second(0, "disk", 10)]).unwrap();
    clock.fetch_add(3_600_000, Relaxed);
    let found = ledger.evidence().unwrap();
    assert_eq!(found.workers[0].left, Some(START as f64 / 1000.0));
    assert_eq!(found.workers[0].spans.len(), 1);
}
