//! The reading parts: in order and at random, in memory and not, and many requests at once.

use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use rustix::fs::Advice;

use super::write::{DIRECT, SMALL, buffer, direct_passes};
use super::{Depth, Subject, Times, ring, since};

/// Random reads at most.
const READS: usize = 20_000;

/// In order: not in memory, in memory, past it.
pub(super) fn sequential(subject: &mut Subject<'_, '_>) -> io::Result<()> {
    if !subject.next("reads in order") || subject.outcome.size < DIRECT as u64 {
        return Ok(());
    }
    let mut block = buffer(DIRECT)?;
    let is_cold = is_forgotten(subject, "cold reads in order");
    subject.target.advise(Advice::Sequential);
    match in_order(subject, &mut block) {
        Ok(read) => {
            subject.outcome.read_cold = read.map(|(rate, _)| rate).filter(|_| is_cold);
            // What has just been read is in memory.
            let bytes = read.map_or(0, |(_, bytes)| bytes);
            subject.outcome.read_warm = warm(subject, &mut block, bytes).ok().flatten();
        }
        Err(why) => subject.missing("reads in order", &why),
    }
    match direct_passes(subject, |subject| in_order(subject, &mut block)) {
        Ok(read) => subject.outcome.read_direct = read.map(|(rate, _)| rate),
        Err(why) => subject.missing("direct reads", &why),
    }
    subject.target.advise(Advice::Normal);
    Ok(())
}

/// Whether what is read next comes from the disk, so that `what` can be measured. Where the file system does
/// not tell, it is measured all the same, and noted.
fn is_forgotten(subject: &mut Subject<'_, '_>, what: &str) -> bool {
    let (why, is_cold) = match subject.target.forget() {
        Ok(true) => return true,
        Ok(false) => (
            io::Error::other(
                "read after POSIX_FADV_DONTNEED, but this file system does not tell what is still in memory",
            ),
            true,
        ),
        Err(why) => (why, false),
    };
    subject.missing(what, &why);
    is_cold
}

/// Until the file or the span ends: bytes a second, and bytes; `None` where nothing was read.
fn in_order(
    subject: &mut Subject<'_, '_>,
    block: &mut crate::mem::arena::Arena,
) -> io::Result<Option<(f64, u64)>> {
    let whole = subject.outcome.size / DIRECT as u64 * DIRECT as u64;
    let (start, mut at) = (Instant::now(), 0);
    while at < whole && start.elapsed() < subject.plan.span && subject.go_on() {
        subject.target.file.read_exact_at(block.bytes_mut(), at)?;
        at += DIRECT as u64;
    }
    Ok((at > 0).then(|| (at as f64 / since(start), at)))
}

/// The first `bytes`, again and again; `None` where nothing was read.
fn warm(
    subject: &mut Subject<'_, '_>,
    block: &mut crate::mem::arena::Arena,
    bytes: u64,
) -> io::Result<Option<f64>> {
    let (start, mut count) = (Instant::now(), 0);
    let span = subject.plan.span / 4;
    while bytes > 0 && start.elapsed() < span && subject.go_on() {
        subject.target.file.read_exact_at(block.bytes_mut(), count % bytes)?;
        count += DIRECT as u64;
    }
    Ok((count > 0).then(|| count as f64 / since(start)))
}

/// A block at a time from random places.
pub(super) fn random(subject: &mut Subject<'_, '_>) -> io::Result<()> {
    if !subject.next("reads at random") || subject.outcome.size < DIRECT as u64 {
        return Ok(());
    }
    let mut block = buffer(SMALL)?;
    let blocks = subject.outcome.size / SMALL as u64;
    // In an order that repeats, so that the second time all of it is in memory; each once, so that the first
    // time none is.
    let step = coprime(blocks);
    let mut pass = |subject: &mut Subject<'_, '_>, most: usize| -> io::Result<Vec<f64>> {
        let (start, mut times) = (Instant::now(), Vec::new());
        while times.len() < most.min(blocks as usize)
            && start.elapsed() < subject.plan.span
            && subject.go_on()
        {
            let at = times.len() as u64 * step % blocks * SMALL as u64;
            let one = Instant::now();
            subject.target.file.read_exact_at(block.bytes_mut(), at)?;
            times.push(since(one));
        }
        Ok(times)
    };
    let is_cold = is_forgotten(subject, "cold reads at random");
    subject.target.advise(Advice::Random);
    match pass(subject, READS) {
        Ok(times) => {
            let warm = pass(subject, times.len());
            subject.outcome.random_cold = Times::of(times).filter(|_| is_cold);
            subject.outcome.random_warm = warm.ok().and_then(Times::of);
        }
        Err(why) => subject.missing("reads at random", &why),
    }
    subject.target.advise(Advice::Normal);
    Ok(())
}

/// A step that comes to each of `blocks` before it comes to one again, and jumps far.
fn coprime(blocks: u64) -> u64 {
    let common = |step: u64| {
        let (mut a, mut b) = (blocks, step);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    // The golden section: what comes after one another lies nowhere near.
    let first = (blocks as f64 * 0.618) as u64 | 1;
    (first..).find(|step| common(*step) <= 1).unwrap_or(1)
}

/// Blocks at random places past the page cache, with more and more requests at once, read and then written.
pub(super) fn depths(subject: &mut Subject<'_, '_>) -> io::Result<()> {
    if !subject.next("many requests at once") || subject.outcome.size < DIRECT as u64 {
        return Ok(());
    }
    let most = subject.plan.depths.iter().copied().max().unwrap_or(1);
    let mut ring = match ring::Ring::new(most, SMALL) {
        Ok(ring) => ring,
        Err(why) => {
            subject.missing("many requests at once (io_uring)", &why);
            return Ok(());
        }
    };
    let count = subject.plan.depths.len() as u32 * 2;
    let span = subject.plan.span * 2 / count.max(1);
    let swept = direct_passes(subject, |subject| {
        let mut rows = Vec::new();
        for write in [false, true] {
            for depth in subject.plan.depths.clone() {
                if !subject.go_on() {
                    return Ok(rows);
                }
                let work = ring::Work { write, depth, blocks: subject.outcome.size / SMALL as u64, span };
                let (times, seconds) = ring.run(&subject.target.file, &work)?;
                let rate = times.len() as f64 / seconds;
                rows.extend(Times::of(times).map(|times| Depth { depth, write, rate, times }));
            }
        }
        Ok(rows)
    });
    match swept {
        Ok(rows) => subject.outcome.depths = rows,
        Err(why) => subject.missing("many requests at once", &why),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_comes_once() {
        for blocks in [1, 2, 64, 102_400, 3 * 64 * 5 * 7, 4093] {
            let step = coprime(blocks);
            let mut seen: Vec<u64> = (0..blocks).map(|index| index * step % blocks).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..blocks), "{blocks}");
        }
    }
}
