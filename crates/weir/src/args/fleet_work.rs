//! `weir fleet work`: its options.

use clap::Args;

use super::{Voice, WorkerArgs};

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
    /// Call this host so in the ledger [default: its host name].
    #[arg(long, value_name = "HOST")]
    pub name: Option<String>,
    /// Leave when no batch is free now, instead of waiting for what others hold.
    #[arg(long)]
    pub once: bool,
    /// How much is said.
    #[command(flatten)]
    pub voice: Voice,

    /// How it moves.
    #[command(flatten)]
    pub worker: WorkerArgs,
}
