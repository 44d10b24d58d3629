//! Is an entry the one that is already there?

use crate::entry::Entry;
use crate::target::Keep;

/// Two files of the same size and time, to the nanosecond, are taken for the same. Not a proof: `--checksum` is.
pub fn unchanged(a: &Entry, b: &Entry) -> bool {
    a.is_file() && b.is_file() && a.size() == b.size() && a.mtime == b.mtime
}

/// Are the attributes that are to be kept the same? Extended ones are compared as the entries hold them.
pub fn same_attributes(a: &Entry, b: &Entry, keep: Keep) -> bool {
    (!keep.modes || a.mode == b.mode)
        && (!keep.times || a.mtime == b.mtime)
        && (!keep.owners || (a.uid, a.gid) == (b.uid, b.gid))
        && (!keep.xattrs || a.xattrs == b.xattrs)
}
