//! `weir plan`'s part of the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_cp::wire::message::Ports;
use weir_lab::path::Share;
use weir_units::{Bytes, Rate};

use super::copy::{Always, parse_ports};
use super::get::parse_wait;
use super::headings::{COMPATIBILITY, MANY_HOSTS, NETWORK, STORES};
use super::{
    Ssh, StoreArgs, StoreEndArgs, StoreNetworkArgs, Voice, What, parse_lanes, parse_span, size_within,
};

const EXAMPLES: &str = "\
Examples:
  weir plan big.tar user@host:/data/                              what weir cp would reach: measures a few seconds, then predicts
  weir plan data.tar --link 1Gbit --link 100Mbit --rtt 30ms       which codec and transport, measured on the file's own data
  weir plan --codec-table mine.csv --link 100MB/s --link 10MB/s   the bare law, from known figures
  weir plan --link 100Mbit --rtt 20ms --send-buffer 16KiB --size 22M      no codec: what does this buffer cost?
  weir plan --link 1Gbit --rtt 80ms --loss 0.01% --window 6M      windows, loss, and the connections that make up for them
  weir plan --link 100Mbit --size 200M --hosts 8                  to eight hosts: a chain, or a copy to each
  weir plan photos/ s3://bucket/2026/ --link 1Gbit --rtt 30ms     parts, requests, what they cost, how long it takes
The table has a header codec,ratio,compress[,decompress]: compressed / original as a fraction, and MB/s of one core.
Cells are MB/s of payload. With a table alone each link is one plain connection and one core compresses; with a file, --rtt,
--window, --lanes or a cipher's rate, plain TCP, ssh and weir's lanes stand side by side.
Exit code: 2 for a table or a flag that cannot be right, 1 for a file that cannot be read, also where the others were foretold.";

/// `weir plan`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Plan {
    /// A FILE like the data of the transfer, to measure every codec; or sources and target as for weir cp, to
    /// measure both ends and the path.
    #[arg(value_name = "FILE | SRC... DST", conflicts_with = "codec_table")]
    pub paths: Vec<OsString>,
    /// Read the codecs' figures from FILE instead; '-' reads stdin.
    #[arg(long, value_name = "FILE.csv")]
    pub codec_table: Option<PathBuf>,
    /// Set the rate of the bottleneck link (1Gbit, 100MB/s; a number alone is bytes a second); repeat it to
    /// compare links.
    #[arg(long = "link", value_name = "RATE", value_parser = parse_rate)]
    pub links: Vec<Rate>,
    /// Set the path's round trip, with a unit (80ms).
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub rtt: Option<Duration>,
    /// Set the share of packets lost (0.01%), for a sender that slows for loss (Reno, CUBIC).
    #[arg(long, value_name = "SHARE", requires = "rtt", value_parser = parse_loss)]
    pub loss: Option<Share>,
    /// Set each connection's receive window in BYTES.
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "rtt")]
    pub window: Option<Bytes>,
    /// Set each connection's send buffer in BYTES (SO_SNDBUF).
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "rtt")]
    pub send_buffer: Option<Bytes>,
    /// Set how fast the source is read [default: for a FILE that is not in memory, this host's calibration of
    /// its disk; otherwise unlimited].
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub source: Option<Rate>,
    /// Set the write rate of the target's disk.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub disk: Option<Rate>,
    /// Set how many BYTES the target's memory absorbs before writes are paced (dirty threshold) [default: 0].
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "disk")]
    pub memory: Option<Bytes>,
    /// Set the size of the transfer in BYTES [default: the file's, or 1 GB].
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub size: Option<Bytes>,
    /// Set the number of processors that compress [default: this machine's with FILE, 1 with a table].
    #[arg(long, value_name = "N", value_parser = parse_cores)]
    pub cores: Option<f64>,
    /// Plan for N connections of weir [default: as many as the path needs].
    #[arg(long, value_name = "LANES", value_parser = parse_lanes)]
    pub lanes: Option<u32>,
    /// Set the rate at which ssh encrypts [default: this host's calibration, else 340 MB/s].
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = NETWORK)]
    pub ssh_rate: Option<Rate>,
    /// Set the rate at which one of weir's threads encrypts [default: with FILE, calibrated or measured;
    /// otherwise unlimited].
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = NETWORK)]
    pub cipher_rate: Option<Rate>,
    /// Also plan for N hosts that all get it: through a chain (weir cp --to-hosts), and by a copy to each.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = MANY_HOSTS)]
    pub hosts: Option<u32>,
    /// With --hosts: send each block N times from here, over as many chains [default: 1].
    #[arg(long, value_name = "N", requires = "hosts", value_parser = clap::value_parser!(u32).range(1..=64), help_heading = MANY_HOSTS)]
    pub fanout: Option<u32>,
    /// Plan only these transports.
    #[arg(long = "transport", value_name = "WAY", value_enum, value_delimiter = ',', help_heading = NETWORK)]
    pub transports: Vec<By>,
    /// With SRC and DST: measure without encryption, for weir cp --plain.
    #[arg(long, help_heading = NETWORK)]
    pub plain: bool,
    /// With SRC and DST: listen for data connections only on these ports (such as 5000-5010).
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_ports, help_heading = NETWORK)]
    pub port_range: Option<Ports>,
    /// Of SRC and DST: what is copied, over what, as weir cp has it.
    #[command(flatten)]
    pub what: What,
    /// With a store: a thousand requests that write or list cost USD dollars [default: the store's list
    /// price].
    #[arg(long, value_name = "USD", value_parser = parse_price, help_heading = STORES)]
    pub price_write: Option<f64>,
    /// With a store: a thousand requests that read cost USD dollars [default: the store's list price].
    #[arg(long, value_name = "USD", value_parser = parse_price, help_heading = STORES)]
    pub price_read: Option<f64>,
    /// What a line for weir cp may have.
    #[command(flatten)]
    pub of_copies: OfCopies,
    /// How ssh is called.
    #[command(flatten)]
    pub ssh_flags: Ssh,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
    /// How object stores are asked.
    #[command(flatten)]
    pub store: StoreArgs,
    /// How one of two is asked.
    #[command(flatten)]
    pub ends: StoreEndArgs,
    /// The way to them.
    #[command(flatten)]
    pub network: StoreNetworkArgs,
    /// Wait at most SECONDS in a row when a store asks for it.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = parse_wait, help_heading = STORES)]
    pub max_wait: Duration,
}

/// Flags of weir cp that a forecast of SRC and DST does not hang on: taken, so that a line for cp works with
/// plan in its place.
#[derive(Debug, Args)]
pub struct OfCopies {
    /// As cp: nothing is copied anyway.
    #[arg(short = 'n', long, hide = true)]
    pub dry_run: bool,
    /// As cp.
    #[arg(long, hide = true)]
    pub resume: bool,
    /// As cp.
    #[arg(long, hide = true)]
    pub sync: bool,
    /// As cp.
    #[arg(long, hide = true)]
    pub whole_or_nothing: bool,
    /// As cp.
    #[arg(long, hide = true)]
    pub ignore_digest: bool,
    /// As cp.
    #[arg(short = 'C', hide = true, help_heading = COMPATIBILITY)]
    pub compression: bool,
    /// As cp.
    #[command(flatten)]
    pub always: Always,
}

/// A share of packets of which some arrive.
fn parse_loss(text: &str) -> Result<Share, String> {
    match text.parse::<Share>().map_err(|error| error.to_string())? {
        Share(share) if share >= 1.0 => {
            Err("nothing arrives when every packet is lost; expected less than 100%".to_owned())
        }
        share => Ok(share),
    }
}

/// `--transport`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// One plain TCP connection.
    Tcp,
    /// A channel of ssh.
    Ssh,
    /// weir's own connections.
    Weir,
}

impl By {
    /// Every way, the simplest first.
    pub const ALL: [By; 3] = [By::Tcp, By::Ssh, By::Weir];
}

/// A rate that a link or a disk can have: from 1 byte to 1 PB a second.
fn parse_rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|error: weir_units::ParseError| error.to_string())?;
    if (1.0..=1e15).contains(&rate.0) {
        Ok(rate)
    } else {
        Err(format!("invalid rate '{text}': expected 1 byte/s to 1000 TB/s"))
    }
}

/// A size that is something: from 1 byte to a million TB.
fn parse_size(text: &str) -> Result<Bytes, String> {
    let expected = format!("invalid size '{text}': expected 1 byte to 1000000 TB");
    size_within(text, 1..=1_000_000_000_000_000_000, &expected)
}

/// A price in dollars.
fn parse_price(text: &str) -> Result<f64, String> {
    match text.trim_start_matches('$').parse::<f64>() {
        Ok(price) if (0.0..=1e6).contains(&price) => Ok(price),
        _ => Err("expected dollars, such as 0.005".to_owned()),
    }
}

/// A number of processors, or a part of one.
fn parse_cores(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cores) if (0.1..=4096.0).contains(&cores) => Ok(cores),
        _ => Err("expected a number of processors from 0.1 to 4096".to_owned()),
    }
}
