//! What the device under the output took when it was measured alone, beside what it took in this run.
//!
//! Evidence, never a sign of guilt: which limit held is decided before, by what was seen in the run.

use weir_units::Rate;

use crate::evidence::{DiskAlone, Window};
use crate::words::{percent, rate};

/// From this share of what it took alone on, a device is at its own ceiling: disks are measured to about a tenth, and what a
/// transfer writes is seldom as well in order as what a measurement does.
const CEILING: f64 = 0.8;

/// The line for the time in which the disk held, or paced, the writes. `name` is the device, `held` all of that time together.
pub(crate) fn line(alone: &DiskAlone, name: &str, held: &Window) -> Option<String> {
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
    let share = if share > 1.0 { format!("{share:.1} times that") } else { format!("{} of it", percent(share)) };
    Some(format!("{before}, here {}, {share}: {so}", rate(now)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::evidence::{DiskWindow, Reading};

    fn told(alone: Option<f64>, written: Option<u64>) -> Option<String> {
        let disk = match written {
            Some(written) => Reading::Value(DiskWindow { written, read: 0, busy: 1.0 }),
            None => Reading::default(),
        };
        let held = Window { span: Duration::from_secs(2), disk, ..Window::default() };
        let alone = DiskAlone { write: alone, read: None, date: "2026-11-22".into() };
        line(&alone, "vda", &held)
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
