//! The cache of the hub's Python library: `models--ORG--REPO/` with `blobs/ID`, `snapshots/COMMIT/PATH` as
//! links to them, and `refs/REV`, which holds the commit.
//!
//! The library takes a snapshot's file for whole when its link is there, so links come after the blobs, and
//! the ref comes last.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use weir_tree::Name;

use super::HubFile;
use super::hugging_face::{HfUrl, Repo, home};
use super::layout::{local, put};
use crate::credentials::files;
use crate::environment::Environment;
use crate::error::StoreError;

/// A repository at a commit, in the cache.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// `models--ORG--REPO`.
    repo: PathBuf,
    commit: String,
    /// What leads to the commit, if it is not the commit itself.
    revision: Option<String>,
    files: Vec<(Name, String)>,
}

/// Where the library keeps it (`HF_HUB_CACHE`, else `HF_HOME/hub`).
pub fn folder(environment: Environment<'_>) -> Result<PathBuf, StoreError> {
    let own = |name: &str| files::named(environment, name);
    let found = own("HF_HUB_CACHE").or_else(|| own("HUGGINGFACE_HUB_CACHE"));
    let found = found.or_else(|| Some(home(environment)?.join("hub")));
    let why = match found {
        // What stands for letters that are not UTF-8: it is another folder than the one that was meant.
        Some(found) if found.to_string_lossy().contains(char::REPLACEMENT_CHARACTER) => {
            "HF_HUB_CACHE, HF_HOME or XDG_CACHE_HOME is not UTF-8; write it so, or give -o a folder in place of --hf-cache"
        }
        Some(found) => return Ok(found),
        None => "--hf-cache finds no place for the cache: set HF_HUB_CACHE, or HOME",
    };
    Err(StoreError::Usage(why.to_owned()))
}

/// The name of a repository's folder.
fn called(repo: &Repo) -> String {
    format!("{}--{}", repo.kind.plural(), repo.id.replace('/', "--"))
}

impl Snapshot {
    /// Of these files of `wanted` at `commit`, in the cache at `cache`. Each file is called by its id from
    /// now on: what several paths hold is kept once.
    pub fn new(
        cache: &Path,
        wanted: &HfUrl,
        commit: &str,
        files: &mut Vec<HubFile>,
    ) -> Result<Snapshot, StoreError> {
        let cannot = |name: &Name| {
            StoreError::Usage(format!(
                "cannot put {} into the cache: the hub names no id of it; leave --hf-cache out",
                name.as_path().display()
            ))
        };
        let mut named = Vec::with_capacity(files.len());
        for file in &mut *files {
            let name = std::mem::replace(&mut file.name, Name::root());
            let id = Name::root().join(file.id.as_bytes()).ok().filter(|id| !id.is_root());
            file.name = id.ok_or_else(|| cannot(&name))?;
            named.push((name, file.id.clone()));
        }
        let mut seen = std::collections::HashSet::new();
        files.retain(|file| seen.insert(file.id.clone()));
        let revision = (wanted.revision != commit).then(|| wanted.revision.clone());
        let snapshot = Snapshot {
            repo: cache.join(called(&wanted.repo)),
            commit: commit.to_owned(),
            revision,
            files: named,
        };
        let blobs = snapshot.blobs();
        fs::create_dir_all(&blobs).map_err(|source| local("create", &blobs, source))?;
        Ok(snapshot)
    }

    /// Where the files go.
    pub fn blobs(&self) -> PathBuf {
        self.repo.join("blobs")
    }

    /// Where programs find them by their names.
    pub fn path(&self) -> PathBuf {
        self.repo.join("snapshots").join(&self.commit)
    }

    /// Links all files into the snapshot and notes what leads to it.
    pub fn finish(&self) -> Result<(), StoreError> {
        let snapshot = self.path();
        for (name, id) in &self.files {
            let link = snapshot.join(name.as_path());
            if let Some(folder) = link.parent() {
                fs::create_dir_all(folder).map_err(|source| local("create", folder, source))?;
            }
            // From the file up to the repository's folder: through the folders of its name, and two more.
            let mut target = PathBuf::from("../".repeat(name.components().count() + 1));
            target.push("blobs");
            target.push(id);
            place_link(&target, &link).map_err(|source| local("create", &link, source))?;
        }
        if let Some(revision) = &self.revision {
            let path = self.repo.join("refs").join(revision);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(|source| local("create", folder, source))?;
            }
            put(&path, self.commit.as_bytes())?;
        }
        Ok(())
    }
}

fn place_link(target: &Path, link: &Path) -> io::Result<()> {
    match symlink(target, link) {
        // Where nobody may write, not every file system says that it is there.
        Err(_) if fs::read_link(link).is_ok_and(|there| there == target) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(link)?;
            symlink(target, link)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use url::Url;

    use super::*;

    #[test]
    fn the_cache_is_where_variables_say() {
        for (variable, value, expected) in
            [("HF_HUB_CACHE", "~/c", "/h/c"), ("HF_HOME", "~/x", "/h/x/hub"), ("HF_HUB_CACHE", "/c", "/c")]
        {
            let of = |name: &str| match name {
                "HOME" => Some("/h".to_owned()),
                name => (name == variable).then(|| value.to_owned()),
            };
            assert_eq!(folder(&of).unwrap(), Path::new(expected), "{variable}={value}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_read_from_its_variable_is_refused() {
        for variable in ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"] {
            let of =
                |name: &str| (name == variable).then(|| String::from_utf8_lossy(b"/c/\xff").into_owned());
            assert!(matches!(folder(&of), Err(StoreError::Usage(_))), "{variable}");
        }
    }

    #[test]
    fn a_snapshot_leads_to_its_blobs() {
        let cache = tempfile::tempdir().unwrap();
        let wanted = HfUrl::parse("hf://datasets/o/r@refs/pr/1").unwrap().unwrap();
        let file = |name: &str, id: &str| HubFile {
            url: Url::parse("http://h/").unwrap(),
            name: Name::new(name.as_bytes()).unwrap(),
            size: None,
            digest: None,
            id: id.to_owned(),
        };
        let mut files = vec![file("a/b/c", "1"), file("d", "1"), file("e", "2")];
        let commit = "c".repeat(40);
        let snapshot = Snapshot::new(cache.path(), &wanted, &commit, &mut files).unwrap();
        assert_eq!(files.iter().map(|file| file.id.as_str()).collect::<Vec<_>>(), ["1", "2"]);
        for file in &files {
            fs::write(snapshot.blobs().join(file.name.as_path()), &file.id).unwrap();
        }
        let noted = cache.path().join("datasets--o--r/refs/refs/pr/1");
        let inodes = [(); 2].map(|()| {
            snapshot.finish().unwrap();
            fs::metadata(&noted).unwrap().ino()
        });
        assert_eq!(inodes[0], inodes[1], "what is right already stays as it is");
        for (name, content) in [("a/b/c", "1"), ("d", "1"), ("e", "2")] {
            assert_eq!(fs::read_to_string(snapshot.path().join(name)).unwrap(), content, "{name}");
        }
        assert_eq!(fs::read_to_string(noted).unwrap(), commit);
        for bad in ["", "../x", "a/b"] {
            let mut files = vec![file("f", bad)];
            assert!(Snapshot::new(cache.path(), &wanted, &commit, &mut files).is_err(), "{bad}");
        }
    }
}
