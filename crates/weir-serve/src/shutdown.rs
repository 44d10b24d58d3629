//! How do blocking threads, sleeping ones and async tasks all learn that the server stops?

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tokio::sync::watch;

/// A switch that ends [`Server::run`](crate::Server::run) once, for good; clones share it.
///
/// Not for use inside a signal handler itself; a thread that waits for signals may call
/// [`stop`](Shutdown::stop).
#[derive(Debug, Clone)]
pub struct Shutdown(Arc<Switch>);

#[derive(Debug)]
struct Switch {
    /// For threads: becomes readable and is never read, so every poller sees it.
    event: OwnedFd,
    /// For tasks.
    flag: watch::Sender<bool>,
}

impl Shutdown {
    /// A switch not yet thrown; fails only when the process is out of descriptors.
    pub fn new() -> io::Result<Shutdown> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Shutdown(Arc::new(Switch { event, flag: watch::Sender::new(false) })))
    }

    /// Asks the server to stop: it accepts nobody else, and its connections are closed as they are once
    /// [`Config::drain`](crate::Config::drain) is over.
    pub fn stop(&self) {
        self.0.flag.send_replace(true);
        // Fails only if the counter is full, and then it is readable already.
        let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
    }

    /// Whether [`stop`](Shutdown::stop) was called.
    pub fn is_stopped(&self) -> bool {
        *self.0.flag.borrow()
    }

    /// Resolves when [`stop`](Shutdown::stop) is called.
    pub(crate) async fn stopped(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.0.flag.subscribe().wait_for(|stopped| *stopped).await;
    }

    /// Sleeps, but wakes at once when the server stops.
    pub(crate) fn sleep(&self, span: Duration) {
        if let Ok(timeout) = Timespec::try_from(span) {
            // An interrupted sleep is a short one; callers that need an exact time ask the clock again.
            let _ = poll(&mut [PollFd::new(&self.0.event, PollFlags::IN)], Some(&timeout));
        }
    }
}

impl AsFd for Shutdown {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
