//! Objects of S3 are copied by S3 itself: CopyObject, and part by part where they are larger than that takes.

use weir_get::http::call::{AtHand, Call, Reply};

use super::{S3Bucket, S3Store};
use crate::caller::{Caller, refusal};
use crate::error::{StoreError, shown};
use crate::key;
use crate::listing::{Copies, Listed, Lists, Looked};
use crate::words::StoreWords;
use crate::xml;

/// The largest object of one CopyObject, and the largest part, bytes.
const MAX_COPY: u64 = 5 << 30;

/// Parts of a larger one: each is a request that takes seconds, so one that breaks costs no more.
const PART: u64 = 512 << 20;

/// The most parts of an object.
const MAX_PARTS: u64 = 10_000;

/// Answers of these requests are some hundred bytes.
const MAX_ANSWER: usize = 64 << 10;

/// What an upload in parts has to be told again.
const KEPT: [&str; 5] =
    ["content-type", "cache-control", "content-disposition", "content-encoding", "content-language"];

/// Names of fields and their values.
type Fields = Vec<(String, String)>;

impl Copies for S3Store {
    fn copy(&self, caller: &mut Caller<'_>, bucket: &str, from: &Listed, to: &str) -> Result<(), StoreError> {
        let what = format!("copy s3://{bucket}/{} to {}{}", shown(&from.key), self.shown(), shown(to));
        let source = self.source(bucket, from)?;
        if from.size > MAX_COPY {
            let told = self.told(caller, bucket, from)?;
            return self.copy_in_parts(caller, &what, (source, told), from.size, to);
        }
        let url = self.here().object(to, None)?;
        let call = Call { method: "PUT", url, fields: source, most: MAX_ANSWER, asks_first: false };
        // The status is sent before the copy is made: only the tag says that it was.
        element(&what, &succeeds(caller, &what, &call, b"")?, "ETag").map(drop)
    }
}

impl S3Store {
    /// The fields that name the source, as it was listed.
    fn source(&self, bucket: &str, from: &Listed) -> Result<Fields, StoreError> {
        let mut source = format!("/{bucket}/{}", key::in_query(&from.key).replace("%2F", "/"));
        if let Some(version) = &from.version {
            source.push_str(&format!("?versionId={}", key::in_query(&version.id)));
        }
        let mut fields = vec![("x-amz-copy-source".to_owned(), source)];
        fields.extend(from.etag.iter().map(|tag| ("x-amz-copy-source-if-match".to_owned(), tag.clone())));
        let encryption = self.bucket.settings.encryption.iter().map(|(name, value)| {
            (name.replace("x-amz-server-side", "x-amz-copy-source-server-side"), value.clone())
        });
        fields.extend(encryption);
        Ok(fields)
    }

    fn copy_in_parts(
        &self,
        caller: &mut Caller<'_>,
        what: &str,
        (source, told): (Fields, Fields),
        size: u64,
        to: &str,
    ) -> Result<(), StoreError> {
        let call = Call {
            method: "POST",
            url: self.here().query_of(to, &[("uploads", "")])?,
            fields: told,
            most: MAX_ANSWER,
            asks_first: false,
        };
        let id = element(what, &succeeds(caller, what, &call, b"")?, "UploadId")?;
        let copied = self.copy_parts(caller, what, &source, size, to, &id);
        if copied.is_err() {
            let url = self.here().query_of(to, &[("uploadId", &id)])?;
            let call =
                Call { method: "DELETE", url, fields: Vec::new(), most: MAX_ANSWER, asks_first: false };
            // After a stop `caller` sends nothing more, and what is left is paid for.
            if let Err(error) = caller.clearing().done("abort an upload", &call, &mut AtHand::default()) {
                tracing::warn!("the upload {id} to {} is left: {error}", shown(to));
            }
        }
        copied
    }

    /// The metadata of the source, as fields.
    fn told(
        &self,
        caller: &mut Caller<'_>,
        bucket: &str,
        from: &Listed,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let source = S3Bucket { bucket: bucket.to_owned(), ..self.here() };
        let version = from.version.as_ref().map(|version| version.id.as_str());
        let looked = S3Store::new(source).look(caller, &from.key, version)?;
        let Looked { metadata, headers, .. } = looked.unwrap_or_default();
        let mut fields: Vec<(String, String)> =
            headers.into_iter().filter(|(name, _)| KEPT.contains(&name.as_str())).collect();
        fields.extend(metadata.into_iter().map(|(name, value)| (format!("x-amz-meta-{name}"), value)));
        Ok(fields)
    }

    fn copy_parts(
        &self,
        caller: &mut Caller<'_>,
        what: &str,
        source: &[(String, String)],
        size: u64,
        to: &str,
        id: &str,
    ) -> Result<(), StoreError> {
        let part = PART.max(size.div_ceil(MAX_PARTS));
        let mut list = "<CompleteMultipartUpload>".to_owned();
        for number in 1..=size.div_ceil(part) {
            let first = (number - 1) * part;
            let mut fields = source.to_vec();
            let last = (first + part).min(size) - 1;
            fields.push(("x-amz-copy-source-range".to_owned(), format!("bytes={first}-{last}")));
            let (method, most) = ("PUT", MAX_ANSWER);
            let url = self.here().query_of(to, &[("partNumber", &number.to_string()), ("uploadId", id)])?;
            let reply = succeeds(caller, what, &Call { method, url, fields, most, asks_first: false }, b"")?;
            let tag = xml::escaped(&element(what, &reply, "ETag")?);
            list.push_str(&format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"));
        }
        list.push_str("</CompleteMultipartUpload>");
        let call = Call {
            method: "POST",
            url: self.here().query_of(to, &[("uploadId", id)])?,
            fields: vec![("content-type".to_owned(), "application/xml".to_owned())],
            most: MAX_ANSWER,
            asks_first: false,
        };
        element(what, &succeeds(caller, what, &call, list.as_bytes())?, "ETag").map(drop)
    }
}

/// The answer to a request whose refusal may come with 200.
fn succeeds(caller: &mut Caller<'_>, what: &str, call: &Call<'_>, body: &[u8]) -> Result<Reply, StoreError> {
    let reply = caller.done(what, call, &mut AtHand::new(body))?;
    if StoreWords::of(&reply.body).is_some() { Err(refusal(what, call, &reply)) } else { Ok(reply) }
}

/// The text of the element `name` right below the root.
fn element(what: &str, reply: &Reply, name: &str) -> Result<String, StoreError> {
    let mut found = None;
    let ended = |path: &[&str], text: &str| {
        if path.len() == 2 && path[1] == name {
            found = Some(text.to_owned());
        }
    };
    let answer = |why: String| StoreError::Answer { what: what.to_owned(), why };
    xml::each(&reply.body, ended).map_err(|bad| answer(bad.to_string()))?;
    found.ok_or_else(|| answer(format!("has no {name}")))
}
