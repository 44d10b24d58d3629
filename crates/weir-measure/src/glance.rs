//! What does each codec do to this data, in a fraction of a second each?
//!
//! For a prediction that somebody waits for, where [`codec_table`](crate::codec_table) is for a table that somebody keeps: a
//! few blocks instead of many passes, the thread's processor time instead of the median of wall times, so that other
//! programs do not bend what was seen only once. Round trips are checked here too.

use std::time::Duration;

use weir_codec::cipher::Cipher;
use weir_codec::codec::{Codec, Setting};
use weir_model::pipeline::Figure;
use weir_observe::thread::thread_cpu_now;
use weir_units::Rate;

use crate::cipher_table;
use crate::codec_table::Error;
use crate::corpus::Corpus;
use crate::repeat::Limits;

/// A codec works for so long, or for one block where that takes longer: 16 settings in about two seconds.
pub const SPAN: Duration = Duration::from_millis(80);

/// What a first call is spared of: below this share of [`SPAN`] a block is thrown away to warm up, above it that would cost
/// more than tables made for the first time falsify.
const WARM: f64 = 0.25;

/// Figures of the settings on these blocks, one core, in their order.
pub fn figures(settings: &[Setting], corpus: &Corpus, span: Duration) -> Result<Vec<Figure>, Error> {
    let mut glance = Glance::new(corpus)?;
    settings.iter().map(|setting| glance.figure(*setting, span)).collect()
}

/// What one thread seals per second with the cipher that is quickest here.
pub fn cipher() -> Rate {
    let limits = Limits { time: SPAN / 4, pass: SPAN / 16 };
    let rows = Cipher::all().filter_map(|cipher| cipher_table::measure(cipher, 1 << 20, &limits).ok());
    Rate(rows.map(|row| row.seal.rate.0).fold(0.0, f64::max))
}

/// Buffers that are kept from codec to codec, and what to compare with.
struct Glance<'a> {
    blocks: Vec<&'a [u8]>,
    packed: Vec<u8>,
    back: Vec<u8>,
    /// What the reference leaves of each block.
    reference: Vec<f64>,
}

impl<'a> Glance<'a> {
    fn new(corpus: &'a Corpus) -> Result<Glance<'a>, Error> {
        let blocks: Vec<&[u8]> = corpus.blocks().collect();
        let (mut packed, mut reference) = (Vec::new(), Vec::new());
        for block in &blocks {
            Codec::ZSTD.compress(Codec::ZSTD.default_level(), block, &mut packed)?;
            reference.push(left(&packed, block));
        }
        Ok(Glance { blocks, packed, back: Vec::new(), reference })
    }

    /// Block after block until `span` is over; the slowest codecs see one alone.
    fn figure(&mut self, setting: Setting, span: Duration) -> Result<Figure, Error> {
        let count = self.blocks.len();
        if setting.codec() == Codec::NONE || count == 0 {
            return Ok(Figure { name: setting.to_string(), ..Figure::none() });
        }
        let mut sums = Sums::default();
        // From the middle on: the head of a file is often not like the rest.
        for (step, index) in (0..).map(|step| (step, (step + count / 2) % count)) {
            let (compress, decompress) = self.through(setting, index)?;
            if step == 0 && (compress + decompress).as_secs_f64() < WARM * span.as_secs_f64() {
                continue;
            }
            sums.compress += compress;
            sums.decompress += decompress;
            sums.raw += self.blocks[index].len() as u64;
            sums.left += left(&self.packed, self.blocks[index]);
            sums.reference += self.reference[index];
            if sums.compress + sums.decompress >= span {
                break;
            }
        }
        // Codecs that saw fewer blocks than others are compared by what the reference leaves of the same blocks.
        let mean = self.reference.iter().sum::<f64>() / count as f64;
        Ok(Figure {
            name: setting.to_string(),
            ratio: (sums.left / sums.reference * mean).clamp(1e-6, 1.0),
            compress: Rate::of(sums.raw, sums.compress),
            decompress: Some(Rate::of(sums.raw, sums.decompress)),
        })
    }

    /// One block there and back.
    fn through(&mut self, setting: Setting, index: usize) -> Result<(Duration, Duration), Error> {
        let (block, codec) = (self.blocks[index], setting.codec());
        let before = thread_cpu_now();
        codec.compress(setting.level(), block, &mut self.packed)?;
        let between = thread_cpu_now();
        codec.decompress(&self.packed, block.len(), &mut self.back)?;
        let after = thread_cpu_now();
        if self.back != block {
            return Err(Error::RoundTrip { setting, block: index });
        }
        // A clock that stood still would make a block of no time at all.
        let least = Duration::from_nanos(1);
        Ok((between.saturating_sub(before).max(least), after.saturating_sub(between).max(least)))
    }
}

/// What the blocks add up to.
#[derive(Default)]
struct Sums {
    compress: Duration,
    decompress: Duration,
    raw: u64,
    left: f64,
    reference: f64,
}

/// What is left of a block; one that grows is sent as it is.
fn left(packed: &[u8], block: &[u8]) -> f64 {
    (packed.len() as f64 / block.len().max(1) as f64).clamp(1e-6, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec_table::{measure, usual};
    use crate::corpus::Kind;

    #[test]
    fn a_glance_sees_what_the_table_sees() {
        let corpus = Corpus::generate(Kind::Text, 4 << 20);
        let settings: Vec<Setting> =
            ["none", "lz4-1", "zstd-1", "zstd-9"].iter().map(|name| name.parse().unwrap()).collect();
        let glanced = figures(&settings, &corpus, Duration::from_millis(40)).unwrap();
        let limits = Limits::within(Duration::from_millis(40));
        for (setting, figure) in settings.iter().zip(&glanced) {
            let row = measure(*setting, &corpus, 1, &limits).unwrap().figure();
            assert_eq!(row.name, figure.name);
            assert!((figure.ratio / row.ratio - 1.0).abs() < 0.02, "{figure:?} {row:?}");
        }
        assert_eq!(glanced[0].compress.0, f64::INFINITY);
        assert!(glanced[1].compress.0 > 2.0 * glanced[3].compress.0, "{glanced:?}");
    }

    #[test]
    fn every_usual_setting_has_finite_figures_of_any_data() {
        for kind in [Kind::Text, Kind::Random] {
            let corpus = Corpus::generate(kind, 100);
            for figure in figures(&usual(), &corpus, Duration::from_micros(50)).unwrap() {
                assert!(figure.ratio > 0.0 && figure.ratio <= 1.0, "{figure:?}");
                assert!(figure.compress.0 > 0.0 && figure.decompress.is_none_or(|rate| rate.0 > 0.0));
            }
        }
        assert!(cipher().0 > 1e6);
    }
}
