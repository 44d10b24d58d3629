//! What killed runs of the lab left: each run undoes it before it makes a [`Folder`] of its own.
//!
//! Such a folder has a run's name and mark, and no lock any more: no other is touched. Its run's slow disks
//! and slow cores are undone first: their mounts, loop devices and groups all carry the folder's path or
//! name, so that nothing has to be written down before it is set up. Namespaces end with their process.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub use crate::folder::Folder;
use crate::folder::{is_marked, is_name, lock, name_of, parent, remove};
use crate::slow_error::SlowError;
use crate::{slow_core, slow_disk};

impl Folder {
    /// Removes what killed runs left, then makes a folder that only this user can enter.
    pub fn new() -> Result<Folder, SlowError> {
        let parent = parent()?;
        remove_leftovers_in(&parent);
        Folder::make_in(&parent)
    }
}

fn remove_leftovers_in(parent: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let named = entry.file_name().to_str().is_some_and(is_name);
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
    // Only now: a run marks its folder when it has locked it.
    if !is_marked(folder) {
        return;
    }
    let name = name_of(folder);
    let undone = slow_disk::undo_leftovers(folder, name) & slow_core::undo_leftovers(name);
    if undone && let Err(error) = remove(folder) {
        tracing::warn!("cannot remove {}, left by a killed run: {error}", folder.display());
    }
}
