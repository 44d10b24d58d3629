//! Who a request speaks for where a server wants more than a login: signatures of object stores, tokens of
//! hubs. What signs is the caller's; here is when it is asked.
//!
//! A request is signed when it is sent, so that a long transfer outlives each signature, and sent anew where
//! the refusal can be mended: by renewed credentials, another region, another token.

use url::Url;
use weir_codec::digest::Expected;
use weir_http::head::ResponseHead;

use crate::error::GetError;
use crate::http::call::{Call, Reply};

/// Speaks for requests to some origins.
pub trait Authorizer: Send + Sync {
    /// Requests for `url` are its to authorize.
    fn is_for(&self, url: &Url) -> bool;

    /// A request that it does not speak for was refused with `head`: where it is asked for if this one speaks
    /// for it from now on.
    fn takes_over(&self, _: &Url, _: &ResponseHead) -> Option<Url> {
        None
    }

    /// At this origin, whatever the path, is the store of those who set what they trust for stores alone
    /// (`AWS_CA_BUNDLE`).
    fn is_at(&self, _: &Url) -> bool {
        false
    }

    /// What its store keeps of all of an object, by the head of an answer, beside what fields say that every
    /// server has.
    fn keeps(&self, _: &Url, _: &ResponseHead) -> Option<KeptDigest> {
        None
    }

    /// Why what is answered well is no object, where that is so.
    fn why_no_object(&self, _: &Url, _: &ResponseHead) -> Option<String> {
        None
    }

    /// The sizes of the `count` parts that the object of `size` bytes at `url` was put together from: by
    /// requests that `ask` sends. Otherwise why they cannot be told.
    fn layout(
        &self,
        _: &Url,
        _kept: &KeptDigest,
        _size: u64,
        _ask: &mut Ask<'_>,
    ) -> Result<Vec<u64>, String> {
        Err("the store does not tell the sizes of its parts".to_owned())
    }

    /// Its store honours `If-Match` on a GET, so that a part of another version is never sent.
    fn pins(&self, _: &Url) -> bool {
        false
    }

    /// The fields that a request of `method` for `url` gets in addition, names in lower case; `given` are
    /// those that it has already, without `Host`, `Range` and what else a lane adds. Where these name who
    /// asks ([`is_authorized`]), none of the added ones does.
    fn fields(
        &self,
        method: &str,
        url: &Url,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, GetError>;

    /// The last word on a request: `fields` are all that it is sent with but `Host`, and the connection's
    /// own. For signatures that cover what a lane adds (`Range`, `If-Match`); called after
    /// [`Authorizer::fields`].
    fn seals(&self, _method: &str, _url: &Url, _fields: &mut Vec<(String, String)>) {}

    /// The request was refused with `head` and these words (`CODE: MESSAGE` of a store): whether one signed
    /// now may be answered otherwise. Called for every answer of 400 and above, and for redirects without a
    /// location.
    fn mends(&self, url: &Url, head: &ResponseHead, words: Option<&str>) -> Result<Mend, GetError>;

    /// What there is to say of a refusal in place of `words`: who was refused, by whose credentials, what to
    /// do. Never a secret.
    fn explains(&self, url: &Url, head: &ResponseHead, words: Option<&str>) -> Option<String>;
}

/// Sends a request beside a download.
pub type Ask<'a> = dyn FnMut(&Call<'_>) -> Result<Reply, GetError> + 'a;

/// A digest that a store keeps of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptDigest {
    /// It.
    pub expected: Expected,
    /// The field that says it.
    pub field: &'static str,
    /// It is of the digests of so many parts; `None`: of all bytes.
    pub parts: Option<u32>,
}

/// What can be done about a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mend {
    /// Nothing: it counts.
    No,
    /// The same request, signed anew.
    Again,
    /// The request at another place.
    At(Box<Url>),
}

/// The user has said in these fields who asks, and nobody else does.
pub fn is_authorized(fields: &[(String, String)]) -> bool {
    fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}

/// How often a refusal is mended for one request: a region that is named, credentials that are renewed, and
/// both once more by a store that has moved meanwhile.
pub(crate) const MAX_MENDED: u32 = 4;
