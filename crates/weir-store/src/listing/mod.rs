//! What a store holds, page by page; and what is done to many of its objects at once. Whichever store it is.
//!
//! Nothing here relies on the order of a list: directory buckets of S3 have none, and other stores sort as
//! they like.

mod pages;

use std::time::SystemTime;

use weir_http::head::ResponseHead;

pub(crate) use pages::all_buckets;
pub use pages::{Chosen, Pages, PagesSetup, ahead};
pub use weir_units::instant::{mtime, mtime_text};

use crate::caller::Caller;
use crate::condition::Condition;
use crate::error::{StoreError, shown};
use crate::xml::{self, BadXml};

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
    /// It is as long as was asked for, and the store does not say whether it is the last one.
    pub may_go_on: bool,
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
    /// Its tag is no digest, though it may have the form of one.
    pub is_opaque: bool,
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

    /// A look at `key`, at this version of it; `None` where there is no such object. `size`: its size, if it
    /// is known, for an answer to a HEAD without one.
    ///
    /// # Errors
    /// [`StoreError::Answer`] if its size is not known at all.
    fn look(
        &self,
        caller: &mut Caller<'_>,
        key: &str,
        version: Option<&str>,
        size: Option<u64>,
    ) -> Result<Option<Looked>, StoreError>;

    /// Names and values of the tags of `key`, of this version of it. Worth a request where a look says that
    /// there are some ([`Looked::has_tags`]).
    fn tags_of(
        &self,
        _: &mut Caller<'_>,
        _key: &str,
        _version: Option<&str>,
    ) -> Result<Vec<(String, String)>, StoreError> {
        Ok(Vec::new())
    }
}

impl Looked {
    /// The store has tags of it.
    pub fn has_tags(&self) -> bool {
        let counts = |name: &str| matches!(name, "x-amz-tagging-count" | "x-ms-tag-count");
        self.headers.iter().any(|(name, value)| counts(name) && value != "0")
    }
}

/// A size in an answer; `None`: not a number, or larger than any file can be.
pub(crate) fn size(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().filter(|size| i64::try_from(*size).is_ok())
}

/// What is wrong with an answer that has `key` without its size, as in `the store's answer ...`. A missing
/// size is not zero.
pub(crate) fn unsized_key(key: &str) -> String {
    format!("does not say how large '{}' is", shown(key))
}

/// The size of the object `key` from the answer to a HEAD of it, else the one that is `known`.
pub(crate) fn size_of(
    what: &str,
    key: &str,
    head: &ResponseHead,
    known: Option<u64>,
) -> Result<u64, StoreError> {
    // Google sends no Content-Length for an object that it can decode (`Content-Encoding: gzip`), but this.
    let said = ["content-length", "x-goog-stored-content-length"];
    let said = said.iter().find_map(|name| head.header(name).and_then(size));
    said.or(known).ok_or_else(|| {
        let why = format!("{}; weir get fetches it", unsized_key(key));
        StoreError::Answer { what: what.to_owned(), why }
    })
}

/// Names and values of tags, as S3 and Azure write them.
pub(crate) fn tags(what: &str, body: &[u8]) -> Result<Vec<(String, String)>, StoreError> {
    let (mut tags, mut name) = (Vec::new(), String::new());
    let ended = |path: &[&str], text: &str| match path {
        [_, "TagSet", "Tag", "Key"] => text.clone_into(&mut name),
        [_, "TagSet", "Tag", "Value"] => tags.push((std::mem::take(&mut name), text.to_owned())),
        _ => {}
    };
    let answer = |bad: BadXml| StoreError::Answer { what: what.to_owned(), why: bad.to_string() };
    xml::each(body, ended).map_err(answer)?;
    Ok(tags)
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
    /// Makes `to` of this bucket an equal of `from` of `bucket`, with its metadata and what else a store
    /// keeps of it. Fails where `from` is no longer what it was when it was listed, and where what is at `to`
    /// is not as its condition says. `hears` is told of each step of a copy of several, with the bytes that
    /// it brought as far as the store says.
    fn copy(
        &self,
        caller: &mut Caller<'_>,
        bucket: &str,
        from: &Listed,
        to: (&str, &Condition),
        hears: &dyn Fn(u64),
    ) -> Result<(), StoreError>;
}
