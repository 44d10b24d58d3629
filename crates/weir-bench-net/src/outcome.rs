//! What a test was and what came of it: plain values, for whoever renders or judges them.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use weir_model::evidence::Evidence;
use weir_model::limit::Limit;

use crate::cookie::Cookie;
use crate::copies::Copies;
use crate::parameters::Parameters;
use crate::results::{CpuUse, Output};

/// An end of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Asked for the test.
    Client,
    /// Was asked.
    Server,
}

/// A test as it begins.
#[derive(Debug, Clone)]
pub struct Start {
    /// This end.
    pub role: Role,
    /// The control connection's other end.
    pub peer: SocketAddr,
    /// As the client named the server: `host.example`.
    pub host: String,
    /// What was agreed on.
    pub parameters: Parameters,
    /// The test's cookie.
    pub cookie: Cookie,
    /// When.
    pub at: SystemTime,
    /// The control connection's segment, bytes.
    pub segment: u32,
    /// Each stream, by its number.
    pub streams: Vec<Connected>,
    /// SO_SNDBUF and SO_RCVBUF of the first data socket, bytes, as the kernel counts them.
    pub buffers: (u64, u64),
    /// What this end leaves out of the usual work on data.
    pub copies: Copies,
    /// Datagrams may be bundled at this end.
    pub bundles: bool,
    /// Between two intervals; zero for none.
    pub interval: Duration,
}

/// One data connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connected {
    /// Its number, 1, 3, 4, 5, ...
    pub id: u32,
    /// This end sends on it.
    pub sends: bool,
    /// This end.
    pub local: SocketAddr,
    /// The other.
    pub remote: SocketAddr,
}

/// A stretch of the test.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Seconds from the start of the test, or of what counts of it.
    pub from: f64,
    /// Likewise.
    pub to: f64,
    /// It does not count (`-O`).
    pub omitted: bool,
    /// Each stream.
    pub streams: Vec<StreamInterval>,
    /// What held this end's sending streams for most of the time.
    pub sending_limit: Option<Limit>,
    /// What held its receiving ones.
    pub receiving_limit: Option<Limit>,
}

/// One stream over a stretch.
#[derive(Debug, Clone, Default)]
pub struct StreamInterval {
    /// Its number.
    pub id: u32,
    /// This end sends on it.
    pub sends: bool,
    /// Payload.
    pub bytes: u64,
    /// Of TCP, where the kernel told.
    pub tcp: Option<TcpFigures>,
    /// Of UDP.
    pub udp: Option<UdpFigures>,
}

/// A TCP connection at the end of a stretch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TcpFigures {
    /// Segments sent again in the stretch.
    pub retransmits: u64,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// The peer's window, bytes.
    pub peer_window: Option<u64>,
    /// Smoothed round trip of a sender; of a receiver its own estimate from the data.
    pub rtt: Option<Duration>,
    /// Its mean deviation.
    pub rtt_deviation: Option<Duration>,
    /// The smallest seen.
    pub min_rtt: Option<Duration>,
    /// Path MTU, bytes.
    pub path_mtu: Option<u32>,
    /// Times the path was seen to reorder since the connection began.
    pub reordered: u64,
}

/// Datagrams of a stretch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UdpFigures {
    /// Sent, or of the receiver: the sender's numbers that went by.
    pub packets: u64,
    /// Did not come.
    pub lost: u64,
    /// Came late.
    pub out_of_order: u64,
    /// Seconds.
    pub jitter: f64,
}

/// One stream over the whole test, as both ends saw it.
#[derive(Debug, Clone)]
pub struct StreamOutcome {
    /// Where it went.
    pub connection: Connected,
    /// As its sender counts.
    pub sent: Option<Sum>,
    /// As its receiver counts.
    pub received: Option<Sum>,
    /// This end's round trips: smallest, mean, largest of the looks.
    pub rtt: Option<(Duration, Duration, Duration)>,
    /// The largest congestion window and peer's window, bytes, of a sender.
    pub most_cwnd: u64,
    /// Likewise.
    pub most_window: u64,
    /// Times the path was seen to reorder, of a sender.
    pub reordered: u64,
}

/// What one end counted of a stream, without what was omitted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    /// Payload.
    pub bytes: u64,
    /// From the start of what counts to the last byte.
    pub seconds: f64,
    /// Segments sent again, where that end counts them.
    pub retransmits: Option<u64>,
    /// Of UDP.
    pub udp: Option<UdpFigures>,
}

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// As planned.
    Complete,
    /// The user said stop.
    Interrupted,
    /// Too early, and why. What was seen until then counts.
    Broken(String),
}

/// A test that is over.
#[derive(Debug, Clone)]
pub struct TestOutcome {
    /// As it began.
    pub start: Start,
    /// How it ended.
    pub ending: Ending,
    /// Each stretch, in order of time.
    pub intervals: Vec<Interval>,
    /// Each stream.
    pub streams: Vec<StreamOutcome>,
    /// Seconds that counted, by this end's clock.
    pub seconds: f64,
    /// This program's processor use.
    pub cpu: CpuUse,
    /// The other end's; `None` when it did not come to that.
    pub remote_cpu: Option<CpuUse>,
    /// The congestion control of the sending and of the receiving end, where known, as the client sees them:
    /// own, peer's.
    pub congestion: (Option<String>, Option<String>),
    /// Which copies the other end made, where it told.
    pub remote_copies: Option<Copies>,
    /// Path MTU and segment of the first stream, bytes.
    pub path: (Option<u32>, Option<u32>),
    /// The server's report, if it was asked for.
    pub server_output: Option<Output>,
    /// What was seen of the streams on which this end sends; `None` where there are none.
    pub sending: Option<Evidence>,
    /// Likewise of those on which it receives.
    pub receiving: Option<Evidence>,
}

impl TestOutcome {
    /// What all streams of one way carried: those that this end sends on, or the others. Seconds are the
    /// longest's.
    pub fn sum(&self, sends: bool, pick: impl Fn(&StreamOutcome) -> Option<Sum>) -> Option<Sum> {
        let mut all: Option<Sum> = None;
        for sum in self.streams.iter().filter(|stream| stream.connection.sends == sends).filter_map(pick) {
            let into = all.get_or_insert_default();
            into.bytes = into.bytes.saturating_add(sum.bytes);
            into.seconds = into.seconds.max(sum.seconds);
            into.retransmits = match (into.retransmits, sum.retransmits) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (a, b) => a.or(b),
            };
            if let Some(udp) = sum.udp {
                let into = into.udp.get_or_insert_default();
                into.packets = into.packets.saturating_add(udp.packets);
                into.lost = into.lost.saturating_add(udp.lost);
                into.out_of_order = into.out_of_order.saturating_add(udp.out_of_order);
                into.jitter += udp.jitter;
            }
        }
        // Of several streams the mean, as iperf3 tells it.
        let count = self.streams.iter().filter(|stream| stream.connection.sends == sends).count();
        if let Some(udp) = all.as_mut().and_then(|sum| sum.udp.as_mut()) {
            udp.jitter /= count.max(1) as f64;
        }
        all
    }
}
