//! A small file, written in one piece: an unnamed file that gets its name when it is whole.
//!
//! One directory operation a file (`linkat`), where a temporary name and a rename would be three.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat, flock, linkat, openat};
use rustix::io::Errno;

use super::attributes::NewFile;
use super::beside::For;
use super::folder::{Target, kind};
use super::{attributes, beside, home, in_place, naming};
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

/// Puts `bytes` at `target` unless something has that name: a file with the same content stays. `new`: what
/// the file gets beside them.
pub fn store_if_free(target: &Target, bytes: &[u8], sync: bool, new: &NewFile) -> Result<(), GetError> {
    match write_if_free(target, bytes, sync, new) {
        Ok(true) => Ok(()),
        Ok(false) => Err(GetError::Differs { path: target.path().to_owned() }),
        Err(source) => Err(failed(target.path(), source)),
    }
}

/// Whether `target` has these bytes now.
fn write_if_free(target: &Target, bytes: &[u8], sync: bool, new: &NewFile) -> io::Result<bool> {
    let mode = Mode::from_raw_mode(new.mode);
    let named = match openat(target.folder(), ".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode) {
        Ok(file) => {
            let file = File::from(file);
            (&file).write_all(bytes)?;
            new.give_time(&file);
            atomic_file::settled(&file, sync)?;
            link(&file, target, target.name())
        }
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let (passing, mut file) = beside::create_passing(target.folder(), target.name())?;
            let written = file
                .write_all(bytes)
                .and_then(|()| attributes::give_new(&file, target, new))
                .and_then(|()| atomic_file::settled(&file, sync));
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
    atomic_file::settled(&file, sync)?;
    match link(&file, target, target.name()) {
        Err(Errno::EXIST) => {}
        other => return Ok(other.map(|()| Stored::Named)?),
    }
    let old = naming::may_replace(target)?;
    if has_names_to_keep(old.as_ref()) {
        return Ok(Stored::NeedsPart);
    }
    // Before it has the rights of the other file, which may keep its owner from writing.
    beside::mark(&file);
    attributes::give(&file, target, old.as_ref())?;
    let passing = give_passing_name(&file, target)?;
    beside::unmark(&file);
    match naming::swap_in(&file, target, &passing) {
        Ok(()) => Ok(Stored::Named),
        Err(error) => unless_in_place(target, error),
    }
}

/// The name that `file` has until it takes the target's: its part's, where a kill in between leaves what the
/// next download of that name finds. Where others may write, and where that name is used, one that nobody can
/// foresee.
fn give_passing_name(file: &File, target: &Target) -> io::Result<OsString> {
    // Another weir that finds it knows that it is at work.
    let is_locked = flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
    let part = free_part(target).filter(|_| is_locked);
    if let Some(part) = part
        && link(file, target, &part).is_ok()
    {
        return Ok(part);
    }
    let mut tries = 0;
    loop {
        let passing = beside::passing_name(target.name());
        match link(file, target, &passing) {
            Err(Errno::EXIST) if tries < TRIES => tries += 1,
            other => return Ok(other.map(|()| passing)?),
        }
    }
}

/// The name of the part of `target`, if nothing has it, or only what a kill has left there; `None`: it may be
/// in use.
fn free_part(target: &Target) -> Option<OsString> {
    let [part, journal, _] = home::kept_names(target.name());
    let folder = target.folder();
    if folder.is_shared() || folder.look(&journal).ok()?.is_some() {
        return None;
    }
    if folder.look(&part).ok()?.is_some() {
        let left = beside::peek(folder, &part, For::Writing).ok()??;
        flock(&left, FlockOperation::NonBlockingLockExclusive).ok()?;
        if !beside::is_leftover(folder, &left) {
            return None;
        }
        beside::remove(folder, &part, &left);
    }
    Some(part)
}

/// linkat(2): AT_EMPTY_PATH wants a capability (before Linux 6.10), /proc/self/fd does not.
pub(super) fn link(file: &File, target: &Target, name: &OsStr) -> Result<(), Errno> {
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
    let of_part = free_part(target).and_then(|part| {
        let file = beside::create(target.folder(), &part).ok()?;
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        beside::mark(&file);
        Some(Ok((part, file)))
    });
    let made = of_part.unwrap_or_else(|| beside::create_passing(target.folder(), target.name()));
    let (passing, mut file) = match made {
        Ok(made) => made,
        Err(error) => return unless_in_place(target, error),
    };
    let written = file
        .write_all(bytes)
        .and_then(|()| if sync { file.sync_data() } else { Ok(()) })
        .map(|()| beside::unmark(&file))
        .and_then(|()| attributes::give(&file, target, old.as_ref()))
        .and_then(|()| atomic_file::settled(&file, sync));
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
        // What a kill has left goes; what is of another download, or at work, stays.
        let part = dir.path().join("x.part");
        for (store, way) in [(write as fn(&_, &_, _) -> _, "linked"), (by_rename, "renamed")] {
            let leave = || {
                fs::write(&part, "left").unwrap();
                beside::mark(&File::open(&part).unwrap());
            };
            leave();
            assert_eq!(store(&target, b"six", false).unwrap(), Stored::Named);
            assert!(!part.exists(), "{way}");
            leave();
            fs::write(dir.path().join("x.weir"), "").unwrap();
            assert_eq!(store(&target, b"seven", false).unwrap(), Stored::Named);
            assert_eq!(fs::read(&part).unwrap(), b"left", "{way}");
            fs::remove_file(dir.path().join("x.weir")).unwrap();
            let at_work = File::options().write(true).open(&part).unwrap();
            flock(&at_work, FlockOperation::NonBlockingLockExclusive).unwrap();
            assert_eq!(store(&target, b"eight", false).unwrap(), Stored::Named);
            assert_eq!(fs::read(&part).unwrap(), b"left", "{way}");
            drop(at_work);
            // Another program's, for whatever it is.
            beside::unmark(&File::open(&part).unwrap());
            assert_eq!(store(&target, b"nine", false).unwrap(), Stored::Named);
            assert_eq!(fs::read(&part).unwrap(), b"left", "{way}");
            fs::remove_file(&part).unwrap();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{way}");
        }
    }

    #[test]
    fn a_name_that_is_taken_stays_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let target = Target::open(&path).unwrap();
        let new = NewFile::default();
        store_if_free(&target, b"one", false, &new).unwrap();
        store_if_free(&target, b"one", true, &new).unwrap();
        for other in [&b"two"[..], b"on", b"one and more", b""] {
            assert!(matches!(store_if_free(&target, other, false, &new), Err(GetError::Differs { .. })));
        }
        assert_eq!(fs::read(&path).unwrap(), b"one");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(matches!(store_if_free(&target, b"one", false, &new), Err(GetError::Differs { .. })));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
