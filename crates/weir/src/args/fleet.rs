//! `weir fleet`: its commands.

use clap::{Args, Subcommand};

use super::{
    FleetCheck, FleetExport, FleetPlan, FleetRetry, FleetRun, FleetSet, FleetStatusArgs, FleetSteer,
    FleetWork,
};

/// `weir fleet`.
#[derive(Debug, Args)]
pub struct Fleet {
    /// What to do.
    #[command(subcommand)]
    pub command: FleetCommand,
}

/// What there is to do with a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Write what is to be moved into a ledger: from a folder, a store, or a list.
    Plan(Box<FleetPlan>),
    /// Move batches of a plan until it is done, beside other workers on this host and others.
    Work(Box<FleetWork>),
    /// Start workers on many hosts and look after them until the plan is done.
    Run(Box<FleetRun>),
    /// Show where a fleet stands: what is done, who works, what failed.
    Status(FleetStatusArgs),
    /// Change how many workers have batches, how fast hosts are, and at which hours, while they work.
    Set(FleetSet),
    /// Give out no batch until resume; what is held is moved to its end.
    Pause(FleetSteer),
    /// Give out batches again, after pause or drain.
    Resume(FleetSteer),
    /// Let workers end what they hold, and leave.
    Drain(FleetSteer),
    /// Try again what was given up.
    Retry(FleetRetry),
    /// Compare the ledger with what is at the target; name what differs.
    Check(Box<FleetCheck>),
    /// Print every object and what became of it, as CSV or JSON lines.
    Export(FleetExport),
}
