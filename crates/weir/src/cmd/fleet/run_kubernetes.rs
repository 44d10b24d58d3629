//! `weir fleet run --kubernetes`: the manifest of a Job of workers, printed or applied.

use std::io::Write;

use weir_fleet::launch::kubernetes::{KubernetesError, KubernetesJob, is_on_claim};
use weir_fleet::shell;

use super::handed::{Handed, PASSWORD};
use crate::args::FleetRun;
use crate::interrupt::{self, INTERRUPTED};
use crate::voice::{self, Printed, Usage};

/// How workers get the password of a proxy.
const PROXY_INSTEAD: &str = "let a Secret have a key https_proxy, and name it by --secret";

/// Prints or applies a Job of `workers`. Returns the exit code.
pub fn run(run: &FleetRun, workers: u32) -> anyhow::Result<u8> {
    let stop = interrupt::stop()?;
    let handed = Handed::of(run, PROXY_INSTEAD)?;
    let job = job(run, workers, &handed)?;
    job.check().map_err(|error| Usage(error.to_string()))?;
    let mut out = std::io::stdout().lock();
    if !run.kubernetes.apply {
        let text = if run.voice.json { format!("{:#}\n", job.manifest()) } else { job.yaml() };
        return out.write_all(text.as_bytes()).printed("the manifest").map(|()| 0);
    }
    match job.apply(&stop) {
        Ok(said) => {
            let (name, shown) = (&job.name, shell::word(&handed.shown));
            let space =
                job.namespace.as_ref().map(|space| format!(" --namespace {space}")).unwrap_or_default();
            let text = format!(
                "{said}\nfollow it: weir fleet status --ledger {shown}\n\
                 end it in order: kubectl delete job {name}{space}"
            );
            writeln!(out, "{text}").printed("the job").map(|()| 0)
        }
        Err(error @ KubernetesError::Interrupted) => {
            voice::warn(&error.to_string());
            Ok(INTERRUPTED)
        }
        Err(error) => Err(error.into()),
    }
}

fn job(run: &FleetRun, workers: u32, handed: &Handed) -> Result<KubernetesJob, Usage> {
    let asked = &run.kubernetes;
    if let Some(file) = &handed.file
        && !file.to_str().is_some_and(|path| is_on_claim(path, &asked.claims))
    {
        return Err(Usage(format!(
            "cannot start pods on the ledger {}: several pods cannot share a file of this host; take a \
             PostgreSQL database (postgres://USER@HOST/DATABASE), or name the claim of a volume that has the \
             file, as --claim NAME:/FOLDER with --ledger /FOLDER/FILE",
            handed.shown
        )));
    }
    if handed.password.is_some() && asked.secrets.is_empty() {
        return Err(Usage(format!(
            "the password of {} is not written into a manifest; make a Secret that has it as {PASSWORD} \
             (kubectl create secret generic weir-fleet --from-literal={PASSWORD}=...), and name it by --secret \
             weir-fleet",
            handed.shown
        )));
    }
    Ok(KubernetesJob {
        name: asked.job_name.clone(),
        namespace: asked.namespace.clone(),
        image: asked.image.clone().unwrap_or_default(),
        workers,
        words: handed.words.clone(),
        secrets: asked.secrets.clone(),
        claims: asked.claims.clone(),
        cpu: asked.cpu.clone(),
        memory: asked.memory.clone(),
        service_account: asked.service_account.clone(),
        on_one_node: handed.file.is_some(),
    })
}
