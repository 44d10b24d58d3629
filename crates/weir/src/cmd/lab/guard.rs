//! `weir lab guard`, hidden: runs the command of `weir lab shell`, and ends with it all that the command
//! started.
//!
//! A process of its own, because one that is killed can undo nothing: when `weir lab shell` dies, of
//! whatever, the kernel tells its guard. As a subreaper (prctl(2)) the guard is the parent of all processes
//! below it whose own parent has gone, so that it finds them.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use anyhow::Context;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};
use weir_lab::child::die_with_parent;
use weir_observe::process;

use super::exit_code;
use crate::args::LabGuard;
use crate::caught::{Caught, PARENT_GONE};
use crate::stdout;
use crate::voice::CannotRun;

/// As shells have it: there is no such command.
const NO_COMMAND: u8 = 127;

/// A guard of this thread, for `command` and its arguments.
pub fn command(command: &[OsString]) -> anyhow::Result<Command> {
    let weir = std::env::current_exe().context("cannot find this program's own file")?;
    let mut guard = Command::new(weir);
    guard.args(["lab", "guard", "--"]).args(command);
    if stdout::was_closed() {
        // Ours is a pipe that nobody reads: SIGPIPE would end a command that prints a word.
        guard.stdout(Stdio::null());
    }
    die_with_parent(&mut guard, PARENT_GONE);
    Ok(guard)
}

/// Runs the command. Returns its exit code.
pub fn run(guard: &LabGuard) -> anyhow::Result<u8> {
    let signals = Caught::or_parent_gone()?;
    set_child_subreaper(Some(getpid())).context("cannot watch over the command's children")?;
    let Some((program, arguments)) = guard.command.split_first() else { return Ok(NO_COMMAND) };
    let mut command = Command::new(program);
    command.args(arguments);
    // For the case that the guard itself is killed.
    die_with_parent(&mut command, Signal::KILL);
    let mut child = command.spawn().map_err(|cause| CannotRun::new(program, &cause))?;
    signals.pass_on_to(&child)?;
    let status = child.wait().context("cannot wait for the command")?;
    end_descendants();
    Ok(exit_code(status))
}

/// Ends what the command left running.
fn end_descendants() {
    let own = process::Pid(std::process::id());
    loop {
        let ended = process::tree(own).iter().skip(1).filter(|pid| kill(**pid)).count();
        // What another user's rights protect is left alone: waiting for it could take forever.
        if ended == 0 || wait(WaitOptions::empty()).is_err() {
            return;
        }
    }
}

fn kill(pid: process::Pid) -> bool {
    let pid = i32::try_from(pid.0).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}
