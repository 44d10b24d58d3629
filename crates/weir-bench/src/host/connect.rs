//! Does the host take connections, and how soon?
//!
//! A few connects one after another, each held open for a moment and closed without a byte sent. A connect
//! takes one round trip and what both kernels need; the kernel's own clock of its handshake (TCP_INFO) is
//! without the waking of this program.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use socket2::{Domain, Protocol, Socket, Type};
use weir_observe::tcp_info::{self, TcpInfo};

use crate::wait::{pause, ready};

/// So many in a row without an answer are enough: the rest would take the run's time and tell nothing else.
const DEAD: usize = 3;

/// How many, and how.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Connects.
    pub count: usize,
    /// From the start of one to the start of the next, if it is over by then; a connection stays open for so
    /// long.
    pub interval: Duration,
    /// A connect without an answer for so long has failed.
    pub timeout: Duration,
}

impl Default for Plan {
    /// Ten, twenty a second: what a browser opens for one page.
    fn default() -> Plan {
        Plan { count: 10, interval: Duration::from_millis(50), timeout: Duration::from_secs(2) }
    }
}

/// How one connect ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectOutcome {
    /// Taken, after so long.
    Connected(Duration),
    /// Refused by a reset in answer to the first packet: the host is there, but nothing listens.
    Refused(Duration),
    /// Taken and then reset: a program that wants nobody, or something on the way that cuts it.
    Reset(Duration),
    /// No answer.
    TimedOut,
    /// Anything else, in the system's words: no route, not permitted.
    Failed(String),
}

/// What all of them found.
#[derive(Debug, Clone, Default)]
pub struct Tries {
    /// In order.
    pub outcomes: Vec<ConnectOutcome>,
    /// The kernel's round trip of each handshake, where it tells.
    pub kernel: Vec<Duration>,
    /// What the last connection's socket knew.
    pub info: Option<TcpInfo>,
    /// Its congestion control.
    pub congestion: Option<String>,
    /// Ended before all were tried, and why.
    pub cut: Option<&'static str>,
}

impl Tries {
    /// Connections that were taken, and stayed.
    pub fn connected(&self) -> usize {
        self.outcomes.iter().filter(|outcome| matches!(outcome, ConnectOutcome::Connected(_))).count()
    }

    /// Round trips as this program saw them: of connects that were taken or, where none was, of refusals,
    /// which take one too.
    pub fn round_trips(&self) -> Vec<Duration> {
        let taken = self.outcomes.iter().filter_map(|outcome| match outcome {
            ConnectOutcome::Connected(span) | ConnectOutcome::Reset(span) => Some(*span),
            _ => None,
        });
        let taken: Vec<_> = taken.collect();
        if !taken.is_empty() {
            return taken;
        }
        let refused = self.outcomes.iter().filter_map(|outcome| match outcome {
            ConnectOutcome::Refused(span) => Some(*span),
            _ => None,
        });
        refused.collect()
    }

    /// The host answered at all, be it with a refusal.
    pub fn answered(&self) -> bool {
        !self.round_trips().is_empty()
    }
}

/// Connects as planned.
pub fn run(address: SocketAddr, plan: &Plan, stop: &AtomicBool) -> Tries {
    let mut tries = Tries::default();
    let mut silent = 0;
    for _ in 0..plan.count {
        let next = Instant::now() + plan.interval;
        let (outcome, stream) = attempt(address, plan.timeout, stop);
        if stop.load(Relaxed) {
            tries.cut = Some("interrupted");
            return tries;
        }
        silent = if outcome == ConnectOutcome::TimedOut { silent + 1 } else { 0 };
        if let Some(stream) = &stream {
            note(&mut tries, stream);
        }
        let wanted = pause(next, stop);
        let outcome = match (outcome, &stream) {
            (ConnectOutcome::Connected(span), Some(stream)) if was_reset(stream) => {
                ConnectOutcome::Reset(span)
            }
            (outcome, _) => outcome,
        };
        tries.outcomes.push(outcome);
        if !wanted {
            tries.cut = Some("interrupted");
            return tries;
        }
        if silent == DEAD && tries.outcomes.len() < plan.count {
            tries.cut = Some("no answer three times in a row");
            return tries;
        }
    }
    tries
}

fn note(tries: &mut Tries, stream: &TcpStream) {
    if let Ok(info) = tcp_info::read(stream.as_fd()) {
        tries.kernel.extend(info.rtt);
        tries.info = Some(info);
    }
    tries.congestion = tcp_info::congestion_control(stream.as_fd()).ok();
}

fn was_reset(stream: &TcpStream) -> bool {
    let reset = |error: io::Error| error.kind() == io::ErrorKind::ConnectionReset;
    stream.peek(&mut [0]).err().is_some_and(reset)
}

/// One connect. The stream, where there is one, does not block. Once `stop` is set it counts as not answered.
pub fn attempt(
    address: SocketAddr,
    timeout: Duration,
    stop: &AtomicBool,
) -> (ConnectOutcome, Option<TcpStream>) {
    let start = Instant::now();
    let failed = |error: &io::Error| (judge(error, start.elapsed()), None);
    let socket = match begin(address) {
        Ok(socket) => socket,
        Err(error) => return failed(&error),
    };
    match ready(&socket, PollFlags::OUT, start + timeout, stop) {
        Ok(true) => {}
        Ok(false) => return (ConnectOutcome::TimedOut, None),
        Err(error) => return failed(&error),
    }
    let span = start.elapsed();
    match socket.take_error() {
        Ok(None) => (ConnectOutcome::Connected(span), Some(socket.into())),
        Ok(Some(error)) | Err(error) => (judge(&error, span), None),
    }
}

/// A socket on its way.
pub(crate) fn begin(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => Ok(socket),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

pub(crate) fn judge(error: &io::Error, span: Duration) -> ConnectOutcome {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ConnectOutcome::Refused(span),
        io::ErrorKind::ConnectionReset => ConnectOutcome::Reset(span),
        io::ErrorKind::TimedOut => ConnectOutcome::TimedOut,
        _ => ConnectOutcome::Failed(weir_units::plain(error)),
    }
}

/// An address that refuses: its socket is bound and does not listen, so that nobody else gets it meanwhile.
#[cfg(test)]
pub(crate) fn refusing() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const QUICK: Plan =
        Plan { count: 4, interval: Duration::from_millis(1), timeout: Duration::from_secs(5) };

    fn go() -> AtomicBool {
        AtomicBool::new(false)
    }

    #[test]
    fn a_listener_takes_all() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tries = run(listener.local_addr().unwrap(), &QUICK, &go());
        assert_eq!((tries.connected(), tries.round_trips().len(), tries.kernel.len()), (4, 4, 4));
        assert!(tries.info.unwrap().snd_mss.is_some_and(|mss| mss > 500));
        assert!(tries.congestion.is_some());
    }

    #[test]
    fn a_closed_port_refuses_and_its_refusals_are_round_trips() {
        let (_closed, address) = refusing();
        let tries = run(address, &QUICK, &go());
        assert!(tries.outcomes.iter().all(|outcome| matches!(outcome, ConnectOutcome::Refused(_))));
        assert_eq!((tries.connected(), tries.round_trips().len()), (0, 4));
        assert!(tries.answered());
    }

    #[test]
    fn a_program_that_resets_is_told_from_one_that_takes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for stream in listener.incoming().take(2).flatten() {
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            }
        });
        // So long that the program has come to its connection on a busy machine too.
        let patient = Plan { count: 2, interval: Duration::from_secs(1), ..QUICK };
        let tries = run(address, &patient, &go());
        server.join().unwrap();
        assert!(
            matches!(tries.outcomes[..], [ConnectOutcome::Reset(_), ConnectOutcome::Reset(_)]),
            "{tries:?}"
        );
    }

    #[test]
    fn an_interrupt_ends_it() {
        let stop = AtomicBool::new(true);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tries = run(listener.local_addr().unwrap(), &QUICK, &stop);
        assert_eq!((tries.outcomes.len(), tries.cut), (0, Some("interrupted")));
    }
}
