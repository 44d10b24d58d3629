//! How many blocks of a file one record carries, packed as one.
//!
//! The more a codec sees at once, the more it finds: text by zstd:9 comes to 0.314 of its size in blocks of 1
//! MiB, to 0.306 by two, 0.300 by four and 0.298 by eight (docs/decisions/0010). But a record is what a new
//! choice, and whoever waits for the next byte, has to wait for. So a quick codec's records may be longer
//! than a slow one's, and each codec is always tried and used in records of its own length: compared in
//! others, the longer ones would win whatever the codec.

use super::mix::Point;
use super::{BLOCK, Choice, Chooser};
use crate::candidates::{Candidate, Prior, ZSTD};

/// Blocks that one record may carry.
pub const LONGEST_RUN: u32 = 4;

/// Share of dead blocks from which on each goes by itself: one in twenty.
const SOME_DEAD: f64 = 0.05;

/// Seconds of a processor, and of the link, that one record takes, to the next whole block: it adds to the
/// quarter of a second that blocks wait for lanes, and is to be less.
const HELD_UP: f64 = 0.15;

/// What the next record is to be, before its blocks are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// What they get.
    pub choice: Choice,
    /// So many of them.
    pub run: u32,
    /// They are to be looked at first: what would hardly shrink goes as it is.
    pub looks: bool,
}

impl Chooser {
    /// Records carry at most so many blocks from now on, whatever else speaks for more. One, before this is
    /// said.
    pub fn allow(&mut self, longest: u32) {
        self.longest = longest.clamp(1, LONGEST_RUN);
    }

    /// Blocks of the longest records that the codecs in use ask for.
    pub fn longest_in_use(&self) -> u32 {
        let points = self.estimates.points(self.dead);
        self.used().into_iter().map(|(index, _)| self.wanted(index, &points)).max().unwrap_or(1)
    }

    /// Blocks of a record where `fixed` is what all get, of which it leaves `ratio`; how quick it is, is
    /// taken to be as usual.
    pub fn run_with(&self, fixed: Candidate, ratio: f64) -> u32 {
        let link = self.link.rate().filter(|_| looks_far(fixed));
        link.map_or(1, |link| run_of(Point { cost: Prior::of(fixed).cost, ratio }, link).min(self.longest))
    }

    /// Blocks of this candidate's records.
    pub(super) fn run(&self, index: usize, points: &[Point]) -> u32 {
        self.wanted(index, points).min(self.longest)
    }

    /// The same whatever is allowed: one before the first report, and among blocks that hardly shrink, which
    /// are told apart one by one.
    fn wanted(&self, index: usize, points: &[Point]) -> u32 {
        let far = looks_far(self.estimates.candidate(index));
        let link = self.link.rate().filter(|_| far && self.ramp.is_none() && self.dead <= SOME_DEAD);
        link.map_or(1, |link| run_of(points[index], link))
    }

    /// Mean bytes of records that carry at most `longest` blocks.
    pub(super) fn record(&self, longest: u32, points: &[Point]) -> f64 {
        let blocks = |(index, share)| share * f64::from(self.wanted(index, points).min(longest.max(1)));
        BLOCK * self.used().into_iter().map(blocks).sum::<f64>()
    }

    /// The codecs in use, with their shares.
    fn used(&self) -> [(usize, f64); 2] {
        let share = self.mix.share.clamp(0.0, 1.0);
        [(self.mix.first, 1.0 - share), (if share > 0.0 { self.mix.second } else { self.mix.first }, share)]
    }
}

/// It finds in a block what was in the one before, were they packed as one: zstd's window is 512 KiB at level
/// 1, and 2 MiB or more from level 3 on.
fn looks_far(candidate: Candidate) -> bool {
    candidate.codec == ZSTD && candidate.level >= 3
}

fn run_of(point: Point, link: f64) -> u32 {
    let (work, wire) = (point.cost * BLOCK, point.ratio * BLOCK / link);
    (HELD_UP / work.max(wire)).round().clamp(1.0, f64::from(LONGEST_RUN)) as u32
}
