//! Slow disks, alone on the machine: figures of `weir bench disk` where the limits are known, what is left
//! behind by whatever ends it, and the verdict on one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::path::Path;

use parking_lot::{Mutex, MutexGuard};
use rustix::process::Signal;
use serde_json::Value;
use support::{MIB, Sandbox, WEIR, Weir, skip, wait_for};
use weir_lab::cgroup::{self, Cgroup};
use weir_lab::leftovers::Folder;
use weir_lab::slow_disk::{SlowDisk, SlowDiskConfig};
use weir_units::{Bytes, Rate};

fn bench(sandbox: &Sandbox, args: &[&str]) -> Weir {
    sandbox.weir(WEIR, ["bench", "disk"]).args(args)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// One test at a time: slow disks share the machine's own, and what waits for one disk counts for the others'
/// limits.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

/// A disk that takes so many bytes a second, with so many waiting in memory, and what holds its folder.
fn slow(rate: f64, dirty: Option<u64>) -> Option<(Folder, SlowDisk)> {
    if !rustix::process::geteuid().is_root() {
        skip("slow disks can only be made by root");
        return None;
    }
    let folder = Folder::new().ok()?;
    let config = SlowDiskConfig { rate: Rate(rate), dirty: dirty.map(Bytes), size: Bytes(1 << 30) };
    match SlowDisk::make(&folder, "disk", &config) {
        Ok(disk) => Some((folder, disk)),
        Err(error) => {
            skip(&error.to_string());
            None
        }
    }
}

/// `weir bench disk ARGS` on a slow disk.
fn on(disk: &SlowDisk, sandbox: &Sandbox, args: &[&str]) -> Weir {
    let mut weir = bench(sandbox, &[&disk.path().display().to_string()]).args(args);
    disk.join(&mut weir.command).unwrap();
    weir
}

/// Nothing but what mkfs makes.
fn is_empty(folder: &Path) -> bool {
    let names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
    names.into_iter().all(|name| name == "lost+found")
}

/// A limit of its own that a device has at once. The kernel gives a device with `strict_limit` its share of
/// what was written lately, up to that limit, and a device that has been idle a hundredth of the machine's
/// threshold (mm/page-writeback.c, `__wb_calc_thresh`), so a larger limit holds only after some seconds of
/// writing.
fn at_once() -> Option<u64> {
    let vmstat = std::fs::read_to_string("/proc/vmstat").ok()?;
    let pages = vmstat.lines().find_map(|line| line.strip_prefix("nr_dirty_threshold "))?;
    let threshold = pages.trim().parse::<u64>().ok()? * 4096;
    // What others leave waiting is taken off the threshold before: room for a quarter of it.
    let limit = (32 * MIB as u64).min(threshold / 128);
    // Below that, a few writes more or less are more than the figure may be off.
    (limit >= 12 * MIB as u64).then_some(limit)
}

/// Memory that a host has to find first comes at some 300 MB/s. The kernel begins to pace a new device at 100
/// MB/s and more (mm/page-writeback.c, `INIT_BW`), and beside that its first pauses hardly show: what is
/// touched here is at hand for a second.
fn have_memory() {
    let touched = vec![1_u8; 512 * MIB];
    std::hint::black_box(&touched);
}

#[test]
fn a_slow_disk_has_the_knee_and_the_rates_it_was_given() {
    const RATE: f64 = 30e6;
    let _alone = alone();
    let Some(limit) = at_once() else { return skip("too little memory for a limit that holds at once") };
    let Some((_folder, disk)) = slow(RATE, Some(limit)) else { return };
    let sandbox = Sandbox::new();
    have_memory();
    let record = on(&disk, &sandbox, &["--json", "--size", "400MiB"]).run().succeeds().json();
    let found = &record["disk"];
    // Writers run free until half way between the device's background, half of its limit, and the limit
    // (mm/page-writeback.c, `dirty_freerun_ceiling`), and what the disk takes until then comes on top: from
    // the background on (`wb_over_bg_thresh`), for the last third of the way.
    let taken = number(&found["buffered"]["knee_seconds"]) * RATE / 3.0;
    let expected = 0.75 * limit as f64 + taken;
    let knee = number(&found["buffered"]["knee_bytes"]);
    // Between there and the limit they are slowed the more the nearer they come to it; how soon that shows
    // depends on what the kernel has learned of the device's rate. Three runs on one device: 0.74, 0.99 and
    // 1.0 of the limit.
    let most = limit as f64 + taken;
    assert!(
        (0.9 * expected..1.1 * most).contains(&knee),
        "knee after {knee} bytes, {expected} to {most}: {found:#}"
    );
    assert!((number(&found["buffered"]["expected_knee_bytes"]) / expected - 1.0).abs() < 0.10, "{found:#}");
    for name in ["synced", "direct_write"] {
        let rate = number(&found[name]);
        assert!((rate / RATE - 1.0).abs() < 0.05, "{name}: {rate} instead of {RATE}: {found:#}");
    }
    assert!((number(&found["buffered"]["throttled_rate"]) / RATE - 1.0).abs() < 0.25, "{found:#}");
    // What becomes of files follows from that knee, not from the limits, and from the room: the disk has 1
    // GiB.
    let files = found["files"].as_array().unwrap();
    assert_eq!(
        (number(&files[0]["paced_after"]), &files[0]["full_after"]),
        (knee, &Value::Null),
        "{files:?}"
    );
    let large = &files[4];
    assert!((number(&large["rate"]) / RATE - 1.0).abs() < 0.25, "{large}");
    assert_eq!(large["full_after"], found["free"], "{large}");
    assert!(is_empty(disk.path()));
}

/// A memory group that may have so many bytes.
fn memory_group(limit: u64) -> Option<Cgroup> {
    let (tree, version) = cgroup::tree("memory");
    let (needs, file) = match version {
        cgroup::Version::V1 => (&[][..], "memory.limit_in_bytes"),
        cgroup::Version::V2 => (&["memory"][..], "memory.max"),
    };
    let group = Cgroup::make(&tree, &format!("weir-test-{}", std::process::id()), needs);
    match group.and_then(|group| group.set(file, &limit.to_string()).map(|()| group)) {
        Ok(group) => Some(group),
        Err(why) => {
            skip(&why.to_string());
            None
        }
    }
}

#[test]
fn a_memory_group_is_what_paces() {
    const LIMIT: u64 = 192 << 20;
    let _alone = alone();
    if !rustix::process::geteuid().is_root() {
        return skip("only root can make a memory group");
    }
    let Some(group) = memory_group(LIMIT) else { return };
    let sandbox = Sandbox::new();
    let mut weir = bench(&sandbox, &[".", "--quick", "--size", "16MiB", "--json"]);
    group.join(&mut weir.command).unwrap();
    let record = weir.run().succeeds().json();
    let found = &record["disk"];
    assert_eq!(found["limits"]["group"].as_u64(), Some(LIMIT), "{found:#}");
    assert!(number(&found["limits"]["pacing"]) <= LIMIT as f64, "{found:#}");
    let buffered = &found["buffered"];
    // A disk that keeps up with memory paces nobody.
    if let (Some(knee), Some(disk)) =
        (buffered["expected_knee_bytes"].as_f64(), found["direct_write"].as_f64())
    {
        // All that it may have, and what the disk takes until that is full.
        let memory = number(&buffered["rate"]);
        let most = LIMIT as f64 * memory / (memory - disk);
        assert!(buffered["knee_bytes"].is_f64() || knee <= 1.01 * most, "{most}: {found:#}");
    }
    drop(group);
}

#[test]
fn nothing_is_left_behind() {
    let _alone = alone();
    let Some((_folder, disk)) = slow(20e6, Some(16 << 20)) else { return };
    let sandbox = Sandbox::new();
    let free = || rustix::fs::statvfs(disk.path()).unwrap().f_bavail;
    let before = free();
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let running = on(&disk, &sandbox, &["--json", "--size", "200MiB"]).spawn();
        // It has written.
        wait_for("something written", || before - free() >= 2 * MIB as u64 / 4096);
        running.signal(signal);
        let run = running.wait();
        assert!(is_empty(disk.path()), "after {signal:?}");
        if signal != Signal::KILL {
            let record = run.exits(130).json();
            assert_eq!(record["outcome"], "partial");
            assert!(record["disk"]["missing"].to_string().contains("interrupted"), "{record}");
        }
        // The blocks of a file without a name go back with it.
        wait_for("free blocks", || free() + 256 >= before);
    }
}

#[test]
fn a_tmpfs_says_what_it_has_not() {
    let _alone = alone();
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return skip("no /dev/shm") };
    let sandbox = Sandbox::new();
    let folder = folder.path().display().to_string();
    let record = bench(&sandbox, &[&folder, "--quick", "--size", "16MiB", "--json"]).run().succeeds().json();
    assert!(record["disk"]["device"].is_null());
    let found = &record["disk"];
    assert!(found["missing"].to_string().contains("tmpfs, which is memory"), "{record}");
    assert!(number(&found["buffered"]["rate"]) > 0.0 && number(&found["read_warm"]) > 0.0, "{record}");
    // Nothing of it is past memory or on a disk.
    for name in ["synced", "direct_write", "sync", "read_cold", "read_direct", "random_cold"] {
        assert!(found[name].is_null(), "{name}: {record}");
    }
    // So no write to it is paced, however large the file.
    let buffered = &found["buffered"];
    assert!(buffered["knee_bytes"].is_null() && buffered["expected_knee_bytes"].is_null(), "{record}");
    let files = found["files"].as_array().unwrap();
    assert!(!files.is_empty() && files.iter().all(|file| file["paced_after"].is_null()), "{record}");
    assert_eq!(found["depths"], serde_json::json!([]), "{record}");
    let parts = ["writes with a sync", "direct writes", "syncs", "cold reads", "direct reads"];
    for what in parts.into_iter().chain(["many requests at once"]) {
        assert!(found["missing"].to_string().contains(what), "{what}: {record}");
    }
}

#[test]
fn a_file_system_without_nameless_files_is_said() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    if !rustix::process::geteuid().is_root() {
        return skip("only root can mount");
    }
    // vfat has no O_TMPFILE.
    let script = format!(
        "truncate -s 64M image && mkfs.vfat image > /dev/null && mkdir at && mount -o loop image at && \
         exec {WEIR} bench disk at --quick --size 16MiB --json"
    );
    let run = sandbox.weir("unshare", ["-m", "sh", "-c", &script]).run();
    if run.stderr.contains("mkfs.vfat") || run.stderr.contains("mount:") {
        // No program that could be installed brings a file system that the kernel lacks.
        return println!("skipped: no vfat here: {}", run.stderr);
    }
    let record = run.succeeds().json();
    assert!(record["disk"]["missing"].to_string().contains("no O_TMPFILE"), "{record}");
    assert_eq!(record["disk"]["nameless"], false);
}

#[test]
fn places_where_nothing_can_be_measured() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    sandbox.write("file", b"");
    bench(&sandbox, &["none"]).run().fails(1, &["cannot make a file in none", "no such file"]);
    bench(&sandbox, &["file"]).run().fails(1, &["cannot make a file in file"]);
    bench(&sandbox, &[".", "--size", "1M"]).run().fails(2, &["16MiB to 16TiB"]);
    if !rustix::process::geteuid().is_root() {
        return skip("only root can mount");
    }
    let mounted = |options: &str| {
        let script =
            format!("mkdir -p at && mount -t tmpfs -o {options} none at && exec {WEIR} bench disk at");
        sandbox.weir("unshare", ["-m", "sh", "-c", &script]).run()
    };
    mounted("size=8m").fails(1, &["bytes free", "are left alone", "more are needed"]);
    mounted("ro").fails(1, &["cannot make a file in at", "read-only file system"]);
}

#[test]
fn people_get_a_table() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let run = bench(&sandbox, &[".", "--quick", "--size", "16MiB"]).run();
    let text = String::from_utf8_lossy(&run.succeeds().stdout).into_owned();
    for word in ["write into memory", "write and sync", "read, cold", "random read, warm", "GB/s"] {
        assert!(text.contains(word), "no '{word}':\n{text}");
    }
    assert!(sandbox.names().is_empty());
}

#[test]
fn a_page_has_the_rates_and_the_files() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    bench(&sandbox, &[".", "--quick", "--size", "16MiB", "-q", "--report", "disk.html"]).run().succeeds();
    let page = std::fs::read_to_string(sandbox.path("disk.html")).unwrap();
    for fact in ["Writing and reading in order", "read, cold", "random places past memory", "100 GB"] {
        assert!(page.contains(fact), "no '{fact}'");
    }
    assert_eq!(sandbox.names(), ["disk.html"]);
}

/// The demo's slow disk: a loop device of 30 MB/s whose dirty pages are bounded. The verdict must name it,
/// and the knee.
#[test]
fn a_disk_that_paces_its_writers_is_named() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let run = sandbox.weir(WEIR, ["demo", "disk"]).run();
    run.exits(0);
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), run.stderr);
    if let Some(why) = said.lines().find(|line| line.contains("skipped:")) {
        return skip(why);
    }
    let limit = said.lines().find(|line| line.starts_with("limit: ")).unwrap_or_default();
    assert!(limit.starts_with("limit: dirty-throttle"), "{said}");
    assert!(said.contains("memory took the first"), "no knee: {said}");
}
