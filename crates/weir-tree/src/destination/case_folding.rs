//! Names that are one to the target's file system: `A` and `a` where it ignores case, two spellings of `é`
//! where it normalises. Without care the second would take the place of the first, and two directories would
//! become one.
//!
//! No table of file systems says how each of them compares names. What is known is what this run has put
//! where: if a name that is to be written already leads to a file that was put there under another one, the
//! two are one.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{AtFlags, Mode, OFlags, Statx, fstatfs, ioctl_getflags, openat, unlinkat};
use weir_units::atomic_file;

use super::directories::Directory;
use super::place;
use crate::entry::{self, Name};
use crate::error::TreeError;
use crate::source::{self, Identity};

/// `FS_CASEFOLD_FL` of include/uapi/linux/fs.h: a directory that compares names without case (ext4, f2fs,
/// tmpfs, bcachefs).
const CASEFOLD: u32 = 0x4000_0000;

/// Names that are remembered of directories that are finished: about 20 MB.
const REMEMBERED: usize = 200_000;

/// What this run has put into directories that fold names.
#[derive(Debug, Default)]
pub(super) struct CaseFolding {
    /// There is such a directory.
    any: AtomicBool,
    known: Mutex<Known>,
}

/// What inodes of a directory were called.
type Inodes = HashMap<u64, Box<[u8]>>;

#[derive(Debug, Default)]
struct Known {
    /// Whether a file system was seen to fold names.
    devices: HashMap<u64, bool>,
    /// By directory: what each inode in it was called.
    placed: HashMap<Box<[u8]>, Inodes>,
    count: usize,
}

impl CaseFolding {
    /// Whether any directory was met that folds names.
    pub fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// Does `place`, which puts `name` into `directory`, unless that would take the place of another name of
    /// this run.
    pub fn place<T>(
        &self,
        directory: &Directory,
        name: &Name,
        place: impl FnOnce() -> Result<T, TreeError>,
    ) -> Result<T, TreeError> {
        if !self.folding(directory) {
            return place();
        }
        // Held until it is noted: two threads may have one of the names each.
        let mut known = self.lock();
        let Some((around, last)) = name.split_bytes() else { return place() };
        let before = source::stat(directory, last).ok();
        if let Some(before) = &before {
            known.check(around, last, before, name)?;
        }
        let done = place()?;
        let now = source::stat(directory, last).ok();
        if let (Some(before), Some(now)) = (before, &now)
            && before.stx_ino != now.stx_ino
        {
            known.forget(around, before.stx_ino);
        }
        if let Some(now) = now {
            known.note(around, last, now.stx_ino);
        }
        Ok(done)
    }

    /// What is open, in `directory`, is or will be `name`: not if it is another name of this run.
    pub fn claim(&self, directory: &Directory, file: impl AsFd, name: &Name) -> Result<(), TreeError> {
        if !self.folding(directory) {
            return Ok(());
        }
        let (Ok(stat), Some((around, last))) = (source::stat(file, b""), name.split_bytes()) else {
            return Ok(());
        };
        self.lock().claim(around, last, &stat, name)
    }

    /// The same of what was seen at `name`, where that costs nothing worth mentioning and writes nothing.
    pub(crate) fn claim_seen(
        &self,
        directory: &Directory,
        stat: &Statx,
        name: &Name,
    ) -> Result<(), TreeError> {
        match name.split_bytes().filter(|_| self.any() || self.flagged(directory)) {
            Some((around, last)) => self.lock().claim(around, last, stat, name),
            None => Ok(()),
        }
    }

    /// Whether what `last` leads to in `directory`, which is `around`, was put there by this run, be it under
    /// another spelling.
    pub fn placed(&self, directory: &Directory, around: &Name, last: &[u8]) -> bool {
        (self.any() || self.flagged(directory))
            && source::stat(directory, last).is_ok_and(|stat| {
                let known = self.lock();
                known.placed.get(around.as_bytes()).is_some_and(|names| names.contains_key(&stat.stx_ino))
            })
    }

    /// Finds out about the file system of `directory`.
    pub fn learn(&self, directory: &Directory) {
        self.folding(directory);
    }

    /// All of a directory is finished.
    pub fn finished(&self, directory: &Name) {
        if !self.any() {
            return;
        }
        let mut known = self.lock();
        if known.count > REMEMBERED
            && let Some(names) = known.placed.remove(directory.as_bytes())
        {
            known.count -= names.len();
        }
    }

    /// Whether it has the flag, which is noted.
    fn flagged(&self, directory: &Directory) -> bool {
        let flagged = flagged(directory);
        if flagged {
            self.any.store(true, Relaxed);
        }
        flagged
    }

    /// Whether names are folded there: by the directory's flag, or by trying it once on each file system.
    fn folding(&self, directory: &Directory) -> bool {
        let folding = directory.folds_case.get_or_init(|| {
            flagged(directory)
                || Identity::of(directory).is_ok_and(|identity| {
                    *self.lock().devices.entry(identity.device).or_insert_with(|| found_to_fold(directory))
                })
        });
        if *folding {
            self.any.store(true, Relaxed);
        }
        *folding
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

impl Known {
    /// A file with several names may well have another: only the first of them is noted.
    fn check(&self, around: &[u8], last: &[u8], stat: &Statx, name: &Name) -> Result<(), TreeError> {
        let several = stat.stx_nlink > 1 && !entry::file_type(stat).is_dir();
        match self.placed.get(around).and_then(|names| names.get(&stat.stx_ino)) {
            Some(other) if **other != *last && !several => {
                let other = Name::new(around)?.join(other)?;
                Err(TreeError::Collides { name: name.clone(), other })
            }
            _ => Ok(()),
        }
    }

    fn claim(&mut self, around: &[u8], last: &[u8], stat: &Statx, name: &Name) -> Result<(), TreeError> {
        self.check(around, last, stat, name)?;
        self.note(around, last, stat.stx_ino);
        Ok(())
    }

    fn note(&mut self, around: &[u8], last: &[u8], inode: u64) {
        let names = self.placed.entry(around.into()).or_default();
        if let Slot::Vacant(slot) = names.entry(inode) {
            slot.insert(last.into());
            self.count += 1;
        }
    }

    fn forget(&mut self, around: &[u8], inode: u64) {
        let gone = self.placed.get_mut(around).and_then(|names| names.remove(&inode));
        self.count -= usize::from(gone.is_some());
    }
}

/// Whether the directory that is open, be it for its path alone, says that it compares names without case.
pub fn has_casefold_flag(directory: impl AsFd) -> bool {
    // Flags are not told of one that is open for its path.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(&directory, ".", flags, Mode::empty()).is_ok_and(has_flag)
}

fn flagged(directory: &Directory) -> bool {
    *directory.flagged.get_or_init(|| has_flag(directory))
}

fn has_flag(directory: impl AsFd) -> bool {
    ioctl_getflags(directory).is_ok_and(|flags| flags.bits() & CASEFOLD != 0)
}

/// Whether a file in `directory` is found under another case, or another spelling of an accent. One that
/// cannot be written there proves nothing.
pub fn found_to_fold(directory: impl AsFd) -> bool {
    let directory = directory.as_fd();
    // ext2 to ext4, btrfs, tmpfs, f2fs (include/uapi/linux/magic.h) compare bytes wherever that flag is not
    // set.
    let exact = [0xef53, 0x9123_683e, 0x0102_1994, 0xf2f5_2010];
    if fstatfs(directory).is_ok_and(|there| exact.contains(&there.f_type)) {
        return false;
    }
    let passing = place::passing_name();
    let text = String::from_utf8_lossy(&passing);
    let composed = text.replacen('.', ".\u{e9}", 1);
    // Where it takes no such letter, the plain one.
    let Some(made) = [composed, text.to_string()]
        .into_iter()
        .find(|name| atomic_file::create_new(directory, name.as_str(), Mode::RUSR | Mode::WUSR).is_ok())
    else {
        return false;
    };
    let others = [made.to_uppercase(), made.replace('\u{e9}', "e\u{301}")];
    let found = |name: &String| *name != made && source::stat(directory, name.as_bytes()).is_ok();
    let folds = others.iter().any(found);
    let _ = unlinkat(directory, made.as_str(), AtFlags::empty());
    folds
}

#[cfg(test)]
mod tests {
    use std::fs;

    use std::os::fd::OwnedFd;

    use super::*;

    /// A folder that is held to fold names, and what a file system that does so would answer: a rename on the
    /// disk stands for a second name that leads to the same file.
    fn folding() -> (tempfile::TempDir, Directory, CaseFolding) {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::from(OwnedFd::from(fs::File::open(folder.path()).unwrap()));
        let case_folding = CaseFolding::default();
        let device = Identity::of(&directory).unwrap().device;
        case_folding.lock().devices.insert(device, true);
        (folder, directory, case_folding)
    }

    fn write(folder: &tempfile::TempDir, name: &str) -> impl FnOnce() -> Result<(), TreeError> {
        let path = folder.path().join(name);
        move || {
            fs::write(path, "text").unwrap();
            Ok(())
        }
    }

    #[test]
    fn a_second_name_of_what_this_run_wrote_is_refused() {
        let (folder, directory, case_folding) = folding();
        let [upper, lower, other] = ["A", "a", "b"].map(|name| name.parse::<Name>().unwrap());
        case_folding.place(&directory, &upper, write(&folder, "A")).unwrap();
        // The same again, as after a lane that broke.
        case_folding.place(&directory, &upper, write(&folder, "A")).unwrap();
        fs::rename(folder.path().join("A"), folder.path().join("a")).unwrap();
        let refused = case_folding.place(&directory, &lower, || panic!("it must not be replaced"));
        let words = refused.map(|()| "").unwrap_err().to_string();
        assert!(words.starts_with("cannot put a: to this file system its name is that of A"), "{words}");
        case_folding.place(&directory, &other, write(&folder, "b")).unwrap();
        let part = fs::File::open(folder.path().join("b")).unwrap();
        assert!(case_folding.claim(&directory, &part, &lower).is_err(), "a part that is another one's");
        assert!(case_folding.claim(&directory, &part, &other).is_ok());
    }

    #[test]
    fn what_an_earlier_run_wrote_is_replaced() {
        let (folder, directory, case_folding) = folding();
        fs::write(folder.path().join("a"), "old").unwrap();
        let name = "a".parse::<Name>().unwrap();
        case_folding.place(&directory, &name, write(&folder, "a")).unwrap();
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"text");
    }

    #[test]
    fn what_this_run_wrote_is_known_under_another_spelling() {
        let (folder, directory, case_folding) = folding();
        let (root, lower) = (Name::root(), "a".parse::<Name>().unwrap());
        fs::write(folder.path().join("other"), "old").unwrap();
        case_folding.place(&directory, &lower, write(&folder, "a")).unwrap();
        // The file system kept the spelling that was there before.
        fs::rename(folder.path().join("a"), folder.path().join("A")).unwrap();
        assert!(case_folding.placed(&directory, &root, b"A"));
        assert!(
            !case_folding.placed(&directory, &root, b"other")
                && !case_folding.placed(&directory, &root, b"gone")
        );
    }

    #[test]
    fn a_second_link_is_no_second_spelling() {
        let (folder, directory, case_folding) = folding();
        let [first, second] = ["one", "two"].map(|name| name.parse::<Name>().unwrap());
        case_folding.place(&directory, &first, write(&folder, "one")).unwrap();
        let link = || {
            fs::hard_link(folder.path().join("one"), folder.path().join("two")).unwrap();
            Ok(())
        };
        case_folding.place(&directory, &second, link).unwrap();
        for name in [&first, &second] {
            case_folding.place(&directory, name, || Ok(())).unwrap();
        }
    }

    #[test]
    fn where_case_counts_nothing_folds() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::from(OwnedFd::from(fs::File::open(folder.path()).unwrap()));
        assert!(!CaseFolding::default().folding(&directory));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left of the trial");
    }
}
