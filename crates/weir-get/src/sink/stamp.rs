//! What a complete file that is here says of its object: its time, its size and, where an earlier run left
//! word, that it is whole and of which version.
//!
//! The time of a file is the object's `Last-Modified`, so that any program can compare. The word of an
//! earlier run is an extended attribute, which holds only as long as size and time are as they were then:
//! whoever writes the file takes it away. Without it nothing tells a whole file from one that another program
//! left unfinished, so a server's "not modified" alone is not believed.

use std::time::SystemTime;

use rustix::fs::{AtFlags, FileType, Stat, Timespec, Timestamps, UTIME_OMIT, utimensat};
use url::Url;
use weir_codec::digest::Algorithm;
use weir_codec::hex;
use weir_http::validator::{Validators, equal_weak, http_date, http_time};
use weir_tree::entry::Xattr;
use weir_tree::xattr::At;
use weir_units::instant;

use super::folder::{Target, kind};
use crate::http::request::Unless;
use crate::object;
use crate::version::Version;

/// The attribute's name. Its value: `2 SIZE SECONDS NANOSECONDS URL ETAG`, the last empty where there was
/// none, the URL by its digest; `1 SIZE SECONDS NANOSECONDS ETAG` without a URL; 3 for 2 where the bytes are
/// coded.
const WORD: &[u8] = b"user.weir.version";

/// What a complete file is told of its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamping {
    /// Nothing: its time is that of the download.
    Nothing,
    /// The time of the object.
    Time,
    /// That, and which version it is.
    TimeAndVersion,
}

/// A complete file that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    size: u64,
    /// Its time, to the second: no field has more.
    modified: SystemTime,
    /// That is all of its time: it was set from such a field.
    is_exact: bool,
    /// An earlier run's word that it is whole still holds.
    is_whole: bool,
    tag: Option<String>,
    /// The digest of the URL that it came from.
    url: Option<String>,
    /// It was saved as it came, coded.
    is_coded: bool,
}

/// How a file that is here stands to the object on the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is that object.
    Same,
    /// It is another, and why.
    Changed(&'static str),
    /// Nothing tells, and why.
    Unknown(&'static str),
}

impl Stamping {
    /// Tells the file at `target`, which has just come whole from `url`, what it is. What a file system does
    /// not take is left out: then the next question is not answered from here.
    pub fn give(self, target: &Target, url: Option<&Url>, version: &Version, size: u64) {
        if self == Stamping::Nothing {
            return;
        }
        let validators = version.validators();
        // With the version's word a file has the time that servers compare with, and no other.
        let of_file = version.mtime().filter(|_| self == Stamping::Time);
        if let Some(time) = of_file.or(validators.modified()) {
            let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            let (seconds, nanoseconds) = instant::since_epoch(time);
            let modified = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
            let times = Timestamps { last_access: omitted, last_modification: modified };
            if let Err(errno) = utimensat(target.folder(), target.name(), &times, AtFlags::SYMLINK_NOFOLLOW) {
                tracing::debug!("{} does not take its time: {errno}", target.path().display());
            }
        }
        if self != Stamping::TimeAndVersion {
            return;
        }
        let Some(stat) = target.look().ok().flatten().filter(|stat| of(stat) == size) else { return };
        let tag = validators.etag().unwrap_or_default();
        let now = format!("{size} {} {}", stat.st_mtime, stat.st_mtime_nsec);
        let word = match (url, version.coding()) {
            (Some(url), None) => format!("2 {now} {} {tag}", digest_of(url)),
            (Some(url), Some(_)) => format!("3 {now} {} {tag}", digest_of(url)),
            (None, None) => format!("1 {now} {tag}"),
            (None, Some(_)) => return,
        };
        let set = Xattr::new(WORD, word.into_bytes()).map(|word| attributes_of(target).set(&word));
        if !matches!(set, Some(Ok(()))) {
            tracing::debug!("{} cannot store its version", target.path().display());
        }
    }
}

impl Stamp {
    /// What the file at `target` says; `None` where there is none, or its time is none that a server knows.
    pub fn read(target: &Target) -> Option<Stamp> {
        let stat = target.look().ok()?.filter(|stat| kind(stat) == FileType::RegularFile)?;
        let modified = http_time(stat.st_mtime)?;
        let word = attributes_of(target).value(WORD).ok().flatten();
        let word = word.and_then(|word| String::from_utf8(word.value().to_vec()).ok());
        let held = word.as_deref().and_then(|word| held(word, &stat));
        let StampText { url, tag, is_coded } = held.unwrap_or_default();
        Some(Stamp {
            size: of(&stat),
            modified,
            is_exact: stat.st_mtime_nsec == 0,
            is_whole: held.is_some(),
            tag: Some(tag).filter(|tag| !tag.is_empty()).map(str::to_owned),
            url: url.map(str::to_owned),
            is_coded,
        })
    }

    /// It is as an earlier run brought it from `url`.
    pub(crate) fn is_from(&self, url: &Url) -> bool {
        self.url.as_ref().is_some_and(|own| *own == digest_of(url))
    }

    /// An earlier run left word that it is whole, and nobody has changed it since.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// An earlier run saved it as it came, coded.
    pub(crate) fn is_coded(&self) -> bool {
        self.is_coded
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its entity tag, where it is known.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// How a server is asked whether it has another.
    pub fn unless(&self) -> Unless {
        Unless { tag: self.tag.clone(), modified: Some(http_date(self.modified)) }
    }

    /// How it stands to an object of this size and with these validators.
    pub fn compare(&self, size: Option<u64>, validators: &Validators) -> Standing {
        if size.is_some_and(|size| size != self.size) {
            return Standing::Changed("its size is another");
        }
        if let (Some(own), Some(theirs)) = (self.tag.as_deref(), validators.etag()) {
            return if own == theirs || equal_weak(own, theirs) {
                Standing::Same
            } else {
                Standing::Changed("its ETag is another")
            };
        }
        match validators.modified() {
            Some(time) if time > self.modified => Standing::Changed("its Last-Modified is later"),
            Some(time) if time == self.modified && !self.is_exact && !self.is_whole => {
                Standing::Unknown("it was changed on the server in the second in which this file was written")
            }
            Some(_) if size.is_some() || self.is_whole => Standing::Same,
            Some(_) => Standing::Unknown("the server does not say how large it is"),
            None if validators.etag().is_some() => {
                Standing::Unknown("the server gives an ETag alone, and none was kept with the file before")
            }
            None => Standing::Unknown("the server gives neither Last-Modified nor ETag"),
        }
    }
}

fn of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

fn attributes_of(target: &Target) -> At<'_> {
    use std::os::fd::AsFd;
    use std::os::unix::ffi::OsStrExt;
    At::name(target.folder().as_fd(), target.name().as_bytes())
}

/// What an earlier run's word says.
#[derive(Clone, Copy, Default)]
struct StampText<'a> {
    url: Option<&'a str>,
    tag: &'a str,
    is_coded: bool,
}

/// An earlier run's word, if that is of the file as it is now.
fn held<'a>(word: &'a str, stat: &Stat) -> Option<StampText<'a>> {
    let (form, rest) = word.split_once(' ')?;
    let now = format!("{} {} {} ", stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    let rest = rest.strip_prefix(&*now)?;
    match form {
        "1" => Some(StampText { url: None, tag: rest, is_coded: false }),
        "2" | "3" => {
            let (url, tag) = rest.split_once(' ')?;
            Some(StampText { url: Some(url), tag, is_coded: form == "3" })
        }
        _ => None,
    }
}

/// What tells a URL from others, and shows nothing of it. Eight bytes are enough for the few URLs that one
/// file may come from, and leave the word short: what does not fit into an inode costs ext4 a block.
fn digest_of(url: &Url) -> String {
    hex::encode(&Algorithm::SHA256.of(object::identity(url).as_bytes()))[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use weir_http::Fields;

    use super::*;

    const EARLY: &str = "Tue, 15 Nov 1994 12:45:26 GMT";
    const LATER: &str = "Tue, 15 Nov 1994 12:45:27 GMT";

    fn url() -> Url {
        Url::parse("http://h/x?id=1").unwrap()
    }

    fn version(fields: &[(&str, &str)]) -> Version {
        let mut all = Fields::new();
        fields.iter().for_each(|(name, value)| all.push(name, value).unwrap());
        Version::of(&all, &url())
    }

    fn file(size: usize) -> (tempfile::TempDir, Target) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x"), vec![7; size]).unwrap();
        let target = Target::open(&folder.path().join("x")).unwrap();
        (folder, target)
    }

    #[test]
    fn what_is_given_is_read_until_the_file_changes() {
        let (folder, target) = file(5);
        let kept = version(&[("ETag", "\"a b\""), ("Last-Modified", EARLY)]);
        Stamping::Nothing.give(&target, Some(&url()), &kept, 5);
        assert!(!Stamp::read(&target).unwrap().is_whole());
        Stamping::Time.give(&target, Some(&url()), &kept, 5);
        let dated = Stamp::read(&target).unwrap();
        assert_eq!((dated.unless().modified.as_deref(), dated.tag()), (Some(EARLY), None));
        Stamping::TimeAndVersion.give(&target, Some(&url()), &kept, 5);
        let stamp = Stamp::read(&target).unwrap();
        if !stamp.is_whole() {
            return println!("skipped: no extended attributes in {}", folder.path().display());
        }
        assert_eq!(stamp.tag(), Some("\"a b\""));
        // An ext4 inode of 256 bytes has room for 60: 160 are its own, 8 go around all attributes, 16 to this
        // one's entry and 12 to its name.
        let word = attributes_of(&target).value(WORD).ok().flatten().unwrap();
        assert!(word.value().len() <= 60, "{word:?}");
        assert!(stamp.is_from(&url()) && !stamp.is_from(&Url::parse("http://h/x?id=2").unwrap()));
        Stamping::TimeAndVersion.give(&target, None, &kept, 5);
        let stamp = Stamp::read(&target).unwrap();
        assert!(stamp.tag() == Some("\"a b\"") && !stamp.is_from(&url()) && !stamp.is_coded());
        let coded = version(&[("ETag", "\"a b\""), ("Content-Encoding", "gzip")]);
        Stamping::TimeAndVersion.give(&target, Some(&url()), &coded, 5);
        let stamp = Stamp::read(&target).unwrap();
        assert!(stamp.is_coded() && stamp.tag() == Some("\"a b\"") && stamp.is_from(&url()));
        std::fs::write(folder.path().join("x"), b"other").unwrap();
        assert_eq!(Stamp::read(&target).unwrap().tag(), None, "its time is another");
    }

    #[test]
    fn a_time_that_no_field_has_is_asked_of_nobody() {
        let (folder, target) = file(5);
        let own = std::fs::File::options().write(true).open(folder.path().join("x")).unwrap();
        let year_10000 = UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        for time in [UNIX_EPOCH - Duration::from_secs(1), year_10000] {
            own.set_modified(time).unwrap();
            // Some file systems have no such time, and give the nearest.
            let is_kept = own.metadata().unwrap().modified().unwrap() == time;
            let asked = Stamp::read(&target).map(|stamp| stamp.unless());
            assert_eq!(asked.is_none(), is_kept, "{time:?}");
        }
    }

    #[test]
    fn silence_is_not_the_same() {
        let modified = version(&[("Last-Modified", EARLY)]).validators().modified().unwrap();
        let (tag, url) = (None, None);
        let bare = Stamp { size: 5, modified, is_exact: true, is_whole: false, tag, url, is_coded: false };
        let written = Stamp { is_exact: false, ..bare.clone() };
        let known = Stamp { is_whole: true, tag: Some("\"a\"".to_owned()), ..bare.clone() };
        let same = |stamp: &Stamp, size, fields: &[(&str, &str)]| match stamp
            .compare(size, version(fields).validators())
        {
            Standing::Same => "same",
            Standing::Changed(_) => "changed",
            Standing::Unknown(_) => "unknown",
        };
        for (stamp, size, fields, standing) in [
            (&bare, Some(5), &[("Last-Modified", EARLY)][..], "same"),
            (&written, Some(5), &[("Last-Modified", EARLY)], "unknown"),
            (&bare, Some(6), &[("Last-Modified", EARLY)], "changed"),
            (&bare, Some(5), &[("Last-Modified", LATER)], "changed"),
            (&bare, None, &[("Last-Modified", EARLY)], "unknown"),
            (&bare, Some(5), &[("ETag", "\"a\"")], "unknown"),
            (&bare, Some(5), &[], "unknown"),
            (&known, Some(5), &[("ETag", "\"a\"")], "same"),
            (&known, None, &[("ETag", "W/\"a\"")], "same"),
            (&known, Some(5), &[("ETag", "\"b\""), ("Last-Modified", EARLY)], "changed"),
            (&known, Some(4), &[("ETag", "\"a\"")], "changed"),
            (&known, None, &[("Last-Modified", EARLY)], "same"),
            (&known, Some(5), &[], "unknown"),
        ] {
            assert_eq!(same(stamp, size, fields), standing, "{stamp:?} {size:?} {fields:?}");
        }
    }
}
