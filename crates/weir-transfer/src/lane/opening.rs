//! From a job to its object: what an earlier run left, the first answer, and where its bytes go.
//!
//! Small objects end here; others become transfers, which `carrying` goes on with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use url::Url;
use weir_codec::digest::{Algorithm, Expected};
use weir_units::Bytes;

use super::failing::LOOKS;
use super::{Lane, decode, home_of, refuse_disagreement, refuse_unfit};
use crate::engine::Run;
use crate::error::{DECLARED, Error, Fate};
use crate::http::exchange::{Answer, Exchange};
use crate::job::{FileReport, Job, Outcome, Output};
use crate::journal::Journal;
use crate::object::{self, Object, Part};
use crate::pool::{LEAST_PART, Place, Waiting};
use crate::ranges::RangeSet;
use crate::sink::stamp::Stamp;
use crate::sink::{self, PartFile, Sink, Stream, stream};
use crate::transfer::{Opening, Transfer};
use crate::verify::{self, Expectation, Whose};
use crate::version::Version;
use weir_model::decision::Restart;
use weir_observe::stage_clock::Stage;

/// Objects up to this size are read whole and written in one piece.
const SMALL: u64 = 1 << 20;

/// Larger objects than this leave a shared HTTP/2 connection for one of their own.
const HTTP2_MAX: u64 = 4 << 20;

/// How long an answer is left unread while other lanes have all places. A server gives up after a minute (nginx's `send_timeout`,
/// Apache's `Timeout`), some after ten seconds, and of a body without a length what it then cut off would pass for the whole.
const HELD: Duration = Duration::from_secs(5);

/// How opening a job went on.
pub(super) enum Opened {
    /// It ended with this report.
    Done(Box<FileReport>),
    /// It became a transfer, which this lane has carried as far as it could.
    Bulk(Arc<Transfer>, Result<(), Error>),
}

impl Lane<'_> {
    pub(super) fn open(&mut self, waiting: Waiting) {
        let job = &self.run.jobs[waiting.job];
        self.client.may_put_aside(Some(waiting.aside()));
        let opened = self.try_open(&waiting, job);
        self.client.may_put_aside(None);
        self.count();
        match opened {
            Ok(Opened::Done(report)) => {
                self.state.objects.fetch_add(1, Relaxed);
                self.run.pool.report(waiting.job, *report);
                self.run.pool.on_small_object(Instant::now());
            }
            Ok(Opened::Bulk(transfer, result)) => self.after_part(&transfer, result),
            Err(error) => {
                self.state.kick.store(false, Relaxed);
                self.open_failed(waiting, job, error);
            }
        }
    }

    fn open_failed(&mut self, mut waiting: Waiting, job: &Job, error: Error) {
        if matches!(error, Error::Interrupted | Error::Dropped) && !self.run.is_stopped() {
            return self.run.pool.requeue(waiting, Duration::ZERO);
        }
        if let Error::NamePending(name) = error {
            return self.run.pool.put_aside(waiting, name);
        }
        let error = self.for_later(waiting.job, error);
        waiting.failures += 1;
        if !error.is_permanent() && waiting.failures <= self.run.options.retries {
            let pause = self.pause(waiting.failures, &error);
            self.say_pause(waiting.job, &job.url, &error, pause);
            if error.is_overload() {
                self.avoid(waiting.job, pause);
            }
            return self.run.pool.requeue(waiting, pause);
        }
        self.run.pool.report(waiting.job, failed_before_opening(self.run, job, error));
    }

    /// Asks for the object and does with the answer what its size and kind call for.
    fn try_open(&mut self, waiting: &Waiting, job: &Job) -> Result<Opened, Error> {
        let mut target = target_before(job);
        let mut checked = false;
        // What is decoded on the way cannot be gone on with or compared, and neither can parts of it be asked for.
        let is_compressed = self.run.http.is_compressed();
        let may_use_what_is_here = !self.run.options.fresh && waiting.restarts == 0 && !is_compressed;
        let asks_for_parts = self.run.http.asks_for_parts() && !is_compressed;
        let mut use_saved = may_use_what_is_here && asks_for_parts;
        // What is here is worth a question (`-N`), and a look whether it can be gone on with (`-C -`).
        let mut compares = may_use_what_is_here && self.run.options.newer;
        let mut adopts = self.run.options.go_on;
        // A list that comes in parts would be taken for whole.
        let ranged = !matches!(job.output, Output::Memory(_)) && asks_for_parts && !waiting.plain;
        loop {
            if let Some(target) = &target
                && !checked
            {
                if let Some(report) = self.check_target(job, target)? {
                    return Ok(Opened::Done(Box::new(report)));
                }
                checked = true;
            }
            let saved = match &target {
                Some(target) if use_saved && !self.run.is_fresh_folder(target) => {
                    self.saved(waiting.job, job, target)?
                }
                _ => None,
            };
            if let Some((part, journal)) = saved {
                match self.resume(waiting, job, part, &journal)? {
                    Some(opened) => return Ok(opened),
                    None => use_saved = false,
                }
                continue;
            }
            if let Some(target) = target.as_deref().filter(|_| use_saved && ranged && adopts) {
                adopts = false;
                if let Some(opened) = self.go_on_after_another(waiting, job, target)? {
                    return Ok(opened);
                }
                use_saved = !self.has_journal(target);
            }
            let here = target.as_deref().filter(|_| compares).and_then(|target| self.stamp(target));
            let range = ranged.then_some((0, None));
            let mut answer = self.ask_unless(job, range, here.as_ref())?;
            if let (304, Some(here), Some(target)) = (answer.head.status, &here, &target) {
                match self.not_modified(job, target, here, answer)? {
                    Some(report) => return Ok(Opened::Done(report)),
                    None => compares = false,
                }
                continue;
            }
            let object = match answer.judge(range.map(|_| 0)) {
                Ok(Part::Asked(object) | Part::Whole(object)) => object,
                // An empty object shown by a 416: believed where that brings no word of an error with it.
                Ok(Part::Empty) if answer.body.left() == Some(0) => empty(),
                Ok(Part::Empty) => return Err(status_416(&answer)),
                Ok(Part::Beyond(_)) => return Err(status_416(&answer)),
                Err(error) => {
                    self.client.keep(&answer.url, answer.body);
                    return Err(error);
                }
            };
            let named = match (target_after(job, &answer), &job.output) {
                (Some(named), Output::Folder(_)) => Some(self.run.free_name(named, waiting.job)),
                (named, _) => named,
            };
            if compares && let Some(report) = self.unchanged(job, named.as_deref(), &object)? {
                self.client.close();
                return Ok(Opened::Done(report));
            }
            if named != target {
                // Only now is the name known, and with it whether an earlier run left a part.
                target = named;
                checked = false;
                if let Some(target) = &target
                    && let Some(report) = self.check_target(job, target)?
                {
                    return Ok(Opened::Done(Box::new(report)));
                }
                self.refuse_a_name_taken(job, target.as_deref(), &answer)?;
                if use_saved && target.as_deref().is_some_and(|target| self.has_journal(target)) {
                    continue;
                }
            }
            return self.take_in(waiting, job, target, answer, object);
        }
    }

    /// Errors, and the report of a job that is already done, before anything is asked.
    fn check_target(&self, job: &Job, target: &Path) -> Result<Option<FileReport>, Error> {
        if self.run.is_fresh_folder(target) {
            return Ok(None);
        }
        if let Some(unfit) = sink::unfit(&self.run.target(target)?) {
            return Err(Error::Refused(format!("cannot write {}: it is {unfit}", target.display())));
        }
        match std::fs::metadata(target) {
            Ok(metadata) if metadata.is_dir() && !target.is_symlink() => {
                Err(Error::IsDirectory { path: target.to_owned() })
            }
            Ok(metadata) if self.run.options.no_clobber => {
                let found = self.check_here(job, target)?;
                Ok(Some(FileReport {
                    path: Some(target.to_owned()),
                    bytes: metadata.len(),
                    digest: found.first().cloned(),
                    verified: !found.is_empty(),
                    outcome: Outcome::Skipped,
                    ..blank(job)
                }))
            }
            _ => Ok(None),
        }
    }

    /// A file that stays as it is has what the user expects of it, or it is said.
    pub(super) fn check_here(&self, job: &Job, target: &Path) -> Result<Vec<Expected>, Error> {
        let algorithms = verify::algorithms(&job.expectations);
        if algorithms.is_empty() {
            return Ok(Vec::new());
        }
        self.state.clock.enter(Stage::Other);
        let digests = sink::open_to_read(target)
            .and_then(|file| verify::digests_of_file(file, &algorithms, &|| self.run.is_stopped()));
        let failed = |source| Error::Local { action: "read", path: target.to_owned(), source, kept: None };
        let Some(found) = digests.map_err(failed)? else { return Err(Error::Interrupted) };
        verify::check(&target.display().to_string(), &job.expectations, &found, Fate::LeftAlone)?;
        Ok(found)
    }

    /// A file that is here gives way to one whose name the user wrote, or that its URL has; not to any that a server chooses.
    fn refuse_a_name_taken(&self, job: &Job, target: Option<&Path>, answer: &Answer) -> Result<(), Error> {
        let may_be = self.run.options.fresh;
        let taken = target.filter(|target| !may_be && !self.run.is_fresh_folder(target) && target.exists());
        let Some(target) = taken else { return Ok(()) };
        let here = target.strip_prefix(".").unwrap_or(target).display();
        Err(Error::Refused(format!(
            "{} names {} {here}, which already exists; pass -o {here} or --force to overwrite it",
            object::host_of(&answer.url),
            name_of(job),
        )))
    }

    /// The part file of an earlier run and its journal, locked, if it can be gone on with.
    fn saved(&self, index: usize, job: &Job, target: &Path) -> Result<Option<(PartFile, Journal)>, Error> {
        let place = self.run.target(target)?;
        let home = self.run.home_of(&place)?;
        if !home.has_journal() {
            return Ok(None);
        }
        self.run.take_name(target, index)?;
        let part = PartFile::open(&place, home)?;
        match part.saved(&object::identity(&job.url))? {
            Ok(journal) => Ok(journal.map(|journal| (part, journal))),
            Err(reason) => {
                // What is there goes only when an answer that replaces it has been accepted.
                let name = target.display().to_string();
                tracing::warn!("{}", Restart::Object { name, why: reason.to_string() });
                Ok(None)
            }
        }
    }

    /// Asks for the object; only for another one than is `here`, if that is given.
    fn ask_unless(
        &mut self,
        job: &Job,
        range: Option<(u64, Option<u64>)>,
        here: Option<&Stamp>,
    ) -> Result<Answer, Error> {
        self.client.only_if_changed(here.map(Stamp::unless));
        let answer = self.client.get(home_of(job), &job.url, range, None, self.run.many);
        self.client.only_if_changed(None);
        answer
    }

    /// Goes on from `journal`. `None`: the object changed or the server gives no parts; begin again.
    pub(super) fn resume(
        &mut self,
        waiting: &Waiting,
        job: &Job,
        part: PartFile,
        journal: &Journal,
    ) -> Result<Option<Opened>, Error> {
        let done = journal.stored().without_islands(LEAST_PART, journal.size);
        let durable: RangeSet = journal.durable.iter().map(|&(start, end)| start..end).collect();
        let durable = durable.without_islands(LEAST_PART, journal.size);
        let expectations = job.expectations.clone();
        let opening = |location: Url, version, done, part| Opening {
            job: waiting.job,
            url: job.url.clone(),
            location,
            size: Some(journal.size),
            version,
            ranged: true,
            done,
            durable: durable.clone(),
            sink: Sink::Part(part),
            expectations,
            notes: Vec::new(),
        };
        let version = journal.version();
        let Some(gap) = done.gap_after(0, journal.size) else {
            let transfer = Arc::new(Transfer::new(opening(job.url.clone(), version, done, part))?);
            if self.run.pool.begin_bulk(transfer.job, None) != Place::Taken {
                return Err(Error::Interrupted);
            }
            self.run.pool.activate(&transfer);
            return Ok(Some(Opened::Bulk(transfer, Ok(()))));
        };
        // Bounded by the gap, so that nothing that is here already is sent again.
        let end = Some(gap.end).filter(|end| *end < journal.size);
        let range = Some((gap.start, end));
        let mut why = String::new();
        for _ in 0..LOOKS {
            let asked = self.client.get(home_of(job), &job.url, range, version.if_range(), self.run.many);
            let mut answer = asked?;
            why = match answer.judge(Some(gap.start)) {
                Ok(Part::Asked(object)) if !object.fits(journal.size) => {
                    "the object's size changed".to_owned()
                }
                Ok(Part::Asked(object)) => {
                    match refuse_disagreement(&version, &object.version, object::host_of(&answer.url)) {
                        Err(error) => error.to_string(),
                        Ok(()) => {
                            let mut opening = opening(answer.url.clone(), version, done, part);
                            let holds_to = object.holds_to;
                            self.add_declared(&mut opening.expectations, object);
                            opening.notes.clone_from(&answer.notes);
                            let transfer = Arc::new(Transfer::new(opening)?);
                            return Ok(Some(self.begin(transfer, answer, holds_to)));
                        }
                    }
                }
                Ok(_) => "the object changed on the server, or it gives no parts any more".to_owned(),
                Err(error @ Error::WrongPart { .. }) => error.to_string(),
                Err(error) => return Err(error),
            };
            // Another server behind the same name may have the one that was begun.
            self.client.close();
        }
        tracing::warn!("{}", Restart::Object { name: part.target().display().to_string(), why });
        Ok(None)
    }

    /// The first answer of a fresh object is here: small ones are stored at once, others become transfers.
    fn take_in(
        &mut self,
        waiting: &Waiting,
        job: &Job,
        target: Option<PathBuf>,
        mut answer: Answer,
        mut object: Object,
    ) -> Result<Opened, Error> {
        let name =
            target.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| name_of(job));
        let large = object.size.is_none_or(|size| size > HTTP2_MAX);
        let to_disk = !matches!(job.output, Output::Memory(_));
        if matches!(answer.body, Exchange::Http2(_)) && large && object.ranged && self.run.many && to_disk {
            (answer, object) = self.over_http1(home_of(job), answer)?;
        }
        refuse_unfit(&name, &answer, self.run.options.any_type)?;
        let mut notes = std::mem::take(&mut answer.notes);
        let (mut answer, object, of_coding) = decode(self.run.http, &name, answer, object);
        notes.extend(of_coding);
        let mut expectations = job.expectations.clone();
        self.add_declared(&mut expectations, object.clone());
        if let Some(target) = &target {
            self.run.take_name(target, waiting.job)?;
        }
        let whole = object.holds_to.is_none_or(|end| Some(end) == object.size);
        let small = whole && object.size.is_some_and(|size| size <= SMALL);
        match (&job.output, target) {
            (Output::Memory(limit), _) => {
                let body = self.read_whole(&mut answer, *limit)?;
                self.client.keep(&answer.url, answer.body);
                let bytes = body.len() as u64;
                Ok(Opened::Done(Box::new(FileReport { bytes, body: Some(body), ..blank(job) })))
            }
            (_, Some(target)) if small => {
                let (stored, ignored) = self.store_small(job, &target, answer, object, &expectations)?;
                let verified = stored.verified && ignored.is_empty();
                notes.extend(ignored);
                Ok(Opened::Done(Box::new(FileReport { notes, verified, ..stored })))
            }
            (_, target) => {
                let sink = match target {
                    Some(target) => {
                        let place = self.run.target(&target)?;
                        let part = PartFile::open(&place, self.run.home_of(&place)?)?;
                        part.restart()?;
                        if let Some(size) = object.size {
                            part.reserve(size).inspect_err(|_| part.discard())?;
                        }
                        Sink::Part(part)
                    }
                    None => Sink::Stream(self.stream(job, verify::algorithms(&expectations))?),
                };
                let transfer = Transfer::new(Opening {
                    job: waiting.job,
                    url: job.url.clone(),
                    location: answer.url.clone(),
                    size: object.size,
                    version: object.version,
                    ranged: object.ranged && object.size.is_some(),
                    done: RangeSet::default(),
                    durable: RangeSet::default(),
                    sink,
                    expectations,
                    notes,
                })?;
                Ok(self.begin(Arc::new(transfer), answer, object.holds_to))
            }
        }
    }

    /// The way out for bytes that go on in order.
    fn stream(&self, job: &Job, algorithms: Vec<Algorithm>) -> Result<Stream, Error> {
        match &job.output {
            Output::Pipe(path) => Stream::open(path, algorithms, Arc::clone(self.run.stop), &|| {
                self.sleep(Duration::from_millis(20), Stage::Output);
                !self.run.is_stopped()
            }),
            _ => Stream::stdout(algorithms, Arc::clone(self.run.stop)),
        }
    }

    /// The object on a connection of its own. Nothing of the first answer is kept, so this one may be of another version.
    fn over_http1(&mut self, home: &Url, first: Answer) -> Result<(Answer, Object), Error> {
        let url = first.url.clone();
        drop(first);
        let mut answer = self.client.get(home, &url, Some((0, None)), None, false)?;
        match answer.judge(Some(0))? {
            Part::Asked(own) | Part::Whole(own) => Ok((answer, own)),
            Part::Empty | Part::Beyond(_) => {
                let detail = "it is no longer there over HTTP/1.1; --http2 stays with HTTP/2".to_owned();
                Err(Error::Changed { host: object::host_of(&url), detail })
            }
        }
    }

    fn store_small(
        &mut self,
        job: &Job,
        target: &Path,
        mut answer: Answer,
        object: Object,
        expectations: &[Expectation],
    ) -> Result<(FileReport, Vec<String>), Error> {
        let size = object.size.unwrap_or_default();
        let mut body = std::mem::take(&mut self.scratch);
        body.clear();
        let place = self.run.target(target)?;
        if !self.run.is_fresh_folder(target) && self.has_journal(target) {
            // The object was larger when an earlier run began with it.
            let part = PartFile::open(&place, self.run.home_of(&place)?)?;
            part.restart()?;
            part.discard();
        }
        let read = if size == 0 { Ok(()) } else { self.read_into(&mut answer, &mut body, SMALL as usize) };
        read?;
        if body.len() as u64 != size {
            let (got, expected) = (Bytes(body.len() as u64), Bytes(size).to_string());
            return Err(Error::Truncated { host: object::host_of(&answer.url), got, expected });
        }
        self.client.keep(&answer.url, answer.body);
        self.state.clock.enter(Stage::Other);
        let found = verify::digests_of(&verify::algorithms(expectations), &body);
        let ignored = verify::check(&target.display().to_string(), expectations, &found, Fate::Discarded)?;
        self.state.clock.enter(Stage::Write);
        let home = || self.run.home_of(&place);
        let stored = sink::store_whole(&place, home, &body, self.run.options.sync);
        let took = self.state.clock.current().1;
        self.state.clock.enter(Stage::Other);
        // Not worth a look at the thread's CPU clock: a short write was work, a long one was blocked.
        if took < Duration::from_millis(1) {
            self.state.clock.add_write_cpu(took);
        }
        stored?;
        self.run.options.stamping().give(&place, &object.version, size);
        self.state.written.fetch_add(body.len() as u64, Relaxed);
        let bytes = body.len() as u64;
        self.scratch = body;
        let report = FileReport {
            path: Some(target.to_owned()),
            bytes,
            connections: 1,
            digest: found.first().cloned(),
            verified: !expectations.is_empty(),
            ..blank(job)
        };
        Ok((report, ignored))
    }

    /// The user's word counts; the strongest of the server's is checked beside it.
    pub(super) fn add_declared(&self, expectations: &mut Vec<Expectation>, object: Object) {
        if let Some(one) = object.declared {
            let whose = if self.run.options.ignore_digest { Whose::Ignored } else { Whose::Server };
            let origin = format!("{DECLARED}{}", one.field);
            expectations.push(Expectation { expected: one.expected, origin, whose });
        }
    }

    /// An earlier run may have left a part of `target`.
    fn has_journal(&self, target: &Path) -> bool {
        let home = self.run.target(target).and_then(|place| self.run.home_of(&place));
        home.is_ok_and(|home| home.has_journal())
    }

    fn read_whole(&mut self, answer: &mut Answer, limit: usize) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        self.read_into(answer, &mut body, limit)?;
        Ok(body)
    }

    pub(super) fn read_into(
        &mut self,
        answer: &mut Answer,
        body: &mut Vec<u8>,
        limit: usize,
    ) -> Result<(), Error> {
        let host = object::host_of(&answer.url);
        while !answer.body.is_end() {
            if self.client.dial().is_stopped() {
                return Err(Error::Interrupted);
            }
            let got = answer.body.fill(self.piece(), &self.state.clock, self.client.dial())?;
            if body.len() + got > limit {
                return Err(Error::Refused(format!("{host} sent more than {limit} bytes")));
            }
            answer.body.pieces().for_each(|piece| body.extend_from_slice(piece));
            self.received(got as u64);
        }
        Ok(())
    }

    /// Makes the transfer known and carries the first answer, or one asked for anew where a place for it was long in coming.
    fn begin(&mut self, transfer: Arc<Transfer>, answer: Answer, holds_to: Option<u64>) -> Opened {
        // From here on the job is no longer one that could wait in the queue.
        self.client.may_put_aside(None);
        self.state.clock.enter(Stage::Idle);
        self.began = Instant::now();
        let (place, answer) = match self.run.pool.begin_bulk(transfer.job, Some(HELD)) {
            Place::NotYet => {
                drop(answer);
                self.client.close();
                (self.run.pool.begin_bulk(transfer.job, None), None)
            }
            place => (place, Some(answer)),
        };
        {
            let mut ledger = transfer.ledger();
            match transfer.sink {
                Sink::Part(_) => ledger.claim_gap(self.state.id, u64::MAX, u64::MAX),
                Sink::Stream(_) => {
                    ledger.claim_gap(self.state.id, stream::block(self.run.pool.wanted()), u64::MAX)
                }
            };
        }
        self.run.pool.activate(&transfer);
        let result = match (place, answer) {
            (Place::Taken, Some(answer)) => self.follow(&transfer, answer, holds_to),
            (Place::Taken, None) => self.try_part(&transfer),
            _ => Err(Error::Interrupted),
        };
        Opened::Bulk(transfer, result)
    }
}

/// An object without bytes, as a 416 shows it.
fn empty() -> Object {
    Object { size: Some(0), holds_to: None, version: Version::default(), ranged: false, declared: None }
}

/// The file of a job where it is known before the server is asked.
fn target_before(job: &Job) -> Option<PathBuf> {
    match &job.output {
        Output::File(path) => Some(path.clone()),
        Output::Folder(folder) => Some(folder.join(name_of(job))),
        Output::Pipe(_) | Output::Stdout | Output::Memory(_) => None,
    }
}

fn target_after(job: &Job, answer: &Answer) -> Option<PathBuf> {
    match &job.output {
        Output::Folder(folder) => {
            let named = weir_http::filename::from_header(&answer.head.fields);
            Some(folder.join(named.unwrap_or_else(|| name_of(job))))
        }
        _ => target_before(job),
    }
}

/// What a job's file is called unless the server says otherwise.
fn name_of(job: &Job) -> String {
    job.name.clone().unwrap_or_else(|| object::name_from_url(&job.url))
}

/// A report with nothing in it yet.
pub(super) fn blank(job: &Job) -> FileReport {
    FileReport {
        url: object::shown(&job.url),
        path: None,
        bytes: 0,
        resumed_from: 0,
        connections: 0,
        digest: None,
        verified: false,
        outcome: Outcome::Complete,
        notes: Vec::new(),
        body: None,
    }
}

/// The report of a job that failed before its object was at work; what an earlier run kept is still there.
pub fn failed_before_opening(run: &Run<'_>, job: &Job, error: Error) -> FileReport {
    let target = target_before(job);
    let place = target.as_deref().and_then(|target| run.target(target).ok());
    let bytes = place.and_then(|place| run.home_of(&place).ok()).map_or(0, |home| home.kept());
    let outcome = if error.is_for_later() || bytes > 0 && !matches!(error, Error::Locked { .. }) {
        Outcome::Partial(error)
    } else {
        Outcome::Failed(error)
    };
    FileReport { path: target, bytes, resumed_from: bytes, outcome, ..blank(job) }
}

fn status_416(answer: &Answer) -> Error {
    let error = Error::Status {
        host: object::host_of(&answer.url),
        status: 416,
        reason: "Range Not Satisfiable".to_owned(),
        retry_after: None,
        hint: "",
    };
    error.with_words(answer.said.as_deref())
}
