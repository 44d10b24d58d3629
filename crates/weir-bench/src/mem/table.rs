//! The level table: plateaus of the latency curve, and the rates of working sets that lie well inside each.

use weir_units::stats::median;

use super::levels::{self, Point};
use super::{MemOutcome, Rates};

/// One level.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// `L1`, `L2`, `L3`, `memory`.
    pub name: String,
    /// Bytes, found; of memory what the machine has; `None` where that is not known.
    pub size: Option<u64>,
    /// What the system says, bytes.
    pub system: Option<u64>,
    /// Seconds a load, from this level alone.
    pub latency: f64,
    /// Cycles a load, where the clock is known.
    pub cycles: Option<f64>,
    /// The sequential rates: the middle of those of working sets inside. `bytes` is how many sets that were.
    pub rates: Rates,
}

/// A working set is well inside a level when it is so many times larger than the level before, which it else
/// half lives in...
const ABOVE: f64 = 1.5;

/// ...and so many times larger than the last cache, since a shared cache may hold a part of twice its size...
const ABOVE_LAST: f64 = 3.0;

/// ...and no more than this share of the level's own size: the stack, other programs and page tables want
/// some of it.
const BELOW: f64 = 0.7;

/// Makes the table of the curves.
pub(super) fn fill(outcome: &mut MemOutcome, memory: Option<u64>) {
    // The fastest pass: whatever else uses a shared cache makes it look smaller, and some moment is calmer
    // than others.
    let points =
        outcome.latency.iter().map(|point| Point { bytes: point.bytes as f64, latency: point.timing.best });
    let plateaus = levels::find(&points.collect::<Vec<_>>());
    let system = outcome.system.as_ref().and_then(|system| system.as_ref().ok()).cloned().unwrap_or_default();
    let names = levels::names(&plateaus, &system);
    let mut before = 0.0;
    outcome.levels = plateaus
        .iter()
        .zip(names)
        .map(|(plateau, name)| {
            let above = if plateau.size.is_none() { ABOVE_LAST } else { ABOVE };
            let inside = (before * above, plateau.size.map_or(f64::INFINITY, |size| size * BELOW));
            before = plateau.size.unwrap_or(before);
            let place = name.strip_prefix('L').and_then(|place| place.parse::<usize>().ok());
            Level {
                system: place.and_then(|place| system.get(place - 1)).copied(),
                name,
                size: plateau.size.map(|size| size.round() as u64).or(memory),
                latency: plateau.latency,
                cycles: outcome.clock.map(|clock| clock * plateau.latency),
                rates: rates(&outcome.rates, inside),
            }
        })
        .collect();
}

/// The middle of the rates of working sets between two sizes; where there are none, of the nearest.
fn rates(of: &[Rates], (from, to): (f64, f64)) -> Rates {
    let inside = |row: &&Rates| (from..=to).contains(&(row.bytes as f64));
    let mut rows: Vec<&Rates> = of.iter().filter(inside).collect();
    if rows.is_empty() {
        let middle = if to.is_finite() { (from.max(1.0) * to).sqrt() } else { from };
        let distance = |row: &&Rates| (row.bytes as f64 / middle).ln().abs();
        rows.extend(of.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))));
    }
    let middle = |of: fn(&Rates) -> f64| median(rows.iter().map(|row| of(row))).unwrap_or(0.0);
    Rates {
        bytes: rows.len() as u64,
        read: middle(|row| row.read),
        write: middle(|row| row.write),
        copy: middle(|row| row.copy),
        stream: median(rows.iter().filter_map(|row| row.stream)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Measured;
    use super::super::sample::Timing;
    use super::*;

    /// 32 KiB at 1 ns, 8 MiB at 10 ns, then 80 ns; rates of 100, 50 and 10 GB/s.
    fn outcome() -> MemOutcome {
        let sizes = super::super::sizes(4096, 256 << 20, 4);
        let cost = |bytes: f64| {
            bytes.min(32768.0)
                + (bytes.min(8388608.0) - 32768.0).max(0.0) * 10.0
                + (bytes - 8388608.0).max(0.0) * 80.0
        };
        let latency = sizes.iter().map(|bytes| {
            let value = cost(*bytes as f64) / *bytes as f64 * 1e-9;
            Measured { bytes: *bytes as u64, timing: Timing { value, best: value, spread: 0.0, passes: 9 } }
        });
        let rate = |bytes: usize| match bytes {
            0..=32768 => 100e9,
            32769..=8388608 => 50e9,
            _ => 10e9,
        };
        let rates = sizes.iter().map(|bytes| {
            let read = rate(*bytes);
            Rates { bytes: *bytes as u64, read, write: read / 2.0, copy: read / 4.0, stream: None }
        });
        MemOutcome {
            clock: Some(4e9),
            latency: latency.collect(),
            rates: rates.collect(),
            system: Some(Ok(vec![32 << 10, 8 << 20])),
            ..MemOutcome::default()
        }
    }

    #[test]
    fn levels_have_the_rates_of_their_own_working_sets() {
        let mut outcome = outcome();
        fill(&mut outcome, Some(16 << 30));
        let names: Vec<&str> = outcome.levels.iter().map(|level| level.name.as_str()).collect();
        assert_eq!(names, ["L1", "L2", "memory"]);
        for (level, read) in outcome.levels.iter().zip([100e9, 50e9, 10e9]) {
            assert_eq!((level.rates.read, level.rates.copy), (read, read / 4.0), "{level:?}");
            assert_eq!(level.rates.stream, None);
        }
        assert_eq!(outcome.levels[1].system, Some(8 << 20));
        assert_eq!(outcome.levels[2].size, Some(16 << 30));
        assert!((outcome.levels[0].cycles.unwrap() - 4.0).abs() < 0.1);
    }

    #[test]
    fn without_rates_or_a_clock_there_are_still_levels() {
        let mut outcome = MemOutcome { clock: None, rates: Vec::new(), system: None, ..outcome() };
        fill(&mut outcome, None);
        assert_eq!(outcome.levels.len(), 3);
        assert_eq!((outcome.levels[0].cycles, outcome.levels[2].size), (None, None));
        assert_eq!(outcome.levels[0].rates.read, 0.0);
    }
}
