//! What workers told of their time, as evidence for the judge of a fleet.

use std::collections::BTreeMap;

use weir_model::fleet::{FleetEnd, FleetEnds, FleetEvidence, HeldBy, WorkerEvidence, WorkerSpan};

use super::super::PlanEnds;
use super::super::database::{DatabaseError, Transaction};
use super::{SqlLedger, claiming, one, planning, steering};
use crate::error::FleetError;

/// A verdict is on the last ten minutes, milliseconds: what held in the night says little of now.
const RECENT: i64 = 600_000;

/// Of more workers a shorter time, so that it stays some hundred thousand rows: [`RECENT`] by so many.
const MANY: i64 = 1000;

/// And not less than this, milliseconds: six spans of a worker.
const LEAST: i64 = 60_000;

/// Before and after the last worker that came or went, milliseconds.
const AROUND: i64 = 60_000;

/// A worker's row.
struct Known {
    id: i64,
    host: String,
    joined: i64,
    seen: i64,
    departed: Option<i64>,
}

impl SqlLedger {
    /// What the workers told of the last minutes, and of those around the last time that one came or went.
    pub fn evidence(&mut self) -> Result<FleetEvidence, FleetError> {
        self.act(|transaction, _| evidence(transaction))
    }
}

fn evidence(transaction: &mut dyn Transaction) -> Result<FleetEvidence, DatabaseError> {
    let plan = "SELECT sealed, {now}, (SELECT count(*) FROM batch WHERE state <> 'done') FROM ledger";
    let plan = one(transaction.query(plan, &[])?, "its plan")?;
    let now = plan.int(1).unwrap_or_default();
    let workers = workers(transaction)?;
    let end = workers.iter().map(|worker| worker.seen).max().unwrap_or(now);
    let here = workers.iter().filter(|worker| worker.seen >= end - RECENT).count() as i64;
    let since = end - (RECENT * MANY / here.max(MANY)).max(LEAST);
    let mut spans = BTreeMap::new();
    // What was told is not always of a time in which the worker was heard of otherwise.
    read(transaction, since, now.max(end) + RECENT, &mut spans)?;
    let events = workers.iter().flat_map(|worker| [Some(worker.joined), worker.departed]).flatten();
    if let Some(last) = events.filter(|at| *at < since + AROUND).max() {
        read(transaction, last - AROUND, (last + AROUND).min(since), &mut spans)?;
    }
    let held = steering::held(transaction)?;
    let told = |worker: Known| {
        let held = held.get(&worker.id).copied().unwrap_or_default();
        let silent = now.saturating_sub(worker.seen).max(0).unsigned_abs();
        let is_gone = steering::is_gone(silent, held.leased, held.overdue);
        WorkerEvidence {
            host: worker.host,
            joined: seconds(worker.joined),
            left: worker.departed.or(is_gone.then_some(worker.seen)).map(seconds),
            spans: spans.remove(&worker.id).unwrap_or_default(),
        }
    };
    let recent = |worker: &WorkerEvidence| !worker.spans.is_empty() || worker.left.is_none();
    Ok(FleetEvidence {
        workers: workers.into_iter().map(told).filter(recent).collect(),
        ends: ends(&planning::ends(transaction)?),
        since: seconds(since),
        is_complete: plan.int(0).is_some() && plan.count(2) == 0,
        rate_cap: claiming::settings(transaction)?.rate.map(|rate| rate as f64),
    })
}

/// Seconds since 1970.
fn seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}

/// Paths of a plan are absolute; all else is a link.
fn ends(ends: &PlanEnds) -> FleetEnds {
    let of = |text: &str| if text.starts_with('/') { FleetEnd::Folder } else { FleetEnd::Far };
    FleetEnds { source: of(&ends.source), target: of(&ends.target) }
}

fn workers(transaction: &mut dyn Transaction) -> Result<Vec<Known>, DatabaseError> {
    let rows = transaction.query("SELECT id, host, joined, seen, departed FROM worker ORDER BY id", &[])?;
    let of = |row: &super::Row| {
        let host = row.text(1)?.to_owned();
        Some(Known { id: row.int(0)?, host, joined: row.int(2)?, seen: row.int(3)?, departed: row.int(4) })
    };
    Ok(rows.iter().filter_map(of).collect())
}

/// Adds the spans that began in a time, by worker. A worker's clock starts when it joined.
fn read(
    transaction: &mut dyn Transaction,
    from: i64,
    to: i64,
    spans: &mut BTreeMap<i64, Vec<WorkerSpan>>,
) -> Result<(), DatabaseError> {
    let rows = transaction.query(
        "SELECT v.worker, w.joined + v.start, v.length, v.cause, v.share, v.bytes \
         FROM worker w JOIN verdict v ON v.worker = w.id \
         WHERE v.start >= CAST($1 AS BIGINT) - w.joined AND v.start < CAST($2 AS BIGINT) - w.joined \
         ORDER BY v.worker, v.start, v.cause",
        &[from.into(), to.into()],
    )?;
    for row in &rows {
        let (Some(worker), Some(start), Some(share)) = (row.int(0), row.int(1), row.real(4)) else {
            continue;
        };
        let (from, to) = (seconds(start), seconds(start + row.int(2).unwrap_or_default()));
        let told = spans.entry(worker).or_default();
        if told.last().is_none_or(|span| span.from != from) {
            told.push(WorkerSpan { from, to, ..WorkerSpan::default() });
        }
        if let Some(span) = told.last_mut() {
            span.held.push((HeldBy::parse(row.text(3).unwrap_or_default()), share));
            span.bytes = span.bytes.saturating_add(row.count(5));
        }
    }
    Ok(())
}
