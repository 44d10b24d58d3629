//! From another store or a web server into a store: objects come through here, part by part, by the engine of
//! uploads, and nothing of them stays.
//!
//! What the source has is looked at before and held against the manifest, and every answer must be of that
//! version. The object is stored under the condition that nothing has its key. Where something has, it is
//! held against the source: by the digests that both keep, by the version that an earlier worker wrote down
//! beside it, or by the source's bytes, read once more. What cannot be proved to be equal is kept.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant, UNIX_EPOCH};

use url::Url;
use weir_codec::digest::Algorithm;
use weir_codec::hex;
use weir_get::http::connection::MAX_WAIT;
use weir_get::http::exchange::Http;
use weir_get::job::{ClosedInterval, Observer, Pinned, Progress};
use weir_model::limit::Limit;
use weir_observe::stage_clock::StageClock;
use weir_store::StoreError;
use weir_store::caller::{Caller, CallerSetup};
use weir_store::listing::Looked as Listing;
use weir_store::tree::content;
use weir_store::tree::through::Through as Passing;
use weir_store::upload::Sum;
use weir_store::upload::elsewhere::Sides;
use weir_store::upload::job::{Job, Source};

use super::across::StoreEnd;
use super::desk::{FleetTask, NextTask, TaskEnd, TaskShare};
use super::fetch::{expectation, url_below};
use super::send::{Lot, RETRIES, SendManner, Sender, TIMEOUT};
use super::why::class_of_store;
use super::{Mover, MoverRun};
use crate::class::FailureClass;
use crate::object::FleetObject;

/// Looks at once: 20 ms for each, so they are 800 objects a second.
const LOOKING: usize = 16;

/// Objects that wait for a lot of the engine: looks go ahead of it.
const AHEAD: usize = 128;

/// Objects of a lot: those that are held by the engine and those ahead are what others cannot be given.
const LOT: usize = 256;

/// How long an object is waited for.
const POLL: Duration = Duration::from_millis(50);

/// From its first object on a lot waits so long for more.
const GATHERING: Duration = Duration::from_millis(20);

/// What an object of a store has beside it when it came from elsewhere: the version of its source.
const STAMP: &str = "weirsource";

/// Of the lanes' time the share from which on one side holds the copy.
const HOLDS: f64 = 0.6;

/// A mark of the last second counts half.
const HALF: f64 = 1.0;

/// Where objects come from.
pub enum ThroughSource {
    /// Below a folder of a web server.
    Web(Url),
    /// A prefix of a bucket of another store.
    Store(StoreEnd),
}

/// A mover into a store.
pub struct Through<'a> {
    from: ThroughSource,
    to: Sender<'a>,
    /// The ways to both, which may be two services' that are asked by two credentials.
    source: &'a Http,
    target: &'a Http,
}

/// An object that can be sent, or how it ended.
type Looked = Result<Job, TaskEnd>;

impl<'a> Through<'a> {
    /// From one into the other, each with the way to it.
    pub fn new(
        (from, source): (ThroughSource, &'a Http),
        (to, target): (StoreEnd, &'a Http),
        manner: SendManner,
    ) -> Through<'a> {
        Through { from, to: Sender::new((to, target), Some(source), manner), source, target }
    }

    /// Looks at the object of a task; `None`: the run was ended.
    fn look(
        &self,
        run: &MoverRun<'_>,
        (source, target): (&mut Caller<'_>, &mut Caller<'_>),
        sides: &Arc<Sides>,
        task: &FleetTask,
    ) -> Option<Looked> {
        let looked = match &task.share {
            TaskShare::Abort(token) => Err(self.to.abort(target, token, &task.object)),
            _ => self.looked(source, sides, task).and_then(|whole| {
                let is_same = |there: &Listing| is_known(there, &whole);
                self.to.share(run, target, task, whole.clone(), (&is_same, 0))
            }),
        };
        match looked {
            // What has ended well has ended, whatever ends the run.
            Err(TaskEnd::Failed(..)) if run.stop.load(Relaxed) => None,
            other => Some(other),
        }
    }

    fn of_store(
        &self,
        caller: &mut Caller<'_>,
        from: &StoreEnd,
        object: &FleetObject,
        sides: &Arc<Sides>,
    ) -> Result<Passing, TaskEnd> {
        let Ok(rest) = std::str::from_utf8(&object.source) else {
            let reason = format!("cannot copy '{}': its key is no UTF-8", object.source_text());
            return Err(TaskEnd::Failed(FailureClass::Invalid, reason));
        };
        let key = format!("{}{rest}", from.prefix);
        let shown = format!("{}{key}", from.shown);
        let failed = |error: StoreError| TaskEnd::Failed(class_of_store(&error), format!("{shown}: {error}"));
        let looked = from.store.lists().look(caller, &key, None, object.size).map_err(failed)?;
        let Some(looked) = looked else { return Err(missing(&shown)) };
        let listed = &looked.listed;
        let pinned = Pinned { size: object.size, etag: object.etag.clone(), modified: None, is_exact: false };
        is_meant(&shown, pinned.differs(Some(listed.size), listed.etag.as_deref(), None))?;
        has_a_tag(&shown, object, listed.etag.as_deref())?;
        let ends = (&*from.store, self.to.fields());
        Passing::fitted(caller, ends, shown.clone(), looked, None, sides).map_err(failed)
    }

    fn looked(&self, caller: &mut Caller<'_>, sides: &Arc<Sides>, task: &FleetTask) -> Looked {
        let object = &*task.object;
        let key = self.to.key(object).map_err(|why| {
            let reason = format!("cannot copy '{}': {why}", object.source_text().escape_debug());
            TaskEnd::Failed(FailureClass::Name, reason)
        })?;
        let mut passing = match &self.from {
            ThroughSource::Web(base) => of_web(caller, base, object, &key, sides)?,
            ThroughSource::Store(from) => self.of_store(caller, from, object, sides)?,
        };
        if let Some(digest) = &object.digest {
            passing.must_have(&expectation(digest)?.expected, "the manifest");
        }
        let Passing { source, mut attributes, named } = passing;
        if task.share != TaskShare::Whole && named.is_none() {
            return Err(unnamed(&source.shown));
        }
        attributes.metadata.retain(|(name, _)| name != STAMP);
        let stamp = named.map(|version| stamp(&source.shown, &version, source.size));
        attributes.metadata.extend(stamp.map(|stamp| (STAMP.to_owned(), stamp)));
        let size = Some(source.size);
        Ok(Job { source: Source::Elsewhere(Arc::new(source)), key, size, attributes, share: None })
    }

    /// Whether what has the key is the source's object.
    fn is_there(
        &self,
        run: &MoverRun<'_>,
        (reads, asks): (&mut Caller<'_>, &mut Caller<'_>),
        job: &Job,
    ) -> Result<Option<bool>, StoreError> {
        let Source::Elsewhere(source) = &job.source else { return Ok(None) };
        let Some(there) = self.to.look(asks, &job.key)? else { return Ok(None) };
        if there.listed.size != source.size {
            return Ok(Some(false));
        }
        let kept = content::digest_of(&there);
        if let (Some((algorithm, value)), Some(own)) = (&kept, &source.kept)
            && *algorithm == own.algorithm
        {
            return Ok(Some(*value == own.value));
        }
        if is_stamped(&there, job) {
            return Ok(Some(true));
        }
        let Some((algorithm, value)) = kept else { return Ok(Some(false)) };
        Ok(Some(source.digest(reads, algorithm, &|| run.desk.stir())? == value))
    }

    /// Looks at what the desk gives until there is no more.
    fn look_ahead(&self, run: &MoverRun<'_>, sides: &Arc<Sides>, to: &SyncSender<(FleetTask, Job)>) {
        let clock = StageClock::new(Instant::now());
        let mut source = Caller::new(setup(run, (self.source, &clock))).follows();
        let mut target = Caller::new(setup(run, (self.target, &clock)));
        while !run.stop.load(Relaxed) {
            let task = match run.desk.next(POLL) {
                NextTask::Task(task) => task,
                NextTask::NotYet => continue,
                NextTask::End => return,
            };
            match self.look(run, (&mut source, &mut target), sides, &task) {
                None => run.desk.give_back(&task),
                Some(Err(end)) => run.desk.end(&task, end, None),
                Some(Ok(job)) => {
                    if let Err(back) = to.send((task, job)) {
                        run.desk.give_back(&back.0.0);
                    }
                }
            }
        }
    }

    /// Sends what was looked at, one lot after another.
    fn send(
        &self,
        run: &MoverRun<'_>,
        sides: &Arc<Sides>,
        from: &Receiver<(FleetTask, Job)>,
        observer: &mut dyn Observer,
    ) {
        let clock = StageClock::new(Instant::now());
        let mut source = Caller::new(setup(run, (self.source, &clock))).follows();
        let mut target = Caller::new(setup(run, (self.target, &clock)));
        let mut observer = SideObserver::new(sides, observer);
        while let Some(lot) = lot(from, run) {
            let is_there =
                &mut |asks: &mut Caller<'_>, job: &Job| self.is_there(run, (&mut source, asks), job);
            self.to.send(run, &mut target, lot, is_there, &mut observer);
        }
        // What was looked at and is not sent in this run.
        from.iter().for_each(|(task, _)| run.desk.give_back(&task));
    }
}

/// How an end is asked, by the way to it.
fn setup<'a>(run: &'a MoverRun<'_>, (http, clock): (&'a Http, &'a StageClock)) -> CallerSetup<'a> {
    CallerSetup {
        http,
        clock,
        on_socket: &|_| (),
        stop: run.stop,
        timeout: TIMEOUT,
        connect_timeout: TIMEOUT,
        max_wait: MAX_WAIT,
        retries: RETRIES,
    }
}

/// The objects that are next; `None`: there are no more, or the run is to end.
fn lot(from: &Receiver<(FleetTask, Job)>, run: &MoverRun<'_>) -> Option<Lot> {
    let mut lot = Vec::new();
    let mut until = Instant::now() + POLL;
    while lot.len() < LOT {
        if run.stop.load(Relaxed) {
            lot.iter().for_each(|(task, _)| run.desk.give_back(task));
            return None;
        }
        match from.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(looked) => {
                if lot.is_empty() {
                    until = Instant::now() + GATHERING;
                }
                lot.push(looked);
            }
            Err(RecvTimeoutError::Timeout) if lot.is_empty() => until = Instant::now() + POLL,
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => return (!lot.is_empty()).then_some(lot),
        }
    }
    Some(lot)
}

fn of_web(
    caller: &mut Caller<'_>,
    base: &Url,
    object: &FleetObject,
    key: &str,
    sides: &Arc<Sides>,
) -> Result<Passing, TaskEnd> {
    let url = url_below(base, object)?;
    let shown = weir_get::object::shown(&url);
    let found = Passing::of_web(caller, url, key, sides)
        .map_err(|error| TaskEnd::Failed(class_of_store(&error), error.to_string()))?;
    let Some((passing, facts)) = found else { return Err(missing(&shown)) };
    let modified = object.mtime.and_then(|nanos| u64::try_from(nanos).ok());
    let modified = modified.map(|nanos| UNIX_EPOCH + Duration::from_nanos(nanos));
    let pinned = Pinned { size: object.size, etag: object.etag.clone(), modified, is_exact: false };
    let differs = pinned.differs(Some(passing.source.size), facts.etag.as_deref(), facts.modified);
    is_meant(&shown, differs)?;
    has_a_tag(&shown, object, facts.etag.as_deref())?;
    Ok(passing)
}

/// What had a tag when it was planned, and has none now, was stored in another way meanwhile.
fn has_a_tag(shown: &str, object: &FleetObject, etag: Option<&str>) -> Result<(), TaskEnd> {
    let is_lost = object.etag.is_some() && etag.is_none();
    is_meant(shown, is_lost.then(|| "it has no ETag any more".to_owned()))
}

/// Several workers send it, and nothing says that all read the same.
fn unnamed(shown: &str) -> TaskEnd {
    let reason = format!(
        "{shown} is planned for several workers, and its store names no version of it now; make a new plan for it"
    );
    TaskEnd::Failed(FailureClass::Changed, reason)
}

fn missing(shown: &str) -> TaskEnd {
    TaskEnd::Failed(FailureClass::Missing, format!("{shown} is not there"))
}

fn is_meant(shown: &str, differs: Option<String>) -> Result<(), TaskEnd> {
    let Some(detail) = differs else { return Ok(()) };
    let reason = format!("{shown} is not the one of the manifest: {detail}; make a new plan for it");
    Err(TaskEnd::Failed(FailureClass::Changed, reason))
}

/// The source and its version in letters that every store keeps, whatever they are called there.
fn stamp(shown: &str, version: &str, size: u64) -> String {
    let all = format!("{shown}\n{version}\n{size}");
    hex::encode(&Algorithm::SHA256.of(all.as_bytes())[..16])
}

/// What is there is the source's object, by what both say of it.
fn is_known(there: &Listing, job: &Job) -> bool {
    let Source::Elsewhere(source) = &job.source else { return false };
    let is_kept = || {
        let kept = content::digest_of(there).map(|(algorithm, value)| Sum { algorithm, value });
        kept.is_some() && kept == source.kept
    };
    Some(there.listed.size) == job.size && (is_stamped(there, job) || is_kept())
}

/// The version of the source is written down beside it.
fn is_stamped(there: &Listing, job: &Job) -> bool {
    let written = stamp_of(&there.metadata);
    written.is_some() && written == stamp_of(&job.attributes.metadata)
}

fn stamp_of(metadata: &[(String, String)]) -> Option<&str> {
    metadata.iter().find(|(name, _)| name == STAMP).map(|(_, text)| text.as_str())
}

/// Has the judge's word, and that of the time that lanes spend on either side: an engine that sees its
/// uploads alone takes a slow source for idleness.
struct SideObserver<'a> {
    sides: &'a Sides,
    looks_on: &'a mut dyn Observer,
    /// Lanes that were seen at work on the source and on the target, of late.
    seen: (f64, f64),
}

impl<'a> SideObserver<'a> {
    fn new(sides: &'a Sides, looks_on: &'a mut dyn Observer) -> SideObserver<'a> {
        SideObserver { sides, looks_on, seen: (0.0, 0.0) }
    }

    /// What held in an interval of `span`, of which the engine says `limit`, where so many lanes fetch and
    /// send at its end.
    fn limit(&mut self, span: Duration, limit: Limit, (fetching, sending): (u32, u32)) -> Limit {
        let kept = 0.5_f64.powf(span.as_secs_f64() / HALF);
        self.seen.0 = self.seen.0 * kept + f64::from(fetching);
        self.seen.1 = self.seen.1 * kept + f64::from(sending);
        let all = self.seen.0 + self.seen.1;
        if all > 0.0 && self.seen.0 / all >= HOLDS { Limit::Upstream } else { limit }
    }
}

impl Observer for SideObserver<'_> {
    fn progress(&mut self, now: &Progress) {
        self.looks_on.progress(now);
    }

    fn interval(&mut self, seen: &ClosedInterval<'_>) {
        let limit = self.limit(seen.interval.span, seen.limit, self.sides.at_work());
        self.looks_on.interval(&ClosedInterval {
            interval: seen.interval,
            limit,
            evidence: seen.evidence,
            under_way: seen.under_way,
        });
    }
}

impl Mover for Through<'_> {
    fn at_once(&self) -> usize {
        LOT + AHEAD
    }

    fn run(&self, run: &MoverRun<'_>, observer: &mut dyn Observer) {
        let (to, from) = sync_channel(AHEAD);
        let sides = &Arc::new(Sides::default());
        std::thread::scope(|scope| {
            for _ in 0..LOOKING {
                let to = to.clone();
                let thread = std::thread::Builder::new().name("look".to_owned());
                let looking = thread.spawn_scoped(scope, move || self.look_ahead(run, sides, &to));
                if let Err(error) = looking {
                    tracing::warn!("cannot start a thread: {error}");
                    break;
                }
            }
            drop(to);
            self.send(run, sides, &from, observer);
        });
        sides.unkept().notes().iter().for_each(|note| tracing::warn!("{note}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Observer for Nobody {
        fn progress(&mut self, _: &Progress) {}
    }

    #[test]
    fn the_side_that_lanes_wait_for_holds() {
        let (sides, mut nobody) = (Sides::default(), Nobody);
        let mut observer = SideObserver::new(&sides, &mut nobody);
        let mut limit = |at_work| observer.limit(Duration::from_millis(100), Limit::Application, at_work);
        assert_eq!(limit((0, 0)), Limit::Application, "the engine has the word where nobody is at work");
        assert_eq!([limit((4, 0)), limit((3, 1))], [Limit::Upstream; 2]);
        let later: Vec<Limit> = (0..20).map(|_| limit((1, 3))).collect();
        assert_eq!(later[19], Limit::Application, "a target that is slow is what the engine sees: {later:?}");
    }

    #[test]
    fn a_stamp_is_of_a_source_and_its_version() {
        let one = stamp("s3://b/k", "\"a\"", 5);
        assert_eq!((one.len(), &one), (32, &stamp("s3://b/k", "\"a\"", 5)));
        for other in [("s3://b/j", "\"a\"", 5), ("s3://b/k", "\"b\"", 5), ("s3://b/k", "\"a\"", 6)] {
            assert_ne!(one, stamp(other.0, other.1, other.2));
        }
    }
}
