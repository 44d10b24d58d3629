//! The end of a fleet's work: who has nothing left takes from who would be the last.

use std::time::Duration;

use super::super::database::{DatabaseError, Row, Transaction};
use super::super::{BatchClaim, WorkerId};
use super::claiming::{CLAIMED, asked_before, claim_of, enter};
use super::{millis, moving, must};

/// Who would be done within this time, in milliseconds, needs no help: to give, tell and begin takes about as
/// long.
const SOON: f64 = 2000.0;

/// Whoever takes all of a batch does again what its holder has done of it and not yet told: not sooner than
/// after this time, in milliseconds, in which a holder has told some times how far it is.
const WATCHED: f64 = 6000.0;

/// Holders that are looked at: whoever is last is among those that have most left.
const LOOKED_AT: i64 = 200;

/// A batch that somebody has.
struct Straggler {
    batch: i64,
    fence: i64,
    /// Not begun; zero where it cannot be cut.
    left: u64,
    objects: u64,
    /// All bytes of it: whoever takes it begins anew.
    bytes: f64,
    /// Milliseconds that they take the holder.
    time: f64,
    /// Milliseconds since it has the batch.
    elapsed: f64,
}

impl Straggler {
    /// `None`: it makes no sense, or has just begun.
    fn of(row: &Row, now: i64) -> Option<Straggler> {
        let elapsed = now.saturating_sub(row.int(6)?) as f64;
        let (bytes, moved) = (row.int(4)? as f64, row.int(5)? as f64);
        let (objects, reached) = (row.count(2), row.count(3));
        // Of objects without a byte it is their number that takes time.
        let done = match bytes > 0.0 {
            true => moved / bytes,
            false => reached as f64 / objects.max(1) as f64,
        };
        let time = match done > 0.0 {
            true => elapsed * (1.0 - done).max(0.0) / done,
            // Nothing yet: as long again as it took to move nothing, and all the rest.
            false => elapsed * 4.0,
        };
        let left = if row.text(7) == Some("objects") { objects.saturating_sub(reached) } else { 0 };
        Some(Straggler { batch: row.int(0)?, fence: row.int(1)?, left, objects, bytes, time, elapsed })
    }

    /// Whether a helper at `pace`, in bytes a second, would have all of it in less than half the time.
    fn is_worth_taking(&self, pace: u64) -> bool {
        let own = self.bytes * 1000.0 / pace.max(1) as f64;
        self.time > SOON && self.elapsed >= WATCHED && own * 2.0 < self.time
    }
}

pub(super) fn help(
    transaction: &mut dyn Transaction,
    worker: WorkerId,
    length: Duration,
    pace: u64,
    (ask, again): (i64, bool),
) -> Result<Option<BatchClaim>, DatabaseError> {
    let hall = enter(transaction, worker)?;
    if again && let Some(row) = asked_before(transaction, ask)? {
        return claim_of(transaction, &row, length, &hall).map(Some);
    }
    if hall.closed(transaction, worker)?.is_some() {
        return Ok(None);
    }
    let rows = transaction.query(
        "SELECT id, fence, objects, reached, bytes, progress, started, kind FROM batch \
         WHERE state = 'leased' AND due > {now} AND worker <> $1 ORDER BY bytes - progress DESC LIMIT $2",
        &[worker.0.into(), LOOKED_AT.into()],
    )?;
    let mut stragglers: Vec<_> = rows.iter().filter_map(|row| Straggler::of(row, hall.now)).collect();
    stragglers.sort_by(|a, b| b.time.total_cmp(&a.time));
    for straggler in stragglers {
        let Some(batch) = taken_from(transaction, &straggler, pace)? else { continue };
        let sql = format!(
            "UPDATE batch SET state = 'leased', fence = fence + 1, worker = $2, ask = $3, started = {{now}}, \
             reached = 0, progress = 0, due = {{now}} + CAST($4 AS BIGINT) WHERE id = $1 RETURNING {CLAIMED}"
        );
        let values = [batch.into(), worker.0.into(), ask.into(), millis(length)];
        let rows = transaction.query(&sql, &values)?;
        let row = must(rows.first(), "a batch")?;
        return claim_of(transaction, row, length, &hall).map(Some);
    }
    Ok(None)
}

/// The batch that the helper gets: the last half of what is not begun, or all of it.
fn taken_from(
    transaction: &mut dyn Transaction,
    straggler: &Straggler,
    pace: u64,
) -> Result<Option<i64>, DatabaseError> {
    let is_cut = straggler.left > 0 && straggler.objects > 1 && straggler.time > SOON;
    if !is_cut && !straggler.is_worth_taking(pace) {
        return Ok(None);
    }
    // As it was when it was looked at, and nobody else is changing it.
    let sql = "SELECT objects, reached FROM batch WHERE id = $1 AND fence = $2 AND state = 'leased' \
               {skip locked}";
    let rows = transaction.query(sql, &[straggler.batch.into(), straggler.fence.into()])?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (objects, left) = (row.count(0), row.count(0).saturating_sub(row.count(1)));
    if !is_cut {
        return Ok(Some(straggler.batch));
    }
    let tail = left.div_ceil(2).min(objects.saturating_sub(1));
    if tail == 0 {
        return Ok(None);
    }
    moving::split(transaction, straggler.batch, objects - tail, None).map(Some)
}
