//! What a run is asked to do.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::request::Request;
use crate::schedule::Arrivals;
use crate::target::{Address, Target};
use crate::way::Way;
use crate::wire::Tls;

/// A run, as the user asked for it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whom to ask.
    pub target: Target,
    /// Where connections may go, in the order in which they are tried; empty: what the target's host resolves
    /// to. A Unix socket stands here.
    pub addresses: Vec<Address>,
    /// Who makes the connections; `None`: they are made to the first of the addresses where somebody is.
    pub way: Option<Arc<dyn Way>>,
    /// TLS, for a target of https.
    pub tls: Option<Tls>,
    /// Connections, at least one.
    pub connections: u32,
    /// Loops, each a thread; at least one and at most as many as connections.
    pub threads: u32,
    /// How long; `None` where `requests` ends the run.
    pub span: Option<Duration>,
    /// How many requests, failed ones included.
    pub requests: Option<u64>,
    /// Load before the measured time.
    pub warm_up: Duration,
    /// A request that takes longer has failed.
    pub timeout: Duration,
    /// Requests a second, planned; `None`: each connection asks again when it was answered.
    pub rate: Option<f64>,
    /// How the requests of a rate follow one another.
    pub arrivals: Arrivals,
    /// Several requests over one connection.
    pub keep_alive: bool,
    /// What is asked.
    pub ask: Ask,
    /// Keep each request's times, at most this many.
    pub rows: usize,
    /// Open the connections evenly over this time, or with `rate` let the rate grow evenly to what it is.
    pub ramp: Duration,
    /// Show each answer to the run's observer (over HTTP/1.1).
    pub shows_answers: bool,
    /// Bytes of each socket's buffers, which the system sets otherwise.
    pub window: Option<u32>,
}

/// What is asked.
#[derive(Debug, Clone)]
pub enum Ask {
    /// Always the same bytes.
    Same(Vec<u8>),
    /// What a script of wrk's interface says.
    Script(ScriptSettings),
    /// Always the same, over HTTP/2: by ALPN where there is TLS, which has to offer it, else from the first
    /// byte on.
    Http2(Http2Settings),
}

/// A script and what it is given.
#[derive(Debug, Clone)]
pub struct ScriptSettings {
    /// The file.
    pub path: PathBuf,
    /// `args[1]` and on; `args[0]` is the URL.
    pub args: Vec<String>,
    /// What `wrk.method`, `wrk.headers` and `wrk.body` are at first.
    pub request: Request,
}

/// A request over HTTP/2.
#[derive(Debug, Clone)]
pub struct Http2Settings {
    /// What is asked; `close` means nothing here.
    pub request: Request,
    /// Requests under way at a time over each connection, at least one.
    pub streams: u32,
}

impl Settings {
    /// Requests that may be under way at a time over each connection.
    pub fn streams(&self) -> u32 {
        match &self.ask {
            Ask::Http2(http2) => http2.streams,
            Ask::Same(_) | Ask::Script(_) => 1,
        }
    }
}
