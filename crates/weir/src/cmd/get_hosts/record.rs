//! The record of a `get` to many hosts: the rows of `cp --to-hosts`, with one for the host that fetched, and
//! that host's own record.

use std::time::Duration;

use serde_json::{Value, json};
use weir_cp::chain::{ChainHost, ChainJob, ChainReport};
use weir_report::schema::{Record, RunOutcome};

use super::fetch::{Fetched, Fetching};
use crate::cmd::cp_hosts;
use crate::interrupt::INTERRUPTED;

/// Of one that a host could fetch.
pub(super) fn of(
    hosts: &[ChainHost],
    fetching: &Fetching,
    fetched: &Fetched,
    (job, report, whole): (&ChainJob, &ChainReport, Duration),
    code: u8,
) -> Record {
    let chain = cp_hosts::record::of(job, report, code);
    let own = &fetched.record;
    let seconds = whole.as_secs_f64();
    let outcome = if code == 0 { RunOutcome::Complete } else { RunOutcome::Partial };
    // What took most of the time held the whole.
    let longer = if fetched.elapsed > report.elapsed { own } else { &chain };
    let mut record = Record {
        command: "get".to_owned(),
        extra: chain.extra.clone(),
        files: own.files.iter().chain(&chain.files).cloned().collect(),
        resumed: Some(own.resumed.unwrap_or(0) + chain.resumed.unwrap_or(0)).filter(|bytes| *bytes > 0),
        error: chain.error.clone(),
        peak_memory: chain.peak_memory,
        ..longer.clone()
    };
    let sums = Record::new("get", outcome, own.bytes + chain.bytes, seconds);
    (record.outcome, record.bytes, record.seconds, record.rate) =
        (sums.outcome, sums.bytes, sums.seconds, sums.rate);
    if let Some(cp) = record.extra.get_mut("cp") {
        let complete = cp["complete"].as_u64().unwrap_or(0) + 1;
        cp["complete"] = complete.into();
        if let Some(rows) = cp["hosts"].as_array_mut() {
            let host = fetched.file.host;
            rows.insert(host.min(rows.len()), row(&hosts[host], fetched));
        }
    }
    record.extra.insert("fetch".to_owned(), fetch(hosts, fetching, Some(fetched.file.host), Some(own)));
    record
}

/// Of one that nobody could fetch.
pub(super) fn of_failure(hosts: &[ChainHost], fetching: &Fetching, code: u8) -> Record {
    let own = fetching.result.as_ref().err().and_then(|(_, record)| record.as_ref());
    let (bytes, seconds) = own.map_or((0, 0.0), |own| (own.bytes, own.seconds));
    let is_kept = code == INTERRUPTED || own.is_some_and(|own| own.outcome == RunOutcome::Partial);
    let outcome = if is_kept { RunOutcome::Partial } else { RunOutcome::Failed };
    let mut record = Record::new("get", outcome, bytes, seconds);
    record.files = own.map(|own| own.files.clone()).unwrap_or_default();
    record.error = match code {
        INTERRUPTED => Some("interrupted".to_owned()),
        _ => fetching.attempts.last().map(|last| format!("{}: {}", hosts[last.host].name, last.why)),
    };
    record.extra.insert("fetch".to_owned(), fetch(hosts, fetching, None, own));
    record
}

/// Who fetched, or tried to.
fn fetch(hosts: &[ChainHost], fetching: &Fetching, by: Option<usize>, own: Option<&Record>) -> Value {
    let attempts = fetching.attempts.iter();
    let attempts: Vec<Value> =
        attempts.map(|at| json!({ "host": hosts[at.host].name, "error": at.why })).collect();
    json!({ "host": by.map(|by| hosts[by].name.as_str()), "attempts": attempts, "record": own })
}

/// The row of the host that fetched, with the members of the others.
fn row(host: &ChainHost, fetched: &Fetched) -> Value {
    let own = &fetched.record;
    let unchanged = own.files.iter().any(|file| file.unchanged);
    json!({
        "host": host.name,
        "group": host.group,
        "outcome": "complete",
        "verified": own.files.iter().all(|file| file.digest.is_some()),
        "from": null,
        "seconds": fetched.elapsed.as_secs_f64(),
        "bytes": own.bytes,
        "resumed": own.resumed.unwrap_or(0),
        "files": 1,
        "unchanged": u64::from(unchanged),
        "failed": 0,
        "limit": own.verdict.as_ref().and_then(|verdict| verdict.limit.clone()),
        "behind": 0.0,
        "sessions": 1,
        "taken_out": [],
        "transport": null,
        "lanes": null,
        "error": null,
    })
}
