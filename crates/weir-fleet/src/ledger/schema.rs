//! The tables of a ledger, and how those of an older weir become today's.

use super::database::{DatabaseError, Transaction};

/// Each version's statements, from the first on: a ledger of version 2 had the first two done to it. Version
/// 1 is the tables themselves.
const MIGRATIONS: &[&str] = &[include_str!("schema.sql")];

/// The version that this weir writes.
pub const VERSION: i64 = MIGRATIONS.len() as i64;

/// Brings the tables from version `from` to [`VERSION`], all or nothing: the transaction is the caller's.
pub fn migrate(transaction: &mut dyn Transaction, from: i64) -> Result<(), DatabaseError> {
    let done = usize::try_from(from).unwrap_or_default();
    for statements in MIGRATIONS.iter().skip(done) {
        transaction.batch(statements)?;
    }
    if from > 0 && from < VERSION {
        transaction.execute("UPDATE ledger SET version = $1", &[VERSION.into()])?;
    }
    Ok(())
}
