//! `weir lab`: how does it behave on a slow path? Each of its commands is a file here.

mod guard;
mod list;
mod run;
mod scenarios;
mod shell;
mod show;
mod table;

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::args::{Lab, LabCommand};

/// Returns the exit code.
pub fn run(lab: &Lab) -> anyhow::Result<u8> {
    match &lab.command {
        LabCommand::List => list::run(),
        LabCommand::Show(show) => show::run(show),
        LabCommand::Run(run) => {
            // Before anything else starts a thread: a process with several cannot change its user namespace.
            weir_lab::privilege::enter()?;
            run::run(run)
        }
        LabCommand::Shell(shell) => {
            weir_lab::privilege::enter()?;
            shell::run(shell)
        }
        LabCommand::Guard(guard) => guard::run(guard),
    }
}

/// A command's exit code, or 128 and its signal, as shells have it.
fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => 1,
    }
}
