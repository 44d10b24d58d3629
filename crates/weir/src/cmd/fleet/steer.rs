//! `weir fleet set`, `pause`, `resume`, `drain` and `retry`: what is changed while a fleet works.

use std::io::Write;

use weir_fleet::class::FailureClass;
use weir_fleet::ledger::FleetSettings;

use crate::args::{FleetRetry, FleetSet, FleetSteer};
use crate::interrupt;
use crate::voice::{Printed, Usage};

/// Changes what is given. Returns the exit code.
pub fn set(set: &FleetSet) -> anyhow::Result<u8> {
    change(&set.ledger, &|settings| {
        if let Some(workers) = &set.workers {
            settings.workers = workers.0;
        }
        if let Some(rate) = &set.limit_rate {
            settings.rate = rate.0;
        }
        if let Some(window) = &set.window {
            settings.window.clone_from(&window.0);
        }
    })
}

/// No batch is given out. Returns the exit code.
pub fn pause(steer: &FleetSteer) -> anyhow::Result<u8> {
    change(&steer.ledger, &|settings| settings.paused = true)
}

/// Batches are given out again. Returns the exit code.
pub fn resume(steer: &FleetSteer) -> anyhow::Result<u8> {
    change(&steer.ledger, &|settings| (settings.paused, settings.draining) = (false, false))
}

/// Workers end what they have. Returns the exit code.
pub fn drain(steer: &FleetSteer) -> anyhow::Result<u8> {
    change(&steer.ledger, &|settings| settings.draining = true)
}

fn change(ledger: &str, change: &dyn Fn(&mut FleetSettings)) -> anyhow::Result<u8> {
    let stop = interrupt::stop()?;
    let settings = super::open(ledger, &stop)?.set(change)?;
    writeln!(std::io::stdout(), "{}", super::view::settings(&settings)).printed("the settings")?;
    Ok(0)
}

/// Tries again what was given up. Returns the exit code.
pub fn retry(retry: &FleetRetry) -> anyhow::Result<u8> {
    let class = |name: &String| {
        FailureClass::parse(name).ok_or_else(|| {
            let all: Vec<_> = FailureClass::ALL.iter().map(|class| class.name()).collect();
            let name = weir_units::quoted(name);
            Usage(format!("invalid class '{name}': expected one of {}", all.join(", ")))
        })
    };
    let classes = retry.classes.iter().map(class).collect::<Result<Vec<_>, _>>()?;
    let stop = interrupt::stop()?;
    let objects = super::open(&retry.ledger, &stop)?.retry(&classes)?;
    writeln!(std::io::stdout(), "{objects} objects wait for another attempt").printed("their number")?;
    Ok(0)
}
