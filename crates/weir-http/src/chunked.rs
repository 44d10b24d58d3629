//! Chunked bodies (RFC 9112 section 7.1), taken apart where they lie.
//!
//! The decoder says which part of the caller's buffer is payload; it copies none of it. A line may end in LF
//! alone, as old servers have it. Behind a chunk extension it ends one only if every line before did: some
//! readers take such an LF for a part of the extension and read on to the next CRLF, so the two would
//! disagree about what is payload. Those readers have given up earlier where no line ends in CRLF.
//!
//! ```
//! use weir_http::ChunkedDecoder;
//! let mut input: &[u8] = b"4\r\nweir\r\n0\r\n\r\n";
//! let (mut decoder, mut body) = (ChunkedDecoder::new(), Vec::new());
//! while !decoder.is_done() {
//!     let step = decoder.decode(input).unwrap();
//!     body.extend_from_slice(&input[step.data]);
//!     input = &input[step.consumed..];
//! }
//! assert_eq!(body, b"weir");
//! ```

use std::ops::Range;

use crate::field_lines;
use crate::fields::Fields;
use crate::grammar::MAX_OFFSET;

/// The most digits of a chunk size, leading zeros among them.
pub(crate) const MAX_SIZE_DIGITS: u8 = 16;

/// The most bytes of padding and extensions after one chunk size.
pub(crate) const MAX_EXTENSION: usize = 1024;

/// The most bytes of trailer fields.
pub(crate) const MAX_TRAILERS: usize = 16 * 1024;

/// The most trailer fields.
const MAX_TRAILER_FIELDS: usize = 64;

/// A chunked body that is broken. The bytes given out before it were not necessarily right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// A byte that cannot stand where it stands.
    #[error("malformed chunked body: found '{}' where {expected} was expected", found.escape_ascii())]
    Unexpected {
        /// The byte.
        found: u8,
        /// What should be there.
        expected: &'static str,
    },
    /// More than [`MAX_SIZE_DIGITS`] digits, or a size beyond 2^63 - 1.
    #[error("malformed chunked body: a chunk size of more than {MAX_SIZE_DIGITS} digits, or beyond 2^63 - 1")]
    SizeTooLarge,
    /// More than [`MAX_EXTENSION`].
    #[error("malformed chunked body: a chunk extension of more than {MAX_EXTENSION} bytes")]
    ExtensionTooLong,
    /// More than [`MAX_TRAILERS`], or more than 64 fields.
    #[error("malformed chunked body: more than {MAX_TRAILERS} bytes or 64 fields of trailers")]
    TrailersTooLong,
}

/// What one call found at the front of its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// How many bytes of the input are dealt with, payload included.
    pub consumed: usize,
    /// Which of them are payload; may be empty.
    pub data: Range<usize>,
    /// Whether the body ended at `consumed`. What follows belongs to the next response.
    pub done: bool,
}

/// Takes a chunked body apart, in pieces of any size.
#[derive(Debug, Clone, Default)]
pub struct ChunkedDecoder {
    state: ChunkState,
    /// Raw trailer lines; stays empty, and unallocated, where there are none.
    trailer: Vec<u8>,
    trailers: Fields,
    ends: Ends,
}

/// How the lines before have ended.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    lf: bool,
    crlf: bool,
}

#[derive(Debug, Clone, Copy)]
enum ChunkState {
    /// In a chunk size: its value so far and its digits.
    Size {
        value: u64,
        digits: u8,
    },
    /// In the blanks that some servers put after the size.
    Padding {
        size: u64,
        length: usize,
    },
    /// In an extension (section 7.1.1), which is ignored.
    Extension {
        size: u64,
        length: usize,
    },
    /// At the LF that ends the size line.
    SizeLf {
        size: u64,
    },
    /// In the payload.
    Data {
        left: u64,
    },
    /// At the CR, then the LF, after the payload.
    DataCr,
    DataLf,
    /// At the start of a trailer line, or of the empty one that ends the body.
    LineStart,
    /// In a trailer line.
    Line,
    /// At the LF of a trailer line.
    LineLf,
    /// At the last LF.
    LastLf,
    Done,
}

impl Default for ChunkState {
    fn default() -> ChunkState {
        ChunkState::Size { value: 0, digits: 0 }
    }
}

impl ChunkedDecoder {
    /// A decoder at the start of a body.
    pub fn new() -> ChunkedDecoder {
        ChunkedDecoder::default()
    }

    /// Looks at `input` up to the end of its first piece of payload, or to its end if there is none.
    ///
    /// Call again with `input[consumed..]` until that is empty or the body is done. Progress is certain:
    /// unless the body is done, input that is not empty is consumed by at least one byte. After an error, do
    /// not go on.
    pub fn decode(&mut self, input: &[u8]) -> Result<Step, ChunkError> {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            if let ChunkState::Data { left } = self.state {
                let piece = usize::try_from(left).unwrap_or(usize::MAX).min(input.len() - at);
                let left = left - piece as u64;
                self.state = if left == 0 { ChunkState::DataCr } else { ChunkState::Data { left } };
                return Ok(Step { consumed: at + piece, data: at..at + piece, done: false });
            }
            if matches!(self.state, ChunkState::Done) {
                break;
            }
            if byte == b'\n' {
                match self.state {
                    ChunkState::SizeLf { .. } | ChunkState::DataLf => self.ends.crlf = true,
                    ChunkState::Extension { .. } => {}
                    _ => self.ends.lf = true,
                }
            }
            self.state = self.next(byte)?;
            at += 1;
        }
        Ok(Step { consumed: at, data: at..at, done: self.is_done() })
    }

    /// Whether the whole body has been seen. A connection that closes before has cut it short.
    pub fn is_done(&self) -> bool {
        matches!(self.state, ChunkState::Done)
    }

    /// The trailer fields (section 7.1.2), complete once the body is done. A digest may stand here (RFC 9530
    /// section 2), but nothing about framing, routing or the range may be taken from here.
    #[cfg(test)]
    pub(crate) fn trailers(&self) -> &Fields {
        &self.trailers
    }

    fn next(&mut self, byte: u8) -> Result<ChunkState, ChunkError> {
        let expect = |wanted: u8, expected, then| match byte == wanted {
            true => Ok(then),
            false => Err(ChunkError::Unexpected { found: byte, expected }),
        };
        match self.state {
            ChunkState::Size { value, digits } => match (char::from(byte).to_digit(16), byte) {
                (Some(_), _) if digits == MAX_SIZE_DIGITS || value > MAX_OFFSET >> 4 => {
                    Err(ChunkError::SizeTooLarge)
                }
                (Some(digit), _) => {
                    Ok(ChunkState::Size { value: value << 4 | u64::from(digit), digits: digits + 1 })
                }
                (None, b' ' | b'\t') if digits > 0 => Ok(ChunkState::Padding { size: value, length: 1 }),
                (None, b';') if digits > 0 => Ok(ChunkState::Extension { size: value, length: 1 }),
                (None, b'\r') if digits > 0 => Ok(ChunkState::SizeLf { size: value }),
                (None, b'\n') if digits > 0 => Ok(ChunkState::after_size(value)),
                _ => Err(ChunkError::Unexpected { found: byte, expected: "a chunk size" }),
            },
            ChunkState::Padding { length, .. } | ChunkState::Extension { length, .. }
                if length >= MAX_EXTENSION =>
            {
                Err(ChunkError::ExtensionTooLong)
            }
            ChunkState::Padding { size, length } => match byte {
                b' ' | b'\t' => Ok(ChunkState::Padding { size, length: length + 1 }),
                b';' => Ok(ChunkState::Extension { size, length: length + 1 }),
                b'\r' => Ok(ChunkState::SizeLf { size }),
                b'\n' => Ok(ChunkState::after_size(size)),
                _ => Err(ChunkError::Unexpected { found: byte, expected: "the end of a chunk size" }),
            },
            ChunkState::Extension { size, length } => match byte {
                b'\r' => Ok(ChunkState::SizeLf { size }),
                b'\n' if self.ends.lf && !self.ends.crlf => Ok(ChunkState::after_size(size)),
                b'\n' => {
                    Err(ChunkError::Unexpected { found: byte, expected: "CRLF after a chunk extension" })
                }
                _ => Ok(ChunkState::Extension { size, length: length + 1 }),
            },
            ChunkState::SizeLf { size } => {
                expect(b'\n', "LF after a chunk size", ChunkState::after_size(size))
            }
            ChunkState::DataCr if byte == b'\n' => Ok(ChunkState::default()),
            ChunkState::DataCr => expect(b'\r', "CRLF after a chunk", ChunkState::DataLf),
            ChunkState::DataLf => expect(b'\n', "CRLF after a chunk", ChunkState::default()),
            ChunkState::LineStart if byte == b'\r' => Ok(ChunkState::LastLf),
            ChunkState::LineStart if byte == b'\n' => self.last(),
            ChunkState::LineStart | ChunkState::Line => {
                self.keep(byte)?;
                Ok(match byte {
                    b'\r' => ChunkState::LineLf,
                    b'\n' => ChunkState::LineStart,
                    _ => ChunkState::Line,
                })
            }
            ChunkState::LineLf => {
                self.keep(byte)?;
                expect(b'\n', "LF after a trailer", ChunkState::LineStart)
            }
            ChunkState::LastLf => {
                expect(b'\n', "LF at the end", ChunkState::Done)?;
                self.last()
            }
            // `decode` deals with both before it comes here.
            ChunkState::Data { .. } | ChunkState::Done => Ok(self.state),
        }
    }

    fn keep(&mut self, byte: u8) -> Result<(), ChunkError> {
        if self.trailer.len() >= MAX_TRAILERS {
            return Err(ChunkError::TrailersTooLong);
        }
        self.trailer.push(byte);
        Ok(())
    }

    /// The body is over. Trailers say nothing of where it ends, so an odd line of them costs that line.
    fn last(&mut self) -> Result<ChunkState, ChunkError> {
        let raw = std::mem::take(&mut self.trailer);
        let mut fields = Vec::new();
        for line in field_lines::lines(&raw) {
            fields.extend(field_lines::read(line, 1).unwrap_or_default());
        }
        if fields.len() > MAX_TRAILER_FIELDS {
            return Err(ChunkError::TrailersTooLong);
        }
        self.trailers = Fields::from_checked(fields.iter().map(|line| (line.name, &*line.value)));
        Ok(ChunkState::Done)
    }
}

impl ChunkState {
    /// Behind the line of a chunk's size.
    fn after_size(size: u64) -> ChunkState {
        if size == 0 { ChunkState::LineStart } else { ChunkState::Data { left: size } }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes pieces of at most `piece` bytes: payload, bytes used, decoder.
    fn decode(bytes: &[u8], piece: usize) -> Result<(Vec<u8>, usize, ChunkedDecoder), ChunkError> {
        let (mut decoder, mut payload, mut used) = (ChunkedDecoder::new(), Vec::new(), 0);
        while used < bytes.len() && !decoder.is_done() {
            let input = &bytes[used..bytes.len().min(used + piece)];
            let step = decoder.decode(input)?;
            assert!(step.consumed > 0 && step.data.end <= step.consumed);
            assert_eq!(step.done, decoder.is_done());
            payload.extend_from_slice(&input[step.data]);
            used += step.consumed;
        }
        Ok((payload, used, decoder))
    }

    #[test]
    fn body_with_extension_padding_and_trailers() {
        let bytes =
            b"4;name=\"v\"\r\nweir\r\n00A  \r\n0123456789\r\n0\r\nRepr-Digest: x\r\nB: y\r\n\r\nHTTP/1.1";
        for piece in [1, 2, 3, 7, 1000] {
            let (payload, used, decoder) = decode(bytes, piece).unwrap();
            assert_eq!(payload, b"weir0123456789");
            assert_eq!(&bytes[used..], b"HTTP/1.1");
            assert_eq!(decoder.trailers().header("repr-digest"), Some("x"));
            assert_eq!(decoder.trailers().len(), 2);
        }
    }

    #[test]
    fn lf_alone_ends_a_line() {
        for bytes in [
            &b"4\nweir\n0\n\n"[..],
            b"4 \nweir\r\n0\r\n\n",
            b"4\r\nweir\n0\nA: b\n\n",
            b"4\r\nweir\r\n0\r\nA: b\nno field\r\n\r\n",
            b"2\nwe\n2;a=b\nir\n0;c\n\n",
        ] {
            for piece in [1, 2, 100] {
                let (payload, used, decoder) = decode(bytes, piece).unwrap();
                assert_eq!((payload.as_slice(), used), (&b"weir"[..], bytes.len()));
                assert!(decoder.is_done() && decoder.trailers().len() < 2);
            }
        }
    }

    #[test]
    fn stays_done() {
        let (_, _, mut decoder) = decode(b"0\r\n\r\n", 100).unwrap();
        assert_eq!(decoder.decode(b"more"), Ok(Step { consumed: 0, data: 0..0, done: true }));
    }

    #[test]
    fn broken_bodies() {
        for bytes in [
            &b"\r\n"[..],
            b";x\r\n",
            b"-1\r\n",
            b"0x4\r\n",
            b"4\r\nweirs\r\n",
            b"4 4\r\n",
            b"4;a\n",
            b"4\r\nweir\n4;a\n",
            b"4\r\rweir",
            b"4\r\nweir\rx",
            b"0\r\nA: b\rx",
        ] {
            assert!(decode(bytes, 100).is_err(), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn caps() {
        assert_eq!(decode(b"8000000000000000\r\n", 100).unwrap_err(), ChunkError::SizeTooLarge);
        assert_eq!(decode(b"00000000000000001\r\n", 100).unwrap_err(), ChunkError::SizeTooLarge);
        assert!(decode(b"7fffffffffffffff\r\nx", 100).is_ok());
        let long = format!("4;{}", "x".repeat(2 * MAX_EXTENSION));
        assert_eq!(decode(long.as_bytes(), 100).unwrap_err(), ChunkError::ExtensionTooLong);
        let long = format!("4{}", " ".repeat(2 * MAX_EXTENSION));
        assert_eq!(decode(long.as_bytes(), 100).unwrap_err(), ChunkError::ExtensionTooLong);
        let long = format!("0\r\nA: {}", "x".repeat(MAX_TRAILERS));
        assert_eq!(decode(long.as_bytes(), 100).unwrap_err(), ChunkError::TrailersTooLong);
        let many = format!("0\r\n{}\r\n", "a: b\r\n".repeat(65));
        assert_eq!(decode(many.as_bytes(), 100).unwrap_err(), ChunkError::TrailersTooLong);
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, piece in 1usize..20) {
            let _ = decode(&bytes, piece);
        }

        #[test]
        fn never_panics_on_near_misses(text in "([0-9a-f]{1,17}[ ;]?[\r\n]{0,3}[a-f\r\n]{0,9}){0,6}", piece in 1usize..20) {
            let _ = decode(text.as_bytes(), piece);
        }

        #[test]
        fn print_parse(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..60), 0..8), piece in 1usize..90) {
            let mut bytes = Vec::new();
            for chunk in &chunks {
                bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                bytes.extend(chunk);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
            let (payload, used, decoder) = decode(&bytes, piece).unwrap();
            prop_assert_eq!(payload, chunks.concat());
            prop_assert_eq!(used, bytes.len());
            prop_assert!(decoder.is_done());
        }
    }
}
