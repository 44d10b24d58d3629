//! What a store holds, page by page; and what is done to many of its objects at once. Whichever store it is.
//!
//! Nothing here relies on the order of a list: directory buckets of S3 have none, and other stores sort as
//! they like.

mod pages;

use std::time::SystemTime;

pub use pages::{Pages, PagesSetup, ahead};

use crate::caller::Caller;
use crate::error::StoreError;

/// The most objects that a page is asked for: as many as S3, GCS and their likes give.
pub const PAGE: u32 = 1000;

/// An object as a list has it, or a look at it alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Its key, from the bucket on.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// When the store took it.
    pub modified: Option<SystemTime>,
    /// Its entity tag, with its quotes.
    pub etag: Option<String>,
    /// `STANDARD`, `GLACIER`; `None` where the store does not say.
    pub class: Option<String>,
    /// The algorithms of the checksums that the store keeps: `CRC64NVME`.
    pub checksums: Vec<String>,
    /// Of a list of versions: which one.
    pub version: Option<ListedVersion>,
}

/// One of the versions of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedVersion {
    /// What it is asked for by.
    pub id: String,
    /// Who asks without a version gets it.
    pub is_latest: bool,
    /// It says that the object was deleted, and has no content.
    pub is_delete_marker: bool,
}

/// What is to be listed.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListAsk<'a> {
    /// Keys that begin so.
    pub prefix: &'a str,
    /// Of keys that have this behind the prefix only what comes before it is listed, once; `None`: all keys.
    pub delimiter: Option<&'a str>,
    /// All versions of each object, and what says that one was deleted.
    pub versions: bool,
    /// The most objects of a page, at most [`PAGE`].
    pub most: u32,
}

/// A page of a list. It may be empty and have a next one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Objects, in the order of the store.
    pub objects: Vec<Listed>,
    /// What comes before a delimiter, with it.
    pub prefixes: Vec<String>,
    /// What the next page is asked for by; `None`: this is the last one.
    pub next: Option<String>,
}

/// A bucket or container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// Since when.
    pub created: Option<SystemTime>,
}

/// What the store says of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looked {
    /// As a list has it.
    pub listed: Listed,
    /// The time of the file that it was made from ([`mtime`]), where whoever made it wrote it down.
    pub mtime: Option<SystemTime>,
    /// The user's words on it, names in lower case without `x-amz-meta-` and the like.
    pub metadata: Vec<(String, String)>,
    /// The fields of the answer that are no metadata (`content-type`), names in lower case.
    pub headers: Vec<(String, String)>,
}

/// Lists a bucket.
pub trait Lists: Send + Sync {
    /// A page; `token` is [`Page::next`] of the one before.
    ///
    /// # Errors
    /// [`StoreError::Answer`] where the page is cut, or says that there are more and not how to get them.
    fn page(
        &self,
        caller: &mut Caller<'_>,
        ask: &ListAsk<'_>,
        token: Option<&str>,
    ) -> Result<Page, StoreError>;

    /// The asker's buckets, whichever bucket this is of.
    fn buckets(&self, caller: &mut Caller<'_>) -> Result<Vec<Bucket>, StoreError>;

    /// A look at `key`, at this version of it; `None` where there is no such object.
    fn look(
        &self,
        caller: &mut Caller<'_>,
        key: &str,
        version: Option<&str>,
    ) -> Result<Option<Looked>, StoreError>;
}

/// An object that was not deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotDeleted {
    /// Which.
    pub key: String,
    /// The store's words.
    pub why: String,
}

/// Deletes objects of a bucket.
pub trait Deletes: Send + Sync {
    /// The most keys of one call.
    fn at_once(&self) -> usize;

    /// Deletes these, and says which are still there. One that is not there counts as deleted.
    fn delete(&self, caller: &mut Caller<'_>, keys: &[String]) -> Result<Vec<NotDeleted>, StoreError>;
}

/// Copies objects within a store, which moves the bytes itself.
pub trait Copies: Send + Sync {
    /// Makes `to` of this bucket an equal of `from` of `bucket`, with its metadata and what else a store keeps
    /// of it. Fails where `from` is no longer what it was when it was listed.
    fn copy(&self, caller: &mut Caller<'_>, bucket: &str, from: &Listed, to: &str) -> Result<(), StoreError>;
}

/// The time of a file as metadata have it: seconds since 1970 with a fraction, as rclone writes it and reads it.
pub fn mtime_text(time: SystemTime) -> String {
    let (seconds, nanoseconds) = crate::instant::since_epoch(time);
    match (seconds, nanoseconds) {
        (_, 0) => seconds.to_string(),
        // -1 s and 0.25 s are -0.75 s.
        (..0, _) => {
            let sign = if seconds == -1 { "-" } else { "" };
            let text = format!("{sign}{}.{:09}", seconds + 1, 1_000_000_000 - nanoseconds);
            text.trim_end_matches('0').to_owned()
        }
        _ => format!("{seconds}.{nanoseconds:09}").trim_end_matches('0').to_owned(),
    }
}

/// Reads what [`mtime_text`] and rclone write (and s3fs, without a fraction).
pub fn mtime(text: &str) -> Option<SystemTime> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole.strip_prefix('-').unwrap_or(whole)) || !is_digits(fraction) {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    let nanoseconds: u32 = format!("{fraction:0<9.9}").parse().ok()?;
    match (whole.starts_with('-'), nanoseconds) {
        (true, 1..) => crate::instant::at(seconds.checked_sub(1)?, 1_000_000_000 - nanoseconds),
        _ => crate::instant::at(seconds, nanoseconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instant;

    #[test]
    fn times_in_metadata() {
        for (text, seconds, nanoseconds) in [
            ("1700000000", 1_700_000_000, 0),
            ("1700000000.123456789", 1_700_000_000, 123_456_789),
            ("1700000000.5", 1_700_000_000, 500_000_000),
            ("-0.75", -1, 250_000_000),
            ("-2.5", -3, 500_000_000),
            ("0", 0, 0),
        ] {
            let time = instant::at(seconds, nanoseconds).unwrap();
            assert_eq!(mtime(text), Some(time), "{text}");
            assert_eq!(mtime_text(time), text);
        }
        for bad in ["", "x", "1.x", "-", ".5", "1e9", "99999999999999999999"] {
            assert_eq!(mtime(bad), None, "{bad}");
        }
    }
}
