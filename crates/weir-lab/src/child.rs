//! One child process: started, awaited without missing its end or the user's interrupt, never left behind.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, set_parent_process_death_signal,
};

/// Between two looks at the interrupt flag; the child's own end wakes at once, so this does not blur wall
/// times.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A child at work; killed and reaped when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Readable once the child has ended.
    end: OwnedFd,
    start: Instant,
    stop: Arc<AtomicBool>,
}

/// What woke a waiting parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The child has ended.
    Ended,
    /// The other descriptor is readable.
    Ready,
}

impl Running {
    /// Starts `command`, which will not outlive the calling thread, however that ends. Once `stop` is set,
    /// every wait for it fails with [`io::ErrorKind::Interrupted`].
    pub fn start(command: &mut Command, stop: &Arc<AtomicBool>) -> io::Result<Running> {
        die_with_parent(command, Signal::KILL);
        let start = Instant::now();
        let mut child = command.spawn()?;
        let end =
            pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).inspect_err(|_| end_of(&mut child))?;
        Ok(Running { child, end, start, stop: Arc::clone(stop) })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end. Returns how it ended and the wall time since the start.
    pub fn finish(mut self) -> io::Result<(ExitStatus, Duration)> {
        self.wait(None)?;
        let wall = self.start.elapsed();
        Ok((self.child.wait()?, wall))
    }

    /// Waits until the child has ended or `other` is readable.
    pub fn wait_or(&mut self, other: BorrowedFd<'_>) -> io::Result<Woken> {
        self.wait(Some(other))
    }

    /// SIGKILL: the child gets no chance to tidy up. Returns once it is gone.
    pub fn kill(mut self) {
        end_of(&mut self.child);
    }

    fn wait(&mut self, other: Option<BorrowedFd<'_>>) -> io::Result<Woken> {
        loop {
            if self.stop.load(Relaxed) {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
            }
            let mut polled = vec![PollFd::from_borrowed_fd(self.end.as_fd(), PollFlags::IN)];
            polled.extend(other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
            match poll(&mut polled, Some(&POLL_INTERVAL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) if polled[0].revents().is_empty() => return Ok(Woken::Ready),
                Ok(_) => return Ok(Woken::Ended),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end_of(&mut self.child);
    }
}

/// Makes the process that `command` starts get `signal` when this thread ends, however it ends.
pub fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(signal))?;
        // The parent may have ended before the call above: then nobody would tell.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: the closure makes two system calls, prctl and getppid, which are allowed between fork and exec.
    unsafe { command.pre_exec(tie) };
}

/// Harmless for a child that was reaped: std remembers.
fn end_of(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
