//! Where do the plateaus of a latency curve end, and how high is each? Pure: the same curve gives the same
//! levels.
//!
//! The curve is that of loads from random lines, one after another, over working sets of growing size. A load
//! from a set of `W` bytes finds its line in a cache of `C` bytes with the probability `C / W`, whichever
//! lines the cache throws out first. So a pass costs `T(W) = W x latency(W)`, and that is a line which bends
//! at each cache's size: its slope between two bends is what one more byte costs, the latency of the next
//! level and of it alone. The latency itself never shows that: a set of twice the second cache still finds
//! half of its lines there. Where a cache holds only what the one before threw out (exclusive, as AMD's third
//! level), the bend is at both together.
//!
//! Bends are found by least squares of the relative error; each is the one that mends the fit most (forward
//! selection), then all are moved until none moves. Two levels are told apart when the slope grows by
//! [`STEP`]; lesser bends are the TLBs' and belong to the level in which they lie.

use weir_units::stats::sorted;

/// One point of the curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The working set, bytes.
    pub bytes: f64,
    /// A load, seconds or any other unit.
    pub latency: f64,
}

/// One plateau.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plateau {
    /// Where it ends; `None` for the last one, memory.
    pub size: Option<f64>,
    /// A load from this level alone, in the curve's unit.
    pub latency: f64,
}

/// A next level is slower by this factor at least. Caches differ by 2.5 to 4, memory from the last one by 2.5
/// and more; a miss of the first TLB makes loads of the second level slower by half.
const STEP: f64 = 1.8;

/// And that much slower than the level began, where a TLB's bend lies between.
const STEP_IN_ALL: f64 = 2.2;

/// Neighbouring bends are an octave apart at least: between them caches grow fourfold and more, but round a
/// cache's end sets that overflow early make the bend a curve.
const APART: f64 = 1.0;

/// The shortest level, octaves.
const SPAN: f64 = 1.5;

/// Bends at most: three caches, two TLBs, and one to spare.
const BENDS: usize = 6;

/// Places for a bend in an octave: a place is then off by 1.5 % at most.
const PLACES: usize = 24;

/// A bend must take away this share of the squared error, or it fits noise.
const GAIN: f64 = 0.2;

/// A fit with this relative error (root mean square) is good enough: what is measured is no truer.
const GOOD: f64 = 0.004;

/// The plateaus of a curve, nearest first. Fewer than four points have none.
pub fn find(points: &[Point]) -> Vec<Plateau> {
    let mut points: Vec<Point> = points
        .iter()
        .copied()
        .filter(|point| point.bytes > 0.0 && point.latency > 0.0 && point.latency.is_finite())
        .collect();
    points.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    if points.len() < 4 {
        return Vec::new();
    }
    let bends = bends(&points);
    let Some((slopes, _)) = fit(&points, &bends) else { return Vec::new() };
    plateaus(&points, &bends, &slopes)
}

/// The bends that the curve's error is least with, ascending.
fn bends(points: &[Point]) -> Vec<f64> {
    let places = places(points);
    let error = |bends: &[f64]| fit(points, bends).map_or(f64::INFINITY, |(_, error)| error);
    let mut bends: Vec<f64> = Vec::new();
    let mut least = error(&bends);
    let good = GOOD * GOOD * points.len() as f64;
    while bends.len() < BENDS && least > good {
        let Some(mut more) = with_best(&bends, &places, &error) else { break };
        // A new bend may have taken another's work: each is placed again while the others stand.
        for _ in 0..4 {
            for index in 0..more.len() {
                let mut others = more.clone();
                others.remove(index);
                if let Some(moved) = with_best(&others, &places, &error) {
                    more = moved;
                }
            }
        }
        let now = error(&more);
        if now > least * (1.0 - GAIN) {
            break;
        }
        (bends, least) = (more, now);
    }
    bends
}

/// Where a bend may be.
fn places(points: &[Point]) -> Vec<f64> {
    let (first, last) = (points[0].bytes, points[points.len() - 1].bytes);
    let octaves = (last / first).log2();
    let count = (octaves * PLACES as f64) as usize;
    // Three eighths of an octave on either side belong to the first and the last slope.
    let from = PLACES * 3 / 8;
    (from..count.saturating_sub(from)).map(|step| first * 2_f64.powf(step as f64 / PLACES as f64)).collect()
}

/// These bends and the best further one, ascending; `None` where there is no room.
fn with_best(bends: &[f64], places: &[f64], error: &impl Fn(&[f64]) -> f64) -> Option<Vec<f64>> {
    let far = |place: &&f64| bends.iter().all(|bend| (**place / bend).log2().abs() >= APART - 1e-9);
    let tried = places.iter().filter(far).map(|place| {
        let more = sorted(bends.iter().chain([place]).copied());
        (error(&more), more)
    });
    tried.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, more)| more)
}

/// The slopes between these bends with the least relative error, and its sum of squares.
fn fit(points: &[Point], bends: &[f64]) -> Option<(Vec<f64>, f64)> {
    let count = bends.len() + 1;
    let basis = |point: &Point, index: usize| {
        // Bytes beyond the bend, over what a pass costs: the error is relative.
        let beyond = if index == 0 { point.bytes } else { (point.bytes - bends[index - 1]).max(0.0) };
        beyond / (point.bytes * point.latency)
    };
    let mut matrix = vec![vec![0.0; count + 1]; count];
    for point in points {
        let row: Vec<f64> = (0..count).map(|index| basis(point, index)).collect();
        for (line, factor) in matrix.iter_mut().zip(&row) {
            line.iter_mut().zip(row.iter().chain([&1.0])).for_each(|(cell, of)| *cell += factor * of);
        }
    }
    let changes = solve(matrix)?;
    let error = points
        .iter()
        .map(|point| {
            let fitted: f64 = changes.iter().enumerate().map(|(index, of)| of * basis(point, index)).sum();
            (fitted - 1.0) * (fitted - 1.0)
        })
        .sum();
    let slopes = changes.iter().scan(0.0, |slope, change| {
        *slope += change;
        Some(*slope)
    });
    Some((slopes.collect(), error))
}

/// Gauss's elimination; the last column is the right side. `None` where there is no single solution.
fn solve(mut matrix: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let count = matrix.len();
    for column in 0..count {
        let pivot =
            (column..count).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        matrix.swap(column, pivot);
        let by = matrix[column][column];
        if by.abs() < f64::MIN_POSITIVE || !by.is_finite() {
            return None;
        }
        for row in 0..count {
            if row != column {
                let share = matrix[row][column] / by;
                let above = matrix[column].clone();
                matrix[row].iter_mut().zip(above).for_each(|(cell, of)| *cell -= share * of);
            }
        }
    }
    Some((0..count).map(|row| matrix[row][count] / matrix[row][row]).collect())
}

/// A run of slopes that belong together.
#[derive(Debug, Clone, Copy)]
struct Run {
    from: f64,
    to: f64,
    /// Of the first slope in it: what the level costs before a TLB adds to it.
    first: f64,
    /// Over the whole run.
    mean: f64,
    /// Of the last slope in it.
    last: f64,
}

/// Slopes that fall or hardly grow are one level.
fn plateaus(points: &[Point], bends: &[f64], slopes: &[f64]) -> Vec<Plateau> {
    let end = points[points.len() - 1].bytes;
    let mut runs: Vec<Run> = Vec::new();
    for (index, slope) in slopes.iter().enumerate() {
        let from = if index == 0 { 0.0 } else { bends[index - 1] };
        let to = bends.get(index).copied().unwrap_or(end);
        let mut run = Run { from, to, first: *slope, mean: *slope, last: *slope };
        // Bytes further out cannot cost less: what looks like it was bent by noise, so the two are one slope.
        while let Some(before) = runs.last().filter(|before| before.last >= run.mean) {
            let (span, more) = (before.to - before.from, run.to - run.from);
            let mean = (before.mean * span + run.mean * more) / (span + more);
            run = Run { from: before.from, to: run.to, first: mean, mean, last: mean };
            runs.pop();
        }
        match runs.last_mut() {
            Some(before) if run.first < STEP * before.last && run.first < STEP_IN_ALL * before.first => {
                let (span, more) = (before.to - before.from, run.to - run.from);
                before.mean = (before.mean * span + run.mean * more) / (span + more);
                before.to = run.to;
                before.last = run.last;
            }
            _ => runs.push(run),
        }
    }
    dissolve(&mut runs);
    let last = runs.len().saturating_sub(1);
    let plateau = |(index, run): (usize, &Run)| match index == last {
        // Memory behind a TLB that misses: the mean is what its loads cost.
        true => Plateau { size: None, latency: run.mean },
        false => Plateau { size: Some(run.to), latency: run.first },
    };
    runs.iter().enumerate().map(plateau).collect()
}

/// A level ends [`SPAN`] after the one before at least: caches grow fourfold and more. What is shorter is no
/// level but the curve round the end of one that others use too, or whose sets overflow one by one; it ends
/// where the lines on either side of the curve would meet.
fn dissolve(runs: &mut Vec<Run>) {
    let short = |run: &Run| run.from > 0.0 && (run.to / run.from).log2() < SPAN;
    while let Some(at) = (1..runs.len().saturating_sub(1)).find(|at| short(&runs[*at])) {
        let (before, run, after) = (runs[at - 1], runs[at], runs[at + 1]);
        let cost = before.last * run.from + run.mean * (run.to - run.from);
        let meet = (after.first * run.to - cost) / (after.first - before.last);
        let meet = if meet.is_finite() { meet.clamp(run.from, run.to) } else { run.from };
        runs[at - 1].to = meet;
        runs[at + 1].from = meet;
        runs.remove(at);
    }
}

/// Gives plateaus names: `L1`, `L2`... and `memory`. `known` are the sizes of the caches that the machine
/// says it has, nearest first: where their number is another one than was found, each found cache takes the
/// name of the one nearest to its size, so that a cache that hides does not rename those behind it.
pub fn names(plateaus: &[Plateau], known: &[u64]) -> Vec<String> {
    let sizes: Vec<f64> = plateaus.iter().filter_map(|plateau| plateau.size).collect();
    let mut next = 0;
    plateaus
        .iter()
        .enumerate()
        .map(|(index, plateau)| {
            let Some(size) = plateau.size else { return "memory".to_owned() };
            if known.is_empty() || known.len() == sizes.len() {
                return format!("L{}", index + 1);
            }
            // As many must be left as are still to be named.
            let last = known.len().saturating_sub(sizes.len() - index).max(next);
            let distance =
                |at: &usize| known.get(*at).map_or(f64::INFINITY, |known| (size / *known as f64).ln().abs());
            let nearest = (next..=last).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(next);
            next = nearest + 1;
            format!("L{next}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The curve of caches of these sizes: each a slope, and the size at which it ends.
    fn curve(slopes: &[(f64, f64)], noise: impl Fn(usize) -> f64) -> Vec<Point> {
        let most = 512.0 * f64::from(1 << 20);
        let mut bytes = 4096.0;
        let mut points = Vec::new();
        while bytes <= most {
            let (mut from, mut pass) = (0.0, 0.0);
            for (end, slope) in slopes {
                pass += (bytes.min(*end) - from).max(0.0) * slope;
                from = *end;
            }
            points.push(Point { bytes, latency: pass / bytes * noise(points.len()) });
            bytes *= 2_f64.powf(0.25);
        }
        points
    }

    const KIB: f64 = 1024.0;
    const MIB: f64 = 1024.0 * KIB;

    #[test]
    fn a_server_processor_with_tlbs() {
        // 48 KiB, 1 MiB, 33 MiB; the first TLB ends at 384 KiB, the second at 160 MiB.
        let slopes = [
            (48.0 * KIB, 1.1),
            (384.0 * KIB, 3.9),
            (MIB, 5.6),
            (33.0 * MIB, 16.0),
            (160.0 * MIB, 120.0),
            (f64::MAX, 150.0),
        ];
        let found = find(&curve(&slopes, |_| 1.0));
        let sizes: Vec<f64> = found.iter().filter_map(|plateau| plateau.size).collect();
        for (found, truth) in sizes.iter().zip([48.0 * KIB, MIB, 33.0 * MIB]) {
            assert!((found / truth - 1.0).abs() < 0.04, "{found} instead of {truth}");
        }
        let latencies: Vec<f64> = found.iter().map(|plateau| plateau.latency).collect();
        for (found, truth) in latencies.iter().zip([1.1, 3.9, 16.0, 135.0]) {
            assert!((found / truth - 1.0).abs() < 0.1, "{latencies:?}");
        }
        assert_eq!(names(&found, &[]), ["L1", "L2", "L3", "memory"]);
    }

    #[test]
    fn no_caches_are_no_levels() {
        let flat = find(&curve(&[(f64::MAX, 80.0)], |index| 1.0 + 0.01 * (index % 3) as f64));
        assert_eq!(flat.len(), 1);
        assert_eq!(flat[0].size, None);
        assert!((flat[0].latency / 80.0 - 1.0).abs() < 0.02);
        assert_eq!(find(&[]), []);
        let odd = [f64::NAN, 0.0, -1.0, f64::INFINITY].map(|latency| Point { bytes: 4096.0, latency });
        assert_eq!(find(&odd), []);
    }

    #[test]
    fn a_cache_that_hides_renames_no_other() {
        let plateau = |size: Option<u64>| Plateau { size: size.map(|size| size as f64), latency: 1.0 };
        let found = [plateau(Some(50_000)), plateau(Some(30 << 20)), plateau(None)];
        assert_eq!(names(&found, &[48 << 10, 1 << 20, 32 << 20]), ["L1", "L3", "memory"]);
        assert_eq!(names(&found, &[]), ["L1", "L2", "memory"]);
        // More than the machine admits.
        assert_eq!(names(&found, &[48 << 10]), ["L1", "L2", "memory"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Any two or three caches, fourfold apart and more, each level 2.2 times slower and more, 2 % of
        /// noise, a TLB.
        #[test]
        fn levels_are_found(
            first in 16.0_f64..80.0,
            growths in proptest::collection::vec(2.4_f64..5.0, 1..3),
            steps in proptest::collection::vec(2.5_f64..6.0, 3),
            tlb in 0.3_f64..0.7,
            seed in any::<u64>(),
        ) {
            let mut sizes = vec![first * KIB];
            for growth in &growths {
                sizes.push(sizes[sizes.len() - 1] * 2_f64.powf(*growth));
            }
            prop_assume!(sizes[sizes.len() - 1] < 64.0 * MIB);
            let mut slope = 1.0;
            let mut slopes = Vec::new();
            let mut truth = Vec::new();
            for (index, size) in sizes.iter().enumerate() {
                truth.push(slope);
                // A TLB ends within the second level.
                if index == 1 && (sizes[1] / sizes[0]).log2() > 3.5 {
                    slopes.push((sizes[0] * (sizes[1] / sizes[0]).powf(tlb), slope));
                    slopes.push((*size, slope * 1.4));
                } else {
                    slopes.push((*size, slope));
                }
                slope *= steps[index];
            }
            slopes.push((f64::MAX, slope));
            truth.push(slope);
            let noise = |index: usize| {
                let drawn = super::super::random::mixed(seed.wrapping_add(index as u64)) >> 11;
                1.0 + 0.04 * (drawn as f64 / (1_u64 << 53) as f64 - 0.5)
            };
            let found = find(&curve(&slopes, noise));
            prop_assert_eq!(found.len(), truth.len(), "{:?} for {:?}", found, slopes);
            for (plateau, size) in found.iter().zip(&sizes) {
                let seen = plateau.size.unwrap_or(0.0);
                prop_assert!((seen / size - 1.0).abs() < 0.15, "{:?} for {:?}", found, slopes);
            }
            for (plateau, latency) in found.iter().zip(&truth) {
                prop_assert!((plateau.latency / latency - 1.0).abs() < 0.15, "{:?} for {:?}", found, slopes);
            }
            prop_assert!(found.windows(2).all(|two| two[0].latency < two[1].latency));
        }

        /// Whatever the curve, sizes and latencies rise.
        #[test]
        fn levels_are_in_order(latencies in proptest::collection::vec(0.01_f64..1000.0, 0..80)) {
            let points: Vec<Point> = latencies.iter().enumerate()
                .map(|(index, latency)| Point { bytes: 4096.0 * 2_f64.powf(index as f64 / 4.0), latency: *latency })
                .collect();
            let found = find(&points);
            prop_assert_eq!(found.is_empty(), points.len() < 4);
            for two in found.windows(2) {
                prop_assert!(two[0].latency < two[1].latency, "{:?}", found);
                prop_assert!(two[1].size.is_none_or(|size| Some(size) > two[0].size), "{:?}", found);
            }
        }
    }
}
