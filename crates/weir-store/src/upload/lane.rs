//! A lane: one connection at work, on a thread of its own. It sends small objects whole and large ones part
//! by part, and does what follows from their ends.

mod ending;
mod opening;
mod resuming;

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::time::Instant;

use parking_lot::Mutex;
use weir_codec::digest::Algorithm;
use weir_get::GetError;
use weir_get::http::call::Content;
use weir_get::http::connection::Dial;
use weir_observe::stage_clock::{Stage, StageClock};
use weir_observe::thread::{current_tid, thread_cpu_now};

use super::elsewhere::Elsewhere;
use super::engine::Run;
use super::proof::is_damage;
use super::queue::Work;
use super::source::{Cut, Held, Sending, Stream};
use super::transfer::{Stand, Transfer, Whole};
use super::{Part, Sum, Upload};
use crate::caller::{Caller, CallerSetup};
use crate::error::StoreError;

/// How often a content is sent that did not arrive as it was: once may be a network card's fault, or the
/// file's; what comes in twice wrong is neither's chance.
const DAMAGED: u32 = 2;

/// A lane as others see it.
pub(super) struct LaneState {
    /// Its number, unique in the run.
    pub(super) id: u32,
    /// Where its time goes.
    pub(super) clock: StageClock,
    /// Where the time of its line to another store goes, from which it fetches.
    source_clock: StageClock,
    /// Its kernel thread id; 0 before it runs.
    pub(super) tid: AtomicU32,
    /// Its socket, and how often that changed.
    pub(super) socket: Mutex<(Option<Arc<TcpStream>>, u32)>,
    /// Objects stored.
    pub(super) objects: AtomicU32,
    /// Requests that were answered.
    pub(super) requests: AtomicU32,
    /// At work on a part.
    pub(super) bulk: AtomicBool,
    /// The store has asked for fewer requests since that was last looked at.
    pub(super) refused: AtomicBool,
    /// Its thread has ended, having used this much processor time, nanoseconds.
    pub(super) ended: AtomicBool,
    /// See `ended`.
    pub(super) cpu_at_end: AtomicU64,
}

impl LaneState {
    /// Lane `id`, not yet running.
    pub(super) fn new(id: u32) -> LaneState {
        LaneState {
            id,
            clock: StageClock::new(Instant::now()),
            source_clock: StageClock::new(Instant::now()),
            tid: AtomicU32::new(0),
            socket: Mutex::new((None, 0)),
            objects: AtomicU32::new(0),
            requests: AtomicU32::new(0),
            bulk: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            cpu_at_end: AtomicU64::new(0),
        }
    }
}

/// The lane's thread.
pub(super) fn run(run: &Run<'_>, state: &LaneState) {
    state.tid.store(current_tid().0, Relaxed);
    let on_socket = |socket: Option<&Arc<TcpStream>>| {
        // A connection that was closed keeps its readings until the next one.
        let Some(new) = socket else { return };
        let mut shared = state.socket.lock();
        if !shared.0.as_ref().is_some_and(|old| Arc::ptr_eq(old, new)) {
            *shared = (Some(Arc::clone(new)), shared.1 + 1);
        }
    };
    let setup = CallerSetup {
        http: run.http,
        clock: &state.clock,
        on_socket: &on_socket,
        stop: run.stop,
        timeout: run.options.timeout,
        connect_timeout: run.options.connect_timeout,
        max_wait: run.options.max_wait,
        retries: run.options.retries,
    };
    let dial = Dial::new(run.options.timeout, [&**run.stop, &**run.stop]);
    let caller = Caller::new(setup);
    let caller = if run.uploads.speaks_as_user() { caller.as_user() } else { caller };
    let source = Caller::new(CallerSetup {
        http: run.source_http,
        clock: &state.source_clock,
        on_socket: &|_| {},
        ..setup
    })
    .follows();
    let mut lane = Lane { run, state, caller, source, setup, dial, throttled: 0 };
    loop {
        state.clock.enter(Stage::Idle);
        match run.queue.next() {
            Work::Quit => break,
            Work::Open(job, is_large) => {
                lane.open(job);
                run.queue.done(is_large);
            }
            Work::Part(transfer, number) => {
                lane.part(&transfer, number);
                run.queue.done(true);
            }
        }
        state.bulk.store(false, Relaxed);
    }
    // More uploads may have begun than lanes were at work on.
    while let Some(transfer) = run.queue.left_behind() {
        lane.end(&transfer);
    }
    state.clock.enter(Stage::Idle);
    drop(lane);
    *state.socket.lock() = (None, u32::MAX);
    state.cpu_at_end.store(u64::try_from(thread_cpu_now().as_nanos()).unwrap_or(u64::MAX), Relaxed);
    state.ended.store(true, Release);
}

struct Lane<'a> {
    run: &'a Run<'a>,
    state: &'a LaneState,
    caller: Caller<'a>,
    /// The line to another store.
    source: Caller<'a>,
    setup: CallerSetup<'a>,
    dial: Dial<'a>,
    throttled: u64,
}

/// A request with a content and its digest.
type Request<'r, T> =
    dyn FnMut(&mut Caller<'_>, Option<&Sum>, &mut dyn Content) -> Result<T, StoreError> + 'r;

impl Lane<'_> {
    /// Sends `cut` by `request` until it has arrived as it is; what the store says, and the digest that it
    /// was sent with.
    fn send<T>(
        &mut self,
        cut: Cut<'_>,
        algorithm: Option<Algorithm>,
        transfer: Option<&Transfer>,
        request: &mut Request<'_, T>,
    ) -> Result<(T, Option<Sum>), StoreError> {
        let (run, state, dial) = (self.run, self.state, self.dial);
        let moved = |bytes: i64| run.count_moved(transfer, bytes);
        let sending =
            Sending { clock: &state.clock, limiter: run.limiter.as_deref(), dial: &dial, moved: &moved };
        let mut damaged = 0;
        loop {
            let mut piece = cut.piece(sending);
            let sum = algorithm.map(|algorithm| piece.sum(algorithm)).transpose()?;
            // A digest proves what one request brings, also of a log that keeps growing. Parts, and what goes
            // without a digest, have to be of the file as it was opened.
            if transfer.is_some() || sum.is_none() {
                cut.check()?;
            }
            let outcome = request(&mut self.caller, sum.as_ref(), &mut piece);
            self.count();
            match outcome {
                Ok(value) => return Ok((value, sum)),
                Err(error) => {
                    piece.rewind()?;
                    // A file that changed explains damage and an early end, but not a stop.
                    if !matches!(error, StoreError::Http(GetError::Interrupted)) {
                        cut.check()?;
                    }
                    if !is_damage(&error) || damaged == DAMAGED {
                        return Err(error);
                    }
                    damaged += 1;
                }
            }
        }
    }

    /// The digest of `cut`.
    fn sum(&self, cut: Cut<'_>, algorithm: Option<Algorithm>) -> Option<Sum> {
        let sending = Sending { clock: &self.state.clock, limiter: None, dial: &self.dial, moved: &|_| {} };
        cut.piece(sending).sum(algorithm?).ok()
    }

    /// A request has been answered.
    fn count(&mut self) {
        self.state.requests.fetch_add(1, Relaxed);
        let throttled = self.caller.throttled();
        if throttled > self.throttled {
            self.state.refused.store(true, Relaxed);
            self.run.throttled(throttled - self.throttled, self.caller.throttle_words());
            self.throttled = throttled;
        }
    }

    /// Sends the part `number` of a file, or the next of a stream, and ends the upload after the last.
    fn part(&mut self, transfer: &Arc<Transfer>, number: u32) {
        self.state.bulk.store(true, Relaxed);
        let outcome = match &transfer.content {
            Whole::File(source) => {
                let (start, length) = transfer.plan.range(number, source.identity().size);
                self.send_part(transfer, number, Cut::File(source, start, length))
            }
            Whole::Stream(stream, stage) => {
                // For the lane that reads it now.
                self.state.clock.enter(*stage);
                self.next_of_stream(transfer, stream)
            }
            Whole::Elsewhere(source) => self.part_from(transfer, &Arc::clone(source), number),
        };
        self.leave(transfer, outcome);
    }

    /// The lane has done its part.
    fn leave(&mut self, transfer: &Arc<Transfer>, outcome: Result<Option<(Part, u64)>, StoreError>) {
        if transfer.leave(outcome) == Stand::Over {
            self.end(transfer);
            self.run.queue.retire(transfer);
        }
    }

    /// Fetches a part from another store, and sends it on.
    fn part_from(
        &mut self,
        transfer: &Transfer,
        source: &Elsewhere,
        number: u32,
    ) -> Result<Option<(Part, u64)>, StoreError> {
        let held = self.fetch(source, number, transfer.plan.range(number, source.size))?;
        // Another lane tells why all of it comes to nothing.
        let Some(held) = held else { return Ok(None) };
        let _sends = source.sides.sends();
        self.send_part(transfer, number, Cut::Held(&held))
    }

    /// Meanwhile the target waits for this lane, which has nothing for it.
    fn fetch(
        &mut self,
        source: &Elsewhere,
        number: u32,
        place: (u64, u64),
    ) -> Result<Option<Held>, StoreError> {
        self.state.clock.enter(Stage::Idle);
        let held = source.fetch(&mut self.source, number, place);
        self.state.clock.enter(Stage::Other);
        held
    }

    fn next_of_stream(
        &mut self,
        transfer: &Transfer,
        stream: &Mutex<(Stream, u32)>,
    ) -> Result<Option<(Part, u64)>, StoreError> {
        let mut stream = stream.lock();
        let number = stream.1;
        if number == 0 || transfer.has_failed() {
            return Ok(None);
        }
        let held = Held::read(&mut stream.0, transfer.plan.length(number), &self.state.clock, &self.dial)?;
        stream.1 = if held.is_last { 0 } else { number + 1 };
        if held.is_last {
            transfer.end_stream();
        }
        drop(stream);
        if held.length == 0 {
            return Ok(None);
        }
        let most = self.run.uploads.bounds().parts;
        if number > most {
            return Err(StoreError::Source(format!(
                "standard input is longer than {most} parts of this size hold; choose a larger --part-size"
            )));
        }
        self.send_part(transfer, number, Cut::Held(&held))
    }

    fn send_part(
        &mut self,
        transfer: &Transfer,
        number: u32,
        cut: Cut<'_>,
    ) -> Result<Option<(Part, u64)>, StoreError> {
        let uploads = self.run.uploads;
        let upload = Upload { object: self.run.object(transfer.job), id: &transfer.id };
        let mut algorithm = transfer.algorithm;
        loop {
            let sent = self.send(cut, algorithm, Some(transfer), &mut |caller, sum, content| {
                uploads.part(caller, &upload, number, sum, content)
            });
            match sent {
                Ok((tag, sum)) => return Ok(Some((Part { number, tag, sum }, cut.length()))),
                // An upload that others fill does not begin again for it.
                Err(error) if transfer.share.is_some() && self.run.weakens(algorithm, &error) => {
                    algorithm = self.run.algorithm().filter(|next| Some(*next) != algorithm);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
