//! Credentials of the host: the metadata of EC2, in its second version (a token first), and in its first
//! where that is all there is.
//! <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html>

use std::sync::Arc;

use object_store::aws::AwsCredential;
use url::Url;
use weir_get::GetError;

use super::container::Given;
use crate::credentials::Temporary;
use crate::credentials::files::read_json;
use crate::error::StoreError;
use crate::network::{Asker, Question, no_credentials};

/// Its usual address.
pub const IPV4: &str = "http://169.254.169.254";

/// The same, of hosts without the other.
pub const IPV6: &str = "http://[fd00:ec2::254]";

/// How long a token is to hold, seconds; as in Amazon's tools.
const TOKEN_SECONDS: &str = "21600";

/// The metadata.
pub struct Metadata {
    /// The way there.
    pub asker: Arc<Asker>,
    /// Where.
    pub url: Url,
    /// `AWS_EC2_METADATA_DISABLED`.
    pub is_off: bool,
    /// `AWS_EC2_METADATA_V1_DISABLED`.
    pub only_with_token: bool,
    /// What named nobody before this was asked.
    pub looked: Vec<String>,
}

impl Metadata {
    /// Asks for them.
    pub fn fetch(&self) -> Result<Temporary<AwsCredential>, StoreError> {
        let origin = "the metadata of this host";
        if self.is_off {
            return Err(self.nobody("it is off by AWS_EC2_METADATA_DISABLED"));
        }
        let token = self.token()?;
        let with = |path: &str| -> Result<Question<'static>, StoreError> {
            let question = Question::get(self.at(path)?).of_metadata();
            Ok(match &token {
                Some(token) => question.with("x-aws-ec2-metadata-token", token),
                None => question,
            })
        };
        let folder = "latest/meta-data/iam/security-credentials/";
        let reply = self.asker.ask(&with(folder)?).map_err(|error| self.silent(error))?;
        if token.is_none() && reply.head.status == 401 {
            return Err(self.nobody("it wants a token, and gave none when it was asked for one"));
        }
        let role = String::from_utf8_lossy(&reply.body).lines().next().unwrap_or_default().trim().to_owned();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "+=,.@_-".contains(c);
        if reply.head.status != 200 || role.is_empty() || !role.chars().all(is_name) {
            return Err(self.nobody("it has no role"));
        }
        let body = self.asker.body(&with(&format!("{folder}{role}"))?, origin, "")?;
        let cannot = |cause: String| StoreError::Credentials(no_credentials(origin, cause, ""));
        let given: Given = read_json(&body).map_err(|why| cannot(format!("of the answer, {why}")))?;
        if let Some(code) = given.code.as_deref().filter(|code| *code != "Success") {
            return Err(cannot(format!("it says {}", crate::error::shown(code))));
        }
        let (keys, _) = given.keys().map_err(cannot)?;
        Ok(keys.found(&format!("role {role}"), origin))
    }

    /// What has to be shown with each request; `None`: this service knows no tokens.
    fn token(&self) -> Result<Option<String>, StoreError> {
        let question = Question::get(self.at("latest/api/token")?).of_metadata().once();
        let question = Question { method: "PUT", ..question };
        let question = question.with("x-aws-ec2-metadata-token-ttl-seconds", TOKEN_SECONDS);
        let reply = match self.asker.ask(&question) {
            Ok(reply) => reply,
            // The answer has a hop limit, usually 1, and a container is one hop further away.
            Err(StoreError::Http(GetError::Stalled { .. })) if !self.only_with_token => return Ok(None),
            Err(error) => return Err(self.silent(error)),
        };
        let token = String::from_utf8_lossy(&reply.body).trim().to_owned();
        match reply.head.status {
            200 if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Some(token)),
            403..=405 if !self.only_with_token => Ok(None),
            status => Err(self.nobody(&format!("it answered a request for a token with {status}"))),
        }
    }

    fn at(&self, path: &str) -> Result<Url, StoreError> {
        let text = format!("{}/{path}", self.url.as_str().trim_end_matches('/'));
        Url::parse(&text).map_err(|error| StoreError::Usage(format!("cannot ask {text}: {error}")))
    }

    fn silent(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Http(GetError::Interrupted) => error,
            error => self.nobody(&error.to_string()),
        }
    }

    fn nobody(&self, why: &str) -> StoreError {
        let metadata = format!("the metadata of this host ({why})");
        StoreError::Credentials(match self.looked.as_slice() {
            [] => no_credentials("the metadata of this host", why, ""),
            looked => format!(
                "no credentials: looked at {} and {metadata}; --no-sign asks without",
                looked.join(", ")
            ),
        })
    }
}
