//! Does the client's copy still match? The preconditions of RFC 9110, section 13.

use std::time::{Duration, SystemTime};

/// The header fields that an answer may depend on, borrowed from the request.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a> {
    pub(crate) accept: Vec<&'a [u8]>,
    pub(crate) range: Option<&'a [u8]>,
    pub(crate) if_range: Option<&'a [u8]>,
    if_match: Vec<&'a [u8]>,
    if_none_match: Vec<&'a [u8]>,
    if_modified_since: Option<&'a [u8]>,
    if_unmodified_since: Option<&'a [u8]>,
}

/// What identifies a version of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Validators<'a> {
    /// A strong entity tag, quotes included.
    pub(crate) tag: &'a str,
    /// Whole seconds, not later than now.
    pub(crate) modified: Option<SystemTime>,
}

/// How a request with preconditions goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As if there were none.
    Proceed,
    /// 304: the client's copy is current.
    NotModified,
    /// 412: the file is not the version that the client insists on.
    Failed,
}

impl<'a> Fields<'a> {
    /// Picks the fields out of a request's header; the names may be in any case.
    pub(crate) fn collect(header: impl Iterator<Item = (&'a str, &'a [u8])>) -> Fields<'a> {
        let mut fields = Fields::default();
        for (name, value) in header {
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            // No other name has a first letter among these, and most headers are other names.
            match name.as_bytes().first() {
                Some(b'a' | b'A') if is("accept") => fields.accept.push(value),
                Some(b'r' | b'R') if is("range") => set_once(&mut fields.range, value),
                Some(b'i' | b'I') if is("if-range") => set_once(&mut fields.if_range, value),
                Some(b'i' | b'I') if is("if-match") => fields.if_match.push(value),
                Some(b'i' | b'I') if is("if-none-match") => fields.if_none_match.push(value),
                Some(b'i' | b'I') if is("if-modified-since") => {
                    set_once(&mut fields.if_modified_since, value)
                }
                Some(b'i' | b'I') if is("if-unmodified-since") => {
                    set_once(&mut fields.if_unmodified_since, value)
                }
                _ => {}
            }
        }
        fields
    }

    /// Judges the preconditions in the order of RFC 9110, 13.2.2. A date that cannot be read is ignored.
    pub(crate) fn judge(&self, version: Validators) -> Outcome {
        let is_newer_than = |date: Option<&[u8]>| match (date.and_then(parse_date), version.modified) {
            (Some(date), Some(modified)) => Some(modified > date),
            _ => None,
        };
        if !self.if_match.is_empty() {
            if !any_tag(&self.if_match, version.tag, Comparison::Strong) {
                return Outcome::Failed;
            }
        } else if is_newer_than(self.if_unmodified_since) == Some(true) {
            return Outcome::Failed;
        }
        if !self.if_none_match.is_empty() {
            if any_tag(&self.if_none_match, version.tag, Comparison::Weak) {
                return Outcome::NotModified;
            }
        } else if is_newer_than(self.if_modified_since) == Some(false) {
            return Outcome::NotModified;
        }
        Outcome::Proceed
    }

    /// Whether a `Range` may be honoured: without `If-Range` always, with it only for exactly this version (13.1.5).
    pub(crate) fn range_applies(&self, version: Validators, now: SystemTime) -> bool {
        let Some(if_range) = self.if_range else { return true };
        if if_range.starts_with(b"\"") || if_range.starts_with(b"W/") {
            // A weak tag never equals a strong one, and all of ours are strong.
            return if_range == version.tag.as_bytes();
        }
        // A date is a strong validator only when the file has not changed in the second of the answer (8.8.2.2).
        let is_settled =
            |modified| now.duration_since(modified).is_ok_and(|age| age >= Duration::from_secs(1));
        version
            .modified
            .is_some_and(|modified| is_settled(modified) && parse_date(if_range) == Some(modified))
    }
}

/// A field that may occur once but occurs twice is made one that says nothing.
fn set_once<'a>(field: &mut Option<&'a [u8]>, value: &'a [u8]) {
    *field = Some(if field.is_none() { value } else { b"" });
}

fn parse_date(text: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()
}

#[derive(Clone, Copy, PartialEq)]
enum Comparison {
    Strong,
    Weak,
}

/// Whether `*` or a list of tags contains the tag. A quoted tag may itself contain commas.
fn any_tag(lines: &[&[u8]], tag: &str, comparison: Comparison) -> bool {
    lines.iter().any(|line| {
        line.trim_ascii() == b"*"
            || tags(line)
                .any(|(weak, found)| found == tag.as_bytes() && !(weak && comparison == Comparison::Strong))
    })
}

/// The tags of one line: whether each is weak, and the quoted part.
fn tags(line: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let open = rest.iter().position(|&byte| byte == b'"')?;
        let close = open + 1 + rest[open + 1..].iter().position(|&byte| byte == b'"')?;
        let found = (rest[..open].ends_with(b"W/"), &rest[open..=close]);
        rest = &rest[close + 1..];
        Some(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Mon, 07 Nov 1994 08:49:37 GMT";
    const EARLIER: &str = "Sat, 05 Nov 1994 08:49:37 GMT";

    fn version() -> Validators<'static> {
        Validators { tag: "\"v,1\"", modified: parse_date(MODIFIED.as_bytes()) }
    }

    fn fields<'a>(header: &[(&'a str, &'a str)]) -> Fields<'a> {
        Fields::collect(header.iter().map(|&(name, value)| (name, value.as_bytes())))
    }

    #[test]
    fn preconditions_follow_the_order_of_the_rfc() {
        for (header, expected) in [
            (&[][..], Outcome::Proceed),
            (&[("If-Match", "*")], Outcome::Proceed),
            (&[("If-Match", "\"x\", \"v,1\"")], Outcome::Proceed),
            (&[("if-match", "W/\"v,1\"")], Outcome::Failed),
            (&[("If-Match", "\"x\"")], Outcome::Failed),
            (&[("If-Unmodified-Since", MODIFIED)], Outcome::Proceed),
            (&[("If-Unmodified-Since", EARLIER)], Outcome::Failed),
            (&[("If-Match", "*"), ("If-Unmodified-Since", EARLIER)], Outcome::Proceed),
            (&[("If-None-Match", "W/\"v,1\"")], Outcome::NotModified),
            (&[("If-None-Match", "\"x\""), ("If-None-Match", "\"v,1\"")], Outcome::NotModified),
            (&[("If-None-Match", "\"v\"")], Outcome::Proceed),
            (&[("If-None-Match", "\"x\""), ("If-Modified-Since", LATER)], Outcome::Proceed),
            (&[("If-Modified-Since", MODIFIED)], Outcome::NotModified),
            (&[("If-Modified-Since", EARLIER)], Outcome::Proceed),
            (&[("If-Modified-Since", "yesterday")], Outcome::Proceed),
        ] {
            assert_eq!(fields(header).judge(version()), expected, "{header:?}");
        }
    }

    #[test]
    fn a_range_needs_exactly_this_version() {
        let now = parse_date(LATER.as_bytes()).unwrap();
        for (value, applies) in [
            ("\"v,1\"", true),
            ("W/\"v,1\"", false),
            ("\"x\"", false),
            (MODIFIED, true),
            (LATER, false),
            ("", false),
        ] {
            assert_eq!(fields(&[("If-Range", value)]).range_applies(version(), now), applies, "{value}");
        }
        let just_now = version().modified.unwrap();
        assert!(!fields(&[("If-Range", MODIFIED)]).range_applies(version(), just_now));
        assert!(fields(&[]).range_applies(version(), just_now));
    }
}
