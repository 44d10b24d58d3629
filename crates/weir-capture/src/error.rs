//! Why a capture could not be read at all. What is wrong further inside ends the reading there and is a note.

use std::io;

/// No packet could be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Reading failed before the first packet.
    #[error("reading failed")]
    Read(#[source] io::Error),
    /// The reading was stopped before the first packet.
    #[error("interrupted before its file header was read")]
    Interrupted,
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// The first bytes are those of no capture.
    #[error("it is neither pcap nor pcapng, plain or gzip (it begins with {0})")]
    Unknown(String),
    /// The file header is cut or contradicts itself.
    #[error("its file header is damaged: {0}")]
    Header(&'static str),
}
