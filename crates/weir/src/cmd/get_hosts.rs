//! `weir get URL --to-hosts`: one host of a list fetches, and a chain brings what it has to all others.

mod early;
mod fetch;
mod record;
mod words;

use std::io::{IsTerminal, Write};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use weir_cp::chain::{self, ChainHost, ChainJob, ChainReport, HostReport};
use weir_cp::growth::Written;
use weir_cp::lane::way::LaneOptions;
use weir_cp::roots;
use weir_cp::wire::message::{FailureKind, Options};
use weir_cp::wire::selection::Selection;
use weir_fleet::launch::far_command::{CommandLook, CommandOrder};
use weir_report::escape::escape;
use weir_report::progress::Progress;
use weir_report::{json, terminal};
use weir_units::{Bytes, human_duration};

use self::early::EarlyChain;
use self::fetch::{FetchNews, Fetched, FetchedFile, Fetching};
use crate::args::{Get, VERSION};
use crate::calibration;
use crate::cmd::cp_hosts::{self, HostList, Pace};
use crate::interrupt;
use crate::live::Live;
use crate::page;
use crate::voice::{self, Printed};

/// How often a chain is begun anew where hosts had parts of another version: each time fewer have.
const MOST_ANEW: usize = 8;

/// Where all of it goes.
struct Distribution {
    hosts: Vec<ChainHost>,
    path: String,
    order: CommandOrder,
}

/// Fetches what `get` names to every host. Returns the exit code.
pub fn run(get: &Get) -> anyhow::Result<u8> {
    voice::start_log(get.voice.quiet, get.voice.verbose);
    let asked = Distribution::of(get)?;
    let stop = interrupt::stop()?;
    let mut live = Live::new(!get.voice.quiet && std::io::stderr().is_terminal(), 0);
    let start = Instant::now();
    let (fetching, early) = asked.fetch(get, &stop, &mut live);
    let fetched = match &fetching.result {
        Ok(fetched) => fetched,
        Err((code, _)) => return tell_failure(get, &asked, &fetching, *code),
    };
    if !get.voice.quiet && !get.voice.json {
        writeln!(std::io::stderr(), "{}", escape(&line_of(&asked, fetched)))?;
    }
    // What a host has of this size and time may be of another version, unless the one that fetches found so.
    let is_new = fetched.record.files.iter().any(|file| !file.unchanged);
    let job = asked.chain(get, &fetched.file, Written::All, is_new);
    let report = chain(&job, early, &stop, &mut live);
    let code = cp_hosts::exit_code(&report);
    let whole = start.elapsed();
    let record = record::of(&asked.hosts, &fetching, fetched, (&job, &report, whole), code);
    if get.voice.json {
        json::render(&record, &mut std::io::stdout().lock()).printed("the record")?;
    } else if !get.voice.quiet {
        let mut stderr = std::io::stderr().lock();
        let render = if get.voice.verbose > 0 { terminal::render_summary } else { terminal::render_brief };
        render(&record, voice::sheet(&std::io::stderr()), &mut stderr)?;
        cp_hosts::say_hosts(&job, &report, &mut stderr)?;
    }
    if get.voice.quiet || get.voice.json {
        cp_hosts::say_failures(&job, &report);
    }
    say_attempts(&asked, &fetching);
    page::keep(&get.voice, &record)?;
    Ok(code)
}

impl Distribution {
    fn of(get: &Get) -> anyhow::Result<Distribution> {
        let words = words::of(get)?;
        let list = HostList::read(get.to_hosts.to_hosts.as_deref().unwrap_or_default())?;
        let host = |host| cp_hosts::chain_host(host, |login| get.to_hosts.host(login));
        let makes_folders = list.path.ends_with('/') || get.habits.create_dirs;
        let (path, name) = (list.path.clone(), get.output.first().cloned());
        let order = CommandOrder { words, path, name, makes_folders };
        Ok(Distribution { hosts: list.hosts.into_iter().map(host).collect(), path: list.path, order })
    }

    /// Lets one host fetch. The chain that has begun meanwhile comes too, where the file is complete.
    fn fetch(&self, get: &Get, stop: &AtomicBool, live: &mut Live) -> (Fetching, Option<EarlyChain>) {
        let mut early: Option<EarlyChain> = None;
        let fetching = fetch::by_one(&self.hosts, &self.order, stop, &mut |news| match news {
            FetchNews::Look(look) => live.draw(&progress(look)),
            FetchNews::Grows(file) if early.is_none() => {
                early = EarlyChain::begin(self.chain(get, &file, Written::Some, true));
            }
            FetchNews::Grows(_) => {}
            FetchNews::Failed => early.take().into_iter().for_each(EarlyChain::give_up),
        });
        live.clear();
        match fetching.result {
            Ok(_) => return (fetching, early),
            Err((interrupt::INTERRUPTED, _)) => early.into_iter().for_each(EarlyChain::stop),
            Err(_) => early.into_iter().for_each(EarlyChain::give_up),
        }
        (fetching, None)
    }

    /// The copy from the host that fetched to all others, which have it under the same name. No path is used
    /// that a host names, but for the last part of one. `is_new`: what hosts have is compared by its digest.
    fn chain(&self, get: &Get, fetched: &FetchedFile, written: Written, is_new: bool) -> ChainJob {
        let folder = match &self.path[..] {
            path if path.is_empty() || path.ends_with('/') => path.to_owned(),
            path => format!("{path}/"),
        };
        let (source, target) = match fetched.is_folder {
            true => (format!("{folder}{}", fetched.name), folder),
            false => (self.path.clone(), self.path.clone()),
        };
        let sources = vec![source.into_bytes()];
        let from = &self.hosts[fetched.host].host;
        let selection = Selection { mkpath: self.order.makes_folders, ..Selection::default() };
        let others = self.hosts.iter().enumerate().filter(|(index, _)| *index != fetched.host);
        ChainJob {
            hosts: others.map(|(_, host)| host.clone()).collect(),
            from: Some(from.clone()),
            target: target.into_bytes(),
            list: None,
            options: Options {
                update: true,
                checksum: is_new,
                rate_cap: get.limit_rate.0.map(|rate| rate.0 as u64),
                sync: get.sync,
                selection,
                command: roots::digest_of(Some(from.shown()), &sources),
                ..Options::default()
            },
            sources,
            lanes: LaneOptions::default(),
            speeds: calibration::speeds(),
            version: VERSION.to_owned(),
            fanout: get.to_hosts.fanout.unwrap_or(1) as usize,
            written: Some(written),
        }
    }
}

/// Brings the complete file to all, as far as the chain has not that began before. Of one host alone there is
/// nothing more to do.
fn chain(job: &ChainJob, early: Option<EarlyChain>, stop: &AtomicBool, live: &mut Live) -> ChainReport {
    if job.hosts.is_empty() {
        return ChainReport::default();
    }
    // Each chain counts its own time.
    let run = |live: &mut Live| {
        let mut pace = Pace::default();
        chain::run(job, stop, &mut |now| live.draw(&pace.progress(now)))
    };
    let mut pace = Pace::default();
    let done = early.and_then(|early| early.finish(stop, &mut |now| live.draw(&pace.progress(now))));
    let mut report = done.unwrap_or_else(|| run(live));
    for _ in 0..job.hosts.len().min(MOST_ANEW) {
        // What a host had of another version is gone from it now, or from the one before it.
        if !report.hosts.iter().any(has_changed) {
            break;
        }
        report = run(live);
    }
    live.clear();
    report
}

/// Whether a host had something of a file that was another one, or would have had it from such a host.
fn has_changed(host: &HostReport) -> bool {
    let mut problems = host.report.iter().flat_map(|report| &report.problems.failed().first);
    problems.any(|problem| problem.failure.kind == FailureKind::Changed)
}

fn progress(look: &CommandLook) -> Progress {
    Progress {
        done: look.bytes,
        total: look.total,
        at_least: false,
        files: None,
        rate: look.rate,
        lanes: look.connections,
        limit: None,
        due: None,
    }
}

/// What came of the fetch.
fn line_of(asked: &Distribution, fetched: &Fetched) -> String {
    let name = &asked.hosts[fetched.file.host].name;
    let after = human_duration(fetched.elapsed);
    let Some(file) = fetched.record.files.first() else { return format!("{name}: fetched after {after}") };
    match file.unchanged {
        true => format!("{name}: has it already, as {} does", file.url),
        false => format!("{name}: fetched after {after}, {} from {}", Bytes(fetched.record.bytes), file.url),
    }
}

/// Nobody could fetch.
fn tell_failure(get: &Get, asked: &Distribution, fetching: &Fetching, code: u8) -> anyhow::Result<u8> {
    let record = record::of_failure(&asked.hosts, fetching, code);
    if get.voice.json {
        json::render(&record, &mut std::io::stdout().lock()).printed("the record")?;
    }
    say_attempts(asked, fetching);
    if code == interrupt::INTERRUPTED {
        voice::warn("interrupted; run the same command again to resume");
    }
    page::keep(&get.voice, &record)?;
    Ok(code)
}

/// Hosts that could not fetch.
fn say_attempts(asked: &Distribution, fetching: &Fetching) {
    for attempt in &fetching.attempts {
        voice::warn(&escape(&format!(
            "{}: could not fetch: {}",
            asked.hosts[attempt.host].name, attempt.why
        )));
    }
}
