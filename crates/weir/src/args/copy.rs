//! `weir cp`: its arguments.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weir_codec::codec::Codec;
use weir_peer::wire::message::{Ports, Transport};
use weir_units::Rate;

use super::selection::rsync_bytes;
use super::{Ssh, Voice, What};

const EXAMPLES: &str = "\
Examples:
  weir cp big.iso host:                                 into the home folder there
  weir cp user@host:/data/set ./                        a folder from there, with all in it
  weir cp -a --update src/ host:/backup/src/            what is in src, and only what has changed
  weir cp one:/data/set two:/data/                      between two others: from one to two, where one reaches the other
  find . -name '*.c' | weir cp --files-from - ./ host:  what a list names
  weir cp -P 2222 -J gate file host:/tmp/               ssh's flags, as scp has them
DIR/ means what is in DIR, DIR the folder itself. The same command goes on where an interrupted one stopped
(.NAME.weir-part at the target holds what came, for as long as the source keeps its size and time; --delete removes the parts of files that
the source does not have, find DIR -name '.*.weir-part' -delete all of them). Names that the target holds for one, and what two sources have
under one name, are copied once and told. Between two hosts the data go from one to the other where either can connect, else through
here: over connections to both, or inside ssh. The far host needs ssh; weir itself is copied to ~/.cache/weir there where it is missing.";

/// `weir cp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Cp {
    /// What to copy, one or more, and last where to: paths, or [USER@]HOST:PATH on one side or both.
    #[arg(value_name = "SRC... DST", required = true, num_args = 1..)]
    pub paths: Vec<OsString>,

    /// What is copied, over what.
    #[command(flatten)]
    pub what: What,
    /// Go on where an earlier run stopped: always done, here because fingers say it.
    #[arg(long)]
    pub resume: bool,
    /// Only print what would be copied and deleted.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Compress by this codec alone (none, lz4, zstd, zlib ..., zstd:9 for a level) [default: what suits link and data best].
    #[arg(long, value_name = "CODEC[:LEVEL]", value_parser = parse_codec)]
    pub codec: Option<(u8, i32)>,
    /// Put at most RATE on the network, all connections together (such as 10M or 100Mbit); what compresses arrives faster.
    #[arg(long, value_name = "RATE")]
    pub limit_rate: Option<Rate>,
    /// As --limit-rate, of rsync: KiB a second where it has no unit, 0 for no limit.
    #[arg(long, value_name = "RATE", conflicts_with = "limit_rate", value_parser = parse_bwlimit)]
    pub bwlimit: Option<Rate>,
    /// Wait until the bytes are on the disk before a file gets its name.
    #[arg(long)]
    pub sync: bool,
    /// A file that grows while it is read is copied once it rests, or not at all; otherwise as long as it was at the start.
    #[arg(long)]
    pub whole_or_nothing: bool,

    /// Fill the terminal with a live view: the pipeline, the rate, connections, files; q ends the run as Ctrl-C does.
    #[arg(long, conflicts_with = "quiet")]
    pub tui: bool,
    /// How the data go: over connections of their own, or inside ssh [default: the first that works].
    #[arg(long, value_name = "HOW")]
    pub transport: Option<How>,
    /// Listen for data connections on these ports only, here or there (such as 5000-5010).
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_ports)]
    pub port_range: Option<Ports>,
    /// Between two hosts: send the data through this machine, also where one could reach the other.
    #[arg(short = '3')]
    pub through_here: bool,
    /// Use exactly LANES data connections.
    #[arg(short = 'c', long = "lanes", value_name = "LANES", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub lanes: Option<u32>,
    /// Do not encrypt the data (digests are still compared). For networks that nobody else is on.
    #[arg(long)]
    pub plain: bool,

    /// How ssh is called.
    #[command(flatten)]
    pub ssh: Ssh,
    /// ssh's compression: not used, weir compresses by itself where it pays.
    #[arg(short = 'C')]
    pub compression: bool,
    /// What others have to be asked for.
    #[command(flatten)]
    pub always: Always,

    /// Write what both ends saw, window by window, for a bug report.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub evidence: Option<PathBuf>,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
}

/// What scp and rsync do when they are told to, and weir always: taken, so that a line which fingers know works.
#[derive(Debug, Args)]
pub struct Always {
    /// Keep modes and times (scp, rsync).
    #[arg(short = 'p', short_alias = 't', long = "times", alias = "perms", hide = true)]
    pub preserve: bool,
    /// Keep hard links (rsync): a part of -a.
    #[arg(short = 'H', long, hide = true, requires = "archive")]
    pub hard_links: bool,
    /// Keep extended attributes (rsync): a part of -a.
    #[arg(short = 'X', long, hide = true, requires = "archive")]
    pub xattrs: bool,
    /// Keep access control lists (rsync): a part of -a.
    #[arg(short = 'A', long, hide = true, requires = "archive")]
    pub acls: bool,
    /// Compress (rsync).
    #[arg(short = 'z', long, hide = true)]
    pub compress: bool,
    /// Keep what came of a file when the copy is interrupted (rsync).
    #[arg(long, hide = true)]
    pub partial: bool,
    /// Show how far it is; on a terminal (rsync).
    #[arg(long, alias = "stats", hide = true)]
    pub progress: bool,
}

/// `--transport`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum How {
    /// Over TCP connections of their own.
    Tcp,
    /// Inside ssh.
    Ssh,
}

impl From<How> for Transport {
    fn from(how: How) -> Transport {
        match how {
            How::Tcp => Transport::Tcp,
            How::Ssh => Transport::Ssh,
        }
    }
}

pub(super) fn parse_ports(text: &str) -> Result<Ports, String> {
    let bad = || format!("invalid range '{text}': expected FIRST-LAST, such as 5000-5010");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ports = Ports { first: first.parse().map_err(|_| bad())?, last: last.parse().map_err(|_| bad())? };
    if ports.first == 0 || ports.first > ports.last { Err(bad()) } else { Ok(ports) }
}

/// As rsync has it: `1000` and `1000K` are KiB, `1.5m` and `1.5MiB` MiB, `1.5MB` a million and a half.
fn parse_bwlimit(text: &str) -> Result<Rate, String> {
    let bad = || "expected KiB a second, or a number with K, M or G, such as 1.5m".to_owned();
    let rate = rsync_bytes(text, "kmg", 1).filter(|rate| *rate <= 1e15);
    rate.map(Rate).ok_or_else(bad)
}

fn parse_codec(text: &str) -> Result<(u8, i32), String> {
    // As weir plan and weir bench codec print it, too: zstd-3.
    let (name, level) = match text.split_once([':', '-']) {
        Some((name, level)) => (name, Some(level)),
        None => (text, None),
    };
    let codec = Codec::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = Codec::all().map(Codec::name).collect();
        format!("there is no codec '{name}'; there are {}", names.join(", "))
    })?;
    let level = match level {
        Some(level) => level.parse().map_err(|_| format!("invalid level '{level}': expected a number"))?,
        None => codec.default_level(),
    };
    if codec.has_level(level) {
        return Ok((codec.id(), level));
    }
    Err(format!("{name} has no level {level}; it has {:?}", codec.levels()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_rsync_are_its_own() {
        for (text, rate) in [
            ("1000", 1_024_000.0),
            ("1000K", 1_024_000.0),
            ("1.5m", 1.5 * 1_048_576.0),
            ("1.5MiB", 1.5 * 1_048_576.0),
            ("1.5MB", 1.5e6),
            ("2g", 2_147_483_648.0),
            ("500b", 500.0),
            ("0", 0.0),
        ] {
            assert_eq!(parse_bwlimit(text), Ok(Rate(rate)), "{text}");
        }
        for text in ["", "x", "10Mbit", "-1", "1T2", "inf", "NaN"] {
            assert!(parse_bwlimit(text).is_err(), "{text}");
        }
    }
}
