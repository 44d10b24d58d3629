//! `Range` (RFC 9110 section 14.2): written by a client, and read by a server that knows the object's size.

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
/// allows, when it is malformed, when it has more than [`MAX_RANGES`] ranges, and when any two of them share a byte:
/// that is how a small request makes a server send much (CVE-2011-3192). Ranges apart are never more than the object.
pub fn parse(value: &str, size: u64) -> Requested {
    let Some((unit, set)) = value.split_once('=') else { return Requested::Ignore("not a range set") };
    // Blanks stand around commas only: what is misread here would be answered with bytes that nobody asked for.
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
        match parse_one(spec, size) {
            Spec::Malformed => return Requested::Ignore("malformed range"),
            Spec::Empty => return Requested::Ignore("the object is empty"),
            Spec::Outside => {}
            Spec::Inside(range) => ranges.push(range),
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

enum Spec {
    Malformed,
    /// A suffix of an empty object can be satisfied (section 14.1.2), but there is no way to write it in a 206.
    Empty,
    Outside,
    Inside(ByteRange),
}

fn parse_one(spec: &str, size: u64) -> Spec {
    let Some((first, last)) = spec.split_once('-') else { return Spec::Malformed };
    if first.is_empty() {
        return match parse_saturating(last) {
            None => Spec::Malformed,
            Some(0) => Spec::Outside,
            Some(_) if size == 0 => Spec::Empty,
            Some(suffix) => Spec::Inside(ByteRange { first: size.saturating_sub(suffix), last: size - 1 }),
        };
    }
    let (Some(first), Some(last)) = (
        parse_saturating(first),
        match last {
            "" => Some(u64::MAX),
            digits => parse_saturating(digits),
        },
    ) else {
        return Spec::Malformed;
    };
    match () {
        _ if first > last => Spec::Malformed,
        _ if first >= size => Spec::Outside,
        _ => Spec::Inside(ByteRange { first, last: last.min(size - 1) }),
    }
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
