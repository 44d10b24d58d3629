//! What keeps a server from starting?

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Only starting can fail: once bound, trouble with one connection ends that connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A value of [`Config`](crate::Config) that cannot be honoured.
    #[error("{0}")]
    Config(&'static str),
    /// More connections than there are descriptors for.
    #[error("cannot hold {asked} connections: the limit of open files (RLIMIT_NOFILE) allows {possible}")]
    Descriptors {
        /// How many were asked for.
        asked: usize,
        /// How many there may be.
        possible: usize,
    },
    /// The served directory is absent, not a directory, or may not be entered.
    #[error("cannot serve directory {}", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The address is in use, not of this host, or a port below 1024 without the privilege.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the certificate or its key that cannot be read, is no file or is too large to be one.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the certificate or its key that holds none.
    #[error("cannot use {} as a PEM certificate or key", path.display())]
    PemFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// A private key that a password locks.
    #[error(
        "cannot use {}: the key is encrypted; openssl pkey -in FILE -out FILE writes it without a password",
        path.display()
    )]
    EncryptedKey {
        /// The file.
        path: PathBuf,
    },
    /// A self-signed certificate could not be made, most likely for a name that is no DNS name.
    #[error("cannot make a certificate for {names}")]
    SelfSigned {
        /// The names, separated by commas.
        names: String,
        /// Why.
        source: rcgen::Error,
    },
    /// The certificate and the key do not fit each other, or are of an unsupported kind.
    #[error("cannot set up TLS with this certificate and key")]
    Tls(#[source] rustls::Error),
    /// The system refused a thread, an event descriptor or memory.
    #[error("cannot start {what}")]
    Start {
        /// What was being started.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl ServeError {
    /// For `map_err` on the few system calls at start.
    pub(crate) fn start(what: &'static str) -> impl Fn(io::Error) -> ServeError {
        move |source| ServeError::Start { what, source }
    }
}
