//! The target of a copy: what its memory and its disk take. What is written for that has no name, or one for
//! a moment only, so that nothing is left behind however this ends.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use weir_model::survey::Target;
use weir_observe::dirty::{DirtyReader, GroupLimit, VmstatReader};
use weir_observe::thread::thread_cpu_now;
use weir_tree::destination::Options;
use weir_tree::entry::Time;
use weir_tree::{Entry, Kind, Name};

use super::source::digest_cost;
use crate::roots;
use crate::subtrees::BLOCK;
use crate::wire::measure::Bounds;
use crate::wire::message::Failure;

/// Bytes written into memory to see what that costs, as far as the time allows: memory that was in use a
/// moment ago comes first and is quicker (a virtual machine's host may have taken the rest back), and a copy
/// needs more than that.
const BUFFERED: u64 = 256 << 20;

/// Files made to see what one costs.
const FILES: u32 = 200;

/// Bytes of such a file: the median of source trees.
const FILE: usize = 4096;

/// Where a write past the memory begins, and where it ends growing: large enough for a disk's own queue,
/// small enough that a slow one is not held for seconds.
const DIRECT: (usize, usize) = (256 << 10, 4 << 20);

/// A write that takes longer than this is as large as it should get.
const LONG: Duration = Duration::from_millis(50);

/// Measures the place of `path`, in about the time allowed. `over` ends it early.
pub(super) fn look(path: &[u8], bounds: Bounds, over: &AtomicBool) -> Result<Target, Failure> {
    let folder = folder_of(&roots::expand(path));
    let time = bounds.most_time();
    let file = unnamed(&folder, OFlags::empty()).map_err(|error| cannot_write(&folder, &error))?;
    let most = bounds.most_bytes();
    let write = buffered(&file, most.min(BUFFERED), time.mul_f64(0.2), over)
        .map_err(|error| cannot_write(&folder, &error))?;
    // Nothing of it is worth the disk's time.
    drop(file);
    let file = small_files(&folder, time.mul_f64(0.2), over);
    let space = rustix::fs::statvfs(&folder).ok();
    Ok(Target {
        write,
        digest: digest_cost(),
        file,
        disk: direct(&folder, most, time.mul_f64(0.5), over),
        memory: room_in_memory(&folder),
        free: space.map(|space| space.f_bavail.saturating_mul(space.f_frsize)),
        cpus: weir_observe::cpu::available_cpus().clamp(1, 1 << 16),
        rmem_max: weir_observe::sysctl::tcp_rmem().ok().map(|rmem| rmem.max),
    })
}

/// The nearest folder that is there: what is missing is on its file system once it is made.
fn folder_of(path: &Path) -> PathBuf {
    let mut folder = path;
    loop {
        if folder.is_dir() {
            return folder.to_owned();
        }
        match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => folder = parent,
            _ => return PathBuf::from("."),
        }
    }
}

/// A file without a name, which goes when it is closed, whoever closes it.
fn unnamed(folder: &Path, more: OFlags) -> std::io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | more;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(folder, flags | OFlags::TMPFILE, mode) {
        Ok(file) => Ok(File::from(file)),
        // File systems without such files (some of the network's): a name for the time until it is open.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
            let path = folder.join(format!(".weir-plan-{}", std::process::id()));
            let file = rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
            std::fs::remove_file(&path)?;
            Ok(File::from(file))
        }
        Err(error) => Err(error.into()),
    }
}

/// Processor seconds for a byte that is written into memory.
fn buffered(mut file: &File, most: u64, time: Duration, over: &AtomicBool) -> std::io::Result<f64> {
    let block = noise(BLOCK as usize);
    let (start, cpu, mut written) = (Instant::now(), thread_cpu_now(), 0);
    while written < most.max(BLOCK) && (written == 0 || start.elapsed() < time) && !over.load(Relaxed) {
        file.write_all(&block)?;
        written += BLOCK;
    }
    Ok(thread_cpu_now().saturating_sub(cpu).as_secs_f64() / written.max(1) as f64)
}

/// Seconds for a small file, landed as a copy lands it; gone before the next. `None` where it cannot be
/// tried.
fn small_files(folder: &Path, time: Duration, over: &AtomicBool) -> Option<f64> {
    let content = noise(FILE);
    let target = weir_tree::Target::open(folder, Options { create: false, ..Options::default() }).ok()?;
    let name = Name::new(format!(".weir-plan-{}", std::process::id()).into_bytes()).ok()?;
    let path = folder.join(name.as_path());
    let kind = Kind::File { size: FILE as u64, sparse: false };
    let mtime = Time::new(1, 0)?;
    let entry = Entry { name, kind, mode: 0o644, mtime, uid: 0, gid: 0, xattrs: Vec::new() };
    let (start, mut spent, mut count) = (Instant::now(), Duration::ZERO, 0);
    while count < FILES && start.elapsed() < time && !over.load(Relaxed) {
        let before = Instant::now();
        let landed = target.small(&entry, &content);
        spent += before.elapsed();
        let _ = rustix::fs::unlinkat(CWD, &path, AtFlags::empty());
        landed.ok()?;
        count += 1;
    }
    (count > 0).then(|| spent.as_secs_f64() / f64::from(count))
}

/// Bytes per second that the disk takes past the memory; `None` where the file system has no disk or no such
/// writes.
fn direct(folder: &Path, most: u64, time: Duration, over: &AtomicBool) -> Option<f64> {
    let file = unnamed(folder, OFlags::DIRECT).ok()?;
    // O_DIRECT wants memory at multiples of the disk's block (open(2)): a page is one for all disks.
    let buffer = noise(DIRECT.1 + PAGE);
    let from = buffer.as_ptr().align_offset(PAGE);
    let aligned = buffer.get(from..from + DIRECT.1)?;
    let mut size = DIRECT.0;
    let (mut at, mut seen) = (0, Vec::new());
    let start = Instant::now();
    while start.elapsed() < time && at + size as u64 <= most && !over.load(Relaxed) {
        let before = Instant::now();
        file.write_all_at(&aligned[..size], at).ok()?;
        seen.push((size, before.elapsed()));
        at += size as u64;
        if size < DIRECT.1 && before.elapsed() < LONG {
            size *= 2;
        }
    }
    // The small ones at the beginning say more of the disk's delay than of its rate.
    let large: Vec<_> = seen.iter().skip(seen.len() / 3).collect();
    let bytes: usize = large.iter().map(|(size, _)| size).sum();
    let spent: Duration = large.iter().map(|(_, time)| *time).sum();
    (bytes > 0 && !spent.is_zero()).then(|| bytes as f64 / spent.as_secs_f64())
}

/// A page of memory, a multiple of any disk's block.
const PAGE: usize = 4096;

/// Bytes that may be written before the kernel paces writers: half way between its two thresholds
/// (balance_dirty_pages in mm/page-writeback.c), or half of the device's own limit, or what this process's
/// memory group lets wait, less what is dirty already.
fn room_in_memory(folder: &Path) -> u64 {
    let device = weir_observe::disk::device_number(folder).ok();
    let Ok(dirty) = DirtyReader::open(device).and_then(|mut reader| reader.read()) else { return 0 };
    let global = (dirty.threshold + dirty.background) / 2;
    let device = dirty.device_limit.map_or(u64::MAX, |limit| limit / 2);
    let machine = VmstatReader::open().and_then(|mut reader| reader.read()).ok();
    let group = machine.as_ref().and_then(GroupLimit::read).map_or(u64::MAX, |group| group.pacing);
    global.min(device).saturating_sub(dirty.dirty.min(global)).min(group)
}

/// Bytes that no disk and no file system makes smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    // Zeros where there is no noise to be had: what is measured then is the best case.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    bytes
}

fn cannot_write(folder: &Path, error: &std::io::Error) -> Failure {
    let why = weir_units::plain(error);
    Failure::local(format_args!("cannot write in {}: {why}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { bytes: 8 << 20, millis: 200 };

    #[test]
    fn a_folder_is_measured_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("not/there/yet");
        let found = look(path.as_os_str().as_encoded_bytes(), BOUNDS, &AtomicBool::new(false)).unwrap();
        assert!(found.is_sound(), "{found:?}");
        assert!(found.write > 0.0 && found.file.is_some_and(|seconds| seconds > 0.0), "{found:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something is left");
    }

    #[test]
    fn a_place_that_cannot_be_written_says_so() {
        let why = look(b"/proc/self/x", BOUNDS, &AtomicBool::new(false)).unwrap_err();
        assert!(why.words.starts_with("cannot write in /proc/self"), "{why}");
    }
}
