//! Who signs requests for blobs (Shared Key), or speaks for them (tokens), and what a refusal means.
//! <https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key>

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderName, HeaderValue, Method};
use object_store::client::{HttpRequest, HttpRequestBody};
use parking_lot::Mutex;
use url::Url;
use weir_get::GetError;
use weir_get::http::authority::{Authorizer, Mend, is_authorized};
use weir_http::head::ResponseHead;

use super::AzureSettings;
use super::lists::is_folder;
use crate::credentials::azure::AzureSigner;
use crate::credentials::{Found, Used};
#[cfg(test)]
use crate::error::StoreError;
use crate::network::without;
use crate::refusal::{as_get_error, skew};

/// The version of the service that requests are written for; the one that the signer names.
const VERSION: &str = "2023-11-03";

/// Speaks for requests to one container.
pub struct AzureAuthorizer {
    settings: AzureSettings,
    container: String,
    used: Used<Arc<Found<AzureSigner>>>,
    /// Signatures that were sent of late: a refusal may repeat one.
    sent: Mutex<VecDeque<String>>,
}

/// As many requests may be under way at once, and as many signatures be repeated.
const SENT: usize = 64;

impl AzureAuthorizer {
    /// For this container.
    pub fn new(settings: AzureSettings, container: String) -> AzureAuthorizer {
        AzureAuthorizer { settings, container, used: Used::default(), sent: Mutex::default() }
    }

    /// With the key of the account; `None`: a field cannot be signed.
    fn sign(
        &self,
        found: &Found<AzureSigner>,
        method: &str,
        url: &Url,
        fields: &mut Vec<(String, String)>,
    ) -> Option<()> {
        let AzureSigner::Key(key) = &found.credential else { return Some(()) };
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.method_mut() = Method::from_bytes(method.as_bytes()).ok()?;
        *request.uri_mut() = url.as_str().parse().ok()?;
        fields.retain(|(name, _)| !matches!(name.as_str(), "date" | "authorization"));
        for (name, value) in fields.iter() {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            request.headers_mut().insert(name, HeaderValue::from_str(value).ok()?);
        }
        let authorizer = object_store::azure::AzureAuthorizer::new(key, &self.settings.account);
        authorizer.try_authorize(&mut request).ok()?;
        for name in ["date", "authorization"] {
            let value = request.headers().get(name)?.to_str().ok()?.to_owned();
            fields.push((name.to_owned(), value));
        }
        let signature = fields.last().and_then(|(_, value)| Some(value.rsplit_once(':')?.1.to_owned()));
        let mut sent = self.sent.lock();
        sent.extend(signature);
        if sent.len() > SENT {
            sent.pop_front();
        }
        Some(())
    }
}

impl Authorizer for AzureAuthorizer {
    fn is_for(&self, url: &Url) -> bool {
        let base = &self.settings.endpoint;
        let path = format!("{}/{}", base.path().trim_end_matches('/'), self.container);
        let rest = url.path().strip_prefix(&path);
        let is_list = url.path().trim_end_matches('/') == base.path().trim_end_matches('/');
        url.origin() == base.origin()
            && (is_list || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }

    fn pins(&self, _: &Url) -> bool {
        true
    }

    fn why_no_object(&self, url: &Url, head: &ResponseHead) -> Option<String> {
        let shown = weir_get::object::shown(url);
        is_folder(head)
            .then(|| format!("{shown} is a folder, not an object; with / at its end all in it comes"))
    }

    fn fields(
        &self,
        _method: &str,
        _url: &Url,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, GetError> {
        let mut own = self.settings.encryption.clone();
        own.push(("x-ms-version".to_owned(), VERSION.to_owned()));
        let provider = self.settings.provider.as_ref().filter(|_| !is_authorized(given));
        let Some(provider) = provider else { return Ok(own) };
        let found = provider.current().map_err(as_get_error)?;
        if let AzureSigner::Token(token) = &found.credential {
            own.push(("authorization".to_owned(), token.authorization()));
        }
        self.used.set(found);
        Ok(own)
    }

    fn seals(&self, method: &str, url: &Url, fields: &mut Vec<(String, String)>) {
        let Some(found) = self.used.own().filter(|_| !is_authorized(fields)) else { return };
        if self.sign(&found, method, url, fields).is_none() {
            tracing::warn!("a request for {} cannot be signed: a field of it is no ASCII", url.path());
        }
    }

    fn mends(&self, _: &Url, head: &ResponseHead, _: Option<&str>) -> Result<Mend, GetError> {
        let (Some(used), Some(provider)) = (self.used.own(), &self.settings.provider) else {
            return Ok(Mend::No);
        };
        // A token that has run out comes with 401; a key does not run out.
        if head.status != 401 || !matches!(used.credential, AzureSigner::Token(_)) {
            return Ok(Mend::No);
        }
        let renewed = provider.renewed(&used).map_err(as_get_error)?;
        Ok(if renewed.is_some() { Mend::Again } else { Mend::No })
    }

    fn explains(&self, _: &Url, head: &ResponseHead, words: Option<&str>) -> Option<String> {
        let code = words.map_or("", |words| words.split(':').next().unwrap_or_default());
        let way_out = match code {
            "AuthenticationFailed" if is_skewed(head) => skew(head, SystemTime::now()).unwrap_or_default(),
            "BlobArchived" => "it is archived; set its tier to Hot or Cool first".to_owned(),
            "ContainerNotFound" => format!("there is no container '{}' there", self.container),
            "AuthorizationPermissionMismatch" => {
                "give it a role such as Storage Blob Data Reader (being the owner is not enough)".to_owned()
            }
            _ => String::new(),
        };
        let who = match (self.used.own(), head.status) {
            (Some(used), 400 | 401 | 403) => format!("asked as {} of {}", used.identity, used.origin),
            (None, 401 | 403 | 404 | 409) => "asked without a signature".to_owned(),
            _ => String::new(),
        };
        let sent: Vec<String> = self.sent.lock().iter().cloned().collect();
        let parts = [without(words.unwrap_or_default().to_owned(), &sent), who, way_out];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// The service takes requests that are a quarter of an hour old, and has one code for those that are older
/// and for a wrong key.
fn is_skewed(head: &ResponseHead) -> bool {
    let theirs = head.header("date").and_then(|text| httpdate::parse_http_date(text).ok());
    let apart = theirs.map(|theirs| match SystemTime::now().duration_since(theirs) {
        Ok(ahead) => ahead,
        Err(behind) => behind.duration(),
    });
    apart.is_some_and(|apart| apart > Duration::from_secs(900))
}

impl AzureAuthorizer {
    /// As a test wants it.
    #[cfg(test)]
    pub fn signed(
        &self,
        method: &str,
        url: &Url,
        mut fields: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, StoreError> {
        fields.extend(self.fields(method, url, &[])?);
        self.seals(method, url, &mut fields);
        Ok(fields)
    }
}
