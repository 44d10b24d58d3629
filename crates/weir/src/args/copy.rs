//! `weir cp`: its arguments.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weir_codec::codec::Codec;
use weir_peer::wire::message::{Ports, Transport};
use weir_units::Rate;

use super::Voice;

const EXAMPLES: &str = "\
Examples:
  weir cp big.iso host:                                 into the home folder there
  weir cp user@host:/data/set ./                        a folder from there, with all in it
  weir cp -a --update src/ host:/backup/src/            what is in src, and only what has changed
  weir cp -P 2222 -J gate file host:/tmp/               ssh's flags, as scp has them
DIR/ means what is in DIR, DIR the folder itself. The same command goes on where an interrupted one stopped
(.NAME.weir-part at the target holds what came). The far host needs ssh; weir itself is copied to ~/.cache/weir there where it is missing.";

/// `weir cp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Cp {
    /// What to copy, one or more, and last where to: paths, [USER@]HOST:PATH on one side.
    #[arg(value_name = "SRC... DST", required = true, num_args = 2..)]
    pub paths: Vec<OsString>,

    /// Keep owners, extended attributes and hard links too (modes, times and symbolic links always are).
    #[arg(short, long)]
    pub archive: bool,
    /// Copy folders: always done, here because fingers say it.
    #[arg(short, long)]
    pub recursive: bool,
    /// Leave files alone that have the same size and time at the target.
    #[arg(short, long)]
    pub update: bool,
    /// Go on where an earlier run stopped: always done, here because fingers say it.
    #[arg(long)]
    pub resume: bool,
    /// Tell files that are the same by their content, whatever their times.
    #[arg(long)]
    pub checksum: bool,
    /// Remove at the target what the source folders do not have.
    #[arg(long)]
    pub delete: bool,
    /// Only print what would be copied and deleted.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Leave out what PATTERN matches (as rsync's simple ones: *, **, ?, [..]; a leading / anchors, a trailing / means folders).
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<OsString>,
    /// Take what PATTERN matches, though --exclude matches it too.
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<OsString>,
    /// Compress by this codec alone (none, lz4, zstd, zlib ..., zstd:9 for a level) [default: what suits link and data best].
    #[arg(long, value_name = "CODEC[:LEVEL]", value_parser = parse_codec)]
    pub codec: Option<(u8, i32)>,
    /// Take at most RATE in all (such as 10M or 100Mbit).
    #[arg(long, value_name = "RATE")]
    pub limit_rate: Option<Rate>,
    /// Wait until the bytes are on the disk before a file gets its name.
    #[arg(long)]
    pub sync: bool,

    /// How the data go: over connections of their own, or inside ssh [default: the first that works].
    #[arg(long, value_name = "HOW")]
    pub transport: Option<How>,
    /// Listen for data connections on these ports only, here or there (such as 5000-5010).
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_ports)]
    pub port_range: Option<Ports>,
    /// Use exactly LANES data connections.
    #[arg(short = 'c', long = "lanes", value_name = "LANES", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub lanes: Option<u32>,
    /// Do not encrypt the data (digests are still compared). For networks that nobody else is on.
    #[arg(long)]
    pub plain: bool,

    /// ssh: the port.
    #[arg(short = 'P', long = "port", value_name = "PORT")]
    pub port: Option<u16>,
    /// ssh: the key.
    #[arg(short = 'i', long = "identity", value_name = "KEY")]
    pub identity: Vec<String>,
    /// ssh: an option of ssh_config.
    #[arg(short = 'o', value_name = "OPTION=VALUE")]
    pub ssh_option: Vec<String>,
    /// ssh: through this host.
    #[arg(short = 'J', value_name = "HOST")]
    pub jump: Option<String>,
    /// ssh: its configuration.
    #[arg(short = 'F', value_name = "FILE")]
    pub ssh_config: Option<String>,
    /// ssh: this program in its place.
    #[arg(short = 'S', value_name = "PROGRAM")]
    pub ssh_program: Option<String>,
    /// ssh: IPv4 only.
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// ssh: IPv6 only.
    #[arg(short = '6')]
    pub ipv6: bool,
    /// ssh's compression: not used, weir compresses by itself where it pays.
    #[arg(short = 'C')]
    pub compression: bool,

    /// Write what both ends saw, window by window, for a bug report.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub evidence: Option<PathBuf>,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
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

impl Cp {
    /// The ssh program and its flags.
    pub fn ssh(&self) -> Vec<String> {
        let mut ssh = vec![self.ssh_program.clone().unwrap_or_else(|| "ssh".to_owned())];
        ssh.extend(self.port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]));
        ssh.extend(self.identity.iter().flat_map(|key| ["-i".to_owned(), key.clone()]));
        ssh.extend(self.ssh_option.iter().flat_map(|option| ["-o".to_owned(), option.clone()]));
        ssh.extend(self.jump.iter().flat_map(|host| ["-J".to_owned(), host.clone()]));
        ssh.extend(self.ssh_config.iter().flat_map(|file| ["-F".to_owned(), file.clone()]));
        ssh.extend(self.ipv4.then(|| "-4".to_owned()));
        ssh.extend(self.ipv6.then(|| "-6".to_owned()));
        ssh
    }
}

fn parse_ports(text: &str) -> Result<Ports, String> {
    let bad = || format!("invalid range '{text}': expected FIRST-LAST, such as 5000-5010");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ports = Ports { first: first.parse().map_err(|_| bad())?, last: last.parse().map_err(|_| bad())? };
    if ports.first == 0 || ports.first > ports.last { Err(bad()) } else { Ok(ports) }
}

fn parse_codec(text: &str) -> Result<(u8, i32), String> {
    let (name, level) = match text.split_once(':') {
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
