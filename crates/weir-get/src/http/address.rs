//! From a host and a port to a connected socket: both address families, the faster one wins (RFC 8305).

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use socket2::{Domain, Protocol, Socket, Type};
use weir_observe::names::{NameError, Names, with_port};
use weir_observe::stage_clock::{Stage, StageClock};

use crate::error::GetError;
use crate::http::connection::Dial;
use crate::http::reach::{Reach, UnixPlace};

/// RFC 8305 section 5: the recommended delay before the next address is tried beside the first.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// How often a waiting connect looks whether it is still wanted.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// At most this many addresses of a name are tried.
const MAX_ADDRESSES: usize = 16;

/// A lane with other work waits this long for a name, counted from when its lookup began; then it puts the
/// job aside. Nearly all names are there by then (a resolver across a continent answers in 20 to 40 ms).
const WAITED: Duration = Duration::from_millis(50);

/// How one connection is to come about.
pub struct Way<'a> {
    /// The names of the run.
    pub names: &'a Names,
    /// What the user says of the way.
    pub reach: &'a Reach,
    /// How to dial.
    pub dial: &'a Dial<'a>,
    /// Where the time goes.
    pub clock: &'a StageClock,
    /// When the name, the connect and the handshakes must be done.
    pub deadline: Instant,
    /// The caller has other work while a name is looked up: [`GetError::NamePending`] is of use to it.
    pub may_put_aside: bool,
}

/// Connects to `host:port`.
pub fn connect(host: &str, port: u16, way: &Way<'_>) -> Result<TcpStream, GetError> {
    let addresses = resolve(host, port, way)?;
    way.clock.step(Stage::Dialling, || race(&addresses, way)).map_err(|source| match source.kind() {
        io::ErrorKind::Interrupted => GetError::Interrupted,
        _ => {
            way.names.doubt(host);
            GetError::Connect { to: format!("{host}:{port}"), source }
        }
    })
}

/// Connects to a socket of this machine in place of the network.
pub(crate) fn connect_unix(place: &UnixPlace, way: &Way<'_>) -> Result<TcpStream, GetError> {
    let dial = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.connect_timeout(&place.address()?, way.dial.connect_timeout)?;
        Ok(socket.into())
    };
    way.clock
        .step(Stage::Dialling, dial)
        .map_err(|source| GetError::Connect { to: format!("the socket {}", place.shown()), source })
}

/// The addresses of `host`, in the order in which they are tried.
pub(super) fn resolve(host: &str, port: u16, way: &Way<'_>) -> Result<Vec<SocketAddr>, GetError> {
    let found = match way.reach.addresses(host, port) {
        Some(given) => given,
        None => look_up(host, way)?,
    };
    let usable = way.reach.usable(host, found).map_err(GetError::Refused)?;
    Ok(interleave(with_port(&usable, port)))
}

fn look_up(host: &str, way: &Way<'_>) -> Result<Vec<SocketAddr>, GetError> {
    let zoned = way.reach.zoned(host);
    let host = zoned.as_deref().unwrap_or(host);
    let lookup = way.names.look_up(host, way.dial.connect_timeout);
    let until = way.may_put_aside.then(|| Instant::now() + WAITED.saturating_sub(lookup.age()));
    match way.clock.step(Stage::Resolving, || lookup.wait(until, &|| way.dial.is_stopped())) {
        None => Err(GetError::NamePending(lookup)),
        Some(Ok(found)) => Ok(found.to_vec()),
        Some(Err(NameError::Stopped)) => Err(GetError::Interrupted),
        Some(Err(cause)) => Err(GetError::Resolve { host: host.to_owned(), cause }),
    }
}

/// The families by turns, the resolver's first choice first.
fn interleave(found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = found.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut second): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|a| a.is_ipv6() == first_is_v6);
    first.reverse();
    second.reverse();
    let mut mixed = Vec::new();
    while mixed.len() < MAX_ADDRESSES {
        match (first.pop(), second.pop()) {
            (None, None) => break,
            (a, b) => mixed.extend(a.into_iter().chain(b)),
        }
    }
    mixed
}

/// Starts one attempt after the other, `ATTEMPT_DELAY` apart or as soon as the last failed; the first to
/// connect wins.
fn race(addresses: &[SocketAddr], way: &Way<'_>) -> io::Result<TcpStream> {
    let (dial, deadline) = (way.dial, way.deadline);
    let mut waiting = addresses.iter();
    let mut running: Vec<Socket> = Vec::new();
    let mut next_start = Instant::now();
    let mut last_error = io::Error::from(io::ErrorKind::TimedOut);
    loop {
        let now = Instant::now();
        if dial.is_stopped() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if now >= deadline {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no answer in {} s", dial.connect_timeout.as_secs_f64()),
            ));
        }
        if (now >= next_start || running.is_empty()) && waiting.len() > 0 {
            if let Some(address) = waiting.next() {
                match start(address, way) {
                    Ok(socket) => running.push(socket),
                    Err(error) => last_error = error,
                }
                next_start = now + ATTEMPT_DELAY;
            }
            continue;
        }
        if running.is_empty() {
            return Err(last_error);
        }
        let until = if waiting.len() > 0 { next_start.min(deadline) } else { deadline };
        if let Some(index) = wait(&running, (until - now).min(POLL_INTERVAL))? {
            let socket = running.swap_remove(index);
            match socket.take_error()? {
                None => return settle(socket),
                Some(error) => {
                    last_error = error;
                    next_start = now;
                }
            }
        }
    }
}

fn start(address: &SocketAddr, way: &Way<'_>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    way.reach.bind(&socket)?;
    if let Some(bytes) = way.dial.receive_buffer {
        // Before connect, so that the window scale of the handshake fits it (tcp(7)).
        socket.set_recv_buffer_size(bytes)?;
    }
    match socket.connect(&(*address).into()) {
        Ok(()) => Ok(socket),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// The index of a socket that is connected or failed; `None` after `span`.
fn wait(running: &[Socket], span: Duration) -> io::Result<Option<usize>> {
    let mut polled: Vec<_> = running.iter().map(|socket| PollFd::new(socket, PollFlags::OUT)).collect();
    let span =
        rustix::time::Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) };
    match poll(&mut polled, Some(&span)) {
        Ok(_) => Ok(polled.iter().position(|fd| !fd.revents().is_empty())),
        Err(rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn settle(socket: Socket) -> io::Result<TcpStream> {
    socket.set_nonblocking(false)?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let found = ["[::1]:1", "[::2]:1", "1.1.1.1:1", "[::3]:1"].map(parse).to_vec();
        let mixed: Vec<_> = interleave(found).iter().map(SocketAddr::to_string).collect();
        assert_eq!(mixed, ["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]);
    }
}
