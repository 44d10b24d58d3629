//! Folders that are made for a target, and removed again if nothing comes into them.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that were missing before they were made.
#[derive(Debug, Default)]
pub struct NewFolders(Vec<PathBuf>);

impl NewFolders {
    /// `folder` and its parents, as far as they do not exist yet.
    pub fn of(folder: &Path) -> NewFolders {
        let is_gone = |error: std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        let is_missing =
            |path: &&Path| !path.as_os_str().is_empty() && fs::symlink_metadata(path).is_err_and(is_gone);
        NewFolders(folder.ancestors().take_while(is_missing).map(Path::to_owned).collect())
    }

    /// Removes those that are empty.
    pub fn undo(&self) {
        // The innermost comes first, and may not have been made. One that holds something keeps its parents.
        self.0.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}
