//! From a folder into a store, by the engine of uploads: some hundreds of files a run of it, large ones in
//! parts. [`Sender`] is what sends, whatever the objects are made of.
//!
//! Every object is stored under the condition that nothing has its key. Where something has, it is looked at:
//! with the size and the time or the digest of the file it is its upload, and else it stays, and the file
//! fails.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use std::os::unix::fs::MetadataExt;
use weir_get::GetError;
use weir_get::http::connection::MAX_WAIT;
use weir_get::http::exchange::Http;
use weir_get::job::Observer;
use weir_observe::stage_clock::StageClock;
use weir_store::StoreError;
use weir_store::caller::{Caller, CallerSetup};
use weir_store::condition::Condition;
use weir_store::listing::{Looked, mtime_text};
use weir_store::tree::content;
use weir_store::upload::engine::{self, Target};
use weir_store::upload::fields::FieldKind;
use weir_store::upload::job::{CLEARS, Check, Job, JobReport, Options, PutOutcome, Source};
use weir_store::upload::plan::LARGE;
use weir_store::upload::{Attributes, kinds};
use weir_tree::Name;
use weir_units::instant;

use super::across::StoreEnd;
use super::desk::{FleetTask, NextTask, TaskEnd, TaskShare};
use super::fetch::expectation;
use super::parts::{self, PartsError, PartsTarget, Verified};
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
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// Attempts of the engine. The ledger gives an object out again, later and to another host.
pub(super) const RETRIES: u32 = 3;

/// Notes of a worker that are told.
const NOTES: u32 = 20;

/// How uploads are sent.
#[derive(Debug, Clone, Default)]
pub struct SendManner {
    /// Fixes the number of connections.
    pub lanes: Option<u32>,
    /// Where journals of interrupted uploads lie.
    pub journals: Option<PathBuf>,
}

/// Objects of a run of the engine.
pub(super) type Lot = Vec<(FleetTask, Job)>;

/// Whether what has the key of a job is what the job would store; `None`: nothing has it.
pub(super) type IsThere<'a> = dyn FnMut(&mut Caller<'_>, &Job) -> Result<Option<bool>, StoreError> + 'a;

/// What sends into a store, whatever it is made of.
pub(super) struct Sender<'a> {
    to: StoreEnd,
    http: &'a Http,
    /// The way to where objects come from, where that is none of this host's folders.
    source: Option<&'a Http>,
    manner: SendManner,
    notes: AtomicU32,
}

impl<'a> Sender<'a> {
    pub(super) fn new(
        (to, http): (StoreEnd, &'a Http),
        source: Option<&'a Http>,
        manner: SendManner,
    ) -> Sender<'a> {
        Sender { to, http, source, manner, notes: AtomicU32::new(0) }
    }

    /// What an object is called at the target.
    pub(super) fn key(&self, object: &FleetObject) -> Result<String, &'static str> {
        let rest = std::str::from_utf8(&object.target).map_err(|_| "its key would be no UTF-8; rename it")?;
        let key = format!("{}{rest}", self.to.prefix);
        let is_too_long = key.len() > weir_store::key::MOST;
        if is_too_long { Err("its key would be longer than 1024 bytes; shorten its path") } else { Ok(key) }
    }

    /// What objects there are told beside their bytes.
    pub(super) fn fields(&self) -> FieldKind {
        self.to.store.fields()
    }

    /// What has the key.
    pub(super) fn look(&self, caller: &mut Caller<'_>, key: &str) -> Result<Option<Looked>, StoreError> {
        self.to.store.lists().look(caller, key, None, None)
    }

    /// The job of a share of an object, of which `whole` is that of all; or how the share has ended.
    /// `is_same`: what has the key is the source's object. `wish`: bytes of a part that the source is best
    /// read in.
    pub(super) fn share(
        &self,
        run: &MoverRun<'_>,
        caller: &mut Caller<'_>,
        task: &FleetTask,
        whole: Job,
        (is_same, wish): (&dyn Fn(&Looked) -> bool, u64),
    ) -> Result<Job, TaskEnd> {
        let target = PartsTarget { to: &self.to, is_same, wish };
        let shown = format!("{}{}", self.to.shown, whole.key);
        let kept = match &whole.source {
            Source::Elsewhere(source) => source.kept.clone(),
            Source::File(_) | Source::Stdin => None,
        };
        let shared = match &task.share {
            TaskShare::Whole => Ok(whole),
            TaskShare::Range(range) => target.range(run, caller, range, whole),
            TaskShare::Join(range, notes) => {
                let must = task.object.digest.is_some();
                let joined = target.join(caller, (range, notes), &whole, (kept.as_ref(), must));
                joined.and_then(|(end, verified)| {
                    let is_fetched = matches!(whole.source, Source::Elsewhere(_));
                    if let (Verified::Not(why), true) = (verified, is_fetched) {
                        self.note(&shown, &format!("not verified against its source: {why}"));
                    }
                    Err(PartsError::End(end))
                })
            }
            TaskShare::Abort(token) => Err(PartsError::End(self.abort(caller, token, &task.object))),
        };
        shared.map_err(|error| error.end(&shown))
    }

    /// Takes away an upload of an object that was given up, whatever its source is now.
    pub(super) fn abort(&self, caller: &mut Caller<'_>, token: &str, object: &FleetObject) -> TaskEnd {
        // What has no name there was never begun.
        let Ok(key) = self.key(object) else { return TaskEnd::Same(0) };
        let target = PartsTarget { to: &self.to, is_same: &|_| false, wish: 0 };
        let aborted = target.abort(caller, token, &key);
        aborted.unwrap_or_else(|error| error.end(&format!("{}{key}", self.to.shown)))
    }

    fn options(&self, run: &MoverRun<'_>) -> Options {
        Options {
            lanes: self.manner.lanes,
            files_at_once: None,
            rate_cap: None,
            limiter: Some(Arc::clone(run.limiter)),
            timeout: TIMEOUT,
            connect_timeout: TIMEOUT,
            max_wait: MAX_WAIT,
            retries: RETRIES,
            part_size: None,
            check: Check::Preferred,
            condition: Condition::Absent,
            journals: self.manner.journals.clone(),
            keeps: false,
            fresh: false,
            finished: None,
            clears: CLEARS,
        }
    }

    /// Sends a lot, and tells the desk what became of each of it.
    pub(super) fn send(
        &self,
        run: &MoverRun<'_>,
        caller: &mut Caller<'_>,
        lot: Lot,
        is_there: &mut IsThere<'_>,
        observer: &mut dyn Observer,
    ) {
        let (tasks, jobs): (Vec<FleetTask>, Vec<Job>) = lot.into_iter().unzip();
        let name = |key: &str| self.to.store.address(key);
        let shown = |key: &str| format!("{}{key}", self.to.shown);
        let uploads = self.to.store.uploads();
        let target = Target { uploads, name: &name, shown: &shown, source: self.source };
        let report = engine::run(target, &jobs, &self.options(run), self.http, run.stop, observer);
        for ((task, job), report) in tasks.iter().zip(&jobs).zip(report.jobs) {
            report.notes.iter().for_each(|note| self.note(&shown(&job.key), note));
            if let (PutOutcome::Sent(parts), Some(share)) = (&report.outcome, &job.share) {
                let bytes = share.bytes.end - share.bytes.start;
                run.desk.end(task, TaskEnd::Moved(bytes), Some(parts::note(&job.source, parts)));
                continue;
            }
            match self.end(run, caller, job, report, is_there) {
                Some(end) => run.desk.end(task, end, None),
                None => run.desk.give_back(task),
            }
        }
    }

    /// The first ones are told: a million objects may each have the same.
    fn note(&self, shown: &str, note: &str) {
        match self.notes.fetch_add(1, Relaxed) {
            ..NOTES => tracing::warn!("{shown}: {note}"),
            NOTES => tracing::warn!("{shown}: {note}; more of this kind are told by -v"),
            _ => tracing::info!("{shown}: {note}"),
        }
    }

    /// What became of an object; `None`: the run was ended.
    fn end(
        &self,
        run: &MoverRun<'_>,
        caller: &mut Caller<'_>,
        job: &Job,
        report: JobReport,
        is_there: &mut IsThere<'_>,
    ) -> Option<TaskEnd> {
        let size = job.size.unwrap_or(0);
        let error = match report.outcome {
            PutOutcome::Stored(_) | PutOutcome::Sent(_) => return Some(TaskEnd::Moved(size)),
            PutOutcome::Kept(error) | PutOutcome::Failed(error) => error,
        };
        if job.share.is_some() || !matches!(error, StoreError::Usage(_)) {
            return self.failed(run, job, &error);
        }
        match is_there(caller, job) {
            Ok(None) => self.failed(run, job, &error),
            Ok(Some(true)) => Some(TaskEnd::Same(size)),
            Ok(Some(false)) => {
                let reason = format!(
                    "{}{} exists and is not what the source has; it is kept: move it away, or choose another target",
                    self.to.shown, job.key
                );
                Some(TaskEnd::Failed(FailureClass::Name, reason))
            }
            Err(error) => self.failed(run, job, &error),
        }
    }

    /// `None`: it is the run that was ended.
    fn failed(&self, run: &MoverRun<'_>, job: &Job, error: &StoreError) -> Option<TaskEnd> {
        if run.stop.load(Relaxed) && matches!(error, StoreError::Http(GetError::Interrupted)) {
            return None;
        }
        let key = format!("{}{}", self.to.shown, job.key);
        if let Some(end) = job.share.as_ref().and_then(|_| parts::of_no_upload(error, &key)) {
            return Some(end);
        }
        let reason = match error {
            StoreError::Changed(source) => {
                format!("{key}: {source} changed while it was sent; make a new plan for it")
            }
            error => format!("{key}: {error}"),
        };
        Some(TaskEnd::Failed(class_of_store(error), reason))
    }
}

/// A mover from a folder into a store.
pub struct Send<'a> {
    from: PathBuf,
    to: Sender<'a>,
    http: &'a Http,
}

impl<'a> Send<'a> {
    /// From the folder `from` into `to`.
    pub fn new(from: &Path, to: StoreEnd, http: &'a Http, manner: SendManner) -> Send<'a> {
        Send { from: from.to_owned(), to: Sender::new((to, http), None, manner), http }
    }

    /// The next files; `None`: there are no more, or the run is to end.
    fn lot(&self, run: &MoverRun<'_>, caller: &mut Caller<'_>) -> Option<Lot> {
        let (mut lot, mut bytes) = (Vec::new(), 0);
        while lot.len() < LOT && bytes < LOT_BYTES && !run.stop.load(Relaxed) {
            let wait = if lot.is_empty() { POLL } else { Duration::ZERO };
            let task = match run.desk.next(wait) {
                NextTask::Task(task) => task,
                NextTask::NotYet if lot.is_empty() => continue,
                NextTask::NotYet => break,
                NextTask::End => break,
            };
            let job = self.job(run, caller, &task).and_then(|job| verified(run, &task, job));
            match job {
                Err(TaskEnd::Failed(..)) if run.stop.load(Relaxed) => run.desk.give_back(&task),
                Ok(job) => {
                    bytes += job.size.unwrap_or(0);
                    lot.push((task, job));
                }
                Err(end) => run.desk.end(&task, end, None),
            }
        }
        (!lot.is_empty()).then_some(lot)
    }

    fn job(&self, run: &MoverRun<'_>, caller: &mut Caller<'_>, task: &FleetTask) -> Result<Job, TaskEnd> {
        if let TaskShare::Abort(token) = &task.share {
            return Err(self.to.abort(caller, token, &task.object));
        }
        let (whole, modified) = self.whole(task)?;
        let size = whole.size;
        let is_same = |there: &Looked| {
            there.mtime.is_some() && there.mtime == modified && Some(there.listed.size) == size
        };
        self.to.share(run, caller, task, whole, (&is_same, LARGE))
    }

    /// The job of all of a file, and when that was last changed.
    fn whole(&self, task: &FleetTask) -> Result<(Job, Option<SystemTime>), TaskEnd> {
        let object = &*task.object;
        let bad = |class, why: &str| {
            TaskEnd::Failed(class, format!("cannot send '{}': {why}", object.source_text()))
        };
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
        let key = self.to.key(object).map_err(|why| bad(FailureClass::Name, why))?;
        let content_type = kinds::of(&key).map(str::to_owned);
        let mut attributes = Attributes { content_type, ..Attributes::default() };
        if let Ok(time) = data.modified() {
            attributes.metadata.push(("mtime".to_owned(), mtime_text(time)));
        }
        let job = Job { source: Source::File(path), key, size: Some(data.len()), attributes, share: None };
        Ok((job, instant::at(data.mtime(), data.mtime_nsec() as u32)))
    }

    fn path(&self, object: &FleetObject) -> Result<PathBuf, String> {
        let name = Name::new(object.source.as_slice()).map_err(|invalid| invalid.to_string())?;
        // A file that is planned alone has no name below itself.
        Ok(if name.is_root() { self.from.clone() } else { self.from.join(name.as_path()) })
    }

    /// Whether the object that has the key is an upload of this file.
    fn is_there(
        &self,
        run: &MoverRun<'_>,
        caller: &mut Caller<'_>,
        job: &Job,
    ) -> Result<Option<bool>, StoreError> {
        let Source::File(path) = &job.source else { return Ok(None) };
        let local = |error: std::io::Error| {
            StoreError::Local(format!("{}: {}", path.display(), weir_units::plain(&error)))
        };
        let Some(there) = self.to.look(caller, &job.key)? else { return Ok(None) };
        let file = File::open(path).map_err(local)?;
        let data = file.metadata().map_err(local)?;
        if there.listed.size != data.len() {
            return Ok(Some(false));
        }
        if there.mtime.is_some() && there.mtime == instant::at(data.mtime(), data.mtime_nsec() as u32) {
            return Ok(Some(true));
        }
        let Some((algorithm, value)) = content::digest_of(&there) else { return Ok(Some(false)) };
        let own = content::digest(&file, algorithm, data.len(), &mut |_: &[u8]| run.desk.goes_on(run.stop));
        match own.map_err(local)? {
            Some(own) => Ok(Some(own == value)),
            None => Err(StoreError::Http(GetError::Interrupted)),
        }
    }
}

/// The file has the digest that the manifest names, if it names one.
fn verified(run: &MoverRun<'_>, task: &FleetTask, job: Job) -> Result<Job, TaskEnd> {
    let (Some(digest), Source::File(path)) = (&task.object.digest, &job.source) else { return Ok(job) };
    let expected = expectation(digest)?.expected;
    let cannot = |error: std::io::Error| {
        let reason = format!("cannot read {}: {}", path.display(), weir_units::plain(&error));
        TaskEnd::Failed(class_of_io(&error), reason)
    };
    let file = File::open(path).map_err(cannot)?;
    let size = file.metadata().map_err(cannot)?.len();
    let hears = &mut |_: &[u8]| run.desk.goes_on(run.stop);
    let found = content::digest(&file, expected.algorithm(), size, hears);
    // Of a run that was ended nothing is told.
    if found.map_err(cannot)?.is_some_and(|found| expected.matches(&found)) {
        return Ok(job);
    }
    let (name, hex) = (expected.algorithm().name(), expected.hex());
    let reason =
        format!("{name} of {} is not {hex}, which the manifest says; nothing is sent", path.display());
    Err(TaskEnd::Failed(FailureClass::Digest, reason))
}

impl Mover for Send<'_> {
    fn at_once(&self) -> usize {
        LOT
    }

    fn run(&self, run: &MoverRun<'_>, observer: &mut dyn Observer) {
        let clock = StageClock::new(Instant::now());
        let mut caller = Caller::new(CallerSetup {
            http: self.http,
            clock: &clock,
            on_socket: &|_| (),
            stop: run.stop,
            timeout: TIMEOUT,
            connect_timeout: TIMEOUT,
            max_wait: MAX_WAIT,
            retries: RETRIES,
        });
        while let Some(lot) = self.lot(run, &mut caller) {
            let is_there = &mut |caller: &mut Caller<'_>, job: &Job| self.is_there(run, caller, job);
            self.to.send(run, &mut caller, lot, is_there, observer);
        }
    }
}
