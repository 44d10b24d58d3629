//! Objects of S3 are copied by S3 itself: CopyObject, and part by part where they are larger than that takes.

use weir_get::http::call::{AtHand, Call, Reply};

use super::{S3Bucket, S3Store};
use crate::caller::{Caller, refusal};
use crate::condition::Condition;
use crate::error::{StoreError, shown};
use crate::key;
use crate::listing::{Copies, Listed, Lists, Looked};
use crate::upload::shared::{SharedPart, SharedUpload};
use crate::upload::{Attributes, Object, Part, Uploads, unanswered};
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

/// What an upload in parts has to be told again; its metadata and tags as well.
const KEPT: [&str; 6] = [
    "content-type",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "expires",
];

/// Names of fields and their values.
type Fields = Vec<(String, String)>;

impl Copies for S3Store {
    fn copy(
        &self,
        caller: &mut Caller<'_>,
        bucket: &str,
        from: &Listed,
        (to, condition): (&str, &Condition),
        hears: &dyn Fn(u64),
    ) -> Result<(), StoreError> {
        let what = format!("copy s3://{bucket}/{} to {}{}", shown(&from.key), self.shown(), shown(to));
        if from.size > MAX_COPY {
            let (told, tag) = self.told(caller, &what, bucket, from)?;
            // Without a list's word the parts would be of whatever version is there at the time.
            let source = self.source(bucket, &Listed { etag: from.etag.clone().or(tag), ..from.clone() })?;
            return self.copy_in_parts(caller, &what, (source, told), from.size, (to, condition), hears);
        }
        let mut fields = self.source(bucket, from)?;
        fields.extend(condition.field());
        let url = self.here().object(to, None)?;
        let call = Call { method: "PUT", url, fields, most: MAX_ANSWER, asks_first: false };
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
        (to, condition): (&str, &Condition),
        hears: &dyn Fn(u64),
    ) -> Result<(), StoreError> {
        let call = Call {
            method: "POST",
            url: self.here().query_of(to, &[("uploads", "")])?,
            fields: told,
            most: MAX_ANSWER,
            asks_first: false,
        };
        let attributes = Attributes::default();
        let object = Object { key: to, attributes: &attributes, condition };
        let pending = self.pending(caller, to).ok();
        let others: Option<Vec<String>> =
            pending.map(|pending| pending.into_iter().map(|one| one.id).collect());
        let id = unanswered::begin(self, caller, &object, (others.as_deref(), false), &mut |caller| {
            element(what, &succeeds(caller, what, &call, b"")?, "UploadId")
        })?;
        let upload = SharedUpload { id, part: PART.max(size.div_ceil(MAX_PARTS)), check: None };
        let copied = self.copy_parts(caller, what, &source, size, (to, &upload), hears);
        let copied = copied.and_then(|parts| upload.complete(self, caller, &object, &parts, size).map(drop));
        // After a stop `caller` sends nothing more, and what is left is paid for.
        if copied.is_err()
            && let Err(error) = upload.abort(self, &mut caller.clearing(), &object)
        {
            tracing::warn!("the upload {} to {} is left: {error}", upload.id, shown(to));
        }
        copied
    }

    /// What CopyObject would keep of the source beside its bytes, as fields; and its entity tag.
    fn told(
        &self,
        caller: &mut Caller<'_>,
        what: &str,
        bucket: &str,
        from: &Listed,
    ) -> Result<(Fields, Option<String>), StoreError> {
        let source = S3Store::new(S3Bucket { bucket: bucket.to_owned(), ..self.here() });
        let version = from.version.as_ref().map(|version| version.id.as_str());
        let Some(looked) = source.look(caller, &from.key, version, Some(from.size))? else {
            return Err(StoreError::Answer {
                what: what.to_owned(),
                why: "has no such object any more".to_owned(),
            });
        };
        let has_tags = looked.has_tags();
        let Looked { metadata, headers, listed, .. } = looked;
        let mut fields: Fields =
            headers.into_iter().filter(|(name, _)| KEPT.contains(&name.as_str())).collect();
        fields.extend(metadata.into_iter().map(|(name, value)| (format!("x-amz-meta-{name}"), value)));
        if has_tags {
            let tags = source.tags_of(caller, &from.key, version)?;
            fields.extend(key::pairs(&tags).map(|tags| ("x-amz-tagging".to_owned(), tags)));
        }
        Ok((fields, listed.etag))
    }

    fn copy_parts(
        &self,
        caller: &mut Caller<'_>,
        what: &str,
        source: &[(String, String)],
        size: u64,
        (to, upload): (&str, &SharedUpload),
        hears: &dyn Fn(u64),
    ) -> Result<Vec<SharedPart>, StoreError> {
        let (plan, mut parts) = (upload.plan(), Vec::new());
        for number in 1..=plan.parts(size) {
            let (first, length) = plan.range(number, size);
            let last = first + length - 1;
            let mut fields = source.to_vec();
            fields.push(("x-amz-copy-source-range".to_owned(), format!("bytes={first}-{last}")));
            let (method, most) = ("PUT", MAX_ANSWER);
            let text = number.to_string();
            let query = [("partNumber", text.as_str()), ("uploadId", upload.id.as_str())];
            let url = self.here().query_of(to, &query)?;
            let reply = succeeds(caller, what, &Call { method, url, fields, most, asks_first: false }, b"")?;
            let part = Part { number, tag: element(what, &reply, "ETag")?, sum: None };
            parts.push(SharedPart::of(&part, None));
            hears(length);
        }
        Ok(parts)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::{Asked, Mock, Said, said};
    use crate::s3::S3Settings;
    use crate::store::Store;
    use crate::testing::with_caller;

    const SIZE: u64 = (12 << 30) + 7;

    /// A service with one large object, which a list says nothing of but its size.
    fn service(asked: &Asked) -> Said {
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let target = asked.target.as_str();
        match asked.method.as_str() {
            "HEAD" => Said {
                status: 200,
                fields: vec![
                    text("ETag", "\"v1\""),
                    text("Expires", "Thu, 01 Jan 2099 00:00:00 GMT"),
                    text("Server", "not kept"),
                    text("x-amz-meta-Mtime", "7"),
                    text("x-amz-tagging-count", "2"),
                ],
                body: Vec::new(),
            },
            "GET" if target.contains("?tagging") => said(
                200,
                "<Tagging><TagSet><Tag><Key>a b</Key><Value>1&amp;2</Value></Tag>\
                 <Tag><Key>c</Key><Value></Value></Tag></TagSet></Tagging>",
            ),
            "POST" if target.contains("?uploads") => said(200, "<R><UploadId>u/1</UploadId></R>"),
            "POST" => said(
                200,
                "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>",
            ),
            "PUT" => said(200, "<CopyPartResult><ETag>\"part\"</ETag></CopyPartResult>"),
            "DELETE" => said(204, ""),
            _ => said(501, ""),
        }
    }

    /// What becomes of a copy, what was asked for it, and the bytes of its steps.
    fn copied(
        answer: impl Fn(&Asked) -> Said + Send + Sync + 'static,
    ) -> (Result<(), StoreError>, Vec<Asked>, Vec<u64>) {
        let mock = Mock::new(answer);
        let settings = S3Settings {
            region: None,
            endpoint: Some(url::Url::parse(&mock.url).unwrap()),
            host: crate::s3::HOST,
            path_style: None,
            prefers_host: false,
            provider: None,
            request_payer: false,
            encryption: Vec::new(),
        };
        let store = S3Store::new(S3Bucket { settings, bucket: "to".to_owned() });
        let from = Listed { key: "a/k".to_owned(), size: SIZE, ..Listed::default() };
        let (mut outcome, heard) = (Ok(()), parking_lot::Mutex::new(Vec::new()));
        with_caller(store.authorizer(), |caller| {
            let place = ("b/k", &Condition::Absent);
            outcome = store.copy(caller, "from", &from, place, &|bytes| heard.lock().push(bytes));
        });
        (outcome, mock.asked(), heard.into_inner())
    }

    #[test]
    fn a_large_object_is_copied_as_a_small_one_is() {
        let (outcome, asked, heard) = copied(service);
        outcome.unwrap();
        let begun = asked.iter().find(|asked| asked.target.contains("?uploads")).unwrap();
        assert_eq!(begun.field("x-amz-tagging"), "a%20b=1%262&c=");
        assert_eq!((begun.field("x-amz-meta-mtime"), begun.field("server")), ("7", ""));
        assert_eq!(begun.field("expires"), "Thu, 01 Jan 2099 00:00:00 GMT");
        let parts: Vec<&Asked> = asked.iter().filter(|asked| asked.method == "PUT").collect();
        let mut at = 0;
        for part in &parts {
            assert_eq!(part.field("x-amz-copy-source-if-match"), "\"v1\"", "parts are of one version");
            let range = part.field("x-amz-copy-source-range").strip_prefix("bytes=").unwrap();
            let (first, last) = range.split_once('-').unwrap();
            assert_eq!(first, at.to_string());
            at = last.parse::<u64>().unwrap() + 1;
        }
        assert_eq!((at, parts.len()), (SIZE, 25));
        assert_eq!((heard.len(), heard.iter().sum::<u64>()), (25, SIZE), "each part is heard of");
        let last = asked.last().unwrap();
        assert_eq!(last.body.matches("<Part>").count(), parts.len());
        assert_eq!((last.field("if-none-match"), begun.field("if-none-match")), ("*", ""));
    }

    #[test]
    fn what_fails_in_the_middle_is_aborted_and_said() {
        // A status that was sent before the copy was made.
        let late = |asked: &Asked| match asked.target.contains("partNumber=3") {
            true => said(200, "<Error><Code>InternalError</Code><Message>late</Message></Error>"),
            false => service(asked),
        };
        let (outcome, asked, heard) = copied(late);
        assert_eq!(heard.len(), 2);
        assert!(outcome.unwrap_err().to_string().contains("InternalError"));
        assert_eq!(asked.last().unwrap().method, "DELETE");
        // Tags that may not be read: nothing is begun.
        let denied = |asked: &Asked| match asked.target.contains("tagging") {
            true => said(403, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"),
            false => service(asked),
        };
        let (outcome, asked, _) = copied(denied);
        assert!(outcome.unwrap_err().to_string().contains("tags of s3://from/a/k"));
        assert!(asked.iter().all(|asked| asked.method != "POST"));
        let (outcome, asked, _) = copied(|asked| match asked.method.as_str() {
            "HEAD" => said(404, ""),
            _ => service(asked),
        });
        assert!(outcome.unwrap_err().to_string().contains("no such object any more"));
        assert_eq!(asked.len(), 1);
    }
}
