//! The two limits that make a block device slow: bytes written per second (cgroup) and dirty pages (bdi).
//!
//! Devices are named by their number, `7:3`. Whatever is set is lifted when its value is dropped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_units::{Bytes, Rate};

use crate::cgroup::{Cgroup, Version, tree};
use crate::slow_error::{SlowError, set};

/// In the root group of version 1: what the flusher threads write for others is charged there.
const V1_LIMIT: &str = "blkio.throttle.write_bps_device";

/// The same for reads.
const V1_READ_LIMIT: &str = "blkio.throttle.read_bps_device";

/// The largest share of all dirty pages, per cent: the kernel's default, no limit at all.
const ANY_SHARE: &str = "100";

/// A cap on what a block device takes.
#[derive(Debug)]
pub struct WriteLimit {
    device: String,
    /// Version 2's root takes no limits, so a child group is made, and the writer has to be in it; `None`
    /// with version 1.
    group: Option<Cgroup>,
}

impl WriteLimit {
    /// Lets `device` take `rate`. `name` is for the group, where one is needed.
    pub fn set(device: &str, rate: Rate, name: &str) -> Result<WriteLimit, SlowError> {
        let rate = rate.0.round().max(1.0);
        let (tree, version) = tree("blkio");
        if version == Version::V1 {
            set(&tree.join(V1_LIMIT), &format!("{device} {rate}"))?;
            return Ok(WriteLimit { device: device.to_owned(), group: None });
        }
        // Both: the kernel knows whose a dirty page is only with the memory controller.
        let group = Cgroup::make(&tree, name, &["io", "memory"])?;
        group.set("io.max", &format!("{device} wbps={rate}"))?;
        Ok(WriteLimit { device: device.to_owned(), group: Some(group) })
    }

    /// Lets the device give `rate` as well.
    pub fn limit_reads(&self, rate: Rate) -> Result<(), SlowError> {
        let rate = rate.0.round().max(1.0);
        match &self.group {
            Some(group) => group.set("io.max", &format!("{} rbps={rate}", self.device)),
            None => set(&tree("blkio").0.join(V1_READ_LIMIT), &format!("{} {rate}", self.device)),
        }
    }

    /// Lets what `command` writes fall under the limit.
    pub fn join(&self, command: &mut Command) -> Result<(), SlowError> {
        self.group.as_ref().map_or(Ok(()), |group| group.join(command))
    }

    /// Lifts what a killed run left on `device`.
    pub(crate) fn lift(device: &str) {
        drop(WriteLimit { device: device.to_owned(), group: None });
    }
}

impl Drop for WriteLimit {
    fn drop(&mut self) {
        let lifted = match &self.group {
            Some(group) => group.set("io.max", &format!("{} wbps=max rbps=max", self.device)),
            None => match tree("blkio") {
                (tree, Version::V1) => [V1_LIMIT, V1_READ_LIMIT]
                    .into_iter()
                    .try_for_each(|limit| set(&tree.join(limit), &format!("{} 0", self.device))),
                // The limit goes with its group.
                (_, Version::V2) => Ok(()),
            },
        };
        if let Err(error) = lifted {
            tracing::warn!("the write limit of the slow disk remains: {error}");
        }
    }
}

/// A cap on the pages that wait in memory for one device (Linux 6.2 or later).
#[derive(Debug)]
pub struct DirtyLimit {
    device: String,
}

impl DirtyLimit {
    /// Lets at most `bytes` wait for `device`.
    pub fn set(device: &str, bytes: Bytes) -> Result<DirtyLimit, SlowError> {
        let limit = DirtyLimit { device: device.to_owned() };
        set(&bdi(device, "max_bytes"), &bytes.0.to_string())?;
        // Without it, the device's own limit counts only once the whole machine is near its limit.
        set(&bdi(device, "strict_limit"), "1")?;
        Ok(limit)
    }

    /// Lifts what a killed run left on `device`.
    pub(crate) fn lift(device: &str) {
        drop(DirtyLimit { device: device.to_owned() });
    }
}

impl Drop for DirtyLimit {
    fn drop(&mut self) {
        // The kernel's defaults: the device number may serve another file system next. Kernels without these
        // files failed in `set` with nothing changed.
        for (name, value) in [("strict_limit", "0"), ("max_ratio", ANY_SHARE)] {
            match fs::write(bdi(&self.device, name), value) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!("the limit of dirty pages of the slow disk remains: {error}");
                }
                _ => {}
            }
        }
    }
}

fn bdi(device: &str, name: &str) -> PathBuf {
    Path::new("/sys/class/bdi").join(device).join(name)
}
