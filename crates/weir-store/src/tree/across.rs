//! From one prefix of a store to another: the store copies the objects itself, or they come through here,
//! where two stores are asked, or one that does not copy.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;
use weir_tree::{Filter, Name};
use weir_units::threads;

use super::content;
use super::decide::{Decision, decide};
use super::known::{Known, facts_of};
use super::seen::SeenNames;
use super::through::Through;
use super::up::{LOT, lot};
use super::{Copy, StorePlace, hire};
use crate::caller::{Caller, CallerSetup};
use crate::condition::Condition;
use crate::environment::End;
use crate::error::StoreError;
use crate::glob::Glob;
use crate::key;
use crate::listing::{Chosen, Listed, Looked, Page, PagesSetup, ahead};
use crate::upload::elsewhere::Sides;
use crate::upload::job::{Job, Source as JobSource};
use crate::upload::journal;
use crate::upload::plan::SINGLE;

/// Objects that wait for a thread.
const WAITING: usize = 256;

/// A store says nothing while it copies, and gigabytes take it half a minute: asked again meanwhile it would
/// begin again.
const COPYING: Duration = Duration::from_secs(60);

/// One that asks the source, one that asks the target, and one that has the target copy.
type Callers<'a> = (Caller<'a>, Caller<'a>, Caller<'a>);

/// Objects that a store may refuse to copy by itself, none having been copied, until it is asked no more.
const REFUSALS: usize = 8;

/// Whether one store, asked by the target's credentials, copies objects by itself, as far as is known.
#[derive(Debug, Default)]
pub struct Within {
    /// Both ends are of one store.
    is_one: bool,
    copied: AtomicUsize,
    refused: AtomicUsize,
}

impl Within {
    /// Both ends are of one store, or not.
    pub fn new(is_one: bool) -> Within {
        Within { is_one, ..Within::default() }
    }

    /// It has copied all that it was asked for.
    pub fn is_all(&self) -> bool {
        self.is_one && self.refused.load(Relaxed) == 0
    }

    fn may_copy(&self) -> bool {
        self.is_one && (self.copied.load(Relaxed) > 0 || self.refused.load(Relaxed) < REFUSALS)
    }

    fn copied(&self) {
        self.copied.fetch_add(1, Relaxed);
    }

    /// Whether that was the first time.
    fn refused(&self) -> bool {
        self.refused.fetch_add(1, Relaxed) == 0
    }
}

/// A copy between two prefixes.
pub struct Across<'a> {
    /// What all ways have in common.
    pub copy: Copy<'a>,
    /// From where.
    pub from: StorePlace<'a>,
    /// How the source is asked; [`Copy::caller`] asks the target.
    pub from_caller: CallerSetup<'a>,
    /// What is known of whether the store copies by itself.
    pub within: &'a Within,
    /// Where the time goes of what comes through here.
    pub sides: Arc<Sides>,
    /// What comes through here is held against no digest that its store keeps.
    pub ignores_digest: bool,
    /// Its bucket.
    pub bucket: &'a str,
    /// The keys that are meant; `None`: all with the prefix.
    pub glob: Option<&'a Glob>,
    /// Where to.
    pub to: StorePlace<'a>,
    /// One object alone, which gets this key.
    pub only: Option<String>,
    /// Where journals of uploads lie.
    pub journals: Option<&'a Path>,
    /// Keys that the list has, for [`super::prune::there`].
    pub seen: Option<&'a Mutex<SeenNames>>,
}

/// Whether a copy by these rules takes the key that `rest` is behind the prefix. One that no file could have
/// goes by those of its parts that a name can have.
pub fn takes_key(filter: &Filter, rest: &str) -> bool {
    super::takes_below(filter, &Name::root(), rest)
}

/// Copies what is `chosen`: `sends` is given one lot after another of what comes through here. Returns how
/// many objects the list had and the pattern took.
pub fn run(
    across: &Across<'_>,
    chosen: Chosen<'_>,
    stop: &AtomicBool,
    sends: &mut dyn FnMut(Vec<Job>),
) -> Result<usize, StoreError> {
    let known = Known::new(across.to, across.copy.rules);
    let found = AtomicUsize::new(0);
    let (to, from) = sync_channel::<Listed>(WAITING);
    let from = &Mutex::new(from);
    let fed = std::thread::scope(|scope| {
        let local = |error: std::io::Error| StoreError::Local(error.to_string());
        let pages = chosen.pages(scope, across.from_caller).map_err(local)?;
        let prefix = across.only.clone().unwrap_or_else(|| across.to.prefix.to_owned());
        let shown = across.to.shown.trim_end_matches('/').to_owned();
        let setup = PagesSetup { lists: across.to.lists(), prefix, delimiter: None, versions: false, shown };
        let there = ahead(scope, setup, across.copy.caller).map_err(local)?;
        let known = &known;
        if known.take(&there).map_err(|error| error.at(End::Target))? {
            // An error of the list costs its help alone, and so does a thread that is refused.
            let rest = move || while known.take(&there).unwrap_or(false) {};
            let _ = threads::start_scoped(scope, "known", rest);
        }
        let (give, jobs) = sync_channel(LOT);
        let hired = hire(scope, "copy", across.copy.at_once, || {
            let give = give.clone();
            move || across.work(from, known, &give, stop)
        });
        hired.map_err(local)?;
        drop(give);
        let found = &found;
        // The threads end when it does.
        let feed = move || across.feed(pages, &to, found, stop);
        let feed = threads::start_scoped(scope, "feed", feed).map_err(local)?;
        while let Some(lot) = lot(&jobs, stop) {
            if !lot.is_empty() {
                sends(lot);
            }
        }
        drop(jobs);
        feed.join().unwrap_or_else(|_| Err(StoreError::Local("a thread has broken".to_owned())))
    });
    across.sides.unkept().notes().into_iter().for_each(|note| across.copy.hears.notes(note));
    fed?;
    Ok(found.into_inner())
}

impl Across<'_> {
    /// Hands on what the list has and the pattern takes.
    fn feed(
        &self,
        pages: Receiver<Result<Page, StoreError>>,
        to: &SyncSender<Listed>,
        found: &AtomicUsize,
        stop: &AtomicBool,
    ) -> Result<(), StoreError> {
        for page in pages {
            let page = page.map_err(|error| error.at(End::Source))?;
            self.seen.iter().for_each(|seen| seen.lock().may_lack |= page.may_go_on);
            for object in page.objects {
                if self.glob.is_some_and(|glob| !glob.matches(&object.key)) {
                    continue;
                }
                found.fetch_add(1, Relaxed);
                if stop.load(Relaxed) || to.send(object).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn work(
        &self,
        from: &Mutex<Receiver<Listed>>,
        known: &Known<'_>,
        give: &SyncSender<Job>,
        stop: &AtomicBool,
    ) {
        let target = self.copy.caller;
        let copying = CallerSetup { timeout: target.timeout.max(COPYING), ..target };
        let mut callers = (Caller::new(self.from_caller), Caller::new(target), Caller::new(copying));
        loop {
            let object = from.lock().recv();
            let Ok(object) = object else { return };
            if stop.load(Relaxed) {
                continue;
            }
            let rest = object.key.strip_prefix(self.from.prefix).unwrap_or(&object.key);
            let to = self.only.clone().unwrap_or_else(|| format!("{}{rest}", self.to.prefix));
            match self.one(&mut callers, known, &object, rest, &to) {
                Ok(None) => {}
                // Nobody takes it when the run is to end.
                Ok(Some(job)) => drop(give.send(job)),
                Err(_) if stop.load(Relaxed) => {}
                Err(error) => self.copy.hears.fails(&self.to.url(&to), error.to_string()),
            }
        }
    }

    /// What becomes of an object; the job, where it comes through here.
    fn one(
        &self,
        callers: &mut Callers<'_>,
        known: &Known<'_>,
        object: &Listed,
        rest: &str,
        to: &str,
    ) -> Result<Option<Job>, StoreError> {
        let of_target = |error: StoreError| error.at(End::Target);
        if self.only.is_none() && !takes_key(self.copy.filter, rest) {
            return Ok(None);
        }
        if let Some(seen) = self.seen {
            let kept = seen.lock().insert(rest.as_bytes());
            kept.map_err(|error| StoreError::Local(error.to_string()))?;
        }
        if to.len() > key::MOST {
            return Err(StoreError::Local(super::Unholdable::LongKey.to_string()));
        }
        let there = known.at(&mut callers.1, to).map_err(of_target)?;
        let mut decision = decide(self.copy.rules, &facts_of(object), there.as_ref());
        if decision == Decision::AskContent {
            let one = self.look(callers, object)?;
            // Contents are compared only where the sizes are equal.
            let size = Some(object.size);
            let other = self.to.lists().look(&mut callers.1, to, None, size).map_err(of_target)?;
            let digests =
                (one.as_ref().and_then(content::digest_of), other.as_ref().and_then(content::digest_of));
            let is_same = matches!(digests, (Some(one), Some(other)) if one == other);
            decision = if is_same { Decision::Same } else { Decision::Move };
        }
        let shown = self.to.url(to);
        match decision {
            Decision::Leave => {}
            Decision::Same => {
                if let Some(folder) = self.journals.filter(|_| object.size > SINGLE && !self.copy.is_dry) {
                    let (source, target) = (self.name(object), self.to.store.address(to));
                    let ends = (Path::new(&source), target.as_str());
                    journal::forget(folder, ends, (self.to.store.uploads(), to), &mut callers.1);
                }
                self.copy.hears.unchanged(&shown, object.size);
            }
            _ => {
                self.copy.hears.moves(&shown, object.size);
                if !self.copy.is_dry {
                    return self.moves(callers, object, to);
                }
            }
        }
        Ok(None)
    }

    /// What a journal knows an object of the source by.
    fn name(&self, object: &Listed) -> String {
        let version = object.version.as_ref().map_or_else(String::new, |version| format!(" {}", version.id));
        format!("{}{version}", self.from.store.address(&object.key))
    }

    /// What the source says of an object.
    fn look(&self, callers: &mut Callers<'_>, object: &Listed) -> Result<Option<Looked>, StoreError> {
        let version = object.version.as_ref().map(|version| version.id.as_str());
        let looked = self.from.lists().look(&mut callers.0, &object.key, version, Some(object.size));
        looked.map_err(|error| error.at(End::Source))
    }

    fn moves(&self, callers: &mut Callers<'_>, object: &Listed, to: &str) -> Result<Option<Job>, StoreError> {
        if self.within.may_copy() {
            let place = (to, &Condition::None);
            match self.to.store.copies().copy(&mut callers.2, self.bucket, object, place, &|_| ()) {
                Ok(()) => {
                    self.within.copied();
                    self.copy.hears.moved(&self.to.url(to), object.size);
                    return Ok(None);
                }
                Err(error) if !error.is_withheld() => return Err(error),
                Err(error) => {
                    if self.within.refused() {
                        let note = format!("{error}; what the store does not copy itself comes through here");
                        self.copy.hears.notes(note);
                    }
                    tracing::info!("{error}; it comes through here");
                }
            }
        }
        let version = object.version.as_ref().map(|version| version.id.clone());
        let looked = self.look(callers, object)?;
        let gone = || StoreError::Absent(format!("{} was deleted meanwhile", self.from.url(&object.key)));
        let looked = looked.ok_or_else(gone)?;
        let shown = self.from.url(&object.key);
        let ends = (self.from.store, self.to.store.fields());
        let through = Through::fitted(&mut callers.0, ends, shown, looked, version.as_deref(), &self.sides);
        let Through { mut source, attributes, .. } = through.map_err(|error| error.at(End::Source))?;
        source.kept = source.kept.filter(|_| !self.ignores_digest);
        let size = Some(source.size);
        let (source, key) = (JobSource::Elsewhere(Arc::new(source)), to.to_owned());
        Ok(Some(Job { source, key, size, attributes, share: None }))
    }
}
