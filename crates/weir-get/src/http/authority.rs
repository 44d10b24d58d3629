//! Who a request speaks for where a server wants more than a login: signatures of object stores, tokens of
//! hubs. What signs is the caller's; here is when it is asked.
//!
//! A request is signed when it is sent, so that a long transfer outlives each signature, and sent anew where
//! the refusal can be mended: by renewed credentials, another region, another token.

use url::Url;
use weir_http::head::ResponseHead;

use crate::error::GetError;

/// Speaks for requests to some origins.
pub trait Authorizer: Send + Sync {
    /// Requests for `url` are its to authorize.
    fn is_for(&self, url: &Url) -> bool;

    /// At this origin, whatever the path, is the store of those who set what they trust for stores alone
    /// (`AWS_CA_BUNDLE`).
    fn is_at(&self, _: &Url) -> bool {
        false
    }

    /// Its store honours `If-Match` on a GET, so that a part of another version is never sent.
    fn pins(&self, _: &Url) -> bool {
        false
    }

    /// The fields that a request of `method` for `url` gets in addition, names in lower case; `given` are
    /// those that it has already, without `Host`, `Range` and what else a lane adds.
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

/// How often a refusal is mended for one request: a region that is named, credentials that are renewed, and
/// both once more by a store that has moved meanwhile.
pub(crate) const MAX_MENDED: u32 = 4;
