//! What is served, where, and how slowly on purpose?

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_units::{Bytes, Rate};

use crate::ServeError;

/// The port that `weir serve` listens on when none is named.
const DEFAULT_PORT: u16 = 8000;

/// Everything that [`Server::bind`](crate::Server::bind) needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// What the paths of requests name.
    pub content: Content,
    /// Addresses to listen on; port 0 takes any free port.
    pub listen: Vec<SocketAddr>,
    /// Symbolic links are followed out of a served directory as well, to wherever they lead.
    pub follow_links: bool,
    /// HTTPS when present, plain HTTP otherwise.
    pub tls: Option<TlsSource>,
    /// Bytes of bodies per second, for each connection; heads and TLS framing are not counted.
    pub limit_rate: Option<Rate>,
    /// Wait before the first byte of each answer.
    pub delay: Duration,
    /// `SO_SNDBUF` of each connection as passed to the kernel, which doubles it and caps it at
    /// `net.core.wmem_max`.
    pub send_buffer: Option<Bytes>,
    /// Serve only so many connections at a time; the others are established by the kernel and wait
    /// unaccepted.
    pub connections_at_once: Option<usize>,
    /// The most connections that are held; beyond it, the longest idle one gives way to a new one. `None`
    /// derives it from the descriptors that the process may have: a third of them, at most 4096.
    pub max_connections: Option<usize>,
    /// How long answers that are being sent may take once the server is to stop; no others are begun then.
    pub drain: Duration,
}

/// Where the bytes come from.
#[derive(Debug, Clone)]
pub enum Content {
    /// A directory: nothing outside it is ever answered, unless [`Config::follow_links`] says so.
    Dir(PathBuf),
    /// Names and sizes of files whose bytes are the pattern of [`fill_pattern`](crate::fill_pattern); no disk
    /// is read.
    Generated(Vec<(String, u64)>),
    /// Short texts that are made when they are asked for.
    Live(Vec<LiveText>),
}

/// A text that says how things stand when it is asked for, and no later: nobody may keep it.
#[derive(Clone)]
pub struct LiveText {
    /// Its path, without a slash before it: `metrics`.
    pub name: String,
    /// Its `Content-Type`.
    pub media_type: &'static str,
    /// Makes it. It is called by the thread of a connection, so it must not wait; a connection holds its text
    /// while it is sent, so it must be short.
    pub make: Arc<dyn Fn() -> String + Send + Sync>,
}

impl fmt::Debug for LiveText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveText")
            .field("name", &self.name)
            .field("media_type", &self.media_type)
            .finish_non_exhaustive()
    }
}

/// Where the certificate comes from.
#[derive(Debug, Clone)]
pub enum TlsSource {
    /// Made at start for localhost, 127.0.0.1, ::1 and these names or addresses.
    SelfSigned {
        /// Additional DNS names or IP addresses.
        names: Vec<String>,
    },
    /// PEM files: the chain, leaf first, and its key.
    Files {
        /// The certificate chain.
        cert: PathBuf,
        /// The private key: PKCS#8, PKCS#1 or SEC1.
        key: PathBuf,
    },
}

impl Config {
    /// Plain HTTP on 127.0.0.1:8000, as fast as it goes.
    pub fn new(content: Content) -> Config {
        Config {
            content,
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT))],
            follow_links: false,
            tls: None,
            limit_rate: None,
            delay: Duration::ZERO,
            send_buffer: None,
            connections_at_once: None,
            max_connections: None,
            drain: Duration::ZERO,
        }
    }

    /// Listens on this one address instead.
    pub fn listen(mut self, address: SocketAddr) -> Config {
        self.listen = vec![address];
        self
    }

    /// Values that no server could honour are refused before anything is opened.
    pub(crate) fn check(&self) -> Result<(), ServeError> {
        let rate_is_usable = self.limit_rate.is_none_or(|rate| rate.0.is_finite() && rate.0 >= 1.0);
        if !rate_is_usable {
            return Err(ServeError::Config(
                "limit rate is below one byte per second: give a higher one or none",
            ));
        }
        if self.connections_at_once == Some(0) || self.max_connections == Some(0) {
            return Err(ServeError::Config("connections at once is zero: at least one must be served"));
        }
        if self.listen.is_empty() {
            return Err(ServeError::Config("no address to listen on: give at least one"));
        }
        Ok(())
    }
}
