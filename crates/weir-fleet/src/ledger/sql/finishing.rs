//! What became of a batch: counted under its fence, or not at all.

use std::collections::HashSet;
use std::time::Duration;

use weir_units::backoff::doubled;

use super::super::database::{DatabaseError, Row, Transaction, Value};
use super::super::{BatchLease, BatchResults, Finished, ObjectFailure};
use super::moving::{GivenUp, Offshoot, bytes_of, end_abort, give_up_large, keep, objects};
use super::{must, one};
use crate::object::FleetObject;

/// The pause before objects that failed are tried again, doubled with each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest: a store that was down for an hour is noticed within minutes.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(300);

/// Characters of a reason: a server's words may be a page.
const MAX_REASON: usize = 1000;

struct Held {
    lease: BatchLease,
    objects: u64,
    bytes: u64,
    tries: u64,
    large: Option<i64>,
    is_join: bool,
    is_abort: bool,
    attempts: u64,
    host: Option<String>,
}

/// `Err`: the results do not add up.
pub(super) fn finish(
    transaction: &mut dyn Transaction,
    lease: BatchLease,
    results: &BatchResults,
) -> Result<Result<Finished, String>, DatabaseError> {
    let sql = "SELECT state, fence, objects, tries, kind, large, worker, bytes FROM batch \
               WHERE id = $1 {lock}";
    let row = one(transaction.query(sql, &[lease.batch.into()])?, "a batch")?;
    match (row.int(1) == Some(lease.fence), row.text(0)) {
        (true, Some("leased")) => {}
        // Told before, and the answer got lost.
        (true, Some("done")) => return Ok(Ok(Finished::Done)),
        _ => return Ok(Ok(Finished::Lost)),
    }
    let held = held(transaction, lease, &row)?;
    if held.large.is_none() && results.covered > held.objects {
        return Ok(Ok(Finished::Cut(held.objects)));
    }
    if let Err(why) = check(&held, results) {
        return Ok(Err(why));
    }
    match held.large {
        None => of_objects(transaction, &held, results)?,
        Some(large) => of_large(transaction, &held, large, results)?,
    }
    let worker = row.int(6).map_or(Value::Null, Value::Int);
    transaction.execute(
        "UPDATE worker SET seen = {now}, batches = batches + 1, objects = objects + $2, bytes = bytes + $3 \
         WHERE id = $1",
        &[worker, results.moved.objects.into(), results.moved.bytes.into()],
    )?;
    Ok(Ok(Finished::Done))
}

fn held(transaction: &mut dyn Transaction, lease: BatchLease, row: &Row) -> Result<Held, DatabaseError> {
    let settings = one(transaction.query("SELECT attempts FROM ledger", &[])?, "its plan")?;
    let worker = row.int(6).map_or(Value::Null, Value::Int);
    let host = transaction.query("SELECT host FROM worker WHERE id = $1", &[worker])?;
    Ok(Held {
        lease,
        objects: row.count(2),
        bytes: row.count(7),
        tries: row.count(3),
        large: row.int(5),
        is_join: row.text(4) == Some("join"),
        is_abort: row.text(4) == Some("abort"),
        attempts: settings.count(0),
        host: host.first().and_then(|row| row.text(0)).map(str::to_owned),
    })
}

/// Whether each object is in one of the three.
fn check(held: &Held, results: &BatchResults) -> Result<(), String> {
    let failed: HashSet<u64> = results.failures.iter().map(|failure| failure.position).collect();
    let counted = results.moved.objects + results.same.objects + results.failures.len() as u64;
    if held.large.is_some() {
        return check_part(held, results, counted);
    }
    if results.covered != held.objects || counted != held.objects {
        let (all, covered) = (held.objects, results.covered);
        return Err(format!("{counted} of {covered} objects are told of, and it has {all}"));
    }
    match failed.len() == results.failures.len() && failed.iter().all(|at| *at < held.objects) {
        true => Ok(()),
        false => Err("an object failed twice, or is none of the batch".to_owned()),
    }
}

/// Whether a range or a join has one result, which is of it.
fn check_part(held: &Held, results: &BatchResults, counted: u64) -> Result<(), String> {
    if results.covered != 1 || counted != 1 || results.failures.iter().any(|failure| failure.position > 0) {
        return Err(format!("{counted} results of {} are told of a part of one object", results.covered));
    }
    let bytes = results.moved.bytes.saturating_add(results.same.bytes);
    if bytes > held.bytes {
        return Err(format!("{bytes} bytes are told of, and it has {}", held.bytes));
    }
    // Without it nobody knows whether all ranges went into one part.
    let is_noted = results.note.as_deref().is_some_and(|note| !note.is_empty());
    match held.is_join || results.moved.objects == 0 || is_noted {
        true => Ok(()),
        false => Err("a range was moved, and nothing was noted of where it went".to_owned()),
    }
}

impl Held {
    fn is_final(&self, failure: &ObjectFailure) -> bool {
        failure.class.is_permanent() || self.tries + 1 >= self.attempts
    }

    /// How long until what failed now is tried again, milliseconds.
    fn pause(&self) -> u64 {
        pause_after(self.tries)
    }
}

/// How long until what failed now is tried again, where it had failed so often before, milliseconds.
pub(super) fn pause_after(tries: u64) -> u64 {
    let times = u32::try_from(tries).unwrap_or(u32::MAX);
    u64::try_from(doubled(FIRST_PAUSE, times, MAX_PAUSE).as_millis()).unwrap_or(u64::MAX)
}

fn reason_of(failure: &ObjectFailure) -> String {
    failure.reason.chars().take(MAX_REASON).collect()
}

fn of_objects(
    transaction: &mut dyn Transaction,
    held: &Held,
    results: &BatchResults,
) -> Result<(), DatabaseError> {
    let batch = held.lease.batch;
    let mut given_up = 0_u64;
    if !results.failures.is_empty() {
        let all = objects(transaction, batch)?;
        let (last, again): (Vec<_>, Vec<_>) =
            results.failures.iter().partition(|failure| held.is_final(failure));
        for failure in &last {
            let object = must(all.get(failure.position as usize), "the list of a batch")?;
            let (position, class, attempts) = (failure.position, failure.class, held.tries + 1);
            let reason = &reason_of(failure);
            GivenUp { batch, position, class, reason, attempts, object }.insert(transaction)?;
        }
        given_up = last.len() as u64;
        try_again(transaction, held, &all, &again)?;
    }
    transaction.execute(
        "UPDATE batch SET state = 'done', finished = {now}, ask = NULL, moved = $2, moved_bytes = $3, \
         same = $4, same_bytes = $5, failed = $6 WHERE id = $1",
        &[
            batch.into(),
            results.moved.objects.into(),
            results.moved.bytes.into(),
            results.same.objects.into(),
            results.same.bytes.into(),
            given_up.into(),
        ],
    )?;
    Ok(())
}

/// What is worth another attempt gets a batch of its own.
fn try_again(
    transaction: &mut dyn Transaction,
    held: &Held,
    all: &[FleetObject],
    again: &[&ObjectFailure],
) -> Result<(), DatabaseError> {
    if again.is_empty() {
        return Ok(());
    }
    let places: HashSet<u64> = again.iter().map(|failure| failure.position).collect();
    let (mut failed, mut kept) = (Vec::new(), Vec::new());
    for (position, object) in (0..).zip(all) {
        if places.contains(&position) { failed.push(object.clone()) } else { kept.push(object.clone()) }
    }
    let is_of_the_host = again.iter().all(|failure| failure.class.is_of_the_host());
    let avoid = held.host.as_deref().filter(|_| is_of_the_host);
    let parent = held.lease.batch;
    Offshoot { objects: &failed, parent, pause: held.pause(), tries: held.tries + 1, avoid }
        .insert(transaction)?;
    debug_assert_eq!(bytes_of(&failed) + bytes_of(&kept), bytes_of(all));
    keep(transaction, parent, &kept)
}

/// A range, or the join of all.
fn of_large(
    transaction: &mut dyn Transaction,
    held: &Held,
    large: i64,
    results: &BatchResults,
) -> Result<(), DatabaseError> {
    let batch = held.lease.batch;
    if held.is_abort && results.failures.is_empty() {
        return end_abort(transaction, batch);
    }
    if let Some(failure) = results.failures.first() {
        if held.is_final(failure) && held.is_abort {
            return end_abort(transaction, batch);
        }
        if held.is_final(failure) {
            return give_up_large(transaction, large, failure.class, &reason_of(failure), held.tries + 1);
        }
        let avoid = held.host.as_deref().filter(|_| failure.class.is_of_the_host());
        transaction.execute(
            "UPDATE batch SET state = 'waiting', ask = NULL, tries = tries + 1, avoid = $2, \
             due = {now} + CAST($3 AS BIGINT) WHERE id = $1",
            &[batch.into(), avoid.map_or(Value::Null, Value::from), held.pause().into()],
        )?;
        return Ok(());
    }
    // Its object counts once, when it is joined; its bytes where they were moved.
    let (moved, same) = match held.is_join {
        true => (results.moved.objects, results.same.objects),
        false => (0, 0),
    };
    transaction.execute(
        "UPDATE batch SET state = 'done', finished = {now}, ask = NULL, moved = $2, moved_bytes = $3, \
         same = $4, same_bytes = $5, note = $6 WHERE id = $1",
        &[
            batch.into(),
            moved.into(),
            results.moved.bytes.into(),
            same.into(),
            results.same.bytes.into(),
            results.note.as_deref().map_or(Value::Null, Value::from),
        ],
    )?;
    if held.is_join {
        return Ok(());
    }
    let sql = "UPDATE large SET parts_done = parts_done + 1 WHERE id = $1 RETURNING parts, parts_done";
    let row = one(transaction.query(sql, &[large.into()])?, "a large object")?;
    if row.count(1) >= row.count(0) {
        let sql = "UPDATE batch SET due = {now} WHERE large = $1 AND kind = 'join' AND state = 'waiting'";
        transaction.execute(sql, &[large.into()])?;
    }
    Ok(())
}
