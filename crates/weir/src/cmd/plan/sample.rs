//! What each codec does to a file: blocks from all over it, each codec for a fraction of a second.

use std::path::Path;
use std::time::{Duration, Instant};

use weir_bench::corpus::{self, Corpus, Take};
use weir_bench::quick;
use weir_codec::codec::{Codec, Setting};
use weir_model::pipeline::Figure;
use weir_units::{Bytes, human_duration};

use crate::voice::Usage;

/// Blocks taken from a file, at most: the reference alone sees all of them, in a quarter of a second.
const BLOCKS: usize = 64;

/// The smallest window of a codec (lz4's): less than that fills none of them.
const LITTLE: Bytes = Bytes(64 << 10);

/// Settings of the zstd family that differ enough to be worth a row.
const ZSTD: [i32; 7] = [1, 3, 6, 9, 12, 15, 19];

/// A file's figures.
pub struct Sampled {
    /// Of each codec.
    pub figures: Vec<Figure>,
    /// The file's size.
    pub size: Bytes,
    blocks: usize,
    of: usize,
    took: Duration,
}

impl Sampled {
    /// What was measured, in a line.
    pub fn note(&self) -> String {
        if self.of == 0 {
            return "the file is empty: its transfer takes round trips only".to_owned();
        }
        let blocks = match (self.blocks, self.of) {
            (_, 1) => "the file's only block".to_owned(),
            (blocks, of) if blocks < of => format!("{blocks} of the file's {of} blocks, sampled evenly"),
            (_, of) => format!("all {of} blocks of the file"),
        };
        let little = match self.size < LITTLE {
            true => format!("; {} is too little: the figures are mostly what a call costs", self.size),
            false => String::new(),
        };
        format!("codecs measured on {blocks}, one core, in {}{little}", human_duration(self.took))
    }
}

/// Reads blocks of the file and sends them through every codec.
pub fn measure(path: &Path) -> anyhow::Result<Sampled> {
    let started = Instant::now();
    let corpus = match Corpus::read(&[path.to_owned()], Take::Blocks(BLOCKS)) {
        // There is nothing to pack, and a transfer of nothing takes its round trips all the same.
        Err(corpus::CorpusError::Empty { .. }) => {
            Corpus::of_blocks(path.display().to_string(), 0, Vec::new())
        }
        read => read.map_err(said)?,
    };
    let figures = quick::figures(&settings(), &corpus, quick::SPAN)?;
    let (blocks, of) = (corpus.len(), corpus.of);
    Ok(Sampled { figures, size: Bytes(corpus.whole), blocks, of, took: started.elapsed() })
}

/// How long that takes, about: the slow ones take several times as long as the others.
pub fn span() -> Duration {
    quick::SPAN * 3 * settings().len() as u32
}

/// What is no data is a mistake in the command, what cannot be read is none.
fn said(error: corpus::CorpusError) -> anyhow::Error {
    match error {
        corpus::CorpusError::Directory { .. } | corpus::CorpusError::NotAFile { .. } => {
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
