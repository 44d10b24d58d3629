//! Where did writing into memory turn into writing at the disk's pace? Pure: the same curve has the same
//! knee.
//!
//! A file is written as fast as it goes, and each write's end gives a point: bytes so far, seconds so far.
//! Until too much waits in memory that is a steep line, then the kernel paces the writer, and it is a flat
//! one. Whether there is a knee, and the pace, is told by the two lines that fit the times best. Where it is,
//! by a line a little steeper than the pace that is lowered onto the curve: it touches the point from which
//! on the writer never again gets ahead of the pace for long. A wait before that is no knee, if what is
//! written into memory after it outweighs it: the kernel lets writers wait early where a device's share of
//! the limit has yet to grow (mm/page-writeback.c, `__wb_calc_thresh`), and a machine may have to find its
//! memory first.

/// A point of the curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Bytes so far.
    pub bytes: f64,
    /// Seconds so far.
    pub seconds: f64,
}

/// The bend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knee {
    /// Bytes that were written until then.
    pub bytes: f64,
    /// Seconds until then.
    pub seconds: f64,
    /// Bytes a second before.
    pub before: f64,
    /// Bytes a second after.
    pub after: f64,
}

/// After a knee writes are slower by this factor at least, and stay so: what memory takes differs by less
/// from one moment to the next, and so does what a disk takes.
const SLOWER: f64 = 1.5;

/// A knee has this share of the time after it at least: a last write that waited is none.
const LASTING: f64 = 0.2;

/// Points that are looked at: more of them move no bend.
const MOST: usize = 2000;

/// The knee of a curve; `None` where there is none.
pub fn find(points: &[Point]) -> Option<Knee> {
    let thin = points.len().div_ceil(MOST).max(1);
    let points: Vec<Point> = points.iter().copied().step_by(thin).collect();
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < 8 || last.seconds <= first.seconds {
        return None;
    }
    // Each point as the bend: the lines through it that fit the times on either side.
    let bend = |at: &usize| {
        let (bend, before, after) = (points[*at], &points[..=*at], &points[*at..]);
        let (up, error) = through(bend, before);
        let (flat, more) = through(bend, after);
        (error + more, up, flat)
    };
    let tried = (2..points.len() - 2).map(|at| (at, bend(&at)));
    let (at, (_, up, flat)) = tried.min_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let lasts = |at: usize| last.seconds - points[at].seconds >= LASTING * (last.seconds - first.seconds);
    if up <= 0.0 || flat <= SLOWER * up || !lasts(at) {
        return None;
    }
    let at = last_ahead(&points, SLOWER / flat)?;
    if !lasts(at) {
        return None;
    }
    let (knee, before, after) = (points[at], &points[..=at], &points[at..]);
    let (up, flat) = (through(knee, before).0, slope(after));
    let (bytes, seconds) = (knee.bytes, knee.seconds);
    (up > 0.0 && flat > SLOWER * up).then(|| Knee { bytes, seconds, before: 1.0 / up, after: 1.0 / flat })
}

/// The point from which on no later one is reached at `rate` bytes a second or more: the first that lies
/// highest above a line of that slope. Waits end in bursts that catch up, so points are compared with the
/// beginning of a wait, not its end.
fn last_ahead(points: &[Point], rate: f64) -> Option<usize> {
    let ahead = points.iter().map(|point| point.bytes - rate * point.seconds).enumerate();
    // `max_by` would take the last of equals.
    ahead.rev().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
}

/// Seconds a byte of the line through `bend` that fits the points best, and its squared error.
fn through(bend: Point, points: &[Point]) -> (f64, f64) {
    let offsets = || points.iter().map(|point| (point.bytes - bend.bytes, point.seconds - bend.seconds));
    let (cross, square) = offsets().fold((0.0, 0.0), |(cross, square), (bytes, seconds)| {
        (cross + bytes * seconds, square + bytes * bytes)
    });
    let slope = if square > 0.0 { cross / square } else { 0.0 };
    (slope, offsets().map(|(bytes, seconds)| (seconds - slope * bytes).powi(2)).sum())
}

/// Seconds a byte of the line that fits the points best, wherever it starts: the kernel's first wait is often
/// longer than those of the pace (it makes up for what was written until then), and a line held to the knee
/// would take it for slowness.
fn slope(points: &[Point]) -> f64 {
    let count = points.len() as f64;
    let (bytes, seconds) = points
        .iter()
        .fold((0.0, 0.0), |sum, point| (sum.0 + point.bytes / count, sum.1 + point.seconds / count));
    let (cross, square) = points.iter().fold((0.0, 0.0), |(cross, square), point| {
        let (x, y) = (point.bytes - bytes, point.seconds - seconds);
        (cross + x * y, square + x * x)
    });
    if square > 0.0 { cross / square } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes of a quarter of a megabyte: `knee` bytes at one rate, then another; each write is late by a
    /// share.
    fn curve(knee: f64, before: f64, after: f64, bytes: f64, late: impl Fn(usize) -> f64) -> Vec<Point> {
        let mut points = vec![Point { bytes: 0.0, seconds: 0.0 }];
        let mut seconds = 0.0;
        let mut written = 0.0;
        while written < bytes {
            written += 262_144.0;
            seconds += 262_144.0 / if written <= knee { before } else { after } * late(points.len());
            points.push(Point { bytes: written, seconds });
        }
        points
    }

    #[test]
    fn memory_first_then_the_disk() {
        let knee = find(&curve(25e6, 1e9, 30e6, 150e6, |_| 1.0)).unwrap();
        assert!((knee.bytes / 25e6 - 1.0).abs() < 0.02, "{knee:?}");
        assert!((knee.before / 1e9 - 1.0).abs() < 0.05 && (knee.after / 30e6 - 1.0).abs() < 0.05, "{knee:?}");
    }

    /// As the kernel does it: a wait of 200 ms, then writes at memory's speed until the pace is met.
    #[test]
    fn the_knee_is_before_the_first_wait_of_the_pace() {
        for knee in [13e6, 50.4e6, 100e6] {
            let late = |at: usize| {
                let paced = (at as f64 * 262_144.0 - knee) / 262_144.0;
                // 30 MB/s: of 23 writes the first waits for all.
                if paced >= 0.0 && (paced as usize).is_multiple_of(23) { 22.0 } else { 0.02 }
            };
            let mut points = curve(knee, 1e9, 30e6, 4.0 * knee, late);
            // One write in memory that something else held up for 60 ms.
            if knee > 40e6 {
                points.iter_mut().skip(20).for_each(|point| point.seconds += 0.06);
            }
            let found = find(&points).unwrap();
            assert!((found.bytes / knee - 1.0).abs() < 0.03, "{found:?} for {knee}");
            assert!((found.after / 30e6 - 1.0).abs() < 0.15, "{found:?}");
        }
    }

    /// Writes of a quarter of a megabyte at `memory`, and before each of these places a wait of so many
    /// seconds.
    fn waits(memory: f64, waits: &[(f64, f64)], bytes: f64) -> Vec<Point> {
        let late =
            |written: f64| waits.iter().filter(|wait| wait.0 < written).map(|wait| wait.1).sum::<f64>();
        let at = |written: f64| Point { bytes: written, seconds: written / memory + late(written) };
        (0..)
            .map(|index| f64::from(index) * 262_144.0)
            .take_while(|written| *written <= bytes)
            .map(at)
            .collect()
    }

    /// What Linux 6.18 did with a device of 30 MB/s and a limit of 66 MB of its own that had not written for
    /// a while: its threshold was 43 MB at first (a hundredth of the machine's), and writers waited from
    /// three quarters of that on; by the time they went on it was the limit.
    #[test]
    fn a_limit_that_grows_has_its_knee_where_it_has_grown() {
        let seen = [
            (32.8e6, 0.193),
            (33.0e6, 0.197),
            (59.5e6, 0.201),
            (63.7e6, 0.202),
            (72.1e6, 0.204),
            (72.4e6, 0.205),
            (84.7e6, 0.201),
            (88.9e6, 0.202),
            (91.0e6, 0.408),
            (109.8e6, 0.203),
            (114.0e6, 0.204),
            (122.4e6, 0.203),
            (130.8e6, 0.202),
            (139.2e6, 0.204),
            (139.5e6, 0.204),
        ];
        let found = find(&waits(3e9, &seen, 147e6)).unwrap();
        assert!((found.bytes / 59.5e6 - 1.0).abs() < 0.01, "{found:?}");
        assert!((found.after / 30e6 - 1.0).abs() < 0.10, "{found:?}");
    }

    /// The pace is that of the waits that come again and again, not of a first one that makes up for what was
    /// written before.
    #[test]
    fn a_long_first_wait_is_no_part_of_the_pace() {
        let mut seen = vec![(40e6, 0.6)];
        seen.extend((1..16).map(|index| (40e6 + 4e6 * f64::from(index), 0.2)));
        let found = find(&waits(3e9, &seen, 100e6)).unwrap();
        assert!((found.bytes / 40e6 - 1.0).abs() < 0.02, "{found:?}");
        assert!((found.after / 20e6 - 1.0).abs() < 0.05, "{found:?}");
    }

    /// The same kernel and 20 MB/s with a limit of 16.7 MB, less than that hundredth.
    #[test]
    fn a_limit_that_need_not_grow_has_its_knee_at_three_quarters() {
        let mut seen = vec![(12.58e6, 0.062), (12.85e6, 0.4), (20.97e6, 0.189)];
        seen.extend((0..12).map(|index| (25.17e6 + 4.19e6 * f64::from(index), 0.205)));
        let found = find(&waits(3e9, &seen, 75e6)).unwrap();
        assert!((found.bytes / 12.58e6 - 1.0).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn without_a_bend_there_is_no_knee() {
        assert_eq!(find(&curve(1e12, 1e9, 1e9, 500e6, |_| 1.0)), None);
        // One write that waits for long is no pace.
        assert_eq!(find(&curve(1e12, 1e9, 1e9, 500e6, |at| if at == 700 { 50.0 } else { 1.0 })), None);
        assert_eq!(find(&[]), None);
        let still = [Point { bytes: 0.0, seconds: 0.0 }; 20];
        assert_eq!(find(&still), None);
    }

    proptest! {
        /// From 128 writes before the knee on: times that differ by half from write to write let a paced
        /// writer get ahead of the pace for 12 writes once in 30,000 times (four deviations), which is a
        /// tenth of them.
        #[test]
        fn knees_are_found(
            knee in 34e6_f64..400e6,
            before in 300e6_f64..3e9,
            slower in 3.0_f64..50.0,
            longer in 1.0_f64..3.0,
            seed in any::<u64>(),
        ) {
            let late = |at: usize| {
                let drawn = crate::mem::random::mixed(seed.wrapping_add(at as u64)) >> 11;
                // Paced writes come in bursts: most at once, some wait for several.
                0.5 + drawn as f64 / (1_u64 << 53) as f64
            };
            let after = before / slower;
            let found = find(&curve(knee, before, after, knee * (1.0 + longer), late));
            let found = found.expect("a knee");
            prop_assert!((found.bytes / knee - 1.0).abs() < 0.10, "{found:?}");
            prop_assert!((found.after / after - 1.0).abs() < 0.15, "{found:?}");
        }

        /// Paced in waits of 200 ms as the kernel does it; before, waits of all lengths that are made good
        /// for in memory.
        #[test]
        fn waits_before_the_knee_are_none(
            knee in 20e6_f64..200e6,
            pace in 10e6_f64..60e6,
            stalls in proptest::collection::vec((0.0_f64..0.6, 0.0_f64..1.0), 0..5),
        ) {
            // After a stall at least twice as much is written at once as the pace would have given in its
            // time; stalls share the first half of the way.
            let longest = knee / 2.0 / (2.0 * SLOWER * pace) / stalls.len().max(1) as f64;
            let mut all: Vec<(f64, f64)> =
                stalls.iter().map(|(place, length)| (place * knee / 1.2, length * longest)).collect();
            let wait = 0.2;
            let burst = pace * wait;
            all.extend((0..20).map(|index| (knee + burst * f64::from(index), wait)));
            let found = find(&waits(2e9, &all, knee + 20.0 * burst)).expect("a knee");
            prop_assert!((found.bytes - knee).abs() <= 0.03 * knee, "{found:?} for {knee}: {all:?}");
            prop_assert!((found.after / pace - 1.0).abs() < 0.25, "{found:?} for {pace}");
        }

        #[test]
        fn any_curve_is_survived(steps in proptest::collection::vec((0.0_f64..1e7, 0.0_f64..2.0), 0..60)) {
            let points: Vec<Point> = steps.iter().scan((0.0, 0.0), |sum, step| {
                *sum = (sum.0 + step.0, sum.1 + step.1);
                Some(Point { bytes: sum.0, seconds: sum.1 })
            }).collect();
            if let Some(knee) = find(&points) {
                prop_assert!(knee.after < knee.before && knee.seconds >= 0.0, "{knee:?}");
            }
        }
    }
}
