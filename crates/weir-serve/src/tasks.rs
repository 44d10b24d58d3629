//! Where do the async connections run?

use std::future::Future;
use std::io;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

use crate::signal::block_sigpipe;

/// Threads that wait for a disk at the same time, for files to be found and bytes to be read: as deep as the
/// queue of a fast disk is. Each takes memory, and those that a dead network file system holds are lost to
/// the others.
const MOST_BLOCKING: usize = 128;

/// A tokio runtime that starts with its first task: a server of plain HTTP/1.1 never has one.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Mutex<Option<Runtime>>);

impl Tasks {
    /// Runs a task to its end, or to the end of this value; fails only when no thread can be started.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        let mut runtime = self.0.lock();
        if runtime.is_none() {
            *runtime = Some(start()?);
        }
        if let Some(runtime) = &*runtime {
            runtime.spawn(task);
        }
        Ok(())
    }
}

fn start() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .thread_name("weir-serve-task")
        .max_blocking_threads(MOST_BLOCKING)
        .on_thread_start(block_sigpipe)
        .enable_all()
        .build()
}

impl Drop for Tasks {
    /// A runtime that is simply dropped waits for its threads, and panics where waiting is not allowed.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.get_mut().take() {
            runtime.shutdown_background();
        }
    }
}
