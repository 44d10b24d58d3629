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
    mtime,
};
use crate::upload::{Stored, Sum};
use weir_units::instant;

/// A thousand names of 1024 bytes, each of them six letters in JSON, and 1 KiB of what is said of each.
const MAX_PAGE: usize = PAGE as usize * (6 * 1024 + 1024);

/// What is asked of each object of a list: a quarter of what there is.
const FIELDS: &str =
    "nextPageToken,prefixes,items(name,size,updated,md5Hash,crc32c,storageClass,generation,timeDeleted)";

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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectsPage {
    #[serde(default)]
    items: Vec<Resource>,
    #[serde(default)]
    prefixes: Vec<String>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BucketsPage {
    #[serde(default)]
    items: Vec<BucketResource>,
    next_page_token: Option<String>,
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
        let reply = caller.ask(&call, &mut AtHand::default())?;
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
    /// As a list has it.
    pub(super) fn listed(self, is_of_versions: bool) -> Listed {
        let is_latest = self.time_deleted.is_none();
        let version = self.generation.map(|id| ListedVersion { id, is_latest, is_delete_marker: false });
        // The XML interface, which objects are fetched by, has the MD5 as the entity tag, where there is one.
        let md5 = self.md5_hash.as_deref().and_then(|text| STANDARD.decode(text).ok());
        let kept = [("CRC32C", self.crc32c.is_some()), ("MD5", self.md5_hash.is_some())];
        Listed {
            key: self.name,
            size: self.size.parse().unwrap_or_default(),
            modified: instant::parse(&self.updated),
            etag: md5.map(|md5| format!("\"{}\"", hex::encode(&md5))),
            class: self.storage_class,
            checksums: kept
                .iter()
                .filter(|(_, is_kept)| *is_kept)
                .map(|(name, _)| (*name).to_owned())
                .collect(),
            version: version.filter(|_| is_of_versions),
        }
    }

    /// What an upload has become.
    pub(super) fn stored(self) -> Stored {
        let kept = [(Algorithm::CRC32C, &self.crc32c), (Algorithm::MD5, &self.md5_hash)];
        let sums = kept.into_iter().filter_map(|(algorithm, text)| {
            let value = STANDARD.decode(text.as_deref()?).ok()?;
            (value.len() == algorithm.len()).then_some(Sum { algorithm, value })
        });
        let (sums, size) = (sums.collect(), self.size.parse().ok());
        let version = self.generation.clone();
        Stored { tag: self.listed(false).etag, version, size, sums }
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
        let page: ObjectsPage = self.asks(caller, &what, &call, "")?;
        let objects: Vec<Listed> = page.items.into_iter().map(|item| item.listed(ask.versions)).collect();
        let strays = objects.iter().map(|object| &object.key).chain(&page.prefixes);
        if let Some(stray) = strays.into_iter().find(|key| !key.starts_with(ask.prefix)) {
            let why = format!("lists '{}', which does not begin with the prefix", shown(stray));
            return Err(StoreError::Answer { what, why });
        }
        let next = page.next_page_token.filter(|token| !token.is_empty());
        Ok(Page { objects, prefixes: page.prefixes, next, ..Page::default() })
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
            let page: BucketsPage = self.asks(caller, what, &call, "")?;
            buckets.extend(
                page.items.into_iter().map(|bucket| Bucket {
                    name: bucket.name,
                    created: instant::parse(&bucket.time_created),
                }),
            );
            Ok(page.next_page_token.filter(|token| !token.is_empty()))
        })
    }

    fn look(
        &self,
        caller: &mut Caller<'_>,
        key: &str,
        version: Option<&str>,
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
        Ok(Some(Looked { mtime, metadata, headers, listed: resource.listed(true), is_opaque: false }))
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
