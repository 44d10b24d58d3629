//! The ledger's real statements on real databases, under a clock of the test.
#![allow(clippy::unwrap_used, reason = "a test that fails")]

mod cluster;
mod judging;
mod looking;
mod machine;
mod migrations;
mod network;
mod planning;
mod postgres;
mod refusals;
mod rules;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use cluster::folder;
use weir_fleet::ledger::database::Now;
use weir_fleet::ledger::sqlite::SqliteDatabase;
use weir_fleet::ledger::{Patience, PlanEnds, PlannedBatch, SqlLedger, WorkerIdentity};
use weir_fleet::object::{FleetObject, pack};

/// A time of day in 2026, milliseconds.
const START: i64 = 1_780_000_000_000;

/// A lease.
const LEASE: Duration = Duration::from_secs(30);

fn clock() -> Arc<AtomicI64> {
    Arc::new(AtomicI64::new(START))
}

fn patience() -> Patience {
    Patience { longest: Duration::from_secs(60), stop: Arc::default() }
}

/// A ledger in a file, which may be new.
fn sqlite(path: &Path, clock: &Arc<AtomicI64>) -> SqlLedger {
    let database = SqliteDatabase::open(path, true, Now::Given(Arc::clone(clock))).expect("a database");
    SqlLedger::new(Box::new(database), patience())
}

fn ends() -> PlanEnds {
    PlanEnds { source: "/from/".to_owned(), target: "/to/".to_owned() }
}

fn who(pid: u32) -> WorkerIdentity {
    WorkerIdentity { host: format!("host{}", pid % 50), pid, version: "1.0.0".to_owned() }
}

fn object(number: usize, size: u64) -> FleetObject {
    let source = format!("folder/{number:07}").into_bytes();
    FleetObject { target: source.clone(), source, size: Some(size), ..FleetObject::default() }
}

fn batch(objects: &[FleetObject]) -> PlannedBatch {
    let bytes = objects.iter().filter_map(|object| object.size).sum();
    PlannedBatch { objects: objects.len() as u64, bytes, lines: pack(objects) }
}

/// Plans objects of ten bytes each, so many a batch.
fn plan(ledger: &mut SqlLedger, count: usize, of_a_batch: usize) -> Vec<FleetObject> {
    let objects: Vec<_> = (0..count).map(|number| object(number, 10)).collect();
    let mut lease = ledger.begin(&ends(), "a test", 5).expect("a plan");
    let batches: Vec<_> = objects.chunks(of_a_batch).map(batch).collect();
    ledger.append(&mut lease, &batches, &[]).expect("batches");
    ledger.seal(&lease).expect("a seal");
    objects
}
