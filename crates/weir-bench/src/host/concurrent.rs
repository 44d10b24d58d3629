//! How many connections does the host take at a time?
//!
//! Opened in small flights, held without a byte sent, and closed together. A completed handshake is the
//! kernel's word, not the program's: a program may have left it in its queue (`listen`'s backlog). The search
//! is bounded on purpose: what a host can bear at most is found out by its owner, with a load generator.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use socket2::Socket;
use weir_units::nofile;

use crate::host::connect::{ConnectOutcome, begin, judge};
use crate::wait::ready;

/// Connects under way at a time: what a browser has towards one site, and few enough for any queue of SYNs.
const FLIGHT: usize = 8;

/// File descriptors that the rest of the program needs.
const OTHERS: u64 = 64;

/// How many, and how.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// At most.
    pub most: usize,
    /// A connect without an answer for so long has failed.
    pub timeout: Duration,
    /// All of it.
    pub time: Duration,
}

impl Default for Plan {
    /// A hundred, which any server that is meant for more than one person takes, in three seconds at most.
    fn default() -> Plan {
        Plan { most: 100, timeout: Duration::from_secs(1), time: Duration::from_secs(3) }
    }
}

/// What ended it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// As many as were asked for are open.
    Cap,
    /// The host took no more.
    Host(ConnectOutcome),
    /// The time was over.
    Time,
    /// This process may have no more files open.
    Descriptors(u64),
    /// Nobody waits for it any more.
    Interrupted,
}

/// What was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The most that were open at a time, by this end's count.
    pub opened: usize,
    /// Of those, still open when the last one was: the others the host has closed or reset.
    pub kept: usize,
    /// What ended it.
    pub end: End,
}

/// Opens connections until something says stop, then closes them all.
pub fn run(address: SocketAddr, plan: &Plan, stop: &AtomicBool) -> Reached {
    // Within what the hard limit allows, or as many as there are.
    let _ = nofile::raise(plan.most as u64 + OTHERS);
    let allowed = nofile::allowed().saturating_sub(OTHERS) as usize;
    let until = Instant::now() + plan.time;
    let mut open: Vec<TcpStream> = Vec::new();
    let end = loop {
        if stop.load(Relaxed) {
            break End::Interrupted;
        }
        if open.len() >= plan.most {
            break End::Cap;
        }
        if open.len() >= allowed {
            break End::Descriptors(allowed as u64 + OTHERS);
        }
        if Instant::now() >= until {
            break End::Time;
        }
        let flight = FLIGHT.min(plan.most.min(allowed) - open.len());
        if let Some(end) = fly(address, flight, plan, &mut open, stop) {
            break end;
        }
    };
    let kept = open.iter().filter(|stream| is_open(stream)).count();
    Reached { opened: open.len(), kept, end }
}

/// One flight; `Some` when it shall be the last.
fn fly(
    address: SocketAddr,
    count: usize,
    plan: &Plan,
    open: &mut Vec<TcpStream>,
    stop: &AtomicBool,
) -> Option<End> {
    let start = Instant::now();
    let mut end = None;
    let mut sockets = Vec::new();
    for _ in 0..count {
        match begin(address) {
            Ok(socket) => sockets.push(socket),
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                end = Some(End::Descriptors(open.len() as u64 + OTHERS));
                break;
            }
            Err(error) => {
                end = Some(End::Host(judge(&error, start.elapsed())));
                break;
            }
        }
    }
    for socket in sockets {
        match settle(socket, start, plan.timeout, stop) {
            Ok(stream) => open.push(stream),
            Err(outcome) => end = end.or(Some(End::Host(outcome))),
        }
    }
    if stop.load(Relaxed) { Some(End::Interrupted) } else { end }
}

fn settle(
    socket: Socket,
    start: Instant,
    timeout: Duration,
    stop: &AtomicBool,
) -> Result<TcpStream, ConnectOutcome> {
    match ready(&socket, PollFlags::OUT, start + timeout, stop) {
        Ok(true) => {}
        Ok(false) => return Err(ConnectOutcome::TimedOut),
        Err(error) => return Err(judge(&error, start.elapsed())),
    }
    match socket.take_error() {
        Ok(None) => Ok(socket.into()),
        Ok(Some(error)) | Err(error) => Err(judge(&error, start.elapsed())),
    }
}

/// Neither closed nor reset by the host, as far as has arrived here.
fn is_open(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        // A server that speaks first is there.
        Ok(count) => count > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::connect::refusing;
    use std::net::TcpListener;

    const SOME: Plan = Plan { most: 20, timeout: Duration::from_secs(5), time: Duration::from_secs(20) };

    #[test]
    fn as_many_as_asked_for_and_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let reached = run(listener.local_addr().unwrap(), &SOME, &AtomicBool::new(false));
        assert_eq!(reached, Reached { opened: 20, kept: 20, end: End::Cap });
    }

    #[test]
    fn the_first_refusal_ends_it() {
        let (_closed, address) = refusing();
        let reached = run(address, &SOME, &AtomicBool::new(false));
        assert_eq!((reached.opened, reached.kept), (0, 0));
        assert!(matches!(reached.end, End::Host(ConnectOutcome::Refused(_))), "{reached:?}");
    }

    #[test]
    fn an_interrupt_ends_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let reached = run(listener.local_addr().unwrap(), &SOME, &AtomicBool::new(true));
        assert_eq!(reached, Reached { opened: 0, kept: 0, end: End::Interrupted });
    }
}
