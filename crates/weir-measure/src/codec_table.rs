//! What does each codec do to this data, how fast, and which one wins on which link?
//!
//! In memory, block by block, as `weir cp` packs: every block is unpacked and compared before anything is timed, one pass
//! is thrown away, and passes repeat until their median stands still. Where a codec is too slow for the whole data, it gets
//! blocks at even distances over it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use weir_codec::codec::{self, Codec, Setting};
use weir_model::pipeline::{Figure, Path, best};
use weir_units::Rate;

use crate::corpus::Corpus;
use crate::repeat::{Limits, Speed, repeat};

/// Blocks of a slow codec at least: fewer say little of the ratio.
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
    /// Original bytes that ratio and speeds come from.
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

/// A codec that cannot be measured because it does not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It refused a block.
    #[error(transparent)]
    Codec(#[from] codec::Error),
    /// Other bytes came out than went in.
    #[error("{setting} does not give back what it took: block {block} differs")]
    RoundTrip {
        /// The codec and its level.
        setting: Setting,
        /// Which block, from 0.
        block: usize,
    },
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

/// Measures one line.
pub fn measure(setting: Setting, corpus: &Corpus, threads: usize, limits: &Limits) -> Result<Row, Error> {
    let threads = threads.max(1);
    let blocks = blocks_for(setting, corpus, threads, limits)?;
    let packed = round_trip(setting, &blocks)?;
    let bytes: u64 = blocks.iter().map(|block| block.len() as u64).sum();
    let (codec, level) = (setting.codec(), setting.level());
    let compress = speed(&blocks, threads, limits, |index, out| codec.compress(level, blocks[index], out))?;
    let decompress = speed(&blocks, threads, limits, |index, out| {
        codec.decompress(&packed[index], blocks[index].len(), out)
    })?;
    let smaller: u64 = packed.iter().map(|block| block.len() as u64).sum();
    Ok(Row { setting, threads, ratio: smaller as f64 / bytes as f64, compress, decompress, bytes })
}

/// As many blocks as the codec packs in one pass of the wanted length.
fn blocks_for<'a>(
    setting: Setting,
    corpus: &'a Corpus,
    threads: usize,
    limits: &Limits,
) -> Result<Vec<&'a [u8]>, Error> {
    let mut out = Vec::new();
    let mut time = |blocks: &[&[u8]]| -> Result<Duration, Error> {
        let start = Instant::now();
        blocks.iter().try_for_each(|block| setting.codec().compress(setting.level(), block, &mut out))?;
        Ok(start.elapsed() / blocks.len() as u32)
    };
    // The first call makes the codec's tables.
    time(&corpus.spread(1))?;
    let one = time(&corpus.spread(2))?;
    let fit = limits.pass.as_secs_f64() / one.as_secs_f64().max(1e-9) * threads as f64;
    let count = (fit as usize).clamp(FEWEST_BLOCKS * threads, MOST_BLOCKS * threads);
    Ok(corpus.spread(count))
}

/// Packs every block, and makes sure that it can be had back.
fn round_trip(setting: Setting, blocks: &[&[u8]]) -> Result<Vec<Vec<u8>>, Error> {
    let mut unpacked = Vec::new();
    let mut through = |(index, block): (usize, &&[u8])| {
        let mut packed = Vec::new();
        setting.codec().compress(setting.level(), block, &mut packed)?;
        packed.shrink_to_fit();
        setting.codec().decompress(&packed, block.len(), &mut unpacked)?;
        if unpacked == *block { Ok(packed) } else { Err(Error::RoundTrip { setting, block: index }) }
    };
    blocks.iter().enumerate().map(&mut through).collect()
}

/// The speed of a job on blocks. A pass goes over them again until it is long enough.
fn speed(
    blocks: &[&[u8]],
    threads: usize,
    limits: &Limits,
    job: impl Fn(usize, &mut Vec<u8>) -> Result<(), codec::Error> + Sync,
) -> Result<Speed, Error> {
    let bytes: u64 = blocks.iter().map(|block| block.len() as u64).sum();
    let failed = Mutex::new(None);
    let work = |index: usize, out: &mut Vec<u8>| {
        if let Err(error) = job(index % blocks.len(), out)
            && let Ok(mut failed) = failed.lock()
        {
            *failed = Some(error);
        }
    };
    let crew = Crew::new(threads);
    let timing = crew.work(&work, |pass| {
        let once = pass(blocks.len());
        // Few blocks, or a quick codec: as many rounds as fill a pass, but no more than a pass may have.
        let rounds =
            (limits.pass.as_secs_f64() / once.as_secs_f64().max(1e-7)).ceil().clamp(1.0, 1e4) as usize;
        repeat(limits, || {
            let time = pass(blocks.len() * rounds);
            let error = failed.lock().ok().and_then(|mut failed| failed.take());
            error.map_or(Ok(time), Err)
        })
        .map(|timing| (timing, rounds as u64))
    });
    let (timing, rounds) = timing?;
    Ok(Speed::of(bytes * rounds, timing))
}

/// Threads that live as long as a measurement: what a codec keeps for each thread is made once, not in each pass.
struct Crew {
    threads: usize,
    start: Barrier,
    end: Barrier,
    next: AtomicUsize,
    count: AtomicUsize,
    over: AtomicBool,
    /// When the first one began and the last one ended, by their own clocks: with as many threads as cores, whoever
    /// waits for them is woken late.
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

    /// Lets `drive` call for passes over so many items; each item goes to one thread, with that thread's buffer.
    fn work<T>(
        &self,
        work: &(impl Fn(usize, &mut Vec<u8>) + Sync),
        drive: impl FnOnce(&dyn Fn(usize) -> Duration) -> T,
    ) -> T {
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| self.serve(work));
            }
            let result = drive(&|count| self.pass(count));
            self.over.store(true, Relaxed);
            self.start.wait();
            result
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
        if let Ok(mut span) = self.span.lock() {
            let (first, last) = span.unwrap_or((begun, ended));
            *span = Some((first.min(begun), last.max(ended)));
        }
    }

    fn pass(&self, count: usize) -> Duration {
        self.next.store(0, Relaxed);
        self.count.store(count, Relaxed);
        self.start.wait();
        self.end.wait();
        let span = self.span.lock().ok().and_then(|mut span| span.take());
        span.map_or(Duration::ZERO, |(first, last)| last - first)
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
        for setting in usual() {
            let row = measure(setting, &corpus, 2, &quick()).unwrap();
            assert_eq!(row.bytes, 20_000);
            assert!(row.compress.rate.0 > 0.0 && row.decompress.rate.0 > 0.0, "{row:?}");
            assert_eq!(row.ratio < 1.0, setting.codec() != Codec::NONE, "{row:?}");
            assert!(row.compress.passes >= 3 && row.decompress.passes >= 3);
        }
    }

    #[test]
    fn usual_settings_are_of_every_codec() {
        let codecs: std::collections::HashSet<Codec> = usual().into_iter().map(Setting::codec).collect();
        assert_eq!(codecs.len(), Codec::all().count());
    }

    #[test]
    fn each_item_of_a_pass_is_worked_on_once() {
        let seen = Mutex::new(Vec::new());
        Crew::new(3).work(&|item, _: &mut Vec<u8>| seen.lock().unwrap().push(item), |pass| {
            pass(100);
            pass(7);
        });
        let mut seen = seen.into_inner().unwrap();
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
