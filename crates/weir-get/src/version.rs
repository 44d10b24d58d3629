//! Which version of which object a transfer is of, and whether a further answer is a part of it.
//!
//! An entity tag is unique among the versions of one resource only (RFC 9110 section 8.8.3): `"1"` of another
//! host, or of another path, says nothing. So a version is its validators and the place from which it came
//! after all redirects. Its coding belongs to it too: a tag ought to differ between codings (section
//! 8.8.3.3), and often does not.

use std::time::{Duration, SystemTime};

use url::{Position, Url};
use weir_http::Fields;
use weir_http::validator::{Agreement, Validators};
use weir_units::instant;

use crate::error::GetError;
use crate::http::credentials;
use crate::object;

/// One version of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Version {
    validators: Validators,
    place: String,
    coding: Option<String>,
    mtime: Option<SystemTime>,
}

/// Fields in which stores keep the time of the file that an object was made from, as rclone and weir write
/// it.
const MTIME: [&str; 3] = ["x-amz-meta-mtime", "x-goog-meta-mtime", "x-ms-meta-mtime"];

impl Version {
    /// The version that an answer from `url`, after redirects, is of.
    pub fn of(fields: &Fields, url: &Url) -> Version {
        let coding = object::foreign_coding(fields, &object::name_from_url(url));
        let mtime = MTIME.iter().find_map(|name| instant::mtime(fields.header(name)?));
        let mtime = mtime.or_else(|| before_1970(fields.header("last-modified")?));
        Version { validators: Validators::from_fields(fields), place: place(url), coding, mtime }
    }

    /// A version out of a journal.
    pub fn from_journal(
        etag: Option<&str>,
        last_modified: Option<&str>,
        place: &str,
        coding: Option<&str>,
    ) -> Version {
        let validators = Validators::from_journal(etag, last_modified);
        Version { validators, place: place.to_owned(), coding: coding.map(str::to_owned), mtime: None }
    }

    /// The time of the file that the object was made from, where a store keeps it or it is before 1970.
    pub fn mtime(&self) -> Option<SystemTime> {
        self.mtime
    }

    /// What `If-Range` takes; `None` where parts of this version cannot be told from those of another.
    pub fn if_range(&self) -> Option<&str> {
        self.validators.strong()
    }

    /// It has neither `ETag` nor `Last-Modified`, or some that contradict each other.
    pub(crate) fn is_silent(&self) -> bool {
        self.validators == Validators::default()
    }

    /// Whether `other` is certainly this version: the only ground on which parts are put together.
    pub fn agree(&self, other: &Version) -> Agreement {
        match self.validators.agree(&other.validators) {
            Agreement::Same if self.coding != other.coding => Agreement::Changed,
            Agreement::Same if self.place != other.place => Agreement::Unproven,
            agreement => agreement,
        }
    }

    /// `found` is this version but for its place, where the same validators may name another object.
    pub(crate) fn is_elsewhere(&self, found: &Version) -> bool {
        let is_same = self.validators.agree(&found.validators) == Agreement::Same;
        is_same && self.coding == found.coding && self.place != found.place
    }

    /// `found` may be this version: neither has what `If-Range` takes, and in nothing that they have they
    /// differ.
    pub(crate) fn may_be(&self, found: &Version) -> bool {
        let are_nameless = self.if_range().is_none() && found.if_range().is_none();
        let are_one = self.place == found.place && self.coding == found.coding;
        are_nameless && are_one && self.validators.agree(&found.validators) != Agreement::Changed
    }

    /// Why parts of the version `found`, of `host`, may not be put beside those of this one: they may where
    /// both say that they are of one version (RFC 9110 section 15.3.7.3).
    pub(crate) fn refuse_another(&self, found: &Version, host: &str) -> Result<(), GetError> {
        let host = host.to_owned();
        match self.agree(found) {
            Agreement::Same => Ok(()),
            Agreement::Changed if self.coding != found.coding => {
                Err(GetError::Changed { host, detail: "its Content-Encoding is another".to_owned() })
            }
            Agreement::Changed => {
                Err(GetError::Changed { host, detail: "its ETag or Last-Modified is another".to_owned() })
            }
            Agreement::Unproven => {
                Err(GetError::Unproven { host, detail: self.doubt(found), is_silent: false })
            }
        }
    }

    /// Why [`Version::agree`] could not prove that `other` is this version, in words.
    pub fn doubt(&self, other: &Version) -> &'static str {
        if self.place != other.place {
            "the URL now redirects to another place, where the same ETag may name another object"
        } else if other.is_silent() {
            "its answer carries no ETag or Last-Modified, or more than one"
        } else {
            "its answer does not carry the ETag or Last-Modified of the first one"
        }
    }

    /// How it is coded, where that is not the file itself.
    pub fn coding(&self) -> Option<&str> {
        self.coding.as_deref()
    }

    /// The same, of bytes that are decoded on the way.
    pub(crate) fn uncoded(self) -> Version {
        Version { coding: None, ..self }
    }

    /// The validators, for the journal.
    pub fn validators(&self) -> &Validators {
        &self.validators
    }

    /// Scheme, host, port and path, for the journal.
    pub fn place(&self) -> &str {
        &self.place
    }
}

/// A `Last-Modified` before 1970, which is no validator: those are compared with times since then. Dates and
/// the days of their weeks repeat every 400 years.
fn before_1970(text: &str) -> Option<SystemTime> {
    const DAYS: u64 = 146_097;
    let (before, rest) = text.split_at_checked("Thu, 01 Jan ".len())?;
    let (year, after) = rest.split_at_checked("1970".len())?;
    let year = year.parse::<u16>().ok().filter(|year| *year < 1970)?;
    let later = format!("{before}{}{after}", year + 400);
    let later = Validators::from_journal(None, Some(&later)).modified()?;
    later.checked_sub(Duration::from_secs(DAYS * 86_400))
}

/// Scheme, host, port and path. The query is left out: signatures of links to one object change there.
fn place(url: &Url) -> String {
    credentials::without(url)[..Position::AfterPath].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(url: &str) -> Version {
        let mut fields = Fields::new();
        fields.push("ETag", "\"1\"").unwrap();
        Version::of(&fields, &Url::parse(url).unwrap())
    }

    #[test]
    fn a_tag_is_of_one_place() {
        let kept = version("http://u:p@a/x?signature=1");
        assert_eq!(kept.agree(&version("http://a:80/x?signature=2")), Agreement::Same);
        for other in ["http://b/x", "https://a/x", "http://a:81/x", "http://a/y"] {
            assert_eq!(kept.agree(&version(other)), Agreement::Unproven, "{other}");
            assert!(kept.is_elsewhere(&version(other)), "{other}");
        }
        assert_eq!(kept.place(), "http://a/x");
        let coded = |url: &str| {
            let mut fields = Fields::new();
            fields.push("ETag", "\"1\"").unwrap();
            fields.push("Content-Encoding", "gzip").unwrap();
            Version::of(&fields, &Url::parse(url).unwrap())
        };
        assert_eq!(kept.agree(&coded("http://a/x")), Agreement::Changed);
        assert!(!kept.is_elsewhere(&kept) && !kept.is_elsewhere(&coded("http://b/x")));
        let silent = |url: &str| Version::of(&Fields::new(), &Url::parse(url).unwrap());
        assert!(silent("http://a/x").may_be(&silent("http://a/x?q")) && !kept.may_be(&kept));
        assert!(!silent("http://a/x").may_be(&silent("http://b/x")) && !silent("http://a/x").may_be(&kept));
        assert_eq!(version("http://a/x.gz").agree(&coded("http://a/x.gz")), Agreement::Same);
    }

    #[test]
    fn a_date_before_1970_is_a_time_and_no_validator() {
        for (text, seconds) in [
            ("Wed, 31 Dec 1969 23:59:59 GMT", Some(-1)),
            ("Mon, 01 Jan 1900 00:00:00 GMT", Some(-2_208_988_800)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", None),
            ("Wed, 31 Feb 1969 00:00:00 GMT", None),
            ("Wed, 31 Dec \u{e9}\u{e9}69", None),
            ("1969", None),
        ] {
            let mut fields = Fields::new();
            fields.push("Last-Modified", text).unwrap();
            let version = Version::of(&fields, &Url::parse("http://a/x").unwrap());
            assert_eq!(version.mtime().map(instant::since_epoch), seconds.map(|it| (it, 0)), "{text}");
            assert_eq!(version.is_silent(), !text.contains("1970"), "{text}");
        }
    }
}
