//! What `weir bench mem` and `weir bench disk` add: this machine's own ceilings.

use serde_json::Value;

use super::super::chart::bars::{self, Bar};
use super::super::chart::curves::{self, Curve, Curves};
use super::super::chart::heat::{self, Field};
use super::super::chart::mountain as surface;
use super::super::figure::Table;
use super::super::markup::Markup;
use super::super::scale::sane;
use super::super::words::{bytes, count, percent, rate, short, time};
use super::{ROWS, card, read};
use crate::calibration::{CalibrationRecord, DiskFigures, Figure};
use crate::figures::binary;
use crate::memory::{LatencyRecord, MemoryRecord, RatesRecord, nanoseconds};
use crate::net::bits;
use crate::schema::Record;
use crate::storage::{BufferedRecord, DepthRecord, DiskRecord, TimesRecord};

/// What stands where there is no figure.
const NONE: &str = "–";

type Fact = (&'static str, String, String);

pub(super) fn memory_facts(memory: &MemoryRecord) -> Vec<Fact> {
    let level = |name: &str| memory.levels.iter().find(|level| level.name == name);
    let mut facts = Vec::new();
    for (name, title) in [("L1", "L1"), ("L2", "L2"), ("L3", "L3"), ("memory", "Memory")] {
        let Some(level) = level(name) else { continue };
        let note = format!("{} read", rate(level.throughput));
        facts.push((title, nanoseconds(sane(level.latency_ns)), note));
    }
    facts
}

pub(super) fn memory(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let memory: MemoryRecord = read(value)?;
    card(page, "Levels", &levels(&memory));
    card(page, "Disks and links beside it", &beside(&memory));
    mountain(page, &memory);
    latencies(page, &memory);
    throughputs(page, &memory);
    let mut threads =
        Table::new(&["threads", "memory read", "written", "copied", "half the second cache, read"]);
    for row in memory.threads.iter().take(ROWS) {
        threads.row([
            row.threads.to_string(),
            rate(row.read),
            rate(row.write),
            rate(row.copy),
            rate(row.cache),
        ]);
    }
    card(page, "Threads together", &threads);
    card(page, "How it was measured", &conditions(&memory));
    notices(page, &memory.missing);
    Ok(())
}

fn levels(memory: &MemoryRecord) -> Table {
    let heads = ["level", "size", "system says", "latency", "cycles", "read", "write", "copy", "past caches"];
    let mut table = Table::new(&heads);
    let size = |size: Option<u64>| size.map_or(NONE.to_owned(), binary);
    for level in memory.levels.iter().take(ROWS) {
        table.row([
            short(&level.name, 20),
            size(level.size),
            size(level.system_size),
            nanoseconds(sane(level.latency_ns)),
            level.latency_cycles.map_or(NONE.to_owned(), |cycles| format!("{:.1}", sane(cycles))),
            rate(level.throughput),
            rate(level.write),
            rate(level.copy),
            level.stream.map_or(NONE.to_owned(), rate),
        ]);
    }
    table
}

/// What the memory's rates are to be compared with.
fn beside(memory: &MemoryRecord) -> Table {
    let mut table = disks(&memory.disks);
    for link in memory.links.iter().take(ROWS) {
        let name = format!("link {}", short(&link.name, 20));
        table.row([name, bits(sane(link.rate)), bits(sane(link.rate)), NONE.to_owned()]);
    }
    table
}

fn disks(of: &[DiskFigures]) -> Table {
    let mut table = Table::new(&["", "written", "read", "measured on"]);
    let shown = |value: Option<f64>| value.map_or(NONE.to_owned(), rate);
    for disk in of.iter().take(ROWS) {
        let name = format!("disk {}", short(&disk.device, 20));
        table.row([name, shown(disk.write), shown(disk.read), disk.date()]);
    }
    table
}

pub(super) fn calibration(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let calibration: CalibrationRecord = read(value)?;
    let mut host = Table::new(&["", "what it is"]);
    host.row(["taken on".to_owned(), calibration.date()]);
    let processor = short(&calibration.processor, 60);
    host.row(["processors".to_owned(), format!("{} of {processor}", calibration.processors)]);
    host.row(["kernel".to_owned(), short(&calibration.kernel, 60)]);
    card(page, "What it was taken on", &host);
    card(page, "Disks", &disks(&calibration.disks));
    let mut ciphers = Table::new(&["cipher", "encrypts"]);
    let ssh = |figure: &Figure, what: &str| {
        [format!("ssh, {what}: {}", short(&figure.name, 40)), rate(figure.rate)]
    };
    calibration.ciphers.iter().take(ROWS).for_each(|one| ciphers.row([short(&one.name, 40), rate(one.rate)]));
    calibration.ssh.iter().for_each(|one| ciphers.row(ssh(one, "by itself")));
    calibration.ssh_fastest.iter().for_each(|one| ciphers.row(ssh(one, "the fastest")));
    card(page, "What others go by for ciphers", &ciphers);
    notices(page, &calibration.missing);
    Ok(())
}

/// Distinct values in order.
fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = values.collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Rows are working sets, columns strides.
fn mountain(page: &mut Markup, memory: &MemoryRecord) {
    let peaks = &memory.mountain[..memory.mountain.len().min(20 * ROWS)];
    let strides = distinct(peaks.iter().map(|peak| peak.stride));
    let sizes = distinct(peaks.iter().map(|peak| peak.bytes));
    let at = |bytes: u64, stride: usize| {
        peaks.iter().find(|peak| (peak.bytes, peak.stride) == (bytes, stride)).map(|peak| peak.rate)
    };
    let columns: Vec<String> = strides.iter().take(48).map(usize::to_string).collect();
    let rows: Vec<(String, Vec<Option<f64>>)> = (sizes.iter().take(ROWS))
        .map(|bytes| (binary(*bytes), strides.iter().take(48).map(|stride| at(*bytes, *stride)).collect()))
        .collect();
    let mut table = Table::new(&["working set"]);
    table.head.extend(columns.iter().map(|stride| format!("stride {stride}")));
    for (name, rates) in &rows {
        let cells = rates.iter().map(|value| value.map_or(NONE.to_owned(), rate));
        table.rows.push(std::iter::once(name.clone()).chain(cells).collect());
    }
    let field = Field {
        across: "stride, words of 8 bytes",
        columns,
        rows,
        brief: |value| rate(value).trim_end_matches("/s").replace(" GB", ""),
        words: rate,
    };
    let says = "Bytes a second that one thread reads, by the working set and by how far apart its words are: 1 is every word, by the \
                widest loads, the others a word at a time, and what is skipped does not count. The stronger the colour, the faster; figures without \
                a unit are GB/s.";
    let seen = "The same figures as in the field below as a surface: height and colour are bytes a second, equal factors of which \
                are equal heights. Small working sets lie at the back, each step down is the end of a cache.";
    surface::render(page, "The memory mountain", seen, &field, "working set");
    heat::render(page, "Reads by working set and stride", says, &field, table);
}

/// The ends of the caches that were found, for the curves.
fn ends(memory: &MemoryRecord) -> Vec<(f64, String)> {
    let caches = memory.levels.iter().take(ROWS).filter(|level| level.name != "memory");
    caches.filter_map(|level| Some((level.size? as f64, short(&level.name, 8)))).collect()
}

fn latencies(page: &mut Markup, memory: &MemoryRecord) {
    let curve = |name, points: &[LatencyRecord]| Curve {
        name,
        points: points.iter().map(|point| (point.bytes as f64, point.ns)).collect(),
    };
    let curves = Curves {
        across: "working set",
        up: "one load",
        curves: vec![
            curve("memory as it is mapped", &memory.latency),
            curve("in pages of 4 KiB", &memory.latency_small_pages),
        ],
        marks: ends(memory),
        size: binary,
        words: nanoseconds,
    };
    let mut table = Table::new(&["working set", "random load", "4 KiB pages"]);
    for row in memory.latency.iter().take(ROWS) {
        let small = memory.latency_small_pages.iter().find(|point| point.bytes == row.bytes);
        let small = small.map_or(NONE.to_owned(), |point| nanoseconds(sane(point.ns)));
        table.row([binary(row.bytes), nanoseconds(sane(row.ns)), small]);
    }
    let says = "Time of one load from a random line, by the working set. Each level is a cache, found where the curve leaves it; \
                pages of 4 KiB cost more once their addresses no longer fit the TLB.";
    curves::render(page, "Latency by working set", says, &curves, table);
}

fn throughputs(page: &mut Markup, memory: &MemoryRecord) {
    let curve = |name, of: fn(&RatesRecord) -> Option<f64>| Curve {
        name,
        points: memory.rates.iter().filter_map(|row| Some((row.bytes as f64, of(row)?))).collect(),
    };
    let curves = Curves {
        across: "working set",
        up: "one thread",
        curves: vec![
            curve("read", |row| Some(row.read)),
            curve("written", |row| Some(row.write)),
            curve("copied", |row| Some(row.copy)),
            curve("written past the caches", |row| row.stream),
        ],
        marks: ends(memory),
        size: binary,
        words: rate,
    };
    let mut table = Table::new(&["working set", "read", "write", "copy", "past caches"]);
    for row in memory.rates.iter().take(ROWS) {
        let stream = row.stream.map_or(NONE.to_owned(), rate);
        table.row([binary(row.bytes), rate(row.read), rate(row.write), rate(row.copy), stream]);
    }
    let says = "Bytes a second in order, by the working set; of a copy each byte counts once.";
    curves::render(page, "Throughput by working set", says, &curves, table);
}

fn conditions(memory: &MemoryRecord) -> Table {
    let mut table = Table::new(&["", "figure"]);
    if memory.levels.is_empty() {
        return table;
    }
    let kept = if memory.pinned { "" } else { ", not kept there" };
    table.row(["processor".to_owned(), format!("{}{kept}", memory.cpu)]);
    let clock = memory.clock.map_or("not known".to_owned(), |clock| format!("{:.2} GHz", sane(clock) / 1e9));
    table.row(["clock".to_owned(), clock]);
    let loads = format!("{} of {} bytes", short(&memory.loads, 20), memory.load_bytes);
    table.row(["loads".to_owned(), loads]);
    let huge = memory.huge_pages.map_or("not known".to_owned(), percent);
    table.row(["memory in huge pages".to_owned(), huge]);
    let cost = &memory.overhead;
    table.row(["reading the clock".to_owned(), nanoseconds(sane(cost.clock_ns))]);
    table.row(["a pass, at least".to_owned(), time(sane(cost.pass_ns) / 1e9)]);
    table.row(["an address, beside the load".to_owned(), nanoseconds(sane(cost.address_ns))]);
    table
}

pub(super) fn disk_facts(disk: &DiskRecord) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(buffered) = &disk.buffered {
        let knee = buffered.knee_bytes.map(|knee| format!("for the first {}", bytes(sane(knee) as u64)));
        facts.push(("Into memory", rate(buffered.rate), knee.unwrap_or_default()));
        if let Some(paced) = buffered.throttled_rate {
            facts.push(("Then paced to", rate(paced), "by the kernel".to_owned()));
        }
    }
    let mut fact = |name, value: Option<f64>, note: &str| {
        facts.extend(value.map(|value| (name, rate(value), note.to_owned())));
    };
    fact("Write and sync", disk.synced, "on the disk at the end");
    fact("Read", disk.read_cold, "not in memory before");
    facts.extend(disk.sync.map(|sync| ("Sync", time(sync.median), "4 KiB".to_owned())));
    facts
}

pub(super) fn disk(
    page: &mut Markup,
    value: &Value,
    _: &Record,
    _: &'static str,
) -> Result<(), serde_json::Error> {
    let disk: DiskRecord = read(value)?;
    in_order(page, &disk);
    card(page, "Single blocks of 4 KiB", &single(&disk));
    card(page, "4 KiB at random places past memory, by requests at once", &depths(&disk));
    let mut files = Table::new(&["file", "paced after", "takes", "rate"]);
    for file in disk.files.iter().take(ROWS) {
        let paced = file.paced_after.map(|after| bytes(sane(after) as u64));
        let paced = match (paced, file.full_after) {
            (paced, Some(room)) => {
                let paced = paced.map_or(String::new(), |paced| format!("{paced}; "));
                format!("{paced}full after {}", bytes(room))
            }
            (Some(paced), None) => paced,
            (None, None) => "fits into memory".to_owned(),
        };
        files.row([bytes(file.bytes), paced, time(file.seconds), rate(file.rate)]);
    }
    card(page, "A file that is written as fast as it goes", &files);
    card(page, "When writes are paced", &pacing(&disk));
    notices(page, &disk.missing);
    Ok(())
}

/// Rates of what is read and written in order, memory's and the disk's side by side.
fn in_order(page: &mut Markup, disk: &DiskRecord) {
    let buffered = disk.buffered.as_ref();
    let rows = [
        ("write into memory", buffered.map(|seen| seen.rate), "page cache, nothing waits for the disk"),
        ("write, paced", buffered.and_then(|seen| seen.throttled_rate), "once too much waits in memory"),
        ("write and sync", disk.synced, "on the disk at the end (fdatasync)"),
        ("write past memory", disk.direct_write, "O_DIRECT, 1 MiB after another"),
        ("read, cold", disk.read_cold, "not in memory before"),
        ("read, warm", disk.read_warm, "in memory"),
        ("read past memory", disk.read_direct, "O_DIRECT, 1 MiB after another"),
    ];
    let mut table = Table::new(&["", "rate", "how"]);
    let mut bars = Vec::new();
    for (name, value, how) in rows {
        table.row([name.to_owned(), value.map_or(NONE.to_owned(), rate), how.to_owned()]);
        bars.extend(value.map(|value| Bar { name: name.to_owned(), value, words: rate(value), fill: None }));
    }
    let says = "What memory takes and gives, and what the disk does: two rates that are often taken for one another.";
    bars::render(page, "Writing and reading in order", says, &bars, table);
}

fn single(disk: &DiskRecord) -> Table {
    let mut table = Table::new(&["", "median", "slowest in 100", "requests"]);
    let rows: [(&str, Option<TimesRecord>); 3] = [
        ("written, until on the disk", disk.sync),
        ("random read, cold", disk.random_cold),
        ("random read, warm", disk.random_warm),
    ];
    for (name, times) in rows {
        let Some(times) = times else { continue };
        table.row([name.to_owned(), time(times.median), time(times.p99), times.count.to_string()]);
    }
    table
}

fn depths(disk: &DiskRecord) -> Table {
    let heads = ["at once", "reads a second", "median", "p99", "writes a second", "median", "p99"];
    let mut table = Table::new(&heads);
    for depth in distinct(disk.depths.iter().take(ROWS).map(|row| row.depth)) {
        let row = |write| disk.depths.iter().find(|row| (row.depth, row.write) == (depth, write));
        let mut cells = vec![depth.to_string()];
        cells.extend([false, true].into_iter().flat_map(|write| of_depth(row(write))));
        table.rows.push(cells);
    }
    table
}

fn of_depth(row: Option<&DepthRecord>) -> [String; 3] {
    match row {
        Some(row) => [count(row.rate), time(row.times.median), time(row.times.p99)],
        None => [NONE, NONE, NONE].map(str::to_owned),
    }
}

fn pacing(disk: &DiskRecord) -> Table {
    let mut table = Table::new(&["", "figure"]);
    let whole = |value: f64| bytes(sane(value) as u64);
    if let Some(seen) = &disk.buffered {
        table.row(["writes were paced after".to_owned(), knee(seen)]);
        if let Some(expected) = seen.expected_knee_bytes {
            table.row(["limits and rates say".to_owned(), whole(expected)]);
        }
        if let Some(taken) = seen.on_disk_rate {
            table.row(["the device then took".to_owned(), format!("{}, all its writers", rate(taken))]);
        }
        table.row(["waited in memory at the most".to_owned(), format!("{}, all devices", bytes(seen.dirty))]);
    }
    if let Some(limits) = &disk.limits {
        table.row(["threshold of the machine".to_owned(), bytes(limits.threshold)]);
        table.row(["its background".to_owned(), bytes(limits.background)]);
        let device = limits.device.map_or("none".to_owned(), bytes);
        table.row(["limit of the device".to_owned(), device]);
        if let Some(group) = limits.group {
            table.row(["limit of the memory group".to_owned(), bytes(group)]);
        }
        table.row(["pacing begins once there wait".to_owned(), whole(limits.pacing)]);
    }
    table
}

fn knee(seen: &BufferedRecord) -> String {
    match (seen.knee_bytes, seen.knee_seconds) {
        (Some(knee), Some(seconds)) => format!("{}, {}", bytes(sane(knee) as u64), time(seconds)),
        _ => format!("not within {}", bytes(seen.bytes)),
    }
}

pub(super) fn notices(page: &mut Markup, missing: &[String]) {
    for why in missing.iter().take(20) {
        page.leaf("p", &[("class", "notice")], &format!("Not as usual: {why}"));
    }
}
