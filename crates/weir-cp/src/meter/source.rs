//! The sources of a copy: how much there is, and what codecs, digests and reading cost on a fair part of it.
//!
//! Fair means by bytes: blocks lie evenly over all bytes of all files, and small files stand together in one
//! as a copy packs them.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_bench::corpus::{Corpus, evenly};
use weir_bench::quick;
use weir_codec::codec::{Codec, Setting};
use weir_model::chooser::CANDIDATES;
use weir_model::survey::Source;
use weir_observe::thread::thread_cpu_now;
use weir_tree::source::next_data;
use weir_tree::walk::Root;

use super::listing::{File as Listed, Listing};
use crate::subtrees::BLOCK;
use crate::wire::batch::SMALL;
use crate::wire::measure::Bounds;
use crate::wire::message::{Failure, FailureKind};

/// Blocks that are looked at: each codec sees some of them, and 16 MiB are read in no time.
const BLOCKS: usize = 16;

/// Share of the time that listing may take, and again reading samples.
pub(super) const LISTING: f64 = 0.3;

/// Bytes read in one go to see whether a disk holds the reading: as much as read-ahead hides and some more.
const STRETCH: u64 = 32 << 20;

/// Measures the sources, as far as they are to be moved, in about the time allowed.
pub(super) fn look(listed: &Listing, bounds: Bounds) -> Result<Source, Failure> {
    let time = bounds.most_time();
    let (blocks, read) = sample(listed, Instant::now() + time.mul_f64(LISTING));
    let sampled: u64 = blocks.iter().map(|block| block.len() as u64).sum();
    let corpus = Corpus::of_blocks("sources", listed.bytes, blocks);
    let settings = CANDIDATES
        .iter()
        .filter_map(|candidate| Setting::new(Codec::by_id(candidate.codec)?, candidate.level).ok());
    let settings: Vec<Setting> = settings.collect();
    let span = time.mul_f64(1.0 - LISTING) / (2 * settings.len()) as u32;
    let figures = quick::figures(&settings, &corpus, span.min(quick::SPAN))
        .map_err(|error| Failure::new(FailureKind::Verification, error.to_string()))?;
    Ok(Source {
        bytes: listed.bytes,
        files: listed.count,
        entries: listed.entries,
        complete: listed.complete,
        holes: listed.holes,
        unmoved: listed.unmoved,
        differing: listed.differing,
        sampled,
        figures,
        read: read.as_secs_f64() / sampled.max(1) as f64
            + listed.cpu.as_secs_f64() / listed.bytes.max(1) as f64,
        digest: digest_cost(),
        disk: disk_rate(listed),
        cpus: weir_observe::cpu::available_cpus().clamp(1, 1 << 16),
        wmem_max: weir_observe::sysctl::tcp_wmem_max().ok(),
    })
}

/// Blocks evenly over the files, and the time of the processor that reading them took. From `until` on those
/// that are here have to do: a far disk that was asked for nothing lately takes its time for a thousand small
/// files.
fn sample(listed: &Listing, until: Instant) -> (Vec<Vec<u8>>, Duration) {
    let Listing { roots, files, known, .. } = listed;
    let mut blocks = Vec::new();
    let cpu = thread_cpu_now();
    let (mut index, mut before) = (0, 0);
    for place in evenly(known.div_ceil(BLOCK) as usize, BLOCKS) {
        // The middle of a block: a small file that begins behind its start is met too.
        let at = (place as u64 * BLOCK + BLOCK / 2).min(known.saturating_sub(1));
        while index < files.len() && before + files[index].data <= at {
            before += files[index].data;
            index += 1;
        }
        let Some(file) = files.get(index) else { break };
        let block = if file.entry.size() > SMALL {
            read_part(roots, file, at - before)
        } else {
            read_small(roots, &files[index..], until)
        };
        blocks.extend(block.filter(|block| !block.is_empty()));
        if !blocks.is_empty() && Instant::now() > until {
            break;
        }
    }
    (blocks, thread_cpu_now().saturating_sub(cpu))
}

/// A file that vanished meanwhile, or may not be read, is left out.
fn open(roots: &[Root], file: &Listed) -> Option<File> {
    let (root, name) = (roots.get(file.root)?, &file.entry.name);
    let path = match name.as_path().strip_prefix(root.name.as_path()) {
        Ok(below) if below.as_os_str().is_empty() => root.path.clone(),
        Ok(below) => root.path.join(below),
        Err(_) => PathBuf::from(&root.path).join(name.as_path()),
    };
    // Never a pipe that was put in its place: opening it would wait for a writer.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()?);
    file.metadata().ok()?.is_file().then_some(file)
}

/// The block of a file in which the byte is that comes after so many of its data. A block begins at a
/// multiple of its size, as a copy cuts it.
fn read_part(roots: &[Root], file: &Listed, after: u64) -> Option<Vec<u8>> {
    let (open, size) = (open(roots, file)?, file.entry.size());
    let at = if file.data < size { behind_holes(&open, size, after)? } else { after };
    let at = at / BLOCK * BLOCK;
    let mut block = vec![0; BLOCK.min(size.saturating_sub(at)) as usize];
    open.read_exact_at(&mut block, at).ok()?;
    Some(block)
}

/// Where the byte is that comes after so many that lie in no hole.
fn behind_holes(file: &File, size: u64, mut after: u64) -> Option<u64> {
    let mut at = 0;
    loop {
        let data = next_data(file, at, size).ok()??;
        let bytes = data.end - data.start;
        if after < bytes {
            return Some(data.start + after);
        }
        (at, after) = (data.end, after - bytes);
    }
}

/// Small files from this one on, as many as fit.
fn read_small(roots: &[Root], files: &[Listed], until: Instant) -> Option<Vec<u8>> {
    let mut block = Vec::new();
    for file in files.iter().filter(|file| (1..=SMALL).contains(&file.data)) {
        let room = BLOCK - block.len() as u64;
        if file.data > room || !block.is_empty() && Instant::now() > until {
            break;
        }
        if let Some(open) = open(roots, file) {
            open.take(room).read_to_end(&mut block).ok()?;
        }
    }
    Some(block)
}

/// Whether reading waits for a disk, and what it then gives: a stretch of the largest file, read in one go.
fn disk_rate(listed: &Listing) -> Option<f64> {
    // Holes are read in no time.
    let whole = listed.files.iter().filter(|file| file.data == file.entry.size());
    let largest = whole.max_by_key(|file| file.data).filter(|file| file.data >= 2 * BLOCK)?;
    let file = open(&listed.roots, largest)?;
    let mut buffer = vec![0; BLOCK as usize];
    let (start, cpu, mut read) = (Instant::now(), thread_cpu_now(), 0);
    // A quarter on: heads of files are what others have looked at.
    let first = largest.data / 4 / BLOCK * BLOCK;
    while read < STRETCH.min(largest.data - first) && start.elapsed() < Duration::from_millis(500) {
        match file.read_at(&mut buffer, first + read) {
            Ok(0) | Err(_) => break,
            Ok(more) => read += more as u64,
        }
    }
    let (wall, cpu) = (start.elapsed(), thread_cpu_now().saturating_sub(cpu));
    // Where the processor worked most of the time the pages were in memory.
    let waited = wall.saturating_sub(cpu) > wall / 2;
    (waited && read > 0).then(|| read as f64 / wall.as_secs_f64())
}

/// Processor seconds for a byte's digest here.
pub(super) fn digest_cost() -> f64 {
    let block = vec![7; BLOCK as usize];
    let passes = 8;
    blake3::hash(&block);
    let cpu = thread_cpu_now();
    for _ in 0..passes {
        std::hint::black_box(blake3::hash(&block));
    }
    thread_cpu_now().saturating_sub(cpu).as_secs_f64() / (passes * block.len()) as f64
}
