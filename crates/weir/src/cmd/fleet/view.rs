//! What a ledger says of a fleet, as people and Prometheus are shown it.

use std::time::Duration;

use serde_json::{Value, json};
use weir_fleet::ledger::{FleetSettings, FleetStatus, Tally};
use weir_fleet::pace::{self, FleetPace, ForetoldEnd, HostPace};
use weir_model::fleet::FleetVerdict;
use weir_report::fleet::{FleetCount, FleetEndView, FleetHostRow, FleetRateView, FleetView, seconds_words};
use weir_report::fleet_history::FleetFailure;
use weir_units::Rate;

/// What is set, in one line.
pub fn settings(settings: &FleetSettings) -> String {
    let mut words = Vec::new();
    match (settings.draining, settings.paused) {
        (true, _) => words.push("draining".to_owned()),
        (false, true) => words.push("paused".to_owned()),
        (false, false) => words.push("giving out batches".to_owned()),
    }
    words.push(
        settings.workers.map_or("to all workers".to_owned(), |workers| format!("to {workers} workers")),
    );
    if let Some(rate) = settings.rate {
        words.push(format!("{} a host", Rate(rate as f64)));
    }
    if let Some(window) = &settings.window {
        words.push(format!("within {window} UTC"));
    }
    words.join(", ")
}

/// How far it is, in words.
pub fn state(status: &FleetStatus) -> &'static str {
    match (status.complete, status.sealed) {
        (true, _) if status.failed > 0 => "complete, with failures",
        (true, _) => "complete",
        (false, true) => "under way",
        (false, false) => "the plan is not whole: run weir fleet plan again",
    }
}

/// What all workers have moved.
fn carried(status: &FleetStatus) -> Tally {
    let moved = status.workers.iter().map(|worker| worker.moved);
    let add = |sum: Tally, tally: Tally| Tally {
        objects: sum.objects.saturating_add(tally.objects),
        bytes: sum.bytes.saturating_add(tally.bytes),
    };
    moved.fold(Tally::default(), add)
}

/// The status, and what was seen before it.
pub fn of(status: &FleetStatus, pace: &FleetPace, verdict: Option<&FleetVerdict>) -> FleetView {
    let count = |tally: Tally| FleetCount { objects: tally.objects, bytes: tally.bytes };
    let (objects, bytes) = pace::left(status);
    let (hosts, gone) = pace.hosts(status, verdict);
    let rate = pace.rate(status);
    FleetView {
        source: status.source.clone(),
        target: status.target.clone(),
        state: state(status).to_owned(),
        settings: settings(&status.settings),
        sealed: status.sealed,
        complete: status.complete,
        paused: status.settings.paused,
        draining: status.settings.draining,
        planned: count(status.planned),
        moved: count(status.moved),
        carried: count(carried(status)),
        same: count(status.same),
        left: FleetCount { objects, bytes },
        failed: status.failed,
        under_way: status.under_way,
        batches: [status.waiting, status.leased, status.done],
        lost_leases: status.lost_leases,
        overdue: status.overdue,
        rate: rate.map(|rate| FleetRateView {
            bytes: rate.bytes,
            objects: rate.objects,
            seconds: rate.seconds,
        }),
        end: end(&pace.end(status)),
        failures: status.failures.iter().map(failure).collect(),
        hosts: hosts.into_iter().map(host).collect(),
        gone,
        verdict: verdict.map(FleetVerdict::lines).unwrap_or_default(),
        now: status.now,
    }
}

fn end(end: &ForetoldEnd) -> FleetEndView {
    match end {
        ForetoldEnd::In { seconds, over, of_bytes } => FleetEndView {
            seconds: Some(*seconds),
            origin: format!(
                "by {}, at the rate of the last {}",
                if *of_bytes { "bytes" } else { "objects" },
                seconds_words(*over)
            ),
        },
        ForetoldEnd::Done => FleetEndView { seconds: Some(0.0), origin: "it is done".to_owned() },
        ForetoldEnd::Unknown(why) => FleetEndView { seconds: None, origin: (*why).to_owned() },
    }
}

fn failure(row: &weir_fleet::ledger::FailureRow) -> FleetFailure {
    FleetFailure { class: row.class.clone(), objects: row.objects, example: row.example.clone() }
}

fn host(host: HostPace) -> FleetHostRow {
    FleetHostRow {
        host: host.host,
        workers: host.workers,
        leased: host.leased,
        objects: host.objects,
        bytes: host.bytes,
        rate: host.rate,
        limit: host.limit,
        silent: Duration::from_millis(host.silent),
        differs: host.differs,
    }
}

/// The status as one JSON object, with what was seen before it.
pub fn json(
    status: &FleetStatus,
    view: &FleetView,
    verdict: Option<&FleetVerdict>,
) -> anyhow::Result<String> {
    let mut object = serde_json::to_value(status)?;
    let host = |host: &FleetHostRow| {
        json!({
            "host": host.host,
            "workers": host.workers,
            "leased": host.leased,
            "bytes": host.bytes,
            "rate": host.rate,
            "limit": host.limit.as_ref().map(|(limit, _)| limit),
            "share": host.limit.as_ref().map(|(_, share)| share),
            "silent": host.silent.as_secs_f64(),
            "differs": host.differs,
        })
    };
    if let Value::Object(members) = &mut object {
        let rate = view
            .rate
            .map(|rate| json!({ "bytes": rate.bytes, "objects": rate.objects, "seconds": rate.seconds }));
        let left = json!({ "objects": view.left.objects, "bytes": view.left.bytes });
        members.insert("left".to_owned(), left);
        members.insert("rate".to_owned(), rate.unwrap_or(Value::Null));
        let end = json!({ "seconds": view.end.seconds, "origin": view.end.origin });
        members.insert("end".to_owned(), end);
        members.insert("hosts".to_owned(), view.hosts.iter().map(host).collect());
        members.insert("verdict".to_owned(), serde_json::to_value(verdict)?);
        members.insert("gone".to_owned(), view.gone.into());
    }
    Ok(serde_json::to_string(&object)? + "\n")
}
