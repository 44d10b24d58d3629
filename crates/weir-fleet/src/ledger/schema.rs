//! The tables of a ledger, and how those of an older weir become today's.

use super::database::{DatabaseError, Transaction};

/// Each version's statements, from the first on: a ledger of version 2 had the first two done to it. Version
/// 1 is the tables themselves. None of them is ever changed, since there are ledgers that it was done to; and
/// none takes away what statements of the version before need, since older workers go on beside a newer one.
const MIGRATIONS: &[&str] =
    &[include_str!("schema.sql"), include_str!("schema_2.sql"), include_str!("schema_3.sql")];

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
