//! `weir fleet run`: workers on many hosts, by whichever launcher was named.

use super::{run_hosts, run_kubernetes, run_slurm};
use crate::args::{FleetLauncher, FleetRun};
use crate::voice::{self, Usage};

/// Starts workers and looks after them. Returns the exit code.
pub fn run(run: &FleetRun) -> anyhow::Result<u8> {
    voice::start_log(run.voice.quiet, run.voice.verbose);
    match run.launcher() {
        Some(FleetLauncher::Hosts(hosts)) => run_hosts::run(run, hosts),
        Some(FleetLauncher::Slurm(tasks)) => run_slurm::run(run, tasks),
        Some(FleetLauncher::Kubernetes(workers)) => run_kubernetes::run(run, workers),
        None => {
            Err(Usage("no workers are named; write --hosts HOST,..., --slurm N or --kubernetes N".to_owned())
                .into())
        }
    }
}
