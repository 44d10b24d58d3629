//! Azure's credentials, from where its own tools take them:
//!
//! 1. for the account itself: `AZURE_STORAGE_CONNECTION_STRING`, `AZURE_STORAGE_KEY`,
//!    `AZURE_STORAGE_SAS_TOKEN`;
//! 2. somebody of a directory: a client's secret, a workload's token, the identity that the host gives;
//! 3. whoever has logged in with `az login`.

mod connection;
mod directory;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use object_store::azure::{AzureAccessKey, AzureCredential};

pub use connection::{Connection, account_of};

use super::bearer::Bearer;
use super::{Fixed, Found, Provider, Renewing};
use crate::environment::Environment;
use crate::error::StoreError;
use crate::network::{Asker, Network};

/// What speaks for a request.
pub enum AzureSigner {
    /// The key of the account.
    Key(AzureCredential),
    /// A signature that was made before, a query.
    Sas(String),
    /// A token of somebody.
    Token(Bearer),
}

impl PartialEq for AzureSigner {
    fn eq(&self, other: &AzureSigner) -> bool {
        match (self, other) {
            (AzureSigner::Key(one), AzureSigner::Key(other)) => one == other,
            (AzureSigner::Sas(one), AzureSigner::Sas(other)) => one == other,
            (AzureSigner::Token(one), AzureSigner::Token(other)) => one == other,
            _ => false,
        }
    }
}

impl fmt::Debug for AzureSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AzureSigner::Key(_) => "Key(..)",
            AzureSigner::Sas(_) => "Sas(..)",
            AzureSigner::Token(_) => "Token(..)",
        })
    }
}

/// Who speaks for requests.
pub type AzureProvider = Arc<dyn Provider<AzureSigner>>;

/// What the environment says of an account.
pub struct Azure<'a> {
    environment: Environment<'a>,
    connection: Option<Connection>,
}

impl<'a> Azure<'a> {
    /// Reads it.
    pub fn read(environment: Environment<'a>) -> Result<Azure<'a>, StoreError> {
        let text = environment("AZURE_STORAGE_CONNECTION_STRING").filter(|text| !text.is_empty());
        let connection = text.map(|text| Connection::parse(&text)).transpose()?;
        Ok(Azure { environment, connection })
    }

    fn one(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| (self.environment)(name).filter(|text| !text.is_empty()))
    }

    /// The account that is meant where an address names none.
    pub fn account(&self) -> Option<String> {
        let of_connection = self.connection.as_ref().and_then(|connection| connection.account.clone());
        of_connection.or_else(|| self.one(&["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"]))
    }

    /// Where `account` has its blobs, if not at its usual place.
    pub fn endpoint(&self, account: &str) -> Option<String> {
        let connection = self.connection.as_ref().filter(|one| one.account.as_deref() == Some(account));
        let of_connection = connection.and_then(|connection| connection.endpoint.clone());
        of_connection.or_else(|| self.any_endpoint())
    }

    /// Where blobs are, whosever they are.
    pub fn any_endpoint(&self) -> Option<String> {
        self.one(&[
            "AZURE_STORAGE_BLOB_ENDPOINT",
            "AZURE_STORAGE_ENDPOINT",
            // As az has it.
            "AZURE_STORAGE_SERVICE_ENDPOINT",
        ])
    }

    /// The signature for `account` that the environment has, if it is one that stands in addresses.
    pub fn sas(&self, account: &str) -> Option<String> {
        match self.of_account(account) {
            Ok(Some(Found { credential: AzureSigner::Sas(sas), .. })) => Some(sas),
            _ => None,
        }
    }

    /// Who speaks for requests to `account`; whether there is anybody is known when it is asked.
    pub fn provider(&self, account: &str, network: &Network) -> Result<AzureProvider, StoreError> {
        if let Some(found) = self.of_account(account)? {
            return Ok(Arc::new(Fixed::new(found)));
        }
        let asker = Arc::new(Asker::new(network, self.environment)?);
        let directory = directory::Directory::find(asker, self.environment)?;
        Ok(Arc::new(Renewing::new(move || directory.token())))
    }

    /// Keys and signatures, which are of one account.
    fn of_account(&self, account: &str) -> Result<Option<Found<AzureSigner>>, StoreError> {
        let found = |credential, what: &str, origin: &str| {
            let identity = format!("{what} of the account {account}");
            Some(Found { credential, identity, origin: origin.to_owned() })
        };
        if let Some(connection) =
            self.connection.as_ref().filter(|one| one.account.as_deref().is_none_or(|own| own == account))
        {
            let origin = "the environment (AZURE_STORAGE_CONNECTION_STRING)";
            if let Some(key) = &connection.key {
                return Ok(found(
                    key_of(key, "AccountKey of AZURE_STORAGE_CONNECTION_STRING")?,
                    "the key",
                    origin,
                ));
            }
            if let Some(sas) = &connection.sas {
                let what = "SharedAccessSignature of AZURE_STORAGE_CONNECTION_STRING";
                return Ok(found(sas_of(sas, what)?, "a signature", origin));
            }
        }
        let own = self.one(&["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"]);
        if own.is_some_and(|own| own != account) {
            return Ok(None);
        }
        for name in ["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY"] {
            if let Some(key) = self.one(&[name]) {
                return Ok(found(key_of(&key, name)?, "the key", &format!("the environment ({name})")));
            }
        }
        for name in ["AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"] {
            if let Some(sas) = self.one(&[name]) {
                return Ok(found(sas_of(&sas, name)?, "a signature", &format!("the environment ({name})")));
            }
        }
        Ok(None)
    }
}

fn key_of(text: &str, name: &str) -> Result<AzureSigner, StoreError> {
    let key = AzureAccessKey::try_new(text.trim());
    let key = key.map_err(|_| StoreError::Usage(format!("cannot use {name}: it is no key (base64)")))?;
    Ok(AzureSigner::Key(AzureCredential::AccessKey(key)))
}

/// `sv=...&sig=...`, also with a question mark before it, as the portal shows it.
fn sas_of(text: &str, name: &str) -> Result<AzureSigner, StoreError> {
    let query = text.trim().trim_start_matches('?');
    let has_signature = url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "sig");
    let is_query = query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    match has_signature && is_query {
        true => Ok(AzureSigner::Sas(query.to_owned())),
        false => Err(StoreError::Usage(format!(
            "cannot use {name}: it is no shared access signature; expected sv=...&sig=..."
        ))),
    }
}
