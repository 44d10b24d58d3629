//! A worker that `weir fleet run` started by ssh: told over its connection what is to be done.

use clap::Parser;
use weir_cp::peer::HandedOver;
use weir_fleet::launch::far_ledger::{self, HubLine};
use weir_fleet::launch::wire::{Farewell, WorkOrder};
use weir_fleet::ledger::{FleetLedger, LedgerPlace, Patience};
use weir_fleet::worker::WorkerReport;

use super::{PATIENCE, work};
use crate::args::{Cli, Command, Fleet, FleetCommand, FleetWork};
use crate::live::Live;
use crate::voice;

/// Works. Returns the exit code.
pub fn run(handed: HandedOver) -> anyhow::Result<u8> {
    let HandedOver { mut input, output, .. } = handed;
    let signals = work::signals()?;
    let order = far_ledger::order(&mut input).map_err(anyhow::Error::msg)?;
    let line = HubLine::open(input, output, &signals)?;
    let patience = Patience { longest: PATIENCE, stop: signals.stop.clone() };
    let mut live = Live::new(false, 2);
    let works = |work: &FleetWork, ledger: &mut dyn FleetLedger, live: &mut Live| {
        farewell(&work::carry_out(work, ledger, &signals, live).map(|(_, report)| report))
    };
    let work = words(&order);
    let said = match (&work, &order.ledger) {
        (Err(why), _) => line.farewell(Farewell::unable(why.clone())),
        (Ok(work), Some(url)) => {
            let said = match LedgerPlace::Database(url.clone()).open(patience) {
                Ok(mut ledger) => works(work, &mut ledger, &mut live),
                Err(error) => farewell(&Err(error.into())),
            };
            line.farewell(said)
        }
        (Ok(work), None) => {
            let mut ledger = line.ledger(patience);
            let said = works(work, &mut ledger, &mut live);
            ledger.line().farewell(said)
        }
    };
    Ok(u8::from(!said))
}

/// The words of an order, as the command line of a worker.
fn words(order: &WorkOrder) -> Result<FleetWork, String> {
    let name = format!("--name={}", order.host);
    let words = ["weir", "fleet", "work", "--ledger=run", &name].map(str::to_owned);
    let parsed = Cli::try_parse_from(words.into_iter().chain(order.words.iter().cloned()));
    match parsed.map(|cli| cli.command) {
        Ok(Command::Fleet(Fleet { command: FleetCommand::Work(work) })) => Ok(*work),
        Ok(_) => Err("it was told to do something else than to work".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn farewell(worked: &anyhow::Result<WorkerReport>) -> Farewell {
    match worked {
        Ok(report) => Farewell::of(report),
        Err(error) => Farewell::unable(voice::words(error)),
    }
}
