//! HTTP/2: one connection to an origin, shared by all lanes, each of which blocks on its own stream.
//!
//! For many small objects: their round trips overlap on one connection. Large objects are better off on
//! connections of their own, because ranges on one HTTP/2 connection share one congestion window.
//!
//! The `h2` crate runs on a thread of its own; lanes send it requests and receive events over channels. A
//! stream's window is given back only when its lane has stored the bytes, so the windows bound the memory.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{FlowControl, RecvStream};
use parking_lot::{Mutex, MutexGuard};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_rustls::TlsConnector;
use url::{Position, Url};
use weir_http::fields::Fields;
use weir_http::head::ResponseHead;

use crate::error::GetError;
use crate::http::carried;
use crate::http::connection::{Dial, Line, explain};
use crate::http::credentials;
use crate::http::request::{Ask, Origin};
use crate::http::speed::{SpeedLimit, SpeedWatch};
use crate::object;
use weir_observe::stage_clock::{Stage, StageClock};

/// Per stream: more than the small objects that HTTP/2 is used for.
const STREAM_WINDOW: u32 = 1 << 20;

/// For the connection, and so the most that all streams can hold in memory.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Bodies up to this size are handed to their lane whole, bytes.
const GATHERED: u64 = 64 << 10;

/// Bytes that a head is taken for, which HPACK has packed: a status and a few fields.
const HEAD: usize = 64;

/// How often a waiting lane looks whether it is still wanted.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A stream may rest for so many timeouts while others on its connection bring bytes: a slow link carries a
/// few dozen small bodies one after another.
const TURNS: u32 = 10;

/// What a connection, or one of its streams, has brought of late: bytes of bodies and heads, not control
/// frames.
#[derive(Debug, Clone)]
struct Heard {
    quota: u64,
    state: Arc<Mutex<HeardState>>,
}

#[derive(Debug)]
struct HeardState {
    /// When a byte came last.
    last: Instant,
    /// When as many had come as the least rate asks for, and how many have come since.
    enough: Instant,
    since: u64,
}

impl Heard {
    fn new(limit: SpeedLimit) -> Heard {
        let (last, enough) = (Instant::now(), Instant::now());
        Heard { quota: limit.quota(), state: Arc::new(Mutex::new(HeardState { last, enough, since: 0 })) }
    }

    fn book(&self, bytes: u64) {
        let mut heard = self.lock();
        heard.since += bytes;
        if bytes > 0 {
            heard.last = Instant::now();
        }
        if heard.since >= self.quota {
            (heard.enough, heard.since) = (heard.last, 0);
        }
    }

    /// For how long nothing has come.
    fn silent(&self) -> Duration {
        self.lock().last.elapsed()
    }

    /// For how long less has come than the least rate asks for.
    fn slow(&self) -> Duration {
        self.lock().enough.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, HeardState> {
        self.state.lock()
    }
}

enum Event {
    Head(ResponseHead),
    Data(Bytes),
    End,
    Failed(String),
    /// The server wants the request over HTTP/1.1 (RFC 9113 section 7, HTTP_1_1_REQUIRED).
    WantsHttp1,
}

/// Streams in a row that fail on an open session before it is left: more than the lanes that one reset can
/// catch would be half of them.
const FAILING: u32 = 8;

/// What became of the streams of a session.
#[derive(Debug, Default)]
struct Health {
    /// One has brought a whole answer.
    carries: AtomicBool,
    /// Failures since.
    failed: AtomicU32,
    wants_http1: AtomicBool,
}

struct Call {
    request: http::Request<()>,
    events: Sender<(Event, Option<FlowControl>)>,
    retired: Arc<AtomicBool>,
    health: Arc<Health>,
    /// Of this stream and of its connection.
    heard: [Heard; 2],
}

/// A connection that speaks HTTP/2.
#[derive(Debug)]
pub struct H2Session {
    host: String,
    calls: UnboundedSender<Call>,
    /// The server takes no more requests on it.
    retired: Arc<AtomicBool>,
    health: Arc<Health>,
    heard: Heard,
    speed: SpeedLimit,
}

/// One answer on a session.
pub struct H2Stream {
    host: String,
    events: Receiver<(Event, Option<FlowControl>)>,
    pieces: VecDeque<Bytes>,
    pending: Vec<(FlowControl, usize)>,
    announced: Option<u64>,
    got: u64,
    ended: bool,
    retired: Arc<AtomicBool>,
    /// Of this stream and of its connection.
    heard: [Heard; 2],
    speed: SpeedLimit,
    watch: SpeedWatch,
}

impl H2Session {
    /// Sets a session up over `line` until `deadline`. `Ok(None)`: the server chose HTTP/1.1.
    pub fn start(
        origin: &Origin,
        line: Line,
        config: Option<Arc<ClientConfig>>,
        dial: &Dial<'_>,
        deadline: Instant,
    ) -> Result<Option<H2Session>, GetError> {
        let host = origin.host.clone();
        let copy = line.socket.try_clone().map_err(|error| explain(&host, error))?;
        let transport = match line.outer {
            None => Transport::Socket(line.socket),
            Some(outer) => carried::within(outer, line.socket, dial.timeout)
                .map(Transport::Within)
                .map_err(|error| explain(&host, error))?,
        };
        let (calls, incoming) = unbounded_channel();
        let (ready, started) = mpsc::channel();
        let thread_host = host.clone();
        std::thread::Builder::new()
            .name("h2".to_owned())
            .spawn(move || run(transport, config, &thread_host, incoming, &ready))
            .map_err(|error| GetError::Refused(format!("cannot start a thread: {error}")))?;
        let failed = loop {
            match started.recv_timeout(POLL_INTERVAL) {
                Ok(Ok(true)) => {
                    let (retired, health) = (Arc::default(), Arc::default());
                    let (heard, speed) = (Heard::new(dial.speed), dial.speed);
                    return Ok(Some(H2Session { host, calls, retired, health, heard, speed }));
                }
                Ok(Ok(false)) => return Ok(None),
                Ok(Err(error)) => break explain(&host, error),
                Err(RecvTimeoutError::Timeout) if dial.is_stopped() => break GetError::Interrupted,
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(_) => {
                    break GetError::stalled_before(&host, "no complete handshake", dial.connect_timeout);
                }
            }
        };
        // The thread still waits for the peer.
        let _ = copy.shutdown(Shutdown::Both);
        Err(failed)
    }

    /// The connection is still there and takes requests (a server ends it after some thousands with GOAWAY).
    pub fn is_open(&self) -> bool {
        !self.calls.is_closed() && !self.retired.load(Relaxed)
    }

    /// It has brought a whole answer.
    pub fn carries(&self) -> bool {
        self.health.carries.load(Relaxed)
    }

    /// It is open, and nothing comes over it.
    pub(crate) fn only_fails(&self) -> bool {
        self.health.wants_http1.load(Relaxed) || self.health.failed.load(Relaxed) >= FAILING
    }

    /// Sends a request; its answer is the stream's.
    pub fn send(&self, url: &Url, origin: &Origin, ask: &Ask<'_>) -> Result<H2Stream, GetError> {
        let bare = credentials::without(url);
        let scheme = if origin.tls { "https" } else { "http" };
        let mut fields = ask.fields();
        // The user's own Host is the authority here (RFC 9113 section 8.3.1); two that differ are refused.
        let given = fields.iter().position(|(name, _)| name == "host").map(|at| fields.remove(at).1);
        let authority = given.unwrap_or_else(|| origin.authority());
        fields.retain(|(name, value)| !is_of_connection(name, value));
        let uri = format!("{scheme}://{authority}{}", &bare[Position::BeforePath..Position::AfterQuery]);
        let mut request = http::Request::builder().method("GET").uri(uri).version(http::Version::HTTP_2);
        for (name, value) in fields {
            request = request.header(name, value);
        }
        let request = request
            .body(())
            .map_err(|error| GetError::Refused(format!("cannot ask for {}: {error}", object::shown(url))))?;
        let (sender, events) = mpsc::channel();
        let retired = Arc::clone(&self.retired);
        let heard = [Heard::new(self.speed), self.heard.clone()];
        let health = Arc::clone(&self.health);
        self.calls
            .send(Call {
                request,
                events: sender,
                retired: Arc::clone(&retired),
                health,
                heard: heard.clone(),
            })
            .map_err(|_| ended(&self.host))?;
        Ok(H2Stream {
            host: self.host.clone(),
            events,
            pieces: VecDeque::new(),
            pending: Vec::new(),
            announced: None,
            got: 0,
            ended: false,
            retired,
            heard,
            speed: self.speed,
            watch: SpeedWatch::new(self.speed),
        })
    }
}

/// A field about an HTTP/1.1 connection, with which a request is malformed here (RFC 9113 section 8.2.2).
fn is_of_connection(name: &str, value: &str) -> bool {
    match name {
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => true,
        "te" => !value.trim().eq_ignore_ascii_case("trailers"),
        _ => false,
    }
}

fn ended(host: &str) -> GetError {
    GetError::Broken { host: host.to_owned(), source: io::Error::other("its HTTP/2 session ended") }
}

impl H2Stream {
    /// Waits for the head of the answer.
    pub fn head(mut self, clock: &StageClock, dial: &Dial<'_>) -> Result<(ResponseHead, H2Stream), GetError> {
        clock.enter(Stage::FirstByte);
        match self.wait(dial)? {
            Event::Head(head) => {
                self.announced = weir_http::body::content_length(&head.fields).ok().flatten();
                self.ended = matches!(head.status, 204 | 304);
                Ok((head, self))
            }
            _ => Err(self.malformed("a body without a head")),
        }
    }

    /// As [`crate::http::Connection::fill`].
    pub fn fill(&mut self, enough: usize, clock: &StageClock, dial: &Dial<'_>) -> Result<usize, GetError> {
        self.pieces.clear();
        for (mut flow, length) in self.pending.drain(..) {
            // Fails only on a stream that has ended, whose window no longer matters.
            let _ = flow.release_capacity(length);
        }
        clock.enter(Stage::Receive);
        let mut filled = 0;
        let mut waited = Duration::ZERO;
        while filled < enough && !self.ended {
            // Hand on what is there rather than wait for more: a stream's window is only a part of a block.
            let event = if filled == 0 {
                let began = Instant::now();
                let event = self.wait(dial)?;
                waited += began.elapsed();
                Some(event)
            } else {
                self.poll()?
            };
            match event {
                Some(Event::Data(bytes)) => {
                    filled += bytes.len();
                    self.pieces.push_back(bytes);
                }
                Some(Event::End) => self.end()?,
                Some(_) => return Err(self.malformed("a head within its body")),
                None => break,
            }
        }
        self.got += filled as u64;
        clock.enter(Stage::Other);
        self.watch.book(filled as u64, waited);
        // A drip wakes the lane before it looks by itself.
        if !self.is_end()
            && self.watch.is_slow(0, Duration::ZERO)
            && let Some(error) = self.stalled(Duration::ZERO, dial)
        {
            return Err(error);
        }
        Ok(filled)
    }

    /// The bytes of the last fill.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|bytes| &bytes[..])
    }

    /// The body has been read to its end.
    pub fn is_end(&self) -> bool {
        self.ended || self.announced.is_some_and(|length| self.got >= length)
    }

    /// Bytes of the body still to come, if announced.
    pub fn left(&self) -> Option<u64> {
        self.announced.map(|length| length.saturating_sub(self.got))
    }

    fn wait(&mut self, dial: &Dial<'_>) -> Result<Event, GetError> {
        let since = Instant::now();
        loop {
            match self.events.recv_timeout(POLL_INTERVAL) {
                Ok(event) => return self.accept(event),
                Err(RecvTimeoutError::Disconnected) => return Err(ended(&self.host)),
                Err(RecvTimeoutError::Timeout) if dial.is_stopped() => return Err(GetError::Interrupted),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(error) = self.stalled(since.elapsed(), dial) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The error of a lane that waits in vain; it has waited for as long as `here` since it last got
    /// something.
    fn stalled(&self, here: Duration, dial: &Dial<'_>) -> Option<GetError> {
        let waited = self.watch.waited(here);
        for (which, turns) in [(1, 1), (0, TURNS)] {
            let heard = &self.heard[which];
            let silent = heard.silent().min(here) >= dial.timeout * turns;
            let slow = self.speed.bytes > 0 && heard.slow().min(waited) >= self.speed.span * turns;
            if silent || slow {
                // A connection that the network has forgotten answers no stream: the next try takes a new
                // one.
                self.retired.fetch_or(which == 1, Relaxed);
                return Some(match silent {
                    true => GetError::stalled(&self.host, "nothing", dial.timeout * turns),
                    false => self.watch.error(&self.host, 0),
                });
            }
        }
        None
    }

    fn poll(&mut self) -> Result<Option<Event>, GetError> {
        match self.events.try_recv() {
            Ok(event) => self.accept(event).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(ended(&self.host)),
        }
    }

    fn accept(&mut self, (event, flow): (Event, Option<FlowControl>)) -> Result<Event, GetError> {
        match (&event, flow) {
            (Event::Failed(detail), _) => {
                Err(GetError::Broken { host: self.host.clone(), source: io::Error::other(detail.clone()) })
            }
            (Event::WantsHttp1, _) => Err(GetError::OnlyHttp1 { host: self.host.clone() }),
            (Event::Data(bytes), Some(flow)) => {
                self.pending.push((flow, bytes.len()));
                Ok(event)
            }
            _ => Ok(event),
        }
    }

    fn end(&mut self) -> Result<(), GetError> {
        self.ended = true;
        let got = self.got + self.pieces.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
        match self.announced {
            Some(length) if got < length => Err(GetError::Truncated {
                host: self.host.clone(),
                got: weir_units::Bytes(got),
                expected: weir_units::Bytes(length).to_string(),
            }),
            _ => Ok(()),
        }
    }

    fn malformed(&self, detail: &str) -> GetError {
        GetError::Malformed { host: self.host.clone(), detail: detail.to_owned() }
    }
}

/// What carries a session's frames.
enum Transport {
    Socket(TcpStream),
    /// Inside the session of a proxy.
    Within(UnixStream),
}

/// The session's thread.
fn run(
    transport: Transport,
    config: Option<Arc<ClientConfig>>,
    host: &str,
    calls: UnboundedReceiver<Call>,
    ready: &Sender<io::Result<bool>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error))),
    };
    runtime.block_on(async {
        match begin(transport, config, host, calls, ready).await {
            Ok(()) => {}
            Err(error) => drop(ready.send(Err(error))),
        }
    });
}

async fn begin(
    transport: Transport,
    config: Option<Arc<ClientConfig>>,
    host: &str,
    calls: UnboundedReceiver<Call>,
    ready: &Sender<io::Result<bool>>,
) -> io::Result<()> {
    match transport {
        Transport::Socket(socket) => {
            socket.set_nonblocking(true)?;
            open(tokio::net::TcpStream::from_std(socket)?, config, host, calls, ready).await
        }
        Transport::Within(near) => {
            near.set_nonblocking(true)?;
            open(tokio::net::UnixStream::from_std(near)?, config, host, calls, ready).await
        }
    }
}

async fn open<T>(
    socket: T,
    config: Option<Arc<ClientConfig>>,
    host: &str,
    calls: UnboundedReceiver<Call>,
    ready: &Sender<io::Result<bool>>,
) -> io::Result<()>
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let Some(config) = config else { return serve(socket, calls, ready).await };
    let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(bare).map_err(io::Error::other)?;
    let tls = TlsConnector::from(config).connect(name, socket).await?;
    if tls.get_ref().1.alpn_protocol() != Some(b"h2") {
        let _ = ready.send(Ok(false));
        return Ok(());
    }
    serve(tls, calls, ready).await
}

async fn serve<T>(
    transport: T,
    mut calls: UnboundedReceiver<Call>,
    ready: &Sender<io::Result<bool>>,
) -> io::Result<()>
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let (client, connection) = h2::client::Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(1 << 18)
        .max_header_list_size(64 << 10)
        .enable_push(false)
        .handshake::<_, Bytes>(transport)
        .await
        .map_err(io::Error::other)?;
    let _ = ready.send(Ok(true));
    let work = async {
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                call = calls.recv() => match call {
                    Some(call) => drop(tasks.spawn(answer(client.clone(), call))),
                    None => break,
                },
                Some(_) = tasks.join_next() => {}
            }
        }
    };
    tokio::select! {
        ended = connection => ended.map_err(io::Error::other),
        () = work => Ok(()),
    }
}

/// Carries one call: its request out, its answer as events to the lane.
async fn answer(client: SendRequest<Bytes>, call: Call) {
    let Call { request, events, retired, health, heard } = call;
    match exchange(client, request, &events, &heard).await {
        Ok(()) => {
            health.carries.store(true, Relaxed);
            health.failed.store(0, Relaxed);
            drop(events.send((Event::End, None)));
        }
        Err(error) => {
            retired.fetch_or(error.is_go_away() || error.is_io(), Relaxed);
            health.failed.fetch_add(1, Relaxed);
            let wants_http1 = error.reason() == Some(h2::Reason::HTTP_1_1_REQUIRED);
            health.wants_http1.fetch_or(wants_http1, Relaxed);
            let event = if wants_http1 { Event::WantsHttp1 } else { Event::Failed(error.to_string()) };
            let _ = events.send((event, None));
        }
    }
}

async fn exchange(
    client: SendRequest<Bytes>,
    request: http::Request<()>,
    events: &Sender<(Event, Option<FlowControl>)>,
    heard: &[Heard; 2],
) -> Result<(), h2::Error> {
    let came = |bytes: usize| heard.iter().for_each(|heard| heard.book(bytes as u64));
    let mut client = client.ready().await?;
    let (response, _) = client.send_request(request, true)?;
    let (parts, mut body): (_, RecvStream) = response.await?.into_parts();
    came(HEAD);
    let mut fields = Fields::new();
    for (name, value) in &parts.headers {
        // What has no legal form as an HTTP/1.1 field is of no use to us either.
        let _ = fields.push(name.as_str(), &String::from_utf8_lossy(value.as_bytes()));
    }
    let reason = parts.status.canonical_reason().unwrap_or_default().to_owned();
    let head = ResponseHead { status: parts.status.as_u16(), minor: 1, reason, fields };
    // A small body is gathered first: its lane then wakes once, not for each frame.
    let length = weir_http::body::content_length(&head.fields).ok().flatten();
    let mut gathered = Vec::new();
    if length.is_some_and(|length| length <= GATHERED) {
        while let Some(data) = body.data().await {
            let data = data?;
            came(data.len());
            let _ = body.flow_control().release_capacity(data.len());
            gathered.push(data);
        }
    }
    if events.send((Event::Head(head), None)).is_err() {
        return Ok(());
    }
    for data in gathered {
        let _ = events.send((Event::Data(data), None));
    }
    while let Some(data) = body.data().await {
        let flow = body.flow_control().clone();
        let data = data?;
        came(data.len());
        // A lane that no longer listens drops its end: the stream is reset by dropping the body.
        if events.send((Event::Data(data), Some(flow))).is_err() {
            return Ok(());
        }
    }
    Ok(())
}
