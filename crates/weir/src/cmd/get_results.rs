//! What became of the files of a run: counted as they end, the first of them kept for the record, each told
//! on a line of its own where that was asked for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use weir_get::error::GetError;
use weir_get::job::{FileReport, Job, JobOutcome, Output, Pinned, RunReport};
use weir_get::list::journal::ListJournal;
use weir_get::object;
use weir_get::source::{Bad, Results};
use weir_report::schema::{CountsRecord, DigestRecord, FileRecord};
use weir_store::buckets::Buckets;

use crate::cmd::get_each::EachFile;
use crate::cmd::get_hubs::{self, Endings, Unknown};
use crate::cmd::get_turns::Turns;
use crate::interrupt::INTERRUPTED;
use crate::stdout;
use crate::voice::CLOSED;

/// Files that the record lists one by one, about 4 MB in memory; of more it lists those that failed, and
/// those of which something is to be said.
const LISTED: usize = 10_000;

/// Of more files than that: failures that are listed, and files with notes.
const FAILURES: usize = 1000;
const NOTED: usize = 100;

/// Files that an interruption kept from being begun and that are listed; the rest is counted. A run has
/// thousands at hand, of which there is nothing else to say.
const INTERRUPTED_LISTED: u64 = 10;

/// The results of a run.
pub struct Gathered {
    state: Mutex<GatheredState>,
    each: Option<EachFile>,
    journal: Option<ListJournal>,
    buckets: Arc<Buckets>,
    endings: Arc<Endings>,
    turns: Option<Arc<Turns>>,
}

#[derive(Default)]
struct GatheredState {
    files: Vec<(usize, FileRecord)>,
    bad: Vec<FileRecord>,
    /// There were more files than are listed.
    is_short: bool,
    counts: CountsRecord,
    unverified: u64,
    /// What its hub wants to be asked for later.
    for_later: u64,
    resumed: u64,
    interrupted: u64,
    /// The reader of stdout went away.
    is_closed: bool,
    folder: Folder,
}

/// The folder that all files lie in.
#[derive(Default)]
enum Folder {
    #[default]
    Unknown,
    All(PathBuf),
    Several,
}

/// All that is known when the run is over.
pub struct Gains {
    /// Those that are listed, in the order asked for, bad lines behind them.
    pub files: Vec<FileRecord>,
    /// There are more.
    pub is_short: bool,
    /// All of them.
    pub counts: CountsRecord,
    /// Bytes that earlier runs had left.
    pub resumed: u64,
    /// The exit code.
    pub code: u8,
}

impl Gathered {
    /// Nothing yet; each file is told to `each` as well, complete ones to the journal of their list, and
    /// those of hubs to `endings`.
    pub fn new(
        each: Option<EachFile>,
        journal: Option<ListJournal>,
        buckets: Arc<Buckets>,
        endings: Arc<Endings>,
    ) -> Gathered {
        Gathered { state: Mutex::default(), each, journal, buckets, endings, turns: None }
    }

    /// The same; each end is told to `turns` as well.
    pub fn in_turns(self, turns: Option<Arc<Turns>>) -> Gathered {
        Gathered { turns, ..self }
    }

    /// What has no job, since its hub does not have it.
    pub fn unknown(&self, Unknown { bad, code }: Unknown) {
        {
            let mut state = self.state.lock();
            state.unverified += u64::from(code == 3);
            state.for_later += u64::from(code == 4);
        }
        self.bad(bad);
    }

    /// What has no job, since the file at `path` is the same as its object.
    pub fn unchanged(&self, url: String, path: &Path, bytes: u64) {
        let path_shown = path.display().to_string();
        let record = FileRecord { url, path: path_shown, bytes, unchanged: true, ..FileRecord::default() };
        if let Some(each) = &self.each {
            each.tell(&record, word(&JobOutcome::Unchanged));
        }
        let mut state = self.state.lock();
        state.counts.files += 1;
        state.counts.unchanged += 1;
        state.folder.add(Some(path));
        // Behind those that had a job, and so a number.
        state.list(usize::MAX, record);
    }

    /// What was gained, after `report`; `said` is what is to be said of the files with these numbers.
    pub fn end(self, report: &RunReport, said: &[(usize, String)]) -> anyhow::Result<Gains> {
        if let Some(each) = self.each {
            each.end()?;
        }
        let GatheredState {
            mut files,
            bad,
            is_short,
            mut counts,
            unverified,
            for_later,
            resumed,
            folder,
            interrupted,
            is_closed,
        } = self.state.into_inner();
        let not_given = report.not_given.unwrap_or(0) as u64;
        counts.not_begun += not_given;
        counts.files += not_given;
        if let Folder::All(folder) = folder {
            counts.folder = format!("{}/", folder.display());
        }
        let is_lacking = counts.partial + counts.failed + counts.not_begun > 0;
        if let Some(journal) = self.journal {
            journal.end(!is_lacking && report.not_given.is_some() && report.broken.is_none());
        }
        let is_broken = report.broken.as_ref().is_some_and(|error| !error.is_for_later());
        let code = match () {
            () if is_closed => CLOSED,
            () if report.interrupted && (is_lacking || report.not_given.is_none()) => INTERRUPTED,
            () if unverified > 0 => 3,
            () if counts.failed + counts.bad_lines > for_later || is_broken => 1,
            () if is_lacking || for_later > 0 || report.broken.is_some() => 4,
            () => 0,
        };
        files.sort_by_key(|(number, _)| *number);
        note(&mut files, said);
        let is_short = is_short || counts.bad_lines > bad.len() as u64 || interrupted > INTERRUPTED_LISTED;
        let files = files.into_iter().map(|(_, file)| file).chain(bad).collect();
        Ok(Gains { files, is_short, counts, resumed, code })
    }
}

impl Results for Gathered {
    fn ended(&self, number: usize, job: &Job, mut report: FileReport) {
        get_hubs::note_pointer(&mut report);
        if let (Some(journal), JobOutcome::Complete, Some(path)) =
            (&self.journal, &report.outcome, &report.path)
        {
            let is_own = job.target().is_some_and(|own| own == *path);
            let name = path.file_name().filter(|_| !is_own).map(|name| name.to_string_lossy());
            if let Err(error) = journal.add(number, &job.url, report.bytes, name.as_deref()) {
                tracing::warn!(
                    "cannot write {}: {}; if this run is cut off, the next one fetches again what comes now",
                    journal.path().display(),
                    weir_units::plain(&error)
                );
            }
        }
        self.take(number, job, &report);
    }

    fn ended_before(&self, number: usize, job: &Job, report: FileReport) {
        if let JobOutcome::Complete = report.outcome {
            self.state.lock().counts.earlier += 1;
        }
        self.take(number, job, &report);
    }

    fn bad(&self, bad: Bad) {
        let record = FileRecord { url: bad.place, error: Some(bad.error), ..FileRecord::default() };
        if let Some(each) = &self.each {
            each.tell(&record, "bad-line");
        }
        if let Some(turns) = &self.turns {
            turns.failed();
        }
        let mut state = self.state.lock();
        state.counts.bad_lines += 1;
        if state.bad.len() < FAILURES {
            state.bad.push(record);
        }
    }
}

impl Gathered {
    fn take(&self, number: usize, job: &Job, report: &FileReport) {
        self.endings.ended(number, report);
        let mut record = file_record(job, report);
        if let Some(named) = self.buckets.named(&job.url) {
            record.url = named.to_string();
        }
        if let Some(each) = &self.each {
            each.tell(&record, word(&report.outcome));
        }
        let mut state = self.state.lock();
        if state.count(report) {
            state.folder.add(report.path.as_deref());
            state.list(number, record);
        }
        if let Some(turns) = &self.turns {
            turns.ended(&report.outcome);
        }
    }
}

impl GatheredState {
    /// Whether it is one to list.
    fn count(&mut self, report: &FileReport) -> bool {
        let counts = &mut self.counts;
        counts.files += 1;
        self.resumed += report.resumed_from;
        match &report.outcome {
            JobOutcome::Complete => counts.complete += 1,
            JobOutcome::Skipped => counts.skipped += 1,
            JobOutcome::Unchanged => counts.unchanged += 1,
            JobOutcome::Partial(_) => counts.partial += 1,
            JobOutcome::Failed(GetError::Interrupted) => {
                self.interrupted += 1;
                let is_listed = self.interrupted <= INTERRUPTED_LISTED;
                *(if is_listed { &mut counts.failed } else { &mut counts.not_begun }) += 1;
                return is_listed;
            }
            JobOutcome::Failed(error) => {
                counts.failed += 1;
                self.is_closed |= is_unread(error) && !stdout::was_closed();
                self.unverified += u64::from(error.is_verification());
            }
        }
        true
    }

    fn list(&mut self, number: usize, record: FileRecord) {
        if !self.is_short && self.files.len() >= LISTED {
            self.is_short = true;
            self.files.sort_by_key(|(number, _)| *number);
            let (mut failures, mut noted) = (0, 0);
            self.files.retain(|(_, file)| match (&file.error, file.notes.is_empty()) {
                (Some(_), _) => in_bounds(&mut failures, FAILURES),
                (None, false) => in_bounds(&mut noted, NOTED),
                (None, true) => false,
            });
        }
        let is_noted = record.error.is_none() && !record.notes.is_empty();
        let room = if is_noted { NOTED } else { FAILURES };
        let like_it = |file: &&(usize, FileRecord)| file.1.error.is_none() == is_noted;
        let is_worth = !self.is_short
            || (record.error.is_some() || is_noted) && self.files.iter().filter(like_it).count() < room;
        if is_worth {
            self.files.push((number, record));
        }
    }
}

/// Puts what is said of each file before its own notes, or those of the first where it is not listed.
fn note(files: &mut [(usize, FileRecord)], said: &[(usize, String)]) {
    for (number, text) in said.iter().rev() {
        let at = files.iter().position(|(own, _)| own == number).unwrap_or_default();
        if let Some((_, file)) = files.get_mut(at) {
            file.notes.insert(0, text.clone());
        }
    }
}

/// One more, if there is room for it.
fn in_bounds(count: &mut usize, most: usize) -> bool {
    *count += 1;
    *count <= most
}

impl Folder {
    fn add(&mut self, path: Option<&Path>) {
        let Some(folder) = path.and_then(Path::parent) else {
            return *self = Folder::Several;
        };
        match self {
            Folder::Unknown => *self = Folder::All(folder.to_owned()),
            Folder::All(own) if own != folder => *self = Folder::Several,
            Folder::All(_) | Folder::Several => {}
        }
    }
}

/// Nobody reads stdout, or could from the beginning.
fn is_unread(error: &GetError) -> bool {
    matches!(error, GetError::OutputClosed { path } if path == Path::new("stdout"))
}

fn word(outcome: &JobOutcome) -> &'static str {
    match outcome {
        JobOutcome::Complete => "complete",
        JobOutcome::Skipped => "skipped",
        JobOutcome::Unchanged => "unchanged",
        JobOutcome::Partial(_) => "partial",
        JobOutcome::Failed(_) => "failed",
    }
}

fn file_record(job: &Job, file: &FileReport) -> FileRecord {
    let path = match (&file.path, &job.output) {
        (Some(path), _) => path.display().to_string(),
        (None, Output::Stdout) => "-".to_owned(),
        _ => String::new(),
    };
    FileRecord {
        url: file.url.clone(),
        path,
        bytes: file.bytes,
        resumed_from: file.resumed_from,
        connections: file.connections,
        digest: (file.digest.as_ref())
            .map(|digest| DigestRecord { alg: digest.algorithm().name().to_owned(), hex: digest.hex() }),
        skipped: matches!(file.outcome, JobOutcome::Skipped),
        unchanged: matches!(file.outcome, JobOutcome::Unchanged),
        notes: file.notes.clone(),
        error: match &file.outcome {
            JobOutcome::Complete | JobOutcome::Skipped | JobOutcome::Unchanged => None,
            // There is no manifest: what it was is known to the caller of a library, or by a hub's list.
            JobOutcome::Failed(GetError::NotPinned { host, detail }) => Some(match &job.pinned {
                Some(Pinned { is_exact: true, .. }) => {
                    format!("the object on {host} changed since it was opened: {detail}; open it again")
                }
                _ => {
                    format!("{host} has another file than its list says: {detail}; --ignore-digest takes it")
                }
            }),
            JobOutcome::Failed(error) if is_unread(error) && stdout::was_closed() => {
                Some("stdout is closed".to_owned())
            }
            JobOutcome::Failed(error) => Some(error.to_string()),
            // A disk's error says itself what is kept.
            JobOutcome::Partial(error @ GetError::Local { .. }) => Some(error.to_string()),
            JobOutcome::Partial(error @ GetError::Unclean { .. }) => Some(format!(
                "{error}; {} are kept; the same command starts again",
                weir_units::Bytes(file.bytes)
            )),
            JobOutcome::Partial(error) if file.bytes == 0 => Some(error.to_string()),
            JobOutcome::Partial(error) => {
                let kept = weir_units::Bytes(file.bytes);
                let way = match error {
                    // The same command would bring the same answer.
                    GetError::Status { status: 400 | 401 | 403 | 410, .. } if object::is_signed(&job.url) => {
                        "a renewed link with the same name (-o) resumes"
                    }
                    _ => "run the same command again to resume",
                };
                Some(format!("{error}; {kept} are kept, {way}"))
            }
        },
    }
}
