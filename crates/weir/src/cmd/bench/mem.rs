//! `weir bench mem`: the caches and the memory of this machine.

use std::time::{Duration, Instant};

use weir_bench::mem::{self, Level, Measured, MemOutcome as Found, Plan};
use weir_observe::nic::links::links;
use weir_report::calibration::{CalibrationRecord, Figure};
use weir_report::memory::{
    self as report, LatencyRecord, LevelRecord, MemoryRecord, MemoryThreadsRecord, OverheadRecord,
    PeakRecord, RatesRecord,
};
use weir_report::schema::Record;

use super::{Progress, outcome_of, tell};
use crate::args::BenchMem;
use crate::calibration;
use crate::interrupt::INTERRUPTED;
use crate::voice;

/// Measures and reports. Returns the exit code.
pub fn run(bench: &BenchMem) -> anyhow::Result<u8> {
    voice::start_log(bench.voice.quiet, bench.voice.verbose);
    let start = Instant::now();
    let progress = Progress::new(&bench.voice)?;
    let (mut member, interrupted) = measure(&plan(bench), &progress)?;
    progress.clear();
    set_beside(&mut member, calibration::of_this_host());
    let code = if interrupted { INTERRUPTED } else { 0 };
    print(bench, &member, code, start.elapsed())?;
    Ok(code)
}

/// Measures alone. Returns also whether it was interrupted.
pub(super) fn measure(plan: &Plan, progress: &Progress) -> anyhow::Result<(MemoryRecord, bool)> {
    let found = mem::run(plan, &mut |what, index, count| progress.next(what, index, count))?;
    Ok((member(plan, &found), found.interrupted))
}

/// Puts the rates of disks and links beside the memory's, as far as they are known.
pub(super) fn set_beside(member: &mut MemoryRecord, calibration: Option<&CalibrationRecord>) {
    member.disks = calibration.map(|calibration| calibration.disks.clone()).unwrap_or_default();
    member.links = links().into_iter().map(|(name, rate)| Figure { name, rate: rate.0 }).collect();
}

fn plan(bench: &BenchMem) -> Plan {
    let plan = if bench.quick { Plan::quick() } else { Plan::usual() };
    let threads = match bench.threads.as_slice() {
        [] => plan.threads,
        asked => asked.iter().map(|threads| (*threads).into()).collect(),
    };
    Plan { most: bench.up_to.map_or(plan.most, |most| most.0), threads, ..plan }
}

/// What was found, as the record holds it.
fn member(plan: &Plan, found: &Found) -> MemoryRecord {
    let peaks = found.mountain.iter();
    MemoryRecord {
        levels: found.levels.iter().map(|level| level_record(level, found)).collect(),
        cpu: found.cpu,
        pinned: found.pinned,
        moved: found.moved,
        loads: found.width.map(|width| width.name().to_owned()).unwrap_or_default(),
        load_bytes: found.width.map_or(0, |width| width.bytes()),
        clock: found.clock,
        most: found.most,
        huge_pages: found.huge,
        overhead: OverheadRecord {
            clock_ns: found.overhead.clock * 1e9,
            pass_ns: found.overhead.pass * 1e9,
            address_ns: found.overhead.address * 1e9,
        },
        latency: latencies(&found.latency),
        latency_small_pages: latencies(&found.latency_small),
        rates: found.rates.iter().map(rates).collect(),
        mountain: peaks.map(|at| PeakRecord { bytes: at.bytes, stride: at.stride, rate: at.rate }).collect(),
        threads: found.threads.iter().map(threads).collect(),
        disks: Vec::new(),
        links: Vec::new(),
        missing: missing(plan, found),
    }
}

fn level_record(level: &Level, found: &Found) -> LevelRecord {
    LevelRecord {
        name: level.name.clone(),
        size: level.size,
        system_size: level.system,
        latency_ns: level.latency * 1e9,
        latency_cycles: level.cycles,
        throughput: level.rates.read,
        bytes_per_cycle: found.clock.map(|clock| level.rates.read / clock),
        write: level.rates.write,
        copy: level.rates.copy,
        stream: level.rates.stream,
    }
}

fn latencies(of: &[Measured]) -> Vec<LatencyRecord> {
    let record = |point: &Measured| LatencyRecord {
        bytes: point.bytes,
        ns: point.timing.value * 1e9,
        spread: point.timing.spread,
    };
    of.iter().map(record).collect()
}

fn rates(of: &mem::Rates) -> RatesRecord {
    RatesRecord { bytes: of.bytes, read: of.read, write: of.write, copy: of.copy, stream: of.stream }
}

fn threads(of: &mem::ThreadsRow) -> MemoryThreadsRecord {
    MemoryThreadsRecord {
        threads: of.threads,
        read: of.read,
        write: of.write,
        copy: of.copy,
        cache: of.cache,
    }
}

/// A cache counts as smaller than the system says below this share of it: what is found is off by less.
const SMALLER: f64 = 0.85;

/// A cache of which this thread does not get all.
fn shared(level: &Level) -> Option<String> {
    let (found, said) = (level.size?, level.system?);
    ((found as f64) < SMALLER * said as f64).then(|| {
        format!(
            "{} gave {} of the {} that the system says: others use it too, or its sets fill unevenly with small pages",
            level.name,
            report::binary(found),
            report::binary(said)
        )
    })
}

/// What is not as it should be, in words.
fn missing(plan: &Plan, found: &Found) -> Vec<String> {
    let mut missing = Vec::new();
    if found.interrupted {
        missing.push("interrupted: what is not here was not measured".to_owned());
    }
    if found.most < plan.most {
        let asked = plan.most >> 20;
        missing.push(format!("{} MiB instead of {asked}: half of the free memory", found.most >> 20));
    }
    if let Some(Err(why)) = &found.system {
        missing.push(format!("the system names no caches: {why}"));
    }
    let known = found.system.iter().flatten().flatten();
    if let Some(last) = known.last().filter(|last| found.most < 4 * **last) {
        missing.push(format!(
            "working sets of {} MiB are too small to tell the last cache of {} MiB from memory; --up-to {}MiB goes beyond it",
            found.most >> 20,
            last >> 20,
            (4 * last) >> 20
        ));
    }
    missing.extend(found.levels.iter().filter_map(shared));
    if found.clock.is_none() && !found.latency.is_empty() {
        missing
            .push("the clock is not known: two ways to count cycles disagree, or there is none".to_owned());
    }
    match found.huge {
        None => missing.push("whether pages are huge: /proc/self/smaps does not say".to_owned()),
        Some(share) if share < 0.9 => {
            missing.push(format!(
                "{:.0} % of the memory is in huge pages: TLB misses are part of the larger latencies",
                share * 100.0
            ));
        }
        Some(_) => {}
    }
    if !found.pinned {
        let moved = found.moved;
        missing.push(format!("the thread could not be kept on a processor; it was moved {moved} times"));
    } else if found.moved > 0 {
        missing.push(format!("the thread was moved {} times though it was to stay", found.moved));
    }
    missing
}

fn print(bench: &BenchMem, member: &MemoryRecord, code: u8, span: Duration) -> anyhow::Result<()> {
    let mut record = Record::new("bench", outcome_of(code), 0, span.as_secs_f64());
    record.extra.insert("mem".to_owned(), serde_json::to_value(member)?);
    tell(&bench.voice, &record, "the table", |out| {
        report::render_levels(member, out)?;
        if bench.quick { Ok(()) } else { report::render_curves(member, out) }
    })
}
