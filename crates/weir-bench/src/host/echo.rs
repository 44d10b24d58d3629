//! ICMP echo, where this user may send it: round trips and loss without a program at the far end.
//!
//! A ping socket needs no privilege but a group within `net.ipv4.ping_group_range`; a raw socket needs
//! CAP_NET_RAW. Neither is asked for: where both are refused, the reason is the answer. A host or a firewall
//! may drop echoes on purpose or answer only so many a second (`net.ipv4.icmp_ratelimit`), so loss of echoes
//! is not always the path's loss.

pub mod wire;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::RecvFlags;
use socket2::{Domain, Protocol, Socket, Type};

use crate::wait::ready;
use wire::{Family, Reply};

/// The largest IP packet, and so the largest answer.
const LARGEST: usize = 65_535;

/// How many, and how.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Requests.
    pub count: u16,
    /// Between two.
    pub interval: Duration,
    /// How long after the last one its answer is waited for.
    pub timeout: Duration,
}

impl Default for Plan {
    /// Thirty at twenty a second, below what kernels and routers answer without limiting (Linux: 1000 a
    /// second for all).
    fn default() -> Plan {
        Plan { count: 30, interval: Duration::from_millis(50), timeout: Duration::from_secs(1) }
    }
}

/// What came back.
#[derive(Debug, Clone, Default)]
pub struct Echoes {
    /// Requests sent, without those whose answer was still due at an interrupt.
    pub sent: u32,
    /// Requests answered.
    pub received: u32,
    /// Answers that came again.
    pub duplicates: u32,
    /// In the order of the requests.
    pub round_trips: Vec<Duration>,
    /// Which socket: `a ping socket`, `a raw socket`.
    pub through: &'static str,
    /// Why there are fewer than planned; `None` if there are not.
    pub cut: Option<&'static str>,
}

impl Echoes {
    /// Lost over sent; `None` before anything was sent.
    pub fn loss(&self) -> Option<f64> {
        (self.sent > 0).then(|| 1.0 - f64::from(self.received) / f64::from(self.sent))
    }
}

/// A socket for echoes with one host.
#[derive(Debug)]
pub struct Pinger {
    socket: Socket,
    family: Family,
    raw: bool,
    id: u16,
    token: u64,
    buffer: Vec<u8>,
}

impl Pinger {
    /// Opens what is allowed; else the reason in words.
    pub fn open(peer: IpAddr) -> Result<Pinger, String> {
        let (domain, protocol, family) = match peer {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, Family::V4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, Family::V6),
        };
        let open = |kind: Type| Socket::new(domain, kind, Some(protocol));
        let (socket, raw) = match (open(Type::DGRAM), open(Type::RAW)) {
            (Ok(socket), _) => (socket, false),
            (Err(_), Ok(socket)) => (socket, true),
            (Err(ping), Err(raw)) => {
                let (ping, raw) = (weir_units::plain(&ping), weir_units::plain(&raw));
                return Err(format!(
                    "no socket for ICMP echo: ping socket: {ping} (net.ipv4.ping_group_range); raw socket: {raw} (CAP_NET_RAW)"
                ));
            }
        };
        let ready =
            socket.set_nonblocking(true).and_then(|()| socket.connect(&SocketAddr::new(peer, 0).into()));
        ready.map_err(|error| format!("no route for ICMP echo: {}", weir_units::plain(&error)))?;
        Ok(Pinger {
            socket,
            family,
            raw,
            id: fastrand::u16(..),
            token: fastrand::u64(..),
            buffer: vec![0; LARGEST],
        })
    }

    /// Which socket it is.
    pub fn through(&self) -> &'static str {
        if self.raw { "a raw socket" } else { "a ping socket" }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Bytes of the IP header in front of each request.
    pub(crate) fn ip_header(&self) -> u32 {
        match self.family {
            Family::V4 => 20,
            Family::V6 => 40,
        }
    }

    /// Sends a request with so many bytes after the ICMP header.
    pub fn send(&self, sequence: u16, payload: usize) -> io::Result<()> {
        let packet = wire::request(self.family, self.id, sequence, self.token, payload);
        self.socket.send(&packet).map(|_| ())
    }

    /// The next answer to one of this socket's requests; `None` at the deadline or after `stop`.
    pub fn receive(&mut self, until: Instant, stop: &AtomicBool) -> io::Result<Option<Reply>> {
        while ready(&self.socket, PollFlags::IN, until, stop)? {
            let length = match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => length,
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let reply = wire::parse_reply(self.family, self.raw, &self.buffer[..length]);
            // A raw socket hears the answers to other programs, and on loopback the requests too.
            if let Some(reply) = reply.filter(|reply| reply.token == self.token) {
                return Ok(Some(reply));
            }
            if stop.load(Relaxed) || Instant::now() >= until {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// The round trip of one request of the usual size; `None` when it is not answered within `timeout`.
    pub fn once(
        &mut self,
        sequence: u16,
        timeout: Duration,
        stop: &AtomicBool,
    ) -> io::Result<Option<Duration>> {
        let start = Instant::now();
        self.send(sequence, wire::USUAL)?;
        while let Some(reply) = self.receive(start + timeout, stop)? {
            if reply.sequence == sequence {
                return Ok(Some(start.elapsed()));
            }
        }
        Ok(None)
    }
}

/// Sends as planned and listens meanwhile.
pub fn run(peer: IpAddr, plan: &Plan, stop: &AtomicBool) -> Result<Echoes, String> {
    let mut pinger = Pinger::open(peer)?;
    let mut book = Book { sent_at: Vec::new(), answered: Vec::new(), duplicates: 0 };
    let words = |error: io::Error| format!("ICMP echo failed: {}", weir_units::plain(&error));
    for sequence in 0..plan.count {
        let now = Instant::now();
        pinger.send(sequence, wire::USUAL).map_err(words)?;
        book.sent_at.push(now);
        book.answered.push(None);
        if !listen(&mut pinger, &mut book, now + plan.interval, false, stop).map_err(words)? {
            break;
        }
    }
    listen(&mut pinger, &mut book, Instant::now() + plan.timeout, true, stop).map_err(words)?;
    let round_trips: Vec<_> = book.answered.iter().flatten().copied().collect();
    Ok(Echoes {
        sent: (book.sent_at.len() - book.due(plan.timeout)) as u32,
        received: round_trips.len() as u32,
        duplicates: book.duplicates,
        round_trips,
        through: pinger.through(),
        cut: stop.load(Relaxed).then_some("interrupted"),
    })
}

/// What was sent and what of it came back.
struct Book {
    sent_at: Vec<Instant>,
    answered: Vec<Option<Duration>>,
    duplicates: u32,
}

impl Book {
    fn note(&mut self, reply: &Reply) {
        let place = usize::from(reply.sequence);
        let (Some(sent), Some(answered)) = (self.sent_at.get(place), self.answered.get_mut(place)) else {
            return;
        };
        match answered {
            Some(_) => self.duplicates += 1,
            None => *answered = Some(sent.elapsed()),
        }
    }

    /// Requests whose answer may still come: a wait was cut short.
    fn due(&self, timeout: Duration) -> usize {
        let requests = self.sent_at.iter().zip(&self.answered);
        requests.filter(|(sent, answered)| answered.is_none() && sent.elapsed() < timeout).count()
    }

    fn is_complete(&self) -> bool {
        self.answered.iter().all(Option::is_some)
    }
}

/// Takes answers until the time is over, or, at the end, until all are there. False after `stop`.
fn listen(
    pinger: &mut Pinger,
    book: &mut Book,
    until: Instant,
    at_end: bool,
    stop: &AtomicBool,
) -> io::Result<bool> {
    while !(at_end && book.is_complete()) {
        match pinger.receive(until, stop) {
            Ok(Some(reply)) => book.note(&reply),
            Ok(None) => break,
            // What routers say of single packets ("host unreachable") is no answer; the next may get through.
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(!stop.load(Relaxed))
}

/// What a router or the host says of one packet by ICMP, and not the end of the socket.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ECONNREFUSED | libc::EMSGSIZE)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_answers_each_echo_once() {
        let plan = Plan { count: 5, interval: Duration::from_millis(1), timeout: Duration::from_secs(5) };
        match run([127, 0, 0, 1].into(), &plan, &AtomicBool::new(false)) {
            Ok(echoes) => {
                assert_eq!((echoes.sent, echoes.received, echoes.duplicates), (5, 5, 0));
                assert_eq!((echoes.loss(), echoes.round_trips.len()), (Some(0.0), 5));
            }
            // Not root, and no ping group: then the reason names both ways.
            Err(why) => assert!(why.contains("ping_group_range") && why.contains("CAP_NET_RAW"), "{why}"),
        }
    }

    #[test]
    fn answers_are_counted_once_and_strange_ones_not_at_all() {
        let mut book = Book { sent_at: vec![Instant::now(); 2], answered: vec![None; 2], duplicates: 0 };
        let reply = |sequence| Reply { sequence, token: 0, length: 0 };
        for sequence in [1, 1, 7] {
            book.note(&reply(sequence));
        }
        assert_eq!((book.answered[0], book.duplicates, book.is_complete()), (None, 1, false));
        book.note(&reply(0));
        assert!(book.is_complete());
    }

    #[test]
    fn an_answer_that_is_still_due_is_not_lost() {
        const TIMEOUT: Duration = Duration::from_secs(5);
        let late = Instant::now().checked_sub(TIMEOUT).unwrap();
        let sent_at = vec![late, late, Instant::now(), Instant::now()];
        let answered = vec![None, Some(Duration::ZERO), None, Some(Duration::ZERO)];
        assert_eq!(Book { sent_at, answered, duplicates: 0 }.due(TIMEOUT), 1);
        // Of one that was stopped at once all that counts was answered.
        let plan = Plan { timeout: Duration::from_secs(3600), ..Plan::default() };
        if let Ok(echoes) = run([127, 0, 0, 1].into(), &plan, &AtomicBool::new(true)) {
            assert_eq!((echoes.sent, echoes.cut), (echoes.received, Some("interrupted")), "{echoes:?}");
        }
    }

    #[test]
    fn the_header_is_as_long_as_it_is() {
        assert_eq!(wire::request(Family::V4, 1, 2, 3, wire::USUAL).len(), wire::HEADER + wire::USUAL);
    }
}
