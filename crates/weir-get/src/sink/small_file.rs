//! A small file, written in one piece: an unnamed file that gets its name when it is whole.
//!
//! One directory operation a file (`linkat`), where a temporary name and a rename would be three.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, linkat, openat};
use rustix::io::Errno;

use super::folder::{Target, kind};
use super::{attributes, beside, in_place, naming};
use crate::error::GetError;
use weir_units::atomic_file;

/// Tries for a name that nothing has.
const TRIES: usize = 16;

/// How a small file came to its place.
#[derive(Debug, PartialEq, Eq)]
pub enum Stored {
    /// Whole, under its name.
    Named,
    /// Not yet: it has to be written into the file that is there, by way of a part.
    NeedsPart,
}

/// Puts `bytes` at `target`, whole or not at all; an existing file is replaced and keeps its rights.
pub fn store(target: &Target, bytes: &[u8], sync: bool) -> Result<Stored, GetError> {
    write(target, bytes, sync).map_err(|source| failed(target.path(), source))
}

/// Puts `bytes` at `target` unless something has that name: a file with the same content stays.
pub fn store_if_free(target: &Target, bytes: &[u8], sync: bool) -> Result<(), GetError> {
    match write_if_free(target, bytes, sync) {
        Ok(true) => Ok(()),
        Ok(false) => Err(GetError::Differs { path: target.path().to_owned() }),
        Err(source) => Err(failed(target.path(), source)),
    }
}

/// Whether `target` has these bytes now.
fn write_if_free(target: &Target, bytes: &[u8], sync: bool) -> io::Result<bool> {
    let mode = Mode::from_raw_mode(0o666);
    let named = match openat(target.folder(), ".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode) {
        Ok(file) => {
            let file = File::from(file);
            (&file).write_all(bytes)?;
            if sync {
                file.sync_all()?;
            }
            link(&file, target, target.name())
        }
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let (passing, mut file) = beside::create_passing(target.folder(), target.name())?;
            let written = file
                .write_all(bytes)
                .and_then(|()| attributes::give(&file, target, None))
                .and_then(|()| if sync { file.sync_all() } else { Ok(()) });
            let named = written
                .map(|()| atomic_file::rename_to_free(target.folder(), passing.as_os_str(), target.name()));
            if !matches!(named, Ok(Ok(()))) {
                beside::remove(target.folder(), &passing, &file);
            }
            named?
        }
        Err(errno) => Err(errno),
    };
    match named {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => naming::has_content(target, &mut &*bytes, bytes.len() as u64),
        Err(errno) => Err(errno.into()),
    }
}

fn failed(path: &Path, source: io::Error) -> GetError {
    GetError::Local { action: "write", path: path.to_owned(), source, kept: None }
}

fn write(target: &Target, bytes: &[u8], sync: bool) -> io::Result<Stored> {
    // Nobody else can open it before it has its name, so it may have its mode from the start.
    let mode = Mode::from_raw_mode(0o666);
    let file = match openat(target.folder(), ".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode) {
        Ok(file) => File::from(file),
        // File systems without unnamed files (overlay on old kernels, NFS, FUSE).
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return by_rename(target, bytes, sync),
        Err(errno) => return unless_in_place(target, errno.into()),
    };
    (&file).write_all(bytes)?;
    if sync {
        file.sync_all()?;
    }
    match link(&file, target, target.name()) {
        Err(Errno::EXIST) => {}
        other => return Ok(other.map(|()| Stored::Named)?),
    }
    let old = naming::may_replace(target)?;
    if has_names_to_keep(old.as_ref()) {
        return Ok(Stored::NeedsPart);
    }
    attributes::give(&file, target, old.as_ref())?;
    let mut tries = 0;
    let passing = loop {
        let passing = beside::passing_name(target.name());
        match link(&file, target, &passing) {
            Err(Errno::EXIST) if tries < TRIES => tries += 1,
            other => break other.map(|()| passing)?,
        }
    };
    match naming::swap_in(&file, target, &passing) {
        Ok(()) => Ok(Stored::Named),
        Err(error) => unless_in_place(target, error),
    }
}

/// linkat(2): AT_EMPTY_PATH wants a capability (before Linux 6.10), /proc/self/fd does not.
pub(super) fn link(file: &File, target: &Target, name: &std::ffi::OsStr) -> Result<(), Errno> {
    match linkat(file, "", target.folder(), name, AtFlags::EMPTY_PATH) {
        Err(Errno::NOENT) => {
            let own = format!("/proc/self/fd/{}", file.as_raw_fd());
            linkat(CWD, &*own, target.folder(), name, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    }
}

fn by_rename(target: &Target, bytes: &[u8], sync: bool) -> io::Result<Stored> {
    let old = naming::may_replace(target)?;
    if has_names_to_keep(old.as_ref()) {
        return Ok(Stored::NeedsPart);
    }
    let (passing, mut file) = match beside::create_passing(target.folder(), target.name()) {
        Ok(made) => made,
        Err(error) => return unless_in_place(target, error),
    };
    let written = file
        .write_all(bytes)
        .and_then(|()| attributes::give(&file, target, old.as_ref()))
        .and_then(|()| if sync { file.sync_all() } else { Ok(()) });
    if let Err(error) = written {
        beside::remove(target.folder(), &passing, &file);
        return Err(error);
    }
    match naming::swap_in(&file, target, &passing) {
        Ok(()) => Ok(Stored::Named),
        Err(error) => unless_in_place(target, error),
    }
}

/// Other names of the file that is there are to be its names after, too.
fn has_names_to_keep(old: Option<&Stat>) -> bool {
    old.is_some_and(|old| kind(old) == FileType::RegularFile && old.st_nlink > 1)
}

/// No new file can have the name. Perhaps the one that has it can be written.
fn unless_in_place(target: &Target, error: io::Error) -> io::Result<Stored> {
    let may_help = matches!(
        Errno::from_io_error(&error),
        Some(Errno::BUSY | Errno::XDEV | Errno::ACCESS | Errno::PERM | Errno::ROFS)
    );
    let regular = target.look()?.filter(|old| kind(old) == FileType::RegularFile);
    match regular.filter(|old| may_help && in_place::is_safe(old, target.folder())) {
        Some(_) => Ok(Stored::NeedsPart),
        None => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_appears_whole_and_replaces_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let target = Target::open(&path).unwrap();
        for bytes in [&b"one"[..], b"", b"three"] {
            assert_eq!(store(&target, bytes, false).unwrap(), Stored::Named);
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        for (bytes, store) in [(b"four", write as fn(&_, &_, _) -> _), (b"five", by_rename)] {
            store(&target, bytes, true).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_name_that_is_taken_stays_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let target = Target::open(&path).unwrap();
        store_if_free(&target, b"one", false).unwrap();
        store_if_free(&target, b"one", true).unwrap();
        for other in [&b"two"[..], b"on", b"one and more", b""] {
            assert!(matches!(store_if_free(&target, other, false), Err(GetError::Differs { .. })));
        }
        assert_eq!(fs::read(&path).unwrap(), b"one");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(matches!(store_if_free(&target, b"one", false), Err(GetError::Differs { .. })));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
