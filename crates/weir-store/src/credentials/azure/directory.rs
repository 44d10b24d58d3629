//! Tokens of Entra ID (Azure Active Directory): for a client with a secret, a workload with a token of its
//! cluster, the identity that a host or an app service gives, and whoever has logged in with `az`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use url::Url;
use weir_get::GetError;

use super::AzureSigner;
use crate::credentials::bearer::{Bearer, of_answer};
use crate::credentials::files::{self, read_json};
use crate::credentials::{Found, Temporary, process};
use crate::environment::Environment;
use crate::error::StoreError;
use crate::network::{Asker, Question, address, no_credentials};

/// What tokens are for.
const RESOURCE: &str = "https://storage.azure.com";

/// The same, as the second version of the service calls it.
const SCOPE: &str = "https://storage.azure.com/.default";

/// Who gives tokens, where nobody else is named.
const AUTHORITY: &str = "https://login.microsoftonline.com";

/// The identity of a host.
const METADATA: &str = "http://169.254.169.254/metadata/identity/oauth2/token";

/// Who is there to speak.
pub struct Directory {
    asker: Arc<Asker>,
    kind: Kind,
}

enum Kind {
    Secret(Client, String),
    /// Read each time: it is renewed there.
    Workload(Client, PathBuf),
    /// `IDENTITY_ENDPOINT` of an app service, with the value of its field.
    Service(Url, String),
    /// The host's metadata, then `az`.
    Host {
        url: Url,
        az: Option<PathBuf>,
    },
}

/// A client of a directory.
struct Client {
    id: String,
    tokens: Url,
}

fn one(environment: Environment<'_>, name: &str) -> Option<String> {
    environment(name).filter(|text| !text.is_empty())
}

impl Client {
    /// The client `id` of `tenant`.
    fn of(environment: Environment<'_>, id: String, tenant: &str) -> Result<Client, StoreError> {
        if !tenant.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte)) {
            return Err(StoreError::Usage("AZURE_TENANT_ID is no tenant".to_owned()));
        }
        let authority = one(environment, "AZURE_AUTHORITY_HOST").unwrap_or_else(|| AUTHORITY.to_owned());
        let tokens = format!("{}/{tenant}/oauth2/v2.0/token", authority.trim_end_matches('/'));
        Ok(Client { id, tokens: address(&tokens, "AZURE_AUTHORITY_HOST")? })
    }
}

impl Kind {
    /// The client that the environment names, if any. A secret without its client is an error: credentials
    /// found further on would be someone else's. A workload's token without a client is ignored: a cluster
    /// gives it to all of its pods.
    fn of_client(environment: Environment<'_>) -> Result<Option<Kind>, StoreError> {
        let (secret, token) = ("AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE");
        let named = |name: &str| one(environment, name);
        if let Some(value) = named(secret) {
            let needed = |name: &str| {
                let missing = || format!("{secret} is set and {name} is not; set both or neither");
                named(name).ok_or_else(|| StoreError::Usage(missing()))
            };
            let (id, tenant) = (needed("AZURE_CLIENT_ID")?, needed("AZURE_TENANT_ID")?);
            return Ok(Some(Kind::Secret(Client::of(environment, id, &tenant)?, value)));
        }
        if named("AZURE_CLIENT_CERTIFICATE_PATH").is_some() {
            return Err(StoreError::Usage(format!(
                "AZURE_CLIENT_CERTIFICATE_PATH is set, and weir does not sign by a certificate; unset it, and set \
                 {secret} or {token}, or log in with az login"
            )));
        }
        let (Some(path), Some(id), Some(tenant)) =
            (files::named(environment, token), named("AZURE_CLIENT_ID"), named("AZURE_TENANT_ID"))
        else {
            return Ok(None);
        };
        Ok(Some(Kind::Workload(Client::of(environment, id, &tenant)?, path)))
    }
}

impl Directory {
    /// By the environment.
    pub fn find(asker: Arc<Asker>, environment: Environment<'_>) -> Result<Directory, StoreError> {
        let one = |name: &str| one(environment, name);
        if let Some(kind) = Kind::of_client(environment)? {
            return Ok(Directory { asker, kind });
        }
        // By itself it names one of the host's identities.
        let client = one("AZURE_CLIENT_ID");
        let with_client = |mut url: Url, version: &str| {
            url.query_pairs_mut().append_pair("api-version", version).append_pair("resource", RESOURCE);
            if let Some(id) = &client {
                url.query_pairs_mut().append_pair("client_id", id);
            }
            url
        };
        if let (Some(url), Some(header)) = (one("IDENTITY_ENDPOINT"), one("IDENTITY_HEADER")) {
            let url = with_client(address(&url, "IDENTITY_ENDPOINT")?, "2019-08-01");
            return Ok(Directory { asker, kind: Kind::Service(url, header) });
        }
        let named = one("AZURE_POD_IDENTITY_AUTHORITY_HOST");
        let named =
            named.map(|host| format!("{}/metadata/identity/oauth2/token", host.trim_end_matches('/')));
        let url = address(named.as_deref().unwrap_or(METADATA), "AZURE_POD_IDENTITY_AUTHORITY_HOST")?;
        let folders = one("PATH").unwrap_or_default();
        let az = std::env::split_paths(&folders).map(|folder| folder.join("az")).find(|path| path.is_file());
        Ok(Directory { asker, kind: Kind::Host { url: with_client(url, "2018-02-01"), az } })
    }

    /// A token.
    pub fn token(&self) -> Result<Temporary<AzureSigner>, StoreError> {
        let token = match &self.kind {
            Kind::Secret(client, secret) => {
                let origin = "the environment (AZURE_CLIENT_SECRET)";
                self.of_client(client, origin, &[("client_secret", secret)])
            }
            Kind::Workload(client, path) => {
                let token = files::text(path)?;
                let assertion = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                let own = [("client_assertion_type", assertion), ("client_assertion", token.trim())];
                self.of_client(client, "the environment (AZURE_FEDERATED_TOKEN_FILE)", &own)
            }
            Kind::Service(url, header) => {
                let origin = "the app service (IDENTITY_ENDPOINT)";
                let mut question = Question::get(url.clone()).with("x-identity-header", header);
                question.is_metadata = url.scheme() == "http";
                of_answer(&self.asker.body(&question, origin, "")?, "the identity of the app service", origin)
            }
            Kind::Host { url, az } => self.of_host(url, az.as_ref()),
        }?;
        let Found { credential, identity, origin } = token.found;
        let found = Found { credential: AzureSigner::Token(credential), identity, origin };
        Ok(Temporary { found, expires: token.expires })
    }

    fn of_client(
        &self,
        client: &Client,
        origin: &str,
        own: &[(&str, &str)],
    ) -> Result<Temporary<Bearer>, StoreError> {
        let mut values =
            vec![("grant_type", "client_credentials"), ("client_id", client.id.as_str()), ("scope", SCOPE)];
        values.extend(own);
        let mut question = Question::form(client.tokens.clone(), &values);
        question.secrets = own.iter().map(|(_, value)| (*value).to_owned()).collect();
        let who = format!("the client {}", client.id);
        of_answer(&self.asker.body(&question, origin, "")?, &who, origin)
    }

    fn of_host(&self, url: &Url, az: Option<&PathBuf>) -> Result<Temporary<Bearer>, StoreError> {
        let origin = "the identity of this host";
        let question = Question::get(url.clone()).with("metadata", "true").of_metadata().once();
        let why = match self.asker.ask(&question) {
            Ok(reply) if reply.head.status == 200 => return of_answer(&reply.body, origin, origin),
            Ok(reply) => reply.error(url).to_string(),
            Err(StoreError::Http(GetError::Interrupted)) => return Err(GetError::Interrupted.into()),
            Err(error) => error.to_string(),
        };
        let Some(az) = az else {
            return Err(StoreError::Credentials(format!(
                "no credentials: looked at the environment (AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, \
                 AZURE_STORAGE_CONNECTION_STRING, AZURE_CLIENT_ID), {origin} ({why}), and az, which is not \
                 installed; --no-sign asks without"
            )));
        };
        self.of_az(az)
    }

    fn of_az(&self, az: &std::path::Path) -> Result<Temporary<Bearer>, StoreError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Printed {
            access_token: String,
            /// Seconds since 1970; `expiresOn` of older ones is in this host's zone, and not read.
            #[serde(rename = "expires_on")]
            expires: Option<u64>,
        }
        let origin = "az (az login)";
        let words = ["account", "get-access-token", "--output", "json", "--resource", RESOURCE];
        let words: Vec<String> =
            std::iter::once(az.display().to_string()).chain(words.map(str::to_owned)).collect();
        let bytes = process::output(&words, origin, process::LIMIT, self.asker.stop())?;
        let cannot = |cause: String| StoreError::Credentials(no_credentials(origin, cause, ""));
        let printed: Printed =
            read_json(&bytes).map_err(|why| cannot(format!("what it printed is of no use: {why}")))?;
        let none = || cannot("it printed a token that is none".to_owned());
        let credential = Bearer::new(&printed.access_token).ok_or_else(none)?;
        // Tokens of az hold five minutes at least (it keeps them, and renews them by then).
        let life = || SystemTime::now().checked_add(Duration::from_secs(300));
        let expires = printed
            .expires
            .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        let found =
            Found { credential, identity: "whoever has logged in".to_owned(), origin: origin.to_owned() };
        Ok(Temporary { found, expires: expires.or_else(life) })
    }
}
