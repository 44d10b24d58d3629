//! Links of https that lead to objects of a store: `https://ACCOUNT.blob.core.windows.net/CONTAINER/KEY`,
//! `https://BUCKET.s3.REGION.amazonaws.com/KEY`, `https://storage.googleapis.com/BUCKET/KEY`.
//!
//! They are links like any other, and asked for as such. What is known here counts where the store refuses
//! who has not said who they are: then, and to the store's own hosts alone, over TLS, a request is signed.

use percent_encoding::percent_decode_str;
use url::Url;
use weir_http::head::ResponseHead;

use crate::address::{StoreKind, StoreUrl};

/// The object that a link leads to, and how its store is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLink {
    /// The object.
    pub url: StoreUrl,
    /// The service that the link names; `None`: the store's usual one.
    pub endpoint: Option<String>,
    /// Whether the bucket stands before the key, in links of S3.
    pub path_style: Option<bool>,
    /// The region that the link names.
    pub region: Option<String>,
}

impl StoreLink {
    /// What `url` leads to; `None` of any other link, of a bucket, and of one that is signed already or names
    /// a user.
    pub fn of(url: &Url) -> Option<StoreLink> {
        let is_plain = url.scheme() == "https" && url.port().is_none() && url.username().is_empty();
        let host = url.host_str().filter(|_| is_plain && url.password().is_none())?;
        if weir_get::object::is_signed(url) {
            return None;
        }
        let path = url.path().strip_prefix('/')?;
        let link = if let Some(account) = host.strip_suffix(".blob.core.windows.net") {
            let (container, key) = path.split_once('/')?;
            StoreLink::new(
                StoreKind::Azure,
                Some(account).filter(|name| !name.contains('.'))?,
                container,
                key,
            )?
        } else if host == "storage.googleapis.com" {
            let (bucket, key) = path.split_once('/')?;
            StoreLink::new(StoreKind::Gcs, "", bucket, key)?
        } else if let Some(bucket) = host.strip_suffix(".storage.googleapis.com") {
            StoreLink::new(StoreKind::Gcs, "", bucket, path)?
        } else {
            StoreLink::of_amazon(host, path)?
        };
        let named =
            |name: &str| url.query_pairs().find(|(own, _)| own == name).map(|(_, value)| value.into_owned());
        let version = match link.url.kind {
            StoreKind::Gcs => named("generation"),
            StoreKind::S3 | StoreKind::Azure => named("versionId").or_else(|| named("versionid")),
        };
        Some(StoreLink { url: StoreUrl { version, ..link.url }, ..link })
    }

    fn new(kind: StoreKind, account: &str, bucket: &str, key: &str) -> Option<StoreLink> {
        let key = percent_decode_str(key).decode_utf8().ok()?.into_owned();
        let account = (!account.is_empty()).then(|| account.to_owned());
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-$".contains(c);
        let is_object =
            !bucket.is_empty() && bucket.chars().all(is_name) && !key.is_empty() && !key.ends_with('/');
        let url = StoreUrl { kind, account, bucket: bucket.to_owned(), key, version: None };
        is_object.then_some(StoreLink { url, endpoint: None, path_style: None, region: None })
    }

    /// `BUCKET.s3.REGION.amazonaws.com`, `s3.REGION.amazonaws.com/BUCKET`, without the region, with a dash
    /// before it (until 2019), with `dualstack.`; `.cn` behind it.
    fn of_amazon(host: &str, path: &str) -> Option<StoreLink> {
        let domain = ["amazonaws.com", "amazonaws.com.cn"]
            .into_iter()
            .find(|domain| host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')))?;
        let name = host.strip_suffix(domain)?.strip_suffix('.')?;
        let is_service = |text: &str| text == "s3" || text.starts_with("s3.") || text.starts_with("s3-");
        let (bucket, service) = match is_service(name) {
            true => (None, name),
            false => {
                let dots = name.match_indices('.').map(|(at, _)| at);
                let at = dots.into_iter().rev().find(|at| is_service(&name[at + 1..]))?;
                (Some(&name[..at]), &name[at + 1..])
            }
        };
        let region = service[2..].trim_start_matches(['.', '-']);
        let region = region.strip_prefix("dualstack.").unwrap_or(region);
        let is_region = region.is_empty()
            || region.bytes().last().is_some_and(|byte| byte.is_ascii_digit())
                && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let link = match bucket {
            _ if !is_region => None,
            Some(bucket) => StoreLink::new(StoreKind::S3, "", bucket, path),
            None => {
                let (bucket, key) = path.split_once('/')?;
                StoreLink::new(StoreKind::S3, "", bucket, key)
            }
        }?;
        Some(StoreLink {
            endpoint: Some(format!("https://{service}.{domain}")),
            path_style: Some(bucket.is_none()),
            region: (!region.is_empty()).then(|| region.to_owned()),
            ..link
        })
    }

    /// The answer refuses somebody who has not said who they are. Azure hides what is private behind other
    /// words.
    pub fn is_refused(&self, head: &ResponseHead) -> bool {
        let code = head.header("x-ms-error-code").unwrap_or_default();
        match (self.url.kind, head.status) {
            (_, 401 | 403) => true,
            (StoreKind::Azure, 404) => code == "ResourceNotFound",
            (StoreKind::Azure, 409) => code == "PublicAccessNotPermitted",
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<(String, Option<String>, Option<String>)> {
        let link = StoreLink::of(&Url::parse(text).unwrap())?;
        Some((link.url.to_string(), link.endpoint, link.region))
    }

    #[test]
    fn links_of_stores_are_known_by_their_hosts() {
        let some = |url: &str, endpoint: &str, region: &str| {
            let of = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            Some((url.to_owned(), of(endpoint), of(region)))
        };
        for (text, expected) in [
            ("https://acc.blob.core.windows.net/c/a%20b//x", some("az://c@acc/a b//x", "", "")),
            ("https://storage.googleapis.com/b/a/k?generation=17", some("gs://b/a/k#17", "", "")),
            ("https://b.c.storage.googleapis.com/k", some("gs://b.c/k", "", "")),
            (
                "https://b.s3.eu-north-1.amazonaws.com/a/k?versionId=v",
                some("s3://b/a/k?versionId=v", "https://s3.eu-north-1.amazonaws.com", "eu-north-1"),
            ),
            ("https://b.x.s3.amazonaws.com/k", some("s3://b.x/k", "https://s3.amazonaws.com", "")),
            (
                "https://s3-us-west-2.amazonaws.com/b/k",
                some("s3://b/k", "https://s3-us-west-2.amazonaws.com", "us-west-2"),
            ),
            (
                "https://b.s3.dualstack.us-east-1.amazonaws.com/k",
                some("s3://b/k", "https://s3.dualstack.us-east-1.amazonaws.com", "us-east-1"),
            ),
            (
                "https://s3.cn-north-1.amazonaws.com.cn/b/k",
                some("s3://b/k", "https://s3.cn-north-1.amazonaws.com.cn", "cn-north-1"),
            ),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
        for text in [
            "http://b.s3.amazonaws.com/k",
            "https://b.s3.amazonaws.com:8443/k",
            "https://me:x@b.s3.amazonaws.com/k",
            "https://b.s3.amazonaws.com/k?X-Amz-Signature=x",
            "https://b.s3.amazonaws.com/",
            "https://s3.amazonaws.com/b",
            "https://b.s3.amazonaws.com.example.net/k",
            "https://b.s3-website-x.amazonaws.com/k",
            "https://evilamazonaws.com/b/k",
            "https://s3.evil-amazonaws.com/b/k",
            "https://ec2.eu-north-1.amazonaws.com/b/k",
            "https://a.b.blob.core.windows.net/c/k",
            "https://acc.blob.core.windows.net.example.net/c/k",
            "https://acc.blob.core.windows.net/c",
            "https://acc.blob.core.windows.net/c/k?sv=1&sig=x",
            "https://xstorage.googleapis.com/b/k",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
