//! How near is the page cache to the point where writers are paced to the disk?
//!
//! From half way between the background threshold and the threshold the kernel makes writers sleep in
//! `balance_dirty_pages` (mm/page-writeback.c). Two limits can hold: the global one, in `/proc/vmstat`, and
//! with `strict_limit` set a device's own. Not seen: the threshold of a memory cgroup, which no file shows
//! ([`GroupLimit`] says where it must be).

use weir_model::evidence::DirtyInterval;

use crate::disk::Device;
use crate::error::{Malformed, ObserveError};
use crate::memory;
use crate::proc_file::{ProcFile, number, read_once};

/// The page cache's dirty state, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vmstat {
    /// Written by someone, not yet on its way to a disk (`nr_dirty`).
    pub dirty: u64,
    /// On its way (`nr_writeback`).
    pub writeback: u64,
    /// Writers are held below this (`nr_dirty_threshold`); follows the free memory.
    pub threshold: u64,
    /// Writeback begins here (`nr_dirty_background_threshold`).
    pub background: u64,
}

/// Picks the four counts out of `/proc/vmstat`, which counts pages of `page_size` bytes.
pub fn parse(text: &str, page_size: u64) -> Result<Vmstat, Malformed> {
    const NAMES: [&str; 4] =
        ["nr_dirty", "nr_writeback", "nr_dirty_threshold", "nr_dirty_background_threshold"];
    let mut found = [None; 4];
    for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
        if let Some(at) = NAMES.iter().position(|&wanted| wanted == name) {
            found[at] = Some(value);
        }
    }
    let bytes = |at: usize| number(NAMES[at], found[at]).map(|pages| pages.saturating_mul(page_size));
    Ok(Vmstat { dirty: bytes(0)?, writeback: bytes(1)?, threshold: bytes(2)?, background: bytes(3)? })
}

/// `/proc/vmstat`, kept open.
#[derive(Debug)]
pub struct VmstatReader(ProcFile);

impl VmstatReader {
    /// Fails where `/proc` is not mounted.
    pub fn open() -> Result<VmstatReader, ObserveError> {
        ProcFile::open("/proc/vmstat").map(VmstatReader)
    }

    /// The state now.
    pub fn read(&mut self) -> Result<Vmstat, ObserveError> {
        self.0.read(|text| parse(text, rustix::param::page_size() as u64))
    }
}

/// `vm.dirty_ratio` and `vm.dirty_background_ratio` as shares of the memory that dirty pages could fill;
/// `None` where one of them is set in bytes, or cannot be read.
fn ratios() -> Option<(f64, f64)> {
    let share = |name: &str| {
        let percent =
            read_once(&format!("/proc/sys/vm/{name}"), |text| number("percent", Some(text))).ok()?;
        (1..=100).contains(&percent).then_some(percent as f64 / 100.0)
    };
    Some((share("dirty_ratio")?, share("dirty_background_ratio")?))
}

/// Where a memory group paces its writers, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupLimit {
    /// The memory that it may have.
    pub limit: u64,
    /// Writing to the disk begins once so much of its own waits.
    pub background: u64,
    /// Its writers are paced from here on.
    pub pacing: u64,
}

impl GroupLimit {
    /// Of version 2: shares of what the group could still fill with dirty pages, as the machine's thresholds
    /// are shares of what it could (`domain_dirty_limits` of a memory group's domain).
    pub fn with_thresholds(limit: u64, available: u64, (threshold, background): (f64, f64)) -> GroupLimit {
        let of = |share: f64| (available as f64 * share.clamp(0.0, 1.0)) as u64;
        GroupLimit { limit, background: of(background), pacing: of((threshold + background) / 2.0) }
    }

    /// Of version 1, which knows no thresholds of a group: all that it could still have fills up, then its
    /// writers wait for memory (mm/vmscan.c), and the disk begins where the machine lets it.
    pub fn without_thresholds(limit: u64, available: u64, machine_background: u64) -> GroupLimit {
        GroupLimit { limit, background: machine_background.min(available), pacing: available }
    }

    /// Of the tightest group of this process; `None` where none has a limit. `machine`: its state now.
    pub fn read(machine: &Vmstat) -> Option<GroupLimit> {
        let memory::Group { limit, available, has_thresholds } = memory::tightest_group()?;
        if !has_thresholds {
            return Some(GroupLimit::without_thresholds(limit, available, machine.background));
        }
        let of_machine = || {
            let available = memory::machine().ok()?.available.max(1) as f64;
            Some((machine.threshold as f64 / available, machine.background as f64 / available))
        };
        // As the kernel has them where nothing can be read.
        let shares = ratios().or_else(of_machine).unwrap_or((0.2, 0.1));
        Some(GroupLimit::with_thresholds(limit, available, shares))
    }
}

/// One device's own limit, `/sys/class/bdi/MAJ:MIN/{strict_limit,max_bytes}` (Linux 6.2), kept open.
#[derive(Debug)]
pub struct DeviceLimit {
    strict: ProcFile,
    max: ProcFile,
}

impl DeviceLimit {
    /// Finds the limits of the device that `device` writes to. A partition shares those of its whole disk; a
    /// network or FUSE file system has its own under its `st_dev`.
    pub fn open(device: Device) -> Result<DeviceLimit, ObserveError> {
        let own = format!("/sys/class/bdi/{device}");
        let folder = if std::path::Path::new(&own).exists() {
            own
        } else {
            // A partition's folder in /sys lies in that of its disk.
            let disk =
                read_once(&format!("/sys/dev/block/{device}/../dev"), |text| Ok(text.trim().to_owned()))
                    .map_err(|_| ObserveError::Absent(format!("no writeback limits of device {device}")))?;
            format!("/sys/class/bdi/{disk}")
        };
        Ok(DeviceLimit {
            strict: ProcFile::open(format!("{folder}/strict_limit"))?,
            max: ProcFile::open(format!("{folder}/max_bytes"))?,
        })
    }

    /// Bytes that may be dirty for this device; `None` where only the global threshold holds.
    pub fn read(&mut self) -> Result<Option<u64>, ObserveError> {
        let strict = self.strict.read(|text| Ok(text.to_owned()))?;
        self.max.read(|max| parse_limit(&strict, max))
    }
}

/// `max_bytes` binds by itself only when `strict_limit` is 1. It is a share of the global threshold that the
/// kernel turns into bytes (bdi_get_max_bytes), so it moves with that and seldom is the exact number once
/// written there.
pub fn parse_limit(strict_limit: &str, max_bytes: &str) -> Result<Option<u64>, Malformed> {
    match number("strict_limit", Some(strict_limit))? {
        0 => Ok(None),
        _ => number("max_bytes", Some(max_bytes)).map(Some),
    }
}

/// The dirty state as the model takes it: global counts, and the limit of the device that holds the output.
#[derive(Debug)]
pub struct DirtyReader {
    vmstat: VmstatReader,
    device: Option<DeviceLimit>,
}

impl DirtyReader {
    /// `device`: where the output lies, as its `st_dev` says; `None` leaves the global threshold alone.
    pub fn open(device: Option<Device>) -> Result<DirtyReader, ObserveError> {
        // Before Linux 6.2 and on file systems without a bdi of that name there is no such limit to read, or
        // no way to: the global counts are still worth having.
        let device = device.and_then(|device| DeviceLimit::open(device).ok());
        Ok(DirtyReader { vmstat: VmstatReader::open()?, device })
    }

    /// The state now.
    pub fn read(&mut self) -> Result<DirtyInterval, ObserveError> {
        let now = self.vmstat.read()?;
        let device_limit = self.device.as_mut().and_then(|device| device.read().ok().flatten());
        Ok(DirtyInterval {
            dirty: now.dirty.saturating_add(now.writeback),
            threshold: now.threshold,
            background: now.background,
            device_limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTURED: &str = include_str!("../tests/data/6.18/vmstat");

    #[test]
    fn a_group_paces_by_shares_or_when_it_is_full() {
        // 500 MB that it could fill, by the kernel's shares of 20 % and 10 %.
        let second = GroupLimit::with_thresholds(512 << 20, 500_000_000, (0.2, 0.1));
        let expected = GroupLimit { limit: 512 << 20, background: 50_000_000, pacing: 75_000_000 };
        assert_eq!(second, expected);
        let first = GroupLimit::without_thresholds(512 << 20, 500_000_000, 2_400_000_000);
        let expected = GroupLimit { background: 500_000_000, pacing: 500_000_000, ..second };
        assert_eq!(first, expected);
    }

    #[test]
    fn captured_vmstat_is_told_in_bytes() {
        let vmstat = parse(CAPTURED, 4096).unwrap();
        let pages = |name: &str| {
            let line = CAPTURED.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
            line.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
        };
        assert_eq!(vmstat.dirty, pages("nr_dirty") * 4096);
        assert_eq!(vmstat.writeback, pages("nr_writeback") * 4096);
        assert_eq!(vmstat.threshold, pages("nr_dirty_threshold") * 4096);
        assert_eq!(vmstat.background, pages("nr_dirty_background_threshold") * 4096);
        assert!(vmstat.background < vmstat.threshold);
    }

    #[test]
    fn what_is_missing_is_named() {
        let without = CAPTURED.replace("nr_dirty_threshold", "nr_other");
        assert_eq!(parse(&without, 4096), Err(Malformed("no nr_dirty_threshold".into())));
        assert_eq!(parse("", 4096), Err(Malformed("no nr_dirty".into())));
        let odd = "nr_dirty many\nnr_writeback 0\nnr_dirty_threshold 1\nnr_dirty_background_threshold 1\n";
        assert_eq!(parse(odd, 4096), Err(Malformed("nr_dirty is 'many', not a number".into())));
    }

    #[test]
    fn a_device_limit_binds_only_when_strict() {
        assert_eq!(parse_limit("0\n", "4888592384\n"), Ok(None));
        assert_eq!(parse_limit("1\n", "16777216\n"), Ok(Some(16 << 20)));
        assert!(parse_limit("", "16777216\n").is_err());
        assert!(parse_limit("1\n", "all\n").is_err());
    }

    #[test]
    fn this_machine_has_a_dirty_state() {
        let mut reader = DirtyReader::open(Some(Device { major: 0, minor: 9999 })).unwrap();
        let now = reader.read().unwrap();
        assert!(now.background < now.threshold, "{now:?}");
        assert_eq!(now.device_limit, None);
    }
}
