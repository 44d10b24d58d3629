//! Where bytes end up: a part file that becomes the file, a small file in one piece, or a stream in order.

pub mod attributes;
pub mod beside;
pub mod folder;
pub mod home;
pub mod in_place;
pub mod links;
pub mod naming;
pub mod part_file;
pub mod read_ahead;
pub mod small_file;
pub mod stamp;
pub mod stream;

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub use folder::Target;
use home::Home;
pub use part_file::PartFile;
use rustix::fs::{FileType, OFlags};
use small_file::Stored;
pub use stream::Stream;

use crate::error::GetError;

/// What becomes of a file that has the name which a complete one is to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// It is replaced.
    #[default]
    Replaced,
    /// It stays, since other hosts may be writing the same tree: with the same content the job is done, with
    /// another one it fails ([`GetError::Differs`]).
    Kept,
    /// It stays, since the user wants it so (`--no-clobber`). Its name is taken as for `Kept`; the part grows
    /// where one that replaces a file does.
    Stays,
}

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
    pub fn write_at(&self, offset: u64, pieces: &mut [std::io::IoSlice<'_>]) -> Result<(), GetError> {
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

/// Why no download may take the place of what lies at `target`, if so. A link is replaced, whatever it leads
/// to.
pub fn unfit(target: &Target) -> Option<&'static str> {
    match target.look().ok()?.as_ref().map(folder::kind)? {
        FileType::Socket => Some("a socket; name a file, or a program that reads from '-o -'"),
        FileType::BlockDevice => {
            Some("a block device; weir does not write over disks, '-o - | dd of=...' does")
        }
        _ => None,
    }
}

/// Puts `bytes`, all of a file, at `target`, and keeps the rights of the file that is there. Where that one
/// has to be written in place, they lie complete at `home` before.
pub fn store_whole(
    target: &Target,
    home: impl FnOnce() -> Result<Home, GetError>,
    bytes: &[u8],
    sync: bool,
) -> Result<(), GetError> {
    if small_file::store(target, bytes, sync)? == Stored::Named {
        return Ok(());
    }
    let part = PartFile::open(target, home()?)?;
    part.restart()?;
    let stored = part.write_at(0, &mut [IoSlice::new(bytes)]).and_then(|()| part.publish(sync));
    stored.inspect_err(|_| part.discard())
}

/// Opens a file that is there to read it; never waits for a pipe, nor sets a device to work.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
    if !path.metadata()?.is_file() {
        return Err(no_file());
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
}
