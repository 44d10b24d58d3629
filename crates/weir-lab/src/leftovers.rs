//! The lab's folder among the temporary files: made at the start, locked while in use, gone at the end.
//!
//! A run that was killed leaves its folder behind, without the lock; the next run of the same user finds it by its name
//! and removes it, after undoing what slow disks and slow cores left: their mounts, loop devices and groups all carry the
//! folder's path or name, so that nothing has to be written down before it is set up. Namespaces end with their process.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::slow_error::SlowError;
use crate::{slow_core, slow_disk};

/// Names of such folders begin so.
const PREFIX: &str = "weir-lab-";

/// Held by each run; removed with all in it when dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The folder itself, locked: who can lock it knows that its run is gone.
    _lock: File,
}

impl Folder {
    /// Removes what killed runs left, then makes a folder that only this user can enter.
    pub fn new() -> Result<Folder, SlowError> {
        let parent = parent()?;
        remove_leftovers_in(&parent);
        let failed =
            |cause| SlowError::caused(format!("cannot make a folder in {}", parent.display()), cause);
        let path = make(&parent).map_err(failed)?;
        let lock = lock(&path).map_err(failed)?;
        Ok(Folder { path, _lock: lock })
    }

    /// Where it is, absolute and without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last part of the path: what groups are called.
    pub fn name(&self) -> &str {
        name_of(&self.path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

fn parent() -> Result<PathBuf, SlowError> {
    // The kernel names loop devices' files without symbolic links: compare like with like.
    fs::canonicalize(std::env::temp_dir())
        .map_err(|cause| SlowError::caused("cannot find the folder for temporary files", cause))
}

fn name_of(path: &Path) -> &str {
    // Made by `make` of nothing but ASCII.
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// `weir-lab-PID-0`, or with a higher count where that name is taken.
fn make(parent: &Path) -> io::Result<PathBuf> {
    let mut result = Err(io::ErrorKind::AlreadyExists.into());
    for count in 0..100 {
        let path = parent.join(format!("{PREFIX}{}-{count}", std::process::id()));
        result = DirBuilder::new().mode(0o700).create(&path).map(|()| path);
        if !result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
            break;
        }
    }
    result
}

fn lock(path: &Path) -> io::Result<File> {
    let folder = File::open(path)?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}

fn remove_leftovers_in(parent: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // Of the entry itself, not of what a link names.
        let own = entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user);
        if named && own {
            remove_leftover(&entry.path());
        }
    }
}

/// Removes a run's folder unless that run is still alive, or something is still attached to it.
fn remove_leftover(folder: &Path) {
    let Ok(_lock) = lock(folder) else { return };
    let name = name_of(folder);
    let undone = slow_disk::undo_leftovers(folder, name) & slow_core::undo_leftovers(name);
    if undone && let Err(error) = fs::remove_dir_all(folder) {
        tracing::warn!("cannot remove {}, left by a killed run: {error}", folder.display());
    }
}
