//! Tokens of OAuth 2.0 (RFC 6750), and how services answer with them (RFC 6749 section 5.1).

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer};

use super::files::read_json;
use super::{Found, Temporary};
use crate::error::StoreError;
use crate::network::no_credentials;

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer(String);

impl Bearer {
    /// `None`: it has letters that no field can hold.
    pub fn new(token: &str) -> Option<Bearer> {
        let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then(|| Bearer(token.to_owned()))
    }

    /// The value of `Authorization`.
    pub fn authorization(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// As it stands.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(..)")
    }
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    /// Azure's metadata write a number as a text.
    #[serde(default, deserialize_with = "number")]
    expires_in: Option<u64>,
    /// Seconds since 1970; an app service sends this instead.
    #[serde(default, deserialize_with = "number")]
    expires_on: Option<u64>,
}

fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    Ok(value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok())))
}

/// The token of an answer.
pub fn of_answer(body: &[u8], identity: &str, origin: &str) -> Result<Temporary<Bearer>, StoreError> {
    let cannot = |cause: String| StoreError::Credentials(no_credentials(origin, cause, ""));
    let answer: Answer = read_json(body).map_err(|why| cannot(format!("of the answer, {why}")))?;
    let credential = Bearer::new(&answer.access_token)
        .ok_or_else(|| cannot("the answer has a token that is none".to_owned()))?;
    let found = Found { credential, identity: identity.to_owned(), origin: origin.to_owned() };
    let expires = match (answer.expires_in, answer.expires_on) {
        (Some(life), _) => SystemTime::now().checked_add(Duration::from_secs(life)),
        (None, Some(at)) => SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at)),
        (None, None) => None,
    };
    Ok(Temporary { found, expires })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_runs_out_when_the_answer_says_so() {
        let expires = |members: &str| {
            let body = format!("{{\"access_token\":\"t\",{members}}}");
            of_answer(body.as_bytes(), "", "").unwrap().expires
        };
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(4_070_908_800));
        assert_eq!(expires("\"expires_on\":\"4070908800\""), at);
        assert_eq!(expires("\"expires_on\":4070908800"), at);
        assert_eq!(expires("\"expires_on\":\"soon\""), None);
        let now = SystemTime::now();
        assert!(expires("\"expires_in\":\"3600\",\"expires_on\":\"1\"").is_some_and(|until| until > now));
    }
}
