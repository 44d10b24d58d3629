//! Owner, extended attributes, mode and times, in the order in which they do not undo each other.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, chmod, chmodat, chownat, fchmod,
    fchown, futimens, openat, utimensat,
};
use rustix::io::Errno;

use super::{Keep, LostAttribute, Shared};
use crate::compare::{kept_mode, kept_mode_of};
use crate::entry::{self, Entry, Kind, Special, Time};
use crate::error::TreeError;
use crate::source;
use crate::xattr;

/// What was known of a file or directory before it gets its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Was {
    /// It was made by weir.
    Made,
    /// It was there.
    There,
    /// It was there with this mode, which weir changed for a while; or it takes the place of a file with this
    /// mode.
    Borrowed(u32),
}

/// This process's umask. umask(2) can only be read by setting it, for all threads; /proc tells without.
pub fn umask() -> u32 {
    const USUAL: u32 = 0o022;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    field.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(USUAL)
}

/// Sets the attributes of what is open, as far as they differ: each call is a transaction of the file
/// system's journal, and looking costs a tenth of one. What cannot be kept is a word.
pub(super) fn of_file(
    shared: &Shared,
    file: BorrowedFd<'_>,
    entry: &Entry,
    was: Was,
) -> Result<(), TreeError> {
    // A directory that was there is somebody's: a copy that was not asked for modes only puts something in.
    let is_spared = entry.is_directory() && was != Was::Made && shared.spares_directories.load(Relaxed);
    let keep = if is_spared { Keep { modes: false, ..shared.keep } } else { shared.keep };
    let name = &entry.name;
    let note = |attribute, outcome| shared.words.note(attribute, name, outcome);
    let has = source::stat(file, b"").map_err(|errno| TreeError::of("look at", name, errno))?;
    // 1. The owner: chown(2) clears set-user-id bits and capabilities.
    let (user, group) = shared.ownership.given(entry, keep);
    let mut owner = (has.stx_uid, has.stx_gid);
    let given = (user.unwrap_or(owner.0), group.unwrap_or(owner.1));
    let chowned = given != owner;
    if chowned {
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        let by_name = || chownat(file, ".", user, group, AtFlags::empty());
        let outcome = or_by_name(fchown(file, user, group), by_name);
        owner = outcome.map_or(owner, |()| given);
        note(LostAttribute::Owner, outcome);
    }
    // 2. Extended attributes: those that are wanted, and none that a default ACL gave to what is new. Those
    //    of `user.*` need the permission to write, which the file's mode may take from its owner too: it is
    //    lent.
    let mut lent = false;
    if keep.xattrs {
        let fresh = was == Was::Made;
        let write_at =
            |at: xattr::At<'_>| xattr::write(at, &entry.xattrs, fresh, |name| shared.spares_xattr(name));
        let write = || or_by_name(write_at(xattr::At::Open(file)), || write_at(xattr::At::held(file)));
        let mut outcome = write();
        let own = u32::from(has.stx_mode) & 0o7777;
        if outcome == Err(Errno::ACCESS) && own & 0o200 == 0 {
            lent = set_mode(file, own | 0o200).is_ok();
            if lent {
                outcome = write();
            }
        }
        note(LostAttribute::Xattrs, outcome);
    }
    // 3. The mode.
    let mode = match was {
        _ if keep.modes => Some(kept_mode_of(entry, keep, owner)),
        Was::Made => Some(entry.mode & 0o777 & !shared.umask),
        Was::Borrowed(mode) => Some(mode),
        Was::There => lent.then(|| u32::from(has.stx_mode) & 0o7777),
    };
    if let Some(mode) = mode
        && (chowned || lent || u32::from(has.stx_mode) & 0o7777 != mode)
    {
        note(LostAttribute::Mode, set_mode(file, mode));
    }
    // 4. The times: of what was written they always differ.
    if keep.times {
        let times = timestamps(entry.mtime);
        let by_name = || utimensat(file, ".", &times, AtFlags::empty());
        note(LostAttribute::Times, or_by_name(futimens(file, &times), by_name));
    }
    Ok(())
}

/// Sets the mode of an open file or directory, also of a directory that was opened only to pass through.
pub(super) fn set_mode(file: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(mode);
    or_by_name(fchmod(file, mode), || chmodat(file, ".", mode, AtFlags::empty()))
}

/// fchmod(2) and its like refuse a descriptor of O_PATH (open(2)): a directory is then named `.` in itself.
fn or_by_name(outcome: Result<(), Errno>, by_name: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
    match outcome {
        Err(Errno::BADF) => by_name(),
        other => other,
    }
}

/// Sets the attributes of the symbolic link, device or pipe `last`, if it still is what the entry says. Links
/// have no mode.
pub(super) fn of_node(
    shared: &Shared,
    directory: &OwnedFd,
    last: &[u8],
    entry: &Entry,
) -> Result<(), TreeError> {
    let (keep, name) = (shared.keep, &entry.name);
    let note = |attribute, outcome| shared.words.note(attribute, name, outcome);
    // By a descriptor: between two calls by name someone else could swap in a link to a file that is worth
    // owning.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let node = openat(directory, last, flags, Mode::empty())
        .map_err(|errno| TreeError::of("look at", name, errno))?;
    let stat = source::stat(&node, b"").map_err(|errno| TreeError::of("look at", name, errno))?;
    let is_same = match entry.kind {
        Kind::Special(special) => Special::of(&stat) == Some(special),
        _ => entry::file_type(&stat).is_symlink(),
    };
    if !is_same {
        return Err(TreeError::ReplacedThere { name: name.clone() });
    }
    let (user, group) = shared.ownership.given(entry, keep);
    if user.is_some() || group.is_some() {
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        note(LostAttribute::Owner, chownat(&node, "", user, group, AtFlags::EMPTY_PATH));
    }
    if let Kind::Special(_) = entry.kind {
        let mode = if keep.modes { kept_mode(entry, keep) } else { entry.mode & 0o777 & !shared.umask };
        // fchmod(2) does not take a descriptor of O_PATH, its name under /proc leads to the node itself.
        let held = format!("/proc/self/fd/{}", node.as_raw_fd());
        note(LostAttribute::Mode, chmod(held, Mode::from_raw_mode(mode)));
    }
    // One that was made here may have the access list that its folder gives to what is new (acl(5)).
    if keep.xattrs && (!entry.xattrs.is_empty() || matches!(entry.kind, Kind::Special(_))) {
        let at = xattr::At::name(directory.as_fd(), last);
        note(LostAttribute::Xattrs, xattr::write(at, &entry.xattrs, false, |name| shared.spares_xattr(name)));
    }
    if keep.times {
        let times = timestamps(entry.mtime);
        let outcome = match utimensat(&node, "", &times, AtFlags::EMPTY_PATH) {
            // AT_EMPTY_PATH is from Linux 5.8 (commit 33ed0d3).
            Err(Errno::INVAL) => utimensat(directory, last, &times, AtFlags::SYMLINK_NOFOLLOW),
            other => other,
        };
        note(LostAttribute::Times, outcome);
    }
    Ok(())
}

fn timestamps(mtime: Time) -> Timestamps {
    let modified = Timespec { tv_sec: mtime.secs(), tv_nsec: mtime.nanos().into() };
    Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: modified }
}
