//! Objects that were given up, and are to be tried again.

use std::collections::{BTreeMap, HashSet};

use super::super::database::{DatabaseError, Row, Transaction, Value};
use super::moving::{Offshoot, keep, objects};
use super::{SqlLedger, must};
use crate::class::FailureClass;
use crate::error::FleetError;
use crate::object::{FleetObject, unpack};

/// Objects of a batch that tries again, as of any other.
const OBJECTS: usize = 1000;

/// A row of the table of failures.
struct Failed {
    batch: i64,
    position: i64,
    object: FleetObject,
    large: Option<i64>,
    has_changed: bool,
}

impl Failed {
    fn of(row: &Row) -> Option<Failed> {
        let mut object = row.bytes(2).and_then(unpack)?.into_iter().next()?;
        // What the source was then it is no more: who tries again takes it as it is.
        let has_changed = row.text(3).and_then(FailureClass::parse) == Some(FailureClass::Changed);
        if has_changed {
            object = FleetObject { size: None, mtime: None, etag: None, ..object };
        }
        Some(Failed { batch: row.int(0)?, position: row.int(1)?, object, large: row.int(4), has_changed })
    }
}

impl SqlLedger {
    /// Gives all that failed another round of attempts, or what failed by one of these classes alone. Returns
    /// how many objects.
    pub fn retry(&mut self, classes: &[FailureClass]) -> Result<u64, FleetError> {
        self.act(|transaction, _| retry(transaction, classes))
    }
}

fn retry(transaction: &mut dyn Transaction, classes: &[FailureClass]) -> Result<u64, DatabaseError> {
    // Who else tries again waits for this: each failure gets one more round.
    transaction.query("SELECT one FROM ledger {lock}", &[])?;
    let rows = transaction.query(
        "SELECT f.batch, f.position, f.line, f.class, b.large FROM failure f JOIN batch b ON b.id = f.batch \
         WHERE f.retried IS NULL ORDER BY f.batch, f.position",
        &[],
    )?;
    let is_meant = |row: &&Row| {
        let class = row.text(3).and_then(FailureClass::parse);
        classes.is_empty() || class.is_some_and(|class| classes.contains(&class))
    };
    let failed = rows.iter().filter(is_meant).map(|row| must(Failed::of(row), "a failure"));
    let failed: Vec<Failed> = failed.collect::<Result<_, _>>()?;
    let (large, small): (Vec<_>, Vec<_>) = failed.iter().partition(|failed| failed.large.is_some());
    for failed in &large {
        match failed.has_changed {
            true => begin_whole(transaction, failed)?,
            false => begin_again(transaction, failed)?,
        }
    }
    for group in small.chunks(OBJECTS) {
        let objects: Vec<_> = group.iter().map(|failed| failed.object.clone()).collect();
        let parent = must(group.first(), "a failure")?.batch;
        let batch =
            Offshoot { objects: &objects, parent, pause: 0, tries: 0, avoid: None }.insert(transaction)?;
        for failed in group {
            mark(transaction, failed, batch)?;
        }
    }
    take_out(transaction, &small)?;
    Ok(failed.len() as u64)
}

fn mark(transaction: &mut dyn Transaction, failed: &Failed, batch: i64) -> Result<(), DatabaseError> {
    let sql = "UPDATE failure SET retried = $3 WHERE batch = $1 AND position = $2";
    transaction.execute(sql, &[failed.batch.into(), failed.position.into(), batch.into()])?;
    Ok(())
}

/// The batches that they were of have them no more.
fn take_out(transaction: &mut dyn Transaction, failed: &[&Failed]) -> Result<(), DatabaseError> {
    let mut by_batch = BTreeMap::<i64, HashSet<&[u8]>>::new();
    for failed in failed {
        by_batch.entry(failed.batch).or_default().insert(&failed.object.target);
    }
    for (batch, targets) in by_batch {
        let mut kept = objects(transaction, batch)?;
        kept.retain(|object| !targets.contains(&*object.target));
        keep(transaction, batch, &kept)?;
        let sql = "UPDATE batch SET failed = failed - $2 WHERE id = $1";
        transaction.execute(sql, &[batch.into(), (targets.len() as u64).into()])?;
    }
    Ok(())
}

/// Plans a large object that has changed anew, whole, for one worker: its old ranges no longer fit. Their
/// rows stay, emptied, because a worker that still holds one will ask about it.
fn begin_whole(transaction: &mut dyn Transaction, failed: &Failed) -> Result<(), DatabaseError> {
    let (objects, parent) = (std::slice::from_ref(&failed.object), failed.batch);
    let batch = Offshoot { objects, parent, pause: 0, tries: 0, avoid: None }.insert(transaction)?;
    mark(transaction, failed, batch)?;
    transaction.execute(
        "UPDATE batch SET kind = 'past', objects = 0, bytes = 0, failed = 0, moved = 0, moved_bytes = 0, \
         same = 0, same_bytes = 0 WHERE large = $1 AND kind <> 'abort'",
        &[failed.large.map_or(Value::Null, Value::Int)],
    )?;
    Ok(())
}

/// A large object, from its first byte: who brought its ranges may have left them half.
fn begin_again(transaction: &mut dyn Transaction, failed: &Failed) -> Result<(), DatabaseError> {
    let large = failed.large.map_or(Value::Null, Value::Int);
    let sql = "UPDATE large SET parts_done = 0, token = NULL WHERE id = $1";
    transaction.execute(sql, std::slice::from_ref(&large))?;
    transaction.execute(
        "UPDATE batch SET state = 'waiting', tries = 0, losses = 0, failed = 0, moved = 0, moved_bytes = 0, \
         same = 0, same_bytes = 0, note = NULL, finished = NULL, ask = NULL, avoid = NULL, \
         due = CASE WHEN kind = 'join' THEN $2 ELSE {now} END WHERE large = $1 AND kind <> 'abort'",
        &[large, i64::MAX.into()],
    )?;
    let sql = "DELETE FROM failure WHERE batch = $1 AND position = $2";
    transaction.execute(sql, &[failed.batch.into(), failed.position.into()])?;
    Ok(())
}
