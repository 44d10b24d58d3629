//! What do the limits of dirty pages mean for a file of some size? Pure.
//!
//! Writers sleep in `balance_dirty_pages` once what waits is half way between the background threshold and the threshold
//! (mm/page-writeback.c, `dirty_freerun_ceiling`): of the machine, or with `strict_limit` of the device, whose
//! background is the same share of its limit as the machine's is of its own. Until the background threshold nothing need go
//! to the disk; from there on it takes part.

/// What may wait in memory, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// The machine's threshold; follows free memory.
    pub threshold: u64,
    /// Writing to the disk begins here.
    pub background: u64,
    /// The device's own limit, where it binds.
    pub device: Option<u64>,
}

impl Limits {
    /// The threshold and the background that hold for the device.
    fn held(&self) -> (f64, f64) {
        let (threshold, background) = (self.threshold as f64, self.background as f64);
        match self.device {
            Some(limit) if (limit as f64) < threshold => {
                let share = if threshold > 0.0 { background / threshold } else { 0.5 };
                (limit as f64, limit as f64 * share)
            }
            _ => (threshold, background),
        }
    }

    /// Bytes that may wait before writers are paced.
    pub fn pacing(&self) -> f64 {
        let (threshold, background) = self.held();
        (threshold + background) / 2.0
    }

    /// Bytes that are written before a writer is paced, when memory takes `memory` bytes a second and the disk `disk`; infinite when
    /// the disk keeps up.
    pub fn knee(&self, memory: f64, disk: f64) -> f64 {
        if memory <= disk {
            return f64::INFINITY;
        }
        let (_, background) = self.held();
        let alone = background.min(self.pacing());
        alone + (self.pacing() - alone) * memory / (memory - disk)
    }
}

/// What becomes of one file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// The file, bytes.
    pub bytes: u64,
    /// Bytes after which its writer is paced; `None` if that does not happen.
    pub paced_after: Option<f64>,
    /// Seconds until all is written, into memory at least.
    pub seconds: f64,
    /// Bytes a second over all.
    pub rate: f64,
}

/// A file of `bytes`, written as fast as it goes.
pub fn of(bytes: u64, limits: &Limits, memory: f64, disk: f64) -> Forecast {
    let size = bytes as f64;
    let knee = limits.knee(memory, disk).min(size);
    let paced_after = (knee < size).then_some(knee);
    let seconds = knee / memory.max(f64::MIN_POSITIVE) + (size - knee) / disk.max(f64::MIN_POSITIVE);
    Forecast { bytes, paced_after, seconds, rate: if seconds > 0.0 { size / seconds } else { 0.0 } }
}

/// Sizes that people know: from a small download to a backup.
pub const FILES: [u64; 5] = [100_000_000, 1_000_000_000, 2_000_000_000, 20_000_000_000, 100_000_000_000];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 24 GB of memory at the kernel's 20 % and 10 %.
    const MACHINE: Limits = Limits { threshold: 4_800_000_000, background: 2_400_000_000, device: None };

    #[test]
    fn a_small_download_fits_and_a_large_one_is_paced() {
        assert_eq!(MACHINE.pacing(), 3.6e9);
        // 2.4 GB alone, then 1.2 GB that grow at 1 - 0.2 GB/s.
        assert!((MACHINE.knee(1e9, 0.2e9) - (2.4e9 + 1.5e9)).abs() < 1.0);
        let small = of(2_000_000_000, &MACHINE, 1e9, 0.2e9);
        assert_eq!((small.paced_after, small.seconds), (None, 2.0));
        let large = of(20_000_000_000, &MACHINE, 1e9, 0.2e9);
        assert!((large.paced_after.unwrap() - 3.9e9).abs() < 1.0);
        assert!((large.seconds - (3.9 + 16.1 / 0.2)).abs() < 1e-6, "{large:?}");
    }

    #[test]
    fn a_devices_limit_holds_only_below_the_machines() {
        let strict = Limits { device: Some(32 << 20), ..MACHINE };
        assert_eq!(strict.pacing(), 0.75 * f64::from(32 << 20));
        let wide = Limits { device: Some(10_000_000_000), ..MACHINE };
        assert_eq!(wide.pacing(), MACHINE.pacing());
        assert_eq!(Limits::default().pacing(), 0.0);
    }

    #[test]
    fn a_disk_that_keeps_up_paces_nobody() {
        assert_eq!(of(u64::MAX, &MACHINE, 1e9, 1e9).paced_after, None);
    }

    proptest! {
        #[test]
        fn a_larger_file_takes_longer_and_no_file_beats_memory(
            sizes in proptest::collection::vec(1_u64..1 << 45, 2..20),
            memory in 1e7_f64..1e11,
            disk in 1e5_f64..1e11,
        ) {
            let mut sizes = sizes;
            sizes.sort_unstable();
            let all: Vec<Forecast> = sizes.iter().map(|bytes| of(*bytes, &MACHINE, memory, disk)).collect();
            prop_assert!(all.windows(2).all(|two| two[0].seconds <= two[1].seconds));
            for forecast in all {
                prop_assert!(forecast.rate <= memory * 1.000001, "{forecast:?}");
                prop_assert!(forecast.rate >= disk.min(memory) * 0.999999, "{forecast:?}");
            }
        }
    }
}
