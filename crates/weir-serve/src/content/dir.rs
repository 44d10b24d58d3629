//! How is a directory served so that no path, symbolic link or race leads out of it?
//!
//! Every open goes through one descriptor of the root with `openat2(2)` and `RESOLVE_BENEATH`: the kernel
//! itself follows links that stay beneath the root and refuses those that do not, without the gap between a
//! check and its use. Kernels before 5.6 and some sandboxes lack the call; there each component is opened by
//! hand and no link is followed at all.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use weir_http::filename::KEPT;
use weir_http::request_target::Path as Target;

use super::{Entry, File, Item, Resolve, http_time, media_type, sort};
use crate::source::Source;

/// `O_NONBLOCK`: opening a FIFO must not wait for a writer. It changes nothing for regular files.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// To look at an entry, or to pass through it, without opening it.
const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// `RESOLVE_BENEATH` gives `EAGAIN` when a directory was renamed during the walk, since it could not prove
/// anything.
const ATTEMPTS: usize = 8;

/// An open directory and the means to look beneath it.
pub(crate) struct Dir {
    root: OwnedFd,
    walk: Walk,
}

#[derive(Debug, Clone, Copy)]
enum Walk {
    /// `openat2` with `RESOLVE_BENEATH`.
    Kernel,
    /// A component at a time with `O_NOFOLLOW`.
    ByHand,
}

impl Dir {
    pub(crate) fn open(root: &Path) -> rustix::io::Result<Dir> {
        let root = rustix::fs::open(root, PATH_ONLY | OFlags::DIRECTORY, Mode::empty())?;
        // The probe also finds out now, not at the first request, that the directory may not be read.
        match open_beneath(&root, b".", READ | OFlags::DIRECTORY) {
            Ok(_) => Ok(Dir { root, walk: Walk::Kernel }),
            // EPERM: a seccomp filter older than the call.
            Err(Errno::NOSYS | Errno::PERM) => Ok(Dir { root, walk: Walk::ByHand }),
            Err(err) => Err(err),
        }
    }

    /// Opens a path below the root; an empty one is the root itself.
    fn open_path(&self, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        match self.walk {
            Walk::Kernel => open_beneath(&self.root, path, flags),
            Walk::ByHand => open_by_hand(&self.root, path, flags),
        }
    }

    fn look_up(&self, target: &Target) -> rustix::io::Result<Entry> {
        if !target.slash && is_kept(&target.bytes) {
            return Ok(Entry::Absent);
        }
        // A FIFO or a device is looked at, never opened: opening some devices has effects.
        let stat = rustix::fs::fstat(self.open_path(&target.bytes, PATH_ONLY)?)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if !target.slash => self.file(&target.bytes),
            FileType::Directory if !target.slash => Ok(Entry::Slashless),
            FileType::Directory => self.directory(&target.bytes),
            _ => Ok(Entry::Absent),
        }
    }

    /// A regular file; anything else is [`Entry::Absent`].
    fn file(&self, path: &[u8]) -> rustix::io::Result<Entry> {
        let file = self.open_path(path, READ)?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(Entry::Absent);
        }
        Ok(Entry::File(File {
            source: Source::file(file),
            len: stat.st_size as u64,
            modified: http_time(stat.st_mtime),
            tag: entity_tag(&stat),
            media_type: media_type::of(path),
        }))
    }

    /// Its `index.html` if there is one, otherwise what it holds.
    fn directory(&self, path: &[u8]) -> rustix::io::Result<Entry> {
        match self.file(&join(path, b"index.html")) {
            Ok(Entry::File(index)) => Ok(Entry::File(index)),
            Ok(_) | Err(_) => Ok(Entry::Listing(self.list(path)?)),
        }
    }

    fn list(&self, path: &[u8]) -> rustix::io::Result<Vec<Item>> {
        let directory = self.open_path(path, READ | OFlags::DIRECTORY)?;
        let mut items = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            // An entry that vanished, or a link that leads out, is not shown, as it would not be served.
            items.extend(self.describe(&directory, path, name));
        }
        sort(&mut items);
        Ok(items)
    }

    fn describe(&self, directory: &OwnedFd, path: &[u8], name: &[u8]) -> Option<Item> {
        let mut stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            stat = rustix::fs::fstat(self.open_path(&join(path, name), PATH_ONLY).ok()?).ok()?;
        }
        let is_directory = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => true,
            FileType::RegularFile => false,
            _ => return None,
        };
        if !is_directory && is_kept(name) {
            return None;
        }
        let size = if is_directory { 0 } else { stat.st_size as u64 };
        Some(Item { name: name.to_vec(), is_directory, size, modified: http_time(stat.st_mtime) })
    }
}

impl Resolve for Dir {
    fn resolve(&self, target: &Target) -> Entry {
        self.look_up(target).unwrap_or_else(|err| match err {
            // ELOOP and EXDEV are the two refusals of a link; ENXIO is a socket; EAGAIN a directory renamed
            // all the time.
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL => Entry::Absent,
            Errno::LOOP | Errno::XDEV | Errno::NXIO | Errno::AGAIN => Entry::Absent,
            Errno::ACCESS | Errno::PERM => Entry::Forbidden,
            other => Entry::Failed(other.into()),
        })
    }
}

/// What `weir cp` keeps beside a file that grows.
const COPIED: &str = ".weir-part";

/// Whether a file of this name is what weir keeps beside a growing one: bytes that may have holes, and a
/// journal. They are nobody's but the run's that writes them. File systems without case would give them out
/// under other names too.
fn is_kept(path: &[u8]) -> bool {
    KEPT.iter().chain([&COPIED]).any(|ending| {
        let at = path.len().checked_sub(ending.len());
        at.is_some_and(|at| path[at..].eq_ignore_ascii_case(ending.as_bytes()))
    })
}

fn open_beneath(root: &OwnedFd, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut result = Err(Errno::AGAIN);
    for _ in 0..ATTEMPTS {
        result = rustix::fs::openat2(root, path, flags, Mode::empty(), resolve);
        if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    result
}

fn open_by_hand(root: &OwnedFd, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut components = path.split(|&byte| byte == b'/');
    let last = components.next_back().unwrap_or(b".");
    let mut directory: Option<OwnedFd> = None;
    for component in components {
        let parent = directory.as_ref().unwrap_or(root);
        let flags = PATH_ONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        directory = Some(rustix::fs::openat(parent, component, flags, Mode::empty())?);
    }
    rustix::fs::openat(directory.as_ref().unwrap_or(root), last, flags | OFlags::NOFOLLOW, Mode::empty())
}

/// Strong: a file with the same inode, size and time of change to the nanosecond has the same bytes, unless
/// someone set the clock back on purpose.
fn entity_tag(stat: &Stat) -> String {
    format!("\"{:x}-{:x}-{:x}.{:x}\"", stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec)
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::CWD;
    use weir_http::request_target::{self, RequestTarget};

    use super::*;

    /// root/{plain, sub/inner, in -> sub/inner, out -> ../secret, up -> .., fifo} beside secret.
    fn tree() -> (tempfile::TempDir, Dir) {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(outer.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("plain"), "plain").unwrap();
        std::fs::write(root.join("sub/inner"), "inner").unwrap();
        symlink("sub/inner", root.join("in")).unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("..", root.join("up")).unwrap();
        rustix::fs::mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let dir = Dir::open(&root).unwrap();
        (outer, dir)
    }

    fn kind(dir: &Dir, raw: &str) -> &'static str {
        let target = match request_target::parse(raw) {
            Some(RequestTarget::Path(target)) => target,
            _ => None,
        };
        match target.map(|target| dir.resolve(&target)) {
            Some(Entry::File(_)) => "file",
            Some(Entry::Listing(_)) => "listing",
            Some(Entry::Slashless) => "slashless",
            Some(Entry::Absent) | None => "absent",
            Some(other) => panic!("{raw}: {other:?}"),
        }
    }

    #[test]
    fn both_walks_stay_beneath_the_root() {
        let (_outer, mut dir) = tree();
        for (walk, link_inside) in [(Walk::Kernel, "file"), (Walk::ByHand, "absent")] {
            dir.walk = walk;
            for (raw, expected) in [
                ("/", "listing"),
                ("/plain", "file"),
                ("/plain/", "absent"),
                ("/plain/x", "absent"),
                ("/sub", "slashless"),
                ("/sub/", "listing"),
                ("/sub/inner", "file"),
                ("/in", link_inside),
                ("/out", "absent"),
                ("/up/secret", "absent"),
                ("/up/", "absent"),
                ("/fifo", "absent"),
                ("/none", "absent"),
            ] {
                assert_eq!(kind(&dir, raw), expected, "{raw} walked by {walk:?}");
            }
        }
    }

    #[test]
    fn a_listing_shows_what_would_be_served() {
        let (_outer, dir) = tree();
        let items = dir.list(b"").unwrap();
        let names: Vec<_> = items.iter().map(|item| str::from_utf8(&item.name).unwrap()).collect();
        assert_eq!(names, ["sub", "in", "plain"]);
    }

    #[test]
    fn a_tag_changes_with_the_file() {
        let (outer, dir) = tree();
        let tag = |dir: &Dir| match dir.file(b"plain").unwrap() {
            Entry::File(file) => file.tag,
            other => panic!("{other:?}"),
        };
        let before = tag(&dir);
        assert_eq!(before, tag(&dir));
        std::fs::write(outer.path().join("root/plain"), "longer than before").unwrap();
        assert_ne!(before, tag(&dir));
    }
}
