//! Where the body of a message ends (RFC 9112 section 6.3).

use weir_codec::content::Coding;

use crate::fields::Fields;
use crate::grammar;

/// A body whose end cannot be told with certainty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Not digits, or beyond what a file can hold.
    #[error("invalid Content-Length '{value}': expected a number of bytes below 2^63")]
    ContentLength {
        /// What was given.
        value: String,
    },
    /// Two values that differ (RFC 9110 section 8.6).
    #[error("Content-Length is given twice, as {first} and as {second}: the message cannot be trusted")]
    TwoLengths {
        /// The first value.
        first: u64,
        /// Another one.
        second: u64,
    },
    /// Both ways at once (RFC 9112 section 6.1).
    #[error("both Content-Length and Transfer-Encoding are given: the message cannot be trusted")]
    LengthAndCoding,
    /// A coding that weir cannot undo, or one behind `chunked`, so that no reader can tell where it ends.
    #[error(
        "unsupported Transfer-Encoding '{value}': expected chunked, alone or behind gzip, deflate, br or zstd"
    )]
    TransferEncoding {
        /// What was given.
        value: String,
    },
    /// A transfer coding from a peer that cannot know them (RFC 9112 section 6.1).
    #[error("Transfer-Encoding is given in a message of HTTP/1.0: the message cannot be trusted")]
    CodingInHttp10,
}

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body, whatever the fields say.
    None,
    /// This many bytes.
    Length(u64),
    /// This many bytes, and then the connection closes: one reader goes by the length, another by the close,
    /// and only where they meet nobody disagrees about the end.
    LengthAtClose(u64),
    /// Chunks, for [`crate::ChunkedDecoder`].
    Chunked,
    /// All bytes until the connection closes. A cut connection cannot be told from the end, so the size has
    /// to be known from elsewhere.
    UntilClose,
}

/// The value of `Content-Length`, if given. The same value several times counts once (RFC 9110 section 8.6).
pub fn content_length(fields: &Fields) -> Result<Option<u64>, BodyError> {
    let mut length = None;
    for value in fields.headers_all("content-length").flat_map(|value| value.split(',')) {
        let value = grammar::trim(value);
        let next = grammar::parse_offset(value)
            .ok_or_else(|| BodyError::ContentLength { value: weir_units::quoted(value) })?;
        match length {
            Some(first) if first != next => return Err(BodyError::TwoLengths { first, second: next }),
            _ => length = Some(next),
        }
    }
    Ok(length)
}

/// The framing of a response of this status and these fields to a request with `method`, by the rules of
/// RFC 9112 section 6.3 in their order.
pub(crate) fn response_framing(method: &str, status: u16, fields: &Fields) -> Result<Framing, BodyError> {
    // 1. No body after HEAD, nor with 1xx, 204 and 304. 2. A tunnel after CONNECT.
    let tunnel = method == "CONNECT" && (200..300).contains(&status);
    if method == "HEAD" || tunnel || matches!(status, 100..200 | 204 | 304) {
        return Ok(Framing::None);
    }
    // 3. and 4. Transfer-Encoding, which overrides a length beside it; two lengths stay a contradiction all
    //    the same.
    let length = content_length(fields)?;
    let transfer = transfer(fields)?;
    if transfer.is_chunked {
        return Ok(Framing::Chunked);
    }
    // By section 6.3 it ends with the connection then; a reader that goes by the length may read another end.
    if !transfer.codings.is_empty() {
        return Ok(length.map_or(Framing::UntilClose, Framing::LengthAtClose));
    }
    // 5. and 6. Content-Length; 8. the end of the connection.
    Ok(length.map_or(Framing::UntilClose, Framing::Length))
}

/// The framing of a request of HTTP/1.`minor` with these fields: without a length there is no body (RFC
/// 9112 section 6.3, rule 7).
///
/// A server may refuse what a client has to make the best of, and does: a request that two readers could read
/// in two ways is how one is smuggled behind another (section 11.2).
pub(crate) fn request_framing(fields: &Fields, minor: u8) -> Result<Framing, BodyError> {
    Ok(framed(fields, minor)?.unwrap_or(Framing::None))
}

/// The codings under which a response's body travels, the last applied first. Few servers use any, and none
/// is asked to (weir sends no `TE`); what they hold is the body all the same.
pub(crate) fn transfer_codings(fields: &Fields) -> Vec<Coding> {
    let mut codings = transfer(fields).map(|transfer| transfer.codings).unwrap_or_default();
    codings.reverse();
    codings
}

/// What `Transfer-Encoding` says of a response.
#[derive(Debug, Default)]
struct Transfer {
    is_chunked: bool,
    /// Those before `chunked`, in the order in which they were applied.
    codings: Vec<Coding>,
}

/// `identity` is no coding, nor is `none`, which some servers write for it. `chunked` that is named twice was
/// applied once: no sender packs chunks into chunks (section 6.1).
fn transfer(fields: &Fields) -> Result<Transfer, BodyError> {
    /// As many as of a body's own codings.
    const MOST: usize = 3;
    let mut transfer = Transfer::default();
    // Every line, unlike `Fields::members`: what is skipped here would be smuggled.
    for value in fields.headers_all("transfer-encoding") {
        for word in value.split(',').map(grammar::trim).filter(|word| !word.is_empty()) {
            match Coding::from_http_name(&word.to_ascii_lowercase()) {
                Some(coding) if !transfer.is_chunked && transfer.codings.len() < MOST => {
                    transfer.codings.push(coding);
                }
                None if word.eq_ignore_ascii_case("chunked") => transfer.is_chunked = true,
                None if ["identity", "none"].iter().any(|none| word.eq_ignore_ascii_case(none)) => {}
                _ => return Err(BodyError::TransferEncoding { value: weir_units::quoted(value) }),
            }
        }
    }
    Ok(transfer)
}

fn framed(fields: &Fields, minor: u8) -> Result<Option<Framing>, BodyError> {
    let length = content_length(fields)?;
    if fields.header("transfer-encoding").is_none() {
        return Ok(length.map(Framing::Length));
    }
    if length.is_some() {
        return Err(BodyError::LengthAndCoding);
    }
    // Every line, unlike `Fields::members`: what is skipped here would be smuggled.
    let all: Vec<&str> = fields.headers_all("transfer-encoding").collect();
    let value = all.join(", ");
    if value.eq_ignore_ascii_case("identity") {
        // RFC 2616 had it, RFC 7230 removed it; a few old servers still say it where they mean nothing.
        return Ok(None);
    }
    if !value.eq_ignore_ascii_case("chunked") {
        return Err(BodyError::TransferEncoding { value: weir_units::quoted(&value) });
    }
    if minor == 0 {
        return Err(BodyError::CodingInHttp10);
    }
    Ok(Some(Framing::Chunked))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::head::{RequestHead, ResponseHead};

    fn response(status: u16, fields: Fields) -> ResponseHead {
        ResponseHead { status, minor: 1, reason: String::new(), fields }
    }

    #[test]
    fn the_rules_in_their_order() {
        let length = || Fields::from([("Content-Length", "7")]);
        let chunked = || Fields::from([("Transfer-Encoding", "Chunked")]);
        for (method, status, fields, framing) in [
            ("HEAD", 200, length(), Framing::None),
            ("HEAD", 200, chunked(), Framing::None),
            ("GET", 204, length(), Framing::None),
            ("GET", 304, length(), Framing::None),
            ("GET", 103, length(), Framing::None),
            ("CONNECT", 200, length(), Framing::None),
            ("CONNECT", 407, length(), Framing::Length(7)),
            ("GET", 206, length(), Framing::Length(7)),
            ("GET", 200, Fields::from([("Content-Length", "0")]), Framing::Length(0)),
            ("GET", 200, chunked(), Framing::Chunked),
            ("GET", 200, Fields::from([("Transfer-Encoding", "chunked, chunked")]), Framing::Chunked),
            (
                "GET",
                200,
                Fields::from([("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "Chunked")]),
                Framing::Chunked,
            ),
            (
                "GET",
                200,
                Fields::from([("Content-Length", "7"), ("Transfer-Encoding", "chunked")]),
                Framing::Chunked,
            ),
            ("GET", 200, Fields::from([("Transfer-Encoding", "identity, chunked")]), Framing::Chunked),
            (
                "GET",
                200,
                Fields::from([("Transfer-Encoding", "identity"), ("Content-Length", "7")]),
                Framing::Length(7),
            ),
            ("GET", 200, Fields::from([("Transfer-Encoding", "identity")]), Framing::UntilClose),
            (
                "GET",
                200,
                Fields::from([("Transfer-Encoding", "None"), ("Content-Length", "7")]),
                Framing::Length(7),
            ),
            ("GET", 200, Fields::from([("Transfer-Encoding", "")]), Framing::UntilClose),
            ("GET", 200, Fields::new(), Framing::UntilClose),
        ] {
            assert_eq!(
                response(status, fields.clone()).framing(method),
                Ok(framing),
                "{method} {status} {fields:?}"
            );
        }
        let mut request = RequestHead::new("GET", "/");
        assert_eq!(request.framing(), Ok(Framing::None));
        request.fields = chunked();
        assert_eq!(request.framing(), Ok(Framing::Chunked));
    }

    #[test]
    fn unknown_codings_are_refused() {
        for value in ["compress, chunked", "xchunked", "chunked, gzip", "chunked;q=1", "gzip,gzip,gzip,gzip"]
        {
            let fields = Fields::from([("Transfer-Encoding", value)]);
            assert!(
                matches!(response(200, fields).framing("GET"), Err(BodyError::TransferEncoding { .. })),
                "{value}"
            );
        }
        let coded = |value| response(200, Fields::from([("Transfer-Encoding", value)]));
        assert_eq!(coded("gzip, chunked").framing("GET"), Ok(Framing::Chunked));
        assert_eq!(coded("gzip").framing("GET"), Ok(Framing::UntilClose));
        assert_eq!(coded("br, GZIP, chunked").transfer_codings(), [Coding::Gzip, Coding::Brotli]);
        let both = Fields::from([("Transfer-Encoding", "gzip"), ("Content-Length", "7")]);
        assert_eq!(response(200, both).framing("GET"), Ok(Framing::LengthAtClose(7)));
        let mut old = response(200, Fields::from([("Transfer-Encoding", "chunked")]));
        old.minor = 0;
        assert_eq!((old.framing("GET"), old.keeps_connection()), (Ok(Framing::Chunked), false));
    }

    #[test]
    fn requests_are_read_strictly() {
        let request = |minor, fields| RequestHead { minor, fields, ..RequestHead::new("GET", "/") }.framing();
        let chunked = ("Transfer-Encoding", "chunked");
        assert_eq!(request(0, Fields::from([chunked])), Err(BodyError::CodingInHttp10));
        assert_eq!(
            request(1, Fields::from([chunked, ("Content-Length", "7")])),
            Err(BodyError::LengthAndCoding)
        );
        for fields in [Fields::from([chunked, chunked]), Fields::from([("Transfer-Encoding", "")])] {
            assert!(matches!(request(1, fields), Err(BodyError::TransferEncoding { .. })));
        }
    }

    proptest! {
        #[test]
        fn length_print_parse(length in 0..=grammar::MAX_OFFSET) {
            prop_assert_eq!(content_length(&Fields::from([("Content-Length", length.to_string().as_str())])), Ok(Some(length)));
        }

        #[test]
        fn never_panics(value: String) {
            let _ = content_length(&Fields::from([("Content-Length", value.as_str())]));
            let fields = Fields::from([("Transfer-Encoding", value.as_str())]);
            let _ = response(200, fields.clone()).framing("GET");
            let _ = RequestHead { fields, ..RequestHead::new("GET", "/") }.framing();
        }
    }
}
