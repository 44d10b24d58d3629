//! What the user and the environment say of stores: where they are, whose requests they are.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use weir_codec::digest::Algorithm;

use crate::address::{StoreKind, StoreUrl};
use crate::azure::{AzureSettings, AzureStore};
use crate::credentials::aws::{Aws, ProfileFlag};
use crate::credentials::azure::{Azure, account_of};
use crate::credentials::google::Google;
use crate::environment::{End, Environment};
use crate::error::StoreError;
use crate::gcs::{self, GcsSettings, GcsStore};
use crate::network::{Network, endpoint_of};
use crate::s3::{self, S3Bucket, S3Settings, S3Store};
use crate::store::Store;
use crate::upload::Bounds;

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
    /// `--sign`: whoever gives credentials is asked where a store refuses a link.
    pub sign: bool,
    /// `--path-style` (true), `--virtual-host` (false).
    pub path_style: Option<bool>,
    /// `--request-payer`.
    pub request_payer: bool,
    /// The key of `--sse-c-key`, 32 bytes.
    pub encryption_key: Option<Vec<u8>>,
    /// The way to whoever gives credentials.
    pub network: Network,
    /// Which end of a copy it is, where the two are told apart.
    pub end: Option<End>,
    /// What of it was said of that end alone.
    pub own: Own,
}

/// What was said of one end of a copy alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Own {
    /// The endpoint.
    pub endpoint: bool,
    /// The profile.
    pub profile: bool,
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

/// What a store of this kind takes as parts of one upload that several hosts fill. `None`: none is shared
/// there. Azure has no uploads, but blocks that wait for a list, and drops them with whatever else gets the
/// name.
pub fn shared_bounds(kind: StoreKind) -> Option<Bounds> {
    match kind {
        StoreKind::S3 | StoreKind::Gcs => Some(s3::BOUNDS),
        StoreKind::Azure => None,
    }
}

impl Settings<'_> {
    /// The bucket that `url` names.
    pub fn open(&self, url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
        let Some(end) = self.flags.end else { return self.open_as_said(url) };
        let environment = |name: &str| end.value(self.environment, name);
        let of_end = Settings { flags: self.flags.clone(), environment: &environment };
        of_end.open_as_said(url)
    }

    fn open_as_said(&self, url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
        match url.kind {
            StoreKind::S3 => {
                let bucket = S3Bucket { settings: self.s3()?, bucket: url.bucket.clone() };
                Ok(Arc::new(S3Store::new(bucket)))
            }
            StoreKind::Gcs => Ok(Arc::new(GcsStore::new(self.gcs()?, url.bucket.clone()))),
            StoreKind::Azure => {
                let settings = self.azure(url.account.as_deref())?;
                Ok(Arc::new(AzureStore::new(settings, url.bucket.clone())))
            }
        }
    }

    /// How a bucket of S3 is asked.
    pub fn s3(&self) -> Result<S3Settings, StoreError> {
        let flags = &self.flags;
        let of = flags.end.filter(|_| flags.own.profile);
        let profile = flags.profile.as_deref().map(|name| ProfileFlag { name, of });
        let aws = Aws::read(profile, flags.end, self.environment)?;
        if let Some(endpoint) = flags.endpoint.as_deref().filter(|_| !flags.own.endpoint) {
            aws.agrees_on(endpoint)?;
        }
        let endpoint = flags.endpoint.clone().or_else(|| aws.endpoint("s3"));
        let endpoint = endpoint.map(|text| endpoint_of(&text)).transpose()?;
        let provider = match flags.no_sign {
            true => None,
            false => Some(aws.provider(&flags.network)?),
        };
        let of_profile = aws.path_style();
        Ok(S3Settings {
            region: flags.region.clone().or_else(|| aws.region()),
            endpoint,
            host: aws.s3_host(),
            path_style: flags.path_style.or(of_profile.filter(|is_path| *is_path)),
            // A profile is for all endpoints and buckets: it asks for this only where it can be.
            prefers_host: of_profile == Some(false),
            provider,
            request_payer: flags.request_payer,
            encryption: self
                .encryption("x-amz-server-side-encryption-customer-", ("key-md5", Algorithm::MD5)),
        })
    }

    fn encryption(&self, prefix: &str, digest: (&str, Algorithm)) -> Vec<(String, String)> {
        let key = self.flags.encryption_key.as_deref();
        key.map_or_else(Vec::new, |key| encryption(key, prefix, digest))
    }

    /// How a bucket of Google's is asked.
    pub fn gcs(&self) -> Result<GcsSettings, StoreError> {
        let flags = &self.flags;
        let one = |name: &str| (self.environment)(name).filter(|text| !text.is_empty());
        // `HOST:PORT`, as Google's libraries read it, is plain HTTP; nobody is asked for a token by it.
        let emulator = one("STORAGE_EMULATOR_HOST");
        let emulator =
            emulator.map(|text| if text.contains("://") { text } else { format!("http://{text}") });
        let emulator = emulator.map(|text| gcs::endpoint_of(&text)).transpose()?;
        // As gcloud is told of another service, and that nobody speaks for its requests.
        let overridden = one("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE");
        let named = flags.endpoint.as_deref().map(gcs::endpoint_of).transpose()?;
        let named = named.or_else(|| emulator.clone());
        let endpoint = match named {
            Some(named) => named,
            None => gcs::endpoint_of(overridden.as_deref().unwrap_or(gcs::ENDPOINT))?,
        };
        let is_emulator = emulator.is_some_and(|emulator| emulator.origin() == endpoint.origin());
        let is_off = one("CLOUDSDK_AUTH_DISABLE_CREDENTIALS");
        let is_off = is_off.is_some_and(|text| text.eq_ignore_ascii_case("true") || text == "1");
        let google = match flags.no_sign || is_emulator || is_off {
            true => None,
            false => Some(Google::find(&flags.network, self.environment)?),
        };
        let quota = google.as_ref().and_then(|google| google.quota_project.clone());
        let project = google.as_ref().and_then(|google| google.project.clone());
        let project =
            project.or_else(|| (self.environment)("GOOGLE_CLOUD_PROJECT")).or_else(|| quota.clone());
        let payer = match flags.request_payer {
            false => None,
            true => Some(quota.or_else(|| project.clone()).ok_or_else(|| {
                StoreError::Usage(
                    "--request-payer: which project pays? set GOOGLE_CLOUD_QUOTA_PROJECT".to_owned(),
                )
            })?),
        };
        Ok(GcsSettings {
            endpoint,
            provider: google.map(|google| google.provider),
            payer,
            project,
            encryption: self.encryption("x-goog-encryption-", ("key-sha256", Algorithm::SHA256)),
        })
    }

    /// How a container of Azure's is asked; `account`: what its address names.
    pub fn azure(&self, account: Option<&str>) -> Result<AzureSettings, StoreError> {
        let flags = &self.flags;
        let azure = Azure::read(self.environment)?;
        let of_endpoint = || flags.endpoint.clone().or_else(|| azure.any_endpoint());
        let of_endpoint = || of_endpoint().and_then(|text| account_of(&text));
        let account = account.map(str::to_owned).or_else(|| azure.account()).or_else(of_endpoint);
        let account = account.ok_or_else(|| {
            StoreError::Usage(
                "which storage account? name it as in az://CONTAINER@ACCOUNT/KEY, or set AZURE_STORAGE_ACCOUNT"
                    .to_owned(),
            )
        })?;
        let named = flags.endpoint.clone().or_else(|| azure.endpoint(&account));
        let endpoint = AzureSettings::endpoint_of(&account, named.as_deref())?;
        let provider = match flags.no_sign {
            true => None,
            false => Some(azure.provider(&account, &flags.network)?),
        };
        let encryption = self.encryption("x-ms-encryption-", ("key-sha256", Algorithm::SHA256));
        let sas = provider.as_ref().and_then(|_| azure.sas(&account));
        Ok(AzureSettings { account, endpoint, provider, sas, encryption })
    }
}

/// The fields of a request for an object that is encrypted with `key` (SSE-C, CSEK, CPK), behind `prefix`;
/// stores differ in the digest that they want of the key.
fn encryption(key: &[u8], prefix: &str, (name, digest): (&str, Algorithm)) -> Vec<(String, String)> {
    let field = |name: &str, value: String| (format!("{prefix}{name}"), value);
    vec![
        field("algorithm", "AES256".to_owned()),
        field("key", STANDARD.encode(key)),
        field(name, STANDARD.encode(digest.of(key))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IP address takes no bucket in front, and a certificate covers none with a dot.
    #[test]
    fn a_profile_puts_a_bucket_into_the_host_where_it_can_be() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        let config = "[default]\ns3 =\n  addressing_style = virtual\n";
        std::fs::write(home.path().join(".aws/config"), config).unwrap();
        let environment = |name: &str| (name == "HOME").then(|| home.path().display().to_string());
        let at = |endpoint: Option<&str>, path_style, bucket: &str| {
            let endpoint = endpoint.map(str::to_owned);
            let flags = StoreFlags { endpoint, path_style, no_sign: true, ..StoreFlags::default() };
            let settings = Settings { flags, environment: &environment }.s3().unwrap();
            S3Bucket { settings, bucket: bucket.to_owned() }.object("k", None).unwrap().to_string()
        };
        for (endpoint, path_style, bucket, address) in [
            (None, None, "b", "https://b.s3.us-east-1.amazonaws.com/k"),
            (None, None, "b.c", "https://s3.us-east-1.amazonaws.com/b.c/k"),
            (Some("https://s3.example.net"), None, "b", "https://b.s3.example.net/k"),
            (Some("https://s3.example.net"), None, "b.c", "https://s3.example.net/b.c/k"),
            (Some("https://s3.example.net"), Some(false), "b.c", "https://b.c.s3.example.net/k"),
            (Some("https://s3.example.net"), Some(true), "b", "https://s3.example.net/b/k"),
            (Some("http://127.0.0.1:9000"), None, "b", "http://127.0.0.1:9000/b/k"),
            (Some("http://[::1]:9000"), None, "b", "http://[::1]:9000/b/k"),
        ] {
            assert_eq!(at(endpoint, path_style, bucket), address, "{endpoint:?} {path_style:?} {bucket}");
        }
    }
}
