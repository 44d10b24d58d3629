//! What is in a target beyond what was copied, and its removal (`--delete`).

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, RawDir, SeekFrom, seek, unlinkat};
use rustix::io::Errno;

use super::{Kept, Target};
use crate::entry::{self, Name};
use crate::error::Error;
use crate::filter::Filter;
use crate::source;

impl Target {
    /// What is in `directory` here and not `kept`: what `--delete` would remove. What the filter leaves out is protected, and so
    /// are the parts of kept files. `each` is given some thousand names at a time, in order, and may remove them; the listing
    /// goes on behind them.
    pub fn extras(
        &self,
        directory: &Name,
        kept: &mut Kept,
        filter: &Filter,
        each: &mut dyn FnMut(Vec<Name>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let open = match self.lock().get(directory.as_bytes()) {
            Ok(open) => open,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(Error::on_the_way(directory, errno)),
        };
        let failed = |errno| Error::of("read", directory, errno);
        let mut buffer = [MaybeUninit::uninit(); LISTING];
        let mut entries = listing(&open, &mut buffer).map_err(failed)?;
        let mut extras = Vec::new();
        while let Some((base, is_directory)) = next(&open, &mut entries).map_err(failed)? {
            if kept.contains(&base) || kept.has_part(&base) {
                continue;
            }
            let name = directory.join(&base)?;
            if filter.takes(&name, is_directory) {
                extras.push(name);
            }
            if extras.len() >= MOST {
                each(in_order(&mut extras))?;
            }
        }
        each(in_order(&mut extras))
    }

    /// Removes what is there; a directory with all that is in it. Returns how many entries went. No link is followed.
    pub fn remove(&self, name: &Name) -> Result<u64, Error> {
        let Some(directory) = self.directory_of(name)? else { return Ok(0) };
        if name.is_root() {
            return Err(Error::of("remove", name, Errno::BUSY));
        }
        match unlinkat(&directory, name.last(), AtFlags::empty()) {
            Ok(()) => Ok(1),
            Err(Errno::NOENT) => Ok(0),
            // unlink(2) of a directory: EISDIR on Linux, EPERM elsewhere on the way (some FUSE).
            Err(Errno::ISDIR) => self.remove_tree(name),
            Err(errno) => Err(Error::of("remove", name, errno)),
        }
    }

    /// Each directory is opened anew from the root, one at a time: a tree of any depth costs one descriptor, and a
    /// directory that someone moves away meanwhile is not followed out of the tree.
    fn remove_tree(&self, name: &Name) -> Result<u64, Error> {
        self.lock().forget(name);
        let mut todo = vec![name.clone()];
        let mut removed = 0;
        while let Some(directory) = todo.last().cloned() {
            let failed = |errno| Error::of("remove", &directory, errno);
            let open = self.lock().get(directory.as_bytes()).map_err(failed)?;
            let before = todo.len();
            let mut buffer = [MaybeUninit::uninit(); LISTING];
            let mut entries = listing(&open, &mut buffer).map_err(failed)?;
            // Those folders that are too many for now are found when it is listed again.
            while todo.len() < before + MOST {
                let Some((base, is_directory)) = next(&open, &mut entries).map_err(failed)? else { break };
                if is_directory {
                    todo.push(directory.join(&base)?);
                } else {
                    unlinkat(&open, &base[..], AtFlags::empty()).map_err(failed)?;
                    removed += 1;
                }
            }
            if todo.len() == before {
                drop(open);
                self.lock().forget(&directory);
                let around = self.directory_of(&directory)?.ok_or(Errno::NOENT).map_err(failed)?;
                unlinkat(&around, directory.last(), AtFlags::REMOVEDIR).map_err(failed)?;
                removed += 1;
                todo.pop();
            }
        }
        Ok(removed)
    }
}

/// Names at a time, of 255 bytes at most.
const MOST: usize = 4096;

/// Bytes of a directory that are listed at a time.
const LISTING: usize = 32 << 10;

type Listing<'a> = RawDir<'a, BorrowedFd<'a>>;

/// A listing of an open directory from its beginning. The descriptor is shared by all who use the directory, its position too; only
/// listing uses that, and only one thread lists a directory.
fn listing<'a>(
    directory: &'a OwnedFd,
    buffer: &'a mut [MaybeUninit<u8>; LISTING],
) -> Result<Listing<'a>, Errno> {
    seek(directory, SeekFrom::Start(0))?;
    Ok(RawDir::new(directory.as_fd(), buffer))
}

/// What is next in it, and whether that is a directory.
fn next(directory: &OwnedFd, listing: &mut Listing<'_>) -> Result<Option<(Vec<u8>, bool)>, Errno> {
    while let Some(entry) = listing.next() {
        let entry = entry?;
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
