//! How many connections and requests may a server hold, by the descriptors that it has?

use std::time::Duration;

use crate::ServeError;

/// A client that has not finished its handshake by then never will.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
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

/// Derives the limits from `RLIMIT_NOFILE`. A connection takes a socket and, while it answers, a file; a
/// stream of HTTP/2 takes a file. So a third of the descriptors goes to each; who asks for more connections
/// gets up to three quarters for their sockets, since few of them answer at the same time.
pub(crate) fn derive(descriptors: u64, asked: Option<usize>) -> Result<Limits, ServeError> {
    let all = usize::try_from(descriptors.saturating_sub(RESERVED)).unwrap_or(usize::MAX);
    let possible = (all / 4 * 3).max(1);
    let connections = match asked {
        Some(asked) if asked > possible => return Err(ServeError::Descriptors { asked, possible }),
        Some(asked) => asked,
        None => (all / 3).clamp(1, MOST_CONNECTIONS),
    };
    let streams = (all.saturating_sub(connections) / 2).clamp(1, MOST_STREAMS);
    Ok(Limits { connections, streams })
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
        assert_eq!(derived(1024, Some(720)), Some((720, 120)));
        assert_eq!(derived(1024, Some(721)), None);
        assert_eq!(derived(10, None), Some((1, 1)));
    }
}
