//! Where a file grows until it is whole: in which folder, and what it and its journal are called there.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;
use weir_codec::digest::Algorithm;
use weir_http::filename::KEPT;
use weir_tree::entry::{MAX_COMPONENT, stand_in};

use super::Existing;
use super::beside::{self, For};
use super::folder::{Folder, Target, kind};
use crate::journal::Journal;
use crate::object;

/// How the parts of a shared tree are called: this, so many bytes of the name's SHA-256 in hexadecimal, and
/// an ending. Two of a million names in a folder share 64 bits once in forty million times, and wait for
/// each other then.
const SHARED: &str = ".weir-";
const SHARED_DIGEST: usize = 8;

/// Where a file grows, and under which names.
#[derive(Debug, Clone)]
pub struct Home {
    pub(super) folder: Arc<Folder>,
    pub(super) part: OsString,
    pub(super) journal: OsString,
    pub(super) existing: Existing,
}

impl Home {
    /// In `temp` if given, else beside `target`. If the target exists and its folder cannot be written, in
    /// $TMPDIR or /tmp: the file can then be written in place. The same for each run, so that a later one
    /// finds the part.
    pub fn of(target: &Target, temp: Option<&Arc<Folder>>) -> io::Result<Home> {
        if let Some(temp) = temp {
            return Ok(Home::elsewhere(target, temp));
        }
        let there = if target.folder().is_writable() { None } else { target.look()? };
        if there.is_some_and(|there| kind(&there) == FileType::RegularFile) {
            return Ok(Home::elsewhere(target, &Arc::new(temporary_folder()?)));
        }
        let folder = Arc::clone(target.folder());
        let [part, journal, _] = kept_names(target.name());
        Ok(Home { folder, part, journal, existing: Existing::Replaced })
    }

    fn elsewhere(target: &Target, folder: &Arc<Folder>) -> Home {
        let [part, journal, _] = kept_names(&target.name_elsewhere());
        Home { folder: Arc::clone(folder), part, journal, existing: Existing::Replaced }
    }

    /// Beside `target` in a tree that other hosts may be writing too: under names of one length, which none
    /// of its files has ([`is_shared_name`]).
    pub fn shared(target: &Target) -> Home {
        let digest = Algorithm::SHA256.of(target.name().as_bytes());
        let stem: String = digest.iter().take(SHARED_DIGEST).map(|byte| format!("{byte:02x}")).collect();
        let [part, journal, _] = KEPT.map(|ending| OsString::from(format!("{SHARED}{stem}{ending}")));
        Home { folder: Arc::clone(target.folder()), part, journal, existing: Existing::Kept }
    }

    /// The same; `existing`: what becomes of a file that has the target's name.
    pub(crate) fn with(self, existing: Existing) -> Home {
        Home { existing, ..self }
    }

    /// A file that has the part's name is a part of weir's. In a shared tree nothing else has such names.
    pub(super) fn is_weirs(&self, file: &File) -> bool {
        let has_journal = || !matches!(beside::peek(&self.folder, &self.journal, For::Reading), Ok(None));
        self.existing == Existing::Kept || beside::is_leftover(&self.folder, file) || has_journal()
    }

    /// The folder and name of its journal.
    pub(crate) fn journal(&self) -> (&Arc<Folder>, &OsStr) {
        (&self.folder, &self.journal)
    }

    /// A part has its name.
    pub fn has_part(&self) -> bool {
        self.folder.look(&self.part).is_ok_and(|there| there.is_some())
    }

    /// A journal's name is taken: perhaps an earlier run was cut off.
    pub(crate) fn has_journal(&self) -> bool {
        self.folder.look(&self.journal).is_ok_and(|there| there.is_some())
    }

    /// How many bytes an earlier run left, as far as its journal is to be believed. Nothing is changed.
    pub fn kept(&self) -> u64 {
        self.read_journal().map_or(0, |journal| journal.stored().len())
    }

    /// The journal of a part of `url` ([`object::identity`]) whose bytes a later run can go on from. Nothing
    /// is changed.
    pub(crate) fn resumable(&self, url: &str) -> Option<Journal> {
        self.left().filter(|left| object::identity_of_text(&left.url) == url)
    }

    /// The journal of a part that holds some bytes, of whatever URL. Nothing is changed.
    pub(super) fn left(&self) -> Option<Journal> {
        let journal = self.read_journal()?;
        let part = self.folder.look(&self.part).ok().flatten()?;
        let has_size = u64::try_from(part.st_size).is_ok_and(|size| size == journal.size);
        (has_size && !journal.stored().is_empty()).then_some(journal)
    }

    fn read_journal(&self) -> Option<Journal> {
        let journal = beside::peek(&self.folder, &self.journal, For::Reading).ok().flatten()?;
        Journal::read_open(&journal).ok()
    }
}

/// $TMPDIR, or /tmp where that is none.
fn temporary_folder() -> io::Result<Folder> {
    Folder::open(&std::env::temp_dir()).or_else(|_| Folder::open(Path::new("/tmp")))
}

/// What lies beside a file called `name` while it grows, in the order of [`KEPT`].
pub(crate) fn kept_names(name: &OsStr) -> [OsString; 3] {
    let [.., longest] = KEPT;
    let stem = stem(name, longest);
    KEPT.map(|ending| with_ending(&stem, ending))
}

/// `name`, or what stands for it where it leaves no room for `ending`.
pub(super) fn stem<'a>(name: &'a OsStr, ending: &str) -> Cow<'a, OsStr> {
    match name.len() + ending.len() <= MAX_COMPONENT {
        true => Cow::Borrowed(name),
        false => Cow::Owned(OsString::from_vec(stand_in(name.as_bytes()))),
    }
}

fn with_ending(name: &OsStr, ending: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(ending);
    name
}

/// The names beside `target`: of its part and of its journal.
pub fn names(target: &Path) -> (PathBuf, PathBuf) {
    let [part, journal, _] = all_names(target);
    (part, journal)
}

/// All that there may be beside `target` while it grows.
pub(crate) fn all_names(target: &Path) -> [PathBuf; 3] {
    kept_names(target.file_name().unwrap_or_default()).map(|name| target.with_file_name(name))
}

/// A part or a journal of a shared tree may be called so: no file of it may.
pub fn is_shared_name(name: &OsStr) -> bool {
    let is_kept = |name: &[u8]| KEPT.iter().any(|ending| name.ends_with(ending.as_bytes()));
    name.as_bytes().starts_with(SHARED.as_bytes()) && is_kept(name.as_bytes())
}

/// The file beside which something called `name` would be kept.
pub(crate) fn whole_of(name: &Path) -> Option<&Path> {
    let bytes = name.as_os_str().as_bytes();
    KEPT.iter().find_map(|suffix| Some(Path::new(OsStr::from_bytes(bytes.strip_suffix(suffix.as_bytes())?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_leaves_no_room_has_a_stand_in() {
        for (length, has_room) in [(246, true), (249, true), (250, false), (255, false)] {
            let name = OsString::from("n".repeat(length));
            let kept = kept_names(&name);
            assert!(kept.iter().all(|kept| kept.len() <= MAX_COMPONENT), "{length}");
            assert_eq!(kept == KEPT.map(|ending| with_ending(&name, ending)), has_room, "{length}");
        }
    }
}
