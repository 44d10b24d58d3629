//! The record of a copy to many hosts, as `--json` prints it.

use std::time::Duration;

use serde_json::{Value, json};
use weir_cp::chain::{ChainHost, ChainJob, ChainReport, HostReport, Standing};
use weir_cp::session::Report;
use weir_cp::ssh::Host;
use weir_model::verdict;
use weir_report::schema::{FileRecord, Record, RunOutcome};

use super::source::feeder;
use super::{notes, unread};
use crate::cmd::cp::{problem_records, transport};
use crate::interrupt::INTERRUPTED;

/// Why a host failed that no attempt failed at.
pub(in crate::cmd) const NOTHING_CAME: &str = "nothing came to it";

/// A record with a row for each host.
pub(in crate::cmd) fn of(job: &ChainJob, report: &ChainReport, code: u8) -> Record {
    let complete = report.hosts.iter().filter(|host| host.has_all()).count();
    let sum = |of: fn(&weir_cp::wire::message::Totals) -> u64| -> u64 {
        let reports = report.hosts.iter().filter_map(|host| host.report.as_ref());
        reports.map(|report| of(&report.totals)).fold(0, u64::saturating_add)
    };
    let (bytes, kept) = (sum(|totals| totals.bytes), sum(|totals| totals.kept));
    let outcome = match code {
        0 => RunOutcome::Complete,
        _ if bytes > 0 || kept > 0 || complete > 0 || code == INTERRUPTED => RunOutcome::Partial,
        _ => RunOutcome::Failed,
    };
    let mut record = Record::new("cp", outcome, bytes, moving(report).as_secs_f64());
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
        "notes": notes(report),
        "hosts": hosts,
    });
    record.extra.insert("cp".to_owned(), cp);
    record
}

/// From the first byte of any host to the last of all, as of a copy to one, but no shorter than the longest
/// session; where nothing moved, the whole time of the command.
fn moving(report: &ChainReport) -> Duration {
    let moved = || {
        let hosts = report.hosts.iter();
        hosts.filter_map(|host| Some((host, host.report.as_ref().filter(|last| last.totals.bytes > 0)?)))
    };
    let span = |(host, last): (&HostReport, &Report)| {
        // When it was that something came to one that was given up is not known.
        let end = host.elapsed?;
        Some((end.saturating_sub(last.moving), end))
    };
    let both = moved().filter_map(span).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    let of_complete = both.map(|(from, to)| to.saturating_sub(from));
    of_complete.max(moved().map(|(_, last)| last.moving).max()).unwrap_or(report.elapsed)
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
        "verified": end.has_all() && unread(job, end) == 0,
        "from": feeder(job, end.fed_by),
        "seconds": end.elapsed.map(|elapsed| elapsed.as_secs_f64()),
        "bytes": totals.bytes,
        "resumed": totals.kept,
        "files": totals.files,
        "unchanged": end.unchanged(),
        "deleted": totals.deleted,
        "failed": report.map_or(0, |report| report.problems.failed().count),
        "limit": seen.and_then(|verdict| verdict.limit.map(|main| main.name())),
        "behind": end.behind,
        "sessions": end.sessions,
        "taken_out": end.taken_out,
        "transport": report.and_then(|report| transport(report.way)),
        "lanes": report.map(|report| report.lanes),
        "error": match end.standing {
            Standing::Complete => None,
            _ => Some(end.error.as_deref().unwrap_or(NOTHING_CAME)),
        },
    })
}

/// What failed at hosts, each with its host. Why a host failed is in its row.
fn files(job: &ChainJob, report: &ChainReport) -> Vec<FileRecord> {
    let mut files = Vec::new();
    for (host, end) in job.hosts.iter().zip(&report.hosts) {
        let problems =
            end.report.as_ref().map(|report| problem_records(&report.problems)).unwrap_or_default();
        files.extend(problems.into_iter().map(|file| FileRecord { path: host.name.clone(), ..file }));
    }
    files
}

#[cfg(test)]
mod tests {
    use weir_cp::wire::message::Totals;

    use super::*;

    fn host(bytes: u64, moving: u64, elapsed: Option<u64>) -> HostReport {
        let report = Report {
            totals: Totals { bytes, ..Totals::default() },
            moving: Duration::from_secs(moving),
            ..Report::nothing()
        };
        HostReport {
            report: Some(report),
            standing: Standing::Failed,
            fed_by: None,
            taken_out: Vec::new(),
            error: None,
            elapsed: elapsed.map(Duration::from_secs),
            sessions: 1,
            behind: 0.0,
            came: 0,
            lacks: false,
        }
    }

    #[test]
    fn attempts_that_bring_nothing_are_no_time_of_the_copy() {
        for (hosts, seconds) in [
            (vec![host(15, 3, Some(5)), host(15, 3, Some(6))], 4),
            (vec![host(15, 3, Some(5)), host(5, 1, None)], 3),
            (vec![host(5, 1, None)], 1),
            (vec![host(0, 0, None)], 30),
        ] {
            let report = ChainReport { hosts, elapsed: Duration::from_secs(30), ..ChainReport::default() };
            assert_eq!(moving(&report), Duration::from_secs(seconds));
        }
    }
}
