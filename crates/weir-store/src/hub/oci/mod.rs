//! Registries of images (the OCI distribution specification): a manifest names the blobs of an image by their
//! digests.
//!
//! The manifest is held against its own digest: the one that was asked for, or the one that the registry says
//! it has. Of an index of several platforms one is taken, and it is said which.

mod address;
mod login;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use url::Url;
use weir_codec::digest::{Algorithm, Expected};
use weir_get::GetError;
use weir_get::http::authority::{Authorizer, Mend, is_authorized};
use weir_get::http::call::Reply;
use weir_http::head::ResponseHead;
use weir_http::netrc::Login;
use weir_tree::Name;

pub(super) use address::is_this_machine;
pub use address::{OciUrl, Reference};
pub use login::login_of;

use super::asking::{Way, got, json};
use super::here::tagged;
use super::layout::{Descriptor, Image};
use super::tokens::Tokens;
use super::{Ending, HubFile, Listing};
use crate::caller::Caller;
use crate::error::StoreError;

/// What manifests are called, those of docker among them.
const MANIFESTS: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];

/// What lists of manifests are called.
const INDEXES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];

/// The most bytes of a manifest: the specification has registries take 4 MiB.
const MAX_MANIFEST: usize = 4 << 20;

/// The most nested indexes on the way to a manifest; in practice there are two.
const MAX_INDEXES: usize = 3;

/// The most layers that are fetched; docker makes 127 at most.
const MAX_BLOBS: usize = 10_000;

/// A registry and a name in it, and who may pull it.
pub struct Registry {
    wanted: OciUrl,
    platform: Option<Platform>,
    authorizer: Arc<OciAuthorizer>,
}

/// `OS/ARCH[/VARIANT]`; an empty member is not given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Platform {
    os: String,
    architecture: String,
    variant: Option<String>,
}

impl Platform {
    /// This host's, as Go calls it.
    fn here() -> Platform {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" => "ppc64le",
            "loongarch64" => "loong64",
            other => other,
        };
        Platform { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None }
    }

    /// The variant, or the architecture's default, as in docker and containerd.
    fn variant(&self) -> &str {
        let usual = match self.architecture.as_str() {
            "amd64" => "v1",
            "arm64" => "v8",
            "arm" => "v7",
            _ => "",
        };
        self.variant.as_deref().filter(|own| !own.is_empty()).unwrap_or(usual)
    }

    fn takes(&self, other: &Platform) -> bool {
        let is_machine = self.os == other.os && self.architecture == other.architecture;
        is_machine && (self.variant.is_none() || self.variant() == other.variant())
    }

    /// The first one for this platform, or the first of the same variant, if there is one.
    fn best_of<'a>(&self, blobs: &'a [Blob]) -> Option<&'a Blob> {
        let taken = |blob: &&Blob| blob.platform.as_ref().is_some_and(|one| self.takes(one));
        let differs = |blob: &&Blob| blob.platform.as_ref().map(Platform::variant) != Some(self.variant());
        blobs.iter().filter(taken).min_by_key(differs)
    }
}

impl std::str::FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Platform, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (os, architecture, variant) = match parts[..] {
            [os, architecture] => (os, architecture, None),
            [os, architecture, variant] => (os, architecture, Some(variant)),
            _ => return Err("expected OS/ARCH, such as linux/amd64 or linux/arm/v7".to_owned()),
        };
        if [os, architecture].iter().any(|part| part.is_empty()) {
            return Err("expected OS/ARCH, such as linux/amd64 or linux/arm/v7".to_owned());
        }
        let variant = variant.map(str::to_owned);
        Ok(Platform { os: os.to_owned(), architecture: architecture.to_owned(), variant })
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

/// A manifest, or an index of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Manifest {
    schema_version: u32,
    media_type: String,
    config: Option<Blob>,
    layers: Vec<Blob>,
    manifests: Vec<Blob>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Blob {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: Option<u64>,
    platform: Option<Platform>,
    /// Where it is besides: layers that not every registry may give out, such as those of Windows.
    #[serde(default)]
    urls: Vec<String>,
}

impl Blob {
    /// It says something about an image, and is none: such are for an unknown platform.
    fn is_attestation(&self) -> bool {
        self.platform.as_ref().is_some_and(|one| one.os == "unknown")
    }
}

/// A manifest as it came.
struct Fetched {
    bytes: Vec<u8>,
    kind: String,
    digest: Expected,
    manifest: Manifest,
}

impl Registry {
    /// Of `wanted`, as this user, for this platform; `None`: this host's.
    pub fn new(wanted: OciUrl, platform: Option<Platform>, login: Option<Login>, way: Way) -> Registry {
        let (tokens, elsewhere) = (Tokens::new(way, login), Mutex::default());
        let authorizer = OciAuthorizer { wanted: wanted.clone(), tokens, elsewhere };
        Registry { wanted, platform, authorizer: Arc::new(authorizer) }
    }

    /// Who speaks for requests for it.
    pub fn authorizer(&self) -> Arc<dyn Authorizer> {
        Arc::clone(&self.authorizer) as Arc<dyn Authorizer>
    }

    /// The blobs of the image, and what is written beside them.
    pub fn list(&self, caller: &mut Caller<'_>) -> Result<Listing, StoreError> {
        let asked = match &self.wanted.reference {
            Reference::Digest(digest) => Some(digest.clone()),
            Reference::Tag(_) => None,
        };
        let mut fetched = self.fetch(caller, self.wanted.manifest()?, asked)?;
        let mut indexes = 0;
        while INDEXES.contains(&fetched.kind.as_str()) {
            indexes += 1;
            if indexes > MAX_INDEXES {
                return Err(self.answer(format!("leads through more than {MAX_INDEXES} indexes")));
            }
            let chosen = self.choose(&fetched.manifest)?;
            let url = self.address("manifests", &text_of(&chosen))?;
            fetched = self.fetch(caller, url, Some(chosen))?;
        }
        if let Some(platform) = self.platform.as_ref().filter(|_| indexes == 0) {
            self.check_platform(caller, platform, &fetched.manifest)?;
        }
        let Fetched { bytes, kind, digest, manifest } = fetched;
        let files = self.files(&kind, &manifest)?;
        self.note_elsewhere(&manifest.layers)?;
        let image = Image {
            manifest: bytes,
            descriptor: Descriptor {
                media_type: kind,
                digest: digest.clone(),
                image: format!("{}/{}", self.wanted.host, self.wanted.name),
                tag: self.wanted.tag.clone(),
            },
        };
        Ok(Listing {
            files,
            is_tree: true,
            folder: self.wanted.folder().to_owned(),
            pin: text_of(&digest),
            ending: Ending::Layout(image),
        })
    }

    /// The blobs that a manifest in these bytes names.
    pub fn files_in(&self, bytes: &[u8]) -> Result<Vec<HubFile>, StoreError> {
        let manifest: Manifest = json("read a manifest", bytes)?;
        self.files(&manifest.media_type, &manifest)
    }

    fn files(&self, kind: &str, manifest: &Manifest) -> Result<Vec<HubFile>, StoreError> {
        if manifest.schema_version == 1 || manifest.config.is_none() && manifest.layers.is_empty() {
            return Err(self.answer(format!(
                "is a manifest of the kind '{}', which weir does not know; expected one of {}",
                weir_units::quoted(kind),
                MANIFESTS[0]
            )));
        }
        let blobs: Vec<&Blob> = manifest.config.iter().chain(&manifest.layers).collect();
        if blobs.len() > MAX_BLOBS {
            return Err(self.answer(format!("has more than {MAX_BLOBS} layers")));
        }
        let mut files: Vec<HubFile> = Vec::with_capacity(blobs.len());
        for blob in blobs {
            let file = self.file(blob)?;
            // A layer that does nothing may be there several times.
            if !files.iter().any(|other| other.id == file.id) {
                files.push(file);
            }
        }
        Ok(files)
    }

    /// Tells the authorizer which layers are elsewhere too. If the registry is asked over https, places over
    /// http are ignored.
    fn note_elsewhere(&self, layers: &[Blob]) -> Result<(), StoreError> {
        let is_safe = |url: &Url| {
            url.scheme() == "https" || url.scheme() == "http" && self.wanted.registry.scheme() == "http"
        };
        let mut elsewhere = self.authorizer.elsewhere.lock();
        for layer in layers {
            let place = layer.urls.iter().filter_map(|text| Url::parse(text).ok()).find(is_safe);
            if let Some(place) = place {
                elsewhere.insert(self.file(layer)?.url, place);
            }
        }
        Ok(())
    }

    fn fetch(
        &self,
        caller: &mut Caller<'_>,
        url: Url,
        asked: Option<Expected>,
    ) -> Result<Fetched, StoreError> {
        let accept = [&MANIFESTS[..], &INDEXES[..]].concat().join(", ");
        let fields = [("accept".to_owned(), accept)];
        let what = format!("fetch the manifest of {}", self.wanted);
        let (_, reply) = got(caller, &what, url, &fields)?;
        let Reply { head, body, .. } = reply;
        if body.len() > MAX_MANIFEST {
            return Err(self.answer(format!("is a manifest of more than {MAX_MANIFEST} bytes")));
        }
        let said = head.header("docker-content-digest").and_then(tagged);
        let wanted = asked.clone().or(said);
        let algorithm = wanted.as_ref().map_or(Algorithm::SHA256, Expected::algorithm);
        let found = Expected::new(algorithm, algorithm.of(&body));
        let found = found.map_err(|error| self.answer(error.to_string()))?;
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            let (host, whose) = (
                &self.wanted.host,
                if asked.is_some() { "was asked for" } else { "the registry says it has" },
            );
            return Err(StoreError::Http(GetError::NoDigest {
                name: self.wanted.to_string(),
                detail: format!(
                    "the manifest from {host} has the digest {}, and {} {whose}; nothing was fetched",
                    text_of(&found),
                    text_of(&wanted)
                ),
            }));
        }
        let manifest: Manifest = json(&what, &body)?;
        let kind = match manifest.media_type.is_empty() {
            // OCI's own may leave it out; the field of the answer says it.
            true => {
                head.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim()
            }
            false => &manifest.media_type,
        };
        let kind = match (kind, manifest.manifests.is_empty()) {
            ("" | "application/json", true) => MANIFESTS[0],
            ("" | "application/json", false) => INDEXES[0],
            (kind, _) => kind,
        };
        Ok(Fetched { kind: kind.to_owned(), bytes: body, digest: found, manifest })
    }

    /// Of an image without an index, the config names the platform.
    fn check_platform(
        &self,
        caller: &mut Caller<'_>,
        platform: &Platform,
        manifest: &Manifest,
    ) -> Result<(), StoreError> {
        let said: Platform = match &manifest.config {
            Some(config) => {
                let what = format!("fetch the config of {}", self.wanted);
                let (_, reply) = got(caller, &what, self.file(config)?.url, &[])?;
                // An artifact that is not an image has another kind of config.
                serde_json::from_slice(&reply.body).unwrap_or_default()
            }
            None => Platform::default(),
        };
        if said.os.is_empty() || said.architecture.is_empty() {
            tracing::warn!("{} does not say which platform it is for; taking it for {platform}", self.wanted);
        } else if !platform.takes(&said) {
            return Err(StoreError::Usage(format!(
                "cannot fetch {}: it is for {}, not for {platform}; without --platform it is fetched",
                self.wanted,
                weir_units::quoted(&said.to_string())
            )));
        }
        Ok(())
    }

    /// The manifest of the platform, among those of an index.
    fn choose(&self, index: &Manifest) -> Result<Expected, StoreError> {
        let platform = self.platform.clone().unwrap_or_else(Platform::here);
        let mut images = index.manifests.iter().filter(|blob| !blob.is_attestation());
        // The only one is taken, whatever it is for, if the user has named no platform, or if it is another
        // index, which says itself what it is for.
        let only = images.next().filter(|only| {
            images.next().is_none()
                && (self.platform.is_none() || INDEXES.contains(&only.media_type.as_str()))
        });
        let Some(blob) = platform.best_of(&index.manifests).or(only) else {
            return Err(StoreError::Usage(format!(
                "cannot fetch {}: it has nothing for {platform}; {}",
                self.wanted,
                others(index)
            )));
        };
        let named = blob.platform.as_ref().filter(|one| !one.os.is_empty());
        let named = named.map_or_else(|| "its only manifest".to_owned(), Platform::to_string);
        tracing::warn!("{}: taking {}", self.wanted, weir_units::quoted(&named));
        tagged(&blob.digest).ok_or_else(|| self.answer("names a manifest by no digest".to_owned()))
    }

    fn file(&self, blob: &Blob) -> Result<HubFile, StoreError> {
        let refused = || {
            let shown = weir_units::quoted(&blob.digest);
            self.answer(format!("names a blob by '{shown}', which is no digest; nothing was fetched"))
        };
        let digest = tagged(&blob.digest).ok_or_else(refused)?;
        let name = format!("blobs/{}/{}", digest.algorithm(), digest.hex());
        let name = Name::new(name.as_bytes()).map_err(|_| refused())?;
        let url = self.address("blobs", &text_of(&digest))?;
        Ok(HubFile { url, name, size: blob.size, id: digest.hex(), digest: Some(digest) })
    }

    fn address(&self, kind: &str, reference: &str) -> Result<Url, StoreError> {
        self.wanted.address(kind, reference)
    }

    fn answer(&self, why: String) -> StoreError {
        StoreError::Answer { what: format!("fetch {}", self.wanted), why }
    }
}

/// The most that are named to choose from.
const NAMED: usize = 20;

/// What an index has to choose from.
fn others(index: &Manifest) -> String {
    let images = index.manifests.iter().filter(|blob| !blob.is_attestation());
    // What is no program has no platform.
    let platforms = images.filter_map(|blob| blob.platform.as_ref()).filter(|one| !one.os.is_empty());
    let mut platforms: Vec<String> =
        platforms.take(NAMED).map(|one| weir_units::quoted(&one.to_string())).collect();
    platforms.dedup();
    if !platforms.is_empty() {
        return format!("--platform takes one of {}", platforms.join(", "));
    }
    let digests = index.manifests.iter().filter_map(|blob| tagged(&blob.digest));
    let digests: Vec<String> = digests.take(NAMED).map(|digest| format!("@{}", text_of(&digest))).collect();
    format!("its manifests are for no platform; name one by its digest: {}", digests.join(", "))
}

/// `sha256:HEX`.
pub(super) fn text_of(digest: &Expected) -> String {
    format!("{}:{}", digest.algorithm(), digest.hex())
}

/// Shows a token to the registry, and to nobody whom it redirects to.
struct OciAuthorizer {
    wanted: OciUrl,
    tokens: Tokens,
    /// Where blobs are which the registry does not give out, by their addresses there.
    elsewhere: Mutex<HashMap<Url, Url>>,
}

impl OciAuthorizer {
    /// `manifests` or `blobs`, whichever `url` is of, if it is of this name.
    fn kind_of<'a>(&self, url: &'a Url) -> Option<&'a str> {
        let path = format!("/v2/{}/", self.wanted.name);
        // One name may be the start of another: `org/app` and `org/app/sub`.
        let (kind, reference) = url.path().strip_prefix(&path)?.split_once('/')?;
        let is_own = matches!(kind, "manifests" | "blobs") && !reference.contains('/');
        (is_own && url.origin() == self.wanted.registry.origin()).then_some(kind)
    }
}

impl Authorizer for OciAuthorizer {
    fn is_for(&self, url: &Url) -> bool {
        self.kind_of(url).is_some()
    }

    fn fields(
        &self,
        _: &str,
        _: &Url,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, GetError> {
        Ok(self.tokens.field(&self.wanted.name).filter(|_| !is_authorized(given)).into_iter().collect())
    }

    fn mends(&self, url: &Url, head: &ResponseHead, _: Option<&str>) -> Result<Mend, GetError> {
        let place = self.elsewhere.lock().get(url).filter(|_| head.status == 404).cloned();
        match place {
            Some(place) => Ok(Mend::At(Box::new(place))),
            None => self.tokens.mends(&self.wanted.name, url, head),
        }
    }

    fn explains(&self, url: &Url, head: &ResponseHead, words: Option<&str>) -> Option<String> {
        let (host, name) = (&self.wanted.host, &self.wanted.name);
        let way = match head.status {
            401 | 403 => format!("{host} does not let you pull {name}; {}", self.tokens.way_in(host)),
            404 if self.kind_of(url) == Some("blobs") => {
                format!("the manifest of {} names it, and {host} does not have it", self.wanted)
            }
            404 => format!("there is no {} there, or it needs a login", self.wanted),
            _ => return None,
        };
        Some(words.map_or(way.clone(), |words| format!("{words}; {way}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of these platforms `wish` takes from their index.
    fn taken(wish: &str, index: &[&str]) -> Option<usize> {
        let blob =
            |text: &&str| Blob { digest: (*text).to_owned(), platform: text.parse().ok(), ..Blob::default() };
        let blobs: Vec<Blob> = index.iter().map(blob).collect();
        let best = wish.parse::<Platform>().unwrap().best_of(&blobs)?;
        index.iter().position(|text| *text == best.digest)
    }

    #[test]
    fn a_variant_that_is_not_named_is_the_usual_one() {
        let arms = ["linux/arm/v5", "linux/arm/v7", "linux/arm64/v8"];
        let plain = ["linux/arm", "linux/arm64", "linux/amd64/v3", "linux/amd64"];
        for (wish, index, expected) in [
            ("linux/arm", &arms[..], Some(1)),
            ("linux/arm/v5", &arms, Some(0)),
            ("linux/arm/v6", &arms, None),
            ("linux/arm64", &arms, Some(2)),
            ("linux/arm64/v8", &plain, Some(1)),
            ("linux/arm/v7", &plain, Some(0)),
            ("linux/arm/v6", &plain, None),
            ("linux/amd64", &plain, Some(3)),
            ("linux/amd64/v1", &plain, Some(3)),
            ("linux/amd64/v3", &plain, Some(2)),
            ("linux/arm", &["linux/arm/v5"], Some(0)),
            ("windows/arm", &arms, None),
        ] {
            assert_eq!(taken(wish, index), expected, "{wish} of {index:?}");
        }
    }
}
