//! The level table and the curves behind it, several times, for whoever works on them.
#![allow(clippy::unwrap_used, reason = "an example")]

use weir_bench::mem::{Plan, run};

fn main() {
    for _ in 0..3 {
        let start = std::time::Instant::now();
        let plan = if std::env::args().any(|arg| arg == "quick") { Plan::quick() } else { Plan::usual() };
        let outcome = run(&plan, &mut |_, _, _| true).unwrap();
        println!(
            "{:?}: clock {:?}, huge {:?}, overhead {:?}",
            start.elapsed(),
            outcome.clock,
            outcome.huge,
            outcome.overhead
        );
        for level in &outcome.levels {
            println!(
                "{:7} {:9.1} KiB ({:?}) {:7.2} ns {:6.1} cycles {:6.1} {:6.1} {:6.1} {:6.1?} GB/s of {}",
                level.name,
                level.size.unwrap_or(0) as f64 / 1024.0,
                level.system,
                level.latency * 1e9,
                level.cycles.unwrap_or(0.0),
                level.rates.read / 1e9,
                level.rates.write / 1e9,
                level.rates.copy / 1e9,
                level.rates.stream.unwrap_or(0.0) / 1e9,
                level.rates.bytes,
            );
        }
        if std::env::args().any(|arg| arg == "curve") {
            for point in &outcome.latency {
                println!(
                    "{:9} {:8.2} {:.3}",
                    point.bytes >> 10,
                    point.timing.value * 1e9,
                    point.timing.spread
                );
            }
        }
        println!("{:?}", outcome.threads);
    }
}
