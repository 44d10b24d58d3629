//! `weir bench host`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_bench::host::target::Target;

use super::{Voice, parse_seconds};

const EXAMPLES: &str = "\
Examples:
  weir bench host example.org                         the first of ports 443, 80 and 22 that takes connections
  weir bench host 10.0.0.2:22 --only rtt,mtu          a part of it
  weir bench host example.org --load https://example.org/large.iso    round trips at rest and while that is downloaded
  weir bench host example.org --json                  each figure with unit and origin, or the reason why not
  weir bench host --local --disk /data                this host instead: memory, disk, codecs, ciphers, kept for other commands
Of a host it sends little: ten connects, thirty echoes, ten TLS handshakes, and a hundred connections that are held for a moment.
--local takes about a minute and writes at most 256 MiB at a time into a file without a name, which is gone when weir ends. It is
kept as $XDG_CACHE_HOME/weir/host.json (else ~/.cache/weir/host.json), a record for weir report: plan, cp, bench mem and verdicts
go by it and say so, with its date. Run it again after a change of disks, processor or kernel; remove the file to be rid of it.
Exit code: 1 when the host did not answer at all; with --local 1 when a part could not be measured or nothing could be kept, 3
when a codec or cipher gave back other data, 130 after an interrupt, and then nothing is kept.";

/// `weir bench host`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchHost {
    /// The host, by name or address.
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "local", conflicts_with = "local")]
    pub target: Option<Target>,
    /// Measure this host: memory, disk, codecs and ciphers, and keep the figures for other commands.
    #[arg(long)]
    pub local: bool,
    /// With --local, measure the disk of this folder [default: the current one].
    #[arg(long, value_name = "DIR", requires = "local", conflicts_with = "target")]
    pub disk: Option<PathBuf>,
    /// Measure only these parts.
    #[arg(long, value_name = "PARTS", value_enum, value_delimiter = ',', conflicts_with = "local")]
    pub only: Vec<Part>,
    /// Make N connections, one after another.
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "local", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub tries: u16,
    /// Send N ICMP echoes, twenty a second.
    #[arg(long, value_name = "N", default_value_t = 30, conflicts_with = "local", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub echoes: u16,
    /// Hold at most N connections open at a time.
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "local", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub connections: u16,
    /// Give up on a connect, a handshake or a round trip after SECONDS.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds, conflicts_with = "local")]
    pub timeout: Duration,
    /// Download this URL over four connections while measuring round trips [default: one stream from an
    /// iperf3 or weir server on port 5201].
    #[arg(long, value_name = "URL", conflicts_with = "local")]
    pub load: Option<String>,
    /// Use IPv4 only.
    #[arg(short = '4', long, conflicts_with_all = ["ipv6", "local"])]
    pub ipv4: bool,
    /// Use IPv6 only.
    #[arg(short = '6', long, conflicts_with = "local")]
    pub ipv6: bool,
    /// Trust only the authorities in this PEM file.
    #[arg(long, value_name = "FILE", conflicts_with = "local")]
    pub cacert: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(short = 'k', long, conflicts_with = "local")]
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
