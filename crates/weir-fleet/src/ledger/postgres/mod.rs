//! A ledger in a PostgreSQL database, in a schema of its own.
//!
//! A connection is one thread's. Every answer has a deadline. One that does not come closes the connection,
//! as does a failure that may pass: the next transaction makes a new one.

mod settings;

use std::collections::HashMap;
use std::error::Error as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;
use weir_get::http::trust::{Clients, Trust};

use super::database::{Act, Database, DatabaseError, Dialect, Now, Row, Transaction, Value};
use super::open::{POLL, is_to_end};
use crate::error::FleetError;
pub use settings::DatabaseUrl;
use settings::{Encryption, PostgresSettings};

/// How long an answer may take. A claim takes a millisecond, and adding 32 batches tens of them; a disk that
/// syncs slowly and a lock that another worker has add seconds.
const ANSWER: Duration = Duration::from_secs(20);

/// What is wrong where a name that PostgreSQL gave does not come.
const SILENT: &str = "it did not answer for 20 s";

const DIALECT: Dialect = Dialect {
    now: "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS BIGINT)",
    bytes: "BYTEA",
    skip_locked: "FOR UPDATE SKIP LOCKED",
    lock: "FOR UPDATE",
    value: "$",
};

/// A ledger's database.
pub struct PostgresDatabase {
    settings: PostgresSettings,
    asker: Asker,
    connection: Option<PostgresConnection>,
    now: Now,
    /// Its schema is made where it is not there.
    create: bool,
}

/// Who waits for answers.
struct Asker {
    runtime: Runtime,
    /// Set by a signal.
    stop: Arc<AtomicBool>,
}

impl Asker {
    /// What comes of a question, or that nothing comes.
    fn answer<T>(
        &self,
        question: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, DatabaseError> {
        let silent = |why: &str| Err(DatabaseError::Passing(why.to_owned()));
        let (asked, mut told) = (Instant::now(), None);
        self.runtime.block_on(async {
            let mut question = pin!(question);
            loop {
                if let Ok(answer) = timeout(POLL, question.as_mut()).await {
                    return answer.map_err(of_postgres);
                }
                if is_to_end(&self.stop, &mut told) {
                    return silent("it did not answer before whoever asked was told to end");
                }
                if asked.elapsed() >= ANSWER {
                    return silent(SILENT);
                }
            }
        })
    }
}

struct PostgresConnection {
    client: Client,
    /// Statements that it has prepared, by their text.
    statements: HashMap<String, Statement>,
}

impl PostgresDatabase {
    /// The ledger at `url`; its schema is made where `create` is set. Connects when it is first asked.
    pub fn open(url: &DatabaseUrl, create: bool, now: Now) -> Result<PostgresDatabase, FleetError> {
        let unusable = |why: String| FleetError::Unusable { place: url.to_string(), why };
        let settings = PostgresSettings::of(url).map_err(unusable)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unusable(format!("cannot wait for it: {error}")))?;
        let asker = Asker { runtime, stop: Arc::default() };
        Ok(PostgresDatabase { settings, asker, connection: None, now, create })
    }

    /// The same, which waits no longer for an answer once `stop` is set.
    pub fn stopped_by(mut self, stop: &Arc<AtomicBool>) -> PostgresDatabase {
        self.asker.stop = Arc::clone(stop);
        self
    }

    fn connect(&self) -> Result<PostgresConnection, DatabaseError> {
        let tls = self.tls()?;
        let client = self.asker.answer(async {
            let (client, connection) = self.settings.config.connect(tls).await?;
            // It is driven while an answer is waited for, and ends with its client.
            tokio::spawn(connection);
            Ok::<_, tokio_postgres::Error>(client)
        })?;
        let schema = format!("\"{}\"", self.settings.schema.replace('"', "\"\""));
        let make = if self.create { format!("CREATE SCHEMA IF NOT EXISTS {schema};") } else { String::new() };
        let sql = format!(
            "SET client_min_messages = warning; SET search_path TO {schema}; SET synchronous_commit = on; {make}"
        );
        self.asker.answer(client.batch_execute(&sql))?;
        Ok(PostgresConnection { client, statements: HashMap::new() })
    }

    fn tls(&self) -> Result<MakeRustlsConnect, DatabaseError> {
        let Encryption { root, verified } = &self.settings.encryption;
        // As libpq: an authority that is given is believed, and without one any certificate is taken unless
        // the mode says otherwise.
        let insecure = root.is_none() && !verified;
        let trust = Trust { authorities: root.clone(), insecure, ..Trust::default() };
        let clients = Clients::new(&trust).map_err(|error| DatabaseError::Refused(error.to_string()))?;
        let mut config = (*clients.http1).clone();
        // PostgreSQL: Protocol, 53.2.11.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(MakeRustlsConnect::new(config))
    }
}

impl Database for PostgresDatabase {
    fn transact(&mut self, act: Act<'_>) -> Result<(), DatabaseError> {
        let connection = match self.connection.take().filter(|connection| !connection.client.is_closed()) {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let mut open = OpenTransaction { asker: &self.asker, connection, now: &self.now };
        open.plain("BEGIN")?;
        match act(&mut open).and_then(|()| open.plain("COMMIT")) {
            Ok(()) => {
                self.connection = Some(open.connection);
                Ok(())
            }
            Err(error) => {
                // A failure that passes may last as long as this connection: its server is silent, or has
                // become read-only. A connection that cannot roll back is of no use either.
                if !matches!(error, DatabaseError::Passing(_)) && open.plain("ROLLBACK").is_ok() {
                    self.connection = Some(open.connection);
                }
                Err(error)
            }
        }
    }

    fn place(&self) -> &str {
        &self.settings.shown
    }

    fn has_ledger(&self) -> &'static str {
        "SELECT count(*) FROM information_schema.tables \
         WHERE table_schema = current_schema() AND table_name = 'ledger'"
    }
}

struct OpenTransaction<'a> {
    asker: &'a Asker,
    connection: PostgresConnection,
    now: &'a Now,
}

impl OpenTransaction<'_> {
    fn plain(&mut self, sql: &str) -> Result<(), DatabaseError> {
        self.asker.answer(self.connection.client.batch_execute(sql))
    }

    fn statement(&mut self, sql: &str) -> Result<Statement, DatabaseError> {
        let sql = DIALECT.translated(sql, self.now);
        if let Some(statement) = self.connection.statements.get(&sql) {
            return Ok(statement.clone());
        }
        let statement = self.asker.answer(self.connection.client.prepare(&sql))?;
        // Under a test's clock no text comes twice.
        if matches!(self.now, Now::Database) {
            self.connection.statements.insert(sql, statement.clone());
        }
        Ok(statement)
    }
}

fn given(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

impl Transaction for OpenTransaction<'_> {
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, DatabaseError> {
        let statement = self.statement(sql)?;
        self.asker.answer(self.connection.client.execute(&statement, &given(values)))
    }

    fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, DatabaseError> {
        let statement = self.statement(sql)?;
        let rows = self.asker.answer(self.connection.client.query(&statement, &given(values)))?;
        rows.iter().map(row_of).collect()
    }

    fn batch(&mut self, sql: &str) -> Result<(), DatabaseError> {
        self.plain(&DIALECT.translated(sql, self.now))
    }
}

fn row_of(row: &tokio_postgres::Row) -> Result<Row, DatabaseError> {
    let value = |at: usize| {
        let of = row.columns()[at].type_();
        Ok(match *of {
            Type::INT8 => row.try_get::<_, Option<i64>>(at)?.into(),
            Type::INT4 => row.try_get::<_, Option<i32>>(at)?.map(i64::from).into(),
            Type::FLOAT8 => row.try_get::<_, Option<f64>>(at)?.into(),
            Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at)?.into(),
            _ => row.try_get::<_, Option<String>>(at)?.into(),
        })
    };
    let values = (0..row.len()).map(value).collect::<Result<_, tokio_postgres::Error>>();
    values.map(Row).map_err(of_postgres)
}

impl ToSql for Value {
    fn to_sql(
        &self,
        of: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(number) => number.to_sql(of, out),
            Value::Real(number) => number.to_sql(of, out),
            Value::Text(text) => text.to_sql(of, out),
            Value::Bytes(bytes) => bytes.to_sql(of, out),
        }
    }

    fn accepts(of: &Type) -> bool {
        [Type::INT8, Type::FLOAT8, Type::TEXT, Type::BYTEA].contains(of)
    }

    to_sql_checked!();
}

/// SQLSTATE: by its class (PostgreSQL: Appendix A), and words with what caused them.
fn of_postgres(error: tokio_postgres::Error) -> DatabaseError {
    let Some(told) = error.as_db_error() else {
        let cause = error.source().map(ToString::to_string);
        let words = with_way_out(cause.unwrap_or_else(|| error.to_string()));
        // What is wrong with the words of the user, or with a certificate, stays wrong.
        let is_refused = error.to_string().contains("TLS") || error.to_string().contains("configuration");
        return match is_refused {
            true => DatabaseError::Refused(words),
            false => DatabaseError::Passing(words),
        };
    };
    let words = told.message().to_owned();
    let code = told.code();
    if *code == SqlState::DISK_FULL {
        return DatabaseError::Full;
    }
    match code.code().get(..2) {
        // Connections, resources, locks, a server that begins or ends.
        Some("08" | "40" | "53" | "55" | "57" | "58") => DatabaseError::Passing(words),
        // Until another server takes over, or this one has space again.
        _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => DatabaseError::Passing(words),
        Some("XX") if *code != SqlState::INTERNAL_ERROR => DatabaseError::Damaged(words),
        // Two that made the same at once.
        _ if [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE].contains(code) => {
            DatabaseError::Passing(words)
        }
        Some("28") => DatabaseError::Refused(format!("{words}{LOGIN}")),
        _ => DatabaseError::Refused(words),
    }
}

/// What to do about a login that is refused.
const LOGIN: &str = "; give the password by PGPASSWORD or ~/.pgpass, the user as postgres://USER@HOST/";

/// What to do about a login or a connection that is refused, behind the words that say so.
fn with_way_out(words: String) -> String {
    let way_out = match &*words {
        words if words.contains("does not support TLS") => "; say sslmode=prefer to go on without",
        words if words.contains("invalid peer certificate") => {
            "; name the host as its certificate does, and the authority that signed it by sslrootcert=FILE"
        }
        words if words.contains("password") => LOGIN,
        _ => "",
    };
    format!("{words}{way_out}")
}
