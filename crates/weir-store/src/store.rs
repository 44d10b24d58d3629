//! A store as weir sees it, whichever it is.

use std::sync::Arc;

use url::Url;
use weir_get::http::authority::Authorizer;

use crate::error::StoreError;
use crate::listing::{Copies, Deletes, Lists};
use crate::upload::Uploads;
use crate::upload::fields::FieldKind;

/// Who keeps a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Where it is.
    pub address: String,
    /// A bucket's name means the same bucket there, whoever asks. Of services of one's own nobody knows: some
    /// give each tenant names of its own.
    pub has_one_namespace: bool,
}

/// A bucket of a store.
pub trait Store: Send + Sync {
    /// The address of `key`, of this version of it, for a GET, a HEAD or a PUT.
    fn object(&self, key: &str, version: Option<&str>) -> Result<Url, StoreError>;

    /// The address of `key` without what is secret in it, by which the object is known in journals.
    fn address(&self, key: &str) -> String {
        let url = self.object(key, None);
        url.map(|url| weir_get::object::shown(&url)).unwrap_or_else(|_| key.escape_debug().to_string())
    }

    /// The key, and the version, whose address `url` is; `None`: it is none of this bucket.
    fn named(&self, url: &Url) -> Option<(String, Option<String>)>;

    /// Each look tells a version ([`crate::listing::Listed::version`]), and whoever may fetch the object may
    /// fetch that one of it. Others want a right of their own for this, and are held to a tag.
    fn pins_versions(&self) -> bool {
        false
    }

    /// Who keeps it.
    fn service(&self) -> Service;

    /// What it holds.
    fn lists(&self) -> &dyn Lists;

    /// How its objects are deleted.
    fn deletes(&self) -> &dyn Deletes;

    /// How the store copies its objects itself.
    fn copies(&self) -> &dyn Copies;

    /// Who speaks for requests for its objects; given to [`weir_get::http::exchange::Http::authorized_by`].
    fn authorizer(&self) -> Arc<dyn Authorizer>;

    /// The requests that fill it.
    fn uploads(&self) -> &dyn Uploads;

    /// What it keeps beside the bytes of its objects.
    fn fields(&self) -> FieldKind;
}

/// The key whose address is `base` and that key, percent-encoded; with it the value of `version` in the
/// query.
pub(crate) fn named_below(url: &Url, base: &str, version: &str) -> Option<(String, Option<String>)> {
    let rest = url.as_str().strip_prefix(base)?;
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let key = percent_encoding::percent_decode_str(path).decode_utf8().ok()?.into_owned();
    let of_query = url.query_pairs().find(|(name, _)| name == version);
    Some((key, of_query.map(|(_, text)| text.into_owned())))
}
