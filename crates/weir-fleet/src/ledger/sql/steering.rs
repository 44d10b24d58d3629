//! What people ask and set, and what workers tell of themselves.

use std::collections::HashMap;

use serde::Serialize;

use super::super::database::{DatabaseError, Row, Transaction};
use super::super::{FleetSettings, PlanEnds, Tally, VerdictSpan, WorkerId};
use super::claiming::{self, GONE};
use super::{SqlLedger, must, one, planning};
use crate::error::FleetError;

pub(super) fn tell(
    transaction: &mut dyn Transaction,
    worker: WorkerId,
    spans: &[VerdictSpan],
) -> Result<(), DatabaseError> {
    for span in spans {
        transaction.execute(
            "INSERT INTO verdict (worker, start, length, cause, share, bytes) VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT DO NOTHING",
            &[
                worker.0.into(),
                span.start.into(),
                span.length.into(),
                (&*span.limit).into(),
                span.share.into(),
                span.bytes.into(),
            ],
        )?;
    }
    Ok(())
}

/// What workers told of so long is what holds them now, milliseconds: three of the spans that they tell.
const OF_LATE: i64 = 30_000;

/// A worker, as the ledger knows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkerRow {
    /// Its number.
    pub id: i64,
    /// Its host.
    pub host: String,
    /// Its process.
    pub pid: u64,
    /// Of weir.
    pub version: String,
    /// Milliseconds since it was heard of.
    pub silent: u64,
    /// It went in order.
    pub departed: bool,
    /// Batches that it has now.
    pub leased: u64,
    /// Of these, whose leases have ended: others may take them.
    pub overdue: u64,
    /// What it moved.
    pub moved: Tally,
    /// Bytes that it has moved of what it has now.
    pub under_way: u64,
    /// What held it in the last half minute, by its own words; `None`: it told nothing.
    pub of_late: Option<OfLate>,
}

/// What a worker told of the last half minute.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfLate {
    /// The limit that held it most.
    pub limit: String,
    /// Of the time, from 0 to 1.
    pub share: f64,
    /// Bytes a second.
    pub rate: u64,
    /// Over so many seconds.
    pub seconds: f64,
}

/// An object that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureRow {
    /// By its class.
    pub class: String,
    /// How many.
    pub objects: u64,
    /// One of the reasons.
    pub example: String,
}

impl WorkerRow {
    /// It was not heard of for long, and holds nothing: it ended without a word, or its host did.
    pub fn is_gone(&self) -> bool {
        !self.departed && is_gone(self.silent, self.leased, self.overdue)
    }
}

/// A worker that was silent for so many milliseconds, and has leases of which so many have ended. With a long
/// lease it may be silent while its batch is its own.
pub(super) fn is_gone(silent: u64, leased: u64, overdue: u64) -> bool {
    silent > GONE && leased == overdue
}

/// Where a fleet stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetStatus {
    /// From where.
    pub source: String,
    /// To where.
    pub target: String,
    /// The plan is whole.
    pub sealed: bool,
    /// All is planned and no batch is left. Objects may have been given up.
    pub complete: bool,
    /// Objects and bytes of the plan.
    pub planned: Tally,
    /// Brought to their targets.
    pub moved: Tally,
    /// Found there already.
    pub same: Tally,
    /// Given up.
    pub failed: u64,
    /// Batches that wait.
    pub waiting: u64,
    /// Batches that workers have.
    pub leased: u64,
    /// Batches that are done.
    pub done: u64,
    /// Bytes that holders have moved of what they have.
    pub under_way: u64,
    /// Leases that have ended without a word, so far: of batches that were taken over, and of `overdue` ones.
    pub lost_leases: u64,
    /// Batches whose leases have ended and that nobody has taken over yet.
    pub overdue: u64,
    /// The ledger's clock, milliseconds since 1970.
    pub now: i64,
    /// As they are.
    pub settings: FleetSettings,
    /// By class.
    pub failures: Vec<FailureRow>,
    /// In the order in which they joined.
    pub workers: Vec<WorkerRow>,
}

impl SqlLedger {
    /// Where the fleet stands, at one moment.
    pub fn status(&mut self) -> Result<FleetStatus, FleetError> {
        self.act(|transaction, _| status(transaction))
    }

    /// The settings as `change` makes them of those that are there.
    pub fn set(&mut self, change: &dyn Fn(&mut FleetSettings)) -> Result<FleetSettings, FleetError> {
        self.act(|transaction, _| {
            // Whoever else sets something waits for this.
            transaction.query("SELECT one FROM ledger {lock}", &[])?;
            let mut settings = claiming::settings(transaction)?;
            change(&mut settings);
            transaction.execute(
                "UPDATE ledger SET paused = $1, draining = $2, workers = $3, rate = $4, hours = $5",
                &[
                    settings.paused.into(),
                    settings.draining.into(),
                    settings.workers.map(i64::from).into(),
                    settings.rate.into(),
                    settings.window.clone().into(),
                ],
            )?;
            Ok(settings)
        })
    }
}

fn status(transaction: &mut dyn Transaction) -> Result<FleetStatus, DatabaseError> {
    let PlanEnds { source, target } = planning::ends(transaction)?;
    let plan = one(transaction.query("SELECT sealed, objects, bytes, {now} FROM ledger", &[])?, "its plan")?;
    let sql = "SELECT state, count(*), CAST(sum(moved) AS BIGINT), CAST(sum(moved_bytes) AS BIGINT), \
               CAST(sum(same) AS BIGINT), CAST(sum(same_bytes) AS BIGINT), CAST(sum(failed) AS BIGINT), \
               CAST(sum(progress) AS BIGINT), CAST(sum(losses) AS BIGINT) FROM batch GROUP BY state";
    let rows = transaction.query(sql, &[])?;
    let of = |state: &str, column: usize| {
        rows.iter().find(|row| row.text(0) == Some(state)).map_or(0, |row| row.count(column))
    };
    let (waiting, leased) = (of("waiting", 1), of("leased", 1));
    // Of a state that nobody knows, too, a batch is not done.
    let open: u64 = rows.iter().filter(|row| row.text(0) != Some("done")).map(|row| row.count(1)).sum();
    let sealed = plan.int(0).is_some();
    let workers = workers(transaction)?;
    let overdue = workers.iter().map(|worker| worker.overdue).sum();
    Ok(FleetStatus {
        source,
        target,
        sealed,
        complete: sealed && open == 0,
        planned: Tally { objects: plan.count(1), bytes: plan.count(2) },
        moved: Tally { objects: of("done", 2), bytes: of("done", 3) },
        same: Tally { objects: of("done", 4), bytes: of("done", 5) },
        failed: of("done", 6),
        waiting,
        leased,
        done: of("done", 1),
        under_way: of("leased", 7),
        lost_leases: rows.iter().map(|row| row.count(8)).sum::<u64>() + overdue,
        overdue,
        now: must(plan.int(3), "its clock")?,
        settings: claiming::settings(transaction)?,
        failures: failures(transaction)?,
        workers,
    })
}

fn failures(transaction: &mut dyn Transaction) -> Result<Vec<FailureRow>, DatabaseError> {
    let sql = "SELECT class, count(*), min(reason) FROM failure WHERE retried IS NULL GROUP BY class \
               ORDER BY count(*) DESC, class";
    let text = |row: &Row, column| row.text(column).unwrap_or_default().to_owned();
    let rows = transaction.query(sql, &[])?;
    let of = |row: &Row| FailureRow { class: text(row, 0), objects: row.count(1), example: text(row, 2) };
    Ok(rows.iter().map(of).collect())
}

fn workers(transaction: &mut dyn Transaction) -> Result<Vec<WorkerRow>, DatabaseError> {
    let sql = "SELECT id, host, pid, version, {now} - seen, departed, objects, bytes FROM worker ORDER BY id";
    let rows = transaction.query(sql, &[])?;
    let held = held(transaction)?;
    let of_late = of_late(transaction)?;
    let of = |row: &Row| {
        let id = row.int(0).unwrap_or_default();
        let held = held.get(&id).copied().unwrap_or_default();
        WorkerRow {
            id,
            host: row.text(1).unwrap_or_default().to_owned(),
            pid: row.count(2),
            version: row.text(3).unwrap_or_default().to_owned(),
            silent: row.count(4),
            departed: row.int(5).is_some(),
            leased: held.leased,
            overdue: held.overdue,
            moved: Tally { objects: row.count(6), bytes: row.count(7) },
            under_way: held.bytes,
            of_late: of_late.get(&id).cloned(),
        }
    };
    Ok(rows.iter().map(of).collect())
}

/// What a worker has now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    pub(super) leased: u64,
    pub(super) overdue: u64,
    bytes: u64,
}

/// By worker, in one pass over the open batches: a question a worker would be a thousand of them.
pub(super) fn held(transaction: &mut dyn Transaction) -> Result<HashMap<i64, Held>, DatabaseError> {
    // Both conditions, for whichever index there is.
    let sql = "SELECT worker, count(*), CAST(sum(CASE WHEN due <= {now} THEN 1 ELSE 0 END) AS BIGINT), \
               CAST(sum(progress) AS BIGINT) FROM batch WHERE state <> 'done' AND state = 'leased' GROUP BY worker";
    let of = |row: &Row| {
        Some((row.int(0)?, Held { leased: row.count(1), overdue: row.count(2), bytes: row.count(3) }))
    };
    Ok(transaction.query(sql, &[])?.iter().filter_map(of).collect())
}

/// By worker. Times of spans count from when it joined.
fn of_late(transaction: &mut dyn Transaction) -> Result<HashMap<i64, OfLate>, DatabaseError> {
    let sql = format!(
        "SELECT v.worker, v.cause, sum(v.share * v.length), CAST(sum(v.bytes) AS BIGINT), min(v.start), \
         max(v.start + v.length) FROM worker w JOIN verdict v ON v.worker = w.id \
         AND v.start > {{now}} - w.joined - {OF_LATE} WHERE w.departed IS NULL GROUP BY v.worker, v.cause"
    );
    /// Of a worker: time and name of what held longest, all time, bytes, begin and end.
    type Sum = (f64, String, f64, u64, i64, i64);
    let mut sums = HashMap::<i64, Sum>::new();
    for row in transaction.query(&sql, &[])? {
        let Some(worker) = row.int(0) else { continue };
        let (cause, held) = (row.text(1).unwrap_or_default(), row.real(2).unwrap_or_default());
        let sum = sums.entry(worker).or_insert((-1.0, String::new(), 0.0, 0, i64::MAX, 0));
        if held > sum.0 {
            (sum.0, sum.1) = (held, cause.to_owned());
        }
        sum.2 += held;
        sum.3 += row.count(3);
        sum.4 = sum.4.min(row.int(4).unwrap_or(i64::MAX));
        sum.5 = sum.5.max(row.int(5).unwrap_or(0));
    }
    let of = |(worker, (held, limit, all, bytes, from, to)): (i64, Sum)| {
        let seconds = to.saturating_sub(from).max(1) as f64 / 1000.0;
        let share = if all > 0.0 { held / all } else { 0.0 };
        (worker, OfLate { limit, share, rate: (bytes as f64 / seconds) as u64, seconds })
    };
    Ok(sums.into_iter().map(of).collect())
}
