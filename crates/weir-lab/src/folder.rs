//! The lab's folder among the temporary files: made at the start, locked while in use, gone at the end.
//!
//! A run that was killed leaves its folder behind, without the lock, for [`leftovers`](crate::leftovers).

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::slow_error::SlowError;

/// Names of such folders begin so.
pub(crate) const PREFIX: &str = "weir-lab-";

/// Held by each run; removed with all in it when dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The folder itself, locked: who can lock it knows that its run is gone.
    _lock: File,
}

impl Folder {
    /// Makes one in `parent` that only this user can enter.
    pub(crate) fn make_in(parent: &Path) -> Result<Folder, SlowError> {
        let failed = |cause: io::Error| {
            SlowError::failed(format!("cannot make a folder in {}", parent.display()), Some(cause))
        };
        let path = make(parent).map_err(failed)?;
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

/// The folder for temporary files.
pub(crate) fn parent() -> Result<PathBuf, SlowError> {
    // The kernel names loop devices' files without symbolic links: compare like with like.
    fs::canonicalize(std::env::temp_dir())
        .map_err(|cause| SlowError::failed("cannot find the folder for temporary files", Some(cause)))
}

/// The last part of a folder's path.
pub(crate) fn name_of(path: &Path) -> &str {
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

/// The folder, locked; an error while its run is alive.
pub(crate) fn lock(path: &Path) -> io::Result<File> {
    let folder = File::open(path)?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}
