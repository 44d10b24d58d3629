//! What do all connections of a server share, and how do they get from a request to its answer?

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use http::StatusCode;
use tokio::sync::Semaphore;
use weir_http::request_target::Path;
use weir_units::Rate;

use crate::allowance::Pot;

use crate::answer::{self, Answer, Request};
use crate::connections::{Connections, Terms};
use crate::content::{self, Entry, Resolve};
use crate::limits;
use crate::listings::Listings;
use crate::pacer::Pacer;
use crate::source::Source;
use crate::{Config, ServeError, Shutdown};

/// How long a request waits for what a connection that gave way holds. Its thread or task notices within
/// microseconds, unless the machine is very busy.
const NOTICE: Duration = Duration::from_millis(20);

/// Content, the slowness that was asked for, and what happened so far.
pub(crate) struct Site {
    content: Box<dyn Resolve>,
    limit_rate: Option<Rate>,
    pub(crate) delay: Duration,
    pub(crate) connections: Arc<Connections>,
    /// Memory for the bodies of tasks.
    pub(crate) pot: Arc<Pot>,
    listings: Listings,
    /// Requests of HTTP/2 that may be answered at the same time.
    pub(crate) streams: Arc<Semaphore>,
    /// Also held by whoever may stop the server.
    pub(crate) shutdown: Shutdown,
    requests: AtomicU64,
    bytes_sent: AtomicU64,
}

/// What a server has done since it was bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests answered, errors included.
    pub requests: u64,
    /// Body bytes handed to the kernel, or to TLS before encryption; not bytes acknowledged by clients.
    pub bytes_sent: u64,
    /// Connections that are served now; not those which wait to be accepted.
    pub connections: usize,
}

impl Site {
    pub(crate) fn new(config: &Config) -> Result<Site, ServeError> {
        let limits = limits::derive(weir_units::nofile::allowed(), config.max_connections)?;
        let terms = Terms {
            most: limits.connections,
            at_once: config.connections_at_once,
            limit_rate: config.limit_rate,
            delay: config.delay,
        };
        Ok(Site {
            content: content::open(&config.content)?,
            limit_rate: config.limit_rate,
            delay: config.delay,
            connections: Arc::new(Connections::new(terms)),
            pot: Arc::new(Pot::new()),
            listings: Listings::new(),
            streams: Arc::new(Semaphore::new(limits.streams)),
            shutdown: Shutdown::new().map_err(ServeError::start("the shutdown event"))?,
            requests: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
        })
    }

    /// The answer, and the file that its [`Part::File`](answer::Part::File) ranges are of.
    ///
    /// May wait for the disk while it finds the file, but not for any of its bytes.
    pub(crate) fn answer(&self, request: &Request, client: SocketAddr) -> (Answer, Option<Source>) {
        // Until the listing is text, and its entries are gone.
        let asks_for_listing =
            request.is_served() && request.target.as_ref().is_some_and(|target| target.slash);
        let mut turn = asks_for_listing.then(|| self.listings.turn());
        let entry = match &request.target {
            Some(target) if request.is_served() => self.resolve(target),
            _ => Entry::Absent,
        };
        if let Entry::Failed(err) = &entry {
            tracing::warn!("cannot answer {}: {err}", Shown(request));
        }
        let mut answer = answer::decide(request, &entry, SystemTime::now());
        if let Entry::Listing(_) = entry {
            if let Some(turn) = &mut turn {
                turn.made(answer.body_len());
            }
            answer = self.hold(answer);
        }
        self.note(client, &Shown(request), &answer);
        let source = match entry {
            Entry::File(file) => Some(file.source),
            _ => None,
        };
        (answer, source)
    }

    /// As [`answer`](Site::answer), for a task, whose thread must not wait for long: to open a file takes
    /// microseconds, but to read a large directory may take a second.
    pub(crate) async fn answer_async(
        self: &Arc<Self>,
        request: Request,
        client: SocketAddr,
    ) -> io::Result<(Answer, Option<Source>)> {
        match &request.target {
            Some(target) if target.slash => {
                let _turn = self.listings.queue().await;
                let site = self.clone();
                let answer = tokio::task::spawn_blocking(move || site.answer(&request, client));
                answer.await.map_err(io::Error::other)
            }
            _ => Ok(self.answer(&request, client)),
        }
    }

    /// A listing with its lease. Where others fill the memory for them, one whose client has stalled gives
    /// way to the next.
    fn hold(&self, mut answer: Answer) -> Answer {
        let bytes = answer.body_len() as usize;
        answer.lease = self.listings.lease(bytes);
        if answer.lease.is_none() && self.connections.end_most_stalled() {
            self.connections.wait_for_place(NOTICE);
            answer.lease = self.listings.lease(bytes);
        }
        match answer.lease {
            Some(_) => answer,
            None => answer::busy(SystemTime::now()),
        }
    }

    /// Where descriptors have run out, those who only hold them give way first.
    fn resolve(&self, target: &Path) -> Entry {
        let entry = self.content.resolve(target);
        let is_full = matches!(&entry, Entry::Failed(err)
            if matches!(err.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)));
        if !is_full || !(self.connections.end_most_stalled() || self.connections.end_longest_idle()) {
            return entry;
        }
        self.connections.wait_for_place(NOTICE);
        self.content.resolve(target)
    }

    /// The answer to bytes that are no request.
    pub(crate) fn refuse(&self, status: StatusCode, client: SocketAddr) -> Answer {
        let answer = Answer::error(status, SystemTime::now());
        self.note(client, &"(no request)", &answer);
        answer
    }

    /// The schedule for a new connection, if its rate is limited.
    pub(crate) fn pacer(&self) -> Option<Pacer> {
        self.limit_rate.map(Pacer::new)
    }

    pub(crate) fn count_sent(&self, bytes: u64) {
        self.bytes_sent.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            requests: self.requests.load(Relaxed),
            bytes_sent: self.bytes_sent.load(Relaxed),
            connections: self.connections.count(),
        }
    }

    /// One line of the access log: written when the answer is decided, so it names the bytes promised, not
    /// those sent.
    fn note(&self, client: SocketAddr, request: &dyn fmt::Display, answer: &Answer) {
        self.requests.fetch_add(1, Relaxed);
        let (status, bytes) = (answer.status.as_u16(), answer.body_len());
        tracing::info!(target: "weir_serve::access", "{client} \"{request}\" {status} {bytes}");
    }
}

/// Method and path, safe to print on a terminal; formatted only when someone listens to the log.
struct Shown<'a>(&'a Request);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.0.method.escape_default())?;
        match &self.0.target {
            Some(Path { bytes: path, slash }) => {
                let slash = if *slash && !path.is_empty() { "/" } else { "" };
                write!(f, "/{}{slash}", path.escape_ascii())
            }
            None => f.write_str("(refused path)"),
        }
    }
}
