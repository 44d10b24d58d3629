//! A file that a download of another process writes: what its journal says is there, for whoever passes the
//! file on while it grows.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{FileType, fstat};
use weir_units::boot;

use crate::journal::Journal;
use crate::ranges::RangeSet;
use crate::sink::beside::{self, For};
use crate::sink::folder::{Target, is_same, kind};
use crate::sink::home::kept_names;
use crate::sink::links;

/// The part of a file, open for reading.
#[derive(Debug)]
pub struct GrowingFile {
    file: File,
    target: Target,
    mode: u32,
    /// As it was when the part was opened, and its name; none of a file that was complete then.
    journal: Option<(Journal, OsString)>,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Growth {
    /// These bytes are there, of the version that was there first.
    Has(RangeSet),
    /// All are, they were compared with what the server declares, and the file has its name.
    Named,
    /// The part was given up, or another version is written into it.
    Gone,
}

impl GrowingFile {
    /// Opens the part beside `target`; `None` as long as there is none, or no journal of it. `is_whole`: the
    /// complete file instead.
    ///
    /// # Errors
    /// What the system says; a part whose bytes are not the file's, since they are coded.
    pub fn open(target: &Path, is_whole: bool) -> io::Result<Option<GrowingFile>> {
        let target = Target::open(&links::end_or_new(target).0)?;
        let there = target.look()?.filter(|there| kind(there) == FileType::RegularFile);
        let mode = there.as_ref().map_or_else(|| 0o666 & !weir_tree::umask(), |there| there.st_mode & 0o777);
        if is_whole {
            let file = File::open(target.path())?;
            let is_it = there.is_some_and(|there| fstat(&file).is_ok_and(|file| is_same(&there, &file)));
            return Ok(is_it.then_some(GrowingFile { file, target, mode, journal: None }));
        }
        let [part, journal, _] = kept_names(target.name());
        let Some(begun) = read(&target, &journal)? else { return Ok(None) };
        let Some(file) = beside::peek(target.folder(), &part, For::Reading)? else { return Ok(None) };
        if begun.coding.is_some() {
            return Err(io::Error::other("its bytes are coded, and are decoded once all are there"));
        }
        let is_of_now = begun.boot == boot::id() && file.metadata()?.len() == begun.size;
        Ok(is_of_now.then_some(GrowingFile { file, target, mode, journal: Some((begun, journal)) }))
    }

    /// Where it will be, or is: behind the links that were named.
    pub fn path(&self) -> &Path {
        self.target.path()
    }

    /// The part, or what became of it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The time that it will have; `None` where the server does not tell.
    pub fn modified(&self) -> Option<SystemTime> {
        match &self.journal {
            Some((begun, _)) => begun.version().validators().modified(),
            None => self.file.metadata().and_then(|there| there.modified()).ok(),
        }
    }

    /// Its permissions as they will be.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Looks how far it is.
    ///
    /// # Errors
    /// What the system says.
    pub fn look(&self) -> io::Result<Growth> {
        let own = fstat(&self.file)?;
        if self.target.look()?.is_some_and(|named| is_same(&named, &own)) {
            return Ok(Growth::Named);
        }
        let Some((begun, journal)) = &self.journal else { return Ok(Growth::Gone) };
        if self.file.metadata()?.nlink() == 0 || own.st_size as u64 != begun.size {
            return Ok(Growth::Gone);
        }
        Ok(match read(&self.target, journal)? {
            // Before the first one, or between it and the name.
            None => Growth::Has(RangeSet::default()),
            Some(now) if is_of_one(begun, &now) => Growth::Has(now.stored()),
            Some(_) => Growth::Gone,
        })
    }
}

fn read(target: &Target, journal: &OsString) -> io::Result<Option<Journal>> {
    let Some(file) = beside::peek(target.folder(), journal, For::Reading)? else { return Ok(None) };
    Journal::read_open(&file).map(Some).map_err(io::Error::other)
}

/// Whether both speak of one version of one object.
fn is_of_one(one: &Journal, other: &Journal) -> bool {
    let of = |journal: &Journal| {
        let Journal { url, etag, last_modified, coding, size, .. } = journal.clone();
        (url, etag, last_modified, coding, size)
    };
    of(one) == of(other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    fn journal(etag: &str, written: &[(u64, u64)]) -> Journal {
        Journal {
            url: "http://h/x".into(),
            etag: Some(etag.into()),
            last_modified: Some("Fri, 01 Jan 2021 00:00:00 GMT".into()),
            place: "http://h/x".into(),
            coding: None,
            size: 100,
            boot: boot::id(),
            written: written.to_vec(),
            durable: Vec::new(),
        }
    }

    #[test]
    fn what_a_part_says_until_it_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let open = || GrowingFile::open(&path("x"), false).unwrap();
        let part = || {
            let made =
                File::options().create(true).truncate(true).write(true).mode(0o600).open(path("x.part"));
            made.unwrap().set_len(100).unwrap();
        };
        // An older version of it is not taken for what comes.
        std::fs::write(path("x"), "old").unwrap();
        assert!(open().is_none());
        part();
        assert!(open().is_none(), "nothing is known of it");
        journal("\"a\"", &[(0, 10)]).store(&path("x.weir"), false).unwrap();
        let growing = open().unwrap();
        assert_eq!(growing.look().unwrap(), Growth::Has(RangeSet::from_iter(std::iter::once(0..10))));
        assert!(growing.modified().is_some());
        journal("\"a\"", &[(0, 10), (20, 30)]).store(&path("x.weir"), false).unwrap();
        assert_eq!(growing.look().unwrap(), Growth::Has(RangeSet::from_iter([0..10, 20..30])));
        std::fs::rename(path("x.part"), path("x")).unwrap();
        assert_eq!(growing.look().unwrap(), Growth::Named);
        // Another version, in the same part or in a new one.
        part();
        journal("\"b\"", &[]).store(&path("x.weir"), false).unwrap();
        let growing = open().unwrap();
        journal("\"c\"", &[]).store(&path("x.weir"), false).unwrap();
        assert_eq!(growing.look().unwrap(), Growth::Gone);
        std::fs::remove_file(path("x.part")).unwrap();
        assert_eq!(growing.look().unwrap(), Growth::Gone);
        let whole = GrowingFile::open(&path("x"), true).unwrap().unwrap();
        assert_eq!(whole.look().unwrap(), Growth::Named);
    }
}
