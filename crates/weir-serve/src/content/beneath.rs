//! How does a path stay beneath a directory, whatever links lie on its way?
//!
//! Every open goes through one descriptor of the root with `openat2(2)` and `RESOLVE_BENEATH`: the kernel
//! itself follows links that stay beneath the root and refuses those that do not, without the gap between a
//! check and its use. It refuses absolute links too, though one may lead back into the root. What it refuses
//! is walked by hand: a component at a time from descriptor to descriptor, never over a link but by its own
//! words, read and walked in the same way. Kernels before 5.6 and some sandboxes lack the call; there all is
//! walked by hand.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use parking_lot::Mutex;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat};
use rustix::io::Errno;

/// `O_NONBLOCK`: opening a FIFO must not wait for a writer. It changes nothing for regular files.
pub(super) const READ: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// To look at an entry, or to pass through it, without opening it.
pub(super) const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// `RESOLVE_BENEATH` gives `EAGAIN` when a directory was renamed during the walk, since it could not prove
/// anything.
const ATTEMPTS: usize = 8;
/// Links on the way of one path, as many as the kernel follows (`MAXSYMLINKS`).
const MOST_LINKS: usize = 40;
/// Links that are told of: whoever has more of them knows by then.
const MOST_TOLD: usize = 20;

/// An open directory and the means to look beneath it.
pub(super) struct Beneath {
    root: OwnedFd,
    walk: Walk,
    /// Links may lead out.
    follow_links: bool,
    /// What absolute links call the root.
    names: Vec<Vec<u8>>,
    /// Links that lead out and were told of.
    told: Mutex<BTreeSet<Vec<u8>>>,
}

#[derive(Debug, Clone, Copy)]
enum Walk {
    /// `openat2` first.
    Kernel,
    /// A component at a time with `O_NOFOLLOW`.
    ByHand,
}

impl Beneath {
    /// Opens the directory. It need not be readable (mode 0711): files in it can be served all the same.
    pub(super) fn open(root: &Path, follow_links: bool) -> rustix::io::Result<Beneath> {
        let directory = PATH_ONLY | OFlags::DIRECTORY;
        let names = [std::fs::canonicalize(root), std::path::absolute(root)].into_iter().flatten();
        let names = names.map(|name| name.into_os_string().into_vec()).collect();
        let root = rustix::fs::open(root, directory, Mode::empty())?;
        let mut beneath = Beneath { root, walk: Walk::Kernel, follow_links, names, told: Mutex::default() };
        // The probe also finds out now, not at the first request, that nothing beneath it can be reached.
        match beneath.open_by_kernel(b".", directory) {
            Ok(_) => {}
            // EPERM: a seccomp filter older than the call.
            Err(Errno::NOSYS | Errno::PERM) => beneath.walk = Walk::ByHand,
            Err(err) => return Err(err),
        }
        Ok(beneath)
    }

    /// Opens a path below the root; an empty one is the root itself.
    pub(super) fn open_path(&self, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        match self.walk {
            Walk::Kernel => match self.open_by_kernel(path, flags) {
                Err(Errno::XDEV) => self.open_by_hand(path, flags),
                opened => opened,
            },
            Walk::ByHand if self.follow_links => openat(&self.root, path, flags, Mode::empty()),
            Walk::ByHand => self.open_by_hand(path, flags),
        }
    }

    fn open_by_kernel(&self, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let resolve = match self.follow_links {
            true => ResolveFlags::NO_MAGICLINKS,
            false => ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH,
        };
        let mut result = Err(Errno::AGAIN);
        for _ in 0..ATTEMPTS {
            result = openat2(&self.root, path, flags, Mode::empty(), resolve);
            if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        result
    }

    fn open_by_hand(&self, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        // What is still to be walked, the next component last, and what was: no link, each beneath the one
        // before it.
        let mut ahead: Vec<Vec<u8>> = components(path).rev().collect();
        let mut passed: Vec<(Vec<u8>, OwnedFd)> = Vec::new();
        let (mut link, mut links) = (Vec::new(), 0);
        while let Some(name) = ahead.pop() {
            if name == b".." {
                if passed.pop().is_none() {
                    return Err(self.leads_out(link));
                }
                continue;
            }
            let parent = passed.last().map_or(&self.root, |(_, parent)| parent);
            let here = openat(parent, &*name, PATH_ONLY | OFlags::NOFOLLOW, Mode::empty())?;
            if FileType::from_raw_mode(fstat(&here)?.st_mode) != FileType::Symlink {
                if ahead.is_empty() {
                    return openat(parent, &*name, flags | OFlags::NOFOLLOW, Mode::empty());
                }
                passed.push((name, here));
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(Errno::LOOP);
            }
            let target = readlinkat(&here, "", Vec::new())?.into_bytes();
            let on_the_way = passed.iter().map(|(name, _)| name.as_slice());
            link = on_the_way.chain([name.as_slice()]).collect::<Vec<_>>().join(&b'/');
            let within = if target.starts_with(b"/") {
                let Some(within) = self.names.iter().find_map(|root| strip(&target, root)) else {
                    return Err(self.leads_out(link));
                };
                passed.clear();
                within
            } else {
                target.as_slice()
            };
            ahead.extend(components(within).rev());
        }
        openat(passed.last().map_or(&self.root, |(_, last)| last), ".", flags, Mode::empty())
    }

    /// The refusal of a link, which is told once for each.
    fn leads_out(&self, link: Vec<u8>) -> Errno {
        let is_new = {
            let mut told = self.told.lock();
            told.len() < MOST_TOLD && told.insert(link.clone())
        };
        if is_new {
            let shown = link.escape_ascii();
            tracing::warn!("not following {shown}: the link leads out of the folder; use --follow-links");
        }
        Errno::XDEV
    }
}

/// The names in a path that say anything.
fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> {
    path.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b".")).map(<[u8]>::to_vec)
}

/// What is left of an absolute path below `root`; `None` where it is not below it.
fn strip<'a>(path: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(root)?;
    (root.ends_with(b"/") || rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::super::trees;
    use super::*;

    /// outer/{secret, root/{plain, sub/inner, ...}}, with links of all kinds in the root.
    fn tree() -> (tempfile::TempDir, Beneath) {
        let (outer, root) = trees::with_links();
        symlink("../plain", root.join("sub/up-in")).unwrap();
        symlink(root.join("sub"), root.join("abs")).unwrap();
        symlink("abs/../plain", root.join("over-abs")).unwrap();
        symlink(&root, root.join("sub/top")).unwrap();
        symlink(outer.path().join("secret"), root.join("abs-out")).unwrap();
        symlink(outer.path().join("root/../secret"), root.join("abs-up")).unwrap();
        symlink(outer.path().join("root2/x"), root.join("beside")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        let beneath = Beneath::open(&root, false).unwrap();
        (outer, beneath)
    }

    fn read(beneath: &Beneath, path: &str) -> rustix::io::Result<String> {
        let file = std::fs::File::from(beneath.open_path(path.as_bytes(), READ)?);
        Ok(std::io::read_to_string(file).unwrap())
    }

    #[test]
    fn both_walks_follow_links_that_stay_beneath_the_root() {
        let (_outer, mut beneath) = tree();
        for walk in [Walk::Kernel, Walk::ByHand] {
            beneath.walk = walk;
            for (path, text) in [
                ("plain", "plain"),
                ("in", "inner"),
                ("sub/up-in", "plain"),
                ("abs/inner", "inner"),
                ("abs/up-in", "plain"),
                ("over-abs", "plain"),
                ("sub/top/abs/top/in", "inner"),
            ] {
                assert_eq!(read(&beneath, path).unwrap(), text, "{path} walked by {walk:?}");
            }
            for (path, error) in [
                ("out", Errno::XDEV),
                ("up/secret", Errno::XDEV),
                ("up", Errno::XDEV),
                ("abs-out", Errno::XDEV),
                ("abs-up", Errno::XDEV),
                ("abs/top/out", Errno::XDEV),
                ("beside", Errno::XDEV),
                ("loop", Errno::LOOP),
                ("dangling", Errno::NOENT),
                ("none/x", Errno::NOENT),
                ("plain/x", Errno::NOTDIR),
            ] {
                assert_eq!(read(&beneath, path), Err(error), "{path} walked by {walk:?}");
            }
            let top = std::fs::File::from(beneath.open_path(b"abs/top", PATH_ONLY).unwrap());
            let root = std::fs::File::from(beneath.open_path(b"", PATH_ONLY).unwrap());
            assert_eq!(top.metadata().unwrap().ino(), root.metadata().unwrap().ino());
        }
        let told = beneath.told.lock();
        assert_eq!(told.len(), 5, "each link that leads out, once: {told:?}");
    }

    #[test]
    fn links_that_lead_out_are_followed_if_asked() {
        let (outer, _) = tree();
        let mut beneath = Beneath::open(&outer.path().join("root"), true).unwrap();
        for walk in [Walk::Kernel, Walk::ByHand] {
            beneath.walk = walk;
            for path in ["out", "up/secret", "abs-out", "abs-up", "sub/top/out"] {
                assert_eq!(read(&beneath, path).unwrap(), "secret", "{path} walked by {walk:?}");
            }
        }
        assert!(beneath.told.lock().is_empty());
    }
}
