//! What a copy with a store tells while it runs, and what it comes to.

use std::io::Write;
use std::time::Duration;

use parking_lot::Mutex;
use weir_get::job::{FileReport, Job, JobOutcome};
use weir_get::source::{Bad, Results};
use weir_model::evidence::{Evidence, Interval, Trial};
use weir_report::escape::escape;
use weir_report::schema::FileRecord;
use weir_store::tree::Hears;
use weir_store::upload::job::{JobReport, PutOutcome as Sent};
use weir_units::Bytes;

use crate::args::Cp;
use crate::interrupt::INTERRUPTED;

/// Failures that the record lists one by one: 1 MB.
const LISTED: usize = 1000;

/// Intervals that are judged: an hour of them.
const INTERVALS: usize = 36_000;

/// What `-c` takes at most.
const MOST_AT_ONCE: u32 = 16;

/// Hears of a copy.
pub struct Told<'a> {
    cp: &'a Cp,
    state: Mutex<ToldState>,
}

#[derive(Default)]
struct ToldState {
    files: u64,
    bytes: u64,
    unchanged: u64,
    resumed: u64,
    failed: u64,
    partial: u64,
    unverified: u64,
    failures: Vec<FileRecord>,
    notes: Vec<String>,
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
    /// Entries deleted at the target.
    pub deleted: u64,
    /// Why it ended early.
    pub error: Option<String>,
    /// It was stopped from outside.
    pub is_interrupted: bool,
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
}

impl WayEnd {
    /// What the engine saw of one more lot, which began `at` seconds after the copy did.
    pub fn add(&mut self, mut more: Evidence, at: f64) {
        more.facts.most_at_once = Some(MOST_AT_ONCE);
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

impl<'a> Told<'a> {
    /// Nothing yet.
    pub fn new(cp: &'a Cp) -> Told<'a> {
        Told { cp, state: Mutex::default() }
    }

    /// What it came to.
    pub fn end(self, way: WayEnd, span: Duration) -> TreeOutcome {
        let state = self.state.into_inner();
        for note in &state.notes {
            if !self.cp.voice.quiet {
                eprintln!("note: {}", escape(note));
            }
        }
        let code = match () {
            () if way.is_interrupted => INTERRUPTED,
            () if state.unverified > 0 => 3,
            () if state.failed > 0 || way.error.is_some() => 1,
            () if state.partial > 0 => 4,
            () => 0,
        };
        TreeOutcome {
            files: state.files,
            bytes: way.sent.unwrap_or(state.bytes),
            unchanged: state.unchanged,
            resumed: state.resumed,
            deleted: way.deleted,
            failed: state.failed + state.partial,
            more: (state.failed + state.partial).saturating_sub(state.failures.len() as u64),
            failures: state.failures,
            error: way.error.clone(),
            span,
            code,
            way,
        }
    }

    /// An upload has ended.
    pub fn sent(&self, name: &str, report: JobReport) {
        report.notes.into_iter().for_each(|note| self.notes(format!("{name}: {note}")));
        self.state.lock().resumed += report.resumed;
        match report.outcome {
            Sent::Stored(_) => self.moved(name, report.bytes),
            Sent::Kept(error) => {
                let mut state = self.state.lock();
                state.partial += 1;
                state.list(name.to_owned(), format!("{error}; run the same command again to resume"));
            }
            Sent::Failed(error) => self.fails(name, error.to_string()),
        }
    }

    /// Prints a line, beside a record on standard error.
    fn line(&self, line: &str) {
        let line = escape(line);
        // A reader that went away wants no more lines.
        let _ = match self.cp.voice.json {
            true => writeln!(std::io::stderr(), "{line}"),
            false => writeln!(std::io::stdout(), "{line}"),
        };
    }

    fn is_verbose(&self) -> bool {
        self.cp.voice.verbose > 0 || self.cp.what.choice.itemize_changes
    }
}

impl ToldState {
    fn list(&mut self, url: String, error: String) {
        if self.failures.len() < LISTED {
            self.failures.push(FileRecord { url, error: Some(error), ..FileRecord::default() });
        }
    }
}

impl Hears for Told<'_> {
    fn moves(&self, name: &str, _: u64) {
        if self.cp.dry_run {
            self.line(&format!("copy {name}"));
            self.state.lock().files += 1;
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
            true => self.line(&format!("delete {name}")),
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
        self.state.lock().notes.push(note);
    }
}

impl Results for Told<'_> {
    fn ended(&self, _: usize, _: &Job, report: FileReport) {
        let path = report.path.map(|path| path.display().to_string());
        {
            let mut state = self.state.lock();
            state.resumed += report.resumed_from;
            match report.outcome {
                JobOutcome::Unchanged | JobOutcome::Skipped => return state.unchanged += 1,
                JobOutcome::Complete => {}
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
                    state.failed += 1;
                    state.unverified += u64::from(error.is_verification());
                    return state.list(report.url, error.to_string());
                }
            }
        }
        self.moved(&path.unwrap_or(report.url), report.bytes);
    }

    fn bad(&self, bad: Bad) {
        self.fails(&bad.place, bad.error);
    }
}
