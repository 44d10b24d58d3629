//! Google Cloud Storage: where an object is, and who speaks for requests.
//!
//! Two interfaces, each for what it alone can do. Objects are fetched by the XML interface, whose answers
//! have the entity tags and digests of every web server, and uploaded by it in parts: its parts may come in
//! any order, those of the JSON interface may not. All else goes by the JSON interface, whose addresses also
//! hold the keys that no path can (`a/../b`), and which every emulator of this store speaks.

mod authorizer;
mod copies;
mod lists;
#[cfg(test)]
mod tests;
mod upload;

use std::sync::Arc;

use url::Url;
use weir_get::http::authority::Authorizer;

pub use authorizer::GcsAuthorizer;

use crate::credentials::google::GoogleProvider;
use crate::error::{StoreError, shown};
use crate::key;
use crate::listing::{Copies, Deletes, Lists};
use crate::network;
use crate::s3::{self, Dialect, S3Bucket, S3Settings, S3Store};
use crate::store::{Service, Store, named_below};
use crate::upload::Uploads;
use crate::upload::fields::FieldKind;

/// Where it is.
pub const ENDPOINT: &str = "https://storage.googleapis.com";

/// The path of the JSON interface, which other tools have in the endpoint that they are told.
const JSON: &str = "/storage/v1";

/// The service that `text` names: `https://HOST`, `https://HOST/storage/v1/`.
pub fn endpoint_of(text: &str) -> Result<Url, StoreError> {
    let mut url = network::endpoint_of(text)?;
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(path.strip_suffix(JSON).unwrap_or(&path));
    Ok(url)
}

/// How a bucket is asked.
#[derive(Clone)]
pub struct GcsSettings {
    /// Where it is.
    pub endpoint: Url,
    /// Who speaks for requests; `None`: nobody (`--no-sign`, an emulator).
    pub provider: Option<GoogleProvider>,
    /// Whose project pays for requests (`--request-payer`).
    pub payer: Option<String>,
    /// Whose buckets are listed.
    pub project: Option<String>,
    /// Fields for encryption with a key that comes with each request.
    pub encryption: Vec<(String, String)>,
}

/// A bucket and who speaks for requests for it.
pub struct GcsStore {
    settings: GcsSettings,
    bucket: String,
    /// The XML interface, which is much like S3's.
    xml: S3Store,
    authorizer: Arc<GcsAuthorizer>,
}

impl GcsStore {
    /// This bucket.
    pub fn new(settings: GcsSettings, bucket: String) -> GcsStore {
        let xml = S3Settings {
            region: None,
            endpoint: Some(settings.endpoint.clone()),
            host: s3::HOST,
            path_style: Some(true),
            prefers_host: false,
            provider: None,
            request_payer: false,
            encryption: Vec::new(),
        };
        let xml = S3Store::speaking(S3Bucket { settings: xml, bucket: bucket.clone() }, Dialect::Google);
        let authorizer = Arc::new(GcsAuthorizer::new(settings.clone(), bucket.clone()));
        GcsStore { settings, bucket, xml, authorizer }
    }

    /// An address of the JSON interface: `path` below `/storage/v1/`.
    fn json(&self, path: &str, query: &[(&str, &str)]) -> Result<Url, StoreError> {
        let base = self.settings.endpoint.as_str().trim_end_matches('/');
        let pairs: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", key::in_query(value))).collect();
        let mark = if pairs.is_empty() { "" } else { "?" };
        let text = format!("{base}{JSON}/{path}{mark}{}", pairs.join("&"));
        Url::parse(&text).map_err(|error| StoreError::Usage(format!("cannot ask {text}: {error}")))
    }

    /// The path of an object there.
    fn path_of(bucket: &str, key: &str) -> Result<String, StoreError> {
        Ok(format!("b/{bucket}/o/{}", key::in_segment(key)?))
    }

    /// `gs://BUCKET/KEY`.
    fn shown(&self, key: &str) -> String {
        format!("gs://{}/{}", self.bucket, shown(key))
    }
}

impl Store for GcsStore {
    fn object(&self, key: &str, version: Option<&str>) -> Result<Url, StoreError> {
        match key::in_path(key) {
            Ok(_) => {
                let query: Vec<(&str, &str)> =
                    version.map(|version| ("generation", version)).into_iter().collect();
                match query.as_slice() {
                    [] => self.xml.bucket().object(key, None),
                    query => self.xml.bucket().query_of(key, query),
                }
            }
            Err(_) => {
                let mut query = vec![("alt", "media")];
                query.extend(version.map(|version| ("generation", version)));
                self.json(&GcsStore::path_of(&self.bucket, key)?, &query)
            }
        }
    }

    fn named(&self, url: &Url) -> Option<(String, Option<String>)> {
        let json = self.json(&format!("b/{}/o/", self.bucket), &[]).ok()?;
        let by = |base: &Url| named_below(url, base.as_str(), "generation");
        by(&json).or_else(|| by(&self.xml.object("", None).ok()?))
    }

    fn pins_versions(&self) -> bool {
        true
    }

    fn service(&self) -> Service {
        let address = self.settings.endpoint.to_string();
        let has_one_namespace = address.trim_end_matches('/') == ENDPOINT;
        Service { address, has_one_namespace }
    }

    fn lists(&self) -> &dyn Lists {
        self
    }

    fn deletes(&self) -> &dyn Deletes {
        self
    }

    fn copies(&self) -> &dyn Copies {
        self
    }

    fn authorizer(&self) -> Arc<dyn Authorizer> {
        Arc::clone(&self.authorizer) as Arc<dyn Authorizer>
    }

    fn uploads(&self) -> &dyn Uploads {
        self
    }

    fn fields(&self) -> FieldKind {
        FieldKind::Google
    }
}
