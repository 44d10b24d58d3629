//! Who speaks for requests to Google, and what a refusal means.

use std::sync::Arc;

use url::Url;
use weir_get::GetError;
use weir_get::http::authority::{Authorizer, Mend, is_authorized};
use weir_http::head::ResponseHead;

use super::GcsSettings;
use crate::credentials::bearer::Bearer;
use crate::credentials::{Found, Used};
use crate::refusal::as_get_error;

/// Speaks for requests for one bucket.
pub struct GcsAuthorizer {
    settings: GcsSettings,
    bucket: String,
    used: Used<Arc<Found<Bearer>>>,
}

impl GcsAuthorizer {
    /// For this bucket.
    pub fn new(settings: GcsSettings, bucket: String) -> GcsAuthorizer {
        GcsAuthorizer { settings, bucket, used: Used::default() }
    }

    /// The path of `url` below the endpoint's.
    fn below<'a>(&self, url: &'a Url) -> Option<&'a str> {
        let base = &self.settings.endpoint;
        let is_there = url.origin() == base.origin();
        url.path().strip_prefix(base.path().trim_end_matches('/')).filter(|_| is_there)
    }

    /// It is for an object, rather than for the bucket.
    fn is_object(&self, url: &Url) -> bool {
        let Some(path) = self.below(url) else { return false };
        let is_json = path.starts_with("/storage/v1/");
        match is_json {
            true => path.contains("/o/"),
            // What fills it names the object in the body.
            false if path.starts_with("/upload/storage/v1/") => true,
            false => path.strip_prefix(&format!("/{}/", self.bucket)).is_some_and(|key| !key.is_empty()),
        }
    }
}

impl Authorizer for GcsAuthorizer {
    fn is_for(&self, url: &Url) -> bool {
        let own = [
            format!("/storage/v1/b/{}", self.bucket),
            format!("/upload/storage/v1/b/{}", self.bucket),
            format!("/{}", self.bucket),
        ];
        self.below(url).is_some_and(|path| {
            let of_bucket = |own: &String| {
                path.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            path == "/storage/v1/b" || own.iter().any(of_bucket)
        })
    }

    fn pins(&self, _: &Url) -> bool {
        true
    }

    fn fields(
        &self,
        _method: &str,
        url: &Url,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, GetError> {
        let mut own = Vec::new();
        own.extend(
            self.settings.payer.iter().map(|project| ("x-goog-user-project".to_owned(), project.clone())),
        );
        if self.is_object(url) {
            own.extend(self.settings.encryption.iter().cloned());
        }
        let provider = self.settings.provider.as_ref().filter(|_| !is_authorized(given));
        let Some(provider) = provider else { return Ok(own) };
        let found = provider.current().map_err(as_get_error)?;
        own.push(("authorization".to_owned(), found.credential.authorization()));
        self.used.set(found);
        Ok(own)
    }

    fn mends(&self, _: &Url, head: &ResponseHead, _: Option<&str>) -> Result<Mend, GetError> {
        let used = self.used.own();
        let (401, Some(used), Some(provider)) = (head.status, used, &self.settings.provider) else {
            return Ok(Mend::No);
        };
        let renewed = provider.renewed(&used).map_err(as_get_error)?;
        Ok(if renewed.is_some() { Mend::Again } else { Mend::No })
    }

    fn explains(&self, _: &Url, head: &ResponseHead, words: Option<&str>) -> Option<String> {
        let code = words.map_or("", |words| words.split(':').next().unwrap_or_default());
        let way_out = match code {
            "NoSuchBucket" => format!("there is no bucket '{}' there", self.bucket),
            // Its JSON has no code, but the same message.
            _ if code == "UserProjectMissing"
                || words.is_some_and(|words| words.contains("requester pays")) =>
            {
                "its readers pay: --request-payer, with GOOGLE_CLOUD_QUOTA_PROJECT".to_owned()
            }
            _ => String::new(),
        };
        let who = match (self.used.own(), head.status) {
            (Some(used), 400 | 401 | 403) => format!("asked as {} of {}", used.identity, used.origin),
            (None, 401 | 403) => "asked without a token".to_owned(),
            _ => String::new(),
        };
        let parts = [words.unwrap_or_default().to_owned(), who, way_out];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
