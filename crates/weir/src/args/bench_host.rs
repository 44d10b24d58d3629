//! `weir bench host`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_probe::target::Target;

use super::{Voice, parse_seconds};

const EXAMPLES: &str = "\
Examples:
  weir bench host example.org                         the first of ports 443, 80 and 22 that takes connections
  weir bench host 10.0.0.2:22 --only rtt,mtu          a part of it
  weir bench host example.org --load https://example.org/large.iso    round trips at rest and while that is downloaded
  weir bench host example.org --json                  each figure with unit and origin, or the reason why not
It sends little: ten connects, thirty echoes, ten TLS handshakes, and a hundred connections that are held for a moment.
Exit code: 1 when the host did not answer at all.";

/// `weir bench host`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchHost {
    /// The host, by name or address.
    #[arg(value_name = "HOST[:PORT]")]
    pub target: Target,
    /// Measure only these.
    #[arg(long, value_name = "PARTS", value_enum, value_delimiter = ',')]
    pub only: Vec<Part>,
    /// Connects, one after another.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub tries: u16,
    /// ICMP echoes, twenty a second.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub echoes: u16,
    /// The most connections to hold open at a time.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub connections: u16,
    /// Give up a connect, a handshake or a round trip after this long.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    pub timeout: Duration,
    /// Download this while round trips are taken, over four connections, for four seconds [default: one stream from an iperf3 or
    /// weir server on the host's port 5201].
    #[arg(long, value_name = "URL")]
    pub load: Option<String>,
    /// Over IPv4 only.
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Over IPv6 only.
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// Trust only the authorities in this PEM file.
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
}

/// An item of `--only`, in the order in which they are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Part {
    /// Do connects succeed?
    Availability,
    /// Round trips: of connects, of the kernel's handshakes, of ICMP echoes.
    Rtt,
    /// Echoes that do not come back.
    Loss,
    /// The largest packet that gets through, and the segment size in use.
    Mtu,
    /// The cost of TLS handshakes.
    Tls,
    /// The most connections at a time.
    Connections,
    /// Round trips while the path is busy.
    Load,
    /// What TCP and UDP carry, both ways, and what is sent again.
    Throughput,
    /// Packets per second.
    Pps,
}

impl Part {
    /// All, in order.
    pub const ALL: [Part; 9] = [
        Part::Availability,
        Part::Rtt,
        Part::Loss,
        Part::Mtu,
        Part::Tls,
        Part::Connections,
        Part::Load,
        Part::Throughput,
        Part::Pps,
    ];

    /// As it is written.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}
