//! From a job to its object: what an earlier run left, the first answer, and where its bytes go. What is
//! tried in which order, and what an answer means, is the [`Download`]'s to say.
//!
//! Small objects are stored at once (`storing`); others become transfers, which `carrying` goes on with.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use url::Url;

use super::{Lane, decode, refuse_unfit};
use crate::download::{Destination, Download, Step, Taken, Wishes};
use crate::error::{DECLARED, GetError};
use crate::http::exchange::{Answer, Exchange};
use crate::job::{FileReport, Job, Output, Pinned};
use crate::journal::Journal;
use crate::object::{self, Object, Part};
use crate::pool::{BulkPlace, Waiting};
use crate::ranges::RangeSet;
use crate::sink::stamp::Stamp;
use crate::sink::{PartFile, Sink, Stream};
use crate::transfer::{Opening, Transfer};
use crate::verify::{self, Expectation, Method, Whose};
use crate::version::Version;
use weir_model::decision::Restart;
use weir_observe::stage_clock::Stage;

/// How long an answer is left unread while other lanes have all places. A server gives up after a minute
/// (nginx's `send_timeout`, Apache's `Timeout`), some after ten seconds, and of a body without a length what
/// it then cut off would pass for the whole.
const HELD: Duration = Duration::from_secs(5);

/// How opening a job went on.
pub(super) enum Opened {
    /// It ended with this report.
    Done(Box<FileReport>),
    /// It became a transfer, which this lane has carried as far as it could.
    Bulk(Arc<Transfer>, Result<(), GetError>),
}

impl Opened {
    /// The existing file stays, with this report.
    pub(super) fn kept(download: &mut Download, report: FileReport) -> Opened {
        download.on_kept();
        Opened::Done(Box::new(report))
    }
}

/// An accepted answer, and what is known of its object.
pub(super) struct Accepted {
    pub(super) answer: Answer,
    pub(super) object: Object,
    pub(super) expectations: Vec<Expectation>,
    pub(super) notes: Vec<String>,
}

impl Lane<'_> {
    pub(super) fn open(&mut self, mut waiting: Waiting) {
        let task = Arc::clone(&waiting.task);
        let job = &*task;
        if waiting.download.wants_new_connection() {
            self.client.close();
        }
        self.client.may_put_aside(Some(waiting.aside()));
        self.expects(job, &name_of(job.target().as_deref(), job));
        waiting.download.on_begin(self.wishes(job));
        let opened = self.try_open(&mut waiting, job).or_else(|error| {
            let report = self.stays_after_all(job, error);
            report.map(|report| Opened::kept(&mut waiting.download, report))
        });
        self.client.may_put_aside(None);
        self.count();
        match opened {
            Ok(Opened::Done(report)) => {
                let brought = self.state.objects.fetch_add(1, Relaxed);
                self.run.report(waiting.job, *report);
                self.run.pool.on_small_object(Instant::now(), brought);
            }
            Ok(Opened::Bulk(transfer, result)) => self.after_part(&transfer, result),
            Err(error) => {
                self.state.kick.store(false, Relaxed);
                self.open_failed(waiting, job, error);
            }
        }
    }

    fn wishes(&self, job: &Job) -> Wishes {
        let options = self.run.options;
        Wishes {
            fresh: options.fresh,
            newer: options.newer,
            go_on: options.go_on,
            in_parts: self.run.http.asks_for_parts(),
            decodes: self.run.http.is_compressed(),
            to_memory: matches!(job.output, Output::Memory(_)),
            shares: job.is_named_by_its_digest(),
        }
    }

    /// Asks for the object and does with the answer what its size and kind call for.
    fn try_open(&mut self, waiting: &mut Waiting, job: &Job) -> Result<Opened, GetError> {
        let mut target = job.target();
        if let (Some(piece), Some(target)) = (&job.piece, &target) {
            return self.open_piece(waiting, job, target, piece);
        }
        loop {
            let step = waiting.download.step(target.is_some());
            let opened = match (step, &target) {
                (Step::Check, Some(here)) => {
                    let brought = match waiting.download.was_lent() {
                        true => self.brought_by_another(job, here)?,
                        false => None,
                    };
                    let report = match brought {
                        None => self.check_target(job, here)?,
                        whole => whole,
                    };
                    report.map(|report| Opened::kept(&mut waiting.download, report))
                }
                (Step::Resume, Some(here)) => match self.saved(waiting.job, job, here)? {
                    Some((part, journal)) => self.resume(waiting, job, part, &journal)?,
                    None => None,
                },
                (Step::Adopt, Some(here)) => {
                    let opened = self.go_on_after_another(waiting, job, here)?;
                    if opened.is_none() {
                        waiting.download.on_not_adopted(self.has_journal(here));
                    }
                    opened
                }
                (Step::Ask { ranged, only_if_changed }, _) => {
                    self.ask(waiting, job, &mut target, ranged, only_if_changed)?
                }
                // Steps at a target are named only where there is one.
                (Step::Check | Step::Resume | Step::Adopt, None) => None,
            };
            if let Some(opened) = opened {
                return Ok(opened);
            }
        }
    }

    /// Asks for a piece of the object, which goes into the part that other hosts fill as well: of the version
    /// that the manifest names and no other.
    fn open_piece(
        &mut self,
        waiting: &mut Waiting,
        job: &Job,
        target: &Path,
        piece: &Range<u64>,
    ) -> Result<Opened, GetError> {
        let pinned = job.pinned.as_ref().and_then(|pinned| Some((pinned.size?, pinned.etag.as_deref()?)));
        let version = pinned.map(|(_, etag)| Version::from_journal(Some(etag), None, "", None));
        let (Some((size, _)), Some(version)) = (pinned, version.filter(|one| one.if_range().is_some()))
        else {
            let why = "several hosts cannot fetch parts of it: its size or a strong ETag is not known";
            return Err(GetError::Refused(why.to_owned()));
        };
        let end = Some(piece.end).filter(|end| *end < size);
        let range = Some((piece.start, end));
        let mut answer = self.client.get(job.home(), &job.url, range, version.if_range(), self.run.many)?;
        let host = object::host_of(&answer.url);
        let object = match answer.judge(Some(piece.start))? {
            Part::Asked(object) => object,
            Part::Whole(object) => {
                check_pinned(job, &answer, &object.version, object.size)?;
                return Err(GetError::Refused(format!("{host} gives no parts of it")));
            }
            Part::Empty | Part::Beyond(_) => {
                let detail = "it is shorter than the manifest says".to_owned();
                return Err(GetError::NotPinned { host, detail });
            }
        };
        check_pinned(job, &answer, &object.version, object.size)?;
        let part = PartFile::open_piece(&self.run.target(target)?, size)?;
        let mut done = RangeSet::default();
        done.insert(0..piece.start);
        done.insert(piece.end..size);
        let opening = Opening {
            job: waiting.job,
            task: Arc::clone(&waiting.task),
            url: job.url.clone(),
            location: answer.url.clone(),
            size: Some(size),
            version: object.version,
            ranged: object.ranged,
            done,
            durable: RangeSet::default(),
            sink: Sink::Part(part),
            expectations: Vec::new(),
            notes: std::mem::take(&mut answer.notes),
        };
        let transfer = Transfer::new(opening, &mut waiting.download)?;
        Ok(self.begin(Arc::new(transfer), answer, object.holds_to))
    }

    /// Asks for the object and takes it in. `None`: there is something else to do first.
    fn ask(
        &mut self,
        waiting: &mut Waiting,
        job: &Job,
        target: &mut Option<PathBuf>,
        ranged: bool,
        only_if_changed: bool,
    ) -> Result<Option<Opened>, GetError> {
        let here = target.as_deref().filter(|_| only_if_changed).and_then(|target| self.comparable(target));
        let range = ranged.then_some((0, None));
        let mut answer = self.ask_unless(job, range, here.as_ref())?;
        if let (304, Some(here), Some(target)) = (answer.head.status, &here, &target) {
            let kept = self.not_modified(job, target, here, answer)?;
            if kept.is_none() {
                waiting.download.on_not_the_same();
            }
            return Ok(kept.map(|report| Opened::kept(&mut waiting.download, *report)));
        }
        let (judged, left) = (answer.judge(range.map(|_| 0)), answer.body.left());
        let object = match waiting.download.on_answer(judged, left, || status_416(&answer)) {
            Ok(object) => object,
            Err(error) => {
                self.client.keep(&answer.url, answer.body);
                return Err(error);
            }
        };
        let named = match (target_after(job, &answer), &job.output) {
            (Some(named), Output::Folder(_)) => Some(self.run.free_name(named, waiting.job, job)),
            (named, _) => named,
        };
        // The file has the size that a coded body unpacks to.
        let is_decoded = self.run.http.is_compressed()
            && object::foreign_coding(&answer.head.fields, &name_of(named.as_deref(), job)).is_some();
        let size = object.size.filter(|_| !is_decoded);
        if waiting.download.compares()
            && let Some(report) = self.unchanged(job, named.as_deref(), size, &object.version)?
        {
            self.client.close();
            return Ok(Some(Opened::kept(&mut waiting.download, *report)));
        }
        if named != *target {
            // Only now is the name known, and with it whether an earlier run left a part.
            *target = named;
            if let Some(target) = &target
                && let Some(report) = self.check_target(job, target)?
            {
                return Ok(Some(Opened::kept(&mut waiting.download, report)));
            }
            self.refuse_a_name_taken(job, target.as_deref(), &answer)?;
            let has_part = || target.as_deref().is_some_and(|target| self.has_journal(target));
            if waiting.download.on_named(has_part) {
                return Ok(None);
            }
        } else if let Some(target) = target.as_deref() {
            self.refuse_a_default_name(job, target)?;
        }
        let name = name_of(target.as_deref(), job);
        if self.client.asks_for_codings() && object::is_coded_as_named(&answer.head.fields, &name) {
            // Only without the question it shows who has packed it.
            self.client.takes_coded(false);
            self.client.close();
            return Ok(None);
        }
        self.take_in(waiting, job, target.as_deref(), answer, object).map(Some)
    }

    /// The part file of an earlier run and its journal, locked, if it can be gone on with.
    fn saved(&self, index: usize, job: &Job, target: &Path) -> Result<Option<(PartFile, Journal)>, GetError> {
        if self.run.is_fresh_folder(target) {
            return Ok(None);
        }
        let place = self.run.target(target)?;
        let home = self.run.home_of(&place)?;
        if !home.has_journal() {
            return Ok(None);
        }
        self.run.take_name(target, index, job)?;
        let part = PartFile::open(&place, home)?;
        if !part.keeps_journal() {
            // Of this run alone: nothing was left in it.
            part.discard();
            return Ok(None);
        }
        match part.saved(&object::identity(&job.url))? {
            Ok(Some(journal)) if is_another(job, &journal) => {
                let name = target.display().to_string();
                let why = "the partial file here is not of the object of the manifest".to_owned();
                tracing::info!("{}", Restart::Object { name, why });
                Ok(None)
            }
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
    ) -> Result<Answer, GetError> {
        self.client.only_if_changed(here.map(Stamp::unless));
        let answer = self.client.get(job.home(), &job.url, range, None, self.run.many);
        self.client.only_if_changed(None);
        answer
    }

    /// The first answer of a fresh object is here: small ones are stored at once, others become transfers.
    fn take_in(
        &mut self,
        waiting: &mut Waiting,
        job: &Job,
        target: Option<&Path>,
        mut answer: Answer,
        mut object: Object,
    ) -> Result<Opened, GetError> {
        let name = name_of(target, job);
        let to = match (&job.output, target) {
            (Output::Memory(_), _) => Destination::Memory,
            (_, Some(_)) => Destination::File,
            (_, None) => Destination::Stream,
        };
        let is_shared = matches!(answer.body, Exchange::Http2(_)) && self.run.many;
        if is_shared && waiting.download.wants_own_connection(&object, to) {
            waiting.download.on_seen(&object, &object::host_of(&answer.url))?;
            (answer, object) = self.over_http1(waiting, job.home(), answer)?;
        }
        refuse_unfit(&name, &answer, self.run.options.any_type)?;
        // What is coded has another length than the file of the list.
        let size = object.size.filter(|_| object::foreign_coding(&answer.head.fields, &name).is_none());
        check_pinned(job, &answer, &object.version, size)?;
        if let Some(target) = target {
            self.refuse_silence(job, target, &answer, &object)?;
        }
        waiting.download.on_seen(&object, &object::host_of(&answer.url))?;
        let mut notes = std::mem::take(&mut answer.notes);
        let (answer, object, of_coding) = decode(self.run.http, job, &name, answer, object);
        notes.extend(of_coding);
        let mut expectations = job.expectations.clone();
        self.add_declared(&mut expectations, &mut notes, &answer, &object);
        if let Some(target) = target {
            self.check_free(target, &object)?;
            self.run.take_name(target, waiting.job, job)?;
        }
        let taken = waiting.download.on_accepted(&object, to);
        let accepted = Accepted { answer, object, expectations, notes };
        match (taken, &job.output, target) {
            (Taken::Whole, Output::Memory(limit), _) => self.store_in_memory(waiting, job, accepted, *limit),
            (Taken::Whole, _, Some(target)) => self.store_small(waiting, job, target, accepted),
            (_, _, target) => self.begin_fresh(waiting, job, target, accepted),
        }
    }

    /// An object that lanes carry from byte 0 on.
    fn begin_fresh(
        &mut self,
        waiting: &mut Waiting,
        job: &Job,
        target: Option<&Path>,
        accepted: Accepted,
    ) -> Result<Opened, GetError> {
        let Accepted { answer, object, expectations, notes } = accepted;
        let is_part = answer.head.status == 206;
        let trusts = is_part && waiting.download.may_trust_parts(&object, job.is_proven());
        let sink = match target {
            Some(target) => {
                let part = self.fresh_part(job, target)?;
                if let Some(size) = object.size {
                    part.reserve(size).inspect_err(|_| part.discard())?;
                }
                Sink::Part(part)
            }
            None => Sink::Stream(self.stream(job, verify::methods(&expectations))?),
        };
        let opening = Opening {
            job: waiting.job,
            task: Arc::clone(&waiting.task),
            url: job.url.clone(),
            location: answer.url.clone(),
            size: object.size,
            version: object.version,
            ranged: (object.ranged || trusts) && object.size.is_some(),
            done: RangeSet::default(),
            durable: RangeSet::default(),
            sink,
            expectations,
            notes,
        };
        let transfer = Transfer::new(opening, &mut waiting.download)?;
        Ok(self.begin(Arc::new(transfer), answer, object.holds_to))
    }

    /// The way out for bytes that go on in order.
    fn stream(&self, job: &Job, methods: Vec<Method>) -> Result<Stream, GetError> {
        match &job.output {
            Output::Pipe(path) => Stream::open(path, methods, Arc::clone(self.run.stop), &|| {
                self.sleep(Duration::from_millis(20), Stage::Output);
                !self.run.is_stopped()
            }),
            _ => Stream::stdout(methods, Arc::clone(self.run.stop)),
        }
    }

    /// The object on a connection of its own. Nothing of the first answer is kept, so this one may be of
    /// another version.
    fn over_http1(
        &mut self,
        waiting: &mut Waiting,
        home: &Url,
        first: Answer,
    ) -> Result<(Answer, Object), GetError> {
        let url = first.url.clone();
        drop(first);
        let mut answer = self.client.get(home, &url, Some((0, None)), None, false)?;
        let own = waiting.download.on_own_connection(answer.judge(Some(0)), &object::host_of(&url))?;
        Ok((answer, own))
    }

    /// The strongest digest that the fields of an answer have of all of the object.
    pub(super) fn declared(&self, object: &Object) -> Option<Expectation> {
        let one = object.declared.as_ref()?;
        let (expected, origin) = (one.expected.clone(), format!("{DECLARED}{}", one.field));
        Some(Expectation { expected, origin, whose: self.whose(), parts: None, before: Vec::new() })
    }

    fn whose(&self) -> Whose {
        if self.run.options.ignore_digest { Whose::Ignored } else { Whose::Server }
    }

    /// The user's word counts; the strongest of the server's is checked beside it. Where that cannot be
    /// checked, it is `noted` why.
    pub(super) fn add_declared(
        &mut self,
        expectations: &mut Vec<Expectation>,
        notes: &mut Vec<String>,
        answer: &Answer,
        object: &Object,
    ) {
        if let Some(one) = self.declared(object) {
            return expectations.push(one);
        }
        let whose = self.whose();
        let is_as_sent = !matches!(answer.body, Exchange::Decoded(_));
        let Some(size) = object.size.filter(|_| answer.of_all && is_as_sent) else { return };
        match self.client.kept_of(answer, size) {
            Some(Ok((kept, parts))) => {
                let of = kept.parts.map_or_else(String::new, |count| format!(" of {count} parts"));
                let origin = format!("{DECLARED}{}{of}", kept.field);
                let (expected, before) = (kept.expected, Vec::new());
                expectations.push(Expectation { expected, origin, whose, parts, before });
            }
            Some(Err(why)) => notes.push(why),
            None => {}
        }
    }

    /// An earlier run may have left a part of `target`.
    pub(super) fn has_journal(&self, target: &Path) -> bool {
        let home = self.run.target(target).and_then(|place| self.run.home_of(&place));
        home.is_ok_and(|home| home.has_journal())
    }

    /// The part of `target`, with nothing in it. What came from another URL is put aside before, unless the
    /// user gives that up (`--force`).
    pub(super) fn fresh_part(&self, job: &Job, target: &Path) -> Result<PartFile, GetError> {
        let place = self.run.target(target)?;
        let open = || PartFile::open(&place, self.run.home_of(&place)?);
        let mut part = open()?;
        if !self.run.options.fresh && part.put_aside_of_another(&object::identity(&job.url))? {
            part = open()?;
        }
        part.restart()?;
        Ok(part)
    }

    /// Makes the transfer known and carries the first answer, or one asked for anew where a place for it was
    /// long in coming.
    pub(super) fn begin(&mut self, transfer: Arc<Transfer>, answer: Answer, holds_to: Option<u64>) -> Opened {
        // From here on the job is no longer one that could wait in the queue.
        self.client.may_put_aside(None);
        self.state.clock.enter(Stage::Idle);
        self.began = Instant::now();
        let (pool, host) = (&self.run.pool, transfer.task.host());
        let (place, answer) = match pool.begin_bulk(transfer.job, host, Some(HELD)) {
            BulkPlace::NotYet => {
                drop(answer);
                self.client.close();
                (pool.begin_bulk(transfer.job, host, None), None)
            }
            place => (place, Some(answer)),
        };
        let lanes = self.run.pool.wanted();
        transfer.claim_gap(&mut transfer.ledger(), self.state.id, lanes);
        self.run.pool.activate(&transfer);
        let result = match (place, answer) {
            (BulkPlace::Taken, Some(answer)) => self.follow(&transfer, answer, holds_to),
            (BulkPlace::Taken, None) => self.try_part(&transfer),
            _ => Err(GetError::Interrupted),
        };
        Opened::Bulk(transfer, result)
    }
}

/// An answer that is not of the object which the job's manifest names.
fn check_pinned(job: &Job, answer: &Answer, version: &Version, size: Option<u64>) -> Result<(), GetError> {
    let validators = version.validators();
    let differs = |pinned: &Pinned| pinned.differs(size, validators.etag(), validators.modified());
    match job.pinned.as_ref().and_then(differs) {
        Some(detail) => Err(GetError::NotPinned { host: object::host_of(&answer.url), detail }),
        None => Ok(()),
    }
}

/// What was begun is not the object which the job's manifest names.
pub(super) fn is_another(job: &Job, journal: &Journal) -> bool {
    let version = journal.version();
    let validators = version.validators();
    let size = Some(journal.size).filter(|_| version.coding().is_none());
    let differs = |pinned: &Pinned| pinned.differs(size, validators.etag(), validators.modified());
    job.pinned.as_ref().and_then(differs).is_some()
}

/// What the file of `job` is called, as far as is known.
fn name_of(target: Option<&Path>, job: &Job) -> String {
    let name = target.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| job.file_name())
}

/// Where the file goes by its list, its URL or the server, whoever else has that name.
pub(super) fn target_after(job: &Job, answer: &Answer) -> Option<PathBuf> {
    match &job.output {
        Output::Folder(folder) => {
            let named = weir_http::filename::from_header(&answer.head.fields);
            Some(folder.join(named.unwrap_or_else(|| job.file_name())))
        }
        _ => job.target(),
    }
}

fn status_416(answer: &Answer) -> GetError {
    let error = GetError::Status {
        host: object::host_of(&answer.url),
        status: 416,
        reason: "Range Not Satisfiable".to_owned(),
        retry_after: None,
        hint: "",
    };
    error.with_words(answer.said.as_deref())
}
