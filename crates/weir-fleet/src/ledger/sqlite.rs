//! A ledger in a file: SQLite in write-ahead mode, each transaction durable before it is answered.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, TransactionBehavior, ffi};
use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::database::{Act, Database, DatabaseError, Dialect, Now, Row, Transaction, Value};
use crate::error::FleetError;

/// `Weir`, at byte 68 of the file (SQLite's file format, 1.3): what tells a ledger from other databases.
const APPLICATION: u32 = u32::from_be_bytes(*b"Weir");

/// How often another writer is waited for, longer each time up to [`LONGEST_WAIT`]: half a second or more in
/// all. A transaction takes a millisecond, and whoever waits longer is asked again by the ledger's own
/// patience, which hears a signal. SQLite's own handler comes to sleep for 100 ms, while others overtake it
/// (`sqliteDefaultBusyCallback`): of sixteen workers some waited for seconds.
const BUSY: i32 = 40;

/// Milliseconds: twenty transactions. Sooner, those who look keep the one who writes from its processor.
const LONGEST_WAIT: f64 = 20.0;

/// Statements that are kept translated: more than there are.
const STATEMENTS: usize = 128;

const DIALECT: Dialect = Dialect {
    now: "CAST(unixepoch('now', 'subsec') * 1000 AS BIGINT)",
    bytes: "BLOB",
    skip_locked: "",
    lock: "",
    value: "?",
};

/// What stands for itself in the path of a URI.
const IN_URI: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

/// File systems of other hosts, by their magic numbers (statfs(2)): write-ahead mode shares memory between
/// processes and works on one host alone (sqlite.org/wal.html, 1).
const OF_OTHER_HOSTS: &[(i64, &str)] = &[
    (0x6969, "NFS"),
    (0xff53_4d42, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x1983_0326, "BeeGFS"),
];

/// A ledger's file.
pub struct SqliteDatabase {
    path: PathBuf,
    place: String,
    connection: Option<Connection>,
    now: Now,
}

impl SqliteDatabase {
    /// The ledger at `path`; a new file where `create` is set and nothing is there. What is something else is
    /// refused and not written to.
    pub fn open(path: &Path, create: bool, now: Now) -> Result<SqliteDatabase, FleetError> {
        let place = path.display().to_string();
        if let Some(what) = foreign(path).map_err(|error| unusable(&place, &weir_units::plain(&error)))? {
            return Err(FleetError::Foreign { place, what });
        }
        if is_absent(path) && !create {
            return Err(FleetError::Absent { place });
        }
        let around = path.parent().filter(|around| !around.as_os_str().is_empty());
        if let Some(name) = of_other_hosts(around.unwrap_or(Path::new("."))) {
            let why = format!(
                "it is on {name}, where SQLite cannot keep it whole; name a file on a disk of this host, or a \
                 PostgreSQL database"
            );
            return Err(FleetError::Unusable { place, why });
        }
        let mut database = SqliteDatabase { path: path.to_owned(), place, connection: None, now };
        if let Err(error) = database.connection() {
            return Err(error.of(&database.place, Duration::ZERO));
        }
        Ok(database)
    }

    fn connection(&mut self) -> Result<&mut Connection, DatabaseError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().map_err(|error| of_sqlite(&self.path, error))?,
        };
        Ok(self.connection.insert(connection))
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        // Asked to write, SQLite makes files beside it that are this user's, and its owner could not write.
        let allowed = access(&self.path, Access::WRITE_OK);
        if matches!(allowed, Err(Errno::ACCESS | Errno::ROFS | Errno::PERM))
            && let Ok(looks) = self.connect_to_look()
        {
            return Ok(looks);
        }
        match self.connect_to_write() {
            Err(error) if may_not_write(&error) => self.connect_to_look().map_err(|_| error),
            connected => connected,
        }
    }

    fn connect_to_write(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = connected(&self.path, flags)?;
        connection.execute_batch("PRAGMA synchronous = FULL")?;
        let application: i64 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        // A new file gets its mark before it goes to write-ahead mode, so that the mark stands in it.
        if application == 0 {
            connection.execute_batch(&format!("PRAGMA application_id = {APPLICATION}"))?;
        }
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        Ok(connection)
    }

    /// Who may not write may look. With nothing in the log beside it the file alone is the ledger, and is
    /// read without the files that SQLite would make there (sqlite.org/wal.html, 2.4).
    fn connect_to_look(&self) -> rusqlite::Result<Connection> {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        let is_alone = Path::new(&log).metadata().map_or(true, |log| log.len() == 0);
        let immutable = if is_alone { "?immutable=1" } else { "" };
        let path = percent_encode(self.path.as_os_str().as_bytes(), IN_URI);
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = connected(Path::new(&format!("file:{path}{immutable}")), flags)?;
        // Whether it can be read shows when it is.
        connection.query_row("PRAGMA application_id", [], |_| Ok(()))?;
        Ok(connection)
    }
}

impl Database for SqliteDatabase {
    fn transact(&mut self, act: Act<'_>) -> Result<(), DatabaseError> {
        let (now, path) = (self.now.clone(), self.path.clone());
        let failed = |error| of_sqlite(&path, error);
        let connection = self.connection()?;
        let looks = connection.is_readonly(MAIN_DB).map_err(failed)?;
        // Every transaction writes: one that began to read first could not be made to.
        let behavior = if looks { TransactionBehavior::Deferred } else { TransactionBehavior::Immediate };
        let begun = connection.transaction_with_behavior(behavior).map_err(failed);
        let done = begun.and_then(|transaction| {
            let mut open = OpenTransaction { transaction, now, path: &path };
            act(&mut open)?;
            open.transaction.commit().map_err(failed)
        });
        if looks {
            // It may never see what others write.
            self.connection = None;
        }
        done
    }

    fn place(&self) -> &str {
        &self.place
    }

    fn has_ledger(&self) -> &'static str {
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'ledger'"
    }
}

struct OpenTransaction<'a> {
    transaction: rusqlite::Transaction<'a>,
    now: Now,
    path: &'a Path,
}

impl OpenTransaction<'_> {
    fn rows(&self, sql: &str, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
        let mut statement = self.transaction.prepare_cached(&DIALECT.translated(sql, &self.now))?;
        let columns = statement.column_count();
        let mut rows = statement.query(rusqlite::params_from_iter(values))?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let value = |column| row.get_ref(column).map(value_of);
            all.push(Row((0..columns).map(value).collect::<Result<_, _>>()?));
        }
        Ok(all)
    }
}

impl Transaction for OpenTransaction<'_> {
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, DatabaseError> {
        let sql = DIALECT.translated(sql, &self.now);
        let changed = self
            .transaction
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.execute(rusqlite::params_from_iter(values)));
        Ok(changed.map_err(|error| of_sqlite(self.path, error))? as u64)
    }

    fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, DatabaseError> {
        self.rows(sql, values).map_err(|error| of_sqlite(self.path, error))
    }

    fn batch(&mut self, sql: &str) -> Result<(), DatabaseError> {
        let done = self.transaction.execute_batch(&DIALECT.translated(sql, &self.now));
        done.map_err(|error| of_sqlite(self.path, error))
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn value_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

/// The user lacks the right to write, to the file or beside it.
fn may_not_write(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied))
}

/// A failure of the ledger at `path`.
fn of_sqlite(path: &Path, error: rusqlite::Error) -> DatabaseError {
    let words = error.to_string();
    if may_not_write(&error) {
        return DatabaseError::Refused(format!(
            "{words}; it and its folder must be there and writable for this user; to look at it, copy it"
        ));
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            DatabaseError::Passing("another process is writing to it".to_owned())
        }
        Some(ErrorCode::DiskFull) => DatabaseError::Full,
        Some(ErrorCode::SystemIoFailure) if is_for_want_of_space(path, &error) => DatabaseError::Full,
        Some(ErrorCode::SystemIoFailure) => DatabaseError::Refused(format!(
            "{words} while its file was read or written; the kernel's log (dmesg) or a limit of files' sizes \
             (ulimit -f) says why"
        )),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => DatabaseError::Damaged(words),
        _ => DatabaseError::Refused(words),
    }
}

/// Whether a read or a write failed because nothing more fits: SQLite does not say so of the memory that
/// processes share (`-shm`), and of what a file system puts off until it is synced.
fn is_for_want_of_space(path: &Path, error: &rusqlite::Error) -> bool {
    match error.sqlite_extended_error_code() {
        Some(ffi::SQLITE_IOERR_SHMSIZE) => true,
        Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_FSYNC) => {
            rustix::fs::statvfs(path).is_ok_and(|there| there.f_bavail == 0)
        }
        _ => false,
    }
}

fn connected(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(waits_for_another))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Waits a moment for the writer that has the file; false: long enough.
fn waits_for_another(tries: i32) -> bool {
    if tries < BUSY {
        let longest = f64::from(tries + 1).min(LONGEST_WAIT);
        std::thread::sleep(Duration::from_secs_f64(longest * (0.5 + fastrand::f64()) / 1e3));
    }
    tries < BUSY
}

fn unusable(place: &str, why: &str) -> FleetError {
    FleetError::Unusable { place: place.to_owned(), why: why.to_owned() }
}

fn is_absent(path: &Path) -> bool {
    path.metadata().map_or(true, |there| there.len() == 0)
}

/// What is at `path` where that is no ledger; `None`: one, or nothing. Reads the file as bytes, since SQLite
/// would make files beside it.
fn foreign(path: &Path) -> std::io::Result<Option<String>> {
    let there = match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if !there.is_file() {
        let what = if there.is_dir() { "a folder" } else { "no regular file" };
        return Ok(Some(what.to_owned()));
    }
    let mut head = Vec::new();
    File::open(path)?.take(100).read_to_end(&mut head)?;
    if head.is_empty() {
        return Ok(None);
    }
    if head.len() < 100 || !head.starts_with(b"SQLite format 3\0") {
        return Ok(Some("a file of another kind".to_owned()));
    }
    let is_ours = head[68..72] == APPLICATION.to_be_bytes();
    Ok((!is_ours).then(|| "a database of another program".to_owned()))
}

fn of_other_hosts(folder: &Path) -> Option<&'static str> {
    let kind = rustix::fs::statfs(folder).ok()?.f_type as i64 & 0xffff_ffff;
    OF_OTHER_HOSTS.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name)
}
