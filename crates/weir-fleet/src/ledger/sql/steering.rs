//! What people ask and set, and what workers tell of themselves.

use serde::Serialize;

use super::super::database::{DatabaseError, Row, Transaction};
use super::super::{FleetSettings, PlanEnds, Tally, VerdictSpan, WorkerId};
use super::{SqlLedger, claiming, one, planning};
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

/// A worker, as the ledger knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    /// What it moved.
    pub moved: Tally,
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
    let plan = one(transaction.query("SELECT sealed, objects, bytes FROM ledger", &[])?, "its plan")?;
    let sql = "SELECT state, count(*), CAST(sum(moved) AS BIGINT), CAST(sum(moved_bytes) AS BIGINT), \
               CAST(sum(same) AS BIGINT), CAST(sum(same_bytes) AS BIGINT), CAST(sum(failed) AS BIGINT), \
               CAST(sum(progress) AS BIGINT) FROM batch GROUP BY state";
    let rows = transaction.query(sql, &[])?;
    let of = |state: &str, column: usize| {
        rows.iter().find(|row| row.text(0) == Some(state)).map_or(0, |row| row.count(column))
    };
    let (waiting, leased) = (of("waiting", 1), of("leased", 1));
    // Of a state that nobody knows, too, a batch is not done.
    let open: u64 = rows.iter().filter(|row| row.text(0) != Some("done")).map(|row| row.count(1)).sum();
    let sealed = plan.int(0).is_some();
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
        settings: claiming::settings(transaction)?,
        failures: failures(transaction)?,
        workers: workers(transaction)?,
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
    let sql = "SELECT id, host, pid, version, {now} - seen, departed, leased, objects, bytes FROM by_worker \
               ORDER BY id";
    let rows = transaction.query(sql, &[])?;
    let of = |row: &Row| WorkerRow {
        id: row.int(0).unwrap_or_default(),
        host: row.text(1).unwrap_or_default().to_owned(),
        pid: row.count(2),
        version: row.text(3).unwrap_or_default().to_owned(),
        silent: row.count(4),
        departed: row.int(5).is_some(),
        leased: row.count(6),
        moved: Tally { objects: row.count(7), bytes: row.count(8) },
    };
    Ok(rows.iter().map(of).collect())
}
