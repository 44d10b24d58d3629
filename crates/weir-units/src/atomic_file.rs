//! Files that appear whole: made beside their place under a name that nothing has, and renamed into it
//! (rename(2)). What is there is either the old one or the new one, whenever the power goes.
//!
//! By names in an open folder, so that nobody can swap the folder meanwhile. What the name is, what may be
//! replaced and what is synced is whoever calls' own.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, linkat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;

/// Makes `name`, which nothing may have, for reading and writing: `EEXIST` also where a link that leads
/// nowhere has it.
pub fn create_new(folder: impl AsFd, name: impl Arg, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, mode)
}

/// Hears of write errors that the file system tells at close(2) alone: NFS, CIFS and FUSE take data into
/// memory, send it to their server when a descriptor is closed, and answer a full disk or a quota there. Each
/// close of any descriptor does so (`filp_flush`, fs/open.c), so a second one is made and closed. File
/// systems of local disks have nothing to do then. No sync: what a power cut leaves is not asked.
fn flushed(file: &File) -> io::Result<()> {
    loop {
        let second = match file.try_clone() {
            // No descriptor is to be had (`ulimit -n`): a sync hears the same, and takes longer.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)) => {
                return file.sync_data();
            }
            second => second?.into_raw_fd(),
        };
        // SAFETY: the descriptor was made above, is nobody else's, and is not used again: Linux gives it back
        // whatever close(2) answers.
        #[expect(unsafe_code, reason = "the library drops the answer")]
        match unsafe { rustix::io::try_close(second) } {
            Err(Errno::INTR) => {}
            answer => return Ok(answer?),
        }
    }
}

/// [`flushed`], and on the disk where that was asked for.
pub fn settled(file: &File, sync: bool) -> io::Result<()> {
    if sync { file.sync_all() } else { flushed(file) }
}

/// Puts `passing` in the place of `name`; on failure `passing` goes. For folders that nobody else writes:
/// else what has that name by then may be another's.
pub fn replace(folder: impl AsFd, passing: impl Arg + Copy, name: impl Arg) -> Result<(), Errno> {
    renameat(&folder, passing, &folder, name).inspect_err(|_| {
        let _ = unlinkat(&folder, passing, AtFlags::empty());
    })
}

/// Gives `from` the name `to`, unless something has it: `EEXIST` then.
pub fn rename_to_free(folder: impl AsFd, from: impl Arg + Copy, to: impl Arg + Copy) -> Result<(), Errno> {
    match renameat_with(&folder, from, &folder, to, RenameFlags::NOREPLACE) {
        // The file system does not know the flag (rename(2), NFS): a second name is free or refused as well.
        Err(Errno::INVAL) => link_to_free(&folder, from, to),
        other => other,
    }
}

fn link_to_free(folder: impl AsFd, from: impl Arg + Copy, to: impl Arg + Copy) -> Result<(), Errno> {
    match linkat(&folder, from, &folder, to, AtFlags::empty()) {
        Ok(()) => unlinkat(&folder, from, AtFlags::empty()),
        // Nor has it second names: checking first is the best that can be done.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
            match statat(&folder, to, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => renameat(&folder, from, &folder, to),
                _ => Err(Errno::EXIST),
            }
        }
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_name_is_made_once_replaced_whole_and_never_taken_from_another() {
        let dir = tempfile::tempdir().unwrap();
        let folder = fs::File::open(dir.path()).unwrap();
        settled(&folder, false).unwrap();
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).ok();
        fs::write(dir.path().join("x"), "old").unwrap();
        fs::File::from(create_new(&folder, "y", Mode::RUSR | Mode::WUSR).unwrap()).set_len(2).unwrap();
        assert_eq!(create_new(&folder, "y", Mode::RUSR).unwrap_err(), Errno::EXIST);
        assert_eq!(rename_to_free(&folder, "y", "x"), Err(Errno::EXIST));
        assert_eq!((text("x").as_deref(), text("y").as_deref()), (Some("old"), Some("\0\0")));
        replace(&folder, "y", "x").unwrap();
        assert_eq!((text("x").as_deref(), text("y")), (Some("\0\0"), None));
        rename_to_free(&folder, "x", "z").unwrap();
        link_to_free(&folder, "z", "x").unwrap();
        fs::write(dir.path().join("z"), "").unwrap();
        assert_eq!(link_to_free(&folder, "x", "z"), Err(Errno::EXIST));
        fs::rename(dir.path().join("x"), dir.path().join("z")).unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        assert_eq!(replace(&folder, "z", "folder"), Err(Errno::ISDIR));
        assert_eq!((text("z"), text("x")), (None, None));
    }
}
