//! An identity of somebody else's (workload identity federation): its token is traded for one of Google's,
//! and that, where the file says so, for one of a service account.
//! <https://google.aip.dev/auth/4117>

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::{GoogleProvider, SCOPE};
use crate::credentials::bearer::{Bearer, of_answer};
use crate::credentials::files::{self, read_json};
use crate::credentials::{Found, Renewing, Temporary};
use crate::environment::Environment;
use crate::error::StoreError;
use crate::network::{Asker, Question, address, no_credentials};
use weir_units::instant;

/// What of Google's own a token is for before the account is known: Google's name for everything.
const ALL: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Its file.
#[derive(Deserialize)]
pub struct External {
    audience: String,
    subject_token_type: String,
    token_url: String,
    credential_source: Source,
    service_account_impersonation_url: Option<String>,
    /// Who pays for its requests.
    pub quota_project_id: Option<String>,
}

/// Where its own token is.
#[derive(Deserialize)]
struct Source {
    file: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    format: Option<Format>,
}

#[derive(Deserialize)]
struct Format {
    r#type: String,
    subject_token_field_name: Option<String>,
}

enum SubjectPlace {
    File(PathBuf),
    Url(Url),
}

impl External {
    /// Who trades its token.
    pub fn provider(
        self,
        asker: Arc<Asker>,
        origin: String,
        environment: Environment<'_>,
    ) -> Result<GoogleProvider, StoreError> {
        let place = match (&self.credential_source.file, &self.credential_source.url) {
            (Some(file), _) => SubjectPlace::File(files::path(file, environment)),
            (None, Some(url)) => {
                SubjectPlace::Url(address(url, &format!("the credential_source of {origin}"))?)
            }
            (None, None) => {
                return Err(StoreError::Usage(format!(
                    "{origin} takes its token from AWS or from a program, which weir does not; use a file or a URL"
                )));
            }
        };
        let tokens = address(&self.token_url, &format!("token_url of {origin}"))?;
        let account = self.service_account_impersonation_url.as_deref();
        let account = account.map(|text| address(text, &format!("the account of {origin}"))).transpose()?;
        Ok(Arc::new(Renewing::new(move || {
            let own = self.own_token(&asker, &place, &origin)?;
            let traded = self.traded(&asker, &tokens, &own, account.is_some(), &origin)?;
            match &account {
                Some(url) => impersonated(&asker, url, &[], &traded.found, &origin),
                None => Ok(traded),
            }
        })))
    }

    /// Read each time: it is renewed there.
    fn own_token(&self, asker: &Asker, place: &SubjectPlace, origin: &str) -> Result<String, StoreError> {
        let text = match place {
            SubjectPlace::File(path) => files::text(path)?,
            SubjectPlace::Url(url) => {
                let mut question = Question::get(url.clone());
                for (name, value) in &self.credential_source.headers {
                    question = question.with(&name.to_ascii_lowercase(), value);
                }
                String::from_utf8_lossy(&asker.body(&question, origin, "")?).into_owned()
            }
        };
        let format = self.credential_source.format.as_ref().filter(|format| format.r#type == "json");
        let Some(format) = format else { return Ok(text.trim().to_owned()) };
        let field = format.subject_token_field_name.as_deref().unwrap_or("access_token");
        let cannot = |cause: String| StoreError::Credentials(no_credentials(origin, cause, ""));
        let value: Value =
            read_json(text.as_bytes()).map_err(|why| cannot(format!("of its token, {why}")))?;
        let token = value.get(field).and_then(Value::as_str).map(str::to_owned);
        token.ok_or_else(|| cannot(format!("its token's file has no '{}'", crate::error::shown(field))))
    }

    /// RFC 8693.
    fn traded(
        &self,
        asker: &Asker,
        url: &Url,
        own: &str,
        is_for_account: bool,
        origin: &str,
    ) -> Result<Temporary<Bearer>, StoreError> {
        let mut question = Question::form(
            url.clone(),
            &[
                ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
                ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
                ("audience", &self.audience),
                ("scope", if is_for_account { ALL } else { SCOPE }),
                ("subject_token_type", &self.subject_token_type),
                ("subject_token", own),
            ],
        );
        question.secrets = vec![own.to_owned()];
        of_answer(&asker.body(&question, origin, "")?, &self.audience, origin)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Impersonated {
    access_token: String,
    expire_time: String,
}

/// A token of the service account that `url` names, for one of `source`.
pub fn impersonated(
    asker: &Asker,
    url: &Url,
    delegates: &[String],
    source: &Found<Bearer>,
    origin: &str,
) -> Result<Temporary<Bearer>, StoreError> {
    let cannot = |cause: String| StoreError::Credentials(no_credentials(origin, cause, ""));
    let question = Question {
        method: "POST",
        body: json!({ "scope": [SCOPE], "delegates": delegates }).to_string(),
        secrets: vec![source.credential.text().to_owned()],
        ..Question::get(url.clone())
    };
    let question = question
        .with("content-type", "application/json")
        .with("authorization", source.credential.authorization());
    let body = asker.body(&question, origin, &format!("asked as {}", source.identity))?;
    let answer: Impersonated = read_json(&body).map_err(|why| cannot(format!("of the answer, {why}")))?;
    let none = || cannot("the answer has a token that is none".to_owned());
    let credential = Bearer::new(&answer.access_token).ok_or_else(none)?;
    let expires: Option<SystemTime> = instant::parse(&answer.expire_time);
    // `.../serviceAccounts/NAME:generateAccessToken`.
    let name = url.path().rsplit('/').next().and_then(|last| last.split(':').next()).unwrap_or_default();
    let found = Found { credential, identity: name.to_owned(), origin: origin.to_owned() };
    Ok(Temporary { found, expires })
}
