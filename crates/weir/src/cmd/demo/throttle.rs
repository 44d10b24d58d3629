//! The two limits that make a block device slow: bytes written per second (cgroup) and dirty pages (bdi).
//!
//! Devices are named by their number, `7:3`. Whatever is set is lifted when its value is dropped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// cgroup v1, root group: what the flusher threads write for others is charged there.
const V1: &str = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";

/// cgroup v2. Its root takes no limits, so a child group is made, and the writer has to be in it.
const V2: &str = "/sys/fs/cgroup";

/// The largest share of all dirty pages, per cent: the kernel's default, no limit at all.
const ANY_SHARE: &str = "100";

/// A cap on what a block device takes.
pub struct WriteLimit {
    device: String,
    /// The group of v2; `None` with v1.
    group: Option<PathBuf>,
}

impl WriteLimit {
    /// Lets `device` take `rate` bytes per second.
    pub fn set(device: &str, rate: u64) -> anyhow::Result<WriteLimit> {
        if Path::new(V1).exists() {
            write(Path::new(V1), &format!("{device} {rate}"))?;
            return Ok(WriteLimit { device: device.to_owned(), group: None });
        }
        let group = Path::new(V2).join(format!("weir-demo-{}", std::process::id()));
        fs::create_dir(&group).context("cannot make a cgroup that limits writes")?;
        let limit = WriteLimit { device: device.to_owned(), group: Some(group.clone()) };
        let controllers = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
        // Both: the kernel knows whose a dirty page is only with the memory controller.
        for needed in ["io", "memory"] {
            let there = controllers.split_ascii_whitespace().any(|name| name == needed);
            anyhow::ensure!(there, "the cgroup controller {needed} is not enabled for child groups");
        }
        write(&group.join("io.max"), &format!("{device} wbps={rate}"))?;
        Ok(limit)
    }

    /// `command` inside the limited group, where there is one.
    pub fn within(&self, command: Command) -> Command {
        let Some(group) = &self.group else { return command };
        let mut inside = Command::new("sh");
        inside.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(group.join("cgroup.procs"));
        inside.arg(command.get_program()).args(command.get_args());
        inside
    }

    /// Lifts what a killed demo left on `device`, whose folder carries its process id.
    pub fn lift(device: &str, folder: &Path) {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let group = name.rsplit_once('-').map(|(demo, _count)| Path::new(V2).join(demo));
        let group = (!Path::new(V1).exists()).then_some(group).flatten();
        drop(WriteLimit { device: device.to_owned(), group });
    }
}

impl Drop for WriteLimit {
    fn drop(&mut self) {
        let lifted = match &self.group {
            None => write(Path::new(V1), &format!("{} 0", self.device)),
            Some(group) => {
                // Only a hint to let the last pages out fast; removing the group is what counts.
                let _ = write(&group.join("io.max"), &format!("{} wbps=max", self.device));
                fs::remove_dir(group).with_context(|| format!("cannot remove {}", group.display()))
            }
        };
        if let Err(error) = lifted {
            tracing::warn!("the write limit of the slow disk remains: {error:#}");
        }
    }
}

/// A cap on the pages that wait in memory for one device.
pub struct DirtyLimit {
    device: String,
}

impl DirtyLimit {
    /// Lets at most `bytes` wait for `device`.
    pub fn set(device: &str, bytes: u64) -> anyhow::Result<DirtyLimit> {
        let limit = DirtyLimit { device: device.to_owned() };
        write(&bdi(device, "max_bytes"), &bytes.to_string())?;
        // Without it, the device's own limit counts only once the whole machine is near its limit.
        write(&bdi(device, "strict_limit"), "1")?;
        Ok(limit)
    }

    /// Lifts what a killed demo left on `device`.
    pub fn lift(device: &str) {
        drop(DirtyLimit { device: device.to_owned() });
    }
}

impl Drop for DirtyLimit {
    fn drop(&mut self) {
        // The kernel's defaults: the device number may serve another file system next. Kernels without these files
        // failed in `set` with nothing changed.
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

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
