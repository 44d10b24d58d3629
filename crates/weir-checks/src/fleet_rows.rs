//! Rows of a fleet's ledger that a stranger wrote: whatever stands in them, no question of a worker or of a
//! person panics or waits, and what is answered holds. A batch that is handed out has as many objects as its
//! row says and a range that is inside its object, and no fleet is called complete of which a batch is not
//! done.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_fleet::FleetError;
use weir_fleet::class::FailureClass;
use weir_fleet::ledger::database::{Act, Database, DatabaseError, Now, Value};
use weir_fleet::ledger::sqlite::SqliteDatabase;
use weir_fleet::ledger::{
    BatchClaim, BatchResults, BatchWork, Claimed, FleetLedger, Helped, Helper, ObjectFailure, Patience,
    PlanEnds, PlannedBatch, PlannedLarge, SqlLedger, Tally, VerdictSpan, WorkerId, WorkerIdentity,
};
use weir_fleet::object::{FleetObject, MAX_BYTES, pack, pack_lines, unpack};

use crate::Input;

/// The columns of the tables, but for their keys.
pub(crate) const COLUMNS: &[(&str, &str)] = &[
    ("ledger", "version"),
    ("ledger", "source"),
    ("ledger", "sealed"),
    ("ledger", "early"),
    ("ledger", "next_batch"),
    ("ledger", "objects"),
    ("ledger", "bytes"),
    ("ledger", "attempts"),
    ("ledger", "paused"),
    ("ledger", "draining"),
    ("ledger", "workers"),
    ("ledger", "rate"),
    ("ledger", "hours"),
    ("batch", "kind"),
    ("batch", "state"),
    ("batch", "objects"),
    ("batch", "bytes"),
    ("batch", "priority"),
    ("batch", "due"),
    ("batch", "fence"),
    ("batch", "losses"),
    ("batch", "tries"),
    ("batch", "avoid"),
    ("batch", "worker"),
    ("batch", "ask"),
    ("batch", "reached"),
    ("batch", "progress"),
    ("batch", "moved"),
    ("batch", "moved_bytes"),
    ("batch", "same"),
    ("batch", "failed"),
    ("batch", "parent"),
    ("batch", "large"),
    ("batch", "part"),
    ("batch", "range_start"),
    ("batch", "range_end"),
    ("batch", "note"),
    ("manifest", "lines"),
    ("large", "line"),
    ("large", "parts"),
    ("large", "parts_done"),
    ("large", "token"),
    ("failure", "position"),
    ("failure", "class"),
    ("failure", "line"),
    ("worker", "host"),
    ("worker", "seen"),
    ("worker", "departed"),
    ("worker", "objects"),
    ("verdict", "share"),
    ("verdict", "length"),
];

/// Changes of an input.
const CHANGES: usize = 6;

/// Questions for a batch, of each worker.
const CLAIMS: usize = 12;

/// A time in 2026, milliseconds since 1970.
const START: i64 = 1_780_000_000_000;

const LEASE: Duration = Duration::from_secs(30);

/// A database in memory, which a ledger and the stranger share.
#[derive(Clone)]
struct Shared(Arc<Mutex<SqliteDatabase>>);

impl Database for Shared {
    fn transact(&mut self, act: Act<'_>) -> Result<(), DatabaseError> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).transact(act)
    }

    fn place(&self) -> &str {
        "a ledger"
    }

    fn has_ledger(&self) -> &'static str {
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'ledger'"
    }
}

impl Shared {
    fn does(&mut self, sql: &str, values: &[Value]) -> Option<Vec<Option<i64>>> {
        let mut first = None;
        let done = self.transact(&mut |transaction| {
            first = Some(transaction.query(sql, values)?.iter().map(|row| row.int(0)).collect());
            Ok(())
        });
        first.filter(|_| done.is_ok())
    }
}

/// See the module.
pub fn check(bytes: &[u8]) -> bool {
    let clock = Arc::new(AtomicI64::new(START));
    let Ok(database) = SqliteDatabase::open(Path::new(":memory:"), true, Now::Given(Arc::clone(&clock)))
    else {
        return false;
    };
    let mut shared = Shared(Arc::new(Mutex::new(database)));
    if planned(SqlLedger::new(Box::new(shared.clone()), patience())).is_err() {
        return false;
    }
    let mut input = Input(bytes);
    let changes = usize::from(input.byte()) % (CHANGES + 1);
    for _ in 0..changes {
        change(&mut shared, &mut input);
    }
    let Ok(mut ledger) = SqlLedger::open(Box::new(shared.clone()), patience()) else { return false };
    let mut understood = ledger.ends().is_ok() & ledger.status().is_ok();
    for pid in 0..2 {
        let who = WorkerIdentity { host: format!("host{pid}"), pid, version: "1.0.0".to_owned() };
        let Ok(worker) = ledger.join(&who) else { return false };
        understood &= works(&mut ledger, &mut shared, worker, &clock, &mut input).is_ok();
        let _ = ledger.leave(worker);
    }
    asks(&mut ledger, &mut shared);
    understood
}

fn patience() -> Patience {
    Patience { longest: Duration::ZERO, stop: Arc::default() }
}

/// Two batches, a large object in two ranges, and a failure.
fn planned(mut ledger: SqlLedger) -> Result<(), FleetError> {
    let object = |number: u64, size| {
        let source = format!("folder/{number}").into_bytes();
        FleetObject { target: source.clone(), source, size: Some(size), ..FleetObject::default() }
    };
    let ends = PlanEnds { source: "/from/".to_owned(), target: "/to/".to_owned() };
    let mut lease = ledger.begin(&ends, "a check", 2)?;
    let batch = |numbers: std::ops::Range<u64>| {
        let objects: Vec<_> = numbers.map(|number| object(number, 10)).collect();
        PlannedBatch {
            objects: objects.len() as u64,
            bytes: 10 * objects.len() as u64,
            lines: pack(&objects),
        }
    };
    let large = PlannedLarge { line: pack([&object(9, 200)]), size: 200, range: 100 };
    ledger.append(&mut lease, &[batch(0..4), batch(4..8)], &[large])?;
    ledger.seal(&lease)?;
    let who = WorkerIdentity { host: "first".to_owned(), pid: 1, version: "1.0.0".to_owned() };
    let worker = ledger.join(&who)?;
    ledger.tell(
        worker,
        &[VerdictSpan { start: 0, length: 9, limit: "network".to_owned(), share: 1.0, bytes: 1 }],
    )?;
    // One batch is held, and of another one an object was given up.
    ledger.claim(worker, LEASE)?;
    while let Claimed::Batch(claim) = ledger.claim(worker, LEASE)? {
        if matches!(claim.work, BatchWork::Objects(_)) {
            ledger.finish(claim.lease, &results(&claim, Some(FailureClass::Missing)))?;
            break;
        }
    }
    Ok(())
}

/// The stranger writes a value into a column, of one row or of all.
fn change(shared: &mut Shared, input: &mut Input<'_>) {
    let (table, column) = COLUMNS[usize::from(input.byte()) % COLUMNS.len()];
    let row = i64::from(input.byte() % 6);
    let value = match input.byte() % 8 {
        0 => Value::Null,
        1 => Value::Int(input.long() as i64),
        2 => Value::Int(i64::from(input.byte()) - 4),
        3 => Value::Real(f64::from_bits(input.long())),
        4 => Value::Text(input.text().into_owned()),
        5 => Value::Bytes(input.text().into_owned().into_bytes()),
        // A list that is packed as it must be, of lines that may be none.
        6 => Value::Bytes(pack_lines(input.text().as_bytes())),
        _ => ["objects", "range", "join", "waiting", "leased", "done", "abort"]
            .get(usize::from(input.byte()) % 8)
            .map_or(Value::Int(i64::MAX), |word| Value::Text((*word).to_owned())),
    };
    let sql = format!("UPDATE {table} SET {column} = $1 WHERE $2 = 0 OR rowid = $2 RETURNING 1");
    // The table refused these values, so there is no row to read.
    let _ = shared.does(&sql, &[value, Value::Int(row)]);
}

/// Results for a claim: all objects moved, or all but one.
fn results(claim: &BatchClaim, failed: Option<FailureClass>) -> BatchResults {
    let (count, bytes, note) = match &claim.work {
        BatchWork::Objects(objects) => (objects.len() as u64, 0, None),
        BatchWork::Range(_, range) => (1, range.range.end - range.range.start, Some("a part".to_owned())),
        BatchWork::Join(..) | BatchWork::Abort(..) => (1, 0, None),
    };
    let failure = |class| ObjectFailure { position: 0, class, reason: "it failed".to_owned() };
    let failures: Vec<_> = failed.into_iter().map(failure).collect();
    let objects = count - (failures.len() as u64).min(count);
    let bytes = if failures.is_empty() { bytes } else { 0 };
    BatchResults {
        covered: count,
        moved: Tally { objects, bytes },
        failures,
        note,
        ..BatchResults::default()
    }
}

/// Works as a worker does, to the end or until it has asked often.
fn works(
    ledger: &mut SqlLedger,
    shared: &mut Shared,
    worker: WorkerId,
    clock: &AtomicI64,
    input: &mut Input<'_>,
) -> Result<(), FleetError> {
    let mut helper = Helper { pace: Some(1 << 20), watched: Vec::new() };
    for _ in 0..CLAIMS {
        let claim = match ledger.claim(worker, LEASE)? {
            Claimed::Batch(claim) => *claim,
            Claimed::Wait(..) => {
                clock.fetch_add(70_000, Relaxed);
                match ledger.help(worker, LEASE, &helper)? {
                    Helped::Batch(claim) => *claim,
                    Helped::Watch(watched) => {
                        helper.watched = watched;
                        continue;
                    }
                }
            }
            Claimed::Leave => return Ok(()),
            Claimed::Complete => {
                let open = shared.does("SELECT count(*) FROM batch WHERE state IS NOT 'done'", &[]);
                assert_eq!(open, Some(vec![Some(0)]), "complete, and a batch is not done");
                return Ok(());
            }
        };
        holds(shared, &claim);
        ledger.renew(claim.lease, LEASE, 1, 1)?;
        match input.byte() % 8 {
            0 => drop(ledger.release(claim.lease)?),
            1 => drop(ledger.finish(claim.lease, &results(&claim, Some(FailureClass::Busy)))?),
            2 => drop(ledger.finish(claim.lease, &BatchResults::default()).is_ok()),
            3 => drop(ledger.fail(claim.lease)?),
            _ => drop(ledger.finish(claim.lease, &results(&claim, None))?),
        }
    }
    Ok(())
}

/// A claim hands out what its row says.
fn holds(shared: &mut Shared, claim: &BatchClaim) {
    match &claim.work {
        BatchWork::Objects(objects) => {
            let said = shared.does("SELECT objects FROM batch WHERE id = $1", &[claim.lease.batch.into()]);
            assert_eq!(said, Some(vec![Some(objects.len() as i64)]), "another number of objects");
            let bytes = objects.iter().map(|object| u128::from(object.size.unwrap_or(0))).sum::<u128>();
            assert!(bytes <= u128::from(MAX_BYTES), "{bytes} bytes");
            assert_eq!(unpack(&pack(objects)).as_ref(), Some(objects), "it cannot be written again");
        }
        BatchWork::Abort(_, upload) => assert!(upload.len() <= 1 << 20, "{upload}"),
        BatchWork::Range(object, range) | BatchWork::Join(object, range, _) => {
            assert!(range.range.start <= range.range.end, "{range:?}");
            assert!(object.size.is_none_or(|size| range.range.end <= size), "{range:?} of {object:?}");
        }
    }
}

/// What people ask and do.
fn asks(ledger: &mut SqlLedger, shared: &mut Shared) {
    if let Ok(status) = ledger.status() {
        let open = shared.does("SELECT count(*) FROM batch WHERE state IS NOT 'done'", &[]);
        assert!(!status.complete || open == Some(vec![Some(0)]), "complete, and a batch is not done");
    }
    let _ = ledger.share_token(1, "a token");
    let _ = ledger.each_object(&mut |_| ());
    let _ = ledger.each_row(&mut |_, _| Ok::<(), FleetError>(()));
    let _ = ledger.retry(&[]);
    let _ = ledger.set(&|settings| settings.paused = !settings.paused);
    let _ = ledger.status();
}
