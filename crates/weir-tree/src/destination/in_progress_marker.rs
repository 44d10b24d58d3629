//! A folder that a copy made under a new name and has not filled yet: a mark beside it tells the same
//! command, given again, to go on in it rather than put a second one into it.
//!
//! The mark is `.NAME.weir-part`, as the part of a file is. It holds a digest of the command and of the
//! folder's inode and time of birth: neither another command nor a folder that somebody made since goes by
//! it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, openat, statx, unlinkat};
use rustix::io::Errno;

use super::{Target, pending};
use crate::entry::{self, Name};
use crate::error::TreeError;

/// Bytes of a mark, and one more by which a longer file is known for another.
const MARK: u64 = 128;

/// Its first line, for people.
pub(super) const MARKED: &str = "weir cp has not filled this folder yet\n";

impl Target {
    /// Makes the folder `name` and marks it as made by `command`. A mark that cannot be written is no error:
    /// what it would tell is lost.
    pub fn begin_folder(&self, name: &Name, command: &[u8; 32]) -> Result<(), TreeError> {
        self.directory(name)?;
        let Some(around) = self.directory_of(name)? else { return Ok(()) };
        if let Err(error) = self.end_folder(name).and_then(|()| {
            let mark = mark(&around, name, command).map_err(|errno| TreeError::of("look at", name, errno))?;
            write(&around, name, &mark)
        }) {
            tracing::debug!("{error}");
        }
        Ok(())
    }

    /// Whether the folder `name` was made by `command`, which did not come to its end.
    pub fn is_begun(&self, name: &Name, command: &[u8; 32]) -> bool {
        let Ok(Some(around)) = self.directory_of(name) else { return false };
        let Ok(mark) = mark(&around, name, command) else { return false };
        pending::part_names(name.last()).any(|part| read(&around, &part).is_ok_and(|there| there == mark))
    }

    /// Takes the mark of `name` away, if there is one; not the part of a file that was to be called so.
    pub fn end_folder(&self, name: &Name) -> Result<(), TreeError> {
        let Some(around) = self.directory_of(name)? else { return Ok(()) };
        for part in pending::part_names(name.last()) {
            if read(&around, &part).is_ok_and(|there| there.starts_with(MARKED)) {
                let gone = unlinkat(&around, part, AtFlags::empty());
                return gone.map_err(|errno| TreeError::of("remove the mark of", name, errno));
            }
        }
        Ok(())
    }
}

/// What the mark of the folder `name`, which is there, says.
fn mark(around: &OwnedFd, name: &Name, command: &[u8; 32]) -> Result<String, Errno> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::BTIME;
    let stat = statx(around, name.last(), AtFlags::SYMLINK_NOFOLLOW, wanted)?;
    if !entry::file_type(&stat).is_dir() {
        return Err(Errno::NOTDIR);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(command).update(&stat.stx_ino.to_le_bytes());
    // Zeros where the file system keeps none.
    hasher.update(&stat.stx_btime.tv_sec.to_le_bytes()).update(&stat.stx_btime.tv_nsec.to_le_bytes());
    Ok(format!("{MARKED}{}\n", hasher.finalize()))
}

fn write(around: &OwnedFd, name: &Name, mark: &str) -> Result<(), TreeError> {
    let failed = |errno| TreeError::of("mark", name, errno);
    let made = pending::part_names(name.last())
        .map(|part| pending::create(around, &part))
        .find(|made| !matches!(made, Err(Errno::NAMETOOLONG)));
    let file = made.unwrap_or(Err(Errno::NAMETOOLONG)).map_err(failed)?;
    let written = File::from(file).write_all(mark.as_bytes());
    written.map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))
}

fn read(around: &OwnedFd, part: &[u8]) -> std::io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(around, part, flags, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL.into());
    }
    let mut there = String::new();
    File::from(file).take(MARK).read_to_string(&mut there)?;
    Ok(there)
}
