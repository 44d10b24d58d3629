//! The run: starts lanes and lets the watch look after them.
//!
//! The thread that calls [`run`] is the watch.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering::Relaxed};
use std::thread::Scope;
use std::time::Instant;

use parking_lot::Mutex;
use weir_codec::digest::Algorithm;
use weir_get::http::exchange::Http;
use weir_get::job::Observer;
use weir_observe::stage_clock::StageClock;
use weir_units::counted;
use weir_units::limiter::Limiter;
use weir_units::threads;

use super::job::{Check, Job, MAX_SMALL, Options, RunReport, Source};
use super::journal::{self, Journal, JournalError};
use super::lane::{self, LaneState};
use super::plan::SINGLE;
use super::proof::refuses_sum;
use super::queue::Queue;
use super::transfer::Transfer;
use super::watch::Watch;
use super::{Object, Upload, Uploads};
use crate::caller::{Caller, CallerSetup};
use crate::error::StoreError;

/// Lanes on a large object to begin with: each waits for the answer to a part before it sends the next, and
/// while it reads and digests that, so one lane leaves a path idle for a part of the time.
pub const FIRST_LANES: u32 = 4;

/// Where objects go.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The requests that fill it.
    pub uploads: &'a dyn Uploads,
    /// The address of an object, by which a journal knows it again.
    pub name: &'a (dyn Fn(&str) -> String + Sync),
    /// What a person calls it.
    pub shown: &'a (dyn Fn(&str) -> String + Sync),
    /// How another store is asked from which objects come; `None`: none is, or as the target is.
    pub source: Option<&'a Http>,
}

/// What all threads of a run share.
pub(super) struct Run<'a> {
    pub(super) jobs: &'a [Job],
    pub(super) options: &'a Options,
    pub(super) http: &'a Http,
    /// For objects that come from another store.
    pub(super) source_http: &'a Http,
    pub(super) uploads: &'a dyn Uploads,
    pub(super) name: &'a (dyn Fn(&str) -> String + Sync),
    pub(super) shown: &'a (dyn Fn(&str) -> String + Sync),
    /// Set from outside to end the run.
    pub(super) stop: &'a Arc<AtomicBool>,
    pub(super) queue: Queue,
    /// `--limit-rate`.
    pub(super) limiter: Option<Arc<Limiter>>,
    /// Bytes sent in this run, those under way included.
    pub(super) moved: AtomicI64,
    algorithm: Mutex<Option<Algorithm>>,
    throttled: Mutex<(u64, Option<String>)>,
    lanes: Mutex<Vec<Arc<LaneState>>>,
    next_lane: AtomicU32,
}

impl<'a> Run<'a> {
    /// The object of a job.
    pub(super) fn object(&self, job: usize) -> Object<'a> {
        let Job { key, attributes, .. } = &self.jobs[job];
        Object { key, attributes, condition: &self.options.condition }
    }
}

impl Run<'_> {
    /// The run shall end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// What holds all its lanes at this moment: bytes a second.
    pub(super) fn rate_cap(&self) -> Option<f64> {
        self.limiter.as_ref()?.rate().map(|rate| rate.0)
    }

    /// What contents are checked by.
    pub(super) fn algorithm(&self) -> Option<Algorithm> {
        *self.algorithm.lock()
    }

    /// The store does not take the digests that were `tried`, and the user has not asked for them: others are
    /// used from now on.
    pub(super) fn weakens(&self, tried: Option<Algorithm>, error: &StoreError) -> bool {
        if self.options.check != Check::Preferred || tried.is_none() || !refuses_sum(error) {
            return false;
        }
        let mut algorithm = self.algorithm.lock();
        if *algorithm == tried {
            let mut others = self.uploads.algorithms().iter().skip_while(|other| Some(**other) != tried);
            *algorithm = others.nth(1).copied().filter(|next| *next == Algorithm::MD5);
            let now = algorithm.map_or("none", Algorithm::name);
            tracing::info!("{error}; checksums from now on: {now}");
        }
        true
    }

    /// Bytes have gone out, or have to go out again (negative).
    pub(super) fn count_moved(&self, transfer: Option<&Transfer>, bytes: i64) {
        self.moved.fetch_add(bytes, Relaxed);
        if let Some(transfer) = transfer {
            transfer.moved.fetch_add(bytes, Relaxed);
        }
    }

    /// The store has asked for fewer requests, in these words.
    pub(super) fn throttled(&self, times: u64, words: Option<&str>) {
        let mut throttled = self.throttled.lock();
        throttled.0 += times;
        throttled.1 = words.map(str::to_owned).or(throttled.1.take());
    }

    /// What there is to say of that.
    pub(super) fn throttle_note(&self) -> Option<String> {
        let (times, words) = &*self.throttled.lock();
        let words = words.as_ref().map_or_else(String::new, |words| format!(": {words}"));
        (*times > 0).then(|| format!("the store asked {times} times for fewer requests{words}"))
    }

    pub(super) fn lanes(&self) -> Vec<Arc<LaneState>> {
        self.lanes.lock().clone()
    }

    /// Lanes that have ended and were seen to.
    pub(super) fn forget_lanes(&self, over: &[u32]) {
        self.lanes.lock().retain(|lane| !over.contains(&lane.id));
    }
}

/// Sends `jobs` to `target`. Returns when all have ended or `stop` was set.
pub fn run(
    target: Target<'_>,
    jobs: &[Job],
    options: &Options,
    http: &Http,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> RunReport {
    let bounds = target.uploads.bounds();
    let single = if bounds.parts < 2 { u64::MAX } else { options.part_size.unwrap_or(SINGLE) };
    let large: Vec<bool> =
        jobs.iter().map(|job| job.share.is_some() || job.size.is_none_or(|size| size > single)).collect();
    let small = options.files_at_once.unwrap_or(MAX_SMALL);
    let bulk = options.lanes.unwrap_or(FIRST_LANES);
    let algorithm = match options.check {
        Check::Preferred => target.uploads.algorithms().first().copied(),
        Check::Only(algorithm) => Some(algorithm),
        Check::Nothing => None,
    };
    let run = Run {
        jobs,
        options,
        http,
        source_http: target.source.unwrap_or(http),
        uploads: target.uploads,
        name: target.name,
        shown: target.shown,
        stop,
        queue: Queue::new(large, small, bulk),
        limiter: options.limiter(),
        moved: AtomicI64::new(0),
        algorithm: Mutex::new(algorithm),
        throttled: Mutex::default(),
        lanes: Mutex::default(),
        next_lane: AtomicU32::new(0),
    };
    let mut watch = Watch::new(&run, Instant::now());
    std::thread::scope(|scope| {
        let run = &run;
        watch.until_over(observer, &|| {
            while run.queue.admit() {
                spawn_lane(run, scope);
            }
        });
    });
    watch.finish()
}

fn spawn_lane<'scope>(run: &'scope Run<'_>, scope: &'scope Scope<'scope, '_>) {
    let state = Arc::new(LaneState::new(run.next_lane.fetch_add(1, Relaxed)));
    let name = format!("lane {}", state.id);
    let body = {
        let state = Arc::clone(&state);
        // A lane that fails by a fault of ours must not leave the others waiting for it.
        move || {
            if catch_unwind(AssertUnwindSafe(|| lane::run(run, &state))).is_err() {
                state.ended.store(true, Relaxed);
                run.queue.stop();
            }
            run.queue.dismissed();
        }
    };
    match std::thread::Builder::new().name(name).stack_size(512 << 10).spawn_scoped(scope, body) {
        Ok(_) => run.lanes.lock().push(state),
        Err(why) => {
            // What refuses one refuses the next.
            if run.queue.refusal().is_none() {
                tracing::warn!("fewer connections than wanted: {}", threads::words(&why));
            }
            run.queue.not_started(&why);
        }
    }
}

/// Takes away all uploads of a job's key that nobody has ended. Returns how many were removed. Where a store
/// does not list them, or not for this user, it is the one that this user's journal names. Where it drops
/// them itself none is removed, and only what is known of them here goes.
pub fn abort(
    target: Target<'_>,
    job: &Job,
    options: &Options,
    http: &Http,
    stop: &Arc<AtomicBool>,
) -> Result<usize, StoreError> {
    let clock = StageClock::new(Instant::now());
    let mut caller = Caller::new(CallerSetup {
        http,
        clock: &clock,
        on_socket: &|_| {},
        stop,
        timeout: options.timeout,
        connect_timeout: options.connect_timeout,
        max_wait: options.max_wait,
        retries: options.retries,
    });
    let source = match &job.source {
        Source::File(path) => Some(path.canonicalize().unwrap_or_else(|_| path.clone())),
        Source::Stdin => Some(PathBuf::from(journal::STDIN)),
        Source::Elsewhere(_) => None,
    };
    let name = (target.name)(&job.key);
    let place = options.journals.as_ref().zip(source.as_ref());
    let journal = place.map(|(folder, source)| Journal::open(folder, source, &name)).transpose();
    let journal = match journal {
        Err(error @ JournalError::Busy) => return Err(StoreError::Source(error.to_string())),
        other => other.ok().flatten(),
    };
    let own = journal.as_ref().and_then(|(_, said)| said.as_ref()?.id.clone());
    let mut ids: Vec<String> = match target.uploads.pending(&mut caller, &job.key) {
        Ok(pending) => pending.into_iter().map(|one| one.id).collect(),
        Err(error) if own.is_some() && error.is_withheld() => Vec::new(),
        Err(error) => return Err(error),
    };
    if let Some(own) = own.filter(|own| !ids.contains(own)) {
        ids.push(own);
    }
    let drops = target.uploads.drops();
    if let (Some(drops), false) = (drops, ids.is_empty()) {
        let count = counted(ids.len() as u64, "unfinished upload");
        tracing::warn!("{count} of {} cannot be removed from here: {drops}", (target.shown)(&job.key));
    }
    let object = Object { key: &job.key, attributes: &job.attributes, condition: &options.condition };
    let mut removed = 0;
    for id in ids.iter().filter(|_| drops.is_none()) {
        match target.uploads.abort(&mut caller, &Upload { object, id }) {
            Ok(()) => removed += 1,
            Err(error) if error.is_of_no_upload() => {}
            Err(error) => return Err(error),
        }
    }
    journal.into_iter().for_each(|(journal, _)| journal.remove());
    Ok(removed)
}
