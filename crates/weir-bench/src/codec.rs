//! What does each codec do to this data, how fast, and which one wins on which link?
//!
//! In memory, block by block, as `weir cp` packs. First every codec goes through the same blocks, all that
//! were taken of the data, there and back ([`Looked`]): the ratio is of all of them, and so is what each part
//! of the data costs beside the others. Then passes over as many of them as fit the wanted time repeat until
//! their median stands still; where those few are quicker or slower than all are, the speed is corrected by
//! what the first look saw.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_codec::codec::{self, Codec, Setting};
use weir_model::pipeline::{Figure, Path, best};
use weir_units::{Rate, threads};

use crate::corpus::{Corpus, evenly};
pub use crate::error::ErrorError;
use crate::one_pass::{self, BlockCost};
use crate::repeat::{GoOn, Limits, Speed, repeat};

/// Blocks of a slow codec in a pass, at least: fewer say little of the noise.
const FEWEST_BLOCKS: usize = 4;

/// Blocks in a pass at most: that many of 1 MiB take 20 ms even for copying.
const MOST_BLOCKS: usize = 256;

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The codec and its level.
    pub setting: Setting,
    /// Threads that worked at once, each on blocks of its own.
    pub threads: usize,
    /// Packed bytes over original ones.
    pub ratio: f64,
    /// Original bytes packed, by all threads together.
    pub compress: Speed,
    /// Original bytes unpacked, by all threads together.
    pub decompress: Speed,
    /// Original bytes that the ratio comes from.
    pub bytes: u64,
}

impl Row {
    /// As the model wants it. Sending bytes as they are costs nothing, though copying them has a speed.
    pub fn figure(&self) -> Figure {
        if self.setting.codec() == Codec::NONE {
            return Figure::none();
        }
        Figure {
            name: self.setting.to_string(),
            ratio: self.ratio,
            compress: self.compress.rate,
            decompress: Some(self.decompress.rate),
        }
    }
}

/// What is measured unless someone chooses: of each codec the levels that people use, and that differ.
pub fn usual() -> Vec<Setting> {
    const LEVELS: &[(&str, &[i32])] = &[
        ("lz4", &[1, 9]),
        ("zstd", &[-5, -1, 1, 3, 6, 9, 15, 19]),
        ("zlib", &[1, 6, 9]),
        ("brotli", &[1, 5, 9]),
    ];
    let levels =
        |codec: Codec| LEVELS.iter().find(|(name, _)| *name == codec.name()).map(|(_, levels)| *levels);
    Codec::all()
        .flat_map(|codec| {
            Setting::every(codec).filter(move |s| levels(codec).is_none_or(|of| of.contains(&s.level())))
        })
        .collect()
}

/// A codec that has been through blocks of the data, each there and back.
#[derive(Debug, Clone)]
pub struct Looked<'a> {
    setting: Setting,
    corpus: &'a Corpus,
    /// In the order of the blocks.
    seen: Vec<BlockCost>,
}

impl<'a> Looked<'a> {
    /// Sends `blocks` of the corpus, evenly over it, through the codec, on all processors of this process.
    /// `go_on` is asked before each and told how many are done; `None` when it says no.
    pub fn at(
        setting: Setting,
        corpus: &'a Corpus,
        blocks: usize,
        go_on: &(dyn Fn(usize) -> bool + Sync),
    ) -> Result<Option<Looked<'a>>, ErrorError> {
        let wanted: Vec<usize> = evenly(corpus.len(), blocks).collect();
        let seen = one_pass::at(setting, corpus, &wanted, go_on)?;
        Ok(seen.map(|seen| Looked { setting, corpus, seen }))
    }

    /// One line: the ratio of all blocks that were looked at, and the speed on so many threads. `go_on` is
    /// asked before each block; `None` when it says no.
    pub fn row(&self, threads: usize, limits: &Limits, go_on: &GoOn<'_>) -> Result<Option<Row>, ErrorError> {
        let threads = threads.max(1);
        let (codec, level) = (self.setting.codec(), self.setting.level());
        let timed = self.timed(threads, limits);
        let blocks: Vec<&[u8]> = timed.iter().map(|(_, block)| *block).collect();
        let Some(packed) = round_trip(self.setting, &blocks, go_on)? else { return Ok(None) };
        let pack = |index: usize, out: &mut Vec<u8>| codec.compress(level, blocks[index], out);
        let Some(compress) = speed(&blocks, threads, (limits, go_on), pack)? else { return Ok(None) };
        let unpack =
            |index: usize, out: &mut Vec<u8>| codec.decompress(&packed[index], blocks[index].len(), out);
        let Some(decompress) = speed(&blocks, threads, (limits, go_on), unpack)? else { return Ok(None) };
        let indices: Vec<usize> = timed.iter().map(|(index, _)| *index).collect();
        let sum = |of: fn(&BlockCost) -> usize| self.seen.iter().map(|seen| of(seen) as u64).sum::<u64>();
        let (bytes, smaller) = (sum(|seen| seen.raw), sum(|seen| seen.packed));
        Ok(Some(Row {
            setting: self.setting,
            threads,
            ratio: smaller as f64 / bytes.max(1) as f64,
            compress: compress.times(self.share(&indices, |seen| seen.compress)),
            decompress: decompress.times(self.share(&indices, |seen| seen.decompress)),
            bytes,
        }))
    }

    /// As many blocks as the codec packs in one pass of the wanted length, each with its number.
    fn timed(&self, threads: usize, limits: &Limits) -> Vec<(usize, &'a [u8])> {
        let spent: Duration = self.seen.iter().map(|seen| seen.compress).sum();
        let one = spent.as_secs_f64() / self.seen.len().max(1) as f64;
        let fit = limits.pass.as_secs_f64() / one.max(1e-9) * threads as f64;
        self.corpus.spread((fit as usize).clamp(FEWEST_BLOCKS * threads, MOST_BLOCKS * threads))
    }

    /// How much quicker all blocks are than those that were timed, by one look at each. 1 where that is not
    /// known of all: of data that are alike, of which a few were looked at.
    fn share(&self, timed: &[usize], time: fn(&BlockCost) -> Duration) -> f64 {
        let pace = |seen: &[BlockCost]| {
            let spent: Duration = seen.iter().map(time).sum();
            spent.as_secs_f64() / seen.iter().map(|seen| seen.raw as f64).sum::<f64>()
        };
        let find = |block: &usize| self.seen.binary_search_by_key(block, |seen| seen.block).ok();
        let of_timed: Option<Vec<BlockCost>> =
            timed.iter().map(|block| Some(self.seen[find(block)?])).collect();
        let share = of_timed.map_or(1.0, |of_timed| pace(&of_timed) / pace(&self.seen));
        if share.is_finite() && share > 0.0 { share } else { 1.0 }
    }
}

/// Measures one line, on every block that was taken; `None` when `go_on` says no.
pub fn measure(
    setting: Setting,
    corpus: &Corpus,
    threads: usize,
    limits: &Limits,
    go_on: &GoOn<'_>,
) -> Result<Option<Row>, ErrorError> {
    match Looked::at(setting, corpus, corpus.len(), &|_| go_on())? {
        Some(looked) => looked.row(threads, limits, go_on),
        None => Ok(None),
    }
}

/// Packs every block, and makes sure that it can be had back.
fn round_trip(
    setting: Setting,
    blocks: &[&[u8]],
    go_on: &GoOn<'_>,
) -> Result<Option<Vec<Vec<u8>>>, ErrorError> {
    let (mut all, mut unpacked) = (Vec::new(), Vec::new());
    for (index, block) in blocks.iter().enumerate() {
        if !go_on() {
            return Ok(None);
        }
        let mut packed = Vec::new();
        setting.codec().compress(setting.level(), block, &mut packed)?;
        packed.shrink_to_fit();
        setting.codec().decompress(&packed, block.len(), &mut unpacked)?;
        if unpacked != *block {
            return Err(ErrorError::RoundTrip { setting, block: index });
        }
        all.push(packed);
    }
    Ok(Some(all))
}

/// The speed of a job on blocks. A pass goes over them again until it is long enough.
fn speed(
    blocks: &[&[u8]],
    threads: usize,
    (limits, go_on): (&Limits, &GoOn<'_>),
    job: impl Fn(usize, &mut Vec<u8>) -> Result<(), codec::CodecError> + Sync,
) -> Result<Option<Speed>, ErrorError> {
    let bytes: u64 = blocks.iter().map(|block| block.len() as u64).sum();
    let failed = Mutex::new(None);
    let work = |index: usize, out: &mut Vec<u8>| {
        // Nothing is left to do of a pass that does not count any more.
        if !go_on() {
            return;
        }
        if let Err(error) = job(index % blocks.len(), out) {
            *failed.lock() = Some(error);
        }
    };
    let crew = Crew::new(threads);
    let timing = crew.work(&work, |pass| {
        let once = pass(blocks.len());
        if !go_on() {
            return Ok((None, 1));
        }
        // Few blocks, or a quick codec: as many rounds as fill a pass, but no more than a pass may have.
        let rounds =
            (limits.pass.as_secs_f64() / once.as_secs_f64().max(1e-7)).ceil().clamp(1.0, 1e4) as usize;
        repeat(limits, go_on, || {
            let time = pass(blocks.len() * rounds);
            failed.lock().take().map_or(Ok(time), Err)
        })
        .map(|timing| (timing, rounds as u64))
    })?;
    let (timing, rounds) = timing?;
    Ok(timing.map(|timing| Speed::of(bytes * rounds, timing)))
}

/// Threads that live as long as a measurement: what a codec keeps for each thread is made once, not in each
/// pass.
struct Crew {
    threads: usize,
    start: Barrier,
    end: Barrier,
    next: AtomicUsize,
    count: AtomicUsize,
    over: AtomicBool,
    /// When the first one began and the last one ended, by their own clocks: with as many threads as cores,
    /// whoever waits for them is woken late.
    span: Mutex<Option<(Instant, Instant)>>,
}

impl Crew {
    fn new(threads: usize) -> Crew {
        Crew {
            threads,
            start: Barrier::new(threads + 1),
            end: Barrier::new(threads + 1),
            next: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            span: Mutex::new(None),
        }
    }

    /// Lets `drive` call for passes over so many items; each item goes to one thread, with that thread's
    /// buffer.
    fn work<T>(
        &self,
        work: &(impl Fn(usize, &mut Vec<u8>) + Sync),
        drive: impl FnOnce(&dyn Fn(usize) -> Duration) -> T,
    ) -> io::Result<T> {
        let serve = || self.serve(work);
        std::thread::scope(|scope| {
            threads::start_all(scope, "codec", std::iter::repeat_n(serve, self.threads))?;
            let result = drive(&|count| self.pass(count));
            self.over.store(true, Relaxed);
            self.start.wait();
            Ok(result)
        })
    }

    fn serve(&self, work: &impl Fn(usize, &mut Vec<u8>)) {
        let mut out = Vec::new();
        loop {
            self.start.wait();
            if self.over.load(Relaxed) {
                return;
            }
            let begun = Instant::now();
            let count = self.count.load(Relaxed);
            loop {
                let item = self.next.fetch_add(1, Relaxed);
                if item >= count {
                    break;
                }
                work(item, &mut out);
            }
            self.note(begun, Instant::now());
            self.end.wait();
        }
    }

    fn note(&self, begun: Instant, ended: Instant) {
        let mut span = self.span.lock();
        let (first, last) = span.unwrap_or((begun, ended));
        *span = Some((first.min(begun), last.max(ended)));
    }

    fn pass(&self, count: usize) -> Duration {
        self.next.store(0, Relaxed);
        self.count.store(count, Relaxed);
        self.start.wait();
        self.end.wait();
        self.span.lock().take().map_or(Duration::ZERO, |(first, last)| last - first)
    }
}

/// A stretch of link rates on which one codec carries most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    /// Which figure.
    pub index: usize,
    /// The slowest link, to 1 %; the first region begins at 0.
    pub from: Rate,
    /// The fastest link; the last region has no end.
    pub to: Option<Rate>,
}

/// From a modem's rate to beyond any network card's, bytes per second.
const LINKS: (f64, f64) = (1e3, 1e12);

/// Which figure wins on which links, by the law; from slow links to fast ones.
pub fn winners(figures: &[Figure]) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    let mut link = LINKS.0;
    while link < LINKS.1 {
        let winner = best(figures, &Path::of(Rate(link)));
        let index = winner.and_then(|(best, _)| figures.iter().position(|figure| std::ptr::eq(figure, best)));
        let Some(index) = index else { return regions };
        match regions.last_mut() {
            Some(last) if last.index == index => {}
            Some(last) => {
                last.to = Some(Rate(link));
                regions.push(Region { index, from: Rate(link), to: None });
            }
            None => regions.push(Region { index, from: Rate(0.0), to: None }),
        }
        link *= 1.01;
    }
    regions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Kind;

    fn quick() -> Limits {
        Limits::within(Duration::from_millis(2))
    }

    #[test]
    fn every_usual_setting_can_be_measured() {
        let corpus = Corpus::generate(Kind::Text, 20_000);
        assert!(Looked::at(Codec::LZ4.into(), &corpus, 1, &|_| false).unwrap().is_none());
        for setting in usual() {
            assert_eq!(measure(setting, &corpus, 2, &quick(), &|| false).unwrap(), None);
            let row = measure(setting, &corpus, 2, &quick(), &|| true).unwrap().unwrap();
            assert_eq!(row.bytes, 20_000);
            assert!(row.compress.rate.0 > 0.0 && row.decompress.rate.0 > 0.0, "{row:?}");
            assert_eq!(row.ratio < 1.0, setting.codec() != Codec::NONE, "{row:?}");
            assert!(row.compress.passes >= 3 && row.decompress.passes >= 3);
        }
    }

    #[test]
    fn after_a_no_no_pass_begins() {
        let corpus = Corpus::generate(Kind::Text, 20_000);
        // One block: it is looked at, goes there and back, and then is to fill a pass of half a minute.
        let asked = AtomicUsize::new(0);
        let go_on = || asked.fetch_add(1, Relaxed) < 2;
        let limits = Limits::within(Duration::from_secs(600));
        assert_eq!(measure(Codec::LZ4.into(), &corpus, 1, &limits, &go_on).unwrap(), None);
        assert_eq!(asked.into_inner(), 4);
    }

    /// Pieces of three kinds in turn, in an order that keeps step with any sample of every third.
    fn mixed(pieces: usize) -> Corpus {
        let kinds = [Kind::Random, Kind::Text, Kind::Binary];
        let of_kind = kinds.map(|kind| Corpus::generate(kind, (pieces as u64).div_ceil(3) << 20));
        let blocks = (0..pieces).map(|at| of_kind[at % 3].blocks().nth(at / 3).unwrap().to_vec());
        let blocks: Vec<Vec<u8>> = blocks.collect();
        Corpus::of_blocks("mixed", (pieces as u64) << 20, blocks)
    }

    #[test]
    fn a_ratio_is_of_all_blocks_whatever_the_time() {
        let corpus = mixed(12);
        for name in ["lz4-1", "zstd-1", "zstd-9", "zlib-6"] {
            let setting: Setting = name.parse().unwrap();
            let mut packed = Vec::new();
            let each = corpus.blocks().map(|block| {
                setting.codec().compress(setting.level(), block, &mut packed).unwrap();
                packed.len()
            });
            let exact = each.sum::<usize>() as f64 / corpus.taken() as f64;
            let row = measure(setting, &corpus, 1, &quick(), &|| true).unwrap().unwrap();
            assert_eq!((row.ratio, row.bytes), (exact, 12 << 20), "{name}");
        }
    }

    #[test]
    fn a_speed_on_few_blocks_is_corrected_by_the_look_at_all() {
        let corpus = mixed(3);
        let seen = |block, millis: u64| BlockCost {
            block,
            raw: 1 << 20,
            packed: 1 << 19,
            compress: Duration::from_millis(millis),
            decompress: Duration::ZERO,
        };
        let looked = Looked {
            setting: Codec::ZSTD.into(),
            corpus: &corpus,
            seen: vec![seen(0, 10), seen(1, 20), seen(2, 30)],
        };
        // The first one alone is twice as quick as all together.
        assert_eq!(looked.share(&[0], |seen| seen.compress), 0.5);
        assert_eq!(looked.share(&[0, 1, 2], |seen| seen.compress), 1.0);
        // What was not looked at, and a clock that stood still, correct nothing.
        assert_eq!(looked.share(&[0, 7], |seen| seen.compress), 1.0);
        assert_eq!(looked.share(&[0], |seen| seen.decompress), 1.0);
    }

    #[test]
    fn usual_settings_are_of_every_codec() {
        let codecs: std::collections::HashSet<Codec> = usual().into_iter().map(Setting::codec).collect();
        assert_eq!(codecs.len(), Codec::all().count());
    }

    #[test]
    fn each_item_of_a_pass_is_worked_on_once() {
        let seen = Mutex::new(Vec::new());
        let drive = |pass: &dyn Fn(usize) -> Duration| {
            pass(100);
            pass(7);
        };
        Crew::new(3).work(&|item, _: &mut Vec<u8>| seen.lock().push(item), drive).unwrap();
        let mut seen = seen.into_inner();
        seen.sort_unstable();
        let expected: Vec<usize> = (0..7).flat_map(|item| [item, item]).chain(7..100).collect();
        assert_eq!(seen, expected);
    }

    /// The published figures for plain text, MB/s.
    fn published() -> Vec<Figure> {
        let figure = |name: &str, percent: f64, compress: f64| Figure {
            name: name.into(),
            ratio: percent / 100.0,
            compress: Rate(compress * 1e6),
            decompress: None,
        };
        vec![
            figure("zlib", 35.8, 9.6),
            figure("quicklz", 54.9, 183.4),
            figure("snappy", 59.8, 189.0),
            figure("none", 100.0, 300.0),
        ]
    }

    #[test]
    fn a_faster_link_wants_a_lighter_codec() {
        let regions = winners(&published());
        let order: Vec<usize> = regions.iter().map(|region| region.index).collect();
        assert_eq!(order, [0, 1, 2, 3]);
        assert_eq!(regions[0].from, Rate(0.0));
        assert_eq!(regions[3].to, None);
        // zlib fills 9.6 MB/s x 0.358; above it quicklz, at link / 0.549, overtakes where that is 9.6 MB/s.
        let border = regions[1].from.0;
        assert!((border / (9.6e6 * 0.549) - 1.0).abs() < 0.03, "{border}");
        assert!(regions.windows(2).all(|two| two[0].to == Some(two[1].from)));
        assert_eq!(winners(&[]), []);
    }
}
