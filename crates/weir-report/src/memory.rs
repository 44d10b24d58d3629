//! What `weir bench mem` adds to a record: caches and memory, the curves they were found in, and what it cost
//! to measure.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use weir_units::{Rate, decimals};

use crate::calibration::{DiskFigures, Figure, render_disk};
use crate::escape::escape;
pub use crate::figures::binary;
use crate::net::bits;

/// The member `mem` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryRecord {
    /// The table: caches nearest first, then memory.
    pub levels: Vec<LevelRecord>,
    /// The processor that was measured, by number.
    pub cpu: usize,
    /// The thread was kept on it.
    pub pinned: bool,
    /// Passes thrown away because the thread had been moved.
    pub moved: u64,
    /// The loads of sequential reads: `AVX-512`.
    pub loads: String,
    /// Bytes of one of them.
    pub load_bytes: usize,
    /// Cycles a second, counted; `null` where weir cannot.
    pub clock: Option<f64>,
    /// The largest working set, bytes.
    pub most: u64,
    /// Share of the memory that lay in huge pages; `null` where the kernel does not say.
    pub huge_pages: Option<f64>,
    /// What measuring costs.
    pub overhead: OverheadRecord,
    /// A load from random lines, by working set.
    pub latency: Vec<LatencyRecord>,
    /// The same in pages of 4 KiB.
    pub latency_small_pages: Vec<LatencyRecord>,
    /// Sequential rates by working set.
    pub rates: Vec<RatesRecord>,
    /// Strided reads.
    pub mountain: Vec<PeakRecord>,
    /// Several threads at once.
    pub threads: Vec<MemoryThreadsRecord>,
    /// Beside it, this host's disks, as far as it was calibrated on them.
    pub disks: Vec<DiskFigures>,
    /// Beside it, this host's links that are up and tell their rate, bytes per second.
    pub links: Vec<Figure>,
    /// What was not measured, or not as usual, and why.
    pub missing: Vec<String>,
}

/// One level.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LevelRecord {
    /// `L1`, `L2`, `L3`, `memory`.
    pub name: String,
    /// Bytes, found in the curve; of memory what this process could have.
    pub size: Option<u64>,
    /// What the system says it is, bytes.
    pub system_size: Option<u64>,
    /// Nanoseconds a load that finds its line in this level.
    pub latency_ns: f64,
    /// The same in cycles; `null` where the clock is not known.
    pub latency_cycles: Option<f64>,
    /// Bytes a second read in order by one thread.
    pub throughput: f64,
    /// Bytes a cycle read in order; `null` where the clock is not known.
    pub bytes_per_cycle: Option<f64>,
    /// Bytes a second written.
    pub write: f64,
    /// Bytes a second copied, each counted once.
    pub copy: f64,
    /// Bytes a second written past the caches; `null` where this architecture's way is not known.
    pub stream: Option<f64>,
}

/// What measuring costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OverheadRecord {
    /// Reading the clock, part of every pass, nanoseconds.
    pub clock_ns: f64,
    /// The shortest pass, nanoseconds.
    pub pass_ns: f64,
    /// Making a random address, beside the load and not in it, nanoseconds.
    pub address_ns: f64,
}

/// One point of a latency curve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyRecord {
    /// The working set.
    pub bytes: u64,
    /// Nanoseconds a load.
    pub ns: f64,
    /// By which share the middle of the passes was slower than that.
    pub spread: f64,
}

/// One working set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RatesRecord {
    /// The working set.
    pub bytes: u64,
    /// Bytes a second read.
    pub read: f64,
    /// Written.
    pub write: f64,
    /// Copied, each counted once.
    pub copy: f64,
    /// Written past the caches.
    pub stream: Option<f64>,
}

/// One point of the mountain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeakRecord {
    /// The working set.
    pub bytes: u64,
    /// Words of 8 bytes from one read to the next.
    pub stride: usize,
    /// Bytes a second that were read.
    pub rate: f64,
}

/// So many threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryThreadsRecord {
    /// Threads.
    pub threads: usize,
    /// Bytes a second read from memory, all together.
    pub read: f64,
    /// Written to memory.
    pub write: f64,
    /// Copied in memory.
    pub copy: f64,
    /// Read from half the second cache of each.
    pub cache: f64,
}

/// The level table for people.
pub fn render_levels(memory: &MemoryRecord, out: &mut dyn Write) -> io::Result<()> {
    let clock = memory.clock.map_or("clock not known".to_owned(), |clock| format!("{:.2} GHz", clock / 1e9));
    let pinned = if memory.pinned { "" } else { ", not kept there" };
    let huge = match memory.huge_pages {
        Some(share) => format!("{:.0} % huge pages", share * 100.0),
        None => "huge pages not known".to_owned(),
    };
    writeln!(
        out,
        "processor {}{pinned}, {clock}, {} loads of {} bytes, up to {}, {huge}",
        memory.cpu,
        escape(&memory.loads),
        memory.load_bytes,
        binary(memory.most)
    )?;
    let heads = ["size", "system says", "latency", "cycles", "read", "write", "copy", "past caches"];
    write!(out, "{:<7}", "level")?;
    heads.iter().try_for_each(|head| write!(out, " {head:>11}"))?;
    writeln!(out)?;
    for level in &memory.levels {
        let cells = [
            level.size.map_or("-".to_owned(), binary),
            level.system_size.map_or("-".to_owned(), binary),
            nanoseconds(level.latency_ns),
            level.latency_cycles.map_or("-".to_owned(), |cycles| format!("{cycles:.1}")),
            Rate(level.throughput).to_string(),
            Rate(level.write).to_string(),
            Rate(level.copy).to_string(),
            level.stream.map_or("-".to_owned(), |rate| Rate(rate).to_string()),
        ];
        write!(out, "{:<7}", escape(&level.name))?;
        cells.iter().try_for_each(|cell| write!(out, " {cell:>11}"))?;
        writeln!(out)?;
    }
    if let Some((level, bytes)) =
        memory.levels.first().and_then(|level| level.bytes_per_cycle.map(|bytes| (level, bytes)))
        && memory.load_bytes > 0
    {
        let loads = bytes / memory.load_bytes as f64;
        writeln!(out, "{} reads {bytes:.0} bytes a cycle: {loads:.2} loads", escape(&level.name))?;
    }
    memory.disks.iter().try_for_each(|disk| render_disk(disk, out))?;
    for link in &memory.links {
        writeln!(out, "link {}  {}", escape(&link.name), bits(link.rate))?;
    }
    memory.missing.iter().try_for_each(|why| writeln!(out, "not as usual: {}", escape(why)))
}

/// The curves for people.
pub fn render_curves(memory: &MemoryRecord, out: &mut dyn Write) -> io::Result<()> {
    if !memory.rates.is_empty() {
        let heads = ["random load", "4 KiB pages", "read", "write", "copy", "past caches"];
        write!(out, "\n{:>11}", "working set")?;
        heads.iter().try_for_each(|head| write!(out, " {head:>11}"))?;
        writeln!(out)?;
    }
    for row in &memory.rates {
        let load = |of: &[LatencyRecord]| {
            let point = of.iter().find(|point| point.bytes == row.bytes);
            point.map_or("-".to_owned(), |point| nanoseconds(point.ns))
        };
        let rates = [Some(row.read), Some(row.write), Some(row.copy), row.stream];
        let rate = |rate: &Option<f64>| rate.map_or("-".to_owned(), |rate| Rate(rate).to_string());
        write!(out, "{:>11}", binary(row.bytes))?;
        write!(out, " {:>11} {:>11}", load(&memory.latency), load(&memory.latency_small_pages))?;
        rates.iter().try_for_each(|of| write!(out, " {:>11}", rate(of)))?;
        writeln!(out)?;
    }
    render_mountain(memory, out)?;
    render_threads(memory, out)?;
    let cost = &memory.overhead;
    writeln!(
        out,
        "\nmeasuring costs: {:.0} ns for the clock in passes of {:.0} µs and more; {:.2} ns to make a random address, \
         beside the load",
        cost.clock_ns,
        cost.pass_ns / 1e3,
        cost.address_ns
    )
}

fn render_mountain(memory: &MemoryRecord, out: &mut dyn Write) -> io::Result<()> {
    let mut strides: Vec<usize> = memory.mountain.iter().map(|peak| peak.stride).collect();
    strides.sort_unstable();
    strides.dedup();
    let mut sizes: Vec<u64> = memory.mountain.iter().map(|peak| peak.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nread, GB/s, one word of 8 bytes in every so many (1: all, by the widest loads)")?;
    write!(out, "{:>11}", "working set")?;
    strides.iter().try_for_each(|stride| write!(out, " {stride:>6}"))?;
    writeln!(out)?;
    for bytes in sizes {
        write!(out, "{:>11}", binary(bytes))?;
        for stride in &strides {
            let peak = memory.mountain.iter().find(|peak| (peak.bytes, peak.stride) == (bytes, *stride));
            match peak.map(|peak| peak.rate / 1e9) {
                Some(rate) => write!(out, " {rate:>6.*}", if rate < 99.95 { 1 } else { 0 })?,
                None => write!(out, " {:>6}", "-")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

fn render_threads(memory: &MemoryRecord, out: &mut dyn Write) -> io::Result<()> {
    if memory.threads.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nthreads together: memory read, written, copied; half the second cache of each read")?;
    for row in &memory.threads {
        let rates = [row.read, row.write, row.copy, row.cache].map(|rate| Rate(rate).to_string());
        write!(out, "{:>11}", row.threads)?;
        rates.iter().try_for_each(|rate| write!(out, " {rate:>11}"))?;
        writeln!(out)?;
    }
    Ok(())
}

/// `1.07 ns`.
pub(crate) fn nanoseconds(value: f64) -> String {
    format!("{value:.*} ns", decimals(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> MemoryRecord {
        let level = |name: &str, size: u64, latency_ns: f64, throughput: f64| LevelRecord {
            name: name.into(),
            size: Some(size),
            system_size: (name == "L1").then_some(48 << 10),
            latency_ns,
            latency_cycles: Some(latency_ns * 4.0),
            throughput,
            bytes_per_cycle: Some(throughput / 4e9),
            write: throughput / 2.0,
            copy: throughput / 4.0,
            stream: None,
        };
        let rates = RatesRecord { bytes: 4096, read: 5e11, write: 2.5e11, copy: 1.2e11, stream: Some(2e10) };
        MemoryRecord {
            levels: vec![level("L1", 49_300, 1.07, 4.8e11), level("memory", 25_275_000_000, 160.4, 2.6e10)],
            cpu: 1,
            pinned: true,
            loads: "AVX-512".into(),
            load_bytes: 64,
            clock: Some(4e9),
            most: 512 << 20,
            huge_pages: Some(1.0),
            overhead: OverheadRecord { clock_ns: 40.0, pass_ns: 1e5, address_ns: 0.6 },
            latency: vec![LatencyRecord { bytes: 4096, ns: 1.07, spread: 0.01 }],
            rates: vec![rates],
            mountain: vec![
                PeakRecord { bytes: 4096, stride: 1, rate: 4.8e11 },
                PeakRecord { bytes: 4096, stride: 8, rate: 9.5e10 },
                PeakRecord { bytes: 8192, stride: 8, rate: 9.4e10 },
            ],
            threads: vec![MemoryThreadsRecord {
                threads: 2,
                read: 4e10,
                write: 3e10,
                copy: 2e10,
                cache: 4e11,
            }],
            disks: vec![DiskFigures {
                device: "v\u{1b}da".into(),
                taken: 1_795_305_600,
                write: Some(4.3e8),
                read: Some(1.2e9),
                ..DiskFigures::default()
            }],
            links: vec![Figure { name: "eth0".into(), rate: 125e6 }],
            missing: vec!["a \u{1b}[2Jreason".into()],
            ..MemoryRecord::default()
        }
    }

    #[test]
    fn levels_for_people() {
        let mut out = Vec::new();
        render_levels(&record(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains('\u{1b}'));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn curves_for_people() {
        let mut out = Vec::new();
        render_curves(&record(), &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn sizes_in_powers_of_two() {
        let shown = [0, 1023, 1024, 1536, 49_152, 1 << 20, 1_060_000, 33_554_432, u64::MAX].map(binary);
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1 KiB", "1.50 KiB", "48 KiB", "1 MiB", "1.01 MiB", "32 MiB", "16777216 TiB"]
        );
    }

    #[test]
    fn an_empty_record_renders() {
        let mut out = Vec::new();
        render_levels(&MemoryRecord::default(), &mut out).unwrap();
        render_curves(&MemoryRecord::default(), &mut out).unwrap();
        let back: MemoryRecord = serde_json::from_str("{}").unwrap();
        assert_eq!(back, MemoryRecord::default());
    }
}
