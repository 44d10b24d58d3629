//! What the device under the output took when it was measured alone, beside what it took in this run.
//!
//! Evidence, never a sign of guilt: which limit held is decided before, by what was seen in the run.

use weir_units::Rate;

use crate::evidence::{DiskAlone, Interval};
use crate::words::{percent, rate};

/// From this share of what it took alone on, a device is at its own ceiling: disks are measured to about a
/// tenth, and what a transfer writes is seldom as well in order as what a measurement does.
const CEILING: f64 = 0.8;

/// The line for the time in which the disk held, or paced, the writes. `name` is the device, `held` all of
/// that time together.
pub(crate) fn line(alone: &DiskAlone, name: &str, held: &Interval) -> Option<String> {
    let most = alone.write.filter(|most| most.is_finite() && *most > 0.0)?;
    let before = format!("{name} alone took {} (this host's calibration of {})", rate(most), alone.date);
    let Some(disk) = held.disk.value().filter(|_| !held.span.is_zero()) else { return Some(before) };
    let now = Rate::of(disk.written, held.span).0;
    let share = now / most;
    let so = if share < CEILING {
        "less than it can: what is written is scattered, something reads too, or it has become slower"
    } else {
        "its own ceiling"
    };
    // More than a hundred percent is told too: the calibration is then too low, or old.
    let share =
        if share > 1.0 { format!("{share:.1} times that") } else { format!("{} of it", percent(share)) };
    Some(format!("{before}, here {}, {share}: {so}", rate(now)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::evidence::{
        CpuInterval, DirtyInterval, DiskInterval, Evidence, Facts, LaneInterval, Reading, ThreadInterval,
    };
    use crate::limit::Limit;
    use crate::verdict::{MainLimit, explain};

    fn told(alone: Option<f64>, written: Option<u64>) -> Option<String> {
        let disk = match written {
            Some(written) => Reading::Value(DiskInterval { written, read: 0, busy: 1.0 }),
            None => Reading::default(),
        };
        let held = Interval { span: Duration::from_secs(2), disk, ..Interval::default() };
        let alone = DiskAlone { write: alone, read: None, date: "2026-11-22".into() };
        line(&alone, "vda", &held)
    }

    /// A second of lanes that are held by what blocks them.
    fn run(blocked: bool, alone: Option<DiskAlone>) -> Evidence {
        let ms = Duration::from_millis;
        let lane = match blocked {
            true => LaneInterval { write: ms(95), write_cpu: ms(2), ..LaneInterval::default() },
            false => LaneInterval { output_wait: ms(95), ..LaneInterval::default() },
        };
        let interval = |at: u32| Interval {
            at: f64::from(at) / 10.0,
            span: ms(100),
            received: 10_000_000,
            written: 10_000_000,
            lanes: vec![LaneInterval { thread: Reading::Value(ThreadInterval::default()), ..lane.clone() }],
            disk: Reading::Value(DiskInterval { written: 10_000_000, read: 0, busy: 0.98 }),
            cpu: Reading::Value(CpuInterval { busy: vec![0.1, 0.1], ..CpuInterval::default() }),
            dirty: Reading::Value(DirtyInterval {
                dirty: 1,
                threshold: 1 << 30,
                background: 1 << 29,
                device_limit: None,
            }),
            ..Interval::default()
        };
        let facts = Facts { disk: Some("vda".into()), disk_alone: alone, cpus: 2, ..Facts::default() };
        Evidence { intervals: (0..10).map(interval).collect(), facts, ..Evidence::default() }
    }

    #[test]
    fn it_is_told_where_the_disk_held_and_changes_no_verdict() {
        let alone = DiskAlone { write: Some(4e8), read: None, date: "2026-11-22".into() };
        let (with, without) = (explain(&run(true, Some(alone.clone()))), explain(&run(true, None)));
        assert_eq!(without.limit, Some(MainLimit::One(Limit::Disk)));
        assert_eq!(
            (with.limit, with.confidence, &with.shares),
            (without.limit, without.confidence, &without.shares)
        );
        let (line, rest) = with.evidence.split_last().unwrap();
        assert_eq!(rest, without.evidence);
        assert!(
            line.starts_with(
                "vda alone took 400 MB/s (this host's calibration of 2026-11-22), here 100 MB/s, 25 %"
            ),
            "{line}"
        );
        assert_eq!(
            (with.innocent, with.missing, with.advice),
            (without.innocent, without.missing, without.advice)
        );
        let other = explain(&run(false, Some(alone)));
        assert_eq!(other.limit, Some(MainLimit::One(Limit::Reader)));
        assert!(!other.evidence.iter().any(|line| line.contains("calibration")), "{:?}", other.evidence);
    }

    #[test]
    fn at_its_ceiling_slower_or_unknown() {
        let at = "vda alone took 400 MB/s (this host's calibration of 2026-11-22)";
        for (written, rest) in [
            (Some(760_000_000), ", here 380 MB/s, 95 % of it: its own ceiling"),
            (Some(1_200_000_000), ", here 600 MB/s, 1.5 times that: its own ceiling"),
            (
                Some(200_000_000),
                ", here 100 MB/s, 25 % of it: less than it can: what is written is scattered, something reads too, or it has become slower",
            ),
            (None, ""),
        ] {
            assert_eq!(told(Some(400e6), written), Some(format!("{at}{rest}")));
        }
        for nothing in [None, Some(0.0), Some(-1.0), Some(f64::NAN), Some(f64::INFINITY)] {
            assert_eq!(told(nothing, Some(1)), None, "{nothing:?}");
        }
    }
}
