//! Why a request came to no whole answer: one table, from which the counts of wrk and of ab, JSON and words
//! are made.

use std::io;

use rustix::io::Errno;

use crate::malformed::Malformed;

/// Which of wrk's four counts of socket errors a reason belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// There was no connection, or no TLS session over it.
    Connect,
    /// The connection broke, ended or carried something else before the answer was whole.
    Read,
    /// The request could not be written.
    Write,
    /// Something took longer than the time-out.
    Timeout,
}

impl Kind {
    /// As JSON and wrk call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Connect => "connect",
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Timeout => "timeout",
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Of what.
    pub reason: Reason,
    /// Which count it belongs to.
    pub kind: Kind,
    /// As JSON calls it.
    pub name: &'static str,
    /// For people, behind a number.
    pub words: &'static str,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident, $kind:ident, $name:literal, $words:literal;)*) => {
        /// Why.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $reason,)*
        }

        /// Every reason, in its order.
        pub const ALL: &[Row] = &[
            $(Row { reason: Reason::$reason, kind: Kind::$kind, name: $name, words: $words },)*
        ];
    };
}

reasons! {
    /// Nothing listens there.
    Refused, Connect, "refused", "connection refused";
    /// No route, or a router said no.
    Unreachable, Connect, "unreachable", "server unreachable";
    /// Reset before the connection stood.
    ConnectReset, Connect, "connect-reset", "reset while connecting";
    /// No TLS session: the refusal's words tell why.
    Tls, Connect, "tls", "no TLS session";
    /// The proxy made no connection to the server.
    Proxy, Connect, "proxy", "not connected by the proxy";
    /// This machine has no port, descriptor or memory left for another connection.
    Exhausted, Connect, "no-local-port", "no local port or descriptor left";
    /// Any other failure of a connect.
    NotConnected, Connect, "not-connected", "not connected";
    /// Reset before the first byte of the answer: the server closed it with the request unread, or aborted
    /// it, which of the two a reset does not tell.
    ClosedUnread, Read, "closed-unread", "reset before the answer";
    /// An orderly end before the first byte of the answer.
    ClosedUnanswered, Read, "closed-unanswered", "closed without an answer";
    /// Reset within the answer.
    Reset, Read, "reset", "reset within the answer";
    /// An orderly end within the answer's head.
    CutHead, Read, "cut-head", "ended within the head";
    /// An orderly end before the body had the length that was said, or its last chunk.
    ShortBody, Read, "short-body", "body shorter than announced";
    /// What came is no HTTP.
    NotHttp, Read, "not-http", "not HTTP";
    /// What came is HTTP/2.
    Http2, Read, "http2", "HTTP/2 in place of HTTP/1.1 (--http2 asks by it)";
    /// What came is TLS.
    TlsSpoken, Read, "tls-spoken", "TLS in place of HTTP (say https://)";
    /// The head is beyond what is read of one.
    HeadTooLarge, Read, "head-too-large", "head too large";
    /// A length that is no number, two that differ, an unknown coding.
    Framing, Read, "bad-length", "unclear length of the body";
    /// A broken chunk.
    BadChunk, Read, "bad-chunk", "malformed chunk";
    /// Bytes that nothing was asked for.
    Unasked, Read, "unasked", "bytes after the answer";
    /// The TLS session broke.
    TlsBroken, Read, "tls-broken", "TLS session broken";
    /// HTTP/2: the server reset the stream.
    StreamReset, Read, "stream-reset", "stream reset (HTTP/2)";
    /// HTTP/2: the server ended the connection by GOAWAY.
    Goaway, Read, "goaway", "connection ended by GOAWAY (HTTP/2)";
    /// Any other failure of a read.
    NotRead, Read, "not-read", "broke off";
    /// The server closed the connection while the request was being sent.
    ClosedWhileSent, Write, "closed-while-sent", "closed while the request was sent";
    /// Any other failure of a write.
    NotSent, Write, "not-sent", "not sent";
    /// No connection in time.
    ConnectTimeout, Timeout, "connect-timeout", "not connected in time";
    /// The server did not take the request in time.
    SlowToTake, Timeout, "slow-to-take", "request not taken in time";
    /// No byte of an answer in time.
    Silent, Timeout, "no-answer", "no answer in time";
    /// An answer that was not whole in time.
    Slow, Timeout, "slow-answer", "answer not whole in time";
}

impl Reason {
    /// Its row.
    pub fn row(self) -> &'static Row {
        // The macro numbers both in one order.
        &ALL[self as usize]
    }

    /// Of a connection that did not come about.
    pub(crate) fn of_connect(error: &io::Error) -> Reason {
        if error.get_ref().is_some_and(|inner| inner.is::<crate::way::ProxyFailure>()) {
            return Reason::Proxy;
        }
        match Errno::from_io_error(error) {
            Some(Errno::CONNREFUSED) => Reason::Refused,
            Some(Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::HOSTDOWN) => Reason::Unreachable,
            Some(Errno::CONNRESET | Errno::CONNABORTED | Errno::PIPE) => Reason::ConnectReset,
            Some(Errno::TIMEDOUT) => Reason::ConnectTimeout,
            Some(
                Errno::ADDRNOTAVAIL
                | Errno::ADDRINUSE
                | Errno::MFILE
                | Errno::NFILE
                | Errno::NOBUFS
                | Errno::NOMEM,
            ) => Reason::Exhausted,
            Some(_) => Reason::NotConnected,
            // Only a handshake of TLS ends so.
            None if is_tls(error) || error.kind() == io::ErrorKind::UnexpectedEof => Reason::Tls,
            None => Reason::NotConnected,
        }
    }

    /// Of a read that failed; `begun`: a byte of the answer had come.
    pub(crate) fn of_read(error: &io::Error, begun: bool) -> Reason {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe if begun => Reason::Reset,
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Reason::ClosedUnread,
            io::ErrorKind::UnexpectedEof if begun => Reason::ShortBody,
            io::ErrorKind::UnexpectedEof => Reason::ClosedUnanswered,
            _ if is_tls(error) => Reason::TlsBroken,
            _ => Reason::NotRead,
        }
    }

    /// Of a write that failed.
    pub(crate) fn of_write(error: &io::Error) -> Reason {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Reason::ClosedWhileSent,
            _ => Reason::NotSent,
        }
    }

    /// Of an answer that is none.
    pub(crate) fn of_answer(wrong: Malformed) -> Reason {
        match wrong {
            Malformed::Head => Reason::NotHttp,
            Malformed::Http2 => Reason::Http2,
            Malformed::Tls => Reason::TlsSpoken,
            Malformed::HeadTooLong | Malformed::TooManyFields => Reason::HeadTooLarge,
            Malformed::Framing => Reason::Framing,
            Malformed::Chunks => Reason::BadChunk,
        }
    }

    /// Of a request over HTTP/2 that failed; `begun`: the answer's head had come.
    pub(crate) fn of_http2(error: &h2::Error, begun: bool) -> Reason {
        if error.is_reset() {
            return Reason::StreamReset;
        }
        if error.is_go_away() {
            return Reason::Goaway;
        }
        error.get_io().map_or(Reason::NotRead, |error| Reason::of_read(error, begun))
    }
}

fn is_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

/// How often each reason came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reasons([u64; ALL.len()]);

impl Default for Reasons {
    fn default() -> Reasons {
        Reasons([0; ALL.len()])
    }
}

impl Reasons {
    /// Those that came, with their counts, in the table's order.
    pub fn counted(&self) -> impl Iterator<Item = (&'static Row, u64)> + '_ {
        ALL.iter().zip(self.0).filter(|(_, count)| *count > 0)
    }

    /// How often one came.
    pub fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    pub(crate) fn count(&mut self, reason: Reason, times: u64) {
        self.0[reason as usize] += times;
    }

    pub(crate) fn add(&mut self, other: &Reasons) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_row_and_a_name_of_its_own() {
        let mut names: Vec<&str> = ALL.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|row| row.reason.row() == row));
    }

    #[test]
    fn failures_of_the_system_have_their_reasons() {
        let of = |errno: Errno| Reason::of_connect(&errno.into());
        assert_eq!(of(Errno::CONNREFUSED), Reason::Refused);
        assert_eq!(of(Errno::NETUNREACH), Reason::Unreachable);
        assert_eq!(of(Errno::MFILE), Reason::Exhausted);
        assert_eq!(of(Errno::PERM), Reason::NotConnected);
        let tls = io::Error::other(rustls::Error::HandshakeNotComplete);
        assert_eq!(Reason::of_connect(&tls), Reason::Tls);
        let reset = io::Error::from(Errno::CONNRESET);
        assert_eq!(
            [false, true].map(|begun| Reason::of_read(&reset, begun)),
            [Reason::ClosedUnread, Reason::Reset]
        );
        assert_eq!(Reason::of_read(&tls, true), Reason::TlsBroken);
        assert_eq!(Reason::of_write(&Errno::PIPE.into()), Reason::ClosedWhileSent);
    }
}
