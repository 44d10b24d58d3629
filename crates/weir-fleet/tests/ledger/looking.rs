//! What people are shown of a fleet: the same of both databases.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, atomic::AtomicI64};

use weir_fleet::class::FailureClass;
use weir_fleet::ledger::{
    BatchResults, Claimed, FleetLedger, ObjectFailure, SqlLedger, Tally, VerdictSpan, WorkerIdentity,
};
use weir_fleet::{FleetError, pace::FleetPace};

use crate::cluster::Cluster;
use crate::{LEASE, START, clock, folder, plan, postgres, sqlite};

/// So many tens of seconds of two hosts: `slow` lost its batch, `fast` moves all ten, and one object fails.
fn live(ledger: &mut SqlLedger, clock: &Arc<AtomicI64>, steps: u64) {
    plan(ledger, 100, 10);
    let join = |ledger: &mut SqlLedger, host: &str| {
        let who = WorkerIdentity { host: host.to_owned(), pid: 7, version: "1".to_owned() };
        ledger.join(&who).unwrap()
    };
    let slow = join(ledger, "slow");
    assert!(matches!(ledger.claim(slow, LEASE).unwrap(), Claimed::Batch(_)));
    clock.fetch_add(60_000, Relaxed);
    let fast = join(ledger, "fast<b>");
    let joined = clock.load(Relaxed);
    for step in 0..steps {
        let start = (clock.fetch_add(10_000, Relaxed) - joined).unsigned_abs();
        let span = |limit: &str, share: f64, bytes: u64| VerdictSpan {
            start,
            length: 10_000,
            limit: limit.to_owned(),
            share,
            bytes,
        };
        ledger.tell(fast, &[span("disk", 0.75, 3000), span("path-loss", 0.25, 1000)]).unwrap();
        if step % 20 == 0
            && let Claimed::Batch(claim) = ledger.claim(fast, LEASE).unwrap()
        {
            ledger.renew(claim.lease, LEASE, 3, 30).unwrap();
            let failures = match step {
                0 => vec![ObjectFailure {
                    position: 2,
                    class: FailureClass::Missing,
                    reason: "cannot open it: \u{1b}[2J".to_owned(),
                }],
                _ => Vec::new(),
            };
            let objects = 10 - failures.len() as u64;
            let moved = Tally { objects, bytes: objects * 10 };
            clock.fetch_add(1000 * (step + 1) as i64 / 20, Relaxed);
            let results = BatchResults { covered: 10, moved, failures, ..BatchResults::default() };
            ledger.finish(claim.lease, &results).unwrap();
        }
    }
}

/// What the views say after [`live`], to whoever asks in SQL.
const VIEWS: &str = "SELECT 'failed', class || ' of ' || substr(source, 1, 7), attempts FROM failures \
                     UNION ALL SELECT 'progress', state || ' ' || kind, objects FROM progress \
                     UNION ALL SELECT 'uploads', 'all', count(*) FROM uploads \
                     UNION ALL SELECT 'worker', host, objects FROM by_worker ORDER BY 1, 2";
const SHOWN: &str = "failed|missing of folder/|1\nprogress|done objects|100\nuploads|all|0\n\
                     worker|fast<b>|99\nworker|slow|0";

/// What a file answers to [`VIEWS`].
fn views(path: &Path) -> String {
    let file = rusqlite::Connection::open(path).unwrap();
    let mut asked = file.prepare(VIEWS).unwrap();
    let line = |row: &rusqlite::Row<'_>| -> rusqlite::Result<String> {
        Ok(format!("{}|{}|{}", row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
    };
    let lines: rusqlite::Result<Vec<String>> = asked.query_map([], line).unwrap().collect();
    lines.unwrap().join("\n")
}

fn is_shown(mut ledger: SqlLedger, clock: &Arc<AtomicI64>, steps: u64) {
    live(&mut ledger, clock, steps);
    let status = ledger.status().unwrap();
    // What `slow` lost the other one took, and nothing is overdue now.
    assert_eq!((status.lost_leases, status.overdue, status.now), (1, 0, clock.load(Relaxed)));
    assert_eq!((status.moved.objects, status.failed, status.leased), (99, 1, 0));
    let fast = &status.workers[1];
    let told = fast.of_late.as_ref().unwrap();
    assert_eq!((&*told.limit, told.share, told.rate), ("disk", 0.75, 400));
    assert_eq!(status.workers[0].of_late, None);
    let (hosts, gone) = FleetPace::default().hosts(&status, None);
    assert_eq!((hosts.len(), &*hosts[0].host, gone), (1, "fast<b>", 1));

    let (_, history) = ledger.history().unwrap();
    assert_eq!((history.begin, history.hosts.len()), (START, 2));
    let fast = &history.hosts[0];
    assert_eq!((&*fast.host, fast.limit.as_ref().unwrap().0.as_str()), ("fast<b>", "disk"));
    let all = (steps as f64 * 10_000.0, steps * 4000);
    assert_eq!((fast.at_work.held.round(), fast.at_work.bytes), all);
    assert!(fast.spans.len() > 100, "{}", fast.spans.len());
    // The other one told nothing.
    assert!(history.hosts[1].spans.is_empty() && history.hosts[1].limit.is_none());
    let (_, last) = history.steps.last().unwrap();
    assert_eq!(*last, [99, 990, 1]);
    assert_eq!((&*history.failed[0].class, history.failed[0].attempts), ("missing", 1));
    assert_eq!((history.slow[0].took, history.slow[0].objects), (9050, 10));
    assert!(history.slow[0].name.starts_with("folder/"), "{:?}", history.slow[0]);
}

#[test]
fn a_file_is_shown() {
    let (folder, clock) = (folder(), clock());
    let path = folder.path().join("l.db");
    is_shown(sqlite(&path, &clock), &clock, 181);
    assert_eq!(views(&path), SHOWN);
}

#[test]
fn spans_of_a_long_life_are_summed_by_the_file() {
    let (folder, clock) = (folder(), clock());
    is_shown(sqlite(&folder.path().join("l.db"), &clock), &clock, 281);
}

#[test]
fn a_database_is_shown() {
    let Some(cluster) = Cluster::start() else { return };
    let clock = clock();
    is_shown(postgres::ledger(&cluster, "shown", &clock), &clock, 281);
    assert_eq!(cluster.answers(&["SET search_path TO shown", VIEWS]), SHOWN);
}

#[test]
fn a_batch_whose_lease_has_ended_is_told_of_while_nobody_takes_it() {
    let (folder, clock) = (folder(), clock());
    let mut ledger = sqlite(&folder.path().join("l.db"), &clock);
    plan(&mut ledger, 10, 10);
    let who = WorkerIdentity { host: "h".to_owned(), pid: 1, version: "1".to_owned() };
    let worker = ledger.join(&who).unwrap();
    assert!(matches!(ledger.claim(worker, LEASE).unwrap(), Claimed::Batch(_)));
    clock.fetch_add(31_000, Relaxed);
    let status = ledger.status().unwrap();
    assert_eq!((status.lost_leases, status.overdue, status.workers[0].overdue), (1, 1, 1));
    let (hosts, _) = FleetPace::default().hosts(&status, None);
    assert_eq!(hosts[0].differs.as_deref(), Some("1 of its leases ended"));
}

#[test]
fn a_list_that_makes_no_sense_is_told_of_as_damage() {
    let (folder, clock) = (folder(), clock());
    let path = folder.path().join("l.db");
    let mut ledger = sqlite(&path, &clock);
    live(&mut ledger, &clock, 1);
    drop(ledger);
    rusqlite::Connection::open(&path).unwrap().execute("UPDATE manifest SET lines = x'00'", []).unwrap();
    let error = sqlite(&path, &clock).history().expect_err("damage");
    assert!(matches!(error, FleetError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("the list of a batch makes no sense"), "{error}");
}
