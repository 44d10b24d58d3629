//! Google's credentials, from where its own libraries take them ("application default credentials"):
//!
//! 1. a token in `GOOGLE_OAUTH_ACCESS_TOKEN` or `CLOUDSDK_AUTH_ACCESS_TOKEN`;
//! 2. the file that `GOOGLE_APPLICATION_CREDENTIALS` names;
//! 3. the file of `gcloud auth application-default login`;
//! 4. the metadata of the host.

mod account;
mod external;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use url::Url;
use weir_get::GetError;

use super::bearer::{Bearer, of_answer};
use super::{Fixed, Found, Provider, Renewing, Temporary, files};
use crate::environment::Environment;
use crate::error::StoreError;
use crate::network::{Asker, Network, Question, address, no_credentials};

/// Who speaks for requests.
pub type GoogleProvider = Arc<dyn Provider<Bearer>>;

/// What requests may do: read, write and delete objects.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

/// Who gives tokens for refresh tokens.
const TOKENS: &str = "https://oauth2.googleapis.com/token";

/// Where a host has its metadata; by number, so that no name server is waited for where there are none.
const METADATA: &str = "169.254.169.254";

/// Who speaks, and what else their file says.
pub struct Google {
    /// Who speaks for requests.
    pub provider: GoogleProvider,
    /// Who pays for requests that name nobody.
    pub quota_project: Option<String>,
    /// Whose buckets are listed.
    pub project: Option<String>,
}

/// A file of credentials.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Kept {
    AuthorizedUser(User),
    ServiceAccount(account::Account),
    ExternalAccount(Box<external::External>),
    ImpersonatedServiceAccount(Box<Impersonated>),
}

/// A person.
#[derive(Deserialize)]
struct User {
    client_id: String,
    client_secret: String,
    refresh_token: String,
    #[serde(default)]
    account: String,
    quota_project_id: Option<String>,
    token_uri: Option<String>,
}

/// Somebody who speaks for a service account.
#[derive(Deserialize)]
struct Impersonated {
    service_account_impersonation_url: String,
    source_credentials: Kept,
    #[serde(default)]
    delegates: Vec<String>,
    quota_project_id: Option<String>,
}

impl Google {
    /// The first that is named; whether there is anybody is known when it is asked.
    pub fn find(network: &Network, environment: Environment<'_>) -> Result<Google, StoreError> {
        let one = |name: &str| environment(name).filter(|text| !text.is_empty());
        let project = one("GOOGLE_CLOUD_PROJECT").or_else(|| one("CLOUDSDK_CORE_PROJECT"));
        let quota_project =
            one("GOOGLE_CLOUD_QUOTA_PROJECT").or_else(|| one("CLOUDSDK_BILLING_QUOTA_PROJECT"));
        let with = |provider, quota: Option<String>, own: Option<String>| Google {
            provider,
            quota_project: quota_project.clone().or(quota),
            project: project.clone().or(own),
        };
        for name in ["GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"] {
            if let Some(token) = one(name) {
                let none = || StoreError::Usage(format!("{name} is no token"));
                let credential = Bearer::new(token.trim()).ok_or_else(none)?;
                let (identity, origin) =
                    ("the owner of the token".to_owned(), format!("the environment ({name})"));
                return Ok(with(Arc::new(Fixed::new(Found { credential, identity, origin })), None, None));
            }
        }
        let asker = Arc::new(Asker::new(network, environment)?);
        let named = files::named(environment, "GOOGLE_APPLICATION_CREDENTIALS");
        let usual = usual_file(environment);
        let text = match (&named, &usual) {
            (Some(path), _) => Some((path.clone(), files::text(path)?)),
            (None, Some(path)) => files::text_if_any(path)
                .map_err(|error| files::cannot_read(path, weir_units::plain(&error)))?
                .map(|text| (path.clone(), text)),
            (None, None) => None,
        };
        if let Some((path, text)) = text {
            let kept: Kept = files::json(&path, &text).map_err(|error| unknown_type(&path, &text, error))?;
            let (quota, own) = (kept.quota_project(), kept.project());
            let origin = files::shown(&path, environment);
            return Ok(with(kept.provider(&asker, &origin, environment)?, quota, own));
        }
        let shown = usual
            .map_or("~/.config/gcloud (HOME is not set)".to_owned(), |path| files::shown(&path, environment));
        let is_off = one("NO_GCE_CHECK").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let host = one("GCE_METADATA_HOST").or_else(|| one("GCE_METADATA_IP"));
        let host = host.unwrap_or_else(|| METADATA.to_owned());
        let url = address(
            &format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token"),
            "GCE_METADATA_HOST",
        )?;
        let fetch = move || of_metadata(&asker, &url, is_off, &shown);
        Ok(with(Arc::new(Renewing::new(fetch)), None, None))
    }
}

/// A file of another type than those known says so, rather than what it lacks.
fn unknown_type(path: &Path, text: &str, error: StoreError) -> StoreError {
    #[derive(Deserialize)]
    struct Typed {
        r#type: String,
    }
    const KNOWN: [&str; 4] =
        ["authorized_user", "service_account", "external_account", "impersonated_service_account"];
    match serde_json::from_str::<Typed>(text) {
        Ok(typed) if !KNOWN.contains(&typed.r#type.as_str()) => files::cannot_read(
            path,
            format!(
                "its type is '{}': expected one of {}",
                crate::error::shown(&typed.r#type),
                KNOWN.join(", ")
            ),
        ),
        _ => error,
    }
}

fn usual_file(environment: Environment<'_>) -> Option<PathBuf> {
    let named = files::named(environment, "CLOUDSDK_CONFIG");
    let folder = named.or_else(|| files::home(environment).map(|home| home.join(".config/gcloud")));
    folder.map(|folder| folder.join("application_default_credentials.json"))
}

impl Kept {
    fn quota_project(&self) -> Option<String> {
        match self {
            Kept::AuthorizedUser(user) => user.quota_project_id.clone(),
            Kept::ServiceAccount(account) => account.quota_project_id.clone(),
            Kept::ExternalAccount(external) => external.quota_project_id.clone(),
            Kept::ImpersonatedServiceAccount(impersonated) => impersonated.quota_project_id.clone(),
        }
    }

    fn project(&self) -> Option<String> {
        match self {
            Kept::ServiceAccount(account) => account.project_id.clone(),
            _ => None,
        }
    }

    fn provider(
        self,
        asker: &Arc<Asker>,
        origin: &str,
        environment: Environment<'_>,
    ) -> Result<GoogleProvider, StoreError> {
        let (asker, origin) = (Arc::clone(asker), origin.to_owned());
        match self {
            Kept::AuthorizedUser(user) => {
                let url =
                    address(user.token_uri.as_deref().unwrap_or(TOKENS), &format!("token_uri of {origin}"))?;
                Ok(Arc::new(Renewing::new(move || user.token(&asker, &url, &origin))))
            }
            Kept::ServiceAccount(account) => account.provider(origin),
            Kept::ExternalAccount(external) => external.provider(asker, origin, environment),
            Kept::ImpersonatedServiceAccount(kept) => {
                let source = kept.source_credentials.provider(&asker, &origin, environment)?;
                let url = kept.service_account_impersonation_url;
                let url = address(&url, &format!("service_account_impersonation_url of {origin}"))?;
                let delegates = kept.delegates;
                Ok(Arc::new(Renewing::new(move || {
                    external::impersonated(&asker, &url, &delegates, &*source.current()?, &origin)
                })))
            }
        }
    }
}

impl User {
    fn token(&self, asker: &Asker, url: &Url, origin: &str) -> Result<Temporary<Bearer>, StoreError> {
        let question = Question::form(
            url.clone(),
            &[
                ("grant_type", "refresh_token"),
                ("client_id", &self.client_id),
                ("client_secret", &self.client_secret),
                ("refresh_token", &self.refresh_token),
            ],
        );
        let way_out = "log in with gcloud auth application-default login";
        let who = match self.account.as_str() {
            "" => "the user who has logged in",
            account => account,
        };
        of_answer(&asker.body(&question, origin, way_out)?, who, origin)
    }
}

fn of_metadata(asker: &Asker, url: &Url, is_off: bool, file: &str) -> Result<Temporary<Bearer>, StoreError> {
    let nobody = |why: &str| {
        StoreError::Credentials(format!(
            "no credentials: looked at the environment (GOOGLE_APPLICATION_CREDENTIALS), {file}, and the metadata \
             of this host ({why}); gcloud auth application-default login makes some, --no-sign asks without"
        ))
    };
    if is_off {
        return Err(nobody("it is off by NO_GCE_CHECK"));
    }
    let question = Question::get(url.clone()).with("metadata-flavor", "Google").of_metadata().once();
    let reply = asker.ask(&question).map_err(|error| match error {
        StoreError::Http(GetError::Interrupted) => error,
        error => nobody(&error.to_string()),
    })?;
    match reply.head.status {
        200 => of_answer(&reply.body, "the service account of this host", "the metadata of this host"),
        404 => Err(nobody("it has no service account")),
        _ => Err(StoreError::Credentials(no_credentials("the metadata of this host", reply.error(url), ""))),
    }
}
