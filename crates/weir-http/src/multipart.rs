//! `multipart/byteranges` (RFC 9110 section 14.6): several ranges of an object in one body, as it passes by.
//!
//! The body is kept as it comes. What is read of it is which ranges its parts say they are, and whether its
//! end came: a body that ends with the connection is whole only behind its last dividing line.
//!
//! A part is as long as its `Content-Range` says, so bytes that look like a dividing line divide nothing.
//! Behind a part empty lines are forgiven: some servers write more than one.

use crate::content_range::{self, ContentRange};
use crate::grammar;

/// The longest line of a part's head in bytes, and of a boundary with what stands around it (RFC 2046 allows
/// 70).
const MAX_LINE: usize = 8 * 1024;

/// The most lines of a part's head; servers send two.
const MAX_LINES: usize = 64;

/// A body that is not of this type, whatever its head says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MultipartError {
    /// A part, or what stands between two, is not as it has to be.
    #[error("malformed multipart/byteranges body: {what}")]
    Form {
        /// Found or missing.
        what: &'static str,
    },
    /// The range of a part.
    #[error(transparent)]
    Range(#[from] content_range::ContentRangeError),
}

/// The boundary that a `Content-Type` of `multipart/byteranges` names; `None` for other types.
pub fn boundary(content_type: &str) -> Option<String> {
    let mut words = grammar::split(content_type, ';');
    if !words.next()?.eq_ignore_ascii_case("multipart/byteranges") {
        return None;
    }
    let value = words.find_map(|word| match grammar::parameter(word) {
        (name, Some(value)) if name.eq_ignore_ascii_case("boundary") => Some(grammar::unquote(value)),
        _ => None,
    });
    value.filter(|boundary| (1..=70).contains(&boundary.len()))
}

/// Where in the body the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyPosition {
    /// Before the first dividing line, where a text for old readers may stand (RFC 2046 section 5.1.1).
    Front,
    /// Between a part and the next dividing line.
    Between,
    /// In a part's head, of so many lines so far.
    Head(usize),
    /// In a part, of which so many bytes are to come.
    Part(u64),
    /// Behind the last dividing line.
    Behind,
}

/// A reader of such a body.
#[derive(Debug)]
pub struct Parts {
    divider: Vec<u8>,
    place: BodyPosition,
    /// The line under way, without its end.
    line: Vec<u8>,
    range: Option<ContentRange>,
    count: u64,
}

impl Parts {
    /// A reader of a body whose parts are divided by `boundary`.
    pub fn new(boundary: &str) -> Parts {
        let divider = format!("--{boundary}").into_bytes();
        Parts { divider, place: BodyPosition::Front, line: Vec::new(), range: None, count: 0 }
    }

    /// Reads the next bytes of the body; `on_part` is told of each part that begins in them.
    pub fn read(
        &mut self,
        mut bytes: &[u8],
        mut on_part: impl FnMut(ContentRange),
    ) -> Result<(), MultipartError> {
        while !bytes.is_empty() && self.place != BodyPosition::Behind {
            if let BodyPosition::Part(left) = &mut self.place {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= taken as u64;
                bytes = &bytes[taken..];
                if *left == 0 {
                    self.place = BodyPosition::Between;
                }
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + piece.len() > MAX_LINE {
                return Err(MultipartError::Form { what: "a line of more than 8 KiB outside of its parts" });
            }
            self.line.extend_from_slice(piece);
            bytes = &bytes[end.map_or(bytes.len(), |end| end + 1)..];
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                self.end_line(line.strip_suffix(b"\r").unwrap_or(&line), &mut on_part)?;
            }
        }
        Ok(())
    }

    /// The last dividing line has come; behind it nothing is needed, not even the end of that line.
    pub fn is_whole(&self) -> bool {
        let ends_here = matches!(self.place, BodyPosition::Front | BodyPosition::Between)
            && self.kind_of(self.line.strip_suffix(b"\r").unwrap_or(&self.line)) == Some(Divider::Last);
        self.count > 0 && (self.place == BodyPosition::Behind || ends_here)
    }

    fn end_line(
        &mut self,
        line: &[u8],
        on_part: &mut impl FnMut(ContentRange),
    ) -> Result<(), MultipartError> {
        match self.place {
            BodyPosition::Front | BodyPosition::Between => match self.kind_of(line) {
                Some(Divider::Next) => (self.place, self.range) = (BodyPosition::Head(0), None),
                Some(Divider::Last) => self.place = BodyPosition::Behind,
                None if self.place == BodyPosition::Front || line.is_empty() => {}
                None => {
                    return Err(MultipartError::Form {
                        what: "a part with more bytes than its Content-Range says",
                    });
                }
            },
            BodyPosition::Head(_) if line.is_empty() => {
                let range =
                    self.range.ok_or(MultipartError::Form { what: "a part without Content-Range" })?;
                self.count += 1;
                on_part(range);
                self.place = BodyPosition::Part(range.len());
            }
            BodyPosition::Head(lines) if lines < MAX_LINES => {
                self.place = BodyPosition::Head(lines + 1);
                self.take_field(line)?;
            }
            BodyPosition::Head(_) => {
                return Err(MultipartError::Form { what: "a part with more than 64 fields" });
            }
            BodyPosition::Part(_) | BodyPosition::Behind => {}
        }
        Ok(())
    }

    fn take_field(&mut self, line: &[u8]) -> Result<(), MultipartError> {
        let text = String::from_utf8_lossy(line);
        let Some((name, value)) = text.split_once(':') else { return Ok(()) };
        if !grammar::trim(name).eq_ignore_ascii_case("content-range") {
            return Ok(());
        }
        let range: ContentRange = grammar::trim(value).parse()?;
        if range.len() == 0 || self.range.is_some_and(|other| other != range) {
            return Err(MultipartError::Form { what: "a part with two ranges, or with none" });
        }
        self.range = Some(range);
        Ok(())
    }

    /// Which dividing line this is; blanks at its end are forgiven (RFC 2046 section 5.1.1).
    fn kind_of(&self, line: &[u8]) -> Option<Divider> {
        let rest = line.strip_prefix(&self.divider[..])?;
        match rest.trim_ascii_end() {
            b"" => Some(Divider::Next),
            b"--" => Some(Divider::Last),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Divider {
    Next,
    Last,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BODY: &str = "\r\n--B\r\nContent-Type: text/html\r\ncontent-range: bytes 0-3/10\r\n\r\n\
                        --B\r\n--B  \r\nContent-Range: bytes 8-9/10\r\n\r\n\n\n\r\n--B--\r\n";

    /// What of `body`, in pieces of `step` bytes, is told.
    fn read(body: &[u8], step: usize) -> Result<(Vec<String>, bool), MultipartError> {
        let (mut parts, mut told) = (Parts::new("B"), Vec::new());
        for piece in body.chunks(step) {
            parts.read(piece, |range| told.push(range.to_string()))?;
        }
        Ok((told, parts.is_whole()))
    }

    #[test]
    fn boundaries() {
        for (text, found) in [
            ("multipart/byteranges; boundary=408a326132c", Some("408a326132c")),
            ("Multipart/ByteRanges;charset=x; Boundary=\"a b\"", Some("a b")),
            ("multipart/byteranges", None),
            ("multipart/byteranges; boundary=\"\"", None),
            ("multipart/mixed; boundary=B", None),
            ("text/html", None),
            ("", None),
        ] {
            assert_eq!(boundary(text).as_deref(), found, "{text}");
        }
    }

    #[test]
    fn parts_are_as_long_as_they_say() {
        let told = (vec!["bytes 0-3/10".to_owned(), "bytes 8-9/10".to_owned()], true);
        for step in [1, 2, 7, 1000] {
            assert_eq!(read(BODY.as_bytes(), step), Ok(told.clone()), "{step}");
        }
        let end = BODY.len() - 2;
        assert_eq!(read(&BODY.as_bytes()[..end], 5), Ok(told));
        for cut in 0..end {
            assert!(!read(&BODY.as_bytes()[..cut], 1000).unwrap().1, "whole, though cut at {cut}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for (body, says) in [
            ("--B\r\nContent-Type: x\r\n\r\nabc\r\n--B--", "without Content-Range"),
            ("--B\r\nContent-Range: bytes 0-1/3\r\n\r\nabc\r\n--B--", "more bytes than"),
            ("--B\r\nContent-Range: bytes 3-1/3\r\n\r\n", "does not lie within"),
            ("--B\r\nContent-Range: bytes */3\r\n\r\n", "or with none"),
            ("--B\r\nContent-Range: bytes 0-1/3\r\nContent-Range: bytes 1-2/3\r\n\r\n", "two ranges"),
        ] {
            let said = read(body.as_bytes(), 4).unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
        assert!(read(&[b'x'; 9000], 100).is_err());
        assert!(read(format!("--B\r\n{}", "A: b\r\n".repeat(65)).as_bytes(), 100).is_err());
        assert_eq!(read(b"--B--\r\n", 100), Ok((vec![], false)));
    }

    proptest! {
        #[test]
        fn never_panics(body in "(--B(--)?[ -]?\r?\n|Content-Range: bytes [0-9]-[0-9]/[0-9*]\r\n|\r\n|[a-c]{1,9}){0,20}", step in 1..20usize) {
            let whole = read(body.as_bytes(), body.len().max(1));
            prop_assert_eq!(read(body.as_bytes(), step), whole);
        }
    }
}
