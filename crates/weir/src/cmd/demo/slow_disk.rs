//! A slow disk out of a file: a loop device with a small ext4, a write limit, and few dirty pages allowed.
//!
//! Needs root, loop devices, a cgroup that can limit block writes ([`throttle`](super::throttle)) and Linux 6.2 or later
//! for the per-device limits of dirty pages. Each part is undone when its value is dropped: first the limits, so that
//! what is still in memory goes out fast, then the mount, then the loop device; the image goes with the demo's folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::throttle::{DirtyLimit, WriteLimit};

/// Bytes per second that the disk takes.
pub const RATE: u64 = 30_000_000;

/// Bytes that may wait in memory for it: with the default limits, gigabytes would have to be fetched to see anything. At
/// 100 MB/s they last for three windows of evidence, so that the knee is seen, and for a tenth of the run.
pub const DIRTY: u64 = 32 << 20;

/// More than the demo's file and the file system's own; sparse, so that it costs only what is written.
const IMAGE_SIZE: u64 = 400 << 20;

const IMAGE: &str = "slow-disk.img";

const MOUNT: &str = "slow-disk";

/// Mounted while it lives. The order of the fields is the order of the undoing.
pub struct SlowDisk {
    write_limit: WriteLimit,
    _dirty_limit: DirtyLimit,
    _mount: Mount,
    _device: LoopDevice,
}

impl SlowDisk {
    /// Makes it in `folder`; an error says what this machine does not allow.
    pub fn make(folder: &Path) -> anyhow::Result<SlowDisk> {
        anyhow::ensure!(rustix::process::geteuid().is_root(), "a slow disk can only be made by root");
        let image = make_image(folder)?;
        let device = LoopDevice::attach(&image)?;
        let mount = Mount::new(&device.path, &folder.join(MOUNT))?;
        let dirty_limit = DirtyLimit::set(&device.number, DIRTY)?;
        let write_limit = WriteLimit::set(&device.number, RATE)?;
        Ok(SlowDisk { write_limit, _dirty_limit: dirty_limit, _mount: mount, _device: device })
    }

    /// Its folder's name within the folder given.
    pub fn name(&self) -> &'static str {
        MOUNT
    }

    /// `command` such that what it writes falls under the limit.
    pub fn within(&self, command: Command) -> Command {
        self.write_limit.within(command)
    }
}

/// Undoes what a killed demo left attached to `folder`: limits, mounts, loop devices, in this order. Returns whether
/// nothing is left.
pub fn undo_leftovers(folder: &Path) -> bool {
    let devices: Vec<_> = attached_to(folder).map(|(path, number)| LoopDevice { path, number }).collect();
    for device in &devices {
        WriteLimit::lift(&device.number, folder);
        DirtyLimit::lift(&device.number);
    }
    for mounted in mounts_below(folder) {
        drop(Mount { folder: mounted });
    }
    // Detaches them.
    drop(devices);
    mounts_below(folder).is_empty() && attached_to(folder).next().is_none()
}

fn make_image(folder: &Path) -> anyhow::Result<PathBuf> {
    let image = folder.join(IMAGE);
    let file = fs::File::create_new(&image).with_context(|| format!("cannot make {}", image.display()))?;
    file.set_len(IMAGE_SIZE).with_context(|| format!("cannot make {}", image.display()))?;
    // All tables now: the kernel would else write them later, in competition with the download.
    let options = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-J", "size=4"];
    tool(Command::new("mkfs.ext4").args(options).arg(&image))?;
    Ok(image)
}

/// An attached loop device.
struct LoopDevice {
    /// `/dev/loop3`.
    path: PathBuf,
    /// `7:3`, as sysfs and cgroups name it.
    number: String,
}

impl LoopDevice {
    fn attach(image: &Path) -> anyhow::Result<LoopDevice> {
        let said = tool(Command::new("losetup").args(["--find", "--show"]).arg(image))?;
        let mut device = LoopDevice { path: PathBuf::from(said.trim()), number: String::new() };
        let name = device.path.file_name().context("losetup named no device")?;
        let number = Path::new("/sys/block").join(name).join("dev");
        let number =
            fs::read_to_string(&number).with_context(|| format!("cannot read {}", number.display()))?;
        device.number = number.trim().to_owned();
        Ok(device)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        warn(tool(Command::new("losetup").arg("--detach").arg(&self.path)));
    }
}

/// A mounted file system.
struct Mount {
    folder: PathBuf,
}

impl Mount {
    fn new(device: &Path, folder: &Path) -> anyhow::Result<Mount> {
        fs::create_dir(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        tool(Command::new("mount").args(["-t", "ext4"]).arg(device).arg(folder))?;
        Ok(Mount { folder: folder.to_owned() })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let umount = |option: &[&str]| tool(Command::new("umount").args(option).arg(&self.folder));
        // Busy while the child of a killed demo is still on its way out: it then goes with its last user.
        warn(umount(&[]).or_else(|_| umount(&["--lazy"])));
    }
}

/// Loop devices whose file lies in `folder`: each one's name in /dev, and its number.
fn attached_to(folder: &Path) -> impl Iterator<Item = (PathBuf, String)> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let number = fs::read_to_string(entry.path().join("dev")).ok()?;
        let ours = Path::new(file.trim_end()).starts_with(folder);
        ours.then(|| (Path::new("/dev").join(entry.file_name()), number.trim().to_owned()))
    })
}

/// Folders in `folder` on which something is mounted.
fn mounts_below(folder: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    // proc(5): a space in a name is written as \040.
    let folders =
        table.lines().filter_map(|line| line.split(' ').nth(1)).map(|name| name.replace("\\040", " "));
    folders.map(PathBuf::from).filter(|mounted| mounted.starts_with(folder)).collect()
}

/// Runs a command of the system to its end. Returns what it printed; an error has its complaint.
fn tool(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().display().to_string();
    // A root shell started by su has no sbin in its path.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output = command
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success(),
        "{name} failed: {}",
        complaint.lines().next().unwrap_or_default()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Undoing goes on, whatever one step says.
fn warn(result: anyhow::Result<String>) {
    if let Err(error) = result {
        tracing::warn!("cannot undo the slow disk: {error:#}");
    }
}
