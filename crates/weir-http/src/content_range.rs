//! `Content-Range` (RFC 9110 section 14.4): which bytes a 206 carries, or how large the object is after
//! a 416.
//!
//! Strict where numbers are: a lane writes at the offset that stands here, so anything doubtful is an error.

use std::fmt;
use std::str::FromStr;

use weir_units::quoted;

use crate::grammar::{parse_offset, trim};

/// A range that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentRangeError {
    /// Not the grammar.
    #[error(
        "invalid Content-Range '{value}': expected 'bytes FIRST-LAST/SIZE', 'bytes FIRST-LAST/*' or 'bytes */SIZE'"
    )]
    Form {
        /// What was given.
        value: String,
    },
    /// First after last, or last at or after the size.
    #[error("invalid Content-Range '{value}': the range does not lie within the object")]
    Order {
        /// What was given.
        value: String,
    },
    /// Right in itself, but not what was asked for.
    #[error("server answered with '{found}' where {asked} was asked for: its ranges cannot be used")]
    NotAsked {
        /// What was given.
        found: ContentRange,
        /// What was asked for.
        asked: ContentRange,
    },
}

/// The value of the field. Offsets are below 2^63.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentRange {
    /// `bytes FIRST-LAST/SIZE`, or `bytes FIRST-LAST/*` where the size is not known.
    Bytes {
        /// Offset of the first byte.
        first: u64,
        /// Offset of the last byte, which is included.
        last: u64,
        /// Size of the whole object.
        complete: Option<u64>,
    },
    /// `bytes */SIZE`, with a 416: the range asked for does not exist.
    Unsatisfied {
        /// Size of the whole object.
        complete: u64,
    },
}

impl ContentRange {
    /// Size of the whole object, where the server says it.
    pub fn complete(&self) -> Option<u64> {
        match *self {
            ContentRange::Bytes { complete, .. } => complete,
            ContentRange::Unsatisfied { complete } => Some(complete),
        }
    }

    /// How many bytes the range has.
    #[expect(clippy::len_without_is_empty, reason = "a range of bytes is never empty")]
    pub fn len(&self) -> u64 {
        match *self {
            ContentRange::Bytes { first, last, .. } => last - first + 1,
            ContentRange::Unsatisfied { .. } => 0,
        }
    }

    /// Whether this is an answer to a request for `first..=last` of an object of `complete` bytes, if that is
    /// known.
    ///
    /// The range has to start where asked. It may end earlier (a server may send less, RFC 9110 section
    /// 15.3.7, and the rest is asked for again) but not later. An unknown size is let through; a different
    /// one is not.
    pub fn answers(&self, first: u64, last: u64, complete: Option<u64>) -> Result<(), ContentRangeError> {
        let holds = match *self {
            ContentRange::Bytes { first: from, last: to, complete: size } => {
                from == first && to <= last && (size.is_none() || complete.is_none() || size == complete)
            }
            ContentRange::Unsatisfied { .. } => false,
        };
        let asked = ContentRange::Bytes { first, last, complete };
        if holds { Ok(()) } else { Err(ContentRangeError::NotAsked { found: *self, asked }) }
    }
}

impl FromStr for ContentRange {
    type Err = ContentRangeError;

    fn from_str(value: &str) -> Result<ContentRange, ContentRangeError> {
        let form = || ContentRangeError::Form { value: quoted(value) };
        let (unit, rest) =
            value.split_at(value.bytes().take_while(|byte| byte.is_ascii_alphabetic()).count());
        // As a request has it (`bytes=0-9/10`), with a colon, with blanks or without the unit: servers write
        // that, and every reader takes it for the same.
        let bare = rest.trim_start_matches([' ', '\t', '=', ':']);
        let (range, size) = bare.split_once('/').map(trimmed).ok_or_else(form)?;
        // Range units have no case (section 14.1).
        let is_bytes = unit.eq_ignore_ascii_case("bytes") && bare.len() < rest.len();
        let is_bare = unit.is_empty() && bare.len() == rest.len();
        if !is_bytes && !is_bare {
            return Err(form());
        }
        let complete = match size {
            "*" => None,
            digits => Some(parse_offset(digits).ok_or_else(form)?),
        };
        if range == "*" {
            return complete.map(|complete| ContentRange::Unsatisfied { complete }).ok_or_else(form);
        }
        let (first, last) = range.split_once('-').map(trimmed).ok_or_else(form)?;
        let (first, last) = (parse_offset(first).ok_or_else(form)?, parse_offset(last).ok_or_else(form)?);
        // The last offset is below 2^63 - 1 so that last + 1 is still an offset.
        if first > last || last >= complete.unwrap_or(crate::grammar::MAX_OFFSET) {
            return Err(ContentRangeError::Order { value: quoted(value) });
        }
        Ok(ContentRange::Bytes { first, last, complete })
    }
}

fn trimmed<'a>((before, behind): (&'a str, &'a str)) -> (&'a str, &'a str) {
    (trim(before), trim(behind))
}

impl fmt::Display for ContentRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContentRange::Bytes { first, last, complete: Some(size) } => {
                write!(f, "bytes {first}-{last}/{size}")
            }
            ContentRange::Bytes { first, last, complete: None } => write!(f, "bytes {first}-{last}/*"),
            ContentRange::Unsatisfied { complete } => write!(f, "bytes */{complete}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_three_forms() {
        let parse = |text: &str| text.parse::<ContentRange>().unwrap();
        assert_eq!(parse("bytes 0-0/1"), ContentRange::Bytes { first: 0, last: 0, complete: Some(1) });
        assert_eq!(parse("Bytes 5-9/*"), ContentRange::Bytes { first: 5, last: 9, complete: None });
        assert_eq!(parse("bytes */0"), ContentRange::Unsatisfied { complete: 0 });
        for text in
            ["bytes=0-1/2", "bytes: 0-1/2", "bytes  0-1/2", "0-1/2", "bytes 0 - 1 / 2", "bytes 0-1/2 "]
        {
            assert_eq!(parse(text), ContentRange::Bytes { first: 0, last: 1, complete: Some(2) }, "{text}");
        }
        assert_eq!((parse("bytes 5-9/*").len(), parse("bytes */7").complete()), (5, Some(7)));
    }

    #[test]
    fn refuses_anything_else() {
        for text in [
            "",
            "bytes",
            "bytes ",
            "bytes 0-1",
            "items 0-1/2",
            "bytes */*",
            "bytes0-1/2",
            " 0-1/2",
            "=0-1/2",
            "bytes -1/2",
            "bytes 0-/2",
            "bytes +0-1/2",
            "bytes 0-1/2/3",
            "bytes 0-99999999999999999999/*",
        ] {
            assert!(matches!(text.parse::<ContentRange>(), Err(ContentRangeError::Form { .. })), "{text}");
        }
        for text in ["bytes 2-1/3", "bytes 0-3/3", "bytes 0-0/0", "bytes 0-9223372036854775807/*"] {
            assert!(matches!(text.parse::<ContentRange>(), Err(ContentRangeError::Order { .. })), "{text}");
        }
    }

    #[test]
    fn answers_only_what_was_asked() {
        let range: ContentRange = "bytes 10-19/100".parse().unwrap();
        assert!(range.answers(10, 19, Some(100)).is_ok());
        assert!(range.answers(10, 29, None).is_ok());
        for (first, last, complete) in
            [(9, 19, Some(100)), (10, 18, Some(100)), (10, 19, Some(101)), (0, 99, None)]
        {
            assert!(range.answers(first, last, complete).is_err());
        }
        assert_eq!(
            range.answers(0, 9, Some(100)).unwrap_err().to_string(),
            "server answered with 'bytes 10-19/100' where bytes 0-9/100 was asked for: its ranges cannot be used"
        );
        assert!(ContentRange::Unsatisfied { complete: 100 }.answers(10, 19, Some(100)).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "(bytes )?[0-9*/ -]{0,60}|\\PC*") {
            if let Ok(range) = text.parse::<ContentRange>() {
                range.len();
                let _ = range.answers(0, u64::MAX, None);
            }
        }

        #[test]
        fn print_parse(first in 0..1u64 << 62, len in 1..1u64 << 61, more in proptest::option::of(0..1u64 << 60)) {
            let last = first + len - 1;
            let range = ContentRange::Bytes { first, last, complete: more.map(|more| last + 1 + more) };
            prop_assert_eq!(range.to_string().parse::<ContentRange>(), Ok(range));
            prop_assert_eq!(range.len(), len);
            let none = ContentRange::Unsatisfied { complete: first };
            prop_assert_eq!(none.to_string().parse::<ContentRange>(), Ok(none));
        }
    }
}
