//! What a ledger holds of a fleet's whole life, in as much as a page shows: each host's limits over time,
//! what was done when, what failed, what took longest.

use std::collections::BTreeMap;

use super::super::database::{DatabaseError, Row, Transaction};
use super::{FleetStatus, SqlLedger, must, one};
use crate::error::FleetError;
use crate::history::{FailedObject, FleetHistory, HostHistory, HostTime, SlowBatch, TimeGrid};
use crate::object::unpack;

/// Columns of time: what a page shows.
const COLUMNS: usize = 120;

/// From this length of a column on a worker's spans, of ten seconds each, are summed by the database; with
/// less some columns would have none of them. Milliseconds.
const SUMMED: i64 = 20_000;

/// Objects that are named of each class.
const NAMED: i64 = 20;

/// Batches that took longest.
const SLOWEST: i64 = 30;

impl SqlLedger {
    /// How the fleet stands, and all of its life. Each host is asked for in a transaction of its own: workers
    /// go on meanwhile.
    pub fn history(&mut self) -> Result<(FleetStatus, FleetHistory), FleetError> {
        let status = self.status()?;
        let (begin, end) = self.act(|transaction, _| ends(transaction, &status))?;
        let mut by_host = BTreeMap::<String, Vec<WorkerBegin>>::new();
        for worker in self.act(|transaction, _| workers(transaction))? {
            by_host.entry(worker.host.clone()).or_default().push(worker);
        }
        let width = (end - begin).max(1) as f64 / COLUMNS as f64;
        let (mut fleet, mut hosts) = (TimeGrid::new(COLUMNS, width), Vec::new());
        for (host, workers) in by_host {
            let mut grid = TimeGrid::new(COLUMNS, width);
            self.act(|transaction, _| {
                grid.clear();
                workers.iter().try_for_each(|worker| told(transaction, worker, (begin, width), &mut grid))
            })?;
            fleet.add_all(&grid);
            let sum = |of: &dyn Fn(&WorkerBegin) -> u64| workers.iter().map(of).sum();
            hosts.push(HostHistory {
                host,
                workers: workers.len() as u64,
                objects: sum(&|worker| worker.objects),
                bytes: sum(&|worker| worker.bytes),
                at_work: grid.at_work(),
                limit: grid.most(),
                spans: grid.spans(),
            });
        }
        let steps = self.act(|transaction, _| done(transaction, (begin, end)))?;
        let failed = self.act(|transaction, _| failed(transaction, &status))?;
        let slow = self.act(|transaction, _| slowest(transaction))?;
        Ok((status, FleetHistory { begin, end, spans: fleet.spans(), hosts, steps, failed, slow }))
    }
}

/// When the first worker joined, and when the last batch was done; of a fleet that is under way, now.
fn ends(transaction: &mut dyn Transaction, status: &FleetStatus) -> Result<(i64, i64), DatabaseError> {
    let begun = "SELECT min(joined) FROM worker";
    let begun = one(transaction.query(begun, &[])?, "a time")?.int(0);
    let ended = "SELECT max(finished), (SELECT max(seen) FROM worker) FROM batch";
    let row = one(transaction.query(ended, &[])?, "a time")?;
    let created = one(transaction.query("SELECT created FROM ledger", &[])?, "its plan")?;
    let begin = begun.unwrap_or(must(created.int(0), "its plan")?);
    let end = match (status.complete || status.leased == 0, begun) {
        (_, None) => begin,
        (true, _) => row.int(0).max(row.int(1)).unwrap_or(status.now),
        (false, _) => status.now,
    };
    // A clock that was set back in between makes no negative time.
    Ok((begin, end.max(begin.saturating_add(1))))
}

/// A worker as it joined.
struct WorkerBegin {
    id: i64,
    host: String,
    joined: i64,
    objects: u64,
    bytes: u64,
}

fn workers(transaction: &mut dyn Transaction) -> Result<Vec<WorkerBegin>, DatabaseError> {
    let rows = transaction.query("SELECT id, host, joined, objects, bytes FROM worker ORDER BY id", &[])?;
    let of = |row: &Row| {
        Some(WorkerBegin {
            id: row.int(0)?,
            host: row.text(1)?.to_owned(),
            joined: row.int(2)?,
            objects: row.count(3),
            bytes: row.count(4),
        })
    };
    rows.iter().map(|row| must(of(row), "a worker")).collect()
}

/// What a worker told of itself, on the grid of its host.
fn told(
    transaction: &mut dyn Transaction,
    worker: &WorkerBegin,
    (begin, width): (i64, f64),
    grid: &mut TimeGrid,
) -> Result<(), DatabaseError> {
    // Milliseconds between the two beginnings: times of spans count from when it joined.
    let offset = worker.joined.saturating_sub(begin);
    let column = width as i64;
    let rows = match column >= SUMMED {
        true => {
            let sql = "SELECT min(start), max(start + length), cause, sum(share * length), \
                       CAST(sum(bytes) AS BIGINT) FROM verdict WHERE worker = $1 \
                       GROUP BY (start + length / 2) / $2, cause";
            transaction.query(sql, &[worker.id.into(), column.into()])?
        }
        false => {
            let sql =
                "SELECT start, start + length, cause, share * length, bytes FROM verdict WHERE worker = $1";
            transaction.query(sql, &[worker.id.into()])?
        }
    };
    for row in &rows {
        let (Some(from), Some(to), Some(limit)) = (row.int(0), row.int(1), row.text(2)) else { continue };
        let from = from.saturating_add(offset) as f64;
        let to = to.saturating_add(offset) as f64;
        grid.add((from, to), limit, HostTime { held: row.real(3).unwrap_or(0.0), bytes: row.count(4) });
    }
    Ok(())
}

/// Objects, bytes and failures, each with when they were done: so many milliseconds after the beginning.
fn done(
    transaction: &mut dyn Transaction,
    (begin, end): (i64, i64),
) -> Result<Vec<(u64, [u64; 3])>, DatabaseError> {
    let column = ((end - begin) / (2 * COLUMNS as i64)).max(1);
    let sql = "SELECT (finished - $1) / $2, CAST(sum(moved + same) AS BIGINT), \
               CAST(sum(moved_bytes + same_bytes) AS BIGINT), CAST(sum(failed) AS BIGINT) FROM batch \
               WHERE state = 'done' AND finished >= $1 GROUP BY 1 ORDER BY 1";
    let rows = transaction.query(sql, &[begin.into(), column.into()])?;
    let mut all = [0_u64; 3];
    let mut steps = Vec::new();
    for row in &rows {
        for (index, sum) in all.iter_mut().enumerate() {
            *sum = sum.saturating_add(row.count(index + 1));
        }
        let at = row.count(0).saturating_add(1).saturating_mul(column.unsigned_abs());
        steps.push((at.min(end.abs_diff(begin)), all));
    }
    Ok(steps)
}

fn failed(
    transaction: &mut dyn Transaction,
    status: &FleetStatus,
) -> Result<Vec<FailedObject>, DatabaseError> {
    let sql =
        "SELECT source, class, reason, attempts, host FROM failures WHERE class = $1 ORDER BY at LIMIT $2";
    let mut all = Vec::new();
    for class in &status.failures {
        let rows = transaction.query(sql, &[(&*class.class).into(), NAMED.into()])?;
        let text = |row: &Row, column| row.text(column).unwrap_or_default().to_owned();
        all.extend(rows.iter().map(|row| FailedObject {
            source: text(row, 0),
            class: text(row, 1),
            reason: text(row, 2),
            attempts: row.count(3),
            host: text(row, 4),
        }));
    }
    Ok(all)
}

fn slowest(transaction: &mut dyn Transaction) -> Result<Vec<SlowBatch>, DatabaseError> {
    let rows = transaction.query(
        "SELECT b.id, b.kind, b.state, b.objects, b.bytes, \
         CASE WHEN b.state = 'done' THEN b.finished ELSE {now} END - b.started, w.host, b.fence, \
         coalesce(m.lines, l.line), b.part FROM batch b LEFT JOIN worker w ON w.id = b.worker \
         LEFT JOIN manifest m ON m.batch = b.id LEFT JOIN large l ON l.id = b.large \
         WHERE b.started IS NOT NULL AND b.state <> 'waiting' ORDER BY 6 DESC, b.id LIMIT $1",
        &[SLOWEST.into()],
    )?;
    rows.iter().map(slow).collect()
}

fn slow(row: &Row) -> Result<SlowBatch, DatabaseError> {
    let objects = row.bytes(8).map(|lines| must(unpack(lines), "the list of a batch")).transpose()?;
    let first = objects.unwrap_or_default().into_iter().next();
    // All of a batch that is tried again or split may be in others.
    let name = first.map_or_else(|| "(nothing)".to_owned(), |object| object.source_text().into_owned());
    let name = match row.text(1) {
        Some("range") => format!("part {} of {name}", row.count(9) + 1),
        Some("join") => format!("{name}, its parts put together"),
        _ => name,
    };
    Ok(SlowBatch {
        batch: must(row.int(0), "a batch")?,
        name,
        state: row.text(2).unwrap_or_default().to_owned(),
        objects: row.count(3),
        bytes: row.count(4),
        took: row.count(5),
        host: row.text(6).unwrap_or_default().to_owned(),
        leases: row.count(7),
    })
}
