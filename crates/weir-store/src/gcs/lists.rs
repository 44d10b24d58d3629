//! Lists of a bucket, looks at objects, and their deletion, by the JSON interface.
//! <https://cloud.google.com/storage/docs/json_api/v1/objects>

use std::collections::BTreeMap;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use weir_codec::digest::Algorithm;
use weir_codec::hex;
use weir_get::http::call::{AtHand, Call, Reply};

use super::GcsStore;
use crate::caller::{Caller, refusal};
use crate::error::{StoreError, shown};
use crate::listing::{
    Bucket, Deletes, ListAsk, Listed, ListedVersion, Lists, Looked, NotDeleted, PAGE, Page, all_buckets,
    mtime, size, unsized_key,
};
use crate::upload::{Stored, Sum};
use weir_units::instant;

/// A thousand names of 1024 bytes, each of them six letters in JSON, and 1 KiB of what is said of each.
const MAX_PAGE: usize = PAGE as usize * (6 * 1024 + 1024);

/// What is asked of each object of a list: a quarter of what there is.
const FIELDS: &str =
    "kind,nextPageToken,prefixes,items(name,size,updated,md5Hash,crc32c,storageClass,generation,timeDeleted)";

/// Keys of one call of [`Deletes`]: one request each, so that a call's failures are heard of soon.
const AT_ONCE: usize = 100;

/// An object.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Resource {
    pub(super) name: String,
    /// A number as a text.
    pub(super) size: String,
    updated: String,
    md5_hash: Option<String>,
    crc32c: Option<String>,
    storage_class: Option<String>,
    pub(super) generation: Option<String>,
    time_deleted: Option<String>,
    metadata: BTreeMap<String, String>,
    content_type: Option<String>,
    content_encoding: Option<String>,
    content_disposition: Option<String>,
    content_language: Option<String>,
    cache_control: Option<String>,
}

/// A page of a list of `T`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListPage<T> {
    /// An empty page has only this. Some emulators leave it out, and send an empty `items`.
    kind: Option<String>,
    items: Option<Vec<T>>,
    prefixes: Option<Vec<String>>,
    next_page_token: Option<String>,
}

impl<T> ListPage<T> {
    /// Itself, if it is a page of a list of `what` (`objects`, `buckets`) at all.
    fn of(self, what: &str) -> Result<ListPage<T>, String> {
        let is_kind = self.kind.as_deref().and_then(|kind| kind.strip_prefix("storage#")) == Some(what);
        let has_any = self.items.is_some() || self.prefixes.is_some() || self.next_page_token.is_some();
        match is_kind || has_any {
            true => Ok(self),
            false => Err(format!("is no list of {what}; is this the address of a store?")),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BucketResource {
    name: String,
    #[serde(default)]
    time_created: String,
}

impl GcsStore {
    /// Sends a request, and reads its answer.
    pub(super) fn asks<T: DeserializeOwned>(
        &self,
        caller: &mut Caller<'_>,
        what: &str,
        call: &Call<'_>,
        body: &str,
    ) -> Result<T, StoreError> {
        read(what, &caller.done(what, call, &mut AtHand::new(body.as_bytes()))?)
    }

    pub(super) fn resource(
        &self,
        caller: &mut Caller<'_>,
        bucket: &str,
        key: &str,
        version: Option<&str>,
    ) -> Result<Option<Resource>, StoreError> {
        let what = format!("look at gs://{bucket}/{}", shown(key));
        let query: Vec<(&str, &str)> = version.map(|version| ("generation", version)).into_iter().collect();
        let url = self.json(&GcsStore::path_of(bucket, key)?, &query)?;
        let call = Call { method: "GET", url, fields: Vec::new(), most: 1 << 20, asks_first: false };
        let reply = caller.ask_to(&what, &call, &mut AtHand::default())?;
        match reply.head.status {
            200..300 => read(&what, &reply).map(Some),
            404 => Ok(None),
            _ => Err(refusal(&what, &call, &reply)),
        }
    }
}

/// The answer as JSON.
pub(super) fn read<T: DeserializeOwned>(what: &str, reply: &Reply) -> Result<T, StoreError> {
    serde_json::from_slice(&reply.body).map_err(|error| {
        let why = match error.is_eof() {
            true => format!("ends in the middle, after {} bytes", reply.body.len()),
            false => format!("cannot be read: {error}"),
        };
        StoreError::Answer { what: what.to_owned(), why }
    })
}

impl Resource {
    /// As a list has it; otherwise what is wrong with it, as in `the store's answer ...`.
    pub(super) fn listed(self, is_of_versions: bool) -> Result<Listed, String> {
        let (etag, size) = (self.etag(), size(&self.size).ok_or_else(|| unsized_key(&self.name))?);
        let is_latest = self.time_deleted.is_none();
        let version = self.generation.map(|id| ListedVersion { id, is_latest, is_delete_marker: false });
        let kept = [("CRC32C", self.crc32c.is_some()), ("MD5", self.md5_hash.is_some())];
        Ok(Listed {
            key: self.name,
            size,
            modified: instant::parse(&self.updated),
            etag,
            class: self.storage_class,
            checksums: kept
                .iter()
                .filter(|(_, is_kept)| *is_kept)
                .map(|(name, _)| (*name).to_owned())
                .collect(),
            version: version.filter(|_| is_of_versions),
        })
    }

    /// The XML interface, which objects are fetched by, has the MD5 as the entity tag, where there is one.
    fn etag(&self) -> Option<String> {
        let md5 = self.md5_hash.as_deref().and_then(|text| STANDARD.decode(text).ok());
        md5.map(|md5| format!("\"{}\"", hex::encode(&md5)))
    }

    /// What an upload has become.
    pub(super) fn stored(self) -> Stored {
        let kept = [(Algorithm::CRC32C, &self.crc32c), (Algorithm::MD5, &self.md5_hash)];
        let sums = kept.into_iter().filter_map(|(algorithm, text)| {
            let value = STANDARD.decode(text.as_deref()?).ok()?;
            (value.len() == algorithm.len()).then_some(Sum { algorithm, value })
        });
        let (sums, size) = (sums.collect(), size(&self.size));
        Stored { tag: self.etag(), version: self.generation, size, sums }
    }

    fn mtime(&self) -> Option<SystemTime> {
        // As weir writes it, rclone (RFC 3339), and gsutil.
        let own = self.metadata.get("mtime").or_else(|| self.metadata.get("goog-reserved-file-mtime"))?;
        mtime(own).or_else(|| instant::parse(own))
    }
}

impl Lists for GcsStore {
    fn page(
        &self,
        caller: &mut Caller<'_>,
        ask: &ListAsk<'_>,
        token: Option<&str>,
    ) -> Result<Page, StoreError> {
        let what = format!("list {}", self.shown(ask.prefix));
        let most = ask.most.clamp(1, PAGE).to_string();
        let mut query = vec![("maxResults", most.as_str()), ("fields", FIELDS)];
        query.extend((!ask.prefix.is_empty()).then_some(("prefix", ask.prefix)));
        query.extend(ask.delimiter.map(|delimiter| ("delimiter", delimiter)));
        query.extend(ask.versions.then_some(("versions", "true")));
        query.extend(token.map(|token| ("pageToken", token)));
        let url = self.json(&format!("b/{}/o", self.bucket), &query)?;
        let call = Call { method: "GET", url, fields: Vec::new(), most: MAX_PAGE, asks_first: false };
        let answer = |why: String| StoreError::Answer { what: what.clone(), why };
        let page: ListPage<Resource> = self.asks(caller, &what, &call, "")?;
        let page = page.of("objects").map_err(answer)?;
        let (items, prefixes) = (page.items.unwrap_or_default(), page.prefixes.unwrap_or_default());
        let objects: Result<Vec<Listed>, String> =
            items.into_iter().map(|item| item.listed(ask.versions)).collect();
        let objects = objects.map_err(answer)?;
        let strays = objects.iter().map(|object| &object.key).chain(&prefixes);
        if let Some(stray) = strays.into_iter().find(|key| !key.starts_with(ask.prefix)) {
            return Err(answer(format!("lists '{}', which does not begin with the prefix", shown(stray))));
        }
        let next = page.next_page_token.filter(|token| !token.is_empty());
        Ok(Page { objects, prefixes, next, ..Page::default() })
    }

    fn buckets(&self, caller: &mut Caller<'_>) -> Result<Vec<Bucket>, StoreError> {
        let what = "list buckets";
        let project = self.settings.project.as_deref().ok_or_else(|| {
            StoreError::Usage(format!("cannot {what}: of which project? set GOOGLE_CLOUD_PROJECT"))
        })?;
        all_buckets(what, "page token", |token, buckets| {
            let mut query = vec![("project", project)];
            query.extend(token.map(|token| ("pageToken", token)));
            let url = self.json("b", &query)?;
            let call = Call { method: "GET", url, fields: Vec::new(), most: MAX_PAGE, asks_first: false };
            let page: ListPage<BucketResource> = self.asks(caller, what, &call, "")?;
            let answer = |why| StoreError::Answer { what: what.to_owned(), why };
            let page = page.of("buckets").map_err(answer)?;
            let bucket =
                |one: BucketResource| Bucket { name: one.name, created: instant::parse(&one.time_created) };
            buckets.extend(page.items.unwrap_or_default().into_iter().map(bucket));
            Ok(page.next_page_token.filter(|token| !token.is_empty()))
        })
    }

    fn look(
        &self,
        caller: &mut Caller<'_>,
        key: &str,
        version: Option<&str>,
        _: Option<u64>,
    ) -> Result<Option<Looked>, StoreError> {
        let Some(resource) = self.resource(caller, &self.bucket, key, version)? else { return Ok(None) };
        let headers = [
            ("content-type", &resource.content_type),
            ("content-encoding", &resource.content_encoding),
            ("content-disposition", &resource.content_disposition),
            ("content-language", &resource.content_language),
            ("cache-control", &resource.cache_control),
        ];
        let headers = headers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
        let hash = resource.crc32c.iter().map(|sum| ("x-goog-hash".to_owned(), format!("crc32c={sum}")));
        let headers = headers.chain(hash).collect();
        let mtime = resource.mtime();
        let metadata: Vec<(String, String)> = resource
            .metadata
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
            .collect();
        let what = || format!("look at {}", self.shown(key));
        let listed = resource.listed(true).map_err(|why| StoreError::Answer { what: what(), why })?;
        Ok(Some(Looked { mtime, metadata, headers, listed, is_opaque: false }))
    }
}

impl Deletes for GcsStore {
    fn at_once(&self) -> usize {
        AT_ONCE
    }

    fn delete(&self, caller: &mut Caller<'_>, keys: &[String]) -> Result<Vec<NotDeleted>, StoreError> {
        let mut failed = Vec::new();
        for key in keys {
            let outcome = GcsStore::path_of(&self.bucket, key).and_then(|path| {
                caller.delete(&format!("delete {}", self.shown(key)), self.json(&path, &[])?)
            });
            match outcome {
                Err(error @ StoreError::Http(weir_get::GetError::Interrupted)) => return Err(error),
                Err(error) => failed.push(NotDeleted { key: key.clone(), why: error.to_string() }),
                Ok(()) => {}
            }
        }
        Ok(failed)
    }
}
