//! Memory for what is about to be written.
//!
//! A write into the page cache takes a page for each 4 KiB. Where that page is in the guest's memory it costs 0.7 us with
//! the copy; where a host took it back while it was free (balloons and free page reporting, overcommitted hosts, a virtual
//! machine just started) the first touch costs 9 us more. Two things help, and both are here:
//!
//! * **Small pieces.** A write of 2 MiB takes one huge page, and those are the blocks that hosts take back
//!   (pageblock_order in mm/page_reporting.c). Writes of [`PIECE`] take what is left in smaller blocks, which still is
//!   there, and cost no more where all of it is (docs/decisions/0005-writes-of-128-kib.md).
//! * **A second processor.** Writes to one file exclude one another (i_rwsem), so further writers do not help. Reading
//!   does not: ahead of the writer a thread reads the reserved, never written part of the file. No disk is read for it
//!   (the extents are unwritten); pages are found, cleared, and there when the writer comes.
//!
//! The thread runs only while [`Policy`] finds that memory is slow to come: where it is not, clearing pages that will be
//! written over is a waste.

use std::fs::File;
use std::io;
use std::num::{NonZeroU64, NonZeroUsize};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{JoinHandle, park_timeout};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{Advice, fadvise, fstatfs};
use rustix::time::{ClockId, clock_gettime};

/// What one write call hands to the page cache, at a multiple of it. Of 4 KiB to 2 MiB, 64 and 128 KiB took least time on
/// memory as found, and 128 KiB as little as 2 MiB on memory in use a moment ago.
pub const PIECE: u64 = 128 << 10;

/// Bytes from `offset` to the end of its piece.
pub fn room(offset: u64) -> usize {
    (PIECE - offset % PIECE) as usize
}

/// Writes all of `bytes` at `offset`, a [`PIECE`] at a time.
pub fn write_at(file: &File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(bytes.len().min(room(offset)));
        file.write_all_at(piece, offset)?;
        offset += piece.len() as u64;
        bytes = rest;
    }
    Ok(())
}

/// One call's worth: force_page_cache_ra takes no more than the device's read-ahead at once, 128 KiB by default, and cuts
/// larger calls into such.
const STEP: u64 = 128 << 10;

/// How far before the writer the thread begins, so that they do not meet: a block of `get` or two of `cp`, 1 ms of the
/// writer's time.
const LEAD: u64 = 2 << 20;

/// How far ahead it goes at most: 150 ms of a writer whose pages are there. Pages that are not written soon are the first
/// that a host or a reclaim takes away again.
const MOST: u64 = 64 << 20;

/// A rest of less is written sooner than a thread is of use: 20 ms of slow memory.
const WORTHWHILE: u64 = 8 << 20;

/// How long the thread sleeps when it is far enough ahead: the writer needs 30 ms for half of [`MOST`].
const PAUSE: Duration = Duration::from_millis(2);

/// The pages of one file that is being written.
#[derive(Debug)]
pub struct Pages {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    file: File,
    size: u64,
    /// Where a writer was last.
    at: AtomicU64,
    policy: Mutex<Policy>,
    over: AtomicBool,
}

impl Pages {
    /// For a file whose `size` bytes are reserved (fallocate), if reading ahead is free there: `None` on network file
    /// systems, which would ask their server, where no second processor is, and for small files.
    pub fn of(file: &File, size: u64) -> Option<Pages> {
        let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let found = fstatfs(file).ok()?;
        if size < WORTHWHILE || cpus < 2 || !reads_unwritten_for_free(found.f_type as u64) {
            return None;
        }
        let file = file.try_clone().ok()?;
        let (at, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { file, size, at, policy: Mutex::default(), over });
        Some(Pages { shared, thread: Mutex::new(None) })
    }

    /// A writer has written `bytes` up to `end`, and its processor was busy with that for `cpu`.
    pub fn wrote(&self, end: u64, bytes: u64, cpu: Duration) {
        self.shared.at.store(end, Relaxed);
        let begins = self.shared.policy().wrote(bytes, cpu);
        if begins && end.saturating_add(WORTHWHILE) < self.shared.size {
            self.start();
        }
    }

    /// [`write_at`], and what it cost.
    pub fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let before = thread_cpu();
        write_at(file, offset, bytes)?;
        let length = bytes.len() as u64;
        self.wrote(offset.saturating_add(length), length, thread_cpu().saturating_sub(before));
        Ok(())
    }

    /// A thread that cannot be had is not missed.
    fn start(&self) {
        let mut thread = self.thread.lock();
        if let Some(running) = &*thread {
            return running.thread().unpark();
        }
        let shared = Arc::clone(&self.shared);
        let named = std::thread::Builder::new().name("weir pages".to_owned());
        *thread = named.spawn(move || shared.run()).ok();
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.shared.over.store(true, Relaxed);
        let thread = self.thread.get_mut().take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            // One step at most, a millisecond or two.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn policy(&self) -> MutexGuard<'_, Policy> {
        self.policy.lock()
    }

    fn run(&self) {
        let mut next = 0;
        while !self.over.load(Relaxed) {
            if !self.policy().is_on() {
                // Unparked when it is wanted again.
                park_timeout(Duration::from_secs(1));
                continue;
            }
            let step = next_step(self.at.load(Relaxed), next).filter(|from| *from < self.size);
            let Some(from) = step else {
                park_timeout(PAUSE);
                continue;
            };
            let before = thread_cpu();
            if fadvise(&self.file, from, NonZeroU64::new(STEP), Advice::WillNeed).is_err() {
                return;
            }
            next = from + STEP;
            self.policy().prepared(STEP, thread_cpu().saturating_sub(before));
        }
    }
}

fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Local file systems that read unwritten extents without their disk (statfs(2) has the numbers): ext2 to ext4, XFS, btrfs.
fn reads_unwritten_for_free(kind: u64) -> bool {
    matches!(kind, 0xEF53 | 0x5846_5342 | 0x9123_683E)
}

/// Where the thread goes on, with a writer at `at` and the last step up to `next`; `None` where that is far enough ahead. It
/// goes with the writer, which may be another lane at another place.
fn next_step(at: u64, next: u64) -> Option<u64> {
    let least = at.saturating_add(LEAD) / STEP * STEP;
    let reach = least.saturating_add(MOST);
    match next {
        next if next < least => Some(least),
        next if next < reach => Some(next),
        next if next <= reach + STEP => None,
        _ => Some(least),
    }
}

/// Whether pages are slow to come, by what they cost of a processor. Pure: it is told what was spent.
///
/// A writer's costs begin it. From then on it is the thread that pays, so the thread's end it.
#[derive(Debug, Default)]
pub struct Policy {
    on: bool,
    writer: Cost,
    thread: Cost,
}

/// What bytes took of a processor since the last answer.
#[derive(Debug, Default)]
struct Cost {
    bytes: u64,
    cpu: Duration,
}

/// A writer is slow from here on, ns a byte. Measured, with its copy: 0.15 to 0.25 where the page is there, 2.2 where a host
/// has to lend it (Linux 6.18, Xeon of 2.1 GHz).
const SLOW: f64 = 0.7;

/// A thread that pays less finds pages that were there, and wins nothing. Measured: 0.36 with clearing them, 2.3 where a
/// host has to lend them.
const QUICK: f64 = 0.5;

/// Bytes over which a writer's cost is taken: 9 ms of slow memory, long against the clock, short against the file.
const WRITER_SPAN: u64 = 4 << 20;

/// Bytes over which the thread's is: 23 ms of memory that was there, so little is lost by it, and a stretch of good memory
/// among slow does not end it.
const THREAD_SPAN: u64 = 64 << 20;

impl Policy {
    /// What a write cost; `true` when the thread is wanted from now on.
    pub fn wrote(&mut self, bytes: u64, cpu: Duration) -> bool {
        let begins = !self.on && self.writer.over(WRITER_SPAN, bytes, cpu).is_some_and(|cost| cost >= SLOW);
        if begins {
            *self = Policy { on: true, ..Policy::default() };
        }
        begins
    }

    /// What the thread's step cost.
    pub fn prepared(&mut self, bytes: u64, cpu: Duration) {
        if self.thread.over(THREAD_SPAN, bytes, cpu).is_some_and(|cost| cost < QUICK) {
            *self = Policy::default();
        }
    }

    /// The thread is wanted.
    pub fn is_on(&self) -> bool {
        self.on
    }
}

impl Cost {
    /// Nanoseconds a byte, each time that `span` bytes are full.
    fn over(&mut self, span: u64, bytes: u64, cpu: Duration) -> Option<f64> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.cpu = self.cpu.saturating_add(cpu);
        if self.bytes < span {
            return None;
        }
        let Cost { bytes, cpu } = std::mem::take(self);
        Some(cpu.as_nanos() as f64 / bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Seconds that 2 GiB take where every page costs `page` ns a byte unless it is there: the writer's copy is 0.2 ns, clearing
    /// a page ahead 0.15 ns, the policy decides. Blocks of 1 MiB in turn: while the writer copies, the thread prepares.
    fn simulated(page: impl Fn(u64) -> f64, with_policy: bool) -> (f64, u64) {
        const BLOCK: u64 = 1 << 20;
        let mut policy = Policy::default();
        let mut there = HashSet::new();
        let (mut time, mut idle, mut next) = (0.0, 0.0, 0);
        for block in 0..2048 {
            let cost = 0.2 + if there.contains(&block) { 0.0 } else { page(block) };
            let took = cost * BLOCK as f64 * 1e-9;
            time += took;
            if with_policy {
                policy.wrote(BLOCK, Duration::from_secs_f64(took));
            }
            // The other processor has had as long.
            idle = if policy.is_on() { idle + took } else { 0.0 };
            while policy.is_on() {
                let Some(from) = next_step(block * BLOCK, next) else { break };
                let step = (0.15 + page(from / BLOCK)) * STEP as f64 * 1e-9;
                if step > idle {
                    break;
                }
                idle -= step;
                policy.prepared(STEP, Duration::from_secs_f64(step));
                there.insert(from / BLOCK);
                next = from + STEP;
            }
        }
        (time, there.len() as u64)
    }

    #[test]
    fn where_memory_is_there_the_thread_never_runs() {
        assert_eq!(simulated(|_| 0.05, true), simulated(|_| 0.05, false));
        assert_eq!(simulated(|_| 0.05, true).1, 0);
    }

    #[test]
    fn where_memory_is_lent_two_processors_halve_the_time() {
        let (alone, _) = simulated(|_| 2.0, false);
        let (helped, prepared) = simulated(|_| 2.0, true);
        assert!(helped < 0.62 * alone, "{helped} s of {alone} s");
        assert!(prepared > 800, "{prepared}");
    }

    #[test]
    fn it_ends_with_the_slow_memory_and_begins_again() {
        let half = |block: u64| if (block / 512).is_multiple_of(2) { 2.0 } else { 0.05 };
        let (alone, _) = simulated(half, false);
        let (helped, prepared) = simulated(half, true);
        assert!(helped < 0.75 * alone, "{helped} s of {alone} s");
        assert!(prepared < 1400, "it ran on through good memory: {prepared}");
    }

    #[test]
    fn the_thread_keeps_between_its_lead_and_its_reach() {
        assert_eq!(next_step(0, 0), Some(LEAD));
        assert_eq!(next_step(0, LEAD + STEP), Some(LEAD + STEP));
        assert_eq!(next_step(0, LEAD + MOST), None);
        // The writer has caught up, or is another lane far behind.
        assert_eq!(next_step(1 << 30, LEAD + STEP), Some((1 << 30) + LEAD));
        assert_eq!(next_step(0, 1 << 30), Some(LEAD));
    }

    #[test]
    fn what_is_read_ahead_is_zero_and_what_is_written_stays() {
        let file = tempfile::tempfile().unwrap();
        let size = 32 << 20;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size).unwrap();
        let Some(pages) = Pages::of(&file, size) else {
            return eprintln!(
                "skipped: the temporary folder's file system reads ahead at a price, or one processor"
            );
        };
        file.write_all_at(&vec![7; 4 << 20], 0).unwrap();
        pages.wrote(4 << 20, 4 << 20, Duration::from_millis(40));
        assert!(pages.shared.policy().is_on());
        file.write_all_at(&vec![9; 28 << 20], 4 << 20).unwrap();
        drop(pages);
        let mut found = vec![0; size as usize];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(
            found[..4 << 20].iter().all(|byte| *byte == 7) && found[4 << 20..].iter().all(|byte| *byte == 9)
        );
    }
}
