//! What a loop does because its time has come, not because a socket said so.

use std::cmp::Reverse;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::time::{Itimerspec, TimerfdTimerFlags};

use super::EventLoop;
use crate::connection::Phase;

impl EventLoop<'_> {
    /// Connections whose time has come: to be opened again, or to ask after a script's delay.
    pub(super) fn wake(&mut self) {
        while let Some(Reverse((at, index))) =
            self.wakes.peek().copied().filter(|Reverse((at, _))| *at <= self.now)
        {
            self.wakes.pop();
            let connection = &self.connections[index];
            if connection.wake_at != at {
                continue;
            }
            match connection.phase {
                Phase::Closed => self.open(index),
                Phase::Delayed => match self.schedule.as_mut().map(|schedule| schedule.take(self.now)) {
                    None => self.begin(index, None),
                    Some(Some(planned)) => self.begin(index, Some(planned)),
                    Some(None) => {
                        self.connections[index].phase = Phase::Ready;
                        self.idle.push_back(index);
                    }
                },
                _ => {}
            }
        }
    }

    /// Requests whose planned time has come, and the timer for the next one.
    pub(super) fn dispatch(&mut self) {
        while let Some(&index) = self.idle.front() {
            let Some(schedule) = &mut self.schedule else { return };
            let Some(planned) = schedule.take(self.now) else {
                let next = schedule.next_at();
                return self.arm(next);
            };
            self.idle.pop_front();
            self.begin(index, Some(planned));
        }
    }

    /// Has the loop woken at `next`.
    pub(super) fn arm(&mut self, next: u64) {
        let Some(timer) = self.timer.as_ref().filter(|_| self.armed != next) else { return };
        let left = Duration::from_nanos(next.saturating_sub(self.now).max(1));
        let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        if rustix::time::timerfd_settime(timer, TimerfdTimerFlags::empty(), &once).is_ok() {
            self.armed = next;
        }
    }
}
