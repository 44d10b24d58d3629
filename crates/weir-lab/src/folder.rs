//! The lab's folder among the temporary files: made at the start, locked while in use, gone at the end.
//!
//! A run that was killed leaves its folder behind, without the lock, for [`leftovers`](crate::leftovers).

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::slow_error::SlowError;

/// Names of such folders begin so.
const PREFIX: &str = "weir-lab-";

/// A file in each such folder: a user's own folder of such a name has none.
const MARKER: &str = ".weir-lab";

/// Names tried before giving up.
const TRIES: u32 = 100;

/// Held by each run; removed with all in it when dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The folder itself, locked: who can lock it knows that its run is gone.
    _lock: File,
}

impl Folder {
    /// Makes one in `parent` that only this user can enter: `weir-lab-PID-0`, or with a higher count where
    /// that name is taken.
    pub(crate) fn make_in(parent: &Path) -> Result<Folder, SlowError> {
        let mut result = Err(io::ErrorKind::AlreadyExists.into());
        for count in 0..TRIES {
            result = make(parent.join(format!("{PREFIX}{}-{count}", std::process::id())));
            if !result.as_ref().is_err_and(is_taken) {
                break;
            }
        }
        result.map_err(|cause| {
            SlowError::failed(format!("cannot make a folder in {}", parent.display()), Some(cause))
        })
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
        if let Err(error) = remove(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Removes a run's folder with all in it. What cannot be removed now keeps its mark, for a later run.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_dir_all(path).inspect_err(|_| drop(fs::write(path.join(MARKER), "")))
}

/// The folder for temporary files.
pub(crate) fn parent() -> Result<PathBuf, SlowError> {
    // The kernel names loop devices' files without symbolic links: compare like with like.
    fs::canonicalize(std::env::temp_dir())
        .map_err(|cause| SlowError::failed("cannot find the folder for temporary files", Some(cause)))
}

/// The last part of a folder's path.
pub(crate) fn name_of(path: &Path) -> &str {
    // Made by `Folder::make_in` of nothing but ASCII.
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Makes the folder, locks it and marks it.
fn make(path: PathBuf) -> io::Result<Folder> {
    DirBuilder::new().mode(0o700).create(&path)?;
    // Another run that looks for leftovers may hold the lock for a moment. Without its mark the folder would
    // stay for good.
    let lock = lock(&path).inspect_err(|_| drop(fs::remove_dir(&path)))?;
    let folder = Folder { path, _lock: lock };
    fs::write(folder.path.join(MARKER), "")?;
    Ok(folder)
}

/// Whether another name may do.
fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, NotFound, WouldBlock};
    matches!(error.kind(), AlreadyExists | NotFound | WouldBlock)
}

/// Whether [`Folder::make_in`] gives such names: a user's own folders may begin alike.
pub(crate) fn is_name(name: &str) -> bool {
    let numbers = name.strip_prefix(PREFIX).and_then(|numbers| numbers.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(pid, count)| is_number(pid) && is_number(count))
}

/// Whether a run of the lab made this folder.
pub(crate) fn is_marked(path: &Path) -> bool {
    fs::symlink_metadata(path.join(MARKER)).is_ok_and(|metadata| metadata.is_file())
}

/// The folder, locked; an error while its run is alive, or where another folder has its place by now.
pub(crate) fn lock(path: &Path) -> io::Result<File> {
    let folder = File::open(path)?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    // Whoever had the lock before may have removed the folder that was opened.
    let (locked, there) = (folder.metadata()?, fs::symlink_metadata(path)?);
    match (locked.dev(), locked.ino()) == (there.dev(), there.ino()) {
        true => Ok(folder),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_folder_that_cannot_go_keeps_its_mark() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::make_in(parent.path()).unwrap();
        let path = folder.path().to_owned();
        let busy = path.join("busy");
        fs::create_dir(&busy).unwrap();
        let run = |command: &[&str]| {
            let status = Command::new(command[0]).args(&command[1..]).arg(&busy).status();
            status.is_ok_and(|status| status.success())
        };
        if !run(&["mount", "-t", "tmpfs", "none"]) {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "needed on CI: mounting needs root");
            println!("skipped: mounting needs root");
            return;
        }
        // As where the file system lists it first.
        fs::remove_file(path.join(MARKER)).unwrap();
        drop(folder);
        let marked = is_marked(&path);
        assert!(run(&["umount"]));
        assert!(marked);
    }
}
