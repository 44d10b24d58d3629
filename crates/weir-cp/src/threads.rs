//! Threads of an end. The system may refuse one (`ulimit -u`, pids.max of a control group, memory).

use std::io;

/// A thread, or why not.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Why a lane is none: the system gave no thread for it.
pub(crate) fn none_for_it(why: &io::Error) -> String {
    format!("no thread for it: {}", weir_units::plain(why))
}
