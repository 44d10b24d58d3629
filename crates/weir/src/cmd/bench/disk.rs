//! `weir bench disk`: what memory takes and what the disk takes, and what that means for a file.

use std::path::Path;
use std::time::{Duration, Instant};

use weir_bench::disk::forecast::{self, Limits};
use weir_bench::disk::{self, DiskOutcome as Found, Plan, Times};
use weir_report::schema::Record;
use weir_report::storage::{
    self as report, BufferedRecord, DepthRecord, DirtyLimitsRecord, DiskRecord, FileForecastRecord,
    TimesRecord,
};

use super::{Progress, outcome_of, tell};
use crate::args::BenchDisk;
use crate::interrupt::INTERRUPTED;
use crate::voice;

/// Measures and reports. Returns the exit code.
pub fn run(bench: &BenchDisk) -> anyhow::Result<u8> {
    voice::start_log(bench.voice.quiet, bench.voice.verbose);
    let start = Instant::now();
    let progress = Progress::new(&bench.voice)?;
    let plan = if bench.quick { Plan::quick() } else { Plan::usual() };
    let plan = Plan { size: bench.size.map_or(plan.size, |size| size.0), ..plan };
    let (member, interrupted) = measure(&bench.folder, &plan, &progress)?;
    progress.clear();
    let code = if interrupted { INTERRUPTED } else { 0 };
    print(bench, &member, code, start.elapsed())?;
    Ok(code)
}

/// Measures alone. Returns also whether it was interrupted.
pub(super) fn measure(folder: &Path, plan: &Plan, progress: &Progress) -> anyhow::Result<(DiskRecord, bool)> {
    let found = disk::run(folder, plan, &mut |what, index, count| progress.next(what, index, count))?;
    Ok((member(folder, &found), found.interrupted))
}

fn member(folder: &Path, found: &Found) -> DiskRecord {
    let mut missing = found.missing.clone();
    if found.interrupted {
        missing.push("interrupted: what is not here was not measured".to_owned());
    }
    if found.limits.is_none() {
        missing.push("the limits of dirty pages: /proc/vmstat cannot be read".to_owned());
    }
    let depths = found.depths.iter();
    DiskRecord {
        folder: folder.display().to_string(),
        device: found.device.clone(),
        free: found.free,
        nameless: found.nameless,
        size: found.size,
        limits: found.limits.as_ref().map(limits),
        buffered: buffered(found),
        synced: found.synced,
        direct_write: found.direct_write,
        sync: found.sync.map(times),
        read_cold: found.read_cold,
        read_warm: found.read_warm,
        read_direct: found.read_direct,
        random_cold: found.random_cold.map(times),
        random_warm: found.random_warm.map(times),
        depths: depths
            .map(|row| DepthRecord {
                depth: row.depth,
                write: row.write,
                rate: row.rate,
                times: times(row.times),
            })
            .collect(),
        files: files(found),
        missing,
    }
}

fn limits(limits: &Limits) -> DirtyLimitsRecord {
    DirtyLimitsRecord {
        threshold: limits.threshold,
        background: limits.background,
        device: limits.device,
        group: limits.group.map(|group| group.limit),
        group_holds: limits.is_of_group(),
        pacing: limits.pacing(),
    }
}

fn times(times: Times) -> TimesRecord {
    TimesRecord { median: times.median, p99: times.p99, count: times.count }
}

fn buffered(found: &Found) -> Option<BufferedRecord> {
    let seen = found.buffered?;
    let grounds = found.grounds();
    let expected = grounds.and_then(|grounds| Some(grounds.limits?.knee(grounds.memory, grounds.disk)));
    Some(BufferedRecord {
        rate: seen.rate,
        knee_bytes: seen.knee.map(|knee| knee.bytes),
        knee_seconds: seen.knee.map(|knee| knee.seconds),
        throttled_rate: seen.knee.map(|knee| knee.after),
        on_disk_rate: seen.on_disk,
        expected_knee_bytes: expected.filter(|knee| knee.is_finite()),
        dirty: seen.dirty,
        bytes: seen.bytes,
        seconds: seen.seconds,
    })
}

fn files(found: &Found) -> Vec<FileForecastRecord> {
    let Some(grounds) = found.grounds() else { return Vec::new() };
    let files = forecast::FILES.iter().map(|bytes| forecast::of(*bytes, &grounds));
    files
        .map(|file| FileForecastRecord {
            bytes: file.bytes,
            paced_after: file.paced_after,
            full_after: file.full_after,
            seconds: file.seconds,
            rate: file.rate,
        })
        .collect()
}

fn print(bench: &BenchDisk, member: &DiskRecord, code: u8, span: Duration) -> anyhow::Result<()> {
    let mut record = Record::new("bench", outcome_of(code), 0, span.as_secs_f64());
    record.extra.insert("disk".to_owned(), serde_json::to_value(member)?);
    tell(&bench.voice, &record, "the figures", |out| report::render(member, out))
}
