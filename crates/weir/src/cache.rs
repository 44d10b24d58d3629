//! The cache folder: what weir could find out again, kept from run to run. It says nothing to other users.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

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
    // Beside it, so that the rename stays within one file system.
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let written = write(&draft, text).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text)
}
