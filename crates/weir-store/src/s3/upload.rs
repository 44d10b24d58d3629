//! Objects into a bucket of S3: one PUT, or a multipart upload.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html>, and what its kin take of it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quick_xml::escape::escape;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use weir_codec::digest::Algorithm;
use weir_get::http::call::{AtHand, Call, Content, Reply};
use weir_http::head::ResponseHead;

use super::S3Store;
use super::dialect::{Dialect, OF_GOOGLE, kept_by_google};
use crate::caller::{Caller, refusal};
use crate::condition::Condition;
use crate::error::{StoreError, shown};
use crate::key;
use crate::upload::fields::checked;
use crate::upload::{Attributes, Bounds, Finish, Object, PartThere, Pending, Stored, Sum, Upload, Uploads};
use crate::words::StoreWords;

/// Answers without a list: an error with all that some stores say in it.
const SHORT: usize = 64 << 10;

/// A page of a thousand parts or uploads, each with a key of 1024 bytes, percent-encoded.
const PAGE: usize = 4 << 20;

/// Pages of one list: those of 10,000 parts, and of as many uploads of one key as anybody clears away by
/// hand.
const PAGES: usize = 12;

/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html>
pub(crate) const BOUNDS: Bounds =
    Bounds { parts: 10_000, least_part: 5 << 20, most_part: 5 << 30, most_single: 5 << 30, most: 5 << 40 };

/// CRC64NVME is Amazon's own choice, and its parts add up; every store knows MD5.
static ALGORITHMS: [Algorithm; 5] =
    [Algorithm::CRC64NVME, Algorithm::MD5, Algorithm::CRC32C, Algorithm::SHA256, Algorithm::SHA1];

impl Uploads for S3Store {
    fn bounds(&self) -> Bounds {
        BOUNDS
    }

    fn algorithms(&self) -> &[Algorithm] {
        match self.dialect {
            Dialect::Amazon => &ALGORITHMS,
            Dialect::Google => &OF_GOOGLE,
        }
    }

    fn checks_whole(&self, algorithm: Algorithm) -> bool {
        self.dialect == Dialect::Amazon && algorithm == Algorithm::CRC64NVME
    }

    fn put(
        &self,
        caller: &mut Caller<'_>,
        object: &Object<'_>,
        sum: Option<&Sum>,
        content: &mut dyn Content,
    ) -> Result<Stored, StoreError> {
        let what = self.what("put", object.key);
        let reply = self.tag_refusal.sends(object.attributes, &mut |attributes| {
            let mut fields = checked(&what, fields_of(attributes))?;
            fields.extend(object.condition.field());
            fields.extend(sum.map(checksum));
            let call = Call {
                method: "PUT",
                url: self.bucket().object(object.key, None)?,
                fields: self.dialect.spoken(&what, fields)?,
                most: SHORT,
                asks_first: false,
            };
            content.rewind()?;
            caller.done(&what, &call, content)
        });
        Ok(self.stored_of(&reply.map_err(|error| hinted(error, object))?.head))
    }

    fn begin(
        &self,
        caller: &mut Caller<'_>,
        object: &Object<'_>,
        algorithm: Option<Algorithm>,
    ) -> Result<String, StoreError> {
        let what = self.what("begin the upload of", object.key);
        let begun = self.tag_refusal.sends(object.attributes, &mut |attributes| {
            let mut fields = checked(&what, fields_of(attributes))?;
            if let Some(name) = algorithm.and_then(checksum_name) {
                let is_whole = algorithm.is_some_and(|one| self.checks_whole(one));
                let kind = if is_whole { "FULL_OBJECT" } else { "COMPOSITE" };
                fields.push(("x-amz-checksum-algorithm".to_owned(), name.to_uppercase()));
                fields.push(("x-amz-checksum-type".to_owned(), kind.to_owned()));
            }
            let fields = self.dialect.spoken(&what, fields)?;
            let call = self.call("POST", object.key, &[("uploads", "")], fields)?;
            let reply = caller.done(&what, &call, &mut AtHand::default())?;
            Ok((call, reply))
        });
        let (call, reply) = begun.map_err(|error| hinted(error, object))?;
        let begun: Begun = read(&what, &call, &reply, "InitiateMultipartUploadResult")?;
        let is_id = !begun.upload_id.is_empty() && begun.upload_id.len() <= 4096;
        is_id
            .then_some(begun.upload_id)
            .ok_or_else(|| StoreError::Answer { what, why: "names no upload".to_owned() })
    }

    fn part(
        &self,
        caller: &mut Caller<'_>,
        upload: &Upload<'_>,
        number: u32,
        sum: Option<&Sum>,
        content: &mut dyn Content,
    ) -> Result<String, StoreError> {
        let what = self.what(&format!("put part {number} of"), upload.object.key);
        let fields = self.dialect.spoken(&what, sum.map(checksum).into_iter().collect())?;
        let text = number.to_string();
        let query = [("partNumber", text.as_str()), ("uploadId", upload.id)];
        let call = self.call("PUT", upload.object.key, &query, fields)?;
        let reply = caller.done(&what, &call, content)?;
        if let Some(tag) = reply.head.header("etag").filter(|tag| is_tag(tag)) {
            return Ok(tag.to_owned());
        }
        // What stands between may keep it back; the store's own list has it.
        let there = self.parts(caller, upload).ok().flatten().unwrap_or_default();
        let own = there.into_iter().find(|part| part.number == number).map(|part| part.tag);
        let why = "has no ETag, nor has its list of parts; --part-size above the size of the file sends it in one \
                   request";
        own.ok_or_else(|| StoreError::Answer { what, why: why.to_owned() })
    }

    fn complete(
        &self,
        caller: &mut Caller<'_>,
        upload: &Upload<'_>,
        finish: &Finish<'_>,
    ) -> Result<Stored, StoreError> {
        let what = self.what("complete", upload.object.key);
        let mut list = String::with_capacity(128 * finish.parts.len());
        list.push_str("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
        for part in finish.parts {
            let checksum =
                self.dialect.repeated(part).and_then(|sum| Some((checksum_element(sum.algorithm)?, sum)));
            let checksum = checksum
                .map(|(name, sum)| format!("<{name}>{}</{name}>", STANDARD.encode(&sum.value)))
                .unwrap_or_default();
            let tag = escape(part.tag.as_str());
            let number = part.number;
            list.push_str(&format!(
                "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag>{checksum}</Part>"
            ));
        }
        list.push_str("</CompleteMultipartUpload>");
        let mut fields = Vec::from_iter(upload.object.condition.field());
        fields.push(("content-type".to_owned(), "application/xml".to_owned()));
        if let Some(whole) = finish.whole {
            fields.push(checksum(whole));
            fields.push(("x-amz-checksum-type".to_owned(), "FULL_OBJECT".to_owned()));
        }
        let fields = self.dialect.spoken(&what, fields)?;
        let call = self.call("POST", upload.object.key, &[("uploadId", upload.id)], fields)?;
        let done = caller.done(&what, &call, &mut AtHand::new(list.as_bytes()));
        let reply = done.map_err(|error| hinted(error, &upload.object))?;
        let done: Completed = read(&what, &call, &reply, "CompleteMultipartUploadResult")?;
        let stored = self.stored_of(&reply.head);
        Ok(Stored { tag: done.etag.or(stored.tag), size: Some(finish.size), ..stored })
    }

    fn abort(&self, caller: &mut Caller<'_>, upload: &Upload<'_>) -> Result<(), StoreError> {
        let what = self.what("abort the upload of", upload.object.key);
        let call = self.call("DELETE", upload.object.key, &[("uploadId", upload.id)], Vec::new())?;
        match caller.done(&what, &call, &mut AtHand::default()) {
            Err(error) if error.is_of_no_upload() => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    fn parts(
        &self,
        caller: &mut Caller<'_>,
        upload: &Upload<'_>,
    ) -> Result<Option<Vec<PartThere>>, StoreError> {
        let what = self.what("list the parts of", upload.object.key);
        let mut parts: Vec<PartThere> = Vec::new();
        for _ in 0..PAGES {
            let after = parts.last().map_or(0, |part| part.number).to_string();
            let query =
                [("max-parts", "1000"), ("part-number-marker", after.as_str()), ("uploadId", upload.id)];
            let call = Call { most: PAGE, ..self.call("GET", upload.object.key, &query, Vec::new())? };
            let reply = match caller.done(&what, &call, &mut AtHand::default()) {
                Err(error) if error.is_of_no_upload() => return Ok(None),
                outcome => outcome?,
            };
            let page: PartsPage = read(&what, &call, &reply, "ListPartsResult")?;
            let before = parts.len();
            // One after another, whatever order the page has them in: the next page begins behind the last.
            let mut found: Vec<PartThere> = page.parts.into_iter().filter_map(PartElement::part).collect();
            found.sort_by_key(|part| part.number);
            let last = parts.last().map_or(0, |part| part.number);
            parts.extend(found.into_iter().filter(|part| part.number > last));
            parts.dedup_by_key(|part| part.number);
            if !page.is_truncated || parts.len() == before {
                return Ok(Some(parts));
            }
        }
        Ok(Some(parts))
    }

    fn pending(&self, caller: &mut Caller<'_>, key: &str) -> Result<Vec<Pending>, StoreError> {
        let what = self.what("list the uploads of", key);
        let mut found = Vec::new();
        let mut after = (String::new(), String::new());
        for _ in 0..PAGES {
            let mut query = vec![("encoding-type", "url")];
            if !after.0.is_empty() {
                query.push(("key-marker", &after.0));
            }
            query.push(("prefix", key));
            if !after.1.is_empty() {
                query.push(("upload-id-marker", &after.1));
            }
            query.push(("uploads", ""));
            let call = Call { most: PAGE, ..self.call("GET", "", &query, Vec::new())? };
            let reply = match caller.done(&what, &call, &mut AtHand::default()) {
                // So some say that there is none.
                Err(error) if error.is_of_no_upload() => break,
                outcome => outcome?,
            };
            let page: UploadsPage = read(&what, &call, &reply, "ListMultipartUploadsResult")?;
            let is_coded = page.encoding_type.as_deref() == Some("url");
            // Some servers repeat that keys are encoded, and write them as they are; all begin with this one.
            let decoded = |text: &str| {
                let coded = key::of_listing(text).filter(|text| is_coded && text.starts_with(key));
                coded.unwrap_or_else(|| text.to_owned())
            };
            let of_key = page.uploads.iter().filter(|upload| decoded(&upload.key) == key);
            found.extend(
                of_key
                    .map(|upload| Pending { id: upload.upload_id.clone(), since: upload.initiated.clone() }),
            );
            let next = (decoded(&page.next_key_marker), page.next_upload_id_marker);
            // Keys come in order: behind this one there is no other upload of it.
            if !page.is_truncated || next == after || next.0.as_str() > key {
                break;
            }
            after = next;
        }
        Ok(found)
    }

    fn stored(&self, caller: &mut Caller<'_>, key: &str) -> Result<Option<Stored>, StoreError> {
        let head = self.head(caller, &self.what("ask for", key), self.bucket().object(key, None)?)?;
        Ok(head.map(|head| self.stored_of(&head)))
    }
}

impl S3Store {
    fn what(&self, verb: &str, key: &str) -> String {
        format!("{verb} {}{}", self.shown(), shown(key))
    }

    fn call(
        &self,
        method: &'static str,
        key: &str,
        query: &[(&str, &str)],
        fields: Vec<(String, String)>,
    ) -> Result<Call<'static>, StoreError> {
        Ok(Call { method, url: self.bucket().query_of(key, query)?, fields, most: SHORT, asks_first: false })
    }
}

impl S3Store {
    fn stored_of(&self, head: &ResponseHead) -> Stored {
        let text = |name: &str| head.header(name).map(str::to_owned);
        // Those of parts are none of the object's: they end with the number of parts.
        let sums = ALGORITHMS.iter().filter_map(|algorithm| {
            let text = head.header(&format!("x-amz-checksum-{}", checksum_name(*algorithm)?))?;
            let value = STANDARD.decode(text).ok().filter(|value| value.len() == algorithm.len())?;
            Some(Sum { algorithm: *algorithm, value })
        });
        let tag = text("etag").filter(|tag| is_tag(tag));
        let size = head.header("content-length").and_then(|text| text.parse().ok());
        match self.dialect {
            Dialect::Amazon => Stored { tag, version: text("x-amz-version-id"), size, sums: sums.collect() },
            Dialect::Google => {
                let version = text("x-goog-generation");
                Stored { tag, version, size, sums: kept_by_google(head) }
            }
        }
    }
}

/// The name of a checksum in S3's fields; `None`: it is not one of S3's own.
fn checksum_name(algorithm: Algorithm) -> Option<&'static str> {
    (algorithm != Algorithm::MD5).then(|| algorithm.name())
}

/// Its name in a list of parts.
fn checksum_element(algorithm: Algorithm) -> Option<String> {
    Some(format!("Checksum{}", checksum_name(algorithm)?.to_uppercase()))
}

/// The field that says what the content is to be checked by.
fn checksum(sum: &Sum) -> (String, String) {
    let name = match checksum_name(sum.algorithm) {
        Some(name) => format!("x-amz-checksum-{name}"),
        None => "content-md5".to_owned(),
    };
    (name, STANDARD.encode(&sum.value))
}

fn fields_of(attributes: &Attributes) -> Vec<(String, String)> {
    let Attributes { content_type, content_encoding, content_disposition, content_language, .. } = attributes;
    let tags = key::pairs(&attributes.tags);
    let single = [
        ("content-type", content_type),
        ("content-encoding", content_encoding),
        ("content-disposition", content_disposition),
        ("content-language", content_language),
        ("cache-control", &attributes.cache_control),
        ("expires", &attributes.expires),
        ("x-amz-storage-class", &attributes.storage_class),
        ("x-amz-server-side-encryption", &attributes.encryption),
        ("x-amz-server-side-encryption-aws-kms-key-id", &attributes.encryption_key),
        ("x-amz-tagging", &tags),
    ];
    let single = single.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
    let own = attributes.metadata.iter().map(|(name, value)| (format!("x-amz-meta-{name}"), value.clone()));
    single.chain(own).collect()
}

/// A store that does not know a request may not know what the user wants with the object.
fn hinted(error: StoreError, object: &Object<'_>) -> StoreError {
    let Attributes { storage_class, encryption, tags, .. } = object.attributes;
    let flags = [
        (*object.condition == Condition::Absent, "--if-absent"),
        (matches!(object.condition, Condition::Matches(_)), "--if-match"),
        (storage_class.is_some(), "--storage-class"),
        (encryption.is_some(), "--sse"),
        (!tags.is_empty(), "--tag"),
    ];
    let flags: Vec<&str> =
        flags.into_iter().filter(|(is_given, _)| *is_given).map(|(_, flag)| flag).collect();
    match error.is_unknown_request() && !flags.is_empty() {
        true => error.with_hint(&format!("it may not know {}: leave out what it lacks", flags.join(", "))),
        false => error,
    }
}

/// A validator that can be sent back: no letters that end a field, and no longer than anybody's.
fn is_tag(tag: &str) -> bool {
    !tag.is_empty() && tag.len() <= 1024 && tag.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The answer with this outermost element, `...Result`, which some servers call `...Response`; an error that
/// came with 200 is what it says.
fn read<T: DeserializeOwned>(
    what: &str,
    call: &Call<'_>,
    reply: &Reply,
    root: &str,
) -> Result<T, StoreError> {
    if StoreWords::of(&reply.body).is_some() {
        return Err(refusal(what, call, reply));
    }
    let answer = |why: String| StoreError::Answer { what: what.to_owned(), why };
    let text = std::str::from_utf8(&reply.body).map_err(|_| answer("is not UTF-8".to_owned()))?;
    let stem = root.trim_end_matches("Result");
    let start = text.find(&format!("<{stem}")).ok_or_else(|| answer(format!("has no {root}")))?;
    let text = text[start..].trim_end();
    let name = text[1..].split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    if !text.ends_with(&format!("</{name}>")) && !text.ends_with("/>") {
        return Err(answer("is cut".to_owned()));
    }
    quick_xml::de::from_str(text).map_err(|error| answer(format!("cannot be read: {error}")))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Begun {
    upload_id: String,
}

#[derive(Debug, Deserialize)]
struct Completed {
    #[serde(rename = "ETag")]
    etag: Option<String>,
}

#[derive(Debug, Deserialize)]
struct PartsPage {
    #[serde(rename = "IsTruncated", default)]
    is_truncated: bool,
    #[serde(rename = "Part", default)]
    parts: Vec<PartElement>,
}

#[derive(Debug, Deserialize)]
struct PartElement {
    #[serde(rename = "PartNumber")]
    number: u32,
    #[serde(rename = "ETag", default)]
    tag: String,
    #[serde(rename = "Size", default)]
    size: u64,
}

impl PartElement {
    fn part(self) -> Option<PartThere> {
        let is_part = is_tag(&self.tag) && (1..=BOUNDS.parts).contains(&self.number);
        is_part.then_some(PartThere { number: self.number, tag: self.tag, size: self.size })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct UploadsPage {
    is_truncated: bool,
    encoding_type: Option<String>,
    next_key_marker: String,
    next_upload_id_marker: String,
    #[serde(rename = "Upload")]
    uploads: Vec<UploadElement>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct UploadElement {
    key: String,
    upload_id: String,
    initiated: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use url::Url;

    fn reply(body: &str) -> Reply {
        let (head, _) =
            weir_http::head::parse_response_to("GET", b"HTTP/1.1 200 OK\r\n\r\n").unwrap().unwrap();
        Reply { head, body: body.as_bytes().to_vec(), said: None }
    }

    fn read_as<T: DeserializeOwned>(body: &str, root: &str) -> Result<T, StoreError> {
        let url = Url::parse("http://h/b/k").unwrap();
        let call = Call { method: "GET", url, fields: Vec::new(), most: 0, asks_first: false };
        read("list", &call, &reply(body), root)
    }

    #[test]
    fn lists_are_read_and_what_is_cut_is_not() {
        let body = "<?xml version=\"1.0\"?>\n<ListPartsResult xmlns=\"http://s3/\"><IsTruncated>true</IsTruncated>\
                    <Owner><ID>x</ID></Owner><Part><PartNumber>2</PartNumber><Odd/><ETag>&quot;a&quot;</ETag>\
                    <Size>7</Size></Part><Part><PartNumber>3</PartNumber></Part></ListPartsResult>";
        let page: PartsPage = read_as(body, "ListPartsResult").unwrap();
        assert!(page.is_truncated);
        let parts: Vec<_> = page.parts.into_iter().filter_map(PartElement::part).collect();
        assert_eq!(parts, [PartThere { number: 2, tag: "\"a\"".to_owned(), size: 7 }]);
        // As moto has it.
        let other = body.replace("ListPartsResult", "ListPartsResponse");
        assert_eq!(read_as::<PartsPage>(&other, "ListPartsResult").unwrap().parts.len(), 2);
        for cut in [0, 30, body.len() / 2, body.len() - 3] {
            assert!(read_as::<PartsPage>(&body[..cut], "ListPartsResult").is_err(), "{cut}");
        }
        let page: UploadsPage =
            read_as("<ListMultipartUploadsResult/>", "ListMultipartUploadsResult").unwrap();
        assert!(page.uploads.is_empty() && !page.is_truncated);
    }

    #[test]
    fn an_error_with_200_is_one() {
        let body =
            "  \n<?xml version=\"1.0\"?><Error><Code>InternalError</Code><Message>no</Message></Error>";
        let error = read_as::<Completed>(body.trim_start(), "CompleteMultipartUploadResult").unwrap_err();
        assert_eq!(error.code(), Some("InternalError"));
        assert!(read_as::<Completed>("", "CompleteMultipartUploadResult").is_err());
    }

    #[test]
    fn attributes_become_fields() {
        let attributes = Attributes {
            content_type: Some("text/plain".to_owned()),
            content_language: Some("de".to_owned()),
            expires: Some("Thu, 01 Jan 2099 00:00:00 GMT".to_owned()),
            metadata: vec![("a".to_owned(), "b".to_owned())],
            tags: vec![("k e".to_owned(), "v&".to_owned()), ("x".to_owned(), String::new())],
            ..Attributes::default()
        };
        let fields = fields_of(&attributes);
        let has = |name: &str, value: &str| fields.contains(&(name.to_owned(), value.to_owned()));
        assert!(has("content-type", "text/plain") && has("x-amz-meta-a", "b"), "{fields:?}");
        assert!(has("x-amz-tagging", "k%20e=v%26&x="), "{fields:?}");
        assert!(has("content-language", "de"), "{fields:?}");
        assert!(has("expires", "Thu, 01 Jan 2099 00:00:00 GMT"), "{fields:?}");
    }
}
