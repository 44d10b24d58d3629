//! Roles that are assumed: with other credentials, or with a token of an identity provider.
//! <https://docs.aws.amazon.com/STS/latest/APIReference/>

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderValue, Method};
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpRequest, HttpRequestBody};
use quick_xml::de;
use serde::Deserialize;
use url::Url;
use weir_codec::digest::Algorithm;
use weir_get::http::call::Reply;

use super::{Keys, expiry};
use crate::credentials::ini::Section;
use crate::credentials::{Found, Provider, Temporary, files};
use crate::error::StoreError;
use crate::network::{Asker, Question, no_credentials, success};

/// The service that gives them.
pub struct Service {
    /// The way there.
    pub asker: Arc<Asker>,
    /// Its address.
    pub url: Url,
    /// What requests are signed for.
    pub region: String,
}

/// A role.
pub struct Role {
    arn: String,
    /// What its session is called in the owner's logs.
    pub session: String,
    external_id: Option<String>,
    seconds: Option<String>,
    origin: String,
}

impl Role {
    /// By a profile's words.
    pub fn of(profile: &Section, arn: &str, origin: String) -> Role {
        Role {
            arn: arn.to_owned(),
            session: profile.get("role_session_name").unwrap_or("weir").to_owned(),
            external_id: profile.get("external_id").map(str::to_owned),
            seconds: profile.get("duration_seconds").map(str::to_owned),
            origin,
        }
    }

    fn values<'a>(&'a self, action: &'a str) -> Vec<(&'a str, &'a str)> {
        let mut values = vec![
            ("Action", action),
            ("Version", "2011-06-15"),
            ("RoleArn", &self.arn),
            ("RoleSessionName", &self.session),
        ];
        values.extend(self.seconds.as_deref().map(|seconds| ("DurationSeconds", seconds)));
        values
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(alias = "AssumeRoleWithWebIdentityResult")]
    assume_role_result: Assumed,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Assumed {
    credentials: Session,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Session {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    expiration: String,
}

impl Service {
    /// With the credentials of `source`.
    pub(super) fn assume(
        &self,
        source: &dyn Provider<AwsCredential>,
        role: &Role,
    ) -> Result<Temporary<AwsCredential>, StoreError> {
        let mut values = role.values("AssumeRole");
        values.extend(role.external_id.as_deref().map(|id| ("ExternalId", id)));
        let who = source.current()?;
        let mut reply = self.asker.ask(&self.question(&values, Some(&who))?)?;
        // Their own may have run out since they were read.
        if reply.said.as_ref().is_some_and(|said| said.starts_with("ExpiredToken"))
            && let Some(newer) = source.renewed(&who)?
        {
            reply = self.asker.ask(&self.question(&values, Some(&newer))?)?;
        }
        self.read(reply, role, &format!("asked as {} of {}", who.identity, who.origin))
    }

    /// With the token in this file, which is read each time: it is renewed there.
    pub(super) fn with_web_identity(
        &self,
        path: &Path,
        role: &Role,
    ) -> Result<Temporary<AwsCredential>, StoreError> {
        let token = files::text(&PathBuf::from(path))?;
        let mut values = role.values("AssumeRoleWithWebIdentity");
        values.push(("WebIdentityToken", token.trim()));
        self.read(self.asker.ask(&self.question(&values, None)?)?, role, "")
    }

    fn question(
        &self,
        values: &[(&str, &str)],
        signer: Option<&Found<AwsCredential>>,
    ) -> Result<Question<'static>, StoreError> {
        let mut question = Question::form(self.url.clone(), values);
        // A role's name is no secret, and belongs into the error.
        question.secrets.retain(|secret| {
            values.iter().any(|(name, value)| *name == "WebIdentityToken" && value == secret)
        });
        let Some(signer) = signer else { return Ok(question) };
        let cannot =
            |why: String| StoreError::Usage(format!("cannot sign a request for {}: {why}", self.url));
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.as_str().parse().map_err(|error| cannot(format!("{error}")))?;
        for (name, value) in &question.fields {
            let name = http::HeaderName::from_bytes(name.as_bytes()).map_err(|e| cannot(e.to_string()))?;
            let value = HeaderValue::from_str(value).map_err(|error| cannot(error.to_string()))?;
            request.headers_mut().insert(name, value);
        }
        let digest = Algorithm::SHA256.of(question.body.as_bytes());
        AwsAuthorizer::new(&signer.credential, "sts", &self.region)
            .try_authorize(&mut request, Some(&digest))
            .map_err(|error| cannot(error.to_string()))?;
        let added = request.headers().iter().filter(|(name, _)| name.as_str() != "content-type");
        let added: Vec<(String, String)> = added
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
            .collect();
        question.fields.extend(added);
        Ok(question)
    }

    fn read(&self, reply: Reply, role: &Role, way_out: &str) -> Result<Temporary<AwsCredential>, StoreError> {
        let source = format!("{} (role {})", role.origin, role.arn);
        let body = success(reply, &self.url, &source, way_out)?;
        let cannot = |cause: String| StoreError::Credentials(no_credentials(&source, cause, ""));
        let text = String::from_utf8_lossy(&body);
        let answer: Answer =
            de::from_str(&text).map_err(|_| cannot("the answer of STS has none in it".to_owned()))?;
        let session = answer.assume_role_result.credentials;
        let keys = Keys {
            key_id: session.access_key_id,
            secret_key: session.secret_access_key,
            token: Some(session.session_token),
            expires: Some(expiry(&session.expiration).map_err(cannot)?),
        };
        Ok(keys.found(&role.arn, &role.origin))
    }
}
