//! Directories of a target: opened beneath its root, kept open while they are used, made where they are
//! missing.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use weir_units::nofile;

use super::attributes::{self, Was};
use super::{Shared, Target, keep_set};
use crate::compare::kept_mode;
use crate::entry::{self, Entry, Name};
use crate::error::{CREATE_WAY, TreeError};
use crate::source;

/// Directories held open: enough for the files under way at a time, and an eighth of the usual limit of 1024
/// descriptors, or of a smaller one.
fn most_open() -> usize {
    nofile::share(8, 128)
}

/// Mode of a directory that is being filled: nobody else looks in before it has its own mode.
const FILLING: u32 = 0o700;

/// A directory of the target, open; and what was found out about it, so that not every file in it asks again.
#[derive(Debug)]
pub(super) struct Directory {
    /// Shared with whoever reads what is in it.
    pub(super) open: Arc<OwnedFd>,
    /// It has the flag by which a directory compares names without case. Only an empty one can get or lose
    /// that (ext4's manual).
    pub flagged: OnceLock<bool>,
    /// Names are folded in it, by that flag or by its file system.
    pub folds_case: OnceLock<bool>,
}

impl From<OwnedFd> for Directory {
    fn from(open: OwnedFd) -> Directory {
        Directory { open: Arc::new(open), flagged: OnceLock::new(), folds_case: OnceLock::new() }
    }
}

impl Deref for Directory {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.open
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.open.as_fd()
    }
}

#[derive(Debug)]
pub(super) struct Directories {
    /// None where it is yet to be made, and has nothing.
    root: Option<Arc<Directory>>,
    /// The root was missing when this target was opened.
    pub root_made: bool,
    /// A symbolic link to a directory is one (`-K`).
    follow: bool,
    open: HashMap<Box<[u8]>, Slot>,
    /// Counts uses; says which slot was not used for longest.
    clock: u64,
    /// Those that were made and are not finished.
    made: HashSet<Name>,
    /// Where those that were there are spared: those that were made and are finished, which may be met again.
    /// Of each name a digest, as in a [`super::KeepSet`].
    finished: HashSet<u64>,
    /// Modes to give back where modes are not kept: that of a directory that was made writable, none for one
    /// that was made.
    borrowed: HashMap<Name, Option<u32>>,
}

#[derive(Debug)]
struct Slot {
    directory: Arc<Directory>,
    used: u64,
}

/// Without openat2 nothing can be opened safely: to be found out before anything is written.
pub(super) fn check_kernel(root: &OwnedFd) -> Result<(), TreeError> {
    match open_beneath(root, b".") {
        // Seccomp filters of older container engines answer EPERM to calls that they do not know.
        Err(Errno::NOSYS | Errno::PERM) => Err(TreeError::NoOpenat2),
        Err(errno) => Err(TreeError::on_the_way(&Name::root(), errno)),
        Ok(_) => Ok(()),
    }
}

fn open_beneath(root: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    source::read_or_pass(|access| source::open_beneath(root, path, access))
}

/// The user said that links to directories at the target are as good (`-K`), wherever they lead.
fn open_over_links(root: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    openat(root, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

impl Directories {
    pub fn new(root: Option<OwnedFd>, follow: bool) -> Directories {
        let root = root.map(|root| Arc::new(root.into()));
        let (open, borrowed) = (HashMap::new(), HashMap::new());
        let (made, finished) = (HashSet::new(), HashSet::new());
        Directories { root, root_made: false, follow, open, clock: 0, made, finished, borrowed }
    }

    /// The directory at `path`, open.
    pub fn get(&mut self, path: &[u8]) -> Result<Arc<Directory>, Errno> {
        let root = self.root.as_ref().ok_or(Errno::NOENT)?;
        if path.is_empty() {
            return Ok(Arc::clone(root));
        }
        self.clock += 1;
        if let Some(slot) = self.open.get_mut(path) {
            slot.used = self.clock;
            return Ok(Arc::clone(&slot.directory));
        }
        let opened = match open_beneath(root, path) {
            // openat2(2): the last component is no directory, where it is a link that is not followed.
            Err(Errno::LOOP | Errno::NOTDIR) if self.follow => open_over_links(root, path),
            other => other,
        };
        let directory = Arc::new(Directory::from(opened?));
        if self.open.len() >= most_open() {
            let oldest = self.open.iter().min_by_key(|(_, slot)| slot.used).map(|(path, _)| path.clone());
            oldest.map(|path| self.open.remove(&path));
        }
        self.open.insert(path.into(), Slot { directory: Arc::clone(&directory), used: self.clock });
        Ok(directory)
    }

    /// Whether the symbolic link `name` is as good as the directory that it leads to.
    pub(crate) fn leads_to_directory(&mut self, name: &Name) -> bool {
        self.follow && self.get(name.as_bytes()).is_ok()
    }

    /// The directory at `path`, made with those on the way to it where they are missing. `name` is for
    /// errors.
    pub fn make(&mut self, path: &[u8], name: &Name, shared: &Shared) -> Result<Arc<Directory>, TreeError> {
        // Up to what is there, ...
        let mut there = path.len();
        let mut directory = loop {
            match self.get(&path[..there]) {
                Ok(directory) => break directory,
                Err(Errno::NOENT) if there > 0 => {
                    there = path[..there].iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                }
                Err(errno) => return Err(TreeError::on_the_way(name, errno)),
            }
        };
        // ... and down again.
        while there < path.len() {
            let start = if there == 0 { 0 } else { there + 1 };
            let end =
                path[start..].iter().position(|byte| *byte == b'/').map_or(path.len(), |slash| start + slash);
            match mkdirat(&directory, &path[start..end], Mode::from_raw_mode(FILLING)) {
                Ok(()) => {
                    let made = Name::new(&path[..end])?;
                    if !shared.keep.modes {
                        self.borrowed.insert(made.clone(), None);
                    }
                    self.made.insert(made);
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(TreeError::of(CREATE_WAY, name, errno)),
            }
            let inside = self.get(&path[..end]).map_err(|errno| TreeError::on_the_way(name, errno))?;
            shared.case_folding.claim(&directory, &inside, &Name::new(&path[..end])?)?;
            directory = inside;
            there = end;
        }
        if shared.case_folding.any() {
            self.check_way(path, name, shared)?;
        }
        Ok(directory)
    }

    /// No directory on the way to `path` is another one's under a name that the file system holds for the
    /// same.
    fn check_way(&mut self, path: &[u8], name: &Name, shared: &Shared) -> Result<(), TreeError> {
        let failed = |errno| TreeError::on_the_way(name, errno);
        let mut around = self.get(b"").map_err(failed)?;
        let slashes = (0..path.len()).filter(|at| path[*at] == b'/');
        for end in slashes.chain((!path.is_empty()).then_some(path.len())) {
            let inside = self.get(&path[..end]).map_err(failed)?;
            shared.case_folding.claim(&around, &inside, &Name::new(&path[..end])?)?;
            around = inside;
        }
        Ok(())
    }

    /// Whether this run made it.
    fn is_new(&self, name: &Name) -> bool {
        self.made.contains(name)
            || name.is_root() && self.root_made
            || self.finished.contains(&keep_set::of(name.as_bytes()))
    }

    /// What a directory was that is finished now. Where those that were there are spared, one that this run
    /// made is none of them, though it was finished before.
    fn finish(&mut self, name: &Name, are_spared: bool) -> Was {
        let is_new = are_spared && self.is_new(name);
        self.open.remove(name.as_bytes());
        self.made.remove(name);
        let borrowed = self.borrowed.remove(name);
        if is_new {
            self.finished.insert(keep_set::of(name.as_bytes()));
        }
        match borrowed {
            _ if is_new => Was::Made,
            Some(None) => Was::Made,
            Some(Some(mode)) => Was::Borrowed(mode),
            None => Was::There,
        }
    }

    /// Closes what is at or beneath `name`.
    pub fn forget(&mut self, name: &Name) {
        let beneath = |path: &[u8]| {
            let rest = path.strip_prefix(name.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        self.open.retain(|path, _| !beneath(path));
    }
}

impl Target {
    /// Makes the directory and those on the way to it, where they are missing: mode 0700 until
    /// [`Target::finish_directory`], which each of them has to get. One that is there is made writable for
    /// its owner until then.
    pub fn directory(&self, name: &Name) -> Result<(), TreeError> {
        let mut directories = self.lock();
        let directory = directories.make(name.as_bytes(), name, &self.shared);
        let directory = match directory {
            Ok(directory) => directory,
            Err(error) => {
                drop(directories);
                return Err(self.clash_with_directory(name).unwrap_or(error));
            }
        };
        let stat = source::stat(&directory, b"").map_err(|errno| TreeError::of("look at", name, errno))?;
        if let Some((around, _)) = name.split_bytes()
            && let Ok(around) = directories.get(around)
        {
            self.shared.case_folding.claim_seen(&around, &stat, name)?;
        }
        let mode = u32::from(stat.stx_mode) & 0o7777;
        if mode & FILLING != FILLING {
            // Of another owner: it stays as it is, and what cannot be put into it says so itself.
            if attributes::set_mode(directory.as_fd(), mode | FILLING).is_ok() {
                directories.borrowed.entry(name.clone()).or_insert(Some(mode));
                // Perhaps it was opened only to pass through.
                directories.forget(name);
            }
        }
        Ok(())
    }

    /// The same for one whose attributes are known. Where directories that were there are spared, one that
    /// this run made has its own mode at once, with what its owner needs until it is finished: if this run
    /// ends early, the next one finds it there and leaves its mode.
    pub fn begin_directory(&self, entry: &Entry) -> Result<(), TreeError> {
        self.directory(&entry.name)?;
        let keep = self.shared.keep;
        if !keep.modes || !self.spares_directories() {
            return Ok(());
        }
        let mut directories = self.lock();
        if directories.is_new(&entry.name)
            && let Ok(directory) = directories.get(entry.name.as_bytes())
        {
            // What cannot be set is told when it is finished.
            let _ = attributes::set_mode(directory.as_fd(), kept_mode(entry, keep) | FILLING);
        }
        Ok(())
    }

    /// From now on directories that were there keep their modes, the root too.
    pub fn spare_directories(&self) {
        self.shared.spares_directories.store(true, Relaxed);
    }

    /// Whether they do.
    pub fn spares_directories(&self) -> bool {
        self.shared.spares_directories.load(Relaxed)
    }

    /// The way to a directory is barred by something that is none.
    fn clash_with_directory(&self, name: &Name) -> Option<TreeError> {
        let there = self.existing(name).ok()??;
        (!there.is_directory()).then(|| TreeError::Clash {
            name: name.clone(),
            new: "a directory",
            old: there.kind.words(),
        })
    }

    /// Gives a directory its attributes: after everything in it is finished, for its times come last.
    pub fn finish_directory(&self, entry: &Entry) -> Result<(), TreeError> {
        let name = &entry.name;
        let (directory, was) = {
            let mut directories = self.lock();
            let directory =
                directories.get(name.as_bytes()).map_err(|errno| TreeError::on_the_way(name, errno))?;
            (directory, directories.finish(name, self.spares_directories()))
        };
        self.shared.case_folding.finished(name);
        attributes::of_file(&self.shared, directory.as_fd(), entry, was)
    }

    /// Whether the directory `name` was made here and is not finished yet.
    pub fn was_made(&self, name: &Name) -> bool {
        self.lock().made.contains(name)
    }

    /// Whether the root was missing, and was made for this run.
    pub fn root_was_made(&self) -> bool {
        self.lock().root_made
    }

    /// Is there a directory at `name`, and may this process read it?
    pub fn has_directory(&self, name: &Name) -> bool {
        // The root is one, or will be.
        if name.is_root() {
            return true;
        }
        let stat = self.lock().get(name.as_bytes()).and_then(|directory| source::stat(&directory, b""));
        stat.is_ok_and(|stat| entry::file_type(&stat).is_dir())
    }
}
