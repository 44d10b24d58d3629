//! What `weir bench disk` adds to a record: what memory takes, what the disk takes and gives, and what that
//! means for a file.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate};

use crate::escape::escape;
use crate::host::{count, time};

/// The member `disk` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskRecord {
    /// The folder, as it was asked for.
    pub folder: String,
    /// The block device that holds it; `null` where there is not one.
    pub device: Option<String>,
    /// Bytes that were free before.
    pub free: u64,
    /// The file never had a name.
    pub nameless: bool,
    /// Bytes of the file that was read.
    pub size: u64,
    /// What may wait in memory; `null` where `/proc` does not say.
    pub limits: Option<DirtyLimitsRecord>,
    /// Writing into the page cache.
    pub buffered: Option<BufferedRecord>,
    /// Bytes a second of writing with a sync at the end, the sync included.
    pub synced: Option<f64>,
    /// Bytes a second past the page cache, in order.
    pub direct_write: Option<f64>,
    /// Until one written block of 4 KiB is on the disk.
    pub sync: Option<TimesRecord>,
    /// Bytes a second in order, not in memory before.
    pub read_cold: Option<f64>,
    /// Bytes a second in order, in memory.
    pub read_warm: Option<f64>,
    /// Bytes a second in order, past the page cache.
    pub read_direct: Option<f64>,
    /// 4 KiB from a random place, not in memory before.
    pub random_cold: Option<TimesRecord>,
    /// 4 KiB from a random place, in memory.
    pub random_warm: Option<TimesRecord>,
    /// 4 KiB at random places past the page cache, so many at once.
    pub depths: Vec<DepthRecord>,
    /// What becomes of files of some sizes.
    pub files: Vec<FileForecastRecord>,
    /// What was not measured, or not as usual, and why.
    pub missing: Vec<String>,
}

/// Limits of dirty pages, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DirtyLimitsRecord {
    /// The machine's threshold.
    pub threshold: u64,
    /// Where writing to disks begins.
    pub background: u64,
    /// The device's own limit, where it binds.
    pub device: Option<u64>,
    /// The memory that the tightest group of this process may have; `null` where none has a limit.
    pub group: Option<u64>,
    /// That group paces its writers before the machine and the device do.
    pub group_holds: bool,
    /// Writers are paced once so much waits.
    pub pacing: f64,
}

/// Writing into the page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BufferedRecord {
    /// Bytes a second before the knee; over all where there is none.
    pub rate: f64,
    /// Bytes after which writes were paced; `null` if they were not.
    pub knee_bytes: Option<f64>,
    /// Seconds after which they were.
    pub knee_seconds: Option<f64>,
    /// Bytes a second after it.
    pub throttled_rate: Option<f64>,
    /// Bytes a second that the device took after it, all its writers together.
    pub on_disk_rate: Option<f64>,
    /// Bytes after which the limits and the two rates say that writes are paced; `null` if never.
    pub expected_knee_bytes: Option<f64>,
    /// The most that waited in memory, bytes, for all devices.
    pub dirty: u64,
    /// Bytes written.
    pub bytes: u64,
    /// For so long.
    pub seconds: f64,
}

/// Single requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimesRecord {
    /// Seconds of the one in the middle.
    pub median: f64,
    /// Seconds of the slowest in a hundred; of fewer the slowest.
    pub p99: f64,
    /// Requests.
    pub count: usize,
}

/// So many requests at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DepthRecord {
    /// Requests at once.
    pub depth: u32,
    /// They write.
    pub write: bool,
    /// Requests a second.
    pub rate: f64,
    /// Each.
    pub times: TimesRecord,
}

/// What becomes of a file of this size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileForecastRecord {
    /// The file.
    pub bytes: u64,
    /// Bytes after which its writer is paced; `null` if it fits into memory.
    pub paced_after: Option<f64>,
    /// Bytes after which the disk is full; `null` where it has room for the file.
    pub full_after: Option<u64>,
    /// Seconds until all is written, or the disk is full.
    pub seconds: f64,
    /// Bytes a second over all.
    pub rate: f64,
}

/// For people.
pub fn render(disk: &DiskRecord, out: &mut dyn Write) -> io::Result<()> {
    let device = disk.device.as_deref().unwrap_or("no block device of its own");
    writeln!(out, "{} on {}, {} free", escape(&disk.folder), escape(device), Bytes(disk.free))?;
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| Rate(rate).to_string());
    let row = |out: &mut dyn Write, name: &str, value: String, how: &str| {
        writeln!(out, "{name:<22} {value:>11}  {how}")
    };
    if let Some(buffered) = &disk.buffered {
        row(
            out,
            "write into memory",
            Rate(buffered.rate).to_string(),
            "page cache, nothing waits for the disk",
        )?;
        render_knee(disk, buffered, out)?;
    }
    row(out, "write and sync", rate(disk.synced), "on the disk at the end (fdatasync)")?;
    row(out, "write past memory", rate(disk.direct_write), "O_DIRECT, 1 MiB after another")?;
    render_times(out, "sync", disk.sync, "4 KiB written, until they are on the disk")?;
    row(out, "read, cold", rate(disk.read_cold), "in order, not in memory before")?;
    row(out, "read, warm", rate(disk.read_warm), "in order, in memory")?;
    row(out, "read past memory", rate(disk.read_direct), "O_DIRECT, 1 MiB after another")?;
    render_times(out, "random read, cold", disk.random_cold, "4 KiB, not in memory before")?;
    render_times(out, "random read, warm", disk.random_warm, "4 KiB, in memory")?;
    render_depths(disk, out)?;
    render_files(disk, out)?;
    disk.missing.iter().try_for_each(|why| writeln!(out, "not as usual: {}", escape(why)))
}

fn render_knee(disk: &DiskRecord, buffered: &BufferedRecord, out: &mut dyn Write) -> io::Result<()> {
    let bytes = |bytes: f64| Bytes(bytes as u64).to_string();
    let expected = buffered.expected_knee_bytes.map(|expected| {
        let limits = disk.limits.unwrap_or_default();
        let limit = match (limits.group.filter(|_| limits.group_holds), limits.device) {
            (Some(limit), _) => format!("the memory group's limit of {}", Bytes(limit)),
            (None, Some(limit)) => format!("the device's limit of {}", Bytes(limit)),
            (None, None) => format!("the threshold of {}", Bytes(limits.threshold)),
        };
        format!("{} say {limit} and these rates", bytes(expected))
    });
    match (buffered.knee_bytes, buffered.knee_seconds, buffered.throttled_rate) {
        (Some(knee), Some(seconds), Some(after)) => {
            let expected = expected.map_or(String::new(), |expected| format!("; {expected}"));
            writeln!(
                out,
                "{:<22} {:>11}  from then on writes are paced, after {}{expected}",
                "knee",
                bytes(knee),
                time(seconds)
            )?;
            let on_disk = buffered.on_disk_rate.map_or("-".to_owned(), |rate| Rate(rate).to_string());
            writeln!(
                out,
                "{:<22} {:>11}  written; on disk {on_disk}, all its writers together",
                "paced to",
                Rate(after).to_string()
            )
        }
        _ => {
            let so_far = bytes(buffered.bytes as f64);
            let expected = expected.map_or(String::new(), |expected| format!("; expected after {expected}"));
            writeln!(out, "{:<22} {:>11}  none within {so_far}{expected}", "knee", "-")
        }
    }
}

fn render_times(out: &mut dyn Write, name: &str, times: Option<TimesRecord>, how: &str) -> io::Result<()> {
    match times {
        Some(times) => {
            let slow = format!("p99 {} of {}", time(times.p99), times.count);
            writeln!(out, "{name:<22} {:>11}  {slow}; {how}", time(times.median))
        }
        None => writeln!(out, "{name:<22} {:>11}  {how}", "-"),
    }
}

fn render_depths(disk: &DiskRecord, out: &mut dyn Write) -> io::Result<()> {
    if disk.depths.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n4 KiB at random places past memory, by requests at once (io_uring)")?;
    writeln!(
        out,
        "{:>7} {:>10} {:>10} {:>10} {:>12} {:>10} {:>10}",
        "at once", "reads/s", "median", "p99", "writes/s", "median", "p99"
    )?;
    let mut depths: Vec<u32> = disk.depths.iter().map(|row| row.depth).collect();
    depths.sort_unstable();
    depths.dedup();
    for depth in depths {
        write!(out, "{depth:>7}")?;
        for (write, width) in [(false, 10), (true, 12)] {
            let row = disk.depths.iter().find(|row| (row.depth, row.write) == (depth, write));
            let cells = row.map(|row| [count(row.rate), time(row.times.median), time(row.times.p99)]);
            let [rate, median, p99] = cells.unwrap_or_default();
            write!(out, " {rate:>width$} {median:>10} {p99:>10}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn render_files(disk: &DiskRecord, out: &mut dyn Write) -> io::Result<()> {
    if !disk.files.is_empty() {
        let by = match disk.buffered.and_then(|buffered| buffered.knee_bytes) {
            Some(_) => "from the measured knee",
            None => "from the limits (no knee was measured)",
        };
        writeln!(out, "\na file written as fast as it goes, on this host as it is now, {by}")?;
    }
    for file in &disk.files {
        let (size, rate) = (Bytes(file.bytes).to_string(), Rate(file.rate));
        let paced = file.paced_after.map(|after| format!("is paced after {}", Bytes(after as u64)));
        let what = match (file.full_after, paced) {
            (None, None) => "fits, nothing waits for the disk".to_owned(),
            (None, Some(paced)) => paced,
            (Some(room), paced) => {
                let paced = paced.map_or(String::new(), |paced| format!("{paced}, "));
                format!("{paced}fills the disk after {}", Bytes(room))
            }
        };
        writeln!(out, "{size:>9}  {what}: {} at {rate}", time(file.seconds))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: u64, paced_after: Option<f64>, full_after: Option<u64>) -> FileForecastRecord {
        FileForecastRecord { bytes, paced_after, full_after, seconds: 66.0, rate: 30e6 }
    }

    #[test]
    fn both_rates_and_the_knee() {
        let times = TimesRecord { median: 0.0012, p99: 0.0034, count: 200 };
        let record = DiskRecord {
            folder: "slow".into(),
            device: Some("loop0".into()),
            free: 400_000_000,
            limits: Some(DirtyLimitsRecord {
                threshold: 4_000_000_000,
                background: 2_000_000_000,
                device: Some(33_500_000),
                pacing: 25e6,
                ..DirtyLimitsRecord::default()
            }),
            buffered: Some(BufferedRecord {
                rate: 1.1e9,
                knee_bytes: Some(25.3e6),
                knee_seconds: Some(0.021),
                throttled_rate: Some(30.1e6),
                on_disk_rate: Some(29.9e6),
                expected_knee_bytes: Some(25.5e6),
                ..BufferedRecord::default()
            }),
            synced: Some(29e6),
            sync: Some(times),
            depths: vec![
                DepthRecord { depth: 1, write: false, rate: 9000.0, times },
                DepthRecord { depth: 1, write: true, rate: 800.0, times },
            ],
            files: vec![
                file(10_000_000, None, None),
                file(2_000_000_000, Some(25e6), None),
                file(20_000_000_000, Some(25e6), Some(400_000_000)),
                file(100_000_000_000, None, Some(400_000_000)),
            ],
            missing: vec!["direct reads: invalid argument".into()],
            ..DiskRecord::default()
        };
        let mut out = Vec::new();
        render(&record, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in [
            "slow on loop0, 400 MB free",
            "write into memory        1.10 GB/s  page cache, nothing waits for the disk",
            "knee                       25.3 MB  from then on writes are paced, after 21.0 ms; 25.5 MB say the device's limit of \
             33.5 MB and these rates",
            "paced to                 30.1 MB/s  written; on disk 29.9 MB/s, all its writers together",
            "write and sync           29.0 MB/s  on the disk at the end (fdatasync)",
            "write past memory                -  O_DIRECT, 1 MiB after another",
            "sync                       1.20 ms  p99 3.40 ms of 200; 4 KiB written, until they are on the disk",
            "      1     9.00 k    1.20 ms    3.40 ms          800    1.20 ms    3.40 ms",
            "a file written as fast as it goes, on this host as it is now, from the measured knee",
            "  10.0 MB  fits, nothing waits for the disk: 66.0 s at 30.0 MB/s",
            "  2.00 GB  is paced after 25.0 MB: 66.0 s at 30.0 MB/s",
            "  20.0 GB  is paced after 25.0 MB, fills the disk after 400 MB: 66.0 s at 30.0 MB/s",
            "   100 GB  fills the disk after 400 MB: 66.0 s at 30.0 MB/s",
            "not as usual: direct reads: invalid argument",
        ] {
            assert!(text.lines().any(|there| there == line), "no '{line}' in:\n{text}");
        }
    }

    #[test]
    fn without_a_knee_the_expected_one_is_told() {
        let record = DiskRecord {
            buffered: Some(BufferedRecord {
                rate: 1e9,
                expected_knee_bytes: Some(3.9e9),
                bytes: 1_000_000_000,
                ..BufferedRecord::default()
            }),
            limits: Some(DirtyLimitsRecord { threshold: 4_800_000_000, ..DirtyLimitsRecord::default() }),
            ..DiskRecord::default()
        };
        let mut out = Vec::new();
        render(&record, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let line = "none within 1.00 GB; expected after 3.90 GB say the threshold of 4.80 GB and these rates";
        assert!(text.contains(line), "{text}");
        let limits =
            DirtyLimitsRecord { group: Some(256_000_000), group_holds: true, ..record.limits.unwrap() };
        let files = vec![file(1, None, None)];
        let record = DiskRecord { limits: Some(limits), files, ..record };
        let mut out = Vec::new();
        render(&record, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("say the memory group's limit of 256 MB and these rates"), "{text}");
        assert!(text.contains("from the limits (no knee was measured)"), "{text}");
        render(&DiskRecord::default(), &mut Vec::new()).unwrap();
    }
}
