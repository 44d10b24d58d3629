//! `weir lab run`: does each scenario get the figures and the verdict that it must?

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use anyhow::Context;
use weir_lab::run::{Lab, ScenarioOutcome, WorkError};
use weir_lab::scenario::{self, Scenario, Side};
use weir_report::schema::{Record, RunOutcome as RecordOutcome};
use weir_report::{json, progress};

use super::scenarios;
use super::table::{self, Row};
use crate::args::LabRun;
use crate::interrupt::{self, INTERRUPTED};
use crate::live::Live;
use crate::output;
use crate::page;
use crate::voice::{self, Printed};

/// Runs them one after another. Returns the exit code: 1 when one was wrong or failed, or none could be run.
/// What ran before an interrupt is told all the same.
pub fn run(run: &LabRun) -> anyhow::Result<u8> {
    voice::start_log(run.voice.quiet, run.voice.verbose);
    let names: Vec<&str> =
        if run.all { scenario::names().collect() } else { run.names.iter().map(String::as_str).collect() };
    // All files are read before anything is set up.
    let scenarios = names.into_iter().map(scenarios::find).collect::<Result<Vec<_>, _>>()?;
    if let Some(folder) = &run.evidence {
        check_evidence(folder, &scenarios)?;
    }
    let stop = interrupt::stop_and_undo()?;
    let weir = std::env::current_exe().context("cannot find this program's own file")?;
    let lab = Lab { weir, stop };
    let start = Instant::now();
    let mut rows = Vec::new();
    let mut kept: anyhow::Result<()> = Ok(());
    let mut live = Live::new(!run.voice.quiet && std::io::stderr().is_terminal(), 0);
    for (index, scenario) in scenarios.iter().enumerate() {
        let what = format!("playing {}", scenario.name);
        live.say(&progress::steps(&what, index, scenarios.len(), start.elapsed()));
        let row = row(lab.run(scenario));
        live.clear();
        // Its programs may have heard the signal as well: what they show then is no result.
        if lab.stop.load(Relaxed) {
            break;
        }
        if let (Some(folder), Row::Ran(outcome)) = (&run.evidence, &row) {
            kept = kept.and_then(|()| keep_evidence(folder, &scenario.name, outcome));
        }
        if !run.voice.json && !run.voice.quiet {
            say(&table::lines(scenario, &row))?;
        }
        rows.push(row);
    }
    let code = code(&rows, scenarios.len());
    let record = record(&scenarios, &rows, start.elapsed().as_secs_f64(), code);
    if run.voice.json {
        json::render(&record, &mut std::io::stdout().lock()).printed("the record")?;
    } else if !run.voice.quiet {
        say(&[sum(&scenarios, &rows)])?;
    }
    page::keep(&run.voice, &record)?;
    kept?;
    Ok(code)
}

/// The exit code for these of so many scenarios.
fn code(rows: &[Row], scenarios: usize) -> u8 {
    if rows.len() < scenarios {
        return INTERRUPTED;
    }
    let bad = rows.iter().any(is_bad);
    u8::from(bad || rows.iter().all(|row| row.word() == "skipped"))
}

fn is_bad(row: &Row) -> bool {
    matches!(row.word(), "wrong" | "late" | "failed")
}

/// All of it in a line.
fn sum(scenarios: &[Scenario], rows: &[Row]) -> String {
    let right = rows.iter().filter(|row| row.word() == "ok").count();
    let interrupted = match scenarios.len() - rows.len() {
        0 => String::new(),
        left => format!("; interrupted, {left} not run"),
    };
    format!("{right} of {} as expected{}{interrupted}", rows.len(), others(scenarios, rows))
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

fn record(scenarios: &[Scenario], rows: &[Row], seconds: f64, code: u8) -> Record {
    let bytes = rows.iter().map(|row| match row {
        Row::Ran(outcome) => outcome.seen.bytes,
        _ => 0,
    });
    let outcome = match code {
        INTERRUPTED => RecordOutcome::Partial,
        _ if rows.iter().any(is_bad) => RecordOutcome::Failed,
        _ => RecordOutcome::Complete,
    };
    let mut record = Record::new("lab", outcome, bytes.sum(), seconds);
    let members: Vec<_> =
        scenarios.iter().zip(rows).map(|(scenario, row)| table::member(scenario, row)).collect();
    record.extra.insert("lab".to_owned(), serde_json::json!({ "scenarios": members }));
    record
}

/// Says before anything runs what would keep the evidence from being written.
fn check_evidence(folder: &Path, scenarios: &[Scenario]) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut paths = scenarios.iter().map(|scenario| evidence_path(folder, &scenario.name, Side::Sender));
    paths.try_for_each(|path| output::check(&path))
}

fn evidence_path(folder: &Path, name: &str, side: Side) -> PathBuf {
    folder.join(format!("{name}.{}.json", side.name()))
}

fn keep_evidence(folder: &Path, name: &str, outcome: &ScenarioOutcome) -> anyhow::Result<()> {
    for (side, evidence) in &outcome.seen.evidence {
        output::write(&evidence_path(folder, name, *side), &serde_json::to_vec(evidence)?)?;
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
