//! A file whose name no other can have: it is a mount point, as `/etc/hosts` of a container is. The complete,
//! verified file is copied into it.
//!
//! Whoever reads it meanwhile sees a part, and after an error half way that is what it holds.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, openat};
use rustix::io::Errno;

use super::attributes::{self, Was};
use super::{Shared, second_name};
use crate::entry::{self, Entry, Kind};
use crate::error::TreeError;
use crate::source;

/// Makes the file that is there one of the content of `from`, with the attributes of `entry`.
pub(super) fn write(
    shared: &Shared,
    from: &File,
    directory: &OwnedFd,
    entry: &Entry,
) -> Result<(), TreeError> {
    let name = &entry.name;
    let to = open(directory, name.last()).map_err(|errno| TreeError::of("open for writing", name, errno))?;
    // A full disk is noticed before anything is lost. File systems without fallocate say so during the copy.
    if let Kind::File { size, sparse: false } = entry.kind
        && let Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) =
            fallocate(&to, FallocateFlags::KEEP_SIZE, 0, size.max(1))
    {
        return Err(TreeError::of("reserve space for", name, errno));
    }
    tracing::warn!("{name}: it is a mount point; it is written in place, and incomplete meanwhile");
    let emptied = to.set_len(0).and_then(|()| to.set_len(entry.size()));
    emptied.map_err(|source| TreeError::Entry { action: "resize", name: name.clone(), source })?;
    second_name::copy_data(from, &to, entry)?;
    attributes::of_file(shared, to.as_fd(), entry, Was::There)?;
    shared.settle(&to, name)
}

fn open(directory: &OwnedFd, last: &[u8]) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(directory, last, flags, Mode::empty())?;
    match entry::file_type(&source::stat(&file, b"")?).is_file() {
        true => Ok(File::from(file)),
        false => Err(Errno::BUSY),
    }
}
