//! The server: a thread for each connection, a closure that may answer anything, and a log of what was asked
//! and sent.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::TIMEOUT;

/// A paced answer leaves in pieces of this much time.
const BEAT: Duration = Duration::from_millis(10);

/// Header fields in order.
pub(crate) type Fields = Vec<(String, String)>;

/// What answers a request. An error ends the connection.
pub(crate) type Handler = dyn Fn(&Request, &mut Wire) -> io::Result<()> + Send + Sync;

/// A server on a free port of the loopback; it ends with the test.
pub(crate) struct Server {
    listener: Arc<TcpListener>,
    address: SocketAddr,
    certificate: Option<String>,
    log: Arc<Log>,
    ending: Arc<AtomicBool>,
}

/// What came in and what went out.
#[derive(Default)]
struct Log {
    requests: Mutex<Vec<Arc<LoggedRequest>>>,
    connections: AtomicUsize,
    /// Of these, how many have not ended.
    open: AtomicUsize,
    sent: AtomicU64,
    changed: Condvar,
}

/// A request as the log keeps it.
#[derive(Debug)]
pub(crate) struct LoggedRequest {
    /// The request.
    pub(crate) request: Request,
    /// Body bytes sent in answer, so far.
    pub(crate) sent: AtomicU64,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// On which connection, counted from 0.
    pub(crate) connection: usize,
    /// Which request of the server, counted from 0.
    pub(crate) number: usize,
    pub(crate) method: String,
    /// As it was sent: a path, or a whole URL to a proxy.
    pub(crate) target: String,
    pub(crate) fields: Fields,
    pub(crate) at: Instant,
}

impl Request {
    /// The first field called `name`.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The target without its query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// First byte asked for and the byte after the last, if that was said.
    pub(crate) fn range(&self) -> Option<(u64, Option<u64>)> {
        let (start, end) = self.field("range")?.strip_prefix("bytes=")?.split_once('-')?;
        let end = (!end.is_empty()).then(|| end.parse::<u64>().expect("a range's end") + 1);
        Some((start.parse().expect("a range's start"), end))
    }

    /// The first byte asked for.
    pub(crate) fn start(&self) -> u64 {
        self.range().map_or(0, |range| range.0)
    }
}

/// The way back to the client.
pub(crate) struct Wire {
    stream: Box<dyn Stream>,
    socket: TcpStream,
    log: Arc<Log>,
    seen: Option<Arc<LoggedRequest>>,
    ending: Arc<AtomicBool>,
    /// Bytes per second of what follows; `None`: as fast as it goes.
    pub(crate) pace: Option<u64>,
    /// When all connections together may read on, and their bytes per second; `None`: each by itself.
    pub(crate) shared: Option<(Arc<Mutex<Instant>>, u64)>,
}

trait Stream: Read + Write + Send {
    /// Says that nothing more comes, where the protocol has a word for that.
    fn say_goodbye(&mut self) {}
}

impl Stream for TcpStream {}

impl Stream for StreamOwned<ServerConnection, TcpStream> {
    fn say_goodbye(&mut self) {
        self.conn.send_close_notify();
        let _ = self.flush();
    }
}

impl Wire {
    /// Reads `length` bytes of a request's body, at the pace set.
    pub(crate) fn receive(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let start = Instant::now();
        let mut body = vec![0; length];
        let mut done = 0;
        while done < length {
            if let Some(pace) = self.pace {
                let due = Duration::from_secs_f64(done as f64 / pace as f64);
                std::thread::sleep(due.saturating_sub(start.elapsed()));
            }
            if self.ending.load(Relaxed) {
                return super::over();
            }
            let end = length.min(done + (64 << 10));
            let got = self.stream.read(&mut body[done..end])?;
            if got == 0 {
                return super::over();
            }
            done += got;
            if let Some((due, pace)) = &self.shared {
                let mut next = due.lock().expect("an unpoisoned instant");
                *next = (*next).max(Instant::now()) + Duration::from_secs_f64(got as f64 / *pace as f64);
                let until = *next;
                drop(next);
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
            }
        }
        Ok(body)
    }

    /// Sends raw bytes.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Sends a head: `status` is a code and its phrase.
    pub(crate) fn head<N: Display, V: Display>(&mut self, status: &str, fields: &[(N, V)]) -> io::Result<()> {
        self.raw(head_of(status, fields).as_bytes())
    }

    /// Sends body bytes, at the pace set; counts them.
    pub(crate) fn body(&mut self, bytes: &[u8]) -> io::Result<()> {
        let start = Instant::now();
        let piece = self.pace.map_or(64 << 10, |pace| (pace as f64 * BEAT.as_secs_f64()).max(1.0) as usize);
        let mut done = 0;
        for piece in bytes.chunks(piece) {
            if let Some(pace) = self.pace {
                let due = Duration::from_secs_f64(done as f64 / pace as f64);
                std::thread::sleep(due.saturating_sub(start.elapsed()));
            }
            if self.ending.load(Relaxed) {
                return super::over();
            }
            self.raw(piece)?;
            done += piece.len();
            self.count(piece.len() as u64);
        }
        Ok(())
    }

    /// A whole answer with its length. A small one leaves as one piece: on a busy machine its body would come
    /// some time after its head.
    pub(crate) fn answer(&mut self, status: &str, fields: &[(&str, &str)], body: &[u8]) -> io::Result<()> {
        let length = body.len().to_string();
        let fields = [fields, &[("Content-Length", &length)]].concat();
        let is_small = self.pace.is_none() && (1..=1024).contains(&body.len());
        if is_small && !self.ending.load(Relaxed) {
            self.raw(&[head_of(status, &fields).as_bytes(), body].concat())?;
            self.count(body.len() as u64);
            return Ok(());
        }
        self.head(status, &fields)?;
        self.body(body)
    }

    /// Reads the body of `request`, which is on its way.
    pub(crate) fn read_body(&mut self, request: &Request) -> io::Result<Vec<u8>> {
        let length = request.field("content-length").map_or(0, |text| text.parse().expect("a length"));
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }

    /// A redirect without a body.
    pub(crate) fn redirect(&mut self, status: &str, location: &str) -> io::Result<()> {
        self.answer(status, &[("Location", location)], b"")
    }

    /// Breaks the connection with a reset.
    pub(crate) fn reset<T>(&mut self) -> io::Result<T> {
        rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO))?;
        // Nothing may hold the socket open: a reset goes out with the last close.
        super::over()
    }

    /// Ends the connection in order, after what was sent.
    pub(crate) fn close<T>(&mut self) -> io::Result<T> {
        self.stream.say_goodbye();
        super::over()
    }

    /// Ends the connection as one who cannot speak TLS could end a TLS connection.
    pub(crate) fn cut<T>(&mut self) -> io::Result<T> {
        super::over()
    }

    /// Ends the connection where the client takes nothing for so long.
    pub(crate) fn gives_up_after(&mut self, timeout: Duration) -> io::Result<()> {
        // What the kernel takes in the client's stead is to be little beside what is sent.
        rustix::net::sockopt::set_socket_send_buffer_size(&self.socket, 64 << 10)?;
        self.socket.set_write_timeout(Some(timeout))
    }

    /// Waits until the client has closed its end.
    pub(crate) fn wait_for_close(&mut self) -> io::Result<()> {
        while self.stream.read(&mut [0; 4096])? > 0 {}
        Ok(())
    }

    /// Becomes a tunnel to `to`, until both ends have closed.
    pub(crate) fn tunnel(&mut self, to: SocketAddr) -> io::Result<()> {
        let far = TcpStream::connect(to)?;
        let (mut near_in, mut far_out) = (self.socket.try_clone()?, far.try_clone()?);
        let there = std::thread::spawn(move || {
            let _ = io::copy(&mut near_in, &mut far_out);
            let _ = far_out.shutdown(std::net::Shutdown::Write);
        });
        let _ = io::copy(&mut &far, &mut &self.socket);
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = there.join();
        super::over()
    }

    /// The same inside the TLS session of this connection, which has one owner: either side is looked at by
    /// turns.
    pub(crate) fn tunnel_within(&mut self, to: SocketAddr) -> io::Result<()> {
        const TURN: Duration = Duration::from_millis(2);
        let mut far = TcpStream::connect(to)?;
        far.set_read_timeout(Some(TURN))?;
        self.socket.set_read_timeout(Some(TURN))?;
        let mut bytes = vec![0; 64 << 10];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return super::over(),
                Ok(length) => far.write_all(&bytes[..length])?,
                Err(error) if is_none_yet(&error) => {}
                Err(error) => return Err(error),
            }
            match far.read(&mut bytes) {
                Ok(0) => return self.close(),
                Ok(length) => self.raw(&bytes[..length])?,
                Err(error) if is_none_yet(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The kernel keeps at most about `bytes` for the client: what is sent is then nearly what is received.
    pub(crate) fn small_buffer(&self, bytes: usize) {
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&self.socket, bytes);
    }

    fn count(&self, bytes: u64) {
        if let Some(seen) = &self.seen {
            seen.sent.fetch_add(bytes, Relaxed);
        }
        let _guard = self.log.requests.lock();
        self.log.sent.fetch_add(bytes, Relaxed);
        self.log.changed.notify_all();
    }
}

impl Server {
    /// Answers every request by `handler`.
    pub(crate) fn start(
        handler: impl Fn(&Request, &mut Wire) -> io::Result<()> + Send + Sync + 'static,
    ) -> Server {
        Server::bind("127.0.0.1:0", None, Box::new(handler)).expect("a free port")
    }

    /// On another address; `None` where this machine does not have it.
    pub(crate) fn start_on(
        address: &str,
        handler: impl Fn(&Request, &mut Wire) -> io::Result<()> + Send + Sync + 'static,
    ) -> Option<Server> {
        Server::bind(address, None, Box::new(handler)).ok()
    }

    /// Over TLS, with a certificate made on the spot for 127.0.0.1 and `localhost`.
    pub(crate) fn start_tls(
        handler: impl Fn(&Request, &mut Wire) -> io::Result<()> + Send + Sync + 'static,
    ) -> Server {
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        Server::start_with(rcgen::CertificateParams::new(names).expect("legal names"), handler)
    }

    /// Over TLS, with a certificate of these parameters.
    pub(crate) fn start_with(
        mut params: rcgen::CertificateParams,
        handler: impl Fn(&Request, &mut Wire) -> io::Result<()> + Send + Sync + 'static,
    ) -> Server {
        params.distinguished_name.push(rcgen::DnType::CommonName, "weir test");
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .expect("a configuration");
        let tls = Some((Arc::new(config), certificate.pem()));
        Server::bind("127.0.0.1:0", tls, Box::new(handler)).expect("a free port")
    }

    fn bind(
        address: &str,
        tls: Option<(Arc<ServerConfig>, String)>,
        handler: Box<Handler>,
    ) -> io::Result<Server> {
        let listener = Arc::new(TcpListener::bind(address)?);
        let address = listener.local_addr()?;
        let (config, certificate) = tls.unzip();
        let (log, ending) = (Arc::new(Log::default()), Arc::new(AtomicBool::new(false)));
        let accepting = Arc::clone(&listener);
        let server =
            Server { listener, address, certificate, log: Arc::clone(&log), ending: Arc::clone(&ending) };
        let handler: Arc<Handler> = handler.into();
        std::thread::spawn(move || {
            for socket in accepting.incoming() {
                if ending.load(Relaxed) {
                    break;
                }
                let Ok(socket) = socket else { continue };
                let number = log.connections.fetch_add(1, Relaxed);
                log.open.fetch_add(1, Relaxed);
                let (log, ending) = (Arc::clone(&log), Arc::clone(&ending));
                let (config, handler) = (config.clone(), Arc::clone(&handler));
                std::thread::spawn(move || {
                    converse(socket, number, config, &log, ending, &*handler);
                    log.open.fetch_sub(1, Relaxed);
                });
            }
        });
        Ok(server)
    }

    /// `http://ADDRESS/PATH`; `path` without its first `/`.
    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/{path}", self.address)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its certificate, in PEM.
    pub(crate) fn certificate(&self) -> &str {
        self.certificate.as_deref().expect("a TLS server")
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.log.connections.load(Relaxed)
    }

    /// Body bytes sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.log.sent.load(Relaxed)
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Arc<LoggedRequest>> {
        self.lock().clone()
    }

    /// The requests since `from`, as the log was then.
    pub(crate) fn requests_from(&self, from: usize) -> Vec<Request> {
        self.lock()[from..].iter().map(|seen| seen.request.clone()).collect()
    }

    /// Waits until `condition` holds of the bytes sent and the requests.
    pub(crate) fn wait(&self, what: &str, condition: impl Fn(u64, &[Arc<LoggedRequest>]) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        let mut requests = self.lock();
        while !condition(self.sent(), &requests) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain for {what}; requests: {requests:#?}");
            requests = self.log.changed.wait_timeout(requests, left).expect("an unpoisoned log").0;
        }
    }

    /// Waits until this many body bytes have been sent.
    pub(crate) fn wait_sent(&self, bytes: u64) {
        self.wait("bytes to be sent", |sent, _| sent >= bytes);
    }

    /// Waits until nobody is connected: what a client that was killed had sent has been read then.
    pub(crate) fn rests(&self) {
        super::wait_for("the end of all connections", || self.log.open.load(Relaxed) == 0);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<LoggedRequest>>> {
        self.log.requests.lock().expect("an unpoisoned log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.store(true, Relaxed);
        // Wakes the thread that accepts, in whatever network namespace it listens.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Read);
    }
}

fn head_of<N: Display, V: Display>(status: &str, fields: &[(N, V)]) -> String {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status}\r\n{lines}\r\n")
}

fn is_none_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn converse(
    socket: TcpStream,
    connection: usize,
    tls: Option<Arc<ServerConfig>>,
    log: &Arc<Log>,
    ending: Arc<AtomicBool>,
    handler: &Handler,
) {
    let _ = socket.set_nodelay(true);
    let _ = socket.set_read_timeout(Some(TIMEOUT));
    let _ = socket.set_write_timeout(Some(TIMEOUT));
    let Ok(copy) = socket.try_clone() else { return };
    let stream: Box<dyn Stream> = match tls {
        None => Box::new(copy),
        Some(config) => match ServerConnection::new(config) {
            Ok(session) => Box::new(StreamOwned::new(session, copy)),
            Err(_) => return,
        },
    };
    let mut wire =
        Wire { stream, socket, log: Arc::clone(log), seen: None, ending, pace: None, shared: None };
    while let Some((method, target, fields)) = read_request(&mut *wire.stream) {
        let request = {
            let mut requests = log.requests.lock().expect("an unpoisoned log");
            let number = requests.len();
            let request = Request { connection, number, method, target, fields, at: Instant::now() };
            let seen = Arc::new(LoggedRequest { request: request.clone(), sent: AtomicU64::new(0) });
            requests.push(Arc::clone(&seen));
            wire.seen = Some(seen);
            log.changed.notify_all();
            request
        };
        wire.pace = None;
        if handler(&request, &mut wire).is_err() {
            break;
        }
    }
}

/// The next request's line and fields; `None` at the end of the connection. A body is the handler's to read.
fn read_request(stream: &mut dyn Stream) -> Option<(String, String, Fields)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) if head.len() < 1 << 20 => head.push(byte[0]),
            _ => return None,
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let fields = lines.filter_map(|line| line.split_once(": "));
    Some((method, target, fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
}
