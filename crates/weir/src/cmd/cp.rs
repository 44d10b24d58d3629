//! `weir cp`: from arguments to a copy, a record and an exit code.

mod foretold;
mod lines;

use std::collections::{HashSet, VecDeque};
use std::io::{IsTerminal, Write};
use std::time::Duration;

use weir_codec::codec::Codec;
use weir_cp::error::CopyError;
use weir_cp::lane::way::{LaneOptions, Way};
use weir_cp::problems::Problems;
use weir_cp::roots;
use weir_cp::sender::CodecShare;
use weir_cp::session::{self, Job, Report};
use weir_cp::ssh::Host;
use weir_cp::wire::message::{FailureKind, Options, Problem, Role};
use weir_cp::wire::selection::Selection;
use weir_model::congestion::is_bbr;
use weir_model::merge::merged;
use weir_model::verdict;
use weir_report::calibration::CalibrationRecord;
use weir_report::progress::Progress;
use weir_report::schema::{FileRecord, Record, RunOutcome};
use weir_report::{json, terminal};
use weir_units::{Bytes, Rate};

use self::foretold::Foretold;
pub use self::lines::{Changes, Would};
use crate::args::{Cp, How, VERSION};
use crate::calibration;
use crate::cmd::chosen;
use crate::cmd::route::Route;
use crate::evidence;
use crate::interrupt::INTERRUPTED;
use crate::live::Live;
use crate::page;
use crate::tui::{self, Screen};
use crate::voice::{self, Printed, Usage};

/// Copies what `cp` names. Returns the exit code.
pub fn run(cp: &Cp) -> anyhow::Result<u8> {
    voice::start_log_beside(cp.tui, cp.voice.quiet, cp.voice.verbose);
    let mut view = tui::is_possible(cp.tui && !cp.dry_run);
    if cp.compression && cp.what.archive {
        // With -a it comes from rsync, where it leaves files out.
        tracing::warn!("-C means scp's compression; for rsync's -C give --cvs-exclude");
    } else if cp.compression {
        tracing::info!("-C is not needed: weir compresses where it pays");
    }
    evidence::check(cp.evidence.as_deref())?;
    cp.ends.refuse_all()?;
    let job = job(cp)?;
    if let Some(date) = goes_by(&job) {
        tracing::info!("speeds of ciphers and codecs: {}", calibration::origin(&date));
    }
    let stop = tui::stop_beside(view)?;
    let mut live = Live::new(!cp.voice.quiet && std::io::stderr().is_terminal(), 0);
    let (mut pace, mut would, changes) = (Pace::default(), Would::default(), Changes::new(&cp.voice));
    let mut report = session::run(&job, &stop, &mut |now| match &now.would {
        Some((deed, name)) => {
            live.clear();
            would.count(deed);
            changes.say(&lines::line(cp, &job, deed, name));
        }
        None => {
            // Not before the session stands: ssh may have asked for a password.
            if std::mem::take(&mut view) {
                live.on(Screen::open(&title(&job), KEYS));
            }
            live.newest(now.evidence, now.limit);
            live.draw(&pace.progress(now));
        }
    });
    live.clear();
    // Only of a target here: a far disk may have the same name.
    if job.from.is_none() && (job.role == Role::Receiver || job.host.name.is_none()) {
        calibration::set_disk_alone(&mut report.evidence.facts);
    }
    evidence::keep(cp.evidence.as_deref(), &report.evidence)?;
    let foretold = Foretold::of(&job, &report);
    let mut record = record(&job, &report, foretold.as_ref());
    if cp.dry_run {
        record.extra.insert("would".to_owned(), would.to_json());
    }
    say(cp, &record, report.problems.failed().more())?;
    if !cp.voice.quiet && !cp.voice.json {
        say_how(&job, &report)?;
        foretold.map_or(Ok(()), |foretold| foretold.say(&record))?;
    }
    page::keep(&cp.voice, &record)?;
    changes.end(exit_code(&report))
}

/// Notes in words, also of a thousand hosts.
const MOST_NOTES: usize = 100;

/// What keys do in the live view.
const KEYS: &str = "q ends it, what came is kept";

/// What the live view calls it.
fn title(job: &Job) -> String {
    let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let what = match job.sources.as_slice() {
        [only] => shown(only),
        many => format!("{} sources", many.len()),
    };
    format!("cp {what} to {}", shown(&job.target))
}

/// The rate of the last second.
#[derive(Debug, Default)]
struct Pace {
    seen: VecDeque<(Duration, u64)>,
}

impl Pace {
    fn progress(&mut self, now: &session::Progress<'_>) -> Progress {
        self.seen.push_back((now.elapsed, now.totals.bytes));
        while self.seen.len() > 2 && now.elapsed - self.seen[0].0 > Duration::from_secs(1) {
            self.seen.pop_front();
        }
        let (since, before) = self.seen[0];
        let moved = now.totals.bytes.saturating_sub(before);
        Progress {
            done: now.totals.there(),
            total: (now.found.files > 0 || now.found.all).then_some(now.found.bytes),
            at_least: !now.found.all,
            files: (now.found.files > 1).then_some((now.totals.files, now.found.files)),
            rate: Rate::of(moved, now.elapsed - since).0,
            lanes: now.lanes,
            limit: now.limit,
            due: None,
        }
    }
}

fn job(cp: &Cp) -> Result<Job, Usage> {
    let Route { role, host, from, sources, target } = Route::of(&cp.paths)?;
    cp.ssh.check(host.is_some() || from.is_some())?;
    let (options, list) = chosen::options(&cp.what, sources.len())?;
    let mut selection =
        Selection { itemize: lines::are_wanted(cp), silence: cp.ssh.timeout, ..options.selection.clone() };
    selection.modes.extend(cp.always.modes());
    let between = from.is_some();
    if cp.through_here && !between {
        tracing::warn!("-3 is for copies between two other hosts: the data go from or to here anyway");
    }
    let of_lanes =
        [(cp.lanes.is_some(), "-c"), (cp.port_range.is_some(), "--port-range"), (cp.plain, "--plain")];
    for (_, flag) in of_lanes.iter().filter(|(given, _)| *given && cp.transport == Some(How::Ssh)) {
        tracing::warn!("{flag} is for connections of weir's own: inside ssh the data go as ssh has them");
    }
    let sources = chosen::source_paths(&sources, list.as_ref());
    let source_host = from.as_deref().or(host.as_deref().filter(|_| role == Role::Receiver));
    let command = roots::digest_of(source_host, &sources);
    Ok(Job {
        host: cp.ssh.host(host),
        from: from.map(|name| cp.ssh.host(Some(name))),
        sources,
        target,
        role,
        options: Options {
            dry_run: cp.dry_run,
            codec: cp.codec,
            rate_cap: rate_cap(cp),
            // What goes at the source has to be on the disk at the target.
            sync: cp.sync || selection.remove_source_files,
            whole_or_nothing: cp.whole_or_nothing,
            selection,
            command,
            ..options
        },
        list,
        lanes: LaneOptions {
            transport: cp.transport.map(Into::into),
            ports: cp.port_range,
            through_here: cp.through_here && between,
            plain: cp.plain,
            count: cp.lanes,
        },
        speeds: calibration::speeds(),
        version: VERSION.to_owned(),
        link: None,
        written: None,
    })
}

/// What may go over the network, in bytes a second.
pub fn rate_cap(cp: &Cp) -> Option<u64> {
    cp.rate_cap().map(|rate| rate.0 as u64)
}

/// The day of the calibration that this end begins with, if it has one and use for it. Between two others it
/// has none.
fn goes_by(job: &Job) -> Option<String> {
    let used = job.from.is_none() && job.speeds.are_used(job.role == Role::Sender);
    calibration::of_this_host().filter(|_| used).map(CalibrationRecord::date)
}

/// The record of the run, as `--json` prints it.
fn record(job: &Job, report: &Report, foretold: Option<&Foretold>) -> Record {
    let outcome = match exit_code(report) {
        0 => RunOutcome::Complete,
        4 | INTERRUPTED => RunOutcome::Partial,
        _ => RunOutcome::Failed,
    };
    let mut record = Record::new("cp", outcome, report.totals.bytes, report.moving.as_secs_f64());
    // What held back a run that brought nothing is its error, not a stage; a dry run moves nothing that could
    // be held.
    if !job.options.dry_run && (outcome != RunOutcome::Failed || report.totals.bytes > 0) {
        record = record.with_verdict(&report.evidence, &verdict::explain(&report.evidence));
    }
    record.resumed = (report.totals.kept > 0).then_some(report.totals.kept);
    if report.totals.unkept > 0 {
        record.extra.insert("lost_attributes".to_owned(), report.totals.unkept.into());
    }
    record.connections = Some(report.lanes);
    record.peak_memory = weir_observe::memory::peak_rss().ok();
    record.error = report.outcome.as_ref().err().map(|error| in_words(error, report));
    let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    record.files = problem_records(&report.problems);
    let cp = serde_json::json!({
        "host": job.host.shown(),
        "from": job.from.as_ref().map(Host::shown),
        "sources": job.sources.iter().map(|path| shown(path)).collect::<Vec<_>>(),
        "target": shown(&job.target),
        "dry_run": job.options.dry_run,
        "files": report.totals.files,
        "unchanged": report.totals.unchanged,
        "others": report.totals.others,
        "deleted": report.totals.deleted,
        "failed": report.problems.failed().count,
        "notes": notes([&report.problems]),
        "packed": report.totals.packed,
        "cipher": report.cipher,
        "calibration": goes_by(job),
        "congestion": report.controls.iter()
            .map(|(from, control)| serde_json::json!({ "from": from, "control": control }))
            .collect::<Vec<_>>(),
        "codecs": report.codecs.iter().map(codec_share).collect::<Vec<_>>(),
        "transport": transport(report.way),
        "tried": report.tried,
        "strangers": report.strangers,
        "lanes": report.lanes,
    });
    record.extra.insert("cp".to_owned(), cp);
    if let Some(foretold) = foretold {
        record.extra.insert("prediction".to_owned(), foretold.to_json(record.rate));
    }
    record.extra.insert("stages".to_owned(), stages(report));
    record
}

/// How lanes were made, in one word.
pub fn transport(way: Option<Way>) -> Option<&'static str> {
    Some(match way? {
        Way::There => "tcp",
        Way::Back => "tcp-back",
        Way::Relay => "relay",
        Way::Ssh => "ssh",
    })
}

/// The error that ended a copy; of an interruption also what is there.
fn in_words(error: &CopyError, report: &Report) -> String {
    match (error, report.totals.there()) {
        (CopyError::Interrupted, there @ 1..) => {
            format!("interrupted; {} are at the target, run the same command again to resume", Bytes(there))
        }
        _ => error.to_string(),
    }
}

/// Paths that failed, as a record has them.
pub fn problem_records(problems: &Problems) -> Vec<FileRecord> {
    let record = |problem: &Problem| FileRecord {
        url: problem.name.to_string(),
        error: Some(problem.failure.words.clone()),
        ..FileRecord::default()
    };
    problems.failed().first.iter().map(record).collect()
}

/// What is worth a word beside what failed, of one session or of several: each once, and how many there are
/// beyond those.
pub fn notes<'a>(sessions: impl IntoIterator<Item = &'a Problems>) -> Vec<String> {
    let (mut words, mut seen, mut more) = (Vec::new(), HashSet::new(), 0);
    for notes in sessions.into_iter().map(Problems::notes) {
        more += notes.more();
        for Problem { failure, .. } in &notes.first {
            match seen.insert(&failure.words) {
                true if words.len() < MOST_NOTES => words.push(failure.words.clone()),
                true => more += 1,
                false => {}
            }
        }
    }
    words.extend((more > 0).then(|| format!("{more} more")));
    words
}

/// Where each end's threads were over the whole run, in seconds, all of an end's threads together.
fn stages(report: &Report) -> serde_json::Value {
    let whole = merged(&report.evidence.intervals);
    serde_json::json!({ "sending": whole.sending.value(), "receiving": whole.receiving.value() })
}

/// How the data went: codecs, cipher, transport; what a detour costs.
fn say_how(job: &Job, report: &Report) -> anyhow::Result<()> {
    let mut stderr = std::io::stderr().lock();
    let raw: u64 = report.codecs.iter().map(|share| share.raw).sum();
    let packed: u64 = report.codecs.iter().map(|share| share.packed).sum();
    if raw > packed && !job.options.dry_run {
        let mut shares: Vec<&CodecShare> = report.codecs.iter().collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.raw));
        let words: Vec<String> = shares.iter().take(3).map(|share| share_in_words(share, raw)).collect();
        writeln!(stderr, "codecs: {} ({} as {})", words.join(", "), Bytes(raw), Bytes(packed))?;
    }
    for pair in report.controls.windows(2) {
        let [(_, before), (from, now)] = pair else { continue };
        let why = if is_bbr(now) {
            format!("for {before} slowed with each segment that the path lost")
        } else {
            format!("for {before} brought less")
        };
        writeln!(stderr, "congestion control: {now} from {from:.1} s on, {why}")?;
    }
    if let Some(cost) = detour(job, report.way) {
        let tried =
            if report.tried.is_empty() { String::new() } else { format!(" ({})", report.tried.join("; ")) };
        writeln!(stderr, "{}{}", cost, weir_report::escape::escape(&tried))?;
    }
    if report.strangers > 0 {
        let times = match report.strangers {
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        writeln!(
            stderr,
            "note: foreign connections to the data port {times} were rejected; block them with a firewall (--port-range)"
        )?;
    }
    say_notes(&notes([&report.problems]), &mut stderr)
}

/// A line for each of [`notes`].
pub fn say_notes(notes: &[String], to: &mut dyn Write) -> anyhow::Result<()> {
    for note in notes {
        writeln!(to, "note: {}", weir_report::escape::escape(note))?;
    }
    Ok(())
}

/// What a way costs that is not the first choice.
fn detour(job: &Job, way: Option<Way>) -> Option<&'static str> {
    match (way?, &job.from) {
        (Way::Relay, _) => Some("the data went through this machine: its network carries every byte twice"),
        (Way::Ssh, Some(_)) => Some(
            "the data went through this machine inside two ssh connections: for each a processor here and one there encrypts, and 2 MB a \
             round trip are the most",
        ),
        (Way::Ssh, None) if job.host.name.is_none() => Some(
            "the data went through one pipe between two processes here: connections over the loopback interface, which \
             ip link set lo up brings up, are faster",
        ),
        (Way::Ssh, None) => Some(
            "the data went inside ssh: one processor encrypts at each end, and 2 MB a round trip are the most",
        ),
        (Way::There | Way::Back, _) => None,
    }
}

fn share_in_words(share: &CodecShare, of: u64) -> String {
    let name = Codec::by_id(share.codec).map_or("unknown", Codec::name);
    let percent = share.raw as f64 / of as f64 * 100.0;
    if share.level == 0 {
        format!("{name} {percent:.0} %")
    } else {
        format!("{name}:{} {percent:.0} %", share.level)
    }
}

fn codec_share(share: &CodecShare) -> serde_json::Value {
    let name = Codec::by_id(share.codec).map_or("unknown", Codec::name);
    serde_json::json!({ "codec": name, "level": share.level, "bytes": share.raw, "packed": share.packed })
}

/// The record on stdout and failures on stderr, those that it names and how many `more`; or the summary,
/// which has them too.
fn say(cp: &Cp, record: &Record, more: u64) -> anyhow::Result<()> {
    let mut stderr = std::io::stderr().lock();
    if cp.voice.quiet || cp.voice.json {
        let failures = record.files.iter().filter_map(|file| file.error.as_ref()).chain(&record.error);
        for error in failures {
            voice::warn(&weir_report::escape::escape(error));
        }
        if more > 0 {
            voice::warn(&format!("{more} more paths failed"));
        }
    }
    if cp.voice.json {
        json::render(record, &mut std::io::stdout().lock()).printed("the record")?;
    } else if !cp.voice.quiet {
        let render = if cp.voice.verbose > 0 { terminal::render_summary } else { terminal::render_brief };
        render(record, voice::sheet(&std::io::stderr()), &mut stderr)?;
    }
    Ok(())
}

/// 130 interrupted, 3 a digest did not match, 4 the session broke and can be resumed, 1 something failed, 0
/// all is here.
pub fn exit_code(report: &Report) -> u8 {
    let failed = |kind: FailureKind| match kind {
        FailureKind::Verification => 3,
        FailureKind::Interrupted => INTERRUPTED,
        FailureKind::Local | FailureKind::Changed | FailureKind::Session => 1,
    };
    let of_files = report.problems.kinds().iter().map(|kind| failed(*kind)).max().unwrap_or(0);
    match &report.outcome {
        Ok(()) => of_files,
        Err(CopyError::Interrupted) => INTERRUPTED,
        Err(CopyError::Lost { .. } | CopyError::NoLane { .. }) if report.totals.there() > 0 => 4,
        Err(CopyError::Far(failure) | CopyError::Refused(failure)) => failed(failure.kind),
        Err(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use weir_cp::wire::message::Totals;

    use super::*;

    /// A run that lost its connection.
    fn lost(bytes: u64, kept: u64) -> Report {
        Report {
            totals: Totals { bytes, kept, ..Totals::default() },
            outcome: Err(CopyError::Lost { host: "far".to_owned(), why: None }),
            ..Report::nothing()
        }
    }

    #[test]
    fn a_copy_of_which_something_is_there_can_be_resumed() {
        for (bytes, kept, code) in [(0, 0, 1), (1, 0, 4), (0, 1, 4), (1, 1, 4)] {
            assert_eq!(exit_code(&lost(bytes, kept)), code, "{bytes} bytes, {kept} kept");
        }
    }
}
