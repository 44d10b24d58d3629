//! The rules in the files of folders, as a walk reads them (`dir-merge`).

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use weir_units::{Bytes, plain, read_up_to};

use super::Root;
use crate::entry::{self, Name};
use crate::error::TreeError;
use crate::filter::{Filter, MAX_RULE_FILE, Renamed, Scope, whole};
use crate::source;

/// What holds in an open directory, which is in one where `above` holds.
pub(super) fn of(
    filter: &Filter,
    above: &Scope,
    directory: &OwnedFd,
    name: &Name,
) -> Result<Scope, TreeError> {
    if !filter.has_scopes() {
        return Ok(above.clone());
    }
    let scope = above.enter(filter, name, &mut |file| read_in(directory, file));
    scope.map_err(|error| TreeError::Rules { name: name.clone(), error })
}

/// What holds around a root: of the folders that it is in, as far up as rules say. Of a directory whose
/// content is meant it is not in itself.
pub(super) fn around(filter: &Filter, root: &Root) -> Result<Scope, TreeError> {
    let path = whole(&root.path);
    // Names in the tree are relative to the folder that a named root is in, or to the root itself.
    let tree = if root.name.is_root() { Some(&*path) } else { path.parent() };
    let tree = tree.unwrap_or(&path);
    scope_around(filter, tree, root.name.is_root(), Scope::of(tree, renamed(root)), &root.name)
}

/// A root that is not called by its own name.
fn renamed(root: &Root) -> Option<Renamed> {
    let own = Name::new(root.path.file_name()?.as_bytes()).ok()?;
    let name = root.name.clone();
    (!name.is_root() && own != name).then_some(Renamed { name, own })
}

/// Of a tree in the folder `tree`, from the root of the system down to it; `tree` itself only where it is not
/// met as a directory of its own.
pub(crate) fn scope_around(
    filter: &Filter,
    tree: &Path,
    tree_is_met: bool,
    mut scope: Scope,
    name: &Name,
) -> Result<Scope, TreeError> {
    if !filter.reaches_up() {
        return Ok(scope);
    }
    let above: Vec<&Path> = tree.ancestors().skip(usize::from(tree_is_met)).collect();
    for folder in above.into_iter().rev() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // One that may only be passed through has no rules for this user.
        let Ok(open) = openat(CWD, folder, flags, Mode::empty()) else { continue };
        let way = tree.strip_prefix(folder).unwrap_or(Path::new("")).as_os_str().as_bytes();
        let way = if way.is_empty() { Vec::new() } else { [way, b"/"].concat() };
        let mut read = |file: &[u8]| read_in(&open, file);
        let with_this = scope.around(filter, folder.as_os_str().as_bytes(), &way, &mut read);
        scope = with_this.map_err(|error| TreeError::Rules { name: name.clone(), error })?;
    }
    Ok(scope)
}

/// A file of rules in an open directory; `None` where there is none, or what has its name is a folder.
pub(crate) fn read_in(directory: impl AsFd, file: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let in_words = |errno: Errno| plain(&errno.into());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = match openat(directory, file, flags, Mode::empty()) {
        Ok(open) => open,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(in_words(errno)),
    };
    let kind = entry::file_type(&source::stat(&open, b"").map_err(in_words)?);
    if kind.is_dir() {
        return Ok(None);
    }
    if !kind.is_file() {
        return Err("it is no file".to_owned());
    }
    let content = read_up_to(std::fs::File::from(open), Bytes(MAX_RULE_FILE));
    content.map(Some).map_err(|error| plain(&error))
}
