//! From a prefix of a store into a folder: the list becomes jobs for the engine of downloads while it comes.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_get::GetError;
use weir_get::job::{Job, Output};
use weir_get::source::{Bad, JobSource, Next};
use weir_tree::{Entry, Kind, Name, Target, TreeError};

use super::content;
use super::decide::{Decision, Facts, Mtime, decide};
use super::known::{facts_of, facts_of_look};
use super::names::{Unholdable, name_below};
use super::seen::SeenNames;
use super::{Copy, StorePlace};
use crate::caller::Caller;
use crate::error::StoreError;
use crate::glob::Glob;
use crate::listing::{Listed, Looked, Page};
use weir_units::instant;

/// Objects that a thread takes from the list at a time, and jobs that it hands over together: each of these
/// steps may wake another thread, and a wake costs as much as a small file's own system calls.
const CHUNK: usize = 32;

/// Chunks that wait for a lane: their jobs are fewer than the engine holds itself.
const WAITING: usize = 8;

/// Jobs that are decided on wait no longer than this for the rest of their chunk, which may have to be asked
/// about: a fraction of a round trip to a store in the same town.
const LINGER: Duration = Duration::from_millis(2);

/// How soon the engine hears that there is nothing for now.
const POLL: Duration = Duration::from_millis(20);

/// A copy into a folder.
pub struct Down<'a> {
    /// What all ways have in common.
    pub copy: Copy<'a>,
    /// From where.
    pub from: StorePlace<'a>,
    /// The keys that are meant; `None`: all with the prefix.
    pub glob: Option<&'a Glob>,
    /// What the prefix is called in the target: its root, or a folder in it.
    pub base: Name,
    /// One object alone, which gets this name.
    pub only: Option<Name>,
    /// The folder.
    pub target: &'a Target,
    /// Its path.
    pub root: &'a Path,
    /// Names that the list has, for [`super::prune::here`].
    pub seen: Option<&'a Mutex<SeenNames>>,
    /// Folders are made by one thread at a time: until one is finished nobody but its owner may enter it.
    pub folders: Mutex<()>,
}

/// The jobs, as they are decided on.
pub struct DownJobs {
    from: Receiver<Vec<Next>>,
    ready: VecDeque<Next>,
    root: PathBuf,
    /// It was empty.
    is_new: bool,
    ended: Arc<Ended>,
}

/// What is known at the end.
#[derive(Default)]
pub struct Ended {
    /// Objects that the list had and the pattern took.
    pub found: AtomicUsize,
    jobs: AtomicUsize,
    /// The list broke off, and why, until the engine is told.
    is_cut: AtomicBool,
    failed: Mutex<Option<StoreError>>,
}

impl DownJobs {
    /// What is known of the list at the end.
    pub fn ended(&self) -> Arc<Ended> {
        Arc::clone(&self.ended)
    }
}

impl Ended {
    /// The list was read to its end.
    pub fn is_whole(&self) -> bool {
        !self.is_cut.load(Relaxed)
    }

    fn cut(&self, error: StoreError) {
        self.is_cut.store(true, Relaxed);
        *self.failed.lock() = Some(error);
    }
}

impl JobSource for DownJobs {
    fn next(&mut self, over: &AtomicBool) -> Next {
        if let Some(next) = self.ready.pop_front() {
            return next;
        }
        match self.from.recv_timeout(POLL) {
            Ok(chunk) => {
                self.ready = chunk.into();
                self.ready.pop_front().unwrap_or(Next::NotYet)
            }
            Err(RecvTimeoutError::Timeout) => Next::NotYet,
            Err(RecvTimeoutError::Disconnected) if over.load(Relaxed) => Next::NotYet,
            Err(RecvTimeoutError::Disconnected) => match self.ended.failed.lock().take() {
                Some(StoreError::Http(error)) => Next::Failed(error),
                Some(StoreError::Answered { answer, .. }) if answer.is_for_later() => Next::Failed(*answer),
                Some(error) => Next::Failed(GetError::Refused(error.to_string())),
                None => Next::End,
            },
        }
    }

    fn count(&self) -> Option<usize> {
        None
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.root)
    }

    fn new_folder(&self) -> Option<&Path> {
        self.is_new.then_some(&*self.root)
    }
}

/// Decides on what `pages` have, by threads of `scope`.
pub fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    down: &'env Down<'env>,
    pages: Receiver<Result<Page, StoreError>>,
) -> std::io::Result<DownJobs> {
    let (to, from) = sync_channel(WAITING);
    let ended = Arc::new(Ended::default());
    let is_new = std::fs::read_dir(down.root).is_ok_and(|mut entries| entries.next().is_none());
    let feed = Arc::new(Mutex::new(Feed { pages, page: VecDeque::new(), keys: HashSet::new() }));
    super::hire(scope, "decide", down.copy.at_once, || {
        let (feed, to, ended) = (Arc::clone(&feed), to.clone(), Arc::clone(&ended));
        move || down.work(&feed, &to, &ended)
    })?;
    Ok(DownJobs { from, ready: VecDeque::new(), root: down.root.to_owned(), is_new, ended })
}

/// The objects of the list, one by one.
struct Feed {
    pages: Receiver<Result<Page, StoreError>>,
    page: VecDeque<Listed>,
    /// Of the last page.
    keys: HashSet<String>,
}

impl Feed {
    /// Some objects; none at the end. A key that a page has again, or the next one, is no second object.
    /// `seen` hears of a list that does not say whether it is whole.
    fn next(&mut self, ended: &Ended, seen: Option<&Mutex<SeenNames>>) -> Vec<Listed> {
        loop {
            if !self.page.is_empty() {
                return self.page.drain(..self.page.len().min(CHUNK)).collect();
            }
            match self.pages.recv() {
                Ok(Ok(mut page)) => {
                    let before = std::mem::take(&mut self.keys);
                    let mut is_new = |key: &String| self.keys.insert(key.clone()) && !before.contains(key);
                    page.objects.retain(|object| is_new(&object.key));
                    seen.iter().for_each(|seen| seen.lock().may_lack |= page.may_go_on);
                    self.page = page.objects.into();
                }
                Ok(Err(error)) => {
                    ended.cut(error);
                    return Vec::new();
                }
                Err(_) => return Vec::new(),
            }
        }
    }
}

impl Down<'_> {
    fn work(&self, feed: &Mutex<Feed>, to: &SyncSender<Vec<Next>>, ended: &Ended) {
        let mut caller = Caller::new(self.copy.caller);
        loop {
            let objects = feed.lock().next(ended, self.seen);
            if objects.is_empty() {
                return;
            }
            let mut found = Vec::with_capacity(objects.len());
            let mut since = Instant::now();
            for object in objects {
                found.extend(self.next_of(&mut caller, &object, ended));
                if since.elapsed() >= LINGER && !found.is_empty() {
                    // Nobody takes them any more: the run is over.
                    if to.send(std::mem::take(&mut found)).is_err() {
                        return;
                    }
                    since = Instant::now();
                }
            }
            if !found.is_empty() && to.send(found).is_err() {
                return;
            }
        }
    }

    /// What the engine gets of an object.
    fn next_of(&self, caller: &mut Caller<'_>, object: &Listed, ended: &Ended) -> Option<Next> {
        if self.glob.is_some_and(|glob| !glob.matches(&object.key)) {
            return None;
        }
        ended.found.fetch_add(1, Relaxed);
        let next = match self.one(caller, object) {
            Ok(next) => next,
            Err(_) if self.copy.caller.stop.load(Relaxed) => None,
            Err(error) => {
                let place = self.from.url(&object.key);
                Some(Next::Bad(Bad { place, error }))
            }
        };
        ended.jobs.fetch_add(usize::from(next.is_some()), Relaxed);
        next
    }

    /// What becomes of an object; `None`: nothing.
    fn one(&self, caller: &mut Caller<'_>, object: &Listed) -> Result<Option<Next>, String> {
        let rest = object.key.strip_prefix(self.from.prefix).unwrap_or(&object.key);
        if self.only.is_none() && !self.copy.takes(&self.base, rest) {
            return Ok(None);
        }
        let folder = rest.strip_suffix('/');
        if rest.is_empty() || folder.is_some() && self.only.is_none() {
            return match (object.size, folder) {
                (1.., _) => Err(Unholdable::Folder.to_string()),
                (0, Some(folder)) => self.folder(folder).map(|()| None),
                (0, None) => Ok(None),
            };
        }
        let name = match &self.only {
            Some(only) => only.clone(),
            None => self.name(rest)?,
        };
        self.sees(&name)?;
        let there = self.target.existing(&name).map_err(|error| self.barred(&name, &error))?;
        match self.decide(caller, object, there.as_ref())? {
            Decision::Leave => Ok(None),
            Decision::Same => {
                self.copy.hears.unchanged(&name.to_string(), object.size);
                Ok(None)
            }
            _ if self.copy.is_dry => {
                self.copy.hears.moves(&name.to_string(), object.size);
                Ok(None)
            }
            _ => self.job(object, &name, there).map(Some),
        }
    }

    fn name(&self, rest: &str) -> Result<Name, String> {
        name_below(&self.base, rest).map_err(|error| error.to_string())
    }

    /// The list has it, and so the folders that it is in.
    fn sees(&self, name: &Name) -> Result<(), String> {
        let Some(seen) = self.seen else { return Ok(()) };
        let mut seen = seen.lock();
        let failed = |error: std::io::Error| error.to_string();
        seen.insert(name.as_bytes()).map_err(failed)?;
        for folder in std::iter::successors(name.parent(), Name::parent).filter(|name| !name.is_root()) {
            seen.insert(&super::prune::of_folder(&folder)).map_err(failed)?;
        }
        Ok(())
    }

    /// What stands for a folder: an object of no bytes, whose key ends with a slash.
    fn folder(&self, rest: &str) -> Result<(), String> {
        let name = self.name(rest)?;
        if let Some(seen) = self.seen {
            seen.lock().insert(&super::prune::of_folder(&name)).map_err(|error| error.to_string())?;
        }
        self.sees(&name)?;
        if self.copy.is_dry { Ok(()) } else { self.make(&name).map_err(|error| error.to_string()) }
    }

    fn decide(
        &self,
        caller: &mut Caller<'_>,
        object: &Listed,
        there: Option<&Entry>,
    ) -> Result<Decision, String> {
        let to = match there.map(|there| &there.kind) {
            None | Some(Kind::Symlink { .. }) => None,
            Some(Kind::File { .. }) => there.map(facts_of_file),
            Some(Kind::Directory) => return Err(Unholdable::HasFolder.to_string()),
            Some(_) => return Err("cannot replace what has its name here: it is no file".to_owned()),
        };
        let mut from = facts_of(object);
        let mut decision = decide(self.copy.rules, &from, to.as_ref());
        if matches!(decision, Decision::AskTime | Decision::AskContent) {
            let version = object.version.as_ref().map(|version| version.id.as_str());
            let looked = self.from.lists().look(caller, &object.key, version, Some(object.size));
            let looked = looked.map_err(|error| error.to_string())?.ok_or("it was deleted meanwhile")?;
            if decision == Decision::AskContent {
                return self.compare(&looked, object.size, there);
            }
            from = Facts { etag: None, ..facts_of_look(&looked) };
            decision = decide(self.copy.rules, &from, to.as_ref());
        }
        Ok(decision)
    }

    /// By their contents. What cannot be read here is replaced.
    fn compare(&self, looked: &Looked, size: u64, there: Option<&Entry>) -> Result<Decision, String> {
        let file = there.and_then(|there| self.target.open_existing(&there.name).ok());
        let (Some((algorithm, value)), Some(file)) = (content::digest_of(looked), file) else {
            return Ok(Decision::Move);
        };
        let stop = self.copy.caller.stop;
        match content::digest(&file, algorithm, size, &mut |_| !stop.load(Relaxed)) {
            Ok(None) => Err(GetError::Interrupted.to_string()),
            Ok(Some(own)) if own == value => Ok(Decision::Same),
            _ => Ok(Decision::Move),
        }
    }

    fn job(&self, object: &Listed, name: &Name, there: Option<Entry>) -> Result<Next, String> {
        if let Some(around) = name.parent().filter(|around| !around.is_root()) {
            self.make(&around).map_err(|error| self.barred(name, &error))?;
        }
        if there.is_some_and(|there| matches!(there.kind, Kind::Symlink { .. })) {
            // What it leads to is not in this tree.
            self.target.remove(name, self.copy.filter).map_err(|error| error.to_string())?;
        }
        Ok(Next::Job(Box::new(self.job_of(object, name)?)))
    }

    fn job_of(&self, object: &Listed, name: &Name) -> Result<Job, String> {
        let version = object.version.as_ref().map(|version| version.id.as_str());
        let url = self.from.store.object(&object.key, version).map_err(|error| error.to_string())?;
        let output = Output::File(self.path(name));
        Ok(Job { url, home: None, output, name: None, expectations: Vec::new(), pinned: None, piece: None })
    }

    /// Why `name` cannot be put into its folder.
    fn barred(&self, name: &Name, error: &TreeError) -> String {
        let is_file = |name: &Name| self.path(name).symlink_metadata().is_ok_and(|there| there.is_file());
        let mut around = std::iter::successors(name.parent(), Name::parent);
        match error.is_barred() && around.any(|one| is_file(&one)) {
            true => Unholdable::InFile.to_string(),
            false => error.to_string(),
        }
    }

    fn path(&self, name: &Name) -> PathBuf {
        self.root.join(name.as_path())
    }

    fn make(&self, name: &Name) -> Result<(), TreeError> {
        make_folder(self.target, &self.folders, name)
    }
}

/// Makes the folder `name` of `target` and those on the way, by no link. `one`: until a folder is finished
/// nobody but its owner may enter it, so they are made by one thread at a time.
pub fn make_folder(target: &Target, one: &Mutex<()>, name: &Name) -> Result<(), TreeError> {
    if target.has_directory(name) {
        return Ok(());
    }
    let _one = one.lock();
    target.directory(name)?;
    let all = std::iter::successors(Some(name.clone()), Name::parent);
    for made in all.filter(|name| target.was_made(name)) {
        target.finish_directory(&folder_entry(&made))?;
    }
    Ok(())
}

/// A folder as any program would make it.
fn folder_entry(name: &Name) -> Entry {
    let (uid, gid, xattrs) = (0, 0, Vec::new());
    let mtime = weir_tree::entry::Time::new(0, 0).unwrap_or_else(|| unreachable!("no nanoseconds"));
    Entry { name: name.clone(), kind: Kind::Directory, mode: 0o777, mtime, uid, gid, xattrs }
}

/// What is known of a file.
pub(super) fn facts_of_file(entry: &Entry) -> Facts {
    let time = instant::at(entry.mtime.secs(), entry.mtime.nanos());
    Facts { size: entry.size(), mtime: time.map_or(Mtime::Unknown, Mtime::Known), ..Facts::default() }
}
