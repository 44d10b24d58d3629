//! `weir fleet run --hosts`: its options.

use clap::Args;
use weir_fleet::launch::hosts::MAX_WORKERS;

use super::Ssh;

/// Workers on hosts, by ssh.
#[derive(Debug, Args)]
#[command(next_help_heading = "Hosts")]
pub struct FleetHosts {
    /// Start workers on these hosts by ssh, on 'localhost' without: HOST,USER@HOST:PORT,... or a file with
    /// one a line ('-' reads stdin).
    #[arg(long, value_name = "FILE|HOST,...", group = "launcher")]
    pub hosts: Option<String>,
    /// Start so many on each host; workers=N behind a host in a file is for that one.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_WORKERS)))]
    pub workers_per_host: u32,
    /// Let the workers connect to the database by themselves, instead of asking it through ssh.
    #[arg(long)]
    pub ledger_from_hosts: bool,
    /// How ssh is called.
    #[command(flatten)]
    pub ssh: Ssh,
}
