//! From a folder into a store, by the engine of uploads: some hundreds of files a run of it, large ones in
//! parts.
//!
//! Every object is stored under the condition that nothing has its key. Where something has, it is looked at:
//! with the size and the time or the digest of the file it is its upload, and else it stays, and the file
//! fails.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use std::os::unix::fs::MetadataExt;
use weir_get::GetError;
use weir_get::http::exchange::Http;
use weir_get::job::Observer;
use weir_observe::stage_clock::StageClock;
use weir_store::StoreError;
use weir_store::caller::{Caller, CallerSetup};
use weir_store::listing::mtime_text;
use weir_store::store::Store;
use weir_store::tree::content;
use weir_store::upload::engine::{self, Target};
use weir_store::upload::job::{CLEARS, Check, Job, JobReport, Options, PutOutcome, Source};
use weir_store::upload::{Attributes, Condition, kinds};
use weir_tree::Name;
use weir_units::instant;

use super::desk::{FleetTask, NextTask, TaskEnd, TaskShare};
use super::why::{class_of_io, class_of_store};
use super::{Mover, MoverRun};
use crate::class::FailureClass;
use crate::object::FleetObject;

/// Files of a run of the engine: long against the moment in which its last connections have nothing to do.
const LOT: usize = 500;

/// Bytes of a run: a large file is no reason to hold back those behind it.
const LOT_BYTES: u64 = 1 << 30;

/// How long a file is waited for.
const POLL: Duration = Duration::from_millis(50);

/// A minute without a byte is a broken path, as for `weir put`.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Attempts of the engine. The ledger gives an object out again, later and to another host.
const RETRIES: u32 = 3;

/// A mover into a store.
pub struct Send<'a> {
    from: PathBuf,
    store: Arc<dyn Store>,
    prefix: String,
    shown: String,
    http: &'a Http,
    manner: SendManner,
}

/// How it sends.
#[derive(Debug, Clone, Default)]
pub struct SendManner {
    /// Fixes the number of connections.
    pub lanes: Option<u32>,
    /// Where journals of interrupted uploads lie.
    pub journals: Option<PathBuf>,
}

impl<'a> Send<'a> {
    /// From the folder `from` into the bucket `store`, whose keys begin with `prefix`; `shown`:
    /// `s3://BUCKET/`.
    pub fn new(
        from: &Path,
        store: Arc<dyn Store>,
        prefix: &str,
        shown: &str,
        http: &'a Http,
        manner: SendManner,
    ) -> Send<'a> {
        let (from, prefix, shown) = (from.to_owned(), prefix.to_owned(), shown.to_owned());
        Send { from, store, prefix, shown, http, manner }
    }

    /// The next files; `None`: there are no more, or the run is to end.
    fn lot(&self, run: &MoverRun<'_>) -> Option<Vec<(FleetTask, Job)>> {
        let (mut lot, mut bytes) = (Vec::new(), 0);
        while lot.len() < LOT && bytes < LOT_BYTES && !run.stop.load(Relaxed) {
            let wait = if lot.is_empty() { POLL } else { Duration::ZERO };
            let task = match run.desk.next(wait) {
                NextTask::Task(task) => task,
                NextTask::NotYet if lot.is_empty() => continue,
                NextTask::NotYet => break,
                NextTask::End => break,
            };
            match self.job(&task) {
                Ok(job) => {
                    bytes += job.size.unwrap_or(0);
                    lot.push((task, job));
                }
                Err(end) => run.desk.end(&task, end, None),
            }
        }
        (!lot.is_empty()).then_some(lot)
    }

    fn job(&self, task: &FleetTask) -> Result<Job, TaskEnd> {
        let object = &*task.object;
        let bad = |class, why: &str| {
            TaskEnd::Failed(class, format!("cannot send '{}': {why}", object.source_text()))
        };
        if task.share != TaskShare::Whole {
            return Err(bad(FailureClass::Invalid, "a part of it alone is not sent; plan it whole"));
        }
        let path = self.path(object).map_err(|why| bad(FailureClass::Invalid, &why))?;
        let data = std::fs::symlink_metadata(&path).map_err(|error| {
            let is_gone = error.kind() == std::io::ErrorKind::NotFound;
            let class = if is_gone { FailureClass::Missing } else { class_of_io(&error) };
            bad(class, &weir_units::plain(&error))
        })?;
        if !data.is_file() {
            return Err(bad(FailureClass::Invalid, "it is no file"));
        }
        let nanoseconds =
            data.mtime().checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(data.mtime_nsec()));
        let is_other = object.size.is_some_and(|size| size != data.len())
            || object.mtime.is_some_and(|mtime| nanoseconds != Some(mtime));
        if is_other {
            let why = "it is not the file of the manifest any more; make a new plan for it";
            return Err(bad(FailureClass::Changed, why));
        }
        let key = self.key(object).map_err(|why| bad(FailureClass::Name, why))?;
        let content_type = kinds::of(&key).map(str::to_owned);
        let mut attributes = Attributes { content_type, ..Attributes::default() };
        if let Ok(time) = data.modified() {
            attributes.metadata.push(("mtime".to_owned(), mtime_text(time)));
        }
        Ok(Job { source: Source::File(path), key, size: Some(data.len()), attributes })
    }

    fn path(&self, object: &FleetObject) -> Result<PathBuf, String> {
        let name = Name::new(object.source.as_slice()).map_err(|invalid| invalid.to_string())?;
        // A file that is planned alone has no name below itself.
        Ok(if name.is_root() { self.from.clone() } else { self.from.join(name.as_path()) })
    }

    fn key(&self, object: &FleetObject) -> Result<String, &'static str> {
        let rest = std::str::from_utf8(&object.target).map_err(|_| "its key would be no UTF-8; rename it")?;
        let key = format!("{}{rest}", self.prefix);
        let is_too_long = key.len() > weir_store::key::MOST;
        if is_too_long { Err("its key would be longer than 1024 bytes; shorten its path") } else { Ok(key) }
    }

    fn options(&self, run: &MoverRun<'_>) -> Options {
        Options {
            lanes: self.manner.lanes,
            files_at_once: None,
            rate_cap: run.rate,
            timeout: TIMEOUT,
            connect_timeout: TIMEOUT,
            retries: RETRIES,
            part_size: None,
            check: Check::Preferred,
            condition: Condition::Absent,
            journals: self.manner.journals.clone(),
            fresh: false,
            finished: None,
            clears: CLEARS,
        }
    }

    /// What became of a file; `None`: the run was ended.
    fn end(
        &self,
        run: &MoverRun<'_>,
        caller: &mut Caller<'_>,
        job: &Job,
        report: JobReport,
    ) -> Option<TaskEnd> {
        let size = job.size.unwrap_or(0);
        let error = match report.outcome {
            PutOutcome::Stored(_) => return Some(TaskEnd::Moved(size)),
            PutOutcome::Kept(error) | PutOutcome::Failed(error) => error,
        };
        if run.stop.load(Relaxed) && matches!(error, StoreError::Http(GetError::Interrupted)) {
            return None;
        }
        let failed = |error: &StoreError| {
            let reason = format!("{}{}: {error}", self.shown, job.key);
            Some(TaskEnd::Failed(class_of_store(error), reason))
        };
        if !matches!(error, StoreError::Usage(_)) {
            return failed(&error);
        }
        match self.is_there(caller, job) {
            Ok(true) => Some(TaskEnd::Same(size)),
            Ok(false) => {
                let reason = format!(
                    "{}{} exists and is not what the source has; it is kept: move it away, or choose another target",
                    self.shown, job.key
                );
                Some(TaskEnd::Failed(FailureClass::Name, reason))
            }
            Err(error) => failed(&error),
        }
    }

    /// The object that has the key is an upload of this file.
    fn is_there(&self, caller: &mut Caller<'_>, job: &Job) -> Result<bool, StoreError> {
        let Source::File(path) = &job.source else { return Ok(false) };
        let local = |error: std::io::Error| {
            StoreError::Local(format!("{}: {}", path.display(), weir_units::plain(&error)))
        };
        let Some(there) = self.store.lists().look(caller, &job.key, None)? else { return Ok(false) };
        let file = File::open(path).map_err(local)?;
        let data = file.metadata().map_err(local)?;
        if there.listed.size != data.len() {
            return Ok(false);
        }
        if there.mtime.is_some() && there.mtime == instant::at(data.mtime(), data.mtime_nsec() as u32) {
            return Ok(true);
        }
        let Some((algorithm, value)) = content::digest_of(&there) else { return Ok(false) };
        let own = content::digest(&file, algorithm, 0, data.len()).map_err(local)?;
        Ok(own == value)
    }
}

impl Mover for Send<'_> {
    fn at_once(&self) -> usize {
        LOT
    }

    fn run(&self, run: &MoverRun<'_>, observer: &mut dyn Observer) {
        let options = self.options(run);
        let name = |key: &str| self.store.address(key);
        let shown = |key: &str| format!("{}{key}", self.shown);
        let clock = StageClock::new(Instant::now());
        let mut caller = Caller::new(CallerSetup {
            http: self.http,
            clock: &clock,
            on_socket: &|_| (),
            stop: run.stop,
            timeout: TIMEOUT,
            connect_timeout: TIMEOUT,
            retries: RETRIES,
        });
        while let Some(lot) = self.lot(run) {
            let (tasks, jobs): (Vec<FleetTask>, Vec<Job>) = lot.into_iter().unzip();
            let target = Target { uploads: self.store.uploads(), name: &name, shown: &shown, source: None };
            let report = engine::run(target, &jobs, &options, self.http, run.stop, observer);
            for ((task, job), report) in tasks.iter().zip(&jobs).zip(report.jobs) {
                match self.end(run, &mut caller, job, report) {
                    Some(end) => run.desk.end(task, end, None),
                    None => run.desk.give_back(task),
                }
            }
        }
    }
}
