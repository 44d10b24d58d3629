//! Why a load run could not be made.

use std::io;
use std::path::PathBuf;

use weir_units::{plain, unreached, unresolved};

/// What ends a run before it has a result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No URL that can be asked for.
    #[error("invalid URL '{url}': {why}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A loop had no moment left to end in: its figures are not known, and without them there are none.
    #[error(
        "loop {number} did not come to its end: it got no processor in time; run less beside it, or use fewer loops (-t)"
    )]
    LoopHangs {
        /// Which, from 1 on.
        number: usize,
    },
    /// The resolver knows no such host.
    #[error("cannot resolve {host}: {}{}", plain(cause), unresolved(cause))]
    Resolve {
        /// The host and port.
        host: String,
        /// The resolver's words.
        #[source]
        cause: io::Error,
    },
    /// Nobody accepts a connection there.
    #[error("cannot connect to {target}: {}{}", plain(cause), unreached(cause))]
    Connect {
        /// Where to.
        target: String,
        /// The last address's error.
        #[source]
        cause: io::Error,
    },
    /// The way makes no connection, in its own words.
    #[error("{0}")]
    Way(String),
    /// More connections than this process may have descriptors.
    #[error(
        "{connections} connections need about {needed} descriptors, but the hard limit is {limit}: \
         use fewer (-c), or raise it (ulimit -Hn, as root)"
    )]
    Descriptors {
        /// Asked for.
        connections: u32,
        /// Descriptors that this takes.
        needed: u64,
        /// `RLIMIT_NOFILE`, hard.
        limit: u64,
    },
    /// A system call that should have worked.
    #[error("cannot {what}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// HTTP/2 was asked for, and another protocol spoken.
    #[error("{authority} does not speak HTTP/2: ask without --http2")]
    NoHttp2 {
        /// Host and port.
        authority: String,
    },
    /// What was asked for cannot be said in HTTP/2.
    #[error("cannot ask this over HTTP/2: {0}")]
    Http2Request(String),
    /// A name that no certificate can have.
    #[error("'{0}' is not a name that a certificate can have")]
    TlsName(String),
    /// The script cannot be read.
    #[error("cannot read the script {}", path.display())]
    ScriptFile {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// The script failed; Lua's message begins with file and line.
    #[error("{0}")]
    Script(String),
    /// The script's function did not return.
    #[error("the script {} did not return from {function}: an endless loop?", path.display())]
    ScriptHangs {
        /// Which.
        path: PathBuf,
        /// As far as it is known.
        function: String,
    },
    /// What the script's `request()` gave is no HTTP request.
    #[error("{what} at {line}:{column} of the script's first request")]
    ScriptRequest {
        /// What is wrong.
        what: &'static str,
        /// Line of the request's text, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// SIGINT or SIGTERM before the first request.
    #[error("interrupted")]
    Interrupted,
}

impl LoadError {
    pub(crate) fn system(what: &'static str, cause: impl Into<io::Error>) -> LoadError {
        LoadError::System { what, cause: cause.into() }
    }
}
