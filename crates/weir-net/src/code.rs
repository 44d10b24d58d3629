//! iperf3's error numbers: what a server tells its client by two numbers before it closes. They have kept their meaning since 3.1;
//! a client of 3.12 prints those that came later as bare numbers, so only older ones are sent.

use crate::error::{Error, Limit};
use crate::parameters::Refused;

/// The test is longer than allowed.
const DURATION: i32 = 5;
const STREAMS: i32 = 6;
const BLOCK: i32 = 7;
const WINDOW: i32 = 8;
const SEGMENT: i32 = 10;
const OMIT: i32 = 12;
const BURST: i32 = 15;
const SCTP: i32 = 18;
const DATAGRAM: i32 = 20;
const SERVICE: i32 = 21;
const TOTAL_RATE: i32 = 27;
/// The test could not be begun; the system's number beside it says why.
const BEGIN: i32 = 101;
const MESSAGE: i32 = 110;
const PARAMETERS: i32 = 114;
pub(crate) const SET_NO_DELAY: i32 = 122;
pub(crate) const SET_SEGMENT: i32 = 123;
pub(crate) const SET_BUFFERS: i32 = 124;
pub(crate) const SET_SERVICE: i32 = 125;
pub(crate) const SET_CONGESTION: i32 = 134;
pub(crate) const SET_PACING: i32 = 140;
const NOT_AUTHORISED: i32 = 142;
pub(crate) const BIND_DEVICE: i32 = 143;
const SILENT: i32 = 144;
pub(crate) const SET_DONT_FRAGMENT: i32 = 145;
pub(crate) const SET_USER_TIMEOUT: i32 = 148;
pub(crate) const SET_FLOW_LABEL: i32 = 127;
pub(crate) const SET_KEEP_ALIVE: i32 = 155;
pub(crate) const CONNECT_STREAM: i32 = 203;
/// A socket could not be bound.
pub(crate) const BIND: i32 = 102;
const ACCEPT_STREAM: i32 = 204;
const READ_STREAM: i32 = 206;

/// iperf3's number for an error and the system's beside it, 0 for none; `None` where there is nobody left to tell.
pub(crate) fn of(error: &Error) -> Option<(i32, i32)> {
    let alone = |code| Some((code, 0));
    match error {
        Error::Auth(_) => alone(NOT_AUTHORISED),
        Error::Bound { limit, .. } => match limit {
            Limit::Time => alone(DURATION),
            Limit::Rate => alone(TOTAL_RATE),
            // iperf3 bounds no bytes and has no number for it: "test initialization failed: File too large" says it best.
            Limit::Bytes => Some((BEGIN, libc::EFBIG)),
        },
        Error::Refused { cause, .. } => alone(of_refused(cause)),
        Error::Malformed { .. } => alone(PARAMETERS),
        Error::Unexpected { .. } => alone(MESSAGE),
        Error::Silent { .. } | Error::NoData { .. } => alone(SILENT),
        Error::Option { code, source, .. } => Some((*code, source.raw_os_error().unwrap_or(0))),
        Error::Listen { source, .. } => Some((BIND, source.raw_os_error().unwrap_or(0))),
        Error::Stream { source, .. } => Some((READ_STREAM, source.raw_os_error().unwrap_or(0))),
        Error::Streams { .. } => Some((ACCEPT_STREAM, libc::ETIMEDOUT)),
        _ => None,
    }
}

fn of_refused(cause: &Refused) -> i32 {
    match cause {
        Refused::NotAnObject => PARAMETERS,
        Refused::Sctp => SCTP,
        Refused::Bound { name, least, .. } => match *name {
            "time" => DURATION,
            "omit" => OMIT,
            "parallel" => STREAMS,
            // Only datagrams have a least size.
            "len" if *least > 1 => DATAGRAM,
            "len" => BLOCK,
            "MSS" => SEGMENT,
            "window" => WINDOW,
            "burst" => BURST,
            "TOS" => SERVICE,
            _ => PARAMETERS,
        },
    }
}

/// What a server means by its number, where a user can do something about it.
pub(crate) fn meaning(code: i32) -> Option<&'static str> {
    Some(match code {
        // 37 is what 3.18 and later say of their own bound.
        DURATION | 37 => "the test is longer than the server allows",
        STREAMS => "more streams than the server allows",
        BLOCK => "the block is larger than the server allows",
        WINDOW => "the socket buffers are larger than the server allows",
        SEGMENT => "the segment is larger than the server allows",
        OMIT => "the time that does not count is longer than the server allows",
        BURST => "the burst is larger than the server allows",
        SCTP => "it does not speak SCTP",
        DATAGRAM => "the datagrams' size is out of the server's bounds",
        SERVICE => "no such type of service",
        TOTAL_RATE => "the total rate is above the server's limit",
        BEGIN => "it cannot make the test",
        BIND => "it cannot listen",
        MESSAGE => "it does not know what this end said",
        PARAMETERS => "it cannot read the test's parameters",
        120 => "it was told to end",
        121 => "it is busy with another test; wait for its end, or use another port",
        SET_NO_DELAY => "it cannot set TCP_NODELAY",
        SET_SEGMENT => "it cannot set the segment",
        SET_BUFFERS | 130 | 141 => "it cannot set the socket buffers",
        SET_SERVICE | 126 => "it cannot set the type of service",
        131 => "it does not speak this transport",
        132 => "it cannot bind its threads to processors",
        SET_CONGESTION => "it cannot set the congestion control",
        SET_PACING => "it cannot set the pacing rate",
        NOT_AUTHORISED => "not authorised: user, password, key or clock",
        SILENT => "nothing came for too long",
        200..=208 => "a data stream failed there; does a firewall let only the first connection through?",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn each_bound_has_its_own_number_and_each_number_a_meaning() {
        let peer = SocketAddr::from(([127, 0, 0, 1], 5201));
        let of_limit = |limit| of(&Error::Bound { peer, limit, bound: String::new() }).unwrap();
        assert_eq!(of_limit(Limit::Time), (5, 0));
        assert_eq!(of_limit(Limit::Rate), (27, 0));
        assert_eq!(of_limit(Limit::Bytes), (101, libc::EFBIG));
        for (name, least, code) in [
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
            assert_eq!(of(&Error::Refused { peer, cause }), Some((code, 0)), "{name}");
            assert!(meaning(code).is_some(), "{name}");
        }
        assert_eq!(meaning(-7), None);
        assert_eq!(of(&Error::Interrupted), None);
    }
}
