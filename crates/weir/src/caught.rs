//! Signals together with who sent them, and those among them that are handed on to a command which weir runs
//! for somebody: by the command's end weir ends itself, and undoes what it set up.

use std::io;
use std::process::Child;

use libc::{SI_KERNEL, siginfo_t};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use weir_observe::process;
use weir_units::threads;

use crate::interrupt::{is_heeded, while_held};

/// What the kernel sends to a guard whose parent has gone; one that nobody else sends.
pub const PARENT_GONE: Signal = Signal::USR2;

/// Caught from the beginning, before there is a command.
pub struct Caught(SignalsInfo<WithRawSiginfo>);

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
        while_held(|| SignalsInfo::new(heeded.chain(others.iter().copied()))).map(Caught)
    }

    /// The first that came, by its number, whoever sent it: before there is a command nobody else has it.
    pub fn first(&mut self) -> Option<i32> {
        self.0.pending().next().map(|told| told.si_signo)
    }

    /// What came for the command since the last call.
    pub fn take(&mut self) -> Vec<Signal> {
        self.0.pending().filter_map(|told| meant_for_child(&told)).collect()
    }

    /// Passes them on to `child`, what came already and what will come.
    pub fn pass_on_to(self, child: &Child) -> io::Result<()> {
        // Not by its number, which is another process's some time after its end.
        let child = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let Caught(mut signals) = self;
        threads::start("signals", move || {
            for signal in signals.forever().filter_map(|told| meant_for_child(&told)) {
                // It may have ended: then there is nobody to tell.
                let _ = pidfd_send_signal(&child, signal);
            }
        })?;
        Ok(())
    }
}

fn meant_for_child(told: &siginfo_t) -> Option<Signal> {
    match told.si_signo {
        SIGINT => (!is_to_all(told)).then_some(Signal::INT),
        SIGTERM => Some(Signal::TERM),
        SIGHUP => Some(Signal::HUP),
        SIGUSR2 => Some(Signal::KILL),
        _ => None,
    }
}

/// Whether the command has this one too, because it went to all of its job: Ctrl-C of the terminal, or what
/// we or processes below us sent, as the key of a live view does. It must not come twice.
fn is_to_all(told: &siginfo_t) -> bool {
    told.si_code == SI_KERNEL || sender(told).is_some_and(is_here_or_below)
}

fn is_here_or_below(sender: Pid) -> bool {
    let tree = process::tree(process::Pid(std::process::id()));
    tree.contains(&process::Pid(sender.as_raw_nonzero().get().unsigned_abs()))
}

/// Whether it may tell that the terminal has gone: the kernel says so to the leader of the terminal's
/// session, the shell, and to the job in the foreground, and the shell to its other jobs.
#[allow(unsafe_code, reason = "the safe call takes a leader outside of the PID namespace, 0, for an error")]
pub fn is_of_session(told: &siginfo_t) -> bool {
    // SAFETY: the call has no preconditions.
    told.si_code == SI_KERNEL || sender(told) == Pid::from_raw(unsafe { libc::getsid(0) })
}

#[allow(unsafe_code, reason = "the fields of a signal have no safe access")]
fn sender(told: &siginfo_t) -> Option<Pid> {
    // SAFETY: the kernel filled it in, and says of each of these signals who sent it; 0 where it did itself.
    Pid::from_raw(unsafe { told.si_pid() })
}
