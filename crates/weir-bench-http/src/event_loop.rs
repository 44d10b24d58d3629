//! One thread's loop: its share of the connections, one epoll, one answer after another.
//!
//! What a request costs here is one write, one read, and a part of one wait. Sockets are registered once,
//! edge-triggered: a level-triggered wait would ask each socket again after it was served, and switching
//! between "may I write" and "may I read" would cost two more system calls a request. An edge is enough,
//! because a read that fills less than the buffer emptied the socket, and a write is only waited for after
//! one that did not fit.

mod connecting;
mod dialing;
mod exchange;
mod waking;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{Timespec, epoll};
use rustix::time::{TimerfdClockId, TimerfdFlags};

use crate::answer::LastHead;
use crate::clock::Clock;
use crate::connection::{Connection, Phase};
use crate::error::LoadError;
use crate::gathering::Gathering;
use crate::meter::{Left, Measured, Meter, SAMPLE};
use crate::observer::{Observer, RunProgress};
use crate::request;
use crate::schedule::Schedule;
use crate::script::ScriptThread;
use crate::settings::Settings;
use crate::tally::Tally;
use crate::target::Address;
use connecting::Failure;
use dialing::{DIALED, Dialing};

/// What is read at once: most answers whole, and a quarter of an L2 cache.
const BUFFER: usize = 256 << 10;

/// Events taken from one wait.
const EVENTS: usize = 512;

/// The event of the timer that paces `--rate`; no connection has this number.
const TIMER: u64 = u64::MAX;

/// Sockets whose round trip is asked for at the end.
const PATHS: usize = 16;

/// Nanoseconds after which a round over the events reads no further connection: what is left comes next
/// round, after time-outs, the end of the time and `--rate` have been looked at. A tenth of a tick, and more
/// than a round of small answers takes.
const ROUND: u64 = SAMPLE / 10;

/// What all loops of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    /// The measured time, nanoseconds since the run's start.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) stop: AtomicBool,
    /// Requests granted so far (`-n`).
    pub(crate) granted: AtomicU64,
    /// When each loop was last seen to go on, nanoseconds since the run's start.
    pub(crate) beats: Vec<AtomicU64>,
    /// What each loop had counted a moment ago, for when its script does not return.
    pub(crate) published: Vec<Mutex<Option<Tally>>>,
    /// Answers and errors of each loop, as of its last tick.
    pub(crate) counts: Vec<[AtomicU64; 2]>,
    pub(crate) observer: Arc<dyn Observer>,
}

/// Where a loop's requests come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Always these bytes; so many requests in them.
    Same(Vec<u8>, usize),
    /// What the script's `request()` gives each time.
    Scripted(ScriptThread, usize),
    /// Always these bytes, which a script made that has no more to say; its state is kept for `done()`.
    Kept(Vec<u8>, usize, ScriptThread),
}

impl Source {
    /// Requests that go out together.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Source::Same(_, depth) | Source::Scripted(_, depth) | Source::Kept(_, depth, _) => *depth,
        }
    }

    /// Of each request of a text that is always the same, whether it is a HEAD.
    fn heads(&self) -> Vec<bool> {
        let mut heads = Vec::new();
        match self {
            Source::Same(text, depth) | Source::Kept(text, depth, _) => {
                request::note_heads(text, *depth, &mut heads);
            }
            Source::Scripted(..) => {}
        }
        heads
    }
}

/// A path as the kernel saw it, from one connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathSeen {
    /// The smallest round trip.
    pub min_rtt: Duration,
    /// The smoothed one at the end. A server's delayed acknowledgements are part of it.
    pub rtt: Duration,
    /// Segments sent again.
    pub retransmits: u64,
    /// Segments of data received.
    pub data_segments: u64,
    /// Those of them that came out of order.
    pub out_of_order: u64,
}

/// What a loop did.
pub(crate) struct LoopReport {
    pub(crate) measured: Measured,
    pub(crate) paths: Vec<PathSeen>,
    pub(crate) script: Option<ScriptThread>,
    pub(crate) failed: Option<LoadError>,
    /// The connections that it had at its end. They close when the server has been read: a thread that a
    /// server has for each of them ends with it, and takes its times along.
    pub(crate) open: Vec<OwnedFd>,
}

impl Shared {
    /// A loop's meter.
    pub(crate) fn meter(&self) -> Meter {
        Meter::new(self.from, self.to, self.settings.timeout, self.settings.rate.is_some())
    }

    /// This loop's share of the plan, from `now` on; requests of one batch share one planned time.
    pub(crate) fn schedule(&self, index: usize, now: u64, depth: usize) -> Option<Schedule> {
        let rate = self.settings.rate? / depth as f64;
        let schedule = Schedule::of_loop(now, rate, index, self.beats.len());
        Some(schedule.arriving(self.settings.arrivals, index).ramped(nanos(self.settings.ramp)))
    }

    /// How long after the start of loop `index` its connection of this number is opened, nanoseconds: over
    /// the ramp one after another, the loops by turns. With a rate the ramp is the rate's.
    pub(crate) fn turn(&self, index: usize, connection: usize) -> u64 {
        if self.settings.rate.is_some() || self.settings.ramp.is_zero() {
            return 0;
        }
        let number = (connection * self.beats.len() + index) as f64;
        (nanos(self.settings.ramp) as f64 * number / f64::from(self.settings.connections.max(1))) as u64
    }

    /// Tells what loop `index` has counted, for those who watch.
    pub(crate) fn tell(&self, index: usize, tally: &Tally) {
        let [requests, errors] = &self.counts[index];
        requests.store(tally.requests, Relaxed);
        errors.store(tally.errors.broken() + tally.errors.status, Relaxed);
    }

    /// How far all loops are.
    pub(crate) fn seen(&self) -> RunProgress {
        let sum = |of: usize| self.counts.iter().map(|counts| counts[of].load(Relaxed)).sum();
        RunProgress {
            elapsed: Duration::from_nanos(self.now()),
            warm_up: self.settings.warm_up,
            requests: sum(0),
            errors: sum(1),
        }
    }

    /// A loop goes on: none of the script's functions holds it.
    pub(crate) fn beat(&self, index: usize) {
        self.beats[index].store(self.now(), Relaxed);
    }

    /// Nanoseconds since the run's start, as [`Clock`] counts them.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// How long ago that was.
    pub(crate) fn since(&self, then: u64) -> Duration {
        Duration::from_nanos(self.now().saturating_sub(then))
    }

    /// All of the requests that are to be made (`-n`) have been taken: the plan of a rate has no more of
    /// them.
    pub(crate) fn all_granted(&self) -> bool {
        self.settings.requests.is_some_and(|most| self.granted.load(Relaxed) >= most)
    }

    /// Takes a batch out of the requests that are left to make (`-n`); the last one is not cut short.
    pub(crate) fn grant(&self, depth: usize) -> bool {
        self.settings.requests.is_none_or(|most| self.granted.fetch_add(depth as u64, Relaxed) < most)
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl LoopReport {
    /// Of a loop that could not be made.
    pub(crate) fn failed(error: LoadError) -> LoopReport {
        LoopReport {
            measured: Measured {
                tally: Tally::new(false),
                wall: Duration::ZERO,
                cpu: Duration::ZERO,
                runqueue: None,
            },
            paths: Vec::new(),
            script: None,
            failed: Some(error),
            open: Vec::new(),
        }
    }
}

pub(crate) struct EventLoop<'a> {
    shared: &'a Shared,
    index: usize,
    address: Address,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    source: Source,
    /// As [`Source::heads`], for a request that is always the same.
    heads: Vec<bool>,
    /// Answers are kept for the script's `response()`, or for the observer.
    keeps: bool,
    /// The queue of connections that a way makes.
    dialing: Option<Dialing>,
    buffer: Vec<u8>,
    last: LastHead,
    meter: Meter,
    schedule: Option<Schedule>,
    timer: Option<OwnedFd>,
    armed: u64,
    /// Connections that wait for a request's time to come.
    idle: VecDeque<usize>,
    wakes: BinaryHeap<Reverse<(u64, usize)>>,
    /// Connections that have more to be read than one turn takes.
    unread: VecDeque<usize>,
    /// When this round over the events began.
    round: u64,
    now: u64,
    active: usize,
    gathering: Gathering,
    failed: Option<LoadError>,
}

impl<'a> EventLoop<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        index: usize,
        connections: usize,
        address: Address,
        source: Source,
    ) -> Result<EventLoop<'a>, LoadError> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| LoadError::system("make an epoll", e))?;
        let now = shared.now();
        let schedule = shared.schedule(index, now, source.depth());
        let timer = schedule.is_some().then(|| timer(&epoll)).transpose()?;
        let dialing = shared.settings.way.as_ref().map(|way| Dialing::new(way, &epoll)).transpose()?;
        Ok(EventLoop {
            shared,
            index,
            address,
            epoll,
            connections: (0..connections).map(|_| Connection::new()).collect(),
            keeps: shared.settings.shows_answers
                || matches!(&source, Source::Scripted(script, _) if script.wants_answers()),
            dialing,
            heads: source.heads(),
            source,
            buffer: vec![0; BUFFER],
            last: LastHead::default(),
            meter: shared.meter(),
            schedule,
            timer,
            armed: u64::MAX,
            idle: VecDeque::new(),
            wakes: BinaryHeap::new(),
            unread: VecDeque::new(),
            round: 0,
            now,
            active: connections,
            gathering: Gathering::new(now),
            failed: None,
        })
    }

    /// Runs until the time is over, the requests are all made, or someone says stop.
    pub(crate) fn run(mut self) -> LoopReport {
        // The kernel rounds sleeps up by 50 us for company's sake; here that is half of what is slept or
        // more.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
        if self.shared.from == 0 {
            // Where the plan begins: what is planned in the measured time is then what was asked for.
            self.meter.begin(self.now);
        }
        self.now = self.clock_now();
        self.connections.iter_mut().for_each(|connection| connection.settled = self.now);
        for index in 0..self.connections.len() {
            self.open_in_turn(index);
        }
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        while !self.is_over() {
            let timeout = self.wait_at_most();
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(cause) => {
                    self.failed = Some(LoadError::system("wait for events", cause));
                    break;
                }
            }
            self.now = self.clock_now();
            self.round = self.now;
            for event in &events {
                self.handle(event.data.u64(), event.flags);
                if self.is_over() {
                    break;
                }
            }
            self.read_on();
            self.wake();
            self.dispatch();
            if self.now >= self.meter.next_tick() {
                self.look_around();
            }
            // An open loop asks when it is time.
            if self.schedule.is_none() {
                self.gathering.look(self.now, self.meter.tally.requests, self.connections.len());
            }
            if let Some(moment) = self.gathering.moment().filter(|_| self.unread.is_empty()) {
                let moment = Timespec { tv_sec: 0, tv_nsec: moment.subsec_nanos().into() };
                // Ended early by a signal, it has done no harm.
                let _ = rustix::thread::nanosleep(&moment);
            }
        }
        self.report()
    }

    fn clock_now(&self) -> u64 {
        self.shared.now()
    }

    fn is_over(&self) -> bool {
        self.now >= self.meter.to
            || self.active == 0
            || self.failed.is_some()
            || self.shared.stop.load(Relaxed)
            || matches!(&self.source, Source::Scripted(script, _) if script.said_stop())
    }

    fn wait_at_most(&self) -> Timespec {
        if !self.unread.is_empty() {
            return Timespec { tv_sec: 0, tv_nsec: 0 };
        }
        let wake = self.wakes.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        let until = self.meter.next_tick().min(wake).min(self.meter.to).saturating_sub(self.now);
        // Whole milliseconds, rounded up: epoll_wait counts in no smaller ones, and what is early would wait
        // again.
        let millis = until.div_ceil(1_000_000);
        Timespec { tv_sec: (millis / 1000) as i64, tv_nsec: (millis % 1000 * 1_000_000) as _ }
    }

    fn handle(&mut self, number: u64, flags: epoll::EventFlags) {
        if number == TIMER {
            self.armed = u64::MAX;
            if let Some(timer) = &self.timer {
                let _ = rustix::io::read(timer, &mut [0; 8]);
            }
            return;
        }
        if number == DIALED {
            return self.take_dialed();
        }
        let index = number as usize;
        // The end of the stream may have come with its last bytes: then no other event tells of it.
        let ended =
            flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::RDHUP | epoll::EventFlags::ERR);
        let readable = ended || flags.contains(epoll::EventFlags::IN);
        match self.connections[index].phase {
            Phase::Connecting => self.go_on_connecting(index),
            Phase::Sending => {
                if flags.contains(epoll::EventFlags::OUT) {
                    self.send(index);
                }
                if readable && matches!(self.connections[index].phase, Phase::Sending | Phase::Waiting) {
                    self.read(index, ended);
                }
            }
            Phase::Waiting | Phase::Ready | Phase::Delayed if readable => self.read(index, ended),
            _ => {}
        }
    }

    /// The connection's time until now was spent on what it does; to be called before it does something else.
    fn settle(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let since = std::mem::replace(&mut connection.settled, self.now);
        if let Some(on) = connection.spends() {
            self.meter.spend(on, since, self.now);
        }
    }

    /// The same at the end: requests that are under way have not failed.
    fn settle_all(&mut self) {
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            match connection.is_asking() {
                true => self.meter.spend(|time| &mut time.unfinished, connection.settled, self.now),
                false => self.settle(index),
            }
        }
    }

    /// What is done ten times a second: time-outs, samples, the begin of the measured time.
    fn look_around(&mut self) {
        self.meter.tick(self.now);
        let timeout = u64::try_from(self.shared.settings.timeout.as_nanos()).unwrap_or(u64::MAX);
        for index in 0..self.connections.len() {
            let since = self.connections[index].waits_since();
            if since.is_some_and(|since| self.now.saturating_sub(since) > timeout) {
                let reason = self.connections[index].lacks();
                self.fail(index, Failure::Because(reason));
            }
        }
        self.meter.sample(self.now);
        self.shared.tell(self.index, &self.meter.tally);
        let waiting = self.connections.iter().filter(|one| one.waits_since().is_some()).count();
        self.meter.listen(self.now, waiting);
        if matches!(self.source, Source::Scripted(..)) {
            let mut published = self.shared.published[self.index].lock();
            published
                .get_or_insert_with(|| Tally::new(self.schedule.is_some()))
                .follow(&mut self.meter.tally);
        }
        self.shared.beat(self.index);
    }

    fn report(mut self) -> LoopReport {
        let now = self.clock_now();
        self.now = now;
        self.settle_all();
        let wires = self.connections.iter().filter_map(|connection| connection.wire.as_ref());
        let paths =
            wires.filter(|_| matches!(self.address, Address::Tcp(_))).take(PATHS).filter_map(path_seen);
        let paths = paths.collect();
        let left = self.leave(now.min(self.meter.to));
        let script = match self.source {
            Source::Scripted(script, _) | Source::Kept(_, _, script) => Some(script),
            Source::Same(..) => None,
        };
        let open = self.connections.into_iter().filter_map(|connection| Some(connection.wire?.into_socket()));
        let open = open.collect();
        LoopReport { measured: self.meter.end(now, left), paths, script, failed: self.failed, open }
    }

    /// Requests without an answer when the run ends, at `end`; planned ones are charged with their wait.
    fn leave(&mut self, end: u64) -> Left {
        let asking = self.connections.iter().filter(|connection| connection.is_asking());
        let under_way = asking.clone().map(|connection| connection.due as u64).sum();
        let behind = self.schedule.as_ref().map_or(0, |schedule| schedule.behind(end));
        // Of requests that are counted, those that were never to be asked are not owed.
        let granted = || self.connections.iter().filter(|connection| connection.granted).count() as u64;
        let batches = if self.shared.all_granted() { behind.min(granted()) } else { behind };
        if let Some(schedule) = &self.schedule {
            let asked = asking.map(|connection| (connection.planned, 1));
            self.meter.unanswered(end, asked.chain(schedule.owed(end, batches)));
        }
        Left { under_way, unsent: batches * self.source.depth() as u64 }
    }
}

fn timer(epoll: &OwnedFd) -> Result<OwnedFd, LoadError> {
    let make = || {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(epoll, &timer, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)?;
        Ok(timer)
    };
    make().map_err(|cause: rustix::io::Errno| LoadError::system("make a timer", cause))
}

/// What the kernel knows of a socket's path.
pub(crate) fn path_seen(socket: &impl AsFd) -> Option<PathSeen> {
    let info = weir_observe::tcp_info::read(socket.as_fd()).ok()?;
    Some(PathSeen {
        min_rtt: info.min_rtt?,
        rtt: info.rtt?,
        retransmits: info.total_retrans.map_or(0, u64::from),
        data_segments: info.data_segs_in.map_or(0, u64::from),
        out_of_order: info.rcv_ooopack.map_or(0, u64::from),
    })
}
