//! A file as a block device with a file system on it: made, attached, mounted, and all of it undone when
//! dropped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weir_units::Bytes;

use crate::slow_error::SlowError;

/// A sparse file of `size` with an empty ext4 in it.
pub(crate) fn make_image(image: &Path, size: Bytes) -> Result<(), SlowError> {
    let failed =
        |cause: io::Error| SlowError::failed(format!("cannot make {}", image.display()), Some(cause));
    let file = fs::File::create_new(image).map_err(failed)?;
    file.set_len(size.0).map_err(failed)?;
    // All tables now: the kernel would else write them later, in competition with the transfer.
    let options = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-J", "size=4"];
    tool(Command::new("mkfs.ext4").args(options).arg(image)).map(drop)
}

/// An attached loop device.
#[derive(Debug)]
pub struct LoopDevice {
    /// `/dev/loop3`.
    pub path: PathBuf,
    /// `7:3`, as sysfs and cgroups name it.
    pub number: String,
}

impl LoopDevice {
    /// Attaches `image` to the next free one.
    pub(crate) fn attach(image: &Path) -> Result<LoopDevice, SlowError> {
        // losetup fails mostly because there are no loop devices, or none that this process may use.
        let said = tool(Command::new("losetup").args(["--find", "--show"]).arg(image))
            .map_err(SlowError::into_refusal)?;
        let mut device = LoopDevice { path: PathBuf::from(said.trim()), number: String::new() };
        let name =
            device.path.file_name().ok_or_else(|| SlowError::failed("losetup named no device", None))?;
        let number = Path::new("/sys/block").join(name).join("dev");
        let number = fs::read_to_string(&number)
            .map_err(|cause| SlowError::caused(format!("cannot read {}", number.display()), cause))?;
        device.number = number.trim().to_owned();
        Ok(device)
    }

    /// Those whose file lies in `folder`.
    pub(crate) fn attached_to(folder: &Path) -> Vec<LoopDevice> {
        let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let attached = entries.filter_map(|entry| {
            let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
            let number = fs::read_to_string(entry.path().join("dev")).ok()?.trim().to_owned();
            let ours = Path::new(file.trim_end()).starts_with(folder);
            ours.then(|| LoopDevice { path: Path::new("/dev").join(entry.file_name()), number })
        });
        attached.collect()
    }

    /// Whether any is, without taking them over.
    pub(crate) fn is_attached_to(folder: &Path) -> bool {
        // Not to be detached by dropping them.
        let devices = LoopDevice::attached_to(folder);
        let any = !devices.is_empty();
        devices.into_iter().for_each(std::mem::forget);
        any
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        warn(tool(Command::new("losetup").arg("--detach").arg(&self.path)));
    }
}

/// A mounted file system.
#[derive(Debug)]
pub struct Mount {
    /// Where.
    pub folder: PathBuf,
}

impl Mount {
    /// Mounts the ext4 of `device` on `folder`, which is made.
    pub fn new(device: &Path, folder: &Path) -> Result<Mount, SlowError> {
        fs::create_dir(folder)
            .map_err(|cause| SlowError::failed(format!("cannot make {}", folder.display()), Some(cause)))?;
        // The file system was just made: what does not mount it does not allow it, or has no ext4.
        tool(Command::new("mount").args(["-t", "ext4"]).arg(device).arg(folder))
            .map_err(SlowError::into_refusal)?;
        Ok(Mount { folder: folder.to_owned() })
    }

    /// Folders in `folder` on which something is mounted.
    pub fn below(folder: &Path) -> Vec<PathBuf> {
        let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        // proc(5): a space in a name is written as \040.
        let folders =
            table.lines().filter_map(|line| line.split(' ').nth(1)).map(|name| name.replace("\\040", " "));
        folders.map(PathBuf::from).filter(|mounted| mounted.starts_with(folder)).collect()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let umount = |option: &[&str]| tool(Command::new("umount").args(option).arg(&self.folder));
        // Busy while the child of a killed run is still on its way out: it then goes with its last user.
        warn(umount(&[]).or_else(|_| umount(&["--lazy"])));
    }
}

/// Runs a command of the system to its end. Returns what it printed; an error has its complaint.
fn tool(command: &mut Command) -> Result<String, SlowError> {
    let name = command.get_program().display().to_string();
    // A root shell started by su has no sbin in its path.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output = command
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| SlowError::caused(format!("cannot run {name}"), cause))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let complaint = complaint.lines().next().unwrap_or_default();
        return Err(SlowError::failed(format!("{name} failed: {complaint}"), None));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Undoing goes on, whatever one step says.
fn warn(result: Result<String, SlowError>) {
    if let Err(error) = result {
        tracing::warn!("cannot undo the slow disk: {error}");
    }
}
