//! Whether this machine had its processors while something was measured: a guest's host may take them for
//! seconds.

use std::time::{Duration, Instant};

use weir_observe::cpu::{CpuReader, CpuTicks};

/// The most that the host may take of all processors' time. What it takes comes in turns of some
/// milliseconds: at a twentieth a second still has most of its hundredths to itself.
const TAKEN: f64 = 0.05;

/// How long a quiet moment is looked for.
const TIMEOUT: Duration = Duration::from_secs(45);

/// Measures again as long as the host took processors meanwhile. What was measured is looked at only
/// afterwards, so that a figure that does not suit is no reason to measure again.
pub(crate) fn undisturbed<T>(mut measure: impl FnMut() -> T) -> T {
    let start = Instant::now();
    loop {
        let before = ticks();
        let measured = measure();
        let taken = taken_since(&before);
        if taken < TAKEN || start.elapsed() > TIMEOUT {
            return measured;
        }
        println!("the host took {:.0} % of the processors: measured again", taken * 100.0);
    }
}

/// Of all processors since the start.
fn ticks() -> Vec<CpuTicks> {
    CpuReader::open().expect("/proc is mounted").read().expect("/proc/stat can be read")
}

fn taken_since(before: &[CpuTicks]) -> f64 {
    let now = ticks();
    let sum = |ticks: &[CpuTicks], of: fn(&CpuTicks) -> u64| ticks.iter().map(of).sum::<u64>();
    let passed = |of| sum(&now, of).saturating_sub(sum(before, of)) as f64;
    passed(|ticks| ticks.steal) / passed(|ticks| ticks.total).max(1.0)
}
