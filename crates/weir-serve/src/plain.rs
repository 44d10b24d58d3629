//! How does one thread serve one plain HTTP/1.1 connection?
//!
//! The loop is: read a head, decide, write the head, `sendfile` the ranges. Two system calls a request besides opening the
//! file, and one for each 64 MiB of a large one.

use std::io::{self, Read};
use std::net::{Shutdown as Half, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use http::StatusCode;
use rustix::net::SendFlags;

use crate::answer::{Answer, Part, Request};
use crate::condition::Fields;
use crate::pacer::Pacer;
use crate::site::Site;
use crate::source::{self, Source};
use crate::target;

/// A client may keep a connection open and silent, or take over a head, for so long.
pub(crate) const IDLE: Duration = Duration::from_secs(60);
/// The longest request head.
pub(crate) const MAX_HEAD: usize = 64 * 1024;
/// Heads are a few hundred bytes; the buffer grows for those that are not.
const FIRST_BUFFER: usize = 4 * 1024;
/// One `sendfile`: the system call costs about 1 µs, 64 MiB take at least 5 ms, and statistics stay that fresh.
const MAX_SEND: u64 = 64 << 20;
/// More header fields than this get 431 as well.
const MAX_FIELDS: usize = 100;
/// After a refusal, how much of what the client still sends is read, and for how long, so that it gets to see the refusal.
pub(crate) const LINGER_BYTES: usize = 256 * 1024;
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// Serves a connection to its end; an error is a client that went away, or a file that shrank.
///
/// The socket must have a receive timeout of [`IDLE`].
pub(crate) fn serve(site: &Site, socket: &TcpStream, client: SocketAddr) -> io::Result<()> {
    let pacer = site.pacer();
    Connection { site, socket, client, buffer: Vec::new(), filled: 0, head: Vec::new(), pacer }.run()
}

/// Whether the client speaks HTTP/2 with prior knowledge (RFC 9113, 3.3); waits for its first bytes and leaves them.
///
/// No HTTP/1 method that is served starts like the preface, so its first three bytes are enough.
pub(crate) fn starts_with_http2(socket: &TcpStream) -> io::Result<bool> {
    let mut first = [0; 3];
    let count = socket.peek(&mut first)?;
    Ok(&first[..count] == b"PRI")
}

struct Connection<'a> {
    site: &'a Site,
    socket: &'a TcpStream,
    client: SocketAddr,
    /// Received and not yet answered: `buffer[..filled]`, which may hold several requests.
    buffer: Vec<u8>,
    filled: usize,
    /// The head of the answer, kept to reuse its memory.
    head: Vec<u8>,
    pacer: Option<Pacer>,
}

/// One request, answered.
struct Exchange {
    answer: Answer,
    source: Option<Source>,
    /// How many bytes of the buffer the request took.
    consumed: usize,
    after: After,
}

/// What happens to the connection after an answer.
#[derive(Clone, Copy, PartialEq)]
enum After {
    KeepAlive,
    Close,
    /// Close, but bytes may be under way that nobody will read.
    Linger,
}

impl Connection<'_> {
    fn run(&mut self) -> io::Result<()> {
        while let Some(exchange) = self.next_exchange()? {
            if !self.site.delay.is_zero() {
                self.site.shutdown.sleep(self.site.delay);
            }
            self.send_answer(&exchange)?;
            self.buffer.copy_within(exchange.consumed..self.filled, 0);
            self.filled -= exchange.consumed;
            match exchange.after {
                After::KeepAlive => {}
                After::Close => return Ok(()),
                After::Linger => return self.linger(),
            }
        }
        Ok(())
    }

    /// Reads until a request is complete. `None` when the client is done, or silent for too long.
    fn next_exchange(&mut self) -> io::Result<Option<Exchange>> {
        let started = Instant::now();
        loop {
            if let Some(exchange) = self.parse() {
                return Ok(Some(exchange));
            }
            if self.filled == MAX_HEAD {
                return Ok(Some(self.refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)));
            }
            match self.receive() {
                Ok(0) => return Ok(None),
                Ok(_) if started.elapsed() < IDLE => {}
                Ok(_) => return Ok(Some(self.refuse(StatusCode::REQUEST_TIMEOUT))),
                Err(err) if err.kind() == io::ErrorKind::WouldBlock && self.filled == 0 => return Ok(None),
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Some(self.refuse(StatusCode::REQUEST_TIMEOUT)));
                }
                Err(err) => return Err(err),
            }
        }
    }

    /// Appends what has arrived to the buffer; 0 at the end of the stream.
    fn receive(&mut self) -> io::Result<usize> {
        if self.filled == self.buffer.len() {
            self.buffer.resize((self.filled * 2).clamp(FIRST_BUFFER, MAX_HEAD), 0);
        }
        loop {
            match self.socket.read(&mut self.buffer[self.filled..]) {
                Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
                Err(err) => return Err(err),
                Ok(count) => {
                    self.filled += count;
                    return Ok(count);
                }
            }
        }
    }

    /// Answers the first request in the buffer; `None` when it is not complete.
    fn parse(&self) -> Option<Exchange> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&self.buffer[..self.filled]) {
            Ok(httparse::Status::Partial) => None,
            Ok(httparse::Status::Complete(consumed)) => Some(self.react(&request, consumed)),
            Err(httparse::Error::TooManyHeaders) => {
                Some(self.refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE))
            }
            Err(_) => Some(self.refuse(StatusCode::BAD_REQUEST)),
        }
    }

    fn react(&self, request: &httparse::Request, consumed: usize) -> Exchange {
        let is_http_1_1 = request.version == Some(1);
        if is_http_1_1 && !request.headers.iter().any(|field| field.name.eq_ignore_ascii_case("host")) {
            return self.refuse(StatusCode::BAD_REQUEST); // RFC 9112, 3.2
        }
        let asked = Request {
            method: request.method.unwrap_or_default(),
            target: request.path.and_then(target::parse),
            fields: Fields::collect(request.headers.iter().map(|field| (field.name, field.value))),
        };
        let (answer, source) = self.site.answer(&asked, self.client);
        Exchange { answer, source, consumed, after: after(request.headers, is_http_1_1) }
    }

    fn refuse(&self, status: StatusCode) -> Exchange {
        let answer = self.site.refuse(status, self.client);
        Exchange { answer, source: None, consumed: self.filled, after: After::Linger }
    }

    fn send_answer(&mut self, exchange: &Exchange) -> io::Result<()> {
        self.write_head(exchange);
        // The head waits in the kernel for the first bytes of the body, so that both leave in one segment.
        let body_len = exchange.answer.body_len();
        self.send_text(&self.head, if body_len > 0 { SendFlags::MORE } else { SendFlags::empty() })?;
        let mut left = body_len;
        for part in &exchange.answer.body {
            left -= part.len();
            match (part, &exchange.source) {
                (Part::Text(text), _) => {
                    let flags = if left > 0 { SendFlags::MORE } else { SendFlags::empty() };
                    self.send_text(text, flags)?;
                    self.site.count_sent(text.len() as u64);
                }
                (Part::File(range), Some(source)) => self.send_range(source, range.start, range.end)?,
                (Part::File(_), None) => unreachable!("only answers about a file have ranges of one"),
            }
        }
        Ok(())
    }

    fn write_head(&mut self, exchange: &Exchange) {
        let head = &mut self.head;
        head.clear();
        head.extend_from_slice(b"HTTP/1.1 ");
        head.extend_from_slice(exchange.answer.status.as_str().as_bytes());
        head.push(b' ');
        head.extend_from_slice(exchange.answer.status.canonical_reason().unwrap_or_default().as_bytes());
        head.extend_from_slice(b"\r\n");
        // An HTTP/1.0 client must be told that the connection stays; to others it is no news.
        let connection = if exchange.after == After::KeepAlive { "keep-alive" } else { "close" };
        let fields = exchange.answer.headers.iter().map(|(name, value)| (*name, value.as_str()));
        for (name, value) in fields.chain([("Connection", connection)]) {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
    }

    fn send_text(&self, text: &[u8], flags: SendFlags) -> io::Result<()> {
        let mut sent = 0;
        while sent < text.len() {
            sent += source::send(self.socket, &text[sent..], flags)?;
        }
        Ok(())
    }

    /// Sends the bytes from `at` to `end`, at the pace that is set.
    fn send_range(&mut self, source: &Source, mut at: u64, end: u64) -> io::Result<()> {
        while at < end {
            let granted = self.wait_for_grant((end - at).min(MAX_SEND))?;
            let until = at + granted;
            while at < until {
                match source.send_to(self.socket, at, (until - at) as usize)? {
                    // The length is promised already: closing is the only honest way to say so. Never padded.
                    0 => return Err(io::Error::other("the file became shorter while it was sent")),
                    sent => {
                        at += sent as u64;
                        self.site.count_sent(sent as u64);
                    }
                }
            }
        }
        Ok(())
    }

    fn wait_for_grant(&mut self, want: u64) -> io::Result<u64> {
        let Some(pacer) = &mut self.pacer else { return Ok(want) };
        loop {
            match pacer.grant(want, Instant::now()) {
                Ok(granted) => return Ok(granted),
                Err(wait) => self.site.shutdown.sleep(wait),
            }
            if self.site.shutdown.is_stopped() {
                return Err(io::Error::other("the server stops"));
            }
        }
    }

    /// Closes in a way that lets the client read the answer: closing with unread bytes would send a reset, which
    /// discards what the client has not read yet (RFC 9112, 9.6).
    fn linger(&mut self) -> io::Result<()> {
        self.socket.shutdown(Half::Write)?;
        self.socket.set_read_timeout(Some(LINGER))?;
        let until = Instant::now() + LINGER;
        let mut scrap = [0; 4096];
        let mut left = LINGER_BYTES;
        while left > 0 && Instant::now() < until {
            match (&mut &*self.socket).read(&mut scrap)? {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
        Ok(())
    }
}

/// Whether the connection stays open after this request (RFC 9112, 9.3).
fn after(fields: &[httparse::Header], is_http_1_1: bool) -> After {
    let mut after = if is_http_1_1 { After::KeepAlive } else { After::Close };
    for field in fields {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("connection") {
            let has = |wanted: &str| {
                field
                    .value
                    .split(|&byte| byte == b',')
                    .any(|option| option.trim_ascii().eq_ignore_ascii_case(wanted.as_bytes()))
            };
            if has("close") {
                after = After::Close;
            } else if has("keep-alive") && !is_http_1_1 {
                after = After::KeepAlive;
            }
        } else if is("transfer-encoding") || (is("content-length") && field.value.trim_ascii() != b"0") {
            // A body is not read, so it must not be taken for the next request.
            return After::Linger;
        }
    }
    after
}
