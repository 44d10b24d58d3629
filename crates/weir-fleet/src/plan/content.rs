//! Has what was brought into a folder or a store the content that was meant? By the digest that the manifest
//! names, and by the file that it is a copy of, where that lies in a folder of this host.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::OFlags;
use serde::Serialize;
use weir_codec::digest::{Algorithm, Expected};
use weir_store::StoreError;
use weir_store::caller::Caller;
use weir_store::tree::content;
use weir_units::plain;

use crate::object::FleetObject;
use crate::reading::{self, Unread};
use crate::worker::across::StoreEnd;

/// Objects that are named.
const NAMED: usize = 1000;

/// What a comparison of contents found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// Objects that were compared.
    pub compared: u64,
    /// Of these, the ones whose content is another, and those that could not be read.
    pub differ: u64,
    /// Objects that nothing is known to compare with.
    pub unknown: u64,
    /// How the first ones differ, in words.
    pub named: Vec<String>,
}

/// Where the objects of a plan were brought.
pub enum ContentTarget<'a> {
    /// Into this folder of this host.
    Folder(&'a Path),
    /// Into a store, which is asked so.
    Store(StoreEnd, Box<Caller<'a>>),
}

impl Contents {
    /// Whether all have the content that was meant. What could not be compared is not known to.
    pub fn is_right(&self) -> bool {
        self.differ == 0 && self.unknown == 0
    }

    /// Compares what became of an object; `from` is the folder of its source where this host has it. Where
    /// `stop` is set meanwhile nothing is said of it.
    pub fn compare(
        &mut self,
        object: &FleetObject,
        from: Option<&Path>,
        to: &mut ContentTarget<'_>,
        stop: &AtomicBool,
    ) {
        let from = from.map(|from| below(from, &object.source));
        if from.is_none() && object.digest.is_none() {
            self.unknown += 1;
            return;
        }
        let meant = (object.digest.as_deref(), from.as_deref());
        let (shown, outcome) = match to {
            ContentTarget::Folder(to) => {
                let target = below(to, &object.target);
                (target.display().to_string(), compared(&target, meant, stop))
            }
            ContentTarget::Store(to, caller) => {
                let key = format!("{}{}", to.prefix, object.target_text());
                (format!("{}{key}", to.shown), compared_there((&*to, &mut **caller), &key, meant, stop))
            }
        };
        if stop.load(Relaxed) {
            return;
        }
        self.compared += 1;
        let Some(why) = outcome.unwrap_or_else(Some) else { return };
        self.differ += 1;
        if self.named.len() < NAMED {
            self.named.push(format!("{shown} {why}"));
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
fn compared(target: &Path, (digest, from): (Option<&str>, Option<&Path>), stop: &AtomicBool) -> Comparison {
    if let Some(digest) = digest
        && let Some(why) = against_digest(digest, target, stop)?
    {
        return Ok(Some(why));
    }
    from.map_or(Ok(None), |from| against_file(from, target, stop))
}

/// The same of an object of a store, by the digest that the store keeps or that of its bytes.
fn compared_there(
    (to, caller): (&StoreEnd, &mut Caller<'_>),
    key: &str,
    (digest, from): (Option<&str>, Option<&Path>),
    stop: &AtomicBool,
) -> Comparison {
    let cannot = |error: StoreError| format!("cannot be compared: {error}");
    let Some(looked) = to.store.lists().look(caller, key, None, None).map_err(cannot)? else {
        return Ok(Some("is not there".to_owned()));
    };
    let mut known = None;
    if let Some(digest) = digest {
        let expected = expected(digest)?;
        let found = to.digest(caller, &looked, expected.algorithm(), &|| ()).map_err(cannot)?;
        if !expected.matches(&found) {
            return Ok(Some(lacks(&expected)));
        }
        known = Some((expected.algorithm(), found));
    }
    let Some(from) = from else { return Ok(None) };
    let (file, size) = open(from)?;
    let differs = || Ok(Some(format!("differs from {}", from.display())));
    if size != looked.listed.size {
        return differs();
    }
    let algorithm = content::digest_of(&looked).map_or(Algorithm::SHA256, |(algorithm, _)| algorithm);
    let Some(own) = digest_of_file(&file, algorithm, size, stop)? else { return Ok(None) };
    let found = match known {
        Some((of, found)) if of == algorithm => found,
        _ => to.digest(caller, &looked, algorithm, &|| ()).map_err(cannot)?,
    };
    if found == own { Ok(None) } else { differs() }
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
    let expected = expected(digest)?;
    let (file, size) = open(target)?;
    let Some(found) = digest_of_file(&file, expected.algorithm(), size, stop)? else { return Ok(None) };
    Ok((!expected.matches(&found)).then(|| lacks(&expected)))
}

fn expected(digest: &str) -> Result<Expected, String> {
    let expected = digest.parse::<Expected>();
    expected.map_err(|error| format!("cannot be compared with '{digest}' of the manifest: {error}"))
}

fn lacks(expected: &Expected) -> String {
    format!("has not the {} {} of the manifest", expected.algorithm().name(), expected.hex())
}

/// `None`: it was to end.
fn digest_of_file(
    file: &File,
    algorithm: Algorithm,
    size: u64,
    stop: &AtomicBool,
) -> Result<Option<Vec<u8>>, String> {
    let found = content::digest(file, algorithm, size, &mut |_: &[u8]| !stop.load(Relaxed));
    found.map_err(|error| format!("cannot be compared: {}", plain(&error)))
}
