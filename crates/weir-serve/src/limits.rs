//! How many connections and requests may a server hold, by the descriptors that it has?

use crate::Error;

/// For what is open besides connections and their files: listeners, the root, the runtime, logs.
const RESERVED: u64 = 64;
/// A connection of each kind takes about 30 KiB while it is idle, so these are about 120 MiB.
const MOST_CONNECTIONS: usize = 4096;
/// Requests of HTTP/2 at the same time, in all: about 5 KiB each, so these are about 40 MiB.
const MOST_STREAMS: usize = 8192;

/// What a server holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    pub(crate) streams: usize,
}

/// Derives the limits from `RLIMIT_NOFILE`. A connection takes a socket and, while it answers, a file; a stream of HTTP/2
/// takes a file. So a third of the descriptors goes to each.
pub(crate) fn derive(descriptors: u64, asked: Option<usize>) -> Result<Limits, Error> {
    let third = usize::try_from(descriptors.saturating_sub(RESERVED) / 3).unwrap_or(usize::MAX).max(1);
    let streams = third.min(MOST_STREAMS);
    match asked {
        Some(asked) if asked > third => Err(Error::Descriptors { asked, possible: third }),
        Some(asked) => Ok(Limits { connections: asked, streams }),
        None => Ok(Limits { connections: third.min(MOST_CONNECTIONS), streams }),
    }
}

/// The descriptors that this process may have.
pub(crate) fn descriptors() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_descriptors_each() {
        let derived =
            |descriptors, asked| derive(descriptors, asked).ok().map(|l| (l.connections, l.streams));
        assert_eq!(derived(1024, None), Some((320, 320)));
        assert_eq!(derived(1 << 20, None), Some((MOST_CONNECTIONS, MOST_STREAMS)));
        assert_eq!(derived(u64::MAX, Some(100_000)), Some((100_000, MOST_STREAMS)));
        assert_eq!(derived(1024, Some(321)), None);
        assert_eq!(derived(10, None), Some((1, 1)));
    }
}
