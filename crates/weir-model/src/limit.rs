//! The limits a transfer can have: one vocabulary for code, JSON, help and reports.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A limit with more than this share is a main one (design: `mixed` where two hold more than a quarter each).
pub(crate) const QUARTER: f64 = 0.25;

/// What holds a transfer back. The names in JSON are the kebab-case forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The far application has nothing to send, or a server is slow to answer.
    Application,
    /// Reading the source is slow.
    SourceDisk,
    /// The compressor is busy all the time.
    Compress,
    /// The decompressor is busy all the time.
    Decompress,
    /// The cipher is busy all the time.
    Encrypt,
    /// The digest is busy all the time.
    Verify,
    /// One thread fills one core.
    CpuCore,
    /// The sender's socket buffer is below the bandwidth-delay product.
    SendBuffer,
    /// The receiver's buffer cap is below the bandwidth-delay product.
    ReceiveWindow,
    /// The receiving application does not read in time.
    Reader,
    /// The bottleneck link is full.
    PathBandwidth,
    /// Loss keeps the congestion window small.
    PathLoss,
    /// Round trips, not bytes.
    Latency,
    /// Writes are paced to the disk because the dirty-page threshold is reached.
    DirtyThrottle,
    /// The disk takes direct or synced writes at its own ceiling.
    Disk,
    /// A limit that someone set.
    RateLimit,
    /// A request waits for the answer to the one before it on a kept connection: the path rests between the
    /// turns.
    RequestResponse,
    /// A window of the protocol above TCP (HTTP/2, SSH, credits) is smaller than the bandwidth-delay product.
    ProtocolWindow,
    /// Less than a segment waits for the acknowledgement that the receiver delays.
    Nagle,
    /// Segments of full size never pass: a link with a smaller MTU, and nothing that says so to the sender.
    PathMtu,
    /// Nothing moves until a timer fires: a lost tail, a lost answer, a protocol's own wait.
    Timeouts,
    /// Connections take long to be made: lost or dropped SYNs, a full listen queue, a slow TLS handshake.
    Connect,
    /// A name server is silent or slow.
    Dns,
    /// The watched program itself computes, sleeps or waits for something other than the network.
    ThinkTime,
    /// A relay waits for what feeds it: another connection, or the writer of a pipe.
    Upstream,
    /// A relay waits for what it feeds: another connection, or the reader of a pipe.
    Downstream,
    /// The copy of the data waits for memory: pages that a host lends or takes back.
    Memory,
    /// Seen from the receiver alone, the sender and the path cannot be told apart.
    SenderOrPath,
}

impl Limit {
    /// Every limit, in the order in which the documentation lists them.
    pub const ALL: [Limit; 28] = [
        Limit::Application,
        Limit::SourceDisk,
        Limit::Compress,
        Limit::Decompress,
        Limit::Encrypt,
        Limit::Verify,
        Limit::CpuCore,
        Limit::SendBuffer,
        Limit::ReceiveWindow,
        Limit::Reader,
        Limit::PathBandwidth,
        Limit::PathLoss,
        Limit::Latency,
        Limit::DirtyThrottle,
        Limit::Disk,
        Limit::RateLimit,
        Limit::RequestResponse,
        Limit::ProtocolWindow,
        Limit::Nagle,
        Limit::PathMtu,
        Limit::Timeouts,
        Limit::Connect,
        Limit::Dns,
        Limit::ThinkTime,
        Limit::Upstream,
        Limit::Downstream,
        Limit::Memory,
        Limit::SenderOrPath,
    ];

    /// The name used everywhere: `receive-window`.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Application => "application",
            Limit::SourceDisk => "source-disk",
            Limit::Compress => "compress",
            Limit::Decompress => "decompress",
            Limit::Encrypt => "encrypt",
            Limit::Verify => "verify",
            Limit::CpuCore => "cpu-core",
            Limit::SendBuffer => "send-buffer",
            Limit::ReceiveWindow => "receive-window",
            Limit::Reader => "reader",
            Limit::PathBandwidth => "path-bandwidth",
            Limit::PathLoss => "path-loss",
            Limit::Latency => "latency",
            Limit::DirtyThrottle => "dirty-throttle",
            Limit::Disk => "disk",
            Limit::RateLimit => "rate-limit",
            Limit::RequestResponse => "request-response",
            Limit::ProtocolWindow => "protocol-window",
            Limit::Nagle => "nagle",
            Limit::PathMtu => "path-mtu",
            Limit::Timeouts => "timeouts",
            Limit::Connect => "connect",
            Limit::Dns => "dns",
            Limit::ThinkTime => "think-time",
            Limit::Upstream => "upstream",
            Limit::Downstream => "downstream",
            Limit::Memory => "memory",
            Limit::SenderOrPath => "sender-or-path",
        }
    }

    /// The limit of that name.
    pub fn parse(name: &str) -> Option<Limit> {
        Limit::ALL.into_iter().find(|limit| limit.name() == name)
    }

    /// Whether it is a matter of one end's files and stages alone, which no connection has a part in.
    pub(crate) fn is_of_an_end(self) -> bool {
        use Limit::*;
        matches!(self, SourceDisk | Compress | Decompress | Verify | DirtyThrottle | Disk | Memory)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
