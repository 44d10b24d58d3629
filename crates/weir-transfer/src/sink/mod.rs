//! Where bytes end up: a part file that becomes the file, a small file in one piece, or a stream in order.

pub mod part_file;
pub mod read_ahead;
pub mod small_file;
pub mod stream;

use std::fs::symlink_metadata;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

pub use part_file::PartFile;
pub use stream::Stream;

use crate::error::Error;

/// The sink of one bulk object.
#[derive(Debug)]
pub enum Sink {
    /// Random places in a `.part` file.
    Part(PartFile),
    /// In order, through a bounded window.
    Stream(Stream),
}

impl Sink {
    /// Puts `pieces` at `offset`.
    pub fn write_at(&self, offset: u64, pieces: &mut [std::io::IoSlice<'_>]) -> Result<(), Error> {
        match self {
            Sink::Part(part) => part.write_at(offset, pieces),
            Sink::Stream(stream) => stream.write_at(offset, pieces),
        }
    }

    /// The part file, if it is one.
    pub fn part(&self) -> Option<&PartFile> {
        match self {
            Sink::Part(part) => Some(part),
            Sink::Stream(_) => None,
        }
    }

    /// Where the bytes go, unless to stdout.
    pub fn target(&self) -> Option<&Path> {
        match self {
            Sink::Part(part) => Some(part.target()),
            Sink::Stream(stream) => stream.path(),
        }
    }
}

/// Why no download may take the place of what lies at `target`, if so.
pub fn unfit(target: &Path) -> Option<&'static str> {
    let kind = std::fs::metadata(target).ok()?.file_type();
    if kind.is_socket() {
        Some("a socket; name a file, or a program that reads from '-o -'")
    } else if kind.is_block_device() {
        Some("a block device; weir does not write over disks, '-o - | dd of=...' does")
    } else {
        None
    }
}

/// The last guard before a name is given to a file: only a file or a link may lose it. Whoever decides where bytes go
/// has looked before, but that may be hours ago.
fn may_replace(target: &Path) -> io::Result<()> {
    match symlink_metadata(target).map(|there| there.file_type()) {
        Ok(kind) if !kind.is_file() && !kind.is_symlink() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "what is there is no file and stays"))
        }
        _ => Ok(()),
    }
}
