//! How does one thread serve one plain HTTP/1.1 connection?
//!
//! The loop is: read a head, decide, write the head, `sendfile` the ranges but for their last bytes, which
//! are held back until it is certain that the file is still what it was. Four system calls an answer besides
//! opening the file, and one for each 64 MiB of a large one.

use std::io::{self, Read};
use std::net::{Shutdown as Half, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use rustix::net::{RecvFlags, SendFlags};
use weir_http::request::Refusal;

use crate::acknowledged;
use crate::activity::{Activity, Open};
use crate::answer::{Answer, Part};
use crate::connections::IDLE;
use crate::exchange::{self, After, Asked, Inbox};
use crate::linger::{GLANCE, Lingering};
use crate::pacer::Pacer;
use crate::site::Site;
use crate::source::{self, LAST, Source};

/// One `sendfile`: the system call costs about 1 µs, 64 MiB take at least 5 ms, and statistics stay that
/// fresh.
const MAX_SEND: u64 = 64 << 20;
/// The same where the kernel does not count what its client takes, but only tells how much it holds: what is
/// offered is then never far ahead of what it was handed. A slow client still shows progress within seconds.
const MAX_UNCOUNTED: u64 = 32 << 10;

/// Serves a connection to its end; an error is a client that went away, or a file that changed.
///
/// The socket must have a receive timeout of [`IDLE`]. Whatever it waits for, a socket that the register of
/// connections shuts down ends it.
pub(crate) fn serve(
    site: &Site,
    socket: &TcpStream,
    client: SocketAddr,
    activity: &Arc<Activity>,
) -> io::Result<()> {
    let pacer = site.pacer();
    Connection { site, socket, client, activity, inbox: Inbox::default(), head: Vec::new(), pacer }.run()
}

/// Whether the client speaks HTTP/2 with prior knowledge (RFC 9113, 3.4); waits for its first bytes and
/// leaves them.
///
/// No HTTP/1 method that is served starts like the preface, so its first three bytes are enough; no request
/// is shorter.
pub(crate) fn starts_with_http2(socket: &TcpStream) -> io::Result<bool> {
    let mut first = [0u8; 3];
    let flags = RecvFlags::PEEK | RecvFlags::WAITALL;
    let (_, count) = rustix::io::retry_on_intr(|| rustix::net::recv(socket, &mut first[..], flags))?;
    Ok(&first[..count.min(3)] == b"PRI")
}

struct Connection<'a> {
    site: &'a Site,
    socket: &'a TcpStream,
    client: SocketAddr,
    activity: &'a Arc<Activity>,
    inbox: Inbox,
    /// The head of the answer, kept to reuse its memory.
    head: Vec<u8>,
    pacer: Option<Pacer>,
}

impl Connection<'_> {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let Some(taken) = self.next_request()? else { return Ok(()) };
            let open = self.activity.open();
            let (answer, source, after) = match taken {
                Ok(Asked { request, after }) => {
                    let (answer, source) = self.site.answer(&request, self.client, self.activity);
                    (answer, source, self.site.after(after))
                }
                Err(refusal) => (self.site.refuse(refusal, self.client), None, After::Close),
            };
            if !self.site.delay.is_zero() {
                self.site.cut.sleep(self.site.delay);
            }
            self.send_answer(&answer, source.as_ref(), after)?;
            // A client that is slow to take what the kernel has holds no file and no listing.
            drop((answer, source));
            match after {
                After::KeepAlive => {}
                After::Close => return self.linger(open),
            }
        }
    }

    /// Reads until a request is complete. `None` when the client is done, or silent for too long.
    fn next_request(&mut self) -> io::Result<Option<Result<Asked, Refusal>>> {
        let started = Instant::now();
        loop {
            if let Some(taken) = self.inbox.take() {
                return Ok(Some(taken));
            }
            let late = match (&mut &*self.socket).read(self.inbox.room()) {
                Ok(0) => return Ok(None),
                Ok(count) => {
                    self.inbox.fill(count);
                    started.elapsed() >= IDLE
                }
                Err(err) if err.kind() == io::ErrorKind::Interrupted => false,
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => true,
                Err(err) => return Err(err),
            };
            if late && self.inbox.is_empty() {
                return Ok(None);
            }
            if late {
                return Ok(Some(Err(exchange::LATE)));
            }
        }
    }

    fn send_answer(&mut self, answer: &Answer, source: Option<&Source>, after: After) -> io::Result<()> {
        exchange::write_head(answer, after, &mut self.head);
        // The head waits in the kernel for the first bytes of the body, so that both leave in one segment.
        let body_len = answer.body_len();
        self.send_text(&self.head, if body_len > 0 { SendFlags::MORE } else { SendFlags::empty() })?;
        let mut left = body_len;
        for part in &answer.body {
            left -= part.len();
            match (part, source) {
                (Part::Text(text), _) => {
                    let flags = if left > 0 { SendFlags::MORE } else { SendFlags::empty() };
                    self.activity.offer(text.len() as u64);
                    self.send_text(text, flags)?;
                    self.site.count_sent(text.len() as u64);
                }
                (Part::File(range), Some(source)) => self.send_range(source, range.start, range.end)?,
                (Part::File(_), None) => unreachable!("only answers about a file have ranges of one"),
            }
        }
        Ok(())
    }

    fn send_text(&self, text: &[u8], flags: SendFlags) -> io::Result<()> {
        let mut sent = 0;
        while sent < text.len() {
            sent += source::send(self.socket, &text[sent..], flags)?;
        }
        Ok(())
    }

    /// Sends the bytes from `start` to `end`, at the pace that is set.
    fn send_range(&mut self, source: &Source, start: u64, end: u64) -> io::Result<()> {
        if start == end {
            return Ok(());
        }
        let last = end.saturating_sub(LAST).max(start);
        if start < last {
            self.send_cached(source, start, last)?;
        }
        let held = source.read_last(last..end)?;
        let mut left = &held[..];
        while !left.is_empty() {
            let granted = self.wait_for_grant(left.len() as u64)?;
            let (granted, rest) = left.split_at(granted as usize);
            self.activity.offer(granted.len() as u64);
            self.send_text(granted, SendFlags::empty())?;
            self.site.count_sent(granted.len() as u64);
            left = rest;
        }
        Ok(())
    }

    /// Sends bytes that never visit user space.
    fn send_cached(&mut self, source: &Source, mut at: u64, end: u64) -> io::Result<()> {
        let most = if acknowledged::by_client(self.socket).is_some() { MAX_SEND } else { MAX_UNCOUNTED };
        while at < end {
            let granted = self.wait_for_grant((end - at).min(most))?;
            // Before they leave: a slow client may take minutes for them, and is watched by what it
            // acknowledges.
            self.activity.offer(granted);
            let until = at + granted;
            while at < until {
                let sent = source.send_to(self.socket, at, (until - at) as usize)? as u64;
                at += sent;
                self.site.count_sent(sent);
            }
        }
        Ok(())
    }

    fn wait_for_grant(&mut self, want: u64) -> io::Result<u64> {
        let Some(pacer) = &mut self.pacer else { return Ok(want) };
        loop {
            match pacer.grant(want, Instant::now()) {
                Ok(granted) => return Ok(granted),
                Err(wait) => self.site.cut.sleep(wait),
            }
            if self.site.cut.is_stopped() {
                return Err(io::Error::other("the server stops"));
            }
        }
    }

    /// Closes in a way that lets the client read all of the answer.
    fn linger(&mut self, open: Open) -> io::Result<()> {
        self.socket.shutdown(Half::Write)?;
        self.socket.set_read_timeout(Some(GLANCE))?;
        let mut lingering = Lingering::new(self.socket, open);
        let mut scrap = [0; 4096];
        loop {
            let came = match (&mut &*self.socket).read(&mut scrap) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(err) if matches!(err.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => 0,
                Err(err) => return Err(err),
            };
            if !lingering.goes_on(came) {
                return Ok(());
            }
        }
    }
}
