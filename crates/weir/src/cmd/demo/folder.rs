//! The demo's folder among the temporary files: made at the start, locked while in use, gone at the end.
//!
//! A demo that was killed leaves its folder behind, without the lock; the next demo of the same user finds it by its
//! name and removes it, after undoing what [`slow_disk`](super::slow_disk) may have left attached to it.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};

use super::slow_disk;

/// Names of demo folders begin so.
const PREFIX: &str = "weir-demo-";

/// Held by each demo that runs; removed with all in it when dropped.
pub struct Folder {
    path: PathBuf,
    /// The folder itself, locked: who can lock it knows that its demo is gone.
    _lock: File,
}

impl Folder {
    /// Removes what killed demos left, then makes a folder that only this user can enter.
    pub fn new() -> anyhow::Result<Folder> {
        // The kernel names loop devices' files without symbolic links: compare like with like.
        let parent =
            fs::canonicalize(std::env::temp_dir()).context("cannot find the folder for temporary files")?;
        remove_leftovers(&parent);
        let failed = || format!("cannot make a folder in {}", parent.display());
        let path = make(&parent).with_context(failed)?;
        let lock = lock(&path).with_context(failed)?;
        Ok(Folder { path, _lock: lock })
    }

    /// Where it is, absolute and without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// `weir-demo-PID`, or with a count behind where that name is taken.
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

fn remove_leftovers(parent: &Path) {
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

/// Removes a demo's folder unless that demo is still alive, or something is still attached to it.
fn remove_leftover(folder: &Path) {
    let Ok(_lock) = lock(folder) else { return };
    if slow_disk::undo_leftovers(folder)
        && let Err(error) = fs::remove_dir_all(folder)
    {
        tracing::warn!("cannot remove {}, left by a killed demo: {error}", folder.display());
    }
}
