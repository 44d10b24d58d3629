//! The server: listens, tells control connections from data connections by their cookie, and makes several tests at once.
//!
//! What a stranger can take is bounded: tests at once, connections that have not said who they are, seconds and bytes of a
//! test, bytes of a frame, seconds of each wait.

mod answers;
mod session;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::auth::Guard;
use crate::control::is_pause;
use crate::cookie::Cookie;
use crate::error::Error;
use crate::outcome::{Copies, Interval, Outcome, Start};
use crate::results::Output;
use crate::socket;
use crate::state::State;
use crate::transactions::Answered;
use session::Held;

/// A client that has to say something says it within this.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Connections that have not said who they are, at most: twice the streams of the largest test.
const MOST_UNKNOWN: usize = 512;

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
    /// Seconds of a test, at most.
    pub most_time: Duration,
    /// Bytes of a test, at most.
    pub most_bytes: Option<u64>,
    /// Bits per second of a test in all its streams: no more may be asked for, and one that moves more on average over seconds is ended.
    pub most_rate: Option<u64>,
    /// How long a client may be silent where it has to say something.
    pub patience: Duration,
    /// Between two intervals; zero for none.
    pub interval: Duration,
    /// Which copies are made all the same.
    pub copies: Copies,
    /// Datagrams may be bundled.
    pub bundles: bool,
    /// Who is let in; `None` for everyone.
    pub guard: Option<Guard>,
    /// What a client gets that asks for this end's report.
    pub report: Box<dyn Fn(&Outcome) -> Output + Send + Sync>,
}

/// What a server tells. Tests are numbered from 1.
#[derive(Debug)]
pub enum Event {
    /// A test begins.
    Started(u64, Box<Start>),
    /// A stretch of it is over.
    Interval(u64, Box<Start>, Box<Interval>),
    /// It is over.
    Ended(u64, Box<Outcome>),
    /// A test of transactions is over.
    Answered(u64, Box<Answered>),
    /// It did not come to a test.
    Failed(u64, Error),
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
    /// Only one test at a time opens its UDP streams: their first words do not say whose they are.
    udp: Mutex<()>,
    active: AtomicUsize,
    unknown: AtomicUsize,
    /// Tests so far.
    tests: AtomicUsize,
    /// One test was made, and no more are to be.
    done: AtomicBool,
    tell: Box<dyn Fn(Event) + Send + Sync>,
}

impl Server {
    /// Listens. `tell` is called from several threads.
    pub fn bind(options: Options, tell: Box<dyn Fn(Event) + Send + Sync>) -> Result<Server, Error> {
        let mut listeners = Vec::new();
        let mut port = None;
        for at in &options.listen {
            // Port 0 is whichever is free: the same one for all addresses.
            let at = SocketAddr::new(at.ip(), if at.port() == 0 { port.unwrap_or(0) } else { at.port() });
            let listener = socket::listen(at)?;
            port = listener.local_addr().ok().map(|at| at.port());
            listeners.push(listener);
        }
        let shared = Shared {
            options,
            waiting: Mutex::default(),
            udp: Mutex::default(),
            active: AtomicUsize::new(0),
            unknown: AtomicUsize::new(0),
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

    /// Serves until `stop` is set, or until one test is over where only one is wanted. Tests that run are told to end.
    pub fn run(self, stop: &Arc<AtomicBool>) -> Result<(), Error> {
        let mut order = 0;
        while !stop.load(Relaxed) && !self.shared.done.load(Relaxed) {
            self.wait();
            for listener in &self.listeners {
                while let Some(stream) = accept(listener) {
                    order += 1;
                    self.greet(stream, order, stop);
                }
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
        if self.shared.unknown.fetch_add(1, Relaxed) >= MOST_UNKNOWN {
            self.shared.unknown.fetch_sub(1, Relaxed);
            return;
        }
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(stop));
        let spawned = std::thread::Builder::new().name("net door".to_owned()).spawn(move || {
            let cookie = read_cookie(&stream, shared.options.patience);
            shared.unknown.fetch_sub(1, Relaxed);
            match cookie {
                Ok(cookie) => shared.admit(stream, cookie, order, &stop),
                Err(cause) => tracing::info!("a connection that is no client's: {cause}"),
            }
        });
        if let Err(cause) = spawned {
            self.shared.unknown.fetch_sub(1, Relaxed);
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
            let _ = stream.write_all(&[State::AccessDenied.byte()]);
            if let Ok(peer) = peer {
                (self.tell)(Event::Turned(peer));
            }
            return;
        }
        let number = self.tests.fetch_add(1, Relaxed) as u64 + 1;
        // Closed last: a client that waits for this end and then comes again finds its place free.
        let kept = stream.try_clone();
        match session::hold(self, stream, cookie, number, stop) {
            Ok(Held::Streams(outcome)) => (self.tell)(Event::Ended(number, outcome)),
            Ok(Held::Transactions(answered)) => (self.tell)(Event::Answered(number, answered)),
            Err(error) => (self.tell)(Event::Failed(number, error)),
        }
        if self.options.one_off {
            self.done.store(true, Relaxed);
        }
        self.active.fetch_sub(1, Relaxed);
        drop(kept);
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Cookie, Sender<(u64, TcpStream)>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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

fn read_cookie(mut stream: &TcpStream, patience: Duration) -> io::Result<Cookie> {
    stream.set_nonblocking(false)?;
    let deadline = Instant::now() + patience;
    let mut bytes = [0; Cookie::LENGTH];
    let mut have = 0;
    while have < bytes.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes[have..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => have += count,
        }
    }
    Cookie::parse(bytes)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "what it sent is no cookie"))
}
