//! A lane: one connection at work, on its own thread. It drives [`crate::download`]: opens objects
//! (`opening`), stores the small ones (`storing`), carries the bytes of others to their place (`carrying`),
//! looks at existing files (`here`), and does what follows from a failure or the end (`ending`).

mod carrying;
mod ending;
mod here;
mod opening;
mod refusing;
mod resuming;
mod storing;

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use url::Url;
use weir_observe::names::Lookup;
use weir_observe::thread::{current_tid, thread_cpu_now};
use weir_units::limiter::HEARD;

pub use self::ending::never_opened;
use crate::engine::Run;
use crate::error::GetError;
use crate::http::connection::Dial;
use crate::http::decoded::Decoded;
use crate::http::exchange::{Answer, Client, Exchange, Http};
use crate::job::Job;
use crate::ledger::LaneId;
use crate::object::{self, Object};
use crate::pool::{Avoid, Work};
use weir_observe::stage_clock::{Stage, StageClock};

/// [`LaneState::host`] of a lane without a job.
pub const NOBODY: u32 = u32::MAX;

/// A connection or a head takes a second over the worst of paths; from then on another lane does this one's
/// other work.
const STUCK: Duration = Duration::from_secs(1);

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
    /// The host that it works for ([`Job::host`]), or [`NOBODY`].
    pub host: AtomicU32,
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
            host: AtomicU32::new(NOBODY),
            kick: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            cpu_at_end: AtomicU64::new(0),
        }
    }

    /// The host that it has waited for for a while: for a connection, for the head of an answer, or because
    /// it was asked to.
    pub(crate) fn stuck_at(&self) -> Option<u32> {
        let (stage, since) = self.clock.current();
        let is_waiting = stage.connects() || matches!(stage, Stage::FirstByte | Stage::Backoff);
        let is_stuck = is_waiting && since >= STUCK;
        Some(self.host.load(Relaxed)).filter(|host| is_stuck && *host != NOBODY)
    }

    /// At work on bytes that another lane could go on with.
    pub(crate) fn is_replaceable(&self) -> bool {
        self.bulk.load(Relaxed) && self.ranged.load(Relaxed)
    }

    /// Ends a blocked receive or send.
    pub fn cut(&self) {
        if let Some(socket) = &self.socket.lock().0 {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// The lane's thread.
pub fn run(run: &Run<'_>, state: &LaneState) {
    state.tid.store(current_tid().0, Relaxed);
    let on_socket = |socket: Option<&Arc<TcpStream>>| {
        // A connection that was closed keeps its readings until the next one: it is shut down, so this holds
        // nobody up.
        let Some(new) = socket else { return };
        let mut shared = state.socket.lock();
        if !shared.0.as_ref().is_some_and(|old| Arc::ptr_eq(old, new)) {
            *shared = (Some(Arc::clone(new)), shared.1 + 1);
        }
    };
    let dial = Dial {
        timeout: run.options.timeout,
        connect_timeout: run.options.connect_timeout,
        speed: run.options.speed,
        max_wait: run.options.max_wait,
        receive_buffer: run.options.receive_buffer,
        accept_unclean: run.options.accept_unclean,
        stops: [&**run.stop, &state.kick],
    };
    let client = Client::new(run.http, &state.clock, dial, &on_socket).tries_again(run.options.retries > 0);
    let (scratch, began) = (Vec::new(), Instant::now());
    let mut lane = Lane { run, state, client, scratch, began, avoids: None, rest: None };
    loop {
        let avoids = lane.avoids.filter(|avoids| Instant::now() < avoids.until);
        let rests = || state.clock.enter(lane.resting());
        rests();
        let work = run.pool.next(state.id, avoids, &rests);
        match work {
            Work::Quit => break,
            Work::Open(waiting) => {
                state.host.store(waiting.task.host(), Relaxed);
                lane.open(waiting);
            }
            Work::Part(transfer, _) => {
                state.host.store(transfer.task.host(), Relaxed);
                lane.part(&transfer);
            }
        }
        state.host.store(NOBODY, Relaxed);
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
    /// When this lane's attempt at a transfer began.
    began: Instant,
    /// A host that has asked this lane to stay away.
    avoids: Option<Avoid>,
    /// What its last job waits for: without other work so does the lane.
    rest: Option<Rest>,
}

/// Why a job that a lane has put back is not asked for at once.
enum Rest {
    /// Not before this: the stage says after what ([`GetError::pause_stage`]).
    Until(Instant, Stage),
    /// Its name has no address yet.
    Name(Lookup),
}

impl Lane<'_> {
    fn count(&mut self) {
        let (connects, requests) = self.client.take_counts();
        self.state.connects.fetch_add(connects, Relaxed);
        self.state.requests.fetch_add(requests, Relaxed);
    }

    /// What comes next is of `job`, for the file `name`. What is packed already is asked for as it is: a
    /// server that packs whatever it sends would pack it twice.
    fn expects(&mut self, job: &Job, name: &str) {
        self.client.expects_proven(job.is_proven());
        self.client.takes_coded(!weir_http::encoding::is_packed(name));
    }

    /// The object of `job` is left alone for as long as `pause` because of `error`; this lane does other work
    /// meanwhile. Where the server asks for the pause, that is of another host.
    fn put_off(&mut self, job: &Job, error: &GetError, pause: Duration) {
        let until = Instant::now() + pause;
        match error.pause_stage() {
            Stage::Backoff => self.avoids = Some(Avoid { host: job.host(), until }),
            stage => self.rest = Some(Rest::Until(until, stage)),
        }
    }

    /// What it is at while there is no work for it.
    fn resting(&self) -> Stage {
        let now = Instant::now();
        match (&self.avoids, &self.rest) {
            (Some(avoids), _) if now < avoids.until => Stage::Backoff,
            (_, Some(Rest::Until(until, stage))) if now < *until => *stage,
            (_, Some(Rest::Name(name))) if !name.is_over() => Stage::Resolving,
            _ => Stage::Idle,
        }
    }

    /// A word before a pause.
    fn say_pause(&self, url: &Url, error: &GetError, pause: Duration) {
        self.run.http.waits().say(&object::shown(url), &object::host_of(url), error, pause);
    }

    /// Sleeps in short steps, so that a stop is heard. Returns whether to go on.
    fn sleep(&self, span: Duration, stage: Stage) -> bool {
        self.state.clock.enter(stage);
        let end = Instant::now() + span;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_called() {
                break;
            }
            std::thread::sleep(left.min(HEARD));
        }
        self.state.clock.enter(Stage::Other);
        !self.is_called()
    }

    /// The run is over, or this lane is to look up.
    fn is_called(&self) -> bool {
        self.run.is_stopped() || self.state.kick.load(Relaxed)
    }
}

/// A body that is not the file called `name`, whatever its status says: a web page in its place, unless the
/// server offers it as a file.
fn refuse_unfit(name: &str, answer: &Answer, any_type: bool) -> Result<(), GetError> {
    let disposition = answer.head.header("content-disposition");
    let is_offered = disposition.is_some_and(weir_http::content_disposition::is_attachment);
    let kind = answer.head.header("content-type");
    if !any_type && !is_offered && weir_http::content_type::html_instead_of(name, kind) {
        return Err(GetError::WebPage { host: object::host_of(&answer.url), name: name.to_owned() });
    }
    Ok(())
}

/// What is to be said of how the body called `name` is coded, and the answer and its object decoded where
/// that was asked for. A decoded body has no size, and nothing can be put beside it. The size that the job's
/// manifest knows is that of a body that is not coded.
fn decode(
    http: &Http,
    job: &Job,
    name: &str,
    answer: Answer,
    object: Object,
) -> (Answer, Object, Vec<String>) {
    let over: Vec<String> = weir_http::encoding::passed_over(&answer.head.fields);
    let mut notes: Vec<String> = over
        .iter()
        .map(|word| format!("the unknown Content-Encoding '{}' was ignored", object::printable(word)))
        .collect();
    let Some(coding) = object::foreign_coding(&answer.head.fields, name) else {
        let object = match &job.pinned {
            Some(pinned) => pinned.sized(object),
            None => object,
        };
        return (answer, object, notes);
    };
    let decodable = weir_http::encoding::decodable(&coding).filter(|_| http.is_compressed());
    let Some(codings) = decodable.filter(|_| answer.head.status != 206) else {
        notes.push(match http.is_compressed() {
            true => format!("saved as it came, coded with {coding}, which weir does not decode"),
            false => format!("saved as it came, coded with {coding}; --compressed decodes it"),
        });
        return (answer, object, notes);
    };
    let body = Decoded::new(&object::host_of(&answer.url), answer.body, &codings).of_content(coding);
    let answer = Answer { body: Exchange::Decoded(Box::new(body)), ..answer };
    let object = Object {
        size: None,
        holds_to: None,
        ranged: false,
        // Of the coded bytes, which are not kept.
        declared: None,
        version: object.version.uncoded(),
    };
    (answer, object, notes)
}
