//! How a plan comes into a ledger: begun, batches added, sealed. One planner at a time, by a lease and a
//! fence as a batch has; what an older one adds is refused.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::PlanEnds;
use super::super::database::{DatabaseError, Row, Transaction, Value};
use super::super::schema;
use super::{SqlLedger, millis, must, one};
use crate::error::FleetError;
use crate::object::{FleetObject, unpack};

/// How long a planner that is not heard of keeps another one out. A listing may be silent for as long as its
/// own deadlines allow, a minute a request and five attempts.
const PLAN_LEASE: Duration = Duration::from_secs(300);

/// The right to add batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanLease {
    fence: i64,
    appends: i64,
    /// Objects that an interrupted planner has left.
    pub objects: u64,
}

/// What became of a step of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanStep {
    /// It is in the ledger.
    Done,
    /// It is not: another planner is at work.
    Lost,
}

/// A batch to be added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedBatch {
    /// How many objects.
    pub objects: u64,
    /// Their bytes, as far as they are known.
    pub bytes: u64,
    /// They themselves, by [`crate::object::pack`].
    pub lines: Vec<u8>,
}

/// An object that becomes ranges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedLarge {
    /// Its line, by [`crate::object::pack`].
    pub line: Vec<u8>,
    /// Its bytes.
    pub size: u64,
    /// Bytes of a range; the last one may be shorter.
    pub range: u64,
}

pub(super) fn ends(transaction: &mut dyn Transaction) -> Result<PlanEnds, DatabaseError> {
    let row = one(transaction.query("SELECT source, target FROM ledger", &[])?, "its plan")?;
    let text = |column| must(row.text(column).map(str::to_owned), "its plan");
    Ok(PlanEnds { source: text(0)?, target: text(1)? })
}

/// Whether there is a plan, and whose.
struct Found {
    ends: PlanEnds,
    is_sealed: bool,
    planner: String,
    fence: i64,
    /// Milliseconds until its planner counts as gone.
    left: i64,
    objects: u64,
    appends: i64,
}

impl Found {
    fn of(row: &Row) -> Option<Found> {
        Some(Found {
            ends: PlanEnds { source: row.text(0)?.to_owned(), target: row.text(1)?.to_owned() },
            is_sealed: row.int(2).is_some(),
            planner: row.text(3)?.to_owned(),
            fence: row.int(4)?,
            left: row.int(5)?,
            objects: row.count(6),
            appends: row.int(7)?,
        })
    }

    /// Why `ends` cannot be planned here now.
    fn refuses(&self, ends: &PlanEnds, planner: &str) -> Option<String> {
        if self.ends != *ends {
            let PlanEnds { source, target } = &self.ends;
            return Some(format!("holds the plan of {source} to {target}; name another ledger"));
        }
        if self.is_sealed {
            return Some("holds this plan already, whole; go on with weir fleet work".to_owned());
        }
        let is_other = self.planner != planner && self.left > 0;
        is_other.then(|| {
            format!(
                "is being written by {}; wait for it, or {} s if it is gone, and run the same command again",
                self.planner,
                self.left.unsigned_abs().div_ceil(1000)
            )
        })
    }
}

impl SqlLedger {
    /// Begins a plan, or goes on with one that was interrupted. `planner` names who plans, for people, and is
    /// different for each run; each object is tried `attempts` times.
    ///
    /// # Errors
    /// [`FleetError::Taken`] where the ledger holds another plan, a whole one, or another planner is at work.
    pub fn begin(&mut self, ends: &PlanEnds, planner: &str, attempts: u64) -> Result<PlanLease, FleetError> {
        let is_new = self.version()?.is_none();
        let has_ledger = self.database.has_ledger();
        let begun = self.act(|transaction, _| {
            let is_there = transaction.query(has_ledger, &[])?.first().is_some_and(|row| row.count(0) > 0);
            if is_new && !is_there {
                create(transaction, ends, planner, attempts)?;
            }
            begin(transaction, ends, planner)
        })?;
        begun.map_err(|why| FleetError::Taken { place: self.place().to_owned(), why })
    }

    /// Adds batches to a plan, and holds it for some minutes more.
    pub fn append(
        &mut self,
        lease: &mut PlanLease,
        batches: &[PlannedBatch],
        large: &[PlannedLarge],
    ) -> Result<PlanStep, FleetError> {
        let held = lease.clone();
        let step = self.act(|transaction, _| append(transaction, &held, batches, large))?;
        lease.appends += i64::from(step == PlanStep::Done);
        Ok(step)
    }

    /// Holds a plan for some minutes more while there is nothing to add.
    pub fn hold(&mut self, lease: &PlanLease) -> Result<PlanStep, FleetError> {
        self.act(|transaction, _| {
            let sql = "UPDATE ledger SET plan_end = {now} + CAST($2 AS BIGINT) \
                       WHERE plan_fence = $1 AND sealed IS NULL";
            let changed = transaction.execute(sql, &[lease.fence.into(), millis(PLAN_LEASE)])?;
            Ok(if changed == 1 { PlanStep::Done } else { PlanStep::Lost })
        })
    }

    /// Batches may be given out before the plan is whole: no two objects of it have one target.
    pub fn begin_early(&mut self, lease: &PlanLease) -> Result<PlanStep, FleetError> {
        self.act(|transaction, _| {
            let sql = "UPDATE ledger SET early = 1 WHERE plan_fence = $1";
            let changed = transaction.execute(sql, &[lease.fence.into()])?;
            Ok(if changed == 1 { PlanStep::Done } else { PlanStep::Lost })
        })
    }

    /// Tells `each` of all objects of the plan, in no order.
    pub fn each_object(&mut self, each: &mut dyn FnMut(&FleetObject)) -> Result<(), FleetError> {
        let place = self.place().to_owned();
        for (sql, column) in [
            ("SELECT batch, lines FROM manifest WHERE batch > $1 ORDER BY batch LIMIT 64", "manifest"),
            (
                "SELECT l.id, l.line FROM large l WHERE l.id > $1 AND EXISTS (SELECT 1 FROM batch b \
                 WHERE b.large = l.id AND b.kind = 'join') ORDER BY l.id LIMIT 64",
                "large",
            ),
        ] {
            let mut last = -1;
            loop {
                let rows = self.act(|transaction, _| transaction.query(sql, &[last.into()]))?;
                let Some(end) = rows.last() else { break };
                last = end.int(0).unwrap_or(i64::MAX);
                for row in &rows {
                    let what = || format!("a list in its table {column} makes no sense");
                    let objects = row.bytes(1).and_then(unpack);
                    let objects =
                        objects.ok_or_else(|| FleetError::Damaged { place: place.clone(), what: what() })?;
                    objects.iter().for_each(&mut *each);
                }
            }
        }
        Ok(())
    }

    /// The plan is whole: from now on the fleet may be complete.
    pub fn seal(&mut self, lease: &PlanLease) -> Result<PlanStep, FleetError> {
        self.act(|transaction, _| {
            let sql = "UPDATE ledger SET sealed = coalesce(sealed, {now}) WHERE plan_fence = $1";
            let changed = transaction.execute(sql, &[lease.fence.into()])?;
            Ok(if changed == 1 { PlanStep::Done } else { PlanStep::Lost })
        })
    }

    /// Lets another planner begin at once, where this one was told to end before its plan was whole.
    pub fn abandon(&mut self, lease: &PlanLease) -> Result<(), FleetError> {
        self.act(|transaction, _| {
            let sql = "UPDATE ledger SET plan_end = {now} WHERE plan_fence = $1";
            transaction.execute(sql, &[lease.fence.into()]).map(drop)
        })
    }
}

fn create(
    transaction: &mut dyn Transaction,
    ends: &PlanEnds,
    planner: &str,
    attempts: u64,
) -> Result<(), DatabaseError> {
    schema::migrate(transaction, 0)?;
    transaction.execute(
        "INSERT INTO ledger (one, version, source, target, created, early, planner, plan_fence, plan_end, appends, \
         next_batch, next_large, objects, bytes, attempts, paused, draining) \
         VALUES (1, $1, $2, $3, {now}, 0, $4, 0, 0, 0, 1, 1, 0, 0, $5, 0, 0)",
        &[
            schema::VERSION.into(),
            (&*ends.source).into(),
            (&*ends.target).into(),
            planner.into(),
            attempts.into(),
        ],
    )?;
    Ok(())
}

fn begin(
    transaction: &mut dyn Transaction,
    ends: &PlanEnds,
    planner: &str,
) -> Result<Result<PlanLease, String>, DatabaseError> {
    let sql = "SELECT source, target, sealed, planner, plan_fence, plan_end - {now}, objects, appends \
               FROM ledger {lock}";
    let found = must(one(transaction.query(sql, &[])?, "its plan").map(|row| Found::of(&row))?, "its plan")?;
    if let Some(why) = found.refuses(ends, planner) {
        return Ok(Err(why));
    }
    transaction.execute(
        "UPDATE ledger SET planner = $1, plan_fence = plan_fence + 1, plan_end = {now} + CAST($2 AS BIGINT)",
        &[planner.into(), millis(PLAN_LEASE)],
    )?;
    Ok(Ok(PlanLease { fence: found.fence + 1, appends: found.appends, objects: found.objects }))
}

fn append(
    transaction: &mut dyn Transaction,
    lease: &PlanLease,
    batches: &[PlannedBatch],
    large: &[PlannedLarge],
) -> Result<PlanStep, DatabaseError> {
    let ranges: u64 = large.iter().map(|large| large.parts() + 1).sum();
    let objects = batches.iter().map(|batch| batch.objects).sum::<u64>() + large.len() as u64;
    let bytes =
        batches.iter().map(|batch| batch.bytes).chain(large.iter().map(|large| large.size)).sum::<u64>();
    let rows = transaction.query(
        "UPDATE ledger SET appends = appends + 1, next_batch = next_batch + $3, next_large = next_large + $4, \
         objects = objects + $5, bytes = bytes + $6, plan_end = {now} + CAST($7 AS BIGINT) \
         WHERE plan_fence = $1 AND appends = $2 AND sealed IS NULL \
         RETURNING next_batch - $3, next_large - $4",
        &[
            lease.fence.into(),
            lease.appends.into(),
            (batches.len() as u64 + ranges).into(),
            (large.len() as u64).into(),
            objects.into(),
            bytes.into(),
            millis(PLAN_LEASE),
        ],
    )?;
    let Some(row) = rows.first() else {
        // Done before, and the answer got lost.
        let sql = "SELECT one FROM ledger WHERE plan_fence = $1 AND appends = $2";
        let done = transaction.query(sql, &[lease.fence.into(), (lease.appends + 1).into()])?;
        return Ok(if done.is_empty() { PlanStep::Lost } else { PlanStep::Done });
    };
    let (mut id, first_large) = (must(row.int(0), "its plan")?, must(row.int(1), "its plan")?);
    for batch in batches {
        let values = [id.into(), batch.objects.into(), batch.bytes.into()];
        transaction.execute(
            "INSERT INTO batch (id, kind, state, objects, bytes, priority, due) \
             VALUES ($1, 'objects', 'waiting', $2, $3, $3, {now})",
            &values,
        )?;
        let sql = "INSERT INTO manifest (batch, lines) VALUES ($1, $2)";
        transaction.execute(sql, &[id.into(), batch.lines.clone().into()])?;
        id += 1;
    }
    for (number, large) in (first_large..).zip(large) {
        id = large.insert(transaction, number, id)?;
    }
    Ok(PlanStep::Done)
}

impl PlannedLarge {
    /// How many ranges.
    pub fn parts(&self) -> u64 {
        self.size.div_ceil(self.range.max(1))
    }

    /// Its ranges, and the batch that joins them, which is due when they are done. Returns the next number.
    fn insert(
        &self,
        transaction: &mut dyn Transaction,
        large: i64,
        mut id: i64,
    ) -> Result<i64, DatabaseError> {
        let sql = "INSERT INTO large (id, line, parts) VALUES ($1, $2, $3)";
        transaction.execute(sql, &[large.into(), self.line.clone().into(), self.parts().into()])?;
        for part in 0..self.parts() {
            let start = part * self.range;
            let end = self.size.min(start + self.range);
            // All of a large object before the next one, so that few are begun at a time.
            transaction.execute(
                "INSERT INTO batch (id, kind, state, objects, bytes, priority, due, large, part, range_start, \
                 range_end) VALUES ($1, 'range', 'waiting', 0, $2, $3, {now}, $4, $5, $6, $7)",
                &[
                    id.into(),
                    (end - start).into(),
                    self.size.into(),
                    large.into(),
                    part.into(),
                    start.into(),
                    end.into(),
                ],
            )?;
            id += 1;
        }
        transaction.execute(
            "INSERT INTO batch (id, kind, state, objects, bytes, priority, due, large, part, range_start, \
             range_end) VALUES ($1, 'join', 'waiting', 1, 0, $2, $3, $4, $5, 0, $6)",
            &[
                id.into(),
                self.size.saturating_add(1).into(),
                Value::Int(i64::MAX),
                large.into(),
                self.parts().into(),
                self.size.into(),
            ],
        )?;
        Ok(id + 1)
    }
}
