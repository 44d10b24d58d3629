//! What do all connections of a server share, and how do they get from a request to its answer?

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;
use weir_http::request::Refusal;
use weir_http::request_target::Path;
use weir_units::{Rate, plain};

use crate::activity::{Activity, Doing};
use crate::allowance::Pot;
use crate::answer::{self, Answer, Request};
use crate::connections::{Connections, Terms};
use crate::content::{self, Entry, Resolve};
use crate::exchange::After;
use crate::limits;
use crate::listings::{LISTING_TURN, Listings, Turn};
use crate::pacer::Pacer;
use crate::source::{LAST, Source};
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
    /// Also held by whoever may stop the server: no more answers are begun.
    pub(crate) shutdown: Shutdown,
    /// Follows it when the answers that were begun have had their time: connections end as they are.
    pub(crate) cut: Shutdown,
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
        let switch = || Shutdown::new().map_err(ServeError::start("the shutdown event"));
        Ok(Site {
            content: content::open(config)?,
            limit_rate: config.limit_rate,
            delay: config.delay,
            connections: Arc::new(Connections::new(terms)),
            pot: Arc::new(Pot::new()),
            listings: Listings::new(),
            streams: Arc::new(Semaphore::new(limits.streams)),
            shutdown: switch()?,
            cut: switch()?,
            requests: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
        })
    }

    /// The answer, and the file that its [`Part::File`](answer::Part::File) ranges are of.
    ///
    /// May wait for the disk while it finds the file, and for the ends of one that was written to lately; a
    /// listing waits for its turn too.
    pub(crate) fn answer(
        &self,
        request: &Request,
        client: SocketAddr,
        activity: &Arc<Activity>,
    ) -> (Answer, Option<Source>) {
        let entry = self.find(request);
        let turn = match entry {
            Entry::Folder => self.listings.turn(LISTING_TURN, || self.cut.is_stopped()),
            _ => None,
        };
        self.finish(request, entry, turn, client, activity)
    }

    /// As [`answer`](Site::answer), for a task, whose thread must not wait: to open a file may take seconds
    /// on a network file system, and all other connections would wait with it. The way to another thread and
    /// back costs some microseconds.
    pub(crate) async fn answer_async(
        self: &Arc<Self>,
        request: Request,
        client: SocketAddr,
        activity: &Arc<Activity>,
    ) -> io::Result<(Answer, Option<Source>)> {
        let (site, own) = (self.clone(), activity.clone());
        let answer_or_folder = move || match site.find(&request) {
            Entry::Folder => Err(request),
            entry => Ok(site.finish(&request, entry, None, client, &own)),
        };
        let request = match tokio::task::spawn_blocking(answer_or_folder).await.map_err(io::Error::other)? {
            Ok(answer) => return Ok(answer),
            Err(request) => request,
        };
        let turn = self.listings.queue(LISTING_TURN).await;
        let (site, own) = (self.clone(), activity.clone());
        let list = move || site.finish(&request, Entry::Folder, turn, client, &own);
        tokio::task::spawn_blocking(list).await.map_err(io::Error::other)
    }

    /// What a request names.
    fn find(&self, request: &Request) -> Entry {
        match &request.target {
            Some(target) if request.is_served() => {
                match self.with_descriptors(|| self.content.resolve(target)) {
                    // The page of a folder. One that may not be read has ended this already.
                    Entry::File(_) if target.slash && request.prefers_json() => Entry::Folder,
                    entry => entry,
                }
            }
            _ => Entry::Absent,
        }
    }

    /// The answer about what a request names; a folder is listed if there is a turn for it.
    fn finish(
        &self,
        request: &Request,
        entry: Entry,
        mut turn: Option<Turn>,
        client: SocketAddr,
        activity: &Arc<Activity>,
    ) -> (Answer, Option<Source>) {
        let entry = match (entry, &turn, &request.target) {
            (Entry::Folder, Some(_), Some(target)) => self.with_descriptors(|| self.content.list(target)),
            (entry, ..) => entry,
        };
        if let Entry::Failed(err) = &entry
            && !is_passing(err)
        {
            tracing::warn!("cannot answer {}: {}", Shown(request), plain(err));
        }
        let now = SystemTime::now();
        let mut answer = answer::decide(request, &entry, now);
        if let Entry::Listing(_) = entry {
            if let Some(turn) = &mut turn {
                turn.made(answer.body_len());
            }
            answer = self.hold(answer, activity);
        }
        self.note(client, &Shown(request), &answer);
        let source = match entry {
            Entry::File(file) if self.takes_a_while(&answer) && file.may_grow(now) => {
                Some(file.source.remembering_samples(answer.body_len()))
            }
            Entry::File(file) => Some(file.source),
            _ => None,
        };
        // Until the listing is text, and its entries are gone.
        drop(turn);
        (answer, source)
    }

    /// Whether there is time for a file to change before all of the answer is read from it.
    fn takes_a_while(&self, answer: &Answer) -> bool {
        let is_slow = self.limit_rate.is_some() || !self.delay.is_zero();
        answer.body_len() > LAST || is_slow && answer.body_len() > 0
    }

    /// A listing with its lease. Where others fill the memory for them, one whose client has stalled gives
    /// way to the next.
    fn hold(&self, mut answer: Answer, activity: &Arc<Activity>) -> Answer {
        let bytes = answer.body_len() as usize;
        answer.lease = self.listings.lease(bytes, activity);
        if answer.lease.is_none() && self.connections.end_most_stalled(Doing::HoldsListing, activity) {
            self.connections.wait_for_place(NOTICE);
            answer.lease = self.listings.lease(bytes, activity);
        }
        match answer.lease {
            Some(_) => answer,
            None => answer::busy(SystemTime::now()),
        }
    }

    /// Where descriptors have run out, the connection that only holds them for longest gives way first.
    fn with_descriptors(&self, find: impl Fn() -> Entry) -> Entry {
        let entry = find();
        let is_full = matches!(&entry, Entry::Failed(err)
            if matches!(err.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)));
        if !is_full || !self.connections.end_longest_idle() {
            return entry;
        }
        self.connections.wait_for_place(NOTICE);
        find()
    }

    /// What becomes of a connection behind an answer: none stays while the server stops.
    pub(crate) fn after(&self, asked: After) -> After {
        match asked {
            After::KeepAlive if self.shutdown.is_stopped() => After::Close,
            other => other,
        }
    }

    /// The answer to bytes that are no request.
    pub(crate) fn refuse(&self, refusal: Refusal, client: SocketAddr) -> Answer {
        let answer = Answer::refusal(refusal, SystemTime::now());
        self.note(client, &format_args!("(no request: {})", refusal.why), &answer);
        answer
    }

    /// Opens the content again by its path, for the requests to come.
    pub(crate) fn reopen(&self) -> Result<(), ServeError> {
        self.content.reopen()
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

/// Whether it will pass without the server's doing: a lease on a file is released, or a folder that was
/// removed is made again, of which [`content`] has warned.
fn is_passing(err: &io::Error) -> bool {
    matches!(err.raw_os_error(), Some(libc::EAGAIN | libc::ESTALE))
}

/// Method and path, safe to print on a terminal; formatted only when someone listens to the log.
struct Shown<'a>(&'a Request);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.0.method.escape_default())?;
        match &self.0.target {
            Some(Path { bytes: path, slash, .. }) => {
                let slash = if *slash && !path.is_empty() { "/" } else { "" };
                write!(f, "/{}{slash}", path.escape_ascii())
            }
            None => f.write_str("(refused path)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;
    use std::net::Ipv4Addr;

    use http::StatusCode;
    use weir_http::Fields;
    use weir_http::request_target::{self, RequestTarget};

    use super::*;
    use crate::Content;

    fn request(path: &str) -> Request {
        let Some(RequestTarget::Path(target)) = request_target::parse(path) else { panic!("{path}") };
        Request { method: "GET".to_owned(), target, fields: Fields::new() }
    }

    #[tokio::test]
    async fn only_listings_wait_for_a_turn() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("page")).unwrap();
        std::fs::write(root.path().join("page/index.html"), "a page").unwrap();
        let site = Arc::new(Site::new(&Config::new(Content::Dir(root.path().to_owned()))).unwrap());
        let (client, activity) = (SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), Arc::new(Activity::new()));
        let status = |path: &str| site.answer(&request(path), client, &activity).0.status.as_u16();
        assert_eq!((status("/"), status("/page/")), (200, 200));
        let turn = || site.listings.turn(Duration::ZERO, || false).unwrap();
        let turns = (turn(), turn());
        // Behind two listings that take as long as they like.
        assert_eq!(status("/page/"), 200);
        let (answer, source) = site.answer_async(request("/page/"), client, &activity).await.unwrap();
        assert!(answer.status == StatusCode::OK && source.is_some());
        site.cut.stop();
        assert_eq!(status("/"), 503, "a wait for a turn hears the end of the server");
        drop(turns);
        assert_eq!(status("/"), 200);
    }

    #[test]
    fn a_removed_folder_is_told_of_once() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let site = Site::new(&Config::new(Content::Dir(root.clone()))).unwrap();
        std::fs::remove_dir(&root).unwrap();
        let (client, activity) = (SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), Arc::new(Activity::new()));
        let log = Arc::new(tempfile::tempfile().unwrap());
        let lines = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        tracing::subscriber::with_default(lines, || {
            for _ in 0..3 {
                assert_eq!(site.answer(&request("/x"), client, &activity).0.status, 503);
            }
        });
        let mut log = &*log;
        log.rewind().unwrap();
        let log = io::read_to_string(log).unwrap();
        assert!(log.lines().count() == 1 && log.contains("root was removed"), "{log}");
    }
}
