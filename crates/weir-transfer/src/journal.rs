//! The journal beside an unfinished file: what is safely stored, and of which object.
//!
//! Form: one line `weir-journal 2 crc32c=xxxxxxxx`, then one JSON object, over which the checksum runs. A journal is
//! replaced atomically (written beside, renamed), always after the data it speaks of.
//!
//! Two sets of ranges, for two ways to fail. `written` holds what the kernel took: it survives the death of the
//! process, not of the machine, and counts only while the same boot goes on. `durable` holds what an fdatasync
//! confirmed; it counts always. So a kill costs what was written since the last journal (250 ms), a power cut what was
//! written since the last sync (10 s). That holds where a file system brings a renamed file's bytes to the disk before its
//! name (ext4, btrfs, ZFS): journals between two syncs are not synced themselves. Elsewhere (XFS) a power cut may leave an
//! empty journal, which is told as damaged, and the transfer begins again.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ranges::RangeSet;
use crate::version::Version;

/// The version that this program writes.
pub const VERSION: u32 = 2;

/// A journal of 65 536 ranges takes under 3 MiB; a larger one was not written by this program.
const MAX_BYTES: u64 = 4 << 20;
const MAX_RANGES: usize = 65_536;

/// What a journal says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// The URL asked for, without user name and password.
    pub url: String,
    /// The `ETag` that every part carries, if the first answer had one.
    pub etag: Option<String>,
    /// Its `Last-Modified`.
    pub last_modified: Option<String>,
    /// Where the object was after redirects: scheme, host, port and path.
    pub place: String,
    /// The object's size, bytes.
    pub size: u64,
    /// The boot in which `written` holds (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
    /// Ranges the kernel took, `[start, end)`.
    pub written: Vec<(u64, u64)>,
    /// Ranges that an fdatasync confirmed, `[start, end)`.
    pub durable: Vec<(u64, u64)>,
}

/// Why a journal cannot be used; the transfer then starts again and says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    pub fn parse(text: &[u8]) -> Result<Journal, Error> {
        if text.len() as u64 > MAX_BYTES {
            return Err(Error::Damaged("it is too large"));
        }
        let line =
            text.iter().position(|byte| *byte == b'\n').ok_or(Error::Damaged("it has no first line"))?;
        let (first, body) = (&text[..line], &text[line + 1..]);
        let first = std::str::from_utf8(first).map_err(|_| Error::Damaged("its first line is not text"))?;
        let mut words = first.split(' ');
        if words.next() != Some("weir-journal") {
            return Err(Error::Damaged("it does not start with weir-journal"));
        }
        let found =
            words.next().and_then(|word| word.parse().ok()).ok_or(Error::Damaged("it names no version"))?;
        if found != VERSION {
            return Err(Error::Version { found });
        }
        let sum = words
            .next()
            .and_then(|word| word.strip_prefix("crc32c="))
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .ok_or(Error::Damaged("it names no checksum"))?;
        if crc32c::crc32c(body) != sum {
            return Err(Error::Damaged("its checksum does not match"));
        }
        let journal: Journal =
            serde_json::from_slice(body).map_err(|_| Error::Damaged("its fields are not as expected"))?;
        if !journal.ranges_are_sound() {
            return Err(Error::Damaged("its ranges are not in order or outside the file"));
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

    /// Reads the journal at `path`; `None` when there is none.
    pub fn read(path: &Path) -> Result<Option<Journal>, Error> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::Read(error)),
        };
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(Error::Read)?;
        Journal::parse(&text).map(Some)
    }

    /// Puts this journal in the place of the one at `path`, atomically. `durable` also waits for the disk.
    pub fn store(&self, path: &Path, durable: bool) -> io::Result<()> {
        let beside = beside(path);
        // URLs may carry tokens: for the owner alone.
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        let written =
            file.write_all(&self.to_text()).and_then(|()| if durable { file.sync_all() } else { Ok(()) });
        written.and_then(|()| fs::rename(&beside, path)).inspect_err(|_| drop(fs::remove_file(&beside)))
    }

    /// Removes the journal at `path`.
    pub fn remove(path: &Path) {
        let _ = fs::remove_file(path);
        let _ = fs::remove_file(beside(path));
    }

    /// The version that every part is of.
    pub fn version(&self) -> Version {
        Version::from_journal(self.etag.as_deref(), self.last_modified.as_deref(), &self.place)
    }

    /// What may be trusted now.
    pub fn stored(&self) -> RangeSet {
        let ranges = if self.boot == boot_id() { &self.written } else { &self.durable };
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

/// This boot's id; where it cannot be read one that no other run has, so that only `durable` is ever trusted by a later one.
pub fn boot_id() -> String {
    match fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Ok(id) => id.trim().to_owned(),
        Err(_) => format!("unknown-{}", fastrand::u64(..)),
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("~");
    PathBuf::from(name)
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
            size: 100,
            boot: boot_id(),
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
            assert!(matches!(Journal::parse(&text), Err(Error::Damaged(_))));
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
