//! What names an object or a prefix of a store: `s3://BUCKET/KEY`, `gs://BUCKET/KEY`, `az://CONTAINER/KEY`,
//! and what other tools write for them.
//!
//! A key is what stands behind the bucket, letter by letter, as aws, s5cmd and gsutil read it: nothing in it
//! is decoded. Where it ends as a version would, a `\` before `?versionId=` or `#` says that it is the key.

use std::fmt;

/// Who keeps the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreKind {
    /// Amazon S3, and what speaks as it does.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl StoreKind {
    /// The scheme that weir writes.
    pub fn scheme(self) -> &'static str {
        match self {
            StoreKind::S3 => "s3",
            StoreKind::Gcs => "gs",
            StoreKind::Azure => "az",
        }
    }

    /// What stands before a version.
    fn mark(self) -> &'static str {
        match self {
            StoreKind::Gcs => "#",
            StoreKind::S3 | StoreKind::Azure => "?versionId=",
        }
    }

    /// What stands before and behind the mark of a version, where `text` ends as one.
    fn versioned(self, text: &str) -> Option<(&str, &str)> {
        let is_number = |version: &str| version.bytes().all(|byte| byte.is_ascii_digit());
        let is_version =
            |version: &str| !version.is_empty() && (self != StoreKind::Gcs || is_number(version));
        text.rsplit_once(self.mark()).filter(|(_, version)| is_version(version))
    }

    fn of(scheme: &str) -> Option<StoreKind> {
        match scheme.to_ascii_lowercase().as_str() {
            "s3" | "s3a" | "s3n" => Some(StoreKind::S3),
            "gs" | "gcs" => Some(StoreKind::Gcs),
            "az" | "abfs" | "abfss" | "wasb" | "wasbs" => Some(StoreKind::Azure),
            _ => None,
        }
    }
}

/// An object, a prefix or a bucket of a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoreUrl {
    /// Who keeps it.
    pub kind: StoreKind,
    /// The storage account that the address names (`abfs://CONTAINER@ACCOUNT.dfs...`); of Azure alone.
    pub account: Option<String>,
    /// The bucket or container.
    pub bucket: String,
    /// The key, or the beginning of keys; empty: the bucket.
    pub key: String,
    /// One version of the object (`?versionId=`, `#GENERATION` of GCS).
    pub version: Option<String>,
}

/// Why a text with the scheme of a store names nothing in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadStoreUrl {
    /// No bucket.
    #[error("cannot read '{0}': expected a bucket behind '//', as in s3://BUCKET/KEY")]
    NoBucket(String),
    /// Letters that no bucket has.
    #[error("cannot read '{0}': '{1}' is no name of a bucket")]
    Bucket(String, String),
}

impl StoreUrl {
    /// What `text` names; `None` where it has not the scheme of a store.
    pub fn parse(text: &str) -> Option<Result<StoreUrl, BadStoreUrl>> {
        let (scheme, rest) = text.split_once("://")?;
        let kind = StoreKind::of(scheme)?;
        Some(StoreUrl::read(kind, text, rest))
    }

    /// Both are of one account of one service, which copies by itself.
    pub fn is_of_service(&self, other: &StoreUrl) -> bool {
        self.kind == other.kind && self.account == other.account
    }

    /// A store without a bucket (`s3://`), which stands for its list of buckets.
    pub fn service(text: &str) -> Option<StoreUrl> {
        let (scheme, rest) = text.split_once("://")?;
        let kind = StoreKind::of(scheme).filter(|_| rest.is_empty())?;
        Some(StoreUrl { kind, account: None, bucket: String::new(), key: String::new(), version: None })
    }

    fn read(kind: StoreKind, text: &str, rest: &str) -> Result<StoreUrl, BadStoreUrl> {
        let (place, key) = rest.split_once('/').unwrap_or((rest, ""));
        let (bucket, account) = match place.split_once('@') {
            Some((container, host)) if kind == StoreKind::Azure => {
                (container, host.split('.').next().map(str::to_owned))
            }
            _ => (place, None),
        };
        if bucket.is_empty() {
            return Err(BadStoreUrl::NoBucket(text.to_owned()));
        }
        // What stands here becomes a host name or a segment of a path.
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-$".contains(c);
        if !bucket.chars().all(is_name) || matches!(bucket, "." | "..") {
            return Err(BadStoreUrl::Bucket(text.to_owned(), bucket.to_owned()));
        }
        let (key, version) = match kind.versioned(key) {
            Some((key, version)) => match key.strip_suffix('\\') {
                Some(key) => (format!("{key}{}{version}", kind.mark()), None),
                None => (key.to_owned(), Some(version.to_owned())),
            },
            None => (key.to_owned(), None),
        };
        Ok(StoreUrl { kind, account, bucket: bucket.to_owned(), key, version })
    }

    /// The same store and bucket with another key.
    pub fn with_key(&self, key: impl Into<String>) -> StoreUrl {
        StoreUrl { key: key.into(), version: None, ..self.clone() }
    }

    /// It names a bucket or a folder rather than an object.
    pub fn is_prefix(&self) -> bool {
        self.key.is_empty() || self.key.ends_with('/')
    }

    /// The last part of its key, for a file's name.
    pub fn name(&self) -> &str {
        self.key.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.kind.scheme(), self.bucket)?;
        if let Some(account) = &self.account {
            write!(f, "@{account}")?;
        }
        let mark = self.kind.mark();
        match (&self.version, self.kind.versioned(&self.key)) {
            (Some(version), _) => write!(f, "/{}{mark}{version}", self.key),
            (None, Some((key, letters))) => write!(f, "/{key}\\{mark}{letters}"),
            (None, None) => write!(f, "/{}", self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> StoreUrl {
        StoreUrl::parse(text).unwrap().unwrap()
    }

    #[test]
    fn a_key_is_what_stands_behind_the_bucket() {
        for (text, bucket, key) in [
            ("s3://b", "b", ""),
            ("s3://b/", "b", ""),
            ("S3a://b/a//b/../c%20 d?e#f/", "b", "a//b/../c%20 d?e#f/"),
            ("gs://b/a#x", "b", "a#x"),
            ("abfss://c@acc.dfs.example.net/k", "c", "k"),
        ] {
            let url = read(text);
            assert_eq!((url.bucket.as_str(), url.key.as_str()), (bucket, key), "{text}");
            assert_eq!(url.version, None);
        }
        assert_eq!(read("abfss://c@acc.dfs.example.net/k").account.as_deref(), Some("acc"));
        assert_eq!(StoreUrl::parse("http://b/k"), None);
        assert_eq!(StoreUrl::parse("b/k"), None);
    }

    #[test]
    fn versions_are_named_as_the_store_names_them() {
        assert_eq!(read("s3://b/k?versionId=3/L4").version.as_deref(), Some("3/L4"));
        assert_eq!(read("gs://b/k#17").version.as_deref(), Some("17"));
        for text in ["s3://b/k?versionId=3", "gs://b/k#17", "az://c@a/k", "s3://b/"] {
            assert_eq!(read(&read(text).to_string()), read(text));
        }
    }

    #[test]
    fn a_key_that_ends_as_a_version_stays_one() {
        for (text, key) in [
            ("s3://b/a\\?versionId=zz", "a?versionId=zz"),
            ("gs://b/a\\#17", "a#17"),
            ("s3://b/a\\\\?versionId=zz", "a\\?versionId=zz"),
            ("s3://b/a?versionId=", "a?versionId="),
            ("s3://b/a\\b", "a\\b"),
        ] {
            let url = read(text);
            assert_eq!((url.key.as_str(), url.version.as_deref()), (key, None), "{text}");
            assert_eq!(url.to_string(), text);
        }
        let both = StoreUrl { version: Some("v".to_owned()), ..read("s3://b/").with_key("a?versionId=zz") };
        assert_eq!(read(&both.to_string()), both);
    }

    #[test]
    fn what_is_no_bucket_is_refused() {
        for text in ["s3://", "s3:///k", "s3://a b/k", "s3://../k", "s3://me:x@b/k"] {
            assert!(StoreUrl::parse(text).unwrap().is_err(), "{text}");
        }
    }
}
