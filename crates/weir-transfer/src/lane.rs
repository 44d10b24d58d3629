//! A lane: one connection at work, on its own thread. Opens objects, fetches parts, writes them in their place.

use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use url::Url;
use weir_codec::digest::Algorithm;
use weir_http::validator::{Comparison, Validator};
use weir_observe::thread::{current_tid, thread_cpu_now};
use weir_units::Bytes;

use crate::engine::Run;
use crate::error::Error;
use crate::http::connection::{BLOCK, Dial, DripWatch};
use crate::http::exchange::{Answer, Client, Exchange};
use crate::job::{FileReport, Job, Outcome, Output};
use crate::journal::Journal;
use crate::ledger::LaneId;
use crate::object::{self, Object, Part};
use crate::pool::{Waiting, Work};
use crate::ranges::RangeSet;
use crate::sink::{self, PartFile, Sink, Stream, small_file, stream};
use crate::stage_clock::{Stage, StageClock};
use crate::transfer::{Opening, Transfer};
use crate::verify::{self, Expectation};

/// Objects up to this size are read whole and written in one piece.
const SMALL: u64 = 1 << 20;

/// Larger objects than this leave a shared HTTP/2 connection for one of their own.
const HTTP2_MAX: u64 = 4 << 20;

/// How often an object may change under us before we stop following it.
const MAX_RESTARTS: u32 = 3;

/// First pause after a failure; doubled each time up to `MAX_PAUSE`, and spread by half either way so that many
/// clients do not come back together.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// A lane as others see it.
pub struct LaneState {
    /// Its number, unique in the run.
    pub id: LaneId,
    /// Where its time goes.
    pub clock: StageClock,
    /// Its kernel thread id; 0 before it runs.
    pub tid: AtomicU32,
    /// Its socket, and how often that changed.
    pub socket: Mutex<(Option<Arc<TcpStream>>, u32)>,
    /// Payload bytes received.
    pub received: AtomicU64,
    /// Payload bytes written.
    pub written: AtomicU64,
    /// Objects finished.
    pub objects: AtomicU32,
    /// Requests sent.
    pub requests: AtomicU32,
    /// Fresh connections.
    pub connects: AtomicU32,
    /// At work on a bulk object, and has had a byte of the answer.
    pub bulk: AtomicBool,
    /// See `bulk`.
    pub started: AtomicBool,
    /// Its bytes can be asked for again by another lane.
    pub ranged: AtomicBool,
    /// Break off what it does now and go on afresh.
    pub kick: AtomicBool,
    /// The server refused or cut it since last asked.
    pub refused: AtomicBool,
    /// Its thread has ended, having used this much processor time, nanoseconds.
    pub ended: AtomicBool,
    /// See `ended`.
    pub cpu_at_end: AtomicU64,
}

impl LaneState {
    /// Lane `id`, not yet running.
    pub fn new(id: LaneId) -> LaneState {
        LaneState {
            id,
            clock: StageClock::new(Instant::now()),
            tid: AtomicU32::new(0),
            socket: Mutex::new((None, 0)),
            received: AtomicU64::new(0),
            written: AtomicU64::new(0),
            objects: AtomicU32::new(0),
            requests: AtomicU32::new(0),
            connects: AtomicU32::new(0),
            bulk: AtomicBool::new(false),
            started: AtomicBool::new(false),
            ranged: AtomicBool::new(false),
            kick: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            cpu_at_end: AtomicU64::new(0),
        }
    }

    /// At work on bytes that another lane could go on with.
    pub fn is_replaceable(&self) -> bool {
        self.bulk.load(Relaxed) && self.ranged.load(Relaxed)
    }

    /// Ends a blocked receive or send.
    pub fn cut(&self) {
        if let Some(socket) = &self.socket.lock().unwrap_or_else(PoisonError::into_inner).0 {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// The lane's thread.
pub fn run(run: &Run<'_>, state: &LaneState) {
    state.tid.store(current_tid().0, Relaxed);
    let on_socket = |socket: Option<&Arc<TcpStream>>| {
        // A connection that was closed keeps its readings until the next one: it is shut down, so this holds nobody up.
        let Some(new) = socket else { return };
        let mut shared = state.socket.lock().unwrap_or_else(PoisonError::into_inner);
        if !shared.0.as_ref().is_some_and(|old| Arc::ptr_eq(old, new)) {
            *shared = (Some(Arc::clone(new)), shared.1 + 1);
        }
    };
    let dial = Dial {
        timeout: run.options.timeout,
        receive_buffer: run.options.receive_buffer,
        stops: [run.stop, &state.kick],
    };
    let client = Client::new(run.http, &state.clock, dial, &on_socket);
    let mut lane = Lane { run, state, client, scratch: Vec::new() };
    loop {
        state.clock.enter(Stage::Idle);
        match run.pool.next(state.id) {
            Work::Quit => break,
            Work::Open(waiting) => lane.open(waiting),
            Work::Part(transfer, _) => lane.part(&transfer),
        }
    }
    lane.client.close();
    state.cpu_at_end.store(u64::try_from(thread_cpu_now().as_nanos()).unwrap_or(u64::MAX), Relaxed);
    state.ended.store(true, Release);
}

struct Lane<'a> {
    run: &'a Run<'a>,
    state: &'a LaneState,
    client: Client<'a>,
    scratch: Vec<u8>,
}

/// How opening a job went on.
enum Opened {
    /// It ended with this report.
    Done(Box<FileReport>),
    /// It became a transfer, which this lane has carried as far as it could.
    Bulk(Arc<Transfer>, Result<(), Error>),
}

impl Lane<'_> {
    fn open(&mut self, waiting: Waiting) {
        let job = &self.run.jobs[waiting.job];
        let opened = self.try_open(&waiting, job);
        self.count();
        match opened {
            Ok(Opened::Done(report)) => {
                self.state.objects.fetch_add(1, Relaxed);
                self.run.pool.report(waiting.job, *report);
                self.run.pool.opened();
                self.run.pool.on_small_object(Instant::now());
            }
            Ok(Opened::Bulk(transfer, result)) => self.after_part(&transfer, result),
            Err(error) => {
                self.state.kick.store(false, Relaxed);
                self.open_failed(waiting, job, error);
                self.run.pool.opened();
            }
        }
    }

    fn open_failed(&mut self, mut waiting: Waiting, job: &Job, error: Error) {
        if matches!(error, Error::Interrupted | Error::Dropped) && !self.run.is_stopped() {
            return self.run.pool.requeue(waiting, Duration::ZERO);
        }
        waiting.failures += 1;
        if !error.is_permanent() && waiting.failures <= self.run.options.retries {
            let pause = self.pause(waiting.failures, &error);
            tracing::info!(
                "{}: {error:#}; trying again in {:.1} s",
                object::shown(&job.url),
                pause.as_secs_f64()
            );
            let asked = error.retry_after().is_some();
            self.run.pool.requeue(waiting, pause);
            if asked {
                self.sleep(pause, Stage::Backoff);
            }
            return;
        }
        self.run.pool.report(waiting.job, failed_before_opening(job, error));
    }

    /// Asks for the object and does with the answer what its size and kind call for.
    fn try_open(&mut self, waiting: &Waiting, job: &Job) -> Result<Opened, Error> {
        let mut target = target_before(job);
        let mut checked = false;
        let mut use_saved = !self.run.options.fresh && waiting.restarts == 0;
        let mut ranged = true;
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
            let range = ranged.then_some((0, None));
            let answer = self.client.get(home_of(job), &job.url, range, None, self.run.many)?;
            let now = SystemTime::now();
            let object = match object::judge(&answer.head, &answer.url, range.map(|_| 0), now) {
                Ok(Part::Asked(object) | Part::Whole(object)) => object,
                Ok(Part::Empty) => {
                    Object { size: Some(0), holds_to: None, validator: None, ranged: false, declared: None }
                }
                // Some servers answer a range of an empty or dynamic object with 416, or with several parts: ask plainly.
                Ok(Part::Beyond(_)) | Err(Error::WrongPart { .. }) if ranged => {
                    self.client.close();
                    ranged = false;
                    continue;
                }
                Ok(Part::Beyond(_)) => return Err(status_416(&answer)),
                Err(error) => {
                    self.client.keep(&answer.url, answer.body);
                    return Err(error);
                }
            };
            let named = target_after(job, &answer);
            if named != target {
                // Only now is the name known, and with it whether an earlier run left a part.
                target = named;
                checked = false;
                if use_saved && target.as_deref().is_some_and(has_journal) {
                    continue;
                }
                if let Some(target) = &target
                    && let Some(report) = self.check_target(job, target)?
                {
                    return Ok(Opened::Done(Box::new(report)));
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
        if let Some(unfit) = sink::unfit(target) {
            return Err(Error::Refused(format!("cannot write {}: it is {unfit}", target.display())));
        }
        match std::fs::metadata(target) {
            Ok(metadata) if metadata.is_dir() => Err(Error::IsDirectory { path: target.to_owned() }),
            Ok(metadata) if self.run.options.no_clobber => Ok(Some(FileReport {
                path: Some(target.to_owned()),
                bytes: metadata.len(),
                outcome: Outcome::Skipped,
                ..blank(job)
            })),
            _ => Ok(None),
        }
    }

    /// The part file of an earlier run and its journal, locked, if it can be gone on with.
    fn saved(&self, index: usize, job: &Job, target: &Path) -> Result<Option<(PartFile, Journal)>, Error> {
        if !has_journal(target) {
            return Ok(None);
        }
        self.run.take_name(target, index)?;
        let part = PartFile::open(target)?;
        let url = crate::http::credentials::without(&job.url);
        match part.saved(url.as_str())? {
            Ok(journal) => Ok(journal.map(|journal| (part, journal))),
            Err(reason) => {
                // What is there goes only when an answer that replaces it has been accepted.
                tracing::warn!("{}: {reason}; starting again", target.display());
                Ok(None)
            }
        }
    }

    /// Goes on from `journal`. `None`: the object changed or the server gives no parts; begin again.
    fn resume(
        &mut self,
        waiting: &Waiting,
        job: &Job,
        part: PartFile,
        journal: &Journal,
    ) -> Result<Option<Opened>, Error> {
        let done = journal.stored();
        let durable: RangeSet = journal.durable.iter().map(|&(start, end)| start..end).collect();
        let expectations = job.expectations.clone();
        let opening = |location: Url, validator, done, part| Opening {
            job: waiting.job,
            url: job.url.clone(),
            location,
            size: Some(journal.size),
            validator,
            ranged: true,
            done,
            durable: durable.clone(),
            sink: Sink::Part(part),
            expectations,
        };
        let pinned = journal.validator.as_ref().and_then(|(kind, value)| Validator::from_parts(kind, value));
        let if_range = pinned.as_ref().and_then(Validator::if_range_value).map(str::to_owned);
        let Some(gap) = done.gap_after(0, journal.size) else {
            let transfer = Arc::new(Transfer::new(opening(job.url.clone(), pinned, done, part))?);
            if !self.run.pool.begin_bulk() {
                return Err(Error::Interrupted);
            }
            self.run.pool.activate(&transfer);
            self.run.pool.opened();
            return Ok(Some(Opened::Bulk(transfer, Ok(()))));
        };
        // Bounded by the gap, so that nothing that is here already is sent again.
        let end = Some(gap.end).filter(|end| *end < journal.size);
        let range = Some((gap.start, end));
        let answer = self.client.get(home_of(job), &job.url, range, if_range.as_deref(), self.run.many)?;
        let why = match object::judge(&answer.head, &answer.url, Some(gap.start), SystemTime::now()) {
            Ok(Part::Asked(object)) if object.size != Some(journal.size) => {
                "the object's size changed".to_owned()
            }
            Ok(Part::Asked(_)) if differs(pinned.as_ref(), &answer) => {
                "the object changed on the server".to_owned()
            }
            Ok(Part::Asked(object)) => {
                let mut opening = opening(answer.url.clone(), pinned, done, part);
                let holds_to = object.holds_to;
                add_declared(&mut opening.expectations, object);
                let transfer = Arc::new(Transfer::new(opening)?);
                refuse_foreign_coding(&transfer, &answer)?;
                return Ok(Some(self.begin(transfer, answer, holds_to)));
            }
            Ok(_) => "the object changed on the server, or it gives no parts any more".to_owned(),
            Err(error @ Error::WrongPart { .. }) => error.to_string(),
            Err(error) => return Err(error),
        };
        tracing::warn!("{}: {why}; starting again", part.target().display());
        self.client.close();
        Ok(None)
    }

    /// The first answer of a fresh object is here: small ones are stored at once, others become transfers.
    fn take_in(
        &mut self,
        waiting: &Waiting,
        job: &Job,
        target: Option<PathBuf>,
        mut answer: Answer,
        object: Object,
    ) -> Result<Opened, Error> {
        let name =
            target.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| object::name_from_url(&job.url));
        let host = || answer.url.host_str().unwrap_or_default().to_owned();
        if let Some(coding) = object::foreign_coding(&answer.head, &name) {
            return Err(Error::Coded { host: host(), coding });
        }
        let kind = answer.head.header("content-type");
        if !self.run.options.any_type && weir_http::content_type::html_instead_of(&name, kind) {
            return Err(Error::WebPage { host: host(), name });
        }
        let mut expectations = job.expectations.clone();
        add_declared(&mut expectations, object.clone());
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
            (_, Some(target)) if small => self.store_small(job, &target, answer, object, &expectations),
            (_, target) => {
                let large = object.size.is_none_or(|size| size > HTTP2_MAX);
                if matches!(answer.body, Exchange::Http2(_)) && large && object.ranged && self.run.many {
                    answer = self.over_http1(home_of(job), answer, &object, &name)?;
                }
                let sink = match target {
                    Some(target) => {
                        let part = PartFile::open(&target)?;
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
                    validator: object.validator,
                    ranged: object.ranged && object.size.is_some(),
                    done: RangeSet::default(),
                    durable: RangeSet::default(),
                    sink,
                    expectations,
                })?;
                Ok(self.begin(Arc::new(transfer), answer, object.holds_to))
            }
        }
    }

    /// The way out for bytes that go on in order.
    fn stream(&self, job: &Job, algorithms: Vec<Algorithm>) -> Result<Stream, Error> {
        match &job.output {
            Output::File(path) => Stream::open(path, algorithms, &|| {
                self.sleep(Duration::from_millis(20), Stage::Output);
                !self.run.is_stopped()
            }),
            _ => Stream::stdout(algorithms),
        }
    }

    /// The same object on a connection of its own.
    fn over_http1(
        &mut self,
        home: &Url,
        first: Answer,
        object: &Object,
        name: &str,
    ) -> Result<Answer, Error> {
        let url = first.url.clone();
        drop(first);
        let if_range = object.validator.as_ref().and_then(Validator::if_range_value);
        let answer = self.client.get(home, &url, Some((0, None)), if_range, false)?;
        let same = match object::judge(&answer.head, &answer.url, Some(0), SystemTime::now())? {
            Part::Asked(own) => own.size == object.size && own.holds_to == object.holds_to,
            _ => false,
        };
        let coded = object::foreign_coding(&answer.head, name).is_some();
        if same && !coded && !differs(object.validator.as_ref(), &answer) {
            return Ok(answer);
        }
        let detail = "it is another over HTTP/1.1 than over HTTP/2; --http2 stays with the latter".to_owned();
        Err(Error::Changed { host: host_of(&url), detail })
    }

    fn store_small(
        &mut self,
        job: &Job,
        target: &Path,
        mut answer: Answer,
        object: Object,
        expectations: &[Expectation],
    ) -> Result<Opened, Error> {
        let size = object.size.unwrap_or_default();
        let mut body = std::mem::take(&mut self.scratch);
        body.clear();
        if !self.run.is_fresh_folder(target) && has_journal(target) {
            // The object was larger when an earlier run began with it.
            PartFile::open(target)?.discard();
        }
        let read = if size == 0 { Ok(()) } else { self.read_into(&mut answer, &mut body, SMALL as usize) };
        read?;
        if body.len() as u64 != size {
            let (got, expected) = (Bytes(body.len() as u64), Bytes(size).to_string());
            return Err(Error::Truncated { host: host_of(&answer.url), got, expected });
        }
        self.client.keep(&answer.url, answer.body);
        self.state.clock.enter(Stage::Other);
        let found = verify::digests_of(&verify::algorithms(expectations), &body);
        verify::check(&target.display().to_string(), expectations, &found, verify::DISCARDED)?;
        self.state.clock.enter(Stage::Write);
        let stored = small_file::store(target, &body, self.run.options.sync);
        let took = self.state.clock.current().1;
        self.state.clock.enter(Stage::Other);
        // Not worth a look at the thread's CPU clock: a short write was work, a long one was blocked.
        if took < Duration::from_millis(1) {
            self.state.clock.add_write_cpu(took);
        }
        stored?;
        self.state.written.fetch_add(body.len() as u64, Relaxed);
        let bytes = body.len() as u64;
        self.scratch = body;
        Ok(Opened::Done(Box::new(FileReport {
            path: Some(target.to_owned()),
            bytes,
            connections: 1,
            digest: found.first().cloned(),
            verified: !expectations.is_empty(),
            ..blank(job)
        })))
    }

    fn read_whole(&mut self, answer: &mut Answer, limit: usize) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        self.read_into(answer, &mut body, limit)?;
        Ok(body)
    }

    fn read_into(&mut self, answer: &mut Answer, body: &mut Vec<u8>, limit: usize) -> Result<(), Error> {
        let host = answer.url.host_str().unwrap_or_default().to_owned();
        let mut drip = DripWatch::new(Instant::now());
        while !answer.body.is_end() {
            let got = answer.body.fill(self.piece(), &self.state.clock, self.client.dial())?;
            drip.book(got as u64, Instant::now(), &host, self.run.options.timeout)?;
            if body.len() + got > limit {
                return Err(Error::Refused(format!("{host} sent more than {limit} bytes")));
            }
            answer.body.pieces().for_each(|piece| body.extend_from_slice(piece));
            self.received(got as u64);
        }
        Ok(())
    }

    /// Makes the transfer known and carries the first answer.
    fn begin(&mut self, transfer: Arc<Transfer>, answer: Answer, holds_to: Option<u64>) -> Opened {
        self.state.clock.enter(Stage::Idle);
        let placed = self.run.pool.begin_bulk();
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
        self.run.pool.opened();
        let result = if placed { self.follow(&transfer, answer, holds_to) } else { Err(Error::Interrupted) };
        Opened::Bulk(transfer, result)
    }

    fn part(&mut self, transfer: &Arc<Transfer>) {
        let result = self.try_part(transfer);
        self.count();
        self.after_part(transfer, result);
    }

    /// Asks for this lane's claim and carries the answer.
    fn try_part(&mut self, transfer: &Arc<Transfer>) -> Result<(), Error> {
        let Some(claim) = transfer.ledger().claim(self.state.id) else { return Ok(()) };
        self.state.started.store(false, Relaxed);
        self.state.bulk.store(true, Relaxed);
        let ranged = transfer.ranged.load(Relaxed);
        if !ranged && claim.start > 0 {
            return Err(Error::Changed {
                host: host_of(&transfer.url),
                detail: "the server gives no parts, so it has to be fetched from the start".to_owned(),
            });
        }
        let range = ranged.then_some((claim.start, Some(claim.end).filter(|end| *end != u64::MAX)));
        let pinned =
            transfer.validator.as_ref().and_then(|validator| validator.if_range_value()).map(str::to_owned);
        let location = transfer.location.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let answer = self.client.get(
            home_of(&self.run.jobs[transfer.job]),
            &location,
            range,
            pinned.as_deref(),
            false,
        )?;
        match object::judge(&answer.head, &answer.url, range.map(|range| range.0), SystemTime::now()) {
            Ok(Part::Asked(object)) => {
                refuse_foreign_coding(transfer, &answer)?;
                let changed =
                    |detail: &str| Error::Changed { host: host_of(&answer.url), detail: detail.to_owned() };
                if object.size != transfer.size {
                    return Err(changed("its size is another"));
                }
                if differs(transfer.validator.as_ref(), &answer) {
                    return Err(changed("its validator (ETag or Last-Modified) is another"));
                }
                self.follow(transfer, answer, object.holds_to)
            }
            Ok(Part::Whole(_)) if !ranged => self.follow(transfer, answer, None),
            Ok(Part::Whole(object)) => self.whole_instead(transfer, &answer, &object),
            Ok(_) => {
                Err(Error::Changed { host: host_of(&answer.url), detail: "it is shorter now".to_owned() })
            }
            // A signed link that has expired: ask the original again where the object is now.
            Err(Error::Status { status: 401 | 403 | 404 | 410, .. }) if location != transfer.url => {
                tracing::info!("the link to {} expired, resolving it anew", object::shown(&location));
                *transfer.location.lock().unwrap_or_else(PoisonError::into_inner) = transfer.url.clone();
                self.client.close();
                self.try_part(transfer)
            }
            Err(error) => {
                self.client.keep(&answer.url, answer.body);
                Err(error)
            }
        }
    }

    /// 200 to a range: another object (If-Range failed), or a server that gives parts only sometimes.
    fn whole_instead(&mut self, transfer: &Transfer, answer: &Answer, object: &Object) -> Result<(), Error> {
        let same = transfer.validator.is_some() && transfer.validator == object.validator;
        self.client.close();
        if same && object.size == transfer.size {
            transfer.ranged.store(false, Relaxed);
            tracing::info!(
                "{} gives no parts on further connections; going on with one",
                host_of(&answer.url)
            );
            return Err(Error::Dropped);
        }
        let detail = "it answered with the whole object, which has another validator".to_owned();
        Err(Error::Changed { host: host_of(&answer.url), detail })
    }

    /// The byte path: from the socket to its place, until the claim or the answer ends.
    fn follow(
        &mut self,
        transfer: &Transfer,
        mut answer: Answer,
        holds_to: Option<u64>,
    ) -> Result<(), Error> {
        let lane = self.state.id;
        self.state.ranged.store(transfer.ranged.load(Relaxed), Relaxed);
        let host = host_of(&answer.url);
        self.state.bulk.store(true, Relaxed);
        transfer.carriers.lock().unwrap_or_else(PoisonError::into_inner).insert(lane);
        let mut drip = DripWatch::new(Instant::now());
        let (stage, block) = match &transfer.sink {
            Sink::Part(_) => (Stage::Write, block_of(self.run.pool.wanted())),
            Sink::Stream(_) => (Stage::Output, stream::PIECE),
        };
        loop {
            let at = transfer.ledger().claim(lane).map_or(0, |claim| claim.start);
            let wanted = self.piece().min(to_boundary(at, block));
            let got = answer.body.fill(wanted, &self.state.clock, self.client.dial())? as u64;
            if got == 0 {
                break self.at_end(transfer, answer, holds_to, &host);
            }
            if holds_to.is_some_and(|end| at + got > end) {
                let detail = "more bytes than its Content-Range says".to_owned();
                return Err(Error::WrongPart { host, detail });
            }
            self.state.started.store(true, Relaxed);
            drip.book(got, Instant::now(), &host, self.run.options.timeout)?;
            let cpu = thread_cpu_now();
            self.state.clock.enter(stage);
            let taken = transfer.take(lane, got, answer.body.pieces());
            self.state.clock.enter(Stage::Other);
            if stage == Stage::Write {
                self.state.clock.add_write_cpu(thread_cpu_now().saturating_sub(cpu));
            }
            let taken = taken?;
            self.state.written.fetch_add(taken, Relaxed);
            self.received(taken);
            if taken < got {
                // The claim ends here; the rest of the answer belongs to another lane.
                self.client.close();
                return Ok(());
            }
            if self.run.is_stopped() || transfer.over.load(Relaxed) {
                return Err(Error::Interrupted);
            }
            if answer.body.is_end() {
                break self.at_end(transfer, answer, holds_to, &host);
            }
        }
    }

    /// The answer is read to its end.
    fn at_end(
        &mut self,
        transfer: &Transfer,
        answer: Answer,
        holds_to: Option<u64>,
        host: &str,
    ) -> Result<(), Error> {
        let Answer { url, body, .. } = answer;
        self.client.keep(&url, body);
        let mut ledger = transfer.ledger();
        let at = ledger.claim(self.state.id).filter(|claim| !claim.is_empty()).map(|claim| claim.start);
        if let (Some(at), Some(end)) = (at, holds_to)
            && at < end
        {
            let expected = format!("the bytes up to {}", Bytes(end));
            return Err(Error::Truncated { host: host.to_owned(), got: Bytes(at), expected });
        }
        if ledger.size().is_none() {
            let end = ledger.claim(self.state.id).map_or(0, |claim| claim.start);
            if !ledger.ends_at(end) {
                let detail = format!("its answer ended at byte {end}, before bytes that are already here");
                return Err(Error::WrongPart { host: host.to_owned(), detail });
            }
        }
        Ok(())
    }

    /// Lets go of the claim, and decides what the result means for the transfer.
    fn after_part(&mut self, transfer: &Arc<Transfer>, result: Result<(), Error>) {
        self.state.bulk.store(false, Relaxed);
        self.state.started.store(false, Relaxed);
        transfer.ledger().release(self.state.id);
        let kicked = self.state.kick.swap(false, Relaxed);
        if result.is_err() {
            self.client.close();
        }
        if transfer.ledger().is_complete() {
            self.finish(transfer);
        } else if let Err(error) = result
            && !self.run.is_stopped()
            && !transfer.over.load(Relaxed)
            && !kicked
        {
            self.part_failed(transfer, error);
        }
        self.run.pool.end_bulk();
    }

    fn part_failed(&mut self, transfer: &Arc<Transfer>, error: Error) {
        match error {
            Error::Dropped | Error::Interrupted => return,
            Error::Changed { .. } => return self.begin_again(transfer, error),
            _ => {}
        }
        let done = transfer.ledger().done().len();
        let others = transfer.ledger().started() > 0;
        if others {
            self.state.refused.store(true, Relaxed);
        }
        if error.is_permanent() && others && error.is_remote() {
            // What the server says to one connection too many is no word on the one that brings the bytes.
            tracing::info!("a further connection was refused: {error:#}");
            return self.sleep(self.pause(1, &error), Stage::Idle);
        }
        if error.is_permanent() {
            return self.end(transfer, error);
        }
        if transfer.is_resumable() {
            transfer.ranged.store(true, Relaxed);
        }
        if done > transfer.at_failure.swap(done, Relaxed) {
            transfer.failures.store(0, Relaxed);
        }
        let failures = transfer.failures.fetch_add(1, Relaxed) + 1;
        let keeps = transfer.ranged.load(Relaxed) || transfer.sink.part().is_some();
        if failures > self.run.options.retries && !others || !keeps && done > 0 {
            return self.end(transfer, error);
        }
        if !transfer.ranged.load(Relaxed) && done > 0 {
            return self.begin_again(transfer, error);
        }
        let pause = self.pause(failures, &error);
        tracing::info!(
            "{}: {error:#}; trying again in {:.1} s",
            object::shown(&transfer.url),
            pause.as_secs_f64()
        );
        self.sleep(pause, if error.retry_after().is_some() { Stage::Backoff } else { Stage::Idle });
    }

    /// The object changed, or cannot be gone on with: once more from its URL and byte 0.
    fn begin_again(&mut self, transfer: &Arc<Transfer>, error: Error) {
        if transfer.over.swap(true, Relaxed) {
            return;
        }
        let restarts = self.run.restarts(transfer.job);
        if restarts > MAX_RESTARTS || transfer.sink.part().is_none() {
            transfer.over.store(false, Relaxed);
            return self.end(transfer, error);
        }
        if transfer.is_resumable() && !self.is_replaced(transfer) {
            // One odd answer, not a new version: what is here may still be right.
            transfer.over.store(false, Relaxed);
            return self.end(transfer, error);
        }
        tracing::warn!("{}: {error:#}; starting again", object::shown(&transfer.url));
        self.run.cut_lanes_of(transfer, self.state.id);
        self.run.pool.deactivate(transfer.job);
        if let Some(part) = transfer.sink.part() {
            part.discard();
        }
        let pause = self.pause(restarts, &error);
        self.run.pool.requeue(Waiting::again(transfer.job, restarts), pause);
    }

    /// The URL now gives another version that could be saved in the place of this one.
    fn is_replaced(&mut self, transfer: &Transfer) -> bool {
        self.client.close();
        let home = home_of(&self.run.jobs[transfer.job]);
        let Ok(answer) = self.client.get(home, &transfer.url, Some((0, None)), None, false) else {
            return false;
        };
        let judged = object::judge(&answer.head, &answer.url, Some(0), SystemTime::now());
        self.client.close();
        let is_page = weir_http::content_type::html_instead_of(
            &transfer.file_name(),
            answer.head.header("content-type"),
        );
        let fits =
            refuse_foreign_coding(transfer, &answer).is_ok() && (self.run.options.any_type || !is_page);
        fits && matches!(judged, Ok(Part::Asked(_) | Part::Whole(_)))
    }

    /// The transfer ends with `error`.
    fn end(&mut self, transfer: &Arc<Transfer>, error: Error) {
        if transfer.over.swap(true, Relaxed) {
            return;
        }
        self.run.cut_lanes_of(transfer, self.state.id);
        let stopped = matches!(error, Error::OutputClosed { .. });
        let _ = transfer.journal_at_end();
        let outcome = transfer.give_up(error);
        self.run.pool.report(transfer.job, transfer.report(outcome, &[]));
        if stopped {
            self.run.pool.stop();
        }
    }

    /// All bytes are here.
    fn finish(&mut self, transfer: &Arc<Transfer>) {
        if transfer.over.swap(true, Relaxed) {
            return;
        }
        // Renaming and syncing are the disk's work.
        self.state.clock.enter(Stage::Write);
        let report = match transfer.finish(self.run.options.sync) {
            Ok(found) => transfer.report(Outcome::Complete, &found),
            Err(error) => {
                if !error.is_verification() {
                    let _ = transfer.journal_at_end();
                }
                let outcome = transfer.give_up(error);
                transfer.report(outcome, &[])
            }
        };
        self.state.clock.enter(Stage::Other);
        self.state.objects.fetch_add(1, Relaxed);
        self.run.pool.report(transfer.job, report);
    }

    /// How much to ask of the socket at once.
    fn piece(&self) -> usize {
        self.run.limiter.as_ref().map_or(BLOCK, |limiter| limiter.piece())
    }

    /// Counts bytes and keeps to `--limit-rate`.
    fn received(&mut self, bytes: u64) {
        self.state.received.fetch_add(bytes, Relaxed);
        if let Some(limiter) = &self.run.limiter {
            let pause = limiter.book(bytes, Instant::now());
            if pause > Duration::ZERO {
                self.sleep(pause, Stage::Limited);
            }
        }
    }

    fn count(&mut self) {
        let (connects, requests) = self.client.take_counts();
        self.state.connects.fetch_add(connects, Relaxed);
        self.state.requests.fetch_add(requests, Relaxed);
    }

    fn pause(&self, failures: u32, error: &Error) -> Duration {
        let doubled = FIRST_PAUSE * (1 << failures.saturating_sub(1).min(10));
        let spread = doubled.min(MAX_PAUSE).mul_f64(0.5 + fastrand::f64());
        error.retry_after().map_or(spread, |asked| asked.max(spread))
    }

    /// Sleeps in short steps, so that a stop is heard.
    fn sleep(&self, span: Duration, stage: Stage) {
        self.state.clock.enter(stage);
        let end = Instant::now() + span;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.run.is_stopped() || self.state.kick.load(Relaxed) {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        self.state.clock.enter(Stage::Other);
    }
}

/// What each of `lanes` lanes receives before it writes: all their buffers together stay at half of the 64 MiB that a run may have.
fn block_of(lanes: u32) -> usize {
    let share = (32 << 20) / lanes.max(1) as usize;
    (1 << share.ilog2()).clamp(256 << 10, BLOCK)
}

/// Bytes from `at` to the next multiple of `block`, so that every further write begins at one.
fn to_boundary(at: u64, block: usize) -> usize {
    block - (at % block as u64) as usize
}

fn add_declared(expectations: &mut Vec<Expectation>, object: Object) {
    // The user's word counts; the strongest of the server's is checked beside it.
    if let Some(one) = object.declared {
        expectations
            .push(Expectation { expected: one.expected, origin: format!("the server's {}", one.field) });
    }
}

/// The file of a job where it is known before the server is asked.
fn target_before(job: &Job) -> Option<PathBuf> {
    match &job.output {
        Output::File(_) if job.output.is_stream() => None,
        Output::File(path) => Some(path.clone()),
        Output::Folder(folder) => Some(folder.join(object::name_from_url(&job.url))),
        Output::Stdout | Output::Memory(_) => None,
    }
}

fn target_after(job: &Job, answer: &Answer) -> Option<PathBuf> {
    match &job.output {
        Output::Folder(folder) => Some(folder.join(object::file_name(&answer.head, &job.url))),
        _ => target_before(job),
    }
}

fn has_journal(target: &Path) -> bool {
    crate::sink::part_file::names(target).1.exists()
}

/// A report with nothing in it yet.
pub fn blank(job: &Job) -> FileReport {
    FileReport {
        url: object::shown(&job.url),
        path: None,
        bytes: 0,
        resumed_from: 0,
        connections: 0,
        digest: None,
        verified: false,
        outcome: Outcome::Complete,
        body: None,
    }
}

/// The report of a job that failed before its object was at work; what an earlier run kept is still there.
pub fn failed_before_opening(job: &Job, error: Error) -> FileReport {
    let target = target_before(job);
    let kept = target.as_deref().filter(|target| has_journal(target));
    let bytes = kept
        .and_then(|target| Journal::read(&crate::sink::part_file::names(target).1).ok().flatten())
        .map_or(0, |journal| journal.stored().len());
    let outcome = if bytes > 0 && !matches!(error, Error::Locked { .. }) {
        Outcome::Partial(error)
    } else {
        Outcome::Failed(error)
    };
    FileReport { path: target, bytes, resumed_from: bytes, outcome, ..blank(job) }
}

fn status_416(answer: &Answer) -> Error {
    Error::Status {
        host: host_of(&answer.url),
        status: 416,
        reason: "Range Not Satisfiable".to_owned(),
        retry_after: None,
    }
}

/// A part in a coding of its own cannot be put beside the others.
fn refuse_foreign_coding(transfer: &Transfer, answer: &Answer) -> Result<(), Error> {
    match object::foreign_coding(&answer.head, &transfer.file_name()) {
        Some(coding) => Err(Error::Coded { host: host_of(&answer.url), coding }),
        None => Ok(()),
    }
}

/// A part that names another version. One that names none came by `If-Range`, which is the server's word.
fn differs(pinned: Option<&Validator>, answer: &Answer) -> bool {
    pinned.is_some_and(|pinned| pinned.compare(&answer.head.fields) == Comparison::Changed)
}

/// The URL for whose origin credentials and fields were given.
fn home_of(job: &Job) -> &Url {
    job.home.as_ref().unwrap_or(&job.url)
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}
