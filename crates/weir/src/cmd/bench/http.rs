//! `weir bench http`: load on a server, and who held the figure.

mod figures;
mod plan;

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::anyhow;
use weir_load::run::{self, Outcome};
use weir_model::load::{self, LoadVerdict};
use weir_report::load::{LoadRecord, ab, csv, hdr, wrk};
use weir_report::schema::VerdictRecord;
use weir_report::{json, load as report};

use crate::args::{BenchHttp, LoadFormat};
use crate::interrupt::{self, INTERRUPTED};
use crate::output;
use crate::page;
use crate::voice::{self, Printed};
use plan::Plan;

/// Runs the load and reports. Returns the exit code.
pub fn run(bench: &BenchHttp) -> anyhow::Result<u8> {
    voice::start_log(bench.voice.quiet, bench.voice.verbose);
    let plan = plan::make(bench)?;
    let stop = interrupt::stop()?;
    let head = head(&plan);
    let mut outcome = match run::run(plan.settings.clone(), &stop, move || print_head(&head)) {
        Ok(outcome) => outcome,
        Err(weir_load::Error::Interrupted) => return Ok(INTERRUPTED),
        Err(error) if stop.load(Relaxed) => {
            voice::fatal(&error.into());
            return Ok(INTERRUPTED);
        }
        Err(error) => return Err(error.into()),
    };
    let judged = load::explain(&outcome.evidence);
    let member = figures::member(&plan, &outcome, &judged);
    print(&plan, &outcome, &judged, &member).printed("the report")?;
    write_files(&plan, &outcome)?;
    if bench.voice.report.is_some() {
        page::keep(&bench.voice, &figures::record(&member, &outcome, &judged))?;
    }
    if outcome.failed.is_none() {
        match outcome.finish(&stop) {
            Err(error) if stop.load(Relaxed) => {
                voice::fatal(&error.into());
                return Ok(INTERRUPTED);
            }
            finished => finished?,
        }
    }
    match &outcome.failed {
        Some(error) => Err(anyhow!("{error}")),
        None if outcome.interrupted => Ok(INTERRUPTED),
        None if outcome.tally.requests == 0 => {
            Err(anyhow!("no request to {} was answered", figures::shown(&plan.settings.target.url)))
        }
        None => Ok(0),
    }
}

/// The lines before the run, for formats that have them.
fn head(plan: &Plan) -> Vec<u8> {
    let mut text = Vec::new();
    // Into memory: nothing can fail.
    let _ = match plan.format {
        LoadFormat::Wrk if !plan.quiet => wrk::render_head(&figures::wrk_head(plan), &mut text),
        LoadFormat::Ab if !plan.quiet => {
            write!(
                text,
                "weir bench http, in the form of ab 2.3\n\nBenchmarking {} ...",
                plan.settings.target.host
            )
        }
        _ => Ok(()),
    };
    text
}

fn print_head(head: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(head).and_then(|()| out.flush());
}

fn print(plan: &Plan, outcome: &Outcome, judged: &LoadVerdict, member: &LoadRecord) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if plan.quiet {
        return Ok(());
    }
    match plan.format {
        LoadFormat::Wrk => wrk::render(&figures::wrk(plan, outcome), &mut out),
        LoadFormat::Ab => {
            writeln!(out, "done")?;
            ab::render(&figures::ab(plan, outcome), &mut out)
        }
        LoadFormat::Hdr => {
            let (steps, foot) = figures::spectrum(outcome);
            hdr::render(&steps, &foot, &mut out)
        }
        LoadFormat::Weir | LoadFormat::Json | LoadFormat::Csv => {
            let (received, seconds) = (outcome.tally.received, outcome.span.as_secs_f64());
            match plan.format {
                LoadFormat::Csv => csv::render(member, received, seconds, &mut out),
                LoadFormat::Json => json::render(&figures::record(member, outcome, judged), &mut out),
                _ => {
                    let verdict = VerdictRecord::from(&judged.verdict);
                    report::render(member, received, seconds, Some(&verdict), &mut out)
                }
            }
        }
    }
    .and_then(|()| out.flush())
}

/// ab's `-e` and `-g`.
fn write_files(plan: &Plan, outcome: &Outcome) -> anyhow::Result<()> {
    let Some(flags) = &plan.ab else { return Ok(()) };
    let rows = figures::rows(outcome);
    if let Some(path) = &flags.percentiles_file {
        write_file(path, |out| ab::render_percentiles(&rows, out))?;
    }
    if let Some(path) = &flags.rows_file {
        write_file(path, |out| ab::render_rows(&rows, out))?;
    }
    Ok(())
}

fn write_file(path: &Path, render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut text = Vec::new();
    render(&mut text)?;
    output::write(path, &text)
}
