//! `weir plan SRC... DST`: measures both ends and the path between them for a few seconds, and predicts what
//! `weir cp` reaches.

use std::ffi::OsStr;
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use weir_cp::error::CopyError;
use weir_cp::lane::way::{LaneOptions, Way};
use weir_cp::measure::{self, Job, Surveyed};
use weir_cp::wire::message::{Role, Transport};
use weir_model::survey::Survey;
use weir_report::escape::escape;
use weir_report::plan::PlanRecord;
use weir_report::schema::{Record, RunOutcome};
use weir_report::survey::{SurveyRecord, buffer_notes};
use weir_report::{json, plan, survey};
use weir_units::{Bytes, Rate, counted};

use crate::args::{self, By, VERSION};
use crate::calibration;
use crate::cmd::chosen;
use crate::cmd::cp::problem_records;
use crate::cmd::forecast::{self, Forecast, ForecastKey};
use crate::cmd::route::Route;
use crate::interrupt::{self, INTERRUPTED};
use crate::live::Live;
use crate::page;
use crate::voice::{self, Printed, Usage};

/// Measures, predicts and tells. Returns the exit code.
pub fn run(args: &args::Plan) -> anyhow::Result<u8> {
    let job = job(args)?;
    let stop = interrupt::stop()?;
    if !args.voice.quiet {
        let host = job.host.shown();
        writeln!(
            std::io::stderr(),
            "measuring for about 5 s: the data, the target, and bursts over the path to {host}"
        )?;
    }
    let mut live = Live::new(!args.voice.quiet && std::io::stderr().is_terminal(), 0);
    let surveyed = measure::survey(&job, &stop, &mut |what| live.say(what));
    live.clear();
    let surveyed = match surveyed {
        Ok(surveyed) => surveyed,
        Err(CopyError::Interrupted) => return Ok(INTERRUPTED),
        Err(error) => return Err(error.into()),
    };
    let inputs = surveyed.survey.inputs();
    let result = surveyed.survey.plan(&inputs);
    let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let copy = SurveyRecord {
        host: job.host.shown().to_owned(),
        sources: job.sources.iter().map(|path| shown(path)).collect(),
        target: shown(&job.target),
        ..SurveyRecord::new(&surveyed.survey, &inputs, &result)
    };
    let notes = notes(&job, &surveyed);
    forecast::keep(&key(&job), &foretold(&copy, surveyed.problems.failed().count));
    let told = super::to_hosts(args, PlanRecord::new(&inputs, &result, notes), &inputs);
    print(args, &copy, told, &surveyed)?;
    // As of a copy, which would not bring them either.
    Ok(u8::from(surveyed.problems.failed().count > 0))
}

/// What is kept for the copy. Figures of a part of the data say how fast it goes, not how long all of it
/// takes.
fn foretold(copy: &SurveyRecord, failed: u64) -> Forecast {
    let mut forecast = Forecast::of(&copy.predicted);
    forecast.total = forecast.total.filter(|_| copy.complete && failed == 0);
    forecast
}

fn print(
    args: &args::Plan,
    copy: &SurveyRecord,
    told: PlanRecord,
    surveyed: &Surveyed,
) -> anyhow::Result<()> {
    let failed = surveyed.problems.failed();
    for problem in &failed.first {
        voice::warn(&escape(&problem.failure.words));
    }
    if failed.more() > 0 {
        voice::warn(&format!("{} more paths would fail", failed.more()));
    }
    let mut stdout = std::io::stdout().lock();
    let outcome = if failed.count > 0 { RunOutcome::Failed } else { RunOutcome::Complete };
    let mut record = Record::new("plan", outcome, 0, surveyed.elapsed.as_secs_f64());
    record.files = problem_records(&surveyed.problems);
    record.extra.insert("plan".to_owned(), serde_json::to_value(&told)?);
    record.extra.insert("copy".to_owned(), serde_json::to_value(copy)?);
    if args.voice.json {
        json::render(&record, &mut stdout).printed("the record")?;
    } else if !args.voice.quiet {
        let printed = voice::sheet(&std::io::stdout()).print(&mut stdout, |out| {
            survey::render(copy, out)?;
            writeln!(out)?;
            plan::render(&told, out)
        });
        printed.printed("the plan")?;
    }
    stdout.flush().printed("the plan")?;
    page::keep(&args.voice, &record)
}

/// A flag that says what is measured here, of those that the user typed: the configuration's are for other
/// plans.
fn given(args: &args::Plan) -> Option<&'static str> {
    let flags = [
        ("--link", !args.links.is_empty()),
        ("--rtt", args.rtt.is_some()),
        ("--source", args.source.is_some()),
        ("--disk", args.disk.is_some()),
        ("--size", args.size.is_some()),
        ("--cores", args.cores.is_some()),
        ("--ssh-rate", args.ssh_rate.is_some()),
        ("--cipher-rate", args.cipher_rate.is_some()),
    ];
    flags.into_iter().find_map(|(flag, given)| (given && super::is_typed(flag)).then_some(flag))
}

/// What the far end is started for.
fn job(args: &args::Plan) -> Result<Job, Usage> {
    if let Some(flag) = given(args) {
        return Err(Usage(format!(
            "{flag} is for a plan from figures; of SRC and DST it is measured: leave it out, or name one FILE"
        )));
    }
    let Route { role, host, from, sources, target } = Route::of(&args.paths)?;
    args.ssh_flags.check(host.is_some() || from.is_some())?;
    if from.is_some() {
        return Err(Usage("source and target are both remote; run weir plan on one of them".into()));
    }
    let transport = match args.transports[..] {
        [By::Ssh] => Some(Transport::Ssh),
        [By::Weir] => Some(Transport::Tcp),
        _ => None,
    };
    let (options, list) = chosen::options(&args.what, sources.len())?;
    Ok(Job {
        host: args.ssh_flags.host(host),
        sources: chosen::source_paths(&sources, list.as_ref()),
        target,
        role,
        options,
        list,
        lanes: LaneOptions {
            transport,
            ports: args.port_range,
            plain: args.plain,
            count: args.lanes,
            through_here: false,
        },
        speeds: calibration::speeds(),
        version: VERSION.to_owned(),
    })
}

/// By which the copy finds what is foretold of it.
fn key(job: &Job) -> ForecastKey<'_> {
    ForecastKey {
        host: &job.host,
        role: job.role,
        sources: &job.sources,
        target: &job.target,
        options: &job.options,
        list: job.list.as_ref(),
        lanes: &job.lanes,
    }
}

/// What is worth knowing beside the table.
fn notes(job: &Job, surveyed: &Surveyed) -> Vec<String> {
    let here = "this machine";
    let ends = match job.role {
        Role::Sender => (here, job.host.shown()),
        Role::Receiver => (job.host.shown(), here),
    };
    let mut notes = buffer_notes(&surveyed.survey, ends);
    if surveyed.way == Some(Way::Ssh) && !surveyed.tried.is_empty() {
        notes.push(format!("no data connection passes: {}", surveyed.tried.join("; ")));
    }
    if surveyed.survey.ssh.is_none() {
        notes.push(
            "ssh was not measured: on a path as slow as this its buffers would take seconds to drain".into(),
        );
    }
    notes.extend(disk_note(job, &surveyed.survey));
    notes.extend(selection_notes(job, surveyed));
    if !surveyed.survey.source.complete {
        notes.push("the tree is larger than what was listed: times are of the part that was".into());
    }
    notes
}

/// What of the sources is not in the figures, or more in them than moves.
fn selection_notes(job: &Job, surveyed: &Surveyed) -> Vec<String> {
    let source = &surveyed.survey.source;
    let files = |count: u64| counted(count, "file");
    let mut notes = Vec::new();
    if source.unmoved > 0 {
        notes.push(format!("{} left as at the target", files(source.unmoved)));
    }
    if source.differing > 0 {
        notes.push(format!(
            "the target has another version of {}: only what differs moves, and all of it is counted",
            files(source.differing)
        ));
    }
    if source.holes > 0 {
        notes.push(format!("{} of holes are not moved", Bytes(source.holes)));
    }
    if job.options.checksum {
        notes.push(
            "--checksum: a plan does not compare contents; files at the target count as to be sent".into(),
        );
    }
    if !surveyed.compared {
        notes.push("not all files were looked up at the target in time; the rest count as to be sent".into());
    }
    notes
}

/// What this end's disk did when it was calibrated, where the survey has no figure of it. The prediction
/// stays as it is: data in memory are not read from a disk, and what a target takes was not to be measured,
/// or could not be.
fn disk_note(job: &Job, survey: &Survey) -> Option<String> {
    let here = |path: &Vec<u8>| calibration::disk_of(Path::new(OsStr::from_bytes(path)));
    let (disk, words) = match job.role {
        Role::Sender if survey.source.disk.is_none() => {
            let disk = job.sources.first().and_then(here)?;
            (
                disk,
                format!(
                    "gave {}; the prediction has the data in memory, as they were found",
                    Rate(disk.read?)
                ),
            )
        }
        Role::Receiver if survey.target.disk.is_none() => {
            let disk = here(&job.target)?;
            (disk, format!("took {}, which the prediction does not know", Rate(disk.write?)))
        }
        _ => return None,
    };
    Some(format!("{} {words}: {}", disk.device, calibration::origin(&disk.date())))
}

#[cfg(test)]
mod tests {
    use weir_report::survey::PredictedRecord;

    use super::*;

    #[test]
    fn a_part_of_the_data_foretells_no_time_of_all() {
        let predicted = PredictedRecord { rate: 1e6, total: 5.0, ..PredictedRecord::default() };
        let copy =
            |complete| SurveyRecord { complete, predicted: predicted.clone(), ..SurveyRecord::default() };
        assert_eq!(foretold(&copy(true), 0).total, Some(5.0));
        for part in [foretold(&copy(false), 0), foretold(&copy(true), 1)] {
            assert_eq!((part.rate, part.total), (1e6, None));
        }
    }
}
