//! `Range` (RFC 9110 section 14.2): written by a client, and read by a server that knows the object's size.

use std::fmt;
use std::str::FromStr;

use crate::grammar::{self, MAX_VALUE, parse_saturating};

/// The most ranges that one request may ask for; with more, the field is ignored and the whole object sent.
pub const MAX_RANGES: usize = 16;

/// A range within an object: `first <= last < size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte, which is included.
    pub last: u64,
}

impl ByteRange {
    /// How many bytes it has.
    #[expect(clippy::len_without_is_empty, reason = "a range of bytes is never empty")]
    pub fn len(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// One member of a range set as it is written (RFC 9110 section 14.1.2), before the object's size is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeSpec {
    /// `FIRST-LAST`, or `FIRST-` for all from there on. Never ends before it begins.
    From {
        /// Offset of the first byte.
        first: u64,
        /// Offset of the last byte, which is included.
        last: Option<u64>,
    },
    /// `-LENGTH`: so many bytes at the end, or all of a shorter object.
    Suffix(u64),
}

impl RangeSpec {
    /// Its bytes of an object of `size` bytes; `None` where that has none of them.
    pub fn within(self, size: u64) -> Option<ByteRange> {
        let end = size.checked_sub(1)?;
        match self {
            RangeSpec::From { first, last } => {
                (first <= end).then(|| ByteRange { first, last: last.map_or(end, |last| last.min(end)) })
            }
            RangeSpec::Suffix(0) => None,
            RangeSpec::Suffix(length) => Some(ByteRange { first: size.saturating_sub(length), last: end }),
        }
    }
}

impl FromStr for RangeSpec {
    type Err = Malformed;

    /// Digits only; a number that does not fit counts as the largest one.
    fn from_str(text: &str) -> Result<RangeSpec, Malformed> {
        let (first, last) = text.split_once('-').ok_or(Malformed)?;
        let number = |digits: &str| parse_saturating(digits).ok_or(Malformed);
        if first.is_empty() {
            return number(last).map(RangeSpec::Suffix);
        }
        let first = number(first)?;
        let last = if last.is_empty() { None } else { Some(number(last)?) };
        match last.is_some_and(|last| last < first) {
            true => Err(Malformed),
            false => Ok(RangeSpec::From { first, last }),
        }
    }
}

impl fmt::Display for RangeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RangeSpec::From { first, last: Some(last) } => write!(f, "{first}-{last}"),
            RangeSpec::From { first, last: None } => write!(f, "{first}-"),
            RangeSpec::Suffix(length) => write!(f, "-{length}"),
        }
    }
}

/// Not a member of a range set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected FIRST-LAST, FIRST- or -LENGTH")]
pub struct Malformed;

/// What a server should do about a `Range` field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requested {
    /// Send the whole object with 200. The reason is for a log.
    Ignore(&'static str),
    /// 416 with `Content-Range: bytes */SIZE`.
    Unsatisfiable,
    /// 206 with one range.
    Single(ByteRange),
    /// 206 with `multipart/byteranges`, in the order asked for.
    Multi(Vec<ByteRange>),
}

/// Reads the value of a `Range` field against an object of `size` bytes.
///
/// Ranges that lie outside are dropped, ends beyond the object are cut. The field is ignored, as section 14.2
/// allows, when it is malformed, when it has more than [`MAX_RANGES`] ranges, and when any two of them share
/// a byte: that is how a small request makes a server send much (CVE-2011-3192). Ranges apart are never more
/// than the object.
pub fn parse(value: &str, size: u64) -> Requested {
    let Some((unit, set)) = value.split_once('=') else { return Requested::Ignore("not a range set") };
    // Blanks stand around commas only: what is misread here would be answered with bytes that nobody asked
    // for.
    if !unit.eq_ignore_ascii_case("bytes") {
        return Requested::Ignore("unknown range unit");
    }
    if value.len() > MAX_VALUE {
        return Requested::Ignore("too long");
    }
    let mut count = 0;
    let mut ranges = Vec::new();
    for spec in grammar::split(set, ',') {
        count += 1;
        if count > MAX_RANGES {
            return Requested::Ignore("too many ranges");
        }
        match spec.parse::<RangeSpec>() {
            Err(Malformed) => return Requested::Ignore("malformed range"),
            // A suffix of an empty object can be satisfied (section 14.1.2), but there is no way to write it
            // in a 206.
            Ok(RangeSpec::Suffix(1..)) if size == 0 => return Requested::Ignore("the object is empty"),
            Ok(spec) => ranges.extend(spec.within(size)),
        }
    }
    match ranges.as_slice() {
        [] if count == 0 => Requested::Ignore("no range"),
        [] => Requested::Unsatisfiable,
        [range] => Requested::Single(*range),
        _ if overlap(&ranges) => Requested::Ignore("the ranges overlap"),
        _ => Requested::Multi(ranges),
    }
}

/// At most [`MAX_RANGES`] of them, so each is set against each.
fn overlap(ranges: &[ByteRange]) -> bool {
    let meet = |a: &ByteRange, b: &ByteRange| a.first <= b.last && b.first <= a.last;
    ranges.iter().enumerate().any(|(at, range)| ranges[..at].iter().any(|other| meet(range, other)))
}

/// The value that asks for `first..=last`, or for everything from `first` on.
pub fn format(first: u64, last: Option<u64>) -> String {
    match last {
        Some(last) => format!("bytes={first}-{last}"),
        None => format!("bytes={first}-"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn single(first: u64, last: u64) -> Requested {
        Requested::Single(ByteRange { first, last })
    }

    #[test]
    fn single_ranges() {
        assert_eq!(parse("bytes=0-0", 10), single(0, 0));
        assert_eq!(parse("bytes=5-", 10), single(5, 9));
        assert_eq!(parse("bytes=-3", 10), single(7, 9));
        assert_eq!(parse("bytes=-30", 10), single(0, 9));
        assert_eq!(parse("Bytes=2-99999999999999999999999", 10), single(2, 9));
        assert_eq!(parse("bytes=20-, 1-2", 10), single(1, 2));
        assert_eq!(parse("bytes= 1-2 ,\t", 10), single(1, 2));
    }

    #[test]
    fn outside_the_object() {
        for value in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(parse(value, 10), Requested::Unsatisfiable, "{value}");
        }
        assert_eq!(parse("bytes=0-", 0), Requested::Unsatisfiable);
        assert!(matches!(parse("bytes=-1", 0), Requested::Ignore(_)));
    }

    #[test]
    fn ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "items=0-1",
            "bytes=2-1",
            "bytes=a-b",
            "bytes=1",
            "bytes=-",
            "bytes=--1",
            "bytes=0-1-2",
            "bytes=0-9,0-9",
            "bytes=0-1,1-2",
            "bytes=0-0,-10",
            "bytes=4-4,4-4",
            "bytes=0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-",
            "bytes=+1-2",
            "bytes =0-0",
            "bytes=0 -0",
            "bytes=0- 0",
            "bytes=- 3",
            "bytes =0 - 0",
        ] {
            assert!(matches!(parse(value, 10), Requested::Ignore(_)), "{value}");
        }
        assert!(matches!(
            parse(&format!("bytes={}", "0-0,".repeat(17)), 100),
            Requested::Ignore("too many ranges")
        ));
    }

    #[test]
    fn several() {
        let range = |first, last| ByteRange { first, last };
        assert_eq!(parse("bytes=8-, 0-1,50-", 10), Requested::Multi(vec![range(8, 9), range(0, 1)]));
    }

    #[test]
    fn members_are_written_as_they_are_read() {
        for text in ["0-0", "5-9", "5-", "-3", "-0"] {
            assert_eq!(text.parse::<RangeSpec>().unwrap().to_string(), text);
        }
        for bad in ["", "-", "5", "9-5", "--3", "1-2-3", "+1-2", "1 -2"] {
            assert_eq!(bad.parse::<RangeSpec>(), Err(Malformed), "{bad}");
        }
        let within = |text: &str, size| text.parse::<RangeSpec>().unwrap().within(size);
        for text in ["0-", "-1", "0-0"] {
            assert_eq!(within(text, 0), None, "{text}");
        }
        assert_eq!(within("-7", 5), Some(ByteRange { first: 0, last: 4 }));
        assert_eq!(within("3-99", 5), Some(ByteRange { first: 3, last: 4 }));
    }

    proptest! {
        #[test]
        fn ranges_lie_within(value in "bytes=[0-9, -]{0,40}|\\PC*", size: u64) {
            let ranges = match parse(&value, size) {
                Requested::Single(range) => vec![range],
                Requested::Multi(ranges) => ranges,
                _ => vec![],
            };
            for range in &ranges {
                prop_assert!(range.first <= range.last && range.last < size);
            }
            let total: u128 = ranges.iter().map(|range| u128::from(range.len())).sum();
            prop_assert!(total <= u128::from(size), "never more than the whole");
        }

        #[test]
        fn print_parse(first in 0..1u64 << 40, len in 1..1u64 << 40) {
            let last = first + len - 1;
            prop_assert_eq!(parse(&format(first, Some(last)), last + 1), single(first, last));
            prop_assert_eq!(parse(&format(first, None), last + 1), single(first, last));
        }
    }
}
