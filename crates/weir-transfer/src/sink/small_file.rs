//! A small file, written in one piece: an unnamed file that gets its name when it is whole.
//!
//! One directory operation a file (`linkat`), where a temporary name and a rename would be three.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};

use crate::error::Error;

/// Puts `bytes` at `target`, whole or not at all; an existing file is replaced.
pub fn store(target: &Path, bytes: &[u8], sync: bool) -> Result<(), Error> {
    write(target, bytes, sync).map_err(|source| Error::Local {
        action: "write",
        path: target.to_owned(),
        source,
        kept: None,
    })
}

fn write(target: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mode = Mode::from_raw_mode(0o666);
    let file = match openat(CWD, folder, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode) {
        Ok(file) => File::from(file),
        // File systems without unnamed files (overlay on old kernels, NFS, FUSE).
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
            return by_rename(target, bytes, sync);
        }
        Err(error) => return Err(error.into()),
    };
    (&file).write_all(bytes)?;
    if sync {
        file.sync_all()?;
    }
    match link(&file, target) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            super::may_replace(target)?;
            let beside = beside(target);
            link(&file, &beside)?;
            fs::rename(&beside, target).inspect_err(|_| drop(fs::remove_file(&beside)))
        }
        other => other,
    }
}

/// linkat(2): AT_EMPTY_PATH wants a capability (before Linux 6.10), /proc/self/fd does not.
fn link(file: &File, target: &Path) -> io::Result<()> {
    match linkat(file, "", CWD, target, AtFlags::EMPTY_PATH) {
        Err(rustix::io::Errno::NOENT) => {}
        other => return Ok(other?),
    }
    let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file.as_fd()));
    Ok(linkat(CWD, &*name, CWD, target, AtFlags::SYMLINK_FOLLOW)?)
}

fn by_rename(target: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
    super::may_replace(target)?;
    let beside = beside(target);
    let written = File::options().write(true).create_new(true).open(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        if sync { file.sync_all() } else { Ok(()) }
    });
    written.and_then(|()| fs::rename(&beside, target)).inspect_err(|_| drop(fs::remove_file(&beside)))
}

fn beside(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    // As long as what names leave room for (`filename::PART_SUFFIX`).
    name.push(format!(".{:04x}.part", fastrand::u16(..)));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_and_replaces_another() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        for bytes in [&b"one"[..], b"", b"three"] {
            store(&target, bytes, false).unwrap();
            assert_eq!(fs::read(&target).unwrap(), bytes);
        }
        by_rename(&target, b"four", true).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"four");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_missing_folder_is_an_error_that_names_the_file() {
        let error = store(Path::new("/nowhere/at/all"), b"x", false).unwrap_err();
        assert_eq!(error.to_string(), "cannot write /nowhere/at/all: no such file or directory");
    }
}
