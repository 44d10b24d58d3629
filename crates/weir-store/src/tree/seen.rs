//! Names that were in a list, in eight bytes each and of bounded memory: whoever asks later whether a name
//! was among them needs neither the list again nor its order.
//!
//! Digests are gathered until they fill [`RUN`], then sorted and written to a file that has no name; a
//! question is a read of 4 KiB in each of these runs. Two names that share a digest keep each other, which
//! loses nothing. `tree/up.rs` refuses a file whose name shares one of an earlier source: of ten million
//! names of each that happens once in 180 thousand copies (64 bits, under a key drawn anew in each run), and
//! that file is told as failed.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;

use crate::upload::source::unnamed_file;

/// Digests of a run: 8 MB in memory, of ten million names there are ten runs.
const RUN: usize = 1 << 20;

/// Digests of a block of 4 KiB, of which the first is kept in memory: 16 KiB of a run.
const BLOCK: usize = 512;

/// The set.
pub struct SeenNames {
    /// The list may have more than it has said: what is not in the set may be in it all the same.
    pub may_lack: bool,
    hasher: RandomState,
    most: usize,
    fresh: Vec<u64>,
    is_sorted: bool,
    spilled: Option<File>,
    runs: Vec<Run>,
}

struct Run {
    /// In digests from the beginning of the file.
    start: u64,
    len: usize,
    /// The first digest of each block.
    firsts: Vec<u64>,
}

impl Default for SeenNames {
    fn default() -> SeenNames {
        SeenNames::of_runs(RUN)
    }
}

impl SeenNames {
    fn of_runs(most: usize) -> SeenNames {
        let (hasher, fresh) = (RandomState::new(), Vec::new());
        SeenNames { may_lack: false, hasher, most, fresh, is_sorted: true, spilled: None, runs: Vec::new() }
    }

    /// One more.
    pub fn insert(&mut self, name: &[u8]) -> io::Result<()> {
        let digest = self.hasher.hash_one(name);
        self.fresh.push(digest);
        self.is_sorted = false;
        if self.fresh.len() >= self.most { self.spill() } else { Ok(()) }
    }

    /// Whether it was inserted.
    pub fn contains(&mut self, name: &[u8]) -> io::Result<bool> {
        if !self.is_sorted {
            self.fresh.sort_unstable();
            self.is_sorted = true;
        }
        let digest = self.hasher.hash_one(name);
        if self.fresh.binary_search(&digest).is_ok() {
            return Ok(true);
        }
        let Some(file) = &self.spilled else { return Ok(false) };
        for run in &self.runs {
            if run.contains(file, digest)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn spill(&mut self) -> io::Result<()> {
        self.fresh.sort_unstable();
        self.fresh.dedup();
        // Many names of one folder: there may be room again.
        if self.fresh.len() <= self.most / 2 {
            return Ok(());
        }
        let start = self.runs.last().map_or(0, |run| run.start + run.len as u64);
        let bytes: Vec<u8> = self.fresh.iter().flat_map(|digest| digest.to_le_bytes()).collect();
        let file = match &self.spilled {
            Some(file) => file,
            None => self.spilled.insert(spill_file()?),
        };
        file.write_all_at(&bytes, start * 8)?;
        let firsts = self.fresh.iter().step_by(BLOCK).copied().collect();
        self.runs.push(Run { start, len: self.fresh.len(), firsts });
        self.fresh.clear();
        self.is_sorted = true;
        Ok(())
    }
}

impl Run {
    fn contains(&self, file: &File, digest: u64) -> io::Result<bool> {
        let Some(block) = self.firsts.partition_point(|first| *first <= digest).checked_sub(1) else {
            return Ok(false);
        };
        let len = BLOCK.min(self.len - block * BLOCK);
        let mut bytes = [0; BLOCK * 8];
        let bytes = &mut bytes[..len * 8];
        file.read_exact_at(bytes, (self.start + (block * BLOCK) as u64) * 8)?;
        Ok(bytes.chunks_exact(8).any(|own| own == digest.to_le_bytes()))
    }
}

fn spill_file() -> io::Result<File> {
    unnamed_file().map_err(|error| {
        let (folder, why) = (std::env::temp_dir(), weir_units::plain(&error));
        let folder = folder.display();
        let why = format!("cannot keep a list of names in {folder}: {why}; name another folder (TMPDIR)");
        io::Error::new(error.kind(), why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_memory_and_in_runs() {
        let mut seen = SeenNames::of_runs(1000);
        let name = |number: usize| format!("folder/{number}").into_bytes();
        for number in 0..5500 {
            seen.insert(&name(number)).unwrap();
            seen.insert(b"folder").unwrap();
        }
        assert!(seen.runs.len() >= 5, "{}", seen.runs.len());
        assert!((0..5500).all(|number| seen.contains(&name(number)).unwrap()));
        assert!(seen.contains(b"folder").unwrap());
        assert!((5500..7000).all(|number| !seen.contains(&name(number)).unwrap()));
    }
}
