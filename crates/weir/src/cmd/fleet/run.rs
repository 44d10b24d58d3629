//! `weir fleet run`: workers on many hosts, by whichever launcher was named.

use super::run_hosts;
use crate::args::{FleetLauncher, FleetRun};
use crate::voice::{self, Usage};

/// Starts workers and looks after them. Returns the exit code.
pub fn run(run: &FleetRun) -> anyhow::Result<u8> {
    voice::start_log(run.voice.quiet, run.voice.verbose);
    match run.launcher() {
        Some(FleetLauncher::Hosts(hosts)) => run_hosts::run(run, hosts),
        None => Err(Usage("no host is named; write --hosts HOST,...".to_owned()).into()),
    }
}
