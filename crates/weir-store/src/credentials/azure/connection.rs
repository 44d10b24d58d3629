//! Connection strings: `DefaultEndpointsProtocol=https;AccountName=x;AccountKey=y;EndpointSuffix=z`.
//! <https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string>

use url::{Host, Url};

use crate::error::StoreError;

/// Of the emulator (Azurite), as its documentation has it; a secret of nobody's.
const EMULATOR: (&str, &str, &str) = (
    "devstoreaccount1",
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    "http://127.0.0.1:10000/devstoreaccount1",
);

/// The account whose blobs are at this endpoint: the first part of the host's name, or of the path where an
/// emulator has several at one host.
pub fn account_of(endpoint: &str) -> Option<String> {
    let full = if endpoint.contains("://") { endpoint.to_owned() } else { format!("https://{endpoint}") };
    let url = Url::parse(&full).ok()?;
    let of_path = url.path_segments()?.find(|part| !part.is_empty()).map(str::to_owned);
    of_path.or_else(|| match url.host()? {
        Host::Domain(name) => Some(name.split_once('.')?.0.to_owned()),
        _ => None,
    })
}

/// What it says. Without `Debug`: it holds secrets.
#[derive(Default)]
pub struct Connection {
    /// The account.
    pub account: Option<String>,
    /// Its key.
    pub key: Option<String>,
    /// A signature in place of a key.
    pub sas: Option<String>,
    /// Where its blobs are.
    pub endpoint: Option<String>,
}

impl Connection {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Connection, StoreError> {
        let mut connection = Connection::default();
        let (mut protocol, mut suffix) = ("https".to_owned(), "core.windows.net".to_owned());
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                StoreError::Usage(
                    "cannot read AZURE_STORAGE_CONNECTION_STRING: expected NAME=VALUE with ';' between"
                        .to_owned(),
                )
            })?;
            let value = value.to_owned();
            match name.to_ascii_lowercase().as_str() {
                "accountname" => connection.account = Some(value),
                "accountkey" => connection.key = Some(value),
                "sharedaccesssignature" => connection.sas = Some(value),
                "blobendpoint" => connection.endpoint = Some(value),
                "defaultendpointsprotocol" => protocol = value,
                "endpointsuffix" => suffix = value,
                "usedevelopmentstorage" if value.eq_ignore_ascii_case("true") => {
                    let (account, key, endpoint) = EMULATOR;
                    connection.account = Some(account.to_owned());
                    connection.key = Some(key.to_owned());
                    connection.endpoint = Some(endpoint.to_owned());
                }
                // Queues, tables and what else an account has.
                _ => {}
            }
        }
        if connection.account.is_none() {
            connection.account = connection.endpoint.as_deref().and_then(account_of);
        }
        if connection.endpoint.is_none() {
            connection.endpoint =
                connection.account.as_ref().map(|account| format!("{protocol}://{account}.blob.{suffix}"));
        }
        Ok(connection)
    }
}
