//! The same statements on PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use weir_fleet::FleetError;
use weir_fleet::ledger::database::Now;
use weir_fleet::ledger::postgres::PostgresDatabase;
use weir_fleet::ledger::{Claimed, FleetLedger, LedgerPlace, Patience, SqlLedger};

use crate::cluster::Cluster;
use crate::machine::{self, Setting};
use crate::{LEASE, clock, ends, judging, patience, plan, who};

pub fn ledger(cluster: &Cluster, schema: &str, clock: &Arc<AtomicI64>) -> SqlLedger {
    let url = cluster.url(schema).parse().expect("an address");
    let database = PostgresDatabase::open(&url, true, Now::Given(Arc::clone(clock))).expect("a database");
    SqlLedger::new(Box::new(database), patience())
}

#[test]
fn a_fleet_on_postgresql_moves_every_object_once_while_the_server_is_stopped_twenty_times() {
    let Some(cluster) = Cluster::start() else { return };
    let clock = clock();
    let mut ledger = ledger(&cluster, "fleet", &clock);
    let (over, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    let stops = std::thread::scope(|scope| {
        let stopper = scope.spawn(|| {
            let mut stops = 0;
            while !over.load(Relaxed) {
                // Each time some of the work is done: the clock goes on with it.
                let from = clock.load(Relaxed);
                while !over.load(Relaxed) && (!begun.load(Relaxed) || clock.load(Relaxed) < from + 1000) {
                    std::thread::yield_now();
                }
                if stops < 20 && !over.load(Relaxed) {
                    if stops % 2 == 0 {
                        cluster.stop()
                    } else {
                        cluster.kill()
                    }
                    cluster.begin();
                    stops += 1;
                }
            }
            stops
        });
        begun.store(true, Relaxed);
        let setting = Setting { seed: 11, workers: 40, objects: 4000, of_a_batch: 10, kills: 60 };
        let stood = machine::run(&mut ledger, &clock, setting);
        over.store(true, Relaxed);
        assert!(stood.kills > 30 && stood.lost > 20, "{stood:?}");
        stopper.join().expect("the stopper")
    });
    assert_eq!(stops, 20);
}

#[test]
fn many_workers_at_once_get_each_batch_once() {
    let Some(cluster) = Cluster::start() else { return };
    // The same cluster, for a start of one takes seconds.
    let judged = clock();
    judging::names_a_slow_host_and_has_one_axis(&mut ledger(&cluster, "judged", &judged), &judged);
    let clock = clock();
    let objects = plan(&mut ledger(&cluster, "fleet", &clock), 400, 2);
    let batches: Vec<i64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|pid| {
                let mut ledger = ledger(&cluster, "fleet", &clock);
                scope.spawn(move || {
                    let worker = ledger.join(&who(pid)).expect("a worker");
                    let mut had = Vec::new();
                    while let Claimed::Batch(claim) = ledger.claim(worker, LEASE).expect("an answer") {
                        had.push(claim.lease.batch);
                    }
                    had
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    });
    let mut once = batches.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!((batches.len(), once.len()), (objects.len() / 2, objects.len() / 2));
}

#[test]
fn a_server_that_is_away_is_waited_for_and_named_without_a_password() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.url("fleet");
    let place = LedgerPlace::parse(&url.replacen("fleet@", "fleet:secret@", 1)).unwrap();
    let absent = place.open(patience()).err().expect("no ledger").to_string();
    assert!(absent.contains("no ledger is there") && !absent.contains("secret"), "{absent}");
    place.open_or_create(patience()).unwrap().begin(&ends(), "a test", 5).unwrap();
    cluster.stop();
    let short = Patience { longest: Duration::from_millis(300), stop: Arc::default() };
    let away = place.open(short).err().expect("it is away");
    assert!(matches!(away, FleetError::Away { .. }) && !away.to_string().contains("secret"), "{away}");
    let told = Patience { longest: Duration::from_secs(600), stop: Arc::new(AtomicBool::new(true)) };
    let interrupted = place.open(told).err().expect("it is away");
    assert!(matches!(interrupted, FleetError::Interrupted { .. }), "{interrupted}");
    // It comes back while it is waited for.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| place.open(patience()).map(drop));
        cluster.begin();
        waiting.join().unwrap().expect("it is back");
    });
    // So is one that takes no writes for a while: a standby, until it becomes the primary.
    let set =
        "SET default_transaction_read_only = off; ALTER DATABASE postgres SET default_transaction_read_only";
    let joins = |longest| {
        let mut ledger = place.open(Patience { longest, stop: Arc::default() })?;
        ledger.join(&who(1)).map(drop)
    };
    cluster.does(&format!("{set} = on;"));
    let read_only = joins(Duration::from_millis(300)).unwrap_err();
    assert!(matches!(read_only, FleetError::Away { .. }), "{read_only}");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| joins(Duration::from_secs(60)));
        cluster.does(&format!("{set} = off;"));
        waiting.join().unwrap().expect("it is written to again");
    });
}
