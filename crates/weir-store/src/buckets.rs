//! The buckets that a run asks, each opened when it is first named, and who speaks for their requests.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use url::Url;
use weir_get::GetError;
use weir_get::http::authority::{Ask, Authorizer, KeptDigest, Mend};
use weir_get::object;
use weir_http::head::ResponseHead;

use crate::address::{StoreKind, StoreUrl};
use crate::error::StoreError;
use crate::links::StoreLink;
use crate::settings::{Settings, StoreFlags};
use crate::store::Store;

/// The environment, for as long as a run goes on.
pub type OwnEnvironment = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// All buckets of a run. As an [`Authorizer`] it speaks for requests to any of them.
pub struct Buckets {
    flags: StoreFlags,
    environment: OwnEnvironment,
    open: RwLock<Vec<Bucket>>,
    /// Links to these buckets (or their accounts) are asked for by nobody: there are no credentials.
    nobody: Mutex<Vec<StoreUrl>>,
}

/// Buckets for which it is known that there is nobody to ask, at most.
const MOST_NOBODY: usize = 1000;

/// What names credentials of Azure's.
const OF_AZURE: [&str; 7] = [
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_CLIENT_ID",
    "AZURE_STORAGE_ACCOUNT",
];

struct Bucket {
    /// Its objects are named by links of https.
    is_linked: bool,
    /// With an empty key.
    url: StoreUrl,
    store: Arc<dyn Store>,
    authorizer: Arc<dyn Authorizer>,
}

impl Buckets {
    /// None yet; what the user and the environment say of all.
    pub fn new(flags: StoreFlags, environment: OwnEnvironment) -> Buckets {
        Buckets { flags, environment, open: RwLock::default(), nobody: Mutex::default() }
    }

    /// The bucket of `url`.
    pub fn store(&self, url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
        let bucket = url.with_key("");
        let is_it = |one: &&Bucket| one.url == bucket && !one.is_linked;
        let known = |open: &[Bucket]| open.iter().find(is_it).map(|one| Arc::clone(&one.store));
        if let Some(store) = known(&self.open.read()) {
            return Ok(store);
        }
        let mut open = self.open.write();
        if let Some(store) = known(&open) {
            return Ok(store);
        }
        let settings = Settings { flags: self.flags.clone(), environment: &*self.environment };
        let store = settings.open(&bucket)?;
        open.push(Bucket {
            is_linked: false,
            url: bucket,
            authorizer: store.authorizer(),
            store: Arc::clone(&store),
        });
        Ok(store)
    }

    /// The address of the object `url`.
    pub fn object(&self, url: &StoreUrl) -> Result<Url, StoreError> {
        self.store(url)?.object(&url.key, url.version.as_deref())
    }

    /// The object whose address `url` is, as its user names it.
    pub fn named(&self, url: &Url) -> Option<StoreUrl> {
        self.open.read().iter().filter(|bucket| !bucket.is_linked).find_map(|bucket| {
            let (key, version) = bucket.store.named(url)?;
            Some(StoreUrl { version, ..bucket.url.with_key(key) })
        })
    }

    /// The store of a link, with credentials. A host's metadata and programs are asked for those only where
    /// the user wants it (`--sign`): whoever is refused an object by chance waits for nobody.
    fn linked(&self, link: &StoreLink) -> Result<Arc<dyn Store>, String> {
        let wants = self.flags.sign;
        let named = |name: &&str| (self.environment)(name).is_some_and(|text| !text.is_empty());
        if link.url.kind == StoreKind::Azure && !wants && !OF_AZURE.iter().any(named) {
            return Err(
                "no variable names any (AZURE_STORAGE_KEY and the like); --sign asks everybody".to_owned()
            );
        }
        let environment = |name: &str| match name {
            "AWS_EC2_METADATA_DISABLED" | "NO_GCE_CHECK" if !wants => Some("true".to_owned()),
            name => (self.environment)(name),
        };
        let flags = StoreFlags {
            endpoint: link.endpoint.clone(),
            path_style: link.path_style,
            region: self.flags.region.clone().or_else(|| link.region.clone()),
            ..self.flags.clone()
        };
        // Where an emulator or another service is named for all, links of the real one are none of its.
        let others = ["STORAGE_EMULATOR_HOST", "AZURE_STORAGE_BLOB_ENDPOINT", "AZURE_STORAGE_ENDPOINT"];
        let environment = |name: &str| if others.contains(&name) { None } else { environment(name) };
        let settings = Settings { flags, environment: &environment };
        let store = settings.open(&link.url.with_key("")).map_err(|error| error.to_string())?;
        let url = store.object(&link.url.key, None).map_err(|error| error.to_string())?;
        store.authorizer().fields("GET", &url, &[]).map_err(|error| error.to_string())?;
        Ok(store)
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

    fn takes_over(&self, url: &Url, head: &ResponseHead) -> Option<Url> {
        let link = StoreLink::of(url).filter(|link| !self.flags.no_sign && link.is_refused(head))?;
        let bucket = link.url.with_key("");
        if self.nobody.lock().contains(&bucket) {
            return None;
        }
        let known = self
            .open
            .read()
            .iter()
            .find(|one| one.is_linked && one.url == bucket)
            .map(|one| Arc::clone(&one.store));
        let store = match known.map_or_else(|| self.linked(&link), Ok) {
            Ok(store) => store,
            Err(why) => {
                tracing::info!("{bucket} is not asked as anybody: {why}");
                let mut nobody = self.nobody.lock();
                nobody.truncate(MOST_NOBODY);
                nobody.push(bucket);
                return None;
            }
        };
        let next = store.object(&link.url.key, link.url.version.as_deref()).ok()?;
        let mut open = self.open.write();
        if !open.iter().any(|one| one.is_linked && one.url == bucket) {
            tracing::info!(
                "{} refuses who has not said who they are; asking with credentials",
                object::host_of(url)
            );
            let authorizer = store.authorizer();
            open.push(Bucket { is_linked: true, url: bucket, authorizer, store });
        }
        Some(next)
    }

    fn is_at(&self, origin: &Url) -> bool {
        self.open.read().iter().any(|bucket| bucket.authorizer.is_at(origin))
    }

    fn pins(&self, url: &Url) -> bool {
        self.authorizer(url).is_some_and(|one| one.pins(url))
    }

    fn keeps(&self, url: &Url, head: &ResponseHead) -> Option<KeptDigest> {
        self.authorizer(url)?.keeps(url, head)
    }

    fn why_no_object(&self, url: &Url, head: &ResponseHead) -> Option<String> {
        self.authorizer(url)?.why_no_object(url, head)
    }

    fn layout(&self, url: &Url, kept: &KeptDigest, size: u64, ask: &mut Ask<'_>) -> Result<Vec<u64>, String> {
        let authorizer = self.authorizer(url).ok_or("no store is known for it")?;
        authorizer.layout(url, kept, size, ask)
    }

    fn fields(
        &self,
        method: &str,
        url: &Url,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, GetError> {
        self.authorizer(url).map_or_else(|| Ok(Vec::new()), |one| one.fields(method, url, given))
    }

    fn seals(&self, method: &str, url: &Url, fields: &mut Vec<(String, String)>) {
        if let Some(one) = self.authorizer(url) {
            one.seals(method, url, fields);
        }
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

    #[test]
    fn an_address_leads_back_to_its_name() {
        for text in [
            "s3://b/a//x y%20?",
            "s3://b/k?versionId=3/L4",
            "s3://other/k",
            "gs://b/a//x y%20?#",
            "gs://b/a/../k#17",
            "gs://other/k#17",
            "az://c@acc/a//x y%20?",
            "az://c@acc/k?versionId=3/L4",
        ] {
            let flags =
                StoreFlags { endpoint: Some("http://127.0.0.1:9000".to_owned()), ..StoreFlags::default() };
            let buckets = Buckets::new(flags, Box::new(|_| None));
            let url = StoreUrl::parse(text).unwrap().unwrap();
            let address = buckets.object(&url).unwrap();
            assert!(!address.as_str().contains("/../"), "{address}");
            assert!(buckets.is_for(&address), "{address}");
            assert_eq!(buckets.named(&address), Some(url));
            let elsewhere = Url::parse("http://127.0.0.1:9000/third/k").unwrap();
            assert!(!buckets.is_for(&elsewhere));
            assert_eq!(buckets.named(&elsewhere), None);
        }
    }
}
