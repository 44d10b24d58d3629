//! Validators: whether two answers are of the same version of an object (RFC 9110 sections 8.8, 13.1.5 and
//! 15.3.7).
//!
//! A download in parts is right only if every part comes from one version of the object. RFC 9110 section
//! 15.3.7.3 allows parts to be combined only where all of them carry the same strong validator. So the
//! validators of the first answer are kept and journalled, the strong one is sent back in `If-Range`, and
//! each further answer has to carry it. An answer that carries nothing to compare proves nothing: silence is
//! not agreement.

use std::time::{Duration, SystemTime};

use crate::fields::Fields;
use crate::grammar::{MAX_VALUE, parse_date as date};

/// The validators of one answer.
///
/// A field that comes twice with different values contradicts itself and counts as absent. A tag that
/// contradicts itself, or is too long to be kept, takes the date with it: the server then names several
/// versions at once.
#[derive(Debug, Clone, Default)]
pub struct Validators {
    etag: Option<String>,
    last_modified: Option<String>,
    /// `Last-Modified` may be used as a strong validator.
    dated: bool,
    /// `Last-Modified` may be the time at which the answer was sent: it equals `Date`, or it comes from a
    /// journal, which does not record `Date`.
    clocked: bool,
}

/// `clocked` is about an answer, not about the version that it is of.
impl PartialEq for Validators {
    fn eq(&self, other: &Validators) -> bool {
        (&self.etag, &self.last_modified, self.dated) == (&other.etag, &other.last_modified, other.dated)
    }
}

impl Eq for Validators {}

/// How the validators of a further answer relate to those that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// Both answers carry the same strong validator, and nothing else in them differs: their parts may be
    /// combined.
    Same,
    /// A validator that both carry differs.
    Changed,
    /// Nothing differs, and nothing proves that the version is the same.
    Unproven,
}

impl Validators {
    /// The validators of an answer with status 200 or 206.
    ///
    /// A date is strong where the same answer's `Date` is at least one second later, so that a second change
    /// within its second would show (section 8.8.2.2), and where there is no entity tag: a client that has
    /// one may not send a date in `If-Range` (section 13.1.5). A tag that is malformed is kept for what it
    /// differs from, no more.
    pub fn from_fields(fields: &Fields) -> Validators {
        let etag = match fields.single("etag") {
            Ok(tag) if tag.is_none_or(|tag| tag.len() <= MAX_VALUE) => tag,
            _ => return Validators::default(),
        };
        let one = |name| fields.single(name).ok().flatten().filter(|value| value.len() <= MAX_VALUE);
        let last_modified = one("last-modified").filter(|text| date(text).is_some());
        let sent = one("date").and_then(date);
        let is_old =
            |text| date(text).zip(sent).is_some_and(|(modified, sent)| is_strong_date(modified, sent));
        Validators {
            etag: etag.map(str::to_owned),
            last_modified: last_modified.map(str::to_owned),
            dated: etag.is_none_or(|tag| opaque(tag).is_none()) && last_modified.is_some_and(is_old),
            clocked: sent.is_some() && last_modified.and_then(date) == sent,
        }
    }

    /// Validators out of a journal; texts that are none are left out.
    pub fn from_journal(etag: Option<&str>, last_modified: Option<&str>) -> Validators {
        let etag = etag.filter(|tag| tag.len() <= MAX_VALUE);
        let last_modified = last_modified.filter(|text| text.len() <= MAX_VALUE && date(text).is_some());
        // A journal is only kept under a strong validator: without a tag that is the date.
        let dated = last_modified.is_some() && etag.is_none_or(|tag| opaque(tag).is_none());
        let last_modified = last_modified.map(str::to_owned);
        Validators { etag: etag.map(str::to_owned), last_modified, dated, clocked: true }
    }

    /// The strong validator, as `If-Range` takes it: an entity tag that is not weak, else a strong date.
    pub fn strong(&self) -> Option<&str> {
        self.strong_tag().or_else(|| self.last_modified.as_deref().filter(|_| self.dated))
    }

    /// Compares with the validators of a further answer.
    ///
    /// A 206 has to carry the `ETag` that a 200 would have had (section 15.3.7), so a tag on one side alone
    /// is no agreement, whatever the dates say. It may leave out `Last-Modified` beside a tag. A server that
    /// thinks an object is from the future has to tell the time of its answer in the place of that date
    /// (section 8.8.2.1): beside equal strong tags that is no difference.
    pub fn agree(&self, other: &Validators) -> Agreement {
        let tags_differ = match (&self.etag, &other.etag) {
            (Some(kept), Some(found)) => kept != found && !equal_strong(kept, found),
            _ => false,
        };
        let dates =
            self.last_modified.as_deref().and_then(date).zip(other.last_modified.as_deref().and_then(date));
        let same_tag = self.strong_tag().is_some() && self.strong_tag() == other.strong_tag();
        let are_clocks = same_tag && self.clocked && other.clocked;
        if tags_differ || dates.is_some_and(|(kept, found)| kept != found && !are_clocks) {
            return Agreement::Changed;
        }
        let same_date = self.dated && other.dated && dates.is_some() && self.etag == other.etag;
        if same_tag || same_date { Agreement::Same } else { Agreement::Unproven }
    }

    /// The entity tag as the server sent it.
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// `Last-Modified` as the server sent it.
    pub fn last_modified(&self) -> Option<&str> {
        self.last_modified.as_deref()
    }

    /// `Last-Modified` as a time.
    pub fn modified(&self) -> Option<SystemTime> {
        self.last_modified.as_deref().and_then(date)
    }

    fn strong_tag(&self) -> Option<&str> {
        self.etag.as_deref().filter(|tag| opaque(tag).is_some() && !is_weak(tag))
    }
}

/// A time in whole seconds since 1970, if it is one that a field can have (1970 to 9999).
pub fn http_time(seconds: i64) -> Option<SystemTime> {
    const YEAR_10000: u64 = 253_402_300_800;
    let seconds = u64::try_from(seconds).ok().filter(|&seconds| seconds < YEAR_10000)?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// A time as a field writes it (section 5.6.7).
pub fn http_date(time: SystemTime) -> String {
    httpdate::fmt_http_date(time)
}

/// Whether a `Last-Modified` date is strong, given the `Date` of the same answer (section 8.8.2.2).
pub(crate) fn is_strong_date(modified: SystemTime, date: SystemTime) -> bool {
    date.duration_since(modified).is_ok_and(|age| age >= Duration::from_secs(1))
}

/// Weak comparison (section 8.8.3.2): the same text, whether weak or not.
pub fn equal_weak(a: &str, b: &str) -> bool {
    opaque(a).is_some() && opaque(a) == opaque(b)
}

/// Strong comparison (section 8.8.3.2): the same text, and neither is weak.
pub(crate) fn equal_strong(a: &str, b: &str) -> bool {
    !is_weak(a) && !is_weak(b) && equal_weak(a, b)
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

    fn of<const N: usize>(fields: [(&str, &str); N]) -> Validators {
        Validators::from_fields(&Fields::from(fields))
    }

    #[test]
    fn what_is_strong_in_an_answer() {
        for (fields, strong) in [
            (&[("ETag", "\"a\""), ("Last-Modified", EARLY)][..], Some("\"a\"")),
            (&[("ETag", "\"a\""), ("ETag", "\"a\"")], Some("\"a\"")),
            (&[("ETag", "W/\"a\""), ("Last-Modified", EARLY), ("Date", LATER)], None),
            (&[("Last-Modified", EARLY), ("Date", LATER)], Some(EARLY)),
            (&[("ETag", "bare"), ("Last-Modified", EARLY), ("Date", LATER)], Some(EARLY)),
            // Within the same second, or without a Date, the file may change again unseen.
            (&[("Last-Modified", EARLY), ("Date", EARLY)], None),
            (&[("Last-Modified", EARLY)], None),
            // Fields that contradict themselves.
            (&[("ETag", "\"a\""), ("ETag", "\"b\""), ("Last-Modified", EARLY), ("Date", LATER)], None),
            (&[("Last-Modified", EARLY), ("Last-Modified", LATER), ("Date", LATER)], None),
            (&[("Last-Modified", EARLY), ("Date", LATER), ("Date", EARLY)], None),
            (&[], None),
            (&[("ETag", "bare")], None),
            (&[("Last-Modified", "yesterday")], None),
        ] {
            let mut lines = Fields::new();
            fields.iter().for_each(|(name, value)| lines.push(name, value).unwrap());
            assert_eq!(Validators::from_fields(&lines).strong(), strong, "{fields:?}");
        }
    }

    #[test]
    fn each_further_answer_has_to_agree() {
        use Agreement::{Changed, Same, Unproven};
        let tag = || of([("ETag", "\"a\"")]);
        let both = || of([("ETag", "\"a\""), ("Last-Modified", EARLY), ("Date", LATER)]);
        let dated = || of([("Last-Modified", EARLY), ("Date", LATER)]);
        let weak = || of([("ETag", "W/\"a\"")]);
        let clock = |tag, now| of([("ETag", tag), ("Last-Modified", now), ("Date", now)]);
        let journal = || Validators::from_journal(Some("\"a\""), Some(EARLY));
        for (kept, found, expected) in [
            (tag(), tag(), Same),
            (tag(), both(), Same),
            (both(), tag(), Same),
            (tag(), of([("ETag", "\"b\"")]), Changed),
            (tag(), weak(), Changed),
            (tag(), of([]), Unproven),
            (tag(), dated(), Unproven),
            (both(), dated(), Unproven),
            (both(), of([("Last-Modified", LATER)]), Changed),
            (both(), of([("ETag", "\"a\""), ("Last-Modified", LATER)]), Changed),
            // Each answer has its own time there: the object is from the future.
            (clock("\"a\"", EARLY), clock("\"a\"", LATER), Same),
            (journal(), clock("\"a\"", LATER), Same),
            (both(), clock("\"a\"", LATER), Changed),
            (clock("\"a\"", EARLY), clock("\"b\"", LATER), Changed),
            (clock("W/\"a\"", EARLY), clock("W/\"a\"", LATER), Changed),
            (journal(), of([("ETag", "\"a\""), ("Last-Modified", LATER)]), Changed),
            (tag(), of([("ETag", "\"a\""), ("ETag", "\"b\"")]), Unproven),
            (dated(), dated(), Same),
            (dated(), of([("Last-Modified", "Tuesday, 15-Nov-94 12:45:26 GMT"), ("Date", LATER)]), Same),
            // Strong in the first answer alone.
            (dated(), of([("Last-Modified", EARLY)]), Unproven),
            (dated(), of([("Last-Modified", EARLY), ("Date", EARLY)]), Unproven),
            (dated(), of([("Last-Modified", LATER)]), Changed),
            (dated(), both(), Unproven),
            (dated(), tag(), Unproven),
            (dated(), of([]), Unproven),
            (weak(), weak(), Unproven),
            (weak(), of([("ETag", "W/\"b\"")]), Changed),
            (of([]), of([]), Unproven),
            (of([("Last-Modified", EARLY)]), of([("Last-Modified", LATER)]), Changed),
        ] {
            assert_eq!(kept.agree(&found), expected, "{kept:?} {found:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(etag: String, date: String) {
            of([("ETag", etag.as_str()), ("Last-Modified", &date), ("Date", EARLY)]);
        }

        /// Agreement wants a strong validator on both sides, and works in both directions.
        #[test]
        fn only_strong_validators_agree(kept in any_validators(), found in any_validators()) {
            let agreement = kept.agree(&found);
            if agreement == Agreement::Same {
                prop_assert!(kept.strong().is_some());
                prop_assert_eq!(&kept.etag, &found.etag);
            }
            prop_assert_eq!(kept.agree(&kept) == Agreement::Same, kept.strong().is_some());
            prop_assert_eq!(agreement == Agreement::Changed, found.agree(&kept) == Agreement::Changed);
        }

        #[test]
        fn journal_round_trip(kept in any_validators()) {
            let read = Validators::from_journal(kept.etag(), kept.last_modified());
            prop_assert!(kept.strong().is_none() || read == kept);
        }
    }

    fn any_validators() -> impl Strategy<Value = Validators> {
        let tags = prop::option::of(prop::sample::select(vec!["\"a\"", "\"b\"", "W/\"a\"", "bare"]));
        let dates = prop::option::of(prop::sample::select(vec![EARLY, LATER]));
        (tags, dates, prop::bool::ANY).prop_map(|(tag, modified, sent)| {
            let mut fields = Fields::new();
            tag.iter().for_each(|tag| fields.push("ETag", tag).unwrap());
            modified.iter().for_each(|date| fields.push("Last-Modified", date).unwrap());
            if sent {
                fields.push("Date", LATER).unwrap();
            }
            Validators::from_fields(&fields)
        })
    }
}
