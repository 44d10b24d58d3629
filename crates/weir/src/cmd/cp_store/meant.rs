//! What a copy means by an address of a store, and what that is called at the other end.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use weir_store::StoreError;
use weir_store::address::StoreUrl;
use weir_store::caller::{Caller, CallerSetup};
use weir_store::glob::Glob;
use weir_store::listing::{Chosen, Listed, PagesSetup};
use weir_store::store::Store;
use weir_tree::{Name, destination};

use crate::cmd::asked_store;
use crate::voice::Usage;

/// What is copied of a bucket.
pub struct Meant<'a> {
    /// It.
    pub chosen: Chosen<'a>,
    /// The pattern that keys have to match.
    pub glob: Option<Glob>,
    /// The key that was named; of a pattern it is the pattern.
    pub key: String,
    /// What all keys begin with that goes from their names: empty, or with a slash at its end.
    pub prefix: String,
    /// What the whole is called at the target.
    pub base: Name,
    /// It is one object.
    pub is_one: bool,
}

impl Meant<'_> {
    /// What one object is called.
    pub fn name(&self) -> &str {
        last_of(&self.key)
    }
}

/// The last part of a key.
fn last_of(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or_default()
}

/// The pattern of keys that `url` is, if it is one.
pub fn glob_of(url: &StoreUrl) -> Option<Glob> {
    Glob::parse(&url.key).filter(|_| url.version.is_none())
}

/// What `url` names: an object, all below a folder, or what matches.
pub fn meant<'a>(
    store: &'a dyn Store,
    caller: CallerSetup<'_>,
    url: &StoreUrl,
    shown: &str,
) -> anyhow::Result<Meant<'a>> {
    let lists = store.lists();
    let list = |prefix: &str| {
        Chosen::List(PagesSetup {
            lists,
            prefix: prefix.to_owned(),
            delimiter: None,
            versions: false,
            shown: shown.trim_end_matches('/').to_owned(),
        })
    };
    let base = Name::root();
    let glob = glob_of(url);
    let is_letters = glob.is_some() && asked_store::is_an_object(store, caller, url)?;
    if let Some(glob) = glob.filter(|_| !is_letters) {
        let chosen = list(glob.prefix());
        let end = glob.prefix().rfind('/').map_or(0, |slash| slash + 1);
        let prefix = glob.prefix()[..end].to_owned();
        let key = url.key.clone();
        return Ok(Meant { chosen, glob: Some(glob), key, prefix, base, is_one: false });
    }
    let key = if is_letters { url.key.clone() } else { Glob::plain(&url.key) };
    if url.is_prefix() {
        let (chosen, prefix) = (list(&key), key.clone());
        return Ok(Meant { chosen, glob: None, key, prefix, base, is_one: false });
    }
    let looked = lists.look(&mut Caller::new(caller), &key, url.version.as_deref(), None)?;
    if let Some(looked) = looked {
        let version = looked.listed.version.clone().filter(|_| url.version.is_some());
        let listed = Listed { version, ..looked.listed };
        let end = key.rfind('/').map_or(0, |slash| slash + 1);
        let (chosen, prefix) = (Chosen::One(Box::new(listed)), key[..end].to_owned());
        return Ok(Meant { chosen, glob: None, key, prefix, base, is_one: true });
    }
    if url.version.is_some() {
        return Err(StoreError::Absent(format!("cannot copy {url}: there is no such version")).into());
    }
    let prefix = format!("{key}/");
    let base =
        Name::new(last_of(&key).as_bytes()).map_err(|error| Usage(format!("cannot copy {url}: {error}")))?;
    Ok(Meant { chosen: list(&prefix), glob: None, key, prefix, base, is_one: false })
}

/// Why a copy of `url` has nothing to do.
pub fn nothing(url: &StoreUrl) -> String {
    let letters = if glob_of(url).is_some() { "; a \\ before *, ? or [ takes it as it is" } else { "" };
    format!("cannot copy {url}: the bucket holds nothing of that name{letters}")
}

/// A key as a folder of keys.
pub fn folder_of(key: &str) -> String {
    match key {
        "" => String::new(),
        key if key.ends_with('/') => key.to_owned(),
        key => format!("{key}/"),
    }
}

/// The key that one file gets; `None`: its name counts, or there are more.
pub fn key_of_one(from: &[PathBuf], to: &StoreUrl) -> Option<String> {
    let is_file = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|found| found.is_file());
    match from {
        [path] if is_file(path) && !to.is_prefix() => Some(to.key.clone()),
        _ => None,
    }
}

/// Where one object of `url`, which is called `name`, goes: into the folder that `to` is, or to that name.
pub fn place_of_one((url, name): (&StoreUrl, &str), to: &Path) -> anyhow::Result<(PathBuf, Name)> {
    destination::check_link(to)
        .map_err(|error| anyhow::anyhow!("{error}; 'weir get {url} -o -' prints it"))?;
    let is_folder = to.as_os_str().as_bytes().ends_with(b"/") || to.is_dir();
    let (root, name) = match (is_folder, to.parent(), to.file_name()) {
        (false, Some(around), Some(name)) => {
            let around = if around.as_os_str().is_empty() { Path::new(".") } else { around };
            (around.to_owned(), name.as_bytes().to_vec())
        }
        _ => (to.to_owned(), name.as_bytes().to_vec()),
    };
    let name =
        Name::new(name).map_err(|error| Usage(format!("cannot copy {url}: {error}; name the file")))?;
    Ok((root, name))
}
