//! The run: starts lanes, lets the watch look after them, keeps the journals.
//!
//! The thread that calls [`run`] is the watch. Journals are kept by a thread of their own, because on a slow
//! disk even a small write can block.

mod lane_memory;
mod watch;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::Scope;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use self::watch::Watch;
use crate::download::{Moment, Rules};
use crate::error::GetError;
use crate::http::exchange::Http;
use crate::job::{Job, MAX_SMALL_LANES, Observer, Options, Output, RunReport};
use crate::lane::{self, LaneState};
use crate::object;
use crate::pool::{self, Pool};
use crate::sink::folder::{Folder, Folders, Target};
use crate::sink::part_file::{self, Home};
use crate::transfer::Transfer;
use weir_units::limiter::Limiter;

/// Between two journals: what a kill can cost is this much of the transfer.
const JOURNAL: Duration = Duration::from_millis(250);

/// Between two journals that wait for the disk: what a power cut can cost.
const DURABLE: Duration = Duration::from_secs(10);

/// Of many files, bulk objects received at once to begin with: while one lane ends its file (the last write,
/// the rename) and waits for the first byte of the next, the other carries.
const BULK_AT_ONCE: u32 = 2;

/// What all threads of a run share.
pub struct Run<'a> {
    /// What to fetch.
    pub jobs: &'a [Job],
    /// How.
    pub options: &'a Options,
    /// The way to the network.
    pub http: &'a Http,
    /// Set from outside to end the run.
    pub stop: &'a Arc<AtomicBool>,
    /// Who does what.
    pub pool: Pool,
    /// `--limit-rate`.
    pub limiter: Option<Limiter>,
    /// Many objects: HTTP/2 pays.
    pub many: bool,
    lanes: Mutex<Vec<Arc<LaneState>>>,
    names: Mutex<HashMap<PathBuf, usize>>,
    next_lane: AtomicU32,
    fresh_folder: Option<PathBuf>,
    folders: Folders,
    /// `--temp-dir`.
    temp: Option<Arc<Folder>>,
}

impl Run<'_> {
    /// The run shall end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// The folder of `target` held nothing when the run began, so there is no need to look at each name in
    /// it: jobs have names of their own.
    pub(crate) fn is_fresh_folder(&self, target: &Path) -> bool {
        self.fresh_folder.is_some() && target.parent() == self.fresh_folder.as_deref()
    }

    /// The name at the end of `path`, in its folder, which stays open.
    pub fn target(&self, path: &Path) -> Result<Target, GetError> {
        self.folders.target(path).map_err(|source| GetError::Local {
            action: "write",
            path: path.to_owned(),
            source,
            kept: None,
        })
    }

    /// Where `target` grows.
    pub(crate) fn home_of(&self, target: &Target) -> Result<Home, GetError> {
        Home::of(target, self.temp.as_ref()).map_err(|source| GetError::Local {
            action: "open a folder for the part of",
            path: target.path().to_owned(),
            source,
            kept: None,
        })
    }

    /// Two jobs of a run must not become one file, even when only the server's names show it, nor one the
    /// part or the journal of another.
    pub(crate) fn take_name(&self, target: &Path, job: usize) -> Result<(), GetError> {
        let mut names = self.names.lock();
        let taken = |name: &Path| names.get(name).copied().filter(|owner| *owner != job);
        if let Some(owner) = taken(target) {
            return Err(GetError::Refused(format!(
                "{} is already taken by {}; name it in a list, URL<TAB>NAME a line",
                target.display(),
                object::shown(&self.jobs[owner].url)
            )));
        }
        let is_taken = |name: &Path| taken(name).is_some();
        let whole = part_file::whole_of(target).filter(|whole| is_taken(whole));
        let part = part_file::all_names(target).into_iter().find(|name| is_taken(name));
        let pair = whole.map(|whole| (target, whole)).or(part.as_deref().map(|part| (part, target)));
        if let Some((part, whole)) = pair {
            return Err(GetError::Refused(format!(
                "{} is what {} is called while it grows; name one of them in a list, URL<TAB>NAME a line",
                part.display(),
                whole.display()
            )));
        }
        names.insert(target.to_owned(), job);
        Ok(())
    }

    /// `target` for `job`, or with a number behind its name where another job of the run has that name.
    pub(crate) fn free_name(&self, target: PathBuf, job: usize) -> PathBuf {
        let mut names = self.names.lock();
        let mut numbered = target.clone();
        for number in 1..=self.jobs.len() {
            if names.get(&numbered).is_none_or(|owner| *owner == job) {
                break;
            }
            numbered = weir_http::filename::numbered(&target, number);
        }
        names.insert(numbered.clone(), job);
        numbered
    }

    /// An event of a download, now.
    pub fn moment(&self) -> Moment {
        Moment {
            rules: Rules::of(self.options),
            time: Instant::now(),
            chance: fastrand::f64(),
            is_stopping: self.is_stopped(),
        }
    }

    /// Wakes the other lanes at work on `transfer`, which has ended.
    pub(crate) fn cut_lanes_of(&self, transfer: &Transfer, but: u32) {
        let ledger = transfer.ledger();
        for lane in self.lanes().iter().filter(|lane| lane.id != but && ledger.claim(lane.id).is_some()) {
            lane.kick.store(true, Relaxed);
            lane.cut();
        }
    }

    fn lanes(&self) -> Vec<Arc<LaneState>> {
        self.lanes.lock().clone()
    }
}

/// Fetches `jobs`. Returns when all have ended or `stop` was set.
pub fn run(
    jobs: &[Job],
    options: &Options,
    http: &Http,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> RunReport {
    let start = Instant::now();
    let many = jobs.len() >= pool::MANY;
    let bulk_at_once = if many && options.lanes.is_none() { BULK_AT_ONCE } else { 1 };
    let files_at_once = options.files_at_once.unwrap_or(bulk_at_once);
    let lanes = options.lanes.unwrap_or(1);
    let bulk = (files_at_once * lanes).min(64);
    let small = options.files_at_once.or(options.lanes).unwrap_or(MAX_SMALL_LANES);
    let fixed = options.files_at_once.is_some() || options.lanes.is_some();
    let run = Run {
        jobs,
        options,
        http,
        stop,
        pool: Pool::new(jobs.len(), small.min(jobs.len() as u32).max(1), fixed, bulk).with_hosts(hosts(jobs)),
        limiter: options.rate_cap.map(Limiter::new),
        many,
        lanes: Mutex::default(),
        names: Mutex::default(),
        next_lane: AtomicU32::new(0),
        fresh_folder: fresh_folder(jobs),
        folders: Folders::default(),
        temp: options.temp_dir.as_ref().and_then(|path| Folder::open(path).ok()).map(Arc::new),
    };
    let over = AtomicBool::new(false);
    let mut watch = Watch::new(&run, start);
    std::thread::scope(|scope| {
        let run = &run;
        let journals = std::thread::Builder::new()
            .name("journal".to_owned())
            .stack_size(256 << 10)
            .spawn_scoped(scope, || keep_journals(run, &over));
        while run.pool.admit() {
            spawn_lane(run, scope);
        }
        watch.until_over(observer, &|| {
            while run.pool.admit() {
                spawn_lane(run, scope);
            }
        });
        over.store(true, Relaxed);
        if let Ok(journals) = journals {
            journals.thread().unpark();
        }
    });
    watch.finish()
}

fn spawn_lane<'scope>(run: &'scope Run<'_>, scope: &'scope Scope<'scope, '_>) {
    let state = Arc::new(LaneState::new(run.next_lane.fetch_add(1, Relaxed)));
    run.lanes.lock().push(Arc::clone(&state));
    let name = format!("lane {}", state.id);
    let body = {
        let state = Arc::clone(&state);
        // A lane that fails by a fault of ours must not leave the others waiting for it.
        move || {
            if catch_unwind(AssertUnwindSafe(|| lane::run(run, &state))).is_err() {
                state.ended.store(true, Relaxed);
                run.pool.fault();
            }
        }
    };
    if std::thread::Builder::new().name(name).stack_size(512 << 10).spawn_scoped(scope, body).is_err() {
        state.ended.store(true, Relaxed);
        run.pool.dismissed();
    }
}

fn keep_journals(run: &Run<'_>, over: &AtomicBool) {
    let mut last_durable = Instant::now();
    while !over.load(Relaxed) {
        std::thread::park_timeout(JOURNAL);
        let durable = last_durable.elapsed() >= DURABLE;
        for transfer in run.pool.active() {
            if let Err(error) = transfer.journal(durable) {
                tracing::debug!("{error:#}");
            }
        }
        if durable {
            last_durable = Instant::now();
        }
    }
}

/// The hosts of `jobs`, each by the index of its first job.
fn hosts(jobs: &[Job]) -> Vec<u32> {
    let mut first = HashMap::new();
    let mut hosts = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.iter().enumerate() {
        let origin = (job.url.host_str(), job.url.port_or_known_default());
        hosts.push(*first.entry(origin).or_insert(index as u32));
    }
    hosts
}

/// The folder that all of `jobs` go to, if it is empty.
fn fresh_folder(jobs: &[Job]) -> Option<PathBuf> {
    let Output::Folder(folder) = &jobs.first()?.output else { return None };
    let shared = jobs.len() > 1 && jobs.iter().all(|job| job.output == Output::Folder(folder.clone()));
    let is_empty = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    (shared && is_empty).then(|| folder.join("x").parent().map(Path::to_owned)).flatten()
}
