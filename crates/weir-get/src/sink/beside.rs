//! Opens everything that lies beside a target: `NAME.part`, `NAME.weir`, `NAME.weir~`, and temporary names.
//!
//! In a folder that others may write, any of these names can be bait: a link to one of your files, a pipe
//! that never answers, a part with foreign bytes. weir uses a file only if all of this holds for the
//! descriptor it opened:
//!
//! 1. No link was followed and nothing was waited for (O_NOFOLLOW, O_NONBLOCK).
//! 2. It is a regular file and this is its only name.
//! 3. It belongs to this user. For root, the folder's owner counts too: root resumes what they began.
//! 4. Nobody else may write it.
//!
//! Anything else is renamed, not deleted, since it may be somebody's file. So may a part that all of it holds
//! for: browsers and other fetchers call theirs `NAME.part` too. It is weir's if a journal lies beside it or
//! if weir has marked it ([`is_leftover`]); any other stays as it is, since it may be growing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, XattrFlags, fcntl_setfl, fgetxattr, fremovexattr,
    fsetxattr, fstat, openat, seek, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use weir_units::atomic_file;

use super::folder::{Folder, is_same, kind};
use super::home;

/// Nobody but its owner reads a file before it is complete.
const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// Others may swap the file between two calls. Someone who wins the race this often will keep winning.
const TRIES: usize = 16;

/// Names tried for a file that is put aside. More than a hundred in one folder would be an attack, not an
/// accident.
const ASIDES: usize = 100;

/// NAME_MAX of Linux.
const MAX_NAME: usize = 255;

/// The attribute of a file that has a part's name, as long as it has that.
pub const MARK: &str = "user.weir.part";

/// What a file beside a target is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// A journal: to be read.
    Reading,
    /// A part: to be read and written.
    Writing,
}

/// What lies beside a target.
#[derive(Debug)]
pub enum Found {
    /// Nothing, now: what was not ours has been put aside.
    Nothing,
    /// A file of ours.
    Ours(File),
    /// Something that is not ours and cannot be put aside, and why that is so.
    Blocked(String),
}

/// Opens `name`, and puts aside what is not ours.
pub fn open(folder: &Folder, name: &OsStr, what: For) -> io::Result<Found> {
    for _ in 0..TRIES {
        let why = match try_open(folder, name, what)? {
            Tried::Nothing => return Ok(Found::Nothing),
            Tried::Ours(file) => return Ok(Found::Ours(file)),
            Tried::Changed => continue,
            Tried::NotOurs(why) => why,
        };
        let shown = folder.shown(name);
        match put_aside(folder, name) {
            Ok(Some(aside)) => {
                tracing::warn!("{} {why}; renamed to {}", shown.display(), aside.display());
                return Ok(Found::Nothing);
            }
            Ok(None) => {}
            Err(error) => {
                let error = weir_units::plain(&error);
                return Ok(Found::Blocked(format!(
                    "{} {why} and cannot be renamed: {error}",
                    shown.display()
                )));
            }
        }
    }
    Ok(Found::Blocked(format!("{} is being changed by another program", folder.shown(name).display())))
}

/// Opens `name` if it is ours, and leaves everything as it is.
pub fn peek(folder: &Folder, name: &OsStr, what: For) -> io::Result<Option<File>> {
    Ok(match try_open(folder, name, what)? {
        Tried::Ours(file) => Some(file),
        _ => None,
    })
}

/// Makes `name`, which nothing may have: EEXIST also where a link that leads nowhere has it.
pub fn create(folder: &Folder, name: &OsStr) -> io::Result<File> {
    Ok(atomic_file::create_new(folder, name, PRIVATE)?.into())
}

/// Makes a file without a name in `folder`; an error where the file system has none.
pub fn create_unnamed(folder: &Folder) -> io::Result<File> {
    Ok(openat(folder, ".", OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, PRIVATE)?.into())
}

/// Makes a file under a name for a moment, or for this run alone. Returns the name too.
pub fn create_passing(folder: &Folder, target: &OsStr) -> io::Result<(OsString, File)> {
    let mut tries = 0;
    loop {
        let name = passing_name(target);
        match create(folder, &name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => tries += 1,
            other => return Ok((name, other?)),
        }
    }
}

/// Says of a file that is to have a part's name that it is weir's, where the file system keeps such words.
pub fn mark(file: &File) {
    let _ = fsetxattr(file, MARK, b"1", XattrFlags::empty());
}

/// Takes the word back, before the file gets its own name.
pub fn unmark(file: &File) {
    let _ = fremovexattr(file, MARK);
}

/// Whether a file of ours in `folder` that has a part's name, without a journal, is one that weir began:
/// marked so, or without any data. Where the file system keeps no marks, one with the mode of a part.
pub fn is_leftover(folder: &Folder, file: &File) -> bool {
    let Ok(stat) = fstat(file) else { return false };
    match fgetxattr(file, MARK, &mut [0_u8; 8]) {
        Ok(_) => return true,
        Err(Errno::NODATA) => {}
        Err(_) => return folder.has_private_mode(&stat),
    }
    // A reserved file that nothing was written to has a size and no data (lseek(2), ENXIO).
    let is_empty = stat.st_size == 0 || seek(file, SeekFrom::Data(0)) == Err(Errno::NXIO);
    is_empty && folder.has_private_mode(&stat)
}

/// A name that nobody can foresee. Its ending is as long as what names leave room for
/// (`filename::PART_SUFFIX`).
pub fn passing_name(target: &OsStr) -> OsString {
    let ending = format!(".{:04x}.part", fastrand::u16(..));
    let mut name = home::stem(target, &ending).into_owned();
    name.push(ending);
    name
}

/// Removes `name` if it still is this file.
pub fn remove(folder: &Folder, name: &OsStr, file: &File) {
    if folder.has(name, file).unwrap_or(false) {
        let _ = unlinkat(folder, name, AtFlags::empty());
    }
}

enum Tried {
    Nothing,
    Ours(File),
    /// It is another file than a moment ago.
    Changed,
    NotOurs(String),
}

fn try_open(folder: &Folder, name: &OsStr, what: For) -> io::Result<Tried> {
    // Looked at before it is opened: to open a device may set it to work (a watchdog, a tape).
    let Some(before) = folder.look(name)? else { return Ok(Tried::Nothing) };
    if let Some(why) = distrust(&before, folder) {
        return Ok(Tried::NotOurs(why.to_owned()));
    }
    let access = if what == For::Reading { OFlags::RDONLY } else { OFlags::RDWR };
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(folder, name, access | flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(Tried::Changed),
        // Ours, but it cannot be opened (`chattr +i`, mode 0400). For a journal, the reader reports the error
        // itself.
        Err(errno @ (Errno::ACCESS | Errno::PERM)) if what == For::Writing => {
            let error = weir_units::plain(&errno.into());
            return Ok(Tried::NotOurs(format!("cannot be opened ({error})")));
        }
        Err(errno) => return Err(errno.into()),
    };
    let stat = fstat(&file)?;
    if !is_same(&before, &stat) || stat.st_nlink == 0 {
        return Ok(Tried::Changed);
    }
    if let Some(why) = distrust(&stat, folder) {
        return Ok(Tried::NotOurs(why.to_owned()));
    }
    fcntl_setfl(&file, access)?;
    Ok(Tried::Ours(file.into()))
}

/// Why this is not taken for weir's own, if so.
fn distrust(stat: &Stat, folder: &Folder) -> Option<&'static str> {
    let trusted = |uid| geteuid().is_root() && folder.owner() == Some(uid) || folder.is_ours(uid);
    match kind(stat) {
        FileType::RegularFile if !trusted(stat.st_uid) => Some("belongs to another user"),
        FileType::RegularFile if stat.st_nlink > 1 => Some("has other names too (hard links)"),
        FileType::RegularFile if folder.others_write(stat.st_mode) => Some("can be written by others"),
        FileType::RegularFile => None,
        FileType::Symlink => Some("is a symbolic link"),
        FileType::Directory => Some("is a folder"),
        FileType::Fifo => Some("is a pipe"),
        FileType::Socket => Some("is a socket"),
        _ => Some("is a device"),
    }
}

/// Gives what has this name one that nothing has, and returns that; `None` if nothing has it any more.
pub fn put_aside(folder: &Folder, name: &OsStr) -> io::Result<Option<std::path::PathBuf>> {
    for number in 1..=ASIDES {
        let aside = aside_name(name, number);
        match atomic_file::rename_to_free(folder, name, &aside) {
            Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => return Ok(None),
            other => return other.map(|()| Some(folder.shown(&aside))).map_err(io::Error::from),
        }
    }
    Err(Errno::EXIST.into())
}

fn aside_name(name: &OsStr, number: usize) -> OsString {
    let ending = format!(".aside-{number}");
    let bytes = name.as_bytes();
    let mut aside = OsStr::from_bytes(&bytes[..bytes.len().min(MAX_NAME - ending.len())]).to_owned();
    aside.push(&ending);
    aside
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_a_private_file_of_ours_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let at = |name: &str| dir.path().join(name);
        let name = OsStr::new("x.part");
        assert!(matches!(open(&folder, name, For::Writing).unwrap(), Found::Nothing));
        drop(create(&folder, name).unwrap());
        assert!(matches!(open(&folder, name, For::Writing).unwrap(), Found::Ours(_)));
        let make: [&dyn Fn(); 4] = [
            &|| std::fs::set_permissions(at("x.part"), PermissionsExt::from_mode(0o666)).unwrap(),
            &|| symlink("precious", at("x.part")).unwrap(),
            &|| std::fs::create_dir(at("x.part")).unwrap(),
            &|| rustix::fs::mkfifoat(rustix::fs::CWD, at("x.part"), Mode::RUSR).unwrap(),
        ];
        for (number, make) in make.iter().enumerate() {
            make();
            assert!(peek(&folder, name, For::Reading).unwrap().is_none());
            assert!(matches!(open(&folder, name, For::Writing).unwrap(), Found::Nothing));
            assert!(at(&format!("x.part.aside-{}", number + 1)).symlink_metadata().is_ok());
        }
        assert!(!at("precious").exists());
    }

    #[test]
    fn the_longest_name_can_be_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let name = OsString::from("n".repeat(MAX_NAME));
        std::fs::create_dir(dir.path().join(&name)).unwrap();
        assert!(put_aside(&folder, &name).unwrap().is_some());
        assert!(put_aside(&folder, &name).unwrap().is_none());
    }
}
