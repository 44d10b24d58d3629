//! `weir cp --to-hosts`: one source to many hosts, a record with a row for each, and an exit code.

mod list;
pub(super) mod record;
mod source;

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::Context;
use weir_cp::chain::{self, ChainHost, ChainJob, ChainProgress, ChainReport, HostReport, Standing};
use weir_cp::error::CopyError;
use weir_cp::lane::way::LaneOptions;
use weir_cp::list::List;
use weir_cp::roots;
use weir_cp::ssh::Host;
use weir_cp::wire::message::Options;
use weir_fleet::launch::hosts::Grouped;
use weir_report::escape::escape;
use weir_report::progress::Progress;
use weir_report::{json, terminal};
use weir_units::{Bytes, Rate, counted, human_duration};

pub(super) use self::list::HostList;
use crate::args::{Cp, VERSION};
use crate::calibration;
use crate::cmd::route;
use crate::cmd::{chosen, cp};
use crate::evidence;
use crate::interrupt::{self, INTERRUPTED};
use crate::live::Live;
use crate::page;
use crate::voice::{self, Printed, Usage};

/// Copies what `args` names to every host. Returns the exit code.
pub fn run(args: &Cp) -> anyhow::Result<u8> {
    voice::start_log(args.voice.quiet, args.voice.verbose);
    evidence::check(args.evidence.as_deref())?;
    refuse(args)?;
    let job = job(args)?;
    let stop = interrupt::stop()?;
    let mut live = Live::new(!args.voice.quiet && std::io::stderr().is_terminal(), 0);
    let mut pace = Pace::default();
    let report = chain::run(&job, &stop, &mut |now| live.draw(&pace.progress(now)));
    live.clear();
    if let Some(seen) = report.evidence() {
        evidence::keep(args.evidence.as_deref(), seen)?;
    }
    let record = record::of(&job, &report, exit_code(&report));
    if args.voice.json {
        json::render(&record, &mut std::io::stdout().lock()).printed("the record")?;
    } else if !args.voice.quiet {
        let mut stderr = std::io::stderr().lock();
        let render = if args.voice.verbose > 0 { terminal::render_summary } else { terminal::render_brief };
        render(&record, voice::sheet(&std::io::stderr()), &mut stderr)?;
        say_hosts(&job, &report, &mut stderr)?;
    }
    if args.voice.quiet || args.voice.json {
        say_failures(&job, &report);
    }
    page::keep(&args.voice, &record)?;
    Ok(exit_code(&report))
}

/// Options that cannot be combined with several hosts.
fn refuse(args: &Cp) -> Result<(), Usage> {
    args.ends.refuse_all()?;
    let choice = &args.what.choice;
    let selection = choice.selection()?;
    let others = [
        (args.dry_run, "--dry-run", "try it with one host: weir cp -n SRC HOST:PATH"),
        (
            args.through_here,
            "-3",
            "leave it out: what two hosts cannot say directly goes through here anyway",
        ),
        (args.tui, "--tui", "leave it out"),
        (selection.itemize, "--itemize-changes", "leave it out"),
        (selection.remove_source_files, "--remove-source-files", "remove them once all hosts have them"),
        (selection.ignore_existing, "--ignore-existing", "a host passes on what it gets: copy to one by one"),
        (selection.existing, "--existing", "a host passes on what it gets: copy to one by one"),
        (selection.backup.is_some(), "--backup", "copy to one host after the other"),
        (!selection.link_dest.is_empty(), "--link-dest", "copy to one host after the other"),
    ];
    let is_read_twice = args.what.files_from.as_ref().is_some_and(|file| file == "-")
        && HostList::is_stdin(args.to_hosts.as_deref().unwrap_or_default());
    if is_read_twice {
        let why = "--to-hosts and --files-from cannot both be read from standard input; write one of them to a file";
        return Err(Usage(why.to_owned()));
    }
    match others.iter().find(|(given, ..)| *given) {
        Some((_, flag, way_out)) => Err(Usage(format!("{flag} does not go with --to-hosts; {way_out}"))),
        None => Ok(()),
    }
}

fn job(args: &Cp) -> anyhow::Result<ChainJob> {
    args.ssh.check(true)?;
    let list = HostList::read(args.to_hosts.as_deref().unwrap_or_default())?;
    let (from, sources) = route::sources(&args.paths)?;
    let (options, names) = chosen::options(&args.what, sources.len())?;
    // Each session that begins here reads it from its start.
    let names = names.map(List::kept).transpose().context("cannot read the names of --files-from")?;
    let sources = chosen::source_paths(&sources, names.as_ref());
    let hosts = source::without(list.hosts, from.as_deref(), &sources, list.path.as_bytes())?;
    let command = roots::digest_of(from.as_deref(), &sources);
    let mut selection = options.selection.clone();
    selection.silence = args.ssh.timeout;
    selection.modes.extend(args.always.modes());
    Ok(ChainJob {
        hosts: hosts.into_iter().map(|host| chain_host(host, |login| args.ssh.host(login))).collect(),
        from: from.map(|name| args.ssh.host(Some(name))),
        sources,
        target: list.path.into_bytes(),
        options: Options {
            // What a host has is not sent again: not by this command, and not by the next one.
            update: true,
            codec: args.codec,
            rate_cap: cp::rate_cap(args),
            sync: args.sync,
            whole_or_nothing: args.whole_or_nothing,
            selection,
            command,
            ..options
        },
        list: names,
        lanes: LaneOptions {
            transport: args.transport.map(Into::into),
            ports: args.port_range,
            through_here: false,
            plain: args.plain,
            count: args.lanes,
        },
        speeds: calibration::speeds(),
        version: VERSION.to_owned(),
        fanout: args.fanout.unwrap_or(1) as usize,
        written: None,
    })
}

/// A host of a list; `far` says how ssh reaches one.
pub(super) fn chain_host((group, host): Grouped, far: impl Fn(Option<String>) -> Host) -> ChainHost {
    let mut far = far(host.login);
    if let Some(port) = host.port {
        far = far.at_port(port, &host.name);
    }
    ChainHost { name: host.name, group, host: far }
}

/// The rate of the last second, of the host that is furthest behind.
#[derive(Debug, Default)]
pub(super) struct Pace {
    seen: VecDeque<(Duration, u64)>,
}

impl Pace {
    pub(super) fn progress(&mut self, now: &ChainProgress<'_>) -> Progress {
        let is_there = |standing: &Standing| *standing != Standing::Failed;
        let hosts = now.hosts.iter().filter(|host| is_there(&host.standing));
        let least = hosts.map(|host| host.totals.there()).min().unwrap_or(0);
        self.seen.push_back((now.elapsed, least));
        while self.seen.len() > 2 && now.elapsed - self.seen[0].0 > Duration::from_secs(1) {
            self.seen.pop_front();
        }
        let (since, before) = self.seen[0];
        let complete = now.hosts.iter().filter(|host| host.standing == Standing::Complete).count();
        Progress {
            done: least,
            total: (now.found.files > 0 || now.found.all).then_some(now.found.bytes),
            at_least: !now.found.all,
            files: None,
            rate: Rate::of(least.saturating_sub(before), now.elapsed - since).0,
            lanes: (now.hosts.len() - complete) as u32,
            limit: None,
            due: None,
        }
    }
}

/// 130 interrupted; else the worst of all hosts, as `weir cp` to that host alone would end: 3 a digest did
/// not match, 1 something failed, 4 its session broke and can be resumed, 0 it has all.
pub(super) fn exit_code(report: &ChainReport) -> u8 {
    match &report.error {
        Some(CopyError::Interrupted) => return INTERRUPTED,
        Some(_) => return 1,
        None => {}
    }
    let codes: Vec<u8> = report.hosts.iter().map(code_of).collect();
    [3, 1, 4].into_iter().find(|code| codes.contains(code)).unwrap_or(0)
}

fn code_of(host: &HostReport) -> u8 {
    let last = host.report.as_ref().map(cp::exit_code);
    // Where no session began there is nothing to resume.
    let of_no_report = if host.sessions == 0 { 1 } else { 4 };
    match host.standing {
        // What failed before it has no word of its own here.
        Standing::Complete => last.unwrap_or(0).max(u8::from(host.lacks)),
        _ => last.filter(|code| *code != 0 && *code != INTERRUPTED).unwrap_or(of_no_report),
    }
}

/// Notes, a line for each host, and whether the same command goes on.
pub(super) fn say_hosts(job: &ChainJob, report: &ChainReport, to: &mut dyn Write) -> anyhow::Result<()> {
    cp::say_notes(&notes(report), to)?;
    for (host, end) in job.hosts.iter().zip(&report.hosts) {
        writeln!(to, "{}", escape(&line_of(job, host, end)))?;
    }
    if let Some(index) = report.held_by().filter(|_| report.hosts.len() > 1) {
        writeln!(to, "{}", escape(&format!("the chain was held {}", hop_in_words(job, report, index))))?;
    }
    // Else a host that was never reached, or cannot write, has to be mended first.
    if matches!(exit_code(report), 4 | INTERRUPTED) {
        writeln!(to, "incomplete: run the same command again to resume")?;
    }
    Ok(())
}

/// Of the source as they are, of a host with its name before them.
fn notes(report: &ChainReport) -> Vec<String> {
    let reports = report.hosts.iter().filter_map(|host| host.report.as_ref());
    cp::notes(reports.map(|report| &report.problems))
}

/// Files of which a host had one of the source's size and time, and nothing was read to compare them.
fn unread(job: &ChainJob, end: &HostReport) -> u64 {
    if job.options.checksum { 0 } else { end.unchanged() }
}

fn line_of(job: &ChainJob, host: &ChainHost, end: &HostReport) -> String {
    let from = source::feeder(job, end.fed_by).unwrap_or("here");
    let state = match (&end.standing, &end.elapsed, &end.report) {
        (Standing::Complete, Some(elapsed), Some(report)) => {
            let moved = Bytes(report.totals.bytes);
            let failed = report.problems.failed().count;
            let but = match end.has_all() {
                true => String::new(),
                false if failed > 0 => format!(", without {failed} paths that failed"),
                false => format!(", without what did not come to {from}"),
            };
            let state = match (end.has_all(), unread(job, end)) {
                (true, 0) => "complete and verified".to_owned(),
                (true, files) => {
                    let by = if job.options.selection.size_only { "size" } else { "size and time" };
                    format!("complete ({} by {by})", counted(files, "file"))
                }
                (false, _) => "incomplete".to_owned(),
            };
            format!("{state} after {}, {moved} from {from}{but}", human_duration(*elapsed))
        }
        _ => format!("failed: {}", end.error.as_deref().unwrap_or(record::NOTHING_CAME)),
    };
    let out = end.taken_out.iter().map(|why| format!("; taken out of the chain: {why}")).collect::<String>();
    format!("{}: {state}{}", host.name, if end.standing == Standing::Complete { out } else { String::new() })
}

/// From whom to whom.
fn hop_in_words(job: &ChainJob, report: &ChainReport, index: usize) -> String {
    let from = source::feeder(job, report.hosts[index].fed_by).unwrap_or("here");
    format!("between {from} and {}", job.hosts[index].name)
}

/// Beside a record, or in place of a summary.
pub(super) fn say_failures(job: &ChainJob, report: &ChainReport) {
    if let Some(error) = &report.error {
        voice::warn(&escape(&error.to_string()));
    }
    for (host, end) in job.hosts.iter().zip(&report.hosts) {
        if end.standing != Standing::Complete {
            voice::warn(&escape(&line_of(job, host, end)));
        }
        for problem in end.report.iter().flat_map(|report| &report.problems.failed().first) {
            let (own, words) = (format!("{}: ", host.name), &problem.failure.words);
            // Between two others it says already of which host it is.
            voice::warn(&escape(&format!("{own}{}", words.strip_prefix(&own).unwrap_or(words))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_was_never_reached_has_nothing_to_resume() {
        for (sessions, code) in [(0, 1), (1, 4)] {
            let lost = HostReport {
                report: None,
                standing: Standing::Failed,
                fed_by: None,
                taken_out: Vec::new(),
                error: None,
                elapsed: None,
                sessions,
                behind: 0.0,
                came: 0,
                lacks: false,
            };
            assert_eq!(code_of(&lost), code, "{sessions} sessions");
        }
    }
}
