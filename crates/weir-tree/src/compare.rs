//! Is an entry the one that is already there?

use serde::{Deserialize, Serialize};

use crate::entry::Entry;

/// Which attributes of the source an entry gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// Mode, with set-user-id and the like; without it: the source's permissions less the umask, an existing
    /// file's own.
    pub modes: bool,
    /// Modification times.
    pub times: bool,
    /// The owner, by number, where root copies.
    pub users: bool,
    /// The group, by number, where root copies or a user who is in it.
    pub groups: bool,
    /// Extended attributes.
    pub xattrs: bool,
}

impl Keep {
    /// Everything, as `-a` asks for.
    pub const ALL: Keep = Keep { modes: true, times: true, users: true, groups: true, xattrs: true };
}

/// Two files of the same size and time are taken for the same: to the nanosecond, or with times that are up
/// to `window` seconds apart. Not a proof: `--checksum` is.
pub fn unchanged(a: &Entry, b: &Entry, window: u32) -> bool {
    let is_near = || a.mtime.secs().abs_diff(b.mtime.secs()) <= window.into();
    same_size(a, b) && (a.mtime == b.mtime || window > 0 && is_near())
}

/// Two files of the same size.
pub fn same_size(a: &Entry, b: &Entry) -> bool {
    a.is_file() && b.is_file() && a.size() == b.size()
}

/// The mode that a copy of the entry gets which gets its owner and group, as far as they are kept.
pub fn kept_mode(entry: &Entry, keep: Keep) -> u32 {
    kept_mode_of(entry, keep, (entry.uid, entry.gid))
}

/// The mode of a copy of the entry that belongs to `user` and `group`. The bits that let a file run as its
/// owner or group (chmod(2)) only go with that one: a file of somebody's would else be root's to everyone,
/// where root copied it, and root's would be that of whoever copied it (as cp -p and tar have it).
pub fn kept_mode_of(entry: &Entry, keep: Keep, (user, group): (u32, u32)) -> u32 {
    const AS_USER: u32 = 0o4000;
    const AS_GROUP: u32 = 0o2000;
    let without = |is_kept: bool, bit: u32| if entry.is_file() && !is_kept { bit } else { 0 };
    entry.mode
        & 0o7777
        & !without(keep.users && user == entry.uid, AS_USER)
        & !without(keep.groups && group == entry.gid, AS_GROUP)
}

/// Does `b`, which is there, have what is to be kept of the attributes of `a`, which is given to that user
/// and group, where it is given away? Extended ones are compared as the entries hold them.
pub(crate) fn same_attributes(
    a: &Entry,
    b: &Entry,
    keep: Keep,
    (user, group): (Option<u32>, Option<u32>),
) -> bool {
    (!keep.modes || kept_mode_of(a, keep, (b.uid, b.gid)) == b.mode)
        && (!keep.times || a.mtime == b.mtime)
        && user.is_none_or(|user| user == b.uid)
        && group.is_none_or(|group| group == b.gid)
        && (!keep.xattrs || a.xattrs == b.xattrs)
}
