//! The cache folder: what weir could find out again, kept from run to run. It says nothing to other users.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use weir_get::sink::folder::Target;
use weir_get::sink::{beside, naming};

use crate::base_folder;

/// weir's; `None` for whoever has no home.
pub fn folder() -> Option<PathBuf> {
    base_folder::cache(|name| std::env::var_os(name))
}

/// Keeps `text` as this file of it. Whoever reads meanwhile has the old or the new one, never a part.
pub fn keep(path: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // Beside it, so that the rename stays within one file system, and for this user alone.
    let target = Target::open(path)?;
    let (passing, mut draft) = beside::create_passing(target.folder(), target.name())?;
    match draft.write_all(text) {
        Ok(()) => naming::swap_in(&draft, &target, &passing),
        Err(error) => {
            beside::remove(target.folder(), &passing, &draft);
            Err(error)
        }
    }
}
