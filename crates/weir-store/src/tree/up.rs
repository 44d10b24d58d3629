//! From folders and files into a prefix of a store: the walk goes ahead, and each file it meets is decided on and
//! sent by one of several threads.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use parking_lot::Mutex;
use weir_get::GetError;
use weir_get::http::call::Content;
use weir_tree::source::unchanged;
use weir_tree::walk::{Root, Wanted};
use weir_tree::{Entry, Kind, Name, Source, Step, Walk};
use weir_units::limiter::Limiter;

use super::content;
use super::decide::{Decision, Facts, decide};
use super::down::facts_of_file;
use super::known::Known;
use super::names::key_of;
use super::{Copy, Place};
use crate::caller::Caller;
use crate::error::StoreError;
use crate::listing::{PagesSetup, ahead, mtime_text};
use crate::upload::{Attributes, Condition, Finish, Object, Part, Sum, Upload, Uploads};

/// Files that wait for a thread: each holds its folder open.
const WAITING: usize = 64;

/// The largest object that is sent in one request: beyond it what breaks is not sent again as a whole.
const SINGLE: u64 = 64 << 20;

/// The size of a part, unless the store wants larger ones for so large an object.
const PART: u64 = 16 << 20;

/// A copy into a store.
pub struct Up<'a> {
    /// What all ways have in common.
    pub copy: Copy<'a>,
    /// Where to.
    pub to: Place<'a>,
    /// What is copied.
    pub roots: Vec<Root>,
    /// What the walk looks at.
    pub wanted: Wanted,
    /// The key of the one file that is copied.
    pub only: Option<String>,
    /// For each object: what the user wants to be kept with it.
    pub attributes: Attributes,
    /// `--limit-rate`.
    pub limiter: Option<&'a Limiter>,
    /// Bytes sent so far.
    pub sent: &'a AtomicU64,
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
}

/// Copies. Returns when all files have ended, or the run was stopped.
pub fn run(up: &Up<'_>, stop: &AtomicBool) -> Result<Walked, StoreError> {
    let known = Known::new(up.to);
    let failed: Mutex<Option<StoreError>> = Mutex::default();
    let over = AtomicBool::new(false);
    let (to, from) = sync_channel(WAITING);
    let from = &Mutex::new(from);
    let walked = std::thread::scope(|scope| -> Result<Walked, StoreError> {
        let local = |error: std::io::Error| StoreError::Local(format!("cannot start a thread: {error}"));
        let shown = up.to.shown.trim_end_matches('/').to_owned();
        let prefix = up.only.clone().unwrap_or_else(|| up.to.prefix.to_owned());
        let setup = PagesSetup { lists: up.to.lists(), prefix, delimiter: None, versions: false, shown };
        let pages = ahead(scope, setup, up.copy.caller).map_err(local)?;
        // Of most trees it is all of the list.
        if known.take(&pages)? {
            let (known, failed, over) = (&known, &failed, &over);
            scope.spawn(move || {
                loop {
                    match known.take(&pages) {
                        Ok(true) if !over.load(Relaxed) => {}
                        Ok(_) => return,
                        // It was a help; each file can be asked for.
                        Err(error) => return *failed.lock() = Some(error),
                    }
                }
            });
        }
        let known = &known;
        let workers: Vec<_> = (0..up.copy.at_once)
            .map(|_| {
                let worker = std::thread::Builder::new().name("send".to_owned());
                worker.spawn_scoped(scope, move || up.work(from, known, stop)).map_err(local)
            })
            .collect::<Result<_, _>>()?;
        let walked = up.walk(to, stop);
        for worker in workers {
            let _ = worker.join();
        }
        over.store(true, Relaxed);
        Ok(walked)
    })?;
    if let Some(error) = failed.into_inner() {
        up.copy.hears.notes(format!("{error}; each file was asked for by itself instead"));
    }
    Ok(walked)
}

impl Up<'_> {
    /// Hands on the files of the walk.
    fn walk(&self, to: SyncSender<Met>, stop: &AtomicBool) -> Walked {
        let mut walked = Walked::default();
        // Of each folder that the walk is in: a file was met in it, or below.
        let mut full: Vec<bool> = Vec::new();
        for step in Walk::new(self.roots.clone(), self.copy.filter.clone(), self.wanted) {
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
                    if let Some(met) = self.meet(entry, source, &mut walked)
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

    fn meet(&self, entry: Entry, source: Source, walked: &mut Walked) -> Option<Met> {
        let fails = |why: String| self.copy.hears.fails(&entry.name.to_string(), why);
        match entry.kind {
            Kind::File { .. } => match self.key(&entry.name) {
                Ok(key) => return Some(Met { entry, source, key }),
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

    fn key(&self, name: &Name) -> Result<String, String> {
        match &self.only {
            Some(key) => Ok(key.clone()),
            None => key_of(self.to.prefix, name).map_err(|error| error.to_string()),
        }
    }

    fn work(&self, from: &Mutex<Receiver<Met>>, known: &Known<'_>, stop: &AtomicBool) {
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
                Ok(()) => {}
                Err(_) if stop.load(Relaxed) => {}
                Err(error) => self.copy.hears.fails(&shown, error.to_string()),
            }
        }
    }

    fn one(&self, caller: &mut Caller<'_>, known: &Known<'_>, met: &Met) -> Result<(), StoreError> {
        let (shown, size) = (self.to.url(&met.key), met.entry.size());
        let own = facts_of_file(&met.entry);
        let there = known.at(caller, &met.key)?;
        let mut decision = decide(self.copy.rules, &own, there.as_ref());
        if decision == Decision::AskTime {
            let looked = known.look(caller, &met.key)?;
            decision = decide(self.copy.rules, &own, looked.as_ref());
        }
        if decision == Decision::AskContent {
            decision = self.compare(caller, met)?;
        }
        match decision {
            Decision::Leave => {}
            Decision::Same => self.copy.hears.unchanged(&shown, size),
            _ if self.copy.is_dry => self.copy.hears.moves(&shown, size),
            _ => {
                self.copy.hears.moves(&shown, size);
                self.send(caller, met, &own)?;
                self.copy.hears.moved(&shown, size);
            }
        }
        Ok(())
    }

    fn compare(&self, caller: &mut Caller<'_>, met: &Met) -> Result<Decision, StoreError> {
        let looked = self.to.lists().look(caller, &met.key, None)?;
        let Some((algorithm, value)) = looked.as_ref().and_then(content::digest_of) else {
            return Ok(Decision::Move);
        };
        let file = met.source.open(&met.entry).map_err(|error| StoreError::Local(error.to_string()))?;
        let own = content::digest(&file, algorithm, 0, met.entry.size());
        Ok(if own.is_ok_and(|own| own == value) { Decision::Same } else { Decision::Move })
    }

    fn send(&self, caller: &mut Caller<'_>, met: &Met, facts: &Facts) -> Result<(), StoreError> {
        let local = |error: weir_tree::TreeError| StoreError::Local(error.to_string());
        let file = met.source.open(&met.entry).map_err(local)?;
        let mut attributes = self.attributes.clone();
        if let super::decide::Mtime::Known(time) = facts.mtime
            && !attributes.metadata.iter().any(|(name, _)| name == "mtime")
        {
            attributes.metadata.push(("mtime".to_owned(), mtime_text(time)));
        }
        let object = Object { key: &met.key, attributes: &attributes, condition: &Condition::None };
        let sending = Sending { up: self, uploads: self.to.store.uploads(), file: &file, met };
        let bounds = sending.uploads.bounds();
        if met.entry.size() > bounds.most {
            let most = weir_units::Bytes(bounds.most);
            return Err(StoreError::Local(format!("cannot be an object: the largest one there has {most}")));
        }
        match met.entry.size() <= SINGLE.min(bounds.most_single) {
            true => sending.whole(caller, object)?,
            false => sending.in_parts(caller, object)?,
        }
        match unchanged(&file, &met.entry).map_err(local)? {
            true => Ok(()),
            false => {
                Err(StoreError::Local("it changed while it was read; run the same command again".to_owned()))
            }
        }
    }
}

/// A file on its way.
struct Sending<'a> {
    up: &'a Up<'a>,
    uploads: &'a dyn Uploads,
    file: &'a File,
    met: &'a Met,
}

impl Sending<'_> {
    fn whole(&self, caller: &mut Caller<'_>, object: Object<'_>) -> Result<(), StoreError> {
        let size = self.met.entry.size();
        let sum = self.sum(0, size)?;
        self.uploads.put(caller, &object, sum.as_ref(), &mut self.content(0, size)).map(drop)
    }

    fn in_parts(&self, caller: &mut Caller<'_>, object: Object<'_>) -> Result<(), StoreError> {
        let algorithm = self.uploads.algorithms().first().copied();
        let id = self.uploads.begin(caller, &object, algorithm)?;
        let upload = Upload { object, id: &id };
        let sent = self.parts(caller, &upload);
        if sent.is_err()
            && let Err(error) = self.uploads.abort(caller, &upload)
        {
            tracing::warn!("the upload {id} of {} is left: {error}", self.up.to.url(object.key));
        }
        sent
    }

    fn parts(&self, caller: &mut Caller<'_>, upload: &Upload<'_>) -> Result<(), StoreError> {
        let (size, bounds) = (self.met.entry.size(), self.uploads.bounds());
        let part = PART.max(bounds.least_part).max(size.div_ceil(u64::from(bounds.parts)));
        let mut parts = Vec::new();
        for (number, start) in (1..).zip((0..size).step_by(usize::try_from(part).unwrap_or(usize::MAX))) {
            let length = part.min(size - start);
            let sum = self.sum(start, length)?;
            let content = &mut self.content(start, length);
            let tag = self.uploads.part(caller, upload, number, sum.as_ref(), content)?;
            parts.push(Part { number, tag, sum });
        }
        self.uploads.complete(caller, upload, &Finish { parts: &parts, size, whole: None }).map(drop)
    }

    /// What the store checks it by.
    fn sum(&self, start: u64, length: u64) -> Result<Option<Sum>, StoreError> {
        let Some(algorithm) = self.uploads.algorithms().first().copied() else { return Ok(None) };
        let value = content::digest(self.file, algorithm, start, length);
        let value = value
            .map_err(|error| StoreError::Local(format!("cannot read it: {}", weir_units::plain(&error))))?;
        Ok(Some(Sum { algorithm, value }))
    }

    fn content(&self, start: u64, length: u64) -> Piece<'_> {
        Piece { sending: self, start, length, at: 0 }
    }
}

/// A range of a file, as a request carries it.
struct Piece<'a> {
    sending: &'a Sending<'a>,
    start: u64,
    length: u64,
    at: u64,
}

impl Content for Piece<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn rewind(&mut self) -> Result<(), GetError> {
        self.at = 0;
        Ok(())
    }

    fn next(&mut self, buffer: &mut [u8]) -> Result<usize, GetError> {
        let up = self.sending.up;
        let piece = up.limiter.map_or(buffer.len(), |limiter| limiter.piece().min(buffer.len()));
        let left = usize::try_from(self.length - self.at).unwrap_or(usize::MAX);
        let buffer = &mut buffer[..piece.min(left)];
        let read = self.sending.file.read_at(buffer, self.start + self.at);
        let got = read.map_err(|source| GetError::Local {
            action: "read",
            path: self.sending.met.entry.name.as_path().to_owned(),
            source,
            kept: None,
        })?;
        self.at += got as u64;
        up.sent.fetch_add(got as u64, Relaxed);
        if let Some(limiter) = up.limiter {
            std::thread::sleep(limiter.book(got as u64, Instant::now()));
        }
        Ok(got)
    }
}
