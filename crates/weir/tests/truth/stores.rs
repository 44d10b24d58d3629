//! Is the verdict right where the far end is an object store?
//!
//! Each case plants one cause at the store, on the way or at this end and lets `weir get`, `put` and `cp`
//! move objects as a user would. What limits is known by how it was made; of a path that loses segments the
//! link's own counters tell whether it was full.

#[path = "stores/cases.rs"]
mod cases;
#[path = "stores/store.rs"]
mod store;

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;
use weir_lab::bed::{Bed, Counters, too_late};
use weir_lab::congestion;
use weir_lab::leftovers::Folder;
use weir_lab::path::{Direction, Loss, Path, Share};
use weir_lab::slow_core::{SlowCore, SlowCoreConfig};
use weir_lab::slow_disk::{SlowDisk, SlowDiskConfig};
use weir_model::limit::Limit;
use weir_units::{Bytes, Rate};

use crate::label::FULL;
use crate::scores::{QUARTER, Score};
use crate::support::listed::weir_of;
use crate::support::{Sandbox, Weir, pattern};
use cases::{CASES, Here, Road, Says, StoreCase, Way};
use store::CaseStore;

/// So many cases at a time of those that mostly wait.
const TOGETHER: usize = 6;

/// How often the link is looked at: as of the matrix.
const STRETCH: Duration = Duration::from_millis(250);

#[test]
fn verdicts_on_stores_are_right() {
    let _alone = crate::alone();
    let lab = match Lab::open() {
        Ok(lab) => lab,
        Err(why) => return crate::skip(&format!("{why:#}")),
    };
    let wanted = std::env::var("WEIR_TRUTH_STORES").unwrap_or_default();
    let start = Instant::now();
    let cases = CASES.iter().filter(|case| case.name.contains(&wanted));
    let runs = cases.flat_map(|case| {
        let ways = case.ways.iter();
        ways.flat_map(move |way| (0..case.draws).map(move |draw| (case, *way, draw)))
    });
    let (apart, together): (Vec<_>, Vec<_>) = runs.partition(|(case, ..)| case.is_alone());
    let wrong = Mutex::new(Vec::new());
    for (runs, threads) in [(&together, TOGETHER), (&apart, 1)] {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some((case, way, draw)) = runs.get(next.fetch_add(1, Relaxed)) {
                        let why = run(&lab, case, *way, *draw);
                        wrong.lock().expect("an unpoisoned list").extend(why);
                    }
                });
            }
        });
    }
    let wrong = wrong.into_inner().expect("an unpoisoned list");
    println!("{} runs in {:.0} s", apart.len() + together.len(), start.elapsed().as_secs_f64());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs it and tells what it said; what is wrong with that.
fn run(lab: &Lab, case: &StoreCase, way: Way, draw: u64) -> Option<String> {
    let name = format!("{} ({way:?})", case.name);
    let begun = Instant::now();
    match judge(lab, case, way, draw) {
        Ok(judged) => {
            let void = if judged.is_void { "; void, the emulated path was late" } else { "" };
            println!("{name}: {} in {:.1} s{void}", judged.said, begun.elapsed().as_secs_f64());
            judged.wrong.filter(|_| !judged.is_void).map(|why| format!("{name}: {why}"))
        }
        Err(error) => Some(format!("{name}: {error:#}")),
    }
}

/// What one run came to.
struct Judged {
    said: String,
    wrong: Option<String>,
    /// This machine did not keep the emulator's times: what limited was it.
    is_void: bool,
}

/// What the cases need of this machine.
struct Lab {
    folder: Folder,
    /// Namespaces may choose any congestion control while this lives.
    _allowed: congestion::Allowed,
}

impl Lab {
    fn open() -> anyhow::Result<Lab> {
        anyhow::ensure!(rustix::process::geteuid().is_root(), "namespaces and slow disks need root");
        Bed::new(&Path::default()).context("cannot make a test bed")?;
        Ok(Lab { folder: Folder::new()?, _allowed: congestion::allow()? })
    }
}

fn judge(lab: &Lab, case: &StoreCase, way: Way, draw: u64) -> anyhow::Result<Judged> {
    let bed = match case.road {
        Road::Loopback => None,
        Road::Path(round_trip, mbit, lost) => {
            Some(Bed::new(&Path { seed: draw, ..path(round_trip, mbit, lost) })?)
        }
    };
    if let (Here::Sends(congestion), Some(bed)) = (case.here, &bed) {
        bed.near().set_sysctl("net.ipv4.tcp_congestion_control", congestion)?;
    }
    let store = CaseStore::start(case, bed.as_ref())?;
    let sandbox = Sandbox::new();
    let source = Source::make(lab, case, way, &sandbox, &store)?;
    let core = match case.here {
        Here::Quota(share) => Some(SlowCore::make(&lab.folder, SlowCoreConfig::Quota(share))?),
        _ => None,
    };
    let words = arguments(case, way, &source);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut weir = weir_of(&sandbox, &store.url(), &words);
    if let Some(bed) = &bed {
        bed.near().enter(&mut weir.command)?;
    }
    if let Some(core) = &core {
        core.join(&mut weir.command)?;
    }
    if let Some(disk) = &source.disk {
        disk.join(&mut weir.command)?;
    }
    let over = AtomicBool::new(false);
    let (record, link) = std::thread::scope(|scope| {
        let looks = bed.as_ref().map(|bed| scope.spawn(|| LinkFacts::watch(bed, case, way, &over)));
        let record = feed(weir, way, case, &source);
        over.store(true, Relaxed);
        (record, looks.and_then(|looks| looks.join().ok()))
    });
    Ok(case.judged(&record?, link))
}

fn path(round_trip: u64, mbit: Option<u64>, lost: u64) -> Path {
    let loss = match lost {
        0 => Loss::None,
        lost => Loss::Random(Share(lost as f64 / 1e6)),
    };
    Path::symmetric(Direction {
        rate: mbit.map(|mbit| Rate(mbit as f64 * 1e6 / 8.0)),
        delay: Duration::from_millis(round_trip) / 2,
        loss,
        ..Direction::default()
    })
}

/// What is sent, or where to.
struct Source {
    folder: PathBuf,
    /// Where what comes goes.
    out: PathBuf,
    _memory: tempfile::TempDir,
    disk: Option<SlowDisk>,
    is_one: bool,
}

impl Source {
    fn make(
        lab: &Lab,
        case: &StoreCase,
        way: Way,
        sandbox: &Sandbox,
        store: &CaseStore,
    ) -> anyhow::Result<Source> {
        let (count, size) = case.objects;
        let objects = (0..count).map(|number| (format!("object-{number}"), pattern(size, number as u64)));
        let disk = match case.here {
            Here::Disk(rate) => {
                // What is written to it beforehand is not to take that long.
                let (rate, reads, dirty) =
                    if way.comes() { (rate, None, Some(Bytes(4 << 20))) } else { (400e6, Some(rate), None) };
                let config = SlowDiskConfig { rate: Rate(rate), dirty, size: Bytes(256 << 20) };
                let name = format!("disk-{}", store.bucket.server.address().port());
                let disk = SlowDisk::make(&lab.folder, &name, &config)?;
                reads.map(|rate| disk.limit_reads(Rate(rate))).transpose()?;
                Some(disk)
            }
            _ => None,
        };
        // What is sent comes from memory as well, where it was written just now.
        let folder = disk.as_ref().map_or_else(|| sandbox.path("tree"), |disk| disk.path().join("tree"));
        if way.comes() {
            objects.for_each(|(key, bytes)| store.bucket.hold(&format!("p/{key}"), bytes));
        } else {
            std::fs::create_dir(&folder)?;
            for (name, bytes) in objects {
                let path = folder.join(name);
                std::fs::write(&path, bytes)?;
                if disk.is_some() {
                    // What is still in memory comes from no disk.
                    let file = std::fs::File::open(&path)?;
                    file.sync_all()?;
                    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
                }
            }
        }
        // In memory: no disk of this machine is to take a part in what it was not made for.
        let memory = tempfile::tempdir_in("/dev/shm")?;
        let root = disk.as_ref().map_or(memory.path(), SlowDisk::path);
        Ok(Source { out: root.join("out"), folder, _memory: memory, disk, is_one: count == 1 })
    }

    fn one(&self) -> PathBuf {
        self.folder.join("object-0")
    }
}

fn arguments(case: &StoreCase, way: Way, source: &Source) -> Vec<String> {
    let folder = format!("{}/", source.folder.display());
    let (one, out) = (source.one().display().to_string(), source.out.display().to_string());
    let words: Vec<String> = match (way, source.is_one) {
        (Way::Get, true) => vec!["get".into(), "s3://b/p/object-0".into(), "-o".into(), out],
        (Way::Get, false) => vec!["get".into(), "s3://b/p/".into(), "-o".into(), out + "/"],
        (Way::Put, true) => vec!["put".into(), one, "s3://b/p/object-0".into()],
        (Way::Put, false) => vec!["put".into(), folder, "s3://b/p/".into()],
        (Way::Stdin(_) | Way::FileAsStdin, _) => ["put", "-", "s3://b/p/object-0"].map(str::to_owned).into(),
        (Way::Up, _) => vec!["cp".into(), folder, "s3://b/p".into()],
        (Way::Down, _) => vec!["cp".into(), "s3://b/p/".into(), out + "/"],
    };
    // A tree's copy counts connections alone.
    let is_copy = matches!(way, Way::Up | Way::Down);
    let own = case.args.iter().map(|arg| if is_copy && *arg == "-j" { "-c" } else { arg }.to_owned());
    words.into_iter().chain(own).chain(["--json".to_owned()]).collect()
}

/// Runs it with what stands for its standard input; its record.
fn feed(mut weir: Weir, way: Way, case: &StoreCase, source: &Source) -> anyhow::Result<Value> {
    let run = match way {
        Way::Stdin(pace) => {
            let (from, to) = std::io::pipe()?;
            weir.command.stdin(from);
            let bytes = pattern(case.objects.1, 0);
            let writer = std::thread::spawn(move || store::write_at(to, &bytes, pace));
            let run = weir.run();
            let _ = writer.join();
            run
        }
        Way::FileAsStdin => {
            weir.command.stdin(Stdio::from(std::fs::File::open(source.one())?));
            weir.run()
        }
        _ => weir.run(),
    };
    anyhow::ensure!(run.status.success(), "{}", run.stderr);
    serde_json::from_slice(&run.stdout).context("its record")
}

/// What the emulated link carried.
#[derive(Debug, Default)]
struct LinkFacts {
    /// Stretches of a quarter of a second in which something moved, and those in which the link was full.
    stretches: u32,
    full: u32,
    dropped: u64,
    is_late: bool,
}

impl LinkFacts {
    fn watch(bed: &Bed, case: &StoreCase, way: Way, over: &AtomicBool) -> LinkFacts {
        let mut facts = LinkFacts::default();
        let Road::Path(round_trip, mbit, _) = case.road else { return facts };
        let rate = mbit.map_or(f64::INFINITY, |mbit| mbit as f64 * 1e6 / 8.0);
        let of = |counters: &Counters| if way.comes() { counters.down.link } else { counters.up.link };
        let before = bed.counters();
        let (mut last, mut since) = (of(&before), Instant::now());
        while !over.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
            let span = since.elapsed();
            if span < STRETCH {
                continue;
            }
            let now = of(&bed.counters());
            let carried = (now.bytes_out - last.bytes_out) as f64;
            facts.stretches += u32::from(carried > 0.0);
            facts.full += u32::from(carried >= FULL * rate * span.as_secs_f64());
            (last, since) = (now, Instant::now());
        }
        let after = bed.counters();
        let (then, now) = (of(&before), of(&after));
        facts.dropped = now.lost - then.lost + now.overflowed - then.overflowed;
        facts.is_late = too_late(after.late_since(&before), Duration::from_millis(round_trip));
        facts
    }

    /// As of the matrix: a link that was full for a quarter of the time is one of the causes, and so are
    /// losses. A transfer this short is in slow start for a good part of it.
    fn right(&self) -> &'static [Limit] {
        match (f64::from(self.full) > QUARTER * f64::from(self.stretches), self.dropped > 0) {
            (true, true) => &[Limit::PathBandwidth, Limit::PathLoss, Limit::Latency],
            (true, false) => &[Limit::PathBandwidth, Limit::Latency],
            (false, true) => &[Limit::PathLoss, Limit::Latency],
            (false, false) => &[Limit::Latency],
        }
    }
}

impl StoreCase {
    fn judged(&self, record: &Value, link: Option<LinkFacts>) -> Judged {
        let verdict = &record["verdict"];
        let named = named(verdict);
        let names: Vec<&str> = named.iter().map(|limit| limit.name()).collect();
        let text = record.to_string();
        let missing = self.words.iter().find(|words| !text.contains(**words));
        let lanes = record["connections"].as_u64().unwrap_or_default();
        let wrong = match self.says {
            Says::One(right) => Score::of_names(&named, right, false) != Score::Right,
            Says::NotTold => named != [Limit::SenderOrPath],
            Says::Never(innocent) => named.iter().any(|limit| innocent.contains(limit)),
            Says::LossOrLink => {
                let right = link.as_ref().map_or(&[][..], LinkFacts::right);
                !matches!(Score::of_names(&named, right, true), Score::Right | Score::Abstained)
            }
        };
        let used = link.as_ref().map_or(String::new(), |link| {
            format!(", link full in {} of {}, {} dropped", link.full, link.stretches, link.dropped)
        });
        let said = format!(
            "{} ({:.2}), {lanes} connections, {:.2} MB/s{used}",
            if names.is_empty() { "none".to_owned() } else { names.join("+") },
            verdict["confidence"].as_f64().unwrap_or_default(),
            record["rate"].as_f64().unwrap_or_default() / 1e6,
        );
        let why = match missing {
            _ if wrong => Some(format!("it says {said}; expected {:?}\n{verdict:#}", self.says)),
            Some(words) => Some(format!("nothing says '{words}'\n{verdict:#}\n{}", record["files"])),
            None if lanes < u64::from(self.lanes) => Some(format!("{lanes} connections, not {}", self.lanes)),
            None => None,
        };
        Judged { said, wrong: why, is_void: link.is_some_and(|link| link.is_late) }
    }
}

/// The limits that a record's verdict names: one, or those above a quarter of a mixture.
fn named(verdict: &Value) -> Vec<Limit> {
    match verdict["limit"].as_str() {
        Some("mixed") => {
            let shares = verdict["shares"].as_object().into_iter().flatten();
            let main = shares.filter(|(_, share)| share.as_f64().unwrap_or_default() > QUARTER);
            main.filter_map(|(name, _)| Limit::parse(name)).collect()
        }
        Some(name) => Limit::parse(name).into_iter().collect(),
        None => Vec::new(),
    }
}
