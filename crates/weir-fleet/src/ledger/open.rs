//! Which ledger is meant, and how long it is waited for.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_units::backoff::doubled;

use super::database::{Database, DatabaseError, Now};
use super::postgres::{DatabaseUrl, PostgresDatabase};
use super::sql::SqlLedger;
use super::sqlite::SqliteDatabase;
use crate::error::FleetError;

/// The first pause before a ledger that is away is asked again; doubled from there on.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest: a database that is back is noticed by all workers within this time.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// How often a pause looks for a signal.
const POLL: Duration = Duration::from_millis(50);

/// Where a ledger is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerPlace {
    /// In this file, by SQLite.
    File(PathBuf),
    /// In this database, by PostgreSQL.
    Database(DatabaseUrl),
}

impl LedgerPlace {
    /// What `--ledger` names.
    pub fn parse(text: &str) -> Result<LedgerPlace, String> {
        match text.split_once("://") {
            _ if text.is_empty() => Err("cannot use '' as a ledger: it names no file".to_owned()),
            Some(("postgres" | "postgresql", _)) => text.parse().map(LedgerPlace::Database),
            Some(("file" | "sqlite", path)) => Ok(LedgerPlace::File(path.into())),
            Some((scheme, _)) => Err(format!(
                "cannot use '{scheme}://' as a ledger: expected a file, or postgres://HOST/DATABASE"
            )),
            None => Ok(LedgerPlace::File(text.into())),
        }
    }

    /// The ledger that is there.
    pub fn open(&self, patience: Patience) -> Result<SqlLedger, FleetError> {
        SqlLedger::open(self.database(false)?, patience)
    }

    /// The ledger that is there, or a new one without a plan, whose tables come with the plan.
    pub fn open_or_create(&self, patience: Patience) -> Result<SqlLedger, FleetError> {
        Ok(SqlLedger::new(self.database(true)?, patience))
    }

    fn database(&self, create: bool) -> Result<Box<dyn Database>, FleetError> {
        Ok(match self {
            LedgerPlace::File(path) => Box::new(SqliteDatabase::open(path, create, Now::Database)?),
            LedgerPlace::Database(url) => Box::new(PostgresDatabase::open(url, create, Now::Database)?),
        })
    }
}

/// How long a ledger that does not answer is asked again, and by what the asker hears that it is to end.
#[derive(Debug, Clone)]
pub struct Patience {
    /// So long.
    pub longest: Duration,
    /// Set by a signal.
    pub stop: Arc<AtomicBool>,
}

impl Patience {
    /// Does `once` until it succeeds, is refused, or has failed for too long.
    pub(super) fn wait<T>(
        &self,
        place: &str,
        mut once: impl FnMut(bool) -> Result<T, DatabaseError>,
    ) -> Result<T, FleetError> {
        let start = Instant::now();
        let mut failures = 0;
        loop {
            let why = match once(failures > 0) {
                Ok(done) => return Ok(done),
                Err(passing @ DatabaseError::Passing(_)) => passing,
                Err(other) => return Err(other.of(place, start.elapsed())),
            };
            let waited = start.elapsed();
            if waited >= self.longest {
                return Err(why.of(place, waited));
            }
            let pause = doubled(FIRST_PAUSE, failures, MAX_PAUSE);
            // Workers that lost one database together do not come back together.
            self.pause(place, pause.mul_f64(0.5 + fastrand::f64() / 2.0))?;
            failures += 1;
        }
    }

    fn pause(&self, place: &str, pause: Duration) -> Result<(), FleetError> {
        let end = Instant::now() + pause;
        loop {
            if self.stop.load(Relaxed) {
                return Err(FleetError::Interrupted { place: place.to_owned() });
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(POLL));
        }
    }
}

impl DatabaseError {
    /// The same as an error of the ledger at `place`, which was waited for.
    pub(super) fn of(self, place: &str, waited: Duration) -> FleetError {
        let place = place.to_owned();
        match self {
            DatabaseError::Passing(why) => FleetError::Away { place, waited, why },
            DatabaseError::Full => FleetError::Full { place },
            DatabaseError::Damaged(what) => FleetError::Damaged { place, what },
            DatabaseError::Refused(why) => FleetError::Unusable { place, why },
        }
    }
}
