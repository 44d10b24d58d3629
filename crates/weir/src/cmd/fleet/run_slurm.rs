//! `weir fleet run --slurm`: an array of workers, submitted by `sbatch`.

use std::ffi::OsString;
use std::io::Write;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use serde_json::json;
use weir_fleet::launch::slurm::{self, SlurmArray, SlurmError};
use weir_fleet::ledger::{FleetLedger, LedgerPlace};
use weir_fleet::shell;

use super::handed::{Handed, PASSWORD};
use crate::args::FleetRun;
use crate::interrupt::{self, INTERRUPTED};
use crate::voice::{self, Printed, Usage};

/// How workers get the password of a proxy.
const PROXY_INSTEAD: &str = "set https_proxy, which sbatch hands to them";

/// Submits an array of `tasks` workers. Returns the exit code.
pub fn run(run: &FleetRun, tasks: u32) -> anyhow::Result<u8> {
    let stop = interrupt::stop()?;
    let handed = Handed::of(run, PROXY_INSTEAD)?;
    let mut array = SlurmArray {
        tasks,
        program: std::env::current_exe().context("cannot find the path of weir")?,
        words: handed.words.iter().map(OsString::from).collect(),
        options: run.slurm.sbatch.clone(),
        secrets: handed.password.iter().map(|password| (PASSWORD.to_owned(), password.clone())).collect(),
        spare: spare(run)?.map(|password| (PASSWORD.to_owned(), password)).into_iter().collect(),
        node: None,
    };
    array.check().map_err(|error| Usage(error.to_string()))?;
    if !run.slurm.print && !has_work(run, &handed, &stop)? {
        return Ok(0);
    }
    let submitted = placed(&mut array, &handed, &stop).and_then(|()| match run.slurm.print {
        true => Ok(None),
        false => array.submit(&stop).map(Some),
    });
    match submitted {
        Ok(None) => std::io::stdout().write_all(&array.script()).printed("the script").map(|()| 0),
        Ok(Some(job)) => say(run, tasks, &handed, &job).map(|()| 0),
        Err(error @ SlurmError::Interrupted { .. }) => {
            voice::warn(&error.to_string());
            Ok(INTERRUPTED)
        }
        Err(error) => Err(error.into()),
    }
}

/// The password that this host knows for the ledger, as from `~/.pgpass`, which the nodes may not have.
fn spare(run: &FleetRun) -> anyhow::Result<Option<String>> {
    match LedgerPlace::parse(&run.ledger).map_err(Usage)? {
        LedgerPlace::Database(url) => Ok(url.known_password().map_err(Usage)?),
        LedgerPlace::File(_) => Ok(None),
    }
}

/// Whether workers would find anything to do; says so where they would not.
fn has_work(run: &FleetRun, handed: &Handed, stop: &std::sync::Arc<AtomicBool>) -> anyhow::Result<bool> {
    let mut ledger = super::open(&run.ledger, stop)?;
    ledger.ends()?;
    let status = ledger.status()?;
    if status.complete {
        writeln!(std::io::stderr(), "the plan in {} is done; nothing was submitted", handed.shown)?;
    } else if status.settings.draining {
        voice::warn(&format!(
            "the fleet drains, so workers leave at once: weir fleet resume --ledger {}",
            shell::word(&handed.shown)
        ));
    }
    Ok(!status.complete)
}

/// A ledger in a file keeps all tasks on this host's node, unless nodes were named.
fn placed(array: &mut SlurmArray, handed: &Handed, stop: &AtomicBool) -> Result<(), SlurmError> {
    if let Some(file) = handed.file.as_ref().filter(|_| !array.names_nodes()) {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        array.node = Some(slurm::node_of_host(&host, file, stop)?);
    }
    Ok(())
}

fn say(run: &FleetRun, tasks: u32, handed: &Handed, job: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if run.voice.json {
        let line = json!({ "launcher": "slurm", "job": job, "workers": tasks });
        return writeln!(out, "{line}").printed("the job");
    }
    let shown = shell::word(&handed.shown);
    let text = format!(
        "submitted job {job}, an array of {tasks} workers\nfollow it: weir fleet status --ledger {shown}\n\
         end it in order: scancel {job}"
    );
    writeln!(out, "{text}").printed("the job")
}
