//! What two sources have under one name: `one/ two/` both with an `x` in them. The second would take the
//! place of the first.

use std::path::{Path, PathBuf};

use weir_tree::walk::Root;
use weir_tree::{Entry, Name};

use crate::wire::message::Failure;

/// The sources of a walk in their order, where a name may come from more than one: where the content of a
/// folder is meant.
#[derive(Debug)]
pub(crate) struct Twice {
    roots: Vec<(Name, PathBuf)>,
}

impl Twice {
    /// Of these sources.
    pub(crate) fn of(roots: &[Root]) -> Twice {
        let shared = roots.len() > 1 && roots.iter().any(|root| root.name.is_root());
        let roots = roots.iter().filter(|_| shared).map(|root| (root.name.clone(), root.path.clone()));
        Twice { roots: roots.collect() }
    }

    /// Whether an earlier source than the one with `left` after it has this entry too. Folders of several
    /// sources become one.
    pub(crate) fn check(&self, entry: &Entry, left: usize) -> Result<(), Failure> {
        let Some((own, earlier)) =
            self.roots.len().checked_sub(left).and_then(|end| self.roots[..end].split_last())
        else {
            return Ok(());
        };
        let has = |(name, path): &&(Name, PathBuf)| {
            let inside = entry.name.as_path().strip_prefix(name.as_path());
            inside.is_ok_and(|inside| below(path, inside).symlink_metadata().is_ok())
        };
        match earlier.iter().find(has).filter(|_| !entry.is_directory()) {
            None => Ok(()),
            Some((_, first)) => Err(both(&entry.name, first, &own.1)),
        }
    }
}

/// A source that is no folder is the entry itself: with nothing joined to it, which would add a slash.
pub(super) fn below(source: &Path, inside: &Path) -> PathBuf {
    if inside.as_os_str().is_empty() { source.to_owned() } else { source.join(inside) }
}

fn both(name: &Name, first: &Path, second: &Path) -> Failure {
    let (first, second) = (first.display(), second.display());
    Failure::local(format_args!(
        "{name} is in {first} and in {second}: the one in {first} is copied; copy them into different folders"
    ))
}
