//! The law for mixtures: two codecs in such a share that link and processors are both full.
//!
//! With x bytes of payload a second, share f of the second codec, and everything else costing `others` processor seconds a
//! byte: x (cost + others) <= cores and x ratio <= link. Two constraints, so the optimum mixes two codecs at most.

/// What a codec does to the data at hand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Processor seconds per byte.
    pub(super) cost: f64,
    /// Compressed over original.
    pub(super) ratio: f64,
}

/// Choices within this of the best rate count as equal; the one that costs least wins.
const AS_GOOD: f64 = 0.99;

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

    /// The greatest rate; of nearly equal ones a single codec before a mixture, and then the cheapest.
    pub(super) fn best(points: &[Point], link: f64, cores: f64, others: f64) -> Mix {
        let law = Law { link, cores, others };
        let singles = points
            .iter()
            .enumerate()
            .map(|(index, point)| (Mix { rate: law.rate(*point), ..Mix::only(index) }, *point));
        let mut pairs = Vec::new();
        for first in 0..points.len() {
            for second in first + 1..points.len() {
                let Some(share) = law.share(points[first], points[second]) else { continue };
                let point = between(points[first], points[second], share);
                pairs.push((Mix { first, second, share, rate: law.rate(point) }, point));
            }
        }
        let all: Vec<(Mix, Point)> = singles.chain(pairs).collect();
        let most = all.iter().map(|(mix, _)| mix.rate).fold(0.0, f64::max);
        let cheapest = (all.iter().filter(|(mix, _)| mix.rate >= AS_GOOD * most))
            .min_by(|(a, p), (b, q)| (a.share > 0.0).cmp(&(b.share > 0.0)).then(p.cost.total_cmp(&q.cost)));
        cheapest.map_or(Mix::only(0), |(mix, _)| *mix)
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

struct Law {
    link: f64,
    cores: f64,
    others: f64,
}

impl Law {
    fn rate(&self, point: Point) -> f64 {
        (self.link / point.ratio).min(self.cores / (point.cost + self.others))
    }

    /// The share of `b` at which link and processors are full together: ratio x cores = link x (cost + others), both linear
    /// in the share. `None` where one of the two is full for either codec.
    fn share(&self, a: Point, b: Point) -> Option<f64> {
        let over = |point: Point| point.ratio * self.cores - self.link * (point.cost + self.others);
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
        Mix::best(&[NONE, QUICK, STRONG], link, cores, others)
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
        assert_eq!(Mix::best(&dead, 1e6, 2.0, 0.0).first, 0);
    }
}
