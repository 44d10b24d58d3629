//! Has what was brought into a folder the content that was meant? By the digest that the manifest names, and
//! by the file that it is a copy of, where that lies in a folder of this host too.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::OFlags;
use serde::Serialize;
use weir_codec::digest::Expected;
use weir_store::tree::content;
use weir_units::plain;

use crate::object::FleetObject;
use crate::reading::{self, Unread};

/// Files that are named.
const NAMED: usize = 1000;

/// What a comparison of contents found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// Files that were compared.
    pub compared: u64,
    /// Of these, the ones whose content is another, and those that could not be read.
    pub differ: u64,
    /// Files that nothing is known to compare with.
    pub unknown: u64,
    /// How the first ones differ, in words.
    pub named: Vec<String>,
}

impl Contents {
    /// Whether all have the content that was meant. What could not be compared is not known to.
    pub fn is_right(&self) -> bool {
        self.differ == 0 && self.unknown == 0
    }

    /// Compares the file of an object below `to`; `from` is the folder of its source where this host has it.
    /// Where `stop` is set meanwhile nothing is said of it.
    pub fn compare(&mut self, object: &FleetObject, from: Option<&Path>, to: &Path, stop: &AtomicBool) {
        let target = below(to, &object.target);
        let from = from.map(|from| below(from, &object.source));
        if from.is_none() && object.digest.is_none() {
            self.unknown += 1;
            return;
        }
        let outcome = compared(&target, from.as_deref(), object.digest.as_deref(), stop);
        if stop.load(Relaxed) {
            return;
        }
        self.compared += 1;
        let Some(why) = outcome.unwrap_or_else(Some) else { return };
        self.differ += 1;
        if self.named.len() < NAMED {
            self.named.push(format!("{} {why}", target.display()));
        }
    }
}

/// A file that was planned by itself has no name below itself.
fn below(root: &Path, name: &[u8]) -> PathBuf {
    if name.is_empty() { root.to_owned() } else { root.join(OsStr::from_bytes(name)) }
}

/// How it differs, `None`: not at all; `Err`: why it cannot be said.
type Comparison = Result<Option<String>, String>;

/// The target with its digest, where one is known, and with its source, where that is here: each can be wrong
/// where the other is right.
fn compared(target: &Path, from: Option<&Path>, digest: Option<&str>, stop: &AtomicBool) -> Comparison {
    if let Some(digest) = digest
        && let Some(why) = against_digest(digest, target, stop)?
    {
        return Ok(Some(why));
    }
    from.map_or(Ok(None), |from| against_file(from, target, stop))
}

/// The file, with its size. What is no file any more is not waited for.
fn open(path: &Path) -> Result<(File, u64), String> {
    let cannot =
        |error: io::Error| format!("cannot be compared: cannot read {}: {}", path.display(), plain(&error));
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(cannot)?;
    let data = file.metadata().map_err(cannot)?;
    match data.is_file() {
        true => Ok((file, data.len())),
        false if data.file_type().is_fifo() => Err("is a pipe".to_owned()),
        false => Err("is no file".to_owned()),
    }
}

fn against_file(source: &Path, target: &Path, stop: &AtomicBool) -> Comparison {
    let ((from, size), (to, other)) = (open(source)?, open(target)?);
    let differs = || Ok(Some(format!("differs from {}", source.display())));
    if size != other {
        return differs();
    }
    let cannot = |path: &Path, error: &io::Error| {
        Err(format!("cannot be compared: cannot read {}: {}", path.display(), plain(error)))
    };
    match reading::is_same(&from, &to, size, &mut |_: &[u8]| !stop.load(Relaxed)) {
        Ok(true) | Err(Unread::Ended) => Ok(None),
        Ok(false) => differs(),
        Err(Unread::Own(error)) => cannot(source, &error),
        Err(Unread::Other(error)) => cannot(target, &error),
    }
}

fn against_digest(digest: &str, target: &Path, stop: &AtomicBool) -> Comparison {
    let expected: Expected = digest
        .parse()
        .map_err(|error| format!("cannot be compared with '{digest}' of the manifest: {error}"))?;
    let (file, size) = open(target)?;
    let found = content::digest(&file, expected.algorithm(), size, &mut |_: &[u8]| !stop.load(Relaxed));
    let Some(found) = found.map_err(|error| format!("cannot be compared: {}", plain(&error)))? else {
        return Ok(None);
    };
    let name = expected.algorithm().name();
    Ok((found != expected.bytes()).then(|| format!("has not the {name} {} of the manifest", expected.hex())))
}
