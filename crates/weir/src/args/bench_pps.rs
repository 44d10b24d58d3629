//! `weir bench pps`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_bench::host::target::Target;
use weir_bench::pps::MOST_THREADS;
use weir_lab::path::Share;
use weir_units::Bytes;
use weir_units::numbers::scaled;

use super::{Voice, time_within};

const EXAMPLES: &str = "\
Examples:
  weir bench pps                                      both ends on this machine, over loopback
  weir bench pps -s --listen 0.0.0.0:5209             the receiving end, open to the network
  weir bench pps 10.0.0.2 --size 64,512,1518          to it: three sizes, by both methods
  weir bench pps 10.0.0.2 --rate 100k --for 10s       at a rate: is anything lost?
  weir bench pps 10.0.0.2 --zero-loss --trial 60s     the highest rate without loss, as RFC 2544 looks for it
  weir bench pps 10.0.0.2 --via packet --size 64,1518 whole frames through packet sockets (root)
A size is that of the Ethernet frame with its checksum, as RFC 2544 counts it; iperf3 -l 64 is --payload 64.
Method plain hands many packets to the kernel by one system call; gso also lets it cut and join them (UDP GSO and GRO), which spares
the stack most of its work on hosts whose devices can do it, and on loopback. The two are never added up.";

/// `weir bench pps`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchPps {
    /// The receiver, where weir bench pps -s runs [default: both ends on this machine].
    #[arg(value_name = "HOST[:PORT]", conflicts_with = "server")]
    pub target: Option<Target>,
    /// Run as the receiver.
    #[arg(short = 's', long)]
    pub server: bool,
    /// Listen here; port 0 picks a free port [default: 127.0.0.1:5209, this machine only].
    #[arg(long, value_name = "ADDR:PORT", requires = "server", value_parser = super::parse_listen)]
    pub listen: Option<SocketAddr>,
    /// End after one client.
    #[arg(long, requires = "server")]
    pub one_off: bool,

    /// Send Ethernet frames of this size in bytes, checksum included: 64 to 1518.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64", value_parser = clap::value_parser!(u16).range(1..=1518))]
    pub size: Vec<u16>,
    /// Send UDP payloads of this size in bytes instead: 16 to 1472.
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "size", value_parser = clap::value_parser!(u16).range(1..=1472))]
    pub payload: Vec<u16>,
    /// Send by these methods [default: plain,gso].
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    pub method: Vec<Method>,
    /// Send through these sockets.
    #[arg(long, value_name = "SOCKETS", value_enum, default_value = "udp", conflicts_with = "server")]
    pub via: Via,
    /// Use N sending and N receiving threads.
    #[arg(short = 't', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=MOST_THREADS as i64))]
    pub threads: u16,
    /// Send RATE packets a second in all, such as 100k or 1.5M [default: as many as possible].
    #[arg(long, value_name = "PACKETS", value_parser = parse_packets)]
    pub rate: Option<f64>,
    /// Send for TIME.
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = parse_span)]
    pub span: Duration,
    /// Set each receiving thread's buffer in BYTES; at most 64 MiB in all, and the receiver's
    /// net.core.rmem_max.
    #[arg(long, value_name = "BYTES", default_value = "8MiB")]
    pub receive_buffer: Bytes,

    /// Search for the highest rate without loss, downwards from --rate or the highest possible rate.
    #[arg(long)]
    pub zero_loss: bool,
    /// Let each trial of the search last TIME (RFC 2544: 60s).
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_span, requires = "zero_loss")]
    pub trial: Duration,
    /// Search until the rate is known within this SHARE.
    #[arg(long, value_name = "SHARE", default_value = "1%", requires = "zero_loss")]
    pub resolution: Share,
    /// Let a trial pass that loses at most this SHARE.
    #[arg(long, value_name = "SHARE", default_value = "0%", requires = "zero_loss")]
    pub tolerance: Share,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
}

/// `--method`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// Many packets a system call.
    Plain,
    /// And many a packet of the kernel's.
    Gso,
    /// Whole frames: --via packet.
    #[value(skip)]
    Packet,
}

/// `--via`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Via {
    /// UDP sockets.
    Udp,
    /// Packet sockets, past this host's UDP, IP and interface queue; needs root or CAP_NET_RAW, and an
    /// Ethernet interface.
    Packet,
}

impl Method {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Method::Plain => "plain",
            Method::Gso => "gso",
            Method::Packet => "packet",
        }
    }
}

/// `100k`, `1.5M`, `250000`.
fn parse_packets(text: &str) -> Result<f64, String> {
    let expected = || "expected packets a second from 1 on, such as 250000, 100k or 1.5M".to_owned();
    // 10 G packets a second are more than a 400 Gbit/s link carries of the smallest ones.
    scaled(text, "kmg", 1000.0).filter(|rate| (1.0..=1e10).contains(rate)).ok_or_else(expected)
}

/// From what a clock can tell to what the far end allows a trial.
fn parse_span(text: &str) -> Result<Duration, String> {
    let sensible = Duration::from_millis(10)..=Duration::from_secs(120);
    time_within(text, sensible, "expected a time from 10ms to 120s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_packets() {
        assert_eq!(parse_packets("100k"), Ok(1e5));
        assert_eq!(parse_packets("1.5M"), Ok(1.5e6));
        assert_eq!(parse_packets("7"), Ok(7.0));
        for text in ["", "k", "0", "-1", "1e99", "nan", "inf", "1x", "10 k", "ä"] {
            assert!(parse_packets(text).is_err(), "{text}");
        }
    }
}
