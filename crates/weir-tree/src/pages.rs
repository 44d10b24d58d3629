//! Memory for what is about to be written.
//!
//! A write into the page cache takes a page for each 4 KiB. Where that page is in the guest's memory it costs
//! 0.7 us with the copy; where a host took it back while it was free (balloons and free page reporting,
//! overcommitted hosts, a virtual machine just started) the first touch costs 9 us more. Two things help, and
//! both are here:
//!
//! * **The right pieces.** A write of 2 MiB takes one huge page, and those are the blocks that hosts take
//!   back (pageblock_order in mm/page_reporting.c). Writes of 128 KiB take what is left in smaller blocks,
//!   which still is there. Where the machine has all of its memory, 2 MiB cost a third less. [`Policy`] finds
//!   which it is.
//! * **A second processor.** Writes to one file exclude one another (i_rwsem), so further writers do not
//!   help. Reading does not: ahead of the writer a thread reads the reserved, never written part of the file.
//!   No disk is read for it (the extents are unwritten); pages are found, cleared, and there when the writer
//!   comes.
//!
//! The thread runs only while [`Policy`] finds that memory is slow to come: where it is not, clearing pages
//! that will be written over is a waste.

mod policy;

use std::fs::File;
use std::io;
use std::num::{NonZeroU64, NonZeroUsize};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{JoinHandle, park_timeout};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{Advice, fadvise, fstatfs};
use rustix::time::{ClockId, clock_gettime};

use self::policy::{Policy, SMALL};

/// One call's worth: force_page_cache_ra takes no more than the device's read-ahead at once, 128 KiB by
/// default, and cuts larger calls into such.
const STEP: u64 = 128 << 10;

/// How far before the writer the thread begins, so that they do not meet: a block of `get` or two of `cp`, 1
/// ms of the writer's time.
const LEAD: u64 = 2 << 20;

/// How far ahead it goes at most: 150 ms of a writer whose pages are there. Pages that are not written soon
/// are the first that a host or a reclaim takes away again.
const MOST: u64 = 64 << 20;

/// A rest of less is written sooner than a thread is of use: 20 ms of slow memory.
const WORTHWHILE: u64 = 8 << 20;

/// How long the thread sleeps when it is far enough ahead: the writer needs 30 ms for half of [`MOST`].
const PAUSE: Duration = Duration::from_millis(2);

/// The pages of one file that is being written.
#[derive(Debug)]
pub struct Pages {
    begin: Instant,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    /// What a thread may read ahead of the writer; none where that is not free.
    ahead: Option<Ahead>,
    /// Where a writer was last.
    at: AtomicU64,
    policy: Mutex<Policy>,
    over: AtomicBool,
}

#[derive(Debug)]
struct Ahead {
    file: File,
    size: u64,
}

impl Default for Pages {
    /// For a file of which nothing is reserved: nothing can be read ahead.
    fn default() -> Pages {
        Pages::with(None)
    }
}

impl Pages {
    /// For a file whose `size` bytes are reserved (fallocate). They are read ahead where that is free: not on
    /// network file systems, which would ask their server, not without a second processor, and not in small
    /// files.
    pub fn of(file: &File, size: u64) -> Pages {
        Pages::with(Ahead::of(file, size))
    }

    fn with(ahead: Option<Ahead>) -> Pages {
        let (at, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { ahead, at, policy: Mutex::default(), over });
        Pages { begin: Instant::now(), shared, thread: Mutex::new(None) }
    }

    /// Has `write` write `bytes` at `offset` in calls that end at multiples of the piece it is told, bytes,
    /// and learns from what that cost. Several threads may be in it at a time.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn write<E>(
        &self,
        offset: u64,
        bytes: u64,
        write: impl FnOnce(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        // Of so little nothing can be told, and thousands of small files are written so.
        if bytes < SMALL {
            return write(SMALL);
        }
        let begun = self.shared.policy.lock().began(self.begin.elapsed());
        let before = thread_cpu();
        let written = write(begun.piece);
        let cpu = thread_cpu().saturating_sub(before);
        let end = offset.saturating_add(bytes);
        self.shared.at.store(end, Relaxed);
        let begins = self.shared.policy.lock().wrote(begun, self.begin.elapsed(), bytes, cpu);
        if begins
            && self.shared.ahead.as_ref().is_some_and(|ahead| end.saturating_add(WORTHWHILE) < ahead.size)
        {
            self.start();
        }
        written
    }

    /// Writes all of `bytes` at `offset` of `file`, as [`Pages::write`] has it.
    ///
    /// # Errors
    /// Those of pwrite(2).
    pub fn write_at(&self, file: &File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        self.write(offset, bytes.len() as u64, |piece| {
            while !bytes.is_empty() {
                let (now, later) = bytes.split_at(bytes.len().min(room(offset, piece)));
                file.write_all_at(now, offset)?;
                offset += now.len() as u64;
                bytes = later;
            }
            Ok(())
        })
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

/// Bytes from `offset` to the next multiple of `piece`, a power of two of at most 2 MiB.
pub fn room(offset: u64, piece: u64) -> usize {
    (piece - offset % piece) as usize
}

impl Ahead {
    fn of(file: &File, size: u64) -> Option<Ahead> {
        let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let found = fstatfs(file).ok()?;
        if size < WORTHWHILE || cpus < 2 || !reads_unwritten_for_free(found.f_type as u64) {
            return None;
        }
        Some(Ahead { file: file.try_clone().ok()?, size })
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
        let Some(Ahead { file, size }) = &self.ahead else { return };
        let mut next = 0;
        while !self.over.load(Relaxed) {
            if !self.policy().is_on() {
                // Unparked when it is wanted again.
                park_timeout(Duration::from_secs(1));
                continue;
            }
            let step = next_step(self.at.load(Relaxed), next).filter(|from| from < size);
            let Some(from) = step else {
                park_timeout(PAUSE);
                continue;
            };
            let before = thread_cpu();
            if fadvise(file, from, NonZeroU64::new(STEP), Advice::WillNeed).is_err() {
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

/// Local file systems that read unwritten extents without their disk (statfs(2) has the numbers): ext2 to
/// ext4, XFS, btrfs.
fn reads_unwritten_for_free(kind: u64) -> bool {
    matches!(kind, 0xEF53 | 0x5846_5342 | 0x9123_683E)
}

/// Where the thread goes on, with a writer at `at` and the last step up to `next`; `None` where that is far
/// enough ahead. It goes with the writer, which may be another lane at another place.
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::policy::LARGE;
    use super::*;

    /// Seconds that 2 GiB take where every page costs `page` ns a byte unless it is there: the writer's copy
    /// is 0.2 ns, clearing a page ahead 0.15 ns, the policy decides. Blocks of 1 MiB in turn: while the
    /// writer copies, the thread prepares.
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
                let begun = policy.began(Duration::from_secs_f64(time - took));
                policy.wrote(begun, Duration::from_secs_f64(time), BLOCK, Duration::from_secs_f64(took));
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

    /// Writes of 2 MiB by `writers` at a time, of which the file takes one after another, with costs a byte
    /// in ns by piece and number: seconds of the wall clock, and bytes written in pieces of 2 MiB. Whoever
    /// waits for the file spins.
    fn played(writers: u32, writes: u32, cost: impl Fn(u64, u32) -> f64) -> (f64, u64, bool) {
        let mut policy = Policy::default();
        let (mut now, mut large, mut on) = (0.0, 0, false);
        let mut waiting = std::collections::VecDeque::new();
        for number in 0..writes {
            while waiting.len() < writers as usize {
                waiting.push_back((policy.began(Duration::from_secs_f64(now)), now));
            }
            let (begun, since) = waiting.pop_front().unwrap();
            now += cost(begun.piece, number) * LARGE as f64 * 1e-9;
            large += if begun.piece == LARGE { LARGE } else { 0 };
            let cpu = Duration::from_secs_f64(now - since);
            on |= policy.wrote(begun, Duration::from_secs_f64(now), LARGE, cpu);
        }
        (now, large, on)
    }

    #[test]
    fn where_the_machine_has_its_memory_large_pieces_are_found_and_kept() {
        let cost = |piece: u64, _: u32| if piece == LARGE { 0.15 } else { 0.23 };
        for writers in [1, 4, 16] {
            let (_, large, on) = played(writers, 1024, cost);
            assert!(large > 950 * LARGE, "{writers} writers: {large} bytes");
            assert!(!on, "{writers} writers that wait for one another are no slow memory");
        }
    }

    #[test]
    fn where_huge_pages_are_lent_trials_of_them_cost_little() {
        let cost = |piece: u64, _: u32| if piece == LARGE { 2.3 } else { 0.3 };
        for writers in [1, 4] {
            let (time, large, _) = played(writers, 4096, cost);
            let least = 4096.0 * LARGE as f64 * 0.3e-9;
            assert!(time < 1.03 * least, "{writers} writers: {time} s, {least} s without a trial");
            assert!(large >= 2 * LARGE, "they are tried");
        }
    }

    #[test]
    fn large_pieces_are_left_when_memory_becomes_slow() {
        let slow = |number: u32| number >= 256;
        let cost = |piece: u64, number: u32| match (slow(number), piece) {
            (true, LARGE) => 2.3,
            (true, _) => 0.3,
            (false, LARGE) => 0.15,
            (false, _) => 0.23,
        };
        let (_, large, on) = played(1, 1024, cost);
        assert!((240 * LARGE..280 * LARGE).contains(&large), "{} writes", large / LARGE);
        assert!(!on, "small pieces cost too little for a thread");
    }

    #[test]
    fn slow_memory_is_seen_however_many_write() {
        for writers in [1, 4, 16] {
            assert!(played(writers, 64, |_, _| 2.2).2, "{writers} writers");
        }
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
        let pages = Pages::of(&file, size);
        if pages.shared.ahead.is_none() {
            return eprintln!(
                "skipped: the temporary folder's file system reads ahead at a price, or one processor"
            );
        }
        pages.write_at(&file, 0, &vec![7; 4 << 20]).unwrap();
        // Slow in both sizes.
        let seen = |policy: &mut Policy, seconds| {
            let (begun, cpu) = (policy.began(Duration::from_secs(seconds)), Duration::from_millis(40));
            policy.wrote(begun, Duration::from_secs(seconds) + cpu, 4 << 20, cpu)
        };
        assert!((100..104).any(|seconds| seen(&mut pages.shared.policy(), seconds)));
        pages.start();
        file.write_all_at(&vec![9; 28 << 20], 4 << 20).unwrap();
        drop(pages);
        let mut found = vec![0; size as usize];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(
            found[..4 << 20].iter().all(|byte| *byte == 7) && found[4 << 20..].iter().all(|byte| *byte == 9)
        );
    }
}
