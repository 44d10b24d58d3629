//! Flags of all commands that ask object stores.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use weir_store::settings::StoreFlags;

use crate::voice::Usage;

use super::headings::STORES;

/// The size of a key of AES-256, bytes.
const KEY: usize = 32;

/// How object stores are asked (s3://, gs://, az://).
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = STORES)]
pub struct StoreArgs {
    /// Ask this service instead of the cloud's own [default: AWS_ENDPOINT_URL, or the profile's].
    #[arg(long, alias = "endpoint-url", value_name = "URL")]
    pub endpoint: Option<String>,
    /// Sign for this region [default: AWS_REGION, the profile's, or what the store names].
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// Take the credentials of this profile of ~/.aws [default: AWS_PROFILE, or 'default'].
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Sign nothing: the bucket is public.
    #[arg(long, alias = "no-sign-request")]
    pub no_sign: bool,
    /// Where a store refuses an https link of its own, ask everybody for credentials, the host's metadata and
    /// az too [default: what variables and files name].
    #[arg(long, conflicts_with = "no_sign")]
    pub sign: bool,
    /// Put the bucket before the key, not into the host [default: at an --endpoint].
    #[arg(long, conflicts_with = "virtual_host")]
    pub path_style: bool,
    /// Put the bucket into the host, at an --endpoint too.
    #[arg(long)]
    pub virtual_host: bool,
    /// Pay for the transfer from a bucket whose owner does not.
    #[arg(long)]
    pub request_payer: bool,
    /// The objects are encrypted with the key in this file, 32 bytes (SSE-C).
    #[arg(long, value_name = "FILE")]
    pub sse_c_key: Option<PathBuf>,
}

/// The way to stores, of commands that ask nobody else.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = STORES)]
pub struct StoreNetworkArgs {
    /// Reach stores by this proxy (http, https, socks5, socks5h, socks4, socks4a); an empty value means no
    /// proxy [default: https_proxy, http_proxy].
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,
    /// Reach these hosts without the proxy; '*' means all [default: no_proxy].
    #[arg(long, value_name = "HOST,...")]
    pub noproxy: Option<String>,
    /// Trust only the authorities in this PEM file for stores [default: SSL_CERT_FILE, AWS_CA_BUNDLE, the
    /// system's].
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
}

impl StoreArgs {
    /// What they say.
    pub fn flags(&self) -> anyhow::Result<StoreFlags> {
        Ok(StoreFlags {
            endpoint: self.endpoint.clone(),
            region: self.region.clone(),
            profile: self.profile.clone(),
            no_sign: self.no_sign,
            sign: self.sign,
            path_style: match (self.path_style, self.virtual_host) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            },
            request_payer: self.request_payer,
            encryption_key: self.sse_c_key.as_ref().map(|path| read_key("--sse-c-key", path)).transpose()?,
            ..StoreFlags::default()
        })
    }
}

/// The key that `flag` names.
pub(super) fn read_key(flag: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    let cannot = || format!("cannot read {flag} {}", path.display());
    let key = std::fs::read(path).with_context(cannot)?;
    match key.len() {
        KEY => Ok(key),
        other => {
            Err(Usage(format!("{}: {other} bytes, expected {KEY}; openssl rand {KEY} makes a key", cannot()))
                .into())
        }
    }
}
