//! A fleet's ledger as a record, of which `weir report` makes a page.

use std::sync::Arc;

use weir_fleet::history::{FleetHistory, HostHistory, HostSpan};
use weir_fleet::ledger::FleetStatus;
use weir_fleet::pace::of_peers;
use weir_fleet::verdict;
use weir_model::fleet::FleetVerdict;
use weir_report::fleet_history::{
    FleetFailedObject, FleetFailure, FleetHistoryRecord, FleetHostRecord, FleetProgressStep, FleetSlowBatch,
    FleetSpan,
};
use weir_report::html::Run;
use weir_report::schema::{Record, RunOutcome, VerdictRecord};

use super::view::state;

/// Hosts that are kept: more than a page names.
const HOSTS: usize = 200;

/// Hosts whose time is kept: more than a page draws.
const DRAWN: usize = 60;

/// The ledger that `text` names, as a run.
pub fn run(text: &str) -> anyhow::Result<Run> {
    let mut ledger = super::open(text, &Arc::default())?;
    let (status, history) = ledger.history()?;
    let verdict = verdict::of_ledger(&mut ledger)?;
    Ok(Run {
        name: ledger.place().to_owned(),
        record: record(&status, &history, &verdict)?,
        notes: Vec::new(),
    })
}

fn record(status: &FleetStatus, history: &FleetHistory, verdict: &FleetVerdict) -> anyhow::Result<Record> {
    let outcome = match (status.complete, status.failed) {
        (true, 0) => RunOutcome::Complete,
        _ => RunOutcome::Partial,
    };
    let seconds = history.end.abs_diff(history.begin) as f64 / 1000.0;
    let bytes = status.moved.bytes + status.under_way;
    let mut record = Record::new("fleet", outcome, bytes, seconds);
    record.verdict = Some(VerdictRecord::from(verdict));
    record
        .extra
        .insert("fleet_history".to_owned(), serde_json::to_value(member(status, history, verdict, seconds))?);
    Ok(record)
}

fn member(
    status: &FleetStatus,
    history: &FleetHistory,
    verdict: &FleetVerdict,
    seconds: f64,
) -> FleetHistoryRecord {
    let done = status.moved.objects + status.same.objects;
    let failures = status.failures.iter().map(|row| FleetFailure {
        class: row.class.clone(),
        objects: row.objects,
        example: row.example.clone(),
    });
    FleetHistoryRecord {
        source: status.source.clone(),
        target: status.target.clone(),
        state: state(status).to_owned(),
        planned: status.planned.objects,
        planned_bytes: status.planned.bytes,
        moved: status.moved.objects,
        same: status.same.objects,
        failed: status.failed,
        left: status.planned.objects.saturating_sub(done + status.failed),
        batches: status.waiting + status.leased + status.done,
        lost_leases: status.lost_leases,
        begin: history.begin,
        seconds,
        spans: history.spans.iter().map(span).collect(),
        hosts: hosts(history, verdict),
        hosts_left_out: history.hosts.len().saturating_sub(HOSTS) as u64,
        progress: progress(history),
        failures: failures.collect(),
        failed_objects: history
            .failed
            .iter()
            .map(|object| FleetFailedObject {
                source: object.source.clone(),
                class: object.class.clone(),
                reason: object.reason.clone(),
                attempts: object.attempts,
                host: object.host.clone(),
            })
            .collect(),
        slowest: history
            .slow
            .iter()
            .map(|batch| FleetSlowBatch {
                batch: batch.batch,
                name: batch.name.clone(),
                objects: batch.objects,
                bytes: batch.bytes,
                seconds: batch.took as f64 / 1000.0,
                state: batch.state.clone(),
                host: batch.host.clone(),
                leases: batch.leases,
            })
            .collect(),
    }
}

fn span(span: &HostSpan) -> FleetSpan {
    FleetSpan {
        from: span.from / 1000.0,
        to: span.to / 1000.0,
        limit: span.limit.clone(),
        share: span.share,
        rate: span.rate,
    }
}

/// Those that the verdict names first, the slowest before the others.
fn hosts(history: &FleetHistory, verdict: &FleetVerdict) -> Vec<FleetHostRecord> {
    let odd = |host: &HostHistory| verdict.outliers.iter().position(|odd| odd.host == host.host);
    let mut hosts: Vec<_> = history.hosts.iter().map(|host| (odd(host), host)).collect();
    hosts.sort_by_key(|(odd, _)| odd.unwrap_or(usize::MAX));
    let record = |(index, (odd, host)): (usize, &(Option<usize>, &HostHistory))| {
        let differs = odd.and_then(|odd| verdict.outliers.get(odd)).map(of_peers);
        let spans = if index < DRAWN { host.spans.iter().map(span).collect() } else { Vec::new() };
        FleetHostRecord { differs, spans, ..of(host) }
    };
    hosts.iter().take(HOSTS).enumerate().map(record).collect()
}

fn of(host: &HostHistory) -> FleetHostRecord {
    let (limit, share) = host.limit.clone().unwrap_or_default();
    FleetHostRecord {
        host: host.host.clone(),
        workers: host.workers,
        objects: host.objects,
        bytes: host.bytes,
        rate: host.rate(),
        limit,
        share,
        differs: None,
        spans: Vec::new(),
    }
}

/// From nothing at the beginning.
fn progress(history: &FleetHistory) -> Vec<FleetProgressStep> {
    let step = |(at, [objects, bytes, failed]): &(u64, [u64; 3])| FleetProgressStep {
        t: *at as f64 / 1000.0,
        objects: *objects,
        bytes: *bytes,
        failed: *failed,
    };
    std::iter::once(FleetProgressStep::default()).chain(history.steps.iter().map(step)).collect()
}
