//! One thread's loop: its share of the connections, one epoll, one answer after another.
//!
//! What a request costs here is one write, one read, and a part of one wait. Sockets are registered once, edge-triggered:
//! a level-triggered wait would ask each socket again after it was served, and switching between "may I write" and "may I
//! read" would cost two more system calls a request. An edge is enough, because a read that fills less than the buffer
//! emptied the socket, and a write is only waited for after one that did not fit.

mod connecting;
mod exchange;
mod waking;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::time::{TimerfdClockId, TimerfdFlags};
use weir_observe::thread::{ThreadClock, current_tid, thread_cpu_now};

use crate::answer::LastHead;
use crate::connection::{Connection, Phase};
use crate::error::Error;
use crate::gathering::Gathering;
use crate::schedule::Schedule;
use crate::script::ScriptThread;
use crate::settings::Settings;
use crate::tally::Tally;
use crate::target::Address;
use crate::wire::Wire;
use connecting::Failure;

/// How often rates are sampled, as wrk does it.
const SAMPLE: u64 = 100_000_000;

/// What is read at once: most answers whole, and a quarter of an L2 cache.
const BUFFER: usize = 256 << 10;

/// Events taken from one wait.
const EVENTS: usize = 512;

/// The event of the timer that paces `--rate`; no connection has this number.
const TIMER: u64 = u64::MAX;

/// Sockets whose round trip is asked for at the end.
const PATHS: usize = 16;

/// Nanoseconds after which a round over the events reads no further connection: what is left comes next round, after time-outs,
/// the end of the time and `--rate` have been looked at. A tenth of a tick, and more than a round of small answers takes.
const ROUND: u64 = SAMPLE / 10;

/// What all loops of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) start: Instant,
    /// The measured time, nanoseconds since `start`.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) stop: AtomicBool,
    /// Requests granted so far (`-n`).
    pub(crate) granted: AtomicU64,
    /// What each loop had counted a moment ago, for when its script does not return.
    pub(crate) published: Vec<Mutex<Option<Tally>>>,
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

/// A path as the kernel saw it, from one connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathSeen {
    /// The smallest round trip.
    pub min_rtt: Duration,
    /// The smoothed one at the end. A server's delayed acknowledgements are part of it.
    pub rtt: Duration,
    /// Segments sent again.
    pub retransmits: u64,
}

/// What a loop did.
#[derive(Debug)]
pub(crate) struct LoopReport {
    pub(crate) tally: Tally,
    /// The measured time of this loop.
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    pub(crate) runqueue: Option<Duration>,
    pub(crate) paths: Vec<PathSeen>,
    pub(crate) script: Option<ScriptThread>,
    pub(crate) failed: Option<Error>,
}

impl LoopReport {
    /// Of a loop that could not be made.
    pub(crate) fn failed(error: Error) -> LoopReport {
        LoopReport {
            tally: Tally::new(false),
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            runqueue: None,
            paths: Vec::new(),
            script: None,
            failed: Some(error),
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
    /// Answers are kept for the script's `response()`.
    keeps: bool,
    buffer: Vec<u8>,
    last: LastHead,
    tally: Tally,
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
    measuring: bool,
    measured_from: u64,
    /// When the measured time is over.
    to: u64,
    cpu_at: Duration,
    runqueue_at: Option<Duration>,
    clock: Option<ThreadClock>,
    tick: u64,
    next_tick: u64,
    sampled_at: u64,
    sampled_requests: u64,
    sampled_bytes: u64,
    gathering: Gathering,
    failed: Option<Error>,
}

impl<'a> EventLoop<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        index: usize,
        connections: usize,
        address: Address,
        source: Source,
    ) -> Result<EventLoop<'a>, Error> {
        let settings = &shared.settings;
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| Error::system("make an epoll", e))?;
        let threads = f64::from(settings.threads);
        let interval = settings.rate.map(|rate| 1e9 * index as f64 / rate);
        // Loops take turns: the plan as a whole is even.
        let schedule =
            settings.rate.zip(interval).map(|(rate, after)| Schedule::new(after as u64, rate / threads));
        let timer = schedule.is_some().then(|| timer(&epoll)).transpose()?;
        let timeout = u64::try_from(settings.timeout.as_nanos()).unwrap_or(u64::MAX);
        Ok(EventLoop {
            shared,
            index,
            address,
            epoll,
            connections: (0..connections).map(|_| Connection::new()).collect(),
            keeps: matches!(&source, Source::Scripted(script, _) if script.wants_answers()),
            source,
            buffer: vec![0; BUFFER],
            last: LastHead::default(),
            tally: Tally::new(schedule.is_some()),
            schedule,
            timer,
            armed: u64::MAX,
            idle: VecDeque::new(),
            wakes: BinaryHeap::new(),
            unread: VecDeque::new(),
            round: 0,
            now: 0,
            active: connections,
            measuring: false,
            measured_from: 0,
            to: shared.to,
            cpu_at: Duration::ZERO,
            runqueue_at: None,
            clock: ThreadClock::open(current_tid()).ok(),
            // A quarter of the time-out, so that one is noticed at most a quarter late.
            tick: (timeout / 4).clamp(1_000_000, SAMPLE),
            next_tick: 0,
            sampled_at: 0,
            sampled_requests: 0,
            sampled_bytes: 0,
            gathering: Gathering::default(),
            failed: None,
        })
    }

    /// Runs until the time is over, the requests are all made, or someone says stop.
    pub(crate) fn run(mut self) -> LoopReport {
        // The kernel rounds sleeps up by 50 us for company's sake; here that is half of what is slept or more.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
        self.now = self.clock_now();
        if self.shared.from == 0 {
            self.begin_measuring();
        }
        for index in 0..self.connections.len() {
            self.open(index);
        }
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        while !self.is_over() {
            let timeout = self.wait_at_most();
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(cause) => {
                    self.failed = Some(Error::system("wait for events", cause));
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
            if self.now >= self.next_tick {
                self.look_around();
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
        self.shared.start.elapsed().as_nanos() as u64
    }

    fn is_over(&self) -> bool {
        self.now >= self.to
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
        let until = self.next_tick.min(wake).min(self.to).saturating_sub(self.now);
        // Whole milliseconds, rounded up: epoll_wait counts in no smaller ones, and what is early would wait again.
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

    /// What is done ten times a second: time-outs, samples, the begin of the measured time.
    fn look_around(&mut self) {
        self.next_tick = self.now + self.tick;
        if !self.measuring && self.now >= self.shared.from {
            self.begin_measuring();
        }
        let timeout = u64::try_from(self.shared.settings.timeout.as_nanos()).unwrap_or(u64::MAX);
        for index in 0..self.connections.len() {
            let since = self.connections[index].waits_since();
            if since.is_some_and(|since| self.now.saturating_sub(since) > timeout) {
                self.fail(index, Failure::Timeout);
            }
        }
        let elapsed = self.now - self.sampled_at;
        if elapsed >= SAMPLE {
            self.sample(elapsed);
        }
        if matches!(self.source, Source::Scripted(..))
            && let Ok(mut published) = self.shared.published[self.index].lock()
        {
            *published = Some(self.tally.clone());
        }
    }

    fn sample(&mut self, elapsed: u64) {
        let requests = self.tally.requests - self.sampled_requests;
        // An open loop asks when it is time.
        if self.schedule.is_none() {
            self.gathering.tick(requests, Duration::from_nanos(elapsed), self.connections.len());
        }
        if requests > 0 {
            self.tally.rates.push((requests as f64 * 1e9 / elapsed as f64) as u64);
        }
        self.tally.byte_samples.push(self.tally.received - self.sampled_bytes);
        (self.sampled_requests, self.sampled_bytes) = (self.tally.requests, self.tally.received);
        self.sampled_at = self.now;
    }

    fn begin_measuring(&mut self) {
        self.measuring = true;
        self.measured_from = self.now;
        // As long as was asked for, also where this thread began late.
        self.to = self.now.saturating_add(self.shared.to - self.shared.from);
        let first = (self.tally.lengths.first, std::mem::take(&mut self.tally.first_head));
        self.tally = Tally::new(self.schedule.is_some());
        (self.tally.lengths.first, self.tally.first_head) = first;
        (self.sampled_at, self.sampled_requests, self.sampled_bytes) = (self.now, 0, 0);
        self.cpu_at = thread_cpu_now();
        self.runqueue_at = self.runqueue();
    }

    fn runqueue(&self) -> Option<Duration> {
        self.clock.as_ref()?.read().ok().map(|times| times.wait)
    }

    fn report(mut self) -> LoopReport {
        self.now = self.clock_now();
        if !self.measuring {
            self.begin_measuring();
        }
        let cpu = thread_cpu_now().saturating_sub(self.cpu_at);
        let runqueue = self.runqueue().zip(self.runqueue_at).map(|(now, then)| now.saturating_sub(then));
        if let Some(schedule) = &self.schedule {
            self.tally.unsent = schedule.behind(self.now.min(self.to));
        }
        let wires = self.connections.iter().filter_map(|connection| connection.wire.as_ref());
        let paths =
            wires.filter(|_| matches!(self.address, Address::Tcp(_))).take(PATHS).filter_map(path_seen);
        let paths = paths.collect();
        LoopReport {
            wall: Duration::from_nanos(self.now.min(self.to).saturating_sub(self.measured_from)),
            cpu,
            runqueue,
            paths,
            script: match self.source {
                Source::Scripted(script, _) | Source::Kept(_, _, script) => Some(script),
                Source::Same(..) => None,
            },
            tally: self.tally,
            failed: self.failed,
        }
    }
}

fn timer(epoll: &OwnedFd) -> Result<OwnedFd, Error> {
    let make = || {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(epoll, &timer, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)?;
        Ok(timer)
    };
    make().map_err(|cause: rustix::io::Errno| Error::system("make a timer", cause))
}

fn path_seen(wire: &Wire) -> Option<PathSeen> {
    let info = weir_observe::tcp_info::read(wire.as_fd()).ok()?;
    Some(PathSeen {
        min_rtt: info.min_rtt?,
        rtt: info.rtt?,
        retransmits: info.total_retrans.map_or(0, u64::from),
    })
}
