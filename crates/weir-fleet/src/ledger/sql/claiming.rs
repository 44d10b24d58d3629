//! Who joins, and who gets which batch for how long.

use std::time::Duration;

use super::super::database::{DatabaseError, Row, Transaction, Value};
use super::super::{
    BatchClaim, BatchLease, BatchWork, Claimed, FleetSettings, Renewed, WaitReason, WorkerId, WorkerIdentity,
};
use super::finishing::{MAX_PAUSE, pause_after};
use super::{millis, moving, must, one};
use crate::class::FailureClass;
use crate::ledger::window::Window;
use crate::object::{FleetObject, ObjectRange, unpack};

/// A host on which objects failed gets them again after all when nobody else took them for so long,
/// milliseconds; at once where no other host is there.
const AVOIDS: i64 = 60_000;

/// After so many leases that ended without a word a batch is halved each time it is given out, until what
/// ends workers is alone. A host that is switched off, or two, is no reason to.
const MAX_LOSSES: u64 = 3;

/// So many leases of an object alone: it is put aside. From 1000 objects on it takes ten halvings to be
/// alone; what is alone by chance gets four more leases.
const MAX_LOSSES_ALONE: u64 = MAX_LOSSES - 1 + 4;

/// How soon a paused worker looks again.
const LOOKS_AGAIN: Duration = Duration::from_secs(2);

/// How soon one looks again that has only to wait for others, in milliseconds: all that ever joined together
/// ask this many times a second at most, but each every five seconds, so that whoever waits for the last
/// batch of a small fleet does not wait for long after it.
const ASKED: i64 = 500;
const SOONEST: i64 = 100;
const LATEST: i64 = 5000;

/// A worker without a word for so long that holds nothing any more is gone, milliseconds: two leases, in each
/// of which it renews three times. An idle one asks every 5 s.
pub const GONE: u64 = 60_000;

/// The columns that [`claim_of`] reads.
pub(super) const CLAIMED: &str =
    "id, fence, kind, losses, objects, large, part, range_start, range_end, tries";

pub(super) fn join(
    transaction: &mut dyn Transaction,
    who: &WorkerIdentity,
    ask: i64,
) -> Result<WorkerId, DatabaseError> {
    // Two that come at once may want the same number, and one of them the next.
    for _ in 0..1000 {
        transaction.execute(
            "INSERT INTO worker (id, ask, host, pid, version, joined, seen) \
             SELECT coalesce(max(id), 0) + 1, CAST($1 AS BIGINT), $2, CAST($3 AS BIGINT), $4, {now}, {now} \
             FROM worker WHERE 1 = 1 ON CONFLICT DO NOTHING",
            &[ask.into(), (&*who.host).into(), i64::from(who.pid).into(), (&*who.version).into()],
        )?;
        let rows = transaction.query("SELECT id FROM worker WHERE ask = $1", &[ask.into()])?;
        if let Some(id) = rows.first().and_then(|row| row.int(0)) {
            return Ok(WorkerId(id));
        }
    }
    Err(DatabaseError::Passing("too many workers join at once".to_owned()))
}

pub(super) fn leave(transaction: &mut dyn Transaction, worker: WorkerId) -> Result<(), DatabaseError> {
    let worker = &[worker.0.into()];
    transaction.execute(
        "UPDATE batch SET state = 'waiting', due = {now}, ask = NULL WHERE worker = $1 AND state = 'leased'",
        worker,
    )?;
    transaction.execute("UPDATE worker SET departed = {now}, seen = {now} WHERE id = $1", worker)?;
    Ok(())
}

/// What holds for everybody who wants work.
pub(super) struct Hall {
    /// As they are set.
    pub settings: FleetSettings,
    /// Milliseconds since 1970.
    pub now: i64,
    /// The asker's.
    pub host: String,
    attempts: u64,
    is_sealed: bool,
    is_early: bool,
    /// Somebody writes the plan.
    is_planned: bool,
}

/// Looks who asks, and what is set.
pub(super) fn enter(transaction: &mut dyn Transaction, worker: WorkerId) -> Result<Hall, DatabaseError> {
    let rows = transaction.query(
        "UPDATE worker SET seen = {now}, departed = NULL WHERE id = $1 RETURNING host",
        &[worker.0.into()],
    )?;
    let host = rows.first().and_then(|row| row.text(0)).map(str::to_owned);
    let host = host.ok_or_else(|| DatabaseError::Refused(format!("it knows no worker {}", worker.0)))?;
    let sql = "SELECT paused, draining, workers, rate, hours, sealed, {now}, early, attempts, plan_end - {now} \
               FROM ledger";
    let row = one(transaction.query(sql, &[])?, "its plan")?;
    Ok(Hall {
        settings: settings_of(&row),
        now: must(row.int(6), "its clock")?,
        host,
        attempts: row.count(8),
        is_sealed: row.int(5).is_some(),
        is_early: row.count(7) > 0,
        is_planned: row.count(9) > 0,
    })
}

fn settings_of(row: &Row) -> FleetSettings {
    FleetSettings {
        paused: row.count(0) > 0,
        draining: row.count(1) > 0,
        workers: row.int(2).and_then(|workers| workers.try_into().ok()),
        rate: row.int(3).and_then(|rate| rate.try_into().ok()),
        window: row.text(4).map(str::to_owned),
    }
}

pub(super) fn settings(transaction: &mut dyn Transaction) -> Result<FleetSettings, DatabaseError> {
    let sql = "SELECT paused, draining, workers, rate, hours FROM ledger";
    Ok(settings_of(&one(transaction.query(sql, &[])?, "its plan")?))
}

/// What a worker of `host` is told of `settings`: the rate is the host's, and its workers that hold batches
/// share it. One that waits for work moves nothing; one not heard of for a while may still move what it
/// holds.
fn of_a_worker(
    transaction: &mut dyn Transaction,
    settings: FleetSettings,
    host: &str,
) -> Result<FleetSettings, DatabaseError> {
    let Some(rate) = settings.rate else { return Ok(settings) };
    let sql = format!(
        "SELECT count(DISTINCT b.worker) FROM batch b JOIN worker w ON w.id = b.worker \
         WHERE b.state = 'leased' AND b.due > {{now}} - {GONE} AND w.host = $1"
    );
    let workers = one(transaction.query(&sql, &[host.into()])?, "a number")?.count(0);
    Ok(FleetSettings { rate: Some((rate / workers.max(1)).max(1)), ..settings })
}

impl Hall {
    /// What is said where there is no batch: for good, or until more are planned.
    fn over(&self) -> Claimed {
        match (self.is_sealed, self.is_planned) {
            (true, _) => Claimed::Complete,
            (false, true) => Claimed::Wait(WaitReason::Planning, LOOKS_AGAIN),
            (false, false) => Claimed::Wait(WaitReason::Abandoned, LOOKS_AGAIN),
        }
    }

    /// Why nothing is given out, to this worker, whatever there is.
    pub(super) fn closed(
        &self,
        transaction: &mut dyn Transaction,
        worker: WorkerId,
    ) -> Result<Option<Claimed>, DatabaseError> {
        if self.settings.draining {
            return Ok(Some(Claimed::Leave));
        }
        if self.settings.paused {
            return Ok(Some(Claimed::Wait(WaitReason::Paused, LOOKS_AGAIN)));
        }
        let window = self.settings.window.as_deref().map(str::parse::<Window>).transpose();
        if let Some(window) = window.map_err(DatabaseError::Damaged)?
            && let Some(wait) = window.opens_in(self.now)
        {
            return Ok(Some(Claimed::Wait(
                WaitReason::Window,
                wait.min(Duration::from_millis(LATEST as u64)),
            )));
        }
        if let Some(most) = self.settings.workers {
            let sql = "SELECT count(DISTINCT worker) FROM batch \
                       WHERE state = 'leased' AND due > {now} AND worker <> $1";
            let others = one(transaction.query(sql, &[worker.0.into()])?, "a number")?.count(0);
            if others >= u64::from(most) {
                return Ok(Some(Claimed::Wait(WaitReason::Workers, LOOKS_AGAIN)));
            }
        }
        Ok(None)
    }
}

pub(super) fn claim(
    transaction: &mut dyn Transaction,
    worker: WorkerId,
    length: Duration,
    (ask, again): (i64, bool),
) -> Result<Claimed, DatabaseError> {
    let hall = enter(transaction, worker)?;
    if again && let Some(row) = asked_before(transaction, ask)? {
        return Ok(Claimed::Batch(Box::new(claim_of(transaction, &row, length, &hall)?)));
    }
    if !is_anything_open(transaction)? || !(hall.is_sealed || hall.is_early) {
        return Ok(hall.over());
    }
    if let Some(closed) = hall.closed(transaction, worker)? {
        return Ok(closed);
    }
    loop {
        let Some(row) = take(transaction, worker, length, ask, &hall.host)? else {
            return held(transaction, &hall);
        };
        if !is_poisoned(transaction, &row)? {
            return Ok(Claimed::Batch(Box::new(claim_of(transaction, &row, length, &hall)?)));
        }
    }
}

/// What is not done, in the words of the two indexes.
const OPEN: [&str; 2] = ["state = 'leased'", "state = 'waiting'"];

fn is_anything_open(transaction: &mut dyn Transaction) -> Result<bool, DatabaseError> {
    for open in OPEN {
        if !transaction.query(&format!("SELECT id FROM batch WHERE {open} LIMIT 1"), &[])?.is_empty() {
            return Ok(true);
        }
    }
    // All is done then, or somebody wrote a state that no index has: at the end of a fleet it is worth the
    // look.
    let sql = "SELECT id FROM batch WHERE state <> 'done' LIMIT 1";
    match transaction.query(sql, &[])?.first().and_then(|row| row.int(0)) {
        Some(batch) => Err(DatabaseError::Damaged(format!("the state of batch {batch} makes no sense"))),
        None => Ok(false),
    }
}

/// The batch that an answer which got lost gave out.
pub(super) fn asked_before(
    transaction: &mut dyn Transaction,
    ask: i64,
) -> Result<Option<Row>, DatabaseError> {
    let sql = format!("SELECT {CLAIMED} FROM batch WHERE ask = $1 AND state = 'leased'");
    Ok(transaction.query(&sql, &[ask.into()])?.into_iter().next())
}

/// Takes a batch that is due: one whose lease has ended, which others wait for longest, or else the first
/// that waits. What waits for longer than any pause does so because the clock was set back, and is due too;
/// what is to join ranges waits for them, without a time.
fn take(
    transaction: &mut dyn Transaction,
    worker: WorkerId,
    length: Duration,
    ask: i64,
    host: &str,
) -> Result<Option<Row>, DatabaseError> {
    let pause = MAX_PAUSE.as_millis();
    let of_waiting = format!("(due <= {{now}} OR due > {{now}} + {pause} AND due < {})", i64::MAX);
    let of_leased = "due <= {now}".to_owned();
    for (open, (is_due, order)) in
        OPEN.into_iter().zip([(of_leased, "due"), (of_waiting, "priority DESC, id")])
    {
        let sql = format!(
            "UPDATE batch SET state = 'leased', fence = fence + 1, worker = $1, ask = $2, started = {{now}}, \
             losses = losses + CASE WHEN state = 'leased' THEN 1 ELSE 0 END, reached = 0, progress = 0, \
             due = {{now}} + CAST($3 AS BIGINT) WHERE id = (SELECT id FROM batch WHERE {open} \
             AND {is_due} AND (avoid IS NULL OR avoid <> $4 OR due + {AVOIDS} <= {{now}} OR NOT EXISTS \
             (SELECT 1 FROM worker o WHERE o.host <> $4 AND o.departed IS NULL AND o.seen > {{now}} - {GONE})) \
             ORDER BY {order} LIMIT 1 {{skip locked}}) RETURNING {CLAIMED}"
        );
        let values = [worker.0.into(), ask.into(), millis(length), host.into()];
        if let Some(row) = transaction.query(&sql, &values)?.into_iter().next() {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// Nothing is due: when something may be.
fn held(transaction: &mut dyn Transaction, hall: &Hall) -> Result<Claimed, DatabaseError> {
    let mut due: Option<i64> = None;
    for open in OPEN {
        let sql = format!("SELECT min(due) FROM batch WHERE {open}");
        let least = one(transaction.query(&sql, &[])?, "a time")?.int(0);
        due = due.into_iter().chain(least).min();
    }
    // The last one was put aside just now.
    let Some(due) = due else { return Ok(hall.over()) };
    let workers = one(transaction.query("SELECT max(id) FROM worker", &[])?, "a worker")?.int(0).unwrap_or(1);
    let between = workers.saturating_mul(1000 / ASKED).clamp(SOONEST, LATEST);
    // Not sooner than there can be something, where that is sooner.
    let wait = due.saturating_sub(hall.now).clamp(SOONEST, between);
    Ok(Claimed::Wait(WaitReason::Held, Duration::from_millis(wait.unsigned_abs())))
}

/// Whether a batch that was just taken is put aside instead. One of several objects that nobody comes back
/// from is halved first.
fn is_poisoned(transaction: &mut dyn Transaction, row: &Row) -> Result<bool, DatabaseError> {
    let (batch, losses, objects) = (must(row.int(0), "a batch")?, row.count(3), row.count(4));
    if losses < MAX_LOSSES {
        return Ok(false);
    }
    if row.text(2) == Some("objects") && objects > 1 {
        let half = moving::split(transaction, batch, objects.div_ceil(2), None)?;
        let sql = "UPDATE batch SET losses = $3 WHERE id = $1 OR id = $2";
        transaction.execute(sql, &[batch.into(), half.into(), (MAX_LOSSES - 1).into()])?;
        return Ok(false);
    }
    if losses < MAX_LOSSES_ALONE {
        return Ok(false);
    }
    let reason = format!("{losses} workers that had it were not heard of again");
    moving::give_up(transaction, batch, FailureClass::Poisoned, &reason)?;
    Ok(true)
}

/// What a row of [`CLAIMED`] gives to do.
pub(super) fn claim_of(
    transaction: &mut dyn Transaction,
    row: &Row,
    length: Duration,
    hall: &Hall,
) -> Result<BatchClaim, DatabaseError> {
    let lease = BatchLease { batch: must(row.int(0), "a batch")?, fence: must(row.int(1), "a fence")? };
    let work = match row.text(2) {
        Some("objects") => BatchWork::Objects(moving::objects(transaction, lease.batch)?),
        Some("range") => {
            let (object, range) = large(transaction, row)?;
            BatchWork::Range(object, range)
        }
        Some("abort") => {
            let sql = "SELECT note FROM batch WHERE id = $1";
            let note = one(transaction.query(sql, &[lease.batch.into()])?, "a batch")?;
            BatchWork::Abort(large(transaction, row)?.0, must(note.text(0), "an upload")?.to_owned())
        }
        _ => {
            let (object, range) = large(transaction, row)?;
            let sql = "SELECT note FROM batch WHERE large = $1 AND kind = 'range' ORDER BY part";
            let notes = transaction.query(sql, &[range.large.into()])?;
            let notes = notes.iter().map(|row| row.text(0).unwrap_or_default().to_owned()).collect();
            BatchWork::Join(object, range, notes)
        }
    };
    let given_before = lease.fence.unsigned_abs().saturating_sub(1);
    let tries = row.count(9);
    let is_final = tries.saturating_add(1) >= hall.attempts;
    let is_last = tries > 0 && is_final;
    let settings = of_a_worker(transaction, hall.settings.clone(), &hall.host)?;
    Ok(BatchClaim { lease, work, given_before, is_final, is_last, length, settings })
}

/// The large object that a batch is of.
fn large(transaction: &mut dyn Transaction, row: &Row) -> Result<(FleetObject, ObjectRange), DatabaseError> {
    let large = must(row.int(5), "a range")?;
    let sql = "SELECT line, token FROM large WHERE id = $1";
    let found = one(transaction.query(sql, &[large.into()])?, "a large object")?;
    let object = found.bytes(0).and_then(unpack).and_then(|objects| objects.into_iter().next());
    let object = must(object, "a large object")?;
    let range = row.count(7)..row.count(8);
    let is_inside = range.start <= range.end && object.size.is_none_or(|size| range.end <= size);
    must(is_inside.then_some(()), "the range of a batch")?;
    let token = found.text(1).filter(|token| !token.is_empty()).map(str::to_owned);
    Ok((object, ObjectRange { large, part: row.count(6), range, token }))
}

pub(super) fn renew(
    transaction: &mut dyn Transaction,
    lease: BatchLease,
    length: Duration,
    reached: u64,
    bytes: u64,
) -> Result<Renewed, DatabaseError> {
    let values = [lease.batch.into(), lease.fence.into(), millis(length), reached.into(), bytes.into()];
    let rows = transaction.query(
        "UPDATE batch SET due = {now} + CAST($3 AS BIGINT), reached = $4, progress = $5 \
         WHERE id = $1 AND fence = $2 AND state = 'leased' RETURNING objects, worker",
        &values,
    )?;
    let Some(row) = rows.first() else { return Ok(Renewed::Lost) };
    let worker = row.int(1).map_or(Value::Null, Value::Int);
    let sql = "UPDATE worker SET seen = {now} WHERE id = $1 RETURNING host";
    let holder = transaction.query(sql, &[worker])?;
    let host = holder.first().and_then(|row| row.text(0)).unwrap_or_default();
    let settings = settings(transaction)?;
    Ok(Renewed::Held { objects: row.count(0), settings: of_a_worker(transaction, settings, host)? })
}

pub(super) fn release(transaction: &mut dyn Transaction, lease: BatchLease) -> Result<bool, DatabaseError> {
    let values = [lease.batch.into(), lease.fence.into()];
    transaction.execute(
        "UPDATE batch SET state = 'waiting', due = {now}, ask = NULL \
         WHERE id = $1 AND fence = $2 AND state = 'leased'",
        &values,
    )?;
    is_given_back(transaction, lease)
}

/// Asked twice it was given back by the first question.
fn is_given_back(transaction: &mut dyn Transaction, lease: BatchLease) -> Result<bool, DatabaseError> {
    let sql = "SELECT id FROM batch WHERE id = $1 AND fence = $2 AND state = 'waiting'";
    Ok(!transaction.query(sql, &[lease.batch.into(), lease.fence.into()])?.is_empty())
}

pub(super) fn fail(transaction: &mut dyn Transaction, lease: BatchLease) -> Result<bool, DatabaseError> {
    let sql = "SELECT tries FROM batch WHERE id = $1 AND fence = $2 AND state = 'leased' {lock}";
    let rows = transaction.query(sql, &[lease.batch.into(), lease.fence.into()])?;
    if let Some(row) = rows.first() {
        // No batch has a lower priority: of those that are due it is the last.
        transaction.execute(
            "UPDATE batch SET state = 'waiting', ask = NULL, tries = tries + 1, \
             priority = CASE WHEN large IS NULL THEN -1 ELSE priority END, \
             avoid = (SELECT host FROM worker WHERE worker.id = batch.worker), \
             due = {now} + CAST($2 AS BIGINT) WHERE id = $1",
            &[lease.batch.into(), pause_after(row.count(0)).into()],
        )?;
    }
    is_given_back(transaction, lease)
}

pub(super) fn share_token(
    transaction: &mut dyn Transaction,
    large: i64,
    token: &str,
) -> Result<String, DatabaseError> {
    let sql = "UPDATE large SET token = coalesce(token, $2) WHERE id = $1 AND EXISTS \
               (SELECT 1 FROM batch WHERE large = $1 AND kind = 'join' AND state <> 'done') RETURNING token";
    let rows = transaction.query(sql, &[large.into(), token.into()])?;
    // Whoever says it too late for an object that was given up takes its own away.
    let Some(row) = rows.first() else { return Ok(String::new()) };
    must(row.text(0).map(str::to_owned), "a token")
}
