//! Amazon S3 and what speaks as it does: where an object is, and who signs for it.

mod authorizer;
mod copies;
mod deletes;
mod dialect;
mod heads;
mod lists;
mod sums;
mod upload;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use object_store::aws::AwsCredential;
use parking_lot::Mutex;
use url::Url;
use weir_get::http::authority::Authorizer;

pub use authorizer::S3Authorizer;
pub use dialect::{Dialect, generation_of};
pub use lists::read_page;
pub(crate) use upload::BOUNDS;

use crate::credentials::Provider;
use crate::credentials::aws::{AMAZON, DEFAULT_REGION, domain};
use crate::error::StoreError;
use crate::key;
use crate::listing::{Copies, Deletes, Lists};
use crate::store::{Service, Store, named_below};
use crate::upload::Uploads;
use crate::upload::fields::{FieldKind, TagRefusal};

/// What Amazon's S3 hosts begin with, before the region.
pub const HOST: &str = "s3";

/// How a bucket of S3 is asked.
#[derive(Clone)]
pub struct S3Settings {
    /// `None`: [`DEFAULT_REGION`], and what the store names.
    pub region: Option<String>,
    /// Another service than Amazon's: its address, with a path before the bucket if it has one.
    pub endpoint: Option<Url>,
    /// What Amazon's hosts begin with: [`HOST`], or another kind (`s3-fips`).
    pub host: &'static str,
    /// The bucket stands in the host (`Some(false)`) or before the key (`Some(true)`); `None`: the latter at
    /// an endpoint of its own, whose name seldom has one for each bucket, and where the host cannot have it.
    pub path_style: Option<bool>,
    /// Without `path_style`, an endpoint of its own has it in the host as well, where that can be.
    pub prefers_host: bool,
    /// Who signs; `None`: nobody (`--no-sign`).
    pub provider: Option<Arc<dyn Provider<AwsCredential>>>,
    /// The asker pays for the transfer (`--request-payer`).
    pub request_payer: bool,
    /// Fields for encryption at the store with a key that comes with each request (SSE-C).
    pub encryption: Vec<(String, String)>,
}

/// A bucket, and where its objects are.
#[derive(Clone)]
pub struct S3Bucket {
    /// How it is asked.
    pub settings: S3Settings,
    /// Its name; empty: the service, which lists buckets.
    pub bucket: String,
}

impl S3Bucket {
    /// The region that requests are signed for at first.
    pub fn region(&self) -> &str {
        self.settings.region.as_deref().unwrap_or(DEFAULT_REGION)
    }

    /// The address of the bucket, with a slash at its end, in `region`.
    pub fn url(&self, region: &str) -> Result<Url, StoreError> {
        let endpoint = match &self.settings.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => address(&format!("https://{}.{region}.{}/", self.settings.host, domain(region)))?,
        };
        // An IP address takes no bucket in front, and no certificate covers one with a dot.
        let fits = endpoint.domain().is_some() && !self.bucket.contains('.');
        let in_host = fits && (self.settings.endpoint.is_none() || self.settings.prefers_host);
        let path_style = self.settings.path_style.unwrap_or(!in_host);
        let host = endpoint.host_str().unwrap_or_default();
        let mut url = endpoint.clone();
        let base = endpoint.path().trim_end_matches('/');
        if self.bucket.is_empty() {
            url.set_path(&format!("{base}/"));
        } else if path_style {
            url.set_path(&format!("{base}/{}/", self.bucket));
        } else {
            let host = format!("{}.{host}", self.bucket);
            let cannot = |_| {
                StoreError::Usage(format!(
                    "cannot ask {host}: it is no host; --path-style leaves the bucket out of it"
                ))
            };
            url.set_host(Some(&host)).map_err(cannot)?;
            url.set_path(&format!("{base}/"));
        }
        Ok(url)
    }

    /// The address of `key`, of this version of it.
    pub fn object(&self, key: &str, version: Option<&str>) -> Result<Url, StoreError> {
        let mut text = format!("{}{}", self.url(self.region())?, key::in_path(key)?);
        if let Some(version) = version {
            text.push_str(&format!("?versionId={}", key::in_query(version)));
        }
        address(&text)
    }

    /// The address of the bucket with these parameters, in their order; those without a value as `name=`.
    pub fn with_query(&self, query: &[(&str, &str)]) -> Result<Url, StoreError> {
        self.query_of("", query)
    }

    /// The address of `key` with these parameters.
    pub fn query_of(&self, key: &str, query: &[(&str, &str)]) -> Result<Url, StoreError> {
        let pairs: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", key::in_query(value))).collect();
        address(&format!("{}{}?{}", self.url(self.region())?, key::in_path(key)?, pairs.join("&")))
    }
}

/// A bucket and who signs for it.
pub struct S3Store {
    bucket: S3Bucket,
    dialect: Dialect,
    authorizer: Arc<S3Authorizer>,
    /// It knows only version 1 of lists.
    lists_v1: AtomicBool,
    /// It refuses to encode keys in lists.
    lists_plain: AtomicBool,
    /// It encodes keys in lists where it is asked to; `None`: not known yet.
    encodes: Mutex<Option<bool>>,
    /// It refuses tags of other stores' objects.
    tag_refusal: TagRefusal,
}

impl S3Store {
    /// This bucket.
    pub fn new(bucket: S3Bucket) -> S3Store {
        S3Store::speaking(bucket, Dialect::Amazon)
    }

    /// The same of somebody who calls some fields otherwise.
    pub fn speaking(bucket: S3Bucket, dialect: Dialect) -> S3Store {
        let authorizer = Arc::new(S3Authorizer::new(bucket.clone()));
        let (lists_v1, lists_plain) = (AtomicBool::new(false), AtomicBool::new(false));
        let (encodes, tag_refusal) = (Mutex::default(), TagRefusal::default());
        S3Store { bucket, dialect, authorizer, lists_v1, lists_plain, encodes, tag_refusal }
    }

    /// Where its objects are.
    pub fn bucket(&self) -> &S3Bucket {
        &self.bucket
    }

    /// The same in the region that the store has named meanwhile.
    fn here(&self) -> S3Bucket {
        let settings = S3Settings { region: Some(self.authorizer.region()), ..self.bucket.settings.clone() };
        S3Bucket { settings, ..self.bucket.clone() }
    }

    /// `s3://BUCKET/`.
    fn shown(&self) -> String {
        format!("{}://{}/", self.dialect.scheme(), self.bucket.bucket)
    }
}

impl Store for S3Store {
    fn object(&self, key: &str, version: Option<&str>) -> Result<Url, StoreError> {
        self.here().object(key, version)
    }

    fn named(&self, url: &Url) -> Option<(String, Option<String>)> {
        named_below(url, self.object("", None).ok()?.as_str(), "versionId")
    }

    fn service(&self) -> Service {
        let amazon = |address: &str| Service { address: address.to_owned(), has_one_namespace: true };
        let endpoint = self.bucket.settings.endpoint.as_ref();
        let host = endpoint.and_then(Url::host_str).unwrap_or_default();
        match endpoint {
            None => amazon(domain(self.bucket.region())),
            Some(_) if host.ends_with(".amazonaws.com.cn") => amazon("amazonaws.com.cn"),
            Some(_) if host.ends_with(".amazonaws.com") => amazon(AMAZON),
            Some(endpoint) => Service { address: endpoint.to_string(), has_one_namespace: false },
        }
    }

    fn lists(&self) -> &dyn Lists {
        self
    }

    fn deletes(&self) -> &dyn Deletes {
        self
    }

    fn copies(&self) -> &dyn Copies {
        self
    }

    fn authorizer(&self) -> Arc<dyn Authorizer> {
        Arc::clone(&self.authorizer) as Arc<dyn Authorizer>
    }

    fn uploads(&self) -> &dyn Uploads {
        self
    }

    fn fields(&self) -> FieldKind {
        FieldKind::Amazon
    }
}

fn address(text: &str) -> Result<Url, StoreError> {
    Url::parse(text).map_err(|error| StoreError::Usage(format!("cannot ask {text}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(endpoint: Option<&str>, name: &str) -> S3Bucket {
        let settings = S3Settings {
            region: None,
            endpoint: endpoint.map(|text| Url::parse(text).unwrap()),
            host: HOST,
            path_style: None,
            prefers_host: false,
            provider: None,
            request_payer: false,
            encryption: Vec::new(),
        };
        S3Bucket { settings, bucket: name.to_owned() }
    }

    #[test]
    fn an_object_has_one_address() {
        let at = |endpoint, name, key| bucket(endpoint, name).object(key, None).unwrap().to_string();
        assert_eq!(at(None, "b", "a/x y"), "https://b.s3.us-east-1.amazonaws.com/a/x%20y");
        assert_eq!(at(None, "b.c", "k"), "https://s3.us-east-1.amazonaws.com/b.c/k");
        assert_eq!(at(Some("http://127.0.0.1:9000"), "b", "/a//b/"), "http://127.0.0.1:9000/b//a//b/");
        assert_eq!(
            at(Some("http://[::1]:9000/base/"), "b", "k%2F\n?#"),
            "http://[::1]:9000/base/b/k%252F%0A%3F%23"
        );
        let mut fips = bucket(None, "b");
        fips.settings.host = "s3-fips.dualstack";
        let url = |region| fips.url(region).unwrap().to_string();
        assert_eq!(url("us-gov-west-1"), "https://b.s3-fips.dualstack.us-gov-west-1.amazonaws.com/");
        assert_eq!(url("cn-north-1"), "https://b.s3-fips.dualstack.cn-north-1.amazonaws.com.cn/");
        assert!(bucket(None, "b").object("a/../b", None).is_err());
        assert!(bucket(None, "b").object("a/./b", None).is_err());
        assert!(bucket(None, "b").object(&"k".repeat(1025), None).is_err());
    }
}
