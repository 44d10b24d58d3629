//! The law for mixtures: two codecs in such a share that link and processors are both full.
//!
//! With x bytes of payload a second, and cost the processor seconds of a byte with all that it takes beside
//! compressing: x cost <= cores and x ratio <= link. Two constraints, so the optimum mixes two codecs at
//! most.

/// What a codec does to the data at hand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Processor seconds per byte.
    pub(super) cost: f64,
    /// Compressed over original.
    pub(super) ratio: f64,
}

/// What twice the processor time must bring at least, as a share of the rate: estimates are no better than
/// that, and a processor has other uses.
const PER_DOUBLING: f64 = 0.005;

/// Codecs that cost less than this, seconds per byte, all count as free: 600 MB/s.
const FREE: f64 = 1.0 / 600e6;

/// What another choice must bring before it replaces one that is in use.
const CHANGE: f64 = 0.01;

/// A single codec within this of the best mixture is preferred: blocks of two kinds take turns well only
/// while the queue holds several of each.
const SIMPLER: f64 = 0.94;

/// A share of two candidates, by their index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mix {
    pub(super) first: usize,
    pub(super) second: usize,
    /// Share of blocks that the second gets, 0 to 1.
    pub(super) share: f64,
    /// Payload rate that the law expects.
    pub(super) rate: f64,
}

impl Mix {
    /// One candidate for all.
    pub(super) fn only(index: usize) -> Mix {
        Mix { first: index, second: index, share: 0.0, rate: f64::INFINITY }
    }

    /// The greatest rate; of nearly equal ones a single codec before a mixture, the cheaper, the one in use.
    /// Codecs that take more than `longest` seconds a byte are not mixed with others.
    pub(super) fn best(points: &[Point], law: Law, longest: f64, used: Mix) -> Mix {
        let singles = points
            .iter()
            .enumerate()
            .map(|(index, point)| (Mix { rate: law.rate(*point), ..Mix::only(index) }, *point));
        let mut pairs = Vec::new();
        for first in 0..points.len() {
            for second in first + 1..points.len() {
                // While a worker is at a heavy block, the others must supply the lanes.
                if points[second].cost.max(points[first].cost) > longest {
                    continue;
                }
                let Some(share) = law.share(points[first], points[second]) else { continue };
                let point = between(points[first], points[second], share);
                pairs.push((Mix { first, second, share, rate: law.rate(point) }, point));
            }
        }
        let single = worth_most(singles.collect(), used);
        let pair = worth_most(pairs, used);
        match (single, pair) {
            (Some(single), Some(pair)) if single.rate < SIMPLER * pair.rate => pair,
            (Some(single), _) => single,
            (None, _) => Mix::only(0),
        }
    }

    /// Its share of original bytes on the wire.
    pub(super) fn ratio(&self, points: &[Point]) -> f64 {
        between(points[self.first], points[self.second], self.share).ratio
    }

    /// Its processor seconds per byte.
    pub(super) fn cost(&self, points: &[Point]) -> f64 {
        between(points[self.first], points[self.second], self.share).cost
    }
}

/// The one whose rate, less what its processor time must bring, is greatest.
fn worth_most(all: Vec<(Mix, Point)>, used: Mix) -> Option<Mix> {
    let worth = |mix: &Mix, point: &Point| {
        let same = (mix.first, mix.second) == (used.first, used.second);
        mix.rate.min(1e15).ln() - PER_DOUBLING * (point.cost.max(FREE)).log2()
            + if same { CHANGE } else { 0.0 }
    };
    all.into_iter()
        .max_by(|(a, p), (b, q)| worth(a, p).total_cmp(&worth(b, q)).then(q.cost.total_cmp(&p.cost)))
        .map(|(mix, _)| mix)
}

/// What the law is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Law {
    /// Bytes per second on the wire.
    pub(super) link: f64,
    /// Processors.
    pub(super) cores: f64,
    /// Processor seconds that all but compressing takes, per byte of payload.
    pub(super) payload: f64,
    /// And per byte on the wire.
    pub(super) wire: f64,
}

impl Law {
    fn cost(&self, point: Point) -> f64 {
        point.cost + self.payload + self.wire * point.ratio
    }

    fn rate(&self, point: Point) -> f64 {
        (self.link / point.ratio).min(self.cores / self.cost(point))
    }

    /// The share of `b` at which link and processors are full together: ratio x cores = link x cost, both
    /// linear in the share. `None` where one of the two is full for either codec.
    fn share(&self, a: Point, b: Point) -> Option<f64> {
        let over = |point: Point| point.ratio * self.cores - self.link * self.cost(point);
        let share = over(a) / (over(a) - over(b));
        (share.is_finite() && share > 0.0 && share < 1.0).then_some(share)
    }
}

fn between(a: Point, b: Point, share: f64) -> Point {
    let at = |a: f64, b: f64| a + (b - a) * share;
    Point { cost: at(a.cost, b.cost), ratio: at(a.ratio, b.ratio) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Point = Point { cost: 1e-10, ratio: 1.0 };
    const QUICK: Point = Point { cost: 1.0 / 600e6, ratio: 0.5 };
    const STRONG: Point = Point { cost: 1.0 / 50e6, ratio: 0.3 };

    fn best(link: f64, cores: f64, others: f64) -> Mix {
        Mix::best(&[NONE, QUICK, STRONG], Law { link, cores, payload: others, wire: 0.0 }, 1.0, Mix::only(0))
    }

    #[test]
    fn slow_links_want_strong_codecs_and_fast_ones_none() {
        assert_eq!((best(1e6, 2.0, 0.0).first, best(1e6, 2.0, 0.0).share), (2, 0.0));
        assert_eq!(best(50e9, 2.0, 0.0).first, 0);
        let between = best(500e6, 1.0, 0.0);
        assert_eq!((between.first, between.second), (0, 1));
        assert!(between.rate > 700e6 && between.rate < 800e6, "{}", between.rate);
    }

    #[test]
    fn processors_that_the_rest_needs_are_not_there_to_compress() {
        // 1 GB/s of payload takes both cores already.
        assert_eq!(best(1e9, 2.0, 2e-9).first, 0);
        assert_eq!(best(1e9, 2.0, 2e-9).share, 0.0);
        assert!(best(1e9, 16.0, 2e-9).ratio(&[NONE, QUICK, STRONG]) < 0.6);
    }

    #[test]
    fn data_that_does_not_shrink_is_left_alone() {
        let dead = [NONE, Point { ratio: 1.0, ..QUICK }, Point { ratio: 0.998, ..STRONG }];
        assert_eq!(
            Mix::best(&dead, Law { link: 1e6, cores: 2.0, payload: 0.0, wire: 0.0 }, 1.0, Mix::only(0)).first,
            0
        );
    }
}
