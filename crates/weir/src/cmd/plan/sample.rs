//! What each codec does to a file: blocks from all over it, each codec for a fraction of a second.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use weir_codec::cipher::Cipher;
use weir_codec::codec::{Codec, Setting};
use weir_model::pipeline::Figure;
use weir_units::{Bytes, Rate, human_duration};

use crate::voice::Usage;

/// Bytes of a block, as cp has them.
const BLOCK: u64 = 1 << 20;

/// Blocks taken from a file, at most.
const BLOCKS: u64 = 8;

/// Each codec works for so long, or for one block: 16 settings in about two seconds.
const SPAN: Duration = Duration::from_millis(80);

/// Bytes of the call that is not counted.
const WARM: usize = 64 << 10;

/// Settings of the zstd family that differ enough to be worth a row.
const ZSTD: [i32; 7] = [1, 3, 6, 9, 12, 15, 19];

/// A file's figures.
pub struct Sampled {
    /// Of each codec.
    pub figures: Vec<Figure>,
    /// The file's size.
    pub size: Bytes,
    blocks: u64,
    took: Duration,
}

impl Sampled {
    /// What was measured, in a line.
    pub fn note(&self) -> String {
        let blocks = if self.blocks == 1 { "1 block".to_owned() } else { format!("{} blocks", self.blocks) };
        format!("codecs measured on {blocks} of the file, one core, in {}", human_duration(self.took))
    }
}

/// Reads blocks of the file and sends them through every codec.
pub fn measure(path: &Path) -> anyhow::Result<Sampled> {
    let started = Instant::now();
    let (blocks, size) = read(path)?;
    let mut bench = Bench::new(&blocks)?;
    let mut figures = Vec::new();
    for setting in settings() {
        figures.push(bench.figure(setting, &blocks)?);
    }
    Ok(Sampled { figures, size, blocks: blocks.len() as u64, took: started.elapsed() })
}

/// What one thread encrypts per second with the cipher that is quickest here.
pub fn cipher() -> Rate {
    let mut block = vec![0u8; BLOCK as usize];
    let rates = Cipher::all().filter_map(|cipher| {
        let key = cipher.key(&[7; 32][..cipher.key_len()]).ok()?;
        let mut count = 0u64;
        let started = Instant::now();
        while started.elapsed() < SPAN / 2 {
            let mut nonce = [0; 12];
            nonce[..8].copy_from_slice(&count.to_le_bytes());
            key.seal(nonce, &[], &mut block);
            count += 1;
        }
        Some(Rate::of(count * BLOCK, started.elapsed()).0)
    });
    Rate(rates.fold(0.0, f64::max))
}

/// Every codec at its own level, and zstd at several.
fn settings() -> Vec<Setting> {
    let all = Codec::all().flat_map(|codec| {
        let levels: Vec<i32> = if codec == Codec::ZSTD { ZSTD.to_vec() } else { vec![codec.default_level()] };
        levels.into_iter().filter_map(move |level| Setting::new(codec, level).ok())
    });
    all.collect()
}

/// Blocks spread over the file, from its first to its last.
fn read(path: &Path) -> anyhow::Result<(Vec<Vec<u8>>, Bytes)> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
    let about = file.metadata().with_context(|| format!("cannot read {shown}"))?;
    if !about.is_file() {
        return Err(
            Usage(format!("{shown} is no file: expected one whose data stands for the transfer's")).into()
        );
    }
    let size = about.len();
    if size == 0 {
        return Err(Usage(format!("{shown} is empty: there is nothing to measure")).into());
    }
    let count = size.div_ceil(BLOCK).min(BLOCKS);
    let last = size.saturating_sub(BLOCK);
    let mut blocks = Vec::new();
    for index in 0..count {
        let at = if count > 1 { last / (count - 1) * index } else { 0 };
        let mut block = vec![0; BLOCK.min(size - at) as usize];
        let filled = fill(&file, &mut block, at).with_context(|| format!("cannot read {shown}"))?;
        block.truncate(filled);
        blocks.push(block);
    }
    blocks.retain(|block| !block.is_empty());
    if blocks.is_empty() {
        anyhow::bail!("cannot read {shown}: it became empty while it was read");
    }
    Ok((blocks, Bytes(size)))
}

/// As much as there is: the file may be cut while it is read.
fn fill(file: &File, block: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        match file.read_at(&mut block[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Buffers that are kept from codec to codec, and what to compare with.
#[derive(Default)]
struct Bench {
    packed: Vec<u8>,
    back: Vec<u8>,
    /// What the reference leaves of each block.
    reference: Vec<f64>,
}

impl Bench {
    fn new(blocks: &[Vec<u8>]) -> anyhow::Result<Bench> {
        let mut bench = Bench::default();
        for block in blocks {
            Codec::ZSTD.compress(Codec::ZSTD.default_level(), block, &mut bench.packed)?;
            bench.reference.push(ratio(&bench.packed, block));
        }
        Ok(bench)
    }

    /// Block after block until [`SPAN`] is over; the slowest codecs see one alone.
    fn figure(&mut self, setting: Setting, blocks: &[Vec<u8>]) -> anyhow::Result<Figure> {
        let (codec, level) = (setting.codec(), setting.level());
        if codec == Codec::NONE {
            return Ok(Figure::none());
        }
        // Contexts and buffers are made on the first call; that is not what a block costs.
        codec.compress(level, &blocks[0][..blocks[0].len().min(WARM)], &mut self.packed)?;
        let (mut compress, mut decompress) = (Duration::ZERO, Duration::ZERO);
        let (mut raw, mut left, mut reference) = (0u64, 0.0, 0.0);
        // From the middle on: the head of a file is often not like the rest.
        for step in 0.. {
            let index = (step + blocks.len() / 2) % blocks.len();
            let block = &blocks[index];
            let before = Instant::now();
            codec.compress(level, block, &mut self.packed)?;
            let between = Instant::now();
            codec.decompress(&self.packed, block.len(), &mut self.back)?;
            decompress += between.elapsed();
            compress += between - before;
            anyhow::ensure!(self.back == *block, "{setting} did not give back what it was given");
            raw += block.len() as u64;
            left += ratio(&self.packed, block);
            reference += self.reference[index];
            if compress + decompress >= SPAN {
                break;
            }
        }
        // Codecs that saw fewer blocks than others are compared by what the reference leaves of the same blocks.
        let mean = self.reference.iter().sum::<f64>() / self.reference.len() as f64;
        Ok(Figure {
            name: setting.to_string(),
            ratio: (left / reference * mean).clamp(1e-6, 1.0),
            compress: Rate::of(raw, compress),
            decompress: Some(Rate::of(raw, decompress)),
        })
    }
}

/// What is left of a block; one that grows is sent as it is.
fn ratio(packed: &[u8], block: &[u8]) -> f64 {
    (packed.len() as f64 / block.len() as f64).min(1.0)
}
