//! What a symbolic link leads to (`-L`), as an entry of the folder that it is in itself.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::Statx;
use rustix::io::Errno;

use super::{Root, open_around};
use crate::entry::Name;
use crate::error::TreeError;
use crate::source;

/// A folder, a last component in it, and what that is.
type Placed = (Arc<OwnedFd>, Box<[u8]>, Statx);

/// The folder of what the link `base` in `directory` leads to, its last component there, and what it is.
pub(super) fn of(directory: &OwnedFd, base: &[u8], name: &Name) -> Result<Placed, TreeError> {
    let failed = |errno| match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => TreeError::LeadsNowhere { name: name.clone() },
        errno => TreeError::of("read what is behind the link", name, errno),
    };
    // By the descriptor: the directory may have been reached over links, or be called otherwise by now.
    let path =
        Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(OsStr::from_bytes(base));
    let root = Root { path, name: name.clone(), follow: true };
    let (around, base) = open_around(&root).map_err(failed)?;
    let stat = source::stat(&around, &base).map_err(failed)?;
    Ok((around, base, stat))
}
