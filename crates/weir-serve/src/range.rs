//! Which bytes does a `Range` header ask for?

use std::ops::Range;

/// Beyond this many ranges the whole file is sent: such requests come from confused clients or from attackers
/// (RFC 9110, 14.2, allows to ignore them).
const MAX_RANGES: usize = 16;

/// What a `Range` header means for a file of known size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// No usable range: all of it.
    Whole,
    /// These ranges, in the order asked for; none is empty, each is within the file.
    Ranges(Vec<Range<u64>>),
    /// Every range starts beyond the end.
    Unsatisfiable,
}

/// Parses `bytes=0-99,200-,-5` (RFC 9110, 14.1.2) against a file of `len` bytes.
///
/// Other units and malformed text mean [`Wanted::Whole`], as the RFC has it: a server may ignore a `Range`.
pub(crate) fn parse(header: &[u8], len: u64) -> Wanted {
    let Some(specs) = std::str::from_utf8(header).ok().and_then(byte_ranges) else { return Wanted::Whole };
    let mut ranges = Vec::new();
    let mut count = 0;
    for spec in specs.split(',').map(|spec| spec.trim_matches([' ', '\t'])).filter(|spec| !spec.is_empty()) {
        count += 1;
        let Some(bounds) = parse_bounds(spec) else { return Wanted::Whole };
        ranges.extend(within(bounds, len));
    }
    match (count, ranges.is_empty()) {
        (0, _) => Wanted::Whole,
        (n, _) if n > MAX_RANGES => Wanted::Whole,
        (_, true) => Wanted::Unsatisfiable,
        (_, false) => Wanted::Ranges(ranges),
    }
}

/// As written: `First(2, Some(5))` for `2-5`, `Last(5)` for `-5`.
enum Bounds {
    First(u64, Option<u64>),
    Last(u64),
}

fn byte_ranges(header: &str) -> Option<&str> {
    let (unit, specs) = header.split_once('=')?;
    unit.trim().eq_ignore_ascii_case("bytes").then_some(specs)
}

fn parse_bounds(spec: &str) -> Option<Bounds> {
    let (first, last) = spec.split_once('-')?;
    if first.is_empty() {
        return Some(Bounds::Last(parse_digits(last)?));
    }
    let first = parse_digits(first)?;
    let last = if last.is_empty() { None } else { Some(parse_digits(last)?) };
    last.is_none_or(|last| last >= first).then_some(Bounds::First(first, last))
}

/// Digits only (`u64::from_str` also takes a sign); a number beyond 64 bits is beyond every file.
fn parse_digits(text: &str) -> Option<u64> {
    let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| text.parse().unwrap_or(u64::MAX))
}

/// The part of a range that lies within the file, if any does.
fn within(bounds: Bounds, len: u64) -> Option<Range<u64>> {
    let range = match bounds {
        Bounds::First(first, last) => first..last.map_or(len, |last| last.saturating_add(1).min(len)),
        Bounds::Last(count) => len.saturating_sub(count)..len,
    };
    (range.start < range.end).then_some(range)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_cut_to_the_file() {
        for (header, expected) in [
            ("bytes=0-0", &[(0, 1)][..]),
            ("bytes=2-5", &[(2, 6)][..]),
            ("bytes=5-", &[(5, 10)][..]),
            ("bytes=-3", &[(7, 10)][..]),
            ("bytes=-99", &[(0, 10)][..]),
            ("bytes=9-99999999999999999999999", &[(9, 10)][..]),
            ("Bytes = 0-1 , 3-4,", &[(0, 2), (3, 5)][..]),
            ("bytes=0-1,10-11", &[(0, 2)][..]),
        ] {
            let expected = expected.iter().map(|&(start, end)| start..end).collect();
            assert_eq!(parse(header.as_bytes(), 10), Wanted::Ranges(expected), "{header}");
        }
    }

    #[test]
    fn ranges_beyond_the_end_are_unsatisfiable_and_nonsense_is_ignored() {
        for header in ["bytes=10-", "bytes=10-20,11-", "bytes=-0"] {
            assert_eq!(parse(header.as_bytes(), 10), Wanted::Unsatisfiable, "{header}");
        }
        assert_eq!(parse(b"bytes=0-", 0), Wanted::Unsatisfiable);
        for header in [
            "",
            "bytes",
            "bytes=",
            "bytes=5-2",
            "bytes=a-b",
            "bytes=-",
            "bytes=+1-2",
            "lines=1-2",
            "bytes=0-1,x",
        ] {
            assert_eq!(parse(header.as_bytes(), 10), Wanted::Whole, "{header}");
        }
        let many = format!("bytes={}", vec!["0-0"; MAX_RANGES + 1].join(","));
        assert_eq!(parse(many.as_bytes(), 10), Wanted::Whole);
    }

    proptest! {
        #[test]
        fn no_range_is_empty_or_leaves_the_file(header in "(bytes=)?[0-9,\\- ]{0,40}", len in 0u64..1000) {
            if let Wanted::Ranges(ranges) = parse(header.as_bytes(), len) {
                prop_assert!(!ranges.is_empty() && ranges.len() <= MAX_RANGES);
                for range in ranges {
                    prop_assert!(range.start < range.end && range.end <= len);
                }
            }
        }
    }
}
