//! The record of a copy to many hosts, as `--json` prints it.

use serde_json::{Value, json};
use weir_cp::chain::{ChainHost, ChainJob, ChainReport, HostReport, Standing};
use weir_cp::ssh::Host;
use weir_model::verdict;
use weir_report::schema::{FileRecord, Record, RunOutcome};

use super::source::feeder;
use crate::cmd::cp::{problem_records, transport};
use crate::interrupt::INTERRUPTED;

/// A record with a row for each host.
pub(in crate::cmd) fn of(job: &ChainJob, report: &ChainReport, code: u8) -> Record {
    let complete = report.hosts.iter().filter(|host| host.has_all()).count();
    let sum = |of: fn(&weir_cp::wire::message::Totals) -> u64| -> u64 {
        report.hosts.iter().filter_map(|host| host.report.as_ref()).map(|report| of(&report.totals)).sum()
    };
    let (bytes, kept) = (sum(|totals| totals.bytes), sum(|totals| totals.kept));
    let outcome = match code {
        0 => RunOutcome::Complete,
        _ if bytes + kept > 0 || complete > 0 || code == INTERRUPTED => RunOutcome::Partial,
        _ => RunOutcome::Failed,
    };
    let mut record = Record::new("cp", outcome, bytes, report.elapsed.as_secs_f64());
    if let Some(seen) = report.evidence().filter(|_| bytes > 0) {
        record = record.with_verdict(seen, &verdict::explain(seen));
    }
    record.resumed = (kept > 0).then_some(kept);
    record.peak_memory = weir_observe::memory::peak_rss().ok();
    record.error = report.error.as_ref().map(ToString::to_string);
    record.files = files(job, report);
    let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let hosts: Vec<Value> =
        job.hosts.iter().zip(&report.hosts).map(|(host, end)| row(job, host, end)).collect();
    let held_by = report
        .held_by()
        .filter(|_| job.hosts.len() > 1)
        .map(|index| json!({ "from": feeder(job, report.hosts[index].fed_by), "to": job.hosts[index].name }));
    let cp = json!({
        "from": job.from.as_ref().map(Host::shown),
        "sources": job.sources.iter().map(|path| shown(path)).collect::<Vec<_>>(),
        "target": shown(&job.target),
        "fanout": job.fanout,
        "files": report.found.files,
        "source_bytes": report.found.bytes,
        "complete": complete,
        "failed": report.hosts.len() - complete,
        "held_by": held_by,
        "hosts": hosts,
    });
    record.extra.insert("cp".to_owned(), cp);
    record
}

/// A row.
fn row(job: &ChainJob, host: &ChainHost, end: &HostReport) -> Value {
    let report = end.report.as_ref();
    let totals = report.map(|report| report.totals).unwrap_or_default();
    let seen =
        report.filter(|report| report.totals.bytes > 0).map(|report| verdict::explain(&report.evidence));
    json!({
        "host": host.name,
        "group": host.group,
        "outcome": match (&end.standing, end.has_all()) {
            (Standing::Complete, true) => "complete",
            (Standing::Complete, false) => "partial",
            _ => "failed",
        },
        "verified": end.has_all(),
        "from": feeder(job, end.fed_by),
        "seconds": end.elapsed.map(|elapsed| elapsed.as_secs_f64()),
        "bytes": totals.bytes,
        "resumed": totals.kept,
        "files": totals.files,
        "unchanged": totals.unchanged,
        "failed": report.map_or(0, |report| report.problems.failed().count),
        "limit": seen.and_then(|verdict| verdict.limit.map(|main| main.name())),
        "behind": end.behind,
        "sessions": end.sessions,
        "taken_out": end.taken_out,
        "transport": report.and_then(|report| transport(report.way)),
        "lanes": report.map(|report| report.lanes),
        "error": end.error,
    })
}

/// What failed, with its host.
fn files(job: &ChainJob, report: &ChainReport) -> Vec<FileRecord> {
    let mut files = Vec::new();
    for (host, end) in job.hosts.iter().zip(&report.hosts) {
        let problems =
            end.report.as_ref().map(|report| problem_records(&report.problems)).unwrap_or_default();
        files.extend(problems.into_iter().map(|file| FileRecord { path: host.name.clone(), ..file }));
        if end.standing != Standing::Complete {
            let error = end.error.clone().unwrap_or_else(|| "nothing came to it".to_owned());
            let error = Some(format!("{}: {error}", host.name));
            files.push(FileRecord { url: host.name.clone(), error, ..FileRecord::default() });
        }
    }
    files
}
