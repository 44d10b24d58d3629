//! From web servers and stores into a folder, by the engine of downloads: one run over all batches.
//!
//! Without a folder nothing is kept: the bytes of each object are fetched, compared with what the manifest
//! says of them, and counted.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use url::Url;
use weir_codec::digest::Expected;
use weir_get::GetError;
use weir_get::engine::{self, Task};
use weir_get::http::exchange::Http;
use weir_get::job::{FileReport, Job, JobOutcome, Observer, Options, Output, Pinned};
use weir_get::sink::Existing;
use weir_get::source::{JobSource, Next, Results};
use weir_get::verify::{Expectation, Whose};
use weir_store::address::StoreUrl;
use weir_store::buckets::Buckets;
use weir_store::store::Store;
use weir_tree::TreeError;

use super::desk::{Desk, FleetTask, NextTask, TaskEnd, TaskShare};
use super::pieces;
use super::target::TargetTree;
use super::why::{class_of, class_of_store};
use super::{Mover, MoverRun};
use crate::class::FailureClass;
use crate::ledger::PlanEnds;
use crate::object::FleetObject;

/// Four for each of the 32 connections that small objects are fetched over, so that none waits for the thread
/// that brings them.
const AT_ONCE: usize = 128;

/// How long the engine's thread that brings jobs waits for one: as long as the engine itself would.
const POLL: Duration = Duration::from_millis(20);

/// Attempts of the engine. The ledger gives an object out again, later and to another host.
const RETRIES: u32 = 2;

/// A server may ask for as long a wait; a longer one is the ledger's, which has other work meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Objects up to this size are read whole where nothing is kept: what 32 connections hold is 2 MiB.
const IN_MEMORY: u64 = 64 << 10;

/// What stays as it is in a path (RFC 3986, section 3.3): letters, digits and these.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Where objects come from.
pub enum FetchSource {
    /// Below a folder of a web server, or each from a URL of its own.
    Web(Option<Url>),
    /// A prefix of a bucket.
    Store(Arc<dyn Store>, String),
}

/// A mover into a folder, or to nowhere.
pub struct Fetch<'a> {
    from: FetchSource,
    to: Option<TargetTree>,
    http: &'a Http,
    buckets: &'a Buckets,
    lanes: Option<u32>,
}

impl<'a> Fetch<'a> {
    /// Into the folder `to`, which is there, or to nowhere; `lanes` fixes the number of connections.
    /// `buckets` have what the URLs of a list name.
    pub fn new(
        from: FetchSource,
        to: Option<&Path>,
        http: &'a Http,
        buckets: &'a Buckets,
        lanes: Option<u32>,
    ) -> Result<Fetch<'a>, TreeError> {
        Ok(Fetch { from, to: to.map(TargetTree::open).transpose()?, http, buckets, lanes })
    }

    /// The folder, for what is done in it alone.
    fn tree(&self, object: &FleetObject) -> Result<&TargetTree, TaskEnd> {
        self.to.as_ref().ok_or_else(|| {
            let why = "ranges of it need a folder, and nothing is kept; plan it anew";
            let reason = format!("cannot fetch '{}': {why}", object.source_text().escape_debug());
            TaskEnd::Failed(FailureClass::Invalid, reason)
        })
    }

    /// Where its bytes go, and the file that they become.
    fn output(&self, object: &FleetObject) -> Result<Output, TaskEnd> {
        if let Some(to) = &self.to {
            return Ok(Output::File(to.place(object)?));
        }
        // What is read into memory is not hashed.
        let small = object.size.filter(|size| *size <= IN_MEMORY && object.digest.is_none());
        let small = small.and_then(|size| usize::try_from(size).ok());
        Ok(small.map_or_else(|| Output::Pipe(PlanEnds::NOWHERE.into()), Output::Memory))
    }

    fn job(&self, task: &FleetTask) -> Result<Job, TaskEnd> {
        let object = &*task.object;
        let piece = match &task.share {
            TaskShare::Range(range) => Some(range.range.clone()),
            TaskShare::Whole | TaskShare::Join(..) | TaskShare::Abort(_) => None,
        };
        // A piece has no digest of its own: that of all is compared when they are joined.
        let expectations = match &object.digest {
            Some(digest) if piece.is_none() => vec![expectation(digest)?],
            _ => Vec::new(),
        };
        if let Some(piece) = &piece
            && pieces::is_joined(&self.tree(object)?.place(object)?, object)
        {
            return Err(TaskEnd::Same(piece.end - piece.start));
        }
        let mtime = object.mtime.and_then(|nanos| u64::try_from(nanos).ok());
        let modified = mtime.map(|nanos| UNIX_EPOCH + Duration::from_nanos(nanos));
        Ok(Job {
            url: self.url(object)?,
            home: None,
            output: self.output(object)?,
            name: None,
            expectations,
            piece,
            pinned: Some(Pinned { size: object.size, etag: object.etag.clone(), modified, is_exact: false }),
        })
    }

    fn url(&self, object: &FleetObject) -> Result<Url, TaskEnd> {
        let shown = object.source_text();
        let bad = |why: &str| {
            let reason = format!("cannot fetch '{}': {why}", shown.escape_debug());
            TaskEnd::Failed(FailureClass::Invalid, reason)
        };
        match &self.from {
            FetchSource::Web(Some(base)) => url_below(base, object),
            FetchSource::Web(None) => match StoreUrl::parse(&shown) {
                Some(Ok(url)) => self
                    .buckets
                    .object(&url)
                    .map_err(|error| TaskEnd::Failed(class_of_store(&error), error.to_string())),
                Some(Err(error)) => Err(bad(&error.to_string())),
                None => Url::parse(&shown)
                    .ok()
                    .filter(|url| matches!(url.scheme(), "http" | "https"))
                    .ok_or_else(|| bad("it is no URL")),
            },
            FetchSource::Store(store, prefix) => {
                let rest = std::str::from_utf8(&object.source).map_err(|_| bad("its key is no UTF-8"))?;
                store
                    .object(&format!("{prefix}{rest}"), None)
                    .map_err(|error| TaskEnd::Failed(class_of_store(&error), error.to_string()))
            }
        }
    }

    fn options(&self, run: &MoverRun<'_>) -> Options {
        Options {
            lanes: self.lanes,
            limiter: Some(Arc::clone(run.limiter)),
            max_wait: MAX_WAIT,
            retries: RETRIES,
            any_type: true,
            // A file that is there tells by its time and its version's word whether it is the object.
            newer: true,
            existing: Existing::Kept,
            ..Options::default()
        }
    }
}

/// The address of an object below `base`.
pub(super) fn url_below(base: &Url, object: &FleetObject) -> Result<Url, TaskEnd> {
    let bad = |why: &str| {
        let reason = format!("cannot fetch '{}': {why}", object.source_text().escape_debug());
        TaskEnd::Failed(FailureClass::Invalid, reason)
    };
    let rest = percent_encode(&object.source, PATH).to_string();
    let url = Url::parse(&format!("{}{rest}", base.as_str())).map_err(|error| bad(&error.to_string()))?;
    // A name with `..` would lead out of its folder.
    if url.as_str().starts_with(base.as_str()) { Ok(url) } else { Err(bad("it leaves its folder")) }
}

/// `ALGORITHM:HEX`, as a manifest has it.
pub(super) fn expectation(text: &str) -> Result<Expectation, TaskEnd> {
    let expected: Expected = text.parse().map_err(|error| {
        let reason = format!("cannot verify by the digest '{text}' of the manifest: {error}");
        TaskEnd::Failed(FailureClass::Invalid, reason)
    })?;
    let (origin, before) = ("the manifest".to_owned(), Vec::new());
    Ok(Expectation { expected, origin, whose: Whose::User, parts: None, before })
}

impl Mover for Fetch<'_> {
    fn at_once(&self) -> usize {
        AT_ONCE
    }

    fn run(&self, run: &MoverRun<'_>, observer: &mut dyn Observer) {
        let given = GivenTasks::default();
        let mut source = FetchJobs { fetch: self, desk: run.desk, given: &given, next: 0 };
        let results = FetchResults { fetch: self, desk: run.desk, given: &given };
        let task = Task { source: &mut source, results: &results, reserved: Vec::new() };
        engine::run(task, &self.options(run), self.http, run.stop, observer);
        self.to.iter().for_each(|to| to.leftovers.tidy(run.desk));
    }

    fn leave(&self, desk: &Desk) {
        self.to.iter().for_each(|to| to.leftovers.leave(desk));
    }
}

/// The tasks that the engine has, by the numbers of their jobs.
#[derive(Default)]
struct GivenTasks(Mutex<HashMap<usize, FleetTask>>);

struct FetchJobs<'a> {
    fetch: &'a Fetch<'a>,
    desk: &'a Desk,
    given: &'a GivenTasks,
    next: usize,
}

impl JobSource for FetchJobs<'_> {
    fn next(&mut self, stop: &AtomicBool) -> Next {
        let task = match self.desk.next(POLL) {
            NextTask::Task(task) => task,
            NextTask::NotYet => return Next::NotYet,
            NextTask::End => return Next::End,
        };
        if let TaskShare::Join(_, notes) = &task.share {
            let to = self.fetch.tree(&task.object);
            match to.and_then(|to| pieces::join(to, (self.desk, stop), &task.object, notes)) {
                Ok(None) => self.desk.give_back(&task),
                Ok(Some(end)) | Err(end) => self.desk.end(&task, end, None),
            }
            return Next::NotYet;
        }
        match self.fetch.job(&task) {
            Ok(job) => {
                self.given.0.lock().insert(self.next, task);
                self.next += 1;
                Next::Job(Box::new(job))
            }
            Err(end) => {
                self.desk.end(&task, end, None);
                Next::NotYet
            }
        }
    }

    fn count(&self) -> Option<usize> {
        None
    }

    fn folder(&self) -> Option<&Path> {
        self.fetch.to.as_ref().map(TargetTree::root)
    }
}

struct FetchResults<'a> {
    fetch: &'a Fetch<'a>,
    desk: &'a Desk,
    given: &'a GivenTasks,
}

impl FetchResults<'_> {
    /// Notes a part that may lie beside the file of a whole object.
    fn look_beside(&self, task: &FleetTask, report: &FileReport) {
        if task.share != TaskShare::Whole {
            return;
        }
        if let (Some(to), Some(path)) = (&self.fetch.to, &report.path) {
            match report.outcome {
                JobOutcome::Partial(_) | JobOutcome::Failed(_) => to.leftovers.stays(task, path.clone()),
                _ if report.bytes > IN_MEMORY => to.leftovers.is_placed(path),
                _ => {}
            }
        }
    }

    /// A piece is in its part, and which part that is is told to whoever joins them.
    fn has_piece(&self, task: &FleetTask, range: &Range<u64>) {
        let bytes = range.end - range.start;
        let to = self.fetch.tree(&task.object);
        match to.and_then(|to| pieces::note(to, &task.object)) {
            Ok(note) => self.desk.end(task, TaskEnd::Moved(bytes), Some(note)),
            Err(end) => self.desk.end(task, end, None),
        }
    }
}

impl Results for FetchResults<'_> {
    fn ended(&self, number: usize, _: &Job, report: FileReport) {
        let Some(task) = self.given.0.lock().remove(&number) else { return };
        self.look_beside(&task, &report);
        let end = match report.outcome {
            JobOutcome::Complete => match &task.share {
                TaskShare::Range(range) => return self.has_piece(&task, &range.range),
                TaskShare::Whole | TaskShare::Join(..) | TaskShare::Abort(_) => TaskEnd::Moved(report.bytes),
            },
            JobOutcome::Skipped | JobOutcome::Unchanged => TaskEnd::Same(report.bytes),
            JobOutcome::Partial(GetError::Interrupted) | JobOutcome::Failed(GetError::Interrupted) => {
                return self.desk.give_back(&task);
            }
            JobOutcome::Partial(error) | JobOutcome::Failed(error) => {
                let reason = format!("{}: {error}", report.url);
                TaskEnd::Failed(class_of(&error), reason)
            }
        };
        self.desk.end(&task, end, None);
    }
}
