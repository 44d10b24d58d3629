//! A tree as a stream of entries: depth first, in memory that does not grow with the number of entries.
//!
//! What a walk holds: the directories from its root to where it is, at most 32 of them open beside the root
//! and each with the names of one getdents call, and the first names of files with several.

mod level;
mod links;
mod referent;
pub(crate) mod rules;

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, Statx, openat, readlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use weir_units::nofile;

use crate::entry::{self, Entry, Kind, LinkTarget, Name, Xattr};
use crate::error::TreeError;
use crate::filter::{Filter, Scope, Side};
use crate::source::{self, Identity, Source};
use crate::xattr;
use level::{Level, Listed};
use links::Links;

/// Memory for one getdents call: about a thousand names, after which a larger buffer saves nothing that can
/// be measured. A level keeps what it has not met of one batch, so that the deepest tree there is (2048
/// levels) stays below 128 MiB.
const BATCH: usize = 32 << 10;
/// Directories held open at a time: deeper trees than this are rare, and 1024 descriptors are the usual limit
/// of a process. Of a smaller one it is an eighth.
fn most_open() -> usize {
    nofile::share(8, 32)
}

/// Where a walk begins, and what that is called in the tree.
#[derive(Debug, Clone)]
pub struct Root {
    /// The path on this machine.
    pub path: PathBuf,
    /// Its name in the tree: the root for a directory whose content is meant.
    pub name: Name,
    /// A symbolic link at `path` is followed.
    pub follow: bool,
}

impl Root {
    /// The directory's content goes straight into the tree's root (`rsync DIR/ ...`).
    pub fn content_of(path: impl Into<PathBuf>) -> Root {
        Root { path: path.into(), name: Name::root(), follow: true }
    }

    /// As people write sources: `DIR/`, `.` and `..` mean the content, anything else is called as its last
    /// component.
    pub fn from_argument(path: &Path) -> Result<Root, TreeError> {
        let bytes = path.as_os_str().as_bytes();
        match path.components().next_back() {
            Some(Component::Normal(last)) if !bytes.ends_with(b"/") && !bytes.ends_with(b"/.") => {
                Ok(Root { path: path.to_owned(), name: Name::new(last.as_bytes())?, follow: false })
            }
            _ => Ok(Root::content_of(path)),
        }
    }
}

/// What a walk looks at beyond kinds, sizes, modes and times.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Wanted {
    /// Extended attributes: `user.*`, ACLs, and as root everything else but `system.*`.
    pub xattrs: bool,
    /// Second names of a file become [`Kind::HardLink`]; without it they are files of their own.
    pub hard_links: bool,
    /// Stay on the root's file system: what is mounted is met as an empty directory.
    pub one_file_system: bool,
    /// What symbolic links lead to is met in their place.
    pub referents: bool,
    /// Of a directory that a list names, all that is in it.
    pub beneath: bool,
    /// A directory to leave out: the target, where it lies in the source.
    pub avoid: Option<Identity>,
}

/// What a walk meets.
#[derive(Debug)]
pub enum Step {
    /// An entry. A directory comes before what is in it. [`Kind::Special`] has no content.
    Found(Entry, Source),
    /// All of a directory was met: the entry as it was found, for its attributes come last. Every directory
    /// that is found is left, also one that cannot be read.
    Leave(Entry),
    /// This one could not be read, or not all of it; the walk goes on. [`TreeError::Vanished`] is of what
    /// nobody named: it was in a listing, and is gone.
    Failed(Name, TreeError),
}

/// What the filter is asked about.
#[derive(Clone, Copy)]
struct Judged<'a> {
    name: &'a Name,
    /// Whether it is a directory, as far as a listing has told.
    is_directory: Option<bool>,
}

impl<'a> Judged<'a> {
    /// Of what was named, and comes from no listing.
    fn unlisted(name: &'a Name) -> Judged<'a> {
        Judged { name, is_directory: None }
    }
}

/// The walk, to be iterated.
#[derive(Debug)]
pub struct Walk {
    todo: Todo,
    filter: Filter,
    wanted: Wanted,
    /// The rules that hold around the root that the walk is in.
    around: Scope,
    /// From the root to the directory being read.
    levels: Vec<Level>,
    links: Links,
    /// What getdents writes into.
    scratch: Vec<u8>,
    /// A second thing to say about the entry that was just met.
    next: Option<Step>,
    /// The depth of a directory that a list names, while all that is in it is met.
    whole: Option<usize>,
}

/// What comes when no directory is being read.
enum Todo {
    Roots(std::vec::IntoIter<Root>),
    List {
        root: Option<PathBuf>,
        names: Box<dyn Iterator<Item = Result<Name, TreeError>> + Send>,
        at: Option<Name>,
        /// The root, until the list names it (`.`): its attributes are nothing to the target otherwise.
        unnamed: Option<Box<Step>>,
    },
}

impl fmt::Debug for Todo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Todo::Roots(roots) => roots.fmt(f),
            Todo::List { at, .. } => write!(f, "list at {at:?}"),
        }
    }
}

impl Walk {
    /// A walk through `roots` one after another. As in rsync, the filter judges roots that have names too, by
    /// their last component.
    pub fn new(roots: Vec<Root>, filter: Filter, wanted: Wanted) -> Walk {
        Walk::with(Todo::Roots(roots.into_iter()), filter, wanted)
    }

    /// A walk through the names of a list (`--files-from`), relative to `root`: each with the directories on
    /// the way to it, and with what is beneath it only where that is wanted. A list in order meets each
    /// directory once; another meets some again. The filter is asked about the names too, and a name that it
    /// leaves out is not met. The root itself is found, and left, only where the list names it (`.`).
    pub fn listed<L>(root: PathBuf, list: L, filter: Filter, wanted: Wanted) -> Walk
    where
        L: Iterator<Item = Result<Name, TreeError>> + Send + 'static,
    {
        let list = Todo::List { root: Some(root), names: Box::new(list), at: None, unnamed: None };
        Walk { links: Links::of_list(), ..Walk::with(list, filter, wanted) }
    }

    /// Roots that the walk has not begun.
    pub fn roots_left(&self) -> usize {
        match &self.todo {
            Todo::Roots(roots) => roots.len(),
            Todo::List { .. } => 0,
        }
    }

    fn with(todo: Todo, filter: Filter, wanted: Wanted) -> Walk {
        let scratch = Vec::with_capacity(BATCH);
        // Behind a link a file is met again by the same name as well.
        let links = if wanted.referents { Links::of_list() } else { Links::default() };
        Walk {
            todo,
            filter,
            wanted,
            around: Scope::default(),
            levels: Vec::new(),
            links,
            scratch,
            next: None,
            whole: None,
        }
    }

    /// Meets a root: one of the paths on the command line. `None`: filtered out.
    fn meet_root(&mut self, root: &Root) -> Option<Step> {
        let name = root.name.clone();
        // Judged by what it is called here: the target may call it otherwise. A directory whose content is
        // meant has no name.
        let judged = match root.path.file_name() {
            Some(own) if !name.is_root() => Name::new(own.as_bytes()).ok(),
            _ => None,
        };
        match rules::around(&self.filter, root) {
            Ok(around) => self.around = around,
            Err(error) => return Some(Step::Failed(name, error)),
        }
        let judged = judged.as_ref().map(Judged::unlisted);
        Some(match open_around(root) {
            Ok((directory, base)) => match self.meet(&directory, base, name, judged)? {
                Step::Found(entry, _) if entry.name.is_root() && !entry.is_directory() => {
                    Step::Failed(entry.name.clone(), failed_root(root, Errno::NOTDIR))
                }
                Step::Found(entry, source) => {
                    let over_link = source.over_link || root.follow && root.path.is_symlink();
                    Step::Found(entry, Source { over_link, ..source })
                }
                step => step,
            },
            Err(errno) => Step::Failed(name, failed_root(root, errno)),
        })
    }

    /// Meets `base` in `directory` (itself, where `base` is empty); a directory becomes a level. The filter
    /// is asked about `judged`, if about anything. `None`: filtered out, or met before by another of its
    /// names and this one.
    fn meet(
        &mut self,
        directory: &Arc<OwnedFd>,
        base: Box<[u8]>,
        name: Name,
        judged: Option<Judged<'_>>,
    ) -> Option<Step> {
        let (mut directory, mut base) = (Arc::clone(directory), base);
        let mut stat = match source::stat(&directory, &base) {
            Ok(stat) => stat,
            // What the rules leave out need not be there, nor be this user's to look at: root may not look at
            // what another user has mounted by FUSE.
            Err(_) if judged.is_some_and(|judged| self.leaves_unseen(judged)) => return None,
            Err(errno) => return Some(Step::Failed(name.clone(), TreeError::of("read", &name, errno))),
        };
        // They are asked about a link too, which may lead nowhere.
        if self.wanted.referents && entry::file_type(&stat).is_symlink() {
            let leads_nowhere = |error| {
                let is_taken = judged.is_none_or(|judged| self.takes(judged.name, false));
                is_taken.then_some(Step::Failed(name.clone(), error))
            };
            match referent::of(&directory, &base, &name) {
                Ok(referent) => (directory, base, stat) = referent,
                Err(error) => return leads_nowhere(error),
            }
        }
        let is_directory = entry::file_type(&stat).is_dir();
        if judged.is_some_and(|judged| !self.takes(judged.name, is_directory)) {
            return None;
        }
        let identity = Identity::from_statx(&stat);
        if self.wanted.referents && is_directory && self.levels.iter().any(|level| level.identity == identity)
        {
            return Some(Step::Failed(name.clone(), TreeError::Around { name }));
        }
        let directory = &directory;
        Some(match self.look(directory, &base, name.clone(), &stat) {
            // It was met, and others may be links to it by now: a second copy would part them from it.
            Ok(Entry { kind: Kind::HardLink { to }, .. }) if to == name => return None,
            Ok(entry) => {
                if entry.is_directory() {
                    self.enter(directory, &base, entry.clone(), identity);
                }
                let (directory, over_link) = (Arc::clone(directory), self.wanted.referents);
                Step::Found(entry, Source { directory, base, identity, over_link, is_listed: false })
            }
            Err(error) => Step::Failed(name, error),
        })
    }

    /// Whether the rules take it, those of the directory being read too.
    fn takes(&self, name: &Name, is_directory: bool) -> bool {
        let scope = self.levels.last().map_or(&self.around, |level| &level.scope);
        self.filter.decides(scope, name, is_directory, Side::Sender)
    }

    /// Whether the rules leave out what could not be looked at. Where no listing has told what it is, they
    /// have to leave out a file and a directory of this name: what they take is not to go at the target.
    fn leaves_unseen(&self, judged: Judged<'_>) -> bool {
        let kinds = judged.is_directory.map_or([false, true], |is_directory| [is_directory; 2]);
        kinds.into_iter().all(|is_directory| !self.takes(judged.name, is_directory))
    }

    /// Whether the directory being read was named, or is on the way to what was: others were in a listing.
    fn is_in_named(&self) -> bool {
        match &self.todo {
            Todo::Roots(_) => self.levels.len() <= 1,
            Todo::List { .. } => self.whole.is_none_or(|depth| self.levels.len() <= depth),
        }
    }

    /// Reads everything about an entry but its content.
    fn look(
        &mut self,
        directory: &OwnedFd,
        base: &[u8],
        name: Name,
        stat: &Statx,
    ) -> Result<Entry, TreeError> {
        let identity = Identity::from_statx(stat);
        let mut entry = Entry::from_statx(name, stat, |name| read_link(directory, base, name))?;
        if entry.is_directory() && self.wanted.avoid == Some(identity) {
            return Err(TreeError::Itself { name: entry.name });
        }
        if self.wanted.xattrs && !matches!(entry.kind, Kind::Special(_)) {
            match xattr::read(xattr::At::name(directory.as_fd(), base)) {
                Ok(xattrs) => entry.xattrs = self.wanted_xattrs(xattrs),
                Err(errno) => {
                    let error = TreeError::of("read the extended attributes of", &entry.name, errno);
                    self.next = Some(Step::Failed(entry.name.clone(), error));
                }
            }
        }
        if self.wanted.hard_links && matches!(entry.kind, Kind::File { .. } | Kind::Symlink { .. }) {
            // One that a list names twice becomes a link to itself, which `meet` passes over.
            if let Some(to) = self.links.meet(identity, stat.stx_nlink, &entry) {
                entry.kind = Kind::HardLink { to };
            }
        }
        Ok(entry)
    }

    /// Those that the rules take. ACLs are none to them, as in rsync.
    fn wanted_xattrs(&self, mut xattrs: Vec<Xattr>) -> Vec<Xattr> {
        let scope = self.levels.last().map_or(&self.around, |level| &level.scope);
        let takes = |name: &[u8]| xattr::is_acl(name) || self.filter.takes_xattr(scope, name, Side::Sender);
        xattrs.retain(|xattr| takes(xattr.name()));
        xattrs
    }

    /// Begins a level for a directory that was just met.
    fn enter(&mut self, directory: &OwnedFd, base: &[u8], entry: Entry, identity: Identity) {
        let elsewhere = self.levels.first().is_some_and(|root| root.identity.device != identity.device);
        let is_on_the_way = matches!(self.todo, Todo::List { .. }) && self.whole.is_none();
        let opened = if self.wanted.one_file_system && elsewhere {
            None
        } else {
            open_directory(directory, base, (&entry.name, identity), is_on_the_way)
                .map_err(|error| self.next = Some(Step::Failed(entry.name.clone(), error)))
                .ok()
        };
        let above = self.levels.last().map_or(&self.around, |level| &level.scope);
        let (opened, scope) = match opened.map(|opened| {
            let scope = rules::of(&self.filter, above, &opened, &entry.name)?;
            Ok::<_, TreeError>((opened, scope))
        }) {
            Some(Ok((opened, scope))) => (Some(opened), scope),
            // Without its rules it is not known what of it is not to be copied.
            Some(Err(error)) => {
                self.next = Some(Step::Failed(entry.name.clone(), error));
                (None, Scope::default())
            }
            None => (None, Scope::default()),
        };
        // The root stays open: the way back to the others begins there. Over links there is no such way.
        let most = most_open();
        if self.levels.len() > most && !self.wanted.referents {
            let far = self.levels.len() - most;
            self.levels[far].close();
        }
        let mut level = Level::new(entry, identity, opened.map(Arc::new), scope);
        if is_on_the_way {
            level.exhaust();
        }
        self.levels.push(level);
    }

    /// Leaves the innermost directory and goes back to the one around it.
    fn leave(&mut self) -> Option<Step> {
        let left = self.levels.pop()?;
        let is_named = self.is_in_named();
        if let [root, .., around] = &mut self.levels[..]
            && let (Some(root_directory), true) = (root.directory(), around.is_closed())
        {
            let name = around.entry.name.clone();
            if let Err(error) = around.reopen(root_directory, way_below(&root.entry.name, &name)) {
                around.exhaust();
                let failed = Step::Failed(name, error);
                self.next = Some(if is_named { failed } else { listed(failed) });
            }
        }
        Some(Step::Leave(left.entry))
    }

    /// One step within the innermost directory; `None` at the end of a list's root, in which the list goes
    /// on.
    fn read(&mut self) -> Option<Step> {
        loop {
            let is_lists_root = self.levels.len() == 1 && matches!(self.todo, Todo::List { .. });
            let is_named = self.is_in_named();
            let level = self.levels.last_mut()?;
            let Listed { base, is_directory } = match level.next(&mut self.scratch) {
                // What a list names after its root is in that, too.
                None if is_lists_root => {
                    self.whole = None;
                    return None;
                }
                None => return self.leave(),
                Some(Err(error)) => {
                    let failed = Step::Failed(level.entry.name.clone(), error);
                    return Some(if is_named { failed } else { listed(failed) });
                }
                Some(Ok(listed)) => listed,
            };
            let around = &level.entry.name;
            let name = match around.join(&base) {
                Ok(name) => name,
                Err(error) => return Some(Step::Failed(around.clone(), error.into())),
            };
            let Some(directory) = level.directory().cloned() else {
                let error = TreeError::of("read", &name, Errno::BADF);
                return Some(Step::Failed(name, error));
            };
            let judged = Judged { name: &name, is_directory };
            if let Some(step) = self.meet(&directory, base, name.clone(), Some(judged)) {
                self.next = self.next.take().map(listed);
                return Some(listed(step));
            }
        }
    }

    /// One step towards the next name of a list.
    fn follow_list(&mut self) -> Option<Step> {
        loop {
            let Todo::List { root, names, at, unnamed } = &mut self.todo else { return None };
            if self.levels.is_empty() {
                // Once: a root that cannot be opened ends the walk.
                let root = Root::content_of(root.take()?);
                let step = self.meet_root(&root)?;
                if !matches!(step, Step::Found(..)) {
                    return Some(step);
                }
                if let Todo::List { unnamed, .. } = &mut self.todo {
                    *unnamed = Some(Box::new(step));
                }
                match self.next.take() {
                    Some(failed) => return Some(failed),
                    None => continue,
                }
            }
            let Some(wanted) = at.clone() else {
                match names.next() {
                    Some(Ok(name)) => *at = Some(name),
                    Some(Err(error)) => return Some(Step::Failed(Name::root(), error)),
                    None if self.levels.len() == 1 && unnamed.is_some() => {
                        self.levels.clear();
                        return None;
                    }
                    None => return self.leave(),
                }
                continue;
            };
            let level = self.levels.last()?;
            let around = &level.entry.name;
            if wanted == *around {
                if let Some(step) = unnamed.take_if(|_| around.is_root()) {
                    return Some(*step);
                }
                *at = None;
                if self.wanted.beneath {
                    self.whole = Some(self.levels.len());
                    self.levels.last_mut()?.renew();
                    match self.read() {
                        None => continue,
                        step => return step,
                    }
                }
            } else if wanted.is_within(around) {
                if let Some(step) = self.approach(&wanted) {
                    return Some(step);
                }
            } else {
                return self.leave();
            }
        }
    }

    /// Meets the next component on the way from the innermost directory to `wanted`.
    /// `None`: the filter leaves it out.
    fn approach(&mut self, wanted: &Name) -> Option<Step> {
        let arrived = |walk: &mut Walk| {
            if let Todo::List { at, .. } = &mut walk.todo {
                *at = None;
            }
        };
        let step = self.levels.last().and_then(|level| {
            let way = way_below(&level.entry.name, wanted);
            let base = way.split(|byte| *byte == b'/').next()?;
            let name = level.entry.name.join(base).ok()?;
            Some((level.directory().cloned()?, Box::from(base), name))
        });
        let Some((directory, base, name)) = step else {
            arrived(self);
            return Some(Step::Failed(wanted.clone(), TreeError::on_the_way(wanted, Errno::NOTDIR)));
        };
        // Set before the directory is entered, whose names are to be read then.
        let depth = self.levels.len() + 1;
        self.whole = (self.wanted.beneath && name == *wanted).then_some(depth);
        let step = self.meet(&directory, base, name.clone(), Some(Judged::unlisted(&name)));
        if self.levels.len() < depth {
            self.whole = None;
        }
        Some(match step {
            Some(Step::Found(entry, source)) if entry.is_directory() || entry.name == *wanted => {
                if entry.name == *wanted {
                    arrived(self);
                }
                Step::Found(entry, source)
            }
            Some(Step::Failed(_, error)) => {
                arrived(self);
                Step::Failed(wanted.clone(), error)
            }
            Some(Step::Found(Entry { kind: Kind::Symlink { .. }, name: link, .. }, _)) => {
                arrived(self);
                Step::Failed(wanted.clone(), TreeError::BehindLink { name: wanted.clone(), link })
            }
            Some(_) => {
                arrived(self);
                Step::Failed(wanted.clone(), TreeError::on_the_way(wanted, Errno::NOTDIR))
            }
            None => {
                arrived(self);
                return None;
            }
        })
    }
}

impl Iterator for Walk {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if let Some(step) = self.next.take() {
            return Some(step);
        }
        match &mut self.todo {
            Todo::List { .. } if self.whole.is_some_and(|depth| self.levels.len() >= depth) => {
                self.read().or_else(|| self.follow_list())
            }
            Todo::List { .. } => {
                self.whole = None;
                self.follow_list()
            }
            Todo::Roots(_) if !self.levels.is_empty() => self.read(),
            Todo::Roots(_) => loop {
                let Todo::Roots(roots) = &mut self.todo else { return None };
                let root = roots.next()?;
                if let Some(step) = self.meet_root(&root) {
                    return Some(step);
                }
            },
        }
    }
}

/// A step of something that was in a listing: where that is gone by now, or is when it is read, it has
/// vanished. A name that somebody gave is missing.
fn listed(step: Step) -> Step {
    match step {
        Step::Found(entry, source) => Step::Found(entry, Source { is_listed: true, ..source }),
        Step::Failed(name, error) if error.is_gone() => {
            Step::Failed(name.clone(), TreeError::Vanished { name })
        }
        step => step,
    }
}

fn failed_root(root: &Root, errno: Errno) -> TreeError {
    TreeError::Path { action: "open", path: root.path.clone(), source: errno.into() }
}

/// The directory that a root is in, and its last component. `/` is in no other: then the component is empty.
fn open_around(root: &Root) -> Result<(Arc<OwnedFd>, Box<[u8]>), Errno> {
    let path = match root.follow {
        true => {
            root.path.canonicalize().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?
        }
        false => root.path.clone(),
    };
    let (around, base) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(base)) if parent.as_os_str().is_empty() => (Path::new("."), base.as_bytes()),
        (Some(parent), Some(base)) => (parent, base.as_bytes()),
        _ => (&*path, &b""[..]),
    };
    // O_PATH: being allowed to pass through is enough.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((Arc::new(openat(CWD, around, flags, Mode::empty())?), base.into()))
}

/// Opens a directory for reading, if it is still the one that was met; one that is only on the way to names
/// of a list need not be readable.
fn open_directory(
    around: &OwnedFd,
    base: &[u8],
    (name, met): (&Name, Identity),
    is_on_the_way: bool,
) -> Result<OwnedFd, TreeError> {
    let base = if base.is_empty() { b"." } else { base };
    let open = |access: OFlags| openat(around, base, source::DIRECTORY | access, Mode::empty());
    let opened = if is_on_the_way { source::read_or_pass(open) } else { open(OFlags::RDONLY) };
    let opened = opened.map_err(|errno| TreeError::of("open", name, errno))?;
    match Identity::of(&opened) {
        Ok(identity) if identity == met => Ok(opened),
        Ok(_) => Err(TreeError::Replaced { name: name.clone() }),
        Err(errno) => Err(TreeError::of("open", name, errno)),
    }
}

fn read_link(directory: &OwnedFd, base: &[u8], name: &Name) -> Result<LinkTarget, TreeError> {
    let target =
        readlinkat(directory, base, Vec::new()).map_err(|errno| TreeError::of("read", name, errno))?;
    Ok(LinkTarget::new(target.into_bytes())?)
}

/// The path from a directory to a name beneath it.
fn way_below<'a>(directory: &Name, name: &'a Name) -> &'a [u8] {
    let way = &name.as_bytes()[directory.as_bytes().len()..];
    way.strip_prefix(b"/").unwrap_or(way)
}
