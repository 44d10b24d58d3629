//! The command line of `weir lab`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use weir_lab::path::{GilbertElliott, Policer, QueueLimit, Share, ShareError};
use weir_units::{ParseError, Rate};

use super::{Voice, first_steps, parse_span, parse_time};

/// `weir lab`.
#[derive(Debug, Args)]
#[command(after_help = first_steps::LAB)]
pub struct Lab {
    /// What to do there.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// The commands of `weir lab`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a command or your shell at the local end of an emulated path, with a file server at the remote
    /// end.
    Shell(Box<LabShell>),
    /// List the scenarios that come with weir: published experiments, scaled to one machine.
    List,
    /// Run scenarios and compare figure and verdict with what is expected.
    Run(LabRun),
    /// Print what a scenario sets up and expects.
    Show(LabShow),
    /// What `shell` puts between itself and the command.
    #[command(hide = true)]
    Guard(LabGuard),
}

/// `weir lab guard`.
#[derive(Debug, Args)]
pub struct LabGuard {
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const LAB_RUN_EXAMPLES: &str = "\
Examples:
  weir lab run b1                                      a send buffer of 16 KiB, its verdict, and what the advice brings
  weir lab run --all --json                            all, as one record
  weir lab run ./mine.toml                             one of your own (weir lab show b1 --file prints one to begin with)
Exit code: 1 when a verdict or a figure is wrong.";

/// `weir lab run`.
#[derive(Debug, Args)]
#[command(after_help = LAB_RUN_EXAMPLES)]
pub struct LabRun {
    /// The scenarios, by name (weir lab list) or file.
    #[arg(value_name = "NAME|FILE", required_unless_present = "all")]
    pub names: Vec<String>,
    /// Run all scenarios that come with weir.
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// Write the evidence of each side, interval by interval, to FOLDER, for a bug report.
    #[arg(long, value_name = "FOLDER", hide_short_help = true)]
    pub evidence: Option<PathBuf>,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
}

/// `weir lab show`.
#[derive(Debug, Args)]
pub struct LabShow {
    /// The scenario, by name or file.
    #[arg(value_name = "NAME|FILE")]
    pub name: String,
    /// Print the tc commands that emulate this path between real hosts.
    #[arg(long)]
    pub tc: bool,
    /// Print the scenario's file.
    #[arg(long, conflicts_with = "tc")]
    pub file: bool,
}

const LAB_SHELL_EXAMPLES: &str = "\
Examples:
  weir lab shell --rate 100Mbit --delay 20ms -- sh -c 'weir get $WEIR_LAB_URL/100M'      (quoted: the variable is set inside)
  weir lab shell --rate 40Mbit --loss 0.1% --queue 200k                                 your shell there
  weir lab shell --trace lte.down --delay 30ms --serve . -- sh -c 'wget $WEIR_LAB_URL/file'
The far end is $WEIR_LAB_PEER; without --serve it offers /1M /10M /100M /1G /10G. Both ends see only each other.
Impairments hold in both directions, each its own; --up-rate is for what the command sends. --trace is for what it downloads.
Exit code: the command's.";

/// `weir lab shell`.
#[derive(Debug, Args)]
#[command(after_help = LAB_SHELL_EXAMPLES)]
pub struct LabShell {
    /// Set the link's rate, headers included (such as 100Mbit).
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Set the rate towards the remote end [default: --rate].
    #[arg(long, value_name = "RATE")]
    pub up_rate: Option<Rate>,
    /// Delay each packet by TIME one way; a round trip takes twice as long.
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub delay: Option<Duration>,
    /// Vary each packet's delay by up to TIME either way.
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub jitter: Option<Duration>,
    /// Lose this share of packets (0.1% or 0.001).
    #[arg(long, value_name = "SHARE")]
    pub loss: Option<Share>,
    /// Lose this share of packets in bursts of this mean length (1%,5).
    #[arg(long, value_name = "SHARE,LENGTH", value_parser = parse_burst_loss, conflicts_with = "loss")]
    pub burst_loss: Option<GilbertElliott>,
    /// Let this share of packets overtake others by TIME [default: a quarter of the delay] (2% or 2%,5ms).
    #[arg(long, value_name = "SHARE[,TIME]", value_parser = parse_reorder)]
    pub reorder: Option<(Share, Option<Duration>)>,
    /// Deliver this share of packets twice.
    #[arg(long, value_name = "SHARE")]
    pub duplicate: Option<Share>,
    /// Set the queue in bytes or packets (200k, 100p) [default: one round trip, at least 20 ms].
    #[arg(long, value_name = "BYTES|Np", value_parser = parse_queue)]
    pub queue: Option<QueueLimit>,
    /// Manage the queue with CoDel (RFC 8289).
    #[arg(long)]
    pub codel: bool,
    /// Drop packets that exceed RATE by more than BYTES, without a queue (10Mbit,30k).
    #[arg(long, value_name = "RATE,BYTES", value_parser = parse_policer)]
    pub policer: Option<Policer>,
    /// Deliver by a mahimahi trace: each line is a millisecond in which 1500 bytes pass.
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    pub trace: Option<PathBuf>,
    /// Forward packets one by one, or as the kernel's super-frames for several Gbit/s.
    #[arg(long, value_enum, default_value = "packet")]
    pub fidelity: LabFidelity,
    /// Seed the losses; the same number repeats them.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Use this congestion control at both ends (bbr, cubic, reno).
    #[arg(long, value_name = "NAME")]
    pub cc: Option<String>,
    /// Serve this folder at the remote end [default: generated files /1M to /10G].
    #[arg(long, value_name = "DIR")]
    pub serve: Option<PathBuf>,
    /// Also run an sshd at the remote end (needs root): `-F $WEIR_LAB_SSH far` reaches it by ssh, scp, rsync
    /// and weir cp.
    #[arg(long)]
    pub ssh: bool,
    /// The command and its arguments [default: $SHELL].
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// Set how much is printed.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// `--fidelity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabFidelity {
    /// Each packet of 1500 bytes on its own.
    Packet,
    /// Super-frames of up to 64 KiB unsplit: losses and queues are coarse.
    Gso,
}

/// `1%,5`.
fn parse_burst_loss(text: &str) -> Result<GilbertElliott, String> {
    let expected = || "expected a share and a mean length in packets, such as 1%,5".to_owned();
    let (share, length) = text.split_once(',').ok_or_else(expected)?;
    let share: Share = share.parse().map_err(|error: ShareError| error.to_string())?;
    match length.parse::<f64>() {
        // All lost is no burst, and there would be no good spell to return to.
        Ok(length) if (1.0..=1e6).contains(&length) && share < Share::ALL => {
            Ok(GilbertElliott::bursts(share, length))
        }
        _ => Err(expected()),
    }
}

/// `2%`, `2%,5ms`.
fn parse_reorder(text: &str) -> Result<(Share, Option<Duration>), String> {
    let (share, early) = match text.split_once(',') {
        Some((share, early)) => (share, Some(parse_time(early)?)),
        None => (text, None),
    };
    Ok((share.parse().map_err(|error: ShareError| error.to_string())?, early))
}

/// `256k`, `100p`.
fn parse_queue(text: &str) -> Result<QueueLimit, String> {
    match text.strip_suffix('p').map(str::parse) {
        Some(Ok(0) | Err(_)) => Err("expected a number of packets from 1 on, such as 100p".to_owned()),
        Some(Ok(packets)) => Ok(QueueLimit::Packets(packets)),
        None => text.parse().map(QueueLimit::Bytes).map_err(|error: ParseError| error.to_string()),
    }
}

/// `10Mbit,30k`.
fn parse_policer(text: &str) -> Result<Policer, String> {
    let (rate, burst) = text.split_once(',').ok_or("expected a rate and a burst, such as 10Mbit,30k")?;
    let wrong = |error: ParseError| error.to_string();
    Ok(Policer { rate: rate.parse().map_err(wrong)?, burst: burst.parse().map_err(wrong)? })
}
