//! How many files and sockets may be open at once?

use rustix::process::{Resource, getrlimit};
use weir_model::ability::Finding;

/// A copy keeps up to 4096 folders of its trees open, a load test of a thousand connections a descriptor
/// each: from here on nothing of that is cut short. It is also what most systems allow.
const PLENTY: u64 = 4096;

/// Of a transfer with few connections: sockets, files, journals, what /proc is read through, and some to
/// spare.
const NEEDED: u64 = 64;

pub(super) fn limit() -> Finding {
    let limit = getrlimit(Resource::Nofile);
    let origin = "getrlimit(RLIMIT_NOFILE)";
    let Some(most) = limit.maximum else { return Finding::ok("any number", origin) };
    // weir raises its own limit up to the hard one.
    let reading = format!("at most {most} at once");
    match most {
        PLENTY.. => Finding::ok(reading, origin),
        NEEDED.. => Finding::limited(reading, origin),
        _ => Finding::missing(format!("{reading}: too few for a transfer"), origin),
    }
}
