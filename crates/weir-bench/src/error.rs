//! Why a codec is not measured.

use std::io;

use weir_codec::codec::{self, Setting};

use crate::corpus;

/// A codec that cannot be measured because it does not work, or data that cannot be read any more.
#[derive(Debug, thiserror::Error)]
pub enum ErrorError {
    /// The data.
    #[error(transparent)]
    Corpus(#[from] corpus::CorpusError),
    /// It refused a block.
    #[error(transparent)]
    Codec(#[from] codec::CodecError),
    /// No thread for it.
    #[error(transparent)]
    Thread(#[from] io::Error),
    /// Other bytes came out than went in.
    #[error("{setting} does not give back what it took: block {block} differs")]
    RoundTrip {
        /// The codec and its level.
        setting: Setting,
        /// Which block, from 0.
        block: usize,
    },
}
