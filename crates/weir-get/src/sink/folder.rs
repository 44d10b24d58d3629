//! Folders that stay open, and names in them. Once a folder is open, nothing in it is reached by path again.
//!
//! The kernel resolves a path anew in each call. Anyone who may write a folder on the way can put a link
//! there between two calls. A descriptor stays with the folder that was opened.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, Stat, accessat, fstat, openat, statat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use weir_codec::digest::Algorithm;
use weir_tree::destination::{found_to_fold, has_casefold_flag};
use weir_tree::xattr::At;
use weir_units::nofile;

use super::links;

/// Folders that a run keeps open: a list may name thousands, and a process has 1024 descriptors by default,
/// or fewer.
fn most_open() -> usize {
    nofile::share(8, 64)
}

/// A folder that is held open.
#[derive(Debug)]
pub struct Folder {
    open: OwnedFd,
    path: PathBuf,
    stat: OnceLock<Stat>,
    writable: OnceLock<bool>,
    made: OnceLock<Option<(u32, u32)>>,
    folds: OnceLock<bool>,
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.open.as_fd()
    }
}

impl Folder {
    /// Opens the folder at `path`; an empty path means the current folder. A link at its end is followed only
    /// if [`links`] allows it.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        // Without a slash at its end, since that would have the kernel follow a link.
        let path: PathBuf = path.components().collect();
        let path = if path.as_os_str().is_empty() { PathBuf::from(".") } else { path };
        // O_PATH: a folder that may be searched but not listed is enough.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = match openat(CWD, &path, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => links::open_folder(&path)?,
            other => other?,
        };
        Ok(Folder {
            open,
            path,
            stat: OnceLock::new(),
            writable: OnceLock::new(),
            made: OnceLock::new(),
            folds: OnceLock::new(),
        })
    }

    /// Its path, as it was asked for: for messages only.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A name in it, for messages only.
    pub fn shown(&self, name: &OsStr) -> PathBuf {
        let path = self.path.join(name);
        path.strip_prefix(".").map_or(path.clone(), Path::to_owned)
    }

    /// What has this name; a link is not followed. `None` if nothing has.
    pub fn look(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match statat(self, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether `name` still leads to this very file.
    pub fn has(&self, name: &OsStr, file: impl AsFd) -> io::Result<bool> {
        let ours = fstat(file)?;
        Ok(self.look(name)?.is_some_and(|there| is_same(&there, &ours)))
    }

    /// Whether names can be made and removed in it.
    pub fn is_writable(&self) -> bool {
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        // Without flags: older container engines refuse faccessat2(2), which takes them.
        *self.writable.get_or_init(|| accessat(self, ".", wanted, AtFlags::empty()).is_ok())
    }

    /// A file of this owner is this user's.
    pub fn is_ours(&self, owner: u32) -> bool {
        owner == geteuid().as_raw() || self.made().is_some_and(|(user, _)| user == owner)
    }

    /// Others can write a file of this mode, and it was not made so by the file system.
    pub(crate) fn others_write(&self, mode: u32) -> bool {
        mode & 0o022 != 0 && self.made().is_none_or(|(_, made)| mode & 0o022 & !made != 0)
    }

    /// It has the mode of a private file, as this file system keeps it.
    pub(crate) fn has_private_mode(&self, stat: &Stat) -> bool {
        let mode = stat.st_mode & 0o777;
        mode == 0o600 || self.made().is_some_and(|(_, made)| made != 0o600 && made == mode)
    }

    /// Owner and mode of a private file that this user makes here. Not every file system keeps what it is
    /// told: on FAT all files have the mount's owner and mode, and NFS may give root's files to nobody.
    /// Needed only if a file seems to be another user's. The probe has an unpredictable name and is judged by
    /// its descriptor.
    fn made(&self) -> Option<(u32, u32)> {
        *self.made.get_or_init(|| {
            let (name, file) = super::beside::create_passing(self, OsStr::new("weir")).ok()?;
            super::beside::remove(self, &name, &file);
            fstat(&file).ok().map(|stat| (stat.st_uid, stat.st_mode & 0o777))
        })
    }

    /// The user it belongs to, if that can be told.
    pub fn owner(&self) -> Option<u32> {
        self.stat().map(|stat| stat.st_uid)
    }

    /// Everyone may put names into it (as into /tmp, with or without the sticky bit).
    pub(crate) fn is_open_to_all(&self) -> bool {
        self.stat().is_none_or(|stat| stat.st_mode & 0o002 != 0)
    }

    /// Someone other than this user and root may put names into it, so any name in it may be bait. A writing
    /// group counts unless it is this user's own group, which most systems create per user. With an ACL, the
    /// group bits also cover named users (acl(5)).
    pub(crate) fn is_shared(&self) -> bool {
        let Some(stat) = self.stat() else { return true };
        let foreign = stat.st_uid != 0 && stat.st_uid != geteuid().as_raw();
        let group_writes = stat.st_mode & 0o020 != 0;
        let own_group = stat.st_gid == getegid().as_raw();
        foreign || self.is_open_to_all() || group_writes && (!own_group || self.has_acl())
    }

    fn has_acl(&self) -> bool {
        // A file system without ACLs has none; any other failure leaves it open.
        !matches!(At::held(self.as_fd()).value(super::attributes::ACL), Ok(None))
    }

    fn stat(&self) -> Option<&Stat> {
        if self.stat.get().is_none() {
            let _ = self.stat.set(fstat(self).ok()?);
        }
        self.stat.get()
    }
}

/// Both are of one file.
pub fn is_same(one: &Stat, other: &Stat) -> bool {
    one.st_ino == other.st_ino && one.st_dev == other.st_dev
}

/// What kind of thing this is.
pub fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The name that a file gets when it is complete.
#[derive(Debug, Clone)]
pub struct Target {
    path: PathBuf,
    folder: Arc<Folder>,
    name: OsString,
}

impl Target {
    /// The name at the end of `path` in `folder`, which is the one that `path` is in.
    fn new(path: &Path, folder: Arc<Folder>) -> io::Result<Target> {
        let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
        Ok(Target { path: path.to_owned(), folder, name })
    }

    /// Opens the folder of `path`.
    pub fn open(path: &Path) -> io::Result<Target> {
        let folder = Folder::open(path.parent().unwrap_or(Path::new(".")))?;
        Target::new(path, Arc::new(folder))
    }

    /// Its path, as it was asked for: for messages and reports.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its folder.
    pub fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Its name in the folder.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// What is there now; a link is not followed.
    pub fn look(&self) -> io::Result<Option<Stat>> {
        self.folder.look(&self.name)
    }

    /// A name in another folder that stands for this target alone: up to 100 bytes of its own name, which
    /// leaves room for endings, and 64 bits of a digest of the whole path, so that two paths of one user do
    /// not collide.
    pub(crate) fn name_elsewhere(&self) -> OsString {
        use std::os::fd::AsRawFd;
        const KEPT: usize = 100;
        let own = format!("/proc/self/fd/{}", self.folder.open.as_raw_fd());
        let folder = std::fs::read_link(own).unwrap_or_else(|_| self.folder.path.clone());
        let digest = Algorithm::SHA256.of(folder.join(&self.name).as_os_str().as_bytes());
        let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let bytes = self.name.as_bytes();
        let mut name = OsStr::from_bytes(&bytes[..bytes.len().min(KEPT)]).to_owned();
        name.push(format!(".{hex}"));
        name
    }
}

/// The folders of a run, each opened once.
#[derive(Debug, Default)]
pub struct Folders {
    open: Mutex<HashMap<PathBuf, Arc<Folder>>>,
    /// Whether a file system, by its device, was seen to fold names.
    folding: Mutex<HashMap<u64, bool>>,
}

impl Folders {
    /// The folder at `path`, open.
    pub fn folder(&self, path: &Path) -> io::Result<Arc<Folder>> {
        let mut open = self.open.lock();
        if let Some(folder) = open.get(path) {
            return Ok(Arc::clone(folder));
        }
        let folder = Arc::new(Folder::open(path)?);
        if open.len() >= most_open() {
            open.clear();
        }
        open.insert(path.to_owned(), Arc::clone(&folder));
        Ok(folder)
    }

    /// Two names that differ by case, or by the spelling of an accent, are one in the folder at `path`. Tried
    /// once on each file system, where the folder itself does not say it.
    pub(crate) fn fold_names(&self, path: &Path) -> bool {
        let Ok(folder) = self.folder(path) else { return false };
        *folder.folds.get_or_init(|| {
            has_casefold_flag(&folder)
                || folder.stat().is_some_and(|stat| {
                    *self.folding.lock().entry(stat.st_dev).or_insert_with(|| found_to_fold(&folder))
                })
        })
    }

    /// The name at the end of `path`, in its folder.
    pub fn target(&self, path: &Path) -> io::Result<Target> {
        Target::new(path, self.folder(path.parent().unwrap_or(Path::new(".")))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_file_system_without_owners_are_ours() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Folder::open(dir.path()).unwrap();
        let other = geteuid().as_raw() + 1;
        assert!(kept.is_ours(geteuid().as_raw()) && !kept.is_ours(other));
        assert!(kept.others_write(0o664) && !kept.others_write(0o644));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        // FAT, mounted by somebody else with umask=000.
        let fat = Folder { made: OnceLock::from(Some((other, 0o777))), ..kept };
        assert!(fat.is_ours(other) && !fat.others_write(0o777));
    }

    #[test]
    fn a_folder_that_others_may_write_is_shared() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        for (mode, open, shared) in
            [(0o700, false, false), (0o755, false, false), (0o775, false, false), (0o1777, true, true)]
        {
            std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode)).unwrap();
            let folder = Folder::open(dir.path()).unwrap();
            assert_eq!((folder.is_open_to_all(), folder.is_shared()), (open, shared), "{mode:o}");
        }
    }
}
