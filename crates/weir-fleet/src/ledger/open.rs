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

/// How often a wait checks for a signal.
pub(super) const POLL: Duration = Duration::from_millis(50);

/// How long an answer may take after a signal: time to give back what is held, where the ledger answers.
const LAST: Duration = Duration::from_secs(1);

/// Whether a wait is over because of a signal, which it first saw [`LAST`] ago: at `told`, `None` when the
/// wait begins.
pub(crate) fn is_to_end(stop: &AtomicBool, told: &mut Option<Instant>) -> bool {
    stop.load(Relaxed) && told.get_or_insert_with(Instant::now).elapsed() >= LAST
}

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
    ///
    /// # Errors
    /// In words, where it names none; what could hold a password is not repeated.
    pub fn parse(text: &str) -> Result<LedgerPlace, String> {
        if is_of_libpq(text) {
            return Err(
                "cannot use this as a ledger: expected postgres://USER@HOST/DATABASE, with the password in \
                 PGPASSWORD or ~/.pgpass; write ./NAME for a file of such a name"
                    .to_owned(),
            );
        }
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
        SqlLedger::open(self.database(false, &patience)?, patience)
    }

    /// The ledger that is there, or a new one without a plan, whose tables come with the plan.
    pub fn open_or_create(&self, patience: Patience) -> Result<SqlLedger, FleetError> {
        Ok(SqlLedger::new(self.database(true, &patience)?, patience))
    }

    fn database(&self, create: bool, patience: &Patience) -> Result<Box<dyn Database>, FleetError> {
        Ok(match self {
            LedgerPlace::File(path) => Box::new(SqliteDatabase::open(path, create, Now::Database)?),
            LedgerPlace::Database(url) => {
                let database = PostgresDatabase::open(url, create, Now::Database)?;
                Box::new(database.stopped_by(&patience.stop))
            }
        })
    }
}

/// Whether `text` is meant for a database, as libpq has it (`host=HOST password=...`) or with a slash left
/// out: taken for a file's name it would be shown, and a file be made of it. What begins as a path is one.
fn is_of_libpq(text: &str) -> bool {
    if ["/", "./", "../"].iter().any(|path| text.starts_with(path)) {
        return false;
    }
    let is_scheme = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if text.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme)) {
        return false;
    }
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    let mut words = text.split(|letter: char| letter == '=' || letter.is_whitespace());
    let is_word = |word: &str| ["host", "hostaddr", "dbname", "password"].contains(&word);
    ["postgres", "postgresql"].iter().any(|name| scheme.eq_ignore_ascii_case(name))
        || text.contains('=') && words.any(is_word)
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
        let (start, mut told) = (Instant::now(), None);
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
            self.pause(place, pause.mul_f64(0.5 + fastrand::f64() / 2.0), &mut told)?;
            failures += 1;
        }
    }

    fn pause(&self, place: &str, pause: Duration, told: &mut Option<Instant>) -> Result<(), FleetError> {
        let end = Instant::now() + pause;
        loop {
            if is_to_end(&self.stop, told) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_hold_a_password_is_no_file_and_not_repeated() {
        for text in [
            "host=127.0.0.1 user=me password=s3cret dbname=x",
            "user=me password = s3cret",
            "postgres:/me:s3cret@h/a",
            "postgresql:me:s3cret@h/a",
            "Postgres:/me:s3cret@h/a",
            "dbname=x://s3cret",
        ] {
            let error = LedgerPlace::parse(text).unwrap_err();
            assert!(error.contains("PGPASSWORD") && !error.contains("s3cret"), "{error}");
        }
        for file in [
            "plan.db",
            "./host=1",
            "./my host=1",
            "../host=1",
            "/data/run host=n1/l.db",
            "./postgres:l.db",
            "a password.db",
            "runs/dbname=a",
            "postgres",
        ] {
            assert_eq!(LedgerPlace::parse(file), Ok(LedgerPlace::File(file.into())));
        }
        for address in ["postgres://h/d", "postgres://h/d?schema=host"] {
            assert!(matches!(LedgerPlace::parse(address), Ok(LedgerPlace::Database(_))));
        }
    }

    #[test]
    fn who_is_told_to_end_still_waits_a_moment_for_another_writer() {
        let patience = Patience { longest: Duration::from_secs(60), stop: Arc::new(true.into()) };
        let (began, busy) = (Instant::now(), || DatabaseError::Passing("busy".to_owned()));
        let ended = patience.wait("l.db", |_| Err::<(), _>(busy()));
        assert!(matches!(ended, Err(FleetError::Interrupted { .. })), "{ended:?}");
        assert!(began.elapsed() >= LAST, "{:?}", began.elapsed());
    }
}
