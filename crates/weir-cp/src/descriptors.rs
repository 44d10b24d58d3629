//! How many files may be open at once.

use weir_units::nofile;

/// Takes as many descriptors as the system allows: trees of many folders and files under way need more than
/// the usual 1024.
pub(crate) fn raise() {
    // Where it is refused, what is allowed has to do.
    let _ = nofile::raise(u64::MAX);
}

/// How many folders the files that wait to be sent may keep open: a quarter, and never so many that they cost
/// memory.
pub(crate) fn for_folders() -> usize {
    nofile::share(4, 4096)
}

/// How many connections may wait at the port for lanes without having proven anything: an eighth, so that
/// lanes and files have theirs, and no more than are heard in a blink.
pub(crate) fn for_guests() -> usize {
    nofile::share(8, 64)
}
