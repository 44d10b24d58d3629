//! `weir cp`: its arguments.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_codec::codec::Codec;
use weir_cp::wire::message::{Ports, Transport};
use weir_cp::wire::modes::ModeChange;
use weir_units::Rate;

use super::get::parse_wait;
use super::headings::{COMPATIBILITY, MANY_HOSTS, NETWORK, OPTIONS, OUTPUT, STORES};
use super::selection::rsync_bytes;
use super::values::{RateLimit, parse_rate_limit};
use super::{Ssh, StoreArgs, StoreEndArgs, StoreNetworkArgs, Voice, What};

const EXAMPLES: &str = "\
Examples:
  weir cp big.iso host:                                 into the home folder there
  weir cp user@host:/data/set ./                        a folder from there, with all in it
  weir cp -a --update src/ host:/backup/src/            what is in src, and only what has changed
  weir cp one:/data/set two:/data/                      between two others: from one to two, where one reaches the other
  find . -name '*.c' | weir cp --files-from - ./ host:  what a list names
  weir cp model.bin --to-hosts a,b,c:/data/             to many hosts, from one to the next
  weir cp -P 2222 -J gate file host:/tmp/               ssh's flags, as scp has them
  weir cp -r photos/ s3://bucket/2026/                  into a bucket, only what differs in size or time; or back
  weir cp --delete s3://a/set/ s3://b/set/              between buckets, by the store itself
  weir cp gs://a/set/ s3://b/set/                       between stores of two kinds, through here
  weir cp s3://a/ s3://b/ --source-profile old --target-profile new     from one service to another
DIR/ means what is in DIR, DIR the folder itself. The same command goes on where an interrupted one stopped
(.NAME.weir-part at the target holds what came, for as long as the source keeps its size and time; --delete removes the parts of files that
the source does not have, find DIR -name '.*.weir-part' -delete all of them). Names that the target holds for one, and what two sources have
under one name, are copied once and told. Between two hosts the data go from one to the other where either can connect, else through
here: over connections to both, or inside ssh. Between two kinds of store each object comes through here, part by part in memory. The far host needs ssh; weir itself is copied to ~/.cache/weir there where it is missing.";

/// `weir cp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Cp {
    /// One or more sources, then the target: paths, [USER@]HOST:PATH, or s3://BUCKET/PREFIX, on either side
    /// or both.
    #[arg(value_name = "SRC... DST", required = true, num_args = 1..)]
    pub paths: Vec<OsString>,

    /// What is copied, over what.
    #[command(flatten)]
    pub what: What,
    /// Resume an interrupted copy. Always on; accepted for compatibility.
    #[arg(long, help_heading = OPTIONS)]
    pub resume: bool,
    /// Print what would be copied and deleted, and do neither.
    #[arg(short = 'n', long, help_heading = OPTIONS)]
    pub dry_run: bool,
    /// Compress with this codec only (none, lz4, zstd, zlib ..., zstd:9 for a level) [default: the best for
    /// link and data].
    #[arg(long, value_name = "CODEC[:LEVEL]", value_parser = parse_codec, help_heading = NETWORK)]
    pub codec: Option<(u8, i32)>,
    /// Limit the network rate of all connections together to RATE (such as 10M or 100Mbit), after
    /// compression, 0 for no limit.
    #[arg(long, value_name = "RATE", default_value = "0", hide_default_value = true, value_parser = parse_rate_limit, help_heading = NETWORK)]
    pub limit_rate: RateLimit,
    /// Limit the network rate as rsync does: KiB a second unless a unit is given, 0 for no limit.
    #[arg(long, value_name = "RATE", conflicts_with = "limit_rate", default_value = "0", hide_default_value = true, value_parser = parse_bwlimit, help_heading = NETWORK)]
    pub bwlimit: RateLimit,
    /// Wait until the bytes are on disk before a file gets its final name.
    #[arg(long, help_heading = OPTIONS)]
    pub sync: bool,
    /// Copy a file that grows only once it stops growing, or not at all [default: copy the length it had at
    /// the start].
    #[arg(long, help_heading = OPTIONS)]
    pub whole_or_nothing: bool,
    /// Keep an object of a store whose digest differs from the one that its store has; a note says so.
    #[arg(long, help_heading = OPTIONS)]
    pub ignore_digest: bool,

    /// Show a live view on the whole terminal: the pipeline, the rate, connections, files; q ends the run
    /// like Ctrl-C.
    #[arg(long, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub tui: bool,
    /// Send the data over separate connections or inside ssh [default: the first that works].
    #[arg(long, value_name = "HOW", help_heading = NETWORK)]
    pub transport: Option<How>,
    /// Listen for data connections only on these ports, at either end (such as 5000-5010).
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_ports, help_heading = NETWORK)]
    pub port_range: Option<Ports>,
    /// Between two remote hosts, send the data through this machine even if one reaches the other.
    #[arg(short = '3', help_heading = NETWORK)]
    pub through_here: bool,
    /// Copy to every host of LIST, each passing on what comes to it: a file, - for stdin, or a,b,c; PATH is
    /// the target on each.
    #[arg(long, value_name = "LIST[:PATH]", allow_hyphen_values = true, help_heading = MANY_HOSTS)]
    pub to_hosts: Option<String>,
    /// With --to-hosts, send each block N times from here, over as many chains [default: 1].
    #[arg(long, value_name = "N", requires = "to_hosts", value_parser = clap::value_parser!(u32).range(1..=64), help_heading = MANY_HOSTS)]
    pub fanout: Option<u32>,
    /// Use exactly LANES data connections [default: as many as help].
    #[arg(short = 'c', long = "lanes", value_name = "LANES", value_parser = clap::value_parser!(u32).range(1..=16), help_heading = NETWORK)]
    pub lanes: Option<u32>,
    /// Do not encrypt the data (digests are still compared); only for networks that you alone use.
    #[arg(long, help_heading = NETWORK)]
    pub plain: bool,

    /// How ssh is called.
    #[command(flatten)]
    pub ssh: Ssh,
    /// Accepted for compatibility with ssh; weir compresses where it pays.
    #[arg(short = 'C', help_heading = COMPATIBILITY)]
    pub compression: bool,
    /// What others have to be asked for.
    #[command(flatten)]
    pub always: Always,

    /// Write the evidence of both ends, interval by interval, to FILE, for a bug report.
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = OUTPUT)]
    pub evidence: Option<PathBuf>,
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

/// What scp and rsync do when they are told to, and weir always or with `-a`: taken, so that a line which
/// fingers know works. `-p` alone has an effect.
#[derive(Debug, Args)]
#[command(next_help_heading = COMPATIBILITY)]
pub struct Always {
    /// Set modes of existing folders, too; what is copied into them always has its own.
    #[arg(short = 'p', long = "perms", hide = true)]
    pub perms: bool,
    /// Keep times. Always on; accepted for compatibility with rsync.
    #[arg(short = 't', long, hide = true)]
    pub times: bool,
    /// Keep hard links. Part of -a; accepted for compatibility with rsync.
    #[arg(short = 'H', long, hide = true)]
    pub hard_links: bool,
    /// Keep extended attributes. Part of -a; accepted for compatibility with rsync.
    #[arg(short = 'X', long, hide = true)]
    pub xattrs: bool,
    /// Keep access control lists. Part of -a; accepted for compatibility with rsync.
    #[arg(short = 'A', long, hide = true)]
    pub acls: bool,
    /// Compress. Always on where it pays; accepted for compatibility with rsync.
    #[arg(short = 'z', long, hide = true)]
    pub compress: bool,
    /// Keep a partial file when interrupted. Always on; accepted for compatibility with rsync.
    #[arg(long, hide = true)]
    pub partial: bool,
    /// Show progress. Always on at a terminal; accepted for compatibility with rsync.
    #[arg(long, aliases = ["stats", "human-readable"], hide = true)]
    pub progress: bool,
    /// Copy symbolic links as links. Always on; accepted for compatibility with rsync.
    #[arg(long = "links", hide = true)]
    pub symbolic_links: bool,
    /// Send whole files, or only what differs: weir decides; accepted for compatibility with rsync.
    #[arg(long, alias = "no-whole-file", hide = true)]
    pub whole_file: bool,
    /// Keep owners. Part of -a; accepted for compatibility with rsync.
    #[arg(long, hide = true)]
    pub owner: bool,
    /// Keep groups. Part of -a; accepted for compatibility with rsync.
    #[arg(long, hide = true)]
    pub group: bool,
    /// Show progress. Always on at a terminal; accepted for compatibility with rsync.
    #[arg(long, hide = true, value_name = "WHAT", value_parser = parse_info)]
    pub info: Option<String>,
}

/// What rsync's `--info` asks for, where weir shows it anyway.
fn parse_info(text: &str) -> Result<String, String> {
    let is_shown = |what: &str| {
        let what = what.trim_end_matches(|digit: char| digit.is_ascii_digit());
        ["progress", "stats", "flist", "none"].iter().any(|known| what.eq_ignore_ascii_case(known))
    };
    match text.split(',').all(is_shown) {
        true => Ok(text.to_owned()),
        false => {
            Err("progress is shown on every terminal; --itemize-changes and -v name what is done".to_owned())
        }
    }
}

impl Always {
    /// `-p`, as both ends are told of it.
    pub fn modes(&self) -> Option<ModeChange> {
        self.perms.then_some(ModeChange::NONE)
    }

    /// Whether `-a` is meant, where it `is_given` or not: owner and group together mean it, as in
    /// rsync's `-rlptgoD`. Of its other parts none can be had alone.
    pub fn archive(&self, is_given: bool) -> Result<bool, String> {
        if is_given || self.owner && self.group {
            return Ok(true);
        }
        let parts = [
            (self.hard_links, "-H (hard links)"),
            (self.xattrs, "-X (extended attributes)"),
            (self.acls, "-A (access lists)"),
            (self.owner, "--owner"),
            (self.group, "--group"),
        ];
        match parts.iter().find(|(given, _)| *given) {
            Some((_, part)) => Err(format!(
                "{part} is part of -a here, which keeps owners, groups, attributes, access lists and hard links \
                 together: add -a"
            )),
            None => Ok(false),
        }
    }
}

/// `--transport`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum How {
    /// Over TCP connections of their own.
    Tcp,
    /// Inside ssh.
    Ssh,
}

impl Cp {
    /// What all connections together may take, by either name.
    pub fn rate_cap(&self) -> Option<Rate> {
        self.limit_rate.0.or(self.bwlimit.0)
    }
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
fn parse_bwlimit(text: &str) -> Result<RateLimit, String> {
    let bad = || "expected KiB a second, or a number with K, M or G, such as 1.5m".to_owned();
    let rate = rsync_bytes(text, "kmg", 1).filter(|rate| *rate <= 1e15);
    RateLimit::of(rate.ok_or_else(bad)?)
}

fn parse_codec(text: &str) -> Result<(u8, i32), String> {
    // As weir plan and weir bench codec print it, too: zstd-3.
    let (name, level) = match text.split_once([':', '-']) {
        Some((name, level)) => (name, Some(level)),
        None => (text, None),
    };
    let codec = Codec::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = Codec::all().map(Codec::name).collect();
        format!("unknown codec '{name}': expected one of {}", names.join(", "))
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
            ("1000", Some(1_024_000.0)),
            ("1000K", Some(1_024_000.0)),
            ("1.5m", Some(1.5 * 1_048_576.0)),
            ("1.5MiB", Some(1.5 * 1_048_576.0)),
            ("1.5MB", Some(1.5e6)),
            ("2g", Some(2_147_483_648.0)),
            ("500b", Some(500.0)),
            ("0", None),
            ("0m", None),
        ] {
            assert_eq!(parse_bwlimit(text), Ok(RateLimit(rate.map(Rate))), "{text}");
        }
        for text in ["", "x", "10Mbit", "-1", "1T2", "inf", "NaN", "0.5b"] {
            assert!(parse_bwlimit(text).is_err(), "{text}");
        }
    }
}
