//! How many files may be open at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The usual limit of a process, where nothing is known.
const USUAL: u64 = 1024;

/// Takes as many descriptors as the system allows: trees of many folders and files under way need more than the usual 1024.
pub(crate) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    // It may always be raised up to the hard one; where not, what is allowed has to do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// How many folders the files that wait to be sent may keep open: a quarter, and never so many that they cost memory.
pub(crate) fn for_folders() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(USUAL);
    (limit / 4).clamp(64, 4096) as usize
}

/// How many connections may wait at the port for lanes without having proven anything: an eighth, so that lanes and files have theirs, and
/// no more than are heard in a blink.
pub(crate) fn for_guests() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(USUAL);
    (limit / 8).clamp(4, 64) as usize
}
