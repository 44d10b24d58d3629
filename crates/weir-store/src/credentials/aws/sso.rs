//! Single sign-on: keys of a role for the login that `aws sso login` keeps in `~/.aws/sso/cache`.
//! <https://docs.aws.amazon.com/sdkref/latest/guide/feature-sso-credentials.html>

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::Mode;
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;
use weir_codec::digest::Algorithm;
use weir_codec::hex;
use weir_units::atomic_file;

use super::{AwsProvider, Files, Keys, domain};
use crate::credentials::ini::Section;
use crate::credentials::{Renewing, Temporary, files};
use crate::error::StoreError;
use crate::network::{Asker, Question, address, no_credentials};
use weir_units::instant;

/// A token is renewed so long before it runs out: what the requests with it take.
const AHEAD: Duration = Duration::from_secs(60);

/// What a profile says of a login.
pub struct Login {
    /// The name of the profile.
    name: String,
    /// What the login is kept under: the name of its session, or the address of its start page.
    kept_as: String,
    region: String,
    account: String,
    role: String,
    cache: PathBuf,
}

impl Login {
    /// By a profile; `None`: it names no login.
    pub fn of(name: &str, profile: &Section, files: &Files) -> Result<Option<Login>, StoreError> {
        let whose = format!("the profile '{name}'");
        let wants = |what: &str| StoreError::Usage(format!("{whose} signs on with sso, and has no {what}"));
        let (session, kept_as) = match (profile.get("sso_session"), profile.get("sso_start_url")) {
            (Some(session), _) => {
                let section = files.section("sso-session", session);
                let section = section.ok_or_else(|| wants(&format!("section [sso-session {session}]")))?;
                (section, session)
            }
            (None, Some(start)) => (profile.clone(), start),
            (None, None) => return Ok(None),
        };
        // A session alone is for other services (CodeCatalyst), as Amazon's tools read it.
        let (account, role) = match (profile.get("sso_account_id"), profile.get("sso_role_name")) {
            (None, None) => return Ok(None),
            (account, role) => {
                (account.ok_or_else(|| wants("sso_account_id"))?, role.ok_or_else(|| wants("sso_role_name"))?)
            }
        };
        let region = session.get("sso_region").ok_or_else(|| wants("sso_region"))?;
        if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(StoreError::Usage(format!("{whose} has an sso_region that is none")));
        }
        let key = hex::encode(&Algorithm::SHA1.of(kept_as.as_bytes()));
        let folder = files.folder.as_ref().ok_or_else(|| wants("HOME to keep its login in"))?;
        Ok(Some(Login {
            name: name.to_owned(),
            kept_as: kept_as.to_owned(),
            region: region.to_owned(),
            account: account.to_owned(),
            role: role.to_owned(),
            cache: folder.join("sso/cache").join(format!("{key}.json")),
        }))
    }

    /// Who asks for keys, at these addresses of the portal and of who renews logins if not at Amazon's.
    pub fn provider(
        self,
        asker: Arc<Asker>,
        [portal, renewer]: [Option<String>; 2],
    ) -> Result<AwsProvider, StoreError> {
        let usual = |name: &str| format!("https://{name}.{}.{}/", self.region, domain(&self.region));
        let portal = address(&portal.unwrap_or_else(|| usual("portal.sso")), "AWS_ENDPOINT_URL_SSO")?;
        let renewer = address(&renewer.unwrap_or_else(|| usual("oidc")), "AWS_ENDPOINT_URL_SSO_OIDC")?;
        Ok(Arc::new(Renewing::new(move || self.fetch(&asker, &portal, &renewer))))
    }

    fn origin(&self) -> String {
        format!("the login '{}' of the profile '{}'", self.kept_as, self.name)
    }

    fn way_out(&self) -> String {
        format!("log in with aws sso login --profile {}", self.name)
    }

    fn fetch(
        &self,
        asker: &Asker,
        portal: &Url,
        renewer: &Url,
    ) -> Result<Temporary<object_store::aws::AwsCredential>, StoreError> {
        let (origin, way_out) = (self.origin(), self.way_out());
        let token = self.token(asker, renewer)?;
        let mut url = joined(portal, "federation/credentials")?;
        url.query_pairs_mut().append_pair("role_name", &self.role).append_pair("account_id", &self.account);
        let question = Question::get(url).with("x-amz-sso_bearer_token", token);
        let body = asker.body(&question, &origin, &way_out)?;
        let cannot = |cause: String| StoreError::Credentials(no_credentials(&origin, cause, &way_out));
        let given: Answer = files::read_json(&body).map_err(|why| cannot(format!("of the answer, {why}")))?;
        let given = given.role_credentials;
        let keys = Keys {
            key_id: given.access_key_id,
            secret_key: given.secret_access_key,
            token: Some(given.session_token),
            expires: SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(given.expiration)),
        };
        Ok(keys.found(&format!("role {} of account {}", self.role, self.account), &origin))
    }

    /// The token of the login, renewed if it has run out and can be.
    fn token(&self, asker: &Asker, renewer: &Url) -> Result<String, StoreError> {
        let cannot =
            |cause: &str| StoreError::Credentials(no_credentials(&self.origin(), cause, &self.way_out()));
        let text = match files::text_if_any(&self.cache) {
            Ok(Some(text)) => text,
            Ok(None) => return Err(cannot("nobody has logged in")),
            Err(error) => return Err(files::cannot_read(&self.cache, weir_units::plain(&error))),
        };
        let kept: Map<String, Value> = files::json(&self.cache, &text)?;
        let one = |name: &str| kept.get(name).and_then(Value::as_str);
        let holds = |name: &str, ahead| {
            one(name).and_then(instant::parse).is_some_and(|until| SystemTime::now() + ahead < until)
        };
        let token = one("accessToken").ok_or_else(|| cannot("its cache has no token"))?;
        let is_field = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if holds("expiresAt", AHEAD) {
            return if is_field(token) { Ok(token.to_owned()) } else { Err(cannot("its token is none")) };
        }
        let parts = (one("clientId"), one("clientSecret"), one("refreshToken"));
        let (Some(id), Some(secret), Some(refresh)) = parts else { return Err(cannot("it has expired")) };
        if !holds("registrationExpiresAt", Duration::ZERO) {
            return Err(cannot("it has expired"));
        }
        let words = [("clientId", id), ("clientSecret", secret), ("refreshToken", refresh)];
        let words = words.into_iter().chain([("grantType", "refresh_token")]);
        let words: Map<String, Value> = words.map(|(name, text)| (name.to_owned(), text.into())).collect();
        let question = Question {
            method: "POST",
            body: Value::Object(words).to_string(),
            secrets: vec![secret.to_owned(), refresh.to_owned()],
            ..Question::get(joined(renewer, "token")?).with("content-type", "application/json")
        };
        let body = asker.body(&question, &self.origin(), &self.way_out())?;
        let newer: Newer = files::read_json(&body).map_err(|why| cannot(&format!("of the answer, {why}")))?;
        if !is_field(&newer.access_token) {
            return Err(cannot("its new token is none"));
        }
        self.keep(kept.clone(), &newer);
        Ok(newer.access_token)
    }

    /// For the next run, and for Amazon's tools: the old token that renews may hold no more.
    fn keep(&self, mut kept: Map<String, Value>, newer: &Newer) {
        let until = SystemTime::now() + Duration::from_secs(newer.expires_in);
        kept.insert("accessToken".to_owned(), newer.access_token.clone().into());
        kept.insert("expiresAt".to_owned(), instant::formatted(until).into());
        if let Some(token) = &newer.refresh_token {
            kept.insert("refreshToken".to_owned(), token.clone().into());
        }
        if let Err(error) = replace(&self.cache, Value::Object(kept).to_string().as_bytes()) {
            tracing::warn!("cannot write {}: {}", self.cache.display(), weir_units::plain(&error));
        }
    }
}

/// Readable to the user alone.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let folder = File::open(folder)?;
    let passing = format!(".{:016x}.json", fastrand::u64(..));
    let file = atomic_file::create_new(&folder, passing.as_str(), Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(file);
    file.write_all(bytes)?;
    atomic_file::replace(&folder, passing.as_str(), name)?;
    Ok(())
}

fn joined(base: &Url, path: &str) -> Result<Url, StoreError> {
    address(&format!("{}/{path}", base.as_str().trim_end_matches('/')), "the address of the sign-on service")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    role_credentials: Given,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    /// Milliseconds since 1970.
    expiration: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Newer {
    access_token: String,
    /// Seconds.
    expires_in: u64,
    refresh_token: Option<String>,
}
