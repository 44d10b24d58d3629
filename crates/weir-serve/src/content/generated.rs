//! How are files of any size served without a disk?

use std::io;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};

use weir_http::request_target::Path as Target;

use super::{Entry, File, Item, Resolve, media_type, sort};
use crate::source::Source;

/// The pattern repeats after this many bytes: the largest prime below 1 MiB.
///
/// A prime, so that a transfer which puts a piece in the wrong place is caught: pieces are multiples of a
/// power of two apart, and with a period of exactly 1 MiB all of them would look alike.
pub const PATTERN_PERIOD: u64 = 1_048_573;

/// Files of given sizes whose bytes are the pattern.
pub(crate) struct Generated {
    files: Vec<(String, u64)>,
    /// One period in memory, so that `sendfile` works on it as on any file.
    pattern: Arc<std::os::fd::OwnedFd>,
}

/// When the pattern was last changed: 2026-01-01. Its bytes are the same in every process, so its date is
/// too: a client that compares both validators would else take a server that was started anew for one with
/// other bytes.
const MADE: i64 = 1_767_225_600;

/// Fills a buffer with the bytes that every generated file has from `offset` on, for checking what arrived.
///
/// The bytes look random (they do not compress below one period) and are the same in every version of weir.
pub fn fill_pattern(offset: u64, buffer: &mut [u8]) {
    for (position, byte) in (offset..).zip(buffer) {
        let position = position % PATTERN_PERIOD;
        *byte = mix(position / 8).to_le_bytes()[(position % 8) as usize];
    }
}

/// The output function of SplitMix64 (Steele, Lea and Flood, 2014): eight pattern bytes from their position.
fn mix(index: u64) -> u64 {
    let mut z = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Generated {
    pub(crate) fn new(files: &[(String, u64)]) -> io::Result<Generated> {
        let pattern = memfd_create("weir-pattern", MemfdFlags::CLOEXEC)?;
        let mut bytes = vec![0; PATTERN_PERIOD as usize];
        fill_pattern(0, &mut bytes);
        let mut pattern = std::fs::File::from(pattern);
        io::Write::write_all(&mut pattern, &bytes)?;
        Ok(Generated { files: files.to_vec(), pattern: Arc::new(pattern.into()) })
    }

    fn listing(&self) -> Vec<Item> {
        let item = |(name, size): &(String, u64)| Item {
            name: name.clone().into_bytes(),
            is_directory: false,
            size: *size,
            modified: super::http_time(MADE),
        };
        let mut items: Vec<Item> = self.files.iter().map(item).collect();
        sort(&mut items);
        items
    }
}

impl Resolve for Generated {
    fn resolve(&self, target: &Target) -> Entry {
        if target.bytes.is_empty() {
            return Entry::Folder;
        }
        let found = self.files.iter().find(|(name, _)| name.as_bytes() == target.bytes && !target.slash);
        let Some((name, size)) = found else { return Entry::Absent };
        Entry::File(File {
            source: Source::repeated(self.pattern.clone(), PATTERN_PERIOD),
            len: *size,
            modified: super::http_time(MADE),
            date_proves: true,
            // The size is all that tells one generated file from another, in every run of the server.
            tag: format!("\"weir-pattern-1-{size:x}\""),
            media_type: media_type::of(name.as_bytes()),
        })
    }

    fn list(&self, _: &Target) -> Entry {
        Entry::Listing(self.listing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_is_fixed_and_addressable() {
        let mut whole = vec![0; 3 * PATTERN_PERIOD as usize];
        fill_pattern(0, &mut whole);
        for offset in [1, 7, 8, 1000, PATTERN_PERIOD - 3, PATTERN_PERIOD, 2 * PATTERN_PERIOD - 20] {
            let mut part = [0; 40];
            fill_pattern(offset, &mut part);
            assert_eq!(part[..], whole[offset as usize..][..40], "offset {offset}");
        }
        assert_eq!(
            whole[..8],
            0xe220_a839_7b1d_cdaf_u64.to_le_bytes(),
            "as published for SplitMix64 with seed 0"
        );
        assert_ne!(whole[..1 << 20], whole[1 << 20..][..1 << 20], "neighbouring mebibytes differ");
    }
}
