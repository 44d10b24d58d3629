//! What is in a target beyond what was copied, and its removal (`--delete`).

use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, RawDir, SeekFrom, seek, unlinkat};
use rustix::io::Errno;

use super::{Target, pending};
use crate::entry::{self, Name};
use crate::error::Error;
use crate::filter::Filter;
use crate::source;

impl Target {
    /// What is in `directory` here and not among `keep` (last components): what `--delete` would remove. What the
    /// filter leaves out is protected, and so are the parts of kept files.
    pub fn extras(
        &self,
        directory: &Name,
        keep: &HashSet<Vec<u8>>,
        filter: &Filter,
    ) -> Result<Vec<Name>, Error> {
        let open = match self.lock().get(directory.as_bytes()) {
            Ok(open) => open,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(errno) => return Err(Error::on_the_way(directory, errno)),
        };
        let mut parts: Option<HashSet<Vec<u8>>> = None;
        let mut extras = Vec::new();
        for (base, is_directory) in list(&open).map_err(|errno| Error::of("read", directory, errno))? {
            let is_part = |parts: &mut Option<HashSet<Vec<u8>>>| {
                let parts = parts
                    .get_or_insert_with(|| keep.iter().flat_map(|last| pending::part_names(last)).collect());
                parts.contains(&base)
            };
            if keep.contains(&base) || pending::is_part_name(&base) && is_part(&mut parts) {
                continue;
            }
            let name = directory.join(&base)?;
            if filter.takes(&name, is_directory) {
                extras.push(name);
            }
        }
        extras.sort_unstable();
        Ok(extras)
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
            for (base, is_directory) in list(&open).map_err(failed)? {
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

/// What is in an open directory, and whether it is a directory.
fn list(directory: &OwnedFd) -> Result<Vec<(Vec<u8>, bool)>, Errno> {
    let mut buffer = [MaybeUninit::uninit(); 32 << 10];
    // The descriptor is shared by all who use the directory, its position too; only listing uses that.
    seek(directory, SeekFrom::Start(0))?;
    let mut entries = RawDir::new(directory.as_fd(), &mut buffer);
    let mut found = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let base = entry.file_name().to_bytes();
        if base == b"." || base == b".." {
            continue;
        }
        let is_directory = match entry.file_type() {
            FileType::Unknown => entry::file_type(&source::stat(directory, base)?).is_dir(),
            known => known == FileType::Directory,
        };
        found.push((base.to_vec(), is_directory));
    }
    Ok(found)
}
