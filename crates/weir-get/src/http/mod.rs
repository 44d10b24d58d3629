//! HTTP as a downloader needs it: connections that lanes block on, one answer at a time.
//!
//! HTTP/1.1 is ours, because its bytes are the byte path; HTTP/2 is the `h2` crate behind the same
//! [`Exchange`].

pub mod address;
pub mod authority;
pub mod call;
mod carried;
pub mod connection;
pub mod credentials;
pub mod decoded;
mod dialling;
pub mod exchange;
pub mod h2_session;
pub mod identity;
pub mod jar;
pub mod ladder;
pub mod logins;
pub mod offer;
pub mod parts;
pub mod proxy;
pub mod reach;
pub mod request;
pub mod said;
pub mod sockets;
mod socks;
pub mod speed;
pub mod tls;
mod tls_words;
pub mod trust;
pub mod waiting;
pub mod window;

pub use connection::Connection;
pub use exchange::Exchange;

/// Hosts and URLs of which a run remembers what it has learnt, of each kind: four times as many as there are
/// jobs at once, in a few megabytes. What is forgotten is learnt again by a request more.
pub(crate) const REMEMBERED: usize = 40_000;

/// A set or map to which something is about to be added.
pub(crate) trait Memory {
    /// How much it holds.
    fn held(&self) -> usize;
    /// Everything goes.
    fn forget(&mut self);
}

impl<K, V, S> Memory for std::collections::HashMap<K, V, S> {
    fn held(&self) -> usize {
        self.len()
    }

    fn forget(&mut self) {
        self.clear();
    }
}

impl<K, S> Memory for std::collections::HashSet<K, S> {
    fn held(&self) -> usize {
        self.len()
    }

    fn forget(&mut self) {
        self.clear();
    }
}

/// Forgets what `memory` holds, if that is as much as may be remembered.
pub(crate) fn make_room(memory: &mut impl Memory) {
    if memory.held() >= REMEMBERED {
        memory.forget();
    }
}
