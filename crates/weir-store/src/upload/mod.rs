//! Filling a store: what one of its buckets takes, and the requests that fill it.
//!
//! [`Uploads`] is the seam: one object in one request, or in parts that many lanes send. Each store has its
//! own words for the parts:
//!
//! | here | S3 | GCS (XML API) | Azure |
//! | --- | --- | --- | --- |
//! | [`Uploads::begin`] | CreateMultipartUpload, its id | the same | no request; the id is a prefix of block ids made here |
//! | [`Uploads::part`], its tag | UploadPart, an ETag | the same | Put Block, the block id |
//! | [`Uploads::complete`] | CompleteMultipartUpload | the same | Put Block List, with the [`Attributes`] |
//! | [`Uploads::parts`] | ListParts | the same | Get Block List, uncommitted |
//! | [`Uploads::abort`] | AbortMultipartUpload | the same | no request; blocks nobody commits go after a week |
//! | [`Uploads::pending`] | ListMultipartUploads | the same | List Blobs, `include=uncommittedblobs` |
//!
//! GCS' resumable uploads, whose parts must follow one another, fit no lanes: they are used with one part,
//! for what is large and goes in one request. A store that knows no parts gets everything in one.
//!
//! An upload's way: [`engine`] starts lanes; a `lane` opens a job ([`source`]), begins its upload or resumes
//! one ([`journal`]), and sends it part by part ([`plan`]); after the last part it becomes an object. Of a
//! run of several files those that are stored are kept in mind ([`finished`]). What is seen meanwhile is the
//! `watch`'s, which has the tuner choose the number of lanes.

pub mod elsewhere;
pub mod engine;
pub mod fields;
pub mod finished;
pub mod job;
pub mod journal;
pub mod kinds;
mod lane;
pub mod plain;
pub mod plan;
mod proof;
mod queue;
pub mod shared;
pub mod source;
mod state;
mod transfer;
pub(crate) mod unanswered;
mod watch;

use weir_codec::digest::Algorithm;
use weir_get::http::call::Content;

use crate::caller::Caller;
use crate::condition::Condition;
use crate::error::StoreError;

/// The requests that fill a bucket. All may be sent again: a request whose answer was lost is.
pub trait Uploads: Send + Sync {
    /// What it takes.
    fn bounds(&self) -> Bounds;

    /// The digests that it checks what it is sent by, the one to prefer first.
    fn algorithms(&self) -> &[Algorithm];

    /// At the end it can be told the digest of all parts together ([`Finish::whole`]).
    fn checks_whole(&self, algorithm: Algorithm) -> bool;

    /// Its requests show the user's login, fields and cookies: nobody else speaks for them.
    fn speaks_as_user(&self) -> bool {
        false
    }

    /// Stores an object in one request.
    fn put(
        &self,
        caller: &mut Caller<'_>,
        object: &Object<'_>,
        sum: Option<&Sum>,
        content: &mut dyn Content,
    ) -> Result<Stored, StoreError>;

    /// Begins an object of several parts; its id.
    fn begin(
        &self,
        caller: &mut Caller<'_>,
        object: &Object<'_>,
        algorithm: Option<Algorithm>,
    ) -> Result<String, StoreError>;

    /// Sends a part, from number 1 on; its tag. A number that was sent before is replaced.
    fn part(
        &self,
        caller: &mut Caller<'_>,
        upload: &Upload<'_>,
        number: u32,
        sum: Option<&Sum>,
        content: &mut dyn Content,
    ) -> Result<String, StoreError>;

    /// Makes one object of the parts.
    fn complete(
        &self,
        caller: &mut Caller<'_>,
        upload: &Upload<'_>,
        finish: &Finish<'_>,
    ) -> Result<Stored, StoreError>;

    /// When the store itself drops what is unfinished, where [`Uploads::abort`] does nothing; `None`: that
    /// removes it.
    fn drops(&self) -> Option<&'static str> {
        None
    }

    /// Ends an upload that becomes no object; one that is not there any more has ended.
    fn abort(&self, caller: &mut Caller<'_>, upload: &Upload<'_>) -> Result<(), StoreError>;

    /// The parts that the store has, by their numbers; `None`: there is no such upload any more.
    fn parts(
        &self,
        caller: &mut Caller<'_>,
        upload: &Upload<'_>,
    ) -> Result<Option<Vec<PartThere>>, StoreError>;

    /// Uploads of `key` that were begun and have not ended. An error where the store cannot tell.
    fn pending(&self, caller: &mut Caller<'_>, key: &str) -> Result<Vec<Pending>, StoreError>;

    /// What is stored as `key` now; `None` where nothing is.
    fn stored(&self, caller: &mut Caller<'_>, key: &str) -> Result<Option<Stored>, StoreError>;
}

/// What a store takes, bytes and numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Parts of an object.
    pub parts: u32,
    /// The smallest part, but for the last.
    pub least_part: u64,
    /// The largest part.
    pub most_part: u64,
    /// The largest object that one request stores.
    pub most_single: u64,
    /// The largest object.
    pub most: u64,
}

/// An object to be stored.
#[derive(Debug, Clone, Copy)]
pub struct Object<'a> {
    /// Its key.
    pub key: &'a str,
    /// What is kept with it.
    pub attributes: &'a Attributes,
    /// When it may be stored.
    pub condition: &'a Condition,
}

/// An upload that was begun.
#[derive(Debug, Clone, Copy)]
pub struct Upload<'a> {
    /// Of which object.
    pub object: Object<'a>,
    /// The store's name for it.
    pub id: &'a str,
}

/// How an upload of parts ends.
#[derive(Debug, Clone, Copy)]
pub struct Finish<'a> {
    /// All parts, in their order.
    pub parts: &'a [Part],
    /// The size of all of it, bytes.
    pub size: u64,
    /// The digest of all of it, where [`Uploads::checks_whole`].
    pub whole: Option<&'a Sum>,
}

/// A digest of what is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// Which.
    pub algorithm: Algorithm,
    /// Its bytes, as [`weir_codec::digest::Digest::finish`] has them.
    pub value: Vec<u8>,
}

/// A part that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// From 1 on.
    pub number: u32,
    /// The store's name for what it took.
    pub tag: String,
    /// What its content was sent with.
    pub sum: Option<Sum>,
}

/// A part as the store lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartThere {
    /// From 1 on.
    pub number: u32,
    /// See [`Part::tag`].
    pub tag: String,
    /// Bytes.
    pub size: u64,
}

/// An upload that nobody has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The store's name for it.
    pub id: String,
    /// When it was begun, as the store writes it.
    pub since: String,
}

/// An object that is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// Its validator, with its quotes.
    pub tag: Option<String>,
    /// Its version, where the bucket keeps them.
    pub version: Option<String>,
    /// Bytes, where that was told.
    pub size: Option<u64>,
    /// Digests that the store keeps of all of it.
    pub sums: Vec<Sum>,
}

/// What is kept with an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Content-Encoding`.
    pub content_encoding: Option<String>,
    /// `Content-Disposition`.
    pub content_disposition: Option<String>,
    /// `Content-Language`.
    pub content_language: Option<String>,
    /// `Cache-Control`.
    pub cache_control: Option<String>,
    /// `Expires`, as its source writes it.
    pub expires: Option<String>,
    /// The user's own, names in lower case.
    pub metadata: Vec<(String, String)>,
    /// The store's name of a class: `STANDARD_IA`, `NEARLINE`, `Cool`.
    pub storage_class: Option<String>,
    /// How the store encrypts it: `AES256`, `aws:kms`.
    pub encryption: Option<String>,
    /// The key that it is encrypted with, by the store's name for it.
    pub encryption_key: Option<String>,
    /// `NAME=VALUE` pairs.
    pub tags: Vec<(String, String)>,
    /// They are of another store's object, which goes without them to a target that refuses them
    /// ([`fields::TagRefusal`]).
    pub tags_may_go: bool,
}
