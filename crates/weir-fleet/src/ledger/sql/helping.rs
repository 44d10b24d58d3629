//! The end of a fleet's work: who has nothing left takes from who would be the last.

use std::time::Duration;

use super::super::database::{DatabaseError, Row, Transaction};
use super::super::{BatchLease, Helped, Helper, WatchedBatch, WorkerId};
use super::claiming::{CLAIMED, asked_before, claim_of, enter};
use super::{millis, moving, must};

/// Who would be done within this time, in milliseconds, needs no help: to give, tell and begin takes about as
/// long.
const SOON: f64 = 2000.0;

/// Whoever takes all of a batch does again what its holder has done of it. How fast a holder is counts from
/// the moment on that the helper has nothing to do itself, since what the two share may be all that held it;
/// and over so many milliseconds, in which a holder tells some times how far it is.
const WATCHED: i64 = 5000;

/// How many times its own time for all of a batch a helper waits for a holder that tells of no byte: a store
/// that copies by itself says nothing until it has done so.
const SILENT: f64 = 4.0;

/// The watch is doubled with each time that a batch was given out before, this often at most: workers that
/// take a batch from each other in turns leave one of them the time that it needs.
const DOUBLED: i64 = 10;

/// Holders that are looked at: whoever is last is among those that have most left.
const LOOKED_AT: i64 = 200;

/// A batch that somebody has.
struct Straggler {
    lease: BatchLease,
    /// Not begun; zero where it cannot be cut.
    left: u64,
    objects: u64,
    /// All bytes of it: whoever takes it begins anew.
    bytes: u64,
    /// Bytes that its holder has moved.
    moved: u64,
    /// Milliseconds that the rest takes the holder, as fast as it has been.
    time: f64,
}

impl Straggler {
    /// `None`: it makes no sense, or has just begun.
    fn of(row: &Row, now: i64) -> Option<Straggler> {
        let elapsed = now.saturating_sub(row.int(6)?) as f64;
        let (bytes, moved) = (row.count(4), row.count(5));
        let (objects, reached) = (row.count(2), row.count(3));
        // Of objects without a byte it is their number that takes time.
        let done = match bytes > 0 {
            true => moved as f64 / bytes as f64,
            false => reached as f64 / objects.max(1) as f64,
        };
        let time = match done > 0.0 {
            true => elapsed * (1.0 - done).max(0.0) / done,
            // Nothing yet: as long again as it took to move nothing, and all the rest.
            false => elapsed * 4.0,
        };
        let left = if row.text(7) == Some("objects") { objects.saturating_sub(reached) } else { 0 };
        let lease = BatchLease { batch: row.int(0)?, fence: row.int(1)? };
        Some(Straggler { lease, left, objects, bytes, moved, time })
    }

    fn can_be_cut(&self) -> bool {
        self.left > 0 && self.objects > 1 && self.time > SOON
    }

    /// Whether a helper at `pace`, in bytes a second, who has watched it since `before`, would have all of it
    /// in less than half the time. `None`: that can be said later.
    fn is_worth_taking(&self, pace: u64, before: &WatchedBatch, now: i64) -> Option<bool> {
        let watched = now.saturating_sub(before.since);
        if watched < WATCHED << (self.lease.fence - 1).clamp(0, DOUBLED) {
            return None;
        }
        let own = self.bytes as f64 * 1000.0 / pace.max(1) as f64;
        let (fresh, left) = (self.moved.saturating_sub(before.bytes), self.bytes.saturating_sub(self.moved));
        if fresh == 0 {
            return (watched as f64 >= own * SILENT).then_some(left > 0);
        }
        let time = left as f64 * watched as f64 / fresh as f64;
        Some(time > SOON && own * 2.0 < time)
    }
}

pub(super) fn help(
    transaction: &mut dyn Transaction,
    worker: WorkerId,
    length: Duration,
    helper: &Helper,
    (ask, again): (i64, bool),
) -> Result<Helped, DatabaseError> {
    let hall = enter(transaction, worker)?;
    if again && let Some(row) = asked_before(transaction, ask)? {
        return Ok(Helped::Batch(Box::new(claim_of(transaction, &row, length, &hall)?)));
    }
    if hall.closed(transaction, worker)?.is_some() {
        return Ok(Helped::Watch(Vec::new()));
    }
    let rows = transaction.query(
        "SELECT id, fence, objects, reached, bytes, progress, started, kind FROM batch \
         WHERE state = 'leased' AND due > {now} AND worker <> $1 ORDER BY bytes - progress DESC LIMIT $2",
        &[worker.0.into(), LOOKED_AT.into()],
    )?;
    let mut stragglers: Vec<_> = rows.iter().filter_map(|row| Straggler::of(row, hall.now)).collect();
    stragglers.sort_by(|a, b| b.time.total_cmp(&a.time));
    let pace = match helper.pace {
        Some(pace) => pace,
        None => typical(transaction)?,
    };
    let mut watched = Vec::new();
    for straggler in stragglers {
        let seen = (helper.watched.as_slice(), &mut watched);
        let is_taken = straggler.can_be_cut() || is_seen_slow(&straggler, pace, hall.now, seen);
        if !is_taken {
            continue;
        }
        let Some(batch) = taken_from(transaction, &straggler)? else { continue };
        let sql = format!(
            "UPDATE batch SET state = 'leased', fence = fence + 1, worker = $2, ask = $3, started = {{now}}, \
             reached = 0, progress = 0, due = {{now}} + CAST($4 AS BIGINT) WHERE id = $1 RETURNING {CLAIMED}"
        );
        let values = [batch.into(), worker.0.into(), ask.into(), millis(length)];
        let rows = transaction.query(&sql, &values)?;
        let row = must(rows.first(), "a batch")?;
        return Ok(Helped::Batch(Box::new(claim_of(transaction, row, length, &hall)?)));
    }
    Ok(Helped::Watch(watched))
}

/// Bytes a second of the worker that was the fastest since it joined: what is to be expected of one of which
/// nothing is known. A holder that is slower than that by much is held by what another may not have.
fn typical(transaction: &mut dyn Transaction) -> Result<u64, DatabaseError> {
    let sql = "SELECT max(bytes / (seen - joined)) FROM worker WHERE seen > joined";
    let rows = transaction.query(sql, &[])?;
    Ok(rows.first().map_or(0, |row| row.count(0)).saturating_mul(1000))
}

/// Whether all of it is better taken by who moves `pace` bytes a second. What is to be remembered until then,
/// or from now on, goes to `watched`.
fn is_seen_slow(
    straggler: &Straggler,
    pace: u64,
    now: i64,
    (known, watched): (&[WatchedBatch], &mut Vec<WatchedBatch>),
) -> bool {
    // A watch that began later than now is of before the clock was set back.
    let before = known.iter().find(|watched| watched.lease == straggler.lease && watched.since <= now);
    let slow = before.and_then(|before| straggler.is_worth_taking(pace, before, now));
    let first = WatchedBatch { lease: straggler.lease, since: now, bytes: straggler.moved };
    watched.push(before.filter(|_| slow.is_none()).copied().unwrap_or(first));
    slow == Some(true)
}

/// The batch that the helper gets: the last half of what is not begun, or all of it.
fn taken_from(
    transaction: &mut dyn Transaction,
    straggler: &Straggler,
) -> Result<Option<i64>, DatabaseError> {
    let BatchLease { batch, fence } = straggler.lease;
    // As it was when it was looked at, and nobody else is changing it.
    let sql = "SELECT objects, reached FROM batch WHERE id = $1 AND fence = $2 AND state = 'leased' \
               {skip locked}";
    let rows = transaction.query(sql, &[batch.into(), fence.into()])?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (objects, left) = (row.count(0), row.count(0).saturating_sub(row.count(1)));
    if !straggler.can_be_cut() {
        return Ok(Some(batch));
    }
    let tail = left.div_ceil(2).min(objects.saturating_sub(1));
    if tail == 0 {
        return Ok(None);
    }
    moving::split(transaction, batch, objects - tail, None).map(Some)
}
