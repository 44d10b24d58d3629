//! What is in a target beyond what was copied, and its removal (`--delete`).

use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, RawDir, SeekFrom, seek, unlinkat};
use rustix::io::Errno;

use super::backup::Backups;
use super::{KeepSet, Target};
use crate::entry::{self, Name};
use crate::error::TreeError;
use crate::filter::{Filter, Side};
use crate::source;

impl Target {
    /// What is in `directory` here and not `keep_set`: what `--delete` would remove. What the filter leaves
    /// out is protected, and so are the parts of kept files, and what this run put there under another
    /// spelling that the file system holds for the same. `each` is given some thousand names at a time, in
    /// order, and may remove them; the listing goes on behind them.
    pub fn extras(
        &self,
        directory: &Name,
        keep_set: &mut KeepSet,
        filter: &Filter,
        each: &mut dyn FnMut(Vec<Name>) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let open = match self.lock().get(directory.as_bytes()) {
            Ok(open) => open,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(TreeError::on_the_way(directory, errno)),
        };
        let failed = |errno| TreeError::of("read", directory, errno);
        let scope = self.scope(filter, directory)?;
        let mut buffer = [MaybeUninit::uninit(); LISTING];
        let mut entries = listing(&open, &mut buffer).map_err(failed)?;
        let mut extras = Vec::new();
        while let Some((base, is_directory)) = next(&open, &mut entries).map_err(failed)? {
            if keep_set.contains(&base)
                || keep_set.has_part(&base)
                || !is_directory && self.shared.backups.get().is_some_and(|backups| backups.has(&base))
                || self.shared.case_folding.placed(&open, directory, &base)
            {
                continue;
            }
            let name = directory.join(&base)?;
            if filter.decides(&scope, &name, is_directory, Side::Receiver { doomed: false }) {
                extras.push(name);
            }
            if extras.len() >= MOST {
                each(in_order(&mut extras))?;
            }
        }
        each(in_order(&mut extras))
    }

    /// Removes what is there; a directory with all that is in it, but for what the filter leaves out and the
    /// directories on the way to that. No link is followed. Where backups are kept files go there.
    pub fn remove(&self, name: &Name, filter: &Filter) -> Result<Removed, TreeError> {
        let Some(directory) = self.directory_of(name)? else { return Ok(Removed::default()) };
        if name.is_root() {
            return Err(TreeError::of("remove", name, Errno::BUSY));
        }
        match self.unlink(&directory, name.last(), name) {
            Ok(Unlinked::Gone) => Ok(Removed { entries: 1, ..Removed::default() }),
            Ok(Unlinked::AtLimit) => Ok(Removed { at_limit: true, ..Removed::default() }),
            Ok(Unlinked::WasNot) => Ok(Removed::default()),
            Ok(Unlinked::Directory) => self.remove_tree(name, filter),
            Err(error) => Err(error),
        }
    }

    /// Removes what is no directory, within the limit.
    fn unlink(&self, directory: &OwnedFd, last: &[u8], name: &Name) -> Result<Unlinked, TreeError> {
        let failed = |errno| TreeError::of("remove", name, errno);
        let is_directory = |stat: rustix::fs::Statx| entry::file_type(&stat).is_dir();
        if self.shared.limit.is_set() || self.shared.backups.get().is_some() {
            match source::stat(directory, last).map(is_directory) {
                Ok(true) => return Ok(Unlinked::Directory),
                Ok(false) => {}
                Err(Errno::NOENT) => return Ok(Unlinked::WasNot),
                Err(errno) => return Err(failed(errno)),
            }
        }
        if !self.shared.limit.take() {
            return Ok(Unlinked::AtLimit);
        }
        let gone = match self.shared.backups.get() {
            Some(backups) if backups.has(last) => Ok(Unlinked::WasNot),
            Some(backups) => {
                backups.take_away(&self.shared, (directory, last), name).map(|()| Unlinked::Gone)
            }
            None => match unlinkat(directory, last, AtFlags::empty()) {
                Ok(()) => Ok(Unlinked::Gone),
                Err(Errno::NOENT) => Ok(Unlinked::WasNot),
                // unlink(2) of a directory: EISDIR on Linux, EPERM elsewhere on the way (some FUSE).
                Err(Errno::ISDIR) => Ok(Unlinked::Directory),
                Err(errno) => Err(failed(errno)),
            },
        };
        if !matches!(gone, Ok(Unlinked::Gone)) {
            self.shared.limit.give_back();
        }
        gone
    }

    /// Tells what [`Target::remove`] would remove: one name, or where something in it is protected all that
    /// is not, in the order of a walk and without what is in it. Where the number is limited each name is
    /// told, a folder's after what is in it. False where the limit ended it.
    pub fn would_remove(
        &self,
        name: Name,
        filter: &Filter,
        mut each: impl FnMut(Name),
    ) -> Result<bool, TreeError> {
        if self.shared.limit.is_set() {
            return self.would_remove_within(name, filter, &mut each);
        }
        let staying = self.staying(&name, filter)?;
        let mut todo = vec![name];
        while let Some(name) = todo.pop() {
            if !staying.contains(&name) {
                each(name);
                continue;
            }
            let mut inside: Vec<Name> =
                self.unprotected(&name, filter)?.into_iter().map(|(name, _)| name).collect();
            inside.sort_unstable();
            todo.extend(inside.into_iter().rev());
        }
        Ok(true)
    }

    fn would_remove_within(
        &self,
        name: Name,
        filter: &Filter,
        each: &mut dyn FnMut(Name),
    ) -> Result<bool, TreeError> {
        let staying = self.staying(&name, filter)?;
        // With whether all that is in it was told.
        let mut todo = vec![(name, false)];
        while let Some((name, is_empty)) = todo.pop() {
            let inside = match is_empty || !self.has_directory(&name) {
                true => Vec::new(),
                false => self.unprotected(&name, filter)?,
            };
            if !inside.is_empty() {
                todo.push((name, true));
                todo.extend(inside.into_iter().map(|(name, _)| (name, false)));
            } else if !staying.contains(&name) {
                if !self.shared.limit.take() {
                    return Ok(false);
                }
                each(name);
            }
        }
        Ok(true)
    }

    /// What is in a directory that goes, and may go with it.
    fn unprotected(&self, directory: &Name, filter: &Filter) -> Result<Vec<(Name, bool)>, TreeError> {
        let scope = self.scope(filter, directory)?;
        let mut inside = Vec::new();
        let listed = self.list(directory, &mut |entry, is_directory| {
            if filter.decides(&scope, &entry, is_directory, DOOMED) {
                inside.push((entry, is_directory));
            }
        });
        listed.map_err(|errno| TreeError::of("read", directory, errno))?;
        Ok(inside)
    }

    /// The directories from `name` downwards that have something protected in them, at any depth.
    pub(super) fn staying(&self, name: &Name, filter: &Filter) -> Result<HashSet<Name>, TreeError> {
        let mut staying = HashSet::new();
        let mut todo = vec![name.clone()];
        let may_stay = !filter.is_empty() || self.shared.backups.get().is_some_and(Backups::are_beside);
        while may_stay && let Some(directory) = todo.pop() {
            let mut has_protected = false;
            let scope = self.scope(filter, &directory)?;
            let backs_up = self.shared.backups.get().is_some_and(Backups::are_beside);
            let listed = self.list(&directory, &mut |entry, is_directory| {
                if !filter.decides(&scope, &entry, is_directory, DOOMED) || backs_up && !is_directory {
                    // A backup beside what goes keeps the folder, too.
                    has_protected = true;
                } else if is_directory {
                    todo.push(entry);
                }
            });
            match listed {
                Ok(()) => {}
                // No directory, or gone meanwhile.
                Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => continue,
                Err(errno) => return Err(TreeError::of("read", &directory, errno)),
            }
            let mut around = Some(directory).filter(|_| has_protected);
            while let Some(stays) = around.filter(|stays| stays.is_within(name)) {
                around = stays.parent();
                if !staying.insert(stays) {
                    break;
                }
            }
        }
        Ok(staying)
    }

    /// Each entry of a directory, and whether it is one itself.
    fn list(&self, directory: &Name, each: &mut dyn FnMut(Name, bool)) -> Result<(), Errno> {
        let open = self.lock().get(directory.as_bytes())?;
        let mut buffer = [MaybeUninit::uninit(); LISTING];
        let mut entries = listing(&open, &mut buffer)?;
        while let Some((base, is_directory)) = next(&open, &mut entries)? {
            // One that is too long to be named is none that a run could have put there.
            if let Ok(name) = directory.join(&base) {
                each(name, is_directory);
            }
        }
        Ok(())
    }

    /// Each directory is opened anew from the root, one at a time: a tree of any depth costs one descriptor,
    /// and a directory that someone moves away meanwhile is not followed out of the tree.
    fn remove_tree(&self, name: &Name, filter: &Filter) -> Result<Removed, TreeError> {
        let mut staying = self.staying(name, filter)?;
        let stays = !staying.is_empty();
        self.lock().forget(name);
        let mut todo = vec![name.clone()];
        let mut removed = 0;
        // Those of `staying` in which nothing is left to do.
        let mut done = HashSet::new();
        while let Some(directory) = todo.last().cloned() {
            let failed = |errno| TreeError::of("remove", &directory, errno);
            let open = self.lock().get(directory.as_bytes()).map_err(failed)?;
            let scope = self.scope(filter, &directory)?;
            let before = todo.len();
            let mut buffer = [MaybeUninit::uninit(); LISTING];
            let mut entries = listing(&open, &mut buffer).map_err(failed)?;
            // Those folders that are too many for now are found when it is listed again.
            while todo.len() < before + MOST {
                let Some((base, is_directory)) = next(&open, &mut entries).map_err(failed)? else { break };
                // One whose whole name would be too long is none that a pattern was meant for.
                let entry = directory.join(&base);
                if entry.as_ref().is_ok_and(|entry| {
                    !filter.decides(&scope, entry, is_directory, DOOMED) || done.contains(entry)
                }) {
                    continue;
                }
                if is_directory {
                    todo.push(entry?);
                    continue;
                }
                match self.unlink(&open, &base, entry.as_ref().unwrap_or(&directory))? {
                    Unlinked::Gone => removed += 1,
                    Unlinked::AtLimit => return Ok(Removed { entries: removed, stays, at_limit: true }),
                    Unlinked::WasNot | Unlinked::Directory => {}
                }
            }
            if todo.len() == before && staying.remove(&directory) {
                done.insert(directory);
                todo.pop();
            } else if todo.len() == before {
                if !self.shared.limit.take() {
                    return Ok(Removed { entries: removed, stays, at_limit: true });
                }
                drop(open);
                self.lock().forget(&directory);
                let around = self.directory_of(&directory)?.ok_or(Errno::NOENT).map_err(failed)?;
                unlinkat(&around, directory.last(), AtFlags::REMOVEDIR).map_err(failed)?;
                removed += 1;
                todo.pop();
            }
        }
        Ok(Removed { entries: removed, stays, at_limit: false })
    }
}

/// What a removal did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Entries that went.
    pub entries: u64,
    /// The directory stays, for what is protected in it.
    pub stays: bool,
    /// It stays, in part at least, since no more may be removed.
    pub at_limit: bool,
}

/// What became of one entry.
#[derive(Debug, PartialEq, Eq)]
enum Unlinked {
    Gone,
    WasNot,
    Directory,
    AtLimit,
}

/// Of what is in a directory that is removed.
const DOOMED: Side = Side::Receiver { doomed: true };

/// Names at a time, of 255 bytes at most.
const MOST: usize = 4096;

/// Bytes of a directory that are listed at a time.
const LISTING: usize = 32 << 10;

type Listing<'a> = RawDir<'a, BorrowedFd<'a>>;

/// A listing of an open directory from its beginning. The descriptor is shared by all who use the directory,
/// its position too; only listing uses that, and only one thread lists a directory.
fn listing<'a>(
    directory: &'a OwnedFd,
    buffer: &'a mut [MaybeUninit<u8>; LISTING],
) -> Result<Listing<'a>, Errno> {
    // Opened only to pass through (O_PATH): it may not be read.
    seek(directory, SeekFrom::Start(0))
        .map_err(|errno| if errno == Errno::BADF { Errno::ACCESS } else { errno })?;
    Ok(RawDir::new(directory.as_fd(), buffer))
}

/// What is next in it, and whether that is a directory.
fn next(directory: &OwnedFd, listing: &mut Listing<'_>) -> Result<Option<(Vec<u8>, bool)>, Errno> {
    while let Some(entry) = listing.next() {
        let entry = match entry {
            // A directory that was removed has nothing in it.
            Err(Errno::NOENT) => return Ok(None),
            entry => entry?,
        };
        let base = entry.file_name().to_bytes();
        if base == b"." || base == b".." {
            continue;
        }
        let is_directory = match entry.file_type() {
            FileType::Unknown => entry::file_type(&source::stat(directory, base)?).is_dir(),
            known => known == FileType::Directory,
        };
        return Ok(Some((base.to_vec(), is_directory)));
    }
    Ok(None)
}

fn in_order(names: &mut Vec<Name>) -> Vec<Name> {
    let mut names = std::mem::take(names);
    names.sort_unstable();
    names
}
