//! Azure Blob Storage: where a blob is, and who signs for it.
//! <https://learn.microsoft.com/rest/api/storageservices/blob-service-rest-api>

mod authorizer;
mod copies;
mod lists;
#[cfg(test)]
mod tests;
mod upload;

use std::net::Ipv4Addr;
use std::sync::Arc;

use url::{Host, Url};
use weir_get::http::authority::Authorizer;

pub use authorizer::AzureAuthorizer;

use crate::credentials::azure::AzureProvider;
use crate::error::{StoreError, shown};
use crate::key;
use crate::listing::{Copies, Deletes, Lists};
use crate::network::address;
use crate::store::{Service, Store, named_below};
use crate::upload::Uploads;
use crate::upload::fields::{FieldKind, TagRefusal};

/// How an account is asked.
#[derive(Clone)]
pub struct AzureSettings {
    /// Its name.
    pub account: String,
    /// Where its blobs are, with the account in the path if it is not in the host's name.
    pub endpoint: Url,
    /// Who speaks for requests; `None`: nobody (`--no-sign`).
    pub provider: Option<AzureProvider>,
    /// A signature that was made before, and stands in addresses (a query).
    pub sas: Option<String>,
    /// Fields for encryption with a key that comes with each request.
    pub encryption: Vec<(String, String)>,
}

impl AzureSettings {
    /// Where the blobs of `account` are: at `named`, or at Azure. Of an emulator, which goes by a number or
    /// is this host, the account stands in the path.
    pub fn endpoint_of(account: &str, named: Option<&str>) -> Result<Url, StoreError> {
        let is_account = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if account.is_empty() || !account.chars().all(is_account) {
            return Err(StoreError::Usage(format!("'{}' is no name of a storage account", shown(account))));
        }
        let Some(named) = named else {
            return address(&format!("https://{account}.blob.core.windows.net"), "the storage account");
        };
        let full = if named.contains("://") { named.to_owned() } else { format!("https://{named}") };
        let mut url = address(&full, "the endpoint")?;
        let is_number = match url.host() {
            Some(Host::Ipv4(_) | Host::Ipv6(_)) => true,
            Some(Host::Domain(name)) => name == "localhost" || name.parse::<Ipv4Addr>().is_ok(),
            None => false,
        };
        if is_number && url.path().trim_matches('/').is_empty() {
            url.set_path(account);
        }
        Ok(url)
    }
}

/// A container and who signs for it.
pub struct AzureStore {
    settings: AzureSettings,
    container: String,
    authorizer: Arc<AzureAuthorizer>,
    /// It refuses tags of other stores' objects.
    tag_refusal: TagRefusal,
}

impl AzureStore {
    /// This container.
    pub fn new(settings: AzureSettings, container: String) -> AzureStore {
        let authorizer = Arc::new(AzureAuthorizer::new(settings.clone(), container.clone()));
        AzureStore { settings, container, authorizer, tag_refusal: TagRefusal::default() }
    }

    /// The address of `key` with these parameters, and with the signature that the user has, if it is one
    /// that stands there. An empty key: the container's.
    fn at(&self, key: &str, query: &[(&str, &str)]) -> Result<Url, StoreError> {
        match key {
            "" => at(&self.settings, &self.container, query),
            key => at(&self.settings, &format!("{}/{}", self.container, key::in_path(key)?), query),
        }
    }

    /// `az://CONTAINER@ACCOUNT/KEY`.
    fn shown(&self, key: &str) -> String {
        format!("az://{}@{}/{}", self.container, self.settings.account, shown(key))
    }
}

fn at(settings: &AzureSettings, path: &str, query: &[(&str, &str)]) -> Result<Url, StoreError> {
    let base = settings.endpoint.as_str().trim_end_matches('/');
    let mut pairs: Vec<String> =
        query.iter().map(|(name, value)| format!("{name}={}", key::in_query(value))).collect();
    pairs.extend(settings.sas.clone());
    let mark = if pairs.is_empty() { "" } else { "?" };
    let text = format!("{base}/{path}{mark}{}", pairs.join("&"));
    Url::parse(&text).map_err(|error| StoreError::Usage(format!("cannot ask {base}/{path}: {error}")))
}

impl Store for AzureStore {
    fn object(&self, key: &str, version: Option<&str>) -> Result<Url, StoreError> {
        match version {
            Some(version) => self.at(key, &[("versionid", version)]),
            None => self.at(key, &[]),
        }
    }

    fn named(&self, url: &Url) -> Option<(String, Option<String>)> {
        let base = self.settings.endpoint.as_str().trim_end_matches('/');
        named_below(url, &format!("{base}/{}/", self.container), "versionid")
    }

    fn service(&self) -> Service {
        // An account has one owner.
        let address = format!("{} {}", self.settings.endpoint, self.settings.account);
        Service { address, has_one_namespace: true }
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
        FieldKind::Azure
    }
}
