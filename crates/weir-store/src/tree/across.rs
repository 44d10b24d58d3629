//! From one prefix to another of the same store, which copies the objects itself.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};

use parking_lot::Mutex;
use weir_tree::Name;

use super::content;
use super::decide::{Decision, decide};
use super::known::{Known, facts_of};
use super::names::name_of;
use super::seen::SeenNames;
use super::{Copy, StorePlace};
use crate::caller::Caller;
use crate::error::StoreError;
use crate::glob::Glob;
use crate::key;
use crate::listing::{Chosen, Listed, PagesSetup, ahead};

/// Objects that wait for a thread.
const WAITING: usize = 256;

/// A copy between two prefixes.
pub struct Across<'a> {
    /// What all ways have in common.
    pub copy: Copy<'a>,
    /// From where.
    pub from: StorePlace<'a>,
    /// Its bucket.
    pub bucket: &'a str,
    /// The keys that are meant; `None`: all with the prefix.
    pub glob: Option<&'a Glob>,
    /// Where to.
    pub to: StorePlace<'a>,
    /// One object alone, which gets this key.
    pub only: Option<String>,
    /// Keys that the list has, for [`super::prune::there`].
    pub seen: Option<&'a Mutex<SeenNames>>,
}

/// Copies what is `chosen`. Returns how many objects the list had and the pattern took.
pub fn run(across: &Across<'_>, chosen: Chosen<'_>, stop: &AtomicBool) -> Result<usize, StoreError> {
    let known = Known::new(across.to);
    let found = AtomicUsize::new(0);
    let (to, from) = sync_channel::<Listed>(WAITING);
    let from = &Mutex::new(from);
    std::thread::scope(|scope| {
        // The threads end when it does.
        let to = to;
        let local = |error: std::io::Error| StoreError::Local(format!("cannot start a thread: {error}"));
        let pages = chosen.pages(scope, across.copy.caller).map_err(local)?;
        let prefix = across.only.clone().unwrap_or_else(|| across.to.prefix.to_owned());
        let shown = across.to.shown.trim_end_matches('/').to_owned();
        let setup = PagesSetup { lists: across.to.lists(), prefix, delimiter: None, versions: false, shown };
        let there = ahead(scope, setup, across.copy.caller).map_err(local)?;
        let known = &known;
        if known.take(&there)? {
            // An error of the list costs its help alone.
            scope.spawn(move || while known.take(&there).unwrap_or(false) {});
        }
        for _ in 0..across.copy.at_once {
            let worker = std::thread::Builder::new().name("copy".to_owned());
            worker.spawn_scoped(scope, move || across.work(from, known, stop)).map_err(local)?;
        }
        for page in pages {
            for object in page?.objects {
                if across.glob.is_some_and(|glob| !glob.matches(&object.key)) {
                    continue;
                }
                found.fetch_add(1, Relaxed);
                if stop.load(Relaxed) || to.send(object).is_err() {
                    return Ok(());
                }
            }
        }
        Ok::<(), StoreError>(())
    })?;
    Ok(found.into_inner())
}

impl Across<'_> {
    fn work(&self, from: &Mutex<Receiver<Listed>>, known: &Known<'_>, stop: &AtomicBool) {
        let mut caller = Caller::new(self.copy.caller);
        loop {
            let object = from.lock().recv();
            let Ok(object) = object else { return };
            if stop.load(Relaxed) {
                continue;
            }
            let rest = object.key.strip_prefix(self.from.prefix).unwrap_or(&object.key);
            let to = self.only.clone().unwrap_or_else(|| format!("{}{rest}", self.to.prefix));
            match self.one(&mut caller, known, &object, rest, &to) {
                Ok(()) => {}
                Err(_) if stop.load(Relaxed) => {}
                Err(error) => self.copy.hears.fails(&self.to.url(&to), error.to_string()),
            }
        }
    }

    fn one(
        &self,
        caller: &mut Caller<'_>,
        known: &Known<'_>,
        object: &Listed,
        rest: &str,
        to: &str,
    ) -> Result<(), StoreError> {
        // A key that no file could have goes by no rule, and is copied.
        let bare = rest.trim_end_matches('/');
        let name = name_of(bare).ok().filter(|name: &Name| !name.is_root());
        if self.only.is_none() && name.is_some_and(|name| !self.copy.takes(&name, bare.len() < rest.len())) {
            return Ok(());
        }
        if let Some(seen) = self.seen {
            let kept = seen.lock().insert(rest.as_bytes());
            kept.map_err(|error| StoreError::Local(error.to_string()))?;
        }
        if to.len() > key::MOST {
            return Err(StoreError::Local(super::Unholdable::LongKey.to_string()));
        }
        let there = known.at(caller, to)?;
        let mut decision = decide(self.copy.rules, &facts_of(object), there.as_ref());
        if decision == Decision::AskContent {
            let version = object.version.as_ref().map(|version| version.id.as_str());
            let one = self.from.lists().look(caller, &object.key, version)?;
            let other = self.to.lists().look(caller, to, None)?;
            let digests =
                (one.as_ref().and_then(content::digest_of), other.as_ref().and_then(content::digest_of));
            let is_same = matches!(digests, (Some(one), Some(other)) if one == other);
            decision = if is_same { Decision::Same } else { Decision::Move };
        }
        let shown = self.to.url(to);
        match decision {
            Decision::Leave => {}
            Decision::Same => self.copy.hears.unchanged(&shown, object.size),
            _ => {
                self.copy.hears.moves(&shown, object.size);
                if !self.copy.is_dry {
                    self.to.store.copies().copy(caller, self.bucket, object, to)?;
                    self.copy.hears.moved(&shown, object.size);
                }
            }
        }
        Ok(())
    }
}
