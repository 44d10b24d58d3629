//! An OCI image layout in a folder (image-layout.md of the image specification), which skopeo, crane, podman
//! and containerd read: `oci-layout`, `index.json`, and the blobs by their digests.
//!
//! `index.json` is written last: as long as it does not name an image, that is not all here.

use std::io;
use std::path::Path;

use serde_json::{Value, json};
use weir_codec::digest::Expected;
use weir_get::GetError;
use weir_get::sink;
use weir_get::sink::folder::Target;
use weir_get::sink::home::Home;
use weir_units::Bytes;

use super::oci::text_of;
use crate::error::StoreError;

/// What an index is called.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// An index of some ten thousand images.
const MAX_INDEX: Bytes = Bytes(16 << 20);

/// What a tag is called among the annotations.
const TAG: &str = "org.opencontainers.image.ref.name";

/// An image whose blobs are fetched.
#[derive(Debug, Clone)]
pub struct Image {
    /// Byte for byte: its digest is the image's.
    pub manifest: Vec<u8>,
    /// How the index names it.
    pub descriptor: Descriptor,
}

/// What names a manifest in an index.
#[derive(Debug, Clone)]
pub struct Descriptor {
    /// What it is.
    pub media_type: String,
    /// Its digest.
    pub digest: Expected,
    /// The tag, where one was named.
    pub tag: Option<String>,
}

impl Image {
    /// Makes `folder` a layout that has this image too.
    pub fn finish(&self, folder: &Path) -> Result<(), StoreError> {
        let digest = &self.descriptor.digest;
        put(&folder.join(format!("blobs/{}/{}", digest.algorithm(), digest.hex())), &self.manifest)?;
        put(&folder.join("oci-layout"), b"{\"imageLayoutVersion\":\"1.0.0\"}")?;
        let path = folder.join("index.json");
        let index = match weir_units::read_text(&path, MAX_INDEX) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(local("read", &path, source)),
        };
        let index = self.index(index.as_deref()).ok_or_else(|| {
            StoreError::Usage(format!(
                "cannot add the image to {}: it is no index of an image layout; choose another folder (-o DIR/)",
                path.display()
            ))
        })?;
        put(&path, index.to_string().as_bytes())
    }

    /// The index `there` with this image in it, in place of what had its tag or its digest.
    fn index(&self, there: Option<&str>) -> Option<Value> {
        let mut index = match there {
            Some(text) => serde_json::from_str(text).ok()?,
            None => json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}),
        };
        let Descriptor { media_type, digest, tag } = &self.descriptor;
        let digest = text_of(digest);
        let mut own = json!({"mediaType": media_type, "digest": digest, "size": self.manifest.len()});
        if let Some(tag) = tag {
            own["annotations"] = json!({TAG: tag});
        }
        let manifests = index.get_mut("manifests")?.as_array_mut()?;
        manifests.retain(|other| {
            let named = &other["annotations"][TAG];
            match tag {
                Some(tag) => named != tag.as_str(),
                None => other["digest"] != digest.as_str() || !named.is_null(),
            }
        });
        manifests.push(own);
        Some(index)
    }
}

/// Puts a file in its place whole.
pub(super) fn put(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let target = Target::open(path).map_err(|source| local("write", path, source))?;
    let home = || Home::of(&target, None).map_err(|source| write_error(path, source));
    Ok(sink::store_whole(&target, home, bytes, false)?)
}

fn write_error(path: &Path, source: io::Error) -> GetError {
    GetError::Local { action: "write", path: path.to_owned(), source, kept: None }
}

/// A local file failed.
pub(super) fn local(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    GetError::Local { action, path: path.to_owned(), source, kept: None }.into()
}

#[cfg(test)]
mod tests {
    use weir_codec::digest::Algorithm;

    use super::*;

    fn image(manifest: &[u8], tag: Option<&str>) -> Image {
        let digest = Expected::new(Algorithm::SHA256, Algorithm::SHA256.of(manifest)).unwrap();
        let tag = tag.map(str::to_owned);
        let descriptor = Descriptor { media_type: "m".to_owned(), digest, tag };
        Image { manifest: manifest.to_owned(), descriptor }
    }

    #[test]
    fn an_index_has_each_tag_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("blobs/sha256")).unwrap();
        let steps =
            [(&b"1"[..], Some("a")), (b"2", None), (b"3", Some("a")), (b"2", None), (b"3", Some("b"))];
        for (manifest, tag) in steps {
            image(manifest, tag).finish(folder.path()).unwrap();
        }
        let text = std::fs::read(folder.path().join("index.json")).unwrap();
        let index: Value = serde_json::from_slice(&text).unwrap();
        let manifests = index["manifests"].as_array().unwrap();
        let found: Vec<(String, Option<&str>)> = manifests
            .iter()
            .map(|one| {
                let digest = one["digest"].as_str().unwrap().rsplit(':').next().unwrap();
                let path = folder.path().join("blobs/sha256").join(digest);
                (std::fs::read_to_string(path).unwrap(), one["annotations"][TAG].as_str())
            })
            .collect();
        assert_eq!(found, [("3".to_owned(), Some("a")), ("2".to_owned(), None), ("3".to_owned(), Some("b"))]);
        assert!(image(b"1", None).index(Some("[]")).is_none());
    }
}
