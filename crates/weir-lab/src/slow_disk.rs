//! A slow disk out of a file: a loop device with a small ext4, a write limit, and few dirty pages allowed.
//!
//! Needs root, loop devices, a cgroup that can limit block writes ([`throttle`]) and, where dirty pages are
//! limited, Linux 6.2 or later. Each part is undone when its value is dropped: first the limits, so that what
//! is still in memory goes out fast, then the mount, then the loop device; the image goes with its
//! [`Folder`].

mod loop_device;
mod throttle;

use std::path::Path;
use std::process::Command;

use weir_units::{Bytes, Rate};

use crate::cgroup::{Cgroup, tree};
use crate::folder::Folder;
use crate::slow_error::SlowError;
use loop_device::{LoopDevice, Mount, make_image};
use throttle::{DirtyLimit, WriteLimit};

/// How slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowDiskConfig {
    /// What the device takes.
    pub rate: Rate,
    /// What may wait in memory for it; `None` leaves the machine's own limits, mostly gigabytes.
    pub dirty: Option<Bytes>,
    /// The size of the file system; sparse, so that it costs only what is written.
    pub size: Bytes,
}

/// Mounted while it lives. The order of the fields is the order of the undoing.
#[derive(Debug)]
pub struct SlowDisk {
    write_limit: WriteLimit,
    _dirty_limit: Option<DirtyLimit>,
    mount: Mount,
    _device: LoopDevice,
}

impl SlowDisk {
    /// Makes the disk `name` in `folder`.
    ///
    /// # Errors
    /// A refusal says what this machine does not allow.
    pub fn make(folder: &Folder, name: &str, config: &SlowDiskConfig) -> Result<SlowDisk, SlowError> {
        if !rustix::process::geteuid().is_root() {
            return Err(SlowError::refused("a slow disk can only be made by root"));
        }
        let image = folder.path().join(format!("{name}.img"));
        make_image(&image, config.size)?;
        let device = LoopDevice::attach(&image)?;
        let mount = Mount::new(&device.path, &folder.path().join(name))?;
        let dirty_limit = config.dirty.map(|bytes| DirtyLimit::set(&device.number, bytes)).transpose()?;
        let write_limit = WriteLimit::set(&device.number, config.rate, folder.name())?;
        Ok(SlowDisk { write_limit, _dirty_limit: dirty_limit, mount, _device: device })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mount.folder
    }

    /// Lets the device give no more than `rate`, while this disk lives.
    pub fn limit_reads(&self, rate: Rate) -> Result<(), SlowError> {
        self.write_limit.limit_reads(rate)
    }

    /// Lets what `command` writes fall under the limit.
    pub fn join(&self, command: &mut Command) -> Result<(), SlowError> {
        self.write_limit.join(command)
    }
}

/// Undoes what a killed run left attached to the folder at `path`: limits, mounts, loop devices, in this
/// order. Returns whether nothing is left.
pub(crate) fn undo_leftovers(path: &Path, name: &str) -> bool {
    let devices = LoopDevice::attached_to(path);
    for device in &devices {
        WriteLimit::lift(&device.number);
        DirtyLimit::lift(&device.number);
    }
    for folder in Mount::below(path) {
        drop(Mount { folder });
    }
    // Detaches them.
    drop(devices);
    Cgroup::remove_leftover(&tree("blkio").0, name)
        && Mount::below(path).is_empty()
        && !LoopDevice::is_attached_to(path)
}
