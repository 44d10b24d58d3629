//! Credentials of a container: ECS, and EKS's pod identities.
//! <https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html>

use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;
use url::{Host, Url};

use super::{AwsProvider, Keys, expiry};
use crate::credentials::Renewing;
use crate::credentials::files::{self, read_json};
use crate::environment::Environment;
use crate::error::StoreError;
use crate::network::{Asker, Question, address, no_credentials};

/// Where ECS has its service, within the network of the task.
const ECS: &str = "http://169.254.170.2";

/// A host's or a container's credentials.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Given {
    pub(super) code: Option<String>,
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    token: Option<String>,
    expiration: Option<String>,
    role_arn: Option<String>,
}

impl Given {
    /// As keys, with whose they are.
    pub(super) fn keys(self) -> Result<(Keys, String), String> {
        let who = self.role_arn.unwrap_or_default();
        let (Some(key_id), Some(secret_key)) = (self.access_key_id, self.secret_access_key) else {
            return Err("the answer has none in it".to_owned());
        };
        let expires = self.expiration.as_deref().map(expiry).transpose()?;
        Ok((Keys { key_id, secret_key, token: self.token, expires }, who))
    }
}

enum Token {
    None,
    /// Read each time: it is renewed there.
    File(std::path::PathBuf),
    Text(String),
}

/// Those that the environment names.
pub(super) fn provider(
    environment: Environment<'_>,
    asker: Arc<Asker>,
) -> Result<Option<AwsProvider>, StoreError> {
    let one = |name: &str| environment(name).filter(|text| !text.is_empty());
    let relative = one("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let full = one("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    let (url, origin) = match (relative, full) {
        (Some(path), _) => {
            let by = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
            let mark = if path.starts_with('/') { "" } else { "/" };
            (address(&format!("{ECS}{mark}{path}"), by)?, by)
        }
        (None, Some(text)) => {
            let by = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
            let url = address(&text, by)?;
            if !is_allowed(&url) {
                return Err(StoreError::Usage(format!(
                    "cannot use {by}: {} is neither this host nor a container's service; only https goes there",
                    url.host_str().unwrap_or_default()
                )));
            }
            (url, by)
        }
        (None, None) => return Ok(None),
    };
    let token_file = files::named(environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    let token = match (token_file, one("AWS_CONTAINER_AUTHORIZATION_TOKEN")) {
        (Some(path), _) => Token::File(path),
        (None, Some(text)) => Token::Text(text),
        (None, None) => Token::None,
    };
    let origin = format!("the container ({origin})");
    Ok(Some(Arc::new(Renewing::new(move || {
        let cannot = |cause: String| StoreError::Credentials(no_credentials(&origin, cause, ""));
        let token = match &token {
            Token::None => None,
            Token::File(path) => Some(files::text(path)?),
            Token::Text(text) => Some(text.clone()),
        };
        let mut question = Question::get(url.clone()).with("accept", "application/json");
        question.is_metadata = url.scheme() == "http";
        if let Some(token) = token {
            let token = token.trim();
            if !token.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
                return Err(cannot("its token has letters that no field can hold".to_owned()));
            }
            question = question.with("authorization", token);
        }
        let body = asker.body(&question, &origin, "")?;
        let given: Given = read_json(&body).map_err(|why| cannot(format!("of the answer, {why}")))?;
        let (keys, who) = given.keys().map_err(cannot)?;
        Ok(keys.found(&who, &origin))
    }))))
}

/// https, this host, or one of the addresses of such services: credentials over plain http are for no other.
fn is_allowed(url: &Url) -> bool {
    let services: [IpAddr; 3] =
        [[169, 254, 170, 2].into(), [169, 254, 170, 23].into(), [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23].into()];
    let is_ours = |address: IpAddr| address.is_loopback() || services.contains(&address);
    url.scheme() == "https"
        || match url.host() {
            Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
            Some(Host::Ipv4(address)) => is_ours(address.into()),
            Some(Host::Ipv6(address)) => is_ours(address.into()),
            None => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_over_plain_http_from_here_alone() {
        let allowed = |text| is_allowed(&Url::parse(text).unwrap());
        for text in [
            "http://127.1.2.3/x",
            "http://localhost/",
            "http://[::1]/",
            "http://[fd00:ec2::23]/",
            "https://h/",
        ] {
            assert!(allowed(text), "{text}");
        }
        for text in ["http://h/", "http://169.254.169.254/", "http://10.0.0.1/", "http://localhost.example/"]
        {
            assert!(!allowed(text), "{text}");
        }
    }
}
