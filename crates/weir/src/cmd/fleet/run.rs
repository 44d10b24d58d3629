//! `weir fleet run`: workers on many hosts, by whichever launcher was named.

use super::{kubernetes, slurm};
use crate::args::{FleetLauncher, FleetRun};
use crate::voice::{self, Usage};

/// Starts workers and looks after them. Returns the exit code.
pub fn run(run: &FleetRun) -> anyhow::Result<u8> {
    voice::start_log(run.voice.quiet, run.voice.verbose);
    match run.launcher() {
        Some(FleetLauncher::Hosts(_)) => Err(Usage("not yet".to_owned()).into()),
        Some(FleetLauncher::Slurm(tasks)) => slurm::run(run, tasks),
        Some(FleetLauncher::Kubernetes(workers)) => kubernetes::run(run, workers),
        None => Err(Usage("no hosts are named; write --hosts HOST,...".to_owned()).into()),
    }
}
