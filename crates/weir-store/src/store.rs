//! A store as weir sees it, whichever it is.

use std::sync::Arc;

use url::Url;
use weir_get::http::authority::Authorizer;

use crate::address::{StoreKind, StoreUrl};
use crate::azure::AzureStore;
use crate::error::StoreError;
use crate::gcs::GcsStore;
use crate::listing::{Copies, Deletes, Lists};
use crate::s3::{S3Bucket, S3Store};
use crate::settings::Settings;
use crate::upload::Uploads;

/// A bucket of a store.
pub trait Store: Send + Sync {
    /// The address of `key`, of this version of it, for a GET, a HEAD or a PUT.
    fn object(&self, key: &str, version: Option<&str>) -> Result<Url, StoreError>;

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
}

/// The bucket that `url` names, by what the user and the environment say.
pub fn open(url: &StoreUrl, settings: &Settings) -> Result<Arc<dyn Store>, StoreError> {
    match url.kind {
        StoreKind::S3 => {
            let bucket = S3Bucket { settings: settings.s3()?, bucket: url.bucket.clone() };
            Ok(Arc::new(S3Store::new(bucket)))
        }
        StoreKind::Gcs => Ok(Arc::new(GcsStore::new(settings.gcs()?, url.bucket.clone()))),
        StoreKind::Azure => {
            let settings = settings.azure(url.account.as_deref())?;
            Ok(Arc::new(AzureStore::new(settings, url.bucket.clone())))
        }
    }
}
