//! What does each codec do to this data, in a fraction of a second each?
//!
//! For a prediction that somebody waits for, where [`codec_table`](crate::codec) is for a table that somebody
//! keeps: a few blocks instead of all, the thread's processor time instead of the median of wall times, so
//! that other programs do not bend what was seen only once. Round trips are checked here too.
//!
//! Data whose parts differ have no few blocks that stand for all by themselves. So a quick codec, the
//! reference, sees every block, a slower one those at even distances in the order of what the reference
//! leaves of them, and for each block that it did not see the one that is nearest in that order stands in.

use std::time::Duration;

use weir_codec::cipher::Cipher;
use weir_codec::codec::{Codec, Setting};
use weir_model::pipeline::Figure;
use weir_units::Rate;

use crate::cipher;
use crate::corpus::Corpus;
use crate::error::ErrorError;
use crate::one_pass::{BlockCost, Looker};
use crate::repeat::Limits;

/// A codec works for so long, or for [`FEWEST`] blocks where that takes longer: 16 settings in some four
/// seconds.
pub const SPAN: Duration = Duration::from_millis(80);

/// Blocks that the slowest codec sees: of data in three kinds of parts each kind is met, if it is a quarter
/// of them.
const FEWEST: usize = 4;

/// The reference: it tells apart what shrinks and what does not as all others do, at 300 MB/s.
fn reference() -> Setting {
    Setting::from(Codec::ZSTD)
}

/// Figures of the settings on these blocks, one core, in their order.
pub fn figures(settings: &[Setting], corpus: &Corpus, span: Duration) -> Result<Vec<Figure>, ErrorError> {
    let mut quick = Quick::new(corpus)?;
    settings.iter().map(|setting| quick.figure(*setting, span)).collect()
}

/// What one thread seals per second with the cipher that is quickest here.
pub fn cipher() -> Rate {
    let limits = Limits { time: SPAN / 4, pass: SPAN / 16 };
    let rows = Cipher::all().filter_map(|cipher| cipher::measure(cipher, 1 << 20, &limits, &|| true).ok()?);
    Rate(rows.map(|row| row.seal.rate.0).fold(0.0, f64::max))
}

/// The blocks, those that shrink most first, and buffers that are kept from codec to codec.
struct Quick<'a> {
    blocks: Vec<&'a [u8]>,
    /// What the reference leaves of each.
    reference: Vec<f64>,
    looker: Looker,
}

impl<'a> Quick<'a> {
    fn new(corpus: &'a Corpus) -> Result<Quick<'a>, ErrorError> {
        let mut looker = Looker::default();
        let through = |(index, block): (usize, &'a [u8])| {
            looker.through(reference(), index, block).map(|seen| (left(&seen), block))
        };
        let mut seen = corpus.blocks().enumerate().map(through).collect::<Result<Vec<_>, _>>()?;
        seen.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (reference, blocks) = seen.into_iter().unzip();
        Ok(Quick { blocks, reference, looker })
    }

    /// Block after block until `span` is over; the slowest codecs see a few alone.
    fn figure(&mut self, setting: Setting, span: Duration) -> Result<Figure, ErrorError> {
        let count = self.blocks.len();
        if setting.codec() == Codec::NONE || count == 0 {
            return Ok(Figure { name: setting.to_string(), ..Figure::none() });
        }
        let mut seen: Vec<Option<BlockCost>> = vec![None; count];
        let mut spent = Duration::ZERO;
        for (step, place) in halving(count).enumerate() {
            let looked = self.looker.through(setting, place, self.blocks[place])?;
            spent += looked.compress + looked.decompress;
            seen[place] = Some(looked);
            if spent >= span && step + 1 >= FEWEST {
                break;
            }
        }
        let sums = self.sums(&seen);
        Ok(Figure {
            name: setting.to_string(),
            ratio: (sums.left / sums.raw).clamp(1e-6, 1.0),
            compress: Rate(sums.raw / sums.compress),
            decompress: Some(Rate(sums.raw / sums.decompress)),
        })
    }

    /// All blocks, those that were not seen as the nearest one that was.
    fn sums(&self, seen: &[Option<BlockCost>]) -> Sums {
        // A clock that stood still would make a block of no time at all.
        let seconds = |time: Duration| time.as_secs_f64().max(1e-9);
        let known: Vec<usize> = (0..seen.len()).filter(|place| seen[*place].is_some()).collect();
        let mut sums = Sums::default();
        for (place, block) in self.blocks.iter().enumerate() {
            let Some(near) = nearest(&known, place) else { continue };
            let Some(stand_in) = &seen[near] else { continue };
            let raw = block.len() as f64;
            let scale = raw / stand_in.raw.max(1) as f64;
            sums.raw += raw;
            sums.left += (raw * left(stand_in) * self.reference[place] / self.reference[near]).min(raw);
            sums.compress += seconds(stand_in.compress) * scale;
            sums.decompress += seconds(stand_in.decompress) * scale;
        }
        sums
    }
}

/// What the blocks add up to: bytes, and seconds.
#[derive(Default)]
struct Sums {
    raw: f64,
    left: f64,
    compress: f64,
    decompress: f64,
}

/// What is left of a block; one that grows is sent as it is.
fn left(seen: &BlockCost) -> f64 {
    (seen.packed as f64 / seen.raw.max(1) as f64).clamp(1e-6, 1.0)
}

/// The places of `count` things in an order whose every beginning is spread over all: the middles of quarters
/// first, then those of eighths, and so on.
fn halving(count: usize) -> impl Iterator<Item = usize> {
    let mut done = vec![false; count];
    let rounds = (0..).map(|round| FEWEST << round).take_while(move |parts| *parts < 4 * count.max(FEWEST));
    let places =
        rounds.flat_map(move |parts| (0..parts).map(move |part| (2 * part + 1) * count / (2 * parts)));
    places.chain(0..count).filter(move |place| *place < count && !std::mem::replace(&mut done[*place], true))
}

/// Of ascending places the one that is nearest.
fn nearest(known: &[usize], place: usize) -> Option<usize> {
    let after = known.partition_point(|known| *known < place);
    let around = known.iter().take(after).next_back().into_iter().chain(known.get(after));
    around.min_by_key(|known| known.abs_diff(place)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{measure, usual};
    use crate::corpus::Kind;

    #[test]
    fn a_glance_sees_what_the_table_sees() {
        let corpus = Corpus::generate(Kind::Text, 4 << 20);
        let settings: Vec<Setting> =
            ["none", "lz4-1", "zstd-1", "zstd-9"].iter().map(|name| name.parse().unwrap()).collect();
        let glanced = figures(&settings, &corpus, Duration::from_millis(40)).unwrap();
        let limits = Limits::within(Duration::from_millis(40));
        for (setting, figure) in settings.iter().zip(&glanced) {
            let row = measure(*setting, &corpus, 1, &limits, &|| true).unwrap().unwrap().figure();
            assert_eq!(row.name, figure.name);
            assert!((figure.ratio / row.ratio - 1.0).abs() < 0.02, "{figure:?} {row:?}");
        }
        assert_eq!(glanced[0].compress.0, f64::INFINITY);
        assert!(glanced[1].compress.0 > 2.0 * glanced[3].compress.0, "{glanced:?}");
    }

    /// Half of the blocks shrink, half do not, and each kind lies together: a codec that saw one kind alone
    /// would be off by a third.
    #[test]
    fn of_parts_that_differ_each_kind_is_met() {
        let of_kind = [Kind::Random, Kind::Text].map(|kind| Corpus::generate(kind, 5 << 20));
        let blocks = of_kind.iter().flat_map(|corpus| corpus.blocks().map(<[u8]>::to_vec)).collect();
        let corpus = Corpus::of_blocks("halves", 10 << 20, blocks);
        for name in ["lz4-1", "zstd-9", "zstd-15"] {
            let setting: Setting = name.parse().unwrap();
            // No time for more than the fewest.
            let glanced = figures(&[setting], &corpus, Duration::from_nanos(1)).unwrap().remove(0);
            let limits = Limits::within(Duration::from_millis(1));
            let row = measure(setting, &corpus, 1, &limits, &|| true).unwrap().unwrap();
            assert!((glanced.ratio / row.ratio - 1.0).abs() < 0.02, "{glanced:?} {row:?}");
        }
    }

    #[test]
    fn each_beginning_of_the_order_is_spread_over_all() {
        assert_eq!(halving(16).take(4).collect::<Vec<_>>(), [2, 6, 10, 14]);
        for count in [0, 1, 2, 3, 5, 8, 64, 100] {
            let mut all: Vec<usize> = halving(count).collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..count), "{count}: {all:?}");
        }
        assert_eq!(
            (nearest(&[2, 6, 10], 5), nearest(&[2, 6], 100), nearest(&[], 1)),
            (Some(6), Some(6), None)
        );
        assert_eq!((nearest(&[2, 6], 0), nearest(&[2, 6], 4)), (Some(2), Some(2)));
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
