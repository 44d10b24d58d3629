//! Names that outlive a power cut: a file's own sync says nothing of the folder that it is in (fsync(2)).

use std::collections::HashSet;

use rustix::fs::{Mode, OFlags, fsync, openat};

use super::{Target, open_file};
use crate::entry::Name;
use crate::error::TreeError;

impl Target {
    /// Waits until what has this name, and the name, are on the disk, with those of the folders on the way.
    pub fn make_durable(&self, name: &Name) -> Result<(), TreeError> {
        let failed = |errno| TreeError::of("sync", name, errno);
        let gone = || failed(rustix::io::Errno::NOENT);
        let directory = self.directory_of(name)?.ok_or_else(gone)?;
        fsync(open_file(&directory, name.last()).map_err(failed)?).map_err(failed)?;
        self.make_names_durable([name])
    }

    /// Waits until these names are on the disk, with those of the folders on the way; each folder is waited
    /// for once. For what is all name, such as a link.
    pub fn make_names_durable<'a>(&self, names: impl IntoIterator<Item = &'a Name>) -> Result<(), TreeError> {
        let mut done = HashSet::new();
        for name in names {
            let mut around = name.parent();
            while let Some(folder) = around.filter(|folder| !done.contains(folder)) {
                let failed = |errno| TreeError::of("sync", name, errno);
                let directory = self.lock().get(folder.as_bytes()).map_err(failed)?;
                // Anew: it may have been opened only to pass through.
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                fsync(openat(&*directory, ".", flags, Mode::empty()).map_err(failed)?).map_err(failed)?;
                around = folder.parent();
                done.insert(folder);
            }
        }
        Ok(())
    }
}
