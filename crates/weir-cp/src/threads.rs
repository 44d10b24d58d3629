//! Threads of an end. The system may refuse one (`ulimit -u`, pids.max of a control group, memory).

use std::io;

pub(crate) use weir_units::threads::words;

/// A thread, or why not.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}
