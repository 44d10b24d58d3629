//! `weir fleet status`, `check` and `export`: their options.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values::{parse_listen, time_within};
use super::{StoreArgs, StoreEndArgs, StoreNetworkArgs};

const CHECK_EXAMPLES: &str = "\
Examples:
  weir fleet check --ledger plan.db              is all that the ledger calls done at the target, with its size?
  weir fleet check --ledger plan.db --source     and does the source still have what was planned?
  weir fleet check --ledger plan.db --digests    and has all the content that it should?
Exit codes: 0 all is done and there, 1 something is missing, differs, failed or is not done, 2 bad arguments, 130 a signal.";

const STATUS_EXAMPLES: &str = "\
Examples:
  weir fleet status --ledger plan.db                     live on a terminal, once into a pipe or file
  weir fleet status --ledger plan.db --watch -i 10s      again every ten seconds, until all is done
  weir fleet status --ledger plan.db --json --watch      the same, a JSON object a line
  weir fleet status --ledger postgres://db/fleet --metrics :9090      http://127.0.0.1:9090/metrics
Hosts that differ from the others come first. While a database is away this says so, and goes on when it is
back.
Exit codes: 0 shown, 1 the ledger cannot be used, 2 bad arguments, 130 a signal before anything was shown.";

/// `weir fleet status`.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub struct FleetStatusArgs {
    /// The ledger: a file, or postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "FILE|URL", required = true)]
    pub ledger: String,
    /// Print one JSON object; with --watch one a line.
    #[arg(long)]
    pub json: bool,
    /// Print it once, on a terminal too.
    #[arg(long, conflicts_with_all = ["watch", "metrics"])]
    pub once: bool,
    /// Print it after each interval until all is done; Ctrl-C ends it.
    #[arg(long)]
    pub watch: bool,
    /// Ask the ledger after each interval of TIME; less often where its answers take long.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = parse_pause)]
    pub interval: Duration,
    /// Serve OpenMetrics text at http://ADDR:PORT/metrics until Ctrl-C; ':PORT' is for this host alone.
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_listen)]
    pub metrics: Option<SocketAddr>,
}

/// Oftener than workers tell of themselves shows nothing more.
fn parse_pause(text: &str) -> Result<Duration, String> {
    let sensible = Duration::from_secs(1)..=Duration::from_secs(3600);
    time_within(text, sensible, "expected a time from 1s to 3600s")
}

/// `weir fleet check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct FleetCheck {
    /// The ledger: a file, or postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "FILE|URL", required = true)]
    pub ledger: String,
    /// Also list the source, and compare it with the plan.
    #[arg(long)]
    pub source: bool,
    /// Also compare the content of all that is done: with the digest that the manifest names, and with its
    /// source where that is a folder of this host. An object of a store is read where the store keeps no
    /// digest of the kind.
    #[arg(long)]
    pub digests: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// How object stores are asked.
    #[command(flatten)]
    pub store: StoreArgs,
    /// How one of two is asked.
    #[command(flatten)]
    pub ends: StoreEndArgs,
    /// How they are reached.
    #[command(flatten)]
    pub network: StoreNetworkArgs,
}

/// How objects are exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A line of comma-separated values an object, behind one of names (RFC 4180). What a spreadsheet would
    /// take for a formula has an apostrophe before it.
    Csv,
    /// A JSON object a line.
    Json,
}

/// `weir fleet export`.
#[derive(Debug, Args)]
pub struct FleetExport {
    /// The ledger: a file, or postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "FILE|URL", required = true)]
    pub ledger: String,
    /// Print in this format.
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    pub format: ExportFormat,
    /// Print those of this state alone.
    #[arg(long, value_name = "STATE", value_parser = ["waiting", "leased", "done", "failed"])]
    pub state: Option<String>,
}
