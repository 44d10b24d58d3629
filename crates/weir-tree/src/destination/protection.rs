//! What a removal spares by rules in the folders of the target itself (`dir-merge`), as rsync has it: those
//! that were there before this copy, for it brings the source's only while it deletes.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use parking_lot::Mutex;
use rustix::io::Errno;

use super::{Shared, Target};
use crate::entry::Name;
use crate::error::TreeError;
use crate::filter::{Filter, Scope, Side, whole};
use crate::walk::rules::{read_in, scope_around};
use crate::xattr::is_acl;

/// Bytes of replaced files of rules that are remembered. Beyond that nothing that they may protect is
/// removed.
const MOST: usize = 64 << 20;

/// What files of rules said before they were replaced.
#[derive(Debug)]
pub(super) struct Protected {
    filter: Filter,
    /// The folder that this is, from the system's root.
    path: PathBuf,
    /// What is copied goes by these names: rules count from there downwards.
    roots: Vec<Name>,
    before: Mutex<Before>,
}

#[derive(Debug, Default)]
struct Before {
    /// By name; none where there was no such file.
    files: HashMap<Name, Result<Option<Vec<u8>>, String>>,
    bytes: usize,
}

impl Target {
    /// What is copied, and by which rules: those in its folders count, as they are here now, for what may be
    /// removed.
    pub fn protect(&self, filter: &Filter, path: PathBuf, roots: Vec<Name>) {
        if filter.asks_where() || filter.has_xattr_rules() {
            let (filter, path, before) = (filter.clone(), whole(&path), Mutex::default());
            let _ = self.shared.protected.set(Protected { filter, path, roots, before });
        }
    }

    /// The rules that hold in a directory here.
    pub(super) fn scope(&self, filter: &Filter, directory: &Name) -> Result<Scope, TreeError> {
        let Some(protected) = self.shared.protected.get().filter(|_| filter.asks_where()) else {
            return Ok(Scope::default());
        };
        let scope = Scope::of(&protected.path, None);
        if !filter.has_scopes() {
            return Ok(scope);
        }
        let root = protected.roots.iter().find(|root| directory.is_within(root)).cloned();
        let root = root.unwrap_or_else(Name::root);
        let mut scope = scope_around(filter, &protected.path, root.is_root(), scope, directory)?;
        let bytes = directory.as_bytes();
        let ends = (root.as_bytes().len()..=bytes.len())
            .filter(|at| *at == root.as_bytes().len() || *at == bytes.len() || bytes[*at] == b'/');
        for end in ends {
            let folder = Name::new(&bytes[..end])?;
            let mut read = |file: &[u8]| self.rules_in(protected, &folder, file);
            let entered = scope.enter(filter, &folder, &mut read);
            scope = entered.map_err(|error| TreeError::Rules { name: folder.clone(), error })?;
        }
        Ok(scope)
    }

    fn rules_in(&self, protected: &Protected, folder: &Name, file: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let name = folder.join(file).map_err(|error| error.to_string())?;
        if let Some(before) = protected.lock().files.get(&name) {
            return before.clone();
        }
        match self.lock().get(folder.as_bytes()) {
            Ok(open) => read_in(&*open, file),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(weir_units::plain(&errno.into())),
        }
    }
}

impl Protected {
    fn lock(&self) -> parking_lot::MutexGuard<'_, Before> {
        self.before.lock()
    }
}

impl Shared {
    /// Whether an extended attribute of what is here stays, though the source does not have it. Rules in
    /// folders are not asked.
    pub(super) fn spares_xattr(&self, name: &[u8]) -> bool {
        let by = |protected: &Protected| {
            !protected.filter.takes_xattr(&Scope::default(), name, Side::Receiver { doomed: false })
        };
        !is_acl(name) && self.protected.get().is_some_and(by)
    }

    /// What is at `last` in `directory` is about to be replaced: what is to be remembered or kept of it.
    pub(super) fn before_replacing(
        &self,
        directory: &OwnedFd,
        last: &[u8],
        name: &Name,
    ) -> Result<(), TreeError> {
        self.remember(directory, last, name);
        self.back_up(directory, last, name)
    }

    /// What a file of rules at `last` says, or that there is none, before that changes.
    pub(super) fn remember(&self, directory: &OwnedFd, last: &[u8], name: &Name) {
        if let Some(protected) = self.protected.get().filter(|protected| protected.filter.has_rules_in(last))
        {
            let mut before = protected.lock();
            if !before.files.contains_key(name) {
                let content = match before.bytes < MOST {
                    true => read_in(directory, last),
                    false => Err("more files of rules were replaced than are remembered".to_owned()),
                };
                before.bytes += content.iter().flatten().map(Vec::len).sum::<usize>();
                before.files.insert(name.clone(), content);
            }
        }
    }

    /// Keeps a backup of what is there and will be something else at once.
    pub(super) fn back_up(&self, directory: &OwnedFd, last: &[u8], name: &Name) -> Result<(), TreeError> {
        match self.backups.get() {
            Some(backups) => backups.keep(self, (directory, last), name),
            None => Ok(()),
        }
    }
}
