//! The ledger's operations as statements, the same for both databases.

mod claiming;
mod exporting;
mod finishing;
mod helping;
mod history;
mod judging;
mod moving;
mod planning;
mod retrying;
mod steering;

use std::time::Duration;

use super::database::{Database, DatabaseError, Row, Transaction, Value};
use super::open::Patience;
use super::schema;
use super::{
    BatchLease, BatchResults, Claimed, Finished, FleetLedger, Helped, Helper, PlanEnds, Renewed, VerdictSpan,
    WorkerId, WorkerIdentity,
};
use crate::error::FleetError;

pub use claiming::GONE;
pub use exporting::ObjectRow;
pub use planning::{PlanLease, PlanStep, PlannedBatch, PlannedLarge};
pub use steering::{FailureRow, FleetStatus, OfLate, WorkerRow};

/// A ledger in a database.
pub struct SqlLedger {
    database: Box<dyn Database>,
    patience: Patience,
}

impl SqlLedger {
    /// Over a database that may hold no ledger yet.
    pub fn new(database: Box<dyn Database>, patience: Patience) -> SqlLedger {
        SqlLedger { database, patience }
    }

    /// Over a database that holds one; one of an older weir is brought to today's tables.
    pub fn open(database: Box<dyn Database>, patience: Patience) -> Result<SqlLedger, FleetError> {
        let mut ledger = SqlLedger::new(database, patience);
        let place = ledger.place().to_owned();
        match ledger.version()? {
            None => Err(FleetError::Absent { place }),
            Some(_) => Ok(ledger),
        }
    }

    /// As a person names it, without a password.
    pub fn place(&self) -> &str {
        self.database.place()
    }

    /// The version of its tables, after they were brought to today's; `None` where there are none.
    fn version(&mut self) -> Result<Option<i64>, FleetError> {
        let has_ledger = self.database.has_ledger();
        let found = self.act(|transaction, _| {
            if transaction.query(has_ledger, &[])?.first().is_none_or(|row| row.count(0) == 0) {
                return Ok(None);
            }
            let version = version_of(transaction, "SELECT version FROM ledger")?;
            if version >= schema::VERSION {
                return Ok(Some(version));
            }
            // Not locked before it must be: who only looks may lack the right to, and a standby has no locks.
            // Somebody else may have brought it to today's meanwhile.
            let version = version_of(transaction, "SELECT version FROM ledger {lock}")?;
            if version < schema::VERSION {
                schema::migrate(transaction, version)?;
            }
            Ok(Some(version))
        })?;
        match found {
            Some(found) if found > schema::VERSION => {
                Err(FleetError::Newer { place: self.place().to_owned(), found, known: schema::VERSION })
            }
            found => Ok(found),
        }
    }

    /// One transaction, again where it failed in passing; `again` is whether it may have been done before.
    fn act<T>(
        &mut self,
        mut act: impl FnMut(&mut dyn Transaction, bool) -> Result<T, DatabaseError>,
    ) -> Result<T, FleetError> {
        let SqlLedger { database, patience } = self;
        let place = database.place().to_owned();
        patience.wait(&place, |again| {
            let mut done = None;
            database.transact(&mut |transaction| {
                done = Some(act(transaction, again)?);
                Ok(())
            })?;
            done.ok_or_else(|| DatabaseError::Refused("it did nothing".to_owned()))
        })
    }
}

/// What `sql` gives as the version of the tables.
fn version_of(transaction: &mut dyn Transaction, sql: &str) -> Result<i64, DatabaseError> {
    let rows = transaction.query(sql, &[])?;
    let version = rows.first().and_then(|row| row.int(0)).filter(|version| *version > 0);
    version.ok_or_else(|| DatabaseError::Damaged("it has no version".to_owned()))
}

/// A number for a question, so that the same one asked twice is known.
fn ask() -> i64 {
    fastrand::i64(1..)
}

/// Milliseconds.
fn millis(span: Duration) -> Value {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX >> 2).into()
}

/// The row that a query must give.
fn one(rows: Vec<Row>, what: &str) -> Result<Row, DatabaseError> {
    rows.into_iter().next().ok_or_else(|| DatabaseError::Damaged(format!("{what} is not there")))
}

/// What a row must have in a column.
fn must<T>(value: Option<T>, what: &str) -> Result<T, DatabaseError> {
    value.ok_or_else(|| DatabaseError::Damaged(format!("{what} makes no sense")))
}

impl FleetLedger for SqlLedger {
    fn ends(&mut self) -> Result<PlanEnds, FleetError> {
        self.act(|transaction, _| planning::ends(transaction))
    }

    fn join(&mut self, who: &WorkerIdentity) -> Result<WorkerId, FleetError> {
        let ask = ask();
        self.act(|transaction, _| claiming::join(transaction, who, ask))
    }

    fn leave(&mut self, worker: WorkerId) -> Result<(), FleetError> {
        self.act(|transaction, _| claiming::leave(transaction, worker))
    }

    fn claim(&mut self, worker: WorkerId, length: Duration) -> Result<Claimed, FleetError> {
        let ask = ask();
        self.act(|transaction, again| claiming::claim(transaction, worker, length, (ask, again)))
    }

    fn renew(
        &mut self,
        lease: BatchLease,
        length: Duration,
        reached: u64,
        bytes: u64,
    ) -> Result<Renewed, FleetError> {
        self.act(|transaction, _| claiming::renew(transaction, lease, length, reached, bytes))
    }

    fn finish(&mut self, lease: BatchLease, results: &BatchResults) -> Result<Finished, FleetError> {
        let answer = self.act(|transaction, _| finishing::finish(transaction, lease, results))?;
        answer.map_err(|why| FleetError::Results { batch: lease.batch, why })
    }

    fn release(&mut self, lease: BatchLease) -> Result<bool, FleetError> {
        self.act(|transaction, _| claiming::release(transaction, lease))
    }

    fn fail(&mut self, lease: BatchLease) -> Result<bool, FleetError> {
        self.act(|transaction, _| claiming::fail(transaction, lease))
    }

    fn help(&mut self, worker: WorkerId, length: Duration, helper: &Helper) -> Result<Helped, FleetError> {
        let ask = ask();
        self.act(|transaction, again| helping::help(transaction, worker, length, helper, (ask, again)))
    }

    fn share_token(&mut self, large: i64, token: &str) -> Result<String, FleetError> {
        self.act(|transaction, _| claiming::share_token(transaction, large, token))
    }

    fn tell(&mut self, worker: WorkerId, spans: &[VerdictSpan]) -> Result<(), FleetError> {
        self.act(|transaction, _| steering::tell(transaction, worker, spans))
    }
}
