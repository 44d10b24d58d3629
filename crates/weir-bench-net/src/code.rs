//! iperf3's error numbers: what a server tells its client by two numbers before it closes. They have kept
//! their meaning since 3.1; a client of 3.12 prints those that came later as bare numbers, so only older ones
//! are sent.

use crate::refused::Refused;

/// The test is longer than allowed.
pub(crate) const DURATION: i32 = 5;
const STREAMS: i32 = 6;
const BLOCK: i32 = 7;
const WINDOW: i32 = 8;
const SEGMENT: i32 = 10;
const OMIT: i32 = 12;
const BURST: i32 = 15;
const SCTP: i32 = 18;
const DATAGRAM: i32 = 20;
const SERVICE: i32 = 21;
pub(crate) const TOTAL_RATE: i32 = 27;
/// The test could not be begun; the system's number beside it says why.
pub(crate) const BEGIN: i32 = 101;
pub(crate) const MESSAGE: i32 = 110;
pub(crate) const PARAMETERS: i32 = 114;
pub(crate) const SET_NO_DELAY: i32 = 122;
pub(crate) const SET_SEGMENT: i32 = 123;
pub(crate) const SET_BUFFERS: i32 = 124;
pub(crate) const SET_SERVICE: i32 = 125;
pub(crate) const SET_CONGESTION: i32 = 134;
pub(crate) const SET_PACING: i32 = 140;
pub(crate) const NOT_AUTHORISED: i32 = 142;
pub(crate) const BIND_DEVICE: i32 = 143;
pub(crate) const SILENT: i32 = 144;
pub(crate) const SET_DONT_FRAGMENT: i32 = 145;
pub(crate) const SET_USER_TIMEOUT: i32 = 148;
pub(crate) const SET_FLOW_LABEL: i32 = 127;
pub(crate) const SET_KEEP_ALIVE: i32 = 155;
pub(crate) const CONNECT_STREAM: i32 = 203;
/// A socket could not be bound.
pub(crate) const BIND: i32 = 102;
pub(crate) const ACCEPT_STREAM: i32 = 204;
pub(crate) const READ_STREAM: i32 = 206;

/// The number of what is asked for and not made.
pub(crate) fn of_refused(cause: &Refused) -> i32 {
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
        NOT_AUTHORISED => {
            "not authorised: user, password, key or clock; a server before 3.17 needs --use-pkcs1-padding"
        }
        SILENT => "nothing came for too long",
        200..=208 => "a data stream failed there; does a firewall let only the first connection through?",
        _ => return None,
    })
}
