//! A service account: it signs its tokens itself (RFC 7523 without a request, as Google takes them), so that
//! nobody has to be asked.
//! <https://google.aip.dev/auth/4111>

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::json;

use super::{GoogleProvider, SCOPE};
use crate::credentials::bearer::Bearer;
use crate::credentials::{Found, Renewing, Temporary};
use crate::error::StoreError;
use crate::network::no_credentials;

/// How long a token holds: Google takes none that holds longer.
const LIFE: Duration = Duration::from_secs(3600);

/// Its file.
#[derive(Deserialize)]
pub struct Account {
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
    /// Where it was made.
    pub project_id: Option<String>,
    /// Who pays for its requests.
    pub quota_project_id: Option<String>,
}

impl Account {
    /// Who signs with its key.
    pub fn provider(self, origin: String) -> Result<GoogleProvider, StoreError> {
        let key = key(&self.private_key).ok_or_else(|| {
            let cause = "its private_key is no RSA key in PKCS #8 (PEM)";
            StoreError::Credentials(no_credentials(&origin, cause, "make a new key of the account"))
        })?;
        Ok(Arc::new(Renewing::new(move || self.token(&key, &origin, SystemTime::now()))))
    }

    fn token(
        &self,
        key: &RsaKeyPair,
        origin: &str,
        now: SystemTime,
    ) -> Result<Temporary<Bearer>, StoreError> {
        let cannot = || StoreError::Credentials(no_credentials(origin, "its key cannot sign", ""));
        let seconds = now.duration_since(UNIX_EPOCH).map_err(|_| cannot())?.as_secs();
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": self.private_key_id });
        let claims = json!({
            "iss": self.client_email, "sub": self.client_email, "scope": SCOPE,
            "iat": seconds, "exp": seconds + LIFE.as_secs(),
        });
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(header), part(claims));
        let mut signature = vec![0; key.public_modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| cannot())?;
        let token = format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature));
        let credential = Bearer::new(&token).ok_or_else(cannot)?;
        let found = Found { credential, identity: self.client_email.clone(), origin: origin.to_owned() };
        Ok(Temporary { found, expires: now.checked_add(LIFE) })
    }
}

/// RFC 7468.
fn key(pem: &str) -> Option<RsaKeyPair> {
    let (_, rest) = pem.split_once("-----BEGIN PRIVATE KEY-----")?;
    let (text, _) = rest.split_once("-----END PRIVATE KEY-----")?;
    let text: String = text.split_whitespace().collect();
    RsaKeyPair::from_pkcs8(&STANDARD.decode(text).ok()?).ok()
}
