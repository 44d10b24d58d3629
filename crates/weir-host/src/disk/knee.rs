//! Where did writing into memory turn into writing at the disk's pace? Pure: the same curve has the same knee.
//!
//! A file is written as fast as it goes, and each write's end gives a point: bytes so far, seconds so far. Until
//! too much waits in memory that is a steep line, then the kernel paces the writer, and it is a flat one. Whether there is
//! a knee is told by the two lines that fit the time best. Where it is: before the first write that the kernel let wait. It
//! lets a writer go on for a while after each wait, so that the lines meet somewhat early; where no write waits
//! for long, their meeting is the knee.

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

/// After a knee writes are slower by this factor at least: what memory takes differs by less from one moment to the next.
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
    let seconds = points[at].seconds;
    let lasting = last.seconds - seconds >= LASTING * (last.seconds - first.seconds);
    if up <= 0.0 || flat <= SLOWER * up || !lasting {
        return None;
    }
    let at = first_wait(&points, at, flat).unwrap_or(at);
    let (knee, before, after) = (points[at], &points[..=at], &points[at..]);
    let (up, flat) = (through(knee, before).0, through(knee, after).0);
    let (bytes, seconds) = (knee.bytes, knee.seconds);
    (up > 0.0 && flat > SLOWER * up).then(|| Knee { bytes, seconds, before: 1.0 / up, after: 1.0 / flat })
}

/// A write waits when it takes so many times what the pace gives it: what is caught up on in one wait.
const WAIT: f64 = 4.0;

/// A wait is the kernel's when writes keep to the pace, or at most to twice of it, for so many times its length: one that
/// has another reason is followed by writes into memory.
const KEPT: f64 = 10.0;
const PACE: f64 = 2.0;

/// The point before the first wait, from the bend on, of a writer that is paced to `flat` seconds a byte.
fn first_wait(points: &[Point], bend: usize, flat: f64) -> Option<usize> {
    let last = points.last()?;
    (bend + 1..points.len() - 2)
        .find(|&at| {
            let (before, after) = (points[at - 1], points[at]);
            let wait = after.seconds - before.seconds;
            let end = before.seconds + KEPT * wait;
            let then = points[at..].iter().find(|point| point.seconds >= end).unwrap_or(last);
            wait >= WAIT * flat * (after.bytes - before.bytes)
                && (then.bytes - before.bytes) * flat <= PACE * (then.seconds - before.seconds)
        })
        .map(|at| at - 1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes of a quarter of a megabyte: `knee` bytes at one rate, then another; each write is late by a share.
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
    fn the_knee_is_before_the_first_wait() {
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
        #[test]
        fn knees_are_found(
            knee in 8e6_f64..400e6,
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
