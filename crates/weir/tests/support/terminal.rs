//! A terminal that a test holds the other end of.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{Running, Sandbox};

/// Where a test types and reads, and the terminal that a program has.
pub(crate) fn terminal() -> (OwnedFd, OwnedFd) {
    let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&near).expect("a terminal of one's own");
    unlockpt(&near).expect("a terminal to open");
    let name = ptsname(&near, Vec::new()).expect("a name");
    let far =
        rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("a terminal to use");
    (near, far)
}

/// Runs `script` in a shell whose stdin and controlling terminal is one of its own. Returns both ends of it
/// too: a terminal that nobody has open is no session's any more, and a user's shell has it.
pub(crate) fn on_terminal(sandbox: &Sandbox, script: &str) -> (OwnedFd, OwnedFd, Running) {
    let (near, far) = terminal();
    // setsid makes its stdin the controlling terminal.
    let mut weir = sandbox.weir("setsid", ["-c", "sh", "-c", script]);
    weir.command.stdin(far.try_clone().expect("a terminal to hand on"));
    (near, far, weir.spawn())
}
