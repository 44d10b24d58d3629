//! `NAME.part`, the file while it grows, and `NAME.weir`, its journal. `NAME` itself appears only by rename.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use rustix::fs::{FallocateFlags, FlockOperation, Mode, fallocate, fchmod, flock, renameat};
use rustix::io::{pwrite, pwritev};
use weir_tree::pages::{self, Pages};
use weir_tree::room::with_room;
use weir_units::{Bytes, atomic_file};

use super::Existing;
use super::attributes::NewFile;
use super::beside::{self, For, Found};
use super::folder::{Folder, Target};
use super::home::{Home, kept_names};
use super::in_place;
use super::naming::{self, CopyRules, Failure};
use crate::error::GetError;
use crate::journal::{self, Journal};
use crate::object;
use crate::ranges::RangeSet;
use crate::version::Version;

/// Linux's UIO_MAXIOV.
const MAX_PIECES: usize = 1024;

/// Others may take the part's name and release it in turns. Someone who does so this often will not stop.
const TRIES: usize = 64;

/// A part file that this process has locked.
#[derive(Debug)]
pub struct PartFile {
    file: File,
    target: Target,
    home: Home,
    /// A journal can be kept: nobody else's file is in its place.
    journalled: AtomicBool,
    /// It is complete and verified, and is being written into its target: it stays until that is done.
    precious: AtomicBool,
    /// The kernel tells of a write-back error once; it is remembered here.
    sync_error: AtomicI32,
    /// Of a reserved file, where memory can be had ahead of the writer.
    pages: OnceLock<Pages>,
}

/// The part, opened or made. [`Found::Nothing`]: somebody else was quicker to make it, so look again.
fn open_or_create(folder: &Folder, part: &OsStr) -> io::Result<Found> {
    match beside::open(folder, part, For::Writing)? {
        Found::Nothing => match beside::create(folder, part) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Found::Nothing),
            made => made.map(Found::Ours),
        },
        found => Ok(found),
    }
}

impl PartFile {
    /// Opens or creates the part file of `target` and locks it against other weirs.
    pub fn open(target: &Target, home: Home) -> Result<PartFile, GetError> {
        let (folder, part) = (&home.folder, &home.part);
        let failed =
            |source| GetError::Local { action: "open", path: folder.shown(part), source, kept: None };
        for _ in 0..TRIES {
            let file = match open_or_create(folder, part).map_err(failed)? {
                Found::Ours(file) => file,
                Found::Nothing => continue,
                Found::Blocked(why) => return PartFile::for_this_run(target, home, &why),
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                // Whoever has it may sleep for ever, or be as quick: the first one gives the file its name.
                Err(_) if home.existing == Existing::Kept => {
                    let why = format!("{} is in use by another weir", folder.shown(part).display());
                    return PartFile::for_this_run(target, home, &why);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(GetError::Locked { path: target.path().to_owned() });
                }
                // No locks on this file system (some network ones): go on without.
                Err(_) => {}
            }
            // The one who held the lock may have renamed the file meanwhile: then ours is no longer the part
            // file.
            if !folder.has(part, &file).map_err(failed)? {
                continue;
            }
            if home.is_weirs(&file) {
                return PartFile::own(file, target, home);
            }
            // It may be filling it, and rename it by its name.
            let shown = folder.shown(part);
            let why = format!("{} is another program's; remove it where it is a leftover", shown.display());
            return PartFile::for_this_run(target, home, &why);
        }
        let why = format!("{} is being changed by another program", folder.shown(part).display());
        PartFile::for_this_run(target, home, &why)
    }

    /// The part of `target`, of `size` bytes, in a tree that other hosts write too: each fills a piece of it.
    /// It stays, whatever becomes of a piece.
    pub fn open_piece(target: &Target, size: u64) -> Result<PartFile, GetError> {
        for _ in 0..TRIES {
            let Some(part) = PartFile::piece(target, open_or_create)? else { continue };
            if part.file.metadata().map(|data| data.len()).ok() != Some(size) {
                part.set_size(size)?;
            }
            return Ok(part);
        }
        Err(GetError::Locked { path: target.path().to_owned() })
    }

    /// The same, if it is there with this size: none is made.
    pub fn existing_piece(target: &Target, size: u64) -> Result<Option<PartFile>, GetError> {
        let part = PartFile::piece(target, |folder, part| beside::open(folder, part, For::Writing))?;
        Ok(part.filter(|part| part.file.metadata().is_ok_and(|data| data.len() == size)))
    }

    /// The part of a shared tree that `find` finds, held against whoever wants all of it; `None`: it is not
    /// there, or was replaced meanwhile.
    fn piece(
        target: &Target,
        find: impl Fn(&Folder, &OsStr) -> io::Result<Found>,
    ) -> Result<Option<PartFile>, GetError> {
        let home = Home::shared(target);
        let (folder, part) = (&home.folder, &home.part);
        let failed =
            |source| GetError::Local { action: "open", path: folder.shown(part), source, kept: None };
        let file = match find(folder, part).map_err(failed)? {
            Found::Ours(file) => file,
            Found::Nothing => return Ok(None),
            Found::Blocked(why) => return Err(GetError::Refused(format!("cannot share a part: {why}"))),
        };
        // Whoever fetches all of it has it alone.
        if flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK) {
            return Err(GetError::Locked { path: target.path().to_owned() });
        }
        if !folder.has(part, &file).map_err(failed)? {
            return Ok(None);
        }
        let part = PartFile::new(file, target, home);
        part.journalled.store(false, Relaxed);
        part.precious.store(true, Relaxed);
        Ok(Some(part))
    }

    /// Somebody blocks the part's name, so the file grows under a name that only this run knows.
    fn for_this_run(target: &Target, mut home: Home, why: &str) -> Result<PartFile, GetError> {
        match home.existing {
            Existing::Replaced | Existing::Stays => {
                tracing::warn!("{why}; this download cannot be resumed if it is interrupted");
            }
            Existing::Kept => tracing::info!("{why}; this download has a part of its own"),
        }
        // Without a name it ends with its process.
        let unnamed = match home.existing {
            Existing::Kept => beside::create_unnamed(&home.folder).ok(),
            Existing::Replaced | Existing::Stays => None,
        };
        let made = match unnamed {
            Some(file) => Ok((OsString::new(), file)),
            None => beside::create_passing(&home.folder, target.name()),
        };
        let (part, file) = made.map_err(|source| GetError::Local {
            action: "create a part of",
            path: target.path().to_owned(),
            source,
            kept: None,
        })?;
        home.part = part;
        let part = PartFile::new(file, target, home);
        part.journalled.store(false, Relaxed);
        Ok(part)
    }

    /// Makes sure that nobody but this user has, or had, any right to the part.
    fn own(file: File, target: &Target, home: Home) -> Result<PartFile, GetError> {
        let failed = |source| GetError::Local {
            action: "open",
            path: home.folder.shown(&home.part),
            source,
            kept: None,
        };
        let stat = file.metadata().map_err(failed)?;
        if home.folder.is_ours(stat.uid()) {
            if stat.mode() & 0o777 != 0o600 {
                // Refused where all files have one mode (FAT).
                let _ = fchmod(&file, Mode::from_raw_mode(0o600));
            }
            beside::mark(&file);
            return Ok(PartFile::new(file, target, home));
        }
        // Root resumes what the folder's owner began, but in its own file: they may still have theirs open.
        let taken_over = || {
            let (passing, own) = beside::create_passing(&home.folder, target.name())?;
            let _ = flock(&own, FlockOperation::NonBlockingLockExclusive);
            beside::mark(&own);
            in_place::copy(&file, &own, stat.len())
                .map_err(|(_, error)| error)
                .and_then(|()| Ok(renameat(&home.folder, &passing, &home.folder, &home.part)?))
                .inspect_err(|_| beside::remove(&home.folder, &passing, &own))?;
            Ok(own)
        };
        let own = taken_over().map_err(failed)?;
        Ok(PartFile::new(own, target, home))
    }

    fn new(file: File, target: &Target, home: Home) -> PartFile {
        PartFile {
            file,
            target: target.clone(),
            home,
            journalled: AtomicBool::new(true),
            precious: AtomicBool::new(false),
            sync_error: AtomicI32::new(0),
            pages: OnceLock::new(),
        }
    }

    /// A later run can find it and what is known of it.
    pub(crate) fn keeps_journal(&self) -> bool {
        self.journalled.load(Relaxed)
    }

    /// What an earlier run left, if its journal can be trusted and is of `url` ([`object::identity`]); the
    /// inner `Err` says why not.
    pub fn saved(&self, url: &str) -> Result<Result<Option<Journal>, String>, GetError> {
        let read = match self.open_journal() {
            Ok(Some(file)) => Journal::read_open(&file),
            Ok(None) => return Ok(Ok(None)),
            Err(error) => Err(journal::JournalError::Read(error)),
        };
        let journal = match read {
            Ok(journal) => journal,
            // Another reason than that it is not ours to read may pass; what is kept must not go for it.
            Err(journal::JournalError::Read(source)) if source.kind() != io::ErrorKind::PermissionDenied => {
                let path = self.home.folder.shown(&self.home.journal);
                return Err(GetError::Local { action: "read", path, source, kept: None });
            }
            Err(error) => return Ok(Err(error.to_string())),
        };
        let why = if object::identity_of_text(&journal.url) != url {
            "the partial file here is of another url"
        } else if journal.version().if_range().is_none() {
            "the server gave no version (ETag or Last-Modified), so changes cannot be detected"
        } else if !self.file.metadata().is_ok_and(|metadata| metadata.len() == journal.size) {
            "the partial file does not have the size that its journal says"
        } else {
            return Ok(Ok(Some(journal)));
        };
        Ok(Err(why.to_owned()))
    }

    /// The journal, if one is there; what is not ours is put aside.
    fn open_journal(&self) -> io::Result<Option<File>> {
        if !self.keeps_journal() {
            return Ok(None);
        }
        match beside::open(&self.home.folder, &self.home.journal, For::Reading)? {
            Found::Ours(file) => Ok(Some(file)),
            Found::Nothing => Ok(None),
            Found::Blocked(why) => {
                tracing::warn!("{why}; this download cannot be resumed if it is interrupted");
                self.journalled.store(false, Relaxed);
                Ok(None)
            }
        }
    }

    /// Puts aside what an earlier run left of another URL than `url` ([`object::identity`]), and says where
    /// that is: it may be all that somebody has of it. Returns whether there was any: then this is no part
    /// any more, and its names are free.
    pub(crate) fn put_aside_of_another(&self, url: &str) -> Result<bool, GetError> {
        let Home { folder, part, journal, existing } = &self.home;
        // Of a tree that hosts share each name is one object, wherever it comes from. A query may hold what
        // is new in each run, a signature: each would leave a part more.
        let place = |url: &str| url.split('?').next().unwrap_or_default().to_owned();
        let is_another = |left: &Journal| {
            *existing != Existing::Kept && place(&object::identity_of_text(&left.url)) != place(url)
        };
        let Some(left) = self.home.left().filter(is_another) else { return Ok(false) };
        let held = Bytes(left.stored().len());
        let put_aside = |name: &OsStr| -> io::Result<String> {
            let aside = beside::put_aside(folder, name)?;
            Ok(aside.unwrap_or_else(|| folder.shown(name)).display().to_string())
        };
        let refused = |name: &OsStr, error: &io::Error| {
            GetError::Refused(format!(
                "cannot put aside {}, of which another url brought {held}: {}; move it away, or pass --force",
                folder.shown(name).display(),
                weir_units::plain(error)
            ))
        };
        // The part first: without a journal it would be overwritten, should a kill come in between.
        let part = match put_aside(part) {
            // So many have been put aside already that nobody wants this one.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            at => at.map_err(|error| refused(part, &error))?,
        };
        let journal = put_aside(journal).map_err(|error| refused(journal, &error))?;
        tracing::warn!("{held} that came from another url are kept in {part}, with {journal}");
        Ok(true)
    }

    /// Forgets what was there.
    pub fn restart(&self) -> Result<(), GetError> {
        // For what it puts aside.
        let _ = self.open_journal();
        self.remove_journal();
        self.file.set_len(0).map_err(|source| self.failed("truncate", source, None))
    }

    fn remove_journal(&self) {
        if self.keeps_journal() {
            Journal::remove_in(&self.home.folder, &self.home.journal);
        }
    }

    /// Reserves `size` bytes, so that a full disk is noticed before the first byte is fetched.
    pub fn reserve(&self, size: u64) -> Result<(), GetError> {
        let full = |source: io::Error| self.failed("reserve space for", source, None);
        match fallocate(&self.file, FallocateFlags::empty(), 0, size) {
            Ok(()) => {
                let _ = self.pages.set(Pages::of(&self.file, size));
                Ok(())
            }
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                self.file.set_len(size).map_err(full)
            }
            Err(error) => {
                // A failed reservation may leave some: give it back.
                let _ = self.file.set_len(0);
                Err(full(with_room(&self.file, error.into(), size)))
            }
        }
    }

    /// Writes all of `pieces` at `offset`, as much with a call as [`Pages::write`] says.
    pub fn write_at(&self, offset: u64, pieces: &mut [IoSlice<'_>]) -> Result<(), GetError> {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let pages = self.pages.get_or_init(Pages::default);
        pages.write(offset, bytes, |piece| self.write_in_pieces(offset, pieces, piece))
    }

    fn write_in_pieces(
        &self,
        mut offset: u64,
        pieces: &mut [IoSlice<'_>],
        piece: u64,
    ) -> Result<(), GetError> {
        let mut pieces = &mut pieces[..];
        while !pieces.is_empty() {
            let room = pages::room(offset, piece);
            let written = match fitting(pieces, room) {
                0 => pwrite(&self.file, &pieces[0][..room], offset),
                whole => pwritev(&self.file, &pieces[..whole], offset),
            };
            match written {
                Ok(0) => return Err(self.failed("write", io::ErrorKind::WriteZero.into(), None)),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut pieces, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(self.failed("write", error.into(), None)),
            }
        }
        Ok(())
    }

    /// Stores the journal; with `durable`, everything written before this call is on the disk first.
    pub fn store(&self, journal: &Journal, durable: bool) -> Result<(), GetError> {
        let Home { folder, journal: name, .. } = &self.home;
        journal.store_in(folder, name, durable).map_err(|source| GetError::Local {
            action: "write",
            path: folder.shown(name),
            source,
            kept: None,
        })
    }

    /// Waits until the file's bytes are on the disk.
    pub fn sync(&self) -> Result<(), GetError> {
        self.sync_error()?;
        self.file.sync_data().map_err(|source| self.lacks("sync", source))
    }

    /// Hears what the file system did not take of the file's bytes; with `sync` they are on the disk.
    pub(crate) fn settle(&self, sync: bool) -> Result<(), GetError> {
        if sync {
            return self.sync();
        }
        self.sync_error()?;
        atomic_file::settled(&self.file, false).map_err(|source| self.lacks("write", source))
    }

    /// Which of the written bytes are there is unknown from here on.
    fn lacks(&self, action: &'static str, source: io::Error) -> GetError {
        self.sync_error.store(source.raw_os_error().unwrap_or(libc::EIO), Relaxed);
        self.failed(action, source, None)
    }

    /// The error of an earlier sync, which holds for all that was written before it.
    pub(crate) fn sync_error(&self) -> Result<(), GetError> {
        match self.sync_error.load(Relaxed) {
            0 => Ok(()),
            code => Err(self.failed("sync", io::Error::from_raw_os_error(code), None)),
        }
    }

    /// Cuts or grows the file to its size, once that is known.
    pub(crate) fn set_size(&self, size: u64) -> Result<(), GetError> {
        self.file.set_len(size).map_err(|source| self.failed("resize", source, None))
    }

    /// The complete, verified file gets its name; the journal goes. With `sync`, bytes copied on the way are
    /// synced too.
    pub fn publish(&self, sync: bool) -> Result<(), GetError> {
        self.publish_as(sync, &NewFile::default())
    }

    /// The same; where existing files stay ([`Existing::Kept`]) it gets what `new` says with its name.
    pub fn publish_as(&self, sync: bool, new: &NewFile) -> Result<(), GetError> {
        self.give_name(new, CopyRules { sync, go_on: &|| true })
    }

    /// As [`PartFile::publish`]; a copy on the way goes on for as long as `go_on` says so.
    pub(crate) fn publish_while(&self, sync: bool, go_on: &dyn Fn() -> bool) -> Result<(), GetError> {
        self.give_name(&NewFile::default(), CopyRules { sync, go_on })
    }

    fn give_name(&self, new: &NewFile, rules: CopyRules<'_>) -> Result<(), GetError> {
        let Home { folder, part, .. } = &self.home;
        let named = match self.home.existing {
            Existing::Replaced => naming::give_name(&self.file, folder, part, &self.target, rules),
            Existing::Kept | Existing::Stays => {
                naming::give_free_name(&self.file, folder, part, &self.target, new, rules)
            }
        };
        match named {
            Ok(()) => {}
            Err(Failure::Differs) => {
                self.remove_journal();
                return Err(GetError::Differs { path: self.target().to_owned() });
            }
            Err(Failure::Rename(source)) => return Err(self.failed("rename to", source, None)),
            Err(Failure::Copy(source)) if source.kind() == io::ErrorKind::Interrupted => {
                return Err(GetError::Interrupted);
            }
            Err(Failure::Copy(source)) => return Err(self.failed("copy to", source, None)),
            Err(Failure::InPlace(source)) => {
                self.precious.store(true, Relaxed);
                return Err(self.failed("write in place", source, None));
            }
        }
        self.remove_journal();
        Ok(())
    }

    /// Nothing of it is worth keeping.
    pub fn discard(&self) {
        if !self.is_precious() && !self.home.part.is_empty() {
            beside::remove(&self.home.folder, &self.home.part, &self.file);
            self.remove_journal();
        }
    }

    /// It is complete and verified, and its target may hold the half of it.
    pub(crate) fn is_precious(&self) -> bool {
        self.precious.load(Relaxed)
    }

    /// A later run will find it: nobody has replaced it, and its journal vouches for some bytes.
    pub(crate) fn will_be_found(&self) -> bool {
        self.is_there() && self.home.kept() > 0
    }

    /// It has its name, under which its user finds it.
    pub fn is_there(&self) -> bool {
        self.keeps_journal() && self.has_its_name()
    }

    /// The part's name leads to this very file.
    pub(crate) fn has_its_name(&self) -> bool {
        let Home { folder, part, .. } = &self.home;
        !part.is_empty() && folder.has(part, &self.file).unwrap_or(false)
    }

    /// Where it grows, for messages only.
    pub fn shown(&self) -> PathBuf {
        self.home.folder.shown(&self.home.part)
    }

    /// Where it will be, if another process finds it beside that, with its journal.
    pub(crate) fn grows_at(&self) -> Option<&Path> {
        let [part, ..] = kept_names(self.target.name());
        let is_beside = Arc::ptr_eq(&self.home.folder, self.target.folder()) && self.home.part == part;
        (self.keeps_journal() && is_beside).then(|| self.target.path())
    }

    /// For reading back what was written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file's name when it is complete.
    pub fn target(&self) -> &Path {
        self.target.path()
    }

    /// The same, in its open folder.
    pub fn place(&self) -> &Target {
        &self.target
    }

    /// Says in a disk's error how much is kept.
    pub fn failed(&self, action: &'static str, source: io::Error, kept: Option<Bytes>) -> GetError {
        GetError::Local { action, path: self.target().to_owned(), source, kept }
    }
}

/// How many of `pieces` go into one call of at most `room` bytes whole.
fn fitting(pieces: &[IoSlice<'_>], room: usize) -> usize {
    let mut sum = 0_usize;
    let within = pieces.iter().take(MAX_PIECES).take_while(|piece| {
        sum = sum.saturating_add(piece.len());
        sum <= room
    });
    within.count()
}

/// A journal of what the kernel took (`written`) and what is on the disk (`durable`).
pub(crate) fn journal_of(
    url: &str,
    version: &Version,
    size: u64,
    written: &RangeSet,
    durable: &RangeSet,
) -> Journal {
    Journal {
        url: url.to_owned(),
        etag: version.validators().etag().map(str::to_owned),
        last_modified: version.validators().last_modified().map(str::to_owned),
        place: version.place().to_owned(),
        coding: version.coding().map(str::to_owned),
        size,
        boot: weir_units::boot::id(),
        written: journal::pairs(written),
        durable: journal::pairs(durable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::home::names;
    use std::fs;

    fn open(target: &Path) -> PartFile {
        let target = Target::open(target).unwrap();
        let home = Home::of(&target, None).unwrap();
        PartFile::open(&target, home).unwrap()
    }

    #[test]
    fn a_failed_sync_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        // A device takes bytes but has no disk to wait for: fdatasync(2) fails with EINVAL.
        let device = File::options().write(true).open("/dev/null").unwrap();
        let part = PartFile { file: device, ..open(&target) };
        part.sync_error().unwrap();
        let error = part.sync().unwrap_err().to_string();
        assert_eq!(error, format!("cannot sync {}: invalid argument", target.display()));
        assert_eq!(part.sync_error().unwrap_err().to_string(), error, "also when nobody syncs again");
    }

    #[test]
    fn a_link_in_the_place_of_a_part_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, precious) = (dir.path().join("x"), dir.path().join("precious"));
        fs::write(&precious, "text").unwrap();
        std::os::unix::fs::symlink(&precious, names(&target).0).unwrap();
        open(&target).publish(false).unwrap();
        assert!(target.is_file() && !target.is_symlink());
        assert!(dir.path().join("x.part.aside-1").is_symlink());
        assert_eq!(fs::read(&precious).unwrap(), b"text");
    }

    #[test]
    fn what_is_no_journal_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        fs::create_dir(names(&target).1).unwrap();
        assert!(matches!(open(&target).saved("http://h/x"), Ok(Ok(None))));
        assert!(dir.path().join("x.weir.aside-1").is_dir());
    }

    #[test]
    fn of_two_hosts_the_first_gives_the_name_and_the_second_finds_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::open(&dir.path().join("x")).unwrap();
        let open = |bytes: &[u8]| {
            let part = PartFile::open(&target, Home::shared(&target)).unwrap();
            part.write_at(0, &mut [IoSlice::new(bytes)]).unwrap();
            part
        };
        let (first, second, third) = (open(b"same"), open(b"same"), open(b"else"));
        assert!(first.keeps_journal() && !second.keeps_journal(), "the second one has a part of its own");
        second.publish(false).unwrap();
        first.publish(true).unwrap();
        assert!(matches!(third.publish(false), Err(GetError::Differs { .. })));
        assert_eq!(fs::read(target.path()).unwrap(), b"same");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn pieces_of_several_hosts_go_into_one_part() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::open(&dir.path().join("x")).unwrap();
        let (one, other) =
            (PartFile::open_piece(&target, 6).unwrap(), PartFile::open_piece(&target, 6).unwrap());
        one.write_at(3, &mut [IoSlice::new(b"def")]).unwrap();
        other.write_at(0, &mut [IoSlice::new(b"abc")]).unwrap();
        one.discard();
        assert!(Home::shared(&target).has_part() && !target.path().exists());
        assert!(PartFile::existing_piece(&target, 6).unwrap().is_some());
        assert!(PartFile::existing_piece(&target, 7).unwrap().is_none(), "it is another one");
        other.publish(false).unwrap();
        assert_eq!(fs::read(target.path()).unwrap(), b"abcdef");
        assert!(PartFile::existing_piece(&target, 6).unwrap().is_none());
        assert!(!Home::shared(&target).has_part() && !one.has_its_name());
        let whole = PartFile::open(&target, Home::shared(&target)).unwrap();
        let refused = PartFile::open_piece(&target, 6);
        assert!(whole.keeps_journal() && matches!(refused, Err(GetError::Locked { .. })));
    }

    #[test]
    fn another_file_does_not_get_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let part = open(&target);
        let beside = names(&target).0;
        fs::remove_file(&beside).unwrap();
        fs::write(&beside, "another's").unwrap();
        let error = part.publish(false).unwrap_err().to_string();
        let place = target.display();
        let expected = format!("cannot rename to {place}: another file was put in the place of {place}.part");
        assert_eq!(error, expected);
        assert!(!target.exists());
        part.discard();
        assert_eq!(fs::read(&beside).unwrap(), b"another's");
    }

    #[test]
    fn nothing_but_a_file_or_a_link_gives_way() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let _listener = std::os::unix::net::UnixListener::bind(&target).unwrap();
        let part = open(&target);
        let error = part.publish(false).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("cannot rename to {}: the target is not a regular file and stays", target.display())
        );
        fs::remove_file(&target).unwrap();
        std::os::unix::fs::symlink("nowhere", &target).unwrap();
        part.publish(false).unwrap();
        assert!(target.is_file() && !target.is_symlink());
    }

    #[test]
    fn a_part_elsewhere_is_found_again_and_is_of_one_target() {
        let (dir, temp) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let temp_folder = Arc::new(Folder::open(temp.path()).unwrap());
        let home = |name: &str| {
            let target = Target::open(&dir.path().join(name)).unwrap();
            (Home::of(&target, Some(&temp_folder)).unwrap(), target)
        };
        let (first, target) = home("x");
        assert_eq!(first.part, home("x").0.part);
        assert_ne!(first.part, home("y").0.part);
        let long = home(&"n".repeat(255)).0;
        assert!(long.journal.len() < 200, "room for the marks of its drafts");
        let part = PartFile::open(&target, first).unwrap();
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
        part.publish(false).unwrap();
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
        assert!(dir.path().join("x").is_file());
    }
}
