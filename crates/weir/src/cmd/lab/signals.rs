//! Signals that ask a program to end, passed on to the command that it runs for somebody: by the command's
//! end it ends itself, and undoes what it set up.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{
    Pid, PidfdFlags, Signal, getpgrp, getpid, getppid, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal,
};
use rustix::termios::tcgetpgrp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::iterator::Signals;
use weir_units::threads;

use crate::interrupt::{is_heeded, while_held};

/// What the kernel sends to a guard whose parent has gone; one that nobody else sends.
pub const PARENT_GONE: Signal = Signal::USR2;

/// Caught from the beginning; what comes before there is a command waits for it.
pub struct Caught(Signals);

impl Caught {
    /// Begins to catch them.
    pub fn new() -> io::Result<Caught> {
        Caught::and(&[])
    }

    /// And [`PARENT_GONE`], by which the command is killed.
    pub fn or_parent_gone() -> io::Result<Caught> {
        Caught::and(&[SIGUSR2])
    }

    fn and(others: &[i32]) -> io::Result<Caught> {
        let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_heeded);
        while_held(|| Signals::new(heeded.chain(others.iter().copied()))).map(Caught)
    }

    /// Passes them on to `child`, what came already and what will come.
    pub fn pass_on_to(self, child: &Child) -> io::Result<()> {
        // Not by its number, which is another process's some time after its end.
        let child = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let Caught(mut signals) = self;
        threads::start("signals", move || {
            for signal in signals.forever().filter_map(meant_for_child) {
                // It may have ended: then there is nobody to tell.
                let _ = pidfd_send_signal(&child, signal);
            }
        })?;
        Ok(())
    }
}

fn meant_for_child(number: i32) -> Option<Signal> {
    match number {
        SIGINT => (!terminal_tells_all()).then_some(Signal::INT),
        SIGTERM => Some(Signal::TERM),
        SIGHUP => Some(Signal::HUP),
        SIGUSR2 => Some(Signal::KILL),
        _ => None,
    }
}

/// Whether Ctrl-C reaches the command too, because both are the terminal's foreground: it must not come
/// twice.
fn terminal_tells_all() -> bool {
    File::open("/dev/tty").is_ok_and(|terminal| tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp()))
}

/// Makes the process that `command` starts get `signal` when this thread ends, however it ends.
pub fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(signal))?;
        // The parent may have ended before the call above: then nobody would tell.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: the closure makes two system calls, prctl and getppid, which are allowed between fork and exec.
    unsafe { command.pre_exec(tie) };
}
