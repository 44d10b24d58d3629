//! The writing parts: into the page cache until it paces, with a sync at the end, past it, and one block at a
//! time.

use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::mem::arena::{Arena, Pages};

use super::knee::{self, Knee, Point};
use super::{Buffered, Subject, Times, Waiting, since};

/// Of a write into the page cache: small against any limit of dirty pages that people set, large against the
/// system call.
const BLOCK: usize = 256 << 10;

/// Of a write past the page cache: what `cp` and weir use, and every disk is at its best with.
pub(super) const DIRECT: usize = 1 << 20;

/// How often waiting pages are looked at, in writes.
const WRITES_PER_SAMPLE: u64 = 16;

/// Of the write before a sync, and of random requests: a page.
pub(super) const SMALL: usize = 4096;

/// Syncs at most: a percentile needs no more.
const SYNCS: usize = 200;

/// A buffer whose bytes no disk or file system can shrink.
pub(super) fn buffer(bytes: usize) -> io::Result<Arena> {
    let mut arena = Arena::new(bytes, Pages::Small)?;
    arena.scramble();
    Ok(arena)
}

/// Into the page cache, until writes have been paced for a while, the room is used up, or timeout ends.
pub(super) fn buffered(subject: &mut Subject<'_, '_>) -> io::Result<()> {
    if !subject.next("writes into memory") {
        return Ok(());
    }
    // What others left waiting for this device must not count as ours.
    rustix::fs::syncfs(&subject.target.file)?;
    warm(subject.room);
    let block = buffer(BLOCK)?;
    let mut waiting = Waiting::open();
    let mut looks: Vec<(f64, u64)> = Vec::new();
    let (mut points, mut written, mut dirty) = (vec![Point { bytes: 0.0, seconds: 0.0 }], 0, 0);
    let start = Instant::now();
    while written + BLOCK as u64 <= subject.room && start.elapsed() < subject.plan.timeout {
        subject.target.file.write_all_at(block.bytes(), written)?;
        written += BLOCK as u64;
        points.push(Point { bytes: written as f64, seconds: since(start) });
        if (written / BLOCK as u64).is_multiple_of(WRITES_PER_SAMPLE) {
            dirty = dirty.max(waiting.read());
            looks.extend(subject.taken().map(|taken| (since(start), taken)));
            let paced =
                Paced { looks: &looks, dirty, pacing: subject.outcome.limits.map(|limits| limits.pacing()) };
            if !subject.go_on() || settled(&points, &paced, subject.plan.span.as_secs_f64()) {
                break;
            }
        }
    }
    let seconds = since(start);
    let paced = Paced { looks: &looks, dirty, pacing: subject.outcome.limits.map(|limits| limits.pacing()) };
    let knee = knee::find(&points).filter(|knee| paced.by_disk(knee));
    let rate = knee.map_or(written as f64 / seconds.max(f64::MIN_POSITIVE), |knee| knee.before);
    let on_disk = knee.and_then(|knee| paced.taken_after(knee.seconds));
    subject.outcome.buffered = Some(Buffered { rate, knee, on_disk, dirty, bytes: written, seconds });
    Ok(())
}

/// The most memory that is touched beforehand.
const WARM: u64 = 512 << 20;

/// Touches as much memory as the page cache will want, and gives it back: a virtual machine's memory may be
/// slow at its first touch, slower than a disk.
fn warm(bytes: u64) {
    let available = weir_observe::memory::available().unwrap_or(0) / 4;
    let bytes = bytes.min(WARM).min(available);
    // What cannot be had is not missed.
    drop(Arena::new(bytes as usize, Pages::Small));
}

/// What tells writes that are paced to a disk from those that are slow for another reason: memory that the
/// machine has to find first, or another program.
struct Paced<'a> {
    /// Seconds, and the bytes that the device had taken by then.
    looks: &'a [(f64, u64)],
    /// The most that waited.
    dirty: u64,
    /// What may wait.
    pacing: Option<f64>,
}

/// Whoever is paced writes no more than the disk takes; others may have their share of that.
const TAKEN: f64 = 0.5;

/// Pacing begins below its mark where other limits hold too; so does the count of what waits lag behind.
const NEAR: f64 = 0.7;

impl Paced<'_> {
    fn by_disk(&self, knee: &Knee) -> bool {
        match (self.taken_after(knee.seconds), self.pacing) {
            (Some(taken), _) => taken >= TAKEN * knee.after,
            // No device of its own, such as NFS: then something must wait.
            (None, Some(pacing)) => self.dirty as f64 >= NEAR * pacing,
            (None, None) => true,
        }
    }

    /// Bytes a second that the device took from `from` seconds on.
    fn taken_after(&self, from: f64) -> Option<f64> {
        let first = self.looks.iter().find(|look| look.0 >= from)?;
        let last = self.looks.last()?;
        (last.0 > first.0).then(|| last.1.saturating_sub(first.1) as f64 / (last.0 - first.0))
    }
}

/// Whether writes have been paced for longer than `span`, and most of the time.
fn settled(points: &[Point], paced: &Paced<'_>, span: f64) -> bool {
    let end = points.last().map_or(0.0, |point| point.seconds);
    // Looking for a knee costs time, so only where the last writes were slower than all of them.
    let recent = points.iter().rev().take(2 * WRITES_PER_SAMPLE as usize).next_back();
    let (Some(recent), Some(last)) = (recent, points.last()) else { return false };
    let slow = (last.bytes - recent.bytes) / (last.seconds - recent.seconds).max(1e-9);
    end > span
        && slow < last.bytes / end
        && knee::find(points)
            .is_some_and(|knee| end - knee.seconds > span.max(2.0 * knee.seconds) && paced.by_disk(&knee))
}

/// The same from the start, with a sync at the end: what a program that wants to be sure gets.
pub(super) fn synced(subject: &mut Subject<'_, '_>) -> io::Result<()> {
    if !subject.next("writes with a sync at the end") {
        return Ok(());
    }
    subject.target.empty()?;
    rustix::fs::fdatasync(&subject.target.file)?;
    let block = buffer(BLOCK)?;
    // As much as the disk takes in a span or two, by what it was seen to take; the sync has to come to an
    // end.
    let pace = subject.outcome.buffered.and_then(|seen| seen.knee).map_or(f64::INFINITY, |knee| knee.after);
    let most = (pace * 2.0 * subject.plan.span.as_secs_f64()).min(subject.room as f64) as u64;
    let most = most.max(super::target::LEAST) / BLOCK as u64 * BLOCK as u64;
    let (start, mut written) = (Instant::now(), 0);
    while written < most && start.elapsed() < subject.plan.timeout && subject.go_on() {
        subject.target.file.write_all_at(block.bytes(), written)?;
        written += BLOCK as u64;
    }
    if subject.outcome.interrupted {
        return Ok(());
    }
    rustix::fs::fdatasync(&subject.target.file)?;
    subject.outcome.synced = Some(written as f64 / since(start));
    subject.outcome.size = written;
    Ok(())
}

/// Past the page cache, over blocks that the file has already: no block has to be found for them.
pub(super) fn direct(subject: &mut Subject<'_, '_>) -> io::Result<()> {
    if !subject.next("writes past memory") {
        return Ok(());
    }
    let block = buffer(DIRECT)?;
    let blocks = subject.outcome.size / DIRECT as u64;
    let span = subject.plan.span;
    let measured = direct_passes(subject, |subject| {
        let (start, mut count) = (Instant::now(), 0);
        while start.elapsed() < span && subject.go_on() {
            subject.target.file.write_all_at(block.bytes(), count % blocks * DIRECT as u64)?;
            count += 1;
        }
        // A disk may have taken it into its own memory.
        rustix::fs::fdatasync(&subject.target.file)?;
        Ok((count * DIRECT as u64) as f64 / since(start))
    });
    match measured {
        Ok(rate) => subject.outcome.direct_write = Some(rate),
        Err(why) => subject.missing("direct writes", &why),
    }
    Ok(())
}

/// With O_DIRECT on, and off again whatever happens.
pub(super) fn direct_passes<'a, 'b, T>(
    subject: &mut Subject<'a, 'b>,
    work: impl FnOnce(&mut Subject<'a, 'b>) -> io::Result<T>,
) -> io::Result<T> {
    if subject.outcome.size < DIRECT as u64 {
        return Err(io::Error::other("the file is too small"));
    }
    subject.target.set_direct(true)?;
    let result = work(subject);
    subject.target.set_direct(false)?;
    result
}

/// How long one written block takes to be on the disk.
pub(super) fn sync(subject: &mut Subject<'_, '_>) {
    if !subject.next("syncs") {
        return;
    }
    match syncs(subject) {
        Ok(times) => subject.outcome.sync = Times::of(times),
        Err(why) => subject.missing("syncs", &why),
    }
}

fn syncs(subject: &mut Subject<'_, '_>) -> io::Result<Vec<f64>> {
    let block = buffer(SMALL)?;
    let blocks = (subject.outcome.size / SMALL as u64).max(1);
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.len() < SYNCS && start.elapsed() < subject.plan.span && subject.go_on() {
        let at = times.len() as u64 * 257 % blocks * SMALL as u64;
        let one = Instant::now();
        subject.target.file.write_all_at(block.bytes(), at)?;
        rustix::fs::fdatasync(&subject.target.file)?;
        times.push(since(one));
    }
    Ok(times)
}
