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
    // Nothing of a file that is memory waits for a disk, whatever of others does.
    let pacing = match subject.outcome.memory {
        true => Some(f64::INFINITY),
        false => subject.outcome.limits.map(|limits| limits.pacing()),
    };
    let mut looks: Vec<(f64, u64)> = Vec::new();
    let (mut curve, mut written, mut dirty) = (Curve::new(), 0, 0);
    let start = Instant::now();
    while written + BLOCK as u64 <= subject.room && start.elapsed() < subject.plan.timeout {
        subject.target.file.write_all_at(block.bytes(), written)?;
        written += BLOCK as u64;
        curve.points.push(Point { bytes: written as f64, seconds: since(start) });
        if (written / BLOCK as u64).is_multiple_of(WRITES_PER_SAMPLE) {
            dirty = dirty.max(waiting.read());
            looks.extend(subject.taken().map(|taken| (since(start), taken)));
            let paced = Paced { looks: &looks, dirty, pacing };
            let span = subject.plan.span.as_secs_f64();
            if !subject.go_on() || curve.is_settled(&paced, span, (&|| since(start), &knee::find)) {
                break;
            }
        }
    }
    let seconds = since(start);
    let paced = Paced { looks: &looks, dirty, pacing };
    let knee = knee::find(&curve.points).filter(|knee| paced.by_disk(knee));
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

/// The curve while it is made.
struct Curve {
    points: Vec<Point>,
    /// No search for a knee begins before, seconds.
    next_search: f64,
}

/// So many times what a search took passes before the next one begins. It is within what is measured: a
/// search of 2000 points takes as long as ten megabytes into memory, and one after every few writes would
/// pace the writer itself.
const REST: f64 = 100.0;

/// What a curve is made with: the clock of its points, and the search for their knee.
type Means<'a> = (&'a dyn Fn() -> f64, &'a dyn Fn(&[Point]) -> Option<Knee>);

impl Curve {
    fn new() -> Curve {
        Curve { points: vec![Point { bytes: 0.0, seconds: 0.0 }], next_search: 0.0 }
    }

    /// Whether writes have been paced for longer than `span`, and most of the time.
    fn is_settled(&mut self, paced: &Paced<'_>, span: f64, (clock, find): Means<'_>) -> bool {
        let recent = self.points.iter().rev().take(2 * WRITES_PER_SAMPLE as usize).next_back();
        let (Some(recent), Some(last)) = (recent, self.points.last()) else { return false };
        let end = last.seconds;
        let slow = (last.bytes - recent.bytes) / (end - recent.seconds).max(1e-9);
        // Where the last writes were no slower than all of them there is nothing to look for.
        if end <= span || end < self.next_search || slow >= last.bytes / end {
            return false;
        }
        let began = clock();
        let knee = find(&self.points);
        let now = clock();
        self.next_search = now + REST * (now - began);
        knee.is_some_and(|knee| end - knee.seconds > span.max(2.0 * knee.seconds) && paced.by_disk(&knee))
    }
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
    let rate = written as f64 / since(start);
    // What comes next reads and writes the file, whatever it lies on.
    subject.outcome.size = written;
    match subject.target.has_disk() {
        Ok(()) => subject.outcome.synced = Some(rate),
        Err(why) => subject.missing("writes with a sync at the end", &why),
    }
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
        Ok((count > 0).then(|| (count * DIRECT as u64) as f64 / since(start)))
    });
    match measured {
        Ok(rate) => subject.outcome.direct_write = rate,
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
    subject.target.has_disk()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    use crate::mem::random::mixed;

    /// What a search of 2000 points takes, seconds.
    const SEARCH: f64 = 0.006;

    /// Writes a gibibyte as [`buffered`] does, by a clock of its own: each write takes the `seconds` of its
    /// number, give or take a half. How many writes and searches there were, and the knee of all of them.
    fn written(seconds: impl Fn(u64) -> f64) -> (u64, u32, Option<Knee>) {
        let paced = Paced { looks: &[], dirty: 0, pacing: None };
        let (clock, searches) = (Cell::new(0.0), Cell::new(0));
        let pass = |seconds: f64| clock.set(clock.get() + seconds);
        let find = |points: &[Point]| {
            pass(SEARCH);
            searches.set(searches.get() + 1);
            knee::find(points)
        };
        let mut curve = Curve::new();
        for number in 1..=4096 {
            let late = (mixed(number) >> 11) as f64 / (1_u64 << 53) as f64;
            pass(seconds(number) * (0.5 + late));
            let bytes = (number * BLOCK as u64) as f64;
            curve.points.push(Point { bytes, seconds: clock.get() });
            if number.is_multiple_of(WRITES_PER_SAMPLE)
                && curve.is_settled(&paced, 0.1, (&|| clock.get(), &find))
            {
                return (number, searches.get(), knee::find(&curve.points));
            }
        }
        (4096, searches.get(), knee::find(&curve.points))
    }

    #[test]
    fn the_search_for_a_knee_makes_none() {
        // 2 GB/s all the time.
        let (writes, searches, knee) = written(|_| 131e-6);
        assert_eq!((writes, knee), (4096, None), "{searches} searches");
        assert!(searches > 0);
    }

    #[test]
    fn writes_that_are_paced_end_soon_after() {
        // 30 MB/s from 64 MiB on: its span, and twice the time before.
        let (writes, _, knee) = written(|number| if number <= 256 { 131e-6 } else { 8.7e-3 });
        let knee = knee.unwrap();
        assert!((knee.bytes / f64::from(64 << 20) - 1.0).abs() < 0.1, "{knee:?}");
        assert!((260..600).contains(&writes), "{writes}");
    }
}
