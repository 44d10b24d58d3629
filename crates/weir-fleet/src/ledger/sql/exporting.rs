//! Every object of a plan, with what became of it.

use std::collections::HashMap;

use serde::Serialize;

use super::super::database::Row;
use super::SqlLedger;
use crate::error::FleetError;
use crate::object::{FleetObject, unpack};

/// Batches that are read at once: 64,000 objects, some 10 MB.
const AT_ONCE: i64 = 64;

/// An object and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObjectRow {
    /// Below the source.
    pub source: String,
    /// Below the target.
    pub target: String,
    /// Bytes, where they are known.
    pub size: Option<u64>,
    /// `waiting`, `leased`, `done` or `failed`.
    pub state: &'static str,
    /// Which batch it is in.
    pub batch: i64,
    /// The host that has its batch, or had it last.
    pub host: Option<String>,
    /// Why it was given up.
    pub class: Option<String>,
    /// In words.
    pub reason: Option<String>,
}

impl SqlLedger {
    /// Tells `each` of all objects of the plan and what became of them, in no order. What workers do
    /// meanwhile may be seen or not.
    ///
    /// # Errors
    /// What `each` says, and what the ledger does.
    pub fn each_row<E: From<FleetError>>(
        &mut self,
        each: &mut dyn FnMut(&FleetObject, &ObjectRow) -> Result<(), E>,
    ) -> Result<(), E> {
        for sql in [
            "SELECT b.id, b.state, w.host, m.lines FROM manifest m JOIN batch b ON b.id = m.batch \
             LEFT JOIN worker w ON w.id = b.worker WHERE b.id > $1 ORDER BY b.id LIMIT $2",
            "SELECT b.id, b.state, w.host, l.line FROM batch b JOIN large l ON l.id = b.large \
             LEFT JOIN worker w ON w.id = b.worker WHERE b.id > $1 AND b.kind = 'join' ORDER BY b.id LIMIT $2",
        ] {
            let mut last = -1;
            loop {
                let values = [last.into(), AT_ONCE.into()];
                let (rows, failed) = self.act(|transaction, _| {
                    let rows = transaction.query(sql, &values)?;
                    let end = rows.last().and_then(|row| row.int(0)).unwrap_or(last);
                    let failures = "SELECT batch, line, class, reason FROM failure \
                                    WHERE batch > $1 AND batch <= $2 AND retried IS NULL";
                    Ok((rows, transaction.query(failures, &[last.into(), end.into()])?))
                })?;
                let Some(end) = rows.last().and_then(|row| row.int(0)) else { break };
                last = end;
                let failed = failed_of(&failed);
                for row in &rows {
                    self.each_of(row, &failed, each)?;
                }
            }
        }
        Ok(())
    }

    fn each_of<E: From<FleetError>>(
        &self,
        row: &Row,
        failed: &HashMap<(i64, Vec<u8>), &Row>,
        each: &mut dyn FnMut(&FleetObject, &ObjectRow) -> Result<(), E>,
    ) -> Result<(), E> {
        let batch = row.int(0).unwrap_or_default();
        let damaged = || FleetError::Damaged {
            place: self.place().to_owned(),
            what: format!("the list of batch {batch} makes no sense"),
        };
        for object in row.bytes(3).and_then(unpack).ok_or_else(damaged)? {
            let failure = failed.get(&(batch, object.target.clone()));
            let state = match (row.text(1), failure) {
                (_, Some(_)) => "failed",
                (Some("done"), None) => "done",
                (Some("leased"), None) => "leased",
                _ => "waiting",
            };
            let text = |row: &Row, column| row.text(column).map(str::to_owned);
            let told = ObjectRow {
                source: object.source_text().into_owned(),
                target: object.target_text().into_owned(),
                size: object.size,
                state,
                batch,
                host: text(row, 2),
                class: failure.and_then(|failure| text(failure, 2)),
                reason: failure.and_then(|failure| text(failure, 3)),
            };
            each(&object, &told)?;
        }
        Ok(())
    }
}

/// By batch and target.
fn failed_of(rows: &[Row]) -> HashMap<(i64, Vec<u8>), &Row> {
    let key = |row: &Row| {
        let object = row.bytes(1).and_then(unpack)?.into_iter().next()?;
        Some((row.int(0)?, object.target))
    };
    rows.iter().filter_map(|row| Some((key(row)?, row))).collect()
}
