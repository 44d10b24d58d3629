//! Files of state: lines `crc32c=xxxxxxxx {JSON}` that are appended as things happen, locked for one process.
//! What a kill has cut off is passed over. Nothing secret stands there.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_codec::digest::Algorithm;
use weir_codec::hex;

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process has it.
    #[error("another weir sends this file there now; wait for it, or stop it")]
    Busy,
    /// The folder does not take it.
    #[error("cannot keep the state of the upload in {}: {source}", path.display())]
    Io {
        /// The file, or its folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl JournalError {
    pub(super) fn io(path: &Path, source: io::Error) -> JournalError {
        JournalError::Io { path: path.to_owned(), source }
    }
}

/// What lies in `folder` for `key`, with this ending.
pub(super) fn path_of(folder: &Path, key: &str, ending: &str) -> PathBuf {
    folder.join(format!("{}.{ending}", hex::encode(&Algorithm::SHA256.of(key.as_bytes())[..16])))
}

/// The file at `path`, there or new, locked for this process.
pub(super) fn open(path: &Path) -> Result<File, JournalError> {
    let io = |path: &Path, source| JournalError::io(path, source);
    if let Some(folder) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| io(folder, error))?;
    }
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600).custom_flags(no_follow());
    loop {
        let file = options.open(path).map_err(|error| io(path, error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(JournalError::Busy),
            Err(error) => return Err(io(path, error.into())),
        }
        // Whoever had it may have taken its name away meanwhile.
        let (own, named) = (file.metadata(), std::fs::symlink_metadata(path));
        let is_same = |own: &std::fs::Metadata, named: &std::fs::Metadata| {
            (own.dev(), own.ino()) == (named.dev(), named.ino())
        };
        match (own, named) {
            (Ok(own), Ok(named)) if is_same(&own, &named) && own.is_file() => return Ok(file),
            (Err(error), _) => return Err(io(path, error)),
            _ => {}
        }
    }
}

/// Appends a line. Not synced: what a power cut costs is done again.
pub(super) fn add(mut file: &File, line: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_string(line)?;
    let sum = crc32c::crc32c(json.as_bytes());
    file.write_all(format!("crc32c={sum:08x} {json}\n").as_bytes())
}

/// What a line says; `None`: it is cut, damaged, or none of this kind.
pub(super) fn parse<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (sum, json) = line.strip_prefix("crc32c=")?.split_once(' ')?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    (crc32c::crc32c(json.as_bytes()) == sum).then(|| serde_json::from_str(json).ok()).flatten()
}

/// Takes a file away in which nothing was ever written: whoever looks into the folder need not wonder.
pub(super) fn remove_empty(file: &File, path: &Path) {
    if file.metadata().is_ok_and(|data| data.len() == 0 && data.nlink() > 0) {
        let _ = std::fs::remove_file(path);
    }
}

/// O_NOFOLLOW: a link in the place of such a file is somebody's bait.
fn no_follow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default()
}
