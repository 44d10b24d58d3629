//! How does a path stay beneath a directory, whatever links lie on its way?
//!
//! Every open goes through one descriptor of the root with `openat2(2)` and `RESOLVE_BENEATH`: the kernel
//! itself follows links that stay beneath the root and refuses those that do not, without the gap between a
//! check and its use. It refuses absolute links too, though one may lead back into the root. What it refuses
//! is walked by hand: a component at a time from descriptor to descriptor, never over a link but by its own
//! words, read and walked in the same way. Kernels before 5.6 and some sandboxes lack the call; there all is
//! walked by hand.
//!
//! The root stays the folder that was opened, whatever its path leads to later, until it is reopened. If it
//! was removed, a folder of the same owner in the same place takes over by itself. Anything else under that
//! path may be a stranger's, or lead to what nobody meant to serve.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat};
use rustix::io::{Errno, retry_on_intr};
use weir_units::plain;

/// `O_NONBLOCK`: opening a FIFO must not wait for a writer, nor a file for whoever holds a lease on it.
pub(super) const READ: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// To look at an entry, or to pass through it, without opening it.
pub(super) const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// The first pause after `EAGAIN`. `RESOLVE_BENEATH` gives it when a directory was renamed during the walk,
/// since it could not prove anything; `O_NONBLOCK` when another process holds a lease on the file (Samba, an
/// NFS server's delegation), which the attempt asks it to release.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The last of them; each is twice the one before, so they are 31 ms in all: enough for a rename, and for a
/// lease whose holder is a round trip or two away. They are no longer, since a wait occupies one of the few
/// threads that HTTPS and HTTP/2 share; a later request may find the lease released.
const LAST_PAUSE: Duration = Duration::from_millis(16);
/// Links on the way of one path, as many as the kernel follows (`MAXSYMLINKS`).
const MOST_LINKS: usize = 40;
/// Links that are told of: whoever has more of them knows by then.
const MOST_TOLD: usize = 20;

/// An open directory and the means to look beneath it.
pub(super) struct Beneath {
    /// The root's path, absolute.
    path: PathBuf,
    root: Mutex<Arc<Root>>,
    /// Links may lead out.
    follow_links: bool,
    /// Links that lead out and were told of.
    told: Mutex<BTreeSet<Vec<u8>>>,
    /// The log has said that the root was removed and that nothing takes its place.
    lost: AtomicBool,
}

/// The directory as it was opened.
struct Root {
    folder: OwnedFd,
    walk: Walk,
    /// What absolute links call it.
    names: Vec<Vec<u8>>,
    /// Where it lay when it was opened, whatever links led there. `None` where there is no /proc to ask.
    place: Option<PathBuf>,
    /// Whose it was.
    owner: u32,
}

#[derive(Debug, Clone, Copy)]
enum Walk {
    /// `openat2` first.
    Kernel,
    /// A component at a time with `O_NOFOLLOW`.
    ByHand,
}

impl Root {
    fn open(path: &Path, follow_links: bool) -> rustix::io::Result<Root> {
        let directory = PATH_ONLY | OFlags::DIRECTORY;
        let names = [std::fs::canonicalize(path), std::path::absolute(path)].into_iter().flatten();
        let names = names.map(|name| name.into_os_string().into_vec()).collect();
        let folder = rustix::fs::open(path, directory, Mode::empty())?;
        // Of what was opened: the name may lead elsewhere by now.
        let place = std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok();
        let owner = fstat(&folder)?.st_uid;
        let mut root = Root { folder, walk: Walk::Kernel, names, place, owner };
        // The probe also finds out now, not at the first request, that nothing beneath it can be reached.
        match root.open_by_kernel(b".", directory, follow_links) {
            Ok(_) => {}
            // EPERM: a seccomp filter older than the call.
            Err(Errno::NOSYS | Errno::PERM) => root.walk = Walk::ByHand,
            Err(err) => return Err(err),
        }
        Ok(root)
    }

    /// Whether it was removed, here or on the host that has it.
    fn is_gone(&self) -> bool {
        fstat(&self.folder).map_or_else(|err| err == Errno::STALE, |stat| stat.st_nlink == 0)
    }

    /// Whether it lies where another did, and belongs to the same user.
    fn takes_place_of(&self, other: &Root) -> bool {
        self.place.is_some() && self.place == other.place && self.owner == other.owner
    }

    fn open_by_kernel(&self, path: &[u8], flags: OFlags, follow_links: bool) -> rustix::io::Result<OwnedFd> {
        let resolve = match follow_links {
            true => ResolveFlags::NO_MAGICLINKS,
            false => ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH,
        };
        retry_on_intr(|| openat2(&self.folder, path, flags, Mode::empty(), resolve))
    }
}

impl Beneath {
    /// Opens the directory. It need not be readable (mode 0711): files in it can be served all the same.
    pub(super) fn open(root: &Path, follow_links: bool) -> rustix::io::Result<Beneath> {
        // Where the working directory is no more, no name leads back.
        let path = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let root = Mutex::new(Arc::new(Root::open(root, follow_links)?));
        Ok(Beneath { path, root, follow_links, told: Mutex::default(), lost: AtomicBool::new(false) })
    }

    /// The root's path, absolute.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the root again, which may be another folder by now; where that fails, the one that was open
    /// stays.
    pub(super) fn reopen(&self) -> rustix::io::Result<()> {
        self.set(Root::open(&self.path, self.follow_links)?);
        Ok(())
    }

    fn set(&self, root: Root) -> Arc<Root> {
        let root = Arc::new(root);
        *self.root.lock() = root.clone();
        self.lost.store(false, Relaxed);
        root
    }

    /// Opens a path below the root; an empty one is the root itself. `ESTALE` says that there is no root.
    pub(super) fn open_path(&self, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        let root = self.root.lock().clone();
        match self.open_within(&root, path, flags) {
            Err(Errno::NOENT | Errno::STALE) if root.is_gone() => {
                let root = self.replace_lost(&root)?;
                self.open_within(&root, path, flags)
            }
            opened => opened,
        }
    }

    /// The root was removed: one that its owner made in the same place takes over.
    fn replace_lost(&self, lost: &Root) -> rustix::io::Result<Arc<Root>> {
        let cause = match Root::open(&self.path, self.follow_links) {
            Ok(root) if root.takes_place_of(lost) => return Ok(self.set(root)),
            Ok(_) => "what has its name lies elsewhere, or is another user's".to_owned(),
            Err(err) => plain(&err.into()),
        };
        if !self.lost.swap(true, Relaxed) {
            let path = self.path.display();
            tracing::warn!(
                "{path} was removed: {cause}; answering 503 until its owner makes it anew there, or SIGHUP"
            );
        }
        Err(Errno::STALE)
    }

    /// Tries again for a moment where it is told to.
    fn open_within(&self, root: &Root, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let mut pause = FIRST_PAUSE;
        loop {
            let opened = self.open_now(root, path, flags);
            if !matches!(opened, Err(Errno::AGAIN)) || pause > LAST_PAUSE {
                return opened;
            }
            std::thread::sleep(pause);
            pause *= 2;
        }
    }

    fn open_now(&self, root: &Root, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        match root.walk {
            Walk::Kernel => match root.open_by_kernel(path, flags, self.follow_links) {
                Err(Errno::XDEV) => self.open_by_hand(root, path, flags),
                opened => opened,
            },
            Walk::ByHand if self.follow_links => openat(&root.folder, path, flags, Mode::empty()),
            Walk::ByHand => self.open_by_hand(root, path, flags),
        }
    }

    fn open_by_hand(&self, root: &Root, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
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
            let parent = passed.last().map_or(&root.folder, |(_, parent)| parent);
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
                let Some(within) = root.names.iter().find_map(|name| strip(&target, name)) else {
                    return Err(self.leads_out(link));
                };
                passed.clear();
                within
            } else {
                target.as_slice()
            };
            ahead.extend(components(within).rev());
        }
        openat(passed.last().map_or(&root.folder, |(_, last)| last), ".", flags, Mode::empty())
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

    fn walk_by(beneath: &mut Beneath, walk: Walk) {
        Arc::get_mut(beneath.root.get_mut()).unwrap().walk = walk;
    }

    fn read(beneath: &Beneath, path: &str) -> rustix::io::Result<String> {
        let file = std::fs::File::from(beneath.open_path(path.as_bytes(), READ)?);
        Ok(std::io::read_to_string(file).unwrap())
    }

    #[test]
    fn both_walks_follow_links_that_stay_beneath_the_root() {
        let (_outer, mut beneath) = tree();
        for walk in [Walk::Kernel, Walk::ByHand] {
            walk_by(&mut beneath, walk);
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
            walk_by(&mut beneath, walk);
            for path in ["out", "up/secret", "abs-out", "abs-up", "sub/top/out"] {
                assert_eq!(read(&beneath, path).unwrap(), "secret", "{path} walked by {walk:?}");
            }
        }
        assert!(beneath.told.lock().is_empty());
    }
}
