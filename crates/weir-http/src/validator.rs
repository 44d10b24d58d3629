//! Validators: whether two answers are parts of the same object (RFC 9110 sections 8.8 and 13.1).
//!
//! A download in ranges is right only if every range comes from one version of the object. So the first answer's
//! validator is kept, journalled, sent back in `If-Range`, and compared with that of each 206. Ranges must never be
//! put together across a change, so where nothing can be compared, nothing may be resumed.

use std::time::{Duration, SystemTime};

use crate::fields::Fields;
use crate::grammar::MAX_VALUE;

/// What identifies one version of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Validator {
    /// A strong entity tag with its quotes: equal means equal byte for byte (section 8.8.3).
    Strong(String),
    /// A `Last-Modified` date of an answer without an entity tag, old enough to be strong: `Date` is at least one
    /// second later, so a second change within that second would show (section 8.8.2.2).
    LastModified(String),
    /// A weak entity tag, or a date that is too young: good for noticing a change in a 206 that is in hand, not for
    /// `If-Range` (section 13.1.5), and no proof that the bytes are equal.
    Weak(String),
}

/// How an answer's validator relates to the one that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The same version.
    Same,
    /// Another version: what is on disk is of no use.
    Changed,
    /// The answer carries nothing to compare. With `If-Range` sent, a 206 is by itself the server's word that the
    /// version is the same, and may leave out `Last-Modified` (section 15.3.7). Without it, it proves nothing.
    Absent,
}

impl Validator {
    /// The best validator of an answer with status 200 or 206, or `None` if it has none.
    ///
    /// An entity tag goes before a date even when it is weak: `If-Range` with a date is forbidden to a client that
    /// has an entity tag (section 13.1.5). A tag that is malformed is no tag.
    pub fn from_fields(fields: &Fields) -> Option<Validator> {
        if let Some(tag) = entity_tag(fields) {
            return Some(match is_weak(tag) {
                true => Validator::Weak(tag.to_owned()),
                false => Validator::Strong(tag.to_owned()),
            });
        }
        let text = fields.header("last-modified").filter(|text| text.len() <= MAX_VALUE)?;
        let modified = httpdate::parse_http_date(text).ok()?;
        let date = fields.header("date").and_then(|date| httpdate::parse_http_date(date).ok());
        Some(match date.is_some_and(|date| is_strong_date(modified, date)) {
            true => Validator::LastModified(text.to_owned()),
            false => Validator::Weak(text.to_owned()),
        })
    }

    /// The value for `If-Range`, which only a strong validator may be.
    pub fn if_range_value(&self) -> Option<&str> {
        match self {
            Validator::Strong(text) | Validator::LastModified(text) => Some(text),
            Validator::Weak(_) => None,
        }
    }

    /// Compares with the fields of another answer.
    pub fn compare(&self, fields: &Fields) -> Comparison {
        let verdict = |same| if same { Comparison::Same } else { Comparison::Changed };
        let date = |text: &str| httpdate::parse_http_date(text).ok();
        let by_date = |kept: &str| match (date(kept), fields.header("last-modified").and_then(date)) {
            (Some(kept), Some(found)) => verdict(kept == found),
            _ => Comparison::Absent,
        };
        match (self, entity_tag(fields)) {
            (Validator::Strong(kept), Some(found)) => verdict(equal_strong(kept, found)),
            (Validator::Weak(kept), Some(found)) if opaque(kept).is_some() => {
                verdict(equal_weak(kept, found))
            }
            (Validator::Strong(_), None) => Comparison::Absent,
            (Validator::Weak(kept), None) if opaque(kept).is_some() => Comparison::Absent,
            (Validator::LastModified(kept) | Validator::Weak(kept), _) => by_date(kept),
        }
    }

    /// Whether another answer certainly carries the same validator.
    pub fn matches(&self, fields: &Fields) -> bool {
        self.compare(fields) == Comparison::Same
    }

    /// The kind for a journal, to be read back by [`Validator::from_parts`].
    pub fn kind(&self) -> &'static str {
        match self {
            Validator::Strong(_) => "etag",
            Validator::LastModified(_) => "last-modified",
            Validator::Weak(_) => "weak",
        }
    }

    /// The text as the server sent it.
    pub fn value(&self) -> &str {
        match self {
            Validator::Strong(text) | Validator::LastModified(text) | Validator::Weak(text) => text,
        }
    }

    /// A validator out of a journal; `None` if the kind is unknown or the value does not fit it.
    pub fn from_parts(kind: &str, value: &str) -> Option<Validator> {
        let is_date = httpdate::parse_http_date(value).is_ok();
        let tag = opaque(value).is_some();
        match kind {
            "etag" if tag && !is_weak(value) => Some(Validator::Strong(value.to_owned())),
            "last-modified" if is_date => Some(Validator::LastModified(value.to_owned())),
            "weak" if is_date || tag => Some(Validator::Weak(value.to_owned())),
            _ => None,
        }
    }
}

/// Whether a `Last-Modified` date is strong, given the `Date` of the same answer (section 8.8.2.2).
pub fn is_strong_date(modified: SystemTime, date: SystemTime) -> bool {
    date.duration_since(modified).is_ok_and(|age| age >= Duration::from_secs(1))
}

/// Weak comparison (section 8.8.3.2): the same text, whether weak or not.
pub fn equal_weak(a: &str, b: &str) -> bool {
    opaque(a).is_some() && opaque(a) == opaque(b)
}

/// Strong comparison (section 8.8.3.2): the same text, and neither is weak.
pub fn equal_strong(a: &str, b: &str) -> bool {
    !is_weak(a) && !is_weak(b) && equal_weak(a, b)
}

fn entity_tag(fields: &Fields) -> Option<&str> {
    fields.header("etag").filter(|tag| tag.len() <= MAX_VALUE && opaque(tag).is_some())
}

fn is_weak(tag: &str) -> bool {
    tag.starts_with("W/")
}

/// The quoted part of an entity tag, if it is one (section 8.8.3); `W/` is in upper case only.
fn opaque(tag: &str) -> Option<&str> {
    let quoted = tag.strip_prefix("W/").unwrap_or(tag);
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    inner.chars().all(|c| c != '"' && c != ' ' && !c.is_control()).then_some(quoted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EARLY: &str = "Tue, 15 Nov 1994 12:45:26 GMT";
    const LATER: &str = "Tue, 15 Nov 1994 12:45:27 GMT";

    #[test]
    fn the_best_of_an_answer() {
        let best = |fields: Fields| Validator::from_fields(&fields);
        assert_eq!(
            best(Fields::from([("ETag", "\"a\""), ("Last-Modified", EARLY)])),
            Some(Validator::Strong("\"a\"".into()))
        );
        assert_eq!(
            best(Fields::from([("ETag", "W/\"a\""), ("Last-Modified", EARLY), ("Date", LATER)])),
            Some(Validator::Weak("W/\"a\"".into()))
        );
        assert_eq!(
            best(Fields::from([("Last-Modified", EARLY), ("Date", LATER)])),
            Some(Validator::LastModified(EARLY.into()))
        );
        // Within the same second, or without a Date, the file may change again unseen.
        assert_eq!(
            best(Fields::from([("Last-Modified", EARLY), ("Date", EARLY)])),
            Some(Validator::Weak(EARLY.into()))
        );
        assert_eq!(best(Fields::from([("Last-Modified", EARLY)])), Some(Validator::Weak(EARLY.into())));
        for fields in
            [Fields::new(), Fields::from([("ETag", "bare")]), Fields::from([("Last-Modified", "yesterday")])]
        {
            assert_eq!(best(fields), None);
        }
    }

    #[test]
    fn only_strong_ones_go_into_if_range() {
        assert_eq!(Validator::Strong("\"a\"".into()).if_range_value(), Some("\"a\""));
        assert_eq!(Validator::LastModified(EARLY.into()).if_range_value(), Some(EARLY));
        assert_eq!(Validator::Weak("W/\"a\"".into()).if_range_value(), None);
    }

    #[test]
    fn compares_each_206() {
        use Comparison::{Absent, Changed, Same};
        let etag = |tag: &str| Fields::from([("ETag", tag)]);
        let modified = |date: &str| Fields::from([("Last-Modified", date)]);
        let strong = Validator::Strong("\"a\"".into());
        let weak = Validator::Weak("W/\"a\"".into());
        let date = Validator::LastModified(EARLY.into());
        for (validator, fields, expected) in [
            (&strong, etag("\"a\""), Same),
            (&strong, etag("\"b\""), Changed),
            (&strong, etag("W/\"a\""), Changed),
            (&strong, modified(EARLY), Absent),
            (&weak, etag("W/\"a\""), Same),
            (&weak, etag("\"a\""), Same),
            (&weak, etag("W/\"b\""), Changed),
            (&weak, Fields::new(), Absent),
            (&date, modified(EARLY), Same),
            (&date, modified("Tuesday, 15-Nov-94 12:45:26 GMT"), Same),
            (&date, modified(LATER), Changed),
            (&date, etag("\"a\""), Absent),
            (&Validator::Weak(EARLY.into()), modified(LATER), Changed),
        ] {
            assert_eq!(validator.compare(&fields), expected, "{validator:?} {fields:?}");
            assert_eq!(validator.matches(&fields), expected == Same);
        }
    }

    proptest! {
        #[test]
        fn never_panics(etag: String, date: String) {
            let fields = Fields::from([("ETag", etag.as_str()), ("Last-Modified", &date), ("Date", EARLY)]);
            if let Some(validator) = Validator::from_fields(&fields) {
                prop_assert!(validator.matches(&fields));
            }
        }

        #[test]
        fn journal_round_trip(text in "[!#-~]{0,30}", seconds in 0u64..4_000_000_000, which in 0..4) {
            let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            let validator = match which {
                0 => Validator::Strong(format!("\"{text}\"")),
                1 => Validator::Weak(format!("W/\"{text}\"")),
                2 => Validator::Weak(date),
                _ => Validator::LastModified(date),
            };
            prop_assert_eq!(Validator::from_parts(validator.kind(), validator.value()), Some(validator));
        }
    }
}
