//! Packets per second between two ends of weir: UDP with many packets a system call, and with many a packet
//! of the kernel's.
//!
//! The sender numbers its packets; the receiver counts them by number and is asked for its counts at the end,
//! over a TCP connection beside them. Nothing is ever sent back over UDP, so a receiver cannot be made to
//! flood anyone.
//!
//! * [`frame`]: what a size counts, and the mark that each packet carries.
//! * [`ledger`]: which numbers came, which are missing, which came twice.
//! * [`control`]: the words of the connection beside the packets.
//! * [`receiver`] and [`server`]: the end that counts. [`sender`] and [`client`]: the end that sends.
//! * [`envelope`] and [`raw`]: whole Ethernet frames, past the sender's UDP and IP.
//! * [`pace`]: packets at a rate. [`search`]: the highest rate without loss, as RFC 2544 looks for it.

mod batch;
pub mod client;
pub mod control;
pub mod envelope;
pub mod frame;
pub mod ledger;
pub mod pace;
pub mod raw;
pub mod receiver;
pub mod search;
pub mod sender;
pub mod server;

/// Where a server listens, if nothing else is said: the first of six numbers in a row that IANA has given to
/// nobody, just above iperf3's 5201.
pub const PORT: u16 = 5209;

/// The most sending threads of a client, and receiving ones of a server for it.
pub const MOST_THREADS: usize = 64;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum PpsError {
    /// The size cannot be.
    #[error("{0}")]
    Size(String),
    /// The connection beside the packets could not be made, or broke.
    #[error("{what}: {cause}")]
    Control {
        /// What was attempted, on what.
        what: String,
        /// The system's words.
        cause: String,
    },
    /// The other end spoke, but not this protocol.
    #[error("{0}")]
    Protocol(String),
    /// The other end said no, and why.
    #[error("the remote end refused: {0}")]
    Refused(String),
    /// A socket or a thread for the packets failed.
    #[error("{what}: {cause}")]
    Socket {
        /// What was attempted.
        what: &'static str,
        /// The system's words.
        cause: String,
    },
    /// Nobody waits for it any more.
    #[error("interrupted")]
    Interrupted,
}

impl PpsError {
    fn socket(what: &'static str) -> impl Fn(std::io::Error) -> PpsError {
        move |error| PpsError::Socket { what, cause: weir_units::plain(&error) }
    }
}

/// Of one thread over a run: shares of the wall time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Busy {
    /// On a processor.
    pub run: f64,
    /// Ready to run, but waiting for one.
    pub wait: f64,
}
