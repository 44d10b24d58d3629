//! What several threads get together, each on a processor and on memory of its own.

use std::io;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use weir_units::threads::start_all;

use super::arena::Line;
use super::{kernel, place};

/// Of so many threads together, bytes a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ThreadsRow {
    /// Threads.
    pub threads: usize,
    /// Read from memory: all threads together go over all of it.
    pub read: f64,
    /// Written to memory.
    pub write: f64,
    /// Copied in memory, each byte counted once.
    pub copy: f64,
    /// Read by each from a working set of half the second cache.
    pub cache: f64,
}

/// Up to so many each number, then on by halves of an octave, all of them last: between them nothing new is
/// seen.
const EACH: usize = 4;

/// The numbers of threads that are measured on so many processors.
pub(super) fn usual(cpus: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (1..=cpus.min(EACH)).collect();
    let mut next = EACH * 3 / 2;
    while next < cpus {
        numbers.push(next);
        // 6, 8, 12, 16, 24...
        next = if next.is_power_of_two() { next * 3 / 2 } else { next / 3 * 4 };
    }
    if cpus > EACH {
        numbers.push(cpus);
    }
    numbers
}

#[derive(Debug, Clone, Copy)]
enum Work {
    Read,
    Write,
    Copy,
}

/// Each figure for about `span`. `cache`: bytes of a working set that each processor's own cache holds.
pub(super) fn measure(
    lines: &mut [Line],
    threads: usize,
    cpus: &[usize],
    cache: usize,
    span: Duration,
) -> io::Result<ThreadsRow> {
    let threads = threads.max(1);
    let whole = lines.len() / threads;
    let small = (cache / size_of::<Line>()).min(whole);
    let mut rate = |work: Work, each: usize| together(lines, threads, each, cpus, work, span);
    Ok(ThreadsRow {
        threads,
        read: rate(Work::Read, whole)?,
        write: rate(Work::Write, whole)?,
        copy: rate(Work::Copy, whole)?,
        cache: rate(Work::Read, small)?,
    })
}

/// `each` lines for each thread.
fn together(
    lines: &mut [Line],
    threads: usize,
    each: usize,
    cpus: &[usize],
    work: Work,
    span: Duration,
) -> io::Result<f64> {
    let stride = lines.len() / threads;
    if stride == 0 || each == 0 {
        return Ok(0.0);
    }
    let start = &Barrier::new(threads);
    let parts = lines.chunks_exact_mut(stride).take(threads).enumerate();
    let works = parts.map(|(index, part)| {
        move || {
            // Where that is not allowed the scheduler spreads them, as it does for any program.
            let _ = cpus.get(index % cpus.len().max(1)).is_some_and(|cpu| place::pin(*cpu));
            alone(&mut part[..each], work, start, span)
        }
    });
    std::thread::scope(|scope| {
        let workers = start_all(scope, "mem", works)?;
        Ok(workers.into_iter().filter_map(|worker| worker.join().ok().flatten()).sum())
    })
}

/// One thread's rate while all of them work.
fn alone(lines: &mut [Line], work: Work, start: &Barrier, span: Duration) -> f64 {
    // Pieces in which the end is noticed soon, even where a piece takes long.
    let most = (4 << 20) / size_of::<Line>();
    let mut pass = |reps: usize| -> usize {
        let parts = lines.chunks_mut(most);
        parts.map(|part| once(part, work, reps)).sum::<usize>() * reps
    };
    pass(1);
    start.wait();
    let begun = Instant::now();
    let (mut bytes, mut reps) = (0, 1);
    while begun.elapsed() < span {
        let before = begun.elapsed();
        bytes += pass(reps);
        // A small set is gone over many times between two looks at the clock.
        if begun.elapsed().saturating_sub(before) < span / 50 && reps < 1 << 20 {
            reps *= 2;
        }
    }
    bytes as f64 / begun.elapsed().as_secs_f64()
}

/// Bytes of one repetition.
fn once(lines: &mut [Line], work: Work, reps: usize) -> usize {
    match work {
        Work::Read => kernel::read(lines, reps),
        Work::Write => kernel::write(lines, reps),
        Work::Copy => return kernel::copy(lines, reps),
    }
    kernel::whole(lines.len())
}

#[cfg(test)]
mod tests {
    use super::super::arena::{Arena, Pages};
    use super::*;

    #[test]
    fn numbers_of_threads_end_with_all() {
        assert_eq!(usual(1), [1]);
        assert_eq!(usual(2), [1, 2]);
        assert_eq!(usual(4), [1, 2, 3, 4]);
        assert_eq!(usual(6), [1, 2, 3, 4, 6]);
        assert_eq!(usual(20), [1, 2, 3, 4, 6, 8, 12, 16, 20]);
        assert!(usual(512).windows(2).all(|two| two[0] < two[1]));
    }

    #[test]
    fn threads_have_rates_whatever_their_number() {
        let mut arena = Arena::new(1 << 20, Pages::Small).unwrap();
        for threads in [1, 3, 100_000] {
            let (cpus, span) = (place::allowed(), Duration::from_millis(1));
            let row = measure(&mut arena, threads.min(9), &cpus, 8192, span).unwrap();
            assert!(row.read > 0.0 && row.write > 0.0 && row.copy > 0.0 && row.cache > 0.0, "{row:?}");
        }
        assert_eq!(measure(&mut arena[..1], 2, &[], 64, Duration::ZERO).unwrap().read, 0.0);
    }
}
