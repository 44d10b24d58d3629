//! Hubs, which keep files by name and digest: what a text names there becomes a list of files, each with the
//! URL that has it, its place below a folder, and the digest that it must have.
//!
//! [`hugging_face`] reads repositories of models, [`oci`] images of a registry, [`lfs`] pointers of git-lfs.
//! What comes is fetched by the lanes of `weir-get`; [`cache`] and [`layout`] put it where other programs
//! look for it. Lists are foreign: a name that would leave its folder ends the run before anything is
//! fetched.

mod asking;
pub mod cache;
pub mod here;
pub mod hugging_face;
pub mod layout;
pub mod lfs;
pub mod oci;
mod tokens;

use url::Url;
use weir_codec::digest::{Algorithm, Expected};
use weir_tree::Name;

pub use asking::Way;

/// A file of a hub.
#[derive(Debug, Clone)]
pub struct HubFile {
    /// What has it.
    pub url: Url,
    /// Its place below the folder.
    pub name: Name,
    /// Bytes, where the hub says so.
    pub size: Option<u64>,
    /// What it must have; `None`: the hub knows no digest of it but git's.
    pub digest: Option<Expected>,
    /// The hub's own id of its content: the digest in hexadecimal, or the SHA-1 of git's blob.
    pub id: String,
}

impl HubFile {
    /// The digest that it must have if it has `size` bytes, and what is hashed before them. `None`: no digest
    /// is known.
    pub fn proof(&self, size: Option<u64>) -> Option<(Expected, Vec<u8>)> {
        if let Some(digest) = &self.digest {
            return Some((digest.clone(), Vec::new()));
        }
        let id = Expected::from_hex(Algorithm::SHA1, &self.id).ok()?;
        // What git hashes of a blob has its length before it (gitformat-pack(5), "object ids").
        Some((id, format!("blob {}\0", size?).into_bytes()))
    }
}

/// What a text names at a hub.
#[derive(Debug, Clone)]
pub struct Listing {
    /// The files.
    pub files: Vec<HubFile>,
    /// They keep their places below a folder; `false`: one file that was named.
    pub is_tree: bool,
    /// The folder that a tree goes to unless the user says.
    pub folder: String,
    /// The version that all of it is of: a commit, the digest of a manifest.
    pub pin: String,
    /// What is written beside the files when all of them are here.
    pub ending: Ending,
}

/// What makes of complete files what other programs read.
#[derive(Debug, Clone)]
pub enum Ending {
    /// Nothing.
    None,
    /// They lie in the cache of the Python library.
    Cache(cache::Snapshot),
    /// They are blobs of an image.
    Layout(layout::Image),
}
