//! Lists without bound: their [`text`], read line by line; which lines are there twice and which files share
//! a name ([`order`], by [`sort`]ing on the disk what has no room in memory); and the [`journal`] that lets a
//! killed run go on in the middle. What a line means is for whoever reads it.

pub mod journal;
pub mod order;
pub mod sort;
pub mod text;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

/// A file without a name, which is gone when it is closed: in $TMPDIR, else in /var/tmp, which is rarely in
/// memory, else in /tmp.
pub fn nameless_file() -> io::Result<File> {
    let own = std::env::var_os("TMPDIR").filter(|own| !own.is_empty()).map(PathBuf::from);
    let usual = ["/var/tmp", "/tmp"].map(PathBuf::from);
    let mut last = io::ErrorKind::NotFound.into();
    for folder in own.into_iter().chain(usual) {
        match nameless_in(&folder) {
            Ok(file) => return Ok(file),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn nameless_in(folder: &Path) -> io::Result<File> {
    let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    match openat(CWD, folder, flags | OFlags::TMPFILE, mode) {
        // What kernels and file systems say that cannot (open(2), O_TMPFILE).
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
            let path = folder.join(format!("list-{:016x}.tmp", fastrand::u64(..)));
            let file = openat(CWD, &path, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode)?;
            unlinkat(CWD, &path, rustix::fs::AtFlags::empty())?;
            Ok(file.into())
        }
        other => Ok(other?.into()),
    }
}
