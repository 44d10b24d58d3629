//! How much does the path carry? A seam: somebody else's client moves the bytes, and gives the figures in
//! this form.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_units::Rate;

use crate::host::connect::{self, ConnectOutcome};

/// Where iperf3's servers, and weir's, listen.
pub const PORT: u16 = 5201;

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From here to the host.
    Up,
    /// From the host to here.
    Down,
}

/// Over what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// What one run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Carried {
    /// Payload bytes per second at the receiver.
    pub rate: Rate,
    /// Of the segments or datagrams sent, the share that was sent again (TCP) or lost (UDP); `None` where
    /// nobody can tell.
    pub again: Option<f64>,
    /// How it was measured, for the report.
    pub origin: String,
}

/// A client that measures throughput.
pub trait Throughput: Sync {
    /// One run of about `span`; the error is the reason in words. Ends early once `stop` is set.
    fn measure(
        &self,
        server: SocketAddr,
        transport: Transport,
        direction: Direction,
        span: Duration,
        stop: &AtomicBool,
    ) -> Result<Carried, String>;
}

/// Why there will be no figure: nobody answers. `None` where somebody does.
pub fn why_not(server: SocketAddr, timeout: Duration, stop: &AtomicBool) -> Option<String> {
    let nobody = format!("no iperf3 or weir server answers on port {}", server.port());
    match connect::attempt(server, timeout, stop).0 {
        ConnectOutcome::Connected(_) => None,
        ConnectOutcome::Refused(_) | ConnectOutcome::Reset(_) => Some(format!("{nobody}: refused")),
        ConnectOutcome::TimedOut => Some(nobody),
        ConnectOutcome::Failed(why) => Some(format!("{nobody}: {why}")),
    }
}
