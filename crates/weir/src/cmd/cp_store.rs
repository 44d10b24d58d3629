//! `weir cp` with a store on either side: from arguments to a copy, a record and an exit code.

pub mod between;
pub mod meant;
mod told;

use std::io::Write;
use std::time::{Duration, Instant};

use weir_model::evidence::{Evidence, Facts, Interval};
use weir_model::verdict;
use weir_report::schema::{Record, RunOutcome};
use weir_report::{json, terminal};
use weir_store::tree::Rules;
use weir_tree::Filter;
use weir_tree::walk::Wanted;

use self::between::StoreRoute;
use self::told::{CopyListener, TreeOutcome};
use crate::args::{Cp, What};
use crate::calibration;
use crate::cmd::chosen;
use crate::evidence;
use crate::interrupt::{self, INTERRUPTED};
use crate::page;
use crate::voice::{self, Printed, Usage};

/// Whether a store is on either side.
pub fn is_meant(cp: &Cp) -> bool {
    cp.paths.iter().any(between::is_store)
}

/// What the flags choose, as stores have it: for the copy itself, and for the plan that counts it.
pub struct Choice {
    /// What is moved, over what.
    pub rules: Rules,
    /// What is left out.
    pub filter: Filter,
    /// What the source lacks goes.
    pub delete: bool,
    max_delete: Option<u64>,
    copy_links: bool,
    one_file_system: bool,
    mkpath: bool,
}

impl Choice {
    /// What a walk through the sources looks at.
    pub fn wanted(&self) -> Wanted {
        Wanted { referents: self.copy_links, one_file_system: self.one_file_system, ..Wanted::default() }
    }
}

/// What was said of the way between hosts, which no store goes by.
#[derive(Debug, Clone, Copy)]
pub struct HostWords {
    /// `--codec`.
    pub codec: bool,
    /// `--transport`.
    pub transport: bool,
    /// `--port-range`.
    pub port_range: bool,
    /// `--plain`.
    pub plain: bool,
}

/// Copies what `cp` names. Returns the exit code.
pub fn run(cp: &Cp) -> anyhow::Result<u8> {
    voice::start_log(cp.voice.quiet, cp.voice.verbose);
    evidence::check(cp.evidence.as_deref())?;
    let hosts = HostWords {
        codec: cp.codec.is_some(),
        transport: cp.transport.is_some(),
        port_range: cp.port_range.is_some(),
        plain: cp.plain,
    };
    refuse(&cp.what, hosts)?;
    let between = StoreRoute::of(&cp.paths)?;
    let choice = choice(&cp.what, between.sources())?;
    between.refuse_delete(choice.delete)?;
    if cp.what.archive {
        tracing::warn!("-a: a store keeps the times of files, and no owners, modes, links or attributes");
    }
    let stop = interrupt::stop()?;
    let told = CopyListener::new(cp);
    let began = Instant::now();
    let outcome = between.copy(cp, &choice, &told, &stop)?;
    let outcome = told.end(outcome, began.elapsed());
    let record = record(cp, &outcome);
    say(cp, &record, &outcome)?;
    page::keep(&cp.voice, &record)?;
    if let Some(seen) = &outcome.way.evidence {
        evidence::keep(cp.evidence.as_deref(), seen)?;
    }
    outcome.changes.end(outcome.code)
}

/// Flags that stand for what no store has, or for the way between hosts.
pub fn refuse(what: &What, hosts: HostWords) -> Result<(), Usage> {
    let choice = &what.choice;
    let given: [(bool, &str, &str); 14] = [
        (what.files_from.is_some(), "--files-from", "--include and --exclude choose"),
        (
            choice.backup || choice.backup_dir.is_some(),
            "--backup",
            "a bucket with versions keeps what is replaced",
        ),
        (!choice.link_dest.is_empty(), "--link-dest", "a store has no hard links"),
        (!choice.chmod.is_empty(), "--chmod", "a store keeps no modes"),
        (choice.chown.is_some(), "--chown", "a store keeps no owners"),
        (choice.usermap.is_some() || choice.groupmap.is_some(), "--usermap", "a store keeps no owners"),
        (choice.remove_source_files, "--remove-source-files", "delete the source when the copy is complete"),
        (choice.ignore_errors, "--ignore-errors", "nothing is deleted where a list is not complete"),
        (choice.keep_dirlinks, "--keep-dirlinks", "nothing is written over links"),
        (hosts.codec, "--codec", "a store takes and gives bytes as they are"),
        (hosts.transport, "--transport", "a store speaks HTTP alone"),
        (hosts.port_range, "--port-range", "a store speaks HTTP alone"),
        (hosts.plain, "--plain", "--endpoint http://HOST is not encrypted"),
        (what.nodes.nodes || what.nodes.devices || what.nodes.specials, "-D", "a store has no devices"),
    ];
    match given.iter().find(|(given, ..)| *given) {
        Some((_, flag, why)) => Err(Usage(format!("{flag} does not go with a store: {why}; leave it out"))),
        None => Ok(()),
    }
}

/// What the flags choose of as many sources.
pub fn choice(what: &What, sources: usize) -> Result<Choice, Usage> {
    let (options, _) = chosen::options(what, sources)?;
    let selection = options.selection;
    if options.filter.has_scopes() {
        return Err(Usage(
            "rules in the folders themselves (--cvs-exclude, --filter ': FILE') do not go with a store: give them by \
             --exclude or --filter '. FILE'"
                .to_owned(),
        ));
    }
    Ok(Choice {
        rules: Rules {
            size_only: selection.size_only,
            checksum: options.checksum,
            window: Duration::from_secs(options.modify_window.into()),
            ignore_existing: selection.ignore_existing,
            existing: selection.existing,
            anew: false,
            max_size: selection.max_size,
            min_size: selection.min_size,
        },
        filter: options.filter,
        delete: options.delete,
        max_delete: selection.max_delete,
        copy_links: selection.copy_links,
        one_file_system: selection.one_file_system,
        mkpath: selection.mkpath,
    })
}

/// The record of the run, as `--json` prints it.
fn record(cp: &Cp, outcome: &TreeOutcome) -> Record {
    let word = match outcome.code {
        0 => RunOutcome::Complete,
        4 | INTERRUPTED => RunOutcome::Partial,
        _ => RunOutcome::Failed,
    };
    let mut record = Record::new("cp", word, outcome.bytes, outcome.span.as_secs_f64());
    // What the target's connections show says nothing of who kept them waiting.
    let is_of_source = outcome.way.sides.is_some_and(|held| held.by() == "source");
    let seen = outcome.way.evidence.clone().or_else(|| outcome.way.is_server_side.then(|| unseen(outcome)));
    if let Some(mut evidence) = seen
        && !cp.dry_run
        && !is_of_source
        && outcome.bytes > 0
    {
        calibration::set_disk_alone(&mut evidence.facts);
        record = record.with_verdict(&evidence, &verdict::explain(&evidence));
    }
    record.resumed = (outcome.resumed > 0).then_some(outcome.resumed);
    record.peak_memory = weir_observe::memory::peak_rss().ok();
    record.error.clone_from(&outcome.error);
    record.files.clone_from(&outcome.failures);
    let shown = |path: &std::ffi::OsString| path.to_string_lossy().into_owned();
    let (target, sources) = cp.paths.split_last().map_or((None, &[][..]), |(last, rest)| (Some(last), rest));
    let own = serde_json::json!({
        "sources": sources.iter().map(shown).collect::<Vec<_>>(),
        "target": target.map(shown),
        "dry_run": cp.dry_run,
        "files": outcome.files + outcome.unchanged,
        "unchanged": outcome.unchanged,
        "deleted": outcome.deleted,
        "failed": outcome.failed,
        "server_side": outcome.way.is_server_side,
        "held_by": outcome.way.sides.map(|held| serde_json::json!({
            "side": held.by(), "source": held.source, "target": 1.0 - held.source,
        })),
    });
    record.extra.insert("cp".to_owned(), own);
    if cp.dry_run {
        record.extra.insert("would".to_owned(), outcome.would.to_json());
    }
    record
}

/// What is seen from here of a copy that the store makes by itself: how much, how long, and nothing of its
/// way.
fn unseen(outcome: &TreeOutcome) -> Evidence {
    let why = "the store copied the objects itself, and no byte of them passed this machine";
    let facts = Facts { unseen: Some(why.to_owned()), ..Facts::default() };
    let whole = Interval { span: outcome.span, received: outcome.bytes, ..Interval::default() };
    Evidence { facts, intervals: vec![whole], ..Evidence::default() }
}

/// The record on stdout and failures on stderr, those that it names and how many more; or the summary,
/// which has them too.
fn say(cp: &Cp, record: &Record, outcome: &TreeOutcome) -> anyhow::Result<()> {
    let more = outcome.more;
    let mut stderr = std::io::stderr().lock();
    if cp.voice.quiet || cp.voice.json {
        for file in record.files.iter().filter(|file| file.error.is_some()) {
            let error = format!("{}: {}", file.url, file.error.as_deref().unwrap_or_default());
            voice::warn(&weir_report::escape::escape(&error));
        }
        if let Some(error) = &record.error {
            voice::warn(&weir_report::escape::escape(error));
        }
    }
    if cp.voice.json {
        json::render(record, &mut std::io::stdout().lock()).printed("the record")?;
    } else if !cp.voice.quiet {
        let render = if cp.voice.verbose > 0 { terminal::render_summary } else { terminal::render_brief };
        render(record, voice::sheet(&std::io::stderr()), &mut stderr)?;
        if let Some(held) = outcome.way.sides.filter(|_| outcome.bytes > 0) {
            writeln!(stderr, "{}", held.in_words())?;
        }
    }
    if more > 0 && !cp.voice.quiet {
        writeln!(stderr, "failed: {more} more are not in the record")?;
    }
    Ok(())
}
