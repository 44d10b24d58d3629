//! The journal beside an unfinished file: what is safely stored, and of which object.
//!
//! It holds a URL, of which others need not know: it is its owner's alone. Beside a target it is opened as
//! everything there is ([`crate::sink::beside`]), so that nobody else's is believed or written.
//!
//! Form: one line `weir-journal 2 crc32c=xxxxxxxx`, then one JSON object, over which the checksum runs. A
//! journal is replaced atomically (written beside, renamed), always after the data it speaks of.
//!
//! Two sets of ranges, for two ways to fail. `written` holds what the kernel took: it survives the death of
//! the process, not of the machine, and counts only while the same boot goes on. `durable` holds what an
//! fdatasync confirmed; it counts always. So a kill costs what was written since the last journal (250 ms), a
//! power cut what was written since the last sync (10 s). That holds where a file system brings a renamed
//! file's bytes to the disk before its name (ext4, btrfs, ZFS): journals between two syncs are not synced
//! themselves. Elsewhere (XFS) a power cut may leave an empty journal, which is told as damaged, and the
//! transfer begins again.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::Path;

use rustix::fs::{AtFlags, renameat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use weir_units::boot;

use crate::object::Object;
use crate::ranges::RangeSet;
use crate::sink::beside::{self, For, Found};
use crate::sink::folder::{Folder, Target};
use crate::version::Version;

/// The version that this program writes.
pub const VERSION: u32 = 2;

/// A journal of 65 536 ranges takes under 3 MiB; a larger one was not written by this program.
const MAX_BYTES: u64 = 4 << 20;
const MAX_RANGES: usize = 65_536;

/// What a journal says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// What names the object in the URL asked for ([`crate::object::identity`]): no user, no password, no
    /// signature.
    pub url: String,
    /// The `ETag` that every part carries, if the first answer had one.
    pub etag: Option<String>,
    /// Its `Last-Modified`.
    pub last_modified: Option<String>,
    /// Where the object was after redirects: scheme, host, port and path.
    pub place: String,
    /// How its bytes are coded, where that is not the file itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coding: Option<String>,
    /// The object's size, bytes.
    pub size: u64,
    /// The boot in which `written` holds ([`boot::id`]).
    pub boot: String,
    /// Ranges the kernel took, `[start, end)`.
    pub written: Vec<(u64, u64)>,
    /// Ranges that an fdatasync confirmed, `[start, end)`.
    pub durable: Vec<(u64, u64)>,
}

/// Why a journal cannot be used; the transfer then starts again and says so.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Not readable.
    #[error("cannot read the journal: {0}")]
    Read(#[source] io::Error),
    /// Of another version.
    #[error("the journal has version {found}, this weir reads version {VERSION}")]
    Version {
        /// The version it names.
        found: u32,
    },
    /// Not what this program wrote.
    #[error("the journal is damaged: {0}")]
    Damaged(&'static str),
}

impl Journal {
    /// Parses a journal's text and checks its checksum and its ranges.
    pub fn parse(text: &[u8]) -> Result<Journal, JournalError> {
        if text.len() as u64 > MAX_BYTES {
            return Err(JournalError::Damaged("it is too large"));
        }
        let line = text
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or(JournalError::Damaged("it has no first line"))?;
        let (first, body) = (&text[..line], &text[line + 1..]);
        let first =
            std::str::from_utf8(first).map_err(|_| JournalError::Damaged("its first line is not text"))?;
        let mut words = first.split(' ');
        if words.next() != Some("weir-journal") {
            return Err(JournalError::Damaged("it does not start with weir-journal"));
        }
        let found = words
            .next()
            .and_then(|word| word.parse().ok())
            .ok_or(JournalError::Damaged("it names no version"))?;
        if found != VERSION {
            return Err(JournalError::Version { found });
        }
        let sum = words
            .next()
            .and_then(|word| word.strip_prefix("crc32c="))
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .ok_or(JournalError::Damaged("it names no checksum"))?;
        if crc32c::crc32c(body) != sum {
            return Err(JournalError::Damaged("its checksum does not match"));
        }
        let journal: Journal = serde_json::from_slice(body)
            .map_err(|_| JournalError::Damaged("its fields are not as expected"))?;
        if !journal.ranges_are_sound() {
            return Err(JournalError::Damaged("its ranges are not in order or outside the file"));
        }
        Ok(journal)
    }

    /// The journal's text.
    pub fn to_text(&self) -> Vec<u8> {
        let body = serde_json::to_vec(self).unwrap_or_default();
        let mut text = format!("weir-journal {VERSION} crc32c={:08x}\n", crc32c::crc32c(&body)).into_bytes();
        text.extend_from_slice(&body);
        text
    }

    /// Reads the journal at `path`; `None` when there is none of ours.
    pub fn read(path: &Path) -> Result<Option<Journal>, JournalError> {
        let place = Target::open(path).map_err(JournalError::Read)?;
        match beside::peek(place.folder(), place.name(), For::Reading).map_err(JournalError::Read)? {
            Some(file) => Journal::read_open(&file).map(Some),
            None => Ok(None),
        }
    }

    /// Reads the journal that is open.
    pub(crate) fn read_open(file: &File) -> Result<Journal, JournalError> {
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(JournalError::Read)?;
        Journal::parse(&text)
    }

    /// Puts this journal in the place of the one at `path`, atomically. `durable` also waits for the disk.
    pub fn store(&self, path: &Path, durable: bool) -> io::Result<()> {
        let place = Target::open(path)?;
        self.store_in(place.folder(), place.name(), durable)
    }

    /// The same for a name in an open folder.
    pub(crate) fn store_in(&self, folder: &Folder, name: &OsStr, durable: bool) -> io::Result<()> {
        let (draft, mut file) = draft(folder, name)?;
        let written =
            file.write_all(&self.to_text()).and_then(|()| if durable { file.sync_all() } else { Ok(()) });
        let renamed = written.and_then(|()| match renameat(folder, &draft, folder, name) {
            // Somebody's folder. Everything else that may be there gives way to a rename.
            Err(Errno::ISDIR) => {
                beside::put_aside(folder, name)?;
                Ok(renameat(folder, &draft, folder, name)?)
            }
            other => Ok(other?),
        });
        renamed.inspect_err(|_| beside::remove(folder, &draft, &file))
    }

    /// Removes the journal called `name`, and what was left of the next one; not what is not ours.
    pub(crate) fn remove_in(folder: &Folder, name: &OsStr) {
        for name in [name, &draft_name(name)] {
            match beside::peek(folder, name, For::Reading) {
                Ok(Some(file)) => beside::remove(folder, name, &file),
                Ok(None) => {}
                // Ours, but not to be read.
                Err(_) => {
                    let _ = unlinkat(folder, name, AtFlags::empty());
                }
            }
        }
    }

    /// The version that every part is of.
    pub fn version(&self) -> Version {
        let (etag, last_modified) = (self.etag.as_deref(), self.last_modified.as_deref());
        Version::from_journal(etag, last_modified, &self.place, self.coding.as_deref())
    }

    /// Whether `object` is the one that the parts are of, by what a server says of it.
    pub(crate) fn is_of(&self, object: &Object) -> bool {
        object.fits(self.size) && self.version().refuse_another(&object.version, "").is_ok()
    }

    /// What may be trusted now.
    pub fn stored(&self) -> RangeSet {
        let ranges = if self.boot == boot::id() { &self.written } else { &self.durable };
        ranges.iter().map(|&(start, end)| start..end).collect()
    }

    fn ranges_are_sound(&self) -> bool {
        [&self.written, &self.durable].into_iter().all(|ranges| {
            let inside = ranges.iter().all(|&(start, end)| start < end && end <= self.size);
            ranges.len() <= MAX_RANGES && inside && ranges.windows(2).all(|pair| pair[0].1 < pair[1].0)
        })
    }
}

/// A set's ranges in the journal's form.
pub fn pairs(set: &RangeSet) -> Vec<(u64, u64)> {
    set.iter().map(|Range { start, end }| (start, end)).collect()
}

fn draft_name(name: &OsStr) -> OsString {
    let mut draft = name.to_owned();
    draft.push("~");
    draft
}

/// The file in which the next journal is written: a new one always. One that a kill left goes, anything else
/// is put aside.
fn draft(folder: &Folder, name: &OsStr) -> io::Result<(OsString, File)> {
    let draft = draft_name(name);
    match beside::create(folder, &draft) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return Ok((draft, other?)),
    }
    if let Ok(Found::Ours(left)) = beside::open(folder, &draft, For::Reading) {
        beside::remove(folder, &draft, &left);
    }
    match beside::create(folder, &draft) {
        // It cannot be put aside.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            beside::create_passing(folder, Path::new(name).file_stem().unwrap_or(name))
        }
        other => Ok((draft, other?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Journal {
        Journal {
            url: "http://h/x".into(),
            etag: Some("\"e\"".into()),
            last_modified: None,
            place: "http://h/x".into(),
            coding: None,
            size: 100,
            boot: boot::id(),
            written: vec![(0, 10), (20, 100)],
            durable: vec![(0, 5)],
        }
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.weir");
        assert!(Journal::read(&path).unwrap().is_none());
        sample().store(&path, true).unwrap();
        let read = Journal::read(&path).unwrap().unwrap();
        assert_eq!(read, sample());
        assert_eq!(read.stored().len(), 90);
        assert_eq!(Journal { boot: "another".into(), ..read }.stored().len(), 5);
    }

    #[test]
    fn an_older_version_is_named() {
        let error = Journal::parse(b"weir-journal 1 crc32c=00000000\n{}").unwrap_err();
        assert_eq!(error.to_string(), "the journal has version 1, this weir reads version 2");
    }

    #[test]
    fn ranges_outside_the_file_are_refused() {
        for written in [vec![(0, 101)], vec![(5, 5)], vec![(0, 10), (5, 20)], vec![(0, 10), (10, 20)]] {
            let text = Journal { written, ..sample() }.to_text();
            assert!(matches!(Journal::parse(&text), Err(JournalError::Damaged(_))));
        }
    }

    proptest! {
        #[test]
        fn any_flipped_bit_is_noticed(at in 0usize..200, bit in 0u32..8) {
            let mut text = sample().to_text();
            let at = at % text.len();
            text[at] ^= 1 << bit;
            if let Ok(journal) = Journal::parse(&text) {
                prop_assert_eq!(journal, sample(), "only the case of a hex digit may differ");
            }
        }

        #[test]
        fn any_bytes_are_a_journal_or_an_error(text in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Journal::parse(&text);
        }
    }
}
