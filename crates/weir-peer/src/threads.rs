//! Threads of an end. The system may refuse one (`ulimit -u`, pids.max of a control group, memory): of several that do the same the
//! others do its work, and without one that there is only once the session ends with a word, at both ends.

use std::io;

use crate::end::{Event, Events};
use crate::error::Error;

/// A thread, or why not.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Why a lane is none: the system gave no thread for it.
pub(crate) fn none_for_it(why: &io::Error) -> String {
    format!("no thread for it: {}", weir_units::plain(why))
}

impl Events {
    /// A thread without which a session cannot go on.
    pub(crate) fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) {
        if let Err(source) = start(name, work) {
            self.send(Event::Failed(Error::Threads { source }));
        }
    }

    /// So many threads that do the same, or fewer where the system refuses some; one at least, or the session cannot go on.
    pub(crate) fn spawn_several<W: FnOnce() + Send + 'static>(
        &self,
        name: &str,
        count: u32,
        work: impl Fn() -> W,
    ) {
        for started in 0..count {
            match start(name, work()) {
                Ok(()) => {}
                Err(source) if started == 0 => return self.send(Event::Failed(Error::Threads { source })),
                Err(why) => {
                    return tracing::warn!(
                        "{name}: {started} threads instead of {count}: {}",
                        weir_units::plain(&why)
                    );
                }
            }
        }
    }
}
