//! A tree being written: every step beneath its root, whatever names and links say.
//!
//! A directory is opened once, by openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, and then used by
//! its descriptor; what is done in it goes by a single component, never through a link. `&self` everywhere: a
//! target may be used by several threads at once.

mod aside;
mod attribute_losses;
mod attributes;
mod backup;
mod before;
mod case_folding;
mod clock;
mod directories;
mod durable;
mod extras;
mod in_place;
mod in_progress_marker;
mod keep_set;
mod limit;
mod new_folders;
mod obstacle;
mod ownership;
mod pending;
mod place;
mod protection;
mod second_name;
mod special;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::compare::{self, Keep};
use crate::entry::{self, Entry, Kind, LinkTarget, Name, Time};
use crate::error::TreeError;
use crate::source::{self, Identity, Source};
use aside::Aside;
use attribute_losses::AttributeLosses;
pub use attribute_losses::{AttributeLoss, LostAttribute};
pub use attributes::umask;
use backup::Backups;
use case_folding::CaseFolding;
pub use case_folding::{found_to_fold, has_casefold_flag};
use clock::Clock;
use directories::{Directories, Directory};
pub use extras::Removed;
pub use keep_set::KeepSet;
use limit::Limit;
pub use new_folders::NewFolders;
pub use obstacle::{Barrier, SPECIAL};
use ownership::Ownership;
pub use pending::Pending;
pub use place::check_link;
use protection::Protected;

/// How a target is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// What entries get.
    pub keep: Keep,
    /// Make the root where it is missing (its parent has to be there).
    pub create: bool,
    /// The bytes of a file are on the disk before it gets its name.
    pub sync: bool,
    /// A symbolic link to a directory is taken for one, wherever it leads (rsync's `-K`).
    pub keep_dirlinks: bool,
    /// Somebody named the groups: one that this process may not set is a loss, and not passed over.
    pub named_groups: bool,
    /// Write every entry anew, even one that is there already: that may be the source itself over another
    /// mount, which is removed afterwards.
    pub anew: bool,
}

impl Default for Options {
    /// Modes and times; the root is made; the disk takes its time.
    fn default() -> Options {
        Options {
            keep: Keep { users: false, groups: false, xattrs: false, ..Keep::ALL },
            create: true,
            sync: false,
            keep_dirlinks: false,
            named_groups: false,
            anew: false,
        }
    }
}

/// A tree being written.
#[derive(Debug)]
pub struct Target {
    shared: Arc<Shared>,
    directories: Mutex<Directories>,
    identity: Identity,
}

/// What a target and its pending files have in common.
#[derive(Debug)]
struct Shared {
    keep: Keep,
    ownership: Ownership,
    sync: bool,
    anew: bool,
    umask: u32,
    words: AttributeLosses,
    aside: Aside,
    /// This file system has no unnamed files.
    no_unnamed: AtomicBool,
    case_folding: CaseFolding,
    clock: Clock,
    backups: OnceLock<Backups>,
    limit: Limit,
    protected: OnceLock<Protected>,
    /// Directories that were there keep their modes.
    spares_directories: AtomicBool,
}

fn open_root(root: &Path) -> Result<OwnedFd, TreeError> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = source::read_or_pass(|access| openat(CWD, root, flags | access, Mode::empty()));
    opened.map_err(|errno| failed("open", root, errno))
}

fn failed(action: &'static str, root: &Path, errno: Errno) -> TreeError {
    TreeError::Path { action, path: root.to_owned(), source: errno.into() }
}

impl Target {
    /// Opens the directory `root`, itself reached as the user wrote it, links and all.
    pub fn open(root: &Path, options: Options) -> Result<Target, TreeError> {
        let mut root_made = false;
        if options.create {
            match rustix::fs::mkdir(root, Mode::from_raw_mode(0o777)) {
                Ok(()) => root_made = true,
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed("create", root, errno)),
            }
        }
        let directory = open_root(root)?;
        let identity = Identity::of(&directory).map_err(|errno| failed("open", root, errno))?;
        directories::check_kernel(&directory)?;
        let target = Target::of(Some(directory), identity, options);
        target.lock().root_made = root_made;
        Ok(target)
    }

    /// A stand-in for one that does not exist yet, for a dry run: nothing is found in it, and nothing can be
    /// made.
    pub fn to_be(options: Options) -> Target {
        // No inode has this number.
        Target::of(None, Identity { device: 0, inode: 0 }, options)
    }

    fn of(directory: Option<OwnedFd>, identity: Identity, options: Options) -> Target {
        let Options { keep, sync, keep_dirlinks, named_groups, anew, .. } = options;
        let (umask, words, no_unnamed) =
            (attributes::umask(), AttributeLosses::default(), AtomicBool::new(false));
        let directories = Mutex::new(Directories::new(directory, keep_dirlinks));
        Target {
            shared: Arc::new(Shared {
                keep,
                ownership: Ownership::of_process(named_groups),
                sync,
                anew,
                umask,
                words,
                aside: Aside::default(),
                no_unnamed,
                case_folding: CaseFolding::default(),
                clock: Clock::default(),
                backups: OnceLock::new(),
                limit: Limit::default(),
                protected: OnceLock::new(),
                spares_directories: AtomicBool::new(false),
            }),
            directories,
            identity,
        }
    }

    /// Which directory it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Finds out how this file system compares names, for which a file is made for a moment. Without it names
    /// that are one there are told apart only from the first that is written on.
    pub fn learn_names(&self) {
        if let Ok(root) = self.lock().get(b"") {
            self.shared.case_folding.learn(&root);
        }
    }

    /// The modification time that `name` would have here after it was given `time`; `None` where that cannot
    /// be found out. A directory's own time may change for it only if `may_touch`.
    pub fn keeps_time(&self, name: &Name, time: Time, may_touch: bool) -> Option<Time> {
        let directory = self.directory_of(name).ok().flatten()?;
        self.shared.clock.keeps(&directory, time, may_touch)
    }

    /// What could not be kept so far.
    pub fn words(&self) -> Vec<AttributeLoss> {
        self.shared.words.all()
    }

    /// What stood where a part was to be and was no part of this user's, so that it has another name now: for
    /// whom, and a word on it.
    pub fn put_aside(&self) -> Vec<(Name, String)> {
        self.shared.aside.all()
    }

    /// Begins a file that appears under its name only when it is finished; directories on the way are made.
    /// Space is reserved unless it is sparse.
    pub fn create(&self, entry: &Entry) -> Result<Pending, TreeError> {
        let mut pending = self.lending(&entry.name, || {
            let (directory, _) = self.place_of(&entry.name)?;
            Pending::temporary(&self.shared, directory, entry)
        })?;
        pending.reserve(entry)?;
        Ok(pending)
    }

    /// Begins or goes on with a file that is kept beside its name (`.NAME.weir-part`) when this run ends
    /// early. A file of that name that `is_part` does not take for one gets another name. What cannot be
    /// replaced at the end is said at the beginning, unless it will have gone by then.
    pub fn part(
        &self,
        entry: &Entry,
        will_have_gone: bool,
        is_part: impl Fn(&File) -> bool,
    ) -> Result<Pending, TreeError> {
        let (directory, last) = self.place_of(&entry.name)?;
        if !will_have_gone {
            place::check(&directory, last, "a file", &entry.name)?;
        }
        let begin = || Pending::part(&self.shared, Arc::clone(&directory), &entry.name);
        let mut pending = self.lending(&entry.name, begin)?;
        if pending.adopted() && !is_part(pending.file()) && !pending.begin_anew()? {
            pending.put_aside("holds nothing that weir left")?;
            pending = begin()?;
        }
        if let Err(error) = pending.reserve(entry) {
            // Nothing came yet: nothing of it is to stay.
            if !pending.adopted() {
                let _ = pending::discard_part(&directory, &entry.name);
            }
            return Err(error);
        }
        Ok(pending)
    }

    /// Removes the part of `name`, if there is one.
    pub fn discard_part(&self, name: &Name) -> Result<(), TreeError> {
        let Some(directory) = self.directory_of(name)? else { return Ok(()) };
        pending::discard_part(&directory, name)
    }

    /// A whole small file at once, attributes and all; one that is sparse gets holes for pages of zeros.
    pub fn small(&self, entry: &Entry, content: &[u8]) -> Result<(), TreeError> {
        let pending = self.lending(&entry.name, || {
            let (directory, _) = self.place_of(&entry.name)?;
            Pending::temporary(&self.shared, directory, entry)
        })?;
        if let Kind::File { sparse: true, .. } = entry.kind {
            pending.write_around_holes(0, content)?;
            return pending.finish(entry);
        }
        pending.write_at(0, content)?;
        pending.publish(entry)
    }

    /// A symbolic link, in place of another or of a file.
    pub fn symlink(&self, entry: &Entry) -> Result<(), TreeError> {
        let Kind::Symlink { target } = &entry.kind else { return Ok(()) };
        let (directory, last) = self.place_of(&entry.name)?;
        let keep = || self.shared.back_up(&directory, last, &entry.name);
        let make = || {
            self.shared.remember(&directory, last, &entry.name);
            place::symlink((&directory, last), target, &entry.name, self.shared.anew, keep)
        };
        let place = || self.lending(&entry.name, make);
        self.shared.case_folding.place(&directory, &entry.name, place)?;
        attributes::of_node(&self.shared, &directory, last, entry)
    }

    /// A second name of a finished file of this tree; see [`Target::link_or_copy`] where it may have none.
    pub fn hard_link(&self, entry: &Entry) -> Result<(), TreeError> {
        let Kind::HardLink { to } = &entry.kind else { return Ok(()) };
        let gone = || TreeError::of("find the first name of", &entry.name, Errno::NOENT);
        let from = self.directory_of(to)?.ok_or_else(gone)?;
        let (directory, last) = self.place_of(&entry.name)?;
        let keep = || self.shared.back_up(&directory, last, &entry.name);
        let place = || {
            self.shared.remember(&directory, last, &entry.name);
            place::hard_link((&from, to.last()), (&directory, last), &entry.name, keep)
        };
        self.shared.case_folding.place(&directory, &entry.name, place)
    }

    /// What is there, without its extended attributes; never a [`Kind::HardLink`]. A link on the way is an
    /// error, and so is what this run has put there under another name.
    pub fn existing(&self, name: &Name) -> Result<Option<Entry>, TreeError> {
        let Some(directory) = self.directory_of(name)? else { return Ok(None) };
        let stat = source::stat(&directory, name.last());
        if let Ok(stat) = &stat {
            self.shared.case_folding.claim_seen(&directory, stat, name)?;
        }
        match stat {
            Ok(stat) => Entry::from_statx(name.clone(), &stat, |name| {
                let target = readlinkat(&directory, name.last(), Vec::new());
                let target = target.map_err(|errno| TreeError::of("read", name, errno))?;
                Ok(LinkTarget::new(target.into_bytes())?)
            })
            .map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(TreeError::of("look at", name, errno)),
        }
    }

    /// Opens the file that is there for reading: the old version for [`crate::delta`], or for `--checksum`.
    pub fn open_existing(&self, name: &Name) -> Result<File, TreeError> {
        let failed = |errno| TreeError::of("open", name, errno);
        let directory = self.directory_of(name)?.ok_or_else(|| failed(Errno::NOENT))?;
        let file = open_file(&directory, name.last()).map_err(failed)?;
        match source::stat(&file, b"") {
            Ok(stat) if entry::file_type(&stat).is_file() => Ok(File::from(file)),
            Ok(_) => Err(failed(Errno::INVAL)),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// The way to the content of a file of this target, for whoever passes it on: of `open`, which is in its
    /// place or will be, or of what is there.
    pub fn source_of(&self, name: &Name, open: Option<&File>) -> Result<Source, TreeError> {
        let failed = |errno| TreeError::of("open", name, errno);
        let directory = self.directory_of(name)?.ok_or_else(|| failed(Errno::NOENT))?;
        let identity = match open {
            Some(file) => Identity::of(file),
            None => source::stat(&directory, name.last()).map(|stat| Identity::from_statx(&stat)),
        };
        let (identity, base) = (identity.map_err(failed)?, name.last().into());
        let directory = Arc::clone(&directory.open);
        Ok(Source { directory, base, identity, over_link: false, is_listed: false })
    }

    /// The user and the group that a copy of the entry is given to, where it does not stay with who makes it.
    pub fn given(&self, entry: &Entry) -> (Option<u32>, Option<u32>) {
        self.shared.ownership.given(entry, self.shared.keep)
    }

    /// Gives an unchanged file, which is `there` as [`Target::existing`] found it, the attributes of `entry`
    /// where they differ. A file that needs nothing is not opened.
    pub fn mend(&self, entry: &Entry, there: &Entry) -> Result<(), TreeError> {
        let failed = |errno| TreeError::of("set the attributes of", &entry.name, errno);
        let keep = self.shared.keep;
        let given = self.given(entry);
        let is_same = compare::same_attributes(entry, there, Keep { xattrs: false, ..keep }, given);
        if is_same && !keep.xattrs {
            return Ok(());
        }
        let directory = self.directory_of(&entry.name)?.ok_or_else(|| failed(Errno::NOENT))?;
        if is_same && self.has_xattrs(&directory, entry) {
            return Ok(());
        }
        if let Kind::Symlink { .. } | Kind::Special(_) = entry.kind {
            return attributes::of_node(&self.shared, &directory, entry.name.last(), entry);
        }
        let file = open_file(&directory, entry.name.last()).map_err(failed)?;
        attributes::of_file(&self.shared, file.as_fd(), entry, attributes::Was::There)
    }

    /// Makes something in the directory of `name`: one that its owner may not write is made writable, as
    /// [`Target::directory`] does, which may not have been told of it yet. Not the root, of which nobody may
    /// ever be told.
    fn lending<T>(&self, name: &Name, make: impl Fn() -> Result<T, TreeError>) -> Result<T, TreeError> {
        match (make(), name.parent()) {
            (Err(error), Some(around)) if !around.is_root() && error.is_denied() => {
                self.directory(&around).map_err(|_| error)?;
                make()
            }
            (made, _) => made,
        }
    }

    /// The open directory that `name` is in, made where it is missing, and its last component: for what is no
    /// directory.
    fn place_of<'n>(&self, name: &'n Name) -> Result<(Arc<Directory>, &'n [u8]), TreeError> {
        let (around, last) =
            name.split_bytes().ok_or_else(|| TreeError::of("replace", name, Errno::ISDIR))?;
        if pending::is_part_name(last) {
            return Err(TreeError::Reserved { name: name.clone() });
        }
        let directory = self.lock().make(around, name, &self.shared)?;
        Ok((directory, last))
    }

    /// The open directory that `name` is in, if it is there; of the root, the root.
    fn directory_of(&self, name: &Name) -> Result<Option<Arc<Directory>>, TreeError> {
        let around = name.split_bytes().map_or(&b""[..], |(around, _)| around);
        match self.lock().get(around) {
            Ok(directory) => Ok(Some(directory)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(TreeError::on_the_way(name, errno)),
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Directories> {
        // A panic elsewhere leaves the cache as good as it was.
        self.directories.lock()
    }
}

/// Whether a file is the mark of a folder that a copy has begun, beside which it stands under the name of a
/// part.
pub fn is_mark(file: &File) -> bool {
    let mut start = [0; in_progress_marker::MARKED.len()];
    file.read_exact_at(&mut start, 0).is_ok() && start == *in_progress_marker::MARKED.as_bytes()
}

/// Opens for reading what may turn out to be anything: no link is followed, no pipe waited for.
fn open_file(directory: &OwnedFd, last: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(directory, last, flags, Mode::empty())
}
