//! Who signs requests to a bucket of S3 (version 4 of Amazon's signatures), and what a refusal means: another
//! region, credentials that have run out, a clock that is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::SystemTime;

use http::{HeaderName, HeaderValue, Method};
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpRequest, HttpRequestBody};
use parking_lot::{Mutex, RwLock};
use url::Url;
use weir_codec::hex;
use weir_get::GetError;
use weir_get::http::authority::{Ask, Authorizer, KeptDigest, Mend, is_authorized};
use weir_http::head::ResponseHead;

use super::{S3Bucket, sums};
use crate::credentials::{Found, Used};
use crate::refusal::{as_get_error, skew};

/// A body whose digest is not signed.
pub const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// The field with the digest of the body, as it is signed.
pub const BODY_DIGEST: &str = "x-amz-content-sha256";

/// The field that asks for the digests which the store keeps.
const CHECKSUM_MODE: &str = "x-amz-checksum-mode";

/// Signs requests for the objects of one bucket.
pub struct S3Authorizer {
    bucket: S3Bucket,
    /// What the store has named, if not what the user said.
    region: Mutex<Option<String>>,
    /// Where the bucket is or was thought to be. Kept, since each request asks for it.
    addresses: RwLock<Vec<Url>>,
    used: Used<Arc<Found<AwsCredential>>>,
    /// It refuses to be asked for the digests that it keeps.
    is_plain: AtomicBool,
}

impl S3Authorizer {
    /// For this bucket.
    pub fn new(bucket: S3Bucket) -> S3Authorizer {
        let addresses = bucket.url(bucket.region()).into_iter().collect();
        S3Authorizer {
            bucket,
            region: Mutex::default(),
            addresses: RwLock::new(addresses),
            used: Used::default(),
            is_plain: AtomicBool::new(false),
        }
    }

    /// The region that requests are signed for now.
    pub fn region(&self) -> String {
        self.region.lock().clone().unwrap_or_else(|| self.bucket.region().to_owned())
    }

    /// The credentials to sign with; those that a store took before are asked for again by no one.
    fn credentials(&self) -> Result<Option<Arc<Found<AwsCredential>>>, GetError> {
        let Some(provider) = &self.bucket.settings.provider else { return Ok(None) };
        let found = provider.current().map_err(as_get_error)?;
        self.used.set(Arc::clone(&found));
        Ok(Some(found))
    }

    /// The store is in another region than was asked.
    fn moves(&self, url: &Url, region: &str) -> Mend {
        let is_region = region.len() <= 40 && region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !is_region {
            return Mend::No;
        }
        let Ok(new) = self.bucket.url(region) else { return Mend::No };
        let before = self.region.lock().replace(region.to_owned());
        let mut addresses = self.addresses.write();
        // The first is the user's.
        addresses.truncate(1);
        addresses.push(new.clone());
        drop(addresses);
        let before = before.unwrap_or_else(|| self.bucket.region().to_owned());
        let is_within = |base: &Url| url.as_str().starts_with(base.as_str());
        if before != region {
            tracing::info!("the bucket {} is in {region}, not in {before}", self.bucket.bucket);
        } else if is_within(&new) {
            return Mend::No;
        }
        // Another request may have heard of it meanwhile, and this one was on its way to the old place.
        let olds = [before.as_str(), self.bucket.region()].map(|region| self.bucket.url(region));
        let Some(old) = olds.into_iter().flatten().find(is_within) else { return Mend::No };
        if new == old {
            return Mend::Again;
        }
        let rest = url.as_str().strip_prefix(old.as_str());
        match rest.and_then(|rest| Url::parse(&format!("{new}{rest}")).ok()) {
            Some(next) => Mend::At(Box::new(next)),
            None => Mend::No,
        }
    }
}

impl Authorizer for S3Authorizer {
    fn is_for(&self, url: &Url) -> bool {
        let is_below = |base: &Url| url.origin() == base.origin() && url.path().starts_with(base.path());
        self.addresses.read().iter().any(is_below)
    }

    fn is_at(&self, origin: &Url) -> bool {
        self.addresses.read().iter().any(|base| base.origin() == origin.origin())
    }

    fn pins(&self, _: &Url) -> bool {
        true
    }

    fn keeps(&self, _: &Url, head: &ResponseHead) -> Option<KeptDigest> {
        sums::kept(&self.bucket.bucket, head)
    }

    fn layout(&self, url: &Url, kept: &KeptDigest, size: u64, ask: &mut Ask<'_>) -> Result<Vec<u64>, String> {
        sums::layout(url, kept, size, ask)
    }

    fn fields(
        &self,
        method: &str,
        url: &Url,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, GetError> {
        let mut own = self.bucket.settings.encryption.clone();
        if self.bucket.settings.request_payer {
            own.push(("x-amz-request-payer".to_owned(), "requester".to_owned()));
        }
        if (method == "GET" || method == "HEAD") && !self.is_plain.load(Relaxed) {
            own.push((CHECKSUM_MODE.to_owned(), "ENABLED".to_owned()));
        }
        if is_authorized(given) {
            return Ok(own);
        }
        let Some(found) = self.credentials()? else { return Ok(own) };
        let signed = sign(&found.credential, &self.region(), method, url, given.iter().chain(&own));
        let signed =
            signed.map_err(|why| GetError::Refused(format!("cannot sign a request for {url}: {why}")))?;
        // The digest of a body is signed as it was given.
        own.extend(signed.into_iter().filter(|(name, _)| !given.iter().any(|(known, _)| known == name)));
        Ok(own)
    }

    fn mends(&self, url: &Url, head: &ResponseHead, words: Option<&str>) -> Result<Mend, GetError> {
        let code = words.map_or("", |words| words.split(':').next().unwrap_or_default());
        if let Some(region) = head.header("x-amz-bucket-region") {
            let is_moved = matches!(head.status, 301 | 307 | 400);
            if is_moved && let mend @ (Mend::Again | Mend::At(_)) = self.moves(url, region) {
                return Ok(mend);
            }
        }
        // `the region 'us-east-1' is wrong; expecting 'eu-west-1'`.
        if code == "AuthorizationHeaderMalformed" {
            let named = words.unwrap_or_default().rsplit_once("expecting '").map(|(_, rest)| rest);
            if let Some((region, _)) = named.and_then(|rest| rest.split_once('\'')) {
                return Ok(self.moves(url, region));
            }
        }
        // `Unsupported header 'x-amz-checksum-mode' received for this API call.`
        let is_of_mode = matches!(head.status, 400 | 501)
            && words.is_some_and(|words| words.to_ascii_lowercase().contains(CHECKSUM_MODE));
        if is_of_mode && !self.is_plain.swap(true, Relaxed) {
            tracing::info!("{} does not tell the digests that it keeps", self.bucket.bucket);
            return Ok(Mend::Again);
        }
        let used = self.used.own();
        let has_expired = matches!(code, "ExpiredToken" | "TokenRefreshRequired" | "ExpiredTokenException");
        if let (true, Some(used), Some(provider)) = (has_expired, used, &self.bucket.settings.provider) {
            let renewed = provider.renewed(&used).map_err(as_get_error)?;
            return Ok(if renewed.is_some() { Mend::Again } else { Mend::No });
        }
        Ok(Mend::No)
    }

    fn explains(&self, _: &Url, head: &ResponseHead, words: Option<&str>) -> Option<String> {
        let code = words.map_or("", |words| words.split(':').next().unwrap_or_default());
        let way_out = match code {
            "RequestTimeTooSkewed" => skew(head, SystemTime::now()).unwrap_or_default(),
            "InvalidObjectState" => {
                "it is archived; restore it first, as aws s3api restore-object does".to_owned()
            }
            "SecondLevelDomainForbidden" | "VirtualHostDomainRequired" => {
                "it wants the bucket in the host: --virtual-host".to_owned()
            }
            "NoSuchBucket" => format!("there is no bucket '{}' there", self.bucket.bucket),
            "ExpiredToken" => "renew them and run the same command again".to_owned(),
            "SignatureDoesNotMatch" => "the secret does not belong to this key, or is cut".to_owned(),
            _ if self.bucket.settings.provider.is_none() && matches!(head.status, 401 | 403) => {
                "the bucket is not public: leave --no-sign out and give credentials".to_owned()
            }
            _ if head.status == 301 => {
                "the bucket is elsewhere, and the store does not say where: give its --region or --endpoint"
                    .to_owned()
            }
            _ => String::new(),
        };
        let who = match (self.used.own(), head.status) {
            (Some(used), 400 | 401 | 403) => format!("asked as {} of {}", used.identity, used.origin),
            (None, 401 | 403) => "asked without a signature".to_owned(),
            _ => String::new(),
        };
        let parts = [words.unwrap_or_default().to_owned(), who, way_out];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// The fields that sign a request with these fields for `region`.
fn sign<'a>(
    credential: &AwsCredential,
    region: &str,
    method: &str,
    url: &Url,
    fields: impl Iterator<Item = &'a (String, String)>,
) -> Result<Vec<(String, String)>, String> {
    let token = credential.token.as_deref().unwrap_or_default();
    if [&credential.key_id, token].iter().any(|text| !text.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Err("the id of its key or its token has letters that no field can hold".to_owned());
    }
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.method_mut() = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
    *request.uri_mut() = url.as_str().parse().map_err(|error| format!("{error}"))?;
    let mut digest = if method == "GET" || method == "HEAD" || method == "DELETE" { "" } else { UNSIGNED };
    let is_signed = |name: &str| name.starts_with("x-amz-") || matches!(name, "content-type" | "content-md5");
    for (name, value) in fields.filter(|(name, _)| is_signed(name)) {
        if name == BODY_DIGEST {
            digest = value;
            continue;
        }
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
        request.headers_mut().insert(name, HeaderValue::from_str(value).map_err(|error| error.to_string())?);
    }
    let before = request.headers().clone();
    let authorizer = AwsAuthorizer::new(credential, "s3", region).with_sign_payload(digest != UNSIGNED);
    let digest = hex::decode(digest).ok().filter(|bytes| bytes.len() == 32);
    authorizer.try_authorize(&mut request, digest.as_deref()).map_err(|error| error.to_string())?;
    let added = request.headers().iter().filter(|(name, _)| !before.contains_key(*name));
    let text = |value: &HeaderValue| value.to_str().map(str::to_owned).map_err(|error| error.to_string());
    added.map(|(name, value)| Ok((name.as_str().to_owned(), text(value)?))).collect()
}
