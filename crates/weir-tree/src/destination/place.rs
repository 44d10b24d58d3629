//! How something gets its name: whole, over what was there, and only over what may be replaced.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxAttributes, linkat, readlinkat, symlinkat, unlinkat};
use rustix::io::Errno;
use weir_units::atomic_file;

use crate::entry::{self, LinkTarget, Name};
use crate::error::TreeError;
use crate::source::{self, Identity};

/// What is at `last`: nothing, or something that may be replaced. A directory stays, and so does what is no
/// data: a device or pipe that someone put there is not to be lost to a file of the same name.
pub(super) fn check(
    directory: &OwnedFd,
    last: &[u8],
    new: &'static str,
    name: &Name,
) -> Result<Option<u32>, TreeError> {
    let stat = match source::stat(directory, last) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(TreeError::of("look at", name, errno)),
    };
    let old = match entry::file_type(&stat) {
        FileType::RegularFile => return Ok(Some(u32::from(stat.stx_mode) & 0o7777)),
        FileType::Symlink => return Ok(None),
        FileType::Directory => "a directory",
        _ => "a device, pipe or socket",
    };
    Err(TreeError::Clash { name: name.clone(), new, old })
}

/// Refuses to put a file in place of a link to a device, pipe or socket, such as `/dev/stdout`.
pub fn check_link(path: &Path) -> Result<(), TreeError> {
    let is_data = |there: std::fs::Metadata| there.is_file() || there.is_dir();
    if !path.is_symlink() || std::fs::metadata(path).map_or(true, is_data) {
        return Ok(());
    }
    let name = Name::new(path.file_name().unwrap_or_default().as_bytes())?;
    Err(TreeError::Clash { name, new: "a file", old: "a link to a device, pipe or socket" })
}

/// A name for a moment: that of a part, so that one left by a kill is known for what it is.
pub(super) fn passing_name() -> Vec<u8> {
    format!(".{:016x}.weir-part", fastrand::u64(..)).into_bytes()
}

/// Gives an unnamed file its name.
pub(super) fn link(
    file: BorrowedFd<'_>,
    directory: &OwnedFd,
    last: &[u8],
    name: &Name,
) -> Result<(), TreeError> {
    let failed = |errno| TreeError::of("create", name, errno);
    match link_open(file, directory, last) {
        Err(Errno::EXIST) => {}
        other => return other.map_err(failed),
    }
    check(directory, last, "a file", name)?;
    let passing = passing_name();
    link_open(file, directory, &passing).map_err(failed)?;
    rename(directory, &passing, last, name)
}

/// linkat(2): AT_EMPTY_PATH wants a capability (before Linux 6.10), /proc/self/fd does not.
fn link_open(file: BorrowedFd<'_>, directory: &OwnedFd, last: &[u8]) -> Result<(), Errno> {
    match linkat(file, "", directory, last, AtFlags::EMPTY_PATH) {
        Err(Errno::NOENT) => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            linkat(CWD, path, directory, last, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    }
}

/// What is done to put one thing in the place of another.
const REPLACE: &str = "replace";

/// Puts `passing` in the place of `last`; on failure `passing` goes.
pub(super) fn rename(directory: &OwnedFd, passing: &[u8], last: &[u8], name: &Name) -> Result<(), TreeError> {
    atomic_file::replace(directory, passing, last).map_err(|errno| TreeError::of(REPLACE, name, errno))
}

/// Whether [`rename`] failed because something is mounted on the name (rename(2)): servers of files answer
/// the same where somebody has a file open.
pub(super) fn is_mount_point(error: &TreeError, directory: &OwnedFd, last: &[u8]) -> bool {
    let TreeError::Entry { action, source: why, .. } = error else { return false };
    let is_mounted = |stat: Statx| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    *action == REPLACE
        && Errno::from_io_error(why) == Some(Errno::BUSY)
        && source::stat(directory, last).is_ok_and(is_mounted)
}

/// Runs `keep`, which keeps what is there, then renames; if either fails, `passing` goes.
pub(super) fn replace(
    directory: &OwnedFd,
    passing: &[u8],
    last: &[u8],
    name: &Name,
    keep: impl FnOnce() -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    keep().inspect_err(|_| {
        let _ = unlinkat(directory, passing, AtFlags::empty());
    })?;
    rename(directory, passing, last, name)
}

/// Makes a symbolic link. One that is there already stays unless it is to be made `anew`, and nothing is kept
/// of it.
pub(super) fn symlink(
    (directory, last): (&OwnedFd, &[u8]),
    target: &LinkTarget,
    name: &Name,
    anew: bool,
    keep: impl FnOnce() -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    let failed = |errno| TreeError::of("create", name, errno);
    match symlinkat(target.as_bytes(), directory, last) {
        Err(Errno::EXIST) => {}
        other => return other.map_err(failed),
    }
    check(directory, last, "a symbolic link", name)?;
    let is_there =
        || readlinkat(directory, last, Vec::new()).is_ok_and(|there| there.as_bytes() == target.as_bytes());
    if !anew && is_there() {
        return Ok(());
    }
    let passing = passing_name();
    symlinkat(target.as_bytes(), directory, &passing).map_err(failed)?;
    replace(directory, &passing, last, name, keep)
}

/// What is done to make a second name.
const LINK: &str = "link";

/// Makes a second name of a file. One that is there already stays, and nothing is kept of it.
pub(super) fn hard_link(
    from: (&OwnedFd, &[u8]),
    to: (&OwnedFd, &[u8]),
    name: &Name,
    keep: impl FnOnce() -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    let failed = |errno| TreeError::of(LINK, name, errno);
    match linkat(from.0, from.1, to.0, to.1, AtFlags::empty()) {
        Err(Errno::EXIST) => {}
        other => return other.map_err(failed),
    }
    check(to.0, to.1, "a file", name)?;
    // rename(2) does nothing where both names are of one file, and would leave the passing one.
    let identity = |(directory, last): (&OwnedFd, &[u8])| {
        source::stat(directory, last).map(|stat| Identity::from_statx(&stat))
    };
    if identity(from).map_err(failed)? == identity(to).map_err(failed)? {
        return Ok(());
    }
    let passing = passing_name();
    linkat(from.0, from.1, to.0, &passing, AtFlags::empty()).map_err(failed)?;
    replace(to.0, &passing, to.1, name, keep)
}

/// Why the file can have no second name there, where [`hard_link`] failed for that (link(2)): its file system
/// knows none, another one is mounted there, it has as many as it can, or it may not be changed.
pub(super) fn why_no_link(error: &TreeError) -> Option<Errno> {
    const REASONS: [Errno; 4] = [Errno::PERM, Errno::OPNOTSUPP, Errno::MLINK, Errno::XDEV];
    let TreeError::Entry { action, source, .. } = error else { return None };
    let errno = Errno::from_io_error(source).filter(|_| *action == LINK)?;
    REASONS.contains(&errno).then_some(errno)
}
