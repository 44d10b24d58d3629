//! Objects to a server that takes them by plain PUT (RFC 9110 section 9.3.4): WebDAV, artefact stores, signed
//! links of any store.

use url::Url;
use weir_codec::digest::Algorithm;
use weir_get::http::call::{AtHand, Call, Content};
use weir_get::object::shown;

use super::{Bounds, Finish, Object, PartThere, Pending, Stored, Sum, Upload, Uploads};
use crate::caller::{Caller, refusal};
use crate::error::StoreError;

/// An answer to a PUT is a page at most.
const SHORT: usize = 1 << 20;

/// From this size on a body is worth asking first whether it is taken (curl asks from 1 MiB on).
const ASKS_FIRST: u64 = 1 << 20;

/// A server's folder, or one place of it.
#[derive(Debug, Clone)]
pub struct PlainPut {
    base: Url,
}

impl PlainPut {
    /// Keys stand behind `base`; the empty key is `base` itself.
    pub fn new(base: Url) -> PlainPut {
        PlainPut { base }
    }

    /// Where an object goes.
    pub fn url(&self, key: &str) -> Result<Url, StoreError> {
        if key.is_empty() {
            return Ok(self.base.clone());
        }
        let path = crate::key::in_path(key)?;
        let mut url = self.base.clone();
        url.set_path(&format!("{}/{path}", self.base.path().trim_end_matches('/')));
        Ok(url)
    }

    fn call(&self, method: &'static str, key: &str) -> Result<Call<'static>, StoreError> {
        Ok(Call { method, url: self.url(key)?, fields: Vec::new(), most: SHORT, asks_first: false })
    }
}

/// A shared access signature of Azure's.
fn is_azure_link(url: &Url) -> bool {
    ["sv", "sig", "sp"].iter().all(|part| url.query_pairs().any(|(name, _)| name == *part))
}

/// What has parts is not asked of it: its bounds say so.
fn no_parts() -> StoreError {
    StoreError::Usage("a server that takes objects by PUT takes them whole".to_owned())
}

impl Uploads for PlainPut {
    fn bounds(&self) -> Bounds {
        let most = i64::MAX as u64;
        Bounds { parts: 1, least_part: 0, most_part: most, most_single: most, most }
    }

    fn algorithms(&self) -> &[Algorithm] {
        &[]
    }

    fn checks_whole(&self, _: Algorithm) -> bool {
        false
    }

    fn speaks_as_user(&self) -> bool {
        true
    }

    fn put(
        &self,
        caller: &mut Caller<'_>,
        object: &Object<'_>,
        _: Option<&Sum>,
        content: &mut dyn Content,
    ) -> Result<Stored, StoreError> {
        let mut call = self.call("PUT", object.key)?;
        let attributes = object.attributes;
        for (name, value) in [
            ("content-type", &attributes.content_type),
            ("content-encoding", &attributes.content_encoding),
            ("cache-control", &attributes.cache_control),
        ] {
            call.fields.extend(value.iter().map(|value| (name.to_owned(), value.clone())));
        }
        call.fields.extend(object.condition.field());
        if is_azure_link(&call.url) {
            // A link does not say which kind of blob it fills, and the service wants to hear it.
            call.fields.push(("x-ms-blob-type".to_owned(), "BlockBlob".to_owned()));
        }
        call.asks_first = content.length() >= ASKS_FIRST;
        let what = format!("put {}", shown(&call.url));
        let reply = caller.done(&what, &call, content)?;
        // 202 promises nothing, but nothing else comes.
        let tag = reply.head.header("etag").map(str::to_owned);
        Ok(Stored { tag, ..Stored::default() })
    }

    fn begin(&self, _: &mut Caller<'_>, _: &Object<'_>, _: Option<Algorithm>) -> Result<String, StoreError> {
        Err(no_parts())
    }

    fn part(
        &self,
        _: &mut Caller<'_>,
        _: &Upload<'_>,
        _: u32,
        _: Option<&Sum>,
        _: &mut dyn Content,
    ) -> Result<String, StoreError> {
        Err(no_parts())
    }

    fn complete(&self, _: &mut Caller<'_>, _: &Upload<'_>, _: &Finish<'_>) -> Result<Stored, StoreError> {
        Err(no_parts())
    }

    fn abort(&self, _: &mut Caller<'_>, _: &Upload<'_>) -> Result<(), StoreError> {
        Err(no_parts())
    }

    fn parts(&self, _: &mut Caller<'_>, _: &Upload<'_>) -> Result<Option<Vec<PartThere>>, StoreError> {
        Err(no_parts())
    }

    fn pending(&self, _: &mut Caller<'_>, _: &str) -> Result<Vec<Pending>, StoreError> {
        Ok(Vec::new())
    }

    fn stored(&self, caller: &mut Caller<'_>, key: &str) -> Result<Option<Stored>, StoreError> {
        let call = self.call("HEAD", key)?;
        let what = format!("ask for {}", shown(&call.url));
        let reply = caller.ask_to(&what, &call, &mut AtHand::default())?;
        let text = |name: &str| reply.head.header(name).map(str::to_owned);
        let size = text("content-length").and_then(|text| text.parse().ok());
        match reply.head.status {
            200..300 => Ok(Some(Stored { tag: text("etag"), size, ..Stored::default() })),
            404 | 410 => Ok(None),
            _ => Err(refusal(&what, &call, &reply)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_behind_the_base() {
        let at =
            |base: &str, key: &str| PlainPut::new(Url::parse(base).unwrap()).url(key).unwrap().to_string();
        assert_eq!(at("http://h/d/", "a b/c"), "http://h/d/a%20b/c");
        assert_eq!(at("http://h", "x"), "http://h/x");
        assert_eq!(at("http://h/d/x?sig=1", ""), "http://h/d/x?sig=1");
        assert_eq!(at("http://h/d?sig=1", "y"), "http://h/d/y?sig=1");
        assert!(PlainPut::new(Url::parse("http://h/").unwrap()).url("a/../b").is_err());
        assert!(is_azure_link(&Url::parse("http://h/c/k?sv=2021-06-08&sp=w&sig=x").unwrap()));
        assert!(!is_azure_link(&Url::parse("http://h/c/k?sig=x").unwrap()));
    }
}
