//! `weir plan`'s part of the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_lab::path::Share;
use weir_peer::wire::message::Ports;
use weir_units::{Bytes, Rate};

use super::copy::{Always, parse_ports};
use super::{Ssh, Voice, What, parse_lanes, parse_span};
use crate::cmd::plan::{parse_cores, parse_rate, parse_size};

const EXAMPLES: &str = "\
Examples:
  weir plan big.tar user@host:/data/                              what weir cp would reach: measures a few seconds, then predicts
  weir plan data.tar --link 1Gbit --link 100Mbit --rtt 30ms       which codec and transport, measured on the file's own data
  weir plan --codec-table mine.csv --link 100MB/s --link 10MB/s   the bare law, from figures known already
  weir plan --link 100Mbit --rtt 20ms --send-buffer 16KiB --size 22M      no codec: what does this buffer cost?
  weir plan --link 1Gbit --rtt 80ms --loss 0.01% --window 6M      windows, loss, and the connections that make up for them
The table has a header codec,ratio,compress[,decompress]: compressed / original as a fraction, and MB/s of one core.
Cells are MB/s of payload. With a table alone each link is one plain connection and one core compresses; with a file, --rtt,
--window, --lanes or a cipher's rate, plain TCP, ssh and weir's lanes stand side by side.
Exit code: 2 for a table or a flag that cannot be right, 1 for a file that cannot be read, also where the others were foretold.";

/// `weir plan`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Plan {
    /// Data like that of the transfer, measured with every codec; or, as for weir cp, sources and last the target: then both
    /// ends and the path between them are measured.
    #[arg(value_name = "FILE | SRC... DST", conflicts_with = "codec_table")]
    pub paths: Vec<OsString>,
    /// Codecs' figures instead; '-' for stdin.
    #[arg(long, value_name = "FILE.csv")]
    pub codec_table: Option<PathBuf>,
    /// What the bottleneck link carries (such as 1Gbit or 100MB/s); several stand side by side.
    #[arg(long = "link", value_name = "RATE", value_parser = parse_rate)]
    pub links: Vec<Rate>,
    /// Round trip of the path, with its unit (80ms).
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub rtt: Option<Duration>,
    /// Share of packets lost, for a sender that slows for loss (Reno, CUBIC).
    #[arg(long, value_name = "SHARE", requires = "rtt", value_parser = parse_loss)]
    pub loss: Option<Share>,
    /// Bytes that the receiver lets each connection have in flight.
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "rtt")]
    pub window: Option<Bytes>,
    /// Bytes that each connection's sender keeps (SO_SNDBUF).
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "rtt")]
    pub send_buffer: Option<Bytes>,
    /// How fast the source is read [default: of a FILE that is not in memory, this host's calibration of its disk; no bound otherwise].
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub source: Option<Rate>,
    /// How fast the target's disk takes writes.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub disk: Option<Rate>,
    /// Bytes that the target's memory takes before the disk sets the pace (its dirty threshold) [default: 0].
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "disk")]
    pub memory: Option<Bytes>,
    /// Bytes of the transfer [default: the file's, or 1 GB].
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub size: Option<Bytes>,
    /// Processors that compress [default: this machine's with FILE, 1 with a table].
    #[arg(long, value_name = "N", value_parser = parse_cores)]
    pub cores: Option<f64>,
    /// Plan for this many connections of weir instead of as many as the path needs.
    #[arg(long, value_name = "LANES", value_parser = parse_lanes)]
    pub lanes: Option<u32>,
    /// What ssh encrypts per second [default: this host's calibration, else 340 MB/s].
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub ssh_rate: Option<Rate>,
    /// What one of weir's threads encrypts per second [default: with FILE this host's calibration, or measured; no bound otherwise].
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub cipher_rate: Option<Rate>,
    /// Only these ways for the bytes.
    #[arg(long = "transport", value_name = "WAY", value_enum, value_delimiter = ',')]
    pub transports: Vec<By>,
    /// Of SRC and DST: measure without encryption, for weir cp --plain.
    #[arg(long)]
    pub plain: bool,
    /// Of SRC and DST: listen for data connections on these ports only (such as 5000-5010).
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_ports)]
    pub port_range: Option<Ports>,
    /// Of SRC and DST: what is copied, over what, as weir cp has it.
    #[command(flatten)]
    pub what: What,
    /// What a line for weir cp may have.
    #[command(flatten)]
    pub of_copies: OfCopies,
    /// How ssh is called.
    #[command(flatten)]
    pub ssh_flags: Ssh,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
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
    #[arg(short = 'C', hide = true)]
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
