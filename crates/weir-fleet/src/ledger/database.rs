//! What the ledger needs of a database: transactions, and statements with values.
//!
//! The statements are the same for both. They name values `$1`, `$2` and contain the words for what the
//! dialects say otherwise: `{now}`, `{bytes}` (the type of a string of bytes), `{lock}` (of the rows that are
//! read) and `{skip locked}` (rows that another transaction has are left out; a file of SQLite has one writer
//! and needs neither).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// None.
    Null,
    /// A number, and every time: milliseconds since 1970.
    Int(i64),
    /// A fraction.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

macro_rules! from {
    ($($type:ty => $value:expr;)*) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Value {
                $value(value)
            }
        })*
    };
}

from! {
    i64 => Value::Int;
    f64 => Value::Real;
    String => Value::Text;
    Vec<u8> => Value::Bytes;
    &str => |text: &str| Value::Text(text.to_owned());
    // No count of objects or bytes that are really there is beyond 2^63.
    u64 => |number| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    bool => |yes| Value::Int(i64::from(yes));
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, T::into)
    }
}

/// A row of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(pub Vec<Value>);

impl Row {
    /// A number; `None` where it is none.
    pub fn int(&self, column: usize) -> Option<i64> {
        match self.0.get(column)? {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// A number that counts.
    pub fn count(&self, column: usize) -> u64 {
        self.int(column).and_then(|number| number.try_into().ok()).unwrap_or_default()
    }

    /// A fraction.
    pub fn real(&self, column: usize) -> Option<f64> {
        match self.0.get(column)? {
            Value::Real(number) => Some(*number),
            Value::Int(number) => Some(*number as f64),
            _ => None,
        }
    }

    /// Text; `None` where it is none.
    pub fn text(&self, column: usize) -> Option<&str> {
        match self.0.get(column)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Bytes; `None` where it has none.
    pub fn bytes(&self, column: usize) -> Option<&[u8]> {
        match self.0.get(column)? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Why a statement or a transaction failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// The same again may succeed, with a new connection where that was lost.
    #[error("{0}")]
    Passing(String),
    /// Its disk is full. The same again succeeds when there is space.
    #[error("no space left on its device")]
    Full,
    /// Its bytes make no sense.
    #[error("{0}")]
    Damaged(String),
    /// It refuses, and would again.
    #[error("{0}")]
    Refused(String),
}

/// Statements within a transaction.
pub trait Transaction {
    /// Rows that it changed.
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, DatabaseError>;

    /// Rows that it gives.
    fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, DatabaseError>;

    /// Several statements without values.
    fn batch(&mut self, sql: &str) -> Result<(), DatabaseError>;
}

/// What is done in a transaction.
pub type Act<'a> = &'a mut dyn FnMut(&mut dyn Transaction) -> Result<(), DatabaseError>;

/// A database.
pub trait Database: Send {
    /// Does `act` and keeps what it did, or nothing of it where it failed. A lost connection is made again by
    /// the next one. Where [`DatabaseError::Passing`] comes out nobody knows which of the two it was.
    fn transact(&mut self, act: Act<'_>) -> Result<(), DatabaseError>;

    /// As a person names it, without a password.
    fn place(&self) -> &str;

    /// A statement that counts the tables called `ledger`.
    fn has_ledger(&self) -> &'static str;
}

/// Whose time `{now}` is.
#[derive(Debug, Clone, Default)]
pub enum Now {
    /// The database's.
    #[default]
    Database,
    /// A test's, in milliseconds.
    Given(Arc<AtomicI64>),
}

/// A dialect's words.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// `{now}`: milliseconds since 1970.
    pub now: &'static str,
    /// `{bytes}`.
    pub bytes: &'static str,
    /// `{skip locked}`.
    pub skip_locked: &'static str,
    /// `{lock}`: a row that is read to be changed.
    pub lock: &'static str,
    /// What stands before the number of a value.
    pub value: &'static str,
}

impl Dialect {
    /// The statement as this database understands it.
    pub fn translated(&self, sql: &str, now: &Now) -> String {
        let now = match now {
            Now::Database => self.now.to_owned(),
            Now::Given(time) => time.load(Relaxed).to_string(),
        };
        sql.replace("{now}", &now)
            .replace("{bytes}", self.bytes)
            .replace("{skip locked}", self.skip_locked)
            .replace("{lock}", self.lock)
            .replace('$', self.value)
    }
}
