//! Whether this machine had its processors while something was measured: a guest's host may take them for seconds.

use std::time::{Duration, Instant};

/// The most that the host may take of all processors' time. What it takes comes in turns of some milliseconds: at a twentieth a
/// second still has most of its hundredths to itself.
const TAKEN: f64 = 0.05;

/// How long a quiet moment is looked for.
const PATIENCE: Duration = Duration::from_secs(45);

/// Measures again as long as the host took processors meanwhile. What was measured is looked at only afterwards, so that a
/// figure that does not suit is no reason to measure again.
pub(crate) fn undisturbed<T>(mut measure: impl FnMut() -> T) -> T {
    let start = Instant::now();
    loop {
        let before = Ticks::now();
        let measured = measure();
        let taken = Ticks::now().share_since(&before);
        if taken < TAKEN || start.elapsed() > PATIENCE {
            return measured;
        }
        println!("the host took {:.0} % of the processors: measured again", taken * 100.0);
    }
}

/// Of all processors since the start, in hundredths of a second.
struct Ticks {
    taken: u64,
    all: u64,
}

impl Ticks {
    /// From `/proc/stat` (fs/proc/stat.c): user nice system idle iowait irq softirq steal; what follows is part of user.
    fn now() -> Ticks {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).flat_map(str::parse).collect();
        Ticks { taken: ticks.get(7).copied().unwrap_or(0), all: ticks.iter().sum() }
    }

    fn share_since(&self, before: &Ticks) -> f64 {
        self.taken.saturating_sub(before.taken) as f64 / self.all.saturating_sub(before.all).max(1) as f64
    }
}
