//! Do TCP sockets tell of their connections: one's own by TCP_INFO, everybody's by INET_DIAG?

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use weir_model::ability::Finding;

use super::listed;
use crate::sock_diag::{Destroyed, Filter, SockDiag};
use crate::tcp_info;
use weir_units::plain;

/// A notice of a socket's end comes from a kernel worker, some microseconds later; on a machine with work for
/// every processor it has come within tens of milliseconds. Below the second that all probes have together.
const NOTICE: Duration = Duration::from_millis(500);

/// A socket that is connected to nothing, of the family that this host has.
fn socket() -> rustix::io::Result<OwnedFd> {
    let open = |family| socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    open(AddressFamily::INET).or_else(|_| open(AddressFamily::INET6))
}

pub(super) fn tcp_info() -> Finding {
    let origin = "getsockopt(TCP_INFO) of a new socket";
    let socket = match socket() {
        Ok(socket) => socket,
        Err(cause) => {
            return Finding::missing(
                format!("no TCP socket can be made: {}", plain(&cause.into())),
                "socket(2)",
            );
        }
    };
    let info = match tcp_info::read(socket.as_fd()) {
        Ok(info) => info,
        Err(cause) => return Finding::limited(format!("sockets report nothing: {}", plain(&cause)), origin),
    };
    // What rules ask for, each with the kernel that brought it.
    let lacking: Vec<&str> = [
        (info.bytes_received.is_none(), "bytes received (Linux 4.1)"),
        (info.busy_time.is_none(), "what held the sender (Linux 4.10)"),
        (info.bytes_retrans.is_none(), "bytes sent again (Linux 4.19)"),
        (info.snd_wnd.is_none(), "the peer's window (Linux 5.4)"),
        (info.rcv_wnd.is_none(), "the own window (Linux 6.2)"),
    ]
    .into_iter()
    .filter_map(|(lacks, what)| lacks.then_some(what))
    .collect();
    match lacking.is_empty() {
        true => Finding::ok("sockets report all that the rules need", origin),
        false => Finding::limited(format!("sockets do not report {}", listed(&lacking)), origin),
    }
}

pub(super) fn socket_diag() -> Finding {
    let origin = "netlink NETLINK_SOCK_DIAG";
    // Listening sockets alone: a kernel that answers for them does for all, and they are few.
    let asked =
        SockDiag::open().and_then(|mut diag| diag.quick(&Filter { listening: true, ..Filter::default() }));
    if let Err(why) = asked {
        return Finding::missing(why.to_string(), origin);
    }
    match notice() {
        Ok(true) => Finding::ok("sockets are listed, and their end is reported", origin),
        Ok(false) => Finding::limited("sockets are listed, but their end is not reported", origin),
        Err(why) => {
            Finding::limited(format!("sockets are listed, but their end is not reported: {why}"), origin)
        }
    }
}

/// Whether the end of a socket that this makes for it is told.
fn notice() -> Result<bool, String> {
    let mut destroyed = Destroyed::open().map_err(|error| error.to_string())?;
    drop(socket().map_err(|cause| plain(&cause.into()))?);
    let (begin, mut ended) = (Instant::now(), Vec::new());
    while begin.elapsed() < NOTICE {
        // Any socket's end will do, and one so soon that some were lost also tells.
        let whole = destroyed.read(&mut ended).map_err(|error| error.to_string())?;
        if !whole || !ended.is_empty() {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(false)
}
