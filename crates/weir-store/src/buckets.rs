//! The buckets that a run asks, each opened when it is first named, and who speaks for their requests.

use std::sync::Arc;

use parking_lot::RwLock;
use url::Url;
use weir_get::GetError;
use weir_get::http::authority::{Authorizer, Mend};
use weir_http::head::ResponseHead;

use crate::address::{StoreKind, StoreUrl};
use crate::error::StoreError;
use crate::settings::{Settings, StoreFlags};
use crate::store::{self, Store};

/// The environment, for as long as a run goes on.
pub type OwnEnvironment = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// All buckets of a run. As an [`Authorizer`] it speaks for requests to any of them.
pub struct Buckets {
    flags: StoreFlags,
    environment: OwnEnvironment,
    open: RwLock<Vec<Bucket>>,
}

struct Bucket {
    /// With an empty key.
    url: StoreUrl,
    store: Arc<dyn Store>,
    authorizer: Arc<dyn Authorizer>,
    /// Where its keys began in its addresses when it was opened; a bucket that turns out to be in another region
    /// has other addresses from then on.
    begins: Vec<String>,
}

/// Where the keys of a bucket begin in its addresses.
fn begins(store: &dyn Store) -> Vec<String> {
    // Behind the bucket in the path; as one segment, where a store has that for a key that no path can hold.
    let samples = [("x", "x"), ("./x", ".%2Fx")];
    let begin = |(key, written): (&str, &str)| {
        let address = without_query(store.object(key, None).ok()?);
        address.strip_suffix(written).map(str::to_owned)
    };
    samples.into_iter().filter_map(begin).collect()
}

fn without_query(mut url: Url) -> String {
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

impl Buckets {
    /// None yet; what the user and the environment say of all.
    pub fn new(flags: StoreFlags, environment: OwnEnvironment) -> Buckets {
        Buckets { flags, environment, open: RwLock::default() }
    }

    /// The bucket of `url`.
    pub fn store(&self, url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
        let bucket = url.with_key("");
        let known =
            |open: &[Bucket]| open.iter().find(|one| one.url == bucket).map(|one| Arc::clone(&one.store));
        if let Some(store) = known(&self.open.read()) {
            return Ok(store);
        }
        let mut open = self.open.write();
        if let Some(store) = known(&open) {
            return Ok(store);
        }
        let settings = Settings { flags: self.flags.clone(), environment: &*self.environment };
        let store = store::open(&bucket, &settings)?;
        let (authorizer, begins) = (store.authorizer(), begins(&*store));
        open.push(Bucket { url: bucket, authorizer, begins, store: Arc::clone(&store) });
        Ok(store)
    }

    /// The address of the object `url`.
    pub fn object(&self, url: &StoreUrl) -> Result<Url, StoreError> {
        self.store(url)?.object(&url.key, url.version.as_deref())
    }

    /// The object whose address `url` is, as its user names it.
    pub fn named(&self, url: &Url) -> Option<StoreUrl> {
        let open = self.open.read();
        if open.is_empty() {
            return None;
        }
        let address = without_query(url.clone());
        open.iter().find_map(|bucket| {
            let behind = |begins: &[String]| {
                let key = begins.iter().find_map(|begin| address.strip_prefix(begin.as_str()))?;
                percent_encoding::percent_decode_str(key).decode_utf8().ok().map(String::from)
            };
            let key = behind(&bucket.begins).or_else(|| behind(&begins(&*bucket.store)))?;
            let name = match bucket.url.kind {
                StoreKind::S3 => "versionId",
                StoreKind::Gcs => "generation",
                StoreKind::Azure => "versionid",
            };
            let version = url.query_pairs().find(|(own, _)| own == name).map(|(_, version)| version.into());
            Some(StoreUrl { version, ..bucket.url.with_key(key) })
        })
    }

    fn authorizer(&self, url: &Url) -> Option<Arc<dyn Authorizer>> {
        let open = self.open.read();
        open.iter().find(|bucket| bucket.authorizer.is_for(url)).map(|bucket| Arc::clone(&bucket.authorizer))
    }
}

impl Authorizer for Buckets {
    fn is_for(&self, url: &Url) -> bool {
        self.authorizer(url).is_some()
    }

    fn pins(&self, url: &Url) -> bool {
        self.authorizer(url).is_some_and(|one| one.pins(url))
    }

    fn fields(
        &self,
        method: &str,
        url: &Url,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, GetError> {
        self.authorizer(url).map_or_else(|| Ok(Vec::new()), |one| one.fields(method, url, given))
    }

    fn mends(&self, url: &Url, head: &ResponseHead, words: Option<&str>) -> Result<Mend, GetError> {
        self.authorizer(url).map_or(Ok(Mend::No), |one| one.mends(url, head, words))
    }

    fn explains(&self, url: &Url, head: &ResponseHead, words: Option<&str>) -> Option<String> {
        self.authorizer(url)?.explains(url, head, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: &str = "http://127.0.0.1:9000";

    fn buckets(endpoint: Option<&str>, environment: &'static [(&str, &str)]) -> Buckets {
        let flags = StoreFlags { endpoint: endpoint.map(str::to_owned), ..StoreFlags::default() };
        let value = |name: &str| environment.iter().find(|(own, _)| *own == name).map(|(_, value)| value);
        Buckets::new(flags, Box::new(move |name| value(name).map(|value| (*value).to_owned())))
    }

    #[test]
    fn an_address_leads_back_to_its_name() {
        let sas = &[("AZURE_STORAGE_SAS_TOKEN", "sv=2024-11-04&sp=r&sig=geheim%2B")][..];
        for (endpoint, environment, texts) in [
            (Some(ENDPOINT), &[][..], &["s3://b/a//x y%20?", "s3://b/k?versionId=3/L4", "s3://other/k"][..]),
            (None, &[], &["s3://b/a b", "s3://with.dots/k"]),
            (Some(ENDPOINT), &[], &["gs://b/a/ü ?#", "gs://b/k#17", "gs://b/a/../k", "gs://b/./k#17"]),
            (None, &[], &["gs://b/a b", "gs://b/a/../k"]),
            (None, sas, &["az://c@account/a/x y%20?", "az://c@account/k?versionId=2026-01-01T00:00:00Z"]),
        ] {
            let buckets = buckets(endpoint, environment);
            for text in texts {
                let url = StoreUrl::parse(text).unwrap().unwrap();
                let address = buckets.object(&url).unwrap();
                assert!(buckets.is_for(&address), "{address}");
                assert_eq!(buckets.named(&address), Some(url), "{address}");
            }
        }
    }

    #[test]
    fn other_addresses_have_no_name() {
        let buckets = buckets(Some(ENDPOINT), &[]);
        buckets.object(&StoreUrl::parse("s3://b/k").unwrap().unwrap()).unwrap();
        let elsewhere = Url::parse("http://127.0.0.1:9000/third/k").unwrap();
        assert!(!buckets.is_for(&elsewhere));
        assert_eq!(buckets.named(&elsewhere), None);
    }
}
