//! `weir bench http`: load on a server, and who held the figure.

mod figures;
mod plan;
mod targets;
mod teller;
mod way;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::anyhow;
use weir_bench_http::run::{self, LoadOutcome};
use weir_model::load::{self, LoadVerdict};
use weir_report::load::{LoadRecord, ab, csv, hdr, wrk};
use weir_report::schema::VerdictRecord;
use weir_report::{json, load as report};

use crate::args::{BenchHttp, LoadFormat};
use crate::interrupt::{self, INTERRUPTED};
use crate::output;
use crate::page;
use crate::voice::{self, Printed, Usage};
use plan::Plan;
use teller::Teller;

/// Runs the load and reports, for each target. Returns the exit code.
pub fn run(bench: &BenchHttp) -> anyhow::Result<u8> {
    voice::start_log(bench.voice.quiet, bench.voice.verbose);
    let stop = interrupt::stop()?;
    if bench.ab.is_some() {
        return one(bench, "", &stop);
    }
    match targets::read(bench)?.as_slice() {
        [only] => one(bench, only, &stop),
        many => all(bench, many, &stop),
    }
}

fn one(bench: &BenchHttp, url: &str, stop: &Arc<AtomicBool>) -> anyhow::Result<u8> {
    match load_or_record(bench, url, stop)? {
        Some((plan, outcome)) => tell(bench, &plan, outcome, true, stop),
        None => Ok(INTERRUPTED),
    }
}

/// One target after another. One that fails costs itself, and the exit code.
fn all(bench: &BenchHttp, targets: &[String], stop: &Arc<AtomicBool>) -> anyhow::Result<u8> {
    if bench.voice.report.is_some() {
        return Err(Usage(
            "--report makes the page of one target: --json prints a record for each, for weir report"
                .to_owned(),
        )
        .into());
    }
    let (mut worst, mut is_first) = (0, true);
    for (number, url) in targets.iter().enumerate() {
        if number > 0 && !bench.voice.quiet && !is_json(bench) && bench.format != LoadFormat::Csv {
            print_head(b"\n");
        }
        let told = match load_or_record(bench, url, stop) {
            Ok(None) => return Ok(INTERRUPTED),
            Ok(Some((plan, outcome))) => tell(bench, &plan, outcome, std::mem::take(&mut is_first), stop),
            Err(error) => Err(error),
        };
        match told {
            Ok(0) => {}
            Ok(code) => worst = code,
            Err(error) => {
                voice::fatal(&error);
                worst = 1;
            }
        }
        if stop.load(Relaxed) {
            return Ok(INTERRUPTED);
        }
    }
    Ok(worst)
}

/// Records are asked for; ab's flags make ab's report.
fn is_json(bench: &BenchHttp) -> bool {
    bench.ab.is_none() && (bench.voice.json || bench.format == LoadFormat::Json)
}

/// As [`load_on`]; a target that there was no load on has a record, where records are asked for. Bad
/// arguments have none.
fn load_or_record(
    bench: &BenchHttp,
    url: &str,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Option<(Plan, LoadOutcome)>> {
    let loaded = load_on(bench, url, stop);
    if let Some(error) = loaded.as_ref().err().filter(|error| is_json(bench) && !error.is::<Usage>()) {
        json::render(&figures::failed(url, error), &mut io::stdout().lock()).printed("the report")?;
    }
    loaded
}

/// A run against one target; `None` after an interrupt that leaves nothing to tell.
fn load_on(
    bench: &BenchHttp,
    url: &str,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Option<(Plan, LoadOutcome)>> {
    let plan = match plan::make(bench, url, stop) {
        Err(_) if stop.load(Relaxed) => return Ok(None),
        plan => plan?,
    };
    let teller = Arc::new(Teller::new(&plan, head(&plan)));
    let ran = run::run(plan.settings.clone(), stop, Arc::<Teller>::clone(&teller));
    teller.end();
    match ran {
        Ok(outcome) => Ok(Some((plan, outcome))),
        Err(weir_bench_http::LoadError::Interrupted) => Ok(None),
        Err(error) if stop.load(Relaxed) => {
            voice::fatal(&error.into());
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Reports a run. `is_first`: of a table, the header comes before its row.
fn tell(
    bench: &BenchHttp,
    plan: &Plan,
    mut outcome: LoadOutcome,
    is_first: bool,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<u8> {
    let judged = load::explain(&outcome.evidence);
    let member = figures::member(plan, &outcome, &judged);
    print(plan, &outcome, &judged, &member, is_first).printed("the report")?;
    write_files(plan, &outcome)?;
    if bench.voice.report.is_some() {
        page::keep(&bench.voice, &figures::record(plan, &member, &outcome, &judged))?;
    }
    if outcome.failed.is_none() {
        match outcome.finish(stop) {
            Err(error) if stop.load(Relaxed) => {
                voice::fatal(&error.into());
                return Ok(INTERRUPTED);
            }
            finished => finished?,
        }
    }
    if let Some(words) = figures::left_out(plan, &outcome) {
        voice::warn(&words);
    }
    let why = figures::no_answer(plan, &outcome).or_else(|| figures::too_many_errors(plan, &outcome));
    match (&outcome.failed, why) {
        (Some(error), _) => Err(anyhow!("{error}")),
        (None, _) if outcome.interrupted => Ok(INTERRUPTED),
        (None, Some(why)) => Err(anyhow!(why)),
        (None, None) => Ok(0),
    }
}

/// The lines before the run, for formats that have them.
fn head(plan: &Plan) -> Vec<u8> {
    let mut text = Vec::new();
    // Into memory: nothing can fail.
    let _ = match plan.format {
        LoadFormat::Wrk if !plan.quiet => wrk::render_head(&figures::wrk_head(plan), &mut text),
        LoadFormat::Ab if !plan.quiet => {
            let host = &plan.settings.target.host;
            let begun = write!(text, "weir bench http, in the form of ab 2.3\n\nBenchmarking {host} ...");
            if plan.settings.shows_answers {
                let method = plan.ab.as_ref().and_then(|flags| flags.method.as_deref()).unwrap_or("GET");
                text.extend(format!("INFO: {method} header == \n---\n").into_bytes());
                text.extend_from_slice(&plan.asked);
                text.extend_from_slice(b"\n---\n");
            }
            begun
        }
        _ => Ok(()),
    };
    text
}

fn print_head(head: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(head).and_then(|()| out.flush());
}

fn print(
    plan: &Plan,
    outcome: &LoadOutcome,
    judged: &LoadVerdict,
    member: &LoadRecord,
    is_first: bool,
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // JSON and CSV are asked for by name: -q keeps back what is for people.
    if plan.quiet && !matches!(plan.format, LoadFormat::Json | LoadFormat::Csv) {
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
                LoadFormat::Csv if is_first => csv::render(member, received, seconds, &mut out),
                LoadFormat::Csv => csv::render_row(member, received, seconds, &mut out),
                LoadFormat::Json => json::render(&figures::record(plan, member, outcome, judged), &mut out),
                _ => {
                    let verdict = VerdictRecord::from(&judged.verdict);
                    let lines =
                        |out: &mut dyn Write| report::render(member, received, seconds, Some(&verdict), out);
                    voice::sheet(&io::stdout()).print(&mut out, lines)
                }
            }
        }
    }
    .and_then(|()| out.flush())
}

/// ab's `-e` and `-g`.
fn write_files(plan: &Plan, outcome: &LoadOutcome) -> anyhow::Result<()> {
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
