//! The measurements, one after another, on one processor.

use std::io;
use std::time::{Duration, Instant};

use weir_units::stats::median;

use super::arena::Line;
use super::sample::Passes;
use super::threads;
use super::{Measured, MemOutcome, Peak, Plan, Progress, Rates, clock, kernel, place::MeasuringCpu, sizes};

/// The smallest working set: a page.
const FIRST: u64 = 4096;

/// What one pass lasts at least, seconds: a thousand times what reading the clock takes.
const PASS: f64 = 100e-6;

/// What a pass of the chase lasts, seconds: short, since others take lines out of a shared cache all the
/// while that the chase goes through it.
const CHASE: f64 = 60e-6;

/// Steps that settle a set, at most, and one of so many lines before that: on its way through those a chase
/// has seen each page table that it will need, while more of them take longer than a point may.
const SETTLE: usize = 300_000;
const SETTLED: usize = 8;

/// Passes of a point in a round at least, whatever its span: a quartile of fewer is the fastest one.
const FEWEST: usize = 4;

/// Passes after which another one tells nothing.
const MOST: usize = 200;

/// What the measurements share.
pub(super) struct Sweep<'a, 'b> {
    plan: &'a Plan,
    progress: &'a mut Progress<'b>,
    pub(super) place: MeasuringCpu,
    latency_sizes: Vec<usize>,
    rate_sizes: Vec<usize>,
    small_sizes: Vec<usize>,
    done: usize,
    count: usize,
    clocks: Vec<f64>,
    /// Someone wants no more.
    pub(super) stopped: bool,
}

impl<'a, 'b> Sweep<'a, 'b> {
    pub(super) fn begin(plan: &'a Plan, most: u64, progress: &'a mut Progress<'b>) -> Sweep<'a, 'b> {
        let latency_sizes = sizes(FIRST, most, plan.steps[0]);
        let rate_sizes = sizes(FIRST, most, plan.steps[1]);
        let small_sizes = sizes(FIRST, most.min(super::MOST_SMALL), 2);
        let mountain = sizes(FIRST, most, 1).len();
        let count = plan.rounds * (latency_sizes.len() + rate_sizes.len())
            + mountain
            + plan.threads.len()
            + small_sizes.len();
        Sweep {
            plan,
            progress,
            place: MeasuringCpu::take(),
            latency_sizes,
            rate_sizes,
            small_sizes,
            done: 0,
            count,
            clocks: Vec::new(),
            stopped: false,
        }
    }

    /// Says what comes next. False when no more is wanted.
    fn next(&mut self, what: &str) -> bool {
        self.stopped = self.stopped || !(self.progress)(what, self.done, self.count);
        self.done += 1;
        !self.stopped
    }

    /// What reading the clock costs, and an address.
    pub(super) fn overhead(&mut self, outcome: &mut MemOutcome) {
        let readings = (0..1000).map(|_| {
            let start = Instant::now();
            start.elapsed().as_secs_f64()
        });
        outcome.overhead.clock = median(readings).unwrap_or(0.0);
        const STEPS: usize = 100_000;
        let made = (0..10).map(|_| {
            let start = Instant::now();
            kernel::make_addresses(STEPS);
            start.elapsed().as_secs_f64() / STEPS as f64
        });
        outcome.overhead.address = made.fold(f64::INFINITY, f64::min);
        outcome.overhead.pass = PASS;
    }

    /// Times `pass` until the span is over; what it returns is one pass in any unit.
    fn passes(&mut self, mut pass: impl FnMut() -> f64) -> Passes {
        let mut passes = Passes::default();
        let (start, mut count) = (Instant::now(), 0);
        while count < FEWEST || (count < MOST && start.elapsed() < self.plan.span) {
            let value = pass();
            count += 1;
            // A pass that ended on another processor is of neither; but where a thread is moved all the time,
            // some figure is better than none.
            if self.place.stayed() || count > MOST / 2 {
                passes.push(value);
            }
        }
        passes
    }

    /// Latency and rates, round by round: what disturbs one round may have gone in the next.
    pub(super) fn rounds(&mut self, lines: &mut [Line], outcome: &mut MemOutcome) {
        let mut latency = vec![Latencies::default(); self.latency_sizes.len()];
        let mut rates = vec![RatePasses::default(); self.rate_sizes.len()];
        'all: for round in 0..self.plan.rounds {
            self.clocks.extend(clock::measure());
            for (index, bytes) in self.latency_sizes.clone().into_iter().enumerate() {
                if !self.next(&format!("latency of {}", size(bytes))) {
                    break 'all;
                }
                let more = self.latency(&lines[..bytes / size_of::<Line>()], round as u64);
                latency[index].join(more);
            }
            self.clocks.extend(clock::measure());
            for (index, bytes) in self.rate_sizes.clone().into_iter().enumerate() {
                if !self.next(&format!("rates of {}", size(bytes))) {
                    break 'all;
                }
                let more = self.rates(&mut lines[..bytes / size_of::<Line>()]);
                rates[index].join(more);
            }
        }
        outcome.clock = median(std::mem::take(&mut self.clocks));
        outcome.latency = measured(&self.latency_sizes, &latency);
        let rows = self.rate_sizes.iter().zip(&rates);
        outcome.rates = rows.filter_map(|(bytes, passes)| passes.row(*bytes as u64)).collect();
    }

    /// A load from random lines of a working set, in two states of the caches.
    ///
    /// *Fetched*: everything is read in order before each pass, so that the caches hold as much of the set as
    /// they can: a chain of loads by itself touches its lines so seldom that programs beside it, or other
    /// machines on the same processor, take a shared cache away from it. *Settled*: pass after pass, so that
    /// the page tables of a large set are as near as they come to be. Whatever is quicker is nearer to what
    /// the hardware does when it is left alone.
    fn latency(&mut self, lines: &[Line], round: u64) -> Latencies {
        let mut seed = round << 32;
        let mut next = || {
            seed += 1;
            seed
        };
        let chase = |steps: usize, seed: u64| {
            let start = Instant::now();
            kernel::chase(lines, steps, seed);
            start.elapsed().as_secs_f64() / steps as f64
        };
        kernel::read(lines, 1);
        let one = chase(1000, next()).max(1e-10);
        let steps = (CHASE / one) as usize / 4 * 4 + 400;
        let fetched = self.passes(|| {
            kernel::read(lines, 1);
            chase(steps, next())
        });
        chase((lines.len() / SETTLED).clamp(400, SETTLE), next());
        let mut settled = Passes::default();
        for _ in 0..2 * FEWEST {
            let value = chase(steps, next());
            if self.place.stayed() {
                settled.push(value);
            }
        }
        Latencies { fetched, settled }
    }

    fn rates(&mut self, lines: &mut [Line]) -> RatePasses {
        let bytes = kernel::whole(lines.len()) as f64;
        RatePasses {
            read: self.repeated(|reps| kernel::read(lines, reps), bytes),
            write: self.repeated(|reps| kernel::write(lines, reps), bytes),
            copy: {
                let copied = kernel::copy(lines, 1) as f64;
                self.repeated(
                    |reps| {
                        kernel::copy(lines, reps);
                    },
                    copied,
                )
            },
            stream: kernel::stream(lines, 1).then(|| {
                self.repeated(
                    |reps| {
                        kernel::stream(lines, reps);
                    },
                    bytes,
                )
            }),
        }
    }

    /// Seconds for a byte, of a loop that goes over `bytes` in each of its repetitions.
    fn repeated(&mut self, mut work: impl FnMut(usize), bytes: f64) -> Passes {
        let mut time = |reps: usize| {
            let start = Instant::now();
            work(reps);
            start.elapsed().as_secs_f64()
        };
        // The first brings the set into the caches, the second says how long it takes.
        time(1);
        let once = time(1).max(1e-9);
        let reps = (PASS / once).ceil().clamp(1.0, 1e6) as usize;
        self.passes(|| time(reps) / (reps as f64 * bytes))
    }

    /// Strided reads of working sets an octave apart.
    pub(super) fn mountain(&mut self, lines: &mut [Line], outcome: &mut MemOutcome) {
        let most = size_of_val(lines) as u64;
        for bytes in sizes(FIRST, most, 1) {
            if !self.next(&format!("the mountain at {}", size(bytes))) {
                return;
            }
            let set = &lines[..bytes / size_of::<Line>()];
            for &stride in &self.plan.strides {
                let passes = match stride {
                    1 => self.repeated(|reps| kernel::read(set, reps), kernel::whole(set.len()) as f64),
                    _ => {
                        let words = kernel::read_strided(set, stride, 1) as f64;
                        self.repeated(
                            |reps| {
                                kernel::read_strided(set, stride, reps);
                            },
                            words * 8.0,
                        )
                    }
                };
                if let Some(timing) = passes.timing() {
                    outcome.mountain.push(Peak { bytes: bytes as u64, stride, rate: 1.0 / timing.value });
                }
            }
        }
    }

    /// The same loads without huge pages: what TLB misses add.
    pub(super) fn small_pages(&mut self, lines: &[Line], outcome: &mut MemOutcome) {
        let mut latency = Vec::new();
        for bytes in self.small_sizes.clone() {
            if !self.next(&format!("latency of {} in small pages", size(bytes))) {
                break;
            }
            latency.push(self.latency(&lines[..bytes / size_of::<Line>()], 0));
        }
        outcome.latency_small = measured(&self.small_sizes, &latency);
    }

    /// Rates of several threads.
    pub(super) fn threads(
        &mut self,
        lines: &mut [Line],
        cpus: &[usize],
        outcome: &mut MemOutcome,
    ) -> io::Result<()> {
        for &count in &self.plan.threads {
            let name = if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") };
            if !self.next(&name) {
                break;
            }
            // Half of the second cache: each processor has one of its own, mostly.
            let cache = outcome.levels.get(1).and_then(|level| level.size).unwrap_or(1 << 18) / 2;
            outcome.threads.push(threads::measure(lines, count, cpus, cache as usize, self.span())?);
        }
        Ok(())
    }

    /// For each figure of a threads' row: long against the time in which the threads begin.
    fn span(&self) -> Duration {
        self.plan.span * self.plan.rounds.max(1) as u32 * 2
    }
}

/// Seconds a load, in the two states.
#[derive(Debug, Clone, Default)]
struct Latencies {
    fetched: Passes,
    settled: Passes,
}

impl Latencies {
    fn join(&mut self, more: Latencies) {
        self.fetched.join(more.fetched);
        self.settled.join(more.settled);
    }
}

fn measured(sizes: &[usize], latencies: &[Latencies]) -> Vec<Measured> {
    let row = |(bytes, latencies): (&usize, &Latencies)| {
        let states = [latencies.fetched.timing(), latencies.settled.timing()];
        let timing = states.into_iter().flatten().min_by(|a, b| a.value.total_cmp(&b.value))?;
        Some(Measured { bytes: *bytes as u64, timing })
    };
    sizes.iter().zip(latencies).filter_map(row).collect()
}

/// Seconds a byte.
#[derive(Debug, Clone, Default)]
struct RatePasses {
    read: Passes,
    write: Passes,
    copy: Passes,
    stream: Option<Passes>,
}

impl RatePasses {
    fn join(&mut self, more: RatePasses) {
        self.read.join(more.read);
        self.write.join(more.write);
        self.copy.join(more.copy);
        if let Some(stream) = more.stream {
            self.stream.get_or_insert_default().join(stream);
        }
    }

    fn row(&self, bytes: u64) -> Option<Rates> {
        let rate = |passes: &Passes| passes.timing().map(|timing| 1.0 / timing.value);
        Some(Rates {
            bytes,
            read: rate(&self.read)?,
            write: rate(&self.write)?,
            copy: rate(&self.copy)?,
            stream: self.stream.as_ref().and_then(rate),
        })
    }
}

/// For the live line.
fn size(bytes: usize) -> String {
    match bytes {
        bytes if bytes < 1 << 20 => format!("{} KiB", bytes >> 10),
        bytes => format!("{} MiB", bytes >> 20),
    }
}
