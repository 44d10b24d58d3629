//! Ctrl-C and its kin: the first asks a command to come to its end, a second ends it at once.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use anyhow::Context;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level};

/// The exit code of a command that a signal ended: 128 and SIGINT, as a shell has it.
pub const INTERRUPTED: u8 = 128 + SIGINT as u8;

/// Signals this close to one another, in milliseconds, are one wish: `timeout` and a shell that ends its jobs
/// send theirs to the process and to its group, milliseconds apart. Nobody presses Ctrl-C twice in so short a
/// time because once did not help.
const ONE_WISH: u64 = 250;

/// What a signal says after those that came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// The first of all.
    End,
    /// The same wish once more.
    Same,
    /// Another one: it shall end at once.
    AtOnce,
}

/// When the first signal came.
#[derive(Debug)]
pub struct Wishes {
    first: AtomicU64,
}

impl Wishes {
    /// None yet.
    pub fn new() -> Wishes {
        Wishes { first: AtomicU64::new(u64::MAX) }
    }

    /// A signal comes now. May be asked in a handler (signal-safety(7)): an atomic and clock_gettime are all
    /// that it uses.
    pub fn hear(&self) -> Says {
        self.hear_at(monotonic())
    }

    fn hear_at(&self, now: u64) -> Says {
        // The earliest of all: of two handlers at once either may be first.
        match self.first.fetch_min(now, Relaxed) {
            u64::MAX => Says::End,
            first if now.saturating_sub(first) < ONE_WISH => Says::Same,
            _ => Says::AtOnce,
        }
    }
}

/// Signals as a program needs them, whatever became of them in the one that started it. Some leave those
/// blocked that ask for an end, which would never be heard; where SIGCHLD is ignored the kernel keeps no exit
/// code of a command (wait(2)). And a file that may not grow further (RLIMIT_FSIZE) is an error of that file,
/// as on a full disk: without a handler the signal would end the program without a word.
#[allow(unsafe_code, reason = "neither the mask nor the action of a signal has a safe call")]
pub fn begin() -> anyhow::Result<()> {
    let set = set_of(&[SIGINT, SIGTERM, SIGHUP, SIGCHLD]);
    // SAFETY: the set is initialised, and the action is the system's own.
    unsafe {
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::signal(SIGCHLD, libc::SIG_DFL);
    }
    flag::register(SIGXFSZ, Arc::default()).context("cannot listen to signals")?;
    Ok(())
}

/// What SIGINT and SIGTERM set from now on.
pub fn stop() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    on_signals(&[SIGINT, SIGTERM], &stop, || low_level::exit(INTERRUPTED.into()))?;
    Ok(stop)
}

/// The same of a command whose work outlives a process that is killed: mounts, devices, limits, settings of
/// the machine. SIGHUP stops it in order too, and a second one never at once: the terminal and its shell may
/// each send one.
pub fn stop_and_undo() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = stop()?;
    if is_heeded(&SIGHUP) {
        while_held(|| flag::register(SIGHUP, Arc::clone(&stop)))?;
    }
    Ok(stop)
}

/// Whether the signal is listened to: not where whoever started this program has it ignored, as nohup(1) does
/// with SIGHUP, and a shell with SIGINT for what a script runs in the background.
pub(crate) fn is_heeded(signal: &i32) -> bool {
    !is_ignored(*signal)
}

#[allow(unsafe_code, reason = "what becomes of a signal has no safe question")]
fn is_ignored(signal: i32) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call changes nothing; it writes the present one, which is read once
    // that succeeded.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) == 0
            && now.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Sets `stop` at each of these signals that is heeded, and does `at_once` at one that is a wish of its own
/// after another: when it comes, since a thread that is told of it may get to it as late as the next one
/// comes. `at_once` is done in the handler, and may only do what may be done there.
#[allow(unsafe_code, reason = "a signal handler that looks at the clock")]
pub(crate) fn on_signals(
    signals: &[i32],
    stop: &Arc<AtomicBool>,
    at_once: impl Fn() + Clone + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let wishes = Arc::new(Wishes::new());
    while_held(|| {
        for signal in signals.iter().filter(|signal| is_heeded(signal)) {
            let (stop, wishes, at_once) = (Arc::clone(stop), Arc::clone(&wishes), at_once.clone());
            let asked = move || {
                stop.store(true, Relaxed);
                if wishes.hear() == Says::AtOnce {
                    at_once();
                }
            };
            // SAFETY: it stores to an atomic, hears (see there) and does what its caller promises may be done
            // in a handler (signal-safety(7)).
            unsafe { low_level::register(*signal, asked)? };
        }
        Ok(())
    })
}

/// Begins to catch signals while those that end a program wait. signal-hook has its handler in place a moment
/// before that knows what to do (`register` in its documentation), and one that came in between was lost.
pub(crate) fn while_held<T>(begin: impl FnOnce() -> T) -> T {
    while_blocked(&[SIGINT, SIGTERM, SIGHUP], begin)
}

/// Does this while these signals wait, as far as they are meant for this thread.
#[allow(unsafe_code, reason = "the thread's mask of signals has no safe call")]
pub(crate) fn while_blocked<T>(signals: &[i32], act: impl FnOnce() -> T) -> T {
    let blocked = set_of(signals);
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised, and `before` is written by the call that blocks and read once that
    // succeeded.
    let is_blocked =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, before.as_mut_ptr()) == 0 };
    let done = act();
    if is_blocked {
        // SAFETY: as above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    done
}

#[allow(unsafe_code, reason = "a set of signals has no safe calls")]
fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set before the others use it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// While the flag is set SIGINT and SIGTERM end the program at once: for as long as there is nothing to leave
/// in order.
pub fn at_once_while_set() -> anyhow::Result<Arc<AtomicBool>> {
    let nothing_to_lose = Arc::new(AtomicBool::new(true));
    while_held(|| -> anyhow::Result<()> {
        for signal in [SIGINT, SIGTERM].into_iter().filter(is_heeded) {
            flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&nothing_to_lose))?;
        }
        Ok(())
    })?;
    Ok(nothing_to_lose)
}

/// Milliseconds of a clock that only goes forward.
fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "a signal for one thread alone")]
    fn what_comes_while_it_is_registered_is_heard() {
        let heard = Arc::new(AtomicBool::new(false));
        while_held(|| {
            // SAFETY: this thread is one that runs.
            unsafe { libc::pthread_kill(libc::pthread_self(), SIGHUP) };
            flag::register(SIGHUP, Arc::clone(&heard)).unwrap();
        });
        assert!(heard.load(Relaxed));
    }

    #[test]
    fn only_a_signal_of_its_own_ends_at_once() {
        let wishes = Wishes::new();
        let heard = [5000, 5003, 5249, 5250, 9000].map(|at| wishes.hear_at(at));
        assert_eq!(heard, [Says::End, Says::Same, Says::Same, Says::AtOnce, Says::AtOnce]);
    }
}
