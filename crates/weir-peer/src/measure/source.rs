//! The sources of a copy: how much there is, and what codecs, digests and reading cost on a fair part of it.
//!
//! Fair means by bytes: blocks lie evenly over all bytes of all files, and small files stand together in one
//! as a copy packs them.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_codec::codec::{Codec, Setting};
use weir_measure::corpus::{Corpus, evenly};
use weir_measure::glance;
use weir_model::chooser::CANDIDATES;
use weir_model::survey::Source;
use weir_observe::thread::thread_cpu_now;
use weir_tree::walk::{Root, Wanted};
use weir_tree::{Filter, Name, Step, Walk};

use crate::roots;
use crate::sender::SMALL;
use crate::subtrees::BLOCK;
use crate::wire::measure::Bounds;
use crate::wire::message::{Failure, FailureKind};

/// Blocks that are looked at: each codec sees some of them, and 16 MiB are read in no time.
const BLOCKS: usize = 16;

/// Files that are remembered: names of a hundred bytes, 25 MB in all.
const FILES: usize = 1 << 18;

/// Share of the time that listing may take, and again reading samples.
const LISTING: f64 = 0.3;

/// Bytes read in one go to see whether a disk holds the reading: as much as read-ahead hides and some more.
const STRETCH: u64 = 32 << 20;

/// What listing found.
#[derive(Default)]
struct Listed {
    /// Root, name below it, size.
    files: Vec<(usize, Name, u64)>,
    /// Of all files, the remembered ones and others.
    bytes: u64,
    count: u64,
    entries: u64,
    /// Of the remembered ones.
    known: u64,
    complete: bool,
    cpu: Duration,
}

/// Measures the sources, in about the time allowed. `over` ends it early.
pub(super) fn look(
    paths: &[Vec<u8>],
    filter: &Filter,
    bounds: Bounds,
    over: &AtomicBool,
) -> Result<Source, Failure> {
    let time = bounds.most_time();
    let walks = roots::look(paths)?.complete()?.walks;
    let listed = list(&walks, filter, time.mul_f64(LISTING), over);
    let (blocks, read) = sample(&walks, &listed, Instant::now() + time.mul_f64(LISTING));
    let sampled: u64 = blocks.iter().map(|block| block.len() as u64).sum();
    let corpus = Corpus::of_blocks("sources", listed.bytes, blocks);
    let settings = CANDIDATES
        .iter()
        .filter_map(|candidate| Setting::new(Codec::by_id(candidate.codec)?, candidate.level).ok());
    let settings: Vec<Setting> = settings.collect();
    let span = time.mul_f64(1.0 - LISTING) / (2 * settings.len()) as u32;
    let figures = glance::figures(&settings, &corpus, span.min(glance::SPAN))
        .map_err(|error| Failure::new(FailureKind::Verification, error.to_string()))?;
    Ok(Source {
        bytes: listed.bytes,
        files: listed.count,
        entries: listed.entries,
        complete: listed.complete,
        sampled,
        figures,
        read: read.as_secs_f64() / sampled.max(1) as f64
            + listed.cpu.as_secs_f64() / listed.bytes.max(1) as f64,
        digest: digest_cost(),
        disk: disk_rate(&walks, &listed),
        cpus: weir_observe::cpu::available_cpus().clamp(1, 1 << 16),
        wmem_max: weir_observe::sysctl::tcp_wmem_max().ok(),
    })
}

fn list(roots: &[Root], filter: &Filter, time: Duration, over: &AtomicBool) -> Listed {
    let (start, cpu) = (Instant::now(), thread_cpu_now());
    let mut listed = Listed { complete: true, ..Listed::default() };
    for (index, root) in roots.iter().enumerate() {
        for step in Walk::new(vec![root.clone()], filter.clone(), Wanted::default()) {
            // The clock is asked once in a while: it costs a tenth of what an entry does.
            if listed.entries % 64 == 63 && (start.elapsed() > time || over.load(Relaxed)) {
                listed.complete = false;
                break;
            }
            let Step::Found(entry, _) = step else { continue };
            listed.entries += 1;
            if !entry.is_file() {
                continue;
            }
            let size = entry.size();
            listed.count += 1;
            listed.bytes += size;
            if listed.files.len() < FILES && size > 0 {
                listed.known += size;
                listed.files.push((index, entry.name, size));
            }
        }
    }
    listed.cpu = thread_cpu_now().saturating_sub(cpu);
    listed
}

/// Blocks evenly over the files, and the time of the processor that reading them took. From `until` on those
/// that are here have to do: a far disk that was asked for nothing lately takes its time for a thousand small
/// files.
fn sample(roots: &[Root], listed: &Listed, until: Instant) -> (Vec<Vec<u8>>, Duration) {
    let mut blocks = Vec::new();
    let cpu = thread_cpu_now();
    let (mut index, mut before) = (0, 0);
    for place in evenly(listed.known.div_ceil(BLOCK) as usize, BLOCKS) {
        // The middle of a block: a small file that begins behind its start is met too.
        let at = (place as u64 * BLOCK + BLOCK / 2).min(listed.known.saturating_sub(1));
        while index < listed.files.len() && before + listed.files[index].2 <= at {
            before += listed.files[index].2;
            index += 1;
        }
        let Some((_, _, size)) = listed.files.get(index) else { break };
        let block = if *size > SMALL {
            // A block begins at a multiple of its size, as a copy cuts it.
            read_part(roots, &listed.files[index], (at - before) / BLOCK * BLOCK)
        } else {
            read_small(roots, &listed.files[index..], until)
        };
        blocks.extend(block.filter(|block| !block.is_empty()));
        if !blocks.is_empty() && Instant::now() > until {
            break;
        }
    }
    (blocks, thread_cpu_now().saturating_sub(cpu))
}

/// A file that vanished meanwhile, or may not be read, is left out.
fn open(roots: &[Root], (root, name, _): &(usize, Name, u64)) -> Option<File> {
    let root = &roots[*root];
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

fn read_part(roots: &[Root], file: &(usize, Name, u64), at: u64) -> Option<Vec<u8>> {
    let open = open(roots, file)?;
    let mut block = vec![0; BLOCK.min(file.2.saturating_sub(at)) as usize];
    open.read_exact_at(&mut block, at).ok()?;
    Some(block)
}

/// Small files from this one on, as many as fit.
fn read_small(roots: &[Root], files: &[(usize, Name, u64)], until: Instant) -> Option<Vec<u8>> {
    let mut block = Vec::new();
    for file in files.iter().filter(|file| file.2 <= SMALL) {
        let room = BLOCK - block.len() as u64;
        if file.2 > room || !block.is_empty() && Instant::now() > until {
            break;
        }
        if let Some(open) = open(roots, file) {
            open.take(room).read_to_end(&mut block).ok()?;
        }
    }
    Some(block)
}

/// Whether reading waits for a disk, and what it then gives: a stretch of the largest file, read in one go.
fn disk_rate(roots: &[Root], listed: &Listed) -> Option<f64> {
    let largest = listed.files.iter().max_by_key(|file| file.2).filter(|file| file.2 >= 2 * BLOCK)?;
    let file = open(roots, largest)?;
    let mut buffer = vec![0; BLOCK as usize];
    let (start, cpu, mut read) = (Instant::now(), thread_cpu_now(), 0);
    // A quarter on: heads of files are what others have looked at.
    let first = largest.2 / 4 / BLOCK * BLOCK;
    while read < STRETCH.min(largest.2 - first) && start.elapsed() < Duration::from_millis(500) {
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
