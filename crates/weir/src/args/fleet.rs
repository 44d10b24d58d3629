//! `weir fleet`: its commands.

use clap::{Args, Subcommand};

use super::FleetWork;

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
    /// Move batches of a plan until it is done, beside other workers on this host and others.
    Work(Box<FleetWork>),
}
