//! A stdout that is closed when the program starts. In its place the standard library opens /dev/null before
//! `main` begins, and what goes there would count as kept; instead of that it is a pipe that nobody reads.

use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::fcntl_getfd;
use rustix::pipe::pipe;
use rustix::stdio::{dup2_stdout, stdout};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Puts the pipe there. To be called before the standard library begins: it makes some system calls, and
/// needs nothing that begins later.
pub extern "C" fn begin() {
    if fcntl_getfd(stdout()).is_ok() {
        return;
    }
    WAS_CLOSED.store(true, Relaxed);
    let Ok((read, write)) = pipe() else { return };
    let _ = dup2_stdout(&write);
    for end in [read, write] {
        // Either end may have got its number at first.
        if end.as_raw_fd() == stdout().as_raw_fd() {
            let _ = end.into_raw_fd();
        }
    }
}

/// Whether it was.
pub(crate) fn was_closed() -> bool {
    WAS_CLOSED.load(Relaxed)
}
