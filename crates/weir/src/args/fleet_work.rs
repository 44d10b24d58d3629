//! `weir fleet work`: its options.

use std::time::Duration;

use clap::Args;
use weir_units::Rate;

use super::values::time_within;
use super::{StoreArgs, StoreNetworkArgs, Voice, parse_lanes};

const WORK_EXAMPLES: &str = "\
Examples:
  weir fleet work --ledger plan.db                       move what the plan has, beside others here
  weir fleet work --ledger postgres://fleet@db/fleet     the same on any host, as often as you like
  weir fleet work --ledger plan.db --once                leave when no batch is free now
  srun -N 8 weir fleet work --ledger postgres://...      one on each of eight hosts
A worker holds a batch by a lease, and renews it while bytes move; when it is killed, others get the batch.
Nothing at the target is overwritten: what is there already is done if it is the same, else its object fails.
SIGTERM ends what is held and leaves within 20 s; SIGINT gives it back at once.
Exit codes: 0 all is done, or there is nothing for this worker; 1 objects were given up, or the ledger cannot
be used; 2 bad arguments; 4 this host can move nothing (no credentials, a full disk) and gave its batches
back; 130 a signal.";

/// `weir fleet work`.
#[derive(Debug, Args)]
#[command(after_help = WORK_EXAMPLES)]
pub struct FleetWork {
    /// The ledger: a file, or postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "FILE|URL", required = true)]
    pub ledger: String,
    /// Fix the number of connections, or of copies at once [default: as many as help].
    #[arg(short = 'c', long, value_name = "N", value_parser = parse_lanes)]
    pub lanes: Option<u32>,
    /// Do not go faster than this, in bytes per second (50M), whatever the fleet allows.
    #[arg(long, value_name = "RATE")]
    pub limit_rate: Option<Rate>,
    /// Call this host so in the ledger [default: its host name].
    #[arg(long, value_name = "HOST")]
    pub name: Option<String>,
    /// Leave when no batch is free now, instead of waiting for what others hold.
    #[arg(long)]
    pub once: bool,
    /// Hold a batch for so long without a sign of life; a shorter time gives it to others sooner.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_lease)]
    pub lease: Duration,
    /// How much is said.
    #[command(flatten)]
    pub voice: Voice,

    /// How object stores are asked.
    #[command(flatten)]
    pub store: StoreArgs,
    /// How they are reached.
    #[command(flatten)]
    pub network: StoreNetworkArgs,
}

/// Three renewals in it, each an answer of a busy database; and no longer than anybody waits for a dead host.
fn parse_lease(text: &str) -> Result<Duration, String> {
    let sensible = Duration::from_secs(1)..=Duration::from_secs(3600);
    time_within(text, sensible, "expected a time from 1s to 3600s")
}
