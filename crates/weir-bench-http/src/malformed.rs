//! What is wrong with an answer that cannot be one, and how large a head may be.

/// The most bytes of a head, as everywhere in weir.
pub const MAX_HEAD: usize = 64 << 10;

/// The most fields of a head.
pub(crate) const MAX_FIELDS: usize = 128;

/// An answer that is not valid HTTP, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No HTTP/1 head.
    #[error("the answer's head is not HTTP/1")]
    Head,
    /// The first frame of a server of HTTP/2, or a client's preface (RFC 9113 section 3.4).
    #[error("the answer is HTTP/2")]
    Http2,
    /// A record of TLS.
    #[error("the answer is TLS")]
    Tls,
    /// Beyond [`MAX_FIELDS`].
    #[error("the answer's head has more than {MAX_FIELDS} fields")]
    TooManyFields,
    /// Beyond [`MAX_HEAD`].
    #[error("the answer's head exceeds {MAX_HEAD} bytes")]
    HeadTooLong,
    /// A length that is no number, two that differ, or a coding other than chunked.
    #[error("the end of the answer's body cannot be told")]
    Framing,
    /// A broken chunk.
    #[error("the answer's chunks are malformed")]
    Chunks,
}
