//! An OCI image layout in a folder (image-layout.md of the image specification), which skopeo, crane, podman
//! and containerd read: `oci-layout`, `index.json`, and the blobs by their digests.
//!
//! `index.json` is written last: as long as it does not name an image, that is not all here. It has an
//! image's tag and its full name, so two images with the same tag can both be there.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
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

/// The same for the tag with the registry and the name before it, as containerd writes it.
const NAME: &str = "io.containerd.image.name";

/// How long to wait for other runs that write the index; each takes a few milliseconds.
const LOCK_LIMIT: Duration = Duration::from_secs(30);

/// Between two attempts to lock it.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

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
    /// The image's full name without the tag: `docker.io/library/alpine`.
    pub image: String,
    /// The tag, where one was named.
    pub tag: Option<String>,
}

impl Image {
    /// Makes `folder` a layout that has this image too. Returns its name there, if another image already has
    /// the tag.
    ///
    /// # Errors
    /// A file that cannot be read or written, a malformed index, or another run that keeps it locked.
    pub fn finish(&self, folder: &Path, stop: &AtomicBool) -> Result<Option<String>, StoreError> {
        let digest = &self.descriptor.digest;
        put(&folder.join(format!("blobs/{}/{}", digest.algorithm(), digest.hex())), &self.manifest)?;
        let _lock = locked(folder, stop)?;
        put(&folder.join("oci-layout"), b"{\"imageLayoutVersion\":\"1.0.0\"}")?;
        let path = folder.join("index.json");
        let index = match weir_units::read_text(&path, MAX_INDEX) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(local("read", &path, source)),
        };
        let (index, called) = self.index(index.as_deref()).ok_or_else(|| {
            StoreError::Usage(format!(
                "cannot add the image to {}: it is no index of an image layout; choose another folder (-o DIR/)",
                path.display()
            ))
        })?;
        put(&path, index.to_string().as_bytes())?;
        Ok(called.filter(|called| self.descriptor.tag.as_ref() != Some(called)))
    }

    /// The index `there` with this image in it, and the image's name there. It replaces an earlier one of its
    /// name, or of its digest if it has no tag.
    fn index(&self, there: Option<&str>) -> Option<(Value, Option<String>)> {
        let mut index: Value = match there {
            Some(text) => serde_json::from_str(text).ok()?,
            None => json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}),
        };
        let Descriptor { media_type, digest, image, tag } = &self.descriptor;
        let (digest, name) = (text_of(digest), tag.as_ref().map(|tag| format!("{image}:{tag}")));
        let manifests = index.get_mut("manifests")?.as_array_mut()?;
        manifests.retain(|other| {
            let (called, named) = (&other["annotations"][TAG], &other["annotations"][NAME]);
            let has_digest = other["digest"] == digest.as_str();
            let is_earlier = match (tag, &name) {
                // Other programs, and earlier runs, call an image by its tag alone.
                (Some(tag), _) if named.is_null() && called == tag.as_str() => has_digest,
                (_, Some(name)) => named == name.as_str() || called == name.as_str(),
                (_, None) => has_digest && called.is_null(),
            };
            !is_earlier
        });
        let is_taken =
            |tag: &&String| manifests.iter().any(|other| other["annotations"][TAG] == tag.as_str());
        let called = tag.as_ref().filter(|tag| !is_taken(tag)).or(name.as_ref()).cloned();
        let mut own = json!({"mediaType": media_type, "digest": digest, "size": self.manifest.len()});
        if called.is_some() {
            own["annotations"] = json!({TAG: called, NAME: name});
        }
        manifests.push(own);
        Some((index, called))
    }
}

/// Locks `folder` against other weirs that write its index, for as long as the result lives. On a file system
/// without locks it does not.
fn locked(folder: &Path, stop: &AtomicBool) -> Result<File, StoreError> {
    let file = File::open(folder).map_err(|source| local("open", folder, source))?;
    let until = Instant::now() + LOCK_LIMIT;
    while flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        if stop.load(Relaxed) {
            return Err(GetError::Interrupted.into());
        }
        if Instant::now() >= until {
            return Err(StoreError::Local(format!(
                "cannot add the image to {}: another weir holds its index; run the same command again",
                folder.display()
            )));
        }
        thread::sleep(LOCK_INTERVAL);
    }
    Ok(file)
}

/// Puts a file in its place whole. One that holds these bytes already stays as it is: whoever runs may only
/// read it.
pub(super) fn put(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let is_there = path.is_file()
        && weir_units::read_file(path, Bytes(bytes.len() as u64)).is_ok_and(|there| there == bytes);
    if is_there {
        return Ok(());
    }
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

    static NO_STOP: AtomicBool = AtomicBool::new(false);

    fn image(name: &str, manifest: &[u8], tag: Option<&str>) -> Image {
        let digest = Expected::new(Algorithm::SHA256, Algorithm::SHA256.of(manifest)).unwrap();
        let tag = tag.map(str::to_owned);
        let descriptor = Descriptor { media_type: "m".to_owned(), digest, image: name.to_owned(), tag };
        Image { manifest: manifest.to_owned(), descriptor }
    }

    #[test]
    fn an_index_has_each_tag_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("blobs/sha256")).unwrap();
        let steps =
            [(&b"1"[..], Some("a")), (b"2", None), (b"3", Some("a")), (b"2", None), (b"3", Some("b"))];
        for (manifest, tag) in steps {
            assert_eq!(image("r/a", manifest, tag).finish(folder.path(), &NO_STOP).unwrap(), None);
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
        assert!(image("r/a", b"1", None).index(Some("[]")).is_none());
    }

    /// The digests of the images in `folder`, and what they are called there.
    fn images(folder: &Path) -> Vec<(String, Option<String>)> {
        let text = std::fs::read(folder.join("index.json")).unwrap();
        let index: Value = serde_json::from_slice(&text).unwrap();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let manifests = index["manifests"].as_array().unwrap().iter();
        manifests.map(|one| (text(&one["digest"]).unwrap(), text(&one["annotations"][TAG]))).collect()
    }

    #[test]
    fn another_image_with_the_same_tag_stays() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("blobs/sha256")).unwrap();
        // What another program has named by a tag alone may be any image.
        let foreign = json!({"schemaVersion": 2, "manifests": [
            {"mediaType": "m", "digest": "sha256:x", "size": 1, "annotations": {TAG: "other"}},
        ]});
        std::fs::write(folder.path().join("index.json"), foreign.to_string()).unwrap();
        let full = |text: &str| Some(text.to_owned());
        for (name, manifest, tag, called) in [
            ("r/a", &b"1"[..], "v1", None),
            ("r/b", b"2", "v1", full("r/b:v1")),
            ("r/b", b"3", "v1", full("r/b:v1")),
            ("r/a", b"4", "v1", None),
            ("r/a", b"4", "other", full("r/a:other")),
        ] {
            let finished = image(name, manifest, Some(tag)).finish(folder.path(), &NO_STOP);
            assert_eq!(finished.unwrap(), called, "{name}:{tag}");
        }
        let digest = |manifest: &[u8]| text_of(&image("", manifest, None).descriptor.digest);
        let called: Vec<(String, Option<String>)> = vec![
            ("sha256:x".to_owned(), full("other")),
            (digest(b"3"), full("r/b:v1")),
            (digest(b"4"), full("v1")),
            (digest(b"4"), full("r/a:other")),
        ];
        assert_eq!(images(folder.path()), called);
    }

    /// Each reads the index, and writes it with its own image in it.
    #[test]
    fn runs_at_the_same_time_lose_no_image() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("blobs/sha256")).unwrap();
        let barrier = std::sync::Barrier::new(8);
        thread::scope(|scope| {
            for number in 0..8 {
                let (folder, barrier) = (folder.path(), &barrier);
                scope.spawn(move || {
                    let own = image("r/a", &[number], Some(&format!("v{number}")));
                    barrier.wait();
                    own.finish(folder, &NO_STOP).unwrap();
                });
            }
        });
        assert_eq!(images(folder.path()).len(), 8);
        // A run that is stopped does not wait for another one.
        let held = locked(folder.path(), &NO_STOP).unwrap();
        let error = locked(folder.path(), &AtomicBool::new(true)).unwrap_err();
        assert!(matches!(error, StoreError::Http(GetError::Interrupted)), "{error}");
        drop(held);
        assert!(locked(folder.path(), &AtomicBool::new(true)).is_ok());
    }
}
