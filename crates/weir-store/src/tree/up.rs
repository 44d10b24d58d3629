//! From folders and files into a prefix of a store: the walk goes ahead, each file it meets is decided on by
//! one of several threads, and what is to be moved goes to the engine of uploads, some hundreds of files at a
//! time.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_get::GetError;
use weir_tree::walk::{Root, Wanted};
use weir_tree::{Entry, Kind, Name, Source, Step, Walk};
use weir_units::threads;

use super::content;
use super::decide::{Decision, Mtime, decide};
use super::down::facts_of_file;
use super::known::Known;
use super::names::key_of;
use super::seen::SeenNames;
use super::{Copy, StorePlace, hire};
use crate::caller::Caller;
use crate::error::StoreError;
use crate::listing::{PagesSetup, ahead, mtime_text};
use crate::upload::job::{Job, Source as JobFile};
use crate::upload::plan::SINGLE;
use crate::upload::{Attributes, journal, kinds};

/// Files that wait for a thread: each holds its folder open.
const WAITING: usize = 64;

/// Files that are handed on together, at most: 300 KB of what is known of them. The engine begins the next
/// lot when it is through with one, so a lot is long against the moment in which its last lanes have nothing
/// to do.
pub(super) const LOT: usize = 1000;

/// How long a lot waits for its first files to become more: the first of all would be of one file otherwise.
const GATHERING: Duration = Duration::from_millis(50);

/// How soon a signal is heard where nothing is to be moved.
const POLL: Duration = Duration::from_millis(100);

/// A copy into a store.
pub struct Up<'a> {
    /// What all ways have in common.
    pub copy: Copy<'a>,
    /// Where to.
    pub to: StorePlace<'a>,
    /// What is copied.
    pub roots: Vec<Root>,
    /// What the walk looks at.
    pub wanted: Wanted,
    /// The key of the one file that is copied.
    pub only: Option<String>,
    /// Where journals of uploads lie.
    pub journals: Option<&'a Path>,
    /// For each object: what the user wants to be kept with it.
    pub attributes: Attributes,
}

/// What is known at the end.
#[derive(Debug, Default)]
pub struct Walked {
    /// Something could not be read: what the source has is not known.
    pub is_partial: bool,
    /// Folders in which no file was met.
    pub empty_folders: u64,
    /// Named pipes, sockets, devices.
    pub specials: u64,
}

/// A file that was met.
struct Met {
    entry: Entry,
    source: Source,
    key: String,
    path: PathBuf,
}

/// Names that have a key already, of each root with which a later one may share them.
#[derive(Default)]
struct Taken(BTreeMap<usize, SeenNames>);

impl Taken {
    /// Takes `name` for the root `own`, or says which earlier one has taken it.
    fn take<'r>(&mut self, roots: &'r [Root], own: usize, name: &Name) -> io::Result<Option<&'r Root>> {
        for (earlier, seen) in self.0.range_mut(..own) {
            if seen.contains(name.as_bytes())? {
                return Ok(roots.get(*earlier));
            }
        }
        if roots.iter().skip(own + 1).any(|root| name.is_within(&root.name)) {
            self.0.entry(own).or_default().insert(name.as_bytes())?;
        }
        Ok(None)
    }
}

/// Copies: `sends` is given one lot of files after another. Returns when all have ended, or the run was
/// stopped.
pub fn run(up: &Up<'_>, stop: &AtomicBool, sends: &mut dyn FnMut(Vec<Job>)) -> Result<Walked, StoreError> {
    let known = Known::new(up.to, up.copy.rules);
    let failed: Mutex<Option<StoreError>> = Mutex::default();
    let over = AtomicBool::new(false);
    let (to, from) = sync_channel(WAITING);
    let from = &Mutex::new(from);
    let walked = std::thread::scope(|scope| -> Result<Walked, StoreError> {
        let local = |error: std::io::Error| StoreError::Local(error.to_string());
        let shown = up.to.shown.trim_end_matches('/').to_owned();
        let prefix = up.only.clone().unwrap_or_else(|| up.to.prefix.to_owned());
        let setup = PagesSetup { lists: up.to.lists(), prefix, delimiter: None, versions: false, shown };
        let pages = ahead(scope, setup, up.copy.caller).map_err(local)?;
        // Of most trees it is all of the list.
        if known.take(&pages)? {
            let (known, failed, over) = (&known, &failed, &over);
            let rest = move || {
                loop {
                    match known.take(&pages) {
                        Ok(true) if !over.load(Relaxed) => {}
                        Ok(_) => return,
                        // It was a help; each file can be asked for.
                        Err(error) => return *failed.lock() = Some(error),
                    }
                }
            };
            if let Err(error) = threads::start_scoped(scope, "known", rest) {
                *failed.lock() = Some(local(error));
            }
        }
        let known = &known;
        let (give, jobs) = sync_channel(LOT);
        let hired = hire(scope, "decide", up.copy.at_once, || {
            let give = give.clone();
            move || up.work(from, known, &give, stop)
        });
        drop(give);
        let walk = hired.and_then(|()| threads::start_scoped(scope, "walk", move || up.walk(to, stop)));
        let walk = walk.inspect_err(|_| over.store(true, Relaxed)).map_err(local)?;
        while let Some(lot) = lot(&jobs, stop) {
            if !lot.is_empty() {
                sends(lot);
            }
        }
        drop(jobs);
        let walked = walk.join().unwrap_or(Walked { is_partial: true, ..Walked::default() });
        over.store(true, Relaxed);
        Ok(walked)
    })?;
    if let Some(error) = failed.into_inner() {
        up.copy.hears.notes(format!("{error}; each file was asked for by itself instead"));
    }
    Ok(walked)
}

/// The files that are next; `None`: there are no more.
pub(super) fn lot(jobs: &Receiver<Job>, stop: &AtomicBool) -> Option<Vec<Job>> {
    let mut lot = Vec::new();
    let mut until = Instant::now() + POLL;
    while lot.len() < LOT && !stop.load(Relaxed) {
        match jobs.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(job) => {
                if lot.is_empty() {
                    until = Instant::now() + GATHERING;
                }
                lot.push(job);
            }
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => return (!lot.is_empty()).then_some(lot),
        }
    }
    (!stop.load(Relaxed)).then_some(lot)
}

impl Up<'_> {
    /// Hands on the files of the walk.
    fn walk(&self, to: SyncSender<Met>, stop: &AtomicBool) -> Walked {
        let mut walked = Walked::default();
        // Of each folder that the walk is in: a file was met in it, or below.
        let mut full: Vec<bool> = Vec::new();
        let mut taken = Taken::default();
        let mut walk = Walk::new(self.roots.clone(), self.copy.filter.clone(), self.wanted);
        while let Some(step) = walk.next() {
            let own = self.roots.len().saturating_sub(walk.roots_left() + 1);
            if stop.load(Relaxed) {
                walked.is_partial = true;
                break;
            }
            match step {
                Step::Found(entry, _) if entry.is_directory() => full.push(false),
                Step::Leave(_) => {
                    let is_full = full.pop().unwrap_or(true);
                    walked.empty_folders += u64::from(!is_full);
                    if let Some(around) = full.last_mut() {
                        *around = true;
                    }
                }
                Step::Found(entry, source) => {
                    full.last_mut().into_iter().for_each(|full| *full = true);
                    if let Some(met) = self.meet((entry, source), own, &mut taken, &mut walked)
                        && to.send(met).is_err()
                    {
                        walked.is_partial = true;
                        break;
                    }
                }
                Step::Failed(name, error) => {
                    walked.is_partial = true;
                    self.copy.hears.fails(&name.to_string(), error.to_string());
                }
            }
        }
        walked
    }

    /// An entry of the root `own`.
    fn meet(
        &self,
        (entry, source): (Entry, Source),
        own: usize,
        taken: &mut Taken,
        walked: &mut Walked,
    ) -> Option<Met> {
        let fails = |why: String| self.copy.hears.fails(&entry.name.to_string(), why);
        match entry.kind {
            Kind::File { .. } => match self.place(&entry.name, own, taken) {
                Ok((key, path)) => return Some(Met { entry, source, key, path }),
                Err(why) => fails(why),
            },
            Kind::Symlink { .. } => fails(
                "cannot be an object: it is a symbolic link; -L copies what it leads to, --exclude leaves it out"
                    .to_owned(),
            ),
            _ => walked.specials += 1,
        }
        None
    }

    /// The key of a file of the root `own`, and where it is on this machine. What was met by its name in an
    /// earlier one has that key already.
    fn place(&self, name: &Name, own: usize, taken: &mut Taken) -> Result<(String, PathBuf), String> {
        let key = match &self.only {
            Some(key) => key.clone(),
            None => key_of(self.to.prefix, name).map_err(|error| error.to_string())?,
        };
        let path_of = |root: &Root| {
            let rest = name.as_path().strip_prefix(root.name.as_path()).unwrap_or(name.as_path());
            if rest == Path::new("") { root.path.clone() } else { root.path.join(rest) }
        };
        let path = self.roots.get(own).map_or_else(|| name.as_path().to_owned(), path_of);
        match taken.take(&self.roots, own, name).map_err(|error| error.to_string())? {
            None => Ok((key, path)),
            Some(first) => {
                let first = path_of(first);
                let (first, second) = (first.display(), path.display());
                Err(format!(
                    "{first} and {second} would be the same object: {first} is copied; copy them to different prefixes"
                ))
            }
        }
    }

    fn work(&self, from: &Mutex<Receiver<Met>>, known: &Known<'_>, to: &SyncSender<Job>, stop: &AtomicBool) {
        let mut caller = Caller::new(self.copy.caller);
        loop {
            let met = from.lock().recv();
            let Ok(met) = met else { return };
            // The walk is let go on, so that it sees that it is to end.
            if stop.load(Relaxed) {
                continue;
            }
            let shown = self.to.url(&met.key);
            match self.one(&mut caller, known, &met) {
                Ok(None) => {}
                // Nobody takes it when the run is to end; the walk is let go on all the same.
                Ok(Some(job)) => drop(to.send(job)),
                Err(_) if stop.load(Relaxed) => {}
                Err(error) => self.copy.hears.fails(&shown, error.to_string()),
            }
        }
    }

    /// What becomes of a file; `None`: it is not moved.
    fn one(&self, caller: &mut Caller<'_>, known: &Known<'_>, met: &Met) -> Result<Option<Job>, StoreError> {
        let (shown, size) = (self.to.url(&met.key), met.entry.size());
        let own = facts_of_file(&met.entry);
        let there = known.at(caller, &met.key)?;
        let mut decision = decide(self.copy.rules, &own, there.as_ref());
        if decision == Decision::AskTime {
            let looked = known.look(caller, &met.key, Some(size))?;
            decision = decide(self.copy.rules, &own, looked.as_ref());
        }
        if decision == Decision::AskContent {
            decision = self.compare(caller, met)?;
        }
        match decision {
            Decision::Leave => {}
            Decision::Same => {
                if let Some(folder) = self.journals.filter(|_| size > SINGLE && !self.copy.is_dry) {
                    let source = met.path.canonicalize().unwrap_or_else(|_| met.path.clone());
                    let target = self.to.store.address(&met.key);
                    let object = (self.to.store.uploads(), met.key.as_str());
                    journal::forget(folder, (&source, &target), object, caller);
                }
                self.copy.hears.unchanged(&shown, size);
            }
            _ if self.copy.is_dry => self.copy.hears.moves(&shown, size),
            _ => return Ok(Some(self.job(met, own.mtime))),
        }
        Ok(None)
    }

    fn job(&self, met: &Met, mtime: Mtime) -> Job {
        let mut attributes = self.attributes.clone();
        if attributes.content_type.is_none() {
            attributes.content_type = kinds::of(&met.key).map(str::to_owned);
        }
        if let Mtime::Known(time) = mtime {
            attributes.metadata.push(("mtime".to_owned(), mtime_text(time)));
        }
        let source = JobFile::File(met.path.clone());
        Job { source, key: met.key.clone(), size: Some(met.entry.size()), attributes, share: None }
    }

    fn compare(&self, caller: &mut Caller<'_>, met: &Met) -> Result<Decision, StoreError> {
        let looked = self.to.lists().look(caller, &met.key, None, Some(met.entry.size()))?;
        let Some((algorithm, value)) = looked.as_ref().and_then(content::digest_of) else {
            return Ok(Decision::Move);
        };
        let file = met.source.open(&met.entry).map_err(|error| StoreError::Local(error.to_string()))?;
        let stop = self.copy.caller.stop;
        let own = content::digest(&file, algorithm, met.entry.size(), &mut |_| !stop.load(Relaxed));
        let own = own.map_err(|error| {
            let (path, why) = (met.path.display(), weir_units::plain(&error));
            StoreError::Source(format!("cannot read {path}: {why}"))
        })?;
        let own = own.ok_or(GetError::Interrupted)?;
        Ok(if own == value { Decision::Same } else { Decision::Move })
    }
}
