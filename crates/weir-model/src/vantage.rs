//! Which end of a connection shows a limit.

use crate::limit::Limit;

/// The end of a connection that shows a limit directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vantage {
    /// The end that sends the data.
    Sender,
    /// The end that receives them.
    Receiver,
    /// Either: what it shows there is as good as at the other.
    Either,
}

/// Where a limit is seen directly.
pub fn vantage(limit: Limit) -> Vantage {
    use Limit::*;
    match limit {
        Application | SourceDisk | Compress | Encrypt | SendBuffer => Vantage::Sender,
        Nagle | ProtocolWindow | PathMtu | PathLoss | PathBandwidth | Timeouts => Vantage::Sender,
        Reader | Decompress | Verify | DirtyThrottle | Disk => Vantage::Receiver,
        // The program that waits knows what it waits for; the window is in every segment, a turn in both
        // streams.
        CpuCore | ReceiveWindow | Latency | RequestResponse | RateLimit | Memory => Vantage::Either,
        Connect | Dns | ThinkTime | Upstream | Downstream | SenderOrPath => Vantage::Either,
    }
}
