//! Where what comes is put, and how: what an end finds out before the first entry.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Once};

use weir_tree::destination::{self, Target};
use weir_tree::source::Identity;
use weir_tree::{Entry, Name, TreeError};

use super::{CopyDestination, Receiver};
use crate::error::CopyError;
use crate::roots::{self, Placement};
use crate::wire::message::{Failure, FailureKind, Root};
use crate::wire::owners::{Given, Owners};
use crate::wire::selection::Backup;

impl Receiver {
    /// What the sender's users and groups are called.
    pub(super) fn know_owners(&self, owners: Owners) -> Result<(), CopyError> {
        if self.place.get().is_some() || self.given.get().is_some() {
            return Err(self.events.out_of_turn("its users and groups too late"));
        }
        let given = Given::new(self.options.selection.owners.clone(), owners);
        if let Some(unknown) = given.unknown() {
            return Err(CopyError::Refused(Failure::local(format_args!(
                "no user or group {unknown:?} at the target; name an existing one, or a number"
            ))));
        }
        // Only ever set here, which happens once.
        let _ = self.given.set(given);
        Ok(())
    }

    /// Gives an entry to whom it is to belong here.
    pub(super) fn give(&self, entry: &mut Entry) {
        if let Some(given) = self.given.get() {
            (entry.uid, entry.gid) = (given.user(entry.uid), given.group(entry.gid));
        }
    }

    /// The place of these sources, in the order in which they were named, and what those are called there
    /// that are to be copied.
    pub(super) fn find_place(
        &self,
        mut roots: Vec<Option<Root>>,
    ) -> Result<(CopyDestination, Vec<Name>), CopyError> {
        if let Some(names) = &self.wanted.names {
            if names.len() != roots.len() {
                return Err(self.events.out_of_turn("sources that were not asked for"));
            }
            for (root, name) in roots.iter_mut().zip(names) {
                root.iter_mut().for_each(|root| root.name = name.clone());
            }
        }
        let several = roots.len() > 1;
        let roots: Vec<Root> = roots.into_iter().flatten().collect();
        if roots.is_empty() {
            return Err(self.events.out_of_turn("that it has no sources"));
        }
        let same_machine = self.wanted.same_machine;
        let placed = roots::place(&self.wanted.to, &roots, several, same_machine, &self.options);
        let placed = placed.map_err(CopyError::Refused)?;
        let Placement { target, names, begun, goes_on, folder, made, inside } = placed;
        if let Some(name) = begun.as_ref().filter(|_| goes_on) {
            let words = if self.options.delete { " without removing anything" } else { "" };
            let words =
                format!("{name} was started by this command and is incomplete: resuming there{words}");
            self.problem(name.clone(), Failure::new(FailureKind::Local, words), true);
        }
        if let Some(most) = self.options.selection.max_delete {
            target.limit_removals(most);
        }
        let readied = self.earlier(&folder).and_then(|before| {
            let backup = self.options.selection.backup.as_ref();
            let spared = backup.map(|backup| self.keep_backups(&target, &folder, backup)).transpose()?;
            Ok((before, spared.flatten()))
        });
        let (before, spared) = readied.inspect_err(|_| made.undo()).map_err(CopyError::Refused)?;
        target.protect(&self.options.filter, folder, names.clone());
        let place = CopyDestination {
            target: Arc::new(target),
            roots: names.clone(),
            begun,
            made: Once::new(),
            before,
            spared,
            goes_on,
            inside,
        };
        Ok((place, names))
    }

    /// Finds the place of these sources for an end that only foretells a copy, whose options are those of a
    /// dry run. Returns their names, and the target where it is in a source.
    pub(crate) fn would_place(
        &self,
        roots: Vec<Option<Root>>,
    ) -> Result<(Vec<Name>, Option<Identity>), CopyError> {
        let (place, names) = self.find_place(roots)?;
        let inside = place.inside;
        match self.place.set(place) {
            Ok(()) => Ok((names, inside)),
            Err(_) => Err(self.events.out_of_turn("its sources twice")),
        }
    }

    /// Earlier copies beside the target in `folder`, as they were named. A missing one is noted: the first of
    /// many copies has none before it.
    fn earlier(&self, folder: &Path) -> Result<Vec<Target>, Failure> {
        let keep = roots::kept(&self.options);
        let own = destination::Options { create: false, keep, ..Default::default() };
        let mut earlier = Vec::new();
        for named in &self.options.selection.link_dest {
            let path = folder.join(roots::expand(named));
            match Target::open(&resolved(&path).unwrap_or(path), own) {
                Ok(before) => earlier.push(before),
                Err(error) if error.is_gone() => {
                    let named = String::from_utf8_lossy(named);
                    let words = format_args!("--link-dest {named} is not there: nothing is linked to it");
                    self.problem(Name::root(), Failure::local(words), true);
                }
                // As it was written.
                Err(TreeError::Path { action, source, .. }) => {
                    let path = OsStr::from_bytes(named).into();
                    return Err(Failure::local(TreeError::Path { action, path, source }));
                }
                Err(error) => return Err(Failure::local(error)),
            }
        }
        Ok(earlier)
    }

    /// Whether an earlier copy has the file as it is to be, and what is there by now is that one.
    pub(super) fn is_linked(&self, place: &CopyDestination, entry: &Entry) -> bool {
        let window = self.options.modify_window;
        let Some(before) = place.before.iter().find(|before| before.has_same(entry, window)) else {
            return false;
        };
        if self.options.dry_run {
            return true;
        }
        place.begin_folder(&self.options.command);
        match place.target.link_from(before, &entry.name) {
            Ok(()) => true,
            // Another file system, or too many names of one file: it is copied.
            Err(error) => {
                tracing::debug!("{error}");
                false
            }
        }
    }

    /// Has what is replaced kept. The name of the folder for it, where that is in the target.
    fn keep_backups(&self, target: &Target, folder: &Path, backup: &Backup) -> Result<Option<Name>, Failure> {
        let Some(into) = &backup.folder else {
            if backup.suffix.is_empty() || backup.suffix.contains(&b'/') {
                return Err(Failure::local("a backup beside its file needs a suffix, without slashes"));
            }
            target.keep_backups(None, &backup.suffix);
            return Ok(None);
        };
        let path = folder.join(roots::expand(into));
        let spared = name_within(folder, &path);
        if spared.as_ref().is_some_and(Name::is_root) {
            return Err(Failure::local("the folder of backups is the target itself; name another"));
        }
        if self.options.dry_run {
            return Ok(spared);
        }
        let failed = |source| TreeError::Path { action: "create", path: path.clone(), source };
        std::fs::create_dir_all(&path).map_err(failed).map_err(Failure::local)?;
        let own = destination::Options { create: false, ..destination::Options::default() };
        let kept_in = Target::open(&path, own).map_err(Failure::local)?;
        target.keep_backups(Some(kept_in), &backup.suffix);
        Ok(spared)
    }

    /// Whether an entry is passed over for what is at the target, or is not.
    pub(super) fn leaves(&self, place: &CopyDestination, entry: &Entry) -> bool {
        let selection = &self.options.selection;
        if !selection.ignore_existing && !selection.existing {
            return false;
        }
        let is_there = match entry.is_directory() {
            // A folder is gone into, also where it is to stay as it is.
            true => return selection.existing && !place.target.has_directory(&entry.name),
            false => place.target.existing(&entry.name).is_ok_and(|there| there.is_some()),
        };
        let leaves = selection.leaves(is_there);
        if leaves && self.options.archive {
            self.left.note(&entry.name, 0);
        }
        leaves
    }
}

/// What is called `path` below `folder`, where it is.
fn name_within(folder: &Path, path: &Path) -> Option<Name> {
    let (folder, path) = (resolved(folder)?, resolved(path)?);
    let inside = path.strip_prefix(folder).ok()?;
    Name::new(inside.as_os_str().as_bytes()).ok()
}

/// A path without links and `..`, as far as it is there; what does not exist yet has no links in it.
fn resolved(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|above| {
        let here = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        let mut whole = here.canonicalize().ok()?;
        for component in path.strip_prefix(above).ok()?.components() {
            match component {
                Component::ParentDir => _ = whole.pop(),
                component => whole.push(component),
            }
        }
        Some(whole)
    })
}
