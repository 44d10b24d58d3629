//! What the user and the environment say of stores: where they are, whose requests they are.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use url::Url;
use weir_codec::digest::Algorithm;

use crate::credentials::aws::Aws;
use crate::error::StoreError;
use crate::network::Network;
use crate::s3::S3Settings;

/// The environment: a variable's value, if it is set.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The user's words on stores.
#[derive(Clone, Default)]
pub struct StoreFlags {
    /// `--endpoint`.
    pub endpoint: Option<String>,
    /// `--region`.
    pub region: Option<String>,
    /// `--profile`.
    pub profile: Option<String>,
    /// `--no-sign`.
    pub no_sign: bool,
    /// `--path-style` (true), `--virtual-host` (false).
    pub path_style: Option<bool>,
    /// `--request-payer`.
    pub request_payer: bool,
    /// The key of `--sse-c-key`, 32 bytes.
    pub encryption_key: Option<Vec<u8>>,
    /// The way to whoever gives credentials.
    pub network: Network,
}

impl fmt::Debug for StoreFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is for no log.
        f.debug_struct("StoreFlags")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("profile", &self.profile)
            .finish_non_exhaustive()
    }
}

/// The user's words, and what the environment says where they are silent.
#[derive(Clone)]
pub struct Settings<'a> {
    /// The user's.
    pub flags: StoreFlags,
    /// The environment's.
    pub environment: Environment<'a>,
}

impl Settings<'_> {
    /// How a bucket of S3 is asked.
    pub fn s3(&self) -> Result<S3Settings, StoreError> {
        let flags = &self.flags;
        let aws = Aws::read(flags.profile.as_deref(), self.environment)?;
        let endpoint = flags.endpoint.clone().or_else(|| aws.endpoint("s3"));
        let endpoint = endpoint.map(|text| endpoint_of(&text)).transpose()?;
        let provider = match flags.no_sign {
            true => None,
            false => Some(aws.provider(&flags.network)?),
        };
        Ok(S3Settings {
            region: flags.region.clone().or_else(|| aws.region()),
            endpoint,
            path_style: flags.path_style,
            provider,
            request_payer: flags.request_payer,
            encryption: flags.encryption_key.as_deref().map_or_else(Vec::new, encryption),
        })
    }
}

/// The fields of a request for an object that is encrypted with `key` (SSE-C).
fn encryption(key: &[u8]) -> Vec<(String, String)> {
    let field = |name: &str, value: String| (format!("x-amz-server-side-encryption-customer-{name}"), value);
    vec![
        field("algorithm", "AES256".to_owned()),
        field("key", STANDARD.encode(key)),
        field("key-md5", STANDARD.encode(Algorithm::MD5.of(key))),
    ]
}

fn endpoint_of(text: &str) -> Result<Url, StoreError> {
    let full = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url = Url::parse(&full).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| {
        StoreError::Usage(format!(
            "cannot use the endpoint '{text}': expected a URL, as in https://HOST:PORT"
        ))
    })
}
