//! What each codec does to a file: blocks from all over it, each codec for a fraction of a second.

use std::path::Path;
use std::time::{Duration, Instant};

use weir_codec::codec::{Codec, Setting};
use weir_measure::corpus::{self, BLOCK, Corpus};
use weir_measure::glance;
use weir_model::pipeline::Figure;
use weir_units::{Bytes, human_duration};

use crate::voice::Usage;

/// Blocks taken from a file, at most.
const BLOCKS: u64 = 8;

/// Settings of the zstd family that differ enough to be worth a row.
const ZSTD: [i32; 7] = [1, 3, 6, 9, 12, 15, 19];

/// A file's figures.
pub struct Sampled {
    /// Of each codec.
    pub figures: Vec<Figure>,
    /// The file's size.
    pub size: Bytes,
    blocks: usize,
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
    let corpus = Corpus::sample(&[path.to_owned()], BLOCKS * BLOCK as u64).map_err(said)?;
    let figures = glance::figures(&settings(), &corpus, glance::SPAN)?;
    let blocks = corpus.blocks().count();
    Ok(Sampled { figures, size: Bytes(corpus.whole), blocks, took: started.elapsed() })
}

/// How long that takes, about.
pub fn span() -> Duration {
    glance::SPAN * settings().len() as u32
}

/// What is no data is a mistake in the command, what cannot be read is none.
fn said(error: corpus::Error) -> anyhow::Error {
    match error {
        corpus::Error::Directory { .. } | corpus::Error::NotAFile { .. } | corpus::Error::Empty { .. } => {
            Usage(error.to_string()).into()
        }
        error => error.into(),
    }
}

/// Every codec at its own level, and zstd at several.
fn settings() -> Vec<Setting> {
    let all = Codec::all().flat_map(|codec| {
        let levels: Vec<i32> = if codec == Codec::ZSTD { ZSTD.to_vec() } else { vec![codec.default_level()] };
        levels.into_iter().filter_map(move |level| Setting::new(codec, level).ok())
    });
    all.collect()
}
