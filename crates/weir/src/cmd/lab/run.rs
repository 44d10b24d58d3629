//! `weir lab run`: does each scenario get the figures and the verdict that it must?

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use anyhow::Context;
use weir_lab::run::{Lab, ScenarioOutcome, WorkError};
use weir_lab::scenario::{self, Scenario};
use weir_report::schema::{Record, RunOutcome as RecordOutcome};
use weir_report::{json, progress};

use super::scenarios;
use super::table::{self, Row};
use crate::args::LabRun;
use crate::interrupt::{self, INTERRUPTED};
use crate::live::Live;
use crate::page;
use crate::voice::{self, Printed};

/// Runs them one after another. Returns the exit code: 1 when one was wrong or failed, or none could be run.
pub fn run(run: &LabRun) -> anyhow::Result<u8> {
    voice::start_log(run.voice.quiet, run.voice.verbose);
    let names: Vec<&str> =
        if run.all { scenario::names().collect() } else { run.names.iter().map(String::as_str).collect() };
    // All files are read before anything is set up.
    let scenarios = names.into_iter().map(scenarios::find).collect::<Result<Vec<_>, _>>()?;
    let stop = interrupt::stop()?;
    let weir = std::env::current_exe().context("cannot find this program's own file")?;
    let lab = Lab { weir, stop };
    let start = Instant::now();
    let mut rows = Vec::new();
    let mut live = Live::new(!run.voice.quiet && std::io::stderr().is_terminal(), 0);
    for (index, scenario) in scenarios.iter().enumerate() {
        let what = format!("playing {}", scenario.name);
        live.say(&progress::steps(&what, index, scenarios.len(), start.elapsed()));
        let row = row(lab.run(scenario));
        live.clear();
        if lab.stop.load(Relaxed) {
            return Ok(INTERRUPTED);
        }
        if let (Some(folder), Row::Ran(outcome)) = (&run.evidence, &row) {
            keep_evidence(folder, &scenario.name, outcome)?;
        }
        if !run.voice.json && !run.voice.quiet {
            say(&table::lines(scenario, &row))?;
        }
        rows.push(row);
    }
    let right = rows.iter().filter(|row| row.word() == "ok").count();
    let bad = rows.iter().any(|row| matches!(row.word(), "wrong" | "late" | "failed"));
    let record = record(&scenarios, &rows, start.elapsed().as_secs_f64(), bad);
    if run.voice.json {
        json::render(&record, &mut std::io::stdout().lock()).printed("the record")?;
    } else if !run.voice.quiet {
        say(&[format!("{right} of {} as expected{}", rows.len(), others(&scenarios, &rows))])?;
    }
    page::keep(&run.voice, &record)?;
    Ok(u8::from(bad || rows.iter().all(|row| row.word() == "skipped")))
}

fn row(ran: Result<ScenarioOutcome, WorkError>) -> Row {
    match ran {
        Ok(outcome) => Row::Ran(Box::new(outcome)),
        Err(error) => {
            let skipped = error.is_refusal();
            let why = voice::words(&anyhow::Error::from(error));
            if skipped { Row::Skipped(why) } else { Row::Failed(why) }
        }
    }
}

/// `; wrong: w2, p3; skipped: w1`.
fn others(scenarios: &[Scenario], rows: &[Row]) -> String {
    let mut text = String::new();
    for word in ["wrong", "late", "failed", "skipped"] {
        let names: Vec<&str> = scenarios
            .iter()
            .zip(rows)
            .filter(|(_, row)| row.word() == word)
            .map(|(scenario, _)| scenario.name.as_str())
            .collect();
        if !names.is_empty() {
            text += &format!("; {word}: {}", names.join(", "));
        }
    }
    text
}

fn record(scenarios: &[Scenario], rows: &[Row], seconds: f64, bad: bool) -> Record {
    let bytes = rows.iter().map(|row| match row {
        Row::Ran(outcome) => outcome.seen.bytes,
        _ => 0,
    });
    let outcome = if bad { RecordOutcome::Failed } else { RecordOutcome::Complete };
    let mut record = Record::new("lab", outcome, bytes.sum(), seconds);
    let members: Vec<_> =
        scenarios.iter().zip(rows).map(|(scenario, row)| table::member(scenario, row)).collect();
    record.extra.insert("lab".to_owned(), serde_json::json!({ "scenarios": members }));
    record
}

fn keep_evidence(folder: &Path, name: &str, outcome: &ScenarioOutcome) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (side, evidence) in &outcome.seen.evidence {
        let path = folder.join(format!("{name}.{}.json", side.name()));
        fs::write(&path, serde_json::to_vec(evidence)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    match &outcome.then {
        Some(then) => keep_evidence(folder, &format!("{name}.then"), &then.outcome),
        None => Ok(()),
    }
}

fn say(lines: &[String]) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    for line in lines {
        writeln!(stdout, "{}", line.trim_end()).printed("what it shows")?;
    }
    Ok(())
}
