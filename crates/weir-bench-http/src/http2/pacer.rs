//! When each request of an open loop goes out: streams that are free wait in a queue, and a timer hands them
//! their times.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};

use crate::event_loop::Shared;
use crate::schedule::Schedule;

/// A descriptor that the runtime watches.
#[allow(unsafe_code, reason = "the runtime cannot know of any type that it keeps its descriptor")]
fn watched(timer: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd names the same open descriptor for as long as it lives, and AsyncFd owns it.
    Ok(unsafe { AsyncFd::register(timer) }?)
}

/// A loop's part of the plan, and who waits for it.
pub(super) struct Pacer {
    schedule: RefCell<Schedule>,
    idle: RefCell<VecDeque<oneshot::Sender<u64>>>,
    queued: Notify,
    /// The runtime's own timers count in milliseconds.
    timer: AsyncFd<OwnedFd>,
}

impl Pacer {
    pub(super) fn new(schedule: Schedule) -> io::Result<Pacer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Pacer {
            schedule: RefCell::new(schedule),
            idle: RefCell::default(),
            queued: Notify::new(),
            timer: watched(timer)?,
        })
    }

    /// Waits for the next request's time; the time it was planned for.
    pub(super) async fn next(&self, shared: &Shared) -> u64 {
        // Whoever waits already comes first.
        if self.idle.borrow().is_empty()
            && let Some(planned) = self.schedule.borrow_mut().take(shared.now())
        {
            return planned;
        }
        let (sender, receiver) = oneshot::channel();
        self.idle.borrow_mut().push_back(sender);
        self.queued.notify_one();
        receiver.await.unwrap_or_else(|_| shared.now())
    }

    /// Requests whose time had come at `now` and that no stream was free for.
    pub(super) fn behind(&self, now: u64) -> u64 {
        self.schedule.borrow().behind(now)
    }

    /// The first `count` of them: see [`Schedule::owed`].
    pub(super) fn owed(&self, now: u64, count: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        self.schedule.borrow().owed(now, count)
    }

    /// Hands out times; ends with the loop, or with its timer.
    pub(super) async fn run(&self, shared: &Shared) {
        loop {
            if self.idle.borrow().is_empty() {
                self.queued.notified().await;
                continue;
            }
            let planned = self.schedule.borrow_mut().take(shared.now());
            if let Some(planned) = planned {
                let next = self.idle.borrow_mut().pop_front();
                let _ = next.map(|sender| sender.send(planned));
            } else if self.wait_until(shared).await.is_err() {
                return;
            }
        }
    }

    async fn wait_until(&self, shared: &Shared) -> io::Result<()> {
        let next = self.schedule.borrow().next_at();
        let left = Duration::from_nanos(next.saturating_sub(shared.now()).max(1));
        let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        rustix::time::timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        let mut guard = self.timer.readable().await?;
        let _ = rustix::io::read(self.timer.get_ref(), &mut [0; 8]);
        guard.clear_ready();
        Ok(())
    }
}
