//! The last bytes of an object: a span, once an answer says where it lies.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::http::make_room;
use parking_lot::Mutex;
use url::Url;
use weir_http::head::ResponseHead;

use super::{Span, carries_bytes, named_range, size_in, whole_instead, wrong_part};
use crate::error::GetError;

/// What an answer to a request for a tail says of where that lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It is an answer of the tail, which is there.
    Here(Span),
    /// It is an answer whose head stands for itself: an error, a redirect, an object that is no longer than
    /// the tail.
    Other,
    /// The server does not take a length from the end. This is the object's size, where that was said.
    Misread(Option<u64>),
}

/// The last `length` bytes of an object of `size` bytes, or all of a shorter one.
pub(crate) fn span_of(length: u64, size: u64) -> Span {
    Span { first: size.saturating_sub(length), last: size.checked_sub(1) }
}

/// Where the last `length` bytes lie, by the head of an answer from `url` to a request for them.
pub fn find(length: u64, head: &ResponseHead, url: &Url) -> Result<Found, GetError> {
    match head.status {
        416 => Ok(match size_in(head) {
            // A suffix of an empty object is all of it (RFC 9110 section 14.1.2), and this is how some
            // servers say so.
            Some(0) => Found::Other,
            size => Found::Misread(size),
        }),
        // These may speak of the form of the range.
        400 | 501 => Ok(Found::Misread(None)),
        status if carries_bytes(status) => Ok(match named_range(head, url)? {
            Some((first, last, complete)) => match complete.map(|size| span_of(length, size)) {
                Some(span) if first == span.first && Some(last) <= span.last => Found::Here(span),
                // It does not say how large the whole is, and has as many bytes as were asked for.
                None if last - first + 1 == length => Found::Here(Span { first, last: Some(last) }),
                _ => Found::Misread(complete),
            },
            None if head.status != 206 && head.announced().is_some_and(|all| all <= length) => Found::Other,
            None => Found::Misread(None),
        }),
        _ => Ok(Found::Other),
    }
}

/// The size of the object that the head of an answer from `url` names, whatever range it was of.
pub(crate) fn size_named(head: &ResponseHead, url: &Url) -> Option<u64> {
    match head.status {
        200..300 => named_range(head, url).ok()??.2,
        416 => size_in(head),
        _ => None,
    }
}

/// Why an answer to a request for the last bytes is of no use.
pub fn refuse(length: u64, head: &ResponseHead, url: &Url) -> GetError {
    match named_range(head, url) {
        Ok(Some((first, last, complete))) => {
            let size = complete.map_or_else(|| "an unknown number".to_owned(), |size| size.to_string());
            wrong_part(url, format!("the bytes {first} to {last} of {size}, asked for the last {length}"))
        }
        Ok(None) if head.status == 206 => wrong_part(url, "206 without Content-Range".to_owned()),
        Ok(None) => whole_instead(url),
        Err(error) => error,
    }
}

/// Where the tails of this run's objects lie, as far as answers have said that.
#[derive(Debug, Default)]
pub struct Tails {
    /// By the hash of the URL, with keys of its own.
    spans: Mutex<HashMap<u64, Span>>,
    keys: RandomState,
}

impl Tails {
    /// Where that of `url` lies.
    pub fn of(&self, url: &Url) -> Option<Span> {
        let key = self.keys.hash_one(url.as_str());
        self.spans.lock().get(&key).copied()
    }

    /// That of `url` lies there.
    pub fn keep(&self, url: &Url, span: Span) {
        let key = self.keys.hash_one(url.as_str());
        let mut spans = self.spans.lock();
        make_room(&mut *spans);
        spans.insert(key, span);
    }
}
