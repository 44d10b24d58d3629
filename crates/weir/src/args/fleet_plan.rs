//! `weir fleet plan`: its options.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::{StoreArgs, StoreEndArgs, StoreNetworkArgs};

const PLAN_EXAMPLES: &str = "\
Examples:
  weir fleet plan /data/ s3://bucket/data/ --ledger plan.db             the files of a folder, into a store
  weir fleet plan s3://bucket/ /mnt/all/ --ledger postgres://db/fleet   all objects of a bucket, for many hosts
  weir fleet plan https://host/d/ /mnt/d/ --ledger plan.db              what a web server lists, folder by folder
  weir fleet plan s3://bucket/a/ gs://other/a/ --ledger plan.db         from one store into another, through the workers
  weir fleet plan --list names https://host/d/ /mnt/d/ --ledger l.db    what a list names below a URL
  weir ls -r s3://b/ | weir fleet plan --list - s3://b/ /mnt/ --ledger l.db
A line of a list is a name below SRC, and behind a TAB each its name at DST, its size in bytes and
its digest (sha256:HEX), where you know them.
DIR/ is the content of a folder, DIR keeps its name at DST. Links, devices and empty folders are left out and counted.
A plan that was interrupted is never complete: run the same command again, and it goes on. Objects that share a target
are refused by name. A web server's list is read as nginx, Apache, lighttpd, Caddy, Python and weir make it; of what leads
elsewhere nothing is taken, and what cannot be listed is an error.
Exit codes: 0 planned, 1 something cannot be read or the ledger cannot be used, 2 bad arguments, 130 a signal.";

/// `weir fleet plan`.
#[derive(Debug, Args)]
#[command(after_help = PLAN_EXAMPLES)]
pub struct FleetPlan {
    /// What is moved: a folder, a prefix of a store (s3://BUCKET/PREFIX/), or a URL that lists files.
    #[arg(value_name = "SRC")]
    pub source: OsString,
    /// Where to: a folder that all workers see, a prefix of a store, or /dev/null, which keeps nothing.
    #[arg(value_name = "DST")]
    pub target: OsString,
    /// Write the plan into this ledger: a new file, or postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "FILE|URL", required = true)]
    pub ledger: String,
    /// Plan what FILE names below SRC, a name a line ('-' reads stdin).
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Leave out what cannot be read or has no name at DST, and say so, instead of refusing the plan.
    #[arg(long)]
    pub skip_bad: bool,
    /// Try each object N times before it is given up.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub attempts: u64,
    /// Print one JSON object at the end.
    #[arg(long)]
    pub json: bool,
    /// Print errors only, and with --json its object.
    #[arg(short, long)]
    pub quiet: bool,

    /// How object stores are asked.
    #[command(flatten)]
    pub store: StoreArgs,
    /// How one of two is asked.
    #[command(flatten)]
    pub ends: StoreEndArgs,
    /// How they are reached.
    #[command(flatten)]
    pub network: StoreNetworkArgs,
    /// Print decisions and their reasons; repeat for more.
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
}
