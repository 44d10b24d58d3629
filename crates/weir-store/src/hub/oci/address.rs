//! What names an image of a registry: `oci://REGISTRY/NAME[:TAG][@DIGEST]`.

use std::fmt;
use std::net::IpAddr;

use url::Url;
use weir_codec::digest::{Algorithm, Expected};

use super::text_of;
use crate::error::StoreError;
use crate::hub::here::tagged;
use crate::hub::hugging_face::BadHubUrl;

/// The tag that is meant where neither a tag nor a digest is named.
const LATEST: &str = "latest";

/// What names a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reference {
    /// A tag, which may lead to another manifest tomorrow.
    Tag(String),
    /// A digest: the manifest's own.
    Digest(Expected),
}

/// An image or another artifact of a registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OciUrl {
    /// Where the registry is, with a slash at its end.
    pub registry: Url,
    /// As the user wrote it.
    pub host: String,
    /// `library/alpine`.
    pub name: String,
    /// Which version of it.
    pub reference: Reference,
    /// The tag that was named, beside a digest too.
    pub tag: Option<String>,
}

impl OciUrl {
    /// What `text` names; `None` where it has not the scheme. `oci+http://` and `oci+https://` say how the
    /// registry is spoken to; else that is https, and http to this machine itself, as docker has it.
    pub fn parse(text: &str) -> Option<Result<OciUrl, BadHubUrl>> {
        let (scheme, rest) = text.split_once("://")?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "oci" => None,
            "oci+http" => Some("http"),
            "oci+https" => Some("https"),
            _ => return None,
        };
        Some(OciUrl::read(scheme, rest).map_err(|why| BadHubUrl::new(&without_login(text), why)))
    }

    fn read(scheme: Option<&str>, text: &str) -> Result<OciUrl, String> {
        let (host, rest) = text.split_once('/').unwrap_or((text, ""));
        if host.is_empty() || rest.is_empty() {
            return Err(
                "expected a registry and a name, as in oci://docker.io/library/alpine:3.22".to_owned()
            );
        }
        if host.contains('@') {
            return Err("a login does not belong here; give it with -u USER:PASSWORD".to_owned());
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => {
                let digest = tagged(digest).ok_or("expected a digest behind '@', as in @sha256:9f86...")?;
                (rest, Some(digest))
            }
            None => (rest, None),
        };
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (rest, None),
        };
        if !is_name(name) {
            return Err(format!(
                "'{name}' is no name of an image: lower-case letters, digits, '/', '-', '_', '.'"
            ));
        }
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(format!("'{tag}' is no tag"));
        }
        let reference = match digest {
            Some(digest) => Reference::Digest(digest),
            None => Reference::Tag(tag.unwrap_or(LATEST).to_owned()),
        };
        // Docker's own registry is elsewhere than it is called, and its official images have a name before
        // theirs.
        let is_hub = matches!(host, "docker.io" | "index.docker.io" | "registry-1.docker.io");
        let at = if is_hub { "registry-1.docker.io" } else { host };
        let name = if is_hub && !name.contains('/') { format!("library/{name}") } else { name.to_owned() };
        let registry = Url::parse(&format!("https://{at}/")).ok();
        let mut registry = registry.filter(Url::has_host).ok_or_else(|| format!("'{host}' is no host"))?;
        let scheme = scheme.unwrap_or(if is_this_machine(&registry) { "http" } else { "https" });
        if scheme == "http" {
            registry = Url::parse(&format!("http://{at}/")).map_err(|error| error.to_string())?;
        }
        Ok(OciUrl { registry, host: host.to_owned(), name, reference, tag: tag.map(str::to_owned) })
    }

    /// Where its manifest is.
    pub fn manifest(&self) -> Result<Url, StoreError> {
        match &self.reference {
            Reference::Tag(tag) => self.address("manifests", tag),
            Reference::Digest(digest) => self.address("manifests", &text_of(digest)),
        }
    }

    /// Where its manifest or blob (`kind`) of this tag or digest is.
    pub(super) fn address(&self, kind: &str, reference: &str) -> Result<Url, StoreError> {
        let text = format!("{}v2/{}/{kind}/{reference}", self.registry, self.name);
        Url::parse(&text).map_err(|error| StoreError::Usage(format!("cannot ask {text}: {error}")))
    }

    /// The last part of its name.
    pub fn folder(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for OciUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "oci://{}/{}", self.host, self.name)?;
        match &self.reference {
            Reference::Tag(tag) => write!(f, ":{tag}"),
            Reference::Digest(digest) => write!(f, "@{}:{}", digest.algorithm(), digest.hex()),
        }
    }
}

/// `text` without what stands before an `@` that begins no digest: it may be a password.
fn without_login(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let is_digest = |part: &&str| {
        part.split_once(':').is_some_and(|(algorithm, _)| algorithm.parse::<Algorithm>().is_ok())
    };
    let parts: Vec<&str> = rest.split('@').collect();
    let first = parts.iter().rposition(|part| !is_digest(part)).unwrap_or_default();
    format!("{scheme}://{}", parts[first..].join("@"))
}

/// Whether nobody between here and there reads along.
pub(in crate::hub) fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// The specification's grammar of names: parts of lower-case letters and digits, with single separators
/// between them, 255 letters in all.
fn is_name(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_inner)
            && part.ends_with(is_inner)
            && part.chars().all(|c| is_inner(c) || "._-".contains(c))
            && !part.contains("..")
    };
    name.len() <= 255 && name.split('/').all(is_part)
}

fn is_tag(tag: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=128).contains(&tag.len())
        && tag.starts_with(is_word)
        && tag.chars().all(|c| is_word(c) || c == '.' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_as_docker_names_it() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        for (text, registry, name, reference) in [
            ("oci://docker.io/alpine", "https://registry-1.docker.io/", "library/alpine", ":latest"),
            ("OCI://ghcr.io/o/r:v1.2", "https://ghcr.io/", "o/r", ":v1.2"),
            ("oci://127.0.0.1:5000/a/b/c:x", "http://127.0.0.1:5000/", "a/b/c", ":x"),
            ("oci://localhost/a", "http://localhost/", "a", ":latest"),
            ("oci://[::1]:5000/a", "http://[::1]:5000/", "a", ":latest"),
            ("oci+https://localhost:5000/a", "https://localhost:5000/", "a", ":latest"),
            ("oci+http://registry/a", "http://registry/", "a", ":latest"),
            (&format!("oci://r.example/a:t@{digest}"), "https://r.example/", "a", &format!("@{digest}")),
        ] {
            let url = OciUrl::parse(text).unwrap().unwrap();
            let reference_is = url.to_string().ends_with(reference);
            assert_eq!((url.registry.as_str(), url.name.as_str()), (registry, name), "{text}");
            assert!(reference_is, "{url}");
        }
        assert_eq!(OciUrl::parse("docker://a/b"), None);
    }

    #[test]
    fn what_is_no_image_is_refused() {
        for text in [
            "oci://alpine",
            "oci:///a",
            "oci://r/A",
            "oci://r/a/../b",
            "oci://r/a:",
            "oci://r/a:-x",
            "oci://r/a@sha256:12",
            "oci://r/a b",
        ] {
            let error = OciUrl::parse(text).unwrap().unwrap_err();
            assert_eq!(error.text, text, "{error}");
        }
        for (text, shown) in [
            ("oci://me:secret@r/a", "oci://r/a"),
            ("oci://secret@r:5000", "oci://r:5000"),
            ("oci://me:se/cret@r/a:1", "oci://r/a:1"),
            ("oci://me:se@cret@r/a@sha256:12", "oci://r/a@sha256:12"),
        ] {
            let error = OciUrl::parse(text).unwrap().unwrap_err();
            assert_eq!(error.text, shown, "{error}");
            assert!(!error.to_string().contains("cret"), "{error}");
        }
    }
}
