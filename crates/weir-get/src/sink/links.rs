//! Which symbolic links are followed: those of people who could do the same without a link.
//!
//! A link is followed if it belongs to this user or to root, or if the link's owner also owns what it leads
//! to. This is the kernel's rule for sticky folders (`fs.protected_symlinks`), made stricter and applied to
//! all folders: anyone who may write a folder can put a link under the name that a download will have.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fstat, openat, readlinkat};
use rustix::process::geteuid;

/// As many as the kernel follows (MAXSYMLINKS, include/linux/namei.h).
const MOST: usize = 40;

/// The file behind `path`, as far as its links may be followed; `path` itself if it is no link or leads to
/// nothing. The flag is set if the result is a link that must not be followed.
pub fn end_of(path: &Path) -> (PathBuf, bool) {
    let mut end = path.to_owned();
    for _ in 0..MOST {
        let Ok(link) = end.symlink_metadata() else { break };
        if !link.is_symlink() {
            return (end, false);
        }
        let Ok(behind) = end.metadata() else { break };
        if !may_follow(link.uid(), behind.uid()) {
            return (end, true);
        }
        let Ok(text) = end.read_link() else { break };
        end = end.parent().unwrap_or(Path::new("")).join(text);
    }
    // Nothing is there, or it is one of /proc's links, which lead to what has no path: `/dev/fd/63`.
    (path.to_owned(), false)
}

/// The same for a file that may have to be created: dangling links of this user and of root are followed too.
pub fn end_or_new(path: &Path) -> (PathBuf, bool) {
    let (mut end, is_foreign) = end_of(path);
    for _ in 0..MOST {
        let Ok(link) = end.symlink_metadata() else { break };
        if is_foreign || !link.is_symlink() || end.exists() {
            break;
        }
        if !may_follow(link.uid(), NOBODY) {
            return (end, true);
        }
        let Ok(text) = end.read_link() else { break };
        end = end.parent().unwrap_or(Path::new("")).join(text);
    }
    (end, is_foreign)
}

/// `path` with its folder resolved: two ways to one name are then equal.
pub fn place_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// No file belongs to it: (uid_t) -1 (chown(2)).
const NOBODY: u32 = u32::MAX;

/// Opens the folder behind the link at `path`. The link that is judged is the one whose text is used.
pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let link = openat(CWD, path, flags, Mode::empty())?;
    let owner = fstat(&link)?.st_uid;
    let text =
        readlinkat(&link, "", Vec::new()).map_err(|_| io::Error::from(io::ErrorKind::NotADirectory))?;
    let to = path.parent().unwrap_or(Path::new("")).join(OsStr::from_bytes(text.as_bytes()));
    let open = openat(CWD, to, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    if may_follow(owner, fstat(&open)?.st_uid) {
        return Ok(open);
    }
    let text = format!("{} is a link of another user; name the folder that you mean", path.display());
    Err(io::Error::other(text))
}

fn may_follow(link: u32, behind: u32) -> bool {
    link == 0 || link == behind || link == geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn own_links_are_followed_to_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        symlink("file", at("one")).unwrap();
        symlink(at("one"), at("two")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        symlink("round", at("round")).unwrap();
        assert_eq!(end_of(&at("two")), (at("file"), false));
        for same in ["file", "dangling", "round", "missing"] {
            assert_eq!(end_of(&at(same)), (at(same), false));
        }
    }
}
