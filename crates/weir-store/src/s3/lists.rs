//! Lists of a bucket of S3: ListObjectsV2, ListObjects (version 1) where a store knows no other,
//! ListObjectVersions, ListBuckets and HEAD.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use weir_get::http::call::{AtHand, Call};
use weir_http::head::ResponseHead;

use super::{S3Bucket, S3Store, sums};
use crate::caller::{Caller, refusal};
use crate::error::{StoreError, shown};
use crate::key;
use crate::listing::{
    Bucket, ListAsk, Listed, ListedVersion, Lists, Looked, PAGE, Page, all_buckets, mtime, size, size_of,
    tags, unsized_key,
};
use crate::words::StoreWords;
use crate::xml::{self, BadXml};
use weir_units::instant;

/// A thousand keys of 1024 bytes, each of them three letters in a URL, and 1 KiB of what is said of each.
const MAX_PAGE: usize = PAGE as usize * (3 * 1024 + 1024);

/// Ten tags of an object have 128 letters of a name and 256 of a value each.
const MAX_TAGS: usize = 64 << 10;

/// Between the two markers of a list of versions; no key holds it.
const BETWEEN: char = '\0';

impl S3Store {
    /// Sends a request without a body, and returns the body of its answer.
    fn asks(
        &self,
        caller: &mut Caller<'_>,
        what: &str,
        query: &[(&str, &str)],
    ) -> Result<Vec<u8>, StoreError> {
        let url = self.here().with_query(query)?;
        let call = Call { method: "GET", url, fields: Vec::new(), most: MAX_PAGE, asks_first: false };
        let reply = caller.done(what, &call, &mut AtHand::default())?;
        match StoreWords::of(&reply.body) {
            Some(_) => Err(refusal(what, &call, &reply)),
            None => Ok(reply.body),
        }
    }

    fn page_of(
        &self,
        caller: &mut Caller<'_>,
        ask: &ListAsk<'_>,
        (kind, is_plain): (Kind, bool),
        token: Option<&str>,
    ) -> Result<Page, StoreError> {
        let what = format!("list {}{}", self.shown(), shown(ask.prefix));
        let most = ask.most.clamp(1, PAGE).to_string();
        let mut query = match kind {
            Kind::V2 => vec![("list-type", "2")],
            Kind::V1 => vec![],
            Kind::Versions => vec![("versions", "")],
        };
        query.extend((!is_plain).then_some(("encoding-type", "url")));
        query.extend([("max-keys", most.as_str()), ("prefix", ask.prefix)]);
        query.extend(ask.delimiter.map(|delimiter| ("delimiter", delimiter)));
        match (kind, token) {
            (_, None) => {}
            (Kind::V2, Some(token)) => query.push(("continuation-token", token)),
            (Kind::V1, Some(marker)) => query.push(("marker", marker)),
            (Kind::Versions, Some(token)) => {
                let (version, key) = token.split_once(BETWEEN).unwrap_or(("", token));
                query.push(("key-marker", key));
                if !version.is_empty() {
                    query.push(("version-id-marker", version));
                }
            }
        }
        let mut read = self.asked_page(caller, &what, &query)?;
        let answer = |why: String| StoreError::Answer { what: what.clone(), why };
        read.is_encoded = read.is_encoded && self.encodes(caller, &what, &query, &read)?;
        if kind == Kind::V2 && read.is_v1() {
            tracing::info!("{} knows version 1 of lists only", self.shown());
            self.lists_v1.store(true, Relaxed);
        }
        read.into_page(ask, kind).map_err(answer)
    }
}

/// The page that a store's answer to `ask` is; otherwise what is wrong with it, as in `the store's answer
/// ...`.
pub fn read_page(body: &[u8], ask: &ListAsk<'_>) -> Result<Page, String> {
    let kind = if ask.versions { Kind::Versions } else { Kind::V2 };
    PageRead::of(body)?.into_page(ask, kind)
}

impl S3Store {
    fn asked_page(
        &self,
        caller: &mut Caller<'_>,
        what: &str,
        query: &[(&str, &str)],
    ) -> Result<PageRead, StoreError> {
        let body = self.asks(caller, what, query)?;
        PageRead::of(&body).map_err(|why| StoreError::Answer { what: what.to_owned(), why })
    }

    /// The page, which says that its keys are encoded, has them so: some servers repeat that word, and write
    /// keys as they are. Where it matters they are asked once for the same page without it, which then has
    /// the same letters.
    fn encodes(
        &self,
        caller: &mut Caller<'_>,
        what: &str,
        query: &[(&str, &str)],
        read: &PageRead,
    ) -> Result<bool, StoreError> {
        let known = *self.encodes.lock();
        let coded: Vec<&str> = read.texts().filter(|text| text.contains(['%', '+'])).collect();
        if known.is_some() || coded.is_empty() || self.bucket.settings.endpoint.is_none() {
            return Ok(known.unwrap_or(true));
        }
        let plain: Vec<(&str, &str)> =
            query.iter().filter(|(name, _)| *name != "encoding-type").copied().collect();
        let encodes = match self.asked_page(caller, what, &plain) {
            // What says so without being asked says it of itself.
            Ok(plain) => {
                let says_so = plain.is_encoded;
                let plain: HashSet<&str> = plain.texts().collect();
                says_so || !coded.iter().all(|text| plain.contains(text))
            }
            // Keys that XML cannot hold are what the encoding is for.
            Err(StoreError::Answer { .. }) => true,
            Err(error) => return Err(error),
        };
        *self.encodes.lock() = Some(encodes);
        Ok(encodes)
    }
}

impl S3Store {
    /// The first page, of a store that has `refused` to give it in this form: by version 1, and without
    /// having keys encoded, which some do not know. The form that helps is kept; if none does, the first
    /// words count.
    fn page_by_less(
        &self,
        caller: &mut Caller<'_>,
        ask: &ListAsk<'_>,
        form: (Kind, bool),
        refused: StoreError,
    ) -> Result<Page, StoreError> {
        let forms = [(Kind::V1, false), (Kind::V2, true), (Kind::V1, true)];
        let forms: &[(Kind, bool)] = if ask.versions { &[(Kind::Versions, true)] } else { &forms };
        for (kind, is_plain) in forms.iter().copied().filter(|other| *other != form) {
            match self.page_of(caller, ask, (kind, is_plain), None) {
                Ok(page) => {
                    let by =
                        if kind == Kind::V1 { "version 1 of lists" } else { "lists of keys as they are" };
                    tracing::info!("{} knows {by} only", self.shown());
                    self.lists_v1.fetch_or(kind == Kind::V1, Relaxed);
                    self.lists_plain.store(is_plain, Relaxed);
                    return Ok(page);
                }
                Err(error) if error.is_of_its_form() => {}
                Err(_) => break,
            }
        }
        Err(refused)
    }
}

/// Which list is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    V2,
    V1,
    Versions,
}

impl Lists for S3Store {
    fn page(
        &self,
        caller: &mut Caller<'_>,
        ask: &ListAsk<'_>,
        token: Option<&str>,
    ) -> Result<Page, StoreError> {
        let (is_v1, is_plain) = (self.lists_v1.load(Relaxed), self.lists_plain.load(Relaxed));
        let kind = match ask.versions {
            true => Kind::Versions,
            false if is_v1 => Kind::V1,
            false => Kind::V2,
        };
        match self.page_of(caller, ask, (kind, is_plain), token) {
            Err(error) if token.is_none() && error.is_of_its_form() => {
                self.page_by_less(caller, ask, (kind, is_plain), error)
            }
            other => other,
        }
    }

    fn buckets(&self, caller: &mut Caller<'_>) -> Result<Vec<Bucket>, StoreError> {
        let service = S3Store::new(S3Bucket { bucket: String::new(), ..self.bucket.clone() });
        let what = "list buckets";
        all_buckets(what, "continuation token", |token, buckets| {
            let query: Vec<(&str, &str)> = token.iter().map(|token| ("continuation-token", *token)).collect();
            let body = service.asks(caller, what, &query)?;
            let (mut name, mut created, mut next, mut is_list) = (String::new(), None, None, false);
            let ended = |path: &[&str], text: &str| match path {
                [_, "Buckets", "Bucket", "Name"] => text.clone_into(&mut name),
                [_, "Buckets", "Bucket", "CreationDate"] => created = instant::parse(text),
                [_, "Buckets", "Bucket"] => {
                    buckets.push(Bucket { name: std::mem::take(&mut name), created: created.take() });
                }
                [_, "ContinuationToken"] if !text.is_empty() => next = Some(text.to_owned()),
                ["ListAllMyBucketsResult"] => is_list = true,
                _ => {}
            };
            let answer = |why: String| StoreError::Answer { what: what.to_owned(), why };
            xml::each(&body, ended).map_err(|bad| answer(bad.to_string()))?;
            if !is_list {
                return Err(answer("is no list of buckets; is this the address of a store?".to_owned()));
            }
            Ok(next)
        })
    }

    fn look(
        &self,
        caller: &mut Caller<'_>,
        key: &str,
        version: Option<&str>,
        size: Option<u64>,
    ) -> Result<Option<Looked>, StoreError> {
        let what = format!("look at {}{}", self.shown(), shown(key));
        let Some(head) = self.head(caller, &what, self.here().object(key, version)?)? else {
            return Ok(None);
        };
        let is_opaque = sums::is_directory(&self.bucket.bucket);
        Ok(Some(Looked { is_opaque, ..looked(key, size_of(&what, key, &head, size)?, &head) }))
    }

    fn tags_of(
        &self,
        caller: &mut Caller<'_>,
        key: &str,
        version: Option<&str>,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let what = format!("read the tags of {}{}, which a copy keeps", self.shown(), shown(key));
        let mut query = vec![("tagging", "")];
        query.extend(version.map(|version| ("versionId", version)));
        let url = self.here().query_of(key, &query)?;
        let call = Call { method: "GET", url, fields: Vec::new(), most: MAX_TAGS, asks_first: false };
        tags(&what, &caller.done(&what, &call, &mut AtHand::default())?.body)
    }
}

fn looked(key: &str, size: u64, head: &ResponseHead) -> Looked {
    let text = |name: &str| head.header(name).map(str::to_owned);
    let (mut metadata, mut headers) = (Vec::new(), Vec::new());
    for (name, value) in head.fields.iter() {
        let name = name.to_ascii_lowercase();
        match name.strip_prefix("x-amz-meta-") {
            Some(own) => metadata.push((own.to_owned(), value.to_owned())),
            None => headers.push((name, value.to_owned())),
        }
    }
    let kept = ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"]
        .into_iter()
        .filter(|name| head.header(&format!("x-amz-checksum-{name}")).is_some());
    let listed = Listed {
        key: key.to_owned(),
        size,
        modified: head.header("last-modified").and_then(|text| httpdate::parse_http_date(text).ok()),
        etag: text("etag"),
        class: text("x-amz-storage-class"),
        checksums: kept.map(str::to_ascii_uppercase).collect(),
        version: text("x-amz-version-id").map(|id| ListedVersion { id, ..ListedVersion::default() }),
    };
    let own = metadata.iter().find(|(name, _): &&(String, String)| name == "mtime");
    let mtime = own.and_then(|(_, text)| mtime(text));
    Looked { listed, mtime, metadata, headers, is_opaque: false }
}

/// A page while it is read.
#[derive(Default)]
struct PageRead {
    objects: Vec<Listed>,
    prefixes: Vec<String>,
    /// The one being read.
    object: Listed,
    size: Option<u64>,
    version: ListedVersion,
    /// A key that came without its size.
    unsized_key: Option<String>,
    is_list: bool,
    is_encoded: bool,
    /// `None`: it does not say.
    is_truncated: Option<bool>,
    token: Option<String>,
    marker: Option<String>,
    version_marker: Option<String>,
    /// The answer names the marker that it was asked for, as version 1 does.
    has_marker: bool,
    has_count: bool,
}

impl PageRead {
    fn of(body: &[u8]) -> Result<PageRead, String> {
        let mut read = PageRead::default();
        xml::each(body, |path, text| read.ended(path, text)).map_err(|bad: BadXml| bad.to_string())?;
        match read.is_list {
            true => Ok(read),
            false => Err("is no list of objects; is this the address of a store?".to_owned()),
        }
    }

    fn ended(&mut self, path: &[&str], text: &str) {
        let [root, rest @ ..] = path else { return };
        if !matches!(*root, "ListBucketResult" | "ListVersionsResult" | "ListBucketVersionsResult") {
            return;
        }
        match rest {
            [] => self.is_list = true,
            ["Contents" | "Version" | "DeleteMarker", field, ..] => self.of_object(field, &rest[2..], text),
            ["Contents"] => self.object_ended(None),
            [kind @ ("Version" | "DeleteMarker")] => {
                let mut version = std::mem::take(&mut self.version);
                version.is_delete_marker = *kind == "DeleteMarker";
                self.object_ended(Some(version));
            }
            ["CommonPrefixes", "Prefix"] => self.prefixes.push(text.to_owned()),
            ["IsTruncated"] => self.is_truncated = Some(text.trim().eq_ignore_ascii_case("true")),
            ["EncodingType"] => self.is_encoded = text.trim().eq_ignore_ascii_case("url"),
            ["NextContinuationToken"] => self.token = Some(text.to_owned()),
            ["NextMarker" | "NextKeyMarker"] => self.marker = Some(text.to_owned()),
            ["NextVersionIdMarker"] => self.version_marker = Some(text.to_owned()),
            ["Marker"] => self.has_marker = true,
            ["KeyCount"] => self.has_count = true,
            _ => {}
        }
    }

    /// What was deleted has no size.
    fn object_ended(&mut self, version: Option<ListedVersion>) {
        let has_size = version.as_ref().is_none_or(|version| !version.is_delete_marker);
        let size = self.size.take();
        let object = std::mem::take(&mut self.object);
        if has_size && size.is_none() {
            self.unsized_key.get_or_insert_with(|| object.key.clone());
        }
        self.objects.push(Listed { version, size: size.unwrap_or_default(), ..object });
    }

    fn of_object(&mut self, field: &str, rest: &[&str], text: &str) {
        let object = &mut self.object;
        match field {
            _ if !rest.is_empty() => {}
            "Key" => text.clone_into(&mut object.key),
            "Size" => self.size = size(text),
            "LastModified" => object.modified = time(text),
            "ETag" => object.etag = Some(text.to_owned()),
            "StorageClass" => object.class = Some(text.to_owned()),
            "ChecksumAlgorithm" => object.checksums.push(text.to_owned()),
            "VersionId" => text.clone_into(&mut self.version.id),
            "IsLatest" => self.version.is_latest = text.trim().eq_ignore_ascii_case("true"),
            _ => {}
        }
    }

    /// Its keys and prefixes, as they stand there.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let keys = self.objects.iter().map(|object| object.key.as_str());
        keys.chain(self.prefixes.iter().map(String::as_str))
    }

    /// Version 1 was answered although version 2 was asked for.
    fn is_v1(&self) -> bool {
        self.token.is_none() && !self.has_count && (self.has_marker || self.marker.is_some())
    }

    fn into_page(self, ask: &ListAsk<'_>, kind: Kind) -> Result<Page, String> {
        let is_v1 = kind == Kind::V1 || kind == Kind::V2 && self.is_v1();
        let is_encoded = self.is_encoded;
        let no_text = |text: &str| format!("lists a key that is no UTF-8: {}", shown(text));
        let decoded = |text: String| match is_encoded {
            true => key::of_listing(&text).ok_or_else(|| no_text(&text)),
            false => Ok(text),
        };
        let (mut objects, mut prefixes) = (self.objects, Vec::with_capacity(self.prefixes.len()));
        for object in &mut objects {
            object.key = decoded(std::mem::take(&mut object.key))?;
        }
        for prefix in self.prefixes {
            prefixes.push(decoded(prefix)?);
        }
        let strays = objects.iter().map(|object| &object.key).chain(&prefixes);
        if let Some(stray) = strays.into_iter().find(|key| !key.starts_with(ask.prefix)) {
            return Err(format!("lists '{}', which does not begin with the prefix", shown(stray)));
        }
        if let Some(key) = &self.unsized_key {
            return Err(unsized_key(key));
        }
        let marker = self.marker.map(decoded).transpose()?.filter(|text| !text.is_empty());
        let token = self.token.filter(|token| !token.is_empty());
        // It is there to go on with: without a word to the contrary the list goes on.
        let has_next = token.is_some() || marker.is_some();
        let is_truncated = self.is_truncated.unwrap_or(has_next);
        let most = ask.most.clamp(1, PAGE) as usize;
        let may_go_on = self.is_truncated.is_none() && !has_next && objects.len() + prefixes.len() >= most;
        let next = match kind {
            _ if !is_truncated => None,
            Kind::Versions => {
                marker.map(|key| format!("{}{BETWEEN}{key}", self.version_marker.unwrap_or_default()))
            }
            // Version 1 gives a marker with a delimiter alone; otherwise the last key is it.
            _ if is_v1 => {
                let last = || objects.last().map(|object| &object.key).max(prefixes.last()).cloned();
                marker.or_else(last)
            }
            _ => token,
        };
        if is_truncated && next.is_none() {
            return Err("says that the list goes on, and gives no token to go on with".to_owned());
        }
        Ok(Page { objects, prefixes, next, may_go_on })
    }
}

fn time(text: &str) -> Option<SystemTime> {
    instant::parse(text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str, ask: &ListAsk<'_>, kind: Kind) -> Result<Page, String> {
        PageRead::of(body.as_bytes())?.into_page(ask, kind)
    }

    #[test]
    fn odd_keys_come_out_as_they_are() {
        let body = "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><EncodingType>url</EncodingType>\
            <Contents><Key>a%2F%2Fb%0A%25+%2B</Key><Size>7</Size><ETag>&quot;x&quot;</ETag>\
            <Owner><ID>1</ID><Key>no</Key></Owner><StorageClass>GLACIER</StorageClass></Contents>\
            <CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes><KeyCount>1</KeyCount>\
            <IsTruncated>true</IsTruncated><NextContinuationToken>t+1</NextContinuationToken></ListBucketResult>";
        let page = read(body, &ListAsk { prefix: "a", ..ListAsk::default() }, Kind::V2).unwrap();
        assert_eq!(page.objects[0].key, "a//b\n% +");
        assert_eq!((page.objects[0].size, page.objects[0].etag.as_deref()), (7, Some("\"x\"")));
        assert_eq!((page.prefixes, page.next.as_deref()), (vec!["a/".to_owned()], Some("t+1")));
        assert!(read(body, &ListAsk { prefix: "b", ..ListAsk::default() }, Kind::V2).is_err());
    }

    #[test]
    fn version_1_goes_on_from_its_last_key() {
        let body = "<ListBucketResult><Marker/><Contents><Key>a+b</Key><Size>1</Size></Contents>\
            <IsTruncated>true</IsTruncated>\
            </ListBucketResult>";
        let ask = ListAsk::default();
        assert_eq!(read(body, &ask, Kind::V2).unwrap().next.as_deref(), Some("a+b"));
        let none = body.replace("<Marker/>", "<KeyCount>1</KeyCount>");
        assert!(read(&none, &ask, Kind::V2).unwrap_err().contains("no token"));
        let cut = &body[..body.len() - 5];
        assert!(read(cut, &ask, Kind::V2).unwrap_err().contains("ends in the middle"));
    }

    #[test]
    fn a_token_alone_says_that_the_list_goes_on() {
        let body = "<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents><KeyCount>1</KeyCount>\
            <NextContinuationToken>t</NextContinuationToken></ListBucketResult>";
        let next = |body: &str| read(body, &ListAsk::default(), Kind::V2).unwrap().next;
        assert_eq!(next(body).as_deref(), Some("t"));
        assert_eq!(next(&body.replace(">t<", "><")), None);
        assert_eq!(next(&body.replace("<KeyCount>", "<IsTruncated>false</IsTruncated><KeyCount>")), None);
    }

    #[test]
    fn a_marker_alone_says_so_too() {
        let ask = ListAsk { versions: true, ..ListAsk::default() };
        let body = "<ListVersionsResult><Version><Key>k</Key><Size>1</Size><VersionId>2</VersionId></Version>\
            <NextKeyMarker>k</NextKeyMarker><NextVersionIdMarker>2</NextVersionIdMarker></ListVersionsResult>";
        assert_eq!(read(body, &ask, Kind::Versions).unwrap().next.as_deref(), Some("2\0k"));
        let body = "<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents><NextMarker>m</NextMarker>\
            </ListBucketResult>";
        assert_eq!(read(body, &ListAsk::default(), Kind::V1).unwrap().next.as_deref(), Some("m"));
        assert_eq!(read(body, &ListAsk::default(), Kind::V2).unwrap().next.as_deref(), Some("m"));
    }

    #[test]
    fn versions_have_their_ids() {
        let body = "<ListVersionsResult><Version><Key>k</Key><Size>1</Size><VersionId>2</VersionId>\
            <IsLatest>false</IsLatest></Version>\
            <DeleteMarker><Key>k</Key><VersionId>3</VersionId><IsLatest>true</IsLatest></DeleteMarker>\
            <IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>\
            <NextVersionIdMarker>3</NextVersionIdMarker></ListVersionsResult>";
        let page = read(body, &ListAsk { versions: true, ..ListAsk::default() }, Kind::Versions).unwrap();
        let versions: Vec<_> = page.objects.iter().filter_map(|object| object.version.clone()).collect();
        assert_eq!(versions[0], ListedVersion { id: "2".to_owned(), ..ListedVersion::default() });
        assert!(versions[1].is_delete_marker && versions[1].is_latest);
        assert_eq!(page.next.as_deref(), Some("3\0k"));
        // What has content has a size.
        let none = body.replace("<Size>1</Size>", "");
        let ask = ListAsk { versions: true, ..ListAsk::default() };
        assert!(read(&none, &ask, Kind::Versions).unwrap_err().contains("how large 'k' is"));
    }
}
