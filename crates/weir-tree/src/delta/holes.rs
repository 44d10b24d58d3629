//! Holes of a file that is cut into chunks. What lies in them is all alike: a chunk of it is read once, and a
//! terabyte takes no longer than to count its chunks.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;

use super::chunks::{Chunk, DIGEST};
use crate::source;

/// Digests that are kept: chunks of zeros have one length, and only a signature that lies has many.
const KEPT: usize = 1024;

/// Where the holes of a file are, as far as somebody has asked, and what is known of bytes in them.
#[derive(Debug)]
pub(super) struct Holes<'a> {
    file: &'a File,
    /// The file's own end.
    end: u64,
    known: Range<u64>,
    is_hole: bool,
    /// The chunk that begins at a place with room for the longest, by that length and the seed of its digest.
    chunk: Option<((u64, u64), Chunk)>,
    digests: HashMap<(u32, u64), [u8; DIGEST]>,
}

impl<'a> Holes<'a> {
    /// Of this file. One that tells no size has none.
    pub fn new(file: &'a File) -> Holes<'a> {
        let end = file.metadata().map_or(0, |there| there.len());
        Holes { file, end, known: 0..0, is_hole: false, chunk: None, digests: HashMap::new() }
    }

    /// Whether so many bytes at `at` all lie in one. Uses the position of the file.
    pub fn have(&mut self, at: u64, length: u64) -> bool {
        if !self.known.contains(&at) {
            let next = if at < self.end { source::next_data(self.file, at, self.end).ok() } else { None };
            (self.is_hole, self.known) = match next {
                Some(Some(data)) if data.start > at => (true, at..data.start),
                Some(Some(data)) => (false, at..data.end),
                Some(None) => (true, at..self.end),
                // What cannot be asked is read.
                None => (false, at..u64::MAX),
            };
        }
        self.is_hole && at.checked_add(length).is_some_and(|end| end <= self.known.end)
    }

    /// The chunk that begins where there is room for the longest one.
    pub fn chunk(&self, longest: u64, seed: u64) -> Option<Chunk> {
        self.chunk.filter(|(key, _)| *key == (longest, seed)).map(|(_, chunk)| chunk)
    }

    /// Takes in what such a chunk turned out to be.
    pub(crate) fn learn_chunk(&mut self, longest: u64, seed: u64, chunk: Chunk) {
        self.chunk = Some(((longest, seed), chunk));
    }

    /// The digest of so many bytes in them.
    pub fn digest(&self, length: u32, seed: u64) -> Option<[u8; DIGEST]> {
        self.digests.get(&(length, seed)).copied()
    }

    /// Takes in what that turned out to be.
    pub(crate) fn learn_digest(&mut self, length: u32, seed: u64, digest: [u8; DIGEST]) {
        if self.digests.len() < KEPT {
            self.digests.insert((length, seed), digest);
        }
    }
}
