//! Does the client's copy still match? A server's reading of the preconditions (RFC 9110 section 13).

use std::time::SystemTime;

use crate::fields::Fields;
use crate::grammar::{self, MAX_VALUE};
use crate::range_request::{self, Requested};
use crate::validator::{equal_strong, equal_weak, is_strong_date};

/// What identifies a version of an object at its server.
#[derive(Debug, Clone, Copy)]
pub struct Version<'a> {
    /// The entity tag, with its quotes.
    pub tag: &'a str,
    /// Whole seconds, not later than now.
    pub modified: Option<SystemTime>,
}

/// How a request with preconditions goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreconditionOutcome {
    /// As if there were none.
    Proceed,
    /// 304: the client's copy is current.
    NotModified,
    /// 412: the object is not the version that the client insists on.
    Failed,
}

/// Judges the preconditions of a GET or HEAD in the order of section 13.2.2. A date that cannot be read is
/// ignored.
pub fn judge(fields: &Fields, version: Version) -> PreconditionOutcome {
    let is_newer_than = |name| match (parse_date(once(fields, name)), version.modified) {
        (Some(date), Some(modified)) => Some(modified > date),
        _ => None,
    };
    if has(fields, "if-match") {
        if !fields.headers_all("if-match").any(|line| if_match(line, version.tag)) {
            return PreconditionOutcome::Failed;
        }
    } else if is_newer_than("if-unmodified-since") == Some(true) {
        return PreconditionOutcome::Failed;
    }
    if has(fields, "if-none-match") {
        if fields.headers_all("if-none-match").any(|line| if_none_match(line, version.tag)) {
            return PreconditionOutcome::NotModified;
        }
    } else if is_newer_than("if-modified-since") == Some(false) {
        return PreconditionOutcome::NotModified;
    }
    PreconditionOutcome::Proceed
}

/// What a GET asks for of an object of `size` bytes: its `Range`, unless an `If-Range` names another version.
///
/// A field that may occur once but occurs twice says nothing.
pub fn requested(fields: &Fields, version: Version, size: u64, now: SystemTime) -> Requested {
    let Some(range) = once(fields, "range") else { return Requested::Ignore("no range") };
    let applies = match has(fields, "if-range") {
        false => true,
        true => once(fields, "if-range").is_some_and(|value| if_range(value, version, now)),
    };
    match applies {
        true => range_request::parse(range, size),
        false => Requested::Ignore("another version is meant"),
    }
}

/// `If-None-Match` (section 13.1.2): whether the client has this version already. The comparison is weak.
fn if_none_match(value: &str, etag: &str) -> bool {
    value == "*" || tags(value).any(|tag| equal_weak(tag, etag))
}

/// `If-Match` (section 13.1.1): whether this is a version the client accepts. The comparison is strong.
fn if_match(value: &str, etag: &str) -> bool {
    value == "*" || tags(value).any(|tag| equal_strong(tag, etag))
}

/// `If-Range` (section 13.1.5): whether the range may be sent, else the whole object with 200.
///
/// A tag is compared strongly. A date has to be the very `Last-Modified` date, and that has to be strong at
/// `now`.
fn if_range(value: &str, version: Version, now: SystemTime) -> bool {
    let is_tag = equal_weak(value, value);
    if is_tag {
        return equal_strong(value, version.tag);
    }
    let seconds =
        |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs());
    match (parse_date(Some(value)), version.modified) {
        (Some(date), Some(modified)) => seconds(date) == seconds(modified) && is_strong_date(modified, now),
        _ => false,
    }
}

fn has(fields: &Fields, name: &str) -> bool {
    fields.header(name).is_some()
}

/// The value of a field that occurs exactly once.
fn once<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    let mut lines = fields.headers_all(name);
    let first = lines.next()?;
    lines.next().is_none().then_some(first)
}

fn parse_date(text: Option<&str>) -> Option<SystemTime> {
    grammar::parse_date(text?)
}

/// The entity tags of one line, `W/` and quotes included, up to the first thing that is none. A tag may hold
/// commas, and a backslash in it is a character like any other (section 8.8.3).
fn tags(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = if line.len() > MAX_VALUE { "" } else { line };
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let start = if rest.starts_with("W/") { 2 } else { 0 };
        if rest.as_bytes().get(start) != Some(&b'"') {
            return None;
        }
        let end = start + 1 + rest[start + 1..].find('"')? + 1;
        let tag = &rest[..end];
        rest = rest[end..].trim_start_matches([' ', '\t']);
        // Two tags without a comma between them are no list.
        if !rest.is_empty() && !rest.starts_with(',') {
            rest = "";
            return None;
        }
        Some(tag)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Mon, 07 Nov 1994 08:49:37 GMT";
    const EARLIER: &str = "Sat, 05 Nov 1994 08:49:37 GMT";

    fn version() -> Version<'static> {
        Version { tag: "\"v,1\"", modified: parse_date(Some(MODIFIED)) }
    }

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.push(name, value).unwrap();
        }
        fields
    }

    #[test]
    fn preconditions_follow_the_order_of_the_rfc() {
        for (lines, expected) in [
            (&[][..], PreconditionOutcome::Proceed),
            (&[("If-Match", "*")], PreconditionOutcome::Proceed),
            (&[("If-Match", "\"x\", \"v,1\"")], PreconditionOutcome::Proceed),
            (&[("If-Match", "\"x\\\",\"v,1\"")], PreconditionOutcome::Proceed),
            (&[("if-match", "W/\"v,1\"")], PreconditionOutcome::Failed),
            (&[("If-Match", "\"x\"")], PreconditionOutcome::Failed),
            (&[("If-Match", "\"x\" \"v,1\"")], PreconditionOutcome::Failed),
            (&[("If-Match", "v,1")], PreconditionOutcome::Failed),
            (&[("If-Match", "")], PreconditionOutcome::Failed),
            (&[("If-Match", "\"x\""), ("If-Match", "\"v,1\"")], PreconditionOutcome::Proceed),
            (&[("If-Unmodified-Since", MODIFIED)], PreconditionOutcome::Proceed),
            (&[("If-Unmodified-Since", EARLIER)], PreconditionOutcome::Failed),
            (
                &[("If-Unmodified-Since", EARLIER), ("If-Unmodified-Since", EARLIER)],
                PreconditionOutcome::Proceed,
            ),
            (&[("If-Match", "*"), ("If-Unmodified-Since", EARLIER)], PreconditionOutcome::Proceed),
            (&[("If-None-Match", "*")], PreconditionOutcome::NotModified),
            (&[("If-None-Match", "W/\"v,1\"")], PreconditionOutcome::NotModified),
            (&[("If-None-Match", ",, \"v,1\" ,")], PreconditionOutcome::NotModified),
            (&[("If-None-Match", "w/\"v,1\"")], PreconditionOutcome::Proceed),
            (&[("If-None-Match", "\"x\"")], PreconditionOutcome::Proceed),
            (&[("If-None-Match", "\"v")], PreconditionOutcome::Proceed),
            (&[("If-Modified-Since", MODIFIED)], PreconditionOutcome::NotModified),
            (&[("If-Modified-Since", LATER)], PreconditionOutcome::NotModified),
            (&[("If-Modified-Since", EARLIER)], PreconditionOutcome::Proceed),
            (&[("If-Modified-Since", "yesterday")], PreconditionOutcome::Proceed),
            (&[("If-None-Match", "\"x\""), ("If-Modified-Since", LATER)], PreconditionOutcome::Proceed),
            (&[("If-Match", "\"x\""), ("If-None-Match", "*")], PreconditionOutcome::Failed),
        ] {
            assert_eq!(judge(&fields(lines), version()), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_range_is_for_one_version() {
        let now = parse_date(Some(LATER)).unwrap();
        let asks = |if_range: &[&str], now| {
            let mut lines = vec![("Range", "bytes=0-0")];
            lines.extend(if_range.iter().map(|value| ("If-Range", *value)));
            matches!(requested(&fields(&lines), version(), 10, now), Requested::Single(_))
        };
        assert!(asks(&[], now) && asks(&["\"v,1\""], now) && asks(&[MODIFIED], now));
        for other in ["W/\"v,1\"", "\"x\"", "*", "", LATER, "junk"] {
            assert!(!asks(&[other], now), "{other}");
        }
        assert!(!asks(&["\"v,1\"", "\"v,1\""], now), "twice is not once");
        // Within the same second the file may change again unseen.
        let modified = version().modified.unwrap();
        assert!(!asks(&[MODIFIED], modified) && asks(&[MODIFIED], modified + Duration::from_secs(1)));
        let twice = fields(&[("Range", "bytes=0-0"), ("Range", "bytes=0-0")]);
        assert!(matches!(requested(&twice, version(), 10, now), Requested::Ignore(_)));
    }

    proptest! {
        #[test]
        fn never_panics(tag: String, value: String) {
            for name in ["if-match", "if-none-match", "if-range", "if-modified-since", "range"] {
                let fields = Fields::from([(name, value.as_str())]);
                let version = Version { tag: &tag, modified: Some(SystemTime::UNIX_EPOCH) };
                judge(&fields, version);
                requested(&fields, version, 10, SystemTime::UNIX_EPOCH);
            }
        }

        #[test]
        fn every_tag_of_a_list_is_found(list in proptest::collection::vec("[!#-~]{0,8}", 1..6), at in 0usize..6) {
            let tags: Vec<String> = list.iter().map(|text| format!("\"{text}\"")).collect();
            let tag = &tags[at % tags.len()];
            prop_assert!(if_match(&tags.join(", "), tag) && if_none_match(&tags.join(","), tag));
        }
    }
}
