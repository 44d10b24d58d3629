//! `weir fleet status`: where a fleet stands, as a table or as JSON.

use std::io::Write;
use std::time::Duration;

use weir_fleet::ledger::{FleetSettings, FleetStatus, Tally, WorkerRow};
use weir_report::escape::escape;
use weir_units::{Bytes, Rate, human_duration};

use crate::args::FleetStatusArgs;
use crate::interrupt;
use crate::voice::Printed;

/// Workers that are named: those that are heard of, up to this many.
const NAMED: usize = 200;

/// Prints it. Returns the exit code.
pub fn run(status: &FleetStatusArgs) -> anyhow::Result<u8> {
    let stop = interrupt::stop()?;
    let found = super::open(&status.ledger, &stop)?.status()?;
    let text = match status.json {
        true => serde_json::to_string(&found)? + "\n",
        false => text(&found),
    };
    std::io::stdout().write_all(text.as_bytes()).printed("the status")?;
    Ok(0)
}

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

fn text(status: &FleetStatus) -> String {
    let tally = |tally: Tally| format!("{:>12} {:>10}", tally.objects, Bytes(tally.bytes).to_string());
    let state = match (status.complete, status.sealed) {
        (true, _) if status.failed > 0 => "complete, with failures",
        (true, _) => "complete",
        (false, true) => "under way",
        (false, false) => "the plan is not whole: run weir fleet plan again",
    };
    let mut text = format!(
        "{} to {}\n{state}; {}\n\n{:<10} {:>12} {:>10}\n",
        escape(&status.source),
        escape(&status.target),
        settings(&status.settings),
        "",
        "objects",
        "bytes"
    );
    let done = status.moved.objects + status.same.objects + status.failed;
    let left = Tally {
        objects: status.planned.objects.saturating_sub(done),
        bytes: status.planned.bytes.saturating_sub(status.moved.bytes + status.same.bytes),
    };
    for (name, count) in
        [("planned", status.planned), ("moved", status.moved), ("there", status.same), ("left", left)]
    {
        text.push_str(&format!("{name:<10} {}\n", tally(count)));
    }
    text.push_str(&format!("{:<10} {:>12}\n", "failed", status.failed));
    let (waiting, leased, done) = (status.waiting, status.leased, status.done);
    text.push_str(&format!("\nbatches: {waiting} wait, {leased} are held, {done} are done\n"));
    for row in &status.failures {
        let example = escape(&row.example);
        text.push_str(&format!("{} failed by class {}, as: {example}\n", row.objects, row.class));
    }
    push_workers(&mut text, &status.workers);
    text
}

fn push_workers(text: &mut String, workers: &[WorkerRow]) {
    let here: Vec<_> = workers.iter().filter(|worker| !worker.departed).take(NAMED).collect();
    if here.is_empty() {
        text.push_str("no worker has joined or all have left\n");
        return;
    }
    text.push_str(&format!(
        "\n{:<24} {:>8} {:>6} {:>12} {:>10}  {}\n",
        "host", "process", "holds", "objects", "bytes", "heard of"
    ));
    for worker in here {
        text.push_str(&format!(
            "{:<24} {:>8} {:>6} {:>12} {:>10}  {} ago\n",
            escape(&worker.host),
            worker.pid,
            worker.leased,
            worker.moved.objects,
            Bytes(worker.moved.bytes).to_string(),
            human_duration(Duration::from_millis(worker.silent))
        ));
    }
}
