//! How does a client that hangs up never kill the process?

use std::mem::MaybeUninit;

/// Blocks `SIGPIPE` in the calling thread.
///
/// `send(2)` takes `MSG_NOSIGNAL`, but `sendfile(2)` and `writev(2)` have no such flag, and a program may
/// well have restored the default action so that it ends quietly in a pipeline. The signal goes to the thread
/// that wrote, so blocking it there is enough, and leaves the rest of the program as it was.
pub(crate) fn block_sigpipe() {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set before the other two read it, and the old mask is not asked
    // for.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}
