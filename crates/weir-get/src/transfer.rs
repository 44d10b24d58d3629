//! One bulk object on its way: its ledger, its sink, its journal, its digests, shared by the lanes at work on
//! it. What becomes of it is decided by its [`Download`].

use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use url::Url;

use crate::download::{Bulk, Download, Remains};
use crate::error::{Fate, GetError};
use crate::job::{FileReport, Job, JobOutcome, Options, UnderWay};
use crate::ledger::{LaneId, Ledger};
use crate::object;
use crate::ranges::RangeSet;
use crate::sink::part_file::journal_of;
use crate::sink::{PartFile, Sink, stream};
use crate::verify::{self, Expectation, Follower, Found};
use crate::version::Version;
use weir_observe::stage_clock::{Stage, StageClock};

/// A bulk object at work.
pub struct Transfer {
    /// The number of its job.
    pub job: usize,
    /// Its job.
    pub task: Arc<Job>,
    /// As asked for.
    pub url: Url,
    /// After redirects; where parts are fetched.
    pub location: Mutex<Url>,
    /// Announced size.
    pub size: Option<u64>,
    /// What each further answer must prove to be of.
    pub version: Arc<Version>,
    /// What becomes of it. Locked after the pool and the ledger, where one holds several.
    download: Mutex<Download>,
    /// Bytes that an earlier run left.
    pub resumed_from: u64,
    /// Which bytes are done and who works on the rest.
    pub ledger: Mutex<Ledger>,
    /// Where they go.
    pub sink: Sink,
    /// The digest thread, if a digest is wanted.
    pub follower: Option<Follower>,
    /// Digests it must have.
    pub expectations: Vec<Expectation>,
    /// What was passed over, left out or overridden to get it.
    pub notes: Mutex<Vec<String>>,
    /// Lanes that brought bytes.
    pub carriers: Mutex<BTreeSet<LaneId>>,
    /// It has all the digests that it was to have.
    is_as_expected: AtomicBool,
    /// What the last durable journal covers.
    durable: Mutex<RangeSet>,
}

/// What opens a transfer.
pub struct Opening {
    /// The number of the job.
    pub job: usize,
    /// The job.
    pub task: Arc<Job>,
    /// As asked for.
    pub url: Url,
    /// After redirects.
    pub location: Url,
    /// Announced size.
    pub size: Option<u64>,
    /// Of the first answer.
    pub version: Version,
    /// Parts can be asked for.
    pub ranged: bool,
    /// What is here already.
    pub done: RangeSet,
    /// What of it an fdatasync confirmed.
    pub durable: RangeSet,
    /// Where bytes go.
    pub sink: Sink,
    /// Digests it must have.
    pub expectations: Vec<Expectation>,
    /// What was passed over or left out to open it.
    pub notes: Vec<String>,
}

impl Transfer {
    /// A transfer with its first answer at hand, which takes the job's `download` over.
    pub fn new(opening: Opening, download: &mut Download) -> Result<Transfer, GetError> {
        let methods = verify::methods(&opening.expectations);
        let follower = match opening.sink.part() {
            Some(part) if !methods.is_empty() => {
                let file = part.file().try_clone().map_err(|source| part.failed("open", source, None))?;
                let follower = Follower::start(file, methods).map_err(|e| part.failed("verify", e, None))?;
                follower.advance(opening.done.prefix());
                Some(follower)
            }
            _ => None,
        };
        let resumed_from = opening.done.len();
        let version = Arc::new(opening.version);
        let to_file = opening.sink.part().is_some();
        let bulk = Bulk::new(Arc::clone(&version), opening.size, opening.ranged, to_file, resumed_from);
        let mut download = std::mem::replace(download, Download::replaced());
        download.on_bulk(bulk);
        let ledger = match opening.sink.part() {
            Some(_) => Ledger::new(opening.size, opening.done),
            None => Ledger::in_order(opening.size),
        };
        Ok(Transfer {
            job: opening.job,
            task: opening.task,
            url: opening.url,
            location: Mutex::new(opening.location),
            size: opening.size,
            version,
            download: Mutex::new(download),
            resumed_from,
            ledger: Mutex::new(ledger),
            sink: opening.sink,
            follower,
            expectations: opening.expectations,
            notes: Mutex::new(opening.notes),
            carriers: Mutex::default(),
            is_as_expected: AtomicBool::new(true),
            durable: Mutex::new(opening.durable),
        })
    }

    /// How far it is.
    pub fn under_way(&self) -> UnderWay {
        let target = self.sink.part().and_then(|part| part.target().file_name());
        let name = match target {
            Some(name) => name.to_string_lossy().into_owned(),
            None => object::name_from_url(&self.url),
        };
        let done = self.ledger().done().len();
        let grows_at = self.sink.part().and_then(PartFile::grows_at).map(Path::to_owned);
        match &self.task.piece {
            Some(piece) => UnderWay {
                name,
                done: done.saturating_sub(self.resumed_from),
                size: Some(piece.end - piece.start),
                grows_at: None,
            },
            None => UnderWay { name, done, size: self.size, grows_at },
        }
    }

    /// Keeps a note once.
    pub fn note(&self, note: String) {
        let mut notes = self.notes.lock();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// What becomes of it, locked.
    pub fn download(&self) -> MutexGuard<'_, Download> {
        self.download.lock()
    }

    /// The ledger, locked.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    /// Hands the first bytes that belong to nobody to `lane`; of what goes out in order a block, of which
    /// `lanes` have one each, that is due soon.
    pub(crate) fn claim_gap(&self, ledger: &mut Ledger, lane: LaneId, lanes: u32) -> Option<Range<u64>> {
        match &self.sink {
            Sink::Part(_) => ledger.claim_gap(lane, u64::MAX, u64::MAX),
            Sink::Stream(sink) => {
                ledger.claim_gap(lane, stream::block(lanes), sink.written() + stream::WINDOW)
            }
        }
    }

    /// Writes the first bytes of `pieces` that belong to `lane` at its position. Returns how many of `length`
    /// those were.
    pub fn take<'a>(
        &self,
        lane: LaneId,
        length: u64,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<u64, GetError> {
        let (at, granted) = {
            let mut ledger = self.ledger();
            let Some(claim) = ledger.claim(lane) else { return Ok(0) };
            (claim.start, ledger.reserve(lane, length))
        };
        let mut left = usize::try_from(granted).unwrap_or(usize::MAX);
        let mut slices = Vec::with_capacity(4);
        for piece in pieces {
            let part = &piece[..piece.len().min(left)];
            left -= part.len();
            if !part.is_empty() {
                slices.push(IoSlice::new(part));
            }
        }
        self.sink.write_at(at, &mut slices)?;
        let prefix = {
            let mut ledger = self.ledger();
            ledger.commit(lane);
            ledger.done().prefix()
        };
        if let Some(follower) = &self.follower {
            follower.advance(prefix);
        }
        Ok(granted)
    }

    /// The rest could be fetched by a later run.
    pub(crate) fn is_resumable(&self) -> bool {
        self.sink.part().is_some_and(PartFile::keeps_journal) && self.download().is_resumable()
    }

    /// Stores what is done, unless the transfer is over. `durable` first waits for the disk.
    pub fn journal(&self, durable: bool) -> Result<(), GetError> {
        let Some(part) = self.sink.part().filter(|_| self.is_resumable()) else { return Ok(()) };
        let mut written = self.ledger().done().clone();
        let synced = if durable { part.sync() } else { part.sync_error() };
        let mut confirmed = self.journalling();
        if synced.is_err() {
            // What a failed sync lost is not known, so nothing is claimed that the disk did not have before.
            written.clone_from(&confirmed);
        } else if durable {
            confirmed.clone_from(&written);
        }
        if !self.download().is_over() {
            self.store(part, &written, &confirmed, durable)?;
        }
        synced
    }

    /// The last journal of a transfer that ends incomplete.
    pub(crate) fn journal_at_end(&self) -> Result<(), GetError> {
        let Some(part) = self.sink.part().filter(|_| self.is_resumable()) else { return Ok(()) };
        let confirmed = self.journalling();
        // The kernel tells of lost bytes once: the next run would take them for good.
        let written = part.sync_error().map_or_else(|_| confirmed.clone(), |()| self.ledger().done().clone());
        self.store(part, &written, &confirmed, false)
    }

    fn store(
        &self,
        part: &PartFile,
        written: &RangeSet,
        confirmed: &RangeSet,
        durable: bool,
    ) -> Result<(), GetError> {
        let url = object::identity(&self.url);
        let size = self.size.unwrap_or_default();
        part.store(&journal_of(&url, &self.version, size, written, confirmed), durable)
    }

    /// Nothing of it is worth keeping: it begins anew.
    pub(crate) fn discard(&self) {
        let _held = self.journalling();
        if let Some(part) = self.sink.part() {
            part.discard();
        }
    }

    /// Held while the journal's file changes, so that none is stored after the file has got its name, or has
    /// gone.
    fn journalling(&self) -> MutexGuard<'_, RangeSet> {
        self.durable.lock()
    }

    /// All bytes are here: checks the digests and gives the file its name, unless `go_on` says before that
    /// the run ends. `clock` is the calling thread's.
    pub fn finish(
        &self,
        options: &Options,
        go_on: &dyn Fn() -> bool,
        clock: &StageClock,
    ) -> Result<Vec<Found>, GetError> {
        let size = self.ledger().size().unwrap_or_default();
        let name = self.name();
        // The digest's thread has a clock of its own; this one has nothing to do until it is through.
        clock.enter(Stage::Idle);
        let found = match (&self.follower, &self.sink) {
            (Some(follower), Sink::Part(part)) => {
                follower.finish(size, go_on).map_err(|source| match source.kind() {
                    io::ErrorKind::Interrupted => GetError::Interrupted,
                    _ => part.failed("read back", source, None),
                })?
            }
            (_, Sink::Stream(stream)) => stream.finish(),
            _ => Vec::new(),
        };
        let fate = if self.sink.part().is_some() { Fate::Discarded } else { Fate::PassedOn };
        let ignored = verify::check(&name, &self.expectations, &found, fate)?;
        self.is_as_expected.store(ignored.is_empty(), Relaxed);
        ignored.into_iter().for_each(|note| self.note(note));
        // Renaming and syncing are the disk's work.
        clock.enter(Stage::Write);
        if let Some(part) = self.sink.part() {
            if self.size.is_none() {
                part.set_size(size)?;
            }
            part.settle(options.sync)?;
            if self.task.piece.is_some() {
                // Whoever removed the part took these bytes with it: a new file of its name lacks them.
                return match part.has_its_name() {
                    true => Ok(found),
                    false => Err(part.failed("fill the part of", io::ErrorKind::NotFound.into(), None)),
                };
            }
            let _held = self.journalling();
            part.publish_while(options.sync, go_on)?;
            options.stamping().give(part.place(), Some(&self.url), &self.version, size);
        }
        Ok(found)
    }

    /// Lets go of what is here after `error`: keeps it where a later run can go on from it.
    pub fn give_up(&self, error: GetError) -> JobOutcome {
        let kept = self.ledger().done().len();
        let _held = self.journalling();
        let is_resumable = self.is_resumable();
        let remains = self.sink.part().map_or(Remains::Stream, |part| Remains::Part {
            kept,
            is_precious: part.is_precious(),
            is_there: part.is_there(),
            will_be_found: part.will_be_found(),
            is_resumable,
        });
        let ending = self.download().on_given_up(error, remains);
        if let Some(part) = self.sink.part().filter(|_| ending.discards) {
            part.discard();
        }
        ending.outcome
    }

    /// The report of its end.
    pub fn report(&self, outcome: JobOutcome, found: &[Found]) -> FileReport {
        FileReport {
            url: object::shown(&self.url),
            path: self.path(),
            bytes: self.ledger().done().len(),
            resumed_from: self.resumed_from,
            connections: self.carriers.lock().len() as u32,
            digest: verify::whole(found),
            verified: !self.expectations.is_empty()
                && self.is_as_expected.load(Relaxed)
                && matches!(outcome, JobOutcome::Complete),
            outcome,
            notes: self.notes.lock().clone(),
            body: None,
        }
    }

    /// The file it becomes, or the pipe or device it goes to.
    pub fn path(&self) -> Option<PathBuf> {
        self.sink.target().map(Path::to_owned)
    }

    /// The file's own name, without its folder; for a stream the one that the URL gives.
    pub fn file_name(&self) -> String {
        let own =
            self.sink.part().and_then(|part| Some(part.target().file_name()?.to_string_lossy().into_owned()));
        own.unwrap_or_else(|| object::name_from_url(&self.url))
    }

    fn name(&self) -> String {
        match self.path() {
            Some(path) => path.display().to_string(),
            None => object::shown(&self.url),
        }
    }
}
