//! A terminal that a test holds the other end of.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

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
