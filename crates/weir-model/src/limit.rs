//! The limits a transfer can have: one vocabulary for code, JSON, help and reports.

use std::fmt;

use serde::{Deserialize, Serialize};

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
    /// Seen from the receiver alone, the sender and the path cannot be told apart.
    SenderOrPath,
}

impl Limit {
    /// Every limit, in the order in which the documentation lists them.
    pub const ALL: [Limit; 17] = [
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
            Limit::SenderOrPath => "sender-or-path",
        }
    }

    /// The limit of that name.
    pub fn parse(name: &str) -> Option<Limit> {
        Limit::ALL.into_iter().find(|limit| limit.name() == name)
    }

    /// Whether it is a matter of one end's files and stages alone, which no connection has a part in.
    pub fn is_of_an_end(self) -> bool {
        use Limit::*;
        matches!(self, SourceDisk | Compress | Decompress | Verify | DirtyThrottle | Disk)
    }

    /// Whether another lane could raise the rate while this limit holds, so that a trial is worth its cost.
    ///
    /// Yes where the limit belongs to one connection, one thread or one round trip; no where all lanes share it (disk,
    /// digest, link, consumer), and no where more requests would only press someone who said stop (`rate-limit`,
    /// `application`). For `cpu-core` the caller also needs a free processor.
    pub fn more_lanes_may_help(self) -> bool {
        match self {
            Limit::CpuCore | Limit::Encrypt | Limit::Compress | Limit::Decompress => true,
            Limit::SendBuffer | Limit::ReceiveWindow | Limit::PathLoss | Limit::Latency => true,
            Limit::SenderOrPath => true,
            Limit::Application | Limit::SourceDisk | Limit::Verify | Limit::Reader => false,
            Limit::PathBandwidth | Limit::DirtyThrottle | Limit::Disk | Limit::RateLimit => false,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
