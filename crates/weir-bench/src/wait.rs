//! Waiting that ends: by the thing waited for, by a deadline, or because nobody wants it any more.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

/// How often a wait looks whether it is still wanted: a tenth of what a person takes for at once.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits until `fd` is ready for `flags` or has failed. False at the deadline, or once `stop` is set.
pub(crate) fn ready(fd: impl AsFd, flags: PollFlags, until: Instant, stop: &AtomicBool) -> io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if poll_once(fd.as_fd(), flags, left.min(POLL_INTERVAL))? {
            return Ok(true);
        }
        if left.is_zero() || stop.load(Relaxed) {
            return Ok(false);
        }
    }
}

fn poll_once(fd: impl AsFd, flags: PollFlags, span: Duration) -> io::Result<bool> {
    let mut polled = [PollFd::new(&fd, flags)];
    let span = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) };
    match poll(&mut polled, Some(&span)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Sleeps until `until`; false if `stop` was set before.
pub(crate) fn pause(until: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Relaxed) {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(POLL_INTERVAL));
    }
}
