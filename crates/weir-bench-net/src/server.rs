//! The server: listens, tells control connections from data connections by their cookie, and makes several
//! tests at once.
//!
//! What a stranger can take is bounded: tests at once, connections that have not said who they are, seconds
//! and bytes of a test, bytes of a frame, seconds of each wait.

mod answers;
mod hellos;
mod session;
mod unknown;

use std::collections::HashMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::auth::Guard;
use crate::control::is_pause;
use crate::cookie::Cookie;
use crate::copies::Copies;
use crate::error::NetError;
use crate::outcome::{Interval, Start, TestOutcome};
use crate::results::Output;
use crate::socket::{self, Wiring};
use crate::state::TestState;
use crate::transactions::Answered;
use hellos::Hellos;
use session::Held;
use unknown::Unknown;

pub use crate::meter::SPAN as RATE_SPAN;

/// A client that has to say something says it within this.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Between two looks at whether the user said stop.
const GLANCE: Duration = Duration::from_millis(100);

/// How a server works.
pub struct Options {
    /// Where to listen.
    pub listen: Vec<SocketAddr>,
    /// End after one test.
    pub one_off: bool,
    /// Tests at once.
    pub most_clients: usize,
    /// Seconds of a test, at most; `None` without a bound.
    pub most_time: Option<Duration>,
    /// Bytes of a test, at most; `None` without a bound.
    pub most_bytes: Option<u64>,
    /// Bits per second of a test in all its streams: no more may be asked for, and one that moves more on
    /// average over seconds is ended.
    pub most_rate: Option<u64>,
    /// The average of that is taken over so long.
    pub rate_span: Duration,
    /// How long a client may be silent where it has to say something.
    pub timeout: Duration,
    /// A test that receives data ends when none come for so long.
    pub receive_timeout: Duration,
    /// Without a client for so long a server of one test ends; `None` waits for ever.
    pub idle: Option<Duration>,
    /// How sockets are made.
    pub wiring: Wiring,
    /// Between two intervals; zero for none.
    pub interval: Duration,
    /// Which copies are made all the same.
    pub copies: Copies,
    /// Datagrams may be bundled.
    pub bundles: bool,
    /// Who is let in; `None` for everyone.
    pub guard: Option<Guard>,
    /// What a client gets that asks for this end's report.
    pub report: Box<dyn Fn(&TestOutcome) -> Output + Send + Sync>,
}

/// What a server tells. Tests are numbered from 1.
#[derive(Debug)]
pub enum Event {
    /// A test begins.
    Started(u64, Box<Start>),
    /// A stretch of it is over.
    Interval(u64, Box<Start>, Box<Interval>),
    /// It is over.
    Ended(u64, Box<TestOutcome>),
    /// A test of transactions is over.
    Answered(u64, Box<Answered>),
    /// It did not come to a test.
    Failed(u64, NetError),
    /// A client came while as many as may were being served.
    Turned(SocketAddr),
}

/// A server that listens.
pub struct Server {
    listeners: Vec<TcpListener>,
    shared: Arc<Shared>,
}

/// What all its threads share.
struct Shared {
    options: Options,
    /// Tests that wait for their data connections.
    waiting: Mutex<HashMap<Cookie, Sender<(u64, TcpStream)>>>,
    /// Tests that wait for their UDP streams.
    hellos: Hellos,
    active: AtomicUsize,
    unknown: Unknown,
    /// Tests so far.
    tests: AtomicUsize,
    /// One test was made, and no more are to be.
    done: AtomicBool,
    tell: Box<dyn Fn(Event) + Send + Sync>,
}

impl Server {
    /// Listens. `tell` is called from several threads.
    pub fn bind(options: Options, tell: Box<dyn Fn(Event) + Send + Sync>) -> Result<Server, NetError> {
        let mut listeners = Vec::new();
        let mut port = None;
        for at in &options.listen {
            // Port 0 is whichever is free: the same one for all addresses.
            let at = SocketAddr::new(at.ip(), if at.port() == 0 { port.unwrap_or(0) } else { at.port() });
            let listener = socket::listen(at, &options.wiring)?;
            port = listener.local_addr().ok().map(|at| at.port());
            listeners.push(listener);
        }
        let shared = Shared {
            options,
            waiting: Mutex::default(),
            hellos: Hellos::default(),
            active: AtomicUsize::new(0),
            unknown: Unknown::default(),
            tests: AtomicUsize::new(0),
            done: AtomicBool::new(false),
            tell,
        };
        Ok(Server { listeners, shared: Arc::new(shared) })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Serves until `stop` is set, or until one test is over where only one is wanted. Tests that run are
    /// told to end.
    pub fn run(self, stop: &Arc<AtomicBool>) -> Result<(), NetError> {
        let mut order = 0;
        let mut busy = Instant::now();
        while !stop.load(Relaxed) && !self.shared.done.load(Relaxed) {
            self.wait();
            for listener in &self.listeners {
                while let Some(stream) = accept(listener) {
                    order += 1;
                    busy = Instant::now();
                    self.greet(stream, order, stop);
                }
            }
            if self.shared.active.load(Relaxed) > 0 {
                busy = Instant::now();
            } else if self.shared.options.idle.is_some_and(|idle| busy.elapsed() >= idle) {
                tracing::info!("no client came for {} s", busy.elapsed().as_secs());
                if self.shared.options.one_off {
                    return Ok(());
                }
                // Nothing is kept between tests that a restart, which iperf3 makes now, would mend.
                busy = Instant::now();
            }
        }
        // Each session sees `stop` within a glance and ends within its farewell.
        let deadline = Instant::now() + Duration::from_secs(5);
        while self.shared.active.load(Relaxed) > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn wait(&self) {
        let mut polled: Vec<PollFd<'_>> =
            self.listeners.iter().map(|one| PollFd::from_borrowed_fd(one.as_fd(), PollFlags::IN)).collect();
        // An interrupted wait is as good as one that is over.
        let _ = poll(&mut polled, Timespec::try_from(GLANCE).ok().as_ref());
    }

    /// Finds out who a connection is, on a thread of its own.
    fn greet(&self, stream: TcpStream, order: u64, stop: &Arc<AtomicBool>) {
        let stream = self.shared.unknown.enter(order, stream);
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(stop));
        let spawned = std::thread::Builder::new().name("net door".to_owned()).spawn(move || {
            let cookie = unknown::read_cookie(&stream, shared.options.timeout);
            let stream = shared.unknown.leave(order, stream);
            match (cookie, stream) {
                (Ok(cookie), Some(stream)) => shared.admit(stream, cookie, order, &stop),
                (Err(cause), _) => tracing::info!("not a client's connection: {cause}"),
                (Ok(_), None) => tracing::info!("a client spoke when its place was given away"),
            }
        });
        if let Err(cause) = spawned {
            self.shared.unknown.forget(order);
            tracing::warn!("no thread for a client: {cause}");
        }
    }
}

impl Shared {
    fn admit(self: &Arc<Shared>, mut stream: TcpStream, cookie: Cookie, order: u64, stop: &AtomicBool) {
        if let Some(waiting) = self.waiting().get(&cookie) {
            let _ = waiting.send((order, stream));
            return;
        }
        let most = if self.options.one_off { 1 } else { self.options.most_clients };
        let peer = stream.peer_addr();
        if self.active.fetch_add(1, Relaxed) >= most || self.done.load(Relaxed) {
            self.active.fetch_sub(1, Relaxed);
            let _ = stream.write_all(&[TestState::AccessDenied.byte()]);
            if let Ok(peer) = peer {
                (self.tell)(Event::Turned(peer));
            }
            return;
        }
        let number = self.tests.fetch_add(1, Relaxed) as u64 + 1;
        // Closed last: a client that waits for this end and then comes again finds its place free.
        let kept = stream.try_clone();
        let held = session::hold(self, stream, cookie, number, stop);
        // Whoever is not let in has had no test: as with iperf3, the one test is still to come.
        let is_let_in = !matches!(held, Err(NetError::Auth(_)));
        match held {
            Ok(Held::Streams(outcome)) => (self.tell)(Event::Ended(number, outcome)),
            Ok(Held::Transactions(answered)) => (self.tell)(Event::Answered(number, answered)),
            Err(error) => (self.tell)(Event::Failed(number, error)),
        }
        if self.options.one_off && is_let_in {
            self.done.store(true, Relaxed);
        }
        self.active.fetch_sub(1, Relaxed);
        drop(kept);
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Cookie, Sender<(u64, TcpStream)>>> {
        self.waiting.lock()
    }
}

/// The next connection, if one waits. What fails here is that one connection's.
fn accept(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept() {
        Ok((stream, _)) => Some(stream),
        Err(cause) if is_pause(&cause) => None,
        Err(cause) => {
            tracing::warn!("a client could not be accepted: {cause}");
            // Without descriptors every try fails: some time for others to end.
            std::thread::sleep(Duration::from_millis(10));
            None
        }
    }
}
