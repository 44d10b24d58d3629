//! Gives a complete, verified file its name: by rename, or by writing in place where a rename is not
//! possible.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, renameat};
use rustix::io::Errno;
use weir_units::atomic_file;

use super::attributes::NewFile;
use super::folder::{Folder, Target, kind};
use super::{attributes, beside, in_place, small_file};

/// Bytes compared at a time: they stay in a core's cache.
const COMPARED: usize = 128 << 10;

/// Why a file did not get its name.
#[derive(Debug)]
pub enum Failure {
    /// The name is as it was.
    Rename(io::Error),
    /// The same, as far as a copy of the part on another file system came.
    Copy(io::Error),
    /// The error says what the file holds now.
    InPlace(io::Error),
    /// Another file has the name, and stays.
    Differs,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Rename(error)
    }
}

/// How a part on another file system is copied beside its name.
#[derive(Clone, Copy)]
pub struct CopyRules<'a> {
    /// The copy is on the disk before it has the name.
    pub sync: bool,
    /// It goes on for as long as this says so.
    pub go_on: &'a dyn Fn() -> bool,
}

/// The last check before a file gets its name: only a file or a link may be replaced. The first check may be
/// hours old. Returns what is there.
pub fn may_replace(target: &Target) -> io::Result<Option<Stat>> {
    let there = target.look()?;
    match there.as_ref().map(kind) {
        None | Some(FileType::RegularFile | FileType::Symlink) => Ok(there),
        Some(_) => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "the target is not a regular file and stays"))
        }
    }
}

/// Calls the complete file `target`. It is called `part` in `home` until then, and no longer after.
pub(crate) fn give_name(
    file: &File,
    home: &Folder,
    part: &OsStr,
    target: &Target,
    rules: CopyRules<'_>,
) -> Result<(), Failure> {
    let old = may_replace(target)?;
    still_has(home, part, file)?;
    let regular = old.as_ref().filter(|old| kind(old) == FileType::RegularFile);
    let fixed = regular.filter(|old| in_place::is_safe(old, target.folder()));
    let kept = home.shown(part);
    let write_in_place = |to: io::Result<File>, why: &str| {
        let to = to.map_err(|error| Failure::InPlace(in_place::unchanged(&error, &kept)))?;
        in_place::write(file, &kept, &to, rules.sync).map_err(Failure::InPlace)?;
        tracing::warn!("{}: {why}; written in place", target.path().display());
        beside::remove(home, part, file);
        Ok(())
    };
    if regular.is_some_and(|old| old.st_nlink > 1) {
        let why = match fixed.map(|old| in_place::open(target, old)) {
            None => "others may write this folder".to_owned(),
            // Read-only, or a program that runs. It can still be replaced, as a file with one name is.
            Some(Err(error))
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::ACCESS | Errno::PERM | Errno::TXTBSY)
                ) =>
            {
                weir_units::plain(&error)
            }
            Some(to) => {
                let why = of_other_names(&to);
                return write_in_place(to, why);
            }
        };
        let shown = target.path().display();
        tracing::warn!("{shown}: its other names (hard links) keep the old content: {why}");
    }
    if let Some(old) = fixed.filter(|_| !target.folder().is_writable()) {
        return write_in_place(in_place::open(target, old), "its folder cannot be written");
    }
    beside::unmark(file);
    attributes::give(file, target, old.as_ref())?;
    let renamed = renameat(home, part, target.folder(), target.name());
    let (named, failure): (io::Result<()>, fn(io::Error) -> Failure) = match renamed {
        Ok(()) => return is_named(file, target).map_err(Failure::Rename),
        Err(Errno::XDEV) => (copy_over(file, target, old.as_ref(), rules), Failure::Copy),
        Err(errno) => (Err(errno.into()), Failure::Rename),
    };
    let Err(error) = named else {
        beside::remove(home, part, file);
        return Ok(());
    };
    attributes::take_back(file);
    match (fixed, Errno::from_io_error(&error)) {
        (Some(old), Some(Errno::BUSY)) => write_in_place(in_place::open(target, old), "it is a mount point"),
        (Some(old), Some(Errno::XDEV | Errno::ACCESS | Errno::PERM | Errno::ROFS)) => {
            write_in_place(in_place::open(target, old), "its folder cannot be written")
        }
        _ => Err(failure(of_a_stranger(error, regular, target.folder()))),
    }
}

/// What is said of the other names that `to` had.
fn of_other_names(to: &io::Result<File>) -> &'static str {
    match to.as_ref().is_ok_and(|to| fstat(to).is_ok_and(|there| there.st_nlink == 1)) {
        true => "its other names (hard links) keep the old content, since it is of an overlay",
        false => "it has other names too (hard links)",
    }
}

/// Fails where another file has the part's name by now, or none.
fn still_has(home: &Folder, part: &OsStr, file: &File) -> io::Result<()> {
    if home.has(part, file)? {
        return Ok(());
    }
    let shown = home.shown(part);
    let text = match home.look(part)? {
        Some(_) => format!("another file was put in the place of {}", shown.display()),
        None => format!("{} was removed", shown.display()),
    };
    Err(io::Error::other(text))
}

/// Calls the complete file `target` unless something has that name: a file with the same content stays, and
/// the part goes, as it does where the content is another ([`Failure::Differs`]).
/// `part`: its name in `home`; empty for a file that has none. `new`: what it gets with its name.
pub(crate) fn give_free_name(
    file: &File,
    home: &Folder,
    part: &OsStr,
    target: &Target,
    new: &NewFile,
    rules: CopyRules<'_>,
) -> Result<(), Failure> {
    if !part.is_empty() {
        still_has(home, part, file)?;
    }
    beside::unmark(file);
    attributes::give_new(file, target, new)?;
    let is_elsewhere = !std::ptr::eq(home, &**target.folder());
    let named = match is_elsewhere || part.is_empty() {
        true => small_file::link(file, target, target.name()),
        false => atomic_file::rename_to_free(home, part, target.name()),
    };
    match named {
        Ok(()) => {
            if is_elsewhere {
                beside::remove(home, part, file);
            }
            return is_named(file, target).map_err(Failure::Rename);
        }
        Err(Errno::EXIST) => {}
        // On another file system, or one without second names.
        Err(_) if is_elsewhere => return give_copy_free_name(file, home, part, target, new, rules),
        Err(errno) => {
            attributes::take_back(file);
            return Err(io::Error::from(errno).into());
        }
    }
    let size = file.metadata()?.len();
    let is_same = has_content(target, &mut FromStart::new(file), size);
    let is_same = is_same.inspect_err(|_| attributes::take_back(file))?;
    if !part.is_empty() {
        beside::remove(home, part, file);
    }
    if is_same { Ok(()) } else { Err(Failure::Differs) }
}

/// The same where only a copy of the part can have the name.
fn give_copy_free_name(
    file: &File,
    home: &Folder,
    part: &OsStr,
    target: &Target,
    new: &NewFile,
    rules: CopyRules<'_>,
) -> Result<(), Failure> {
    let copied = copy_beside(file, target, rules).map_err(Failure::Copy);
    let named = copied.and_then(|(passing, copy)| {
        let named = give_free_name(&copy, target.folder(), &passing, target, new, rules);
        named.inspect_err(|_| beside::remove(target.folder(), &passing, &copy))
    });
    match named {
        Ok(()) | Err(Failure::Differs) => beside::remove(home, part, file),
        Err(_) => attributes::take_back(file),
    }
    named
}

/// A file, read from its start wherever others read and write it.
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl<'a> FromStart<'a> {
    /// Nothing of it is read yet.
    fn new(file: &'a File) -> FromStart<'a> {
        FromStart { file, at: 0 }
    }
}

impl Read for FromStart<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read_at(into, self.at)?;
        self.at += length as u64;
        Ok(length)
    }
}

/// Whether `target` is a file of these `size` bytes.
pub fn has_content(target: &Target, bytes: &mut dyn Read, size: u64) -> io::Result<bool> {
    // Looked at before it is opened: to open a device may set it to work.
    let is_file = target.look()?.is_some_and(|there| kind(&there) == FileType::RegularFile);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let there = match openat(target.folder(), target.name(), flags, Mode::empty()) {
        Ok(there) if is_file => File::from(there),
        Err(errno) if is_file && errno != Errno::LOOP => return Err(errno.into()),
        _ => return Ok(false),
    };
    if !there.metadata()?.is_file() || there.metadata()?.len() != size {
        return Ok(false);
    }
    is_same(bytes, &mut &there, size)
}

/// Whether `there` begins with these `size` bytes.
pub fn is_same(bytes: &mut dyn Read, there: &mut dyn Read, size: u64) -> io::Result<bool> {
    let (mut own, mut other) = (vec![0; COMPARED], vec![0; COMPARED]);
    let mut left = size;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(COMPARED).min(COMPARED);
        bytes.read_exact(&mut own[..length])?;
        match there.read_exact(&mut other[..length]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        if own[..length] != other[..length] {
            return Ok(false);
        }
        left -= length as u64;
    }
    Ok(true)
}

/// The part grew on another file system: a copy of it beside the target gets the name.
fn copy_over(file: &File, target: &Target, old: Option<&Stat>, rules: CopyRules<'_>) -> io::Result<()> {
    let (passing, copy) = copy_beside(file, target, rules)?;
    let given = attributes::give(&copy, target, old);
    given.inspect_err(|_| beside::remove(target.folder(), &passing, &copy))?;
    swap_in(&copy, target, &passing)
}

/// A copy of the part, beside its target under a name for a moment.
fn copy_beside(file: &File, target: &Target, rules: CopyRules<'_>) -> io::Result<(OsString, File)> {
    // It stays what it is until the copy has the name.
    beside::mark(file);
    let size = file.metadata()?.len();
    let (passing, copy) = beside::create_passing(target.folder(), target.name())?;
    let copied = in_place::copy_while(file, &copy, size, rules.go_on).map_err(|(_, error)| error);
    let synced = copied.and_then(|()| atomic_file::settled(&copy, rules.sync));
    synced.inspect_err(|_| beside::remove(target.folder(), &passing, &copy))?;
    Ok((passing, copy))
}

/// Puts `file`, called `passing` beside it, in the place of `target`; `passing` is gone after.
pub fn swap_in(file: &File, target: &Target, passing: &OsStr) -> io::Result<()> {
    let folder = target.folder();
    atomic_file::replace(folder, passing, target.name())?;
    is_named(file, target)
}

/// rename(2) works on names. In a shared folder someone may have swapped the part just before the call, so
/// check that the target now is the file that was verified; a foreign file does not keep the name.
fn is_named(file: &File, target: &Target) -> io::Result<()> {
    if !target.folder().is_shared() || target.folder().has(target.name(), file)? {
        return Ok(());
    }
    let _ = beside::put_aside(target.folder(), target.name());
    Err(io::Error::other("it was replaced by another file at the last moment"))
}

/// A sticky folder lets nobody but its owner replace a file.
fn of_a_stranger(error: io::Error, old: Option<&Stat>, folder: &Folder) -> io::Error {
    let foreign = old.is_some_and(|old| !folder.is_ours(old.st_uid));
    if foreign && error.kind() == io::ErrorKind::PermissionDenied {
        let text = format!("{}; it belongs to another user, choose another name", weir_units::plain(&error));
        return io::Error::new(error.kind(), text);
    }
    error
}
