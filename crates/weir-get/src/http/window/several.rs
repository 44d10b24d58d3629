//! Several ranges of an object in one request (RFC 9110 section 14.6).
//!
//! What comes is one body as the server packed it: parts with heads of their own, or one part where it joined
//! them. It is saved as it comes, as curl saves it, and refused where it has bytes that were not asked for.

use std::fmt;

use url::Url;
use weir_http::content_range::ContentRange;
use weir_http::head::ResponseHead;
use weir_http::multipart;
use weir_http::range_request::{ByteRange, RangeSpec};

use super::{carries_bytes, make_whole, named_range, refuse_beyond, whole_instead, written, wrong_part};
use crate::error::GetError;
use crate::object;

/// Ranges that come in one body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Several(pub(super) Vec<RangeSpec>);

impl Several {
    /// Makes of the head of an answer from `url` that of a whole object, which is the body that the server
    /// packed. Returns what is to be said of it.
    pub fn inner(&self, head: &mut ResponseHead, url: &Url) -> Result<Option<String>, GetError> {
        if head.status == 416 {
            let text = format!("each of {self}");
            let is_beyond = |size: u64| self.0.iter().all(|spec| spec.within(size).is_none());
            return refuse_beyond(head, url, is_beyond, &text).map(|()| None);
        }
        if !carries_bytes(head.status) {
            return Ok(None);
        }
        let Some((first, last, complete)) = named_range(head, url)? else {
            return match head.status {
                206 if boundary_of(head).is_none() => Err(wrong_part(
                    url,
                    "206 without Content-Range, and without parts (multipart/byteranges)".to_owned(),
                )),
                206 => {
                    make_whole(head);
                    Ok(Some(
                        "saved as several parts with heads of their own (multipart/byteranges)".to_owned(),
                    ))
                }
                _ if self.is_all_of(head) => Ok(None),
                _ => Err(whole_instead(url)),
            };
        };
        let range = ContentRange::Bytes { first, last, complete };
        if !self.has(range) {
            return Err(wrong_part(url, format!("the bytes {first} to {last}, asked for {self}")));
        }
        if head.announced().is_some_and(|length| length != range.len()) {
            let length = head.announced().unwrap_or_default();
            return Err(wrong_part(
                url,
                format!("{length} bytes, for which its Content-Range says '{range}'"),
            ));
        }
        make_whole(head);
        Ok(Some(format!("{} answered with one part, '{range}', in place of several", object::host_of(url))))
    }

    /// Whether a part of `range` may stand in an answer: it begins where one of those asked for does and ends
    /// where one of them does, since those that are near may be joined (RFC 9110 section 15.3.7.2).
    pub fn has(&self, range: ContentRange) -> bool {
        let edges = || self.0.iter().map(|spec| edges(*spec, range));
        edges().any(|(begins, _)| begins) && edges().any(|(_, ends)| ends)
    }

    /// The ranges are all of an object that is sent whole.
    fn is_all_of(&self, head: &ResponseHead) -> bool {
        let Some(size) = head.announced() else { return false };
        let mut asked: Vec<(u64, u64)> =
            self.0.iter().filter_map(|spec| spec.within(size)).map(|one| (one.first, one.last)).collect();
        asked.sort_unstable();
        let mut covered = 0;
        for (first, last) in asked {
            if first > covered {
                return false;
            }
            covered = covered.max(last + 1);
        }
        covered == size && size > 0
    }
}

/// Whether `range` begins, and whether it ends, where `spec` does.
fn edges(spec: RangeSpec, range: ContentRange) -> (bool, bool) {
    let ContentRange::Bytes { first, last, complete } = range else { return (false, false) };
    let within = match (spec, complete) {
        (spec, Some(size)) => spec.within(size),
        (RangeSpec::From { first, last: Some(last) }, None) => Some(ByteRange { first, last }),
        // Its end is not known, but that it has as many bytes as were asked for.
        (RangeSpec::Suffix(length), None) => (range.len() == length).then_some(ByteRange { first, last }),
        (RangeSpec::From { last: None, .. }, None) => None,
    };
    within.map_or((false, false), |one| (one.first == first, one.last == last))
}

/// The boundary of a body of several parts.
pub fn boundary_of(head: &ResponseHead) -> Option<String> {
    multipart::boundary(head.header("content-type")?).filter(|_| head.announced() != Some(0))
}

impl fmt::Display for Several {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&written(&self.0))
    }
}
