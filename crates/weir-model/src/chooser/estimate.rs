//! What each codec does to this data on this processor, as far as blocks have shown.
//!
//! Ratios are kept as logarithms: data that becomes harder to compress does so for all codecs by about the
//! same factor in the logarithm, so each block moves the estimates of all, in proportion to their usual
//! strength.

use std::time::Duration;

use super::mix::Point;
use super::{BLOCK, Packed};
use crate::candidates::{Candidate, Prior, Priors};

/// Blocks whose average an estimate is.
const BLOCKS: f64 = 24.0;

/// Blocks that the proportions known beforehand are worth: one block alone may be an odd one.
const PRIOR: f64 = 2.0;

/// How far blocks are off before any was seen: a tenth.
const SPREAD: f64 = 0.01;

/// A codec is tried again after this long, times one more than the blocks that it was tried with, and at most
/// after the other; where processors idle, in a fraction of it.
const AGAIN: Duration = Duration::from_millis(500);
const STALE: Duration = Duration::from_secs(5);
const IDLE: u32 = 5;

/// Blocks after which a codec's estimate is its own, and what is off says something of the data.
const SETTLED: f64 = 6.0;

/// Blocks from which on a codec counts as tried. The first batches of a tree hold a few small files: the
/// codec's own start is most of what they take, they shrink less than a block does, and believed like one
/// they would make it ten times as dear for seconds.
const TRIED: f64 = 0.25;

/// A block counts as this many times as slow as usual at the most: one at which the machine stood still, for
/// thirty times as long as it takes, would else double the estimate, and the codec would not be used for
/// seconds. A processor that did become slower is believed within 17 blocks per doubling.
const SLOWEST: f64 = 2.0;

/// A block this far off the estimate (a factor of 1.35) is the data changing, once the next one agrees.
const CHANGE: f64 = 0.3;

#[derive(Debug, Clone)]
struct Estimate {
    candidate: Candidate,
    prior: Prior,
    cost: f64,
    log_ratio: f64,
    /// Blocks seen; what is smaller than a block counts in proportion.
    blocks: f64,
    /// Last block, or last time one was asked for.
    at: Duration,
    /// The last block was off, and which way.
    off: f64,
}

impl Estimate {
    fn is_tried(&self) -> bool {
        self.blocks >= TRIED
    }
}

/// See the module's page.
#[derive(Debug, Clone)]
pub(super) struct Estimates {
    all: Vec<Estimate>,
    none: usize,
    /// Mean square of how far blocks are off, in the logarithm of the ratio.
    spread: f64,
}

impl Estimates {
    /// Sorted from light to heavy; `none` is added where it lacks.
    pub(super) fn new(mut candidates: Vec<Candidate>, priors: &Priors) -> Estimates {
        if !candidates.iter().any(|candidate| candidate.codec == 0) {
            candidates.push(Candidate { codec: 0, level: 0 });
        }
        candidates.sort_by(|a, b| priors.prior(*a).cost.total_cmp(&priors.prior(*b).cost));
        candidates.dedup();
        let all: Vec<Estimate> = (candidates.into_iter())
            .map(|candidate| {
                let prior = priors.prior(candidate);
                let Prior { cost, log_ratio } = prior;
                Estimate { candidate, prior, cost, log_ratio, blocks: 0.0, at: Duration::ZERO, off: 0.0 }
            })
            .collect();
        let none = all.iter().position(|estimate| estimate.candidate.codec == 0).unwrap_or(0);
        Estimates { all, none, spread: SPREAD }
    }

    pub(super) fn none(&self) -> usize {
        self.none
    }

    pub(super) fn candidate(&self, index: usize) -> Candidate {
        self.all[index].candidate
    }

    /// That candidate.
    pub(super) fn index_of(&self, wanted: Candidate) -> Option<usize> {
        self.all.iter().position(|estimate| estimate.candidate == wanted)
    }

    /// That candidate, or the one nearest to it in cost.
    pub(super) fn index_of_prior(&self, wanted: Candidate) -> usize {
        if let Some(itself) = self.index_of(wanted) {
            return itself;
        }
        let cost = Prior::of(wanted).cost;
        let off = |estimate: &Estimate| (estimate.prior.cost / cost).ln().abs();
        let nearest = self.all.iter().enumerate().min_by(|(_, a), (_, b)| off(a).total_cmp(&off(b)));
        nearest.map_or(self.none, |(index, _)| index)
    }

    /// What the law works with; of a share of `dead` blocks each codec makes nothing.
    pub(super) fn points(&self, dead: f64) -> Vec<Point> {
        let live = 1.0 - dead.clamp(0.0, 1.0);
        (self.all.iter())
            .map(|estimate| Point {
                cost: estimate.cost * live,
                ratio: dead + live * estimate.log_ratio.exp(),
            })
            .collect()
    }

    /// The same with doubt: of many estimates, the best is often one that was lucky. What is not in use must
    /// be better than it by what its few blocks may mislead.
    pub(super) fn doubted(&self, dead: f64, used: [usize; 2]) -> Vec<Point> {
        let mut points = self.points(dead);
        for (index, (point, estimate)) in points.iter_mut().zip(&self.all).enumerate() {
            if index != self.none && !used.contains(&index) {
                let count = (estimate.blocks + PRIOR).min(2.0 * BLOCKS);
                let live = (point.ratio - dead) * (0.25 * (self.spread / count).sqrt()).exp();
                point.ratio = (dead + live).min(1.0);
            }
        }
        points
    }

    /// A block tells of its codec, and through it of the others.
    pub(super) fn learn(&mut self, block: &Packed) {
        let candidate = Candidate { codec: block.codec, level: block.level };
        let Some(index) = self.index_of(candidate) else { return };
        if block.raw == 0 {
            return;
        }
        let cost = block.cpu.as_secs_f64() / block.raw as f64;
        let log_ratio = (block.packed.max(1) as f64 / block.raw as f64).ln().min(0.0);
        let size = (block.raw as f64 / BLOCK).min(1.0);
        let known = &self.all[index];
        let (settled, was) = (known.blocks >= SETTLED, known.clone());
        let cost = if settled { cost.min(SLOWEST * was.cost) } else { cost };
        let off = log_ratio - was.log_ratio;
        let agrees =
            settled && off.abs() > CHANGE && was.off.abs() > CHANGE && off.signum() == was.off.signum();
        // The very first block replaces what was assumed; later ones are averaged, the faster the fewer there
        // were.
        let nothing_known = size >= TRIED
            && (self.all.iter().enumerate()).all(|(other, known)| other == self.none || !known.is_tried());
        let count = was.blocks + size;
        if was.blocks > 2.0 && index != self.none {
            self.spread += (off.clamp(-CHANGE, CHANGE).powi(2) - self.spread) / 32.0;
        }
        let weight = if agrees {
            0.6
        } else if nothing_known {
            1.0
        } else {
            size / (count + PRIOR).min(BLOCKS)
        };
        self.move_ratios(index, weight * off, settled || nothing_known);
        self.move_cost(index, cost, if agrees { size / count.min(BLOCKS) } else { weight });
        let known = &mut self.all[index];
        known.blocks += size;
        known.at = known.at.max(block.now);
        known.off = off;
    }

    fn move_ratios(&mut self, index: usize, step: f64, news: bool) {
        let strength = self.all[index].prior.log_ratio;
        for (other, estimate) in self.all.iter_mut().enumerate() {
            if other == index {
                estimate.log_ratio = (estimate.log_ratio + step).min(0.0);
            } else if !estimate.is_tried() || news {
                // A codec's first blocks say how it differs from the others; they are no news of the data.
                let share = if strength < 0.0 { estimate.prior.log_ratio / strength } else { 0.0 };
                estimate.log_ratio = (estimate.log_ratio + step * share).min(0.0);
            }
        }
    }

    /// Codecs not tried yet are as much faster or slower than usual as those of them that compress and were.
    fn move_cost(&mut self, index: usize, cost: f64, weight: f64) {
        let known = &mut self.all[index];
        known.cost += (cost - known.cost) * weight;
        let none = self.none;
        let tried = |(other, estimate): &(usize, &Estimate)| {
            *other != none && (estimate.is_tried() || *other == index) && estimate.cost > 0.0
        };
        let logs: Vec<f64> = (self.all.iter().enumerate().filter(tried))
            .map(|(_, estimate)| (estimate.cost / estimate.prior.cost).ln())
            .collect();
        if logs.is_empty() {
            return;
        }
        let scale = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        for (other, estimate) in self.all.iter_mut().enumerate() {
            if !estimate.is_tried() && other != index && other != none {
                estimate.cost = estimate.prior.cost * scale;
            }
        }
    }

    /// The neighbours of what is in use that are due to be tried, the one not tried for longest first.
    pub(super) fn due(&self, now: Duration, used: [usize; 2], idle: bool) -> Vec<usize> {
        let sooner = if idle { IDLE } else { 1 };
        let (low, high) = (used[0].min(used[1]), used[0].max(used[1]));
        let near = low.saturating_sub(2)..=(high + 2).min(self.all.len() - 1);
        let due = |index: &usize| {
            let estimate = &self.all[*index];
            let wait = AGAIN.mul_f64(estimate.blocks.min(100.0) + 1.0).min(STALE) / sooner;
            *index != self.none && !used.contains(index) && now >= estimate.at + wait
        };
        let mut due: Vec<usize> = near.filter(due).collect();
        due.sort_by_key(|index| self.all[*index].at);
        due
    }

    /// A block was given to this one; another need not be before its result is there.
    pub(super) fn asked(&mut self, index: usize, now: Duration) {
        self.all[index].at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::super::CANDIDATES;
    use super::*;

    #[test]
    fn a_block_at_which_the_machine_stood_still_moves_the_estimate_little() {
        let mut estimates = Estimates::new(CANDIDATES.to_vec(), &Priors::default());
        let index = estimates.index_of_prior(Prior::START);
        let Candidate { codec, level } = Prior::START;
        let mut block = |milliseconds: u64| {
            let cpu = Duration::from_millis(milliseconds);
            let (raw, packed) = (1 << 20, 400_000);
            estimates.learn(&Packed { codec, level, raw, packed, cpu, now: Duration::ZERO });
            estimates.points(0.0)[index].cost * f64::from(1 << 20)
        };
        (0..40).for_each(|_| assert!((block(4) - 0.004).abs() < 1e-9));
        assert!(block(120) < 0.0042);
        // Slower for good.
        let slower = (0..60).map(|_| block(16)).last().unwrap();
        assert!(slower > 0.014, "{slower}");
    }

    #[test]
    fn the_first_small_batches_of_a_tree_decide_nothing() {
        let mut estimates = Estimates::new(CANDIDATES.to_vec(), &Priors::default());
        let index = estimates.index_of_prior(Prior::START);
        let Candidate { codec, level } = Prior::START;
        let mut learn = |raw: u64, packed: u64, cpu: Duration| {
            estimates.learn(&Packed { codec, level, raw, packed, cpu, now: Duration::ZERO });
            estimates.points(0.0)[index]
        };
        (0..8).for_each(|_| {
            learn(10_000, 6_000, Duration::from_millis(2));
        });
        let point = (0..4).map(|_| learn(1 << 20, 400_000, Duration::from_millis(4))).last().unwrap();
        assert!(
            (point.cost * BLOCK - 0.004).abs() < 0.0002 && (point.ratio - 0.381).abs() < 0.01,
            "{point:?}"
        );
    }
}
