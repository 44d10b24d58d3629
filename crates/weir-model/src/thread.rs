//! What a thread did with its time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::reading::seconds;

/// A thread's use of its processor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadInterval {
    /// Which thread, for words: `wget (pid 4711)`. `None` for a lane of our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Running.
    #[serde(with = "seconds")]
    pub cpu: Duration,
    /// Of that in the kernel, in steps of a clock tick; `None` where it was not read.
    #[serde(skip_serializing_if = "Option::is_none", with = "seconds::optional")]
    pub system: Option<Duration>,
    /// Ready to run but waiting for a processor.
    #[serde(with = "seconds")]
    pub runqueue: Duration,
    /// Held back by the CPU quota of a control group (`cpu.stat`: throttled time), where that was read.
    #[serde(with = "seconds")]
    pub throttled: Duration,
    /// How often the thread was looked at (its wait channel).
    pub looks: u32,
    /// How often it was found asleep in `balance_dirty_pages`.
    pub in_dirty_throttle: u32,
    /// Where else it was found; all zero where only the dirty throttle is looked for (lanes have clocks of
    /// their own).
    pub found: Found,
}

impl ThreadInterval {
    /// The share of looks that these are.
    pub(crate) fn share(&self, looks: u32) -> f64 {
        (f64::from(looks) / f64::from(self.looks.max(1))).min(1.0)
    }

    /// Looks that found it in a write to a file, asleep in the dirty throttle or elsewhere.
    pub fn in_writes(&self) -> u32 {
        self.in_dirty_throttle.saturating_add(self.found.writing_disk)
    }
}

/// Where the looks at a thread found it, by its state and wait channel. A look that could not be read counts
/// nowhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// On a processor or ready to run.
    pub running: u32,
    /// Blocked in a read from a socket.
    pub receiving: u32,
    /// Blocked in a write to a socket: its send buffer was full (sk_stream_wait_memory).
    pub sending: u32,
    /// In poll, select or epoll: waiting for any of several descriptors.
    pub polling: u32,
    /// Reading a file that is not in memory.
    pub reading_disk: u32,
    /// Writing or syncing a file, other than in the dirty throttle.
    pub writing_disk: u32,
    /// Writing to a full pipe: its reader is slow.
    pub pipe_full: u32,
    /// Reading from an empty pipe: its writer is slow.
    pub pipe_empty: u32,
    /// Asleep by its own will (nanosleep, a timer).
    pub sleeping: u32,
    /// Waiting for another thread (futex).
    pub waiting_for_thread: u32,
    /// Anywhere else.
    pub elsewhere: u32,
    /// Of `reading_disk`, those that read no file by a call but touched a page: of a mapped file, or of
    /// memory that was swapped or taken back.
    pub paging_in: u32,
    /// Of `polling`, those that waited for what was handed to the kernel (io_uring, Linux AIO): of a file or
    /// of a socket.
    pub awaiting_kernel: u32,
}

impl Found {
    /// Most of what was read from disk were pages that the thread touched, not a file that it read by a call.
    pub(crate) fn reads_pages(&self) -> bool {
        self.paging_in > self.reading_disk / 2
    }
}

/// Takes what the same thread did next into what it did.
pub(crate) fn join_thread(sum: &mut ThreadInterval, next: &ThreadInterval) {
    *sum = ThreadInterval {
        name: sum.name.take().or_else(|| next.name.clone()),
        cpu: sum.cpu.saturating_add(next.cpu),
        system: match (sum.system, next.system) {
            (Some(before), Some(after)) => Some(before.saturating_add(after)),
            (before, after) => before.or(after),
        },
        runqueue: sum.runqueue.saturating_add(next.runqueue),
        throttled: sum.throttled.saturating_add(next.throttled),
        looks: sum.looks.saturating_add(next.looks),
        in_dirty_throttle: sum.in_dirty_throttle.saturating_add(next.in_dirty_throttle),
        found: join_found(sum.found, next.found),
    };
}

fn join_found(sum: Found, next: Found) -> Found {
    Found {
        running: sum.running.saturating_add(next.running),
        receiving: sum.receiving.saturating_add(next.receiving),
        sending: sum.sending.saturating_add(next.sending),
        polling: sum.polling.saturating_add(next.polling),
        reading_disk: sum.reading_disk.saturating_add(next.reading_disk),
        writing_disk: sum.writing_disk.saturating_add(next.writing_disk),
        pipe_full: sum.pipe_full.saturating_add(next.pipe_full),
        pipe_empty: sum.pipe_empty.saturating_add(next.pipe_empty),
        sleeping: sum.sleeping.saturating_add(next.sleeping),
        waiting_for_thread: sum.waiting_for_thread.saturating_add(next.waiting_for_thread),
        elsewhere: sum.elsewhere.saturating_add(next.elsewhere),
        paging_in: sum.paging_in.saturating_add(next.paging_in),
        awaiting_kernel: sum.awaiting_kernel.saturating_add(next.awaiting_kernel),
    }
}
