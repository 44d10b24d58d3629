//! Bytes that came before their turn, kept in order. Pure: no file, no lock.

use std::collections::BTreeMap;
use std::io::IoSlice;

/// Capacity of one buffer: a write call of this size costs little, and 128 of them make up the whole window.
const CHUNK: usize = 256 << 10;

/// What lanes brought ahead of the next byte.
///
/// Neighbours share a buffer, so that many small pieces take no more memory than their bytes and one unfilled
/// tail a lane; buffers are used again rather than given back to the system page by page.
#[derive(Debug, Default)]
pub struct ReadAhead {
    kept: BTreeMap<u64, Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl ReadAhead {
    /// Keeps a copy of `pieces`, which begin at `offset`.
    pub fn keep(&mut self, mut offset: u64, pieces: &[IoSlice<'_>]) {
        for piece in pieces {
            let mut rest: &[u8] = piece;
            while !rest.is_empty() {
                let tail = self.tail_before(offset);
                let (now, later) = rest.split_at(rest.len().min(CHUNK - tail.len()));
                tail.extend_from_slice(now);
                offset += now.len() as u64;
                rest = later;
            }
        }
    }

    /// The buffer that begins at `offset`, if there is one.
    pub fn take(&mut self, offset: u64) -> Option<Vec<u8>> {
        self.kept.remove(&offset)
    }

    /// A taken buffer has been used.
    pub fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.spare.push(buffer);
    }

    /// The buffer that the byte at `offset` goes to: the one that ends there and has room, else a new one.
    fn tail_before(&mut self, offset: u64) -> &mut Vec<u8> {
        let ends_here =
            |start: u64, bytes: &Vec<u8>| start + bytes.len() as u64 == offset && bytes.len() < CHUNK;
        let before = self.kept.range(..offset).next_back();
        let start =
            before.filter(|(start, bytes)| ends_here(**start, bytes)).map_or(offset, |(start, _)| *start);
        let spare = &mut self.spare;
        self.kept.entry(start).or_insert_with(|| spare.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(ahead: &mut ReadAhead, offset: u64, bytes: &[u8]) {
        ahead.keep(offset, &[IoSlice::new(bytes)]);
    }

    #[test]
    fn neighbours_share_a_buffer_and_strangers_do_not() {
        let mut ahead = ReadAhead::default();
        keep(&mut ahead, 100, b"ab");
        keep(&mut ahead, 200, b"xy");
        keep(&mut ahead, 102, b"cd");
        assert_eq!(ahead.take(102), None);
        assert_eq!(ahead.take(100).as_deref(), Some(&b"abcd"[..]));
        assert_eq!(ahead.take(200).as_deref(), Some(&b"xy"[..]));
        assert_eq!(ahead.take(200), None);
    }

    #[test]
    fn large_pieces_fill_buffers_one_after_the_other() {
        let bytes: Vec<u8> = (0..3 * CHUNK + 7).map(|at| at as u8).collect();
        let mut ahead = ReadAhead::default();
        ahead.keep(5, &[IoSlice::new(&bytes[..CHUNK - 1]), IoSlice::new(&bytes[CHUNK - 1..])]);
        let (mut at, mut found) = (5, Vec::new());
        while let Some(buffer) = ahead.take(at) {
            at += buffer.len() as u64;
            found.extend_from_slice(&buffer);
            ahead.give_back(buffer);
        }
        assert!(found == bytes);
        assert_eq!(ahead.spare.len(), 4, "buffers wait for their next use");
    }
}
