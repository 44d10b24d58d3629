//! What a copy with a store tells while it runs, and what it comes to.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use weir_cp::wire::message::Deed;
use weir_get::GetError;
use weir_get::job::{FileReport, Job, JobOutcome};
use weir_get::source::{Bad, Results};
use weir_model::evidence::{Command, Evidence, Interval, Trial};
use weir_report::escape::escape;
use weir_report::schema::FileRecord;
use weir_store::StoreError;
use weir_store::address::StoreUrl;
use weir_store::store::Store;
use weir_store::tree::through::KEEPER;
use weir_store::tree::{Hears, Unholdable};
use weir_store::upload::elsewhere::Sides;
use weir_store::upload::job::{JobReport, PutOutcome as Sent};
use weir_units::Bytes;

use crate::args::Cp;
use crate::cmd::cp::{Changes, Would};
use crate::interrupt::INTERRUPTED;
use crate::voice;

/// Failures that the record lists one by one: 1 MB.
const LISTED: usize = 1000;

/// Intervals that are judged: an hour of them.
const INTERVALS: usize = 36_000;

/// Hears of a copy.
pub struct CopyListener<'a> {
    cp: &'a Cp,
    /// Where objects are fetched from, with the address of the bucket.
    from: OnceLock<(Arc<dyn Store>, StoreUrl)>,
    state: Mutex<ListenerState>,
    changes: Changes,
}

#[derive(Default)]
struct ListenerState {
    files: u64,
    bytes: u64,
    unchanged: u64,
    resumed: u64,
    failed: u64,
    partial: u64,
    unverified: u64,
    would: Would,
    failures: Vec<FileRecord>,
    notes: Vec<String>,
    /// Notes that are not among them.
    unsaid: u64,
}

/// How a way ended.
#[derive(Default)]
pub struct WayEnd {
    /// What the engine saw, one lot after the other.
    pub evidence: Option<Evidence>,
    /// Bytes that went over the network, where that is not what was moved.
    pub sent: Option<u64>,
    /// The store copied by itself.
    pub is_server_side: bool,
    /// Which of two stores held a copy through here.
    pub sides: Option<Held>,
    /// Entries deleted at the target.
    pub deleted: u64,
    /// Why it ended early.
    pub error: Option<String>,
    /// The exit code of that error, where it has one of its own.
    pub code: Option<u8>,
    /// It was stopped from outside.
    pub is_interrupted: bool,
}

/// Where the lanes' time went in a copy from one store to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Held {
    /// The share of it that was spent on fetching from the source; the rest went to the target.
    pub source: f64,
}

impl Held {
    /// From the time of both; `None`: nothing came through here.
    pub fn of(sides: &Sides) -> Option<Held> {
        let (source, target) = sides.spent();
        let all = (source + target).as_secs_f64();
        (all > 0.0).then(|| Held { source: source.as_secs_f64() / all })
    }

    /// Who: where one has less than three fifths, both do.
    pub fn by(self) -> &'static str {
        match self.source {
            0.6.. => "source",
            ..=0.4 => "target",
            _ => "both",
        }
    }

    /// In a sentence.
    pub fn in_words(self) -> String {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let (source, target) = (percent(self.source), percent(1.0 - self.source));
        match self.by() {
            "source" => {
                format!("the source held the copy: {source} of the lanes' time went to fetching from it")
            }
            "target" => {
                format!("the target held the copy: {target} of the lanes' time went to sending to it")
            }
            _ => format!("source and target held the copy alike: {source} fetching, {target} sending"),
        }
    }
}

/// What a copy came to.
pub struct TreeOutcome {
    /// How its way ended.
    pub way: WayEnd,
    /// Files and objects moved.
    pub files: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Those that were the same.
    pub unchanged: u64,
    /// Bytes that an earlier run had left.
    pub resumed: u64,
    /// Entries deleted at the target.
    pub deleted: u64,
    /// What a dry run would do.
    pub would: Would,
    /// Entries that could not be moved or deleted.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<FileRecord>,
    /// Those that are not among them.
    pub more: u64,
    /// Why the run ended early.
    pub error: Option<String>,
    /// How long it took.
    pub span: Duration,
    /// The exit code.
    pub code: u8,
    /// The lines that told of it.
    pub changes: Changes,
}

impl WayEnd {
    /// What the engine saw of one more lot, which began `at` seconds after the copy did.
    pub fn add(&mut self, mut more: Evidence, at: f64) {
        more.facts.command = Command::StoreCopy;
        let Some(all) = &mut self.evidence else {
            self.evidence = Some(more);
            return;
        };
        all.facts.objects += more.facts.objects;
        all.intervals.extend(more.intervals.into_iter().map(|one| Interval { at: one.at + at, ..one }));
        all.trials.extend(more.trials.into_iter().map(|one| Trial { at: one.at + at, ..one }));
        // Of a copy of millions of files the first hours say as much as all.
        all.intervals.truncate(INTERVALS);
    }
}

impl<'a> CopyListener<'a> {
    /// Nothing yet.
    pub fn new(cp: &'a Cp) -> CopyListener<'a> {
        let changes = Changes::new(&cp.voice);
        CopyListener { cp, from: OnceLock::new(), state: Mutex::default(), changes }
    }

    /// Objects are fetched from this bucket.
    pub fn is_from(&self, store: &Arc<dyn Store>, bucket: StoreUrl) {
        self.from.get_or_init(|| (Arc::clone(store), bucket));
    }

    /// The object of `job`, as its user names it.
    fn named(&self, job: &Job) -> Option<String> {
        let (store, bucket) = self.from.get()?;
        let (key, version) = store.named(&job.url)?;
        Some(StoreUrl { version, ..bucket.with_key(key) }.to_string())
    }

    /// What it came to.
    pub fn end(self, way: WayEnd, span: Duration) -> TreeOutcome {
        let state = self.state.into_inner();
        for note in state.notes.iter().filter(|_| !self.cp.voice.quiet) {
            voice::note(note);
        }
        if state.unsaid > 0 && !self.cp.voice.quiet {
            voice::note(&format!("and {} more of this kind", state.unsaid));
        }
        let code = match () {
            () if way.is_interrupted => INTERRUPTED,
            () if state.unverified > 0 => 3,
            () if way.error.is_some() => way.code.unwrap_or(1),
            () if state.failed > 0 => 1,
            () if state.partial > 0 => 4,
            () => 0,
        };
        TreeOutcome {
            files: state.files,
            bytes: way.sent.unwrap_or(state.bytes),
            unchanged: state.unchanged,
            resumed: state.resumed,
            deleted: way.deleted,
            would: state.would,
            failed: state.failed + state.partial,
            more: (state.failed + state.partial).saturating_sub(state.failures.len() as u64),
            failures: state.failures,
            error: way.error.clone(),
            span,
            code,
            changes: self.changes,
            way,
        }
    }

    /// An upload has ended.
    pub fn sent(&self, name: &str, report: JobReport) {
        report.notes.into_iter().for_each(|note| self.notes(format!("{name}: {note}")));
        self.state.lock().resumed += report.resumed;
        match report.outcome {
            Sent::Stored(_) | Sent::Sent(_) => self.moved(name, report.bytes),
            Sent::Kept(error) => {
                let mut state = self.state.lock();
                state.partial += 1;
                state.list(name.to_owned(), format!("{error}; run the same command again to resume"));
            }
            Sent::Failed(error) if error.is_for_later() => {
                let mut state = self.state.lock();
                state.partial += 1;
                state.list(name.to_owned(), error.to_string());
            }
            Sent::Failed(error) => {
                let is_damaged = matches!(&error, StoreError::Http(error) if error.is_verification());
                self.state.lock().unverified += u64::from(is_damaged);
                self.fails(name, format!("{error}{}", past(&error)));
            }
        }
    }

    /// Prints a line, beside a record on standard error.
    fn line(&self, line: &str) {
        self.changes.say(&escape(line));
    }

    fn is_verbose(&self) -> bool {
        self.cp.voice.verbose > 0 || self.cp.what.choice.itemize_changes
    }
}

/// The way past a digest that the store of a source keeps.
fn past(error: &StoreError) -> &'static str {
    match error {
        StoreError::Http(GetError::Digest { origin, .. }) if origin == KEEPER => "; --ignore-digest keeps it",
        _ => "",
    }
}

/// The end of a way out that a tree has not: it comes from no list.
const BY_LIST: &str = " in a list, URL<TAB>NAME a line";

/// Why `path` was not written; another key may have made a folder of that name meanwhile.
fn in_a_tree(path: Option<&Path>, error: &GetError) -> String {
    let is_of_its_name = matches!(error, GetError::IsDirectory { .. } | GetError::Local { .. });
    match is_of_its_name && path.is_some_and(Path::is_dir) {
        true => Unholdable::HasFolder.to_string(),
        false => {
            let words = error.to_string();
            let why = words.strip_suffix(BY_LIST).and_then(|words| words.rsplit_once("; "));
            let other = |(why, _): (&str, &str)| {
                format!("{why}; --exclude leaves one of them out, and weir get URL -o FILE fetches it")
            };
            why.map(other).unwrap_or(words)
        }
    }
}

impl ListenerState {
    fn list(&mut self, url: String, error: String) {
        if self.failures.len() < LISTED {
            self.failures.push(FileRecord { url, error: Some(error), ..FileRecord::default() });
        }
    }
}

impl Hears for CopyListener<'_> {
    fn moves(&self, name: &str, _: u64) {
        if self.cp.dry_run {
            self.line(&format!("copy {name}"));
            let mut state = self.state.lock();
            state.files += 1;
            state.would.count(&Deed::Copy);
        }
    }

    fn moved(&self, name: &str, bytes: u64) {
        if self.is_verbose() {
            self.line(name);
        }
        let mut state = self.state.lock();
        state.files += 1;
        state.bytes += bytes;
    }

    fn unchanged(&self, _: &str, _: u64) {
        self.state.lock().unchanged += 1;
    }

    fn deletes(&self, name: &str) {
        match self.cp.dry_run {
            true => {
                self.line(&format!("delete {name}"));
                self.state.lock().would.count(&Deed::Delete);
            }
            false if self.is_verbose() => self.line(&format!("deleting {name}")),
            false => {}
        }
    }

    fn fails(&self, name: &str, error: String) {
        let mut state = self.state.lock();
        state.failed += 1;
        state.list(name.to_owned(), error);
    }

    fn notes(&self, note: String) {
        let mut state = self.state.lock();
        match state.notes.len() {
            ..LISTED => state.notes.push(note),
            _ => state.unsaid += 1,
        }
    }
}

impl Results for CopyListener<'_> {
    fn ended(&self, _: usize, job: &Job, report: FileReport) {
        let report = FileReport { url: self.named(job).unwrap_or(report.url), ..report };
        let path = report.path.as_deref();
        let mut notes = Vec::new();
        {
            let mut state = self.state.lock();
            state.resumed += report.resumed_from;
            match report.outcome {
                JobOutcome::Unchanged | JobOutcome::Skipped => return state.unchanged += 1,
                JobOutcome::Complete => notes.clone_from(&report.notes),
                JobOutcome::Partial(error) => {
                    state.partial += 1;
                    let kept = Bytes(report.bytes);
                    let error = match report.bytes {
                        0 => error.to_string(),
                        _ => format!("{error}; {kept} are kept, run the same command again to resume"),
                    };
                    return state.list(report.url, error);
                }
                JobOutcome::Failed(error) => {
                    match error.is_for_later() {
                        true => state.partial += 1,
                        false => state.failed += 1,
                    }
                    state.unverified += u64::from(error.is_verification());
                    return state.list(report.url, in_a_tree(path, &error));
                }
            }
        }
        notes.into_iter().for_each(|note| self.notes(format!("{}: {note}", report.url)));
        self.moved(&path.map_or(report.url, |path| path.display().to_string()), report.bytes);
    }

    fn bad(&self, bad: Bad) {
        self.fails(&bad.place, bad.error);
    }
}
