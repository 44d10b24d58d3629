//! A stdout that is closed when the program starts. The standard library would open /dev/null in its place
//! before `main`, and output would count as written; so it becomes a pipe that nobody reads.

use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::fcntl_getfd;
use rustix::pipe::pipe;
use rustix::stdio::{dup2_stdout, stdout};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Puts the pipe there. Must run before the standard library starts; it makes only system calls, and needs
/// nothing that is set up later.
pub extern "C" fn begin() {
    if fcntl_getfd(stdout()).is_ok() {
        return;
    }
    WAS_CLOSED.store(true, Relaxed);
    let Ok((read, write)) = pipe() else { return };
    let _ = dup2_stdout(&write);
    for end in [read, write] {
        // Either end may have been given stdout's number.
        if end.as_raw_fd() == stdout().as_raw_fd() {
            let _ = end.into_raw_fd();
        }
    }
}

/// Whether stdout was closed at the start.
pub(crate) fn was_closed() -> bool {
    WAS_CLOSED.load(Relaxed)
}
