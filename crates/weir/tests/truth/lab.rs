//! What the runs need of this machine: the right to make beds, and every congestion control in them.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use anyhow::Context;
use weir_lab::bed::Bed;
use weir_lab::congestion::{self, Allowed};
use weir_lab::leftovers::Folder;
use weir_lab::slow_core::{SlowCore, SlowCoreConfig};
use weir_lab::slow_disk::{SlowDisk, SlowDiskConfig};
use weir_units::{Bytes, Rate};

use crate::fetch::QUOTA;
use crate::plan::{Plan, Reader};

/// The largest send buffer that autotuning may grow in the lab: well above the largest bandwidth-delay
/// product of 5 MB, so that a healthy path is not in truth held by this machine's `tcp_wmem`.
const SEND_BUFFER: &str = "4096 16384 67108864";

/// The lab while it is open. What it changed goes back with it.
pub(crate) struct Lab {
    _allowed: Allowed,
    folder: Folder,
    /// Names disks, whose images stay until the folder goes.
    disks: AtomicU32,
}

impl Lab {
    /// Opens it; an error says what this machine does not allow.
    pub(crate) fn open() -> anyhow::Result<Lab> {
        anyhow::ensure!(
            rustix::process::geteuid().is_root(),
            "the lab needs root for all congestion controls and slow disks"
        );
        let lab = Lab { _allowed: congestion::allow()?, folder: Folder::new()?, disks: AtomicU32::new(0) };
        Bed::new(&weir_lab::path::Path::default()).context("cannot make a test bed")?;
        Ok(lab)
    }

    /// The bed for a plan.
    pub(crate) fn bed(&self, plan: &Plan) -> anyhow::Result<Bed> {
        let bed = Bed::new(&plan.path)?;
        bed.far().set_sysctl("net.ipv4.tcp_wmem", SEND_BUFFER)?;
        if let Some(end) = plan.autotuning {
            // The default of this machine for the start.
            bed.near().set_sysctl("net.ipv4.tcp_rmem", &format!("4096 131072 {}", end.0))?;
        }
        Ok(bed)
    }

    /// The disk for a plan whose reader stores.
    pub(crate) fn disk(&self, plan: &Plan) -> anyhow::Result<Option<SlowDisk>> {
        let Reader::Stores { rate } = plan.reader else { return Ok(None) };
        // A quarter of a second of the disk: the throttle is reached well before the run has settled.
        let dirty = Some(Bytes(((0.25 * rate.0) as u64).max(1 << 20)));
        let size = Bytes(1 << 30);
        let config = SlowDiskConfig { rate: Rate(rate.0), dirty, size };
        Ok(Some(SlowDisk::make(
            &self.folder,
            &format!("disk-{}", self.disks.fetch_add(1, Relaxed)),
            &config,
        )?))
    }

    /// The core for weir get under a plan whose receiver's core is full. One at a time: such plans run alone.
    pub(crate) fn core(&self, plan: &Plan) -> anyhow::Result<Option<SlowCore>> {
        let slow = matches!(plan.reader, Reader::Computes { .. });
        Ok(slow.then(|| SlowCore::make(&self.folder, SlowCoreConfig::Quota(QUOTA))).transpose()?)
    }

    /// A fresh folder in memory, gone when dropped.
    pub(crate) fn memory(&self) -> anyhow::Result<tempfile::TempDir> {
        let shared = Path::new("/dev/shm");
        let made = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
        made.context("cannot make a folder in memory")
    }
}
