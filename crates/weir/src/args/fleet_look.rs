//! `weir fleet status`, `check` and `export`: their options.

use clap::{Args, ValueEnum};

use super::{StoreArgs, StoreNetworkArgs};

const CHECK_EXAMPLES: &str = "\
Examples:
  weir fleet check --ledger plan.db              is all that the ledger calls done at the target, with its size?
  weir fleet check --ledger plan.db --source     and does the source still have what was planned?
  weir fleet check --ledger plan.db --digests    and have files the content that they should?
Exit codes: 0 all is done and there, 1 something is missing, differs, failed or is not done, 2 bad arguments, 130 a signal.";

/// `weir fleet status`.
#[derive(Debug, Args)]
pub struct FleetStatusArgs {
    /// The ledger: a file, or postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "FILE|URL", required = true)]
    pub ledger: String,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
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
    /// Also compare the content of all files that are done, in a folder of this host: with their source where that is
    /// a folder too, else with the digest that the manifest names.
    #[arg(long)]
    pub digests: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// How object stores are asked.
    #[command(flatten)]
    pub store: StoreArgs,
    /// How they are reached.
    #[command(flatten)]
    pub network: StoreNetworkArgs,
}

/// How objects are exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A line of comma-separated values an object, behind one of names (RFC 4180).
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
