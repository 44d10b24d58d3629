//! Why a test could not be made, or ended early.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use weir_units::{plain, unresolved};

use crate::code;
use crate::frame::Malformed;
use crate::refused::Refused;
use crate::results::Unusable;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The name has no address.
    #[error("cannot resolve {host}: {}{}", plain(source), no_name(host, source))]
    Resolve {
        /// As given.
        host: String,
        /// Of the resolver.
        #[source]
        source: io::Error,
    },
    /// The name has no address of the family that was asked for.
    #[error("{host} has no {family} address")]
    NoAddress {
        /// As given.
        host: String,
        /// `IPv4`, `IPv6` or nothing.
        family: &'static str,
    },
    /// No connection came about.
    #[error("cannot connect to {to}: {}{}", plain(source), nobody(source))]
    Connect {
        /// Whom.
        to: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The port cannot be listened on.
    #[error("cannot listen on {at}: {}{}", plain(source), way_out(source))]
    Listen {
        /// Where.
        at: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An option was refused by the system.
    #[error("cannot set {option}: {}{}", plain(source), without_right(source))]
    Option {
        /// In words: `congestion control bbr2`.
        option: String,
        /// iperf3's number for it.
        code: i32,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The server does not take this client now.
    #[error("server {0} refuses: it is busy with another test; wait for its end, or use another port")]
    Denied(SocketAddr),
    /// The server names an error of its own.
    #[error("server {at} gives up with its error {code}{}{}", known(*code), system(*errno))]
    Server {
        /// Who.
        at: SocketAddr,
        /// iperf3's number.
        code: i32,
        /// The system's number beside it, 0 for none.
        errno: i32,
    },
    /// The peer gave up without a reason.
    #[error("{0} ended the test")]
    Terminated(SocketAddr),
    /// The peer is gone.
    #[error("{peer} closed the control connection; expected {expected}")]
    Closed {
        /// Who.
        peer: SocketAddr,
        /// What should have come.
        expected: &'static str,
    },
    /// The peer says nothing.
    #[error("{peer} was silent for {} s; expected {expected}", timeout.as_secs_f64())]
    Silent {
        /// Who.
        peer: SocketAddr,
        /// What should have come.
        expected: &'static str,
        /// How long was waited.
        timeout: Duration,
    },
    /// Data stopped coming.
    #[error("no data came from {peer} for {} s (--rcv-timeout)", silent.as_secs_f64())]
    NoData {
        /// Who.
        peer: SocketAddr,
        /// How long was waited.
        silent: Duration,
    },
    /// The peer does not read.
    #[error("{peer} did not read {bytes} bytes within {} s", timeout.as_secs_f64())]
    Unread {
        /// Who.
        peer: SocketAddr,
        /// As many were to be read.
        bytes: usize,
        /// How long was waited.
        timeout: Duration,
    },
    /// The control connection failed.
    #[error("the control connection to {peer} failed")]
    Control {
        /// To whom.
        peer: SocketAddr,
        /// How.
        #[source]
        source: io::Error,
    },
    /// A word that does not belong here.
    #[error("{peer} sent {found}; expected {expected}: is it an iperf3 or weir server?")]
    Unexpected {
        /// Who.
        peer: SocketAddr,
        /// What came.
        found: String,
        /// What should have come.
        expected: &'static str,
    },
    /// A frame that is none.
    #[error("{peer} {cause}")]
    Malformed {
        /// Who.
        peer: SocketAddr,
        /// What.
        cause: Malformed,
    },
    /// Results that are none.
    #[error("{peer} sent results that cannot be used: {cause}")]
    Results {
        /// Who.
        peer: SocketAddr,
        /// What.
        cause: Unusable,
    },
    /// A test that this server does not make.
    #[error("{peer} is refused: {cause}")]
    Refused {
        /// Who.
        peer: SocketAddr,
        /// What.
        cause: Refused,
    },
    /// A bound of this server.
    #[error("{peer} is refused: {bound}")]
    Bound {
        /// Who.
        peer: SocketAddr,
        /// Of what.
        limit: Limit,
        /// In words.
        bound: String,
    },
    /// A data connection failed.
    #[error("stream {id} failed")]
    Stream {
        /// Its number.
        id: u32,
        /// How.
        #[source]
        source: io::Error,
    },
    /// The data streams did not come about.
    #[error("{peer} opened {have} of {want} data streams within {} s", timeout.as_secs())]
    Streams {
        /// Who.
        peer: SocketAddr,
        /// So many.
        have: usize,
        /// Of so many.
        want: usize,
        /// How long was waited.
        timeout: Duration,
    },
    /// Requests and responses are weir's own.
    #[error(
        "server {at} makes no request/response tests: it is iperf3, or an older weir; run 'weir bench net -s' there"
    )]
    NoTransactions {
        /// Who.
        at: SocketAddr,
    },
    /// The other end's figures of transactions are none.
    #[error("{peer} sent figures of its transactions that cannot be used")]
    NoPart {
        /// Who.
        peer: SocketAddr,
    },
    /// The ends count differently.
    #[error("{peer} says that it answered {told} requests, of which {counted} answers came")]
    Miscounted {
        /// Who.
        peer: SocketAddr,
        /// As it says.
        told: u64,
        /// As this end counts.
        counted: u64,
    },
    /// A UDP stream got no answer.
    #[error(
        "UDP to {to} was not answered within {} s; does a firewall let UDP port {} through?",
        timeout.as_secs(),
        to.port()
    )]
    NoUdp {
        /// Whom.
        to: SocketAddr,
        /// How long was waited.
        timeout: Duration,
    },
    /// A key, password or token.
    #[error(transparent)]
    Auth(#[from] crate::auth::AuthError),
    /// The user said stop before there was anything to report.
    #[error("interrupted")]
    Interrupted,
}

/// What a server bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Seconds of a test.
    Time,
    /// Its bytes.
    Bytes,
    /// Its bits per second.
    Rate,
}

/// A data connection or a thread of this end failed in itself.
pub(crate) fn stream_failed(id: u32, source: io::Error) -> NetError {
    NetError::Stream { id, source }
}

impl NetError {
    /// iperf3's number for an error and the system's beside it, 0 for none; `None` where there is nobody left
    /// to tell.
    pub(crate) fn number(&self) -> Option<(i32, i32)> {
        let alone = |code| Some((code, 0));
        match self {
            NetError::Auth(_) => alone(code::NOT_AUTHORISED),
            NetError::Bound { limit, .. } => match limit {
                Limit::Time => alone(code::DURATION),
                Limit::Rate => alone(code::TOTAL_RATE),
                // iperf3 bounds no bytes and has no number for it: "test initialization failed: File too
                // large" says it best.
                Limit::Bytes => Some((code::BEGIN, libc::EFBIG)),
            },
            NetError::Refused { cause, .. } => alone(code::of_refused(cause)),
            NetError::Malformed { .. } => alone(code::PARAMETERS),
            NetError::Unexpected { .. } => alone(code::MESSAGE),
            NetError::Silent { .. } | NetError::NoData { .. } => alone(code::SILENT),
            NetError::Option { code, source, .. } => Some((*code, source.raw_os_error().unwrap_or(0))),
            NetError::Listen { source, .. } => Some((code::BIND, source.raw_os_error().unwrap_or(0))),
            NetError::Stream { source, .. } => Some((code::READ_STREAM, source.raw_os_error().unwrap_or(0))),
            NetError::Streams { .. } => Some((code::ACCEPT_STREAM, libc::ETIMEDOUT)),
            _ => None,
        }
    }

    /// With its causes, on one line; those that its own words hold already are not repeated.
    pub fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            let words = cause.downcast_ref::<io::Error>().map_or_else(|| cause.to_string(), plain);
            if !text.contains(&words) {
                text.push_str(&format!(": {words}"));
            }
            source = cause.source();
        }
        text
    }
}

/// `HOST:PORT` is what most other tools take.
fn no_name(host: &str, source: &io::Error) -> &'static str {
    match host.split_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => "; the port is given by itself: -c HOST -p PORT",
        _ => unresolved(source),
    }
}

fn nobody(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::ConnectionRefused => "; start a server there: weir bench net -s, or iperf3 -s",
        _ => "",
    }
}

fn without_right(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; that needs root, or CAP_NET_RAW or CAP_NET_ADMIN",
        _ => "",
    }
}

fn way_out(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => ", another program uses it; choose another port (-p)",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need root",
        _ => "",
    }
}

fn known(number: i32) -> String {
    code::meaning(number).map(|meaning| format!(" ({meaning})")).unwrap_or_default()
}

fn system(errno: i32) -> String {
    if errno > 0 { format!(": {}", io::Error::from_raw_os_error(errno)) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_has_its_own_number_and_each_number_a_meaning() {
        let peer = SocketAddr::from(([127, 0, 0, 1], 5201));
        let of_limit = |limit| NetError::Bound { peer, limit, bound: String::new() }.number().unwrap();
        assert_eq!(of_limit(Limit::Time), (5, 0));
        assert_eq!(of_limit(Limit::Rate), (27, 0));
        assert_eq!(of_limit(Limit::Bytes), (101, libc::EFBIG));
        for (name, least, number) in [
            ("time", 0, 5),
            ("omit", 0, 12),
            ("parallel", 1, 6),
            ("len", 1, 7),
            ("len", 16, 20),
            ("MSS", 0, 10),
            ("window", 0, 8),
            ("burst", 0, 15),
            ("TOS", 0, 21),
        ] {
            let cause = Refused::Bound { name, value: 1 << 40, least, most: 1 };
            assert_eq!(NetError::Refused { peer, cause }.number(), Some((number, 0)), "{name}");
            assert!(code::meaning(number).is_some(), "{name}");
        }
        assert_eq!(code::meaning(-7), None);
        assert_eq!(NetError::Interrupted.number(), None);
    }

    #[test]
    fn a_cause_is_told_once() {
        let at = SocketAddr::from(([127, 0, 0, 1], 5201));
        let source = || io::Error::from_raw_os_error(libc::ECONNRESET);
        let listen = NetError::Listen { at, source: source() };
        assert_eq!(listen.in_full(), "cannot listen on 127.0.0.1:5201: connection reset by peer");
        let control = NetError::Control { peer: at, source: source() };
        let told = "the control connection to 127.0.0.1:5201 failed: connection reset by peer";
        assert_eq!(control.in_full(), told);
    }
}
