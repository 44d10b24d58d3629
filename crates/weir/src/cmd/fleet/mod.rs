//! `weir fleet`, one file a command.

mod check;
mod ends;
mod export;
pub mod far;
mod handed;
mod metrics;
pub mod page;
mod plan;
mod run;
mod run_hosts;
mod run_kubernetes;
mod run_slurm;
mod status;
mod steer;
mod view;
mod work;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_fleet::FleetError;
use weir_fleet::ledger::{LedgerPlace, Patience, SqlLedger};

use crate::args::{Fleet, FleetCommand};
use crate::interrupt::INTERRUPTED;
use crate::voice::{self, Usage};

/// How long a ledger that does not answer is asked again before a command says so.
const PATIENCE: Duration = Duration::from_secs(15);

/// Does what `fleet` says. Returns the exit code.
pub fn run(fleet: &Fleet) -> anyhow::Result<u8> {
    match carry_out(fleet) {
        Err(error) if error.downcast_ref::<FleetError>().is_some_and(FleetError::is_interrupted) => {
            voice::warn(&voice::words(&error));
            Ok(INTERRUPTED)
        }
        done => done,
    }
}

fn carry_out(fleet: &Fleet) -> anyhow::Result<u8> {
    match &fleet.command {
        FleetCommand::Plan(plan) => plan::run(plan),
        FleetCommand::Work(work) => work::run(work),
        FleetCommand::Run(run) => run::run(run),
        FleetCommand::Status(status) => status::run(status),
        FleetCommand::Set(set) => steer::set(set),
        FleetCommand::Pause(steer) => steer::pause(steer),
        FleetCommand::Resume(steer) => steer::resume(steer),
        FleetCommand::Drain(steer) => steer::drain(steer),
        FleetCommand::Retry(retry) => steer::retry(retry),
        FleetCommand::Check(check) => check::run(check),
        FleetCommand::Export(export) => export::run(export),
    }
}

/// The ledger that `text` names; `stop` ends the wait for it.
fn open(text: &str, stop: &Arc<AtomicBool>) -> anyhow::Result<SqlLedger> {
    let place = LedgerPlace::parse(text).map_err(Usage)?;
    Ok(place.open(Patience { longest: PATIENCE, stop: Arc::clone(stop) })?)
}
