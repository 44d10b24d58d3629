//! Blobs into a container: Put Blob, or blocks and a list of them.
//! <https://learn.microsoft.com/rest/api/storageservices/put-block-list>

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use weir_codec::digest::Algorithm;
use weir_get::http::call::{AtHand, Call, Content};
use weir_http::head::ResponseHead;

use super::AzureStore;
use super::lists::md5_of;
use crate::caller::{Caller, refusal};
use crate::error::StoreError;
use crate::key;
use crate::upload::fields::checked;
use crate::upload::{Attributes, Bounds, Finish, Object, PartThere, Pending, Stored, Sum, Upload, Uploads};
use crate::xml;

/// <https://learn.microsoft.com/azure/storage/blobs/scalability-targets>
const BOUNDS: Bounds = Bounds {
    parts: 50_000,
    least_part: 1,
    most_part: 4000 << 20,
    most_single: 5000 << 20,
    most: 50_000 * (4000 << 20),
};

static ALGORITHMS: [Algorithm; 1] = [Algorithm::MD5];

/// A list of 50,000 blocks, each with a name of 30 letters.
const PAGE: usize = 16 << 20;

/// What an upload is called: as many letters as no two uploads share.
const ID: usize = 16;

/// Digits of a block's number, so that all names are of one length, as they must be.
const DIGITS: usize = 5;

impl Uploads for AzureStore {
    fn bounds(&self) -> Bounds {
        BOUNDS
    }

    fn algorithms(&self) -> &[Algorithm] {
        &ALGORITHMS
    }

    fn checks_whole(&self, _: Algorithm) -> bool {
        false
    }

    fn put(
        &self,
        caller: &mut Caller<'_>,
        object: &Object<'_>,
        sum: Option<&Sum>,
        content: &mut dyn Content,
    ) -> Result<Stored, StoreError> {
        let what = format!("put {}", self.shown(object.key));
        let size = content.length();
        let reply = self.tag_refusal.sends(object.attributes, &mut |attributes| {
            let mut fields = fields_of(attributes, &what)?;
            fields.push(("x-ms-blob-type".to_owned(), "BlockBlob".to_owned()));
            fields.extend(object.condition.field());
            fields.extend(sum.and_then(checksum));
            let call = self.call("PUT", object.key, &[], fields)?;
            content.rewind()?;
            caller.done(&what, &call, content)
        })?;
        Ok(Stored { size: Some(size), ..stored_of(&reply.head) })
    }

    /// Nothing is asked: the names of the blocks say which upload they are of.
    fn begin(
        &self,
        _: &mut Caller<'_>,
        object: &Object<'_>,
        _: Option<Algorithm>,
    ) -> Result<String, StoreError> {
        fields_of(object.attributes, &format!("put {}", self.shown(object.key)))?;
        Ok(format!("{:0ID$x}", fastrand::u64(..)))
    }

    fn part(
        &self,
        caller: &mut Caller<'_>,
        upload: &Upload<'_>,
        number: u32,
        sum: Option<&Sum>,
        content: &mut dyn Content,
    ) -> Result<String, StoreError> {
        let what = format!("put part {number} of {}", self.shown(upload.object.key));
        let name = block(upload.id, number);
        let fields = sum.and_then(checksum).into_iter().collect();
        let call = self.call("PUT", upload.object.key, &[("comp", "block"), ("blockid", &name)], fields)?;
        caller.done(&what, &call, content)?;
        Ok(name)
    }

    fn complete(
        &self,
        caller: &mut Caller<'_>,
        upload: &Upload<'_>,
        finish: &Finish<'_>,
    ) -> Result<Stored, StoreError> {
        let what = format!("complete {}", self.shown(upload.object.key));
        let mut list = String::with_capacity(64 * finish.parts.len());
        list.push_str("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
        for part in finish.parts {
            list.push_str(&format!("<Latest>{}</Latest>", xml::escaped(&part.tag)));
        }
        list.push_str("</BlockList>");
        let reply = self.tag_refusal.sends(upload.object.attributes, &mut |attributes| {
            let mut fields = fields_of(attributes, &what)?;
            fields.extend(upload.object.condition.field());
            let call = self.call("PUT", upload.object.key, &[("comp", "blocklist")], fields)?;
            caller.done(&what, &call, &mut AtHand::new(list.as_bytes()))
        })?;
        // The answer's MD5 is of the list itself.
        Ok(Stored { size: Some(finish.size), sums: Vec::new(), ..stored_of(&reply.head) })
    }

    fn drops(&self) -> Option<&'static str> {
        Some("Azure drops blocks that are in no blob within a week, and with the next blob of that name")
    }

    /// Nothing is asked ([`Uploads::drops`]).
    fn abort(&self, _: &mut Caller<'_>, _: &Upload<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn parts(
        &self,
        caller: &mut Caller<'_>,
        upload: &Upload<'_>,
    ) -> Result<Option<Vec<PartThere>>, StoreError> {
        let Some(blocks) = self.blocks(caller, upload.object.key)? else { return Ok(None) };
        let of_upload = blocks.into_iter().filter_map(|(name, size)| {
            let (id, number) = named(&name)?;
            (id == upload.id).then_some(PartThere { number, tag: name, size })
        });
        let mut parts: Vec<PartThere> = of_upload.collect();
        parts.sort_by_key(|part| part.number);
        parts.dedup_by_key(|part| part.number);
        Ok(Some(parts))
    }

    fn pending(&self, caller: &mut Caller<'_>, key: &str) -> Result<Vec<Pending>, StoreError> {
        let blocks = self.blocks(caller, key)?.unwrap_or_default();
        let mut ids: Vec<String> = blocks.iter().filter_map(|(name, _)| Some(named(name)?.0)).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids.into_iter().map(|id| Pending { id, since: String::new() }).collect())
    }

    fn stored(&self, caller: &mut Caller<'_>, key: &str) -> Result<Option<Stored>, StoreError> {
        let what = format!("ask for {}", self.shown(key));
        let call = self.call("HEAD", key, &[], Vec::new())?;
        let reply = caller.ask_to(&what, &call, &mut AtHand::default())?;
        match reply.head.status {
            200..300 => {
                let size = reply.head.header("content-length").and_then(|text| text.parse().ok());
                Ok(Some(Stored { size, ..stored_of(&reply.head) }))
            }
            404 => Ok(None),
            _ => Err(refusal(&what, &call, &reply)),
        }
    }
}

impl AzureStore {
    /// Blocks of `key` that belong to no blob yet, with their sizes; `None`: there is neither a blob nor a
    /// block.
    fn blocks(&self, caller: &mut Caller<'_>, key: &str) -> Result<Option<Vec<(String, u64)>>, StoreError> {
        let what = format!("list the blocks of {}", self.shown(key));
        let query = [("comp", "blocklist"), ("blocklisttype", "uncommitted")];
        let call = Call { most: PAGE, ..self.call("GET", key, &query, Vec::new())? };
        let reply = caller.ask_to(&what, &call, &mut AtHand::default())?;
        match reply.head.status {
            200..300 => {}
            404 => return Ok(None),
            _ => return Err(refusal(&what, &call, &reply)),
        }
        let (mut blocks, mut name, mut size, mut is_list) = (Vec::new(), String::new(), 0, false);
        let ended = |path: &[&str], text: &str| match path {
            [_, "UncommittedBlocks", "Block", "Name"] => text.clone_into(&mut name),
            [_, "UncommittedBlocks", "Block", "Size"] => size = text.trim().parse().unwrap_or_default(),
            [_, "UncommittedBlocks", "Block"] => blocks.push((std::mem::take(&mut name), size)),
            ["BlockList"] => is_list = true,
            _ => {}
        };
        let answer = |why: String| StoreError::Answer { what: what.clone(), why };
        xml::each(&reply.body, ended).map_err(|bad| answer(bad.to_string()))?;
        if is_list { Ok(Some(blocks)) } else { Err(answer("is no list of blocks".to_owned())) }
    }
}

/// The name of a block: the upload's and its number, base64 as the service wants it.
fn block(id: &str, number: u32) -> String {
    STANDARD.encode(format!("{id}-{number:0DIGITS$}"))
}

/// The upload and the number of a block that weir has sent.
fn named(name: &str) -> Option<(String, u32)> {
    let text = String::from_utf8(STANDARD.decode(name).ok()?).ok()?;
    let (id, number) = text.split_once('-')?;
    let is_ours = id.len() == ID && id.bytes().all(|byte| byte.is_ascii_hexdigit()) && number.len() == DIGITS;
    let number = number.parse().ok().filter(|number| (1..=BOUNDS.parts).contains(number))?;
    is_ours.then(|| (id.to_owned(), number))
}

fn checksum(sum: &Sum) -> Option<(String, String)> {
    (sum.algorithm == Algorithm::MD5).then(|| ("content-md5".to_owned(), STANDARD.encode(&sum.value)))
}

fn fields_of(attributes: &Attributes, what: &str) -> Result<Vec<(String, String)>, StoreError> {
    let Attributes { content_type, content_encoding, content_disposition, content_language, .. } = attributes;
    if attributes.encryption.is_some() || attributes.encryption_key.is_some() {
        return Err(StoreError::Usage(format!(
            "cannot {what} with that encryption: Azure encrypts by the account's own settings"
        )));
    }
    let tags = key::pairs(&attributes.tags);
    let single = [
        ("x-ms-blob-content-type", content_type),
        ("x-ms-blob-content-encoding", content_encoding),
        ("x-ms-blob-content-disposition", content_disposition),
        ("x-ms-blob-content-language", content_language),
        ("x-ms-blob-cache-control", &attributes.cache_control),
        ("x-ms-access-tier", &attributes.storage_class),
        ("x-ms-tags", &tags),
    ];
    let single = single.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
    let own = attributes.metadata.iter().map(|(name, value)| (format!("x-ms-meta-{name}"), value.clone()));
    let fields = checked(what, single.chain(own).collect())?;
    match fields.iter().find(|(_, value)| !value.is_ascii()) {
        None => Ok(fields),
        Some((name, _)) => Err(StoreError::Usage(format!(
            "cannot {what}: {name} has letters that no field of Azure's holds"
        ))),
    }
}

fn stored_of(head: &ResponseHead) -> Stored {
    let value = md5_of(head);
    Stored {
        tag: head.header("etag").filter(|tag| !tag.is_empty()).map(str::to_owned),
        version: head.header("x-ms-version-id").map(str::to_owned),
        size: None,
        sums: value.map(|value| Sum { algorithm: Algorithm::MD5, value }).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_tell_which_upload_they_are_of() {
        let id = "00000000000000ff";
        assert_eq!(named(&block(id, 1)), Some((id.to_owned(), 1)));
        assert_eq!(named(&block(id, 50_000)), Some((id.to_owned(), 50_000)));
        assert_eq!(block(id, 1).len(), block(id, 50_000).len());
        for name in ["", "!", &STANDARD.encode("00000000000000ff-00000"), &STANDARD.encode("x-00001")] {
            assert_eq!(named(name), None, "{name}");
        }
    }

    #[test]
    fn what_azure_does_not_hold_is_refused() {
        let encrypted = Attributes { encryption: Some("AES256".to_owned()), ..Attributes::default() };
        assert!(fields_of(&encrypted, "put x").is_err());
        let odd =
            Attributes { metadata: vec![("a".to_owned(), "\u{e4}".to_owned())], ..Attributes::default() };
        assert!(fields_of(&odd, "put x").unwrap_err().to_string().contains("x-ms-meta-a"));
        let two = Attributes { metadata: vec![("a".to_owned(), "b\r\nc: d".to_owned())], ..odd };
        assert!(fields_of(&two, "put x").unwrap_err().to_string().contains("x-ms-meta-a"));
    }

    #[test]
    fn a_language_is_kept() {
        let attributes = Attributes { content_language: Some("de".to_owned()), ..Attributes::default() };
        let fields = fields_of(&attributes, "put x").unwrap();
        assert_eq!(fields, [("x-ms-blob-content-language".to_owned(), "de".to_owned())]);
    }
}
