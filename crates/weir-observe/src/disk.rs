//! Which block device holds a path, and what did that device do?
//!
//! A device that stands on another (a loop device, a logical volume) is reported as it is; the one below
//! carries the same bytes again under its own name.

use std::fmt;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FileType, major, minor, statfs};
use weir_model::evidence::DiskInterval;

use crate::error::{Malformed, ObserveError};
use crate::proc_file::{ProcFile, number};
use crate::process::{self, Pid};

/// A sector in `/proc/diskstats` has 512 bytes, whatever the device's own are (Documentation/block/stat.rst).
const SECTOR: u64 = 512;

/// A device number, printed `254:0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// The driver's number; 0 stands for no block device at all.
    pub major: u32,
    /// The device's number within the driver.
    pub minor: u32,
}

impl Device {
    fn from_raw(device: u64) -> Device {
        Device { major: major(device), minor: minor(device) }
    }

    /// Itself where it holds `path` alone; else an error with what the file system is.
    fn if_block(
        self,
        path: &Path,
        kind: impl FnOnce() -> Option<&'static str>,
    ) -> Result<Device, ObserveError> {
        if self.major != 0 {
            return Ok(self);
        }
        let (path, kind) = (path.display(), kind().unwrap_or("a file system"));
        Err(ObserveError::Absent(format!("no block device of its own holds {path}: it is on {kind}")))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// The device number of the file system that holds `path`, or of the folder it will be created in; a block
/// device stands for itself. Major 0 on a file system without one block device: btrfs, overlay, tmpfs, NFS.
pub fn device_number(path: &Path) -> Result<Device, ObserveError> {
    let (_, metadata) = nearest(path)?;
    let device = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    Ok(Device::from_raw(device))
}

/// The block device that holds `path`; an error with the file system's name where there is not one.
pub fn block_device(path: &Path) -> Result<Device, ObserveError> {
    device_number(path)?.if_block(path, || kind(nearest(path).ok()?.0))
}

/// The file system that holds a file which another process has open. It is asked for by the descriptor: the
/// file's name may be one of another mount namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// Its number, as [`device_number`] has it.
    pub(crate) device: Device,
    descriptor: (Pid, u32),
}

impl FileSystem {
    /// Never waits for the file system.
    pub(crate) fn of_descriptor(pid: Pid, fd: u32) -> Result<FileSystem, ObserveError> {
        let found = process::open_file(pid, fd)?;
        let device = match FileType::from_raw_mode(found.stx_mode.into()).is_block_device() {
            true => Device { major: found.stx_rdev_major, minor: found.stx_rdev_minor },
            false => Device { major: found.stx_dev_major, minor: found.stx_dev_minor },
        };
        Ok(FileSystem { device, descriptor: (pid, fd) })
    }

    /// Its block device; an error with its name where there is not one. `path` is what people call the file.
    pub(crate) fn block_device(self, path: &Path) -> Result<Device, ObserveError> {
        let (pid, fd) = self.descriptor;
        self.device.if_block(path, || {
            // A descriptor that was closed may lead to another file by now.
            FileSystem::of_descriptor(pid, fd).ok().filter(|now| *now == self)?;
            kind(Path::new(&format!("/proc/{pid}/fd/{fd}")))
        })
    }
}

/// What file system an existing file is on; waits until that answers.
fn kind(path: &Path) -> Option<&'static str> {
    Some(file_system(statfs(path).ok()?.f_type as u64))
}

/// `path`, or the nearest folder above it that exists: an output is named before it is made.
fn nearest(path: &Path) -> Result<(&Path, std::fs::Metadata), ObserveError> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for candidate in path.ancestors() {
        let candidate = if candidate.as_os_str().is_empty() { Path::new(".") } else { candidate };
        match candidate.metadata() {
            Ok(metadata) => return Ok((candidate, metadata)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => last = cause,
            Err(cause) => return Err(ObserveError::unreadable(candidate.display().to_string(), cause)),
        }
    }
    Err(ObserveError::unreadable(path.display().to_string(), last))
}

/// The file systems without a block device that people download to (include/uapi/linux/magic.h).
pub(crate) fn file_system(magic: u64) -> &'static str {
    match magic & 0xffff_ffff {
        0x9123_683e => "btrfs, which spreads over devices",
        0x794c_7630 => "overlay",
        0x0102_1994 => "tmpfs, which is memory",
        0x8584_58f6 => "ramfs, which is memory",
        0x6969 => "NFS",
        0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x0102_1997 => "9p",
        0x6573_5546 => "FUSE",
        0x2fc1_2fc1 => "ZFS",
        _ => "a file system without one",
    }
}

/// A device's counters since the machine started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskCounters {
    /// What the kernel calls it: `sda1`.
    pub name: String,
    /// Bytes read from it.
    pub read: u64,
    /// Bytes written to it.
    pub written: u64,
    /// Milliseconds with at least one request in flight; wraps at 2^32. Since 5.0 counted by the jiffy in
    /// which a request starts or ends, so sparse short requests are over-counted.
    pub busy_ms: u32,
}

/// Finds `device` in `/proc/diskstats` (Documentation/admin-guide/iostats.rst).
pub fn parse(text: &str, device: Device) -> Result<DiskCounters, Malformed> {
    let id = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok());
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if (id(words.next()), id(words.next())) != (Some(device.major), Some(device.minor)) {
            continue;
        }
        let name = words.next().unwrap_or_default().to_owned();
        // Field n of the eleven or more after the name, counted from 1 as iostats.rst does.
        let fields: Vec<&str> = words.collect();
        let field = |n: usize, what: &str| number(&format!("{what} of {name}"), fields.get(n - 1).copied());
        let read = field(3, "sectors read")?.saturating_mul(SECTOR);
        let written = field(7, "sectors written")?.saturating_mul(SECTOR);
        // Printed from an unsigned int of milliseconds, so that the cut loses nothing.
        let busy_ms = field(10, "busy time")? as u32;
        return Ok(DiskCounters { name, read, written, busy_ms });
    }
    Err(Malformed(format!("no device {device}")))
}

/// What the device did between two readings that lie `span` apart. A device replaced under the same number
/// counts from nothing again; such a step backwards reads as no bytes.
pub fn interval(before: &DiskCounters, after: &DiskCounters, span: Duration) -> DiskInterval {
    let busy = Duration::from_millis(after.busy_ms.wrapping_sub(before.busy_ms).into());
    let share = if span.is_zero() { 0.0 } else { busy.as_secs_f64() / span.as_secs_f64() };
    DiskInterval {
        written: after.written.saturating_sub(before.written),
        read: after.read.saturating_sub(before.read),
        busy: share.min(1.0),
    }
}

/// `/proc/diskstats`, kept open for one device.
#[derive(Debug)]
pub struct DiskReader {
    device: Device,
    file: ProcFile,
}

impl DiskReader {
    /// Opens the counters of `device`; that the device is among them shows at the first read.
    pub fn open(device: Device) -> Result<DiskReader, ObserveError> {
        Ok(DiskReader { device, file: ProcFile::open("/proc/diskstats")? })
    }

    /// The device's counters now.
    pub fn read(&mut self) -> Result<DiskCounters, ObserveError> {
        let device = self.device;
        self.file.read(|text| parse(text, device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTURED: &str = include_str!("../tests/data/6.18/diskstats");

    /// Eleven fields, as kernels before 4.18 print them, with a partition.
    const OLD: &str = "   8       0 sda 120 4 9602 310 55 8 1280 90 1 200 400
   8       1 sda1 100 4 9000 300 50 8 1200 90 0 190 390
";

    #[test]
    fn captured_disk_is_told_in_bytes() {
        let disk = parse(CAPTURED, Device { major: 254, minor: 0 }).unwrap();
        let line = CAPTURED.lines().find(|line| line.contains(" vda ")).unwrap();
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        assert_eq!(disk.name, "vda");
        assert_eq!(disk.read, fields[5].parse::<u64>().unwrap() * 512);
        assert_eq!(disk.written, fields[9].parse::<u64>().unwrap() * 512);
        assert_eq!(disk.busy_ms, fields[12].parse::<u32>().unwrap());
    }

    #[test]
    fn a_partition_is_not_its_disk() {
        let partition = parse(OLD, Device { major: 8, minor: 1 }).unwrap();
        let expected =
            DiskCounters { name: "sda1".into(), read: 9000 * 512, written: 1200 * 512, busy_ms: 190 };
        assert_eq!(partition, expected);
    }

    #[test]
    fn absent_and_truncated_devices_are_errors() {
        assert_eq!(parse(OLD, Device { major: 8, minor: 2 }), Err(Malformed("no device 8:2".into())));
        assert_eq!(parse("", Device { major: 8, minor: 0 }), Err(Malformed("no device 8:0".into())));
        let cut = &OLD[..OLD.find(" 55 8").unwrap()];
        let why = Malformed("no sectors written of sda".into());
        assert_eq!(parse(cut, Device { major: 8, minor: 0 }), Err(why));
    }

    #[test]
    fn windows_survive_the_wrap_of_the_busy_clock() {
        let before = DiskCounters { name: "sda".into(), read: 512, written: 1024, busy_ms: u32::MAX - 9 };
        let after = DiskCounters { name: "sda".into(), read: 512, written: 5120, busy_ms: 40 };
        let seen = interval(&before, &after, Duration::from_millis(100));
        assert_eq!(seen, DiskInterval { written: 4096, read: 0, busy: 0.5 });
        let swapped = interval(&after, &before, Duration::ZERO);
        assert_eq!((swapped.written, swapped.busy), (0, 0.0));
    }

    #[test]
    fn an_output_not_yet_made_lies_where_its_folder_does() {
        let dir = tempfile::tempdir().unwrap();
        let there = device_number(dir.path()).unwrap();
        assert_eq!(device_number(&dir.path().join("a/b/out.iso")).unwrap(), there);
        device_number(Path::new("out.iso")).unwrap();
    }

    #[test]
    fn the_disk_under_this_folder_has_counters_or_a_reason() {
        match block_device(Path::new(".")) {
            Ok(device) => assert!(!DiskReader::open(device).unwrap().read().unwrap().name.is_empty()),
            Err(why) => assert!(why.to_string().starts_with("no block device of its own holds .: "), "{why}"),
        }
    }

    #[test]
    fn a_file_that_a_process_has_open_lies_where_its_name_does() {
        let own = Pid(std::process::id());
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/proc/self/status")] {
            let file = std::fs::File::open(path).unwrap();
            let on = FileSystem::of_descriptor(own, std::os::fd::AsRawFd::as_raw_fd(&file) as u32).unwrap();
            assert_eq!(on.device, device_number(path).unwrap());
            let told = |device: Result<Device, ObserveError>| device.map_err(|why| why.to_string());
            assert_eq!(told(on.block_device(path)), told(block_device(path)));
        }
    }

    #[test]
    fn proc_is_on_no_disk() {
        let err = block_device(Path::new("/proc/self/status")).unwrap_err();
        let why = "no block device of its own holds /proc/self/status: it is on a file system without one";
        assert_eq!(err.to_string(), why);
    }
}
