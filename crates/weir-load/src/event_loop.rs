//! One thread's loop: its share of the connections, one epoll, one answer after another.
//!
//! What a request costs here is one write, one read, and a part of one wait. Sockets are registered once, edge-triggered:
//! a level-triggered wait would ask each socket again after it was served, and switching between "may I write" and "may I
//! read" would cost two more system calls a request. An edge is enough, because a read that fills less than the buffer
//! emptied the socket, and a write is only waited for after one that did not fit.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use weir_observe::thread::{ThreadClock, current_tid, thread_cpu_now};

use crate::answer::{Complete, LastHead};
use crate::connection::{Connection, Phase};
use crate::error::Error;
use crate::schedule::Schedule;
use crate::script::ScriptThread;
use crate::settings::Settings;
use crate::tally::{Row, Tally};
use crate::target::Address;
use crate::wire::{Progress, Wire};

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

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    Connect,
    Read,
    Write,
    Timeout,
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
    now: u64,
    active: usize,
    measuring: bool,
    measured_from: u64,
    cpu_at: Duration,
    runqueue_at: Option<Duration>,
    clock: Option<ThreadClock>,
    tick: u64,
    next_tick: u64,
    sampled_at: u64,
    sampled_requests: u64,
    sampled_bytes: u64,
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
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| Error::system("make an epoll", e))?;
        let threads = f64::from(settings.threads);
        let interval = settings.rate.map(|rate| 1e9 * index as f64 / rate);
        // Loops take turns: the plan as a whole is even.
        let schedule = settings.rate.zip(interval).map(|(rate, after)| Schedule::new(after as u64, rate / threads));
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
            now: 0,
            active: connections,
            measuring: false,
            measured_from: 0,
            cpu_at: Duration::ZERO,
            runqueue_at: None,
            clock: ThreadClock::open(current_tid()).ok(),
            // A quarter of the time-out, so that one is noticed at most a quarter late.
            tick: (timeout / 4).clamp(1_000_000, SAMPLE),
            next_tick: 0,
            sampled_at: 0,
            sampled_requests: 0,
            sampled_bytes: 0,
            failed: None,
        })
    }

    /// Runs until the time is over, the requests are all made, or someone says stop.
    pub(crate) fn run(mut self) -> LoopReport {
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
            for event in &events {
                self.handle(event.data.u64(), event.flags);
            }
            self.wake();
            self.dispatch();
            if self.now >= self.next_tick {
                self.look_around();
            }
        }
        self.report()
    }

    fn clock_now(&self) -> u64 {
        self.shared.start.elapsed().as_nanos() as u64
    }

    fn is_over(&self) -> bool {
        self.now >= self.shared.to
            || self.active == 0
            || self.failed.is_some()
            || self.shared.stop.load(Relaxed)
            || matches!(&self.source, Source::Scripted(script, _) if script.said_stop())
    }

    fn wait_at_most(&self) -> Timespec {
        let wake = self.wakes.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        let until = self.next_tick.min(wake).min(self.shared.to).saturating_sub(self.now);
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
        let readable = flags.intersects(
            epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::RDHUP | epoll::EventFlags::ERR,
        );
        match self.connections[index].phase {
            Phase::Connecting => self.go_on_connecting(index),
            Phase::Sending => {
                if flags.contains(epoll::EventFlags::OUT) {
                    self.send(index);
                }
                if readable && matches!(self.connections[index].phase, Phase::Sending | Phase::Waiting) {
                    self.read(index);
                }
            }
            Phase::Waiting | Phase::Ready | Phase::Delayed if readable => self.read(index),
            _ => {}
        }
    }

    /// Opens a connection, if there is something left to ask.
    fn open(&mut self, index: usize) {
        if !self.grant(index) {
            return self.retire(index);
        }
        let connection = &mut self.connections[index];
        connection.answer.reset();
        connection.connect_begun = Some(self.now);
        connection.phase = Phase::Connecting;
        let opened = Wire::connect(&self.address, self.shared.settings.tls.as_ref()).and_then(|wire| {
            let interest =
                epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
            epoll::add(&self.epoll, wire.as_fd(), epoll::EventData::new_u64(index as u64), interest)?;
            Ok(wire)
        });
        match opened {
            Ok(wire) => connection.wire = Some(wire),
            Err(_) => self.fail(index, Failure::Connect),
        }
    }

    fn go_on_connecting(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(wire) = &mut connection.wire else { return };
        match wire.open() {
            Ok(Progress::Waiting) => {}
            Ok(Progress::Ready) => {
                self.now = self.clock_now();
                let connection = &mut self.connections[index];
                connection.connected = self.now;
                let took = self.now.saturating_sub(connection.connect_begun.unwrap_or(self.now));
                self.tally.connect.saturating_record(took);
                self.tally.connecting += Duration::from_nanos(took);
                self.ready(index);
            }
            Err(_) => self.fail(index, Failure::Connect),
        }
    }

    /// Whether the connection may make a request.
    fn grant(&mut self, index: usize) -> bool {
        let connection = &mut self.connections[index];
        if let Some(most) = self.shared.settings.requests.filter(|_| !connection.granted) {
            connection.granted = self.shared.granted.fetch_add(1, Relaxed) < most;
            return connection.granted;
        }
        true
    }

    fn retire(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.phase != Phase::Retired {
            connection.phase = Phase::Retired;
            connection.wire = None;
            self.active -= 1;
        }
    }

    /// The connection is free for its next request.
    fn ready(&mut self, index: usize) {
        if !self.grant(index) {
            return self.retire(index);
        }
        if let Source::Scripted(script, _) = &self.source {
            match script.delay() {
                Ok(None) => {}
                Ok(Some(delay)) => {
                    let connection = &mut self.connections[index];
                    connection.phase = Phase::Delayed;
                    connection.wake_at = self.now.saturating_add(delay.as_nanos() as u64);
                    return self.wakes.push(Reverse((connection.wake_at, index)));
                }
                Err(error) => return self.failed = Some(error),
            }
        }
        match self.schedule.as_mut().map(|schedule| schedule.take(self.now)) {
            None => self.begin(index, self.now),
            Some(Some(planned)) => self.begin(index, planned),
            Some(None) => {
                self.connections[index].phase = Phase::Ready;
                self.idle.push_back(index);
            }
        }
    }

    /// Sends the next request, which was planned for `planned`.
    fn begin(&mut self, index: usize, planned: u64) {
        let connection = &mut self.connections[index];
        connection.due = match &self.source {
            Source::Same(_, depth) | Source::Kept(_, depth, _) => *depth,
            Source::Scripted(script, depth) => {
                if let Err(error) = script.request(&mut connection.request) {
                    return self.failed = Some(error);
                }
                *depth
            }
        };
        connection.granted = false;
        (connection.planned, connection.begun) = (planned, self.now);
        (connection.sent, connection.sent_all, connection.first_byte) = (0, false, None);
        connection.phase = Phase::Sending;
        self.send(index);
    }

    fn send(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(wire) = &mut connection.wire else { return };
        let request = match &self.source {
            Source::Same(request, _) | Source::Kept(request, ..) => request,
            Source::Scripted(..) => &connection.request,
        };
        let before = connection.sent;
        match wire.write(request, &mut connection.sent) {
            Ok(done) => {
                self.tally.sent += (connection.sent - before) as u64;
                if done {
                    connection.sent_all = true;
                    connection.phase = Phase::Waiting;
                    if self.shared.settings.rows > 0 {
                        connection.written = self.shared.start.elapsed().as_nanos() as u64;
                    }
                }
            }
            // A server that had enough may have answered before it closed.
            Err(_) => {
                // A buffer of its own: the loop's may be in use further up.
                self.read_into(index, &mut [0; 16 << 10]);
                if self.connections[index].phase == Phase::Sending {
                    self.fail(index, Failure::Write);
                }
            }
        }
    }

    fn read(&mut self, index: usize) {
        // Out of the loop's hands while answers are taken from it.
        let mut buffer = std::mem::take(&mut self.buffer);
        self.read_into(index, &mut buffer);
        self.buffer = buffer;
    }

    fn read_into(&mut self, index: usize, buffer: &mut [u8]) {
        loop {
            let connection = &mut self.connections[index];
            let Some(wire) = &mut connection.wire else { return };
            let count = match wire.read(buffer) {
                Ok(0) => return self.ended(index),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) if connection.due == 0 => return self.reopen(index),
                Err(_) => return self.fail(index, Failure::Read),
            };
            let drained = count < buffer.len() && wire.short_read_means_empty();
            self.tally.received += count as u64;
            match self.take(index, &buffer[..count]) {
                Taken::More if drained => return,
                Taken::More => {}
                Taken::Moved => return,
            }
        }
    }

    /// Takes what was read apart.
    fn take(&mut self, index: usize, mut bytes: &[u8]) -> Taken {
        while !bytes.is_empty() {
            let connection = &mut self.connections[index];
            if connection.due == 0 {
                // Nobody asked for this.
                self.fail(index, Failure::Read);
                return Taken::Moved;
            }
            let kept = self.keeps.then_some(&mut connection.kept);
            let fed = connection.answer.feed(bytes, &mut self.last, self.shared.settings.bodyless, kept);
            match fed {
                Err(_) => {
                    self.fail(index, Failure::Read);
                    return Taken::Moved;
                }
                Ok((_, None)) => {
                    if connection.first_byte.is_none() {
                        connection.first_byte = Some(self.shared.start.elapsed().as_nanos() as u64);
                    }
                    return Taken::More;
                }
                Ok((used, Some(complete))) => {
                    bytes = &bytes[used..];
                    self.answered(index, complete);
                    let connection = &self.connections[index];
                    if self.failed.is_some() {
                        return Taken::Moved;
                    }
                    if !complete.keep_alive {
                        self.reopen_after_answer(index);
                        return Taken::Moved;
                    }
                    if connection.due == 0 && bytes.is_empty() {
                        self.free(index);
                        return Taken::Moved;
                    }
                }
            }
        }
        Taken::More
    }

    /// A whole answer has come.
    fn answered(&mut self, index: usize, complete: Complete) {
        self.now = self.shared.start.elapsed().as_nanos() as u64;
        let connection = &mut self.connections[index];
        connection.due -= 1;
        connection.failures = 0;
        let tally = &mut self.tally;
        tally.requests += 1;
        tally.errors.status += u64::from(complete.status > 399);
        let lengths = &mut tally.lengths;
        lengths.bodies += complete.body;
        lengths.kept += u64::from(complete.keep_alive);
        lengths.not_2xx += u64::from(!(200..300).contains(&complete.status));
        match lengths.first {
            None => {
                lengths.first = Some(complete.body);
                tally.first_head = self.last.bytes().to_vec();
            }
            Some(first) => lengths.other += u64::from(first != complete.body),
        }
        if let Source::Scripted(script, _) = &self.source
            && self.keeps
        {
            if let Err(error) = script.response(complete.status, &connection.kept) {
                self.failed = Some(error);
            }
            connection.kept.body.clear();
        }
        if connection.due > 0 {
            return;
        }
        tally.latency.saturating_record(self.now.saturating_sub(connection.planned));
        if let Some(service) = &mut tally.service {
            service.saturating_record(self.now.saturating_sub(connection.begun));
        }
        let first_byte = connection.first_byte.take();
        let first = first_byte.unwrap_or(self.now);
        tally.first_byte += Duration::from_nanos(first.saturating_sub(connection.begun));
        tally.inside += Duration::from_nanos(self.now.saturating_sub(first));
        let connect_begun = connection.connect_begun.take();
        if tally.rows.len() < self.shared.settings.rows {
            // A kept connection has no connect time; a new one counts from where it was asked for.
            let start = connect_begun.unwrap_or(connection.begun);
            let until = |from: u64, to: u64| Duration::from_nanos(to.saturating_sub(from));
            tally.rows.push(Row {
                start: Duration::from_nanos(start),
                connect: connect_begun.map_or(Duration::ZERO, |begun| until(begun, connection.connected)),
                wait: until(connection.written, first),
                total: until(start, self.now),
            });
        }
    }

    /// After the last answer that was due.
    fn free(&mut self, index: usize) {
        // What was answered before it was asked in full leaves the connection in no known state.
        if self.shared.settings.keep_alive && self.connections[index].sent_all {
            self.ready(index);
        } else {
            self.reopen(index);
        }
    }

    /// After an answer that ends the connection. Answers that were still due on it will not come.
    fn reopen_after_answer(&mut self, index: usize) {
        let lost = self.connections[index].due as u64;
        self.tally.errors.read += lost;
        self.reopen(index);
    }

    fn reopen(&mut self, index: usize) {
        self.close(index);
        self.open(index);
    }

    fn close(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        // epoll forgets a socket that is closed.
        connection.wire = None;
        connection.due = 0;
        connection.kept.body.clear();
        if connection.phase == Phase::Ready {
            self.idle.retain(|other| *other != index);
        }
        connection.phase = Phase::Closed;
    }

    /// The peer has closed its end.
    fn ended(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.due == 0 {
            return self.reopen(index);
        }
        match connection.answer.end() {
            Some(complete) => {
                self.answered(index, complete);
                if self.failed.is_none() {
                    self.reopen_after_answer(index);
                }
            }
            None => self.fail(index, Failure::Read),
        }
    }

    fn fail(&mut self, index: usize, failure: Failure) {
        let errors = &mut self.tally.errors;
        match failure {
            Failure::Connect => errors.connect += 1,
            Failure::Read => errors.read += 1,
            Failure::Write => errors.write += 1,
            Failure::Timeout => errors.timeout += 1,
        }
        let connection = &mut self.connections[index];
        connection.failures += 1;
        connection.granted = false;
        self.close(index);
        let connection = &mut self.connections[index];
        // Never from within: a server that refuses at once would make this a recursion.
        connection.wake_at = self.now + connection.backoff();
        self.wakes.push(Reverse((connection.wake_at, index)));
    }

    /// Connections whose time has come: to be opened again, or to ask after a script's delay.
    fn wake(&mut self) {
        while let Some(Reverse((at, index))) = self.wakes.peek().copied().filter(|Reverse((at, _))| *at <= self.now)
        {
            self.wakes.pop();
            let connection = &self.connections[index];
            if connection.wake_at != at {
                continue;
            }
            match connection.phase {
                Phase::Closed => self.open(index),
                Phase::Delayed => match self.schedule.as_mut().map(|schedule| schedule.take(self.now)) {
                    None => self.begin(index, self.now),
                    Some(Some(planned)) => self.begin(index, planned),
                    Some(None) => {
                        self.connections[index].phase = Phase::Ready;
                        self.idle.push_back(index);
                    }
                },
                _ => {}
            }
        }
    }

    /// Requests whose planned time has come, and the timer for the next one.
    fn dispatch(&mut self) {
        while let Some(&index) = self.idle.front() {
            let Some(schedule) = &mut self.schedule else { return };
            let Some(planned) = schedule.take(self.now) else {
                let next = schedule.next_at();
                return self.arm(next);
            };
            self.idle.pop_front();
            self.begin(index, planned);
        }
    }

    /// Has the loop woken at `next`.
    fn arm(&mut self, next: u64) {
        let Some(timer) = self.timer.as_ref().filter(|_| self.armed != next) else { return };
        let left = Duration::from_nanos(next.saturating_sub(self.now).max(1));
        let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        if rustix::time::timerfd_settime(timer, TimerfdTimerFlags::empty(), &once).is_ok() {
            self.armed = next;
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
            self.tally.unsent = schedule.behind(self.now.min(self.shared.to));
        }
        let wires = self.connections.iter().filter_map(|connection| connection.wire.as_ref());
        let paths = wires.filter(|_| matches!(self.address, Address::Tcp(_))).take(PATHS).filter_map(path_seen);
        let paths = paths.collect();
        LoopReport {
            wall: Duration::from_nanos(self.now.min(self.shared.to).saturating_sub(self.measured_from)),
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

/// What became of a connection after what was read had been taken apart.
enum Taken {
    /// More of its answer may come.
    More,
    /// It has its next request, or is closed.
    Moved,
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
