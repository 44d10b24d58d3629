//! The run: starts lanes, lets the watch look after them, keeps the journals.
//!
//! The thread that calls [`run`] is the watch. Journals are kept by a thread of their own, because on a slow
//! disk even a small write can block.

mod feed;
mod lane_memory;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::Scope;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use self::feed::Feed;
use self::watch::Watch;
use crate::download::{Moment, Rules};
use crate::error::GetError;
use crate::http::exchange::Http;
use crate::job::{FileReport, Job, MAX_LANES, MAX_SMALL_LANES, Observer, Options, Output, RunReport};
use crate::lane::{self, LaneState};
use crate::names::{Claimant, Names};
use crate::pool::{self, Pool};
use crate::sink::Existing;
use crate::sink::folder::{Folder, Folders, Target};
use crate::sink::home::Home;
use crate::source::{JobSource, Results};
use crate::transfer::Transfer;
use weir_units::limiter::Limiter;
use weir_units::nofile;

/// Between two journals: what a kill can cost is this much of the transfer.
const JOURNAL: Duration = Duration::from_millis(250);

/// Between two journals that wait for the disk: what a power cut can cost.
const DURABLE: Duration = Duration::from_secs(10);

/// Of many files, bulk objects received at once to begin with: while one lane ends its file (the last write,
/// the rename) and waits for the first byte of the next, the other carries.
const BULK_AT_ONCE: u32 = 2;

/// Descriptors for each lane: its socket twice, the part and the journal of its file, and its share of the
/// folders.
const OF_A_LANE: u64 = 8;

/// Those that the run has open, however many lanes there are.
const OTHERS: u64 = 24;

/// As many as all lanes that there may be take, twice.
const ENOUGH: u64 = 2 * OF_A_LANE * MAX_LANES as u64;

/// What all threads of a run share.
pub struct Run<'a> {
    /// How.
    pub options: &'a Options,
    /// The way to the network.
    pub http: &'a Http,
    /// Set from outside to end the run.
    pub stop: &'a Arc<AtomicBool>,
    /// Who does what.
    pub pool: Pool,
    /// `--limit-rate`.
    pub limiter: Option<Arc<Limiter>>,
    /// Many objects: HTTP/2 pays.
    pub many: bool,
    lanes: Mutex<Vec<Arc<LaneState>>>,
    results: &'a dyn Results,
    names: Names,
    /// Of the jobs so far: one is of https, one goes out in order.
    tls: AtomicBool,
    streams: AtomicBool,
    /// Why the source broke.
    broken: Mutex<Option<GetError>>,
    next_lane: AtomicU32,
    fresh_folder: Option<PathBuf>,
    /// It has one job.
    alone: bool,
    folders: Folders,
    /// `--temp-dir`.
    temp: Option<Arc<Folder>>,
}

impl Run<'_> {
    /// The run shall end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// What holds all its lanes at this moment: bytes a second.
    pub(crate) fn rate_cap(&self) -> Option<f64> {
        self.limiter.as_ref()?.rate().map(|rate| rate.0)
    }

    /// The folder of `target`, or one that it lies in, held nothing when the run began, so there is no need
    /// to look at each name in it: jobs have names of their own.
    pub(crate) fn is_fresh_folder(&self, target: &Path) -> bool {
        let below = self.fresh_folder.as_deref().and_then(|folder| target.strip_prefix(folder).ok());
        below.is_some_and(|below| below.components().all(|part| matches!(part, Component::Normal(_))))
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
        if self.options.existing == Existing::Kept {
            return Ok(Home::shared(target));
        }
        let home = Home::of(target, self.temp.as_ref());
        home.map(|home| home.with(self.options.existing)).map_err(|source| GetError::Local {
            action: "open a folder for the part of",
            path: target.path().to_owned(),
            source,
            kept: None,
        })
    }

    /// Two jobs of a run must not become one file, even when only the server's names show it, nor one the
    /// part or the journal of another.
    pub(crate) fn take_name(&self, target: &Path, number: usize, job: &Job) -> Result<(), GetError> {
        match self.options.existing {
            Existing::Replaced | Existing::Stays => {
                self.names.take(target, self.claimant(target, number, job))
            }
            // Names are taken when files are complete.
            Existing::Kept => Ok(()),
        }
    }

    /// `target` for this job, or with a number behind its name where another job of the run has that name, or
    /// where a server chose a reserved one.
    pub(crate) fn free_name(&self, target: PathBuf, number: usize, job: &Job) -> PathBuf {
        let by = self.claimant(&target, number, job);
        self.names.free(target, by)
    }

    /// Whose name `target` is.
    fn claimant<'a>(&self, target: &Path, number: usize, job: &'a Job) -> Claimant<'a> {
        let chosen = job.target().is_none_or(|own| own != target);
        let around = target.parent().unwrap_or(Path::new("."));
        // A job that is alone shares no name with another.
        let folds = !self.alone && self.folders.fold_names(around);
        Claimant { job: number, url: &job.url, chosen, folds }
    }

    /// A job had ended before this run, which must not give its name to another.
    fn ended_before(&self, job: &Job, report: FileReport) {
        let number = self.pool.add_ended(report.bytes);
        if let Some(path) = &report.path {
            self.names.keep(path.clone(), self.claimant(path, number, job));
        }
        self.results.ended_before(number, job, report);
    }

    /// A job has ended.
    pub(crate) fn report(&self, number: usize, report: FileReport) {
        if let Some(job) = self.pool.ended(number, report.bytes) {
            self.names.ended(number);
            self.results.ended(number, &job, report);
        }
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

/// What a run works on, and who hears of it.
pub struct Task<'a> {
    /// Where jobs come from.
    pub source: &'a mut dyn JobSource,
    /// Who hears of their ends.
    pub results: &'a dyn Results,
    /// Names that no file may have, and what has them.
    pub reserved: Vec<(PathBuf, &'static str)>,
}

/// Fetches what `task` names. Returns when all jobs have ended or `stop` was set.
pub fn run(
    task: Task<'_>,
    options: &Options,
    http: &Http,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> RunReport {
    let start = Instant::now();
    let Task { source, results, reserved } = task;
    let count = source.count();
    let many = count.is_none_or(|count| count >= pool::MANY);
    let fixed = options.files_at_once.is_some() || options.lanes.is_some();
    let most = most_lanes(options);
    let small = options.files_at_once.or(options.lanes).unwrap_or(MAX_SMALL_LANES).min(most);
    let small = if many || fixed { small.min(count.map_or(small, |count| count.max(1) as u32)) } else { 1 };
    let folder = source.folder().map(Path::to_owned);
    let new_folder = source.new_folder().map(Path::to_owned);
    let mut run = Run {
        options,
        http,
        stop,
        pool: Pool::new(small, fixed, bulk_lanes(options, many).min(most)),
        limiter: options.limiter(),
        many,
        lanes: Mutex::default(),
        results,
        names: Names::default(),
        tls: AtomicBool::new(false),
        streams: AtomicBool::new(false),
        broken: Mutex::default(),
        next_lane: AtomicU32::new(0),
        fresh_folder: None,
        alone: count == Some(1),
        folders: Folders::default(),
        temp: options.temp_dir.as_ref().and_then(|path| Folder::open(path).ok()).map(Arc::new),
    };
    for (name, what) in reserved {
        run.names.reserve(&name, what);
    }
    let mut feed = Feed::new(source);
    feed.at_hand(&run);
    let first = run.pool.first();
    // Parts elsewhere (--temp-dir) may be there all the same, and so may files of others who write there too.
    if run.temp.is_none() && options.existing != Existing::Kept {
        run.fresh_folder = new_folder.or_else(|| fresh_folder(first.as_deref(), folder.as_deref(), count));
    }
    let mut watch = Watch::new(&run, start, most, output_path(first.as_deref(), folder));
    carry(&run, feed, &mut watch, observer);
    watch.finish()
}

/// Starts what carries the jobs, and waits for their end.
fn carry(run: &Run<'_>, feed: Feed<'_>, watch: &mut Watch<'_>, observer: &mut dyn Observer) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let journals = std::thread::Builder::new()
            .name("journal".to_owned())
            .stack_size(256 << 10)
            .spawn_scoped(scope, || keep_journals(run, &over));
        feed.rest(run, scope, &over);
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
}

/// Lanes that there are descriptors for. More of them are had where the system allows it.
fn most_lanes(options: &Options) -> u32 {
    let _ = nofile::raise(ENOUGH);
    let lanes = nofile::allowed().saturating_sub(OTHERS) / OF_A_LANE;
    let most = u32::try_from(lanes).unwrap_or(MAX_LANES).clamp(1, MAX_LANES);
    if let Some(asked) = options.files_at_once.max(options.lanes).filter(|asked| *asked > most) {
        tracing::warn!(
            "{most} connections instead of {asked}: this process may open no more than {} files (ulimit -n)",
            nofile::allowed()
        );
    }
    most
}

/// Lanes for bulk objects to begin with.
fn bulk_lanes(options: &Options, many: bool) -> u32 {
    let at_once = if many && options.lanes.is_none() { BULK_AT_ONCE } else { 1 };
    (options.files_at_once.unwrap_or(at_once) * options.lanes.unwrap_or(1)).min(64)
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
    let started = std::thread::Builder::new().name(name).stack_size(512 << 10).spawn_scoped(scope, body);
    if let Err(why) = started {
        state.ended.store(true, Relaxed);
        run.pool.dismissed(&why);
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

/// The folder that files go to, if there is nothing in it.
fn fresh_folder(first: Option<&Job>, folder: Option<&Path>, count: Option<usize>) -> Option<PathBuf> {
    let own = first.and_then(|job| if let Output::Folder(own) = &job.output { Some(&**own) } else { None });
    let folder = own.or(folder).filter(|_| count != Some(1))?;
    let is_empty = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    is_empty.then(|| folder.join("x").parent().map(Path::to_owned)).flatten()
}

/// A path on the device that files go to.
fn output_path(first: Option<&Job>, folder: Option<PathBuf>) -> Option<PathBuf> {
    match first.map(|job| &job.output) {
        Some(Output::File(path)) => Some(match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => Path::new(".").to_owned(),
        }),
        Some(Output::Folder(folder)) => Some(folder.clone()),
        Some(Output::Pipe(_) | Output::Stdout | Output::Memory(_)) | None => folder,
    }
}
