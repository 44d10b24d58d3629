//! Objects into a bucket of Google's: in one request by the JSON interface, in parts by the XML interface.
//!
//! One request by the JSON interface holds the object's metadata beside its content
//! (`uploadType=multipart`), and a key that no path can; of a large object that a store takes in no parts the
//! content goes in a request of its own, so that nobody has to find its end by a boundary
//! (`uploadType=resumable`, in one piece). <https://cloud.google.com/storage/docs/json_api/v1/objects/insert>

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use url::{Position, Url};
use weir_codec::digest::Algorithm;
use weir_get::GetError;
use weir_get::http::call::{AtHand, Call, Content};

use super::GcsStore;
use super::lists::Resource;
use crate::caller::Caller;
use crate::condition::Condition;
use crate::error::StoreError;
use crate::key;
use crate::s3::generation_of;
use crate::upload::plan::SINGLE;
use crate::upload::{Attributes, Bounds, Finish, Object, PartThere, Pending, Stored, Sum, Upload, Uploads};

/// The largest object, in one request too, bytes. <https://cloud.google.com/storage/quotas#objects>
const MOST: u64 = 5 << 40;

/// What is said of one object.
const ANSWER: usize = 1 << 20;

/// What the content is sent as where its own type stands in the metadata.
const BYTES: &str = "application/octet-stream";

impl Uploads for GcsStore {
    fn bounds(&self) -> Bounds {
        Bounds { most_single: MOST, most: MOST, ..self.xml.bounds() }
    }

    fn algorithms(&self) -> &[Algorithm] {
        self.xml.algorithms()
    }

    fn checks_whole(&self, algorithm: Algorithm) -> bool {
        self.xml.checks_whole(algorithm)
    }

    fn put(
        &self,
        caller: &mut Caller<'_>,
        object: &Object<'_>,
        sum: Option<&Sum>,
        content: &mut dyn Content,
    ) -> Result<Stored, StoreError> {
        let what = format!("put {}", self.shown(object.key));
        let metadata = metadata(&what, object, sum)?;
        let mut query = Vec::new();
        let generation = generation_at(&what, object.condition)?;
        query.extend(generation.as_deref().map(|generation| ("ifGenerationMatch", generation)));
        query.extend(object.attributes.encryption_key.as_deref().map(|name| ("kmsKeyName", name)));
        match content.length() > SINGLE {
            true => self.by_session(caller, &what, &metadata, &query, content),
            false => self.by_one_request(caller, &what, &metadata, &query, content),
        }
    }

    fn begin(
        &self,
        caller: &mut Caller<'_>,
        object: &Object<'_>,
        algorithm: Option<Algorithm>,
    ) -> Result<String, StoreError> {
        self.xml.begin(caller, object, algorithm)
    }

    fn part(
        &self,
        caller: &mut Caller<'_>,
        upload: &Upload<'_>,
        number: u32,
        sum: Option<&Sum>,
        content: &mut dyn Content,
    ) -> Result<String, StoreError> {
        self.xml.part(caller, upload, number, sum, content)
    }

    fn complete(
        &self,
        caller: &mut Caller<'_>,
        upload: &Upload<'_>,
        finish: &Finish<'_>,
    ) -> Result<Stored, StoreError> {
        self.xml.complete(caller, upload, finish)
    }

    fn abort(&self, caller: &mut Caller<'_>, upload: &Upload<'_>) -> Result<(), StoreError> {
        self.xml.abort(caller, upload)
    }

    fn parts(
        &self,
        caller: &mut Caller<'_>,
        upload: &Upload<'_>,
    ) -> Result<Option<Vec<PartThere>>, StoreError> {
        self.xml.parts(caller, upload)
    }

    fn pending(&self, caller: &mut Caller<'_>, key: &str) -> Result<Vec<Pending>, StoreError> {
        self.xml.pending(caller, key)
    }

    fn stored(&self, caller: &mut Caller<'_>, key: &str) -> Result<Option<Stored>, StoreError> {
        Ok(self.resource(caller, &self.bucket, key, None)?.map(Resource::stored))
    }
}

impl GcsStore {
    fn by_one_request(
        &self,
        caller: &mut Caller<'_>,
        what: &str,
        metadata: &Value,
        query: &[(&str, &str)],
        content: &mut dyn Content,
    ) -> Result<Stored, StoreError> {
        // No content has it but by one chance in 2^128.
        let boundary = format!("{:032x}", fastrand::u128(..));
        let mut enclosed = Enclosed {
            before: format!(
                "--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{metadata}\r\n\
                 --{boundary}\r\nContent-Type: {BYTES}\r\n\r\n"
            )
            .into_bytes(),
            content,
            after: format!("\r\n--{boundary}--\r\n").into_bytes(),
            sent: 0,
        };
        let kind = format!("multipart/related; boundary={boundary}");
        let url = self.insert("multipart", query)?;
        let reply = caller.done(what, &call("POST", url, &kind), &mut enclosed)?;
        Ok(super::lists::read::<Resource>(what, &reply)?.stored())
    }

    fn by_session(
        &self,
        caller: &mut Caller<'_>,
        what: &str,
        metadata: &Value,
        query: &[(&str, &str)],
        content: &mut dyn Content,
    ) -> Result<Stored, StoreError> {
        let mut begin = call("POST", self.insert("resumable", query)?, "application/json; charset=UTF-8");
        begin.fields.push(("x-upload-content-length".to_owned(), content.length().to_string()));
        let metadata = metadata.to_string();
        let reply = caller.done(what, &begin, &mut AtHand::new(metadata.as_bytes()))?;
        let session = reply.head.header("location").and_then(|text| begin.url.join(text).ok());
        let session = session.ok_or_else(|| StoreError::Answer {
            what: what.to_owned(),
            why: "names no place for the content".to_owned(),
        })?;
        // Behind a port that is forwarded the store knows itself by another name than the one that leads
        // there.
        let place = &session[Position::BeforePath..Position::AfterQuery];
        let url = self.settings.endpoint.join(place).ok();
        let url = url.filter(|url| url.origin() == self.settings.endpoint.origin()).unwrap_or(session);
        let reply = caller.done(what, &call("PUT", url, BYTES), content)?;
        Ok(super::lists::read::<Resource>(what, &reply)?.stored())
    }

    fn insert(&self, kind: &str, query: &[(&str, &str)]) -> Result<Url, StoreError> {
        let base = self.settings.endpoint.as_str().trim_end_matches('/');
        let pairs: String =
            query.iter().map(|(name, value)| format!("&{name}={}", key::in_query(value))).collect();
        let text = format!("{base}/upload/storage/v1/b/{}/o?uploadType={kind}{pairs}", self.bucket);
        Url::parse(&text).map_err(|error| StoreError::Usage(format!("cannot ask {text}: {error}")))
    }
}

/// The generation that must be there, `0`: none; `None`: whichever is.
pub(super) fn generation_at(what: &str, condition: &Condition) -> Result<Option<String>, StoreError> {
    match condition {
        Condition::None => Ok(None),
        Condition::Absent => Ok(Some("0".to_owned())),
        Condition::Matches(tag) => generation_of(what, tag).map(Some),
    }
}

fn call(method: &'static str, url: Url, kind: &str) -> Call<'static> {
    let fields = vec![("content-type".to_owned(), kind.to_owned())];
    Call { method, url, fields, most: ANSWER, asks_first: false }
}

/// What is kept with an object, as a resource of the JSON interface.
fn metadata(what: &str, object: &Object<'_>, sum: Option<&Sum>) -> Result<Value, StoreError> {
    let Attributes { content_type, content_encoding, content_disposition, content_language, .. } =
        object.attributes;
    if !object.attributes.tags.is_empty() {
        return Err(StoreError::Usage(format!(
            "cannot {what}: objects of gs:// have no tags; metadata are there"
        )));
    }
    let mut resource = Map::new();
    let sum = sum.and_then(|sum| {
        let name = [(Algorithm::CRC32C, "crc32c"), (Algorithm::MD5, "md5Hash")];
        let name = name.iter().find(|(algorithm, _)| *algorithm == sum.algorithm)?.1;
        Some((name, STANDARD.encode(&sum.value)))
    });
    for (name, value) in [
        ("name", Some(object.key)),
        ("contentType", Some(content_type.as_deref().unwrap_or(BYTES))),
        ("contentEncoding", content_encoding.as_deref()),
        ("contentDisposition", content_disposition.as_deref()),
        ("contentLanguage", content_language.as_deref()),
        ("cacheControl", object.attributes.cache_control.as_deref()),
        ("storageClass", object.attributes.storage_class.as_deref()),
        sum.as_ref().map_or(("", None), |(name, value)| (*name, Some(value.as_str()))),
    ] {
        if let Some(value) = value {
            resource.insert(name.to_owned(), value.into());
        }
    }
    if !object.attributes.metadata.is_empty() {
        let own: Map<String, Value> =
            object.attributes.metadata.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        resource.insert("metadata".to_owned(), own.into());
    }
    Ok(resource.into())
}

/// A content with something before and behind it.
struct Enclosed<'a> {
    before: Vec<u8>,
    content: &'a mut dyn Content,
    after: Vec<u8>,
    sent: u64,
}

impl Content for Enclosed<'_> {
    fn length(&self) -> u64 {
        self.before.len() as u64 + self.content.length() + self.after.len() as u64
    }

    fn rewind(&mut self) -> Result<(), GetError> {
        self.sent = 0;
        self.content.rewind()
    }

    fn next(&mut self, buffer: &mut [u8]) -> Result<usize, GetError> {
        let before = self.before.len() as u64;
        let end = before + self.content.length();
        let length = match self.sent {
            at if at < before => taken(&self.before, at, buffer),
            at if at < end => {
                let most = buffer.len().min(usize::try_from(end - at).unwrap_or(buffer.len()));
                self.content.next(&mut buffer[..most])?
            }
            at => taken(&self.after, at - end, buffer),
        };
        self.sent += length as u64;
        Ok(length)
    }
}

/// Bytes of `from` from `at` on.
fn taken(from: &[u8], at: u64, buffer: &mut [u8]) -> usize {
    let rest = usize::try_from(at).ok().and_then(|at| from.get(at..)).unwrap_or_default();
    let length = rest.len().min(buffer.len());
    buffer[..length].copy_from_slice(&rest[..length]);
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_enclosed_whatever_the_pieces_are() {
        for size in [1, 2, 3, 100] {
            let mut inner = AtHand::new(b"content");
            let mut enclosed =
                Enclosed { before: b"be".to_vec(), content: &mut inner, after: b"hind".to_vec(), sent: 0 };
            for _ in 0..2 {
                let (mut all, mut buffer) = (Vec::new(), vec![0; size]);
                loop {
                    match enclosed.next(&mut buffer).unwrap() {
                        0 => break,
                        length => all.extend_from_slice(&buffer[..length]),
                    }
                }
                assert_eq!((all.as_slice(), all.len() as u64), (&b"becontenthind"[..], enclosed.length()));
                enclosed.rewind().unwrap();
            }
        }
    }
}
