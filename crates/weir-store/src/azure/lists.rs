//! Lists of a container, looks at blobs, and their deletion.
//! <https://learn.microsoft.com/rest/api/storageservices/list-blobs>

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use weir_get::http::call::{AtHand, Call};
use weir_http::head::ResponseHead;

use super::{AzureStore, at};
use crate::caller::{Caller, refusal};
use crate::error::{StoreError, shown};
use crate::listing::{
    Bucket, Deletes, ListAsk, Listed, ListedVersion, Lists, Looked, NotDeleted, PAGE, Page, all_buckets,
    mtime, size, size_of, tags, unsized_key,
};
use crate::xml;
use weir_units::instant;

/// A thousand names of 1024 letters, and 2 KiB of what is said of each blob.
const MAX_PAGE: usize = PAGE as usize * (4 * 1024 + 2048);

/// Keys of one call of [`Deletes`]: one request each, so that a call's failures are heard of soon.
const AT_ONCE: usize = 100;

/// An error without a list.
const SHORT: usize = 64 << 10;

impl AzureStore {
    pub(super) fn call(
        &self,
        method: &'static str,
        key: &str,
        query: &[(&str, &str)],
        fields: Vec<(String, String)>,
    ) -> Result<Call<'static>, StoreError> {
        Ok(Call { method, url: self.at(key, query)?, fields, most: SHORT, asks_first: false })
    }
}

impl Lists for AzureStore {
    fn page(
        &self,
        caller: &mut Caller<'_>,
        ask: &ListAsk<'_>,
        token: Option<&str>,
    ) -> Result<Page, StoreError> {
        let what = format!("list {}", self.shown(ask.prefix));
        let most = ask.most.clamp(1, PAGE).to_string();
        let mut query = vec![("restype", "container"), ("comp", "list"), ("maxresults", most.as_str())];
        query.extend((!ask.prefix.is_empty()).then_some(("prefix", ask.prefix)));
        query.extend(ask.delimiter.map(|delimiter| ("delimiter", delimiter)));
        query.extend(token.map(|token| ("marker", token)));
        query.extend(ask.versions.then_some(("include", "versions")));
        let call = Call { most: MAX_PAGE, ..self.call("GET", "", &query, Vec::new())? };
        let reply = caller.done(&what, &call, &mut AtHand::default())?;
        let answer = |why: String| StoreError::Answer { what: what.clone(), why };
        let mut read = PageRead::default();
        xml::each(&reply.body, |path, text| read.ended(path, text)).map_err(|bad| answer(bad.to_string()))?;
        if !read.is_list {
            return Err(answer("is no list of blobs; is this the address of a store?".to_owned()));
        }
        if let Some(key) = &read.unsized_key {
            return Err(answer(unsized_key(key)));
        }
        let page = read.page;
        let strays = page.objects.iter().map(|object| &object.key).chain(&page.prefixes);
        if let Some(stray) = strays.into_iter().find(|key| !key.starts_with(ask.prefix)) {
            return Err(answer(format!("lists '{}', which does not begin with the prefix", shown(stray))));
        }
        Ok(page)
    }

    fn buckets(&self, caller: &mut Caller<'_>) -> Result<Vec<Bucket>, StoreError> {
        let what = format!("list the containers of {}", self.settings.account);
        all_buckets(&what, "marker", |token, buckets| {
            let mut query = vec![("comp", "list")];
            query.extend(token.map(|token| ("marker", token)));
            let url = at(&self.settings, "", &query)?;
            let call = Call { method: "GET", url, fields: Vec::new(), most: MAX_PAGE, asks_first: false };
            let reply = caller.done(&what, &call, &mut AtHand::default())?;
            let (mut name, mut created, mut next, mut is_list) = (String::new(), None, String::new(), false);
            let ended = |path: &[&str], text: &str| match path {
                [_, "Containers", "Container", "Name"] => text.clone_into(&mut name),
                [_, "Containers", "Container", "Properties", "Last-Modified"] => {
                    created = httpdate::parse_http_date(text).ok();
                }
                [_, "Containers", "Container"] => {
                    buckets.push(Bucket { name: std::mem::take(&mut name), created: created.take() });
                }
                [_, "NextMarker"] => text.clone_into(&mut next),
                ["EnumerationResults"] => is_list = true,
                _ => {}
            };
            let answer = |why: String| StoreError::Answer { what: what.clone(), why };
            xml::each(&reply.body, ended).map_err(|bad| answer(bad.to_string()))?;
            if !is_list {
                return Err(answer("is no list of containers; is this the address of a store?".to_owned()));
            }
            Ok(Some(next).filter(|next| !next.is_empty()))
        })
    }

    fn look(
        &self,
        caller: &mut Caller<'_>,
        key: &str,
        version: Option<&str>,
        size: Option<u64>,
    ) -> Result<Option<Looked>, StoreError> {
        let what = format!("look at {}", self.shown(key));
        let query: Vec<(&str, &str)> = version.map(|version| ("versionid", version)).into_iter().collect();
        let call = self.call("HEAD", key, &query, Vec::new())?;
        let reply = caller.ask_to(&what, &call, &mut AtHand::default())?;
        match reply.head.status {
            200..300 if is_folder(&reply.head) => Ok(None),
            200..300 => Ok(Some(looked(key, size_of(&what, key, &reply.head, size)?, &reply.head))),
            404 => Ok(None),
            _ => Err(refusal(&what, &call, &reply)),
        }
    }

    fn tags_of(
        &self,
        caller: &mut Caller<'_>,
        key: &str,
        version: Option<&str>,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let what = format!("read the tags of {}, which a copy keeps", self.shown(key));
        let mut query = vec![("comp", "tags")];
        query.extend(version.map(|version| ("versionid", version)));
        let call = self.call("GET", key, &query, Vec::new())?;
        tags(&what, &caller.done(&what, &call, &mut AtHand::default())?.body)
    }
}

/// What has the name is a folder of an account with a hierarchy, which answers as an empty blob does. What
/// some programs make where there is no hierarchy (`hdi_isfolder` in its metadata) is a blob.
pub(super) fn is_folder(head: &ResponseHead) -> bool {
    head.header("x-ms-resource-type").is_some_and(|text| text.eq_ignore_ascii_case("directory"))
}

fn looked(key: &str, size: u64, head: &ResponseHead) -> Looked {
    let text = |name: &str| head.header(name).map(str::to_owned);
    let (mut metadata, mut headers) = (Vec::new(), Vec::new());
    for (name, value) in head.fields.iter() {
        let name = name.to_ascii_lowercase();
        match name.strip_prefix("x-ms-meta-") {
            Some(own) => metadata.push((own.to_owned(), value.to_owned())),
            None => headers.push((name, value.to_owned())),
        }
    }
    let listed = Listed {
        key: key.to_owned(),
        size,
        modified: head.header("last-modified").and_then(|text| httpdate::parse_http_date(text).ok()),
        etag: text("etag"),
        class: text("x-ms-access-tier"),
        checksums: head.header("content-md5").map(|_| "MD5".to_owned()).into_iter().collect(),
        version: text("x-ms-version-id").map(|id| ListedVersion { id, ..ListedVersion::default() }),
    };
    let own = metadata.iter().find(|(name, _): &&(String, String)| name == "mtime");
    let mtime = own.and_then(|(_, text)| time(text));
    Looked { listed, mtime, metadata, headers, is_opaque: false }
}

/// As weir writes it, and as rclone does.
fn time(text: &str) -> Option<std::time::SystemTime> {
    mtime(text).or_else(|| instant::parse(text))
}

/// A page while it is read.
#[derive(Default)]
struct PageRead {
    page: Page,
    object: Listed,
    size: Option<u64>,
    version: ListedVersion,
    /// A blob that came without its size.
    unsized_key: Option<String>,
    /// A folder of an account with a hierarchy: not a blob that holds something.
    is_folder: bool,
    is_list: bool,
}

impl PageRead {
    fn ended(&mut self, path: &[&str], text: &str) {
        let object = &mut self.object;
        match path {
            ["EnumerationResults"] => self.is_list = true,
            [_, "NextMarker"] => self.page.next = Some(text.to_owned()).filter(|text| !text.is_empty()),
            [_, "Blobs", "BlobPrefix", "Name"] => self.page.prefixes.push(text.to_owned()),
            [_, "Blobs", "Blob", "Name"] => text.clone_into(&mut object.key),
            [_, "Blobs", "Blob", "VersionId"] => text.clone_into(&mut self.version.id),
            [_, "Blobs", "Blob", "IsCurrentVersion"] => self.version.is_latest = text == "true",
            [_, "Blobs", "Blob", "Properties", name] => match *name {
                "Content-Length" => self.size = size(text),
                "Last-Modified" => object.modified = httpdate::parse_http_date(text).ok(),
                "Etag" => object.etag = Some(quoted(text)),
                "AccessTier" => object.class = Some(text.to_owned()),
                "Content-MD5" if !text.is_empty() => object.checksums.push("MD5".to_owned()),
                "ResourceType" => self.is_folder = text == "directory",
                _ => {}
            },
            [_, "Blobs", "Blob"] => {
                let mut object = std::mem::take(&mut self.object);
                let (version, size) = (std::mem::take(&mut self.version), self.size.take());
                object.version = (!version.id.is_empty()).then_some(version);
                object.size = size.unwrap_or_default();
                if std::mem::take(&mut self.is_folder) {
                    return;
                }
                if size.is_none() {
                    self.unsized_key.get_or_insert_with(|| object.key.clone());
                }
                self.page.objects.push(object);
            }
            _ => {}
        }
    }
}

/// A list has entity tags without the quotes of a field.
fn quoted(tag: &str) -> String {
    if tag.starts_with('"') { tag.to_owned() } else { format!("\"{tag}\"") }
}

impl Deletes for AzureStore {
    fn at_once(&self) -> usize {
        AT_ONCE
    }

    fn delete(&self, caller: &mut Caller<'_>, keys: &[String]) -> Result<Vec<NotDeleted>, StoreError> {
        let mut failed = Vec::new();
        for key in keys {
            let what = format!("delete {}", self.shown(key));
            // Of a blob with snapshots the service wants to hear that they go as well.
            let fields = vec![("x-ms-delete-snapshots".to_owned(), "include".to_owned())];
            let reply = self.call("DELETE", key, &[], fields).and_then(|call| {
                let reply = caller.ask_to(&what, &call, &mut AtHand::default())?;
                match reply.head.status {
                    200..300 | 404 => Ok(()),
                    _ => Err(refusal(&what, &call, &reply)),
                }
            });
            match reply {
                Err(error @ StoreError::Http(weir_get::GetError::Interrupted)) => return Err(error),
                Err(error) => failed.push(NotDeleted { key: key.clone(), why: error.to_string() }),
                Ok(()) => {}
            }
        }
        Ok(failed)
    }
}

/// The MD5 of a field.
pub(super) fn md5_of(head: &ResponseHead) -> Option<Vec<u8>> {
    STANDARD.decode(head.header("content-md5")?).ok().filter(|value| value.len() == 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_without_its_folders() {
        let body = "\u{feff}<?xml version=\"1.0\"?><EnumerationResults><Prefix>a</Prefix><Blobs>\
            <Blob><Name>a/&amp;</Name><Properties><Last-Modified>Thu, 26 Nov 2026 19:52:25 GMT</Last-Modified>\
            <Etag>0x8D</Etag><Content-Length>7</Content-Length><Content-MD5>x</Content-MD5>\
            <AccessTier>Hot</AccessTier><ResourceType>file</ResourceType></Properties></Blob>\
            <Blob><Name>a/d</Name><Properties><ResourceType>directory</ResourceType></Properties></Blob>\
            <BlobPrefix><Name>a/b/</Name></BlobPrefix></Blobs><NextMarker>m</NextMarker></EnumerationResults>";
        let mut read = PageRead::default();
        xml::each(body.as_bytes(), |path, text| read.ended(path, text)).unwrap();
        assert!(read.is_list);
        let page = read.page;
        assert_eq!(
            (page.objects.len(), page.prefixes, page.next.as_deref()),
            (1, vec!["a/b/".to_owned()], Some("m"))
        );
        let blob = &page.objects[0];
        assert_eq!((blob.key.as_str(), blob.size, blob.etag.as_deref()), ("a/&", 7, Some("\"0x8D\"")));
        assert!(blob.modified.is_some() && blob.class.as_deref() == Some("Hot"));
    }
}
