//! What do this processor's caches and its memory give: how long does a load take, how many bytes a second?
//!
//! * [`kernel`]: the loops, [`arena`]: the memory they touch, [`place`]: the processor they stay on,
//!   [`clock`]: its cycles.
//! * [`levels`]: pure: the plateaus of a latency curve. Sizes are found there, never taken from what the
//!   system says.
//! * [`run`]: everything once, in a thread of its own, within about half a minute.
//!
//! Each figure is measured in several rounds some seconds apart, in many short passes; see [`sample::Passes`]
//! for what stands for them.

pub mod arena;
pub mod clock;
pub mod kernel;
pub mod levels;
pub mod place;
pub mod random;
pub mod sample;
mod sweep;
mod table;
mod threads;

use std::io;
use std::time::Duration;

use arena::{Arena, Pages};
use kernel::Width;
use sample::Timing;
pub use table::Level;
pub use threads::ThreadsRow;
use weir_observe::{cache, memory};
use weir_units::plain;
use weir_units::threads::start_scoped;

/// Without so much nothing but caches would be seen, if those.
const LEAST: u64 = 1 << 20;

/// The most that 4 KiB pages are touched of: several times what any TLB reaches.
const MOST_SMALL: u64 = 128 << 20;

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The largest working set, bytes; less where half of the free memory is less.
    pub most: u64,
    /// How often latency and the sequential rates are gone through.
    pub rounds: usize,
    /// How long one point is measured in one round.
    pub span: Duration,
    /// Working sets in an octave for latency, and for rates.
    pub steps: [u32; 2],
    /// Strides of the mountain, words of 8 bytes.
    pub strides: Vec<usize>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
}

impl Plan {
    /// Some twenty seconds.
    pub fn usual() -> Plan {
        Plan {
            // CS:APP's mountain ends at 128 MiB, which the largest caches hold.
            most: 512 << 20,
            rounds: 3,
            span: Duration::from_millis(10),
            steps: [4, 2],
            strides: vec![1, 2, 3, 4, 6, 8, 12, 16, 24, 32],
            threads: threads::usual(place::allowed().len()),
        }
    }

    /// Some three seconds, and only the levels to be relied on.
    pub fn quick() -> Plan {
        Plan {
            most: 256 << 20,
            rounds: 2,
            span: Duration::from_millis(4),
            steps: [4, 1],
            strides: vec![1, 8],
            threads: threads::usual(place::allowed().len()),
        }
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemOutcome {
    /// The processor that all but the threads' rows are of.
    pub cpu: usize,
    /// It could be kept there.
    pub pinned: bool,
    /// Passes thrown away because the thread had been moved to another processor.
    pub moved: u64,
    /// Bytes of a load.
    pub width: Option<Width>,
    /// Cycles a second, counted; `None` where they cannot be.
    pub clock: Option<f64>,
    /// The largest working set, bytes.
    pub most: u64,
    /// Share of the memory that lay in huge pages, where they were asked for.
    pub huge: Option<f64>,
    /// What measuring costs.
    pub overhead: Overhead,
    /// The table.
    pub levels: Vec<Level>,
    /// Random loads in huge pages, where there are any.
    pub latency: Vec<Measured>,
    /// Random loads in pages of 4 KiB.
    pub latency_small: Vec<Measured>,
    /// Sequential rates.
    pub rates: Vec<Rates>,
    /// Strided reads.
    pub mountain: Vec<Peak>,
    /// Several threads at once.
    pub threads: Vec<ThreadsRow>,
    /// The caches that the system names, bytes, nearest first; `Err` says why none.
    pub system: Option<Result<Vec<u64>, String>>,
    /// Ended before everything was measured.
    pub interrupted: bool,
}

/// What measuring costs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Overhead {
    /// Reading the clock twice, seconds: part of each pass.
    pub clock: f64,
    /// The shortest pass, seconds.
    pub pass: f64,
    /// Making a random address, seconds. Not part of a latency, unless it is the longer one.
    pub address: f64,
}

/// Seconds for one load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The working set, bytes.
    pub bytes: u64,
    /// Seconds.
    pub timing: Timing,
}

/// Bytes a second, in order, with the widest loads and stores.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// The working set, bytes. Of a copy both halves.
    pub bytes: u64,
    /// Read.
    pub read: f64,
    /// Written.
    pub write: f64,
    /// Copied: each byte is read and written, and counts once.
    pub copy: f64,
    /// Written past the caches; `None` where this architecture's way is not known.
    pub stream: Option<f64>,
}

/// A point of the mountain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// The working set, bytes.
    pub bytes: u64,
    /// Words of 8 bytes from one read to the next. With 1 all is read, by the widest loads; else a word at a
    /// time.
    pub stride: usize,
    /// Bytes a second that were read; what lies between does not count.
    pub rate: f64,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum MemError {
    /// The memory that is free, or that a limit leaves, is too little.
    #[error(
        "cannot measure memory: {available} bytes are free, and half of them are less than {LEAST}; free some"
    )]
    TooLittle {
        /// Bytes.
        available: u64,
    },
    /// The kernel gave none.
    #[error("cannot map {bytes} bytes to measure on: {}; ask for less (--up-to)", plain(cause))]
    Map {
        /// Bytes.
        bytes: u64,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// No thread for it.
    #[error(transparent)]
    Thread(#[from] io::Error),
}

/// Told what comes next, which of how many parts that is; false ends the measurement.
pub type Progress<'a> = dyn FnMut(&str, usize, usize) -> bool + Send + 'a;

/// Measures.
pub fn run(plan: &Plan, progress: &mut Progress<'_>) -> Result<MemOutcome, MemError> {
    // A thread of its own: where it is kept does not hold for the caller, nor for what the caller starts.
    std::thread::scope(|scope| {
        let measured = start_scoped(scope, "mem", || measure(plan, progress))?.join();
        measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn measure(plan: &Plan, progress: &mut Progress<'_>) -> Result<MemOutcome, MemError> {
    let seen = memory::memory().ok();
    let most = affordable(plan.most, seen.map(|memory| memory.available))?;
    let mut sweep = sweep::Sweep::begin(plan, most, progress);
    let mut outcome = MemOutcome { most, width: Some(Width::detect()), ..MemOutcome::default() };
    let cpus = place::allowed();
    sweep.overhead(&mut outcome);
    {
        let mut arena = map(most, Pages::Huge)?;
        outcome.huge = arena.huge_bytes().map(|huge| (huge as f64 / most as f64).min(1.0));
        sweep.rounds(&mut arena, &mut outcome);
        sweep.mountain(&mut arena, &mut outcome);
        let system = cache::caches(sweep.place.cpu);
        outcome.system = Some(match system {
            Ok(caches) => Ok(caches.iter().map(|cache| cache.size).collect()),
            Err(why) => Err(why.to_string()),
        });
        table::fill(&mut outcome, seen.map(|memory| memory.total));
        sweep.threads(&mut arena, &cpus, &mut outcome)?;
    }
    if !sweep.stopped {
        let small = map(most.min(MOST_SMALL), Pages::Small)?;
        sweep.small_pages(&small, &mut outcome);
    }
    outcome.cpu = sweep.place.cpu;
    outcome.pinned = sweep.place.pinned;
    outcome.moved = sweep.place.moved;
    outcome.interrupted = sweep.stopped;
    Ok(outcome)
}

/// Half of what is free is not anybody else's yet, and leaves the page cache some room.
fn affordable(wanted: u64, available: Option<u64>) -> Result<u64, MemError> {
    let most = available.map_or(wanted, |available| wanted.min(available / 2));
    let whole = most >> 20 << 20;
    match (whole < LEAST, available) {
        (true, Some(available)) => Err(MemError::TooLittle { available }),
        _ => Ok(whole.max(LEAST)),
    }
}

fn map(bytes: u64, pages: Pages) -> Result<Arena, MemError> {
    let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory.into());
    length
        .and_then(|length| Arena::new(length, pages))
        .map_err(|cause: io::Error| MemError::Map { bytes, cause })
}

/// Working sets from `first` to `last` bytes, so many in an octave, in whole chunks.
fn sizes(first: u64, last: u64, steps: u32) -> Vec<usize> {
    let chunk = kernel::CHUNK as f64;
    let count = (last as f64 / first as f64).log2() * f64::from(steps.max(1)) + 1e-9;
    let size = |step: u64| first as f64 * 2_f64.powf(step as f64 / f64::from(steps.max(1)));
    let mut sizes: Vec<usize> =
        (0..=count as u64).map(|step| (size(step) / chunk).round() as usize * kernel::CHUNK).collect();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_free_is_taken_at_most() {
        assert_eq!(affordable(512 << 20, Some(4 << 30)).unwrap(), 512 << 20);
        assert_eq!(affordable(512 << 20, Some(100 << 20)).unwrap(), 50 << 20);
        assert_eq!(affordable(512 << 20, None).unwrap(), 512 << 20);
        let error = affordable(512 << 20, Some(1 << 20)).unwrap_err().to_string();
        assert!(error.contains("1048576 bytes are free"), "{error}");
    }

    #[test]
    fn working_sets_grow_by_the_octave() {
        assert_eq!(sizes(4096, 16384, 1), [4096, 8192, 16384]);
        let fine = sizes(4096, 512 << 20, 4);
        assert_eq!((fine[0], fine[fine.len() - 1]), (4096, 512 << 20));
        assert!(fine.windows(2).all(|two| two[0] < two[1]));
        assert!(fine.iter().all(|size| size % kernel::CHUNK == 0));
    }

    #[test]
    fn everything_is_measured_once_in_order() {
        let plan = Plan {
            most: 4 << 20,
            rounds: 1,
            span: Duration::from_micros(200),
            steps: [2, 1],
            strides: vec![1, 8],
            threads: vec![1, 2],
        };
        let mut told = Vec::new();
        let outcome = run(&plan, &mut |what, index, count| {
            assert!(index < count, "{what} {index} {count}");
            told.push(index);
            true
        })
        .unwrap();
        assert!(told.windows(2).all(|two| two[0] + 1 == two[1]), "{told:?}");
        assert_eq!(outcome.latency.len(), 21);
        assert_eq!(outcome.latency_small.len(), 21);
        assert_eq!(outcome.rates.len(), 11);
        assert_eq!(outcome.mountain.len(), 2 * 11);
        assert_eq!(outcome.threads.len(), 2);
        assert!(!outcome.interrupted && outcome.levels.len() >= 2, "{:?}", outcome.levels);
        assert!(outcome.levels.windows(2).all(|two| two[0].latency < two[1].latency));
        assert!(outcome.overhead.clock < outcome.overhead.pass, "{:?}", outcome.overhead);
    }

    #[test]
    fn whoever_stops_it_gets_what_there_is() {
        let plan = Plan { most: 4 << 20, span: Duration::from_micros(100), ..Plan::quick() };
        let outcome = run(&plan, &mut |_, index, _| index < 30).unwrap();
        assert!(outcome.interrupted);
        assert_eq!(outcome.latency.len(), 30);
        assert!(outcome.rates.is_empty() && outcome.mountain.is_empty() && outcome.latency_small.is_empty());
    }
}
