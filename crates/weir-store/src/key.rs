//! Keys in URLs: percent-encoded as signatures want them, and refused where no URL can hold them.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::error::StoreError;

/// All but the unreserved letters of RFC 3986 section 2.3, which is what version 4 of Amazon's signatures
/// encodes; a slash stays in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// As [`PATH`], for a value of a query.
const QUERY: &AsciiSet = &PATH.add(b'/');

/// The longest key, bytes (S3, GCS; Azure: as many characters).
pub const MOST: usize = 1024;

/// `key` as a path of a URL has it.
///
/// A segment `.` or `..` is an error: every URL parser on the way takes it away, encoded or not.
pub fn in_path(key: &str) -> Result<String, StoreError> {
    if key.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(StoreError::Key {
            key: key.to_owned(),
            why: "no URL can hold a segment '.' or '..'; copy the object to another key with the store's own tool",
        });
    }
    if key.len() > MOST {
        return Err(StoreError::Key { key: key.to_owned(), why: "it is longer than 1024 bytes" });
    }
    Ok(utf8_percent_encode(key, PATH).to_string())
}

/// `key` as one segment of a path, its slashes encoded.
///
/// Only a key that is `.` or `..` as a whole is an error.
pub fn in_segment(key: &str) -> Result<String, StoreError> {
    if matches!(key, "." | "..") || key.len() > MOST {
        return in_path(key);
    }
    Ok(in_query(key))
}

/// `text` as a value of a query has it.
pub fn in_query(text: &str) -> String {
    utf8_percent_encode(text, QUERY).to_string()
}

/// The key that a listing with `encoding-type=url` writes so: percent-encoded, and a blank as `+` (Amazon's
/// own encoder does so; a plus sign comes as `%2B`). `None`: it is no UTF-8.
pub fn of_listing(text: &str) -> Option<String> {
    percent_decode_str(&text.replace('+', " ")).decode_utf8().ok().map(Cow::into_owned)
}

/// Names and values as a query has them; `None` where there are none.
pub fn pairs(pairs: &[(String, String)]) -> Option<String> {
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", in_query(name), in_query(value)));
    let pairs: Vec<String> = pairs.collect();
    (!pairs.is_empty()).then(|| pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_s_keys_are_decoded() {
        assert_eq!(of_listing("a+b%2Bc%2F%C3%A4%0A/d").as_deref(), Some("a b+c/\u{e4}\n/d"));
        assert_eq!(of_listing("a%FF"), None);
    }
}
