//! Objects that go from one batch to another, or are given up. In each step as many are added as are taken.

use super::super::database::{DatabaseError, Transaction, Value};
use super::{must, one};
use crate::class::FailureClass;
use crate::object::{FleetObject, pack, unpack};

/// What a batch holds: as many as its row says. What is not in its list would be done by nobody, and never
/// missed.
pub(super) fn objects(
    transaction: &mut dyn Transaction,
    batch: i64,
) -> Result<Vec<FleetObject>, DatabaseError> {
    let sql = "SELECT m.lines, b.objects FROM manifest m JOIN batch b ON b.id = m.batch WHERE m.batch = $1";
    let row = one(transaction.query(sql, &[batch.into()])?, "the list of a batch")?;
    let objects = must(row.bytes(0).and_then(unpack), "the list of a batch")?;
    let is_all = row.int(1) == i64::try_from(objects.len()).ok();
    must(is_all.then_some(objects), &format!("the number of objects of batch {batch}"))
}

/// Bytes of these, as far as they are known.
pub(super) fn bytes_of<'a>(objects: impl IntoIterator<Item = &'a FleetObject>) -> u64 {
    // A list has less than 2^60 of them: see `unpack`.
    objects.into_iter().map(|object| object.size.unwrap_or(0)).sum()
}

/// A number for a new batch.
pub(super) fn next_batch(transaction: &mut dyn Transaction) -> Result<i64, DatabaseError> {
    let sql = "UPDATE ledger SET next_batch = next_batch + 1 RETURNING next_batch - 1";
    must(one(transaction.query(sql, &[])?, "its plan")?.int(0), "the number of a batch")
}

/// A batch that comes from another.
pub(super) struct Offshoot<'a> {
    pub objects: &'a [FleetObject],
    pub parent: i64,
    /// When it is due, from now, milliseconds.
    pub pause: u64,
    pub tries: u64,
    pub avoid: Option<&'a str>,
}

impl Offshoot<'_> {
    /// Makes it; the parent's own list and counts are for the caller to change.
    pub(super) fn insert(&self, transaction: &mut dyn Transaction) -> Result<i64, DatabaseError> {
        let batch = next_batch(transaction)?;
        let (count, bytes) = (self.objects.len() as u64, bytes_of(self.objects));
        transaction.execute(
            "INSERT INTO batch (id, kind, state, objects, bytes, priority, due, tries, avoid, parent) \
             VALUES ($1, 'objects', 'waiting', $2, $3, $3, {now} + CAST($4 AS BIGINT), $5, $6, $7)",
            &[
                batch.into(),
                count.into(),
                bytes.into(),
                self.pause.into(),
                self.tries.into(),
                self.avoid.map_or(Value::Null, Value::from),
                self.parent.into(),
            ],
        )?;
        let sql = "INSERT INTO manifest (batch, lines) VALUES ($1, $2)";
        transaction.execute(sql, &[batch.into(), pack(self.objects).into()])?;
        Ok(batch)
    }
}

/// Leaves a batch these objects alone.
pub(super) fn keep(
    transaction: &mut dyn Transaction,
    batch: i64,
    objects: &[FleetObject],
) -> Result<(), DatabaseError> {
    let sql = "UPDATE manifest SET lines = $2 WHERE batch = $1";
    transaction.execute(sql, &[batch.into(), pack(objects).into()])?;
    let sql = "UPDATE batch SET objects = $2, bytes = $3 WHERE id = $1";
    let values = [batch.into(), (objects.len() as u64).into(), bytes_of(objects).into()];
    transaction.execute(sql, &values)?;
    Ok(())
}

/// Cuts a batch behind its first `kept` objects. Returns the batch that has the others, which waits.
pub(super) fn split(
    transaction: &mut dyn Transaction,
    batch: i64,
    kept: u64,
    avoid: Option<&str>,
) -> Result<i64, DatabaseError> {
    let all = objects(transaction, batch)?;
    let (kept, others) = all.split_at(all.len().min(kept as usize));
    let sql = "SELECT tries FROM batch WHERE id = $1";
    let tries = one(transaction.query(sql, &[batch.into()])?, "a batch")?.count(0);
    let made = Offshoot { objects: others, parent: batch, pause: 0, tries, avoid }.insert(transaction)?;
    keep(transaction, batch, kept)?;
    Ok(made)
}

/// A failure that is final.
pub(super) struct GivenUp<'a> {
    pub batch: i64,
    pub position: u64,
    pub class: FailureClass,
    pub reason: &'a str,
    pub attempts: u64,
    pub object: &'a FleetObject,
}

impl GivenUp<'_> {
    pub(super) fn insert(&self, transaction: &mut dyn Transaction) -> Result<(), DatabaseError> {
        // NUL is no character of a text in PostgreSQL.
        let text = |text: &str| Value::from(text.replace('\0', "\u{fffd}"));
        transaction.execute(
            "INSERT INTO failure (batch, position, class, reason, source, target, bytes, attempts, worker, at, \
             line) SELECT $1, CAST($2 AS BIGINT), $3, $4, $5, $6, CAST($7 AS BIGINT), CAST($8 AS BIGINT), \
             worker, {now}, CAST($9 AS {bytes}) FROM batch WHERE id = $1",
            &[
                self.batch.into(),
                self.position.into(),
                self.class.name().into(),
                text(self.reason),
                text(&self.object.source_text()),
                text(&self.object.target_text()),
                self.object.size.into(),
                self.attempts.into(),
                pack([self.object]).into(),
            ],
        )?;
        Ok(())
    }
}

/// Gives up a batch of one object, or the large object that it is a part of.
pub(super) fn give_up(
    transaction: &mut dyn Transaction,
    batch: i64,
    class: FailureClass,
    reason: &str,
) -> Result<(), DatabaseError> {
    let sql = "SELECT large, fence, kind FROM batch WHERE id = $1";
    let row = one(transaction.query(sql, &[batch.into()])?, "a batch")?;
    if row.text(2) == Some("abort") {
        return end_abort(transaction, batch);
    }
    let attempts = row.count(1);
    let Some(large) = row.int(0) else {
        for (position, object) in (0..).zip(&objects(transaction, batch)?) {
            GivenUp { batch, position, class, reason, attempts, object }.insert(transaction)?;
        }
        let sql = "UPDATE batch SET state = 'done', finished = {now}, failed = objects WHERE id = $1";
        transaction.execute(sql, &[batch.into()])?;
        return Ok(());
    };
    give_up_large(transaction, large, class, reason, attempts)
}

/// Gives up a large object: none of its ranges is given out any more.
pub(super) fn give_up_large(
    transaction: &mut dyn Transaction,
    large: i64,
    class: FailureClass,
    reason: &str,
    attempts: u64,
) -> Result<(), DatabaseError> {
    let sql = "SELECT line FROM large WHERE id = $1";
    let row = one(transaction.query(sql, &[large.into()])?, "a large object")?;
    let object = row.bytes(0).and_then(unpack).and_then(|objects| objects.into_iter().next());
    let object = &must(object, "a large object")?;
    let sql = "SELECT id FROM batch WHERE large = $1 AND kind = 'join' AND state <> 'done'";
    let Some(join) = transaction.query(sql, &[large.into()])?.first().and_then(|row| row.int(0)) else {
        return Ok(());
    };
    GivenUp { batch: join, position: 0, class, reason, attempts, object }.insert(transaction)?;
    let sql = "UPDATE batch SET state = 'done', finished = {now}, failed = objects, fence = fence + 1 \
               WHERE large = $1 AND state <> 'done' AND kind <> 'abort'";
    transaction.execute(sql, &[large.into()])?;
    abandon(transaction, large)
}

/// What the workers on an object had in common is to be taken away: a batch of its own.
fn abandon(transaction: &mut dyn Transaction, large: i64) -> Result<(), DatabaseError> {
    // Written also where there is nothing: whoever would name something at this moment has to wait for this
    // row, and hears that it is too late.
    let sql = "UPDATE large SET token = coalesce(token, '') WHERE id = $1 RETURNING token";
    let row = one(transaction.query(sql, &[large.into()])?, "a large object")?;
    let Some(token) = row.text(0).filter(|token| !token.is_empty()) else { return Ok(()) };
    let batch = next_batch(transaction)?;
    transaction.execute(
        "INSERT INTO batch (id, kind, state, objects, bytes, priority, due, large, part, range_start, range_end, \
         note) VALUES ($1, 'abort', 'waiting', 0, 0, 0, {now}, $2, 0, 0, 0, $3)",
        &[batch.into(), large.into(), token.into()],
    )?;
    Ok(())
}

/// Taken away, or nobody can.
pub(super) fn end_abort(transaction: &mut dyn Transaction, batch: i64) -> Result<(), DatabaseError> {
    let sql = "UPDATE batch SET state = 'done', finished = {now}, ask = NULL WHERE id = $1";
    transaction.execute(sql, &[batch.into()])?;
    Ok(())
}
