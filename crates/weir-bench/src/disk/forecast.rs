//! What becomes of a file of some size that is written as fast as it goes? Pure.
//!
//! Where its writer is paced was seen, or no write was paced as far as was written; then the limits of dirty
//! pages say where it would be. Writers sleep in `balance_dirty_pages` once what waits is half way between
//! the background threshold and the threshold (mm/page-writeback.c, `dirty_freerun_ceiling`): of the machine,
//! or with `strict_limit` of the device, whose background is the same share of its limit as the machine's is
//! of its own; and of a memory group, which of version 2 has thresholds of its own, and of version 1 holds
//! its writers when its memory is full. Until the background threshold nothing need go to the disk; from
//! there on it takes part.

use weir_observe::dirty::GroupLimit;

/// What may wait in memory, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// The machine's threshold; follows free memory.
    pub threshold: u64,
    /// Writing to the disk begins here.
    pub background: u64,
    /// The device's own limit, where it binds.
    pub device: Option<u64>,
    /// The tightest memory group of this process, where one has a limit.
    pub group: Option<GroupLimit>,
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

    /// Bytes that may wait before the machine or the device paces writers.
    fn pacing_outside(&self) -> f64 {
        let (threshold, background) = self.held();
        (threshold + background) / 2.0
    }

    /// Bytes that may wait before writers are paced.
    pub fn pacing(&self) -> f64 {
        self.group.map_or(f64::INFINITY, |group| group.pacing as f64).min(self.pacing_outside())
    }

    /// The group is what paces.
    pub fn is_of_group(&self) -> bool {
        self.group.is_some_and(|group| (group.pacing as f64) < self.pacing_outside())
    }

    /// Bytes that are written before a writer is paced, when memory takes `memory` bytes a second and the
    /// disk `disk`; infinite when the disk keeps up.
    pub fn knee(&self, memory: f64, disk: f64) -> f64 {
        if memory <= disk {
            return f64::INFINITY;
        }
        let knee = |background: f64, pacing: f64| {
            let alone = background.min(pacing);
            alone + (pacing - alone) * memory / (memory - disk)
        };
        let group =
            self.group.map_or(f64::INFINITY, |group| knee(group.background as f64, group.pacing as f64));
        group.min(knee(self.held().1, self.pacing_outside()))
    }
}

/// What a forecast rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grounds {
    /// Where writes were paced when it was measured.
    pub seen: SeenKnee,
    /// What may wait in memory, where that is known.
    pub limits: Option<Limits>,
    /// Bytes a second that memory takes.
    pub memory: f64,
    /// Bytes a second that the disk takes.
    pub disk: f64,
    /// Bytes that are free on it.
    pub free: u64,
}

/// What was seen of a knee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SeenKnee {
    /// Writes were paced after so many bytes.
    Paced(f64),
    /// They were not, as far as was written: so many bytes.
    Free(u64),
}

impl Grounds {
    /// Bytes after which a writer is paced: as was seen; else as the limits say, but for what was written
    /// without.
    pub fn knee(&self) -> f64 {
        match self.seen {
            SeenKnee::Paced(bytes) => bytes,
            SeenKnee::Free(bytes) => {
                let expected =
                    self.limits.map_or(f64::INFINITY, |limits| limits.knee(self.memory, self.disk));
                expected.max(bytes as f64)
            }
        }
    }
}

/// What becomes of one file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// The file, bytes.
    pub bytes: u64,
    /// Bytes after which its writer is paced; `None` if that does not happen.
    pub paced_after: Option<f64>,
    /// Bytes after which the disk is full; `None` where it has room.
    pub full_after: Option<u64>,
    /// Seconds until all is written, into memory at least; or the disk is full.
    pub seconds: f64,
    /// Bytes a second over all of that.
    pub rate: f64,
}

/// A file of `bytes`, written as fast as it goes.
pub fn of(bytes: u64, grounds: &Grounds) -> Forecast {
    let full_after = (bytes > grounds.free).then_some(grounds.free);
    let size = full_after.unwrap_or(bytes) as f64;
    let knee = grounds.knee().min(size);
    let paced_after = (knee < size).then_some(knee);
    let rate = |rate: f64| rate.max(f64::MIN_POSITIVE);
    let seconds = knee / rate(grounds.memory) + (size - knee) / rate(grounds.disk);
    let rate = if seconds > 0.0 { size / seconds } else { 0.0 };
    Forecast { bytes, paced_after, full_after, seconds, rate }
}

/// Sizes that people know: from a small download to a backup.
pub const FILES: [u64; 5] = [100_000_000, 1_000_000_000, 2_000_000_000, 20_000_000_000, 100_000_000_000];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 24 GB of memory at the kernel's 20 % and 10 %.
    const MACHINE: Limits =
        Limits { threshold: 4_800_000_000, background: 2_400_000_000, device: None, group: None };

    /// No knee was seen, memory takes 1 GB/s, and there is room for anything.
    fn grounds(disk: f64) -> Grounds {
        Grounds { seen: SeenKnee::Free(0), limits: Some(MACHINE), memory: 1e9, disk, free: u64::MAX }
    }

    #[test]
    fn a_small_download_fits_and_a_large_one_is_paced() {
        assert_eq!(MACHINE.pacing(), 3.6e9);
        // 2.4 GB alone, then 1.2 GB that grow at 1 - 0.2 GB/s.
        assert!((MACHINE.knee(1e9, 0.2e9) - (2.4e9 + 1.5e9)).abs() < 1.0);
        let small = of(2_000_000_000, &grounds(0.2e9));
        assert_eq!((small.paced_after, small.full_after, small.seconds), (None, None, 2.0));
        let large = of(20_000_000_000, &grounds(0.2e9));
        assert!((large.paced_after.unwrap() - 3.9e9).abs() < 1.0);
        assert!((large.seconds - (3.9 + 16.1 / 0.2)).abs() < 1e-6, "{large:?}");
    }

    #[test]
    fn a_knee_that_was_seen_counts_whatever_the_limits_say() {
        let seen = Grounds { seen: SeenKnee::Paced(0.3e9), ..grounds(0.2e9) };
        let file = of(1_000_000_000, &seen);
        assert_eq!(file.paced_after, Some(0.3e9));
        assert!((file.seconds - (0.3 + 0.7 / 0.2)).abs() < 1e-6, "{file:?}");
        assert_eq!(of(200_000_000, &seen).paced_after, None);
        // Also where no limit could be read.
        assert_eq!(of(1_000_000_000, &Grounds { limits: None, ..seen }), file);
    }

    #[test]
    fn what_was_written_without_a_knee_fits() {
        let low = Limits { threshold: 200_000_000, background: 100_000_000, ..MACHINE };
        let written = Grounds { seen: SeenKnee::Free(1_000_000_000), limits: Some(low), ..grounds(0.2e9) };
        assert_eq!(of(1_000_000_000, &written).paced_after, None);
        assert_eq!(of(2_000_000_000, &written).paced_after, Some(1e9));
        assert_eq!(of(u64::MAX, &Grounds { limits: None, ..written }).paced_after, None);
    }

    #[test]
    fn a_memory_group_paces_before_the_machine() {
        // 500 MB that it could fill, by the kernel's shares of 20 % and 10 %.
        let second = GroupLimit::with_thresholds(512 << 20, 500_000_000, (0.2, 0.1));
        let limits = Limits { group: Some(second), ..MACHINE };
        assert!(limits.is_of_group() && limits.pacing() == 75e6);
        assert!((limits.knee(1e9, 0.2e9) - (50e6 + 25e6 / 0.8)).abs() < 1.0);
        // Version 1: all of it, and the machine's background is farther off than that.
        let first = GroupLimit::without_thresholds(512 << 20, 500_000_000, MACHINE.background);
        assert_eq!(Limits { group: Some(first), ..MACHINE }.knee(1e9, 0.2e9), 500e6);
        // A group that may have more than the machine lets wait changes nothing.
        let wide = GroupLimit::without_thresholds(64 << 30, 32 << 30, MACHINE.background);
        let limits = Limits { group: Some(wide), ..MACHINE };
        assert!(!limits.is_of_group());
        assert_eq!((limits.pacing(), limits.knee(1e9, 0.2e9)), (MACHINE.pacing(), MACHINE.knee(1e9, 0.2e9)));
    }

    #[test]
    fn a_file_is_written_until_the_disk_is_full() {
        let small = Grounds { seen: SeenKnee::Paced(0.1e9), free: 500_000_000, ..grounds(0.2e9) };
        let file = of(1_000_000_000, &small);
        assert_eq!((file.full_after, file.paced_after), (Some(500_000_000), Some(0.1e9)));
        assert!((file.seconds - (0.1 + 0.4 / 0.2)).abs() < 1e-6, "{file:?}");
        assert_eq!(of(500_000_000, &small).full_after, None);
        let none = of(1, &Grounds { free: 0, ..small });
        assert_eq!((none.full_after, none.seconds, none.rate), (Some(0), 0.0, 0.0));
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
        assert_eq!(of(u64::MAX, &grounds(1e9)).paced_after, None);
    }

    proptest! {
        #[test]
        fn a_larger_file_takes_longer_and_no_file_beats_memory(
            sizes in proptest::collection::vec(1_u64..1 << 45, 2..20),
            memory in 1e7_f64..1e11,
            disk in 1e5_f64..1e11,
            seen in 0_u64..1 << 33,
            free in 1_u64..1 << 45,
        ) {
            let mut sizes = sizes;
            sizes.sort_unstable();
            let grounds = Grounds { seen: SeenKnee::Free(seen), memory, disk, free, ..grounds(disk) };
            let all: Vec<Forecast> = sizes.iter().map(|bytes| of(*bytes, &grounds)).collect();
            prop_assert!(all.windows(2).all(|two| two[0].seconds <= two[1].seconds));
            for forecast in all {
                prop_assert!(forecast.rate <= memory * 1.000001, "{forecast:?}");
                prop_assert!(forecast.rate >= disk.min(memory) * 0.999999, "{forecast:?}");
            }
        }
    }
}
