//! Cuts that the content decides: FastCDC.
//!
//! W. Xia et al., "FastCDC: a Fast and Efficient Content-Defined Chunking Approach for Data Deduplication", USENIX ATC 2016:
//! a gear hash (one shift and one addition a byte, so that a byte's influence is gone after 64 of them), no cut below a
//! smallest length, and normalised chunking: cuts are made rare before the normal length and frequent after it, so that
//! lengths lie close around it. Both sides of a copy must cut alike: the table and the masks are part of the protocol.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::error::Error;
use crate::name::Name;

/// Bytes of a digest that are kept: two chunks out of 2^40 are alike by accident with a probability of 2^-49, and the whole
/// file's digest is checked after all.
pub(super) const DIGEST: usize = 16;

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// Longest chunk in normal lengths. After the normal length a cut comes with probability 2 / normal at each byte, so that
/// one in e^14 chunks of random data gets here.
const LONGEST: u64 = 8;

/// By how many bits the masks before and after the normal length differ from its log2. The paper prefers 2, for lengths
/// that vary less; but the rarer the cuts are before the normal length, the longer it takes two versions to fall into step
/// after a change: 2.1 chunks with 2 bits, 1.5 with 1.
const NORMALISATION: u32 = 1;

/// 256 random numbers, one a byte value: the first outputs of SplitMix64 (Steele et al., "Fast Splittable Pseudorandom
/// Number Generators", OOPSLA 2014) from seed 0.
static GEAR: [u64; 256] = gear();

const fn gear() -> [u64; 256] {
    let mut table = [0; 256];
    let (mut state, mut index) = (0u64, 0);
    while index < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[index] = word ^ (word >> 31);
        index += 1;
    }
    table
}

/// A chunk of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub length: u32,
    pub digest: [u8; DIGEST],
}

/// Finds the cuts in bytes that come in pieces of any size.
#[derive(Debug)]
struct Cutter {
    shortest: u64,
    normal: u64,
    longest: u64,
    /// Masks for cuts before and after the normal length.
    rare: u64,
    frequent: u64,
    /// Of the chunk under way.
    length: u64,
    hash: u64,
}

/// Longest chunk for a normal length of `1 << bits`.
pub(super) fn longest(bits: u32) -> u64 {
    LONGEST << bits
}

impl Cutter {
    fn new(bits: u32) -> Cutter {
        // The high bits of a gear hash depend on the most bytes.
        let high = |bits: u32| !0u64 << (64 - bits);
        let (shortest, normal) = (1 << (bits - 2), 1 << bits);
        let (rare, frequent) = (high(bits + NORMALISATION), high(bits - NORMALISATION));
        Cutter { shortest, normal, longest: longest(bits), rare, frequent, length: 0, hash: 0 }
    }

    /// Takes bytes up to a cut: how many belong to this chunk, and whether it ends there.
    fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut used = 0;
        for (end, mask) in
            [(self.shortest, None), (self.normal, Some(self.rare)), (self.longest, Some(self.frequent))]
        {
            let span = end.saturating_sub(self.length).min((bytes.len() - used) as u64) as usize;
            let found = mask.and_then(|mask| self.scan(&bytes[used..used + span], mask));
            used += found.unwrap_or(span);
            self.length += found.unwrap_or(span) as u64;
            if found.is_some() {
                return (used, true);
            }
        }
        (used, self.length == self.longest)
    }

    fn scan(&mut self, bytes: &[u8], mask: u64) -> Option<usize> {
        let mut hash = self.hash;
        for (index, byte) in bytes.iter().enumerate() {
            hash = (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
            if hash & mask == 0 {
                return Some(index + 1);
            }
        }
        self.hash = hash;
        None
    }

    fn restart(&mut self) {
        self.length = 0;
        self.hash = 0;
    }
}

/// Reads all of `file` and hands its chunks to `each`, until that says stop. Returns the bytes read.
pub(super) fn read(
    file: &File,
    name: &Name,
    bits: u32,
    mut each: impl FnMut(Chunk) -> bool,
) -> Result<u64, Error> {
    let mut cutter = Cutter::new(bits);
    let mut digest = blake3::Hasher::new();
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    let mut finish = |cutter: &mut Cutter, digest: &mut blake3::Hasher| {
        let mut chunk = Chunk { length: cutter.length as u32, digest: [0; DIGEST] };
        chunk.digest.copy_from_slice(&digest.finalize().as_bytes()[..DIGEST]);
        digest.reset();
        cutter.restart();
        each(chunk)
    };
    loop {
        let length = match file.read_at(&mut buffer, at) {
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(Error::Entry { action: "read", name: name.clone(), source }),
        };
        at += length as u64;
        let mut rest = &buffer[..length];
        while !rest.is_empty() {
            let (used, cut) = cutter.take(rest);
            digest.update(&rest[..used]);
            rest = &rest[used..];
            if cut && !finish(&mut cutter, &mut digest) {
                return Ok(at);
            }
        }
        if length == 0 {
            if cutter.length > 0 {
                finish(&mut cutter, &mut digest);
            }
            return Ok(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(bits: u32, bytes: &[u8], piece: usize) -> Vec<u64> {
        let mut cutter = Cutter::new(bits);
        let mut lengths = Vec::new();
        for mut piece in bytes.chunks(piece) {
            while !piece.is_empty() {
                let (used, cut) = cutter.take(piece);
                piece = &piece[used..];
                if cut {
                    lengths.push(cutter.length);
                    cutter.restart();
                }
            }
        }
        lengths
    }

    #[test]
    fn lengths_lie_around_the_normal_one_however_the_bytes_come() {
        let mut random = fastrand::Rng::with_seed(1);
        let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(8 << 20).collect();
        let lengths = cuts(12, &bytes, bytes.len());
        let mean = lengths.iter().sum::<u64>() / lengths.len() as u64;
        assert!((4096..5500).contains(&mean), "{mean}");
        assert!(lengths.iter().all(|length| (1024..=8 * 4096).contains(length)));
        for piece in [1, 63, 1000, 65536] {
            assert_eq!(cuts(12, &bytes, piece), lengths, "in pieces of {piece}");
        }
    }

    #[test]
    fn the_table_is_the_protocols() {
        // SplitMix64's published first output for seed 0.
        assert_eq!(GEAR[0], 0xe220_a839_7b1d_cdaf);
        let sum = GEAR.iter().fold(0u64, |sum, word| sum.rotate_left(1) ^ word);
        assert_eq!(sum, 13_677_615_894_126_629_790);
    }
}
